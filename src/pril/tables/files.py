"""Tables as Arrow batches, one block of rows at a time.

A table is one or more files of one format, read in order. Whatever the format, its rows come in
blocks of the same size, so that a run can stop after any block and begin again there. CSV comes as
text: what a column's cells mean is for their reader to say.
"""

from __future__ import annotations

import hashlib
import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa

from pril.errors import RowError

BLOCK_ROWS, BLOCK_CELLS = 1 << 15, 1 << 22
READ_BYTES = 1 << 20
SPOOL_SUFFIX = ".stdin"
BOM = b"\xef\xbb\xbf"

Carried = tuple[int, pa.RecordBatch, "pa.RecordBatch | list[str]"]


class TableError(ValueError):
    """A file cannot be read as a table."""


class Table(ABC):
    """Files of one format, as blocks of rows.

    Parameters
    ----------
    files : list of Path
        What to read, in order.
    name : str
        What to call the table in messages.
    schema : Schema, default=None
        The columns, if they are known; None looks into the files.
    """

    def __init__(self, files: list[Path], name: str, schema: pa.Schema | None = None) -> None:
        self.files = files
        self.name = name
        self._starts: dict[int, Path] = {0: files[0]}
        self.schema = self._infer() if schema is None else schema
        self._check_names(self.schema.names)

    def _check_names(self, names: list[str]) -> None:
        twice = {column for column in names if names.count(column) > 1}
        if twice:
            raise TableError(f"{self.name}: the column {min(twice)!r} is there twice")

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where the files say it without being read."""
        return None

    @property
    def block_rows(self) -> int:
        """Number of rows in a block."""
        return max(1, min(BLOCK_ROWS, BLOCK_CELLS // max(1, len(self.schema))))

    @abstractmethod
    def _infer(self) -> pa.Schema:
        """Return the columns, number or text where the format does not say."""

    @abstractmethod
    def _read(self, file: Path, columns: list[str], skip: int) -> Iterator[pa.RecordBatch]:
        """Return the batches of one file, from a row on, which is 0 unless `_n_rows` is known."""

    def _n_rows(self, file: Path) -> int | None:
        return None

    def blocks(
        self, columns: list[str] | None = None, start: int = 0
    ) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the first row and the cells of each block, read ahead in a thread.

        Parameters
        ----------
        columns : list of str, default=None
            What to read. None reads all.
        start : int, default=0
            The row to begin at.

        Yields
        ------
        row : int
            Position of the block's first row in the table.
        block : RecordBatch
            The rows.
        """
        names = self.schema.names if columns is None else list(dict.fromkeys(columns))
        for name in names:
            self.check_column(name)
        row = start
        for block in ahead(rebatched(self._batches(names, start), self.block_rows)):
            yield row, block
            row += block.num_rows

    def read_as_words(self, names: Iterable[str]) -> None:  # noqa: B027 - most formats need not know
        """Read columns as words, whatever they hold.

        Parameters
        ----------
        names : iterable of str
            The columns; those that are not there are passed over.
        """

    def carried(self, columns: list[str], format: str) -> Iterator[Carried]:  # noqa: A002
        """Return first row, the columns asked for, and all columns to carry along, of each block.

        Parameters
        ----------
        columns : list of str
            What is to be used.
        format : str
            What the table is carried to; to its own format cells go as they were written.

        Yields
        ------
        row : int
            Position of the block's first row in the table.
        used : RecordBatch
            The columns asked for, and maybe others.
        carried : RecordBatch or list of str
            All columns, or JSON objects as text.
        """
        for name in columns:
            self.check_column(name)
        for row, block in self.blocks():
            yield row, block, block

    def _batches(self, columns: list[str], start: int) -> Iterator[pa.RecordBatch]:
        row = 0
        for file in self.files:
            self.begin_file(file, row)
            known = self._n_rows(file)
            if known is not None and row + known <= start:
                row += known
                continue
            skip = max(0, start - row) if known is not None else 0
            row += skip
            for batch in self._read(file, columns, skip):
                if row + batch.num_rows > start:
                    yield batch.slice(max(0, start - row))
                row += batch.num_rows

    def begin_file(self, file: Path, row: int) -> None:
        """Take note of where a file begins, for messages.

        Parameters
        ----------
        file : Path
            The file.
        row : int
            Position of its first row in the table.
        """
        self._starts[row] = file

    def check_column(self, name: str) -> None:
        """Refuse a column that is not there.

        Parameters
        ----------
        name : str
            The column.
        """
        if name not in self.schema.names:
            raise TableError(
                f"{self.name}: there is no column {name!r}; the columns are "
                + ", ".join(repr(known) for known in self.schema.names)
            )

    def where(self, row: int) -> str:
        """Return file and row, counted from 1, of a row of the table.

        Parameters
        ----------
        row : int
            Position in the table, from 0.

        Returns
        -------
        where : str
            To begin a message with.
        """
        start = max(first for first in self._starts if first <= row)
        return f"{self.called(self._starts[start])}, row {row - start + 1}"

    def called(self, file: Path) -> str:
        """Return what to call a file in messages: the name that the user gave.

        Parameters
        ----------
        file : Path
            One of the files.

        Returns
        -------
        name : str
            Standard input has one, too.
        """
        return self.name if len(self.files) == 1 else str(file)

    def pieces(self, rows: int = 1 << 20) -> list[tuple[Path, int, int | None]]:
        """Return file, first row and number of rows of parts that can be read by themselves.

        Parameters
        ----------
        rows : int, default=1048576
            About how many rows a part should have, where files can be entered in the middle.

        Returns
        -------
        pieces : list
            In the order of the rows; None is as many rows as there are.
        """
        return [(file, 0, self._n_rows(file)) for file in self.files]

    @contextmanager
    def _at(self, file: Path, row: int) -> Iterator[None]:
        """Say in which row of a file some rows have their mistake."""
        try:
            yield
        except RowError as error:
            place = f"{self.called(file)}, row {row + error.row + 1}"
            raise TableError(f"{place}: {error.reason}") from None

    def fingerprint(self) -> list[list[Any]]:
        """Return what tells this table from another: names, sizes, times and samples of the files.

        Returns
        -------
        fingerprint : list
            One entry a file.
        """
        return [_fingerprint(file) for file in self.files]


def _fingerprint(file: Path) -> list[Any]:
    status = file.stat()
    digest = hashlib.sha256()
    with file.open("rb") as stream:
        for place in np.linspace(0, max(0, status.st_size - READ_BYTES), 5):
            stream.seek(int(place))
            digest.update(stream.read(READ_BYTES))
    changed = None if file.suffix == SPOOL_SUFFIX else status.st_mtime_ns
    return [status.st_size, changed, digest.hexdigest()]


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


def ahead(items: Iterator[Any], depth: int = 2) -> Iterator[Any]:
    """Return the items, read by a thread that is a little ahead; its error is raised here."""
    line: queue.Queue[tuple[bool, Any]] = queue.Queue(depth)
    stopped = threading.Event()

    def put(entry: tuple[bool, Any]) -> None:
        while not stopped.is_set():
            with suppress(queue.Full):
                line.put(entry, timeout=0.1)
                return

    def read() -> None:
        try:
            for item in items:
                put((True, item))
                if stopped.is_set():
                    return
            put((False, None))
        except BaseException as error:
            put((False, error))

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        while True:
            more, item = line.get()
            if more:
                yield item
            elif item is None:
                return
            else:
                raise item
    finally:
        stopped.set()
        thread.join()


def line_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Return the bytes of a stream in blocks of whole lines."""
    rest = b""
    while chunk := stream.read(READ_BYTES):
        end = chunk.rfind(b"\n") + 1
        if end:
            yield rest + chunk[:end]
            rest = chunk[end:]
        else:
            rest += chunk
    if rest:
        yield rest
