"""Progressive evaluation as a user sees it (its rounds are tested with the loop); the bootstrap."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import MPRIL, PRIL, MulticlassPerceptron, OrderedLogit
from pril.datasets import make_synthetic
from pril.evaluate import bootstrap, progressive
from pril.labels import make_intervals
from pril.metrics import interval_absolute_error

X = np.array([[0.5], [-0.5], [0.25], [-0.25]])
y = [(2, 3), (1, 1), (None, 2), (1, 2)]


def test_it_learns_and_goes_on():
    whole, halves = PRIL(classes=[1, 2, 3]), PRIL(classes=[1, 2, 3])
    at_once = progressive(whole, X, y)
    first, second = progressive(halves, X[:2], y[:2]), progressive(halves, X[2:], y[2:])
    np.testing.assert_array_equal(
        at_once.predictions, np.concatenate([first.predictions, second.predictions])
    )
    np.testing.assert_array_equal(whole.coef_, halves.coef_)
    assert at_once.running_loss[-1] == interval_absolute_error(
        y, at_once.predictions, classes=[1, 2, 3]
    )


def test_running_means_are_of_the_rows_with_a_label():
    gaps = [(None, None), *y[:2], (None, None), *y[2:]]
    progress = progressive(PRIL(classes=[1, 2, 3]), np.insert(X, [0, 2], 0.0, axis=0), gaps)
    labelled = [1, 2, 4, 5]
    for values, means in (
        (progress.losses, progress.running_loss),
        (progress.hinge_losses, progress.running_hinge_loss),
    ):
        assert np.isnan(means[0])
        np.testing.assert_array_equal(means[labelled], np.cumsum(values[labelled]) / range(1, 5))
        assert means[3] == means[2]
    assert progress.labelled.nonzero()[0].tolist() == labelled


def test_scores_have_one_column_a_class_where_the_learner_has():
    assert progressive(PRIL(), X, y, [1, 2, 3]).scores.shape == (4,)
    assert progressive(MulticlassPerceptron(), X, y, [1, 2, 3]).scores.shape == (4, 3)


def test_a_failure_changes_nothing():
    model = PRIL(classes=[1, 2, 3])
    with pytest.raises(ValueError, match="y, row 3: 9 is not one of the classes"):
        progressive(model, X, [1, 2, 3, 9])
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="no rows"):
        progressive(model, np.empty((0, 1)), [])


def test_a_fitted_model_takes_no_rows_as_no_rounds():
    model = PRIL(classes=[1, 2, 3]).partial_fit(X, y)
    assert len(progressive(model, np.empty((0, 1)), []).predictions) == 0


def test_what_it_cannot_run_is_refused():
    with pytest.raises(TypeError, match="the learners of this package, got Pipeline"):
        progressive(make_pipeline(StandardScaler(), PRIL()), X, y)
    with pytest.raises(ValueError, match="The 'rate' parameter of MPRIL must be"):
        progressive(MPRIL(rate=-1.0, classes=[1, 2, 3]), X, y)


# --- Uncertainty ----------------------------------------------------------------------------------


def test_marginal_effects_are_the_slopes_of_the_probabilities():
    X, y = make_synthetic(80, random_state=0)
    words = np.array(["poor", "fair", "good", "great", "best"], dtype=object)
    model = OrderedLogit(classes=words, random_state=0).fit(X, words[y - 1])
    effects = model.marginal_effects(X)
    step = 1e-5 * np.eye(2)
    slopes = [
        np.mean(model.predict_proba(X + h) - model.predict_proba(X - h), axis=0) / 2e-5
        for h in step
    ]
    np.testing.assert_allclose(effects, slopes, atol=1e-8)
    np.testing.assert_allclose(effects.sum(axis=1), 0.0, atol=1e-12)


def test_the_bootstrap_is_the_spread_of_models_of_resampled_rows():
    X, exact = make_synthetic(60, random_state=1)
    y = make_intervals(exact, fraction=0.5, random_state=1)
    y = np.vstack([y, [[np.nan, np.nan]]])  # a row without a label is never drawn
    X = np.vstack([X, [[9.0, 9.0]]])
    model = make_pipeline(StandardScaler(), OrderedLogit(random_state=0))
    table = bootstrap(model, X, y, n=5, level=0.5, random_state=3)

    def numbers(fitted):
        scaler, learner = fitted[0], fitted[1]
        effects = learner.marginal_effects(scaler.transform(X))  # a row for each feature
        return [*learner.coef_, *learner.thresholds_, *effects.ravel()]

    rng, samples = np.random.RandomState(3), []
    for _ in range(5):
        rows = rng.choice(60, size=60)
        again = clone(model).set_params(orderedlogit__classes=range(1, 6)).fit(X[rows], y[rows])
        samples.append(numbers(again))
    lower, upper = np.quantile(samples, [0.25, 0.75], axis=0)
    np.testing.assert_allclose(table[["lower", "upper"]], np.column_stack([lower, upper]))
    np.testing.assert_allclose(table["std_error"], np.std(samples, axis=0, ddof=1))
    whole = clone(model).fit(X[:60], y[:60])
    np.testing.assert_allclose(table["estimate"], numbers(whole))
    assert table["term"].value_counts().to_dict() == {"effect": 10, "threshold": 4, "weight": 2}


def test_the_table_of_the_bootstrap_names_its_terms_from_the_lowest_class_on():
    X, y = make_synthetic(60, random_state=0)
    words = np.array(["poor", "fair", "good", "great", "best"], dtype=object)
    model = OrderedLogit(classes=words, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    table = bootstrap(model, frame, words[y - 1], n=2, random_state=0)
    assert table["feature"].tolist() == [*"ab", *[None] * 4, *["a"] * 5, *["b"] * 5]
    assert table["class"].tolist() == [None, None, *words[:4], *words, *words]
    model.fit(frame, words[y - 1])
    effects = pd.DataFrame(model.marginal_effects(frame), columns=model.classes_)[words]
    np.testing.assert_array_equal(table["estimate"][6:], effects.to_numpy().ravel())
    assert bootstrap(OrderedLogit(), X, y, n=2)["feature"][:2].tolist() == ["0", "1"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n": 1}, "n must be an integer of at least 2, got 1"),
        ({"n": 2.5}, "n must be an integer of at least 2, got 2.5"),
        ({"level": 0.0}, "level must be above 0 and below 1, got 0.0"),
        ({"level": "most"}, "level must be above 0 and below 1, got 'most'"),
        ({"level": 1.0}, "level must be above 0 and below 1, got 1.0"),
        ({"estimator": PRIL()}, "estimator must be an OrderedLogit.* got PRIL"),
    ],
)
def test_the_bootstrap_refuses(arguments, message):
    X, y = make_synthetic(20, random_state=0)
    with pytest.raises((ValueError, TypeError), match=message):
        bootstrap(**{"estimator": OrderedLogit(), "X": X, "y": y, **arguments})


@pytest.mark.slow
def test_bootstrap_intervals_cover_the_weights():
    """Of 60 samples, the 90 % interval of a weight holds the true one in about 54."""
    rng = np.random.default_rng(0)
    inside = 0
    for seed in range(60):
        X = rng.normal(size=(400, 1))
        latent = X[:, 0] + rng.logistic(size=400)
        y = np.digitize(latent, [-1.0, 1.0])
        model = OrderedLogit(random_state=seed)
        row = bootstrap(model, X, y, n=60, level=0.9, random_state=seed).iloc[0]
        inside += row["lower"] <= 1.0 <= row["upper"]
    assert 46 <= inside <= 60
