"""How much each feature moves the score, counting the linear part and the trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core.rows import frozen
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import Forest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MOST_ROWS, MOST_CELLS = 1000, 1 << 22  # of the sample
MOST_DISTANCES = 1 << 26  # from landmarks, of all features


def importances(X: Array, forest: Forest) -> Array:
    """Return the share of each feature in the movement of the score; zeros if it never moves.

    A feature moves the score by the mean size of the change if each row of a sample is given the
    feature's value of another row.
    """
    n_features, n_landmarks = X.shape[1], len(forest.landmarks)
    most = min(MOST_CELLS // n_features, MOST_DISTANCES // max(n_landmarks * n_features, 1))
    n = min(len(X), MOST_ROWS, max(2, most))
    # In random order, so that the row before is any other row.
    rows = X[np.random.default_rng(0).choice(len(X), n, replace=False)].astype(np.float64)
    centred = np.where(np.isnan(rows), 0.0, rows - forest.mean)
    linear, near = centred * forest.slope, Nearness(centred * forest.width, forest)
    moved, with_splits = np.empty(n_features), set(np.unique(forest.feature).tolist())
    for k in range(n_features):
        change = np.roll(linear[:, k], 1) - linear[:, k] + near.change(k)
        if k in with_splits:
            part, columns = trees_with(forest, k)
            own = rows[:, columns]
            other = np.where(columns == k, np.roll(own, 1, axis=0), own)
            change += scores_of(other, part) - scores_of(own, part)
        moved[k] = np.abs(change).mean()
    shares: Array = moved / (moved.sum() or 1.0)
    return shares


class Nearness:
    """What landmarks add to the score of some rows, and how that changes with one feature."""

    def __init__(self, rows: Array, forest: Forest) -> None:
        self.rows, self.forest = rows, forest
        self.distance = np.zeros((len(rows), len(forest.landmarks)))
        for k in range(rows.shape[1]):
            self.distance += self._from(rows[:, k], k)
        self.score = np.exp(-self.distance) @ forest.similarity

    def change(self, k: int) -> Array:
        """Return the change of the score if each row is given feature k of the row before it."""
        if self.forest.width[k] == 0.0 or len(self.forest.landmarks) == 0:
            return np.zeros(len(self.rows))
        own = self.rows[:, k]
        distance = self.distance + self._from(np.roll(own, 1), k) - self._from(own, k)
        change: Array = np.exp(-distance) @ self.forest.similarity - self.score
        return change

    def _from(self, cells: Array, k: int) -> Array:
        distance: Array = np.abs(cells[:, np.newaxis] - self.forest.landmarks[:, k])
        return distance


def trees_with(forest: Forest, k: int) -> tuple[Forest, Array]:
    """Return the trees that split feature k, without a linear part, and the features they need."""
    tree = np.repeat(np.arange(len(forest.size)), forest.size)
    chosen = np.zeros(len(forest.size), dtype=bool)
    chosen[tree[forest.feature == k]] = True
    splits, leaves = chosen[tree], np.repeat(chosen, forest.size + 1)
    columns, feature = np.unique(forest.feature[splits], return_inverse=True)
    zero = np.zeros(len(columns))
    part = Forest(
        mean=zero,
        slope=zero,
        width=zero,
        landmarks=np.empty((0, len(columns))),
        similarity=np.empty(0),
        size=forest.size[chosen],
        feature=feature.astype(forest.feature.dtype),
        value=forest.value[splits],
        kind=forest.kind[splits],
        begin=forest.begin[splits],
        end=forest.end[splits],
        leaf=forest.leaf[leaves],
        words=forest.words,
    )
    return part, columns


def scores_of(X: Array, forest: Forest) -> Array:
    """Return the score of each row."""
    scores = np.empty((len(X), 1))  # as in `predict`, so that code is compiled once
    compiled.scores_of(frozen(np.ascontiguousarray(X)), forest, scores[:, 0])
    return scores[:, 0]
