"""The two formats of a stream, JSON and CSV: lines to cells, and answers to lines."""

from __future__ import annotations

import csv
import io
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from pril.core import ranking
from pril.errors import RowError, shown
from pril.tables.cells import NUMBER, TEXT, kind_of, misread_number, read_words, written_type
from pril.tables.csv_style import USUAL_CSV, CsvStyle
from pril.tables.files import TableError, no_column
from pril.tables.json_lines import (
    NOT_READ,
    first_types,
    have_keys,
    read_objects,
    to_column,
    to_matrix,
    to_text,
)
from pril.tables.model import probability_columns
from pril.tables.text import LONGEST_ROW, TOO_LONG

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.tables.row_encoder import Cells

    Array = NDArray[Any]

NAME = "<stdin>"
LONGEST_NOTE = 1000  # characters


class StreamOptions(NamedTuple):
    """What is in an answer beside the prediction and its score."""

    key: str | None = None  # a column to be copied
    chances: bool = False  # probabilities of all classes
    skip: bool = False  # whether a bad line is answered with its error and does not end the stream
    style: CsvStyle = USUAL_CSV  # of CSV, in and out
    asked: tuple[str, ...] = ()  # what of the style was asked for, by its names
    note: str | None = None  # a column whose last value is kept with the model


USUAL = StreamOptions()


class Answers(NamedTuple):
    """What the model says of some rows."""

    keys: list[str]  # as they are written in the answer; empty without an id column
    rank: Array
    score: Array
    chances: Array | None


class Codec(ABC):
    """How lines of a stream become cells, and how answers become lines.

    Answers are written by a form, a line with %s in place of each cell.
    """

    no_key = ""  # what an answer has in place of an id that is missing
    n_before = 0  # lines before the first row
    style_note: dict[str, str] | None = None  # of CSV
    _form: str  # of an answer
    _refusal: str  # of the answer to a bad line

    def __init__(
        self, classes: Array, features: list[str], labels: tuple[str, ...], options: StreamOptions
    ) -> None:
        self._keys = [] if options.key is None else [options.key]
        self._labels = labels
        self._noted = [] if options.note is None else [options.note]
        self._style = options.style
        self.features: list[str] = []
        self.use_columns(features)
        self._classes = [self.write(ranking.plain(name)) for name in classes]
        self._write_forms(classes, options)

    def use_columns(self, features: list[str]) -> None:
        """Read these columns from now on, then those of labels, then the id."""
        self.features = features
        self._columns = [*features, *self._labels, *self._keys]

    @abstractmethod
    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""

    @abstractmethod
    def read(self, lines: list[bytes]) -> Cells:
        """Return the cells of whole lines, and perhaps others after them."""

    @abstractmethod
    def numbers(self, rows: Cells, names: list[str]) -> Array:
        """Return cells as a matrix of floats."""

    @abstractmethod
    def column(self, cells: list[Any], name: str, kind: pa.DataType) -> pa.Array:
        """Return cells as a column."""

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
    def cell(self, line: bytes, name: str, row: int) -> Any:
        """Return one cell of a line that can be read, None if it is missing."""

    def note(self, line: bytes, name: str, row: int) -> str | float:
        """Return a cell that is kept with the model: a string or a number."""
        cell: str | float | None = self.cell(line, name, row)
        if cell is None or cell == "":
            raise RowError("X", row, f"column {name!r} is missing, and its value is to be noted")
        is_number = isinstance(cell, int | float) and -(2**63) <= cell < 2**63
        if is_number or (isinstance(cell, str) and len(cell) <= LONGEST_NOTE):
            return cell
        wanted = f"a string of at most {LONGEST_NOTE} characters or a number"
        raise RowError("X", row, f"column {name!r} is {shown(cell)}, and a note is {wanted}")

    @abstractmethod
    def write(self, cell: Any) -> str:
        """Return a cell as the format writes it."""

    def key(self, cell: Any, row: int) -> str:
        """Return the id as it is written in the answer."""
        return self.write(cell)

    def keys(self, rows: Cells) -> list[str]:
        """Return the ids of rows as they are written in the answers."""
        at = len(self._columns) - 1
        return [self.key(row[at], t) for t, row in enumerate(rows)] if self._keys else []

    def answer(self, answers: Answers) -> bytes:
        """Return the lines that answer some rows."""
        classes = self._classes
        numbers = [answers.score, *(() if answers.chances is None else answers.chances.T)]
        said = [[classes[r] for r in answers.rank.tolist()], *map(self._numerals, numbers)]
        columns = [*([answers.keys] if self._keys else []), *said]
        cells = tuple(chain.from_iterable(zip(*columns, strict=True)))
        return self._encoded(self._form * len(answers.rank) % cells)

    def _numerals(self, numbers: Array) -> list[Any]:
        """Return numbers as an answer writes them."""
        return list(numbers.tolist())

    def _encoded(self, text: str) -> bytes:
        """Return answers as the bytes to write."""
        return text.encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers a bad one."""
        key = self.no_key
        with suppress(ValueError, LookupError):
            key = self.key(self.read_key(line), 0) if self._keys else key
        cells = (*([key] if self._keys else []), self.write(reason), number)
        return self._encoded(self._refusal % cells)


class JsonCodec(Codec):
    """One JSON object in each line, in and out."""

    no_key = "null"
    _decode: Callable[[bytes], Any] | None = None
    _n_keys = 0

    def use_columns(self, features: list[str]) -> None:
        """Read these columns from now on, then those of labels, then the id."""
        super().use_columns(features)
        self._decode = None

    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""
        types: dict[str, pa.DataType] = {}
        [row] = read_objects([line])
        first_types([{name: row[name] for name in row if name not in known}], types)
        for name in [name for name, kind in types.items() if kind == TEXT]:
            _refuse_number(pa.array([to_text(row[name], name, 0)], TEXT), name)
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

    def cell(self, line: bytes, name: str, row: int) -> Any:
        """Return one cell of a line that can be read, None if it is missing."""
        with suppress(*NOT_READ):
            cells = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            return msgspec.json.decode(cells[name]) if name in cells else None
        return read_objects([line])[0].get(name)

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


class CsvCodec(Codec):
    """CSV with a header, in and out; a row is one line."""

    _names: tuple[str, ...] = ()  # of the columns, as in the header

    def __init__(
        self, classes: Array, features: list[str], labels: tuple[str, ...], options: StreamOptions
    ) -> None:
        if "\n".encode(options.style.encoding) != b"\n":
            reason = "lines do not end as in ASCII, so a stream cannot be split into rows"
            raise TableError(
                f"{NAME}: in the encoding {options.style.encoding} {reason}", hint="encoding"
            )
        self.style_note = options.style.to_note()
        super().__init__(classes, features, labels, options)

    def use_columns(self, features: list[str]) -> None:
        """Read these columns from now on, then those of labels, then the id."""
        super().use_columns(features)
        self._find_columns()

    def _find_columns(self) -> None:
        names = {name: j for j, name in enumerate(self._names)}
        self._at = [names.get(name, len(names)) for name in self._columns]

    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""
        found = {}
        for name, cell in zip(self._names, self._cells(line, 0), strict=False):
            cells = pa.array([None if name in known else cell], TEXT)
            kind = written_type(cells, name, self._style.read_numbers)
            if kind == TEXT:
                _refuse_number(read_words(cells, name), name, hint="decimal")
            if kind != pa.null():
                found[name] = kind_of(kind)
        return found

    def _write_forms(self, classes: Array, options: StreamOptions) -> None:
        chances = probability_columns(classes) if options.chances else []
        errors = ["error", "line"] if options.skip else []
        said = [*self._keys, "prediction", "score", *chances]
        mark = self._style.delimiter.replace("%", "%%")
        self._header = self._line([*said, *errors])
        self._form = mark.join(["%s"] * len(said)) + mark * len(errors) + "\n"
        gaps = f"%s{mark}" * len(self._keys) + mark * (2 + len(chances))
        self._refusal = f"{gaps}%s{mark}%s\n"

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        if self._names:
            return b"", lines
        first, _, rest = lines.lstrip().partition(b"\n")
        if len(first) > LONGEST_ROW:
            raise TableError(f"{NAME}: the header is {TOO_LONG}")
        try:
            names = self._cells(first, 0)
        except RowError as error:
            raise TableError(f"{NAME}: the header is {error.reason}", error.hint) from None
        if len(set(names)) < len(names):
            raise TableError(f"{NAME}: the header names a column twice: {', '.join(names)}")
        # A stream without labels is answered only; but a label needs all of its columns.
        labels = self._labels if set(self._labels) & set(names) else ()
        for name in (*self.features, *self._keys, *labels, *self._noted):
            if name not in names:
                raise TableError(f"{NAME}: {no_column(name, names)}")
        self._names = tuple(names)
        self.n_before = lines.count(b"\n") - rest.count(b"\n")
        self._find_columns()
        return self._encoded(f"{self._header}\n"), rest

    def read(self, lines: list[bytes]) -> Cells:
        """Return the cells of whole lines."""
        rows, width, at = [], len(self._names), self._at
        for t, line in enumerate(lines):
            cells: list[Any] = self._cells(line, t)
            if len(cells) != width:
                reason = f"{len(cells)} cells where the header has {width}"
                hint = "delimiter" if len(cells) == 1 else None
                raise RowError("X", t, f"{reason}: {shown(self._decoded(line))}", hint=hint)
            cells.append(None)  # a column that is not there
            rows.append(tuple([cells[j] for j in at]))
        return rows

    def read_key(self, line: bytes) -> Any:
        """Return the id in a line."""
        return self._cells(line, 0)[self._at[-1]]

    def cell(self, line: bytes, name: str, row: int) -> Any:
        """Return one cell of a line that can be read."""
        return self._cells(line, row)[self._names.index(name)]

    def numbers(self, rows: Cells, names: list[str]) -> Array:
        """Return cells as a matrix of floats."""
        try:
            cells = pa.array([cell for row in rows for cell in row], TEXT)
            numbers = self._style.read_numbers(cells, "")
            return numbers.reshape(len(rows), len(names)).copy()
        except RowError as error:
            row, j = divmod(error.row, len(names))
            reason = error.reason.replace("column ''", f"column {names[j]!r}", 1)
            raise RowError("X", row, reason, hint=error.hint) from None

    def column(self, cells: list[Any], name: str, kind: pa.DataType) -> pa.Array:
        """Return cells as a column."""
        column = pa.array(cells, TEXT)
        return self._style.with_points(column, name) if kind == NUMBER else column

    def write(self, cell: Any) -> str:
        """Return a cell as CSV."""
        return self._line([cell])

    def _numerals(self, numbers: Array) -> list[Any]:
        """Return numbers as an answer writes them."""
        if self._style.has_points:
            return super()._numerals(numbers)
        return [self.write(str(x).replace(".", self._style.decimal)) for x in numbers.tolist()]

    def _encoded(self, text: str) -> bytes:
        """Return answers as the bytes to write."""
        return text.encode(self._style.encoding, errors="replace")

    def _decoded(self, line: bytes) -> str:
        return line.decode("utf-8-sig" if self._style.is_utf8 else self._style.encoding)

    def _cells(self, line: bytes, row: int) -> list[str]:
        """Return the cells of a line."""
        hint, mark = None, self._style.delimiter
        try:
            text = self._decoded(line).removesuffix("\r")
            if '"' not in text and "\r" not in text:
                return text.split(mark)
            return next(csv.reader([text], delimiter=mark, strict=True))
        except UnicodeError:
            reason = f"not {self._style.encoding.upper()}: {line[:60]!r}"
            hint = "encoding"
        except csv.Error as error:
            reason = f"not a row of CSV ({error}): {shown(self._decoded(line))}"
        raise RowError("X", row, reason, hint=hint)

    def _line(self, cells: list[Any]) -> str:
        """Return cells as a line of CSV, without its end."""
        text = io.StringIO()
        csv.writer(text, lineterminator="", delimiter=self._style.delimiter).writerow(cells)
        return text.getvalue()


def _refuse_number(cell: pa.Array, name: str, hint: str | None = None) -> None:
    """Refuse the first cell of a new column that would be a word, but looks like a number."""
    if misread_number(cell, typed=hint is None) >= 0:
        reason = (
            f"column {name!r} is {shown(cell[0].as_py())}, which looks like a number but is text"
        )
        raise RowError("X", 0, reason, hint=hint)
