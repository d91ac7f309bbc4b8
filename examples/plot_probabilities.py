"""
Probabilities and guaranteed ranges
===================================

`OrderedLogit` predicts the probability of each class. `PredictionRanges` works with any learner,
and predicts a range of classes that contains the true one for at least nine rows in ten.

Data: simulated in this script.
"""

import matplotlib.pyplot as plt
import numpy as np

from pril import OrderedLogit, PredictionRanges
from pril.labels import make_intervals
from pril.metrics import calibration_error, ranked_probability_score
from pril.plotting import ReliabilityDisplay

GRADES = np.array(["poor", "fair", "good", "great"])
rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 4))
score = X @ [1.0, 0.7, -0.5, 0.3] + rng.logistic(scale=0.4, size=6000)
grade = GRADES[np.digitize(score, [-1.2, 0.0, 1.2])]
labels = make_intervals(grade, kind=1, fraction=0.75, classes=GRADES, random_state=0)
learn, new = slice(0, 3000), slice(3000, None)

# %%
# Probabilities
# -------------
#
# Probabilities are calibrated if, of all rows with a predicted probability of 0.3 for a class,
# three in ten are in that class.

model = OrderedLogit(classes=GRADES, random_state=0).fit(X[learn], labels[learn])
proba = model.predict_proba(X[new])
print(f"calibration error         {calibration_error(grade[new], proba, classes=GRADES):.3f}")
print(
    f"ranked probability score  {ranked_probability_score(grade[new], proba, classes=GRADES):.3f}"
)

# %%
# Ranges
# ------
#
# `PredictionRanges` sets aside a fifth of the rows to find out how far the true class can be from
# the score.

ranges = PredictionRanges(
    OrderedLogit(classes=GRADES, random_state=0), coverage=0.9, random_state=0
)
ranges.fit(X[learn], labels[learn])
report = ranges.coverage_report(X[new], grade[new])
print(f"range holds the grade     {report['exact']:.3f} of {len(grade[new])} new rows")

# %%
# Above: observed shares against predicted probabilities. Below: 60 new rows, sorted by score, each
# with its predicted range and its grade. Ranges are wide where the classes overlap.

figure, (above, below) = plt.subplots(2, 1, figsize=(8, 7), layout="constrained")
ReliabilityDisplay.from_estimator(model, X[new], grade[new], ax=above)

shown = np.sort(rng.choice(np.arange(3000, 6000), 60, replace=False))
shown = shown[np.argsort(ranges.estimator_.latent(X[shown]))]
rank = {name: number for number, name in enumerate(GRADES)}
low, high = np.vectorize(rank.get)(ranges.predict_range(X[shown])).T
actual = np.vectorize(rank.get)(grade[shown])
inside = (low <= actual) & (actual <= high)
below.vlines(np.arange(60), low - 0.2, high + 0.2, color="#9ecae1", lw=4)
below.plot(np.flatnonzero(inside), actual[inside], "o", color="#0072b2", ms=4, label="inside")
below.plot(np.flatnonzero(~inside), actual[~inside], "X", color="#d55e00", ms=7, label="outside")
below.set(yticks=range(4), yticklabels=GRADES, xlabel="rows, lowest score first")
below.set_title(f"Ranges for nine rows of ten: {inside.sum()} of 60 inside")
below.legend(loc="upper left")
plt.show()
