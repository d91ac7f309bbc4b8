"""Plots of models. They need matplotlib: ``pip install 'pril[plot]'``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pril import _ranks
from pril.metrics import Reliability, calibration_error, reliability_curves

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

    from pril._online import ThresholdClassifier

__all__ = ["ReliabilityDisplay", "plot_model", "plot_scores"]

INSIDE, OUTSIDE = "#0072b2", "#d55e00"  # safe for colour-blind readers


def _axes(ax: Axes | None) -> Axes:
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("pril.plotting needs matplotlib: pip install 'pril[plot]'") from error
    return plt.subplots(figsize=(8, 4.5), layout="constrained")[1] if ax is None else ax


def plot_scores(estimator: ThresholdClassifier, X: Any, y: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the rows by score: the class of each prediction, the interval of each label.

    A vertical bar spans the classes that a row's label allows, a dot is the predicted class, and
    dotted lines are the thresholds.

    Parameters
    ----------
    estimator : estimator
        A fitted learner with thresholds.
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

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import plot_scores
    >>> X, y = [[0.0], [1.0], [2.0]], [(1, 1), (1, 2), (2, 2)]
    >>> ax = plot_scores(PRIL(random_state=0, max_iter=50).fit(X, y), X, y)
    >>> ax.get_xlabel()
    'score'
    """
    ax = _axes(ax)
    if not hasattr(estimator, "latent"):
        raise TypeError(f"{type(estimator).__name__} has no score axis to draw")
    rank, scores, cut = estimator._rate(X)
    score = scores[:, 0]
    table = _ranks.read(y)
    intervals = _ranks.to_intervals(table, estimator.classes_)
    _ranks.check_length(intervals, rank)
    labelled = _ranks.is_labelled(intervals)
    intervals, rank, score = intervals[labelled], rank[labelled], score[labelled]
    inside = _ranks.interval_loss(intervals, rank) == 0
    for hits, color, name in ((inside, INSIDE, "inside"), (~inside, OUTSIDE, "outside")):
        lo, hi = intervals[hits].T
        said = f"prediction {name} its interval ({hits.mean():.0%})"
        ax.vlines(score[hits], lo - 0.3, hi + 0.3, color=color, alpha=0.3, linewidth=1.5)
        ax.plot(score[hits], rank[hits], "o", color=color, markersize=3.5, label=said)
    span = score.max() - score.min() or 1.0
    left, right = score.min() - 0.04 * span, score.max() + 0.04 * span
    ax.stairs(
        np.arange(len(cut) - 1),
        np.clip(
            cut, min(left, cut[1:-1].min(initial=left)), max(right, cut[1:-1].max(initial=right))
        ),
        color="black",
        baseline=None,
        linewidth=1,
    )
    for i, threshold in enumerate(cut[1:-1]):
        ax.axvline(threshold, color="black", linestyle=":", linewidth=0.8)
        ax.annotate(
            f"{threshold:.3g}",
            (threshold, 1.0),
            xycoords=ax.get_xaxis_transform(),
            xytext=(0, 4 + 10 * (i % 2)),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    ax.set_yticks(np.arange(len(estimator.classes_)), [str(c) for c in estimator.classes_])
    ax.set_ylim(-0.6, len(estimator.classes_) - 0.4)
    ax.set_xlabel("score")
    ax.set_ylabel("class")
    ax.legend(loc="upper left", fontsize=8, framealpha=0.9)
    return ax


def plot_model(
    estimator: ThresholdClassifier,
    names: Sequence[str] | None = None,
    *,
    top: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Plot the largest weights of a model on its score axis, with its thresholds.

    A bar shows what one unit of a feature, such as one standard deviation, adds to the score. The
    shaded bands are the score ranges of the classes, so a bar shows how many classes its feature
    can move a row.

    Parameters
    ----------
    estimator : estimator
        A fitted linear learner with thresholds.
    names : sequence of str, default=None
        Names of the features. None takes the names of `fit`, or else numbers.
    top : int, default=10
        How many weights to draw.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import plot_model
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [(1, 1), (1, 2), (2, 2)]
    >>> ax = plot_model(PRIL(random_state=0).fit(X, y), ["height", "width"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['height', 'width']
    """
    ax = _axes(ax)
    if not (hasattr(estimator, "coef_") and hasattr(estimator, "thresholds_")):
        raise TypeError(f"{type(estimator).__name__} has no weights on one score axis to draw")
    coef, cuts = estimator.coef_, estimator.thresholds_
    if names is None:
        names = [str(n) for n in getattr(estimator, "feature_names_in_", range(len(coef)))]
    largest = np.argsort(-np.abs(coef), kind="stable")[:top]
    ends = np.concatenate([cuts, coef[largest], [0.0]])
    margin = 0.15 * (ends.max() - ends.min() or 1.0)
    edges = np.concatenate([[ends.min() - margin], cuts, [ends.max() + margin]])
    for k, name in enumerate(estimator.classes_):
        ax.axvspan(edges[k], edges[k + 1], color="black", alpha=0.04 + 0.08 * (k % 2), linewidth=0)
        ax.annotate(
            str(name),
            ((edges[k] + edges[k + 1]) / 2, 1.0),
            xycoords=ax.get_xaxis_transform(),
            xytext=(0, 4 + 10 * (k % 2 if len(cuts) > 8 else 0)),
            textcoords="offset points",
            ha="center",
            fontsize=8,
        )
    place = np.arange(len(largest))
    ax.barh(place, coef[largest], color=np.where(coef[largest] < 0, OUTSIDE, INSIDE), height=0.6)
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_yticks(place, [names[j] for j in largest])
    ax.invert_yaxis()
    ax.set_xlim(edges[0], edges[-1])
    ax.set_xlabel("score")
    return ax


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
    ) -> ReliabilityDisplay:
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
            raise TypeError(f"{type(estimator).__name__} has no predict_proba: no probabilities")
        proba, classes = estimator.predict_proba(X), estimator.classes_
        curves = reliability_curves(y, proba, classes, sample_weight)
        error = calibration_error(y, proba, classes=classes, sample_weight=sample_weight)
        return cls(curves, classes=classes, error=error).plot(ax)

    def plot(self, ax: Axes | None = None) -> ReliabilityDisplay:
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
            line = ax.plot(curve.mean, curve.seen, label=f"{name} or lower", linewidth=1)[0]
            ax.scatter(curve.mean, curve.seen, s=300 * curve.share, color=line.get_color())
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("probability")
        ax.set_ylabel("observed share")
        ax.set_title(f"calibration error {self.error:.3f}", fontsize=10)
        if self.curves:
            ax.legend(loc="upper left", fontsize=8, framealpha=0.9)
        return self
