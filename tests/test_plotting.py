"""Plots show what the model predicts."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from pril import PRIL, KernelPRIL, MulticlassPerceptron, OrderedLogit
from pril.metrics import calibration_error
from pril.plotting import ReliabilityDisplay, plot_model, plot_scores


@pytest.fixture
def ax():
    figure, ax = plt.subplots()
    yield ax
    plt.close(figure)


def test_dots_bars_and_thresholds_are_the_models(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    y = np.sort(rng.integers(1, 4, (30, 2)), axis=1)
    model = PRIL(classes=[1, 2, 3], random_state=0).fit(X, y)
    assert plot_scores(model, X, y, ax=ax) is ax
    dots = np.concatenate([line.get_xydata() for line in ax.lines if line.get_marker() == "o"])
    expected = np.column_stack([model.latent(X), model.predict(X) - 1])
    np.testing.assert_allclose(dots[np.lexsort(dots.T)], expected[np.lexsort(expected.T)])
    drawn = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    np.testing.assert_allclose(drawn, model.thresholds_)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["1", "2", "3"]
    inside = f"({model.score(X, y):.0%})"
    assert inside in ax.get_legend().get_texts()[0].get_text()


@pytest.mark.parametrize("K", [1, 2, 40])
def test_few_and_many_classes_can_be_drawn(ax, K):
    X, y = np.linspace(-1, 1, 2 * K).reshape(-1, 1), np.repeat(np.arange(K), 2)
    plot_scores(PRIL(random_state=0).fit(X, y), X, y, ax=ax).figure.canvas.draw()


@pytest.mark.parametrize("K", [1, 2, 3, 40])
def test_largest_weights_are_drawn_between_thresholds(ax, K):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 6))
    y = np.minimum(K - 1, np.argsort(np.argsort(X @ [5, -4, 3, -2, 1, 0])) * K // 200)
    model = PRIL(random_state=0).fit(X, y)
    assert plot_model(model, list("abcdef"), top=4, ax=ax) is ax
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
        plot_scores(MulticlassPerceptron().fit(X, y), X, y, ax=ax)
    with pytest.raises(TypeError, match="KernelPRIL has no weights on one score axis"):
        plot_model(KernelPRIL().fit(X, y), ax=ax)
    with pytest.raises(ValueError, match="X has 3 rows, y has 2 labels"):
        plot_scores(PRIL().fit(X, y), X, y[:2], ax=ax)


def test_reliability_curves_are_means_of_bins(ax):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 2))
    y = np.digitize(X[:, 0] + rng.logistic(size=400), [-1.0, 1.0])
    model = OrderedLogit(random_state=0).fit(X, y)
    display = ReliabilityDisplay.from_estimator(model, X, y, ax=ax)
    assert display.ax_ is ax
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["0 or lower", "1 or lower"]
    below = model.predict_proba(X)[:, 0]
    points = [
        (below[rows].mean(), (y[rows] == 0).mean())
        for k in range(10)
        if (rows := (below >= k / 10) & (below < (k + 1) / 10)).any()
    ]
    np.testing.assert_allclose(ax.lines[1].get_xydata(), points)
    assert display.error == calibration_error(y, model.predict_proba(X))
    some = np.column_stack([y, np.where(np.arange(400) < 300, y, 2)])
    part = ReliabilityDisplay.from_estimator(model, X, some)
    exact = some[:, 0] == some[:, 1]
    assert part.error == calibration_error(y[exact], model.predict_proba(X[exact]))
    plt.close(part.figure_)


def test_only_probabilities_have_a_reliability():
    with pytest.raises(TypeError, match="PRIL has no predict_proba"):
        ReliabilityDisplay.from_estimator(PRIL().fit([[0.0], [1.0]], [0, 1]), [[0.0]], [0])
