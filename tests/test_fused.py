"""The kernels for a CUDA device learn what the CPU learns.

They run on a CUDA device, or, slowly, in Triton's interpreter; both need PyTorch. Elsewhere nothing
here can run, and the tests are skipped.
"""

import os
import subprocess
import sys
from importlib.util import find_spec

import numpy as np
import pytest

GAMMA = 0.3


def problem(n, K=5, dtype=np.float64):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 3)).astype(dtype)
    rank = np.digitize(np.sin(2 * X[:, 0]) + X[:, 1], np.linspace(-1.2, 1.2, K - 1))
    lo = np.maximum(rank - rng.integers(0, 2, n), 0)
    hi = np.minimum(rank + rng.integers(0, 2, n), K - 1)
    return X, np.column_stack([lo, hi])


# Another process, because Triton and SciPy read their environment when they are imported.
SCRIPT = """
import numpy as np, sklearn, torch
import pril.kernels.fused as fused
from pril import KernelPRIL
from pril.kernels.kernel_engine import KernelEngine
from test_fused import GAMMA, problem

interpreted = {interpreted}
if interpreted:  # small blocks: the interpreter takes its time
    fused.BLOCK = 64
    KernelEngine._fused = lambda self, X, rows: fused if type(X).__module__ == "torch" else None
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
