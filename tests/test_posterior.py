"""OrderedLogit.posterior: Bayes' rule with the learned probabilities of ranges."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reference
from pril import OrderedLogit
from pril.labels import make_intervals
from strategies import smooth_streams


def slow_posterior(model, x, left, right):
    """M[u, y] P(y) inside the range, from the slow twin's M and its P."""
    twin = reference.Coarsening(len(model.classes_), model.coarsening)
    twin.phi, q = model.memory_.parts()["phi"], np.zeros(len(model.classes_))
    q[left - 1 : right] = 1.0
    if model.coarsening_.mechanism == "offsets" and 1 <= right - left <= 2:
        q[left - 1 : right] = [twin.chance((left, right), y) for y in range(left, right + 1)]
    joint = q * reference.chances(model.coef_ @ x, model.thresholds_)
    return joint / joint.sum() if joint.sum() > 1e-6 else None  # differences of 1 are not exact


@settings(max_examples=30)
@given(
    smooth_streams(max_rows=40),
    st.sampled_from([0.0, 0.5, 30.0]),
    st.sampled_from(["auto", "random", "offsets"]),
)
def test_it_is_the_slow_twin(stream, trust, coarsening):
    model = OrderedLogit(trust=trust, coarsening=coarsening, classes=stream.classes)
    model.partial_fit(stream.X, stream.y)
    posterior = model.posterior(stream.X, stream.y)
    for x, (left, right), probabilities in zip(stream.X, stream.y, posterior, strict=True):
        expected = slow_posterior(model, x, left, right)
        if expected is not None:
            np.testing.assert_allclose(probabilities, expected, atol=1e-9)


@settings(max_examples=30)
@given(smooth_streams(max_rows=40), st.sampled_from(["auto", "random", "offsets"]))
def test_after_fit_it_is_the_rule_of_bayes(stream, coarsening):
    """With P(label | class) as the model says it; at random, a range only cuts off."""
    model = OrderedLogit(coarsening=coarsening, classes=stream.classes).fit(stream.X, stream.y)
    posterior, prior = model.posterior(stream.X, stream.y), model.predict_proba(stream.X)
    for q, p, (left, right) in zip(posterior, prior, stream.y, strict=True):
        chances = np.zeros(len(p))
        found = model.coarsening_
        is_random = found.mechanism == "random"
        chances[left - 1 : right] = 1.0 if is_random else found.table[left - 1, right - 1]
        joint = chances * p
        np.testing.assert_allclose(q, joint / joint.sum(), atol=1e-9)


rng = np.random.default_rng(0)
X = rng.normal(size=(2000, 3))
score = X @ [2.0, -1.0, 0.5] + rng.logistic(size=2000)
EXACT = np.digitize(score, [-2.0, 0.0, 2.0]) + 1


def test_without_ranges_in_training_a_range_only_cuts_off():
    model = OrderedLogit(random_state=0).fit(X, EXACT)
    probabilities = model.predict_proba(X)
    inside = probabilities * [0, 1, 1, 0]
    cut_off = inside / inside.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.posterior(X, [(2, 3)] * len(X)), cut_off, atol=1e-12)


def test_labels_decide():
    model = OrderedLogit(random_state=0).fit(X, EXACT)
    np.testing.assert_array_equal(model.posterior(X, EXACT), np.eye(4)[EXACT - 1])
    nothing = model.posterior(X, [(None, None)] * len(X))
    np.testing.assert_allclose(nothing, model.predict_proba(X), atol=1e-12)
    from_2_on = model.posterior(X, [(2, None)] * len(X))
    assert (from_2_on[:, 0] == 0).all()
    np.testing.assert_allclose(from_2_on.sum(axis=1), 1.0)


def test_it_knows_what_ranges_mean():
    """A range {1, 2} of Type 1 comes from all rows of class 1, and from half of class 2."""
    ranges = make_intervals(EXACT, 1, 0.75, random_state=0)
    model = OrderedLogit(random_state=0).fit(X, ranges)
    wide = np.flatnonzero((ranges[:, 0] == 1) & (ranges[:, 1] == 2))
    probabilities = model.predict_proba(X[wide])[:, :2]
    bayes = probabilities * [1.0, 0.5]
    bayes /= bayes.sum(axis=1, keepdims=True)
    naive = probabilities / probabilities.sum(axis=1, keepdims=True)
    posterior = model.posterior(X[wide], ranges[wide])[:, :2]
    assert np.abs(posterior - bayes).mean() < 0.5 * np.abs(naive - bayes).mean()
    rows, truth = np.arange(len(wide)), EXACT[wide] - 1
    assert np.log(posterior[rows, truth]).mean() > np.log(naive[rows, truth]).mean()


def test_a_class_without_probability_can_still_be_the_label():
    model = OrderedLogit(classes=[1, 2, 3], average=False).partial_fit([[1.0]], [1])
    model.memory_.state.n[:] = 0.0  # the thresholds tie: class 2 has no probability
    assert model.posterior([[1.0]], [2]).tolist() == [[0.0, 1.0, 0.0]]


def test_before_the_first_label_a_range_only_cuts_off():
    model = OrderedLogit(classes=[1, 2, 3]).partial_fit([[1.0]], [None])
    np.testing.assert_allclose(model.posterior([[1.0]], [(1, 2)]), [[0.5, 0.5, 0.0]])


def test_labels_are_checked():
    model = OrderedLogit(random_state=0).fit(X, EXACT)
    with pytest.raises(ValueError, match="row 1: 9 is not one of the classes"):
        model.posterior(X[:2], [1, 9])
    with pytest.raises(ValueError, match="inconsistent"):
        model.posterior(X[:2], [1])
