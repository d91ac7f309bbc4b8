"""Folds that keep rows of one group together."""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


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
    found: Array = fold_of[groups]
    return found
