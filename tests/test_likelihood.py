"""`OrderedLogit.fit` finds the maximum of the likelihood: against statsmodels and SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import expit
from sklearn.exceptions import ConvergenceWarning

from pril import OrderedLogit
from pril.core import likelihood
from pril.core.coarsening import Kinds
from pril.core.likelihood import Block, Chances, Frame, InMemory, Point
from pril.inference import infer
from pril.labels import make_intervals

THETA = np.array([-1.5, 0.0, 1.0])


def table(n=400, seed=0, d=3):
    """Return features far from centred, and exact ranks of an ordered logit."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * np.geomspace(0.5, 3.0, d) + np.linspace(-3.0, 5.0, d)
    f = (X - X.mean(axis=0)) @ np.linspace(1.0, -0.5, d)
    return X, np.digitize(f + rng.logistic(size=n), THETA)


def at_random(y, n_classes=4):
    """Return brackets of a partition, which say nothing of the class in them."""
    low = y // 2 * 2
    return np.column_stack([low, np.minimum(low + 1, n_classes - 1)])


def naive_loss(parameters, X, lo, hi, weight, alpha):
    """Return the penalised negative log-likelihood, as it is written down."""
    d = X.shape[1]
    w, theta = parameters[:d], np.cumsum([parameters[d], *np.exp(parameters[d + 1 :])])
    cut = np.concatenate([[-np.inf], theta, [np.inf]])
    f = X @ w
    loss = -weight @ np.log(expit(cut[hi + 1] - f) - expit(cut[lo] - f))
    mean = (weight @ X / weight.sum()) @ w
    at_mean = np.diff(expit(cut - mean))
    return loss + alpha / 2 * (w @ w) - alpha / 2 * np.log(at_mean).sum()


def best_by_scipy(X, lo, hi, weight, alpha, n_classes=4):
    start = np.concatenate([np.zeros(X.shape[1]), [-1.0], np.zeros(n_classes - 2)])
    arguments = (X - X.mean(axis=0), lo, hi, weight, alpha)
    found = minimize(naive_loss, start, arguments, method="BFGS", options={"gtol": 1e-7})
    d = X.shape[1]
    theta = np.cumsum([found.x[d], *np.exp(found.x[d + 1 :])])
    return found.x[:d], theta + X.mean(axis=0) @ found.x[:d]


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


@pytest.mark.parametrize("alpha", [0.0, 0.3, 20.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_exact_labels_agree_with_an_optimiser(alpha, weighted):
    X, y = table()
    weight = np.random.default_rng(1).uniform(0.2, 3.0, len(y)) if weighted else np.ones(len(y))
    model = OrderedLogit(alpha=alpha).fit(X, y, weight if weighted else None)
    X = X - (weight @ X / weight.sum() - X.mean(axis=0)) if weighted else X
    coef, _ = best_by_scipy(X, y, y, weight, alpha)
    np.testing.assert_allclose(model.coef_, coef, atol=2e-5)


def test_ranges_at_random_agree_with_an_optimiser():
    X, y = table()
    pairs = at_random(y)
    exact = np.arange(len(y)) % 3 == 0
    pairs[exact] = y[exact, np.newaxis]
    model = OrderedLogit(alpha=0.0, coarsening="random", trust=1e9).fit(X, pairs)
    coef, theta = best_by_scipy(X, *pairs.T, np.ones(len(y)), 0.0)
    np.testing.assert_allclose(model.coef_, coef, atol=2e-3)
    np.testing.assert_allclose(model.thresholds_, theta, atol=5e-3)


@pytest.mark.parametrize("flat", [True, False])
def test_gradient_and_information_are_derivatives(flat):
    """Of the log-likelihood, by differences; `gradient` is the same as in the sums."""
    X, y = table(60)
    kinds, kind = Kinds.of(make_intervals(y, 1, 0.75, classes=range(4), random_state=0), 4)
    rng = np.random.default_rng(3)
    q = None if flat else kinds.inside * rng.uniform(0.1, 1.0, kinds.inside.shape)
    frame = Frame(X.mean(axis=0), np.array([0.5, 1.0, 2.0]))
    block = Block(X, kind, rng.uniform(0.5, 2.0, 60), rng.normal(size=60))
    at = np.concatenate([rng.normal(size=3), THETA])

    def sums(vector):
        return Point(frame, vector[:3], vector[3:], Chances(kinds, q)).sums(block)

    here, step = sums(at), 1e-5 * np.eye(6)
    slopes = [(sums(at + e).loglik - sums(at - e).loglik) / 2e-5 for e in step]
    np.testing.assert_allclose(here.gradient, slopes, rtol=1e-6, atol=1e-6)
    curves = [(sums(at - e).gradient - sums(at + e).gradient) / 2e-5 for e in step]
    np.testing.assert_allclose(here.information, curves, rtol=1e-6, atol=1e-6)
    point = Point(frame, at[:3], at[3:], Chances(kinds, q))
    np.testing.assert_allclose(point.slope(block)[1], here.gradient, atol=1e-10)
    if not flat:
        np.testing.assert_allclose(here.counts.sum(), block.weight.sum())
        moved = [(sums(at + e).classes - sums(at - e).classes) / 2e-5 for e in step]
        np.testing.assert_allclose(here.class_slopes, moved, rtol=1e-6, atol=1e-6)


def test_the_expected_information_is_the_mean_over_exact_labels():
    X, _ = table(60)
    kinds, kind = Kinds.of(np.repeat(np.arange(4), 2).reshape(4, 2), 4)
    point = Point(Frame(X.mean(axis=0), np.ones(3)), np.ones(3), THETA, Chances(kinds, None))
    block = Block(X, np.repeat(kind[:1], 60), np.linspace(0.5, 2.0, 60), np.zeros(60))
    below = expit(THETA[:, np.newaxis] - (X - X.mean(axis=0)).sum(axis=1))
    shares = np.diff(below, axis=0, prepend=0.0, append=1.0) * block.weight
    drawn = [block._replace(kind=np.repeat(kind[k], 60), weight=shares[k]) for k in range(4)]
    expected = sum(point.sums(one).information[3:, 3:] for one in drawn)
    np.testing.assert_allclose(point.expected_information(block), expected, atol=1e-10)


def ranges_of_raters(n=500, seed=0):
    X, y = table(n, seed)
    return X, make_intervals(y, 1, 0.75, classes=range(4), random_state=seed)


def test_neither_a_seed_nor_the_order_of_rows_matters():
    X, pairs = ranges_of_raters()
    model = OrderedLogit(random_state=0).fit(X, pairs)
    again = OrderedLogit(random_state=7).fit(X, pairs)
    np.testing.assert_array_equal(again.memory_.numbers, model.memory_.numbers)
    order = np.random.default_rng(0).permutation(len(X))
    other = OrderedLogit().fit(X[order], pairs[order])
    assert other.coarsening_.mechanism == model.coarsening_.mechanism
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-6)
    np.testing.assert_allclose(other.thresholds_, model.thresholds_, rtol=1e-6)


def test_sparse_rows_and_single_precision_are_the_same_problem():
    X, pairs = ranges_of_raters()
    X = np.where(np.abs(X) < 1.0, 0.0, X).astype(np.float32)
    model = OrderedLogit().fit(X.astype(np.float64), pairs)
    np.testing.assert_array_equal(OrderedLogit().fit(X, pairs).coef_, model.coef_)
    sparse = OrderedLogit().fit(csr_array(X), pairs)
    np.testing.assert_allclose(sparse.coef_, model.coef_, rtol=1e-7)
    np.testing.assert_allclose(sparse.thresholds_, model.thresholds_, rtol=1e-7)


@pytest.mark.parametrize("sparse", [False, True])
def test_many_features_have_the_same_maximum(sparse, monkeypatch):
    """By conjugate gradients: the information of many features is never written down."""
    X, pairs = ranges_of_raters()
    X = np.where(np.abs(X) < 1.0, 0.0, X)
    model = OrderedLogit().fit(X, pairs)
    monkeypatch.setattr("pril.core.likelihood.MOST_DENSE", 2)
    other = OrderedLogit().fit(csr_array(X) if sparse else X, pairs)
    np.testing.assert_allclose(other.coef_, model.coef_, atol=1e-3)
    np.testing.assert_allclose(other.thresholds_, model.thresholds_, atol=3e-3)


def test_more_features_than_rows():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 1200)), np.arange(60) % 3
    model = OrderedLogit().fit(X, y)
    assert model.converged_
    rows = InMemory(X, y, np.ones(60), Kinds(np.column_stack([range(3)] * 2), 3))
    frame = Frame(X.mean(axis=0), np.ones(1200))
    at_mean = model.thresholds_ - X.mean(axis=0) @ model.coef_
    point = Point(frame, model.coef_, at_mean, Chances(rows.kinds))
    slope = sum(point.slope(block)[1] for block in rows.blocks)[:1200] - 0.3 * model.coef_
    assert np.abs(slope).max() < 1e-4


def test_weights_are_numbers_of_rows_and_a_half_life_is_weights():
    X, pairs = ranges_of_raters(300)
    times = np.random.default_rng(0).integers(0, 3, len(X))
    model = OrderedLogit(coarsening="random").fit(X, pairs, times.astype(float))
    other = OrderedLogit(coarsening="random").fit(X.repeat(times, 0), pairs.repeat(times, 0))
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=0.05)  # exact rows count once
    X, y = table(300)
    weighted = OrderedLogit().fit(X, y, times.astype(float))
    repeated = OrderedLogit().fit(X.repeat(times, 0), y.repeat(times))
    np.testing.assert_allclose(weighted.coef_, repeated.coef_, rtol=1e-8)
    faded = OrderedLogit(half_life=40).fit(X, y)
    by_age = OrderedLogit().fit(X, y, 2.0 ** ((np.arange(300) - 299) / 40))
    np.testing.assert_allclose(faded.coef_, by_age.coef_, rtol=1e-12)


def test_streams_go_on_from_the_maximum():
    X, pairs = ranges_of_raters()
    model = OrderedLogit().fit(X, pairs)
    coef, before = model.coef_, model.predict_proba(X)
    model.partial_fit(X[:1], pairs[:1])
    assert model.t_ == len(X) + 1
    assert 0.0 < np.abs(model.coef_ - coef).max() < 0.01
    np.testing.assert_allclose(model.predict_proba(X), before, atol=0.01)


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


@pytest.mark.parametrize("alpha", [0.0, 0.3])
@pytest.mark.parametrize("name", HARD)
def test_hard_problems_have_finite_answers(name, alpha):
    X, y = HARD[name]
    model = OrderedLogit(alpha=alpha).fit(X, y)
    assert np.isfinite([*model.coef_, *model.thresholds_, model.loglik_]).all()
    assert np.isfinite(model.predict_proba(X)).all()
    if name == "separable":
        assert (model.predict(X) == y).all()


@pytest.mark.parametrize("alpha", [0.0, 0.3])
def test_classes_without_rows_keep_finite_thresholds(alpha):
    X, y = table(100)
    for classes in (range(-1, 6), [0, 0.5, 1, 2, 3], range(-30, 34)):
        model = OrderedLogit(classes=classes, alpha=alpha).fit(X, y)
        assert np.isfinite(model.thresholds_).all()
        assert (np.diff(model.thresholds_) > 0.0).all()


def test_extreme_weights():
    X, y = table(100)
    weight = np.where(np.arange(100) % 2, 1e6, 0.0)
    model = OrderedLogit(alpha=0.0).fit(X, y, weight)
    other = OrderedLogit(alpha=0.0).fit(X[1::2], y[1::2])
    np.testing.assert_allclose(model.coef_, other.coef_, rtol=1e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_refused_with_its_row(bad):
    X, y = table(30)
    X[17, 1] = bad
    with pytest.raises(ValueError, match="X, row 17: feature 1 is"):
        OrderedLogit().fit(X, y)


def test_too_few_steps_are_warned_of():
    X, y = table()
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        model = OrderedLogit(max_iter=1).fit(X, y)
    assert not model.converged_
    assert model.n_iter_ == 1


def test_no_class_vanishes_where_ranges_are_shifted_into_the_scale():
    """By offsets that only go up, the highest classes would not occur, and nor would narrow ends."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    rank = np.digitize(X @ [1.5, 1.0] + rng.logistic(scale=0.25, size=600), np.arange(-3, 4) * 0.8)
    lower = (rank - rng.integers(0, 3, 600)).clip(0, 5)
    ranges = np.column_stack([lower, lower + 2])
    errors = {
        coarsening: np.abs(
            OrderedLogit(classes=range(8), coarsening=coarsening).fit(X, ranges).predict(X) - rank
        ).mean()
        for coarsening in ("auto", "random")
    }
    assert errors["auto"] < errors["random"]


@pytest.mark.parametrize("seed", [0, 2])
def test_steps_that_are_mixed_lead_where_many_plain_ones_lead(monkeypatch, seed):
    """A quarter of the labels exact, the others three classes: plain EM takes hundreds of steps."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(4000, 4))
    y = np.digitize(X @ [1.0, 0.5, -0.5, 0.2] + rng.logistic(size=4000), [-2.0, -0.7, 0.7, 2.0])
    ranges = make_intervals(y, 2, 0.75, classes=range(5), random_state=seed)
    model = OrderedLogit(classes=range(5)).fit(X, ranges)  # without a warning
    assert likelihood.MOST_EXTRAPOLATED < model.n_iter_ < 100
    plain = OrderedLogit(classes=range(5), max_iter=1000)
    monkeypatch.setattr(likelihood, "_mix", lambda path, here, *_: (here, (*path, path[-1])))
    monkeypatch.setattr(likelihood, "STILL", 0.0)
    plain.fit(X, ranges)
    assert plain.n_iter_ > 200
    error = infer(model).std_error
    found, expected = (np.concatenate([each.coef_, each.thresholds_]) for each in (model, plain))
    assert np.all(np.abs(found - expected) < 0.3 * error)
