"""`pril.river`: River's own checks, and its pipelines, files and metrics."""

import copy
import pickle
from importlib.metadata import version

import numpy as np
import pytest

pytest.importorskip("river")
from river import checks, evaluate, preprocessing, stream

from pril import PRIL, OrderedLogit
from pril.metrics import interval_absolute_error, interval_accuracy
from pril.river import (
    IntervalAccuracy,
    IntervalMAE,
    OrderedLogitClassifier,
    OrdinalClassifier,
    PRILClassifier,
)

CLASSIFIERS = [PRILClassifier, OrderedLogitClassifier]


@pytest.mark.parametrize("cls", [*CLASSIFIERS, OrdinalClassifier])
def test_rivers_own_checks(cls):
    for parameters in cls._unit_test_params():
        checks.check_estimator(cls(**parameters))


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_the_memory_of_a_model_is_its_own(cls):
    """It is that of its numbers, without the compiler."""
    if version("river").startswith("0.22"):
        pytest.skip("this version cannot measure models with annotations")
    model = cls(classes=[1, 2])
    model.learn_one({"a": 1.0}, 2)
    assert model._raw_memory_usage < 50_000


def rows(n=200, seed=0):
    """Return features as dicts, and ranges of the classes 1..4."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X @ [1.0, -2.0, 0.5], [-2.0, 0.0, 2.0]) + 1
    ends = np.column_stack([y - rng.integers(0, 2, n), y + rng.integers(0, 2, n)]).clip(1, 4)
    return X, [dict(zip("abc", x, strict=True)) for x in X.tolist()], ends


@pytest.mark.parametrize(
    ("cls", "twin"), [(PRILClassifier, PRIL), (OrderedLogitClassifier, OrderedLogit)]
)
def test_a_classifier_is_its_learner(cls, twin):
    X, dicts, ends = rows()
    weights = np.random.default_rng(1).choice([0.5, 1.0, 2.0], len(X))
    model = cls(classes=[1, 2, 3, 4], half_life=50.0)
    twin = twin(classes=[1, 2, 3, 4], half_life=50.0).partial_fit(X, ends, sample_weight=weights)
    for x, (low, high), weight in zip(dicts, ends.tolist(), weights, strict=True):
        model.learn_one(x, {"low": low, "high": high}, w=weight)
    np.testing.assert_array_equal(model.model.coef_, twin.coef_)
    assert [model.predict_one(x) for x in dicts] == twin.predict(X).tolist()
    if cls is OrderedLogitClassifier:
        got = [list(model.predict_proba_one(x).values()) for x in dicts]
        np.testing.assert_array_equal(got, twin.predict_proba(X))


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_pipelines_are_scored_cloned_and_pickled(cls):
    _, dicts, ends = rows(400)
    data = [
        (x, {"low": low, "high": high}) for x, (low, high) in zip(dicts, ends.tolist(), strict=True)
    ]
    model = preprocessing.StandardScaler() | cls(classes=[1, 2, 3, 4])
    metric = IntervalMAE([1, 2, 3, 4]) + IntervalAccuracy([1, 2, 3, 4])
    evaluate.progressive_val_score(data, model, metric)
    error, accuracy = metric.get()
    assert error < 0.3
    assert accuracy > 0.7
    fresh = model.clone()
    assert fresh.predict_one(dicts[0]) is None
    copies = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]  # noqa: S301
    for twin in copies:
        for x, y in data[:20]:
            twin.learn_one({**x, "new": 1.0}, y)
    for x, y in data[:20]:
        model.learn_one({**x, "new": 1.0}, y)
    for twin in copies:
        assert [twin.predict_one(x) for x in dicts] == [model.predict_one(x) for x in dicts]


@pytest.mark.parametrize("cls", CLASSIFIERS)
def test_a_copy_learns_alone(cls):
    model = cls(classes=[1, 2])
    model.learn_one({"a": 1.0}, 2)
    twin = copy.copy(model)
    twin.learn_one({"a": -1.0}, 1)
    assert (model.model.t_, twin.model.t_) == (1, 2)
    model.learn_one({"a": -1.0}, 1)
    assert model.model.coef_ == twin.model.coef_


def test_ranges_come_from_a_file(tmp_path):
    """A file holds strings only; an empty one is an open end, two are no label."""
    path = tmp_path / "rows.csv"
    path.write_text("size,low,high\n-1.5,1,2\n2.0,2,\n0.5,,2\n9.0,,\n1.0,3,3\n")
    model = PRILClassifier(classes=[1, 2, 3])
    metric = IntervalMAE(classes=[1, 2, 3])
    for x, y in stream.iter_csv(path, target=["low", "high"], converters={"size": float}):
        assert y.keys() == {"low", "high"}
        if (prediction := model.predict_one(x)) is not None:
            metric.update(y, prediction)
        model.learn_one(x, y)
    twin = PRIL(classes=[1, 2, 3])
    twin.partial_fit(
        [[-1.5], [2.0], [0.5], [9.0], [1.0]], [(1, 2), (2, None), (None, 2), (None, None), (3, 3)]
    )
    np.testing.assert_array_equal(model.model.coef_, twin.coef_)
    assert model.model.t_ == 4
    with pytest.raises(ValueError, match="'7' is not one of the classes"):
        model.learn_one({"size": 1.0}, {"low": "7", "high": ""})


def test_metrics_agree_with_those_of_arrays():
    rng = np.random.default_rng(0)
    y_true, y_pred = np.sort(rng.integers(1, 5, (50, 2)), axis=1), rng.integers(1, 5, 50)
    weights = rng.random(50)
    classes = [1, 2, 3, 4]
    for metric, function in (
        (IntervalMAE(classes), interval_absolute_error),
        (IntervalAccuracy(classes), interval_accuracy),
    ):
        for label, guess, weight in zip(y_true.tolist(), y_pred.tolist(), weights, strict=True):
            metric.update(tuple(label), guess, weight)
        metric.update(None, 1)
        metric.update((None, None), 4)
        expected = function(y_true, y_pred, classes=classes, sample_weight=weights)
        assert metric.get() == pytest.approx(expected)
        metric.update((1, 1), 4, 2.0)
        metric.revert((1, 1), 4, 2.0)
        assert metric.get() == pytest.approx(expected)
        assert metric.works_with(PRILClassifier(classes))
        assert metric.clone().get() == 0.0
        with pytest.raises(ValueError, match="y_pred: 9 is not one of the classes"):
            metric.update((1, 2), 9)


@pytest.mark.parametrize("cls", [IntervalMAE, IntervalAccuracy])
def test_the_metric_of_the_nearer_prediction_is_better(cls):
    near, far = cls([1, 2, 3]), cls([1, 2, 3])
    near.update((1, 2), 2)
    far.update((1, 2), 3)
    assert near.is_better_than(far)
    assert not far.is_better_than(near)
