"""Where boosters start: linear scores of the features and, if the rows are few, of landmarks."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

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
    order : ndarray of shape (n_samples,)
        The order in which the models learn.
    n_folds : int
        Number of folds; a small one may have no row among these.
    learner : callable
        Makes an unfitted `OrderedLogit`.
    home : Threads
        Learns several models at once.
    """

    def __init__(
        self,
        X: Array,
        categories: list[int],
        signs: Array,
        rows: Rows,
        order: Array,
        n_folds: int,
        learner: Callable[[], Any],
        home: Threads,
    ) -> None:
        self.rows, self.order, self.learner, self.home = rows, order, learner, home
        self.signs, self.n_folds = signs, n_folds
        self.used_offsets = False  # whether a model took ranges to be made by offsets
        scaler = StandardScaler(copy=False)
        with np.errstate(all="ignore"):
            for batch in batches(len(X), 1 << 16):
                scaler.partial_fit(X[batch])
        scaler.scale_[np.isnan(scaler.scale_)] = np.inf  # too large to be scaled: not used
        scaler.scale_[categories] = np.inf
        self.mean = scaler.mean_ = np.nan_to_num(scaler.mean_, posinf=0.0, neginf=0.0)
        self.scale, varies = scaler.scale_, (scaler.var_ > 0.0) & np.isfinite(scaler.scale_)

        def standardised(some: Array) -> Array:
            Z: Array = np.nan_to_num(scaler.transform(X[some]), copy=False)
            return Z

        self.models = [self._learn(standardised, self.scale, X, self.mean)]
        self.width = np.where(varies, GAMMA / max(varies.sum(), 1) / self.scale, 0.0)
        self.landmarks: LandmarkFeatures | None = None
        is_small = len(X) < LANDMARK_ROWS and X.size <= LANDMARK_CELLS
        can_cross = n_folds <= MOST_CROSSED
        if is_small and can_cross and varies.any() and not signs.any():
            Z = standardised(np.arange(len(X)))
            self.landmarks = LandmarkFeatures(gamma=GAMMA / varies.sum(), random_state=0)
            self.landmarks.fit(Z[order])  # the order of the rows must not matter
            mapped = self.landmarks.transform(Z)
            zero = np.zeros(mapped.shape[1])
            self.models.append(self._learn(mapped.__getitem__, 1.0, mapped, zero, cross=True))

    def _learn(
        self,
        learned: Callable[[Array], Array],
        scale: Array | float,
        X: Array,
        mean: Array,
        *,
        cross: bool = False,
    ) -> Start:
        """Learn a model for each fold from features of rows, and score these before scaling.

        Landmark models fit the rows that they have seen so well that trees could not learn from
        what is left. So they are crossed: each row of another fold is scored by a model that has
        not seen this fold either.
        """
        fold, group, n_folds = self.rows.fold, self.rows.group, self.n_folds

        def learn(left_out: tuple[int, ...]) -> tuple[Array, Array]:
            """Return slopes and thresholds of a model that has not seen some folds."""
            some = self.order[~np.isin(fold[self.order], left_out)]
            model, features = self.learner(), learned(some)
            labels, weight = self.rows.ends[group[some]], self.rows.weight[some]
            model.fit(features, labels, weight)
            while self.signs.any() and (is_wrong := self.signs * model.coef_ < 0.0).any():
                features[:, is_wrong] = 0.0  # which makes their slopes 0
                model.fit(features, labels, weight)
            self.used_offsets |= model.coarsening_.mechanism != "random"
            return model.coef_ / scale, model.thresholds_

        every = self.home.map(learn, [(j,) for j in range(n_folds)])
        slopes, cuts = map(np.array, zip(*every, strict=True))
        centres = cuts.sum(axis=1) / max(cuts.shape[1], 1)
        scores = np.empty((n_folds, len(fold)), dtype=np.float32)
        compiled.write_linear_scores(frozen(X), mean, slopes, centres, scores)
        pairs = list(combinations(range(n_folds), 2)) if cross and n_folds > 2 else []
        for pair, (slope, cut) in zip(pairs, self.home.map(learn, pairs), strict=True):
            centre = cut.sum() / max(len(cut), 1)
            for one, other in (pair, pair[::-1]):
                some = np.flatnonzero(fold == other)
                scores[one, some] = learned(some) @ slope - centre
        theta = (cuts - centres[:, np.newaxis]).mean(axis=0)
        return Start(slopes, centres, theta, scores)

    @property
    def theta(self) -> Array:
        """Centred thresholds, the mean of all models."""
        theta: Array = np.mean([model.theta for model in self.models], axis=0)
        return theta

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
