"""The least and the greatest value of each parameter, and the values just beyond."""

import numpy as np
import pytest

from pril import (
    MPRIL,
    PRIL,
    KernelPRIL,
    LandmarkFeatures,
    OrderedBoosting,
    OrderedLogit,
    PolynomialMap,
    PredictionRanges,
    WidrowHoff,
)

TINY, MOST = 1e-9, 1 - 1e-9
LIMITS = {
    (PRIL, "max_iter"): ([1], [0, 1.5]),
    (PRIL, "half_life"): ([None, 0.01], [0.0099]),
    (PRIL, "tol"): ([None, 0, TINY], [-TINY]),
    (PRIL, "n_iter_no_change"): ([1], [0]),
    (MPRIL, "rate"): ([TINY], [0]),
    (WidrowHoff, "rate"): ([TINY], [0]),
    (KernelPRIL, "gamma"): ([None, 0, TINY], [-TINY]),
    (KernelPRIL, "degree"): ([0, 0.5], [-TINY]),
    (KernelPRIL, "coef0"): ([-1e9, 1e9], ["a"]),
    (KernelPRIL, "budget"): ([None, 1], [0]),
    (OrderedLogit, "rate"): ([TINY], [0]),
    (OrderedLogit, "cut_rate"): ([TINY], [0]),
    (OrderedLogit, "trust"): ([0, TINY], [-TINY]),
    (OrderedLogit, "noise"): ([0, TINY, 1], [-TINY, 1 + TINY]),
    (OrderedBoosting, "max_iter"): ([1], [0]),
    (OrderedBoosting, "learning_rate"): ([TINY], [0]),
    (OrderedBoosting, "max_leaf_nodes"): ([2, 65536], [1, 65537]),
    (OrderedBoosting, "min_samples_leaf"): ([1], [0]),
    (OrderedBoosting, "l2_regularization"): ([0, TINY], [-TINY]),
    (OrderedBoosting, "n_folds"): ([2, 127], [1, 128]),
    (OrderedBoosting, "n_iter_no_change"): ([1], [0]),
    (OrderedBoosting, "trust"): ([0, TINY], [-TINY]),
    (PolynomialMap, "degree"): ([1], [0]),
    (PolynomialMap, "gamma"): ([None, TINY], [0]),
    (PolynomialMap, "coef0"): ([0, TINY], [-TINY]),
    (LandmarkFeatures, "n_landmarks"): ([1], [0]),
    (LandmarkFeatures, "gamma"): ([None, TINY], [0]),
    (PredictionRanges, "coverage"): ([TINY, MOST], [0, 1]),
    (PredictionRanges, "calibration_size"): ([TINY, MOST], [0, 1]),
}


@pytest.mark.parametrize(("cls", "name"), LIMITS)
def test_limits(cls, name):
    """There are no rows to learn, which a call finds out if its parameters are right."""
    needed = [PRIL()] if cls is PredictionRanges else []
    for refused, values in enumerate(LIMITS[cls, name]):
        for value in values:
            wrong = f"The '{name}' parameter of {cls.__name__} must be"
            with pytest.raises(ValueError, match=wrong if refused else "0 sample|every label"):
                cls(*needed, **{name: value}).fit(np.empty((0, 1)), [])
