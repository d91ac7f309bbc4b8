"""Losses against the paper's equations, in ranks whatever the coding."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import GridSearchCV, KFold

import reference
from pril import PRIL, OrderedLogit
from pril.labels import ClassOrderWarning
from pril.metrics import (
    calibration_error,
    interval_absolute_error,
    interval_accuracy,
    interval_accuracy_scorer,
    interval_hinge_loss,
    interval_log_loss,
    neg_interval_absolute_error_scorer,
    neg_interval_log_loss_scorer,
    ranked_probability_score,
)

K = 5
rounds = st.lists(
    st.tuples(
        st.floats(-10, 10),
        st.tuples(st.integers(1, K), st.integers(1, K)).map(sorted),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=20,
)
thresholds = st.lists(st.floats(-10, 10), min_size=K - 1, max_size=K - 1).map(sorted)


@given(rounds, thresholds)
def test_losses_are_the_papers_equations(rounds, theta):
    scores, y, weight = map(list, zip(*rounds, strict=True))
    predicted = [reference.predict(f, theta) for f in scores]
    known = {"classes": range(1, K + 1), "sample_weight": weight}
    errors = [reference.absolute(f, theta, *ends) for f, ends in zip(scores, y, strict=True)]
    hinges = [reference.hinge(f, theta, *ends) for f, ends in zip(scores, y, strict=True)]
    assert interval_absolute_error(y, predicted, **known) == pytest.approx(
        np.average(errors, weights=weight)
    )
    assert interval_accuracy(y, predicted, **known) == pytest.approx(
        np.average(np.equal(errors, 0), weights=weight)
    )
    assert interval_hinge_loss(y, scores, theta, **known) == pytest.approx(
        np.average(hinges, weights=weight)
    )


def test_errors_count_ranks_not_codes():
    assert interval_absolute_error([3, 3, 7], [7, 5, 7]) == 1.0
    sizes = ["S", "M", "L"]
    assert interval_absolute_error([("S", "M"), ("L", "L")], ["L", "S"], classes=sizes) == 1.5


def test_predictions_bring_their_classes_along():
    assert interval_absolute_error([1, 1], [1, 3]) == 0.5
    assert interval_absolute_error([1, 1, 2], [1, 3, 2]) == pytest.approx(2 / 3)


def test_open_ends():
    y, classes = [(None, 2), (4, None)], [1, 2, 3, 4, 5]
    assert interval_accuracy(y, [1, 5], classes=classes) == 1.0
    assert interval_absolute_error(y, [4, 1], classes=classes) == pytest.approx(5 / 2)


def test_rows_without_a_label_are_left_out():
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(1, K + 1, (40, 2)), axis=1).astype(float)
    y[::2] = np.nan
    labelled, predicted = ~np.isnan(y[:, 0]), rng.integers(1, K + 1, 40)
    weight, known = rng.random(40), {"classes": range(1, K + 1)}
    for metric, said, rest in (
        (interval_absolute_error, predicted, []),
        (interval_accuracy, predicted, []),
        (interval_hinge_loss, rng.normal(size=40), [[-1.0, 0.0, 1.0, 2.0]]),
    ):
        weights = {"sample_weight": weight[labelled]}
        expected = metric(y[labelled], said[labelled], *rest, **known, **weights)
        assert metric(y, said, *rest, **known, sample_weight=weight) == expected
        with pytest.raises(ValueError, match="y_true has no row with a label"):
            metric(y[::2], said[::2], *rest, **known)


def test_scorers_take_the_order_from_the_estimator():
    X, y = np.arange(6.0).reshape(-1, 1), ["lo", "lo", "mid", "mid", "up", "up"]
    model = PRIL(classes=["up", "mid", "lo"], max_iter=200, random_state=0).fit(X, y)
    wrong = ["up"] * 6
    error = interval_absolute_error(wrong, model.predict(X), classes=["up", "mid", "lo"])
    assert neg_interval_absolute_error_scorer(model, X, wrong) == -error
    assert interval_accuracy_scorer(model, X, y) == model.score(X, y)


def test_strings_without_an_order_warn():
    with pytest.warns(ClassOrderWarning, match="y_true were sorted"):
        interval_absolute_error(["a", "b", "c"], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: interval_absolute_error([1, 2], [1]), "y_true has 2 rows, y_pred has 1 labels"),
        (lambda: interval_absolute_error([1, 2], [1, None]), "y_pred, row 1: the label is missing"),
        (lambda: interval_accuracy([1, 2], [1, 9], classes=[1, 2]), "y_pred, row 1: 9 is not one"),
        (lambda: interval_accuracy([(2, 1)], [1]), "y_true, row 0: lower end 2 is above"),
        (lambda: interval_accuracy([1, 2], [(1, 1), (2, 2)]), "y_pred should be a 1d array"),
        (
            lambda: interval_hinge_loss([1, 2], [0.0, 0.0], [0.0, 1.0]),
            r"thresholds must have shape",
        ),
        (
            lambda: interval_hinge_loss([1, 2], [0.0], [0.0]),
            "y_true has 2 rows, scores has 1 labels",
        ),
        (
            lambda: interval_hinge_loss([1, 2, 3], [0.0] * 3, [1, 0]),
            r"thresholds must be finite and ascend, got \[1.0, 0.0\]",
        ),
        (lambda: interval_hinge_loss([1, 2], [[0.0, 1.0]] * 2, [0.0]), "scores must be a 1d array"),
        (
            lambda: interval_hinge_loss([1, 2], ["a", "b"], [0.0]),
            "scores, row 0: 'a' is not a number",
        ),
        (lambda: interval_hinge_loss([1, 2], 0.0, [0.0]), "scores must be a 1d array"),
        (lambda: interval_hinge_loss([1, 2, 3], [0.0] * 3, [0, np.inf]), "thresholds must be fin"),
        (lambda: interval_hinge_loss(range(4), [0.0] * 4, [1, 0, 2]), "thresholds must be finite"),
        (lambda: interval_hinge_loss([1, 2], [0.0, np.inf], [0.0]), "scores, row 1: .* not finite"),
        (
            lambda: interval_absolute_error([1, 2], [1.5, 2]),
            r"y_pred, row 0: Unknown label type: continuous. 1\.5",
        ),
        (lambda: interval_accuracy([1, 2], [1, 2], sample_weight=[0, 0]), "sample_weight is zero"),
        (
            lambda: interval_accuracy([1, 2], [1, 2], sample_weight=[1, -1]),
            "row 1: -1.0 is not a weight",
        ),
        (lambda: interval_accuracy([1, 2], [1, 2], sample_weight=[1, np.inf]), "must be finite"),
        (lambda: interval_accuracy([1, 2], [1, 2], sample_weight=[1]), "sample_weight has shape"),
        (lambda: interval_accuracy([], [], classes=[1]), "no row with a label"),
    ],
)
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_a_weight_of_zero_leaves_a_row_out():
    assert interval_absolute_error([1, 2, 3], [2, 2, 1], sample_weight=[1, 1, 0]) == 0.5


def test_numbers_and_strings_cannot_be_compared():
    with pytest.raises(
        TypeError, match="y_true and y_pred must both be numbers or both be strings"
    ):
        interval_accuracy(["a", "b"], [1, 2])


def test_classes_are_wide_enough_for_both():
    assert interval_absolute_error(np.array([1, 2], dtype=np.int8), [300, 2]) == 1.0


# --- Probabilities -------------------------------------------------------------------------------

probabilities = st.lists(st.integers(0, 9), min_size=K, max_size=K).filter(sum)
forecasts = st.lists(
    st.tuples(
        probabilities.map(lambda parts: np.array(parts) / sum(parts)),
        st.tuples(st.integers(1, K), st.integers(1, K)).map(sorted),
        st.integers(1, 9),
    ),
    min_size=1,
    max_size=20,
)


@given(forecasts)
def test_probabilities_are_scored_by_their_definitions(forecasts):
    proba, y, weight = map(list, zip(*forecasts, strict=True))
    known = {"classes": range(1, K + 1), "sample_weight": weight}
    chance = [p[left - 1 : right].sum() for p, (left, right) in zip(proba, y, strict=True)]
    smallest = np.finfo(float).eps
    losses = [-math.log(min(max(p, smallest), 1.0)) for p in chance]
    assert interval_log_loss(y, proba, **known) == pytest.approx(
        np.average(losses, weights=weight), abs=1e-12
    )
    exact = [t for t, (left, right) in enumerate(y) if left == right]
    if not exact:
        for metric in (ranked_probability_score, calibration_error):
            with pytest.raises(ValueError, match="no row with an exact label"):
                metric(y, proba, **known)
        return
    scores = [sum((proba[t][:i].sum() - (y[t][0] <= i)) ** 2 for i in range(1, K)) for t in exact]
    assert ranked_probability_score(y, proba, **known) == pytest.approx(
        np.average(scores, weights=[weight[t] for t in exact]), abs=1e-12
    )


def test_the_calibration_error_is_that_of_ten_bins():
    """The definition, one threshold and one bin after the other."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet([1, 2, 1, 1], size=500)
    y = np.array([rng.choice([1, 2, 3, 4], p=p) for p in proba])
    weight = rng.integers(1, 5, 500)
    errors = []
    for i in range(1, 4):
        below, true = proba[:, :i].sum(axis=1), y <= i
        bins = [(below >= k / 10) & (below < (k + 1) / 10) for k in range(10)]
        errors.append(
            sum(
                weight[rows].sum()
                / weight.sum()
                * abs(
                    np.average(below[rows], weights=weight[rows])
                    - np.average(true[rows], weights=weight[rows])
                )
                for rows in bins
                if rows.any()
            )
        )
    assert calibration_error(y, proba, sample_weight=weight) == pytest.approx(np.mean(errors))
    assert calibration_error([1, 2], [[1.0, 0.0], [0.0, 1.0]]) == 0.0
    assert calibration_error([2, 1], [[1.0, 0.0], [0.0, 1.0]]) == 1.0
    last_bin = [[1.0, 0.0], [0.95, 0.05]]  # it includes 1: a mean of 0.975, a share of a half
    assert calibration_error([2, 1], last_bin) == pytest.approx(0.475)


@pytest.mark.parametrize(
    ("proba", "message"),
    [
        ([[0.5, 0.5]], "inconsistent"),
        ([[0.5, 0.5], [0.5, 0.6]], "y_proba, row 1: .*add up to 1"),
        ([[0.5, 0.5], [1.5, -0.5]], "y_proba, row 1"),
        ([[0.5, 0.5], [float("nan"), 0.5]], "y_proba, row 1"),
        ([[1.0], [1.0]], r"each of the 2 classes, got shape \(2, 1\): \[1, 2\]; pass classes="),
        ([1.0, 0.0], r"each of the 2 classes, got shape \(2,\)"),
        ([["a", "b"]] * 2, "y_proba must hold numbers, got <U1"),
    ],
)
@pytest.mark.parametrize("metric", [interval_log_loss, ranked_probability_score, calibration_error])
def test_wrong_probabilities_are_refused(metric, proba, message):
    with pytest.raises((ValueError, TypeError), match=message):
        metric([1, 2], proba)


def test_single_precision_probabilities_are_fine():
    proba = np.full((3, 3), 1 / 3, dtype=np.float32)
    assert interval_log_loss([1, 2, 3], proba) == pytest.approx(math.log(3), rel=1e-6)
    assert interval_log_loss([1, 2], [[1, 0], [0, 1]]) == 0.0  # and so are whole numbers


def test_the_log_loss_scorer_uses_the_probabilities():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    y = np.digitize(X[:, 0], [-0.5, 0.5]) + 1
    model = OrderedLogit(random_state=0).fit(X, y)
    pairs, weight = np.column_stack([y, np.minimum(y + 1, 3)]), rng.integers(1, 4, 200)
    loss = interval_log_loss(pairs, model.predict_proba(X), classes=[1, 2, 3], sample_weight=weight)
    assert neg_interval_log_loss_scorer(model, X, pairs, sample_weight=weight) == -loss
    search = GridSearchCV(
        OrderedLogit(classes=[1, 2, 3], random_state=0),
        {"alpha": [1e4, 0.3]},  # with the first it hardly learns
        scoring=neg_interval_log_loss_scorer,
        cv=KFold(3),
    ).fit(X, pairs)
    assert search.best_params_ == {"alpha": 0.3}
