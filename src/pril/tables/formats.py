"""Formats of tables: CSV, Parquet, JSON Lines and svmlight."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet

from pril.errors import RowError, naming_file, shown
from pril.tables.cells import (
    DATE,
    LARGEST,
    NUMBER,
    TEXT,
    kind_of,
    one_batch,
    read_words,
    with_nulls,
    without_view,
    without_views,
    written_types,
)
from pril.tables.files import (
    LONGEST_ROW,
    READ_BYTES,
    TOO_LONG,
    CopyBlock,
    Table,
    TableError,
    is_zipped,
    line_blocks,
    skip_marks,
)
from pril.tables.json_lines import (
    common_type,
    json_column,
    json_rows,
    json_texts,
    json_types,
    parse_json_lines,
    split_lines,
)
from pril.tables.quotes import CheckedCsv, QuoteError

WIDE_ROWS = 64  # of a very wide table are read at once: each batch costs some time for each column
MOST_FEATURES = 1 << 24  # of an svmlight file: a model holds some numbers for each
BAD_GZIP = (gzip.BadGzipFile, zlib.error, EOFError)


def _opened(file: Path) -> IO[bytes]:
    """Open a file of text after its byte-order marks."""
    opener: Any = gzip.open if is_zipped(file) else open
    stream: IO[bytes] = opener(file, "rb")
    skip_marks(stream)
    return stream


# --- Parquet -------------------------------------------------------------------------------------


class Parquet(Table):
    """Parquet files."""

    about = "Parquet, columns have the types in the file"

    def _open(self, file: Path) -> pa.parquet.ParquetFile:
        try:
            # Read pages one by one: a row group may be larger than memory.
            return pa.parquet.ParquetFile(file, pre_buffer=False, buffer_size=READ_BYTES)
        except (pa.ArrowException, OSError) as error:
            if getattr(error, "errno", None) is not None:  # of the disk, not of the content
                raise
            raise TableError(
                f"{self.name_of(file)} is damaged, or not a Parquet file: {error}"
            ) from None

    def _infer(self) -> pa.Schema:
        self._counts: dict[Path, int] = {}
        schemas = []
        for file in self.files:
            with self._open(file) as opened:
                self._counts[file] = opened.metadata.num_rows
                schemas.append(opened.schema_arrow)
        for file, schema in zip(self.files, schemas, strict=True):
            if not schema.equals(schemas[0]):
                raise TableError(
                    f"{self.name_of(file)} has other columns or types than {self.files[0]}: "
                    f"{_difference(schema, schemas[0])}"
                )
        fields = [field.with_type(without_view(field.type)) for field in schemas[0]]
        return pa.schema(fields, schemas[0].metadata)

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

    def _read(self, file: Path, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        with self._open(file) as opened:
            groups = list(range(opened.num_row_groups))
            while groups and skip >= opened.metadata.row_group(groups[0]).num_rows:
                skip -= opened.metadata.row_group(groups.pop(0)).num_rows
            rows = self.block_rows
            try:
                # No more threads: this code already runs beside the thread that learns.
                batches = opened.iter_batches(
                    rows, row_groups=groups, columns=columns, use_threads=False
                )
                for batch in batches:
                    if skip < batch.num_rows:
                        # For "q.b", pyarrow also returns the field b of a struct q: select.
                        yield without_views(batch.slice(skip).select(columns))
                    skip = max(0, skip - batch.num_rows)
            except (pa.ArrowException, OSError) as error:
                if getattr(error, "errno", None) is not None:  # of the disk, not of the content
                    raise
                raise TableError(f"{self.name_of(file)} is damaged: {error}") from None


def _difference(one: pa.Schema, other: pa.Schema) -> str:
    fields = {str(field) for field in one} ^ {str(field) for field in other}
    return "; ".join(sorted(fields)) or "in another order"


# --- CSV -----------------------------------------------------------------------------------------


class Csv(Table):
    """CSV files with a header; cells come as text."""

    delimiter = ","
    about = "CSV with commas, the first value of a column tells numbers from words"

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._headers: dict[Path, list[str]] = {}  # of files that were opened before
        super().__init__(*arguments, **named)

    def _batches_of(self, file: Path, columns: list[str] | None) -> Iterator[pa.RecordBatch]:
        try:
            names = self._header(file)
            # pyarrow looks for each of these columns among all: its time grows with their square.
            chosen = columns if columns is not None and len(columns) < 1000 else None
            options = {} if chosen is None else {"include_columns": chosen}
            size = max(READ_BYTES, WIDE_ROWS * sum(len(name) + 1 for name in names))
            size = min(size, 4 * LONGEST_ROW)
            with _opened(file) as stream:
                batches = pa.csv.open_csv(
                    CheckedCsv(stream, self.delimiter, size),
                    pa.csv.ReadOptions(block_size=LONGEST_ROW + 2 * size),
                    pa.csv.ParseOptions(delimiter=self.delimiter, newlines_in_values=True),
                    pa.csv.ConvertOptions(
                        column_types=dict.fromkeys(names, TEXT), check_utf8=False, **options
                    ),
                )
                for batch in batches:
                    yield batch if columns is chosen else batch.select(columns)
        except QuoteError as error:
            raise TableError(f"{self.name_of(file)}, {error}") from None
        except (pa.ArrowException, *BAD_GZIP) as error:
            raise self._explain(file, error) from None

    @contextmanager
    def _rows(self, file: Path) -> Iterator[Any]:
        """Yield the standard library's reader: slow, but it counts lines."""
        csv.field_size_limit(LONGEST_ROW)
        with _opened(file) as stream:
            yield csv.reader(_text_lines(stream), delimiter=self.delimiter, strict=True)

    def _header(self, file: Path) -> list[str]:
        if file not in self._headers:
            self._headers[file] = self._read_header(file)
        return self._headers[file]

    def _read_header(self, file: Path) -> list[str]:
        try:
            with self._rows(file) as rows:
                header: list[str] = next(rows, [])
            for name in header:
                name.encode()
        except UnicodeEncodeError as error:
            raw = error.object.encode(errors="surrogateescape")
            raise TableError(
                f"{self.name_of(file)}: the header has {shown(raw)}, which is not UTF-8"
            ) from None
        except (csv.Error, *BAD_GZIP) as error:
            raise TableError(f"{self.name_of(file)} cannot be read as CSV: {error}") from None
        if "\0" in "".join(header):
            raise TableError(f"{self.name_of(file)}: the header is not UTF-8: is it UTF-16?")
        return header

    def _explain(self, file: Path, error: Exception) -> TableError:
        """Return the error with its row: read the file again, slowly, to find it."""
        line = 0
        try:
            with self._rows(file) as rows:
                header: list[str] = next(rows, [])
                width, row = len(header), 0
                for row, cells in enumerate((cells for cells in rows if cells), 1):
                    if len(cells) != width:
                        return TableError(
                            f"{self.name_of(file)}, row {row} (line {rows.line_num}): "
                            f"{len(cells)} cells where the header has {width}: "
                            f"{self.delimiter.join(cells)[:60]!r}"
                        )
                    line = rows.line_num
                if row == 0:
                    return TableError(f"{self.name_of(file)} has a header, but no rows")
        except csv.Error as reason:
            return TableError(f"{self.name_of(file)}, near line {line + 1}: {reason}")
        except BAD_GZIP as reason:
            error = reason
        return TableError(f"{self.name_of(file)} cannot be read as CSV: {error}")

    def _infer(self) -> pa.Schema:
        headers = [self._header(file) for file in self.files]
        for file, header in zip(self.files, headers, strict=True):
            if not header:
                raise TableError(
                    f"{self.name_of(file)} is empty: a header with the columns' names is missing"
                )
            if len(header) == 1 and re.search("[;\t|]", header[0]):
                raise TableError(
                    f"{self.name_of(file)}: the header is one name, {shown(header[0])}; cells must "
                    "be separated by commas, or by tabs in .tsv"
                )
            if header != headers[0]:
                raise TableError(f"{self.name_of(file)} has other columns than {self.files[0]}")
        self._check_names(headers[0])
        unknown, n_rows = list(headers[0]), 0
        types: dict[str, pa.DataType] = {}
        for file in self.files:
            row = 0
            for batch in self._batches_of(file, None):
                with self._at(file, row):
                    types |= written_types(batch, unknown)
                row += batch.num_rows
                n_rows += batch.num_rows
                unknown = [name for name in unknown if name not in types]
                if not unknown:
                    break
            if not unknown:
                break
        if n_rows == 0:
            raise TableError(f"{self.name} has a header, but no rows")
        return pa.schema([(name, types.get(name, pa.null())) for name in headers[0]])

    def _read(self, file: Path, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        yield from self._batches_of(file, columns)

    def blocks_to_copy(self, columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
        """Return blocks as in `Table`; for a format with types, a column of numbers is a number."""
        if format in ("csv", "tsv"):
            yield from super().blocks_to_copy(columns, format)
            return
        types = self._find_types()
        for row, block, _ in super().blocks_to_copy(columns, format):
            cells = {name: _typed_cells(block.column(name), types[name]) for name in types}
            yield row, block, pa.RecordBatch.from_pydict(cells)

    def _find_types(self) -> dict[str, pa.DataType]:
        """Read the whole table; return for each column the type that all of its cells have."""
        types = dict.fromkeys(self.schema.names, pa.null())
        for row, block in self.blocks():
            for name, kind in types.items():
                with self.naming_rows(row):
                    words = read_words(block.column(name), name)
                types[name] = common_type(kind, _spelled_type(words))
        return types


def _text_lines(stream: IO[bytes]) -> Iterator[str]:
    """Return lines with their ends; refuse one that is too long before all of it is read."""
    rest = b""
    while chunk := stream.readline(READ_BYTES):
        lines = (rest + chunk).splitlines(keepends=True)
        rest = b"" if lines[-1].endswith(b"\n") else lines.pop()
        if any(len(line) > LONGEST_ROW for line in (*lines, rest)):
            raise csv.Error(f"the line is {TOO_LONG}")
        for line in lines:
            yield line.decode(errors="surrogateescape")
    if rest:
        yield rest.decode(errors="surrogateescape")


def _spelled_type(words: pa.Array) -> pa.DataType:
    """Return the type of words; codes such as 007, and numbers too long for a float, are text."""
    if words.null_count == len(words):
        return pa.null()
    if pc.any(pc.match_substring_regex(words, r"^[+-]?0[0-9]")).as_py():
        return TEXT
    if _can_be(words, pa.int64()):
        return pa.int64()
    long = pc.any(pc.match_substring_regex(words, r"^[+-]?[0-9]{17,}$")).as_py()
    return pa.float64() if not long and _can_be(words, pa.float64()) else TEXT


def _can_be(words: pa.Array, kind: pa.DataType) -> bool:
    try:
        pc.cast(words, kind)
    except pa.ArrowInvalid:
        return False
    return True


def _typed_cells(cells: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind in (TEXT, pa.null()):
        return with_nulls(cells, pc.equal(cells, ""))
    return pc.cast(read_words(cells, ""), kind)


class Tsv(Csv):
    """CSV files with tabs."""

    delimiter = "\t"
    about = "CSV with tabs, the first value of a column tells numbers from words"


# --- JSON Lines ----------------------------------------------------------------------------------


class JsonLines(Table):
    """Files with one JSON object in each line; a missing key is a missing value."""

    about = "JSON Lines, the first value of a column tells numbers from words"

    def _infer(self) -> pa.Schema:
        types: dict[str, pa.DataType] = {}
        self._copied_types: dict[str, pa.DataType] = {}
        n_rows = 0
        for file in self.files:
            for row, block in self._line_blocks(file):
                with self._at(file, row):
                    n_rows += len(split_lines(block))
                    first, whole = json_types(block)
                for name, kind in first.items():
                    if types.get(name, pa.null()) == pa.null():  # the first value decides
                        types[name] = _read_as(kind)
                for name, kind in whole.items():
                    before = self._copied_types.get(name, pa.null())
                    self._copied_types[name] = common_type(before, kind)
        if n_rows == 0:
            raise TableError(f"{self.name} is empty: no rows")
        return pa.schema(types)

    def read_as_words(self, names: Iterable[str]) -> None:
        """Read columns as words, even if they hold numbers."""
        for name in set(names) & set(self.schema.names):
            at = self.schema.get_field_index(name)
            self.schema = self.schema.set(at, pa.field(name, TEXT))

    def _line_blocks(self, file: Path) -> Iterator[tuple[int, bytes]]:
        row = 0
        try:
            with naming_file(self.name_of(file)), _opened(file) as stream:
                for block in line_blocks(stream):
                    yield row, block
                    row += len(split_lines(block))
        except BAD_GZIP as error:
            raise TableError(f"{self.name_of(file)}, after row {row}: {error}") from None
        except RowError as error:
            raise TableError(f"{self.name_of(file)}, row {row + 1}: {error.reason}") from None

    def _read(self, file: Path, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        schema = pa.schema([self.schema.field(name) for name in columns])
        for row, block in self._line_blocks(file):
            with self._at(file, row):
                table = parse_json_lines(block, schema)
            yield from table.combine_chunks().to_batches()

    def blocks_to_copy(self, columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
        """Return blocks as in `Table`; to JSON Lines, the lines are copied unchanged."""
        for name in columns:
            self.check_column(name)
        own = [name for name in columns if name not in self.partitions]
        schema = pa.schema([self.schema.field(name) for name in own])
        start = 0
        for file in self.files:
            self.begin_file(file, start)
            for row, block in self._line_blocks(file):
                with self._at(file, row):
                    table = parse_json_lines(block, schema)
                    copy = (
                        json_texts(block) if format == "jsonl" else self._columns(json_rows(block))
                    )
                yield start, self.with_partitions(file, one_batch(table), columns), copy
                start += table.num_rows
            self.check_unchanged(file)

    def _columns(self, rows: list[dict[str, Any]]) -> pa.RecordBatch:
        cells = {name: json_column(rows, name, kind) for name, kind in self._copied_types.items()}
        return pa.RecordBatch.from_pydict(cells)


def _read_as(kind: pa.DataType) -> pa.DataType:
    """Return the type to read values of a type as: any number is a float."""
    if pa.types.is_temporal(kind):
        return DATE
    return {"number": NUMBER, "text": TEXT}.get(kind_of(kind), kind)


# --- svmlight ------------------------------------------------------------------------------------


class Svmlight(Table):
    """Files of svmlight or LIBSVM: a label, and features with the numbers in the file."""

    about = "svmlight, the columns are label and features"

    def __init__(self, *arguments: Any, most_features: int = MOST_FEATURES, **named: Any) -> None:
        self._most_features = most_features
        super().__init__(*arguments, **named)

    def _infer(self) -> pa.Schema:
        width = 1 + max(
            (
                int(matrix.indices.max(initial=-1))
                for file in self.files
                for matrix, _ in self._parts(file)
            ),
            default=-1,
        )
        if width == 0:
            raise TableError(f"{self.name} has no rows with a feature")
        features = pa.field("features", pa.map_(pa.int32(), NUMBER), metadata={"width": str(width)})
        return pa.schema([pa.field("label", NUMBER), features])

    def _parts(self, file: Path) -> Iterator[tuple[Any, Any]]:
        from sklearn.datasets import load_svmlight_file

        row = 0
        try:
            with _opened(file) as stream:
                for block in line_blocks(stream):
                    try:
                        part = load_svmlight_file(io.BytesIO(block), zero_based=True)
                    except (ValueError, OverflowError) as error:
                        raise self._explain(file, row, block, error) from None
                    self._check(file, row, part[0])
                    yield part
                    row += len(part[1])
        except BAD_GZIP as error:
            raise TableError(f"{self.name_of(file)}, after row {row}: {error}") from None
        except RowError as error:
            raise TableError(f"{self.name_of(file)}, row {row + 1}: {error.reason}") from None

    def _check(self, file: Path, row: int, matrix: Any) -> None:
        """Refuse a feature that is not finite, and one whose number would take too much memory."""
        most = self._most_features
        for bad, reason, hint in (
            (matrix.indices >= most, f"a table has at most {most:,} features", "max_features"),
            (~np.isfinite(matrix.data), "it is not finite", None),
            (np.abs(matrix.data) >= LARGEST, "its square is too large to be a number", None),
        ):
            if bad.any():
                at = int(np.argmax(bad))
                row += int(np.searchsorted(matrix.indptr, at, side="right"))
                feature = f"feature {matrix.indices[at]} is {matrix.data[at]}"
                raise TableError(f"{self.name_of(file)}, row {row}: {feature}: {reason}", hint)

    def _explain(self, file: Path, row: int, block: bytes, error: Exception) -> TableError:
        from sklearn.datasets import load_svmlight_file

        for line in block.splitlines():
            if not line.partition(b"#")[0].strip():  # blank, or a comment: not a row
                continue
            row += 1
            try:
                load_svmlight_file(io.BytesIO(line), zero_based=True)
            except (ValueError, OverflowError) as reason:
                return TableError(f"{self.name_of(file)}, row {row}: {reason}: {line[:60]!r}")
        return TableError(f"{self.name_of(file)} cannot be read as svmlight: {error}")

    def _read(self, file: Path, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        kind = self.schema.field("features").type
        for matrix, label in self._parts(file):
            cells = pa.MapArray.from_arrays(
                matrix.indptr.astype(np.int32), matrix.indices.astype(np.int32), matrix.data
            ).cast(kind)
            batch = pa.RecordBatch.from_arrays([pa.array(label), cells], schema=self.schema)
            yield batch.select(columns)
