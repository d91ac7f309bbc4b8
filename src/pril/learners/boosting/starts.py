"""Where boosters start: linear scores of the features and, if the rows are few, of landmarks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.preprocessing import StandardScaler

from pril.core import fitting
from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.likelihood import Chances, InMemory
from pril.core.rows import batches, frozen
from pril.features import LandmarkFeatures
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import Rows

LANDMARK_ROWS = 5000  # from here on, trees find by themselves what landmarks show
MOST_CROSSED = 16  # folds: crossing landmark models takes one for each pair of folds
LANDMARK_CELLS = 1 << 23  # of X, for landmarks that do not take more time than the trees
GAMMA = 0.6  # of `LandmarkFeatures`, times the number of features
ALPHA, LANDMARK_ALPHA = 0.3, 3.0  # penalties of the weights
MOST_STEPS = 30  # to a maximum


class Start(NamedTuple):
    """Linear models, one for each fold, which has not seen it."""

    slopes: Array  # (folds, features)
    centres: Array  # (folds,), the means of their thresholds
    scores: Array  # (folds, n), centred


class Mixed(NamedTuple):
    """Weighted sums of starts."""

    arrays: dict[str, Array]  # of a forest
    centre: float
    scores: Array  # (folds, n), centred
    slopes: Array  # (folds, features), of the linear models
    centres: Array  # (folds,)


class View(NamedTuple):
    """Features as starts get them: standardised, and if the rows are few, as landmark features."""

    X: Array  # as they are
    Z: Array  # standardised, 0 where they are missing, or no numbers
    mean: Array
    scale: Array
    width: Array  # by which features are multiplied for landmarks
    signs: Array  # (features,), the sign that each slope must have, 0 if it may have any
    landmarks: LandmarkFeatures | None
    mapped: Array  # (n, landmark features)

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
        # Near landmarks, a score rises and falls.
        if not is_small or not varies.any() or signs.any():
            return cls(X, Z, mean, scale, width, signs, None, np.empty((len(X), 0)))
        landmarks = LandmarkFeatures(gamma=GAMMA / varies.sum(), random_state=0)
        landmarks.fit(Z[order])  # the order of the rows must not matter
        return cls(X, Z, mean, scale, width, signs, landmarks, landmarks.transform(Z))


class Starts(NamedTuple):
    """Linear models of the features and, if there are some, of landmark features."""

    view: View
    models: list[Start]

    def held_out(self, fold: Array) -> Array:
        """Return scores of each row by models that have not seen it; of shape (n, kinds)."""
        every = np.arange(len(fold))
        scores = np.column_stack([model.scores[fold, every] for model in self.models])
        return scores.astype(np.float64)

    def mixed(self, mix: Array) -> Mixed:
        """Return weighted sums of the models."""
        view, plain, d = self.view, self.models[0], len(self.view.mean)
        slopes, centres = mix[0] * plain.slopes, mix[0] * plain.centres
        slope, centre, scores = slopes.mean(axis=0), centres.mean(), plain.scores
        scores *= np.float32(mix[0])
        points, similarity = np.empty((0, d)), np.empty(0)
        if view.landmarks is not None:
            other = self.models[1]
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
        return Mixed(arrays, centre, scores, slopes, centres)


def learn_starts(
    view: View,
    rows: Rows,
    kinds: Kinds,
    n_folds: int,
    trust: float,
    chances: Chances | None,
    each: Callable[..., list[Any]],
) -> Starts:
    """Learn a model for each fold, without it, and score all rows before scaling.

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
        problem = fitting.Problem(some, fitting.Settings(alpha, trust, "random", MOST_STEPS))
        blank = problem.blank if chances is None else replace(problem.blank, chances=chances)
        maximum = problem.fit(blank, em_gain=fitting.LEAST_GAIN)
        is_wrong = signs * maximum.point.weights < 0.0
        if is_wrong.any():  # these slopes are 0 if their features are
            return learn(np.where(is_wrong, 0.0, Z), alpha, signs, pairs)
        points = fitting.without_folds(some, problem.settings, maximum, fold, [*own, *pairs], each)
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
        mapped = view.mapped
        slopes, centres = learn(mapped, LANDMARK_ALPHA, 0.0, crossed)
        zero = np.zeros(mapped.shape[1])
        models.append(scored(mapped, zero, slopes[:n_folds], centres[:n_folds]))
        for pair, slope, centre in zip(crossed, slopes[n_folds:], centres[n_folds:], strict=True):
            for one, other in (pair, pair[::-1]):
                there = np.flatnonzero(fold == other)
                models[1].scores[one, there] = mapped[there] @ slope - centre
    return Starts(view, models)
