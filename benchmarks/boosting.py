"""OrderedBoosting against the other learners, by the share of exact labels; its time and memory.

Abalone and Parkinsons are read from the folder PRIL_DATA, if it is set. The error is the mean
absolute error in classes on exact labels never seen, over that of LogisticAT on all exact labels:
one split into five folds, the first fold. `--costs` prints time and memory only, `--errors` the
errors only.
"""

import resource
import subprocess
import sys
import time

import numpy as np
from mord import LogisticAT
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from pril import PRIL, LandmarkFeatures, OrderedBoosting, OrderedLogit
from pril.labels import make_intervals
from quality import comparison_sets, measure, shown, training_rows
from workloads import table

SHARES = (0.0, 0.01, 0.05, 0.25, 1.0)  # of exact labels


def contestants(classes):
    """Return name, estimator, and which labels it learns from."""
    known = {"classes": classes, "random_state": 0}
    landmarks = LandmarkFeatures(random_state=0)
    boosting = HistGradientBoostingClassifier(random_state=0)
    yield "OrderedBoosting", OrderedBoosting(**known), "ranges"
    yield "OrderedLogit, landmarks", make_pipeline(landmarks, OrderedLogit(**known)), "ranges"
    yield "OrderedLogit", OrderedLogit(**known), "ranges"
    yield "PRIL", PRIL(**known), "ranges"
    yield "LogisticAT, all exact", LogisticAT(), "all exact"
    yield "boosting, all exact", boosting, "all exact"
    yield "boosting, exact rows", boosting, "exact quarter"
    yield "boosting, mid-points", boosting, "mid-points"


def errors():
    """Print the errors, a column for each share of exact labels."""
    for name, X, y in comparison_sets():
        if name == "Parkinsons":
            continue
        classes, found = np.unique(y), {}
        train, test = next(KFold(5, shuffle=True, random_state=0).split(X))
        scaler = StandardScaler().fit(X[train])
        rows, new = scaler.transform(X[train]), scaler.transform(X[test])
        for share in SHARES:
            for kind in (1, 2):
                ranges = make_intervals(
                    y[train], kind, 1.0 - share, classes=classes, random_state=0
                )
                for learner, model, labels in contestants(classes):
                    key = learner, share, kind
                    if labels == "all exact" and (share, kind) != (SHARES[0], 1):
                        found[key] = found[learner, SHARES[0], 1]
                        continue
                    if share == 1.0 and kind == 2:  # there are no ranges
                        found[key] = found[learner, share, 1]
                        continue
                    data = training_rows(labels, rows, y[train], ranges, 0)
                    found[key] = np.nan
                    if len(np.unique(data[1])) > 1:
                        found[key] = measure(model.fit(*data[:2]), new, y[test], classes)[0]
        best = found["LogisticAT, all exact", SHARES[0], 1]
        print(f"### {name}: error over LogisticAT's, Type 1 / Type 2, by share of exact labels\n")
        lines = [
            [learner, *(shown(*(found[learner, s, k] / best for k in (1, 2))) for s in SHARES)]
            for learner, *_ in contestants(classes)
        ]
        table(["learner", *(f"{share:.0%}" for share in SHARES)], lines)


def made(n):
    """Return ten features and ranks of five classes."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 10))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] + 0.3 * rng.logistic(size=n)
    return X, np.digitize(score, np.quantile(score, np.arange(1, 5) / 5))


def timed(function, *arguments):
    """Return seconds of processor time."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


def costs():
    """Print time over HistGradientBoostingClassifier's, in one thread each, and memory."""
    print("### Processor time over that of HistGradientBoostingClassifier, one thread each\n")
    OrderedBoosting(max_iter=1).fit(*made(100)).predict(made(100)[0])  # compiles
    new, lines = made(100_000)[0], []
    for n in (10_000, 100_000):
        X, y = made(n)
        other = HistGradientBoostingClassifier(random_state=0)
        fit, predict = timed(other.fit, X, y), timed(other.predict, new)
        for name, labels in (("ranges", make_intervals(y, 1, 0.75, random_state=0)), ("exact", y)):
            ours = OrderedBoosting(random_state=0)
            ratios = timed(ours.fit, X, labels) / fit, timed(ours.predict, new) / predict
            lines.append([f"{n:,}", name, f"{ours.n_iter_}", *(f"{ratio:.1f}" for ratio in ratios)])
    table(["rows", "labels", "rounds", "fit", "predict, 100,000 rows"], lines)
    child = subprocess.run(  # noqa: S603
        [sys.executable, __file__, "--memory"], check=True, capture_output=True, text=True
    )
    print(f"memory beyond X and its bins, 1 M rows: {child.stdout.strip()} bytes a row")


def memory():
    """Print how many bytes a row `fit` needs beside X and its bins."""
    OrderedBoosting(max_iter=1).fit(*made(100))
    n, (X, y) = 1_000_000, made(1_000_000)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    OrderedBoosting(max_iter=3, random_state=0).fit(X, y)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(round((after - before) * 1024 / n - X.shape[1]))


if __name__ == "__main__":
    if "--memory" in sys.argv:
        memory()
    else:
        with threadpool_limits(1, "openmp"):
            if "--costs" not in sys.argv:
                errors()
            if "--errors" not in sys.argv:
                costs()
