"""How much does mixing cost against one process, and how far should a round go along the mean?

Errors in ranks against exact labels, learned from 25 % exact and 75 % interval labels. Abalone and
Parkinsons are read from the folder PRIL_DATA, if it is set.
"""

import os
from pathlib import Path

import dask
import dask.array as da
import numpy as np
from sklearn.preprocessing import StandardScaler

import pril.dask
from pril import PRIL, PolynomialMap
from pril.dask import mix
from pril.labels import make_intervals
from pril.paper.datasets import load_abalone, load_parkinsons, make_synthetic
from workloads import table

BLOCKS, STRIDES = 8, (1.0, 1.5, 2.0, 3.0)
FILES = {"Abalone": "abalone.data", "Parkinsons": "parkinsons_updrs.data"}


def rows_of(name, seed):
    """Return features and exact labels of one of the sets, in random order unless grouped."""
    if name == "synthetic":
        X, y = make_synthetic(10_000, random_state=seed)
        return PolynomialMap(2, gamma=1.0, coef0=1.0).fit_transform(X), y
    load = load_abalone if name == "Abalone" else load_parkinsons
    X, y = load(folder=os.environ["PRIL_DATA"])
    order = np.random.default_rng(seed).permutation(len(y))
    order = np.arange(len(y)) if name.endswith("by patient") else order
    return StandardScaler().fit_transform(X)[order], y[order]


def errors(name, kind, rounds, blocks=BLOCKS, strides=STRIDES, seeds=10):
    """Return the mean error of one process, and of mixing with each stride."""
    found = {way: [] for way in ("alone", *strides)}
    for seed in range(seeds):
        X, y = rows_of(name, seed)
        intervals = make_intervals(y, kind, 0.75, random_state=seed)
        estimator = PRIL(classes=np.unique(y), random_state=seed)
        chunk = -(-len(y) // blocks)
        lazy = [da.from_array(array, chunks=(chunk, -1)) for array in (X, intervals)]
        for stride in strides:
            mix.STRIDE = stride
            model = pril.dask.fit(estimator, *lazy, epochs=rounds)
            found[stride].append(np.abs(model.predict(X) - y).mean())
        found["alone"].append(np.abs(estimator.fit(X, intervals).predict(X) - y).mean())
    return {way: np.mean(values) for way, values in found.items()}


def main():
    """Print the table."""
    print(f"### Dask, error of mixing {BLOCKS} blocks / error of one process (10 passes)\n")
    folder = Path(os.environ.get("PRIL_DATA", ""))
    names = [name for name, file in FILES.items() if (folder / file).exists()]
    names += [f"{name}, by patient" for name in names if name == "Parkinsons"]
    default, rows = mix.STRIDE, []
    with dask.config.set(scheduler="sync"):
        for name in [*names, "synthetic"]:
            for rounds in (10, 40):
                for kind in (1, 2):
                    found = errors(name, kind, rounds)
                    ratios = [f"{found[stride] / found['alone']:.3f}" for stride in STRIDES]
                    rows.append([name, kind, f"{found['alone']:.3f}", rounds, *ratios])
        header = ["set", "label type", "one process", "rounds"]
        table([*header, *(f"stride {stride}" for stride in STRIDES)], rows)

        print("### Dask, the same by the number of blocks: synthetic, Type 1\n")
        rows = []
        for blocks in (2, 8, 64):
            pair = [errors("synthetic", 1, r, blocks, (default,), 3) for r in (10, 40)]
            ratios = [f"{found[default] / found['alone']:.2f}" for found in pair]
            rows.append([blocks, 10_000 // blocks, *ratios])
        table(["blocks", "rows a block", "10 rounds", "40 rounds"], rows)
    mix.STRIDE = default


if __name__ == "__main__":
    main()
