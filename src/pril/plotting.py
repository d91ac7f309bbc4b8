"""Plots of models. They need matplotlib, the extra ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pril import _ranks
from pril._parts import Parts
from pril.errors import InputTypeError, MissingExtraError
from pril.metrics import Reliability, calibration_error, order_of, reliability_curves

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

__all__ = [
    "IntervalConfusionDisplay",
    "ReliabilityDisplay",
    "ScoreAxisDisplay",
    "WeightsDisplay",
    "plot_model",
    "plot_scores",
]

# Safe for colour-blind readers.
INSIDE, OUTSIDE, BELOW = "#0072b2", "#d55e00", "#e69f00"
MOST_NUMBERS = 12  # a confusion matrix with more classes has no numbers in its cells
MOST_NAMES = 40  # of more classes, only some are named on an axis
LONGEST = 30  # characters of a name


def _axes(ax: Axes | None) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise MissingExtraError("pril.plotting needs matplotlib", "plot") from error
    return plt.subplots(figsize=(8, 4.5), layout="constrained")[1] if ax is None else ax


def _text(name: Any) -> str:
    """Return a name as matplotlib draws it: one short line, in which $ is no formula."""
    line = "".join(c if c.isprintable() else " " for c in str(name))
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]}…{line[-LONGEST // 2 + 1 :]}"
    return line.replace("$", r"\$")


def _named(classes: Any) -> dict[int, str]:
    """Return names of classes by their rank; of many classes, some at equal distances."""
    step = -(-len(classes) // MOST_NAMES)
    return {k: _text(classes[k]) for k in range(0, len(classes), step)}


def _name_bands(ax: Axes, names: list[str], ends: Any) -> None:
    """Write the names of bands above an axis, in up to three lines; leave out what does not fit."""
    lines = 1 + max(name.count("\n") for name in names)
    width = 72 * ax.get_window_extent().width / ax.figure.dpi  # points, before the final layout
    unit = 0.7 * width / (ends[-1] - ends[0])  # a legend and the names of ticks may take the rest
    free = [-np.inf] * (3 if lines == 1 else 2)  # where the last name of each line ends
    for k, name in enumerate(names):
        middle = (ends[k] + ends[k + 1]) / 2
        half = 2.5 * max(map(len, name.split("\n"))) + 2.0  # points, about
        at = unit * (middle - ends[0])
        level = next((j for j, end in enumerate(free) if at - half >= end), None)
        if level is None:
            continue
        free[level] = at + half
        ax.annotate(
            name,
            (middle, 1.0),
            xycoords=ax.get_xaxis_transform(),
            xytext=(0, 4 + 10 * lines * level),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )


def _rated(estimator: Any, X: Any, y: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Return the learner, its ranks and scores of rows, its thresholds, and the intervals of y."""
    parts = Parts.of(estimator)
    learner = parts.learner
    rank, scores, cut = learner._rate(parts.transform(X))
    intervals = _ranks.to_intervals(_ranks.read(y), learner.order_)
    _ranks.check_length(intervals, rank)
    return learner, rank, scores, cut[1:-1], intervals


class ScoreAxisDisplay:
    """The scores of rows, between the thresholds, and how many are predicted inside their range.

    Areas are numbers of rows. No bar crosses a threshold, so the colours above a class show which
    share of the rows predicted so is right. Rows without a label are left out.

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

    def __init__(
        self, scores: Any, rank: Any, intervals: Any, thresholds: Any, classes: Any
    ) -> None:
        self.scores = scores
        self.rank = rank
        self.intervals = intervals
        self.thresholds = thresholds
        self.classes = classes

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Self:
        """Draw the rows by the scores of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted learner with thresholds, alone or at the end of a Pipeline.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals.
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
        learner, rank, scores, thresholds, intervals = _rated(estimator, X, y)
        return cls(scores[:, 0], rank, intervals, thresholds, learner.order_).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls, scores: Any, y: Any, *, thresholds: Any, classes: Any, ax: Axes | None = None
    ) -> Self:
        """Draw the rows by scores that were computed before.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            The score of each row, such as `latent` returns.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals.
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
        order = _ranks.check_classes(classes)
        scores, thresholds = np.asarray(scores), np.asarray(thresholds)
        intervals = _ranks.to_intervals(_ranks.read(y), order)
        _ranks.check_length(intervals, scores, other="scores")
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
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        labelled = _ranks.is_labelled(self.intervals)
        scores, rank = self.scores[labelled], self.rank[labelled]
        lo, hi = self.intervals[labelled].T
        ends = np.concatenate([scores, self.thresholds])
        left, right = (ends.min(), ends.max()) if ends.size else (0.0, 1.0)
        margin = 0.04 * (right - left) or 1.0
        edges = self._edges(left - margin, right + margin, bins)
        widths = np.diff(edges)
        height = np.zeros(len(widths))
        for rows, color, said in (
            ((lo <= rank) & (rank <= hi), INSIDE, "inside the range"),
            (rank < lo, BELOW, "below it"),
            (rank > hi, OUTSIDE, "above it"),
        ):
            density = np.histogram(scores[rows], edges)[0] / widths
            share = np.count_nonzero(rows) / max(len(rows), 1)
            ax.bar(
                edges[:-1],
                density,
                widths,
                bottom=height,
                align="edge",
                color=color,
                edgecolor="white",
                linewidth=0.4,
                label=f"predicted {said} ({share:.0%})",
            )
            height += density
        inside = (lo <= rank) & (rank <= hi)
        self._name_classes(rank, inside, edges[0], edges[-1])
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(0.0, 1.05 * height.max(initial=0.0) or 1.0)
        ax.set_xlabel("score")
        ax.set_ylabel("rows per unit of score")
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), fontsize=8)
        return self

    def _edges(self, left: float, right: float, bins: int) -> Any:
        """Return the edges of bars of about equal width; every threshold is one."""
        inner = np.unique(self.thresholds)
        ends = [left, *inner[(inner > left) & (inner < right)], right]
        width = (right - left) / bins
        parts = [
            np.linspace(a, b, max(1, round((b - a) / width)), endpoint=False)
            for a, b in pairwise(ends)
        ]
        return np.concatenate([*parts, [right]])

    def _name_classes(self, rank: Any, inside: Any, left: float, right: float) -> None:
        """Draw the thresholds, and above each class its name and the share of it that is right."""
        ends = np.concatenate([[left], self.thresholds, [right]])
        for threshold in self.thresholds:
            self.ax_.axvline(threshold, color="black", linestyle=":", linewidth=0.8)
        names = [_text(name) for name in self.classes]
        if len(names) <= 8:  # of more classes, the names alone fill the space
            for k in np.unique(rank):
                names[k] += f"\n{inside[rank == k].mean():.0%}"
        _name_bands(self.ax_, names, ends)


class WeightsDisplay:
    """The largest weights of a model on its score axis, with its thresholds.

    A bar shows what one unit of a feature, such as one standard deviation, adds to the score. The
    shaded bands are the score ranges of the classes, so a bar shows how many classes its feature
    can move a row.

    Parameters
    ----------
    coef : ndarray of shape (n_features,)
        Weights of the features.
    thresholds : ndarray of shape (n_classes - 1,)
        Thresholds between the classes, ascending.
    classes : ndarray of shape (n_classes,)
        The classes, lowest first.
    names : sequence of str
        Names of the features.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import WeightsDisplay
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [(1, 1), (1, 2), (2, 2)]
    >>> display = WeightsDisplay.from_estimator(PRIL(random_state=0).fit(X, y))
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['0', '1']
    """

    def __init__(self, coef: Any, thresholds: Any, classes: Any, names: Sequence[str]) -> None:
        self.coef = coef
        self.thresholds = thresholds
        self.classes = classes
        self.names = names

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        names: Sequence[str] | None = None,
        top: int = 10,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the weights of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted linear learner with thresholds, alone or at the end of a Pipeline.
        names : sequence of str, default=None
            Names of the features. None takes those that the learner or the steps before it know, or
            else numbers.
        top : int, default=10
            How many weights to draw.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : WeightsDisplay
            What was drawn.
        """
        parts = Parts.of(estimator)
        learner = parts.learner
        if not (hasattr(learner, "coef_") and hasattr(learner, "thresholds_")):
            raise InputTypeError(
                f"{type(learner).__name__} has no weights on one score axis to draw"
            )
        coef = learner.coef_
        if names is None:
            names = parts.feature_names or [str(j) for j in range(len(coef))]
        return cls(coef, learner.thresholds_, learner.order_, names).plot(ax=ax, top=top)

    def plot(self, *, ax: Axes | None = None, top: int = 10) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.
        top : int, default=10
            How many weights to draw.

        Returns
        -------
        display : WeightsDisplay
            This display.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        coef, cuts = self.coef, self.thresholds
        largest = np.argsort(-np.abs(coef), kind="stable")[:top]
        ends = np.concatenate([cuts, coef[largest], [0.0]])
        margin = 0.15 * (ends.max() - ends.min() or 1.0)
        edges = np.concatenate([[ends.min() - margin], cuts, [ends.max() + margin]])
        for k in range(len(self.classes)):
            shade = 0.04 + 0.08 * (k % 2)
            ax.axvspan(edges[k], edges[k + 1], color="black", alpha=shade, linewidth=0)
        _name_bands(ax, [_text(name) for name in self.classes], edges)
        place = np.arange(len(largest))
        colors = np.where(coef[largest] < 0, OUTSIDE, INSIDE)
        ax.barh(place, coef[largest], color=colors, height=0.6)
        ax.axvline(0.0, color="black", linewidth=0.8)
        ax.set_yticks(place, [_text(self.names[j]) for j in largest])
        ax.invert_yaxis()
        ax.set_xlim(edges[0], edges[-1])
        ax.set_xlabel("score")
        return self


class IntervalConfusionDisplay:
    """The confusion matrix of predictions and ranges.

    A row counts as the class of its range that is nearest to its prediction. So the diagonal holds
    the predictions inside their range, and the distance from it is the interval loss. For exact
    labels it is the usual matrix. Rows without a label are left out.

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

    def __init__(self, matrix: Any, classes: Any) -> None:
        self.matrix = matrix
        self.classes = classes

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Self:
        """Draw the matrix of a model's predictions.

        Parameters
        ----------
        estimator : estimator
            A fitted learner of this package, alone or at the end of a Pipeline.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : IntervalConfusionDisplay
            What was drawn.
        """
        learner, rank, _, _, intervals = _rated(estimator, X, y)
        return cls._counted(rank, intervals, learner.order_, ax)

    @classmethod
    def from_predictions(
        cls, y: Any, y_pred: Any, *, classes: Any = None, ax: Axes | None = None
    ) -> Self:
        """Draw the matrix of predictions.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals.
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
        labels, predicted = _ranks.read(y), _ranks.read(y_pred, name="y_pred", columns=(1,))
        if classes is None:
            order = _ranks.order_classes(labels, predicted)
        else:
            order = _ranks.check_classes(classes)
        rank = _ranks.to_intervals(predicted, order, name="y_pred")[:, 0]
        intervals = _ranks.to_intervals(labels, order)
        _ranks.check_length(intervals, rank, other="y_pred")
        return cls._counted(rank, intervals, order, ax)

    @classmethod
    def _counted(cls, rank: Any, intervals: Any, classes: Any, ax: Axes | None) -> Self:
        labelled = _ranks.is_labelled(intervals)
        rank, intervals = rank[labelled], intervals[labelled]
        nearest = np.clip(rank, intervals[:, 0], intervals[:, 1])
        matrix = np.zeros((len(classes), len(classes)), dtype=np.int64)
        np.add.at(matrix, (nearest, rank), 1)
        return cls(matrix, classes).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : IntervalConfusionDisplay
            This display.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        shares = self.matrix / np.maximum(self.matrix.sum(axis=1, keepdims=True), 1)
        ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
        if len(self.classes) <= MOST_NUMBERS:
            for (i, j), n in np.ndenumerate(self.matrix):
                color = "white" if shares[i, j] > 0.5 else "black"
                ax.text(j, i, str(n), ha="center", va="center", color=color)
        named = _named(self.classes)
        names = list(named.values())
        slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
        ax.set_xticks(list(named), names, **(slanted if max(map(len, names)) > 6 else {}))
        ax.set_yticks(list(named), names)
        ax.set_xlabel("predicted")
        ax.set_ylabel("class of the range nearest to it")
        return self


def plot_scores(estimator: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the rows by score, coloured by whether they are predicted inside their range.

    Parameters
    ----------
    estimator : estimator
        A fitted learner with thresholds, alone or at the end of a Pipeline.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or intervals.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    See Also
    --------
    ScoreAxisDisplay : What is drawn.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import plot_scores
    >>> X, y = [[0.0], [1.0], [2.0]], [(1, 1), (1, 2), (2, 2)]
    >>> ax = plot_scores(PRIL(random_state=0, max_iter=50).fit(X, y), X, y)
    >>> ax.get_xlabel()
    'score'
    """
    return ScoreAxisDisplay.from_estimator(estimator, X, y, ax=ax).ax_


def plot_model(
    estimator: Any,
    names: Sequence[str] | None = None,
    *,
    top: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Plot the largest weights of a model on its score axis, with its thresholds.

    Parameters
    ----------
    estimator : estimator
        A fitted linear learner with thresholds, alone or at the end of a Pipeline.
    names : sequence of str, default=None
        Names of the features. None takes those that the model knows, or else numbers.
    top : int, default=10
        How many weights to draw.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    See Also
    --------
    WeightsDisplay : What is drawn.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import plot_model
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [(1, 1), (1, 2), (2, 2)]
    >>> ax = plot_model(PRIL(random_state=0).fit(X, y), ["height", "width"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['height', 'width']
    """
    return WeightsDisplay.from_estimator(estimator, names=names, top=top, ax=ax).ax_


class ReliabilityDisplay:
    """Probabilities against the shares that are then observed, a curve for each class but the last.

    Rows are put into ten bins by their probability to be at or below a class. A point is a bin: its
    mean probability, and the share of its rows that are at or below the class. The closer to the
    diagonal, the better.

    Parameters
    ----------
    curves : list of Reliability
        For each class but the last, the points: `mean`, `seen`, and the `share` of rows.
    classes : array-like
        The classes, lowest first.
    error : float
        The calibration error, see :func:`pril.metrics.calibration_error`.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
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
    >>> display.ax_.get_ylabel()
    'observed share'
    """

    ax_: Axes
    figure_: Any

    def __init__(self, curves: list[Reliability], *, classes: Any, error: float) -> None:
        self.curves = curves
        self.classes = classes
        self.error = error

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
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
            Exact labels or intervals; rows whose label is a range, or missing, are left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        if not hasattr(estimator, "predict_proba"):
            raise InputTypeError(
                f"{type(estimator).__name__} has no predict_proba: no probabilities"
            )
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            classes=order_of(estimator),
            sample_weight=sample_weight,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        y_proba: ArrayLike,
        *,
        classes: Any = None,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw probabilities that were computed before.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals; rows whose label is a range, or missing, are left out.
        y_proba : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, as `predict_proba` gives them: columns follow the sorted
            classes.
        classes : array-like of shape (n_classes,), default=None
            The classes, lowest first. None takes them from y, where all must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        curves = reliability_curves(y, y_proba, classes, sample_weight)
        error = calibration_error(y, y_proba, classes=classes, sample_weight=sample_weight)
        if classes is None:
            classes = _ranks.order_classes(_ranks.read(y))
        return cls(curves, classes=classes, error=error).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The same object, with the axes.
        """
        self.ax_ = ax = _axes(ax)
        self.figure_ = ax.figure
        ax.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=0.8)
        for name, curve in zip(self.classes, self.curves, strict=False):
            line = ax.plot(curve.mean, curve.seen, label=f"at or below {_text(name)}", linewidth=1)[
                0
            ]
            ax.scatter(curve.mean, curve.seen, s=300 * curve.share, color=line.get_color())
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("probability")
        ax.set_ylabel("observed share")
        ax.set_title(f"calibration error {self.error:.3f}", fontsize=10)
        if self.curves:
            ax.legend(loc="upper left", fontsize=8, framealpha=0.9)
        return self
