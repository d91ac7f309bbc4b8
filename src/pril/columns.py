"""Columns of a table to features: numbers, words, gaps. Needs pyarrow: ``pip install pril[cli]``.

The parts are scikit-learn's; what is ours is that they learn batch by batch, from tables that do
not fit in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted

from pril import labels
from pril.errors import RowError, shown

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:  # pragma: no cover - the extra is missing
    raise ImportError("tables need pyarrow: pip install 'pril[cli]'") from error

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["ColumnEncoder"]

# What stands for a missing value in text, as pyarrow and pandas read it.
MISSING = pa.array(["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "null", "NULL"])
NUMBER, TEXT = pa.float64(), pa.string()
DENSE_FROM = 0.3  # share of cells that are not zero, from which a dense matrix is smaller


def kind_of(column: pa.DataType) -> str:
    """Return what a column's type makes of it: number, text, sparse, empty, or the type's name."""
    types = pa.types
    if types.is_dictionary(column):
        column = column.value_type
    if types.is_integer(column) or types.is_floating(column) or types.is_decimal(column):
        return "number"
    if types.is_boolean(column):
        return "number"
    if types.is_string(column) or types.is_large_string(column) or types.is_string_view(column):
        return "text"
    if types.is_map(column) and types.is_integer(column.key_type):
        return "sparse"
    return "empty" if types.is_null(column) else str(column)


# --- Reading cells -------------------------------------------------------------------------------


def to_batch(X: Any) -> pa.RecordBatch:
    """Return anything that speaks Arrow as one batch."""
    if isinstance(X, pa.RecordBatch):
        return X
    if not (isinstance(X, pa.Table) or hasattr(X, "__arrow_c_stream__")):
        raise TypeError(
            f"X must be a table with named columns, such as a DataFrame, got {type(X).__name__}"
        )
    return one_batch(pa.table(X))


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return all rows of a table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column by its name."""
    if batch.schema.get_field_index(name) < 0:
        raise ValueError(f"there is no column {name!r}; the columns are {batch.schema.names}")
    return batch.column(name)


def read_numbers(cells: pa.Array, name: str) -> Array:
    """Return a column as floats, NaN for what is missing; text is read as numbers."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = kind_of(cells.type)
    if kind == "text":
        cells = _parsed(cells, name)
    elif kind not in ("number", "empty"):
        raise TypeError(f"column {name!r} holds {cells.type}, which is not a number")
    elif cells.type != pa.float64():
        cells = pc.cast(cells, pa.float64(), safe=False)  # a large integer is rounded
    numbers: Array = cells.to_numpy(zero_copy_only=False)
    return numbers


def _parsed(cells: pa.Array, name: str) -> pa.Array:
    """Return text as floats; gaps are looked for only if there is something that is no number."""
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        cells = pc.ascii_trim_whitespace(cells)  # "1, 2" is written by many
        cells = blanked(cells, pc.is_in(cells, MISSING))
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        row, value = next((t, x) for t, x in enumerate(cells) if not _is_number(x))
        raise RowError("X", row, f"column {name!r} is {_shown(value)}, not a number") from None


def _is_number(cell: pa.Scalar) -> bool:
    try:
        pc.cast(cell, pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def read_words(cells: pa.Array, name: str) -> pa.Array:
    """Return a column as strings, null for what is missing."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if kind_of(cells.type) not in ("text", "number", "empty"):
        raise TypeError(f"column {name!r} holds {cells.type}, which is not text")
    if cells.type != pa.string():
        cells = pc.cast(cells, pa.string())
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        raw = cells.cast(pa.binary())
        row = next(t for t, value in enumerate(raw) if not _is_utf8(value.as_py()))
        reason = f"column {name!r} is {shown(raw[row].as_py())}, which is not UTF-8"
        raise RowError("X", row, reason) from None
    return blanked(cells, pc.is_in(cells, MISSING))


def blanked(cells: pa.Array, mask: pa.Array) -> pa.Array:
    """Return cells with gaps where a mask is true.

    Not by if_else: up to pyarrow 23 at least, it writes garbage for text that is a part of more.
    """
    return pc.replace_with_mask(cells, mask, pa.scalar(None, cells.type))


def _is_utf8(text: bytes | None) -> bool:
    try:
        (text or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


def _shown(cell: pa.Scalar) -> str:
    try:
        return shown(cell.as_py())
    except UnicodeDecodeError:
        return shown(cell.cast(pa.binary()).as_py())


def read_sparse(cells: pa.Array, width: int) -> sparse.csr_array:
    """Return a column of maps from feature to value as a matrix; it leaves out those beyond it."""
    cells = cells.fill_null({}) if cells.null_count else cells
    start = cells.offsets.to_numpy()
    index = cells.keys.to_numpy()[start[0] : start[-1]]
    value = cells.items.to_numpy(zero_copy_only=False)[start[0] : start[-1]].astype(np.float64)
    start = start - start[0]
    known = (index >= 0) & (index < width)
    if not known.all():
        start = np.concatenate([[0], np.cumsum(known)])[start]
        index, value = index[known], value[known]
    return sparse.csr_array((value, index, start), shape=(len(cells), width))


def read_labels(batch: pa.RecordBatch, names: Sequence[str], *, text: bool) -> labels.Labels:
    """Return one or two columns as labels: exact, or the lower and the upper end."""
    columns = [column(batch, name) for name in names]
    if text:
        words = [read_words(cells, name) for cells, name in zip(columns, names, strict=True)]
        return labels.join([_coded(cells) for cells in words], "y")
    if all(pa.types.is_integer(cells.type) and cells.null_count == 0 for cells in columns):
        values = np.column_stack([cells.to_numpy() for cells in columns])
        return labels.read(values[:, 0] if len(names) == 1 else values)
    values = np.column_stack(
        [read_numbers(cells, name) for cells, name in zip(columns, names, strict=True)]
    )
    finite = values[np.isfinite(values)]
    whole = bool((finite == np.floor(finite)).all() and (np.abs(finite) < 2**53).all())
    table = labels.read(values[:, 0] if len(names) == 1 else values)
    return table._replace(dtype=np.dtype(np.int64 if whole else np.float64))


def _coded(words: pa.Array) -> labels.Labels:
    coded = words.dictionary_encode()
    vocabulary = np.array(coded.dictionary.to_pylist(), dtype=object)
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return labels.Labels(codes, vocabulary.dtype, vocabulary)


class Moments(NamedTuple):
    """Columns of numbers, summed up: each an array with one entry a column."""

    count: Any
    mean: Any
    squares: Any  # of the distances from the mean, added up
    low: Any
    high: Any


# --- The encoder ---------------------------------------------------------------------------------


class ColumnEncoder(TransformerMixin, BaseEstimator):
    """Make features of a table's columns, learned batch by batch.

    Numbers are standardised, their gaps filled with the mean. Each word of a column of words
    becomes an indicator; a gap, or a word never seen in training, has zeros in all of them. A
    sparse column, such as the features of an svmlight file, is divided by standard deviations.

    Parameters
    ----------
    scale : bool, default=True
        Whether to standardise numbers.
    bounded : bool, default=False
        Whether to divide centred numbers by the largest of each column instead of by its standard
        deviation, so that they lie within [-1, 1].
    impute : bool, default=True
        Whether to fill gaps in numbers; False refuses them.
    numbers : sequence of str, default=()
        Columns to read as numbers although they hold text.
    words : sequence of str, default=()
        Columns to read as words, whatever they hold and however many there are.
    most_words : int, default=1000
        A column with more different words holds names or remarks, not categories: it is left out,
        unless it is among `words`.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        The columns used.
    n_features_in_ : int
        Their number.
    numbers_ : list of str
        Columns read as numbers.
    words_ : dict
        For each column of words, its words in alphabetical order.
    widths_ : dict
        For each sparse column, how many features it has.
    left_out_ : list of str
        Columns with too many words.

    Examples
    --------
    Tables are anything that speaks Arrow: pyarrow's, pandas' and polars' own.

    >>> import pyarrow as pa
    >>> from pril.columns import ColumnEncoder
    >>> table = pa.table({"age": [20.0, None, 40.0], "town": ["Rome", "Oslo", "Rome"]})
    >>> encoder = ColumnEncoder().fit(table)
    >>> encoder.transform(table)
    array([[-1.,  0.,  1.],
           [ 0.,  1.,  0.],
           [ 1.,  0.,  1.]])
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'town=Oslo', 'town=Rome']
    """

    _moments: Moments

    def __init__(
        self,
        *,
        scale: bool = True,
        bounded: bool = False,
        impute: bool = True,
        numbers: Sequence[str] = (),
        words: Sequence[str] = (),
        most_words: int = 1000,
    ) -> None:
        self.scale = scale
        self.bounded = bounded
        self.impute = impute
        self.numbers = numbers
        self.words = words
        self.most_words = most_words

    # --- Learning ---

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one table.

        Parameters
        ----------
        X : table
            Anything that speaks Arrow.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The encoder.
        """
        if hasattr(self, "numbers_"):
            del self.numbers_
        return self.partial_fit(X)

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one more batch of rows.

        Parameters
        ----------
        X : table
            Anything that speaks Arrow, with the columns of the first batch.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The encoder.
        """
        batch = to_batch(X)
        if not hasattr(self, "numbers_"):
            self._begin(batch.schema)
        if batch.num_rows == 0:
            return self
        found = []
        for name in self.numbers_:
            cells, total = self._numbers(batch, name)
            found.append(self._describe(cells, total))
            if not np.isfinite(found[-1][:3]).all():
                largest = np.abs(np.nan_to_num(cells)) == np.nanmax(np.abs(cells))
                self._refuse(name, cells, largest, "too large for its square to be a number")
        self._join(Moments(*np.array(found).reshape(-1, len(Moments._fields)).T))
        for name in list(self.words_):
            words = pc.unique(read_words(column(batch, name), name)).drop_null()
            self._add_words(name, words.to_pylist())
        for name, width in self.widths_.items():
            self._sparse_scalers[name].partial_fit(read_sparse(column(batch, name), width))
        return self

    def _describe(self, cells: Array, total: float) -> Moments:
        """Return what a batch's cells of one column add to its moments."""
        if np.isnan(total):
            cells = cells[~np.isnan(cells)]
            with np.errstate(over="ignore"):
                total = cells.sum()
        if len(cells) == 0:
            return Moments(0.0, 0.0, 0.0, np.inf, -np.inf)
        mean = total / len(cells)
        off = cells - mean
        ends = (cells.min(), cells.max()) if self.bounded else (np.inf, -np.inf)
        with np.errstate(over="ignore"):
            squares = np.square(off, out=off).sum()
        return Moments(len(cells), mean, squares, *ends)

    def _join(self, more: Moments) -> None:
        """Add the moments of other rows (Chan, Golub and LeVeque).

        StandardScaler.partial_fit would do this, but a batch in which a column has nothing but gaps
        leaves its variance NaN for good, and it takes several times as long.
        """
        own = self._moments
        count = own.count + more.count
        share = more.count / np.maximum(count, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            step = more.mean - own.mean
            joined = Moments(
                count=count,
                mean=own.mean + step * share,
                squares=own.squares + more.squares + step**2 * own.count * share,
                low=np.minimum(own.low, more.low),
                high=np.maximum(own.high, more.high),
            )
        finite = np.isfinite(joined.squares)
        if not finite.all():
            name = self.numbers_[int(np.argmin(finite))]
            raise ValueError(
                f"column {name!r} holds numbers so far apart that their squares are not finite"
            )
        self._moments = joined

    def _add_words(self, name: str, words: list[str]) -> None:
        known = self.words_[name]
        if not set(words).issubset(known):
            known = self.words_[name] = sorted({*known, *words})
        if len(known) > self.most_words and name not in self.words:
            del self.words_[name]
            self.left_out_.append(name)

    def merge(self, other: ColumnEncoder) -> Self:
        """Take in what another encoder has learned from other rows of the same table.

        Parameters
        ----------
        other : ColumnEncoder
            It has seen the same columns.

        Returns
        -------
        self : object
            The encoder, as if it had seen the other rows too.
        """
        if self.widths_:
            raise ValueError("sparse columns cannot be learned in parts: scikit-learn's scaler")
        self._join(other._moments)
        for name in list(self.words_):
            if name in other.left_out_:
                del self.words_[name]
                self.left_out_.append(name)
            else:
                self._add_words(name, other.words_[name])
        return self

    def check(self, X: Any) -> None:
        """Refuse rows that `transform` would refuse.

        Parameters
        ----------
        X : table
            Anything that speaks Arrow.
        """
        batch = to_batch(X)
        for name in self.numbers_:
            self._numbers(batch, name)
        for name in self.words_:
            read_words(column(batch, name), name)

    def _begin(self, schema: pa.Schema) -> None:
        kind = {field.name: kind_of(field.type) for field in schema}
        kind.update(dict.fromkeys(self.numbers, "number"))
        kind.update(dict.fromkeys(self.words, "text"))
        for name in kind:
            if kind[name] not in ("number", "text", "sparse"):
                raise TypeError(f"column {name!r} cannot be a feature: it holds {kind[name]}")
        self.numbers_ = [name for name in kind if kind[name] == "number"]
        self.words_: dict[str, list[str]] = {name: [] for name in kind if kind[name] == "text"}
        self.widths_ = {
            name: int(schema.field(name).metadata[b"width"])
            for name in kind
            if kind[name] == "sparse"
        }
        self.left_out_: list[str] = []
        none = np.zeros(len(self.numbers_))
        self._moments = Moments(none, none, none, none + np.inf, none - np.inf)
        self._sparse_scalers = {name: StandardScaler(with_mean=False) for name in self.widths_}

    # --- Transforming ---

    @property
    def feature_names_in_(self) -> Array:
        """The columns used."""
        check_is_fitted(self, "numbers_")
        return np.array([*self.numbers_, *self.words_, *self.widths_], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns used."""
        return len(self.feature_names_in_)

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            A number's column; column=word for an indicator; column:index for a sparse one.
        """
        check_is_fitted(self, "numbers_")
        indicators = [f"{name}={word}" for name in self.words_ for word in self.words_[name]]
        cells = [f"{name}:{index}" for name in self.widths_ for index in range(self.widths_[name])]
        return np.array([*self.numbers_, *indicators, *cells], dtype=object)

    def transform(self, X: Any) -> Any:
        """Return the features of a table's rows.

        Parameters
        ----------
        X : table
            Anything that speaks Arrow, with the columns seen in training; others are ignored.

        Returns
        -------
        features : ndarray or sparse array of shape (n_samples, n_features)
            Sparse where most cells are zero.
        """
        check_is_fitted(self, "numbers_")
        batch = to_batch(X)
        parts = [self._scaled(batch)] if self.numbers_ else []
        parts += [self._indicators(column(batch, name), name) for name in self.words_]
        for name, width in self.widths_.items():
            cells = read_sparse(column(batch, name), width)
            parts.append(self._sparse_scalers[name].transform(cells) if self.scale else cells)
        if self._is_dense():
            dense = [part if isinstance(part, np.ndarray) else part.toarray() for part in parts]
            return dense[0] if len(dense) == 1 else np.hstack(dense)
        return sparse.hstack([sparse.csr_array(part) for part in parts], format="csr")

    def _is_dense(self) -> bool:
        n_indicators = sum(map(len, self.words_.values()))
        filled = len(self.numbers_) + len(self.words_)
        return not self.widths_ and filled >= DENSE_FROM * (len(self.numbers_) + n_indicators)

    def _numbers(self, batch: pa.RecordBatch, name: str) -> tuple[Array, float]:
        """Return a column of numbers, and their sum: NaN if some are missing."""
        cells = read_numbers(column(batch, name), name)
        with np.errstate(over="ignore"):
            total = float(cells.sum())
        if np.isfinite(total):
            return cells, total
        self._refuse(name, cells, np.isinf(cells), "which is not finite")
        if not self.impute:
            self._refuse(name, cells, np.isnan(cells), "a missing value")
        return cells, total

    def _refuse(self, name: str, cells: Array, bad: Array, reason: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise RowError("X", row, f"column {name!r} is {cells[row]}, {reason}")

    def _scaled(self, batch: pa.RecordBatch) -> Array:
        mean, scale = self._moments.mean, self._scales()
        matrix = np.empty((batch.num_rows, len(self.numbers_)))
        for j, name in enumerate(self.numbers_):
            cells, total = self._numbers(batch, name)
            if np.isnan(total):
                cells = np.where(np.isnan(cells), mean[j], cells)
            if self.scale:
                np.divide(cells - mean[j], scale[j], out=matrix[:, j])
            else:
                matrix[:, j] = cells
        return matrix

    def _scales(self) -> Array:
        """Return what to divide each column of numbers by, 1 where it is constant."""
        count, mean, squares, low, high = self._moments
        if self.bounded:
            scale = np.maximum(high - mean, mean - low)
        else:
            scale = np.sqrt(squares / np.maximum(count, 1.0))
        # A constant has a deviation of rounding errors; scikit-learn draws the line here too.
        noise = np.sqrt(count) * np.finfo(np.float64).eps * np.abs(mean)
        return np.where(scale > noise, scale, 1.0)

    def _indicators(self, cells: pa.Array, name: str) -> sparse.csr_array:
        words = self.words_[name]
        code = pc.index_in(read_words(cells, name), pa.array(words, pa.string()))
        index = code.drop_null().to_numpy()
        start = np.concatenate([[0], np.cumsum(code.is_valid().to_numpy(zero_copy_only=False))])
        return sparse.csr_array((np.ones(len(index)), index, start), shape=(len(cells), len(words)))

    def strangers(self, X: Any) -> dict[str, tuple[int, str]]:
        """Return, for each column of words, the first row with one never seen, and the word.

        Parameters
        ----------
        X : table
            Anything that speaks Arrow.

        Returns
        -------
        strangers : dict
            Columns without such a row are left out.
        """
        found = {}
        for name, words in self.words_.items():
            cells = read_words(column(to_batch(X), name), name)
            known = pc.or_(pc.is_in(cells, pa.array(words, pa.string())), pc.is_null(cells))
            row = pc.index(known, False).as_py()
            if row >= 0:
                found[name] = (row, cells[row].as_py())
        return found
