"""How much each feature adds to the score of a row: Shapley values of the whole score."""

from __future__ import annotations

from typing import Any

import numpy as np

from pril.core.arrays import Array
from pril.core.rows import batches, frozen
from pril.errors import InputError
from pril.learners.boosting import compiled, shapley
from pril.learners.boosting.compiled import Forest

BACKGROUND_ROWS, BACKGROUND_CELLS = 100, 1 << 18  # of wide tables, fewer rows: files stay small
MOST_STEPS = 200_000_000  # of importances: landmarks, times background, times rows
MOST_CELLS = 1 << 21  # of rows that are explained at once
MOST_NODES = 32  # of a quadrature


def background_size(n_features: int) -> int:
    """Return how many rows to keep at most, to which others are compared."""
    return min(BACKGROUND_ROWS, max(2, BACKGROUND_CELLS // n_features))


def contributions(X: Array, forest: Forest, background: Array) -> Array:
    """Return for each row what each feature adds to the score, and in the last column the base.

    The base is the mean score of the background.
    """
    X, n_features = np.asarray(X, dtype=np.float64), X.shape[1]
    found = np.zeros((len(X), n_features + 1))
    found[:, -1] = scores_of(background, forest).mean()
    own, other = (
        np.where(np.isnan(rows), 0.0, rows - forest.mean) * forest.slope for rows in (X, background)
    )
    found[:, :-1] = own - other.mean(axis=0)
    del own
    size = max(16, MOST_CELLS // n_features - len(background))
    for batch in batches(len(X), size):
        n, rows = batch.stop - batch.start, np.vstack([X[batch], background])
        found[batch, :-1] += _of_trees(rows, n, forest)
        found[batch, :-1] += _of_landmarks(rows, n, forest)
    return found


def _of_trees(rows: Array, n: int, forest: Forest) -> Array:
    """Return what trees add for the first n rows; the others are the background."""
    used, feature = np.unique(forest.feature, return_inverse=True)
    cells = np.ascontiguousarray(rows[:, used].T)
    part, found = np.zeros((n, len(used))), np.zeros((n, rows.shape[1]))
    feature = feature.astype(forest.feature.dtype)
    shapley.add_trees(cells, n, forest._replace(feature=feature), part)
    found[:, used] = part
    return found


def _of_landmarks(rows: Array, n: int, forest: Forest) -> Array:
    """Return what landmarks add for the first n rows; the others are the background."""
    found = np.zeros((n, rows.shape[1]))
    used = np.flatnonzero(forest.width)
    if len(used) == 0 or not forest.similarity.any():
        return found
    centred = rows[:, used] - forest.mean[used]
    scaled = np.where(np.isnan(centred), 0.0, centred) * forest.width[used]
    n_nodes = _nodes_needed(scaled[:n], scaled[n:])
    every, weights = np.zeros((2, n_nodes.max() + 1, n_nodes.max()))
    for q in np.unique(n_nodes):
        nodes, lengths = np.polynomial.legendre.leggauss(q)  # of the interval from -1 to 1
        every[q, :q], weights[q, :q] = (nodes + 1.0) / 2.0, lengths / 2.0
    landmarks, part = np.ascontiguousarray(forest.landmarks[:, used]), np.zeros((n, len(used)))
    cells = np.ascontiguousarray(scaled.T)
    shapley.add_landmarks(cells, n, landmarks, forest.similarity, n_nodes, every, weights, part)
    found[:, used] = part
    return found


def _nodes_needed(rows: Array, background: Array) -> Array:
    """Return how many nodes the quadrature takes for each row to be exact, or as good.

    In t, a product of d linear functions is a polynomial: d / 2 nodes are exact. It lies between
    exp(-distance t) and exp(distance t), of which 4 + distance nodes leave an error below 1e-12.
    """
    farthest = np.zeros(len(rows))
    for other in background:
        np.maximum(farthest, np.abs(rows - other).sum(axis=1), out=farthest)
    most = min(MOST_NODES, (rows.shape[1] + 1) // 2)
    return np.minimum(4.0 + np.ceil(farthest), most).astype(np.int64)


def importances(forest: Forest, background: Array) -> Array:
    """Return the mean size of the background's contributions, as shares.

    They are zeros if no feature adds anything.
    """
    steps = 6 * forest.landmarks.size * len(background)  # of a row, which takes about six nodes
    some = background[: max(2, MOST_STEPS // max(steps, 1))]
    sizes = np.abs(contributions(some, forest, background)[:, :-1]).mean(axis=0)
    return sizes / (sizes.sum() or 1.0)


def check_background(background: Array, forest: Forest, categories: dict[str, list[Any]]) -> None:
    """Refuse rows with a category that is not known, since compiled code trusts them.

    Refuse a forest whose scores of these rows overflow, too: it has learned from them.
    """
    for k, values in categories.items():
        codes = background[:, int(k)]
        if not (np.isnan(codes) | np.isin(codes, np.arange(len(values)))).all():
            raise InputError(f"the model is damaged: background has unknown categories of {k}")
    if len(background) == 0:
        raise InputError("the model is damaged: background has no row")
    total = 0.0
    with np.errstate(over="ignore"):
        largest = np.nan_to_num(np.abs(background - forest.mean)).max(axis=0)
        for names, sizes in {
            "mean and forest.slope": largest * np.abs(forest.slope),
            "similarity": np.abs(forest.similarity),
            "leaf": np.abs(forest.leaf),
        }.items():
            total += float(sizes.sum())
            if not np.isfinite(total):
                raise InputError(f"the model is damaged: forest.{names} make scores overflow")


def scores_of(X: Array, forest: Forest) -> Array:
    """Return the score of each row."""
    scores = np.empty((len(X), 1))  # as in `predict`, so that code is compiled once
    compiled.scores_of(frozen(np.ascontiguousarray(X)), forest, scores[:, 0])
    return scores[:, 0]
