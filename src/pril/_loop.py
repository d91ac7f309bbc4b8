"""The loop that learns, compiled by numba, and everything it is made of.

Notation (paper -> here): ``w`` -> ``w``, ``theta`` -> ``cut``, ``[y_l, y_r]`` -> ``lo, hi``
(ranks from 0), ``f(x)`` -> ``score``, ``sum tau`` -> ``alpha``, ``K`` -> ``n_classes``.

A *row* knows two verbs (`dot`, `add`) and its squared length; a *rule* turns scores and an
interval into multipliers and never sees x; a *geometry* turns the additive state into weights
and thresholds. `run` is the one loop over all of them: each verb is a table from the type of its
first argument to a plain function, and numba picks the function at compile time.

Every algorithm of the paper adds the same two things in a round: ``u += alpha x`` and
``n += tau``. The geometry says what that means: PRIL is ``w = u, theta = -n``; M-PRIL is
``w = exp(eta u) / Z, theta = exp(-eta n) / Z``, where no decision depends on Z.

Ties, once and for all:

- prediction: rank = number of thresholds at or below the score, ``score >= theta_i``;
- update: a constraint is violated when ``z_i (score - theta_i) <= 0``, ties included. From the
  zero start a strict inequality would never move at all;
- the multiclass perceptron prefers the lower of two ranks with equal scores.

``cut`` is theta with sentinels: ``cut[0] = -inf, cut[i + 1] = theta_i, cut[K] = +inf``, so that a
walk along it needs no bounds. Thresholds are ordered (Lemma 1), so a round without a violation
costs two comparisons. ``n`` holds integers in float64: exact up to 2**53.

This is the only file that imports numba: numba's disk cache notices edits of the file of the
compiled caller only, so a rule kept elsewhere would go stale silently.
"""

from collections.abc import Callable
from math import copysign, exp, expm1, inf, isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numba.extending import overload

# Lets dense sums run in any order, as BLAS does; nothing here assumes away NaN or inf. Sparse sums
# keep their order: with it given up, the compiler gathers, which is twice as slow.
any_order = njit(nogil=True, forceinline=True, fastmath={"reassoc", "contract", "nsz"})

# Exponents may wander this far from their common shift before it is chosen anew: exp(300) is
# 1e130, which leaves room for sums and products in float64.
MAX_DRIFT = 300.0


def on_type(
    table: dict[type, Callable[..., Any]], default: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function whose body is chosen by the type of its first argument.

    Types that are not in the table use the default. Inlining is forced: a call that is not inlined
    costs more, by its reference counts, than a row.
    """

    def call(first, *rest):
        return table.get(type(first), default)(first, *rest)

    @overload(call, strict=False, jit_options={"forceinline": True})
    def pick(first, *rest):
        return table.get(getattr(first, "instance_class", None), default)

    return call


# --- Rows: where row t lives ---------------------------------------------------------------------
# `constant` is the value of one more feature, the same for every row, whose weight is the last.


class Dense(NamedTuple):
    """Rows of a C-ordered matrix."""

    X: Any
    constant: float


class Csr(NamedTuple):
    """Rows of a compressed sparse matrix."""

    data: Any
    indices: Any
    indptr: Any
    constant: float


class Gram(NamedTuple):
    """Rows known by their kernel values alone: a block of them, and the support rows they may move.

    The weights are one coefficient a row (Algorithm 2 of the paper). `scores` holds every row's
    current score and `add` brings those of the rows to come up to date, so that `dot` is a look-up.
    """

    scores: Any  # (n,)
    sums: Any  # (n,), scores under the sums of the mean; empty unless they are recorded
    values: Any  # (coefficients, n), kernel of the rows behind the coefficients and of these rows
    slot: Any  # (n,), which coefficient is each row's own
    since: Any  # (coefficients,), when the row behind it became a support row; -1: it is none
    size: Any  # (2,), how many are, and how many were dropped to keep the budget
    budget: int


@any_order
def _dense_product(X, t, w, k):
    total = 0.0
    for j in range(X.shape[1]):
        total += X[t, j] * w[k, j]
    return total


def _dot_dense(rows, t, w, k):
    return _dense_product(rows.X, t, w, k) + rows.constant * w[k, w.shape[1] - 1]


def _dot_csr(rows, t, w, k):
    total = 0.0
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        # Unsigned, an index is never tested for counting from the end.
        total += rows.data[p] * w[k, np.uintp(rows.indices[p])]
    return total + rows.constant * w[k, w.shape[1] - 1]


def _dot_gram(rows, t, w, k):
    return rows.scores[t]


dot = on_type({Dense: _dot_dense, Csr: _dot_csr, Gram: _dot_gram})


@any_order
def _dense_square(X, t):
    total = 0.0
    for j in range(X.shape[1]):
        total += float(X[t, j]) * float(X[t, j])
    return total


def _square_dense(rows, t):
    return _dense_square(rows.X, t) + rows.constant * rows.constant


def _square_csr(rows, t):
    total = 0.0
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        total += float(rows.data[p]) * float(rows.data[p])
    return total + rows.constant * rows.constant


def _square_gram(rows, t):
    return float(rows.values[rows.slot[t], t])


square = on_type({Dense: _square_dense, Csr: _square_csr, Gram: _square_gram})


def _add_dense(rows, t, alpha, k, geometry, state, w, mean, before):
    for j in range(rows.X.shape[1]):
        move(geometry, state, w, mean, before, k, j, alpha * rows.X[t, j])
    move(geometry, state, w, mean, before, k, w.shape[1] - 1, alpha * rows.constant)


def _add_csr(rows, t, alpha, k, geometry, state, w, mean, before):
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        j = np.uintp(rows.indices[p])
        move(geometry, state, w, mean, before, k, j, alpha * rows.data[p])
    move(geometry, state, w, mean, before, k, w.shape[1] - 1, alpha * rows.constant)


def _add_gram(rows, t, alpha, k, geometry, state, w, mean, before):
    own = rows.slot[t]
    move(geometry, state, w, mean, before, k, own, alpha)
    if rows.since[own] < 0:
        rows.since[own] = rows.since.shape[0] + t
        rows.size[0] += 1
    _shift_scores(rows, own, t + 1, alpha, before)
    while rows.size[0] > rows.budget:
        _drop_smallest(rows, t + 1, k, state)


add = on_type({Dense: _add_dense, Csr: _add_csr, Gram: _add_gram})


@njit(nogil=True)
def _shift_scores(rows, own, start, alpha, before):
    """Add alpha times a kernel row to the scores of the rows from `start` on."""
    for i in range(start, rows.scores.shape[0]):
        rows.scores[i] += alpha * rows.values[own, i]
    for i in range(start, rows.sums.shape[0]):
        rows.sums[i] += before * alpha * rows.values[own, i]


@njit(nogil=True)
def _drop_smallest(rows, start, k, state):
    """Forget the smallest coefficient, the oldest of equal ones: it bends the function least."""
    victim = -1
    for s in range(rows.since.shape[0]):
        if rows.since[s] < 0:
            continue
        size = abs(state.u[k, s])
        least = abs(state.u[k, victim])
        if victim < 0 or size < least or (size == least and rows.since[s] < rows.since[victim]):
            victim = s
    _shift_scores(rows, victim, start, -state.u[k, victim], 0)
    state.u[k, victim] = 0.0
    rows.since[victim] = -1
    rows.size[0] -= 1
    rows.size[1] += 1


def _same_rows(rows):
    return rows


def _rows_of_sums(rows):
    return Gram(rows.sums, rows.sums, rows.values, rows.slot, rows.since, rows.size, rows.budget)


# Where a mean's scores are measured: a Gram row keeps them apart.
under_sums = on_type({Gram: _rows_of_sums}, default=_same_rows)


def _never(rows):
    return False


def _has_dropped(rows):
    return rows.size[1] > 0


# A mean of iterates needs every row of all of them: it ends where one is dropped.
mean_is_lost = on_type({Gram: _has_dropped}, default=_never)


# --- State: the additive sums --------------------------------------------------------------------


class State(NamedTuple):
    """All that a learner remembers, less the sums of its average."""

    u: Any  # (scores, features + 1), sums of alpha x
    n: Any  # (K - 1,), sums of tau
    shift: Any  # (2,), common shift of the exponents, and how far they may have moved since
    counts: Any  # (3,), rounds, rounds with an update, violated constraints
    lattice: bool  # whether n holds integers


class Mean(NamedTuple):
    """What turns the current iterate into the mean of all iterates, touching only what moved.

    The mean over rounds 1..T of sums of moves is ``u - mean.u / T`` when `mean.u` adds up each
    move times the rounds before it.
    """

    u: Any
    n: Any


# --- Geometries: additive state -> weights and thresholds ----------------------------------------


class Additive(NamedTuple):
    """w = u, theta = -n (PRIL, PRank, multiclass perceptron)."""

    label: int = 0  # numba wants a field


class FixedThresholds(NamedTuple):
    """w = u, thresholds fixed half-way between the ranks 1..K (regression on ranks)."""

    label: int = 0


class Exponential(NamedTuple):
    """w = exp(eta u), theta = exp(-eta n), up to a common factor (M-PRIL)."""

    eta: float


class SignedExponential(NamedTuple):
    """w = 2 sinh(eta u), theta = -2 sinh(eta n), up to a common factor (signed M-PRIL)."""

    eta: float


def _same(geometry, u, shift):
    return u


@njit(nogil=True, forceinline=True)
def _bounded_exp(a):
    # One long step may leave the range before `settle` brings it back.
    return exp(min(a, 2.0 * MAX_DRIFT))


def _exp(geometry, u, shift):
    return _bounded_exp(geometry.eta * u - shift)


def _sinh(geometry, u, shift):
    # Half the rounding of exp(a) - exp(-a), none of its cancellation, and exactly odd.
    a = geometry.eta * u
    return copysign(_bounded_exp(abs(a) - shift) * -expm1(-2.0 * abs(a)), a)


weight = on_type({Exponential: _exp, SignedExponential: _sinh}, default=_same)


def _threshold_mirrored(geometry, n, i, shift):
    return weight(geometry, -n, shift)


def _threshold_fixed(geometry, n, i, shift):
    return i + 1.5


threshold = on_type({FixedThresholds: _threshold_fixed}, default=_threshold_mirrored)


def _weights_shared(geometry, state):
    return state.u


def _weights_curved(geometry, state):
    w = np.zeros_like(state.u)
    for j in range(w.shape[1] - 1):  # there is no constant feature here
        w[0, j] = weight(geometry, state.u[0, j], state.shift[0])
    return w


weights = on_type(
    {Exponential: _weights_curved, SignedExponential: _weights_curved}, default=_weights_shared
)


def _move_shared(geometry, state, w, mean, before, k, j, change):
    state.u[k, j] += change
    if mean is not None:
        mean.u[k, j] += before * change


def _move_curved(geometry, state, w, mean, before, k, j, change):
    if change != 0.0:
        state.u[k, j] += change
        w[k, j] = weight(geometry, state.u[k, j], state.shift[0])


move = on_type({Exponential: _move_curved, SignedExponential: _move_curved}, default=_move_shared)


@njit(nogil=True, forceinline=True)
def nudge(geometry, state, cut, mean, before, i, tau):
    """Add tau to the i-th sum; the threshold follows."""
    state.n[i] += tau
    if mean is not None:
        mean.n[i] += before * tau
    cut[i + 1] = threshold(geometry, state.n[i], i, state.shift[0])


def _settle_shared(geometry, state, w, cut, alpha, rows, t):
    pass


def _settle_curved(geometry, state, w, cut, alpha, rows, t):
    # No exponent moves by more than eta max(1, |alpha| |x|) in a round.
    state.shift[1] += geometry.eta * max(1.0, abs(alpha) * sqrt(square(rows, t)))
    if not state.shift[1] <= MAX_DRIFT:
        state.shift[0] = peak(geometry, state)
        state.shift[1] = 0.0
        w[:] = weights(geometry, state)
        for i in range(state.n.shape[0]):
            cut[i + 1] = threshold(geometry, state.n[i], i, state.shift[0])


settle = on_type(
    {Exponential: _settle_curved, SignedExponential: _settle_curved}, default=_settle_shared
)


def _peak_exp(geometry, state):
    top = -inf
    for j in range(state.u.shape[1] - 1):
        top = max(top, geometry.eta * state.u[0, j])
    for i in range(state.n.shape[0]):
        top = max(top, -geometry.eta * state.n[i])
    return top


def _peak_sinh(geometry, state):
    top = 0.0
    for j in range(state.u.shape[1] - 1):
        top = max(top, geometry.eta * abs(state.u[0, j]))
    for i in range(state.n.shape[0]):
        top = max(top, geometry.eta * abs(state.n[i]))
    return top


def _peak_none(geometry, state):
    return 0.0


peak = on_type({Exponential: _peak_exp, SignedExponential: _peak_sinh}, default=_peak_none)


@njit(nogil=True, cache=True)
def common_shift(geometry, state):
    """Return the common shift of exponents that were not reached by learning."""
    return peak(geometry, state)


def _mass_none(geometry, state):
    return 1.0


def _mass_exp(geometry, state):
    total = 0.0
    for j in range(state.u.shape[1] - 1):
        total += weight(geometry, state.u[0, j], state.shift[0])
    for i in range(state.n.shape[0]):
        total += weight(geometry, -state.n[i], state.shift[0])
    return total


def _mass_sinh(geometry, state):
    # Both positive parts of each difference: |w| + 2 exp(-|a|).
    total = 0.0
    for j in range(state.u.shape[1] - 1):
        a = abs(geometry.eta * state.u[0, j])
        total += exp(a - state.shift[0]) + exp(-a - state.shift[0])
    for i in range(state.n.shape[0]):
        a = abs(geometry.eta * state.n[i])
        total += exp(a - state.shift[0]) + exp(-a - state.shift[0])
    return total


mass = on_type({Exponential: _mass_exp, SignedExponential: _mass_sinh}, default=_mass_none)


# --- Rules: scores and interval -> multipliers ---------------------------------------------------
# `measure` returns the scores (a float where there is one, else an array) and their sum, which is
# finite exactly when all of them are.


class Pril(NamedTuple):
    """Every violated constraint moves (Algorithm 1).

    `skip_correct` leaves a round alone whose predicted rank lies in the interval though the score
    touches a threshold: that is PRank (Crammer and Singer), and differs only at ties.
    """

    skip_correct: bool


class WidrowHoff(NamedTuple):
    """A step along the residual to the nearest end of the interval, in ranks 1..K."""

    eta: float
    normalize: bool


class Multiclass(NamedTuple):
    """One score a rank: promote the best rank inside the interval, demote the winner."""

    label: int = 0


def _squared_unused(rule, rows, t):
    return 0.0


def _squared_if_normalized(rule, rows, t):
    return square(rows, t) if rule.normalize else 0.0


squared_length = on_type({WidrowHoff: _squared_if_normalized}, default=_squared_unused)


def _measure_one(rule, rows, t, w, scores):
    score = dot(rows, t, w, 0)
    scores[0] = score
    return score, score


def _measure_each(rule, rows, t, w, scores):
    total = 0.0
    for k in range(w.shape[0]):
        scores[k] = dot(rows, t, w, k)
        total += scores[k]
    return scores, total


measure = on_type({Multiclass: _measure_each}, default=_measure_one)


def _decode_cut(rule, score, cut):
    rank = 0
    while score >= cut[rank + 1]:
        rank += 1
    return rank


def _decode_best(rule, scores, cut):
    return best_in(scores, 0, scores.shape[0] - 1)


decode = on_type({Multiclass: _decode_best}, default=_decode_cut)


@njit(nogil=True, cache=True)
def best_in(scores, lo, hi):
    """Return the lowest rank in lo..hi with the largest score."""
    best = lo
    for k in range(lo + 1, hi + 1):
        if scores[k] > scores[best]:
            best = k
    return best


def _hinge_cut(rule, score, cut, lo, hi):
    loss = 0.0
    for i in range(1, lo + 1):
        loss += max(0.0, cut[i] - score)
    for i in range(hi + 1, cut.shape[0] - 1):
        loss += max(0.0, score - cut[i])
    return loss


def _hinge_best(rule, scores, cut, lo, hi):
    return scores[decode(rule, scores, cut)] - scores[best_in(scores, lo, hi)]


hinge = on_type({Multiclass: _hinge_best}, default=_hinge_cut)


def _step_pril(rule, score, squared, cut, lo, hi, alpha, geometry, state, mean, before):
    if (cut[lo] < score) & (score < cut[hi + 1]):
        return 0
    if rule.skip_correct and cut[lo] <= score < cut[hi + 1]:
        return 0
    left = 0
    while score <= cut[lo - left]:
        nudge(geometry, state, cut, mean, before, lo - left - 1, 1.0)
        left += 1
    right = 0
    while score >= cut[hi + 1 + right]:
        nudge(geometry, state, cut, mean, before, hi + right, -1.0)
        right += 1
    alpha[0] = left - right
    return left + right


def _step_widrow_hoff(rule, score, squared, cut, lo, hi, alpha, geometry, state, mean, before):
    residual = min(max(score, lo + 1.0), hi + 1.0) - score
    says_nothing = lo == 0 and hi == cut.shape[0] - 2  # though the score may be off the scale
    if residual == 0.0 or says_nothing:
        return 0
    alpha[0] = rule.eta * residual / (1.0 + squared)
    return 1


def _step_multiclass(rule, scores, squared, cut, lo, hi, alpha, geometry, state, mean, before):
    winner = best_in(scores, 0, scores.shape[0] - 1)
    if lo <= winner <= hi:
        return 0
    alpha[:] = 0.0
    alpha[best_in(scores, lo, hi)] = 1.0
    alpha[winner] = -1.0
    return 1


step = on_type({Pril: _step_pril, WidrowHoff: _step_widrow_hoff, Multiclass: _step_multiclass})


# --- The loop ------------------------------------------------------------------------------------


class Record(NamedTuple):
    """What the model that predicts (the mean, where there is one) said before each round."""

    rank: Any  # (n,)
    scores: Any  # (n, scores)
    hinge: Any  # (n,)


@njit(nogil=True, cache=True)
def cuts(geometry, n, shift):
    """Return the thresholds between their two sentinels."""
    cut = np.empty(n.shape[0] + 2)
    cut[0] = -inf
    for i in range(n.shape[0]):
        cut[i + 1] = threshold(geometry, n[i], i, shift)
    cut[-1] = inf
    return cut


@njit(nogil=True, cache=True)
def parameters(geometry, state):
    """Return weights and cuts, and Z, the number that divides both when they are reported."""
    cut = cuts(geometry, state.n, state.shift[0])
    return weights(geometry, state), cut, mass(geometry, state)


@njit(nogil=True, cache=True)
def rate(rows, rule, w, cut, ranks, scores):
    """Score and rank every row; return -1, or the first row whose scores are not finite."""
    for t in range(ranks.shape[0]):
        found, total = measure(rule, rows, t, w, scores[t])
        if not isfinite(total):
            return t
        ranks[t] = decode(rule, found, cut)
    return -1


@njit(nogil=True)
def note(rule, record, i, rows, t, scores, cut, lo, hi, geometry, state, mean, before):
    """Record what the predicting model says of row t before it is learned."""
    if mean is not None:
        if before > 0 and not mean_is_lost(rows):
            sums, _ = measure(rule, under_sums(rows), t, mean.u, record.scores[i])
            scores = scores - sums / before
            cut = cuts(geometry, state.n - mean.n / before, 0.0)
    unit = mass(geometry, state)
    record.rank[i] = decode(rule, scores, cut)
    record.scores[i, :] = scores / unit
    record.hinge[i] = hinge(rule, scores, cut, lo, hi) / unit


@njit(nogil=True, cache=True)
def run(rows, intervals, order, rule, geometry, state, mean, record):
    """Learn from each row once, in order (None: as they come).

    Return -1, or the first position whose scores are not finite; the state is then half-way, and
    the caller drops it.
    """
    n_scores = state.u.shape[0]
    w = weights(geometry, state)
    cut = cuts(geometry, state.n, state.shift[0])
    scratch = np.empty(n_scores)
    alpha = np.empty(n_scores)
    seen = state.counts[0]
    mistakes = 0
    updates = 0
    for i in range(intervals.shape[0]):
        if order is None:
            t = i
        else:
            t = order[i]
        scores, total = measure(rule, rows, t, w, scratch)
        squared = squared_length(rule, rows, t)
        if not isfinite(total + squared):
            return i
        lo = intervals[t, 0]
        hi = intervals[t, 1]
        before = seen + i
        if record is not None:
            note(rule, record, i, rows, t, scores, cut, lo, hi, geometry, state, mean, before)
        violated = step(rule, scores, squared, cut, lo, hi, alpha, geometry, state, mean, before)
        if violated > 0:
            mistakes += 1
            updates += violated
            for k in range(n_scores):
                if alpha[k] != 0.0:
                    add(rows, t, alpha[k], k, geometry, state, w, mean, before)
            settle(geometry, state, w, cut, alpha[0], rows, t)
    state.counts[0] += intervals.shape[0]
    state.counts[1] += mistakes
    state.counts[2] += updates
    return -1
