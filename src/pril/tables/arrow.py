"""Cells of Arrow columns as numbers and words. Needs pyarrow."""

from __future__ import annotations

import difflib
import json
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np

from pril.core.arrays import Array
from pril.errors import InputError, InputTypeError, MissingExtraError, RowError, shown
from pril.labels import range_texts
from pril.labels.brackets import GROUPS

try:
    import pyarrow as pa
    import pyarrow.compute as pc
except ImportError as error:  # pragma: no cover - the extra is missing
    raise MissingExtraError("tables need pyarrow", "cli,io") from error

# Text that means a missing value, as in pyarrow and pandas.
MISSING = pa.array(["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "-nan", "null", "NULL"])
NUMBER, TEXT = pa.float64(), pa.string()
BRACKET = pa.large_string()  # text as well, but a number in it is written as `spelled` writes it
TYPES = {type(None): pa.null(), bool: pa.bool_(), int: pa.int64(), float: NUMBER, str: TEXT}
INNER: dict[type, pa.DataType] = {list: pa.list_(pa.null()), dict: pa.struct([])}
DATE = pa.date32()  # stands for all dates and times that are written as text
WRITTEN_DATE = re.compile(
    r"\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:?\d{2})?)?"
)
POINT_NUMBER = f"^{range_texts.NUMBER}$"
# A number but for marks that only a reader who knows them can tell: 3,14 or 1.234,5 or 12 %.
CURRENCIES = "$\u20ac\u00a3\u00a5"
_SIGN, _UNIT = "[+\u2212-]?", f"[{CURRENCIES}]"
FIRST_GROUP, GROUP = "[1-9][0-9]{0,2}", "[0-9]{3}"  # of the digits of a number
_WHOLE = f"({FIRST_GROUP}([.,'\u2019 \u00a0\u202f_]{GROUP})+|[0-9]+)"
MARKED_NUMBER = (
    f"^{_SIGN}({_UNIT}[ \u00a0]?)?{_SIGN}({_WHOLE}([.,][0-9]*)?|[.,][0-9]+)"
    f"([eE][+-]?[0-9]+)?([ \u00a0]?({_UNIT}|%))?$"
)
MOST_LISTED, MOST_NAMED = 12, 5  # columns in a message: all of a few, or the nearest of many
NEARLY_ALL = 0.9  # share of the cells that makes a column of words one of numbers
LARGEST = 1e146  # of a number: the squares of 10^15 of them have a finite sum


def kind_of(column: pa.DataType) -> str:
    """Return the kind of a column: number, text, empty, or the name of another type."""
    types = pa.types
    if types.is_dictionary(column):
        column = column.value_type
    numbers = (types.is_integer, types.is_floating, types.is_decimal, types.is_boolean)
    if any(is_number(column) for is_number in numbers):
        return "number"
    if types.is_string(column) or types.is_large_string(column) or types.is_string_view(column):
        return "text"
    if types.is_temporal(column):
        return "dates"
    return "empty" if types.is_null(column) else str(column)


def is_ordered(column: pa.DataType) -> bool:
    """Tell whether a column holds ordered categories, as an ordered Categorical does."""
    return (
        pa.types.is_dictionary(column) and column.ordered and kind_of(column) in ("number", "text")
    )


# --- Reading cells -------------------------------------------------------------------------------


def to_batch(X: Any) -> pa.RecordBatch:
    """Return a table of any library with the Arrow interface as one batch."""
    if isinstance(X, pa.RecordBatch):
        return without_views(X)
    if not (isinstance(X, pa.Table) or hasattr(X, "__arrow_c_stream__")):
        raise InputTypeError(
            f"X must be a table with named columns, such as a DataFrame, got {type(X).__name__}"
        )
    pandas = sys.modules.get("pandas")
    if pandas and isinstance(X, pandas.DataFrame):  # its Arrow interface adds the index as a column
        X = _without_index(X)
    return without_views(one_batch(pa.table(X)))


def _without_index(frame: Any) -> pa.Table:
    """Return the columns of a pandas DataFrame; refuse one that is not of one kind."""
    try:
        return pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:
        for name, cells in frame.items():
            to_array(cells, name)
        raise


def to_array(cells: Any, name: Any) -> pa.Array:
    """Return a column of NumPy or pandas; name the first cell that does not fit those before."""
    try:
        return pa.array(cells, from_pandas=True)
    except pa.ArrowException as error:
        reason = str(error)
    first = None
    for row, value in enumerate(cells):
        try:
            pair = pa.array(np.array([first, value], dtype=object), from_pandas=True)
        except pa.ArrowException as error:
            if first is not None and isinstance(value, str | int | float):
                before = f"{shown(value)}, but {shown(first)} in a row before"
                reason = f"column {name!r} is {before}: a column holds numbers or words, not both"
                raise RowError("X", row, reason) from None
            reason = f"X, row {row}, column {name!r}: every argument must be a string or a number"
            raise InputTypeError(f"{reason}, got {shown(value)}: {error}") from None
        first = value if first is None and pair.null_count < 2 else first
    raise InputTypeError(f"X: column {name!r} cannot be a feature: {reason}")


def pandas_index(schema: pa.Schema) -> set[str]:
    """Return the columns in which pandas keeps the index of a DataFrame."""
    kept = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return {name for name in kept.get("index_columns", []) if isinstance(name, str)}


def without_views(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch whose text is not of the type string_view, which few functions can read."""
    schema = schema_without_views(batch.schema)
    return batch if schema == batch.schema else batch.cast(schema)


def schema_without_views(schema: pa.Schema) -> pa.Schema:
    """Return the columns that `without_views` makes of these."""
    fields = []
    for field in schema:
        kind = field.type
        if pa.types.is_dictionary(kind) and pa.types.is_string_view(kind.value_type):
            kind = pa.dictionary(kind.index_type, TEXT, ordered=kind.ordered)
        fields.append(field.with_type(TEXT if pa.types.is_string_view(kind) else kind))
    return pa.schema(fields, schema.metadata)


def one_batch(table: pa.Table) -> pa.RecordBatch:
    """Return all rows of a table as one batch."""
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], schema=table.schema)


def column(batch: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column by its name."""
    try:
        return batch.column(name)
    except KeyError:
        raise InputError(no_column(name, batch.schema.names)) from None


def no_column(name: str, columns: list[str]) -> str:
    """Return a message about a column that does not exist, with the names most like it."""
    if len(columns) <= MOST_LISTED:
        return f"there is no column {name!r}; the columns are {', '.join(map(repr, columns))}"
    lower = {column.lower(): column for column in columns}
    near = difflib.get_close_matches(name.lower(), lower, MOST_NAMED, cutoff=0.0)
    nearest = ", ".join(repr(lower[column]) for column in near)
    return f"there is no column {name!r}; the nearest of {len(columns)} columns are {nearest}"


def read_numbers(cells: pa.Array, name: str) -> Array:
    """Return a column as floats, NaN for what is missing; text is read as numbers."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    kind = kind_of(cells.type)
    if kind == "text":
        cells = _parsed(cells, name)
    elif kind not in ("number", "empty"):
        raise InputTypeError(f"column {name!r} holds {cells.type}, which is not a number")
    elif pa.types.is_decimal(cells.type):  # pyarrow's own cast to floats is not exact
        cells = pc.cast(pc.cast(cells, TEXT), NUMBER)
    elif cells.type != pa.float64():
        cells = pc.cast(cells, pa.float64(), safe=False)  # a large integer is rounded
    return cells.to_numpy(zero_copy_only=False)


def with_numbers(batch: pa.RecordBatch, names: list[str]) -> pa.RecordBatch:
    """Return a batch whose columns of these names are floats, NaN for what is missing."""
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    for name in names:
        if columns[name].type != NUMBER:
            columns[name] = pa.array(read_numbers(columns[name], name))
    fields = [field.with_type(columns[field.name].type) for field in batch.schema]
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=pa.schema(fields))


def _parsed(cells: pa.Array, name: str) -> pa.Array:
    """Return text as floats. Missing values are searched for only if the plain way fails.

    A number is one of `range_texts.NUMBER`, or infinite: inf or infinity, in any spelling.
    """
    with suppress(pa.ArrowInvalid):
        return _cast(cells)
    cells = pc.ascii_trim_whitespace(cells)  # many people write "1, 2"
    cells = with_nulls(cells, pc.is_in(cells, MISSING))
    cells = _truth_as_numbers(cells)
    try:
        return _cast(cells)
    except pa.ArrowInvalid:
        row = _first_bad(cells, _cast)
        value = cells[row].cast(pa.binary()).as_py()
        try:
            word = value.decode()
        except UnicodeDecodeError:
            word = value
        reason = f"column {name!r} is {shown(word)}, not a number"
        is_marked = isinstance(word, str) and re.match(MARKED_NUMBER, word)
        raise RowError(
            "X", row, reason, hint=hint_of_marks(cells) if is_marked else "text"
        ) from None


def _cast(cells: pa.Array) -> pa.Array:
    """Return text as floats; text such as nan(1), which pyarrow reads as NaN, is not a number."""
    numbers = pc.cast(cells, NUMBER)
    if pc.any(pc.is_nan(numbers)).as_py():
        raise pa.ArrowInvalid("NaN")
    return numbers


def _truth_as_numbers(cells: pa.Array) -> pa.Array:
    """Return text with 1 for true and 0 for false, in any spelling."""
    lower = pc.ascii_lower(cells)
    for word, number in (("true", "1"), ("false", "0")):
        cells = pc.replace_with_mask(cells, pc.equal(lower, word), pa.scalar(number, cells.type))
    return cells


def _first_bad(cells: pa.Array, read: Callable[[pa.Array], pa.Array]) -> int:
    """Return the row of the first cell that cannot be read, -1 if there is none."""
    for row in range(len(cells)):
        try:
            read(cells[row : row + 1])
        except pa.ArrowInvalid:
            return row
    return -1


def read_words(cells: pa.Array, name: str) -> pa.Array:
    """Return a column as strings, null for what is missing."""
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if kind_of(cells.type) not in ("text", "number", "empty", "dates"):
        raise InputTypeError(f"column {name!r} holds {cells.type}, which is not text")
    if cells.type != pa.string():
        cells = pc.cast(cells, pa.string())
    try:
        cells.validate(full=True)
    except pa.ArrowInvalid:
        raw = cells.cast(pa.binary())
        row = _first_bad(raw, lambda cell: pc.cast(cell, TEXT))
        reason = f"column {name!r} is {shown(raw[row].as_py())}, which is not UTF-8"
        raise RowError("X", row, reason, hint="encoding") from None
    return with_nulls(cells, pc.is_in(cells, MISSING))


# --- Types of columns ----------------------------------------------------------------------------


def first_type(value: object) -> pa.DataType:
    """Return the type of a column by its first value, to learn from: any number is a float."""
    if isinstance(value, str):
        return DATE if WRITTEN_DATE.fullmatch(value) else TEXT
    return NUMBER if isinstance(value, int | float) else INNER.get(type(value), pa.null())


def written_type(
    cells: pa.Array, name: str, read: Callable[[pa.Array, str], Array] = read_numbers
) -> pa.DataType:
    """Return the same for cells of text, in which `read` reads numbers."""
    first = read_words(pc.ascii_trim_whitespace(cells), name).drop_null()[:1]
    kind = first_type(first[0].as_py() if len(first) else None)
    if kind == TEXT:
        with suppress(RowError):
            read(first, name)
            return NUMBER
    return kind


def whole_type(value: object) -> pa.DataType:
    """Return the type of a value, to copy it; inner objects and long integers are text."""
    is_long = isinstance(value, int) and not -(2**63) <= value < 2**63
    return TEXT if is_long else TYPES.get(type(value), TEXT)


def narrowest_type(words: pa.Array) -> pa.DataType:
    """Return the same for words that may be numbers: integers, other numbers, or text.

    Codes such as 007, and numbers too long or too large for a float, are text.
    """
    if words.null_count == len(words):
        return pa.null()
    is_number = pc.match_substring_regex(words, POINT_NUMBER)
    is_code = pc.match_substring_regex(words, r"^[+-]?0[0-9]")
    if not pc.all(pc.and_not(is_number, is_code)).as_py():
        return TEXT
    with suppress(pa.ArrowInvalid):
        return pc.cast(words, pa.int64()).type
    is_long = pc.match_substring_regex(words, r"^[+-]?[0-9]{17,}$")
    is_exact = pc.and_not(pc.is_finite(pc.cast(words, NUMBER)), is_long)
    return NUMBER if pc.all(is_exact).as_py() else TEXT


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """Return the type of a column that holds values of two types."""
    if one == other or other == pa.null():
        return one
    if one == pa.null():
        return other
    return NUMBER if {one, other} == {pa.int64(), NUMBER} else TEXT


def misread_number(cells: pa.Array, *, typed: bool) -> int:
    """Return the row of text that is no number where nearly all of a column look like numbers.

    It is -1 if there is none. In a `typed` table, words made of digits alone are words.
    """
    n = len(cells) - cells.null_count
    trimmed = pc.ascii_trim_whitespace(cells)
    plain = pc.fill_null(pc.match_substring_regex(trimmed, POINT_NUMBER), True)
    like = pc.or_(pc.fill_null(pc.match_substring_regex(trimmed, MARKED_NUMBER), False), plain)
    if n == 0 or pc.sum(like).as_py() - cells.null_count < NEARLY_ALL * n:
        return -1
    candidates = [pc.and_not(like, plain)]  # rather a number with marks than any other word
    if not typed:
        candidates += [pc.invert(plain), pc.is_valid(cells)]
    rows = (pc.index(mask, True).as_py() for mask in candidates)
    return next((row for row in rows if row >= 0), -1)


@cache
def number_patterns(decimal: str, thousands: str) -> tuple[str, str]:
    """Return patterns of what separates groups, if anything does, and of a number.

    A number with groups has no exponent.
    """
    mark = f"[{decimal}]"
    number = f"([0-9]+({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?"
    groups = f"[{GROUPS[thousands]}]" if thousands else ""
    if groups:
        number += f"|{FIRST_GROUP}({groups}{GROUP})+({mark}[0-9]*)?"
    return groups, f"^[+-]?({number})$"


def hint_of_marks(cells: pa.Array) -> str:
    """Return a hint that has each pair of marks with which all cells like numbers are numbers.

    If several pairs read the first such cell alike, it has the first of them. It may have none.
    """
    trimmed = pc.ascii_trim_whitespace(cells.drop_null())
    like = trimmed.filter(pc.match_substring_regex(trimmed, MARKED_NUMBER))
    pairs: dict[str, str] = {}
    for decimal, thousands in ((d, t) for d in ".," for t in GROUPS if t != d):
        groups, number = number_patterns(decimal, thousands)
        if len(like) and pc.all(pc.match_substring_regex(like, number)).as_py():
            digits = re.sub(groups, "", like[0].as_py()) if groups else like[0].as_py()
            pairs.setdefault(digits.replace(decimal, "."), f"{decimal}{thousands}")
    return "|".join(["decimal", *pairs.values()])


def with_nulls(cells: pa.Array, mask: pa.Array) -> pa.Array:
    """Return cells with nulls where a mask is true.

    This does not use `if_else`, which corrupts sliced string arrays (pyarrow <= 23).
    """
    return pc.replace_with_mask(cells, mask, pa.scalar(None, cells.type))
