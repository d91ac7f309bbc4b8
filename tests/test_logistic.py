"""The ordered logit: each way to write its probabilities against exact arithmetic."""

from decimal import Decimal, localcontext
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from pril.core import rating
from pril.core.coarsening import Kinds
from pril.learners.boosting import compiled, held_out
from pril.likelihood.mechanisms import Random
from pril.links import LINKS
from pril.online import loop

numbers = st.integers(-250 * 2**30, 250 * 2**30).map(lambda k: k / 2**30) | st.integers(-250, 250)
thresholds = st.lists(numbers, min_size=0, max_size=5).map(
    lambda values: np.sort(np.array(values, dtype=float))
)


def exactly(score, cut):
    """Return P(y), computed with 300 digits, and the smaller of the two tails that begin at the class."""
    with localcontext() as context:
        context.prec = 300
        one = Decimal(1)
        inner = [one / (one + (Decimal(score) - Decimal(c)).exp()) for c in cut[1:-1].tolist()]
        below = [Decimal(0), *inner, one]
        chances = [float(b - a) for a, b in pairwise(below)]
        small = [float(min(b, one - a)) for a, b in pairwise(below)]
    return np.array(chances), np.array(small)


@njit
def by_thresholds(score, cut, chances):
    above, below = loop.sides(score, cut[0])
    for y in range(len(chances)):
        next_above, next_below = loop.sides(score, cut[y + 1])
        chances[y] = loop.between(above, below, next_above, next_below)
        above, below = next_above, next_below


def by_odds(score, cut):
    """Return the likelihoods of exact labels."""
    ranks, weight = np.arange(len(cut) - 1), np.ones(1, dtype=np.float32)
    kinds = Kinds(np.column_stack([ranks, ranks]), len(ranks))
    labels = held_out.labels_of(Random(kinds).cells, cut[1:-1], np.empty(0))
    e = rating.exp_of(np.array([score]))
    rows = (np.array([rank], dtype=np.int32) for rank in ranks)
    return np.exp(
        [held_out.kind_sums(np.empty((1, 0)), e, row, weight, labels).value for row in rows]
    )


def in_every_way(score, cut):
    """Return the probabilities one threshold at a time, by logarithms, and by odds."""
    one = np.empty(len(cut) - 1)
    by_thresholds(score, cut, one)
    logs = LINKS["logit"].log_between(cut[:-1] - score, cut[1:] - score)
    return one, np.exp(logs), by_odds(score, cut)


@given(score=numbers.map(float), theta=thresholds)
def test_all_ways_agree_with_exact_arithmetic(score, theta):
    cut = np.concatenate([[-np.inf], theta, [np.inf]])
    expected, small = exactly(score, cut)
    by_threshold, by_logarithm, by_exponential = in_every_way(score, cut)
    # A difference is exact but for the rounding of the smaller of the two sides that it is between.
    assert (abs(by_threshold - expected) <= 1e-12 * small).all()
    # A product is exact, in the tails and between thresholds that are close.
    np.testing.assert_allclose(by_logarithm, expected, rtol=1e-12, atol=0)
    likely = np.maximum(expected, compiled.LEAST_LIKELIHOOD)  # logarithms are taken of them
    np.testing.assert_allclose(by_exponential, likely, rtol=1e-12, atol=0)
    np.testing.assert_allclose(
        LINKS["logit"].sides(cut[1:] - score).below, np.cumsum(expected), rtol=1e-12, atol=1e-300
    )
