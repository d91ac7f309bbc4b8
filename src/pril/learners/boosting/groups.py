"""Folds that keep rows of one group together."""

from __future__ import annotations

from heapq import heapify, heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core.label_values import is_missing
from pril.errors import InputError, InputTypeError, RowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def read_groups(groups: Any, n: int) -> Array:
    """Return a number for the group of each of n rows, from 0 on."""
    values = np.asarray(groups)
    if values.shape != (n,):
        raise InputError(
            f"groups has the shape {values.shape}, but X has {n} rows: give the group of each row"
        )
    numbers: dict[Any, int] = {}
    found = np.empty(n, dtype=np.int64)
    for row, value in enumerate(values.tolist()):
        if is_missing(value):
            raise RowError("groups", row, "is missing; a row without a group can be one of its own")
        try:
            found[row] = numbers.setdefault(value, len(numbers))
        except TypeError:
            kind = type(value).__name__
            raise InputTypeError(f"groups, row {row}: a {kind} cannot name a group") from None
    return found


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
