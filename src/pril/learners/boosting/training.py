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

from pril.core.coarsening import Kinds, Mechanism, candidates, choose
from pril.core.rows import batches
from pril.learners.boosting import passes
from pril.learners.boosting.passes import odds_of
from pril.learners.boosting.trees import MOST_KEPT, Engine, plant, prepare_engine
from pril.learners.ordered_logit import OrderedLogit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PROGRESS_SECONDS = 10.0
MANY_ROWS = 10_000  # from here on, four folds are as good as eight, in half the time
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
FIRST_STEPS = 5  # EM steps before the first round
STEPS_OF_CHOICE = 20  # EM steps before coarsening mechanisms are compared
LARGEST_STEP = 0.5  # of a threshold in an EM step
# After so many rounds, boosters that still improve are half as careful: the learning rate is twice
# the first one, l2_regularization and the least hessian of a leaf are half of theirs; and so on.
HALF_AS_CAREFUL = 50


class Knowledge(NamedTuple):
    """What is learned from held-out scores."""

    theta: Array  # (K - 1,)
    chance: Array  # (kinds, K), how often a row of a class is given a range
    mechanism: Mechanism

    @property
    def q(self) -> Array:
        """The chances, divided by the largest of each range."""
        relative: Array = self.chance / self.chance.max(axis=1, keepdims=True)
        return relative


class Training:
    """The boosters of all folds, growing in step."""

    def __init__(self, model: Any, X: Array, intervals: Array, weight: Array, rng: Any) -> None:
        n, n_classes = len(X), len(model.order_)
        n_folds = (4 if n >= MANY_ROWS else 8) if model.n_folds == "auto" else model.n_folds
        self.model, self.X, self.n_boosters = model, X, min(n_folds, n)
        self.kinds, group = Kinds.of(intervals, n_classes)
        self.weights = np.bincount(group, weight)  # of the kinds
        self.order, fold = rng.permutation(n), np.empty(n, dtype=np.int8)
        fold[self.order] = np.arange(n) % self.n_boosters
        self.rows = passes.Rows(self.kinds.ends, group.astype(np.int16), weight, fold)
        known = intervals[intervals[:, 0] == intervals[:, 1], 0]
        trusted = np.bincount(known, minlength=n_classes) + model.trust
        self.doubt = np.divide(model.trust, trusted, out=np.ones(n_classes), where=trusted > 0)
        if n < n_folds:
            warnings.warn(
                f"n_folds={n_folds}, but only {n} rows have a label: each is a fold",
                stacklevel=4,
            )

    def run(self) -> dict[str, Any]:
        """Learn, and return the attributes of a fitted model."""
        model, n_jobs = self.model, min(effective_n_jobs(self.model.n_jobs), self.n_boosters)
        # OpenMP's threads wait by spinning, which takes seconds where processors are busy.
        with threadpool_limits(1, "openmp"), ThreadPoolExecutor(n_jobs) as pool:
            slope, centre, theta = self._start(pool)
            knowledge, evidence = self._choose(theta)
            self._warn_of_ends(knowledge.mechanism)
            for _ in range(FIRST_STEPS):
                knowledge = self._improved(knowledge, self.doubt)
            data, parameters = prepare_engine(model, self.X)
            engines = [Engine(data, parameters, scores) for scores in self.scores]
            losses: list[float] = []
            best, n_iter, kept, said = math.inf, 0, knowledge, time.monotonic()
            while len(losses) < model.max_iter and len(losses) - n_iter < model.n_iter_no_change:
                grow = partial(self._grow, knowledge, 1.0 + len(losses) / HALF_AS_CAREFUL)
                list(pool.map(grow, range(self.n_boosters), engines))
                knowledge = self._improved(knowledge, self.doubt)
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
        forest = plant(trees, model._categories)
        forest["leaf"] /= self.n_boosters
        gains = np.bincount(forest["feature"], forest.pop("gain"), minlength=self.X.shape[1])
        return {
            "thresholds_": kept.theta + centre,
            "n_iter_": n_iter,
            "validation_loss_": np.array(losses),
            "feature_importances_": gains / (gains.sum() or 1.0),
            "_forest": {"mean": self.mean, "slope": slope, **forest},
            "_ends": self.rows.ends,
            "_chances": kept.q,
            "_coarsening": {
                "mechanism": kept.mechanism.name,
                "shares": kept.mechanism.shares,
                "evidence": evidence,
            },
        }

    def _warn_of_ends(self, mechanism: Mechanism) -> None:
        if mechanism.name == "random" and self.kinds.n_classes > 1 and not self.kinds.exact.any():
            warnings.warn(
                "no label is exact, and the ranges do not look as if raters went up and down alike "
                "at every class: the classes at both ends cannot be told from their neighbours; a "
                "few exact labels would show how classes became ranges",
                stacklevel=5,
            )

    def _start(self, pool: ThreadPoolExecutor) -> tuple[Array, float, Array]:
        """Begin with linear models; return their mean slope, centre and centred thresholds."""
        scaler = StandardScaler(copy=False)
        with np.errstate(all="ignore"):
            for batch in batches(len(self.X), 1 << 16):
                scaler.partial_fit(self.X[batch])
        scaler.scale_[np.isnan(scaler.scale_)] = np.inf  # too large to be scaled: not used
        scaler.scale_[[int(k) for k in self.model._categories]] = np.inf
        self.mean = scaler.mean_ = np.nan_to_num(scaler.mean_, posinf=0.0, neginf=0.0)

        def learn(j: int) -> tuple[Array, Array]:
            """Return slopes and thresholds of a model that has not seen fold j."""
            rows = self.order[self.rows.fold[self.order] != j]
            labels, weight = self.rows.ends[self.rows.group[rows]], self.rows.weight[rows]
            logit = OrderedLogit(
                classes=np.arange(self.kinds.n_classes),
                trust=self.model.trust,
                coarsening=self.model.coarsening,
                random_state=0,
            )
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

    # --- What held-out scores show ---

    def _choose(self, theta: Array) -> tuple[Knowledge, float | None]:
        """Return what to start with, and the evidence for offsets if mechanisms were compared."""
        asked, certain = self.model.coarsening, np.ones_like(self.doubt)
        spread = self.kinds.spread(self.weights)
        starts, costs = {}, {}
        for name in candidates(asked, self.kinds, self.weights):
            mechanism = Mechanism.start(name, self.kinds, float(self.model.trust), spread)
            starts[name] = Knowledge(theta, mechanism.chance(spread, certain), mechanism)
        if len(starts) == 1:
            return starts["random"], None
        for name, knowledge in starts.items():
            doubt = certain if name == "random" else self.doubt
            for _ in range(STEPS_OF_CHOICE):
                knowledge = self._improved(knowledge, doubt)
            counts, mechanism = self._sums(knowledge)[0], knowledge.mechanism
            loss = self._loss(knowledge._replace(chance=mechanism.label_chances(counts)))
            costs[name] = loss * self.weights.sum() + mechanism.n_parameters(counts)
            if name != "random":
                starts[name] = knowledge
        name, evidence = choose(asked, costs)
        return starts[name], evidence

    def _improved(self, knowledge: Knowledge, doubt: Array) -> Knowledge:
        """Take one EM step."""
        theta = knowledge.theta
        counts, slope, upper = self._sums(knowledge)
        mechanism = knowledge.mechanism.learn(counts)
        information = upper + np.triu(upper, 1).T + 1e-3 * np.eye(len(theta))
        step = np.clip(np.linalg.solve(information, slope), -LARGEST_STEP, LARGEST_STEP)
        theta = np.maximum.accumulate(theta + step)
        return Knowledge(theta, mechanism.chance(counts, doubt), mechanism)

    def _sums(self, knowledge: Knowledge) -> tuple[Array, Array, Array]:
        """Return expected counts; gradient and expected information of the thresholds."""
        theta = knowledge.theta
        counts, slope, upper = np.zeros_like(self.kinds.inside), 0.0 * theta, np.diag(0.0 * theta)
        odds = odds_of(theta)
        passes.add_up(self._held_out(), odds, knowledge.q, self.rows, counts, slope, upper)
        return counts, slope, upper

    def _loss(self, knowledge: Knowledge) -> float:
        odds = odds_of(knowledge.theta)
        loss = passes.held_out_loss(self._held_out(), odds, knowledge.chance, self.rows)
        return float(loss / self.rows.weight.sum())
