"""Rate flats from a DataFrame with words, gaps and answers such as "good or great".

Run: python examples/text_columns.py (needs the extra ``boosting``)
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, cross_val_score

from pril import OrderedBoosting
from pril.labels import from_strings
from pril.metrics import neg_interval_absolute_error_scorer

GRADES = ["poor", "fair", "good", "great"]


def make_flats(n=400):
    """Return a table as people keep it: words, missing cells, and ratings as text."""
    rng = np.random.default_rng(0)
    heating = rng.choice(["gas", "oil", "district", None], n)
    flats = pd.DataFrame({"rooms": rng.integers(1, 7, n), "heating": heating})
    flats["town"] = rng.choice(["Bonn", "Oslo", "Rome"], n)
    rank = np.digitize(
        flats["rooms"] + 2 * (flats["town"] == "Oslo") + rng.logistic(size=n), [2, 4, 6]
    )
    unsure = rng.random(n) < 0.6
    low = np.clip(rank - rng.integers(0, 2, n), 0, 2)
    flats["rating"] = [
        f"{GRADES[a]} or {GRADES[a + 1]}" if vague else GRADES[k]
        for a, k, vague in zip(low, rank, unsure, strict=True)
    ]
    return flats


def main():
    flats = make_flats()
    X, y = flats.drop(columns="rating"), from_strings(flats["rating"], classes=GRADES)
    model = OrderedBoosting(classes=GRADES, max_iter=50, random_state=0)
    scoring = neg_interval_absolute_error_scorer
    error = -cross_val_score(model, X, y, cv=KFold(3), scoring=scoring).mean()
    print(f"off by {error:.2f} classes on rows that were not learned")

    model.fit(X, y)
    print(model.coarsening_)
    print(pd.Series(model.feature_importances_, model.feature_names_in_).round(2).to_string())
    new = pd.DataFrame({"rooms": [5, 2], "heating": ["gas", None], "town": ["Oslo", "Paris"]})
    chances = pd.DataFrame(model.predict_proba(new), columns=model.classes_)[GRADES]
    print(chances.assign(prediction=model.predict(new)).round(2))


if __name__ == "__main__":
    main()
