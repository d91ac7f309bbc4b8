"""Weights of classes are weights of rows."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.class_weight import compute_sample_weight

import pril
from learners import ALL
from pril import MPRIL, PRIL, OrderedBoosting, OrderedLogit
from pril.labels import make_intervals

RNG = np.random.default_rng(0)
X = RNG.normal(size=(120, 3)) / 4  # within [-1, 1], as MPRIL wants it
EXACT = np.digitize(8 * X[:, 0] + RNG.normal(size=120), [-3.0, 0.0, 4.0]) + 1
CLASSES = [1, 2, 3, 4]
RANGES = make_intervals(EXACT, classes=CLASSES, random_state=0)
RANGES[:5] = EXACT[:5, np.newaxis]
pytestmark = pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")


def same(one, two):
    return np.array_equal(one.decision_function(X), two.decision_function(X))


@pytest.mark.parametrize("cls", [*ALL, OrderedBoosting])
def test_balanced_is_scikit_learns_for_exact_labels(cls):
    weighted = cls(class_weight="balanced", random_state=0).fit(X, EXACT)
    given = cls(random_state=0).fit(
        X, EXACT, sample_weight=compute_sample_weight("balanced", EXACT)
    )
    assert same(weighted, given)


@pytest.mark.parametrize("cls", [OrderedLogit, MPRIL, OrderedBoosting])
def test_a_range_weighs_the_mean_of_its_classes(cls):
    weights = {1: 5.0, 3: 0.25, 4: 0.0}
    by_class = np.array([5.0, 1.0, 0.25, 0.0])
    of_rows = [by_class[low - 1 : high].mean() for low, high in RANGES]
    weighted = cls(classes=CLASSES, class_weight=weights, random_state=0)
    assert same(
        weighted.fit(X, RANGES, sample_weight=np.arange(120.0)),
        cls(classes=CLASSES, random_state=0).fit(
            X, RANGES, sample_weight=of_rows * np.arange(120.0)
        ),
    )


def test_balanced_ranges_count_in_equal_parts():
    """Every class has the same sum of weights, if a range shares its weight among its classes."""
    model = OrderedLogit(classes=CLASSES, class_weight="balanced", random_state=0).fit(X, RANGES)
    counts = np.zeros(4)
    for low, high in RANGES:
        counts[low - 1 : high] += 1.0 / (high - low + 1)
    weights = dict(zip(CLASSES, 120 / (4 * counts), strict=True))
    given = OrderedLogit(classes=CLASSES, class_weight=weights, random_state=0).fit(X, RANGES)
    np.testing.assert_allclose(model.coef_, given.coef_, rtol=1e-9)


def test_a_file_keeps_them(tmp_path):
    for weights in ({1: 2.0, 4: 0.5}, "balanced"):
        pril.save(PRIL(class_weight=weights).fit(X, EXACT), tmp_path / "model.pril")
        assert pril.load(tmp_path / "model.pril").class_weight == weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({9: 1.0}, r"class_weight: 9 is not one of the classes \[1, 2, 3, 4\]"),
        ({1: -1.0}, "class_weight: the weight of 1 must be a number from 0 on, got -1.0"),
        ({2: np.nan}, "class_weight: the weight of 2 must be a number from 0 on, got nan"),
        ({2: "x"}, "class_weight: the weight of 2 must be a number from 0 on, got 'x'"),
        (dict.fromkeys(CLASSES, 0.0), "class_weight is zero for every row"),
        ("equal", "'class_weight' parameter of PRIL must be"),
    ],
)
def test_wrong_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        PRIL(class_weight=weights).fit(X, EXACT)


def test_balanced_weights_of_a_fitted_model_leave_a_stream_to_predict(tmp_path, call, feed):
    """Weights are for learning: only rows with a label are refused."""
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    model = PRIL(class_weight="balanced", random_state=0).fit(frame, EXACT)
    expected, lines = model.predict(frame[:3]).tolist(), frame[:3].to_dict("records")
    stream = model.stream()
    assert [stream.predict_one(row) for row in lines] == expected
    with pytest.raises(ValueError, match="needs all rows at once"):
        stream.learn_one(lines[0], 1)
    assert model.t_ == model.n_iter_ * len(X)
    pril.save(model, tmp_path / "model.pril")
    feed("".join(json.dumps(row) + "\n" for row in lines).encode())
    code, out, _ = call("stream", "model.pril")
    assert (code, [json.loads(line)["prediction"] for line in out.splitlines()]) == (0, expected)
    feed(json.dumps({**lines[0], "y": 1}).encode())
    code, out, err = call("stream", "model.pril", "--label", "y")
    assert (code, out) == (2, "")
    assert "needs all rows at once" in err


def test_balanced_needs_all_rows():
    model = PRIL(classes=CLASSES, class_weight="balanced")
    for learn in (model.partial_fit, lambda X, y: model.stream()):
        with pytest.raises(ValueError, match="needs all rows at once: use fit, or pass"):
            learn(X, EXACT)
