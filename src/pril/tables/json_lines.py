"""JSON Lines as Arrow columns: read fast by pyarrow, or slowly, row by row, to name a bad row."""

from __future__ import annotations

import io
import json
import math
import re
from contextlib import suppress
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.json

from pril.errors import LONGEST, RowError, shown
from pril.tables.cells import DATE, TEXT, WRITTEN_DATE, kind_of

DEEPEST = 500  # brackets in a line that pyarrow gets; at thousands of nested ones it crashes
BLANK = b" \t\r\xef\xbb\xbf"  # spaces, and the bytes of a BOM
FEW_LINES = 8  # are read faster by the standard library
COLON = ord(":")
KEY_ENDS = (b'":', b" :", b"\t:", b"\r:", b"\n:")  # a colon in a string seldom follows one of these
MOST_DIGITS = 1000  # of an integer; Python refuses to read some thousands
LONG_NUMBER = re.compile(rb"[:\s-]\d{19}")
COPIED = (pa.null(), pa.bool_(), pa.int64(), pa.float64(), TEXT)
TYPES = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: TEXT,
    list: pa.list_(pa.null()),
    dict: pa.struct([]),
}


class RepeatedKeyError(ValueError):
    """A key is twice in a JSON object."""

    def __init__(self, key: str) -> None:
        super().__init__(f"the key {shown(key)} is there twice")


def check_keys(lines: list[bytes]) -> None:
    """Refuse lines with a key that is there twice: other readers take its last value.

    A line that is not JSON is left to them.
    """
    for t, line in enumerate(lines):
        with suppress(ValueError, TypeError, RecursionError):
            if has_keys([line], len(msgspec.json.decode(line))):
                continue
        try:
            json.loads(line, parse_int=_integer, object_pairs_hook=_object, strict=False)
        except RepeatedKeyError as error:
            raise RowError("X", t, str(error)) from None
        except (ValueError, RecursionError):
            continue


def has_keys(lines: list[bytes], n_keys: int) -> bool:
    """Tell whether lines that have so many different keys each have no others, and none twice.

    It counts colons; a colon in a string may make it say no.
    """
    text, wanted = b"\n".join(lines), n_keys * len(lines)
    colons = (
        text.count(b":")
        if len(lines) <= FEW_LINES
        else np.count_nonzero(np.frombuffer(text, np.uint8) == COLON)
    )
    return colons == wanted or sum(map(text.count, KEY_ENDS)) == wanted


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        raise RepeatedKeyError(next(name for name in names if names.count(name) > 1))
    return row


def split_lines(lines: bytes) -> list[bytes]:
    """Return the lines that are not blank."""
    return [line for line in lines.split(b"\n") if line.strip()]


def parse_json_lines(block: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of some lines: the columns of the schema and no others."""
    lines = split_lines(block)
    if not lines:
        return schema.empty_table()
    try:
        if len(lines) <= FEW_LINES:
            raise pa.ArrowInvalid
        _check_objects(lines)
        table = pa.json.read_json(
            io.BytesIO(block),
            pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)
        if table.num_rows == len(lines):
            return table.select(schema.names)
    except (pa.ArrowException, UnicodeDecodeError):
        pass  # the slow way below accepts more, and its errors name the row
    rows = json_rows(block)
    cells = {
        field.name: [_json_cell(row.get(field.name), field, t) for t, row in enumerate(rows)]
        for field in schema
    }
    return pa.table(cells, schema=schema)


def json_rows(block: bytes) -> list[dict[str, Any]]:
    """Return the objects of some lines, read one by one by the standard library."""
    rows = []
    for t, line in enumerate(split_lines(block)):
        try:
            row = json.loads(line, parse_int=_integer, object_pairs_hook=_object)
        except UnicodeDecodeError:
            raise RowError("X", t, f"not UTF-8: {line[:LONGEST]!r}") from None
        except RepeatedKeyError as error:
            raise RowError("X", t, str(error)) from None
        except (json.JSONDecodeError, RecursionError) as reason:
            raise RowError("X", t, f"not a JSON object ({reason}): {_start(line)}") from None
        if not isinstance(row, dict):
            raise RowError("X", t, f"not a JSON object: {_start(line)}")
        rows.append(row)
    return rows


def _integer(text: str) -> float:
    """Return an integer; one of hundreds of digits is infinite, as it is as a float."""
    return int(text) if len(text) <= MOST_DIGITS else float(text)


def json_texts(block: bytes) -> list[str]:
    """Return the objects of some lines as they are written."""
    texts = []
    for t, line in enumerate(split_lines(block)):
        try:
            text = line.decode("utf-8-sig").strip()
        except UnicodeDecodeError:
            raise RowError("X", t, f"not UTF-8: {line[:LONGEST]!r}") from None
        if not (text.startswith("{") and text.endswith("}")):
            raise RowError("X", t, f"not a JSON object: {_start(line)}")
        texts.append(text)
    return texts


def _start(line: bytes) -> str:
    return shown(line[: 2 * LONGEST].decode(errors="replace"))


def _json_cell(value: Any, field: pa.Field, row: int) -> Any:
    """Return a value as its column's type: true becomes a number, 5 may become a word."""
    kind = kind_of(field.type)
    if value is None or kind not in ("number", "text"):
        return value
    if isinstance(value, int | float):
        return _float(value) if kind == "number" else _text(value, field.name, row)
    if kind == "text" and isinstance(value, str):
        return _text(value, field.name, row)
    wanted = "a number" if kind == "number" else "text"
    reason = f"column {field.name!r} is {shown(value)}, not {wanted}"
    raise RowError("X", row, reason, hint="text" if kind == "number" else None)


def _float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.copysign(math.inf, value)


def _text(value: Any, name: str, row: int) -> str:
    """Return a string unchanged, anything else as JSON."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        reason = f"column {name!r} is {shown(value)}, half of a character"
        raise RowError("X", row, reason) from None
    return text


def json_types(block: bytes) -> tuple[dict[str, pa.DataType], dict[str, pa.DataType]]:
    """Return, for each key in some lines, the type of its first value, and of all its values."""
    lines = split_lines(block)
    try:
        _check_objects(lines)
        if _is_deep(lines) or LONG_NUMBER.search(block):  # pyarrow would crash, or round
            raise pa.ArrowInvalid
        options = pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        table = pa.json.read_json(io.BytesIO(block), options)
        is_full = not any(cells.null_count for cells in table.columns)
        if not (is_full and has_keys(lines, table.num_columns)):
            check_keys(lines)
        whole = {field.name: field.type for field in table.schema}
        return whole, {name: _copied_type(kind) for name, kind in whole.items()}
    except (pa.ArrowException, UnicodeDecodeError):
        pass
    first: dict[str, pa.DataType] = {}
    whole = {}
    for row in json_rows(block):
        for name, value in row.items():
            kind = TYPES[type(value)]
            if first.get(name, pa.null()) == pa.null():
                is_date = kind == TEXT and WRITTEN_DATE.fullmatch(value)
                first[name] = DATE if is_date else kind
            if kind == pa.int64() and not -(2**63) <= value < 2**63:
                kind = TEXT
            whole[name] = common_type(whole.get(name, pa.null()), _copied_type(kind))
    return first, whole


def _check_objects(lines: list[bytes]) -> None:
    """Raise an error of pyarrow for lines that do not begin as objects do.

    pyarrow takes null for an object without keys, and crashes if it comes first.
    """
    if not all(line.lstrip(BLANK)[:1] == b"{" for line in lines):
        raise pa.ArrowInvalid


def _is_deep(lines: list[bytes]) -> bool:
    return any(line.count(b"[") + line.count(b"{") > DEEPEST for line in lines)


def _copied_type(kind: pa.DataType) -> pa.DataType:
    """Return the type to copy values of a type as: nested values and dates become text."""
    return kind if kind in COPIED else TEXT


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type of a column that holds values of two types."""
    if one == other or other == pa.null():
        return one
    if one == pa.null():
        return other
    return pa.float64() if {one, other} == {pa.int64(), pa.float64()} else TEXT


def json_column(rows: list[dict[str, Any]], name: str, kind: pa.DataType) -> pa.Array:
    """Return a key's values as a column."""
    values = [row.get(name) for row in rows]
    if kind == TEXT:
        values = [None if v is None else _text(v, name, t) for t, v in enumerate(values)]
    elif kind == pa.float64():
        values = [None if v is None else _float(v) for v in values]
    return pa.array(values, kind)
