"""What does `OrderedBoosting` cost at several sizes, beside what one would otherwise use?

Wall times, all in one run. The largest sizes take minutes and gigabytes: name the parts to measure.

    python benchmarks/boosting_scale.py classifier threads
    python benchmarks/boosting_scale.py regression --rows 2_000_000
    python benchmarks/boosting_scale.py table --rows 5_000_000
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import lightgbm
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from pril import OrderedBoosting
from pril.labels import make_intervals
from workloads import table

BLOCK = 1 << 17  # rows of a table that are made at once: a group of the Parquet file


def made(n, n_features=10, seed=0):
    """Return features and ranks of five classes."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, n_features))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] + 0.3 * rng.logistic(size=n)
    return X, np.digitize(score, [-1.3, -0.4, 0.4, 1.3])


def seconds(function, *arguments, repeats=1):
    """Return the least wall time of some calls."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function(*arguments)
        times.append(time.perf_counter() - start)
    return min(times)


def classifier(asked):
    """Compare with scikit-learn's boosting, one thread each, all labels exact."""
    lines = []
    for n in (20_000, 200_000):
        X, y = made(n)
        ours, other = OrderedBoosting(n_jobs=1, random_state=0), HistGradientBoostingClassifier()
        with threadpool_limits(1):
            times = seconds(ours.fit, X, y), seconds(other.fit, X, y)
        lines.append([f"{n:,}", *(f"{t:.1f}" for t in times), f"{times[0] / times[1]:.2f}"])
    print("### fit, one thread, 10 features, exact labels: seconds\n")
    table(["rows", "OrderedBoosting", "HistGradientBoostingClassifier", "ratio"], lines)


def regression(asked):
    """Compare with LightGBM's regression on mid-points, on all processors."""
    X, y = made(asked.rows, 15)
    labels = make_intervals(y, 1, 0.75, random_state=0)
    ours = seconds(OrderedBoosting(random_state=0).fit, X, labels)
    other = seconds(lightgbm.LGBMRegressor(verbose=-1).fit, X, labels.mean(axis=1))
    print("### fit, 15 features, a quarter of the labels exact: seconds\n")
    head = ["rows", "OrderedBoosting", "LightGBM on mid-points", "ratio"]
    table(head, [[f"{asked.rows:,}", f"{ours:.0f}", f"{other:.0f}", f"{ours / other:.1f}"]])


def threads(asked):
    """Compare two threads with one."""
    X, y = made(200_000)
    one, two = (seconds(OrderedBoosting(n_jobs=k, random_state=0).fit, X, y) for k in (1, 2))
    print(f"fit of 200,000 rows: {one:.1f} s in one thread, {one / two:.2f} times as fast in 2")


def from_table(asked):
    """Learn from a Parquet file in a process of its own; print its peak and its time."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        names = [f"x{k}" for k in range(20)]
        schema = pa.schema([*((name, pa.float32()) for name in names), ("y", pa.int8())])
        with pq.ParquetWriter(path, schema) as writer:
            for k, start in enumerate(range(0, asked.rows, BLOCK)):
                X, y = made(min(BLOCK, asked.rows - start), 20, seed=k)
                columns = [*X.T.astype(np.float32), y.astype(np.int8)]
                writer.write_batch(pa.record_batch(columns, schema=schema))
        small, large = (f"{path}.small.parquet", str(path))
        pq.write_table(pq.ParquetFile(path).read_row_group(0).slice(0, 2000), small)
        options = ["--label=y", "--model=boosting", f"--set=max_iter={asked.rounds}"]
        peaks = []
        for file in (small, large):
            start = time.perf_counter()
            command = [sys.executable, "-c", COMMAND, "fit", file, *options, "-o", f"{file}.pril"]
            done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            taken = time.perf_counter() - start
            peaks.append(int(done.stdout.split()[-1]))
        print(
            f"{asked.rows:,} rows of 20 columns, {asked.rounds} rounds: {taken:.0f} s, "
            f"{(peaks[1] - peaks[0]) * 1024 / asked.rows:.0f} bytes a row at the peak, above "
            "that of 2,000 rows"
        )


# The command, which then prints the peak of its memory, in kilobytes.
COMMAND = """
from pathlib import Path
from pril.cli.main import main
try:
    main()
finally:
    status = Path("/proc/self/status").read_text()
    print(status.partition("VmHWM:")[2].split()[0])
"""

PARTS = {
    "classifier": classifier,
    "regression": regression,
    "threads": threads,
    "table": from_table,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="+", choices=PARTS)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    OrderedBoosting(max_iter=1).fit(*made(100)).predict(made(100)[0])  # compiles
    for part in given.parts:
        PARTS[part](given)
