"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from heapq import heapify, heapreplace
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pril.core import fitting
from pril.core.arrays import Array
from pril.core.coarsening import TINY, Kinds, Mechanism
from pril.core.fitting import Knowledge
from pril.core.likelihood import Chances, InMemory, Sums, total
from pril.errors import InputError
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import Forest
from pril.learners.boosting.features import Bins, find_constraints, scaled, unscaled
from pril.learners.boosting.folds import Fold, Home, Plan, Source, Threads
from pril.learners.boosting.forest_engine import BoostedTrees, background_size
from pril.learners.boosting.starts import Starts, View, learn_starts
from pril.learners.boosting.trees import parameters_of, read_trees

PROGRESS_SECONDS = 2.0
MOST_SAMPLED = 200_000  # rows that the starts and the bins are learned from
MANY_ROWS = 10_000  # from here on, four folds are as good as eight, in half the time
ALPHA = 1.0  # draws the weights of the starts to the same
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
MOST_STEPS = 10  # that find the weights of the starts: rounds will improve thresholds and chances
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
    """Print a first line; return a function that prints one every few seconds, and the last one."""
    print("reading rows, and learning linear models to start from", flush=True)
    printed = -math.inf

    def watch(rounds: Rounds) -> None:
        nonlocal printed
        if rounds.are_over or time.monotonic() - printed >= PROGRESS_SECONDS:
            print(f"round {len(rounds)} of at most {rounds.most}: {rounds}", flush=True)
            printed = time.monotonic()

    return watch


class Labelled(NamedTuple):
    """Rows to learn from."""

    source: Source  # of their features
    intervals: Array  # (n, 2), labels, as ranks
    weight: Array  # (n,), their mean is 1
    groups: Array | None  # (n,), the number of each row's group, from 0 on; None: each row is one


class Beginning(NamedTuple):
    """What is known before the first tree, beside the plan of the folds."""

    n_rows: int
    knowledge: Knowledge
    doubt: Array  # (K,), see `Mechanism.chance`
    evidence: float | None  # for offsets
    arrays: dict[str, Array]  # of the forest
    centre: float  # of the thresholds
    bins: Bins
    background: Array


class Grown(NamedTuple):
    """Trees, and what was known when the last of them had grown."""

    rounds: Rounds
    knowledge: Knowledge
    trees: list[list[str]]  # of each fold, in LightGBM's text


def split(rows: Labelled, asked: int | str, order: Array) -> tuple[int, Array]:
    """Return the number of folds, and the fold of each row."""
    n, groups = len(order), rows.groups
    n_folds = (4 if n >= MANY_ROWS else 8) if isinstance(asked, str) else asked
    parts, found = n, f"only {n} rows have a label"
    if groups is not None:
        _, groups = np.unique(groups, return_inverse=True)  # rows without a label are left out
        parts = int(groups.max()) + 1
        found = f"the rows with a label are of only {parts} groups"
    if parts < 2:
        raise InputError("groups: all rows with a label are of one group, and 2 are needed")
    if parts < n_folds:
        warnings.warn(f"n_folds={n_folds}, but {found}: each is a fold", stacklevel=7)
        n_folds = parts
    if groups is not None:
        return n_folds, spread_groups(groups, n_folds, order)
    fold = np.empty(n, dtype=np.int8)
    fold[order] = np.arange(n) % n_folds
    return n_folds, fold


def spread_groups(groups: Array, n_folds: int, order: Array) -> Array:
    """Return a fold for each row, the same for rows of one group.

    The largest groups come first, groups of one size in the order of their first rows; each goes
    to the fold that has the fewest rows.
    """
    n_groups = int(groups.max()) + 1
    place = np.empty(n_groups, dtype=np.int64)
    place[groups[order[::-1]]] = np.arange(len(order))[::-1]  # of the first row: written last
    size, fold_of = np.bincount(groups, minlength=n_groups), np.empty(n_groups, dtype=np.int8)
    folds = [(0, fold) for fold in range(n_folds)]
    heapify(folds)
    for group in np.lexsort([place, -size]).tolist():
        filled, fold = folds[0]
        fold_of[group] = fold
        heapreplace(folds, (filled + int(size[group]), fold))
    return fold_of[groups]


def make_plan(model: Any, labelled: Labelled, rng: Any, threads: Threads) -> tuple[Plan, Beginning]:
    """Learn from a sample of the rows what folds begin with.

    The model knows its parameters, classes, categories and features.
    """
    source, n_classes, n = labelled.source, len(model.order_), labelled.source.n_rows
    signs = find_constraints(model.monotonic_cst, model)
    kinds, group = Kinds.of(labelled.intervals, n_classes)
    order = rng.permutation(n)
    n_folds, fold = split(labelled, model.n_folds, order)
    rows = compiled.Rows(
        kinds.ends, group.astype(np.int16), labelled.weight.astype(np.float32), fold
    )
    order, is_whole = order[:MOST_SAMPLED], n <= MOST_SAMPLED
    some = np.sort(order)
    sample, order = source.take(some), np.searchsorted(some, order)
    there = rows if is_whole else compiled.Rows(kinds.ends, *(part[some] for part in rows[1:]))

    categorical = [int(k) for k in model.categories_]
    X, exponents = scaled(sample, getattr(model, "feature_names_in_", None))
    view, trust = View.of(X, categorical, signs, order, n_folds), float(model.trust)
    known = labelled.intervals[kinds.exact[group], 0]
    trusted = np.bincount(known, minlength=n_classes) + trust
    doubt = np.divide(trust, trusted, out=np.ones(n_classes), where=trusted > 0.0)

    def start(chances: Chances | None) -> Starts:
        return learn_starts(view, there, kinds, n_folds, trust, chances, threads.map)

    starts = start(None)
    mix, found, knowledge = mix_starts(starts, there, kinds, trust, model.coarsening)
    mechanism = found.maximum.mechanism
    if mechanism is not None:
        # Starts that assume a direction would find it again; exact labels show which it is.
        if mechanism.name == "offsets" and not kinds.exact.any():
            mechanism = replace(mechanism, name="symmetric")
        counts = found.maximum.sums.counts
        starts = start(Chances(kinds, mechanism.learn(counts).chance(counts, doubt)))
        mix, found, knowledge = mix_starts(starts, there, kinds, trust, model.coarsening)
    mixed = starts.mixed(mix)
    bins = Bins.of(sample, categorical)
    arrays = unscaled(mixed.arrays, exponents)
    plan = Plan(
        rows=rows,
        parameters=parameters_of(model, signs),
        bins=bins,
        categorical=categorical,
        sample=bins.codes(sample),
        mean=arrays["mean"],
        slopes=np.ldexp(mixed.slopes, exponents),
        centres=mixed.centres,
        scores=mixed.scores if is_whole else None,
        is_scarce=source.is_scarce,
    )
    beginning = Beginning(
        n_rows=n,
        knowledge=knowledge,
        doubt=doubt,
        evidence=found.evidence,
        arrays=arrays,
        centre=mixed.centre,
        bins=bins,
        background=sample[order[: background_size(sample.shape[1])]].astype(np.float64),
    )
    return plan, beginning


def mix_starts(
    starts: Starts,
    rows: compiled.Rows,
    kinds: Kinds,
    trust: float,
    coarsening: str,
) -> tuple[Array, fitting.Fit, Knowledge]:
    """Return the weights of starts, the fit to held-out scores that shows them, and what else.

    They are those of an ordered logit, without those that would be negative.
    """
    scores, weight = starts.held_out(rows.fold), rows.weight.astype(np.float64)
    mix = np.ones(scores.shape[1])
    known: fitting.Fit | None = None
    while True:
        used = scores[:, mix > 0.0]
        size = float(used.std(axis=0).mean()) + TINY  # so that the penalty does not depend on it
        held_out = InMemory(used / size, rows.group, weight, kinds, used.mean(axis=1))
        settings = fitting.Settings(ALPHA, trust, coarsening, MOST_STEPS, is_held_out=True)
        if known is None:
            known = fitting.fit(held_out, settings)
        else:  # how classes become ranges is known
            problem, (point, _, mechanism) = fitting.Problem(held_out, settings), known.maximum[:3]
            start = replace(problem.blank, chances=point.chances)
            known = known._replace(maximum=problem.fit(start, mechanism))
        mix[mix > 0.0] = np.maximum(1.0 / used.shape[1] + known.w / size, 0.0)
        if np.count_nonzero(mix) in (0, used.shape[1]):
            return mix, known, known.knowledge(held_out, trust)


def grow(beginning: Beginning, home: Home, most: int, patience: int, watch: Watch | None) -> Grown:
    """Grow trees until no round is better; keep those of the best round, and what it knew."""
    rounds, n = Rounds(most, patience), beginning.n_rows
    knowledge = kept = beginning.knowledge
    first = FIRST_HASTE if n >= HASTY_ROWS else 1.0
    while not rounds.are_over:
        haste = first * (1.0 + len(rounds) / HALF_AS_CAREFUL)
        shown = home.each(Fold.learn, knowledge.theta, knowledge.chance, haste)
        sums = total(shown, Sums.plus)
        knowledge = knowledge.improved(sums, beginning.doubt)
        if rounds.add(-sums.loglik / n):
            kept = knowledge
        if watch:
            watch(rounds)
    return Grown(rounds, kept, home.each(Fold.trees, rounds.best))


def plant(beginning: Beginning, grown: Grown, categories: dict[str, list[Any]]) -> BoostedTrees:
    """Return what was learned, without LightGBM and bins."""
    knowledge, texts = grown.knowledge, [text for texts in grown.trees for text in texts]
    trees = beginning.bins.unbinned(read_trees(texts, categories))
    trees["leaf"] /= len(grown.trees)
    return BoostedTrees(
        thresholds=knowledge.theta + beginning.centre,
        ends=knowledge.mechanism.kinds.ends,
        chances=knowledge.chance,
        coarsening={
            "mechanism": knowledge.mechanism.name,
            "shares": knowledge.mechanism.shares,
            "evidence": beginning.evidence,
        },
        forest=Forest(**beginning.arrays, **trees),
        background=beginning.background,
    )


def warn_of_rounds(rounds: Rounds) -> None:
    """Warn if trees stopped growing while they were still getting better."""
    if rounds.best == rounds.most:
        warnings.warn(
            f"the last of max_iter={rounds.most} rounds was the best: raise max_iter, as more may "
            "be better",
            ConvergenceWarning,
            stacklevel=6,
        )


def warn_of_ends(mechanism: Mechanism) -> None:
    """Warn if nothing tells the classes at both ends from their neighbours."""
    kinds = mechanism.kinds
    if mechanism.name == "random" and kinds.n_classes > 1 and not kinds.exact.any():
        warnings.warn(
            "no label is exact, and the ranges do not look as if raters went up and down alike at "
            "every class: the classes at both ends cannot be told from their neighbours; a few "
            "exact labels would show how classes became ranges",
            stacklevel=6,
        )
