"""How long do tables, streams and checkpoints take, compared with reading files with pyarrow?"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from workloads import table

N_FEATURES = 20
PRIL = [sys.executable, "-c", "from pril.cli.main import main; main()"]
LABELS = ["--lower", "lo", "--upper", "hi"]
BATCH = 250_000


def batches(n):
    """Yield batches of a table: standard normal features, five classes, ranges one wider."""
    rng = np.random.default_rng(0)
    w = rng.normal(size=N_FEATURES)
    for _ in range(0, n, BATCH):
        X = rng.normal(size=(BATCH, N_FEATURES))
        y = np.digitize(X @ w + rng.normal(size=BATCH), [-5, -2, 2, 5]) + 1
        lo, hi = np.maximum(1, y - rng.integers(0, 2, BATCH)), np.minimum(5, y + 1)
        columns = {f"x{j}": X[:, j] for j in range(N_FEATURES)}
        yield pa.RecordBatch.from_pydict({**columns, "lo": lo, "hi": hi})


def write(folder):
    """Write the tables to measure with; return their paths."""
    parquet, csv, lines = (folder / name for name in ("t.parquet", "t.csv", "t.jsonl"))
    schema = next(batches(1)).schema
    with pa.parquet.ParquetWriter(parquet, schema) as writer:
        for batch in batches(10_000_000):
            writer.write_batch(batch)
    with pa.csv.CSVWriter(csv, schema) as writer:
        for batch in batches(2_000_000):
            writer.write_batch(batch)
    with lines.open("w") as file:
        rows = next(batches(BATCH)).to_pylist()
        file.writelines(json.dumps(row) + "\n" for row in rows)
    return parquet, csv, lines


READ_TWICE = {
    "t.parquet": "import pyarrow.parquet as pq\n"
    "for _ in range(2):\n"
    "    for batch in pq.ParquetFile('t.parquet').iter_batches(): pass",
    "t.csv": "import pyarrow.csv\n"
    "for _ in range(2):\n"
    "    for batch in pyarrow.csv.open_csv('t.csv'): pass",
}
SCIKIT_LEARN = """
import pandas as pd
from sklearn.linear_model import Perceptron
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
table = pd.read_csv('t.csv')
learner = make_pipeline(StandardScaler(), Perceptron(max_iter=10, tol=None))
learner.fit(table.drop(columns=['lo', 'hi']), table['hi'])
"""
FIT = "from pril.cli.main import main\ntry: main()\nexcept SystemExit as e: assert e.code == 0"
MEMORY = "\nprint(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')))"


def run(code, *arguments):
    """Run a program; return its seconds and its largest memory in MB."""
    command = [sys.executable, "-c", code + MEMORY, *map(str, arguments)]
    start = time.perf_counter()
    said = subprocess.check_output(command, text=True)  # noqa: S603
    return time.perf_counter() - start, int(said.split()[1]) / 1024


def fit(path, *options, passes=1):
    """Run `pril fit` with some passes; return its seconds and its peak memory."""
    how = ["--model", "pril", "--epochs", passes, "--holdout", 0, "-q", "-o", "m.pril"]
    return run(FIT, "fit", path, *LABELS, *how, *options)


def throughput(lines):
    """Return rows a second through a pipe, start-up not counted."""
    command = [*PRIL, "stream", "m.pril", "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:  # noqa: S603
        process.stdin.write(lines[0])
        process.stdin.flush()
        process.stdout.readline()
        start = time.perf_counter()

        def feed():
            process.stdin.writelines(lines[1:])
            process.stdin.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        chunks = iter(lambda: process.stdout.read1(1 << 20), b"")
        count = sum(chunk.count(b"\n") for chunk in chunks)
        seconds = time.perf_counter() - start
        feeder.join()
    assert count == len(lines) - 1
    return count / seconds


def waiting(lines, rate, seconds=3.0, piece=20):
    """Send rows at a steady rate; return median and longest time until a row's answer, in ms."""
    command = [*PRIL, "stream", "m.pril", "-q"]
    sent, answered = [], []
    with subprocess.Popen(  # noqa: S603
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        process.stdin.write(lines[0])
        process.stdout.readline()

        def feed():
            start = time.perf_counter()
            for k in range(int(rate * seconds / piece)):
                time.sleep(max(0.0, start + k * piece / rate - time.perf_counter()))
                at = 1 + k * piece
                sent.extend([time.perf_counter()] * piece)
                process.stdin.write(b"".join(lines[at : at + piece]))
            process.stdin.close()

        feeder = threading.Thread(target=feed)
        feeder.start()
        for chunk in iter(lambda: process.stdout.read(1 << 16), b""):
            answered.extend([time.perf_counter()] * chunk.count(b"\n"))
        feeder.join()
    waits = 1000 * (np.array(answered) - np.array(sent))
    return np.median(waits), waits.max()


WORK = """
import io, sys, time
import pyarrow.csv
from pril.tables.label_columns import LabelEnds
from pril.tables.opening import open_table
from pril.tables.training import Run, Task
from pril.tables.writing import TableWriter

def fit(path):
    Run(open_table(path), Task(LabelEnds(('lo', 'hi')), holdout=0.0), lambda *_: None)()

def write(kind):
    writer = TableWriter(io.BytesIO(), kind)
    writer.write(cells if kind == 'csv' else numbers, {})

numbers = next(open_table('long.parquet').blocks())[1]
cells = next(open_table('quoted.csv').blocks())[1]
for work, what in ((fit, 'long.csv'), (fit, 'long.parquet'), (write, 'csv'), (write, 'jsonl')):
    seconds = []
    for _ in range(4):
        start = time.process_time()
        work(what)
        seconds.append(time.process_time() - start)
    print(min(seconds))
"""


def compare(old):
    """Print how long parts of the work take in another source tree and in this one, in turns."""
    new = Path(__file__).resolve().parent.parent / "src"
    shown = [
        "`pril fit`, CSV, 250 000 x 20, 10 passes",
        "`pril fit`, Parquet",
        "write CSV with quotes, 32 768 x 23",
        "write JSON Lines, 32 768 x 22",
    ]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        long = next(batches(BATCH))
        pa.csv.write_csv(long, "long.csv")
        pa.parquet.write_table(pa.table(long), "long.parquet")
        towns = pa.array(["Rome", "Bern, old"] * (BATCH // 2))
        pa.csv.write_csv(long.append_column("town", towns), "quoted.csv")
        times = {old: [], new: []}
        for _ in range(2):
            for tree, found in times.items():
                environment = os.environ | {"PYTHONPATH": str(tree)}
                command = [sys.executable, "-c", WORK]
                said = subprocess.check_output(command, env=environment, text=True)  # noqa: S603
                found.append([float(word) for word in said.split()])
        before, after = (np.min(found, axis=0) for found in times.values())
        print("### Two versions in turns: seconds of the processor, the smallest of 8\n")
        rows = [
            [name, f"{a:.2f}", f"{b:.2f}", f"{a / b:.1f}"]
            for name, a, b in zip(shown, before, after, strict=True)
        ]
        table(["", "old", "new", "ratio"], rows)


def main():
    """Print the tables; with the source folder of another version, compare with that instead."""
    if len(sys.argv) > 1:
        compare(Path(sys.argv[1]).resolve())
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.chdir(folder)
        parquet, csv, jsonl = write(folder)
        rows = []
        idle = min(run("import pril.tables.training, skops.io")[0] for _ in range(3))
        for path, shown in ((parquet, "Parquet, 10 M x 20"), (csv, "CSV, 2 M x 20")):
            fit(path)  # the file is in the page cache, the loop is compiled
            pairs = [(run(READ_TWICE[path.name])[0], *fit(path)) for _ in range(5)]
            twice, seconds, memory = (min(times) for times in zip(*pairs, strict=True))
            ratio = f"{seconds / twice:.2f}"
            rows.append([shown, f"{twice:.1f}", f"{seconds:.1f}", ratio, f"{memory:.0f}"])
        print("### `pril fit`, one pass after one of preparation, against pyarrow reading twice\n")
        table(["table", "pyarrow, s", "`pril fit`, s", "ratio", "peak MB"], rows)
        print(f"Whole processes; of `pril fit`'s seconds, {idle:.1f} are imports.\n")

        print("### Ten passes: CSV, 2 M x 20, against pandas and scikit-learn's Perceptron\n")
        pairs = [(*run(SCIKIT_LEARN), *fit(csv, passes=10)) for _ in range(3)]
        cells = [min(column) for column in zip(*pairs, strict=True)]
        heads = ["scikit-learn, s", "peak MB", "`pril fit`, s", "peak MB", "ratio"]
        table(
            heads,
            [
                [
                    *(f"{cell:.{1 - k % 2}f}" for k, cell in enumerate(cells)),
                    f"{cells[2] / cells[0]:.2f}",
                ]
            ],
        )

        print("### A checkpoint every million rows: Parquet, 10 M x 20, one pass\n")
        keep = ["--checkpoint", "state", "--checkpoint-every", 1_000_000]
        pairs = [(fit(parquet)[0], fit(parquet, *keep)[0]) for _ in range(5)]
        plain, kept = (min(times) for times in zip(*pairs, strict=True))
        cells = [f"{plain:.2f}", f"{kept:.2f}", f"{kept / plain:.3f}"]
        table(["without, s", "with, s", "ratio"], [cells])

        print("### `pril stream`, JSON Lines with 20 features and a range, through a pipe\n")
        lines = jsonl.read_bytes().splitlines(keepends=True)
        best = max(throughput(lines) for _ in range(3))
        steady = [waiting(lines, rate) for rate in (1_000, 20_000)]
        waits = [f"{middle:.1f} / {longest:.1f}" for middle, longest in steady]
        said = "median / longest wait in ms at"
        table(
            ["rows a second", f"{said} 1 000 rows/s", f"{said} 20 000 rows/s"],
            [[f"{best:,.0f}", *waits]],
        )


if __name__ == "__main__":
    main()
