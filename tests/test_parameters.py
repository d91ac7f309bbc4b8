"""Parameters: the outermost values that are allowed work, and those just beyond are refused."""

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
LIMITS = {  # the values that must work, and those that must not
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
    (PredictionRanges, "calibration_size"): ([0.01, 0.99], [0, 1]),
}
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (130, 2))
Y = np.digitize(X @ [1.0, -1.0], [-0.5, 0.5])


@pytest.mark.parametrize(("cls", "name"), LIMITS)
@pytest.mark.filterwarnings("ignore:every range is the full scale")
def test_limits(cls, name):
    needed = [PRIL()] if cls is PredictionRanges else []
    fixed = {"max_iter": 2, "n_folds": 2} if cls is OrderedBoosting else {}
    fixed |= {"tol": 0.1} if name == "n_iter_no_change" and cls is PRIL else {}
    fixed |= {"kernel": "poly"} if name in ("degree", "coef0") and cls is KernelPRIL else {}
    allowed, refused = LIMITS[cls, name]
    for value in allowed:
        model = cls(*needed, **{**fixed, name: value}).fit(X, Y)
        if hasattr(model, "transform"):
            assert np.isfinite(model.transform(X)).all()
        else:
            assert np.isin(model.predict(X), [0, 1, 2]).all()
            assert not hasattr(model, "latent") or np.isfinite(model.latent(X)).all()
    for value in refused:
        model = cls(*needed, **{**fixed, name: value})
        with pytest.raises(ValueError, match=f"The '{name}' parameter of {cls.__name__} must be"):
            model.fit(X, Y)
        assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize("cls", [PRIL, MPRIL, WidrowHoff, OrderedLogit, KernelPRIL])
def test_an_argument_that_a_learner_lacks_is_told_by_its_name(cls):
    with pytest.raises(TypeError, match=rf"{cls.__name__}.__init__\(\) got an unexpected keyword"):
        cls(loud=1)
