"""
A survey with brackets
======================

Some people tell you which of your eight income brackets they are in. Most give a wider one: "under
50k", "35-100k", "75k+". The usual fix is to replace each bracket by its mid-point. Here you see
what that costs, and what you gain by learning from the brackets themselves.

Data: simulated in this script, so that every person's true income is known.
"""

import tempfile

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pril
from pril import OrderedLogit
from pril.labels import bracket_names, find_edges, from_brackets
from pril.metrics import interval_absolute_error

EDGES = [15, 25, 35, 50, 75, 100, 150]  # thousands a year


def ask(n, rng):
    """Return what people answer, and the class of their true income."""
    people = pd.DataFrame(
        {
            "age": rng.integers(20, 65, n),
            "schooling": rng.normal(13, 2.5, n).round(),
            "hours": rng.normal(38, 8, n).clip(5).round(),
        }
    )
    z = (people - people.mean()) / people.std()
    score = 0.5 * z["age"] + 0.8 * z["schooling"] + 0.6 * z["hours"]
    income = np.exp(3.75 + 0.7 * score + rng.logistic(scale=0.12, size=n))
    rank = np.digitize(income, EDGES)
    width = np.where(rng.random(n) < 0.25, 1, rng.integers(3, 7, n))
    low = (rank - rng.integers(0, width)).clip(0, 8 - width)
    people["income"] = [write(a, a + w) for a, w in zip(low, width, strict=True)]
    people.loc[rng.random(n) < 0.05, "income"] = "prefer not to say"
    return people, rank


def write(low, high):
    """Return the bracket from class `low` up to class `high`, as people write it."""
    if low == 0:
        return f"under {EDGES[high - 1]}k"
    return f"{EDGES[low - 1]}k+" if high == 8 else f"{EDGES[low - 1]}-{EDGES[high - 1]}k"


rng = np.random.default_rng(0)
people, _ = ask(2000, rng)
people.head()

# %%
# `from_brackets` reads the column as it is. It finds the eight classes in the text, and gives each
# person the lowest and the highest class of the answer.

edges = find_edges(people["income"])
names = bracket_names(edges)
y = from_brackets(people["income"])
print(names)
print(y[:5])

# %%
# Train the same ordered logit twice: on the brackets, and on their mid-points.

answered = ~np.isnan(y[:, 0])
X, y = people.loc[answered, ["age", "schooling", "hours"]], y[answered]
model = make_pipeline(StandardScaler(), OrderedLogit(classes=range(8), random_state=0)).fit(X, y)
middle = np.floor(y.mean(axis=1) + rng.integers(0, 2, len(y)) / 2)  # one of two in the middle
middles = make_pipeline(StandardScaler(), OrderedLogit(classes=range(8), random_state=0))
middles.fit(X, middle)

# %%
# Test both on two thousand new people, whose true income we know. A column has the people of one
# true bracket, and its squares where they are predicted; on the diagonal, that is right. Mid-points
# pull everybody towards the middle of the scale. The brackets do not.

new, truth = ask(2000, rng)
new = new[["age", "schooling", "hours"]]
short = ["<15k", *(f"{low}k" for low in EDGES)]
figure, axes = plt.subplots(1, 2, figsize=(9, 4.6), layout="constrained", sharey=True)
for ax, name, learned in zip(axes, ("mid-points", "brackets"), (middles, model), strict=True):
    predicted = learned.predict(new)
    error = interval_absolute_error(truth, predicted, classes=range(8))
    counts = np.histogram2d(predicted, truth, bins=8, range=[[-0.5, 7.5]] * 2)[0]
    share = counts / counts.sum(axis=0)
    squares = ax.imshow(share, cmap="Blues", vmin=0, vmax=1, origin="lower")
    ax.plot([-0.5, 7.5], [-0.5, 7.5], color="black", linestyle=":", linewidth=1)
    ax.set_title(f"learned from {name}\noff by {error:.2f} brackets", fontsize=12)
    ax.set(xlabel="true income from", xticks=range(8), yticks=range(8))
    ax.set_xticklabels(short, rotation=45)
    ax.set_yticklabels(short)
axes[0].set_ylabel("predicted income from")
key = figure.colorbar(squares, ax=axes, ticks=[0, 0.5, 1], format="{x:.0%}")
key.set_label("of the people with this true income")
plt.show()

# %%
# How sure is the model? It predicts a probability for each bracket:

pd.DataFrame(model.predict_proba(new[:3]), columns=names).round(2)

# %%
# For your colleagues, write a report: one HTML file with the score, the pictures and the worst
# rows.

with tempfile.TemporaryDirectory() as folder:
    pril.report(model, new, truth, path=f"{folder}/income.html")
