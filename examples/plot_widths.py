"""
How wide may ranges be?
=======================

Very wide, if some labels are exact. With a quarter of exact labels, the other labels can be ranges
of six classes out of eight. One exact label in twenty still helps a lot. If no label is exact, keep
the ranges to two classes.

Here we widen exact labels step by step, until a range spans six of eight classes. `OrderedLogit`
and `PRIL` learn from the ranges. For comparison, `OrderedLogit` also learns from the mid-points of
the ranges, as you would without pril.

Data: simulated in this script.
"""

import matplotlib.pyplot as plt
import numpy as np

from pril import PRIL, OrderedLogit
from pril.metrics import interval_absolute_error

N_CLASSES = 8


def make_rows(n, rng):
    """Return features and exact ranks: a linear score with noise, cut into eight."""
    X = rng.normal(size=(n, 6))
    score = X @ [1.0, -0.8, 0.6, -0.4, 0.2, 0.0] + rng.logistic(scale=0.25, size=n)
    return X, np.digitize(score, np.linspace(-2.2, 2.2, N_CLASSES - 1))


def widen(rank, width, share_exact, rng):
    """Return ranges of `width` classes that hold the rank at a random place."""
    lower = (rank - rng.integers(0, width, len(rank))).clip(0, N_CLASSES - width)
    ranges = np.column_stack([lower, lower + width - 1])
    exact = rng.random(len(rank)) < share_exact
    ranges[exact] = rank[exact, np.newaxis]
    return ranges


# %%
# A range that would extend beyond the scale is shifted back into it, so that every range has the
# same width. If two classes are in the middle of a range, one of them is drawn at random.

widths = range(1, 7)
results = {}
for share_exact in (0.0, 0.05, 0.25):
    for width in widths:
        for seed in range(5):
            rng = np.random.default_rng(seed)
            X, rank = make_rows(1500, rng)
            X_new, rank_new = make_rows(3000, rng)
            y = widen(rank, width, share_exact, rng)
            middle = (y.sum(axis=1) + rng.integers(0, 2, len(y))) // 2
            for name, learner, label in (
                ("OrderedLogit, ranges", OrderedLogit, y),
                ("PRIL, ranges", PRIL, y),
                ("OrderedLogit, mid-points", OrderedLogit, middle),
            ):
                model = learner(classes=range(N_CLASSES), random_state=0).fit(X, label)
                error = interval_absolute_error(
                    rank_new, model.predict(X_new), classes=range(N_CLASSES)
                )
                results.setdefault((share_exact, name), []).append(error)

# %%
# Without any exact label, `OrderedLogit` learns how ranges of two classes arise: the true class is
# the lower or the upper one, equally often. It assumes that wider ranges are cut off at the ends of
# the scale, and these are not. Every range that contains the lowest class contains the next ones
# too, so nothing tells them apart, and mid-points of three to five classes are as good or better.
# With one exact label in twenty, ranges of two classes, and of four and more, are better than
# mid-points; with a quarter, all ranges are.

figure, axes = plt.subplots(1, 3, figsize=(10, 4), layout="constrained", sharey=True)
titles = {0.0: "no exact label", 0.05: "one label in twenty exact", 0.25: "a quarter exact"}
for ax, share_exact in zip(axes, titles, strict=True):
    for (share, name), errors in results.items():
        if share == share_exact:
            ax.plot(widths, np.reshape(errors, (len(widths), -1)).mean(axis=1), "o-", label=name)
    ax.set(title=titles[share_exact], xlabel="classes in a range")
axes[0].set_ylabel("mean absolute error, in classes")
axes[2].legend()
plt.show()
