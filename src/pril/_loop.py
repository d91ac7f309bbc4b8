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
from llvmlite import ir
from numba import config, njit, typeof, types
from numba.extending import intrinsic, overload

_njit: Any = njit  # its types do not know `_nrt`

# Lets dense sums run in any order, as BLAS does; nothing here assumes away NaN or inf. Sparse sums
# keep their order: with it given up, the compiler gathers, which is twice as slow.
any_order = _njit(nogil=True, forceinline=True, _nrt=False, fastmath={"reassoc", "contract", "nsz"})

# A part of the loop, compiled without numba's runtime: its reference counts cost more than the
# arithmetic of a row. Such a function must not allocate, and must not return an array to a function
# with the runtime, which would count it.
part_of_loop = _njit(nogil=True, forceinline=True, _nrt=False)
whole_loop = _njit(nogil=True, _nrt=False)
INLINE: Any = {"forceinline": True, "_nrt": False}

# Exponents may wander this far from their common shift before it is chosen anew: exp(300) is
# 1e130, which leaves room for sums and products in float64.
MAX_DRIFT = 300.0

# Weights of rounds that grow are divided by this power of two, exactly, when they reach it.
MAX_GROWTH = 2.0**100


def on_type(
    table: dict[type, Callable[..., Any]], default: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """Return a function whose body is chosen by the type of its first argument.

    Types that are not in the table use the default. It is inlined, and must not allocate.
    """

    def call(first, *rest):
        return table.get(type(first), default)(first, *rest)

    @overload(call, strict=False, jit_options=INLINE)
    def pick(first, *rest):
        return table.get(getattr(first, "instance_class", None), default)

    return call


AHEAD = 12  # rows: how far ahead a shuffled pass asks for its rows; measured


def prefetch(array, i):
    """Tell the processor that element i of a contiguous array will be read soon."""


@intrinsic
def _prefetch_instruction(context, array, i):
    def generate(context, builder, signature, arguments):
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), ir.IntType(8).as_pointer())
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", [place.type], kind)
        # To read, soon and more than once, data.
        builder.call(function, [place, *(ir.Constant(number, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, types.intp), generate


@overload(prefetch, jit_options=INLINE)
def _prefetch_compiled(array, i):
    return lambda array, i: _prefetch_instruction(array, i)


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
    since: Any  # (coefficients,), how many support rows came before its own; -1: it is none
    size: Any  # (2,), how many support rows there are, and how many a budget dropped
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


def _fetch_dense(rows, t):
    width = rows.X.shape[1]
    for j in range(0, min(width, 64), 8):
        prefetch(rows.X, t * width + j)


def _fetch_csr(rows, t):
    prefetch(rows.data, rows.indptr[t])
    prefetch(rows.indices, rows.indptr[t])


def _fetch_nothing(rows, t):
    pass


# Ask for a row that will be needed soon.
fetch = on_type({Dense: _fetch_dense, Csr: _fetch_csr}, default=_fetch_nothing)


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
        rows.since[own] = rows.size[0] + rows.size[1]
        rows.size[0] += 1
    _shift_scores(rows, own, t + 1, alpha, before)
    while rows.size[0] > rows.budget:
        _drop_smallest(rows, t + 1, k, state)


add = on_type({Dense: _add_dense, Csr: _add_csr, Gram: _add_gram})


@whole_loop
def _shift_scores(rows, own, start, alpha, before):
    """Add alpha times a kernel row to the scores of the rows from `start` on."""
    for i in range(start, rows.scores.shape[0]):
        rows.scores[i] += alpha * rows.values[own, i]
    for i in range(start, rows.sums.shape[0]):
        rows.sums[i] += before * alpha * rows.values[own, i]


@whole_loop
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
    counts: Any  # (3,), rounds, rounds with a violated constraint, violated constraints
    clock: Any  # (2,), weight of all iterates in the mean, and what half-lives multiply it by now
    lattice: bool  # whether n holds integers, which keeps the thresholds in order
    evidence: Any  # what a rule learns beside the model; None for most


class Evidence(NamedTuple):
    """What the likelihood rule knows of the features' size, its gradients and the ranges."""

    sums: Any  # (4,), of c |x|^2, c, (c a)^2 and mean (c tau)^2, for rows of weight c
    exact: Any  # (K,), rows with this exact label
    total: Any  # (K,), weight of the rows that are probably of this class
    ranges: Any  # `table_size(K)`, for each range and class in it: weight of the rows


class Mean(NamedTuple):
    """What turns the current iterate into the mean of all iterates, touching only what moved.

    If iterate t weighs omega_t and W is the sum of these weights, the mean is ``u - mean.u / W``,
    where `mean.u` adds up each move times the W before it.
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


@part_of_loop
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


def _fill_shared(geometry, state, w):
    pass  # w is u


def _fill_curved(geometry, state, w):
    for j in range(w.shape[1] - 1):  # there is no constant feature here
        w[0, j] = weight(geometry, state.u[0, j], state.shift[0])


fill_weights = on_type({Exponential: _fill_curved, SignedExponential: _fill_curved}, _fill_shared)


def _shares_u(geometry):
    return True


def _has_own_weights(geometry):
    return False


shares_u = on_type(
    {Exponential: _has_own_weights, SignedExponential: _has_own_weights}, default=_shares_u
)


@njit(nogil=True)
def weights(geometry, state):
    """Return the weights: u itself, or an array of their own."""
    if shares_u(geometry):
        w = state.u
    else:
        w = np.zeros_like(state.u)
        fill_weights(geometry, state, w)
    return w


def _move_shared(geometry, state, w, mean, before, k, j, change):
    state.u[k, j] += change
    if mean is not None:
        mean.u[k, j] += before * change


def _move_curved(geometry, state, w, mean, before, k, j, change):
    if change != 0.0:
        state.u[k, j] += change
        w[k, j] = weight(geometry, state.u[k, j], state.shift[0])


move = on_type({Exponential: _move_curved, SignedExponential: _move_curved}, default=_move_shared)


@part_of_loop
def nudge(geometry, state, cut, mean, before, i, tau):
    """Add tau to the i-th sum; the mean and the threshold follow."""
    state.n[i] += tau
    if mean is not None:
        mean.n[i] += before * tau
    cut[i + 1] = threshold(geometry, state.n[i], i, state.shift[0])


@part_of_loop
def restore_order(geometry, state, cut, mean, before):
    """Bring the sums of tau back into descending order, and so the thresholds into ascending.

    Steps of unequal size, or from thresholds that are not integers, can break the order. The
    nearest ordered vector is found by pooling adjacent violators.
    """
    n = state.n
    for i in range(1, n.shape[0]):
        if n[i] > n[i - 1]:
            j = i
            total = n[i]
            while j > 0 and n[j - 1] < total / (i - j + 1):
                j -= 1
                total += n[j]
            level = total / (i - j + 1)
            for k in range(j, i + 1):
                if mean is not None:
                    mean.n[k] += before * (level - n[k])
                n[k] = level  # set, not added to: the last bit counts
                cut[k + 1] = threshold(geometry, level, k, state.shift[0])


def _settle_shared(geometry, state, w, cut, alpha, c, rows, t):
    pass


def _settle_curved(geometry, state, w, cut, alpha, c, rows, t):
    # No exponent moves by more than eta max(c, |alpha| |x|) in a round of weight c.
    state.shift[1] += geometry.eta * max(c, abs(alpha) * sqrt(square(rows, t)))
    if not state.shift[1] <= MAX_DRIFT:
        state.shift[0] = peak(geometry, state)
        state.shift[1] = 0.0
        fill_weights(geometry, state, w)
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


class Likelihood(NamedTuple):
    """A gradient step on -log P(interval | score) in the ordered logit model."""

    rate: float  # of the weights
    cut_rate: float  # of the thresholds
    trust: float  # exact rows of a class after which what they show of ranges counts half
    noise: float  # relative chance of a label that does not hold the true class
    mode: bool  # whether the likeliest class is predicted, and not the median


def _squared_unused(rule, rows, t):
    return 0.0


def _squared_if_normalized(rule, rows, t):
    return square(rows, t) if rule.normalize else 0.0


def _squared_always(rule, rows, t):
    return square(rows, t)


squared_length = on_type(
    {WidrowHoff: _squared_if_normalized, Likelihood: _squared_always}, default=_squared_unused
)


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


@part_of_loop
def rank_of(score, cut):
    """Return the number of thresholds at or below a score.

    They are counted: a search ends at a branch that cannot be predicted, which costs more than ten
    comparisons. Many thresholds are halved first.
    """
    start, stop = 1, cut.shape[0] - 1
    while stop - start > 64:
        middle = (start + stop) >> 1
        if score >= cut[middle]:
            start = middle + 1
        else:
            stop = middle
    rank = start - 1
    for i in range(start, stop):
        rank += score >= cut[i]
    return rank


def _decode_cut(rule, score, cut):
    return rank_of(score, cut)


def _decode_best(rule, scores, cut):
    return best_in(scores, 0, scores.shape[0] - 1)


def _decode_likelihood(rule, score, cut):
    if not rule.mode:
        return rank_of(score, cut)
    best = 0
    most = -1.0
    above, below = 1.0, 0.0
    for y in range(cut.shape[0] - 1):
        next_above, next_below = sides(score, cut[y + 1])
        chance = between(above, below, next_above, next_below)
        if chance > most:
            most = chance
            best = y
        above, below = next_above, next_below
    return best


decode = on_type({Multiclass: _decode_best, Likelihood: _decode_likelihood}, default=_decode_cut)


@part_of_loop
def sides(score, threshold):
    """Return the logistic model's chances that the class lies above a threshold, and below it."""
    distance = threshold - score
    small = exp(-abs(distance))
    large = 1.0 / (1.0 + small)
    small *= large
    return (small, large) if distance > 0.0 else (large, small)


@part_of_loop
def between(above, below, next_above, next_below):
    """Return the chance of the class between two thresholds: the difference of small numbers."""
    return above - next_above if above <= 0.5 else next_below - below


@whole_loop
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


# `step` moves the thresholds, sets `alpha`, and returns how many constraints were violated and
# whether the weights are to move. A row of weight c moves the model c times as far. `before` is the
# weight of the iterates so far in the mean, `omega` that of the iterate that this round makes, `t`
# the number of the round.


def _step_pril(
    rule, score, squared, c, cut, lo, hi, alpha, work, geometry, state, mean, before, omega, t
):
    if (cut[lo] < score) & (score < cut[hi + 1]):
        return 0, False
    if rule.skip_correct and cut[lo] <= score < cut[hi + 1]:
        return 0, False
    left = 0
    while score <= cut[lo - left]:
        nudge(geometry, state, cut, mean, before, lo - left - 1, c)
        left += 1
    right = 0
    while score >= cut[hi + 1 + right]:
        nudge(geometry, state, cut, mean, before, hi + right, -c)
        right += 1
    alpha[0] = c * (left - right)
    return left + right, True


def _step_widrow_hoff(
    rule, score, squared, c, cut, lo, hi, alpha, work, geometry, state, mean, before, omega, t
):
    residual = min(max(score, lo + 1.0), hi + 1.0) - score
    says_nothing = lo == 0 and hi == cut.shape[0] - 2  # though the score may be off the scale
    if residual == 0.0 or says_nothing:
        return 0, False
    alpha[0] = c * rule.eta * residual / (1.0 + squared)
    return 1, True


def _step_multiclass(
    rule, scores, squared, c, cut, lo, hi, alpha, work, geometry, state, mean, before, omega, t
):
    winner = best_in(scores, 0, scores.shape[0] - 1)
    if lo <= winner <= hi:
        return 0, False
    alpha[:] = 0.0
    alpha[best_in(scores, lo, hi)] = c
    alpha[winner] = -c
    return 1, True


def table_size(n_classes: int) -> int:
    """Return how many numbers `Evidence.ranges` holds."""
    return n_classes * (n_classes + 1) * (n_classes + 2) // 6 - n_classes


@part_of_loop
def range_offset(n_classes, lo, hi):
    """Return where the range lo..hi, with lo < hi, begins in `Evidence.ranges`.

    Ranges are sorted by lo, then by hi; each has one number for each of its classes.
    """
    rest = n_classes - lo
    tetrahedral = n_classes * (n_classes + 1) * (n_classes + 2) // 6
    tetrahedral -= rest * (rest + 1) * (rest + 2) // 6
    width = hi - lo
    return tetrahedral - lo + width * (width + 1) // 2 - 1


TINY = (
    1e-12  # the least probability of a class in a gradient; with less, no rows are counted for it
)
ROUNDING = 1e-9  # a slope below this is zero, rounded: divided by its own size it would be a step

# The step of the likelihood rule. Classes outside the label all have the same relative chance q of
# it, and the terms of all classes of a gradient add up to zero if their q are equal. So only the
# classes lo..hi and their thresholds are looked at, as if q were less by that constant.


@part_of_loop
def weigh_classes(trust, evidence, lo, hi, K, q):
    """Write to q the chance that a row of each class in lo..hi has this label, the largest being 1.

    The rows so far tell how often a class was given a range: those of the class itself as far as
    exact rows vouch for them, else those of all the classes in the range.
    """
    ranges, total, exact = evidence.ranges, evidence.total, evidence.exact
    first = range_offset(K, lo, hi)
    given = 0.0
    rows = 0.0
    for k in range(hi - lo + 1):
        q[k] = 1.0
        given += ranges[np.uintp(first + k)]
        rows += total[np.uintp(lo + k)]
    if given > 0.0:
        share = given / rows
        most = 0.0
        for k in range(hi - lo + 1):
            y = np.uintp(lo + k)
            chance = share
            if exact[y] > 0.0:
                own = ranges[np.uintp(first + k)] / total[y]
                chance = (exact[y] * own + trust * share) / (exact[y] + trust)
            q[k] = chance
            most = max(most, chance)
        most = 1.0 / most
        for k in range(hi - lo + 1):
            q[k] *= most


@njit(nogil=True, cache=True)
def label_chances(trust, evidence, intervals, q):
    """Write to each row of q, for each class, the chance of a row's label; 0 outside of it."""
    for t in range(intervals.shape[0]):
        lo, hi = intervals[t]
        q[t] = 0.0
        if lo == hi:
            q[t, lo] = 1.0
        elif lo < hi:
            weigh_classes(trust, evidence, lo, hi, q.shape[1], q[t, lo:])


@part_of_loop
def count_range(evidence, lo, hi, K, weight, shares, q):
    """Add a row to what is known of ranges, divided among its classes by their shares.

    A class whose thresholds tie has none; if no class has any, their q are the shares.
    """
    ranges, total = evidence.ranges, evidence.total
    first = range_offset(K, lo, hi)
    whole = 0.0
    for k in range(hi - lo + 1):
        whole += shares[k]
    if whole == 0.0:
        shares = q
        for k in range(hi - lo + 1):
            whole += shares[k]
    weight /= whole
    for k in range(hi - lo + 1):
        part = weight * shares[k]
        ranges[np.uintp(first + k)] += part
        total[np.uintp(lo + k)] += part


@part_of_loop
def climb(rule, score, cut, lo, hi, t, weight, evidence, above, below, q, tau):
    """Write the gradient by the thresholds of lo..hi to tau; return the one by the score.

    Both are of log sum_y q_y P(y). The row is then counted, with its weight in the evidence.
    """
    K = cut.shape[0] - 1
    outside = 0.0
    if rule.noise > 0.0:
        outside = rule.noise * (1.0 - 1.0 / sqrt(1.0 + t / 1000.0))
    for k in range(hi - lo + 2):
        above[k], below[k] = sides(score, cut[np.uintp(lo + k)])
    q[0] = 1.0
    if lo < hi:
        weigh_classes(rule.trust, evidence, lo, hi, K, q)
    whole = outside
    a = 0.0
    for k in range(hi - lo + 1):
        chance = between(above[k], below[k], above[k + 1], below[k + 1])
        tau[k] = q[k] * chance if chance > TINY else 0.0
        part = (q[k] - outside) * max(chance, TINY)
        whole += part
        a += part * (below[k] - above[k + 1])
    if lo < hi:
        count_range(evidence, lo, hi, K, weight, tau, q)
    else:
        evidence.exact[lo] += 1.0
        evidence.total[lo] += weight
    whole = 1.0 / whole
    before = outside
    for k in range(hi - lo + 2):
        after = q[k] if k <= hi - lo else outside
        slope = above[k] * below[k] * (after - before) * whole
        tau[k] = min(2.0, max(-2.0, slope))  # it has no bound where thresholds tie
        before = after
    return a * whole  # within -1..1, even there


def _step_likelihood(
    rule, score, squared, c, cut, lo, hi, alpha, work, geometry, state, mean, before, omega, t
):
    above, q, tau = work.above, work.q, work.tau
    K = cut.shape[0] - 1
    below = work.cut  # which is free: nothing is recorded in a step
    a = climb(rule, score, cut, lo, hi, t, c * omega, state.evidence, above, below, q, tau)
    if abs(a) < ROUNDING:
        a = 0.0
    # Steps shrink with the gradients so far, and do not depend on the scale of x or of weights.
    squares = 0.0
    for k in range(hi - lo + 2):
        squares += tau[k] * tau[k]
    sums = state.evidence.sums
    sums[0] += c * squared
    sums[1] += c
    sums[2] += c * a * (c * a)
    sums[3] += c * c * squares / max(K - 1, 1)
    alpha[0] = 0.0
    if (sums[0] > 0.0) & (sums[2] > 0.0):
        alpha[0] = rule.rate * (c * a / sqrt(sums[2])) * (sums[1] / sums[0])
    length = 4.0
    if sums[3] > 0.0:
        length = min(length, c * rule.cut_rate / sqrt(sums[3]))
    left = 0
    while score < cut[lo - left]:
        left += 1
    right = 0
    while score >= cut[hi + 1 + right]:
        right += 1
    for k in range(hi - lo + 2):
        i = lo + k - 1
        if 0 <= i < K - 1:
            nudge(geometry, state, cut, mean, before, i, length * tau[k])
    return left + right, True


step = on_type(
    {
        Pril: _step_pril,
        WidrowHoff: _step_widrow_hoff,
        Multiclass: _step_multiclass,
        Likelihood: _step_likelihood,
    }
)


def _age_equal(rule, t):
    return 1.0


def _age_growing(rule, t):
    return float(t)


# How much the iterate of round t weighs in the mean.
age = on_type({Likelihood: _age_growing}, default=_age_equal)


@part_of_loop
def multiply(values, factor):
    """Multiply an array in place."""
    for i in range(values.shape[0]):
        values[i] *= factor


def _fade_nothing(rule, evidence, factor):
    pass


def _fade_likelihood(rule, evidence, factor):
    multiply(evidence.sums, factor)
    multiply(evidence.exact, factor)


# Let the evidence of the rows so far count less.
fade = on_type({Likelihood: _fade_likelihood}, default=_fade_nothing)


def _rescale_nothing(rule, evidence, factor):
    pass


def _rescale_likelihood(rule, evidence, factor):
    multiply(evidence.ranges, factor)
    multiply(evidence.total, factor)


# Multiply the evidence that is weighted as the iterates are.
rescale = on_type({Likelihood: _rescale_likelihood}, default=_rescale_nothing)


# --- The loop ------------------------------------------------------------------------------------


class Scratch(NamedTuple):
    """Arrays that a round may write to: the loop itself never allocates."""

    scores: Any  # (scores,)
    alpha: Any  # (scores,), what the row is multiplied by before it is added to the weights
    n: Any  # (K - 1,)
    cut: Any  # (K + 1,), as are the following
    above: Any
    q: Any
    tau: Any


class Record(NamedTuple):
    """What the model that predicts (the mean, where there is one) said before each round."""

    rank: Any  # (n,)
    scores: Any  # (n, scores)
    hinge: Any  # (n,)


class CutRecord(NamedTuple):
    """A record with the thresholds that each score was cut by."""

    rank: Any
    scores: Any
    hinge: Any
    cuts: Any  # (n, K + 1)


def _keep_no_cuts(record, i, cut):
    pass


def _keep_cuts(record, i, cut):
    for k in range(cut.shape[0]):
        record.cuts[i, k] = cut[k]


keep_cuts = on_type({CutRecord: _keep_cuts}, default=_keep_no_cuts)


@part_of_loop
def fill_cuts(geometry, n, shift, cut):
    """Write the thresholds between their two sentinels."""
    cut[0] = -inf
    for i in range(n.shape[0]):
        # A mean of ordered thresholds is ordered up to the last bit: mend that.
        cut[i + 1] = max(cut[i], threshold(geometry, n[i], i, shift))
    cut[n.shape[0] + 1] = inf


@njit(nogil=True, cache=True)
def parameters(geometry, state):
    """Return weights and cuts, and Z, the number that divides both when they are reported."""
    cut = np.empty(state.n.shape[0] + 2)
    fill_cuts(geometry, state.n, state.shift[0], cut)
    return weights(geometry, state), cut, mass(geometry, state)


@whole_loop
def rate_each(rows, rule, w, cut, ranks, scores):
    """Do the work of `rate`."""
    for t in range(ranks.shape[0]):
        measured, total = measure(rule, rows, t, w, scores[t])
        if not isfinite(total):
            return t
        ranks[t] = decode(rule, measured, cut)
    return -1


@njit(nogil=True, cache=True)
def rate(rows, rule, w, cut, ranks, scores):
    """Score and rank every row; return -1, or the first row whose scores are not finite."""
    return rate_each(rows, rule, w, cut, ranks, scores)


def _mean_score(rule, score, sums, weight):
    return score - sums / weight


def _mean_scores(rule, scores, sums, weight):
    for k in range(scores.shape[0]):
        sums[k] = scores[k] - sums[k] / weight
    return sums


# Turn the scores of the iterate and of the sums into those of the mean.
mean_scores = on_type({Multiclass: _mean_scores}, default=_mean_score)


def _write_score(rule, score, unit, table, i):
    table[i, 0] = score / unit


def _write_scores(rule, scores, unit, table, i):
    for k in range(scores.shape[0]):
        table[i, k] = scores[k] / unit


write_scores = on_type({Multiclass: _write_scores}, default=_write_score)


@part_of_loop
def note(rule, record, i, rows, t, scores, cut, lo, hi, geometry, state, mean, before, work):
    """Record what the predicting model says of row t before it is learned."""
    if mean is not None:
        if before > 0.0 and not mean_is_lost(rows):
            sums, _ = measure(rule, under_sums(rows), t, mean.u, record.scores[i])
            scores = mean_scores(rule, scores, sums, before)
            for k in range(state.n.shape[0]):
                work.n[k] = state.n[k] - mean.n[k] / before
            fill_cuts(geometry, work.n, 0.0, work.cut)
            cut = work.cut
    unit = mass(geometry, state)
    record.rank[i] = decode(rule, scores, cut)
    record.hinge[i] = 0.0 if hi < lo else hinge(rule, scores, cut, lo, hi) / unit
    write_scores(rule, scores, unit, record.scores, i)
    keep_cuts(record, i, cut)


def _walk(
    rows, intervals, importance, order, rule, geometry, growth, state, mean, record, w, cut, work
):
    """Do the work of `run`, with all arrays at hand."""
    alpha = work.alpha
    before = state.clock[0]
    scale = state.clock[1]
    rounds = state.counts[0]
    mistakes = 0
    updates = 0
    for i in range(intervals.shape[0] if order is None else order.shape[0]):
        if order is None:
            t = i
        else:
            t = order[i]
            later = order[min(i + AHEAD, order.shape[0] - 1)]
            fetch(rows, later)
            prefetch(intervals, 2 * later)
        scores, total = measure(rule, rows, t, w, work.scores)
        squared = squared_length(rule, rows, t)
        if not isfinite(total + squared):
            return i
        lo = intervals[t, 0]
        hi = intervals[t, 1]
        if record is not None:
            note(rule, record, i, rows, t, scores, cut, lo, hi, geometry, state, mean, before, work)
        if hi < lo:
            continue
        rounds += 1
        if growth is not None:
            fade(rule, state.evidence, 1.0 / growth)
            scale *= growth
        omega = scale * age(rule, rounds)
        if importance is None:
            c = 1.0
        else:
            c = importance[t]
        violated, moves = step(
            rule,
            scores,
            squared,
            c,
            cut,
            lo,
            hi,
            alpha,
            work,
            geometry,
            state,
            mean,
            before,
            omega,
            rounds,
        )
        if violated > 0:
            mistakes += 1
            updates += violated
        if moves:
            for k in range(alpha.shape[0]):
                if alpha[k] != 0.0:
                    add(rows, t, alpha[k], k, geometry, state, w, mean, before)
            settle(geometry, state, w, cut, alpha[0], c, rows, t)
            if not state.lattice:
                restore_order(geometry, state, cut, mean, before)
        before += omega
        if growth is not None:
            if scale > MAX_GROWTH:
                before /= MAX_GROWTH
                scale /= MAX_GROWTH
                rescale(rule, state.evidence, 1.0 / MAX_GROWTH)
                if mean is not None:
                    for k in range(mean.u.shape[0]):
                        multiply(mean.u[k], 1.0 / MAX_GROWTH)
                    multiply(mean.n, 1.0 / MAX_GROWTH)
    state.clock[0] = before
    state.clock[1] = scale
    state.counts[0] = rounds
    state.counts[1] += mistakes
    state.counts[2] += updates
    return -1


walk = whole_loop(_walk)
walk_one = part_of_loop(_walk)  # for one row, the call would cost as much as the row


@njit(nogil=True, cache=True)
def run(rows, intervals, importance, order, rule, geometry, growth, state, mean, record):
    """Learn from each row once: those that `order` names, or all as they come if it is None.

    `importance` holds the rows' weights, None: all are 1. `growth` is how much more each round
    weighs than the one before it, None: all weigh the same. A row without a label (``hi < lo``) is
    recorded, but it is no round: nothing counts it. Return -1, or the first position whose scores
    are not finite. The state is then half-way: drop it.
    """
    cut = np.empty(state.n.shape[0] + 2)
    fill_cuts(geometry, state.n, state.shift[0], cut)
    w = weights(geometry, state)
    work = Scratch(
        scores=np.empty(w.shape[0]),
        alpha=np.empty(w.shape[0]),
        n=np.empty_like(state.n),
        cut=np.empty_like(cut),
        above=np.empty_like(cut),
        q=np.empty_like(cut),
        tau=np.empty_like(cut),
    )
    return walk(
        rows,
        intervals,
        importance,
        order,
        rule,
        geometry,
        growth,
        state,
        mean,
        record,
        w,
        cut,
        work,
    )


# --- Orders of rows ------------------------------------------------------------------------------

MOST_SHUFFLED = 2**31 - 1  # rows: their positions fit into 32 bits
LOW_HALF = 2**32 - 1


@part_of_loop
def next_number(a, b, c, counter):
    """Return a number of 32 bits and what draws the next one: C. Doty-Humphrey's generator SFC32.

    Nothing here exceeds 63 bits, so that plain Python draws the same numbers.
    """
    number = (a + b + counter) & LOW_HALF
    a = b ^ (b >> 9)
    b = (c + (c << 3)) & LOW_HALF
    c = (((c << 21) | (c >> 11)) + number) & LOW_HALF
    return number, a, b, c, counter + 1


@njit(nogil=True, cache=True)
def shuffle_rounds(intervals, seed, order):
    """Write the positions of the rows that have a label, shuffled; return how many they are.

    Any order is as likely as any other (Fisher and Yates; D. Lemire's integers below a bound). It
    depends on the three 32-bit numbers of the seed alone, on every platform.
    """
    n = 0
    for t in range(intervals.shape[0]):
        order[n] = t
        n += intervals[t, 0] <= intervals[t, 1]
    a, b, c, counter = seed[0], seed[1], seed[2], 1
    for _ in range(12):  # until the seed is spread over all bits
        _, a, b, c, counter = next_number(a, b, c, counter)
    for i in range(n - 1, 0, -1):
        number, a, b, c, counter = next_number(a, b, c, counter)
        product = number * (i + 1)
        if product & LOW_HALF <= i:
            uneven = (LOW_HALF + 1) % (i + 1)  # so many numbers would be drawn more than others
            while product & LOW_HALF < uneven:
                number, a, b, c, counter = next_number(a, b, c, counter)
                product = number * (i + 1)
        j = np.uintp(product >> 32)  # unsigned, an index is never tested for counting from the end
        order[np.uintp(i)], order[j] = order[j], order[np.uintp(i)]
    return n


# --- One row at a time ---------------------------------------------------------------------------
# Passing a model's arrays one by one costs more than learning a row. So a stream keeps them all in
# one array of numbers and one of integers, and compiled functions make views of them.

# Where the integers are, after the three of `State.counts`; KEPT and STARTS are many.
LATTICE, N_SCORES, N_FEATURES, RATED, LOW, HIGH, KEPT, STARTS = 3, 4, 5, 6, 7, 8, 9, 12

# The numbers, part after part; `part_sizes` says how many each has.
(
    ROW,
    CONSTANT,
    IMPORTANCE,
    UNIT,
    RATING_W,  # what predicts: the mean where there is one; made when it is asked for
    RATING_CUT,
    SCRATCH_SCORES,
    SCRATCH_ALPHA,
    SCRATCH_N,
    SCRATCH_CUT,
    SCRATCH_ABOVE,
    SCRATCH_Q,
    SCRATCH_TAU,
    U,  # from here on: what a round may change
    N,
    SHIFT,
    CLOCK,
    W,
    CUT,
    MEAN_U,
    MEAN_N,
    SUMS,
    EXACT,
    TOTAL,
    EVIDENCE_RANGES,
    COPY,  # of what a round may change
    N_PARTS,
) = range(27)


def part_sizes(geometry: Any, memory: Any) -> list[int]:
    """Return how many numbers each part has for a model of this size."""
    state, mean = memory
    width, n_classes = state.u.size, len(state.n) + 1
    rating = [width, n_classes + 1]
    scratch = [len(state.u), len(state.u), n_classes - 1, *[n_classes + 1] * 4]
    changing = [width, n_classes - 1, 2, 2, 0 if shares_u(geometry) else width, n_classes + 1]
    changing += [0, 0] if mean is None else [width, n_classes - 1]
    changing += [0] * 4 if state.evidence is None else [part.size for part in state.evidence]
    return [state.u.shape[1] - 1, 1, 1, 1, *rating, *scratch, *changing, sum(changing)]


@intrinsic
def _unchecked_matrix(_, values, start, n_rows, n_columns):
    # numba's own reshape calls a function that looks for a way to avoid a copy: a tenth of a row.
    matrix = types.Array(values.dtype, 2, "C")

    def generate(context, builder, signature, arguments):
        flat, start, n_rows, n_columns = arguments
        source = context.make_array(signature.args[0])(context, builder, flat)
        view = context.make_array(matrix)(context, builder)
        size = context.get_constant(types.intp, 8)  # bytes, of float64 and of int64
        context.populate_array(
            view,
            data=builder.gep(source.data, [start]),
            shape=[n_rows, n_columns],
            strides=[builder.mul(n_columns, size), size],
            itemsize=size,
            meminfo=None,
        )
        return view._getvalue()

    return matrix(values, types.intp, types.intp, types.intp), generate


def _checked_matrix(values, start, n_rows, n_columns):
    return values[start : start + n_rows * n_columns].reshape((n_rows, n_columns))


# A part of a flat array as a matrix.
_compiles = not config.DISABLE_JIT  # type: ignore[attr-defined]
matrix_at = _unchecked_matrix if _compiles else _checked_matrix


class OneRow(NamedTuple):
    """A linear model, the next row and the loop's working space: views of two arrays."""

    rows: Any  # the one row
    intervals: Any  # (1, 2)
    importance: Any  # (1,)
    state: Any
    mean: Any
    w: Any
    cut: Any
    work: Any
    rating_w: Any
    rating_cut: Any


@_njit(inline="always", _nrt=False)  # numba's own: without the runtime, no function returns views
def _part(numbers, integers, part):
    return numbers[integers[STARTS + part] : integers[STARTS + part + 1]]


def _no_evidence(rule, numbers, integers):
    return None


def _evidence_of_ranges(rule, numbers, integers):
    return Evidence(
        sums=_part(numbers, integers, SUMS),
        exact=_part(numbers, integers, EXACT),
        total=_part(numbers, integers, TOTAL),
        ranges=_part(numbers, integers, EVIDENCE_RANGES),
    )


evidence_of = on_type({Likelihood: _evidence_of_ranges}, default=_no_evidence)


@part_of_loop
def lay_out(rule, geometry, averages, numbers, integers):
    """Return the parts of a model. `averages` is None where there is no mean."""
    n_scores = integers[N_SCORES]
    width = integers[N_FEATURES] + 1
    u = matrix_at(numbers, integers[STARTS + U], n_scores, width)
    if averages is None:
        mean = None
    else:
        mean = Mean(
            matrix_at(numbers, integers[STARTS + MEAN_U], n_scores, width),
            _part(numbers, integers, MEAN_N),
        )
    w = u
    if not shares_u(geometry):
        w = matrix_at(numbers, integers[STARTS + W], n_scores, width)
    return OneRow(
        rows=Dense(
            matrix_at(numbers, integers[STARTS + ROW], 1, width - 1),
            numbers[integers[STARTS + CONSTANT]],
        ),
        intervals=matrix_at(integers, LOW, 1, 2),
        importance=_part(numbers, integers, IMPORTANCE),
        state=State(
            u=u,
            n=_part(numbers, integers, N),
            shift=_part(numbers, integers, SHIFT),
            counts=integers[:LATTICE],
            clock=_part(numbers, integers, CLOCK),
            lattice=integers[LATTICE] != 0,
            evidence=evidence_of(rule, numbers, integers),
        ),
        mean=mean,
        w=w,
        cut=_part(numbers, integers, CUT),
        work=Scratch(
            scores=_part(numbers, integers, SCRATCH_SCORES),
            alpha=_part(numbers, integers, SCRATCH_ALPHA),
            n=_part(numbers, integers, SCRATCH_N),
            cut=_part(numbers, integers, SCRATCH_CUT),
            above=_part(numbers, integers, SCRATCH_ABOVE),
            q=_part(numbers, integers, SCRATCH_Q),
            tau=_part(numbers, integers, SCRATCH_TAU),
        ),
        rating_w=matrix_at(numbers, integers[STARTS + RATING_W], n_scores, width),
        rating_cut=_part(numbers, integers, RATING_CUT),
    )


MOST = 1e300  # the largest number of a state: means and their sums stay finite


@any_order
def is_bounded(values):
    """Tell whether every number is finite and no larger than `MOST`."""
    bad = 0
    for i in range(values.shape[0]):
        bad += not abs(values[i]) <= MOST
    return bad == 0


@njit(nogil=True, cache=True)
def all_bounded(values):
    """Tell whether every number is bounded: `is_bounded`, to be called from Python."""
    return is_bounded(values)


@part_of_loop
def copy_within(values, source, target, count):
    """Copy values to another place of the same array."""
    for i in range(count):
        values[target + i] = values[source + i]


@part_of_loop
def learn_in_place(
    rule,
    geometry,
    growth,
    averages,
    numbers,
    integers,
    model,
    rows,
    intervals,
    importance,
    record,
):
    """Learn rows as `run` does, but in place; undo it all if a number is not finite.

    Return -1, or the position of the row whose scores are not finite; the number of the rows, if
    the sums are not.
    """
    n_ranges = integers[STARTS + COPY] - integers[STARTS + EVIDENCE_RANGES]
    first, count = 0, n_ranges  # of the evidence of ranges, which is large: what may change
    if intervals.shape[0] == 1 and model.state.clock[1] * growth <= MAX_GROWTH:
        count = 0
        lo = intervals[0, 0]
        hi = intervals[0, 1]
        if n_ranges > 0 and lo < hi:
            first = range_offset(model.state.n.shape[0] + 1, lo, hi)
            count = hi - lo + 1
    start = integers[STARTS + U]
    rest = integers[STARTS + EVIDENCE_RANGES] + first
    back = integers[STARTS + COPY] - start
    copy_within(numbers, start, start + back, rest - first - start)
    copy_within(numbers, rest, rest + back, count)
    copy_within(integers, 0, KEPT, 3)
    bad = walk_one(
        rows,
        intervals,
        importance,
        None,
        rule,
        geometry,
        growth,
        model.state,
        model.mean,
        record,
        model.w,
        model.cut,
        model.work,
    )
    if bad < 0:
        # All that a round may change, but for weights and thresholds, which follow from it, and for
        # the evidence of ranges, which is part of the totals.
        good = is_bounded(numbers[start : integers[STARTS + W]])
        good = good and is_bounded(
            numbers[integers[STARTS + MEAN_U] : integers[STARTS + EVIDENCE_RANGES]]
        )
        if good:
            integers[RATED] = 0
            return -1
        bad = intervals.shape[0]
    copy_within(numbers, start + back, start, rest - first - start)
    copy_within(numbers, rest + back, rest, count)
    copy_within(integers, KEPT, 0, 3)
    return bad


@_njit(cache=True, _nrt=False)
def learn_row(rule, geometry, growth, averages, numbers, integers, lo, hi):
    """Learn the row; return -1, or another number if the model is as it was: not all is finite."""
    model = lay_out(rule, geometry, averages, numbers, integers)
    integers[LOW] = lo
    integers[HIGH] = hi
    return learn_in_place(
        rule,
        geometry,
        growth,
        averages,
        numbers,
        integers,
        model,
        model.rows,
        model.intervals,
        model.importance,
        None,
    )


@_njit(cache=True, _nrt=False)
def answer_rows(rule, geometry, growth, averages, numbers, integers, X, intervals, record):
    """Record what the model says of each row before it learns it; return as `learn_in_place`."""
    model = lay_out(rule, geometry, averages, numbers, integers)
    return learn_in_place(
        rule,
        geometry,
        growth,
        averages,
        numbers,
        integers,
        model,
        Dense(X, model.rows.constant),
        intervals,
        None,
        record,
    )


@part_of_loop
def prepare_rating(geometry, model, mean):
    """Write the weights and thresholds that predict, those of the mean where there is one."""
    state, n = model.state, model.work.n
    for k in range(model.w.shape[0]):
        for j in range(model.w.shape[1]):
            model.rating_w[k, j] = model.w[k, j]
    for i in range(n.shape[0]):
        n[i] = state.n[i]
    if mean is not None:
        if state.clock[0] > 0.0:
            for k in range(model.w.shape[0]):
                for j in range(model.w.shape[1]):
                    model.rating_w[k, j] -= mean.u[k, j] / state.clock[0]
            for i in range(n.shape[0]):
                n[i] -= mean.n[i] / state.clock[0]
    fill_cuts(geometry, n, state.shift[0], model.rating_cut)


@_njit(cache=True, _nrt=False)
def rate_row(rule, geometry, averages, numbers, integers):
    """Score the row and return its rank, or -1 if its scores are not finite."""
    model = lay_out(rule, geometry, averages, numbers, integers)
    if integers[RATED] == 0:
        prepare_rating(geometry, model, model.mean)
        numbers[integers[STARTS + UNIT]] = mass(geometry, model.state)
        integers[RATED] = 1
    scores, total = measure(rule, model.rows, 0, model.rating_w, model.work.scores)
    if not isfinite(total):
        return -1
    return decode(rule, scores, model.rating_cut)


def entry_point(function: Any, *arguments: Any) -> Any:
    """Return a function compiled for arguments of these types; it does not look at them again."""
    if not hasattr(function, "compile"):  # numba is switched off
        return function
    return function.compile(tuple(typeof(argument) for argument in arguments))
