"""Brackets of a number as people write them."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pril import OrderedLogit
from pril.errors import InputError, RowError
from pril.labels import bracket_names, find_edges, from_bounds, from_brackets

INF = np.inf
NO_LABEL = [np.nan, np.nan]

# Columns of a survey, with the edges and the classes that a person would read in them.
COLUMNS = {
    "the issue's incomes": (
        ["20-50k", "<20k", "under 50k", "100k+", "prefer not to say"],
        [20_000, 50_000, 100_000],
        [[1, 1], [0, 0], [0, 1], [3, 3], NO_LABEL],
    ),
    "euros": (
        ["under €1,000", "€1,000\u20132,500", "€ 2,500 or more"],
        [1000, 2500],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "whole years": (
        ["0-17", "18-64 years", "65+ years", "over 64"],
        [18, 65],
        [[0, 0], [1, 1], [2, 2], [2, 2]],
    ),
    "counts": (
        ["0", "1-2", "3-4", "5+", "2", "none of your business"],
        [1, 3, 5],
        [[0, 0], [1, 1], [2, 2], [3, 3], [1, 1], NO_LABEL],
    ),
    "only numbers and an open end": (
        ["0", "1", "2", "3 and more", "Don\u2019t know"],
        [1, 2, 3],
        [[0, 0], [1, 1], [2, 2], [3, 3], NO_LABEL],
    ),
    "census": (
        ["Less than $25,000", "$25,000 to under $50,000", "$50,000 & over"],
        [25_000, 50_000],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "an upper end that is left out": (["1 to under 3", "4+"], [3, 4], [[0, 0], [2, 2]]),
    "one below the next": (
        ["20,000-49,999", "50,000-99,999", "100k or more", "35,000"],
        [50_000, 100_000],
        [[0, 0], [1, 1], [2, 2], [0, 0]],
    ),
    "thousands, each in its own way": (
        ["CHF 1'000 to 2'000", "2.000.000 or more", "2 000 - 2 mio", "500 to 1 thousand CHF"],
        [1000, 2000, 2_000_000],
        [[1, 1], [3, 3], [2, 2], [0, 0]],
    ),
    "whole thousands": (["20-49k", "50-99k", "100k+"], [50_000, 100_000], [[0, 0], [1, 1], [2, 2]]),
    "decimals": (["0,5-1,5", "1.5-2.25", "2.25+"], [1.5, 2.25], [[0, 0], [1, 1], [2, 2]]),
    "negative numbers": (["-10 to -5", "-5-0", "≥ 0"], [-5, 0], [[0, 0], [1, 1], [2, 2]]),
    "brackets that overlap": (
        ["20-50k", "30-60k", "60k+", "up to 30k"],
        [20_000, 30_000, 50_000, 60_000],
        [[1, 2], [2, 3], [4, 4], [0, 1]],
    ),
    "a gap in the data": (
        ["under 10", "20-30", "30+", "12"],
        [10, 20, 30],
        [[0, 0], [2, 2], [3, 3], [1, 1]],
    ),
    "a scale that changes within": (
        ["500-1k", "1-5k", "5k+"],
        [1000, 5000],
        [[0, 0], [1, 1], [2, 2]],
    ),
}


@pytest.mark.parametrize(("texts", "edges", "y"), COLUMNS.values(), ids=COLUMNS)
def test_brackets_are_read_as_people_mean_them(texts, edges, y):
    missing = ["none of your business"]
    assert find_edges(texts, missing).tolist() == edges
    np.testing.assert_array_equal(from_brackets(texts, missing=missing), y)
    np.testing.assert_array_equal(from_brackets(texts, edges, "None  of your business"), y)


@pytest.mark.parametrize(
    "text",
    ["20-50k", "20 - 50 K", "20k\u201450k", "20 to 50 thousand", "between 20k and 50k", "20..50k",
     "from $20,000 to $50,000", "USD 20k - 50k", "20 000 until 50 000 a year"],
)  # fmt: skip
def test_spellings_of_one_bracket_are_equal(text):
    assert from_brackets([text], edges=[20_000, 50_000]).tolist() == [[1, 1]]
    assert from_brackets([text], edges=[30_000]).tolist() == [[0, 1]]


REFUSED = {
    "words": (["1-2", "many"], "row 1: 'many' cannot be read: the word 'many' is not known; cor"),
    "all of them": (["x", "1-2", "y", "x"], "row 0: 'x' .*nor can these be read: row 2: 'y'; correct"),
    "backwards": (["1-2", "5-3"], "row 1: '5-3' cannot be read: it ends below its start"),
    "a dot or thousands": (["1.250 to 3"], "row 0: .*1.250 may be a decimal number or thousands"),
    "a list": (["1,2,3 - 5"], "row 0: .*1,2,3 is not a number"),
    "two units": (["18 months", "2 years+"], "row 1: '2 years.' .*in year, not in month"),
    "two units in one": (["18 months - 2 years"], "row 0: .*in year, not in month"),
    "two currencies": (["$20k-30k", "30k+ EUR"], "row 1: .*in eur, not in usd"),
    "a number far off": (["15,000", "20-50k", "50-60k"], "row 0: '15,000' is outside the brackets"),
    "one bracket": (["1-2", "1-2"], "only one bracket"),
    "no answer at all": (["", None], "only one bracket"),
    "not a column": ([["1-2"]], "1d array of strings"),
    "one text": ("1-2", "1d array of strings"),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_listed_with_its_rows(texts, message):
    with pytest.raises(InputError, match=f"^text.*{message}"):
        from_brackets(texts)


def test_a_refusal_says_which_row():
    with pytest.raises(RowError) as refused:
        from_brackets(["1-2", "3+", "a lot"])
    assert refused.value.row == 2


@given(
    st.lists(st.integers(-500, 500), min_size=2, max_size=6, unique=True),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=8),
)
def test_texts_and_bounds_give_the_same_classes(edges, picks):
    """A bracket between two edges, written out, is the range between them."""
    edges = sorted(edges)
    ends = [-INF, *edges, INF]
    pairs = [(ends[min(a, b) % len(ends)], ends[max(a, b) % len(ends)]) for a, b in picks]
    pairs = [(low, high) for low, high in pairs if low < high and (low, high) != (-INF, INF)]
    texts = [
        f"under {high}" if low == -INF else f"{low} or more" if high == INF else f"{low} to {high}"
        for low, high in pairs
    ]
    low, high = np.array(pairs).reshape(-1, 2).T
    np.testing.assert_array_equal(
        from_brackets(texts, edges=edges), from_bounds(low, high, edges=edges)
    )


def test_a_column_of_a_survey_becomes_probabilities_of_named_brackets():
    income = pd.Series(["<20k", "20-50k", "50k+", "under 50k", None] * 8)
    edges = find_edges(income)
    X = np.arange(40.0).reshape(-1, 1) % 5
    model = OrderedLogit(classes=range(len(edges) + 1), random_state=0).fit(
        X, from_brackets(income)
    )
    shares = pd.DataFrame(model.predict_proba(X[:4]), columns=bracket_names(edges))
    assert list(shares) == ["below 20000", "20000 to 50000", "50000 or more"]
    assert shares.idxmax(axis=1)[0] == "below 20000"
