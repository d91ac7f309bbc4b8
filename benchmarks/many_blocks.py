"""What do thousands of blocks cost in quality and in work? A simulation in one process.

A million rows are cut into ever more blocks, and mixed in five rounds. The error is that of the
mixed model over that of one process on new rows; the time is the CPU time of all tasks of a round,
without a scheduler. `docs/guide/scale.md` has what follows for a large cluster.
"""

import time

import dask
import dask.array as da
import numpy as np

import pril.dask
from pril import PRIL
from pril.labels import make_intervals
from workloads import table

ROWS, FEATURES, CLASSES, ROUNDS = 1_000_000, 20, 5, 5
BLOCKS = (8, 64, 512, 4096)


def make_rows(n, seed):
    """Return features and exact labels: a linear score with noise, cut into classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, FEATURES))
    weights = np.random.default_rng(0).normal(size=FEATURES) / np.sqrt(FEATURES)
    score = X @ weights + rng.logistic(scale=0.3, size=n)
    return X, np.digitize(score, np.linspace(-1.2, 1.2, CLASSES - 1))


def main(rows=ROWS, blocks=BLOCKS):
    """Print the table."""
    X, y = make_rows(rows, 1)
    X_new, y_new = make_rows(100_000, 2)
    intervals = make_intervals(y, 1, 0.75, classes=range(CLASSES), random_state=0)
    print(f"### Many blocks: {rows:,} rows, {FEATURES} features, {ROUNDS} rounds, one process\n")
    lines = []
    model = PRIL(classes=range(CLASSES), random_state=0, max_iter=ROUNDS)
    alone = np.abs(model.fit(X, intervals).predict(X_new) - y_new).mean()
    for n_blocks in blocks:
        chunk = -(-rows // n_blocks)
        lazy = [da.from_array(array, chunks=(chunk, -1)) for array in (X, intervals)]
        started = time.process_time()
        with dask.config.set(scheduler="sync"):
            mixed = pril.dask.fit(model, *lazy, epochs=ROUNDS)
        seconds = (time.process_time() - started) / ROUNDS
        error = np.abs(mixed.predict(X_new) - y_new).mean()
        task = f"{1e3 * seconds / n_blocks:.2f} ms"
        lines.append([n_blocks, chunk, f"{error / alone:.4f}", task])
    table(["blocks", "rows a block", "error over one process", "CPU a task"], lines)


if __name__ == "__main__":
    main()
