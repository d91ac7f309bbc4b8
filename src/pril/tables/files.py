"""Tables as Arrow batches, one block of rows at a time.

A table is one or more files of one format, read in order. In every format its rows come in blocks
of the same size, so that a run can stop after any block and begin again there. Cells of CSV come as
text; the caller decides whether they are numbers or words.
"""

from __future__ import annotations

import difflib
import hashlib
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from pril.errors import InputError, RowError, naming_file
from pril.tables.cells import written_type
from pril.tables.text import READ_BYTES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

BLOCK_ROWS, BLOCK_CELLS = 1 << 15, 1 << 22
STDIN_SUFFIX = ".stdin"  # of a temporary file with all of standard input
PARTITION = {b"pril": b"partition"}  # metadata of a column that comes from the folders' names
NO_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # the folder of a missing value
FEW_SAMPLES, MANY_SAMPLES = 5, 256  # of a file, each of READ_BYTES
MOST_LISTED, MOST_NAMED = 12, 5  # columns in a message: all of a few, or the nearest of many

# First row; the columns that are used; all columns, or the lines of JSON, to be written again.
CopyBlock = tuple[int, pa.RecordBatch, "pa.RecordBatch | list[str]"]


class TableError(InputError):
    """A table cannot be used."""


class TableWarning(UserWarning):
    """A table may not mean what was read from it; `hint` is as in `TableError`."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class Table(ABC):
    """Files of one format as blocks of rows; messages call it `name`.

    Without a schema, the columns are read from the files.
    """

    about: str  # the format, and where the types of columns come from
    is_typed = True  # whether the format tells numbers from text

    def __init__(
        self,
        files: list[Path],
        name: str,
        schema: pa.Schema | None = None,
        root: Path | None = None,  # folders below it may name columns, as in state=AK
    ) -> None:
        self.files = files
        self.name = name
        self._root = root
        self._places = {file: k for k, file in enumerate(files)}
        self._starts: dict[int, Path] = {0: files[0]}
        self._stamps = {file: _stamp(file) for file in files}
        with naming_file(name):
            self.schema = self._infer() if schema is None else schema
        self._check_names(self.schema.names)
        self.partitions = self._find_partitions()

    @property
    def kind(self) -> Callable[..., Table]:
        """Make other tables that are read in the same way."""
        return type(self)

    @property
    def style_note(self) -> dict[str, str] | None:
        """How numbers and text are written, for a model file; None if that is as usual."""
        return None

    def _find_partitions(self) -> dict[str, list[str]]:
        """Return the columns that the folders' names hold, as in state=AK: a cell for each file.

        The columns are added to the schema. A column in the files is used instead of a folder's.
        """
        cells = [_partition_cells(file, self._root) for file in self.files]
        partitions: dict[str, list[str]] = {}
        for name in cells[0]:
            if any(own.keys() != cells[0].keys() for own in cells):
                raise TableError(f"{self.name}: not all files lie in folders named {name}=...")
            known = self.schema.get_field_index(name)
            if known < 0 or self.schema.field(known).metadata == PARTITION:
                partitions[name] = [own[name] for own in cells]
        for name, values in partitions.items():
            if self.schema.get_field_index(name) < 0:
                kind = written_type(pa.array(values), name)
                self.schema = self.schema.append(pa.field(name, kind, metadata=PARTITION))
        return partitions

    def _with_partitions(
        self, file: Path, batch: pa.RecordBatch, columns: list[str]
    ) -> pa.RecordBatch:
        """Return the columns of a batch from a file, and those that its folders name."""
        for name in columns:
            if name in self.partitions:
                cell = self.partitions[name][self._places[file]]
                value = pa.scalar(cell or None, pa.string())
                batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        return batch.select(columns) if self.partitions else batch

    def _check_names(self, names: list[str]) -> None:
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise TableError(f"{self.name}: the column {min(twice)!r} occurs twice")

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None where only reading all files would tell."""
        return None

    @property
    def block_rows(self) -> int:
        """Number of rows in a block."""
        return max(1, min(BLOCK_ROWS, BLOCK_CELLS // max(1, len(self.schema))))

    @abstractmethod
    def _infer(self) -> pa.Schema:
        """Return the columns; where the format has no types, they are number or text."""

    @abstractmethod
    def _read(
        self, file: Path, columns: list[str], start: int
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the first row of each batch of a file, and the batch.

        Batches that end before the row `start` may be left out where `_n_rows` is known.
        """

    def _n_rows(self, file: Path) -> int | None:
        return None

    def blocks(
        self, columns: list[str] | None = None, start: int = 0
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the position and the cells of each block from a row on, read ahead by a thread."""
        names = self.schema.names if columns is None else list(dict.fromkeys(columns))
        for name in names:
            self.check_column(name)
        row = start
        try:
            for block in read_ahead(rebatched(self._batches(names, start), self.block_rows)):
                yield row, block
                row += block.num_rows
        except pa.ArrowInvalid as error:  # a column of a block has at most 2 GB of text
            block = f"the {self.block_rows} rows from here on are too large"
            raise TableError(f"{self.where(row)}: {block}: {error}") from None

    def read_as_words(self, names: Iterable[str]) -> None:  # noqa: B027 - most formats need not know
        """Read columns as words, even if they hold numbers; ignore names that are no columns."""

    def read_as_brackets(self, name: str) -> None:
        """Read a column as texts and numbers, and keep a number what it is."""
        self.read_as_words([name])

    def blocks_to_copy(self, columns: list[str], format: str) -> Iterator[CopyBlock]:  # noqa: A002
        """Return each block twice: with the columns to use, and with all columns to copy.

        `format` is that of the copy. If it is the same as here, cells stay as they are written.
        """
        for name in columns:
            self.check_column(name)
        for row, block in self.blocks():
            yield row, block, block

    def _batches(self, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        row = 0  # the first of the file
        for file in self.files:
            self.begin_file(file, row)
            n_rows = self._n_rows(file) or 0
            own = [name for name in columns if name not in self.partitions]
            own = own or [name for name in self.schema.names if name not in self.partitions][:1]
            with naming_file(self.name_of(file)):
                for first, batch in self._read(file, own, start - row):
                    n_rows = first + batch.num_rows
                    if row + n_rows > start:
                        batch = self._with_partitions(file, batch, columns)
                        yield batch.slice(max(0, start - row - first))
            row += n_rows
            self.check_unchanged(file)

    def check_unchanged(self, file: Path) -> None:
        """Refuse a file that is no longer the one that was opened: it is read more than once."""
        if _stamp(file) != self._stamps[file]:
            raise TableError(
                f"{self.name_of(file)} has changed while it was read; run the command again when "
                "nothing writes to it"
            )

    def begin_file(self, file: Path, row: int) -> None:
        """Remember the position of a file's first row, for messages."""
        self._starts[row] = file

    def check_column(self, name: str) -> None:
        """Refuse a column that does not exist."""
        if self.schema.get_field_index(name) < 0:
            raise TableError(f"{self.name}: {no_column(name, self.schema.names)}")

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

    def name_of(self, file: Path) -> str:
        """Return what to call a file in messages: for a table of one file, the table's name."""
        return self.name if len(self.files) == 1 else str(file)

    def pieces(self, rows: int = 1 << 20) -> list[tuple[Path, int, int | None]]:
        """Return file, first row and number of rows (or None) of parts that can be read alone.

        Where the format allows splitting files, a part has about this number of rows.
        """
        return [(file, 0, self._n_rows(file)) for file in self.files]

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
            hint = "text" if self.is_typed and error.hint == "decimal" else error.hint
            raise TableError(f"{self.where(row)}: {columns}{error.reason}", hint) from None

    def fingerprint(self) -> list[list[Any]]:
        """Return what identifies a table: size, time of change and samples of each file."""
        return [_fingerprint(file) for file in self.files]

    @property
    def n_bytes(self) -> int:
        """Size of all files."""
        return sum(file.stat().st_size for file in self.files)

    def contents(self) -> dict[str, Any]:
        """Return what identifies the contents of a table, whatever its files are called.

        A file of up to 256 MB is read whole, of a larger one samples, of one in a store a few.
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


def no_column(name: str, known: list[str]) -> str:
    """Return a message about a column that does not exist, with the names most like it."""
    if len(known) <= MOST_LISTED:
        return f"there is no column {name!r}; the columns are {', '.join(map(repr, known))}"
    lower = {column.lower(): column for column in known}
    near = difflib.get_close_matches(name.lower(), lower, MOST_NAMED, cutoff=0.0)
    nearest = ", ".join(repr(lower[column]) for column in near)
    return f"there is no column {name!r}; the nearest of {len(known)} columns are {nearest}"


def quote_columns(names: tuple[str, ...]) -> str:
    """Return the names of columns, quoted, for a message."""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


def _partition_cells(file: Path, root: Path | None) -> dict[str, str]:
    """Return the cells that a file's folders name, as in Hive: state=AK, state=New%20York."""
    folder = file.parent if root is None else file.parent.relative_to(root)
    pairs = [part.partition("=") for part in folder.parts]
    cells = {name: unquote(value) for name, equals, value in pairs if name and equals}
    return {name: "" if value == NO_PARTITION else value for name, value in cells.items()}


def _stamp(file: Path) -> tuple[int, int, int]:
    status = file.stat()
    return status.st_ino, status.st_size, status.st_mtime_ns


def _fingerprint(file: Path) -> list[Any]:
    status = file.stat()
    changed = None if file.suffix == STDIN_SUFFIX else status.st_mtime_ns
    return [status.st_size, changed, _digest(file, FEW_SAMPLES)]


def _digest(file: Path, samples: int) -> str:
    """Return a checksum of samples of a file; of the whole file if they cover it."""
    size, digest = file.stat().st_size, hashlib.sha256()
    n = min(samples, 1 + size // READ_BYTES)
    with file.open("rb") as stream:
        for start in np.linspace(0, max(0, size - READ_BYTES), n):
            stream.seek(int(start))
            digest.update(stream.read(READ_BYTES))
    return digest.hexdigest()


# --- Blocks --------------------------------------------------------------------------------------


def rebatched(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
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
