"""The lines of a stream, JSON objects: lines to cells, and answers to lines."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa

from pril.core import ranking
from pril.core.arrays import Array
from pril.errors import RowError, shown
from pril.tables.cells import TEXT, kind_of, misread_number
from pril.tables.json_lines import NOT_READ, first_types, have_keys, read_objects, to_text
from pril.tables.row_encoder import Cells

NAME = "<stdin>"
LONGEST_NOTE = 1000  # characters


class StreamOptions(NamedTuple):
    """What is in an answer beside the prediction and its score."""

    key: str | None = None  # a column to be copied
    chances: bool = False  # probabilities of all classes
    skip: bool = False  # whether a bad line is answered with its error and does not end the stream
    note: str | None = None  # a column whose last value is kept with the model


USUAL = StreamOptions()


class Answers(NamedTuple):
    """What the model says of some rows."""

    keys: list[str]  # as they are written in the answer; empty without an id column
    rank: Array
    score: Array
    chances: Array | None


class Codec:
    """How lines of a stream become cells, and how answers become lines.

    Answers are written by a form, a line with %s in place of each cell.
    """

    def __init__(
        self, classes: Array, features: list[str], labels: tuple[str, ...], options: StreamOptions
    ) -> None:
        self._keys = [] if options.key is None else [options.key]
        self._labels = labels
        self.use_columns(features)
        self._classes = [_json(ranking.plain(name)) for name in classes]
        fields = {"prediction": "%s", "score": "%s"}
        if options.chances:
            fields["probabilities"] = _form((str(name), "%s") for name in classes)
        keys = [(name, "%s") for name in self._keys]
        self._answer = _form([*keys, *fields.items()]) + "\n"
        self._refusal = _form([*keys, ("error", "%s"), ("line", "%s")]) + "\n"

    def use_columns(self, features: list[str]) -> None:
        """Read these columns from now on, then those of labels, then the id."""
        self.features = features
        self._columns = [*features, *self._labels, *self._keys]
        self._decode: Callable[[bytes], Any] | None = None
        self._n_keys = 0

    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""
        types: dict[str, pa.DataType] = {}
        [row] = read_objects([line])
        first_types([{name: row[name] for name in row if name not in known}], types)
        for name in [name for name, kind in types.items() if kind == TEXT]:
            cell = to_text(row[name], name, 0)
            if misread_number(pa.array([cell], TEXT), typed=True) >= 0:
                reason = f"{shown(cell)}, which looks like a number but is text"
                raise RowError("X", 0, f"column {name!r} is {reason}")
        return {name: kind_of(kind) for name, kind in types.items() if kind != pa.null()}

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
                row[name] = self._read_key(line, row)
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

    # --- Ids and notes ---

    def _read_key(self, line: bytes, row: dict[str, Any] | None = None) -> Any:
        """Return the id in a line as it is written."""
        [name] = self._keys
        with suppress(*NOT_READ):
            return msgspec.json.decode(line, type=dict[Any, msgspec.Raw]).get(name)
        row = row or read_objects([line])[0]
        return json.dumps(row.get(name)).encode()

    def keys(self, rows: Cells) -> list[str]:
        """Return the ids of rows as they are written in the answers."""
        at = len(self._columns) - 1
        return [_written_key(row[at], t) for t, row in enumerate(rows)] if self._keys else []

    def note(self, line: bytes, name: str, row: int) -> str | float:
        """Return a cell that is kept with the model: a string or a number."""
        cell: Any = None
        try:
            cells = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            cell = msgspec.json.decode(cells[name]) if name in cells else None
        except NOT_READ:
            cell = read_objects([line])[0].get(name)
        if cell is None or cell == "":
            raise RowError("X", row, f"column {name!r} is missing, and its value is to be noted")
        is_number = isinstance(cell, int | float) and -(2**63) <= cell < 2**63
        if is_number or (isinstance(cell, str) and len(cell) <= LONGEST_NOTE):
            return cell  # type: ignore[no-any-return]
        wanted = f"a string of at most {LONGEST_NOTE} characters or a number"
        raise RowError("X", row, f"column {name!r} is {shown(cell)}, and a note is {wanted}")

    # --- Answers ---

    def answer(self, answers: Answers) -> bytes:
        """Return the lines that answer some rows."""
        classes = self._classes
        numbers = [answers.score, *(() if answers.chances is None else answers.chances.T)]
        said = [[classes[r] for r in answers.rank.tolist()], *(own.tolist() for own in numbers)]
        columns = [*([answers.keys] if self._keys else []), *said]
        cells = tuple(chain.from_iterable(zip(*columns, strict=True)))
        return (self._answer * len(answers.rank) % cells).encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers a bad one."""
        key = "null"
        with suppress(ValueError, LookupError):
            key = _written_key(self._read_key(line), 0) if self._keys else key
        cells = (*([key] if self._keys else []), _json(reason), number)
        return (self._refusal % cells).encode()


def _written_key(cell: Any, row: int) -> str:
    """Return an id as it is written in the answer."""
    try:
        return "null" if cell is None else bytes(cell).decode()
    except UnicodeDecodeError:
        raise RowError("X", row, f"not UTF-8: {shown(bytes(cell))}") from None


def _json(cell: Any) -> str:
    return json.dumps(cell, ensure_ascii=False)


def _form(fields: Iterable[tuple[str, str]]) -> str:
    """Return the form of an object."""
    pairs = [f"{_json(name).replace('%', '%%')}: {form}" for name, form in fields]
    return f"{{{', '.join(pairs)}}}"
