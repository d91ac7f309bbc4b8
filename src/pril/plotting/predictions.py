"""What a model predicts for rows: along its scores, by class, and as probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril import metrics
from pril.bases.parts import Parts
from pril.core.arrays import Array, FeaturesLike, LabelsLike, Ranks
from pril.errors import InputTypeError
from pril.labels import ranking
from pril.plotting import drawing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

__all__ = ["IntervalConfusionDisplay", "ReliabilityDisplay", "ScoreAxisDisplay"]

MOST_PANELS = 12  # of a reliability curve


@dataclass(eq=False, repr=False)
class ScoreAxisDisplay(drawing.Display):
    """A histogram of the scores, with the thresholds, coloured by whether predictions are inside.

    The area of a bar is its number of rows. No bar crosses a threshold, so the colours above a
    class show which share of its predictions are inside the row's range. Rows without a label are
    ignored.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,)
        The score of each row.
    rank : ndarray of shape (n_samples,)
        The predicted rank of each row.
    intervals : ndarray of shape (n_samples, 2)
        Lowest and highest rank of each label.
    thresholds : ndarray of shape (n_classes - 1,)
        Thresholds between the classes, ascending.
    classes : ndarray of shape (n_classes,)
        The classes, lowest first.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import ScoreAxisDisplay
    >>> X, y = [[0.0], [1.0], [2.0]], [(1, 1), (1, 2), (2, 2)]
    >>> model = PRIL(random_state=0, max_iter=50).fit(X, y)
    >>> ScoreAxisDisplay.from_estimator(model, X, y).ax_.get_xlabel()
    'score'
    """

    scores: Array
    rank: Array
    intervals: Array
    thresholds: Array
    classes: Array

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: FeaturesLike, y: LabelsLike, *, ax: Axes | None = None
    ) -> Self:
        """Draw the rows by the scores of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted learner with thresholds, alone or at the end of a Pipeline.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ScoreAxisDisplay
            What was drawn.
        """
        learner = Parts.of(estimator).learner
        if not hasattr(learner, "latent"):
            raise InputTypeError(f"{type(learner).__name__} has no score axis to draw")
        learner, rank, scores, thresholds, intervals = drawing.rated(estimator, X, y)
        return cls(scores[:, 0], rank, intervals, thresholds, learner.order_).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        scores: ArrayLike,
        y: LabelsLike,
        *,
        thresholds: ArrayLike,
        classes: LabelsLike,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the rows by scores that were computed before.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            The score of each row, such as `latent` returns.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        thresholds : array-like of shape (n_classes - 1,)
            Thresholds between the classes, ascending.
        classes : array-like of shape (n_classes,)
            The classes, lowest first.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ScoreAxisDisplay
            What was drawn.
        """
        order = ranking.check_classes(classes)
        scores, thresholds = np.asarray(scores), np.asarray(thresholds)
        intervals = ranking.to_intervals(ranking.read(y), order)
        ranking.check_length(intervals, scores, other="scores")
        rank = np.searchsorted(thresholds, scores, side="right")
        return cls(scores, rank, intervals, thresholds, order).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, bins: int = 40) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.
        bins : int, default=40
            About how many bars to draw.

        Returns
        -------
        display : ScoreAxisDisplay
            This display.
        """
        ax = self._begin(ax)
        labelled = ranking.is_labelled(self.intervals)
        scores, rank = self.scores[labelled], self.rank[labelled]
        lo, hi = self.intervals[labelled].T
        edges = self._edges(scores, bins)
        widths, height = np.diff(edges), np.zeros(len(edges) - 1)
        inside = (lo <= rank) & (rank <= hi)
        style: dict[str, Any] = {"align": "edge", "edgecolor": "white", "linewidth": 0.4}
        for rows, color, said in (
            (inside, drawing.INSIDE, "inside the range"),
            (rank < lo, drawing.BELOW, "below it"),
            (rank > hi, drawing.OUTSIDE, "above it"),
        ):
            density = np.histogram(scores[rows], edges)[0] / widths
            share = np.count_nonzero(rows) / max(len(rows), 1)
            name = f"predicted {said} ({share:.0%})"
            ax.bar(edges[:-1], density, widths, bottom=height, color=color, label=name, **style)
            height += density
        for threshold in self.thresholds:
            ax.axvline(threshold, color="black", linestyle=":", linewidth=0.8)
        names = [drawing.short_text(name) for name in self.classes]
        if len(names) <= 8:  # of more classes, the names alone fill the space
            for k in np.unique(rank):
                names[k] += f"\n{inside[rank == k].mean():.0%}"
        drawing.name_bands(ax, names, np.concatenate([edges[:1], self.thresholds, edges[-1:]]))
        top = 1.35 * height.max(initial=0.0) or 1.0  # room for the legend
        ax.set(xlim=(edges[0], edges[-1]), ylim=(0.0, top))
        ax.set(xlabel="score", ylabel="rows per unit of score")
        ax.legend(loc="upper left", fontsize=8, framealpha=0.9)
        return self

    def _edges(self, scores: Array, bins: int) -> Array:
        """Return the edges of bars of about equal width; every threshold is one."""
        points = np.concatenate([scores, self.thresholds])
        left, right = (points.min(), points.max()) if points.size else (0.0, 1.0)
        margin = 0.04 * (right - left) or 1.0
        ends = [left - margin, *np.unique(self.thresholds), right + margin]
        width = (ends[-1] - ends[0]) / bins
        parts = [
            np.linspace(a, b, max(1, round((b - a) / width)), endpoint=False)
            for a, b in pairwise(ends)
        ]
        return np.concatenate([*parts, ends[-1:]])


def confusion(rank: Ranks, intervals: Ranks, n_classes: int) -> Array:
    """Count the rows by the class of their label that is nearest to the prediction, and by it."""
    labelled = ranking.is_labelled(intervals)
    rank, intervals = rank[labelled], intervals[labelled]
    nearest = np.clip(rank, intervals[:, 0], intervals[:, 1])
    counts = np.bincount(nearest * n_classes + rank, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)


@dataclass(eq=False, repr=False)
class IntervalConfusionDisplay(drawing.Display):
    """A confusion matrix for labels that are ranges.

    Each row counts as the class of its range that is nearest to its prediction. So predictions
    inside their range are on the diagonal, and the distance from the diagonal is the interval
    loss. For exact labels it is the usual confusion matrix. Rows without a label are ignored.

    Parameters
    ----------
    matrix : ndarray of shape (n_classes, n_classes)
        Number of rows by nearest class of the label and predicted class.
    classes : ndarray of shape (n_classes,)
        The classes, lowest first.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from pril.plotting import IntervalConfusionDisplay
    >>> y, y_pred = [(1, 2), (1, 2), (3, 3)], [2, 3, 3]
    >>> IntervalConfusionDisplay.from_predictions(y, y_pred, classes=[1, 2, 3]).matrix
    array([[0, 0, 0],
           [0, 1, 1],
           [0, 0, 1]])
    """

    matrix: Array
    classes: Array

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, X: FeaturesLike, y: LabelsLike, *, ax: Axes | None = None
    ) -> Self:
        """Draw the matrix of a model's predictions.

        Parameters
        ----------
        estimator : estimator
            A fitted learner of this package, alone or at the end of a Pipeline.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : IntervalConfusionDisplay
            What was drawn.
        """
        learner, rank, _, _, intervals = drawing.rated(estimator, X, y)
        return cls(confusion(rank, intervals, len(learner.order_)), learner.order_).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: LabelsLike,
        y_pred: LabelsLike,
        *,
        classes: LabelsLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the matrix of predictions.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        y_pred : array-like of shape (n_samples,)
            Predicted labels.
        classes : array-like of shape (n_classes,), default=None
            The classes, lowest first. None takes them from y and y_pred.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : IntervalConfusionDisplay
            What was drawn.
        """
        order, intervals, rank = metrics.rank_both(y, y_pred, classes, name="y")
        return cls(confusion(rank, intervals, len(order)), order).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        shares = self.matrix / np.maximum(self.matrix.sum(axis=1, keepdims=True), 1)
        drawing.draw_cells(ax, shares, self.matrix)
        drawing.name_classes(ax.xaxis, self.classes)
        drawing.name_classes(ax.yaxis, self.classes)
        ax.set(xlabel="predicted", ylabel="class of the range nearest to it")


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(drawing.Display):
    """Observed shares against predicted probabilities, one panel for each class except the last.

    For each class, rows are put into bins by their probability of being in that class or a lower
    one: ten bins or, with fewer than 250 rows, as many as have 25 rows on average. Each
    point is a bin: its mean probability, and the share of its rows that are in that class or a
    lower one. The vertical line is the 95 % interval of that share (Wilson's): the fewer rows a bin
    has, the longer it is. If it crosses the diagonal, the rows do not contradict the probability.
    The error of a panel is the mean distance of its points from the diagonal, weighted by rows. If
    there are more than twelve such classes, twelve at equal distances are drawn.

    Parameters
    ----------
    curves : list of Reliability
        For each class but the last, the points: `mean`, `seen`, the `share` of rows, and the
        interval from `lower` to `upper`.
    classes : array-like
        The classes, lowest first.
    error : float
        The calibration error, see :func:`pril.metrics.calibration_error`.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        The panels.
    ax_ : matplotlib Axes
        The axes that hold the panels.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedLogit
    >>> from pril.plotting import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1))
    >>> y = np.digitize(X[:, 0] + rng.logistic(size=500), [-1, 1])
    >>> model = OrderedLogit(random_state=0).fit(X, y)
    >>> display = ReliabilityDisplay.from_estimator(model, X, y)
    >>> [panel.get_xlabel() for panel in display.axes_]
    ['probability', 'probability']
    """

    curves: list[metrics.Reliability]
    _: KW_ONLY
    classes: Array
    error: float

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: FeaturesLike,
        y: LabelsLike,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the probabilities of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier with `predict_proba`, such as `OrderedLogit`, or a pipeline that
            ends in one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges; rows whose label is a range, or missing, are ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw the panels. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        if not hasattr(estimator, "predict_proba"):
            raise InputTypeError(
                f"{type(estimator).__name__} has no predict_proba, so there is nothing to draw"
            )
        proba, order = estimator.predict_proba(X), metrics.order_of(estimator)
        return cls.from_predictions(y, proba, classes=order, sample_weight=sample_weight, ax=ax)

    @classmethod
    def from_predictions(
        cls,
        y: LabelsLike,
        y_proba: ArrayLike,
        *,
        classes: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw probabilities that were computed before.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges; rows whose label is a range, or missing, are ignored.
        y_proba : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, as `predict_proba` gives them: columns follow the sorted
            classes.
        classes : array-like of shape (n_classes,), default=None
            The classes, lowest first. None takes them from y, where all must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw the panels. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        curves = metrics.reliability_curves(y, y_proba, classes, sample_weight, fewer_bins=True)
        error = metrics.calibration_error(y, y_proba, classes=classes, sample_weight=sample_weight)
        order = (
            ranking.order_classes(ranking.read(y))
            if classes is None
            else ranking.check_classes(classes)
        )
        return cls(curves, classes=order, error=error).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw the panels. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The same object, with the axes.
        """
        n, self.axes_ = len(self.curves), []
        rows, columns = grid_of(n)
        ax = self._begin(ax, height=1 + 2.5 * rows)
        ax.set_axis_off()  # it holds the panels
        drawn = np.unique(np.linspace(0, n - 1, min(n, MOST_PANELS)).astype(np.int64))
        for place, (k, panel) in enumerate(zip(drawn, _panels(ax, rows, columns), strict=False)):
            curve = self.curves[k]
            panel.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=0.8)
            panel.plot(curve.mean, curve.seen, color=drawing.INSIDE, linewidth=1)
            panel.vlines(curve.mean, curve.lower, curve.upper, color=drawing.INSIDE, linewidth=0.8)
            panel.scatter(curve.mean, curve.seen, s=200 * curve.share, color=drawing.INSIDE)
            panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
            panel.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            panel.set_xlabel("probability" if place + columns >= len(drawn) else "")
            panel.set_ylabel("observed share" if place % columns == 0 else "")
            name = f"\u201c{drawing.short_text(self.classes[k])}\u201d or lower"
            panel.set_title(f"{name}\nerror {metrics.mean_difference([curve]):.3f}", fontsize=9)
            self.axes_.append(panel)
        return self


def grid_of(n: int) -> tuple[int, int]:
    """Return the rows and columns of n panels, of which not all may be drawn."""
    n = max(1, min(n, MOST_PANELS))
    columns = 2 if n == 4 else min(n, 3)
    return -(-n // columns), columns


def _panels(ax: Axes, rows: int, columns: int) -> Iterator[Axes]:
    """Yield axes on a grid in the place of those given."""
    figure, place = ax.figure, ax.get_subplotspec()
    if place is None:  # made by add_axes
        box = ax.get_position()
        ends = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
        inside: Any = figure.add_gridspec(rows, columns, **ends)
    else:
        inside = place.subgridspec(rows, columns)
    cells = (inside[i, j] for i in range(rows) for j in range(columns))
    return (figure.add_subplot(cell) for cell in cells)
