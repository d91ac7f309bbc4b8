"""Find the maximum of a likelihood over a table: one pass for each step.

The rows that have a label are cut into the blocks that they would have in memory, so that the model
has the same bits. A checkpoint holds where the search was after its last step: a run that is taken
up again repeats the passes of one step.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pril.core import fitting, learning
from pril.core.available_memory import available_memory
from pril.core.classifier import label_weights
from pril.core.coarsening import Kinds
from pril.core.likelihood import (
    MOST_DENSE,
    Block,
    InBlocks,
    InMemory,
    Moments,
    block_rows,
    evenly_spaced,
    recut,
)
from pril.tables.files import Table, TableError
from pril.tables.training import Run

if TYPE_CHECKING:
    from pril.tables.model import Progress
    from pril.tables.task import Task

log = logging.getLogger(__name__)


class MaximumRun(Run):
    """One run over a table: survey, steps to the maximum, a check on rows kept apart."""

    def __init__(self, table: Table, task: Task, progress: Progress) -> None:
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
        self._check_moments(rows.moments())
        self.moments = tuple(rows.moments())
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

    def _watch(self, search: fitting.Search) -> None:
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


class LabelledRows(InBlocks):
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
