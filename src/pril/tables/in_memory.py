"""Learn from a table all rows at once: for learners that do not learn row by row."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.available_memory import available_memory
from pril.core.classifier import naming_rows, unchanged_on_failure
from pril.learners.boosting.cross_fitting import MOST_SAMPLED, Rounds
from pril.learners.ordered_boosting import fit_watched, learn
from pril.tables.files import TableError
from pril.tables.survey import row_numbers, select_rows
from pril.tables.training import Check, Kept, Run

# Memory that learning takes at its peak, with some to spare: bytes for each byte of the features of
# the sample, and for each row; of rows outside the sample, a byte for each feature as well. For 5
# million rows of 20 features, of which 200,000 are the sample, 109 a row were measured.
PEAK, ROW_BYTES = 5, 200


class InMemoryRun(Run):
    """One run over a table: survey, one fit to all rows, a check on rows kept apart.

    Of a small table, all features are in memory. Of a larger one only a sample is, and the table is
    read again for bins of all rows, a byte for each feature.
    """

    def _begin_model(self, width: int, classes: Array, weights: dict[Any, float] | None) -> None:
        self.model = self._model_of_all_rows(width, classes, weights)
        rows = int(self.task.uses(0, self.survey.rows).learning.sum())
        in_sample, there = min(rows, MOST_SAMPLED), available_memory()
        needed = in_sample * 8 * width * PEAK + rows * ROW_BYTES + (rows - in_sample) * width
        if needed > there:
            raise TableError(
                f"{self.table.name}: {self.task.model} learns all rows at once: {rows:,} rows of "
                f"{width:,} features take about {needed:,} bytes of memory, and {there:,} are "
                "available; learn from fewer rows, or choose a model that learns row by row",
                hint="model",
            )
        self.n_rows, self.width = rows, width

    def _learn(self) -> None:
        if self.n_rows <= MOST_SAMPLED:
            self._learn_whole()
        else:
            self._cells = Kept()  # frees memory
            with unchanged_on_failure(self.model):
                self._learn_bins()
        self.phase = "done"

    def _learn_whole(self) -> None:
        """Learn from features in memory."""
        labels, weights, places, n = [], [], [], 0
        recipe, X = self.recipe, np.empty((self.n_rows, self.width))
        for first, cells in self._tracked("reading", self._read_cells(recipe.columns)):
            learning = self.task.uses(first, cells.num_rows).learning
            places.append(row_numbers(first, learning))
            part, y, own = recipe.read(self.table, places[-1], select_rows(cells, learning))
            X[n : n + len(part)] = part
            n += len(part)
            labels.append(y)
            weights.append(np.ones(len(part)) if own is None else own)
        with self.table.naming_rows(np.concatenate(places), self.task.labels.columns):
            y, weight = ranking.stack(labels), np.concatenate(weights)
            fit_watched(self.model, X, y, weight, self._watch)

    def _learn_bins(self) -> None:
        """Learn from bins; the table is read for labels, for a sample, and for all bins."""
        model, words = self.model, self.survey.encoder.words_
        categories = zip(model.categorical_features, words.values(), strict=True)
        model.categories_ = {str(k): [*map(float, range(len(own)))] for k, own in categories}
        model.engine.read(model, np.empty((0, self.width)), reset=True, min_rows=0)
        model.order_ = self.encoded_labels[0]

        def source(counts: Array) -> TableRows:
            return TableRows(self._features, counts, self.width)

        learn(model, source, *self._labels_and_weights(), self._watch)

    def _labels_and_weights(self) -> tuple[Array, Array]:
        """Return intervals of ranks and weights of the rows to learn from."""
        intervals = np.empty((self.n_rows, 2), dtype=np.int16)
        weight, n = np.ones(self.n_rows, dtype=np.float32), 0
        columns = list(self.task.columns)
        for first, cells in self._tracked("reading labels", self._blocks_of(columns)):
            learning = self.task.uses(first, cells.num_rows).learning
            places, cells = row_numbers(first, learning), select_rows(cells, learning)
            with self.table.naming_rows(places, self.task.labels.columns):
                some = slice(n, n + cells.num_rows)
                own = self.task.read_weights(cells)
                if own is not None:
                    weight[some] = own
                counts, labels = weight[some] > 0.0, self.labels.read(cells)
                with naming_rows(np.flatnonzero(counts)):
                    known = ranking.encode(labels.take(counts), self.model.order_)[1]
                intervals[some] = 0
                intervals[some][counts] = known
            n += cells.num_rows
        return intervals, weight

    def _features(self) -> Iterator[Array]:
        """Return the features of the rows to learn from, block by block."""
        recipe, model = self.recipe, self.model
        for first, cells in self._tracked("reading features", self._blocks_of(recipe.columns)):
            learning = self.task.uses(first, cells.num_rows).learning
            places = row_numbers(first, learning)
            X, _, _ = recipe.read(self.table, places, select_rows(cells, learning))
            with self.table.naming_rows(places):
                yield model.engine.read(model, X, reset=False, min_rows=0).X

    def _blocks_of(self, columns: list[str]) -> Iterator[tuple[int, Any]]:
        self.row = 0
        yield from self.table.blocks(columns)
        pa.default_memory_pool().release_unused()  # frees memory

    def _watch(self, rounds: Rounds) -> None:
        self.progress("rounds", len(rounds), rounds.most, str(rounds))

    def _check(self) -> Check:
        self.row, check, recipe = 0, Check(), self.recipe
        for first, cells in self._tracked("evaluating", self.table.blocks(recipe.columns)):
            uses = self.task.uses(first, cells.num_rows)
            if apart := recipe.read_apart(self.table, self.model, first, cells, uses):
                check = check.merge(apart.check(self.task, self.model))
        return check


class TableRows:
    """Features of a table, read again each time: a `Source` of boosting."""

    def __init__(self, read: Callable[[], Iterator[Array]], chosen: Array, width: int) -> None:
        self.read, self.chosen, self.width = read, chosen, width
        self.n_rows, self.is_scarce = int(chosen.sum()), True

    def _numbered(self) -> Iterator[tuple[int, Array]]:
        """Return the number of the first row of each part, and its features."""
        n_read = n_used = 0
        for X in self.read():
            part = X[self.chosen[n_read : n_read + len(X)]]
            yield n_used, part
            n_read, n_used = n_read + len(X), n_used + len(part)

    def take(self, rows: Array) -> Array:
        """Return some rows, given by their numbers, ascending."""
        some = np.empty((len(rows), self.width))
        for first, part in self._numbered():
            begin, end = np.searchsorted(rows, [first, first + len(part)])
            some[begin:end] = part[rows[begin:end] - first]
        return some

    def parts(self) -> Iterator[Array]:
        """Return all rows, in parts of any size."""
        return (part for _, part in self._numbered())
