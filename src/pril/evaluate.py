"""Progressive evaluation: predict, score, then learn, one row after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pril import _ranks
from pril._online import OnlineClassifier

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Progress", "progressive"]


@dataclass(frozen=True)
class Progress:
    """What a learner said of each row before it learned from it.

    Attributes
    ----------
    predictions : ndarray of shape (n_samples,)
        Predicted labels.
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Scores behind them.
    losses : ndarray of shape (n_samples,)
        Ranks by which each prediction missed its interval; 0 for a row without a label.
    hinge_losses : ndarray of shape (n_samples,)
        The convex surrogate L_I^IMC of each row (for the multiclass perceptron: by how much the
        winner outscored the best class inside the interval); 0 for a row without a label.
    labelled : ndarray of shape (n_samples,)
        Which rows have a label: only these were learned from, and only these count in the means.
    """

    predictions: NDArray[Any]
    scores: NDArray[np.float64]
    losses: NDArray[np.int64]
    hinge_losses: NDArray[np.float64]
    labelled: NDArray[np.bool_]

    @property
    def running_loss(self) -> NDArray[np.float64]:
        """Mean of the losses up to and including each row, NaN before the first label."""
        return self._running_mean(self.losses)

    @property
    def running_hinge_loss(self) -> NDArray[np.float64]:
        """Mean of the hinge losses up to and including each row, NaN before the first label."""
        return self._running_mean(self.hinge_losses)

    def _running_mean(self, values: NDArray[Any]) -> NDArray[np.float64]:
        rounds = np.cumsum(self.labelled)
        means = np.full(len(values), np.nan)
        np.divide(np.cumsum(values), rounds, out=means, where=rounds > 0)
        return means


def progressive(
    estimator: OnlineClassifier, X: Any, y: Any, classes: ArrayLike | None = None
) -> Progress:
    """Predict each row, score the prediction, then learn from the row.

    The estimator learns exactly as with ``partial_fit(X, y, classes)``, and goes on from what it
    knows if it is fitted. The predictions are those of `predict` before each row, from the mean of
    the iterates where the estimator averages; before the very first row they come from the zero
    start.

    Parameters
    ----------
    estimator : estimator
        One of the learners of this package.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or the lower and the upper end of each label. A row without a label is
        predicted, but not learned from.
    classes : array-like of shape (n_classes,), default=None
        As in `partial_fit`.

    Returns
    -------
    progress : Progress
        Predictions and losses of every row.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.evaluate import progressive
    >>> stream = [[1.0], [-1.0], [1.0], [-1.0]], [(2, 2), (1, 1), (1, 2), (1, 1)]
    >>> progress = progressive(PRIL(average=False), *stream, classes=[1, 2])
    >>> progress.predictions
    array([2, 2, 2, 1])
    >>> progress.running_loss
    array([0.        , 0.5       , 0.33333333, 0.25      ])
    """
    if not isinstance(estimator, OnlineClassifier):
        raise TypeError(
            f"progressive runs the learners of this package, got {type(estimator).__name__}; put a "
            "pipeline's other steps before it"
        )
    batch, record = estimator._learn_once(X, y, classes, recording=True)
    if record is None:
        raise ValueError("X has no rows and the estimator no classes yet: nothing to predict")
    return Progress(
        predictions=estimator.classes_[record.rank],
        scores=record.scores[:, 0] if record.scores.shape[1] == 1 else record.scores,
        losses=_ranks.interval_loss(batch.intervals, record.rank),
        hinge_losses=record.hinge,
        labelled=batch.labelled(),
    )
