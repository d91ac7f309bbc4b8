"""How good the defaults are: against an ordinal logistic regression that sees every exact label."""

import os
from pathlib import Path

import numpy as np
import pytest
from mord import LogisticAT
from sklearn.datasets import load_diabetes
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import PRIL, LandmarkFeatures, OrderedBoosting, OrderedLogit
from pril.labels import make_intervals

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:scipy.optimize"),  # mord's solver options
]


def abalone():
    path = Path(os.environ.get("PRIL_DATA", ""), "abalone.data")
    if not path.is_file():
        pytest.skip("abalone.data is not in the folder PRIL_DATA")
    raw = np.genfromtxt(path, delimiter=",", dtype=str)
    sex = (raw[:, :1] == ["M", "F", "I"]).astype(float)
    return np.hstack([sex, raw[:, 1:8].astype(float)]), np.digitize(
        raw[:, 8].astype(int), [8, 10, 13]
    )


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return X, np.digitize(y, np.quantile(y, [0.2, 0.4, 0.6, 0.8]))


def cross_validated_error(model, X, y, labels_of, repeats):
    errors = []
    for seed in range(repeats):
        for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
            model.fit(X[train], labels_of(y[train], seed))
            errors.append(np.abs(model.predict(X[test]) - y[test]).mean())
    return np.mean(errors)


def linear(classes):
    return PRIL(classes=classes, random_state=0)


def curved(classes):
    landmarks = LandmarkFeatures(random_state=0)
    return make_pipeline(landmarks, OrderedLogit(classes=classes, alpha=3.0))  # as the guide says


def boosted(classes):
    pytest.importorskip("lightgbm")
    return OrderedBoosting(classes=classes, random_state=0)


@pytest.mark.parametrize(
    ("data", "learner", "repeats", "allowed"),
    [
        (abalone, linear, 3, (1.06, 1.06)),
        (diabetes, linear, 3, (1.06, 1.06)),
        (abalone, curved, 1, (0.97, 0.98)),
        (abalone, boosted, 1, (0.97, 0.96)),
    ],
)
@pytest.mark.parametrize("kind", [1, 2])
def test_ranges_cost_little_against_exact_labels(data, learner, repeats, allowed, kind):
    X, y = data()
    classes = np.unique(y)
    ranges = cross_validated_error(
        make_pipeline(StandardScaler(), learner(classes)), X, y,
        lambda y, seed: make_intervals(y, kind, 0.75, classes=classes, random_state=seed), repeats,
    )  # fmt: skip
    exact = cross_validated_error(
        make_pipeline(StandardScaler(), LogisticAT()), X, y, lambda y, seed: y, repeats
    )
    assert ranges <= allowed[kind - 1] * exact
