"""Learning in place, and parameters that are remembered, against copies and fresh models."""

import copy
import pickle
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone

from learners import LINEAR, with_variants
from pril import MPRIL, PRIL, OrderedLogit, PRank, WidrowHoff

MODELS = [*with_variants(LINEAR), WidrowHoff(normalize=False), OrderedLogit(half_life=5.0)]
NARROW, WIDE = 100, 1 << 16  # a few sparse rows of so many features are learned in place
pytestmark = pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")


def sparse_row(rng, kind, width):
    """Return a row with three values; a bad one is refused, by its scores or by the sums."""
    columns = np.sort(rng.choice(NARROW, 3, replace=False))
    values = rng.uniform(-1, 1, 3)
    if kind == "NaN":
        values[1] = np.nan
    if kind == "large":
        values[rng.integers(3)] = rng.choice([1e308, 1e160])
    return csr_array((values, columns, [0, 3]), shape=(1, width))


def learned(model):
    """Return all that a model has learned of the features that the rows have."""
    coef = np.atleast_2d(model.coef_)[:, :NARROW]
    rest = [getattr(model, name, 0.0) for name in ("thresholds_", "intercept_")]
    return [coef, *rest, model.t_, model.n_mistakes_, model.n_updates_]


def same(one, other):
    return all(map(np.array_equal, one, other))


def label_of(model, rng):
    low = int(rng.integers(1, 5))
    return [low] if isinstance(model, PRank) else [(low, int(rng.integers(low, 5)))]


# Not MPRIL: all of its weights have a given sum, so that more features change each.
@pytest.mark.parametrize(
    "model", [model for model in MODELS if not isinstance(model, MPRIL)], ids=repr
)
@settings(max_examples=4)
@given(
    kinds=st.lists(st.sampled_from(["good", "good", "good", "none", "NaN", "large", "unknown"])),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_wide_model_learns_as_a_narrow_one(model, kinds, seed):
    """The same after rows that are learned, in place or not, and after refused ones."""
    wide = clone(model).set_params(classes=[1, 2, 3, 4])
    narrow = clone(wide)
    rng = np.random.default_rng(seed)
    for t, kind in enumerate(["good", "good", *kinds]):
        label = {"none": [None], "unknown": [9]}.get(kind, label_of(model, rng))
        weight = rng.choice([1.0, 1.0, 1e10 if kind == "large" else 0.5], 1)
        refused, before = [], learned(wide) if t else None
        for learner, width in ((wide, WIDE), (narrow, NARROW)):
            x = sparse_row(np.random.default_rng([seed, t]), kind, width)
            try:
                learner.partial_fit(x, label, sample_weight=weight)
                refused.append("")
            except ValueError as error:
                refused.append(str(error))
        assert refused[0] == refused[1]
        assert same(learned(wide), learned(narrow))
        if refused[0]:
            assert same(learned(wide), before)


@pytest.mark.parametrize("fit_intercept", [False, True])
def test_a_row_that_was_learned_in_part_is_put_back(fit_intercept):
    model = WidrowHoff(classes=[1, 2], normalize=False, fit_intercept=fit_intercept)
    one = csr_array(([0.0], [3], [0, 1]), shape=(1, WIDE))
    for _ in range(2):
        model.partial_fit(one, [2])
    before = learned(model)
    one.data[:] = 1e308
    with pytest.raises(ValueError, match="overflowed"):
        model.partial_fit(one, [2], sample_weight=[1e10])  # the score is finite
    assert same(learned(model), before)
    assert same(learned(copy.deepcopy(model)), before)  # which remembers no parameters


@pytest.mark.parametrize(
    "copied",
    [copy.copy, copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))],  # noqa: S301
)
def test_copies_do_not_share_what_is_changed_in_place(copied):
    rng = np.random.default_rng(0)
    model = PRIL(classes=[1, 2, 3])
    for t in range(10):
        model.partial_fit(sparse_row(rng, "good", WIDE), [1 + t % 3])
    twin = copied(model)
    before = learned(model)
    for one, other in ((model, twin), (twin, model)):
        unchanged = learned(other)
        for t in range(3):
            one.partial_fit(sparse_row(rng, "good", WIDE), [1 + t % 3])
        one.stream().learn_one(np.ones(WIDE), 2)
        assert same(learned(other), unchanged)
        assert not same(learned(one), before)


def test_what_was_computed_from_an_undone_round_is_not_kept():
    """Another thread may look at a model that learns in place, before the call fails."""
    rng = np.random.default_rng(0)
    first, undone, other = (sparse_row(rng, "good", WIDE) for _ in range(3))
    model = PRIL(classes=[1, 2, 3]).partial_fit(first, [1])
    memory = model.memory_
    with suppress(KeyboardInterrupt), memory.undone_on_failure(undone.indices):
        model.partial_fit(undone, [3])
        assert model.memory_ is memory
        assert model.coef_.any()
        raise KeyboardInterrupt
    model.partial_fit(other, [3])
    twin = PRIL(classes=[1, 2, 3]).partial_fit(first, [1]).partial_fit(other, [3])
    assert same(learned(model), learned(twin))


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
        st.sampled_from(["fit", "partial_fit", "stream", "refused", "unlabelled", "copy"]),
        min_size=1,
        max_size=8,
    ),
    seed=st.integers(0, 2**32 - 1),
)
def test_remembered_parameters_are_those_of_the_memory(model, acts, seed):
    """Whatever was learned, by whatever means, since they were computed."""
    rng = np.random.default_rng(seed)
    model = clone(model).set_params(classes=[1, 2, 3], max_iter=20)
    X, y = rng.uniform(-1, 1, (6, 5)), rng.integers(1, 4, 6)
    model.partial_fit(X, y)
    stream = model.stream()
    for act in acts:
        spoken(model, X)  # is remembered
        t = int(rng.integers(6))
        if act == "fit":
            model.fit(X, y)
        elif act == "partial_fit":
            model.partial_fit(X[[t]], y[[t]])
        elif act == "stream":
            stream.learn_one(X[t], int(y[t]))
        elif act == "refused":
            with pytest.raises(ValueError, match="NaN"):
                model.partial_fit(X[[t]] * np.nan, y[[t]])
        elif act == "unlabelled":
            model.partial_fit(X[[t]], [None])
        else:
            model = copy.copy(model)
            stream = model.stream()
        fresh = pickle.loads(pickle.dumps(model))  # noqa: S301
        for part, other in zip(spoken(model, X), spoken(fresh, X), strict=True):
            np.testing.assert_array_equal(part, other)


@pytest.mark.parametrize("kind", [list, np.array])
def test_classes_that_change_in_place_are_refused(kind):
    classes = kind([1, 2, 3])
    model = PRIL(classes=classes)
    for _ in range(3):
        model.partial_fit([[1.0]], [3])
    classes[:] = [3, 2, 1]
    for learn in (lambda: model.partial_fit([[1.0]], [3]), model.stream):
        with pytest.raises(ValueError, match=r"classes must stay the same: \[1, 2, 3\] were"):
            learn()
    assert model.predict([[1.0]]) == [3]
    classes[:] = [1, 2, 3]
    assert model.partial_fit([[1.0]], [3]).t_ == 4
