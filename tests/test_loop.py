"""The loop against its slow twins, and exact equalities between two ways to compute a thing.

These tests also run without the compiler (`make test-slow` does, with NUMBA_DISABLE_JIT=1).
"""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.sparse import csr_array

import reference
from learners import EXACT_ONLY, LINEAR, STEPS, linear, with_variants
from pril import (
    MPRIL,
    PRIL,
    MulticlassPerceptron,
    OrderedLogit,
    PassiveAggressive,
    PRank,
    WidrowHoff,
)
from pril.core import registry
from pril.evaluate import progressive
from strategies import cuts, exact_streams, smooth_streams

LEARNERS = [
    *with_variants(linear(takes_ranges=True)),
    MPRIL(signed=False),
    WidrowHoff(average=False, normalize=False, rate=0.01, fit_intercept=False),
    MulticlassPerceptron(average=False, fit_intercept=False),
]
BY_NAME = {learner.name: learner for learner in registry.LEARNERS}
UNEVEN = tuple(BY_NAME[name].load() for name in reference.UNEVEN)
CONTAINERS = st.sampled_from([np.asarray, csr_array])
few = settings(max_examples=10)  # for each of a dozen learners
pytestmark = pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")


def fresh(learner):
    return type(learner)(**learner.get_params())


def learned(learner, X, y, classes):
    return fresh(learner).partial_fit(X, y, classes=classes)


def weights(model):
    """Return all that a model has learned, as one array; of classes, the lowest first."""
    parts = [model.coef_, getattr(model, "intercept_", 0.0), getattr(model, "thresholds_", 0.0)]
    if model.coef_.ndim == 2:
        parts[:2] = (part[np.searchsorted(model.classes_, model.order_)] for part in parts[:2])
    return np.concatenate([np.ravel(part) for part in parts])


# --- Twins ---


def compare_with_twin(twin, data):
    traits = BY_NAME[twin.learner]
    streams = smooth_streams if twin.rounds else exact_streams
    stream = data.draw(streams(exact_labels=twin.learner in EXACT_ONLY))
    model = traits.load()(**twin.parameters)
    progress = progressive(model, stream.X, stream.y, stream.classes)
    predictions, models = twin.run(*stream)
    assert progress.predictions.tolist() == predictions
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if twin.rounds else {"rtol": 0}
    w, theta = models[-1]
    np.testing.assert_allclose(model.coef_, w, **tolerance)
    if theta is not None:
        np.testing.assert_allclose(model.thresholds_, theta, **tolerance)


@pytest.mark.parametrize("twin", reference.TWINS, ids=str)
@given(data=st.data())
def test_learners_are_their_slow_twins(twin, data):
    compare_with_twin(twin, data)


@pytest.mark.slow
@pytest.mark.parametrize("twin", reference.TWINS, ids=str)
@settings(derandomize=False, max_examples=500)
@given(data=st.data())
def test_learners_are_their_slow_twins_on_random_examples(twin, data):
    compare_with_twin(twin, data)


def test_scores_far_from_all_thresholds_are_counted_as_the_twin_counts_them():
    """Small chances must not be differences of large ones: evidence is a ratio of such chances."""
    rng, options = np.random.default_rng(7), {"trust": 0.0, "cut_rate": 9}
    for _ in range(300):
        n, d, K = (int(rng.integers(*ends)) for ends in ((5, 26), (1, 6), (2, 7)))
        X, y = rng.uniform(-1, 1, (n, d)), np.sort(rng.integers(1, K + 1, (n, 2)), axis=1)
        model = OrderedLogit(average=False, **options).partial_fit(X, y, range(1, K + 1))
        w, theta = reference.ordered_logit(X, y, K, **options)[1][-1]
        np.testing.assert_allclose(model.coef_, w, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(model.thresholds_, theta, rtol=1e-9, atol=1e-12)


def least_change(old, z, x, C, power):
    """Return the best weights and thresholds after a row, by an optimiser that knows no kinks."""
    n, d = len(old), len(x)
    asked = z != 0

    def cost(p):
        return np.square(p[:n] - old).sum() / 2 + (C * (p[n:] ** power).sum() if len(p) > n else 0)

    def margins(p):
        found = (z * (p[:d] @ x - p[d:n]))[asked] - 1
        return np.concatenate([found + p[n:], p[n:]]) if len(p) > n else found

    start = np.concatenate([old, np.ones(asked.sum() if np.isfinite(C) else 0)])
    rules, options = {"type": "ineq", "fun": margins}, {"ftol": 1e-14, "maxiter": 500}
    return minimize(cost, start, method="SLSQP", constraints=rules, options=options).x[:n]


@pytest.mark.parametrize("C", [np.inf, 0.2])
@pytest.mark.parametrize("loss", ["hinge", "squared_hinge"])
def test_passive_aggressive_makes_the_least_change(C, loss):
    rng = np.random.default_rng(3)
    for _ in range(8):
        d, K = rng.integers(1, 4), rng.integers(3, 6)
        X, y = rng.normal(size=(6, d)), np.sort(rng.integers(1, K + 1, (6, 2)), axis=1)
        model = PassiveAggressive(average=False, C=C, loss=loss)
        model.partial_fit(X[:5], y[:5], range(1, K + 1))
        old = np.concatenate([model.coef_, model.thresholds_])
        model.partial_fit(X[5:], y[5:])
        i, (left, right) = np.arange(1, K), y[5]
        z = np.where(i < left, 1, np.where(i >= right, -1, 0))
        least = least_change(old, z, X[5], C, 1 if loss == "hinge" else 2)
        assert (np.diff(least[d:]) > -1e-6).all()  # the thresholds keep their order
        np.testing.assert_allclose([*model.coef_, *model.thresholds_], least, atol=1e-5)


def test_a_row_of_no_weight_is_passed_over_at_any_price():
    model = PassiveAggressive(C=np.inf, average=False, classes=[1, 2])
    model.partial_fit([[1.0], [1.0]], [2, 1], sample_weight=[1.0, 0.0])
    assert model.predict([[1.0]]) == [2]


def test_every_linear_learner_has_a_twin():
    assert {twin.learner for twin in reference.TWINS} == {cls.__name__ for cls in LINEAR}


def test_pril_and_prank_differ_at_the_first_tie():
    """All thresholds and the score start at 0, which predicts K: right, for label K."""
    first = [[1.0]], [3]
    pril = PRIL(average=False).partial_fit(*first, classes=[1, 2, 3])
    prank = PRank(average=False).partial_fit(*first, classes=[1, 2, 3])
    assert (pril.coef_, *pril.thresholds_) == (2, -1, -1)
    assert (prank.coef_, *prank.thresholds_) == (0, 0, 0)


def test_thresholds_move_although_alpha_is_zero():
    """Left and right constraints fail together in the first round, and cancel in w only."""
    model = PRIL(average=False).partial_fit([[1.0]], [(2, 2)], classes=[1, 2, 3])
    assert model.coef_ == 0
    assert model.thresholds_.tolist() == [-1, 1]
    assert (model.t_, model.n_mistakes_, model.n_updates_) == (1, 1, 2)


@given(stream=exact_streams())
def test_pril_is_kernel_pril_with_a_linear_kernel(stream):
    model = PRIL(average=False)
    progress = progressive(model, stream.X, stream.y, stream.classes)
    predictions, taus = reference.kernel_pril(*stream)
    assert progress.predictions.tolist() == predictions
    np.testing.assert_array_equal(model.coef_, taus.sum(axis=1) @ stream.X)
    np.testing.assert_array_equal(model.thresholds_, -taus.sum(axis=0))
    assert model.n_updates_ == np.abs(taus).sum()
    assert model.n_mistakes_ == np.abs(taus).any(axis=1).sum()


@pytest.mark.parametrize("signed", [True, False])
def test_mpril_starts_where_the_proof_does(signed):
    """A row without a label leaves u = 0, n = 0."""
    model = MPRIL(signed=signed).partial_fit([[0.5, -0.5]], [None], classes=[1, 2, 3, 4])
    start = 0.0 if signed else 1 / (4 + 2 - 1)
    np.testing.assert_allclose(model.coef_, [start] * 2)
    np.testing.assert_allclose(model.thresholds_, [start] * 3)


@pytest.mark.parametrize("signed", [True, False])
@given(stream=smooth_streams(max_rows=12))
def test_mpril_keeps_going_far_beyond_the_range_of_exp(stream, signed):
    """Exponents of thousands: decisions and the state stay finite, weights stay normalised."""
    model = MPRIL(rate=200.0, signed=signed)
    for _ in range(20):
        model.partial_fit(stream.X, stream.y, classes=stream.classes)
    assert np.isfinite(weights(model)).all()
    mass = np.abs(model.coef_).sum() + np.abs(model.thresholds_).sum()
    if signed:
        assert mass <= 1 + 1e-12
    else:
        assert mass == pytest.approx(1)


@pytest.mark.parametrize("signed", [True, False])
@settings(max_examples=20)
@given(stream=smooth_streams(), rate=st.sampled_from([5.0, 20.0]))
def test_mpril_is_its_twin_where_its_exponents_are_centred_again(stream, signed, rate):
    """That is done after at most 60 mistakes, inside a batch and between two of them."""
    X, y = np.tile(stream.X, (8, 1)), np.tile(stream.y, (8, 1))
    whole = MPRIL(rate=rate, signed=signed)
    progress = progressive(whole, X, y, stream.classes)
    predictions, model = reference.far_mpril(X, y, stream.K, rate, signed)
    assert progress.predictions.tolist() == predictions
    found = whole.coef_, whole.thresholds_
    for part, expected in zip(found, model, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-6, atol=1e-12)
    rows = MPRIL(rate=rate, signed=signed, classes=stream.classes)
    for x, ends in zip(X[:, np.newaxis], y[:, np.newaxis], strict=True):
        rows.partial_fit(x, ends)
    np.testing.assert_array_equal(weights(rows), weights(whole))


@pytest.mark.parametrize("signed", [True, False])
@given(stream=smooth_streams(), rate=st.sampled_from([0.05, 0.5, 2.0]))
def test_no_decision_of_mpril_depends_on_its_normaliser(stream, signed, rate):
    model = MPRIL(rate=rate, signed=signed)
    progress = progressive(model, stream.X, stream.y, stream.classes)
    expected = reference.mpril(*stream, rate=rate, signed=signed, normalise=False)[0]
    assert progress.predictions.tolist() == expected


@given(
    f=st.floats(-5, 5),
    theta=st.lists(st.floats(-4, 4), min_size=1, max_size=6, unique=True).map(sorted),
    data=st.data(),
)
def test_slopes_are_those_of_the_log_likelihood(f, theta, data):
    theta = np.array(theta)
    assume((np.diff(theta) >= 0.05).all())
    chances = st.lists(st.floats(0.01, 1), min_size=len(theta) + 1, max_size=len(theta) + 1)
    q = np.array(data.draw(chances))
    a, tau = reference.slopes(f, theta, q)
    step = 1e-6

    def slope(change_f, change_theta):
        ends = [
            np.log(reference.likelihood(f + s * change_f, theta + s * change_theta, q))
            for s in (step, -step)
        ]
        return (ends[0] - ends[1]) / (2 * step)

    assert a == pytest.approx(slope(1, np.zeros(len(theta))), abs=1e-5)
    for i in range(len(theta)):
        assert -tau[i] == pytest.approx(slope(0, np.eye(len(theta))[i]), abs=1e-5)


@pytest.mark.parametrize("x", [1.0, 2.0, 1e3, 1e6])
def test_a_score_far_from_its_thresholds_is_learned_from(x):
    """A tiny first row makes the first step long: the second score is beyond what exp can take."""
    model = learned(OrderedLogit(), [[1.0 / 64], [x], [-x]], [1, 1, 0], [0, 1])
    assert np.isfinite(weights(model)).all()
    assert model.predict_proba([[-x], [x]]) == pytest.approx(np.identity(2), abs=1e-6)


@given(f=st.floats(-50, 50), cut=st.floats(-5, 5), K=st.integers(2, 9), data=st.data())
def test_the_slope_by_the_score_is_at_most_one_where_thresholds_tie(f, cut, K, data):
    q = np.array(data.draw(st.lists(st.floats(0, 1), min_size=K, max_size=K)))
    q[data.draw(st.integers(0, K - 1))] = 1.0
    assert abs(reference.slopes(f, np.full(K - 1, cut), q)[0]) <= 1 + 1e-12


# --- Theorems and equalities ---


@pytest.mark.parametrize(
    "learner", [*with_variants(linear(has_thresholds=True, takes_ranges=True)), MPRIL(signed=False)]
)
@few
@given(stream=exact_streams(max_classes=20), seed=st.none() | st.integers(0, 99))
def test_thresholds_are_ordered_after_every_round(learner, stream, seed):
    """Weighted or not, then for rows of weight one again, which start off the lattice."""
    model, n = fresh(learner), len(stream.X)
    weight = np.ones(n) if seed is None else np.random.default_rng(seed).uniform(0, 9, n)
    weight[n // 2 :] = 1.0
    for t in range(n):
        row = slice(t, t + 1)
        model.partial_fit(stream.X[row], stream.y[row], stream.classes, weight[row])
        assert (np.diff(model.thresholds_) >= 0).all()


@given(stream=exact_streams())
def test_pril_keeps_its_thresholds_on_integers(stream):
    model = learned(PRIL(average=False), stream.X, stream.y, stream.classes)
    np.testing.assert_array_equal(model.thresholds_, np.round(model.thresholds_))


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(data=st.data())
def test_dense_is_csr_bit_for_bit(learner, data):
    # Scores of MPRIL are rounded, so that a tie is broken by the order of a sum.
    streams = smooth_streams() if isinstance(learner, (MPRIL, *UNEVEN)) else exact_streams()
    stream = data.draw(streams)
    dense = learned(learner, stream.X, stream.y, stream.classes)
    sparse = learned(learner, csr_array(stream.X), stream.y, stream.classes)
    if isinstance(learner, UNEVEN):
        # Steps are not multiples of anything: sums differ in their last bits.
        np.testing.assert_allclose(weights(dense), weights(sparse), atol=1e-12)
    else:
        np.testing.assert_array_equal(weights(dense), weights(sparse))
        np.testing.assert_array_equal(dense.predict(stream.X), sparse.predict(csr_array(stream.X)))


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(data=st.data())
def test_any_chunking_is_one_call_bit_for_bit(learner, data):
    stream, container = data.draw(smooth_streams()), data.draw(CONTAINERS)
    whole = learned(learner, container(stream.X), stream.y, stream.classes)
    chunked = fresh(learner)
    for start, stop in data.draw(cuts(len(stream.X))):
        X = container(stream.X[start:stop])
        chunked.partial_fit(X, stream.y[start:stop], classes=stream.classes)
    np.testing.assert_array_equal(weights(whole), weights(chunked))
    assert whole.t_ == chunked.t_ == len(stream.X)
    assert whole.n_updates_ == chunked.n_updates_


# `fit` of the others makes passes; `OrderedLogit.fit` is tested in test_likelihood.py.
IN_PASSES = [learner for learner in LEARNERS if "shuffle" in learner.get_params()]


@pytest.mark.parametrize("learner", IN_PASSES, ids=repr)
@few
@given(stream=smooth_streams())
def test_one_unshuffled_pass_of_fit_is_partial_fit(learner, stream):
    online = learned(learner, stream.X, stream.y, stream.classes)
    batch = fresh(learner).set_params(max_iter=1, shuffle=False, classes=stream.classes)
    batch.fit(stream.X, stream.y)
    np.testing.assert_array_equal(weights(online), weights(batch))


AVERAGED = [cls() for cls in linear(averages=True, takes_ranges=True)]


@pytest.mark.parametrize("learner", AVERAGED, ids=repr)
@given(
    stream=smooth_streams(max_rows=12),
    weighted=st.booleans(),
    half_life=st.sampled_from([None, 0.5, 3.0, 1000]),
)
def test_lazy_mean_is_the_naive_mean(learner, half_life, stream, weighted):
    """The mean of the models that the same learner without averaging has after each round."""
    n = len(stream.X)
    weight = np.linspace(0.5, 2.0, n) if weighted else np.ones(n)
    last = fresh(learner).set_params(average=False, half_life=half_life)
    iterates = []
    for t in range(n):
        row = slice(t, t + 1)
        last.partial_fit(stream.X[row], stream.y[row], stream.classes, weight[row])
        iterates.append(weights(last))
    lazy = fresh(learner).set_params(half_life=half_life)
    lazy.partial_fit(stream.X, stream.y, stream.classes, weight)
    age = np.arange(1.0, n + 1) if isinstance(learner, OrderedLogit) else np.ones(n)
    omega = age if half_life is None else age * 2.0 ** ((np.arange(n) - n) / half_life)
    expected = np.average(iterates, axis=0, weights=omega)
    np.testing.assert_allclose(weights(lazy), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("learner", AVERAGED, ids=repr)
def test_a_half_life_outlasts_the_range_of_floats(learner):
    """Weights of rounds grow by 2^10000: the mean is that of the last few, and finite."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(5000, 3)), np.sort(rng.integers(1, 5, (5000, 2)), axis=1)
    model = fresh(learner).set_params(half_life=0.5).partial_fit(X, y, range(1, 5))
    last = (
        fresh(learner)
        .set_params(half_life=0.5, average=False)
        .partial_fit(X[:-60], y[:-60], range(1, 5))
    )
    iterates = []
    for t in range(len(X) - 60, len(X)):
        iterates.append(weights(last.partial_fit(X[t : t + 1], y[t : t + 1])))
    expected = np.average(iterates, axis=0, weights=2.0 ** (2 * np.arange(60.0) - 120))
    np.testing.assert_allclose(
        weights(model),
        expected,
        rtol=2e-2 if isinstance(learner, OrderedLogit) else 1e-9,
        atol=1e-9,
    )


@pytest.mark.parametrize("learner", AVERAGED, ids=repr)
@few
@given(data=st.data())
def test_chunks_with_weights_and_a_half_life_are_one_call_bit_for_bit(learner, data):
    stream = data.draw(smooth_streams())
    weight = np.linspace(0.0, 2.0, len(stream.X))
    whole = fresh(learner).set_params(half_life=2.0)
    whole.partial_fit(stream.X, stream.y, stream.classes, weight)
    chunked = fresh(learner).set_params(half_life=2.0)
    for start, stop in data.draw(cuts(len(stream.X))):
        part = slice(start, stop)
        chunked.partial_fit(stream.X[part], stream.y[part], stream.classes, weight[part])
    if whole.t_ or chunked.t_:
        np.testing.assert_array_equal(weights(whole), weights(chunked))


# --- Weights ---


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(stream=smooth_streams())
def test_weights_of_one_are_no_weights_bit_for_bit(learner, stream):
    """Also where one row weighs more, so that rows of weight one take the general way."""
    plain = learned(learner, stream.X, stream.y, stream.classes)
    ones = fresh(learner)
    ones.partial_fit(stream.X, stream.y, stream.classes, np.ones(len(stream.X)))
    np.testing.assert_array_equal(weights(plain), weights(ones))
    X, y = np.vstack([stream.X, stream.X[:1]]), np.vstack([stream.y, stream.y[:1]])
    slow = (
        fresh(learner).set_params(average=False) if hasattr(learner, "average") else fresh(learner)
    )
    fast = fresh(slow).partial_fit(stream.X, stream.y, stream.classes)
    weight = np.ones(len(X))
    weight[-1] = 1e-100  # too light to move anything
    slow.partial_fit(X, y, stream.classes, weight)
    np.testing.assert_allclose(weights(slow), weights(fast), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(stream=smooth_streams(), factor=st.sampled_from([0.25, 8.0]))
def test_the_scale_of_weights_does_not_matter(learner, stream, factor):
    """But for learners with a step of their own: there, it is divided by the scale."""
    weight = np.random.default_rng(0).uniform(0.5, 2, len(stream.X))
    one, other = fresh(learner), fresh(learner)
    step = STEPS.get(type(learner).__name__)
    if step is not None:
        other.set_params(**{step: getattr(learner, step) / factor})
    one.partial_fit(stream.X, stream.y, stream.classes, weight)
    other.partial_fit(stream.X, stream.y, stream.classes, factor * weight)
    np.testing.assert_array_equal(one.predict(stream.X), other.predict(stream.X))


@given(stream=smooth_streams(), seed=st.integers(0, 100))
def test_weighted_ordered_logit_is_its_slow_twin(stream, seed):
    weight = np.random.default_rng(seed).uniform(0.1, 5, len(stream.X))
    model = OrderedLogit(average=False)
    model.partial_fit(stream.X, stream.y, stream.classes, weight)
    _, models = reference.ordered_logit(*stream, weight=weight)
    np.testing.assert_allclose(model.coef_, models[-1][0], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.thresholds_, models[-1][1], rtol=1e-9, atol=1e-12)


@given(stream=smooth_streams(), seed=st.integers(0, 100))
def test_weighted_pril_is_its_slow_twin(stream, seed):
    """Steps times the weight, then the nearest ordered thresholds."""
    weight = np.random.default_rng(seed).uniform(0.1, 5, len(stream.X))
    model = PRIL(average=False).partial_fit(stream.X, stream.y, stream.classes, weight)
    w, theta = np.zeros(stream.X.shape[1]), np.zeros(stream.K - 1)
    for x, ends, c in zip(stream.X, stream.y, weight, strict=True):
        tau = c * reference.violated(w @ x, theta, *ends)
        w, theta = w + tau.sum() * x, reference.ascending(theta - tau)
    np.testing.assert_allclose(model.coef_, w, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(model.thresholds_, theta, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::pril.errors.ClassOrderWarning")
@pytest.mark.parametrize("learner", IN_PASSES, ids=repr)
@few
@given(stream=smooth_streams(max_rows=12), shuffle=st.booleans())
def test_a_row_of_weight_zero_is_as_if_it_were_not_there(learner, shuffle, stream):
    weight = np.random.default_rng(1).uniform(0.5, 2, len(stream.X))
    X = np.insert(stream.X, [0, len(stream.X)], 0.5, axis=0)
    y = np.insert(stream.y, [0, len(stream.X)], 99, axis=0)  # 99 is no class
    options = {"max_iter": 3, "random_state": 0, "shuffle": shuffle}
    expected = fresh(learner).set_params(**options).fit(stream.X, stream.y, weight)
    model = fresh(learner).set_params(**options).fit(X, y, [0, *weight, 0])
    assert model.classes_.tolist() == expected.classes_.tolist()
    np.testing.assert_array_equal(weights(model), weights(expected))
    assert model.t_ == expected.t_


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(stream=exact_streams(), names=st.sampled_from(["codes", "strings", "floats"]))
def test_a_relabelling_of_classes_changes_nothing(learner, stream, names):
    spellings = {
        "codes": np.arange(stream.K) * 2 - 3,
        "strings": np.array([f"{chr(122 - k)}-{k}" for k in range(stream.K)], dtype=object),
        "floats": np.arange(stream.K) / 4,
    }
    renamed = spellings[names]
    plain = learned(learner, stream.X, stream.y, stream.classes)
    other = learned(learner, stream.X, renamed[stream.y - 1], renamed)
    if plain.coef_.ndim == 2:  # its rows follow the sorted classes
        ranks = np.argsort(np.argsort(renamed))
        np.testing.assert_array_equal(plain.coef_, other.coef_[ranks])
        np.testing.assert_array_equal(plain.intercept_, np.ravel(other.intercept_)[ranks])
    else:
        np.testing.assert_array_equal(weights(plain), weights(other))
    np.testing.assert_array_equal(renamed[plain.predict(stream.X) - 1], other.predict(stream.X))


@pytest.mark.parametrize("learner", [WidrowHoff(), MulticlassPerceptron()], ids=repr)
@given(stream=exact_streams())
def test_an_intercept_is_a_constant_feature(learner, stream):
    with_intercept = learned(learner, stream.X, stream.y, stream.classes)
    X = np.column_stack([stream.X, np.ones(len(stream.X))])
    without = learned(learner.set_params(fit_intercept=False), X, stream.y, stream.classes)
    learner.set_params(fit_intercept=True)
    np.testing.assert_allclose(
        np.column_stack([np.atleast_2d(with_intercept.coef_), np.ravel(with_intercept.intercept_)]),
        np.atleast_2d(without.coef_),
        atol=1e-12,
    )


# --- A row without a label is no round ---


@st.composite
def with_gaps(draw, streams):
    """Return a stream, with rows without a label among its rows, and which rows have one."""
    stream = draw(streams)
    n = draw(st.integers(1, 6))
    places = draw(st.lists(st.integers(0, len(stream.X)), min_size=n, max_size=n))
    X = np.insert(stream.X, places, 0.25, axis=0)
    y = np.insert(stream.y.astype(float), places, np.nan, axis=0)
    return stream, X, y, ~np.isnan(y[:, 0])


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(data=st.data())
def test_partial_fit_passes_over_rows_without_a_label(learner, data):
    stream, X, y, _ = data.draw(with_gaps(smooth_streams(max_rows=12)))
    container = data.draw(CONTAINERS)
    expected = learned(learner, container(stream.X), stream.y, stream.classes)
    model = fresh(learner)
    for start, stop in data.draw(cuts(len(X))):
        model.partial_fit(container(X[start:stop]), y[start:stop], classes=stream.classes)
    np.testing.assert_array_equal(weights(model), weights(expected))
    for count in ("t_", "n_mistakes_", "n_updates_"):
        assert getattr(model, count) == getattr(expected, count)


@pytest.mark.parametrize("learner", IN_PASSES, ids=repr)
@few
@given(data=st.data(), shuffle=st.booleans(), tol=st.sampled_from([None, 0.01]))
def test_fit_passes_over_rows_without_a_label(learner, shuffle, tol, data):
    stream, X, y, _ = data.draw(with_gaps(smooth_streams(max_rows=12)))
    options = {"classes": stream.classes, "max_iter": 5, "random_state": 3}
    options |= {"shuffle": shuffle, "tol": tol}
    expected = fresh(learner).set_params(**options).fit(stream.X, stream.y)
    model = fresh(learner).set_params(**options).fit(X, y)
    np.testing.assert_array_equal(weights(model), weights(expected))
    assert (model.t_, model.n_iter_) == (expected.t_, expected.n_iter_)


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(data=st.data())
def test_progressive_predicts_rows_without_a_label(learner, data):
    """Each is predicted by the model of the rows before it, and no mean counts it."""
    stream, X, y, labelled = data.draw(with_gaps(smooth_streams(max_rows=8)))
    with_them = progressive(fresh(learner), X, y, stream.classes)
    without = progressive(fresh(learner), stream.X, stream.y, stream.classes)
    np.testing.assert_array_equal(with_them.predictions[labelled], without.predictions)
    np.testing.assert_array_equal(with_them.labelled, labelled)
    np.testing.assert_array_equal(with_them.running_loss[labelled], without.running_loss)
    np.testing.assert_array_equal(with_them.hinge_losses[labelled], without.hinge_losses)
    assert not with_them.losses[~labelled].any()
    for t in np.flatnonzero(~labelled):
        seen = labelled[:t].sum()
        model = learned(learner, stream.X[: max(seen, 1)], stream.y[: max(seen, 1)], stream.classes)
        if seen == 0:
            model = learned(learner, X[:1], [None], stream.classes)
        assert with_them.predictions[t] == model.predict(X[t : t + 1])[0]


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
def test_the_whole_scale_is_a_label(learner):
    model = learned(learner, [[0.5]], [(1, 3)], [1, 2, 3])
    assert model.t_ == 1


# --- What partial_fit and predict row by row would give ---


@pytest.mark.parametrize("learner", LEARNERS, ids=repr)
@few
@given(stream=smooth_streams(max_rows=12))
def test_progressive_is_predict_then_learn(learner, stream):
    progress = progressive(fresh(learner), stream.X, stream.y, stream.classes)
    model = fresh(learner)
    no_label = stream.X[:1] * 0, [None]
    scores = []
    for t in range(len(stream.X)):
        row = stream.X[t : t + 1]
        if t == 0:  # the zero start
            start = fresh(learner).partial_fit(*no_label, classes=stream.classes)
            expected, score = start.predict(row), start.decision_function(row)
        else:
            expected, score = model.predict(row), model.decision_function(row)
        scores.append(score)
        assert progress.predictions[t] == expected[0]
        model.partial_fit(row, stream.y[t : t + 1], classes=stream.classes)
    np.testing.assert_array_equal(
        weights(model), weights(learned(learner, stream.X, stream.y, stream.classes))
    )


@pytest.mark.parametrize("average", [False, True])
@given(stream=smooth_streams())
def test_recorded_losses_are_the_papers(stream, average):
    progress = progressive(PRIL(average=average), stream.X, stream.y, stream.classes)
    _, models = reference.pril(*stream)
    zero = (np.zeros(stream.X.shape[1]), np.zeros(stream.K - 1))
    for t, x in enumerate(stream.X):
        seen = models[:t] if average and t else [zero, *models][t : t + 1]
        w, theta = reference.mean(seen)
        f = w @ x
        assert progress.scores[t] == pytest.approx(f, abs=1e-12)
        assert progress.hinge_losses[t] == pytest.approx(
            reference.hinge(f, theta, *stream.y[t]), abs=1e-11
        )
        if np.abs(f - theta).min() > 1e-9 or not average:
            assert progress.losses[t] == reference.absolute(f, theta, *stream.y[t])
    np.testing.assert_allclose(
        progress.running_loss, [progress.losses[: t + 1].mean() for t in range(len(stream.X))]
    )


# --- Kinds of rows ---


def kinds_of_rows(X, folder):
    """Return X in every shape of memory it may come in."""
    np.save(folder / "X.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    int64 = csr_array(X)
    int64.indices, int64.indptr = int64.indices.astype(np.int64), int64.indptr.astype(np.int64)
    return {
        "fortran": np.asfortranarray(X),
        "read-only": read_only,
        "memory-mapped": np.load(folder / "X.npy", mmap_mode="r"),
        "strided": np.repeat(X, 2, axis=1)[:, ::2],
        "list": X.tolist(),
        "csc": csr_array(X).tocsc(),
        "coo": csr_array(X).tocoo(),
        "int64 indices": int64,
        "float32": X.astype(np.float32),
        "float32 csr": csr_array(X.astype(np.float32)),
    }


@pytest.mark.parametrize(
    "learner",
    [
        PRIL(),
        *(pytest.param(one, marks=pytest.mark.slow) for one in (MPRIL(), MulticlassPerceptron())),
    ],
    ids=repr,
)
def test_every_kind_of_row_gives_the_same_model(learner, tmp_path):
    """A rule does not see the rows: one learner for each kind of weights is enough."""
    rng = np.random.default_rng(0)
    X = rng.integers(-64, 64, (40, 7)) / 64
    y = np.sort(rng.integers(1, 5, (40, 2)), axis=1)
    expected = learned(learner, X, y, [1, 2, 3, 4])
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if isinstance(learner, UNEVEN) else {"rtol": 0}
    for kind, rows in kinds_of_rows(X, tmp_path).items():
        model = learned(learner, rows, y, [1, 2, 3, 4])
        np.testing.assert_allclose(weights(model), weights(expected), err_msg=kind, **tolerance)
        np.testing.assert_array_equal(model.predict(rows), expected.predict(X), err_msg=kind)


def test_features_stored_twice_are_summed():
    duplicated = csr_array(([0.25, 0.5, 1.0], [0, 0, 1], [0, 2, 3]), shape=(2, 2))
    y = [1, 3]
    for learner in (PRIL(), WidrowHoff()):
        once = learned(learner, duplicated.toarray(), y, [1, 2, 3])
        twice = learned(learner, duplicated, y, [1, 2, 3])
        np.testing.assert_array_equal(weights(once), weights(twice))
    assert duplicated.nnz == 3  # the caller's matrix is left alone
