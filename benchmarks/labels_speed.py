"""How long does it take to read labels, compared with learning from them?

Before distinct values were read once, on the same busy machine: object strings 1158 ns, `<U` 2942,
tuples with None 3571, pandas strings 3556, two columns of them 6397; after: 124, 357, 373, 58, 169.
"""

import time

import numpy as np
import pandas as pd

from pril import PRIL
from pril.labels import ranking
from workloads import table

N = 200_000
WORDS = ["poor", "fair", "good", "great"]


def nanoseconds(call, repeats=5):
    """Return the best time of a call, for each of N rows."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return f"{best / N * 1e9:.0f}"


def spellings():
    """Return the same random labels in the forms people have."""
    rng = np.random.default_rng(0)
    ranks = np.sort(rng.integers(0, len(WORDS), (N, 2)), axis=1)
    words = np.array(WORDS, dtype=object)[ranks]
    low, high = words.T
    open_ended = high.copy()
    open_ended[::3] = None
    return {
        "two columns of integers": ranks,
        "list of strings": low.tolist(),
        "object strings": low.copy(),
        "`<U` strings": low.astype(str),
        "tuples of strings": list(map(tuple, words.tolist())),
        "tuples of integers": list(map(tuple, ranks.tolist())),
        "tuples with None": list(zip(low.tolist(), open_ended.tolist(), strict=True)),
        "pandas strings": pd.Series(low, dtype="str"),
        "two columns of pandas strings": pd.DataFrame(
            {"low": low, "high": open_ended}, dtype="str"
        ),
        "ordered Categorical": pd.Categorical(low, categories=WORDS, ordered=True),
    }


def main():
    """Print the table."""
    print(f"### Reading labels, nanoseconds a row ({N:,} rows)\n")
    rows = []
    for name, y in spellings().items():
        classes = range(4) if name.endswith("integers") else WORDS
        rows.append([name, nanoseconds(lambda: ranking.encode(ranking.read(y), classes))])
    X = np.random.default_rng(0).normal(size=(N, 10))
    model = PRIL(classes=range(4), shuffle=False, max_iter=1)
    y = spellings()["two columns of integers"]
    rows.append(
        ["one pass of `PRIL.fit`, d = 10, for comparison", nanoseconds(lambda: model.fit(X, y))]
    )
    table(["labels", "ns"], rows)


if __name__ == "__main__":
    main()
