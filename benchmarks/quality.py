"""How good are the defaults when 25 % of the labels are exact and 75 % are intervals?

Errors are those on exact labels. For comparison, PRank and mord's LogisticAT learn from all exact
labels. Abalone and Parkinsons are read from the folder PRIL_DATA, if it is set.
"""

import os
from pathlib import Path

import numpy as np
from mord import LogisticAT
from sklearn.datasets import load_diabetes, load_wine
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from pril import MPRIL, PRIL, MulticlassPerceptron, PRank, WidrowHoff
from pril.labels import make_intervals
from workloads import table

FIFTHS = np.arange(1, 5) / 5


def data_sets():
    """Yield name, features and exact ranks."""
    folder = Path(os.environ.get("PRIL_DATA", ""))
    if (folder / "abalone.data").exists():
        raw = np.genfromtxt(folder / "abalone.data", delimiter=",", dtype=str)
        sex = (raw[:, :1] == ["M", "F", "I"]).astype(float)
        yield (
            "Abalone",
            np.hstack([sex, raw[:, 1:8].astype(float)]),
            np.digitize(raw[:, 8].astype(int), [8, 10, 13]),
        )
    if (folder / "parkinsons_updrs.data").exists():
        raw = np.genfromtxt(folder / "parkinsons_updrs.data", delimiter=",", skip_header=1)
        target = np.digitize(raw[:, 5], np.linspace(7, 55, 11)[1:-1])
        yield "Parkinsons", np.delete(raw, [0, 5], axis=1), target
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, np.digitize(y, np.quantile(y, FIFTHS))
    X, y = load_wine(return_X_y=True)
    yield "wine", X, y
    rng = np.random.default_rng(0)
    for d, relevant in ((20, 5), (500, 5)):
        X = rng.uniform(-1, 1, (2000, d))
        score = X[:, :relevant] @ rng.choice([-1, 1], relevant) + 0.1 * rng.normal(size=2000)
        yield f"{relevant} of {d} features", X, np.digitize(score, np.quantile(score, FIFTHS))


def learners(classes, seed):
    """Return name, pipeline and whether it takes intervals."""
    known = {"classes": classes, "random_state": seed}
    standard, bounded = StandardScaler, MaxAbsScaler
    yield "PRIL", make_pipeline(standard(), PRIL(**known)), True
    yield "PRIL, last iterate", make_pipeline(standard(), PRIL(average=False, **known)), True
    for eta in (0.01, 0.03, 0.05, 0.1, 0.3):
        yield f"MPRIL, eta={eta}", make_pipeline(bounded(), MPRIL(eta=eta, **known)), True
    yield "WidrowHoff", make_pipeline(standard(), WidrowHoff(**known)), True
    yield "MulticlassPerceptron", make_pipeline(standard(), MulticlassPerceptron(**known)), True
    yield "PRank, exact labels", make_pipeline(standard(), PRank(**known)), False
    yield "LogisticAT, exact labels", make_pipeline(standard(), LogisticAT()), False


def main():
    """Print the table."""
    print("### Mean absolute error in ranks, 5 folds, 3 seeds, Type 1 / Type 2 intervals\n")
    sets = list(data_sets())
    errors = {}
    for name, X, y in sets:
        classes = np.unique(y)
        for seed in range(3):
            for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
                for kind in (1, 2):
                    intervals = make_intervals(
                        y[train], kind, 0.75, classes=classes, random_state=seed
                    )
                    for learner, model, takes_intervals in learners(classes, seed):
                        model.fit(X[train], intervals if takes_intervals else y[train])
                        error = np.abs(model.predict(X[test]) - y[test]).mean()
                        errors.setdefault((learner, name, kind), []).append(error)
    rows = [
        [learner]
        + [
            " / ".join(f"{np.mean(errors[learner, name, k]):.3f}" for k in (1, 2))
            for name, *_ in sets
        ]
        for learner in dict.fromkeys(key[0] for key in errors)
    ]
    table(["learner", *(name for name, *_ in sets)], rows)


if __name__ == "__main__":
    main()
