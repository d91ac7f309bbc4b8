"""Runs of learners that do not learn row by row, and which run learns which model.

The maximum of a likelihood takes a pass over the table for each step. The rows that have a label
are cut into the blocks that they would have in memory, so that the model has the same bits. A
checkpoint holds where the search was after its last step: a run that is taken up again repeats the
passes of one step. Boosting learns all rows at once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pril.core import fitting, learning, ranking
from pril.core.arrays import Array
from pril.core.available_memory import available_memory
from pril.core.classifier import naming_rows
from pril.core.coarsening import Kinds
from pril.core.likelihood import (
    MOST_DENSE,
    Block,
    InMemory,
    Moments,
    Rows,
    block_rows,
    evenly_spaced,
    recut,
)
from pril.core.registry import BY_COMMAND
from pril.core.threads import unchanged_on_failure
from pril.core.weights import label_weights
from pril.learners.boosting.cross_fitting import MOST_SAMPLED, Rounds, folds_for
from pril.learners.boosting.folds import MOST_KEPT
from pril.learners.ordered_boosting import fit_watched, learn
from pril.tables.files import Table, TableError, Watcher
from pril.tables.task import Task
from pril.tables.training import Kept, Run

log = logging.getLogger(__name__)

# Memory that learning takes at its peak, with some to spare: bytes for each byte of the features of
# the sample; for each row; and of a row for each fold, and for each booster that is kept. Of rows
# outside the sample, a byte for each feature as well. Of tables with 20 features, of which a fifth
# is held out, 98 bytes a row were measured for 3 million rows, and 232 for 1 million.
PEAK, ROW_BYTES, FOLD_BYTES, BOOSTER_BYTES = 5, 100, 8, 40


def run_of(table: Table, task: Task, progress: Watcher) -> Run:
    """Return the run, in this process, that learns a model from a table."""
    learner = BY_COMMAND[task.model]
    if learner.maximises:
        return MaximumRun(table, task, progress)
    return (Run if learner.online else InMemoryRun)(table, task, progress)


# --- The maximum of a likelihood -----------------------------------------------------------------


class MaximumRun(Run):
    """One run over a table: survey, steps to the maximum, a check on rows kept apart."""

    def __init__(self, table: Table, task: Task, progress: Watcher) -> None:
        super().__init__(table, task, progress)
        self.search: dict[str, Any] | None = None  # where it was after the last step
        self.moments: tuple[Any, ...] | None = None
        self._n_passes = 0  # since then
        self._kept_at = 0  # how many rows had been read when a checkpoint was last looked at

    def _learn(self) -> None:
        kinds, n = self._learned_labels()
        rows = LabelledRows(self.table.name, kinds, n, self.model.n_features_in_, self._parts)
        if self.moments is not None:
            rows.know(Moments(*self.moments))
        self._check_moments(rows.moments)
        self.moments = tuple(rows.moments)
        found = fitting.fit(rows, self.model.settings(), self.search, self._watch)
        self.model.learn_maximum(found, rows)
        self.phase = "done"

    def _learned_labels(self) -> tuple[Kinds, int]:
        """Return the kinds of labels in the rows to learn from, and how many rows have one."""
        order, ranks, _, learned = self.encoded_labels
        weights = learning.weights_of_classes(self.model, order, None)
        if weights is not None:
            learned = learned * (label_weights(weights, ranks) > 0.0)
        if not learned.any():
            reason = "the weights of the classes are zero for every row to learn from"
            raise TableError(f"{self.table.name}: {reason}", hint="holdout")
        return Kinds.of(ranks[learned > 0], len(order))[0], int(learned.sum())

    def _parts(self, kinds: Kinds, n: int) -> Iterator[Block]:
        """Make a pass: return the rows that have a label, in parts of any size."""
        self.row, first = 0, 0
        self._n_passes += 1
        for _, block in self._tracked(self._pass_name(), self._blocks()):
            with self.table.naming_rows(block.places):
                part = self.model.labelled_block(block.learning, kinds, first, n)
            first += part.n_rows
            yield part

    def _check_moments(self, moments: Moments) -> None:
        """Refuse features whose sums overflow, with the row of the largest."""
        if moments.are_finite:
            return
        for _, block in self._blocks():
            with self.table.naming_rows(block.places):
                if block.learning.labelled().any():
                    self.model.labelled_rows(block.learning)
        raise TableError(f"{self.table.name}: the features are too large: scale them")

    def _pass_name(self) -> str:
        if self.search is None:
            name = "preparing"
        else:
            sums = self.search["sums"]
            said = "" if sums is None else f" (log-likelihood {sums[0]:,.1f})"
            name = f"step {self.epoch + 1}{said}"
        return name if self._n_passes == 1 else f"{name}, pass {self._n_passes}"

    def _watch(self, search: fitting.Fit) -> None:
        """Note where the search is, after a step or before the first one."""
        self.search = search.to_plain()
        if (sums := search.maximum.sums) is not None:
            self.epoch += 1
            log.info("step %d: log-likelihood %.10g", self.epoch, sums.loglik)
        self._n_passes = 0
        super()._keep(self._kept_at)
        self._kept_at = self.done

    def _keep(self, before: int) -> None:
        if self.phase == "survey":
            super()._keep(before)

    def _makes_another_pass(self) -> bool:
        return self.phase == "learn"

    def _state(self) -> dict[str, Any]:
        learned = {"row": 0, "search": self.search, "moments": self.moments}
        return super()._state() | ({} if self.phase == "survey" else learned)


class LabelledRows(Rows):
    """The rows of a table that have a label, read again in each pass.

    With many features, a step takes hundreds of passes: then all rows are kept in memory.
    """

    def __init__(
        self,
        name: str,
        kinds: Kinds,
        n: int,
        n_features: int,
        read: Callable[[Kinds, int], Iterator[Block]],
    ) -> None:
        self.name, self.kinds, self.n, self.n_features, self.read = name, kinds, n, n_features, read
        self._kept: list[Block] | None = None

    @property
    def blocks(self) -> Iterable[Block]:
        """The rows, block by block."""
        if self._kept is not None:
            return self._kept
        blocks = recut(self.read(self.kinds, self.n), block_rows(self.n_features))
        if self.n_features <= MOST_DENSE:
            return blocks
        self._kept = list(self._if_they_fit(blocks))
        return self._kept

    def _if_they_fit(self, blocks: Iterator[Block]) -> Iterator[Block]:
        there, n_bytes, n_rows = available_memory(), 0, 0
        for block in blocks:
            n_bytes, n_rows = n_bytes + block.nbytes, n_rows + block.n_rows
            needed = n_bytes * self.n // n_rows
            if needed > there:
                raise TableError(
                    f"{self.name}: with more than {MOST_DENSE:,} features, all rows are kept in "
                    f"memory: {self.n:,} rows of {self.n_features:,} features take about "
                    f"{needed:,} bytes, and {there:,} are available; learn from fewer rows or "
                    "words, or choose a model that learns row by row",
                    hint="model",
                )
            yield block

    def sample(self, most: int) -> InMemory:
        """Return at most `most` of the rows, evenly spaced."""
        chosen, first, parts = evenly_spaced(self.n, most), 0, []
        for block in self.blocks:
            begin, end = chosen.searchsorted([first, first + block.n_rows])
            if begin < end:
                parts.append(block.take(chosen[begin:end] - first))
            first += block.n_rows
        return InMemory.of(Block.joined(parts), self.kinds)


# --- All rows at once ----------------------------------------------------------------------------


class InMemoryRun(Run):
    """One run over a table: survey, one fit to all rows, a check on rows kept apart.

    Of a small table, all features are in memory. Of a larger one only a sample is, and the table is
    read again for bins of all rows, a byte for each feature.
    """

    def _keep_cells(self, first: int, cells: pa.RecordBatch) -> None:
        if self.survey.not_apart <= MOST_SAMPLED:
            super()._keep_cells(first, cells)
        else:  # bins are read from the table
            self._cells = Kept()

    def _begin_model(self, width: int, classes: Array, weights: dict[Any, float] | None) -> None:
        self.model = self._model_of_all_rows(width, classes, weights)
        rows = self.survey.not_apart
        in_sample, there = min(rows, MOST_SAMPLED), available_memory()
        n_folds = folds_for(self.model.n_folds, rows)
        of_row = ROW_BYTES + n_folds * FOLD_BYTES
        of_row += BOOSTER_BYTES * (n_folds if rows <= MOST_KEPT else 1)
        needed = in_sample * 8 * width * PEAK + rows * of_row + (rows - in_sample) * width
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
            with unchanged_on_failure(self.model):
                self._learn_bins()
        self.phase = "done"

    def _learn_whole(self) -> None:
        """Learn from features in memory."""
        labels, weights, places, n = [], [], [], 0
        groups: list[Any] = []
        recipe, X = self.recipe, np.empty((self.n_rows, self.width))
        for first, cells in self._tracked("reading", self._read_cells(recipe.columns)):
            own_places, rows = self._to_learn(first, cells)
            part, y, own = recipe.read(self.table, own_places, rows)
            places.append(own_places)
            X[n : n + len(part)] = part
            n += len(part)
            labels.append(y)
            weights.append(np.ones(len(part)) if own is None else own)
            groups.append(self.task.read_groups(rows))
        with self.table.naming_rows(np.concatenate(places), self.task.labels.columns):
            y, weight = ranking.stack(labels), np.concatenate(weights)
            joined = np.concatenate(groups) if self.task.groups else None
            fit_watched(self.model, X, y, weight, self._watch, joined)

    def _learn_bins(self) -> None:
        """Learn from bins; the table is read for labels, for a sample, and for all bins."""
        model, words = self.model, self.survey.encoder.words_
        categories = zip(model.categorical_features, words.values(), strict=True)
        model.categories_ = {str(k): [*map(float, range(len(own)))] for k, own in categories}
        model.engine.read(model, np.empty((0, self.width)), reset=True, min_rows=0)
        model.order_ = self.encoded_labels[0]

        def source(counts: Array) -> TableRows:
            return TableRows(self._features, counts, self.width)

        intervals, weight, groups = self._labels_and_weights()
        learn(model, source, intervals, weight, self._watch, groups=groups)

    def _labels_and_weights(self) -> tuple[Array, Array, Array | None]:
        """Return intervals of ranks, weights and groups of the rows to learn from."""
        intervals = np.empty((self.n_rows, 2), dtype=np.int16)
        weight, n = np.ones(self.n_rows, dtype=np.float32), 0
        groups: list[Any] = []
        columns = list(self.task.columns)
        for first, cells in self._tracked("reading labels", self._blocks_of(columns)):
            places, cells = self._to_learn(first, cells)
            with self.table.naming_rows(places, self.task.labels.columns):
                some = slice(n, n + cells.num_rows)
                own = self.task.read_weights(cells)
                groups.append(self.task.read_groups(cells))
                if own is not None:
                    weight[some] = own
                counts, labels = weight[some] > 0.0, self.labels.read(cells)
                with naming_rows(np.flatnonzero(counts)):
                    known = ranking.encode(labels.take(counts), self.model.order_)[1]
                intervals[some] = 0
                intervals[some][counts] = known
            n += cells.num_rows
        return intervals, weight, np.concatenate(groups) if self.task.groups else None

    def _features(self) -> Iterator[Array]:
        """Return the features of the rows to learn from, block by block."""
        recipe, model = self.recipe, self.model
        for first, cells in self._tracked("reading features", self._blocks_of(recipe.columns)):
            places, rows = self._to_learn(first, cells)
            X, _, _ = recipe.read(self.table, places, rows)
            with self.table.naming_rows(places):
                yield model.engine.read(model, X, reset=False, min_rows=0).X

    def _blocks_of(self, columns: list[str]) -> Iterator[tuple[int, Any]]:
        self.row = 0
        yield from self.table.blocks(columns)
        pa.default_memory_pool().release_unused()  # frees memory

    def _watch(self, rounds: Rounds) -> None:
        self.progress("rounds", len(rounds), rounds.most, str(rounds))


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
