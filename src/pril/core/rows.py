"""X, in any form that users pass, as rows for the loop; copied only if needed."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from typing import Any, TypeGuard

import numpy as np
from scipy.sparse import coo_array, issparse, sparray
from sklearn.base import BaseEstimator

from pril.core.arrays import Array, FeaturesLike, frozen
from pril.core.loop_types import Csr, Dense, Rows
from pril.core.scikit import validate_data
from pril.errors import InputError, InputTypeError, OverflowedError, RowError, shown

TIMES = {np.datetime64, np.timedelta64}
CELLS = 1 << 16  # in which a bad one is looked for at once


def read_rows(
    estimator: BaseEstimator, X: FeaturesLike, *, constant: float, reset: bool, min_rows: int
) -> Rows:
    """Check X for an estimator and return its rows; only a wrong dtype or order is copied.

    Values are not checked here: a pass over them would cost as much as learning. A row that is not
    finite has a score that is not finite, which the loop notices; `not_finite_error` then finds the
    cell.
    """
    if not reset and _is_plain(X, estimator) and len(X) >= min_rows:
        return Dense(frozen(X), constant)
    check_cells(X)
    try:
        cells = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=(np.float64, np.float32),
            order="C",
            ensure_all_finite=False,
            ensure_min_samples=min_rows,
        )
    except ValueError as error:
        if "could not convert string to float" not in str(error):
            raise
        raise _word_error(X) or error from None
    if not issparse(cells):
        return Dense(frozen(cells), constant)
    if not cells.has_canonical_format:  # a feature stored twice would have a wrong square
        cells = cells.copy()
        cells.sum_duplicates()
    # SciPy has two types of indices. With one of them the loop is compiled once, not twice.
    index = np.int32 if max(cells.shape[1], cells.nnz) < 2**31 else np.int64
    indices, indptr = (part.astype(index, copy=False) for part in (cells.indices, cells.indptr))
    return Csr(frozen(cells.data), frozen(indices), frozen(indptr), constant)


def _word_error(X: FeaturesLike) -> ValueError | None:
    """Return the error for the first cell that is a word; None if there is none."""
    names = getattr(X, "columns", None)
    cells = np.asarray(X, dtype=object)
    for row, values in enumerate(cells if cells.ndim == 2 else ()):
        for j, value in enumerate(values):
            try:
                float(value)
            except ValueError:
                feature = f"feature {j}" if names is None else f"feature {names[j]!r}"
                advice = "encode words, for example with pril.ColumnEncoder"
                return RowError("X", row, f"{feature} is {shown(value)}, not a number; {advice}")
            except TypeError:
                continue
    return None


def _is_plain(X: object, estimator: BaseEstimator) -> TypeGuard[Array]:
    """Tell whether X can be used without a copy, because all checks of it would pass."""
    return (
        type(X) is np.ndarray
        and X.dtype in (np.float64, np.float32)
        and X.flags.c_contiguous
        and X.ndim == 2
        and X.shape[1] == getattr(estimator, "n_features_in_", None)
        and not hasattr(estimator, "feature_names_in_")
    )


def check_cells(X: object, name: str = "X") -> None:
    """Refuse times, masked cells, lists of rows of several lengths, and damaged sparse matrices."""
    if issparse(X):
        _check_sparse(X)
    elif isinstance(X, list | tuple):
        width = None
        for t, row in enumerate([] if {float, int}.issuperset(map(type, X)) else X):
            cells = row if isinstance(row, list | tuple) else [row]
            width = len(cells) if width is None else width
            if len(cells) != width:
                reason = f"{len(cells)} values, where the rows above have {width}"
                raise RowError(name, t, reason)
            if not TIMES.isdisjoint(map(type, cells)):
                raise _time_error(f"{name}, row {t}", "a time")
            if isinstance(row, np.ndarray):
                _check_array(row, name, t)
    elif isinstance(X, np.ndarray):
        _check_array(X, name, None)
    else:
        types = getattr(X, "dtypes", None)  # of a DataFrame's columns
        if types is None or not hasattr(types, "__iter__"):
            types = [getattr(X, "dtype", None)]
        for column, dtype in enumerate(types):
            is_temporal = getattr(dtype, "is_temporal", bool)  # polars
            if getattr(dtype, "kind", "") in ("m", "M") or is_temporal():
                columns = getattr(X, "columns", None)
                where = name if columns is None else f"{name}, feature {columns[column]!r}"
                raise _time_error(where, str(dtype))


def _check_array(X: Array, name: str, row: int | None) -> None:
    """Refuse masked values and times in an array, which may be one row."""
    if np.ma.is_masked(X):
        hidden = np.ma.getmaskarray(X)
        if row is None:
            row = int(np.argmax(hidden.reshape(len(hidden), -1).any(axis=1))) if X.ndim else 0
        reason = "a value is masked: fill it in (numpy.ma.filled), or drop such rows"
        raise RowError(name, row, reason)
    is_object = X.dtype.kind == "O"
    if X.dtype.kind in "mM" or (is_object and not TIMES.isdisjoint(map(type, X.ravel().tolist()))):
        raise _time_error(name if row is None else f"{name}, row {row}", str(X.dtype))


def _time_error(where: str, kind: str) -> TypeError:
    return InputTypeError(
        f"{where}: got {kind}, expected numbers; turn times into numbers first, for example into "
        "days: (times - start) / numpy.timedelta64(1, 'D')"
    )


def _check_sparse(X: sparray) -> None:
    """Refuse a sparse matrix whose arrays do not fit together: SciPy's code would crash on it."""
    try:
        if X.format == "coo":
            coo_array((X.data, X.coords), shape=X.shape)
        elif X.format in ("csr", "csc"):
            copy(X).check_format()  # of a copy: it may shorten the arrays
    except ValueError as error:
        raise InputError(f"X is damaged: {error}") from None


def n_rows(rows: Any) -> int:
    """Return the number of rows."""
    return len(rows.indptr) - 1 if isinstance(rows, Csr) else int(rows.X.shape[0])


def batches(n: int, size: int, least: int | None = None) -> Iterator[slice]:
    """Cut n rows into batches; with `least`, what is left over into halves, down to that size.

    Results then have few shapes, so that an accelerator's allocator can reuse its memory.
    """
    start = 0
    while start < n:
        while least is not None and n - start < size > least:
            size //= 2
        yield slice(start, min(start + size, n))
        start += size


def rows_within(rows: Any, batch: slice) -> Any:
    """Return the rows of a batch; their features are not copied."""
    if not isinstance(rows, Csr):
        return rows._replace(X=rows.X[batch, ...])
    start = rows.indptr[batch.start : batch.stop + 1]
    stored = slice(start[0], start[-1])
    indptr = frozen(start - start[0])
    return rows._replace(data=rows.data[stored], indices=rows.indices[stored], indptr=indptr)


def not_finite_error(
    rows: Rows,
    learner: str,
    feature_names: Array | None,
    row: int | None,
    weights: Array | None = None,
) -> ValueError:
    """Return the error for numbers that are not finite: the first bad cell of X, or an overflow.

    `learner` is a name. `row` is where it overflowed, if that is known; else it is taken to be the
    most extreme row.
    """
    cells = rows.X.ravel() if isinstance(rows, Dense) else rows.data

    def place(at: int) -> tuple[int, str]:
        """Return the row of a cell, and its feature with its value."""
        if isinstance(rows, Dense):
            row, column = divmod(at, rows.X.shape[1])
        else:
            row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
            column = int(rows.indices[at])
        name = column if feature_names is None else repr(feature_names[column])
        return row, f"feature {name} is {'NaN' if np.isnan(cells[at]) else cells[at]}"

    for block in batches(len(cells), CELLS):
        finite = np.isfinite(cells[block])
        if not finite.all():
            at = block.start + int(np.argmin(finite))
            bad, cell = place(at)
            reason = f"{cell}; Input X contains NaN or infinity, which {learner}"
            return RowError("X", bad, f"{reason} does not accept: impute or drop such rows")
    sizes = np.abs(cells)
    largest = float(sizes.max(initial=0.0))
    too_small = largest < 1.0
    if weights is not None and max(largest, 1.0) < weights.max():
        t = int(np.argmax(weights))
        reason = f"{learner} overflowed: {weights[t].item()} is too large a weight"
        return OverflowedError("sample_weight", t, f"{reason}; divide all weights")
    which = "the features are"
    if row is None and len(cells):
        at = int(np.argmin(np.where(sizes > 0.0, sizes, np.inf)) if too_small else np.argmax(sizes))
        row, which = place(at)
        which += ","
    size, advice = "small" if too_small else "large", "scale X, for example with StandardScaler"
    reason = f"{which} too {size} for sums of products; {advice}"
    return OverflowedError("X", row or 0, f"X is finite, but {learner} overflowed on it: {reason}")
