"""Interval-censored times: many classes, of which most vanish at the maximum."""

import warnings

import numpy as np
import pytest

from pril import OrderedLogit
from pril.inference import infer


def visits(n, n_classes, link, rng):
    """Return features, and between which visits an event was: weights are 0.7 and -0.4."""
    X = np.column_stack([rng.integers(0, 2, n), rng.normal(size=n)]).astype(float)
    chance = rng.random(n)
    level = -np.log(1.0 - chance) if link == "cloglog" else chance / (1.0 - chance)
    time = n_classes / 2 * (level * np.exp(X @ [0.7, -0.4])) ** (1 / 1.5)
    seen = np.cumsum(rng.integers(1, max(n_classes // 4, 2), (n, 60)), axis=1).clip(
        max=n_classes - 1
    )
    low = np.where(seen < time[:, np.newaxis], seen, 0).max(axis=1)
    high = np.where(seen >= time[:, np.newaxis], seen - 1, n_classes - 1).min(axis=1)
    return X, np.column_stack([low, np.maximum(low, high)])


def turnbull(ranges, n_classes):
    """Return the log-likelihood of Turnbull's self-consistent shares of the classes, by EM."""
    inside = (ranges[:, :1] <= np.arange(n_classes)) & (np.arange(n_classes) <= ranges[:, 1:])
    shares = np.full(n_classes, 1.0 / n_classes)
    for _ in range(20_000):
        shares = (inside * shares / (inside @ shares)[:, np.newaxis]).mean(axis=0)
    return np.log(inside @ shares).sum()


@pytest.mark.parametrize("link", ["logit", "cloglog"])
def test_without_features_it_is_turnbulls_estimate(link):
    _, y = visits(150, 40, link, np.random.default_rng(0))
    model = OrderedLogit(classes=range(40), link=link, alpha=0.0, coarsening="random")
    found = model.fit(np.zeros((150, 1)), y)
    assert found.loglik_ == pytest.approx(turnbull(y, 40), abs=1e-5)


@pytest.mark.parametrize("link", ["logit", "cloglog"])
@pytest.mark.parametrize(
    ("n", "n_classes", "n_sets"), [(300, 105, 10), (600, 366, 2), (1000, 1001, 2)]
)
def test_a_maximum_is_found_where_most_classes_vanish(n, n_classes, n_sets, link):
    """Thresholds that meet must move together, also while steps are damped."""
    rng = np.random.default_rng(1)
    for _ in range(n_sets):
        X, y = visits(n, n_classes, link, rng)
        model = OrderedLogit(classes=range(n_classes), link=link, alpha=0.0, coarsening="random")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            model.fit(X, y)
        assert model.converged_
        assert model.n_iter_ <= 60
        # No class has a share whose growth would raise the likelihood: the condition for a maximum.
        proba = model.predict_proba(X)
        inside = (y[:, :1] <= model.classes_) & (model.classes_ <= y[:, 1:])
        assert infer(model, X, y).loglik == pytest.approx(
            np.log((proba * inside).sum(axis=1)).sum(), abs=1e-4
        )
        cuts, step = model.thresholds_, 1e-4
        for k in range(0, n_classes - 1, max(n_classes // 40, 1)):  # class k grows, the next shrink
            moved = np.maximum.accumulate(
                np.where(np.arange(n_classes - 1) >= k, cuts + step, cuts)
            )
            assert score(model, X, y, moved, link) <= score(model, X, y, cuts, link) + 1e-6


@pytest.mark.parametrize("seed", [9, 10, 11])
def test_errors_where_the_last_thresholds_are_infinite(seed):
    """Some classes are in open ranges only, after the last visits; the weight is 2."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(120, 1))
    time = 8 * np.exp(X[:, 0] - rng.gumbel(size=120) / 2)
    visit = np.cumsum(rng.integers(1, 8, (120, 20)), axis=1)
    visit = np.minimum(visit, rng.integers(12, 30, (120, 1)))
    low = np.where(visit < time[:, np.newaxis], visit, 0).max(axis=1)
    high = np.where(visit >= time[:, np.newaxis], visit - 1, 29).min(axis=1)
    y = np.column_stack([low, high])
    model = OrderedLogit(classes=range(30), link="cloglog", alpha=0.0, coarsening="random")
    result = infer(model.fit(X, y), X, y)
    assert abs(result.estimate[0] - 2.0) < 4 * result.std_error[0] < 1.5


def score(model, X, y, cuts, link):
    """Return the log-likelihood at other thresholds."""

    def below(t):
        return 1.0 / (1.0 + np.exp(-t)) if link == "logit" else -np.expm1(-np.exp(t))

    f, ends = model.latent(X), np.concatenate([[-np.inf], cuts, [np.inf]])
    return np.log(below(ends[y[:, 1] + 1] - f) - below(ends[y[:, 0]] - f)).sum()
