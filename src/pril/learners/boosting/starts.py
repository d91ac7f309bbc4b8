"""Where boosters start: linear scores of the features and, if the rows are few, of landmarks."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from pril.core import fitting
from pril.core.coarsening import Kinds
from pril.core.likelihood import InMemory, Maximum
from pril.core.rows import batches, frozen
from pril.features import LandmarkFeatures
from pril.learners.boosting import compiled

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.learners.boosting.compiled import Rows
    from pril.learners.boosting.folds import Threads

    Array = NDArray[Any]

LANDMARK_ROWS = 5000  # from here on, trees find by themselves what landmarks show
MOST_CROSSED = 16  # folds: crossing landmark models takes one for each pair of folds
LANDMARK_CELLS = 1 << 23  # of X, for landmarks that do not take more time than the trees
GAMMA = 0.6  # of `LandmarkFeatures`, times the number of features
ALPHA, LANDMARK_ALPHA = 1.0, 3.0  # penalties of the weights
MOST_STEPS = 30  # to a maximum


class Start(NamedTuple):
    """Linear models, one for each fold, which has not seen it."""

    slopes: Array  # (folds, features)
    centres: Array  # (folds,), the means of their thresholds
    theta: Array  # (K - 1,), their thresholds, centred
    scores: Array  # (folds, n), centred


class Mixed(NamedTuple):
    """Weighted sums of starts."""

    arrays: dict[str, Array]  # of a forest
    centre: float
    scores: Array  # (folds, n), centred
    slopes: Array  # (folds, features), of the linear models
    centres: Array  # (folds,)


class Starts:
    """Linear models of the features, and of landmark features.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_features)
        Features.
    categories : list of int
        Features that are no numbers.
    signs : ndarray of shape (n_features,)
        The sign that each slope must have, 0 if it may have any. Near landmarks, a score rises and
        falls, so there are no landmarks if a sign is given.
    rows : Rows
        Labels, weights and folds.
    kinds : Kinds
        The kinds of labels.
    order : ndarray of shape (n_samples,)
        The order in which landmarks are chosen.
    n_folds : int
        Number of folds; a small one may have no row among these.
    trust : float
        As in `OrderedLogit`.
    coarsening : str
        As in `OrderedLogit`.
    home : Threads
        Learns several models at once.
    """

    def __init__(
        self,
        X: Array,
        categories: list[int],
        signs: Array,
        rows: Rows,
        kinds: Kinds,
        order: Array,
        n_folds: int,
        trust: float,
        coarsening: str,
        home: Threads,
    ) -> None:
        self.rows, self.home, self.signs, self.n_folds = rows, home, signs, n_folds
        self.kinds = kinds
        self.settings = fitting.Settings(ALPHA, float(trust), coarsening, MOST_STEPS)
        scaler = StandardScaler(copy=False)
        with np.errstate(all="ignore"):
            for batch in batches(len(X), 1 << 16):
                scaler.partial_fit(X[batch])
        scaler.scale_[np.isnan(scaler.scale_)] = np.inf  # too large to be scaled: not used
        scaler.scale_[categories] = np.inf
        self.mean = scaler.mean_ = np.nan_to_num(scaler.mean_, posinf=0.0, neginf=0.0)
        self.scale, varies = scaler.scale_, (scaler.var_ > 0.0) & np.isfinite(scaler.scale_)
        Z: Array = np.nan_to_num(scaler.transform(X.copy()), copy=False)
        found = self._fit(Z)
        self.used_offsets = found.used_offsets
        self.models = [self._learn(Z, found.maximum, self.scale, X, self.mean)]
        self.width = np.where(varies, GAMMA / max(varies.sum(), 1) / self.scale, 0.0)
        self.landmarks: LandmarkFeatures | None = None
        is_small = len(X) < LANDMARK_ROWS and X.size <= LANDMARK_CELLS
        can_cross = n_folds <= MOST_CROSSED
        if is_small and can_cross and varies.any() and not signs.any():
            self.landmarks = LandmarkFeatures(gamma=GAMMA / varies.sum(), random_state=0)
            self.landmarks.fit(Z[order])  # the order of the rows must not matter
            mapped = self.landmarks.transform(Z)
            self.settings = self.settings._replace(alpha=LANDMARK_ALPHA)
            problem, known = fitting.Problem(self._rows(mapped), self.settings), found.maximum
            start = replace(problem.blank, chances=known.point.chances)
            maximum = problem.fit(start, known.mechanism, em_gain=fitting.LEAST_GAIN)
            zero = np.zeros(mapped.shape[1])
            self.models.append(self._learn(mapped, maximum, 1.0, mapped, zero, cross=True))

    def _rows(self, Z: Array) -> InMemory:
        """Return the rows with such features."""
        return InMemory(Z, self.rows.group, self.rows.weight.astype(np.float64), self.kinds)

    def _fit(self, Z: Array) -> fitting.Fit:
        """Fit all rows; features whose slopes have a wrong sign are made 0, which makes these 0."""
        found = fitting.fit(self._rows(Z), self.settings)
        while self.signs.any() and (is_wrong := self.signs * found.w < 0.0).any():
            Z[:, is_wrong] = 0.0
            found = fitting.fit(self._rows(Z), self.settings)
        return found

    def _learn(
        self,
        Z: Array,
        maximum: Maximum,
        scale: Array | float,
        X: Array,
        mean: Array,
        *,
        cross: bool = False,
    ) -> Start:
        """Learn a model for each fold, without it, and score all rows before scaling.

        Landmark models fit the rows that they have seen so well that trees could not learn from
        what is left. So they are crossed: each row of another fold is scored by a model that has
        not seen this fold either.
        """
        fold, n_folds = self.rows.fold, self.n_folds
        pairs = list(combinations(range(n_folds), 2)) if cross and n_folds > 2 else []
        left_out: list[tuple[int, ...]] = [*((j,) for j in range(n_folds)), *pairs]
        points = fitting.without_folds(
            self._rows(Z), self.settings, maximum, fold, left_out, self.home.map
        )
        slopes = np.array([point.weights for point in points]) / scale
        if self.signs.any():  # there are no landmarks then
            slopes[slopes * self.signs < 0.0] = 0.0
        cuts = np.array([point.thresholds for point in points])
        centres = cuts.sum(axis=1) / max(cuts.shape[1], 1)
        scores = np.empty((n_folds, len(fold)), dtype=np.float32)
        own = slice(n_folds)
        compiled.write_linear_scores(frozen(X), mean, slopes[own], centres[own], scores)
        for pair, slope, centre in zip(pairs, slopes[n_folds:], centres[n_folds:], strict=True):
            for one, other in (pair, pair[::-1]):
                some = np.flatnonzero(fold == other)
                scores[one, some] = Z[some] @ slope - centre
        theta = (cuts[own] - centres[own, np.newaxis]).mean(axis=0)
        return Start(slopes[own], centres[own], theta, scores)

    def held_out(self, fold: Array) -> Array:
        """Return scores of each row by models that have not seen it; of shape (n, kinds)."""
        every = np.arange(len(fold))
        return np.column_stack([model.scores[fold, every] for model in self.models])

    def mixed(self, mix: Array) -> Mixed:
        """Return weighted sums of the models."""
        plain, d = self.models[0], len(self.mean)
        slopes, centres = mix[0] * plain.slopes, mix[0] * plain.centres
        slope, centre, scores = slopes.mean(axis=0), centres.mean(), plain.scores
        scores *= np.float32(mix[0])
        points, similarity = np.empty((0, d)), np.empty(0)
        if self.landmarks is not None:
            other = self.models[1]
            scores += np.float32(mix[1]) * other.scores
            added = mix[1] * other.slopes.mean(axis=0)
            slope += added[:d] / self.scale
            similarity, offset = self.landmarks.kernel_weights(added[d:])
            points = self.landmarks.gamma * self.landmarks.landmarks_
            centre += mix[1] * other.centres.mean() + offset
        arrays = {
            "mean": self.mean,
            "slope": slope,
            "width": self.width,
            "landmarks": points,
            "similarity": similarity,
        }
        return Mixed(arrays, centre, scores, slopes, centres)
