"""How often do intervals of 95 % hold the true numbers?

Data sets are drawn from an ordered logit with two numbers and a column of words, which are relative
to the most frequent word. Labels are exact, brackets of two questionnaires handed out at random, or
ranges of two classes that raters make by shared offsets: Type 1, or four in five up. A line has the
share of the data sets whose interval holds the true number, averaged over the terms of a kind, with
its standard error, and in brackets that of the term that is held least often. "unknown" counts data
sets whose errors the labels do not determine. Effects are mean marginal effects on probabilities.
Some 20 minutes each:

    OMP_NUM_THREADS=1 python benchmarks/interval_coverage.py
    OMP_NUM_THREADS=1 python benchmarks/interval_coverage.py --bootstrap --sets 100 --cases 0 2
"""

import argparse
import time
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit
from sklearn.pipeline import make_pipeline

from coarsening import upwards
from pril import ColumnEncoder, OrderedLogit
from pril.errors import InputError
from pril.evaluate import bootstrap
from pril.inference import infer
from pril.labels import make_intervals
from workloads import table

CUTS = np.array([-1.5, 0.0, 1.5])
SLOPES = np.array([1.0, -0.5])
WORDS = {"Oslo": (0.2, -0.5), "Paris": (0.5, 0.0), "Rome": (0.3, 1.0)}  # share and weight
SHARES, EFFECTS = np.array(list(WORDS.values())).T
FORMS = np.array([[[0, 1], [0, 1], [2, 3], [2, 3]], [[0, 0], [1, 2], [1, 2], [3, 3]]])
KINDS = ("number", "word", "threshold", "effect")


class Case(NamedTuple):
    """How labels are made, and what the model is told of it."""

    labels: str
    coarsening: str
    alpha: float


CASES = [
    Case("exact", "auto", 0.0),
    Case("exact", "auto", 0.3),
    Case("two questionnaires", "random", 0.0),
    Case("two questionnaires", "random", 0.3),
    Case("Type 1, a quarter exact", "offsets", 0.0),
    Case("Type 1, a quarter exact", "offsets", 0.3),
    Case("Type 1, a quarter exact", "auto", 0.0),
    Case("Type 1, none exact", "offsets", 0.3),
    Case("80 % up, a quarter exact", "auto", 0.0),
]


def draw(n, rng):
    """Return features, classes and scores."""
    X = rng.normal(size=(n, 2))
    word = rng.choice(len(WORDS), size=n, p=SHARES)
    score = X @ SLOPES + EFFECTS[word]
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(town=np.array(list(WORDS))[word])
    return frame, np.digitize(score + rng.logistic(size=n), CUTS), score


def coarsen(y, labels, rng):
    """Return labels as the case has them."""
    if labels == "exact":
        return np.column_stack([y, y])
    if labels == "two questionnaires":
        return FORMS[rng.integers(2, size=len(y)), y]
    share = 0.75 if labels.endswith("quarter exact") else 1.0
    seed = int(rng.integers(1 << 31))
    if labels.startswith("80 % up"):
        exact = np.column_stack([y, y])
        ranges = upwards(y, 4, seed)
        return np.where(rng.random(len(y))[:, np.newaxis] < share, ranges, exact)
    return make_intervals(y, 1, share, classes=range(4), random_state=seed)


def true_terms(score):
    """Return weights, thresholds and marginal effects, mean over rows with such scores."""
    weights = np.concatenate([SLOPES, EFFECTS])
    slopes = [np.mean(expit(cut - score) * expit(score - cut)) for cut in CUTS]
    per_score = -np.diff(slopes, prepend=0.0, append=0.0)
    return np.concatenate([weights, CUTS, np.outer(weights, per_score).ravel()])


def kinds_of_terms():
    """Return the kind of each term; none for those that are certain, of the reference."""
    words = ["word" if effect else "" for effect in EFFECTS]
    effects = ["effect"] * 8 + [word and "effect" for word in words for _ in range(4)]
    return np.array(["number", "number", *words, *["threshold"] * 3, *effects])


def by_curvature(model, frame, y, args):
    """Return the ends of the intervals that `infer` finds."""
    result = infer(model.fit(frame, y), level=args.level)
    effects = result.marginal_effects(frame)
    return np.hstack([result.interval, [effects.lower.ravel(), effects.upper.ravel()]])


def by_bootstrap(model, frame, y, args):
    """Return the same of `bootstrap`."""
    options = {"n_resamples": args.resamples, "level": args.level, "random_state": 0}
    return bootstrap(model, frame, y, **options).interval


def held(case, args):
    """Return for each data set and term whether the interval holds the true number."""
    inside, many = [], draw(1_000_000, np.random.default_rng(0))[2]
    for seed in range(args.sets):
        rng = np.random.default_rng(seed)
        frame, y, score = draw(args.rows, rng)
        truth = true_terms(many if args.bootstrap else score)  # `infer` takes rows as given
        options = case._asdict() | {"classes": range(4)}
        y = coarsen(y, options.pop("labels"), rng)
        # Numbers as they are, so that thresholds are those of a row whose numbers are zero.
        model = make_pipeline(ColumnEncoder(scale=False), OrderedLogit(**options))
        try:
            lower, upper = (by_bootstrap if args.bootstrap else by_curvature)(model, frame, y, args)
        except InputError:
            continue
        inside.append((lower <= truth) & (truth <= upper))
    return np.array(inside)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=500, help="number of data sets")
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--level", type=float, default=0.95)
    parser.add_argument("--bootstrap", action="store_true", help="instead of the curvature")
    parser.add_argument("--resamples", type=int, default=200, help="of the bootstrap")
    parser.add_argument("--cases", type=int, nargs="*", help="numbers of the cases, from 0")
    args = parser.parse_args()
    print(f"{args.level:g} intervals, {args.rows} rows, {args.sets} data sets\n", flush=True)
    kinds, lines = kinds_of_terms(), []
    for k in args.cases or range(len(CASES)):
        started, case = time.perf_counter(), CASES[k]
        inside = held(case, args)
        cells = []
        for kind in KINDS:
            own = inside[:, kinds == kind]
            by_set = own.mean(axis=1)
            error = by_set.std(ddof=1) / np.sqrt(len(own))
            lowest = own.mean(axis=0).min()
            cells.append(f"{by_set.mean():.3f} ± {error:.3f} ({lowest:.3f})")
        took = (time.perf_counter() - started) / args.sets
        print(f"{case}: {took:.2f} s a data set", flush=True)
        lines.append([*case[:2], f"{case.alpha:g}", *cells, str(args.sets - len(inside))])
    print()
    header = ["labels", "coarsening", "alpha", *(f"{kind}s" for kind in KINDS), "unknown"]
    table(header, lines)


if __name__ == "__main__":
    main()
