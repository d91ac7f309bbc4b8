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
    how = ["--epochs", passes, "--holdout", 0, "-q", "-o", "m.pril"]
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


def write_small(folder):
    """Write smaller tables, to compare two versions with: long, with quoted cells, and wide."""
    long = pa.concat_batches(list(batches(500_000)))
    pa.csv.write_csv(long, folder / "long.csv")
    pa.parquet.write_table(pa.table(long), folder / "long.parquet")
    words = pa.array(["Rome", "Bern, old", "Oslo"] * (BATCH // 3 + 1)).slice(0, BATCH)
    pa.csv.write_csv(long.slice(0, BATCH).append_column("town", words), folder / "quoted.csv")
    rng = np.random.default_rng(0)
    wide = {f"x{j}": column for j, column in enumerate(rng.normal(size=(100_000, 20)))}
    wide |= {"lo": np.arange(20) % 3, "hi": np.arange(20) % 3 + 1}
    pa.csv.write_csv(pa.table(wide), folder / "wide.csv")
    pa.parquet.write_table(pa.table(wide), folder / "wide.parquet")


def cpu_seconds(source, *arguments):
    """Run the command of a source tree; return the seconds of all its threads."""
    before = os.times()
    environment = os.environ | {"PYTHONPATH": str(source)}
    command = [*PRIL, *map(str, arguments), "-q"]
    subprocess.run(command, env=environment, check=True)  # noqa: S603
    after = os.times()
    return (
        after.children_user + after.children_system - before.children_user - before.children_system
    )


def compare(old, repeats=3):
    """Print how long commands take in another source tree and in this one, in turns."""
    new = Path(__file__).resolve().parent.parent / "src"
    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        write_small(Path(name))
        learn = [*LABELS, "--holdout", "0", "-o"]
        commands = {
            "start: `pril show`": ["show", "long.pril"],
            "fit CSV, 500 000 x 20, 1 pass": ["fit", "long.csv", "--epochs", 1, *learn, "m.pril"],
            "fit CSV, 10 passes": ["fit", "long.csv", *learn, "m.pril"],
            "fit Parquet, 1 pass": ["fit", "long.parquet", "--epochs", 1, *learn, "m.pril"],
            "fit Parquet, 10 passes": ["fit", "long.parquet", *learn, "m.pril"],
            "predict CSV with quotes, 250 000 x 23": [
                "predict",
                "long.pril",
                "quoted.csv",
                "-o",
                "p.csv",
            ],
            "predict CSV to JSON Lines": ["predict", "long.pril", "quoted.csv", "-o", "p.jsonl"],
            "fit CSV, 20 x 100 000": ["fit", "wide.csv", *learn, "wide.pril"],
            "fit Parquet, 20 x 100 000": ["fit", "wide.parquet", *learn, "wide.pril"],
            "predict CSV, 20 x 100 000": ["predict", "wide.pril", "wide.csv", "-o", "p.csv"],
        }
        cpu_seconds(old, "fit", "long.csv", *learn, "long.pril")
        rows = []
        for shown, command in commands.items():
            pairs = [[cpu_seconds(tree, *command) for tree in (old, new)] for _ in range(repeats)]
            before, after = map(min, zip(*pairs, strict=True))
            rows.append([shown, f"{before:.1f}", f"{after:.1f}", f"{before / after:.2f}"])
        table(["command", "old, s", "new, s", "ratio"], rows)


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
        keep = ["--checkpoint", "state", "--every", 1_000_000]
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
