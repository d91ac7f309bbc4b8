"""pril with the tools people already use: each test is a line of docs/guide/pipelines.md."""

import pickle
from collections import Counter

import joblib
import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas as pd
import polars as pl
import pytest
import sklearn
import skops.io
from imblearn.over_sampling import RandomOverSampler
from imblearn.pipeline import make_pipeline as make_sampling_pipeline
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.feature_selection import (
    RFE,
    RFECV,
    SelectFromModel,
    SequentialFeatureSelector,
)
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import PartialDependenceDisplay, partial_dependence, permutation_importance
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import ConfusionMatrixDisplay, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    RandomizedSearchCV,
    StratifiedGroupKFold,
    StratifiedKFold,
    TunedThresholdClassifierCV,
    check_cv,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    learning_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.fixes import parse_version

import pril
from pril import MPRIL, PRIL, ColumnEncoder, KernelPRIL, OrderedLogit, PRank, WidrowHoff
from pril.labels import to_ranks
from pril.metrics import interval_accuracy_scorer

GRADES = ["poor", "fair", "good", "great"]  # not in alphabetical order


def survey(n=400, seed=0):
    """Rows, ranges of grades, and the true ranks."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    rank = np.digitize(X @ [2.0, -1.0, 0.5] + rng.normal(scale=0.3, size=n), [-2.0, 0.0, 2.0])
    low, high = np.maximum(rank - rng.integers(0, 2, n), 0), rank + 0
    names = np.array(GRADES, dtype=object)
    return X, np.column_stack([names[low], names[high]]), rank


def learner():
    return PRIL(classes=range(4), random_state=0)


# --- Meta-estimators that number the labels themselves ---


@pytest.mark.parametrize(
    "wrapped",
    [
        lambda: BaggingClassifier(learner(), n_estimators=5, random_state=0),
        lambda: VotingClassifier([("a", learner()), ("b", learner())]),
        lambda: StackingClassifier([("a", learner())], LogisticRegression(max_iter=1000), cv=3),
        lambda: BaggingClassifier(OrderedLogit(classes=range(4)), n_estimators=3, random_state=0),
        lambda: VotingClassifier([("a", OrderedLogit(classes=range(4)))], voting="soft"),
    ],
)
def test_meta_estimators_learn_ranks(wrapped):
    X, _, rank = survey()
    y = pd.Categorical.from_codes(rank, GRADES, ordered=True)
    alone = PRIL(random_state=0).fit(X, y).score(X, y)
    ranks = to_ranks(y, exact=True)
    assert wrapped().fit(X, ranks).score(X, ranks) > alone - 0.05


@pytest.mark.parametrize(
    "wrapped",
    [
        BaggingClassifier(PRIL(classes=GRADES)),
        VotingClassifier([("a", PRIL(classes=GRADES))]),
        StackingClassifier([("a", PRIL(classes=GRADES))]),
    ],
)
def test_meta_estimators_that_number_labels_are_named_in_the_error(wrapped):
    X, _, rank = survey()
    with pytest.raises(ValueError, match=r"meta-estimator .* pril\.labels\.ordered"):
        wrapped.fit(X, np.array(GRADES)[rank])


def test_margins_of_ranks_are_in_the_order_of_the_classes():
    X, _, rank = survey()
    y = pd.Categorical.from_codes(rank, GRADES, ordered=True)
    margins = cross_val_predict(learner(), X, to_ranks(y, exact=True), method="decision_function")
    assert (margins.argmax(axis=1) == rank).mean() > 0.8


def numbers(y):
    """The ranks of ranges, NaN for an open end."""
    return np.array([[GRADES.index(end) if end else np.nan for end in ends] for ends in y])


@pytest.mark.filterwarnings("ignore:invalid value encountered in cast")  # scikit-learn's
def test_integer_cv_and_stratified_folds_take_ranks():
    X, y, rank = survey()
    open_ended = y.copy()
    open_ended[::7, 1] = None
    for y, said in ((open_ended, "'<' not supported"), (numbers(open_ended), "contains NaN")):
        with pytest.raises((TypeError, ValueError), match=said):  # as the guide to pitfalls quotes
            cross_val_score(learner(), X, y, cv=5)
    scores = cross_val_score(learner(), X, to_ranks(open_ended, GRADES), cv=5)
    assert scores.mean() > 0.85
    splitter = cross_val_score(PRIL(classes=GRADES, random_state=0), X, open_ended, cv=KFold(5))
    assert splitter.mean() > 0.85
    ranks = to_ranks(np.array(GRADES)[rank], GRADES, exact=True)
    for _, fold in StratifiedKFold(4).split(X, ranks):  # each has a quarter of every grade
        assert (np.abs(np.bincount(rank[fold], minlength=4) - np.bincount(rank) / 4) <= 1).all()


# --- Inspecting models ---


def test_the_score_of_a_pipeline_takes_two_lines():
    X, y, _ = survey()
    model = make_pipeline(StandardScaler(), PRIL(classes=GRADES, random_state=0)).fit(X, y)
    features = model[:-1].transform(X)
    scores = model[-1].latent(features)
    rank = np.searchsorted(model[-1].thresholds_, scores, side="right")
    np.testing.assert_array_equal(np.array(GRADES, dtype=object)[rank], model.predict(X))


@pytest.mark.parametrize("kind", [PRIL, PRank, MPRIL, OrderedLogit, WidrowHoff])
def test_score_is_weights_and_intercept(kind):
    X, _, rank = survey()
    X /= np.abs(X).max()
    for model in [
        kind().fit(X, rank),
        *([kind(signed=False).fit(X, rank)] if kind is MPRIL else []),
    ]:
        scores = X @ model.coef_ + model.intercept_
        np.testing.assert_allclose(model.latent(X), scores, atol=1e-9)
        assert isinstance(model.intercept_, float)
        assert (model.intercept_ == 0.0) == (kind is not WidrowHoff)


@pytest.mark.parametrize("kind", [PRIL, PRank, MPRIL, OrderedLogit, WidrowHoff, KernelPRIL])
def test_errors_about_arguments_name_the_class(kind):
    owner = next(base.__name__ for base in kind.__mro__ if "__init__" in vars(base))
    with pytest.raises(TypeError, match=rf"^{owner}\.__init__\(\) got an unexpected .*'colour'"):
        kind(colour=1)
    with pytest.raises(TypeError, match=rf"^{owner}\.__init__\(\) takes 1 positional"):
        kind([1, 2])
    assert clone(kind(max_iter=3)).max_iter == 3


# --- scikit-learn: composing, choosing and explaining models ---


def test_pipelines_column_transformers_and_frames():
    X, y, _ = survey()
    frame = pd.DataFrame(X, columns=list("abc")).assign(town=np.where(X[:, 0] > 0, "Rome", "Oslo"))
    columns = make_column_transformer((StandardScaler(), list("abc")), (OneHotEncoder(), ["town"]))
    model = make_pipeline(columns, PRIL(classes=GRADES, random_state=0)).fit(frame, y)
    assert model.score(frame, y) > 0.9
    named = make_pipeline(StandardScaler(), PRIL(classes=GRADES)).set_output(transform="pandas")
    assert named.fit(frame[["a", "b"]], y)[-1].feature_names_in_.tolist() == ["a", "b"]


@pytest.mark.parametrize("search", [GridSearchCV, RandomizedSearchCV])
def test_searches(search):
    X, y, _ = survey()
    options = {"n_iter": 2} if search is RandomizedSearchCV else {}
    model = PRIL(classes=GRADES, random_state=0)
    grid = {"max_iter": [1, 5], "average": [True, False]}
    found = search(model, grid, cv=KFold(3), scoring=interval_accuracy_scorer, **options).fit(X, y)
    assert found.best_score_ > 0.8


def open_survey():
    """Rows, and ranks of ranges with open ends in one column of pairs and in two columns."""
    X, y, _ = survey()
    y[::7, 1] = None
    return X, *(to_ranks(y, GRADES, one_column=one) for one in (True, False))


def test_successive_halving_on_pairs():
    X, pairs, ranks = open_survey()
    grid = {"max_iter": [1, 5], "average": [True, False]}
    options = {"scoring": interval_accuracy_scorer, "random_state": 0}
    found = HalvingGridSearchCV(learner(), grid, cv=3, **options).fit(X, pairs)
    assert found.best_score_ > 0.8
    best = clone(learner()).set_params(**found.best_params_).fit(X, ranks)
    np.testing.assert_array_equal(found.best_estimator_.coef_, best.coef_)
    with pytest.raises(ValueError, match="y should be a 1d array"):  # two columns are refused
        HalvingGridSearchCV(learner(), grid, cv=3, **options).fit(X, ranks)


def test_integer_folds_of_pairs_are_stratified_by_range():
    X, pairs, ranks = open_survey()
    assert cross_validate(learner(), X, pairs, cv=5)["test_score"].mean() > 0.85
    kinds = [tuple(pair) for pair in ranks.tolist()]
    for train, test in check_cv(4, pairs, classifier=True).split(X, pairs):
        fold = Counter(kinds[t] for t in test)
        assert all(abs(fold[kind] - n / 4) <= 1 for kind, n in Counter(kinds).items())
        again, straight = (clone(learner()).fit(X[train], y[train]) for y in (pairs, ranks))
        np.testing.assert_array_equal(again.coef_, straight.coef_)


@pytest.mark.parametrize("selector", [RFECV, SequentialFeatureSelector])
def test_selecting_features_by_cross_validation_on_pairs(selector):
    X, pairs, _ = open_survey()
    X = np.hstack([X, np.random.default_rng(1).normal(size=X.shape)])
    chosen = selector(learner(), cv=3, scoring=interval_accuracy_scorer).fit(X, pairs)
    assert chosen.get_support()[:2].all()


@pytest.mark.filterwarnings("default")  # dask-ml's own
def test_incremental_of_dask_ml_on_pairs():
    wrappers = pytest.importorskip("dask_ml.wrappers")
    da = pytest.importorskip("dask.array")
    X, pairs, ranks = open_survey()
    wrapped = wrappers.Incremental(learner(), shuffle_blocks=False)
    wrapped.fit(da.from_array(X, chunks=(100, 3)), da.from_array(pairs, chunks=100))
    straight = learner().partial_fit(X, ranks)
    np.testing.assert_array_equal(wrapped.estimator_.coef_, straight.coef_)


def test_selecting_features():
    X, y, _ = survey()
    X = np.hstack([X, np.random.default_rng(1).normal(size=X.shape)])
    ranks = to_ranks(y, GRADES)
    assert RFE(learner(), n_features_to_select=3).fit(X, ranks).support_[:2].all()
    kept = SelectFromModel(PRIL(classes=GRADES, random_state=0), max_features=2).fit(X, y)
    assert kept.get_support().tolist() == [True, True, False, False, False, False]


def test_explaining_models():
    X, y, rank = survey()
    model = PRIL(classes=GRADES, random_state=0).fit(X, y)
    importance = permutation_importance(model, X, y, n_repeats=3, random_state=0)
    assert importance.importances_mean.argmax() == 0
    curves = partial_dependence(model, X, [0], response_method="decision_function")
    highest, lowest = (curves["average"][model.classes_.tolist().index(k)] for k in GRADES[::-3])
    slopes = np.diff(highest) / np.diff(curves["grid_values"][0])  # its margin is f - theta_3
    np.testing.assert_allclose(slopes, model.coef_[0])
    np.testing.assert_allclose(highest + lowest, model.thresholds_[0] - model.thresholds_[-1])
    exact = np.array(GRADES)[rank]
    matrix = ConfusionMatrixDisplay.from_estimator(model, X, exact).confusion_matrix
    pairs = Counter(zip(exact, model.predict(X), strict=True))
    assert matrix.tolist() == [[pairs[a, b] for b in sorted(GRADES)] for a in sorted(GRADES)]
    sizes, _, scores = learning_curve(model, X, y, cv=KFold(3))
    for k, (train, test) in enumerate(KFold(3).split(X)):
        for size, score in zip(sizes, scores[:, k], strict=True):
            again = clone(model).fit(X[train[:size]], y[train[:size]])
            assert score == again.score(X[test], y[test])
    plt.close("all")


def test_the_curve_of_one_class_is_drawn():
    X, y, _ = survey()
    frame = pd.DataFrame(X, columns=list("abc"))
    model = OrderedLogit(classes=GRADES).fit(frame, y)
    shown = PartialDependenceDisplay.from_estimator(model, frame, ["a"], target="great")
    assert (np.diff(shown.lines_[0, 0].get_ydata()) > 0).all()  # its weight is positive


def test_folds_of_groups_stratified_by_range():
    X, pairs, _ = open_survey()
    groups = np.arange(len(X)) // 10
    splitter = StratifiedGroupKFold(4)
    scores = cross_val_score(learner(), X, pairs, cv=splitter, groups=groups)
    assert scores.mean() > 0.85
    for train, test in splitter.split(X, pairs, groups):
        assert not set(groups[train]) & set(groups[test])


def test_metadata_are_routed():
    """Rows of weight 0 are left out, and groups reach the learner and the splitter."""
    X, y, _ = survey()
    weight = np.where(np.arange(len(X)) < 300, 1.0, 0.0)
    scaled = StandardScaler().fit(X[:300])
    with sklearn.config_context(enable_metadata_routing=True):
        steps = (
            StandardScaler().set_fit_request(sample_weight=True),
            OrderedLogit(classes=GRADES).set_fit_request(sample_weight=True),
        )
        model = make_pipeline(*steps).fit(X, y, sample_weight=weight)
        boosting = pril.OrderedBoosting(classes=GRADES, max_iter=5, random_state=0)
        boosting.set_fit_request(groups=True)
        groups = np.arange(len(X)) // 10
        search = GridSearchCV(boosting, {"max_leaf_nodes": [4]}, cv=GroupKFold(2))
        found = search.fit(X, y, groups=groups)
        direct = clone(boosting).set_params(max_leaf_nodes=4).fit(X, y, groups=groups)
    alone = OrderedLogit(classes=GRADES).fit(scaled.transform(X[:300]), y[:300])
    np.testing.assert_allclose(model[-1].coef_, alone.coef_, rtol=1e-6)
    np.testing.assert_array_equal(found.predict(X), direct.predict(X))


def test_a_fitted_model_of_words_is_calibrated_and_stacked():
    X, y, rank = survey()
    words = np.array(GRADES, dtype=object)[rank]
    fitted = PRIL(classes=GRADES, random_state=0).fit(X, y)
    alone = fitted.score(X, words)
    calibrated = CalibratedClassifierCV(FrozenEstimator(fitted)).fit(X, words)
    stacked = StackingClassifier([("a", fitted)], LogisticRegression(max_iter=1000), cv="prefit")
    for model in (calibrated, stacked.fit(X, words)):
        assert model.score(X, words) > alone - 0.1


def test_calibrating_and_one_class_against_the_rest():
    X, _, rank = survey()
    calibrated = CalibratedClassifierCV(learner(), cv=3).fit(X, rank)
    known = np.bincount(rank) / len(X)  # what a model without features would say
    assert log_loss(rank, calibrated.predict_proba(X)) < 0.6 * -(known * np.log(known)).sum()
    assert OneVsRestClassifier(PRIL(random_state=0)).fit(X, rank).score(X, rank) > 0.5
    boosted = AdaBoostClassifier(learner(), n_estimators=3, random_state=0).fit(X, rank)
    assert boosted.score(X, rank) > 0.7


def test_two_classes_with_a_tuned_threshold():
    X, _, rank = survey()
    two = (rank > 1).astype(int)
    tuned = TunedThresholdClassifierCV(PRIL(random_state=0), cv=3).fit(X, two)
    assert tuned.score(X, two) > 0.9


def test_self_training_is_not_needed():
    """Rows without a label may stay in y; scikit-learn's wrapper wants exact ranks, and -1 there."""
    X, _, rank = survey()
    y = [grade if t % 3 == 0 else None for t, grade in enumerate(np.array(GRADES)[rank])]
    some = np.nan_to_num(to_ranks(y, GRADES)[:, 0], nan=-1).astype(int)
    wrapped = SelfTrainingClassifier(OrderedLogit(classes=range(4))).fit(X, some)
    assert wrapped.score(X, rank) > 0.8
    direct = OrderedLogit(classes=GRADES).fit(X, y)
    used = OrderedLogit(classes=range(4)).fit(X[some >= 0], rank[some >= 0])
    assert direct.t_ == used.t_


# --- Other libraries ---


def test_joblib_and_pickle(tmp_path):
    X, y, _ = survey()
    model = PRIL(classes=GRADES, random_state=0).fit(X, y)
    joblib.dump(model, tmp_path / "model.joblib")
    again = joblib.load(tmp_path / "model.joblib")
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).coef_, model.coef_)  # noqa: S301
    parts = joblib.Parallel(2)(joblib.delayed(model.predict)(part) for part in np.split(X, 4))
    np.testing.assert_array_equal(np.concatenate(parts), model.predict(X))


def test_skops_with_our_trusted_types():
    X, y, _ = survey()
    model = make_pipeline(StandardScaler(), PRIL(classes=GRADES, random_state=0)).fit(X, y)
    data = skops.io.dumps(model)
    assert set(skops.io.get_untrusted_types(data=data)) <= set(pril.io.trusted_types())
    again = skops.io.loads(data, trusted=pril.io.trusted_types())
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_eli5_explains_permutation_importance():
    eli5 = pytest.importorskip("eli5")
    X, y, _ = survey()
    model = PRIL(classes=GRADES, random_state=0).fit(X, y)
    importance = eli5.sklearn.PermutationImportance(model, random_state=0).fit(X, y)
    weights = eli5.explain_weights(importance).feature_importances.importances
    assert len(weights) == X.shape[1]
    assert weights[0].weight == importance.feature_importances_.max()


def test_mlflow_with_our_trusted_types(tmp_path):
    mlflow = pytest.importorskip(
        "mlflow", reason="MLflow pins older libraries: run this on its own"
    )
    X, y, _ = survey()
    model = make_pipeline(StandardScaler(), PRIL(classes=GRADES, random_state=0)).fit(X, y)
    path = str(tmp_path / "model")
    mlflow.sklearn.save_model(model, path, skops_trusted_types=pril.io.trusted_types())
    np.testing.assert_array_equal(mlflow.sklearn.load_model(path).predict(X), model.predict(X))


def test_polars_and_pyarrow_tables_are_rows_and_labels():
    X, y, _ = survey()
    expected = PRIL(classes=GRADES, random_state=0).fit(X, y)
    frame = pl.DataFrame(X, schema=["a", "b", "c"])
    labels = pl.DataFrame(y.tolist(), schema=["low", "high"], orient="row")
    for rows, y in ((frame, labels), (frame, labels.to_arrow())):
        model = PRIL(classes=GRADES, random_state=0).fit(rows, y)
        np.testing.assert_array_equal(model.coef_, expected.coef_)
        if parse_version(sklearn.__version__) >= parse_version("1.8"):  # which knows polars 2
            assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    encoded = make_pipeline(ColumnEncoder(), PRIL(classes=GRADES)).fit(frame.to_arrow(), labels)
    assert encoded.score(frame.to_arrow(), labels) > 0.9


def test_imbalanced_learn_repeats_rows_with_exact_labels():
    X, _, rank = survey()
    model = make_sampling_pipeline(RandomOverSampler(random_state=0), learner()).fit(X, rank)
    assert model[-1].t_ >= 4 * np.bincount(rank).max()


def test_shap_explains_the_score():
    shap = pytest.importorskip("shap")
    X, y, _ = survey()
    model = PRIL(classes=GRADES, random_state=0).fit(X, y)
    explainer = shap.LinearExplainer((model.coef_, model.intercept_), X)
    values = explainer.shap_values(X)
    np.testing.assert_allclose(values.sum(axis=1) + explainer.expected_value, model.latent(X))
    assert shap.LinearExplainer(model, X).shap_values(X).shape == X.shape


def with_towns():
    """A table with a column of words, and ranges of grades."""
    X, y, _ = survey()
    table = pd.DataFrame(X, columns=list("abc"))
    return table.assign(town=np.where(np.arange(len(X)) % 3 == 0, "Rome", "Oslo")), y


def test_shap_explains_words_of_a_linear_model():
    """The columns of the encoder are explained, and those of a column's words are added up."""
    shap = pytest.importorskip("shap")
    table, y = with_towns()
    model = make_pipeline(ColumnEncoder(), OrderedLogit(classes=GRADES, random_state=0))
    features = model.fit(table, y)[:-1].transform(table)
    explainer = shap.LinearExplainer(model[-1], features)
    values = explainer.shap_values(features)
    names = model[0].get_feature_names_out()
    columns = pd.DataFrame(values, columns=[str(name).partition("=")[0] for name in names])
    by_column = columns.T.groupby(level=0).sum().T
    assert sorted(by_column) == ["a", "b", "c", "town"]
    scores = model[-1].latent(features)
    np.testing.assert_allclose(by_column.sum(axis=1) + explainer.expected_value, scores)


@pytest.mark.slow
@pytest.mark.filterwarnings("default")  # shap's own
def test_shap_explains_categories_of_boosting():
    shap = pytest.importorskip("shap")
    table, y = with_towns()
    encoder = ColumnEncoder(codes=True)
    codes = encoder.fit_transform(table)
    options = {"categorical_features": [3], "max_iter": 5, "random_state": 0}
    model = pril.OrderedBoosting(classes=GRADES, **options).fit(codes, y)
    explainer = shap.PermutationExplainer(model.latent, shap.maskers.Independent(codes, 20), seed=0)
    found = explainer(codes[:5])
    assert found.values.shape == (5, 4)  # one value for a column of words
    total = found.values.sum(axis=1) + found.base_values
    np.testing.assert_allclose(total, model.latent(codes[:5]), atol=1e-6)


def test_optuna_searches_parameters():
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    X, y, _ = survey()

    def score(trial):
        model = PRIL(classes=GRADES, max_iter=trial.suggest_int("max_iter", 1, 5), random_state=0)
        return cross_val_score(model, X, y, cv=KFold(3)).mean()

    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.RandomSampler(0))
    study.optimize(score, n_trials=3)
    assert study.best_value > 0.85
