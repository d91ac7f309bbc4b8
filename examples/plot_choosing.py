"""
Which learner, by the share of exact labels
===========================================

How many labels are exact? Here that share goes from none to all, and every learner gets the same
rows. `OrderedBoosting`, `OrderedLogit` (on landmark features) and `PRIL` learn from the ranges. For
comparison, there is what you would do without pril: gradient boosting on the mid-points of the
ranges, or on the exact rows alone.

Data: simulated in this script, with steps and interactions, as in many tables about people. A
range spans two neighbouring classes: the true one, and the one above or below it, equally often at
every class. `OrderedBoosting` and `OrderedLogit` assume just that if no label is exact, so this is
their best case (see the guide, *How ranges arise*).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.pipeline import make_pipeline

from pril import PRIL, LandmarkFeatures, OrderedBoosting, OrderedLogit
from pril.labels import make_intervals

N_CLASSES = 5


def make_rows(n, rng):
    """Return standardised features and exact classes."""
    X = rng.normal(size=(n, 5))
    both = (X[:, 0] > 0) & (X[:, 1] > 0)
    score = 2.0 * both + np.where(X[:, 2] > 0.5, 1.0, -1.0) * X[:, 3] + 0.5 * X[:, 4]
    return X, np.digitize(score + rng.logistic(scale=0.15, size=n), [-1.0, 0.0, 1.0, 2.0])


def errors(share, rng):
    """Return the error of each way to learn, at a share of exact labels."""
    X, y = make_rows(800, rng)
    X_new, y_new = make_rows(2000, rng)
    ranges = make_intervals(y, 1, 1.0 - share, classes=range(N_CLASSES), random_state=0)
    exact = ranges[:, 0] == ranges[:, 1]
    middles = (ranges.sum(axis=1) + rng.integers(0, 2, len(y))) // 2
    known = {"classes": range(N_CLASSES), "random_state": 0}
    landmarks = LandmarkFeatures(300, random_state=0)
    boosting = HistGradientBoostingClassifier(max_iter=50, random_state=0)
    ways = {
        "OrderedBoosting": (OrderedBoosting(max_iter=100, **known), X, ranges),
        "OrderedLogit, landmarks": (make_pipeline(landmarks, OrderedLogit(**known)), X, ranges),
        "PRIL": (PRIL(**known), X, ranges),
        "boosting, mid-points": (boosting, X, middles),
        "boosting, exact rows": (boosting, X[exact], y[exact]),
    }
    return {
        name: np.abs(model.fit(rows, labels).predict(X_new) - y_new).mean()
        for name, (model, rows, labels) in ways.items()
        if len(np.unique(labels)) > 1
    }


# %%
# `OrderedBoosting` is the best at every share. Even without an exact label, it is better than other
# boosting that sees all of them: the ranges themselves show how they arise. Boosting on mid-points
# needs far more exact labels, and boosting on the exact rows alone even more. `PRIL` is linear: on
# these data, more exact labels hardly help it.

shares = [0.0, 0.01, 0.05, 0.25, 1.0]
found = [errors(share, np.random.default_rng(1)) for share in shares]
styles = {
    "OrderedBoosting": ("#d55e00", "o-"),
    "OrderedLogit, landmarks": ("#0072b2", "s-"),
    "PRIL": ("#009e73", "^-"),
    "boosting, mid-points": ("0.45", "x--"),
    "boosting, exact rows": ("0.45", "+:"),
}
figure, ax = plt.subplots(figsize=(6.4, 4.4), layout="constrained")
for name, (color, style) in styles.items():
    line = [result.get(name, np.nan) for result in found]
    ax.plot(range(len(shares)), line, style, color=color, label=name, linewidth=2, markersize=8)
ax.set_xticks(range(len(shares)), ["none", "1 %", "5 %", "25 %", "all"], fontsize=12)
ax.set_xlabel("exact labels", fontsize=13)
ax.set_ylabel("error, in classes", fontsize=13)
ax.set_ylim(0, 2.1)
ax.legend(fontsize=11)
plt.show()
