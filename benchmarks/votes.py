"""Several raters vote on each row: which label should a learner get?

The range of all votes, the middle half of them, their median (of an even number, the range of the
two in the middle), or every vote as a row of its own with the weight 1 / votes. Errors are mean
absolute errors in classes, over that of the median vote: geometric means over data sets and seeds,
with standard errors over data sets.

Simulated raters each have a bias and a noise of their own. Models are tested on rows nobody rated,
against the true class. Real raters are those of LEV, SWD and ERA, which come with skordinal: rows
with equal features are one case. There, models are tested on votes of other raters on the same
cases. Abalone and Parkinsons are read from the folder PRIL_DATA, if it is set. Three minutes:

    python benchmarks/votes.py --seeds 3 --learners logit
"""

import argparse

import numpy as np
import skordinal.datasets
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import StandardScaler

from pril import OrderedBoosting, OrderedLogit
from pril.labels import from_votes
from quality import FIFTHS, comparison_sets
from workloads import table

N_RATERS = (2, 3, 4, 5, 9)
TRIMS = {"range": 0.0, "middle half": 0.25, "median": 0.5}
WAYS = ("one vote", *TRIMS, "every vote")
POOL = 20  # simulated raters
BIAS, NOISE = 0.5, 0.8  # in classes; the noise of a rater is up to twice or half as much
LEAST_VOTES = 12  # on a real case
LEARNERS = {
    "logit": lambda **known: OrderedLogit(**known),
    "boosting": lambda **known: OrderedBoosting(n_folds=4, n_jobs=1, **known),
}


# --- Votes ---------------------------------------------------------------------------------------


def simulated_votes(y, n_classes, n_raters, rng):
    """Return votes of raters drawn for each row from a pool."""
    bias = BIAS * rng.normal(size=POOL)
    noise = NOISE * 2.0 ** rng.uniform(-1, 1, size=POOL)
    raters = rng.random((len(y), POOL)).argsort(axis=1)[:, :n_raters]
    seen = y[:, np.newaxis] + bias[raters] + noise[raters] * rng.normal(size=raters.shape)
    return np.clip(np.rint(seen), 0, n_classes - 1).astype(int)


def simulated_sets():
    """Yield name, features and true ranks."""
    for name, X, y in comparison_sets():
        if name != "Parkinsons":  # the one with the other score of the same visit
            yield name, X, y
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, np.digitize(y, np.quantile(y, FIFTHS))


def real_sets():
    """Yield name, features of cases, and a list of the votes on each."""
    for name in ("lev", "swd", "era"):
        X, y = getattr(skordinal.datasets, f"load_{name}")(return_X_y=True)
        X, y = np.asarray(X, dtype=float), np.unique(y, return_inverse=True)[1]
        features, case = np.unique(X, axis=0, return_inverse=True)
        votes = [y[case == k] for k in range(len(features))]
        many = [k for k, cast in enumerate(votes) if len(cast) >= LEAST_VOTES]
        yield name.upper(), features[many], [votes[k] for k in many]


# --- Learning ------------------------------------------------------------------------------------


def labelled(way, X, votes, n_classes):
    """Return rows, labels and weights."""
    n_rows, n_raters = votes.shape
    if way == "every vote":
        rows = np.repeat(X, n_raters, axis=0)
        return rows, votes.ravel(), np.full(votes.size, 1.0 / n_raters)
    if way == "one vote":
        return X, votes[:, 0], np.ones(n_rows)
    return X, from_votes(votes, classes=range(n_classes), trim=TRIMS[way]), np.ones(n_rows)


def predict(learner, way, X, votes, n_classes, new, seed):
    """Learn from votes, and return the predicted ranks of new rows."""
    scaler = StandardScaler().fit(X)
    rows, y, weight = labelled(way, scaler.transform(X), votes, n_classes)
    model = LEARNERS[learner](classes=range(n_classes), random_state=seed)
    return model.fit(rows, y, sample_weight=weight).predict(scaler.transform(new))


def simulated_errors(X, y, learner, cap, seed):
    """Return the error against the true class, for each number of raters and way."""
    rng, n_classes = np.random.default_rng(seed), int(y.max()) + 1
    order = rng.permutation(len(X))
    train, test = order[: min(cap, len(X) // 2)], order[len(X) // 2 :][:2000]
    votes = simulated_votes(y[train], n_classes, max(N_RATERS), rng)
    return [
        [
            np.abs(predict(learner, way, X[train], part, n_classes, X[test], seed) - y[test]).mean()
            for way in WAYS
        ]
        for part in (votes[:, :n] for n in N_RATERS)
    ]


def real_errors(X, votes, learner, seed):
    """Return the error against votes of other raters, for each number of raters and way."""
    rng, n_classes = np.random.default_rng(seed), 1 + max(cast.max() for cast in votes)
    shuffled = [rng.permutation(cast) for cast in votes]
    result = []
    for n in N_RATERS:
        seen = np.array([cast[:n] for cast in shuffled])
        errors = []
        for way in WAYS:
            rank = predict(learner, way, X, seen, n_classes, X, seed)
            pairs = zip(rank, shuffled, strict=True)
            errors.append(np.mean([np.abs(cast[max(N_RATERS) :] - k).mean() for k, cast in pairs]))
        result.append(errors)
    return result


# --- Results -------------------------------------------------------------------------------------


def show(title, names, found):
    """Print errors over the median's: a row for each set, and their mean."""
    print(f"### {title}: error over that of the median vote\n")
    logs = np.log(found)  # (sets, seeds, numbers of raters, ways)
    ratios = logs - logs[..., [WAYS.index("median")]]
    others = [k for k, way in enumerate(WAYS) if way != "median"]
    for k in others:
        by_set = ratios[..., k].mean(axis=1)
        rows = zip(names, by_set, strict=True)
        lines = [[name, *(f"{np.exp(part):.3f}" for part in row)] for name, row in rows]
        error = by_set.std(axis=0, ddof=1) / np.sqrt(len(by_set))
        mean = np.exp(by_set.mean(axis=0))
        lines.append(["all", *(f"{m:.3f} ± {m * e:.3f}" for m, e in zip(mean, error, strict=True))])
        print(f"{WAYS[k]}\n")
        table(["set", *map(str, N_RATERS)], lines)
    median = np.exp(logs[..., WAYS.index("median")].mean(axis=(0, 1)))
    print("median vote, in classes: " + ", ".join(f"{part:.3f}" for part in median) + "\n")


def main():
    """Read the arguments and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--learners", nargs="+", choices=LEARNERS, default=list(LEARNERS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--cap", type=int, default=600, help="most rows to learn from")
    asked = parser.parse_args()
    simulated, real = list(simulated_sets()), list(real_sets())
    for name, X, _ in real:
        print(f"{name}: {len(X)} cases with {LEAST_VOTES} votes or more")
    print()
    for learner in asked.learners:
        seeds = range(asked.seeds)
        found = [
            [simulated_errors(X, y, learner, asked.cap, seed) for seed in seeds]
            for _, X, y in simulated
        ]
        show(f"{learner}, simulated raters", [name for name, *_ in simulated], found)
        found = [[real_errors(X, votes, learner, seed) for seed in seeds] for _, X, votes in real]
        show(f"{learner}, real raters", [name for name, *_ in real], found)


if __name__ == "__main__":
    main()
