"""M-PRIL: the multiplicative version of PRIL."""

from __future__ import annotations

from numbers import Real
from typing import Any, ClassVar, Literal

from numpy.typing import ArrayLike

from pril.core import nouns
from pril.core.classifier import ThresholdMixin
from pril.core.learning import SHARED_CONSTRAINTS, OnlineClassifier
from pril.core.linear import LinearMixin
from pril.core.scikit import Interval


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
        random_state: Any = None,
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

    def _rule(self) -> nouns.Pril:
        return nouns.Pril(skip_correct=False)

    def _geometry(self) -> nouns.Curved:
        return nouns.Curved(float(self.rate), bool(self.signed))
