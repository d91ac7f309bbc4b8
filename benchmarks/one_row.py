"""How long does one row take, learned and predicted alone? Against River and Vowpal Wabbit

Needs River, orjson and psutil; Vowpal Wabbit's Python package is measured where it is installed.
"""

import os

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import orjson
import psutil
from river import linear_model, multiclass

import pril
from pril import PRIL, OrderedLogit
from workloads import K, best_times, table, with_labels

N, D = 2_000, 20
LINES, ALONE = 50_000, 5_000
PRIL_COMMAND = [sys.executable, "-c", "from pril.cli.main import main; main()"]


def repeat(call, *columns):
    """Return a function that makes a call for each row."""

    def go():
        for arguments in zip(*columns, strict=True):
            call(*arguments)

    return go


def main():
    rng = np.random.default_rng(0)
    X, intervals, y = with_labels(rng.normal(size=(N, D)), 0.3, rng)
    arrays = list(X)
    names = [f"feature {j}" for j in range(D)]
    dicts = [dict(zip(names, x, strict=True)) for x in X.tolist()]
    ranges, exact = [tuple(ends) for ends in intervals.tolist()], y.tolist()
    halves = [rank > K // 2 for rank in exact]

    calls = {}
    for cls in (PRIL, OrderedLogit):
        for kind, rows in (("array", arrays), ("dict", dicts), ("list", X.tolist())):
            stream = cls(classes=range(K)).stream()
            calls[f"`{cls.__name__}` stream, {kind}"] = (
                repeat(stream.learn_one, rows, ranges),
                repeat(stream.predict_one, rows),
            )
    model = PRIL(classes=range(K))
    tables = [x[np.newaxis] for x in arrays[:100]]
    labels = [np.array([ends]) for ends in ranges[:100]]
    calls["`PRIL.partial_fit`, `predict` (100 rows)"] = (
        repeat(model.partial_fit, tables, labels),
        repeat(model.predict, tables),
    )
    cheap = {
        "Perceptron": linear_model.Perceptron(),
        "PAClassifier": linear_model.PAClassifier(),
        "LogisticRegression": linear_model.LogisticRegression(),
        "LinearRegression": linear_model.LinearRegression(),
    }
    for name, other in cheap.items():
        calls[f"River `{name}`, two classes"] = (
            repeat(other.learn_one, dicts, halves),
            repeat(other.predict_one, dicts),
        )
    many = multiclass.OneVsRestClassifier(linear_model.Perceptron())
    calls[f"River one-versus-rest `Perceptron`, {K} classes"] = (
        repeat(many.learn_one, dicts, exact),
        repeat(many.predict_one, dicts),
    )
    if vw := wabbit():
        lines = [as_example(x) for x in X.tolist()]
        taught = [f"{rank + 1}{line}" for rank, line in zip(exact, lines, strict=True)]
        calls[f"Vowpal Wabbit, a line, {K} classes"] = (
            repeat(vw.learn, taught),
            repeat(vw.predict, lines),
        )

    learning = best_times({name: pair[0] for name, pair in calls.items()}, clock=time.thread_time)
    predicting = best_times({name: pair[1] for name, pair in calls.items()}, clock=time.thread_time)
    count = {name: 100 if "100 rows" in name else N for name in calls}
    times = {
        name: (learning[name] / count[name] * 1e6, predicting[name] / count[name] * 1e6)
        for name in calls
    }
    print(f"### One row (d = {D}, K = {K}), microseconds of the processor\n")
    table(["", "learn", "predict"], [[name, *pair] for name, pair in times.items()])

    ours = times["`PRIL` stream, dict"][0]
    cheapest = min(times[f"River `{name}`, two classes"][0] for name in cheap)
    five = times[f"River one-versus-rest `Perceptron`, {K} classes"][0]
    table(
        ["`PRIL` stream, learning a dict", "times faster", "goal"],
        [
            ["River's cheapest linear model", cheapest / ours, 3.5],
            [f"River's one-versus-rest of {K} classes", five / ours, 15.0],
        ],
    )

    read_the_same_file()


# --- JSON Lines ----------------------------------------------------------------------------------


def read_the_same_file():
    """Print how fast a file of JSON Lines is answered and learned, row by row."""
    rng = np.random.default_rng(1)
    X, intervals, y = with_labels(rng.normal(size=(LINES, D)).round(6), 0.3, rng)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names = [f"f{j}" for j in range(D)]
        with open("rows.jsonl", "wb") as file:
            for x, (low, high), rank in zip(
                X.tolist(), intervals.tolist(), y.tolist(), strict=True
            ):
                row = dict(zip(names, x, strict=True)) | {"low": low, "high": high, "y": rank}
                file.write(orjson.dumps(row) + b"\n")
        lines = Path("rows.jsonl").read_bytes().splitlines(keepends=True)
        Path("head.jsonl").write_bytes(b"".join(lines[:1000]))
        fit = ["fit", "head.jsonl", "--lower", "low", "--upper", "high", "--drop", "y"]
        classes = ",".join(map(str, range(K)))
        command = [*PRIL_COMMAND, *fit, "--classes", classes, "-q", "-o", "m.pril"]
        subprocess.run(command, check=True)  # noqa: S603
        learners = {
            "`PRIL.stream()` and orjson": dict_learner(PRIL(classes=range(K)).stream(), "y"),
            "River `Perceptron`, two classes, and orjson": dict_learner(
                linear_model.Perceptron(), "y", lambda rank: rank > K // 2
            ),
            f"River one-versus-rest, {K} classes, and orjson": dict_learner(
                multiclass.OneVsRestClassifier(linear_model.Perceptron()), "y"
            ),
        }
        if vw := wabbit():
            learners[f"Vowpal Wabbit, {K} classes, and orjson"] = line_learner(vw)
        best = {"`pril stream`": float("inf")} | dict.fromkeys(learners, float("inf"))
        for _ in range(5):
            best["`pril stream`"] = min(best["`pril stream`"], stream_seconds(lines))
            for name, learner in learners.items():
                start = time.process_time()
                with open("rows.jsonl", "rb") as file, open(os.devnull, "wb") as answers:
                    for line in file:
                        answers.write(orjson.dumps({"prediction": learner(orjson.loads(line))}))
                best[name] = min(best[name], time.process_time() - start)
        print(f"### {LINES:,} JSON Lines, each answered, then learned (d = {D}, K = {K})\n")
        ours = best["`pril stream`"]
        table(
            ["", "rows a second", "µs a row", "of `pril stream`"],
            [[name, f"{LINES / s:,.0f}", s / LINES * 1e6, s / ours] for name, s in best.items()],
        )
        served = pril.load("m.pril").stream()
        rows = [orjson.loads(line) for line in lines[:N]]
        taught = [(row["low"], row["high"]) for row in rows]
        calls = {"learn": repeat(served.learn_one, rows, taught)}
        calls["predict"] = repeat(served.predict_one, rows)
        seconds = best_times(calls, clock=time.thread_time)
        table(
            ["a dict, `pril.load(...).stream()`", "µs"],
            [[name, s / N * 1e6] for name, s in seconds.items()],
        )
        alone = min(stream_seconds(lines[:ALONE], alone=True) for _ in range(5))
        print(f"A line that comes to `pril stream` alone: {alone / ALONE * 1e6:.1f} µs.\n")
        os.chdir("/")


def dict_learner(model, label, target=lambda rank: rank):
    """Return a function that answers a row and learns from it."""

    def answer(row):
        rank = row.pop(label)
        del row["low"], row["high"]
        said = model.predict_one(row) if model_has_learned(model) else None
        model.learn_one(row, target(rank))
        return said

    return answer


def model_has_learned(model):
    """Tell whether a model can predict; those of River always can."""
    return not hasattr(model, "model") or hasattr(model.model, "order_")


def line_learner(vw):
    """Return a function that answers a row and learns from it."""

    def answer(row):
        rank = row.pop("y")
        del row["low"], row["high"]
        line = as_example(row.values())
        said = vw.predict(line)
        vw.learn(f"{rank + 1}{line}")
        return said

    return answer


def as_example(x):
    """Return features as Vowpal Wabbit reads them."""
    return " | " + " ".join([f"f{j}:{v:.6f}" for j, v in enumerate(x)])


def stream_seconds(lines, *, alone=False):
    """Return the processor's seconds of `pril stream` for some lines, its start not counted.

    A line that is alone comes after the answer to the one before.
    """
    with subprocess.Popen(  # noqa: S603
        [*PRIL_COMMAND, "stream", "m.pril", "-q"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    ) as process:
        answers = os.fdopen(os.dup(process.stdout.fileno()), "rb")
        watched = psutil.Process(process.pid)
        process.stdin.write(lines[0])
        answers.readline()
        start = sum(watched.cpu_times()[:2])
        if alone:
            for line in lines:
                process.stdin.write(line)
                answers.readline()
        else:
            feeder = threading.Thread(target=write_all, args=(process.stdin, b"".join(lines)))
            feeder.start()
            for _ in lines:
                answers.readline()
            feeder.join()
        seconds = sum(watched.cpu_times()[:2]) - start
        process.stdin.close()
        answers.close()
    return seconds


def write_all(file, data):
    """Write data to a file without a buffer."""
    rest = memoryview(data)
    while rest:
        rest = rest[file.write(rest) :]


def wabbit():
    """Return a five-class learner of Vowpal Wabbit, None if it is not installed."""
    try:
        from vowpalwabbit import Workspace
    except ImportError:
        return None
    return Workspace(f"--oaa {K} --quiet")


if __name__ == "__main__":
    main()
