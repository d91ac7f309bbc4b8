"""In which units of a table the features of a learner are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def units_of_features(steps: list[tuple[str, Any]], n_features: int) -> Array:
    """Return how many units of its column one unit of each feature is.

    Steps are read from the last one back, through scalers, a ColumnTransformer and a ColumnEncoder.
    Before any other step the features are different ones, and a feature is its own unit.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    units = np.ones(n_features)
    for _, step in reversed(steps):
        if isinstance(step, StandardScaler | RobustScaler | MaxAbsScaler):
            units = units if step.scale_ is None else units * step.scale_
        elif isinstance(step, MinMaxScaler):
            units = units / step.scale_
        elif isinstance(step, ColumnTransformer):
            for name, part, _ in step.transformers_:
                own = step.output_indices_[name]
                inner = part.steps if isinstance(part, Pipeline) else [(name, part)]
                units[own] *= units_of_features(inner, own.stop - own.start)
            return units
        elif hasattr(step, "units"):  # a ColumnEncoder
            own_units: Array = units * step.units()
            return own_units
        elif step is not None and step != "passthrough":
            return units
    return units
