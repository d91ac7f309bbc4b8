"""Folds: a booster each, with the rows that it must not see; and where folds live."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import numpy as np
from threadpoolctl import threadpool_limits

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.fitting import point_of
from pril.core.likelihood import Block, Point, Sums, total
from pril.core.rating import FARTHEST, exp_of, odds_of
from pril.core.rows import batches, frozen
from pril.learners.boosting import compiled
from pril.learners.boosting.features import Bins
from pril.learners.boosting.trees import MOST_KEPT, PUSHED_ROWS, FoldBooster, dataset

T = TypeVar("T")
Turn = AbstractContextManager[Any]  # lets one fold grow at a time, to save memory

BATCH = 1 << 15  # rows whose exponentials stay in the cache


class Fold:
    """One booster, the scores it gives to all rows, and the rows that it must not see.

    Folds need nothing of each other. What they show of their held-out rows is added up in the order
    of the folds, so that a model is the same, bit for bit, wherever its folds live.
    """

    def __init__(
        self,
        number: int,
        rows: compiled.Rows,
        data: Any,
        parameters: Any,
        scores: Array,
        turn: Turn,
    ) -> None:
        self.number, self.rows, self.scores = number, rows, scores
        self.held_out = np.flatnonzero(rows.fold == number).astype(np.int32)
        self.turn, self.booster = turn, FoldBooster(data, parameters, scores)

    def learn(self, theta: Array, chance: Array, haste: float) -> Sums:
        """Add a tree, learned from the rows outside the fold; return what those inside show."""
        with self.turn:
            self._grow(odds_of(theta), chance, haste)
        point = point_of(Kinds(self.rows.ends, len(theta) + 1), theta, chance)
        return total((self._shown(point, block) for block in self._held_out()), Sums.plus)

    def _shown(self, point: Point, block: Block) -> Sums:
        sums = point.sums(block)
        if point.chances.q is None:  # then, there are no ranges
            return sums
        return sums._replace(information=point.expected_information(block))

    def _grow(self, odds: Array, chance: Array, haste: float) -> None:
        gradient, hessian = np.empty((2, len(self.scores)), dtype=np.float32)
        for batch in batches(len(self.scores), BATCH):
            compiled.fill_gradients(
                exp_of(self.scores[batch]), batch.start, self.number, odds, chance, self.rows,
                haste, gradient, hessian,
            )  # fmt: skip
        self.booster.grow(gradient, hessian)

    def _held_out(self) -> Iterator[Block]:
        """Return the held-out rows, in batches: no features, but scores."""
        for batch in batches(max(len(self.held_out), 1), BATCH):
            some = self.held_out[batch]
            scores = np.clip(self.scores[some], -FARTHEST, FARTHEST, dtype=np.float64)
            weight = self.rows.weight[some].astype(np.float64)
            yield Block(np.empty((len(some), 0)), self.rows.group[some], weight, scores)

    def trees(self, n_rounds: int) -> list[str]:
        """Return LightGBM's text of the trees of the first rounds."""
        return self.booster.grown(n_rounds)


class Plan(NamedTuple):
    """What folds begin with."""

    rows: compiled.Rows
    parameters: dict[str, Any]  # LightGBM's
    bins: Bins
    categorical: list[int]
    sample: Array  # the codes of a sample of the rows
    mean: Array  # (features,), with slopes and centres: the linear models to start from
    slopes: Array  # (folds, features)
    centres: Array  # (folds,)
    scores: Array | None  # (folds, n), where the sample is all rows
    is_scarce: bool  # whether memory counts for more than time

    def encode(self, X: Array) -> Encoded:
        """Return some rows as folds get them."""
        scores = np.empty((len(self.centres), len(X)), dtype=np.float32)
        compiled.write_linear_scores(frozen(X), self.mean, self.slopes, self.centres, scores)
        return Encoded(self.bins.codes(X), scores)

    def folds(self, numbers: list[int], encoded: Iterator[Encoded]) -> list[Fold]:
        """Return some folds; `encoded` has all rows, in parts of any size, if the sample has not.

        The sample is then enough to know how LightGBM stores the rows.
        """
        n, parameters = len(self.rows.fold), self.parameters
        if self.scores is not None:
            scores = self.scores[numbers]
            data = dataset(self.sample, self.categorical, parameters, n, None)
        else:
            scores = np.empty((len(numbers), n), dtype=np.float32)
            codes = rebatched(self._kept(encoded, numbers, scores), PUSHED_ROWS)
            data = dataset(self.sample, self.categorical, parameters, n, codes)
        turn: Turn = threading.Lock() if self.is_scarce and n > MOST_KEPT else nullcontext()
        return [
            Fold(j, self.rows, data, parameters, own, turn)
            for j, own in zip(numbers, scores, strict=True)
        ]

    def _kept(
        self, encoded: Iterator[Encoded], numbers: list[int], scores: Array
    ) -> Iterator[Array]:
        """Return the codes of parts, and write their scores by some folds."""
        done = 0
        for part in encoded:
            end = done + len(part.codes)
            scores[:, done:end] = part.scores[numbers]
            done = end
            yield part.codes


class Encoded(NamedTuple):
    """Rows as folds get them."""

    codes: Array  # (rows, features), of bins
    scores: Array  # (folds, rows), of the starts


def rebatched(parts: Iterator[Array], size: int) -> Iterator[Array]:
    """Cut rows that come in parts into blocks of one size, but for the last one."""
    block, n = np.empty((0, 0)), 0
    for part in parts:
        if len(block) == 0:
            block = np.empty((size, part.shape[1]), dtype=part.dtype)
        while len(part):
            taken = part[: size - n]
            block[n : n + len(taken)] = taken
            n, part = n + len(taken), part[len(taken) :]
            if n == size:
                yield block
                n = 0
    if n:
        yield block[:n]


class Source(Protocol):
    """Where features come from."""

    @property
    def n_rows(self) -> int:
        """The number of rows."""

    @property
    def is_scarce(self) -> bool:
        """Whether memory counts for more than time."""

    def take(self, rows: Array) -> Array:
        """Return some rows, given by their numbers, ascending."""

    def parts(self) -> Iterator[Array]:
        """Return all rows, in parts of any size."""


class InMemory(NamedTuple):
    """Features in memory."""

    X: Array

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return len(self.X)

    @property
    def is_scarce(self) -> bool:
        """Whether memory counts for more than time."""
        return False

    def take(self, rows: Array) -> Array:
        """Return some rows, given by their numbers, ascending."""
        return self.X if len(rows) == len(self.X) else self.X[rows]

    def parts(self) -> Iterator[Array]:
        """Return all rows, in parts of any size."""
        return (self.X[batch] for batch in batches(len(self.X), PUSHED_ROWS))


class Home(Protocol):
    """Where folds live and learn."""

    def begin(self, plan: Plan, source: Source) -> None:
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

    def begin(self, plan: Plan, source: Source) -> None:
        """Make the folds."""
        numbers = list(range(len(plan.centres)))
        self.folds = plan.folds(numbers, map(plan.encode, source.parts()))

    def each(self, verb: Callable[..., T], *arguments: Any) -> list[T]:
        """Call a method of `Fold` for each; return the results in the order of the folds."""
        return self.map(lambda fold: verb(fold, *arguments), self.folds)
