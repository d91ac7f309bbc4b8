"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from joblib import effective_n_jobs
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from pril.core.rows import batches
from pril.learners.boosting import passes
from pril.learners.boosting.forest_engine import BoostedTrees
from pril.learners.boosting.importances import importances
from pril.learners.boosting.passes import Forest, odds_of
from pril.learners.boosting.scaling import scaled, unscaled
from pril.learners.boosting.trees import MOST_KEPT, Engine, plant, prepare_engine
from pril.learners.ordered_logit import OrderedLogit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PROGRESS_SECONDS = 10.0
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
FIRST_STEPS = 5  # EM steps before the first round
LARGEST_STEP = 0.5  # of a threshold in an EM step
# After so many rounds, boosters that still improve are half as careful: the learning rate is twice
# the first one, l2_regularization and the least hessian of a leaf are half of theirs; and so on.
HALF_AS_CAREFUL = 50


class Knowledge(NamedTuple):
    """What is learned from held-out scores."""

    theta: Array  # (K - 1,)
    chance: Array  # (kinds, K), how often a row of a class is given a range
    q: Array  # the same, divided by its largest in each row


class Training:
    """The boosters of all folds, growing in step."""

    def __init__(self, model: Any, X: Array, intervals: Array, weight: Array, rng: Any) -> None:
        n, ranks = len(X), np.arange(len(model.order_))
        self.X, self.exponents = scaled(X, getattr(model, "feature_names_in_", None))
        self.model, self.n_boosters = model, min(model.n_folds, n)
        kinds, group = np.unique(intervals @ [len(ranks), 1], return_inverse=True)
        kinds = np.column_stack(np.divmod(kinds, len(ranks)))
        self.inside = ((kinds[:, :1] <= ranks) & (ranks <= kinds[:, 1:])).astype(np.float64)
        self.exact = kinds[:, 0] == kinds[:, 1]
        self.order, fold = rng.permutation(n), np.empty(n, dtype=np.int8)
        fold[self.order] = np.arange(n) % self.n_boosters
        self.rows = passes.Rows(kinds, group.astype(np.int16), weight, fold)
        known = intervals[intervals[:, 0] == intervals[:, 1], 0]
        trusted = np.bincount(known, minlength=len(ranks)) + model.trust
        self.doubt = np.divide(model.trust, trusted, out=np.ones(len(ranks)), where=trusted > 0)
        if n < model.n_folds:
            warnings.warn(
                f"n_folds={model.n_folds}, but only {n} rows have a label: each is a fold",
                stacklevel=4,
            )
        if len(known) == 0 and len(ranks) > 1:
            warnings.warn(
                "no label is exact: the classes at both ends cannot be told from their neighbours; "
                "a few exact labels would show how ranges come about",
                stacklevel=4,
            )

    def run(self) -> dict[str, Any]:
        """Learn, and return the attributes of a fitted model."""
        model, n_jobs = self.model, min(effective_n_jobs(self.model.n_jobs), self.n_boosters)
        # OpenMP's threads wait by spinning, which takes seconds where processors are busy.
        with threadpool_limits(1, "openmp"), ThreadPoolExecutor(n_jobs) as pool:
            slope, centre, theta = self._start(pool)
            knowledge = Knowledge(theta, self.inside, self.inside)
            for _ in range(FIRST_STEPS):
                knowledge = self._improved(knowledge)
            data, parameters = prepare_engine(model, self.X)
            engines = [Engine(data, parameters, scores) for scores in self.scores]
            losses: list[float] = []
            best, n_iter, kept, said = math.inf, 0, knowledge, time.monotonic()
            while len(losses) < model.max_iter and len(losses) - n_iter < model.n_iter_no_change:
                grow = partial(self._grow, knowledge, 1.0 + len(losses) / HALF_AS_CAREFUL)
                list(pool.map(grow, range(self.n_boosters), engines))
                knowledge = self._improved(knowledge)
                losses.append(self._loss(knowledge))
                if losses[-1] < best - LEAST_GAIN:
                    best, n_iter, kept = losses[-1], len(losses), knowledge
                if model.verbose and time.monotonic() - said >= PROGRESS_SECONDS:
                    said = time.monotonic()
                    print(
                        f"round {len(losses)}: held-out loss {losses[-1]:.5f}, best {best:.5f} "
                        f"after round {n_iter}"
                    )
        trees = [text for engine in engines for text in engine.grown()[:n_iter]]
        forest = plant(trees, model.categories_)
        forest["leaf"] /= self.n_boosters
        forest = {"mean": self.mean, "slope": slope, **forest}
        return {
            "n_iter_": n_iter,
            "validation_loss_": np.array(losses),
            "feature_importances_": importances(self.X, Forest(**forest)),
            "memory_": BoostedTrees(
                kept.theta + centre, Forest(**unscaled(forest, self.exponents))
            ),
            "_ends": self.rows.ends,
            "_chances": kept.q,
        }

    def _start(self, pool: ThreadPoolExecutor) -> tuple[Array, float, Array]:
        """Begin with linear models; return their mean slope, centre and centred thresholds."""
        scaler = StandardScaler(copy=False)
        with np.errstate(all="ignore"):
            for batch in batches(len(self.X), 1 << 16):
                scaler.partial_fit(self.X[batch])
        scaler.scale_[np.isnan(scaler.scale_)] = np.inf  # no value: not used
        scaler.scale_[[int(k) for k in self.model.categories_]] = np.inf
        self.mean = scaler.mean_ = np.nan_to_num(scaler.mean_, posinf=0.0, neginf=0.0)

        def learn(j: int) -> tuple[Array, Array]:
            """Return slopes and thresholds of a model that has not seen fold j."""
            rows = self.order[self.rows.fold[self.order] != j]
            labels, weight = self.rows.ends[self.rows.group[rows]], self.rows.weight[rows]
            classes, trust = np.arange(self.inside.shape[1]), self.model.trust
            logit = OrderedLogit(classes=classes, trust=trust, random_state=0)
            Z = np.nan_to_num(scaler.transform(self.X[rows]), copy=False)
            logit.fit(Z, labels, weight)
            return logit.coef_ / scaler.scale_, logit.thresholds_

        few = len(self.X) <= MOST_KEPT  # each start copies its rows
        starts = (pool.map if few else map)(learn, range(self.n_boosters))
        slopes, cuts = map(np.array, zip(*starts, strict=True))
        del self.order  # memory is scarce
        centres = cuts.sum(axis=1) / max(cuts.shape[1], 1)
        self.scores = np.empty((self.n_boosters, len(self.X)), dtype=np.float32)
        for batch in batches(len(self.X), 1 << 16):
            rows = np.nan_to_num(self.X[batch] - self.mean)
            self.scores[:, batch] = (rows @ slopes.T - centres).T
        theta = (cuts - centres[:, np.newaxis]).mean(axis=0)
        return slopes.mean(axis=0), centres.mean(), theta

    def _grow(self, knowledge: Knowledge, haste: float, j: int, engine: Engine) -> None:
        """Add a tree to a booster, learned from the rows outside its fold."""
        gradient, hessian = np.empty((2, len(self.X)), dtype=np.float32)
        odds = odds_of(knowledge.theta)
        passes.fill_gradients(self.scores[j], j, odds, knowledge.q, self.rows, gradient, hessian)
        gradient *= haste**2  # the same as a rate times haste, and l2 divided by it
        hessian *= haste
        engine.grow(gradient, hessian)

    def _held_out(self) -> Array:
        """Return the score of each row by the booster that has not seen it."""
        scores: Array = self.scores[self.rows.fold, np.arange(len(self.X))]
        return scores

    def _improved(self, knowledge: Knowledge) -> Knowledge:
        """Take one EM step."""
        (theta, _, q), inside = knowledge, self.inside
        table, slope, upper = np.zeros_like(inside), np.zeros_like(theta), np.diag(0.0 * theta)
        passes.add_up(self._held_out(), odds_of(theta), q, self.rows, table, slope, upper)
        total = table.sum(axis=0) + 1e-12
        at_random = (table.sum(axis=1) / (inside @ total))[:, np.newaxis]
        chance = ((1.0 - self.doubt) * table / total + self.doubt * at_random) * inside
        chance[self.exact] = inside[self.exact]
        information = upper + np.triu(upper, 1).T + 1e-3 * np.eye(len(theta))
        step = np.clip(np.linalg.solve(information, slope), -LARGEST_STEP, LARGEST_STEP)
        theta = np.maximum.accumulate(theta + step)
        return Knowledge(theta, chance, chance / chance.max(axis=1, keepdims=True))

    def _loss(self, knowledge: Knowledge) -> float:
        odds = odds_of(knowledge.theta)
        loss = passes.held_out_loss(self._held_out(), odds, knowledge.chance, self.rows)
        return float(loss / self.rows.weight.sum())
