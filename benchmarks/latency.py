"""How long do one row and the first call of a process take?"""

import subprocess
import sys
import time

import numpy as np
from sklearn.utils.validation import validate_data

from pril import PRIL
from pril.labels import ranking
from workloads import K, dense, table

FIRST_CALL = """
import time
import numpy as np
from pril import {name}
X, y = np.eye(3), np.array([[1, 2], [2, 3], [3, 3]])
start = time.perf_counter()
{name}(classes=[1, 2, 3]).{method}(X, y)
print(time.perf_counter() - start)
"""


def best_microseconds(call, repeats=3000):
    """Return the best time of a short call."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return f"{best * 1e6:.0f}"


def main():
    """Print the tables."""
    print("### One row (d = 10), microseconds\n")
    X, intervals, _ = dense(10, 0.3)
    x, label = X[:1].copy(), intervals[:1].copy()
    model = PRIL(classes=range(K)).partial_fit(X[:100], intervals[:100])
    known = ranking.read(label)
    parts = {
        "`partial_fit`": lambda: model.partial_fit(x, label),
        "— scikit-learn's `validate_data`": lambda: validate_data(
            model, x, reset=False, accept_sparse="csr", dtype=(np.float64, np.float32), order="C",
            ensure_all_finite=False,
        ),
        "— reading the label": lambda: ranking.read(label),
        "— ranks and their checks": lambda: ranking.to_intervals(known, model.order_),
        "— copying the memory, so that a failure changes nothing": model.memory_.copy,
        "`predict`": lambda: model.predict(x),
    }  # fmt: skip
    table(["call", "best of 3000"], [[name, best_microseconds(f)] for name, f in parts.items()])

    print("### First call in a new process, warm cache, beyond imports\n")
    times = []
    for name, method in (("PRIL", "partial_fit"), ("PRIL", "fit"), ("MPRIL", "fit")):
        command = [sys.executable, "-c", FIRST_CALL.format(name=name, method=method)]
        runs = [float(subprocess.check_output(command)) for _ in range(4)]  # noqa: S603
        times.append([f"`{name}.{method}`", f"{min(runs[1:]):.2f} s"])
    table(["call", "best of 3"], times)


if __name__ == "__main__":
    main()
