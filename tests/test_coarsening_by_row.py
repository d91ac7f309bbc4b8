"""How OrderedLogit learns, row by row, how classes become ranges."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import pril
import pril.dask
import reference
from pril import OrderedLogit
from pril.core.coarsening import OFFSETS
from strategies import cuts

KINDS = ["auto", "random", "offsets"]


def table(n, seed, K=5, scale=2.0):
    """Return rows and exact ranks of an ordered logit."""
    rng = np.random.default_rng([n, seed])
    X = rng.normal(size=(n, 3))
    score = scale * X @ [1.0, -0.5, 0.25] + rng.logistic(size=n)
    return X, np.digitize(score, np.linspace(-2, 2, K - 1)), rng


def shade(y, K, shares, rng):
    """Return ranges that offsets make of ranks; one that leaves a single class is drawn again."""
    offsets, chances = np.array(list(shares)), np.array(list(shares.values()))
    ends, left = np.empty((len(y), 2), dtype=int), np.arange(len(y))
    while len(left):
        down, up = offsets[rng.choice(len(offsets), len(left), p=chances)].T
        ends[left] = np.column_stack(
            [np.maximum(y[left] - down, 0), np.minimum(y[left] + up, K - 1)]
        )
        left = left[ends[left, 0] == ends[left, 1]]
    return ends


def pair_up(y, K):
    """Return the brackets of a questionnaire: a partition."""
    return np.column_stack([y // 2 * 2, np.minimum(y // 2 * 2 + 1, K - 1)])


@st.composite
def narrow_streams(draw):
    """Rows of which most labels are ranges of two or three classes."""
    K, n = draw(st.integers(2, 6)), draw(st.integers(1, 60))
    X, y, rng = table(n, draw(st.integers(0, 2**20)), K)
    chances = rng.dirichlet(np.full(5, 0.5))
    ends = (
        pair_up(y, K)
        if draw(st.booleans())
        else shade(y, K, dict(zip(OFFSETS, chances, strict=True)), rng)
    )
    exact, wide = rng.random((2, n)) < draw(st.sampled_from([0.0, 0.1, 0.5]))
    ends[exact] = y[exact, np.newaxis]
    ends[wide & ~exact] = 0, K - 1
    return X, ends, K


# --- The twin ---


@settings(max_examples=50)
@given(
    stream=narrow_streams(),
    kind=st.sampled_from(KINDS),
    half_life=st.sampled_from([None, 2.0, 40.0]),
    weighted=st.booleans(),
)
def test_it_is_the_slow_twin(stream, kind, half_life, weighted):
    X, ends, K = stream
    weight = np.random.default_rng(len(X)).uniform(0.1, 5, len(X)) if weighted else None
    model = OrderedLogit(average=False, coarsening=kind, half_life=half_life, classes=range(K))
    model.partial_fit(X, ends, sample_weight=weight)
    twin = reference.Coarsening(K, kind)
    _, models = reference.ordered_logit(
        X, ends + 1, K, mechanism=twin, half_life=half_life, weight=weight
    )
    np.testing.assert_allclose(model.coef_, models[-1][0], rtol=1e-7, atol=1e-10)
    np.testing.assert_allclose(model.thresholds_, models[-1][1], rtol=1e-7, atol=1e-10)
    found = model.coarsening_
    expected = "offsets" if twin.uses_offsets() else "random"
    assert found.mechanism == expected
    if expected == "offsets":
        np.testing.assert_allclose(
            list(found.shares.values()), list(twin.shares().values()), rtol=1e-7
        )
    if kind == "random":
        assert found.evidence is None
    else:
        assert found.evidence == pytest.approx(twin.D / twin.unit, rel=1e-7, abs=1e-9)


# --- One state, however the rows come ---


def memory_of(model):
    return {name: part.tolist() for name, part in model.memory_.parts().items()}


@settings(max_examples=20)
@given(stream=narrow_streams(), data=st.data(), half_life=st.sampled_from([None, 5.0]))
def test_any_chunking_and_a_stream_learn_the_same_bits(stream, data, half_life):
    X, ends, K = stream
    model = OrderedLogit(classes=range(K), half_life=half_life)
    whole, chunked, by_row = (copy.deepcopy(model) for _ in range(3))
    whole.partial_fit(X, ends)
    for start, stop in data.draw(cuts(len(X))):
        chunked.partial_fit(X[start:stop], ends[start:stop])
    rows = by_row.stream()
    for x, (low, high) in zip(X, ends.tolist(), strict=True):
        rows.learn_one(x, (low, high))
    assert memory_of(whole) == memory_of(chunked) == memory_of(by_row)
    assert whole.coarsening_ == by_row.coarsening_


@pytest.mark.parametrize("large", [1e200, 1e308])
def test_a_refused_row_changes_nothing(large):
    X, y, rng = table(50, 0)
    ends = shade(y, 5, SYMMETRIC, rng)
    model = OrderedLogit(classes=range(5)).partial_fit(X, ends)
    before = memory_of(model)
    with pytest.raises(ValueError, match=r"large|overflow"):
        model.stream().learn_one([large, large, large], (1, 2))
    with pytest.raises(ValueError, match=r"large|overflow"):
        model.partial_fit([[0.0, 0.0, 0.0], [large, large, large]], [(1, 2), (1, 2)])
    assert memory_of(model) == before


def test_files_keep_what_was_learned(tmp_path):
    X, y, rng = table(400, 1)
    ends = shade(y, 5, SYMMETRIC, rng)
    whole = OrderedLogit(classes=range(5)).partial_fit(X, ends)
    pril.save(OrderedLogit(classes=range(5)).partial_fit(X[:150], ends[:150]), tmp_path / "half")
    half = pril.load(tmp_path / "half").partial_fit(X[150:], ends[150:])
    assert memory_of(half) == memory_of(whole)
    assert half.coarsening_ == whole.coarsening_
    assert half.coarsening_.mechanism == "offsets"


def test_without_ranges_nothing_is_assumed():
    X, y, _ = table(300, 0)
    models = [OrderedLogit(coarsening=kind, classes=range(5)).partial_fit(X, y) for kind in KINDS]
    for one, other in itertools.pairwise(models):
        np.testing.assert_array_equal(one.coef_, other.coef_)
        np.testing.assert_array_equal(one.thresholds_, other.thresholds_)
    assert models[0].coarsening_.mechanism == "random"
    assert models[0].coarsening_.evidence == 0.0


@settings(max_examples=20)
@given(stream=narrow_streams(), kind=st.sampled_from(KINDS))
def test_the_other_way_round_it_is_the_mirror_image(stream, kind):
    X, ends, K = stream
    model = OrderedLogit(classes=range(K), coarsening=kind, average=False)
    one = copy.deepcopy(model).partial_fit(X, ends).coarsening_
    other = copy.deepcopy(model).partial_fit(-X, K - 1 - ends[:, ::-1]).coarsening_
    assert one.mechanism == other.mechanism
    mirrored = {(up, down): share for (down, up), share in other.shares.items()}
    assert one.shares == pytest.approx(mirrored, rel=1e-6)


# --- What it finds ---

SYMMETRIC = {(0, 1): 0.3, (1, 0): 0.3, (0, 2): 0.05, (1, 1): 0.3, (2, 0): 0.05}
SKEWED = {(0, 1): 0.7, (1, 0): 0.2, (1, 1): 0.1}
UPWARDS = {(0, 1): 0.9, (1, 0): 0.1}


def test_symmetric_shares_are_found_without_an_exact_label():
    X, y, rng = table(20_000, 1)
    found = OrderedLogit(classes=range(5)).partial_fit(X, shade(y, 5, SYMMETRIC, rng)).coarsening_
    assert found.mechanism == "offsets"
    assert found.evidence > 1000
    for offset, share in found.shares.items():
        assert share == pytest.approx(SYMMETRIC[offset], abs=0.1), offset


@pytest.mark.parametrize("name", ["skewed", "upwards"])
def test_exact_labels_show_the_direction(name):
    """Without them, moving all thresholds explains the labels as well."""
    shares = {"skewed": SKEWED, "upwards": UPWARDS}[name]
    X, y, rng = table(20_000, 1)
    ends, exact = shade(y, 5, shares, rng), rng.random(len(y)) < 0.25
    ends[exact] = y[exact, np.newaxis]
    found = OrderedLogit(classes=range(5)).partial_fit(X, ends).coarsening_
    for offset, share in found.shares.items():
        assert share == pytest.approx(shares.get(offset, 0.0), abs=0.15), offset


def test_without_an_exact_label_the_probabilities_are_found():
    """Type 1 ranges of all rows; at random, the classes at the ends vanish."""
    X, y, rng = table(10_000, 2)
    ends = shade(y, 5, {(0, 1): 0.5, (1, 0): 0.5}, rng)
    error = {}
    for kind in KINDS:
        model = OrderedLogit(classes=range(5), coarsening=kind, random_state=0).fit(X, ends)
        error[kind] = np.abs(np.bincount(y) / len(y) - model.predict_proba(X).mean(axis=0)).sum()
    assert max(error["auto"], error["offsets"]) < 0.1 < 0.3 < error["random"]


def answer_one_of_two(y, K, rng):
    """Return brackets of two or of three classes: at random, and overlapping."""
    two, three = (
        np.column_stack([y // w * w, np.minimum(y // w * w + w - 1, K - 1)]) for w in (2, 3)
    )
    return np.where(rng.random((len(y), 1)) < 0.5, two, three)


MECHANISMS = {
    "partition": (lambda y, K, rng: pair_up(y, K), "random"),
    "two partitions": (answer_one_of_two, "random"),
    "symmetric": (lambda y, K, rng: shade(y, K, SYMMETRIC, rng), "offsets"),
    "skewed": (lambda y, K, rng: shade(y, K, SKEWED, rng), "offsets"),
    "upwards": (lambda y, K, rng: shade(y, K, UPWARDS, rng), "offsets"),
    "Type 1": (lambda y, K, rng: shade(y, K, {(0, 1): 0.5, (1, 0): 0.5}, rng), "offsets"),
    "Type 2": (lambda y, K, rng: shade(y, K, {(1, 1): 1.0}, rng), "offsets"),
}


@pytest.mark.parametrize("name", MECHANISMS)
def test_the_mechanism_is_found(name):
    make, expected = MECHANISMS[name]
    found = []
    for seed in range(40):
        X, y, rng = table(500, seed, K=6)
        model = OrderedLogit(classes=range(6)).partial_fit(X, make(y, 6, rng))
        found.append(model.coarsening_.mechanism)
    assert found.count(expected) >= 36


QUESTIONNAIRES = {  # where each bracket of two versions begins
    "01|23, 0|123": (4, [0, 2], [0, 1]),
    "01|234, 0|12|34": (5, [0, 2], [0, 1, 3]),
    "012|3, 0|1|23": (4, [0, 3], [0, 1, 2]),
}


@pytest.mark.parametrize("n_passes", [1, 3])
@pytest.mark.parametrize("name", QUESTIONNAIRES)
def test_two_versions_of_a_questionnaire_are_at_random(name, n_passes):
    """Their brackets overlap, but do not move with the class, as those of offsets do."""
    K, *versions = QUESTIONNAIRES[name]
    worse = []
    for seed in range(10):
        X, y, rng = table(3000, seed, K)
        ends = np.empty((2, len(y), 2), dtype=int)
        for k, begins in enumerate(versions):
            bracket = np.searchsorted(begins, y, side="right")
            edges = np.array([*begins, K])
            ends[k] = np.column_stack([edges[bracket - 1], edges[bracket] - 1])
        ends = ends[rng.integers(2, size=len(y)), np.arange(len(y))]
        error = {}
        for kind in ("auto", "random"):
            model = OrderedLogit(classes=range(K), coarsening=kind)
            for _ in range(n_passes):
                model.partial_fit(X[:500], ends[:500])
            error[kind] = np.abs(model.predict(X[500:]) - y[500:]).mean()
            assert model.coarsening_.mechanism == "random"
        worse.append(error["auto"] / error["random"])
    assert max(worse) < 1.05


def test_a_partition_is_learned_as_at_random_bit_for_bit():
    """Without an overlap there are no offsets, whatever the evidence says."""
    X, y, _ = table(400, 3, K=4)
    one, other = (
        OrderedLogit(classes=range(4), coarsening=kind).partial_fit(X, pair_up(y, 4))
        for kind in ("auto", "random")
    )
    np.testing.assert_array_equal(one.coef_, other.coef_)
    np.testing.assert_array_equal(one.thresholds_, other.thresholds_)


def test_wide_ranges_speak_against_offsets():
    X, y, rng = table(3000, 4, K=8)
    ends = shade(y, 8, SYMMETRIC, rng)
    wide = rng.random(len(y)) < 0.6
    ends[wide] = np.column_stack([np.maximum(y - 3, 0), np.minimum(y + 3, 7)])[wide]
    narrow = OrderedLogit(classes=range(8)).partial_fit(X[~wide], ends[~wide])
    both = OrderedLogit(classes=range(8)).partial_fit(X, ends)
    assert (narrow.coarsening_.mechanism, both.coarsening_.mechanism) == ("offsets", "random")


@pytest.mark.parametrize(("half_life", "at_last"), [(200.0, "random"), (None, "offsets")])
def test_a_half_life_follows_a_mechanism_that_changes(half_life, at_last):
    """From offsets to a partition; all rows together still look like offsets."""
    X, y, rng = table(14_000, 5)
    model = OrderedLogit(classes=range(5), half_life=half_life)
    model.partial_fit(X[:10_000], shade(y[:10_000], 5, SYMMETRIC, rng))
    assert model.coarsening_.mechanism == "offsets"
    model.partial_fit(X[10_000:], pair_up(y[10_000:], 5))
    assert model.coarsening_.mechanism == at_last


# --- After fit ---


def outwards(y, K, rng):
    """Return ranges of raters who go up from high classes, and down from low ones, mostly."""
    up = (y >= K // 2) ^ (rng.random(len(y)) < 0.1)
    low = np.clip(np.where(up, y, y - 1), 0, K - 2)
    return np.column_stack([low, low + 1])


WAYS = {
    "random": (lambda y, K, rng: pair_up(y, K), "random"),
    "offsets": (lambda y, K, rng: shade(y, K, SKEWED, rng), "offsets"),
    "a free table": (outwards, None),
}


@pytest.mark.parametrize("name", WAYS)
def test_rows_to_come_go_on_with_what_fit_chose(name):
    """The first step is one on the likelihood that `fit` found, and no row chooses again."""
    make, mechanism = WAYS[name]
    X, y, rng = table(6000, 8)
    ends, exact = make(y, 5, rng), rng.random(len(y)) < 0.4
    ends[exact] = y[exact, np.newaxis]
    fitted = OrderedLogit(classes=range(5), average=False).fit(X, ends)
    found = fitted.coarsening_
    assert mechanism in (None, found.mechanism)
    steps, slopes = [], []
    for low, high in [(0, 0), (0, 1), (2, 3)]:
        q = np.zeros(5)
        q[low : high + 1] = found.table[low, high]
        slopes.append(reference.slopes(fitted.coef_ @ X[0], fitted.thresholds_, q)[0])
        after = copy.deepcopy(fitted).partial_fit(X[:1], [(low, high)])
        steps.append((after.coef_ - fitted.coef_) @ X[0])
    # Steps are divided by the size of all slopes so far, of which one more is a small part.
    np.testing.assert_allclose(np.divide(steps, steps[0]), np.divide(slopes, slopes[0]), rtol=1e-3)
    for later in (pair_up(y, 5), shade(y, 5, SYMMETRIC, rng)):
        after = copy.deepcopy(fitted).partial_fit(X, later).coarsening_
        assert after.evidence == found.evidence
        if mechanism is not None:
            assert after.mechanism == mechanism
        else:
            for label, chances in found.table.items():
                np.testing.assert_allclose(after.table[label], chances, rtol=1e-6)


@settings(max_examples=30)
@given(stream=narrow_streams(), kind=st.sampled_from(KINDS))
def test_its_table_says_which_share_of_each_class_has_which_label(stream, kind):
    """It has the labels of up to three classes that occurred; others have what is left of 1."""
    X, ends, K = stream
    model = OrderedLogit(classes=range(K), coarsening=kind).partial_fit(X, ends)
    table, wide = model.coarsening_.table, ends[:, 1] - ends[:, 0] > 2
    assert set(table) == set(map(tuple, ends[~wide].tolist()))
    weight, share = 1.0 + np.arange(len(X)), np.zeros(K)
    for (low, high), chances in table.items():
        assert len(chances) == high - low + 1
        share[low : high + 1] += chances
    occurs = share > 0.0
    expected = weight[~wide].sum() / weight.sum()
    np.testing.assert_allclose(share[occurs], expected, rtol=1e-9)


@settings(max_examples=200)
@given(st.randoms(use_true_random=False), st.sampled_from(KINDS))
def test_no_number_in_a_file_keeps_it_from_being_read(random, kind):
    X, y, _ = table(20, 7)
    model = OrderedLogit(classes=range(5), coarsening=kind).partial_fit(X, pair_up(y, 5))
    parts = model.memory_.parts()
    for part in random.sample(model.memory_.layout.own, 3):
        odd = [0.0, 5e-324, 1.0, 1e300, *([-1e300] if part.signed else [])]
        parts[part.name][:] = random.choices(odd, k=parts[part.name].size)
    found = model.coarsening_
    assert str(found) in repr(found)
    assert all(0.0 <= chance <= 1.0 for chances in found.table.values() for chance in chances)


def test_it_can_be_read():
    X, y, rng = table(20_000, 6)
    model = OrderedLogit(classes=range(5)).partial_fit(X, shade(y, 5, UPWARDS, rng))
    assert str(model.coarsening_).startswith("shared offsets: raters go")
    at_random = OrderedLogit(classes=range(5), coarsening="random").partial_fit(X, y)
    assert str(at_random.coarsening_).startswith("at random")


# --- First steps ---


def test_few_rows_are_not_learned_in_reverse():
    """Labels rise with the only feature. One row says little, and must not move the model far."""
    reversed_ = 0
    for seed in range(400):
        rng = np.random.default_rng(seed)
        x = np.sort(rng.normal(size=rng.integers(4, 13)))
        y = np.arange(len(x)) * 3 // len(x)
        model = OrderedLogit(classes=range(3), random_state=seed).fit(x[:, np.newaxis], y)
        reversed_ += model.coef_[0] <= 0.0
    assert reversed_ <= 10
