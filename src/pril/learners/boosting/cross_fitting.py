"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core.coarsening import TINY, Kinds, Mechanism, Name, candidates, choose
from pril.core.logistic import exp_of, odds_of
from pril.core.threads import n_threads
from pril.errors import InputError
from pril.learners.boosting import compiled
from pril.learners.boosting.bins import Bins
from pril.learners.boosting.compiled import Forest
from pril.learners.boosting.constraints import find_constraints
from pril.learners.boosting.contributions import background_of, importances, sample_size
from pril.learners.boosting.folds import Fold, Home, Plan, Source, Threads, loss_of
from pril.learners.boosting.forest_engine import BoostedTrees
from pril.learners.boosting.groups import spread_groups
from pril.learners.boosting.knowledge import Knowledge, Sums, relative
from pril.learners.boosting.scaling import scaled, unscaled
from pril.learners.boosting.starts import Mixed, Starts
from pril.learners.boosting.trees import parameters_of, plant
from pril.learners.ordered_logit import OrderedLogit

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    Array = NDArray[Any]

PROGRESS_SECONDS = 2.0
NO_FOLD = -1
MOST_SAMPLED = 200_000  # rows that the starts and the bins are learned from
MANY_ROWS = 10_000  # from here on, four folds are as good as eight, in half the time
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
FIRST_STEPS = 5  # EM steps before the first round
# Before the first round, EM steps also find the weights of the starts, till they move less.
FEWEST_WEIGHTS_STEPS, MOST_WEIGHTS_STEPS, LEAST_MOVE, LARGEST_MOVE = 20, 60, 1e-3, 0.2
# After so many rounds, boosters that still improve are half as careful: the learning rate is twice
# the first one, l2_regularization and the least hessian of a leaf are half of theirs; and so on.
HALF_AS_CAREFUL = 50
# With many rows, trees are sure enough of themselves to begin with a higher learning rate.
HASTY_ROWS, FIRST_HASTE = 100_000, 1.5


class Rounds:
    """The rounds of a fit: their losses, the best one, and how long the others may take."""

    def __init__(self, most: int, patience: int) -> None:
        self.most, self.patience = most, patience
        self.losses: list[float] = []
        self.best, self.best_loss = 0, math.inf
        self.began = time.monotonic()

    def __len__(self) -> int:
        return len(self.losses)

    def add(self, loss: float) -> bool:
        """Add a round; return whether it is better than all before it."""
        self.losses.append(loss)
        is_better = loss < self.best_loss - LEAST_GAIN
        if is_better:
            self.best, self.best_loss = len(self), loss
        return is_better

    @property
    def are_over(self) -> bool:
        """Whether there are as many rounds as allowed, or no improvement for too long."""
        return len(self) >= min(self.most, self.best + self.patience)

    def seconds_left(self) -> tuple[float, float]:
        """Return how long it takes if no round is better any more, and if all are."""
        each = (time.monotonic() - self.began) / max(len(self), 1)
        fewest = max(min(self.best + self.patience, self.most) - len(self), 0)
        return each * fewest, each * (self.most - len(self))

    def __str__(self) -> str:
        loss = f"held-out loss {self.losses[-1]:.5f}, best {self.best_loss:.5f} (round {self.best})"
        if self.are_over:
            return f"{loss}, done"
        low, high = self.seconds_left()
        return f"{loss}, {low:.0f} to {high:.0f} s left"


Watch = Callable[[Rounds], None]  # is called after each round


def print_rounds() -> Watch:
    """Return a function that prints a line every few seconds, and one for the last round."""
    printed = -math.inf

    def watch(rounds: Rounds) -> None:
        nonlocal printed
        if rounds.are_over or time.monotonic() - printed >= PROGRESS_SECONDS:
            print(f"round {len(rounds)} of at most {rounds.most}: {rounds}", flush=True)
            printed = time.monotonic()

    return watch


class Sample(NamedTuple):
    """Rows that the starts and the bins are learned from: all, or some chosen at random."""

    X: Array
    rows: compiled.Rows
    order: Array  # a permutation of these rows

    @classmethod
    def of(cls, chosen: Array, rows: compiled.Rows, source: Source) -> Self:
        """Take some rows, given by their numbers, in random order."""
        numbers = np.sort(chosen)
        of_each = (part if len(chosen) == source.n_rows else part[numbers] for part in rows[1:])
        return cls(
            source.take(numbers),
            compiled.Rows(rows.ends, *of_each),
            np.searchsorted(numbers, chosen),
        )


class Training:
    """The boosters of all folds, growing in step.

    Parameters
    ----------
    model : OrderedBoosting
        The learner. It knows the classes and the categories.
    source : Source
        Features.
    intervals : ndarray of shape (n_samples, 2)
        Labels, as ranks.
    weight : ndarray of shape (n_samples,)
        Weights of the rows; their mean is 1.
    groups : ndarray of shape (n_samples,) or None
        The number of each row's group, from 0 on; None: each row is one.
    rng : RandomState
        Draws the folds.
    watch : callable or None
        Is called after each round.
    home : Home or None
        Where the folds live; None: in threads of this process.
    """

    def __init__(
        self,
        model: Any,
        source: Source,
        intervals: Array,
        weight: Array,
        groups: Array | None,
        rng: Any,
        watch: Watch | None,
        home: Home | None,
    ) -> None:
        n, n_classes = source.n_rows, len(model.order_)
        self.model, self.source, self.watch, self.home = model, source, watch, home
        self.signs = find_constraints(model.monotonic_cst, model)
        self.kinds, group = Kinds.of(intervals, n_classes)
        order = rng.permutation(n)
        self.n_folds, fold = self._split(order, groups)
        self.rows = compiled.Rows(
            self.kinds.ends, group.astype(np.int16), weight.astype(np.float32), fold
        )
        self.is_whole = n <= MOST_SAMPLED
        self.sample = Sample.of(order[:MOST_SAMPLED], self.rows, source)
        known = intervals[intervals[:, 0] == intervals[:, 1], 0]
        trusted = np.bincount(known, minlength=n_classes) + model.trust
        self.doubt = np.divide(model.trust, trusted, out=np.ones(n_classes), where=trusted > 0)

    def _split(self, order: Array, groups: Array | None) -> tuple[int, Array]:
        """Return the number of folds, and the fold of each row."""
        n, asked = len(order), self.model.n_folds
        n_folds = (4 if n >= MANY_ROWS else 8) if asked == "auto" else asked
        parts, found = n, f"only {n} rows have a label"
        if groups is not None:
            _, groups = np.unique(groups, return_inverse=True)  # rows without a label are left out
            parts = int(groups.max()) + 1
            found = f"the rows with a label are of only {parts} groups"
        if parts < 2:
            raise InputError("groups: all rows with a label are of one group, and 2 are needed")
        if parts < n_folds:
            warnings.warn(f"n_folds={n_folds}, but {found}: each is a fold", stacklevel=5)
            n_folds = parts
        if groups is not None:
            return n_folds, spread_groups(groups, n_folds, order)
        fold = np.empty(n, dtype=np.int8)
        fold[order] = np.arange(n) % n_folds
        return n_folds, fold

    def run(self) -> dict[str, Any]:
        """Learn, and return the attributes of a fitted model."""
        model = self.model
        with Threads(min(n_threads(model.n_jobs), self.n_folds)) as threads:
            plan, knowledge, start, evidence = self._begin(threads)
            home = self.home or threads
            home.begin(plan, self.source)
            rounds, kept = self._grow(home, knowledge)
            trees = [text for texts in home.each(Fold.trees) for text in texts[: rounds.best]]
        forest = plan.bins.unbinned(plant(trees, model.categories_))
        forest["leaf"] /= self.n_folds
        whole = Forest(**start.arrays, **forest)
        few = self.sample.order[: sample_size(*self.sample.X.shape)]
        sample = self.sample.X[few].astype(np.float64)
        background = background_of(sample)
        return {
            "n_iter_": rounds.best,
            "validation_loss_": np.array(rounds.losses),
            "feature_importances_": importances(sample, whole, background),
            "memory_": BoostedTrees(
                thresholds=kept.theta + start.centre,
                ends=self.rows.ends,
                chances=kept.chance,
                coarsening={
                    "mechanism": kept.mechanism.name,
                    "shares": kept.mechanism.shares,
                    "evidence": evidence,
                },
                forest=whole,
                background=background,
            ),
        }

    def _begin(self, home: Threads) -> tuple[Plan, Knowledge, Mixed, float | None]:
        """Learn from a sample what folds begin with."""
        model, categorical = self.model, [int(k) for k in self.model.categories_]
        X, exponents = scaled(self.sample.X, getattr(model, "feature_names_in_", None))
        starts = self._starts(home, X, categorical, model.coarsening)
        knowledge, mix, evidence = self._choose(starts, model.coarsening)
        if knowledge.mechanism.name == "random" and starts.used_offsets:
            # What was assumed there was wrong.
            starts = self._starts(home, X, categorical, "random")
            knowledge, mix, _ = self._choose(starts, "random")
        self._warn_of_ends(knowledge.mechanism)
        mixed = (starts.held_out(self.sample.rows.fold) @ mix).astype(np.float32)
        for _ in range(FIRST_STEPS):
            knowledge = knowledge.improved(self._sums(knowledge, mixed), self.doubt)
        start = starts.mixed(mix)
        start = start._replace(
            arrays=unscaled(start.arrays, exponents), slopes=np.ldexp(start.slopes, exponents)
        )
        bins = Bins.of(self.sample.X, categorical)
        plan = Plan(
            rows=self.rows,
            parameters=parameters_of(model, self.signs),
            bins=bins,
            categorical=categorical,
            sample=bins.codes(self.sample.X),
            mean=start.arrays["mean"],
            slopes=start.slopes,
            centres=start.centres,
            scores=start.scores if self.is_whole else None,
        )
        return plan, knowledge, start, evidence

    def _grow(self, home: Home, knowledge: Knowledge) -> tuple[Rounds, Knowledge]:
        """Grow trees until no round is better; return the rounds, and what the best one knew."""
        rounds, kept = Rounds(self.model.max_iter, self.model.n_iter_no_change), knowledge
        weight = float(self.rows.weight.sum(dtype=np.float64))
        first = FIRST_HASTE if self.source.n_rows >= HASTY_ROWS else 1.0
        outcomes = home.each(Fold.learn, knowledge.theta, knowledge.chance, first)
        while not rounds.are_over:
            knowledge = knowledge.improved(Sums.total(o.sums for o in outcomes), self.doubt)
            table, n_grown = (knowledge.theta, knowledge.chance), len(rounds) + 1
            if n_grown < rounds.most:  # folds say how good a round was when they begin the next
                haste = first * (1.0 + n_grown / HALF_AS_CAREFUL)
                outcomes = home.each(Fold.learn, *table, haste)
                losses = [outcome.loss for outcome in outcomes]
            else:
                losses = home.each(Fold.loss, *table)
            if rounds.add(sum(losses) / weight):
                kept = knowledge
            if self.watch:
                self.watch(rounds)
        return rounds, kept

    def _starts(self, home: Threads, X: Array, categorical: list[int], coarsening: Any) -> Starts:
        """Return linear models to start from, which assume this of ranges."""
        learner = partial(
            OrderedLogit,
            classes=np.arange(self.kinds.n_classes),
            trust=self.model.trust,
            coarsening=coarsening,
            random_state=0,
        )
        rows, order, signs = self.sample.rows, self.sample.order, self.signs
        return Starts(X, categorical, signs, rows, order, self.n_folds, learner, home)

    def _warn_of_ends(self, mechanism: Mechanism) -> None:
        if mechanism.name == "random" and self.kinds.n_classes > 1 and not self.kinds.exact.any():
            warnings.warn(
                "no label is exact, and the ranges do not look as if raters went up and down alike "
                "at every class: the classes at both ends cannot be told from their neighbours; a "
                "few exact labels would show how classes became ranges",
                stacklevel=5,
            )

    # --- What the starts show of held-out rows ---

    def _choose(self, starts: Starts, asked: str) -> tuple[Knowledge, Array, float | None]:
        """Return what to start with, weights of the starts, and the evidence for offsets."""
        weights = np.bincount(self.sample.rows.group, self.sample.rows.weight, len(self.kinds.ends))
        spread = self.kinds.spread(weights)
        certain = np.ones_like(self.doubt)
        scores, theta = starts.held_out(self.sample.rows.fold), starts.theta
        names = candidates(asked, self.kinds, weights)

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
            counts, mechanism = self._sums(knowledge, mixed).counts, knowledge.mechanism
            chances, rows = mechanism.label_chances(counts), self.sample.rows
            loss = loss_of(exp_of(mixed), self._all_rows(), knowledge.theta, chances, rows)
            costs[name] = loss + mechanism.n_parameters(counts)
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
            knowledge = knowledge.improved(self._sums(knowledge, mixed), doubt)
            theta, chance, _ = knowledge
            odds, q = odds_of(theta), relative(chance)
            rows = self.sample.rows
            compiled.fill_gradients(
                exp_of(mixed), 0, NO_FOLD, odds, q, rows, 1.0, gradient, hessian
            )
            slope = scores.T @ gradient + ridge * (mix - prior)
            curvature = (scores * hessian[:, np.newaxis]).T @ scores + ridge * np.eye(n_starts)
            move = np.clip(-np.linalg.solve(curvature, slope), -LARGEST_MOVE, LARGEST_MOVE)
            mix = np.maximum(mix + move, 0.0)
            if step >= FEWEST_WEIGHTS_STEPS and np.abs(move).max() < LEAST_MOVE:
                break
        return knowledge, mix

    def _sums(self, knowledge: Knowledge, scores: Array) -> Sums:
        """Return the sums of all rows, which are scored by starts that have not seen them."""
        sums, q = Sums.blank(*knowledge.chance.shape), relative(knowledge.chance)
        odds = odds_of(knowledge.theta)
        compiled.add_up(exp_of(scores), self._all_rows(), odds, q, self.sample.rows, *sums)
        return sums

    def _all_rows(self) -> Array:
        return np.arange(len(self.sample.X), dtype=np.int32)
