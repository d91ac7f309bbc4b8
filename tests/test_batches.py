"""Answers are made in batches of rows: the same bits as in one piece, in little memory."""

import re
import tracemalloc

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

from learners import ALL
from pril import PRIL, KernelPRIL, MulticlassPerceptron, PredictionRanges
from pril.bases import classifier

CONTAINERS = [np.asarray, csr_array]
METHODS = ("predict", "latent", "decision_function", "predict_proba", "predict_range")


def problem(n=70, K=4):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(n, 3)) * (rng.random((n, 3)) < 0.7)
    y = np.clip(np.digitize(X @ [1.0, -2.0, 0.5], [-0.5, 0.0, 0.5]) + rng.integers(0, 2, n), 1, K)
    return X, y


def answers(model, X, y):
    """Return all that a model says of some rows."""
    weights = np.linspace(0.1, 2.0, len(y))
    said = {name: getattr(model, name)(X) for name in METHODS if hasattr(model, name)}
    return said | {"score": model.score(X, y), "weighted": model.score(X, y, weights)}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("estimator", [cls() for cls in ALL] + [PredictionRanges(PRIL())], ids=str)
def test_batches_give_the_bits_of_one_piece(estimator, container, monkeypatch):
    X, y = problem()
    X = container(X)
    model = clone(estimator).fit(X, y)
    whole = answers(model, X, y)
    assert len(whole) >= 4
    for batch in (1, 3, 32):
        if isinstance(model, KernelPRIL):  # its products of matrices are cut by the batches, too
            monkeypatch.setattr("pril.kernels.kernel_engine.BLOCK", batch)
            monkeypatch.setattr(classifier, "BATCH_ROWS", len(y))
            whole = answers(model, X, y)
        monkeypatch.setattr(classifier, "BATCH_ROWS", batch)
        for name, answer in answers(model, X, y).items():
            np.testing.assert_array_equal(answer, whole[name], err_msg=f"{name}, {batch} rows")


@pytest.mark.parametrize("width", [1, 7, 10, 50, 200, 1001])
@pytest.mark.parametrize("estimator", [PRIL(), MulticlassPerceptron()], ids=str)
def test_wide_rows_have_the_same_bits_alone_and_together(estimator, width):
    """A product of matrices rounds a row by its place; float32 is rated in float64."""
    rng = np.random.default_rng(width)
    X, y = rng.normal(size=(97, width)).astype(np.float32), rng.integers(1, 6, 97)
    model = clone(estimator).fit(X, y)
    rate = getattr(model, "latent", model.decision_function)
    for rows in (X, X.astype(np.float64), csr_array(X)):
        alone = np.concatenate([rate(rows[[t]]) for t in range(97)])
        np.testing.assert_array_equal(alone, rate(rows))
    np.testing.assert_array_equal(rate(X), rate(X.astype(np.float64)))


@pytest.mark.parametrize("container", CONTAINERS)
def test_an_error_names_the_row_of_the_whole(container, monkeypatch):
    X, y = problem()
    model = PRIL(classes=[1, 2, 3, 4]).fit(X, y)
    monkeypatch.setattr(classifier, "BATCH_ROWS", 8)
    X[41, 2] = np.nan
    for ask in (model.predict, model.latent, lambda X: model.score(X, y)):
        with pytest.raises(ValueError, match=re.escape("X, row 41: feature 2 is NaN")):
            ask(container(X))
    backwards = np.column_stack([y, y])
    backwards[33] = (3, 1)
    with pytest.raises(ValueError, match="y, row 33: lower end 3 is above upper end 1"):
        model.score(container(np.zeros_like(X)), backwards)


@pytest.mark.parametrize("container", CONTAINERS)
def test_memory_does_not_grow_with_the_rows(container, monkeypatch):
    monkeypatch.setattr(classifier, "BATCH_ROWS", 1024)
    X, y = problem(40_000)
    X = container(X)
    model = PRIL(classes=[1, 2, 3, 4]).partial_fit(X[:100], y[:100])

    def beyond(ask):
        ask()  # compiles
        tracemalloc.start()
        answer = ask()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return peak - np.asarray(answer).nbytes

    assert beyond(lambda: model.predict(X)) < 150_000
    assert beyond(lambda: model.latent(X)) < 150_000
    assert beyond(lambda: model.score(X, y)) < 550_000  # of it 400 000: two bits a row, their sum
    assert beyond(lambda: model.decision_function(X)) < 600_000  # the answer has 1 280 000
