"""Formats of tables: CSV, Parquet and JSON Lines."""

from __future__ import annotations

import csv
import io
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet

from pril.errors import RowError, naming_file, shown
from pril.tables.cells import (
    BRACKET,
    NUMBER,
    POINT_NUMBER,
    TEXT,
    read_words,
    schema_without_views,
    with_nulls,
    without_views,
    written_type,
)
from pril.tables.csv_style import USUAL_CSV, CsvStyle, Transcoded
from pril.tables.files import CopyBlock, Table, TableError, explaining
from pril.tables.json_lines import (
    common_type,
    first_types,
    read_objects,
    split_lines,
    to_column,
    whole_types,
)
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


class Parquet(Table):
    """Parquet files."""

    about = "Parquet, columns have the types in the file"

    def _open(self, file: Path) -> pa.parquet.ParquetFile:
        with explaining(lambda: f"{self.name_of(file)} is damaged, or not a Parquet file"):
            # Read pages one by one: a row group may be larger than memory.
            source = file if isinstance(file, Path) else file.open()
            return pa.parquet.ParquetFile(source, pre_buffer=False, buffer_size=READ_BYTES)

    def _infer(self) -> pa.Schema:
        self._counts: dict[Path, int] = {}
        schemas = []
        for file in self.files:
            with self._open(file) as opened:
                self._counts[file] = opened.metadata.num_rows
                schemas.append(opened.schema_arrow)
            if not schemas[-1].equals(schemas[0]):
                own, first = (set(map(_in_words, schemas[k])) for k in (-1, 0))
                differing = own ^ first
                raise TableError(
                    f"{self.name_of(file)} has other columns or types than {self.files[0]}: "
                    f"{'; '.join(sorted(differing)) or 'in another order'}"
                )
        return schema_without_views(schemas[0])

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self._counts.values())

    def _n_rows(self, file: Path) -> int:
        return self._counts[file]

    def pieces(self, rows: int = 1 << 20) -> list[tuple[Path, int, int | None]]:
        """Return file, first row and number of rows of whole row groups."""
        pieces: list[tuple[Path, int, int | None]] = []
        for file in self.files:
            with self._open(file) as opened:
                groups = [opened.metadata.row_group(k) for k in range(opened.num_row_groups)]
            first = last = 0
            for group in groups:
                if last > first and last + group.num_rows - first > rows:
                    pieces.append((file, first, last - first))
                    first = last
                last += group.num_rows
            pieces.append((file, first, last - first))
        return pieces

    def _read(
        self, file: Path, columns: list[str], start: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        with self._open(file) as opened, explaining(lambda: f"{self.name_of(file)} is damaged"):
            row, groups = 0, list(range(opened.num_row_groups))
            while groups and row + opened.metadata.row_group(groups[0]).num_rows <= start:
                row += opened.metadata.row_group(groups.pop(0)).num_rows
            # No more threads: this code already runs beside the thread that learns.
            for batch in opened.iter_batches(
                self.block_rows, row_groups=groups, columns=columns, use_threads=False
            ):
                # For "q.b", pyarrow also returns the field b of a struct q: select.
                yield row, without_views(batch.select(columns))
                row += batch.num_rows


# --- Text ----------------------------------------------------------------------------------------


def _in_words(field: pa.Field) -> str:
    """Return the name and the type of a column, as in x: int64."""
    return f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"


class TextTable(Table):
    """Files of text, which are read in blocks of whole rows."""

    def _split(self, stream: IO[bytes]) -> Iterator[bytes]:
        return line_blocks(stream)

    def _open(self, file: Path) -> Any:
        """Return the bytes of a file, decompressed, as UTF-8."""
        return open_text(file)

    def _parsed(self, file: Path, parse: Callable[[bytes], Any]) -> Iterator[tuple[int, Any]]:
        """Yield the first row of each block of a file, and what `parse` makes of the block.

        That has a length, the number of rows. A RowError names the row in the block.
        """
        row, name = 0, self.name_of(file)
        try:
            with (
                explaining(lambda: f"{name}, after row {row}"),
                naming_file(name),
                closing(self._open(file)) as stream,
            ):
                for block in self._split(stream):
                    rows = parse(block)
                    yield row, rows
                    row += len(rows)
        except RowError as error:
            place = f"{name}, row {row + error.row + 1}"
            raise TableError(f"{place}: {error.reason}", error.hint) from None

    @abstractmethod
    def _batch(self, block: bytes, columns: list[str]) -> pa.RecordBatch:
        """Return the rows of a block."""

    def _read(
        self, file: Path, columns: list[str], start: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        return self._parsed(file, lambda block: self._batch(block, columns))


class Csv(TextTable):
    """CSV files with a header; cells come as text, numbers among them written with a point."""

    about = "CSV with commas, the first value of a column tells numbers from words"
    is_typed = False

    def __init__(self, *arguments: Any, style: CsvStyle = USUAL_CSV, **named: Any) -> None:
        self.style = style
        super().__init__(*arguments, **named)

    @property
    def delimiter(self) -> str:
        """What separates cells."""
        return self.style.delimiter

    @property
    def kind(self) -> Callable[..., Table]:
        """Make other tables that are read in the same way."""
        return partial(type(self), style=self.style)

    @property
    def style_note(self) -> dict[str, str] | None:
        """How numbers and text are written, for a model file; None if that is as usual."""
        return self.style.to_note()

    def _open(self, file: Path) -> Any:
        stream = super()._open(file)
        return stream if self.style.is_utf8 else Transcoded(stream, self.style.encoding)

    def _split(self, stream: IO[bytes]) -> Iterator[bytes]:
        blocks = csv_blocks(stream, self.delimiter)
        self._header = self._rows(next(blocks, b""))
        return blocks

    def read_as_words(self, names: Iterable[str]) -> None:
        """Read columns as words, even if they hold numbers: leave them as they are written."""
        self.schema = _with_words(self.schema, names)

    def blocks(
        self, columns: list[str] | None = None, start: int = 0
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return blocks as in `Table`; numbers are written with a point."""
        for row, block in super().blocks(columns, start):
            yield row, self._with_points(row, block)

    def _with_points(self, first: int, block: pa.RecordBatch) -> pa.RecordBatch:
        """Return a block whose columns of numbers have a point and no groups of digits."""
        if self.style.has_points:
            return block
        with self.naming_rows(first):
            for j, name in enumerate(block.schema.names):
                if self.schema.field(name).type == NUMBER and name not in self.partitions:
                    cells = self.style.with_points(block.column(j), name)
                    block = block.set_column(j, name, cells)
        return block

    def _rows(self, block: bytes) -> list[list[str]]:
        """Return the rows of a block, read by the standard library: slow, but it names the row."""
        csv.field_size_limit(LONGEST_ROW)
        text = io.StringIO(block.decode(errors="surrogateescape"), newline="")
        return [cells for cells in csv.reader(text, delimiter=self.delimiter, strict=True) if cells]

    def _batch(self, block: bytes, columns: list[str] | None) -> pa.RecordBatch:
        [names] = self._header
        # pyarrow looks for each of these columns among all: its time grows with their square.
        chosen = columns if columns is not None and len(columns) < 1000 else None
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(block),
                pa.csv.ReadOptions(column_names=names, block_size=len(block) + 1),
                pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, TEXT),
                    check_utf8=False,
                    include_columns=chosen,
                ),
            )
        except pa.ArrowInvalid:
            for row, cells in enumerate(self._rows(block)):
                if len(cells) != len(names):
                    reason = f"{len(cells)} cells where the header has {len(names)}"
                    start = self.delimiter.join(cells)[:60]
                    raise RowError("X", row, f"{reason}: {start!r}") from None
            raise
        table = table if columns is chosen else table.select(columns)
        [batch] = table.to_batches() or [pa.RecordBatch.from_pylist([], table.schema)]
        return batch

    def _infer(self) -> pa.Schema:
        headers = [self._read_header(file) for file in self.files]
        for file, header in zip(self.files, headers, strict=True):
            if header != headers[0]:
                raise TableError(f"{self.name_of(file)} has other columns than {self.files[0]}")
        self._check_names(headers[0])
        unknown, n_rows = list(headers[0]), 0
        types: dict[str, pa.DataType] = {}

        def parse(block: bytes) -> pa.RecordBatch:
            batch = self._batch(block, None)
            read = self.style.read_numbers
            found = {name: written_type(batch.column(name), name, read) for name in unknown}
            types.update({name: kind for name, kind in found.items() if kind != pa.null()})
            return batch

        for file in self.files:
            for _, batch in self._parsed(file, parse):
                n_rows += batch.num_rows
                unknown = [name for name in unknown if name not in types]
                if not unknown:
                    break
        if n_rows == 0:
            raise TableError(f"{self.name} has a header, but no rows")
        return pa.schema([(name, types.get(name, pa.null())) for name in headers[0]])

    def _read_header(self, file: Path) -> list[str]:
        name = self.name_of(file)
        try:
            next(self._parsed(file, lambda _: ""), None)
            header = self._header[0] if self._header else []
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
            mark = {",": "commas", "\t": "tabs"}.get(self.delimiter, repr(self.delimiter))
            raise TableError(
                f"{name}: the header is one name, {shown(header[0])}, if cells are separated by "
                f"{mark}",
                hint="delimiter",
            )
        return header

    def blocks_to_copy(self, columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
        """Return blocks as in `Table`; for a format with types, a column of numbers is a number."""
        for name in columns:
            self.check_column(name)
        if format in ("csv", "tsv"):
            for row, block in super().blocks():  # as they are written
                yield row, self._with_points(row, block), block
            return
        types = {one.name: pa.null() if one.type == NUMBER else TEXT for one in self.schema}
        for row, block in self.blocks():
            with self.naming_rows(row):
                for name, kind in types.items():
                    words = read_words(block.column(name), name)
                    types[name] = common_type(kind, _copied_type(words))
        for row, block in self.blocks():
            cells = {name: _typed_cells(block.column(name), types[name]) for name in types}
            yield row, block, pa.RecordBatch.from_pydict(cells)


def _copied_type(words: pa.Array) -> pa.DataType:
    """Return the type of words that may be numbers.

    Codes such as 007, and numbers too long or too large for a float, are text.
    """
    if words.null_count == len(words):
        return pa.null()
    words = pc.ascii_trim_whitespace(words)
    is_number = pc.match_substring_regex(words, POINT_NUMBER)
    is_code = pc.match_substring_regex(words, r"^[+-]?0[0-9]")
    if not pc.all(pc.and_not(is_number, is_code)).as_py():
        return TEXT
    with suppress(pa.ArrowInvalid):
        return pc.cast(words, pa.int64()).type
    is_long = pc.match_substring_regex(words, r"^[+-]?[0-9]{17,}$")
    is_exact = pc.and_not(pc.is_finite(pc.cast(words, NUMBER)), is_long)
    return NUMBER if pc.all(is_exact).as_py() else TEXT


def _typed_cells(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind in (TEXT, pa.null()):
        return with_nulls(cells, pc.equal(cells, ""))
    return pc.cast(pc.ascii_trim_whitespace(read_words(cells, "")), kind)


def _with_words(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """Return the columns, some of which hold words; ignore names that are no columns."""
    for name in set(names) & set(schema.names):
        at = schema.get_field_index(name)
        schema = schema.set(at, schema.field(at).with_type(TEXT))
    return schema


class Tsv(Csv):
    """CSV files with tabs."""

    def __init__(self, *arguments: Any, style: CsvStyle = USUAL_CSV, **named: Any) -> None:
        super().__init__(*arguments, style=style._replace(delimiter="\t"), **named)

    @property
    def style_note(self) -> dict[str, str] | None:
        """The tabs are not kept: they belong to the suffix."""
        return self.style._replace(delimiter=USUAL_CSV.delimiter).to_note()

    about = "CSV with tabs, the first value of a column tells numbers from words"


class JsonLines(TextTable):
    """Files with one JSON object in each line; a missing key is a missing value."""

    about = "JSON Lines, the first value of a column tells numbers from words"

    def _infer(self) -> pa.Schema:
        types: dict[str, pa.DataType] = {}
        n_rows = 0
        for file in self.files:
            for _, rows in self._parsed(file, _objects):
                first_types(rows, types)
                n_rows += len(rows)
        if n_rows == 0:
            raise TableError(f"{self.name} is empty: no rows")
        return pa.schema(types)

    def read_as_words(self, names: Iterable[str]) -> None:
        """Read columns as words, even if they hold numbers."""
        self.schema = _with_words(self.schema, names)

    def read_as_brackets(self, name: str) -> None:
        """Read a column as texts and numbers, and keep a number what it is."""
        at = self.schema.get_field_index(name)
        if at >= 0:
            self.schema = self.schema.set(at, pa.field(name, BRACKET))

    def _batch(self, block: bytes, columns: list[str]) -> pa.RecordBatch:
        lines = split_lines(block)
        schema = pa.schema([self.schema.field(name) for name in columns if name != LINE])
        batch = _columns(read_objects(lines), schema)
        return batch.append_column(LINE, pa.array(lines, RAW)) if LINE in columns else batch

    def blocks_to_copy(self, columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
        """Return blocks as in `Table`; to JSON Lines, the lines are copied unchanged."""
        for name in columns:
            self.check_column(name)
        types: dict[str, pa.DataType] = {}
        if format != "jsonl":
            for file in self.files:
                for _, rows in self._parsed(file, _objects):
                    whole_types(rows, types)
        start = 0
        for batch in self._batches([*columns, LINE], 0):
            lines = batch.column(LINE).to_pylist()
            if format == "jsonl":
                copy = [without_marks(line).decode().strip() for line in lines]
            else:
                with self.naming_rows(start):
                    copy = _columns(read_objects(lines), pa.schema(types), nested=True)
            yield start, batch.select(columns), copy
            start += len(lines)


def _objects(block: bytes) -> list[dict[str, Any]]:
    return read_objects(split_lines(block))


def _columns(
    rows: list[dict[str, Any]], schema: pa.Schema, *, nested: bool = False
) -> pa.RecordBatch:
    cells = [
        to_column([row.get(field.name) for row in rows], field.name, field.type, nested=nested)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(cells, schema=schema)
