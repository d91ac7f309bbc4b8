"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core import fitting
from pril.core.coarsening import TINY, Kinds, Mechanism
from pril.core.fitting import Knowledge
from pril.core.likelihood import InMemory, Sums, total
from pril.core.threads import n_threads
from pril.errors import InputError
from pril.learners.boosting import compiled
from pril.learners.boosting.bins import Bins
from pril.learners.boosting.compiled import Forest
from pril.learners.boosting.constraints import find_constraints
from pril.learners.boosting.contributions import background_size
from pril.learners.boosting.folds import Fold, Home, Plan, Source, Threads
from pril.learners.boosting.forest_engine import BoostedTrees
from pril.learners.boosting.groups import spread_groups
from pril.learners.boosting.scaling import scaled, unscaled
from pril.learners.boosting.starts import Mixed, Starts
from pril.learners.boosting.trees import parameters_of, plant

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    Array = NDArray[Any]

PROGRESS_SECONDS = 2.0
MOST_SAMPLED = 200_000  # rows that the starts and the bins are learned from
MANY_ROWS = 10_000  # from here on, four folds are as good as eight, in half the time
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
MOST_STEPS = 60  # that find the weights of the starts
# After these rounds, boosters that still improve are half as careful: the learning rate is twice
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
            home, bins = self.home or threads, plan.bins
            few = self.sample.order[: background_size(self.sample.X.shape[1])]
            background = self.sample.X[few].astype(np.float64)
            del self.sample  # frees memory
            home.begin(plan, self.source)
            del plan
            rounds, kept = self._grow(home, knowledge)
            trees = [text for texts in home.each(Fold.trees, rounds.best) for text in texts]
        forest = bins.unbinned(plant(trees, model.categories_))
        forest["leaf"] /= self.n_folds
        return {
            "n_iter_": rounds.best,
            "validation_loss_": np.array(rounds.losses),
            "memory_": BoostedTrees(
                thresholds=kept.theta + start.centre,
                ends=self.rows.ends,
                chances=kept.chance,
                coarsening={
                    "mechanism": kept.mechanism.name,
                    "shares": kept.mechanism.shares,
                    "evidence": evidence,
                },
                forest=Forest(**start.arrays, **forest),
                background=background,
            ),
        }

    def _begin(self, home: Threads) -> tuple[Plan, Knowledge, Mixed, float | None]:
        """Learn from a sample what folds begin with."""
        model, categorical = self.model, [int(k) for k in self.model.categories_]
        X, exponents = scaled(self.sample.X, getattr(model, "feature_names_in_", None))
        starts, mix, knowledge, evidence = self._choose(home, X, categorical, model.coarsening)
        if knowledge.mechanism.name == "random" and starts.used_offsets:
            # What was assumed there was wrong.
            starts, mix, knowledge, _ = self._choose(home, X, categorical, "random")
        self._warn_of_ends(knowledge.mechanism)
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
            is_scarce=self.source.is_scarce,
        )
        return plan, knowledge, start, evidence

    def _grow(self, home: Home, knowledge: Knowledge) -> tuple[Rounds, Knowledge]:
        """Grow trees until no round is better; return the rounds, and what the best one knew."""
        rounds, kept = Rounds(self.model.max_iter, self.model.n_iter_no_change), knowledge
        weight = float(self.rows.weight.sum(dtype=np.float64))
        first = FIRST_HASTE if self.source.n_rows >= HASTY_ROWS else 1.0
        outcomes = home.each(Fold.learn, knowledge.theta, knowledge.chance, first)
        while not rounds.are_over:
            knowledge = knowledge.improved(total((o.sums for o in outcomes), Sums.plus), self.doubt)
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

    def _choose(
        self, home: Threads, X: Array, categorical: list[int], coarsening: str
    ) -> tuple[Starts, Array, Knowledge, float | None]:
        """Return starts, their weights, what else held-out rows show, and the evidence for offsets.

        The weights are those of an ordered logit whose features are the scores of the starts.
        """
        rows, order, trust = self.sample.rows, self.sample.order, float(self.model.trust)
        starts = Starts(
            X, categorical, self.signs, rows, self.kinds, order, self.n_folds, trust, coarsening,
            home,
        )  # fmt: skip
        scores = starts.held_out(rows.fold).astype(np.float64)
        mix, weight = np.ones(scores.shape[1]), rows.weight.astype(np.float64)
        settings = fitting.Settings(0.0, trust, coarsening, MOST_STEPS)
        for _ in range(len(mix)):  # without those whose weights would be negative
            used = scores[:, mix > 0.0]
            alpha = float(used.std(axis=0).mean() ** 2 + TINY)  # draws all weights to the same
            held_out = InMemory(used, rows.group, weight, self.kinds, used.mean(axis=1))
            found = fitting.fit(held_out, settings._replace(alpha=alpha))
            mix[mix > 0.0] = np.maximum(1.0 / used.shape[1] + found.w, 0.0)
            if mix.all() or not mix.any():
                break
        return starts, mix, found.knowledge(held_out, trust), found.evidence

    def _warn_of_ends(self, mechanism: Mechanism) -> None:
        if mechanism.name == "random" and self.kinds.n_classes > 1 and not self.kinds.exact.any():
            warnings.warn(
                "no label is exact, and the ranges do not look as if raters went up and down alike "
                "at every class: the classes at both ends cannot be told from their neighbours; a "
                "few exact labels would show how classes became ranges",
                stacklevel=5,
            )
