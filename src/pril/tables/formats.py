"""Formats of tables: CSV, Parquet and JSON Lines."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pril.errors import RowError, naming_file, shown
from pril.tables.cells import (
    NUMBER,
    TEXT,
    common_type,
    narrowest_type,
    read_words,
    schema_without_views,
    with_nulls,
    without_views,
    written_type,
)
from pril.tables.files import CopyBlock, Format, Table, TableError, explaining
from pril.tables.json_lines import first_types, read_objects, split_lines, to_column, whole_types
from pril.tables.text import (
    LONGEST_ROW,
    READ_BYTES,
    csv_blocks,
    line_blocks,
    open_text,
    without_marks,
)

LINE, RAW = "\0line", pa.large_binary()  # a column with whole lines of JSON, to copy them


# --- Parquet -------------------------------------------------------------------------------------


def _open_parquet(table: Table, file: Any) -> pa.parquet.ParquetFile:
    with explaining(lambda: f"{table.name_of(file)} is damaged, or not a Parquet file"):
        # Read pages one by one: a row group may be larger than memory.
        source = file if isinstance(file, Path) else file.open()
        return pa.parquet.ParquetFile(source, pre_buffer=False, buffer_size=READ_BYTES)


def _parquet_columns(table: Table) -> tuple[pa.Schema, list[list[int]]]:
    schemas, groups = [], []
    for file in table.files:
        with _open_parquet(table, file) as opened:
            schemas.append(opened.schema_arrow)
            rows = opened.metadata.row_group
            groups.append([rows(k).num_rows for k in range(opened.num_row_groups)])
        if not schemas[-1].equals(schemas[0]):
            own, first = (set(map(_in_words, schemas[k])) for k in (-1, 0))
            raise TableError(
                f"{table.name_of(file)} has other columns or types than {table.files[0]}: "
                f"{'; '.join(sorted(own ^ first)) or 'in another order'}"
            )
    return schema_without_views(schemas[0]), groups


def _in_words(field: pa.Field) -> str:
    """Return the name and the type of a column, as in x: int64."""
    return f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"


def _read_parquet(
    table: Table, file: Any, columns: list[str], start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    with (
        _open_parquet(table, file) as opened,
        explaining(lambda: f"{table.name_of(file)} is damaged"),
    ):
        row, groups = 0, list(range(opened.num_row_groups))
        while groups and row + opened.metadata.row_group(groups[0]).num_rows <= start:
            row += opened.metadata.row_group(groups.pop(0)).num_rows
        # No more threads: this code already runs beside the thread that learns.
        for batch in opened.iter_batches(
            table.block_rows, row_groups=groups, columns=columns, use_threads=False
        ):
            # For "q.b", pyarrow also returns the field b of a struct q: select.
            yield row, without_views(batch.select(columns))
            row += batch.num_rows


def _copy_parquet(table: Table, _columns: list[str], _format: str) -> Iterator[CopyBlock]:
    for row, block in table.blocks():
        yield row, block, block


# --- Text ----------------------------------------------------------------------------------------


def _parsed(
    table: Table, file: Any, parse: Callable[[IO[bytes]], Iterator[Any]]
) -> Iterator[tuple[int, Any]]:
    """Yield the rows that `parse` makes of a file, decompressed, in blocks, after their first row.

    A block has a length, the number of rows. A RowError names the row in the block.
    """
    row, name = 0, table.name_of(file)
    try:
        with (
            explaining(lambda: f"{name}, after row {row}"),
            naming_file(name),
            closing(table.style.decoded(open_text(file))) as stream,
        ):
            for rows in parse(stream):
                yield row, rows
                row += len(rows)
    except RowError as error:
        place = f"{name}, row {row + error.row + 1}"
        raise TableError(f"{place}: {error.reason}", error.hint) from None


# --- CSV: cells are text -------------------------------------------------------------------------


def _delimiter(table: Table) -> str:
    return "\t" if table.format.name == "tsv" else table.style.delimiter


def _csv_rows(block: bytes, delimiter: str) -> list[list[str]]:
    """Return the rows of a block, read by the standard library: slow, but it names the row."""
    csv.field_size_limit(LONGEST_ROW)
    text = io.StringIO(block.decode(errors="surrogateescape"), newline="")
    return [cells for cells in csv.reader(text, delimiter=delimiter, strict=True) if cells]


def _csv_batches(
    stream: IO[bytes], delimiter: str, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some columns or all."""
    blocks = csv_blocks(stream, delimiter)
    names = next(iter(_csv_rows(next(blocks, b""), delimiter)), [])
    # pyarrow looks for each of these columns among all: its time grows with their square.
    chosen = columns if columns is not None and len(columns) < 1000 else None
    for block in blocks:
        try:
            table = pa.csv.read_csv(
                # After an empty line, which is skipped: a mark at the very start is dropped.
                pa.BufferReader(b"\n" + block),
                pa.csv.ReadOptions(column_names=names, block_size=len(block) + 2),
                pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, TEXT),
                    check_utf8=False,
                    include_columns=chosen,
                ),
            )
        except pa.ArrowInvalid:
            for row, cells in enumerate(_csv_rows(block, delimiter)):
                if len(cells) != len(names):
                    reason = f"{len(cells)} cells where the header has {len(names)}"
                    start = delimiter.join(cells)[:60]
                    raise RowError("X", row, f"{reason}: {start!r}") from None
            raise
        table = table if columns is chosen else table.select(columns)
        [batch] = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        yield batch


def _read_csv(
    table: Table, file: Any, columns: list[str], _start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    parse = partial(_csv_batches, delimiter=_delimiter(table), columns=columns)
    return _parsed(table, file, parse)


def _csv_columns(table: Table) -> tuple[pa.Schema, list[list[int]]]:
    headers = [_read_header(table, file) for file in table.files]
    for file, header in zip(table.files, headers, strict=True):
        if header != headers[0]:
            raise TableError(f"{table.name_of(file)} has other columns than {table.files[0]}")
    table.check_names(headers[0])
    types, n_rows = dict.fromkeys(headers[0], pa.null()), 0

    def parse(stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        for batch in _csv_batches(stream, _delimiter(table), None):
            for name in [name for name, kind in types.items() if kind == pa.null()]:
                types[name] = written_type(batch.column(name), name, table.style.read_numbers)
            yield batch

    for file in table.files:
        for _, batch in _parsed(table, file, parse):
            n_rows += batch.num_rows
            if pa.null() not in types.values():
                break
    if n_rows == 0:
        raise TableError(f"{table.name} has a header, but no rows")
    return pa.schema(types), []


def _read_header(table: Table, file: Any) -> list[str]:
    name, delimiter = table.name_of(file), _delimiter(table)

    def first_rows(stream: IO[bytes]) -> Iterator[list[list[str]]]:
        yield _csv_rows(next(csv_blocks(stream, delimiter), b""), delimiter)

    try:
        [(_, rows)] = _parsed(table, file, first_rows)
        header: list[str] = rows[0] if rows else []
        for cell in header:
            cell.encode()
    except UnicodeEncodeError as error:
        raw = error.object.encode(errors="surrogateescape")
        said = f"{name}: the header has {shown(raw)}, which is not UTF-8"
        raise TableError(said, hint="encoding") from None
    except csv.Error as error:
        raise TableError(f"{name} cannot be read as CSV: {error}") from None
    if "\0" in "".join(header):
        raise TableError(f"{name}: the header is not UTF-8: is it UTF-16?", hint="encoding")
    if not header:
        raise TableError(f"{name} is empty: a header with the columns' names is missing")
    if len(header) == 1 and re.search("[,;\t|]", header[0]):
        mark = {",": "commas", "\t": "tabs"}.get(delimiter, repr(delimiter))
        raise TableError(
            f"{name}: the header is one name, {shown(header[0])}, if cells are separated by {mark}",
            hint="delimiter",
        )
    return header


def _copy_csv(table: Table, _columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
    """To a format with types, a column of numbers is a number; words stay as they are written."""
    blocks = partial(table.blocks, as_written=True)
    if format in ("csv", "tsv"):
        for row, block in blocks():
            yield row, table.with_points(row, block), block
        return
    types = {one.name: pa.null() if one.type == NUMBER else TEXT for one in table.schema}
    for row, block in blocks():
        used = table.with_points(row, block)
        with table.naming_rows(row):
            for name, kind in types.items():
                words = read_words(pc.ascii_trim_whitespace(used.column(name)), name)
                types[name] = common_type(kind, narrowest_type(words))
    for row, block in blocks():
        used = table.with_points(row, block)
        cells = [
            with_nulls(block.column(name), pc.equal(block.column(name), ""))
            if kind in (TEXT, pa.null())
            else pc.cast(read_words(pc.ascii_trim_whitespace(used.column(name)), name), kind)
            for name, kind in types.items()
        ]
        yield row, used, pa.RecordBatch.from_arrays(cells, list(types))


# --- JSON Lines: a missing key is a missing value ------------------------------------------------


def _lines(stream: IO[bytes]) -> Iterator[list[bytes]]:
    return map(split_lines, line_blocks(stream))


def _objects(table: Table) -> Iterator[list[dict[str, Any]]]:
    """Return all rows of a table, in blocks."""
    for file in table.files:
        for _, rows in _parsed(table, file, lambda stream: map(read_objects, _lines(stream))):
            yield rows


def _json_columns(table: Table) -> tuple[pa.Schema, list[list[int]]]:
    types: dict[str, pa.DataType] = {}
    n_rows = 0
    for rows in _objects(table):
        first_types(rows, types)
        n_rows += len(rows)
    if n_rows == 0:
        raise TableError(f"{table.name} is empty: no rows")
    return pa.schema(types), []


def _read_json(
    table: Table, file: Any, columns: list[str], _start: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    schema = pa.schema([table.schema.field(name) for name in columns if name != LINE])

    def parse(stream: IO[bytes]) -> Iterator[pa.RecordBatch]:
        for lines in _lines(stream):
            batch = _columns_of(read_objects(lines), schema)
            yield batch.append_column(LINE, pa.array(lines, RAW)) if LINE in columns else batch

    return _parsed(table, file, parse)


def _columns_of(
    rows: list[dict[str, Any]], schema: pa.Schema, *, nested: bool = False
) -> pa.RecordBatch:
    cells = [
        to_column([row.get(field.name) for row in rows], field.name, field.type, nested=nested)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(cells, schema=schema)


def _copy_json(table: Table, columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
    """To JSON Lines, the lines are copied unchanged."""
    types: dict[str, pa.DataType] = {}
    if format != "jsonl":
        for rows in _objects(table):
            whole_types(rows, types)
    start = 0
    for batch in table.batches([*columns, LINE]):
        lines = batch.column(LINE).to_pylist()
        if format == "jsonl":
            copy = [without_marks(line).decode().strip() for line in lines]
        else:
            with table.naming_rows(start):
                copy = _columns_of(read_objects(lines), pa.schema(types), nested=True)
        yield start, batch.select(columns), copy
        start += len(lines)


TYPED = "the first value of a column tells numbers from words"
CSV = Format("csv", f"CSV with commas, {TYPED}", _csv_columns, _read_csv, _copy_csv, is_typed=False)
FORMATS = {
    "csv": CSV,
    "tsv": CSV._replace(name="tsv", about=f"CSV with tabs, {TYPED}"),
    "parquet": Format(
        "parquet",
        "Parquet, columns have the types in the file",
        _parquet_columns,
        _read_parquet,
        _copy_parquet,
    ),
    "jsonl": Format("jsonl", f"JSON Lines, {TYPED}", _json_columns, _read_json, _copy_json),
}
