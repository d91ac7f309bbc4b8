"""One row at a time: `stream()` against `partial_fit`, its twin in every bit."""

import copy
import itertools
import pickle
import random
import warnings
from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.preprocessing import StandardScaler

import pril
from learners import LINEAR, with_variants
from pril import MPRIL, PRIL, MulticlassPerceptron, OrderedBoosting, OrderedLogit, PRank, WidrowHoff
from pril.core import loop_types
from pril.errors import FeatureRangeWarning, InputError
from strategies import exact_streams, smooth_streams

MODELS = [*with_variants(LINEAR), MPRIL(signed=False), WidrowHoff(normalize=False, rate=1e-3)]
pytestmark = pytest.mark.filterwarnings(
    "ignore::pril.errors.FeatureRangeWarning", "ignore:X does not have valid feature names"
)


def bits(model):
    """Return all that a model has learned, comparable bit for bit."""
    memory = getattr(model, "memory_", None)
    return memory and (memory.numbers.tobytes(), memory.integers.tobytes())


def everything(model):
    """Return all attributes of a model, what it has learned as bits."""
    rest = {name: repr(value) for name, value in vars(model).items() if name != "memory_"}
    return {**rest, "memory_": bits(model)}


def label_of(model, row):
    return int(row[0]) if isinstance(model, PRank) else tuple(row.tolist())


def labels_of(model, y):
    return y[:, 0] if isinstance(model, PRank) else y


def named(row):
    return {f"x{j}": value for j, value in enumerate(row.tolist())}


# --- The same bits ---


@given(
    stream=smooth_streams(),
    model=st.sampled_from(MODELS),
    half_life=st.sampled_from([None, 0.5, 20.0]),
    kinds=st.lists(st.sampled_from("adlst"), min_size=1),
    weights=st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=1),
)
def test_a_stream_learns_and_predicts_as_partial_fit_does(stream, model, half_life, kinds, weights):
    """Arrays, dicts, lists, tuples and rows without a label, in any order."""
    model = clone(model).set_params(classes=stream.classes)
    if hasattr(model, "half_life"):
        model.set_params(half_life=half_life)
    twin, rows = clone(model), model.stream()
    use_names = "d" in kinds
    for t, x in enumerate(stream.X):
        kind, weight = kinds[t % len(kinds)], weights[t % len(weights)]
        label = None if kind == "s" else label_of(model, stream.y[t])
        if use_names and t == 0:
            kind = "d"
        given = {"d": named, "l": list, "t": tuple}.get(kind, lambda x: x)(x)
        rows.learn_one(given, label, sample_weight=weight)
        y = [label] if label is None or isinstance(model, PRank) else [tuple(label)]
        twin.partial_fit(x[np.newaxis], y, sample_weight=[weight])
        assert bits(model) == bits(twin)
        assert rows.predict_one(given) == twin.predict(x[np.newaxis])[0]
        if hasattr(rows, "latent_one"):
            assert rows.latent_one(given) == twin.latent(x[np.newaxis])[0]
        if hasattr(rows, "predict_proba_one"):
            chances = dict(zip(twin.classes_, twin.predict_proba(x[np.newaxis])[0], strict=True))
            assert rows.predict_proba_one(given) == chances
    assert (model.t_, model.n_mistakes_) == (twin.t_, twin.n_mistakes_)
    np.testing.assert_array_equal(model.coef_, twin.coef_)
    np.testing.assert_array_equal(model.predict(stream.X), twin.predict(stream.X))


@pytest.mark.parametrize("cls", LINEAR)
def test_classes_weigh_what_they_do_in_partial_fit(cls):
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (120, 3)), np.sort(rng.integers(1, 5, (120, 2)), axis=1)
    model = cls(classes=[1, 2, 3, 4], class_weight={1: 5.0, 3: 0.25, 4: 0.0})
    weights = np.tile([1.0, 1.0, 0.3, 0.0], 30)
    twin = clone(model).partial_fit(X, labels_of(model, y), sample_weight=weights)
    stream = model.stream()
    for row, label, weight in zip(X, y, weights, strict=True):
        stream.learn_one(row, label_of(model, label), weight)
    assert bits(model) == bits(twin)


@pytest.mark.parametrize("width", [1, 7, 8, 9, 33, 200])
@pytest.mark.parametrize("model", [PRIL(), OrderedLogit(), MulticlassPerceptron()])
def test_wide_rows_have_the_same_bits(model, width):
    """A compiler may add up wide rows in another order."""
    rng = np.random.default_rng(width)
    X, y = rng.normal(size=(300, width)), rng.integers(1, 6, 300)
    model = clone(model).set_params(classes=range(1, 6))
    twin = clone(model).partial_fit(X, y)
    stream = model.stream()
    for x, label in zip(X, y, strict=True):
        stream.learn_one(x, label)
    assert bits(model) == bits(twin)
    assert [stream.predict_one(x) for x in X] == twin.predict(X).tolist()


@given(stream=exact_streams(), kept=st.integers(0, 2**32 - 1), average=st.booleans())
def test_features_that_appear_were_zero_before(stream, kept, average):
    """Sums are exact here, so that the order of features does not matter."""
    there = np.random.default_rng(kept).random(stream.X.shape) < 0.5
    there[0, 0] = True
    for model in (PRIL(average=average), MulticlassPerceptron(average=average)):
        model = clone(model).set_params(classes=stream.classes)
        rows = model.stream()
        for x, mask, ends in zip(stream.X, there, stream.y, strict=True):
            given = {name: value for name, value in named(x).items() if mask[int(name[1:])]}
            rows.learn_one(given, tuple(ends))
        order = [int(name[1:]) for name in model.feature_names_in_]
        assert sorted(order) == np.flatnonzero(there.any(axis=0)).tolist()
        twin = clone(model).partial_fit((stream.X * there)[:, order], stream.y)
        assert bits(model) == bits(twin)


def test_a_fitted_model_goes_on():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 4)), rng.integers(1, 4, 60)
    for model in MODELS:
        model = clone(model).set_params(random_state=0).fit(X[:40], y[:40])
        twin = copy.deepcopy(model).partial_fit(X[40:], y[40:])
        stream = model.stream()
        for x, label in zip(X[40:], y[40:], strict=True):
            stream.learn_one(x, label)
        assert bits(model) == bits(twin)
        model.partial_fit(X, y)
        assert bits(model) == bits(twin.partial_fit(X, y))


def test_a_half_life_that_ends_lets_later_rounds_count_the_same():
    """As one that is so long that no round is forgotten."""
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(50, 3)), rng.integers(1, 4, 50)
    model = PRIL(classes=[1, 2, 3], half_life=2.0).partial_fit(X, y)
    ended, endless = copy.deepcopy(model), copy.deepcopy(model)
    ended.set_params(half_life=None).partial_fit(X, y)
    endless.set_params(half_life=1e300).partial_fit(X, y)
    assert bits(ended) == bits(endless)
    stream = model.set_params(half_life=None).stream()
    for x, label in zip(X, y, strict=True):
        stream.learn_one(x, label)
    assert bits(model) == bits(ended)


def test_labels_in_every_spelling_are_the_same():
    model = PRIL(classes=["poor", "fair", "good"], average=False)
    spellings = [
        ("fair", ["fair", ("fair", "fair"), ["fair", "fair"], {"low": "fair", "high": "fair"}]),
        (
            ("fair", None),
            [["fair", "good"], {"low": "fair"}, {"low": "fair", "high": None}, ("fair", np.nan)],
        ),
        (None, [(None, None), {"low": None, "high": None}, np.nan, {}]),
    ]
    for usual, others in spellings:
        twin = clone(model).partial_fit([[2.0]], [usual])
        for label in [usual, *others]:
            learner = clone(model)
            learner.stream().learn_one([2.0], label)
            assert bits(learner) == bits(twin), label


def test_a_model_is_current_at_all_times(tmp_path):
    model = OrderedLogit(classes=[1, 2, 3])
    stream = model.stream()
    for t in range(1, 20):
        before = model.coef_ if t > 1 else np.zeros(2)
        stream.learn_one({"a": np.sin(t), "b": np.cos(t)}, 1 + (t + 1) % 3)
        assert model.t_ == t
        assert (model.coef_ != before).any()
        pril.save(model, tmp_path / "model.pril")
        assert bits(pril.load(tmp_path / "model.pril")) == bits(model)
    assert model.feature_names_in_.tolist() == ["a", "b"]


# --- Refusals ---

GOOD = ({"a": 1.0, "b": 2.0}, 2, 1.0)
REFUSED = {
    "a label that is not a class": (({"a": 1.0, "b": 2.0}, 9, 1.0), "9 is not one of the classes"),
    "ends in the wrong order": (({"a": 1.0, "b": 2.0}, (3, 1), 1.0), "lower end 3 is above"),
    "three ends": (({"a": 1.0, "b": 2.0}, (1, 2, 3), 1.0), "two columns"),
    "ends of other names": (({"a": 1.0, "b": 2.0}, {"from": 1}, 1.0), "'low' and 'high'"),
    "a word": (({"a": 1.0, "b": "x"}, 2, 1.0), "feature 'b': 'x' is not a number"),
    "a missing value": (({"a": 1.0, "b": None}, 2, 1.0), "feature 'b': None is not a number"),
    "NaN": (({"a": np.nan, "b": 1.0}, 2, 1.0), "feature 'a' is NaN"),
    "infinity": (({"a": 1.0, "b": np.inf}, (1, 2), 1.0), "feature 'b' is inf"),
    "a word in a new feature": (({"a": 1.0, "b": 2.0, "c": "x"}, 2, 1.0), "feature 'c': 'x'"),
    "NaN in a new feature": (({"c": np.nan}, 2, 1.0), "feature 'c' is NaN"),
    "a name that is no string": (({"a": 1.0, 7: 2.0}, 2, 1.0), "must be strings, got 7"),
    "a negative weight": (({"a": 1.0, "b": 2.0}, 2, -1.0), "-1.0 is not a weight"),
    "a weight that is no number": (({"a": 1.0, "b": 2.0}, 2, "x"), "sample_weight"),
    "too few features": (([1.0], 2, 1.0), "1 features, expected 2"),
    "too few features in an array": ((np.ones(1), 2, 1.0), "1 features, expected 2"),
    "too many features": ((np.ones(3), 2, 1.0), "3 features, expected 2"),
    "a table": ((np.ones((2, 2)), 2, 1.0), r"feature 0: \[1.0, 1.0\] is not a number"),
    "a number": ((3.0, 2, 1.0), "dict, a sequence or a 1d array, got 3.0"),
    "a string": (("ab", 2, 1.0), "dict, a sequence or a 1d array, got 'ab'"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("model", [PRIL(), OrderedLogit(half_life=3.0)])
def test_a_refused_row_changes_nothing(model, case):
    (x, y, weight), message = REFUSED[case]
    model = clone(model).set_params(classes=[1, 2, 3])
    stream = model.stream()
    stream.learn_one(*GOOD)
    before = everything(model)
    with pytest.raises((ValueError, TypeError), match=message):
        stream.learn_one(x, y, sample_weight=weight)
    assert everything(model) == before
    stream.learn_one(*GOOD)
    twin = clone(model).partial_fit([[1.0, 2.0]] * 2, [2, 2])
    assert bits(model) == bits(twin)


@pytest.mark.parametrize(
    "x", [[1.0], np.ones(1), np.ones(3), np.ones((2, 2)), {"a": [1.0], "b": 1.0}]
)
def test_a_row_of_another_shape_is_not_predicted(x):
    stream = PRIL(classes=[1, 2, 3]).stream()
    stream.learn_one(*GOOD)
    with pytest.raises(ValueError, match=r"expected 2|is not a number"):
        stream.predict_one(x)


@pytest.mark.parametrize("cls", LINEAR)
def test_what_is_not_learned_changes_no_answer(cls):
    stream = cls(classes=[1, 2, 3]).stream()
    for t in range(5):
        stream.learn_one(np.array([t / 5, 0.5]), 1 + t // 2)
    ways = ["predict_one", "latent_one", "predict_proba_one"]
    asked = [getattr(stream, way) for way in ways if hasattr(stream, way)]
    before = [ask(np.array([0.25, -0.5])) for ask in asked]
    stream.learn_one(np.array([0.5, -1.0]), None)
    assert [ask(np.array([0.25, -0.5])) for ask in asked] == before
    with pytest.raises(ValueError, match="NaN"):
        stream.learn_one(np.array([0.5, np.nan]), 3)
    assert [ask(np.array([0.25, -0.5])) for ask in asked] == before


def test_a_stream_predicts_the_mode():
    model = OrderedLogit(classes=range(5), decision="mode")
    stream = model.stream()
    for t in range(40):
        stream.learn_one(np.array([t % 5 - 2.0]), 0 if t % 5 < 2 else t % 5)
    X = np.linspace(-4, 4, 41)[:, np.newaxis]
    assert [stream.predict_one(x) for x in X] == model.predict(X).tolist()
    chances = model.predict_proba(X)
    assert model.predict(X).tolist() == chances.argmax(axis=1).tolist()


def test_a_list_is_no_number():
    stream = PRIL(classes=[1, 2, 3]).stream()
    for _ in range(2):
        stream.learn_one({"a": 1.0}, 2)
    for call in (stream.predict_one, lambda x: stream.learn_one(x, 2)):
        with pytest.raises(ValueError, match=r"feature 'a': \[1.0\] is not a number"):
            call({"a": [1.0]})


@pytest.mark.parametrize("case", ["NaN", "a word", "a label that is not a class"])
def test_a_refused_first_row_leaves_the_model_fresh(case):
    (x, y, weight), message = REFUSED[case]
    model = PRIL(classes=[1, 2, 3])
    stream = model.stream()
    before = everything(model)
    with pytest.raises(ValueError, match=message):
        stream.learn_one(x, y, weight)
    assert everything(model) == before
    with pytest.raises(NotFittedError):
        stream.predict_one(GOOD[0])
    stream.learn_one({"other": 1.0}, 1)
    assert model.feature_names_in_.tolist() == ["other"]


@pytest.mark.parametrize("half_life", [None, 0.01])
@pytest.mark.parametrize("label", [2, (1, 3), (2, 3)])
@pytest.mark.parametrize("large", [[1e308, 0.0], [1.7e308, 1.7e308], [3e153, 3e153]])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_an_overflow_changes_nothing(model, large, label, half_life):
    """A half-life of 0.01 rounds divides all weights of rounds in every round."""
    if isinstance(model, PRank) and label != 2:
        pytest.skip("exact labels only")
    model = clone(model).set_params(classes=[1, 2, 3, 4])
    if hasattr(model, "half_life"):
        model.set_params(half_life=half_life)
    rng, stream = np.random.default_rng(0), model.stream()
    for t in range(30):
        stream.learn_one(
            rng.normal(size=2), 1 + t % 4 if isinstance(model, PRank) else (1, 1 + t % 4)
        )
    twin = copy.deepcopy(model)
    for row in (large, [1.0, -1.0], [-value for value in large], [0.5, 0.5]):
        for weight in (1.0, 1e10):
            before, refused = bits(model), None
            try:
                twin.partial_fit([row], [label], sample_weight=[weight])
            except ValueError as error:
                refused = error
            with pytest.raises(ValueError, match="overflowed") if refused else nullcontext():
                stream.learn_one(row, label, weight)
            assert bits(model) == bits(twin)
            assert not refused or bits(model) == before


def test_some_overflow_happens_after_the_scores():
    """Else the test above would not see a half-made step."""
    model = WidrowHoff(classes=[1, 2], normalize=False, fit_intercept=False, average=False)
    stream = model.stream()
    stream.learn_one([0.0], 1)
    before = bits(model)
    with pytest.raises(ValueError, match="overflowed"):
        stream.learn_one([1e308], 2, sample_weight=1e10)  # the score is zero
    assert bits(model) == before


# --- Features ---


def test_a_fitted_model_knows_its_features():
    X = {"a": [1.0, 2.0], "b": [0.0, 1.0]}
    model = PRIL(classes=[1, 2]).fit(np.column_stack(list(X.values())), [1, 2])
    with pytest.raises(ValueError, match="features have no names"):
        model.stream().learn_one({"a": 1.0, "b": 0.0}, 1)
    model.feature_names_in_ = np.array(["a", "b"], dtype=object)
    before = everything(model)
    strict, lenient = copy.deepcopy(model).stream(), model.stream(unknown="ignore")
    for call in (strict.predict_one, strict.latent_one, lambda x: strict.learn_one(x, 1)):
        with pytest.raises(ValueError, match="feature 'c' that the model does not know"):
            call({"a": 1.0, "b": 2.0, "c": 3.0})
    assert everything(strict.model) == before
    twin = copy.deepcopy(model).stream()
    for row in ({"a": 3.0, "b": 2.0, "c": 9.0}, {"b": 2.0, "c": 9.0}, {"b": 1.0, "a": 0.5}):
        known = {name: value for name, value in row.items() if name != "c"}
        assert lenient.latent_one(row) == twin.latent_one(known)
        lenient.learn_one(row, 2)
        twin.learn_one(known, 2)
        assert bits(lenient.model) == bits(twin.model)
    assert twin.latent_one({"b": 2.0}) == twin.latent_one({"a": 0.0, "b": 2.0})
    with pytest.raises(ValueError, match="unknown must be 'error' or 'ignore', got 'drop'"):
        model.stream(unknown="drop")


def test_order_of_a_dict_does_not_matter():
    one, other = (PRIL(classes=[1, 2, 3]).stream() for _ in range(2))
    rng = random.Random(0)  # noqa: S311
    for t in range(50):
        row = {"a": rng.random(), "b": rng.random(), "c": rng.random()}
        names = list(row) if t == 0 else rng.sample(list(row), 3)
        one.learn_one(row, 1 + t % 3)
        other.learn_one({name: row[name] for name in names}, 1 + t % 3)
    assert bits(one.model) == bits(other.model)


def test_a_prediction_adds_no_feature():
    stream = PRIL(classes=[1, 2]).stream()
    stream.learn_one({"a": 1.0}, 2)
    assert stream.latent_one({"a": 3.0, "new": 5.0}) == stream.latent_one({"a": 3.0})
    assert stream.model.n_features_in_ == 1


def test_numbers_of_any_kind_and_rows_of_any_shape_are_read():
    twin = PRIL(classes=[1, 2]).partial_fit([[1.0, 2.0]], [2])
    for row in ([1, 2], (True, 2.0), np.array([1, 2]), np.array([1, 2], np.float32),
                np.array([[1.0, 9.0, 2.0, 9.0]])[0, ::2], [np.float32(1), np.int64(2)]):  # fmt: skip
        model = PRIL(classes=[1, 2])
        model.stream().learn_one(row, 2)
        assert bits(model) == bits(twin)


def test_prank_takes_exact_labels_and_mpril_warns():
    with pytest.raises(ValueError, match="PRank learns from exact labels only"):
        PRank(classes=[1, 2]).stream().learn_one([1.0], (1, 2))
    stream = MPRIL(classes=[1, 2]).stream()
    for row in ([3.0], np.array([3.0])):
        for label in (1, 1, None):
            with pytest.warns(FeatureRangeWarning, match="X reaches 3"):
                stream.learn_one(row, label)


# --- The life of a stream ---


def test_classes_must_be_known():
    with pytest.raises(ValueError, match=r"stream\(\) needs the classes"):
        PRIL().stream()
    with pytest.raises(ValueError, match="classes must stay the same"):
        PRIL().fit([[0.0], [1.0]], [1, 2]).set_params(classes=[1, 2, 3]).stream()
    with pytest.raises(ValueError, match="half_life"):
        PRIL(classes=[1, 2], half_life=-1.0).stream()


@pytest.mark.parametrize(
    "learn",
    [
        lambda model: model.set_params(random_state=0).fit([[0.0], [1.0]], [1, 2]),
        lambda model: model.partial_fit([[0.0], [1.0]], [1, 2]),
        lambda model: model.stream().learn_one([1.0], 2),
    ],
)
@pytest.mark.parametrize("row", [list, np.array])  # arrays of floats take a shorter way
def test_a_stream_goes_on_from_what_was_learned_by_other_means(learn, row):
    for rows, asks in itertools.product(([], [[1.0]]), (False, True)):
        model = PRIL(classes=[1, 2])
        stream, twin = model.stream(), PRIL(classes=[1, 2])
        for x in rows:
            stream.learn_one(row(x), 2)
            stream.learn_one(row(x), 1)
            twin.partial_fit([x, x], [2, 1])
        learn(model)
        learn(twin)
        for _ in range(2):
            if asks:
                assert stream.predict_one(row([0.5])) == twin.predict([[0.5]])
                assert stream.latent_one(row([0.5])) == twin.latent([[0.5]])
            stream.learn_one(row([0.5]), 1)
            twin.partial_fit([[0.5]], [1])
            assert bits(model) == bits(twin)


def test_two_streams_of_a_model_take_turns():
    model, twin = PRIL(classes=[1, 2]), PRIL(classes=[1, 2])
    streams = model.stream(), model.stream()
    for t in range(6):
        label = 1 + t % 2
        streams[t % 3 == 0].learn_one([t - 2.5], label)
        twin.partial_fit([[t - 2.5]], [label])
        assert all(stream.predict_one([1.0]) == twin.predict([[1.0]]) for stream in streams)
    assert bits(model) == bits(twin)


def pickled(item):
    return pickle.loads(pickle.dumps(item))  # noqa: S301


COPIES = [copy.copy, copy.deepcopy, pickled]


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("cls", LINEAR)
def test_a_model_copied_in_a_stream_goes_on_alone(cls, copied):
    model = cls(classes=[1, 2, 3])
    stream = model.stream()
    stream.learn_one([1.0, 0.5], 3)
    twin, before = copied(model), bits(model)
    stream.learn_one([0.5, 1.0], 1)
    assert bits(twin) == before
    twin.partial_fit([[0.5, 1.0]], [1])
    assert bits(twin) == bits(model)
    later, after = copied(model).stream(), bits(model)
    later.learn_one([-1.0, 1.0], 2)
    assert bits(model) == after
    stream.learn_one([-1.0, 1.0], 2)  # no copy has ended the stream
    assert bits(later.model) == bits(model)


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("rows", [0, 3])
def test_a_copied_stream_goes_on_alone(copied, rows):
    stream = OrderedLogit(classes=[1, 2, 3]).stream(unknown="ignore")
    for t in range(rows):
        stream.learn_one({f"x{t}": 1.0}, 1 + t % 3)
    before, twin = bits(stream.model), copied(stream)
    assert (bits(twin.model), twin.unknown) == (before, "ignore")
    twin.learn_one({"new": 2.0}, 2)
    assert bits(stream.model) == before
    stream.learn_one({"new": 2.0}, 2)
    assert bits(stream.model) == bits(twin.model)


@pytest.mark.parametrize(
    "label",
    [
        *({1}, (1, [2]), [1, [2]], (1, {2}), {"low": [1]}, {"low": {1: 2}, "high": 3}),
        *([[1, 2]], np.array([[1, 2]]), bytearray(b"1"), slice(1), (1, (2,)), ((1, 2), (1, 3))),
        *(np.array({1}, dtype=object), (1, 2, 3), (), frozenset({1}), 10**30, b"1"),
    ],
    ids=repr,
)
def test_what_is_no_label_is_refused_by_name(label):
    stream = PRIL(classes=[1, 2, 3]).stream()
    stream.learn_one({"a": 1.0}, 2)
    with pytest.raises(pril.errors.PrilError, match=r"^y"):
        stream.learn_one({"a": 1.0}, label)
    assert stream.model.t_ == 1


def test_a_label_in_an_array_without_dimensions_is_a_label():
    stream = PRIL(classes=[1, 2, 3]).stream()
    stream.learn_one({"a": 1.0}, np.array(2))
    assert stream.model.t_ == 1


def test_labels_without_end_do_not_fill_the_memory(monkeypatch):
    monkeypatch.setattr("pril.online.one_row.MAX_LABELS", 5)
    stream = PRIL(classes=[1, 2]).stream()
    for _ in range(50):
        stream.learn_one([1.0], float("nan"))
    assert len(stream._labels) == 5


# --- Random operations ---


def operate(model, operations, seed, path):
    """Do random operations to a stream and to `partial_fit` side by side."""
    rng = random.Random(seed)  # noqa: S311
    names = ["a", "b", "c"]
    model = clone(model).set_params(classes=[1, 2, 3, 4])
    twin, stream = clone(model), model.stream()
    learned = False
    for _ in range(operations):
        row = [rng.gauss(0.0, 1.0) for _ in names]
        kind = rng.choice(["dict", "dict", "list", "array"]) if learned else "dict"
        x = {"dict": dict(zip(names, row, strict=True)), "list": row, "array": np.array(row)}[kind]
        low = rng.randint(1, 4)
        high = low if isinstance(model, PRank) else rng.randint(low, 4)
        operation = rng.choices(["learn", "predict", "copy", "refuse", "many"], [60, 20, 1, 10, 1])[
            0
        ]
        table = np.array([row])
        if operation == "learn":
            label = rng.choice([None, (low, high), (low, high), (low, high)])
            weight = rng.choice([1.0, 1.0, 1.0, 0.0, 0.25])
            stream.learn_one(x, low if label and low == high else label, weight)
            exact = label and low
            twin.partial_fit(table, [exact if isinstance(model, PRank) else label or (None, None)],
                             sample_weight=[weight])  # fmt: skip
            learned = True
        elif operation == "predict" and learned:
            assert stream.predict_one(x) == twin.predict(table)[0]
        elif operation == "copy" and learned:
            pril.save(model, path)
            model = pril.load(path)
            stream = model.stream()
        elif operation == "refuse" and learned:
            bad = rng.choice([{"a": 1.0, "b": "x"}, [1.0], {"a": np.nan}, [1.0, np.inf, 1.0]])
            try:
                stream.learn_one(bad, rng.choice([low, 7]))
            except ValueError:
                pass
            else:
                pytest.fail(f"{bad} was learned")
        elif operation == "many" and learned:
            X = np.array([row, row[::-1]])
            model.partial_fit(X, [low, low])
            twin.partial_fit(X, [low, low])
            stream = model.stream()
        assert bits(model) == bits(twin)


@pytest.mark.parametrize("model", LINEAR)
def test_random_operations_end_in_the_same_bits(model, tmp_path):
    operate(model(), 100, 1, tmp_path / "model.pril")


@pytest.mark.slow
@pytest.mark.parametrize("model", LINEAR)
def test_many_random_operations_end_in_the_same_bits(model, tmp_path):
    operate(model(), 10_000, 2, tmp_path / "model.pril")


# --- What a row changes ---


@given(stream=smooth_streams(), half_life=st.sampled_from([None, 3.0]))
def test_a_refused_row_changes_nothing_of_what_was_learned_of_ranges(stream, half_life):
    model = OrderedLogit(half_life=half_life, classes=range(1, stream.K + 1))
    rows = model.stream()
    for x, y in zip(stream.X, stream.y, strict=True):
        rows.learn_one(x, tuple(y.tolist()))
        kept = bits(model)
        with pytest.raises(ValueError, match="overflowed on it"), np.errstate(all="ignore"):
            rows.learn_one(np.full(len(x), 1e308), tuple(y.tolist()))
        assert bits(model) == kept


@pytest.mark.parametrize("model", MODELS, ids=repr)
def test_the_parts_of_a_memory_are_in_the_order_that_compiled_code_takes_them_for(model):
    layout = model.engine.layout(3, 4)
    names = [*loop_types.State._fields[: loop_types.N_COMMON], *(part.name for part in layout.own)]
    assert names == list(layout.shapes())
    times = [part.time for part in layout.own]
    assert times == sorted(times)  # they fade, grow, or stay


@pytest.mark.parametrize("kind", ["linear", "boosting", "encoder", "scaler"])
def test_a_strict_stream_notices_a_column_that_was_renamed(kind):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(rng.normal(size=(60, 2)), columns=["size", "age"])
    y = 1 + (frame["size"] > 0)
    first = {"encoder": pril.ColumnEncoder(), "scaler": StandardScaler()}.get(kind)
    learner = OrderedBoosting(max_iter=5) if kind == "boosting" else OrderedLogit()
    model = pril.Pipeline([("first", first), ("learner", learner)]) if first else learner
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the last of max_iter")
        model.fit(frame, y)
    strict = pickled(model.stream(strict=True))
    whole = {"size": 1.0, "age": 2.0}
    assert strict.predict_one(whole) == model.stream().predict_one(whole) == 2
    for name, row in (("lacks", {"size": 1.0}), ("lacks", {"sise": 1.0, "age": 2.0})):
        with pytest.raises(InputError, match=f"x {name} the (feature|column) '(age|size)'"):
            strict.predict_one(row)
    with pytest.raises(InputError, match=r"x has a (feature|column) 'more' that the model does"):
        strict.predict_one({**whole, "more": 1.0})
    if kind == "linear":
        with pytest.raises(InputError, match="lacks the feature 'age'"):
            strict.learn_one({"size": 1.0}, 2)
        with pytest.raises(InputError, match="leave out unknown='ignore'"):
            model.stream(strict=True, unknown="ignore")
        new = OrderedLogit(classes=[1, 2]).stream(strict=True)
        new.learn_one(whole, 2)
        with pytest.raises(InputError, match="x has a feature 'more'"):
            new.learn_one({**whole, "more": 1.0}, 2)
