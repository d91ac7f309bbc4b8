"""
Party identification, give or take one
======================================

People place themselves on a scale of seven steps, from strong Democrat to strong Republican. Many
could as well have chosen a neighbouring step. So we read most answers as "this step, give or take
one", and the model still learns who stands where.

Data: the American National Election Study of 1996, 944 people, which comes with statsmodels;
public domain.
"""

import matplotlib.pyplot as plt
import numpy as np
import statsmodels.api as sm
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import OrderedLogit
from pril.labels import make_intervals
from pril.metrics import interval_absolute_error, interval_accuracy

people = sm.datasets.anes96.load_pandas().data
X = people[["selfLR", "age", "educ", "income", "TVnews", "logpopul"]]
steps = [
    "strong Democrat", "weak Democrat", "leans Democrat", "independent",
    "leans Republican", "weak Republican", "strong Republican",
]  # fmt: skip
party = np.array(steps)[people["PID"].astype(int)]

# %%
# Three answers in four become ranges of up to three steps; a quarter stay exact.

y = make_intervals(party, kind=2, fraction=0.75, classes=steps, random_state=0)
print(
    "\n".join(
        f"{said:<18} -> {low} to {high}" for said, (low, high) in zip(party[:4], y[:4], strict=True)
    )
)

model = make_pipeline(StandardScaler(), OrderedLogit(classes=steps))
predicted = cross_val_predict(model, X, y, cv=KFold(5, shuffle=True, random_state=0))
middle = np.full(len(party), "leans Democrat")
for name, guess in (("OrderedLogit from ranges", predicted), ("always 'leans Democrat'", middle)):
    error = interval_absolute_error(party, guess, classes=steps)
    near = interval_accuracy(y, guess, classes=steps)
    print(f"{name:<26} off by {error:.2f} steps, {near:.0%} inside the range")

# %%
# Who stands where
# ----------------
#
# The probabilities of the seven steps, by where people place themselves from left (1) to right
# (7), with all other features at their mean.

model.fit(X, y)
place = np.linspace(1, 7, 100)
typical = X.mean().to_frame().T.loc[np.zeros(100)].assign(selfLR=place)
proba = model.predict_proba(typical)[:, np.searchsorted(model.classes_, steps)]

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
colors = plt.get_cmap("RdBu_r")(np.linspace(0.05, 0.95, 7))
ax.stackplot(place, proba.T, labels=steps, colors=colors, edgecolor="white", lw=0.4)
ax.set(
    xlabel="self-placement: 1 extremely liberal ... 7 extremely conservative", ylabel="probability"
)
ax.set(xlim=(1, 7), ylim=(0, 1))
handles, labels = ax.get_legend_handles_labels()
ax.legend(handles[::-1], labels[::-1], loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
plt.show()
