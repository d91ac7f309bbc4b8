"""Memories changed in place and parameters that are remembered, against copies and fresh ones."""

import copy
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

from learners import LINEAR, with_variants
from pril import PRIL, OrderedLogit, PRank, WidrowHoff, _journal, _online
from pril import _loop as loop
from test_one_row import bits

MODELS = [*with_variants(LINEAR), WidrowHoff(normalize=False), OrderedLogit(half_life=5.0)]
WIDTH = 100
pytestmark = pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")


def sparse_row(rng, kind):
    """Return a row with three values; a bad one is refused, by its scores or by the sums."""
    columns = np.sort(rng.choice(WIDTH, 3, replace=False))
    values = rng.uniform(-1, 1, 3)
    if kind == "NaN":
        values[1] = np.nan
    if kind == "large":
        values[rng.integers(3)] = rng.choice([1e308, 1e160])
    return csr_array((values, columns, [0, 3]), shape=(1, WIDTH))


def label_of(model, rng):
    low = int(rng.integers(1, 5))
    return [low] if isinstance(model, PRank) else [(low, int(rng.integers(low, 5)))]


@given(
    model=st.sampled_from(MODELS),
    kinds=st.lists(st.sampled_from(["good", "good", "good", "none", "NaN", "large", "unknown"])),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_row_of_few_features_is_learned_as_any_other(model, kinds, seed):
    """In place and on a copy: the same bits after rows that are learned, and after refused ones."""
    rng = np.random.default_rng(seed)
    model = clone(model).set_params(classes=[1, 2, 3, 4])
    twin = clone(model)
    for kind in ["good", "good", *kinds]:
        x, label = sparse_row(rng, kind), label_of(model, rng)
        label = {"none": [None], "unknown": [9]}.get(kind, label)
        weight = rng.choice([1.0, 1.0, 1e10 if kind == "large" else 0.5], 1)
        before, refused = bits(model), []
        for learner, wide in ((model, 1), (twin, 10**9)):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(_journal, "WIDE", wide)
                try:
                    learner.partial_fit(x, label, sample_weight=weight)
                    refused.append("")
                except ValueError as error:
                    refused.append(str(error))
        assert refused[0] == refused[1]
        assert bits(model) == bits(twin)
        if refused[0]:
            assert bits(model) == before


def test_some_refused_rows_had_been_learned_in_part(monkeypatch):
    """Else the test above would not see what is put back."""
    monkeypatch.setattr(_journal, "WIDE", 1)
    undone = []
    monkeypatch.setattr(
        _journal.Journal, "undo", lambda self, undo=_journal.Journal.undo: undone.append(undo(self))
    )
    model = WidrowHoff(classes=[1, 2], normalize=False, fit_intercept=False)
    one = csr_array(([0.0], [3], [0, 1]), shape=(1, WIDTH))
    for _ in range(2):
        model.partial_fit(one, [2])
    before = bits(model)
    one.data[:] = 1e308
    with pytest.raises(ValueError, match="overflowed"):
        model.partial_fit(one, [2], sample_weight=[1e10])  # the score is zero
    assert len(undone) == 1
    assert bits(model) == before


def test_only_wide_models_without_a_half_life_are_changed_in_place(monkeypatch):
    rng = np.random.default_rng(0)
    rows = [sparse_row(rng, "good") for _ in range(4)]

    def stays(model, row):
        array = model._memory.state.u
        model.partial_fit(row, [1])
        return model._memory.state.u is array

    narrow = PRIL(classes=[1, 2]).partial_fit(rows[0], [2])
    assert not stays(narrow, rows[1])
    monkeypatch.setattr(_journal, "WIDE", WIDTH)
    assert [stays(narrow, row) for row in rows] == [False, True, True, True]
    assert not stays(narrow, rows[0].toarray())
    assert not stays(narrow, csr_array(np.ones((1, WIDTH))))
    forgetful = PRIL(classes=[1, 2], half_life=3.0).partial_fit(rows[0], [2])
    assert [stays(forgetful, row) for row in rows] == [False] * 4


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],  # noqa: S301
)
def test_copies_do_not_share_what_is_changed_in_place(monkeypatch, copied):
    monkeypatch.setattr(_journal, "WIDE", WIDTH)
    rng = np.random.default_rng(0)
    model = PRIL(classes=[1, 2, 3])
    for t in range(10):
        model.partial_fit(sparse_row(rng, "good"), [1 + t % 3])
    twin = copied(model)
    before = bits(model)
    for one, other in ((model, twin), (twin, model)):
        unchanged = bits(other)
        for t in range(3):
            one.partial_fit(sparse_row(rng, "good"), [1 + t % 3])
        assert bits(other) == unchanged
        assert bits(one) != before


def test_a_stream_ends_when_a_row_is_learned_in_place(monkeypatch):
    monkeypatch.setattr(_journal, "WIDE", WIDTH)
    rng = np.random.default_rng(0)
    model = PRIL(classes=[1, 2])
    for _ in range(2):
        model.partial_fit(sparse_row(rng, "good"), [1])
    stream = model.stream()
    model.partial_fit(sparse_row(rng, "good"), [2])
    with pytest.raises(RuntimeError, match=r"call stream\(\) again"):
        stream.predict_one(np.zeros(WIDTH))


# --- Parameters that are remembered --------------------------------------------------------------


def spoken(model, X):
    """Return all that is computed from the parameters."""
    parts = [model.coef_, model.predict(X), model.decision_function(X)]
    parts += [model.thresholds_, model.latent(X)] if hasattr(model, "latent") else []
    parts += [model.predict_proba(X)] if hasattr(model, "predict_proba") else []
    return parts


@given(
    model=st.sampled_from(MODELS),
    acts=st.lists(
        st.sampled_from(
            ["fit", "partial_fit", "stream", "refused", "unlabelled", "sparse", "copy"]
        ),
        min_size=1,
        max_size=8,
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_remembered_parameters_are_those_of_the_memory(model, acts, seed):
    """Whatever was learned, by whatever means, since they were computed."""
    rng = np.random.default_rng(seed)
    model = clone(model).set_params(classes=[1, 2, 3], max_iter=2)
    X, y = rng.uniform(-1, 1, (6, WIDTH)), rng.integers(1, 4, 6)
    model.partial_fit(X, y)
    stream = model.stream()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_journal, "WIDE", 1)
        for act in acts:
            spoken(model, X)  # is remembered
            t = int(rng.integers(6))
            if act == "fit":
                model.fit(X, y)
            elif act == "partial_fit":
                model.partial_fit(X[[t]], y[[t]])
            elif act == "stream":
                stream = stream if stream.is_current() else model.stream()
                stream.learn_one(X[t], int(y[t]))
            elif act == "refused":
                with pytest.raises(ValueError, match="NaN"):
                    model.partial_fit(X[[t]] * np.nan, y[[t]])
            elif act == "unlabelled":
                model.partial_fit(X[[t]], [None])
            elif act == "sparse":
                model.partial_fit(sparse_row(rng, "good"), y[[t]])
            else:
                model = copy.copy(model)
            fresh = pickle.loads(pickle.dumps(model))  # noqa: S301
            for part, other in zip(spoken(model, X), spoken(fresh, X), strict=True):
                np.testing.assert_array_equal(part, other)


def test_parameters_are_computed_once(monkeypatch):
    calls = []
    monkeypatch.setattr(
        loop, "parameters", lambda *given, of=loop.parameters: calls.append(1) or of(*given)
    )
    model = PRIL().fit(np.eye(3), [1, 2, 3])
    for _ in range(3):
        spoken(model, np.eye(3))
    assert len(calls) == 1
    stream = model.stream()
    calls.clear()
    for _ in range(3):
        stream.learn_one(np.ones(3), 2)
        spoken(model, np.eye(3))
    assert len(calls) == 3


def test_what_is_remembered_keeps_no_old_memory_alive():
    model = PRIL(classes=[1, 2]).partial_fit(np.eye(2), [1, 2])
    model.predict(np.eye(2))
    assert model in _online._known_parameters
    model.partial_fit(np.eye(2), [1, 2])
    assert model not in _online._known_parameters
