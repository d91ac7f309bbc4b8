"""Features as boosting uses them: categories as codes, constraints, larger units, and bins."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import nan
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.utils.validation import check_array

from pril.core.arrays import Array, frozen
from pril.core.rows import TIMES, batches
from pril.core.scikit import column_indices
from pril.errors import InputError, InputTypeError, RowError, shown
from pril.labels.ranking import columns_of, is_missing, plain
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import SET

if TYPE_CHECKING:
    from pril.learners.ordered_boosting import OrderedBoosting

TEXT = ("str", "string", "large_string", "string_view")  # names of dtypes
NUMBERS = (int, float, np.integer, np.floating, np.bool_)  # int has bool
LARGEST = 1e150  # sums of squares stay finite
LEAST_VALUE = 2.0**-1000  # of the largest value of a feature: a weight can be its inverse
SMALL = 1e-35  # squares of what is smaller are soon 0
WANTED = {np.dtype(np.float64): 400, np.dtype(np.float32): 100}  # exponent of the largest value
MOST_BINS = 126  # of a feature; as good as 254, and a third faster where rows are few


# --- Categories ----------------------------------------------------------------------------------


def find_categories(asked: object, X: object) -> dict[str, list[Any]]:
    """Return the categories of each feature that has some, by its number, ascending."""
    columns = columns_of(X)
    if asked is None or issparse(X) or (isinstance(asked, str) and columns is None):
        return {}
    cells = np.asarray(X).T if columns is None else columns
    if isinstance(asked, str):
        chosen = [
            k for k, column in enumerate(cells) if _is_categorical(column) or _is_text(X, k, column)
        ]
    else:
        chosen = column_indices(
            np.asarray(X) if columns is None else X, asked, "categorical_features"
        )
    categories = {}
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
        categories[str(k)] = sorted(values, key=lambda value: (isinstance(value, str), value))
    return categories


def _is_categorical(column: object) -> bool:
    """Tell whether the dtype of a column says that it has categories."""
    dtype = getattr(column, "dtype", getattr(column, "type", None))
    return hasattr(dtype, "categories") or str(dtype).startswith(("Categorical", "dictionary"))


def _is_text(X: object, k: int, column: object) -> bool:
    """Tell whether the k-th column has strings; refuse one that has other values too."""
    dtype = str(getattr(column, "dtype", getattr(column, "type", None))).partition("[")[0].lower()
    if dtype != "object":
        return dtype in TEXT
    values = [(row, value) for row, value in enumerate(_values(column)) if not is_missing(value)]
    others = [(row, value) for row, value in values if not isinstance(value, str)]
    if 0 < len(others) < len(values):
        row, value = others[0]
        reason = f"feature {_name(X, k)} is {shown(value)}, but has strings in other rows"
        raise RowError("X", row, f"{reason}; make all of them strings, or none")
    return len(values) > len(others)


def _values(column: object) -> Iterable[Any]:
    """Return the values of a column; a time stays one, where `tolist` may return an integer."""
    array = np.asarray(column)
    return array if array.dtype.kind in "mM" else array.tolist()


def _kind(value: object) -> str | None:
    """Return what a category is; only those of one kind can be equal."""
    if isinstance(value, str):
        return "strings"
    return "numbers" if isinstance(value, NUMBERS) and type(value) not in TIMES else None


def feature_name(names: Sequence[object] | Array | None, k: int) -> object:
    """Return how errors call a feature: by its name, if it has one, or by its number."""
    return k if names is None else repr(names[k])


def _name(X: object, k: int) -> object:
    # Of pyarrow; of pandas and polars.
    return feature_name(getattr(X, "column_names", getattr(X, "columns", None)), k)


class Codes(dict[Any, float]):
    """The code of each category: its position.

    A missing value, and one that is not known, is NaN. One that could not be known, as it is of
    another kind than all categories, is refused.
    """

    def __init__(self, values: list[Any]) -> None:
        super().__init__({value: code for code, value in enumerate(values)})
        self.kinds = {_kind(value) for value in values}

    def __missing__(self, value: object) -> float:
        if not is_missing(value) and self.kinds and _kind(value) not in self.kinds:
            raise InputTypeError(f"{shown(value)} is not a category")
        return nan


def encoded(X: object, categories: dict[str, list[Any]]) -> Array:
    """Return X as a matrix; a category is its position among all, NaN if it is not known."""
    columns = columns_of(X)
    cells = np.asarray(X).T if columns is None else columns
    features = np.empty((len(cells[0]), len(cells)))
    for k, column in enumerate(cells):
        if str(k) in categories:
            codes, column_codes = Codes(categories[str(k)]), []
            try:
                for value in _values(column):
                    column_codes.append(codes[value])
            except TypeError:
                kinds = " and ".join(sorted(map(str, codes.kinds)))
                reason = f"feature {_name(X, k)} is {shown(value)}, but its categories are {kinds}"
                raise RowError("X", len(column_codes), reason) from None
            features[:, k] = column_codes
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
            reason = f"X, feature {_name(X, k)}: {error}; make it a number or strings"
            raise InputError(reason) from None
    return features


# --- Features in which the score may only rise, or only fall -------------------------------------


def find_constraints(asked: ArrayLike | dict[str, int] | None, model: OrderedBoosting) -> Array:
    """Return for each feature 1 if the score must not fall in it, -1 if it must not rise, else 0.

    The model knows its features and which of them are categorical.
    """
    n_features, names = model.n_features_in_, getattr(model, "feature_names_in_", None)
    signs: Any = [0] * n_features if asked is None else asked
    if isinstance(asked, dict):
        if names is None:
            raise InputError(
                "monotonic_cst names features, but X has no names: give a list with a number for "
                f"each of the {n_features} features"
            )
        for name in asked:
            if name not in names.tolist():
                raise InputError(f"monotonic_cst: X has no feature {shown(name)}")
        signs = [asked.get(name, 0) for name in names.tolist()]
    if np.shape(signs) != (n_features,):
        raise InputError(
            f"monotonic_cst has the shape {np.shape(signs)}, but X has {n_features} features: give "
            "a number for each"
        )
    for k, sign in enumerate(signs):
        if not isinstance(sign, Real) or sign not in (-1, 0, 1):
            raise InputError(
                f"monotonic_cst: the constraint of feature {feature_name(names, k)} must be -1, 0 "
                f"or 1, got {shown(plain(sign))}"
            )
        if sign != 0 and str(k) in model.categories_:
            raise InputError(
                f"monotonic_cst: feature {feature_name(names, k)} is categorical, and categories "
                "have no order; leave it 0"
            )
    return np.array(signs, dtype=np.int8)


# --- Features that are too small for linear models, in larger units ------------------------------


def scaled(X: Array, names: Array | None) -> tuple[Array, Array]:
    """Multiply features with very small values by powers of two, which is exact.

    Returns the features, a copy only if some are multiplied, and the exponent of each.
    """
    exponents, is_small = np.zeros(X.shape[1], dtype=np.int64), np.zeros(X.shape[1], dtype=bool)
    for batch in batches(len(X), 1 << 13):
        size = np.abs(X[batch])
        is_small |= ((size > 0.0) & (size < SMALL)).any(axis=0)
    if not is_small.any():
        return X, exponents
    X = X.copy()
    for k in np.flatnonzero(is_small).tolist():
        largest = np.fmax.reduce(np.abs(X[:, k]))
        if largest < LEAST_VALUE:
            reason = f"no value of feature {feature_name(names, k)} is larger than {largest}"
            raise InputError(f"X: {reason}, too small to learn from: multiply the column")
        exponents[k] = WANTED[X.dtype] - np.frexp(largest)[1]
        X[:, k] = np.ldexp(X[:, k], exponents[k])
    return X, exponents


def unscaled(forest: dict[str, Array], exponents: Array) -> dict[str, Array]:
    """Return linear parts learned from scaled features as parts for the features themselves."""
    return forest | {
        "mean": np.ldexp(forest["mean"], -exponents),
        "slope": np.ldexp(forest["slope"], exponents),
        "width": np.ldexp(forest["width"], exponents),
    }


# --- Features as LightGBM gets them: small integers, the number of a value's bin -----------------


class Bins(NamedTuple):
    """Where the bins of the features end.

    A value is in the first bin whose end is not below it. A missing value, and a category, which is
    a small integer already, stay as they are. So a tree's split of bins is, exactly, one of values;
    values of any size can be told apart; and rows that come in blocks have the same bins.
    """

    edges: Array  # (features, 127), ascending; infinite from the last bin of a feature on
    is_number: Array  # (features,), whether a feature has bins

    @classmethod
    def of(cls, X: Array, categories: list[int]) -> Self:
        """Find bins with about equally many rows of a sample."""
        edges = np.full((X.shape[1], compiled.MOST_EDGES), np.inf)
        is_number = np.ones(X.shape[1], dtype=bool)
        is_number[categories] = False
        for k in np.flatnonzero(is_number):
            values, counts = np.unique(X[:, k], return_counts=True)
            values = values[~np.isnan(values)].astype(np.float64)
            ends = compiled.last_of_bins(counts[: len(values)], MOST_BINS)
            low, high = values[ends], values[ends + 1]
            middle = low + (high - low) / 2.0
            edges[k, : len(ends)] = np.where(middle < high, middle, low)
        return cls(edges, is_number)

    def codes(self, X: Array) -> Array:
        """Return the bins of the values of some rows."""
        codes = np.empty(X.shape, dtype=np.float32)
        compiled.write_codes(frozen(X), self.edges, self.is_number, codes)
        return codes

    def unbinned(self, forest: dict[str, Array]) -> dict[str, Array]:
        """Return a forest that splits bins as one that splits values."""
        feature, value, is_set = forest["feature"], forest["value"], forest["kind"] == SET
        last = np.clip(value, 0, self.edges.shape[1] - 1).astype(np.int64)
        ends = np.nan_to_num(self.edges[feature, np.where(is_set, 0, last)])
        return forest | {"value": np.where(is_set, value, ends)}
