"""JSON Lines as Arrow columns: pyarrow's fast way, and a slow one that knows its rows."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.json

from pril.columns import NUMBER, TEXT, kind_of
from pril.errors import RowError


def split_lines(lines: bytes) -> list[bytes]:
    """Return the lines that are not blank."""
    return [line for line in lines.split(b"\n") if line.strip()]


def parse_json_lines(block: bytes, schema: pa.Schema) -> pa.Table:
    """Return the rows of some lines: the columns of the schema and no others."""
    lines = split_lines(block)
    if not lines:
        return schema.empty_table()
    try:
        table = pa.json.read_json(
            io.BytesIO(block),
            pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1),
            pa.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
        )
        table.validate(full=True)
        if table.num_rows == len(lines):
            return table.select(schema.names)
    except (pa.ArrowException, UnicodeDecodeError):
        pass  # the slow way knows more, and knows its rows
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
        shown = repr(line[:60].decode(errors="replace"))
        try:
            row = json.loads(line)
        except UnicodeDecodeError:
            raise RowError("X", t, f"not UTF-8: {line[:60]!r}") from None
        except (json.JSONDecodeError, RecursionError) as reason:
            raise RowError("X", t, f"not a JSON object ({reason}): {shown}") from None
        if not isinstance(row, dict):
            raise RowError("X", t, f"not a JSON object: {shown}")
        rows.append(row)
    return rows


def _json_cell(value: Any, field: pa.Field, row: int) -> Any:
    """Return a value as its column has it: true is 1 in a column of numbers."""
    kind = kind_of(field.type)
    if value is None or kind not in ("number", "text"):
        return value
    if isinstance(value, str if kind == "text" else int | float):
        return value if kind == "text" else float(value)
    wanted = "a number" if kind == "number" else "text"
    raise RowError("X", row, f"column {field.name!r} is {value!r}, not {wanted}")


def json_types(block: bytes) -> dict[str, pa.DataType]:
    """Return the type of each key's first value in some lines; dates are text."""
    try:
        options = pa.json.ReadOptions(use_threads=False, block_size=len(block) + 1)
        schema = pa.json.read_json(io.BytesIO(block), options).schema
        found = {field.name: field.type for field in schema}
    except (pa.ArrowException, UnicodeDecodeError):
        found = {}
        for row in json_rows(block):
            for name in row:
                if found.get(name, pa.null()) == pa.null():
                    found[name] = json_column([row], name).type
    kinds = {"number": NUMBER, "text": TEXT}
    return {
        name: TEXT if pa.types.is_temporal(kind) else kinds.get(kind_of(kind), kind)
        for name, kind in found.items()
    }


def json_column(rows: list[dict[str, Any]], name: str) -> pa.Array:
    """Return a key's values as a column; as JSON text, if they are of several kinds."""
    values = [row.get(name) for row in rows]
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError):
        return pa.array([None if value is None else json.dumps(value) for value in values])
