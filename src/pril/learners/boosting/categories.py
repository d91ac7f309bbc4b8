"""Categorical features: which they are, and their codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core import ranking
from pril.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def is_categorical(column: Any) -> bool:
    """Tell whether the dtype of a column says that it has categories."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    return hasattr(dtype, "categories") or str(dtype).startswith(("Categorical", "dictionary"))


def chosen_features(asked: Array, X: Any, columns: list[Any] | None) -> list[int]:
    """Return the indices of the features that a mask, indices or names choose."""
    n = np.shape(X)[1] if columns is None else len(columns)
    names = [str(name) for name in getattr(X, "columns", [])] if asked.dtype.kind in "OU" else []
    if asked.dtype.kind == "b" and len(asked) == n:
        return [int(k) for k in np.flatnonzero(asked)]
    if names and set(asked) <= set(names):
        return sorted(names.index(name) for name in asked)
    if asked.dtype.kind in "iu" and ((asked >= 0) & (asked < n)).all():
        return sorted(set(asked.tolist()))
    if asked.size == 0:
        return []
    raise InputError(
        f"categorical_features must be a mask of the {n} features, their indices, or the names of "
        f"columns of a DataFrame, got {ranking.named(asked.tolist())}"
    )


def refuse_words(X: Any, columns: list[Any] | None, categories: dict[int, Array]) -> None:
    """Refuse columns of words and of dates, unless they are categories."""
    for k, column in enumerate([] if columns is None else columns):
        cell = np.asarray(column[:1]).ravel()
        is_date, is_word = cell.dtype.kind in "mM", any(isinstance(x, str) for x in cell.tolist())
        if (is_date or is_word) and k not in categories:
            names = getattr(X, "column_names", getattr(X, "columns", range(k + 1)))
            raise InputError(
                f"X, column {names[k]!r} has {'dates' if is_date else 'words'}, such as {cell[0]}: "
                "make it a number or a categorical column, or put a ColumnEncoder first"
            )
    if columns is None and getattr(getattr(X, "dtype", None), "kind", "") in ("m", "M"):
        raise InputError("X has dates: make them numbers")


def labels_of(values: list[Any]) -> Array:
    """Return categories as an array, from a list."""
    return np.array(values, dtype=object if any(isinstance(v, str) for v in values) else None)


def codes_of(column: Any, categories: Array) -> Array:
    """Return the position of each cell among the categories, NaN for any other."""
    if len(categories) == 0:
        return np.full(len(column), np.nan)
    table = ranking.read(column, columns=(1,))
    ranks = ranking.to_intervals(table, categories, allow_unknown=True)
    known = ranking.is_labelled(ranks) & (ranks[:, 0] >= 0)
    return np.where(known, ranks[:, 0], np.nan)
