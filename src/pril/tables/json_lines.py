"""Lines of JSON as rows and as columns."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from itertools import starmap
from numbers import Real
from struct import Struct, error, pack
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core.brackets import spelled
from pril.errors import LONGEST, MissingExtraError, RowError, shown
from pril.tables.cells import BRACKET, DATE, NUMBER, TEXT, WRITTEN_DATE, common_type, kind_of
from pril.tables.text import without_marks

try:
    import msgspec
except ImportError as missing:  # pragma: no cover - the extra is missing
    raise MissingExtraError("JSON Lines need msgspec", "cli,io") from missing

# isort: split
import pyarrow as pa  # after `cells`, which says what to install if pyarrow is missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

NOT_READ = (msgspec.MsgspecError, RecursionError, ValueError)  # what msgspec raises at bad lines
MOST_DIGITS = 1000  # of an integer; Python refuses to read some thousands
KEY_ENDS = (b'":', b" :", b"\t:", b"\r:", b"\n:")  # a colon in a string seldom follows one of these
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
    """A key occurs twice in a JSON object."""


# --- Rows ----------------------------------------------------------------------------------------


def split_lines(lines: bytes) -> list[bytes]:
    """Return the lines that are not blank."""
    return [line for line in lines.split(b"\n") if line.strip()]


def read_objects(lines: list[bytes]) -> list[dict[str, Any]]:
    """Return the object in each line; refuse a key that occurs twice."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    rows: list[dict[str, Any]] = []
    try:
        rows.extend(map(decode, lines))
        if have_keys(lines, sum(map(len, rows))):
            return rows
    except NOT_READ:
        pass
    for t in range(len(lines)):
        if t >= len(rows) or not have_keys(lines[t : t + 1], len(rows[t])):
            rows[t : t + 1] = [_read_slowly(lines[t], t)]
    return rows


def have_keys(lines: list[bytes], n_keys: int) -> bool:
    """Tell whether lines with this number of different keys have none twice.

    It counts colons. Colons in strings or inner objects may make it return False in vain.
    """
    text = b"\n".join(lines)
    return text.count(b":") == n_keys or sum(map(text.count, KEY_ENDS)) == n_keys


def _read_slowly(line: bytes, row: int) -> dict[str, Any]:
    """Return the object in a line. It accepts more than msgspec does, and says what is wrong."""
    start = shown(line[: 2 * LONGEST].decode(errors="replace"))
    reason = f"not a JSON object: {start}"
    try:
        text = without_marks(line).decode()
        found = json.loads(text, parse_int=_integer, object_pairs_hook=_object)
        if isinstance(found, dict):
            return found
    except UnicodeDecodeError:
        reason = f"not UTF-8: {line[:LONGEST]!r}"
    except RepeatedKeyError as error:
        reason = str(error)
    except (json.JSONDecodeError, RecursionError) as error:
        reason = f"not a JSON object ({error}): {start}"
    raise RowError("X", row, reason)


def _integer(text: str) -> float:
    """Return an integer; one of hundreds of digits is infinite, as it is as a float."""
    return int(text) if len(text) <= MOST_DIGITS else float(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RepeatedKeyError(f"the key {shown(twice)} occurs twice")
    return row


# --- Columns -------------------------------------------------------------------------------------


def to_numbers(values: Sequence[Any], names: Sequence[str], row: int) -> bytes:
    """Return cells as the bytes of floats, NaN for what is missing; true is 1.

    `names` has the column of each, or of all; `row` is that of the first.
    """
    try:
        return pack(f"{len(values)}d", *values)
    except (error, OverflowError):  # a cell is missing, or wrong
        numbers = []
        for k, value in enumerate(values):
            if value is not None and not isinstance(value, Real):
                t, name = (row, names[k]) if len(names) > 1 else (row + k, names[0])
                reason = f"column {name!r} is {shown(value)}, not a number"
                raise RowError("X", t, reason, hint="text") from None
            numbers.append(math.nan if value is None else _float(value))
        return np.array(numbers).tobytes()


def to_matrix(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> NDArray[np.float64]:
    """Return the cells of rows as a matrix of floats."""
    try:
        numbers = b"".join(starmap(Struct(f"{len(names)}d").pack, rows))
    except (error, OverflowError):  # a cell is missing, or wrong
        numbers = b"".join([to_numbers(row, names, t) for t, row in enumerate(rows)])
    return np.frombuffer(numbers).reshape(len(rows), len(names))


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf


def to_text(value: Any, name: str, row: int, *, nested: bool = False) -> str | None:
    """Return a cell of a column of words: a number is written as in JSON."""
    if value is None:
        return None
    if isinstance(value, list | dict) and not nested:
        raise RowError("X", row, f"column {name!r} is {shown(value)}, not text")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        reason = f"column {name!r} is {shown(value)}, an unpaired surrogate"
        raise RowError("X", row, reason) from None
    return text


def to_column(values: list[Any], name: str, kind: pa.DataType, *, nested: bool = False) -> pa.Array:
    """Return a key's values as a column; `nested` says whether inner objects become text."""
    if kind == NUMBER:
        return pa.array(np.frombuffer(to_numbers(values, [name], 0)), from_pandas=True)
    if kind == BRACKET:
        values = [
            spelled(_float(value)) if type(value) in (int, float) else value for value in values
        ]
    if kind in (TEXT, BRACKET):
        values = [to_text(value, name, t, nested=nested) for t, value in enumerate(values)]
    elif kind not in (pa.bool_(), pa.int64()):  # dates and inner objects are never used
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)


def first_types(rows: Iterable[dict[str, Any]], types: dict[str, pa.DataType]) -> None:
    """Add what the first value of each key says of its column: any number is a float."""
    settled = {name for name, kind in types.items() if kind != pa.null()}
    for row in rows:
        if row.keys() <= settled:
            continue
        for name, value in row.items():
            if name not in settled:
                kind = TYPES[type(value)]
                is_date = kind == TEXT and WRITTEN_DATE.fullmatch(value)
                number = NUMBER if kind_of(kind) == "number" else kind
                types[name] = DATE if is_date else number
                if value is not None:
                    settled.add(name)


def whole_types(rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> None:
    """Join the types of columns with those of all their values."""
    for name in dict.fromkeys(name for row in rows for name in row):
        for kind in {_whole_type(row.get(name)) for row in rows}:
            types[name] = common_type(types.get(name, pa.null()), kind)


def _whole_type(value: Any) -> pa.DataType:
    """Return the type of a value; inner objects and long integers are text."""
    is_long = isinstance(value, int) and not -(2**63) <= value < 2**63
    return TEXT if is_long or isinstance(value, list | dict) else TYPES[type(value)]
