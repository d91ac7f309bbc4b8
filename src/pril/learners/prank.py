"""PRank: perceptron ranking from exact labels, a baseline of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core import loop, ranking
from pril.core.learner import OnlineThresholdClassifier
from pril.core.one_row import StreamMixin
from pril.errors import RowError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class PRank(StreamMixin, OnlineThresholdClassifier):
    """PRank (Crammer and Singer), the baseline for exact labels.

    `PRIL` on exact labels, except at ties: a round whose predicted rank is right is left alone
    even if the score touches a threshold.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        The ordered labels, lowest first. None takes them from y.
    max_iter : int, default=10
        Passes of `fit` over the rows, at most.
    shuffle : bool, default=True
        Whether each pass of `fit` takes the rows in a new order.
    random_state : int, RandomState instance or None, default=None
        Chooses the orders.
    average : bool, default=True
        Predict with the mean of all iterates instead of the last one. Learning goes on from the
        last one.
    half_life : float, default=None
        Rounds after which a round counts half as much in the mean, so that the model follows a
        stream that changes. None: all rounds count the same. It has no effect without `average`.
    tol : float, default=None
        Stop `fit` when a pass's mean interval loss, each row judged before it is learned, has not
        improved by `tol` for `n_iter_no_change` passes. None: stop only after a pass without a
        mistake.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted. Columns of margins are in this order.
    order_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    intercept_ : float
        Weight of the constant feature, 0.0 if there is none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X has them.
    n_iter_ : int
        Passes that `fit` made; `partial_fit` alone sets none.
    t_ : int
        Rounds learned from.
    n_mistakes_ : int
        Rounds that changed the model.
    n_updates_ : int
        Violated constraints, over all rounds.

    See Also
    --------
    PRIL : Takes intervals as well.

    References
    ----------
    K. Crammer and Y. Singer, "Pranking with Ranking", NIPS 2001.

    Examples
    --------
    >>> from pril import PRank
    >>> X = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    >>> model = PRank(max_iter=100, random_state=0).fit(X, [1, 1, 2, 2, 3, 3])
    >>> model.predict([[0.0], [7.0]])
    array([1, 3])
    """

    def _rule(self) -> loop.Pril:
        return loop.Pril(skip_correct=True)

    def _inspect_labels(self, table: ranking.Labels, intervals: Array) -> None:
        ranges = intervals[:, 0] < intervals[:, 1]
        if ranges.any():
            t = int(np.argmax(ranges))
            raise RowError(
                "y",
                t,
                f"PRank learns from exact labels only, got the interval {table.row(t)!r}; "
                "PRIL learns from intervals",
            )
