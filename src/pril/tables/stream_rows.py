"""From the cells of a stream's lines to the rows that a learner takes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pril.core import learning, ranking
from pril.core.classifier import rows_to_rate
from pril.core.loop import Dense
from pril.core.passes import Batch
from pril.core.rows import frozen
from pril.errors import RowError
from pril.tables.json_lines import to_text
from pril.tables.label_columns import LabelColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.tables.answers import Cells, CsvRows, JsonRows
    from pril.tables.encoder import ColumnEncoder
    from pril.tables.model import LoadedModel

    Array = NDArray[Any]

MOST_SPELLINGS = 10_000  # of labels that are remembered


class CellEncoder:
    """How the cells of a few rows become the features of a ColumnEncoder.

    It goes around `ColumnEncoder.transform`, which takes long for a single row.
    """

    def __init__(self, encoder: ColumnEncoder) -> None:
        self._encoder, self._moments = encoder, encoder.moments_
        self._numbers, self._scales = encoder.numbers_, encoder.scales()
        self._ranks, self._words = _places(encoder.ranks_), _places(encoder.words_)
        self.columns = [*self._numbers, *self._words]

    @property
    def is_current(self) -> bool:
        """Whether the encoder has not learned since."""
        return self._encoder.moments_ is self._moments

    def renewed(self) -> CellEncoder:
        """Return this for the encoder as it is now."""
        return CellEncoder(self._encoder)

    def __call__(self, cells: Cells, to_numbers: Callable[[Cells, list[str]], Array]) -> Any:
        """Return the features; the function turns cells into a matrix of numbers."""
        n = len(self._numbers)
        rows = [row[:n] for row in cells]
        for name, places in self._ranks.items():
            j = self._numbers.index(name)
            for t, row in enumerate(rows):
                rows[t] = (*row[:j], places.get(to_text(row[j], name, t)), *row[j + 1 :])
        codes = [
            np.array([places.get(to_text(row[j], name, t), -1) for t, row in enumerate(cells)])
            for j, (name, places) in enumerate(self._words.items(), n)
        ]
        return self._encoder.encode(to_numbers(rows, self._numbers), codes, self._scales)


class StreamRows:
    """The columns that a model and its labels need, and how their cells become rows."""

    def __init__(self, model: LoadedModel, labels: LabelColumns) -> None:
        self._model, self._labels = model, labels
        self._encode = None if model.encoder is None else CellEncoder(model.encoder)
        self._features_in = model.columns if self._encode is None else self._encode.columns
        self.columns = [*self._features_in, *labels.names]
        self._interval = lru_cache(MOST_SPELLINGS, typed=True)(self._read_label)
        self._constant = float(getattr(model.learner, "fit_intercept", False))

    def read(self, format: JsonRows | CsvRows, cells: Cells) -> Batch:  # noqa: A002
        """Return the rows of some lines."""
        learner: Any = self._model.learner
        order = learner.order_
        X = self._features(format, cells)
        start, intervals = len(self._features_in), []
        try:
            for row in cells:
                intervals.append(self._interval_of(format, row[start : len(self.columns)]))
        except RowError as error:
            raise RowError(error.argument, len(intervals), error.reason, hint=error.hint) from None
        if hasattr(learner, "stream") and isinstance(X, np.ndarray):
            rows = Dense(frozen(np.ascontiguousarray(X)), self._constant)
            learner.engine.inspect_rows(rows)
        elif self._labels.names:
            unlabelled = ranking.Labels(np.full((len(cells), 1), -1), order.dtype, order)
            rows = learning.prepare(learner, X, unlabelled).rows
        else:
            rows = rows_to_rate(learner, X)
        labels = np.frombuffer(b"".join(intervals), np.int64).reshape(-1, 2)
        return (
            Batch(rows, *learning.weigh(learner, labels))
            if self._labels.names
            else Batch(rows, labels)
        )

    def _features(self, format: JsonRows | CsvRows, cells: Cells) -> Any:  # noqa: A002
        model = self._model
        if self._encode is not None:
            if not self._encode.is_current:
                self._encode = self._encode.renewed()
            return model.further_features(self._encode(cells, format.numbers))
        numbers = format.numbers([row[: len(self._features_in)] for row in cells], model.columns)
        if model.steps is None and hasattr(model.learner, "stream"):
            return numbers
        batch = pa.RecordBatch.from_arrays(list(map(pa.array, numbers.T)), model.columns)
        return model.features(batch, batch.schema)

    def _interval_of(self, format: JsonRows | CsvRows, spelling: tuple[Any, ...]) -> bytes:  # noqa: A002
        """Return the interval of a label, from memory if it was read before."""
        try:
            return self._interval(format, *spelling)
        except TypeError:  # a list or an object cannot be remembered: refuse it by name
            self._read_label(format, *spelling)
            raise

    def _read_label(self, format: JsonRows | CsvRows, *spelling: Any) -> bytes:  # noqa: A002
        """Return the interval of a label."""
        if not spelling:
            return np.array(ranking.NO_LABEL).tobytes()
        names, kind = self._labels.names, self._labels.cell_type
        cells = [
            format.column([cell], name, kind) for name, cell in zip(names, spelling, strict=True)
        ]
        labels = self._labels.read(pa.RecordBatch.from_arrays(cells, names))
        intervals = ranking.to_intervals(labels, self._model.learner.order_)
        self._model.learner.engine.inspect_labels(labels, intervals)
        return intervals.tobytes()


def _places(words: dict[str, list[str]]) -> dict[str, dict[str | None, int]]:
    return {name: {word: k for k, word in enumerate(own)} for name, own in words.items()}
