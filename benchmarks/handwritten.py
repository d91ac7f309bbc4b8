"""A PRIL loop for dense float64 rows without averaging only, to compare the general loop with."""

import numpy as np
from numba import njit


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _pril(X, intervals, w, cut):
    mistakes = 0
    for t in range(X.shape[0]):
        f = 0.0
        for j in range(X.shape[1]):
            f += X[t, j] * w[j]
        lo = intervals[t, 0]
        hi = intervals[t, 1] + 1
        if (cut[lo] < f) & (f < cut[hi]):
            continue
        mistakes += 1
        alpha = 0.0
        while f <= cut[lo]:
            cut[lo] -= 1.0
            lo -= 1
            alpha += 1.0
        while f >= cut[hi]:
            cut[hi] += 1.0
            hi += 1
            alpha -= 1.0
        for j in range(X.shape[1]):
            w[j] += alpha * X[t, j]
    return mistakes


def pril(X, intervals, n_classes):
    """Return weights and thresholds after one pass."""
    w, cut = np.zeros(X.shape[1]), np.zeros(n_classes + 1)
    cut[0], cut[-1] = -np.inf, np.inf
    _pril(X, intervals, w, cut)
    return w, cut[1:-1]
