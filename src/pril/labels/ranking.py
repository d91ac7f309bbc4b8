"""Labels as users write them, the order of classes, and labels as intervals of ranks.

Everything behind this module sees a label as two ranks, ``lo <= hi`` in ``0..K-1``: an exact label
has ``lo == hi``, "at least" has ``hi == K - 1``. So nothing else in the package asks whether a
label is exact. A row without a label has `NO_LABEL`.

A table of labels is read once (`read`), the order of the classes is the user's or taken from the
table (`order_classes`), and `to_intervals` looks the values up. `encode` is all three.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence, Sized
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from pril.core.arrays import NO_LABEL as NO_LABEL
from pril.core.arrays import Array, LabelsLike, Ranks
from pril.core.arrays import named as named
from pril.core.arrays import plain as plain
from pril.errors import ClassOrderWarning, InputError, InputTypeError, RowError, shown

UNKNOWN = -2  # the rank of a value that is not among the classes
MOST_TRIMMED = 0.5  # share of the votes that may be left out at each end


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
        if self.values.dtype.kind != "f":  # integers have no way to say it
            return np.zeros(self.values.shape, dtype=bool)
        return np.isnan(self.values)

    def labelled(self) -> NDArray[np.bool_]:
        """Return which rows have a label."""
        return ~np.logical_and.reduce(self.missing(), axis=1)

    def take(self, rows: Array | slice) -> Labels:
        """Return some of the rows."""
        numbers = np.arange(len(self.places))[rows] if self.places else ()
        places = tuple(self.places[t] for t in numbers)
        return self._replace(values=self.values[rows], places=places)

    def seen(self) -> Array:
        """Return the distinct values that occur, ascending."""
        if self.vocabulary is not None:
            codes = np.unique(self.values)
            return np.sort(self.vocabulary[codes[codes >= 0]])
        if self.values.dtype.kind == "f":
            return np.unique(self.values[np.isfinite(self.values)])
        low, high = int(self.values.min(initial=0)), int(self.values.max(initial=0))
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

    def words(self) -> list[Any]:
        """Return the vocabulary as Python objects; empty for numbers."""
        return [] if self.vocabulary is None else self.vocabulary.tolist()

    def recoded(self, codes: dict[Any, int]) -> Array:
        """Return the values as codes of a common vocabulary, which grows by what is new here."""
        if self.vocabulary is None:
            return np.full(self.values.shape, -1)
        new_codes = [codes.setdefault(word, len(codes)) for word in self.words()]
        return np.array([*new_codes, -1])[self.values]

    def place(self, t: int) -> str:
        """Return where a row is, to be named in a message."""
        if self.places:
            return self.places[t]
        return f"row {t}" if self.block is None else f"block {self.block}, row {t}"


# --- Reading -------------------------------------------------------------------------------------


def read(y: object, *, name: str = "y", columns: tuple[int, ...] = (1, 2)) -> Labels:
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
        labels = join([read(column, name=name, columns=(1,)) for column in table], name)
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
            + f", got an array of shape {labels.values.shape} instead{hint}"
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
        raise InputError(f"{name} should be a 1d array of labels, got {shown(y)} instead")
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


def _as_objects(y: Iterable[Any], name: str) -> Array:
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
    kinds: dict[type, str] = {}
    flat = np.empty(array.size, dtype=np.int64)
    for p, cell in enumerate(array.ravel().tolist()):
        if is_missing(cell):
            flat[p] = -1
            continue
        value = plain(cell)
        if type(value) not in kinds:
            kind = kinds[type(value)] = _kind(value)
            if kind == "other" or kind != next(iter(kinds.values())):
                t = p // (array.size // len(array))
                besides = f" besides {next(iter(codes))!r}" if codes else ""
                advice = ": decode them first" if isinstance(value, bytes) else ""
                raise InputTypeError(
                    f"{name}, row {t}: labels must be all numbers or all strings, got {value!r}"
                    f" of type {type(value).__name__}{besides}{advice}"
                )
        flat[p] = codes.setdefault(value, len(codes))
    values = list(codes)
    if not values or isinstance(values[0], Real):
        whole = bool(values) and all(isinstance(value, Integral) for value in values)
        if whole and max(map(abs, values)) > 2**53:
            largest = max(values, key=abs)
            raise InputError(f"{name}: {largest!r} is too large for a label among Python objects")
        lookup = np.array([*values, np.nan], dtype=np.float64)
        dtype = np.dtype(np.int64 if whole else np.float64)
        return Labels(lookup[flat].reshape(array.shape), dtype)
    return Labels(flat.reshape(array.shape), np.dtype(object), np.array(values, dtype=object))


def _kind(value: object) -> str:
    if isinstance(value, str):
        return "string"
    if is_range(value):
        return "range"
    return "number" if isinstance(value, Real) else "other"


def is_range(value: object) -> bool:
    """Tell whether a value is a range of numbers, an Interval of pandas."""
    return hasattr(value, "closed") and hasattr(value, "overlaps")


def is_missing(value: object) -> bool:
    """Tell None, NaN, NaT and pandas' NA from a label."""
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def join(parts: list[Labels], name: str) -> Labels:
    """Put the columns of a table side by side."""
    if not parts:
        return Labels(np.empty((0, 0)), np.dtype(float))
    return _put(parts, np.column_stack, name)


def _speaking(tables: Sequence[Labels]) -> Sequence[Labels]:
    """Return the tables that are not all missing; all, if all are."""
    return [table for table in tables if not table.missing().all()] or tables


def _leading(tables: Sequence[Labels]) -> Labels:
    """Return the labels whose kind all must have: a Categorical, or any that are not missing."""
    return next((table for table in tables if table.declared), _speaking(tables)[0])


def _put(tables: Sequence[Labels], together: Callable[..., Array], name: str) -> Labels:
    """Return tables put together, with the words of all, those of a Categorical first."""
    first, speaking = _leading(tables), _speaking(tables)
    for table in speaking:
        if (table.vocabulary is None) != (first.vocabulary is None):
            raise _mixed(first, table, name)
    if first.vocabulary is None:
        # Words beside numbers are all missing.
        values = [t.values if t.vocabulary is None else np.nan * t.values for t in tables]
        dtype = np.result_type(*(table.dtype for table in speaking))
        return first._replace(values=together(values), dtype=dtype)
    categories = first.words()
    codes = {word: code for code, word in enumerate(categories)}
    values = [table.recoded(codes) for table in tables]
    for table in tables:
        if table.declared and table.words() != categories:
            raise InputError(
                f"the Categoricals of {name} must have the same categories, got "
                f"{named(categories)} and {named(table.vocabulary)}"
            )
    if first.declared and len(codes) > len(categories):
        stranger = [*codes][len(categories)]
        raise InputError(f"{name}: {stranger!r} is not one of the categories {named(categories)}")
    vocabulary = np.array(list(codes), dtype=first.dtype)
    return first._replace(values=together(values), vocabulary=vocabulary)


def _mixed(one: Labels, other: Labels, name: str) -> TypeError:
    spoken = [(table, int(np.argmax(~table.missing().all(axis=1)))) for table in (one, other)]
    both = " and ".join(f"{table.row(t)!r} in {table.place(t)}" for table, t in spoken)
    return InputTypeError(f"{name}: labels must be all numbers or all strings, got {both}")


def distinct(labels: Labels) -> Labels:
    """Return the distinct rows, each at its first place: they determine the classes."""
    codes = np.zeros(len(labels.values), dtype=np.int64)
    for column in labels.values.T:
        values, inverse = np.unique(column, return_inverse=True)
        codes = codes * len(values) + inverse
    first = np.sort(np.unique(codes, return_index=True)[1])
    places = tuple(labels.place(int(t)) for t in first)
    return labels._replace(values=labels.values[first], places=places)


def stack(tables: Sequence[Labels]) -> Labels:
    """Concatenate tables, as if they were read at once."""
    widths = list(dict.fromkeys(table.values.shape[1] for table in tables))
    if len(widths) > 1:
        raise InputError(
            f"y must have as many columns in every block, got {widths[0]} and {widths[1]}"
        )
    places = tuple(place for table in tables for place in table.places)
    return _put(tables, np.concatenate, "y")._replace(block=None, places=places)


# --- Order and ranks -----------------------------------------------------------------------------


def check_classes(classes: Any) -> Array:
    """Return the classes a user gave, lowest first, as an array."""
    given = read(classes, name="classes", columns=(1,))
    values = given.values[:, 0]
    if len(values) == 0:
        raise InputError("classes is empty: name at least one class, lowest first")
    if given.missing().any():
        t = int(np.flatnonzero(given.missing())[0])
        raise InputError(f"classes, entry {t}: a class cannot be missing")
    _, first, count = np.unique(values, return_index=True, return_counts=True)
    if (count > 1).any():
        t = int(first[count > 1].min())
        raise InputError(f"classes names {given.row(t)!r} more than once: {named(classes)}")
    if given.vocabulary is not None:
        return given.vocabulary[values]
    return values.astype(given.dtype)


def order_classes(*tables: Labels, name: str = "y") -> Array:
    """Return the classes of label tables, lowest first: declared order, else ascending."""
    labels = tables[0]
    if labels.vocabulary is not None and labels.declared:
        if labels.ordered:
            return labels.vocabulary
        if len(labels.vocabulary) > 2:
            raise InputError(
                f"{name} is an unordered Categorical with {len(labels.vocabulary)} categories "
                f"{named(labels.vocabulary)}: make it ordered, or pass classes=, lowest first"
            )
    found = [(table, table.seen()) for table in tables]
    spoken = [table for table, seen in found if seen.size]
    if not spoken:
        raise InputError(f"every label in {name} is missing: pass classes=, lowest first")
    if len({table.vocabulary is None for table in spoken}) > 1:
        raise InputTypeError(f"{name} and y_pred must both be numbers or both be strings")
    classes = np.unique(np.concatenate([seen for _, seen in found if seen.size]))
    if spoken[0].vocabulary is None:
        _refuse_fractions(tables, name)
        return classes.astype(np.result_type(*(table.dtype for table in spoken)))
    if is_range(classes[0]):
        _check_apart(spoken[0], classes, name)
    elif isinstance(classes[0], str):
        from pril.labels.range_texts import ranges_among  # of words

        _refuse_texts(tables, ranges_among(classes.tolist()), name)
        if len(classes) > 2 and not are_numbered(classes):
            sorting = f"were sorted as strings, {named(classes)}"
            advice = "pass classes= to say which order they have, lowest first"
            message = f"the classes of {name} {sorting}: {advice}"
            warnings.warn(ClassOrderWarning(message, f"the classes {sorting}"), stacklevel=2)
    return classes


def _refuse_fractions(tables: tuple[Labels, ...], name: str) -> None:
    """Refuse the first label that is not a whole number."""
    for table, argument in zip(tables, (name, "y_pred"), strict=False):
        is_fraction = (table.values % 1 > 0).any(axis=1)
        if is_fraction.any():
            t = int(np.argmax(is_fraction))
            reason = f"Unknown label type: continuous. {table.row(t)!r} is not a whole number"
            raise RowError(argument, t, reason, table.place(t), hint="classes")


def _refuse_texts(tables: tuple[Labels, ...], ranges: set[str], name: str) -> None:
    """Refuse the first label that is one of the given texts, which read as ranges of classes."""
    for table, argument in zip(tables, (name, "y_pred"), strict=False):
        is_among = np.array([*(word in ranges for word in table.words()), False])
        wrong = is_among[table.values].any(axis=1)
        if wrong.any():
            t = int(np.argmax(wrong))
            text = next(cell for cell in table.cells(t) if cell in ranges)
            reason = f"{shown(text)} reads as a range, not as a class"
            raise RowError(argument, t, reason, table.place(t), hint="ranges")


def numbered(classes: Array) -> list[str]:
    """Return the name of each class with its rank before it: sorted as strings, they are in order.

    Meta-estimators sort labels; these names keep their order.
    """
    width = len(str(len(classes) - 1))
    return [f"{rank:0{width}}: {plain(label)}" for rank, label in enumerate(classes)]


def are_numbered(classes: Array) -> bool:
    """Tell whether classes are names that `numbered` made."""
    matches = [re.match("[0-9]+: ", str(name)) for name in classes]
    ranks = {rank.group() for rank in matches if rank}
    return len(ranks) == len(classes) and len(set(map(len, ranks))) == 1


def _check_apart(labels: Labels, ranges: Array, name: str) -> None:
    """Refuse ranges of numbers, ascending, that overlap: they are not the classes."""
    for lower, upper in pairwise(ranges):
        if lower.overlaps(upper):
            t = next(t for t in range(len(labels.values)) if upper in labels.cells(t))
            reason = f"{shown(upper)} overlaps {shown(lower)}"
            raise RowError(name, t, reason, labels.place(t), hint="bounds")


def same_order(labels: Labels, classes: Array) -> bool:
    """Tell whether an ordered vocabulary has the classes it shares in their order."""
    rank = {value: r for r, value in enumerate(classes.tolist())}
    shared = [rank[word] for word in labels.words() if word in rank]
    return shared == sorted(shared)


def to_intervals(
    labels: Labels, classes: Array, *, name: str = "y", allow_unknown: bool = False
) -> Ranks:
    """Return each row's lowest and highest rank.

    A row without a label has the interval `NO_LABEL`. A label that ends before it begins is
    refused, and so is a value that is not among the classes, unless `allow_unknown`: its rank is
    then `UNKNOWN`.
    """
    ranks, missing = _rank(labels, classes), labels.missing()
    has_gaps = missing.any()
    if has_gaps:
        ranks = np.where(missing, (0, len(classes) - 1), ranks)
    ranks = np.ascontiguousarray(ranks if ranks.shape[1] == 2 else np.repeat(ranks, 2, axis=1))
    _check_ranks(ranks, labels, classes, name=name, allow_unknown=allow_unknown)
    if has_gaps:
        ranks[~labels.labelled()] = NO_LABEL
    return ranks


def is_labelled(intervals: Ranks) -> NDArray[np.bool_]:
    """Return which intervals are those of a label."""
    return intervals[:, 0] <= intervals[:, 1]


def _rank(labels: Labels, classes: Array) -> Ranks:
    """Return the rank of each value, `UNKNOWN` where it is missing or not among the classes."""
    n_classes, values = len(classes), labels.values
    if labels.vocabulary is not None or classes.dtype.kind not in "biuf":
        return _look_up(labels, classes)
    if not _is_contiguous(classes):
        order = np.argsort(classes)
        at = np.minimum(np.searchsorted(classes, values, sorter=order), n_classes - 1)
        return np.where(classes[order[at]] == values, order[at], UNKNOWN)
    first = int(classes[0])
    ranks = np.ascontiguousarray(values - first if first else values)
    if values.dtype.kind == "f":
        inside = (ranks >= 0) & (ranks < n_classes) & (values == np.floor(values))
        return np.where(inside, ranks, UNKNOWN).astype(np.int64)
    # As unsigned, negative ranks are huge: one comparison finds all unknown labels.
    if ranks.size and ranks.view(np.uint64).max() >= n_classes:
        return np.where((ranks >= 0) & (ranks < n_classes), ranks, UNKNOWN)
    return ranks


def _look_up(labels: Labels, classes: Array) -> Ranks:
    if labels.vocabulary is None:  # numbers, while the classes are strings
        return np.full(labels.values.shape, UNKNOWN, dtype=np.int64)
    words = labels.words()
    wanted = set(words)  # far fewer than the classes may be
    rank = {value: r for r, value in enumerate(classes.tolist()) if value in wanted}
    ranks = [rank.get(word, UNKNOWN) for word in words]
    return np.array([*ranks, UNKNOWN], dtype=np.int64)[labels.values]


def _is_contiguous(classes: Array) -> bool:
    """Tell whether the classes are whole numbers, each one more than the last."""
    first, last, n = classes[0].item(), classes[-1].item(), len(classes)
    if not float(first).is_integer() or last - first != n - 1:
        return False
    if n <= 100:  # faster than NumPy
        return bool(classes.tolist() == [*range(int(first), int(first) + n)])
    return bool((classes == np.arange(int(first), int(first) + n)).all())


def _check_ranks(
    ranks: Ranks, labels: Labels, classes: Array, *, name: str, allow_unknown: bool
) -> None:
    lowest, highest = ranks.T
    unknown = np.minimum(lowest, highest) == UNKNOWN
    backwards = (lowest > highest) & ~unknown
    wrong = backwards if allow_unknown else backwards | unknown
    if not wrong.any():
        return
    t = int(np.argmax(wrong))
    if backwards[t]:
        lower, upper = labels.row(t)
        reason = f"lower end {shown(lower)} is above upper end {shown(upper)}"
        raise RowError(name, t, reason, labels.place(t))
    column = int(np.argmax(ranks[t] == UNKNOWN))
    value = labels.cell(t, min(column, labels.values.shape[1] - 1))
    reason = f"{shown(value)} is not one of the classes {named(classes)}"
    hint = "ranks" if _are_ranks(labels, classes) else "bounds" if is_range(value) else None
    raise RowError(name, t, reason, labels.place(t), hint)


def _are_ranks(labels: Labels, classes: Array) -> bool:
    """Tell whether labels look as if a meta-estimator had numbered them.

    These are whole numbers in place of words, or in 0..K-1 in place of other numbers.
    """
    values = labels.values
    if labels.vocabulary is not None or values.dtype.kind == "f":
        return False
    is_worded = classes.dtype.kind not in "biuf"
    return is_worded or bool((values >= 0).all() and (values < len(classes)).all())


def check_length(labels: Sized, rows: Sized, *, name: str = "y", other: str = "X") -> None:
    """Refuse labels that are more or fewer than the rows."""
    if len(labels) != len(rows):
        raise InputError(
            f"{other} and {name} have inconsistent numbers of samples: {other} has {len(rows)} "
            f"rows, {name} has {len(labels)} labels"
        )


def find_classes(labels: Labels, classes: LabelsLike | None = None, *, name: str = "y") -> Array:
    """Return the classes that were given or, without any, those of the labels, lowest first."""
    if classes is None:
        return order_classes(labels, name=name)
    given = check_classes(classes)
    warn_of_order(labels, given, name=name)
    return given


def warn_of_order(labels: Labels, classes: Array, *, name: str = "y") -> None:
    """Warn if labels have an order of their own that contradicts the classes given."""
    if labels.ordered and not same_order(labels, classes):
        reason = f"{name} is a Categorical ordered {named(labels.vocabulary)}"
        message = f"{reason}, against classes={named(classes)}, which is used"
        warnings.warn(ClassOrderWarning(message), stacklevel=3)


def encode(
    labels: Labels, classes: LabelsLike | None = None, *, name: str = "y"
) -> tuple[Array, Ranks]:
    """Return the classes, lowest first, and each row's interval of ranks."""
    order = find_classes(labels, classes, name=name)
    intervals = to_intervals(labels, order, name=name)
    if classes is None and not labels.declared:
        _warn_of_gaps(labels, intervals, order, name)
    return order, intervals


def constraints(intervals: Ranks, n_classes: int) -> Ranks:
    """Return the side of each threshold that each label asks for: 1 above, -1 below, 0 either."""
    threshold = np.arange(n_classes - 1)
    return (threshold < intervals[:, :1]).astype(np.int64) - (threshold >= intervals[:, 1:])


def interval_loss(intervals: Ranks, rank: Ranks) -> Ranks:
    """Return by how many ranks each prediction misses its interval (the paper's L_I^MAE).

    The loss of a row without a label is 0.
    """
    loss: Ranks = np.maximum(np.maximum(intervals[:, 0] - rank, rank - intervals[:, 1]), 0)
    loss[~is_labelled(intervals)] = 0
    return loss


def _warn_of_gaps(labels: Labels, ranks: Ranks, classes: Array, name: str) -> None:
    """Warn if labels that the classes were taken from speak of more classes than were seen."""
    if labels.values.shape[1] == 1:
        return
    missing = labels.missing()
    doubtful = missing[:, 0] != missing[:, 1]
    if labels.vocabulary is None:
        spans = labels.values[:, 1] - labels.values[:, 0]  # NaN where an end is missing
        doubtful |= spans > ranks[:, 1] - ranks[:, 0]
    if doubtful.any():
        t = int(np.argmax(doubtful))
        reason = (
            f"{labels.row(t)!r} may include classes that never occur as an end; the classes were "
            f"taken to be {named(classes)}"
        )
        message = f"{name}, {labels.place(t)}: {reason}: pass classes= to name them all"
        warnings.warn(ClassOrderWarning(message, reason), stacklevel=3)


def labels_of(intervals: Ranks, classes: Array) -> Labels:
    """Return intervals of ranks as labels, both ends missing where there is no label."""
    silent = ~is_labelled(intervals)[:, np.newaxis]
    if classes.dtype.kind not in "biuf":
        return Labels(np.where(silent, -1, intervals), classes.dtype, classes)
    values = classes[np.where(silent, 0, intervals)]
    return Labels(np.where(silent, np.nan, values) if silent.any() else values, classes.dtype)


# --- Votes and bounds ----------------------------------------------------------------------------


def rank_votes(
    votes: Labels, classes: Array, *, name: str = "votes", raters: Sequence[str] = ()
) -> Ranks:
    """Return the rank of each vote: the number of classes where there is none.

    A vote that is not one of the classes is refused; `raters` are the names of the columns.
    """
    ranks, missing = _rank(votes, classes), votes.missing()
    unknown = (ranks == UNKNOWN) & ~missing
    if unknown.any():
        t, rater = divmod(int(np.argmax(unknown)), ranks.shape[1])
        place = f"column {raters[rater]!r}: " if raters else ""
        said = f"{shown(votes.cell(t, rater))} is not one of the classes {named(classes)}"
        raise RowError(name, t, f"{place}{said}", votes.place(t))
    return np.where(missing, len(classes), ranks)


def zero_among_votes(order: Array) -> str | None:
    """Return what to say of a 0 that was found among votes, and may be no vote; None without it."""
    if order.dtype.kind not in "iuf" or len(order) < 3 or order[0] != 0:  # 0 and 1 are no and yes
        return None
    return (
        f"0 was taken for a vote, the lowest of {named(order)}; if it means no vote, leave it out"
    )


def between_votes(ranks: Ranks, n_classes: int, trim: float) -> Ranks:
    """Return the interval of each row, from the lowest to the highest vote that is not left out."""
    # Votes that were cast come first, in order; this many are left out at each end.
    ranks = np.sort(ranks, axis=1)
    n_votes = np.sum(ranks < n_classes, axis=1)
    skipped = np.floor(trim * np.maximum(n_votes - 1, 0)).astype(np.int64)
    rows = np.arange(len(ranks))
    lower = ranks[rows, skipped]
    upper = ranks[rows, np.maximum(n_votes - 1 - skipped, 0)]
    intervals = np.column_stack([lower, upper])
    intervals[n_votes == 0] = NO_LABEL
    return intervals


def rank_bounds(
    low: Array, high: Array, cuts: Array, holds_upper: Array | bool = False, *, name: str = "lower"
) -> Ranks:
    """Return the lowest and the highest bin between the cuts that each range of numbers overlaps.

    A missing end is open. A range holds its lower end, and its upper end if `holds_upper` says so.
    """
    silent = np.isnan(low) & np.isnan(high)
    low = np.where(np.isnan(low), -np.inf, low)
    high = np.where(np.isnan(high), np.inf, high)
    backwards = low > high
    if backwards.any():
        t = int(np.argmax(backwards))
        raise RowError(name, t, f"{plain(low[t])!r} is above upper, {plain(high[t])!r}")
    first = np.searchsorted(cuts, low, side="right")
    last = np.searchsorted(cuts, high, side="left")
    last = np.where(holds_upper, np.searchsorted(cuts, high, side="right"), last)
    bins = np.column_stack([first, np.maximum(first, last)])
    bins[silent] = NO_LABEL
    return bins
