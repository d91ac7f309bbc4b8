"""How long does one row take, learned and predicted alone? Against River and Vowpal Wabbit

Needs River; Vowpal Wabbit's Python package is measured where it is installed.
"""

import os

for threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(threads, "1")

import numpy as np
from river import linear_model, multiclass

from pril import PRIL, OrderedLogit
from workloads import K, best_times, table, with_labels

N, D = 2_000, 20


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
        for kind, rows in (("array", arrays), ("dict", dicts)):
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
        lines = [" | " + " ".join(f"f{j}:{v:.6f}" for j, v in enumerate(x)) for x in X.tolist()]
        taught = [f"{rank + 1}{line}" for rank, line in zip(exact, lines, strict=True)]
        calls[f"Vowpal Wabbit, a line, {K} classes"] = (
            repeat(vw.learn, taught),
            repeat(vw.predict, lines),
        )

    learning = best_times({name: pair[0] for name, pair in calls.items()})
    predicting = best_times({name: pair[1] for name, pair in calls.items()})
    count = {name: 100 if "100 rows" in name else N for name in calls}
    times = {
        name: (learning[name] / count[name] * 1e6, predicting[name] / count[name] * 1e6)
        for name in calls
    }
    print(f"### One row (d = {D}, K = {K}), microseconds\n")
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


def wabbit():
    """Return a five-class learner of Vowpal Wabbit, None if it is not installed."""
    try:
        from vowpalwabbit import Workspace
    except ImportError:
        return None
    return Workspace(f"--oaa {K} --quiet")


if __name__ == "__main__":
    main()
