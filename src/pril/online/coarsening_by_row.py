"""Coarsening learned row by row: the step of the loop for ranges, compiled by numba.

Two mechanisms are compared, as in `likelihood.mechanisms`: at random, and offsets. Offsets make
narrow ranges only, of up to three classes; wider ranges are always taken to be at random. With the
chance M[u, y] of the range u in class y, the model is P(u | x) = sum_y P(y | x) M[u, y]: each row
is one gradient step by phi, the logits of the shares of offsets, beside that by the thresholds.

The two are compared by the likelihood of each row before it is learned. Offsets have the benefit of
the doubt: a model that learned at random may settle where the end classes have vanished, and there
the two explain labels equally well. So they may win where they are wrong: on the brackets of a
questionnaire, which do not overlap, or of several, which do not move with the class: see `missing`.

All sums are weights of rows; priors are in rows of mean weight, the *unit*.
"""

from math import exp, log, sqrt
from typing import NamedTuple

from pril.core import loop_types as types
from pril.core.arrays import Array
from pril.core.coarsening import LEAST_SEEN, MOST_STEPS, OFFSETS
from pril.core.loop_types import (
    BY_OFFSETS,
    BY_TABLE,
    DIRECTION_ROWS,
    MIN_PROBABILITY,
    RANDOM,
    WIDTH_SPREAD,
)
from pril.online.code_cache import own_function, part_of_loop

DOWN, UP = zip(*OFFSETS, strict=True)
N_OFFSETS = len(OFFSETS)
PRIOR_ROWS_OF_KIND = 0.25  # rows of each kind of range in the prior of "at random"
PRIOR_ROWS_OF_CLASS = 1e-3  # rows of each class in the prior of `at_random`
# Missing kinds are looked for after so many rows for each class; at first, sooner: each time that
# this part of all rows is new.
ROWS_BETWEEN_LOOKS, PART_BETWEEN_LOOKS = 8, 8


class Evidence(NamedTuple):
    """What the likelihood rule learns beside the model: the parts in `OWN_PARTS`."""

    numbers: Array
    places: Array  # where each part begins


SIZE, SLOPES, TURNS, SEEN, LABELS, KINDS, CLASSES, ADVANTAGE, PHI, CHOSEN, TABLE = range(11)


@part_of_loop
def spare_rows(work):
    """Return the rule's working space: `above`, `q`, `tau`; for offsets, `shares` and others."""
    spare = work.spare
    return spare[0], spare[1], spare[2], spare[3], spare[4], spare[5], spare[6]


place_of = part_of_loop(types.place_of)
mechanism_of = part_of_loop(types.mechanism_of)


@part_of_loop
def find_shares(numbers, phi, shares):
    """Write the shares of the offsets: of pairs, up and down; of triples, up, both and down."""
    widths, turn = numbers[phi], 0.5 * numbers[phi + 2]
    shares[0] = widths + turn
    shares[1] = widths - turn
    shares[2] = 0.5 * numbers[phi + 3]
    shares[3] = numbers[phi + 1]
    shares[4] = -shares[2]
    most = shares[0]
    for o in range(1, N_OFFSETS):
        most = max(most, shares[o])
    whole = 0.0
    for o in range(N_OFFSETS):
        shares[o] = exp(shares[o] - most)
        whole += shares[o]
    for o in range(N_OFFSETS):
        shares[o] = max(shares[o] / whole, MIN_PROBABILITY)


@part_of_loop
def make(o, y, K):
    """Return the range that an offset makes of class y, which may be the class alone."""
    return max(y - DOWN[o], 0), min(y + UP[o], K - 1)


@part_of_loop
def find_given(shares, lo, hi, y, K):
    """Return the share of the offsets that make the range lo..hi of class y, and any range of it.

    The others are drawn again.
    """
    this = 0.0
    some = 0.0
    for o in range(N_OFFSETS):
        first, last = make(o, y, K)
        if first < last:
            some += shares[o]
            if (first == lo) & (last == hi):
                this += shares[o]
    return this, some


@own_function
def missing(numbers, places, shares, K):
    """Return the weight that offsets would give to kinds of ranges that hardly occur.

    Offsets move with the class: what they make of one class they make of the others. The brackets
    of questionnaires do not. If they were handed out at random, `at_random` has the classes of the
    rows, of which offsets would make ranges that are in no questionnaire.
    """
    weight = 0.0
    for lo in range(K - 1):
        for hi in range(lo + 1, min(lo + 1 + MOST_STEPS, K)):
            seen = numbers[places[KINDS] + place_of(lo, hi, K)]
            expected = 0.0
            for k in range(hi - lo + 1):
                this, some = find_given(shares, lo, hi, lo + k, K)
                expected += numbers[places[CLASSES] + lo + k] * (this / some)
            if seen < LEAST_SEEN * expected:
                weight += expected - seen
    return weight


@own_function
def learn_label(rule, evidence, lo, hi, K, now, chances, work):
    """Write to q the chance that each class in lo..hi has this label, the largest being 1.

    Then count the label, and learn the mechanism from it. `chances` are those of the classes.
    """
    numbers, places = evidence
    labels, steps = places[LABELS], hi - lo
    _, q, _, shares, _, _, _ = spare_rows(work)
    weight = now.weight * now.omega
    numbers[labels] += weight
    for k in range(steps + 1):
        q[k] = 1.0
    if steps > MOST_STEPS:
        numbers[labels + 2] += weight
        return
    if steps > 0:
        numbers[labels + 1] += weight
        if rule.coarsening != RANDOM:
            learn_range(rule, evidence, lo, hi, K, now, chances, work)
    numbers[places[KINDS] + place_of(lo, hi, K)] += weight
    period = min(ROWS_BETWEEN_LOOKS * K, 1 + now.number // PART_BETWEEN_LOOKS)
    if (rule.coarsening != RANDOM) & (now.number % period == 0):
        find_shares(numbers, places[PHI], shares)
        numbers[labels + 4] = missing(numbers, places, shares, K)


@own_function
def learn_range(rule, evidence, lo, hi, K, now, chances, work):
    """Write q of a narrow range, weigh the evidence, and take a step by phi."""
    numbers, places = evidence
    labels, classes, phi = places[LABELS], places[CLASSES] + lo, places[PHI]
    _, q, _, shares, given, some, slopes = spare_rows(work)
    weight, n = now.weight * now.omega, hi - lo + 1
    unit = numbers[labels] / numbers[places[SEEN]]
    unit = unit if unit > 0.0 else 1.0  # files may hold any numbers
    evidence_for = numbers[places[ADVANTAGE]] / unit
    chosen, sums = numbers[places[CHOSEN]], numbers[labels : places[KINDS]]
    mechanism = mechanism_of(rule.coarsening, chosen, sums, evidence_for)
    find_shares(numbers, phi, shares)
    kind = place_of(lo, hi, K)
    by_offsets = 0.0
    inside = 0.0
    mass = 0.0
    for k in range(n):
        this, some[k] = find_given(shares, lo, hi, lo + k, K)
        given[k] = this / some[k]
        if mechanism == BY_OFFSETS:
            q[k] = given[k]
        elif mechanism == BY_TABLE:
            q[k] = max(numbers[places[TABLE] + 3 * kind + k], MIN_PROBABILITY)
        by_offsets += chances[k] * given[k]
        inside += chances[k]
        mass += numbers[classes + k]
    most = 0.0
    for k in range(n):
        most = max(most, q[k])
    for k in range(n):
        q[k] /= most
    # At random, the share of the range in its classes; the other rows of these have others. The
    # prior: rows spread evenly over the classes, and over the 2 K - 3 narrow ranges.
    seen, prior = numbers[places[KINDS] + kind], PRIOR_ROWS_OF_KIND * unit
    share = (seen + prior) / (mass + prior * (2 * K - 3) * n / K)
    if mass > seen:
        numbers[labels + 3] += weight * (1.0 - seen / mass)
    numbers[places[ADVANTAGE]] += weight * log(by_offsets / (min(share, 1.0) * inside))
    part = weight / (mass + PRIOR_ROWS_OF_CLASS * unit * n)
    for k in range(n):  # B. W. Turnbull's estimate, row by row
        numbers[classes + k] += part * (numbers[classes + k] + PRIOR_ROWS_OF_CLASS * unit)
    # How often each offset made this range, less how often it would make any of the class.
    for o in range(N_OFFSETS):
        slopes[o] = 0.0
    for k in range(n):
        each = chances[k] / (some[k] * by_offsets)
        for o in range(N_OFFSETS):
            first, last = make(o, lo + k, K)
            if first < last:
                made = 1.0 if (first == lo) & (last == hi) else 0.0
                slopes[o] += each * shares[o] * (made - given[k])
    # Take a step by phi, of the size of the gradients so far. All narrow ranges share one prior.
    narrow = numbers[labels + 1]
    part = unit / narrow  # of this row in the prior
    exact = max(0.0, numbers[labels] - narrow - numbers[labels + 2]) / unit
    doubt = rule.trust / (rule.trust + exact) if rule.trust > 0.0 else 0.0
    directions = max(DIRECTION_ROWS * doubt**2, 1.0)
    up, down, two_up, both, two_down = slopes[0], slopes[1], slopes[2], slopes[3], slopes[4]
    slopes[0] = up + down - part * (numbers[phi] / WIDTH_SPREAD**2)
    slopes[1] = both - part * (numbers[phi + 1] / WIDTH_SPREAD**2)
    turn = (shares[0] - shares[1]) / (shares[0] + shares[1])
    slopes[2] = 0.5 * (up - down) - part * directions * turn
    turn = (shares[2] - shares[4]) / (shares[2] + shares[4])
    slopes[3] = 0.5 * (two_up - two_down) - part * directions * turn
    mean = numbers[places[SIZE] + 1] / numbers[places[SEEN]]  # weight of a row
    for j in range(4):
        slope = now.weight * slopes[j]
        turns = places[TURNS] + j
        numbers[turns] += slope * slope
        numbers[phi + j] += slope / sqrt(mean * mean + numbers[turns])
