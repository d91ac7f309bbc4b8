"""PRIL: perceptron ranking from interval labels, the learner of the paper."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pril.core import loop
from pril.core.learner import OnlineThresholdClassifier
from pril.core.one_row import StreamMixin

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class PRIL(StreamMixin, OnlineThresholdClassifier):
    """Perceptron ranking from interval labels, the learner of the paper.

    A row with score ``f = w . x`` and label ``lo..hi`` asks every threshold below rank `lo` to lie
    below f and every threshold from rank `hi` on to lie above it. Each violated constraint i, with
    z = +1 in the first case and -1 in the second, moves the model one step:

        ``w += z x``,  ``theta_i -= z``

    There is no step size: from the zero start it would only rescale the model.

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
    MPRIL : The multiplicative version, for many irrelevant features.
    PRank : The same algorithm for exact labels.

    Notes
    -----
    With ``average=False``, `partial_fit` is Algorithm 1 of the paper to the letter. Centre and
    scale the features, for example with :class:`~sklearn.preprocessing.StandardScaler`: the length
    of a row decides how much it counts.

    References
    ----------
    N. Manwani, "PRIL: Perceptron Ranking Using Interval Labeled Data".

    Examples
    --------
    >>> from pril import PRIL
    >>> X = [[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, None)]
    >>> model = PRIL(classes=[1, 2, 3], random_state=4).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    >>> model.score(X, y)
    1.0
    """

    def _rule(self) -> loop.Pril:
        return loop.Pril(skip_correct=False)
