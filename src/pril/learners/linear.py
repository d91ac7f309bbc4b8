"""The linear learners: PRIL and M-PRIL of the paper, and its baselines.

The baselines are PRank, a multiclass perceptron, and regression on ranks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from numbers import Real
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from pril.bases.classifier import (
    ThresholdMixin,
    by_class,
    check_ready,
    rate_in_batches,
    rows_to_rate,
)
from pril.core import loop_types as types
from pril.core.arrays import Array, FeaturesLike, Seed
from pril.core.rating import Ratings
from pril.core.scikit import Interval, StrOptions
from pril.online.learning import SHARED_CONSTRAINTS, OnlineClassifier
from pril.online.linear_engine import LinearEngine
from pril.online.one_row import RowStream
from pril.online.recent_errors import RecentErrors


class LinearMixin(ABC):
    """An online learner with weights of features.

    A learner supplies `_rule` and, if its model is not additive, `_geometry`; `_traits` are further
    fields of its `LinearEngine`. Parameters that it does not have are off.
    """

    _traits: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def _rule(self) -> types.Rule:
        """Return the rule, with its hyper-parameters as floats and booleans."""

    def _geometry(self) -> types.Geometry:
        return types.Additive()

    @property
    def engine(self) -> LinearEngine:
        """How it learns and rates, by its parameters."""
        half_life = getattr(self, "half_life", None)
        return LinearEngine(
            name=type(self).__name__,
            rule=self._rule(),
            geometry=self._geometry(),
            average=bool(getattr(self, "average", False)),
            growth=None if half_life is None else float(2.0 ** (1.0 / half_life)),
            constant=float(getattr(self, "fit_intercept", False)),
            feature_names=getattr(self, "feature_names_in_", None),
            **self._traits,
        )

    def _weights(self: Any) -> Array:
        """Return the weights that predict, a row for each score, the constant's last."""
        check_ready(self)
        w, _, unit = self.engine.parameters(self.memory_)
        return w / unit

    @property
    def coef_(self) -> Array:
        """Weights of the features."""
        return self._weights()[0, :-1]

    @property
    def intercept_(self) -> Any:
        """Weight of the constant feature, 0.0 if there is none."""
        return float(self._weights()[0, -1]) if self.engine.constant else 0.0

    def stream(
        self: Any,
        *,
        unknown: Literal["error", "ignore"] = "error",
        metrics: int | None = None,
        strict: bool = False,
    ) -> RowStream:
        """Learn and predict one row at a time, in about a microsecond.

        The model has learned every row as soon as `learn_one` returns. Threads may share a stream:
        they take turns. If the model learns by other means, `fit` or `partial_fit`, the stream goes
        on from there. The stream uses the parameters that the model had when it began or last
        started over.

        Parameters
        ----------
        unknown : {"error", "ignore"}, default="error"
            What to do with features that a fitted model does not know. A model that has not
            learned yet takes new ones as they come: each starts as if it had been zero so far.
        metrics : int, default=None
            Predict each row before it is learned, which takes 3 µs more, and keep how far the
            last rows with a label, as many as it says, were off: ``stream.metrics()`` returns it.
        strict : bool, default=False
            Refuse a dict that lacks a feature or has another one, so that a service notices one
            that was renamed. None is still a missing value.

        Returns
        -------
        stream : object
            With the methods ``learn_one(x, y, sample_weight=1.0)``, ``predict_one(x)``,
            ``latent_one(x)`` where there are thresholds, ``predict_proba_one(x)`` where there are
            probabilities, and ``metrics()`` if they are asked for.

        Examples
        --------
        >>> from pril import PRIL
        >>> stream = PRIL(classes=[1, 2, 3]).stream()
        >>> for size in range(-3, 4):
        ...     stream.learn_one({"size": size}, (1, 2) if size < 0 else (2, 3))
        >>> stream.predict_one({"size": 5})
        3
        >>> stream.model.t_
        7
        """
        return RowStream(self, unknown, errors=RecentErrors.over(metrics), strict=strict)


class PRIL(LinearMixin, ThresholdMixin, OnlineClassifier):
    """Perceptron ranking from interval labels, the learner of the paper.

    For a row with score ``f = w . x`` and label ``lo..hi``, every threshold below rank `lo` should
    lie below f, and every threshold from rank `hi` on should lie above it. Each violated
    constraint i, with z = +1 in the first case and -1 in the second, moves the model one step:

        ``w += z x``,  ``theta_i -= z``

    There is no step size: learning starts at zero, so a step size would only rescale the model.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

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
    >>> model = PRIL(classes=[1, 2, 3], random_state=3).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    >>> model.score(X, y)
    1.0
    """

    def _rule(self) -> types.Pril:
        return types.Pril(skip_correct=False)


class MPRIL(LinearMixin, ThresholdMixin, OnlineClassifier):
    """Multiplicative PRIL, for many features of which few matter.

    It adds up the same sums as `PRIL`, ``u += z x`` and ``n_i += z`` for each violated constraint.
    The model is

        ``w_j = exp(rate u_j) / Z``,  ``theta_i = exp(-rate n_i) / Z``

    or, signed, twice the hyperbolic sine of the same exponents. Z makes the positive parts add up
    to one; no prediction and no update depends on it. There is no averaged version: every weight
    changes with Z in every update, so that the mean of the iterates could not be updated cheaply.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state)
    rate : float, default=0.05
        Step size.
    signed : bool, default=True
        Whether weights and thresholds may be negative. False is the paper's algorithm, which works
        only if a model with non-negative weights and thresholds fits well.
    %(tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

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
        **SHARED_CONSTRAINTS,
        "rate": [Interval(Real, 0, None, closed="neither")],
        "signed": ["boolean"],
    }
    _parameter_constraints.pop("average")
    _parameter_constraints.pop("half_life")
    fixed_parameters = ("rate", "signed")
    _traits: ClassVar[dict[str, Any]] = {"bounded": True}

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Seed = None,
        rate: float = 0.05,
        signed: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.rate = rate
        self.signed = signed
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change

    def _rule(self) -> types.Pril:
        return types.Pril(skip_correct=False)

    def _geometry(self) -> types.Curved:
        return types.Curved(float(self.rate), bool(self.signed))


class PassiveAggressive(LinearMixin, ThresholdMixin, OnlineClassifier):
    """Passive-aggressive learning from ranges, the successor of `PRIL`.

    Where `PRIL` moves all violated constraints by one, this makes the smallest change of the model
    after which the row is right by a margin of 1. It minimises

        ``|w' - w|^2 / 2 + |theta' - theta|^2 / 2 + C sum_i xi_i``

    where ``xi_i >= 0`` is by how much the constraint of threshold i falls short of its margin. The
    thresholds keep their order.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life)
    C : float, default=1.0
        The price of a margin that is not reached: the smaller, the less one row changes the model.
        With infinity, every row is right after its round. The weight of a row multiplies C.
    loss : {"hinge", "squared_hinge"}, default="hinge"
        Whether xi or its square is paid for: the variants PA-I and PA-II.
    %(tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

    See Also
    --------
    PRIL : Steps of one size.

    Notes
    -----
    It is better than `PRIL` without an average; the means of both are about equally good.

    References
    ----------
    N. Manwani and M. Chandra, "Exact Passive-Aggressive Algorithms for Ordinal Regression Using
    Interval Labels", IEEE Transactions on Neural Networks and Learning Systems, 2020.

    Examples
    --------
    >>> from pril import PassiveAggressive
    >>> X = [[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, None)]
    >>> model = PassiveAggressive(classes=[1, 2, 3], random_state=0).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "C": [Interval(Real, 0, None, closed="right")],  # may be infinite
        "loss": [StrOptions({"hinge", "squared_hinge"})],
    }
    _traits: ClassVar[dict[str, Any]] = {"whole_steps": False}

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Seed = None,
        average: bool = True,
        half_life: float | None = None,
        C: float = 1.0,
        loss: Literal["hinge", "squared_hinge"] = "hinge",
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.average = average
        self.half_life = half_life
        self.C = C
        self.loss = loss
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change

    def _rule(self) -> types.PassiveAggressive:
        return types.PassiveAggressive(float(self.C), self.loss == "squared_hinge")


class WidrowHoff(LinearMixin, ThresholdMixin, OnlineClassifier):
    """Least-mean-squares regression on the ranks, rounded to the nearest: a baseline.

    The residual is the distance to the nearest end of the label, ``r = clip(f, lo, hi) - f`` in
    ranks 1..K, and zero inside the label. The thresholds are fixed half-way between the ranks.

        ``w += rate r x / (1 + |x|^2)``

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life)
    rate : float, default=0.1
        Step size.
    normalize : bool, default=True
        Whether to divide the step by ``1 + |x|^2``, so that learning does not diverge on unscaled
        data. False is the paper's rule.
    fit_intercept : bool, default=True
        Whether to add a constant feature of value 1. It counts in ``|x|^2`` like any other
        feature.
    %(tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

    Examples
    --------
    >>> from pril import WidrowHoff
    >>> X = [[1.0], [2.0], [3.0], [4.0], [5.0], [6.0]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, 3)]
    >>> model = WidrowHoff(rate=0.5, max_iter=100, random_state=0).fit(X, y)
    >>> model.predict([[0.0], [3.5], [7.0]])
    array([1, 2, 3])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "rate": [Interval(Real, 0, None, closed="neither")],
        "normalize": ["boolean"],
        "fit_intercept": ["boolean"],
    }
    fixed_parameters = ("average", "fit_intercept")

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Seed = None,
        average: bool = True,
        half_life: float | None = None,
        rate: float = 0.1,
        normalize: bool = True,
        fit_intercept: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.average = average
        self.half_life = half_life
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.rate = rate
        self.normalize = normalize
        self.fit_intercept = fit_intercept

    def _rule(self) -> types.LeastSquares:
        return types.LeastSquares(float(self.rate), bool(self.normalize))

    def _geometry(self) -> types.FixedThresholds:
        return types.FixedThresholds()


class MulticlassPerceptron(LinearMixin, OnlineClassifier):
    """The multiclass perceptron: a baseline with one score per class that ignores the order.

    The class with the largest score is predicted. If it lies outside the label ``lo..hi``, its
    score is lowered, and that of the best class inside the label is raised:

        ``w_best += x``,  ``w_winner -= x``

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life)
    fit_intercept : bool, default=True
        Whether to add a constant feature of value 1.
    %(tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_)
    coef_ : ndarray of shape (n_classes, n_features)
        Weights of the features, a row for each of `classes_`.
    intercept_ : ndarray of shape (n_classes,)
        Weights of the constant feature, one for each of `classes_`.
    %(n_features_in_ feature_names_in_ n_iter_ t_ n_mistakes_ n_updates_)

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
        **SHARED_CONSTRAINTS,
        "fit_intercept": ["boolean"],
    }
    fixed_parameters = ("average", "fit_intercept")
    _traits: ClassVar[dict[str, Any]] = {"scores_classes": True}

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Seed = None,
        average: bool = True,
        half_life: float | None = None,
        fit_intercept: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.average = average
        self.half_life = half_life
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.fit_intercept = fit_intercept

    def _rule(self) -> types.Multiclass:
        return types.Multiclass()

    def decision_function(self, X: FeaturesLike) -> Array:
        """Return the score of each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
            In the order of `classes_`; for two classes, the second score minus the first.
        """

        def compare(rated: Ratings, _: slice) -> Array:
            scores = by_class(self.order_, rated.scores)
            return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

        return rate_in_batches(self, rows_to_rate(self, X), compare)

    @property
    def coef_(self) -> Array:
        """Weights of the features, one row per class."""
        return by_class(self.order_, self._weights()[:, :-1].T).T

    @property
    def intercept_(self) -> Array:
        """Weights of the constant feature, one per class."""
        return by_class(self.order_, self._weights()[:, -1]).copy()


class PRank(LinearMixin, ThresholdMixin, OnlineClassifier):
    """PRank (Crammer and Singer), the baseline for exact labels.

    It is `PRIL` on exact labels, except at ties: if the predicted rank is right, the model does
    not change, even if the score lies exactly on a threshold.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state average half_life tol n_iter_no_change)

    Attributes
    ----------
    %(classes_ order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    %(n_mistakes_ n_updates_)

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

    _traits: ClassVar[dict[str, Any]] = {"exact_only": True}

    def _rule(self) -> types.Pril:
        return types.Pril(skip_correct=True)
