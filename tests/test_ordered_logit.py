"""OrderedLogit as a user sees it: probabilities, decisions, scikit-learn's tools for them."""

import numpy as np
import pytest
from scipy.special import expit
from scipy.stats import logistic
from sklearn.calibration import CalibratedClassifierCV, CalibrationDisplay
from sklearn.metrics import get_scorer
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from threadpoolctl import threadpool_info, threadpool_limits

from pril import OrderedLogit
from pril.labels import make_intervals

CLASSES = [1, 2, 3, 4]


def table(n=1500, d=3, seed=0):
    """Return rows and exact labels drawn from an ordered logit, and its probabilities."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    f, theta = X @ np.array([2.0, -1.0, 0.5][:d]), np.array([-1.5, 0.0, 1.5])
    above = np.column_stack([np.ones(n), expit(f[:, np.newaxis] - theta), np.zeros(n)])
    y = np.digitize(f + logistic.rvs(size=n, random_state=seed), theta) + 1
    return X, y, -np.diff(above, axis=1)


@pytest.fixture(scope="module")
def model():
    X, y, _ = table()
    ranges = make_intervals(y, 1, 0.75, random_state=5)
    return OrderedLogit(classes=CLASSES, random_state=0).fit(X, ranges)


def test_it_finds_the_probabilities_behind_ranges():
    """Nearer than a learner that takes ranges as coarsened at random, whatever rows it has."""
    X, y, _ = table(10_000)
    ranges = make_intervals(y, 1, 0.75, random_state=5)
    rows, _, truth = table(seed=1)
    error = {}
    for coarsening in ("auto", "random"):
        model = OrderedLogit(classes=CLASSES, coarsening=coarsening)
        error[coarsening] = np.abs(model.fit(X, ranges).predict_proba(rows) - truth).mean()
    assert error["auto"] < 0.03
    assert error["auto"] < 0.6 * error["random"]


def test_probabilities_are_differences_of_the_logistic(model):
    X = table(seed=1)[0]
    theta = np.array([-np.inf, *model.thresholds_, np.inf])
    expected = np.diff(expit(theta - model.latent(X)[:, np.newaxis]), axis=1)
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-12)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(X)), expected, atol=1e-12)


@pytest.mark.parametrize("score", [-700.0, -40.0, 0.0, 40.0, 700.0])
def test_probabilities_far_out(model, score):
    x = model.coef_[np.newaxis] * score / (model.coef_ @ model.coef_)
    assert model.latent(x)[0] == pytest.approx(score)
    chances = model.predict_proba(x)[0]
    assert (chances >= 0).all()
    assert chances.sum() == pytest.approx(1, abs=1e-12)
    logs = model.predict_log_proba(x)[0]
    assert np.isfinite(logs).all()
    # In the tails the logistic is an exponential: each log falls as far as the score.
    if score == 700.0:
        assert logs[0] == pytest.approx(model.thresholds_[0] - 700, abs=1e-9)


def test_the_median_has_the_least_absolute_error_and_the_mode_the_largest_chance(model):
    X = table(seed=2)[0]
    chances = model.predict_proba(X)
    distance = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    median = np.array(CLASSES)[(chances @ distance).argmin(axis=1)]
    np.testing.assert_array_equal(model.predict(X), median)
    model.set_params(decision="mode")
    try:
        np.testing.assert_array_equal(model.predict(X), np.array(CLASSES)[chances.argmax(axis=1)])
        np.testing.assert_array_equal(
            model.decision_function(X).argmax(axis=1), chances.argmax(axis=1)
        )
    finally:
        model.set_params(decision="median")


@pytest.mark.parametrize("factor", [0.01, 8.0, 1e4])
def test_the_scale_of_the_features_does_not_matter_without_a_penalty(factor):
    X, y, _ = table(300)
    ranges = make_intervals(y, 1, 0.75, random_state=5)
    one, other = (
        OrderedLogit(classes=CLASSES, alpha=0.0).fit(scale * X, ranges) for scale in (1.0, factor)
    )
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(factor * X), atol=1e-4)


def test_it_learns_that_a_range_at_the_end_mostly_means_the_end():
    """Type 1 ranges {1, 2} come from every 1, and from half of the 2s."""
    X, y, _ = table(6000)
    ranges = make_intervals(y, 1, 0.75, random_state=5)
    given = OrderedLogit(classes=CLASSES).fit(X, ranges).coarsening_.table[0, 1]
    assert given[0] == pytest.approx(0.75, abs=0.02)
    assert given[1] == pytest.approx(0.375, abs=0.04)


def test_a_stream_takes_any_number_of_classes():
    """Its memory grows with them, not with their square."""
    sizes = []
    for K in (500, 1000):
        X = np.random.default_rng(0).normal(size=(400, 1))
        y = np.clip((K / 2 + K / 8 * X[:, 0]).round(), 1, K - 2).astype(int)
        ends = np.column_stack([y - 1, y + np.arange(400) % 2 * 5])
        model = OrderedLogit(classes=range(K)).partial_fit(X, np.clip(ends, 0, K - 1))
        assert np.corrcoef(model.predict(X), y)[0, 1] > 0.9
        sizes.append(model.memory_.numbers.size)
    assert sizes[1] < 2 * sizes[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rate", 0),
        ("cut_rate", -1),
        ("trust", -1),
        ("noise", 2),
        ("decision", "mean"),
        ("coarsening", "symmetric"),
    ],
)
def test_wrong_parameters_are_refused(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of OrderedLogit must be"):
        OrderedLogit(**{name: value}).fit([[0.0], [1.0]], [1, 2])


def test_one_class_is_predicted():
    model = OrderedLogit().fit([[0.0], [1.0]], [7, 7])
    assert model.predict([[5.0]]).tolist() == [7]
    assert model.predict_proba([[5.0]]).tolist() == [[1.0]]


# --- scikit-learn's tools for probabilities, on exact labels ---


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr", "accuracy"])
def test_scorers_of_probabilities(scoring):
    X, y, truth = table()
    learner = make_pipeline(StandardScaler(), OrderedLogit(classes=CLASSES, random_state=0))
    found = cross_val_score(learner, X, y, scoring=scoring, cv=3).mean()
    if scoring == "neg_log_loss":
        assert found == pytest.approx(np.log(truth[np.arange(len(y)), y - 1]).mean(), abs=0.05)
    else:
        assert found > 0.5
    assert get_scorer(scoring)(learner.fit(X, y), X, y) == pytest.approx(found, abs=0.1)


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
def test_calibrated_classifier(method):
    X, y, _ = table()
    model = CalibratedClassifierCV(OrderedLogit(random_state=0), method=method, cv=3).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1)


def test_calibration_display():
    X, y, _ = table()
    binary = (y > 2).astype(int)
    display = CalibrationDisplay.from_estimator(OrderedLogit().fit(X, binary), X, binary)
    assert np.abs(display.prob_true - display.prob_pred).max() < 0.25


def test_self_training():
    X, y, _ = table()
    partly = y.copy()
    partly[::2] = -1  # not labelled, as scikit-learn has it
    model = SelfTrainingClassifier(OrderedLogit(random_state=0)).fit(X, partly)
    assert model.score(X, y) > 0.5


@pytest.mark.parametrize("d", [1, 33])
def test_the_number_of_blas_threads_changes_no_bit(d):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(15_887, d)), rng.integers(0, 3, 15_887)
    models = []
    for n in (1, 2, 3):
        with threadpool_limits(n, user_api="blas"):
            models.append(OrderedLogit().fit(X, y))
            assert {one["num_threads"] for one in blas_libraries()} == {n}  # it is set back
    for other in models[1:]:
        np.testing.assert_array_equal(other.coef_, models[0].coef_)
        np.testing.assert_array_equal(other.thresholds_, models[0].thresholds_)


def blas_libraries():
    return [library for library in threadpool_info() if library["user_api"] == "blas"]
