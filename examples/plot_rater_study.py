"""
A rater study, from votes to a figure
=====================================

Four radiologists grade 300 scans, and not all of them see every scan. How well do they agree? What
drives the grade, and how sure can you be of that? Which grade would a new scan get?

Data: simulated in this script.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import OrderedLogit
from pril.evaluate import bootstrap
from pril.labels import from_votes, krippendorff_alpha, krippendorff_interval
from pril.plotting import plot_bootstrap

GRADES = ["normal", "mild", "moderate", "severe"]
rng = np.random.default_rng(0)
scans = pd.DataFrame(
    {
        "lesion_mm": rng.gamma(3.0, 4.0, 300),
        "density": rng.normal(0.0, 1.0, 300),
        "age": rng.integers(30, 85, 300).astype(float),
    }
)
severity = 0.25 * scans["lesion_mm"] + 0.8 * scans["density"]
seen = severity.to_numpy()[:, np.newaxis] + rng.logistic(scale=0.7, size=(300, 4))
votes = pd.DataFrame(
    np.array(GRADES, dtype=object)[np.digitize(seen, [1.5, 3.0, 5.0])],
    columns=["ann", "bob", "eve", "kim"],
).where(rng.random((300, 4)) < 0.8, None)
votes.head()

# %%
# How well do they agree?
# -----------------------

alpha = krippendorff_alpha(votes, classes=GRADES)
lower, upper = krippendorff_interval(votes, classes=GRADES, random_state=0)
print(f"Krippendorff's alpha: {alpha:.2f}, 95 % interval {lower:.2f} to {upper:.2f}")

# %%
# What drives the grade?
# ----------------------
#
# The label of a scan is the range from its lowest to its highest vote. The bootstrap repeats the
# whole fit on 100 samples of the scans. If an interval contains zero, the study does not show an
# effect of that feature. Here, that is the case for the age.

y = from_votes(votes, classes=GRADES)
model = make_pipeline(StandardScaler(), OrderedLogit(classes=GRADES, random_state=0)).fit(scans, y)
result = bootstrap(model, scans, y, n_resamples=100, random_state=0)
print(result)

# %%
# The weights, per standard deviation of a feature, and the probability of each grade by the size of
# the lesion.

figure, axes = plt.subplots(1, 2, figsize=(9.5, 4), layout="constrained")
plot_bootstrap(result, per="sd", ax=axes[0])
sizes = np.linspace(1, 30, 100)
new = pd.DataFrame({"lesion_mm": sizes, "density": 0.0, "age": 60.0})
chances = pd.DataFrame(model.predict_proba(new), columns=model.classes_)[GRADES]
colors = plt.get_cmap("viridis")(np.linspace(0.1, 0.95, 4))
axes[1].stackplot(sizes, chances.T, labels=GRADES, colors=colors)
axes[1].set(title="probability of each grade", xlabel="lesion, mm", xlim=(1, 30), ylim=(0, 1))
axes[1].legend(loc="lower left", reverse=True)
plt.show()
