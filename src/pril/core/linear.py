"""What linear learners have: an engine made of a rule and a geometry, weights, and a stream."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, Literal

from pril.core import nouns
from pril.core.arrays import Array
from pril.core.classifier import check_ready
from pril.core.linear_engine import LinearEngine
from pril.core.one_row import RowStream
from pril.core.recent_errors import RecentErrors


class LinearMixin(ABC):
    """An online learner with weights of features.

    A learner supplies `_rule` and, if its model is not additive, `_geometry`; `_traits` are further
    fields of its `LinearEngine`. Parameters that it does not have are off.
    """

    _traits: ClassVar[dict[str, Any]] = {}

    @abstractmethod
    def _rule(self) -> Any:
        """Return the rule, with its hyper-parameters as floats and booleans."""

    def _geometry(self) -> Any:
        return nouns.Additive()

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
    ) -> Any:
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
