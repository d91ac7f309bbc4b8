"""Landmark features against the recipe, written out with scikit-learn's Nystroem."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.kernel_approximation import Nystroem
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import pril.features
from pril import LandmarkFeatures, OrderedLogit

rng = np.random.default_rng(0)
X = rng.normal(size=(200, 4))
MORE = rng.normal(size=(50, 4))


@parametrize_with_checks([LandmarkFeatures()])
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    ("kernel", "gamma", "used"),
    [("laplacian", None, 0.15), ("rbf", 0.3, 0.3), ("linear", None, None)],
)
def test_it_is_the_recipe(kernel, gamma, used):
    front = LandmarkFeatures(30, kernel=kernel, gamma=gamma, random_state=7).fit(X)
    nystroem = Nystroem(kernel=kernel, gamma=used, n_components=30, random_state=7).fit(X)
    Z, more = nystroem.transform(X), nystroem.transform(MORE) - nystroem.transform(X).mean(axis=0)
    Z -= Z.mean(axis=0)
    factor = np.sqrt(3 * (X**2).sum(axis=1).mean() / (Z**2).sum(axis=1).mean())
    # A linear kernel of 30 landmarks with 4 features is singular: rounding grows a thousandfold.
    close = {"atol": 1e-6 if kernel == "linear" else 1e-9}
    np.testing.assert_allclose(front.transform(X), np.hstack([X, factor * Z]), **close)
    np.testing.assert_allclose(front.transform(MORE), np.hstack([MORE, factor * more]), **close)


def test_blocks_are_as_good_as_all_rows_at_once(monkeypatch):
    whole = LandmarkFeatures(30, random_state=0).fit(X).transform(MORE)
    monkeypatch.setattr(pril.features, "BLOCK_VALUES", 30 * 7)
    blocks = LandmarkFeatures(30, random_state=0).fit(X).transform(MORE)
    np.testing.assert_allclose(blocks, whole, rtol=1e-9, atol=1e-12)


def test_sparse_rows_have_the_same_features():
    sparse = np.where(rng.random(X.shape) < 0.5, X, 0.0)
    dense = LandmarkFeatures(20, random_state=0).fit(sparse)
    front = LandmarkFeatures(20, random_state=0).fit(csr_array(sparse))
    mapped = front.transform(csr_array(sparse))
    assert issparse(mapped)
    assert mapped.format == "csr"
    np.testing.assert_allclose(mapped.toarray(), dense.transform(sparse), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(front.transform(sparse), mapped.toarray(), rtol=1e-9, atol=1e-12)


def test_names_are_those_of_the_features_and_of_the_landmarks():
    frame = pd.DataFrame(X, columns=list("abcd"))
    front = LandmarkFeatures(2, random_state=0).fit(frame)
    assert front.get_feature_names_out().tolist() == ["a", "b", "c", "d", "landmark0", "landmark1"]
    assert front.set_output(transform="pandas").transform(frame).columns[4] == "landmark0"


def test_all_rows_are_landmarks_where_there_are_few():
    few = LandmarkFeatures(random_state=0).fit(X[:7])
    assert few.landmarks_.shape == (7, 4)
    assert np.array_equal(np.sort(few.landmarks_, axis=0), np.sort(X[:7], axis=0))


@pytest.mark.parametrize("rows", [X[:1], np.zeros((5, 4)), np.repeat(X[:1], 9, axis=0)])
def test_rows_without_any_difference_have_finite_features(rows):
    front = LandmarkFeatures(3, random_state=0).fit(rows)
    np.testing.assert_allclose(front.transform(rows)[:, 4:], 0.0, atol=1e-6)
    assert np.isfinite(front.transform(MORE)).all()


def test_what_was_learned_does_not_follow_the_parameters():
    front = LandmarkFeatures(20, random_state=0).fit(X)
    before = front.transform(MORE)
    assert np.array_equal(front.set_params(kernel="rbf", gamma=9.0).transform(MORE), before)


@pytest.mark.parametrize(
    "wrong", [{"n_landmarks": 0}, {"kernel": "precomputed"}, {"gamma": 0.0}, {"gamma": -1.0}]
)
def test_wrong_parameters_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        LandmarkFeatures(**wrong).fit(X)


def test_a_linear_learner_becomes_non_linear():
    y = np.digitize((X**2).sum(axis=1), [2.0, 5.0])
    linear = OrderedLogit(random_state=0)
    curved = make_pipeline(StandardScaler(), LandmarkFeatures(100, random_state=0), linear)
    assert curved.fit(X, y).score(X, y) > linear.fit(X, y).score(X, y) + 0.2
