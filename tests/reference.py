"""Slow twins: each algorithm in a few lines, written from its paper, ranks counted from 1.

Nothing here is shared with the package but names of constants. A twin takes rows ``X``, intervals ``[(l, r), ...]`` and
the number of classes K, and returns the prediction before each round and the model after it.
"""

import math
from decimal import Decimal, localcontext
from itertools import combinations, permutations
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from hypothesis import reject

from pril.core import coarsening, loop_types
from pril.online import coarsening_by_row


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


def mpril(X, intervals, K, rate, signed, normalise=True):
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
            w[p] = w[p] * np.exp(rate * p * x * tau.sum())
            theta[p] = theta[p] * np.exp(-rate * p * tau)
        Z = sum(w[p].sum() + theta[p].sum() for p in parts) if normalise else 1.0
        for p in parts:
            w[p], theta[p] = w[p] / Z, theta[p] / Z
        models.append((sum(p * w[p] for p in parts), sum(p * theta[p] for p in parts)))
    return predictions, models


def far_mpril(X, intervals, K, rate, signed):
    """The same from sums of exponents, in decimal numbers, which no exponent is too large for.

    Returns the predictions, and the model after the last round.
    """
    with localcontext(prec=30):
        step = Decimal(rate)
        exponents = [Decimal(0)] * (X.shape[1] + K - 1)  # of the weights, then of the thresholds
        predictions = []
        for x, (left, right) in zip(X.tolist(), intervals, strict=True):
            v = [a.exp() - (-a).exp() if signed else a.exp() for a in exponents]
            x = [Decimal(value) for value in x]
            f, theta = sum(a * b for a, b in zip(v, x, strict=False)), v[len(x) :]
            predictions.append(predict(f, theta))
            tau = [Decimal(int(t)) for t in violated(f, theta, left, right)]
            moves = [*(sum(tau) * value for value in x), *(-t for t in tau)]
            exponents = [a + step * move for a, move in zip(exponents, moves, strict=True)]
        parts = [(a.exp(), (-a).exp() if signed else Decimal(0)) for a in exponents]
        Z = sum(up + down for up, down in parts)
        v = np.array([float((up - down) / Z) for up, down in parts])
    return predictions, (v[: X.shape[1]], v[X.shape[1] :])


def widrow_hoff(X, intervals, K, rate, normalize):
    """Least mean squares towards the nearest end, in ranks 1..K; rounded and clipped."""
    w = np.zeros(X.shape[1])
    predictions, models = [], []
    for x, (left, right) in zip(X, intervals, strict=True):
        f = w @ x
        predictions.append(int(np.clip(math.floor(f + 0.5), 1, K)))
        target = f if (left, right) == (1, K) else min(max(f, left), right)
        w = w + rate * (target - f) * x / (1 + x @ x if normalize else 1)
        models.append((w, None))
    return predictions, models


def passive_aggressive(X, intervals, K, C=1.0, squared=False):
    """PA, PA-I and PA-II: s is the root of s = sum of z_i lambda_i(s), between two kinks of it."""
    w, theta, i = np.zeros(X.shape[1]), np.zeros(K - 1), np.arange(1, K)
    predictions, models = [], []
    for x, (left, right) in zip(X, intervals, strict=True):
        f, xx = w @ x, x @ x
        predictions.append(predict(f, theta))
        z = np.where(i < left, 1, np.where(i >= right, -1, 0))
        loss = np.where(z == 0, -np.inf, 1 - z * (f - theta))

        def multipliers(s, z=z, loss=loss, xx=xx):
            missing = np.maximum(0, loss - z * s * xx)
            return missing / (1 + 1 / (2 * C)) if squared else np.minimum(missing, C)

        def gap(s, z=z, multipliers=multipliers):
            return s - z @ multipliers(s)

        bound = 1 + multipliers(0.0).sum()
        kinks = [level / (sign * xx) for sign, level in zip(z, loss, strict=True) if sign * xx]
        kinks += [
            (level - C) / (sign * xx) for sign, level in zip(z, loss, strict=True) if sign * xx
        ]
        # Zero is there so that a root at zero has no rounding error, which would decide a tie.
        kinks = sorted([-bound, 0.0, *(kink for kink in kinks if abs(kink) < bound), bound])
        at = [gap(kink) for kink in kinks]
        k = max(k for k in range(len(kinks) - 1) if at[k] <= 0)
        s = kinks[k] - at[k] * (kinks[k + 1] - kinks[k]) / ((at[k + 1] - at[k]) or 1)
        tau = z * multipliers(s)
        w, theta = w + tau.sum() * x, ascending(theta - tau)
        models.append((w, theta))
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


def sigma(z):
    """The logistic function, without overflow and exact in both tails."""
    e = np.exp(-np.abs(z))
    return np.where(z > 0, 1.0, e) / (1 + e)


def between(f, theta):
    """The thresholds below and above each class, less f."""
    cut = np.array([-np.inf, *theta, np.inf]) - f
    return cut[:-1], cut[1:]


def chances(f, theta):
    """P(y) = sigma(b) - sigma(a), as a product, of which no digit cancels."""
    a, b = between(f, theta)
    return sigma(b) * sigma(-a) * -np.expm1(a - b)


def likelihood(f, theta, q):
    """Sum of q_y P(y): how likely the label is, if q_y is its chance for a row of class y."""
    return q @ np.maximum(chances(f, theta), 1e-12)


def slopes(f, theta, q):
    """Derivatives of log `likelihood` by f, and by minus each theta."""
    a, b = between(f, theta)
    parts = q * np.maximum(chances(f, theta), 1e-12)
    slope = parts @ (sigma(a) - sigma(-b)) / parts.sum()
    tau = sigma(b[:-1]) * sigma(-b[:-1]) * np.diff(q) / parts.sum()
    return slope, tau


OFFSETS = [(0, 1), (1, 0), (0, 2), (1, 1), (2, 0)]  # classes below and above the true one


class Coarsening:
    """How classes become ranges, learned row by row; a row has the weight omega, ranks from 1."""

    def __init__(self, K, kind, trust=30):
        self.K, self.kind, self.trust = K, kind, trust
        self.phi = np.zeros(4)  # logits of the shares of offsets
        self.squares = np.zeros(4)  # of the gradients by them
        self.n = {}  # weight of each label
        self.mu = np.zeros(K)  # Turnbull's estimate of the weight of each class
        # Weight of all rows; number of rows, and the sum of their own weights; weight of narrow and
        # of wide ranges, of overlaps, of missing kinds; evidence.
        self.W = self.rows = self.c = self.G = self.V = self.Q = self.missing = self.D = 0.0

    def fade(self, factor):
        self.n = {u: factor * weight for u, weight in self.n.items()}
        for name in ("squares", "mu", "W", "rows", "c", "G", "V", "Q", "missing", "D"):
            setattr(self, name, factor * getattr(self, name))

    @property
    def unit(self):
        """Return the mean weight of a row."""
        return self.W / self.rows

    def given(self, y, o):
        """Return the range that offset o gives to class y, or None if it has a single class."""
        left, right = max(1, y - o[0]), min(self.K, y + o[1])
        return (left, right) if left < right else None

    def shares(self, phi=None):
        widths, both, pairs, triples = self.phi if phi is None else phi
        logits = {
            (0, 1): widths + pairs / 2,
            (1, 0): widths - pairs / 2,
            (0, 2): triples / 2,
            (1, 1): both,
            (2, 0): -triples / 2,
        }
        whole = sum(np.exp(logit) for logit in logits.values())
        return {o: np.exp(logits[o]) / whole for o in OFFSETS}

    def chance(self, u, y, phi=None):
        """Return the chance that a row of class y is given the range u."""
        pi = self.shares(phi)
        made = {o: self.given(y, o) for o in OFFSETS}
        some = sum(pi[o] for o in OFFSETS if made[o])
        return sum(pi[o] for o in OFFSETS if made[o] == u) / some

    def uses_offsets(self):
        compared = [
            (self.D / self.unit, -loop_types.MAX_EVIDENCE_AGAINST),
            (loop_types.MAX_MISSING_SHARE * self.G, self.missing),
            (self.Q, loop_types.LEAST_OVERLAP * self.G),
            (self.G, self.V),
        ]
        # An example is rejected if rounding errors decide; whole numbers have none.
        are_whole = [more % 1 == less % 1 == 0 for more, less in compared]
        for each, is_whole in zip(compared, are_whole, strict=True):
            if math.isclose(*each) and not is_whole:
                reject()
        chosen = all(more >= less for more, less in compared)
        return {"random": False, "auto": chosen, "offsets": True}[self.kind]

    def look_for_missing_kinds(self):
        """Weigh the ranges that offsets would make of the classes at random, but hardly occur."""
        self.missing = 0.0
        for u in [(y, y + w) for w in (1, 2) for y in range(1, self.K + 1 - w)]:
            seen = self.n.get(u, 0.0)
            expected = sum(self.mu[y - 1] * self.chance(u, y) for y in range(u[0], u[1] + 1))
            if seen < coarsening.LEAST_SEEN * expected:
                self.missing += expected - seen

    def log_posterior(self, phi, u, P):
        """Return that of a row, with its part of the prior of phi."""
        likelihood = sum(P[y - 1] * self.chance(u, y, phi) for y in range(u[0], u[1] + 1))
        widths, up = phi[:2], 1 / (1 + np.exp(-phi[2:]))
        exact = (self.W - self.G - self.V) / self.unit
        doubt = self.trust / (self.trust + exact) if self.trust else 0.0
        prior = -np.sum((widths / loop_types.WIDTH_SPREAD) ** 2) / 2
        rows = max(loop_types.DIRECTION_ROWS * doubt**2, 1.0)
        prior += rows * np.sum(np.log(up) + np.log(1 - up))
        return np.log(likelihood) + prior / (self.G / self.unit)

    def learn(self, u, P, t, c):
        """Learn from a row with the label u, of weight c; P has the chance of each class.

        Return the chance of the label for each of its classes, but for a factor.
        """
        omega, n_classes = c * t, u[1] - u[0] + 1
        target = np.ones(n_classes)
        self.W, self.rows, self.c = self.W + omega, self.rows + 1, self.c + c
        if n_classes > 3:
            self.V += omega
            return target
        self.G += omega if n_classes > 1 else 0.0
        if n_classes > 1 and self.kind != "random":
            target = self.learn_range(u, P, omega, c)
        self.n[u] = self.n.get(u, 0.0) + omega
        period = (
            coarsening_by_row.ROWS_BETWEEN_LOOKS * self.K,
            1 + t // coarsening_by_row.PART_BETWEEN_LOOKS,
        )
        if self.kind != "random" and t % min(period) == 0:
            self.look_for_missing_kinds()
        return target

    def learn_range(self, u, P, omega, c):
        K, inside, unit = self.K, slice(u[0] - 1, u[1]), self.unit
        M = np.array([self.chance(u, y) for y in range(u[0], u[1] + 1)])
        target = M if self.uses_offsets() else np.ones(len(M))
        prior = (
            coarsening_by_row.PRIOR_ROWS_OF_KIND * unit
        )  # rows of each kind, and those of its classes
        known, classes = self.n.get(u, 0.0), self.mu[inside].sum()
        rows = classes + prior * (2 * K - 3) * len(M) / K
        at_random = min(1, (known + prior) / rows) * P[inside].sum()
        if classes > 0:  # other rows of these classes have other ranges
            self.Q += omega * max(0, 1 - known / classes)
        self.D += omega * math.log(P[inside] @ M / at_random)
        mu = self.mu[inside] + coarsening_by_row.PRIOR_ROWS_OF_CLASS * unit
        self.mu[inside] += omega * mu / mu.sum()
        tiny = 1e-100  # the derivative of an analytic function, without a difference
        slopes = [self.log_posterior(self.phi + 1j * tiny * e, u, P).imag for e in np.eye(4)]
        step = c * np.array(slopes) / tiny
        self.squares = self.squares + step**2
        self.phi = self.phi + step / np.sqrt((self.c / self.rows) ** 2 + self.squares)
        return target


def ordered_logit(
    X,
    intervals,
    K,
    rate=10,
    cut_rate=2,
    trust=30,
    noise=0,
    coarsening="auto",
    half_life=None,
    weight=None,
    mechanism=None,
):
    """The online ordered logit on the likelihood of ranges; `weight` has one number a row."""
    w, i = np.zeros(X.shape[1]), np.arange(1, K)
    theta = np.log(i / (K - i))
    mechanism = mechanism or Coarsening(K, coarsening, trust)
    size = A = B = 0.0
    fade = 1.0 if half_life is None else 0.5 ** (1 / half_life)
    predictions, models = [], []
    for t, (x, (left, right)) in enumerate(zip(X, intervals, strict=True), start=1):
        c = 1.0 if weight is None else weight[t - 1]
        size, A, B = (fade * v for v in (size, A, B))
        mechanism.fade(fade)
        f = w @ x
        predictions.append(predict(f, theta))
        target = mechanism.learn((left, right), np.maximum(chances(f, theta), 1e-12), t, c)
        q = np.full(K, noise * (1 - 1 / math.sqrt(1 + t / 1000)))
        q[left - 1 : right] = target / target.max()
        a, tau = slopes(f, theta, q)
        a, tau = 0.0 if abs(a) < 1e-9 else a, np.clip(tau, -2, 2)
        size, count = size + c * x @ x, mechanism.c
        A, B = A + (c * a) ** 2, B + np.mean((c * tau) ** 2)
        if size > 0:
            first = (count / mechanism.rows) ** 2  # the squared mean of c
            w = w + rate * c * a / (size / count * math.sqrt(first + A)) * x
        if B > 0:
            theta = ascending(theta - min(4, c * cut_rate / math.sqrt(B)) * tau)
        models.append((w, theta))
    return predictions, models


def shifted(y, offset, K):
    """The range that an offset makes of class y, None if only the class itself; ranks from 0."""
    low, high = max(0, y - offset[0]), min(K - 1, y + offset[1])
    return None if low == high else (low, high)


def drawn_shares(shares, table, kinds, K, symmetric):
    """One EM update of the shares of offsets: how often each was drawn, of the narrow ranges."""
    drawn = dict.fromkeys(OFFSETS, 1 / 5)
    for u, y in np.ndindex(table.shape):
        if not 1 <= kinds[u][1] - kinds[u][0] <= 2:
            continue
        made = {o: shifted(y, o, K) for o in OFFSETS}
        fitting = [o for o in OFFSETS if made[o] == tuple(kinds[u])]
        none = [o for o in OFFSETS if made[o] is None]
        rest = 1 - sum(shares[o] for o in none)
        for o in fitting:
            drawn[o] += table[u, y] * shares[o] / sum(shares[p] for p in fitting)
        for o in none:  # each was drawn so often before one that fits
            drawn[o] += table[u, y] * shares[o] / max(rest, 0.01)
    if symmetric:
        drawn = {(a, b): (drawn[a, b] + drawn[b, a]) / 2 for a, b in drawn}
    return {o: weight / sum(drawn.values()) for o, weight in drawn.items()}


def offsets_target(shares, table, kinds, K, trust):
    """P(range | class) of shared offsets; ranges wider than three classes are given at random."""
    N, target = table.sum(axis=0), np.zeros_like(table)
    steps = np.array([high - low for low, high in kinds])

    def share(some, y):
        whole = table[some].sum() / table.sum()
        return (table[some, y].sum() + trust * whole) / (N[y] + trust)

    for u, (low, high) in enumerate(kinds):
        for y in range(low, high + 1):
            if steps[u] > 2:
                target[u, y] = table[u].sum() / N[low : high + 1].sum()
            elif steps[u] > 0:
                made = {o: shifted(y, o, K) for o in OFFSETS}
                fitting = sum(shares[o] for o in OFFSETS if made[o] == (low, high))
                rest = sum(shares[o] for o in OFFSETS if made[o] is not None)
                narrow = max(1 - share(steps == 0, y) - share(steps > 2, y), 1e-6)
                target[u, y] = narrow * fitting / max(rest, 0.01)
    return target


def offset_chances(phi, kinds, K):
    """P(range | class) of shared offsets by their logits, a row for each kind; 1 if they are alike."""
    pair, both, up, far = phi
    shares = np.exp([pair + up / 2, pair - up / 2, far / 2, both, -far / 2])
    table = np.array([[1.0 * (low <= y <= high) for y in range(K)] for low, high in kinds])
    for u, (low, high) in enumerate(kinds):
        for y in range(low, high + 1) if 1 <= high - low <= 2 else ():
            made = [shifted(y, offset, K) for offset in OFFSETS]
            fitting = sum(
                share for share, ends in zip(shares, made, strict=True) if ends == (low, high)
            )
            table[u, y] = fitting / sum(s for s, ends in zip(shares, made, strict=True) if ends)
    return table


def held_out_posterior(phi, theta, f, group, kinds, weight, sample, trust, evenly):
    """The log-likelihood of labels by held-out scores, and with the log prior.

    `evenly` has the weight of each class, if ranges are divided evenly.
    """
    K = len(theta) + 1
    q = offset_chances(phi, kinds, K) if len(phi) else offset_chances(np.zeros(4), kinds, K) > 0
    cut = np.array([-np.inf, *theta, np.inf]) - f[:, None]
    a, b = cut[:, :-1], cut[:, 1:]
    p = sigma(b) * sigma(-a) * -np.expm1(a - b)
    loglik = weight @ np.log((q[group] * p).sum(axis=1))
    prior = 30 * (evenly + 0.5) / (evenly + 0.5).sum() @ np.log(weight[sample] @ p[sample])
    if len(phi):
        exact = weight[kinds[group, 0] == kinds[group, 1]].sum()
        rows, up = max(20 * (trust / (trust + exact)) ** 2, 1), sigma(phi[2:])
        prior += rows * np.log(up * (1 - up)).sum() - (phi[:2] ** 2).sum() / 50
    return loglik, loglik + prior


def newton(function, x, k, h=1e-3):
    """The Newton step uphill from x, by differences; the last k numbers stay ascending."""
    n, e = len(x), h * np.eye(len(x))
    slope = np.array([function(x + e[i] / 9) - function(x - e[i] / 9) for i in range(n)]) / (
        h / 4.5
    )
    hessian = np.zeros((n, n))
    for i in range(n):
        for j in range(i + 1):
            for a, b in ((1, 1), (-1, -1), (1, -1), (-1, 1)):
                hessian[i, j] += a * b * function(x + a * e[i] + b * e[j]) / (4 * h**2)
            hessian[j, i] = hessian[i, j]
    for j in range(n - k, n - 1):  # where two of them approach each other, it is more curved
        pull, between = slope[j + 1 :].sum(), (e[j + 1] - e[j]) / h
        hessian -= max(-pull, 0) / (x[j + 1] - x[j]) * np.outer(between, between)
    return -np.linalg.solve(hessian, slope)


def ordered_boosting(
    intervals, weight, fold, start, theta, phi, X, rounds, rate, l2, trust, sample
):
    """Boosted stumps on top of other scores, a booster for each fold; ranks from 0, all rows.

    start[j, i] is the score of row i by a model that has not seen fold j; thresholds, and logits of
    the shares of offsets, are those to begin with; none if ranges are at random. Returns for each
    round the held-out log-likelihood, thresholds, logits, and what the stumps of each booster have
    added to each row.
    """
    n, K, n_phi = len(X), len(theta) + 1, len(phi)
    kinds, group = np.unique(intervals, axis=0, return_inverse=True)
    steps = kinds[:, 1] - kinds[:, 0]
    learned = (steps > 0) & (steps <= 2) & (n_phi > 0)
    rows, f, found, x = np.arange(n), start.copy(), [], np.concatenate([phi, theta])
    evenly = np.zeros(K)
    for u, w in zip(group, weight, strict=True):
        evenly[kinds[u, 0] : kinds[u, 1] + 1] += w / (steps[u] + 1)

    def derivatives(f):
        """First and second derivatives of the loss by the scores."""
        below = np.array([[0, *sigma(x[n_phi:] - s), 1] for s in f])
        a, b = below[:, 1:], below[:, :-1]
        if n_phi:
            r = offset_chances(x[:n_phi], kinds, K)[group] * (a - b)
            r /= r.sum(axis=1, keepdims=True)
        low, high = b[rows, kinds[group, 0]], a[rows, kinds[group, 1]]
        g, h = 1 - high - low, high * (1 - high) + low * (1 - low)
        if n_phi:  # expected over the classes of the range
            some = learned[group]
            g[some] = (r * (1 - a - b)).sum(axis=1)[some]
            h[some] = (r * (a * (1 - a) + b * (1 - b))).sum(axis=1)[some]
        return weight * g, weight * np.maximum(h, 1e-6)

    def stump(gradient, hessian, rate, l2, least):
        """Return what the best split of all adds to each row; of equal ones, the highest."""
        best, added = 0.0, np.zeros(n)
        G, H = gradient.sum(), hessian.sum()
        for column in X.T:
            values = np.unique(column)
            for cut in (values[1:] + values[:-1])[::-1] / 2:
                left = column <= cut
                g, h = gradient[left].sum(), hessian[left].sum()
                gain = g**2 / (h + l2) + (G - g) ** 2 / (H - h + l2) - G**2 / (H + l2)
                if gain > best + 1e-9 and h >= least and H - h >= least:
                    best = gain
                    added = -rate * np.where(left, g / (h + l2), (G - g) / (H - h + l2))
        return added

    for t in range(rounds):
        for j in range(len(f)):
            g, h = derivatives(f[j])
            c = 1 + t / 50  # each round is bolder
            f[j] += stump(g * (fold != j), h * (fold != j), rate * c, l2 / c, 1 / c)
        given = f[fold, rows], group, kinds, weight, sample, trust, evenly

        def posterior(x, given=given):
            return held_out_posterior(x[:n_phi], x[n_phi:], *given)[1]

        step = newton(posterior, x, K - 1)
        step *= min(1, 1 / np.abs(step).max())
        assert posterior(x + step) >= posterior(x)  # else, it is damped
        x = x + step
        loglik, _ = held_out_posterior(x[:n_phi], x[n_phi:], *given)
        found.append((loglik, x[n_phi:], x[:n_phi], f - start))
    return found


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


class Twin(NamedTuple):
    """A learner, its parameters, and the function above that does the same slowly."""

    learner: str
    parameters: dict[str, Any]
    function: Any
    options: dict[str, Any]
    rounds: bool = False  # whether the two may differ by rounding

    def run(self, X, intervals, K):
        return self.function(X, intervals, K, **self.options)

    def __str__(self):
        return f"{self.learner} {self.options}"


# Their steps are no multiples of anything: two orders of a sum differ in the last bits.
UNEVEN = ("WidrowHoff", "OrderedLogit", "PassiveAggressive")

LAST = {"average": False}
TWINS = [
    Twin("PRIL", LAST, pril, {}),
    Twin("PRank", LAST, pril, {"skip_correct": True}),
    Twin("MulticlassPerceptron", {**LAST, "fit_intercept": False}, multiclass, {}),
    Twin("OrderedLogit", LAST, ordered_logit, {}, rounds=True),
    *(
        Twin("OrderedLogit", {**LAST, **options}, ordered_logit, options, rounds=True)
        for options in (
            {"trust": 0.5, "coarsening": "random"},
            {"noise": 0.3, "rate": 1.0, "coarsening": "offsets"},
            {"trust": 0.0, "cut_rate": 9},
            {"half_life": 3.0},
        )
    ),
    *(
        Twin("MPRIL", options, mpril, options, rounds=True)
        for signed in (True, False)
        for rate in (0.05, 0.5, 2.0)
        for options in [{"rate": rate, "signed": signed}]
    ),
    *(
        Twin("WidrowHoff", {**LAST, **options, "fit_intercept": False}, widrow_hoff, options, True)
        for normalize in (True, False)
        for options in [{"rate": 0.2, "normalize": normalize}]
    ),
    *(
        Twin(
            "PassiveAggressive",
            {**LAST, "C": C, "loss": "squared_hinge" if squared else "hinge"},
            passive_aggressive,
            {"C": C, "squared": squared},
            rounds=True,
        )
        for C, squared in ((math.inf, False), (1.0, False), (0.1, False), (0.3, True))
    ),
]


# --- Orders --------------------------------------------------------------------------------------


def shuffled(n, rng):
    """Return an order of n rows: NumPy's, with a seed from the learner's generator."""
    seed = int.from_bytes(rng.bytes(16), "little")
    return np.random.Generator(np.random.SFC64(seed)).permutation(n)


def shapley(worth, n_features):
    """Return Shapley values from their definition: what a feature adds, in the mean of all orders.

    `worth` is a function of a set of features.
    """
    every = range(n_features)
    known = {some: worth(some) for r in range(n_features + 1) for some in combinations(every, r)}
    values, orders = np.zeros(n_features), list(permutations(every))
    for order in orders:
        for at, feature in enumerate(order):
            before = tuple(sorted(order[:at]))
            values[feature] += known[tuple(sorted((*before, feature)))] - known[before]
    return values / len(orders)


def corrected(samples, estimate, level):
    """Return percentiles as Efron (1981) corrects them: the k-th of n is at k / (n + 1)."""
    samples = np.sort(samples)
    n, normal = len(samples), NormalDist()
    below = (np.sum(samples < estimate) + np.sum(samples <= estimate)) / (2 * n)
    shift = 1.0 if below == 1.0 else -1.0
    if 0.0 < below < 1.0:
        shift = 2.0 * np.clip(normal.inv_cdf(below), -0.5, 0.5)
    half = normal.inv_cdf((1.0 + level) / 2.0)
    places = [(n + 1) * normal.cdf(shift + end) for end in (-half, half)]
    return np.interp(places, np.arange(1, n + 1), samples)
