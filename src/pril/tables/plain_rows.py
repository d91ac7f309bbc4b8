"""Lines of JSON as a matrix, without a table in between: the fast way of a stream."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from struct import Struct, error
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa

from pril.core import ranking
from pril.core.learner import Batch
from pril.core.loop import Dense
from pril.errors import MissingExtraError, RowError
from pril.tables.cells import LARGEST
from pril.tables.json_lines import check_keys, has_keys

try:
    import msgspec
except ImportError as missing:  # pragma: no cover - the extra is missing
    raise MissingExtraError("streams need msgspec", "cli,io") from missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.tables.model import LoadedModel

    Array = NDArray[Any]

NOT_PLAIN = (msgspec.MsgspecError, RecursionError, ValueError)  # a UnicodeDecodeError is the last
ENCODED = Annotated[float, msgspec.Meta(gt=-float(LARGEST), lt=float(LARGEST))]
MOST_SPELLINGS = 10_000  # of labels that are remembered
KEY = ("key", msgspec.Raw, msgspec.Raw(b"null"))  # a field that is copied as it is written


def is_plain(model: LoadedModel) -> bool:
    """Tell whether a linear learner's features are columns of numbers, and indicators of words."""
    if not hasattr(model.learner, "stream"):
        return False
    if model.encoder is None:
        return model.steps is None
    return len(model.steps) == 1 and model.encoder._is_dense() and not model.encoder.ranks_


def row_decoder(fields: list[Any], names: list[str]) -> Callable[[bytes], Any]:
    """Return a function that reads a JSON object into fields, by these names.

    It raises one of `NOT_PLAIN`. A name with a quote or a backslash is a ValueError right here.
    """
    rename = {field[0]: name for field, name in zip(fields, names, strict=True)}
    row = msgspec.defstruct("Row", fields, rename=rename, gc=False)
    return msgspec.json.Decoder(row).decode


class PlainRows:
    """Reads lines whose cells are all of the type that is expected, in the range that is expected.

    Where it returns None, nothing is known of the lines: `parse_json_lines` accepts more, and its
    errors name the row.
    """

    def __init__(
        self,
        model: LoadedModel,
        labels: pa.Schema,
        read_labels: Callable[[pa.RecordBatch], ranking.Labels],
        key: str | None,
    ) -> None:
        """Prepare for a model with `is_plain`; `key` is a column to be copied."""
        encoder = model.encoder
        self._learner = model.learner
        self._constant = float(getattr(model.learner, "fit_intercept", False))
        self._label_columns, self._labels_of = labels, read_labels
        numbers = model.columns if encoder is None else encoder.numbers_
        self._words = {} if encoder is None else encoder.words_
        self._places: list[dict[str, int]] = []  # of each column of words, where its features are
        width = len(numbers)
        for words in self._words.values():
            self._places.append({word: width + k for k, word in enumerate(words)})
            width += len(words)
        self._width = width
        self._pack = Struct(f"{len(numbers)}d").pack
        self._n_numbers = len(numbers)
        self._encoder = encoder
        if encoder is not None:
            self._mean, self._scale = encoder._moments.mean, encoder._scales()
        self._intervals: dict[Any, bytes] = {}  # of spellings of labels seen before
        self._refused: dict[Any, RowError] = {}
        number = float if encoder is None else ENCODED
        kinds: list[Any] = [number] * len(numbers) + [str] * len(self._words)
        kinds += [str if pa.types.is_string(label.type) else float for label in labels]
        fields: list[Any] = [(f"_{j}", kind | None, None) for j, kind in enumerate(kinds)]
        self._key_at = len(fields)
        names = [*numbers, *self._words, *labels.names]
        if key is not None:
            fields.append(KEY)
            names.append(key)
        self._has_key = key is not None
        self._decode = row_decoder(fields, names)
        self._fields, self._names = fields, names
        self._decode_whole: Callable[[bytes], Any] | None = None  # a row with all of these keys
        self._n_keys = 0

    def read(self, lines: list[bytes]) -> tuple[Batch, list[str]] | None:
        """Return the rows of some lines, and the key of each if there is one."""
        try:
            rows = self._cells(lines)
            X = self._features(rows)
            keys = [bytes(row[self._key_at]).decode() for row in rows] if self._has_key else []
            intervals = self._read_labels(rows)
        except RowError:
            raise
        except NOT_PLAIN:
            return None
        X.flags.writeable = False  # the loop is compiled for such arrays
        dense = Dense(X, self._constant)
        self._learner._inspect_rows(dense)
        return Batch(dense, intervals), keys

    def _cells(self, lines: list[bytes]) -> list[tuple[Any, ...]]:
        """Return the fields of each line, and perhaps others; refuse a key that is there twice.

        Most lines have the keys of the first one. If all of these are there, the number of keys
        tells whether one is there twice.
        """
        cells = msgspec.structs.astuple
        if self._decode_whole is None:
            self._decode_whole, self._n_keys = self._decode, -1
            with suppress(*NOT_PLAIN, AttributeError):
                keys = list(msgspec.json.decode(lines[0]).keys())
                more = [key for key in keys if key not in self._names]
                fields = [field[:2] for field in self._fields]
                fields += [(f"more{j}", msgspec.Raw) for j in range(len(more))]
                self._decode_whole = row_decoder(fields, [*self._names, *more])
                self._n_keys = len(fields)
        decode = self._decode_whole
        with suppress(*NOT_PLAIN):
            rows = [cells(decode(line)) for line in lines]
            if has_keys(lines, self._n_keys):
                return rows
        check_keys(lines)
        decode = self._decode
        return [cells(decode(line)) for line in lines]

    def _features(self, rows: list[tuple[Any, ...]]) -> Array:
        n, pack, encoder = self._n_numbers, self._pack, self._encoder
        try:
            numbers = np.frombuffer(b"".join([pack(*row[:n]) for row in rows]))
            numbers = numbers.reshape(len(rows), n)
        except error:  # some are missing
            numbers = np.array([row[:n] for row in rows], dtype=np.float64)
            if encoder is not None:
                if not encoder.impute:
                    raise ValueError from None
                numbers = np.where(np.isnan(numbers), self._mean, numbers)
        if encoder is not None and encoder.scale:
            numbers = (numbers - self._mean) / self._scale
        if not self._words:
            return numbers
        X = np.zeros((len(rows), self._width))
        X[:, :n] = numbers
        for j, places in enumerate(self._places, n):
            for t, row in enumerate(rows):
                if row[j] in places:
                    X[t, places[row[j]]] = 1.0
        return X

    def _read_labels(self, rows: list[tuple[Any, ...]]) -> Array:
        """Return the intervals of the labels; each spelling is read once."""
        if not self._label_columns.names:
            return np.full((len(rows), 2), ranking.NO_LABEL)
        start = self._n_numbers + len(self._words)
        stop = start + len(self._label_columns)
        spellings = [row[start:stop] for row in rows]
        try:
            found = b"".join([self._intervals[spelling] for spelling in spellings])
        except KeyError:
            different = list(dict.fromkeys(spellings))
            if self._refused.keys().isdisjoint(different):
                try:
                    self._read_spellings(different)
                except RowError as refused:
                    if len(self._refused) > MOST_SPELLINGS:
                        self._refused.clear()
                    self._refused[different[refused.row]] = refused
            for label in filter(self._refused.__contains__, different):
                known = self._refused[label]
                row = spellings.index(label)
                raise RowError(known.argument, row, known.reason, hint=known.hint) from None
            found = b"".join([self._intervals[spelling] for spelling in spellings])
        return np.frombuffer(found, dtype=np.int64).reshape(len(rows), 2)

    def _read_spellings(self, spellings: list[tuple[Any, ...]]) -> None:
        columns = [
            pa.array(cells, label.type)
            for cells, label in zip(zip(*spellings, strict=True), self._label_columns, strict=True)
        ]
        table = self._labels_of(pa.record_batch(columns, schema=self._label_columns))
        intervals = ranking.to_intervals(table, self._learner.order_)
        self._learner._inspect_labels(table, intervals)
        if len(self._intervals) > MOST_SPELLINGS:
            self._intervals.clear()
        self._intervals |= {s: ends.tobytes() for s, ends in zip(spellings, intervals, strict=True)}
