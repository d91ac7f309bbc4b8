"""What each feature adds to a score, pictures of it, and constraints on it."""

import copy
import pickle
from itertools import pairwise

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import pril
import reference
from pril import (
    PRIL,
    ColumnEncoder,
    MulticlassPerceptron,
    OrderedBoosting,
    OrderedLogit,
    Pipeline,
    WidrowHoff,
    evaluate,
)
from pril.learners.boosting import compiled, forest_engine, shapley, starts
from pril.plotting import ContributionsDisplay, ValidationLossDisplay, WeightsDisplay

pytest.importorskip("lightgbm", reason="pip install 'pril[boosting]'")

QUICK = {"max_iter": 8, "random_state": 0}


def table(n=300, d=4, seed=0, gaps=0.1, categories=True):
    """Return features with gaps, the last one of categories, and ranks of a curved score."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if categories:
        X[:, -1] = rng.integers(0, 7, n)
    score = np.abs(X[:, 0]) + X[:, 1] * X[:, 2] + X[:, -1] % 3 + 0.2 * rng.logistic(size=n)
    y = np.digitize(score, np.quantile(score, [0.3, 0.6]))
    return np.where(rng.random((n, d)) < gaps, np.nan, X), y


def expected(model, row):
    """Return what features add to the score of a row, and the base, by the definition."""

    def worth(features):
        rows = model.background_.copy()
        rows[:, list(features)] = row[list(features)]
        return model.latent(rows).mean()

    return np.append(reference.shapley(worth, len(row)), worth(()))


@pytest.fixture
def without_landmarks(monkeypatch):
    monkeypatch.setattr(starts, "LANDMARK_ROWS", 0)  # as in a table of many rows


# --- The values ---


@pytest.mark.parametrize("leaves", [2, 31, 100])
@pytest.mark.parametrize("d", [3, 5])
def test_contributions_are_their_slow_twin(d, leaves):
    X, y = table(d=d)
    model = OrderedBoosting(
        categorical_features=[d - 1], max_leaf_nodes=leaves, min_samples_leaf=1, **QUICK
    ).fit(X, y)
    assert model.memory_.forest.similarity.any()
    rows = X[:4].copy()
    rows[0], rows[1, -1] = np.nan, 99.0  # all missing; a category that is not known
    rows[2, 0] = 1e6
    found = model.contributions(rows)
    for row, values in zip(rows, found, strict=True):
        np.testing.assert_allclose(values, expected(model, row), atol=1e-11)


@pytest.mark.slow  # shap compiles
def test_contributions_are_those_of_shap():
    shap = pytest.importorskip("shap", reason="pip install 'pril[test]'")
    X, y = table(gaps=0.0, categories=False)
    model = OrderedBoosting(**QUICK).fit(X, y)
    explainer = shap.ExactExplainer(model.latent, shap.maskers.Independent(model.background_))
    theirs, ours = explainer(X[:5]), model.contributions(X[:5])
    np.testing.assert_allclose(ours[:, :-1], theirs.values, atol=1e-9)
    np.testing.assert_allclose(ours[:, -1], theirs.base_values, atol=1e-9)


@pytest.mark.parametrize("d", [1, 33, 70])
@pytest.mark.parametrize("has_landmarks", [False, True])
def test_contributions_add_up_to_the_score(d, has_landmarks, monkeypatch):
    if not has_landmarks:
        monkeypatch.setattr(starts, "LANDMARK_ROWS", 0)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(250, d)) * 10.0 ** rng.integers(-30, 30, d)
    y = np.digitize(X[:, 0] / X[:, 0].std() + 0.3 * rng.logistic(size=250), [-1.0, 1.0])
    model = OrderedBoosting(**QUICK).fit(X, y)
    rows = np.vstack(
        [X[:20], 40.0 * X[:9], X[:1] * 1e100, np.zeros((1, d)), np.full((1, d), np.nan)]
    )
    found, scores = model.contributions(rows), model.latent(rows)
    scale = np.abs(found).sum(axis=1)
    assert (np.abs(found.sum(axis=1) - scores) <= 1e-10 * scale).all()
    np.testing.assert_allclose(found[:, -1], model.latent(model.background_).mean(), atol=1e-12)


def test_no_row_depends_on_others(monkeypatch, tmp_path):
    X, y = table()
    model = OrderedBoosting(categorical_features=[3], **QUICK).fit(X, y)
    found = model.contributions(X)
    np.testing.assert_array_equal(model.contributions(X[7:8])[0], found[7])
    pril.save(model, tmp_path / "model.pril")
    for other in (pril.load(tmp_path / "model.pril"), pickle.loads(pickle.dumps(model))):  # noqa: S301
        np.testing.assert_array_equal(other.contributions(X), found)
        np.testing.assert_array_equal(other.background_, model.background_)
    monkeypatch.setattr(forest_engine, "MOST_CELLS", 1)  # many batches
    np.testing.assert_array_equal(model.contributions(X), found)


def test_more_features_on_a_path_than_a_word_has_bits():
    """The only leaf that counts is that of rows with all features; they share it equally."""
    d = 150
    X, y = np.random.default_rng(0).integers(0, 2, size=(40, d)).astype(float), np.arange(40) % 2
    X[0] = 1.0
    model = OrderedBoosting(max_iter=1, n_folds=2, random_state=0).fit(X, y)
    none, splits = np.zeros(d), np.arange(d, dtype=np.int32)
    chain = compiled.Forest(
        mean=none, slope=none, width=none, landmarks=np.empty((0, d)), similarity=np.empty(0),
        size=np.array([d], dtype=np.int32), feature=splits, value=np.full(d, 0.5),
        kind=np.zeros(d, dtype=np.int8), begin=splits, end=splits + 1,
        leaf=np.append(none, 2.0), words=np.empty(0, dtype=np.uint32),
    )  # fmt: skip
    background = np.ones((2, d))
    background[0, :80] = background[1, 70:73] = 0.0
    model.memory_ = model.memory_._replace(forest=chain, background=background)
    mine = np.ones((2, d))
    mine[1, 100:] = 0.0
    found = model.contributions(mine)
    assert model.latent(mine).tolist() == [2.0, 0.0]
    shares = np.zeros(d)
    shares[:80] += 1 / 80
    shares[70:73] += 1 / 3
    np.testing.assert_allclose(found[0], np.append(shares, 0.0), atol=1e-12)
    # In the second game, 3 features let only this row through, and 50 only the background.
    values = np.zeros(d + 1)
    values[70:73] = 2 / (51 * 52 * 53)
    values[100:d] = -3 * 2 / (50 * 51 * 52 * 53)
    np.testing.assert_allclose(found[1], values, atol=1e-12)


def test_what_the_score_does_not_use_adds_nothing():
    X, y = table(categories=False, gaps=0.0)
    X[:, 3] = 7.0
    model = OrderedBoosting(**QUICK).fit(X, y)
    rows = np.column_stack([X[:20, :3], np.arange(20.0)])
    assert (model.contributions(rows)[:, 3] == 0.0).all()
    flat = OrderedBoosting(**QUICK).fit(np.ones((50, 2)), y[:50])
    assert (flat.contributions([[1.0, 2.0]])[:, :2] == 0.0).all()


@pytest.mark.usefixtures("without_landmarks")
def test_importances_are_the_mean_size_of_contributions_of_the_background():
    X, y = table(100)
    model = OrderedBoosting(categorical_features=[3], **QUICK).fit(X, y)
    sizes = np.abs(model.contributions(X)[:, :-1]).mean(axis=0)
    np.testing.assert_allclose(model.feature_importances_, sizes / sizes.sum(), atol=1e-12)


def test_importances_are_computed_when_they_are_read(tmp_path, monkeypatch):
    X, y = table(120)
    learner = OrderedBoosting(categorical_features=[3], **QUICK)
    assert not hasattr(learner, "feature_importances_")
    with monkeypatch.context() as patch:
        patch.delattr(shapley, "add_trees")
        model = learner.fit(X, y)
        pril.save(model, tmp_path / "before.pril")
        again = pril.load(tmp_path / "before.pril")
    first = model.feature_importances_
    assert model.feature_importances_ is first
    np.testing.assert_array_equal(again.feature_importances_, first)
    pril.save(model, tmp_path / "after.pril")
    assert (tmp_path / "after.pril").read_bytes() == (tmp_path / "before.pril").read_bytes()
    model.set_params(categorical_features=[0]).fit(X[:, ::-1], y)
    assert model.feature_importances_.argmax() != first.argmax()


def test_importances_of_few_rows_with_landmarks_are_about_those_of_all():
    X, y = table(1000)
    model = OrderedBoosting(categorical_features=[3], **QUICK).fit(X, y)
    sizes = np.abs(model.contributions(X)[:, :-1]).mean(axis=0)
    np.testing.assert_allclose(model.feature_importances_, sizes / sizes.sum(), atol=0.05)


def test_the_background_is_rows_of_the_table():
    X, y = table(gaps=0.0)
    labels = np.where(np.arange(300) % 3 == 0, np.nan, y)  # rows without a label are left out
    model = OrderedBoosting(categorical_features=[3], **QUICK).fit(X * 2.0**-200, labels)
    assert model.background_.shape == (100, 4)
    learned = {tuple(row) for row in (X * 2.0**-200)[~np.isnan(labels)]}
    codes = dict(enumerate(model.categories_["3"]))
    kept = {(*row[:3], codes[row[3]]) for row in model.background_.tolist()}
    assert len(kept) == 100
    assert kept <= learned


def test_contributions_of_a_damaged_file_are_harmless(tmp_path):
    X, y = table()
    model = OrderedBoosting(categorical_features=[3], max_iter=3, random_state=0).fit(X, y)
    rng, refused = np.random.default_rng(0), 0
    for _ in range(60):
        damaged = copy.deepcopy(model)
        memory = damaged.memory_
        name = rng.choice(["background", "begin", "end", "feature", "leaf"])
        part = memory.background if name == "background" else getattr(memory.forest, name)
        value = rng.choice([np.nan, np.inf, -1.0, 1e6, 0.5]) if part.dtype.kind == "f" else 1
        part.flat[rng.integers(part.size)] = value
        try:
            pril.save(damaged, tmp_path / "model.pril")
            again = pril.load(tmp_path / "model.pril")
        except (TypeError, ValueError):
            refused += 1
        else:
            again.contributions(X[:20])
    assert 5 < refused < 55


# --- Pictures ---


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def frame(n=200):
    X, y = table(n)
    X = pd.DataFrame(X, columns=["size", "age", "cost", "town"])
    return X.assign(town=X["town"].map(lambda c: "Rome" if c < 3 else "Oslo").astype("category")), y


@pytest.mark.parametrize("top", [2, 4])
def test_bars_lead_from_the_base_value_to_the_score(top, ax):
    X, y = frame()
    model = OrderedBoosting(**QUICK).fit(X, y)
    row = X[7:8].assign(size=0.5, age=-1.25, cost=np.nan)
    ContributionsDisplay.from_estimator(model, row, top=top, ax=ax)
    values = model.contributions(row)[0]
    (bars,) = ax.containers
    ends = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars]
    assert ends[0][0] == pytest.approx(values[-1])
    assert ends[-1][1] == pytest.approx(model.latent(row)[0])
    for above, below in pairwise(ends):
        assert above[1] == pytest.approx(below[0])
    assert ax.yaxis_inverted()  # the largest bar is at the top
    chances = ", ".join(
        f"{k} {p:.0%}" for k, p in zip(model.classes_, model.predict_proba(row)[0], strict=True)
    )
    assert ax.get_title() == f"predicted: {model.predict(row)[0]} ({chances})"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == [
        "raises the score",
        "lowers it",
    ]
    order = np.argsort(-np.abs(values[:-1]))[:top]
    texts = {"size": "size = 0.5", "age": "age = -1.25", "cost": "cost = missing",
             "town": f"town = {row['town'].iloc[0]}"}  # fmt: skip
    names = [texts[X.columns[k]] for k in order] + ["2 other features"] * (top == 2)
    assert [label.get_text() for label in ax.get_yticklabels()] == names
    widths = [bar.get_width() for bar in bars]
    np.testing.assert_allclose(widths[:top], values[order])
    edges = [patch.get_x() for patch in ax.patches if patch not in bars][1:]
    np.testing.assert_allclose(edges, model.thresholds_)


def test_the_title_has_the_class_that_is_predicted(ax):
    """Also where the most likely class is not the median, and where a score is a threshold."""
    X, y = np.arange(-8.0, 8.0).reshape(-1, 1), np.repeat([0, 0, 1, 3, 3, 2, 2, 3], 2)
    likely = OrderedLogit(decision="mode").fit(X, y)
    median = clone(likely).set_params(decision="median").fit(X, y)
    step = PRIL(average=False, max_iter=3, shuffle=False).fit(X, y)
    ties = np.isin(step.latent(X), step.thresholds_)
    others = likely.predict(X) != median.predict(X)
    assert ties.any()
    assert others.any()
    for model, rows in ((likely, X[others]), (step, X[ties])):
        for row in rows:
            ax.clear()
            ContributionsDisplay.from_estimator(model, row[np.newaxis], ax=ax)
            title = f"predicted: {model.predict([row])[0]}"
            assert ax.get_title() == title or ax.get_title().startswith(f"{title} (")


def test_many_rows_are_points_in_the_order_of_what_they_add(ax):
    X, y = frame()
    model = OrderedBoosting(**QUICK).fit(X, y)
    ContributionsDisplay.from_estimator(model, X, names=["one", "two", "three", "four"], ax=ax)
    values = model.contributions(X)[:, :-1]
    order = np.argsort(-np.abs(values).mean(axis=0))
    names = np.array(["one", "two", "three", "four"])[order]
    assert [label.get_text() for label in ax.get_yticklabels()] == names.tolist()
    grey, coloured = ax.collections[::2], ax.collections[1::2]
    for k, *drawn in zip(order, grey, coloured, strict=True):
        points = np.concatenate([part.get_offsets() for part in drawn])
        np.testing.assert_allclose(np.sort(points[:, 0]), np.sort(values[:, k]))
        is_number = X.iloc[:, k].notna() & (X.columns[k] != "town")
        assert len(drawn[1].get_offsets()) == is_number.sum()
        assert np.ptp(points[:, 1]) < 1.0  # lines of points do not meet


def test_names_and_bars_of_many_features_do_not_cover_each_other():
    X, y = table(d=35, categories=False)
    names = [f"$a very long name of a column, number {k}" for k in range(35)]
    model = OrderedBoosting(**QUICK).fit(X, y)
    for rows in (X[:1], X):
        ax = ContributionsDisplay.from_estimator(model, rows, names=names, top=35).ax_
        ax.figure.canvas.draw()
        boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
        assert all(above.y0 >= below.y1 for above, below in pairwise(boxes))
        assert min(box.x0 for box in boxes) >= 0
        plt.close(ax.figure)


@pytest.mark.parametrize("learner", [OrderedLogit(), PRIL(), WidrowHoff()])
def test_linear_contributions_are_weights_times_distances_from_the_mean(learner):
    X, y = frame()
    X = X[["size", "age"]].fillna(0.0) * [1.0, 30.0] + [5.0, 0.0]
    model = make_pipeline(StandardScaler(), learner).fit(X, y)
    found = evaluate.contributions(model, X)
    expected = model[-1].coef_ * ((X - X.mean()) / X.std(ddof=0))
    np.testing.assert_allclose(found[:, :-1], expected, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=1), model[-1].latent(model[0].transform(X)))


@pytest.mark.parametrize("form", [np.asarray, csr_array])
def test_contributions_of_an_ordered_logit_are_zero_on_average(form):
    X, y = frame()
    X = form(X[["size", "age"]].fillna(0.0).to_numpy() * [1.0, 30.0] + [5.0, 0.0])
    model = OrderedLogit().fit(X, y)
    found = evaluate.contributions(model, X)
    np.testing.assert_allclose(found[:, :-1].mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), model.latent(X))


def test_contributions_of_words_are_relative_to_the_mean_of_their_column(ax):
    pytest.importorskip("pyarrow", reason="pip install 'pril[cli]'")
    X, y = frame()
    X = X[["size", "town"]].assign(town=X["town"].astype(str))
    model = make_pipeline(ColumnEncoder(), OrderedLogit()).fit(X, y)
    found = evaluate.contributions(model, X)
    np.testing.assert_allclose(found[:, 1:3].sum(axis=1).mean(), 0.0, atol=1e-9)
    np.testing.assert_allclose(found.sum(axis=1), model[-1].latent(model[0].transform(X)))
    ContributionsDisplay.from_estimator(model, X[:1], ax=ax)
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert sorted(names) == [f"size = {X['size'][0]:.3g}", f"town={X['town'][0]}"]


def test_words_are_drawn_as_they_were_in_the_table(ax):
    pytest.importorskip("pyarrow", reason="pip install 'pril[cli]'")
    X, y = frame()
    X["town"] = X["town"].astype(str)
    model = Pipeline([("encode", ColumnEncoder(codes=True)), ("model", OrderedBoosting(**QUICK))])
    ContributionsDisplay.from_estimator(model.fit(X, y), X[:1], ax=ax)
    assert "town = " + X["town"][0] in [label.get_text() for label in ax.get_yticklabels()]


def test_what_cannot_be_drawn_is_refused():
    X, y = frame()
    model = OrderedBoosting(**QUICK).fit(X, y)
    with pytest.raises(ValueError, match="names has 1 names, but there are 4 features"):
        ContributionsDisplay.from_estimator(model, X, names=["size"])
    linear = PRIL(random_state=0).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(ValueError, match="names has 2 names, but there are 1 features"):
        WeightsDisplay.from_estimator(linear, names=["size", "age"])
    other = MulticlassPerceptron(random_state=0).fit([[0.0], [1.0]], [0, 1])
    with pytest.raises(TypeError, match="MulticlassPerceptron does not say what each feature adds"):
        ContributionsDisplay.from_estimator(other, [[0.0]])
    with pytest.raises(TypeError, match="PRIL has no held-out loss to draw"):
        ValidationLossDisplay.from_estimator(linear)


def test_the_held_out_loss_is_drawn_with_the_kept_round(ax):
    X, y = frame()
    model = OrderedBoosting(**QUICK).fit(X, y)
    ValidationLossDisplay.from_estimator(model, ax=ax)
    line, kept = ax.lines[:2]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, len(model.validation_loss_) + 1))
    np.testing.assert_array_equal(line.get_ydata(), model.validation_loss_)
    assert kept.get_xydata().tolist() == [[model.n_iter_, model.validation_loss_.min()]]
