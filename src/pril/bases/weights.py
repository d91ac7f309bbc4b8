"""Weights of rows, of classes and of labels; weighted means."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.rows import check_cells
from pril.errors import InputError, RowError, shown
from pril.labels import ranking

# The largest weight of a row; the smallest is its inverse. Squares of weights stay finite.
MOST_WEIGHT = 1e100


def read_weights(sample_weight: ArrayLike, n: int) -> Array:
    """Return the weights of n rows, each of them finite and not negative."""
    check_cells(sample_weight, "sample_weight")
    try:
        weights = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"sample_weight must be a 1d array of numbers: {error}") from None
    if weights.ndim == 0:
        weights = np.full(n, weights)
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}, expected ({n},)")
    good = np.isfinite(weights) & (weights >= 0.0)
    if not good.all():
        t = int(np.argmin(good))
        reason = f"{weights[t].item()} is not a weight: it must be finite, not missing or negative"
        raise RowError("sample_weight", t, reason)
    extreme = (weights > MOST_WEIGHT) | ((weights > 0.0) & (weights < 1.0 / MOST_WEIGHT))
    if extreme.any():
        t = int(np.argmax(extreme))
        reason = f"{weights[t].item()} is too {'large' if weights[t] > 1.0 else 'small'}: weights"
        raise RowError("sample_weight", t, f"{reason} must be 0, or within 1e-100 and 1e100")
    return weights


def mean_over_rows(
    values: Array,
    labelled: Array,
    sample_weight: ArrayLike | None,
    *,
    name: str = "y_true",
    kind: str = "a label",
) -> float:
    """Return the weighted mean of one value a row, over the rows that have a label."""
    if not labelled.any():
        raise InputError(f"{name} has no row with {kind}, and a mean needs at least one")
    if sample_weight is None:
        return float(values[labelled].mean())
    weights = read_weights(sample_weight, len(values))
    if not weights[labelled].any():
        raise InputError(f"sample_weight is zero for every row of {name} with {kind}")
    return float(np.average(values[labelled].astype(np.float64), weights=weights[labelled]))


def class_weights(
    class_weight: dict[Any, Any] | str | None, order: Array, intervals: Any, counts: ArrayLike = 1.0
) -> Array | None:
    """Return the weight of each class, lowest first; None if all classes weigh the same.

    The balanced weights are scikit-learn's, with a range counted in equal parts for its classes.
    `counts` is how often each interval occurs.
    """
    if class_weight is None:
        return None
    if isinstance(class_weight, str):
        is_labelled = ranking.is_labelled(intervals)
        kinds, kind = Kinds.of(intervals[is_labelled], len(order))
        rows = np.bincount(kind, np.broadcast_to(counts, len(intervals))[is_labelled])
        shares = kinds.evenly(rows)
        seen = shares > 1e-9  # a class without rows weighs 1: nothing has its weight
        mean = rows.sum() / len(order)
        return np.where(seen, mean / np.where(seen, shares, 1.0), 1.0)
    labels = [ranking.plain(label) for label in order]
    for label, weight in class_weight.items():
        if label not in labels:
            named = ranking.named(order)
            raise InputError(f"class_weight: {shown(label)} is not one of the classes {named}")
        if not isinstance(weight, Real) or not 0.0 <= float(weight) <= MOST_WEIGHT:
            raise InputError(
                f"class_weight: the weight of {shown(label)} must be a number from 0 on, got "
                f"{shown(weight)}"
            )
    return np.array([float(class_weight.get(label, 1.0)) for label in labels])


def label_weights(weights: Array, intervals: Array) -> Array:
    """Return the weight of each label: the mean of its classes' weights, 1 without a label."""
    labelled = ranking.is_labelled(intervals)
    lo, hi = np.where(labelled[:, np.newaxis], intervals, 0).T
    sums = np.concatenate([[0.0], np.cumsum(weights)])
    mean = np.where(lo == hi, weights[lo], (sums[hi + 1] - sums[lo]) / (hi - lo + 1))
    return np.where(labelled, mean, 1.0)
