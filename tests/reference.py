"""Slow twins: each algorithm in a few lines, written from its paper, ranks counted from 1.

Nothing here is shared with the package. A twin takes rows ``X``, intervals ``[(l, r), ...]`` and
the number of classes K, and returns the prediction before each round and the model after it.
"""

import math

import numpy as np


def predict(f, theta):
    """The boxes' rule: the smallest i with f < theta_i, else K."""
    for i, threshold in enumerate(theta, start=1):
        if f < threshold:
            return i
    return len(theta) + 1


def violated(f, theta, left, right):
    """tau_i = z_i where z_i (f - theta_i) <= 0, for i in 1..l-1 and r..K-1."""
    tau = np.zeros(len(theta))
    for i in range(1, len(theta) + 1):
        z = 1 if i < left else -1 if i >= right else 0
        if z != 0 and z * (f - theta[i - 1]) <= 0:
            tau[i - 1] = z
    return tau


def pril(X, intervals, K, skip_correct=False, start=None):
    """Algorithm 1; skip_correct: PRank, which leaves a round with the right prediction alone."""
    w, theta = start or (np.zeros(X.shape[1]), np.zeros(K - 1))
    predictions, models = [], []
    for x, (left, right) in zip(X, intervals, strict=True):
        f = math.fsum(w * x)
        predictions.append(predict(f, theta))
        if not (skip_correct and left <= predictions[-1] <= right):
            tau = violated(f, theta, left, right)
            w = w + tau.sum() * x
            theta = theta - tau
        models.append((w, theta))
    return predictions, models


def kernel_pril(X, intervals, K):
    """Algorithm 2 with a linear kernel: every tau is kept and f is summed anew each round."""
    taus, predictions = np.zeros((len(X), K - 1)), []
    for t, (x, (left, right)) in enumerate(zip(X, intervals, strict=True)):
        f = math.fsum(taus[s].sum() * (X[s] @ x) for s in range(t))
        theta = -taus[:t].sum(axis=0)
        predictions.append(predict(f, theta))
        taus[t] = violated(f, theta, left, right)
    return predictions, taus


def mpril(X, intervals, K, eta, signed, normalise=True):
    """Algorithm 3 as its proof has it: products of factors, divided by Z in every round.

    Signed: the same on the features [x, -x] and on positive and negative parts of thresholds.
    """
    d = X.shape[1]
    parts = (1, -1) if signed else (1,)
    w = {p: np.full(d, 1 / (len(parts) * (K + d - 1))) for p in parts}
    theta = {p: np.full(K - 1, 1 / (len(parts) * (K + d - 1))) for p in parts}
    predictions, models = [], []
    for x, (left, right) in zip(X, intervals, strict=True):
        f = sum(p * (w[p] @ x) for p in parts)
        cut = sum(p * theta[p] for p in parts)
        predictions.append(predict(f, cut))
        tau = violated(f, cut, left, right)
        for p in parts:
            w[p] = w[p] * np.exp(eta * p * x * tau.sum())
            theta[p] = theta[p] * np.exp(-eta * p * tau)
        Z = sum(w[p].sum() + theta[p].sum() for p in parts) if normalise else 1.0
        for p in parts:
            w[p], theta[p] = w[p] / Z, theta[p] / Z
        models.append((sum(p * w[p] for p in parts), sum(p * theta[p] for p in parts)))
    return predictions, models


def widrow_hoff(X, intervals, K, eta, normalize):
    """Least mean squares towards the nearest end, in ranks 1..K; rounded and clipped."""
    w = np.zeros(X.shape[1])
    predictions, models = [], []
    for x, (left, right) in zip(X, intervals, strict=True):
        f = w @ x
        predictions.append(int(np.clip(math.floor(f + 0.5), 1, K)))
        target = f if (left, right) == (1, K) else min(max(f, left), right)
        w = w + eta * (target - f) * x / (1 + x @ x if normalize else 1)
        models.append((w, None))
    return predictions, models


def multiclass(X, intervals, K):
    """Promote the best rank inside, demote the winner; the lower of two equal scores is better."""
    W = np.zeros((K, X.shape[1]))
    predictions, models = [], []
    for x, (left, right) in zip(X, intervals, strict=True):
        scores = [math.fsum(w * x) for w in W]
        winner = max(range(1, K + 1), key=lambda k: (scores[k - 1], -k))
        predictions.append(winner)
        if not left <= winner <= right:
            best = max(range(left, right + 1), key=lambda k: (scores[k - 1], -k))
            W = W.copy()
            W[best - 1] += x
            W[winner - 1] -= x
        models.append((W, None))
    return predictions, models


def ascending(v):
    """The nearest ascending vector: the largest of the smallest means around each entry."""
    n = range(len(v))
    means = {(a, b): np.mean(v[a : b + 1]) for a in n for b in n if a <= b}
    return np.array([max(min(means[a, b] for b in n[i:]) for a in n[: i + 1]) for i in n])


def mixed(rounds, K, stride, theta, lattice):
    """Parameter mixing; a round is a list of blocks (X, intervals), and the last has stride 1.

    `theta` are the thresholds at the start. On the lattice of integers they are rounded after every
    round, and what that takes away is given back in the next. Returns the common model after the
    last round, and the mean of the iterates of each round.
    """
    common = np.zeros(rounds[0][0][0].shape[1]), theta
    means, owed = [], np.zeros(K - 1)
    for r, blocks in enumerate(rounds, start=1):
        passes = [pril(X, intervals, K, start=common)[1] for X, intervals in blocks]
        rows = sum(len(models) for models in passes)
        w, theta = (
            part
            + (stride if r < len(rounds) else 1)
            * sum(len(models) * (models[-1][i] - part) for models in passes)
            / rows
            for i, part in enumerate(common)
        )
        theta = ascending(theta + owed)
        common = w, np.round(theta) if lattice else theta
        owed = theta - common[1]
        means.append(mean([model for models in passes for model in models]))
    return common, means


def mean(models):
    """The mean of all iterates, the zero start excluded."""
    return tuple(
        None if parts[0] is None else sum(parts[1:], parts[0]) / len(parts)
        for parts in zip(*models, strict=True)
    )


def hinge(f, theta, left, right):
    """L_I^IMC, equation (2)."""
    return sum(max(0.0, theta[i - 1] - f) for i in range(1, left)) + sum(
        max(0.0, f - theta[i - 1]) for i in range(right, len(theta) + 1)
    )


def absolute(f, theta, left, right):
    """L_I^MAE, equation (1)."""
    return sum(f < theta[i - 1] for i in range(1, left)) + sum(
        f >= theta[i - 1] for i in range(right, len(theta) + 1)
    )
