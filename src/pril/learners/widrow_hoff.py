"""Widrow and Hoff's regression on ranks, a baseline of the paper."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from pril.core import nouns
from pril.core.classifier import ThresholdMixin
from pril.core.learner import SHARED_CONSTRAINTS, OnlineClassifier
from pril.core.linear import LinearMixin
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
