"""How classes become ranges: kinds, shares of offsets, targets, and the choice among them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
from pril import OrderedBoosting, OrderedLogit
from pril.core.coarsening import OFFSETS, Coarsening, Kinds, Mechanism, candidates, choose

# --- Kinds ---


@st.composite
def tables(draw, most_steps=64):
    """Return kinds and counts: the weight of the rows with each range and class."""
    K = draw(st.integers(1, 7))
    ends = [(a, b) for a in range(K) for b in range(a, min(K, a + most_steps + 1))]
    chosen = draw(st.lists(st.sampled_from(ends), min_size=1, max_size=12, unique=True))
    kinds, _ = Kinds.of(np.array(chosen), K)
    seed = draw(st.integers(0, 2**32 - 1))
    counts = np.random.default_rng(seed).gamma(0.5, 10.0, kinds.inside.shape) * kinds.inside
    return kinds, counts + 1e-3 * kinds.inside


def every_kind(K, most_steps):
    """Return all labels of so many steps from end to end at most."""
    ends = [(a, b) for a in range(K) for b in range(a, min(K, a + most_steps + 1))]
    return Kinds.of(np.array(ends), K)[0]


def simplex(draws):
    return np.array(draws) / np.sum(draws)


shares = st.lists(st.floats(0.02, 1.0), min_size=5, max_size=5).map(simplex)
names = st.sampled_from(["random", "symmetric", "offsets"])


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1, max_size=30))
def test_each_row_has_its_kind(pairs):
    intervals = np.sort(np.array(pairs), axis=1)
    kinds, group = Kinds.of(intervals, 6)
    np.testing.assert_array_equal(kinds.ends[group], intervals)
    assert len(kinds.ends) == len(set(map(tuple, intervals.tolist())))
    steps = kinds.ends[:, 1] - kinds.ends[:, 0]
    np.testing.assert_array_equal(kinds.inside.sum(axis=1), steps + 1)
    assert (kinds.exact == (steps == 0)).all()
    assert (kinds.wide == (steps > 2)).all()


@given(st.lists(st.integers(1, 3), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
def test_offsets_cannot_have_made_a_partition(widths, seed):
    borders = np.cumsum([0, *widths])
    kinds, _ = Kinds.of(np.column_stack([borders[:-1], borders[1:] - 1]), borders[-1])
    weights = np.random.default_rng(seed).uniform(1, 100, len(widths))
    assert kinds.overlap(weights) == pytest.approx(0)
    assert not kinds.allow_offsets(weights)
    assert candidates("auto", kinds, weights) == ("random",)


@pytest.mark.parametrize(
    ("K", "versions"),
    [(4, ["01|23", "0|123"]), (5, ["01|234", "0|12|34"]), (4, ["012|3", "0|1|23"])],
)
def test_offsets_cannot_have_made_two_partitions(K, versions):
    """They overlap, but do not move with the class."""
    brackets = [[int(b[0]), int(b[-1])] for version in versions for b in version.split("|")]
    for seed in range(20):
        mass = np.random.default_rng(seed).uniform(1, 4, K)
        rows = [round(100 * mass[low : high + 1].sum()) for low, high in brackets]
        kinds, group = Kinds.of(np.array(brackets), K)
        weights = np.bincount(group, rows)
        assert kinds.overlap(np.where(kinds.exact, 0.0, weights)) > 0.1
        assert candidates("auto", kinds, weights) == ("random",)


def test_most_ranges_must_be_narrow_and_overlap():
    kinds, _ = Kinds.of(np.array([[0, 1], [1, 2], [0, 3], [2, 2]]), 4)
    by_ends = dict(zip(map(tuple, kinds.ends.tolist()), 100 * np.eye(4), strict=True))
    low, high, wide, exact = (by_ends[u] for u in ((0, 1), (1, 2), (0, 3), (2, 2)))
    assert kinds.overlap(low + high) == 0.5
    assert kinds.allow_offsets(low + high)
    assert kinds.allow_offsets(low + high + 2 * wide)
    assert not kinds.allow_offsets(low + high + 2.1 * wide)
    assert not kinds.allow_offsets(100 * low + high)  # nearly a partition
    assert not kinds.allow_offsets(exact)
    assert candidates("offsets", kinds, 100 * low + high)[-1] == "offsets"
    assert candidates("random", kinds, low + high) == ("random",)


# --- Shares and targets ---


@given(tables(), names, st.sampled_from([0.5, 30.0]))
def test_it_is_its_slow_twin(table, name, trust):
    kinds, counts = table
    K, ends = kinds.n_classes, kinds.ends.tolist()
    mechanism = Mechanism.start(name, kinds, trust, counts).learn(counts, 2)
    slow = dict.fromkeys(OFFSETS, 1 / 5)
    for _ in range(7 if name != "random" else 0):
        slow = reference.drawn_shares(slow, counts, ends, K, name == "symmetric")
    np.testing.assert_allclose(mechanism.shares, list(slow.values()), rtol=1e-9)
    if name == "random":
        target = kinds.inside * (counts.sum(axis=1) / (kinds.inside @ counts.sum(axis=0)))[:, None]
        target[kinds.exact] = 0
    else:
        target = reference.offsets_target(slow, counts, ends, K, trust)
    np.testing.assert_allclose(mechanism.target(counts), target, rtol=1e-9, atol=1e-12)


@given(st.integers(2, 8), shares, names, st.integers(0, 2**32 - 1), st.sampled_from([2, 9]))
def test_chances_of_a_class_add_up(K, shares, name, seed, most_steps):
    """To 1, where all kinds occur; the offsets leave to exact and wide labels what they have."""
    kinds = every_kind(K, most_steps)
    counts = np.random.default_rng(seed).gamma(0.5, 10.0, kinds.inside.shape) * kinds.inside
    mechanism = Mechanism(name, kinds, 30.0, shares)
    chances = mechanism.label_chances(counts)
    assert (chances >= 0).all()
    assert (chances[kinds.inside == 0] == 0).all()
    if name == "random":  # Turnbull's are scaled so that no class has more
        assert chances.sum(axis=0).max() <= 1 + 1e-9
        return
    N = counts.sum(axis=0)
    exact, wide = (
        (counts[some].sum(axis=0) + 30 * counts[some].sum() / N.sum()) / (N + 30)
        for some in (kinds.exact, kinds.wide)
    )
    narrow = np.maximum(1 - exact - wide, 1e-6)
    np.testing.assert_allclose(chances[kinds.narrow].sum(axis=0), narrow, rtol=1e-9)
    np.testing.assert_allclose(chances[kinds.exact].sum(axis=0), exact, rtol=1e-9)


@pytest.mark.slow
@given(st.integers(3, 8), shares, st.integers(0, 2**32 - 1))
def test_known_offsets_are_recovered(K, shares, seed):
    """From the counts that they make, with as many rows as one likes."""
    kinds = every_kind(K, 2)
    rows = np.random.default_rng(seed).uniform(0.5, 2.0, K)
    rows[K // 2] += 1.0
    made = Mechanism("offsets", kinds, 0.0, shares).target(np.ones_like(kinds.inside) * 1e-9)
    counts = 1e7 * made / made.sum(axis=0) * rows
    learned = Mechanism.start("offsets", kinds, 30.0, counts).learn(counts, 3000)
    remade = learned.target(counts)
    np.testing.assert_allclose(remade / remade.sum(axis=0), made / made.sum(axis=0), atol=2e-3)


@given(tables())
def test_symmetric_data_give_symmetric_shares(table):
    kinds, counts = table
    K = kinds.n_classes
    both = np.vstack([kinds.ends, K - 1 - kinds.ends[:, ::-1]])
    all_kinds, group = Kinds.of(both, K)
    total = np.zeros_like(all_kinds.inside)
    np.add.at(total, group, np.vstack([counts, counts[:, ::-1]]))
    free, symmetric = (
        Mechanism.start(name, all_kinds, 30.0, total).learn(total, 5).shares
        for name in ("offsets", "symmetric")
    )
    np.testing.assert_allclose(free, symmetric, rtol=1e-9)
    np.testing.assert_allclose(free[[0, 2]], free[[1, 4]], rtol=1e-9)


@given(tables(), names, st.floats(0, 1))
def test_what_rows_show_counts_as_far_as_it_is_trusted(table, name, doubt):
    kinds, counts = table
    mechanism = Mechanism.start(name, kinds, 30.0, counts)
    chance = mechanism.chance(counts, np.full(kinds.n_classes, doubt))
    shown = counts / np.maximum(counts.sum(axis=0), 1e-12)
    expected = (1 - doubt) * shown + doubt * mechanism.target(counts)
    ranges = ~kinds.exact
    np.testing.assert_allclose(chance[ranges], expected[ranges], rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(chance[kinds.exact], kinds.inside[kinds.exact])


@given(tables())
def test_turnbull_explains_every_class(table):
    """At the most likely chances at random, classes that have rows are given labels: always."""
    kinds, counts = table
    chances = Mechanism("random", kinds, 30.0, np.full(5, 0.2)).label_chances(counts)
    given_label, weights = chances.sum(axis=0), counts.sum(axis=1)
    assert given_label.max() <= 1 + 1e-9
    # The weight of the classes of a range is its rows over its chance: all rows are in some class.
    alone = kinds.inside.sum(axis=0) == 1
    for u in range(len(weights)):
        if alone[kinds.inside[u] > 0].all():  # it overlaps no other
            np.testing.assert_allclose(chances[u].max(), 1.0, rtol=1e-3)


# --- The choice ---


def test_offsets_must_be_better_unless_they_are_asked_for():
    costs = {"random": 10.0, "symmetric": 20.0, "offsets": 11.0}
    assert choose("auto", costs) == ("random", -1.0)
    assert choose("offsets", costs) == ("offsets", -1.0)
    assert choose("auto", {**costs, "symmetric": 7.0}) == ("symmetric", 3.0)


def test_a_direction_must_be_clearly_better_than_none():
    """Where scores say little, free shares drift to one direction, and all classes move by one."""
    assert choose("auto", {"random": 30.0, "symmetric": 12.0, "offsets": 8.0})[0] == "symmetric"
    assert choose("auto", {"random": 30.0, "symmetric": 12.0, "offsets": 6.0})[0] == "offsets"


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
    for seed in range(8):
        X, ranges = simulated(way, seed)
        model = OrderedBoosting(classes=range(5), max_iter=1, n_folds=4, random_state=0)
        found.append(model.fit(X, ranges).coarsening_)
    chosen = [one.mechanism for one in found]
    expected = {"at random": "random", "symmetric": "symmetric"}.get(way, "offsets")
    assert chosen.count(expected) >= 6, found
    if expected == "offsets":
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
