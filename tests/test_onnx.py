"""Models in ONNX predict what the models themselves predict: onnxruntime is the other way."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pril
from pril import (
    MPRIL,
    PRIL,
    ColumnEncoder,
    KernelPRIL,
    MulticlassPerceptron,
    OrderedLogit,
    PolynomialMap,
    PRank,
    WidrowHoff,
)
from pril.onnx import to_onnx
from tables import make_rows, write

GRADES = ["poor", "fair", "good", "great"]
LEARNERS = [
    PRIL(),
    PRIL(average=False),
    PRank(),
    MPRIL(),
    MPRIL(signed=False),
    WidrowHoff(),
    WidrowHoff(fit_intercept=False),
    MulticlassPerceptron(),
    MulticlassPerceptron(fit_intercept=False),
    OrderedLogit(),
    OrderedLogit(decision="mode"),
]


def run(graph, inputs):
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs), strict=True))


def rows(n=500, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = rng.integers(-64, 65, (n, 4)) / 64  # sums of few of them are exact
    rank = np.digitize(X @ [2.0, -1.0, 0.5, 0.0], [-1.0, 0.0, 1.0])
    return X.astype(dtype), rank


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("classes", [GRADES, [7, 3, 5, 9], [0.5, 1.0, 1.5, 2.0]])
def test_labels_and_scores_agree(learner, dtype, classes):
    X, rank = rows(dtype=dtype)
    model = type(learner)(**{**learner.get_params(), "classes": classes, "random_state": 0})
    model.fit(X, np.array(classes)[rank])
    X, _ = rows(2000, seed=1, dtype=dtype)
    found = run(to_onnx(model, X), {"X": X})
    assert (found["label"] == model.predict(X)).all()
    if isinstance(learner, OrderedLogit):
        cumulative = np.cumsum(found["probabilities"], axis=1)  # lowest class first
        np.testing.assert_allclose(cumulative, model.predict_cumulative(X), atol=1e-12)
    elif hasattr(model, "latent"):
        np.testing.assert_allclose(found["scores"][:, 0], model.latent(X), rtol=1e-9, atol=1e-12)
    else:
        columns = np.searchsorted(model.classes_, model.order_)
        scores = model.decision_function(X)[:, columns]
        np.testing.assert_allclose(found["scores"], scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", [PRIL, PRank])
def test_ties_are_decided_alike(kind):
    """Weights and thresholds are sums of multiples of 1/64, so many scores are on a threshold."""
    X, rank = rows(300)
    model = kind(average=False, random_state=0, max_iter=2).fit(np.round(X * 4) / 4, rank)
    X = np.round(rows(20_000, seed=1)[0] * 4) / 4
    ties = np.isin(model.latent(X), model.thresholds_)
    assert ties.sum() > 50
    found = run(to_onnx(model, X), {"X": X})
    np.testing.assert_array_equal(found["label"], model.predict(X))


def test_ties_of_scores_take_the_lowest_class():
    X, _ = rows(300)
    X[:100, 0] = 0.0
    model = MulticlassPerceptron(average=False, fit_intercept=False, classes=range(4))
    model.partial_fit([[1.0, 0.0, 0.0, 0.0]], [2])
    assert (model.predict(X)[:100] == 0).all()
    np.testing.assert_array_equal(run(to_onnx(model, X), {"X": X})["label"], model.predict(X))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("options", [{}, {"degree": 3, "coef0": 0}, {"degree": 1, "gamma": 2.0}])
def test_pipelines_and_the_polynomial_map(dtype, options):
    X, rank = rows(dtype=dtype)
    model = make_pipeline(StandardScaler(), PolynomialMap(**options), PRIL(random_state=0))
    model.fit(X, rank)
    found = run(to_onnx(model, X), {"X": X})
    scores = model[-1].latent(model[:-1].transform(X))
    tolerance = 1e-9 if dtype == np.float64 else 1e-3
    np.testing.assert_allclose(found["scores"][:, 0], scores, rtol=tolerance, atol=tolerance)
    cuts = model[-1].thresholds_
    clear = np.abs(scores[:, None] - cuts).min(axis=1) > tolerance * np.abs(scores).max()
    assert clear.mean() > 0.95
    assert (found["label"] == model.predict(X))[clear].all()


@pytest.mark.parametrize("options", [{}, {"scale": False}, {"bounded": True}])
def test_columns_are_inputs(options):
    table = pd.DataFrame(make_rows(200, 0))[["size", "age", "town"]]
    grades = np.array(["poor", "fair", "good"], dtype=object)[np.arange(200) % 3]
    table["grade"] = pd.Categorical(grades, ["poor", "fair", "good"], ordered=True)
    y = np.arange(200) % 4
    model = make_pipeline(ColumnEncoder(**options), PRIL(random_state=0)).fit(table, y)
    table = table.astype({"grade": object})
    table.loc[0, ["town", "grade"]] = "never seen"
    inputs = {name: table[[name]].to_numpy(np.float64) for name in ("size", "age")}
    inputs |= {name: table[[name]].fillna("").to_numpy(object) for name in ("town", "grade")}
    found = run(to_onnx(model), inputs)
    scores = model[-1].latent(model[:-1].transform(table))
    np.testing.assert_allclose(found["scores"][:, 0], scores, rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(found["label"], model.predict(table))


def test_the_command_writes_what_to_onnx_returns(tmp_path, good, bad):
    X, rank = rows()
    model = make_pipeline(StandardScaler(), PRIL(random_state=0)).fit(X, rank)
    pril.save(model, tmp_path / "model.pril")
    graph = tmp_path / "model.onnx"
    said = good("export", "model.pril", "-o", graph)
    assert said.split() == ["graph", str(graph), "inputs", "X", "outputs", "label,", "scores"]
    session = onnxruntime.InferenceSession(graph.read_bytes())
    np.testing.assert_array_equal(session.run(["label"], {"X": X})[0], model.predict(X))
    pril.save(KernelPRIL().fit(X, rank), tmp_path / "model.pril")
    said = bad("export", "model.pril", "-o", graph)
    assert said.startswith("KernelPRIL cannot be exported to ONNX")


def test_boosting_from_the_command(good, tmp_path):
    table = make_rows()
    write(tmp_path / "t.csv", table)
    options = ["--label=grade", "--features=size,age", "--model=boosting", "--set=max_iter=10"]
    good("fit", "t.csv", *options)
    good("export", "t.pril", "-o", "t.onnx")
    frame = pd.DataFrame(table)[["size", "age"]].astype(float)
    assert frame["size"].isna().any()
    session = onnxruntime.InferenceSession((tmp_path / "t.onnx").read_bytes())
    cells = {name: frame[[name]].to_numpy() for name in frame}
    said = session.run(["label"], cells)[0]
    np.testing.assert_array_equal(said, pril.load("t.pril").predict(frame))


def test_one_class_two_classes_and_booleans():
    X, _ = rows(20)
    for y in (np.zeros(20, dtype=int), X[:, 0] > 0):
        model = PRIL(random_state=0).fit(X, y)
        np.testing.assert_array_equal(run(to_onnx(model), {"X": X})["label"], model.predict(X))


def test_what_onnx_cannot_hold_is_refused():
    X, rank = rows(20)
    with pytest.raises(TypeError, match="KernelPRIL cannot be exported to ONNX"):
        to_onnx(KernelPRIL().fit(X, rank), X)
    ranges = PRIL().fit(X, pd.cut(rank, [-1, 1, 4]))
    with pytest.raises(TypeError, match="labels in ONNX must be numbers or strings, not Interval"):
        to_onnx(ranges, X)
