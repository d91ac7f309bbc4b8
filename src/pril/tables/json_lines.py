"""Lines of JSON as rows and as columns, for tables and for streams."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from itertools import chain, starmap
from numbers import Real
from struct import Struct, error, pack
from typing import Any, NamedTuple

import msgspec
import numpy as np

from pril.core.arrays import Array
from pril.errors import LONGEST, InputError, RowError, shown
from pril.labels import ranking
from pril.labels.brackets import spelled
from pril.tables import arrow
from pril.tables.text import without_marks

# isort: split
import pyarrow as pa  # after `arrow`, which says what to install if pyarrow is missing

NOT_READ = (msgspec.MsgspecError, RecursionError, ValueError)  # what msgspec raises at bad lines
Cells = list[tuple[Any, ...]]  # of each row: its columns, in their order, and perhaps more
RAW = dict[str, msgspec.Raw]  # an object whose values stay as they are written
NAME = "<stdin>"
LONGEST_NOTE = 1000  # characters
MOST_DIGITS = 1000  # of an integer; Python refuses to read some thousands
KEY_ENDS = (b'":', b" :", b"\t:", b"\r:", b"\n:")  # a colon in a string seldom follows one of these


# --- Rows ----------------------------------------------------------------------------------------


def split_lines(lines: bytes) -> list[bytes]:
    """Return the lines that are not blank."""
    return [line for line in lines.split(b"\n") if line.strip()]


def read_objects(lines: list[bytes]) -> list[dict[str, Any]]:
    """Return the object in each line; refuse a key that occurs twice."""
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    rows: list[dict[str, Any]] = []
    try:
        rows.extend(map(decode, lines))
        if have_keys(lines, sum(map(len, rows))):
            return rows
    except NOT_READ:
        pass
    for t in range(len(lines)):
        if t >= len(rows) or not have_keys(lines[t : t + 1], len(rows[t])):
            rows[t : t + 1] = [_read_slowly(lines[t], t)]
    return rows


def have_keys(lines: list[bytes], n_keys: int) -> bool:
    """Tell whether lines with this number of different keys have none twice.

    It counts colons. Colons in strings or inner objects may make it return False in vain.
    """
    text = b"\n".join(lines)
    return text.count(b":") == n_keys or sum(map(text.count, KEY_ENDS)) == n_keys


def _read_slowly(line: bytes, row: int) -> dict[str, Any]:
    """Return the object in a line. It accepts more than msgspec does, and says what is wrong."""
    start = shown(line[: 2 * LONGEST].decode(errors="replace"))
    reason = f"not a JSON object: {start}"
    try:
        text = without_marks(line).decode()
        value = json.loads(text, parse_int=_integer, object_pairs_hook=_object)
        if isinstance(value, dict):
            return value
    except UnicodeDecodeError:
        reason = f"not UTF-8: {line[:LONGEST]!r}"
    except RowError as error:  # of `_object`
        reason = error.reason
    except (json.JSONDecodeError, RecursionError) as error:
        reason = f"not a JSON object ({error}): {start}"
    raise RowError("X", row, reason)


def _integer(text: str) -> float:
    """Return an integer; one of hundreds of digits is infinite, as it is as a float."""
    return int(text) if len(text) <= MOST_DIGITS else float(text)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise RowError("X", 0, f"the key {shown(twice)} occurs twice")
    return row


# --- Columns -------------------------------------------------------------------------------------


def to_numbers(values: Sequence[Any], names: Sequence[str], row: int) -> bytes:
    """Return cells as the bytes of floats, NaN for what is missing; true is 1.

    `names` has the column of each, or of all; `row` is that of the first.
    """
    try:
        return pack(f"{len(values)}d", *values)
    except (error, OverflowError):  # a cell is missing, or wrong
        numbers = []
        for k, value in enumerate(values):
            if value is not None and not isinstance(value, Real):
                t, name = (row, names[k]) if len(names) > 1 else (row + k, names[0])
                reason = f"column {name!r} is {shown(value)}, not a number"
                raise RowError("X", t, reason, hint="text") from None
            numbers.append(math.nan if value is None else _float(value))
        return np.array(numbers).tobytes()


def to_matrix(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> Array:
    """Return the cells of rows as a matrix of floats."""
    try:
        numbers = b"".join(starmap(Struct(f"{len(names)}d").pack, rows))
    except (error, OverflowError):  # a cell is missing, or wrong
        numbers = b"".join([to_numbers(row, names, t) for t, row in enumerate(rows)])
    return np.frombuffer(numbers).reshape(len(rows), len(names))


def _float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of hundreds of digits
        return math.inf if value > 0 else -math.inf


def to_text(value: object, name: str, row: int, *, nested: bool = False) -> str | None:
    """Return a cell of a column of words: a number is written as in JSON."""
    if value is None:
        return None
    if isinstance(value, list | dict) and not nested:
        raise RowError("X", row, f"column {name!r} is {shown(value)}, not text")
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    try:
        text.encode()
    except UnicodeEncodeError:
        reason = f"column {name!r} is {shown(value)}, an unpaired surrogate"
        raise RowError("X", row, reason) from None
    return text


def to_column(values: list[Any], name: str, kind: pa.DataType, *, nested: bool = False) -> pa.Array:
    """Return a key's values as a column; `nested` says whether inner objects become text."""
    if kind == arrow.NUMBER:
        return pa.array(np.frombuffer(to_numbers(values, [name], 0)), from_pandas=True)
    if kind == arrow.BRACKET:
        values = [
            spelled(_float(value)) if type(value) in (int, float) else value for value in values
        ]
    if kind in (arrow.TEXT, arrow.BRACKET):
        values = [to_text(value, name, t, nested=nested) for t, value in enumerate(values)]
    elif kind not in (pa.bool_(), pa.int64()):  # dates and inner objects are never used
        return pa.nulls(len(values), kind)
    return pa.array(values, kind)


def first_types(rows: Iterable[dict[str, Any]], types: dict[str, pa.DataType]) -> None:
    """Add what the first value of each key says of its column."""
    settled = {name for name, kind in types.items() if kind != pa.null()}
    for row in rows:
        if row.keys() <= settled:
            continue
        for name, value in row.items():
            if name not in settled:
                types[name] = arrow.first_type(value)
                if value is not None:
                    settled.add(name)


def whole_types(rows: list[dict[str, Any]], types: dict[str, pa.DataType]) -> None:
    """Join the types of columns with those of all their values."""
    for name in dict.fromkeys(name for row in rows for name in row):
        for kind in {arrow.whole_type(row.get(name)) for row in rows}:
            types[name] = arrow.common_type(types.get(name, pa.null()), kind)


# --- Streams: lines to cells, and answers to lines ------------------------------------------------


class StreamOptions(NamedTuple):
    """What is in an answer beside the prediction and its score."""

    key: str | None = None  # a column to be copied
    chances: bool = False  # probabilities of all classes
    skip: bool = False  # whether a bad line is answered with its error and does not end the stream
    note: str | None = None  # a column whose last value is kept with the model
    strict: bool = False  # whether a line must have all features, and no other column


USUAL = StreamOptions()


class Codec:
    """How lines of a stream become cells, and how answers become lines.

    `use_columns` says what is read. An answer is written by a form, with %s in place of each cell.
    """

    def __init__(self, classes: Array, labels: tuple[str, ...], options: StreamOptions) -> None:
        self._keys = [] if options.key is None else [options.key]
        self._labels = labels
        self._strict = options.strict
        self._beside = {*labels, options.key, options.note}  # may be there, and are no features
        self._classes = [_json(ranking.plain(name)) for name in classes]
        fields = {"prediction": "%s", "score": "%s"}
        if options.chances:
            fields["probabilities"] = form_of((str(name), "%s") for name in classes)
        keys = [(name, "%s") for name in self._keys]
        self._answer = form_of([*keys, *fields.items()]) + "\n"
        self._refusal = form_of([*keys, ("error", "%s"), ("line", "%s")]) + "\n"
        self.use_columns([], ())

    def use_columns(self, features: list[str], ignored: Collection[str]) -> None:
        """Read these columns from now on, then those of labels, then the id."""
        self.features = features
        self._known = {*features, *ignored, *self._beside}
        self._columns = [*features, *self._labels, *self._keys]
        self._decode: Callable[[bytes], Any] | None = None
        self._n_keys = 0

    def new_columns(self, line: bytes, known: Collection[str]) -> dict[str, str]:
        """Return what the columns of a line hold that are not known; not those that are missing."""
        types: dict[str, pa.DataType] = {}
        [row] = read_objects([line])
        first_types([{name: row[name] for name in row if name not in known}], types)
        for name in [name for name, kind in types.items() if kind == arrow.TEXT]:
            cell = to_text(row[name], name, 0)
            if arrow.misread_number(pa.array([cell], arrow.TEXT), typed=True) >= 0:
                reason = f"{shown(cell)}, which looks like a number but is text"
                raise RowError("X", 0, f"column {name!r} is {reason}")
        return {name: arrow.kind_of(kind) for name, kind in types.items() if kind != pa.null()}

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
        if self._strict:
            self._check_columns(objects)
        for name in self._keys:
            for line, row in zip(lines, objects, strict=True):
                row[name] = _raw_cell(line, name, row)
        return [tuple(map(row.get, self._columns)) for row in objects]

    def _check_columns(self, rows: list[dict[str, Any]]) -> None:
        """Refuse a row that lacks a feature or has another column."""
        for t, row in enumerate(rows):
            for name in (name for name in self.features if name not in row):
                raise RowError("X", t, f"there is no column {name!r}, which is a feature")
            for name in (name for name in row if name not in self._known):
                raise RowError("X", t, f"the column {shown(name)} is not one that the model knows")

    def _decoder(self, line: bytes) -> Callable[[bytes], Any]:
        """Return a function that decodes lines with the keys of this one.

        Raises ValueError if a key has a quote or a backslash, or must not be there.
        """
        keys = msgspec.json.decode(line, type=RAW)
        names = list(dict.fromkeys([*self._columns, *keys]))
        if self._strict and not self._known.issuperset(names):
            raise InputError("a column that is not known")
        n_read = len(self._columns) - len(self._keys)  # the id is copied as it is written
        kinds = [Any] * n_read + [msgspec.Raw] * (len(names) - n_read)
        fields = [(f"_{j}", kind) for j, kind in enumerate(kinds)]
        rename = {f"_{j}": name for j, name in enumerate(names)}
        self._n_keys = len(names)
        row = msgspec.defstruct("Row", fields, rename=rename, gc=False)
        return msgspec.json.Decoder(row).decode

    # --- Ids and notes ---

    def keys(self, rows: Cells) -> list[str]:
        """Return the ids of rows as they are written in the answers."""
        at = len(self._columns) - 1
        return [_written_key(row[at], t) for t, row in enumerate(rows)] if self._keys else []

    def note(self, line: bytes, name: str, row: int) -> str | float:
        """Return a cell that is kept with the model: a string or a number."""
        try:
            cell = msgspec.json.decode(_raw_cell(line, name) or b"null")
        except NOT_READ:
            cell = read_objects([line])[0].get(name)
        if cell is None or cell == "":
            raise RowError("X", row, f"column {name!r} is missing, and its value is to be noted")
        is_number = isinstance(cell, int | float) and -(2**63) <= cell < 2**63
        if is_number or (isinstance(cell, str) and len(cell) <= LONGEST_NOTE):
            return cell
        wanted = f"a string of at most {LONGEST_NOTE} characters or a number"
        raise RowError("X", row, f"column {name!r} is {shown(cell)}, and a note is {wanted}")

    # --- Answers ---

    def answer(self, keys: list[str], rank: Array, numbers: Sequence[Array]) -> bytes:
        """Return the lines that answer some rows; the numbers are scores and probabilities."""
        classes = [self._classes[r] for r in rank.tolist()]
        said = [classes, *(column.tolist() for column in numbers)]
        columns = [keys, *said] if self._keys else said
        cells = tuple(chain.from_iterable(zip(*columns, strict=True)))
        return (self._answer * len(rank) % cells).encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers a bad one."""
        key = "null"
        with suppress(ValueError, LookupError):
            key = _written_key(_raw_cell(line, self._keys[0]), 0) if self._keys else key
        cells = (*([key] if self._keys else []), _json(reason), number)
        return (self._refusal % cells).encode()


def _raw_cell(line: bytes, name: str, row: dict[str, Any] | None = None) -> bytes | None:
    """Return a cell of a line as it is written; `row` is the object in it, if it was read."""
    with suppress(*NOT_READ):
        cell = msgspec.json.decode(line, type=RAW).get(name)
        return None if cell is None else bytes(cell)
    return json.dumps((row or read_objects([line])[0]).get(name)).encode()


def _written_key(cell: Any, row: int) -> str:
    """Return an id as it is written in the answer."""
    try:
        return "null" if cell is None else bytes(cell).decode()
    except UnicodeDecodeError:
        raise RowError("X", row, f"not UTF-8: {shown(bytes(cell))}") from None


def _json(cell: object) -> str:
    return json.dumps(cell, ensure_ascii=False)


def form_of(fields: Iterable[tuple[str, str]]) -> str:
    """Return the form of an object."""
    pairs = [f"{_json(name).replace('%', '%%')}: {form}" for name, form in fields]
    return f"{{{', '.join(pairs)}}}"
