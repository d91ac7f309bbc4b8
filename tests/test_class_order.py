"""Classes whose order is not the alphabet's: words give what their ranks give."""

import warnings

import numpy as np
import pytest
import sklearn.calibration
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay, get_scorer, get_scorer_names
from sklearn.model_selection import (
    GridSearchCV,
    KFold,
    TimeSeriesSplit,
    cross_val_predict,
    cross_val_score,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier, OutputCodeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import learners
import pril
from pril import MulticlassPerceptron, OrderedLogit, PredictionRanges
from pril.errors import ClassOrderWarning
from pril.evaluate import cross_val_proba, progressive
from pril.labels import ordered
from pril.metrics import (
    calibration_error,
    interval_accuracy_scorer,
    interval_log_loss,
    neg_interval_absolute_error_scorer,
    neg_interval_log_loss_scorer,
    ranked_probability_score,
)

GRADES = ["poor", "fair", "good", "great"]
RANKS = [GRADES.index(grade) for grade in sorted(GRADES)]  # of the sorted classes


def survey(n=300):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, size=(n, 3))
    rank = np.digitize(X @ [4.0, -2.0, 1.0] + rng.logistic(size=n), [-2.0, 0.0, 2.0])
    return X, np.array(GRADES)[rank], rank


def twins(kind, **options):
    """Return a learner of the words, and one of their ranks."""
    return (kind(classes=names, random_state=0, **options) for names in (GRADES, range(4)))


# --- The contract ---


@pytest.mark.parametrize("kind", learners.ALL)
def test_classes_are_sorted_and_columns_follow_them(kind):
    X, y, rank = survey()
    worded, ranked = twins(kind)
    worded.fit(X, y), ranked.fit(X, rank)
    assert worded.classes_.tolist() == sorted(GRADES)
    assert worded.order_.tolist() == GRADES
    assert ranked.classes_.tolist() == ranked.order_.tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(worded.predict(X), np.array(GRADES)[ranked.predict(X)])
    margins = worded.decision_function(X)
    np.testing.assert_array_equal(margins, ranked.decision_function(X)[:, RANKS])
    np.testing.assert_array_equal(worded.classes_[margins.argmax(axis=1)], worded.predict(X))
    if hasattr(ranked, "thresholds_"):
        np.testing.assert_array_equal(worded.thresholds_, ranked.thresholds_)


@pytest.mark.parametrize("decision", ["median", "mode"])
def test_probabilities_follow_the_sorted_classes(decision):
    X, y, rank = survey()
    worded, ranked = twins(OrderedLogit, decision=decision)
    worded.fit(X, y), ranked.fit(X, rank)
    for method in ("predict_proba", "predict_log_proba", "decision_function"):
        found, expected = getattr(worded, method)(X), getattr(ranked, method)(X)
        np.testing.assert_array_equal(found, expected[:, RANKS])
    some = np.where(np.arange(len(X)) % 2, "good", y)
    pairs = np.column_stack([np.where(rank > 2, "good", y), np.where(rank < 2, some, y)])
    posterior = worded.posterior(X, pairs)
    ends = np.array([[GRADES.index(end) for end in pair] for pair in pairs])
    np.testing.assert_array_equal(posterior, ranked.posterior(X, ends)[:, RANKS])
    cumulative = worded.predict_cumulative(X)
    np.testing.assert_array_equal(cumulative, ranked.predict_cumulative(X))
    np.testing.assert_allclose(cumulative, ranked.predict_proba(X).cumsum(axis=1), atol=1e-12)
    assert (cumulative[:, -1] == 1.0).all()


@pytest.mark.parametrize("kind", learners.ALL)
def test_of_two_classes_a_positive_margin_is_for_the_second_in_the_alphabet(kind):
    X, _, rank = survey()
    y = np.array(["low", "high"])[rank // 2]
    model = kind(classes=["low", "high"], random_state=0).fit(X, y)
    assert model.classes_.tolist() == ["high", "low"]
    np.testing.assert_array_equal(model.decision_function(X) > 0, model.predict(X) == "low")
    assert get_scorer("roc_auc")(model, X, y) > 0.8


def test_weights_of_classes_follow_the_sorted_classes():
    X, y, rank = survey()
    worded, ranked = twins(MulticlassPerceptron)
    worded.fit(X, y), ranked.fit(X, rank)
    np.testing.assert_array_equal(worded.coef_, ranked.coef_[RANKS])
    np.testing.assert_array_equal(worded.intercept_, ranked.intercept_[RANKS])
    scores = X @ worded.coef_.T + worded.intercept_
    np.testing.assert_allclose(worded.decision_function(X), scores, atol=1e-9)
    progress = [progressive(model, X, labels) for model, labels in ((worded, y), (ranked, rank))]
    np.testing.assert_array_equal(progress[0].scores, progress[1].scores[:, RANKS])


def test_a_descending_order_of_numbers_is_sorted_too():
    X, _, rank = survey()
    model = OrderedLogit(classes=[4, 3, 2, 1], random_state=0).fit(X, 4 - rank)
    assert (model.classes_.tolist(), model.order_.tolist()) == ([1, 2, 3, 4], [4, 3, 2, 1])
    assert get_scorer("neg_log_loss")(model, X, 4 - rank) > -1.2
    assert (model.predict_cumulative(X).argmax(axis=1) == 3).all()


def test_a_file_keeps_the_order(tmp_path):
    X, y, _ = survey()
    model = OrderedLogit(classes=GRADES, random_state=0).fit(X, y)
    pril.save(model, tmp_path / "m.pril")
    again = pril.load(tmp_path / "m.pril")
    assert (again.order_.tolist(), again.classes_.tolist()) == (GRADES, sorted(GRADES))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def test_categories_of_different_types_are_refused():
    pd = pytest.importorskip("pandas")
    y = pd.Categorical([1, "a", 1, "a"], categories=["a", 1], ordered=True)
    with pytest.raises(TypeError, match=r"y: categories must be all numbers or all strings"):
        pril.PRIL().fit(np.eye(4), y)


# --- scikit-learn's tools ---


PROBABILITY_SCORERS = {
    *("neg_log_loss", "neg_brier_score", "d2_log_loss_score", "d2_brier_score", "top_k_accuracy"),
    *("roc_auc_ovr", "roc_auc_ovo", "roc_auc_ovr_weighted", "roc_auc_ovo_weighted"),
}


@pytest.mark.parametrize("name", sorted(PROBABILITY_SCORERS.intersection(get_scorer_names())))
def test_probability_scorers(name):
    X, y, rank = survey()
    worded, ranked = twins(OrderedLogit)
    found, expected = (
        cross_val_score(model, X, labels, scoring=name, cv=3, error_score="raise")
        for model, labels in ((worded, y), (ranked, rank))
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize("mode", ["folds", "one model", "fitted before"])
@pytest.mark.parametrize("method", ["sigmoid", "isotonic", "temperature"])
@pytest.mark.parametrize("kind", [OrderedLogit, MulticlassPerceptron])
def test_calibration(kind, method, mode):
    if method == "temperature" and not hasattr(sklearn.calibration, "_TemperatureScaling"):
        pytest.skip("scikit-learn 1.8 has it")
    X, y, rank = survey()

    def calibrate(model, labels):
        inside = FrozenEstimator(model.fit(X, labels)) if mode == "fitted before" else model
        wrapper = CalibratedClassifierCV(inside, method=method, ensemble=mode == "folds", cv=3)
        return wrapper.fit(X, labels)

    worded, ranked = twins(kind)
    ranked = calibrate(ranked, rank)
    assert (ranked.predict(X) == rank).mean() > 0.45
    if mode == "one model" or (mode == "folds" and method == "temperature"):
        with pytest.raises(ValueError, match=r"pril\.labels\.ordered"):  # it numbers the words
            calibrate(worded, y)
        return
    worded = calibrate(worded, y)
    expected = ranked.predict_proba(X)[:, RANKS]
    np.testing.assert_allclose(worded.predict_proba(X), expected, rtol=1e-5, atol=1e-8)
    losses = [neg_interval_log_loss_scorer(*case) for case in ((worded, X, y), (ranked, X, rank))]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


def test_the_confusion_matrix():
    X, y, rank = survey()
    worded, ranked = twins(OrderedLogit)
    worded.fit(X, y), ranked.fit(X, rank)
    found = ConfusionMatrixDisplay.from_estimator(worded, X, y)
    expected = ConfusionMatrixDisplay.from_estimator(ranked, X, rank).confusion_matrix
    np.testing.assert_array_equal(found.confusion_matrix, expected[np.ix_(RANKS, RANKS)])
    assert found.display_labels.tolist() == sorted(GRADES)
    ordered = ConfusionMatrixDisplay.from_estimator(worded, X, y, labels=worded.order_)
    np.testing.assert_array_equal(ordered.confusion_matrix, expected)


def test_stacking_learners_that_are_fitted():
    X, y, rank = survey()
    results = []
    for model, labels in zip(twins(OrderedLogit), (y, rank), strict=True):
        final = LogisticRegression(max_iter=1000, tol=1e-10)
        stack = StackingClassifier([("a", model.fit(X, labels))], final, cv="prefit")
        results.append(stack.fit(X, labels).predict_proba(X))
    np.testing.assert_allclose(results[0], results[1][:, RANKS], atol=1e-5)


@pytest.mark.parametrize("wrapper", [OneVsRestClassifier, OutputCodeClassifier])
def test_numbers_in_place_of_words_are_refused_with_the_remedy(wrapper):
    X, y, _ = survey()
    with pytest.raises(ValueError, match=r"meta-estimator .* pril\.labels\.ordered"):
        wrapper(pril.PRIL(classes=GRADES)).fit(X, y)


GIVEN = []


class Recorder(OrderedLogit):
    """Keeps what `fit` was given."""

    def fit(self, X, y, sample_weight=None):
        GIVEN.append((X, y, sample_weight))
        return super().fit(X, y, sample_weight)


@pytest.mark.parametrize(
    "wrapper",
    [
        BaggingClassifier(Recorder(), n_estimators=2, random_state=0),
        VotingClassifier([("a", Recorder())]),
        StackingClassifier([("a", Recorder())], LogisticRegression(), cv=2),
    ],
)
def test_numbers_in_place_of_words_cannot_be_told_from_other_numbers(wrapper):
    """So no learner can warn: it is given the same for words in their order as for numbers."""
    pd = pytest.importorskip("pandas")
    X, y, rank = survey()
    numbers = np.unique(y, return_inverse=True)[1]
    given = []
    for labels in (pd.Categorical.from_codes(rank, GRADES, ordered=True), numbers):
        GIVEN.clear()
        clone(wrapper).fit(X, labels)
        given.append([*GIVEN])
    assert len(given[0]) > 0
    for words, plain in zip(*given, strict=True):
        for one, other in zip(words, plain, strict=True):
            assert type(one) is type(other)
            assert getattr(one, "dtype", None) == getattr(other, "dtype", None)
            np.testing.assert_array_equal(one, other)


# --- Names that keep their order ---

LEARNER = OrderedLogit(random_state=0)
WRAPPERS = {
    "bagging": BaggingClassifier(LEARNER, n_estimators=3, random_state=0),
    "hard voting": VotingClassifier([("a", LEARNER), ("b", pril.PRIL(random_state=0))]),
    "soft voting": VotingClassifier([("a", LEARNER)], voting="soft"),
    "stacking": StackingClassifier([("a", LEARNER)], LogisticRegression(max_iter=1000), cv=3),
    "one against the rest": OneVsRestClassifier(LEARNER),
    "one against one": OneVsOneClassifier(LEARNER),
    "output codes": OutputCodeClassifier(LEARNER, random_state=0),
    # Its weights add up to 1, and alpha counts as rows do.
    "boosting": AdaBoostClassifier(OrderedLogit(alpha=1e-3), n_estimators=2, random_state=0),
    "a search": GridSearchCV(LEARNER, {"max_iter": [50]}, cv=3),
    "a pipeline": make_pipeline(StandardScaler(), LEARNER),
    **{
        f"calibration by {method}, {ensemble=}": CalibratedClassifierCV(
            LEARNER, method=method, ensemble=ensemble, cv=3
        )
        for method in ("sigmoid", "isotonic", "temperature")
        for ensemble in (True, False)
        if method != "temperature" or hasattr(sklearn.calibration, "_TemperatureScaling")
    },
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
@pytest.mark.parametrize("spelling", ["words", "Categorical", "Series"])
def test_wrappers_learn_the_order_of_ordered_names(wrapper, spelling):
    """Whether a wrapper numbers the labels or not, they give what their ranks give."""
    pd = pytest.importorskip("pandas")
    X, y, rank = survey()
    if spelling == "words":
        names = ordered(y, GRADES)
    else:
        names = ordered(pd.Categorical.from_codes(rank, GRADES, ordered=True))
        names = pd.Series(names) if spelling == "Series" else names
    worded, ranked = clone(WRAPPERS[wrapper]).fit(X, names), clone(WRAPPERS[wrapper]).fit(X, rank)
    expected = np.array(["0: poor", "1: fair", "2: good", "3: great"])[ranked.predict(X)]
    np.testing.assert_array_equal(worded.predict(X), expected)
    if hasattr(ranked, "predict_proba"):
        np.testing.assert_array_equal(worded.predict_proba(X), ranked.predict_proba(X))
    error = neg_interval_absolute_error_scorer(worded, X, names)
    assert error == neg_interval_absolute_error_scorer(ranked, X, rank)
    if "against" not in wrapper and "codes" not in wrapper:  # these ignore the order
        assert error > -0.65


def test_out_of_fold_answers_of_ordered_names():
    X, y, rank = survey()
    for method in ("predict_proba", "decision_function"):
        found, expected = (
            cross_val_predict(LEARNER, X, labels, cv=3, method=method)
            for labels in (ordered(y, GRADES), rank)
        )
        np.testing.assert_array_equal(found, expected)


def test_a_meta_estimator_of_ordered_names_knows_their_order():
    X, y, rank = survey()
    model = LogisticRegression().fit(X, ordered(y, GRADES))  # warnings are errors
    twin = LogisticRegression().fit(X, rank)
    found = neg_interval_absolute_error_scorer(model, X, ordered(y, GRADES))
    assert found == neg_interval_absolute_error_scorer(twin, X, rank)


# --- Our own metrics and scorers ---


@pytest.mark.parametrize(
    "scorer",
    [
        interval_accuracy_scorer,
        neg_interval_absolute_error_scorer,
        neg_interval_log_loss_scorer,
    ],
)
def test_our_scorers_find_the_order_inside(scorer):
    X, y, rank = survey()
    worded, ranked = twins(OrderedLogit)
    expected = scorer(ranked.fit(X, rank), X, rank)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (worded, make_pipeline(worded), FrozenEstimator(worded.fit(X, y))):
            assert scorer(model.fit(X, y), X, y) == pytest.approx(expected, rel=1e-12)
        search = GridSearchCV(make_pipeline(StandardScaler(), worded), {}, scoring=scorer, cv=3)
        search.fit(X, y)
        twin = GridSearchCV(make_pipeline(StandardScaler(), ranked), {}, scoring=scorer, cv=3)
        assert search.best_score_ == pytest.approx(twin.fit(X, rank).best_score_, rel=1e-12)
        boosted = AdaBoostClassifier(worded, n_estimators=2, random_state=0).fit(X, y)
        twin = AdaBoostClassifier(ranked, n_estimators=2, random_state=0).fit(X, rank)
        assert scorer(boosted, X, y) == pytest.approx(scorer(twin, X, rank), rel=1e-9)
        if scorer is not neg_interval_log_loss_scorer:
            ranges = PredictionRanges(FrozenEstimator(worded)).fit(X, y)
            assert scorer(ranges, X, y) == pytest.approx(expected, rel=1e-12)


def test_a_classifier_that_knows_no_order_is_warned_of():
    X, y, _ = survey()
    with pytest.warns(ClassOrderWarning, match=r"LogisticRegression does not know the order"):
        neg_interval_absolute_error_scorer(LogisticRegression().fit(X, y), X, y)


@pytest.mark.parametrize("metric", [interval_log_loss, ranked_probability_score, calibration_error])
def test_metrics_take_probabilities_as_predict_proba_gives_them(metric):
    X, y, rank = survey()
    worded, ranked = twins(OrderedLogit)
    proba = worded.fit(X, y).predict_proba(X)
    expected = metric(rank, ranked.fit(X, rank).predict_proba(X), classes=range(4))
    assert metric(y, proba, classes=worded.order_) == pytest.approx(expected, rel=1e-12)


# --- Out-of-fold probabilities ---


def ranges_of(rank):
    """Return each rank as a range of two words, one end sometimes open, and as ranks."""
    low = np.maximum(rank - np.arange(len(rank)) % 2, 0)
    words = np.column_stack([np.array(GRADES, dtype=object)[ends] for ends in (low, rank)])
    words[rank == 3, 1] = None
    words[5] = None, None
    return words, low


def test_out_of_fold_probabilities_of_ranges():
    X, _, rank = survey()
    words, low = ranges_of(rank)
    model = OrderedLogit(classes=GRADES, random_state=0)
    folds = KFold(3, shuffle=True, random_state=0)
    proba = cross_val_proba(make_pipeline(StandardScaler(), model), X, words, cv=folds)
    for train, test in folds.split(X):
        scaler = StandardScaler().fit(X[train])
        fitted = clone(model).fit(scaler.transform(X[train]), words[train])
        expected = fitted.predict_proba(scaler.transform(X[test]))
        np.testing.assert_array_equal(proba[test], expected)
    assert interval_log_loss(words, proba, classes=GRADES) < 0.7
    ranks = np.column_stack([low, rank])
    assert cross_val_proba(model.set_params(classes=range(4)), X, ranks, cv=3).shape == (300, 4)


def test_out_of_fold_probabilities_of_exact_labels_are_scikit_learns():
    X, y, rank = survey()
    worded, ranked = twins(OrderedLogit)
    expected = cross_val_predict(ranked, X, rank, cv=3, method="predict_proba")
    np.testing.assert_array_equal(cross_val_proba(ranked, X, rank, cv=3), expected)
    np.testing.assert_array_equal(cross_val_proba(worded, X, y, cv=3), expected[:, RANKS])


def test_a_class_that_a_fold_lacks_has_a_column():
    X, _, rank = survey()
    order = np.argsort(rank, kind="stable")
    proba = cross_val_proba(OrderedLogit(random_state=0), X[order], rank[order], cv=KFold(4))
    assert proba.shape == (300, 4)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)


def test_out_of_fold_probabilities_refuse():
    X, y, rank = survey()
    with pytest.raises(TypeError, match=r"learner of pril with predict_proba.*got PRIL"):
        cross_val_proba(pril.PRIL(), X, rank)
    with pytest.raises(ValueError, match="every row into one test fold"):
        cross_val_proba(OrderedLogit(), X, rank, cv=TimeSeriesSplit(3))
    y = y.astype(object)
    y[290] = "superb"
    with pytest.raises(ValueError, match=r"y, row 290: 'superb' is not one of the classes"):
        cross_val_proba(OrderedLogit(classes=GRADES), X, y)
