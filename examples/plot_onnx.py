"""
From notebook to ONNX
=====================

Turn a model that you fitted in a notebook into a file that a web service or a phone can run
without Python: fit it, save it, export it, and check that it gives the same answers.

Data: flats and the grades that two raters give them, simulated in this script.
"""

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import pandas as pd
from sklearn.pipeline import make_pipeline

import pril
from pril import ColumnEncoder, OrderedLogit
from pril.labels import from_votes
from pril.onnx import to_onnx

GRADES = ["poor", "fair", "good", "great"]
rng = np.random.default_rng(0)
flats = pd.DataFrame(
    {
        "built": rng.integers(1890, 2024, 1000).astype(float),
        "light": rng.uniform(0, 10, 1000),
        "heating": rng.choice(["gas", "coal", "none"], 1000),
    }
)
quality = (flats["built"] - 1950) / 40 + flats["light"] / 3 - 1.5 * (flats["heating"] == "none")
opinion = quality.to_numpy()[:, np.newaxis] + rng.logistic(scale=0.4, size=(1000, 2))
votes = np.array(GRADES)[np.digitize(opinion, [-0.2, 1.6, 3.4])]

# %%
# Fit and save
# ------------
#
# `ColumnEncoder` scales numbers and one-hot encodes words. A ``.pril`` file contains only data, no
# pickle, so loading it runs no code.

model = make_pipeline(ColumnEncoder(), OrderedLogit(classes=GRADES, random_state=0))
model.fit(flats, from_votes(votes, classes=GRADES))
folder = Path(tempfile.mkdtemp())
pril.save(model, folder / "flats.pril")
model = pril.load(folder / "flats.pril")

# %%
# Export
# ------
#
# The whole pipeline becomes one ONNX graph, with one named input for each column.

(folder / "flats.onnx").write_bytes(to_onnx(model).SerializeToString())
for file in sorted(folder.iterdir()):
    print(f"{file.name}: {file.stat().st_size / 1000:.1f} kB")

# %%
# Run it without pril
# -------------------

session = onnxruntime.InferenceSession(folder / "flats.onnx")
print("inputs ", [value.name for value in session.get_inputs()])
print("outputs", [value.name for value in session.get_outputs()])


def answer(table):
    """Return what the file says of a table: classes, and the probability of each."""
    columns = {name: table[[name]].to_numpy() for name in table}
    return session.run(["label", "probabilities"], columns)


label, proba = answer(flats)
np.testing.assert_array_equal(label, model.predict(flats))
np.testing.assert_allclose(proba, model.predict_proba(flats), atol=1e-6)
print("largest difference: ", f"{np.abs(proba - model.predict_proba(flats)).max():.0e}")

# %%
# The probabilities of the grades for flats with medium light, by year and heating, computed from
# the ONNX file. Its columns are those of `predict_proba`, in the order of `classes_`:

columns = np.searchsorted(model.classes_, GRADES)  # from the lowest grade to the highest
years = np.linspace(1890, 2023, 100)
figure, axes = plt.subplots(1, 3, figsize=(10, 3.8), layout="constrained", sharey=True)
for ax, heating in zip(axes, ["none", "coal", "gas"], strict=True):
    table = pd.DataFrame({"built": years, "light": 5.0, "heating": heating})
    colors = plt.get_cmap("viridis")(np.linspace(0.1, 0.95, 4))
    ax.stackplot(years, answer(table)[1].T[columns], labels=GRADES, colors=colors)
    ax.set(title=f"heating: {heating}", xlabel="built", xlim=(1890, 2023), ylim=(0, 1))
axes[0].set_ylabel("probability")
handles, names = axes[-1].get_legend_handles_labels()
axes[-1].legend(
    handles[::-1], names[::-1], loc="center left", bbox_to_anchor=(1, 0.5), frameon=False
)
plt.show()
