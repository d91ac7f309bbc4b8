"""Plots show what the model predicts."""

from itertools import combinations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.colors import to_rgb
from scipy.stats import binomtest
from sklearn.exceptions import NotFittedError
from sklearn.metrics import confusion_matrix
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from pril import PRIL, ColumnEncoder, KernelPRIL, MulticlassPerceptron, OrderedLogit
from pril.core.coarsening import Coarsening
from pril.evaluate import bootstrap
from pril.inference import infer
from pril.metrics import calibration_error, interval_absolute_error
from pril.paper.datasets import make_synthetic
from pril.plotting import (
    CoarseningDisplay,
    ForestDisplay,
    IntervalConfusionDisplay,
    ReliabilityDisplay,
    ScoreAxisDisplay,
    WeightsDisplay,
)


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def survey(n=300, K=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    rank = np.digitize(X @ [2.0, 1.0] + rng.normal(size=n), np.linspace(-2, 2, K - 1))
    return X, np.column_stack([np.maximum(rank - rng.integers(0, 2, n), 0), rank])


def bars(ax):
    """Return the left end, the right end and the number of rows of the bars of each colour."""
    groups = [group for group in ax.containers if hasattr(group, "patches")]
    return [
        np.array(
            [[p.get_x(), p.get_x() + p.get_width(), p.get_width() * p.get_height()] for p in g]
        )
        for g in groups
    ]


def test_areas_are_the_rows_inside_below_and_above(ax):
    X, y = survey()
    model = PRIL(classes=range(4), random_state=0).fit(X, y)
    assert ScoreAxisDisplay.from_estimator(model, X, y, ax=ax).ax_ is ax
    rank, scores = model.predict(X), model.latent(X)
    kinds = ((y[:, 0] <= rank) & (rank <= y[:, 1]), rank < y[:, 0], rank > y[:, 1])
    for drawn, rows, text in zip(bars(ax), kinds, ax.get_legend().get_texts(), strict=True):
        for left, right, n in drawn:
            in_bar = rows & (left <= scores) & (scores < right)
            assert n == pytest.approx(np.count_nonzero(in_bar), abs=1e-6)
            crossed = (left + 1e-9 < model.thresholds_) & (model.thresholds_ < right - 1e-9)
            assert not crossed.any()
        assert drawn[:, 2].sum() == pytest.approx(rows.sum())
        assert f"({rows.mean():.0%})" in text.get_text()
    drawn = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(drawn, model.thresholds_)
    said = [text.get_text() for text in ax.texts]
    assert said == [f"{k}\n{kinds[0][rank == k].mean():.0%}" for k in range(4)]
    ends = [bars(ax)[0][0, 0], *model.thresholds_, bars(ax)[0][-1, 1]]
    np.testing.assert_allclose(ax.get_xlim(), [ends[0], ends[-1]])
    np.testing.assert_allclose(
        [text.xy[0] for text in ax.texts], np.convolve(ends, [0.5, 0.5])[1:-1]
    )
    assert 35 <= len(bars(ax)[0]) <= 45
    tops = [p.get_y() + p.get_height() for group in ax.containers for p in group]
    assert ax.get_ylim()[1] > max(tops)


def test_displays_of_pipelines_and_of_predictions_are_the_same():
    X, y = survey()
    model = make_pipeline(StandardScaler(), PRIL(classes=range(4), random_state=0)).fit(X, y)
    features = model[:-1].transform(X)
    one = ScoreAxisDisplay.from_estimator(model, X, y)
    other = ScoreAxisDisplay.from_predictions(
        model[-1].latent(features), y, thresholds=model[-1].thresholds_, classes=range(4)
    )
    for mine, theirs in zip(bars(one.ax_), bars(other.ax_), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    weights = WeightsDisplay.from_estimator(model)
    assert [tick.get_text() for tick in weights.ax_.get_yticklabels()] == ["x0", "x1"]
    matrix = IntervalConfusionDisplay.from_estimator(model, X, y).matrix
    predicted = IntervalConfusionDisplay.from_predictions(y, model.predict(X))
    np.testing.assert_array_equal(predicted.matrix, matrix)


def test_confusion_of_ranges_has_hits_on_its_diagonal_and_losses_off_it(ax):
    X, y = survey()
    model = PRIL(classes=range(4), random_state=0).fit(X, y)
    matrix = IntervalConfusionDisplay.from_estimator(model, X, y, ax=ax).matrix
    assert np.trace(matrix) / len(X) == pytest.approx(model.score(X, y))
    off = np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    loss = interval_absolute_error(y, model.predict(X))
    assert (matrix * off).sum() / len(X) == pytest.approx(loss)
    exact = IntervalConfusionDisplay.from_predictions(y[:, 1], model.predict(X), ax=ax).matrix
    np.testing.assert_array_equal(exact, confusion_matrix(y[:, 1], model.predict(X)))
    assert [int(text.get_text()) for text in ax.texts[:16]] == matrix.ravel().tolist()
    shares = matrix / np.maximum(matrix.sum(axis=1), 1)[:, np.newaxis]  # of each row
    np.testing.assert_allclose(ax.images[0].get_array(), shares)


def luminance(color):
    """The relative luminance of a colour, as the Web Content Accessibility Guidelines define it."""
    rgb = np.array(to_rgb(color))
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return linear @ [0.2126, 0.7152, 0.0722]


def test_numbers_of_a_confusion_matrix_can_be_read(ax):
    """On every shade the contrast is 4.5 at least, as the guidelines ask of text."""
    hits = [0, 30, 50, 60, 68, 70, 71, 72, 75, 90, 100]  # of 100 rows a class
    predicted = np.concatenate([[k] * n + [11] * (100 - n) for k, n in enumerate(hits)])
    y = np.repeat(range(11), 100)
    display = IntervalConfusionDisplay.from_predictions(y, predicted, classes=range(12), ax=ax)
    image, shares = ax.images[0], ax.images[0].get_array()
    np.testing.assert_allclose(np.diagonal(shares)[:11], np.array(hits) / 100)
    assert len(ax.texts) == display.matrix.size
    for text in ax.texts:
        column, row = text.get_position()
        assert text.get_text() == str(display.matrix[row, column])
        ink, paper = luminance(text.get_color()), luminance(image.to_rgba(shares)[row, column, :3])
        assert (max(ink, paper) + 0.05) / (min(ink, paper) + 0.05) >= 4.5


def test_a_missing_prediction_is_refused_not_counted_as_the_lowest_class():
    with pytest.raises(ValueError, match="y_pred, row 2: the label is missing"):
        IntervalConfusionDisplay.from_predictions([1, 2, 3], [1, 2, np.nan], classes=[1, 2, 3])


@pytest.mark.parametrize("K", [1, 2, 40])
def test_few_and_many_classes_can_be_drawn(ax, K):
    X, y = np.linspace(-1, 1, 2 * K).reshape(-1, 1), np.repeat(np.arange(K), 2)
    model = PRIL(random_state=0).fit(X, y)
    ScoreAxisDisplay.from_estimator(model, X, y, ax=ax).figure_.canvas.draw()
    assert sum(drawn[:, 2].sum() for drawn in bars(ax) if len(drawn)) == pytest.approx(2 * K)
    lines = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(lines, model.thresholds_)


def names_on(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_of_many_classes_less_is_written():
    for K, n_numbers, step in ((12, 144, 1), (13, 0, 1), (40, 0, 1), (41, 0, 2), (81, 0, 3)):
        ax = IntervalConfusionDisplay.from_predictions(range(K), range(K)).ax_
        assert len(ax.texts) == n_numbers
        assert names_on(ax.xaxis) == names_on(ax.yaxis) == [str(k) for k in range(0, K, step)]
    for K, share in ((8, "\n100%"), (9, "")):
        ax = ScoreAxisDisplay.from_predictions(
            np.arange(K), range(K), thresholds=np.arange(K - 1) + 0.5, classes=range(K)
        ).ax_
        assert [text.get_text() for text in ax.texts] == [f"{k}{share}" for k in range(K)]


def test_long_names_are_cut_in_the_middle(ax):
    longest, longer = 15 * "a" + 15 * "b", 15 * "a" + "c" + 15 * "b"
    IntervalConfusionDisplay.from_predictions([longest, longer], [longer, longer], ax=ax)
    assert names_on(ax.xaxis) == [longest, 15 * "a" + "…" + 14 * "b"]


def test_ten_weights_are_drawn_unless_others_are_asked_for(ax):
    X = np.random.default_rng(0).normal(size=(50, 12))
    model = PRIL(random_state=0).fit(X, X[:, 0] > 0)
    largest = [str(j) for j in np.argsort(-np.abs(model.coef_), kind="stable")]
    for drawn, n in (
        (WeightsDisplay.from_estimator(model).ax_, 10),
        (WeightsDisplay.from_estimator(model).ax_, 10),
        (WeightsDisplay.from_estimator(model, top=11).plot(ax=ax).ax_, 10),
        (WeightsDisplay.from_estimator(model, top=12).ax_, 12),
    ):
        assert names_on(drawn.yaxis) == largest[:n]


@pytest.mark.parametrize("K", [4, 12, 60])
def test_names_of_classes_do_not_cover_each_other(K):
    X, y = survey(2000, K)
    model = PRIL(classes=range(K), random_state=0).fit(X, y)
    drawn = ScoreAxisDisplay.from_estimator(model, X, y), WeightsDisplay.from_estimator(model)
    for ax in (display.ax_ for display in drawn):
        ax.figure.canvas.draw()
        boxes = [text.get_window_extent() for text in ax.texts]
        assert len(boxes) >= min(K, 12)
        assert not [1 for one, other in combinations(boxes, 2) if one.overlaps(other)]
        assert min(box.y0 for box in boxes) >= ax.get_window_extent().y1  # above the axes


@pytest.mark.parametrize("K", [1, 2, 3, 40])
def test_largest_weights_are_drawn_between_thresholds(ax, K):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = np.minimum(K - 1, np.argsort(np.argsort(X @ [5, -4, 3, -2, 1, 0])) * K // 200)
    model = PRIL(random_state=0).fit(X, y)
    assert WeightsDisplay.from_estimator(model, names=list("abcdef"), top=4, ax=ax).ax_ is ax
    largest = np.argsort(-np.abs(model.coef_), kind="stable")[:4]
    bars = [patch for patch in ax.patches if patch.get_height() == 0.6]
    np.testing.assert_allclose([bar.get_width() for bar in bars], model.coef_[largest])
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["abcdef"[j] for j in largest]
    bands = [patch for patch in ax.patches if patch.get_height() != 0.6]
    np.testing.assert_allclose([band.get_x() for band in bands[1:]], model.thresholds_)
    left, right = ax.get_xlim()
    assert left < min(0.0, model.coef_.min())
    assert right > max(0.0, model.coef_.max())
    ax.figure.canvas.draw()


def test_what_cannot_be_drawn_is_refused(ax):
    X, y = [[0.0], [1.0], [2.0]], [1, 2, 2]
    with pytest.raises(TypeError, match="MulticlassPerceptron has no score axis"):
        ScoreAxisDisplay.from_estimator(MulticlassPerceptron().fit(X, y), X, y, ax=ax)
    with pytest.raises(TypeError, match="KernelPRIL has no weights on one score axis"):
        WeightsDisplay.from_estimator(KernelPRIL().fit(X, y), ax=ax)
    with pytest.raises(TypeError, match="PRIL does not learn how classes become ranges"):
        CoarseningDisplay.from_estimator(PRIL().fit(X, y), ax=ax)
    with pytest.raises(NotFittedError):
        CoarseningDisplay.from_estimator(OrderedLogit(), ax=ax)
    with pytest.raises(ValueError, match="OrderedLogit learned from exact labels only"):
        CoarseningDisplay.from_estimator(OrderedLogit().fit(X, y), ax=ax)
    with pytest.raises(ValueError, match="X has 3 rows, y has 2 labels"):
        ScoreAxisDisplay.from_estimator(PRIL().fit(X, y), X, y[:2], ax=ax)


def test_reliability_curves_are_means_of_bins(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.digitize(X[:, 0] + rng.logistic(size=400), [-1.0, 1.0])
    model = OrderedLogit(random_state=0).fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, ax=ax)
    assert display.ax_ is ax
    said = [panel.get_title().split("\n") for panel in display.axes_]
    assert [name for name, _ in said] == ["\u201c0\u201d or lower", "\u201c1\u201d or lower"]
    errors = [float(error.removeprefix("error ")) for _, error in said]
    assert np.mean(errors) == pytest.approx(display.error, abs=6e-4)  # each has three digits
    names = np.array(
        ["_low", "$x_{", "high"]
    )  # matplotlib would hide the first, and read the second
    proba = model.predict_proba(X)[:, np.argsort(names)]  # columns follow the sorted classes
    same = ReliabilityDisplay.from_predictions(names[y], proba, classes=names)
    same.figure_.canvas.draw()
    said = [panel.get_title().split("\n")[0] for panel in same.axes_]
    assert said == ["\u201c_low\u201d or lower", "\u201c\\$x_{\u201d or lower"]
    assert same.error == display.error
    below = model.predict_proba(X)[:, 0]
    points = [
        (below[rows].mean(), (y[rows] == 0).mean())
        for k in range(10)
        if (rows := (below >= k / 10) & (below < (k + 1) / 10)).any()
    ]
    for panel in display.axes_:
        assert panel.lines[0].get_xydata().tolist() == [[0.0, 0.0], [1.0, 1.0]]
        for low, high in (panel.get_xlim(), panel.get_ylim()):
            assert low < 0.0 < 1.0 < high
    np.testing.assert_allclose(display.axes_[0].lines[1].get_xydata(), points)
    assert display.error == calibration_error(y, model.predict_proba(X))
    some = np.column_stack([y, np.where(np.arange(400) < 300, y, 2)])
    part = ReliabilityDisplay.from_estimator(model, X, some)
    exact = some[:, 0] == some[:, 1]
    assert part.error == calibration_error(y[exact], model.predict_proba(X[exact]))
    plt.close(part.figure_)


@pytest.mark.parametrize("n_classes", [1, 2, 5, 13, 14, 40])
def test_reliability_has_a_panel_for_each_class_but_the_last(n_classes):
    """Of many, some at equal distances. They are in the place of the axes given, however made."""
    rng = np.random.default_rng(0)
    proba = rng.dirichlet(np.ones(n_classes), 200)
    y = rng.integers(0, n_classes, 200)
    drawn = ReliabilityDisplay.from_predictions(y, proba, classes=range(n_classes))
    figure = plt.figure()
    left = figure.add_axes((0.1, 0.1, 0.3, 0.8))
    placed = ReliabilityDisplay.from_predictions(y, proba, classes=range(n_classes), ax=left)
    for display in (drawn, placed):
        panels = display.axes_
        assert len(panels) == min(n_classes - 1, 12)
        assert len(display.figure_.axes) == 1 + len(panels)  # no empty ones
        named = [int(panel.get_title()[1:].split("\u201d")[0]) for panel in panels]
        assert named == sorted({*named})
        assert {*named[:1], *named[-1:]} == {*range(n_classes - 1)} & {0, n_classes - 2}
        display.figure_.canvas.draw()
        inside = [panel.get_window_extent() for panel in panels]
        assert all(a.overlaps(b) == (a is b) for a in inside for b in inside)
    assert all(panel.get_position().x1 <= 0.4 + 1e-9 for panel in placed.axes_)
    plt.close("all")


# --- Coarsening ---


def test_shares_of_offsets_are_bars_from_down_to_up(ax):
    X, y = survey()
    ends = np.column_stack([np.maximum(y[:, 1] - 1, 0), np.minimum(y[:, 1] + 1, 3)])
    model = make_pipeline(StandardScaler(), OrderedLogit(classes=range(4), random_state=0))
    assert CoarseningDisplay.from_estimator(model.fit(X, ends), ax=ax).ax_ is ax
    found = model[-1].coarsening_
    assert found.mechanism == "offsets"
    names = ["2 down", "1 down", "1 down and 1 up", "1 up", "2 up"]
    assert names_on(ax.yaxis) == names
    shares = [found.shares[way] for way in ((2, 0), (1, 0), (1, 1), (0, 1), (0, 2))]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], shares)
    assert [text.get_text() for text in ax.texts] == [f"{share:.0%}" for share in shares]
    assert ax.get_xlim()[1] > max(shares)
    assert ax.get_title() == "shared offsets\nraters add the classes on both sides"
    display = CoarseningDisplay.from_estimator(model)
    assert display.coarsening == found
    plt.close(display.figure_)


def test_at_random_the_table_is_drawn(ax):
    """A cell is the share of the rows of a class that were given a range."""
    names = np.array(["poor", "fair", "$good", "great"])
    X, y = survey()
    exact = np.arange(len(X)) < 200
    ends = np.column_stack([y[:, 1] // 2 * 2, y[:, 1] // 2 * 2 + 1])
    ends[exact] = y[exact, 1:]
    model = OrderedLogit(classes=names, coarsening="random")
    CoarseningDisplay.from_estimator(model.fit(X, names[ends]), ax=ax)
    ax.figure.canvas.draw()
    assert names_on(ax.xaxis) == ["poor", "fair", r"\$good", "great"]
    assert names_on(ax.yaxis) == ["poor to fair", r"\$good to great"]
    table = np.array(ax.images[0].get_array())
    np.testing.assert_array_equal(table[0, 2:], 0.0)
    np.testing.assert_array_equal(table[1, :2], 0.0)
    assert ((table.sum(axis=0) > 0.0) & (table.sum(axis=0) < 1.0)).all()
    said = [text.get_text() for text in ax.texts]
    assert said == [f"{share:.0%}" if share else "" for share in table.ravel()]
    assert ax.get_title().startswith("at random\nevery class of a range")


def test_of_many_ranges_the_most_common_are_drawn(ax):
    table = {(k, k + 1): (0.01 * k, 0.01 * k) for k in range(50)}
    CoarseningDisplay(Coarsening("random", table=table), np.arange(51)).plot(ax=ax)
    assert names_on(ax.yaxis) == [f"{k} to {k + 1}" for k in range(10, 50)]
    assert not ax.texts


def test_only_probabilities_have_a_reliability():
    with pytest.raises(TypeError, match="PRIL has no predict_proba"):
        ReliabilityDisplay.from_estimator(PRIL().fit([[0.0], [1.0]], [0, 1]), [[0.0]], [0])


@pytest.mark.parametrize(("term", "n_series"), [("weight", 1), ("threshold", 1), ("effect", 5)])
def test_a_bootstrap_is_drawn_as_points_with_their_intervals(ax, term, n_series):
    """Each point, and each interval, is beside the name of its feature, or of its class."""
    X, y = make_synthetic(60, random_state=0)
    frame = pd.DataFrame(X, columns=["size", "age"])
    result = bootstrap(OrderedLogit(random_state=0), frame, y, n_resamples=6, random_state=0)
    ForestDisplay.from_result(result, term=term, ax=ax)
    assert ax.get_title().endswith("s with 95 % intervals")
    drawn = {"weight": "weight per unit", "threshold": "threshold (score)"}
    assert ax.get_xlabel().startswith(drawn.get(term, "change of the probability per unit"))
    table = result.to_frame()
    names = names_on(ax.yaxis)
    np.testing.assert_array_equal(ax.get_yticks(), range(len(names)))
    rows = table[table["term"] == term]
    assert len(ax.containers) == n_series
    drawn, places = {}, []
    for series in ax.containers:
        label = series.get_label() if n_series > 1 else None
        points, segments = series.lines[0].get_xydata(), series.lines[2][0].get_segments()
        for (estimate, place), ends in zip(points, segments, strict=True):
            np.testing.assert_allclose(ends[:, 1], place)
            drawn[names[round(place)], label] = (estimate, *ends[:, 0])
            places.append(place)
    assert len(set(places)) == len(drawn) == len(rows)  # none covers another
    for row in rows.to_dict("records"):
        label = None if row["class"] is None else str(row["class"])
        key = (row["feature"], label) if term != "threshold" else (label, None)
        np.testing.assert_allclose(drawn[key], [row["estimate"], row["lower"], row["upper"]])
    low, high = sorted(ax.get_ylim())
    assert low < min(places) <= max(places) < high
    assert ax.yaxis_inverted()  # so that the first name is at the top


@pytest.mark.parametrize("term", ["weight", "threshold", "effect"])
def test_a_bootstrap_per_standard_deviation(ax, term):
    """It is that of features divided by their standard deviations; thresholds have no unit."""
    X, y = make_synthetic(60, random_state=0)
    table = bootstrap(OrderedLogit(random_state=0), X * [1.0, 9.0], y, n_resamples=3).to_frame()
    ForestDisplay.from_result(table[table["feature"] != "0"], term=term, per="sd", ax=ax)
    factor = 1.0 if term == "threshold" else np.std(9.0 * X[:, 1])
    rows = table[(table["term"] == term) & (table["feature"] != "0")]
    drawn = np.concatenate([series.lines[0].get_xydata()[:, 0] for series in ax.containers])
    np.testing.assert_allclose(drawn, factor * rows["estimate"])


def test_a_forest_plot_is_the_table_of_weights(ax):
    """Each line has its interval, and says it; zero is marked, and so is the reference."""
    pytest.importorskip("pyarrow", reason="pip install 'pril[cli]'")
    X, y = make_synthetic(60, random_state=0)
    frame = pd.DataFrame(X, columns=["size", "age"]).assign(town=["Rome", "Oslo", "Rome"] * 20)
    model = make_pipeline(ColumnEncoder(), OrderedLogit(alpha=0.0)).fit(frame, y)
    result = infer(model, frame, y, level=0.9, per="sd")
    assert ForestDisplay.from_result(result, ax=ax).ax_ is ax
    assert names_on(ax.yaxis) == ["size", "age", "town=Oslo", "town=Rome"]
    (series,) = ax.containers
    np.testing.assert_allclose(series.lines[0].get_xydata()[:, 0], result.estimate[:4])
    drawn = np.array([ends[:, 0] for ends in series.lines[2][0].get_segments()])
    np.testing.assert_allclose(drawn, result.interval[:, :4].T)
    assert ax.get_title() == "Weights with 90 % intervals"
    assert ax.get_xlabel() == "weight per standard deviation (above 0: higher classes)"
    low, high = result.interval[:, 0]
    texts = [text.get_text() for text in ax.texts]
    assert texts[0] == f"{result.estimate[0]:.2f} [{low:.2f}, {high:.2f}]"
    assert texts[3] == "0 (reference)"
    assert [0.0, 0.0] in [list(line.get_xdata()) for line in ax.lines]
    with pytest.raises(TypeError, match=r"result must be what infer.* got OrderedLogit"):
        ForestDisplay.from_result(model[-1], ax=ax)
    constant = np.column_stack([X, np.ones(60)])
    drawn = ForestDisplay.from_result(infer(OrderedLogit(alpha=0.0).fit(constant, y))).ax_
    assert drawn.texts[2].get_text() == "not identified"


@pytest.mark.parametrize(("unit", "digits"), [(1.0, ".2f"), (1e3, ".4f"), (1e9, ".3g")])
def test_a_forest_plot_says_small_weights_too(ax, unit, digits):
    """Such as those of incomes in euros, which are not 0.00 [0.00, 0.00]."""
    X, y = make_synthetic(400, random_state=0)
    result = infer(OrderedLogit(alpha=0.0).fit(X * unit, y))
    ForestDisplay.from_result(result, ax=ax)
    low, high = result.interval[:, 0]
    expected = f"{result.estimate[0]:{digits}} [{low:{digits}}, {high:{digits}}]"
    assert ax.texts[0].get_text() == expected


def test_a_forest_plot_of_effects_has_a_series_for_each_class(ax):
    X, y = make_synthetic(60, random_state=0)
    effects = infer(OrderedLogit(alpha=0.0).fit(X, y), X, y).marginal_effects()
    ForestDisplay.from_result(effects, ax=ax)
    assert ax.get_title() == "Marginal effects with 95 % intervals"
    assert [text.get_text() for text in ax.get_legend().get_texts()] == list("12345")
    for k, series in enumerate(ax.containers):
        np.testing.assert_allclose(series.lines[0].get_xydata()[:, 0], effects.estimate[:, k])


def test_a_bootstrap_that_cannot_be_drawn_is_refused(ax):
    X, y = make_synthetic(60, random_state=0)
    result = bootstrap(OrderedLogit(random_state=0), X, y, n_resamples=2, random_state=0)
    with pytest.raises(ValueError, match="no rows with the term 'weights'"):
        ForestDisplay.from_result(result, term="weights", ax=ax)
    with pytest.raises(ValueError, match="per must be 'unit' or 'sd', got 'SD'"):
        ForestDisplay.from_result(result, per="SD", ax=ax)
    inference = infer(OrderedLogit(alpha=0.0).fit(X, y), X, y)
    with pytest.raises(ValueError, match=r"per='sd' is for results of bootstrap"):
        ForestDisplay.from_result(inference, per="sd", ax=ax)
    with pytest.raises(ValueError, match="no rows with the term 'weight'"):
        ForestDisplay.from_result(inference.to_frame().iloc[:0], ax=ax)
    for table in (pd.DataFrame({"a": [1]}), inference.probabilities(X[:2]).to_frame()):
        with pytest.raises(TypeError, match=r"result must be what infer.* got DataFrame"):
            ForestDisplay.from_result(table, ax=ax)


def test_some_rows_of_effects_are_drawn(ax):
    X, y = make_synthetic(60, random_state=0)
    table = infer(OrderedLogit(alpha=0.0).fit(X, y), X, y).marginal_effects().to_frame()
    ForestDisplay.from_result(table[table["class"] == 3], ax=ax)
    assert ax.get_title() == "Marginal effects with intervals"
    (series,) = ax.containers
    drawn = series.lines[0].get_xydata()[:, 0]
    np.testing.assert_array_equal(drawn, table[table["class"] == 3]["estimate"])


def test_a_reliability_curve_has_intervals_that_hold_its_points():
    rng = np.random.default_rng(0)
    chance = rng.uniform(size=2000)
    y = (rng.uniform(size=2000) < chance).astype(int)
    proba = np.column_stack([1 - chance, chance])
    display = ReliabilityDisplay.from_predictions(y, proba)
    curve = display.curves[0]
    sizes = np.round(2000 * curve.share).astype(int)
    for n, seen, *ends in zip(sizes, curve.seen, curve.lower, curve.upper, strict=True):
        wilson = binomtest(round(n * seen), n).proportion_ci(method="wilson")
        np.testing.assert_allclose(ends, wilson, atol=1e-4)
    assert ((curve.lower <= curve.mean) & (curve.mean <= curve.upper)).mean() >= 0.8
    # All weights times seven tell no more, and rows of weight 0 nothing.
    weighted = ReliabilityDisplay.from_predictions(
        np.append(y, 0), np.vstack([proba, [0.5, 0.5]]), sample_weight=[7.0] * 2000 + [0.0]
    )
    np.testing.assert_allclose(weighted.curves[0].lower, curve.lower)
