"""Standard errors, intervals and tests: against statsmodels, numerical derivatives, simulation."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.special import expit, ndtr
from scipy.stats import cauchy
from sklearn.compose import make_column_transformer
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import pril
from pril import ColumnEncoder, OrderedLogit
from pril.core.coarsening import Kinds
from pril.errors import InputError, InputTypeError
from pril.inference import infer, likelihood_ratio
from pril.labels import make_intervals
from pril.likelihood import fitting, rows
from pril.likelihood.mechanisms import Random

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


BELOW = {
    "logit": expit,
    "probit": ndtr,
    "cloglog": lambda t: -np.expm1(-np.exp(np.minimum(t, 700.0))),
    "loglog": lambda t: np.exp(-np.exp(np.minimum(-t, 700.0))),
    "cauchit": cauchy.cdf,
}


def logs(numbers, X, lo, hi, below=expit):
    """Return the log-likelihood of each row, as it is written down."""
    d = X.shape[1]
    cut, score = np.concatenate([[-np.inf], numbers[d:], [np.inf]]), X @ numbers[:d]
    return np.log(below(cut[hi + 1] - score) - below(cut[lo] - score))


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
    two = infer(model, X, ends, sample_weight=weight, groups=np.arange(400) % 2)
    assert "errors from 2 groups of rows (sandwich)" in str(two)  # the fewest


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


def test_an_offset_of_many_features():
    """Over 1,000 features, steps are by conjugate gradients."""
    X, y = table()
    X = np.column_stack([X, 2.0 * X[:, 0]])
    few = fitted(X, y, alpha=1.0, offset=3)
    many = fitted(np.hstack([X, np.zeros((len(X), 1000))]), y, alpha=1.0, offset=3)
    np.testing.assert_allclose(many.coef_[:4], few.coef_, atol=1e-6)


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


# --- Any link, weights and groups, against numerical derivatives ---


@pytest.mark.parametrize("rows_are", ["counted", "sampled", "in groups", "both"])
@pytest.mark.parametrize("link", BELOW)
def test_errors_are_from_the_derivatives_of_the_likelihood(link, rows_are):
    X, y = table()
    ends = np.column_stack([y, y]) if link in ("logit", "loglog") else at_random(y)
    rng, weight, groups = np.random.default_rng(1), None, None
    if rows_are in ("sampled", "both"):
        weight = rng.uniform(1.0, 2000.0, 400)
    if rows_are == "counted":
        weight = rng.integers(0, 4, 400).astype(float)
    if rows_are in ("in groups", "both"):
        groups = np.arange(400) % 40
    model = OrderedLogit(classes=range(4), alpha=0.0, coarsening="random", link=link)
    model.fit(X, ends, sample_weight=weight)
    result = infer(model, X, ends, sample_weight=weight, groups=groups)
    times = np.ones(400) if weight is None else weight

    def gradients(numbers):
        def of_rows(numbers):
            return times * logs(numbers, X, *ends.T, BELOW[link])

        return differences(of_rows, numbers)

    assert np.abs(gradients(result.estimate).sum(axis=1)).max() < 1e-5 * times.sum()
    curve = -differences(lambda b: gradients(b).sum(axis=1), result.estimate, 1e-4)
    expected = np.linalg.inv((curve + curve.T) / 2.0)
    if rows_are != "counted":
        code = np.arange(400) if groups is None else groups
        sums = np.array([gradients(result.estimate)[:, code == g].sum(axis=1) for g in set(code)])
        expected = expected @ sums.T @ sums @ expected * (len(sums) / (len(sums) - 1))
    np.testing.assert_allclose(result.covariance, expected, rtol=1e-4, atol=1e-4 * expected.max())
    assert ("(sandwich)" in result.errors) == (rows_are != "counted")


# R 4.2 with ordinal: m <- clm(rating ~ temp + contact, data=wine, link=...), then logLik(m), coef(m),
# sqrt(diag(vcov(m))). Its cauchit takes 1e5 for infinity, so that it is not among them.
WINE = {
    (0, 0): [4, 9, 5, 0, 0],
    (0, 1): [1, 7, 8, 2, 0],
    (1, 0): [0, 5, 8, 3, 2],
    (1, 1): [0, 1, 5, 7, 5],
}


@pytest.mark.parametrize(
    ("link", "loglik", "weights", "errors"),
    [
        ("logit", -86.491923366, (2.503102008, 1.527797658), (0.52868010, 0.47662263, 0.51710205)),
        (
            "probit",
            -85.7611483648,
            (1.4993745784, 0.8677435389),
            (0.29179039, 0.26690701, 0.28286236),
        ),
        (
            "cloglog",
            -86.6340792088,
            (1.6057600909, 0.8597136565),
            (0.32456627, 0.28273191, 0.46284970),
        ),
        (
            "loglog",
            -87.717855143,
            (1.5330181817, 0.9056444276),
            (0.32666288, 0.28144366, 0.25847301),
        ),
    ],
)
def test_wine_agrees_with_r(link, loglik, weights, errors):
    X = np.repeat(np.array([*WINE], float), 5, axis=0)
    y, times = np.tile(np.arange(5), 4), np.concatenate([*WINE.values()])
    model = OrderedLogit(alpha=0.0, link=link).fit(X, y, sample_weight=times)
    result = infer(model, X, y, sample_weight=times)
    assert result.loglik == pytest.approx(loglik, abs=1e-8)
    np.testing.assert_allclose(result.estimate[:2], weights, rtol=1e-7)
    np.testing.assert_allclose(result.std_error[:3], errors, rtol=1e-6)
    if link == "logit":  # anova() with the model without contact, AIC(), BIC()
        small = infer(model.fit(X[:, :1], y, times), X[:, :1], y, sample_weight=times)
        assert likelihood_ratio(small, result).p == pytest.approx(0.0008902, rel=1e-4)
        assert (result.aic, result.bic) == pytest.approx((184.9838, 198.6438), abs=1e-4)


# --- Weights ---


def stratum(n=200):
    """Return rows in 40 groups, with weights of a survey."""
    rng = np.random.default_rng(3)
    X, groups = rng.normal(size=(n, 2)), np.arange(n) // 5
    X[:, 0] += rng.normal(size=40)[groups]
    y = np.digitize(X @ [1.0, -0.5] + rng.logistic(size=n), THETA)
    return X, y, rng.uniform(0.5, 3000.0, n).round(2), groups


@pytest.mark.parametrize(
    ("link", "grouped", "expected"),
    [
        ("logit", False, (0.119821, 0.145307, 0.223940, 0.194373, 0.214321)),
        ("logit", True, (0.130578, 0.149886, 0.252750, 0.212385, 0.231882)),
        ("probit", True, (0.0752623, 0.0896264, 0.1475745, 0.1252432, 0.1333047)),
        ("loglog", True, (0.0837470, 0.0915025, 0.1471078, 0.1516287, 0.1772938)),
    ],
)
def test_sampling_weights_agree_with_r(link, grouped, expected):
    """R 4.2 with survey: SE(svyolr(y ~ a + b, svydesign(ids=~1 or ~g, weights=~w), method=...)).

    Its second derivatives are differences, and our "loglog" is its "cloglog".
    """
    X, y, weight, groups = stratum()
    model = OrderedLogit(alpha=0.0, link=link).fit(X, y, sample_weight=weight)
    found = infer(model, X, y, sample_weight=weight, groups=groups if grouped else None)
    np.testing.assert_allclose(found.std_error, expected, rtol=1e-4)
    assert found.aic is found.bic is None
    assert "200 rows with sampling weights, log pseudo-likelihood" in str(found)
    if not grouped:
        assert "errors from 200 rows (sandwich), weights are those of a sample" in str(found)
        np.testing.assert_allclose(infer(model).covariance, found.covariance, rtol=1e-9)
        with pytest.raises(InputError, match="keeps errors for weights='sampling'"):
            infer(model, weights="counts")


def test_sampling_weights_have_no_size():
    X, y, weight, _ = stratum()
    one, two = (
        infer(OrderedLogit(alpha=0.0).fit(X, y, w), X, y, sample_weight=w, weights="sampling")
        for w in (weight, 977.0 * np.ceil(weight) / np.ceil(weight) * weight)
    )
    np.testing.assert_allclose(two.covariance, one.covariance, rtol=1e-8)
    numbers = [(r.loglik, r.loglik_null, r.n) for r in (one, two)]
    np.testing.assert_allclose(*numbers, rtol=1e-9)
    whole = np.round(weight)
    model = OrderedLogit(alpha=0.0).fit(X, y, whole)
    said, taken = (
        infer(model, X, y, sample_weight=whole, weights=w) for w in ("sampling", "counts")
    )
    np.testing.assert_allclose(said.std_error, one.std_error, rtol=1e-2)
    assert (taken.std_error < said.std_error / 20.0).all()
    assert f"{whole.sum():,.0f} rows, counted by the weights of 200" in str(taken)
    assert str(infer(model, X, y, sample_weight=whole)) == str(taken)


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
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-6, atol=1e-9)


def test_the_order_of_many_rows_does_not_matter():
    """Above every number of rows that the choice of a mechanism looks at."""
    X, y = table(8000)
    y = make_intervals(y, 1, 0.75, classes=range(4), random_state=0)
    y = y[np.argsort(y[:, 1] > y[:, 0], kind="stable")]  # exact labels first
    found = []
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(8000) if seed else np.arange(8000)
        found.append(fitted(X[order], y[order], coarsening="offsets").covariance_)
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-8, atol=1e-8 * found[0].max())


def test_weights_are_numbers_of_rows(labelled):
    X, y, options = labelled
    times = 1 + np.arange(len(X)) % 3
    model = OrderedLogit(classes=range(4), alpha=0.0, **options)
    one = infer(model.fit(X, y, times), X, y, sample_weight=times)
    many, labels = np.repeat(X, times, axis=0), np.repeat(y, times, axis=0)
    two = infer(model.fit(many, labels), many, labels)
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=1e-6, atol=1e-8)
    assert (one.n, one.n_parameters) == (two.n, two.n_parameters)
    assert (one.bic, one.mcfadden) == pytest.approx((two.bic, two.mcfadden))


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


# --- What rows do not determine ---


@pytest.mark.parametrize(
    "labels",
    [lambda y: y, at_random, lambda y: make_intervals(y, 1, 0.7, classes=range(4), random_state=0)],
)
def test_features_that_say_nothing_new_are_named(labels):
    X, y = table(240)  # of more, the prior of the classes takes some
    y = labels(y)
    more = np.column_stack([X, 2.0 * X[:, 0] + X[:, 1] - 3.0, np.full(len(X), 7.0)])
    frame = pd.DataFrame(more, columns=["a", "b", "c", "sum", "one"])
    one, model = infer(fitted(X, y), X, y), fitted(frame, y)
    for two in (infer(model, frame, y), infer(model)):
        assert two.n_parameters == one.n_parameters
        assert two.aic == pytest.approx(one.aic)
        known = [0, 1, 2, 5, 6, 7]
        np.testing.assert_allclose(two.estimate[known], one.estimate, rtol=1e-6)
        np.testing.assert_allclose(two.std_error[known], one.std_error, rtol=1e-6)
        assert (two.estimate[3:5] == 0.0).all()
        assert np.isnan(two.std_error[3:5]).all()
        assert "not identified: sum, one (constant, or determined by others)" in str(two)
        assert {*map(len, two.cells())} == {7}
        assert [line.split() for line in str(two).splitlines()[4:6]] == [["sum", "0"], ["one", "0"]]
    np.testing.assert_allclose(
        infer(model).probabilities(frame[:5]).upper, one.probabilities(X[:5]).upper, rtol=1e-6
    )


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_a_feature_of_rows_whose_labels_say_nothing_is_named(form):
    """All classes are possible for each row that has the mark."""
    X, y = table()
    y[0], ends = 0, np.column_stack([y, y])
    ends[:9] = [0, 3]
    mark = np.where(np.arange(400) < 9, 1.0, 0.0)
    Z = form(np.column_stack([mark, X]))
    found = infer(fitted(Z, ends, coarsening="random"), Z, ends)
    assert found.remarks == [
        "not identified: 0 (constant, or determined by others): weight 0, no error"
    ]
    rest = infer(fitted(X[9:], y[9:]))
    assert (found.loglik, found.n_parameters) == (pytest.approx(rest.loglik), rest.n_parameters)
    np.testing.assert_allclose(found.estimate[1:], rest.estimate, rtol=1e-6)
    np.testing.assert_allclose(found.std_error[1:], rest.std_error, rtol=1e-6)


def test_a_column_of_one_word_is_named():
    frame, y = survey()
    model = make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0)).fit(frame.assign(sex="f"), y)
    both, plain = (
        infer(model),
        infer(make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0)).fit(frame, y)),
    )
    names = [term[1] for term in both.terms]
    assert both.remarks == [
        "not identified: sex=f (constant, or determined by others): weight 0, no error"
    ]
    at = names.index("sex=f")
    assert np.isnan(both.std_error[at])
    np.testing.assert_allclose(np.delete(both.std_error, at), plain.std_error, rtol=1e-7)
    assert both.n_parameters == plain.n_parameters
    twice = frame.assign(again=frame["town"])
    model = make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0)).fit(twice, y)
    found = infer(model, twice, y)
    assert found.remarks[0].startswith("not identified: again=")
    np.testing.assert_allclose(found.std_error[:4], plain.std_error[:4], rtol=1e-7)


def test_separation_is_named():
    """Rows with the mark are all of the highest class; other errors are as without them."""
    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(mark=0.0)
    frame.loc[np.flatnonzero(y == 3)[:9], "mark"] = 1.0
    message = "no maximum exists: feature 'mark' separates rows of label 3 from others"
    with pytest.warns(ConvergenceWarning, match=message):
        model = fitted(frame, y)
    assert not model.converged_
    rest = frame["mark"] == 0.0
    expected = infer(fitted(X[rest], y[rest])).std_error
    for found in (infer(model), infer(model, frame, y)):
        np.testing.assert_allclose(found.std_error[[0, 1, 2, 4, 5, 6]], expected, rtol=1e-6)
        assert np.isnan(found.std_error[3])
        assert "no maximum: feature 'mark' separates rows of label 3 from others" in str(found)
        with pytest.raises(InputError, match="probabilities have no errors here: no maximum"):
            found.probabilities(frame[:2])
    frame["mark"] = 3.0 * y
    with pytest.warns(ConvergenceWarning, match="'mark' separates rows of label 0, 1, 2, 3 from"):
        model = fitted(frame, y)
    assert not model.converged_
    assert np.isnan(infer(model).std_error).all()
    assert fitted(frame, y, alpha=0.3).converged_
    with pytest.warns(ConvergenceWarning, match="no maximum exists: features"):  # of 40 rows
        model = fitted(np.random.default_rng(0).normal(size=(40, 60)), y[:40])
    assert np.isnan(infer(model).std_error).all()


def test_separation_is_named_where_other_scores_are_far():
    """The row with the mark would have its label anyway, so that its weight has hardly grown."""
    x = np.r_[0.1, 0.5, 1.2, 1.7, 0.0, 0.3, 0.8, 1.5, 2.9, 5.0, 24.0, 110.0, 400.0, 760.0, 16.0]
    for copies in (1, 3):
        y = np.repeat(np.arange(15) > 3, copies)
        X = np.repeat(np.column_stack([np.arange(15) == 14, x]), copies, axis=0)
        with pytest.warns(ConvergenceWarning, match="feature.* 0.* separate.* rows of label"):
            assert not OrderedLogit(alpha=0.0).fit(X, y).converged_


def test_separation_is_named_by_the_word_whose_weight_grows():
    """One of the words, in whatever order these come, is determined by the others."""
    frame, y = survey()
    frame.loc[np.flatnonzero(y == 3)[:4], "town"] = "rare"
    model = make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0))
    with pytest.warns(ConvergenceWarning, match="no maximum exists"):
        found = infer(model.fit(frame, y))
    names = [name for (_, name, _), e in zip(found.terms, found.std_error, strict=True) if e != e]
    assert names == ["town=rare"]
    assert found.remarks == [
        "no maximum: feature 'town=rare' separates rows of label 3 from others, so that its weight "
        "grows without bound"
    ]


@example(seed=332, link="logit", n_words=0)  # a score far from all others: nearly no curvature
@example(seed=468, link="logit", n_words=0)
@example(seed=12, link="logit", n_words=7)  # several words that separate labels, and not
@example(seed=178, link="cloglog", n_words=7)
@given(
    seed=st.integers(0, 10**6),
    link=st.sampled_from(["logit", "probit", "cloglog", "loglog"]),
    n_words=st.integers(0, 8),
)
def test_a_maximum_exists_or_separation_is_named(seed, link, n_words):
    """It does not exist if scores and thresholds can move so that no row's label gets unlikelier.

    A weight grows if it can move then.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(int(rng.integers(8, 40)), int(rng.integers(1, 4))))
    ranks = np.digitize(X.sum(axis=1) * rng.choice([0.5, 3.0]) + rng.logistic(size=len(X)), THETA)
    X *= np.exp(rng.choice([0.0, 1.0, 2.0]) * rng.normal(size=X.shape))
    words = np.minimum(rng.geometric(0.3, size=len(X)), n_words)[:, np.newaxis]
    X = np.hstack([X, words == np.arange(1, n_words)])
    X = X[:, X.std(axis=0) > 0.0]
    X /= X.std(axis=0)
    assume(np.linalg.matrix_rank(X - X.mean(axis=0)) == X.shape[1])
    _, y = np.unique(ranks, return_inverse=True)
    d, n_classes = X.shape[1], y.max() + 1
    assume(n_classes > 1)
    above, below = np.flatnonzero(y < n_classes - 1), np.flatnonzero(y > 0)
    limits = np.zeros((len(above) + len(below), d + n_classes - 1))
    limits[:, :d] = np.concatenate([X[above], -X[below]])
    limits[np.arange(len(above)), d + y[above]] = -1.0
    limits[len(above) + np.arange(len(below)), d + y[below] - 1] = 1.0
    box = [(-1.0, 1.0)] * d + [(-1e3, 1e3)] * (n_classes - 1)
    zeros, sides = np.zeros(len(limits)), np.eye(limits.shape[1])[:d]
    far = [
        max(-linprog(side, limits, zeros, bounds=box).fun for side in (one, -one)) for one in sides
    ]
    grows = np.array(far) > 1e-6
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = OrderedLogit(alpha=0.0, link=link).fit(X, y)
    assert model.converged_ == (not grows.any())
    assert model.converged_ == (not caught)
    assert not np.isnan(infer(model).std_error[:d][~grows]).any()
    named = re.findall(r"'(\d+)'", " ".join(infer(model).remarks))
    assert grows[[int(name) for name in named]].all()


@pytest.mark.parametrize("coarsening", ["auto", "offsets"])
def test_one_of_two_classes_and_both_tell_nothing_apart(coarsening):
    """Positive or unknown: weights could grow without bound, which no label speaks against."""
    X, y = table()[0], np.tile([0, 1], 200)
    model = OrderedLogit(alpha=0.0, coarsening=coarsening, classes=[0, 1])
    model.fit(X, np.column_stack([y, np.ones(400, dtype=int)]))
    assert not model.coef_.any()
    with pytest.raises(ValueError, match="do not tell any two classes apart"):
        infer(model)


def test_classes_without_rows_are_named():
    X, y = table()
    plain, other = infer(fitted(X, y)), infer(fitted(X, 2 * y, classes=range(8)))
    assert other.remarks == ["classes without rows: 1, 3, 5, 7"]
    assert other.n_parameters == plain.n_parameters
    assert (other.aic, other.bic) == pytest.approx((plain.aic, plain.bic))
    np.testing.assert_allclose(other.std_error[[0, 1, 2, 3, 5, 7]], plain.std_error, rtol=1e-7)
    assert np.isnan(other.std_error[9])  # above class 6: there is only class 7, without rows
    pairs = np.column_stack([y // 2 * 2, y // 2 * 2 + 1])
    found = infer(fitted(X, pairs, coarsening="random"))
    assert found.remarks == ["labels do not say where the thresholds are above 0, 2"]
    assert "ranges are at random: the log-likelihood is that of interval-censored" in str(found)
    assert [*found.parts.learner.coarsening_.table] == [(0, 1), (2, 3)]
    assert np.isnan(found.std_error).tolist() == [False] * 3 + [True, False, True]
    two = infer(fitted(X, y > 1, classes=[False, True]))
    np.testing.assert_allclose(found.std_error[[0, 1, 2, 4]], two.std_error, rtol=1e-7)
    assert found.n_parameters == 4


def test_lowest_and_highest_classes_that_no_row_is_likely_to_have_are_named():
    """Labels 0 to 1 beside 1, and 2 to 3 beside 2, are likeliest if there is no class 0 or 3."""
    X, y = table()
    low, high = (y < 2) & (np.arange(400) % 3 == 0), (y > 1) & (np.arange(400) % 3 == 0)
    ends = np.where(y < 2, 1, 2)[:, np.newaxis] + np.column_stack([-1 * low, 1 * high])
    found = infer(fitted(X, ends, coarsening="random"))
    assert found.remarks == ["classes that no row is likely to have: 0, 3"]
    two = infer(fitted(X, y > 1, classes=[False, True]))
    np.testing.assert_allclose(found.std_error[[0, 1, 2, 4]], two.std_error, rtol=1e-7)
    assert np.isnan(found.std_error[[3, 5]]).all()


@pytest.mark.parametrize("link", BELOW)
def test_separated_labels_have_a_table(link):
    """All labels are separated, so that thresholds are far from those without features."""
    X = np.linspace(1000.0, 1001.0, 20)[:, np.newaxis]
    y = (X[:, 0] > 1000.7).astype(int)
    with pytest.warns(ConvergenceWarning, match="no maximum exists"):
        model = fitted(X, y, classes=range(2), link=link)
    found = infer(model, X, y)
    assert found.loglik_null == pytest.approx(6 * np.log(0.3) + 14 * np.log(0.7))
    assert "no maximum: feature '0' separates rows of label 0, 1 from others" in str(found)


@pytest.mark.parametrize(
    "labels",
    [
        lambda n: np.full(n, 2),
        lambda n: np.tile([0, 3], (n, 1)),
        lambda n: np.column_stack([np.arange(n) % 2, 2 + np.arange(n) % 2]),
    ],
)
def test_labels_that_tell_no_classes_apart_are_refused(labels):
    """All of one class, or ranges that all have a class in common: any weights are a maximum."""
    X, y = table()[0], labels(400)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = fitted(X, y, coarsening="random")
    for arguments in ((), (X, y)):
        with pytest.raises(InputError, match="do not tell any two classes apart, so there is noth"):
            infer(model, *arguments)
    with pytest.raises(InputError, match="do not tell any two classes apart"):
        infer(fitted(X, np.tile([0, 2], (400, 1)), classes=range(3)))
    everything = fitted(X, np.tile([0, 3], (400, 1)), alpha=0.3)
    assert infer(everything).mcfadden is None


def test_a_fit_that_ended_early_is_named():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="in max_iter=1 steps"):
        model = fitted(X, y, max_iter=1)
    for found in (infer(model), infer(model, X, y)):
        assert found.remarks == [
            "not the maximum: fit ended after max_iter=1 steps, so that errors and tests are not "
            "valid"
        ]


@pytest.mark.parametrize("scale", [1e-2, 1e-4, 3e-5])
def test_features_that_others_determine_are_named_where_others_nearly_do(scale):
    """The second feature is nearly a sum of two, and what it is beyond them is the fourth."""
    X, y = table()
    X = np.column_stack([X[:, 0], X @ [1.0, -2.0, scale], X[:, 1], X[:, 2]])
    one, two = (infer(fitted(Z, y)) for Z in (X[:, :3], X))
    assert two.remarks == [
        "not identified: 3 (constant, or determined by others): weight 0, no error"
    ]
    known = [0, 1, 2, 4, 5, 6]
    np.testing.assert_allclose(two.std_error[known], one.std_error, rtol=1e-8 + 1e-14 / scale**2)


def test_sparse_features_far_from_zero():
    """A column without zeros may be an id or a time."""
    X, y = table()
    X[:, 2] *= np.arange(400) % 3 == 0
    groups = np.arange(400) // 2
    for far in (1e6, 1e9):
        Z = X + [far, 0.0, 0.0]
        sparse, dense = (
            infer(fitted(form(Z), y), form(Z), y, groups=groups) for form in (csr_array, np.asarray)
        )
        np.testing.assert_allclose(sparse.estimate[:3], dense.estimate[:3], rtol=1e-9)
        np.testing.assert_allclose(sparse.std_error[:3], dense.std_error[:3], rtol=1e-9)


@pytest.mark.parametrize("scale", ["plain", "standardised"])
def test_features_far_from_zero(scale):
    """Numbers of people, or of seconds: what is added to a feature moves the thresholds only."""
    X, y = table()
    X = np.round(X * 2.0**20) / 2.0**20
    steps = [StandardScaler()] if scale == "standardised" else []
    model = make_pipeline(*steps, OrderedLogit(alpha=0.0))
    far, near = X + [2.0**27, 0.0, -(2.0**26)], X
    one, two = infer(model.fit(near, y), near, y), None
    about = [one.marginal_effects(), one.probabilities(near[:9])]
    two = infer(model.fit(far, y), far, y)
    np.testing.assert_allclose(two.estimate[:3], one.estimate[:3], rtol=1e-7)
    np.testing.assert_allclose(two.std_error[:3], one.std_error[:3], rtol=1e-7)
    for a, b in zip(about, [two.marginal_effects(), two.probabilities(far[:9])], strict=True):
        np.testing.assert_allclose(b.std_error, a.std_error, rtol=1e-5)
        np.testing.assert_allclose(b.upper, a.upper, rtol=1e-5)
    frame = pd.DataFrame(X, columns=["a", "time", "c"])
    frame["time"] += 1e12
    if not steps:
        with pytest.raises(InputError, match=r"feature 'time' varies by .* subtract its mean"):
            fitted(frame, y)


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


@pytest.mark.parametrize(
    ("labels", "cuts"),
    [(lambda y: np.column_stack([y, y]), [0.0, 0.1, 1.5]), (at_random, [-0.5, 0.5, 1.5])],
)
def test_proportional_odds_take_the_expected_information(labels, cuts):
    """What is observed of a class of few rows would reject what is true in three of four sets."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(150, 2))
    ends = labels(np.digitize(X[:, 0] + rng.logistic(size=150), cuts))
    model = fitted(X, ends, coarsening="random")
    result = infer(model, X, ends)
    kinds, kind, rows = np.unique(ends, axis=0, return_inverse=True, return_counts=True)
    chances = np.exp(Random(Kinds(kinds, 4)).frequencies(rows)[0])  # Turnbull's, of labels

    def log_chances(numbers):  # of each kind of label; a threshold and two weights for each cut
        cut = [numbers[3 * k] - X @ numbers[3 * k + 1 : 3 * k + 3] for k in range(3)]
        below = np.column_stack([np.zeros(150), *expit(cut), np.ones(150)])
        return np.log(below[:, kinds[:, 1] + 1] - below[:, kinds[:, 0]])

    (first, second), theta = result.estimate[:2], result.estimate[2:]
    at = np.array([[cut, first, second] for cut in theta]).ravel()
    slopes = differences(log_chances, at)
    shares = chances * np.exp(log_chances(at))
    information = np.einsum("tk,atk,btk->ab", shares, slopes, slopes)
    gradient = slopes[:, np.arange(150), kind].sum(axis=1)
    expected = gradient @ np.linalg.solve(information, gradient)
    assert result.proportional_odds().overall.statistic == pytest.approx(expected, rel=1e-3)


def test_proportional_odds_of_a_class_that_has_vanished_are_those_without_it():
    X, y = table(200)
    y = np.where(y == 1, 0, y)
    low = np.where((np.arange(200) % 3 == 0) & (y == 2), 1, y)
    high = np.where((np.arange(200) % 3 == 1) & (y == 0), 1, y)
    with_it, without = np.column_stack([low, high]), np.column_stack([y, y])
    one, two = (infer(fitted(X, ends, coarsening="random"), X, ends) for ends in (with_it, without))
    assert one.remarks == ["classes that no row is likely to have: 1"]
    tests, expected = one.proportional_odds(), two.proportional_odds()
    for test, other in zip(
        [tests.overall, *tests.features.values()],
        [expected.overall, *expected.features.values()],
        strict=True,
    ):
        assert test.df == other.df > 0
        assert test.statistic == pytest.approx(other.statistic, rel=1e-3)


def test_proportional_odds_of_words_do_not_depend_on_their_order():
    frame, y = survey()
    names = {"a": "z", "b": "y", "c": "x"}
    other = frame.assign(town=frame["town"].map(names))
    model = make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0))
    one, two = (infer(model.fit(X, y), X, y).proportional_odds() for X in (frame, other))
    assert one.overall.df == two.overall.df == 6
    assert one.overall.statistic == pytest.approx(two.overall.statistic)
    for name, new in names.items():
        tests = one.features[f"town={name}"], two.features[f"town={new}"]
        assert tests[0].df == tests[1].df == 2
        assert tests[0].statistic == pytest.approx(tests[1].statistic)


def test_what_cannot_be_tested_is_said():
    """A mark of rows of the highest class only; other tests are those of the rows without it."""
    X, y = table()
    mark = np.zeros(400)
    mark[np.flatnonzero(y == 3)[:9]] = 1.0
    with pytest.warns(ConvergenceWarning, match="separates"):
        tests = infer(fitted(np.column_stack([X, mark]), y), np.column_stack([X, mark]), y)
    tests, rest = tests.proportional_odds(), mark == 0.0
    assert (tests.features["3"].df, np.isnan(tests.features["3"].p)) == (0, True)
    assert str(tests).splitlines()[-1].split() == ["3", "0", "cannot", "be", "tested"]
    assert str(tests.features["3"]).startswith("cannot be tested")
    expected = infer(fitted(X[rest], y[rest]), X[rest], y[rest]).proportional_odds()
    assert (tests.overall.df, expected.overall.df) == (6, 6)
    assert tests.overall.statistic == pytest.approx(expected.overall.statistic, rel=1e-5)
    assert tests.features["0"].statistic == pytest.approx(expected.features["0"].statistic)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["groups", "weights", "both"])
def test_true_hypotheses_are_rarely_rejected_where_rows_are_not_draws(kind):
    """Rows of a group are alike, and so are their features; weights are those of a survey."""
    rejected = []
    for seed in range(200):
        rng = np.random.default_rng(seed)
        n, groups = 600, np.arange(600) // 6
        X = rng.normal(size=(n, 3))
        if kind != "weights":
            X[:, 1:] = X[:, 1:] + 1.5 * rng.normal(size=(100, 2))[groups]
        shared = 0.0 if kind == "weights" else 1.2 * rng.normal(size=100)[groups]
        y = np.digitize(X[:, 0] + shared + rng.logistic(size=n), THETA)
        weight = None if kind == "groups" else np.exp(rng.normal(size=n))
        options = {"sample_weight": weight, "groups": None if kind == "weights" else groups}
        large = infer(OrderedLogit(alpha=0.0).fit(X, y, weight), X, y, **options)
        small = infer(OrderedLogit(alpha=0.0).fit(X[:, :1], y, weight), X[:, :1], y, **options)
        rejected.append(
            [
                likelihood_ratio(small, large).p < 0.05,
                large.proportional_odds().features["1"].p < 0.05,
                large.p[1] < 0.05,
            ]
        )
    shares = np.mean(rejected, axis=0)
    assert (shares > 0.015).all()
    assert (shares < 0.09).all()  # 2.6 standard errors


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


def test_a_sum_of_features_is_a_smaller_model():
    """So is another scale of them, and what is constant; without groups or with them."""
    X, y = table()
    less = np.column_stack([X[:, 0] - 2.0 * X[:, 1] + 3.0, np.ones(400)])
    options = {"groups": np.arange(400)}  # a group for each row: robust
    one, other = ([infer(fitted(Z, y), Z, y, **more) for Z in (less, X)] for more in ({}, options))
    plain, robust = likelihood_ratio(*one), likelihood_ratio(*other)
    assert (plain.df, robust.df) == (2, 2)
    assert plain.statistic == pytest.approx(2.0 * (one[1].loglik - one[0].loglik))
    assert robust.statistic == pytest.approx(plain.statistic, rel=0.2)
    labels = make_intervals(y, 1, 0.7, classes=range(4), random_state=0)
    for groups in (None, options["groups"]):  # each model learns how ranges arose
        learned = [
            infer(fitted(Z, labels, coarsening="offsets"), Z, labels, groups=groups)
            for Z in (less, X)
        ]
        assert likelihood_ratio(*learned).p < 1e-6
    assert "ranges are shared offsets: the log-likelihood has the chances of" in str(learned[0])
    assert "its priors, the mechanism of ranges included" in learned[0].errors + str(
        infer(fitted(less, labels, coarsening="offsets"))
    )
    assert learned[1].n_parameters == 3 + 3 + 4
    with pytest.raises(InputError, match="the same coarsening mechanism: say coarsening="):
        likelihood_ratio(infer(fitted(less, labels, coarsening="random"), less, labels), learned[1])


def test_a_robust_score_test_is_that_of_its_derivatives():
    """At the maximum of the small model, by the sums of groups, as Boos (1992) has it."""
    X, y = table()
    X, groups = X[:, :2], np.arange(400) // 8
    large, small = (infer(fitted(Z, y), Z, y, groups=groups) for Z in (X, X[:, :1]))
    at = np.insert(small.estimate, 1, 0.0)

    def by_group(numbers):
        rows = differences(lambda b: logs(b, X, y, y), numbers)
        return np.array([rows[:, groups == g].sum(axis=1) for g in range(50)])

    curve = -differences(lambda b: by_group(b).sum(axis=0), at, 1e-4)
    rest = [0, 2, 3, 4]
    follow = np.linalg.solve(curve[np.ix_(rest, rest)], curve[rest, 1])
    added = by_group(at)
    own = added[:, 1] - added[:, rest] @ follow
    expected = own.sum() ** 2 / (own @ own * 50 / 49)
    assert likelihood_ratio(small, large).statistic == pytest.approx(expected, rel=1e-4)


# --- What is kept, and what is refused ---


def test_groups_may_be_in_several_blocks(monkeypatch):
    X, y = table()
    found = [infer(fitted(X, y), X, y, groups=np.arange(400) // 5).proportional_odds()]
    monkeypatch.setattr(rows, "block_rows", lambda d: 64)
    found.append(infer(fitted(X, y), X, y, groups=np.arange(400) // 5).proportional_odds())
    assert found[1].overall.statistic == pytest.approx(found[0].overall.statistic)


def test_the_command_prints_where_errors_are_from(call):
    X, y, weight, _ = stratum()
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(one=1.0, y=y, w=weight)
    frame.to_csv("survey.csv", index=False)
    asked = ("--label", "y", "--weight", "w", "--holdout", 0, "--set", "alpha=0")
    code, _, _ = call("fit", "survey.csv", "-o", "model.pril", *asked)
    assert code == 0
    text = str(infer(pril.load("model.pril")))
    assert "errors from 200 rows (sandwich), weights are those of a sample" in text
    assert "not identified: one (" in text
    code, out, _ = call("show", "model.pril", "--table")
    assert (code, out.strip()) == (0, text)
    code, out, _ = call("show", "model.pril", "--table", "--json")
    shown = json.loads(out)
    assert (shown["aic"], shown["n"]) == (None, 200)
    assert shown["remarks"] == [
        "not identified: one (constant, or determined by others): weight 0, no error"
    ]


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
    latex = result.to_latex().splitlines()
    assert latex[0] == r"\begin{tabular}{lrrrrrr}"
    assert latex[-1] == r"\end{tabular}"
    cells = [line.removesuffix(r" \\").split(" & ") for line in latex if "&" in line]
    assert [line[0] for line in cells[1:]] == [
        "age",
        "height",
        r"b\$",
        *(line[0] for line in result.cells()[4:]),
    ]
    assert cells[1][4] == "$<$ 0.0001"
    assert [cell.replace("$-$", "-") for cell in cells[2][1:4]] == result.cells()[2][1:4]
    assert len(set(map(len, cells))) == 1
    table_ = result.to_frame()
    np.testing.assert_allclose(table_["std_error"], result.std_error)
    assert table_["class"].tolist() == [None, None, None, "low", "mid", "high"]
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
    with pytest.raises(InputError, match="has learned rows by partial_fit or a stream"):
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
        ({"X": table()[0][:, :2]}, "X has 2 features, but OrderedLogit is expecting 3"),
        ({"X": table(w=np.ones(4))[0]}, "X has 4 features, but OrderedLogit is expecting 3"),
        (
            {
                "model": OrderedLogit().partial_fit([[0.0]], [1], classes=[1, 2]),
                "X": None,
                "y": None,
            },
            "known right after fit only, and this model has learned rows by partial_fit",
        ),
    ],
)
def test_what_infer_refuses(change, message):
    X, y = table()
    arguments = {"model": fitted(X, y), "X": X, "y": y, **change}
    with pytest.raises(InputError, match=message):
        infer(**arguments)


def test_a_streamed_model_and_rows_that_separate_labels():
    """There is no maximum that it could miss: the result is that of a fit."""
    X, y = np.arange(10.0)[:, np.newaxis], np.repeat([0, 1], 5)
    streamed = OrderedLogit(alpha=0.0).partial_fit(X, y, classes=[0, 1])
    with pytest.warns(ConvergenceWarning, match="no maximum exists"):
        model = OrderedLogit(alpha=0.0).fit(X, y)
    result = infer(streamed, X, y)
    assert result.remarks[0].startswith("no maximum: feature '0' separates rows of label 0, 1")
    assert str(result) == str(infer(model, X, y))


def test_a_covariance_that_is_not_kept_says_why():
    X, y = table(100, w=np.full(199, 0.1))
    model = fitted(X, y, alpha=1.0)
    with pytest.raises(AttributeError, match="at most 200 weights and thresholds, and there are"):
        _ = model.covariance_
    with pytest.raises(InputError, match="and there are 202: pass X and y, the rows"):
        infer(model)
    assert infer(model, X, y).std_error.shape == (202,)
    wide, some = np.zeros((40, 1001)), y[:40]
    model = OrderedLogit().fit(wide, some)
    with pytest.raises(InputError, match="1,001 features are too many for a covariance"):
        infer(model, wide, some)


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
    other, groups = np.random.default_rng(5).normal(size=(50, 1)), np.arange(50) // 5
    with pytest.raises(InputError, match="feature '0' of small is not a sum of features of large"):
        likelihood_ratio(infer(fitted(other, y), other, y), large)
    some = X[:, :1]
    with pytest.raises(InputError, match="the same link"):
        likelihood_ratio(infer(fitted(some, y, link="probit"), some, y), large)
    with pytest.raises(InputError, match="the same groups, and weights="):
        likelihood_ratio(infer(fitted(some, y), some, y, groups=groups), large)
    with pytest.raises(InputError, match=r"small has a penalty, alpha=0\.3"):
        likelihood_ratio(infer(fitted(some, y, alpha=0.3), some, y), large)
    with pytest.raises(InputError, match="needs the rows"):
        infer(fitted(X, y)).proportional_odds()
    two = infer(OrderedLogit().fit(X, y > 1), X, y > 1)
    with pytest.raises(InputError, match="there is one"):
        two.proportional_odds()
    ranges = make_intervals(y, 1, 0.5, classes=range(4), random_state=0)
    with pytest.raises(InputError, match="take the rows with exact labels"):
        infer(fitted(X, ranges, alpha=0.3), X, ranges).proportional_odds()


@pytest.mark.parametrize("n", [300, 8000])
def test_all_steps_are_counted(n, monkeypatch):
    """Those of searches that look at some rows, or for a mechanism that is not chosen, as well."""
    taken, climb = [], fitting.climb

    def counted(look_at, start, *arguments, **options):
        found = climb(look_at, start, *arguments, **options)
        taken.append(found.n_iter - start.n_iter)
        return found

    monkeypatch.setattr(fitting, "climb", counted)
    X, y = table(n)
    model = fitted(X, make_intervals(y, 1, 0.75, classes=range(4), random_state=0))
    assert model.n_iter_ == sum(taken)
