"""Learning: boosters of several folds that grow in step, and what they learn together."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from pril.core import fitting
from pril.core.arrays import Array
from pril.core.coarsening import TINY, Kinds, Mechanism, doubt_of
from pril.core.fitting import Knowledge
from pril.core.likelihood import Chances, InMemory, Sums, total
from pril.core.rows import batches, frozen
from pril.errors import InputError
from pril.features import LandmarkFeatures
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import Forest, Rows
from pril.learners.boosting.features import Bins, find_constraints, scaled, unscaled
from pril.learners.boosting.folds import Fold, Home, Plan, Source, Threads, parameters_of
from pril.learners.boosting.forest_engine import BoostedTrees, background_size, read_trees

PROGRESS_SECONDS = 2.0
MOST_SAMPLED = 200_000  # rows that the starts and the bins are learned from
MANY_ROWS = 10_000  # from here on, four folds are as good as eight, in half the time
LEAST_GAIN = 1e-6  # by which the held-out loss of a better round is lower
# Of starts: the penalties of their weights, and how many steps find them.
ALPHA, LANDMARK_ALPHA, MOST_STEPS = 0.3, 3.0, 30
# Of the weights of the starts, which are drawn to the same; rounds will improve the rest.
MIX_ALPHA, MIX_STEPS = 1.0, 10
LANDMARK_ROWS = 5000  # from here on, trees find by themselves what landmarks show
MOST_CROSSED = 16  # folds: crossing landmark models takes one for each pair of folds
LANDMARK_CELLS = 1 << 23  # of X, for landmarks that do not take more time than the trees
GAMMA = 0.6  # of `LandmarkFeatures`, times the number of features
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
    threads: Threads,
) -> tuple[Plan, Beginning]:
    """Learn from a sample of the rows what folds begin with.

    The model knows its parameters, classes, categories and features. Intervals are the labels as
    ranks, the mean of the weights is 1, and groups are numbered from 0 on; None: each row is one.
    """
    n_classes, n, trust = len(model.order_), source.n_rows, float(model.trust)
    signs = find_constraints(model.monotonic_cst, model)
    kinds, group = Kinds.of(intervals, n_classes)
    order = rng.permutation(n)
    n_folds, fold = split(groups, model.n_folds, order)
    rows = Rows(kinds.ends, group.astype(np.int16), weight.astype(np.float32), fold)
    order, is_whole = order[:MOST_SAMPLED], n <= MOST_SAMPLED
    some = np.sort(order)
    sample, order = source.take(some), np.searchsorted(some, order)
    there = rows if is_whole else Rows(kinds.ends, *(part[some] for part in rows[1:]))

    categorical = [int(k) for k in model.categories_]
    X, exponents = scaled(sample, getattr(model, "feature_names_in_", None))
    view = View.of(X, categorical, signs, order, n_folds)
    known = intervals[kinds.exact[group], 0]
    doubt = doubt_of(np.bincount(known, minlength=n_classes), trust)

    def start(chances: Chances | None) -> tuple[list[Start], Array, fitting.Fit, Knowledge]:
        starts = learn_starts(view, there, kinds, n_folds, trust, chances, threads.map)
        return starts, *mix_starts(starts, there, kinds, trust, model.coarsening)

    starts, mix, found, knowledge = start(None)
    mechanism = found.maximum.mechanism
    if mechanism is not None:
        # Starts that assume a direction would find it again; exact labels show which it is.
        if mechanism.name == "offsets" and not kinds.exact.any():
            mechanism = replace(mechanism, name="symmetric")
        _, q = mechanism.step(found.maximum.sums.counts, doubt)
        starts, mix, found, knowledge = start(Chances(kinds, q))
    mixed, arrays, centre = mix_models(view, starts, mix)
    arrays, bins = unscaled(arrays, exponents), Bins.of(sample, categorical)
    plan = Plan(
        rows=rows,
        parameters=parameters_of(model, signs),
        bins=bins,
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
        centre=centre,
        bins=bins,
        background=sample[order[: background_size(sample.shape[1])]].astype(np.float64),
    )
    return plan, beginning


# --- Where boosters start: linear scores of the features and, if the rows are few, of landmarks --


class View(NamedTuple):
    """Features as starts get them: standardised, and if the rows are few, as landmark features."""

    X: Array  # as they are
    Z: Array  # standardised, 0 where they are missing, or no numbers
    mean: Array
    scale: Array
    width: Array  # by which features are multiplied for landmarks
    signs: Array  # (features,), the sign that each slope must have, 0 if it may have any
    landmarks: LandmarkFeatures | None

    @classmethod
    def of(cls, X: Array, categorical: list[int], signs: Array, order: Array, n_folds: int) -> Self:
        """Look at features, of which some are no numbers; landmarks are chosen in this order."""
        scaler = StandardScaler(copy=False)
        with np.errstate(all="ignore"):
            for batch in batches(len(X), 1 << 16):
                scaler.partial_fit(X[batch])
        scaler.scale_[np.isnan(scaler.scale_)] = np.inf  # too large to be scaled: not used
        scaler.scale_[categorical] = np.inf
        mean = scaler.mean_ = np.nan_to_num(scaler.mean_, posinf=0.0, neginf=0.0)
        scale, varies = scaler.scale_, (scaler.var_ > 0.0) & np.isfinite(scaler.scale_)
        Z: Array = np.nan_to_num(scaler.transform(X.copy()), copy=False)
        width = np.where(varies, GAMMA / max(varies.sum(), 1) / scale, 0.0)
        is_small = len(X) < LANDMARK_ROWS and X.size <= LANDMARK_CELLS and n_folds <= MOST_CROSSED
        landmarks = None
        if is_small and varies.any() and not signs.any():  # near them, a score rises and falls
            landmarks = LandmarkFeatures(gamma=GAMMA / varies.sum(), random_state=0)
            landmarks.fit(Z[order])  # the order of the rows must not matter
        return cls(X, Z, mean, scale, width, signs, landmarks)


class Start(NamedTuple):
    """Linear models, one for each fold, which has not seen it."""

    slopes: Array  # (folds, features)
    centres: Array  # (folds,), the means of their thresholds
    scores: Array  # (folds, n), centred


def learn_starts(
    view: View,
    rows: Rows,
    kinds: Kinds,
    n_folds: int,
    trust: float,
    chances: Chances | None,
    each: Callable[..., list[Any]],
) -> list[Start]:
    """Learn a model for each fold, without it, of features and, if there are some, of landmarks.

    Without chances of ranges, they are taken to be at random. Folds may have no row. `each` is like
    `map`. Landmark models fit the rows that they have seen so well that trees could not learn from
    what is left. So they are crossed: each row of another fold is scored by a model that has not
    seen this fold either.
    """
    weight, fold = rows.weight.astype(np.float64), rows.fold
    own: list[tuple[int, ...]] = [(j,) for j in range(n_folds)]
    crossed = list(combinations(range(n_folds), 2)) if n_folds > 2 else []

    def learn(
        Z: Array, alpha: float, signs: Array | float, pairs: list[tuple[int, int]]
    ) -> tuple[Array, Array]:
        """Return slopes and centres of models without folds, then without pairs of folds."""
        some = InMemory(Z, rows.group, weight, kinds)
        settings = fitting.Settings(alpha, trust, "random", MOST_STEPS)
        problem = fitting.Problem(some, settings, believed=0.0)  # trees improve their shares
        blank = problem.blank if chances is None else replace(problem.blank, chances=chances)
        maximum = problem.fit(blank, em_gain=fitting.LEAST_GAIN)
        is_wrong = signs * maximum.point.weights < 0.0
        if is_wrong.any():  # these slopes are 0 if their features are
            return learn(np.where(is_wrong, 0.0, Z), alpha, signs, pairs)
        points = fitting.without_folds(some, problem, maximum, fold, [*own, *pairs], each)
        slopes = np.array([point.weights for point in points])
        slopes[slopes * signs < 0.0] = 0.0
        cuts = np.array([point.thresholds for point in points])
        return slopes, cuts.sum(axis=1) / max(cuts.shape[1], 1)

    def scored(X: Array, mean: Array, slopes: Array, centres: Array) -> Start:
        scores = np.empty((n_folds, len(X)), dtype=np.float32)
        compiled.write_linear_scores(frozen(X), mean, slopes, centres, scores)
        return Start(slopes, centres, scores)

    slopes, centres = learn(view.Z, ALPHA, view.signs, [])
    models = [scored(view.X, view.mean, slopes / view.scale, centres)]
    if view.landmarks is not None:
        mapped = view.landmarks.transform(view.Z)
        slopes, centres = learn(mapped, LANDMARK_ALPHA, 0.0, crossed)
        zero = np.zeros(mapped.shape[1])
        models.append(scored(mapped, zero, slopes[:n_folds], centres[:n_folds]))
        for pair, slope, centre in zip(crossed, slopes[n_folds:], centres[n_folds:], strict=True):
            for one, other in (pair, pair[::-1]):
                there = np.flatnonzero(fold == other)
                models[1].scores[one, there] = mapped[there] @ slope - centre
    return models


def mix_starts(
    starts: list[Start], rows: Rows, kinds: Kinds, trust: float, coarsening: str
) -> tuple[Array, fitting.Fit, Knowledge]:
    """Return the weights of starts, the fit to held-out scores that shows them, and what else.

    They are those of an ordered logit, without those that would be negative.
    """
    every, weight = np.arange(len(rows.fold)), rows.weight.astype(np.float64)
    scores = np.column_stack([start.scores[rows.fold, every] for start in starts])
    scores = scores.astype(np.float64)
    mix = np.ones(scores.shape[1])
    known: fitting.Fit | None = None
    while True:
        used = scores[:, mix > 0.0]
        size = float(used.std(axis=0).mean()) + TINY  # so that the penalty does not depend on it
        held_out = InMemory(used / size, rows.group, weight, kinds, used.mean(axis=1))
        settings = fitting.Settings(MIX_ALPHA, trust, coarsening, MIX_STEPS, is_held_out=True)
        if known is None:
            known = fitting.fit(held_out, settings)
        else:  # how classes become ranges is known
            problem, (point, _, mechanism) = fitting.Problem(held_out, settings), known.maximum[:3]
            start = replace(problem.blank, chances=point.chances)
            known = known._replace(maximum=problem.fit(start, mechanism))
        mix[mix > 0.0] = np.maximum(1.0 / used.shape[1] + known.w / size, 0.0)
        if np.count_nonzero(mix) in (0, used.shape[1]):
            return mix, known, known.knowledge(held_out, trust)


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
