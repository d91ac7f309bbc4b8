"""Slow twins: each algorithm in a few lines, written from its paper, ranks counted from 1.

Nothing here is shared with the package. A twin takes rows ``X``, intervals ``[(l, r), ...]`` and
the number of classes K, and returns the prediction before each round and the model after it.
"""

import math
from decimal import Decimal, localcontext
from itertools import combinations, permutations
from statistics import NormalDist
from typing import Any, NamedTuple

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
        kinks = sorted([-bound, *(kink for kink in kinks if abs(kink) < bound), bound])
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

    def __init__(self, K, kind):
        self.K, self.kind = K, kind
        self.S = dict.fromkeys(OFFSETS, 0.0)  # expected weight of the rows of each offset
        self.mu = np.zeros(K)  # Turnbull's estimate of the weight of each class
        # Weight of all rows, their number; weight of narrow and of wide ranges; overlap; missing
        # kinds; evidence.
        self.W = self.rows = self.G = self.V = self.Q = self.missing = self.D = 0.0

    def fade(self, factor):
        self.S = {o: factor * weight for o, weight in self.S.items()}
        self.mu = factor * self.mu
        for name in ("W", "rows", "G", "V", "Q", "missing", "D"):
            setattr(self, name, factor * getattr(self, name))

    def count(self, omega):
        self.W += omega
        self.rows += 1

    @property
    def unit(self):
        """Return the mean weight of a row."""
        return self.W / self.rows

    def given(self, y, o):
        """Return the range that offset o gives to class y, or None if it has a single class."""
        left, right = max(1, y - o[0]), min(self.K, y + o[1])
        return (left, right) if left < right else None

    def shares(self):
        whole, pi = sum(self.S.values()), {}
        for a, b in OFFSETS:
            pi[a, b] = self.S[a, b] + self.unit / 5
            if whole > 0:
                pi[a, b] += 10 * self.unit * (self.S[a, b] + self.S[b, a]) / (2 * whole)
        return {o: weight / sum(pi.values()) for o, weight in pi.items()}

    def kept(self, y):
        """Return the share of the offsets that are not drawn again at class y."""
        return max(sum(pi for o, pi in self.shares().items() if self.given(y, o)), 0.01)

    def table(self, u):
        """Return the chance that a row of each class in the range u is given it."""
        pi = self.shares()
        chance = {}
        for y in range(u[0], u[1] + 1):
            fitting = sum(pi[o] for o in OFFSETS if self.given(y, o) == u)
            chance[y] = fitting / self.kept(y)
        return chance

    def uses_offsets(self):
        chosen = self.D / self.unit > -5 and self.G >= self.V and self.overlaps()
        chosen = chosen and self.missing < 0.1 * self.G
        return {"random": False, "auto": chosen, "offsets": True}[self.kind]

    def overlaps(self):
        return self.G > 0 and self.Q >= 0.1 * self.G

    def look_for_missing_kinds(self, t, ranges):
        """Weigh the ranges that offsets would make of the classes at random, but hardly occur."""
        if self.kind == "random" or self.G == 0 or (t >= 64 * self.K and t % (8 * self.K)):
            return
        self.missing = 0.0
        for u in [(y, y + w) for w in (1, 2) for y in range(1, self.K + 1 - w)]:
            seen = np.sum(ranges.get(u, 0))
            expected = sum(self.mu[y - 1] * chance for y, chance in self.table(u).items())
            if seen < 0.1 * expected:
                self.missing += expected - seen

    def target(self, u):
        """Return the chance of the range u for each of its classes, or None: the same for all."""
        if u[1] - u[0] > 2 or not self.uses_offsets():
            return None
        narrow = (self.G + self.unit / 2) / (self.W + self.unit / 2)
        return np.array([narrow * chance for chance in self.table(u).values()])

    def learn(self, u, P, n_u, omega):
        """Learn from a row with the range u; P has the chance of each class, n_u its weight."""
        if u[1] - u[0] > 2:
            self.V += omega
            return
        self.G += omega
        if self.kind == "random":
            return
        M, pi, unit = self.table(u), self.shares(), self.unit
        kept = {y: self.kept(y) for y in M}
        K, inside = self.K, slice(u[0] - 1, u[1])
        by_offsets = sum(P[y - 1] * chance for y, chance in M.items())
        prior = 0.25 * unit * (2 * K - 3) * len(M) / K
        share = min(1, (n_u + 0.25 * unit) / (self.mu[inside].sum() + prior))
        if self.mu[inside].any():
            self.Q += omega * max(0, 1 - n_u / self.mu[inside].sum())
        if self.overlaps():
            self.D += omega * math.log(by_offsets / (share * P[inside].sum()))
        mu = self.mu[inside] + 1e-3 * unit
        self.mu[inside] += omega * mu / mu.sum()
        for y in M:
            r = omega * P[y - 1] * M[y] / by_offsets
            fitting = sum(pi[o] for o in OFFSETS if self.given(y, o) == u)
            for o in OFFSETS:
                if self.given(y, o) == u:
                    self.S[o] += r * pi[o] / fitting
                elif self.given(y, o) is None:
                    self.S[o] += r * pi[o] / kept[y]


def label_chances(left, right, K, ranges, total, exact, trust, outside, target=None):
    """q_y, the relative chance that a row of class y is given this label.

    `target` is what the coarsening mechanism says of the classes inside; None: all are the same.
    """
    q = np.full(K, outside)
    inside = slice(left - 1, right)
    q[inside] = 1.0
    given = ranges.get((left, right), np.zeros(K))[inside]
    if left < right:
        if target is None:
            share = given.sum() / total[inside].sum() if given.sum() > 0 else 1.0
            target = np.full(right - left + 1, share)
        q[inside] = target
        for y in range(left - 1, right):
            if given.sum() > 0 and exact[y] > 0:
                doubt = trust / (trust + exact[y])
                q[y] = (1 - doubt) * ranges[left, right][y] / total[y] + doubt * q[y]
        q[inside] /= q[inside].max()
    return q


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
    ranges, total, exact = {}, np.zeros(K), np.zeros(K)
    mechanism = mechanism or Coarsening(K, coarsening)
    size = count = A = B = 0.0
    fade = 1.0 if half_life is None else 0.5 ** (1 / half_life)
    predictions, models = [], []
    for t, (x, (left, right)) in enumerate(zip(X, intervals, strict=True), start=1):
        c = 1.0 if weight is None else weight[t - 1]
        size, count, A, B, exact, total = (fade * v for v in (size, count, A, B, exact, total))
        ranges = {u: fade * v for u, v in ranges.items()}
        mechanism.fade(fade)
        mechanism.look_for_missing_kinds(t, ranges)
        mechanism.count(c * t)
        f = w @ x
        predictions.append(predict(f, theta))
        outside = noise * (1 - 1 / math.sqrt(1 + t / 1000))
        target = mechanism.target((left, right)) if left < right else None
        q = label_chances(left, right, K, ranges, total, exact, trust, outside, target)
        inside = (np.arange(1, K + 1) >= left) & (np.arange(1, K + 1) <= right)
        chance = chances(f, theta)
        if left < right:
            n_u = np.sum(ranges.get((left, right), 0))
            mechanism.learn((left, right), np.maximum(chance, 1e-12), n_u, c * t)
        share = inside * q * np.where(chance > 1e-12, chance, 0.0)
        share = share if share.any() else inside * q
        share *= c * t / share.sum()
        total = total + share
        if left == right:
            exact[left - 1] += 1
        else:
            ranges[left, right] = ranges.get((left, right), 0) + share
        a, tau = slopes(f, theta, q)
        a, tau = 0.0 if abs(a) < 1e-9 else a, np.clip(tau, -2, 2)
        size, count = size + c * x @ x, count + c
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


def ordered_boosting(
    intervals, K, weight, fold, start, theta, q, shares, X, rounds, rate, l2, trust, mechanism
):
    """Boosted stumps on top of other scores, a booster for each fold; ranks from 0, all rows.

    start[j, i] is the score of row i by a model that has not seen fold j; thresholds, chances and
    shares of offsets are those to begin with. Returns held-out losses, thresholds, chances, and
    what the stumps of each booster add to each row.
    """
    n, ranks = len(X), np.arange(K)
    lo, hi = np.transpose(intervals)
    kinds, group = np.unique(intervals, axis=0, return_inverse=True)
    exact = kinds[:, 0] == kinds[:, 1]
    inside = ((kinds[:, :1] <= ranks) & (ranks <= kinds[:, 1:])).astype(float)
    doubt = trust / (trust + np.bincount(lo[lo == hi], minlength=K))
    losses, shares = [], dict(zip(OFFSETS, shares, strict=True))
    symmetric = mechanism == "symmetric"

    def chances_of(f):
        """P(y <= k) with 0 before and 1 after, P(y), and P(y | label)."""
        below = np.array([[0, *(1 / (1 + np.exp(s - theta))), 1] for s in f])
        p = np.maximum(np.diff(below, axis=1), 1e-12)
        r = q[group] * p
        return below, p, r / r.sum(axis=1, keepdims=True)

    def em_step(f):
        nonlocal shares
        below, p, r = chances_of(f)
        table = np.array([(weight[:, None] * r)[group == u].sum(axis=0) for u in range(len(kinds))])
        N = table.sum(axis=0)
        target = inside * (table.sum(axis=1) / (inside @ N))[:, None]
        if mechanism != "random":
            for _ in range(2):
                shares = drawn_shares(shares, table, kinds, K, symmetric)
            target = offsets_target(shares, table, kinds, K, trust)
        chance = np.where(exact[:, None], inside, 0)
        for u in np.flatnonzero(~exact):
            for y in range(kinds[u][0], kinds[u][1] + 1):
                chance[u, y] = (1 - doubt[y]) * table[u, y] / N[y] + doubt[y] * target[u, y]
        information, slope = 1e-3 * np.eye(K - 1), np.zeros(K - 1)
        for i in range(n):  # by the thresholds
            z, density = q[group[i]] @ p[i], below[i, 1:-1] * (1 - below[i, 1:-1])
            slope += weight[i] * density * (q[group[i], :-1] - q[group[i], 1:]) / z
            for y in range(K):  # the mean over the classes that a row may have
                of_y = density * ((ranks[:-1] == y) - 1.0 * (ranks[1:] == y)) / p[i, y]
                information += weight[i] * p[i, y] * np.outer(of_y, of_y)
        step = np.clip(np.linalg.solve(information, slope), -0.5, 0.5)
        return np.maximum.accumulate(theta + step), chance

    def derivatives(f):
        """First and second derivatives of the loss by the scores."""
        below, _, r = chances_of(f)
        a, b = below[:, 1:], below[:, :-1]
        g = weight * (r * (1 - a - b)).sum(axis=1)
        return g, weight * np.maximum((r * (a * (1 - a) + b * (1 - b))).sum(axis=1), 1e-6)

    def stump(gradient, hessian, rate, l2, least):
        """Return what the best split of all adds to each row; of equal ones, the highest."""
        best, added = 0.0, np.zeros(n)
        G, H = gradient.sum(), hessian.sum()
        for x in X.T:
            values = np.unique(x)
            for cut in (values[1:] + values[:-1])[::-1] / 2:
                left = x <= cut
                g, h = gradient[left].sum(), hessian[left].sum()
                gain = g**2 / (h + l2) + (G - g) ** 2 / (H - h + l2) - G**2 / (H + l2)
                if gain > best + 1e-9 and h >= least and H - h >= least:
                    best = gain
                    added = -rate * np.where(left, g / (h + l2), (G - g) / (H - h + l2))
        return added

    rows, f = np.arange(n), start.copy()
    for t in range(rounds):
        for j in range(len(f)):
            g, h = derivatives(f[j])
            c = 1 + t / 50  # each round is bolder
            f[j] += stump(g * (fold != j), h * (fold != j), rate * c, l2 / c, 1 / c)
        _, p, _ = chances_of(f[fold, rows])
        losses.append(-np.average(np.log((q[group] * p).sum(axis=1)), weights=weight))
        theta, q = em_step(f[fold, rows])
    return losses, theta, q, f - start


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
