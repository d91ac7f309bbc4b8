"""Data with fixed seeds, and timing, for all benchmarks."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array

K = 5
ROWS = {10: 1_000_000, 50: 400_000, 200: 100_000, 1000: 30_000}  # 80 to 240 MB each


class Workload(NamedTuple):
    """Features, interval labels 0..K-1 and the exact labels inside them."""

    X: Any
    intervals: np.ndarray
    y: np.ndarray


def with_labels(X: Any, noise: float, rng: np.random.Generator) -> Workload:
    """Label rows by the fifths of a linear score plus noise; move 40 % of the ends out by one."""
    score = X @ rng.normal(size=X.shape[1])
    score = score + noise * score.std() * rng.normal(size=len(score))
    y = np.searchsorted(np.quantile(score, np.arange(1, K) / K), score)
    lower = np.maximum(y - (rng.random(len(y)) < 0.4), 0)
    upper = np.minimum(y + (rng.random(len(y)) < 0.4), K - 1)
    return Workload(X, np.column_stack([lower, upper]), y)


def dense(n_features: int, noise: float) -> Workload:
    """Return standard normal features, more than any cache holds."""
    rng = np.random.default_rng(0)
    return with_labels(rng.normal(size=(ROWS[n_features], n_features)), noise, rng)


def sparse(noise: float, n: int = 100_000, n_features: int = 10_000, stored: int = 100) -> Workload:
    """Return rows with `stored` values each at random places."""
    rng = np.random.default_rng(0)
    indices = np.sort(rng.integers(0, n_features, (n, stored)), axis=1).astype(np.int32).ravel()
    indptr = np.arange(0, n * stored + 1, stored, dtype=np.int32)
    X = csr_array((rng.normal(size=n * stored), indices, indptr), shape=(n, n_features))
    X.sum_duplicates()
    return with_labels(X, noise, rng)


def best_times(
    calls: dict[str, Callable[[], Any]],
    repeats: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the best time of each call in seconds; the calls take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for call in calls.values():  # compiles, and touches the memory
        call()
    for _ in range(repeats):
        for name, call in calls.items():
            start = clock()
            call()
            best[name] = min(best[name], clock() - start)
    return best


def table(header: list[str], rows: list[list[Any]]) -> None:
    """Print a Markdown table."""
    cells = [header, ["---"] * len(header), *rows]
    for row in cells:
        print("|", " | ".join(f"{c:.2f}" if isinstance(c, float) else str(c) for c in row), "|")
    print(flush=True)
