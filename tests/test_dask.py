"""Learners on Dask: equal to memory, equal to a slow twin, and what happens when things break."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import joblib
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster, get_client, worker_client
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_matrix, csr_array
from sklearn.exceptions import DataConversionWarning, NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pril.dask
import reference
from pril import (
    MPRIL,
    PRIL,
    ColumnEncoder,
    KernelPRIL,
    MulticlassPerceptron,
    OrderedLogit,
    PolynomialMap,
    PRank,
    WidrowHoff,
)
from pril.dask.blocks import blocks_of
from pril.errors import FeatureRangeWarning, InputError
from pril.labels import ClassOrderWarning, make_intervals
from pril.paper.datasets import load_abalone, load_parkinsons, make_synthetic
from strategies import cuts, exact_streams
from tables import assert_same_model

LINEAR = [PRIL, MPRIL, PRank, WidrowHoff, MulticlassPerceptron]
CLASSES = [1, 2, 3, 4]


def within(seconds, function, *arguments, **options):
    """Call a function that must end."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *arguments, **options).result(timeout=seconds)


def table(n=400, d=4, K=4, seed=0, noise=0.3):
    """Return features in [-1, 1], exact labels 1..K on a noisy line, and intervals around them."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, d))
    score = X @ rng.normal(size=d) + noise * rng.normal(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, K) / K)) + 1
    return X, y, make_intervals(y, 1, 0.75, random_state=seed)


def lazy(array, chunk=50):
    return da.from_array(array, chunks=(chunk, *array.shape[1:]))


def as_csr(X):
    return X.map_blocks(csr_array, dtype=X.dtype, meta=csr_array((0, 0)))


X_Y = table(100)[:2]


# --- Chain: the online algorithm itself ---


@settings(max_examples=30)
@given(exact_streams(), st.data(), st.sampled_from([PRIL, MPRIL, WidrowHoff, MulticlassPerceptron]))
def test_chain_is_partial_fit_however_the_rows_are_cut(stream, data, cls):
    parts = data.draw(cuts(len(stream.X)))
    estimator = cls(classes=stream.classes)
    blocks = [(dask.delayed(stream.X[a:b]), dask.delayed(stream.y[a:b])) for a, b in parts]
    with (
        pytest.MonkeyPatch.context() as patch,
        dask.config.set(scheduler="sync"),
        warnings.catch_warnings(),
    ):
        patch.setattr("pril.dask.mix.WINDOW", 2)  # a pass in several graphs
        warnings.simplefilter("ignore", FeatureRangeWarning)
        model = pril.dask.fit_blocks(estimator, blocks, mode="chain", epochs=1)
        expected = cls(classes=stream.classes).partial_fit(stream.X, stream.y)
    assert_same_model(model, expected)
    assert model.n_iter_ == 1


@pytest.mark.parametrize(
    ("cls", "container"), [*((cls, lazy) for cls in LINEAR), (PRIL, lambda X: as_csr(lazy(X)))]
)
@pytest.mark.parametrize("tol", [None, 0.05])
def test_chain_is_fit_without_shuffling(cls, container, tol):
    X, y, _ = table()
    estimator = cls(max_iter=7, shuffle=False, tol=tol, n_iter_no_change=2)
    in_memory = csr_array(X) if container is not lazy else X
    model = pril.dask.fit(estimator, container(X), lazy(y), mode="chain")
    expected = estimator.fit(in_memory, y)
    assert_same_model(model, expected)
    assert model.n_iter_ == expected.n_iter_


def test_chain_runs_the_kernel_learner():
    X, _, y = table(120)
    estimator = KernelPRIL(gamma=1.0, classes=CLASSES)
    model = pril.dask.fit(estimator, lazy(X, 40), lazy(y, 40), mode="chain", epochs=1)
    for start in (0, 40, 80):
        estimator.partial_fit(X[start : start + 40], y[start : start + 40])
    np.testing.assert_array_equal(model.latent(X), estimator.latent(X))
    np.testing.assert_array_equal(model.thresholds_, estimator.thresholds_)


# --- Mix: against the slow twin ---


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("shuffle", [False, True])
def test_mixing_is_the_slow_twin(seed, shuffle):
    """Thresholds are integers, and what rounding drops in a round is added in the next one."""
    K, rounds = 5, 5
    X, _, y = table(256, K=K, seed=seed)  # a power of two: means are exact, and so are ties
    X = np.round(X * 64) / 64  # exact sums in any order
    ends = [0, 50, 100, 100, 170, 256]  # unequal, one empty
    parts = [(X[a:b], y[a:b]) for a, b in pairwise(ends)]
    drawn = np.random.RandomState(seed).randint(2**31)

    def order(n, r, b):
        rng = np.random.default_rng((drawn, r, b))
        return reference.shuffled(n, rng) if shuffle else np.arange(n)

    passes = [
        [
            (Xb[order(len(Xb), r, b)], yb[order(len(Xb), r, b)])
            for b, (Xb, yb) in enumerate(parts)
            if len(Xb)
        ]
        for r in range(1, rounds + 1)
    ]
    blocks = [(dask.delayed(Xb), dask.delayed(yb)) for Xb, yb in parts]
    options = {"classes": range(1, K + 1), "shuffle": shuffle, "random_state": seed}
    for epochs in range(1, rounds + 1):
        last, means = reference.mixed(passes[:epochs], K, 1.5, np.zeros(K - 1), True)
        mean = reference.mean(means[epochs // 2 :])
        for average, (w, theta) in ((False, last), (True, mean)):
            estimator = PRIL(average=average, **options)
            model = pril.dask.fit_blocks(estimator, blocks, epochs=epochs)
            np.testing.assert_allclose(model.coef_, w, rtol=1e-9, atol=1e-9)
            rounding = 0.5 / model.t_ + 1e-9 if average else 0
            np.testing.assert_allclose(model.thresholds_, theta, rtol=0, atol=rounding)
            assert (np.diff(model.thresholds_) >= 0).all()
            assert (model.t_, model.n_iter_) == (epochs * len(X), epochs)


@pytest.mark.parametrize("cls", [PRIL, MPRIL, PRank])
def test_thresholds_stay_in_order_after_every_round(cls):
    """Close thresholds and few rows a block."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (240, 2)), rng.integers(1, 9, 240)
    blocks = [tuple(map(dask.delayed, (X[i : i + 8], y[i : i + 8]))) for i in range(0, 240, 8)]
    estimator = cls(classes=range(1, 9), random_state=0)
    with dask.config.set(scheduler="sync"):
        for epochs in (1, 2, 8):
            model = pril.dask.fit_blocks(estimator, blocks, epochs=epochs)
            assert (np.diff(model.thresholds_) >= 0).all()


def test_short_blocks_learn_close_thresholds():
    """Blocks of 20 rows make few mistakes each, so a round moves thresholds by less than a half."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 5))
    y = np.digitize(X @ [1, -1, 0.5, 0.2, -0.3], [0, 2.5, 3.0])
    estimator = PRIL(classes=[0, 1, 2, 3], random_state=0)
    with dask.config.set(scheduler="sync"):
        model = pril.dask.fit(estimator, lazy(X, 20), lazy(y, 20), epochs=20)
    thresholds = model.thresholds_ / np.linalg.norm(model.coef_)
    truth = np.array([0, 2.5, 3.0]) / np.linalg.norm([1, -1, 0.5, 0.2, -0.3])
    np.testing.assert_allclose(thresholds, truth, atol=0.02)


@pytest.mark.parametrize("cls", LINEAR)
def test_mixed_models_are_about_as_good(cls):
    mixed, alone = [], []
    for seed in range(3):
        X, y, intervals = table(4000, seed=seed)
        labels = y if cls is PRank else intervals
        estimator = cls(classes=CLASSES, random_state=seed)
        model = pril.dask.fit(estimator, lazy(X, 500), lazy(labels, 500))
        mixed.append(np.abs(model.predict(X) - y).mean())
        alone.append(np.abs(estimator.fit(X, labels).predict(X) - y).mean())
    assert np.mean(mixed) <= 1.02 * np.mean(alone)


@pytest.mark.parametrize("copies", [1, 3])
def test_mixed_exponents_may_be_large(copies):
    """The mean of equal models is that model, also where exponents are in the thousands."""
    X, _, y = table()
    estimator = MPRIL(classes=CLASSES, rate=20.0, shuffle=False)
    blocks = [(dask.delayed(X), dask.delayed(y))] * copies
    with dask.config.set(scheduler="sync"):
        model = pril.dask.fit_blocks(estimator, blocks, epochs=1)
    alone = estimator.partial_fit(X, y)
    assert alone.rate * alone.n_mistakes_ > 2000
    for found, expected in ((model.coef_, alone.coef_), (model.thresholds_, alone.thresholds_)):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_a_mixed_model_goes_on_learning():
    """Its average goes on from the average of the rounds, its iterate from the common model."""
    X, _, y = table()
    both = [
        pril.dask.fit(PRIL(classes=CLASSES, random_state=0, average=average), lazy(X), lazy(y))
        for average in (True, False)
    ]
    (average, last), total = both, 0.0
    mean, t = np.append(average.coef_, average.thresholds_), average.t_
    for k, (row, label) in enumerate(zip(X[:20], y[:20], strict=True), 1):
        for model in both:
            model.partial_fit(row[np.newaxis], label[np.newaxis])
        total = total + np.append(last.coef_, last.thresholds_)
        found = np.append(average.coef_, average.thresholds_)
        np.testing.assert_allclose(found, (t * mean + total) / (t + k), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", ["mix", "chain"])
def test_a_round_without_a_mistake_is_the_last(mode):
    X, y, _ = table(150, noise=0.0, K=2)
    model = pril.dask.fit(PRIL(random_state=0), lazy(X), lazy(y), mode=mode, epochs=1000)
    assert model.n_iter_ < 1000
    last = PRIL(average=False, random_state=0)
    last = pril.dask.fit(last, lazy(X), lazy(y), mode=mode, epochs=1000)
    assert last.score(X, y) == 1.0


def test_no_progress_ends_mixing():
    X, _, y = table()
    estimator = PRIL(classes=CLASSES, random_state=0, tol=1.0, n_iter_no_change=2)
    assert pril.dask.fit(estimator, lazy(X), lazy(y)).n_iter_ == 3


# --- The maximum of a likelihood: the steps of `fit` ---


@pytest.fixture
def small_sums(monkeypatch):
    """Cut 300 rows into five blocks, whose sums are added in a tree of three levels."""
    monkeypatch.setattr("pril.likelihood.rows.BLOCK_ROWS", 64)
    monkeypatch.setattr("pril.likelihood.rows.FAN_IN", 2)
    monkeypatch.setattr("pril.likelihood.fitting.MOST_COMPARED", 100)


def assert_same_maximum(one, other):
    assert_same_model(one, other)
    assert (one.loglik_, one.n_iter_) == (other.loglik_, other.n_iter_)
    for name, part in one.memory_.parts().items():
        np.testing.assert_array_equal(part, other.memory_.parts()[name])


@pytest.mark.parametrize("chunk", [41, 100])
@pytest.mark.parametrize(
    ("container", "options"),
    [
        (lazy, {}),
        (lazy, {"classes": CLASSES, "half_life": 40.0}),
        (lazy, {"class_weight": "balanced", "coarsening": "random"}),
        (lambda X, chunk: lazy(X.astype(np.float32), chunk), {"class_weight": {1: 0.0, 2: 3.0}}),
        (lambda X, chunk: as_csr(lazy(X, chunk)), {"coarsening": "random"}),
    ],
)
def test_the_maximum_is_that_of_memory(small_sums, chunk, container, options):
    X, _, y = table(300)
    y = y.astype(float)
    y[::11] = np.nan  # rows without a label
    if "coarsening" not in options:
        X, y = X[:120], y[:120]
    estimator = OrderedLogit(**options)
    with dask.config.set(scheduler="sync"):
        X = container(X, chunk)
        model = pril.dask.fit(estimator, X, lazy(y, chunk))
        expected = estimator.fit(X.compute(), y)
    assert_same_maximum(model, expected)
    np.testing.assert_array_equal(model.get_params()["class_weight"], estimator.class_weight)


def test_blocks_with_weights_have_the_maximum_of_memory(small_sums):
    X, y, _ = table(300)
    weights = np.random.default_rng(0).integers(0, 3, 300) / 2
    weights[50:90] = 0.0
    cut = [0, 50, 50, 90, 300]
    blocks = [dask.delayed((X[a:b], y[a:b], weights[a:b])) for a, b in pairwise(cut)]
    with dask.config.set(scheduler="threads"):
        model = pril.dask.fit_blocks(OrderedLogit(), blocks)
    assert_same_maximum(model, OrderedLogit().fit(X, y, weights))


def test_workers_give_the_bits_of_one_process(client):
    """Whatever the number of threads that BLAS has there and here."""
    rng = da.random.default_rng(0)
    X, noise = (
        rng.normal(size=(10_000, 33), chunks=(3000, -1)),
        rng.normal(size=10_000, chunks=3000),
    )
    y = da.digitize(X[:, 0] + noise, [-1.0, 0.0, 1.0])
    model = pril.dask.fit(OrderedLogit(), X, y, client=client)
    assert_same_maximum(model, OrderedLogit().fit(X.compute(), y.compute()))


def test_many_features_are_learned_by_the_client(monkeypatch):
    X, y, _ = table(200, d=20)
    X = np.tile(X, 51)  # 1020 features
    with dask.config.set(scheduler="sync"):
        lazily = lazy(X, 80), lazy(y, 80)
        assert_same_maximum(pril.dask.fit(OrderedLogit(), *lazily), OrderedLogit().fit(X, y))
        monkeypatch.setattr("pril.dask.maximum.available_memory", lambda: 1000)
        with pytest.raises(ValueError, match="200 rows of 1,020 features take 1,635,200 bytes, an"):
            pril.dask.fit(OrderedLogit(), *lazily)


LATER = np.where(np.arange(100)[:, np.newaxis] < 50, 0.0, X_Y[0])  # features of the second block


@pytest.mark.parametrize(
    ("X", "y", "options", "says"),
    [
        (X_Y[0], X_Y[1], {"mode": "chain"}, "mode and epochs have no meaning for OrderedLogit"),
        (X_Y[0], X_Y[1], {"epochs": 2}, "mode and epochs have no meaning for OrderedLogit"),
        (X_Y[0][:0], X_Y[1][:0], {}, "X has no rows in any block"),
        (X_Y[0], np.full(100, np.nan), {}, "y has no label in any row that counts"),
        (LATER * 1e200, X_Y[1], {}, r"block 1: X, row \d+: X is finite, but OrderedLogit overf"),
        (np.where(LATER > 0.9, np.nan, LATER), X_Y[1], {}, r"block 1: X, row \d+: feature \d is"),
    ],
)
def test_what_has_no_maximum_is_refused_with_a_sentence(X, y, options, says):
    blocks = [dask.delayed((X[:50], y[:50])), dask.delayed((X[50:], y[50:]))]
    with pytest.raises(ValueError, match=says), dask.config.set(scheduler="sync"):
        pril.dask.fit_blocks(OrderedLogit(classes=CLASSES), blocks, **options)


# --- Both ways ---


def test_the_estimator_given_is_not_changed_and_the_result_is_the_same_again():
    X, _, y = table()
    estimator = PRIL(classes=CLASSES, random_state=3)
    one, other = (pril.dask.fit(estimator, lazy(X), lazy(y)) for _ in range(2))
    assert_same_model(one, other)
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    assert not np.array_equal(
        one.coef_, pril.dask.fit(estimator.set_params(random_state=4), lazy(X), lazy(y)).coef_
    )


@pytest.mark.parametrize("mode", ["mix", "chain"])
def test_tasks_leave_their_inputs_alone(mode):
    X, _, y = table(100)
    for array in (X, y):
        array.flags.writeable = False
    fit = partial(pril.dask.fit, PRIL(classes=CLASSES, random_state=0), mode=mode, epochs=2)
    assert_same_model(fit(lazy(X), lazy(y)), fit(lazy(X.copy()), lazy(y.copy())))


# --- What may be X and y ---


def frame(n=200):
    X, y, intervals = table(n)
    data = pd.DataFrame(X, columns=["a", "b", "c", "d"], index=np.arange(n) * 10)
    return data.assign(exact=y, lower=intervals[:, 0], upper=intervals[:, 1])


@pytest.mark.parametrize("mode", ["mix", "chain"])
def test_every_spelling_of_the_same_table_learns_the_same(tmp_path, mode):
    data = frame()
    features, ends = ["a", "b", "c", "d"], ["lower", "upper"]
    whole = dd.from_pandas(data, npartitions=4)
    for part in range(4):
        whole.partitions[part].compute().to_parquet(tmp_path / f"{part}.parquet")
    parquet = dd.read_parquet(tmp_path)
    sizes = tuple(whole.map_partitions(len).compute())
    X = da.from_array(data[features].to_numpy(), chunks=(sizes, 4))
    y = da.from_array(data[ends].to_numpy(), chunks=(sizes, 2))
    fit = partial(pril.dask.fit, PRIL(classes=CLASSES, random_state=0), mode=mode, epochs=3)
    expected = fit(X, y)
    named = whole[[*features, *ends]]
    for model in (
        fit(X, y.rechunk((37, 1))),
        fit(as_csr(X), y) if mode == "chain" else fit(X.astype(float), y),
        fit(whole[features].to_dask_array(), whole[ends].to_dask_array()),  # of unknown length
        fit(whole[features], whole[ends]),
        fit(whole[features], y),
        fit(named, ends),
        fit(named, ("lower", "upper")),
        fit(parquet[[*features, *ends]], ends),
    ):
        np.testing.assert_allclose(model.coef_, expected.coef_, rtol=1e-12)
        np.testing.assert_array_equal(model.thresholds_, expected.thresholds_)
    assert fit(named, ends).feature_names_in_.tolist() == features
    numbered = named.rename(columns={name: k for k, name in enumerate(named.columns)})
    np.testing.assert_allclose(fit(numbered, [4, 5]).coef_, expected.coef_, rtol=1e-12)
    one = numbered.drop(columns=5)
    np.testing.assert_array_equal(fit(one, 4).coef_, fit(whole[features], whole["lower"]).coef_)
    exact = fit(whole[[*features, "exact"]], "exact")
    np.testing.assert_array_equal(exact.coef_, fit(whole[features], whole["exact"]).coef_)


@pytest.mark.parametrize("mode", ["mix", "chain"])
@pytest.mark.parametrize("container", [list, np.ndarray.tolist, coo_matrix, csr_array])
def test_blocks_are_what_partial_fit_takes(mode, container):
    X, y, _ = table(100)
    fit = partial(pril.dask.fit_blocks, PRIL(classes=CLASSES, random_state=0), mode=mode)
    blocks = [
        (dask.delayed(container(X[a : a + 50])), dask.delayed(y[a : a + 50])) for a in (0, 50)
    ]
    plain = [(dask.delayed(X[a : a + 50]), dask.delayed(y[a : a + 50])) for a in (0, 50)]
    np.testing.assert_allclose(fit(blocks).coef_, fit(plain).coef_, rtol=1e-9)


@pytest.mark.parametrize("mode", ["mix", "chain"])
@pytest.mark.parametrize("kind", ["array", "frame"])
def test_blocks_are_read_once_a_round(mode, kind):
    X, y, _ = table(100)
    reads = []

    def read(block):
        reads.append(len(block))
        return block

    if kind == "array":
        lazily = lazy(X).map_blocks(read, dtype=float, meta=X[:0])
    else:
        lazily = dd.from_pandas(pd.DataFrame(X, columns=list("abcd")), npartitions=2)
        lazily = lazily.map_partitions(read, meta=lazily._meta)
    with dask.config.set(scheduler="sync"):
        model = pril.dask.fit(PRIL(classes=CLASSES), lazily, lazy(y), mode=mode, epochs=3)
    assert reads == [50] * 6
    assert model.n_features_in_ == 4


def test_a_block_comes_with_its_own_tasks_only():
    """Else Dask goes through the tasks of all blocks for each block."""
    X, y, _ = table(400)
    data = dd.from_pandas(frame(400), npartitions=8)
    for args in ((lazy(X) + 1, lazy(y)), (data[["a", "b"]] + 1, data.exact), (data, "exact")):
        for block in blocks_of(*args):
            parts = block if isinstance(block, tuple) else (block,)
            assert sum(len(dict(part.__dask_graph__())) for part in parts) <= 6


def test_empty_partitions_and_blocks_of_one_class():
    data = frame().sort_values("exact")
    whole = dd.from_pandas(data[["a", "b", "c", "d", "exact"]], npartitions=4, sort=False)
    some = whole[whole.exact != 2]
    for mode in ("mix", "chain"):
        estimator = PRIL(classes=CLASSES, random_state=0)
        model = pril.dask.fit(estimator, some, "exact", mode=mode)
        X = some.drop(columns="exact")
        predicted = pril.dask.predict(model, X)
        pd.testing.assert_index_equal(predicted.compute().index, X.compute().index)
        score = pril.dask.score(model, some, "exact").compute()
        in_memory = some.compute()
        assert score == model.score(in_memory.drop(columns="exact"), in_memory.exact)


@pytest.mark.parametrize("mode", ["mix", "chain"])
@pytest.mark.parametrize("cls", LINEAR)
def test_one_class_is_learned(cls, mode):
    X, _, _ = table(100)
    model = pril.dask.fit(cls(), lazy(X), lazy(np.full(100, 7)), mode=mode)
    assert (model.predict(X) == 7).all()


@pytest.mark.parametrize("mode", ["mix", "chain"])
def test_no_rows_at_all_are_refused(mode):
    X, _, y = table(20)
    blocks = [(dask.delayed(X[:0]), dask.delayed(y[:0]))] * 2
    with pytest.raises(ValueError, match="X has no rows in any block"):
        pril.dask.fit_blocks(PRIL(classes=CLASSES), blocks, mode=mode)
    for estimator in (PRIL(classes=CLASSES), make_pipeline(ColumnEncoder(), PRIL())):
        with pytest.raises(ValueError, match="X has no blocks"):
            pril.dask.fit_blocks(estimator, [], mode=mode)


X, Y, INTERVALS = table(100)
SHIFTED = dd.from_pandas(frame().set_index(np.arange(200) * 10 - 500), npartitions=2)


@pytest.mark.parametrize(
    ("X", "y", "options", "says"),
    [
        (X, lazy(Y), {}, "X must be a Dask array or DataFrame, got ndarray"),
        (lazy(X), Y, {}, "y must be a Dask array or DataFrame, got ndarray"),
        (lazy(X).rechunk((50, 2)), lazy(Y), {}, r"2 blocks of columns.*X.rechunk\(\{1: -1\}\)"),
        (lazy(X)[:, 0], lazy(Y), {}, "X must be a table of rows"),
        (lazy(X), lazy(Y)[:-1], {}, "X has 100 rows, y has 99 labels"),
        (lazy(X)[lazy(X)[:, 0] > -2], lazy(Y, 25), {}, "X has 2 blocks and y has 4"),
        (lazy(X), "exact", {}, "y names columns, but X is not a Dask DataFrame"),
        (lazy(X), lazy(Y), {"mode": "sum"}, "mode must be 'mix' or 'chain'"),
        (lazy(X), lazy(Y), {"epochs": 0}, "epochs must be a positive integer"),
        (lazy(X), lazy(Y), {"epochs": True}, "epochs must be a positive integer"),
        (dd.from_pandas(frame(), npartitions=2), "grade", {}, "X has no column 'grade'"),
        (dd.from_pandas(frame(), npartitions=2), ["a", "b", "c"], {}, "one column, or a lower and"),
        (dd.from_pandas(frame(), npartitions=2), 3, {}, "X has no column 3"),
        (lazy(X), 3, {}, "y must be a Dask array or DataFrame, got int"),
        (SHIFTED[list("abcd")], dd.from_pandas(frame(), npartitions=2).exact, {}, r"X has the divisions \[-500.*y\.repartition"),
        (lazy(X)[lazy(X)[:, 0] > 0], lazy(Y), {}, r"block \d: X and y have inconsistent numbers"),
        (lazy(X), lazy(np.where(np.arange(100) == 70, 9, Y)), {"classes": CLASSES}, "block 1: y, row 20: 9 is not"),
        (lazy(X), lazy(np.where(np.arange(100) == 70, 1.5, Y)), {}, r"y, block 1, row 20: Unknown label type: continuous. 1\.5"),
        (lazy(X), lazy(INTERVALS[:, ::-1]), {}, r"y, block \d, row \d+: lower end . is above"),
        (lazy(np.where(np.arange(100)[:, None] == 70, np.nan, X)), lazy(Y), {}, "block 1: X, row 20: feature 0 is NaN"),
        (lazy(X * 1e200), lazy(Y), {}, r"block \d: X, row \d+: X is finite, but PRIL overflowed"),
    ],
)  # fmt: skip
def test_what_cannot_be_learned_is_refused_with_a_sentence(X, y, options, says):
    estimator = PRIL(classes=options.pop("classes", None))
    with pytest.raises((TypeError, ValueError), match=says):
        pril.dask.fit(estimator, X, y, **options)


def test_a_pipeline_with_fitted_steps_learns_what_its_learner_learns_after_them():
    scaler = StandardScaler().fit(X[:60])
    blocks = da.concatenate([lazy(X), lazy(X[:0])]), da.concatenate([lazy(Y), lazy(Y[:0])])
    for mode in ("chain", "mix"):
        estimator = PRIL(classes=CLASSES, random_state=0)
        model = pril.dask.fit(make_pipeline(scaler, estimator), *blocks, mode=mode)
        alone = pril.dask.fit(estimator, lazy(scaler.transform(X)), lazy(Y), mode=mode)
        assert_same_model(model[-1], alone)
        np.testing.assert_array_equal(
            pril.dask.predict(model, blocks[0]).compute(), model.predict(X)
        )
        scores = alone.latent(scaler.transform(X))
        np.testing.assert_array_equal(pril.dask.latent(model, blocks[0]).compute(), scores)
        assert pril.dask.score(model, *blocks).compute() == model.score(X, Y)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # Dask's, of pandas 3.1
def test_an_encoder_of_columns_is_fitted_to_all_rows_on_the_cluster(client):
    frame = pd.DataFrame(X, columns=list("abcd")).assign(
        town=np.where(Y > 2, "Rome", "Oslo"), rating=Y
    )
    frame.loc[99, "town"] = "Bern"  # in the last block only
    index = pd.Index(np.random.default_rng(0).permutation(100), name="number")  # no feature
    numbered = frame.set_index(index)
    lazily = dd.from_pandas(numbered, npartitions=4, sort=False)
    estimator = make_pipeline(ColumnEncoder(), PRIL(classes=CLASSES, random_state=0))
    model = pril.dask.fit(estimator, lazily, "rating", mode="chain", epochs=1, client=client)
    features = frame.drop(columns="rating")
    whole = ColumnEncoder().fit(features)
    assert model[0].get_feature_names_out().tolist() == whole.get_feature_names_out().tolist()
    np.testing.assert_allclose(model[0].transform(features), whole.transform(features), atol=1e-12)
    expected = PRIL(classes=CLASSES).partial_fit(model[0].transform(features), Y)
    assert_same_model(model[-1], expected)
    predicted = pril.dask.predict(model, lazily.drop(columns="rating"))
    np.testing.assert_array_equal(predicted.compute(), model.predict(features))


def test_an_encoder_that_is_fitted_stays_as_it_is():
    frame = pd.DataFrame(X, columns=list("abcd")).assign(rating=Y)
    encoder = ColumnEncoder().fit(frame[list("abcd")][:30])
    scaled = encoder.transform(frame[list("abcd")])
    learner = PRIL(classes=CLASSES, random_state=0)
    alone = pril.dask.fit(learner, da.from_array(scaled, chunks=(25, 4)), da.from_array(Y, 25))
    lazily = dd.from_pandas(frame, npartitions=4)
    for first in (encoder, FrozenEstimator(encoder)):
        model = pril.dask.fit(make_pipeline(first, learner), lazily, "rating")
        np.testing.assert_array_equal(model[0].transform(frame[list("abcd")]), scaled)
        assert_same_model(model[-1], alone)


def test_of_columns_that_cannot_be_read_the_first_block_is_named():
    """However soon the others are found."""
    tables = [pd.DataFrame({"a": np.append(np.zeros(n), np.inf)}) for n in (200_000, 0, 0, 0)]
    blocks = [dask.delayed((table, np.ones(len(table)))) for table in tables]
    pipeline = make_pipeline(ColumnEncoder(), PRIL(classes=CLASSES))
    with pytest.raises(ValueError, match=r"^block 0: X, row 200000: column 'a' is inf"):
        pril.dask.fit_blocks(pipeline, blocks)


def test_blocks_of_a_pipeline_may_have_weights():
    table, rng = pd.DataFrame(X, columns=list("abcd")), np.random.default_rng(0)
    weights = rng.uniform(0.5, 2.0, len(Y))
    blocks = [(table[a : a + 25], Y[a : a + 25], weights[a : a + 25]) for a in range(0, 100, 25)]
    learner = PRIL(classes=CLASSES, random_state=0)
    model = pril.dask.fit_blocks(make_pipeline(ColumnEncoder(), learner), map(dask.delayed, blocks))
    encoded = [dask.delayed((model[0].transform(rows), *rest)) for rows, *rest in blocks]
    assert_same_model(model[-1], pril.dask.fit_blocks(learner, encoded))


def test_learners_that_cannot_are_refused_with_a_sentence():
    pipeline = make_pipeline(StandardScaler(), PRIL())
    with pytest.raises(
        NotFittedError, match=r"step 'standardscaler' .* X.head\(10_000\), or use a C"
    ):
        pril.dask.fit(pipeline, lazy(X), lazy(Y))
    with pytest.raises(TypeError, match=r"or a Pipeline that ends in one, got StandardScaler"):
        pril.dask.fit(make_pipeline(StandardScaler()), lazy(X), lazy(Y))
    with pytest.raises(ValueError, match=r"cannot learn KernelPRIL: .* the support rows of all"):
        pril.dask.fit(KernelPRIL(), lazy(X), lazy(Y))
    with pytest.raises(NotFittedError):
        pril.dask.predict(PRIL(), lazy(X))
    multiclass = MulticlassPerceptron().fit(X, Y)
    with pytest.raises(TypeError, match="not one latent score"):
        pril.dask.latent(multiclass, lazy(X))


# --- Classes ---


@pytest.mark.parametrize(
    "y",
    [
        Y,
        Y * 2 - 7,
        np.where(Y == 2, np.nan, Y),
        INTERVALS,
        np.where(Y < 3, "lo", "up").astype(object),
    ],
)
def test_classes_are_those_of_memory(y):
    expected = PRIL(random_state=0).fit(X, y).classes_
    found = pril.dask.fit(PRIL(random_state=0), lazy(X), lazy(y)).classes_
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype


def test_warnings_are_those_of_memory_and_name_the_block():
    words = np.array(["bad", "fair", "good", "top"], dtype=object)[Y - 1]
    with pytest.warns(ClassOrderWarning, match="sorted as strings"):
        model = pril.dask.fit(PRIL(), lazy(X), lazy(words))
    assert model.classes_.tolist() == ["bad", "fair", "good", "top"]
    assert set(pril.dask.predict(model, lazy(X)).compute()) <= set(words)
    gap = np.column_stack([np.ones(100, dtype=int), np.full(100, 2)])
    gap[70] = 1, 9
    with pytest.warns(ClassOrderWarning, match=r"y, block 1, row 20: \(1, 9\) may include"):
        pril.dask.fit(PRIL(), lazy(X), lazy(gap))


@pytest.mark.parametrize("mode", ["mix", "chain"])
@pytest.mark.parametrize("there", [False, True])
def test_what_a_block_warns_of_is_said_once(client, mode, there):
    options = {"mode": mode, "epochs": 3, "client": client if there else None}
    wide = X * np.linspace(1, 3, 100)[:, None]  # every block reaches beyond 1, each elsewhere
    fit = partial(pril.dask.fit, MPRIL(classes=CLASSES), lazy(wide, 20), **options)
    with pytest.warns(match=".") as shown:
        fit(lazy(Y[:, None], 20))
    assert {warning.category for warning in shown} == {FeatureRangeWarning, DataConversionWarning}
    assert len(shown) == 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit(lazy(Y, 20))
    with pytest.raises(FeatureRangeWarning):  # as an error, like everything in these tests
        fit(lazy(Y, 20))


def test_a_categorical_declares_its_classes():
    words = pd.Categorical.from_codes(
        Y - 1, ["worst", "bad", "fair", "best", "never"], ordered=True
    )
    data = pd.DataFrame(X, columns=list("abcd")).assign(grade=words)
    whole = dd.from_pandas(data, npartitions=3)
    unknown = whole.assign(grade=whole.grade.cat.as_unknown())
    for mode in ("mix", "chain"):
        for lazily in (whole, unknown):
            model = pril.dask.fit(PRIL(random_state=0), lazily, "grade", mode=mode)
            assert model.order_.tolist() == list(words.categories)
    ends = whole.assign(upper=whole.grade)
    half = ends.assign(grade=ends.grade.cat.as_unknown())  # one end declares them, one does not
    for lazily in (ends, half):
        model = pril.dask.fit(PRIL(random_state=0), lazily, ["grade", "upper"])
        assert model.order_.tolist() == list(words.categories)
    loose = whole.assign(grade=whole.grade.cat.as_unordered())
    with pytest.raises(ValueError, match="unordered Categorical with 5 categories"):
        pril.dask.fit(PRIL(), loose, "grade")


def test_blocks_must_speak_of_the_same_kind_of_label():
    blocks = [(X[:50], dask.delayed(Y[:50])), (X[50:], dask.delayed(Y[50:].astype(str)))]
    with pytest.raises(TypeError, match=r"numbers or all strings, got . in block 0, row 0 and '.'"):
        pril.dask.fit_blocks(PRIL(), blocks)
    categories = [pd.Categorical(["a", "b"] * 25, ordered=True), pd.Categorical(["c"] * 50)]
    blocks = [(part, dask.delayed(y)) for part, y in zip((X[:50], X[50:]), categories, strict=True)]
    with pytest.raises(ValueError, match=r"same categories, got .'a', 'b'. and .'c'."):
        pril.dask.fit_blocks(PRIL(), blocks)
    blocks = [(X[:50], dask.delayed(Y[:50])), (X[50:], dask.delayed(INTERVALS[50:]))]
    with pytest.raises(ValueError, match="as many columns in every block, got 1 and 2"):
        pril.dask.fit_blocks(PRIL(), blocks)


# --- Predicting ---


@pytest.mark.parametrize("cls", [*LINEAR, KernelPRIL])
def test_predictions_are_lazy_and_those_of_memory(cls):
    model = cls(random_state=0).fit(X, Y)
    methods = ["predict"] if cls is MulticlassPerceptron else ["predict", "latent"]
    data = pd.DataFrame(X, index=np.arange(100) * 3)
    for method in methods:
        expected = getattr(model, method)(X)
        lazily = getattr(pril.dask, method)(model, lazy(X, 30))
        assert isinstance(lazily, da.Array)
        assert lazily.chunks == ((30, 30, 30, 10),)
        assert lazily.dtype == expected.dtype
        np.testing.assert_allclose(lazily.compute(), expected, rtol=1e-12)
        series = getattr(pril.dask, method)(model, dd.from_pandas(data, npartitions=3))
        assert isinstance(series, dd.Series)
        assert series.divisions == dd.from_pandas(data, npartitions=3).divisions
        found = series.compute()
        assert (found.dtype, found.name) == (series.dtype, method)
        pd.testing.assert_index_equal(found.index, data.index)
        np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-12)


def test_predictions_of_sparse_blocks_and_of_unknown_length():
    model = PRIL(random_state=0).fit(X, Y)
    sparse = pril.dask.predict(model, as_csr(lazy(X)))
    np.testing.assert_array_equal(sparse.compute(), model.predict(X))
    chosen = lazy(X)[lazy(X)[:, 0] > 0.5]
    np.testing.assert_array_equal(
        pril.dask.predict(model, chosen).compute(), model.predict(X[X[:, 0] > 0.5])
    )
    none = pril.dask.predict(model, lazy(X)[lazy(X)[:, 0] > 5])
    assert none.compute().shape == (0,)


def test_a_row_that_cannot_be_rated_is_named_with_its_block():
    model = PRIL(random_state=0).fit(X, Y)
    bad = np.where(np.arange(100)[:, None] == 70, np.nan, X)
    for lazily in (lazy(bad), dd.from_pandas(pd.DataFrame(bad), npartitions=2)):
        for method in (pril.dask.predict, pril.dask.latent):
            with pytest.raises(ValueError, match="block 1: X, row 20: feature 0 is NaN"):
                method(model, lazily).compute()


@pytest.mark.parametrize("cls", LINEAR)
def test_score_is_that_of_memory(cls):
    model = cls(random_state=0).fit(X, Y)
    for y in (Y, INTERVALS, np.where(Y == 2, 77, Y)):
        assert pril.dask.score(model, lazy(X, 30), lazy(y, 30)).compute() == model.score(X, y)
    none = lazy(X)[lazy(X)[:, 0] > 5]  # of unknown length, so that nobody can tell before
    with pytest.raises(ValueError, match=r"block \d: X and y have inconsistent numbers"):
        pril.dask.score(model, none, lazy(Y)).compute()
    with pytest.raises(ValueError, match="at least one is needed for a score"):
        pril.dask.score(model, lazy(X)[:0], lazy(Y)[:0]).compute()


# --- A real cluster ---


def test_each_step_is_told_with_the_time_left(client, capsys, monkeypatch):
    monkeypatch.setattr("pril.likelihood.fitting.MOST_COMPARED", 50)  # or none is on the cluster
    X, _, y = table(300)
    learner = pril.OrderedLogit(classes=CLASSES)
    pril.dask.fit(learner, lazy(X), lazy(y), client=client, progress=True)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("step ")]
    assert said
    for k, line in enumerate(said):
        assert re.fullmatch(rf"step {k + 1}: penalised log-likelihood -[\d.]+, .* s left", line)


def test_workers_with_too_little_memory_for_blocks_are_refused(client, monkeypatch):
    X, _, y = table(300)
    worker = next(iter(client.scheduler_info()["workers"].values()))
    copies = 2.0 * worker["memory_limit"] / (8.0 * 100 * X.shape[1])
    monkeypatch.setattr("pril.dask.client.BLOCK_COPIES", copies)
    said = r"the Dask worker tcp://\S+ has [\d,]+ MB of memory, and needs about [\d,]+ MB for "
    with pytest.raises(InputError, match=rf"{said}1 thread and blocks of 100 rows, 0 MB each"):
        pril.dask.fit(pril.OrderedLogit(classes=CLASSES), lazy(X, 100), lazy(y, 100), client=client)


def test_a_cluster_learns_what_one_process_learns(client, capsys):
    X, _, y = table(300)
    for mode in ("mix", "chain"):
        estimator = PRIL(classes=CLASSES, random_state=0)
        with client.as_current():
            there = pril.dask.fit(estimator, lazy(X), lazy(y), mode=mode, progress=True)
        here = pril.dask.fit(estimator, lazy(X), lazy(y), mode=mode)
        assert_same_model(there, here)
    assert "100% Completed" in capsys.readouterr().out


def test_arrays_that_were_persisted_are_learned_from(client):
    X, _, y = table(300)
    estimator = PRIL(classes=CLASSES, random_state=0)
    there = client.persist(lazy(X)), client.persist(lazy(y))
    assert_same_model(
        pril.dask.fit(estimator, *there, client=client), pril.dask.fit(estimator, lazy(X), lazy(y))
    )


def test_the_client_holds_the_model_not_the_data(client):
    def generate(seed):
        """Make rows where they are learned: 8 MB a block."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(20_000, 50))
        return X, np.digitize(X[:, :5].sum(axis=1), [-2, 0, 2]) + 1

    blocks = [dask.delayed(generate)(seed) for seed in range(6)]
    estimator = PRIL(classes=CLASSES, random_state=0)
    pril.dask.fit_blocks(estimator, blocks[:2], epochs=1, client=client)  # imports and compiles
    for mode in ("mix", "chain"):
        tracemalloc.start()
        model = pril.dask.fit_blocks(estimator, blocks, mode=mode, epochs=2, client=client)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert model.t_ == 240_000
        assert peak < 4e6


def slow(X, folder):
    """Return lazy blocks that leave a trace of the process that reads them, and take some time."""

    def read(block):  # not at the top: a worker cannot import this file
        (Path(folder) / f"{time.time_ns()}-{os.getpid()}").touch()
        time.sleep(0.2)
        return block

    return lazy(X).map_blocks(read, dtype=float, meta=X[:0])


@pytest.mark.slow
def test_a_killed_worker_changes_nothing(client, tmp_path):
    X, _, y = table(400)
    blocks = slow(X, tmp_path)
    estimator = PRIL(classes=CLASSES, random_state=0)
    killed = []

    def kill_in_the_second_round():
        while len(list(tmp_path.iterdir())) < 13:
            time.sleep(0.01)
        killed.append(int(max(path.name for path in tmp_path.iterdir()).split("-")[1]))
        os.kill(killed[0], signal.SIGKILL)

    killer = threading.Thread(target=kill_in_the_second_round)
    killer.start()
    model = within(60, pril.dask.fit, estimator, blocks, lazy(y), epochs=3, client=client)
    killer.join()
    assert killed
    assert len(list(tmp_path.iterdir())) > 1 + 3 * 8  # the block that was lost was read again
    expected = pril.dask.fit(estimator, lazy(X), lazy(y), epochs=3)
    assert_same_model(model, expected)


def test_a_bad_label_is_named_and_nothing_is_left_running(client, tmp_path):
    X, y, _ = table(600)
    y[120] = 9
    blocks = slow(X, tmp_path)
    with pytest.raises(ValueError, match=r"block 2: y, row 20: 9 is not one of the classes"):
        within(60, pril.dask.fit, PRIL(classes=CLASSES), blocks, lazy(y), client=client)
    deadline = time.monotonic() + 30  # for the block that was being read
    while any(client.processing().values()) or any(client.has_what().values()):
        assert time.monotonic() < deadline, "something is left running"
        time.sleep(0.05)
    assert len(list(tmp_path.iterdir())) <= 13  # no second round


@pytest.mark.slow
def test_a_cluster_that_goes_away_is_an_error(tmp_path):
    X, _, y = table(1000)
    blocks = slow(X, tmp_path)
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        LocalCluster(**options, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def close_in_the_first_round():
            while len(list(tmp_path.iterdir())) < 3:
                time.sleep(0.01)
            cluster.close()

        closing = threading.Thread(target=close_in_the_first_round)
        closing.start()
        with pytest.raises(pril.dask.ClusterLost, match="the Dask cluster went away, or cancelled"):
            within(60, pril.dask.fit, PRIL(classes=CLASSES), blocks, lazy(y), client=client)
        closing.join()
    with pytest.raises(pril.dask.ClusterLost, match=r"went away.*[Cc]lient"):  # closed before
        pril.dask.fit(PRIL(classes=CLASSES), blocks, lazy(y), client=client)


@pytest.mark.slow
def test_a_block_that_kills_its_workers_is_an_error():
    X, _, y = table(100)
    blocks = lazy(X).map_blocks(lambda _: os._exit(1), dtype=float, meta=X[:0])
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        dask.config.set({"distributed.scheduler.allowed-failures": 0}),
        LocalCluster(**options) as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(pril.dask.ClusterLost, match=r"learning round 1 of 10.*workers died"),
    ):
        within(60, pril.dask.fit, PRIL(classes=CLASSES), blocks, lazy(y), client=client)


@contextmanager
def dask_process(kind, *arguments, pril, folder):
    """Start a scheduler or worker that can import pril, or not; yield the process."""
    environment = dict(os.environ)
    if not pril:
        (folder / "sitecustomize.py").write_text(
            "import sys\n"
            "class NoPril:\n"
            "    def find_spec(name, path=None, target=None):\n"
            "        if name == 'pril':\n"
            "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
            "sys.meta_path.insert(0, NoPril)\n"
        )
        before = environment.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join([str(folder), *([before] if before else [])])
    command = [sys.executable, "-m", f"distributed.cli.dask_{kind}", *arguments, "--no-dashboard"]
    options = {"env": environment, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.slow
@pytest.mark.parametrize("when", ["alone", "late", "beside a good one"])
def test_a_worker_without_pril_is_named(tmp_path, monkeypatch, when):
    """Such a worker closes itself at the first task: fit must ask it before."""
    monkeypatch.setattr("pril.dask.client.NO_WORKER_LIMIT", 20.0)
    fit = partial(pril.dask.fit, PRIL(classes=CLASSES), lazy(X), lazy(Y))
    good = {"n_workers": int(when == "beside a good one"), "threads_per_worker": 1}
    options = {"processes": False, "protocol": "tcp://", "dashboard_address": ":0"}
    with (
        LocalCluster(**good, **options) as cluster,
        Client(cluster, set_as_default=False) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        fitting = pool.submit(fit, client=client) if when == "late" else None
        address, others = cluster.scheduler_address, set(client.nthreads())
        with dask_process("worker", address, "--no-nanny", pril=False, folder=tmp_path) as worker:
            client.wait_for_workers(good["n_workers"] + 1, timeout=60)
            (name,) = set(client.nthreads()) - others
            says = rf"the Dask worker {name} cannot import pril: No module named 'pril'; install"
            with pytest.raises(pril.dask.ClusterLost, match=says):
                (fitting or pool.submit(fit, client=client)).result(timeout=30)
            assert name in client.nthreads()  # it was asked and is still there
            assert worker.poll() is None


@pytest.mark.slow
def test_a_scheduler_without_pril_is_named(tmp_path):
    options = ("--host", "127.0.0.1", "--port", "0")
    with dask_process("scheduler", *options, pril=False, folder=tmp_path) as scheduler:
        address = next(line.split()[-1] for line in scheduler.stderr if "Scheduler at" in line)
        with (
            dask_process("worker", address, "--no-nanny", pril=True, folder=tmp_path),
            Client(address, set_as_default=False) as client,
            pytest.raises(
                pril.dask.ClusterLost, match="scheduler cannot import pril: No module named 'pril'"
            ),
        ):
            within(30, pril.dask.fit, PRIL(classes=CLASSES), lazy(X), lazy(Y), client=client)


@pytest.mark.slow
@pytest.mark.parametrize("progress", [False, True])
@pytest.mark.parametrize("timeout", [None, "1s"])
def test_no_workers_are_an_error(monkeypatch, timeout, progress):
    """Either Dask's own limit ends it, if there is one, or that of this package."""
    X, _, y = table(100)
    monkeypatch.setattr("pril.dask.client.NO_WORKER_LIMIT", 60.0 if timeout else 1.5)
    fit = partial(pril.dask.fit, PRIL(classes=CLASSES), lazy(X), lazy(y), progress=progress)
    with (
        dask.config.set({"distributed.scheduler.no-workers-timeout": timeout}),
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        pytest.raises(pril.dask.ClusterLost, match=r"no worker for 1\.5 s|without any running"),
    ):
        within(40, fit, client=client)


@pytest.mark.slow
def test_workers_may_come_late(monkeypatch):
    X, _, y = table(100)
    monkeypatch.setattr("pril.dask.client.NO_WORKER_LIMIT", 20.0)
    estimator = PRIL(classes=CLASSES, random_state=0)
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
        ThreadPoolExecutor(1) as pool,
    ):
        fitting = pool.submit(pril.dask.fit, estimator, lazy(X), lazy(y), client=client)
        while not cluster.scheduler.tasks:  # it waits for a worker
            assert not fitting.done()
            time.sleep(0.01)
        cluster.scale(1)
        assert_same_model(fitting.result(timeout=60), pril.dask.fit(estimator, lazy(X), lazy(y)))


@pytest.mark.slow
@pytest.mark.parametrize("own", ["active", "given", "lent"])
def test_a_task_may_learn_on_the_cluster_it_runs_on(own):
    """A worker with one thread: the task must not keep it while it waits."""
    X, _, y = table(100)
    estimator = PRIL(classes=CLASSES, random_state=0)

    def nested(own):
        client = get_client()
        if own == "lent":
            with worker_client() as client:
                return pril.dask.fit(estimator, lazy(X), lazy(y), epochs=2, client=client)
        options = {"client": client} if own == "given" else {}
        return pril.dask.fit(estimator, lazy(X), lazy(y), epochs=2, **options)

    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False}
    with (
        LocalCluster(**options, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        model = client.submit(nested, own).result(timeout=30)
    assert_same_model(model, pril.dask.fit(estimator, lazy(X), lazy(y), epochs=2))


def test_what_is_no_client_is_refused_with_a_sentence(cluster):
    for wrong in ("tcp://scheduler:8786", cluster):
        with pytest.raises(
            TypeError, match=r"client must be a distributed.Client, got .*(tcp|Local)"
        ):
            pril.dask.fit(PRIL(), lazy(X), lazy(Y), client=wrong)

    async def asynchronously():
        async with Client(cluster.scheduler_address, asynchronous=True) as client:
            pril.dask.fit(PRIL(), lazy(X), lazy(Y), client=client)

    with pytest.raises(ValueError, match="client must be synchronous, got the asynchronous"):
        asyncio.run(asynchronously())


def test_scikit_learns_grid_search_runs_on_the_cluster(client):
    X, _, y = table()
    search = GridSearchCV(PRIL(classes=CLASSES, random_state=0), {"max_iter": [1, 5]}, cv=3)
    with client.as_current(), joblib.parallel_config(backend="dask"):
        search.fit(X, y)
    here = GridSearchCV(search.estimator, search.param_grid, cv=3).fit(X, y)
    np.testing.assert_array_equal(
        search.cv_results_["mean_test_score"], here.cv_results_["mean_test_score"]
    )


# --- Dask that is missing or broken ---


def import_error(folder, dask_source):
    """Return the last line that a process prints if its Dask is this one."""
    (folder / "dask").mkdir()
    (folder / "dask" / "__init__.py").write_text(dask_source)
    paths = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, "-c", "import pril.dask"]
    process = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    return process.stderr.splitlines()[-1]


@pytest.mark.parametrize("name", ["dask", "distributed"])
def test_a_missing_dask_says_what_to_install(tmp_path, name):
    source = f"raise ModuleNotFoundError('missing', name={name!r})"
    expected = "pril.dask needs Dask: in a clone of pril run pip install '.[dask]'"
    assert import_error(tmp_path, source) == f"pril.errors.MissingExtraError: {expected}"


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("import toolz_2", "ModuleNotFoundError: No module named 'toolz_2'"),
        ("raise ImportError('numpy is too old')", "ImportError: numpy is too old"),
        ("import dask.config_2", "ModuleNotFoundError: No module named 'dask.config_2'"),
    ],
)
def test_a_dask_that_fails_to_import_shows_its_own_error(tmp_path, source, says):
    assert import_error(tmp_path, source) == says


# --- How good ---


def rows_of(name, seed):
    """Return features and exact labels; rows in random order, so that blocks are alike."""
    if name == "synthetic":
        X, y = make_synthetic(10_000, random_state=seed)
        return PolynomialMap(2, gamma=1.0, coef0=1.0).fit_transform(X), y
    folder = Path(os.environ.get("PRIL_DATA", ""))
    file = {"abalone": "abalone.data", "parkinsons": "parkinsons_updrs.data"}[name]
    if not (folder / file).is_file():
        pytest.skip(f"{file} is not in the folder PRIL_DATA")
    load = load_abalone if name == "abalone" else load_parkinsons
    X, y = load(folder=folder)
    order = np.random.default_rng(seed).permutation(len(y))
    return StandardScaler().fit_transform(X)[order], y[order]


@pytest.mark.slow
@pytest.mark.parametrize("kind", [1, 2])
@pytest.mark.parametrize(
    ("name", "rounds", "allowed"),
    [
        ("abalone", 10, 1.02),
        ("parkinsons", 10, 1.02),
        ("synthetic", 10, 1.07),
        ("synthetic", 40, 1.02),
    ],
)
def test_mixing_costs_little(name, rounds, allowed, kind):
    errors = {"mixed": [], "alone": []}
    for seed in range(5):
        X, y = rows_of(name, seed)
        intervals = make_intervals(y, kind, 0.75, random_state=seed)
        estimator = PRIL(classes=np.unique(y), random_state=seed)
        chunk = -(-len(y) // 8)
        mixed = pril.dask.fit(estimator, lazy(X, chunk), lazy(intervals, chunk), epochs=rounds)
        alone = estimator.fit(X, intervals)
        for way, model in (("mixed", mixed), ("alone", alone)):
            errors[way].append(np.abs(model.predict(X) - y).mean())
    assert np.mean(errors["mixed"]) <= allowed * np.mean(errors["alone"])
