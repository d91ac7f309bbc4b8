"""How fast is the maximum of the likelihood found: few rows, many rows, and many classes?

CPU seconds on one thread, in one run; calls that are compared take turns.

    python benchmarks/maximum_speed.py
"""

import os

os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")

import time
import warnings

import numpy as np
from mord import LogisticAT

from coarsening import random_brackets, type_1
from pril import OrderedLogit
from workloads import best_times, table

CUTS = [-1.5, -0.5, 0.5, 1.5]


def simulated(n, d, n_classes=None, seed=0):
    """Return features, and classes of an ordered logit: five, or so many equally often."""
    rng = np.random.default_rng(seed)
    X, w = rng.normal(size=(n, d)), rng.normal(size=d) / 3.0
    score = X @ w + rng.logistic(size=n)
    cuts = np.quantile(score, np.arange(1, n_classes) / n_classes) if n_classes else CUTS
    return X, np.digitize(score, cuts)


def mixed(y, ranges, share, seed=0):
    """Return ranges, a share of them exact."""
    is_exact = np.random.default_rng(seed).random(len(y)) < share
    return np.where(is_exact[:, np.newaxis], y[:, np.newaxis], ranges)


def labels(y, n_classes=5, seed=0):
    """Return labels of several kinds."""
    pairs = type_1(y, n_classes, seed)
    return {
        "exact": mixed(y, pairs, 1.0),
        "Type 1, none exact": pairs,
        "Type 1, a quarter exact": mixed(y, pairs, 0.25),
        "all down, a tenth exact": mixed(y, np.column_stack([np.maximum(y - 1, 0), y]), 0.1),
    }


def fits(X, ranges, **options):
    """Return calls that fit each kind of labels."""
    return {
        name: lambda own=own: OrderedLogit(**options).fit(X, own) for name, own in ranges.items()
    }


def measured(name, calls, over, repeats):
    """Return lines of the table: seconds, and how many times those of one of the calls."""
    times = best_times(calls, repeats, time.process_time)
    return [[name, what, f"{1000 * t:,.0f} ms", t / times[over]] for what, t in times.items()]


def main():
    warnings.simplefilter("ignore")
    lines = []
    for seed in range(3):
        X, y = simulated(600, 10, seed=seed)
        calls = {"exact, LogisticAT of mord": lambda X=X, y=y: LogisticAT().fit(X, y)}
        calls |= fits(X, labels(y, seed=seed) | {"random brackets": random_brackets(y, 5, seed)})
        lines += measured(f"600 x 10, set {seed}", calls, "exact, LogisticAT of mord", 9)
    X, y = simulated(300_000, 20)
    lines += measured("300,000 x 20", fits(X, labels(y)), "exact", 3)
    X, y = simulated(50_000, 5, 2000)
    own = {name: labels(y, 2000)[name] for name in ("exact", "Type 1, a quarter exact")}
    calls = fits(X, own, classes=range(2000))
    at_random = fits(X, own, classes=range(2000), coarsening="random")
    calls["the same, at random"] = at_random["Type 1, a quarter exact"]
    lines += measured("50,000 x 5, 2,000 classes", calls, "exact", 2)
    X, y = simulated(5_000, 5, 154)
    calls = {link: fits(X, {link: y}, link=link)[link] for link in ("logit", "probit")}
    lines += measured("5,000 x 5, 154 classes", calls, "logit", 3)
    table(["rows", "labels", "CPU", "over the first"], lines)


if __name__ == "__main__":
    main()
