"""Tables of labels as users write them: arrays, lists, and columns of several libraries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from pril.core.arrays import Array
from pril.errors import InputError, InputTypeError, RowError

NO_LABEL = (0, -1)  # the interval of ranks of a row without a label


class Labels(NamedTuple):
    """A table of labels: one column if exact, two for intervals, one a rater for votes."""

    values: Array  # (n, columns): int64, float64 with NaN for missing, or codes
    dtype: np.dtype[Any]  # of the labels as the user wrote them
    vocabulary: Array | None = None  # what the codes stand for; a missing value has code -1
    ordered: bool = False  # whether the vocabulary is in order, as an ordered Categorical's is
    declared: bool = False  # whether the vocabulary was declared, as any Categorical's is
    block: int | None = None  # of which it has all rows
    places: tuple[str, ...] = ()  # where each row came from, if not from the row of its number

    def missing(self) -> NDArray[np.bool_]:
        """Return where a value is missing."""
        if self.vocabulary is not None:
            return self.values < 0
        return np.isnan(self.values)

    def may_be_missing(self) -> bool:
        """Tell whether values can be missing at all: an array of integers has no way to say it."""
        return self.vocabulary is not None or self.values.dtype.kind == "f"

    def labelled(self) -> NDArray[np.bool_]:
        """Return which rows have a label."""
        missing: Any = self.missing()
        return ~missing.all(axis=1)

    def take(self, rows: Array | slice) -> Labels:
        """Return some of the rows."""
        return self._replace(values=self.values[rows])

    def seen(self) -> Array:
        """Return the distinct values that occur, ascending."""
        if self.vocabulary is not None:
            codes = np.unique(self.values)
            return np.sort(self.vocabulary[codes[codes >= 0]])
        if self.values.dtype.kind == "f":
            return np.unique(self.values[np.isfinite(self.values)])
        low, high = (
            (int(self.values.min()), int(self.values.max())) if self.values.size else (0, -1)
        )
        if high - low < self.values.size:
            return np.flatnonzero(np.bincount(self.values.ravel() - low)) + low
        return np.unique(self.values)

    def cell(self, t: int, column: int) -> Any:
        """Return one value as the user wrote it."""
        value = self.values[t, column]
        if self.vocabulary is not None:
            return None if value < 0 else plain(self.vocabulary[value])
        if np.isnan(value):
            return None
        return plain(value.astype(self.dtype) if np.isfinite(value) else value)

    def cells(self, t: int) -> tuple[Any, ...]:
        """Return the values of one row as the user wrote them."""
        return tuple(self.cell(t, column) for column in range(self.values.shape[1]))

    def row(self, t: int) -> Any:
        """Return one row as the user wrote it."""
        cells = self.cells(t)
        return cells[0] if len(cells) == 1 else cells

    def declared_codes(self) -> dict[Any, int]:
        """Return the codes of the categories of a Categorical, nothing for other labels."""
        if self.vocabulary is None or not self.declared:
            return {}
        return {word: code for code, word in enumerate(self.vocabulary.tolist())}

    def recoded(self, codes: dict[Any, int]) -> Array:
        """Return the values as codes of a common vocabulary, which grows by what is new here."""
        if self.vocabulary is None:
            return np.full(self.values.shape, -1)
        words = self.vocabulary.tolist()
        return np.array([*(codes.setdefault(word, len(codes)) for word in words), -1])[self.values]

    def place(self, t: int) -> str:
        """Return where a row is, to be named in a message."""
        if self.places:
            return self.places[t]
        return f"row {t}" if self.block is None else f"block {self.block}, row {t}"


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value, which prints without its type."""
    return value.item() if isinstance(value, np.generic) else value


def named(values: Iterable[Any] | None, most: int = 12) -> str:
    """Return values as a list to print, cut short in the middle."""
    shown = [repr(plain(value)) for value in (() if values is None else values)]
    if len(shown) > most:
        shown[most - 1 : -1] = ["..."]
    return f"[{', '.join(shown)}]"


# --- Reading -------------------------------------------------------------------------------------


def read(y: Any, *, name: str = "y", columns: tuple[int, ...] = (1, 2)) -> Labels:
    """Read a table of labels with one of the given numbers of columns (none given: any)."""
    if isinstance(y, Labels):  # read before
        return y
    if y is None:
        raise InputError(f"requires {name} to be passed, but the target {name} is None")
    if hasattr(y, "tocsr"):
        raise InputTypeError(
            f"{name} must be a dense table of labels, got a sparse matrix: pass {name}.toarray()"
        )
    if hasattr(y, "__dlpack_device__"):  # labels are read on the host
        fetch = getattr(y, "cpu", None) or getattr(y, "get", None)  # PyTorch's name, CuPy's name
        y = fetch() if callable(fetch) else y
    table = columns_of(y)
    if table is None:
        labels = _read_array(y, name)
    else:
        labels = join([_read_array(column, name) for column in table], name)
    values = labels.values
    if values.ndim == 2 and values.shape[1] == 1 and 2 in columns:
        warnings.warn(
            f"A column-vector {name} was passed when a 1d array was expected. Please change the "
            f"shape of {name} to (n_samples,), for example using ravel().",
            DataConversionWarning,
            stacklevel=2,
        )
    if values.ndim == 1:
        values = values[:, np.newaxis]
    if values.ndim != 2 or (columns and values.shape[1] not in columns):
        hint = "; pass two arrays as numpy.column_stack([lower, upper])" if len(values) == 2 else ""
        raise InputError(
            f"{name} should be a 1d array of labels"
            + (" or have two columns, the lower and the upper end" if 2 in columns else "")
            + f", got an array of shape {np.shape(y)} instead{hint}"
        )
    has_ends = 2 in columns and values.shape[1] == 2
    if has_ends and values.dtype.kind == "f" and np.isinf(values).any():
        # -inf as a lower end and inf as an upper one are open ends.
        values = np.where(values == (-np.inf, np.inf), np.nan, values)
    return labels._replace(values=values)


def columns_of(y: Any) -> list[Any] | None:
    """Return the columns of a table; None if y is no table of named columns."""
    if hasattr(y, "iloc") and hasattr(y, "columns"):  # pandas
        return [y.iloc[:, column] for column in range(y.shape[1])]
    if hasattr(y, "get_columns"):  # polars
        return list(y.get_columns())
    if hasattr(y, "column_names"):  # pyarrow
        return list(y.columns)
    names = getattr(getattr(y, "dtype", None), "names", None)  # a structured array of NumPy
    return None if names is None else [y[field] for field in names]


def _read_array(y: Any, name: str) -> Labels:
    """Read one array, list or column; its shape is checked by the caller."""
    if isinstance(y, np.ma.MaskedArray):  # a masked label is a missing one
        hidden = np.ma.getmaskarray(y)
        y = np.where(hidden, np.array(None), y.data) if hidden.any() else y.data
    dtype: Any = getattr(y, "dtype", None)
    if hasattr(dtype, "categories") and hasattr(dtype, "ordered"):  # a Categorical of pandas
        vocabulary = np.asarray(dtype.categories)
        if len({_kind(word) for word in vocabulary.tolist()}) > 1:
            raise InputTypeError(
                f"{name}: categories must be all numbers or all strings, got {named(vocabulary)}"
            )
        codes = np.asarray(getattr(y, "cat", y).codes, dtype=np.int64)
        return Labels(codes, vocabulary.dtype, vocabulary, bool(dtype.ordered), declared=True)
    if type(dtype).__name__ == "Enum":  # polars
        codes = y.to_physical().cast(int).fill_null(-1).to_numpy()
        vocabulary = np.array(dtype.categories.to_list(), dtype=object)
        return Labels(codes, vocabulary.dtype, vocabulary, ordered=True, declared=True)
    if hasattr(y, "dictionary_encode"):  # pyarrow
        return _read_arrow(y, name)
    if hasattr(y, "factorize") and str(dtype).startswith("str"):  # strings of pandas
        codes, words = y.factorize()
        vocabulary = np.array(list(words), dtype=object)
        return Labels(codes.astype(np.int64), vocabulary.dtype, vocabulary)
    labels = None
    if isinstance(y, list | tuple):
        are_plain = {str, tuple, type(None)}.isdisjoint(map(type, y))
        labels = None if are_plain else _read_distinct(list(y), name)
    elif getattr(dtype, "kind", "") in ("O", "U"):
        array = np.asarray(y)
        labels = _read_distinct(array.ravel().tolist(), name)
        if labels is not None and array.ndim > 1:
            labels = labels._replace(values=labels.values.reshape(array.shape))
    return _read_values(y, name) if labels is None else labels


def _read_distinct(rows: list[Any], name: str) -> Labels | None:
    """Read each different value or pair once, and give it to all rows that have it.

    Returns None if something is wrong: reading row by row names the row.
    """
    try:
        codes = {row: code for code, row in enumerate(dict.fromkeys(rows))}
        labels = _read_values(list(codes), name)
    except (TypeError, ValueError):
        return None
    index = np.fromiter(map(codes.__getitem__, rows), dtype=np.intp, count=len(rows))
    return labels._replace(values=labels.values[index])


def _read_arrow(y: Any, name: str) -> Labels:
    """Read an array of pyarrow, in one chunk or in many."""
    if hasattr(y, "unify_dictionaries"):
        y = y.unify_dictionaries().combine_chunks()
    if "string" in str(y.type) and not hasattr(y, "dictionary"):
        y = y.dictionary_encode()
    if not hasattr(y, "dictionary"):
        return _read_values(y.to_numpy(zero_copy_only=False), name)
    codes = y.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
    words = y.dictionary.to_pylist()
    if y.type.ordered:
        vocabulary = np.array(words, dtype=object)
        return Labels(codes, vocabulary.dtype, vocabulary, ordered=True, declared=True)
    labels = _read_values([*words, None], name)  # the last one is the missing value
    return labels._replace(values=labels.values[codes])


def _read_values(y: Any, name: str) -> Labels:
    """Read an array or a list, value by value if they are not numbers."""
    dtype: Any = getattr(y, "dtype", None)
    try:
        array = np.asarray(y)
    except ValueError:  # rows of different lengths
        return _read_objects(_as_objects(y, name), name)
    if array.ndim == 0:
        raise InputError(f"{name} should be a 1d array of labels, got {y!r} instead")
    kind = array.dtype.kind
    if kind in "mM":
        raise InputTypeError(
            f"{name}, row 0: labels must be numbers or strings, got {array.dtype}: cut them into "
            "classes first, for example with pandas.cut"
        )
    if kind == "u" and array.size and array.max() > np.iinfo(np.int64).max:
        raise InputError(f"{name}: {array.max()} is too large for a label")
    if kind in "biu":
        return Labels(array.astype(np.int64, copy=False), array.dtype)
    if kind == "f":
        return Labels(array.astype(np.float64, copy=False), array.dtype)
    # NumPy turns all values of a mixed list into strings: read the original values.
    return _read_objects(
        array if array.ndim > 1 and dtype is not None else _as_objects(y, name), name
    )


def _as_objects(y: Any, name: str) -> Array:
    """Return a list of labels or of pairs as an array of Python objects."""
    rows = list(y)
    pairs = [isinstance(row, (tuple, list, np.ndarray)) for row in rows]
    if not any(pairs):
        array = np.empty(len(rows), dtype=object)
        array[:] = rows
        return array
    first = pairs.index(True)
    width = len(rows[first])
    array = np.empty((len(rows), width), dtype=object)
    for t, row in enumerate(rows):
        if pairs[t] and len(row) != width:
            raise RowError(name, t, f"{row!r} has {len(row)} values, others have {width}")
        if not pairs[t] and not is_missing(row):
            raise InputTypeError(
                f"{name}, row {t}: {plain(row)!r} is a single label, but row {first} is a pair, "
                f"{rows[first]!r}; write an exact label as a pair too, such as (4, 4)"
            )
        array[t] = row
    return array


def _read_objects(array: Array, name: str) -> Labels:
    """Read Python objects: numbers, strings, Intervals of pandas, missing values."""
    codes: dict[Any, int] = {}
    known: dict[type, str] = {}
    flat = np.empty(array.size, dtype=np.int64)
    for p, cell in enumerate(array.ravel().tolist()):
        if is_missing(cell):
            flat[p] = -1
            continue
        value = plain(cell)
        if type(value) not in known:
            kind = known[type(value)] = _kind(value)
            if kind == "other" or kind != next(iter(known.values())):
                t = p // (array.size // len(array))
                besides = f" besides {next(iter(codes))!r}" if codes else ""
                advice = ": decode them first" if isinstance(value, bytes) else ""
                raise InputTypeError(
                    f"{name}, row {t}: labels must be all numbers or all strings, got {value!r}"
                    f" of type {type(value).__name__}{besides}{advice}"
                )
        flat[p] = codes.setdefault(value, len(codes))
    found = list(codes)
    if not found or isinstance(found[0], Real):
        whole = bool(found) and all(isinstance(value, Integral) for value in found)
        if whole and max(map(abs, found)) > 2**53:
            largest = max(found, key=abs)
            raise InputError(f"{name}: {largest!r} is too large for a label among Python objects")
        lookup = np.array([*found, np.nan], dtype=np.float64)
        dtype = np.dtype(np.int64 if whole else np.float64)
        return Labels(lookup[flat].reshape(array.shape), dtype)
    return Labels(flat.reshape(array.shape), np.dtype(object), np.array(found, dtype=object))


def _kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if is_range(value):
        return "range"
    return "number" if isinstance(value, Real) else "other"


def is_range(value: Any) -> bool:
    """Tell whether a value is a range of numbers, an Interval of pandas."""
    return hasattr(value, "closed") and hasattr(value, "overlaps")


def is_missing(value: Any) -> bool:
    """Tell None, NaN, NaT and pandas' NA from a label."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def join(parts: list[Labels], name: str) -> Labels:
    """Put the columns of a DataFrame side by side."""
    if not parts:
        return Labels(np.empty((0, 0)), np.dtype(float))
    if len({part.vocabulary is None for part in (_leading(parts), *_speaking(parts))}) > 1:
        raise InputTypeError(
            f"{name} has a column of numbers beside a column of strings or categories"
        )
    categories = [list(part.declared_codes()) for part in parts if part.declared]
    if any(own != categories[0] for own in categories):
        raise InputError(
            f"the Categorical columns of {name} must have the same categories, got "
            f"{' and '.join(map(named, categories))}"
        )
    joined = _put(parts, np.column_stack)
    strangers = [word for word in joined.declared_codes() if word not in categories[0]]
    if strangers:
        raise InputError(
            f"{name}: {strangers[0]!r} is not one of the categories {named(categories[0])}"
        )
    return joined


def _speaking(tables: Sequence[Labels]) -> Sequence[Labels]:
    """Return the tables that are not all missing; all, if all are."""
    return [table for table in tables if not table.missing().all()] or tables


def _leading(tables: Sequence[Labels]) -> Labels:
    """Return the labels whose kind all must have: a Categorical, or any that are not missing."""
    return next((table for table in tables if table.declared), _speaking(tables)[0])


def _put(tables: Sequence[Labels], together: Callable[..., Array]) -> Labels:
    """Return tables put together, with the words of all, those of a Categorical first."""
    first = _leading(tables)
    if first.vocabulary is None:
        # Words beside numbers are all missing.
        values = [t.values if t.vocabulary is None else np.nan * t.values for t in tables]
        dtype = np.result_type(*(table.dtype for table in _speaking(tables)))
        return first._replace(values=together(values), dtype=dtype)
    codes = first.declared_codes()
    values = [table.recoded(codes) for table in tables]
    vocabulary = np.array(list(codes), dtype=first.dtype)
    return first._replace(values=together(values), vocabulary=vocabulary)


def distinct(labels: Labels) -> Labels:
    """Return the distinct rows, each at its first place: they determine the classes."""
    codes = np.zeros(len(labels.values), dtype=np.int64)
    for column in labels.values.T:
        values, inverse = np.unique(column, return_inverse=True)
        codes = codes * len(values) + inverse
    first = np.sort(np.unique(codes, return_index=True)[1])
    places = tuple(labels.place(int(t)) for t in first)
    return labels._replace(values=labels.values[first], places=places)


def stack(tables: Sequence[Labels], *, name: str = "y") -> Labels:
    """Concatenate tables, as if they were read at once."""
    widths = [table.values.shape[1] for table in tables]
    for width in widths:
        if width != widths[0]:
            raise InputError(
                f"{name} must have as many columns in every block, got {widths[0]} and {width}"
            )
    first = _leading(tables)
    for table in _speaking(tables):
        if (table.vocabulary is None) != (first.vocabulary is None):
            raise _mixed(first, table, name)
    for words in (table.vocabulary for table in tables if first.declared):
        if words is not None and words.tolist() != list(first.declared_codes()):
            raise InputError(
                f"{name} must be a Categorical of the same categories in every block, got "
                f"{named(first.vocabulary)} and {named(words)}"
            )
    places = tuple(place for table in tables for place in table.places)
    return _put(tables, np.concatenate)._replace(block=None, places=places)


def _mixed(one: Labels, other: Labels, name: str) -> TypeError:
    spoken = [(table, int(np.argmax(~table.missing().all(axis=1)))) for table in (one, other)]
    shown = " and ".join(f"{table.row(t)!r} in {table.place(t)}" for table, t in spoken)
    return InputTypeError(f"{name}: labels must be all numbers or all strings, got {shown}")
