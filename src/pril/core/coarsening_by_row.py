"""Coarsening learned row by row: the step of `coarsening` for the loop, compiled by numba.

Two mechanisms are compared: at random, and one set of offsets whose shares are pulled towards
symmetry. Offsets make narrow ranges only, of up to three classes; wider ranges are always taken to
be at random. The two are compared by the likelihood of each row before it is learned. Offsets have
the benefit of the doubt: a model that learned at random may settle where the end classes have
vanished, and there the two explain labels equally well.

So they may win where they are wrong: on the brackets of a questionnaire, or of several. Hence two
guards, which look at the kinds of ranges alone. Brackets of one questionnaire do not overlap; then
nothing is compared. Brackets of several may overlap, but do not move with the class: see `missing`.

All sums are weights of rows; priors are in rows of mean weight, the *unit*.
"""

from math import log
from typing import Any, NamedTuple

import numpy as np

from pril.core import coarsening
from pril.core.coarsening import COLLAPSES_AT_END, FITS_BY_PLACE, LEAST_REST, MOST_STEPS, OFFSETS
from pril.core.code_cache import own_function, part_of_loop
from pril.core.nouns import ALWAYS, AUTO, BENEFIT, LEAST, MOST_MISSING_BY_ROW, PULL, RANDOM

N_OFFSETS = len(OFFSETS)
MATE = tuple(coarsening.MATES)
SEEN_BEFORE = 0.25  # rows of each kind of range in the prior of "at random"
SPREAD = 1e-3  # rows of each class in the prior of `at_random`
# The first rows each look for missing kinds, later ones now and then: these rows for each class.
OFTEN, SELDOM = 64, 8


class Evidence(NamedTuple):
    """What the likelihood rule learns beside the model: the parts that `nouns.OWN_PARTS` lists."""

    numbers: Any
    places: Any  # where each part begins


SIZE, SLOPES, SEEN, EXACT, TOTAL, LABELS, OFFSET_ROWS, AT_RANDOM, ADVANTAGE, RANGES = range(10)


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


@part_of_loop
def find_shares(kind, evidence, shares):
    """Write the share of each offset: its rows, a prior of one row, and a pull towards symmetry.

    Return whether offsets are used, and the unit.
    """
    numbers, places = evidence
    labels, first = places[LABELS], places[OFFSET_ROWS]
    seen = numbers[places[SEEN]]
    unit = numbers[labels] / seen if seen > 0.0 else 1.0
    unit = unit if unit > 0.0 else 1.0  # files may hold any numbers
    whole = 0.0
    for o in range(N_OFFSETS):
        whole += numbers[np.uintp(first + o)]
    pull = PULL * unit if whole > 0.0 else 0.0
    scale = 1.0 / (whole + pull + unit)
    for o in range(N_OFFSETS):
        rows, mates = numbers[np.uintp(first + o)], numbers[np.uintp(first + MATE[o])]
        prior = 1.0 / N_OFFSETS * unit
        if whole > 0.0:
            prior += pull * (0.5 * ((rows + mates) / whole))
        shares[o] = (rows + prior) * scale
    narrow = numbers[labels + 1]
    likely = (narrow >= numbers[labels + 2]) & (numbers[places[ADVANTAGE]] > -BENEFIT * unit)
    likely &= overlap(numbers, labels) & (numbers[labels + 4] < MOST_MISSING_BY_ROW * narrow)
    return (kind == ALWAYS) | ((kind == AUTO) & likely), unit


@part_of_loop
def place_of(lo, hi, K):
    """Return where a narrow range is in `FITS_BY_PLACE`."""
    return np.uintp(4 * (hi - lo - 1) + 2 * int(lo == 0) + int(hi == K - 1))


@part_of_loop
def overlap(numbers, labels):
    """Tell whether narrow ranges overlap: those of a partition do not, and are no offsets."""
    narrow = numbers[labels + 1]
    return (narrow > 0.0) & (numbers[labels + 3] >= coarsening.LEAST_OVERLAP * narrow)


@part_of_loop
def rest(shares, y, K):
    """Return the share of the offsets that leave a range at class y; the others are drawn again."""
    if 0 < y < K - 1:
        return 1.0
    kept = 0.0
    for o in range(N_OFFSETS):
        if not COLLAPSES_AT_END[int(y > 0), o]:
            kept += shares[o]
    return max(kept, LEAST_REST)


@part_of_loop
def given_by(shares, lo, hi, k, K):
    """Return the chance that class lo + k is given a narrow range by an offset."""
    place = place_of(lo, hi, K)
    chance = 0.0
    for o in range(N_OFFSETS):
        if FITS_BY_PLACE[place, k, o]:
            chance += shares[o]
    return chance / rest(shares, lo + k, K)  # exactly 1 if there are two classes


@own_function
def missing(numbers, places, shares, K):
    """Return the weight that offsets would give to kinds of ranges that hardly occur.

    Offsets move with the class: what they make of one class they make of the others. The brackets
    of several questionnaires do not. If they were handed out at random, `at_random` has the classes
    of the rows, of which offsets would make ranges that are in no questionnaire.
    """
    ranges, at_random = places[RANGES], places[AT_RANDOM]
    weight = 0.0
    for lo in range(K - 1):
        for hi in range(lo + 1, min(lo + 1 + MOST_STEPS, K)):
            first = ranges + range_offset(K, lo, hi)
            seen = 0.0
            expected = 0.0
            for k in range(hi - lo + 1):
                seen += numbers[np.uintp(first + k)]
                rows = numbers[np.uintp(at_random + lo + k)]
                expected += rows * given_by(shares, lo, hi, k, K)
            if seen < coarsening.LEAST_SEEN * expected:
                weight += expected - seen
    return weight


@own_function
def weigh_classes(rule, evidence, lo, hi, K, q, shares, given):
    """Write to q the chance that a row of each class in lo..hi has this label, the largest being 1.

    A mean of two estimates: how often rows of the class were given this range, weighted by the
    number of its exact rows, and what the coarsening mechanism says, weighted by `trust`. If the
    range is narrow, the shares of offsets are written, and the chance that each class is given it.
    """
    numbers, places = evidence
    exact, total, labels = places[EXACT] + lo, places[TOTAL] + lo, places[LABELS]
    ranges = places[RANGES] + range_offset(K, lo, hi)
    known = 0.0
    rows = 0.0
    for k in range(hi - lo + 1):
        known += numbers[np.uintp(ranges + k)]
        rows += numbers[np.uintp(total + k)]
    share = known / rows if known > 0.0 else 1.0
    by_offsets = False
    if (hi - lo <= MOST_STEPS) & (rule.coarsening != RANDOM):
        by_offsets, unit = find_shares(rule.coarsening, evidence, shares)
        for k in range(hi - lo + 1):
            given[k] = given_by(shares, lo, hi, k, K)
        if by_offsets:  # the share of narrow ranges
            share = (numbers[labels + 1] + 0.5 * unit) / (numbers[labels] + 0.5 * unit)
    most = 0.0
    for k in range(hi - lo + 1):
        chance = share * given[k] if by_offsets else share
        sure = numbers[np.uintp(exact + k)]
        if (known > 0.0) & (sure > 0.0):
            own = numbers[np.uintp(ranges + k)] / numbers[np.uintp(total + k)]
            chance = (sure * own + rule.trust * chance) / (sure + rule.trust)
        q[k] = chance
        most = max(most, chance)
    most = 1.0 / most
    for k in range(hi - lo + 1):
        q[k] *= most


@own_function
def learn_label(rule, evidence, lo, hi, K, t, weight, chances, q, shares, given):
    """Write `weigh_classes` to q, then count the label of round t and learn the mechanism from it.

    `chances` are those of the classes lo..hi. The last two arrays are working space.
    """
    numbers, places = evidence
    total, labels = places[TOTAL] + lo, places[LABELS]
    look = (rule.coarsening != RANDOM) & (numbers[labels + 1] > 0.0)
    if look and (t < OFTEN * K or t % (SELDOM * K) == 0):
        find_shares(rule.coarsening, evidence, shares)
        numbers[labels + 4] = missing(numbers, places, shares, K)
    numbers[places[SEEN]] += 1.0
    numbers[labels] += weight
    if lo == hi:
        q[0] = 1.0
        numbers[places[EXACT] + lo] += 1.0
        numbers[total] += weight
        return
    weigh_classes(rule, evidence, lo, hi, K, q, shares, given)
    ranges = places[RANGES] + range_offset(K, lo, hi)
    wide = hi - lo > MOST_STEPS
    numbers[labels + 1 + wide] += weight
    if (not wide) & (rule.coarsening != RANDOM):
        learn_mechanism(numbers, places, ranges, lo, hi, K, weight, chances, shares, given)
    # The row is divided among its classes. One between two equal thresholds has no part in it; if
    # all are, `q` divides it.
    whole = 0.0
    for k in range(hi - lo + 1):
        given[k] = q[k] * chances[k] if chances[k] > LEAST else 0.0
        whole += given[k]
    if whole == 0.0:
        for k in range(hi - lo + 1):
            given[k] = q[k]
            whole += q[k]
    weight /= whole
    for k in range(hi - lo + 1):
        numbers[np.uintp(ranges + k)] += weight * given[k]
        numbers[np.uintp(total + k)] += weight * given[k]


@part_of_loop
def learn_mechanism(numbers, places, ranges, lo, hi, K, weight, chances, shares, given):
    """Learn the mechanism from a narrow range, by what `weigh_classes` wrote."""
    labels, first, at_random = places[LABELS], places[OFFSET_ROWS], places[AT_RANDOM] + lo
    unit = numbers[labels] / numbers[places[SEEN]]
    by_offsets = 0.0
    inside = 0.0
    known = 0.0
    classes = 0.0
    for k in range(hi - lo + 1):
        by_offsets += chances[k] * given[k]
        inside += chances[k]
        known += numbers[np.uintp(ranges + k)]
        classes += numbers[np.uintp(at_random + k)]
    if classes > 0.0:  # at random, the other rows of these classes have other ranges
        numbers[labels + 3] += weight * max(0.0, 1.0 - known / classes)
    # The prior: rows spread evenly over the classes, and over the 2 K - 3 narrow ranges.
    size = (2 * K - 3) * (hi - lo + 1) / K
    share = min(1.0, (known + SEEN_BEFORE * unit) / (classes + SEEN_BEFORE * unit * size))
    if overlap(numbers, labels):
        numbers[places[ADVANTAGE]] += weight * log(by_offsets / (share * inside))
    part = weight / (classes + SPREAD * unit * (hi - lo + 1))
    for k in range(hi - lo + 1):  # B. W. Turnbull's estimate, row by row
        i = np.uintp(at_random + k)
        numbers[i] += part * (numbers[i] + SPREAD * unit)
    place = place_of(lo, hi, K)
    for k in range(hi - lo + 1):
        # Rows of this class, over the shares of the offsets that fit.
        y = lo + k
        rows = weight * chances[k] / (by_offsets * rest(shares, y, K))
        for o in range(N_OFFSETS):
            if FITS_BY_PLACE[place, k, o]:
                numbers[np.uintp(first + o)] += rows * shares[o]
            elif (y == 0 or y == K - 1) and COLLAPSES_AT_END[int(y > 0), o]:
                numbers[np.uintp(first + o)] += rows * given[k] * shares[o]
