"""
Comparison with other packages
==============================

Of these packages, only pril learns from ranges. The others get the next best thing: the exact
quarter of the labels, or the mid-points of the ranges. The last lines show what they would reach
if every label were exact.

Data: the American National Election Study of 1996, 944 people, which comes with statsmodels;
public domain. The target is the party identification in seven steps. A quarter of the answers stay
exact; the others become a range of the step and its neighbours.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import statsmodels.api as sm
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skordinal.classifiers import LogisticAT
from statsmodels.miscmodels.ordinal_model import OrderedModel

from pril import LandmarkFeatures, OrderedLogit
from pril.labels import make_intervals

people = sm.datasets.anes96.load_pandas().data
X = people[["selfLR", "age", "educ", "income", "TVnews", "logpopul", "ClinLR", "DoleLR"]].to_numpy()
rank = people["PID"].to_numpy().astype(int)

# %%
# To compare the packages, we write each learner as a function that takes features and labels, and
# returns a function that predicts. From the probabilities of statsmodels and boosting we predict
# the median, the class at which they add up to a half, because it has the smallest absolute error.


def median(proba):
    """Return the median class of each row."""
    return (np.cumsum(proba, axis=1) < 0.5).sum(axis=1)


def statsmodels(X, y):
    """Fit statsmodels' OrderedModel."""
    result = OrderedModel(y, X, distr="logit").fit(method="bfgs", disp=False)
    return lambda new: median(np.asarray(result.model.predict(result.params, exog=new)))


def skordinal(X, y):
    """Fit skordinal's LogisticAT."""
    return LogisticAT().fit(X, y).predict


def boosting(X, y):
    """Fit scikit-learn's gradient boosting."""
    model = HistGradientBoostingClassifier(max_iter=40, max_leaf_nodes=8, random_state=0)
    model.fit(X, y)
    return lambda new: median(model.predict_proba(new))


def ordered_logit(X, y):
    """Fit pril's OrderedLogit."""
    return OrderedLogit(classes=range(7)).fit(X, y).predict


def with_landmarks(X, y):
    """Fit OrderedLogit on features and similarities to 300 rows."""
    learner = OrderedLogit(classes=range(7))
    return make_pipeline(LandmarkFeatures(300, random_state=0), learner).fit(X, y).predict


others = {
    "statsmodels OrderedModel": statsmodels,
    "skordinal LogisticAT": skordinal,
    "gradient boosting": boosting,
}
trials = {
    ("pril OrderedLogit", "ranges"): ordered_logit,
    ("pril OrderedLogit on landmarks", "ranges"): with_landmarks,
}
for labels in ("exact quarter", "mid-points", "all exact"):
    trials |= {(name, labels): fit for name, fit in others.items()}

# %%
# We use five folds, and judge all models on the exact answers.

y = make_intervals(rank, kind=2, fraction=0.75, random_state=0)
middle = y.sum(axis=1) // 2
exact = y[:, 0] == y[:, 1]
result = []
for (name, labels), fit in trials.items():
    predicted = np.empty_like(rank)
    for train, test in KFold(5, shuffle=True, random_state=0).split(X):
        used = train[exact[train]] if labels == "exact quarter" else train
        target = {"ranges": y, "mid-points": middle}.get(labels, rank)
        scaler = StandardScaler().fit(X[used])
        predict = fit(scaler.transform(X[used]), target[used])
        predicted[test] = predict(scaler.transform(X[test]))
    result.append((name, labels, np.abs(predicted - rank).mean(), accuracy_score(rank, predicted)))

table = pd.DataFrame(result, columns=["learner", "labels", "absolute error", "accuracy"]).round(3)
table

# %%
# Trained on ranges, `OrderedLogit` is as good as the other ordered logits trained on all exact
# labels; landmark features add nothing here. Boosting is better on all exact labels, and a little
# better on mid-points (these ranges reach as far up as down), but the worst on the exact quarter.
# All models here predict the median class, which keeps the absolute error small. A model that
# predicts the most probable class would be exactly right more often, but further off when it is
# wrong.

figure, ax = plt.subplots(figsize=(8, 5), layout="constrained")
colors = {
    "ranges": "#0072b2",
    "exact quarter": "#e69f00",
    "mid-points": "#e69f00",
    "all exact": "#bbbbbb",
}
names = [f"{name}, {labels}" for name, labels in trials]
bars = ax.barh(names, table["absolute error"], color=[colors[labels] for _, labels in trials])
ax.bar_label(bars, fmt="%.2f", padding=3)
constant = np.abs(rank - np.median(rank)).mean()
ax.axvline(constant, color="black", lw=1, ls="--")
ax.set_ylim(len(names) - 0.4, -1.2)
ax.text(constant, -0.6, "best constant ", ha="right", va="bottom")
ax.set_xlabel("mean absolute error, in steps")
plt.show()
