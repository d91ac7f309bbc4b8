"""
Kernels, landmark features and the feature map
==============================================

The score of a linear model is a plane. If that does not fit your data, you have three options: a
kernel (`KernelPRIL`), similarities to landmark rows (`LandmarkFeatures`), or the exact feature map
of a polynomial kernel (`PolynomialMap`).

Data: the synthetic set of the PRIL paper, a saddle over the unit square cut into five ranks;
`pril.paper.datasets.make_synthetic` makes it.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import PRIL, KernelPRIL, LandmarkFeatures, OrderedLogit, PolynomialMap
from pril.labels import make_intervals
from pril.metrics import interval_absolute_error
from pril.paper.datasets import make_synthetic

X, rank = make_synthetic(2000, random_state=0)
X_new, rank_new = make_synthetic(2000, random_state=1)
classes = np.unique(rank)
y = make_intervals(rank, kind=1, fraction=0.75, random_state=0)  # a quarter stays exact

models = {
    "PRIL": make_pipeline(StandardScaler(), PRIL(classes=classes, random_state=0)),
    "PRIL on PolynomialMap": make_pipeline(
        PolynomialMap(degree=2, gamma=1.0, coef0=1.0), PRIL(classes=classes, random_state=0)
    ),
    "KernelPRIL, RBF": KernelPRIL(kernel="rbf", gamma=10.0, classes=classes, random_state=0),
    "OrderedLogit on LandmarkFeatures": make_pipeline(
        StandardScaler(),
        LandmarkFeatures(100, random_state=0),
        OrderedLogit(classes=classes, alpha=3.0),
    ),
}

# %%
# Each picture shows what a model predicts on the square, and 300 new rows. The error is the mean
# absolute error in classes on 2000 new rows.

side = np.linspace(0, 1, 120)
grid = np.column_stack([values.ravel() for values in np.meshgrid(side, side)])
figure, axes = plt.subplots(2, 2, figsize=(8, 8), layout="constrained", sharex=True, sharey=True)
for ax, (name, model) in zip(axes.flat, models.items(), strict=True):
    began = time.perf_counter()
    model.fit(X, y)
    seconds = time.perf_counter() - began
    error = interval_absolute_error(rank_new, model.predict(X_new), classes=classes)
    print(f"{name:<34} error {error:.3f}, learned in {seconds:.2f} s")
    shown = model.predict(grid).reshape(120, 120)
    levels = np.append(classes, classes[-1] + 1) - 0.5
    ax.contourf(side, side, shown, levels=levels, cmap="viridis", alpha=0.6)
    ax.scatter(*X_new[:300].T, c=rank_new[:300], cmap="viridis", s=12, edgecolors="black", lw=0.4)
    ax.set(title=f"{name}\nerror {error:.2f}", aspect="equal")
plt.show()

# %%
# A plane cannot follow a saddle: the linear model always predicts the middle class. The other
# three are about equally good. The saddle is a polynomial of degree two, so the feature map needs
# only six features and is the fastest. If you do not know the shape, use landmark features: they
# cost the same for every row, and with `OrderedLogit` they give probabilities. A kernel takes
# longer with every mistake that it remembers.
