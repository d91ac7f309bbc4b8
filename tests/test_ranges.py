"""Predicted ranges: the sets of split conformal prediction, and what they guarantee."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from scipy.stats import binom
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from learners import linear
from pril import PRIL, KernelPRIL, MulticlassPerceptron, OrderedLogit, PredictionRanges
from pril.labels import from_votes, make_intervals
from pril.ranges import calibration_scores, conformal_margin, rank_ranges

CLASSES = [1, 2, 3, 4]
GUARANTEES = ("exact", "contain", "touch")


def draw(n, rng):
    """Rows, their classes, and labels of Type 1, a quarter of them exact."""
    X = rng.normal(size=(n, 3))
    score = X @ [1.0, -1.0, 0.5] + rng.logistic(scale=0.5, size=n)
    y = np.digitize(score, [-1.5, 0.0, 1.5]) + 1
    seed = int(rng.integers(2**32))
    return X, y, make_intervals(y, 1, 0.75, classes=CLASSES, random_state=seed)


X, EXACT, LABELS = draw(600, np.random.default_rng(0))
MORE, MORE_EXACT, MORE_LABELS = draw(300, np.random.default_rng(1))
model = OrderedLogit(classes=CLASSES, random_state=0)


@pytest.mark.filterwarnings("ignore:every range is the full scale")
@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")  # some are near 100
@parametrize_with_checks(
    [PredictionRanges(PRIL(random_state=0))],
    expected_failed_checks=lambda _: {
        "check_complex_data": "labels are read first, and these are complex numbers, too"
    },
)
def test_scikit_learns_own_checks(estimator, check):
    check(estimator)


# --- The sets ------------------------------------------------------------------------------------

finite = st.floats(-10, 10)


@given(
    st.lists(finite, min_size=1, max_size=10),
    st.lists(finite, min_size=1, max_size=5).map(sorted),
    st.floats(0, 10),
)
def test_a_range_is_all_classes_whose_distance_is_within_the_margin(scores, theta, margin):
    cut = np.array([-math.inf, *theta, math.inf])
    rank = np.searchsorted(theta, scores, side="right")
    ranges = rank_ranges(rank, np.array(scores)[:, np.newaxis], cut, margin)
    for f, (low, high) in zip(scores, ranges, strict=True):
        s = [max(cut[y] - f, f - cut[y + 1]) for y in range(len(cut) - 1)]
        assert list(range(low, high + 1)) == [y for y, far in enumerate(s) if far <= margin]
        assert low <= sum(f >= cut for cut in theta) <= high  # the class of the score itself


@given(st.lists(finite, min_size=1, max_size=60), st.sampled_from([0.5, 0.8, 0.9, 0.95]))
@pytest.mark.filterwarnings("ignore:every range is the full scale")
def test_the_margin_is_the_smallest_that_covers_enough_scores(scores, coverage):
    margin = conformal_margin(np.array(scores), coverage, "contain")
    enough = round(coverage * 100) * (len(scores) + 1)  # in hundredths of a row

    def covers(limit):
        return 100 * sum(score <= limit for score in scores) >= enough

    assert covers(margin) or margin == math.inf
    smaller = [score for score in scores if 0 <= score < margin]
    assert not any(map(covers, smaller))
    assert margin == 0 or margin == math.inf or margin in scores


@given(
    st.lists(st.tuples(finite, st.integers(-1, 5), st.integers(-1, 5)), max_size=10),
    st.lists(finite, min_size=5, max_size=5).map(sorted),
    st.sampled_from(GUARANTEES),
)
def test_calibration_scores_are_the_ends_of_what_a_label_allows(rows, theta, guarantee):
    cut = np.array([-math.inf, *theta, math.inf])
    expected, intervals = [], []
    for f, *ends in rows:
        lo, hi = sorted(ends)
        intervals.append((lo, hi) if lo >= 0 else (0, -1))  # no label
        if lo >= 0 and (lo == hi or guarantee != "exact"):
            allowed = [max(cut[y] - f, f - cut[y + 1]) for y in range(lo, hi + 1)]
            expected.append(min(allowed) if guarantee == "touch" else max(allowed))
    scores = np.array([[f] for f, *_ in rows]).reshape(-1, 1)
    intervals = np.array(intervals, dtype=np.int64).reshape(-1, 2)
    assert calibration_scores(scores, cut, intervals, guarantee).tolist() == expected


@pytest.mark.parametrize(
    ("coverage", "needed"), [(0.9, 9), (0.95, 19), (0.99, 99), (0.7, 3), (0.5, 1), (2 / 3, 2)]
)
def test_too_few_rows_give_the_full_scale_and_say_how_many_are_needed(coverage, needed):
    scores = np.arange(1.0, 1.0 + needed)
    assert conformal_margin(scores, coverage, "contain") == needed
    if needed > 1:
        with pytest.warns(UserWarning, match=f"at least {needed} rows .* there are {needed - 1}"):
            assert conformal_margin(scores[1:], coverage, "contain") == math.inf


# --- The estimator -------------------------------------------------------------------------------


@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_it_is_split_conformal_prediction(guarantee):
    ranges = PredictionRanges(model, coverage=0.8, guarantee=guarantee, random_state=3)
    ranges.fit(X, LABELS)
    rows, apart = train_test_split(np.arange(len(X)), test_size=0.2, random_state=3)
    learner = clone(model).fit(X[rows], LABELS[rows])
    assert np.array_equal(ranges.predict(MORE), learner.predict(MORE))
    lo, hi = LABELS[apart].T - 1
    used = lo == hi if guarantee == "exact" else lo >= 0
    far = -learner.decision_function(X[apart])
    pick = min if guarantee == "touch" else max
    scores = [pick(far[t, lo[t] : hi[t] + 1]) for t in np.flatnonzero(used)]
    margin = max(0.0, sorted(scores)[math.ceil((len(scores) + 1) * 8 / 10) - 1])
    assert ranges.n_calibration_ == len(scores)
    assert ranges.margin_ == margin
    inside = -learner.decision_function(MORE) <= margin
    expected = [np.flatnonzero(row)[[0, -1]] + 1 for row in inside]
    assert np.array_equal(ranges.predict_range(MORE), expected)


@pytest.mark.parametrize("learner", linear(has_thresholds=True, takes_ranges=True))
@pytest.mark.filterwarnings("ignore::pril.errors.FeatureRangeWarning")
def test_every_learner_with_thresholds_has_ranges(learner):
    ranges = PredictionRanges(learner(random_state=0), random_state=0).fit(X, LABELS)
    low, high = ranges.predict_range(MORE).T
    assert ((low <= ranges.predict(MORE)) & (ranges.predict(MORE) <= high)).all()
    assert ranges.coverage_report(MORE, MORE_EXACT)["exact"] > 0.8


def test_pipelines_frames_and_sparse_rows():
    frame = pd.DataFrame(X, columns=list("abc"))
    ranges = PredictionRanges(make_pipeline(StandardScaler(), model), random_state=0)
    ranges.fit(frame, pd.DataFrame(LABELS, columns=["low", "high"]))
    assert ranges.feature_names_in_.tolist() == list("abc")
    assert ranges.n_features_in_ == 3
    arrays = PredictionRanges(make_pipeline(StandardScaler(), model), random_state=0)
    expected = arrays.fit(X, LABELS).predict_range(MORE)
    more = pd.DataFrame(MORE, columns=list("abc"))
    assert np.array_equal(ranges.predict_range(more), expected)
    assert (expected[:, 0] < expected[:, 1]).any()
    plain = PredictionRanges(KernelPRIL(random_state=0), random_state=0).fit(X, LABELS)
    sparse = PredictionRanges(KernelPRIL(random_state=0), random_state=0).fit(csr_array(X), LABELS)
    assert np.array_equal(plain.predict_range(MORE), sparse.predict_range(csr_array(MORE)))


def test_probabilities_are_those_of_the_estimator():
    ranges = PredictionRanges(model, random_state=0)
    assert hasattr(ranges, "predict_proba")
    ranges.fit(X, LABELS)
    np.testing.assert_array_equal(ranges.predict_proba(X), ranges.estimator_.predict_proba(X))
    assert not hasattr(PredictionRanges(PRIL()).fit(X, LABELS), "predict_proba")


def test_a_frozen_estimator_calibrates_with_all_rows():
    fitted = clone(model).fit(X, LABELS)
    before = fitted.coef_
    ranges = PredictionRanges(FrozenEstimator(fitted), guarantee="contain").fit(MORE, MORE_LABELS)
    assert ranges.n_calibration_ == len(MORE)
    assert np.array_equal(ranges.estimator_.coef_, before)
    scaled = make_pipeline(StandardScaler(), model).fit(X, LABELS)
    whole = PredictionRanges(FrozenEstimator(scaled)).fit(MORE, MORE_LABELS)
    steps = make_pipeline(*(FrozenEstimator(step) for _, step in scaled.steps))
    parts = PredictionRanges(steps).fit(MORE, MORE_LABELS)
    assert whole.margin_ == parts.margin_
    assert np.array_equal(whole.predict(MORE), scaled.predict(MORE))


def test_a_frozen_learner_after_steps_that_learn():
    fitted = clone(model).fit(X, LABELS)
    before = fitted.get_params(), fitted.coef_.copy()
    steps = make_pipeline(StandardScaler(), FrozenEstimator(fitted))
    ranges = PredictionRanges(steps, random_state=0).fit(MORE, MORE_LABELS)
    assert ranges.n_calibration_ < 60  # the scaler learned from the others
    assert fitted.get_params() == before[0]
    assert np.array_equal(fitted.coef_, before[1])


def test_a_precomputed_kernel_is_calibrated_when_it_is_frozen():
    kernel = KernelPRIL(kernel="precomputed", random_state=0)
    with pytest.raises(ValueError, match="FrozenEstimator"):
        PredictionRanges(kernel).fit(X @ X.T, LABELS)
    frozen = FrozenEstimator(kernel.fit(X @ X.T, LABELS))
    ranges = PredictionRanges(frozen).fit(MORE @ X.T, MORE_LABELS)
    assert ranges.predict_range(MORE @ X.T).shape == (300, 2)


@pytest.mark.parametrize("decision", ["median", "mode"])
def test_a_range_contains_the_prediction(decision):
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3000, 3))
    score = rows @ [0.5, -0.5, 0.3] + rng.logistic(size=3000)
    y = np.digitize(score, [-0.6, -0.4, 0.0, 0.3])  # classes 1 and 3 are rare
    learner = OrderedLogit(classes=range(5), decision=decision, random_state=0)
    ranges = PredictionRanges(learner, coverage=0.3, random_state=0).fit(rows, y)
    low, high = ranges.predict_range(rows).T
    predicted = ranges.predict(rows)
    assert ((low <= predicted) & (predicted <= high)).all()


def test_labels_of_any_kind():
    words = np.array(["bad", "fair", "good", "best"])
    named = OrderedLogit(classes=words, random_state=0)
    ranges = PredictionRanges(named, random_state=0).fit(X, words[LABELS - 1])
    numbers = PredictionRanges(model, random_state=0).fit(X, LABELS)
    expected = words[numbers.predict_range(MORE) - 1]
    assert np.array_equal(ranges.predict_range(MORE), expected)
    gaps = [(None, None) if t % 2 else pair for t, pair in enumerate(LABELS.tolist())]
    some = PredictionRanges(model, guarantee="contain", random_state=0).fit(X, gaps)
    assert some.n_calibration_ < 0.75 * 120
    rare = np.where(np.arange(len(X)) == 5, 9, EXACT)  # a class with one row only
    for seed in range(8):
        found = PredictionRanges(PRIL(random_state=0), random_state=seed).fit(X, rare)
        assert found.classes_.tolist() == [*CLASSES, 9]


def test_the_report_counts_what_each_guarantee_is_about():
    ranges = PredictionRanges(model, random_state=0).fit(X, LABELS)
    y = [(None, None), *MORE_LABELS.tolist()[1:]]
    report = ranges.coverage_report(MORE, y)
    (low, high), (lo, hi) = ranges.predict_range(MORE)[1:].T, MORE_LABELS[1:].T
    contain = (low <= lo) & (hi <= high)
    assert report == {
        "guarantee": "exact",
        "coverage": 0.9,
        "rows": 299,
        "exact_rows": (lo == hi).sum(),
        "exact": contain[lo == hi].mean(),
        "contain": contain.mean(),
        "touch": np.mean([set(range(a, b + 1)) & set(range(c, d + 1)) != set()
                          for a, b, c, d in zip(low, high, lo, hi, strict=True)]),
        "mean_width": (high - low + 1).mean(),
    }  # fmt: skip
    nothing = ranges.coverage_report(MORE, [(1, 2)] * len(MORE))
    assert nothing["exact"] is None


def test_ranges_are_found_by_a_grid_search():
    search = GridSearchCV(
        PredictionRanges(model, random_state=0), {"estimator__alpha": [0.3, 300.0]}, cv=2
    )
    search.fit(X, LABELS)
    scores = search.cv_results_["mean_test_score"]  # the share of predictions inside the label
    assert search.best_params_ == {"estimator__alpha": [0.3, 300.0][scores.argmax()]}
    best = PredictionRanges(clone(model).set_params(**{
        "alpha": search.best_params_["estimator__alpha"]
    }), random_state=0).fit(X, LABELS)  # fmt: skip
    assert np.array_equal(search.best_estimator_.predict_range(MORE), best.predict_range(MORE))
    folds = cross_val_score(best, X, LABELS, cv=2)
    assert folds.mean() == scores.max()


# --- By class, and by a column -------------------------------------------------------------------


def quantile(distances, coverage=0.8):
    k = math.ceil((len(distances) + 1) * round(coverage * 10) / 10 - 1e-9)
    return max(0.0, sorted(distances)[k - 1])


def hull(flags):
    return np.array([np.flatnonzero(row)[[0, -1]] for row in flags])


FITTED = clone(model).fit(X, LABELS)


def test_by_class_each_class_has_the_margin_of_its_exact_rows():
    ranges = PredictionRanges(FrozenEstimator(FITTED), coverage=0.8, by="class")
    ranges.fit(MORE, MORE_LABELS)
    far, (lo, hi) = -FITTED.decision_function(MORE), MORE_LABELS.T - 1
    own = [(lo == k) & (hi == k) for k in range(4)]
    margins = [quantile(far[rows, k]) for k, rows in enumerate(own)]
    assert ranges.groups_.tolist() == CLASSES
    assert ranges.n_calibration_.tolist() == [rows.sum() for rows in own]
    assert ranges.margin_.tolist() == margins
    inside = -FITTED.decision_function(X) <= margins
    inside[np.arange(len(X)), FITTED.predict(X) - 1] = True
    assert np.array_equal(ranges.predict_range(X), hull(inside) + 1)


def test_by_class_a_label_counts_for_each_of_its_classes():
    ranges = PredictionRanges(
        FrozenEstimator(FITTED), coverage=0.8, guarantee="contain", by="class"
    ).fit(MORE, MORE_LABELS)
    far = -FITTED.decision_function(MORE)
    farthest = np.array([max(far[t, lo - 1 : hi]) for t, (lo, hi) in enumerate(MORE_LABELS)])
    everyone = quantile(farthest)
    margins = []
    for k in CLASSES:
        own = (MORE_LABELS[:, 0] <= k) & (k <= MORE_LABELS[:, 1])
        margins.append(max(everyone, quantile(farthest[own])))
    assert ranges.margin_.tolist() == margins
    assert max(margins) > everyone
    for far, ends in zip(-FITTED.decision_function(X), ranges.predict_range(X), strict=True):
        # All labels that are within the margin of one of their classes are in the range.
        labels = [
            (lo, hi) for lo in range(4) for hi in range(lo, 4)
            if max(far[lo : hi + 1]) <= max(margins[lo : hi + 1])
        ]  # fmt: skip
        assert ends.tolist() == [min(labels)[0] + 1, max(hi for _, hi in labels) + 1]


@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize("rows", ["frame", "array", "sparse"])
def test_by_a_column_each_value_has_a_margin_of_its_own(guarantee, rows):
    rng = np.random.default_rng(3)
    place = {"frame": np.array(["b", "a", "c"], dtype=object), "array": [5.0, 2.0, 7.0],
             "sparse": [5.0, 2.0, 7.0]}[rows]  # fmt: skip
    column = np.asarray(place)[rng.integers(0, 3, len(MORE))]
    learner = FITTED
    if rows == "frame":
        steps = make_column_transformer(("passthrough", list("xyz")))  # it drops the place
        names = [*"xyz"]
        learner = make_pipeline(steps, model).fit(pd.DataFrame(X, columns=names), LABELS)
        table = pd.DataFrame(MORE, columns=names).assign(place=column)
        by, take = "place", lambda part: table.iloc[part]
    else:
        learner = clone(model).fit(np.column_stack([X, np.zeros(len(X))]), LABELS)
        table = np.column_stack([MORE, column])
        table = csr_array(table) if rows == "sparse" else table
        by, take = 3, lambda part: table[part]
    frozen = FrozenEstimator(learner)
    ranges = PredictionRanges(frozen, coverage=0.8, guarantee=guarantee, by=by)
    ranges.fit(table, MORE_LABELS)
    assert ranges.groups_.tolist() == sorted(place)
    for k, value in enumerate(sorted(place)):
        own = np.flatnonzero(column == value)
        alone = PredictionRanges(frozen, coverage=0.8, guarantee=guarantee)
        alone.fit(take(own), MORE_LABELS[own])
        assert ranges.margin_[k] == alone.margin_
        assert ranges.n_calibration_[k] == alone.n_calibration_
        assert np.array_equal(ranges.predict_range(table)[own], alone.predict_range(take(own)))
    report = ranges.coverage_report(table, MORE_LABELS)
    assert list(report["groups"]) == sorted(place)
    assert sum(part["rows"] for part in report["groups"].values()) == len(MORE)


def test_ranges_by_class_of_rows_set_aside():
    options = {"coverage": 0.6, "by": "class"}
    ranges = PredictionRanges(model, random_state=3, **options).fit(X, LABELS)
    rows, apart = train_test_split(np.arange(len(X)), test_size=0.2, random_state=3)
    frozen = FrozenEstimator(clone(model).fit(X[rows], LABELS[rows]))
    twin = PredictionRanges(frozen, **options).fit(X[apart], LABELS[apart])
    assert np.array_equal(ranges.predict_range(MORE), twin.predict_range(MORE))


def test_the_report_by_class_is_of_the_labels_that_include_it():
    ranges = PredictionRanges(model, random_state=0).fit(X, LABELS)
    report = ranges.coverage_report(MORE, MORE_LABELS, by="class")
    whole = ranges.coverage_report(MORE, MORE_LABELS)
    assert {**whole, "groups": report["groups"]} == report
    for k in CLASSES:
        own = (MORE_LABELS[:, 0] <= k) & (k <= MORE_LABELS[:, 1])
        alone = ranges.coverage_report(MORE[own], MORE_LABELS[own])
        assert {**alone, **report["groups"][k]} == alone
    by_place = ranges.coverage_report(np.column_stack([MORE])[:, :3], MORE_EXACT, by=0)
    assert len(by_place["groups"]) == len(MORE)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"guarantee": "touch", "by": "class"}, "by='class' .* guarantee='touch' .* 'contain'"),
        ({"by": "town"}, "by='town' is not a column of X"),
        ({"by": 7}, "by=7 is not a column of X"),
        ({"by": -1}, "The 'by' parameter"),
        ({"by": 1.5}, "The 'by' parameter"),
        ({"by": "class", "coverage": 0.99}, r"by='class' with coverage=0.99 needs at least 99 rows "
         r"with an exact label for each class .*: 1 has \d+, 2 has \d+, 3 has \d+, 4 has \d+; join"),
        ({"by": 0, "guarantee": "contain"}, "needs at least 9 rows with a label for each value of 0"),
    ],
)  # fmt: skip
def test_what_ranges_cannot_be_by_is_refused(wrong, said):
    ranges = PredictionRanges(model, random_state=0).fit(X, LABELS)
    before = ranges.predict_range(MORE)
    parameters = ranges.get_params(deep=False)
    with pytest.raises(ValueError, match=said):
        ranges.set_params(**wrong).fit(X, LABELS)
    ranges.set_params(**parameters)
    assert np.array_equal(ranges.predict_range(MORE), before)  # a failed fit changes nothing


def test_a_class_without_rows_has_no_guarantee():
    learner = OrderedLogit(classes=[*CLASSES, 5], random_state=0)
    ranges = PredictionRanges(learner, coverage=0.5, by="class", random_state=0)
    with pytest.raises(ValueError, match="to calibrate with: 5 has 0; join"):
        ranges.fit(X, LABELS)


def test_columns_that_ranges_are_by_are_looked_up_in_new_rows():
    names = [*"xyz"]
    table = pd.DataFrame(X, columns=names).assign(town=np.where(X[:, 0] > 0, "Rome", "Oslo"))
    steps = make_pipeline(make_column_transformer(("passthrough", names)), model)
    ranges = PredictionRanges(steps, coverage=0.8, by="town", random_state=0).fit(table, LABELS)
    with pytest.raises(
        ValueError,
        match=r"X, row 7: column 'town' is 'Bonn', and no such row has .* only \['Oslo', 'Rome'\]",
    ):
        ranges.predict_range(table.assign(town=["Rome"] * 7 + ["Bonn"] * (len(X) - 7)))
    with pytest.raises(ValueError, match="X, column 'town', row 4: the group is missing"):
        ranges.predict_range(table.assign(town=["Rome"] * 4 + [None] * (len(X) - 4)))
    with pytest.raises(ValueError, match="by='town' is not a column of X"):
        ranges.predict_range(table[names])
    with pytest.raises(ValueError, match="X has a column of that name: rename it"):
        PredictionRanges(steps, by="class").fit(table.rename(columns={"town": "class"}), LABELS)
    assert not hasattr(ranges.set_params(by=None).fit(table, LABELS), "groups_")


def uneven(n, rng):
    """Rows of which one class is rare; how much they vary depends on their last column."""
    X = np.column_stack([rng.normal(size=(n, 3)), rng.integers(0, 2, n)])
    score = X[:, :3] @ [1.0, -1.0, 0.5] + rng.logistic(scale=np.where(X[:, 3], 1.2, 0.3))
    y = np.digitize(score, [-2.0, 0.5, 1.5])
    # Whether a label is exact depends on the class.
    wide = rng.random(n) > np.array([0.5, 0.9, 0.4, 0.7])[y]
    ends = np.column_stack([np.maximum(y - wide, 0), np.minimum(y + wide, 3)])
    return X, y, ends


@pytest.mark.filterwarnings("ignore:rows with an exact label are easier")
@pytest.mark.parametrize(
    ("guarantee", "by"), [("exact", "class"), ("contain", "class"), ("contain", 3), ("touch", 3)]
)
def test_coverage_is_as_promised_in_each_group(guarantee, by):
    """The mean coverage of each group over 60 calibrations, and how far it may be off by chance."""
    rng = np.random.default_rng([GUARANTEES.index(guarantee), by == "class"])
    rows, _, labels = uneven(400, rng)
    fitted = FrozenEstimator(OrderedLogit(classes=range(4), random_state=0).fit(rows, labels))
    new, truth, ends = uneven(8000, rng)
    groups = [new[:, 3] == g for g in (0, 1)]
    if by == "class":
        (lo, hi) = np.column_stack([truth, truth]).T if guarantee == "exact" else ends.T
        groups = [(lo <= k) & (k <= hi) for k in range(4)]
    shares = {by: [], None: []}
    for _ in range(60):
        rows, _, labels = uneven(400, rng)
        for where, found in shares.items():
            ranges = PredictionRanges(fitted, guarantee=guarantee, by=where, coverage=0.8)
            low, high = ranges.fit(rows, labels).predict_range(new).T
            held = holds(guarantee, low, high, *ends.T, truth)
            found.append([held[own].mean() for own in [*groups, np.full(len(new), True)]])
    means, errors = np.mean(shares[by], axis=0), np.std(shares[by], axis=0) / math.sqrt(60)
    # The new rows are a sample, too.
    errors = np.hypot(errors, [math.sqrt(0.16 / np.sum(own)) for own in [*groups, new[:, 0] < 9]])
    assert (means >= 0.8 - 3 * errors).all()
    assert np.mean(shares[None], axis=0).min() < 0.72  # without `by`, some group has far less


# --- Labels that are ranges of votes -------------------------------------------------------------


def rated(n, rng, raters=5):
    """Rows, the votes of raters, and that of one more rater."""
    X = rng.normal(size=(n, 3))
    quality = X @ [1.5, -1.0, 0.5] + rng.logistic(scale=0.5, size=n)
    seen = quality[:, None] + rng.logistic(scale=0.7, size=(n, raters + 1))
    votes = np.digitize(seen, [-2.5, -1.0, 0.5, 2.0])
    return X, votes[:, :-1], votes[:, -1]


def test_exact_labels_that_are_unanimous_votes_are_warned_of():
    rows, votes, _ = rated(1500, np.random.default_rng(0))
    y = from_votes(votes, classes=range(5))
    learner = OrderedLogit(classes=range(5), random_state=0)
    with pytest.warns(
        UserWarning, match=r"easier .* in [6-9]\d% of the pairs.* one vote of each"
    ) as caught:
        PredictionRanges(learner, random_state=0).fit(rows, y)
    assert caught[0].filename == __file__  # the line of the user
    PredictionRanges(learner, guarantee="contain", random_state=0).fit(rows, y)
    fitted = FrozenEstimator(learner.fit(rows[:900], y[:900]))
    PredictionRanges(fitted).fit(rows[900:], votes[900:, 0])
    PredictionRanges(fitted).fit(rows[900:], from_votes(votes[900:], trim=0.5, classes=range(5)))


def test_exact_labels_at_random_are_not_warned_of():
    """The test of Mann and Whitney would fail once in a thousand times."""
    fitted = FrozenEstimator(FITTED)
    for seed in range(100):
        rows, _, labels = draw(200, np.random.default_rng(seed))
        PredictionRanges(fitted).fit(rows, labels)


def test_one_vote_and_the_median_vote_have_the_coverage_asked_for():
    """A range calibrated with one vote of each row holds the vote of a new rater."""
    rng = np.random.default_rng(0)
    rows, votes, _ = rated(900, rng)
    y = from_votes(votes, classes=range(5))
    fitted = FrozenEstimator(OrderedLogit(classes=range(5), random_state=0).fit(rows, y))
    new, theirs, next_vote = rated(4000, rng)
    median = np.median(theirs, axis=1)
    shares = []
    for _ in range(40):
        rows, votes, _ = rated(300, rng)
        one = PredictionRanges(fitted).fit(rows, votes[:, 0]).predict_range(new).T
        middle = PredictionRanges(fitted).fit(rows, np.median(votes, axis=1).astype(int))
        low, high = middle.predict_range(new).T
        shares.append([
            np.mean((one[0] <= next_vote) & (next_vote <= one[1])),
            np.mean((low <= median) & (median <= high)),
        ])  # fmt: skip
    mean, error = np.mean(shares, axis=0), np.std(shares, axis=0) / math.sqrt(40)
    slack = 3 * np.hypot(error, math.sqrt(0.09 / 4000))
    assert (mean >= 0.9 - slack).all()
    assert (mean <= 0.9 + 1 / 301 + slack).all()


# --- What is refused, and warned of --------------------------------------------------------------


def test_exact_labels_are_asked_for_by_name():
    wide = np.column_stack([np.maximum(EXACT - 1, 1), np.minimum(EXACT + 1, 4)])
    with pytest.raises(ValueError, match=r'exact labels, there is none; .*"contain" .*"touch"'):
        PredictionRanges(model, random_state=0).fit(X, wide)
    wide[::15] = np.column_stack([EXACT[::15]] * 2)
    ranges = PredictionRanges(model, coverage=0.97, random_state=0)
    with pytest.warns(UserWarning, match='at least 33 rows with an exact label .*"contain"'):
        ranges.fit(X, wide)
    assert np.array_equal(ranges.predict_range(MORE), [[1, 4]] * len(MORE))


def test_errors_name_the_row_of_the_table():
    wrong = X.copy()
    rows, apart = train_test_split(np.arange(len(X)), test_size=0.2, random_state=0)
    wrong[rows[7], 1] = np.nan
    with pytest.raises(ValueError, match=f"row {rows[7]}: feature 1 is NaN"):
        PredictionRanges(model, random_state=0).fit(wrong, LABELS)
    wrong[rows[7], 1], wrong[apart[4], 2] = 0.0, np.nan
    with pytest.raises(ValueError, match=f"row {apart[4]}: feature 2 is NaN"):
        PredictionRanges(model, random_state=0).fit(wrong, LABELS)
    with pytest.raises(ValueError, match="row 3: 7 is not one of the classes"):
        PredictionRanges(model).fit(X[:5], [1, 2, 3, 7, 1])
    with pytest.raises(ValueError, match="inconsistent"):
        PredictionRanges(model).fit(X[:5], [1, 2])


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"coverage": 1.0}, ValueError, "coverage"),
        ({"coverage": 0}, ValueError, "coverage"),
        ({"guarantee": "sure"}, ValueError, "guarantee"),
        ({"calibration_size": 1.5}, ValueError, "calibration_size"),
        ({"estimator": MulticlassPerceptron()}, TypeError, "MulticlassPerceptron"),
        ({"estimator": make_pipeline(StandardScaler())}, TypeError, "StandardScaler"),
        ({"estimator": FrozenEstimator(PRIL())}, NotFittedError, "PRIL"),
        ({"estimator": "PRIL"}, ValueError, "estimator"),
    ],
)
def test_wrong_parameters_are_refused(wrong, kind, message):
    with pytest.raises(kind, match=message):
        PredictionRanges(**{"estimator": PRIL(), **wrong}).fit(X, LABELS)


def test_nothing_is_predicted_before_fit():
    ranges = PredictionRanges(PRIL())
    for method in (ranges.predict, ranges.predict_range):
        with pytest.raises(NotFittedError):
            method(X)
    assert not hasattr(ranges, "n_features_in_")


# --- The guarantees ------------------------------------------------------------------------------


def holds(guarantee, low, high, lo, hi, y):
    return {
        "exact": (low <= y) & (y <= high),
        "contain": (low <= lo) & (hi <= high),
        "touch": (low <= hi) & (lo <= high),
    }[guarantee]


@pytest.mark.slow
@pytest.mark.parametrize("guarantee", GUARANTEES)
@pytest.mark.parametrize(("coverage", "n"), [(0.9, 9), (0.8, 60)])
def test_coverage_is_as_promised(guarantee, coverage, n):
    """One new row for each of 200 fresh splits: the hits are binomial, and at least so many."""
    rng = np.random.default_rng([n, GUARANTEES.index(guarantee)])
    hits, shares = 0, []
    for _ in range(200):
        X, y, labels = draw(200 + 6 * n, rng)
        learner = OrderedLogit(classes=CLASSES)
        fitted = FrozenEstimator(learner.fit(X[:100], y[:100]))
        exact = labels[:, 0] == labels[:, 1]
        exact[:100] = False
        rest = np.flatnonzero(exact)[:n] if guarantee == "exact" else np.arange(100, 100 + n)
        ranges = PredictionRanges(fitted, coverage=coverage, guarantee=guarantee)
        ranges.fit(X[rest], labels[rest])
        assert ranges.n_calibration_ == len(rest)
        new, y, labels = draw(100, rng)
        held = holds(guarantee, *ranges.predict_range(new).T, *labels.T, y)
        hits += held[0]
        shares.append(held.mean())
    assert hits >= binom.ppf(0.001, 200, coverage)
    mean, error = np.mean(shares), np.std(shares) / math.sqrt(len(shares))
    assert mean >= coverage - 2 * error
    if guarantee == "exact":  # its scores do not tie, so it promises no more than it must
        assert mean <= coverage + 1 / (n + 1) + 2 * error
