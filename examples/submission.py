"""A competition: learn from train.csv, choose parameters by kappa, write submission.csv.

Run: python examples/submission.py (needs the extra ``boosting``)
"""

import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score, make_scorer
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from pril import OrderedBoosting


def write_competition(folder, n=500):
    """Write what a competition hands out: rows with a quality from 3 to 7, and rows without."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n, 4)), columns=["acid", "sugar", "sulphur", "alcohol"])
    table["kind"] = rng.choice(["red", "white"], n)
    score = table["alcohol"] - np.abs(table["acid"]) + 0.5 * (table["kind"] == "red")
    table["quality"] = np.digitize(score + 0.3 * rng.logistic(size=n), [-2, -1, 0, 1]) + 3
    table.index.name = "id"
    table[: n // 2].to_csv(folder / "train.csv")
    table[n // 2 :].drop(columns="quality").to_csv(folder / "test.csv")
    return table["quality"][n // 2 :]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hidden = write_competition(folder)

        train = pd.read_csv(folder / "train.csv", index_col="id")
        test = pd.read_csv(folder / "test.csv", index_col="id")
        search = GridSearchCV(
            OrderedBoosting(max_iter=100, random_state=0),
            {"learning_rate": [0.05, 0.1]},
            scoring=make_scorer(cohen_kappa_score, weights="quadratic"),
            cv=StratifiedKFold(2, shuffle=True, random_state=0),
        )
        search.fit(train.drop(columns="quality"), train["quality"])
        print(f"kappa {search.best_score_:.2f} with {search.best_params_}")

        answers = pd.DataFrame({"quality": search.predict(test)}, index=test.index)
        answers.to_csv(folder / "submission.csv")
        print((folder / "submission.csv").read_text()[:30])
        print(f"kappa {cohen_kappa_score(hidden, answers['quality'], weights='quadratic'):.2f}")


if __name__ == "__main__":
    main()
