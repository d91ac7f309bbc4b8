"""The baselines of the paper: PRank, a multiclass perceptron, and regression on ranks."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from pril.core import nouns
from pril.core.arrays import Array
from pril.core.classifier import ThresholdMixin, by_class, rate_in_batches, rows_to_rate
from pril.core.learning import SHARED_CONSTRAINTS, OnlineClassifier
from pril.core.linear import LinearMixin
from pril.core.linear_engine import Ratings
from pril.core.scikit import Interval


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
        random_state: Any = None,
        average: bool = True,
        half_life: float | None = None,
        rate: float = 0.1,
        normalize: bool = True,
        fit_intercept: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        super().__init__(
            classes=classes,
            class_weight=class_weight,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            average=average,
            half_life=half_life,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
        )
        self.rate = rate
        self.normalize = normalize
        self.fit_intercept = fit_intercept

    def _rule(self) -> nouns.LeastSquares:
        return nouns.LeastSquares(float(self.rate), bool(self.normalize))

    def _geometry(self) -> nouns.FixedThresholds:
        return nouns.FixedThresholds()


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
        random_state: Any = None,
        average: bool = True,
        half_life: float | None = None,
        fit_intercept: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        super().__init__(
            classes=classes,
            class_weight=class_weight,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            average=average,
            half_life=half_life,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
        )
        self.fit_intercept = fit_intercept

    def _rule(self) -> nouns.Multiclass:
        return nouns.Multiclass()

    def decision_function(self, X: Any) -> Array:
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

    def _rule(self) -> nouns.Pril:
        return nouns.Pril(skip_correct=True)
