"""Models in ONNX predict what the models themselves predict: onnxruntime is the other way."""

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import skl2onnx
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pril
from forests import RandomForest
from pril import (
    MPRIL,
    PRIL,
    ColumnEncoder,
    KernelPRIL,
    LandmarkFeatures,
    MulticlassPerceptron,
    OrderedBoosting,
    OrderedLogit,
    PolynomialMap,
    PRank,
    PredictionRanges,
    WidrowHoff,
)
from pril.learners.boosting.compiled import SET
from pril.onnx import to_onnx
from tables import features_and_labels, landmark_pipeline, make_rows, write

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
    *(OrderedLogit(link=link) for link in ("probit", "cloglog", "loglog", "cauchit")),
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
        proba = model.predict_proba(X)
        # onnxruntime has the functions of these two for float32 only
        digits = 1e-6 if learner.link in ("probit", "cauchit") else 1e-12
        np.testing.assert_allclose(found["probabilities"], proba, atol=digits)
    elif hasattr(model, "latent"):
        np.testing.assert_allclose(found["scores"][:, 0], model.latent(X), rtol=1e-9, atol=1e-12)
    else:
        scores = model.decision_function(X)
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


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("kernel", ["laplacian", "rbf", "cosine", "linear", "poly", "sigmoid"])
def test_landmark_features(dtype, kernel):
    X, _ = rows(dtype=dtype)
    y = np.digitize((X**2).sum(axis=1), [0.7, 1.2, 1.8])
    options = {"kernel": kernel, "gamma": None if kernel == "laplacian" else 0.3}
    landmarks = LandmarkFeatures(10, random_state=0, **options)
    model = make_pipeline(landmarks, PRIL(random_state=0)).fit(X, y)
    X = rows(2000, seed=1, dtype=dtype)[0]
    X[0] = 0.0  # a row without a direction
    found = run(to_onnx(model, X), {"X": X})
    X = X.astype(np.float64)  # the graph computes kernels in float64, scikit-learn some in float32
    scores = model[-1].latent(landmarks.transform(X))
    tolerance = 1e-9 if dtype == np.float64 else 1e-5
    most = np.abs(scores).max()
    np.testing.assert_allclose(found["scores"][:, 0], scores, rtol=0, atol=tolerance * most)
    clear = np.abs(scores[:, None] - model[-1].thresholds_).min(axis=1) > tolerance * most
    assert clear.mean() > 0.99
    assert (found["label"] == model.predict(X))[clear].all()


def test_a_step_of_scikit_learn_that_has_categories():
    X = np.random.default_rng(0).integers(0, 3, (60, 2)).astype(np.float64)
    model = make_pipeline(OneHotEncoder(), PRIL(random_state=0)).fit(X, X.sum(axis=1).astype(int))
    for given_rows in (None, X):
        found = run(to_onnx(model, given_rows), {"X": X})
        np.testing.assert_array_equal(found["label"], model.predict(X))


def test_landmarks_that_are_sparse_rows():
    X, rank = rows()
    sparse = csr_array(np.where(X > 0, X, 0.0))
    model = make_pipeline(LandmarkFeatures(40, random_state=0), PRIL(random_state=0))
    model.fit(sparse, rank)
    found = run(to_onnx(model), {"X": sparse.toarray()})
    np.testing.assert_array_equal(found["label"], model.predict(sparse))


RANGES = {
    "learner": lambda learner: PredictionRanges(learner, random_state=0),
    "pipeline inside": lambda learner: PredictionRanges(
        make_pipeline(StandardScaler(), learner), random_state=0
    ),
    "pipeline outside": lambda learner: make_pipeline(
        StandardScaler(), PredictionRanges(learner, random_state=0)
    ),
    "few rows": lambda learner: PredictionRanges(learner, coverage=0.999, random_state=0),
    "by class": lambda learner: PredictionRanges(
        learner, coverage=0.7, by="class", calibration_size=0.4, random_state=0
    ),
    "by class, whole labels": lambda learner: PredictionRanges(
        learner, guarantee="contain", coverage=0.7, by="class", random_state=0
    ),
}


@pytest.mark.filterwarnings("ignore:every range is the full scale")
@pytest.mark.parametrize("wrapped", RANGES)
@pytest.mark.parametrize(
    "learner", [PRIL(), OrderedLogit(), OrderedLogit(decision="mode"), OrderedBoosting()], ids=repr
)
def test_ranges_have_two_more_outputs(learner, wrapped):
    X, rank = rows(600)
    noisy = np.clip(rank + np.random.default_rng(0).integers(-1, 2, len(rank)), 0, 3)
    learner = clone(learner).set_params(random_state=0, classes=GRADES)
    model = RANGES[wrapped](learner).fit(X, np.array(GRADES)[noisy])
    X, _ = rows(2000, seed=1)
    found = run(to_onnx(model, X), {"X": X})
    if wrapped == "pipeline outside":
        expected = model[-1].predict_range(model[0].transform(X))
    else:
        expected = model.predict_range(X)
    assert list(found)[2:] == ["lower", "upper"]
    np.testing.assert_array_equal(found["label"], model.predict(X))
    np.testing.assert_array_equal(found["lower"], expected[:, 0])
    np.testing.assert_array_equal(found["upper"], expected[:, 1])
    assert (expected[:, 0] != expected[:, 1]).any()
    if not isinstance(learner, PRIL):
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-9)


def test_ranges_by_a_column_are_refused():
    X, rank = rows(600)
    X[:, 0] = X[:, 0] > 0
    model = PredictionRanges(PRIL(random_state=0), by=0, random_state=0).fit(X, rank)
    with pytest.raises(ValueError, match="by the column 0 cannot be exported to ONNX"):
        to_onnx(model, X)


def test_ranges_of_a_frozen_model_with_one_class():
    X, _ = rows(40)
    model = PredictionRanges(FrozenEstimator(PRIL().fit(X, np.zeros(40, dtype=int))))
    model.fit(X, np.zeros(40, dtype=int))
    found = run(to_onnx(model), {"X": X})
    np.testing.assert_array_equal([found["lower"], found["upper"]], np.zeros((2, 40)))


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


@pytest.mark.parametrize("landmarks", [False, True])
def test_the_command_exports_landmarks_and_ranges(tmp_path, good, landmarks):
    # Other rows than those learned: that which sets the margin lies on an end, where rounding decides.
    table = pd.DataFrame(make_rows(600, 1))
    if landmarks:
        ranges = PredictionRanges(landmark_pipeline(100), random_state=0)
        pril.save(ranges.fit(*features_and_labels(make_rows(600))), tmp_path / "model.pril")
    else:
        pd.DataFrame(make_rows(600, 0)).to_csv(tmp_path / "rows.csv", index=False)
        fit = ["fit", "rows.csv", "--lower", "low", "--upper", "high", "-o", "model.pril"]
        fit += ["--coverage", "0.9", "--guarantee", "contain"]
        good(*fit, "--classes", "poor,fair,good,great", "--drop", "id")
    said = good("export", "model.pril", "-o", "model.onnx")
    assert said.splitlines()[-1].split()[-2:] == ["lower,", "upper"]
    model = pril.load(tmp_path / "model.pril")
    session = onnxruntime.InferenceSession((tmp_path / "model.onnx").read_bytes())
    numbers = {i.name for i in session.get_inputs() if i.type == "tensor(double)"}
    inputs = {
        i.name: table[[i.name]].to_numpy(np.float64)
        if i.name in numbers
        else table[[i.name]].fillna("").to_numpy(object)
        for i in session.get_inputs()
    }
    lower, upper = session.run(["lower", "upper"], inputs)
    np.testing.assert_array_equal(np.column_stack([lower, upper]), model.predict_range(table))


def test_boosting_from_the_command(good, tmp_path):
    table = make_rows()
    write(tmp_path / "t.csv", table)
    options = ["--label=grade", "--features=size,age,town", "--model=boosting"]
    options += ["--set=max_iter=10", "--set=learning_rate=2"]
    good("fit", "t.csv", *options)
    good("export", "t.pril", "-o", "t.onnx")
    frame = pd.DataFrame(table)[["size", "age", "town"]].astype({"size": float, "age": float})
    assert frame["size"].isna().any()
    frame.loc[:9, "town"] = "never seen"
    session = onnxruntime.InferenceSession((tmp_path / "t.onnx").read_bytes())
    cells = {name: frame[[name]].to_numpy() for name in ("size", "age")}
    cells["town"] = frame[["town"]].fillna("").to_numpy(object)
    said = session.run(["label"], cells)[0]
    np.testing.assert_array_equal(said, pril.load("t.pril").predict(frame))


def cells_of(forest, rows):
    """Return rows as a graph takes them: a matrix of numbers, or a column for each input."""
    if not forest.sizes.any():
        return {"X": np.array(rows)}
    columns = zip(forest.names, forest.sizes, zip(*rows, strict=True), strict=True)
    return {
        name: np.array([["" if cell is None else cell] for cell in cells], object if size else None)
        for name, size, cells in columns
    }


@given(
    seed=st.integers(0, 2**32 - 1),
    most_leaves=st.sampled_from([1, 2, 33, 200]),
    n_landmarks=st.sampled_from([0, 3]),
    decision=st.sampled_from(["median", "mode"]),
)
@settings(max_examples=20)
def test_boosting_at_split_thresholds(seed, most_leaves, n_landmarks, decision):
    """With words, missing numbers, and categories that the model does not know."""
    forest = RandomForest(np.random.default_rng(seed), 12, most_leaves, n_landmarks)
    model, rows = forest.model(decision=decision), forest.rows(200)
    found = run(to_onnx(model), cells_of(forest, rows))
    table = pd.DataFrame(rows, columns=forest.names, dtype=object)
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(table), atol=1e-12)
    np.testing.assert_array_equal(found["label"], model.predict(table))


def test_numbers_that_are_categories():
    rng = np.random.default_rng(0)
    X = np.column_stack([rng.choice([3.0, 5.0, 2.5, 2.0**40 + 0.125], 300), rng.normal(size=300)])
    y = np.digitize(X[:, 0] % 2 + X[:, 1], [0.0, 1.0])
    model = OrderedBoosting(categorical_features=[0], max_iter=5, random_state=0).fit(X, y)
    X = np.vstack([X, [[4.0, 0.0], [np.nan, 0.0], [2.0**40, np.nan]]])
    found = run(to_onnx(model), {"X": X})
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-12)
    found = run(skl2onnx.to_onnx(model, X), {"X": X})
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-12)


def test_a_forest_with_many_categories_is_a_small_graph():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(
        {"code": rng.integers(0, 900, 8000).astype(str), "size": rng.normal(size=8000)}
    )
    y = np.digitize(X["code"].astype(int) % 7 / 3 + X["size"], [0.0, 1.0, 2.0])
    model = OrderedBoosting(max_iter=20, random_state=0).fit(X.astype({"code": "category"}), y)
    assert (model.memory_.forest.kind == SET).sum() > 50
    graph = to_onnx(model)
    assert graph.ByteSize() < 2_000_000
    found = run(graph, {name: X[[name]].to_numpy(object if name == "code" else None) for name in X})
    np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(found["label"], model.predict(X))


@pytest.mark.parametrize(
    ("categories", "message"),
    [
        (["a", 1], "feature 'x0' has the category 1, which is no word"),
        ([pd.Timestamp("2020"), 1], "feature 'x0' has the category Timestamp.* no number"),
        ([2**60 + 1, 1], f"feature 'x0' has the category {2**60 + 1}, which is no float64"),
        ([10**400, 1], "which is no float64: it cannot be exported"),
        (["\ud800", "a"], "not UTF-8: it cannot be exported to ONNX"),
    ],
)
def test_categories_that_onnx_cannot_hold_are_refused_by_name(categories, message):
    forest = RandomForest(np.random.default_rng(2), 1)
    model = forest.model()
    model.categories_ = model.categories_ | {"0": categories}
    with pytest.raises(TypeError, match=message):
        to_onnx(model)


def test_one_class_two_classes_and_booleans():
    X, _ = rows(20)
    for y in (np.zeros(20, dtype=int), X[:, 0] > 0):
        model = PRIL(random_state=0).fit(X, y)
        np.testing.assert_array_equal(run(to_onnx(model), {"X": X})["label"], model.predict(X))


def test_what_onnx_cannot_hold_is_refused():
    X, rank = rows(20)
    with pytest.raises(TypeError, match="KernelPRIL cannot be exported to ONNX"):
        to_onnx(KernelPRIL().fit(X, rank), X)
    with pytest.raises(TypeError, match="KernelPRIL cannot be exported to ONNX"):
        to_onnx(PredictionRanges(KernelPRIL(), coverage=0.5).fit(X, rank), X)
    chi = make_pipeline(LandmarkFeatures(5, kernel="chi2"), PRIL()).fit(np.abs(X), rank)
    with pytest.raises(TypeError, match="kernel='chi2' cannot be exported to ONNX"):
        to_onnx(chi, X)
    ranges = PRIL().fit(X, pd.cut(rank, [-1, 1, 4]))
    with pytest.raises(TypeError, match="labels in ONNX must be numbers or strings, not Interval"):
        to_onnx(ranges, X)
