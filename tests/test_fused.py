"""The kernels for a CUDA device: a NumPy twin that runs everywhere, and the kernels where they can.

The kernels run on a CUDA device, or, slowly, in Triton's interpreter; both need PyTorch.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

from pril import KernelPRIL

GAMMA = 0.3


class Twin:
    """The arithmetic of `pril._fused`, block by block, in NumPy."""

    def __init__(self, X, intervals, K, *, block, shares, tile=64, near=32):
        self.X, self.intervals, self.block, self.shares, self.tile = (
            X,
            intervals,
            block,
            shares,
            tile,
        )
        self.near = near
        self.theta, self.moves = np.zeros(K - 1), np.zeros(K - 1)
        self.source, self.coef, self.coef_moves = [], [], []
        self.t = 0
        scaled = ((X - X[:1]) * np.sqrt(2 * GAMMA * np.log2(np.e))).astype(X.dtype)
        self.half = -0.5 * (scaled * scaled).sum(1)
        self.high = scaled if X.dtype == np.float64 else scaled.astype(np.float16).astype(X.dtype)
        low = scaled - self.high
        self.low = low if X.dtype == np.float64 else low.astype(np.float16).astype(X.dtype)

    def values(self, a, b):
        """Kernel values of rows a and b: three products of high and low parts, small ones first."""
        product = self.low[a] @ self.high[b].T
        product = product + self.high[a] @ self.low[b].T
        product = product + self.high[a] @ self.high[b].T
        return np.exp2(product + (self.half[a][:, np.newaxis] + self.half[b]))

    def scores(self, rows):
        """Shares of the support are summed apart, tile by tile, then in float64."""
        tiles = -(-len(self.source) // self.tile)
        total = np.zeros(len(rows))
        for share in range(self.shares):
            part = np.zeros(len(rows), dtype=self.X.dtype)
            for i in range(tiles * share // self.shares, tiles * (share + 1) // self.shares):
                at = slice(i * self.tile, (i + 1) * self.tile)
                values = self.values(rows, np.array(self.source[at]))
                part += values @ np.array(self.coef[at], dtype=self.X.dtype)
            total += part
        return total.astype(self.X.dtype)

    def learn(self, order):
        for start in range(0, len(order), self.block):
            rows = order[start : start + self.block]
            score, step = self.scores(rows), np.zeros(len(rows), dtype=self.X.dtype)
            gram = np.exp(
                -GAMMA * ((self.X[rows][:, np.newaxis] - self.X[rows]) ** 2).sum(2)
            ).astype(self.X.dtype)
            for first in range(0, len(rows), self.near):
                near = range(first, min(first + self.near, len(rows)))
                s = score.copy()  # of these rows only; the later ones follow when all are done
                for r in near:
                    lo, hi = self.intervals[rows[r]]
                    i = np.arange(len(self.theta))
                    left, right = (i < lo) & (s[r] <= self.theta), (i >= hi) & (s[r] >= self.theta)
                    tau = left.astype(int) - right
                    step[r] = tau.sum()
                    self.theta = self.theta - tau
                    self.moves = self.moves + (self.t + r) * tau
                    s[near] += step[r] * gram[r, near]
                score += step[near] @ gram[near]
            for r in np.flatnonzero(step):
                if rows[r] not in self.source:
                    self.source.append(rows[r])
                    self.coef.append(0.0)
                    self.coef_moves.append(0.0)
                place = self.source.index(rows[r])
                self.coef[place] += step[r]
                self.coef_moves[place] += step[r] * (self.t + r)
            self.t += len(rows)


def problem(n, K=5, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).astype(dtype)
    rank = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1], np.linspace(-1.2, 1.2, K - 1))
    lo = np.maximum(rank - rng.integers(0, 2, n), 0)
    hi = np.minimum(rank + rng.integers(0, 2, n), K - 1)
    return X, np.column_stack([lo, hi])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("block", "shares", "tile"), [(64, 4, 16), (256, 1, 64), (300, 32, 8)])
def test_blocks_shares_and_split_rows_give_the_same_model(dtype, block, shares, tile):
    X, y = problem(700, dtype=dtype)
    model = KernelPRIL(gamma=GAMMA, classes=range(5), max_iter=3, shuffle=False).fit(X, y)
    twin = Twin(X, y, 5, block=block, shares=shares, tile=tile)
    for _ in range(3):
        twin.learn(np.arange(700))
    theta = twin.theta + twin.moves / twin.t
    coef = np.array(twin.coef) - np.array(twin.coef_moves) / twin.t
    np.testing.assert_array_equal(np.array(twin.source), model.support_)
    np.testing.assert_allclose(theta, model.thresholds_, rtol=1e-12)
    np.testing.assert_allclose(coef, model.dual_coef_, rtol=1e-12)


# Another process, because Triton and SciPy read their environment when they are imported.
SCRIPT = """
import numpy as np, sklearn, torch
import pril._fused as fused
from pril import KernelPRIL
from test_fused import GAMMA, problem

interpreted = {interpreted}
if interpreted:  # small blocks: the interpreter takes its time
    fused.BLOCK = 64
    KernelPRIL._fused = lambda self, X, rows: fused if type(X).__module__ == "torch" else None
calls = []
true_learn = fused.learn
fused.learn = lambda *a: calls.append(len(a[2])) or true_learn(*a)
sklearn.set_config(array_api_dispatch=True)
device = "cpu" if interpreted else "cuda"
for n, K, d in {cases}:
    X, y = problem(n, K, np.{dtype})
    X = np.pad(X, [(0, 0), (0, d - X.shape[1])], constant_values=0.25)
    y = np.ma.masked_array(y, mask=False)
    y[5] = np.ma.masked  # a row without a label is no round
    there = torch.asarray(X, device=device)
    options = dict(gamma=GAMMA, classes=range(K), max_iter=2, random_state=0)
    for average in (True, False):
        here = KernelPRIL(average=average, **options).fit(X, y)
        away = KernelPRIL(average=average, **options).fit(there, y)
        here.partial_fit(X[: n // 2], y[: n // 2])
        away.partial_fit(there[: n // 2], y[: n // 2])
        assert len(calls) == 3, calls  # two passes and a call: none took the general path
        calls.clear()
        np.testing.assert_array_equal(away.support_, here.support_)
        np.testing.assert_array_equal(away.thresholds_, here.thresholds_)
        np.testing.assert_allclose(away.dual_coef_.cpu(), here.dual_coef_, rtol=1e-12)
        np.testing.assert_array_equal(away.support_vectors_.cpu(), here.support_vectors_)
        assert (away.t_, away.n_mistakes_, away.n_updates_) == (here.t_, here.n_mistakes_, here.n_updates_)
        close = 1e-10 if X.dtype == np.float64 else 2e-4
        np.testing.assert_allclose(away.latent(there).cpu(), here.latent(X), atol=close)
far = X.copy(); far[3] = 1e4
here = KernelPRIL(gamma=GAMMA, classes=range(K)).partial_fit(far, y)
away = KernelPRIL(gamma=GAMMA, classes=range(K)).partial_fit(torch.asarray(far, device=device), y)
np.testing.assert_array_equal(away.thresholds_, here.thresholds_)
print("same")
"""


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("interpreted", [False, True], ids=["CUDA", "interpreted"])
def test_kernels_learn_what_the_cpu_learns(dtype, interpreted):
    for name in ("torch", "triton"):
        if find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    if not interpreted and not pytest.importorskip("torch").cuda.is_available():
        pytest.skip("there is no CUDA device")
    cases = [(150, 5, 3)] if interpreted else [(3000, 5, 3), (2100, 40, 3), (1500, 3, 90)]
    environment = {**os.environ, "SCIPY_ARRAY_API": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    if interpreted:
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(interpreted=interpreted, dtype=dtype, cases=cases)],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.stdout == "same\n", done.stderr
