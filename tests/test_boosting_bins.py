"""The bins that boosting learns from, and samples that they are found in."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.base import clone

import pril
from pril import OrderedBoosting
from pril.learners.boosting import cross_fitting, folds, starts
from pril.learners.boosting.features import MOST_BINS, Bins
from pril.tables import runs

lightgbm = pytest.importorskip("lightgbm", reason="pip install 'pril[boosting]'")

numbers = st.floats(-1e150, 1e150) | st.sampled_from([0.0, -0.0, 1e-320, -1e-320, 1.0, np.nan])
columns = arrays(np.float64, st.integers(1, 300), elements=numbers)


def codes_of(bins, values):
    return bins.codes(np.asarray(values, dtype=np.float64)[:, np.newaxis])[:, 0]


@given(columns, numbers)
def test_a_split_of_bins_is_one_of_values(column, value):
    bins = Bins.of(column[:, np.newaxis], [])
    codes, edges = codes_of(bins, column), bins.edges[0]
    known, code = codes[~np.isnan(column)], codes_of(bins, [value])[0]
    assert (np.isnan(codes) == np.isnan(column)).all()
    # Every bin occurs, so that a sample shows LightGBM all of them.
    assert np.unique(known).tolist() == list(range(len(np.unique(known))))
    assert len(np.unique(known)) <= MOST_BINS
    if np.isnan(value):
        assert np.isnan(code)
    else:
        for end in range(MOST_BINS):
            assert (code <= end) == (value <= edges[end])


@given(arrays(np.float64, st.integers(1, 200), elements=numbers), st.integers(0, 2**32 - 1))
def test_few_values_have_a_bin_each(column, seed):
    values = np.unique(column)[:MOST_BINS]
    rows = np.random.default_rng(seed).permutation(np.repeat(values, 3))
    codes = codes_of(Bins.of(rows[:, np.newaxis], []), rows)
    known = ~np.isnan(rows)
    expected = np.searchsorted(np.unique(rows[known]), rows[known])
    np.testing.assert_array_equal(codes[known], expected)


def test_neighbouring_numbers_are_told_apart():
    pair = np.array([1.0, np.nextafter(1.0, 2.0)])
    assert codes_of(Bins.of(pair[:, np.newaxis], []), pair).tolist() == [0.0, 1.0]


def test_a_frequent_value_does_not_take_the_bins_of_others():
    rng = np.random.default_rng(0)
    column = np.where(rng.random(20_000) < 0.8, 0.0, rng.exponential(size=20_000))
    codes = codes_of(Bins.of(column[:, np.newaxis], []), column)
    counts = np.bincount(codes.astype(int))
    assert len(counts) > MOST_BINS - 5
    assert counts[1:-1].max() < 3 * counts[1:-1].min()


def test_lightgbm_keeps_every_bin():
    rng = np.random.default_rng(0)
    X = np.column_stack(
        [rng.normal(size=2000), rng.integers(-3, 3, 2000), rng.exponential(size=2000)]
    )
    X[rng.random(X.shape) < 0.05] = np.nan
    bins = Bins.of(X, [])
    parameters = folds.parameters_of(OrderedBoosting(), np.zeros(3))
    data = folds.dataset(bins.codes(X), [], parameters, len(X), None)
    found = [len(np.unique(codes[~np.isnan(codes)])) for codes in bins.codes(X).T]
    assert [data.feature_num_bin(k) - 1 for k in range(3)] == found  # one is for missing values


def table(n=900):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    X[:, 3] = rng.integers(0, 5, n)
    y = np.digitize(
        np.abs(X[:, 0]) + X[:, 1] * (X[:, 3] > 2) + 0.2 * rng.logistic(size=n), [0.5, 1.2]
    )
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


@pytest.fixture
def sampled(monkeypatch):
    """Let a sample have so many rows; as in a large table, there are no landmarks."""

    def set_rows(n):
        monkeypatch.setattr(cross_fitting, "MOST_SAMPLED", n)

    monkeypatch.setattr(starts, "LANDMARK_ROWS", 0)
    return set_rows


def test_blocks_and_their_size_change_no_bit(sampled, monkeypatch):
    X, y = table()
    learner = OrderedBoosting(max_iter=15, random_state=0, categorical_features=[3])
    sampled(300)
    latent = []
    for rows in (1 << 16, 128):
        monkeypatch.setattr(folds, "PUSHED_ROWS", rows)
        latent.append(clone(learner).fit(X, y).latent(X))
    np.testing.assert_array_equal(*latent)


def test_bins_of_a_sample_are_enough(sampled):
    X, y = table(4000)
    learner = OrderedBoosting(max_iter=40, random_state=0, categorical_features=[3])
    whole = clone(learner).fit(X[:2000], y[:2000])
    sampled(700)
    part = clone(learner).fit(X[:2000], y[:2000])
    errors = [np.abs(model.predict(X[2000:]) - y[2000:]).mean() for model in (whole, part)]
    assert errors[1] < 1.1 * errors[0]
    assert (part.latent(X) != whole.latent(X)).any()


def test_rows_beyond_the_sample_are_learned_from(sampled):
    X, y = table(1500)
    sampled(500)
    model = OrderedBoosting(max_iter=40, random_state=0).fit(X, y)
    sampled(1500)
    few = np.random.RandomState(0).permutation(1500)[:500]
    alone = OrderedBoosting(max_iter=40, random_state=0).fit(X[few], y[few])
    new, truth = table(6000)
    errors = [np.abs(m.predict(new[1500:]) - truth[1500:]).mean() for m in (model, alone)]
    assert errors[0] < 0.95 * errors[1]


@pytest.mark.parametrize("seed", range(3))
def test_a_fold_of_which_the_sample_has_no_row(seed, sampled):
    """With groups, a fold may be one row."""
    X, y = table(300)
    sampled(60)
    groups = np.append(np.arange(299) % 7, 7)
    model = OrderedBoosting(max_iter=30, random_state=seed).fit(X, y, groups=groups)
    assert (model.predict(X) == y).mean() > 0.75


def test_more_bins_than_a_feature_may_have_are_shared():
    column = np.arange(1000.0)
    codes = codes_of(Bins.of(column[:, np.newaxis], []), column)
    counts = np.bincount(codes.astype(int))
    assert len(counts) == MOST_BINS
    assert counts.max() - counts.min() <= 8


# --- Tables ---


@pytest.mark.parametrize(
    "options", [(), ("--class-weight=balanced",), ("--weight", "w"), ("--groups=g",)]
)
def test_a_large_table_teaches_what_its_rows_in_memory_teach(
    options, sampled, monkeypatch, good, tmp_path
):
    """Words, gaps, rows without a label or weight; a sample and blocks that cut it anywhere."""
    rng = np.random.default_rng(0)
    X, y = table(900)
    words = np.array(["red", "green", "blue", None], dtype=object)[rng.integers(0, 4, 900)]
    label = np.where(rng.random(900) < 0.1, None, y.astype(object))
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(
        colour=words,
        y=pd.array(label, dtype="Int64"),
        w=rng.integers(0, 3, 900) * 2.0**-160,  # too small for single precision
        g=np.arange(900) % 45,
    )
    frame.to_parquet(tmp_path / "t.parquet", row_group_size=100)
    fit = ["fit", "t.parquet", "--label=y", "--classes=0,1,2", "--model=boosting", *options]
    fit += ["--set=max_iter=9", "--set=learning_rate=1", "--overwrite", "-o"]
    sampled(400)
    monkeypatch.setattr(runs, "MOST_SAMPLED", 10**6)
    good(*fit, "whole.pril")
    monkeypatch.setattr(runs, "MOST_SAMPLED", 400)
    for rows in (64, 1000):
        monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", rows)
        good(*fit, "bins.pril")
        whole, bins = (pril.load(tmp_path / f"{name}.pril") for name in ("whole", "bins"))
        np.testing.assert_array_equal(
            bins.predict_proba(frame.drop(columns="y")),
            whole.predict_proba(frame.drop(columns="y")),
        )
        np.testing.assert_array_equal(bins[-1].validation_loss_, whole[-1].validation_loss_)


def test_cells_of_a_large_table_are_not_kept(sampled, monkeypatch, good, tmp_path):
    """Its bins are read from the table: cells would only take memory, 8 bytes each."""
    X, y = table(900)
    pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(y=y).to_parquet(tmp_path / "t.parquet")
    sampled(400)
    monkeypatch.setattr(runs, "MOST_SAMPLED", 400)
    monkeypatch.setattr(runs.BoostingRun, "most_kept", 400)
    monkeypatch.setattr("pril.tables.files.BLOCK_ROWS", 64)
    kept, learn = [], runs.BoostingRun.learn

    def watched(run):
        kept.append(len(run.cells.blocks))
        learn(run)

    monkeypatch.setattr(runs.BoostingRun, "learn", watched)
    good(
        "fit",
        "t.parquet",
        "--label=y",
        "--model=boosting",
        "--set=max_iter=9",
        "--set=learning_rate=1",
    )
    assert kept == [0]


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("a", np.inf, "not finite"),
        ("a", 1e200, "too large"),
        ("y", 7, "7"),
        ("w", 1e120, "weights"),
    ],
)
def test_a_bad_cell_of_a_large_table_is_named(
    column, value, reason, sampled, monkeypatch, bad, tmp_path
):
    X, y = table(900)
    frame = pd.DataFrame(X[:, :3], columns=["a", "b", "c"]).assign(y=y.astype(float), w=1.0)
    frame.loc[777, column] = value
    frame.to_parquet(tmp_path / "t.parquet")
    sampled(400)
    monkeypatch.setattr(runs, "MOST_SAMPLED", 400)
    said = bad(
        "fit", "t.parquet", "--label=y", "--classes=0,1,2", "--model=boosting", "--holdout=0",
        "--weight=w",
    )  # fmt: skip
    assert "row 778" in said
    assert reason in said
    assert not list(tmp_path.glob("*.pril"))
