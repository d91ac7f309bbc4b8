"""A confusion matrix of ranges and predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril.core import ranking
from pril.metrics import rank_both
from pril.plotting.drawing import Display, draw_cells, name_classes, rated

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def confusion(rank: Any, intervals: Any, n_classes: int) -> Any:
    """Count the rows by the class of their label that is nearest to the prediction, and by it."""
    labelled = ranking.is_labelled(intervals)
    rank, intervals = rank[labelled], intervals[labelled]
    nearest = np.clip(rank, intervals[:, 0], intervals[:, 1])
    counts = np.bincount(nearest * n_classes + rank, minlength=n_classes**2)
    return counts.reshape(n_classes, n_classes)


@dataclass(eq=False, repr=False)
class IntervalConfusionDisplay(Display):
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

    matrix: Any
    classes: Any

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
            Exact labels or ranges.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : IntervalConfusionDisplay
            What was drawn.
        """
        learner, rank, _, _, intervals = rated(estimator, X, y)
        return cls(confusion(rank, intervals, len(learner.order_)), learner.order_).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls, y: Any, y_pred: Any, *, classes: Any = None, ax: Axes | None = None
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
        order, intervals, rank = rank_both(y, y_pred, classes, name="y")
        return cls(confusion(rank, intervals, len(order)), order).plot(ax=ax)

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
        ax = self._begin(ax)
        shares = self.matrix / np.maximum(self.matrix.sum(axis=1, keepdims=True), 1)
        draw_cells(ax, shares, self.matrix)
        name_classes(ax.xaxis, self.classes)
        name_classes(ax.yaxis, self.classes)
        ax.set_xlabel("predicted")
        ax.set_ylabel("class of the range nearest to it")
        return self
