"""The types of the learning loop, plain values: rows, rules, geometries, and what is learned.

Each is a named tuple. `loop` learns with them, compiled by numba, which picks functions by their
types; `rating` predicts with them, in NumPy. Nothing here needs numba, and importing it is slow.
"""

from collections.abc import Callable
from math import copysign, exp, expm1
from typing import Any, NamedTuple

from pril.core.arrays import Array

# --- Rows: where row t lives ---------------------------------------------------------------------
# `constant` is the value of one more feature, the same for every row, whose weight is the last.


class Dense(NamedTuple):
    """Rows of a C-ordered matrix."""

    X: Array
    constant: float


class Cells(NamedTuple):
    """The row of a stream: rated as `rating` does, to the last bit, and not learned."""

    X: Array
    constant: float


class Csr(NamedTuple):
    """Rows of a compressed sparse matrix."""

    data: Array
    indices: Array
    indptr: Array
    constant: float


class Gram(NamedTuple):
    """A block of rows given by their kernel values with the support rows and with each other.

    The weights are one coefficient a row (Algorithm 2 of the paper). `scores` holds every row's
    current score and `add` updates those of the rows that follow, so that `dot` is a look-up.
    """

    scores: Array  # (n,)
    sums: Array  # (n,), scores under the sums of the mean; empty unless they are recorded
    values: Array  # (coefficients, n), kernel of the rows behind the coefficients and of these rows
    slot: Array  # (n,), which coefficient is each row's own
    since: Array  # (coefficients,), how many support rows came before this row's; -1: it is none
    size: Array  # (2,), how many support rows there are, and how many a budget dropped
    budget: int


Rows = Dense | Csr

# --- What is learned -----------------------------------------------------------------------------

LARGEST_NUMBER = 1e300  # the largest number of a state: means and their sums stay finite


class State(NamedTuple):
    """What every learner has learned: views of the arrays of its memory.

    Iterate t has the weight omega_t in the mean, and W is the sum of these weights. The mean of all
    iterates is ``u - mean_u / W``: `mean_u` adds up each move times the W before it, so that only
    what moves is touched. Without an average, `mean_u` has no rows.
    """

    u: Array  # (scores, features + 1), sums of alpha x
    mean_u: Array  # (scores, features + 1), or no rows
    n: Array  # (K - 1,), sums of tau
    mean_n: Array  # (K - 1,), or none
    shift: Array  # (2,), common shift of the exponents, and how far they may have moved since
    clock: Array  # (2,), weight of all iterates in the mean, and what half-lives multiply it by now
    fading: Array  # the numbers of the rule's own parts that fade with a half-life
    growing: Array  # those that are weighted as the iterates are; others neither fade nor grow
    counts: Array  # (3,), rounds, rounds with a violated constraint, violated constraints
    lattice: Array  # (1,), whether n holds integers, which keeps the thresholds in order


class Arrays(NamedTuple):
    """What a linear learner has learned, as compiled code takes it. `memory.py` lays it out.

    The integers are three counts, `lattice`, the number of scores, where the numbers that fade end,
    and those that grow; then where each part begins, the first ones of `State` and then the rule's
    own, and where the last one ends.
    """

    weights: Array  # (scores or twice as many, features + 1), `u` and below it `mean_u`
    numbers: Array  # all parts, the weights among them, one after the other
    integers: Array


LATTICE, N_SCORES, FADING, GROWING, PLACES = 3, 4, 5, 6, 7
N_COMMON = 6  # parts that every memory has


def lay_out(memory: Arrays) -> State:
    """Return the state of a memory, compiled or not."""
    weights, numbers, integers = memory
    n_scores, fading, growing = integers[N_SCORES], integers[FADING], integers[GROWING]
    n, mean_n, shift = integers[PLACES + 2], integers[PLACES + 3], integers[PLACES + 4]
    clock, rest = integers[PLACES + 5], integers[PLACES + N_COMMON]
    return State(
        u=weights[:n_scores],
        mean_u=weights[n_scores:],
        n=numbers[n:mean_n],
        mean_n=numbers[mean_n:shift],
        shift=numbers[shift:clock],
        clock=numbers[clock:rest],
        fading=numbers[rest:fading],
        growing=numbers[fading:growing],
        counts=integers[:LATTICE],
        lattice=integers[LATTICE : LATTICE + 1],
    )


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


Geometry = Additive | FixedThresholds | Curved

# A new common shift is chosen when exponents may have moved this far from it: exp(300) is 1e130,
# which leaves room for sums and products in float64.
MAX_DRIFT = 300.0


def curved(geometry: Curved, u: float, shift: float) -> float:
    """Return the weight of a sum. Compiled or not, it has the same bits."""
    a = geometry.rate * u
    # One long step may leave the range before the loop chooses a new shift.
    if not geometry.signed:
        return exp(min(a - shift, 2.0 * MAX_DRIFT))
    # More accurate than exp(a) - exp(-a): nothing cancels, and the function is exactly odd.
    return copysign(exp(min(abs(a) - shift, 2.0 * MAX_DRIFT)) * -expm1(-2.0 * abs(a)), a)


def positive_part(geometry: Curved, u: float, shift: float) -> float:
    """Return a weight or, signed, both positive parts of the difference: |w| + 2 exp(-|a|)."""
    a = geometry.rate * u
    if not geometry.signed:
        return exp(min(a - shift, 2.0 * MAX_DRIFT))
    a = abs(a)
    return exp(min(a - shift, 2.0 * MAX_DRIFT)) + exp(min(-a - shift, 2.0 * MAX_DRIFT))


# --- Rules: scores and interval -> multipliers ---------------------------------------------------

AUTO, RANDOM, ALWAYS = 0, 1, 2  # when `Likelihood` uses offsets
# What `fit` chose, for rows to come: nothing, so that their evidence decides; a mechanism; a table.
OPEN, AT_RANDOM, BY_OFFSETS, BY_TABLE = 0, 1, 2, 3
MIN_PROBABILITY = 1e-12  # probability of a class in a gradient, and share of an offset
# Narrow ranges are by offsets if so much of them overlaps, so little is missing (see
# `coarsening_by_row.missing`), and no more evidence is against it.
LEAST_OVERLAP, MAX_MISSING_SHARE, MAX_EVIDENCE_AGAINST = 0.1, 0.1, 5.0
# The prior of phi, the logits of the shares of offsets. Widths are normal: odds of 150 to 1 are
# within a standard deviation. Directions have pseudo-rows up, and as many down; where exact
# labels show them, soon no more than one of each, which is flat.
WIDTH_SPREAD, DIRECTION_ROWS = 5.0, 20.0


Rule = tuple[Any, ...]  # a named tuple of hyper-parameters, as those below


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


class PassiveAggressive(NamedTuple):
    """The least change after which every constraint holds by a margin of 1, or nearly so."""

    C: float  # the price of what is missing from the margin; inf: nothing may be missing
    squared: bool  # whether the square is paid for


class Likelihood(NamedTuple):
    """A gradient step on -log P(interval | score) in the ordered logit model."""

    rate: float  # of the weights
    cut_rate: float  # of the thresholds
    trust: float  # exact rows of a class after which what they show of ranges counts half
    noise: float  # relative chance of a label that does not hold the true class
    mode: bool  # whether the likeliest class is predicted, and not the median
    coarsening: int  # AUTO, RANDOM or ALWAYS


def per_class(n_classes: int) -> int:
    """Return how many numbers a part has that has one for each class."""
    return n_classes


def per_kind(n_classes: int) -> int:
    """Return how many numbers a part has that has one for each label of up to three classes."""
    return 2 * n_classes - 1 + max(0, n_classes - 2)


def per_cell(n_classes: int) -> int:
    """Return how many numbers a part has that has three for each of these labels."""
    return 3 * per_kind(n_classes)


def place_of(lo: Any, hi: Any, n_classes: int) -> Any:
    """Return where labels of up to three classes are: by their length, then by their end."""
    steps = hi - lo
    return steps * n_classes - (steps >> 1) + lo


def mechanism_of(asked: int, chosen: float, labels: Array, evidence: float) -> int:
    """Return what explains ranges, compiled or not: AT_RANDOM, BY_OFFSETS or BY_TABLE.

    `chosen` and `labels` are parts of `OWN_PARTS`; the evidence is in rows of mean weight.
    """
    if asked == RANDOM:
        return AT_RANDOM
    if chosen == BY_TABLE:
        return BY_TABLE
    if (asked == ALWAYS) | (chosen == BY_OFFSETS):
        return BY_OFFSETS
    narrow = labels[1]
    likely = (narrow >= labels[2]) & (labels[3] >= LEAST_OVERLAP * narrow)
    likely &= labels[4] < MAX_MISSING_SHARE * narrow
    likely &= evidence > -MAX_EVIDENCE_AGAINST
    return BY_OFFSETS if likely & (chosen == OPEN) else AT_RANDOM


class Part(NamedTuple):
    """A part of what a rule learns beside the model."""

    name: str
    size: int | Callable[[int], int]  # how many numbers, perhaps by the number of classes
    time: str  # "fades" with a half-life; "grows": weighted as the iterates are; or "stays"
    signed: bool = False  # whether it may be negative


# Parts that fade come first, then those that grow.
OWN_PARTS: dict[type, tuple[Part, ...]] = {
    Likelihood: (
        Part("size", 2, "fades"),  # sums of c |x|^2 and c, for rows of weight c
        Part("slopes", 2, "fades"),  # sums of (c a)^2 and mean (c tau)^2
        Part("turns", 4, "fades"),  # sums of (c g)^2, g the gradient by each of `phi`
        Part("seen", 1, "fades"),  # rows with a label
        # Weight of all labels, of narrow ranges, of wider ones; of overlaps, of missing ranges.
        Part("labels", 5, "grows"),
        Part("kinds", per_kind, "grows"),  # weight of each class, pair and triple of classes
        Part("at_random", per_class, "grows"),  # of classes, if narrow ranges were given at random
        # The log-likelihood of offsets, less that of "at random".
        Part("advantage", 1, "grows", signed=True),
        Part("phi", 4, "stays", signed=True),  # logits of the shares of offsets
        Part("chosen", 1, "stays"),  # OPEN, AT_RANDOM, BY_OFFSETS or BY_TABLE
        Part("table", per_cell, "stays"),  # P(label | class) for the classes of each of `kinds`
    ),
}


# --- What a pass may have ------------------------------------------------------------------------


class Record(NamedTuple):
    """What the model that predicts (the mean, where there is one) said before each round."""

    rank: Array  # (n,); empty if nothing is to be recorded
    scores: Array  # (n, scores)
    hinge: Array  # (n,)
    cuts: Array  # (n, K + 1), the thresholds that each score was cut by; no rows if not wanted


class Extras(NamedTuple):
    """What a plain pass does not have; a pass that has any of it is compiled for all of it."""

    importance: Array  # (n,), weights of the rows; empty: all are 1
    growth: float  # how much more each round weighs than the one before it; 1: no more
    record: Record
