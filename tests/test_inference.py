"""Standard errors, intervals and tests: against statsmodels, numerical derivatives, simulation."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pril
from pril import ColumnEncoder, OrderedLogit
from pril.core.fitting import Problem, fit, folds
from pril.core.learning import prepare
from pril.core.uncertainty import Uncertainty
from pril.errors import InputError, InputTypeError
from pril.inference import infer, likelihood_ratio
from pril.labels import make_intervals

THETA = np.array([-1.5, 0.0, 1.2])
W = np.array([1.0, -0.5, 0.3])


def table(n=400, seed=0, w=W):
    """Return rows and exact ranks, drawn from an ordered logit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, len(w)))
    return X, np.digitize(X @ w + rng.logistic(size=n), THETA)


def at_random(y, seed=0):
    """Return brackets of two questionnaires, handed out at random."""
    forms = np.array([[[0, 1], [0, 1], [2, 3], [2, 3]], [[0, 0], [1, 2], [1, 2], [3, 3]]])
    return forms[np.random.default_rng(seed).integers(2, size=len(y)), y]


def fitted(X, y, **parameters):
    return OrderedLogit(**{"classes": range(4), "alpha": 0.0, **parameters}).fit(X, y)


def differences(f, at, step=1e-5):
    """Return the derivatives of a function by central differences, a row for each number."""
    rows = []
    for j in range(len(at)):
        move = np.zeros(len(at))
        move[j] = step * max(1.0, abs(at[j]))
        rows.append((f(at + move) - f(at - move)) / (2.0 * move[j]))
    return np.array(rows)


def gradient(numbers, X, lo, hi):
    """Return the gradient of each row's log-likelihood, as it is written down."""
    d = X.shape[1]
    cut = np.concatenate([[-np.inf], numbers[d:], [np.inf]])
    below = expit(cut - (X @ numbers[:d])[:, np.newaxis])
    rows, density = np.arange(len(X)), below * (1.0 - below)
    z = below[rows, hi + 1] - below[rows, lo]
    by_cut = np.zeros_like(below)
    by_cut[rows, hi + 1] += density[rows, hi + 1] / z
    by_cut[rows, lo] -= density[rows, lo] / z
    return np.hstack([-by_cut.sum(axis=1, keepdims=True) * X, by_cut[:, 1:-1]])


# --- Exact labels, against statsmodels ---


@pytest.fixture(scope="module")
def ordered_model():
    return pytest.importorskip("statsmodels.miscmodels.ordinal_model").OrderedModel


def newton(model, **options):
    return model.fit(method="newton", disp=False, maxiter=100, **options)


def test_errors_and_criteria_agree_with_statsmodels(ordered_model):
    X, y = table()
    X = X * [1.0, 20.0, 0.1] + [5.0, -40.0, 0.0]
    model = fitted(X, y)
    result, expected = infer(model, X, y), newton(ordered_model(y, X, distr="logit"))
    np.testing.assert_allclose(result.estimate[:3], expected.params[:3], rtol=1e-6)
    np.testing.assert_allclose(result.std_error[:4], expected.bse[:4], rtol=1e-6)
    np.testing.assert_allclose(result.z[:4], expected.tvalues[:4], rtol=1e-6)
    np.testing.assert_allclose(result.p[:4], expected.pvalues[:4], rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(result.interval[:, :4].T, expected.conf_int()[:4], rtol=1e-6)
    numbers = [result.loglik, result.loglik_null, result.aic, result.bic, result.mcfadden]
    others = [expected.llf, expected.llnull, expected.aic, expected.bic, expected.prsquared]
    np.testing.assert_allclose(numbers, others, rtol=1e-8)
    kept = infer(model)
    np.testing.assert_allclose(kept.covariance, result.covariance, rtol=1e-9, atol=1e-12)
    assert (kept.aic, kept.bic) == (result.aic, result.bic)
    assert kept.mcfadden == pytest.approx(result.mcfadden, rel=1e-9)
    assert infer(fitted(X, at_random(y))).mcfadden is None  # of ranges, a file does not know it


def test_errors_by_groups_agree_with_statsmodels(ordered_model):
    X, y = table()
    groups = np.arange(400) // 8
    X[:, 0] += np.random.default_rng(1).normal(size=50)[groups]  # rows of a group are alike
    result = infer(fitted(X, y), X, y, groups=groups)
    options = {"cov_type": "cluster", "cov_kwds": {"groups": groups}}
    expected = newton(ordered_model(y, X, distr="logit"), **options)
    # Which also multiplies by (n - 1) / (n - p).
    factor = np.sqrt((400 - 6) / (400 - 1))
    np.testing.assert_allclose(result.std_error[:4], factor * expected.bse[:4], rtol=1e-5)


def test_errors_by_groups_leave_out_rows_without_a_label_or_weight():
    X, y = table()
    ends, weight, groups = np.column_stack([y, y]).astype(float), np.ones(400), np.arange(400) // 8
    ends[::7], weight[3::7] = np.nan, 0.0
    kept = ~np.isnan(ends[:, 0]) & (weight > 0.0)
    model = OrderedLogit(classes=range(4), alpha=0.0).fit(X, ends, sample_weight=weight)
    result = infer(model, X, ends, sample_weight=weight, groups=groups)
    expected = infer(model, X[kept], ends[kept], groups=groups[kept])
    np.testing.assert_array_equal(result.covariance, expected.covariance)
    assert "50 groups of rows" in str(result)


def test_an_offset_agrees_with_statsmodels(ordered_model):
    X, y = table()
    added = np.random.default_rng(1).normal(size=400)
    frame = pd.DataFrame(np.column_stack([X, added]), columns=["a", "b", "c", "added"])
    model = fitted(frame, y, offset="added")
    expected = newton(ordered_model(y, X, offset=added, distr="logit"))
    np.testing.assert_allclose(model.coef_[:3], expected.params[:3], rtol=1e-6)
    assert model.coef_[3] == 1.0
    result = infer(model, frame, y)
    np.testing.assert_allclose(result.std_error[:3], expected.bse[:3], rtol=1e-5)
    assert result.std_error[3] == 0.0
    assert np.isnan(result.p[3])
    assert result.n_parameters == 6
    assert result.loglik == pytest.approx(expected.llf)
    alone = fitted(added[:, np.newaxis], y, offset=0)
    assert result.loglik_null == pytest.approx(alone.loglik_)
    by_number = fitted(frame.to_numpy(), y, offset=3)
    np.testing.assert_array_equal(
        by_number.predict_proba(frame.to_numpy()), model.predict_proba(frame)
    )


# --- An offset ---


@pytest.mark.parametrize("form", [np.asarray, csr_array, np.float32])
def test_an_offset_is_what_the_score_begins_with(form):
    """Adding a multiple of a feature to the offset takes it from the feature's weight."""
    X, y = table()
    offset = X[:, 1]
    plain, moved = (
        fitted(form(np.column_stack([X, times * offset])), y, alpha=0.0, offset=3)
        for times in (0.0, 2.0)
    )
    np.testing.assert_allclose(moved.coef_ - plain.coef_, [0.0, -2.0, 0.0, 0.0], atol=1e-4)
    np.testing.assert_allclose(moved.thresholds_, plain.thresholds_, atol=1e-4)


def test_an_offset_of_many_features(monkeypatch):
    X, y = table()
    X = np.column_stack([X, 2.0 * X[:, 0]])
    few = fitted(X, y, alpha=1.0, offset=3)
    monkeypatch.setattr("pril.core.likelihood.MOST_DENSE", 2)
    np.testing.assert_allclose(fitted(X, y, alpha=1.0, offset=3).coef_, few.coef_, atol=1e-6)


def test_an_offset_of_ranges():
    """A constant that is added to the offset is added to the thresholds, and nothing else."""
    X, y = table()
    y = make_intervals(y, 1, 0.75, classes=range(4), random_state=0)
    settings = {"alpha": 0.3, "offset": 3, "coarsening": "random"}
    models = [fitted(np.column_stack([X, X[:, 0] + c]), y, **settings) for c in (0.0, 5.0)]
    np.testing.assert_allclose(models[1].coef_, models[0].coef_, atol=1e-6)
    np.testing.assert_allclose(models[1].thresholds_, models[0].thresholds_ + 5.0, atol=1e-6)


@pytest.mark.parametrize(
    ("learn", "message"),
    [
        (lambda X, y: fitted(X, y, offset="height"), "offset='height' is not one of the features"),
        (lambda X, y: fitted(X, y, offset=3), "offset=3 is not .* numbered 0 to 2"),
        (lambda X, y: OrderedLogit(offset=0).partial_fit(X, y, classes=range(4)), "offset=0 needs"),
        (lambda X, y: fitted(X, y, offset=0).stream().learn_one(X[0], 1), "offset=0 needs"),
    ],
)
def test_offsets_that_are_refused(learn, message):
    with pytest.raises(InputError, match=message):
        learn(*table())


# --- Ranges, against numerical derivatives ---


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("coarse", [lambda y: np.column_stack([y, y]), at_random])
def test_errors_are_from_the_derivatives_of_the_likelihood(coarse, grouped):
    X, y = table()
    ends, groups = coarse(y), np.arange(400) % 40
    # With so much trust in "at random", exact labels do not change the chances of ranges.
    model = fitted(X, ends, coarsening="random", trust=1e12)
    result = infer(model, X, ends, groups=groups if grouped else None)
    rows = gradient(result.estimate, X, *ends.T)
    bread = np.linalg.inv(
        -differences(lambda b: gradient(b, X, *ends.T).sum(axis=0), result.estimate)
    )
    if grouped:
        sums = np.array([rows[groups == g].sum(axis=0) for g in range(40)])
        expected = bread @ sums.T @ sums @ bread * (40 / 39)
    elif coarse is at_random:
        expected = bread @ rows.T @ rows @ bread
    else:
        expected = bread
    np.testing.assert_allclose(result.covariance, expected, rtol=1e-4, atol=1e-4 * expected.max())


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.6, 1.0])
def test_errors_allow_for_a_mechanism_that_follows(share):
    """They are the squares of how far the maximum moves if a row counts a little more."""
    X, y = table(150)
    y = make_intervals(y, 1, share, classes=range(4), random_state=0)
    model = OrderedLogit(classes=range(4), alpha=0.0, coarsening="offsets", trust=5.0)
    rows = model.labelled_rows(prepare(model, X, y, reset=True))
    settings = model.settings()
    here = fit(rows, settings).maximum

    def maximum(weight):
        moved = Problem(replace(rows, weight=weight), settings)
        found = moved.fit(here.point, here.mechanism, max_iter=2000, em_gain=1e-15).point
        return np.concatenate([found.weights, found.thresholds])

    slopes = differences(maximum, np.ones(150), 1e-3)
    here = Problem(rows, settings).fit(here.point, here.mechanism, max_iter=2000, em_gain=1e-15)
    covariance = Uncertainty(Problem(rows, settings), here).covariance()
    np.testing.assert_allclose(np.diag(covariance), (slopes**2).sum(axis=0), rtol=0.02)


def test_every_row_is_in_one_fold_and_learned_from_in_the_others():
    X, y = table(60)
    model = OrderedLogit(classes=range(4))
    rows = model.labelled_rows(prepare(model, X, np.column_stack([y, y]), reset=True))
    some = np.flatnonzero(np.arange(60) % 7)
    split = folds(replace(rows, weight=(np.arange(60) % 7 > 0).astype(float)))
    for outside, inside in split:
        np.testing.assert_array_equal(np.sort([*outside, *inside]), some)
    np.testing.assert_array_equal(np.sort(np.concatenate([own for _, own in split])), some)


# --- What must not matter ---


@pytest.fixture(scope="module", params=["exact", "at random", "offsets", "a quarter exact"])
def labelled(request):
    X, y = table(200)
    if request.param == "exact":
        return X, np.column_stack([y, y]), {}
    if request.param == "at random":
        return X, at_random(y), {"coarsening": "random"}
    share = 1.0 if request.param == "offsets" else 0.75
    y = make_intervals(y, 1, share, classes=range(4), random_state=0)
    return X, y, {"coarsening": "offsets"}


def test_the_order_of_rows_does_not_matter(labelled):
    X, y, options = labelled
    order = np.random.default_rng(0).permutation(len(X))
    one, two = (
        infer(fitted(X[i], y[i], alpha=0.3, **options), X[i], y[i]) for i in (slice(None), order)
    )
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-3, atol=1e-5)


def test_weights_are_numbers_of_rows(labelled):
    X, y, options = labelled
    times = 1 + np.arange(len(X)) % 2
    model = OrderedLogit(classes=range(4), coarsening="random", trust=1e-9)
    del options  # how many labels are exact must not count
    one = infer(model.fit(X, y, times), X, y, sample_weight=times)
    many, labels = np.repeat(X, times, axis=0), np.repeat(y, times, axis=0)
    two = infer(model.fit(many, labels), many, labels)
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-3, atol=1e-5)
    assert (one.n, one.n_parameters) == (two.n, two.n_parameters)
    assert one.bic == pytest.approx(two.bic)


def test_the_unit_of_a_feature_is_the_unit_of_its_error(labelled):
    X, y, options = labelled
    factors = np.array([1.0, 1000.0, 0.01])
    one = infer(fitted(X, y, alpha=1e-9, **options), X, y)
    two = infer(
        fitted(X * factors + [0.0, 3.0, 5.0], y, alpha=1e-9, **options),
        X * factors + [0.0, 3.0, 5.0],
        y,
    )
    np.testing.assert_allclose(two.std_error[:3], one.std_error[:3] / factors, rtol=1e-2)
    np.testing.assert_allclose(two.p[:3], one.p[:3], rtol=0.05, atol=1e-6)


def test_sparse_rows_have_the_same_errors(labelled):
    X, y, options = labelled
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    one = infer(fitted(X, y, alpha=0.3, **options), X, y, groups=np.arange(len(X)) % 50)
    two = infer(
        fitted(csr_array(X), y, alpha=0.3, **options),
        csr_array(X),
        y,
        groups=np.arange(len(X)) % 50,
    )
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        one.probabilities(X[:5]).lower, two.probabilities(csr_array(X[:5])).lower, rtol=1e-3
    )


def test_classes_that_have_vanished_have_no_errors():
    X, y = table(200)
    y = make_intervals(y, 1, 1.0, classes=range(4), random_state=0)
    model = fitted(X, y, coarsening="offsets")  # without a penalty, a class vanishes
    assert np.diff(model.thresholds_).min() < 1e-3
    assert not hasattr(model, "covariance_")
    with pytest.raises(InputError, match="errors are unknown"):
        infer(model, X, y)


def test_a_feature_that_says_nothing_new_is_not_a_parameter():
    X, y = table()
    doubled = np.column_stack([X, X[:, 0] + X[:, 1], np.ones(len(X))])
    one, two = infer(fitted(X, y), X, y), infer(fitted(doubled, y), doubled, y)
    assert two.n_parameters == one.n_parameters == 6
    assert two.aic == pytest.approx(one.aic)
    np.testing.assert_allclose(two.std_error[2], one.std_error[2], rtol=1e-5)


# --- Pipelines ---


def survey(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"age": rng.normal(40.0, 12.0, n), "town": rng.choice(["a", "b", "c"], n)})
    score = 0.05 * (frame["age"] - 40.0) + frame["town"].map({"a": 0.0, "b": 0.5, "c": 1.5})
    return frame, np.digitize(score + rng.logistic(size=n), THETA)


def test_words_are_relative_to_the_most_frequent_and_numbers_per_unit(ordered_model):
    """The errors are those of a model with dummies and this word left out."""
    frame, y = survey()
    frame.loc[:50, "town"] = "b"
    model = make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0)).fit(frame, y)
    result = infer(model, frame, y)
    assert [term[1] for term in result.terms[:4]] == ["age", "town=a", "town=b", "town=c"]
    age = frame["age"] - frame["age"].mean()  # the encoder has centred it
    X = np.column_stack([age, frame["town"] == "a", frame["town"] == "c"]).astype(float)
    expected = newton(ordered_model(y, X, distr="logit"))
    assert result.n_parameters == 6
    assert result.std_error[0] == pytest.approx(expected.bse[0], rel=1e-4)
    known = [0, 1, 3]
    np.testing.assert_allclose(result.estimate[known], expected.params[:3], rtol=1e-4)
    np.testing.assert_allclose(result.std_error[known], expected.bse[:3], rtol=1e-4)
    assert result.estimate[4] == pytest.approx(expected.params[3], rel=1e-4)
    assert result.std_error[4] == pytest.approx(expected.bse[3], rel=1e-4)
    assert (result.estimate[2], result.std_error[2]) == (0.0, 0.0)
    assert np.isnan(result.p[2])
    text = str(result)
    assert "words are relative to town=b\n" in text
    assert "weights are per unit," in text
    assert "the mean of each number and these words" in text
    assert [line.split() for line in text.splitlines() if line.startswith("town=b")] == [
        ["town=b", "0"]
    ]


@pytest.mark.parametrize("seed", range(3))
def test_words_from_ranges_can_be_saved_without_a_penalty(tmp_path, seed):
    """All words of a column determine each other: their own errors are huge, but not below zero."""
    frame, y = survey(seed=seed)
    learner = OrderedLogit(alpha=0.0, coarsening="random")
    model = make_pipeline(ColumnEncoder(), learner).fit(frame, at_random(y))
    pril.save(model, tmp_path / "model.pril")
    found = infer(pril.load(tmp_path / "model.pril"))
    assert (found.std_error[[1, 2, 3]] < 0.5).all()


def test_weights_per_standard_deviation():
    frame, y = survey()
    model = make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0)).fit(frame, y)
    one, two = infer(model, frame, y), infer(model, frame, y, per="sd")
    factor = np.ones(7)
    factor[0] = frame["age"].std(ddof=0)
    np.testing.assert_allclose(two.estimate, factor * one.estimate)
    np.testing.assert_allclose(two.std_error, factor * one.std_error)
    np.testing.assert_allclose(two.p, one.p)
    effects = one.marginal_effects().lower * factor[:4, np.newaxis]
    np.testing.assert_allclose(two.marginal_effects().lower, effects, rtol=1e-5)
    assert "weights are per standard deviation," in str(two)
    scaled = make_pipeline(StandardScaler(), OrderedLogit(alpha=0.0)).fit(frame[["age"]], y)
    np.testing.assert_allclose(infer(scaled, per="sd").estimate[0], scaled[-1].coef_[0])


def test_scalers_are_undone():
    X, y = table()
    X = X * [1.0, 50.0, 0.1] + 3.0
    plain = infer(fitted(X, y), X, y)
    model = make_pipeline(StandardScaler(), OrderedLogit(alpha=0.0)).fit(X, y)
    scaled = infer(model, X, y)
    np.testing.assert_allclose(scaled.estimate[:3], plain.estimate[:3], rtol=1e-5)
    np.testing.assert_allclose(scaled.std_error[:3], plain.std_error[:3], rtol=1e-5)
    one, two = plain.marginal_effects(), scaled.marginal_effects(X)
    for part in ("estimate", "std_error", "lower", "upper"):
        np.testing.assert_allclose(getattr(one, part), getattr(two, part), rtol=1e-4, atol=1e-9)


def test_words_without_a_reference_are_warned_of():
    frame, y = survey()
    encoder = make_column_transformer((OneHotEncoder(), ["town"]), remainder="passthrough")
    model = make_pipeline(encoder, OrderedLogit()).fit(frame, y)
    with pytest.warns(UserWarning, match="have no reference"):
        infer(model, frame, y)


# --- What follows: probabilities, effects, tests ---


def test_probabilities_and_effects_have_errors_by_the_delta_method():
    X, y = table()
    model = fitted(X, y)
    result, new = infer(model, X, y), X[:5] + 0.3
    at = np.concatenate([model.coef_, model.thresholds_])

    def probabilities(numbers):
        cut = np.concatenate([[-np.inf], numbers[3:], [np.inf]])
        return np.diff(expit(cut - (new @ numbers[:3])[:, np.newaxis]), axis=1).ravel()

    def effects(numbers):
        cut = np.concatenate([[-np.inf], numbers[3:], [np.inf]])
        below = expit(cut - (X @ numbers[:3])[:, np.newaxis])
        per_score = -np.diff((below * (1.0 - below)).mean(axis=0))
        return np.outer(numbers[:3], per_score).ravel()

    for found, f in (
        (result.probabilities(new), probabilities),
        (result.marginal_effects(), effects),
    ):
        by = differences(f, at)
        error = np.sqrt(np.diag(by.T @ result.covariance @ by))
        np.testing.assert_allclose(found.estimate.ravel(), f(at), rtol=1e-9)
        np.testing.assert_allclose(found.std_error.ravel(), error, rtol=1e-6)
        assert (found.lower < found.estimate).all()
        assert (found.estimate < found.upper).all()
    np.testing.assert_allclose(result.probabilities(new).estimate, model.predict_proba(new))
    np.testing.assert_allclose(result.marginal_effects().estimate, model.marginal_effects(X))
    far = result.probabilities(X[:1] * 1e3)
    assert np.isfinite(far.lower).all()
    assert ((far.lower >= 0.0) & (far.upper <= 1.0)).all()


def test_the_likelihood_ratio_agrees_with_statsmodels(ordered_model):
    from scipy.stats import chi2

    X, y = table()
    large, small = infer(fitted(X, y), X, y), infer(fitted(X[:, :1], y), X[:, :1], y)
    expected = 2.0 * (
        newton(ordered_model(y, X, distr="logit")).llf
        - newton(ordered_model(y, X[:, :1], distr="logit")).llf
    )
    test = likelihood_ratio(small, large)
    assert test.statistic == pytest.approx(expected, rel=1e-7)
    assert (test.df, test.p) == (2, pytest.approx(chi2.sf(expected, 2)))


def test_proportional_odds_agree_with_two_weights_for_a_feature():
    """The score test is near the likelihood ratio of the model with the weights it asks for."""
    from scipy.optimize import minimize

    X, rng = table(2000, w=np.array([1.0, -0.5]))[0], np.random.default_rng(1)
    noise = np.exp(0.3 * X[:, 0]) * rng.logistic(size=2000)  # wider where the score is high
    y = np.digitize(X @ [1.0, -0.5] + noise, THETA)
    result = infer(fitted(X, y), X, y)

    def loss(numbers):  # theta, a weight of the second feature, one of the first for each threshold
        cut = numbers[:3] - np.outer(X[:, 1], numbers[3:4]) - np.outer(X[:, 0], numbers[4:])
        below = np.column_stack([np.zeros(len(X)), expit(cut), np.ones(len(X))])
        return -np.log(np.maximum(np.diff(below)[np.arange(len(X)), y], 1e-12)).sum()

    theta, (first, second) = result.estimate[2:], result.estimate[:2]
    best = minimize(loss, [*theta, second, first, first, first], method="BFGS")
    ratio = 2.0 * (-best.fun - result.loglik)
    test = result.proportional_odds().features["0"]
    assert test.df == 2
    assert ratio > 30.0  # the alternative is true
    assert test.statistic == pytest.approx(ratio, rel=0.15)
    assert result.proportional_odds().overall.df == 4


def test_proportional_odds_are_rarely_rejected_if_they_hold():
    p = []
    for seed in range(100):
        X, y = table(300, seed)
        tests = infer(fitted(X, y), X, y).proportional_odds()
        p.append([tests.overall.p, *(test.p for test in tests.features.values())])
    assert (np.mean(np.array(p) < 0.1, axis=0) < 0.2).all()
    assert np.quantile(p, [0.25, 0.5, 0.75]) == pytest.approx([0.25, 0.5, 0.75], abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.75, 1.0])
def test_intervals_cover_the_truth_where_the_mechanism_is_learned(share):
    inside = []
    truth = np.concatenate([W, THETA])
    for seed in range(40):
        X, y = table(500, seed)
        y = make_intervals(y, 1, share, classes=range(4), random_state=seed)
        result = infer(fitted(X, y, alpha=0.3, coarsening="offsets"))
        lower, upper = result.interval
        inside.append((lower <= truth) & (truth <= upper))
    assert np.mean(inside) > 0.9  # 240 of them, not all independent
    assert np.mean(inside) < 0.995


# --- What is kept, and what is refused ---


def test_the_table_can_be_pasted():
    X, y = table()
    frame = pd.DataFrame(X, columns=["age", "height", "b$"])
    labels = np.array(["low", "mid", "high", "top"])[y]
    model = OrderedLogit(classes=["low", "mid", "high", "top"], alpha=0.0).fit(frame, labels)
    result = infer(model, frame, labels, level=0.9)
    lines = str(result).splitlines()
    assert lines[0].split() == ["weight", "estimate", "std.", "error", "z", "p", "lower", "upper"]
    assert [line.split()[0] for line in lines[1:4]] == ["age", "height", "b$"]
    assert [line[:9].strip() for line in lines[5:8]] == ["above low", "above mid", "above hig"]
    assert lines[-2].startswith("0.9 intervals")
    table_ = result.to_frame()
    np.testing.assert_allclose(table_["std_error"], result.std_error)
    assert table_["class"].tolist() == [None, None, None, "low", "mid", "high"]
    assert "age" in table_.to_latex()
    assert result.proportional_odds().to_frame()["feature"].tolist() == [
        "all",
        "age",
        "height",
        "b$",
    ]
    effects = result.marginal_effects().to_frame()
    assert effects["class"].tolist()[:4] == ["low", "mid", "high", "top"]


def test_a_file_keeps_the_errors_until_more_is_learned(tmp_path, labelled):
    X, y, options = labelled
    model = fitted(X, y, alpha=0.3, **options)
    pril.save(model, tmp_path / "model.pril")
    loaded = pril.load(tmp_path / "model.pril")
    assert str(infer(loaded)) == str(infer(model))
    np.testing.assert_array_equal(loaded.covariance_, model.covariance_)
    assert (loaded.loglik_, loaded.converged_) == (model.loglik_, model.converged_)
    loaded.partial_fit(X[:1], y[:1])
    assert not hasattr(loaded, "covariance_")
    with pytest.raises(InputError, match="rows were learned since"):
        infer(loaded)
    stream = model.stream()
    stream.learn_one(X[0], tuple(y[0]))
    assert not hasattr(model, "covariance_")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"level": 1.0}, "level must be above 0 and below 1, got 1.0"),
        ({"per": "SD"}, "per must be 'unit' or 'sd', got 'SD'"),
        ({"per": "sd"}, "needs a model that standardises numbers"),
        ({"y": None}, "both X and y"),
        ({"X": None, "y": None, "groups": [1]}, "need the rows"),
        ({"groups": np.zeros(400)}, "at least 2 groups of rows, got 1"),
        ({"groups": [1, 2]}, "groups has 2 values, expected one for each of 400 rows"),
        ({"sample_weight": 1.0 + np.arange(400) % 2}, "not fitted to these rows"),
        (
            {
                "model": OrderedLogit().partial_fit([[0.0]], [1], classes=[1, 2]),
                "X": None,
                "y": None,
            },
            "rows were learned since, or only",
        ),
    ],
)
def test_what_infer_refuses(change, message):
    X, y = table()
    arguments = {"model": fitted(X, y), "X": X, "y": y, **change}
    with pytest.raises(InputError, match=message):
        infer(**arguments)


def test_other_models_are_refused():
    X, y = table(50)
    with pytest.raises(InputTypeError, match=r"must be an OrderedLogit.* got PRIL"):
        infer(pril.PRIL().fit(X, y), X, y)
    large = infer(fitted(X, y), X, y)
    with pytest.raises(InputTypeError, match="small must be what infer"):
        likelihood_ratio(infer(fitted(X, y)), large)
    with pytest.raises(InputError, match="0 parameters more"):
        likelihood_ratio(large, large)
    with pytest.raises(InputError, match="the same rows"):
        likelihood_ratio(infer(fitted(X[:40, :1], y[:40]), X[:40, :1], y[:40]), large)
    with pytest.raises(InputError, match="needs the rows"):
        infer(fitted(X, y)).proportional_odds()
    two = infer(OrderedLogit().fit(X, y > 1), X, y > 1)
    with pytest.raises(InputError, match="there is one"):
        two.proportional_odds()
    ranges = make_intervals(y, 1, 0.5, classes=range(4), random_state=0)
    with pytest.raises(InputError, match="take the rows with exact labels"):
        infer(fitted(X, ranges, alpha=0.3), X, ranges).proportional_odds()
