"""Categorical features: which they are, and their codes."""

from __future__ import annotations

from collections.abc import Iterable
from math import nan
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from pril.core.label_values import columns_of, is_missing, plain
from pril.core.rows import TIMES
from pril.core.scikit import column_indices
from pril.errors import InputError, InputTypeError, RowError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Kind = Literal["strings", "numbers"]

NUMBERS = (int, float, np.integer, np.floating, np.bool_)  # int has bool


def find_categories(asked: Any, X: Any) -> dict[str, list[Any]]:
    """Return the categories of each feature that has some, by its number, ascending."""
    columns = columns_of(X)
    if asked is None or issparse(X) or (isinstance(asked, str) and columns is None):
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
        values = set()
        for row, value in enumerate(_values(cells[k])):
            if is_missing(value):
                continue
            if _kind(value) is None:
                name = _name(X, k)
                way = ".cat.rename_categories(str)" if _is_categorical(cells[k]) else ".astype(str)"
                raise RowError(
                    "X",
                    row,
                    f"feature {name} has the category {shown(value)}, which is neither a string "
                    f"nor a number; make it a string, in pandas with X[{name}]{way}",
                )
            values.add(plain(value))
        found[str(k)] = sorted(values, key=lambda value: (isinstance(value, str), value))
    return found


def _is_categorical(column: Any) -> bool:
    """Tell whether the dtype of a column says that it has categories."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    return hasattr(dtype, "categories") or str(dtype).startswith(("Categorical", "dictionary"))


def _values(column: Any) -> Iterable[Any]:
    """Return the values of a column; a time stays one, where `tolist` may return an integer."""
    array = np.asarray(column)
    values: Iterable[Any] = array if array.dtype.kind in "mM" else array.tolist()
    return values


def _kind(value: Any) -> Kind | None:
    """Return what a category is; only those of one kind can be equal."""
    if isinstance(value, str):
        return "strings"
    return "numbers" if isinstance(value, NUMBERS) and type(value) not in TIMES else None


def _name(X: Any, k: int) -> Any:
    """Return the name of a feature, or its number."""
    names = getattr(X, "column_names", getattr(X, "columns", None))  # pyarrow; pandas and polars
    return k if names is None else repr(names[k])


class Codes(dict[Any, float]):
    """The code of each category: its position.

    A missing value, and one that is not known, is NaN. One that could not be known, as it is of
    another kind than all categories, is refused.
    """

    def __init__(self, values: list[Any]) -> None:
        super().__init__({value: code for code, value in enumerate(values)})
        self.kinds = {_kind(value) for value in values}

    def __missing__(self, value: Any) -> float:
        if not is_missing(value) and self.kinds and _kind(value) not in self.kinds:
            raise InputTypeError(f"{shown(value)} is not a category")
        return nan


def encoded(X: Any, categories: dict[str, list[Any]]) -> NDArray[Any]:
    """Return X as a matrix; a category is its position among all, NaN if it is not known."""
    columns = columns_of(X)
    cells = np.asarray(X).T if columns is None else columns
    features = np.empty((len(cells[0]), len(cells)))
    for k, column in enumerate(cells):
        if str(k) in categories:
            codes, found = Codes(categories[str(k)]), []
            try:
                for value in _values(column):
                    found.append(codes[value])
            except TypeError:
                kinds = " and ".join(sorted(map(str, codes.kinds)))
                reason = f"feature {_name(X, k)} is {shown(value)}, but its categories are {kinds}"
                raise RowError("X", len(found), reason) from None
            features[:, k] = found
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
