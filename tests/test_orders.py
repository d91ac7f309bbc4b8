"""Orders of rows: what shuffled passes draw."""

from itertools import permutations

import numpy as np
import pytest
from scipy.stats import chisquare

from pril import PRIL
from pril.online import linear_engine
from pril.online.linear_engine import Batch


def draw(n, rng, without=()):
    """Return an order of n rows, some of them without a label."""
    intervals = np.zeros((n, 2), dtype=np.int64)
    intervals[list(without)] = (0, -1)
    return Batch(None, intervals).shuffled(rng)


@pytest.mark.parametrize("n", [0, 1, 2, 5, 1000])
def test_an_order_has_every_row_once(n):
    order = draw(n, np.random.RandomState(3))
    assert order.dtype == np.int32
    np.testing.assert_array_equal(np.sort(order), np.arange(n))


def test_a_seed_gives_the_same_order_everywhere():
    assert draw(10, np.random.RandomState(0)).tolist() == [0, 2, 3, 6, 4, 5, 8, 7, 1, 9]
    assert draw(10, np.random.default_rng(0)).tolist() == [5, 9, 1, 4, 8, 7, 3, 6, 2, 0]


def test_rows_without_a_label_are_in_no_order():
    order = draw(50, np.random.RandomState(0), without=[0, 7, 8, 49])
    assert sorted(order) == sorted(set(range(50)) - {0, 7, 8, 49})
    assert len(draw(3, np.random.RandomState(0), without=range(3))) == 0


@pytest.mark.parametrize("make", [np.random.RandomState, np.random.default_rng])
def test_all_orders_of_four_rows_are_as_likely(make):
    rng = make(0)
    counts = dict.fromkeys(permutations(range(4)), 0)
    for _ in range(24 * 400):
        counts[tuple(draw(4, rng).tolist())] += 1
    assert chisquare(list(counts.values())).pvalue > 0.01


def test_every_row_is_as_likely_in_every_place():
    n, rng = 50, np.random.RandomState(1)
    places = np.zeros((n, n))
    for _ in range(2000):
        places[np.arange(n), draw(n, rng)] += 1
    # Each row and column adds up to 2000: (n - 1)^2 counts are free.
    assert chisquare(places.ravel(), ddof=2 * n - 2).pvalue > 0.01


def test_more_rows_than_32_bits_can_count_have_longer_positions(monkeypatch):
    monkeypatch.setattr(linear_engine, "MAX_SHORT_ROWS", 9)
    assert draw(9, np.random.RandomState(0)).dtype == np.int32
    order = draw(10, np.random.RandomState(0), without=[4])
    assert order.dtype == np.int64
    assert sorted(order) == [0, 1, 2, 3, 5, 6, 7, 8, 9]


def test_an_int_and_its_random_state_choose_the_same_orders():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    y = np.digitize(X @ [1.0, 2.0, -1.0] + rng.normal(size=60), [-1.0, 1.0])
    one, other = (PRIL(random_state=s).fit(X, y) for s in (5, np.random.RandomState(5)))
    np.testing.assert_array_equal(one.coef_, other.coef_)
    assert not np.array_equal(one.coef_, PRIL(random_state=6).fit(X, y).coef_)
