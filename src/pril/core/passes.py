"""Rows that are ready to be learned, and when passes over them end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.nouns import Record
from pril.core.rows import frozen

if TYPE_CHECKING:
    from pril.core.learning import OnlineClassifier


MOST_SHORT = 2**31 - 1  # rows whose positions fit into 32 bits


@dataclass(frozen=True)
class Batch:
    """Rows and labels that have been checked; learning does not check them again."""

    rows: Any  # Dense, Csr or Points
    intervals: Array  # (n, 2), lowest and highest rank; `ranking.NO_LABEL` where there is no label
    weights: Array | None = None  # (n,), positive where there is a label; None: all are 1

    def __len__(self) -> int:
        return len(self.intervals)

    def labelled(self) -> Array:
        """Return which rows have a label."""
        return ranking.is_labelled(self.intervals)

    def shuffled(self, rng: Any) -> Array:
        """Return the positions of the rows that have a label, in a new order."""
        labelled = self.labelled()
        seed = int.from_bytes(rng.bytes(16), "little")
        # Faster than a RandomState, which scikit-learn gives us.
        order = np.random.Generator(np.random.SFC64(seed)).permutation(np.count_nonzero(labelled))
        if len(order) < len(self):
            order = np.flatnonzero(labelled)[order]
        return frozen(order.astype(np.int32) if len(self) <= MOST_SHORT else order)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        arrays = [self.intervals, self.weights, *self.rows]
        return sum(part.nbytes for part in arrays if isinstance(part, np.ndarray))

    def interval_loss(self, order: Array | None, record: Record | None) -> int:
        """Return the sum of the losses recorded in a pass, 0 if nothing was recorded."""
        if record is None:
            return 0
        visited = self.intervals if order is None else self.intervals[order]
        return int(ranking.interval_loss(visited, record.rank).sum())


class Patience:
    """When passes end early: after one without a mistake, or after some without progress."""

    def __init__(self, tol: float | None, n_iter_no_change: int, *, settles: bool) -> None:
        self.tol, self.n_iter_no_change = tol, n_iter_no_change
        self.settles = settles  # after a pass without a mistake, nothing would change any more
        self.best, self.stale = np.inf, 0

    @classmethod
    def of(cls, model: OnlineClassifier) -> Patience:
        """Return the patience that a learner's parameters ask for."""
        return cls(model.tol, model.n_iter_no_change, settles=model.engine.settles)

    def ends(self, mistakes: int, loss: float) -> bool:
        """Add a pass and its mean interval loss; tell whether it is the last."""
        if self.tol is not None:
            self.stale = self.stale + 1 if loss > self.best - self.tol else 0
            self.best = min(self.best, loss)
        if self.settles and mistakes == 0:
            return True
        return self.stale >= self.n_iter_no_change
