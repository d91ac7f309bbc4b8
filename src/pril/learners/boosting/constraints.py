"""Features in which the score may only rise, or only fall."""

from __future__ import annotations

from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.errors import InputError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_constraints(asked: Any, model: Any) -> NDArray[np.int8]:
    """Return for each feature 1 if the score must not fall in it, -1 if it must not rise, else 0.

    The model knows its features and which of them are categorical.
    """
    signs = np.zeros(model.n_features_in_, dtype=np.int8)
    names = getattr(model, "feature_names_in_", None)
    for k, sign in _pairs(asked, names, len(signs)):
        name = k if names is None else repr(str(names[k]))
        if not isinstance(sign, Real) or sign not in (-1, 0, 1):
            raise InputError(
                f"monotonic_cst: the constraint of feature {name} must be -1, 0 or 1, got "
                f"{shown(sign)}"
            )
        if sign != 0 and str(k) in model.categories_:
            raise InputError(
                f"monotonic_cst: feature {name} is categorical, and categories have no order; "
                "leave it 0"
            )
        signs[k] = sign
    return signs


def _pairs(asked: Any, names: Any, n_features: int) -> list[tuple[int, Any]]:
    """Return the number of each feature that is named, and what is asked of it."""
    if asked is None:
        return []
    if isinstance(asked, dict):
        if names is None:
            raise InputError(
                "monotonic_cst names features, but X has no names: give a list with a number for "
                f"each of the {n_features} features"
            )
        places = {str(name): k for k, name in enumerate(names)}
        for name in asked:
            if name not in places:
                raise InputError(f"monotonic_cst: X has no feature {shown(name)}")
        return [(places[name], sign) for name, sign in asked.items()]
    values = np.asarray(asked)
    if values.shape != (n_features,):
        raise InputError(
            f"monotonic_cst has the shape {values.shape}, but X has {n_features} features: give a "
            "number for each"
        )
    return list(enumerate(values.tolist()))
