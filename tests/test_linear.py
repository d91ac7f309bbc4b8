"""The learners as scikit-learn classifiers: its own checks, the contract, bad input."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import coo_array, csc_array, csr_array
from sklearn import config_context
from sklearn.base import clone
from sklearn.datasets import load_diabetes
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    PredefinedSplit,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners import ALL, LINEAR, linear
from pril import (
    MPRIL,
    PRIL,
    KernelPRIL,
    MulticlassPerceptron,
    OrderedLogit,
    PRank,
    WidrowHoff,
)
from pril.errors import FeatureRangeWarning
from pril.evaluate import progressive
from pril.labels import ClassOrderWarning
from pril.metrics import interval_accuracy_scorer, neg_interval_absolute_error_scorer
from pril.paper.datasets import make_synthetic

THRESHOLDED = linear(has_thresholds=True)
INTERVALS = linear(takes_ranges=True)

quiet = pytest.mark.filterwarnings(
    "ignore::pril.errors.FeatureRangeWarning", "ignore::pril.labels.ClassOrderWarning"
)


ONE_LONG_STEP = "a row of weight two is one long step, two rows are two: as for SGDClassifier"


def expected_failures(estimator):
    """Return the checks that cannot pass, with the reason."""
    failures = {}
    if not isinstance(estimator, OrderedLogit):
        failures = {
            "check_sample_weight_equivalence_on_dense_data": ONE_LONG_STEP,
            "check_sample_weight_equivalence_on_sparse_data": ONE_LONG_STEP,
        }
    if isinstance(estimator, WidrowHoff):
        reason = "with a weight of 1000 its steps overshoot until they overflow, and it says so"
        failures["check_class_weight_classifiers"] = reason
    if getattr(estimator, "decision", None) == "median":
        reason = "wants the likeliest class, and the median has the least absolute error"
        failures |= dict.fromkeys(["check_classifiers_train"], reason)
    return failures


@quiet
@parametrize_with_checks(
    [*(cls() for cls in LINEAR), OrderedLogit(decision="mode")],
    expected_failed_checks=expected_failures,
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


def table(n=200, d=4, K=4, seed=0):
    """Return features, exact labels 1..K on a noisy line, and intervals around them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    score = X @ rng.normal(size=d) + 0.1 * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, K) / K)) + 1
    intervals = np.column_stack(
        [np.maximum(y - rng.integers(0, 2, n), 1), np.minimum(y + rng.integers(0, 2, n), K)]
    )
    return X, y, intervals


# --- Another project's number ---


def test_prank_on_diabetes_has_lightnings_training_error():
    """lightning's test_prank.py: linear PRank, 10 passes in order, last iterate."""
    X, target = load_diabetes(return_X_y=True)
    y = np.round(target, decimals=-2)
    model = PRank(max_iter=10, shuffle=False, average=False).fit(X, y)
    assert np.abs(y - model.predict(X)).mean() == pytest.approx(41.86, abs=0.005)


# --- What each part means ---


@pytest.mark.parametrize("cls", THRESHOLDED)
def test_latent_thresholds_and_predict_agree(cls):
    X, y, _ = table()
    model = cls(random_state=0).fit(X, y)
    score = model.latent(X)
    intercept = getattr(model, "intercept_", 0.0)
    np.testing.assert_allclose(score, X @ model.coef_ + intercept, atol=1e-9)
    rank = (score[:, np.newaxis] >= model.thresholds_).sum(axis=1)
    np.testing.assert_array_equal(model.predict(X), model.classes_[rank])
    assert (np.diff(model.thresholds_) >= 0).all()


@pytest.mark.parametrize("cls", LINEAR)
@pytest.mark.parametrize("K", [2, 3, 5])
def test_decision_function_agrees_with_predict(cls, K):
    X, y, _ = table(K=K)
    model = cls(random_state=0).fit(X, y)
    margins = model.decision_function(X)
    if K == 2:
        assert margins.shape == (len(X),)
        winner = (margins > 0).astype(int)
    else:
        assert margins.shape == (len(X), K)
        winner = margins.argmax(axis=1)
    np.testing.assert_array_equal(model.classes_[winner], model.predict(X))


def test_widrow_hoff_thresholds_lie_between_the_ranks():
    X, y, _ = table(K=4)
    assert WidrowHoff().fit(X, y).thresholds_.tolist() == [1.5, 2.5, 3.5]


def test_multiclass_perceptron_has_no_score_axis():
    X, y, _ = table()
    model = MulticlassPerceptron().fit(X, y)
    assert model.coef_.shape == (4, 4)
    assert model.intercept_.shape == (4,)
    assert not hasattr(model, "latent")
    assert not hasattr(model, "thresholds_")


@pytest.mark.parametrize("cls", linear(averages=True, takes_ranges=True))
def test_averaging_predicts_with_the_mean_and_learns_from_the_iterate(cls):
    X, _, y = table()
    both = {average: cls(average=average, classes=[1, 2, 3, 4]) for average in (True, False)}
    for model in both.values():
        model.partial_fit(X, y).partial_fit(X, y)
    assert both[True].n_mistakes_ == both[False].n_mistakes_
    assert both[True].n_updates_ == both[False].n_updates_
    assert not np.array_equal(both[True].coef_, both[False].coef_)


@pytest.mark.parametrize("cls", INTERVALS)
def test_score_is_the_share_inside_the_interval(cls):
    X, y, intervals = table()
    model = cls(random_state=0).fit(X, intervals)
    predicted = model.predict(X)
    inside = (intervals[:, 0] <= predicted) & (predicted <= intervals[:, 1])
    assert model.score(X, intervals) == inside.mean()
    assert model.score(X, y) == (predicted == y).mean()
    weight = np.arange(len(y))
    assert model.score(X, y, weight) == pytest.approx(np.average(predicted == y, weights=weight))


@pytest.mark.parametrize("cls", INTERVALS)
def test_score_leaves_rows_without_a_label_out(cls):
    X, _, intervals = table()
    model = cls(random_state=0).fit(X, intervals)
    half = intervals.astype(float)
    half[::2] = np.nan
    weight = np.arange(1.0, len(X) + 1)
    assert model.score(X, half) == model.score(X[1::2], intervals[1::2])
    assert model.score(X, half, weight) == model.score(X[1::2], intervals[1::2], weight[1::2])
    scorers = (interval_accuracy_scorer, neg_interval_absolute_error_scorer)
    for scorer in scorers:
        assert scorer(model, X, half) == scorer(model, X[1::2], intervals[1::2])
    for call in (model.score, *(partial(scorer, model) for scorer in scorers)):
        with pytest.raises(ValueError, match="has no row with a label"):
            call(X[::2], half[::2])


@pytest.mark.parametrize("cls", INTERVALS)
def test_a_stream_may_begin_without_labels(cls):
    X, _, intervals = table()
    model = cls(classes=[1, 2, 3, 4]).partial_fit(X[:5], [None] * 5)
    assert (model.t_, model.n_features_in_, model.classes_.tolist()) == (0, 4, [1, 2, 3, 4])
    assert set(model.predict(X)) <= {1, 2, 3, 4}
    with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 4"):
        model.partial_fit(X[:, :3], intervals)
    model.partial_fit(X, intervals)
    at_once = cls(classes=[1, 2, 3, 4]).partial_fit(X, intervals)
    np.testing.assert_array_equal(model.coef_, at_once.coef_)


@pytest.mark.parametrize("cls", INTERVALS)
def test_fit_without_any_label_is_refused(cls):
    model = cls(classes=[1, 2])
    with pytest.raises(ValueError, match="y has no label in any row"):
        model.fit([[0.0], [1.0]], [None, None])
    assert not hasattr(model, "classes_")


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("container", [np.asarray, csr_array])
def test_rows_without_a_label_must_be_finite_too(container, shuffle):
    X, y = np.array([[1.0], [np.nan], [2.0]]), [1, None, 2]
    with pytest.raises(ValueError, match="X, row 1: feature 0 is NaN"):
        PRIL(classes=[1, 2], shuffle=shuffle).fit(container(X), y)


def test_score_counts_an_unknown_label_as_a_miss():
    X, y, _ = table(K=3)
    model = PRIL(random_state=0).fit(X, y)
    strange = y.copy()
    strange[:50] = 99
    assert model.score(X, strange) == (model.predict(X)[50:] == y[50:]).sum() / len(y)


# --- Passes and stopping ---


def test_fit_stops_after_a_pass_without_a_mistake():
    X = np.array([[-1.0], [0.0], [1.0]])
    model = PRIL(max_iter=1000, random_state=0).fit(X, [1, 2, 3])
    assert model.n_iter_ < 1000
    assert model.t_ == 3 * model.n_iter_
    before = model.n_mistakes_
    assert model.partial_fit(X, [1, 2, 3]).n_mistakes_ == before


def test_tol_stops_when_the_progressive_loss_no_longer_falls():
    """Labels without relation to the features: no pass is clearly better than another."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(1, 5, 300)
    patient = {k: PRIL(max_iter=50, tol=1.0, n_iter_no_change=k, random_state=0) for k in (1, 4)}
    passes = {k: model.fit(X, y).n_iter_ for k, model in patient.items()}
    assert passes == {1: 2, 4: 5}  # the first pass has nothing to be compared with
    assert PRIL(max_iter=50, random_state=0).fit(X, y).n_iter_ == 50


@pytest.mark.parametrize(("tol", "passes"), [(0.0, 5), (1e-9, 2)])
def test_the_same_loss_again_is_an_improvement_by_zero(tol, passes):
    """Two equal rows of different labels: every pass is wrong twice and ends where it began."""
    model = PRIL(tol=tol, n_iter_no_change=1, max_iter=5, shuffle=False, average=False)
    assert model.fit([[0.0], [0.0]], [1, 2]).n_iter_ == passes
    assert model.n_mistakes_ == 2 * passes


def test_a_seed_fixes_the_order_and_no_seed_does_not():
    X, y, _ = table()
    one, two = (PRIL(random_state=7).fit(X, y).coef_ for _ in range(2))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, PRIL(random_state=8).fit(X, y).coef_)


# --- In scikit-learn's company ---


@pytest.mark.parametrize("scoring", [None, neg_interval_absolute_error_scorer])
def test_model_selection_on_intervals(scoring):
    X, _, intervals = table()
    pipe = make_pipeline(StandardScaler(), PRIL(classes=[1, 2, 3, 4], random_state=0))
    search = GridSearchCV(pipe, {"pril__average": [True, False]}, scoring=scoring, cv=3)
    search.fit(X, intervals)
    assert np.isfinite(search.best_score_)
    scores = cross_val_score(pipe, X, intervals, scoring=interval_accuracy_scorer, cv=3)
    np.testing.assert_allclose(scores, cross_val_score(pipe, X, intervals, cv=3))


def test_a_data_frame_keeps_its_names():
    X, _, intervals = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    labels = pd.DataFrame(intervals, columns=["lower", "upper"])
    model = PRIL(random_state=0).fit(frame, labels)
    assert model.feature_names_in_.tolist() == list("abcd")
    np.testing.assert_array_equal(
        model.predict(frame), PRIL(random_state=0).fit(X, intervals).predict(X)
    )
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict(frame.rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame[["b", "a", "c", "d"]], labels)


@pytest.mark.parametrize("cls", LINEAR)
def test_a_pickled_model_goes_on_as_the_original(cls):
    X, y, _ = table()
    model = cls(classes=[1, 2, 3, 4]).partial_fit(X[:100], y[:100])
    twin = pickle.loads(pickle.dumps(model))  # noqa: S301
    for each in (model, twin):
        each.partial_fit(X[100:], y[100:])
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    np.testing.assert_array_equal(model.predict(X), twin.predict(X))
    assert clone(model).get_params() == model.get_params()


# --- partial_fit and its classes ---


def test_the_first_partial_fit_needs_an_order():
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        PRIL().partial_fit([[0.0]], [1])
    for model in (
        PRIL(classes=[1, 2]).partial_fit([[0.0]], [1]),
        PRIL().partial_fit([[0.0]], [1], classes=[1, 2]),
        PRIL().partial_fit([[0.0]], pd.Categorical([1], categories=[1, 2], ordered=True)),
    ):
        assert model.classes_.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("own", "given"), [([1, 2], [2, 1]), ([1, 2], [1, 2, 3]), (["a", "b"], ["b", "a"])]
)
def test_classes_in_both_places_must_agree(own, given):
    with pytest.raises(ValueError, match="classes must stay the same"):
        PRIL(classes=own).partial_fit([[0.0]], own[:1], classes=given)
    model = PRIL().partial_fit([[0.0]], own[:1], classes=own)
    with pytest.raises(ValueError, match="classes must stay the same"):
        model.partial_fit([[0.0]], own[:1], classes=given)
    model.partial_fit([[0.0]], own[:1], classes=own)


@pytest.mark.parametrize("cls", LINEAR)
def test_no_rows(cls):
    nothing = np.empty((0, 2)), []
    fresh = cls().partial_fit(*nothing, classes=[1, 2])
    with pytest.raises(NotFittedError):
        fresh.predict([[0.0, 0.0]])
    model = cls(classes=[1, 2]).partial_fit([[0.1, 0.2]], [1])
    before = pickle.dumps(model)
    assert pickle.dumps(model.partial_fit(*nothing)) == before
    with pytest.raises(ValueError, match="0 sample"):
        cls().fit(*nothing)


# --- Bad input: argument, row and value, and the model stays as it was ---

X3 = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
NAN = X3.copy()
NAN[1, 1] = np.nan
INF = X3.copy()
INF[2, 0] = -np.inf
REFUSED = {
    "lower above upper": (X3, [(1, 2), (1, 1), (3, 2)], ValueError, r"y, row 2: lower end 3 is above upper end 2"),
    "unknown label": (X3, [1, 2, 9], ValueError, r"y, row 2: 9 is not one of the classes \[1, 2, 3\]"),
    "unknown end": (X3, [(1, 2), (0, 2), (3, 3)], ValueError, r"y, row 1: 0 is not one of the classes"),
    "fraction": (X3, [1, 2.5, 3], ValueError, r"y, row 1: 2.5 is not one of the classes"),
    "string label": (X3, ["1", "2", "3"], ValueError, r"y, row 0: '1' is not one of the classes"),
    "infinite label": (X3, [1, np.inf, 3], ValueError, r"y, row 1: inf is not one of the classes"),
    "open on the wrong side": (X3, [(1, 2), (np.inf, 2), (1, 1)], ValueError, r"y, row 1: inf is not"),
    "mixed types": (X3, [1, "2", 3], TypeError, r"y, row 1: labels must be all numbers or all strings, got '2'"),
    "pairs and labels": (X3, [1, (1, 2), 3], TypeError, r"y, row 0: 1 is a single label, but row 1 is a pair, \(1, 2\)"),
    "ragged pairs": (X3, [(1, 2), (1, 2, 3), (1, 1)], ValueError, r"y, row 1: \(1, 2, 3\) has 3 values"),
    "dates": (X3, np.array(["2020", "2021", "2022"], dtype="M8[Y]"), TypeError, r"y, row 0: labels must be"),
    "too few labels": (X3, [1, 2], ValueError, r"X has 3 rows, y has 2 labels"),
    "three columns": (X3, [(1, 2, 3)] * 3, ValueError, r"y should be a 1d array .* shape \(3, 3\)"),
    "two rows": (X3, np.array([[1, 1, 1], [2, 2, 2]]), ValueError, r"numpy.column_stack"),
    "one label": (X3, 1, ValueError, r"y should be a 1d array of labels, got 1 instead"),
    "no labels": (X3, None, ValueError, r"requires y to be passed"),
    "sparse labels": (X3, csr_array(np.ones((3, 1))), TypeError, r"y must be a dense table"),
    "NaN": (NAN, [1, 2, 3], ValueError, r"X, row 1: feature 1 is NaN"),
    "infinity": (INF, [1, 2, 3], ValueError, r"X, row 2: feature 0 is -inf"),
    "sparse NaN": (csr_array(NAN), [1, 2, 3], ValueError, r"X, row 1: feature 1 is NaN"),
    "named NaN": (pd.DataFrame(NAN, columns=["age", "size"]), [1, 2, 3], ValueError, r"X, row 1: feature 'size' is NaN"),
    "strings": ([["a", "b"]] * 3, [1, 2, 3], ValueError, r"X, row 0: feature 0 is 'a', not a number"),
    "X for y": ([1, 2, 3], X3, ValueError, r"shape \(3,\): are X and y swapped\? Reshape"),
    "one-dimensional X": ([0.1, 0.2, 0.3], [1, 2, 3], ValueError, r"shape \(3,\): are X and y swapped\? Reshape"),
}  # fmt: skip


@pytest.mark.parametrize("cls", LINEAR)
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_and_changes_nothing(cls, case):
    X, y, error, message = REFUSED[case]
    unfitted = cls(classes=[1, 2, 3])
    before = pickle.dumps(unfitted)
    for method in (unfitted.fit, unfitted.partial_fit):
        with pytest.raises(error, match=message):
            method(X, y)
        assert pickle.dumps(unfitted) == before
    if case == "named NaN":
        unfitted.partial_fit(pd.DataFrame(X3, columns=X.columns), [1, 2, 3])
    else:
        unfitted.partial_fit(X3, [1, 2, 3])
    before = pickle.dumps(unfitted)
    for method in (unfitted.fit, unfitted.partial_fit):
        with pytest.raises(error, match=message):
            method(X, y)
        assert pickle.dumps(unfitted) == before


@pytest.mark.parametrize("cls", LINEAR)
@pytest.mark.parametrize("case", ["NaN", "infinity", "sparse NaN"])
def test_predict_refuses_what_is_not_finite(cls, case):
    X, _, error, message = REFUSED[case]
    model = cls(classes=[1, 2, 3]).partial_fit(X3, [1, 2, 3])
    for method in ("predict", "decision_function"):
        with pytest.raises(error, match=message):
            getattr(model, method)(X)


@pytest.mark.parametrize(
    ("kind", "part", "position", "value"),
    [
        (csr_array, "indices", 3, 2),
        (csr_array, "indices", 3, -1),
        (csc_array, "indices", 3, 3),
        (csr_array, "indptr", 0, 1),
        (csr_array, "indptr", -1, 7),
        (csr_array, "indptr", 1, 5),
        (csc_array, "indptr", 1, 9),
        (coo_array, "row", 3, 3),
        (coo_array, "col", 3, 2),
    ],
)
def test_a_damaged_matrix_is_refused_before_it_is_read(kind, part, position, value):
    """By itself, SciPy does not look at the indices: it would read memory that is not ours."""
    X = kind(X3)
    getattr(X, part)[position] = value
    with pytest.raises(ValueError, match="X is damaged: "):
        PRIL(classes=[1, 2, 3]).partial_fit(X, [1, 2, 3])


def test_a_matrix_whose_arrays_have_other_lengths_is_refused():
    for part in ("indptr", "data", "indices"):
        X = csr_array(X3)
        setattr(X, part, getattr(X, part)[:-1])
        with pytest.raises(ValueError, match="X is damaged: "):
            PRIL(classes=[1, 2, 3]).partial_fit(X, [1, 2, 3])


def test_what_a_matrix_stores_behind_its_end_is_not_read():
    X = csr_array(X3)
    X.data, X.indices = np.append(X.data, 9.0), np.append(X.indices, np.int32(99))
    models = [PRIL(classes=[1, 2, 3]).partial_fit(rows, [1, 2, 3]) for rows in (X, csr_array(X3))]
    np.testing.assert_array_equal(models[0].coef_, models[1].coef_)


@pytest.mark.parametrize("cls", LINEAR)
def test_wrong_number_of_features(cls):
    model = cls(classes=[1, 2]).partial_fit([[0.1, 0.2]], [1])
    for call in (lambda X: model.predict(X), lambda X: model.partial_fit(X, [1])):
        with pytest.raises(ValueError, match=r"X has 3 features, but .* is expecting 2"):
            call([[0.1, 0.2, 0.3]])


INVALID = {"max_iter": 0, "rate": 0.0, "noise": 7, "decision": "best", "half_life": -1.0,
           "gamma": -1.0, "budget": 0, "tol": "x", "shuffle": 3}  # fmt: skip


@pytest.mark.parametrize("cls", ALL)
def test_parameters_that_change_later_are_validated(cls):
    X, y, _ = table(K=3)
    for name, value in INVALID.items():
        if name not in cls().get_params():
            continue
        model = cls(classes=[1, 2, 3]).partial_fit(X, y)
        usual, before = model.get_params()[name], model.decision_function(X)
        model.set_params(**{name: value})
        calls = [
            partial(model.partial_fit, X, y),
            partial(progressive, model, X, y),
            partial(model.fit, X, y),
            partial(model.predict, X),
            *([model.stream] if hasattr(model, "stream") else []),
        ]
        for call in calls * 2:
            with pytest.raises(ValueError, match=f"'{name}' parameter"):
                call()
        model.set_params(**{name: usual})
        np.testing.assert_array_equal(model.decision_function(X), before)
        assert model.partial_fit(X, y).t_ == 2 * len(X)


def test_a_stream_keeps_the_parameters_it_began_with():
    """Also when a new feature comes; what is invalid is refused as soon as it would be used."""
    changed, twin = (OrderedLogit(classes=[1, 2, 3]).stream() for _ in range(2))
    rows = [({"a": 1.0}, 3), ({"a": 0.5}, 1), ({"a": -1.0, "b": 2.0}, 2), ({"a": 1.0, "b": 1.0}, 1)]
    for t, (x, label) in enumerate(rows):
        if t == 1:
            changed.model.set_params(rate=-5)
        for stream in (changed, twin):
            stream.learn_one(x, label)
    assert changed.model.set_params(rate=10.0).coef_.tolist() == twin.model.coef_.tolist()
    fresh = OrderedLogit(classes=[1, 2, 3]).stream()
    fresh.model.set_params(average="yes")
    with pytest.raises(ValueError, match="'average' parameter"):
        fresh.learn_one({"a": 1.0}, 3)
    assert not hasattr(fresh.model, "classes_")


def test_prank_refuses_intervals_and_skips_what_is_not_labelled():
    X, y, intervals = table(K=2)
    t = int(np.argmax(intervals[:, 0] < intervals[:, 1]))
    with pytest.raises(ValueError, match=rf"y, row {t}: PRank learns from exact .* \(1, 2\)"):
        PRank().fit(X, intervals)
    silent = np.column_stack([y, y]).astype(float)
    silent[:10] = np.nan
    model = PRank(shuffle=False, max_iter=1, average=False).fit(X, silent)
    without = PRank(shuffle=False, max_iter=1, average=False).fit(X[10:], y[10:])
    np.testing.assert_array_equal(model.coef_, without.coef_)


@pytest.mark.parametrize(
    ("cls", "parameters"),
    [
        (PRIL, {"average": "yes"}),
        (WidrowHoff, {"normalize": 2}),
        (MulticlassPerceptron, {"fit_intercept": "no"}),
    ],
)
def test_parameters_are_checked_at_fit(cls, parameters):
    name = next(iter(parameters))
    with pytest.raises(ValueError, match=f"The '{name}' parameter of {cls.__name__} must be"):
        cls(**parameters).fit(X3, [1, 2, 3])


# --- Sensible at the edges ---


@pytest.mark.parametrize("cls", LINEAR)
def test_one_class_is_always_predicted(cls):
    model = cls().fit(X3, [5, 5, 5])
    assert model.classes_.tolist() == [5]
    assert model.predict(X3).tolist() == [5, 5, 5]
    assert model.score(X3, [5, 5, 5]) == 1.0
    assert model.n_mistakes_ == 0


@pytest.mark.parametrize("cls", LINEAR)
@pytest.mark.parametrize("K", [2, 100])
def test_few_and_many_classes(cls, K):
    X, y, _ = table(n=2000, d=1, K=K)
    model = cls(random_state=0, max_iter=20).fit(X, y)
    assert len(model.classes_) == K
    best_constant = np.abs(y - np.median(y)).mean()
    error = np.abs(model.predict(X) - y).mean()
    if cls is not MulticlassPerceptron or K == 2:  # which knows no order
        assert error < best_constant / 2


@pytest.mark.parametrize("cls", LINEAR)
def test_one_row_and_constant_features(cls):
    model = cls(classes=["low", "mid", "high"], max_iter=100).fit([[0.5]], ["mid"])
    assert model.predict([[0.5]]).tolist() == ["mid"]
    constant = cls(classes=[1, 2], random_state=0).fit(np.ones((10, 2)), [1] * 9 + [2])
    assert np.isfinite(constant.coef_).all()


@pytest.mark.parametrize("cls", LINEAR)
def test_denormal_features_are_learned_from(cls):
    tiny = np.array([[-5e-324], [5e-324]])
    model = cls(classes=[1, 2]).partial_fit(tiny, [1, 2])
    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.decision_function(tiny)).all()


@quiet
@pytest.mark.parametrize("cls", LINEAR)
def test_huge_features_are_refused_or_survived(cls):
    """Squares of 1e300 do not exist in float64: an error that says so, or a finite model."""
    huge = np.array([[1e300], [-1e300], [1e300], [-1e300]])
    model = cls(classes=[1, 2], max_iter=3, random_state=0)
    try:
        model.fit(huge, [2, 1, 2, 1])
    except ValueError as error:
        assert "overflowed" in str(error)  # noqa: PT017 - either outcome is right
        assert not hasattr(model, "classes_")
    else:
        assert np.isfinite(model.coef_).all()
        assert model.predict(huge).tolist() == [2, 1, 2, 1]


def test_a_weight_that_overflows_in_the_last_row_is_noticed():
    """No score is computed any more, so the loop cannot see it."""
    model = PRIL(classes=[1, 2, 3], average=False)
    with pytest.raises(ValueError, match="X is finite, but PRIL overflowed"):
        model.partial_fit([[1.7e308]], [3])
    assert not hasattr(model, "n_features_in_")


BARE = {"classes": range(4), "normalize": False}
OVERFLOWS = {
    "in the last row": (WidrowHoff(**BARE), [[1e3, 0], [0, 1e308]], None, "X, row 1: .*too large"),
    "seen in a later row": (
        PRIL(classes=range(4)), [[0, 1e308], [0, 1], [1, 1]], None, "X, row 1: .* too large",
    ),
    "of an inverse": (OrderedLogit(classes=range(4)), [[0, 0], [0, 1e-160]], None, "X, row 1: .*too small"),
    "of a weight": (
        WidrowHoff(**BARE), [[1e90], [1e90]], [1, 1e96], r"sample_weight, row 1: .* 1e\+96 is too large a weight",
    ),
    "of a weight, seen in a later row": (
        WidrowHoff(**BARE), [[1e90], [1e90], [1.0]], [1, 1e96, 1], r"sample_weight, row 1: .* 1e\+96 is too large a weight",
    ),
    "of features beside weights": (WidrowHoff(**BARE), [[1e3], [1e308]], [1, 5], "X, row 1: .*too large"),
}  # fmt: skip


@pytest.mark.parametrize("container", [np.asarray, csr_array])
@pytest.mark.parametrize("case", OVERFLOWS)
def test_an_overflow_names_its_row_and_its_cause(case, container):
    model, X, weight, message = OVERFLOWS[case]
    with pytest.raises(ValueError, match=message):
        clone(model).partial_fit(container(X, dtype=float), [3] * len(X), sample_weight=weight)


def test_an_overflow_of_the_first_row_names_it():
    model = WidrowHoff(**BARE).partial_fit([[1e3]], [3])
    with pytest.raises(ValueError, match="X, row 0: X is finite, but WidrowHoff overflowed"):
        model.partial_fit([[1e308], [1.0]], [3, 3])


def test_mpril_warns_of_features_out_of_range():
    X = np.array([[0.5, -3.0], [0.25, 1.0]])
    with pytest.warns(FeatureRangeWarning, match=r"X reaches -3: MPRIL expects .* \[-1, 1\]"):
        MPRIL(classes=[1, 2]).fit(X, [1, 2])


def test_strings_without_an_order_warn():
    with pytest.warns(ClassOrderWarning, match=r"sorted as strings, \['high', 'low', 'mid'\]"):
        PRIL().fit(X3, ["low", "mid", "high"])
    model = PRIL(classes=["low", "mid", "high"]).fit(X3, ["low", "mid", "high"])
    assert model.order_.tolist() == ["low", "mid", "high"]


# --- What cannot change once something was learned ---


@pytest.mark.parametrize(
    ("cls", "name", "value"),
    [
        (PRIL, "average", False),
        (MPRIL, "rate", 0.5),
        (MPRIL, "signed", False),
        (WidrowHoff, "fit_intercept", False),
        (MulticlassPerceptron, "average", False),
    ],
)
def test_parameters_that_give_the_model_its_meaning_stay(cls, name, value):
    X, y, _ = table()
    model = cls(classes=[1, 2, 3, 4]).partial_fit(X, y)
    before, learned = model.get_params()[name], model.predict(X)
    model.set_params(**{name: value})
    for call in (lambda: model.partial_fit(X, y), lambda: model.predict(X), lambda: model.coef_):
        with pytest.raises(ValueError, match=f"{name} was {before!r} when learning began and is"):
            call()
    np.testing.assert_array_equal(model.set_params(**{name: before}).predict(X), learned)
    model.set_params(**{name: value}).fit(X, y)


def test_classes_stay_in_every_spelling():
    X, y, _ = table()
    model = PRIL(classes=[1, 2, 3, 4]).partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must stay the same"):
        model.set_params(classes=[4, 3, 2, 1]).partial_fit(X, y)
    sizes = pd.Categorical(["S", "L"], categories=["S", "M", "L"], ordered=True)
    model = PRIL().partial_fit(X[:2], sizes)
    model.partial_fit(X[:2], pd.Categorical(["S", "M"], categories=["S", "M"], ordered=True))
    reverse = pd.Categorical(["S", "L"], categories=["L", "M", "S"], ordered=True)
    with pytest.raises(ValueError, match=r"ordered \['L', 'M', 'S'\], against the classes"):
        model.partial_fit(X[:2], reverse)


def test_an_empty_first_chunk_is_still_checked():
    with pytest.raises(ValueError, match="X has 0 rows, y has 2 labels"):
        PRIL().partial_fit(np.empty((0, 2)), [1, 2], classes=[1, 2])
    with pytest.raises(ValueError, match="classes names 1 more than once"):
        PRIL().partial_fit(np.empty((0, 2)), [], classes=[1, 1])


def test_score_refuses_a_backwards_interval():
    X, y, _ = table()
    model = PRIL(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match="y, row 0: lower end 4 is above upper end 1"):
        model.score(X, [(4, 1)] * len(X))


def test_attributes_are_no_windows_into_the_model():
    X, y, _ = table()
    model = MulticlassPerceptron(average=False, random_state=0).fit(X, y)
    before = model.predict(X)
    model.intercept_[:] = 1e9
    model.coef_[:] = 1e9
    np.testing.assert_array_equal(model.predict(X), before)
    assert MulticlassPerceptron().fit(X, [1] * len(X)).coef_.shape == (1, 4)


def test_open_ends_want_a_splitter_without_strata():
    """scikit-learn looks at y to choose a splitter for cv=3, and stumbles over gaps."""
    X, _, intervals = table()
    y = intervals.astype(float)
    y[::7, 1] = np.nan
    scores = cross_val_score(PRIL(classes=[1, 2, 3, 4]), X, y, cv=KFold(3))
    assert np.isfinite(scores).all()


# --- Weights through scikit-learn ---


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@quiet
@pytest.mark.parametrize("cls", LINEAR)
@pytest.mark.usefixtures("routing")
def test_weights_are_routed_through_searches(cls):
    """Half the rows weigh nothing, for learning and for judging: as if they were not there."""
    X, y, _ = table()
    weight = np.arange(len(X)) % 2.0
    learner = cls(classes=[1, 2, 3, 4], random_state=0).set_fit_request(sample_weight=True)
    pipeline = make_pipeline(StandardScaler().set_fit_request(sample_weight=True), learner)
    folds = PredefinedSplit(np.arange(len(X)) // 2 % 3)
    scoring = clone(interval_accuracy_scorer).set_score_request(sample_weight=True)
    weighted = cross_validate(
        pipeline, X, y, cv=folds, scoring=scoring, params={"sample_weight": weight}
    )["test_score"]
    used = weight > 0
    halves = PredefinedSplit((np.arange(len(X)) // 2 % 3)[used])
    plain = make_pipeline(StandardScaler(), cls(classes=[1, 2, 3, 4], random_state=0))
    expected = cross_validate(
        plain, X[used], y[used], cv=halves, scoring=clone(interval_accuracy_scorer)
    )["test_score"]
    np.testing.assert_array_equal(weighted, expected)
    search = GridSearchCV(
        pipeline, {f"{cls.__name__.lower()}__max_iter": [50]}, scoring=scoring, cv=folds
    )
    search.fit(X, y, sample_weight=weight)
    assert 0 < search.best_score_ <= 1


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        ([1, 2, -1], r"sample_weight, row 2: -1\.0 is not a weight"),
        ([1, np.nan, 1], r"row 1: nan is not a weight: it must be finite, not missing or negative"),
        ([np.inf, 1, 1], r"sample_weight, row 0: inf is not a weight"),
        ([1, 2e100, 0], r"sample_weight, row 1: 2e\+100 is too large"),
        ([1, 0, 5e-101], r"sample_weight, row 2: 5e-101 is too small"),
        ([0, 0, 0], r"sample_weight is zero for every row"),
        ([1, 1], r"sample_weight has shape \(2,\), expected \(3,\)"),
        (["a", "b", "c"], r"sample_weight must be a 1d array of numbers"),
    ],
)
@pytest.mark.parametrize("cls", LINEAR)
def test_weights_that_are_none_are_refused(cls, weight, message):
    model = cls(classes=[1, 2])
    with pytest.raises(ValueError, match=message):
        model.fit([[0.1], [0.2], [0.3]], [1, 2, 1], weight)
    assert not hasattr(model, "classes_")


def test_the_largest_and_the_smallest_weight_are_taken():
    X, y = [[0.1], [0.2], [0.3]], [1, 2, 1]
    model = PRIL(classes=[1, 2], max_iter=1, shuffle=False).fit(X, y, [1e100, 1e-100, 0.0])
    assert model.t_ == 2


@pytest.mark.parametrize("cls", linear(averages=True))
def test_half_life_may_change_between_calls(cls):
    X, y, _ = table()
    model = cls(classes=[1, 2, 3, 4]).partial_fit(X, y)
    kept = model.coef_
    model.set_params(half_life=5).partial_fit(X[:50], y[:50])
    assert not np.array_equal(kept, model.coef_)
    with pytest.raises(ValueError, match="The 'half_life' parameter"):
        model.set_params(half_life=0).partial_fit(X, y)


@pytest.mark.filterwarnings("error::pril.errors.FeatureRangeWarning")
def test_features_far_from_zero_are_warned_of():
    """Their mean hides how they differ: the learners then do little better than chance."""
    X, y = make_synthetic(200, random_state=0)
    frame = pd.DataFrame({"size": X[:, 0], "year": 2020.0 + 5.0 * X[:, 1], "here": 1.0})
    said = (
        r"^X: the mean of the feature 'year' is 20\d\d, far from zero beside its standard deviation "
        r"of [\d.]+: centre the features, for example with StandardScaler$"
    )
    with pytest.warns(FeatureRangeWarning, match=said):
        PRIL(random_state=0).fit(frame, y)
    OrderedLogit().fit(frame, y)  # finds the maximum wherever the features are
    with pytest.warns(FeatureRangeWarning, match="the mean of the feature 1 is"):
        PRIL(random_state=0).fit(frame.to_numpy(), y)
    rare = np.column_stack([X, np.arange(200) != 3])  # a mean of 14 standard deviations
    for near in (frame[["size", "here"]], frame.assign(year=X[:, 1] + 1.0), rare):
        PRIL(random_state=0).fit(near, y)
    make_pipeline(StandardScaler(), PRIL(random_state=0)).fit(frame, y)


@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba", "predict_cumulative"])
@pytest.mark.parametrize("kind", [PRIL, KernelPRIL, MulticlassPerceptron])
def test_learners_without_probabilities_name_those_that_have_them(kind, name):
    said = f"{kind.__name__} has no {name}: use OrderedLogit or OrderedBoosting"
    with pytest.raises(AttributeError, match=said):
        getattr(kind(), name)
    assert not hasattr(kind, name)
    assert not hasattr(kind(), name)
