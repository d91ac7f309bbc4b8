"""OrderedBoosting: gradient boosting learned from ranges."""

import copy
import ctypes
import json
import math
import os
import pickle
import re
import threading
import warnings
import zipfile
from itertools import product

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_selection import RFE, SelectFromModel
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

import pril
import reference
from pril import (
    OrderedBoosting,
    PredictionRanges,
)
from pril.core.scikit import openmp_threads
from pril.core.threads import n_threads
from pril.labels import make_intervals
from pril.learners.boosting import compiled, cross_fitting, folds, forest_engine, starts

lightgbm = pytest.importorskip("lightgbm", reason="pip install 'pril[boosting]'")

QUICK = {"max_iter": 4, "random_state": 0}
THOROUGH = {"max_iter": 30, "random_state": 0}  # to see what trees learn
PROGRESS = (
    r"round (?P<round>\d+) of at most \d+: held-out loss (?P<loss>[\d.]+), "
    r"best (?P<lowest>[\d.]+) \(round (?P<best>\d+)\), (?P<rest>.*)"
)


def table(n=300, K=4, seed=0, kind=1):
    """Return features, exact ranks of a curved score, and ranges around three quarters of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    score = np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + 0.2 * rng.logistic(size=n)
    y = np.digitize(score, np.quantile(score, np.arange(1, K) / K))
    return X, y, make_intervals(y, kind, 0.75, classes=range(K), random_state=seed)


@pytest.fixture(scope="module")
def model():
    X, _, ranges = table()
    return OrderedBoosting(classes=range(4), **QUICK).fit(X, ranges)


OTHER_FOLDS = "a row of weight two is in one fold, two rows may be in two"


@pytest.mark.filterwarnings("ignore::pril.labels.ClassOrderWarning", "ignore:n_folds")
@parametrize_with_checks(
    [OrderedBoosting(max_iter=4, decision="mode")],  # scikit-learn wants the likeliest class
    expected_failed_checks=lambda _: {"check_sample_weight_equivalence_on_dense_data": OTHER_FOLDS},
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# --- The algorithm ---


@pytest.mark.parametrize("coarsening", ["random", "offsets"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("has_landmarks", [False, True])
def test_it_is_its_slow_twin(weighted, coarsening, has_landmarks, monkeypatch):
    """With few distinct values LightGBM's bins hold one each, so that its splits are exact."""
    if not has_landmarks:  # as in a table of many rows
        monkeypatch.setattr(starts, "LANDMARK_ROWS", 0)
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 2)).round(1) * [1.0, 7.0]
    y = np.digitize(np.abs(X[:, 0]) + 0.02 * X[:, 1] + 0.2 * rng.logistic(size=60), [0.4, 1.0])
    ranges = make_intervals(y, 1, 0.6, classes=range(3), random_state=0)
    weight = rng.uniform(0.2, 2.0, size=60) if weighted else np.ones(60)
    weight /= weight.mean()
    order = np.random.RandomState(5).permutation(60)
    fold = np.empty(60, dtype=int)
    fold[order] = np.arange(60) % 3
    begun = []
    make_plan = cross_fitting.make_plan
    monkeypatch.setattr(
        cross_fitting, "make_plan", lambda *a: begun.append(make_plan(*a)) or begun[-1]
    )
    model = OrderedBoosting(
        max_iter=8, n_iter_no_change=8, max_leaf_nodes=2, n_folds=3, min_samples_leaf=1,
        random_state=5, classes=range(3), coarsening=coarsening,
    ).fit(X, ranges, weight if weighted else None)  # fmt: skip
    plan, fit_start = begun[0]
    known, start = fit_start.labelling, plan.scores.astype(float)
    assert model.coarsening_.mechanism == coarsening
    assert len(known.phi) == {"random": 0, "offsets": 4}[coarsening]
    losses = model.validation_loss_
    rounds = reference.ordered_boosting(
        ranges, weight, fold, start, known.theta, known.phi, X,
        rounds=len(losses), rate=0.1, l2=1.0, trust=30, sample=plan.shown,
    )  # fmt: skip
    logliks = np.array([loglik for loglik, *_ in rounds])
    np.testing.assert_allclose(losses - losses[0], (logliks[0] - logliks) / 60, atol=1e-5)
    assert model.n_iter_ == np.argmax(logliks) + 1
    _, theta, phi, added = rounds[model.n_iter_ - 1]
    kinds, group = np.unique(ranges, axis=0, return_inverse=True)
    q = reference.offset_chances(phi if len(phi) else np.zeros(4), kinds, 3)
    joint = (q if len(phi) else q > 0)[group] * model.predict_proba(X)
    expected = joint / joint.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.posterior(X, ranges), expected, atol=1e-4)
    if not has_landmarks:  # else models without pairs of folds score the rows of other folds
        score = start.mean(axis=0) + added.mean(axis=0)
        margins = model.thresholds_ - model.latent(X)[:, np.newaxis]
        np.testing.assert_allclose(margins, theta - score[:, np.newaxis], atol=1e-4)


@pytest.mark.parametrize("kind", [1, 2])
def test_ranges_alone_teach_the_classes(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(1500, 3))
    y = np.digitize(X @ [2.0, -1.0, 0.0] + 0.5 * rng.logistic(size=1500), [-2, -0.5, 1, 2.5])
    ranges = make_intervals(y[:500], kind, 1.0, classes=range(5), random_state=0)
    models = {
        name: OrderedBoosting(classes=range(5), coarsening=name, **THOROUGH)
        for name in ("auto", "offsets", "random")
    }
    for name in ("auto", "offsets"):
        models[name].fit(X[:500], ranges)
    with pytest.warns(UserWarning, match="no label is exact"):
        models["random"].fit(X[:500], ranges)
    errors = {name: np.abs(m.predict(X[500:]) - y[500:]).mean() for name, m in models.items()}
    exact = OrderedBoosting(**THOROUGH).fit(X[:500], y[:500])
    assert max(errors["auto"], errors["offsets"]) < {1: 0.9, 2: 1.0}[kind] * errors["random"]
    assert errors["auto"] < 1.2 * np.abs(exact.predict(X[500:]) - y[500:]).mean()
    found = models["auto"].coarsening_
    assert found.mechanism == "offsets"
    assert found.evidence > 0
    expected = {(0, 1): 0.5, (1, 0): 0.5} if kind == 1 else {(1, 1): 1.0}
    assert all(
        found.shares[offset] == pytest.approx(expected.get(offset, 0), abs=0.2)
        for offset in found.shares
    )
    found = models["random"].coarsening_
    assert (found.mechanism, found.shares, found.evidence) == ("random", {}, None)


def test_posterior_knows_the_ends_of_the_scale():
    """Of rows of the lowest class, all are given {0, 1}; of the next one, half of them."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(800, 2))
    y = np.digitize(X @ [2.0, -1.0] + 0.5 * rng.logistic(size=800), [-2, 0, 2])
    ranges = make_intervals(y, 1, 1.0, classes=range(4), random_state=0)
    model = OrderedBoosting(classes=range(4), **THOROUGH).fit(X, ranges)
    odds = model.posterior(X, [(0, 1)] * 800)[:, 0] / model.posterior(X, [(0, 1)] * 800)[:, 1]
    proba = model.predict_proba(X)
    np.testing.assert_allclose(odds / (proba[:, 0] / proba[:, 1]), 2.0, rtol=0.15)


def test_the_number_of_folds():
    X, y, _ = table(10_000)
    for n, expected in ((9_999, 8), (10_000, 4)):
        model = OrderedBoosting(max_iter=1, random_state=0).fit(X[:n], y[:n])
        assert len(model.memory_.forest.size) == expected
    asked = OrderedBoosting(max_iter=1, n_folds=3, random_state=0).fit(X[:100], y[:100])
    assert len(asked.memory_.forest.size) == 3


def test_thresholds_are_ordered_and_the_first_losses_fall():
    X, _, ranges = table(5000)
    model = OrderedBoosting(classes=range(4), n_folds=2, max_iter=5, random_state=0).fit(X, ranges)
    assert (np.diff(model.thresholds_) >= 0).all()
    assert (np.diff(model.validation_loss_) < 0).all()


def test_the_best_round_is_kept():
    X, _, ranges = table(200)
    full = OrderedBoosting(classes=range(4), learning_rate=1.0, random_state=0)
    full.fit(X, ranges)
    best = full.n_iter_
    assert best == np.argmin(full.validation_loss_) + 1
    assert len(full.validation_loss_) == best + 20
    cut = clone(full).set_params(max_iter=best).fit(X, ranges)
    np.testing.assert_array_equal(cut.latent(X), full.latent(X))
    np.testing.assert_array_equal(cut.thresholds_, full.thresholds_)


@pytest.mark.parametrize("seed", [1, 2, 6, 7])
def test_no_tree_is_from_after_the_best_round(seed):
    """Rows are so few that boosters find no split in many rounds, and one later."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(16, 1))
    y = np.abs(X[:, 0]) + 0.3 * rng.normal(size=16) > 0.7
    full = OrderedBoosting(
        min_samples_leaf=5, n_folds=2, max_iter=200, n_iter_no_change=200, random_state=0
    )
    full.fit(X, y)
    assert full.n_iter_ < 200
    cut = clone(full).set_params(max_iter=full.n_iter_).fit(X, y)
    np.testing.assert_array_equal(cut.latent(X), full.latent(X))


def test_ranges_teach_more_than_their_exact_quarter():
    X, y, ranges = table(800, kind=2)
    rows, truth, _ = table(2000, seed=1)
    known = ranges[:, 0] == ranges[:, 1]
    from_ranges = OrderedBoosting(classes=range(4), random_state=0).fit(X, ranges)
    from_exact = clone(from_ranges).fit(X[known], y[known])
    errors = [np.abs(m.predict(rows) - truth).mean() for m in (from_ranges, from_exact)]
    assert errors[0] < 0.95 * errors[1]


def test_all_labels_exact_it_is_no_worse_than_boosting_without_order():
    X, y, _ = table(1500)
    rows, truth, _ = table(2000, seed=1)
    ours = OrderedBoosting(random_state=0).fit(X, y).predict(rows)
    other = HistGradientBoostingClassifier(random_state=0).fit(X, y).predict(rows)
    assert np.abs(ours - truth).mean() < np.abs(other - truth).mean()


class Given(np.random.RandomState):
    """Draws the order that it is given."""

    def __init__(self, order):
        super().__init__(0)
        self.order = order

    def permutation(self, n):
        return self.order


def test_permuting_rows_and_folds_alike_changes_nothing():
    X, _, ranges = table(300)
    order = np.random.default_rng(1).permutation(300)
    move = np.random.default_rng(2).permutation(300)  # row i of the new table is row move[i]
    moved = np.argsort(move)[order]
    learner = OrderedBoosting(classes=range(4), max_iter=15)
    one = clone(learner).set_params(random_state=Given(order)).fit(X, ranges)
    other = clone(learner).set_params(random_state=Given(moved)).fit(X[move], ranges[move])
    np.testing.assert_allclose(other.latent(X), one.latent(X), atol=1e-3)
    np.testing.assert_allclose(other.thresholds_, one.thresholds_, atol=1e-3)


def test_the_scale_of_weights_does_not_matter():
    X, _, ranges = table(300)
    weight = np.random.default_rng(0).uniform(0.1, 3, size=300)
    learner = OrderedBoosting(classes=range(4), **QUICK)
    one, ten = (clone(learner).fit(X, ranges, weight * c).latent(X) for c in (1, 8))
    np.testing.assert_array_equal(one, ten)
    assert not np.allclose(one, clone(learner).fit(X, ranges).latent(X), atol=0.01)


def test_rows_without_label_or_weight_change_nothing():
    X, _, ranges = table(300)
    more = np.insert(X, [7, 200], 50.0, axis=0)
    labels = np.insert(ranges.astype(float), [7, 200], [[np.nan] * 2, [3, 3]], axis=0)
    weight = np.insert(np.ones(300), [7, 200], [1.0, 0.0])
    learner = OrderedBoosting(classes=range(4), **QUICK)
    one = clone(learner).fit(X, ranges)
    other = clone(learner).fit(more, labels, weight)
    np.testing.assert_array_equal(one.latent(X), other.latent(X))


def test_threads_change_no_bit(model):
    X, _, ranges = table()
    for n_jobs in (1, 2, 5):
        other = clone(model).set_params(n_jobs=n_jobs).fit(X, ranges)
        np.testing.assert_array_equal(other.latent(X), model.latent(X))
        np.testing.assert_array_equal(other.validation_loss_, model.validation_loss_)


def test_all_processors_are_used_unless_others_need_them(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    there = openmp_threads()
    assert n_threads(None) == there
    assert n_threads(1) == 1
    assert n_threads(-1) == joblib.effective_n_jobs(-1)
    for asked in (1, 3):
        with joblib.parallel_config(n_jobs=asked):
            assert n_threads(None) == asked
            assert n_threads(2) == 2
    with threadpool_limits(1):  # as other boosters
        assert n_threads(None) == 1
    work = [joblib.delayed(n_threads)(None)] * 2
    assert joblib.Parallel(2, backend="threading")(work) == [1, 1]
    shares = joblib.Parallel(2, backend="loky")(work)
    assert shares == [max(1, joblib.cpu_count() // 2)] * 2


def test_one_thread_is_enough(monkeypatch):
    """A limit is obeyed: with one thread, LightGBM is only ever called from that one."""
    X, y, _ = table(60)
    seen = set()
    grow = folds.Fold._grow

    def watched(self, *arguments):
        seen.add(threading.get_ident())
        grow(self, *arguments)

    monkeypatch.setattr(folds.Fold, "_grow", watched)
    OrderedBoosting(max_iter=4, n_jobs=1, random_state=0).fit(X, y)
    assert len(seen) == 1


@pytest.mark.skipif(os.name == "nt", reason="the name of C's library is another")
def test_threads_print_nothing(capfd):
    """LightGBM warns of trees without a split; of eight threads, some never begin a booster."""
    X, y = np.repeat([[0.0], [1.0]], 6, axis=0), np.repeat([0, 1], 6)
    for seed in range(3):
        OrderedBoosting(n_jobs=8, random_state=seed).fit(X, y)
    ctypes.CDLL(None).fflush(None)  # what C's printf holds back
    assert capfd.readouterr() == ("", "")


def test_many_rows_need_no_boosters_kept(model, monkeypatch):
    X, _, ranges = table()
    kept = clone(model).set_params(max_iter=2).fit(X, ranges)
    monkeypatch.setattr(folds, "MOST_KEPT", 100)
    for n_jobs in (1, 2):  # from the third tree on, sums are rounded differently
        other = clone(kept).set_params(n_jobs=n_jobs).fit(X, ranges)
        np.testing.assert_array_equal(other.latent(X), kept.latent(X))


# --- Features ---


def mixed_table(n=500):
    """Return a DataFrame with gaps and categories that decide, and exact labels."""
    rng = np.random.default_rng(0)
    towns = np.array(["Rome", "Oslo", "Bonn", "Bath", "Cork", "Lyon"])
    town, size = rng.integers(0, 6, n), rng.normal(size=n)
    y = np.digitize(np.array([0, 2, 0, 2, 1, 1])[town] + size, [0.0, 1.0, 2.0])
    size = np.where(rng.random(n) < 0.2, np.nan, size)
    frame = pd.DataFrame({"town": pd.Categorical(towns[town]), "size": size, "noise": size[::-1]})
    frame.loc[::17, "town"] = None
    return frame, y


def test_categories_and_gaps_are_used():
    X, y = mixed_table()
    model = OrderedBoosting(**THOROUGH).fit(X, y)
    blind = OrderedBoosting(**THOROUGH).fit(X[["size", "noise"]], y)
    assert model.score(X, y) > blind.score(X[["size", "noise"]], y) + 0.2
    assert model.feature_importances_.sum() == pytest.approx(1)
    assert model.feature_importances_.argmin() == 2


def noisy_table(n=400, signal=2, seed=0):
    """Return five columns, of which one decides, in a straight line."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5)) * [1.0, 100.0, 0.01, 1.0, 1e-40]
    return X, np.digitize(X[:, signal] / X[:, signal].std() * 2 + rng.logistic(size=n), [-2, 0, 2])


@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2))])
@pytest.mark.parametrize("signal", range(5))
def test_a_linear_signal_is_the_most_important(signal, seed):
    X, y = noisy_table(signal=signal, seed=seed)
    learner = OrderedBoosting(**QUICK)
    model = clone(learner).fit(X, y)
    assert model.feature_importances_[signal] > 0.7
    assert model.feature_importances_.sum() == pytest.approx(1)
    kept = SelectFromModel(model, prefit=True).get_support()
    assert np.flatnonzero(kept).tolist() == [signal]
    if (signal, seed) == (2, 0):
        chosen = RFE(learner.set_params(max_iter=3), n_features_to_select=1).fit(X, y)
        assert np.flatnonzero(chosen.support_).tolist() == [signal]


def test_people_are_shown_the_signal_first(tmp_path, good):
    X, y = noisy_table(signal=2, seed=6)
    names = ["a", "b", "signal", "c", "d"]
    pd.DataFrame(X, columns=names).assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    model, page = tmp_path / "m.pril", tmp_path / "page.html"
    good("fit", tmp_path / "rows.csv", "--label", "y", "--model", "boosting", "-o", model)
    shown = json.loads(good("show", "--json", model))["importances"]
    assert next(iter(shown)) == "signal"
    good("report", model, tmp_path / "rows.csv", "-o", page)
    rows = page.read_text().partition("What moves the score")[2]
    assert min(names, key=lambda name: rows.index(f">{name}<")) == "signal"


STRINGS = {
    "object": lambda X: X.assign(town=X["town"].astype(object)),
    "string": lambda X: X.assign(town=X["town"].astype("string")),
    "Arrow": lambda X: X.assign(town=X["town"].astype(pd.ArrowDtype(pa.string()))),
    "polars": lambda X: pl.from_pandas(X.assign(town=X["town"].astype(object))),
    "pyarrow": lambda X: pa.Table.from_pandas(X.assign(town=X["town"].astype(object))),
}


@pytest.mark.filterwarnings("ignore:X has feature names")  # of polars, with older scikit-learn
@pytest.mark.parametrize("way", STRINGS)
def test_columns_of_strings_are_categories(way):
    X, y = mixed_table()
    model, words = OrderedBoosting(**QUICK).fit(X, y), STRINGS[way](X)
    again = OrderedBoosting(**QUICK).fit(words, y)
    np.testing.assert_array_equal(again.latent(words), model.latent(X))
    np.testing.assert_array_equal(again.latent(X), model.latent(X))


def test_strings_beside_other_values_are_refused_with_their_row():
    X, y = mixed_table(60)
    towns = X["town"].astype(object).where(np.arange(60) != 7, 3.5)
    with pytest.raises(ValueError, match=r"X, row 7: feature 'town' is 3.5, but has strings in"):
        OrderedBoosting(**QUICK).fit(X.assign(town=towns), y)


@pytest.mark.parametrize("frame", ["polars", "indices", "mask", "names", "reordered"])
def test_categories_may_come_in_other_ways(frame):
    X, y = mixed_table()
    model = OrderedBoosting(**QUICK).fit(X, y)
    codes = X.assign(town=X["town"].cat.codes.where(X["town"].notna()))
    options, other = {}, codes
    if frame == "polars":
        other = pl.from_pandas(X).with_columns(pl.col("town").cast(pl.Categorical))
    elif frame == "reordered":  # the values count, not their codes
        other = X.assign(town=X["town"].cat.reorder_categories(X["town"].cat.categories[::-1]))
    else:
        chosen = {"indices": [0], "mask": [True, False, False], "names": ["town"]}[frame]
        options = {"categorical_features": chosen}
        other = codes if frame == "names" else codes.to_numpy()
    again = OrderedBoosting(**QUICK, **options).fit(other, y)
    np.testing.assert_array_equal(again.latent(other), model.latent(X))


def test_a_category_that_was_not_seen_counts_as_missing():
    X, y = mixed_table()
    model = OrderedBoosting(**THOROUGH).fit(X, y)
    rows = X.head(3).assign(town=pd.Categorical(["Cork", "Pisa", None]))
    scores = model.latent(rows.assign(size=0.5, noise=0.5))
    assert scores[1] == scores[2] != scores[0]


def test_a_gap_where_none_was_learned_goes_with_the_larger_part(model):
    gap = np.array([[np.nan, 0.0, 0.0, 0.0]])
    assert np.isfinite(model.latent(gap)).all()
    assert np.abs(model.latent(gap)[0]) < 10


@pytest.mark.parametrize("leaves", [2, 64, 200])
def test_trees_say_what_lightgbm_says(leaves):
    """Gaps, sets of categories, trees with more leaves than a word has bits."""
    X, y = mixed_table(3000)
    X["town"] = X["town"].cat.codes.where(X["town"].notna())
    X["many"] = np.random.default_rng(0).integers(0, 90, len(X))
    rows = X.to_numpy()
    options = {"num_leaves": leaves, "min_data_in_leaf": 2, "min_data_per_group": 5}
    data = lightgbm.Dataset(rows, y, categorical_feature=[0, 3])
    booster = lightgbm.train({**options, "verbosity": -1}, data, 5)
    texts = booster.model_to_string().partition("\nend of trees")[0].split("\nTree=")[1:]
    arrays = forest_engine.read_trees(texts, {"0": [*range(6)], "3": [*range(90)]})
    scores = np.empty(len(rows))
    linear = dict.fromkeys(("mean", "slope", "width"), np.zeros(4))
    none = {"landmarks": np.empty((0, 4)), "similarity": np.empty(0)}
    forest = compiled.Forest(**linear, **none, **arrays)
    compiled.scores_of(rows, forest, scores)
    np.testing.assert_allclose(scores, booster.predict(rows), atol=1e-12)


DAYS = pd.Categorical(pd.to_datetime(["2020-01-01", "2021-01-01", None] * 20))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (DAYS, r"row 0: feature 'when' has the category .*2020-01-01.*\.cat\.rename_categories\("),
        (DAYS.rename_categories(DAYS.categories.as_unit("ns")), "feature 'when' has the category"),
        (DAYS.rename_categories(DAYS.categories.tz_localize("UTC")), "feature 'when' has the cat"),
        (pd.cut(np.arange(60), 3), r"row 0: feature 'when' has the category Interval\("),
    ],
)
def test_categories_that_are_neither_strings_nor_numbers_are_refused(column, message):
    X, y = mixed_table(60)
    with pytest.raises(ValueError, match=message):
        OrderedBoosting(**QUICK).fit(X.assign(when=column), y)


def test_dates_of_any_unit_are_the_same_strings():
    """What the message of the test above advises."""
    X, y = mixed_table(60)
    scores = [
        OrderedBoosting(**QUICK).fit(rows, y).latent(rows).tolist()
        for unit in ("s", "ms", "us", "ns")
        for days in [DAYS.rename_categories(DAYS.categories.as_unit(unit))]
        for rows in [X.assign(when=pd.Series(days).cat.rename_categories(str))]
    ]
    assert scores == scores[:1] * 4


@pytest.mark.parametrize("kind", [bool, int, np.int8, float, np.float32, object])
def test_numbers_that_are_equal_are_the_same_category(kind, tmp_path):
    X, y = mixed_table(200)
    model = OrderedBoosting(**THOROUGH).fit(X.assign(town=pd.Categorical(y > 1)), y)
    assert model.feature_importances_.argmax() == 0
    cells = pd.Categorical((y > 1).astype(kind))
    again = reloaded(model, tmp_path / "model.pril")
    assert [*map(type, again.categories_["0"])] == [bool, bool]
    np.testing.assert_array_equal(
        again.latent(X.assign(town=cells)), model.latent(X.assign(town=y > 1))
    )


@pytest.mark.parametrize("value", [3, np.datetime64("2020", "ns"), pd.Timestamp("2020"), "Rome"])
def test_a_category_of_another_kind_is_refused_not_missing(value):
    X, y = mixed_table(60)
    codes = X.assign(town=pd.Categorical(X["town"].cat.codes))
    rows = codes if isinstance(value, str) else X
    model = OrderedBoosting(**QUICK).fit(rows, y)
    other = rows.assign(town=pd.Categorical([None, *[value] * 59]))
    with pytest.raises(ValueError, match=r"row 1: feature 'town' is .*, but its categories are "):
        model.predict(other)
    with pytest.raises((TypeError, ValueError), match=r"feature 'town': .* is not a category"):
        model.stream().predict_one({"town": value, "size": 1.0, "noise": 1.0})


@pytest.mark.parametrize("asked", [[7], [True], ["place"]])
def test_categorical_features_that_are_not_there(asked):
    X, y = mixed_table(50)
    with pytest.raises(ValueError, match=r"categorical_features=\[.*\]: "):
        OrderedBoosting(categorical_features=asked).fit(X, y)


# --- Bad input ---


@pytest.mark.parametrize("columns", [["town", "size"], ["size"]])
def test_no_row_is_refused_with_and_without_categories(columns):
    X, y = mixed_table(60)
    model = OrderedBoosting(**QUICK).fit(X[columns], y)
    with pytest.raises(ValueError, match=r"0 sample\(s\) \(shape=\(0, \d\)\) while a minimum of 1"):
        model.predict(X[columns][:0])


def test_sparse_rows_are_refused_with_and_without_categories():
    X, y = csr_array(np.eye(60)), np.arange(60) % 3
    model = OrderedBoosting(categorical_features=[0], **QUICK)
    with pytest.raises(TypeError, match=r"Sparse data was passed for X.*use X.toarray"):
        model.fit(X, y)
    model.fit(X.toarray(), y)
    with pytest.raises(TypeError, match=r"Sparse data was passed for X.*use X.toarray"):
        model.predict(X)


@pytest.mark.filterwarnings("ignore:no label is exact")
def test_many_classes():
    """So many that the information of thresholds is sparse."""
    K = 250
    X = np.repeat(np.arange(K), 3)[:, np.newaxis] + np.tile([0.0, 0.3, 0.6], K)[:, np.newaxis]
    y = X[:, 0].astype(int)
    ranges = np.column_stack([np.maximum(y - 1, 0), np.minimum(y + 1, K - 1)])
    for labels in (y, ranges):
        model = OrderedBoosting(max_iter=1, n_folds=2, classes=range(K), random_state=0)
        model.fit(X, labels)
        np.testing.assert_allclose(model.predict_proba(X).sum(axis=1), 1.0)
        assert np.abs(model.predict(X) - y).mean() < 20


@pytest.mark.filterwarnings("ignore:no label is exact")
def test_chances_of_all_labels_add_up_to_one_for_each_class(model):
    X, y, ranges = table(kind=2)
    for labels in (ranges, y, np.column_stack([y // 2 * 2, y // 2 * 2 + 1])):
        found = clone(model).set_params(max_iter=2).fit(X, labels).coarsening_
        total = np.zeros(4)
        for (low, high), chances in found.table.items():
            total[low : high + 1] += chances
        np.testing.assert_allclose(total, 1.0)


def test_no_exact_label():
    X, _, _ = table(100)
    model = OrderedBoosting(classes=[1, 2, 3], coarsening="random", **QUICK)
    with pytest.warns(UserWarning, match="no label is exact"):
        model.fit(X, [(1, 2), (2, 3)] * 50)  # the labels are not related to X
    assert np.isfinite(model.latent(X)).all()


@pytest.mark.parametrize("labels", [[0, 1, 2, 3, 4, 5], [-1, 0, 1, 2, 3], [0, 1, 7, 2, 3]])
def test_a_class_without_rows(labels):
    X, y, _ = table(200)
    model = OrderedBoosting(classes=labels, **QUICK).fit(X, y)
    assert set(model.predict(X)) <= {0, 1, 2, 3}
    assert model.score(X, y) > 0.6


def test_brackets_without_an_exact_label():
    """Nothing then tells the classes of a bracket apart, and offsets would be wrong."""
    X, y, _ = table(200)
    brackets = np.column_stack([y // 2 * 2, y // 2 * 2 + 1])
    with pytest.warns(UserWarning, match="no label is exact"):
        model = OrderedBoosting(**QUICK).fit(X, brackets)
    found = model.coarsening_
    assert (found.mechanism, found.shares) == ("random", {})
    assert found.evidence < 0.0


def test_fewer_rows_than_folds():
    with pytest.warns(UserWarning, match="n_folds=8, but only 4 rows have a label"):
        model = OrderedBoosting(random_state=0).fit([[0.0], [1.0], [2.0], [3.0]], [1, 1, 2, 2])
    assert model.predict([[0.0], [3.0]]).tolist() == [1, 2]


def test_weights_that_are_all_zero():
    with pytest.raises(ValueError, match="sample_weight is zero for every row"):
        OrderedBoosting().fit([[0.0], [1.0]], [1, 2], [0.0, 0.0])


def test_one_column_and_constant_columns():
    X, y, _ = table(200)
    one = OrderedBoosting(**QUICK).fit(X[:, :1], y)
    both = OrderedBoosting(**QUICK).fit(np.column_stack([X[:, 0], np.ones(200)]), y)
    rows = np.column_stack([X[:, 0], np.zeros(200)])
    np.testing.assert_allclose(one.latent(X[:, :1]), both.latent(rows), atol=1e-9)
    flat = OrderedBoosting(**QUICK).fit(np.ones((200, 2)), y)
    assert len(set(flat.latent(X[:, :2]))) == 1
    assert flat.feature_importances_.tolist() == [0.0, 0.0]


def test_so_many_columns_that_starts_have_no_matrix():
    X = np.zeros((60, 1001))
    X[:, ::200] = np.random.default_rng(0).normal(size=(60, 6))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    model = OrderedBoosting(max_iter=1, n_folds=2, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.slow
def test_very_many_columns():
    rng = np.random.default_rng(0)
    X = np.zeros((60, 30_000), dtype=np.float32)
    X[:, ::300] = rng.normal(size=(60, 100))
    y = (X[:, 1500] > 0) * 1
    model = OrderedBoosting(max_iter=3, random_state=0).fit(X, y)
    assert model.score(X, y) > 0.9


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_infinity_is_refused_with_its_row(dtype):
    X, y, _ = table(50)
    X = X.astype(dtype)
    X[7, 2] = -np.inf
    with pytest.raises(ValueError, match="X, row 7: feature 2 is -inf"):
        OrderedBoosting().fit(X, y)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_dates_are_refused_with_their_column(frame):
    X, y, _ = table(50)
    days = pd.date_range("2020", periods=50)
    for more in ({}, {"town": ["Rome"] * 50}):
        rows = {"size": X[:, 0], "age": days.to_list(), **more}
        with pytest.raises((TypeError, ValueError), match="feature 'age'"):
            OrderedBoosting().fit(frame(rows), y)
    rows = pd.DataFrame({"age": days.date.astype(object), "town": ["Rome"] * 50})
    with pytest.raises(ValueError, match=r"X, feature 'age': .*datetime.date"):
        OrderedBoosting().fit(rows, y)


def test_masked_cells_and_columns_without_a_value_are_missing():
    X, y, _ = table(200)
    hidden = np.random.default_rng(0).random(X.shape) < 0.2
    one = OrderedBoosting(**QUICK).fit(np.ma.masked_array(X, hidden), y)
    two = OrderedBoosting(**QUICK).fit(np.where(hidden, np.nan, X), y)
    np.testing.assert_array_equal(one.latent(X), two.latent(X))
    empty = pd.DataFrame({"a": X[:, 0], "b": np.nan, "c": pd.Categorical([None] * 200)})
    assert np.isfinite(OrderedBoosting(**QUICK).fit(empty, y).latent(empty)).all()


def test_huge_features_are_refused_with_their_row(model):
    X, y, _ = table(50)
    frame = pd.DataFrame(X.copy(), columns=list("abcd"))
    frame.loc[7, "c"] = -1.5e308
    with pytest.raises(ValueError, match=r"X, row 7: feature 'c' is -1\.5e.308; the limit is"):
        OrderedBoosting().fit(frame, y)
    with pytest.raises(ValueError, match=r"X, row 7: feature 2 is -1\.5e.308"):
        model.latent(frame.to_numpy())
    large = OrderedBoosting(**QUICK).fit(X * [1e149, 1.0, -1e149, 1.0], y)
    assert np.isfinite(large.predict_proba(X * [1e149, 1.0, 1e149, 1.0])).all()


def test_scaling_by_powers_of_two_changes_no_bit(tmp_path):
    X, _, ranges = table(300)
    X[::7, 1] = np.nan
    X[::5, 2] = 0.0
    one = OrderedBoosting(classes=range(4), **QUICK).fit(X, ranges)
    other = X * 2.0 ** np.array([-140, -900, 450, -990])  # LightGBM takes 2**-120 for 0
    two = OrderedBoosting(classes=range(4), **QUICK).fit(other, ranges)
    np.testing.assert_array_equal(two.latent(other), one.latent(X))
    np.testing.assert_array_equal(two.feature_importances_, one.feature_importances_)
    again = reloaded(two, tmp_path / "model.pril")
    np.testing.assert_array_equal(again.latent(other), one.latent(X))
    small = (X * 2.0**-130).astype(np.float32)
    three = OrderedBoosting(classes=range(4), **QUICK).fit(small, ranges)
    exact = OrderedBoosting(classes=range(4), **QUICK).fit(small * np.float32(2.0**127), ranges)
    np.testing.assert_allclose(
        three.latent(small), exact.latent(small * np.float32(2.0**127)), rtol=1e-5, atol=1e-6
    )


def test_numbers_of_very_different_size_are_told_apart():
    """P-values, for example: many are below what LightGBM takes for zero."""
    rng = np.random.default_rng(0)
    exponent = rng.uniform(-150.0, 0.0, size=400)
    y = np.digitize(exponent, [-120.0, -80.0, -40.0])
    X = 10.0 ** exponent[:, np.newaxis]
    assert OrderedBoosting(**THOROUGH).fit(X, y).score(X, y) > 0.95


def test_numbers_too_small_to_learn_from_are_refused():
    X, y, _ = table(50)
    frame = pd.DataFrame({"size": X[:, 0], "speck": 1e-310 * np.sign(X[:, 1])})
    with pytest.raises(ValueError, match="feature 'speck' is larger than 1e-310, too small"):
        OrderedBoosting().fit(frame, y)


def test_a_fit_that_fails_leaves_the_model_as_it_was(model):
    other = copy.deepcopy(model)
    X, _, _ = table(50)
    with pytest.raises(ValueError, match="row 3"):
        other.fit(X[:, :2], [(0, 1)] * 3 + [(2, 1)] + [(0, 1)] * 46)
    rows = table()[0]
    np.testing.assert_array_equal(other.latent(rows), model.latent(rows))


def test_progress(capsys, monkeypatch):
    monkeypatch.setattr(cross_fitting, "PROGRESS_SECONDS", 0.0)
    X, y, _ = table(100)
    OrderedBoosting(max_iter=3, random_state=0, verbose=1).fit(X, y)
    first, *lines = capsys.readouterr().out.splitlines()
    assert first.startswith("reading rows")
    said = [re.fullmatch(PROGRESS, line) for line in lines]
    assert [int(line["round"]) for line in said] == [1, 2, 3]
    assert [line["rest"] for line in said] == ["0 to 0 s left"] * 2 + ["done"]
    monkeypatch.setattr(cross_fitting, "PROGRESS_SECONDS", math.inf)
    model = OrderedBoosting(max_iter=40, learning_rate=1.0, random_state=0, verbose=1).fit(X, y)
    lines = capsys.readouterr().out.splitlines()[1:]
    first, last = (re.fullmatch(PROGRESS, line) for line in lines)
    assert (first["round"], first["best"]) == ("1", "1")
    losses = model.validation_loss_
    assert (int(last["round"]), int(last["best"])) == (len(losses), model.n_iter_)
    assert float(last["loss"]) == pytest.approx(losses[-1], abs=1e-5)
    assert float(last["lowest"]) == pytest.approx(losses.min(), abs=1e-5)


def test_a_last_round_that_is_the_best_is_told():
    X, _, _ = table()
    y = np.abs(X[:, 0]) > 0.7  # no line, and each tree helps
    with pytest.warns(ConvergenceWarning, match="max_iter=2 rounds was the best") as told:
        few = OrderedBoosting(max_iter=2, random_state=0).fit(X, y)
    assert few.n_iter_ == 2
    assert told[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        more = OrderedBoosting(random_state=0).fit(X, y)
    assert more.n_iter_ < len(more.validation_loss_)


def test_progress_begins_before_rows_are_read(capsys):
    with pytest.raises(ValueError, match="row 1"):
        OrderedBoosting(verbose=1).fit([[0.0], [np.inf]], [0, 1])
    assert capsys.readouterr().out.startswith("reading rows")


def test_time_left_is_between_no_progress_and_the_last_round(monkeypatch):
    clock = iter([0.0, *([30.0] * 9)])
    monkeypatch.setattr(cross_fitting.time, "monotonic", lambda: next(clock))
    rounds = cross_fitting.Rounds(most=100, patience=20)
    for loss in (3.0, 2.0, 2.5):
        rounds.add(loss)
    assert rounds.seconds_left() == (19 * 10.0, 97 * 10.0)
    assert str(rounds).endswith("best 2.00000 (round 2), 190 to 970 s left")


def test_the_command_tells_rounds(call, tmp_path, monkeypatch):
    X, y, _ = table(100)
    pd.DataFrame(X).assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    monkeypatch.setattr("pril.cli.printing.PROGRESS_SECONDS", 0.0)
    code, _, err = call(
        "fit", "rows.csv", "--label", "y", "--model", "boosting", "--set", "max_iter=3"
    )
    assert code == 0
    said = [line for line in err.splitlines() if line.startswith("round ")]
    assert [line.split(": ")[0] for line in said] == [f"round {k} of at most 3" for k in (1, 2, 3)]
    assert all("held-out loss" in line for line in said)
    assert said[0].endswith(" s left")


# --- Files ---


def test_a_file_keeps_all(tmp_path):
    X, y = mixed_table()
    model = OrderedBoosting(**QUICK).fit(X, y)
    pril.save(model, tmp_path / "one.pril")
    other = pril.load(tmp_path / "one.pril")
    np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(other.posterior(X, y), model.posterior(X, y))
    assert other.coarsening_ == model.coarsening_
    pril.save(other, tmp_path / "two.pril")
    assert (tmp_path / "one.pril").read_bytes() == (tmp_path / "two.pril").read_bytes()


def test_the_header_of_a_file_holds_no_long_array(tmp_path):
    X, y = mixed_table()
    sizes = []
    for max_iter in (1, 30):
        model = OrderedBoosting(max_iter=max_iter, random_state=0).fit(X, y)
        pril.save(model, tmp_path / "model.pril")
        with zipfile.ZipFile(tmp_path / "model.pril") as archive:
            sizes.append(archive.getinfo("pril.json").file_size)
    assert sizes[1] - sizes[0] < 10  # digits of the number of rounds


def reloaded(model, path):
    pril.save(model, path)
    return pril.load(path)


def test_close_thresholds_come_back(tmp_path):
    X, y = np.zeros((60, 1)), np.arange(60) % 6  # nothing to learn but the shares of the classes
    model = OrderedBoosting(max_iter=1, random_state=0).fit(X, y)
    assert np.diff(model.thresholds_).min() < 1.0
    again = reloaded(model, tmp_path / "model.pril")
    np.testing.assert_array_equal(again.thresholds_, model.thresholds_)


def test_damaged_arrays_are_refused_or_harmless(tmp_path):
    """Compiled code trusts every index: none that is wrong may get there."""
    X, y = mixed_table(500)
    model = OrderedBoosting(max_iter=4, random_state=0).fit(X, y)
    own, chosen = ("thresholds", "background"), ("ends", "by_kind")
    rng, refused = np.random.default_rng(0), 0
    for _ in range(160):
        damaged = copy.deepcopy(model)
        learned = damaged.memory_
        arrays = learned.forest._asdict() | {name: getattr(learned, name) for name in own}
        arrays |= {name: getattr(learned.choice, name) for name in chosen}
        name = rng.choice(sorted(arrays))
        part = arrays[name]
        if rng.random() < 0.1:
            part = part[:-1]
        elif part.dtype.kind == "f":
            part.flat[rng.integers(part.size)] = rng.choice([np.nan, np.inf, -1.0, 1e300, 0.5, 3.0])
        else:
            most = np.iinfo(part.dtype).max
            part.flat[rng.integers(part.size)] = rng.choice([0, 1, 7, 100, most])
        if name in own:
            damaged.memory_ = learned._replace(**{name: part})
        elif name in chosen:
            damaged.memory_ = learned._replace(choice=learned.choice._replace(**{name: part}))
        else:
            damaged.memory_ = learned._replace(forest=learned.forest._replace(**{name: part}))
        try:
            other = reloaded(damaged, tmp_path / "model.pril")
        except (TypeError, ValueError):
            refused += 1
        else:
            assert np.isfinite(other.predict_proba(X)).all()
            for (low, high), chances in other.coarsening_.table.items():
                assert len(chances) == high - low + 1
    assert 50 < refused < 150


@pytest.mark.parametrize(
    ("attribute", "value", "message"),
    [
        ("thresholds", np.array([1.0, 0.0, 2.0]), "thresholds must be 3 ascending numbers"),
        ("phi", np.zeros(3), "choice.phi must be numbers of the mechanism"),
        ("target", np.ones(3), "choice.phi must be numbers of the mechanism"),
        ("by_kind", np.ones(3), r"choice\.\w+"),
        ("mechanism", "other", "choice.mechanism: Invalid"),
        ("categories_", {"7": ["Rome"]}, "categories must be of the 3 features"),
        ("categories_", {"1": [0.5]}, "forest.kind does not fit"),
    ],
)
def test_damage_is_named(attribute, value, message, tmp_path):
    X, y = mixed_table()
    model = OrderedBoosting(max_iter=2, random_state=0).fit(X, y)
    if not attribute.endswith("_"):
        memory = model.memory_
        if attribute != "thresholds":
            attribute, value = "choice", memory.choice._replace(**{attribute: value})
        attribute, value = "memory_", memory._replace(**{attribute: value})
    setattr(model, attribute, value)
    with pytest.raises(TypeError, match=message):  # what is saved is loaded, and so checked
        reloaded(model, tmp_path / "model.pril")


@pytest.mark.parametrize("name", ["leaf", "size"])
def test_arrays_of_a_forest_must_fit_each_other(name, tmp_path):
    X, y = mixed_table()
    model = OrderedBoosting(max_iter=2, random_state=0).fit(X, y)
    forest = model.memory_.forest
    part = getattr(forest, name)
    longer = forest._replace(**{name: np.append(part, part[-1:])})
    model.memory_ = model.memory_._replace(forest=longer)
    with pytest.raises(TypeError, match=r"forest\.size does not fit"):
        reloaded(model, tmp_path / "model.pril")


@pytest.mark.parametrize(
    ("name", "size"),
    [("width", 1e308), *product(["slope", "similarity", "leaf", "landmarks"], [1e308, -1e308])],
)
def test_numbers_that_overflow_are_named(name, size, tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = OrderedBoosting(max_iter=2, random_state=0).fit(X, np.digitize(X[:, 0] ** 2, [0.3, 1]))
    forest = model.memory_.forest
    forged = forest._replace(**{name: np.full_like(getattr(forest, name), size)})
    model.memory_ = model.memory_._replace(forest=forged)
    with pytest.raises(TypeError, match=rf"forest\.{name}.* overflow"):
        reloaded(model, tmp_path / "model.pril")


def test_a_row_whose_score_overflows_is_refused(tmp_path):
    """The features of `fit` are so small that a weight is large."""
    X = np.random.default_rng(0).normal(size=(200, 1)) * 1e-200
    model = OrderedBoosting(max_iter=2, random_state=0).fit(X, np.digitize(X[:, 0], [0.0]))
    model = reloaded(model, tmp_path / "model.pril")
    assert np.isfinite(model.predict_proba(X)).all()
    rows = np.array([[0.0], [1e140]])
    for answer in (model.predict, model.latent, model.predict_proba):
        with pytest.raises(pril.errors.OverflowedError, match=r"X, row 1: .* overflowed"):
            answer(rows)
    stream = model.stream()
    assert stream.predict_one(rows[0]) == model.predict(rows[:1])[0]
    with pytest.raises(pril.errors.OverflowedError, match="overflowed"):
        stream.predict_one(rows[1])


# --- At home with the others ---


def test_probabilities_posterior_and_decisions(model):
    X, _, ranges = table()
    proba = model.predict_proba(X)
    np.testing.assert_allclose(np.cumsum(proba, axis=1), model.predict_cumulative(X), atol=1e-12)
    median = (model.predict_cumulative(X) < 0.5).sum(axis=1)
    np.testing.assert_array_equal(model.predict(X), median)
    mode = copy.copy(model).set_params(decision="mode")
    np.testing.assert_array_equal(mode.predict(X), proba.argmax(axis=1))
    posterior = model.posterior(X, ranges)
    outside = np.arange(4) < ranges[:, :1]
    outside |= np.arange(4) > ranges[:, 1:]
    assert (posterior[outside] == 0).all()
    np.testing.assert_allclose(posterior.sum(axis=1), 1)
    wide = model.posterior(X[:5], [(0, 3)] * 5)  # a range that it has not seen says nothing
    np.testing.assert_allclose(wide, proba[:5])


def test_it_has_a_report(model, tmp_path):
    X, _, ranges = table()
    pril.report(model, X, ranges, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "What moves the score" in page
    assert f"{model.feature_importances_.max():.1%}" in page
    assert f"{model.n_iter_} round" in page


@pytest.mark.parametrize("decision", ["median", "mode"])
def test_onnx_says_the_same(decision):
    onnxruntime = pytest.importorskip("onnxruntime")
    X, _, ranges = table()
    X[::5, 1] = np.nan
    X[:, 3] *= 2.0**-300
    model = OrderedBoosting(classes=list("dbac"), decision=decision, **QUICK)
    model.fit(X, np.array(list("dbac"))[ranges])
    graph = pril.onnx.to_onnx(model).SerializeToString()
    label, proba = onnxruntime.InferenceSession(graph).run(None, {"X": X})
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-12)
    np.testing.assert_array_equal(label, model.predict(X))


def test_onnx_takes_the_categories_of_a_one_hot_encoder():
    onnxruntime = pytest.importorskip("onnxruntime")
    X, y = mixed_table()
    X = X.assign(town=X["town"].astype(object).fillna(""))
    columns = make_column_transformer(
        (OneHotEncoder(sparse_output=False), ["town"]), remainder="passthrough"
    )
    model = make_pipeline(columns, OrderedBoosting(**QUICK)).fit(X, y)
    graph = pril.onnx.to_onnx(model, X).SerializeToString()
    label, proba = onnxruntime.InferenceSession(graph).run(
        None, {name: X[[name]].to_numpy() for name in X}
    )
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(label, model.predict(X))


def test_where_it_cannot_go_a_sentence_names_what_can(model):
    X, y, _ = table(20)
    with pytest.raises(TypeError, match=r"use X.toarray\(\), or OrderedLogit"):
        OrderedBoosting().fit(csr_array(X), y)
    with pytest.raises(TypeError, match="use OrderedLogit"):
        pril.evaluate.progressive(OrderedBoosting(), X, y)
    assert not hasattr(model, "partial_fit")


def test_ranges_with_coverage():
    X, y, _ = table(1200)
    ranges = PredictionRanges(OrderedBoosting(**QUICK), random_state=0).fit(X[:800], y[:800])
    assert ranges.coverage_report(X[800:], y[800:])["exact"] > 0.85


def test_pipelines_searches_and_pickles():
    X, _, ranges = table(200)
    pipeline = make_pipeline(StandardScaler(), OrderedBoosting(max_iter=3, random_state=0))
    grid = {"orderedboosting__max_leaf_nodes": [2, 8]}
    found = GridSearchCV(pipeline, grid, cv=3).fit(X, ranges).best_estimator_
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(found)).predict(X), found.predict(X))  # noqa: S301
