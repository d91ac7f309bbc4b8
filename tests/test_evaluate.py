"""Progressive evaluation as a user sees it (its rounds are tested with the loop); the bootstrap."""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, make_column_transformer
from sklearn.frozen import FrozenEstimator
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    RobustScaler,
    StandardScaler,
)

import reference
from pril import MPRIL, PRIL, ColumnEncoder, MulticlassPerceptron, OrderedLogit
from pril.evaluate import bootstrap, progressive
from pril.inference import infer
from pril.labels import make_intervals
from pril.metrics import interval_absolute_error
from pril.paper.datasets import make_synthetic

X = np.array([[0.5], [-0.5], [0.25], [-0.25]])
y = [(2, 3), (1, 1), (None, 2), (1, 2)]


def test_it_learns_and_goes_on():
    whole, halves = PRIL(classes=[1, 2, 3]), PRIL(classes=[1, 2, 3])
    at_once = progressive(whole, X, y)
    first, second = progressive(halves, X[:2], y[:2]), progressive(halves, X[2:], y[2:])
    np.testing.assert_array_equal(
        at_once.predictions, np.concatenate([first.predictions, second.predictions])
    )
    np.testing.assert_array_equal(whole.coef_, halves.coef_)
    assert at_once.running_loss[-1] == interval_absolute_error(
        y, at_once.predictions, classes=[1, 2, 3]
    )


def test_running_means_are_of_the_rows_with_a_label():
    gaps = [(None, None), *y[:2], (None, None), *y[2:]]
    progress = progressive(PRIL(classes=[1, 2, 3]), np.insert(X, [0, 2], 0.0, axis=0), gaps)
    labelled = [1, 2, 4, 5]
    for values, means in (
        (progress.losses, progress.running_loss),
        (progress.hinge_losses, progress.running_hinge_loss),
    ):
        assert np.isnan(means[0])
        np.testing.assert_array_equal(means[labelled], np.cumsum(values[labelled]) / range(1, 5))
        assert means[3] == means[2]
    assert progress.labelled.nonzero()[0].tolist() == labelled


def test_scores_have_one_column_a_class_where_the_learner_has():
    assert progressive(PRIL(), X, y, [1, 2, 3]).scores.shape == (4,)
    assert progressive(MulticlassPerceptron(), X, y, [1, 2, 3]).scores.shape == (4, 3)


def test_a_failure_changes_nothing():
    model = PRIL(classes=[1, 2, 3])
    with pytest.raises(ValueError, match="y, row 3: 9 is not one of the classes"):
        progressive(model, X, [1, 2, 3, 9])
    assert not hasattr(model, "classes_")
    with pytest.raises(ValueError, match="no rows"):
        progressive(model, np.empty((0, 1)), [])


def test_a_fitted_model_takes_no_rows_as_no_rounds():
    model = PRIL(classes=[1, 2, 3]).partial_fit(X, y)
    assert len(progressive(model, np.empty((0, 1)), []).predictions) == 0


def test_what_it_cannot_run_is_refused():
    with pytest.raises(TypeError, match="the learners of this package, got Pipeline"):
        progressive(make_pipeline(StandardScaler(), PRIL()), X, y)
    with pytest.raises(ValueError, match="The 'rate' parameter of MPRIL must be"):
        progressive(MPRIL(rate=-1.0, classes=[1, 2, 3]), X, y)


# --- Uncertainty ----------------------------------------------------------------------------------


def test_marginal_effects_are_the_slopes_of_the_probabilities():
    X, y = make_synthetic(80, random_state=0)
    words = np.array(["poor", "fair", "good", "great", "best"], dtype=object)
    model = OrderedLogit(classes=words, random_state=0).fit(X, words[y - 1])
    effects = model.marginal_effects(X)
    step = 1e-5 * np.eye(2)
    slopes = [
        np.mean(model.predict_proba(X + h) - model.predict_proba(X - h), axis=0) / 2e-5
        for h in step
    ]
    np.testing.assert_allclose(effects, slopes, atol=1e-8)
    np.testing.assert_allclose(effects.sum(axis=1), 0.0, atol=1e-12)


def test_the_bootstrap_is_the_spread_of_models_of_resampled_rows():
    X, exact = make_synthetic(60, random_state=1)
    y = make_intervals(exact, fraction=0.5, random_state=1)
    y = np.vstack([y, [[np.nan, np.nan]]])  # a row without a label is never drawn
    X = np.vstack([X, [[9.0, 9.0]]])
    model = make_pipeline(StandardScaler(), OrderedLogit(random_state=0))
    table = bootstrap(model, X, y, n_resamples=5, level=0.5, random_state=3).to_frame()

    def numbers(fitted, rows):  # effects are averaged over the rows that the model learned from
        scaler, learner = fitted[0], fitted[1]
        effects = learner.marginal_effects(scaler.transform(X[rows])).T / scaler.scale_
        return [*learner.coef_ / scaler.scale_, *learner.thresholds_, *effects.T.ravel()]

    rng, samples = np.random.RandomState(3), []
    for _ in range(5):
        rows = rng.choice(60, size=60)
        again = clone(model).set_params(orderedlogit__classes=range(1, 6)).fit(X[rows], y[rows])
        samples.append(numbers(again, rows))
    whole = numbers(clone(model).fit(X[:60], y[:60]), slice(60))
    ends = [
        reference.corrected(*pair, 0.5) for pair in zip(np.transpose(samples), whole, strict=True)
    ]
    np.testing.assert_allclose(table[["lower", "upper"]], ends)
    np.testing.assert_allclose(table["std_error"], np.std(samples, axis=0, ddof=1))
    np.testing.assert_allclose(table["estimate"], whole)
    assert table["term"].value_counts().to_dict() == {"effect": 10, "threshold": 4, "weight": 2}


def test_the_table_of_the_bootstrap_names_its_terms_from_the_lowest_class_on():
    X, y = make_synthetic(60, random_state=0)
    words = np.array(["poor", "fair", "good", "great", "best"], dtype=object)
    model = OrderedLogit(classes=words, random_state=0)
    frame = pd.DataFrame(X, columns=["a", "b"])
    table = bootstrap(model, frame, words[y - 1], n_resamples=2, random_state=0).to_frame()
    assert table["feature"].tolist() == [*"ab", *[None] * 4, *["a"] * 5, *["b"] * 5]
    assert table["class"].tolist() == [None, None, *words[:4], *words, *words]
    model.fit(frame, words[y - 1])
    effects = pd.DataFrame(model.marginal_effects(frame), columns=model.classes_)[words]
    np.testing.assert_array_equal(table["estimate"][6:], effects.to_numpy().ravel())
    assert [term[1] for term in bootstrap(OrderedLogit(), X, y, n_resamples=2).terms[:2]] == [
        "0",
        "1",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_resamples": 1}, "n_resamples must be an integer of at least 2, got 1"),
        ({"n_resamples": 2.5}, "n_resamples must be an integer of at least 2, got 2.5"),
        ({"level": 0.0}, "level must be above 0 and below 1, got 0.0"),
        ({"level": "most"}, "level must be above 0 and below 1, got 'most'"),
        ({"level": 1.0}, "level must be above 0 and below 1, got 1.0"),
        ({"estimator": PRIL()}, "estimator must be an OrderedLogit.* got PRIL"),
        ({"estimator": FrozenEstimator(OrderedLogit())}, r"got FrozenEstimator\(OrderedLogit\)"),
        ({"groups": [1, 2, 3]}, "groups has 3 values, expected one for each of 20 rows"),
        ({"groups": ["a"] * 20}, "groups must name at least 2 groups of rows to draw from, got 1"),
        ({"groups": ["a", "b"] * 9 + [None] * 2}, "groups, row 18: the group is missing"),
        ({"groups": [1.0, np.nan] * 10}, "groups, row 1: the group is missing"),
        ({"groups": np.ones((20, 2))}, "groups should be a 1d array"),
        ({"groups": ["a", 1] * 10}, "groups, row 1: labels must be all numbers or all strings"),
        (
            {"estimator": OrderedLogit(classes=[1, 2]), "y": [None] * 20},
            "there is no row with a label",
        ),
        (
            {"groups": [1, 2] * 10, "y": [np.nan, 3] * 10, "estimator": OrderedLogit(classes=[3])},
            "got 1",
        ),
        ({"sample_weight": [1.0] * 3}, r"sample_weight has shape \(3,\), expected \(20,\)"),
        ({"sample_weight": [1.0] * 19 + [-1.0]}, "sample_weight, row 19: -1.0 is not a weight"),
        ({"sample_weight": [np.nan] * 20}, "sample_weight, row 0: nan is not a weight"),
        ({"sample_weight": [0.0] * 20}, "sample_weight is zero for every row"),
        ({"sample_weight": [1.0] + [0.0] * 19}, r"sample \d+ of 200 .*sample_weight is zero for"),
    ],
)
def test_the_bootstrap_refuses(arguments, message):
    X, y = make_synthetic(20, random_state=0)
    with pytest.raises((ValueError, TypeError), match=message):
        bootstrap(**{"estimator": OrderedLogit(), "X": X, "y": y, **arguments})


# --- Rows that belong together, and rows of different weight ---


def ordered_logit_by_newton(X, y, weights, n_classes):
    """The maximum of the likelihood, the scores of its rows, and minus its second derivatives.

    Parameters are the weights and the thresholds; derivatives are taken numerically.
    """
    d = X.shape[1]

    def log_likelihoods(parameters):
        cut = np.concatenate([[-np.inf], parameters[d:], [np.inf]])
        score = X @ parameters[:d]
        above, below = expit(cut[y + 1] - score), expit(cut[y] - score)
        return weights * np.log(above - below)

    def scores(parameters, step=1e-5):
        moves = step * np.eye(len(parameters))
        return np.column_stack([
            (log_likelihoods(parameters + move) - log_likelihoods(parameters - move)) / (2 * step)
            for move in moves
        ])  # fmt: skip

    parameters = np.concatenate([np.zeros(d), np.linspace(-1.0, 1.0, n_classes - 1)])
    for _ in range(25):
        moves = 1e-4 * np.eye(len(parameters))
        information = -np.array([
            (scores(parameters + move) - scores(parameters - move)).sum(axis=0) / 2e-4
            for move in moves
        ])  # fmt: skip
        parameters = parameters + np.linalg.solve(information, scores(parameters).sum(axis=0))
    return parameters, scores(parameters), information


def households(n_groups=80, size=6):
    """Rows of households: one feature is shared by a household, and so is half of the noise."""
    rng = np.random.default_rng(5)
    household = np.repeat(np.arange(n_groups), size)
    shared = rng.normal(size=n_groups)[household]
    own = rng.normal(size=len(household))
    latent = shared + 0.5 * own + rng.logistic(size=n_groups)[household] * 1.5
    y = np.digitize(latent + rng.logistic(size=len(household)), [-1.0, 1.0])
    weights = rng.uniform(0.5, 2.0, len(household))
    return np.column_stack([shared, own]), y, household, weights


def test_groups_and_weights_give_the_cluster_robust_standard_errors():
    """The bootstrap estimates what the sandwich formula (CR0) of maximum likelihood does."""
    X, y, household, weights = households()
    best, scores, information = ordered_logit_by_newton(X, y, weights, 3)
    bread = np.linalg.inv(information)

    def sandwich(scores):
        return np.sqrt(np.diag(bread @ scores.T @ scores @ bread))[:2]

    by_household = np.array([scores[household == g].sum(axis=0) for g in np.unique(household)])
    clustered, robust = sandwich(by_household), sandwich(scores)
    assert clustered[0] > 1.7 * robust[0]  # the shared feature has fewer independent values
    model = OrderedLogit(max_iter=200, random_state=0)
    options = {"sample_weight": weights, "n_resamples": 60, "random_state": 0}
    result = bootstrap(model, X, y, groups=household, **options)
    # It learns online, and comes near the maximum, by a fraction of a standard error.
    np.testing.assert_allclose(result.estimate[:4], best, atol=0.3 * clustered.min())
    np.testing.assert_allclose(result.std_error[:2], clustered, rtol=0.3)
    alone = bootstrap(model, X, y, **options)
    np.testing.assert_allclose(alone.std_error[:2], robust, rtol=0.3)


def test_statsmodels_finds_the_same_on_exact_labels():
    ordinal_model = pytest.importorskip("statsmodels.miscmodels.ordinal_model")
    X, y, _, _ = households()
    fitted = ordinal_model.OrderedModel(y, X, distr="logit")
    plain = fitted.fit(method="bfgs", disp=False)
    best, _, information = ordered_logit_by_newton(X, y, np.ones(len(y)), 3)
    np.testing.assert_allclose(plain.params[:2], best[:2], rtol=1e-4)
    cuts = fitted.transform_threshold_params(plain.params)[1:-1]
    np.testing.assert_allclose(cuts, best[2:], rtol=1e-4)
    errors = np.sqrt(np.diag(np.linalg.inv(information)))
    np.testing.assert_allclose(plain.bse[:2], errors[:2], rtol=1e-3)
    result = bootstrap(
        OrderedLogit(max_iter=200, random_state=0), X, y, n_resamples=2, random_state=0
    )
    np.testing.assert_allclose(result.estimate[:2], plain.params[:2], atol=0.2 * errors[:2].min())


def test_groups_of_one_row_are_rows():
    X, y = make_synthetic(60, random_state=1)
    model = OrderedLogit(random_state=0)
    rows = bootstrap(model, X, y, n_resamples=3, random_state=0)
    single = bootstrap(model, X, y, groups=np.arange(60), n_resamples=3, random_state=0)
    np.testing.assert_array_equal(rows.samples, single.samples)


@pytest.mark.filterwarnings("ignore:[0-9]+ of 4 samples have no label of a class")
def test_a_group_is_drawn_as_a_whole_or_not_at_all():
    X, exact = make_synthetic(40, random_state=1)
    y = np.column_stack([exact, exact]).astype(float)
    y[::5] = np.nan
    names = np.array(["b", "a", "d", "c"])[np.arange(40) // 10]
    model = OrderedLogit(classes=range(1, 6), random_state=0)
    result = bootstrap(model, X, y, groups=names, n_resamples=4, random_state=0)
    rng = np.random.RandomState(0)
    for sample in result.samples:
        drawn = np.array(["a", "b", "c", "d"])[rng.choice(4, size=4)]
        rows = np.concatenate([np.flatnonzero(names == name) for name in drawn])
        rows = rows[~np.isnan(y[rows, 0])]
        again = clone(model).fit(X[rows], y[rows])
        np.testing.assert_array_equal(sample[:6], [*again.coef_, *again.thresholds_])
    assert str(result).startswith("4 samples of 32 rows in 4 groups, 0.95 intervals\n")


def test_weights_reach_the_learner_of_a_pipeline_and_the_mean_effects():
    X, y = make_synthetic(60, random_state=1)
    weights = np.random.default_rng(0).uniform(size=60)
    model = make_pipeline(make_pipeline(StandardScaler(), OrderedLogit(random_state=0)))
    result = bootstrap(model, X, y, sample_weight=weights, n_resamples=2, random_state=0)
    scaler = StandardScaler().fit(X)
    learner = OrderedLogit(random_state=0).fit(scaler.transform(X), y, weights)
    each = [learner.marginal_effects(scaler.transform(X[[t]])) for t in range(60)]
    effects = np.average(each, axis=0, weights=weights) / scaler.scale_[:, np.newaxis]
    expected = [*learner.coef_ / scaler.scale_, *learner.thresholds_, *effects.ravel()]
    np.testing.assert_allclose(result.estimate, expected)
    rows = np.random.RandomState(0).choice(60, size=60)
    sample = clone(model).fit(X[rows], y[rows], pipeline__orderedlogit__sample_weight=weights[rows])
    scaler, learner = sample[0][0], sample[0][1]
    effects = learner.marginal_effects(scaler.transform(X[rows]), weights[rows])
    np.testing.assert_allclose(
        result.samples[0, 6:], (effects / scaler.scale_[:, np.newaxis]).ravel()
    )
    mean = np.average(X, axis=0, weights=weights)
    variance = np.average((X - mean) ** 2, axis=0, weights=weights)
    np.testing.assert_allclose(result.sd[:2], np.sqrt(variance))


@pytest.mark.parametrize(
    "steps",
    [
        [StandardScaler()],
        [StandardScaler(with_std=False)],
        [MinMaxScaler(), RobustScaler()],
        [MaxAbsScaler(), "passthrough"],
        [make_column_transformer((StandardScaler(), ["b"]), ("drop", ["word"]), ("passthrough", ["a"]))],
        [make_column_transformer(
            (make_pipeline(SimpleImputer(), StandardScaler()), ["a", "b"]),
            (OneHotEncoder(), ["word"]),
        )],
        [ColumnEncoder()],
        [ColumnEncoder(scale=False)],
        [ColumnEncoder(), StandardScaler(with_mean=False)],
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:the words of a column have no reference")
def test_weights_are_per_unit_of_the_table_and_per_standard_deviation(steps):
    """A unit more of a column moves the score of a row by its weight; nothing else is scaled."""
    X, y = make_synthetic(60, random_state=1)
    frame = pd.DataFrame(X * [1.0, 50.0], columns=["a", "b"]).assign(word=["x", "y"] * 30)
    if not isinstance(steps[0], ColumnTransformer | ColumnEncoder):
        frame = frame[["a", "b"]]
    model = make_pipeline(*steps, OrderedLogit(random_state=0))
    result = bootstrap(model, frame, y, n_resamples=2, random_state=0)
    model.fit(frame, y)
    for column in "ab":
        (term,) = [t for t, (kind, name, _) in enumerate(result.terms)
                   if kind == "weight" and str(name).rpartition("__")[2] == column]  # fmt: skip
        moved = frame.assign(**{column: frame[column] + 1.0})
        scores = [model[-1].latent(model[:-1].transform(part)) for part in (frame, moved)]
        np.testing.assert_allclose(scores[1] - scores[0], result.estimate[term])
        np.testing.assert_allclose(result.sd[term], frame[column].std(ddof=0))


def towns(rare=0):
    """Rows with a number and a word, whose effects are known; `rare` rows have another word."""
    rng = np.random.default_rng(2)
    town = rng.choice(["Oslo", "Paris", "Rome"], 200, p=[0.2, 0.5, 0.3])
    town[:rare] = "Ulm"
    age = rng.normal(50.0, 10.0, 200)
    latent = 0.1 * (age - 50.0) + 2.0 * (town == "Rome") + rng.logistic(size=200)
    return pd.DataFrame({"age": age, "town": town}), np.digitize(latent, [-1.0, 1.0])


def test_words_are_relative_to_the_most_frequent():
    """Weights and thresholds give the probabilities of the model; those of that word are zero."""
    frame, y = towns()
    model = make_pipeline(ColumnEncoder(), OrderedLogit(random_state=0))
    result = bootstrap(model, frame, y, n_resamples=2, random_state=0)
    rows = np.random.RandomState(0).choice(200, size=200)
    for numbers, own in ((result.estimate, slice(None)), (result.samples[0], rows)):
        part = frame.iloc[own]
        model.fit(part, y[own])
        (age, *words), thresholds, effects = numbers[:4], numbers[4:6], numbers[6:].reshape(4, 3)
        codes = np.searchsorted(["Oslo", "Paris", "Rome"], part["town"])
        assert (words[1], *effects[2]) == (0.0, 0.0, 0.0, 0.0)
        score = age * (part["age"] - part["age"].mean()) + np.array(words)[codes]
        below = expit(thresholds - score.to_numpy()[:, np.newaxis])
        chances = np.diff(below, prepend=0.0, append=1.0, axis=1)
        np.testing.assert_allclose(chances, model.predict_proba(part), atol=1e-10)
        slopes = np.mean(below * (1.0 - below), axis=0)
        per_score = -np.diff(slopes, prepend=0.0, append=0.0)
        np.testing.assert_allclose(effects, np.outer(numbers[:4], per_score), atol=1e-10)
    assert str(result).endswith("words are relative to town=Paris")
    found = infer(make_pipeline(ColumnEncoder(), OrderedLogit()).fit(frame, y))
    assert found.reference == result.reference
    np.testing.assert_allclose(result.estimate[:6], found.estimate)


def test_words_without_a_reference_are_warned_of():
    frame, y = towns()
    for words, warned in ((OneHotEncoder(), 1), (OneHotEncoder(drop="first"), 0)):
        encoder = make_column_transformer((StandardScaler(), ["age"]), (words, ["town"]))
        model = make_pipeline(encoder, OrderedLogit(random_state=0))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = bootstrap(model, frame, y, n_resamples=2, random_state=0)
        assert [str(one.message).partition(":")[0] for one in caught] == [
            "the words of a column have no reference"
        ] * warned
        assert result.reference is None


@pytest.mark.parametrize(
    "encoder",
    [
        ColumnEncoder(),
        make_column_transformer(
            (OneHotEncoder(drop=["Paris"]), ["town"]), ("passthrough", ["age"])
        ),
    ],
)
def test_a_word_that_a_sample_lacks_has_the_interval_of_the_others(encoder):
    frame, y = towns(rare=1)
    model = make_pipeline(encoder, OrderedLogit(random_state=0))
    rng = np.random.RandomState(0)
    has = [0 in rng.choice(200, size=200) for _ in range(10)]
    with pytest.warns(UserWarning, match=f"{10 - sum(has)} of 10 samples lack .*town.Ulm"):
        result = bootstrap(model, frame, y, n_resamples=10, level=0.9, random_state=0)
    table = result.to_frame()
    is_rare = table["feature"].astype(str).str.endswith("Ulm").to_numpy()
    assert is_rare.sum() == 4  # a weight, and an effect on each class
    np.testing.assert_array_equal(np.isnan(result.samples), np.outer(~np.array(has), is_rare))
    assert table["n_samples"].tolist() == [sum(has) if rare else 10 for rare in is_rare]
    known = result.samples[has]
    middle = result.estimate[is_rare]
    ends = [
        reference.corrected(*pair, 0.9) for pair in zip(known[:, is_rare].T, middle, strict=True)
    ]
    np.testing.assert_allclose(table.loc[is_rare, ["lower", "upper"]], ends)
    np.testing.assert_allclose(result.std_error[is_rare], known[:, is_rare].std(axis=0, ddof=1))


def test_a_word_that_no_sample_has_has_no_interval():
    frame, y = towns(rare=1)
    model = make_pipeline(ColumnEncoder(), OrderedLogit(random_state=0))
    with pytest.warns(UserWarning, match=r"2 of 2 samples lack .* 'town=Ulm'"):
        result = bootstrap(model, frame, y, n_resamples=2, random_state=8)
    rare = [feature == "town=Ulm" for _, feature, _ in result.terms]
    assert np.isnan(result.interval[:, rare]).all()
    assert np.isnan(result.std_error[rare]).all()
    assert np.isfinite(result.interval[:, np.logical_not(rare)]).all()


def test_features_that_only_a_sample_has_are_refused():
    """A sample may have few enough words to be used, and all rows too many."""
    frame, y = towns(rare=1)
    model = make_pipeline(ColumnEncoder(most_words=3), OrderedLogit(random_state=0))
    with pytest.raises(ValueError, match=r"^sample 1 of 2 .* it has the feature 'town=Oslo'"):
        bootstrap(model, frame, y, n_resamples=2, random_state=8)


def test_the_summary_is_a_table_of_weights_and_thresholds():
    X, y = make_synthetic(60, random_state=1)
    frame = pd.DataFrame(X, columns=["size", "a long name"])
    result = bootstrap(
        OrderedLogit(random_state=0), frame, y, n_resamples=5, level=0.9, random_state=0
    )
    assert repr(result) == str(result)
    about, _, title, head, *rows, rest = str(result).splitlines()
    assert about == "5 samples of 60 rows, 0.9 intervals"
    assert title.split() == ["per", "unit", "per", "sd"]
    assert head.split() == ["weight", *["estimate", "lower", "upper"] * 2]
    assert len({len(line) for line in [title, head, *rows[:2]]}) == 1  # columns are aligned
    numbers = np.column_stack([result.estimate, *result.interval])
    for t, line in enumerate(rows[:2]):
        shown = np.array(line[len("a long name") :].split(), dtype=float)
        expected = [*numbers[t], *numbers[t] * result.sd[t]]
        np.testing.assert_allclose(shown, expected, rtol=1e-3)
    assert [line.split()[:2] for line in rows[3:]] == [["above", str(k)] for k in range(1, 5)]
    assert rest == "and 10 marginal effects, see to_frame()"


def test_samples_without_a_class_are_warned_of():
    X, y = make_synthetic(60, random_state=1)
    y = np.where(np.arange(60) == 7, 9, np.minimum(y, 4))  # one row of class 9
    with pytest.warns(UserWarning, match=r"^[1-9] of 10 samples have no label of a class that"):
        bootstrap(OrderedLogit(random_state=0), X, y, n_resamples=10, random_state=0)


@pytest.mark.slow
def test_bootstrap_intervals_cover_the_weights():
    """Of 60 samples, the 90 % interval of a weight holds the true one in about 54."""
    rng = np.random.default_rng(0)
    inside = 0
    for seed in range(60):
        X = rng.normal(size=(400, 1))
        latent = X[:, 0] + rng.logistic(size=400)
        y = np.digitize(latent, [-1.0, 1.0])
        model = OrderedLogit(random_state=seed)
        result = bootstrap(model, X, y, n_resamples=60, level=0.9, random_state=seed)
        lower, upper = result.interval[:, 0]
        inside += lower <= 1.0 <= upper
    assert 46 <= inside <= 60
