"""
Income brackets with open ends
==============================

Two questionnaires ask for the household income, each with other brackets. Neither gives you a
number, and the brackets of the second do not match the classes of the first. `from_bounds` turns
both into ranges on one scale, including brackets with an open end.

Data: the American National Election Study of 1996, 944 people, which comes with statsmodels;
public domain.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import OrderedLogit
from pril.labels import from_bounds
from pril.metrics import interval_absolute_error

people = sm.datasets.anes96.load_pandas().data
X = people[["age", "educ", "TVnews", "logpopul", "selfLR", "vote"]].assign(
    age_squared=(people["age"] - 45) ** 2
)

# %%
# Two questionnaires
# ------------------
#
# The study has 24 brackets (in thousands of dollars), and we want six classes. Suppose that one
# person in ten answered this questionnaire, and the others answered one with four wide brackets.

fine = np.array(
    [3, 5, 7, 9, 10, 11, 12, 13, 14, 15, 17, 20, 22, 25, 30, 35, 40, 45, 50, 60, 75, 90, 105]
)
edges = [15, 25, 35, 50, 75]
names = ["below 15", "15-25", "25-35", "35-50", "50-75", "75 or more"]

bracket = people["income"].to_numpy().astype(int) - 1
lower = np.append(-np.inf, fine)[bracket]  # open below
upper = np.append(fine, np.inf)[bracket]  # open above
known = from_bounds(lower, upper, edges=edges)  # the class that each person is in

coarse = np.array([20, 40, 60])
answer = np.searchsorted(coarse, lower, side="right")
wide_lower = np.append(-np.inf, coarse)[answer]
wide_upper = np.append(coarse, np.inf)[answer]


def two_surveys(seed):
    """Return who answered the wide brackets, and the ranges of all people."""
    wide = np.random.default_rng(seed).random(len(people)) < 0.9
    low, high = np.where(wide, wide_lower, lower), np.where(wide, wide_upper, upper)
    return wide, from_bounds(low, high, edges=edges)


wide, y = two_surveys(seed=0)
for row in (0, 300, 600, 900):
    low, high = (wide_lower, wide_upper) if wide[row] else (lower, upper)
    print(f"from {low[row]:>5} to {high[row]:<5} -> {names[y[row, 0]]} to {names[y[row, 1]]}")

# %%
# What the wide brackets are worth
# --------------------------------
#
# We use five folds, draw four times who answers which questionnaire, and judge on the classes that
# the study knows. Learning from the ranges is nearly as good as if everyone had answered the 24.
# Their mid-points are worse, and so are the few exact answers alone. Ranges help most if exact
# answers are few: if a third of the people answer the fine brackets, the exact answers alone do as
# well.

errors = {}
for seed in range(4):
    _, y = two_surveys(seed)
    exact = y[:, 0] == y[:, 1]
    for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
        for name, rows, labels in (
            ("all 24 brackets\n(not available)", train, known),
            ("ranges", train, y),
            ("mid-points of the ranges", train, (y.sum(axis=1) + 1) // 2),
            ("exact answers alone", train[exact[train]], y),
        ):
            model = make_pipeline(StandardScaler(), OrderedLogit(classes=range(6)))
            predicted = model.fit(X.iloc[rows], labels[rows]).predict(X.iloc[test])
            error = interval_absolute_error(known[test], predicted, classes=range(6))
            errors.setdefault(name, []).append(error)
constant = np.abs(known[:, 0] - np.median(known[:, 0])).mean()

figure, (left, right) = plt.subplots(
    1, 2, figsize=(11, 4.2), layout="constrained", width_ratios=[1.3, 1]
)
shown = np.argsort(lower + upper.clip(max=130), kind="stable")[::12]
for height, row in enumerate(shown):
    low, high = (wide_lower, wide_upper) if wide[row] else (lower, upper)
    color = "#d55e00" if wide[row] else "#0072b2"
    left.plot([max(low[row], 0), min(high[row], 130)], [height, height], color=color, lw=2.5)
for edge in edges:
    left.axvline(edge, color="grey", lw=0.8)
left.set(xlabel="income, thousand dollars", yticks=[], xlim=(0, 130), title="What people said")
left.plot([], color="#0072b2", lw=2.5, label="24 brackets")
left.plot([], color="#d55e00", lw=2.5, label="4 brackets")
left.legend(title="questionnaire", loc="lower right")

means = {name: np.mean(values) for name, values in errors.items()}
right.barh(list(means), list(means.values()), color=["#bbbbbb", "#0072b2", "#e69f00", "#e69f00"])
right.axvline(constant, color="black", lw=1, ls="--")
right.text(constant, -0.45, "best constant ", ha="right", va="bottom")
right.set_ylim(3.5, -0.8)
right.set(xlabel="mean absolute error, in classes", title="How well it predicts")
for height, value in enumerate(means.values()):
    right.text(value / 2, height, f"{value:.3f}", ha="center", va="center", color="white")
plt.show()
