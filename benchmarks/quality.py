"""How good are the learners when 25 % of the labels are exact and 75 % are intervals?

Errors are those on exact labels. Abalone and Parkinsons are read from the folder PRIL_DATA, if it
is set. Two tables: the defaults of the paper's learners, and the learners of
`docs/guide/choosing.md` against others, which learn from the exact quarter of the labels, from
mid-points of the intervals, or from all exact labels.
"""

import os
import time
from pathlib import Path

import numpy as np
from mord import LogisticAT
from scipy.optimize import minimize
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_diabetes, load_wine
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import KFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler, StandardScaler

from pril import (
    MPRIL,
    PRIL,
    KernelPRIL,
    LandmarkFeatures,
    MulticlassPerceptron,
    OrderedBoosting,
    OrderedLogit,
    PRank,
    PredictionRanges,
    WidrowHoff,
)
from pril.labels import make_intervals
from pril.metrics import calibration_error, interval_log_loss, ranked_probability_score
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
    for rate in (0.01, 0.03, 0.05, 0.1, 0.3):
        yield f"MPRIL, rate={rate}", make_pipeline(bounded(), MPRIL(rate=rate, **known)), True
    yield "WidrowHoff", make_pipeline(standard(), WidrowHoff(**known)), True
    yield "MulticlassPerceptron", make_pipeline(standard(), MulticlassPerceptron(**known)), True
    yield "PRank, exact labels", make_pipeline(standard(), PRank(**known)), False
    yield "LogisticAT, exact labels", make_pipeline(standard(), LogisticAT()), False


def defaults():
    """Print how good the paper's learners are."""
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


# --- Comparison ----------------------------------------------------------------------------------


class CensoredLikelihood(ClassifierMixin, BaseEstimator):
    """The ordered logit by maximum likelihood of the intervals, all rows at once."""

    def fit(self, X, y):
        """Take ranks 0..K-1, as intervals, of which all occur."""
        (lo, hi), d = np.transpose(y), X.shape[1]
        self.classes_ = np.arange(hi.max() + 1)

        def thresholds(free):  # the first, and the logarithms of the steps
            inner = np.cumsum([free[0], *np.exp(free[1:])])
            return np.concatenate([[-np.inf], inner, [np.inf]])

        def loss(v):
            w, free = v[:d], v[d:]
            cut = thresholds(free)
            f = X @ w
            low, high = cut[lo] - f, cut[hi + 1] - f
            log_chance = log_expit(high) + log_expit(-low) + np.log(-np.expm1(low - high))
            a = 1 - expit(high) - expit(low)  # minus the slope by f
            by_cut = np.zeros(len(cut))
            for sign, end, at in ((1, high, hi + 1), (-1, low, lo)):
                slope = sign * np.exp(log_expit(end) + log_expit(-end) - log_chance)
                np.add.at(by_cut, at, np.where(np.isfinite(end), slope, 0.0))
            inner = np.cumsum(by_cut[1:-1][::-1])[::-1]  # a step moves all later thresholds
            by_free = np.concatenate([inner[:1], inner[1:] * np.exp(free[1:])])
            gradient = np.concatenate([w + X.T @ a, -by_free])
            return 0.5 * w @ w - log_chance.sum(), gradient

        start = np.zeros(d + len(self.classes_) - 1)
        start[d] = -1.0
        found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 500}).x
        self.coef_, self.cut_ = found[:d], thresholds(found[d:])
        return self

    def predict_proba(self, X):
        """Return the probabilities of the classes."""
        return np.diff(expit(self.cut_ - (X @ self.coef_)[:, np.newaxis]), axis=1)

    def predict(self, X):
        """Return the median classes."""
        return self.classes_[median(self.predict_proba(X))]


def median(proba):
    """Return the median class: it has the least expected absolute error."""
    return np.minimum((np.cumsum(proba, axis=1) < 0.5).sum(axis=1), proba.shape[1] - 1)


def comparison_sets():
    """Yield name, features and exact ranks."""
    folder = Path(os.environ.get("PRIL_DATA", ""))
    for name, X, y in data_sets():
        if name in ("Abalone", "Parkinsons"):
            yield name, X, y
        if name == "Parkinsons":  # without the other score of the same visit
            header = (folder / "parkinsons_updrs.data").read_text().partition("\n")[0].split(",")
            names = [column for k, column in enumerate(header) if k not in (0, 5)]
            yield "Parkinsons, no motor", np.delete(X, names.index("motor_UPDRS"), axis=1), y
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 10))
    score = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2] + X[:, 3] + 0.3 * rng.logistic(size=4000)
    yield "synthetic", X, np.digitize(score, np.quantile(score, FIFTHS))


def contestants(classes, seed):
    """Return name, estimator, and which labels it learns from."""
    known = {"classes": classes, "random_state": seed}
    landmarks = LandmarkFeatures(random_state=seed)
    boosting = HistGradientBoostingClassifier(random_state=seed)
    quality = OrderedLogit(alpha=3.0, **known)
    more = LandmarkFeatures(600, random_state=seed)
    yield "PRIL", PRIL(**known), "ranges"
    yield "PRIL, landmarks", make_pipeline(landmarks, PRIL(**known)), "ranges"
    yield "OrderedLogit", OrderedLogit(**known), "ranges"
    yield "OrderedLogit, landmarks", make_pipeline(landmarks, OrderedLogit(**known)), "ranges"
    yield "OrderedLogit, 600, alpha 3", make_pipeline(more, quality), "ranges"
    yield "OrderedBoosting", OrderedBoosting(n_jobs=2, **known), "ranges"
    yield "OrderedBoosting, all exact", OrderedBoosting(n_jobs=2, **known), "all exact"
    yield "KernelPRIL", KernelPRIL(**known), "ranges"
    yield "maximum likelihood", CensoredLikelihood(), "ranges"
    yield "boosting, posterior", boosting, "posterior"
    for labels in ("exact quarter", "mid-points", "all exact"):
        yield f"LogisticAT, {labels}", LogisticAT(), labels
        yield f"boosting, {labels}", boosting, labels


def training_rows(labels, X, y, intervals, seed):
    """Return the rows, labels and weights that a contestant learns from."""
    lo, hi = intervals.T
    if labels == "ranges":
        return X, intervals, None
    if labels == "exact quarter":
        return X[lo == hi], lo[lo == hi], None
    if labels == "mid-points":  # of two classes, one by chance
        return X, (lo + hi + np.random.default_rng(seed).integers(0, 2, len(X))) // 2, None
    if labels == "all exact":
        return X, y, None
    classes = np.unique(y)
    front = LandmarkFeatures(random_state=seed).fit(X)
    learner = OrderedLogit(classes=classes, random_state=seed).fit(front.transform(X), intervals)
    weights = learner.posterior(front.transform(X), intervals)
    row, rank = np.nonzero(weights > 0.01)
    return X[row], classes[rank], weights[row, rank]


def compare(seeds):
    """Print errors and the quality of probabilities, against LogisticAT on all exact labels."""
    for name, X, y in comparison_sets():
        classes, results = np.unique(y), {}
        for seed in range(seeds):
            for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
                scaler = StandardScaler().fit(X[train])
                rows, new = scaler.transform(X[train]), scaler.transform(X[test])
                for kind in (1, 2):
                    intervals = make_intervals(
                        y[train], kind, 0.75, classes=classes, random_state=seed
                    )
                    for learner, model, labels in contestants(classes, seed):
                        start = time.perf_counter()
                        data = training_rows(labels, rows, y[train], intervals, seed)
                        weighted = {} if data[2] is None else {"sample_weight": data[2]}
                        model.fit(*data[:2], **weighted)
                        seconds = time.perf_counter() - start
                        measured = measure(model, new, y[test], classes)
                        results.setdefault((learner, kind), []).append([*measured, seconds])
        means = {key: np.mean(values, axis=0) for key, values in results.items()}
        best = {kind: means["LogisticAT, all exact", kind][0] for kind in (1, 2)}
        print(f"### {name}: {seeds} x 5 folds, Type 1 / Type 2 intervals\n")
        lines = []
        for learner in dict.fromkeys(learner for learner, _ in means):
            pair = [means[learner, kind] for kind in (1, 2)]
            cells = [[m[0], m[0] / best[k], *m[1:]] for k, m in zip((1, 2), pair, strict=True)]
            lines.append([learner, *(shown(*both) for both in zip(*cells, strict=True))])
        head = ["error", "over LogisticAT", "log-loss", "RPS", "calibration", "seconds"]
        table(["learner", *head], lines)


def measure(model, X, y, classes):
    """Return absolute error, log-loss, RPS and calibration error; NaN without probabilities."""
    if not hasattr(model, "predict_proba"):
        return [np.abs(model.predict(X) - y).mean(), np.nan, np.nan, np.nan]
    proba = np.zeros((len(X), len(classes)))  # a class may have no row to learn from
    proba[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(X)
    metrics = (interval_log_loss, ranked_probability_score, calibration_error)
    return [
        np.abs(classes[median(proba)] - y).mean(),
        *(metric(y, proba, classes=classes) for metric in metrics),
    ]


def shown(one, other):
    return "-" if np.isnan(one) else f"{one:.3f} / {other:.3f}"


def no_exact_labels(seeds):
    """Print the error over that of LogisticAT if every label is an interval."""
    print("### No exact label at all: error over LogisticAT's, Type 1 / Type 2\n")
    lines = []
    for name, X, y in comparison_sets():
        classes, errors = np.unique(y), []
        for seed in range(seeds):
            for train, test in KFold(5, shuffle=True, random_state=seed).split(X):
                scaler = StandardScaler().fit(X[train])
                rows, new = scaler.transform(X[train]), scaler.transform(X[test])
                exact = LogisticAT().fit(rows, y[train])
                for kind in (1, 2):
                    intervals = make_intervals(y[train], kind, 1.0, random_state=seed)
                    known = {"classes": classes, "random_state": seed}
                    fitted = [cls(**known).fit(rows, intervals) for cls in (PRIL, OrderedLogit)]
                    errors.append(
                        [np.abs(m.predict(new) - y[test]).mean() for m in (exact, *fitted)]
                    )
        means = [np.mean(errors[k::2], axis=0) for k in (0, 1)]
        cells = [shown(*(mean[i] / mean[0] for mean in means)) for i in (1, 2)]
        lines.append([name, *cells])
    table(["data", "PRIL", "OrderedLogit"], lines)


def coverage(splits):
    """Print what prediction ranges with a coverage of 0.9 hold, and how wide they are."""
    print(f"### Ranges with coverage 0.9: shares and mean width, {splits} splits\n")
    lines = []
    for name, X, y in comparison_sets():
        classes = np.unique(y)
        for guarantee in ("exact", "contain", "touch"):
            reports = []
            for seed in range(splits):
                order = np.random.default_rng(seed).permutation(len(X))
                train, test = np.split(order, [len(X) * 4 // 5])
                both = make_intervals(y, 1, 0.75, classes=classes, random_state=seed)
                model = make_pipeline(
                    StandardScaler(), OrderedLogit(classes=classes, random_state=seed)
                )
                ranges = PredictionRanges(model, guarantee=guarantee, random_state=seed)
                ranges.fit(X[train], both[train])
                report, truth = (ranges.coverage_report(X[test], of[test]) for of in (both, y))
                reports.append(
                    [truth["exact"], report["contain"], report["touch"], report["mean_width"]]
                )
            means, errors = np.mean(reports, axis=0), np.std(reports, axis=0) / np.sqrt(splits)
            cells = [f"{m:.3f} ± {e:.3f}" for m, e in zip(means[:3], errors[:3], strict=True)]
            lines.append([name, guarantee, *cells, f"{means[3]:.2f}"])
    head = ["has the class", "has the label", "touches the label", "width"]
    table(["data", "guarantee", *head], lines)


def coverage_by_class(splits):
    """Print what ranges for all rows together, and ranges for each class, hold of each class."""
    print(f"### Ranges with coverage 0.9 by class, {splits} splits\n")
    lines = []
    for name, X, y in comparison_sets():
        y = np.minimum(y, 8)  # the highest class of Parkinsons has too few rows
        classes = np.unique(y)
        for by in (None, "class"):
            reports = []
            for seed in range(splits):
                order = np.random.default_rng(seed).permutation(len(X))
                train, test = np.split(order, [len(X) * 4 // 5])
                both = make_intervals(y, 1, 0.75, classes=classes, random_state=seed)
                model = make_pipeline(
                    StandardScaler(), OrderedLogit(classes=classes, random_state=seed)
                )
                ranges = PredictionRanges(model, by=by, calibration_size=0.4, random_state=seed)
                ranges.fit(X[train], both[train])
                report = ranges.coverage_report(X[test], y[test], by="class")
                shares = [part["exact"] for part in report["groups"].values()]
                reports.append([report["exact"], *shares, report["mean_width"]])
            means, errors = np.mean(reports, axis=0), np.std(reports, axis=0) / np.sqrt(splits)
            worst = 1 + int(np.argmin(means[1:-1]))
            cells = [f"{means[k]:.3f} ± {errors[k]:.3f}" for k in (0, worst)]
            lines.append([name, by or "all rows", *cells, f"{means[-1]:.2f}"])
    table(["data", "guaranteed for", "has the class", "least of any class", "width"], lines)


def main(seeds=3):
    """Print the tables."""
    defaults()
    compare(seeds)
    no_exact_labels(seeds)
    coverage(50)
    coverage_by_class(50)


if __name__ == "__main__":
    main()
