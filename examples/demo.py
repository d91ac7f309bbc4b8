"""Learn to grade flats from what disagreeing raters said, and see how good it is.

Three raters look at a flat, each may skip it; their lowest and highest vote make a range. The
models learn from 400 ranges and are judged on 400 flats whose exact grade they never saw.
"""

import argparse
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("agg")

from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import PRIL, OrderedLogit, PredictionRanges
from pril.labels import from_votes
from pril.metrics import interval_absolute_error
from pril.plotting import ScoreAxisDisplay

GRADES = ["poor", "fair", "good", "great"]
FEATURES = ["built", "last refit", "damp spots", "light"]


def make_flats(n, rng):
    """Return features, exact grades, and a table of votes with gaps."""
    built = rng.integers(1890, 2024, n)
    refit = np.maximum(built, rng.integers(1970, 2024, n))
    damp = rng.poisson(1.0, n)
    light = rng.uniform(0, 10, n)
    quality = (built - 1950) / 60 + (refit - 1995) / 12 - 0.9 * damp + light / 3
    quality += rng.normal(0, 0.3, n)
    rank = np.digitize(quality, [0.0, 2.0, 4.0])
    votes = np.clip(rank[:, np.newaxis] + rng.choice([-1, 0, 1], (n, 3), p=[0.2, 0.6, 0.2]), 0, 3)
    votes = np.array(GRADES, dtype=object)[votes]
    votes[rng.random((n, 3)) < 0.2] = None
    return np.column_stack([built, refit, damp, light]), np.array(GRADES)[rank], votes


def main():
    """Run the demo."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("output"), help="folder of the picture")
    folder = parser.parse_args().output

    rng = np.random.default_rng(7)
    X, _, votes = make_flats(400, rng)
    X_new, grades, _ = make_flats(400, rng)
    y = from_votes(votes, classes=GRADES)

    print("Three raters, the range they span:")
    for row in range(5):
        said = ", ".join(str(vote or "-") for vote in votes[row])
        lower, upper = y[row]
        spoken = "no label" if lower is None else lower if lower == upper else f"{lower} to {upper}"
        print(f"  {said:<20} ->  {spoken}")
    exact = y[:, 0] == y[:, 1]
    print(f"{len(y)} flats to learn from, {exact.sum()} with one grade, the others with a range.\n")

    def fitted(learner, rows):
        return make_pipeline(StandardScaler(), learner).fit(X[rows], y[rows])

    everything = np.full(len(y), True)
    model = fitted(PRIL(classes=GRADES, random_state=0), everything)
    logit = fitted(OrderedLogit(classes=GRADES, random_state=0), everything)
    only = fitted(OrderedLogit(classes=GRADES, random_state=0), exact)
    pril = model[-1]
    print("PRIL learned a score, and thresholds that cut it into grades:")
    print("  classes     ", " < ".join(pril.order_))
    print("  thresholds  ", "  ".join(f"{threshold:.1f}" for threshold in pril.thresholds_))
    for name, weight in zip(FEATURES, pril.coef_, strict=True):
        print(f"  {'weight of ' + name:<22}{weight:7.1f}")

    print(f"\nOn {len(X_new)} flats with exact grades, never seen:")
    common = max(GRADES, key=list(grades).count)
    for name, predicted in (
        ("PRIL on all the ranges", model.predict(X_new)),
        ("OrderedLogit on all the ranges", logit.predict(X_new)),
        ("OrderedLogit on exact grades only", only.predict(X_new)),
        (f"always '{common}'", np.full(len(X_new), common)),
    ):
        error = interval_absolute_error(grades, predicted, classes=GRADES)
        print(f"  {name:<34} right {np.mean(predicted == grades):4.0%}, off by {error:.2f} grades")

    # The scaler is part of the model, and the ranges of predictions are around all of it.
    ranges = PredictionRanges(logit, coverage=0.9, random_state=0).fit(X, y)
    lower, upper = ranges.predict_range(X_new).T
    inside = [
        GRADES.index(low) <= GRADES.index(grade) <= GRADES.index(high)
        for low, grade, high in zip(lower, grades, upper, strict=True)
    ]
    print("\nOrderedLogit also says how sure it is, and which range to expect:")
    print("  " + "".join(f"{grade:>7}" for grade in GRADES) + "   range, 90 %      truth")
    for row, chances in enumerate(logit.predict_proba(X_new[:4])):
        spoken = lower[row] if lower[row] == upper[row] else f"{lower[row]} to {upper[row]}"
        chance = dict(zip(logit.classes_, chances, strict=True))
        shown = "".join(f"{chance[grade]:7.0%}" for grade in GRADES)
        print(f"  {shown}   {spoken:<16} {grades[row]}")
    print("  built to contain 90 % of the raters' grades (raters err too);")
    print(f"  here they contain {np.mean(inside):.0%} of the true grades")

    folder.mkdir(parents=True, exist_ok=True)
    ax = ScoreAxisDisplay.from_estimator(pril, model[:-1].transform(X), y).ax_
    ax.set_title("What each flat's range allows, and what PRIL says", pad=26)
    ax.figure.savefig(folder / "demo.png", dpi=150)
    print(f"\nPicture: {folder / 'demo.png'}")


if __name__ == "__main__":
    main()
