"""The loop that learns, compiled by numba, and everything it is made of.

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

The compiled code is kept on disk by `code_cache`, which names all modules that may have any: a rule
kept elsewhere would go stale silently.
"""

import logging
from collections import namedtuple
from collections.abc import Callable
from math import copysign, exp, expm1, inf, isfinite, sqrt
from math import log as ln
from typing import Any, NamedTuple

import numpy as np
from numba import typeof
from numba.core import event

from pril.core.compiling import (
    alone,
    any_order,
    entry,
    inserted,
    on_type,
    own_function,
    part_of_loop,
    prefetch,
)
from pril.core.logistic import between, sides

log = logging.getLogger(__name__)


class Announcer(event.Listener):
    """Says, once, that functions of ours are compiled: a second run finds them on disk."""

    said = False

    def on_start(self, event):
        """Say it, unless it is said already."""
        if not self.said and event.data["dispatcher"].py_func.__module__.startswith("pril."):
            self.said = True
            log.info("compiling, first run only")

    def on_end(self, event):
        """Say nothing."""


announcer = Announcer()
event.register("numba:compile", announcer)

# A new common shift is chosen when exponents may have moved this far from it: exp(300) is 1e130,
# which leaves room for sums and products in float64.
MAX_DRIFT = 300.0

# With a half-life, weights of rounds grow. At this power of two they are divided by it, exactly.
MAX_GROWTH = 2.0**100


AHEAD = 12  # how many rows ahead a shuffled pass prefetches; measured


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
    """A block of rows given by their kernel values with the support rows and with each other.

    The weights are one coefficient a row (Algorithm 2 of the paper). `scores` holds every row's
    current score and `add` updates those of the rows that follow, so that `dot` is a look-up.
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
        # An unsigned index needs no test for a negative one.
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


# Prefetch a row.
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


def _add_dense(rows, t, alpha, k, model, before):
    for j in range(rows.X.shape[1]):
        move(model.geometry, model, before, k, j, alpha * rows.X[t, j])
    move(model.geometry, model, before, k, model.w.shape[1] - 1, alpha * rows.constant)


def _add_csr(rows, t, alpha, k, model, before):
    for p in range(rows.indptr[t], rows.indptr[t + 1]):
        j = np.uintp(rows.indices[p])
        move(model.geometry, model, before, k, j, alpha * rows.data[p])
    move(model.geometry, model, before, k, model.w.shape[1] - 1, alpha * rows.constant)


def _add_gram(rows, t, alpha, k, model, before):
    own = rows.slot[t]
    move(model.geometry, model, before, k, own, alpha)
    if rows.since[own] < 0:
        rows.since[own] = rows.size[0] + rows.size[1]
        rows.size[0] += 1
    _shift_scores(rows, own, t + 1, alpha, before)
    while rows.size[0] > rows.budget:
        _drop_smallest(rows, t + 1, k, model.state)


add = on_type({Dense: _add_dense, Csr: _add_csr, Gram: _add_gram})


@own_function
def _shift_scores(rows, own, start, alpha, before):
    """Add alpha times a kernel row to the scores of the rows from `start` on."""
    for i in range(start, rows.scores.shape[0]):
        rows.scores[i] += alpha * rows.values[own, i]
    for i in range(start, rows.sums.shape[0]):
        rows.sums[i] += before * alpha * rows.values[own, i]


@own_function
def _drop_smallest(rows, start, k, state):
    """Drop the support row that changes the function least: the smallest coefficient, then age."""
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


# Gram rows store the averaged model's scores in `sums`.
under_sums = on_type({Gram: _rows_of_sums}, default=_same_rows)


def _never(rows):
    return False


def _has_dropped(rows):
    return rows.size[1] > 0


# The mean needs the support rows of all iterates: it is lost when one is dropped.
mean_is_lost = on_type({Gram: _has_dropped}, default=_never)


# --- State: the additive sums --------------------------------------------------------------------


class State(NamedTuple):
    """What every learner has learned: views of the arrays of its memory.

    Iterate t has the weight omega_t in the mean, and W is the sum of these weights. The mean of all
    iterates is ``u - mean_u / W``: `mean_u` adds up each move times the W before it, so that only
    what moves is touched. Without an average, `mean_u` has no rows.
    """

    u: Any  # (scores, features + 1), sums of alpha x
    mean_u: Any  # (scores, features + 1), or no rows
    n: Any  # (K - 1,), sums of tau
    mean_n: Any  # (K - 1,), or none
    shift: Any  # (2,), common shift of the exponents, and how far they may have moved since
    clock: Any  # (2,), weight of all iterates in the mean, and what half-lives multiply it by now
    fading: Any  # the numbers of the rule's own parts that fade with a half-life
    growing: Any  # and the others, which are weighted as the iterates are
    counts: Any  # (3,), rounds, rounds with a violated constraint, violated constraints
    lattice: Any  # (1,), whether n holds integers, which keeps the thresholds in order


class Scratch(NamedTuple):
    """Arrays that a round may write to: the loop itself never allocates."""

    scores: Any  # (scores,)
    alpha: Any  # (scores,), what the row is multiplied by before it is added to the weights
    n: Any  # (K - 1,)
    cut: Any  # (K + 1,)
    spare: Any  # (N_SPARE, at least K + 1 and 8), for the rule


class Model(NamedTuple):
    """A learner's state and what follows from it."""

    geometry: Any
    state: Any
    own: Any  # the parts of the state that the rule declares, by their names; None: it has none
    w: Any  # weights: `state.u` itself, or an array of their own
    cut: Any  # thresholds between two sentinels
    work: Any


class Round(NamedTuple):
    """What a rule may know of the round it is in."""

    number: int  # from 1
    weight: float  # of the row: it moves the model so many times as far
    before: float  # weight of the iterates so far in the mean
    omega: float  # weight of the iterate that this round makes


# --- Geometries: additive state -> weights and thresholds ----------------------------------------


class Additive(NamedTuple):
    """w = u, theta = -n (PRIL, PRank, multiclass perceptron)."""

    label: int = 0  # numba accepts no tuple without a field


class FixedThresholds(NamedTuple):
    """w = u, thresholds fixed half-way between the ranks 1..K (regression on ranks)."""

    label: int = 0


class Curved(NamedTuple):
    """w = exp(rate u), theta = exp(-rate n), up to a common factor (M-PRIL).

    Signed, both are twice the hyperbolic sine of the same exponents.
    """

    rate: float
    signed: bool


def _same(geometry, u, shift):
    return u


@part_of_loop
def _bounded_exp(a):
    # One long step may leave the range before `settle` chooses a new shift.
    return exp(min(a, 2.0 * MAX_DRIFT))


def _curved(geometry, u, shift):
    a = geometry.rate * u
    if not geometry.signed:
        return _bounded_exp(a - shift)
    # More accurate than exp(a) - exp(-a): nothing cancels, and the function is exactly odd.
    return copysign(_bounded_exp(abs(a) - shift) * -expm1(-2.0 * abs(a)), a)


weight = on_type({Curved: _curved}, default=_same)


def _threshold_mirrored(geometry, n, i, shift):
    return weight(geometry, -n, shift)


def _threshold_fixed(geometry, n, i, shift):
    return i + 1.5


threshold = on_type({FixedThresholds: _threshold_fixed}, default=_threshold_mirrored)


def _fill_shared(geometry, state, w):
    pass  # w is u


def _fill_curved(geometry, state, w):
    for j in range(w.shape[1] - 1):
        w[0, j] = weight(geometry, state.u[0, j], state.shift[0])
    w[0, w.shape[1] - 1] = 0.0  # there is no constant feature here


fill_weights = on_type({Curved: _fill_curved}, default=_fill_shared)


def _shares_u(geometry):
    return True


def _has_own_weights(geometry):
    return False


shares_u = on_type({Curved: _has_own_weights}, default=_shares_u)


def _move_shared(geometry, model, before, k, j, change):
    state = model.state
    state.u[k, j] += change
    if state.mean_u.shape[0] > 0:
        state.mean_u[k, j] += before * change


def _move_curved(geometry, model, before, k, j, change):
    if change != 0.0:
        state = model.state
        state.u[k, j] += change
        model.w[k, j] = weight(geometry, state.u[k, j], state.shift[0])


move = on_type({Curved: _move_curved}, default=_move_shared)


@part_of_loop
def nudge(model, before, i, tau):
    """Add tau to the i-th sum; the mean and the threshold follow."""
    state = model.state
    state.n[i] += tau
    if state.mean_u.shape[0] > 0:
        state.mean_n[i] += before * tau
    model.cut[i + 1] = threshold(model.geometry, state.n[i], i, state.shift[0])


@part_of_loop
def restore_order(model, before):
    """Bring the sums of tau back into descending order, and so the thresholds into ascending.

    Steps of unequal size, or from thresholds that are not integers, can break the order. The
    nearest ordered vector is found by pooling adjacent violators.
    """
    state = model.state
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
                if state.mean_u.shape[0] > 0:
                    state.mean_n[k] += before * (level - n[k])
                n[k] = level  # assigned, so that pooled values are equal to the last bit
                model.cut[k + 1] = threshold(model.geometry, level, k, state.shift[0])


def _settle_shared(geometry, model, alpha, c, rows, t):
    pass


def _settle_curved(geometry, model, alpha, c, rows, t):
    # No exponent moves by more than rate max(c, |alpha| |x|) in a round of weight c.
    state = model.state
    state.shift[1] += geometry.rate * max(c, abs(alpha) * sqrt(square(rows, t)))
    if not state.shift[1] <= MAX_DRIFT:
        state.shift[0] = peak(geometry, state)
        state.shift[1] = 0.0
        fill_weights(geometry, state, model.w)
        for i in range(state.n.shape[0]):
            model.cut[i + 1] = threshold(geometry, state.n[i], i, state.shift[0])


settle = on_type({Curved: _settle_curved}, default=_settle_shared)


def _peak_none(geometry, state):
    return 0.0


def _peak_curved(geometry, state):
    top = 0.0 if geometry.signed else -inf
    for j in range(state.u.shape[1] - 1):
        a = geometry.rate * state.u[0, j]
        top = max(top, abs(a) if geometry.signed else a)
    for i in range(state.n.shape[0]):
        a = -geometry.rate * state.n[i]
        top = max(top, abs(a) if geometry.signed else a)
    return top


peak = on_type({Curved: _peak_curved}, default=_peak_none)


def _mass_none(geometry, state):
    return 1.0


def _mass_curved(geometry, state):
    total = 0.0
    for j in range(state.u.shape[1] - 1):
        total += positive_part(geometry, state.u[0, j], state.shift[0])
    for i in range(state.n.shape[0]):
        total += positive_part(geometry, -state.n[i], state.shift[0])
    return total


@part_of_loop
def positive_part(geometry, u, shift):
    """Return a weight or, signed, both positive parts of the difference: |w| + 2 exp(-|a|)."""
    if not geometry.signed:
        return weight(geometry, u, shift)
    a = abs(geometry.rate * u)
    return exp(a - shift) + exp(-a - shift)


mass = on_type({Curved: _mass_curved}, default=_mass_none)


# --- Rules: scores and interval -> multipliers ---------------------------------------------------
# `measure` returns the scores (a float where there is one, else an array) and their sum, which is
# finite exactly when all of them are.


class Pril(NamedTuple):
    """Every violated constraint moves (Algorithm 1).

    `skip_correct` leaves a round alone whose predicted rank lies in the interval though the score
    touches a threshold: that is PRank (Crammer and Singer), and differs only at ties.
    """

    skip_correct: bool


class LeastSquares(NamedTuple):
    """A step along the residual to the nearest end of the interval, in ranks 1..K."""

    rate: float
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
    coarsening: int  # AUTO, RANDOM or OFFSETS


def _squared_unused(rule, rows, t):
    return 0.0


def _squared_if_normalized(rule, rows, t):
    return square(rows, t) if rule.normalize else 0.0


def _squared_always(rule, rows, t):
    return square(rows, t)


squared_length = on_type(
    {LeastSquares: _squared_if_normalized, Likelihood: _squared_always}, default=_squared_unused
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


@own_function
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


# `step` moves the thresholds, sets `model.work.alpha`, and returns how many constraints were
# violated, and whether anything moves: only then are the weights moved and the order restored.


def _step_pril(rule, model, score, squared, lo, hi, now):
    cut = model.cut
    if (cut[lo] < score) & (score < cut[hi + 1]):
        return 0, False
    if rule.skip_correct and cut[lo] <= score < cut[hi + 1]:
        return 0, False
    left = 0
    while score <= cut[lo - left]:
        nudge(model, now.before, lo - left - 1, now.weight)
        left += 1
    right = 0
    while score >= cut[hi + 1 + right]:
        nudge(model, now.before, hi + right, -now.weight)
        right += 1
    model.work.alpha[0] = now.weight * (left - right)
    return left + right, True


def _step_least_squares(rule, model, score, squared, lo, hi, now):
    residual = min(max(score, lo + 1.0), hi + 1.0) - score
    says_nothing = lo == 0 and hi == model.cut.shape[0] - 2  # even if the score is outside 1..K
    if residual == 0.0 or says_nothing:
        return 0, False
    model.work.alpha[0] = now.weight * rule.rate * residual / (1.0 + squared)
    return 1, True


def _step_multiclass(rule, model, scores, squared, lo, hi, now):
    winner = best_in(scores, 0, scores.shape[0] - 1)
    if lo <= winner <= hi:
        return 0, False
    alpha = model.work.alpha
    alpha[:] = 0.0
    alpha[best_in(scores, lo, hi)] = now.weight
    alpha[winner] = -now.weight
    return 1, True


def per_class(n_classes: int) -> int:
    """Return how many numbers a part has that has one for each class."""
    return n_classes


def per_range(n_classes: int) -> int:
    """Return how many numbers a part has that has one for each range and class in it."""
    return n_classes * (n_classes + 1) * (n_classes + 2) // 6 - n_classes


class Part(NamedTuple):
    """A part of what a rule learns beside the model."""

    name: str
    size: int | Callable[[int], int]  # how many numbers; `per_class`, `per_range`: by classes
    fades: bool = False  # with a half-life; otherwise it is weighted as the iterates are
    mixes: str = "sum"  # how blocks that learn side by side mix it: "sum" or "mean"
    signed: bool = False  # whether it may be negative


# Parts that fade come first. If a row changes only some numbers of a large part, that part is the
# last, and `changes` says which.
OWN_PARTS: dict[type, tuple[Part, ...]] = {
    Likelihood: (
        Part("size", 2, fades=True),  # sums of c |x|^2 and c, for rows of weight c
        Part("slopes", 2, fades=True, mixes="mean"),  # sums of (c a)^2 and mean (c tau)^2
        Part("seen", 1, fades=True),  # rows with a label
        Part("exact", per_class, fades=True),  # rows with this exact label
        Part("total", per_class),  # weight of the rows that are probably of this class
        Part("labels", 4),  # weight of all labels, of narrow ranges, of wider ones; their overlap
        Part("offsets", 5),  # weight of the rows that probably have each of the offsets
        Part("at_random", per_class),  # weight of the classes, if ranges were given at random
        Part("advantage", 1, signed=True),  # log-likelihood of offsets, less that of "at random"
        Part("ranges", per_range),  # the share of each range in `total`
    ),
}


def views_of(rule: type) -> Any:
    """Return a named tuple for the parts of a rule."""
    return namedtuple(rule.__name__ + "Parts", [part.name for part in OWN_PARTS[rule]])


Evidence = views_of(Likelihood)


def _no_parts(rule, memory):
    return None


def _evidence(rule, memory):
    return Evidence(
        own_part(memory, 0),
        own_part(memory, 1),
        own_part(memory, 2),
        own_part(memory, 3),
        own_part(memory, 4),
        own_part(memory, 5),
        own_part(memory, 6),
        own_part(memory, 7),
        own_part(memory, 8),
        own_part(memory, 9),
    )


# The rule's own parts of a memory.
own_parts = on_type({Likelihood: _evidence}, default=_no_parts)


@part_of_loop
def range_offset(n_classes, lo, hi):
    """Return where the range lo..hi, with lo < hi, begins in a part of the size `per_range`.

    Ranges are sorted by lo, then by hi; each has one number for each of its classes.
    """
    rest = n_classes - lo
    tetrahedral = n_classes * (n_classes + 1) * (n_classes + 2) // 6
    tetrahedral -= rest * (rest + 1) * (rest + 2) // 6
    width = hi - lo
    return tetrahedral - lo + width * (width + 1) // 2 - 1


def _changes_all(rule, size, n_classes, lo, hi):
    return 0, size


def _changes_its_range(rule, size, n_classes, lo, hi):
    if lo < hi:
        return range_offset(n_classes, lo, hi), hi - lo + 1
    return 0, 0


# Which numbers of the last part of a memory, of this size, a row changes: the first, and how many.
changes = on_type({Likelihood: _changes_its_range}, default=_changes_all)


# The least probability of a class in a gradient. A class with less has no share in a range.
TINY = 1e-12
# A smaller slope is a rounding error: steps divide by the size of the slopes, and would blow it up.
ROUNDING = 1e-9

# Coarsening: how a class becomes a range. Either at random, where each class of a range is given it
# equally often, or by offsets that all classes share: a row of class y is given y - a .. y + b, cut
# off at the ends of the scale. An offset that leaves a single class there is drawn again. Offsets
# make narrow ranges only, of up to three classes; wider ranges are always taken to be at random.
#
# The two are compared by the likelihood of each row before it is learned. Offsets have the benefit
# of the doubt: a model that learned at random may settle where the end classes have vanished, and
# there the two explain labels equally well. Ranges that are a partition of the scale do not
# overlap. They cannot come from offsets, and nothing is compared.
#
# `coarsening.py` has the same for learners that see all rows at once. Offsets are in its order.

AUTO, RANDOM, OFFSETS = 0, 1, 2
DOWN, UP = (0, 1, 0, 1, 2), (1, 0, 2, 1, 0)  # a and b of each offset
WIDEST = 2  # the largest a + b
PULL = 10.0  # rows by which the shares of offsets are pulled towards symmetry
SEEN = 0.25  # rows of each kind of range in the prior of "at random"
SPREAD = 1e-3  # rows of each class in the prior of `at_random`
LEAST_OVERLAP = 0.1  # the least share of narrow ranges that overlap, see `overlap`
BENEFIT = 5.0  # the evidence against offsets that it takes to drop them
LEAST_KEPT = 0.01  # the least share of offsets that are not drawn again; bounds a division


@part_of_loop
def row_weight(evidence):
    """Return the mean weight of a row: what a row of a prior weighs."""
    return evidence.labels[0] / evidence.seen[0] if evidence.seen[0] > 0.0 else 1.0


@part_of_loop
def write_shares(evidence, unit, shares):
    """Write the share of each offset: its rows, a prior of one row, and a pull towards symmetry."""
    rows = evidence.offsets
    whole = rows[0] + rows[1] + rows[2] + rows[3] + rows[4]
    pull = 0.0
    one, two, both = 0.2 * unit, 0.2 * unit, 0.2 * unit
    if whole > 0.0:
        pull = PULL * unit
        one += pull * (0.5 * ((rows[0] + rows[1]) / whole))
        two += pull * (0.5 * ((rows[2] + rows[4]) / whole))
        both += pull * (rows[3] / whole)
    scale = 1.0 / (whole + pull + unit)
    shares[0] = (rows[0] + one) * scale
    shares[1] = (rows[1] + one) * scale
    shares[2] = (rows[2] + two) * scale
    shares[3] = (rows[3] + both) * scale
    shares[4] = (rows[4] + two) * scale


@part_of_loop
def fits(o, lo, y, hi, K):
    """Tell whether offset o makes lo..hi of class y."""
    down = DOWN[o] == y - lo or (lo == 0 and DOWN[o] > y)
    return down and (UP[o] == hi - y or (hi == K - 1 and UP[o] > hi - y))


@part_of_loop
def collapses(o, y, K):
    """Tell whether offset o leaves nothing but class y, at an end of the scale."""
    return (y == 0 and UP[o] == 0) or (y == K - 1 and DOWN[o] == 0)


@part_of_loop
def kept(shares, y, K):
    """Return the share of the offsets that are not drawn again at class y."""
    if y == 0:
        return max(shares[0] + shares[2] + shares[3], LEAST_KEPT)
    if y == K - 1:
        return max(shares[1] + shares[3] + shares[4], LEAST_KEPT)
    return 1.0


@part_of_loop
def write_given(shares, lo, hi, K, given):
    """Write the chance that each class in lo..hi is given this range by an offset."""
    for k in range(hi - lo + 1):
        chance = 0.0
        for o in range(5):
            if fits(o, lo, lo + k, hi, K):
                chance += shares[o]
        given[k] = chance / kept(shares, lo + k, K)  # exactly 1 if there are two classes


@part_of_loop
def overlap(labels):
    """Tell whether narrow ranges overlap: those of a partition do not, and are no offsets."""
    return (labels[1] > 0.0) & (labels[3] >= LEAST_OVERLAP * labels[1])


@part_of_loop
def uses_offsets(rule, evidence, unit):
    """Tell whether narrow ranges are taken to be made by offsets."""
    labels = evidence.labels
    likely = (labels[1] >= labels[2]) & (evidence.advantage[0] > -BENEFIT * unit)
    return (rule.coarsening == OFFSETS) | ((rule.coarsening == AUTO) & likely & overlap(labels))


@part_of_loop
def weigh_classes(rule, evidence, lo, hi, K, q, shares, given):
    """Write to q the chance that a row of each class in lo..hi has this label, the largest being 1.

    A mean of two estimates: how often rows of the class were given this range, weighted by the
    number of its exact rows, and what the coarsening mechanism says, weighted by `trust`. The
    shares of offsets, and what they say of this range, are written if it is narrow.
    """
    ranges, total, exact, labels = evidence.ranges, evidence.total, evidence.exact, evidence.labels
    first = range_offset(K, lo, hi)
    known = 0.0
    rows = 0.0
    for k in range(hi - lo + 1):
        known += ranges[np.uintp(first + k)]
        rows += total[np.uintp(lo + k)]
    share = known / rows if known > 0.0 else 1.0
    by_offsets = False
    if (hi - lo <= WIDEST) & (rule.coarsening != RANDOM):
        unit = row_weight(evidence)
        write_shares(evidence, unit, shares)
        write_given(shares, lo, hi, K, given)
        by_offsets = uses_offsets(rule, evidence, unit)
        if by_offsets:
            share = (labels[1] + 0.5 * unit) / (labels[0] + 0.5 * unit)  # of narrow ranges
    most = 0.0
    for k in range(hi - lo + 1):
        y = np.uintp(lo + k)
        chance = share * given[k] if by_offsets else share
        if (known > 0.0) & (exact[y] > 0.0):
            own = ranges[np.uintp(first + k)] / total[y]
            chance = (exact[y] * own + rule.trust * chance) / (exact[y] + rule.trust)
        q[k] = chance
        most = max(most, chance)
    most = 1.0 / most
    for k in range(hi - lo + 1):
        q[k] *= most


@part_of_loop
def learn_coarsening(evidence, lo, hi, K, weight, chances, shares, given):
    """Learn the mechanism from a narrow range, by the chances of its classes.

    `shares` and `given` are those from before this row.
    """
    at_random, unit = evidence.at_random, row_weight(evidence)
    first = range_offset(K, lo, hi)
    by_offsets = 0.0
    inside = 0.0
    known = 0.0
    classes = 0.0
    for k in range(hi - lo + 1):
        by_offsets += chances[k] * given[k]
        inside += chances[k]
        known += evidence.ranges[np.uintp(first + k)]
        classes += at_random[np.uintp(lo + k)]
    if classes > 0.0:  # at random, the other rows of these classes have other ranges
        evidence.labels[3] += weight * max(0.0, 1.0 - known / classes)
    # The prior: rows spread evenly over the classes, and over the 2 K - 3 narrow ranges.
    size = (2 * K - 3) * (hi - lo + 1) / K
    share = min(1.0, (known + SEEN * unit) / (classes + SEEN * unit * size))
    if overlap(evidence.labels):
        evidence.advantage[0] += weight * ln(by_offsets / (share * inside))
    part = weight / (classes + SPREAD * unit * (hi - lo + 1))
    for k in range(hi - lo + 1):  # B. W. Turnbull's estimate, row by row
        at_random[np.uintp(lo + k)] += part * (at_random[np.uintp(lo + k)] + SPREAD * unit)
    for k in range(hi - lo + 1):
        # Rows of this class, over the shares of the offsets that fit.
        rows = weight * chances[k] / (by_offsets * kept(shares, lo + k, K))
        for o in range(5):
            if fits(o, lo, lo + k, hi, K):
                evidence.offsets[o] += rows * shares[o]
            elif collapses(o, lo + k, K):
                evidence.offsets[o] += rows * given[k] * shares[o]


@entry
def label_chances(rule, memory, intervals, q, shares, given):
    """Write to each row of q, for each class, the chance of a row's label; 0 outside of it.

    The last two arrays are working space.
    """
    evidence = own_parts(rule, memory)
    for t in range(intervals.shape[0]):
        lo, hi = intervals[t]
        q[t] = 0.0
        if lo == hi:
            q[t, lo] = 1.0
        elif lo < hi:
            weigh_classes(rule, evidence, lo, hi, q.shape[1], q[t, lo:], shares, given)


@entry
def coarsening(rule, memory, shares):
    """Write the shares of offsets; return whether they are used, and the evidence for them.

    The evidence is a difference of log-likelihoods, in rows of mean weight.
    """
    evidence = own_parts(rule, memory)
    unit = row_weight(evidence)
    unit = unit if unit > 0.0 else 1.0  # files may hold any numbers
    write_shares(evidence, unit, shares)
    return uses_offsets(rule, evidence, unit), evidence.advantage[0] / unit


@part_of_loop
def count_range(evidence, lo, hi, K, weight, shares, q):
    """Add a row to what is known of ranges, divided among its classes by their shares.

    A class between two equal thresholds has no share; if no class has one, `q` is used.
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


# The step of the likelihood rule. Classes outside the label all have the same relative chance q of
# it, and the terms of all classes of a gradient add up to zero if their q are equal. So only the
# classes lo..hi and their thresholds are looked at, as if q were less by that constant.


@part_of_loop
def spare_rows(work):
    """Return the rule's working space: `above`, `q`, `tau`; `shares` and `given` of offsets."""
    spare = work.spare
    return spare[0], spare[1], spare[2], spare[3], spare[4]


@part_of_loop
def climb(rule, score, cut, lo, hi, t, weight, evidence, work):
    """Write the gradient by the thresholds of lo..hi to tau; return the one by the score.

    Both are of log sum_y q_y P(y). The row is then counted, with its weight in the evidence.
    """
    K = cut.shape[0] - 1
    above, q, tau, shares, given = spare_rows(work)
    below = work.cut  # free during a step: only `note` uses it
    outside = 0.0
    if rule.noise > 0.0:
        outside = rule.noise * (1.0 - 1.0 / sqrt(1.0 + t / 1000.0))
    for k in range(hi - lo + 2):
        above[k], below[k] = sides(score, cut[np.uintp(lo + k)])
    for k in range(hi - lo + 1):
        tau[k] = max(TINY, between(above[k], below[k], above[k + 1], below[k + 1]))
    evidence.seen[0] += 1.0
    evidence.labels[0] += weight
    q[0] = 1.0
    if lo < hi:
        weigh_classes(rule, evidence, lo, hi, K, q, shares, given)
        wide = hi - lo > WIDEST
        evidence.labels[1 + wide] += weight
        if (not wide) & (rule.coarsening != RANDOM):
            learn_coarsening(evidence, lo, hi, K, weight, tau, shares, given)
    whole = outside
    a = 0.0
    for k in range(hi - lo + 1):
        part = (q[k] - outside) * tau[k]
        whole += part
        a += part * (below[k] - above[k + 1])
        tau[k] = q[k] * tau[k] if tau[k] > TINY else 0.0
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
        tau[k] = min(2.0, max(-2.0, slope))  # unbounded between equal thresholds
        before = after
    return a * whole  # within -1..1, even there


def _step_likelihood(rule, model, score, squared, lo, hi, now):
    cut, evidence, c = model.cut, model.own, now.weight
    _, _, tau, _, _ = spare_rows(model.work)
    K = cut.shape[0] - 1
    a = climb(rule, score, cut, lo, hi, now.number, c * now.omega, evidence, model.work)
    if abs(a) < ROUNDING:
        a = 0.0
    # Steps shrink with the gradients so far, and do not depend on the scale of x or of weights.
    squares = 0.0
    for k in range(hi - lo + 2):
        squares += tau[k] * tau[k]
    size, slopes = evidence.size, evidence.slopes
    size[0] += c * squared
    size[1] += c
    slopes[0] += c * a * (c * a)
    slopes[1] += c * c * squares / max(K - 1, 1)
    alpha = model.work.alpha
    alpha[0] = 0.0
    if size[0] > 0.0:
        # The squared mean weight bounds the first steps: one row says little about the slope.
        mean = size[1] / evidence.seen[0]
        alpha[0] = rule.rate * (c * a / sqrt(mean * mean + slopes[0])) * (size[1] / size[0])
    length = 4.0
    if slopes[1] > 0.0:
        length = min(length, c * rule.cut_rate / sqrt(slopes[1]))
    left = 0
    while score < cut[lo - left]:
        left += 1
    right = 0
    while score >= cut[hi + 1 + right]:
        right += 1
    for k in range(hi - lo + 2):
        i = lo + k - 1
        if 0 <= i < K - 1:
            nudge(model, now.before, i, length * tau[k])
    return left + right, True


step = on_type(
    {
        Pril: _step_pril,
        LeastSquares: _step_least_squares,
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


# --- The loop ------------------------------------------------------------------------------------


class Record(NamedTuple):
    """What the model that predicts (the mean, where there is one) said before each round."""

    rank: Any  # (n,); empty if nothing is to be recorded
    scores: Any  # (n, scores)
    hinge: Any  # (n,)
    cuts: Any  # (n, K + 1), the thresholds that each score was cut by; no rows if not wanted


class Extras(NamedTuple):
    """What a plain pass does not have; a pass that has any of it is compiled for all of it."""

    importance: Any  # (n,), weights of the rows; empty: all are 1
    growth: float  # how much more each round weighs than the one before it; 1: no more
    record: Any


@part_of_loop
def fill_cuts(geometry, n, shift, cut):
    """Write the thresholds between their two sentinels."""
    cut[0] = -inf
    for i in range(n.shape[0]):
        # A mean of ordered thresholds may be out of order in the last bit.
        cut[i + 1] = max(cut[i], threshold(geometry, n[i], i, shift))
    cut[n.shape[0] + 1] = inf


@entry
def rate(rows, rule, w, cut, ranks, scores):
    """Score and rank every row; return -1, or the first row whose scores are not finite."""
    for t in range(ranks.shape[0]):
        measured, total = measure(rule, rows, t, w, scores[t])
        if not isfinite(total):
            return t
        ranks[t] = decode(rule, measured, cut)
    return -1


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
def note(rule, model, record, i, rows, t, scores, lo, hi, before):
    """Record what the predicting model says of row t before it is learned."""
    geometry, state, cut, work = model.geometry, model.state, model.cut, model.work
    if state.mean_u.shape[0] > 0 and before > 0.0 and not mean_is_lost(rows):
        sums, _ = measure(rule, under_sums(rows), t, state.mean_u, record.scores[i])
        scores = mean_scores(rule, scores, sums, before)
        for k in range(state.n.shape[0]):
            work.n[k] = state.n[k] - state.mean_n[k] / before
        fill_cuts(geometry, work.n, 0.0, work.cut)
        cut = work.cut
    unit = mass(geometry, state)
    record.rank[i] = decode(rule, scores, cut)
    record.hinge[i] = 0.0 if hi < lo else hinge(rule, scores, cut, lo, hi) / unit
    write_scores(rule, scores, unit, record.scores, i)
    if record.cuts.shape[0] > 0:
        for k in range(cut.shape[0]):
            record.cuts[i, k] = cut[k]


@inserted
def walk(rows, intervals, order, rule, model, extras):
    """Do the work of `run`, with all arrays at hand."""
    state, alpha = model.state, model.work.alpha
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
            later = order[min(i + AHEAD, order.shape[0] - 1)]
            fetch(rows, later)
            prefetch(intervals, 2 * later)
        scores, total = measure(rule, rows, t, model.w, model.work.scores)
        squared = squared_length(rule, rows, t)
        if not isfinite(total + squared):
            return i
        lo = intervals[t, 0]
        hi = intervals[t, 1]
        if extras is not None:
            if extras.record.rank.shape[0] > 0:
                note(rule, model, extras.record, i, rows, t, scores, lo, hi, before)
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
        violated, moves = step(rule, model, scores, squared, lo, hi, now)
        if violated > 0:
            mistakes += 1
            updates += violated
        if moves:
            for k in range(alpha.shape[0]):
                if alpha[k] != 0.0:
                    add(rows, t, alpha[k], k, model, before)
            settle(model.geometry, model, alpha[0], c, rows, t)
            if state.lattice[0] == 0:
                restore_order(model, before)
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


class Arrays(NamedTuple):
    """What a linear learner has learned, as compiled code takes it. `memory.py` lays it out.

    The integers are three counts, `lattice`, the number of scores, where the numbers that fade end;
    then where each part begins, the first ones of `State` and then the rule's own, and where the
    last one ends.
    """

    weights: Any  # (scores or twice as many, features + 1), `u` and below it `mean_u`
    numbers: Any  # all parts, the weights among them, one after the other
    integers: Any


LATTICE, N_SCORES, FADING, PLACES = 3, 4, 5, 6
N_COMMON = 6  # parts that every memory has


@inserted
def part(memory, i):
    """Return a part of a memory."""
    integers = memory.integers
    return memory.numbers[integers[PLACES + i] : integers[PLACES + i + 1]]


@inserted
def own_part(memory, i):
    """Return a part of a memory that the rule has declared."""
    return part(memory, N_COMMON + i)


@inserted
def lay_out(memory):
    """Return the state of a memory."""
    weights, numbers, integers = memory
    n_scores, fading = integers[N_SCORES], integers[FADING]
    return State(
        u=weights[:n_scores],
        mean_u=weights[n_scores:],
        n=part(memory, 2),
        mean_n=part(memory, 3),
        shift=part(memory, 4),
        clock=part(memory, 5),
        fading=numbers[integers[PLACES + N_COMMON] : fading],
        growing=numbers[fading:],
        counts=integers[:LATTICE],
        lattice=integers[LATTICE : LATTICE + 1],
    )


N_SPARE = 5


class Desk(NamedTuple):
    """The working space of a pass."""

    w: Any  # (scores, features + 1), of a geometry whose weights are not the sums; else no rows
    work: Any  # (5 + N_SPARE, any), a row for each array of `Scratch`, and for the thresholds


def make_desk(geometry: Any, n_scores: int, width: int, n_classes: int) -> Desk:
    """Return the working space of a pass."""
    w = np.empty((0 if shares_u(geometry) else n_scores, width))
    return Desk(w, np.empty((5 + N_SPARE, max(n_scores, n_classes + 1, 8))))


@inserted
def set_up(rule, geometry, memory, desk):
    """Return the model of a memory."""
    state, w, work = lay_out(memory), desk.w, desk.work
    n_scores, K = state.u.shape[0], state.n.shape[0] + 1
    if shares_u(geometry):
        w = state.u
    else:
        fill_weights(geometry, state, w)
    cut = work[0, : K + 1]
    fill_cuts(geometry, state.n, state.shift[0], cut)
    scratch = Scratch(
        scores=work[1, :n_scores],
        alpha=work[2, :n_scores],
        n=work[3, : K - 1],
        cut=work[4, : K + 1],
        spare=work[5:],
    )
    return Model(geometry, state, own_parts(rule, memory), w, cut, scratch)


@entry
def run(rows, intervals, order, rule, geometry, extras, memory, desk):
    """Learn from each row once: those that `order` names, or all as they come if it is empty.

    A row without a label (``hi < lo``) is recorded, but it is no round: nothing counts it. Return
    -1, or the first position whose scores are not finite. The memory must then be dropped.
    """
    model = set_up(rule, geometry, memory, desk)
    return walk(rows, intervals, order, rule, model, extras)


@alone
def predicting(geometry, memory, w, cut):
    """Write the weights and thresholds that predict, those of the mean where there is one.

    Return the number that divides both when they are reported.
    """
    return write_predicting(geometry, lay_out(memory), w, cut)


@part_of_loop
def write_predicting(geometry, state, w, cut):
    """Do the work of `predicting`."""
    averages = state.mean_u.shape[0] > 0 and state.clock[0] > 0.0
    for k in range(w.shape[0]):
        for j in range(w.shape[1]):
            w[k, j] = state.u[k, j]
            if averages:
                w[k, j] -= state.mean_u[k, j] / state.clock[0]
    if not shares_u(geometry):
        fill_weights(geometry, state, w)
    n = cut[1 : 1 + state.n.shape[0]]  # where each is then replaced by its threshold
    for i in range(state.n.shape[0]):
        n[i] = state.n[i]
        if averages:
            n[i] -= state.mean_n[i] / state.clock[0]
    fill_cuts(geometry, n, state.shift[0], cut)
    return mass(geometry, state)


@entry
def common_shift(geometry, memory):
    """Return the common shift of exponents for a state that was set, not learned."""
    return peak(geometry, lay_out(memory))


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


@entry
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
            uneven = (LOW_HALF + 1) % (i + 1)  # the surplus that would favour some places
            while product & LOW_HALF < uneven:
                number, a, b, c, counter = next_number(a, b, c, counter)
                product = number * (i + 1)
        j = np.uintp(product >> 32)  # unsigned: no test for a negative one
        order[np.uintp(i)], order[j] = order[j], order[np.uintp(i)]
    return n


# --- One row at a time ---------------------------------------------------------------------------

MOST = 1e300  # the largest number of a state: means and their sums stay finite


@any_order
def is_bounded(values):
    """Tell whether every number is finite and no larger than `MOST`."""
    bad = 0
    for i in range(values.shape[0]):
        bad += not abs(values[i]) <= MOST
    return bad == 0


@entry
def all_bounded(values):
    """Tell whether every number is bounded: `is_bounded`, to be called from Python."""
    return is_bounded(values)


@part_of_loop
def copy_values(source, target):
    """Copy one array to another."""
    for i in range(source.shape[0]):
        target[i] = source[i]


class OneRow(NamedTuple):
    """The row that a stream learns or rates."""

    rows: Any  # `Dense`, of this row
    label: Any  # (1, 2), room for its interval
    importance: Any  # (1,), its weight
    kept: Any  # room for a copy of the numbers of the memory


@alone
def learn_row(rule, geometry, growth, memory, desk, row, lo, hi):
    """Learn a row in place; return -1, or a number >= 0 if it was refused and nothing changed.

    `growth` is None in a plain stream, where the weight of the row is 1.
    """
    _, numbers, integers = memory
    row.label[0, 0] = lo
    row.label[0, 1] = hi
    model = set_up(rule, geometry, memory, desk)
    start = integers[integers.shape[0] - 2]  # of the last part
    first, count = changes(rule, numbers.shape[0] - start, model.cut.shape[0] - 1, lo, hi)
    if growth is not None:
        first, count = 0, numbers.shape[0] - start  # a half-life may divide them all
    first += start
    most, rest = numbers[:start], numbers[first : first + count]
    old_most, old_rest = row.kept[:start], row.kept[first : first + count]
    copy_values(most, old_most)
    copy_values(rest, old_rest)
    rounds, mistakes, updates, lattice = integers[0], integers[1], integers[2], integers[LATTICE]
    if growth is None:
        bad = walk(row.rows, row.label, NO_ORDER, rule, model, None)
    else:
        if row.importance[0] != 1.0:
            integers[LATTICE] = 0
        record = Record(integers[:0], memory.weights[:0], row.kept[:0], memory.weights[:0])
        extras = Extras(row.importance, growth, record)
        bad = walk(row.rows, row.label, NO_ORDER, rule, model, extras)
    if bad < 0:
        if is_bounded(most) and is_bounded(rest):
            return -1
        bad = 1
    copy_values(old_most, most)
    copy_values(old_rest, rest)
    integers[0], integers[1], integers[2], integers[LATTICE] = rounds, mistakes, updates, lattice
    return bad


class Rating(NamedTuple):
    """What a stream predicts with."""

    w: Any  # (scores, features + 1)
    cut: Any  # (K + 1,)
    scores: Any  # (scores,), of the last row
    unit: Any  # (2,), what divides weights and thresholds; the number of rounds they are of


@alone
def rate_row(rule, geometry, memory, rating, rows):
    """Score a row and return its rank, or -1 if its scores are not finite."""
    w, cut, scores, unit = rating
    rounds = memory.integers[0]
    if unit[1] != rounds:
        unit[0] = write_predicting(geometry, lay_out(memory), w, cut)
        unit[1] = rounds
    measured, total = measure(rule, rows, 0, w, scores)
    return decode(rule, measured, cut) if isfinite(total) else -1


def entry_point(function: Any, *arguments: Any) -> Any:
    """Return a function compiled for arguments of these types; it does not look at them again."""
    if not hasattr(function, "compile"):  # numba is switched off
        return function
    return function.compile(tuple(typeof(argument) for argument in arguments))
