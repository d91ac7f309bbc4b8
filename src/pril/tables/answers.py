"""The two formats of a stream: how rows are read, and how answers are written."""

from __future__ import annotations

import csv
import io
import json
from contextlib import suppress
from struct import Struct, error
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from pril.core import ranking
from pril.errors import RowError, shown
from pril.tables.cells import TEXT, read_numbers
from pril.tables.files import TableError, no_column
from pril.tables.json_lines import RowReader, to_column, to_numbers
from pril.tables.text import LONGEST_ROW, TOO_LONG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAME = "<stdin>"


class StreamOptions(NamedTuple):
    """What is in an answer beside the prediction and its score."""

    key: str | None = None  # a column to be copied
    chances: bool = False  # of all classes
    skip: bool = False  # a line that is wrong is answered with the error, and does not end it all


USUAL = StreamOptions()


class Answers(NamedTuple):
    """What the model says of some rows."""

    keys: list[str]  # as they are written in the answer; empty if there is no such column
    rank: Array
    score: Array
    chances: Array | None


class JsonRows:
    """One JSON object in each line, in and out."""

    def __init__(
        self, classes: Array, columns: list[str], n_needed: int, options: StreamOptions
    ) -> None:
        self._classes = [json.dumps(ranking.plain(name), ensure_ascii=False) for name in classes]
        self._chances = [f"{json.dumps(str(name), ensure_ascii=False)}: " for name in classes]
        self._key = None if options.key is None else json.dumps(options.key, ensure_ascii=False)
        self._reader = RowReader(columns, options.key)

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        return b"", lines

    def read(self, lines: list[bytes]) -> list[tuple[Any, ...]]:
        """Return the cells of whole lines; the key, if there is one, is after the columns."""
        return self._reader.read(lines)

    def numbers(self, rows: list[tuple[Any, ...]], names: list[str]) -> Array:
        """Return cells as a matrix of floats."""
        pack, parts = Struct(f"{len(names)}d").pack, []
        for t, row in enumerate(rows):
            try:
                parts.append(pack(*row))
            except (error, OverflowError):  # a cell is missing, or wrong
                parts.append(to_numbers(row, names, t))
        return np.frombuffer(b"".join(parts)).reshape(len(rows), len(names))

    def column(self, cells: list[Any], name: str, kind: pa.DataType) -> pa.Array:
        """Return cells as a column."""
        return to_column(cells, name, kind)

    def key(self, cell: Any, row: int) -> str:
        """Return the key as it is written in the answer."""
        try:
            return "null" if cell is None else bytes(cell).decode()
        except UnicodeDecodeError:
            raise RowError("X", row, f"not UTF-8: {shown(bytes(cell))}") from None

    def answer(self, answers: Answers) -> bytes:
        """Return the lines that answer some rows."""
        classes = self._classes
        pairs = zip(answers.rank.tolist(), answers.score.tolist(), strict=True)
        lines = [f'"prediction": {classes[r]}, "score": {s!r}' for r, s in pairs]
        if answers.keys:
            known = zip(answers.keys, lines, strict=True)
            lines = [f"{self._key}: {key}, {line}" for key, line in known]
        if answers.chances is not None:
            for t, row in enumerate(answers.chances.tolist()):
                said = [f"{name}{p!r}" for name, p in zip(self._chances, row, strict=True)]
                lines[t] = f'{lines[t]}, "probabilities": {{{", ".join(said)}}}'
        return ("{" + "}\n{".join(lines) + "}\n").encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers one that is wrong."""
        known = ""
        if self._key is not None:
            key = "null"
            with suppress(ValueError):
                key = self.key(self._reader.read_raw(line), 0)
            known = f"{self._key}: {key}, "
        return f'{{{known}"error": {json.dumps(reason)}, "line": {number}}}\n'.encode()


class CsvRows:
    """CSV with a header, in and out; a row is one line."""

    def __init__(
        self, classes: Array, columns: list[str], n_needed: int, options: StreamOptions
    ) -> None:
        """Prepare to read columns; labels come after those that are needed."""
        first = [] if options.key is None else [options.key]
        self._columns = [*columns, *first]
        self._needed = [*columns[:n_needed], *first]
        self._classes = [_csv_line([ranking.plain(name)]) for name in classes]
        self._names: list[str] = []
        self._has_key = bool(first)
        chances = [f"probability of {name}" for name in classes] if options.chances else []
        self._n_empty = 2 + len(chances)
        last = ["error", "line"] if options.skip else []
        self._header = _csv_line([*first, "prediction", "score", *chances, *last])
        self._end = ",,\n" if options.skip else "\n"

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        if self._names:
            return b"", lines
        first, _, rest = lines.lstrip().partition(b"\n")
        if len(first) > LONGEST_ROW:
            raise TableError(f"{NAME}: the header is {TOO_LONG}")
        try:
            names = _csv_cells(first, 0)
        except RowError as error:
            raise TableError(f"{NAME}: the header is {error.reason}") from None
        if len(set(names)) < len(names):
            raise TableError(f"{NAME}: the header names a column twice: {', '.join(names)}")
        for name in self._needed:
            if name not in names:
                raise TableError(f"{NAME}: {no_column(name, names)}")
        self._names = names
        self._at = [names.index(name) if name in names else len(names) for name in self._columns]
        return f"{self._header}\n".encode(), rest

    def read(self, lines: list[bytes]) -> list[tuple[Any, ...]]:
        """Return the cells of whole lines; the key, if there is one, is after the columns."""
        rows, width, at = [], len(self._names), self._at
        for t, line in enumerate(lines):
            cells: list[Any] = _csv_cells(line, t)
            if len(cells) != width:
                reason = f"{len(cells)} cells where the header has {width}"
                raise RowError("X", t, f"{reason}: {shown(line.decode())}")
            cells.append(None)  # a column that is not there
            rows.append(tuple([cells[j] for j in at]))
        return rows

    def numbers(self, rows: list[tuple[Any, ...]], names: list[str]) -> Array:
        """Return cells as a matrix of floats."""
        try:
            cells = pa.array([cell for row in rows for cell in row], TEXT)
            return read_numbers(cells, "").reshape(len(rows), len(names)).copy()
        except RowError as error:
            row, j = divmod(error.row, len(names))
            reason = error.reason.replace("column ''", f"column {names[j]!r}", 1)
            raise RowError("X", row, reason, hint=error.hint) from None

    def column(self, cells: list[Any], name: str, kind: pa.DataType) -> pa.Array:
        """Return cells as a column."""
        return pa.array(cells, TEXT)

    def key(self, cell: Any, row: int) -> str:
        """Return the key as it is written in the answer."""
        return _csv_line([cell])

    def answer(self, answers: Answers) -> bytes:
        """Return the lines that answer some rows."""
        pairs = zip(answers.rank.tolist(), answers.score.tolist(), strict=True)
        lines = [f"{self._classes[r]},{s!r}" for r, s in pairs]
        if answers.keys:
            lines = [f"{key},{line}" for key, line in zip(answers.keys, lines, strict=True)]
        if answers.chances is not None:
            for t, row in enumerate(answers.chances.tolist()):
                lines[t] = ",".join([lines[t], *map(repr, row)])
        return "".join([f"{line}{self._end}" for line in lines]).encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers one that is wrong."""
        first = ""
        if self._has_key:
            with suppress(ValueError, LookupError):
                first = self.key(_csv_cells(line, 0)[self._at[-1]], 0)
            first += ","
        return f"{first}{',' * self._n_empty}{_csv_line([reason, number])}\n".encode()


def _csv_cells(line: bytes, row: int) -> list[str]:
    """Return the cells of a line."""
    try:
        text = line.decode("utf-8-sig").removesuffix("\r")
        if '"' not in text and "\r" not in text:
            return text.split(",")
        return next(csv.reader([text], strict=True))
    except UnicodeDecodeError:
        reason = f"not UTF-8: {line[:60]!r}"
    except csv.Error as error:
        reason = f"not a row of CSV ({error}): {shown(line.decode())}"
    raise RowError("X", row, reason)


def _csv_line(cells: list[Any]) -> str:
    """Return cells as a line of CSV, without its end."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
