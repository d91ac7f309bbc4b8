"""The ordered logit: ``P(y <= i) = 1 / (1 + exp(f - theta_i))`` for a score f and thresholds theta.

Thresholds are given as `cut`, between two sentinels: class y is between ``cut[y]``, which is
-infinity for the lowest, and ``cut[y + 1]``, which is infinity for the highest. Its probability is

    ``P(y) = sigma(cut[y + 1] - f) - sigma(cut[y] - f)``,  sigma(z) = 1 / (1 + exp(-z))

which is written here in three ways, for all learners. Files for ONNX have the second one.

- `sides` and `between`, compiled: one exponential for each threshold, none that overflows.
- ``sigma(cut[y + 1] - f) sigma(f - cut[y]) (1 - exp(cut[y] - cut[y + 1]))``, in NumPy: a product,
  so that logarithms are exact in the tails too.
- `odds_of`, `exp_of` and `write_chances`, compiled: one exponential for each row, for boosting. A
  probability is a difference, with an absolute error of some 1e-16.
"""

from __future__ import annotations

from math import exp
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit, log_expit

from pril.core.compiling import as_numpy, part_of_loop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# --- One threshold at a time, compiled ---


@part_of_loop
def sides(score, threshold):
    """Return the chances that the class lies above a threshold, and below it."""
    distance = threshold - score
    small = exp(-abs(distance))
    large = 1.0 / (1.0 + small)
    small *= large
    return (small, large) if distance > 0.0 else (large, small)


@part_of_loop
def between(above, below, next_above, next_below):
    """Return the chance of the class between two thresholds: the difference of small numbers."""
    return above - next_above if above <= 0.5 else next_below - below


# --- All rows at once, in NumPy ---


def at_most(scores: Array, thresholds: Array) -> Array:
    """Return P(y <= i) for a column of scores and a row of thresholds."""
    chances: Array = expit(thresholds - scores)
    return chances


def log_probabilities(scores: Array, cut: Array, widths: Array | None = None) -> Array:
    """Return log P(y) for a column of scores and thresholds with sentinels, or a row for each.

    `widths` is what `log_widths` returns for the thresholds, if it is known.
    """
    low, high = cut[..., :-1] - scores, cut[..., 1:] - scores
    if widths is None:
        widths = log_widths(cut)
    logs: Array = log_expit(high) + log_expit(-low) + widths
    return logs


def log_widths(cut: Array) -> Array:
    """Return the part of log P(y) that depends on the thresholds alone."""
    with np.errstate(divide="ignore"):  # two equal thresholds leave a class without probability
        widths: Array = np.log(-np.expm1(cut[..., :-1] - cut[..., 1:]))
    return widths


# --- One exponential a row, compiled ---
# With E = exp(f) and odds_k = exp(-cut[k]), P(y < k) is 1 / (1 + E odds_k).

FARTHEST = 300.0  # scores and thresholds beyond it are as good as infinite; exp(600) is finite
LEAST = 1e-12  # the least probability of a class


def odds_of(theta: Array) -> Array:
    """Return the odds of thresholds, in ascending order, between those of two sentinels."""
    cut = np.concatenate([[-np.inf], np.clip(theta, -FARTHEST, FARTHEST), [np.inf]])
    odds: Array = np.exp(-cut)
    return odds


def exp_of(scores: Array) -> Array:
    """Return E of scores. NumPy computes many exponentials ten times faster than one by one."""
    e: Array = np.clip(scores, -FARTHEST, FARTHEST, dtype=np.float64)
    return np.exp(e, out=e)


@as_numpy
def write_chances(e, odds, lo, hi, below, p):
    """Write P(y < k) for k in lo..hi+1 to below, and P(y) for y in lo..hi to p."""
    below[lo] = 1.0 / (1.0 + e * odds[lo])
    for y in range(lo, hi + 1):
        below[y + 1] = 1.0 / (1.0 + e * odds[y + 1])
        p[y] = max(below[y + 1] - below[y], LEAST)
