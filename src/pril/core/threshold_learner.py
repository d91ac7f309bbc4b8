"""An online learner with one score and thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pril.core.classifier import ThresholdClassifier
from pril.core.learner import OnlineClassifier

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class OnlineThresholdClassifier(ThresholdClassifier, OnlineClassifier):
    """An online learner with one score and thresholds."""

    @property
    def coef_(self) -> Array:
        """Weights of the features."""
        coef: Array = super().coef_[0]
        return coef

    @property
    def intercept_(self) -> float:
        """Weight of the constant feature, 0.0 if there is none."""
        w, _, unit = self._parameters()
        return float(w[0, -1] / unit) if getattr(self, "fit_intercept", False) else 0.0

    @property
    def thresholds_(self) -> Array:  # type: ignore[override]
        """Thresholds between neighbouring classes, ascending."""
        _, cut, unit = self._parameters()
        return cut[1:-1] / unit
