"""How fast is `KernelPRIL`, on a CPU and on an accelerator, and how much memory does it take?

Five equal-frequency classes of sin(2 x_0) + x_1 x_2 on 20 standard normal features, exact labels,
RBF kernel with gamma 0.05, one pass. With a CUDA device: `python benchmarks/kernel_speed.py cuda`.
"""

import importlib.util
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.metrics.pairwise import pairwise_kernels

from pril import PRIL, KernelPRIL, PolynomialMap
from pril.kernels.kernel_engine import BLOCK, KernelEngine
from pril.kernels.values import CHUNK
from workloads import K, table

GAMMA = 0.05


def rows(n, n_features=20):
    """Return n rows and their labels."""
    X = np.random.default_rng(0).normal(size=(n, n_features))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    return X, np.digitize(score, np.quantile(score, np.arange(1, K) / K))


def seconds(call):
    """Return a call's time and its result."""
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def learn(X, y, **options):
    """Learn from the rows once."""
    return KernelPRIL(gamma=GAMMA, **options).partial_fit(X, y, classes=range(K))


def same_blocks(X, model):
    """Evaluate the kernel blocks that learning needs, and nothing else."""
    for start in range(0, len(X), BLOCK):
        block = X[start : start + BLOCK]
        pairwise_kernels(block, block, metric="rbf", gamma=GAMMA)
        known = model.support_vectors_[: np.searchsorted(model.support_, start)]
        width = CHUNK // len(block)
        for first in range(0, len(known), width):
            pairwise_kernels(block, known[first : first + width], metric="rbf", gamma=GAMMA)


def row_at_a_time(X, y):
    """Learn as Algorithm 2 is printed: one kernel row in each round."""
    support, coef, cut, mistakes = np.empty_like(X), np.zeros(len(X)), np.zeros(K - 1), 0
    for x, label in zip(X, y, strict=True):
        f = 0.0
        if mistakes:
            values = pairwise_kernels(x[np.newaxis], support[:mistakes], metric="rbf", gamma=GAMMA)
            f = values[0] @ coef[:mistakes]
        i = np.arange(K - 1)
        tau = ((i < label) & (f <= cut)).astype(int) - ((i >= label) & (f >= cut))
        if tau.any():
            support[mistakes], coef[mistakes] = x, tau.sum()
            cut = cut - tau
            mistakes += 1
    return mistakes


def peak_megabytes(n):
    """Return the peak memory of a process that learns from n rows."""
    command = [sys.executable, __file__, "memory", str(n)]
    return int(subprocess.check_output(command, cwd=Path(__file__).parent)) // 1000  # noqa: S603


def main():
    """Print the tables."""
    print("### Kernel PRIL on a CPU, d = 20, RBF, one pass\n")
    learn(*rows(3000))
    results = []
    for n in (10_000, 20_000, 40_000, 80_000):
        X, y = rows(n)
        ours, model = min((seconds(lambda: learn(X, y)) for _ in range(3)), key=lambda r: r[0])
        theirs = min(seconds(lambda: same_blocks(X, model))[0] for _ in range(2))
        slow = seconds(lambda: row_at_a_time(X, y))[0] / ours if n <= 40_000 else "-"
        results.append([n, len(model.support_), ours, ours / theirs, slow, peak_megabytes(n)])
    table(
        [
            "rows",
            "support rows",
            "seconds",
            "/ the same blocks by `pairwise_kernels`",
            "row at a time / ours",
            "peak MB of the process",
        ],
        results,
    )

    print("### Cost model: seconds for 20 000 rows\n")
    results = []
    for n_features in (3, 20, 200):
        X, y = rows(20_000, n_features)
        taken, model = min((seconds(lambda: learn(X, y)) for _ in range(4)), key=lambda r: r[0])
        pairs = 20_000 * len(model.support_) / 2 + 20_000 * BLOCK
        results.append([n_features, len(model.support_), taken, f"{taken / pairs * 1e9:.1f}"])
    table(["d", "support rows", "seconds", "ns a kernel value"], results)

    print("### A budget: error on 5000 later rows after a stream of 40 000\n")
    X, y = rows(45_000)
    results = []
    for budget in (100, 500, 2000, 8000, None):
        taken, model = seconds(lambda b=budget: learn(X[:40_000], y[:40_000], budget=b))
        error = np.abs(model.predict(X[40_000:]) - y[40_000:]).mean()
        results.append([str(budget), len(model.support_), taken, error])
    table(["budget", "support rows", "seconds", "mean absolute error"], results)

    print("### Threads: seconds for 40 000 rows\n")
    results = []
    for n_jobs in (1, 2):
        taken = min(seconds(lambda n=n_jobs: learn(X, y, n_jobs=n))[0] for _ in range(3))
        results.append([n_jobs, taken])
    table(["n_jobs", "seconds"], results)

    print("### `PolynomialMap` or kernel: 10 000 rows in two dimensions, (x.x' + 1)^2\n")
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (10_000, 2))
    score = 10 * (X[:, 0] - 0.5) * (X[:, 1] - 0.5) + 0.125 * rng.normal(size=len(X))
    y = np.digitize(score, [-1, -0.1, 0.25, 1])
    kernel = {"degree": 2, "gamma": 1.0, "coef0": 1.0}

    def mapped():
        return PRIL().partial_fit(PolynomialMap(**kernel).fit_transform(X), y, classes=range(5))

    def direct():
        return KernelPRIL(kernel="poly", **kernel).partial_fit(X, y, classes=range(5))

    mapped(), direct()
    results = [
        [name, f"{min(seconds(call)[0] for _ in range(5)) * 1e3:.1f}"]
        for name, call in (("`PolynomialMap` and `PRIL`", mapped), ("`KernelPRIL`", direct))
    ]
    table(["", "milliseconds"], results)


def on_cuda(n):
    """Print the tables for a CUDA device: our own kernels, and the general path beside them."""
    import sklearn
    import torch
    import triton

    from pril.kernels import fused

    sklearn.set_config(array_api_dispatch=True)
    where = (
        f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}"
    )
    print(f"### {where}: d = 20, RBF, one pass\n")
    X, y = rows(n)
    expected = learn(X[:40_000], y[:40_000])
    kinds = [
        ("own kernels", torch, KernelEngine._fused),
        ("general, PyTorch", torch, lambda *_: None),
        ("general, CuPy", optional("cupy"), lambda *_: None),
    ]
    results = []
    for name, module, own_kernels in kinds:
        if module is None:
            continue
        KernelEngine._fused = own_kernels
        for dtype in ("float32", "float64"):
            there = on_device(module, X, dtype)
            few = learn(there[:40_000], y[:40_000])
            same = np.array_equal(few.support_, expected.support_)
            off = np.abs(few.thresholds_ - expected.thresholds_).max()
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
            times = [seconds(lambda t=there: learn(t, y)) for _ in range(3)]
            taken, model = min(times, key=lambda result: result[0])
            reserved = reserved_gigabytes(module)
            rms = score_error(model, there)
            predicting = min(seconds(lambda: model.predict(there[:100_000]))[0] for _ in range(3))
            results.append(
                [name, dtype, n, len(model.support_), times[0][0], taken, f"{reserved:.1f}"]
                + [f"{rms:.1e}", predicting, f"{same}, {off:.2g}"]
            )
            print(results[-1], flush=True)
    table(
        [
            "",
            "dtype",
            "rows",
            "support rows",
            "first call, s",
            "best of 3, s",
            "GB reserved",
            "RMS error of scores",
            "100 000 predictions, s",
            "40 000 rows: support as on the CPU, thresholds off by",
        ],
        results,
    )
    KernelEngine._fused = kinds[0][2]
    print("### How `_add_scores` divides its work: seconds for the rows above\n")
    for name, candidates in (("FLOAT32", FLOAT32_SHAPES), ("FLOAT64", FLOAT64_SHAPES)):
        there, chosen = on_device(torch, X, name.lower()), getattr(fused, name)
        for shapes in candidates:
            setattr(fused, name, dict(zip(fused.FLOAT32, shapes, strict=True)))
            try:
                learn(there[:3000], y[:3000])
                print(name, shapes, f"{seconds(lambda: learn(there, y))[0]:.3f}", flush=True)
            except Exception as error:  # more shared memory or registers than there are
                print(name, shapes, repr(error)[:80], flush=True)
        setattr(fused, name, chosen)
    print("\n### A budget of 10 000, 40 000 rows, general path\n")
    there = on_device(torch, X[:40_000], "float32")
    for budget in (None, 10_000):
        print(budget, [seconds(lambda: learn(there, y[:40_000], budget=budget))[0] for _ in "ab"])
    print("\n### Ten times the rows, float32\n")
    X, y = rows(10 * n)
    there = on_device(torch, X, "float32")
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    taken, model = seconds(lambda: learn(there, y))
    print(10 * n, len(model.support_), f"{taken:.2f} s, {reserved_gigabytes(torch):.1f} GB")


FLOAT32_SHAPES = [
    (128, 64, 4, 3),
    (128, 64, 8, 3),
    (128, 128, 8, 3),
    (64, 64, 4, 3),
    (128, 64, 4, 2),
]
FLOAT64_SHAPES = [(64, 64, 4, 2), (64, 64, 8, 2), (128, 64, 8, 2), (64, 32, 4, 2), (32, 64, 4, 2)]


def optional(name):
    """Return a module, None if it is not installed."""
    return importlib.import_module(name) if importlib.util.find_spec(name) else None


def on_device(module, X, dtype):
    """Return rows on the device, by PyTorch or CuPy."""
    if module.__name__ == "torch":
        return module.asarray(X, dtype=getattr(module, dtype), device="cuda")
    return module.asarray(X, dtype=dtype)


def reserved_gigabytes(module):
    """Return how much memory a library took from the device, at most."""
    if module.__name__ == "torch":
        return module.cuda.max_memory_reserved() / 1e9
    return module.get_default_memory_pool().total_bytes() / 1e9


def score_error(model, X, n=2000):
    """Return the root of the mean squared difference of scores from those in float64."""
    support, rows = (np.asarray(to_host(part), np.float64) for part in (model.memory_.rows, X[:n]))
    ours = to_host(model.latent(X[:n]))
    exact = model.engine.kernel.scores(rows, support, to_host(model.dual_coef_), -1)
    return np.sqrt(np.mean((ours - exact) ** 2))


def to_host(array):
    """Return an array of PyTorch or CuPy as NumPy."""
    return array.get() if hasattr(array, "get") else array.cpu().numpy()


if __name__ == "__main__":
    if sys.argv[1:2] == ["memory"]:
        learn(*rows(int(sys.argv[2])))
        # ru_maxrss of getrusage starts at the size of the process that forked this one.
        lines = Path("/proc/self/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        print(status["VmHWM"].split()[0])
    elif sys.argv[1:2] == ["cuda"]:
        if os.environ.get("SCIPY_ARRAY_API") != "1":
            sys.exit("set SCIPY_ARRAY_API=1, which SciPy reads when it is imported")
        on_cuda(int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000)
    else:
        main()
