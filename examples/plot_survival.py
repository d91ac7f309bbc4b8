"""
Times between visits: interval-censored survival
================================================

A relapse is found at a visit, so it happened since the visit before; after the last visit, nothing
is known. Months are ordered classes, and what visits say is a range of them. With many classes the
model is semi-parametric: no shape of the survival curve is assumed, only how features move it. The
link ``cloglog`` makes it Cox's proportional hazards, ``logit`` proportional odds.

Data: simulated in this script, so that the truth is known.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pril import OrderedLogit
from pril.inference import infer

MONTHS = 60  # classes: the month of the relapse, and later ones in the last
TRUTH = pd.Series({"treated": 0.7, "stage": -0.4})  # how they move the log of the time, times 1.5
ERRORS = {
    "cloglog": lambda rng, n: -rng.gumbel(size=n),
    "logit": lambda rng, n: rng.logistic(size=n),
}


def study(n, link, rng):
    """Return patients, and the first and the last month in which each may have had a relapse."""
    patients = pd.DataFrame({"treated": rng.integers(0, 2, n), "stage": rng.normal(size=n)})
    score = patients @ TRUTH + ERRORS[link](rng, n)
    time = 18 * np.exp(score.to_numpy() / 1.5)
    ends = rng.integers(24, MONTHS, n)
    visits = np.minimum(np.cumsum(rng.integers(3, 10, (n, 20)), axis=1), ends[:, np.newaxis])
    after = np.where(visits < time[:, np.newaxis], visits, 0).max(axis=1)
    before = np.where(visits >= time[:, np.newaxis], visits, MONTHS).min(axis=1)
    return patients, np.column_stack([after, before - 1])


def model(link):
    return OrderedLogit(classes=range(MONTHS), link=link, alpha=0, coarsening="random")


# %%
# One study
# ---------
#
# A weight says how much later relapses are, as in ``survreg``; Cox's log hazard ratio is its
# negative.

X, y = study(200, "cloglog", np.random.default_rng(0))
result = infer(model("cloglog").fit(X, y), X, y)
result.to_frame().set_index("feature")[:2].round(3)

# %%
# Two hundred studies
# -------------------
#
# Are the weights right on average, and how often do intervals of 95 % hold them? The standard error
# of a share of 95 % is 1.5 %.

rows, estimates = [], {}
for link in ERRORS:
    rng = np.random.default_rng(1)
    studies = [study(200, link, rng) for _ in range(200)]
    results = [infer(model(link).fit(X, y), X, y) for X, y in studies]
    estimates[link] = np.array([result.estimate[:2] for result in results])
    errors = np.array([result.std_error[:2] for result in results])
    ends = np.array([result.interval[:, :2] for result in results])
    inside = (ends[:, 0] <= TRUTH.to_numpy()) & (TRUTH.to_numpy() <= ends[:, 1])
    numbers = [estimates[link].mean(0), estimates[link].std(0), errors.mean(0), inside.mean(0)]
    rows += [
        (link, name, TRUTH[name], *values)
        for name, *values in zip(TRUTH.index, *numbers, strict=True)
    ]
columns = ["link", "feature", "truth", "mean", "spread", "mean error", "inside"]
pd.DataFrame(rows, columns=columns).round(3)

# %%
# Below, the curves of the first study, which need no assumption about their shape, beside the true
# ones. Right, what 200 studies find for each weight.

X, y = study(200, "cloglog", np.random.default_rng(0))
fitted = model("cloglog").fit(X, y)
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1.4, 1])
for treated, colour in ((0, "#d55e00"), (1, "#0072b2")):
    new = pd.DataFrame({"treated": [treated], "stage": [0.0]})
    alive = 1 - np.cumsum(fitted.predict_proba(new)[0])
    months = np.arange(MONTHS)
    label = "treated" if treated else "not treated"
    axes[0].step(months + 1, alive, where="post", color=colour, label=label)
    true = np.exp(-np.exp(1.5 * np.log(np.maximum(months, 1e-9) / 18) - 0.7 * treated))
    axes[0].plot(months, true, ":", color=colour)
axes[0].set(xlabel="months", ylabel="no relapse", ylim=(0, 1), xlim=(0, 50))
axes[0].legend(title="dotted: the truth")
positions = {"cloglog": [0, 3], "logit": [1, 4]}
for link, colour in (("cloglog", "#0072b2"), ("logit", "#009e73")):
    parts = axes[1].boxplot(estimates[link], positions=positions[link], widths=0.7, sym="")
    plt.setp(parts["boxes"] + parts["medians"], color=colour)
    axes[1].plot([], [], color=colour, label=link)
axes[1].hlines(TRUTH, [-0.6, 2.4], [1.6, 4.6], colors="black", linestyles="dotted")
axes[1].set(title="200 studies", ylabel="weight", xticks=[0.5, 3.5], xticklabels=TRUTH.index)
axes[1].legend()
plt.show()
