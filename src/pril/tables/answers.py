"""The two formats of a stream: how rows are read, and how answers are written."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from pril.core import ranking
from pril.errors import RowError, shown
from pril.tables.cells import TEXT, kind_of, read_numbers, written_type
from pril.tables.files import TableError, no_column
from pril.tables.json_lines import (
    NOT_READ,
    first_types,
    have_keys,
    read_objects,
    to_column,
    to_matrix,
)
from pril.tables.model import probability_columns
from pril.tables.text import LONGEST_ROW, TOO_LONG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAME = "<stdin>"

Cells = list[tuple[Any, ...]]  # of each row: the columns in their order, then the id


class StreamOptions(NamedTuple):
    """What is in an answer beside the prediction and its score."""

    key: str | None = None  # a column to be copied
    chances: bool = False  # probabilities of all classes
    skip: bool = False  # whether a bad line is answered with its error and does not end the stream


USUAL = StreamOptions()


class Answers(NamedTuple):
    """What the model says of some rows."""

    keys: list[str]  # as they are written in the answer; empty without an id column
    rank: Array
    score: Array
    chances: Array | None


class StreamFormat(ABC):
    """How lines of a stream become cells, and how answers become lines.

    Answers are written by a form, a line with %s in place of each cell.
    """

    no_key = ""  # what an answer has in place of an id that is missing
    _form: str  # of an answer
    _refusal: str  # of the answer to a bad line

    def __init__(
        self, classes: Array, columns: list[str], n_needed: int, options: StreamOptions
    ) -> None:
        """Prepare to read columns; those of labels come after those that are needed."""
        self._keys = [] if options.key is None else [options.key]
        self.use_columns(columns, n_needed)
        self._classes = [self.write(ranking.plain(name)) for name in classes]
        self._write_forms(classes, options)

    def use_columns(self, columns: list[str], n_needed: int) -> None:
        """Read other columns from now on."""
        self._columns = [*columns, *self._keys]
        self._needed = [*columns[:n_needed], *self._keys]

    @abstractmethod
    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""

    @abstractmethod
    def _write_forms(self, classes: Array, options: StreamOptions) -> None:
        """Set the forms of answers."""

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        return b"", lines

    @abstractmethod
    def read_key(self, line: bytes) -> Any:
        """Return the id in a line."""

    @abstractmethod
    def write(self, cell: Any) -> str:
        """Return a cell as the format writes it."""

    def key(self, cell: Any, row: int) -> str:
        """Return the id as it is written in the answer."""
        return self.write(cell)

    def answer(self, answers: Answers) -> bytes:
        """Return the lines that answer some rows."""
        classes, form = self._classes, self._form
        said = [[classes[r] for r in answers.rank.tolist()], answers.score.tolist()]
        chances = [] if answers.chances is None else answers.chances.T.tolist()
        columns = [*([answers.keys] if self._keys else []), *said, *chances]
        return "".join([form % row for row in zip(*columns, strict=True)]).encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers a bad one."""
        key = self.no_key
        with suppress(ValueError, LookupError):
            key = self.key(self.read_key(line), 0) if self._keys else key
        cells = (*([key] if self._keys else []), self.write(reason), number)
        return (self._refusal % cells).encode()


class JsonRows(StreamFormat):
    """One JSON object in each line, in and out."""

    no_key = "null"
    _decode: Callable[[bytes], Any] | None = None
    _n_keys = 0

    def use_columns(self, columns: list[str], n_needed: int) -> None:
        """Read other columns from now on."""
        super().use_columns(columns, n_needed)
        self._decode = None

    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""
        types: dict[str, pa.DataType] = {}
        [row] = read_objects([line])
        first_types([{name: row[name] for name in row if name not in known}], types)
        return {name: kind_of(kind) for name, kind in types.items() if kind != pa.null()}

    def _write_forms(self, classes: Array, options: StreamOptions) -> None:
        fields = {"prediction": "%s", "score": "%s"}
        if options.chances:
            fields["probabilities"] = self._object((str(name), "%s") for name in classes)
        keys = [(name, "%s") for name in self._keys]
        self._form = self._object([*keys, *fields.items()]) + "\n"
        self._refusal = self._object([*keys, ("error", "%s"), ("line", "%s")]) + "\n"

    def _object(self, fields: Iterable[tuple[str, str]]) -> str:
        pairs = [f"{self.write(name).replace('%', '%%')}: {form}" for name, form in fields]
        return f"{{{', '.join(pairs)}}}"

    def read(self, lines: list[bytes]) -> Cells:
        """Return the cells of whole lines, and perhaps others after them.

        Most lines have the keys of the first one: a struct with these keys is decoded faster than a
        dict. If a line has all of them, its number of keys tells whether one occurs twice.
        """
        if self._decode is None:
            with suppress(*NOT_READ):
                self._decode = self._decoder(lines[0])
        if self._decode is not None:
            with suppress(*NOT_READ):
                cells = msgspec.structs.astuple
                rows = [cells(self._decode(line)) for line in lines]
                if have_keys(lines, self._n_keys * len(lines)):
                    return rows
        objects = read_objects(lines)
        for name in self._keys:
            for line, row in zip(lines, objects, strict=True):
                row[name] = self.read_key(line, row)
        return [tuple(map(row.get, self._columns)) for row in objects]

    def _decoder(self, line: bytes) -> Callable[[bytes], Any]:
        """Return a function that decodes lines with the keys of this one.

        It is a ValueError if a key has a quote or a backslash.
        """
        found = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
        names = list(dict.fromkeys([*self._columns, *found]))
        n_read = len(self._columns) - len(self._keys)  # the id is copied as it is written
        kinds = [Any] * n_read + [msgspec.Raw] * (len(names) - n_read)
        fields = [(f"_{j}", kind) for j, kind in enumerate(kinds)]
        rename = {f"_{j}": name for j, name in enumerate(names)}
        self._n_keys = len(names)
        row = msgspec.defstruct("Row", fields, rename=rename, gc=False)
        return msgspec.json.Decoder(row).decode

    def read_key(self, line: bytes, row: dict[str, Any] | None = None) -> Any:
        """Return the id in a line as it is written."""
        [name] = self._keys
        with suppress(*NOT_READ):
            return msgspec.json.decode(line, type=dict[Any, msgspec.Raw]).get(name)
        row = row or read_objects([line])[0]
        return json.dumps(row.get(name)).encode()

    def numbers(self, rows: Cells, names: list[str]) -> Array:
        """Return cells as a matrix of floats."""
        return to_matrix(rows, names)

    def column(self, cells: list[Any], name: str, kind: pa.DataType) -> pa.Array:
        """Return cells as a column."""
        return to_column(cells, name, kind)

    def write(self, cell: Any) -> str:
        """Return a cell as JSON."""
        return json.dumps(cell, ensure_ascii=False)

    def key(self, cell: Any, row: int) -> str:
        """Return the id as it is written in the answer."""
        try:
            return self.no_key if cell is None else bytes(cell).decode()
        except UnicodeDecodeError:
            raise RowError("X", row, f"not UTF-8: {shown(bytes(cell))}") from None


class CsvRows(StreamFormat):
    """CSV with a header, in and out; a row is one line."""

    _names: tuple[str, ...] = ()  # of the columns, as in the header

    def use_columns(self, columns: list[str], n_needed: int) -> None:
        """Read other columns from now on."""
        super().use_columns(columns, n_needed)
        self._find_columns()

    def _find_columns(self) -> None:
        names = {name: j for j, name in enumerate(self._names)}
        self._at = [names.get(name, len(names)) for name in self._columns]

    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""
        found = {}
        for name, cell in zip(self._names, _csv_cells(line, 0), strict=False):
            kind = pa.null() if name in known else written_type(pa.array([cell], TEXT), name)
            if kind != pa.null():
                found[name] = kind_of(kind)
        return found

    def _write_forms(self, classes: Array, options: StreamOptions) -> None:
        chances = probability_columns(classes) if options.chances else []
        errors = ["error", "line"] if options.skip else []
        said = [*self._keys, "prediction", "score", *chances]
        self._header = _csv_line([*said, *errors])
        self._form = ",".join(["%s"] * len(said)) + "," * len(errors) + "\n"
        self._refusal = "%s," * len(self._keys) + "," * (2 + len(chances)) + "%s,%s\n"

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
        self._names = tuple(names)
        self._find_columns()
        return f"{self._header}\n".encode(), rest

    def read(self, lines: list[bytes]) -> Cells:
        """Return the cells of whole lines."""
        rows, width, at = [], len(self._names), self._at
        for t, line in enumerate(lines):
            cells: list[Any] = _csv_cells(line, t)
            if len(cells) != width:
                reason = f"{len(cells)} cells where the header has {width}"
                raise RowError("X", t, f"{reason}: {shown(line.decode())}")
            cells.append(None)  # a column that is not there
            rows.append(tuple([cells[j] for j in at]))
        return rows

    def read_key(self, line: bytes) -> Any:
        """Return the id in a line."""
        return _csv_cells(line, 0)[self._at[-1]]

    def numbers(self, rows: Cells, names: list[str]) -> Array:
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

    def write(self, cell: Any) -> str:
        """Return a cell as CSV."""
        return _csv_line([cell])


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
