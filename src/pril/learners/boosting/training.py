"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from threadpoolctl import threadpool_limits

from pril.core.rows import batches
from pril.learners.boosting import passes
from pril.learners.boosting.passes import Cuts
from pril.learners.boosting.trees import MOST_KEPT, Engine, plant, prepare_engine
from pril.learners.ordered_logit import OrderedLogit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.learners.ordered_boosting import OrderedBoosting

    Array = NDArray[Any]

PROGRESS_SECONDS = 10.0
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
FIRST_STEPS = 5  # EM steps before the first round
LARGEST_STEP = 0.5  # of a threshold in an EM step


class Ranges(NamedTuple):
    """The kinds of ranges that occur, and which one each row has."""

    ends: Array  # (kinds, 2), lowest and highest rank, ascending
    inside: Array  # (kinds, K), 1.0 for the classes of a range
    group: Array  # (n,)

    @classmethod
    def of(cls, intervals: Array, n_classes: int) -> Ranges:
        """Give each range that occurs a number."""
        kinds, group = np.unique(intervals @ [n_classes, 1], return_inverse=True)
        ends = np.column_stack(np.divmod(kinds, n_classes))
        ranks = np.arange(n_classes)
        inside = (ends[:, :1] <= ranks) & (ranks <= ends[:, 1:])
        return cls(ends, inside.astype(np.float64), group.astype(np.int16))

    @property
    def exact(self) -> Array:
        """Which kinds are exact labels."""
        exact: Array = self.ends[:, 0] == self.ends[:, 1]
        return exact


class Knowledge(NamedTuple):
    """What is learned from held-out scores."""

    theta: Array  # (K - 1,)
    chance: Array  # (kinds, K), how often a row of a class is given a range
    q: Array  # the same, divided by its largest in each row


class Training:
    """The boosters of all folds, growing in step."""

    def __init__(
        self, model: OrderedBoosting, X: Array, ranges: Ranges, weight: Array, rng: Any
    ) -> None:
        n, n_classes = len(X), ranges.inside.shape[1]
        self.model, self.X, self.ranges = model, X, ranges
        self.n_boosters = min(model.n_folds, n)
        if n < model.n_folds:
            warnings.warn(
                f"n_folds={model.n_folds}, but only {n} rows have a label: each is a fold",
                stacklevel=4,
            )
        self.order = rng.permutation(n)
        fold = np.empty(n, dtype=np.int8)
        fold[self.order] = np.arange(n) % self.n_boosters
        self.rows = passes.Rows(ranges.ends, ranges.group, weight, fold)
        count = np.bincount(ranges.group, minlength=len(ranges.ends))
        exact_rows = np.zeros(n_classes)
        exact_rows[ranges.ends[ranges.exact, 0]] = count[ranges.exact]
        if n_classes > 1 and not exact_rows.any():
            warnings.warn(
                "no label is exact: the classes at both ends cannot be told from their neighbours; "
                "a few exact labels would show how ranges come about",
                stacklevel=4,
            )
        trust = float(model.trust)
        self.doubt = np.divide(
            trust, trust + exact_rows, out=np.ones(n_classes), where=trust + exact_rows > 0
        )
        self.scores = np.empty((self.n_boosters, n), dtype=np.float32)

    def run(self) -> dict[str, Any]:
        """Learn, and return the attributes of a fitted model."""
        model = self.model
        # OpenMP's threads wait by spinning, which takes seconds where processors are busy.
        with (
            threadpool_limits(1, "openmp"),
            _threads(min(effective_n_jobs(model.n_jobs), self.n_boosters)) as side_by_side,
        ):
            self._standardise()
            few = len(self.X) <= MOST_KEPT  # each start copies its rows
            starts = (side_by_side if few else map)(self._start, range(self.n_boosters))
            slopes, cuts = zip(*starts, strict=True)
            centres = [cut.sum() / max(len(cut), 1) for cut in cuts]
            theta = np.mean([c - m for c, m in zip(cuts, centres, strict=True)], axis=0)
            start = np.empty(len(self.X))
            for scores, slope, centre in zip(self.scores, slopes, centres, strict=True):
                passes.linear_scores(self.X, self.mean, slope, start)
                scores[:] = start - centre
            del start, self.order
            knowledge = Knowledge(theta, self.ranges.inside, self.ranges.inside)
            held_out = self._held_out()
            for _ in range(FIRST_STEPS):
                knowledge = self._improved(knowledge, held_out)
            data, parameters = prepare_engine(model, self.X)
            self.engines = [Engine(data, parameters, scores) for scores in self.scores]
            losses: list[float] = []
            best, kept, said = math.inf, (0, knowledge), time.monotonic()
            for n_iter in range(1, model.max_iter + 1):
                list(side_by_side(partial(self._grow, knowledge), range(self.n_boosters)))
                held_out = self._held_out()
                knowledge = self._improved(knowledge, held_out)
                losses.append(self._loss(knowledge, held_out))
                if losses[-1] < best - LEAST_GAIN:
                    best, kept = losses[-1], (n_iter, knowledge)
                elif n_iter - kept[0] >= model.n_iter_no_change:
                    break
                if model.verbose and time.monotonic() - said >= PROGRESS_SECONDS:
                    said = time.monotonic()
                    print(
                        f"round {n_iter}: held-out loss {losses[-1]:.5f}, best {best:.5f} after "
                        f"round {kept[0]}"
                    )
        n_iter, knowledge = kept
        grown = [tree for engine in self.engines for tree in engine.grown(n_iter)]
        gain = np.zeros(self.X.shape[1])
        for tree in grown:
            np.add.at(gain, tree.feature[tree.feature >= 0], tree.gain)
        return {
            "thresholds_": knowledge.theta,
            "n_iter_": n_iter,
            "validation_loss_": np.array(losses),
            "feature_importances_": gain / (gain.sum() or 1.0),
            "_mean": self.mean,
            "_slope": np.mean(slopes, axis=0),
            "_intercept": -float(np.mean(centres)),
            "_n_boosters": self.n_boosters,
            "_forest": plant(grown),
            "_ends": self.ranges.ends,
            "_chances": knowledge.q,
        }

    # --- The linear start ---

    def _standardise(self) -> None:
        """Find mean and standard deviation of each feature, missing values left out."""
        d = self.X.shape[1]
        n, total, squares = np.zeros(d), np.zeros(d), np.zeros(d)
        with np.errstate(all="ignore"):
            for batch in batches(len(self.X), 1 << 16):
                n += np.count_nonzero(~np.isnan(self.X[batch]), axis=0)
                total += np.nansum(self.X[batch], axis=0, dtype=np.float64)
            self.mean = np.nan_to_num(total / n, nan=0.0, posinf=0.0, neginf=0.0)
            for batch in batches(len(self.X), 1 << 16):
                squares += np.nansum((self.X[batch] - self.mean) ** 2, axis=0)
            self.scale = 1.0 / np.sqrt(squares / n)
        self.scale[~np.isfinite(self.scale)] = 0.0  # constant, missing or too large: not used
        self.scale[list(self.model._categories)] = 0.0

    def _start(self, j: int) -> tuple[Array, Array]:
        """Return slopes and thresholds of a linear model that has not seen fold j."""
        rows = self.order[self.rows.fold[self.order] != j]
        n_classes = self.ranges.inside.shape[1]
        Z = self.X[rows].astype(np.float64, copy=False)
        Z -= self.mean
        Z *= self.scale
        np.nan_to_num(Z, copy=False)
        logit = OrderedLogit(classes=np.arange(n_classes), trust=self.model.trust, random_state=0)
        logit.fit(Z, self.ranges.ends[self.ranges.group[rows]], self.rows.weight[rows])
        return logit.coef_ * self.scale, logit.thresholds_

    # --- Rounds ---

    def _grow(self, knowledge: Knowledge, j: int) -> None:
        """Add a tree to a booster, learned from the rows outside its fold."""
        gradient = np.empty(len(self.X), dtype=np.float32)
        hessian = np.empty_like(gradient)
        cuts = Cuts.of(knowledge.theta)
        passes.fill_gradients(self.scores[j], j, cuts, knowledge.q, self.rows, gradient, hessian)
        self.engines[j].grow(gradient, hessian)

    def _held_out(self) -> Array:
        """Return the score of each row by the booster that has not seen it."""
        scores: Array = np.empty_like(self.scores[0])
        for j, own in enumerate(self.scores):
            np.copyto(scores, own, where=self.rows.fold == j)
        return scores

    def _improved(self, knowledge: Knowledge, scores: Array) -> Knowledge:
        """Take one EM step."""
        (theta, _, q), inside = knowledge, self.ranges.inside
        k = len(theta)
        table, slope, diagonal = np.zeros_like(inside), np.zeros(k), np.full(k, 1e-3)
        beside = np.zeros(max(k - 1, 0))
        sums = table, slope, diagonal, beside
        passes.add_up(scores, Cuts.of(theta), q, self.rows, sums)
        total = table.sum(axis=0) + 1e-12
        at_random = (table.sum(axis=1) / (inside @ total))[:, np.newaxis]
        chance = ((1.0 - self.doubt) * table / total + self.doubt * at_random) * inside
        chance[self.ranges.exact] = inside[self.ranges.exact]
        information = np.diag(diagonal)
        if k > 1:
            information += np.diag(beside, 1) + np.diag(beside, -1)
        step = np.linalg.solve(information, slope)
        theta = np.maximum.accumulate(theta + np.clip(step, -LARGEST_STEP, LARGEST_STEP))
        return Knowledge(theta, chance, chance / chance.max(axis=1, keepdims=True))

    def _loss(self, knowledge: Knowledge, scores: Array) -> float:
        cuts = Cuts.of(knowledge.theta)
        loss = passes.held_out_loss(scores, cuts, knowledge.chance, self.rows)
        return float(loss / self.rows.weight.sum())


@contextmanager
def _threads(n_jobs: int) -> Iterator[Callable[[Callable[[int], Any], Iterable[int]], Any]]:
    """Give a `map` that works in so many threads."""
    if n_jobs == 1:
        yield map
    else:
        with ThreadPoolExecutor(n_jobs) as pool:
            yield pool.map
