"""`OrderedLogit.fit` finds the maximum of one likelihood: against R, statsmodels and SciPy."""

import re
from contextlib import nullcontext
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import minimize
from scipy.sparse import csr_array, random_array
from scipy.special import betaln, expit, softmax
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import pril
import pril.onnx
from pril import OrderedLogit
from pril.core.coarsening import Kinds
from pril.inference import infer, likelihood_ratio
from pril.labels import make_intervals
from pril.likelihood.fitting import FitSettings, Fitting, fit
from pril.likelihood.mechanisms import Free, Offsets
from pril.likelihood.newton import Maximum
from pril.likelihood.rows import Block, InMemory
from pril.links import LINKS, Link, Logs, Sides

THETA = np.array([-1.5, 0.0, 1.0])
SCIPY = {
    "logit": stats.logistic,
    "probit": stats.norm,
    "cloglog": stats.gumbel_l,
    "loglog": stats.gumbel_r,
    "cauchit": stats.cauchy,
}


def table(n=400, seed=0, d=3):
    """Return features far from centred, and exact ranks of an ordered logit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.5, 3.0, d) + np.linspace(-3.0, 5.0, d)
    f = (X - X.mean(axis=0)) @ np.linspace(1.0, -0.5, d)
    return X, np.digitize(f + rng.logistic(size=n), THETA)


def raters(n=500, seed=0, exact=0.25, up=0.5):
    """Return features, and labels: some exact, the others with the class above or below."""
    X, y = table(n, seed)
    rng = np.random.default_rng(seed + 1)
    low = np.clip(np.where(rng.random(n) < up, y, y - 1), 0, 2)
    is_exact = rng.random(n) < exact
    return X, np.column_stack([np.where(is_exact, y, low), np.where(is_exact, y, low + 1)])


def numbers(model):
    return np.concatenate([model.coef_, model.thresholds_])


# --- Against others ------------------------------------------------------------------------------


def test_exact_labels_agree_with_statsmodels():
    datasets = pytest.importorskip("statsmodels.api").datasets
    from statsmodels.miscmodels.ordinal_model import OrderedModel

    frame = datasets.anes96.load_pandas().data
    X = frame[["logpopul", "selfLR", "age", "educ", "income"]].to_numpy()
    y = frame["PID"].to_numpy().astype(int)
    model = OrderedLogit(alpha=0.0).fit(X, y)
    with pytest.warns(Warning, match="converge"):  # it wants more than it can have
        other = OrderedModel(y, X, distr="logit").fit(
            method="bfgs", disp=0, gtol=1e-10, maxiter=500
        )
    assert model.loglik_ == pytest.approx(other.llf, abs=1e-6)
    np.testing.assert_allclose(model.coef_, other.params[:5], atol=1e-6)
    assert model.converged_
    assert model.n_iter_ < 10
    # A class with 3.9 % of the rows keeps its share.
    assert model.predict_proba(X).mean(axis=0)[3] == pytest.approx((y == 3).mean(), abs=0.005)


# R 4.2, ordinal 2022.11: clm(rating ~ temp + contact, data = wine, link = "..."). Its search for
# "cauchit" stops 0.0003 below the maximum.
WINE = {
    "logit": (-86.4919233656, [2.5031020, 1.5277977]),
    "probit": (-85.7611483648, [1.49937458, 0.86774354]),
    "cloglog": (-86.6340792088, [1.60576009, 0.85971366]),
    "loglog": (-87.717855143, [1.53301818, 0.90564443]),
    "cauchit": (-92.5158306692, [1.9629084, 1.2182887]),
}
RATINGS = [[4, 9, 5, 0, 0], [1, 7, 8, 2, 0], [0, 5, 8, 3, 2], [0, 1, 5, 7, 5]]


@pytest.mark.parametrize("link", WINE)
def test_links_agree_with_clm(link):
    X = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], 5, axis=0)
    model = OrderedLogit(link=link, alpha=0.0).fit(X, np.tile(range(5), 4), np.ravel(RATINGS))
    loglik, coef = WINE[link]
    is_cauchit = link == "cauchit"
    assert model.loglik_ == pytest.approx(loglik, abs=3e-4 if is_cauchit else 1e-8)
    assert model.loglik_ > loglik - 1e-8
    np.testing.assert_allclose(model.coef_, coef, atol=2e-5 if is_cauchit else 1e-7)


# R 4.2, rms 6.5: orm(y ~ X, family = "logistic", "probit").
MANY = {
    "logit": (
        -21377.7474499,
        [0.9799578227, -0.9975200504, 0.5420669434, 0.0248500385, -0.0154779709],
    ),
    "probit": (-21403.8004609, [0.5527720608, -0.5557999867, 0.3029595520]),
}


@pytest.mark.parametrize("link", MANY)
def test_many_classes_agree_with_orm(link):
    rng = np.random.default_rng(7)
    X = rng.standard_normal((5000, 5))
    y = np.round(X @ [1, -1, 0.5, 0, 0] + rng.logistic(size=5000), 1)
    classes, ranks = np.unique(y, return_inverse=True)
    assert len(classes) == 154
    model = OrderedLogit(link=link, alpha=0.0).fit(X, ranks)
    loglik, coef = MANY[link]
    assert model.loglik_ == pytest.approx(loglik, abs=1e-6)
    np.testing.assert_allclose(model.coef_[: len(coef)], coef, atol=1e-6)
    if link == "logit":
        errors = [0.02735872, 0.02755676, 0.02552726, 0.02473625, 0.02472892]
        np.testing.assert_allclose(np.sqrt(np.diag(model.covariance_))[:5], errors, atol=1e-8)


def interval_censored(parameters, X, ends, weight, link):
    """Return the negative log-likelihood of ranges at random, as it is written down."""
    d = X.shape[1]
    cut = np.concatenate([[-np.inf], np.cumsum([parameters[d], *np.exp(parameters[d + 1 :])])])
    cut, f, F = np.append(cut, np.inf), X @ parameters[:d], SCIPY[link].cdf
    P = F(cut[ends[:, 1] + 1] - f) - F(cut[ends[:, 0]] - f)
    return -weight @ np.log(np.maximum(P, 1e-300))  # first steps of a search may go too far


@pytest.mark.parametrize("link", SCIPY)
def test_ranges_at_random_are_interval_censored(link):
    """Also where some labels are exact, and rows weigh differently."""
    X, ends = raters()
    X = X - X.mean(axis=0)
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(X))
    model = OrderedLogit(alpha=0.0, coarsening="random", link=link).fit(X, ends, weight)
    w, theta = model.coef_, model.thresholds_
    there = np.concatenate([w, theta[:1], np.log(np.diff(theta))])
    # The search starts away from the maximum that was found, and must come back.
    found = minimize(interval_censored, 0.9 * there, (X, ends, weight, link), tol=1e-9)
    assert model.loglik_ == pytest.approx(-found.fun, abs=1e-7)
    np.testing.assert_allclose(found.x, there, atol=1e-4)  # the root of that of the value


@pytest.mark.parametrize("labels", ["exact", "ranges"])
@pytest.mark.parametrize("link", SCIPY)
def test_the_log_likelihood_is_that_of_what_is_predicted(link, labels):
    """Also where scores are far apart, and labels do not say where all thresholds are."""
    X, y = table()
    X *= 30.0 if link == "logit" else 1.0
    y = 3 + 2 * np.digitize(X.sum(axis=1) + np.random.default_rng(1).logistic(size=len(X)), [0, 9])
    ends = y[:, np.newaxis] + ([0, 0] if labels == "exact" else [-1, 0])
    model = OrderedLogit(alpha=0.0, coarsening="random", link=link, classes=range(10)).fit(X, ends)
    P = np.cumsum(np.pad(model.predict_proba(X), ((0, 0), (1, 0))), axis=1)
    rows = np.arange(len(X))
    predicted = np.log(P[rows, ends[:, 1] + 1] - P[rows, ends[:, 0]]).sum()
    assert model.loglik_ == pytest.approx(predicted, abs=1e-6)


def test_classes_that_no_label_tells_apart_share_a_row_at_the_means_evenly():
    X, y = table()
    X[:, 0] += 4.0
    ends = np.array([[0, 0], [1, 2], [1, 2], [3, 3]])[y]
    model = OrderedLogit(alpha=0.0, coarsening="random", offset=0).fit(X, ends)
    _, first, second, _ = model.predict_proba(X.mean(axis=0, keepdims=True))[0]
    assert first == pytest.approx(second, rel=1e-9)


# --- A mechanism that is learned -----------------------------------------------------------------


def joint(parameters, X, ends, K, alpha):
    """Return minus the log posterior of offsets: the model, in a few lines of its own."""
    d = X.shape[1]
    w, phi, logs = np.split(parameters, [d, d + 4])
    cut = np.concatenate([[-np.inf], np.cumsum([logs[0], *np.exp(logs[1:])]), [np.inf]])
    P = np.diff(expit(cut - (X @ w)[:, np.newaxis]), axis=1)
    pairs, sides, up, up3 = phi
    shares = softmax([pairs + up / 2, pairs - up / 2, up3 / 2, sides, -up3 / 2])
    offsets = [(0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]
    M = dict.fromkeys([(k, k) for k in range(K)], None)
    for y in range(K):
        made = {}
        for share, (a, b) in zip(shares, offsets, strict=True):
            u = max(y - a, 0), min(y + b, K - 1)
            if u[0] < u[1]:
                made[u] = made.get(u, 0.0) + share
        for u, share in made.items():
            M.setdefault(u, np.zeros(K))[y] += share / sum(made.values())
    loglik = sum(
        np.log(p[low] if low == high else p @ M[low, high])
        for p, (low, high) in zip(P, ends.tolist(), strict=True)
    )
    rows = 30.0 * shares_if_cut_evenly(ends, K)
    n_exact = (ends[:, 0] == ends[:, 1]).sum()
    r = max(20.0 * (30.0 / (30.0 + n_exact)) ** 2, 1.0)
    prior = -alpha / 2 * w @ w + rows @ np.log(P.mean(axis=0)) - (pairs**2 + sides**2) / 50
    for each in (up, up3):
        prior += r * np.log(expit(each) * expit(-each)) - betaln(r, r)
    return -loglik - prior


def shares_if_cut_evenly(ends, K):
    rows = np.full(K, 0.5)
    for low, high in ends.tolist():
        rows[low : high + 1] += 1.0 / (high - low + 1)
    return rows / rows.sum()


@pytest.mark.parametrize(("exact", "up"), [(0.0, 0.5), (0.3, 0.8)])
def test_offsets_are_the_maximum_of_their_model(exact, up):
    X, ends = raters(200, 3, exact, up)  # few enough for the prior of the classes to see all rows
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    model = OrderedLogit(classes=range(4), coarsening="offsets").fit(X, ends)
    shares, theta = list(model.coarsening_.shares.values()), model.thresholds_
    logs = np.log(shares)
    phi = [
        (logs[0] + logs[1] - logs[2] - logs[4]) / 2,
        logs[3] - (logs[2] + logs[4]) / 2,
        logs[0] - logs[1],
        logs[2] - logs[4],
    ]
    there = np.concatenate([model.coef_, phi, theta[:1], np.log(np.diff(theta))])
    found = minimize(joint, there + 0.02, (X, ends, 4, 0.3), options={"gtol": 1e-5})
    assert joint(there, X, ends, 4, 0.3) < found.fun + 1e-6
    np.testing.assert_allclose(there, found.x, atol=1e-3)  # the root of that of the value


@pytest.mark.parametrize("link", ["logit", "cloglog", "cauchit"])
@pytest.mark.parametrize("name", ["random", "offsets", "free"])
def test_the_posterior_has_these_derivatives(name, link):
    """By differences, at a point that is no maximum."""
    X, ends = raters(80, 5)
    ends[:10] = [0, 3]
    kinds, kind = Kinds.of(ends, 4)
    rows = InMemory(Block(X, kind, np.random.default_rng(0).uniform(0.5, 2.0, 80)), kinds)
    fitting = Fitting(rows, FitSettings(alpha=0.3, link=LINKS[link]))
    mechanism = fitting.mechanism("offsets" if name == "free" else name)
    if name == "free":
        problem = fitting.problem(rows, mechanism)
        start = problem.starts()[0]
        mechanism = Free(kinds, problem.label_chances(start), "offsets", 30.0)
    problem = fitting.problem(rows, mechanism)
    x = problem.starts()[0]
    x = x + 0.2 * np.random.default_rng(1).normal(size=len(x)) * (np.arange(len(x)) < len(x) - 3)
    here, steps = problem.look_at(x), 1e-5 * np.eye(len(x))
    slopes = [(problem.look_at(x + e).value - problem.look_at(x - e).value) / 2e-5 for e in steps]
    np.testing.assert_allclose(here.gradient, slopes, rtol=1e-6, atol=1e-5)
    curves = [
        (problem.look_at(x - e).gradient - problem.look_at(x + e).gradient) / 2e-5 for e in steps
    ]
    information = here.information.dense()
    np.testing.assert_allclose(information, curves, rtol=1e-6, atol=1e-5)


@settings(max_examples=25)
@given(
    st.integers(3, 6),
    st.sampled_from(["auto", "random", "offsets"]),
    st.floats(0.0, 0.6),
    st.integers(0, 10**6),
)
def test_chances_of_labels_add_up(K, coarsening, exact, seed):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(K), rng.integers(0, K, 120)])
    X = (y + rng.logistic(size=len(y)))[:, np.newaxis]
    ends = make_intervals(y, 2, 1.0 - exact, classes=range(K), random_state=seed)
    model = OrderedLogit(classes=range(K), coarsening=coarsening).fit(X, ends)
    whole = np.zeros(K)
    for (low, high), chances in model.coarsening_.table.items():
        whole[low : high + 1] += chances
    np.testing.assert_allclose(whole, 1.0, atol=1e-12)


# --- What must not matter ------------------------------------------------------------------------


@pytest.mark.parametrize("n", [600, 11_000])  # below and above what the choice looks at
@pytest.mark.parametrize("exact", [0.0, 0.3])
def test_order_units_counts_and_direction_do_not_matter(n, exact):
    X, ends = raters(n, 1, exact, 0.7)
    rng = np.random.default_rng(2)

    def fit(X, ends, weight=None):
        return OrderedLogit(classes=range(4), alpha=0.0).fit(X, ends, weight)

    def assert_same(one, other, scale=1.0, shift=0.0):
        coef = other.coef_ * scale
        np.testing.assert_allclose(coef, one.coef_, rtol=1e-8, atol=1e-9)
        theta = other.thresholds_ - (shift * other.coef_).sum()
        np.testing.assert_allclose(theta, one.thresholds_, rtol=1e-8, atol=1e-8)
        errors, others = (np.sqrt(np.diag(model.covariance_))[:3] for model in (one, other))
        np.testing.assert_allclose(others * scale, errors, rtol=1e-8)
        assert other.coarsening_.mechanism == one.coarsening_.mechanism
        assert other.coarsening_.evidence == pytest.approx(one.coarsening_.evidence, rel=1e-8)

    model, order = fit(X, ends), rng.permutation(n)
    assert model.coarsening_.mechanism == "offsets"
    assert_same(model, fit(X[order], ends[order]))
    scale, shift = np.array([10.0, 0.01, 3.0]), np.array([7.0, -500.0, 1e4])
    assert_same(model, fit(X * scale + shift, ends), scale, shift)
    mirrored = fit(X, 3 - ends[:, ::-1])
    np.testing.assert_allclose(-mirrored.coef_, model.coef_, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(-mirrored.thresholds_[::-1], model.thresholds_, rtol=1e-8, atol=1e-8)
    times = rng.integers(0, 3, n)
    assert_same(fit(X, ends, times), fit(X.repeat(times, 0), ends.repeat(times, 0)))
    assert_same(fit(X, ends, np.full(n, 3.0)), fit(X.repeat(3, 0), ends.repeat(3, 0)))


def test_the_order_does_not_matter_where_rows_are_nearly_equal():
    """Of 6,000 rows of one feature, some are nearer than a millionth of a standard deviation."""
    X, ends = raters(6000, 1)
    x, order = X[:, :1], np.random.default_rng(2).permutation(6000)
    assert np.diff(np.sort(x[:, 0])).min() < 1e-7
    one, other = OrderedLogit().fit(x, ends), OrderedLogit().fit(x[order], ends[order])
    np.testing.assert_allclose(numbers(other), numbers(one), rtol=1e-8)
    assert other.coarsening_.evidence == pytest.approx(one.coarsening_.evidence, rel=1e-10)


@pytest.mark.parametrize(("link", "mirror"), [("cloglog", "loglog"), ("probit", "probit")])
def test_links_are_mirrored(link, mirror):
    X, y = table(300)
    model, other = OrderedLogit(link=link).fit(X, y), OrderedLogit(link=mirror).fit(X, 3 - y)
    np.testing.assert_allclose(other.coef_, -model.coef_, rtol=1e-7, atol=1e-9)
    P, Q = model.predict_proba(X), other.predict_proba(X)
    np.testing.assert_allclose(Q[:, ::-1], P, atol=1e-9)
    np.testing.assert_array_equal(other.predict(X), 3 - model.predict(X))


def test_a_seed_does_not_matter_and_a_half_life_is_weights():
    X, ends = raters(300)
    model, again = OrderedLogit(random_state=0).fit(X, ends), OrderedLogit(random_state=7)
    np.testing.assert_array_equal(again.fit(X, ends).memory_.numbers, model.memory_.numbers)
    faded = OrderedLogit(half_life=40).fit(X, ends)
    by_age = OrderedLogit().fit(X, ends, 2.0 ** ((np.arange(300) - 299) / 40))
    np.testing.assert_allclose(faded.coef_, by_age.coef_, rtol=1e-12)


def test_sparse_rows_and_single_precision_are_the_same_problem():
    X, ends = raters()
    X = np.where(np.abs(X) < 1.0, 0.0, X).astype(np.float32)
    model = OrderedLogit().fit(X.astype(np.float64), ends)
    np.testing.assert_array_equal(OrderedLogit().fit(X, ends).coef_, model.coef_)
    sparse = OrderedLogit().fit(csr_array(X), ends)
    np.testing.assert_allclose(numbers(sparse), numbers(model), rtol=1e-8)


@pytest.mark.parametrize("n", [25, 40, 76])
def test_a_sparse_column_of_ones_has_no_weight(n):
    """Its variance may be a rounding error below zero."""
    X = csr_array(np.column_stack([np.ones(n), np.arange(n) % 3]))
    assert OrderedLogit(alpha=0.0).fit(X, np.arange(n) % 2).coef_[0] == 0.0


@pytest.mark.parametrize("sparse", [False, True])
def test_many_features_have_the_same_maximum(sparse):
    """By conjugate gradients: the information of over 1,000 features is never written down."""
    X, ends = raters()
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    model = OrderedLogit().fit(X, ends)
    wide = np.hstack([X, np.zeros((len(X), 998))])
    other = OrderedLogit().fit(csr_array(wide) if sparse else wide, ends)
    assert other.converged_
    np.testing.assert_allclose(other.coef_[:3], model.coef_, atol=1e-5)
    np.testing.assert_allclose(other.thresholds_, model.thresholds_, atol=1e-5)
    assert (other.coef_[3:] == 0.0).all()


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1200)), np.arange(60) % 3
    model = OrderedLogit().fit(X, y)
    assert model.converged_
    cut = np.concatenate([[-np.inf], model.thresholds_, [np.inf]])

    def slopes(f, k):
        """Return the derivative of log P(y = k) by f: P(y < k) - P(y > k)."""
        return expit(cut[k] - f) - expit(f - cut[k + 1])

    mean = X.mean(axis=0)  # where alpha rows are, a third of each class
    gradient = X.T @ slopes(model.latent(X), y) - 0.3 * model.coef_
    gradient += 0.1 * mean * slopes(mean @ model.coef_, np.arange(3)).sum()
    assert np.abs(gradient).max() < 1e-4


# --- The choice ----------------------------------------------------------------------------------

FORMS = [
    ([(0, 1), (2, 3)], [(0, 0), (1, 3)]),
    ([(0, 1), (2, 4)], [(0, 0), (1, 2), (3, 4)]),
    ([(0, 2), (3, 3)], [(0, 0), (1, 1), (2, 3)]),
]


@pytest.mark.parametrize("forms", FORMS)
@pytest.mark.parametrize("seed", range(3))
def test_a_questionnaire_in_two_versions_is_at_random(forms, seed):
    rng, n_classes = np.random.default_rng(seed), forms[0][-1][1] + 1
    X = rng.normal(size=(1500, 3))
    f = X @ [1.0, 1.0, -1.0] + rng.logistic(size=1500)
    y = np.digitize(f, np.quantile(f, np.arange(1, n_classes) / n_classes))
    asked = rng.integers(0, 2, 1500)
    pairs = [next(p for p in forms[a] if p[0] <= k <= p[1]) for a, k in zip(asked, y, strict=True)]
    model = OrderedLogit(classes=range(n_classes)).fit(X, pairs)
    assert model.coarsening_.mechanism == "random"


@pytest.mark.parametrize("kind", [1, 2])
def test_offsets_are_found_without_any_exact_label(kind):
    X, y = table(1500)
    pairs = make_intervals(y, kind, 1.0, classes=range(4), random_state=0)
    model = OrderedLogit(classes=range(4)).fit(X, pairs)
    assert model.coarsening_.mechanism == "offsets"
    exact = OrderedLogit().fit(X, y)
    error, least = (np.abs(one.predict(X) - y).mean() for one in (model, exact))
    assert error < 1.1 * least


def test_some_exact_labels_show_the_direction():
    """A prior that stays would draw the share of those who go up from 0.8 towards a half."""
    shares = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(400, 2))
        y = np.digitize(X @ [1.0, -0.5] + rng.logistic(size=400), [-1.5, 0.0, 1.5])
        low = np.clip(y - (rng.random(400) < 0.2), 0, 2)
        is_exact = rng.random(400)[:, np.newaxis] < 0.25
        ends = np.where(is_exact, y[:, np.newaxis], np.column_stack([low, low + 1]))
        found = OrderedLogit(classes=range(4), alpha=0.0).fit(X, ends).coarsening_
        assert (found.mechanism == "offsets") == (found.evidence > 0.0)
        shares += [found.shares[0, 1]] if found.shares else []
    assert len(shares) > 58
    assert np.mean(shares) > 0.68


@pytest.mark.parametrize("width", [3, 4])
def test_no_class_vanishes_where_ranges_are_shifted_into_the_scale(width):
    """By offsets that only go up, the highest classes would not occur, and nor would narrow ends.

    At random, only classes in the middle need occur: each range of four has one of them.
    """
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    rank = np.digitize(X @ [1.5, 1.0] + rng.logistic(scale=0.25, size=600), np.arange(-3, 4) * 0.8)
    lower = (rank - rng.integers(0, width, 600)).clip(0, 8 - width)
    ranges = np.column_stack([lower, lower + width - 1])

    def fitted(**parameters):
        return OrderedLogit(classes=range(8), **parameters).fit(X, ranges)

    errors = {
        coarsening: np.abs(fitted(coarsening=coarsening).predict(X) - rank).mean()
        for coarsening in ("auto", "random")
    }
    assert errors["auto"] < errors["random"]
    # The prior of the classes does not end where that of the weights does.
    none, hardly = (fitted(alpha=alpha).thresholds_ for alpha in (0.0, 1e-12))
    np.testing.assert_allclose(none, hardly, atol=1e-6)


def test_streams_go_on_from_the_maximum():
    X, pairs = raters()
    model = OrderedLogit().fit(X, pairs)
    coef, before = model.coef_, model.predict_proba(X)
    model.partial_fit(X[:1], pairs[:1])
    assert model.t_ == len(X) + 1
    assert 0.0 < np.abs(model.coef_ - coef).max() < 0.01
    np.testing.assert_allclose(model.predict_proba(X), before, atol=0.01)


class Normal(Link):
    """The normal distribution, written by a user."""

    def sides(self, t):
        return Sides(stats.norm.cdf(t), stats.norm.sf(t), stats.norm.pdf(t), -np.clip(t, -99, 99))

    def logs(self, t):
        return Logs(stats.norm.logcdf(t), stats.norm.logsf(t), stats.norm.logpdf(t))

    def quantile(self, p):
        return stats.norm.ppf(p)


@pytest.mark.parametrize("decision", ["median", "mode"])
def test_a_link_of_ones_own_is_a_link(decision, tmp_path):
    X, pairs = raters()
    options = {"alpha": 0.0, "decision": decision}
    model = clone(OrderedLogit(link=Normal(), **options)).fit(X, pairs)
    probit = OrderedLogit(link="probit", **options).fit(X, pairs)
    np.testing.assert_allclose(model.predict_log_proba(X), probit.predict_log_proba(X), atol=1e-9)
    np.testing.assert_array_equal(model.predict(X), probit.predict(X))
    result, other = infer(model, X, pairs), infer(probit, X, pairs)
    np.testing.assert_allclose(result.covariance, other.covariance, rtol=1e-7)
    assert "on the scale of quantiles of its link" in str(result)
    small = infer(clone(model).fit(X[:, :1], pairs), X[:, :1], pairs)
    assert likelihood_ratio(small, result).p < 0.05
    for refused in (partial(pril.save, path=tmp_path / "m.pril"), pril.onnx.to_onnx):
        with pytest.raises(TypeError, match=r"Normal\(\)"):
            refused(model)
    assert not (tmp_path / "m.pril").exists()


@pytest.mark.parametrize("method", ["partial_fit", "stream"])
def test_streams_refuse_other_links(method):
    X, y = table(30)
    model = OrderedLogit(link="probit").fit(X, y)
    with pytest.raises(ValueError, match="link='probit' is for fit only"):
        model.partial_fit(X, y) if method == "partial_fit" else model.stream()


# --- Hard problems -------------------------------------------------------------------------------

HARD = {
    "separable": (np.arange(12.0)[:, np.newaxis], np.arange(12) // 4),
    "one row": (np.ones((1, 2)), [1]),
    "one row for each class": (np.eye(3), [0, 1, 2]),
    "constant and collinear": (
        np.repeat([[1.0, 2.0, 2.0], [1.0, 3.0, 3.0]], 9, axis=0),
        [0, 1] * 9,
    ),
    "all columns constant": (np.full((8, 2), 7.0), [0, 1] * 4),
    "far from centred": (1e8 + np.arange(12.0)[:, np.newaxis], np.arange(12) % 3),
    "tiny": (1e-200 * np.arange(12.0)[:, np.newaxis], np.arange(12) // 4),
    "huge": (1e140 * np.arange(12.0)[:, np.newaxis], np.arange(12) // 4),
}

SEPARABLE = ("separable", "one row for each class", "huge")


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("link", SCIPY)
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_have_finite_answers(name, link, alpha):
    X, y = HARD[name]
    model = OrderedLogit(alpha=alpha, link=link)
    has_none = alpha == 0.0 and name in SEPARABLE
    warns = pytest.warns(ConvergenceWarning, match="no maximum exists: feature")
    with warns if has_none else nullcontext():
        model.fit(X, y)
    assert model.converged_ != has_none
    assert np.isfinite([*model.coef_, *model.thresholds_, model.loglik_]).all()
    assert np.isfinite(model.predict_proba(X)).all()
    if name == "separable":
        assert (model.predict(X) == y).all()


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_classes_without_rows_keep_finite_thresholds(alpha):
    X, y = table(100)
    for classes in (range(-1, 6), [0, 0.5, 1, 2, 3], range(-30, 34), range(-500, 500)):
        model = OrderedLogit(classes=classes, alpha=alpha).fit(X, y)
        assert np.isfinite(model.thresholds_).all()
        assert (np.diff(model.thresholds_) >= 0.0).all()


def test_extreme_weights():
    X, y = table(100)
    weight = np.where(np.arange(100) % 2, 1e6, 0.0)
    other = OrderedLogit(alpha=0.0).fit(X[1::2], y[1::2])
    for factor in (1.0, 1e-105, 1e94):
        model = OrderedLogit(alpha=0.0).fit(X, y, factor * weight)
        np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-5)


def test_large_weights_of_a_class_that_vanishes():
    """Labels 0 to 1 and 2 to 3 are likeliest if there is no class 0 or 2."""
    X = np.array([[0.7], [0.2], [0.3], [-0.9], [0.8]])
    ends = np.array([[3, 3], [1, 2], [0, 1], [2, 3], [3, 3]])
    weight = np.array([0.5, 0.7, 1.4, 0.3, 3.3])
    asked = {"alpha": 0.0, "coarsening": "random", "classes": range(5)}
    small, large = (OrderedLogit(**asked).fit(X, ends, weight * size) for size in (1.0, 1e7))
    assert large.converged_
    np.testing.assert_allclose(large.coef_, small.coef_, rtol=1e-6)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_with_its_row(bad):
    X, y = table(30)
    X[17, 1] = bad
    with pytest.raises(ValueError, match="X, row 17: feature 1 is"):
        OrderedLogit().fit(X, y)


@pytest.mark.parametrize("far", [1e8, 1e9])
def test_features_far_from_zero_have_the_same_weights(far):
    """Time stamps and ids: a billion spreads away, a score still has six digits."""
    X, y = table(300)
    near, there = OrderedLogit(alpha=0.0).fit(X, y), OrderedLogit(alpha=0.0).fit(X + far, y)
    np.testing.assert_allclose(there.coef_, near.coef_, rtol=1e-5)
    errors = (np.sqrt(np.diag(model.covariance_))[:3] for model in (near, there))
    np.testing.assert_allclose(*errors, rtol=1e-5)


def test_features_too_far_from_zero_are_refused_by_name():
    X, y = table(300)
    X[:, 1] += 1e12
    with pytest.raises(ValueError, match="feature 1 varies by"):
        OrderedLogit(alpha=0.0).fit(X, y)


def test_a_threshold_in_a_gap_without_rows_has_no_error():
    """No row's probability says where in the gap it is, not even by the smallest number."""
    X = np.array([[0.0], [1.0], [0.0], [1.0], [1e4], [1e4]])
    model = OrderedLogit(alpha=1e-6, link="cloglog").fit(X, [0, 1, 0, 1, 2, 2])
    variances = np.diag(model.covariance_)
    assert np.isfinite(model.covariance_).all()
    assert (variances[:2] > 0.0).all()
    assert variances[2] == 0.0


@pytest.mark.parametrize("exact", [0.0, 0.25])
@pytest.mark.parametrize("seed", range(3))
def test_the_posterior_never_falls_and_steps_are_few(exact, seed):
    X, pairs = raters(600, seed, exact)
    kinds, kind = Kinds.of(pairs, 4)
    asked, steps = FitSettings(alpha=0.3, coarsening="offsets"), []
    rows = Fitting(InMemory(Block(X, kind, np.ones(600)), kinds), asked)
    for start in rows.problem(rows.rows, rows.mechanism("offsets")).starts():
        values = []
        begun = {"x": start, "n_iter": 0, "damping": 0.0, "converged": False, "target": None}
        begun |= {"mechanism": "offsets", "evidence": {}, "n_steps": 0}
        found = fit(rows.rows, asked, begun, lambda far, to=values: to.append(far.maximum.value))
        assert found.maximum.converged
        assert (np.diff([*values, found.maximum.value]) > -1e-8).all()
        steps.append(found.maximum.n_iter)
    assert max(steps) <= 15


@pytest.mark.parametrize("seed", range(3))
def test_a_sample_leads_near_the_maximum_of_all_rows(seed, monkeypatch):
    """A free table, beside whose prior many rows say more than a few."""
    monkeypatch.setattr("pril.likelihood.fitting.MOST_COMPARED", 500)
    X, y = table(20_000, seed)
    is_exact = np.random.default_rng(seed).random(len(y)) < 0.1
    all_down = np.column_stack([np.where(is_exact, y, np.maximum(y - 1, 0)), y])
    kinds, kind = Kinds.of(all_down, 4)
    found = fit(InMemory(Block(X, kind, np.ones(len(X))), kinds), FitSettings(alpha=0.3))
    assert isinstance(found.problem.mechanism, Free)
    assert found.maximum.converged
    assert found.maximum.n_iter <= 5


@pytest.mark.parametrize("logit", [1.0, 30.0, 50.0, 500.0])
def test_the_prior_of_a_direction_is_mirrored(logit):
    mechanism = Offsets(Kinds(np.array([[0, 1]]), 3), 2.0)
    up, down = (mechanism.prior(np.array([0.5, -1.0, way, 0.0])) for way in (logit, -logit))
    assert np.isfinite(up.value)
    assert up.value == pytest.approx(down.value, rel=1e-12)
    assert up.gradient[2] == pytest.approx(-down.gradient[2], rel=1e-12)
    assert up.gradient[2] < 0.0


@pytest.mark.parametrize("width", [1, 2])
@pytest.mark.parametrize("seed", range(3))
def test_searches_that_end_early_miss_no_maximum(seed, width):
    """As high as the highest of searches that know nothing of each other, in fewer steps."""
    X, y = table(300, seed)
    ranges = make_intervals(y, width, 0.8, classes=range(4), random_state=seed)
    kinds, kind = Kinds.of(ranges, 4)
    asked = Fitting(InMemory(Block(X, kind, np.ones(300)), kinds), FitSettings(alpha=0.3))
    problem = asked.problem(asked.rows, asked.mechanism("offsets"))
    alone = [problem.fit(Maximum(x), 100) for x in problem.starts()]
    best, n_steps = problem.fit_all(100)
    assert best.value == pytest.approx(max(each.value for each in alone), abs=1e-6)
    assert n_steps < 0.75 * sum(each.n_iter for each in alone)


@pytest.mark.parametrize(("n", "is_separated"), [(60, True), (4000, False)])
def test_many_features_that_separate_all_rows_are_warned_of(n, is_separated, tmp_path):
    """Of 1,001 features, no matrix of second derivatives is made that would show it."""
    X = random_array((n, 1001), density=0.02, rng=np.random.default_rng(0), format="csr")
    y = np.random.default_rng(1).integers(0, 3, n)
    warned = pytest.warns(ConvergenceWarning, match="no maximum exists: features .* more separate")
    with warned if is_separated else nullcontext():
        model = OrderedLogit(alpha=0.0).fit(X, y)
    assert model.converged_ != is_separated
    pril.save(model, tmp_path / "model")
    assert pril.load(tmp_path / "model").converged_ != is_separated


@pytest.mark.parametrize("wrap", [np.asarray, csr_array])
@pytest.mark.parametrize("value", [1e200, -1e180])
def test_features_that_overflow_are_named(wrap, value):
    X, y = table(20)
    X[7, 1] = value
    reason = rf"X, row 7: .*: feature 1 is {re.escape(str(value))}, too large for sums of products"
    with pytest.raises(ValueError, match=reason):
        OrderedLogit().fit(wrap(X), y)


def test_too_few_steps_are_warned_of():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = OrderedLogit(max_iter=1).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 1
