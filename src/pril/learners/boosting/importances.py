"""How much each feature moves the score, counting the linear part and the trees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core.rows import frozen
from pril.learners.boosting import passes
from pril.learners.boosting.passes import Forest

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MOST_ROWS, MOST_CELLS = 1000, 1 << 22  # of the sample


def importances(X: Array, forest: Forest) -> Array:
    """Return the share of each feature in the movement of the score; zeros if it never moves.

    A feature moves the score by the mean size of the change if each row of a sample is given the
    feature's value of another row.
    """
    n = min(len(X), MOST_ROWS, max(2, MOST_CELLS // X.shape[1]))
    # In random order, so that the row before is any other row.
    rows = X[np.random.default_rng(0).choice(len(X), n, replace=False)].astype(np.float64)
    linear = np.where(np.isnan(rows), 0.0, rows - forest.mean) * forest.slope
    moved = np.abs(np.roll(linear, 1, axis=0) - linear).mean(axis=0)
    for k in np.unique(forest.feature):
        part, columns = trees_with(forest, k)
        own = rows[:, columns]
        other = np.where(columns == k, np.roll(own, 1, axis=0), own)
        moved[k] = np.abs(scores_of(other, part) - scores_of(own, part)).mean()
    shares: Array = moved / (moved.sum() or 1.0)
    return shares


def trees_with(forest: Forest, k: int) -> tuple[Forest, Array]:
    """Return the trees that split feature k with its linear part, and the features they need."""
    tree = np.repeat(np.arange(len(forest.size)), forest.size)
    chosen = np.zeros(len(forest.size), dtype=bool)
    chosen[tree[forest.feature == k]] = True
    splits, leaves = chosen[tree], np.repeat(chosen, forest.size + 1)
    columns, feature = np.unique(forest.feature[splits], return_inverse=True)
    part = Forest(
        mean=forest.mean[columns],
        slope=np.where(columns == k, forest.slope[columns], 0.0),
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
    passes.scores_of(frozen(np.ascontiguousarray(X)), forest, scores[:, 0])
    return scores[:, 0]
