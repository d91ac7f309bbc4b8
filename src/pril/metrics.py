"""How good predictions are when the truth is a range, in ranks whatever the labels' coding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import BaseEstimator

from pril import _ranks

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Ranks = NDArray[np.int64]

__all__ = [
    "IntervalScorer",
    "interval_absolute_error",
    "interval_accuracy",
    "interval_accuracy_scorer",
    "interval_hinge_loss",
    "neg_interval_absolute_error_scorer",
]


def interval_absolute_error(
    y_true: Any,
    y_pred: Any,
    *,
    classes: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean number of ranks by which a prediction misses its interval.

    The paper's interval-insensitive loss L_I^MAE; for exact labels the mean absolute error.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends. A missing end is open; a row without a label is left
        out.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes all that occur in either argument, as `fit`
        would; a class that does not occur then does not count as a rank.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    loss : float
        0 is best.

    Examples
    --------
    >>> from pril.metrics import interval_absolute_error
    >>> interval_absolute_error([(1, 2), (2, 3), (1, 1)], [2, 1, 3], classes=[1, 2, 3])
    1.0
    """
    intervals, rank = _rank_both(y_true, y_pred, classes)
    loss = _ranks.interval_loss(intervals, rank)
    return mean_over_rows(loss, _ranks.is_labelled(intervals), sample_weight)


def interval_accuracy(
    y_true: Any,
    y_pred: Any,
    *,
    classes: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the share of predictions inside their interval; for exact labels the accuracy.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends. A missing end is open; a row without a label is left
        out.
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes all that occur in either argument.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    share : float
        1 is best.

    Examples
    --------
    >>> from pril.metrics import interval_accuracy
    >>> interval_accuracy([(1, 2), (2, None), (1, 1), (3, 3)], [2, 3, 1, 1], classes=[1, 2, 3])
    0.75
    """
    intervals, rank = _rank_both(y_true, y_pred, classes)
    hits = _ranks.interval_loss(intervals, rank) == 0
    return mean_over_rows(hits, _ranks.is_labelled(intervals), sample_weight)


def interval_hinge_loss(
    y_true: Any,
    scores: ArrayLike,
    thresholds: ArrayLike,
    *,
    classes: Any = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean of the convex surrogate that PRIL descends on, the paper's L_I^IMC.

    For each row, the distances by which the score lies on the wrong side of thresholds, summed.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends. A missing end is open; a row without a label is left
        out.
    scores : array-like of shape (n_samples,)
        Scores, as `latent` gives them.
    thresholds : array-like of shape (n_classes - 1,)
        Thresholds, ascending, as `thresholds_` holds them.
    classes : array-like of shape (n_classes,), default=None
        The ordered classes, lowest first. None takes them from `y_true`, where all must occur.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    loss : float
        0 is best.

    Examples
    --------
    >>> from pril.metrics import interval_hinge_loss
    >>> interval_hinge_loss([(1, 1), (2, 3)], [0.5, -1.0], [0.0, 1.0], classes=[1, 2, 3])
    0.75
    """
    order, intervals = _ranks.encode(_ranks.read(y_true, name="y_true"), classes, name="y_true")
    cut, score = (np.asarray(values, dtype=np.float64) for values in (thresholds, scores))
    if cut.shape != (len(order) - 1,):
        raise ValueError(
            f"thresholds must have shape ({len(order) - 1},), got {cut.shape}, for the classes "
            f"{_ranks.named(order)}; pass classes= if some do not occur in y_true"
        )
    if not (np.diff(cut) >= 0).all() or not np.isfinite(cut).all():
        raise ValueError(f"thresholds must be finite and ascend, got {_ranks.named(cut)}")
    if score.ndim != 1 or not np.isfinite(score).all():
        raise ValueError(f"scores must be a 1d array of finite numbers, got shape {score.shape}")
    _ranks.check_length(score, intervals, name="scores", other="y_true")
    index = np.arange(len(cut))
    distance = score[:, np.newaxis] - cut
    below = np.where(index < intervals[:, :1], np.maximum(-distance, 0.0), 0.0)
    above = np.where(index >= intervals[:, 1:], np.maximum(distance, 0.0), 0.0)
    loss = (below + above).sum(axis=1)
    return mean_over_rows(loss, _ranks.is_labelled(intervals), sample_weight)


class IntervalScorer(BaseEstimator):
    """A scorer for model selection that takes the order of the classes from the estimator.

    Parameters
    ----------
    metric : callable
        A function of this module, called as ``metric(y, predicted, classes=, sample_weight=)``.
    sign : int, default=1
        -1 where a smaller value of the metric is better.

    Notes
    -----
    It is called as any scorer, ``scorer(estimator, X, y, sample_weight=None)``. With scikit-learn's
    metadata routing, ``clone(scorer).set_score_request(sample_weight=True)`` asks for the weights
    of the rows. A label that the estimator does not know is an error here: name all classes on the
    estimator. For labels with open ends pass a splitter such as ``cv=KFold(5)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from pril import PRIL
    >>> from pril.metrics import neg_interval_absolute_error_scorer
    >>> X, y = np.arange(12.0).reshape(-1, 1), np.repeat([[1, 1], [1, 2], [2, 2]], 4, axis=0)
    >>> search = GridSearchCV(
    ...     PRIL(classes=[1, 2], random_state=0),
    ...     {"average": [True, False]},
    ...     scoring=neg_interval_absolute_error_scorer,
    ...     cv=2,
    ... ).fit(X, y)
    >>> sorted(search.best_params_)
    ['average']
    """

    def __init__(self, metric: Any, sign: int = 1) -> None:
        self.metric = metric
        self.sign = sign

    def __call__(
        self, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> float:
        """Score a fitted classifier.

        Parameters
        ----------
        estimator : object
            A fitted classifier, or a pipeline that ends in one, with `classes_` in order.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals; a row without a label is left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Higher is better.
        """
        options = {"classes": estimator.classes_, "sample_weight": sample_weight}
        return self.sign * float(self.metric(y, estimator.predict(X), **options))

    def score(
        self, estimator: Any, X: Any, y: Any, sample_weight: ArrayLike | None = None
    ) -> float:
        """Do the same by the name that metadata routing knows.

        Parameters
        ----------
        estimator : object
            A fitted classifier, or a pipeline that ends in one, with `classes_` in order.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals; a row without a label is left out.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Higher is better.
        """
        return self(estimator, X, y, sample_weight)


interval_accuracy_scorer = IntervalScorer(interval_accuracy)
neg_interval_absolute_error_scorer = IntervalScorer(interval_absolute_error, sign=-1)


def mean_over_rows(
    values: NDArray[Any],
    labelled: NDArray[np.bool_],
    sample_weight: ArrayLike | None,
    *,
    name: str = "y_true",
) -> float:
    """Return the weighted mean of one value a row, over the rows that have a label."""
    if not labelled.any():
        raise ValueError(f"{name} has no row with a label, and a mean needs at least one")
    if sample_weight is None:
        return float(values[labelled].mean())
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != values.shape:
        raise ValueError(f"sample_weight has shape {weights.shape}, expected {values.shape}")
    if not np.isfinite(weights).all() or (weights < 0).any():
        raise ValueError("sample_weight must be finite and not negative")
    if not weights[labelled].any():
        raise ValueError(f"sample_weight is zero for every row of {name} with a label")
    return float(np.average(values[labelled].astype(np.float64), weights=weights[labelled]))


def _rank_both(y_true: Any, y_pred: Any, classes: Any) -> tuple[Ranks, Ranks]:
    """Return the intervals of the truth and the ranks of the predictions."""
    truth = _ranks.read(y_true, name="y_true")
    guess = _ranks.read(y_pred, name="y_pred", columns=(1,))
    if classes is None:
        order = _ranks.order_classes(truth, guess, name="y_true")
    else:
        order = _ranks.check_classes(classes)
    intervals = _ranks.to_intervals(truth, order, name="y_true")
    ranks = _ranks.to_intervals(guess, order, name="y_pred")
    _ranks.require_labels(guess, name="y_pred")
    _ranks.check_length(ranks, intervals, name="y_pred", other="y_true")
    return intervals, ranks[:, 0]
