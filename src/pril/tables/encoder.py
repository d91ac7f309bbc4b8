"""Turn the columns of a table into features, learned batch by batch; single rows as well."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pril.bases.parts import Parts
from pril.core.arrays import Array
from pril.core.scikit import validate_data
from pril.errors import InputError, InputTypeError, RowError, refusing, shown
from pril.tables import arrow
from pril.tables.json_lines import Cells, to_matrix, to_text

# isort: split
from typing import Self

import pyarrow as pa  # after `arrow`, which says what to install if pyarrow is missing
import pyarrow.compute as pc

__all__ = ["ColumnEncoder"]

DENSE_FROM = 0.3  # with this share of cells that are not zero, a dense matrix is smaller


class ColumnMoments(NamedTuple):
    """Sums over columns of numbers: each field is an array with one entry for each column."""

    count: Any  # an array; its type would be that of the method of tuples
    mean: Array
    squares: Array  # the sum of squared distances from the mean
    low: Array
    high: Array

    @classmethod
    def of(cls, cells: Array) -> ColumnMoments:
        """Return the moments of columns, which are the rows of a matrix; NaN is a missing value."""
        missing = np.isnan(cells)
        count = cells.shape[1] - missing.sum(axis=1, dtype=np.float64)
        with np.errstate(over="ignore", invalid="ignore"):
            mean = np.where(missing, 0.0, cells).sum(axis=1) / np.maximum(count, 1.0)
            distance = np.where(missing, 0.0, cells - mean[:, np.newaxis])
            squares = np.square(distance, out=distance).sum(axis=1)
        low = np.fmin.reduce(cells, 1, initial=np.inf)
        return cls(count, mean, squares, low, np.fmax.reduce(cells, 1, initial=-np.inf))

    def joined(self, more: ColumnMoments) -> ColumnMoments:
        """Return the moments of these rows and other ones (Chan, Golub and LeVeque).

        StandardScaler.partial_fit would do this, but it is several times slower, and after a batch
        in which a column has no value it leaves the variance NaN for good.
        """
        count = self.count + more.count
        share = more.count / np.maximum(count, 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            step = more.mean - self.mean
            mean = self.mean + step * share
            squares = self.squares + more.squares + step**2 * self.count * share
        low, high = np.minimum(self.low, more.low), np.maximum(self.high, more.high)
        return ColumnMoments(count, mean, squares, low, high)

    def scales(self, *, bounded: bool) -> Array:
        """Return what to divide each column by, 1 where it is constant."""
        if bounded:
            scale = np.maximum(self.high - self.mean, self.mean - self.low)
        else:
            scale = np.sqrt(self.squares / np.maximum(self.count, 1.0))
        # The deviation of a constant is rounding error; scikit-learn has the same limit.
        noise = np.sqrt(self.count) * np.finfo(np.float64).eps * np.abs(self.mean)
        return np.where(scale > noise, scale, 1.0)


class ColumnEncoder(TransformerMixin, BaseEstimator):
    """Turn the columns of a table into features, learned batch by batch.

    Numbers are standardised, and missing numbers are replaced by the mean. Each word of a column of
    words becomes an indicator (0 or 1); a missing word, or a word never seen in training, has zeros
    in all of them.

    The categories of an ordered Categorical, or of a polars Enum, become the numbers 0, 1, 2 and so
    on, lowest first; a category that the first batch does not have counts as missing. The index of
    a DataFrame is not a column.

    Parameters
    ----------
    scale : bool, default=True
        Whether to standardise numbers.
    bounded : bool, default=False
        Whether to divide centred numbers by the largest absolute value of their column instead of
        by the standard deviation, so that they lie within [-1, 1].
    impute : bool, default=True
        Whether to replace missing numbers; False refuses them.
    codes : bool, default=False
        Whether a column of words becomes one feature, the position of the word in alphabetical
        order, and missing cells stay NaN: for learners that take categories and missing values as
        they are, such as `OrderedBoosting`. Numbers are neither standardised nor replaced.
    numbers : sequence of str, default=()
        Columns to read as numbers although they hold text.
    words : sequence of str, default=()
        Columns to read as words, even if they hold numbers, ordered categories or more than
        `most_words` words.
    most_words : int, default=1000
        A column with more different words is left out, unless it is among `words`: it probably
        holds names or remarks, not categories.

    Attributes
    ----------
    feature_names_in_ : ndarray of str
        The columns used.
    n_features_in_ : int
        Their number.
    numbers_ : list of str
        Columns read as numbers.
    ranks_ : dict
        For each column of ordered categories, which is among `numbers_`, its categories, lowest
        first.
    words_ : dict
        For each column of words, its words in alphabetical order.
    counts_ : dict
        For each column of words, how often each of them occurred.
    left_out_ : list of str
        Columns with too many words.

    Examples
    --------
    A table may come from pyarrow, pandas, polars, or any library with the Arrow interface.

    >>> import pyarrow as pa
    >>> from pril import ColumnEncoder
    >>> table = pa.table({"age": [20.0, None, 40.0], "town": ["Rome", "Oslo", "Rome"]})
    >>> encoder = ColumnEncoder().fit(table)
    >>> encoder.transform(table)
    array([[-1.,  0.,  1.],
           [ 0.,  1.,  0.],
           [ 1.,  0.,  1.]])
    >>> encoder.get_feature_names_out().tolist()
    ['age', 'town=Oslo', 'town=Rome']
    """

    moments_: ColumnMoments

    def __init__(
        self,
        *,
        scale: bool = True,
        bounded: bool = False,
        impute: bool = True,
        codes: bool = False,
        numbers: Sequence[str] = (),
        words: Sequence[str] = (),
        most_words: int = 1000,
    ) -> None:
        self.scale = scale
        self.bounded = bounded
        self.impute = impute
        self.codes = codes
        self.numbers = numbers
        self.words = words
        self.most_words = most_words

    # --- Learning ---

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from one table.

        Parameters
        ----------
        X : table or array-like of shape (n_samples, n_columns)
            A table with the Arrow interface, such as a DataFrame. The columns of an array are
            called x0, x1 and so on.
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
            A table with the Arrow interface, with the columns of the first batch.
        y : None
            Ignored.

        Returns
        -------
        self : object
            The encoder.
        """
        batch = self._read(X)
        if not hasattr(self, "numbers_"):
            self._begin(batch)
        learn_rows(self, batch, np.ones(batch.num_rows, dtype=bool))
        return self

    def merge(self, other: ColumnEncoder) -> Self:
        """Add what another encoder has learned from other rows of the same table.

        Parameters
        ----------
        other : ColumnEncoder
            An encoder of the same columns.

        Returns
        -------
        self : object
            The encoder, as if it had seen the other rows too.
        """
        for name, categories in self.ranks_.items():
            if categories != other.ranks_[name]:
                raise InputError(
                    f"column {name!r} has the categories {', '.join(categories)}; other rows have "
                    f"{', '.join(other.ranks_[name])}"
                )
        self.moments_ = self.moments_.joined(other.moments_)
        for name in list(self.words_):
            if name in other.left_out_:
                _leave_out(self, name)
            else:
                pairs = zip(other.words_[name], other.counts_[name], strict=True)
                add_words(self, name, dict(pairs))
        return self

    def _read(self, X: Any) -> pa.RecordBatch:
        """Return a table, or an array, whose columns are called x0, x1 and so on."""
        if isinstance(X, pa.RecordBatch | pa.Table) or hasattr(X, "__arrow_c_stream__"):
            return arrow.to_batch(X)
        # Which columns there are is compared below.
        X = validate_data(BaseEstimator(), X, dtype=None, ensure_all_finite=False, estimator=self)
        if hasattr(self, "numbers_") and X.shape[1] < self.n_features_in_:
            raise InputError(
                f"X has {X.shape[1]} features, but ColumnEncoder is expecting "
                f"{self.n_features_in_} features as input"
            )
        columns = {}
        for j in range(X.shape[1]):
            columns[f"x{j}"] = arrow.to_array(X[:, j].copy(), f"x{j}")
        return pa.record_batch(columns)

    def _begin(self, batch: pa.RecordBatch) -> None:
        schema, index = batch.schema, arrow.pandas_index(batch.schema)
        kind = {
            field.name: arrow.kind_of(field.type) for field in schema if field.name not in index
        }
        self.ranks_: dict[str, list[str]] = {
            name: arrow.column(batch, name).dictionary.cast(arrow.TEXT).to_pylist()
            for name in kind
            if arrow.is_ordered(schema.field(name).type)
            and name not in (*self.numbers, *self.words)
        }
        kind.update(dict.fromkeys([*self.ranks_, *self.numbers], "number"))
        kind.update(dict.fromkeys(self.words, "text"))
        for name in kind:
            if kind[name] not in ("number", "text"):
                raise InputTypeError(f"column {name!r} cannot be a feature: it holds {kind[name]}")
        self.numbers_ = [name for name in kind if kind[name] == "number"]
        self.words_: dict[str, list[str]] = {name: [] for name in kind if kind[name] == "text"}
        self.counts_: dict[str, list[int]] = {name: [] for name in self.words_}
        self.left_out_: list[str] = []
        self.moments_ = no_moments(len(self.numbers_))

    # --- Copies and files ---

    def __getstate__(self) -> dict[str, Any]:
        """Return plain data: dicts in place of moments."""
        state = dict(super().__getstate__())
        if "moments_" in state:
            state["moments_"] = self.moments_._asdict()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        state = dict(state)
        if "moments_" in state:
            state["moments_"] = ColumnMoments(**state["moments_"])
        super().__setstate__(state)

    # --- Transforming ---

    @property
    def feature_names_in_(self) -> Array:
        """The columns used."""
        check_is_fitted(self, "numbers_")
        return np.array([*self.numbers_, *self.words_], dtype=object)

    @property
    def n_features_in_(self) -> int:
        """Number of columns used."""
        return len(self.feature_names_in_)

    def get_feature_names_out(self, input_features: object = None) -> Array:
        """Return the names of the features.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : ndarray of str
            The column of a number or of codes; column=word for an indicator.
        """
        check_is_fitted(self, "numbers_")
        indicators = [f"{name}={word}" for name in self.words_ for word in self.words_[name]]
        indicators = list(self.words_) if self.codes else indicators
        return np.array([*self.numbers_, *indicators], dtype=object)

    @property
    def reference_words(self) -> dict[str, str]:
        """The most frequent word of each column, the first of several."""
        check_is_fitted(self, "numbers_")
        places = {name: np.argmax(counts) for name, counts in self.counts_.items() if counts}
        return {name: self.words_[name][at] for name, at in places.items()}

    def centre_words(
        self, weights: Array, *, at: Literal["mean", "reference"] = "mean"
    ) -> tuple[Array, Array]:
        """Return weights of the features with those of a column's words relative to their mean.

        All words of a column may share an amount, which the thresholds share too: only differences
        between words have a meaning.

        Parameters
        ----------
        weights : ndarray of shape (..., n_features)
            Weights of a linear model. Features after those of the encoder are left as they are.
        at : {"mean", "reference"}, default="mean"
            What they are relative to: the mean of their column over the rows learned from, or its
            word in `reference_words`.

        Returns
        -------
        centred : ndarray of shape (..., n_features)
            The weights, those of words less this mean or word of their column.
        shared : ndarray of shape (...)
            The sum of what was taken away.
        """
        check_is_fitted(self, "numbers_")
        centred, shared, first = weights.copy(), np.zeros(weights.shape[:-1]), len(self.numbers_)
        for counts in [] if self.codes else filter(None, self.counts_.values()):
            of_column = slice(first, first := first + len(counts))
            share = np.array(counts) / max(sum(counts), 1)
            if at == "reference":
                share = np.eye(len(counts))[np.argmax(counts)]
            mean = weights[..., of_column] @ share
            centred[..., of_column] -= mean[..., np.newaxis]
            shared += mean
        return centred, shared

    def transform(self, X: Any) -> Any:
        """Return the features of a table's rows.

        Parameters
        ----------
        X : table
            A table with the Arrow interface, with the columns seen in training; others are ignored.

        Returns
        -------
        features : ndarray or sparse array of shape (n_samples, n_features)
            Sparse where most cells are zero.
        """
        check_is_fitted(self, "numbers_")
        batch = self._read(X)
        words = self.words_.items()
        codes = [_codes_of(batch, *column).fill_null(-1).to_numpy() for column in words]
        return to_features(self, _numbers_of(self, batch).T, codes, scales_of(self))

    def units(self) -> Array:
        """Return how many units of its column one unit of each feature is.

        Returns
        -------
        units : ndarray of shape (n_features_out,)
            The scales of numbers; 1 for indicators, codes, and where nothing is scaled.
        """
        check_is_fitted(self, "numbers_")
        units = np.ones(n_features_of(self))
        if self.scale and not self.codes:
            units[: len(self.numbers_)] = scales_of(self)
        return units

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.impute)
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags


def _numbers_of(encoder: ColumnEncoder, batch: pa.RecordBatch) -> Array:
    """Return the columns of numbers as the rows of a matrix."""
    numbers = np.empty((len(encoder.numbers_), batch.num_rows))
    for j, name in enumerate(encoder.numbers_):
        ranks = encoder.ranks_.get(name)
        cells = arrow.column(batch, name) if ranks is None else _codes_of(batch, name, ranks)
        numbers[j] = arrow.read_numbers(cells, name)
    return numbers


def _codes_of(batch: pa.RecordBatch, name: str, words: list[str]) -> pa.Array:
    """Return the position of each word of a column among these; null if it is none of them."""
    cells = arrow.read_words(arrow.column(batch, name), name)
    return pc.index_in(cells, pa.array(words, arrow.TEXT))


def count_words(cells: pa.Array) -> dict[str, int]:
    """Return how often each word occurs; missing ones are not counted."""
    words, counts = pc.value_counts(cells.drop_null()).flatten()
    return dict(zip(words.to_pylist(), counts.to_pylist(), strict=True))


def no_moments(n: int) -> ColumnMoments:
    """Return the moments of columns without a number."""
    none = np.zeros(n)
    return ColumnMoments(none, none, none, none + np.inf, none - np.inf)


# --- What tables, streams and files do with an encoder -------------------------------------------


def learn_rows(encoder: ColumnEncoder, batch: pa.RecordBatch, chosen: Array) -> None:
    """Learn from the rows that a mask chooses; refuse any row that cannot be used."""
    numbers = _numbers_of(encoder, batch)
    have_gaps(encoder, numbers)
    words = {name: arrow.read_words(arrow.column(batch, name), name) for name in encoder.words_}
    if not chosen.any():
        return
    if not chosen.all():
        numbers = np.compress(chosen, numbers, axis=1)
        words = {name: cells.filter(pa.array(chosen)) for name, cells in words.items()}
    learn_cells(encoder, numbers, words)


def learn_cells(encoder: ColumnEncoder, numbers: Array, words: dict[str, pa.Array]) -> None:
    """Learn from columns of numbers, the rows of a matrix, and from those of words, by name."""
    encoder.moments_ = encoder.moments_.joined(ColumnMoments.of(numbers))
    for name, cells in words.items():
        add_words(encoder, name, count_words(cells))


def add_words(encoder: ColumnEncoder, name: str, more: dict[str, int]) -> None:
    """Add words of a column, with how often they occur, or leave it out if it has too many."""
    counts = dict(zip(encoder.words_[name], encoder.counts_[name], strict=True))
    for word, count in more.items():
        counts[word] = counts.get(word, 0) + count
    if len(counts) > encoder.most_words and name not in encoder.words:
        _leave_out(encoder, name)
    else:
        encoder.words_[name] = sorted(counts)
        encoder.counts_[name] = [counts[word] for word in encoder.words_[name]]


def _leave_out(encoder: ColumnEncoder, name: str) -> None:
    del encoder.words_[name], encoder.counts_[name]
    encoder.left_out_.append(name)


def have_gaps(encoder: ColumnEncoder, numbers: Array) -> bool:
    """Refuse numbers that cannot be used; tell whether some are missing.

    The columns are the rows of the matrix.
    """
    if np.abs(numbers).max(initial=0.0) < arrow.LARGEST:
        return False
    largest = np.abs(numbers).max(axis=1, initial=0.0)
    for j in np.flatnonzero(~(largest < arrow.LARGEST)):  # too large, infinite or NaN
        cells = numbers[j]
        for bad, reason in (
            (np.isinf(cells), "which is not finite"),
            (np.abs(cells) >= arrow.LARGEST, f"too large: the limit is {arrow.LARGEST:.0e}"),
            (np.isnan(cells) & (not encoder.impute), "a missing value"),
        ):
            if bad.any():
                row = int(np.argmax(bad))
                reason = f"column {encoder.numbers_[j]!r} is {cells[row]}, {reason}"
                raise RowError("X", row, reason)
    return bool(np.isnan(largest).any())


def scales_of(encoder: ColumnEncoder) -> Array:
    """Return what each column of numbers is divided by."""
    return encoder.moments_.scales(bounded=encoder.bounded)


def to_features(encoder: ColumnEncoder, numbers: Array, codes: list[Array], scales: Array) -> Any:
    """Return the features of rows, as `transform` does.

    `numbers` has the columns of numbers, NaN for what is missing; `codes`, for each column of
    words, their positions among all, -1 for none of them; `scales` is what `scales_of` returns.
    """
    mean, (rows, n) = encoder.moments_.mean, numbers.shape
    has_gaps = have_gaps(encoder, numbers.T)
    if encoder.codes:
        places = [np.where(code >= 0, code, np.nan)[:, np.newaxis] for code in codes]
        return np.hstack([numbers, *places])
    if has_gaps:
        numbers = np.where(np.isnan(numbers), mean, numbers)
    if encoder.scale:
        numbers = np.divide(numbers - mean, scales, order="C")
    if not is_dense(encoder):
        indicators = [sparse.csr_array(numbers)]
        for code, words in zip(codes, encoder.words_.values(), strict=True):
            has_word = code >= 0
            start = np.concatenate([[0], np.cumsum(has_word)])
            cells = (np.ones(start[-1]), code[has_word], start)
            indicators.append(sparse.csr_array(cells, shape=(rows, len(words))))
        return sparse.hstack(indicators, format="csr")
    if not codes:
        return np.ascontiguousarray(numbers)
    features = np.zeros((rows, n_features_of(encoder)))
    features[:, :n] = numbers
    for code, words in zip(codes, encoder.words_.values(), strict=True):
        rows_with_word = np.flatnonzero(code >= 0)
        features[rows_with_word, n + code[rows_with_word]] = 1.0
        n += len(words)
    return features


def n_features_of(encoder: ColumnEncoder) -> int:
    """Return the number of features that an encoder makes."""
    words = encoder.words_
    return len(encoder.numbers_) + (len(words) if encoder.codes else sum(map(len, words.values())))


def is_dense(encoder: ColumnEncoder) -> bool:
    """Tell whether the features are a dense matrix."""
    n_used = len(encoder.numbers_) + len(encoder.words_)
    return n_used >= DENSE_FROM * n_features_of(encoder)


# --- Rows, without the cost of a table -----------------------------------------------------------


class RowEncoder:
    """How a row, or the cells of a few rows, become the features of a pipeline's learner.

    It goes around `ColumnEncoder.transform`, which takes long for a single row.
    """

    def __init__(self, model: Any, strict: bool = False) -> None:
        self._model = model
        self.strict = strict  # whether a row must have all columns, and no other
        self._begin()

    def _begin(self) -> None:
        """Work with the steps as they are now."""
        steps = Parts.of(self._model).steps
        first = steps[0][1] if steps else None
        self._encoder = first if isinstance(first, ColumnEncoder) else None
        if self._encoder is not None:
            steps, encoder = steps[1:], self._encoder
            self._moments, self._scales = encoder.moments_, scales_of(encoder)
            self._numbers = encoder.numbers_
            self._ranks, self._words = _places(encoder.ranks_), _places(encoder.words_)
            self._columns = [*self._numbers, *self._words]
        self._further = Pipeline(steps) if steps else None
        self._names = getattr(self._model, "feature_names_in_", None)

    def __call__(self, x: Any) -> Any:
        """Return a row as the learner takes it."""
        if self._encoder is None and self._further is None:
            return x
        table = self._as_table(x) if self._encoder is None else self._encoded_row(x)
        features = self._further_features(table)
        dense = features.toarray() if hasattr(features, "toarray") else features
        return np.asarray(dense, dtype=np.float64)[0]

    def _encoded_row(self, x: Any) -> Any:
        """Return what the ColumnEncoder makes of a dict."""
        self._follow()
        self._check_columns(x, self._columns)
        try:
            return self._encoded([tuple(map(x.get, self._columns))])
        except RowError as error:
            raise InputError(f"x: {error.reason}") from None

    def _as_table(self, x: Any) -> Any:
        """Return a table of one row, for steps of other libraries."""
        if self._names is None:
            if isinstance(x, Mapping):
                raise InputError("x is a dict, but the model learned from columns without names")
            return np.asarray(x)[np.newaxis]
        import pandas as pd

        self._check_columns(x, self._names)
        return pd.DataFrame([x], columns=self._names)

    def _check_columns(self, x: Any, columns: Collection[str]) -> None:
        """Refuse what is not a dict, and a row that is not whole, if rows must be."""
        if not isinstance(x, Mapping):
            raise InputTypeError(f"x must be a dict of columns, got {shown(x)}")
        if not self.strict or x.keys() == {*columns}:
            return
        for name in columns:
            if name not in x:
                raise InputError(f"x lacks the column {shown(name)}, which strict=True refuses")
        other = next(name for name in x if name not in {*columns})
        raise InputError(f"x has a column {shown(other)} that the model does not know")

    def features(self, cells: Cells) -> Any:
        """Return the features of rows, by a ColumnEncoder and the steps after it."""
        self._follow()
        return self._further_features(self._encoded(cells))

    def _follow(self) -> None:
        """Start over if the encoder has learned more."""
        if self._encoder is None or self._encoder.moments_ is not self._moments:
            self._begin()

    def _encoded(self, cells: Cells) -> Any:
        encoder: Any = self._encoder
        n = len(self._numbers)
        rows = [row[:n] for row in cells]
        for name, places in self._ranks.items():
            j = self._numbers.index(name)
            for t, row in enumerate(rows):
                rows[t] = (*row[:j], places.get(to_text(row[j], name, t)), *row[j + 1 :])
        codes = [
            np.array([places.get(to_text(row[j], name, t), -1) for t, row in enumerate(cells)])
            for j, (name, places) in enumerate(self._words.items(), n)
        ]
        return to_features(encoder, to_matrix(rows, self._numbers), codes, self._scales)

    def _further_features(self, features: Any) -> Any:
        if self._further is None:
            return features
        with refusing():
            return self._further.transform(features)


def _places(words: dict[str, list[str]]) -> dict[str, dict[str | None, int]]:
    return {name: {word: k for k, word in enumerate(choices)} for name, choices in words.items()}
