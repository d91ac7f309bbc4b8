"""Kernel PRIL: compared with a slow reference, with PRIL, between blocks and kinds of array."""

import copy
import os
import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, make_blobs
from sklearn.metrics.pairwise import (
    laplacian_kernel,
    pairwise_kernels,
    polynomial_kernel,
    rbf_kernel,
)
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

import pril.kernels.kernel_engine
import reference
from pril import PRIL, KernelPRIL, PolynomialMap
from pril.evaluate import progressive
from pril.kernels.values import Kernel
from strategies import cuts, exact_streams, smooth_streams

LINEAR = {"kernel": "linear"}
# Kernel values of multiples of 1/64 that are exact in float64, so that no order of sums matters.
EXACT = [LINEAR, {"kernel": "poly", "degree": 2, "gamma": 1.0, "coef0": 1.0}]


# Checks of scikit-learn that do not apply to a precomputed kernel.
NO_STREAM = dict.fromkeys(
    (
        "check_estimators_partial_fit_n_features",
        "check_fit_score_takes_y",
        "check_n_features_in_after_fitting",
    ),
    "calls partial_fit, which a precomputed kernel refuses: it does not know later rows",
) | {"check_estimators_nan_inf": "predicts from features, where kernel values are due"}


ONE_LONG_STEP = dict.fromkeys(
    (
        "check_sample_weight_equivalence_on_dense_data",
        "check_sample_weight_equivalence_on_sparse_data",
    ),
    "a row of weight two is one long step, two rows are two: as for SGDClassifier",
)


@parametrize_with_checks(
    [KernelPRIL(), KernelPRIL(kernel="precomputed"), PolynomialMap()],
    expected_failed_checks=lambda estimator: (
        ({} if isinstance(estimator, PolynomialMap) else ONE_LONG_STEP)
        | (NO_STREAM if getattr(estimator, "kernel", None) == "precomputed" else {})
    ),
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.fixture(params=[1, 3, 1024])
def block(request, monkeypatch):
    """Cut the rows into blocks of this size, and kernel values into narrow chunks."""
    monkeypatch.setattr(pril.kernels.kernel_engine, "BLOCK", request.param)
    monkeypatch.setattr(pril.kernels.values, "CHUNK", 7)
    return request.param


def functions(model, X):
    """Return what a model says of rows, and its thresholds, as one array."""
    return np.concatenate([model.latent(X), model.thresholds_])


def rows_of(K, n=60, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 3))
    return X, np.sort(rng.integers(1, K + 1, (n, 2)), axis=1)


# --- Twins and equalities ---


@given(stream=exact_streams())
def test_linear_kernel_is_algorithm_2(stream):
    model = KernelPRIL(average=False, **LINEAR)
    progress = progressive(model, stream.X, stream.y, stream.classes)
    predictions, taus = reference.kernel_pril(*stream)
    assert progress.predictions.tolist() == predictions
    coefficients = taus.sum(axis=1)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(coefficients))
    np.testing.assert_array_equal(model.dual_coef_, coefficients[coefficients != 0])
    np.testing.assert_array_equal(model.support_vectors_, stream.X[coefficients != 0])
    np.testing.assert_array_equal(model.thresholds_, -taus.sum(axis=0))


@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")
@given(stream=exact_streams())
def test_linear_kernel_is_pril(stream, average, shuffle):
    """Several passes: the coefficients of a row seen again are merged."""
    options = {"average": average, "shuffle": shuffle, "max_iter": 3, "random_state": 0}
    kernel = KernelPRIL(**LINEAR, **options, classes=stream.classes).fit(stream.X, stream.y)
    linear = PRIL(**options, classes=stream.classes).fit(stream.X, stream.y)
    assert (kernel.t_, kernel.n_mistakes_, kernel.n_updates_, kernel.n_iter_) == (
        linear.t_, linear.n_mistakes_, linear.n_updates_, linear.n_iter_,
    )  # fmt: skip
    assert len(np.unique(kernel.support_)) == len(kernel.support_)
    np.testing.assert_allclose(functions(kernel, stream.X), functions(linear, stream.X), atol=1e-9)
    if not average:
        np.testing.assert_array_equal(functions(kernel, stream.X), functions(linear, stream.X))
        assert (kernel.dual_coef_ != 0).all()  # a row whose coefficient is 0 is no support row


@given(stream=smooth_streams())
def test_average_is_the_mean_of_all_iterates(stream):
    last, said = KernelPRIL(average=False), []
    for t in range(len(stream.X)):
        last.partial_fit(stream.X[t : t + 1], stream.y[t : t + 1], classes=stream.classes)
        said.append(functions(last, stream.X))
    mean = KernelPRIL().partial_fit(stream.X, stream.y, classes=stream.classes)
    np.testing.assert_allclose(functions(mean, stream.X), np.mean(said, axis=0), atol=1e-11)


@pytest.mark.parametrize("kernel", EXACT, ids=lambda kernel: kernel["kernel"])
@pytest.mark.parametrize("budget", [None, 4])
@pytest.mark.parametrize("shuffle", [False, True])
def test_blocks_change_nothing_where_kernel_values_are_exact(block, kernel, budget, shuffle):
    rng = np.random.default_rng(0)
    X = rng.integers(-64, 64, (50, 3)) / 64
    y = np.sort(rng.integers(1, 6, (50, 2)), axis=1)
    options = {"budget": budget, "shuffle": shuffle, "random_state": 0, "max_iter": 3, **kernel}
    model = KernelPRIL(average=False, **options).fit(X, y)
    assert block == pril.kernels.kernel_engine.BLOCK
    pril.kernels.kernel_engine.BLOCK = 50
    whole = KernelPRIL(average=False, **options).fit(X, y)
    np.testing.assert_array_equal(model.support_, whole.support_)
    np.testing.assert_array_equal(model.dual_coef_, whole.dual_coef_)
    np.testing.assert_array_equal(model.thresholds_, whole.thresholds_)


def test_blocks_change_last_bits_elsewhere(block):
    """Sums of a product of another shape round differently: scores agree to 1e-12 of their size,
    and so do decisions, unless a score comes that close to a threshold."""
    X, y = rows_of(K=5, n=200)
    progress = progressive(KernelPRIL(average=False), X, y, [1, 2, 3, 4, 5])
    pril.kernels.kernel_engine.BLOCK = 200
    whole = progressive(KernelPRIL(average=False), X, y, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(progress.predictions, whole.predictions)
    np.testing.assert_allclose(progress.scores, whole.scores, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("budget", [None, 3])
@given(data=st.data())
def test_any_chunking_is_one_call_where_kernel_values_are_exact(budget, data):
    """Also with rows that are not learned: they have no label, or a weight of zero."""
    stream = data.draw(exact_streams())
    n, y = len(stream.X), stream.y.astype(float)
    kinds = np.array(data.draw(st.lists(st.sampled_from("ring"), min_size=n, max_size=n)))
    y[kinds == "n"] = np.nan
    weight = np.where(kinds == "r", 0.0, 1.0)
    options = {"budget": budget, "average": False, "classes": stream.classes, **EXACT[1]}
    whole = KernelPRIL(**options).partial_fit(stream.X, y, sample_weight=weight)
    chunked = KernelPRIL(**options)
    for start, stop in data.draw(cuts(n)):
        part = slice(start, stop)
        chunked.partial_fit(stream.X[part], y[part], sample_weight=weight[part])
    np.testing.assert_array_equal(whole.support_, chunked.support_)
    np.testing.assert_array_equal(functions(whole, stream.X), functions(chunked, stream.X))
    np.testing.assert_array_equal(stream.X[chunked.support_], chunked.support_vectors_)


def saved(model, folder):
    pril.save(model, folder / "model.pril")
    return pril.load(folder / "model.pril")


@pytest.mark.parametrize("copied", [saved, lambda model, _: copy.copy(model)], ids=["file", "copy"])
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_model_goes_on_to_count_rows_that_are_not_learned(method, copied, tmp_path):
    X, y = rows_of(K=3, n=30)
    y = y.astype(float)
    y[5:20] = np.nan
    model = getattr(KernelPRIL(classes=[1, 2, 3], random_state=0), method)(X[:20], y[:20])
    model = copied(model, tmp_path)
    model.partial_fit(X[20:], y[20:])
    assert model.support_.max() > 20
    np.testing.assert_array_equal(X[model.support_], model.support_vectors_)


@pytest.mark.parametrize("budget", [None, 5])
@pytest.mark.parametrize("average", [False, True])
def test_progressive_is_predict_then_learn(block, average, budget):
    X, y = rows_of(K=4, n=25)
    options = {"average": average, "budget": budget, "classes": [1, 2, 3, 4]}
    progress = progressive(KernelPRIL(**options), X, y)
    model = KernelPRIL(**options).partial_fit(X[:1], y[:1])
    for t in range(1, len(X)):
        assert progress.predictions[t] == model.predict(X[t : t + 1])[0]
        assert progress.scores[t] == pytest.approx(model.latent(X[t : t + 1])[0], abs=1e-12)
        model.partial_fit(X[t : t + 1], y[t : t + 1])


# --- Kernels ---

KERNELS = {
    "rbf": ({"kernel": "rbf", "gamma": 0.7}, lambda A, B: rbf_kernel(A, B, gamma=0.7)),
    "rbf, own gamma": ({"kernel": "rbf"}, rbf_kernel),
    "poly": ({"kernel": "poly", "degree": 3, "coef0": 0.5}, lambda A, B: polynomial_kernel(A, B, coef0=0.5)),
    "laplacian": ({"kernel": "laplacian", "gamma": 0.3}, lambda A, B: laplacian_kernel(A, B, gamma=0.3)),
    "cosine": ({"kernel": "cosine"}, lambda A, B: pairwise_kernels(A, B, metric="cosine")),
    "params": ({"kernel": "sigmoid", "kernel_params": {"gamma": 0.2}}, lambda A, B: pairwise_kernels(A, B, metric="sigmoid", gamma=0.2)),
    "function of matrices": ({"kernel": rbf_kernel, "kernel_params": {"gamma": 0.7}}, lambda A, B: rbf_kernel(A, B, gamma=0.7)),
    "function of rows": ({"kernel": lambda a, b: (a * b).sum() ** 2}, lambda A, B: (A @ B.T) ** 2),
    "function of either": ({"kernel": lambda a, b: a @ b.T}, lambda A, B: A @ B.T),
}  # fmt: skip


@pytest.mark.parametrize("case", KERNELS)
def test_kernels_are_scikit_learns(case):
    options, function = KERNELS[case]
    X, y = rows_of(K=3)
    model = KernelPRIL(random_state=0, **options).fit(X, y)
    given = KernelPRIL(random_state=0, kernel="precomputed").fit(function(X, X), y)
    np.testing.assert_array_equal(model.support_, given.support_)
    np.testing.assert_allclose(model.latent(X), given.latent(function(X, X)), atol=1e-10)
    np.testing.assert_allclose(
        model.latent(X), function(X, model.support_vectors_) @ model.dual_coef_, atol=1e-10
    )
    np.testing.assert_array_equal(
        model.predict(X), 1 + (model.latent(X)[:, np.newaxis] >= model.thresholds_).sum(axis=1)
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sparse_rows_give_the_dense_model(dtype):
    X, y = rows_of(K=3)
    X = np.where(np.abs(X) < 0.5, 0.0, X).astype(dtype)
    for options in ({"gamma": 0.5}, LINEAR):
        dense = KernelPRIL(random_state=0, **options).fit(X, y)
        sparse = KernelPRIL(random_state=0, **options).fit(csr_array(X), y)
        np.testing.assert_array_equal(dense.predict(X), sparse.predict(csr_array(X)))
        np.testing.assert_allclose(dense.latent(X), sparse.latent(csr_array(X)), atol=1e-4)


def test_kernel_prank_on_diabetes_has_lightnings_training_error():
    """lightning's test_prank.py; where no score meets a threshold, PRIL on exact labels is PRank."""
    X, target = load_diabetes(return_X_y=True)
    y = np.round(target, decimals=-2)
    model = KernelPRIL(kernel="linear", max_iter=10, shuffle=False, average=False).fit(X, y)
    assert np.abs(y - model.predict(X)).mean() == pytest.approx(41.86, abs=0.005)


# --- Budget ---


@given(stream=exact_streams(), budget=st.integers(1, 6))
def test_a_budget_is_kept_by_dropping_the_smallest_then_the_oldest(stream, budget):
    """The twin keeps a list; thresholds move as if nothing had been dropped."""
    kept, theta = {}, np.zeros(stream.K - 1)
    for t, (x, (left, right)) in enumerate(zip(stream.X, stream.y, strict=True)):
        f = sum(coefficient * (stream.X[s] @ x) for s, coefficient in kept.items())
        tau = reference.violated(f, theta, left, right)
        theta = theta - tau
        if tau.sum() != 0:
            kept[t] = tau.sum()
        if len(kept) > budget:
            del kept[min(kept, key=lambda s: (abs(kept[s]), s))]
    model = KernelPRIL(average=False, budget=budget, classes=stream.classes, **LINEAR)
    model.partial_fit(stream.X, stream.y)
    assert dict(zip(model.support_.tolist(), model.dual_coef_.tolist(), strict=True)) == kept
    np.testing.assert_array_equal(model.thresholds_, theta)


def test_a_budget_that_is_never_reached_changes_nothing():
    X, y = rows_of(K=4)
    one = KernelPRIL(random_state=0).fit(X, y)
    two = KernelPRIL(random_state=0, budget=len(X)).fit(X, y)
    np.testing.assert_array_equal(one.support_[np.argsort(one.support_)], np.sort(two.support_))
    np.testing.assert_allclose(functions(one, X), functions(two, X), atol=1e-10)


def test_from_the_first_dropped_row_on_the_last_iterate_predicts():
    X, y = rows_of(K=4)
    averaged, last = (
        KernelPRIL(budget=5, average=average, random_state=0).fit(X, y) for average in (True, False)
    )
    np.testing.assert_array_equal(functions(averaged, X), functions(last, X))
    assert len(averaged.support_) == 5


# --- The feature map ---


@given(
    st.integers(1, 4), st.integers(1, 4), st.floats(0.1, 3), st.sampled_from([0.0, 0.5, 1.0, 2.0])
)
def test_products_of_mapped_rows_are_kernel_values(d, degree, gamma, coef0):
    X = np.random.default_rng(0).normal(size=(6, d))
    mapping = PolynomialMap(degree, gamma=gamma, coef0=coef0).fit(X)
    mapped = mapping.transform(X)
    np.testing.assert_allclose(
        mapped @ mapped.T, (gamma * X @ X.T + coef0) ** degree, rtol=1e-9, atol=1e-12
    )
    np.testing.assert_allclose(mapping.transform(csr_array(X)).toarray(), mapped, rtol=1e-12)
    assert mapped.shape[1] == mapping.n_output_features_ == len(mapping.get_feature_names_out())
    assert np.abs(mapped).sum(axis=0).min() > 0  # no feature is always zero


def test_gamma_of_the_map_is_the_kernels_own():
    X = np.random.default_rng(0).normal(size=(6, 4))
    mapped = PolynomialMap(degree=3).fit_transform(X)
    np.testing.assert_allclose(mapped @ mapped.T, polynomial_kernel(X, X, degree=3))


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_pril_behind_the_map_is_kernel_pril(average, seed):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (400, 2))
    score = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) + 0.125 * rng.normal(size=400)
    y = np.digitize(score, [-1, -0.1, 0.25, 1])
    options = {"average": average, "random_state": seed, "max_iter": 3}
    kernel = {"degree": 2, "gamma": 1.0, "coef0": 1.0}
    mapped = make_pipeline(PolynomialMap(**kernel), PRIL(**options)).fit(X, y)
    direct = KernelPRIL(kernel="poly", **kernel, **options).fit(X, y)
    np.testing.assert_array_equal(mapped.predict(X), direct.predict(X))
    np.testing.assert_allclose(mapped[-1].thresholds_, direct.thresholds_, atol=1e-9)


def test_names_of_monomials():
    frame = pd.DataFrame({"age": [1.0], "size": [2.0]})
    names = PolynomialMap(degree=2).fit(frame).get_feature_names_out().tolist()
    assert names == ["1", "age", "size", "age^2", "age size", "size^2"]
    assert PolynomialMap().set_output(transform="pandas").fit_transform(frame).columns[1] == "age"


# --- Bad input is refused, and the model does not change ---

X3 = np.array([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
NAN = X3.copy()
NAN[1, 1] = np.nan


def raises(A, B):
    raise RuntimeError("no such kernel")


REFUSED = {
    "NaN hidden by a bounded kernel": ({}, NAN, r"X, row 1: feature 1 is NaN"),
    "sparse NaN": ({}, csr_array(NAN), r"X, row 1: feature 1 is NaN"),
    "kernel of NaN": ({"kernel": lambda A, B: np.full((len(A), len(B)), np.nan)}, X3, r"the kernel function returned nan"),
    "overflowing kernel": ({"kernel": "poly", "degree": 400, "gamma": 10.0}, X3 * 10, r"kernel='poly' returned inf"),
    "kernel of a wrong shape": ({"kernel": lambda A, B: np.ones((len(A), 5))}, X3, r"returned shape \(3, 5\) for 3 and 3 rows"),
    "kernel that raises": ({"kernel": raises}, X3, r"the kernel function raised RuntimeError\('no such kernel'\)"),
    "unknown kernel": ({"kernel": "gauss"}, X3, r"The 'kernel' parameter of KernelPRIL must be"),
    "budget of nothing": ({"budget": 0}, X3, r"The 'budget' parameter of KernelPRIL must be"),
    "gamma from the data": ({"gamma": "scale"}, X3, r"The 'gamma' parameter of KernelPRIL must be"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_and_changes_nothing(case):
    options, X, message = REFUSED[case]
    fresh = KernelPRIL(classes=[1, 2, 3], **options)
    before = dict(vars(fresh))
    for method in (fresh.fit, fresh.partial_fit):
        with pytest.raises(ValueError, match=message):
            method(X, [3, 1, 2])
        assert vars(fresh) == before
    if not options:
        learned = fresh.partial_fit(X3, [1, 2, 3])
        said = functions(learned, X3)
        for method in (learned.fit, learned.partial_fit, learned.predict):
            with pytest.raises(ValueError, match=message):
                method(*((X,) if method == learned.predict else (X, [3, 1, 2])))
            np.testing.assert_array_equal(functions(learned, X3), said)


def test_a_kernel_that_breaks_later_changes_nothing():
    """The function works for the first call and raises in the next."""
    calls = {"good": True}

    def moody(A, B):
        if not calls["good"]:
            raise RuntimeError("not today")
        return A @ B.T

    model = KernelPRIL(kernel=moody, classes=[1, 2, 3]).partial_fit(X3, [1, 2, 3])
    before = dict(vars(model))
    calls["good"] = False
    with pytest.raises(ValueError, match=r"the kernel function raised RuntimeError\('not today'\)"):
        model.partial_fit(X3, [3, 1, 2])
    assert all(vars(model)[name] is value for name, value in before.items())


@pytest.mark.parametrize(
    "kernel", ["rbf", "poly", lambda A, B: A @ B.T], ids=["rbf", "poly", "function"]
)
@pytest.mark.parametrize("budget", [None, 150])
def test_the_model_does_not_depend_on_the_number_of_threads(monkeypatch, kernel, budget):
    monkeypatch.setattr("pril.kernels.values.CHUNK", 1 << 13)  # many chunks
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(1500, 4)), rng.integers(1, 5, 1500)
    one, three = (
        KernelPRIL(kernel=kernel, budget=budget, n_jobs=n, random_state=0, max_iter=2).fit(X, y)
        for n in (None, 3)
    )
    np.testing.assert_array_equal(one.support_, three.support_)
    np.testing.assert_array_equal(one.latent(X), three.latent(X))


def test_rows_of_two_types_are_kept_in_the_wider_one():
    wide = np.random.default_rng(0).normal(size=(40, 3))
    model = KernelPRIL(classes=[0, 1], average=False)
    model.partial_fit(wide[:20].astype(np.float32), np.arange(20) % 2)
    model.partial_fit(wide, np.arange(40) % 2)
    assert model.support_vectors_.dtype == np.float64
    late = model.support_ >= 20
    np.testing.assert_array_equal(model.support_vectors_[late], wide[model.support_[late] - 20])


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1.7e9])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rbf_values_are_right_far_from_the_origin(offset, dtype):
    """Timestamps and years: rounding their squares must not lose the differences of rows."""
    rng = np.random.default_rng(0)
    spread = 1.0 if offset < 1e9 else 64.0  # the spacing of float32 near 1.7e9 is 128
    X = (rng.integers(-64, 64, (40, 3)) * spread + offset).astype(dtype)
    gamma = 1e-4 / spread**2
    values = Kernel("rbf", {"gamma": gamma}).values(X, X)
    exact = X.astype(np.float64)
    expected = np.exp(-gamma * ((exact[:, np.newaxis] - exact) ** 2).sum(axis=2))
    np.testing.assert_allclose(values, expected, atol=1e-5 if dtype == np.float32 else 1e-10)
    assert values.max() <= 1.0 + 1e-5


def test_dense_and_sparse_rows_may_take_turns():
    X, y = rows_of(K=3)
    dense = KernelPRIL(classes=[1, 2, 3]).partial_fit(X, y).partial_fit(X[::-1], y)
    mixed = KernelPRIL(classes=[1, 2, 3]).partial_fit(X, y).partial_fit(csr_array(X[::-1]), y)
    other = KernelPRIL(classes=[1, 2, 3]).partial_fit(csr_array(X), y).partial_fit(X[::-1], y)
    for model in (mixed, other):
        np.testing.assert_allclose(model.latent(X), dense.latent(X), atol=1e-9)
        np.testing.assert_allclose(model.latent(csr_array(X)), dense.latent(X), atol=1e-9)


def test_kernel_params_add_to_the_parameters_and_are_checked():
    X, y = rows_of(K=3)
    one = KernelPRIL(kernel="poly", kernel_params={"degree": 1}, random_state=0).fit(X, y)
    two = KernelPRIL(kernel="poly", degree=1, random_state=0).fit(X, y)
    np.testing.assert_array_equal(one.latent(X), two.latent(X))
    with pytest.raises(ValueError, match="kernel='rbf' takes no argument 'gama', only"):
        KernelPRIL(kernel_params={"gama": 3.0}).fit(X, y)


def test_a_kernel_function_may_return_a_sparse_matrix():
    X, y = rows_of(K=3)
    sparse = KernelPRIL(kernel=lambda A, B: A @ B.T, random_state=0).fit(csr_array(X), y)
    dense = KernelPRIL(kernel="linear", random_state=0).fit(X, y)
    np.testing.assert_allclose(sparse.latent(csr_array(X)), dense.latent(X), atol=1e-9)


def test_a_lower_budget_is_kept_at_once():
    X, y = rows_of(K=4)
    model = KernelPRIL(classes=[1, 2, 3, 4], average=False).partial_fit(X, y)
    assert len(model.support_) > 5
    assert len(model.set_params(budget=5).partial_fit(X, y).support_) == 5


def test_a_precomputed_kernel():
    X, y = rows_of(K=3)
    K = rbf_kernel(X)
    model = KernelPRIL(kernel="precomputed", random_state=0).fit(K, y)
    assert not hasattr(model, "support_vectors_")
    assert not hasattr(model, "coef_")
    np.testing.assert_array_equal(model.predict(K[:5]), model.predict(K)[:5])
    with pytest.raises(ValueError, match=r"needs a square matrix, .* got X of shape \(5, 60\)"):
        model.fit(K[:5], y[:5])
    with pytest.raises(ValueError, match="cannot be learned from a stream"):
        KernelPRIL(kernel="precomputed", classes=[1, 2, 3]).partial_fit(K, y)
    with pytest.raises(
        ValueError, match="kernel was 'precomputed' when learning began and is 'rbf'"
    ):
        model.set_params(kernel="rbf").predict(X)
    model.set_params(kernel="precomputed")
    with pytest.raises(ValueError, match="X has 3 features, but KernelPRIL is expecting 60"):
        model.predict(X)


def test_a_pickled_model_goes_on_as_the_original():
    X, y = rows_of(K=3)
    model = KernelPRIL(classes=[1, 2, 3]).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))  # noqa: S301
    for each in (model, twin):
        each.partial_fit(X[::-1], y)
    np.testing.assert_array_equal(functions(model, X), functions(twin, X))


PEAK_MEMORY = """
import resource
from pathlib import Path
status = Path("/proc/self/status")
if status.exists():  # ru_maxrss starts at the size of the process that forked this one
    print(next(line.split()[1] for line in status.open() if line.startswith("VmHWM:")))
else:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


@pytest.mark.slow
def test_memory_grows_with_the_support_not_with_its_square():
    """Never the whole kernel matrix: 20 000 rows would need 3.2 GB."""
    script = (
        "import numpy as np; from pril import KernelPRIL\n"
        "rng = np.random.default_rng(0); X = rng.normal(size=(20000, 5))\n"
        "KernelPRIL().partial_fit(X, rng.integers(0, 3, 20000), classes=range(3))\n"
    )
    used = subprocess.run(
        [sys.executable, "-c", script + PEAK_MEMORY], capture_output=True, text=True, check=True
    )
    assert int(used.stdout) < 1_000_000  # kilobytes


# --- Arrays of other libraries and on other devices ---

ELSEWHERE = """
import numpy as np, sklearn
from pril import KernelPRIL
from pril.evaluate import progressive
import {module} as xp
sklearn.set_config(array_api_dispatch=True)
rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (300, 3)).astype("{dtype}")
y = np.sort(rng.integers(1, 5, (300, 2)), axis=1)
there = xp.asarray(X, **{where})
for options in (dict(), dict(kernel="linear"), dict(kernel="poly", degree=2), dict(budget=40), dict(gamma=2.0, average=False)):
    here = KernelPRIL(classes=[1, 2, 3, 4], random_state=0, max_iter=2, **options)
    away = KernelPRIL(classes=[1, 2, 3, 4], random_state=0, max_iter=2, **options)
    here.fit(X, y).partial_fit(X[:50], y[:50])
    away.fit(there, xp.asarray(y, **{where})).partial_fit(there[:50, :], y[:50])
    assert type(away.latent(there)) is type(there) is type(away.support_vectors_) is type(away.dual_coef_)
    assert away.latent(there).device == there.device == away.support_vectors_.device
    assert type(away.predict(there)) is np.ndarray is type(away.thresholds_)
    assert (away.predict(there) == here.predict(X)).mean() >= {agree}
    assert away.score(there, y) > 0
    if {agree} == 1:
        np.testing.assert_allclose(away.thresholds_, here.thresholds_)
        np.testing.assert_array_equal(away.support_, here.support_)
        said = progressive(away, there, y).scores
        np.testing.assert_allclose(said, progressive(here, X, y).scores, atol=1e-9)
try:
    bad = X.copy(); bad[3, 1] = np.nan
    away.partial_fit(xp.asarray(bad, **{where}), y)
except ValueError as error:
    assert "X, row 3: feature 1 is NaN" in str(error)
else:
    raise AssertionError("NaN was accepted")
print("same")
"""


def cuda_or_skip():
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    return {"device": "cuda"}


@pytest.mark.parametrize(
    ("module", "where"),
    [
        ("array_api_strict", dict),
        ("torch", lambda: pytest.importorskip("torch", reason="torch is not installed") and {}),
        ("torch", cuda_or_skip),
    ],
    ids=["strict", "torch on the CPU", "torch on CUDA"],
)
@pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.8"),
    reason="before 1.8 scikit-learn's kernels return NumPy arrays for all kinds of arrays",
)
def test_arrays_of_other_kinds_are_learned_from_where_they_live(module, where):
    """In another process, because SciPy reads SCIPY_ARRAY_API when it is imported."""
    device = where()
    script = "".join(
        ELSEWHERE.format(module=module, where=device, dtype=dtype, agree=agree)
        for dtype, agree in (("float64", 1), ("float32", 0.97))
    )
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=False
    )
    assert done.stdout == "same\n" * 2, done.stderr


def test_verbose_prints_a_line_a_pass(capsys):
    X, y = make_blobs(centers=3, cluster_std=3.0, random_state=0)
    quiet = KernelPRIL(max_iter=3, shuffle=False, average=False).fit(X, y)
    assert capsys.readouterr().out == ""
    model = KernelPRIL(max_iter=3, shuffle=False, average=False, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in lines] == ["pass 1", "pass 2", "pass 3"]
    assert sum(int(line.split()[2]) for line in lines) == model.n_mistakes_
    first = progressive(KernelPRIL(average=False), X, y, classes=[0, 1, 2])
    assert lines[0].endswith(f"in 100 rows, mean interval loss {first.losses.mean():.4f}")
    np.testing.assert_array_equal(model.latent(X), quiet.latent(X))


@pytest.mark.parametrize("budget", [None, 1])
def test_scores_that_overflow_are_refused(budget):
    """A kernel value of 1.7e308 is finite, twice as much is not; in the first row and later."""
    model = KernelPRIL(kernel="linear", classes=[1, 2, 3], average=False, budget=budget)
    model.partial_fit([[1.3e154]], [3])
    before = model.dual_coef_.tolist()
    assert before == [2.0]
    for rows in ([[1.3e154]], [[1.0], [1.3e154]]):
        with pytest.raises(ValueError, match="kernel='linear' gives scores that are not finite"):
            model.partial_fit(rows, [1] * len(rows))
        assert model.dual_coef_.tolist() == before
        with pytest.raises(ValueError, match="kernel='linear' gives scores that are not finite"):
            model.predict(rows)


@pytest.mark.parametrize("value", [2.0, [1.0, 2.0], np.array([1.0, 2.0]), {"inner": [2.0]}])
def test_parameters_of_a_kernel_that_change_in_place_are_refused(value):
    def weighted(x, other, scale):
        factor = scale["inner"] if isinstance(scale, dict) else scale
        return float(np.dot(np.multiply(x, factor), other))

    X, y = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]), [1, 2, 3]
    parameters = {"scale": value}
    model = KernelPRIL(kernel=weighted, kernel_params=parameters).fit(X, y)
    before = model.predict(X)
    if isinstance(value, float):
        parameters["scale"] = 3.0
    else:
        (value["inner"] if isinstance(value, dict) else value)[0] = 3.0
    for call in (lambda: model.predict(X), lambda: model.partial_fit(X, y)):
        with pytest.raises(ValueError, match=r"kernel_params was .* when learning began and is"):
            call()
    if isinstance(value, float):
        parameters["scale"] = 2.0
        np.testing.assert_array_equal(model.predict(X), before)


@pytest.mark.parametrize("name", ["latent", "predict", "decision_function"])
def test_scores_that_overflow_are_no_answers(name):
    X = np.array([[-1.0], [0.0], [1.0]])
    model = KernelPRIL(kernel="poly", random_state=0).fit(X, [1, 2, 3])
    with pytest.raises(ValueError, match="gives scores that are not finite: scale the features"):
        getattr(model, name)(X * 1e150)
