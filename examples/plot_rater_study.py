"""
Who is lenient? A rater study
=============================

Four radiologists grade 300 scans, and not all of them see every scan. How well do they agree? Who
is lenient, and by how much? What drives the grade, and how likely is a severe one?

Data: simulated in this script, so that it is known how strict each of them is.
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from pril import ColumnEncoder, OrderedLogit, Pipeline
from pril.inference import infer
from pril.labels import krippendorff_alpha, krippendorff_interval

GRADES = ["normal", "mild", "moderate", "severe"]
STRICT = pd.Series({"ann": 0.0, "bob": 0.8, "eve": -0.9, "kim": -0.2})
rng = np.random.default_rng(2)
scans = pd.DataFrame(
    {
        "lesion_mm": rng.gamma(3.0, 4.0, 300),
        "density": rng.normal(0.0, 1.0, 300),
        "age": rng.integers(30, 85, 300).astype(float),  # says nothing
    }
)
severity = 0.25 * scans["lesion_mm"] + 0.8 * scans["density"] + rng.normal(0.0, 0.7, 300)
seen = severity.to_numpy()[:, np.newaxis] + STRICT.to_numpy() + rng.logistic(size=(300, 4))
votes = pd.DataFrame(
    np.array(GRADES, dtype=object)[np.digitize(seen, [1.5, 3.0, 5.0])], columns=STRICT.index
).where(rng.random((300, 4)) < 0.8, None)
votes.head()

# %%
# How well do they agree?
# -----------------------

alpha = krippendorff_alpha(votes, classes=GRADES)
lower, upper = krippendorff_interval(votes, classes=GRADES, random_state=0)
print(f"Krippendorff's alpha: {alpha:.2f}, 95 % interval {lower:.2f} to {upper:.2f}")

# %%
# Who is lenient, and what drives the grade?
# ------------------------------------------
#
# Each vote is a row, and the rater is a column. The votes on one scan are alike, so the errors are
# clustered by scan. A rater's weight is how much higher the grades are than those of the rater with
# the most votes. If an interval contains zero, the study does not show an effect.

rows = votes.melt(ignore_index=False, var_name="rater", value_name="grade").dropna().join(scans)
X, scan = rows[["rater", *scans.columns]], rows.index
model = Pipeline(
    [("encode", ColumnEncoder()), ("learn", OrderedLogit(classes=GRADES, alpha=0.0))]
).fit(X, rows["grade"])
result = infer(model, X, rows["grade"], groups=scan)
print(result)

# %%
# How strict each rater is, with 95 % intervals, beside the truth; and how likely each is to call a
# lesion moderate or severe.

others = ["bob", "eve", "kim"]  # compared with ann
found = result.to_frame().set_index("feature").loc[[f"rater={name}" for name in others]]
figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained", width_ratios=[1, 1.3])
axes[0].errorbar(found["estimate"], others, xerr=1.96 * found["std_error"], fmt="o")
axes[0].plot(STRICT[others], others, "x", color="#d55e00", ms=9, label="truth")
axes[0].axvline(0, color="grey", lw=0.8)
axes[0].set(title="grades higher than ann, log odds", ylim=(-0.6, 2.6))
axes[0].legend()

sizes = np.linspace(1, 30, 40)
for name, style in zip(STRICT.index, ("-", "--", ":", "-."), strict=True):
    new = pd.DataFrame({"rater": name, "lesion_mm": sizes, "density": 0.0, "age": 60.0})
    chances = result.numbers(new, {"moderate or severe": [0, 0, 1, 1]})
    axes[1].plot(sizes, chances.estimate, style, label=name)
    axes[1].fill_between(sizes, chances.lower[:, 0], chances.upper[:, 0], alpha=0.15, linewidth=0)
axes[1].set(title="moderate or severe", xlabel="lesion, mm", ylabel="probability", ylim=(0, 1))
axes[1].legend(title="rater")
plt.show()
