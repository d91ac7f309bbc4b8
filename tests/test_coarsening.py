"""How classes become ranges: kinds, shares of offsets, targets, and the choice among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pril import OrderedBoosting, OrderedLogit
from pril.core.coarsening import Coarsening, Kinds

# --- Kinds ---


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_each_row_has_its_kind(pairs):
    intervals = np.sort(np.array(pairs), axis=1)
    kinds, group = Kinds.of(intervals, 6)
    np.testing.assert_array_equal(kinds.ends[group], intervals)
    assert len(kinds.ends) == len(set(map(tuple, intervals.tolist())))
    steps = kinds.ends[:, 1] - kinds.ends[:, 0]
    np.testing.assert_array_equal(kinds.inside.sum(axis=1), steps + 1)
    assert (kinds.exact == (steps == 0)).all()


# --- The choice ---


def simulated(way, seed, n=600, K=5):
    """Return features of a linear score, and labels: ranges made in one of four ways, few exact.

    Without exact labels, ranges that always go up are the same as ranges that always go down, of
    other classes.
    """
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = np.digitize(X @ [2.0, -1.0, 0.0] + 0.4 * rng.logistic(size=n), [-2.0, -0.7, 0.7, 2.0])
    if way == "at random":  # in two or three parts, whatever the class is
        parts = np.array([[0, 0, 2, 2, 2], [0, 0, 0, 3, 3]])[rng.integers(0, 2, n)]
        low = parts[np.arange(n), y]
        high = K - 1 - (parts[:, ::-1] != low[:, None]).argmin(axis=1)
    else:
        up = rng.random(n) < {"symmetric": 0.5, "skewed": 0.8, "upwards": 1.0}[way]
        low = np.clip(np.where(up, y, y - 1), 0, K - 2)
        high = low + 1
    is_exact = rng.random(n) < 0.1
    return X, np.column_stack([np.where(is_exact, y, low), np.where(is_exact, y, high)])


@pytest.mark.parametrize("way", ["at random", "symmetric", "skewed", "upwards"])
def test_most_choices_find_what_made_the_ranges(way):
    found = []
    for seed in range(5):
        X, ranges = simulated(way, seed)
        model = OrderedBoosting(classes=range(5), max_iter=1, n_folds=4, random_state=0)
        found.append(model.fit(X, ranges).coarsening_)
    chosen = [one.mechanism for one in found]
    expected = "random" if way == "at random" else "offsets"
    assert chosen.count(expected) >= 4, found
    if way in ("skewed", "upwards"):
        assert all(
            one.shares[0, 1] > one.shares[1, 0] for one in found if one.mechanism == expected
        )


# --- What people read ---


@pytest.mark.parametrize(
    ("shares", "sentence"),
    [
        ([0.66, 0.33, 0, 0.01, 0], "raters go up more often than down (1 up 66 %, 1 down 33 %)"),
        ([0.2, 0.7, 0, 0.1, 0], "raters go down more often than up"),
        ([0.5, 0.49, 0, 0.01, 0], "raters go up as often as down"),
        ([0.97, 0.01, 0.01, 0.01, 0], "raters go up, hardly ever down"),
        ([0.01, 0.01, 0, 0.98, 0], "raters add the classes on both sides"),
        ([0, 0, 0.15, 0.75, 0.1], "raters add the classes on both sides (1 down and 1 up 75 %,"),
    ],
)
def test_a_sentence(shares, sentence):
    value = Coarsening.of("offsets", np.array(shares), 3.0)
    assert sentence in str(value)
    assert sentence in repr(value)
    assert value.shares[0, 1] == shares[0]


def test_at_random_has_no_shares():
    value = Coarsening.of("random", np.full(5, 0.2), None)
    assert value == Coarsening("random")
    assert str(value).startswith("at random")


@pytest.mark.filterwarnings("ignore:no label is exact")
@pytest.mark.parametrize("learner", [OrderedLogit(), OrderedBoosting(max_iter=1, n_folds=2)])
def test_rows_of_a_class_are_all_given_its_bracket(learner):
    y = np.arange(100) % 5
    X = (y - 2.0 + np.random.default_rng(0).normal(size=100))[:, np.newaxis]
    ends = np.array([(0, 1), (0, 1), (2, 4), (2, 4), (2, 4)])[y]
    table = learner.set_params(classes=range(5), random_state=0).fit(X, ends).coarsening_.table
    assert list(table) == [(0, 1), (2, 4)]
    np.testing.assert_allclose(np.concatenate(list(table.values())), 1.0)
