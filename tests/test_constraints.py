"""OrderedBoosting under constraints: scores that only rise or fall, groups that stay together."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pril
from pril import OrderedBoosting
from pril.labels import make_intervals
from pril.learners.boosting import cross_fitting

pytest.importorskip("lightgbm", reason="pip install 'pril[boosting]'")

QUICK = {"max_iter": 10, "random_state": 0}


def table(n=200, d=4, seed=0):
    """Return features, the first two of them alike, with gaps, and labels that rise and fall."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    X[:, 1] += 2.0 * X[:, 0]
    score = X @ rng.normal(size=d) + np.sin(3.0 * X[:, 0]) + X[:, 1] * X[:, 2]
    y = np.digitize(score + 0.3 * rng.logistic(size=n), np.quantile(score, [0.3, 0.7]))
    X[rng.random((n, d)) < 0.05] = np.nan
    return X, make_intervals(y, 1, 0.5, classes=range(3), random_state=seed)


# --- Constraints ---


@given(
    signs=st.lists(st.sampled_from([-1, 0, 1]), min_size=4, max_size=4).filter(any),
    seed=st.integers(0, 1000),
    leaves=st.sampled_from([2, 4, 31]),
    n=st.sampled_from([40, 200]),
)
@settings(max_examples=25)
def test_the_score_only_rises_or_falls(signs, seed, leaves, n):
    """Sums of rounded numbers keep their order, so it holds to the last bit."""
    X, ranges = table(n, seed=seed)
    X[:, 3] = np.nan_to_num(X[:, 3]).round()  # categories, or a number with steps
    categorical = [3] if signs[3] == 0 else None
    model = OrderedBoosting(
        classes=range(3), monotonic_cst=signs, categorical_features=categorical,
        max_leaf_nodes=leaves, min_samples_leaf=1, **QUICK,
    ).fit(X, ranges)  # fmt: skip
    rng = np.random.default_rng(seed)
    for k in np.flatnonzero(signs):
        grid = np.unique(
            np.concatenate([X[~np.isnan(X[:, k]), k], rng.normal(size=50), [-1e9, 1e9]])
        )
        for row in X[rng.integers(0, n, 5)]:
            rows = np.tile(row, (len(grid), 1))
            rows[:, k] = grid
            assert (signs[k] * np.diff(model.latent(rows)) >= 0.0).all()
            below = model.predict_cumulative(rows)
            assert (signs[k] * np.diff(below, axis=0) <= 0.0).all()


def test_large_trees_only_rise():
    """With LightGBM's method "advanced", the score falls by up to 0.04."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(4500, 6))
    X[:, 1] = 0.9 * X[:, 0] + 0.3 * X[:, 1]
    score = np.exp(X[:, 0] / 2) + np.tanh(X[:, 2]) * (X[:, 3] > 0) - 0.24 * X[:, 1] + abs(X[:, 4])
    score += 0.5 * rng.logistic(size=4500)
    y = np.digitize(score, np.quantile(score, [0.2, 0.4, 0.6, 0.8]))[:1500]
    X = np.where(rng.random((1500, 6)) < 0.05, np.nan, X[:1500])
    model = OrderedBoosting(monotonic_cst=[1, 1, 1, 0, 0, 0], random_state=0).fit(X, y)
    grid = np.linspace(-4.0, 4.0, 400)
    for k in range(3):
        rows = np.repeat(X[:25], 400, axis=0)
        rows[:, k] = np.tile(grid, 25)
        assert (np.diff(model.latent(rows).reshape(25, 400)) >= 0.0).all()


def test_constraints_cost_nothing_where_they_hold_and_keep_noise_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2500, 3))
    y = np.digitize(X[:, 0] ** 3 + rng.logistic(size=2500), [-1.0, 1.0])
    model = OrderedBoosting(monotonic_cst=[1, 0, 0], **QUICK).fit(X[:500], y[:500])
    free, against = (
        clone(model).set_params(monotonic_cst=cst).fit(X[:500], y[:500])
        for cst in (None, [-1, 0, 0])
    )
    scores = [m.score(X[500:], y[500:]) for m in (model, free, against)]
    assert scores[0] > scores[1] - 0.02
    assert scores[2] < scores[0] - 0.1
    assert against.feature_importances_[0] < 0.1


def test_zeros_are_no_constraint():
    X, ranges = table()
    free = OrderedBoosting(classes=range(3), **QUICK).fit(X, ranges)
    for cst in ([0, 0, 0, 0], {}):
        other = clone(free).set_params(monotonic_cst=cst)
        rows = X if isinstance(cst, list) else pd.DataFrame(X, columns=list("abcd"))
        np.testing.assert_array_equal(other.fit(rows, ranges).latent(rows), free.latent(X))


@pytest.mark.parametrize("constraints", [[0, 1, -1, 0], np.array([0, 1, -1, 0]), {"b": 1, "c": -1}])
def test_constraints_by_position_and_by_name_are_kept(constraints, tmp_path):
    X, ranges = table()
    frame = pd.DataFrame(X, columns=list("abcd"))
    model = OrderedBoosting(classes=range(3), monotonic_cst=constraints, **QUICK)
    expected = OrderedBoosting(classes=range(3), monotonic_cst=(0, 1, -1, 0), **QUICK)
    model.fit(frame, ranges)
    np.testing.assert_array_equal(model.latent(frame), expected.fit(X, ranges).latent(X))
    pril.save(model, tmp_path / "model.pril")
    again = pril.load(tmp_path / "model.pril")
    np.testing.assert_array_equal(again.latent(frame), model.latent(frame))
    np.testing.assert_array_equal(
        clone(again).fit(frame, ranges).latent(frame), model.latent(frame)
    )
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(pril.onnx.to_onnx(model).SerializeToString())
    np.testing.assert_array_equal(session.run(["label"], {"X": X})[0], model.predict(frame))


@pytest.mark.parametrize(
    ("constraints", "message"),
    [
        ([1, 0], r"monotonic_cst has the shape \(2,\), but X has 3 features"),
        ([[1, 0, 0]], r"monotonic_cst has the shape \(1, 3\), but X has 3 features"),
        ([0, 2, 0], "monotonic_cst: the constraint of feature 'size' must be -1, 0 or 1, got 2"),
        ([0, 0, np.nan], "feature 'age' must be -1, 0 or 1, got nan"),
        (["up", "", ""], "feature 'town' must be -1, 0 or 1, got 'up'"),
        ({"size": None}, "feature 'size' must be -1, 0 or 1, got None"),
        ({"sise": 1}, "monotonic_cst: X has no feature 'sise'"),
        ({1: 1}, "monotonic_cst: X has no feature 1"),
        ([1, 0, 0], "monotonic_cst: feature 'town' is categorical, and categories have no order"),
        ({"town": -1}, "monotonic_cst: feature 'town' is categorical"),
    ],
)
def test_constraints_that_make_no_sense_are_refused(constraints, message):
    frame = pd.DataFrame({"town": pd.Categorical(list("abab")), "size": range(4), "age": range(4)})
    model = OrderedBoosting(monotonic_cst=constraints)
    with pytest.raises(pril.errors.InputError, match=message):
        model.fit(frame, [0, 1, 0, 1])
    assert not hasattr(model, "memory_")


def test_names_of_features_that_have_none():
    with pytest.raises(ValueError, match="monotonic_cst names features, but X has no names"):
        OrderedBoosting(monotonic_cst={"a": 1}).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="constraint of feature 0 must be"):
        OrderedBoosting(monotonic_cst=[3]).fit([[0.0], [1.0]], [0, 1])


# --- Groups ---


@given(
    sizes=st.lists(st.integers(1, 12), min_size=2, max_size=40),
    n_folds=st.integers(2, 9),
    seed=st.integers(0, 99),
)
def test_groups_stay_together_in_folds_of_about_one_size(sizes, n_folds, seed):
    n_folds = min(n_folds, len(sizes))
    rng = np.random.RandomState(seed)
    groups = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    order = rng.permutation(len(groups))
    fold = cross_fitting.spread_groups(groups, n_folds, order)
    assert all(len(set(fold[groups == g])) == 1 for g in range(len(sizes)))
    filled = np.bincount(fold, minlength=n_folds)
    assert filled.min() > 0
    # When the last group came to the fullest fold, no other fold had fewer rows.
    assert filled.max() - filled.min() <= max(sizes)


def test_large_groups_come_first():
    fold = cross_fitting.spread_groups(np.array([0, 1, 2, 3, 4, 4, 4, 4]), 2, np.arange(8))
    assert np.bincount(fold).tolist() == [4, 4]


def test_rows_of_one_group_are_never_seen_by_their_own_booster():
    """Every row is there twice, with labels of no meaning: only a twin in another fold helps."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(150, 3)), rng.integers(0, 3, 150)
    twice = np.vstack([X, X]), np.concatenate([y, y])
    model = OrderedBoosting(random_state=0)
    leaky = clone(model).fit(*twice)
    apart = clone(model).fit(*twice, groups=np.tile(np.arange(150), 2))
    chance = -np.mean(np.log(np.bincount(y) / 150)[y])
    assert leaky.validation_loss_.min() < 0.9 * chance
    assert apart.validation_loss_.min() > 0.95 * chance


def test_a_group_for_each_row_is_none_at_all():
    X, ranges = table()
    none = OrderedBoosting(classes=range(3), **QUICK).fit(X, ranges)
    groups = np.random.default_rng(0).permutation(200) * 1.5 - 7
    for own in (groups, [f"patient {group}" for group in groups], pd.Series(groups)):
        other = clone(none).fit(X, ranges, groups=own)
        np.testing.assert_array_equal(other.latent(X), none.latent(X))


def test_names_of_groups_do_not_matter():
    X, ranges = table()
    groups = np.arange(200) // 7
    one = OrderedBoosting(classes=range(3), **QUICK).fit(X, ranges, groups=groups)
    two = clone(one).fit(X, ranges, groups=[f"{(g * 17) % 101}" for g in groups])
    np.testing.assert_array_equal(one.latent(X), two.latent(X))


def test_groups_of_rows_without_a_label_do_not_count():
    X, ranges = table()
    labels, groups = ranges.astype(float), np.arange(200) // 10
    labels[:20] = np.nan
    one = OrderedBoosting(classes=range(3), **QUICK).fit(X, labels, groups=groups)
    two = clone(one).fit(X[20:], ranges[20:], groups=groups[20:])
    np.testing.assert_array_equal(one.latent(X), two.latent(X))


def test_fewer_groups_than_folds():
    X, ranges = table()
    model = OrderedBoosting(classes=range(3), **QUICK)
    with pytest.warns(UserWarning, match="n_folds=8, but the rows with a label are of only 3 gr"):
        model.fit(X, ranges, groups=np.arange(200) % 3)
    assert len(model.memory_.forest.size) == 3 * model.n_iter_


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([1, 2, 3], "groups has 3 values, expected one for each of 4 rows"),
        ([[1, 2, 3, 4]], r"groups should be a 1d array of labels, got an array of shape \(1, 4\)"),
        (1, "groups should be a 1d array of labels, got 1"),
        ([1.0, np.nan, 2.0, 2.0], "groups, row 1: the group is missing"),
        (["a", "b", None, "b"], "groups, row 2: the group is missing"),
        (pd.Series([pd.NA, 1, 2, 3], dtype="Int64"), "groups, row 0: the group is missing"),
        ([7, 7, 7, 7], "groups: all rows with a label are of one group"),
        (
            pd.Series([{}, 1, 2, 3], dtype=object),
            "groups, row 0: labels must be all numbers or all strings, got {} of",
        ),
    ],
)
def test_groups_that_make_no_sense_are_refused(groups, message):
    model = OrderedBoosting()
    with pytest.raises((ValueError, TypeError), match=message) as error:
        model.fit(np.zeros((4, 1)), [0, 1, 0, 1], groups=groups)
    assert isinstance(error.value, pril.errors.PrilError)
    assert not hasattr(model, "memory_")


def test_groups_come_through_pipelines_and_searches():
    X, ranges = table()
    X, groups = np.nan_to_num(X), np.arange(200) // 5
    learner = OrderedBoosting(classes=range(3), max_iter=2, n_folds=2, random_state=0)
    direct = clone(learner).fit(StandardScaler().fit_transform(X), ranges, groups=groups)
    plain = clone(learner).fit(StandardScaler().fit_transform(X), ranges)
    with sklearn.config_context(enable_metadata_routing=True), warnings.catch_warnings():
        routed = make_pipeline(StandardScaler(), learner.set_fit_request(groups=True))
        routed.fit(X, ranges, groups=groups)
        found = cross_validate(
            routed, X, ranges, cv=GroupKFold(3), params={"groups": groups}, error_score="raise"
        )
    assert len(found["test_score"]) == 3
    np.testing.assert_array_equal(routed[-1].validation_loss_, direct.validation_loss_)
    assert not np.array_equal(plain.validation_loss_, direct.validation_loss_)
