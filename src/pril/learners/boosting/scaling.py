"""Features that are too small for linear models, in larger units."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core.rows import batches
from pril.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

LARGEST = 1e150  # sums of squares stay finite
LEAST = 2.0**-1000  # of the largest value of a feature: a weight can be its inverse
SMALL = 1e-35  # squares of what is smaller are soon 0
WANTED = {np.dtype(np.float64): 400, np.dtype(np.float32): 100}  # exponent of the largest value


def scaled(X: Array, names: Array | None) -> tuple[Array, Array]:
    """Multiply features with very small values by powers of two, which is exact.

    Returns the features, a copy only if some are multiplied, and the exponent of each.
    """
    exponents, is_small = np.zeros(X.shape[1], dtype=np.int64), np.zeros(X.shape[1], dtype=bool)
    for batch in batches(len(X), 1 << 13):
        size = np.abs(X[batch])
        is_small |= ((size > 0.0) & (size < SMALL)).any(axis=0)
    if not is_small.any():
        return X, exponents
    X = X.copy()
    for k in np.flatnonzero(is_small):
        largest = np.fmax.reduce(np.abs(X[:, k]))
        if largest < LEAST:
            name = k if names is None else repr(names[k])
            reason = f"no value of feature {name} is larger than {largest}"
            raise InputError(f"X: {reason}, too small to learn from: multiply the column")
        exponents[k] = WANTED[X.dtype] - np.frexp(largest)[1]
        X[:, k] = np.ldexp(X[:, k], exponents[k])
    return X, exponents


def unscaled(forest: dict[str, Array], exponents: Array) -> dict[str, Array]:
    """Return linear parts learned from scaled features as parts for the features themselves."""
    return forest | {
        "mean": np.ldexp(forest["mean"], -exponents),
        "slope": np.ldexp(forest["slope"], exponents),
        "width": np.ldexp(forest["width"], exponents),
    }
