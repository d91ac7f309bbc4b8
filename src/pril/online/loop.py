"""The loop that learns, compiled by numba.

Notation (paper -> here): ``w`` -> ``w``, ``theta`` -> ``cut``, ``[y_l, y_r]`` -> ``lo, hi``
(ranks from 0), ``f(x)`` -> ``score``, ``sum tau`` -> ``alpha``, ``K`` -> ``n_classes``.

*Rows* have a dot product, an addition and a squared length; a *rule* turns scores and an interval
into multipliers and never sees x; a *geometry* turns the additive state into weights and
thresholds. `walk` is the one loop over all of them. Each operation is a table from the type of its
first argument to a plain function, and numba picks the function at compile time.

Every algorithm of the paper adds the same two things in a round: ``u += alpha x`` and
``n += tau``. The geometry says what that means: PRIL is ``w = u, theta = -n``; M-PRIL is
``w = exp(rate u) / Z, theta = exp(-rate n) / Z``, where no decision depends on Z.

Ties:

- prediction: rank = number of thresholds at or below the score, ``score >= theta_i``;
- update: a constraint is violated when ``z_i (score - theta_i) <= 0``, ties included. With a
  strict inequality, nothing would ever move from the zero start;
- the multiclass perceptron prefers the lower of two ranks with equal scores.

``cut`` is theta with sentinels: ``cut[0] = -inf, cut[i + 1] = theta_i, cut[K] = +inf``, so that a
walk along it needs no bounds. Thresholds are ordered (Lemma 1), so a round without a violation
costs two comparisons. ``n`` holds integers in float64: exact up to 2**53.

The values it works with are in `loop_types`, and `rating` predicts many rows without it. The
compiled code is kept on disk by `code_cache`, which names all modules that may have any: a rule
kept elsewhere would go stale silently.
"""

from collections.abc import Callable
from math import exp, inf, isfinite, sqrt
from typing import NamedTuple, TypeVar

import numpy as np
from numba import typeof

from pril.core import loop_types as types
from pril.core.arrays import Array
from pril.core.loop_types import (
    LARGEST_NUMBER,
    LATTICE,
    MAX_DRIFT,
    MIN_PROBABILITY,
    N_COMMON,
    PLACES,
)
from pril.online import code_cache
from pril.online.coarsening_by_row import SEEN, SIZE, SLOPES, Evidence, learn_label, spare_rows
from pril.online.code_cache import (
    any_order,
    inserted,
    on_type,
    own_function,
    part_of_loop,
    prefetch,
)

T = TypeVar("T")

# With a half-life, weights of rounds grow. At this power of two they are divided by it, exactly.
MAX_GROWTH = 2.0**100


ROWS_AHEAD = 12  # how many rows ahead a shuffled pass prefetches; measured


# --- Rows: where row t lives ---------------------------------------------------------------------


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
        # An unsigned index needs no test for a negative one.
        total += rows.data[p] * w[k, np.uintp(rows.indices[p])]
    return total + rows.constant * w[k, w.shape[1] - 1]


def _dot_cells(rows, t, w, k):
    # By BLAS, as `rating.scores_of`.
    return np.dot(rows.X[t], w[k, :-1]) + rows.constant * w[k, w.shape[1] - 1]


DOTS = {types.Dense: _dot_dense, types.Cells: _dot_cells, types.Csr: _dot_csr}
dot = on_type(DOTS | {types.Gram: lambda rows, t, w, k: rows.scores[t]})


def _fetch_dense(rows, t):
    width = rows.X.shape[1]
    for j in range(0, min(width, 64), 8):
        prefetch(rows.X, t * width + j)


def _fetch_csr(rows, t):
    prefetch(rows.data, rows.indptr[t])
    prefetch(rows.indices, rows.indptr[t])


# Prefetch a row.
fetch = on_type({types.Dense: _fetch_dense, types.Csr: _fetch_csr}, default=lambda rows, t: None)


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


square = on_type({types.Dense: _square_dense, types.Csr: _square_csr, types.Gram: _square_gram})


def _add_dense(rows, t, alpha, k, weights, before):
    for j in range(rows.X.shape[1]):
        move(weights.geometry, weights, before, k, j, alpha * rows.X[t, j])
    move(weights.geometry, weights, before, k, weights.w.shape[1] - 1, alpha * rows.constant)


def _add_csr(rows, t, alpha, k, weights, before):
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        j = np.uintp(rows.indices[p])
        move(weights.geometry, weights, before, k, j, alpha * rows.data[p])
    move(weights.geometry, weights, before, k, weights.w.shape[1] - 1, alpha * rows.constant)


def _add_gram(rows, t, alpha, k, weights, before):
    slot = rows.slot[t]
    move(weights.geometry, weights, before, k, slot, alpha)
    if rows.since[slot] < 0:
        rows.since[slot] = rows.size[0] + rows.size[1]
        rows.size[0] += 1
    _shift_scores(rows, slot, t + 1, alpha, before)
    while rows.size[0] > rows.budget:
        _drop_smallest(rows, t + 1, weights.u[k])


add = on_type({types.Dense: _add_dense, types.Csr: _add_csr, types.Gram: _add_gram})


@own_function
def _shift_scores(rows, slot, start, alpha, before):
    """Add alpha times a kernel row to the scores of the rows from `start` on."""
    for i in range(start, rows.scores.shape[0]):
        rows.scores[i] += alpha * rows.values[slot, i]
    for i in range(start, rows.sums.shape[0]):
        rows.sums[i] += before * alpha * rows.values[slot, i]


@own_function
def _drop_smallest(rows, start, coef):
    """Drop the support row that changes the function least: the smallest coefficient, then age."""
    victim = -1
    for s in range(rows.since.shape[0]):
        if rows.since[s] < 0:
            continue
        size = abs(coef[s])
        least = abs(coef[victim])
        if victim < 0 or size < least or (size == least and rows.since[s] < rows.since[victim]):
            victim = s
    _shift_scores(rows, victim, start, -coef[victim], 0)
    coef[victim] = 0.0
    rows.since[victim] = -1
    rows.size[0] -= 1
    rows.size[1] += 1


def _rows_of_sums(rows):
    _, sums, values, slot, since, size, budget = rows
    return types.Gram(sums, sums, values, slot, since, size, budget)


# Gram rows store the averaged model's scores in `sums`.
under_sums = on_type({types.Gram: _rows_of_sums}, default=lambda rows: rows)
# The mean needs the support rows of all iterates: it is lost when one is dropped.
mean_is_lost = on_type({types.Gram: lambda rows: rows.size[1] > 0}, default=lambda rows: False)


# --- State: the additive sums --------------------------------------------------------------------


class Scratch(NamedTuple):
    """Arrays that a round may write to: the loop itself never allocates."""

    scores: Array  # (scores,)
    alpha: Array  # (scores,), what the row is multiplied by before it is added to the weights
    n: Array  # (K - 1,)
    cut: Array  # (K + 1,)
    spare: Array  # (N_SPARE, at least K + 1 and 8), for the rule


class Weights(NamedTuple):
    """What moves when a row is added to the weights."""

    geometry: types.Geometry
    u: Array
    mean_u: Array
    w: Array  # weights: `u` itself, or an array of their own
    shift: Array


class Thresholds(NamedTuple):
    """What moves with the thresholds."""

    geometry: types.Geometry
    n: Array
    mean_n: Array
    cut: Array  # thresholds between two sentinels
    shift: Array


class Model(NamedTuple):
    """A learner's state and what follows from it."""

    weights: Weights
    thresholds: Thresholds
    state: types.State
    own: Evidence | None  # the parts of the state that the rule declares, by their names
    work: Scratch


class Round(NamedTuple):
    """What a rule may know of the round it is in."""

    number: int  # from 1
    weight: float  # of the row: it moves the model that many times as far
    before: float  # weight of the iterates so far in the mean
    omega: float  # weight of the iterate that this round makes


# --- Geometries: additive state -> weights and thresholds ----------------------------------------


weight = on_type({types.Curved: types.curved}, default=lambda geometry, u, shift: u)
threshold = on_type(
    {types.FixedThresholds: lambda geometry, n, i, shift: i + 1.5},
    default=lambda geometry, n, i, shift: weight(geometry, -n, shift),
)


def _fill_curved(geometry, u, shift, w):
    for j in range(w.shape[1] - 1):
        w[0, j] = weight(geometry, u[0, j], shift[0])
    w[0, w.shape[1] - 1] = 0.0  # there is no constant feature here


# Other weights are the sums themselves.
where_weights_are = on_type({types.Curved: lambda kind, u, w: w}, default=lambda kind, u, w: u)
fill_weights = on_type({types.Curved: _fill_curved}, default=lambda geometry, u, shift, w: None)


def _move_shared(geometry, weights, before, k, j, change):
    weights.u[k, j] += change
    if weights.mean_u.shape[0] > 0:
        weights.mean_u[k, j] += before * change


def _move_curved(geometry, weights, before, k, j, change):
    if change != 0.0:
        weights.u[k, j] += change
        weights.w[k, j] = weight(geometry, weights.u[k, j], weights.shift[0])


move = on_type({types.Curved: _move_curved}, default=_move_shared)


@part_of_loop
def nudge(thresholds, before, i, tau):
    """Add tau to the i-th sum; the mean and the threshold follow.

    Parameters
    ----------
    thresholds : tuple
        What the step was given.
    before : float
        ``now.before``.
    i : int
        Which threshold, from 0.
    tau : float
        How far it falls; in `MPRIL`, what its sum of exponents grows by.

    Examples
    --------
    >>> def step(rule, thresholds, own, work, score, squared, lo, hi, now):
    ...     nudge(thresholds, now.before, 0, -1.0)  # the first threshold rises by 1
    ...     work.alpha[0] = 0.0
    ...     return 1, True
    """
    geometry, n, mean_n, cut, shift = thresholds
    n[i] += tau
    if mean_n.shape[0] > 0:
        mean_n[i] += before * tau
    cut[i + 1] = threshold(geometry, n[i], i, shift[0])


@part_of_loop
def restore_order(thresholds, before):
    """Bring the sums of tau back into descending order, and so the thresholds into ascending.

    Steps of unequal size, or from thresholds that are not integers, can break the order. The
    nearest ordered vector is found by pooling adjacent violators.
    """
    geometry, n, mean_n, cut, shift = thresholds
    for i in range(1, n.shape[0]):
        if n[i] > n[i - 1]:
            j = i
            total = n[i]
            while j > 0 and n[j - 1] < total / (i - j + 1):
                j -= 1
                total += n[j]
            level = total / (i - j + 1)
            for k in range(j, i + 1):
                if mean_n.shape[0] > 0:
                    mean_n[k] += before * (level - n[k])
                n[k] = level  # assigned, so that pooled values are equal to the last bit
                cut[k + 1] = threshold(geometry, level, k, shift[0])


def _settle_curved(geometry, model, alpha, c, rows, t):
    # No exponent moves by more than rate max(c, |alpha| |x|) in a round of weight c.
    _, u, _, w, shift = model.weights
    shift[1] += geometry.rate * max(c, abs(alpha) * sqrt(square(rows, t)))
    if not shift[1] <= MAX_DRIFT:
        _, n, _, cut, _ = model.thresholds
        shift[0] = peak(geometry, u, n)
        shift[1] = 0.0
        fill_weights(geometry, u, shift, w)
        for i in range(n.shape[0]):
            cut[i + 1] = threshold(geometry, n[i], i, shift[0])


settle = on_type(
    {types.Curved: _settle_curved}, default=lambda geometry, model, alpha, c, rows, t: None
)


@part_of_loop
def peak(geometry, u, n):
    """Return the largest exponent, by which all are shifted."""
    top = 0.0 if geometry.signed else -inf
    for j in range(u.shape[1] - 1):
        a = geometry.rate * u[0, j]
        top = max(top, abs(a) if geometry.signed else a)
    for i in range(n.shape[0]):
        a = -geometry.rate * n[i]
        top = max(top, abs(a) if geometry.signed else a)
    return top


_positive_part = part_of_loop(types.positive_part)


def _mass_curved(geometry, u, n, shift):
    total = 0.0
    for j in range(u.shape[1] - 1):
        total += _positive_part(geometry, u[0, j], shift[0])
    for i in range(n.shape[0]):
        total += _positive_part(geometry, -n[i], shift[0])
    return total


mass = on_type({types.Curved: _mass_curved}, default=lambda geometry, u, n, shift: 1.0)


# --- Rules: scores and interval -> multipliers ---------------------------------------------------
# `measure` returns the scores (a float where there is one, else an array) and their sum, which is
# finite exactly when all of them are.


def _length(rule, rows, t):
    return square(rows, t)


LENGTHS = {
    types.LeastSquares: lambda rule, rows, t: square(rows, t) if rule.normalize else 0.0,
    types.PassiveAggressive: _length,
    types.Likelihood: _length,
}
squared_length = on_type(LENGTHS, default=lambda rule, rows, t: 0.0)


def add_rule(rule: type, step: Callable[..., object], *, needs_length: bool) -> None:
    """Let the loop learn by a rule that is not of this package."""
    STEPS[rule] = step
    if needs_length:
        LENGTHS[rule] = _length


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


measure = on_type({types.Multiclass: _measure_each}, default=_measure_one)
# What `measure` returns, from an array.
measured = on_type({types.Multiclass: lambda rule, scores: scores}, lambda rule, scores: scores[0])


@part_of_loop
def rank_of(score, cut):
    """Return the number of thresholds at or below a score.

    Counting is faster than a binary search, which ends in a branch that is mispredicted. Many
    thresholds are halved first.
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


@part_of_loop
def sides(score, threshold):
    """Return the chances that the class lies above a threshold, and below it."""
    distance = threshold - score
    small = exp(-abs(distance))
    large = 1.0 / (1.0 + small)
    small *= large
    return (small, large) if distance > 0.0 else (large, small)


@part_of_loop
def between(above, below, next_above, next_below):
    """Return the chance of the class between two thresholds: the difference of small numbers."""
    return above - next_above if above <= 0.5 else next_below - below


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


@own_function
def best_in(scores, lo, hi):
    """Return the lowest rank in lo..hi with the largest score."""
    best = lo
    for k in range(lo + 1, hi + 1):
        if scores[k] > scores[best]:
            best = k
    return best


decode = on_type(
    {
        types.Multiclass: lambda rule, scores, cut: best_in(scores, 0, scores.shape[0] - 1),
        types.Likelihood: _decode_likelihood,
    },
    default=lambda rule, score, cut: rank_of(score, cut),
)


def _hinge_cut(rule, score, cut, lo, hi):
    loss = 0.0
    for i in range(1, lo + 1):
        loss += max(0.0, cut[i] - score)
    for i in range(hi + 1, cut.shape[0] - 1):
        loss += max(0.0, score - cut[i])
    return loss


def _hinge_best(rule, scores, cut, lo, hi):
    return scores[decode(rule, scores, cut)] - scores[best_in(scores, lo, hi)]


hinge = on_type({types.Multiclass: _hinge_best}, default=_hinge_cut)


# `step` moves the thresholds, sets `work.alpha`, and returns how many constraints were
# violated, and whether anything moves: only then are the weights moved and the order restored.


def _step_pril(rule, thresholds, own, work, score, squared, lo, hi, now):
    cut = thresholds.cut
    if (cut[lo] < score) & (score < cut[hi + 1]):
        return 0, False
    if rule.skip_correct and cut[lo] <= score < cut[hi + 1]:
        return 0, False
    left = 0
    while score <= cut[lo - left]:
        nudge(thresholds, now.before, lo - left - 1, now.weight)
        left += 1
    right = 0
    while score >= cut[hi + 1 + right]:
        nudge(thresholds, now.before, hi + right, -now.weight)
        right += 1
    work.alpha[0] = now.weight * (left - right)
    return left + right, True


MAX_SEARCH_STEPS = 100  # steps of a search that a dozen finish
SEARCH_ROUNDING = 1e-14  # what rounding leaves of a difference, relative to its terms


def _step_passive_aggressive(rule, thresholds, own, work, score, squared, lo, hi, now):
    # Least |w' - w|^2 / 2 + |theta' - theta|^2 / 2 + C (sum of xi or xi^2), with margins of 1 - xi.
    # So w' = w + s x and theta'_i = theta_i - z_i lambda_i(s), where s = sum of z_i lambda_i(s).
    # The right side falls in s, and is straight between kinks: Newton's method, between bounds.
    cut = thresholds.cut
    if ((cut[lo] + 1.0 <= score) & (score + 1.0 <= cut[hi + 1])) | (now.weight == 0.0):
        return 0, False
    C = now.weight * rule.C
    most = inf if rule.squared else C
    share = 1.0 / (1.0 + 0.5 / C) if rule.squared else 1.0
    s, low, high = 0.0, -inf, inf
    for _ in range(MAX_SEARCH_STEPS):
        gap, slope, size = s, 1.0, abs(s)
        for i in range(thresholds.n.shape[0]):
            missing, z = missing_margin(score + s * squared, cut[i + 1], i, lo, hi)
            if missing > 0.0:
                gap -= z * share * min(missing, most)
                size += share * min(missing, most)
                slope += share * squared * (missing < most)
        if abs(gap) <= SEARCH_ROUNDING * size or s - gap / slope == s:
            break
        low, high = (low, s) if gap > 0.0 else (s, high)
        s -= gap / slope
        if not low < s < high:
            s = 0.5 * (low + high)
    violated = 0
    work.alpha[0] = 0.0
    for i in range(thresholds.n.shape[0]):
        missing, z = missing_margin(score + s * squared, cut[i + 1], i, lo, hi)
        if missing > 0.0:
            tau = z * share * min(missing, most)
            nudge(thresholds, now.before, i, tau)
            work.alpha[0] += tau
            violated += 1
    return violated, True


@part_of_loop
def missing_margin(score, threshold, i, lo, hi):
    """Return what a constraint lacks of a margin of 1, and the side that the label asks for."""
    if i < lo:
        return 1.0 - (score - threshold), 1.0
    if i >= hi:
        return 1.0 + (score - threshold), -1.0
    return -1.0, 0.0


def _step_least_squares(rule, thresholds, own, work, score, squared, lo, hi, now):
    residual = min(max(score, lo + 1.0), hi + 1.0) - score
    # Even if the score is outside 1..K.
    says_nothing = lo == 0 and hi == thresholds.cut.shape[0] - 2
    if residual == 0.0 or says_nothing:
        return 0, False
    work.alpha[0] = now.weight * rule.rate * residual / (1.0 + squared)
    return 1, True


def _step_multiclass(rule, thresholds, own, work, scores, squared, lo, hi, now):
    winner = best_in(scores, 0, scores.shape[0] - 1)
    if lo <= winner <= hi:
        return 0, False
    alpha = work.alpha
    alpha[:] = 0.0
    alpha[best_in(scores, lo, hi)] = now.weight
    alpha[winner] = -now.weight
    return 1, True


def _evidence(rule, memory):
    return Evidence(memory.numbers, memory.integers[PLACES + N_COMMON :])


# The rule's own parts of a memory.
own_parts = on_type({types.Likelihood: _evidence}, default=lambda rule, memory: None)


# A smaller slope is a rounding error: steps divide by the size of the slopes, and would blow it up.
ROUNDING = 1e-9

# The step of the likelihood rule. Classes outside the label all have the same relative chance q of
# it, and the terms of all classes of a gradient add up to zero if their q are equal. So only the
# classes lo..hi and their thresholds are looked at, as if q were less by that constant.


def _step_likelihood(rule, thresholds, own, work, score, squared, lo, hi, now):
    cut, c, K = thresholds.cut, now.weight, thresholds.cut.shape[0] - 1
    numbers, places = own
    size, slopes = places[SIZE], places[SLOPES]
    numbers[size] += c * squared
    numbers[size + 1] += c
    numbers[places[SEEN]] += 1.0
    # The gradient of log sum_y q_y P(y): tau by the thresholds of lo..hi, a by the score.
    above, q, tau, _, _, _, _ = spare_rows(work)
    below = work.cut  # free during a step: only `note` uses it
    outside = 0.0
    if rule.noise > 0.0:
        outside = rule.noise * (1.0 - 1.0 / sqrt(1.0 + now.number / 1000.0))
    for k in range(hi - lo + 2):
        above[k], below[k] = sides(score, cut[np.uintp(lo + k)])
    for k in range(hi - lo + 1):
        tau[k] = max(MIN_PROBABILITY, between(above[k], below[k], above[k + 1], below[k + 1]))
    learn_label(rule, own, lo, hi, K, now, tau, work)
    whole = outside
    a = 0.0
    for k in range(hi - lo + 1):
        part = (q[k] - outside) * tau[k]
        whole += part
        a += part * (below[k] - above[k + 1])
    whole = 1.0 / whole
    a *= whole  # within -1..1, even between equal thresholds
    squares = 0.0
    before = outside
    for k in range(hi - lo + 2):
        after = q[k] if k <= hi - lo else outside
        slope = above[k] * below[k] * (after - before) * whole
        tau[k] = min(2.0, max(-2.0, slope))  # unbounded between equal thresholds
        squares += tau[k] * tau[k]
        before = after
    if abs(a) < ROUNDING:
        a = 0.0
    # Steps shrink with the gradients so far, and do not depend on the scale of x or of weights.
    numbers[slopes] += c * a * (c * a)
    numbers[slopes + 1] += c * c * squares / max(K - 1, 1)
    alpha = work.alpha
    alpha[0] = 0.0
    if numbers[size] > 0.0:
        # The squared mean weight bounds the first steps: one row says little about the slope.
        mean = numbers[size + 1] / numbers[places[SEEN]]
        alpha[0] = rule.rate * (c * a / sqrt(mean * mean + numbers[slopes]))
        alpha[0] *= numbers[size + 1] / numbers[size]
    length = 4.0
    if numbers[slopes + 1] > 0.0:
        length = min(length, c * rule.cut_rate / sqrt(numbers[slopes + 1]))
    left = 0
    while score < cut[lo - left]:
        left += 1
    right = 0
    while score >= cut[hi + 1 + right]:
        right += 1
    for k in range(hi - lo + 2):
        i = lo + k - 1
        if 0 <= i < K - 1:
            nudge(thresholds, now.before, i, length * tau[k])
    return left + right, True


STEPS = {
    types.Pril: _step_pril,
    types.LeastSquares: _step_least_squares,
    types.PassiveAggressive: _step_passive_aggressive,
    types.Multiclass: _step_multiclass,
    types.Likelihood: _step_likelihood,
}
step = on_type(STEPS)


# How much the iterate of round t weighs in the mean.
age = on_type({types.Likelihood: lambda rule, t: float(t)}, default=lambda rule, t: 1.0)


@part_of_loop
def multiply(values, factor):
    """Multiply an array in place."""
    for i in range(values.shape[0]):
        values[i] *= factor


# --- The loop ------------------------------------------------------------------------------------


@part_of_loop
def fill_cuts(geometry, n, shift, cut):
    """Write the thresholds between their two sentinels."""
    cut[0] = -inf
    for i in range(n.shape[0]):
        # A mean of ordered thresholds may be out of order in the last bit.
        cut[i + 1] = max(cut[i], threshold(geometry, n[i], i, shift))
    cut[n.shape[0] + 1] = inf


@part_of_loop
def note(rule, model, record, i, rows, t, lo, hi, before):
    """Record what the predicting model says of row t before it is learned."""
    state, work, scores = model.state, model.work, record.scores[i]
    geometry, n, mean_n, cut, shift = model.thresholds
    averages = state.mean_u.shape[0] > 0 and before > 0.0 and not mean_is_lost(rows)
    if averages:
        measure(rule, under_sums(rows), t, state.mean_u, scores)
        for k in range(n.shape[0]):
            work.n[k] = n[k] - mean_n[k] / before
        fill_cuts(geometry, work.n, 0.0, work.cut)
        cut = work.cut
    for k in range(scores.shape[0]):
        scores[k] = work.scores[k] - scores[k] / before if averages else work.scores[k]
    unit, said = mass(geometry, state.u, n, shift), measured(rule, scores)
    record.rank[i] = decode(rule, said, cut)
    record.hinge[i] = 0.0 if hi < lo else hinge(rule, said, cut, lo, hi) / unit
    for k in range(scores.shape[0]):
        scores[k] /= unit
    if record.cuts.shape[0] > 0:
        for k in range(cut.shape[0]):
            record.cuts[i, k] = cut[k]


@inserted
def walk(rows, intervals, order, rule, model, extras):
    """Do the work of `run`, with all arrays at hand."""
    weights, thresholds, state, own, work = model
    alpha = work.alpha
    before = state.clock[0]
    scale = state.clock[1]
    rounds = state.counts[0]
    mistakes = 0
    updates = 0
    n_visits = order.shape[0]
    if n_visits == 0:
        n_visits = intervals.shape[0]
    for i in range(n_visits):
        t = np.intp(i)
        if order.shape[0] > 0:
            t = np.intp(order[i])
            later = order[min(i + ROWS_AHEAD, order.shape[0] - 1)]
            fetch(rows, later)
            prefetch(intervals, 2 * later)
        scores, total = measure(rule, rows, t, weights.w, work.scores)
        squared = squared_length(rule, rows, t)
        if not isfinite(total + squared):
            return i
        lo = intervals[t, 0]
        hi = intervals[t, 1]
        if extras is not None:
            if extras.record.rank.shape[0] > 0:
                note(rule, model, extras.record, i, rows, t, lo, hi, before)
        if hi < lo:
            continue
        rounds += 1
        c = 1.0
        if extras is not None:
            if extras.importance.shape[0] > 0:
                c = extras.importance[t]
            if extras.growth != 1.0:
                multiply(state.fading, 1.0 / extras.growth)
                scale *= extras.growth
        omega = scale * age(rule, rounds)
        now = Round(rounds, c, before, omega)
        violated, moves = step(rule, thresholds, own, work, scores, squared, lo, hi, now)
        if violated > 0:
            mistakes += 1
            updates += violated
        if moves:
            for k in range(alpha.shape[0]):
                if alpha[k] != 0.0:
                    add(rows, t, alpha[k], k, weights, before)
            settle(weights.geometry, model, alpha[0], c, rows, t)
            if state.lattice[0] == 0:
                restore_order(thresholds, before)
        before += omega
        if extras is not None:
            if scale > MAX_GROWTH:
                before /= MAX_GROWTH
                scale /= MAX_GROWTH
                multiply(state.growing, 1.0 / MAX_GROWTH)
                for k in range(state.mean_u.shape[0]):
                    multiply(state.mean_u[k], 1.0 / MAX_GROWTH)
                multiply(state.mean_n, 1.0 / MAX_GROWTH)
    state.clock[0] = before
    state.clock[1] = scale
    state.counts[0] = rounds
    state.counts[1] += mistakes
    state.counts[2] += updates
    return -1


# --- The memory of a learner ---------------------------------------------------------------------
NO_ORDER = np.empty(0, dtype=np.int32)
NO_ORDER.flags.writeable = False


lay_out = inserted(types.lay_out)
N_SPARE = 7


class Desk(NamedTuple):
    """The working space of a pass."""

    # (scores, features + 1), of a geometry whose weights are not the sums; else None.
    w: Array | None
    # (5 + N_SPARE, any), a row for each array of `Scratch`, and for the thresholds.
    work: Array


def make_desk(geometry: types.Geometry, n_scores: int, width: int, n_classes: int) -> Desk:
    """Return the working space of a pass."""
    w = np.empty((n_scores, width)) if isinstance(geometry, types.Curved) else None
    return Desk(w, np.empty((5 + N_SPARE, max(n_scores, n_classes + 1, 8))))


@inserted
def set_up(rule, geometry, memory, desk):
    """Return the model of a memory."""
    state, work = lay_out(memory), desk.work
    n_scores, K = state.u.shape[0], state.n.shape[0] + 1
    w = where_weights_are(geometry, state.u, desk.w)
    fill_weights(geometry, state.u, state.shift, w)
    cut = work[0, : K + 1]
    fill_cuts(geometry, state.n, state.shift[0], cut)
    scratch = Scratch(
        scores=work[1, :n_scores],
        alpha=work[2, :n_scores],
        n=work[3, : K - 1],
        cut=work[4, : K + 1],
        spare=work[5:],
    )
    weights = Weights(geometry, state.u, state.mean_u, w, state.shift)
    thresholds = Thresholds(geometry, state.n, state.mean_n, cut, state.shift)
    return Model(weights, thresholds, state, own_parts(rule, memory), scratch)


@code_cache.entry
def run(rows, intervals, order, rule, geometry, extras, memory, desk):
    """Learn from each row once: those that `order` names, or all as they come if it is empty.

    A row without a label (``hi < lo``) is recorded, but it is no round: nothing counts it. Return
    -1, or the first position whose scores are not finite. The memory must then be dropped.
    """
    model = set_up(rule, geometry, memory, desk)
    return walk(rows, intervals, order, rule, model, extras)


@part_of_loop
def write_predicting(geometry, state, w, cut):
    """Write the weights and thresholds that predict, as `rating.predicting` returns them.

    Return the number that divides both when they are reported.
    """
    averages = state.mean_u.shape[0] > 0 and state.clock[0] > 0.0
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            w[k, j] = state.u[k, j]
            if averages:
                w[k, j] -= state.mean_u[k, j] / state.clock[0]
    fill_weights(geometry, state.u, state.shift, w)
    n = cut[1 : 1 + state.n.shape[0]]  # where each is then replaced by its threshold
    for i in range(state.n.shape[0]):
        n[i] = state.n[i]
        if averages:
            n[i] -= state.mean_n[i] / state.clock[0]
    fill_cuts(geometry, n, state.shift[0], cut)
    return mass(geometry, state.u, state.n, state.shift)


# --- One row at a time ---------------------------------------------------------------------------


@any_order
def is_bounded(values):
    """Tell whether every number is finite and no larger than `LARGEST_NUMBER`."""
    bad = 0
    for i in range(values.shape[0]):
        bad += not abs(values[i]) <= LARGEST_NUMBER
    return bad == 0


@part_of_loop
def copy_values(source, target):
    """Copy one array to another."""
    for i in range(source.shape[0]):
        target[i] = source[i]


class OneRow(NamedTuple):
    """The row that a stream learns or rates."""

    rows: types.Dense  # of this row
    label: Array  # (1, 2), room for its interval
    kept: Array  # room for a copy of the numbers of the memory; then the weight of the row


@code_cache.alone
def learn_row(rule, geometry, growth, memory, desk, row, lo, hi):
    """Learn a row in place; return -1, or a number >= 0 if it was refused and nothing changed.

    `growth` is None in a plain stream, where the weight of the row is 1.
    """
    _, numbers, integers = memory
    row.label[0, 0] = lo
    row.label[0, 1] = hi
    model = set_up(rule, geometry, memory, desk)
    old = row.kept[: numbers.shape[0]]
    copy_values(numbers, old)
    rounds, mistakes, updates, lattice = integers[0], integers[1], integers[2], integers[LATTICE]
    if growth is None:
        bad = walk(row.rows, row.label, NO_ORDER, rule, model, None)
    else:
        importance = row.kept[numbers.shape[0] :]
        if importance[0] != 1.0:
            integers[LATTICE] = 0
        record = types.Record(integers[:0], desk.work[:0], row.kept[:0], desk.work[:0])
        extras = types.Extras(importance, growth, record)
        bad = walk(row.rows, row.label, NO_ORDER, rule, model, extras)
    if bad < 0:
        if is_bounded(numbers):
            return -1
        bad = 1
    copy_values(old, numbers)
    integers[0], integers[1], integers[2], integers[LATTICE] = rounds, mistakes, updates, lattice
    return bad


class Rating(NamedTuple):
    """What a stream predicts with."""

    w: Array  # (scores, features + 1)
    cut: Array  # (K + 1,)
    scores: Array  # (scores,), of the last row
    unit: Array  # (2,), what divides weights and thresholds; the number of rounds they are of


@code_cache.alone
def rate_row(rule, geometry, memory, rating, rows):
    """Score a row and return its rank, or -1 if its scores are not finite."""
    w, cut, scores, unit = rating
    rounds = memory.integers[0]
    if unit[1] != rounds:
        unit[0] = write_predicting(geometry, lay_out(memory), w, cut)
        unit[1] = rounds
    measured, total = measure(rule, rows, 0, w, scores)
    return decode(rule, measured, cut) if isfinite(total) else -1


def compiled_for(function: Callable[..., T], *arguments: object) -> Callable[..., T]:
    """Return a function compiled for arguments of these types: it does not look at them again."""
    if not hasattr(function, "compile"):  # numba is switched off
        return function
    return function.compile(tuple(map(typeof, arguments)))
