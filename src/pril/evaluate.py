"""Evaluation on rows that were not learned yet: progressive, and out of fold."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import indexable

from pril.core import ranking
from pril.core.classifier import OrdinalClassifier, naming_rows
from pril.core.learner import OnlineClassifier
from pril.core.parts import Parts
from pril.core.scikit import safe_indexing
from pril.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Progress", "cross_val_proba", "progressive"]


@dataclass(frozen=True)
class Progress:
    """The predictions of a learner for each row, made before it learned the row.

    Attributes
    ----------
    predictions : ndarray of shape (n_samples,)
        Predicted labels.
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        Scores behind them; those of classes in the order of the estimator's `classes_`.
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
    if isinstance(estimator, OrdinalClassifier) and not isinstance(estimator, OnlineClassifier):
        raise InputTypeError(
            f"{type(estimator).__name__} learns all rows at once, and cannot predict each before "
            "it is learned: use OrderedLogit"
        )
    if not isinstance(estimator, OnlineClassifier):
        raise InputTypeError(
            f"progressive runs the learners of this package, got {type(estimator).__name__}; put a "
            "pipeline's other steps before it"
        )
    batch, record = estimator._partial_fit(X, y, classes, recording=True)
    if record is None:
        raise InputError("X has no rows and the estimator no classes yet: nothing to predict")
    scores = record.scores
    return Progress(
        predictions=estimator.order_[record.rank],
        scores=scores[:, 0] if scores.shape[1] == 1 else estimator._by_class(scores),
        losses=ranking.interval_loss(batch.intervals, record.rank),
        hinge_losses=record.hinge,
        labelled=batch.labelled(),
    )


def cross_val_proba(estimator: Any, X: Any, y: Any, *, cv: Any = None, groups: Any = None) -> Any:
    """Return out-of-fold probabilities: of each row, by a model that has not learned from it.

    scikit-learn's ``cross_val_predict(method="predict_proba")`` numbers the labels, and so cannot
    take ranges, nor words whose order is not the alphabet's.

    Parameters
    ----------
    estimator : estimator
        A learner of this package with `predict_proba`, or a Pipeline that ends in one.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        Features, as the estimator takes them.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or intervals. A row without a label is predicted, but not learned from.
    cv : int, splitter or iterable, default=None
        As in scikit-learn; None is five folds. A number of folds is stratified if all labels are
        exact. Every row must be in one test fold.
    groups : array-like of shape (n_samples,), default=None
        Groups for the splitter.

    Returns
    -------
    probabilities : ndarray of shape (n_samples, n_classes)
        Columns follow the sorted classes, as those of `predict_proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedLogit
    >>> from pril.evaluate import cross_val_proba
    >>> X = np.linspace(-2.0, 2.0, 40).reshape(-1, 1)
    >>> y = [(1, 1), (1, 2)] * 10 + [(2, 3), (3, 3)] * 10
    >>> model = OrderedLogit(classes=[1, 2, 3], random_state=0)
    >>> cross_val_proba(model, X, y, cv=4).shape
    (40, 3)
    """
    from sklearn.model_selection import check_cv  # takes half a second to import

    parts = Parts.of(estimator)
    learner = parts.learner
    if parts.is_frozen or not hasattr(learner, "predict_proba"):
        raise InputTypeError(
            "estimator must be a learner of pril with predict_proba, such as OrderedLogit, or a "
            f"Pipeline that ends in one, got {type(learner).__name__}"
        )
    X, y = indexable(X, y)
    table = ranking.read(y)
    classes, intervals = ranking.encode(table, learner.classes)
    rank = intervals[:, 0]
    strata = rank if (rank == intervals[:, 1]).all() else None
    splits = list(check_cv(cv, strata, classifier=True).split(X, strata, groups))
    tested = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(tested), np.arange(len(rank))):
        raise InputError("cv must put every row into one test fold, and no row into two")
    proba = np.empty((len(rank), len(classes)))
    for train, test in splits:
        model = clone(estimator)
        Parts.of(model).learner.set_params(classes=classes)  # some may not occur in the fold
        with naming_rows(train):
            model.fit(safe_indexing(X, train), safe_indexing(y, train))
        proba[test] = model.predict_proba(safe_indexing(X, test))
    return proba
