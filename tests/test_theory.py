"""Every lemma and theorem as a property; counterexamples to the printed ones that are wrong."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from sklearn.svm import SVC

import reference
from pril import MPRIL, PRIL, PRank
from pril.evaluate import progressive
from pril.paper.theory import (
    Bound,
    audit,
    general_mistake_bound,
    margin,
    mistake_bound,
    multiplicative_mistake_bound,
    multiplicative_step,
    regret,
    regret_bound,
)
from strategies import exact_streams, smooth_streams


@st.composite
def separable_streams(draw, norm="l2", nonnegative=False):
    """Rows, intervals 1..K around the ranks of a hidden model, and that model's margin."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d, K, width = draw(st.integers(1, 6)), draw(st.integers(2, 6)), draw(st.integers(0, 2))
    v = rng.normal(size=d + K - 1)
    v = np.abs(v) if nonnegative else v
    v[d:] = np.sort(v[d:])
    v /= np.linalg.norm(v, 2 if norm == "l2" else 1)
    X = rng.uniform(-1, 1, (draw(st.integers(1, 60)), d))
    rank = (X @ v[:d])[:, np.newaxis] >= v[d:]
    rank = rank.sum(axis=1) + 1
    y = np.column_stack(
        [
            np.maximum(rank - rng.integers(0, width + 1, len(X)), 1),
            np.minimum(rank + rng.integers(0, width + 1, len(X)), K),
        ]
    )
    return X, y, K, v


def stream_facts(X, y):
    return np.sqrt((X**2).sum(axis=1).max()), int((y[:, 1] - y[:, 0]).min())


def least_margin(X, y, K, v):
    """The definition, constraint by constraint."""
    d = X.shape[1]
    least = math.inf
    for x, (left, right) in zip(X, y, strict=True):
        f = v[:d] @ x
        for i in range(1, K):
            z = 1 if i < left else -1 if i >= right else 0
            if z:
                least = min(least, z * (f - v[d + i - 1]))
    return least


def violated_constraints(learner, X, y, K, passes=30):
    """Run until a pass has no mistake, or for many passes."""
    for _ in range(passes):
        before = learner.n_updates_ if hasattr(learner, "classes_") else -1
        learner.partial_fit(X, y, classes=range(1, K + 1))
        if learner.n_updates_ == before:
            break
    return learner.n_updates_


# --- Margins ---


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("nonnegative", [False, True])
@given(data=st.data())
def test_the_margin_is_true_and_no_less_than_a_known_one(norm, nonnegative, data):
    X, y, K, v = data.draw(separable_streams(norm, nonnegative))
    known = least_margin(X, y, K, v)
    assume(1e-4 < known < math.inf)
    found = margin(X, y, norm, nonnegative, classes=range(1, K + 1))
    assert found.separable
    comparator = np.concatenate([found.w, found.theta])
    assert np.linalg.norm(comparator, 2 if norm == "l2" else 1) == pytest.approx(1)
    assert not nonnegative or comparator.min() >= 0
    assert least_margin(X, y, K, comparator) >= found.gamma * (1 - 1e-9)
    assert found.gamma >= known * (1 - 1e-6)


def test_a_solver_that_errs_once_in_a_thousand_is_not_believed():
    rng = np.random.default_rng(0)
    for _ in range(3000):
        d, K, n = rng.integers(1, 6), rng.integers(2, 7), rng.integers(1, 9)
        v = rng.random(d + K - 1)
        v[d:].sort()
        v /= np.linalg.norm(v)
        X = rng.uniform(-1, 1, size=(n, d))
        y = np.searchsorted(v[d:], X @ v[:d]) + 1
        known = np.abs((X @ v[:d])[:, np.newaxis] - v[d:]).min()
        if known > 1e-4:
            found = margin(X, y, "l2", True, classes=range(1, K + 1))
            assert found.gamma >= known * (1 - 1e-6)


def test_margins_of_hand_made_sets():
    for distance in (0.5, 1.0, 3.0):
        X = [[-distance], [distance]]
        # By symmetry theta = 0, so w = 1 and the margin is the distance.
        assert margin(X, [1, 2]).gamma == pytest.approx(distance, abs=1e-6)
    # One row: the best unit vector points along (x, -1), the margin is its length.
    assert margin([[3.0]], [2], classes=[1, 2]).gamma == pytest.approx(math.sqrt(10), abs=1e-6)
    # l1: the whole weight on the largest entry of (x, -1).
    assert margin([[3.0]], [2], "l1", classes=[1, 2]).gamma == pytest.approx(3.0, abs=1e-6)
    assert margin([[0.5]], [2], "l1", classes=[1, 2]).gamma == pytest.approx(1.0, abs=1e-6)
    # Non-negative: -theta cannot help, so all goes to w.
    assert margin([[0.5]], [2], "l1", True, classes=[1, 2]).gamma == pytest.approx(0.5, abs=1e-6)
    assert margin([[3.0]], [2], "l2", True, classes=[1, 2]).gamma == pytest.approx(3.0, abs=1e-6)


def test_two_classes_are_a_support_vector_machine():
    """For K = 2 the constraints are those of an SVM on (x, -1) without intercept."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 4))
    y = np.where(X @ [1.0, -2.0, 0.5, 1.0] > 0.3, 2, 1)
    X += 0.3 * np.where(y == 2, 1, -1)[:, np.newaxis] * np.array([1.0, -2.0, 0.5, 1.0])
    extended = np.column_stack([X, -np.ones(len(X))])
    # An SVC has an intercept; mirrored rows with mirrored labels leave it at zero.
    machine = SVC(kernel="linear", C=1e9, tol=1e-9).fit(
        np.vstack([extended, -extended]), np.concatenate([y, 3 - y])
    )
    assert margin(X, y).gamma == pytest.approx(1 / np.linalg.norm(machine.coef_), rel=1e-5)


def test_l2_margin_against_a_general_solver():
    rng = np.random.default_rng(1)
    X = rng.uniform(-1, 1, (30, 2))
    y = np.digitize(X @ [1.0, 0.7], [-0.4, 0.4]) + 1
    found = margin(X, y)

    signs = np.array([[1 if i < label else -1 for i in (1, 2)] for label in y])
    rows = np.array([[*x, -(i == 0), -(i == 1)] for x in X for i in (0, 1)]) * signs.reshape(-1, 1)
    solved = minimize(
        lambda v: v @ v, x0=np.concatenate([found.w, found.theta]) / found.gamma,
        jac=lambda v: 2 * v, method="SLSQP",
        constraints={"type": "ineq", "fun": lambda v: rows @ v - 1, "jac": lambda v: rows},
    )  # fmt: skip
    assert found.gamma == pytest.approx(1 / math.sqrt(solved.fun), rel=1e-6)


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_what_cannot_be_separated_is_called_so(norm, nonnegative):
    for X, y in (
        ([[1.0], [1.0]], [1, 2]),  # the same row twice, with labels that contradict
        ([[0.0], [1.0], [2.0]], [1, 2, 1]),
        (np.random.default_rng(0).normal(size=(300, 3)), np.tile([1, 2, 3], 100)),
    ):
        found = margin(X, y, norm, nonnegative)
        assert not found.separable
        assert (found.gamma, found.w, found.theta) == (0.0, None, None)
        assert "not separable" in str(found)


@pytest.mark.parametrize("norm", ["l2", "l1"])
@pytest.mark.parametrize(
    "X", [[[50_000.0], [50_001.0]], [[1e-10], [-1e-10]], [[1.7e9, 3.0], [1.7e9 + 40, 1.0]]]
)
def test_a_margin_too_small_for_a_solver_is_still_found(norm, X):
    """Far from the origin thresholds are large and margins small, but they are found."""
    found = margin(X, [1, 2], norm)
    assert found.separable
    v = np.concatenate([found.w, found.theta])
    assert np.linalg.norm(v, 2 if norm == "l2" else 1) == pytest.approx(1)
    assert least_margin(np.array(X), np.array([[1, 1], [2, 2]]), 2, v) == pytest.approx(found.gamma)


def test_thousands_of_rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(5000, 10))
    score = X @ rng.normal(size=10)
    cuts = np.quantile(score, [0.2, 0.4, 0.6, 0.8])
    apart = np.abs(score[:, np.newaxis] - cuts).min(axis=1) > 0.05
    X, y = X[apart], np.digitize(score[apart], cuts)
    for norm in ("l2", "l1"):
        assert margin(X, y, norm).separable


# --- Theorem 1 and Theorem 2 ---


@given(separable_streams())
def test_theorem_1(stream):
    X, y, K, v = stream
    gamma = least_margin(X, y, K, v)
    assume(gamma > 1e-3)
    radius, c = stream_facts(X, y)
    best = margin(X, y, classes=range(1, K + 1)).gamma
    violated = violated_constraints(PRIL(), X, y, K)
    assert violated <= mistake_bound(radius, gamma, K, c)
    assert violated <= mistake_bound(radius, best, K, c) * (1 + 1e-9)


@given(smooth_streams(max_rows=40, bound=3.0), st.integers(0, 100), st.floats(0.01, 10))
def test_theorem_2_for_any_comparator(stream, seed, gamma):
    rng = np.random.default_rng(seed)
    w, theta = rng.normal(size=stream.X.shape[1]), np.sort(rng.normal(size=stream.K - 1))
    learner = PRIL().partial_fit(stream.X, stream.y, classes=stream.classes)
    best = general_mistake_bound(stream.X, stream.y, w, theta, classes=stream.classes)
    given = general_mistake_bound(stream.X, stream.y, w, theta, gamma, classes=stream.classes)
    assert learner.n_updates_ <= best * (1 + 1e-9)
    assert best <= given * (1 + 1e-6) + 1e-9


@given(separable_streams())
def test_theorem_2_at_the_margin_is_theorem_1(stream):
    X, y, K, v = stream
    gamma = least_margin(X, y, K, v)
    assume(1e-3 < gamma < math.inf)
    radius, c = stream_facts(X, y)
    bound = general_mistake_bound(
        X, y, v[: X.shape[1]], v[X.shape[1] :], gamma, classes=range(1, K + 1)
    )
    assert bound == pytest.approx(mistake_bound(radius, gamma, K, c), rel=1e-6)


def test_theorem_1_is_nearly_reached():
    """K = 2, rows e_1, -e_2, e_3, ...: every row of an orthogonal set is a mistake once."""
    X = np.diag(np.where(np.arange(60) % 2, -1.0, 1.0))
    y = np.where(np.arange(60) % 2, 1, 2)
    violated = violated_constraints(PRIL(), X, y, 2)
    bound = mistake_bound(1.0, margin(X, y).gamma, 2)
    assert 0.4 * bound < violated <= bound


@given(exact_streams())
def test_violated_constraints_are_at_least_the_loss(stream):
    """The paper says they are equal; a tie on the left makes a violation without a loss."""
    learner = PRIL(average=False)
    progress = progressive(learner, stream.X, stream.y, stream.classes)
    assert learner.n_updates_ >= progress.losses.sum()


def test_a_tie_is_a_violation_without_a_loss():
    learner = PRIL(average=False)
    progress = progressive(learner, [[1.0]], [3], classes=[1, 2, 3])
    assert (learner.n_updates_, progress.losses.sum()) == (2, 0)


# --- Theorem 3 ---


@pytest.mark.parametrize("K", [3, 5, 9])
def test_the_printed_regret_bound_is_wrong_and_the_corrected_one_holds(K):
    """x = 1 always, labels alternate between K and 1: all K - 1 thresholds fail at once."""
    T = 1000
    X, y = np.ones((T, 1)), np.tile([K, 1], T // 2)
    norm = K  # a ball that holds the iterates, whose norm is at most sqrt((K - 1)^2 + K - 1)
    found = regret(PRIL(average=False), X, y, norm, classes=range(1, K + 1))
    printed = regret_bound(T, 1.0, K, norm=norm, as_printed=True)
    assert printed < found.regret <= found.bound
    if K == 5:
        assert (found.regret, printed, found.bound) == (10000, 4012.5, 10012.5)
    # The bound leaves no more than its first term.
    assert found.regret >= found.bound - norm**2 / 2


@given(smooth_streams(max_rows=60, bound=3.0), st.floats(0.1, 100))
def test_theorem_3(stream, norm):
    found = regret(PRIL(average=False), stream.X, stream.y, norm, classes=stream.classes)
    assert found.regret <= found.bound * (1 + 1e-9)
    assert found.scaled_regret <= found.scaled_bound * (1 + 1e-9)
    models = [(np.zeros(stream.X.shape[1]), np.zeros(stream.K - 1)), *reference.pril(*stream)[1]]
    losses = [
        reference.hinge(w @ x, theta, *ends)
        for (w, theta), x, ends in zip(models, stream.X, stream.y, strict=False)
    ]
    assert found.regret == pytest.approx(math.fsum(losses), abs=1e-9)
    if found.regret > 0:
        assert found.scaled_regret == pytest.approx(found.step * found.regret)


@given(smooth_streams(max_rows=30))
def test_no_fixed_model_loses_less_than_nothing(stream):
    """Why the regret is the loss: the surrogate is zero at zero and never negative."""
    from pril.metrics import interval_hinge_loss

    rng = np.random.default_rng(0)
    zero = np.zeros(stream.K - 1)
    nothing = interval_hinge_loss(
        stream.y, stream.X @ (0 * stream.X[0]), zero, classes=stream.classes
    )
    assert nothing == 0
    w, theta = rng.normal(size=stream.X.shape[1]), np.sort(rng.normal(size=stream.K - 1))
    assert interval_hinge_loss(stream.y, stream.X @ w, theta, classes=stream.classes) >= 0


@given(exact_streams(), st.sampled_from([0.25, 2.0, 8.0]))
def test_a_run_with_another_step_is_that_many_times_the_run(stream, step):
    """From zero, u and n only change their unit: decisions on step times (w, theta) are the same."""
    w, theta, said = np.zeros(stream.X.shape[1]), np.zeros(stream.K - 1), []
    for x, (left, right) in zip(stream.X, stream.y, strict=True):
        f = w @ x
        said.append(1 + int((f >= theta).sum()))
        i = np.arange(1, stream.K)
        tau = ((i < left) & (f <= theta)).astype(float) - ((i >= right) & (f >= theta))
        w, theta = w + step * tau.sum() * x, theta - step * tau
    learner = PRIL(average=False)
    progress = progressive(learner, stream.X, stream.y, stream.classes)
    assert progress.predictions.tolist() == said
    np.testing.assert_array_equal(w, step * learner.coef_)
    np.testing.assert_array_equal(theta, step * learner.thresholds_)


# --- Theorem 4 ---


@pytest.mark.parametrize("signed", [True, False])
@given(data=st.data())
def test_theorem_4(signed, data):
    X, y, K, v = data.draw(separable_streams("l1", nonnegative=not signed))
    gamma, C = least_margin(X, y, K, v), K - 1 - stream_facts(X, y)[1]
    assume(gamma > 1e-3 and C > 0)
    rate = multiplicative_step(min(gamma, 0.999 * C), K, K - 1 - C)
    learner = MPRIL(rate=rate, signed=signed)
    bound = multiplicative_mistake_bound(X.shape[1], K, gamma, K - 1 - C, signed)
    assert violated_constraints(learner, X, y, K) <= bound * (1 + 1e-9)


@given(st.floats(0.01, 0.99), st.integers(2, 9), st.integers(1, 50))
def test_the_step_is_the_best_one(share, K, d):
    """The bound before the step is chosen, log(N) / (rate gamma - log cosh(rate C))."""
    C = K - 1
    gamma = share * min(1, C)

    def gain(rate):
        return rate * gamma - math.log(math.cosh(rate * C))

    best = multiplicative_step(gamma, K)
    assert gain(best) >= max(gain(best * 0.9), gain(best * 1.1))
    # g(t) >= t^2 / 2 gives the corrected bound, and the printed one is half of it.
    assert math.log(K + d) / gain(best) <= 2 * C**2 * math.log(K + d) / gamma**2 * (1 + 1e-9)
    plain = multiplicative_mistake_bound(d, K, gamma, signed=False)
    printed = multiplicative_mistake_bound(d, K, gamma, as_printed=True)
    assert plain == pytest.approx(2 * printed)
    extra = 2 * C**2 * math.log(2) / gamma**2
    assert multiplicative_mistake_bound(d, K, gamma) == pytest.approx(plain + extra)


def test_mprils_thresholds_stay_ordered_where_the_printed_proof_breaks():
    """For i < l the proof takes tau to fall with i; here it rises: tau = (0, 1)."""
    learner = MPRIL(signed=False, rate=0.5)
    learner.partial_fit([[1.0]], [2], classes=[1, 2, 3])  # n = (1, -1): theta_1 < theta_2
    n = learner.memory_.state.n.copy()
    row = [[0.9]]
    assert learner.thresholds_[0] < learner.latent(row)[0] < learner.thresholds_[1]
    learner.partial_fit(row, [3])
    np.testing.assert_array_equal(learner.memory_.state.n - n, [0, 1])
    assert learner.thresholds_[0] <= learner.thresholds_[1]


# --- Limits and bad input ---


def test_limits_give_the_limit():
    full = [(1, 3), (1, 3)]
    found = margin([[1.0], [2.0]], full, classes=[1, 2, 3])
    assert math.isinf(found.gamma)
    assert mistake_bound(2.0, found.gamma, 3, 2) == 0
    assert mistake_bound(2.0, 0.5, 1) == 0
    assert general_mistake_bound([[1.0]], [(1, 3)], [1.0], [0.0, 0.0], classes=[1, 2, 3]) == 0
    assert multiplicative_mistake_bound(5, 3, math.inf, 2) == 0
    assert math.isinf(multiplicative_step(1.0, 2))  # gamma = C
    assert math.isinf(multiplicative_step(1.0, 3, 2))  # no constraint
    found = regret(PRIL(average=False), [[1.0], [2.0]], full, 1.0, classes=[1, 2, 3])
    assert (found.regret, found.scaled_regret, found.scaled_bound) == (0, 0, 0)
    assert regret_bound(0, 1.0, 3, norm=2.0) == 2.0


# --- Rounding: a bound is never below its exact value ---

positive = st.floats(0, exclude_min=True, allow_nan=False, allow_infinity=False)
non_negative = st.floats(0, allow_nan=False, allow_infinity=False)


def is_rounded_up(bound, exact):
    """Whether a float is the smallest one that is not below a fraction."""
    if bound == math.inf:
        return exact > Fraction(math.nextafter(math.inf, 0))
    return math.nextafter(bound, -math.inf) < exact <= Fraction(bound)


@st.composite
def scales(draw):
    """K and c, and C = K - c - 1, the most constraints that a round can violate."""
    K = draw(st.integers(1, 40))
    c = draw(st.integers(0, K - 1))
    return K, c, K - c - 1


@given(scales(), non_negative, positive)
@example((3, 0, 2), 1.0, 1e-200)  # whose square is 0 as a float
@example((3, 0, 2), 1e200, 1.0)
def test_theorem_1_is_rounded_up(scale, radius, gamma):
    K, c, C = scale
    exact = (Fraction(radius) ** 2 + 1) * C / Fraction(gamma) ** 2
    assert is_rounded_up(mistake_bound(radius, gamma, K, c), exact)


@given(scales(), st.integers(0, 2**70), non_negative, non_negative)
@example((3, 0, 2), 0, 1.0, 1e-6)
@example((3, 0, 2), 2**53 + 1, 0.0, 0.0)
def test_theorem_3_is_rounded_up(scale, rounds, radius, norm):
    K, c, C = scale
    squared, start = Fraction(radius) ** 2, Fraction(norm) ** 2
    for as_printed, factor in ((False, C**2 * squared + C), (True, C * (squared + 1))):
        bound = regret_bound(rounds, radius, K, c, norm=norm, as_printed=as_printed)
        assert is_rounded_up(bound, (start + rounds * factor) / 2)


def to_decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


@given(scales(), st.integers(1, 10**6), st.floats(1e-6, 1e3), st.booleans())
def test_theorem_4_is_rounded_up_by_its_last_digits_only(scale, d, gamma, signed):
    K, c, C = scale
    with localcontext(prec=60):
        for as_printed in (False, True):
            experts = (K + d - 1) * (2 if signed and not as_printed else 1)
            exact = (1 if as_printed else 2) * C**2 * Decimal(experts).ln() / Decimal(gamma) ** 2
            bound = multiplicative_mistake_bound(d, K, gamma, c, signed, as_printed=as_printed)
            assert exact <= Decimal(bound) <= exact * (1 + Decimal("1e-15"))


@given(
    smooth_streams(max_rows=8, bound=3.0),
    st.integers(0, 2**32 - 1),
    st.floats(0.01, 100),
    st.sampled_from([1e-200, 1e-3, 1.0, 1e250]),
)
def test_theorem_2_is_rounded_up_by_its_last_digits_only(stream, seed, gamma, size):
    rng = np.random.default_rng(seed)
    w, theta = (size * rng.normal(size=n) for n in (stream.X.shape[1], stream.K - 1))
    bound = general_mistake_bound(stream.X, stream.y, w, theta, gamma, classes=stream.classes)
    v = [Fraction(value) for value in (*w.tolist(), *theta.tolist())]
    rows = [[Fraction(value) for value in row] for row in stream.X.tolist()]
    with localcontext(prec=60):
        length = to_decimal(sum(value**2 for value in v)).sqrt()
        squares = Decimal(0)
        for x, (left, right) in zip(rows, stream.y.tolist(), strict=True):
            f = sum(a * b for a, b in zip(v, x, strict=False))
            for i in range(1, stream.K):
                z = 1 if i < left else -1 if i >= right else 0
                if z:
                    m = to_decimal(z * (f - v[len(x) + i - 1])) / length
                    squares += max(Decimal(0), Decimal(gamma) - m) ** 2
        reach = to_decimal(max(sum(value**2 for value in x) for x in rows) + 1).sqrt()
        C = stream.K - 1 - int((stream.y[:, 1] - stream.y[:, 0]).min())
        exact = (squares.sqrt() + reach) ** 2 * C / Decimal(gamma) ** 2
        assert exact <= Decimal(bound) <= exact * (1 + Decimal("1e-11"))


@given(smooth_streams(max_rows=20, bound=3.0), st.floats(0.1, 100))
def test_bounds_of_a_run_are_rounded_up(stream, norm):
    found = regret(PRIL(average=False), stream.X, stream.y, norm, classes=stream.classes)
    C = stream.K - 1 - int((stream.y[:, 1] - stream.y[:, 0]).min())
    squared = max(sum(Fraction(v) ** 2 for v in row) for row in stream.X.tolist())
    gradients = len(stream.X) * (C**2 * squared + C)
    assert found.bound >= (Fraction(norm) ** 2 + gradients) / 2
    assert found.bound == pytest.approx(float(Fraction(norm) ** 2 + gradients) / 2)
    assert Fraction(found.scaled_bound) ** 2 >= Fraction(norm) ** 2 * gradients
    assert found.scaled_bound == pytest.approx(norm * math.sqrt(gradients))


@given(smooth_streams(max_rows=20))
def test_a_printed_bound_is_rounded_up_in_its_sixth_digit(stream):
    found = audit(stream.X, stream.y, classes=stream.classes)
    lines = str(found).splitlines()[-len(found.bounds) :]
    for line, bound in zip(lines, found.bounds, strict=True):
        printed = Fraction(line.split()[-2])
        assert bound.bound <= printed <= bound.bound * Fraction(100_002, 100_000)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.float32])
@pytest.mark.parametrize("learner", [PRIL(), MPRIL()], ids=repr)
@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")
def test_an_audit_of_small_integers_is_that_of_the_same_numbers(learner, dtype):
    """Squares of 200 do not fit in 8 bits, nor does the absolute value of -128."""
    far = 200 if dtype is np.uint8 else -128
    X, y = [[far, 1], [1, far], [far, 0], [0, 1]], [3, 1, 2, 1]
    found = audit(np.array(X, dtype=dtype), y, learner)
    assert str(found) == str(audit(np.array(X, dtype=float), y, learner))


def test_bounds_by_hand():
    assert mistake_bound(2.0, 0.5, 4, 1) == (2**2 + 1) * (4 - 1 - 1) / 0.5**2
    assert mistake_bound(0.0, 1.0, 2) == 1
    assert regret_bound(4, 2.0, 4, 1, norm=3.0) == (3**2 + 4 * (2**2 * 2**2 + 2)) / 2
    assert regret_bound(4, 2.0, 4, 1, norm=3.0, as_printed=True) == (9 + 4 * 2 * (2**2 + 1)) / 2
    known = {"gamma": 0.5, "min_width": 1}
    assert multiplicative_mistake_bound(1, 4, **known) == pytest.approx(32 * math.log(8))
    least = multiplicative_mistake_bound(1, 4, **known, signed=False)
    assert least == pytest.approx(32 * math.log(4))
    printed = multiplicative_mistake_bound(1, 4, **known, as_printed=True)
    assert printed == pytest.approx(16 * math.log(4))
    assert multiplicative_step(0.5, 4, 1) == pytest.approx(math.log(2.5 / 1.5) / 4)


DEGENERATE = {
    "one row": ([[1.0, 2.0]], [2]),
    "all intervals full": ([[1.0], [2.0]], [(1, 3), (1, 3)]),
    "a constant feature": ([[1.0, 0.3], [1.0, 0.5], [1.0, 0.9]], [1, 2, 3]),
    "a zero row": ([[0.0], [0.0]], [1, 1]),
    "contradictory duplicates": ([[1.0], [1.0]], [1, 3]),
    "a row without a label": ([[1.0], [0.5]], [None, 2]),
}


@pytest.mark.parametrize("case", DEGENERATE)
@pytest.mark.parametrize("learner", [PRIL(), MPRIL(), MPRIL(signed=False)], ids=repr)
def test_degenerate_data_gives_an_answer(case, learner):
    X, y = DEGENERATE[case]
    if np.max(X) > 1 and not isinstance(learner, PRIL):
        pytest.skip("its bounds assume features within [-1, 1]")
    with np.errstate(all="raise"):
        found = audit(X, y, learner, classes=[1, 2, 3])
    for bound in found.bounds:
        assert not math.isnan(bound.bound)
        assert not math.isnan(bound.observed)
        assert bound.observed <= bound.bound * (1 + 1e-9)
    assert "nan" not in str(found)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: margin([[1.0]], [1, 2]), "X has 1 rows, y has 2 labels"),
        (lambda: audit([[1.0]], [None], classes=[1, 2, 3]), "y has no label in any row"),
        (lambda: mistake_bound(1.0, 1.0, 3.5), "n_classes must be an integer of at least 1, got 3.5"),
        (lambda: regret_bound(2.7, 1.0, 3, norm=1.0), "rounds must be an integer of at least 0, got 2.7"),
        (lambda: regret_bound(-1, 1.0, 3, norm=1.0), "rounds must be an integer of at least 0, got -1"),
        (lambda: multiplicative_mistake_bound(2.5, 3, 1.0), "n_features must be an integer of at least 1, got 2.5"),
        (lambda: general_mistake_bound([[1.0]], [1], [1.0, 2.0], [], classes=[1, 2]), "w and theta must hold 1 and 1"),
        (lambda: audit([[1.0]], [1], PRIL(classes=[1, 2]), classes=[2, 1]), r"classes must stay the same: \[1, 2\] were set before, now they are \[2, 1\]"),
        (lambda: margin([[1.0], [2.0]], [1, 2], "l3"), "norm must be 'l2' or 'l1', got 'l3'"),
        (lambda: margin([[np.nan], [1.0]], [1, 2]), "contains NaN"),
        (lambda: mistake_bound(1.0, 0.0, 3), "gamma must be positive, got 0.0"),
        (lambda: mistake_bound(-1.0, 1.0, 3), "radius must be at least 0, got -1.0"),
        (lambda: margin([["a"]], [1]), "could not convert string to float: 'a'"),
        (lambda: mistake_bound(1.0, 1.0, 3, 3), "min_width must be between 0 and n_classes - 1, got 3"),
        (lambda: mistake_bound(1.0, 1.0, 0), "n_classes must be an integer of at least 1, got 0"),
        (lambda: regret_bound(10, 1.0, 3, norm=float("nan")), "norm must be at least 0, got nan"),
        (lambda: multiplicative_step(3.0, 3), "gamma is at most 2 here"),
        (lambda: multiplicative_mistake_bound(0, 3, 1.0), "n_features must be an integer of at least 1, got 0"),
        (lambda: general_mistake_bound([[1.0]], [1], [1.0], [1.0, 2.0], classes=[1, 2]), "w and theta must hold 1 and 1"),
        (lambda: general_mistake_bound([[1.0]], [1], [0.0], [0.0], classes=[1, 2]), "all zero"),
        (lambda: general_mistake_bound([[1.0]], [1], [np.nan], [0.0], classes=[1, 2]), "1 and 1 finite numbers"),
        (lambda: general_mistake_bound([[1.0]], [1], [1.0], [np.inf], classes=[1, 2]), "1 and 1 finite numbers"),
        (lambda: regret(PRIL(), [[1.0]], [1], 0.0, classes=[1, 2]), "norm must be positive, got 0.0"),
    ],
)  # fmt: skip
def test_refused(call, message):
    with pytest.raises(ValueError, match=message):
        call()


# --- Audit ---


@given(separable_streams())
def test_an_audit_of_a_separable_stream_leaves_room_everywhere(stream):
    X, y, K, _ = stream
    found = audit(X, y, classes=range(1, K + 1))
    assert all(bound.room >= -1e-9 for bound in found.bounds)
    names = [bound.name for bound in found.bounds]
    if "not separable" not in str(found):
        assert "Theorem 1, separable" in names
    learner = PRIL(average=False).partial_fit(X, y, classes=range(1, K + 1))
    assert found.facts["violated constraints"] == learner.n_updates_
    assert found.facts["mistakes"] == learner.n_mistakes_


@given(smooth_streams(max_rows=30))
def test_an_audit_of_any_stream_leaves_room_everywhere(stream):
    found = audit(stream.X, stream.y, classes=stream.classes)
    assert all(bound.room >= -1e-9 for bound in found.bounds)
    frame = found.to_frame()
    assert frame["room"].tolist() == [bound.room for bound in found.bounds]


def test_an_audit_of_mpril_uses_its_own_theorem():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (200, 8))
    y = np.where(X[:, 0] > 0, 2, 1)
    X[:, 0] = np.clip(X[:, 0] + 0.2 * np.sign(X[:, 0]), -1, 1)
    gamma = margin(X, y, "l1").gamma
    rate = multiplicative_step(gamma, 2)
    found = audit(X, y, MPRIL(rate=rate))
    assert [bound.name for bound in found.bounds] == ["Theorem 4, at this step"]
    assert found.bounds[0].room >= 0
    experts = 2 * (8 + 1)  # features and one threshold, each with two signs
    bound = math.log(experts) / (rate * gamma - math.log(math.cosh(rate)))
    assert found.bounds[0].bound == pytest.approx(bound)
    for refused in (lambda: audit(X, y, PRank()), lambda: regret(PRank(), X, y, 1.0)):
        with pytest.raises(TypeError, match="PRIL and MPRIL only, got PRank"):
            refused()


def test_an_audit_takes_the_order_from_the_estimator():
    X, y = [[0.0], [1.0], [2.0]], ["poor", "fair", "good"]
    named = audit(X, y, classes=["poor", "fair", "good"])
    assert str(audit(X, y, PRIL(classes=["poor", "fair", "good"]))) == str(named)


def test_room_is_the_share_left():
    assert Bound("a", 2.0, 8.0).room == 0.75
    assert Bound("a", 0.0, 0.0).room == 1.0
    assert Bound("a", 1.0, 0.0).room == -math.inf
