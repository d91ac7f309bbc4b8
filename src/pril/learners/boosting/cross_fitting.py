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
from threadpoolctl import threadpool_limits

from pril.core.coarsening import TINY, Kinds, Mechanism, Name, candidates, choose
from pril.core.logistic import odds_of
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import Forest
from pril.learners.boosting.contributions import background_of, importances, sample_size
from pril.learners.boosting.forest_engine import BoostedTrees
from pril.learners.boosting.scaling import scaled, unscaled
from pril.learners.boosting.starts import Starts
from pril.learners.boosting.trees import FoldBooster, plant, prepare_booster
from pril.learners.ordered_logit import OrderedLogit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

PROGRESS_SECONDS = 10.0
NO_FOLD = -1
MANY_ROWS = 10_000  # from here on, four folds are as good as eight, in half the time
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
FIRST_STEPS = 5  # EM steps before the first round
LARGEST_STEP = 0.5  # of a threshold in an EM step
# Before the first round, EM steps also find the weights of the starts, till they move less.
FEWEST_WEIGHTS_STEPS, MOST_WEIGHTS_STEPS, LEAST_MOVE, LARGEST_MOVE = 20, 60, 1e-3, 0.2
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
        self.model, self.n_boosters = model, min(n_folds, n)
        self.X, self.exponents = scaled(X, getattr(model, "feature_names_in_", None))
        self.kinds, group = Kinds.of(intervals, n_classes)
        self.weights = np.bincount(group, weight)  # of the kinds
        self.order, fold = rng.permutation(n), np.empty(n, dtype=np.int8)
        fold[self.order] = np.arange(n) % self.n_boosters
        self.rows = compiled.Rows(self.kinds.ends, group.astype(np.int16), weight, fold)
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
        # Threads of OpenMP and BLAS wait by spinning: it takes seconds where processors are busy.
        with threadpool_limits(1), ThreadPoolExecutor(n_jobs) as pool:
            starts = self._starts(pool, model.coarsening)
            knowledge, mix, evidence = self._choose(starts, model.coarsening)
            if knowledge.mechanism.name == "random" and starts.used_offsets:
                starts = self._starts(pool, "random")  # what was assumed there was wrong
                knowledge, mix, _ = self._choose(starts, "random")
            sample = self.order[: sample_size(*self.X.shape)]
            del self.order  # memory is scarce
            self._warn_of_ends(knowledge.mechanism)
            self.scores, centre, linear = starts.mixed(mix)
            del starts
            for _ in range(FIRST_STEPS):
                knowledge = self._improved(knowledge, self.doubt, self._held_out())
            data, parameters = prepare_booster(model, self.X)
            boosters = [FoldBooster(data, parameters, scores) for scores in self.scores]
            losses: list[float] = []
            best, n_iter, kept, said = math.inf, 0, knowledge, time.monotonic()
            while len(losses) < model.max_iter and len(losses) - n_iter < model.n_iter_no_change:
                grow = partial(self._grow, knowledge, 1.0 + len(losses) / HALF_AS_CAREFUL)
                list(pool.map(grow, range(self.n_boosters), boosters))
                scores = self._held_out()
                knowledge = self._improved(knowledge, self.doubt, scores)
                losses.append(self._loss(knowledge, scores))
                if losses[-1] < best - LEAST_GAIN:
                    best, n_iter, kept = losses[-1], len(losses), knowledge
                if model.verbose and time.monotonic() - said >= PROGRESS_SECONDS:
                    said = time.monotonic()
                    print(
                        f"round {len(losses)}: held-out loss {losses[-1]:.5f}, best {best:.5f} "
                        f"after round {n_iter}"
                    )
        trees = [text for booster in boosters for text in booster.grown()[:n_iter]]
        forest = plant(trees, model.categories_)
        forest["leaf"] /= self.n_boosters
        grown = Forest(**unscaled({**linear, **forest}, self.exponents))
        rows = np.ldexp(self.X[sample].astype(np.float64), -self.exponents)
        background = background_of(rows)
        return {
            "n_iter_": n_iter,
            "validation_loss_": np.array(losses),
            "feature_importances_": importances(rows, grown, background),
            "memory_": BoostedTrees(
                thresholds=kept.theta + centre,
                ends=self.rows.ends,
                chances=kept.chance,
                coarsening={
                    "mechanism": kept.mechanism.name,
                    "shares": kept.mechanism.shares,
                    "evidence": evidence,
                },
                forest=grown,
                background=background,
            ),
        }

    def _starts(self, pool: ThreadPoolExecutor, coarsening: Any) -> Starts:
        """Return linear models to start from, which assume this of ranges."""
        learner = partial(
            OrderedLogit,
            classes=np.arange(self.kinds.n_classes),
            trust=self.model.trust,
            coarsening=coarsening,
            random_state=0,
        )
        categories = [int(k) for k in self.model.categories_]
        return Starts(self.X, categories, self.rows, self.order, learner, pool)

    def _warn_of_ends(self, mechanism: Mechanism) -> None:
        if mechanism.name == "random" and self.kinds.n_classes > 1 and not self.kinds.exact.any():
            warnings.warn(
                "no label is exact, and the ranges do not look as if raters went up and down alike "
                "at every class: the classes at both ends cannot be told from their neighbours; a "
                "few exact labels would show how classes became ranges",
                stacklevel=5,
            )

    def _grow(self, knowledge: Knowledge, haste: float, j: int, booster: FoldBooster) -> None:
        """Add a tree to a booster, learned from the rows outside its fold."""
        gradient, hessian = np.empty((2, len(self.X)), dtype=np.float32)
        odds = odds_of(knowledge.theta)
        compiled.fill_gradients(self.scores[j], j, odds, knowledge.q, self.rows, gradient, hessian)
        gradient *= haste**2  # the same as a rate times haste, and l2 divided by it
        hessian *= haste
        booster.grow(gradient, hessian)

    def _held_out(self) -> Array:
        """Return the score of each row by the booster that has not seen it."""
        scores: Array = self.scores[self.rows.fold, np.arange(len(self.X))]
        return scores

    # --- What held-out scores show ---

    def _choose(self, starts: Starts, asked: str) -> tuple[Knowledge, Array, float | None]:
        """Return what to start with, weights of the starts, and the evidence for offsets."""
        spread = self.kinds.spread(self.weights)
        certain = np.ones_like(self.doubt)
        scores, theta = starts.held_out(self.rows.fold), starts.theta
        names = candidates(asked, self.kinds, self.weights)

        def settled(name: Name, doubt: Array) -> tuple[Knowledge, Array]:
            mechanism = Mechanism.start(name, self.kinds, float(self.model.trust), spread)
            first = Knowledge(theta, mechanism.chance(spread, certain), mechanism)
            if name == "random" and scores.shape[1] == 1 and doubt is self.doubt:
                return first, np.ones(1)
            return self._weigh(scores, first, doubt)

        if len(names) == 1:
            return *settled("random", self.doubt), None
        found, costs = {}, {}
        for name in names:
            found[name] = settled(name, certain if name == "random" else self.doubt)
            knowledge, mix = found[name]
            mixed = (scores @ mix).astype(np.float32)
            counts, mechanism = self._sums(knowledge, mixed)[0], knowledge.mechanism
            loss = self._loss(knowledge._replace(chance=mechanism.label_chances(counts)), mixed)
            costs[name] = loss * self.weights.sum() + mechanism.n_parameters(counts)
        name, evidence = choose(asked, costs)
        return *(settled(name, self.doubt) if name == "random" else found[name]), evidence

    def _weigh(self, scores: Array, knowledge: Knowledge, doubt: Array) -> tuple[Knowledge, Array]:
        """Alternate EM steps and Newton steps for the weights of the starts."""
        n, n_starts = scores.shape
        mix = prior = np.full(n_starts, 1.0 / n_starts)
        ridge = scores.std(axis=0).mean() ** 2 + TINY
        gradient, hessian = np.empty((2, n), dtype=np.float32)
        for step in range(MOST_WEIGHTS_STEPS):
            mixed = (scores @ mix).astype(np.float32)
            knowledge = self._improved(knowledge, doubt, mixed)
            odds = odds_of(knowledge.theta)
            compiled.fill_gradients(mixed, NO_FOLD, odds, knowledge.q, self.rows, gradient, hessian)
            slope = scores.T @ gradient + ridge * (mix - prior)
            curvature = (scores * hessian[:, np.newaxis]).T @ scores + ridge * np.eye(n_starts)
            move = np.clip(-np.linalg.solve(curvature, slope), -LARGEST_MOVE, LARGEST_MOVE)
            mix = np.maximum(mix + move, 0.0)
            if step >= FEWEST_WEIGHTS_STEPS and np.abs(move).max() < LEAST_MOVE:
                break
        return knowledge, mix

    def _improved(self, knowledge: Knowledge, doubt: Array, scores: Array) -> Knowledge:
        """Take one EM step."""
        theta = knowledge.theta
        counts, slope, upper = self._sums(knowledge, scores)
        mechanism = knowledge.mechanism.learn(counts)
        information = upper + np.triu(upper, 1).T + 1e-3 * np.eye(len(theta))
        step = np.clip(np.linalg.solve(information, slope), -LARGEST_STEP, LARGEST_STEP)
        theta = np.maximum.accumulate(theta + step)
        return Knowledge(theta, mechanism.chance(counts, doubt), mechanism)

    def _sums(self, knowledge: Knowledge, scores: Array) -> tuple[Array, Array, Array]:
        """Return expected counts; gradient and expected information of the thresholds."""
        theta = knowledge.theta
        counts, slope, upper = np.zeros_like(self.kinds.inside), 0.0 * theta, np.diag(0.0 * theta)
        compiled.add_up(scores, odds_of(theta), knowledge.q, self.rows, counts, slope, upper)
        return counts, slope, upper

    def _loss(self, knowledge: Knowledge, scores: Array) -> float:
        odds = odds_of(knowledge.theta)
        loss = compiled.held_out_loss(scores, odds, knowledge.chance, self.rows)
        return float(loss / self.rows.weight.sum())
