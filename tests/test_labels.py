"""Every spelling of a label, accepted and refused."""

import re
import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.exceptions import DataConversionWarning

import pril
import reference
from pril import PRIL
from pril.errors import RowError
from pril.labels import (
    ClassOrderWarning,
    from_bounds,
    from_brackets,
    from_strings,
    from_votes,
    krippendorff_alpha,
    krippendorff_interval,
    make_intervals,
    ranking,
    to_ranks,
)
from pril.metrics import interval_absolute_error, interval_accuracy

NAN, NONE = np.nan, None
NO_LABEL = list(ranking.NO_LABEL)


def encoded(y, classes=None):
    found, ranks = ranking.encode(ranking.read(y), classes)
    return found.tolist(), ranks.tolist()


def ordered(values, categories):
    return pd.Categorical(values, categories=categories, ordered=True)


SIZES = ["S", "M", "L"]
GRADES = ["poor", "fair", "good", "great"]
SIZE = pl.Enum(SIZES)
AGES = pd.arrays.IntervalArray.from_breaks([0, 18, 65])
CODED = pa.DictionaryArray.from_arrays([2, None, 0], SIZES, ordered=True)
CUT = pd.cut([70, 10, 30, np.nan], [0, 18, 65, 99])
PAIR = np.dtype([("low", "U1"), ("high", "U1")])
ACCEPTED = {
    "integers": ([1, 2, 3], None, [1, 2, 3], [[0, 0], [1, 1], [2, 2]]),
    "any coding": ([7, 3, 5], None, [3, 5, 7], [[2, 2], [0, 0], [1, 1]]),
    "minus one and one": ([-1, 1], None, [-1, 1], [[0, 0], [1, 1]]),
    "small unsigned": (np.array([2, 0], dtype=np.uint8), None, [0, 2], [[1, 1], [0, 0]]),
    "booleans": ([True, False], None, [False, True], [[1, 1], [0, 0]]),
    "whole floats": ([1.0, 3.0, 2.0], None, [1, 2, 3], [[0, 0], [2, 2], [1, 1]]),
    "fractions, named": ([0.5, 1.5], [0.5, 1.0, 1.5], [0.5, 1.0, 1.5], [[0, 0], [2, 2]]),
    "reversed classes": ([1, 2], [2, 1], [2, 1], [[1, 1], [0, 0]]),
    "classes from a range": ([1], range(4), [0, 1, 2, 3], [[1, 1]]),
    "two strings": (["yes", "no"], None, ["no", "yes"], [[1, 1], [0, 0]]),
    "strings, named": (["M", "L"], SIZES, SIZES, [[1, 1], [2, 2]]),
    "object strings": (np.array(["M", "S"], dtype=object), SIZES, SIZES, [[1, 1], [0, 0]]),
    "categorical": (ordered(["M", "S"], SIZES), None, SIZES, [[1, 1], [0, 0]]),
    "categorical series": (pd.Series(ordered(["L"], SIZES)), None, SIZES, [[2, 2]]),
    "categorical numbers": (ordered([30, 10], [10, 20, 30]), None, [10, 20, 30], [[2, 2], [0, 0]]),
    "unordered, named": (pd.Categorical(["M", "L", "S"]), SIZES, SIZES, [[1, 1], [2, 2], [0, 0]]),
    "unordered, two levels": (pd.Categorical(["b", "a"]), None, ["a", "b"], [[1, 1], [0, 0]]),
    "nullable integers": (pd.Series([2, None, 1], dtype="Int64"), None, [1, 2], [[1, 1], NO_LABEL, [0, 0]]),
    "pandas strings": (pd.Series(["M", None], dtype="string"), SIZES, SIZES, [[1, 1], NO_LABEL]),
    "missing number": ([1.0, NAN, 3.0], None, [1, 3], [[0, 0], NO_LABEL, [1, 1]]),
    "missing integer": ([1, NONE, 3], None, [1, 3], [[0, 0], NO_LABEL, [1, 1]]),
    "missing string": (["S", NONE, NAN, pd.NA, pd.NaT], SIZES, SIZES, [[0, 0]] + [NO_LABEL] * 4),
    "missing category": (ordered(["S", NONE], SIZES), None, SIZES, [[0, 0], NO_LABEL]),
    "all missing, named": ([NAN, NAN], [1, 2], [1, 2], [NO_LABEL, NO_LABEL]),
    "pairs": ([(1, 2), (3, 3)], None, [1, 2, 3], [[0, 1], [2, 2]]),
    "array of pairs": (np.array([[1, 2], [3, 3]]), None, [1, 2, 3], [[0, 1], [2, 2]]),
    "open ends": ([(NONE, 2), (2, NONE), (NONE, NONE)], [1, 2, 3], [1, 2, 3], [[0, 1], [1, 2], NO_LABEL]),
    "missing pair": ([(1, 2), NONE, NAN, (3, 3)], None, [1, 2, 3], [[0, 1], NO_LABEL, NO_LABEL, [2, 2]]),
    "infinite ends": ([(-np.inf, 2), (2, np.inf)], [1, 2, 3], [1, 2, 3], [[0, 1], [1, 2]]),
    "NaN ends": (np.array([[NAN, 2], [2, NAN]]), [1, 2, 3], [1, 2, 3], [[0, 1], [1, 2]]),
    "string pairs": ([("S", "M"), (NONE, "M"), ("M", NONE)], SIZES, SIZES, [[0, 1], [0, 1], [1, 2]]),
    "string array of pairs": (np.array([["S", "M"]]), SIZES, SIZES, [[0, 1]]),
    "frame": (pd.DataFrame({"lo": [1, 2], "hi": [2, 3]}), None, [1, 2, 3], [[0, 1], [1, 2]]),
    "frame with gaps": (pd.DataFrame({"lo": [1, 2], "hi": [2.0, NAN]}), [1, 2, 3], [1, 2, 3], [[0, 1], [1, 2]]),
    "frame of strings": (pd.DataFrame({"lo": ["S", NONE], "hi": ["M", "M"]}), SIZES, SIZES, [[0, 1], [0, 1]]),
    "frame, one side open": (pd.DataFrame({"lo": ["S", "M"], "hi": [NAN, NAN]}), SIZES, SIZES, [[0, 2], [1, 2]]),
    "frame, lower side open": (pd.DataFrame({"lo": [NONE, NONE], "hi": ["S", "M"]}), SIZES, SIZES, [[0, 0], [0, 1]]),
    "frame, strings beside categories": (
        pd.DataFrame({"lo": ["S", "M"], "hi": ordered(["L", "M"], SIZES)}), None, SIZES, [[0, 2], [1, 1]],
    ),
    "frame, nothing beside categories": (
        pd.DataFrame({"lo": [NAN, NAN], "hi": ordered(["L", "M"], SIZES)}), None, SIZES, [[0, 2], [0, 1]],
    ),
    "series of pairs": (pd.Series([(1, 1), (1, 2)]), None, [1, 2], [[0, 0], [0, 1]]),
    "NumPy booleans among objects": (np.array([np.True_, np.False_], dtype=object), None, [0, 1], [[1, 1], [0, 0]]),
    "huge codes": (np.array([-6 * 10**18, 6 * 10**18]), None, [-6 * 10**18, 6 * 10**18], [[0, 0], [1, 1]]),
    "categories that are fractions": (pd.Categorical([0.5, 1.5]), None, [0.5, 1.5], [[0, 0], [1, 1]]),
    "frame of categories": (
        pd.DataFrame({"lo": ordered(["S", NONE], SIZES), "hi": ordered(["M", "M"], SIZES)}),
        None, SIZES, [[0, 1], [0, 1]],
    ),
    "what pandas.cut returns": (CUT, None, list(CUT.categories), [[2, 2], [0, 0], [1, 1], NO_LABEL]),
    "intervals": (AGES.take([1, 0]), None, list(AGES), [[1, 1], [0, 0]]),
    "interval index": (pd.IntervalIndex(AGES).take([1, 0]), None, list(AGES), [[1, 1], [0, 0]]),
    "interval series": (pd.Series(AGES.take([1, -1, 0], allow_fill=True)), None, list(AGES), [[1, 1], NO_LABEL, [0, 0]]),
    "list of intervals": ([AGES[1], None, AGES[0]], None, list(AGES), [[1, 1], NO_LABEL, [0, 0]]),
    "pairs of intervals, named": ([(AGES[0], AGES[1]), (AGES[1], None)], AGES, list(AGES), [[0, 1], [1, 1]]),
    "interval classes in another order": (AGES, AGES.take([1, 0]), list(AGES)[::-1], [[1, 1], [0, 0]]),
    "polars enum": (pl.Series(["L", None, "S"], dtype=SIZE), None, SIZES, [[2, 2], NO_LABEL, [0, 0]]),
    "polars strings": (pl.Series(["L", None, "S"]), SIZES, SIZES, [[2, 2], NO_LABEL, [0, 0]]),
    "polars integers": (pl.Series([1, None, 2]), None, [1, 2], [[0, 0], NO_LABEL, [1, 1]]),
    "polars frame of strings": (pl.DataFrame({"lo": ["S", None], "hi": ["M", "L"]}), SIZES, SIZES, [[0, 1], [0, 2]]),
    "polars frame of enums": (
        pl.DataFrame({"lo": ["S", None], "hi": ["M", "L"]}, schema={"lo": SIZE, "hi": SIZE}), None, SIZES, [[0, 1], [0, 2]],
    ),
    "polars frame of integers": (pl.DataFrame({"lo": [1, 2], "hi": [2, None]}), [1, 2, 3], [1, 2, 3], [[0, 1], [1, 2]]),
    "two polars columns": (np.column_stack([pl.Series(["S", None]), pl.Series(["M", "L"])]), SIZES, SIZES, [[0, 1], [0, 2]]),
    "pyarrow strings": (pa.array(["L", None, "S"]), SIZES, SIZES, [[2, 2], NO_LABEL, [0, 0]]),
    "pyarrow integers": (pa.array([2, None, 1]), None, [1, 2], [[1, 1], NO_LABEL, [0, 0]]),
    "pyarrow booleans": (pa.array([True, False]), None, [False, True], [[1, 1], [0, 0]]),
    "pyarrow chunks": (pa.chunked_array([["L"], [None, "S"]]), SIZES, SIZES, [[2, 2], NO_LABEL, [0, 0]]),
    "pyarrow dictionary": (pa.array(["L", None, "S"]).dictionary_encode(), SIZES, SIZES, [[2, 2], NO_LABEL, [0, 0]]),
    "pyarrow ordered dictionary": (CODED, None, SIZES, [[2, 2], NO_LABEL, [0, 0]]),
    "pyarrow dictionary of numbers": (pa.array([7, 5]).dictionary_encode(), None, [5, 7], [[1, 1], [0, 0]]),
    "pyarrow chunks of other dictionaries": (
        pa.chunked_array([pa.array(["L"]).dictionary_encode(), pa.array(["S"]).dictionary_encode()]),
        SIZES, SIZES, [[2, 2], [0, 0]],
    ),
    "pyarrow table": (pa.table({"lo": ["S", None], "hi": ["M", "L"]}), SIZES, SIZES, [[0, 1], [0, 2]]),
    "pyarrow table of numbers": (pa.table({"lo": [1, 2], "hi": [2, None]}), [1, 2, 3], [1, 2, 3], [[0, 1], [1, 2]]),
    "many classes": ([149, 0], range(150), [*range(150)], [[149, 149], [0, 0]]),
    "many classes, two of them swapped": (
        [0, 1, 2, 149], [0, 2, 1, *range(3, 150)], [0, 2, 1, *range(3, 150)], [[0, 0], [2, 2], [1, 1], [149, 149]],
    ),
    "the largest integers": (np.array([2**63 - 1, 0], dtype=np.uint64), None, [0, 2**63 - 1], [[1, 1], [0, 0]]),
    "the largest integers among objects": ([2**53, NONE], [2**53], [2**53], [[0, 0], NO_LABEL]),
    "masked": (np.ma.array([3, 9, 1], mask=[False, True, False]), None, [1, 3], [[1, 1], NO_LABEL, [0, 0]]),
    "masked, but nothing hidden": (np.ma.array(["M", "S"]), SIZES, SIZES, [[1, 1], [0, 0]]),
    "structured strings": (np.array([("S", "M"), ("L", "L")], dtype=PAIR), SIZES, SIZES, [[0, 1], [2, 2]]),
    "structured numbers": (
        np.array([(1, 2.0), (2, NAN)], dtype=[("low", int), ("high", float)]), [1, 2, 3], [1, 2, 3], [[0, 1], [1, 2]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED)
def test_accepted(case):
    y, classes, expected_classes, expected_ranks = ACCEPTED[case]
    assert encoded(y, classes) == (expected_classes, expected_ranks)


REFUSED = {
    "continuous": ([1.0, 2.5], None, ValueError, r"y, row 1: Unknown label type: continuous. 2\.5"),
    "unordered": (pd.Categorical(["a", "b", "c"]), None, ValueError, r"unordered Categorical with 3 .*\['a', 'b', 'c'\]"),
    "all missing": ([NAN, NAN], None, ValueError, r"every label in y is missing: pass classes="),
    "mixed": (["a", 1], None, TypeError, r"y, row 1: .* got 1 of type int besides 'a'"),
    "mixed pairs": ([(1, 2), ("a", 3)], None, TypeError, r"y, row 1: .* got 'a' of type str besides 1"),
    "objects": ([{"a": 1}], None, TypeError, r"y, row 0: labels must be all numbers or all strings"),
    "bytes": ([b"a"], None, TypeError, r"y, row 0: .* got b'a'"),
    "mixed columns": (pd.DataFrame({"lo": [1], "hi": ["a"]}), None, TypeError, r"all numbers or all strings, got 1 in row 0 and 'a' in row 0"),
    "two vocabularies": (
        pd.DataFrame({"lo": ordered(["S"], SIZES), "hi": ordered(["S"], ["S", "L"])}),
        None, ValueError, r"same categories, got \['S', 'M', 'L'\] and \['S', 'L'\]",
    ),
    "backwards": ([("L", "S")], SIZES, ValueError, r"y, row 0: lower end 'L' is above upper end 'S'"),
    "backwards in the given order": ([(1, 2)], [2, 1], ValueError, r"lower end 1 is above upper end 2"),
    "unknown": (["S", "XL"], SIZES, ValueError, r"y, row 1: 'XL' is not one of the classes \['S', 'M', 'L'\]"),
    "unknown between codes": ([3, 4], [3, 5, 7], ValueError, r"y, row 1: 4 is not one of the classes \[3, 5, 7\]"),
    "unknown beyond codes": ([3.0, 9.0], [3, 5, 7], ValueError, r"y, row 1: 9.0 is not one of the classes"),
    "one below": ([1, 0], [1, 2, 3], ValueError, r"y, row 1: 0 is not one of the classes"),
    "one above": ([3, 4], [1, 2, 3], ValueError, r"y, row 1: 4 is not one of the classes"),
    "one below, as a float": ([1.0, 0.0], [1, 2, 3], ValueError, r"y, row 1: 0.0 is not one of the classes"),
    "one above, as a float": ([3.0, 4.0], [1, 2, 3], ValueError, r"y, row 1: 4.0 is not one of the classes"),
    "between whole classes": ([3.0, 1.5], [1, 2, 3], ValueError, r"y, row 1: 1.5 is not one of the classes"),
    "unknown upper end": ([(1, 2), (1, 4)], [1, 2, 3], ValueError, r"y, row 1: 4 is not one of the classes"),
    "infinite on the wrong side": ([(1, 2), (np.inf, 2)], [1, 2], ValueError, r"y, row 1: inf is not one of the classes"),
    "number among strings": ([1], SIZES, ValueError, r"y, row 0: 1 is not one of the classes"),
    "dates": (np.array(["2020-01-01"], dtype="M8[ns]"), None, TypeError, r"y, row 0: labels must be numbers or strings, got datetime64"),
    "beyond int64": (np.array([2**63], dtype=np.uint64), None, ValueError, r"y: 9223372036854775808 is too large for a label"),
    "beyond float64 with gaps": ([2**60, NONE], [2**60], ValueError, r"too large for a label among Python objects"),
    "one of them beyond float64": ([1, 2**60, NONE], [1], ValueError, r"y: 1152921504606846976 is too large for a label"),
    "a word beside categories": (
        pd.DataFrame({"lo": ["XS"], "hi": ordered(["L"], SIZES)}), None, ValueError, r"'XS' is not one of the categories",
    ),
    "the first wrong row": ([(3, 1), (9, 9)], [1, 2, 3], ValueError, r"y, row 0: lower end 3 is above upper end 1"),
    "no classes": ([1], [], ValueError, r"classes is empty"),
    "class twice": ([1], [3, 1, 2, 2, 1], ValueError, r"classes names 1 more than once"),
    "missing class": ([1], [1, None], ValueError, r"classes, entry 1: a class cannot be missing"),
    "mixed classes": ([1], [1, "a"], TypeError, r"classes, row 1: .* got 'a'"),
    "classes in a set": ([1], {1, 2}, ValueError, r"classes should be a 1d array"),
    "intervals that overlap": (
        [pd.Interval(0, 2), pd.Interval(5, 6), pd.Interval(1, 3)], None, ValueError,
        r"y, row 2: Interval\(1, 3, .*\) overlaps Interval\(0, 2, .*\); .*from_bounds\(ranges, edges=",
    ),
    "intervals that are no class": (AGES, SIZES, ValueError, r"y, row 0: Interval.* not one of the classes .*from_bounds"),
    "intervals beside numbers": ([AGES[0], 1], None, TypeError, r"y, row 1: .* got 1 of type int besides Interval"),
    "sparse": (csr_array([[1, 2]]), None, TypeError, r"y must be a dense .*: pass y.toarray\(\)"),
    "bytes array": (np.array([b"a"]), None, TypeError, r"got b'a' of type bytes: decode them first"),
    "a table of classes": ([1], {k: k for k in range(99)}, ValueError, r"got \{0: 0, .{0,60}\.\.\. instead"),
    "a string of classes": (["a"], "ab", ValueError, r"classes should be a 1d array of labels, got 'ab'"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    y, classes, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        encoded(y, classes)


def test_a_long_list_of_classes_is_cut_short():
    with pytest.raises(ValueError, match=r"\[0, 1, .*, \.\.\., 999\]$") as error:
        encoded([1000], range(1000))
    assert len(str(error.value)) < 120
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11\]$"):
        encoded([12.0], range(12))
    with pytest.raises(ValueError, match=r"\[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, \.\.\., 12\]$"):
        encoded([13.0], range(13))


def test_a_column_vector_is_flattened_with_the_usual_warning():
    with pytest.warns(DataConversionWarning, match="column-vector y was passed"):
        assert encoded(np.array([[1], [2]])) == ([1, 2], [[0, 0], [1, 1]])


def test_sorted_strings_warn_beyond_two():
    with pytest.warns(ClassOrderWarning, match=r"\['A', 'AA', 'B'\]: pass classes="):
        encoded(["AA", "A", "B"])


@pytest.mark.parametrize(
    ("y", "row"),
    [
        ([(1, 2), (2, 4)], r"y, row 1: \(2, 4\) may include classes that never occur"),
        ([(1, 2), (2, None)], r"y, row 1: \(2, None\) may include"),
        ([("a", "b"), (None, "b")], r"y, row 1: \(None, 'b'\) may include"),
    ],
)
def test_guessed_classes_warn_of_gaps_and_open_ends(y, row):
    with pytest.warns(ClassOrderWarning, match=row):
        encoded(y)


def test_classes_against_the_order_of_a_categorical_warn():
    y = ordered(["S", "L", "M"], SIZES)
    X = np.arange(3.0).reshape(-1, 1)
    said = r"y is a Categorical ordered \['S', 'M', 'L'\], against classes=\['L', 'M', 'S'\], which is used"
    for call in (
        lambda: encoded(y, SIZES[::-1]),
        lambda: PRIL(classes=SIZES[::-1]).fit(X, y),
        lambda: PRIL(classes=SIZES[::-1]).partial_fit(X, y),
        lambda: PRIL().partial_fit(X, y, classes=SIZES[::-1]),
    ):
        with pytest.warns(ClassOrderWarning, match=said):
            call()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = PRIL(classes=["XS", *SIZES, "XL"]).fit(X, y).partial_fit(X, y)
    assert model.order_.tolist() == ["XS", *SIZES, "XL"]


def test_named_or_declared_classes_do_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoded([(1, 2), (2, 4), (None, 1)], [1, 2, 3, 4])
        encoded(pd.DataFrame({"lo": ordered(["S"], SIZES), "hi": ordered([None], SIZES)}))
        encoded([3, 5, 7])
        encoded([1, None, 4])
        encoded([(3, 3), (5, 5)])


@given(
    st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 5)), min_size=1, max_size=30),
    st.integers(-5, 5),
    st.sampled_from([1, 2, 3]),
)
def test_fast_and_general_ways_to_ranks_agree(pairs, first, stride):
    """Contiguous integers take a short way; floats, gaps and strings must find the same ranks."""
    y = np.array([(lower, lower + width) for lower, width in pairs])
    y = (y - y.min()) * stride + first
    classes = np.arange(first, y.max() + 1, stride)
    _, ranks = ranking.encode(ranking.read(y), classes)
    np.testing.assert_array_equal(ranks, (y - first) // stride)
    for spelled, names in (
        (y.astype(float), classes),
        (y.astype(str).astype(object), classes.astype(str)),
        (y.tolist(), classes.tolist()),
    ):
        np.testing.assert_array_equal(ranking.encode(ranking.read(spelled), names)[1], ranks)


CELLS = st.sampled_from(["S", "M", "L", None, np.nan, float("nan"), pd.NA, np.str_("M")])
NUMBERS = st.sampled_from([1, 2, 3.0, 2.5, None, np.nan, np.int64(2)])


@given(
    st.one_of(
        st.lists(CELLS, min_size=1),
        st.lists(NUMBERS, min_size=1),
        st.lists(st.tuples(CELLS, CELLS), min_size=1),
        st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1),
        st.lists(st.one_of(CELLS, NUMBERS, st.tuples(CELLS, NUMBERS)), min_size=1),
    )
)
def test_labels_read_once_for_each_value_equal_labels_read_row_by_row(y):
    def result(read, y):
        try:
            return read(y, "y")
        except (TypeError, ValueError) as error:
            return type(error), str(error)

    slow = result(ranking._read_values, y)
    objects = np.empty(len(y), dtype=object)
    objects[:] = y
    for spelled in (y, objects, pd.Series(objects)):
        fast = result(ranking._read_array, spelled)
        if not isinstance(slow, ranking.Labels):
            assert fast == slow
            continue
        cells = slow._replace(values=slow.values.reshape(len(y), -1))
        found = fast._replace(values=fast.values.reshape(len(y), -1))
        assert [cells.row(t) for t in range(len(y))] == [found.row(t) for t in range(len(y))]


# --- from_votes ---


@pytest.mark.parametrize("function", [from_votes, krippendorff_alpha])
def test_a_zero_among_votes_may_be_no_vote(function):
    votes = [[3, 4], [1, 0], [2, 5]]
    with pytest.warns(ClassOrderWarning, match="votes, row 1: 0 was taken for a vote, the lowest"):
        function(votes)
    function(votes, classes=range(6))
    function([[0, 1], [1, 1]])  # no and yes
    function([[None if vote == 0 else vote for vote in row] for row in votes])
    with pytest.raises(ValueError, match="votes, row 1: 0 is not one of the classes"):
        function(votes, classes=range(1, 6))


def test_rows_that_are_taken_keep_their_places():
    labels = ranking.distinct(ranking.read([3, 3, 1, 1, 2]))
    for rows in (np.array([2, 0]), slice(1, 3), np.array([False, True, True])):
        taken = labels.take(rows)
        told = [int(taken.place(t).removeprefix("row ")) for t in range(len(taken.values))]
        assert told == np.array([0, 2, 4])[rows].tolist()


def test_votes_become_the_range_they_span():
    votes = pd.DataFrame({"ann": [3, 2, np.nan], "bob": [5, 2, np.nan], "eve": [4, np.nan, np.nan]})
    np.testing.assert_array_equal(from_votes(votes), [[3, 5], [2, 2], [NAN, NAN]])
    assert from_votes([["M", "S"], [None, "L"], [None, None]], classes=SIZES).tolist() == [
        ["S", "M"], ["L", "L"], [None, None],
    ]  # fmt: skip


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=12), st.sampled_from([0, 0.1, 0.25, 0.4, 0.5])
)
def test_trimmed_votes_are_quantiles(votes, trim):
    """NumPy's own: the vote at or below, and the vote at or above, the trimmed share."""
    lower = np.quantile(votes, trim, method="lower")
    upper = np.quantile(votes, 1 - trim, method="higher")
    np.testing.assert_array_equal(
        from_votes([votes], trim=trim, classes=range(1, 10)), [[lower, upper]]
    )


@pytest.mark.parametrize(
    ("votes", "options", "message"),
    [
        ([[1, 2]], {"trim": 0.51}, "trim must be between 0 and 0.5, got 0.51"),
        ([[1, 2], [3, 4]], {"classes": [1, 2, 3]}, "votes, row 1: 4 is not one of the classes"),
        ([[None, None]], {}, "every label in votes is missing"),
        ([[1, np.inf]], {"classes": [1, 2]}, "votes, row 0: inf is not one of the classes"),
        ([[1, 2]], {"trim": "a"}, "trim must be between 0 and 0.5, got 'a'"),
        (np.empty((2, 0)), {}, "at least one column"),
    ],
)
def test_votes_refused(votes, options, message):
    with pytest.raises(ValueError, match=message):
        from_votes(votes, **options)


# --- from_strings ---


CREDIT = ["C", "BBB-", "BBB", "A", "A+"]
SPELLED = {
    "3-4": (3, 4), "3 to 4": (3, 4), "3..4": (3, 4), "3\N{EN DASH}4": (3, 4), "3 or 4": (3, 4), "4 or 3": (3, 4),
    "4+": (4, 5), "\N{GREATER-THAN OR EQUAL TO} 4": (4, 5), ">=4": (4, 5), "at least 4": (4, 5), "4 or more": (4, 5),
    "<2": (1, 1), "< 3": (1, 2), "below 3": (1, 2), "> 3": (4, 5), "more than 3": (4, 5),
    "<= 2": (1, 2), "At Most 2": (1, 2), "2 or less": (1, 2), "up to 2": (1, 2),
    " 3 ": (3, 3), "3.0": (3, 3), 3: (3, 3), "": (NAN, NAN), None: (NAN, NAN), " ": (NAN, NAN),
}  # fmt: skip


@pytest.mark.parametrize("text", SPELLED)
def test_written_ranges_of_numbers(text):
    np.testing.assert_array_equal(from_strings([text], range(1, 6))[0], SPELLED[text])


@pytest.mark.parametrize(
    ("text", "pair"),
    [
        *((name, (name, name)) for name in CREDIT),
        ("BBB--A", ("BBB-", "A")),
        ("BBB- to A+", ("BBB-", "A+")),
        ("at least BBB-", ("BBB-", "A+")),
        ("A++", ("A+", "A+")),
        ("a or bbb", ("BBB", "A")),
        ("C+", ("C", "A+")),
        ("<A", ("C", "BBB")),
    ],
)
def test_written_ranges_of_grades(text, pair):
    assert from_strings([text], CREDIT).tolist() == [list(pair)]


def test_written_ranges_in_any_column():
    column = ["poor or fair", None, "at least good", "great"]
    expected = [["poor", "fair"], [None, None], ["good", "great"], ["great", "great"]]
    for y in (
        column,
        np.array(column, dtype=object),
        pd.Series(column),
        pl.Series(column),
        pa.array(column),
    ):
        assert from_strings(y, GRADES).tolist() == expected
    assert from_strings(["b-B", "B"], ["b", "B"]).tolist() == [["b", "B"], ["B", "B"]]


@pytest.mark.parametrize(
    "text", ["bad", "3-4", "great-poor", "< poor", "above great", "poor or", "-"]
)
def test_what_cannot_be_read_is_named_with_its_row(text):
    with pytest.raises(
        ValueError, match=rf"y, row 1: '{text}' is neither one of the classes .* nor a"
    ):
        from_strings(["poor", text], GRADES)


@pytest.mark.parametrize("text", ["1_0", "0xA", "\uff13", "1_0 or 11", "nan"])
def test_a_number_is_written_as_in_a_table(text):
    with pytest.raises(ValueError, match=f"y, row 1: '{text}' is neither one of the classes"):
        from_strings(["+1.0e1", text], range(1, 12))


def test_only_a_column_of_text_is_read():
    with pytest.raises(ValueError, match="y should be a 1d array of strings, got 'poor' instead"):
        from_strings("poor", GRADES)
    with pytest.raises(ValueError, match="1d array of strings"):
        from_strings([("poor", "fair")], GRADES)


# --- Texts of ranges that nobody declared ---

RANGES = [
    *("3-4", "20 to 30", "20\u201330", "1,000-2,000", "1.000 - 2.000", "$20-50k", "3 or 4", "0..5"),
    *("65+", "<5", "<=50K", ">50K", "at least 3", "under 1000", "65 or older", "between 2 and 3"),
    *("bis 20", "at least good", "At most fair", "good or better", "<= fair", "up to good"),
    *("fair to good", "fair-good", "good or fair"),
]
NAMES = [
    *("A+", "A-", "A", "B+", "grade-3", "grade 3+", "non-smoker", "2024-01-05", "2024-01", "high"),
    *("5 stars", "10%", "-1", "+1", "1", "1B", "L4-L5", "F-16", "above good", "below fair", "bye"),
    *("bye-bye", "<unknown>", "more or less", "up to date", "over", "1-1", "a or b", "0: 3-4", "-"),
    *(
        "worse than fair",
        "less than good",
        "> fair",
        "fair-ish",
        "too good to be true",
        "10:30-11:30",
        "Q1 2024",
        "II-III",
    ),
]


@pytest.mark.parametrize("text", RANGES)
def test_texts_of_ranges_are_not_taken_for_classes(text):
    message = (
        r"^y, row 3: .* reads as a range, not as a class: pril.labels.from_strings\(y, "
        r"classes\) .* pril.labels.from_brackets\(y\) .* pass classes=, lowest first$"
    )
    with pytest.raises(RowError, match=message):
        PRIL().fit(np.ones((5, 1)), ["fair", "good", "3", text, text])


@pytest.mark.parametrize("text", RANGES)
def test_texts_of_ranges_that_are_declared_are_classes(text):
    words = ["fair", "good", "3", text]
    X = np.arange(4.0).reshape(-1, 1)
    assert text in PRIL(classes=words).fit(X, words).classes_
    assert text in PRIL().fit(X, pd.Categorical(words, words, ordered=True)).classes_


@pytest.mark.filterwarnings("ignore::pril.errors.ClassOrderWarning")
@pytest.mark.parametrize("text", NAMES)
def test_names_that_only_resemble_ranges_are_classes(text):
    words = ["fair", "good", "A", text]
    assert text in PRIL().fit(np.arange(4.0).reshape(-1, 1), words).classes_


def test_pairs_votes_and_predictions_that_read_as_ranges_are_refused():
    with pytest.raises(RowError, match=r"^y, row 1: '3-4' reads as a range"):
        to_ranks([("1", "2"), ("2", "3-4")])
    with pytest.raises(RowError, match=r"^y_pred, row 0: '3-4' reads as a range"):
        interval_accuracy(["1", "2"], ["3-4", "2"])
    with pytest.raises(RowError, match=r"^votes, row 0: '3-4' reads as a range"):
        from_votes([["3", "3-4"], ["2", "3"]])


PIECES = (
    *(
        "3",
        "4",
        "10",
        "0.5",
        "2024",
        "fair",
        "good",
        "D",
        "k",
        "years",
        "week",
        " and ",
        "between ",
    ),
    *(
        "-",
        " - ",
        " to ",
        " or ",
        "..",
        "+",
        "<",
        ">=",
        "at least ",
        "under ",
        " or more",
        " ",
        ",",
    ),
)


@pytest.mark.filterwarnings("ignore::pril.errors.ClassOrderWarning")
@given(st.lists(st.sampled_from(PIECES), min_size=1, max_size=5).map("".join))
def test_texts_are_refused_if_the_functions_that_are_named_read_them(text):
    names = ["D", "fair", "good", "worst"]
    assume(text.strip() and text.strip() not in names)
    error = None
    try:
        PRIL().fit(np.arange(5.0).reshape(-1, 1), [*names, text])
    except RowError as raised:
        error = raised
    refused = error is not None
    assert not refused or (error.row, error.hint) == (4, "ranges")
    bracket, is_range = None, False
    with suppress(RowError):
        bracket = from_brackets([text], edges=np.arange(1.25, 2100.0))[0].tolist()
    for order in (names, names[::-1]):
        with suppress(RowError):
            is_range |= from_strings([text], order).shape == (1, 2)
    if bracket is not None and bracket[0] < bracket[1]:
        assert refused
    if refused:
        assert is_range or bracket is not None or text.strip().startswith("at least ")


# --- from_bounds ---


def test_bounds_fall_into_bins():
    edges = [18, 30, 40, 60]
    cases = {
        (30, 40): (2, 2),  # like a bin, a range does not hold its upper end
        (30, 41): (2, 3),
        (29, 40): (1, 2),
        (40, 40): (3, 3),  # an exact value
        (60, NAN): (4, 4),
        (61, np.inf): (4, 4),
        (NAN, 18): (0, 0),
        (NAN, 19): (0, 1),
        (-np.inf, np.inf): (0, 4),
        (NAN, NAN): (NAN, NAN),
    }
    lower, upper = zip(*cases, strict=True)
    np.testing.assert_array_equal(from_bounds(lower, upper, edges), list(cases.values()))
    np.testing.assert_array_equal(
        from_bounds(lower, upper, [-np.inf, *edges, np.inf]), list(cases.values())
    )
    assert from_bounds([None, 50], [20, None], edges).tolist() == [[0, 1], [3, 4]]


@given(st.floats(0, 10), st.floats(0, 10), st.floats(0, 1))
def test_a_bin_inside_the_range_is_inside_the_interval(a, b, share):
    lower, upper = sorted((a, b))
    inside = lower + share * (upper - lower) if upper > lower else lower
    assume(lower == upper or inside < upper)
    edges = [1, 2.5, 7]
    lo, hi = from_bounds([lower], [upper], edges)[0]
    assert lo <= np.digitize(inside, edges) <= hi


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 5], [2, 4], [3]), r"lower, row 1: 5.0 is above upper, 4.0"),
        (([1], [2, 3], [3]), r"lower has 1 values, upper has 2"),
        (([1], [2], [3, 3]), r"edges must be a 1d array of ascending numbers, got \[3, 3\]"),
        (([1], [2], [1, 3, 2]), r"edges must be a 1d array of ascending numbers, got \[1, 3, 2\]"),
        (([1], [2], [1, NAN]), r"edges must be"),
        ((None, [2], [3]), r"lower must be a 1d array of numbers: requires lower to be passed"),
        (([1], [2], ["a"]), r"edges, row 0: 'a' is not a number"),
        ((["a"], [2], [3]), r"lower, row 0: 'a' is not a number"),
    ],
)
def test_bounds_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        from_bounds(*arguments)


def test_intervals_of_pandas_fall_into_bins_that_share_a_value_with_them():
    """Both ends and the middle of each interval, where it holds them, by counting."""
    edges = [10, 20]
    ends = [(0, 10), (10, 15), (5, 20), (20, 30), (12, 14), (-np.inf, 10), (15, np.inf)]
    for closed in ("left", "right", "both", "neither"):
        ranges = pd.arrays.IntervalArray.from_tuples(ends, closed=closed)
        found = from_bounds(ranges, edges=edges)
        for interval, (lo, hi) in zip(ranges, found, strict=True):
            values = np.arange(-40, 80, 0.5)
            bins = np.digitize([v for v in values if v in interval], edges)
            assert (lo, hi) == (bins.min(), bins.max()), interval
    ages = pd.cut([5, np.nan, 15], [0, 10, 20], right=False)
    np.testing.assert_array_equal(from_bounds(ages, edges=edges), [[0, 0], [NAN, NAN], [1, 1]])
    assert from_bounds([pd.Interval(0, 1)], edges=edges).tolist() == [[0, 0]]
    with pytest.raises(TypeError, match="needs upper=, unless lower holds Intervals"):
        from_bounds([1, 2], edges=edges)
    with pytest.raises(TypeError, match="needs edges="):
        from_bounds(ages)


# --- make_intervals ---


@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=40),
    st.sampled_from([1, 2]),
    st.sampled_from([0.0, 0.6, 0.75, 1.0]),
    st.integers(0, 10),
)
def test_intervals_are_the_papers_types(y, kind, fraction, seed):
    K = 5
    made = make_intervals(y, kind, fraction, classes=range(1, K + 1), random_state=seed)
    wide = made[:, 0] < made[:, 1]
    assert wide.sum() == round(fraction * len(y))
    for label, (lower, upper), widened in zip(y, made.tolist(), wide, strict=True):
        if not widened:
            assert (lower, upper) == (label, label)
        elif label == 1:
            assert (lower, upper) == (1, 2)
        elif label == K:
            assert (lower, upper) == (K - 1, K)
        elif kind == 1:
            assert (lower, upper) in {(label - 1, label), (label, label + 1)}
        else:
            assert (lower, upper) == (label - 1, label + 1)


def test_both_sides_of_type_1_are_equally_likely():
    made = make_intervals([2] * 4000, 1, 1.0, classes=[1, 2, 3], random_state=0)
    below = (made[:, 0] == 1).sum()
    assert abs(below - 2000) < 4 * np.sqrt(1000)  # four standard errors


def test_intervals_keep_the_spelling_and_the_seed():
    assert make_intervals(["S", "M", "L"], 2, 1.0, classes=SIZES).tolist() == [
        ["S", "M"], ["S", "L"], ["M", "L"],
    ]  # fmt: skip
    assert make_intervals([0, 1], 1, 1.0).tolist() == [[0, 1], [0, 1]]
    assert make_intervals([4, 4], 1, 1.0).tolist() == [[4, 4], [4, 4]]
    one, two = (make_intervals([1, 2, 3] * 9, 1, 0.5, random_state=3) for _ in range(2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2], 3), "kind must be 1 or 2, got 3"),
        (([1, 2], 1, 1.5), "fraction must be between 0 and 1, got 1.5"),
        (([(1, 2)], 1), "y should be a 1d array"),
    ],
)
def test_make_intervals_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_intervals(*arguments)


@pytest.mark.parametrize("kind", [1, 2])
def test_ranges_do_not_come_first_in_a_learner_with_the_same_seed(kind):
    """The learner's first pass: ranges would take its first 750 places if the draws were shared."""
    n = 1000
    for seed in range(5):
        made = make_intervals([2] * n, kind, classes=[1, 2, 3], random_state=seed)
        wide = made[:, 0] < made[:, 1]
        order = reference.shuffled(n, np.random.RandomState(seed))
        assert abs(wide[order][:500].mean() - 0.75) < 6 * np.sqrt(0.75 * 0.25 / 500)
    again = [make_intervals(range(9), random_state=5).tolist() for _ in range(2)]
    assert again[0] == again[1] != make_intervals(range(9), random_state=6).tolist()


# --- to_ranks ---


def test_ranks_close_open_ends():
    y = [("poor", "fair"), ("good", None), (None, "fair"), ("great", None)]
    ranks = to_ranks(y, GRADES)
    assert ranks.tolist() == [[0, 1], [2, 3], [0, 1], [3, 3]]
    assert ranks.dtype == np.int64
    assert to_ranks(ordered(["good", "poor"], GRADES), exact=True).tolist() == [2, 0]
    assert to_ranks([("great", None), ("fair", "fair")], GRADES, exact=True).tolist() == [3, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (
            [("poor", "poor"), ("poor", "fair")],
            r"y, row 1: \('poor', 'fair'\) is a range, and exact",
        ),
        (
            ["poor", None],
            "y, row 1: the label is missing, and exact=True wants one class in every row: take out "
            "rows without a label first",
        ),
        (["poor", "bad"], "y, row 1: 'bad' is not one of the classes"),
    ],
)
def test_exact_ranks_refuse_ranges_and_gaps(y, message):
    with pytest.raises(ValueError, match=message):
        to_ranks(y, GRADES, exact=True)


@pytest.mark.parametrize("classes", [GRADES, [1, 2, 3, 4], [0.5, 1.5, 2.5, 3.5]])
def test_labels_numbered_by_others_point_to_to_ranks(classes):
    with pytest.raises(ValueError, match=r"not one of the classes .*meta-estimator.*ordered"):
        encoded(np.array([3, 0, 2, 1]), classes)


@pytest.mark.parametrize("y", [[3, 0, 9], [-1, 0]])
def test_any_whole_numbers_in_place_of_words_point_to_to_ranks(y):
    with pytest.raises(ValueError, match=r"not one of the classes .*meta-estimator.*ordered"):
        encoded(y, GRADES)


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([3, 0, 9], [1, 2, 3, 4]),
        ([-1, 0], [1, 2, 3, 4]),
        ([0.5, 0.0], GRADES),
        (["0", "1"], GRADES),
    ],
)
def test_other_strange_labels_do_not_point_to_to_ranks(y, classes):
    with pytest.raises(ValueError, match=r"not one of the classes .*\]$"):
        encoded(y, classes)


# --- ordered ---


@given(
    st.lists(st.text(max_size=4), min_size=1, max_size=120, unique=True).filter(
        lambda words: not any("\0" in word for word in words)
    ),
    st.randoms(use_true_random=False),
)
def test_ordered_names_sort_as_their_classes(classes, random):
    names = pril.labels.ordered(classes, classes)
    shuffled = random.sample(names.tolist(), len(names))
    assert np.unique(shuffled).tolist() == sorted(shuffled) == names.tolist()
    assert [name.partition(": ")[2] for name in names] == classes
    _, intervals = encoded(shuffled)  # without a warning
    assert [names[rank] for rank, _ in intervals] == shuffled


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([("poor", "poor"), ("poor", "fair")], r"y, row 1: \('poor', 'fair'\) is a range, and ord"),
        (["poor", None], "y, row 1: the label is missing, and ordered takes one"),
        (["poor", "bad"], "y, row 1: 'bad' is not one of the classes"),
    ],
)
def test_ordered_names_are_of_exact_labels(y, message):
    with pytest.raises(ValueError, match=message):
        pril.labels.ordered(y, GRADES)


def test_ordered_names_need_an_order():
    assert pril.labels.ordered([10, 2]).tolist() == ["1: 10", "0: 2"]
    assert pril.labels.ordered(ordered(["fair"], GRADES)).tolist() == ["1: fair"]
    assert pril.labels.ordered(AGES)[1] == "1: (18, 65]"
    with pytest.raises(ValueError, match=r"y holds strings, which have no order: pass classes="):
        pril.labels.ordered(["poor", "fair"])


@pytest.mark.parametrize(
    "names", [["1: a", "10: b", "2: c"], ["1: a", "1: b", "2: c"], list("abc")]
)
def test_other_names_with_numbers_are_warned_of(names):
    with pytest.warns(ClassOrderWarning, match="sorted as strings"):
        encoded(names)


# --- Rows without a label ---

WITHOUT = {
    "to_ranks": lambda: to_ranks([("poor", "fair"), (None, None), ("great", None)], GRADES),
    "to_ranks, exact labels": lambda: to_ranks(["poor", None, "great"], GRADES),
    "from_bounds": lambda: from_bounds([0, NAN, 30], [15, NAN, NONE], edges=[10, 20, 30]),
    "from_bounds, Intervals": lambda: from_bounds(
        pd.arrays.IntervalArray.from_tuples([(0, 15), NAN, (30, 40)]), edges=[10, 20, 30]
    ),
    "from_votes": lambda: from_votes([[0, 1], [NONE, NONE], [3, 3]], classes=range(4)),
    "from_strings": lambda: from_strings(["0-1", "", "3"], classes=range(4)),
    "make_intervals": lambda: make_intervals([0, NONE, 3], 1, 1.0, classes=range(4)),
}


@pytest.mark.parametrize("case", WITHOUT)
def test_a_row_without_a_label_stays_one(case):
    y = WITHOUT[case]()
    assert np.isnan(y[1]).all()
    assert not np.isnan(y[[0, 2]]).any()
    X = np.array([[-1.0], [0.0], [1.0]])
    model = PRIL(classes=range(4), max_iter=1).fit(X, y)
    assert model.t_ == 2
    wrong = [3, 1, 0]  # outside of both labels
    assert interval_accuracy(y, wrong, classes=range(4)) == 0.0
    assert interval_absolute_error(y, wrong, classes=range(4)) >= 2.0
    low, high = y[[0, 2]].T
    predicted = model.predict(X)[[0, 2]]
    assert model.score(X, y) == ((low <= predicted) & (predicted <= high)).mean()
    again = to_ranks(y, range(4))
    np.testing.assert_array_equal(again, y)


def test_ranks_and_bins_are_integers_if_every_row_has_a_label():
    for y in (to_ranks([(1, None), (None, 2)], [1, 2]), from_bounds([NAN], [1.0], [0.0, 2.0])):
        assert y.dtype == np.int64


def test_making_intervals_draws_the_same_beside_rows_without_a_label():
    y = np.array([0, 1, 2, 3] * 5)
    with_gaps = np.insert(y.astype(float), [0, 7, 20], np.nan)
    made = make_intervals(with_gaps, 1, 0.5, classes=range(4), random_state=0)
    labelled = ~np.isnan(with_gaps)
    assert np.isnan(made[~labelled]).all()
    expected = make_intervals(y, 1, 0.5, classes=range(4), random_state=0)
    np.testing.assert_array_equal(made[labelled], expected)


# --- Labels that come in blocks ---


def fitted_to(*blocks):
    """Return a learner fitted to blocks of labels on Dask, without classes."""
    import dask

    import pril.dask

    pairs = [dask.delayed((np.arange(len(y)).reshape(-1, 1) / 9, y)) for y in blocks]
    return pril.dask.fit_blocks(PRIL(random_state=0), pairs, epochs=1)


def test_a_block_without_labels_says_nothing_about_their_type():
    words = pd.Categorical(["low", "mid", "high"] * 3, ["low", "mid", "high"], ordered=True)
    silent = np.full(4, np.nan)
    for blocks in ((silent, words), (words, silent), (silent, words, silent)):
        assert fitted_to(*blocks).order_.tolist() == ["low", "mid", "high"]
    whole = fitted_to(silent, np.array([1, 2, 3], dtype=np.int16)).order_
    assert whole.dtype == np.int16
    assert whole.tolist() == [1, 2, 3]


def test_missing_words_beside_numbers_are_missing_labels():
    silent = pd.Series([None, None], dtype="string")
    model = fitted_to(np.array([1, 2]), silent)
    assert model.order_.tolist() == [1, 2]
    assert model.t_ == 2  # a row without a label is no round
    ends = pd.DataFrame({"lo": [1, 2], "hi": silent})
    assert ranking.read(ends).row(1) == (2, None)


def test_blocks_of_words_and_of_numbers_are_refused():
    words = pd.Categorical(["low", "high"] * 3, ["low", "high"], ordered=True)
    for blocks in ((words, np.array([1, 2])), (np.array([1, 2]), words)):
        with pytest.raises(TypeError, match=r"all numbers or all strings, got .* in block 0"):
            fitted_to(*blocks)


@pytest.mark.parametrize(
    ("function", "offer"),
    [
        (lambda y: PRIL().fit(np.eye(3), y), " or have two columns, the lower and the upper end"),
        (lambda y: interval_accuracy([1, 2, 3], y), ""),
    ],
)
def test_labels_of_three_columns_are_refused(function, offer):
    for rows, hint in (3, ""), (2, "; pass two arrays as numpy.column_stack([lower, upper])"):
        said = f"should be a 1d array of labels{offer}, got an array of shape ({rows}, 3) instead"
        with pytest.raises(ValueError, match=re.escape(said + hint) + "$"):
            function(np.ones((rows, 3)))


def test_agreement_is_that_of_the_published_example():
    """Four observers, twelve units, alpha 0.815: K. Krippendorff, 2011, section D."""
    a = [1, 2, 3, 3, 2, 1, 4, 1, 2, NONE, NONE, NONE]
    b = [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NONE, 3]
    c = [NONE, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NONE]
    d = [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NONE]
    assert round(krippendorff_alpha(np.column_stack([a, b, c, d])), 3) == 0.815
    words = pd.DataFrame({"a": a, "b": b, "c": c, "d": d}).replace(dict(enumerate("?edcba")))
    assert round(krippendorff_alpha(words, classes=list("edcba")), 3) == 0.815


def test_agreement_without_pairs_or_differences():
    assert np.isnan(krippendorff_alpha([[2, 2], [2, 2]]))
    assert krippendorff_alpha([[1, 1], [2, 2]]) == 1.0
    with pytest.raises(ValueError, match="votes has no row with two votes"):
        krippendorff_alpha([[1.0, NAN], [NAN, 2.0]])


@pytest.mark.parametrize("missing", [False, True])
def test_one_column_of_pairs_is_the_same_labels(missing):
    rng = np.random.default_rng(0)
    y = np.sort(rng.integers(1, 5, (50, 2)), axis=1).astype(float)
    y[3, 0] = y[4, 1] = NAN  # open ends
    if missing:
        y[7] = NAN
    ranks, pairs = (to_ranks(y, [1, 2, 3, 4], one_column=one) for one in (False, True))
    assert pairs.shape == (50,)
    np.testing.assert_array_equal(np.column_stack([pairs["lower"], pairs["upper"]]), ranks)
    np.testing.assert_array_equal(to_ranks(pairs, range(4)), ranks)
    assert to_ranks(np.empty((0, 2)), [1], one_column=True).shape == (0,)
    with pytest.raises(ValueError, match="one_column=True pairs"):
        to_ranks(y, exact=True, one_column=True)


def study(n, rng):
    """Grades of three raters who err alike; some did not see a scan."""
    votes = np.clip(rng.integers(1, 6, n)[:, None] + rng.integers(-1, 2, (n, 3)), 1, 5)
    return np.where(rng.random((n, 3)) < 0.9, votes, NAN)


def test_the_interval_of_alpha_is_that_of_resampled_rows():
    votes = study(30, np.random.default_rng(0))
    rng, two = np.random.RandomState(4), np.flatnonzero((~np.isnan(votes)).sum(axis=1) > 1)
    samples = [krippendorff_alpha(votes[rng.choice(two, len(two))]) for _ in range(50)]
    interval = krippendorff_interval(votes, n_resamples=50, level=0.8, random_state=4)
    alpha = krippendorff_alpha(votes)
    np.testing.assert_allclose(interval, reference.corrected(samples, alpha, 0.8))
    rng, patients = np.random.RandomState(4), np.arange(30) % 6
    samples = []
    for _ in range(50):
        rows = np.concatenate([two[patients[two] == k] for k in rng.choice(6, size=6)])
        samples.append(krippendorff_alpha(votes[rows]))
    interval = krippendorff_interval(
        votes, groups=patients, n_resamples=50, level=0.8, random_state=4
    )
    alpha = krippendorff_alpha(votes)
    np.testing.assert_allclose(interval, reference.corrected(samples, alpha, 0.8))


def test_the_interval_of_alpha_covers_that_of_the_population():
    """Of 100 studies, the 90 % interval holds the alpha of all scans in about 90."""
    rng = np.random.default_rng(1)
    truth = krippendorff_alpha(study(100_000, rng))
    inside = 0
    for seed in range(100):
        interval = krippendorff_interval(
            study(100, rng), n_resamples=100, level=0.9, random_state=seed
        )
        inside += interval[0] <= truth <= interval[1]
    assert 80 <= inside <= 98


def test_the_interval_of_alpha_leaves_out_samples_without_it():
    votes = [[1, 1]] * 4 + [[2, 2]]
    with pytest.warns(UserWarning, match=r"^[1-9][0-9] of 50 samples are left out: all votes in"):
        assert krippendorff_interval(votes, n_resamples=50, random_state=0) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("votes", "options", "said"),
    [
        ([[2, 2], [2, 2]], {}, "all votes are equal"),
        ([[1.0, NAN], [NAN, 2.0]], {}, "no row with two votes"),
        (
            [[1, 1], [2, 2]],
            {"n_resamples": 1},
            "n_resamples must be an integer of at least 2, got 1",
        ),
        ([[1, 1], [2, 2]], {"level": 95}, "level must be above 0 and below 1, got 95"),
        ([[1, 1], [2, 2]], {"groups": [1]}, "groups has 1 values, expected one for each of 2"),
        ([[1, 1], [2, 2]], {"groups": ["a", "a"]}, "at least 2 groups of rows .* got 1"),
        ([[1, 1], [2, 2]], {"groups": ["a", None]}, "groups, row 1: the group is missing"),
    ],
)
def test_an_interval_of_alpha_that_cannot_be_is_refused(votes, options, said):
    with pytest.raises(ValueError, match=said):
        krippendorff_interval(votes, **options)
