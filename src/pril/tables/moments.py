"""Count, mean, spread and range of columns of numbers, added up batch by batch."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pril.core.arrays import Array


class Moments(NamedTuple):
    """Sums over columns of numbers: each field is an array with one entry for each column."""

    count: Any
    mean: Any
    squares: Any  # the sum of squared distances from the mean
    low: Any
    high: Any

    @classmethod
    def of(cls, cells: Array) -> Moments:
        """Return the moments of columns, which are the rows of a matrix; NaN is a missing value."""
        missing = np.isnan(cells)
        count = cells.shape[1] - missing.sum(axis=1, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(missing, 0.0, cells).sum(axis=1) / np.maximum(count, 1.0)
            distance = np.where(missing, 0.0, cells - mean[:, np.newaxis])
            squares = np.square(distance, out=distance).sum(axis=1)
        low = np.fmin.reduce(cells, 1, initial=np.inf)
        return cls(count, mean, squares, low, np.fmax.reduce(cells, 1, initial=-np.inf))

    def joined(self, more: Moments) -> Moments:
        """Return the moments of these rows and other ones (Chan, Golub and LeVeque).

        StandardScaler.partial_fit would do this, but it is several times slower, and after a batch
        in which a column has no value it leaves the variance NaN for good.
        """
        count = self.count + more.count
        share = more.count / np.maximum(count, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            step = more.mean - self.mean
            return Moments(
                count=count,
                mean=self.mean + step * share,
                squares=self.squares + more.squares + step**2 * self.count * share,
                low=np.minimum(self.low, more.low),
                high=np.maximum(self.high, more.high),
            )

    def scales(self, *, bounded: bool) -> Array:
        """Return what to divide each column by, 1 where it is constant."""
        if bounded:
            scale = np.maximum(self.high - self.mean, self.mean - self.low)
        else:
            scale = np.sqrt(self.squares / np.maximum(self.count, 1.0))
        # The deviation of a constant is rounding error; scikit-learn has the same limit.
        noise = np.sqrt(self.count) * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(scale > noise, scale, 1.0)
