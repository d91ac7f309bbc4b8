"""How much faster are two workers than one, and how should time grow to 1000 workers?

Rows are generated in the blocks, as if they were read. `python benchmarks/dask_speed.py 20` is the
full table of 20 million rows; without a number it is a tenth of it.
"""

import math
import sys
import time

import dask
import numpy as np
from distributed import Client, LocalCluster, wait

import pril.dask
from pril import PRIL
from pril.likelihood.rows import FAN_IN
from workloads import K, table

N_FEATURES, BLOCK, ROUNDS = 50, 250_000, 3
NETWORK = 1e9  # bytes a second between two workers, assumed: 10 Gbit/s
LATENCY = 1e-3  # seconds of a message, assumed


def generate(seed, rows=BLOCK):
    """Return rows with labels 0..K-1 along a line, the same line in every block."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((rows, N_FEATURES), dtype=np.float32)
    score = X @ np.linspace(-1, 1, N_FEATURES, dtype=np.float32)
    score += 0.3 * rng.standard_normal(rows, dtype=np.float32)
    return X, np.digitize(score, [-3.4, -1.0, 1.0, 3.4])


def seconds(workers, n_blocks, rows=BLOCK, held=False):
    """Time mixing on a cluster of so many worker processes of one thread."""
    estimator = PRIL(classes=range(K), random_state=0)
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster) as client,
    ):
        blocks = [dask.delayed(generate)(seed, rows) for seed in range(n_blocks)]
        if held:
            blocks = client.persist(blocks)
            wait(blocks)
        warm = [dask.delayed(generate)(seed, 1000) for seed in range(2 * workers)]
        pril.dask.fit_blocks(estimator, warm, epochs=1)  # imports and compiles
        start = time.perf_counter()
        model = pril.dask.fit_blocks(estimator, blocks, epochs=ROUNDS)
        spent = time.perf_counter() - start
        assert model.t_ == ROUNDS * n_blocks * rows
    return spent


def seconds_a_row():
    """Return what generating and what learning one row costs a core."""
    start = time.perf_counter()
    X, y = generate(0)
    generated = time.perf_counter() - start
    model = PRIL(classes=range(K)).partial_fit(X, y)
    start = time.perf_counter()
    model.partial_fit(X, y)
    return generated / BLOCK, (time.perf_counter() - start) / BLOCK


def forecast(rows, workers, row, block, blocks_a_worker=4):
    """Return seconds of a round: what workers, scheduler and network need, one after the other.

    `row` is a row's time on a core, `block` what a block costs the client and the scheduler. The
    model spreads from worker to worker, doubling each time, and its changes come back through a
    tree, at each level of which FAN_IN of them are sent to one. A message is twice d + K numbers:
    the sums and the mean.
    """
    blocks = blocks_a_worker * workers
    model = 8 * 2 * (N_FEATURES + K)
    depth = math.ceil(math.log2(max(workers, 2)))
    fan_in = math.ceil(math.log(max(blocks, 2), FAN_IN)) * FAN_IN
    network = (depth + fan_in) * (LATENCY + model / NETWORK)
    return rows * row / workers, blocks * block, network


def main(millions=2):
    """Print the tables."""
    n_blocks = round(millions * 1e6 / BLOCK)
    print(f"### Dask, {millions} million rows x {N_FEATURES}, `mix`, {ROUNDS} rounds\n")
    rows = []
    for what, held in (("generated in every round", False), ("held in memory", True)):
        one, two = (seconds(workers, n_blocks, held=held) for workers in (1, 2))
        rows.append([what, one, two, one / two])
    table(["blocks", "one worker, s", "two workers, s", "ratio"], rows)

    generated, learned = seconds_a_row()
    small = 400
    block = seconds(2, small, rows=10) / ROUNDS / small
    print("### Dask, what the forecast is made of\n")
    table(
        ["generate a row, ns", "learn a row, ns", "a block's overhead, ms", "model, bytes"],
        [[generated * 1e9, learned * 1e9, block * 1e3, 8 * 2 * (N_FEATURES + K)]],
    )
    print("### Dask, forecast: seconds of a round, 4 blocks a worker: rows + overhead + network\n")
    rows = []
    for n in (1e8, 1e9, 1e10, 1e11):
        cells = []
        for workers in (1, 10, 100, 1000):
            work, overhead, network = forecast(n, workers, generated + learned, block)
            cells.append(f"{work:.3g} + {overhead:.2g} + {network:.2g}")
        rows.append([f"{n:.0e}", *cells])
    table(["rows", *(f"{workers} workers" for workers in (1, 10, 100, 1000))], rows)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:]))
