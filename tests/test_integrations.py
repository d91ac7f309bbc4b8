"""pril with the tools people already use: each test is a line of docs/integrations.md."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import MPRIL, PRIL, KernelPRIL, OrderedLogit, PRank, WidrowHoff
from pril.labels import to_ranks

GRADES = ["poor", "fair", "good", "great"]  # not in alphabetical order


def survey(n=400, seed=0):
    """Rows, ranges of grades, and the true ranks."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    rank = np.digitize(X @ [2.0, -1.0, 0.5] + rng.normal(scale=0.3, size=n), [-2.0, 0.0, 2.0])
    low, high = np.maximum(rank - rng.integers(0, 2, n), 0), rank + 0
    names = np.array(GRADES, dtype=object)
    return X, np.column_stack([names[low], names[high]]), rank


def learner():
    return PRIL(classes=range(4), random_state=0)


# --- Meta-estimators that number the labels themselves ---


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: BaggingClassifier(learner(), n_estimators=5, random_state=0),
        lambda: VotingClassifier([("a", learner()), ("b", learner())]),
        lambda: StackingClassifier([("a", learner())], LogisticRegression(max_iter=1000), cv=3),
        lambda: BaggingClassifier(OrderedLogit(classes=range(4)), n_estimators=3, random_state=0),
        lambda: VotingClassifier([("a", OrderedLogit(classes=range(4)))], voting="soft"),
    ],
)
def test_meta_estimators_learn_ranks(wrapped):
    X, _, rank = survey()
    y = pd.Categorical.from_codes(rank, GRADES, ordered=True)
    alone = PRIL(random_state=0).fit(X, y).score(X, y)
    ranks = to_ranks(y, exact=True)
    assert wrapped().fit(X, ranks).score(X, ranks) > alone - 0.05


@pytest.mark.parametrize(
    "wrapped",
    [
        BaggingClassifier(PRIL(classes=GRADES)),
        VotingClassifier([("a", PRIL(classes=GRADES))]),
        StackingClassifier([("a", PRIL(classes=GRADES))]),
    ],
)
def test_meta_estimators_that_number_labels_are_named_in_the_error(wrapped):
    X, _, rank = survey()
    with pytest.raises(ValueError, match=r"meta-estimator .* pril\.labels\.to_ranks"):
        wrapped.fit(X, np.array(GRADES)[rank])


def test_margins_of_ranks_are_in_the_order_of_the_classes():
    X, _, rank = survey()
    y = pd.Categorical.from_codes(rank, GRADES, ordered=True)
    margins = cross_val_predict(learner(), X, to_ranks(y, exact=True), method="decision_function")
    assert (margins.argmax(axis=1) == rank).mean() > 0.8


def test_integer_cv_and_stratified_folds_take_ranks():
    X, y, rank = survey()
    open_ended = y.copy()
    open_ended[::7, 1] = None
    scores = cross_val_score(learner(), X, to_ranks(open_ended, GRADES), cv=5)
    assert scores.mean() > 0.85
    splits = StratifiedKFold(4).split(X, to_ranks(np.array(GRADES)[rank], GRADES, exact=True))
    assert len(list(splits)) == 4


# --- Inspecting models ---


def test_the_score_of_a_pipeline_takes_two_lines():
    X, y, _ = survey()
    model = make_pipeline(StandardScaler(), PRIL(classes=GRADES, random_state=0)).fit(X, y)
    features = model[:-1].transform(X)
    scores = model[-1].latent(features)
    rank = np.searchsorted(model[-1].thresholds_, scores, side="right")
    np.testing.assert_array_equal(np.array(GRADES, dtype=object)[rank], model.predict(X))


@pytest.mark.parametrize("kind", [PRIL, PRank, MPRIL, OrderedLogit, WidrowHoff])
def test_score_is_weights_and_intercept(kind):
    X, _, rank = survey()
    X /= np.abs(X).max()
    for model in [
        kind().fit(X, rank),
        *([kind(signed=False).fit(X, rank)] if kind is MPRIL else []),
    ]:
        scores = X @ model.coef_ + model.intercept_
        np.testing.assert_allclose(model.latent(X), scores, atol=1e-9)
        assert isinstance(model.intercept_, float)
        assert (model.intercept_ == 0.0) == (kind is not WidrowHoff)


@pytest.mark.parametrize("kind", [PRIL, PRank, MPRIL, OrderedLogit, WidrowHoff, KernelPRIL])
def test_errors_about_arguments_name_the_class(kind):
    with pytest.raises(
        TypeError, match=rf"^{kind.__name__}\.__init__\(\) got an unexpected keyword"
    ):
        kind(colour=1)
    with pytest.raises(TypeError, match=rf"^{kind.__name__}\.__init__\(\) takes 1 positional"):
        kind([1, 2])
    assert clone(kind(max_iter=3)).max_iter == 3
