"""Folds: a booster each, with the rows that it must not see; and where folds live."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from pril.core.logistic import odds_of
from pril.learners.boosting import compiled
from pril.learners.boosting.knowledge import Sums, relative
from pril.learners.boosting.trees import FoldBooster

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    Array = NDArray[Any]

T = TypeVar("T")


class Outcome(NamedTuple):
    """What a round of a fold shows; a few hundred numbers."""

    loss: float  # of the held-out rows before the new tree: the sum of -log P(label)
    sums: Sums  # of the held-out rows after it


class Fold:
    """One booster, the scores it gives to all rows, and the rows that it must not see.

    Folds need nothing of each other. What they show of their held-out rows is added up in the order
    of the folds, so that a model is the same, bit for bit, wherever its folds live.
    """

    def __init__(
        self, number: int, rows: compiled.Rows, data: Any, parameters: Any, scores: Array
    ) -> None:
        self.number, self.rows, self.scores = number, rows, scores
        self.held_out = np.flatnonzero(rows.fold == number).astype(np.int32)
        self.booster = FoldBooster(data, parameters, scores)

    def learn(self, theta: Array, chance: Array, haste: float) -> Outcome:
        """Add a tree, learned from the rows outside the fold."""
        gradient, hessian = np.empty((2, len(self.scores)), dtype=np.float32)
        odds, q = odds_of(theta), relative(chance)
        loss = compiled.fill_gradients(
            self.scores, self.number, odds, q, chance, self.rows, haste, gradient, hessian
        )
        self.booster.grow(gradient, hessian)
        sums = Sums.blank(*chance.shape)
        compiled.add_up(self.scores, self.held_out, odds, q, self.rows, *sums)
        return Outcome(loss, sums)

    def loss(self, theta: Array, chance: Array) -> float:
        """Return the sum of -log P(label) over the held-out rows."""
        odds = odds_of(theta)
        loss = compiled.held_out_loss(self.scores, self.held_out, odds, chance, self.rows)
        return float(loss)

    def trees(self) -> list[str]:
        """Return LightGBM's text of all trees."""
        return self.booster.grown()


class Home(Protocol):
    """Where folds live and learn."""

    def begin(self, make: Callable[[int], Fold], n_folds: int) -> None:
        """Make the folds."""

    def each(self, verb: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a method of `Fold` for each; return the results in the order of the folds."""


class Threads:
    """Folds in threads of this process. Use it in a `with` statement."""

    def __init__(self, n_threads: int) -> None:
        self.n_threads = n_threads
        self.folds: list[Fold] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            # Threads of OpenMP and BLAS wait by spinning: seconds where processors are busy.
            stack.enter_context(threadpool_limits(1))
            self.pool = stack.enter_context(ThreadPoolExecutor(self.n_threads))
            self.leave = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self.leave.close()

    def map(self, function: Callable[..., T], *items: Iterable[Any]) -> list[T]:
        """Call a function with each of some items; return the results in their order."""
        return list(self.pool.map(function, *items))

    def begin(self, make: Callable[[int], Fold], n_folds: int) -> None:
        """Make the folds."""
        self.folds = self.map(make, range(n_folds))

    def each(self, verb: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a method of `Fold` for each; return the results in the order of the folds."""
        return self.map(lambda fold: verb(fold, *arguments), self.folds)
