"""From rows to scores, ranks and probabilities, in NumPy: nothing is compiled to predict.

A row has the same score, bit for bit, in whatever batch it is, and in a stream
(`loop_types.Cells`). The loop adds up in another order: the score that it records before it learns
a row may differ in the last bit. Ties are decided as in the loop.

The ordered logit: ``P(y <= i) = 1 / (1 + exp(f - theta_i))`` for a score f and thresholds theta.

Thresholds are given as `cut`, between two sentinels: class y is between ``cut[y]``, which is
-infinity for the lowest, and ``cut[y + 1]``, which is infinity for the highest. Its probability is

    ``P(y) = sigma(cut[y + 1] - f) - sigma(cut[y] - f)``,  sigma(z) = 1 / (1 + exp(-z))

which is written in three ways. Files for ONNX have the second one.

- `loop.sides` and `loop.between`, compiled, and `links.Logit.likeliest` for many rows: one
  exponential for each threshold, none that overflows.
- ``sigma(cut[y + 1] - f) sigma(f - cut[y]) (1 - exp(cut[y] - cut[y + 1]))``: a product, so
  that logarithms are exact in the tails too, see `links.Logit`.
- `odds_of` and `exp_of`, with which `learners.boosting.compiled` needs one exponential for each
  row.
"""

from __future__ import annotations

from itertools import accumulate
from math import inf
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array

from pril.core import loop_types as types
from pril.core.arrays import Array, named
from pril.core.loop_types import Csr, Rows
from pril.core.rows import batches, check_cells, n_rows
from pril.errors import InputError, InputTypeError, RowError, refusing

if TYPE_CHECKING:
    from pril.links import Link

# How much is rated at once, and stays in the processor's cache.
CELLS = 1 << 18  # of X
BATCH = 1 << 13  # scores
# Counting thresholds is faster than a binary search, unless there are many or few scores.
MANY_THRESHOLDS, FEW_SCORES = 32, 64


class Ratings(NamedTuple):
    """Ranks and scores of some rows."""

    rank: Array  # (n,)
    scores: Array  # (n, scores)
    cut: Array  # (K + 1,), the thresholds between two infinities, on the scale of the scores


# --- From a state to a model ---------------------------------------------------------------------


def predicting(geometry: types.Geometry, state: types.State) -> tuple[Array, Array, float]:
    """Return the weights and thresholds that predict, those of the mean where there is one.

    Thresholds are between two sentinels. The third is what divides both when they are reported.
    """
    w, n, shift = state.u, state.n, float(state.shift[0])
    if len(state.mean_u) and state.clock[0] > 0.0:
        w, n = w - state.mean_u / state.clock[0], n - state.mean_n / state.clock[0]
    unit = 1.0
    thresholds = [-tau for tau in n.tolist()]
    if isinstance(geometry, types.FixedThresholds):
        thresholds = [i + 1.5 for i in range(len(n))]
    elif isinstance(geometry, types.Curved):
        sums = state.u[0, :-1].tolist()
        w = np.array([[*(types.curved(geometry, u, shift) for u in sums), 0.0]])
        unit = 0.0
        for exponent in (*sums, *thresholds):
            unit += types.positive_part(geometry, exponent, shift)
        thresholds = [types.curved(geometry, tau, shift) for tau in thresholds]
    # A mean of ordered thresholds may be out of order in the last bit.
    cut = np.array([*accumulate([-inf, *thresholds], max), inf])
    return w, cut, unit


def common_shift(geometry: types.Geometry, state: types.State) -> float:
    """Return the common shift of exponents for a state that was set, not learned."""
    if not isinstance(geometry, types.Curved):
        return 0.0
    exponents = geometry.rate * np.concatenate([state.u[0, :-1], -state.n])
    return float((np.abs(exponents) if geometry.signed else exponents).max(initial=-inf))


# --- From rows to scores and ranks ---------------------------------------------------------------


def scores_of(rows: Rows, w: Array) -> tuple[Array, int]:
    """Return the scores of rows, a column for each row of weights, and the first row that is bad.

    It is -1 if all scores are finite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        scores = _products(rows, w)
        if rows.constant:
            scores += rows.constant * w[:, -1]
        if np.isfinite(scores.sum()):
            return scores, -1
    finite = np.isfinite(scores).all(axis=1)
    return scores, -1 if finite.all() else int(np.argmin(finite))


def _products(rows: Rows, w: Array) -> Array:
    n, n_features = n_rows(rows), w.shape[1] - 1
    if isinstance(rows, Csr):
        X = csr_array((rows.data, rows.indices, rows.indptr), shape=(n, n_features))
        return (X @ w[:, :-1].T).reshape(n, len(w))
    products = np.empty((len(w), n)).T
    size = max(1, CELLS // n_features)
    as_float64 = np.empty((0 if rows.X.dtype == np.float64 else min(n, size), n_features))
    for batch in batches(n, size):
        X = rows.X[batch]
        if len(as_float64):
            as_float64[: len(X)] = X
            X = as_float64[: len(X)]
        for k, weights in enumerate(w[:, :-1]):
            # A product of matrices would round a row by its place in the batch.
            np.vecdot(X, weights, out=products[batch, k])
    return products


def ranks_of(rule: types.Rule, scores: Array, cut: Array, link: Link) -> Array:
    """Return the ranks that a rule reads from scores, one row each."""
    ranks = np.empty(len(scores), dtype=np.int64)
    for batch in batches(len(scores), BATCH):
        if isinstance(rule, types.Multiclass):
            ranks[batch] = scores[batch].argmax(axis=1)
        elif isinstance(rule, types.Likelihood) and rule.mode:
            ranks[batch] = link.likeliest(scores[batch], cut)
        else:
            ranks[batch] = count_below(scores[batch, 0], cut[1:-1])
    return ranks


def count_below(scores: Array, thresholds: Array) -> Array:
    """Return the number of thresholds at or below each score."""
    if len(thresholds) > MANY_THRESHOLDS or len(scores) < FEW_SCORES:
        return thresholds.searchsorted(scores, side="right")
    counts = np.zeros(len(scores), dtype=np.int8)
    for threshold in thresholds:
        counts += (scores >= threshold).view(np.int8)
    return counts


# --- Probabilities: one exponential a row --------------------------------------------------------
# With E = exp(f) and odds_k = exp(-cut[k]), P(y < k) is 1 / (1 + E odds_k).

MAX_SCORE = 300.0  # scores and thresholds beyond it are as good as infinite; exp(600) is finite


def odds_of(theta: Array) -> Array:
    """Return the odds of thresholds, in ascending order, between those of two sentinels."""
    cut = np.concatenate([[-np.inf], np.clip(theta, -MAX_SCORE, MAX_SCORE), [np.inf]])
    return np.exp(-cut)


def exp_of(scores: Array) -> Array:
    """Return E of scores. NumPy computes many exponentials ten times faster than one by one."""
    e: Array = np.clip(scores, -MAX_SCORE, MAX_SCORE, dtype=np.float64)
    return np.exp(e, out=e)


def read_probabilities(P: ArrayLike, name: str, n_classes: int, hint: str = "") -> Array:
    """Return probabilities of classes as floats, a row each; refuse what is none."""
    check_cells(P, name)
    with refusing():
        proba = np.asarray(P)
    if proba.dtype.kind not in "biuf":
        raise InputTypeError(f"{name} must hold numbers, got {proba.dtype}")
    if proba.dtype.kind != "f":
        proba = proba.astype(np.float64)
    if proba.ndim != 2 or proba.shape[1] != n_classes:
        raise InputError(
            f"{name} must have a column for each of the {n_classes} classes, got shape "
            f"{proba.shape}{hint}"
        )
    rounding = np.sqrt(np.finfo(proba.dtype).eps)
    good = (proba >= -rounding).all(axis=1) & (np.abs(proba.sum(axis=1) - 1.0) <= rounding)
    if not good.all():
        t = int(np.argmin(good))
        raise RowError(name, t, f"{named(proba[t])} are not probabilities that add up to 1")
    return proba
