"""Does a half-life follow a stream that changes, and what does it cost where nothing changes?

The weights behind the labels are drawn anew in the middle of the stream. Ten features, five
classes, a quarter of the labels exact and the others Type 1 ranges. Loss: ranks by which a
prediction misses its range, each row predicted before it is learned.
"""

import numpy as np

from pril import PRIL, OrderedLogit
from pril.evaluate import progressive
from pril.labels import make_intervals
from workloads import table

ROWS, CHANGE, WINDOW, HALF_LIFE, SEEDS = 20_000, 10_000, 2_500, 500, 20


def stream(noise, seed):
    """Return rows and interval labels of a stream that changes in the middle."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(ROWS, 10))
    old, new = (w / np.linalg.norm(w) for w in rng.normal(size=(2, 10)))
    score = np.where(np.arange(ROWS) < CHANGE, X @ old, X @ new)
    score += rng.logistic(scale=noise, size=ROWS) if noise else 0.0
    y = np.digitize(score, np.quantile(score, [0.2, 0.4, 0.6, 0.8]))
    return X, make_intervals(y, 1, 0.75, random_state=seed + 1000)


def losses(learner, noise):
    """Return the mean loss before and after the change, for each way to predict."""
    ways = {
        "full average": learner(),
        "half-life": learner(half_life=HALF_LIFE),
        "last iterate": learner(average=False),
    }
    found = {way: [] for way in ways}
    for seed in range(SEEDS):
        X, y = stream(noise, seed)
        for way, model in ways.items():
            fresh = type(model)(**model.get_params())
            loss = progressive(fresh, X, y, classes=range(5)).losses
            parts = loss[CHANGE - WINDOW : CHANGE], loss[CHANGE : CHANGE + WINDOW]
            found[way].append([part.mean() for part in parts])
    return {way: np.mean(pairs, axis=0) for way, pairs in found.items()}


def main():
    """Print the table."""
    print(f"### A stream that changes, half-life {HALF_LIFE} rows, mean of {SEEDS} streams\n")
    rows = []
    for noise in (0.3, 0.0):
        for learner in (PRIL, OrderedLogit):
            found = losses(learner, noise)
            (before, after), full, last = (
                found["half-life"],
                found["full average"],
                found["last iterate"],
            )
            ratios = (before / full[0], after / full[1], after / last[1])
            rows.append([learner.__name__, noise, *(f"{ratio:.2f}" for ratio in ratios)])
    header = ["before / full average", "after / full average", "after / last iterate"]
    table(["learner", "noise", *header], rows)


if __name__ == "__main__":
    main()
