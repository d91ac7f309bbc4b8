"""
From a German questionnaire to a table and a figure
===================================================

People were asked for their net household income. The questionnaire had two versions, with wide and
with narrow brackets, handed out at random. The answers are text, as the survey firm delivered it:
"3.000 bis unter 4.500 €", "keine Angabe". Here is how to get from this file to the table and the
figure of a paper, first with the command, then in Python.

Data: simulated in this script, so that the true weights are known: 0.06 per year of schooling, 0.5
for the West, 0.03 per hour of work.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from pril import ColumnEncoder, OrderedLogit
from pril.inference import infer, likelihood_ratio
from pril.labels import bracket_names, find_edges, from_brackets
from pril.plotting import ForestDisplay

VERSIONS = [[1500, 3000, 4500], [2000, 3000, 6000]]  # edges of the brackets, in euros


def write(income, edges):
    """Return the bracket of an income, as it is printed in the questionnaire."""
    texts = [f"{edge:,}".replace(",", ".") for edge in edges]
    k = np.searchsorted(edges, income, side="right")
    if k == 0:
        return f"unter {texts[0]} €"
    if k == len(edges):
        return f"{texts[-1]} € und mehr"
    return f"{texts[k - 1]} bis unter {texts[k]} €"


rng = np.random.default_rng(1)
n = 1200
people = pd.DataFrame(
    {
        "Schuljahre": rng.integers(9, 19, n),
        "Wochenstunden": rng.normal(36, 9, n).clip(5).round(),
        "Region": rng.choice(["Ost", "West"], n, p=[0.25, 0.75]),
        "Groesse": rng.normal(172, 9, n).round(),  # in cm: says nothing about income
    }
)
score = 0.06 * people["Schuljahre"] + 0.5 * (people["Region"] == "West")
score += 0.03 * people["Wochenstunden"] + rng.logistic(size=n)
incomes = np.exp(7.05 + 0.35 * score)
version = rng.integers(0, 2, n)
people["Einkommen"] = [write(x, VERSIONS[v]) for x, v in zip(incomes, version, strict=True)]
people.loc[rng.random(n) < 0.06, "Einkommen"] = "keine Angabe"
people.head()

# %%
# The command
# -----------
#
# The file is written as German programs write it, with `;` between cells and a decimal comma.
# `--brackets` reads the texts, and `--decimal , --thousands .` says how numbers are written in it.
# To report numbers, learn from all rows, without a penalty: `--holdout 0 --set alpha=0`. The
# questionnaires were handed out at random. Say so, instead of letting the model choose how ranges
# arise: `--set coarsening=random`.

folder = tempfile.TemporaryDirectory()
people.to_csv(Path(folder.name) / "people.csv", sep=";", decimal=",", index=False)


def run(command):
    """Run a command in the folder, and print what it says."""
    name, *words = command.split()
    program = Path(sys.executable).with_name(name)
    options = {"cwd": folder.name, "capture_output": True, "text": True}
    done = subprocess.run([program, *words], **options, check=False)  # noqa: S603
    print(f"$ {command}\n{done.stdout}{done.stderr}")


run(
    "pril fit people.csv --delimiter ; --decimal , --thousands . --label Einkommen --brackets "
    "--holdout 0 --set alpha=0 --set coarsening=random -o income.pril"
)

# %%
# The table: weights with their standard errors, tests and 95 % intervals. Each is a change of the
# log odds of a higher income. The West is the most frequent region, so the East is compared with
# it. `--json` has all digits.

run("pril show income.pril --table")

# %%
# Python
# ------
#
# The same in Python, with the rows at hand: this allows McFadden's R², and the test whether weights
# are the same at each threshold.

answers = people["Einkommen"]
marks = {"decimal": ",", "thousands": "."}
edges = find_edges(answers, **marks)
y = from_brackets(answers, **marks)
answered = ~np.isnan(y[:, 0])
X, y = people.loc[answered].drop(columns="Einkommen"), y[answered]
print(bracket_names(edges))

model = make_pipeline(
    ColumnEncoder(), OrderedLogit(classes=range(len(edges) + 1), alpha=0.0, coarsening="random")
)
result = infer(model.fit(X, y), X, y)
print(result)

# %%
# For the paper, the table as LaTeX.

print(result.to_latex())

# %%
# Does the height matter? Compare the model with one that does not know it: the likelihood-ratio
# test.

small = X.drop(columns="Groesse")
print(likelihood_ratio(infer(model.fit(small, y), small, y), result))

# %%
# The figure: weights per standard deviation, so that they can be compared, and what a model of
# them says about people in the East and the West, with intervals.

model.fit(X, y)
figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained", width_ratios=[1.2, 1])
ForestDisplay.from_result(infer(model, per="sd"), ax=axes[0])
years = np.arange(9, 19)
colors = {"Ost": "#d55e00", "West": "#0072b2"}
for region, color in colors.items():
    new = pd.DataFrame(
        {"Schuljahre": years, "Wochenstunden": 36.0, "Region": region, "Groesse": 172.0}
    )
    found = result.probabilities(new)
    rich = len(edges)  # the highest class
    axes[1].plot(years, found.estimate[:, rich], color=color, label=region)
    axes[1].fill_between(
        years, found.lower[:, rich], found.upper[:, rich], color=color, alpha=0.2, linewidth=0
    )
axes[1].set(
    title=f"{edges[-1]:,.0f} € or more, 95 % intervals",
    xlabel="years of schooling",
    ylabel="probability",
    ylim=(0, None),
)
axes[1].legend(title="region")
plt.show()

# %%
# Weights are on the scale of log odds. What do they mean for the answers? The marginal effects: by
# how much the probability of each bracket changes, per unit, on average over these people.

folder.cleanup()
effects = result.marginal_effects().to_frame()
effects.pivot_table("estimate", "feature", "class").round(3)
