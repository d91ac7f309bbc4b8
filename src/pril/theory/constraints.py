"""A stream of intervals, and the constraints that they put on a model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from pril.core import ranking
from pril.core.rows import check_cells
from pril.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Constraints(NamedTuple):
    """Rows and their constraints: signs[t, i] is z_i of row t, 0 where there is no constraint."""

    X: Array
    signs: Array
    classes: Array
    intervals: Array

    @property
    def radius(self) -> float:
        """The length of the longest row."""
        return float(np.sqrt((self.X * self.X).sum(axis=1).max()))

    @property
    def min_width(self) -> int:
        """The least number of thresholds inside an interval."""
        return int((self.intervals[:, 1] - self.intervals[:, 0]).min())

    @property
    def y(self) -> Array:
        """The labels, as lower and upper ends."""
        return self.classes[self.intervals]

    def margins(self, w: Array, theta: Array) -> Array:
        """Return z_i (w . x_t - theta_i), infinite where there is no constraint."""
        signed = self.signs * ((self.X @ w)[:, np.newaxis] - theta)
        return np.where(self.signs == 0, np.inf, signed)


def read_constraints(X: Any, y: Any, classes: Any) -> Constraints:
    """Return the constraints of the rows that have a label."""
    check_cells(X)
    X = check_array(X, dtype=np.float64)
    order, intervals = ranking.encode(ranking.read(y), classes)
    ranking.check_length(intervals, X)
    labelled = ranking.is_labelled(intervals)  # the others are not learned from
    if not labelled.any():
        raise InputError("y has no label in any row: there is nothing to analyse")
    X, intervals = X[labelled], intervals[labelled]
    i = np.arange(len(order) - 1)
    signs = (i < intervals[:, :1]).astype(np.int64) - (i >= intervals[:, 1:])
    return Constraints(X, signs, order, intervals)
