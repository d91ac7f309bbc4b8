"""From the cells of a stream's lines to the rows that a learner takes."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pril.core import ranking
from pril.core.learner import Batch
from pril.core.loop import Dense
from pril.errors import RowError
from pril.tables.json_lines import to_text
from pril.tables.label_columns import LabelColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.tables.answers import Cells, CsvRows, JsonRows
    from pril.tables.model import LoadedModel

    Array = NDArray[Any]

MOST_SPELLINGS = 10_000  # of labels that are remembered


class StreamRows:
    """The columns that a model and its labels need, and how their cells become rows.

    It goes around `ColumnEncoder.transform`, which takes long for a single row.
    """

    def __init__(self, model: LoadedModel, labels: LabelColumns) -> None:
        encoder = model.encoder
        self._model, self._labels = model, labels
        self._numbers = model.columns if encoder is None else encoder.numbers_
        self._ranks = {} if encoder is None else _places(encoder.ranks_)
        self._words = {} if encoder is None else _places(encoder.words_)
        self._scales: Any = None if encoder is None else encoder._scales()
        self.columns = [*self._numbers, *self._words, *labels.names]
        self._interval = lru_cache(MOST_SPELLINGS, typed=True)(self._read_label)
        self._constant = float(getattr(model.learner, "fit_intercept", False))

    def read(self, format: JsonRows | CsvRows, cells: Cells) -> Batch:  # noqa: A002
        """Return the rows of some lines."""
        learner: Any = self._model.learner
        order = learner.order_
        X = self._features(format, cells)
        start, intervals = len(self._numbers) + len(self._words), []
        try:
            for row in cells:
                intervals.append(self._interval(format, *row[start : len(self.columns)]))
        except RowError as error:
            raise RowError(error.argument, len(intervals), error.reason, hint=error.hint) from None
        if hasattr(learner, "stream") and isinstance(X, np.ndarray):
            X.flags.writeable = False  # the loop is compiled for such arrays
            learner._inspect_rows(rows := Dense(X, self._constant))
        elif self._labels.names:
            unlabelled = ranking.Labels(np.full((len(cells), 1), -1), order.dtype, order)
            rows = learner._prepare(X, unlabelled).rows
        else:
            rows = learner._readable(X)
        labels = np.frombuffer(b"".join(intervals), np.int64).reshape(-1, 2)
        return Batch(rows, *learner._weigh(labels)) if self._labels.names else Batch(rows, labels)

    def _features(self, format: JsonRows | CsvRows, cells: Cells) -> Any:  # noqa: A002
        n, encoder = len(self._numbers), self._model.encoder
        rows = [row[:n] for row in cells]
        for name, places in self._ranks.items():
            j = self._numbers.index(name)
            for t, row in enumerate(rows):
                rows[t] = (*row[:j], places.get(to_text(row[j], name, t)), *row[j + 1 :])
        numbers = format.numbers(rows, self._numbers)
        if encoder is not None:
            codes = [
                np.array([places.get(to_text(row[j], name, t), -1) for t, row in enumerate(cells)])
                for j, (name, places) in enumerate(self._words.items(), n)
            ]
            return self._model.after_encoder(encoder._encode(numbers, codes, self._scales))
        if self._model.steps is None and hasattr(self._model.learner, "stream"):
            return numbers
        batch = pa.RecordBatch.from_arrays(list(map(pa.array, numbers.T)), self._numbers)
        return self._model.features(batch, batch.schema)

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
        self._model.learner._inspect_labels(labels, intervals)
        return intervals.tobytes()


def _places(words: dict[str, list[str]]) -> dict[str, dict[str | None, int]]:
    return {name: {word: k for k, word in enumerate(own)} for name, own in words.items()}
