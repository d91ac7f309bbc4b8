"""Where boosting starts: linear models, each a maximum of its own rows, on small tables."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.datasets import load_iris

from pril import OrderedBoosting
from pril.labels import make_intervals
from pril.learners.boosting import cross_fitting, starts

lightgbm = pytest.importorskip("lightgbm", reason="pip install 'pril[boosting]'")

FEW = range(10, 15)
MANY = pytest.param(range(24, 400), marks=pytest.mark.slow)


def small_table(seed):
    """Return features and ranges of 20 to 200 rows, in 2 to 12 classes, some of them rare."""
    rng = np.random.default_rng(seed)
    n, K = int(rng.integers(20, 60 if seed in FEW else 201)), int(rng.integers(2, 13))
    d = int(rng.integers(1, rng.choice([5, 20, n]) + 1))
    X = rng.normal(size=(n, d)) if rng.random() < 0.7 else np.exp(rng.normal(size=(n, d)))
    if rng.random() < 0.3:  # features that are nearly the same
        X[:, : d // 2 + 1] = X[:, :1] + 0.01 * X[:, : d // 2 + 1]
    score = X @ rng.normal(size=d) * rng.choice([0.0, 0.3, 3.0, 30.0]) / np.sqrt(d)
    score += rng.logistic(size=n) * rng.choice([0.01, 1.0])
    cuts = np.sort(rng.random(K - 1)) if rng.random() < 0.5 else np.arange(1, K) / K
    share = 0.0 if K == 2 else rng.choice([0.0, 1.0])
    y = np.digitize(score, np.quantile(score, cuts))
    return X, make_intervals(y, int(rng.integers(1, 3)), share, classes=range(K)), K


def value(x, Z, ranges, weight, alpha, K):
    """Return minus the penalised log-likelihood of ranges at random, and its gradient."""
    theta = np.cumsum([x[-K + 1], *np.exp(x[len(x) - K + 2 :])])
    cut = np.concatenate([[-np.inf], theta, [np.inf]])
    ends = np.vstack([ranges, np.repeat(np.arange(K), 2).reshape(-1, 2)])  # of the mean row, too
    rows, weight = (
        np.vstack([Z, np.zeros((K, Z.shape[1]))]),
        np.append(weight, np.full(K, starts.ALPHA / K)),
    )
    w = x[: -K + 1]
    low, high = cut[ends[:, 0]] - rows @ w, cut[ends[:, 1] + 1] - rows @ w
    between = np.log1p(-np.exp(np.where(np.isfinite(high - low), low - high, -np.inf)))
    found = weight @ (log_expit(high) + log_expit(-low) + between) - alpha / 2 * w @ w
    # log(s(b) - s(a)) by b is s(-b) + 1 / (exp(b - a) - 1).
    with np.errstate(over="ignore"):
        more = 1.0 / np.expm1(np.where(np.isfinite(high - low), high - low, np.inf))
    by_high, by_low = weight * (expit(-high) + more), -weight * (expit(low) + more)
    by_theta = (
        np.bincount(ends[:, 1] + 1, by_high, K + 1) + np.bincount(ends[:, 0], by_low, K + 1)
    )[1:-1]
    by_x = np.cumsum(by_theta[::-1])[::-1] * np.append(1.0, np.exp(x[len(x) - K + 2 :]))
    return -found, -np.append(-(by_high + by_low) @ rows - alpha * w, by_x)


def highest(Z, ranges, weight, alpha, K, slopes=None):
    """Return the largest value, by an independent optimiser; or that of slopes."""
    d, even = Z.shape[1], np.log(np.arange(1, K) / np.arange(K - 1, 0, -1))
    start = np.concatenate([np.zeros(d), even[:1], np.log(np.diff(even))])

    def part(x):
        own, gradient = value(np.append(slopes, x), Z, ranges, weight, alpha, K)
        return own, gradient[d:]

    given = (Z, ranges, weight, alpha, K), value, start
    if slopes is not None:
        given = (), part, start[d:]
    most = {"maxiter": 5000, "maxfun": 50_000, "ftol": 1e-9, "gtol": 1e-6}
    return -minimize(given[1], given[2], given[0], "L-BFGS-B", jac=True, options=most).fun


@pytest.mark.parametrize("seeds", [FEW, MANY])
def test_each_start_is_the_maximum_of_its_own_rows(seeds, monkeypatch):
    seen, learn_starts = [], cross_fitting.learn_starts

    def watched(view, rows, *more):
        seen.append((view, rows, *learn_starts(view, rows, *more)))
        return seen[-1][2:]

    monkeypatch.setattr(cross_fitting, "learn_starts", watched)
    monkeypatch.setattr(starts, "LANDMARK_ROWS", 0)  # they are found in the same way
    for seed in seeds:
        X, ranges, K = small_table(seed)
        learner = OrderedBoosting(
            classes=range(K), coarsening="random", max_iter=1, n_folds=4, random_state=0
        )
        with pytest.warns():  # one round is not enough
            learner.fit(X, ranges)
        view, rows, learned, _ = seen.pop()
        fold = seed % 4
        given = view.Z, ranges, (rows.fold != fold).astype(float), starts.ALPHA, K
        found = highest(*given, learned[0].slopes[fold] * view.scale)
        assert found == pytest.approx(highest(*given), abs=1e-2), seed


@pytest.mark.parametrize("seeds", [FEW, MANY])
@pytest.mark.filterwarnings("ignore")
def test_no_fit_is_worse_than_the_shares_of_the_classes(seeds):
    """Trees of the first round may lose a little where there is nothing to learn."""
    for seed in seeds:
        X, ranges, K = small_table(seed)
        model = OrderedBoosting(
            classes=range(K), coarsening="random", max_iter=10, n_folds=4, random_state=0
        ).fit(X, ranges)
        kinds, kind, rows = np.unique(ranges, axis=0, return_inverse=True, return_counts=True)
        inside = (kinds[:, :1] <= np.arange(K)) & (np.arange(K) <= kinds[:, 1:])
        shares = (inside[kind] / inside[kind].sum(axis=1, keepdims=True)).sum(axis=0) + 0.5
        mass = shares / shares.sum()
        for _ in range(2000):  # Turnbull's shares show how often each range is given at random
            mass = mass * (rows / len(X) / (inside @ mass) @ inside)
        chance = rows / len(X) / (inside @ mass)
        by_shares = -np.log(chance * (inside @ shares) / shares.sum())[kind].mean()
        assert model.validation_loss_.min() < by_shares + 0.1, seed


def test_ranges_alone_separate_classes_that_features_separate():
    """From where the mechanism was before starts are learned again, a wrong maximum is near."""
    X, y = load_iris(return_X_y=True)
    train = np.arange(150) % 5 > 0
    ranges = make_intervals(y[train], 2, 1.0, classes=range(3), random_state=0)
    model = OrderedBoosting(classes=range(3), random_state=0).fit(X[train], ranges)
    assert model.coarsening_.shares[1, 1] > 0.9  # classes on both sides, as they were made
    assert (model.predict(X[~train]) == y[~train]).mean() > 0.9  # as with exact labels


@pytest.mark.parametrize("seed", [4, 18, 21])
def test_starts_that_are_all_worse_than_the_shares_of_the_classes_leave_these(seed):
    X, y = np.random.default_rng(seed).normal(size=(100, 1)), np.arange(100) < 3
    with pytest.warns():  # one round is not enough
        model = OrderedBoosting(max_iter=1, random_state=0).fit(X, y)
    by_shares = -0.03 * np.log(0.03) - 0.97 * np.log(0.97)
    assert model.validation_loss_[0] < by_shares + 0.1  # as in the test above


@pytest.mark.parametrize("seed", [0, 3])
def test_ranges_to_both_sides_are_not_taken_for_those_up_and_down(seed):
    """From as many of each, the search ended where classes are confused with their neighbours."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(420, 1))
    score = 3.0 * np.sin(6.0 * X[:, 0]) + 0.01 * rng.logistic(size=420)
    y = np.digitize(score, np.quantile(score, np.sort(rng.random(4))))
    ranges = make_intervals(y[:120], 2, 0.98, classes=range(5), random_state=seed)
    with pytest.warns():  # five rounds are not enough
        model = OrderedBoosting(max_iter=5, random_state=0).fit(X[:120], ranges)
    assert model.coarsening_.shares[1, 1] > 0.9  # classes on both sides, as they were made
    assert (model.predict(X[120:]) == y[120:]).mean() > 0.7
