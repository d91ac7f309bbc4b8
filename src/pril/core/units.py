"""In which units of a table the features of a learner are."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core.parts import Parts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def units_of_features(steps: list[tuple[str, Any]], n_features: int) -> Array:
    """Return how many units of its column one unit of each feature is.

    Steps are read from the last one back, through scalers, a ColumnTransformer and a ColumnEncoder.
    Before any other step the features are different ones, and a feature is the unit.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, RobustScaler, StandardScaler

    units = np.ones(n_features)
    for _, step in reversed(steps):
        if isinstance(step, StandardScaler | RobustScaler | MaxAbsScaler):
            units = units if step.scale_ is None else units * step.scale_
        elif isinstance(step, MinMaxScaler):
            units = units / step.scale_
        elif isinstance(step, ColumnTransformer):
            for name, inner in _branches(step):
                own = step.output_indices_[name]
                units[own] *= units_of_features(inner, own.stop - own.start)
            return units
        elif hasattr(step, "units"):  # a ColumnEncoder
            own_units: Array = units * step.units()
            return own_units
        elif step is not None and step != "passthrough":
            return units
    return units


def has_all_words(steps: list[tuple[str, Any]]) -> bool:
    """Tell whether some column has an indicator for each of its words, with none left out.

    The weights of these words may share any amount, so that only their differences have a meaning.
    """
    from sklearn.compose import ColumnTransformer
    from sklearn.preprocessing import OneHotEncoder

    for _, step in steps:
        if isinstance(step, ColumnTransformer):
            if any(has_all_words(inner) for _, inner in _branches(step)):
                return True
        elif isinstance(step, OneHotEncoder):
            if step.drop_idx_ is None or None in step.drop_idx_.tolist():
                return True
        elif hasattr(step, "centre_words") and step.words_ and not step.codes:  # a ColumnEncoder
            return True
    return False


def reference_of_words(parts: Parts) -> str | None:
    """Return what weights of words are relative to, None without words; warn if it is nothing."""
    if not has_all_words(parts.steps):
        return None
    if parts.centres_words:
        return "the mean of their column over the rows"
    warnings.warn(
        "the words of a column have no reference: only differences between them have a "
        "meaning, and the intervals of their weights, of their effects and of the thresholds "
        'have none; use OneHotEncoder(drop="first"), or a ColumnEncoder as the first step with '
        "no scaler after it",
        stacklevel=3,
    )
    return None


def _branches(transformer: Any) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return name and steps of each part of a ColumnTransformer."""
    return [
        (name, getattr(part, "steps", [(name, part)]))
        for name, part, _ in transformer.transformers_
    ]
