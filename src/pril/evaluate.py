"""Progressive evaluation: predict, score, then learn, one row after the other."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pril import _ranks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from pril._online import OnlineClassifier

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
        Ranks by which each prediction missed its interval.
    hinge_losses : ndarray of shape (n_samples,)
        The convex surrogate L_I^IMC of each row (for the multiclass perceptron: by how much the
        winner outscored the best class inside the interval).
    """

    predictions: NDArray[Any]
    scores: NDArray[np.float64]
    losses: NDArray[np.int64]
    hinge_losses: NDArray[np.float64]

    @property
    def running_loss(self) -> NDArray[np.float64]:
        """Mean of the losses up to and including each round."""
        return _running_mean(self.losses)

    @property
    def running_hinge_loss(self) -> NDArray[np.float64]:
        """Mean of the hinge losses up to and including each round."""
        return _running_mean(self.hinge_losses)


def _running_mean(values: NDArray[Any]) -> NDArray[np.float64]:
    means: NDArray[np.float64] = np.cumsum(values) / np.arange(1, len(values) + 1)
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
        Exact labels, or the lower and the upper end of each label.
    classes : array-like of shape (n_classes,), default=None
        As in `partial_fit`.

    Returns
    -------
    progress : Progress
        Predictions and losses of every round.

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
    if not hasattr(estimator, "_learn_once"):
        raise TypeError(
            f"progressive runs the learners of this package, got {type(estimator).__name__}; put a "
            "pipeline's other steps before it"
        )
    estimator._validate_params()
    intervals, record = estimator._learn_once(X, y, classes, recording=True)
    if record is None:
        raise ValueError("X has no rows and the estimator no classes yet: nothing to predict")
    return Progress(
        predictions=estimator.classes_[record.rank],
        scores=record.scores[:, 0] if record.scores.shape[1] == 1 else record.scores,
        losses=_ranks.interval_loss(intervals, record.rank),
        hinge_losses=record.hinge,
    )
