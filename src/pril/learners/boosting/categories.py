"""Categorical features: which they are, and their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_array

from pril.core.label_values import columns_of, is_missing
from pril.core.scikit import column_indices
from pril.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def find_categories(asked: Any, X: Any) -> dict[str, list[Any]]:
    """Return the categories of each feature that has some, by its number, ascending."""
    columns = columns_of(X)
    if asked is None or (isinstance(asked, str) and columns is None):
        return {}
    cells = np.asarray(X).T if columns is None else columns
    if isinstance(asked, str):
        chosen = [k for k, column in enumerate(cells) if _is_categorical(column)]
    else:
        chosen = column_indices(
            np.asarray(X) if columns is None else X, asked, "categorical_features"
        )
    found = {}
    for k in chosen:
        values = {value for value in np.asarray(cells[k]).tolist() if not is_missing(value)}
        found[str(k)] = sorted(values, key=lambda value: (isinstance(value, str), value))
    return found


def _is_categorical(column: Any) -> bool:
    """Tell whether the dtype of a column says that it has categories."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    return hasattr(dtype, "categories") or str(dtype).startswith(("Categorical", "dictionary"))


def codes_of(values: list[Any]) -> dict[Any, int]:
    """Return the code of each category: its position."""
    return {value: code for code, value in enumerate(values)}


def encoded(X: Any, categories: dict[str, list[Any]]) -> NDArray[Any]:
    """Return X as a matrix; a category is its position among all, NaN if it is not known."""
    columns = columns_of(X)
    cells = np.asarray(X).T if columns is None else columns
    features = np.empty((len(cells[0]), len(cells)))
    for k, column in enumerate(cells):
        if str(k) in categories:
            codes = codes_of(categories[str(k)])
            features[:, k] = [codes.get(value, np.nan) for value in np.asarray(column).tolist()]
            continue
        try:
            features[:, k] = check_array(
                column,
                dtype=np.float64,
                ensure_2d=False,
                ensure_all_finite=False,
                ensure_min_samples=0,
            )
        except (TypeError, ValueError) as error:
            reason = f"X, feature {k}: {error}; make it a number or a categorical column"
            raise InputError(reason) from None
    return features
