"""The ordered logit: ``P(y <= i) = 1 / (1 + exp(f - theta_i))`` for a score f and thresholds theta.

Thresholds are given as `cut`, between two sentinels: class y is between ``cut[y]``, which is
-infinity for the lowest, and ``cut[y + 1]``, which is infinity for the highest. Its probability is

    ``P(y) = sigma(cut[y + 1] - f) - sigma(cut[y] - f)``,  sigma(z) = 1 / (1 + exp(-z))

which is written in three ways. Files for ONNX have the second one.

- `loop.sides` and `loop.between`, compiled, and `rating.chances` for many rows: one exponential
  for each threshold, none that overflows.
- ``sigma(cut[y + 1] - f) sigma(f - cut[y]) (1 - exp(cut[y] - cut[y + 1]))``, here: a product, so
  that logarithms are exact in the tails too.
- `odds_of` and `exp_of`, here, and `compiled.write_chances`, for boosting: one exponential for each
  row. A probability is a difference, with an absolute error of some 1e-16.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, log_expit

from pril.core.arrays import Array

# --- Logarithms ---


def at_most(scores: Array, thresholds: Array) -> Array:
    """Return P(y <= i) for a column of scores and a row of thresholds."""
    return expit(thresholds - scores)


def log_probabilities(scores: Array, cut: Array, widths: Array | None = None) -> Array:
    """Return log P(y) for a column of scores and thresholds with sentinels, or a row for each.

    `widths` is what `log_widths` returns for the thresholds, if it is known.
    """
    low, high = cut[..., :-1] - scores, cut[..., 1:] - scores
    if widths is None:
        widths = log_widths(cut)
    return log_expit(high) + log_expit(-low) + widths


def log_widths(cut: Array) -> Array:
    """Return the part of log P(y) that depends on the thresholds alone."""
    with np.errstate(divide="ignore"):  # two equal thresholds leave a class without probability
        widths: Array = np.log(-np.expm1(cut[..., :-1] - cut[..., 1:]))
    return widths


# --- One exponential a row ---
# With E = exp(f) and odds_k = exp(-cut[k]), P(y < k) is 1 / (1 + E odds_k).

FARTHEST = 300.0  # scores and thresholds beyond it are as good as infinite; exp(600) is finite


def odds_of(theta: Array) -> Array:
    """Return the odds of thresholds, in ascending order, between those of two sentinels."""
    cut = np.concatenate([[-np.inf], np.clip(theta, -FARTHEST, FARTHEST), [np.inf]])
    return np.exp(-cut)


def exp_of(scores: Array) -> Array:
    """Return E of scores. NumPy computes many exponentials ten times faster than one by one."""
    e: Array = np.clip(scores, -FARTHEST, FARTHEST, dtype=np.float64)
    return np.exp(e, out=e)
