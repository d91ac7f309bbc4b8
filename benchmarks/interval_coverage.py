"""How often do the intervals of `evaluate.bootstrap` hold the true numbers?

Data sets are drawn from an ordered logit with two numbers and a column of words, once with exact
labels and once with ranges of Type 1. Each line has the share of the data sets whose interval holds
the true number, with its standard error, averaged over the terms of a kind; "lowest" is the term
that is held least often. Words are relative to their mean. Some ten minutes:

    python benchmarks/coverage.py
"""

import argparse
import warnings

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.pipeline import make_pipeline

from pril import ColumnEncoder, OrderedLogit
from pril.evaluate import bootstrap
from pril.labels import make_intervals
from workloads import table

CUTS = np.array([-1.5, 0.0, 1.5])
SLOPES = np.array([1.0, -0.5])
WORDS = {"Oslo": (0.2, 0.0), "Paris": (0.5, 0.5), "Rome": (0.3, 1.5)}  # share and effect
SHARES, EFFECTS = np.array(list(WORDS.values())).T
RANGES = {"exact": 0.0, "ranges": 0.75}  # share of the labels that become ranges


def draw(n, rng):
    """Return features and classes."""
    X = rng.normal(size=(n, 2))
    word = rng.choice(len(WORDS), size=n, p=SHARES)
    score = X @ SLOPES + EFFECTS[word]
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(town=np.array(list(WORDS))[word])
    return frame, np.digitize(score + rng.logistic(size=n), CUTS), score


def true_terms():
    """Return weights, thresholds and mean marginal effects, in the order of `BootstrapResult`."""
    mean = SHARES @ EFFECTS
    weights = np.concatenate([SLOPES, EFFECTS - mean])
    score = draw(1_000_000, np.random.default_rng(0))[2]
    slopes = [np.mean(expit(cut - score) * expit(score - cut)) for cut in CUTS]
    per_score = -np.diff(slopes, prepend=0.0, append=0.0)
    return np.concatenate([weights, CUTS - mean, np.outer(weights, per_score).ravel()])


def held(share, args):
    """Return for each data set and term whether the interval holds the true number, and terms."""
    truth, inside = true_terms(), []
    for seed in range(args.sets):
        frame, y, _ = draw(args.rows, np.random.default_rng(seed))
        y = make_intervals(y, fraction=share, classes=range(4), random_state=seed)
        learner = OrderedLogit(classes=range(4))
        model = make_pipeline(ColumnEncoder(), learner)
        result = bootstrap(model, frame, y, n=args.samples, level=args.level, random_state=seed)
        lower, upper = result.interval
        inside.append((lower <= truth) & (truth <= upper))
    return np.array(inside), result.terms


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=200, help="number of data sets")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--samples", type=int, default=100, help="of the bootstrap")
    parser.add_argument("--level", type=float, default=0.95)
    args = parser.parse_args()
    warnings.simplefilter("error")
    lines = []
    for name, share in RANGES.items():
        inside, terms = held(share, args)
        for kind in ("weight", "word", "threshold", "effect"):
            own = [
                ("word" if term == "weight" and "=" in feature else term) == kind
                for term, feature, _ in terms
            ]
            by_set = inside[:, own].mean(axis=1)
            error = by_set.std(ddof=1) / np.sqrt(args.sets)
            lowest = inside[:, own].mean(axis=0).min()
            lines.append([name, kind, f"{by_set.mean():.3f}", f"{error:.3f}", f"{lowest:.3f}"])
    print(f"{args.level:g} intervals, {args.rows} rows, {args.sets} data sets\n")
    table(["labels", "term", "held", "standard error", "lowest"], lines)


if __name__ == "__main__":
    main()
