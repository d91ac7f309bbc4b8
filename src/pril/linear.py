"""The linear learners: each is its parameters, its rule and its geometry."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pril import _loop as loop
from pril import _ranks
from pril._classifier import ProbabilityClassifier, Ratings
from pril._memory import Memory
from pril._one_row import ProbabilityStream, Stream, StreamMixin
from pril._online import OnlineClassifier, OnlineThresholdClassifier
from pril._sklearn import Interval, StrOptions
from pril.errors import FeatureRangeWarning, InputError, RowError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = [
    "MPRIL",
    "PRIL",
    "MulticlassPerceptron",
    "OrderedLogit",
    "PRank",
    "WidrowHoff",
]


MOST_CLASSES = 64  # of OrderedLogit: what it knows of ranges grows with their cube


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


class OrderedLogit(StreamMixin, ProbabilityClassifier, OnlineThresholdClassifier):
    """Ordered logit learned online from ranges: a learner with probabilities.

    The proportional-odds model of a row with score ``f = w . x`` and thresholds theta is

        ``P(y <= i) = 1 / (1 + exp(f - theta_i))``

    Each round takes a gradient step on the negative log-likelihood of the row's label. The learner
    also learns how ranges come about: rows with exact labels show which ranges each class is given,
    and the likelihood of a range weighs its classes by that.

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
        Predict with a mean of all iterates instead of the last one; iterate t weighs t. Learning
        goes on from the last one.
    half_life : float, default=None
        Rounds after which a round counts half as much, in the mean and in all that the learner
        counts, so that the model follows a stream that changes. None: it counts in full for ever.
    rate : float, default=10.0
        Step size of the weights. It does not depend on the scale of the features.
    cut_rate : float, default=2.0
        Step size of the thresholds.
    trust : float, default=30.0
        Number of rows with an exact label of a class after which what they show about ranges counts
        half. Until then, all classes of a range are taken to be given it equally often.
    noise : float, default=0.0
        Relative chance of a label that does not hold the true class, between 0 and 1.
    decision : {"median", "mode"}, default="median"
        Which class to predict: the median of the probabilities, which has the least expected
        absolute error, or the class with the largest one.
    tol : float, default=None
        Stop `fit` when a pass's mean interval loss, each row judged before it is learned, has not
        improved by `tol` for `n_iter_no_change` passes. None: make all `max_iter` passes.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; at most 64. Columns of probabilities and margins are in this order.
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
        Rounds in which the score was on the wrong side of a threshold.
    n_updates_ : int
        Violated constraints, over all rounds.

    See Also
    --------
    PRIL : The paper's perceptron: faster, without probabilities.

    Notes
    -----
    Standardise the features, for example with :class:`~sklearn.preprocessing.StandardScaler`, and
    centre them: there is no intercept, the thresholds have that role.

    Where no label is exact, nothing shows how ranges come about. The classes at both ends cannot
    then be told from their neighbours, and `PRIL` is as good.

    References
    ----------
    P. McCullagh, "Regression models for ordinal data", 1980 (the model).

    D. F. Heitjan and D. B. Rubin, "Ignorability and coarse data", 1991 (how ranges come about).

    J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods", 2011 (the steps).

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> X = [[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, None)]
    >>> model = OrderedLogit(classes=[1, 2, 3], random_state=0).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    >>> model.predict_proba([[0.0]]).argmax(axis=1)
    array([1])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **OnlineClassifier._parameter_constraints,
        "rate": [Interval(Real, 0, None, closed="neither")],
        "cut_rate": [Interval(Real, 0, None, closed="neither")],
        "trust": [Interval(Real, 0, None, closed="left")],
        "noise": [Interval(Real, 0, 1, closed="both")],
        "decision": [StrOptions({"median", "mode"})],
    }
    _whole_steps = False
    _stops_without_mistakes = False  # the probabilities still get better
    _stream_type = ProbabilityStream

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Any = None,
        average: bool = True,
        half_life: float | None = None,
        rate: float = 10.0,
        cut_rate: float = 2.0,
        trust: float = 30.0,
        noise: float = 0.0,
        decision: Literal["median", "mode"] = "median",
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
        self.rate = rate
        self.cut_rate = cut_rate
        self.trust = trust
        self.noise = noise
        self.decision = decision

    def _rule(self) -> loop.Likelihood:
        return loop.Likelihood(
            rate=float(self.rate),
            cut_rate=float(self.cut_rate),
            trust=float(self.trust),
            noise=float(self.noise),
            mode=self.decision == "mode",
        )

    def _blank_memory(self, rows: Any) -> Memory:
        """Return the start: thresholds at the quantiles of the logistic, equal probabilities."""
        n_classes = len(self.order_)
        if n_classes > MOST_CLASSES:
            raise InputError(
                f"OrderedLogit takes at most {MOST_CLASSES} classes, got {n_classes}: put them "
                "into bins, for example with pril.labels.from_bounds, or use PRIL"
            )
        memory: Memory = super()._blank_memory(rows)
        below = np.arange(1, n_classes)
        memory.state.n[:] = np.log(n_classes - below) - np.log(below)
        return memory

    def _label_chances(self, intervals: Array) -> Array:
        chances = np.empty((len(intervals), len(self.order_)))
        loop.label_chances(float(self.trust), self._memory.state.own, intervals, chances)
        return chances


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

    def _inspect_labels(self, table: _ranks.Labels, intervals: Array) -> None:
        ranges = intervals[:, 0] < intervals[:, 1]
        if ranges.any():
            t = int(np.argmax(ranges))
            raise RowError(
                "y",
                t,
                f"PRank learns from exact labels only, got the interval {table.row(t)!r}; "
                "PRIL learns from intervals",
            )


class MPRIL(StreamMixin, OnlineThresholdClassifier):
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
    _parameter_constraints.pop("half_life")
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

    def _inspect_rows(self, rows: Any) -> None:
        cells = rows.X if isinstance(rows, loop.Dense) else rows.data
        if np.maximum.reduce(abs(cells), axis=None, initial=0.0) <= 1.0:
            return
        largest = max(cells.max(), cells.min(), key=abs)
        if 1.0 < abs(largest) < np.inf:  # what is infinite is refused with its row
            warnings.warn(
                f"X reaches {largest:.6g}: MPRIL expects features within [-1, 1]; scale them, for "
                "example with MaxAbsScaler",
                FeatureRangeWarning,
                stacklevel=2,
            )


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


class MulticlassPerceptron(StreamMixin, OnlineClassifier):
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
    half_life : float, default=None
        Rounds after which a round counts half as much in the mean, so that the model follows a
        stream that changes. None: all rounds count the same. It has no effect without `average`.
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
        The classes, sorted. Columns of margins are in this order.
    order_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of the features, a row for each of `classes_`.
    intercept_ : ndarray of shape (n_classes,)
        Weights of the constant feature, one for each of `classes_`.
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
    _stream_type = Stream

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Any = None,
        average: bool = True,
        half_life: float | None = None,
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
        self.fit_intercept = fit_intercept

    def _rule(self) -> loop.Multiclass:
        return loop.Multiclass()

    def _n_scores(self) -> int:
        return len(self.order_)

    def decision_function(self, X: Any) -> Array:
        """Return the score of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            In the order of `classes_`; for two classes the second score less the first.
        """

        def compare(rated: Ratings, _: slice) -> Array:
            scores = self._by_class(rated.scores)
            return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

        return self._answer(self._readable(X), compare)

    @property
    def coef_(self) -> Array:
        """Weights of the features, one row a class."""
        return self._by_class(super().coef_.T).T

    @property
    def intercept_(self) -> Array:
        """Weights of the constant feature, one a class."""
        return self._by_class(self._parameters()[0][:, -1]).copy()
