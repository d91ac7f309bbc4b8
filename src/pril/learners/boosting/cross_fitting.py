"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.errors import InputError
from pril.learners.boosting import held_out
from pril.learners.boosting.compiled import Forest, LabelledRows
from pril.learners.boosting.features import Bins, find_constraints, scaled, unscaled
from pril.learners.boosting.folds import Fold, FoldRunner, Plan, Source, parameters_of
from pril.learners.boosting.forest_engine import BoostedTrees, background_size, read_trees
from pril.learners.boosting.held_out import Labelling
from pril.learners.boosting.starts import FoldModels, View, cross, learn_starts
from pril.likelihood.chosen import Choice
from pril.likelihood.fitting import FitSettings
from pril.likelihood.mechanisms import Random

if TYPE_CHECKING:
    from pril.learners.ordered_boosting import OrderedBoosting

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


class Start(NamedTuple):
    """What is known before the first tree, beside the plan of the folds."""

    n_rows: int
    labelling: Labelling
    weights: Array  # (kinds,), of the labels
    arrays: dict[str, Array]  # of the forest
    centre: float  # of the thresholds
    bins: Bins
    background: Array


class Trees(NamedTuple):
    """Trees, and the labelling of the best round."""

    rounds: Rounds
    labelling: Labelling
    texts: list[list[str]]  # of each fold, in LightGBM's text


def folds_for(asked: int | str, n_rows: int) -> int:
    """Return the number of folds."""
    return (4 if n_rows >= MANY_ROWS else 8) if isinstance(asked, str) else asked


def split(groups: Array | None, asked: int | str, order: Array) -> tuple[int, Array]:
    """Return the number of folds, and the fold of each row."""
    n = len(order)
    n_folds = folds_for(asked, n)
    parts, reason = n, f"only {n} rows have a label"
    if groups is not None:
        _, groups = np.unique(groups, return_inverse=True)  # rows without a label are left out
        parts = int(groups.max()) + 1
        reason = f"the rows with a label are of only {parts} groups"
    if parts < 2:
        raise InputError("groups: all rows with a label are of one group, and 2 are needed")
    if parts < n_folds:
        warnings.warn(f"n_folds={n_folds}, but {reason}: each is a fold", stacklevel=7)
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
    model: OrderedBoosting,
    source: Source,
    intervals: Array,
    weight: Array,
    groups: Array | None,
    rng: np.random.RandomState,
) -> tuple[Plan, Start]:
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
    asked = FitSettings(MIX_ALPHA, float(model.trust), model.coarsening)
    learn = partial(learn_starts, view, there, n_folds)
    starts, learned = learn(Random(kinds).cells, np.empty(0), [])
    mix, labelling = held_out.mix(scores_of_folds(starts, there.fold), there, kinds, asked)
    if len(labelling.phi) > 0:
        chances = labelling.without_direction().chances
        starts, learned = learn(labelling.mechanism.cells, chances, learned)
        scores = scores_of_folds(starts, there.fold)
        mix, labelling = held_out.mix(scores, there, kinds, asked, (mix, labelling))
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
    start = Start(
        n_rows=n,
        labelling=labelling,
        weights=np.bincount(kind, rows.weight, len(kinds.ends)),
        arrays=arrays,
        centre=centre,
        bins=bins,
        background=sample[order[: background_size(sample.shape[1])]].astype(np.float64),
    )
    return plan, start


def scores_of_folds(starts: list[FoldModels], fold: Array) -> Array:
    """Return for each start the score of each row by the model that has not seen it."""
    return np.stack([start.scores[fold, np.arange(len(fold))] for start in starts])


def mix_models(
    view: View, starts: list[FoldModels], mix: Array
) -> tuple[FoldModels, dict[str, Array], float]:
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
    return FoldModels(slopes, centres, scores), arrays, centre


# --- Trees ---------------------------------------------------------------------------------------


def grow(start: Start, runner: FoldRunner, most: int, patience: int, watch: Watch | None) -> Trees:
    """Grow trees until no round is better; keep those of the best round, and what it knew."""
    rounds, labelling, weights = Rounds(most, patience), start.labelling, start.weights
    kept, first = labelling, FIRST_BOLDNESS if start.n_rows >= BOLD_ROWS else 1.0
    look = partial(runner.each, Fold.look)
    constant = float(labelling.mechanism.frequencies(weights)[0] @ weights)

    while not rounds.are_over:
        boldness = first * (1.0 + len(rounds) / ROUNDS_TO_DOUBLE_RATE)
        shown = runner.each(Fold.learn, labelling.labels, boldness)
        loglik, labelling = held_out.improved(labelling, weights, shown, look)
        if rounds.add(-(loglik + constant) / weights.sum()):
            kept = labelling
        if watch:
            watch(rounds)
    return Trees(rounds, kept, runner.each(Fold.trees, rounds.best))


def to_forest(start: Start, trees: Trees, categories: dict[str, list[Any]]) -> BoostedTrees:
    """Return what was learned, without LightGBM and bins."""
    arrays = start.bins.unbinned(read_trees([*chain(*trees.texts)], categories))
    arrays["leaf"] /= len(trees.texts)
    mechanism, phi, theta, evidence, _ = trees.labelling
    return BoostedTrees(
        thresholds=theta + start.centre,
        choice=Choice.of(mechanism, phi, evidence, mechanism.kinds, start.weights),
        forest=Forest(**start.arrays, **arrays),
        background=start.background,
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


def warn_of_ends(labelling: Labelling) -> None:
    """Warn if nothing tells the classes at both ends from their neighbours."""
    kinds = labelling.mechanism.kinds
    if labelling.mechanism.name == "random" and kinds.n_classes > 1 and not kinds.exact.any():
        warnings.warn(
            "no label is exact, and the ranges do not look as if raters went up and down alike at "
            "every class: the classes at both ends cannot be told from their neighbours; a few "
            "exact labels would show how classes became ranges",
            stacklevel=6,
        )
