"""Widrow and Hoff's regression on ranks, a baseline of the paper."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from pril.core import loop
from pril.core.learner import OnlineClassifier, OnlineThresholdClassifier
from pril.core.one_row import StreamMixin
from pril.core.scikit import Interval

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]


class WidrowHoff(StreamMixin, OnlineThresholdClassifier):
    """Least-mean-squares regression on the ranks, rounded to the nearest: a baseline.

    The residual is taken to the nearest end of the label, ``r = clip(f, lo, hi) - f`` in ranks
    1..K, and is zero inside. The thresholds are fixed half-way between the ranks.

        ``w += eta r x / (1 + |x|^2)``

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
    eta : float, default=0.1
        Step size.
    normalize : bool, default=True
        Whether to divide the step by ``1 + |x|^2``, so that unscaled data cannot blow it up. False
        is the paper's rule.
    fit_intercept : bool, default=True
        Whether to add a constant feature of value 1; it counts in ``|x|^2`` as any other.
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

    Examples
    --------
    >>> from pril import WidrowHoff
    >>> X = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, 3)]
    >>> model = WidrowHoff(eta=0.5, max_iter=100, random_state=0).fit(X, y)
    >>> model.predict([[0.0], [3.5], [7.0]])
    array([1, 2, 3])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **OnlineClassifier._parameter_constraints,
        "eta": [Interval(Real, 0, None, closed="neither")],
        "normalize": ["boolean"],
        "fit_intercept": ["boolean"],
    }
    _fixed = ("average", "fit_intercept")

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Any = None,
        average: bool = True,
        half_life: float | None = None,
        eta: float = 0.1,
        normalize: bool = True,
        fit_intercept: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        super().__init__(
            classes=classes,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            average=average,
            half_life=half_life,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
        )
        self.eta = eta
        self.normalize = normalize
        self.fit_intercept = fit_intercept

    def _rule(self) -> loop.WidrowHoff:
        return loop.WidrowHoff(float(self.eta), bool(self.normalize))

    def _geometry(self) -> loop.FixedThresholds:
        return loop.FixedThresholds()
