"""
Binning a number
================

If you know a number only roughly, cut it into bins. The label of a row is then the range of bins
that the number may lie in. You need no assumption about the distribution of the errors, and a
reading such as "over 250" is simply an open range.

Data: 442 diabetes patients (Efron and others, 2004), which come with scikit-learn (BSD-3-Clause).
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import OrderedLogit
from pril.labels import from_bounds
from pril.metrics import interval_absolute_error

X, progression = load_diabetes(return_X_y=True)

# %%
# Rough readings
# --------------
#
# For two patients in three, we know the number only to within 40 units. Beyond 250, we know only
# that it is above 250.

rng = np.random.default_rng(0)
rough = rng.random(len(X)) < 2 / 3
shift = rng.uniform(0, 40, len(X))
lower = np.where(rough, progression - shift, progression)
upper = np.where(rough, progression - shift + 40, progression)
lower, upper = np.minimum(lower, 250), np.where(upper > 250, np.inf, upper)

# %%
# We choose six bins with about as many patients each. `from_bounds` returns the lowest and the
# highest bin that a reading overlaps.

edges = np.quantile(progression, [1 / 6, 2 / 6, 3 / 6, 4 / 6, 5 / 6]).round()
y = from_bounds(lower, upper, edges=edges)
true_bin = np.digitize(progression, edges)
widths, counts = np.unique(np.diff(y) + 1, return_counts=True)
print("edges", edges)
print("bins in a range:", dict(zip(widths.tolist(), counts.tolist(), strict=True)))

model = make_pipeline(StandardScaler(), OrderedLogit(classes=range(6)))
predicted = cross_val_predict(model, X, y, cv=5)
error = interval_absolute_error(true_bin, predicted, classes=range(6))
constant = np.abs(true_bin - np.median(true_bin)).mean()
print(f"off by {error:.2f} bins on patients not seen, the best constant by {constant:.2f}")

# %%
# The score, and the number behind it
# -----------------------------------
#
# The model has seen only bins, never a number, and yet its score rises with the number. Its
# thresholds separate one bin from the next.

model.fit(X, y)
score = model[-1].latent(model[:-1].transform(X))
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
colors = plt.get_cmap("viridis")(np.linspace(0.1, 0.95, 6))
for number in range(6):
    rows = true_bin == number
    ax.scatter(score[rows], progression[rows], color=colors[number], s=16)
limits = [score.min() - 0.3, *model[-1].thresholds_, score.max() + 0.3]
bounds = [progression.min() - 10, *edges, progression.max() + 10]
for number in range(6):
    ax.fill_between(
        limits[number : number + 2], *bounds[number : number + 2], color=colors[number], alpha=0.25
    )
ax.set(xlim=(limits[0], limits[-1]), ylim=(bounds[0], bounds[-1]))
ax.set(xlabel="score; a box is a predicted bin and the numbers in it", ylabel="disease progression")
plt.show()
