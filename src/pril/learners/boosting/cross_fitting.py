"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.errors import InputError
from pril.learners.boosting import held_out
from pril.learners.boosting.compiled import Forest, LabelledRows
from pril.learners.boosting.features import Bins, find_constraints, scaled, unscaled
from pril.learners.boosting.folds import Fold, Home, Plan, Source, parameters_of
from pril.learners.boosting.forest_engine import BoostedTrees, background_size, read_trees
from pril.learners.boosting.held_out import Known
from pril.learners.boosting.starts import Start, View, cross, learn_starts
from pril.likelihood.chosen import Choice
from pril.likelihood.fitting import Settings
from pril.likelihood.mechanisms import Random

PROGRESS_SECONDS = 2.0
MOST_SAMPLED = 200_000  # rows that the starts and the bins are learned from
MANY_ROWS = 10_000  # from here on, four folds are as good as eight, in half the time
MIX_ALPHA = 0.03  # the penalty of weights of starts
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
# After so many rounds, boosters that still improve are bolder: the learning rate is twice the first
# one, l2_regularization and the least hessian of a leaf are half of theirs; and so on.
ROUNDS_TO_DOUBLE_RATE = 50
# With many rows, trees are sure enough of themselves to begin with a higher learning rate.
BOLD_ROWS, FIRST_BOLDNESS = 100_000, 1.5


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


class Beginning(NamedTuple):
    """What is known before the first tree, beside the plan of the folds."""

    n_rows: int
    known: Known
    weights: Array  # (kinds,), of the labels
    arrays: dict[str, Array]  # of the forest
    centre: float  # of the thresholds
    bins: Bins
    background: Array


class Grown(NamedTuple):
    """Trees, and what was known when the last of them had grown."""

    rounds: Rounds
    known: Known
    trees: list[list[str]]  # of each fold, in LightGBM's text


def folds_for(asked: int | str, n_rows: int) -> int:
    """Return the number of folds."""
    return (4 if n_rows >= MANY_ROWS else 8) if isinstance(asked, str) else asked


def split(groups: Array | None, asked: int | str, order: Array) -> tuple[int, Array]:
    """Return the number of folds, and the fold of each row."""
    n = len(order)
    n_folds = folds_for(asked, n)
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
    filled = np.zeros(n_folds, dtype=np.int64)
    for group in np.lexsort([place, -size]).tolist():
        fold_of[group] = fold = filled.argmin()
        filled[fold] += size[group]
    return fold_of[groups]


def make_plan(
    model: Any,
    source: Source,
    intervals: Array,
    weight: Array,
    groups: Array | None,
    rng: Any,
) -> tuple[Plan, Beginning]:
    """Learn from a sample of the rows what folds begin with.

    The model knows its parameters, classes, categories and features. Intervals are the labels as
    ranks, the mean of the weights is 1, and groups are numbered from 0 on; None: each row is one.
    """
    n_classes, n = len(model.order_), source.n_rows
    signs = find_constraints(model.monotonic_cst, model)
    kinds, kind = Kinds.of(intervals, n_classes)
    order = rng.permutation(n)
    n_folds, fold = split(groups, model.n_folds, order)
    rows = LabelledRows(kind.astype(np.int32), weight.astype(np.float32), fold)
    order, is_whole = order[:MOST_SAMPLED], n <= MOST_SAMPLED
    some = np.sort(order)
    sample, order = source.take(some), np.searchsorted(some, order)
    there = rows if is_whole else LabelledRows(*(part[some] for part in rows))

    categorical = [int(k) for k in model.categories_]
    X, exponents = scaled(sample, getattr(model, "feature_names_in_", None))
    view = View.of(X, categorical, signs, order, n_folds)
    asked = Settings(MIX_ALPHA, float(model.trust), model.coarsening)
    learn, every = partial(learn_starts, view, there, n_folds), np.arange(len(some))

    def mixed_by(starts: list[Start], known: Known | None) -> tuple[Array, Known]:
        scores = np.column_stack([start.scores[there.fold, every] for start in starts])
        weight = there.weight.astype(np.float64)
        return held_out.mix(scores.astype(np.float64), there.kind, weight, kinds, asked, known)

    starts, learned = learn(Random(kinds).cells, np.empty(0), [])
    mix, known = mixed_by(starts, None)
    if not known.is_random:
        starts, learned = learn(known.mechanism.cells, known.without_direction().chances, learned)
        mix, known = mixed_by(starts, known)
    if view.mapped is not None and n_folds > 2 and mix[1] > 0.0:
        cross(view.mapped, there.fold, starts[1], learned[1])
    mixed, arrays, centre = mix_models(view, starts, mix)
    arrays, bins = unscaled(arrays, exponents), Bins.of(sample, categorical)
    plan = Plan(
        rows=rows,
        parameters=parameters_of(model, signs),
        bins=bins,
        sample=bins.codes(sample),
        shown=np.sort(some[order[: held_out.MOST_SAMPLED]]),
        mean=arrays["mean"],
        slopes=np.ldexp(mixed.slopes, exponents),
        centres=mixed.centres,
        scores=mixed.scores if is_whole else None,
        is_scarce=source.is_scarce,
    )
    beginning = Beginning(
        n_rows=n,
        known=known,
        weights=np.bincount(kind, rows.weight, len(kinds.ends)),
        arrays=arrays,
        centre=centre,
        bins=bins,
        background=sample[order[: background_size(sample.shape[1])]].astype(np.float64),
    )
    return plan, beginning


def mix_models(
    view: View, starts: list[Start], mix: Array
) -> tuple[Start, dict[str, Array], float]:
    """Return weighted sums of starts, arrays of a forest that has their means, and its centre."""
    plain, d = starts[0], len(view.mean)
    slopes, centres = mix[0] * plain.slopes, mix[0] * plain.centres
    slope, centre, scores = slopes.mean(axis=0), centres.mean(), plain.scores
    scores *= np.float32(mix[0])
    points, similarity = np.empty((0, d)), np.empty(0)
    if view.landmarks is not None:
        other = starts[1]
        scores += np.float32(mix[1]) * other.scores
        added = mix[1] * other.slopes.mean(axis=0)
        slope += added[:d] / view.scale
        similarity, offset = view.landmarks.kernel_weights(added[d:])
        points = view.landmarks.gamma * view.landmarks.landmarks_
        centre += mix[1] * other.centres.mean() + offset
    arrays = {
        "mean": view.mean,
        "slope": slope,
        "width": view.width,
        "landmarks": points,
        "similarity": similarity,
    }
    return Start(slopes, centres, scores), arrays, centre


# --- Trees ---------------------------------------------------------------------------------------


def grow(beginning: Beginning, home: Home, most: int, patience: int, watch: Watch | None) -> Grown:
    """Grow trees until no round is better; keep those of the best round, and what it knew."""
    rounds, known, weights = Rounds(most, patience), beginning.known, beginning.weights
    kept, first = known, FIRST_BOLDNESS if beginning.n_rows >= BOLD_ROWS else 1.0

    constant = float(known.mechanism.frequencies(weights)[0] @ weights)

    while not rounds.are_over:
        boldness = first * (1.0 + len(rounds) / ROUNDS_TO_DOUBLE_RATE)
        shown = home.each(Fold.learn, known.labels, boldness)
        loglik, known = held_out.improved(known, weights, shown, partial(home.each, Fold.look))
        if rounds.add(-(loglik + constant) / weights.sum()):
            kept = known
        if watch:
            watch(rounds)
    return Grown(rounds, kept, home.each(Fold.trees, rounds.best))


def plant(beginning: Beginning, grown: Grown, categories: dict[str, list[Any]]) -> BoostedTrees:
    """Return what was learned, without LightGBM and bins."""
    known, texts = grown.known, [text for texts in grown.trees for text in texts]
    trees = beginning.bins.unbinned(read_trees(texts, categories))
    trees["leaf"] /= len(grown.trees)
    mechanism = known.mechanism
    return BoostedTrees(
        thresholds=known.theta + beginning.centre,
        choice=Choice.of(mechanism, known.phi, known.evidence, mechanism.kinds, beginning.weights),
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


def warn_of_ends(known: Known) -> None:
    """Warn if nothing tells the classes at both ends from their neighbours."""
    kinds = known.mechanism.kinds
    if known.mechanism.name == "random" and kinds.n_classes > 1 and not kinds.exact.any():
        warnings.warn(
            "no label is exact, and the ranges do not look as if raters went up and down alike at "
            "every class: the classes at both ends cannot be told from their neighbours; a few "
            "exact labels would show how classes became ranges",
            stacklevel=6,
        )
