"""How good are learners from ranges that were made in various ways, with few or no exact labels?

Error and log-loss on exact labels never seen, over those of LogisticAT on all exact labels:
geometric means over data sets, with standard errors. Type 1 and Type 2 satisfy exactly what shared
offsets assume; the others do not. "over at random" compares with the same learner and
``coarsening="random"``, set by set. "all exact" compares ``OrderedBoosting`` with the boosting of
other packages, on every exact label and with their defaults: install ordboost, ogboost and catboost
for all rows; those that are missing are left out.

Abalone and Parkinsons are read from the folder PRIL_DATA, if it is set; the other sets come with
scikit-learn, statsmodels, skordinal and river. The defaults take hours. Two minutes:

    python benchmarks/coarsening.py --cap 300 --folds 1 --sets esl lev diabetes --exact 0 0.02
"""

import argparse
import importlib
from functools import partial
from importlib.resources import files

import numpy as np
import pandas as pd
import skordinal.datasets
import statsmodels.api as sm
from mord import LogisticAT
from sklearn.base import BaseEstimator
from sklearn.datasets import load_diabetes, load_iris, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from pril import PRIL, LandmarkFeatures, OrderedBoosting, OrderedLogit
from pril.labels import make_intervals
from quality import FIFTHS, comparison_sets, measure, training_rows
from workloads import table

# --- Data ----------------------------------------------------------------------------------------


def fifths(values):
    """Return ranks of five equal parts."""
    return np.digitize(values, np.unique(np.quantile(values, FIFTHS)))


def ranked(X, y):
    """Return features as numbers, and ranks without gaps."""
    return np.asarray(X, dtype=float), np.unique(y, return_inverse=True)[1]


def data_sets():
    """Return functions that load features and exact ranks, by name."""
    shipped = {name: (lambda X=X, y=y: (X, y)) for name, X, y in comparison_sets()}
    shipped.pop("Parkinsons", None)  # the one with the other score of the same visit
    loaders = {
        name.removeprefix("load_"): getattr(skordinal.datasets, name)
        for name in ("load_esl", "load_lev", "load_swd", "load_era", "load_balance_scale")
    }

    def survey(name, target, *left_out):
        frame = getattr(sm.datasets, name).load_pandas().data
        return frame.drop(columns=[target, *left_out]), frame[target]

    def schools():
        frame = sm.datasets.star98.load_pandas().data
        share = frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"])
        return frame.iloc[:, 2:14], fifths(share)

    def chicks():
        frame = pd.read_csv(files("river.datasets") / "chick-weights.csv")
        return pd.get_dummies(frame[["time", "diet"]], columns=["diet"]), fifths(frame["weight"])

    def doctors():
        X, visits = survey("randhie", "mdvis")
        return X, np.digitize(visits, [1, 2, 4, 7])

    def bodies():
        X, y = load_diabetes(return_X_y=True)
        return X, fifths(y)

    return {
        **shipped,
        **{name: (lambda load=load: load(return_X_y=True)) for name, load in loaders.items()},
        "diabetes": bodies,
        "wine": lambda: load_wine(return_X_y=True),
        "iris": lambda: load_iris(return_X_y=True),
        "chicks": chicks,
        "schools": schools,
        "party": lambda: survey("anes96", "PID", "vote"),
        "marriage": lambda: survey("fair", "rate_marriage"),
        "doctors": doctors,
    }


# --- Ways to make ranges -------------------------------------------------------------------------


def type_1(y, n_classes, seed):
    """Give the class and one of its neighbours, either equally often."""
    return make_intervals(y, 1, 1.0, classes=range(n_classes), random_state=seed)


def type_2(y, n_classes, seed):
    """Give the class and both of its neighbours."""
    return make_intervals(y, 2, 1.0, classes=range(n_classes), random_state=seed)


def upwards(y, n_classes, seed, share=0.8):
    """Give the class and, in a share of the rows, the one above it; else the one below."""
    low = y - (np.random.default_rng(seed).random(len(y)) >= share)
    low = np.clip(low, 0, n_classes - 2)
    return np.column_stack([low, low + 1])


def always_upwards(y, n_classes, seed):
    """Give the class and the one above it."""
    return upwards(y, n_classes, seed, share=1.0)


def random_brackets(y, n_classes, seed):
    """Cut the scale into parts of 2 or 3 classes, for each row anew, and give the class's part."""
    rng, ranges = np.random.default_rng(seed), []
    for rank in y:
        ends = np.array([-1])
        while ends[-1] != n_classes:
            ends = np.cumsum([0, *rng.integers(2, 4, size=n_classes // 2 + 1)])
            ends = ends[: np.searchsorted(ends, n_classes) + 1]
        k = np.searchsorted(ends, rank, side="right")
        ranges.append([ends[k - 1], ends[k] - 1])
    return np.array(ranges)


def three_raters(y, n_classes, seed):
    """Give the lowest and the highest of three ratings that differ; 40 % are one class off."""
    rng = np.random.default_rng(seed)
    ranges = np.tile(y[:, np.newaxis], 2)
    while (again := np.flatnonzero(ranges[:, 0] == ranges[:, 1])).size:
        off = rng.choice([-1, 0, 1], p=[0.2, 0.6, 0.2], size=(len(again), 3))
        votes = np.clip(y[again, np.newaxis] + off, 0, n_classes - 1)
        ranges[again] = np.column_stack([votes.min(axis=1), votes.max(axis=1)])
    return ranges


def fixed_pairs(y, n_classes, seed):
    """Give a bracket of a questionnaire: two neighbouring classes, at the top perhaps three."""
    low = y // 2 * 2
    low = np.where(low == n_classes - 1, max(low.max() - 2, 0), low)
    high = np.where(low + 2 == n_classes - 1, low + 2, np.minimum(low + 1, n_classes - 1))
    return np.column_stack([low, high])


# Those that nobody tuned anything on: what does it cost to believe in offsets wrongly?


def by_class(y, n_classes, seed, to_middle):
    """Give the class and a neighbour, for 85 % of the rows the one towards the middle, or away."""
    is_usual = np.random.default_rng(seed).random(len(y)) < 0.85
    is_up = ((y < (n_classes - 1) / 2) == to_middle) == is_usual
    low = np.clip(np.where(is_up, y, y - 1), 0, n_classes - 2)
    return np.column_stack([low, low + 1])


def any_ends(y, n_classes, seed):
    """Give any range that contains the class."""
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(0, y + 1), rng.integers(y, n_classes)])


def inspections(y, n_classes, seed):
    """Cut the scale at two places, for each row anew, and give the class's part."""
    cuts = np.sort(np.random.default_rng(seed).integers(1, n_classes, size=(len(y), 2)), axis=1)
    edges = np.pad(cuts, [(0, 0), (1, 1)], constant_values=((0, 0), (0, n_classes)))
    part = (y[:, np.newaxis] >= cuts).sum(axis=1)[:, np.newaxis] + [0, 1]
    return np.take_along_axis(edges, part, axis=1) - [0, 1]


def two_forms(y, n_classes, seed):
    """Give a bracket of one of two questionnaires, which are handed out in turns."""
    rng, ranges = np.random.default_rng(seed), np.empty((len(y), 2), dtype=int)
    for form in range(2):
        edges = np.concatenate([[0], 1 + np.flatnonzero(rng.random(n_classes - 1) < 0.5)])
        edges, own = np.append(edges, n_classes), slice(form, None, 2)
        part = np.searchsorted(edges, y[own], side="right")
        ranges[own] = np.column_stack([edges[part - 1], edges[part] - 1])
    return ranges


def noisy_pairs(y, n_classes, seed):
    """Give the class and a neighbour, but one label in twenty is about any other class."""
    rng = np.random.default_rng(seed)
    said = np.where(rng.random(len(y)) < 0.05, rng.integers(0, n_classes, len(y)), y)
    return upwards(said, n_classes, seed + 1, share=0.5)


def two_raters(y, n_classes, seed):
    """Give the lower and the higher of two ratings, which may be equal, or both wrong."""
    noise = np.random.default_rng(seed).normal(0.0, 0.8, size=(len(y), 2))
    votes = np.clip(y[:, np.newaxis] + np.rint(noise).astype(int), 0, n_classes - 1)
    return np.sort(votes, axis=1)


WAYS = {
    "Type 1": type_1,
    "Type 2": type_2,
    "80 % up": upwards,
    "always up": always_upwards,
    "random brackets": random_brackets,
    "three raters": three_raters,
    "fixed pairs": fixed_pairs,
    "to the middle": partial(by_class, to_middle=True),
    "outwards": partial(by_class, to_middle=False),
    "any ends": any_ends,
    "inspections": inspections,
    "two forms": two_forms,
    "noisy pairs": noisy_pairs,
    "two raters": two_raters,
}


def landmark_logit(**options):
    """Return an ordered logit on landmark features."""
    return make_pipeline(LandmarkFeatures(random_state=0), OrderedLogit(alpha=3.0, **options))


class WithoutRanges(BaseEstimator):
    """Gradient boosting on what is left without ranges: their mid-points, or the exact rows."""

    def __init__(self, labels, classes, random_state):
        self.labels, self.classes, self.random_state = labels, classes, random_state

    def fit(self, X, intervals):
        """Learn from the rows that can be used; from a single class, nothing can be learned."""
        rows, y, _ = training_rows(self.labels, X, None, intervals, self.random_state)
        self.model_ = HistGradientBoostingClassifier(random_state=self.random_state)
        if len(np.unique(y)) > 1:
            self.model_.fit(rows, y)
        return self.model_


LEARNERS = {
    "boosting": (OrderedBoosting, {}),
    "boosting, at random": (OrderedBoosting, {"coarsening": "random"}),
    "logit": (OrderedLogit, {}),
    "logit, at random": (OrderedLogit, {"coarsening": "random"}),
    "landmarks": (landmark_logit, {}),
    "PRIL": (PRIL, {}),
    "boosting on mid-points": (partial(WithoutRanges, "mid-points"), {}),
    "boosting on exact rows": (partial(WithoutRanges, "exact quarter"), {}),
}

ALL_EXACT = "all exact"

# Class, and what makes it quiet, repeatable and use one core.
BOOSTERS = {
    "boosting": ("pril.OrderedBoosting", {}),
    "HistGradientBoosting": ("sklearn.ensemble.HistGradientBoostingClassifier", {}),
    "LightGBM": ("lightgbm.LGBMClassifier", {"n_jobs": 1, "verbose": -1}),
    "CatBoost": (
        "catboost.CatBoostClassifier",
        {"thread_count": 1, "verbose": 0, "allow_writing_files": False},
    ),
    "ordboost": ("ordboost.OrdBoostClassifier", {"n_jobs": 1}),
    "ogboost": ("ogboost.GradientBoostingOrdinal", {}),
}


def installed_boosters():
    """Return the boosters that can be imported, by name."""
    found = {}
    for name, (path, options) in BOOSTERS.items():
        module, _, kind = path.rpartition(".")
        try:
            found[name] = partial(getattr(importlib.import_module(module), kind), **options)
        except ModuleNotFoundError:
            print(f"{name} left out: {module} is not installed", flush=True)
    return found


# --- Measuring -----------------------------------------------------------------------------------


def measured(X, y, learners, ways, shares, boosters, cap, n_folds, seed):
    """Return errors and log-losses over LogisticAT's, by learner, way and share, for each fold."""
    classes, found = np.arange(y.max() + 1), {}
    for train, test in list(KFold(5, shuffle=True, random_state=seed).split(X))[:n_folds]:
        rng = np.random.default_rng(seed)
        train = rng.permutation(train)[:cap]
        scaler = StandardScaler().fit(X[train])
        rows, new = scaler.transform(X[train]), scaler.transform(X[test])
        exact = measure(LogisticAT().fit(rows, y[train]), new, y[test], classes)
        # Without a mistake, half of one: a geometric mean takes no zeros.
        least = [0.5 / len(test), 0.0]

        def add(key, model, least=least, exact=exact, new=new, test=test):
            found_nothing = not hasattr(model, "classes_")
            result = [np.nan] * 2 if found_nothing else measure(model, new, y[test], classes)[:2]
            ratio = np.maximum(result, least) / np.maximum(exact[:2], least)
            found.setdefault(key, []).append(ratio)

        for name, booster in boosters.items():
            add((name, ALL_EXACT), booster(random_state=seed).fit(rows, y[train]))
        for way in ways:
            for share in shares:
                labels = WAYS[way](y[train], len(classes), seed)
                shown = rng.permutation(len(train))[: round(share * len(train))]
                labels[shown] = y[train][shown, np.newaxis]
                for learner in learners:
                    kind, options = LEARNERS[learner]
                    model = kind(classes=classes, random_state=seed, **options).fit(rows, labels)
                    add((learner, way, share), model)
    return found


def mean_and_error(logs):
    """Return the geometric mean over sets, and its standard error."""
    mean = np.exp(np.mean(logs))
    return mean, mean * np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan


def show(results, learners, ways, shares):
    """Print a table for each learner and measure: a row for each way, a column for each share."""
    for learner in learners:
        baseline = f"{learner}, at random"
        compared = [("", None), *([(" over at random", baseline)] if baseline in learners else [])]
        for k, name in enumerate(("error", "log-loss")):
            if np.isnan(results[0][learner, ways[0], shares[-1]][0][k]):
                continue  # PRIL has no probabilities
            for title, other in compared:
                print(f"### {learner}: {name}{title}, by share of exact labels\n")
                lines = []
                for way in ways:
                    cells = []
                    for share in shares:
                        logs = [
                            np.mean(np.log(found[learner, way, share])[:, k])
                            - (np.mean(np.log(found[other, way, share])[:, k]) if other else 0.0)
                            for found in results
                        ]
                        cells.append("{:.3f} ± {:.3f}".format(*mean_and_error(logs)))
                    lines.append([way, *cells])
                table(["ranges", *(f"{share:.0%}" for share in shares)], lines)


def show_boosters(results, names, boosters):
    """Print a table of boosters on all exact labels, and one of their errors set by set."""
    print(f"### {ALL_EXACT}: error and log-loss\n")
    logs = {b: [np.log(found[b, ALL_EXACT]).mean(axis=0) for found in results] for b in boosters}
    cell = "{:.3f} ± {:.3f}".format
    means = {b: [cell(*mean_and_error(column)) for column in np.transpose(logs[b])] for b in logs}
    table(["learner", "error", "log-loss"], [[b, *means[b]] for b in boosters])
    print("### error, set by set\n")
    lines = [
        [name, *(f"{np.exp(logs[b][k][0]):.2f}" for b in boosters)] for k, name in enumerate(names)
    ]
    table(["set", *boosters], lines)


def main():
    """Read the arguments and print the tables."""
    sets = data_sets()
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", nargs="+", choices=sets, default=list(sets))
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, ALL_EXACT], default=[*WAYS, ALL_EXACT])
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--exact", nargs="+", type=float, default=[0.0, 0.02, 0.25])
    parser.add_argument("--cap", type=int, default=600, help="most rows to learn from")
    parser.add_argument("--folds", type=int, default=3, help="folds to test on, of 5")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    boosters = installed_boosters() if ALL_EXACT in asked.ways else {}
    ways = [way for way in asked.ways if way != ALL_EXACT]
    results = []
    for name in asked.sets:
        found = measured(
            *ranked(*sets[name]()),
            *(asked.learners, ways, asked.exact, boosters, asked.cap, asked.folds, asked.seed),
        )
        print(f"{name} done", flush=True)
        results.append(found)
    print()
    if ways:
        show(results, asked.learners, ways, asked.exact)
    if boosters:
        show_boosters(results, asked.sets, boosters)


if __name__ == "__main__":
    with threadpool_limits(1, "openmp"):
        main()
