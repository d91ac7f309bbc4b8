"""
A stream with drift
===================

Rows arrive one at a time, each with a range as its label. After 4000 rows, the relation between
features and labels changes. A learner that averages over everything it has seen adapts slowly.
With ``half_life=300``, what it learned 300 rows ago counts half, and it recovers quickly.

Data: simulated in this script.
"""

import matplotlib.pyplot as plt
import numpy as np

from pril import PRIL, OrderedLogit
from pril.evaluate import progressive

rng = np.random.default_rng(0)
X = rng.normal(size=(8000, 5))
before, after = np.array([1.0, -1.0, 0.5, 0.0, 0.0]), np.array([-0.5, 0.0, 0.5, 1.0, -1.0])
score = np.where(np.arange(8000) < 4000, X @ before, X @ after) + rng.logistic(scale=0.3, size=8000)
rank = np.digitize(score, [-1.5, -0.5, 0.5, 1.5])
lower = np.maximum(rank - rng.integers(0, 2, 8000), 0)
upper = np.minimum(rank + rng.integers(0, 2, 8000), 4)
y = np.column_stack([lower, upper])

# %%
# `progressive` predicts each row before it learns from it, so every prediction is a fair test. The
# curve is the mean loss of the last 400 rows: by how many classes a prediction misses its range.

learners = {
    "OrderedLogit": OrderedLogit(),
    "OrderedLogit, half_life=300": OrderedLogit(half_life=300.0),
    "PRIL": PRIL(),
    "PRIL, half_life=300": PRIL(half_life=300.0),
}
figure, ax = plt.subplots(figsize=(8, 4), layout="constrained")
for number, (name, learner) in enumerate(learners.items()):
    progress = progressive(learner, X, y, classes=range(5))
    total = np.cumsum(progress.losses)
    recent = (total[400:] - total[:-400]) / 400
    forgets = "half" in name
    ax.plot(
        np.arange(400, 8000), recent, "-" if forgets else ":", color=f"C{number // 2}", label=name
    )
    print(f"{name:<28} mean loss after the change {progress.losses[4000:].mean():.3f}")
ax.axvline(4000, color="grey", lw=1)
ax.set(xlabel="rows seen", ylabel="mean loss of the last 400 rows", ylim=(0, None))
ax.legend()
plt.show()
