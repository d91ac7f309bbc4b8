"""
How ranges arise, and what a model finds
========================================

Two people of class 3 may give different answers: one says "3 or 4", the other "2 or 3". How a class
becomes a range is called the coarsening mechanism. `OrderedBoosting` and `OrderedLogit` learn it
along with the rest, even if no label is exact. Here we make ranges in four ways, and look at what
`OrderedBoosting` finds.

Data: simulated in this script. No label is exact.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from pril import OrderedBoosting
from pril.plotting import CoarseningDisplay

N_CLASSES = 5


def make_rows(n, rng):
    """Return features and exact ranks."""
    X = rng.normal(size=(n, 4))
    score = X @ [1.5, -1.0, 0.7, 0.0] + 0.8 * X[:, 0] * X[:, 1] + rng.logistic(scale=0.4, size=n)
    return X, np.digitize(score, [-2.4, -0.8, 0.8, 2.4])


# %%
# Four ways to make ranges
# ------------------------
#
# *At random*: for each row, a cut is drawn that divides the scale into two brackets, whatever the
# class is. *Symmetric*, *skewed*, *upwards*: a rater adds a neighbour of the true class. It is the
# upper one half of the time, four times in five, or always. (The lowest class has only an upper
# neighbour, the highest only a lower one.)


def at_random(y, rng):
    """Return the part of the scale below or above a cut that is drawn for each row."""
    cut = rng.integers(2, N_CLASSES - 1, len(y))
    return np.where(
        (y < cut)[:, np.newaxis],
        np.column_stack([0 * cut, cut - 1]),
        np.column_stack([cut, 0 * cut + N_CLASSES - 1]),
    )


def with_neighbour(y, share_up, rng):
    """Return the class and its upper neighbour, in a share of the rows, or else the lower one."""
    lower = np.clip(y - (rng.random(len(y)) >= share_up), 0, N_CLASSES - 2)
    return np.column_stack([lower, lower + 1])


rng = np.random.default_rng(1)
X, y = make_rows(1500, rng)
X_new, y_new = make_rows(3000, rng)
ways = {
    "at random": at_random(y, rng),
    "symmetric": with_neighbour(y, 0.5, rng),
    "skewed": with_neighbour(y, 0.8, rng),
    "upwards": with_neighbour(y, 1.0, rng),
}

# %%
# What the model finds
# --------------------
#
# The model compares how well the mechanisms predict rows that it has not learned from. The last
# column is the error of a model that takes all ranges as made at random.

warnings.simplefilter("ignore")  # at random, the ends of the scale cannot be told apart: it warns
figure, axes = plt.subplots(2, 2, figsize=(10, 7), layout="constrained")
print(f"{'ranges made':<12}{'found':<12}{'evidence':>9}{'error':>8}{'taken as random':>17}")
for ax, (way, ranges) in zip(axes.flat, ways.items(), strict=True):
    known = {"classes": range(N_CLASSES), "max_iter": 100, "n_folds": 4, "random_state": 0}
    model = OrderedBoosting(**known).fit(X, ranges)
    plain = OrderedBoosting(coarsening="random", **known).fit(X, ranges)
    found = model.coarsening_
    errors = [np.abs(one.predict(X_new) - y_new).mean() for one in (model, plain)]
    evidence = found.evidence or 0.0  # of nothing that was compared
    print(f"{way:<12}{found.mechanism:<12}{evidence:>9.0f}{errors[0]:>8.2f}{errors[1]:>17.2f}")
    CoarseningDisplay.from_estimator(model, ax=ax)
    ax.set_title(f"made {way}\nfound {ax.get_title()}", fontsize=10)
plt.show()

# %%
# All four are found. Where raters shade, the model that knows it has a much lower error.
#
# Evidence is by how much shared offsets predict held-out labels better than "at random": a
# difference of log-likelihoods.
#
# This is the best case. The ranges are made just as the model assumes: raters shade alike at every
# class. Where they do not, only exact labels can show it. And if all raters go upwards, a model
# that moves all classes down by one explains the labels nearly as well. A few exact labels make
# sure that the direction is right. The guide says more: *How ranges arise*.
