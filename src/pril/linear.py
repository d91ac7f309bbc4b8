"""The linear learners: each is its parameters, its rule and its geometry."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pril import _loop as loop
from pril import _ranks
from pril._online import OnlineClassifier, ThresholdClassifier
from pril._sklearn import Interval
from pril.errors import FeatureRangeWarning, RowError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = [
    "MPRIL",
    "PRIL",
    "MulticlassPerceptron",
    "PRank",
    "WidrowHoff",
]


class PRIL(ThresholdClassifier):
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
    tol : float, default=None
        Stop `fit` when a pass's mean interval loss, each row judged before it is learned, has not
        improved by `tol` for `n_iter_no_change` passes. None: stop only after a pass without a
        mistake.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
    >>> model = PRIL(classes=[1, 2, 3], random_state=1).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    >>> model.score(X, y)
    1.0
    """

    def _rule(self) -> loop.Pril:
        return loop.Pril(skip_correct=False)


class PRank(ThresholdClassifier):
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
    tol : float, default=None
        Stop `fit` when a pass's mean interval loss, each row judged before it is learned, has not
        improved by `tol` for `n_iter_no_change` passes. None: stop only after a pass without a
        mistake.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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

    def _inspect(self, rows: Any, table: _ranks.Labels, intervals: Array) -> None:
        ranges = intervals[:, 0] < intervals[:, 1]
        if ranges.any():
            t = int(np.argmax(ranges))
            raise RowError(
                "y",
                t,
                f"PRank learns from exact labels only, got the interval {table.row(t)!r}; "
                "PRIL learns from intervals",
            )


class MPRIL(ThresholdClassifier):
    """Multiplicative PRIL, for many features of which few matter.

    The sums are PRIL's, ``u += z x`` and ``n_i += z`` for each violated constraint; the model is

        ``w_j = exp(eta u_j) / Z``,  ``theta_i = exp(-eta n_i) / Z``

    or, signed, twice the hyperbolic sine of the same exponents. Z makes the positive parts add up
    to one; no prediction and no update depends on it. There is no averaged version: a mean of
    normalised iterates cannot be kept lazily, since every weight moves with Z in every update.

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
    eta : float, default=0.05
        Step size.
    signed : bool, default=True
        Whether weights and thresholds may be negative. False is the paper's algorithm, which
        needs a good model with non-negative weights and thresholds.
    tol : float, default=None
        Stop `fit` when a pass's mean interval loss, each row judged before it is learned, has not
        improved by `tol` for `n_iter_no_change` passes. None: stop only after a pass without a
        mistake.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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
    PRIL : The additive version.

    Notes
    -----
    The guarantee assumes features within [-1, 1], for example from
    :class:`~sklearn.preprocessing.MaxAbsScaler`; others get a `FeatureRangeWarning`.

    Examples
    --------
    >>> from pril import MPRIL
    >>> X = [[-1.0], [-0.6], [-0.2], [0.2], [0.6], [1.0]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, 3)]
    >>> model = MPRIL(max_iter=100, random_state=0).fit(X, y)
    >>> model.predict([[-0.9], [0.0], [0.9]])
    array([1, 2, 3])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **OnlineClassifier._parameter_constraints,
        "eta": [Interval(Real, 0, None, closed="neither")],
        "signed": ["boolean"],
    }
    _parameter_constraints.pop("average")
    _fixed = ("eta", "signed")

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Any = None,
        eta: float = 0.05,
        signed: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        self.classes = classes
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.eta = eta
        self.signed = signed
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change

    def _rule(self) -> loop.Pril:
        return loop.Pril(skip_correct=False)

    def _geometry(self) -> loop.Exponential | loop.SignedExponential:
        geometry = loop.SignedExponential if self.signed else loop.Exponential
        return geometry(float(self.eta))

    def _inspect(self, rows: Any, table: _ranks.Labels, intervals: Array) -> None:
        cells = rows.X if isinstance(rows, loop.Dense) else rows.data
        if cells.size == 0:
            return
        largest = max(cells.max(), cells.min(), key=abs)
        if 1.0 < abs(largest) < np.inf:  # what is infinite is refused with its row
            warnings.warn(
                f"X reaches {largest:.6g}: MPRIL expects features within [-1, 1]; scale them, for "
                "example with MaxAbsScaler",
                FeatureRangeWarning,
                stacklevel=2,
            )


class WidrowHoff(ThresholdClassifier):
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
        The classes, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    intercept_ : float
        Weight of the constant feature.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
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

    @property
    def intercept_(self) -> float:
        """Weight of the constant feature."""
        return float(self._parameters()[0][0, -1])


class MulticlassPerceptron(OnlineClassifier):
    """The multiclass perceptron, one score a class: a baseline that knows no order.

    The class with the largest score wins. If it lies outside the label ``lo..hi``, the best class
    inside is promoted and the winner demoted:

        ``w_best += x``,  ``w_winner -= x``

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
    fit_intercept : bool, default=True
        Whether to add a constant feature of value 1.
    tol : float, default=None
        Stop `fit` when a pass's mean interval loss, each row judged before it is learned, has not
        improved by `tol` for `n_iter_no_change` passes. None: stop only after a pass without a
        mistake.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of the features.
    intercept_ : ndarray of shape (n_classes,)
        Weights of the constant feature.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the features, where X has them.
    n_iter_ : int
        Passes that `fit` made; `partial_fit` alone sets none.
    t_ : int
        Rounds learned from.
    n_mistakes_ : int
        Rounds that changed the model.
    n_updates_ : int
        Violated constraints, over all rounds.

    References
    ----------
    K. Crammer and Y. Singer, "Ultraconservative Online Algorithms for Multiclass Problems", 2001.

    Examples
    --------
    >>> from pril import MulticlassPerceptron
    >>> X = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    >>> y = [(1, 1), (1, 1), (1, 2), (2, 2), (2, 2), (2, 2)]
    >>> model = MulticlassPerceptron(max_iter=100, random_state=0).fit(X, y)
    >>> model.predict([[0.0], [7.0]])
    array([1, 2])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **OnlineClassifier._parameter_constraints,
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
            tol=tol,
            n_iter_no_change=n_iter_no_change,
        )
        self.fit_intercept = fit_intercept

    def _rule(self) -> loop.Multiclass:
        return loop.Multiclass()

    def _n_scores(self) -> int:
        return len(self.classes_)

    def decision_function(self, X: Any) -> Array:
        """Return the score of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes the second score less the first.
        """
        scores = self._rate(X)[1]
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    @property
    def intercept_(self) -> Array:
        """Weights of the constant feature, one a class."""
        return self._parameters()[0][:, -1].copy()
