"""In which units of a table the features of a learner are."""

from __future__ import annotations

import warnings
from typing import Any, Literal, NamedTuple

import numpy as np

from pril.core.arrays import Array
from pril.core.parts import Parts


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
            return units * step.units()
        elif step is not None and step != "passthrough":
            return units
    return units


class Scale(NamedTuple):
    """What the features of a learner are in, by the last step before it."""

    unit: str  # of a number: "unit", "standard deviation", or "unit of the scaled column"
    is_centred: bool  # at the mean of its column


def scale_of_features(parts: Parts) -> Scale:
    """Return the scale of a learner's numbers."""
    from sklearn.preprocessing import StandardScaler

    steps = [step for _, step in parts.steps if not hasattr(step, "landmarks_")]
    last: Any = steps[-1] if steps else None
    if isinstance(last, StandardScaler):
        return Scale("standard deviation" if last.with_std else "unit", bool(last.with_mean))
    if hasattr(last, "centre_words"):  # a ColumnEncoder
        is_scaled = last.scale and not last.codes
        unit = "unit of the scaled column" if last.bounded else "standard deviation"
        return Scale(unit if is_scaled else "unit", is_scaled)
    units = units_of_features(parts.steps, parts.learner.n_features_in_)
    return Scale("unit" if (units == 1.0).all() else "unit of the scaled column", False)


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


def reference_of_words(parts: Parts, at: Literal["mean", "reference"] = "mean") -> str | None:
    """Return what weights of words are relative to, None without words; warn if it is nothing.

    `at` is as in `ColumnEncoder.centre_words`.
    """
    if not has_all_words(parts.steps):
        return None
    if parts.centres_words:
        if at == "mean":
            return "the mean of their column over the rows"
        words = parts.steps[0][1].reference_words
        return ", ".join(f"{name}={word}" for name, word in words.items())
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
