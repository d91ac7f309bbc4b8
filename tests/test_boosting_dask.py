"""Boosting on a Dask cluster: the same model, bit for bit, and clear errors."""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from pril import ColumnEncoder, OrderedBoosting
from pril.labels import make_intervals
from pril.learners.boosting import cross_fitting, starts

dd = pytest.importorskip("dask.dataframe", reason="pip install 'pril[dask]'")
distributed = pytest.importorskip("distributed", reason="pip install 'pril[dask]'")
pytest.importorskip("lightgbm", reason="pip install 'pril[boosting]'")

import dask.array as da  # noqa: E402
from dask import delayed  # noqa: E402

import pril.dask  # noqa: E402
from pril.dask.boosting import Workers  # noqa: E402


def table(n=700):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3))
    y = np.digitize(np.abs(X[:, 0]) + X[:, 1] + 0.2 * rng.logistic(size=n), [0.0, 0.8, 1.6])
    X[rng.random(X.shape) < 0.05] = np.nan
    return X, y


def same(one, other, X):
    np.testing.assert_array_equal(one.validation_loss_, other.validation_loss_)
    np.testing.assert_array_equal(one.latent(X), other.latent(X))
    np.testing.assert_array_equal(one.thresholds_, other.thresholds_)
    np.testing.assert_array_equal(one.feature_importances_, other.feature_importances_)
    assert one.coarsening_ == other.coarsening_


@pytest.fixture(params=["sampled", "whole"])
def rows_of_sample(request, monkeypatch):
    if request.param == "sampled":
        monkeypatch.setattr(cross_fitting, "MOST_SAMPLED", 400)
        monkeypatch.setattr(starts, "LANDMARK_ROWS", 0)


@pytest.mark.parametrize("where", ["cluster", "threads"])
def test_the_model_is_that_of_one_process(where, client, rows_of_sample):
    X, y = table()
    ranges = make_intervals(y, 1, 0.5, classes=range(4), random_state=0)
    learner = OrderedBoosting(classes=range(4), max_iter=4, n_folds=3, random_state=0)
    expected = clone(learner).fit(X, ranges)
    lazy = da.from_array(X, chunks=(150, 3)), da.from_array(ranges, chunks=(150, 2))
    options = {"client": client} if where == "cluster" else {}
    model = pril.dask.fit(learner, *lazy, **options)
    same(model, expected, X)
    assert not hasattr(learner, "memory_")


@pytest.mark.parametrize("dtype", ["category", "object"])
def test_categories_and_gaps_come_in_any_block(dtype, client, rows_of_sample):
    X, y = table()
    rng = np.random.default_rng(1)
    towns = np.array(["Rome", "Oslo", "Bonn", None], dtype=object)[rng.integers(0, 4, len(X))]
    towns[:400][towns[:400] == "Oslo"] = "Bath"  # other words in the first blocks
    label = pd.array(np.where(rng.random(len(X)) < 0.1, None, y.astype(object)), dtype="Int64")
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=towns, y=label)
    frame["town"] = frame["town"].astype(dtype)
    learner = OrderedBoosting(classes=range(4), max_iter=4, random_state=0)
    expected = clone(learner).fit(frame.drop(columns="y"), frame["y"])
    model = pril.dask.fit(learner, dd.from_pandas(frame, npartitions=4), "y", client=client)
    assert model.categories_ == expected.categories_ == {"3": ["Bath", "Bonn", "Oslo", "Rome"]}
    same(model, expected, frame.drop(columns="y"))


def test_after_an_encoder_only_the_sums_of_the_encoder_have_other_bytes(tmp_path):
    def to_bytes(model):
        pril.save(model, tmp_path / "model.pril")
        return (tmp_path / "model.pril").read_bytes()

    X, y = table()
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(town=np.where(y > 1, "Rome", "Oslo"))
    encoder = ColumnEncoder(codes=True)
    learner = OrderedBoosting(classes=range(4), max_iter=3, random_state=0)
    pipeline = make_pipeline(encoder, learner)
    expected = clone(pipeline).fit(frame, y)
    blocks = [delayed((frame[t : t + 150], y[t : t + 150])) for t in range(0, len(y), 150)]
    model = pril.dask.fit_blocks(pipeline, blocks)
    one, other = (to_bytes(each[-1]) for each in (model, expected))
    assert one == other
    for name, sums in model[0].moments_._asdict().items():
        np.testing.assert_allclose(sums, getattr(expected[0].moments_, name), rtol=1e-9)
    model[0].moments_ = expected[0].moments_
    one, other = (to_bytes(each) for each in (model, expected))
    assert one == other


@pytest.mark.parametrize("value", [np.inf, 1e200])
def test_a_bad_number_is_named_by_its_block(value, client):
    X, y = table()
    X[333, 1] = value
    lazy = da.from_array(X, chunks=(150, 3)), da.from_array(y, chunks=150)
    with pytest.raises(ValueError, match=r"block 2: .*row 33"):
        pril.dask.fit(OrderedBoosting(max_iter=2), *lazy, client=client)


def test_a_bad_label_is_named_by_its_block_and_row():
    X, y = table(20)
    y[13] = 7
    weight = np.r_[np.zeros(4), np.ones(16)]  # rows that do not count are rows of a block, too
    blocks = [delayed((X[t : t + 5], y[t : t + 5], weight[t : t + 5])) for t in range(0, 20, 5)]
    learner = OrderedBoosting(classes=range(4), max_iter=2)
    with pytest.raises(pril.errors.RowError, match=r"y, block 2, row 3: .*7") as raised:
        pril.dask.fit_blocks(learner, blocks)
    assert raised.value.row == 3


def test_labels_of_two_kinds_are_named_by_their_blocks_and_rows():
    X, _ = table(5)
    blocks = [delayed((X, y)) for y in (list("aabba"), [None, 1, 2, 1, 2])]
    with pytest.raises(TypeError, match="'a' in block 0, row 0 and 1 in block 1, row 1"):
        pril.dask.fit_blocks(OrderedBoosting(), blocks)


@pytest.mark.parametrize("options", [{"mode": "chain"}, {"epochs": 3}])
def test_options_without_meaning_are_refused(options):
    X, y = table(100)
    with pytest.raises(ValueError, match="no meaning for OrderedBoosting"):
        pril.dask.fit(OrderedBoosting(), da.from_array(X), da.from_array(y), **options)


def end_in_a_round(monkeypatch, end):
    """Let something happen when the folds are asked for their third round."""
    each, asked = Workers.each, []

    def watched(self, verb, *arguments):
        asked.append(verb)
        return end(self, verb, arguments) if len(asked) == 3 else each(self, verb, *arguments)

    monkeypatch.setattr(Workers, "each", watched)


@pytest.mark.slow
def test_a_lost_worker_ends_the_fit_and_leaves_nothing(monkeypatch):
    X, y = table(300)
    lazy = da.from_array(X, chunks=(100, 3)), da.from_array(y, chunks=100)
    learner = OrderedBoosting(max_iter=6, random_state=0)
    expected = clone(learner).fit(X, y)
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        with monkeypatch.context() as patch:
            each = Workers.each

            def kill(self, verb, arguments):
                address = sorted(self.held)[0]
                pid = client.submit(os.getpid, workers=[address], pure=False).result()
                os.kill(pid, signal.SIGKILL)
                return each(self, verb, *arguments)

            end_in_a_round(patch, kill)
            with pytest.raises(pril.dask.ClusterLost, match="worker"):
                pril.dask.fit(learner, *lazy, client=client)
        client.wait_for_workers(2)
        assert not hasattr(learner, "memory_")
        deadline = time.monotonic() + 60  # the scheduler is told soon after
        while left := client.run_on_scheduler(lambda dask_scheduler: [*dask_scheduler.tasks]):
            assert time.monotonic() < deadline, left
        same(pril.dask.fit(learner, *lazy, client=client), expected, X)
