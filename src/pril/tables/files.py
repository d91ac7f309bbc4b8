"""Tables as Arrow batches, one block of rows at a time, and their formats.

A table is one or more files of one format, read in order. In every format its rows come in blocks
of the same size, so that a run can stop after any block and begin again there. Cells of CSV come as
text; the caller decides whether they are numbers or words.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
import io
import warnings
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet
from pyarrow.fs import FileSystem

from pril.core.arrays import Array
from pril.errors import InputError, RowError, naming_file, shown
from pril.tables import arrow, text
from pril.tables.json_lines import first_types, read_objects, split_lines, to_column, whole_types
from pril.tables.text import USUAL_CSV, ByteStream, CsvStyle

BLOCK_ROWS, BLOCK_CELLS, PIECE_ROWS = 1 << 15, 1 << 22, 1 << 20
STDIN_SUFFIX = ".stdin"  # of a temporary file with all of standard input
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # the folder of a missing value
FEW_SAMPLES, MANY_SAMPLES = 5, 256  # of a file, each of text.READ_BYTES

# Called with what is being done, and how many rows of how many; a note says what else is counted.
Watcher = Callable[..., None]
# First row; the columns that are used; all columns, or the lines of JSON, to be written again.
CopyBlock = tuple[int, pa.RecordBatch, "pa.RecordBatch | list[str]"]
Blocks = Iterator[tuple[int, pa.RecordBatch]]  # the first row of each block, and the block
LINE, RAW = "\0line", pa.large_binary()  # a column with whole lines of JSON, to copy them


class TableError(InputError):
    """A table cannot be used."""


class TableWarning(UserWarning):
    """A table may not mean what was read from it; `hint` is as in `TableError`."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


@dataclass(frozen=True)
class RemoteFile:
    """A file of an object store, which can be used where a Path is read."""

    url: str
    path: str
    system: FileSystem = field(compare=False, repr=False)

    def resolve(self) -> RemoteFile:
        """Return the file itself: there are no links."""
        return self

    def open(self, mode: str = "rb") -> pa.NativeFile:
        """Open the file for reading at any place."""
        return self.system.open_input_file(self.path)

    def stat(self) -> SimpleNamespace:
        """Return size and time of change."""
        info = self.system.get_file_info(self.path)
        return SimpleNamespace(st_ino=0, st_size=info.size, st_mtime_ns=info.mtime_ns)

    def __str__(self) -> str:
        return self.url


TableFile = Path | RemoteFile


@dataclass(eq=False)
class Table:
    """Files of one format as blocks of rows; messages call it `name`."""

    files: Sequence[TableFile]
    name: str
    format: str  # of `FORMATS`
    style: CsvStyle = USUAL_CSV  # of CSV
    schema: pa.Schema = field(default_factory=lambda: pa.schema([]))
    groups: list[list[int]] = field(default_factory=list)  # rows of each row group of each file
    partitions: dict[str, list[str]] = field(default_factory=dict)  # columns that folders name
    # What must not change of a file.
    stamps: dict[TableFile, tuple[int, int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._starts: dict[int, TableFile | str] = {0: self.files[0]}

    def stamped(self) -> Self:
        """Return the same table; from now on, none of its files may change."""
        return replace(self, stamps={file: _stamp(file) for file in self.files})

    def find_columns(self, root: PurePath) -> Self:
        """Read which columns there are; folders below a root may name some, as in state=AK."""
        with naming_file(self.name):
            self.schema, self.groups = FORMATS[self.format].infer(self)
        self.check_names(self.schema.names)
        cells = [_partition_cells(file, root) for file in self.files]
        for name in cells[0]:
            if any(named.keys() != cells[0].keys() for named in cells):
                raise self.error(f"not all files lie in folders named {name}=...")
            if self.schema.get_field_index(name) < 0:  # a column in the files is used instead
                self.partitions[name] = [named[name] for named in cells]
                kind = arrow.written_type(pa.array(self.partitions[name]), name)
                self.schema = self.schema.append(pa.field(name, kind))
        return self

    def check_names(self, names: list[str]) -> None:
        """Refuse a column that occurs twice."""
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise self.error(f"the column {min(twice)!r} occurs twice")

    @property
    def is_csv(self) -> bool:
        """Whether cells are text, so that only their values tell numbers from words."""
        return self.format in ("csv", "tsv")

    @property
    def delimiter(self) -> str:
        """What separates cells of CSV."""
        return "\t" if self.format == "tsv" else self.style.delimiter

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where only reading all files would tell."""
        return sum(map(sum, self.groups)) if self.groups else None

    @property
    def block_rows(self) -> int:
        """Number of rows in a block."""
        return max(1, min(BLOCK_ROWS, BLOCK_CELLS // max(1, len(self.schema))))

    def read_as(self, names: Iterable[str], kind: pa.DataType = arrow.TEXT) -> None:
        """Read columns as words, even if they hold numbers, or as brackets.

        Names that are no columns are ignored. Columns of Parquet have the types that they have.
        """
        for name in set(names) & set(self.schema.names) if not self.groups else ():
            at = self.schema.get_field_index(name)
            self.schema = self.schema.set(at, self.schema.field(at).with_type(kind))

    # --- Blocks ---

    def blocks(
        self, columns: list[str] | None = None, start: int = 0, *, as_written: bool = False
    ) -> Blocks:
        """Return the position and the cells of each block from a row on, read ahead by a thread.

        Numbers in CSV are written with a point, unless they are to be `as_written`.
        """
        names = self.schema.names if columns is None else list(dict.fromkeys(columns))
        for name in names:
            self.check_column(name)
        row = start
        try:
            for block in read_ahead(in_blocks(self.batches(names, start), self.block_rows)):
                yield row, block if as_written else self.with_points(row, block)
                row += block.num_rows
        except pa.ArrowInvalid as error:  # a column of a block has at most 2 GB of text
            block = f"the {self.block_rows} rows from here on are too large"
            raise TableError(f"{self.where(row)}: {block}: {error}") from None

    def with_points(self, first: int, block: pa.RecordBatch) -> pa.RecordBatch:
        """Return a block whose columns of numbers have a point and no groups of digits."""
        if self.style.has_points:
            return block
        with self.naming_rows(first):
            for j, name in enumerate(block.schema.names):
                if self.schema.field(name).type == arrow.NUMBER and name not in self.partitions:
                    cells = self.style.with_points(block.column(j), name)
                    block = block.set_column(j, name, cells)
        return block

    def blocks_to_copy(self, columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
        """Return each block twice: with the columns to use, and with all columns to copy.

        `format` is that of the copy. If it is the same as here, cells stay as they are written.
        """
        for name in columns:
            self.check_column(name)
        return FORMATS[self.format].copy(self, columns, format)

    def batches(self, columns: list[str], start: int = 0) -> Iterator[pa.RecordBatch]:
        """Return the rows from a row on, in batches of any size."""
        row = 0  # the first of the file
        in_files = [name for name in columns if name not in self.partitions]
        if not in_files:  # any column tells how many rows there are
            in_files = [name for name in self.schema.names if name not in self.partitions][:1]
        for k, file in enumerate(self.files):
            self.begin_file(file, row)
            n_rows = sum(self.groups[k]) if self.groups else 0
            with naming_file(self.name_of(file)):
                for first, batch in FORMATS[self.format].read(self, file, in_files, start - row):
                    n_rows = first + batch.num_rows
                    if row + n_rows > start:
                        batch = self._with_partitions(k, batch, columns)
                        yield batch.slice(max(0, start - row - first))
            row += n_rows
            self.check_unchanged(file)

    def _with_partitions(self, k: int, batch: pa.RecordBatch, columns: list[str]) -> pa.RecordBatch:
        """Return the columns of a batch from the k-th file, and those that its folders name."""
        for name in set(columns) & self.partitions.keys():
            value = pa.scalar(self.partitions[name][k] or None, arrow.TEXT)
            batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        return batch.select(columns) if self.partitions else batch

    def pieces(self) -> list[tuple[Table, int, int | None]]:
        """Return parts that can be read alone: a table of one file, first row, number of rows.

        Row groups are read together up to `PIECE_ROWS` rows. Other files are one part each, and
        their number of rows is not known.
        """
        pieces: list[tuple[Table, int, int | None]] = []
        for k, file in enumerate(self.files):
            partitions = {name: [cells[k]] for name, cells in self.partitions.items()}
            groups = self.groups[k : k + 1]
            whole = replace(self, files=[file.resolve()], name=self.name_of(file), stamps={})
            alone = replace(whole, groups=groups, partitions=partitions)
            first = last = 0
            for rows in groups[0] if groups else ():
                if last > first and last + rows - first > PIECE_ROWS:
                    pieces.append((alone, first, last - first))
                    first = last
                last += rows
            pieces.append((alone, first, last - first if groups else None))
        return pieces

    def check_unchanged(self, file: TableFile) -> None:
        """Refuse a file that is no longer the one that was opened: it is read more than once."""
        if _stamp(file) != self.stamps[file]:
            raise TableError(
                f"{self.name_of(file)} has changed while it was read; run the command again when "
                "nothing writes to it"
            )

    # --- Messages ---

    def error(self, reason: str, hint: str | None = None) -> TableError:
        """Return an error that names the table."""
        return TableError(f"{self.name}: {reason}", hint)

    def warn(self, reason: str, hint: str | None = None) -> None:
        """Warn of the table by its name."""
        warnings.warn(TableWarning(f"{self.name}: {reason}", hint), stacklevel=3)

    def begin_file(self, file: TableFile | str, row: int) -> None:
        """Remember the position of a file's first row, for messages."""
        self._starts[row] = file

    def check_column(self, name: str) -> None:
        """Refuse a column that does not exist."""
        if self.schema.get_field_index(name) < 0:
            raise self.error(arrow.no_column(name, self.schema.names))

    def where(self, row: int) -> str:
        """Return the file and, counted from 1, the row of a position in the table."""
        start = max(first for first in self._starts if first <= row)
        return f"{self.name_of(self._starts[start])}, row {row - start + 1}"

    def place(self, row: int) -> str:
        """Return the row of a position, counted from 1; with its file, if there are many."""
        return str(row + 1) if len(self.files) == 1 else self.where(row)

    def other_place(self, row: int, first: int = 0) -> str:
        """Return what to call a row, of those from `first` on, in a message about the table."""
        return self.where(first + row).removeprefix(f"{self.name}, ")

    def name_of(self, file: TableFile | str) -> str:
        """Return what to call a file in messages: for a table of one file, the table's name."""
        return self.name if len(self.files) == 1 else str(file)

    @contextmanager
    def naming_rows(self, rows: int | Array, labels: tuple[str, ...] = ()) -> Iterator[None]:
        """Add the file, its row number and the label columns to errors about rows.

        `rows` are the positions of these rows in the table, or that of the first in a block.
        """
        try:
            yield
        except RowError as error:
            row = rows + error.row if isinstance(rows, int) else int(rows[error.row])
            columns = f"{quote_columns(labels)}: " if labels and error.argument == "y" else ""
            is_style = (error.hint or "").startswith("decimal")
            hint = "text" if is_style and not self.is_csv else error.hint
            raise TableError(f"{self.where(row)}: {columns}{error.reason}", hint) from None

    # --- What identifies it ---

    def fingerprint(self) -> list[list[Any]]:
        """Return size, time of change and a checksum of samples of each file."""
        return [
            [size, None if is_pipe(file) else changed, _digest(file, FEW_SAMPLES)]
            for file in self.files
            for _, size, changed in [_stamp(file)]
        ]

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return sum(file.stat().st_size for file in self.files)

    def contents(self) -> dict[str, Any]:
        """Return what identifies the contents of a table, whatever its files are called.

        A file of up to 256 MB is read whole, a larger one in samples, one in a store in a few.
        """
        digests = sorted(
            _digest(file, MANY_SAMPLES if isinstance(file, Path) else FEW_SAMPLES)
            for file in self.files
        )
        whole = hashlib.sha256("\n".join(digests).encode()).hexdigest()
        return {"bytes": self.n_bytes, "sha256": whole}


@contextmanager
def explaining(place: Callable[[], str]) -> Iterator[None]:
    """Turn an error of pyarrow about the content of a file, not of the disk, into ours."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise TableError(f"{place()}: {error}") from None


def quote_columns(names: tuple[str, ...]) -> str:
    """Return the names of columns, quoted, for a message."""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def is_pipe(file: TableFile) -> bool:
    """Tell whether a file is a copy of standard input or of a pipe."""
    return str(file).endswith(STDIN_SUFFIX)


def _partition_cells(file: TableFile, root: PurePath) -> dict[str, str]:
    """Return the cells that a file's folders name, as in Hive: state=AK, state=New%20York."""
    folders = PurePath(str(file)).parent.relative_to(root).parts
    pairs = [part.partition("=") for part in folders]
    cells = {name: unquote(value) for name, equals, value in pairs if name and equals}
    return {name: "" if value == NO_PARTITION else value for name, value in cells.items()}


def _stamp(file: TableFile) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _digest(file: TableFile, samples: int) -> str:
    """Return a checksum of samples of a file; of the whole file if they cover it."""
    size, digest = file.stat().st_size, hashlib.sha256()
    n = min(samples, 1 + size // text.READ_BYTES)
    with file.open("rb") as stream:
        for start in np.linspace(0, max(0, size - text.READ_BYTES), n):
            stream.seek(int(start))
            digest.update(stream.read(text.READ_BYTES))
    return digest.hexdigest()


# --- Blocks --------------------------------------------------------------------------------------


def in_blocks(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """Return the same rows in blocks of one size; the last may be smaller."""
    waiting: list[pa.RecordBatch] = []
    n_waiting = 0
    for batch in batches:
        while n_waiting + batch.num_rows >= rows:
            taken = rows - n_waiting
            yield _joined([*waiting, batch.slice(0, taken)])
            batch, waiting, n_waiting = batch.slice(taken), [], 0
        if batch.num_rows:
            waiting.append(batch)
            n_waiting += batch.num_rows
    if waiting:
        yield _joined(waiting)


def _joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def read_ahead(items: Iterator[Any], depth: int = 2) -> Iterator[Any]:
    """Return the items; a thread reads up to `depth` of them ahead. Its errors are raised here."""
    thread = ThreadPoolExecutor(1)
    try:
        waiting = deque(thread.submit(next, items, None) for _ in range(depth))
        while (item := waiting.popleft().result()) is not None:
            waiting.append(thread.submit(next, items, None))
            yield item
    finally:
        thread.shutdown(cancel_futures=True)


# --- Parquet -------------------------------------------------------------------------------------


def _open_parquet(table: Table, file: TableFile) -> pa.parquet.ParquetFile:
    with explaining(lambda: f"{table.name_of(file)} is damaged, or not a Parquet file"):
        # Read pages one by one: a row group may be larger than memory.
        source = file if isinstance(file, Path) else file.open()
        return pa.parquet.ParquetFile(source, pre_buffer=False, buffer_size=text.READ_BYTES)


def _parquet_columns(table: Table) -> tuple[pa.Schema, list[list[int]]]:
    schemas, groups = [], []
    for file in table.files:
        with _open_parquet(table, file) as opened:
            schemas.append(opened.schema_arrow)
            rows = opened.metadata.row_group
            groups.append([rows(k).num_rows for k in range(opened.num_row_groups)])
        if not schemas[-1].equals(schemas[0]):
            these, first = (set(map(_in_words, schemas[k])) for k in (-1, 0))
            raise TableError(
                f"{table.name_of(file)} has other columns or types than {table.files[0]}: "
                f"{'; '.join(sorted(these ^ first)) or 'in another order'}"
            )
    if not any(map(sum, groups)):
        raise TableError(f"{table.name} has no rows")
    return arrow.schema_without_views(schemas[0]), groups


def _in_words(field: pa.Field) -> str:
    """Return the name and the type of a column, as in x: int64."""
    return f"{field.name}: {field.type}{'' if field.nullable else ' not null'}"


def _read_parquet(table: Table, file: TableFile, columns: list[str], start: int) -> Blocks:
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
            yield row, arrow.without_views(batch.select(columns))
            row += batch.num_rows


def _copy_parquet(table: Table, _columns: list[str], _format: str) -> Iterator[CopyBlock]:
    for row, block in table.blocks():
        yield row, block, block


# --- Text ----------------------------------------------------------------------------------------


def _parsed(
    table: Table, file: TableFile, parse: Callable[[ByteStream], Iterator[Any]]
) -> Iterator[tuple[int, Any]]:
    """Yield the rows that `parse` makes of a file, decompressed, in blocks, after their first row.

    A block has a length, the number of rows. A RowError names the row in the block.
    """
    row, name = 0, table.name_of(file)
    try:
        with (
            explaining(lambda: f"{name}, after row {row}"),
            naming_file(name),
            closing(text.open_text(file, table.style)) as stream,
        ):
            for rows in parse(stream):
                yield row, rows
                row += len(rows)
    except RowError as error:
        place = f"{name}, row {row + error.row + 1}"
        raise TableError(f"{place}: {error.reason}", error.hint) from None


# --- CSV: cells are text -------------------------------------------------------------------------


def _csv_rows(block: bytes, delimiter: str) -> list[list[str]]:
    """Return the rows of a block, read by the standard library: slow, but it names the row."""
    csv.field_size_limit(text.LONGEST_ROW)
    lines = io.StringIO(block.decode(errors="surrogateescape"), newline="")
    return [cells for cells in csv.reader(lines, delimiter=delimiter, strict=True) if cells]


def _csv_batches(
    stream: ByteStream, delimiter: str, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file, some columns or all."""
    blocks = text.csv_blocks(stream, delimiter)
    names = next(iter(_csv_rows(next(blocks, b""), delimiter)), [])
    # pyarrow looks for each of these columns among all: its time grows with their square.
    chosen = columns if columns is not None and len(columns) < 1000 else None
    for block in blocks:
        copied = pa.BufferOutputStream()  # a thread may still hold it when Python ends
        copied.write(b"\n" + block)  # a mark at the very start is dropped; an empty line, too
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(copied.getvalue()),
                pa.csv.ReadOptions(column_names=names, block_size=len(block) + 2),
                pa.csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
                pa.csv.ConvertOptions(
                    column_types=dict.fromkeys(names, arrow.TEXT),
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


def _read_csv(table: Table, file: TableFile, columns: list[str], _start: int) -> Blocks:
    parse = partial(_csv_batches, delimiter=table.delimiter, columns=columns)
    return _parsed(table, file, parse)


def _csv_columns(table: Table) -> tuple[pa.Schema, list[list[int]]]:
    headers = [_read_header(table, file) for file in table.files]
    for file, header in zip(table.files, headers, strict=True):
        if header != headers[0]:
            raise TableError(f"{table.name_of(file)} has other columns than {table.files[0]}")
    table.check_names(headers[0])
    types, n_rows = dict.fromkeys(headers[0], pa.null()), 0

    def parse(stream: ByteStream) -> Iterator[pa.RecordBatch]:
        for batch in _csv_batches(stream, table.delimiter, None):
            for name in [name for name, kind in types.items() if kind == pa.null()]:
                types[name] = arrow.written_type(batch.column(name), name, table.style.read_numbers)
            yield batch

    for file in table.files:
        for _, batch in _parsed(table, file, parse):
            n_rows += batch.num_rows
            if pa.null() not in types.values():
                break
    if n_rows == 0:
        raise TableError(f"{table.name} has a header, but no rows")
    return pa.schema(types), []


def _read_header(table: Table, file: TableFile) -> list[str]:
    name, mark = table.name_of(file), table.delimiter
    try:
        [(_, rows)] = _parsed(
            table,
            file,
            lambda stream: iter([_csv_rows(next(text.csv_blocks(stream, mark), b""), mark)]),
        )
        header: list[str] = rows[0] if rows else []
        for cell in header:
            cell.encode()
    except UnicodeEncodeError as error:
        raw = error.object.encode(errors="surrogateescape")
        said = f"{name}: the header has {shown(raw)}, which is not UTF-8"
        if raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            said += ": is it UTF-16?"
        raise TableError(said, hint="encoding") from None
    except csv.Error as error:
        raise TableError(f"{name} cannot be read as CSV: {error}") from None
    if "\0" in "".join(header):
        raise TableError(f"{name}: the header is not UTF-8: is it UTF-16?", hint="encoding")
    if not header:
        raise TableError(f"{name} is empty: a header with the columns' names is missing")
    other = max(",;\t|", key=header[0].count)
    if len(header) == 1 and other in header[0]:
        marks = {",": "commas", "\t": "tabs"}.get(mark, repr(mark))
        said = f"the header is one name, {shown(header[0])}, if cells are separated by {marks}"
        raise TableError(f"{name}: {said}; {other!r} may separate them", hint="delimiter")
    return header


def _copy_csv(table: Table, _columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
    """To a format with types, a column of numbers is a number; words stay as they are written."""
    types = {
        one.name: pa.null() if one.type == arrow.NUMBER else arrow.TEXT for one in table.schema
    }
    is_typed = format not in ("csv", "tsv")
    for row, block in table.blocks(as_written=True) if is_typed else ():
        with table.naming_rows(row):
            used = table.with_points(row, block)
            for name, kind in types.items():
                types[name] = arrow.common_type(kind, arrow.narrowest_type(_trimmed(used, name)))
    for row, block in table.blocks(as_written=True):
        used = table.with_points(row, block)
        if is_typed:
            cells = [
                arrow.with_nulls(block.column(name), pc.equal(block.column(name), ""))
                if kind in (arrow.TEXT, pa.null())
                else pc.cast(_trimmed(used, name), kind)
                for name, kind in types.items()
            ]
            block = pa.RecordBatch.from_arrays(cells, list(types))
        yield row, used, block


def _trimmed(block: pa.RecordBatch, name: str) -> pa.Array:
    return arrow.read_words(pc.ascii_trim_whitespace(block.column(name)), name)


# --- JSON Lines: a missing key is a missing value ------------------------------------------------


def _lines(stream: ByteStream) -> Iterator[list[bytes]]:
    return map(split_lines, text.line_blocks(stream))


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


def _read_json(table: Table, file: TableFile, columns: list[str], _start: int) -> Blocks:
    schema = pa.schema([table.schema.field(name) for name in columns if name != LINE])

    def parse(stream: ByteStream) -> Iterator[pa.RecordBatch]:
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
            copy = [text.without_marks(line).decode().strip() for line in lines]
        else:
            with table.naming_rows(start):
                copy = _columns_of(read_objects(lines), pa.schema(types), nested=True)
        yield start, batch.select(columns), copy
        start += len(lines)


class Format(NamedTuple):
    """How tables are read, in functions of a table and, to read it, of one of its files."""

    infer: Callable[..., tuple[pa.Schema, list[list[int]]]]  # columns; rows of each row group
    # Return the first row of each batch of a file, and the batch. Those that end before a row may
    # be left out where the numbers of rows are known.
    read: Callable[..., Blocks]
    copy: Callable[..., Iterator[CopyBlock]]


CSV = Format(_csv_columns, _read_csv, _copy_csv)
PARQUET = Format(_parquet_columns, _read_parquet, _copy_parquet)
JSON_LINES = Format(_json_columns, _read_json, _copy_json)
FORMATS = {"csv": CSV, "tsv": CSV, "parquet": PARQUET, "jsonl": JSON_LINES}
