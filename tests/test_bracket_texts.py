"""Brackets of a number as people write them."""

from decimal import Decimal
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pril import OrderedLogit
from pril.core.brackets import Brackets
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
    "magnitudes": (
        ["under $10M", "$10M-$99M", "$100M-$999M", "$1B+"],
        [1e7, 1e8, 1e9],
        [[0, 0], [1, 1], [2, 2], [3, 3]],
    ),
    "other magnitudes": (
        [
            "unter 20 Tsd. EUR",
            "20-30 kEUR",
            "30-40 k\u20ac",
            "40 Tsd. - 1 Mio. \u20ac",
            "1 Mrd. EUR +",
        ],
        [2e4, 3e4, 4e4, 1e6, 1e9],
        [[0, 0], [1, 1], [2, 2], [3, 3], [5, 5]],
    ),
    "lakh and crore": (
        ["under 1 lakh", "1-5 lakh", "5 lakhs - 1 crore", "1 crore+"],
        [1e5, 5e5, 1e7],
        [[0, 0], [1, 1], [2, 2], [3, 3]],
    ),
    "a scale with signs": (
        ["-2", "\u22121", "0", "+1", "+2"],
        [-1, 0, 1, 2],
        [[0, 0], [1, 1], [2, 2], [3, 3], [4, 4]],
    ),
    "areas": (
        ["under 50 m\u00b2", "50-100 m\u00b2", "100 m2+"],
        [50, 100],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "m beside metres": (["under 5 m", "5-10 m", "10 metres+"], [5, 10], [[0, 0], [1, 1], [2, 2]]),
    "m beside money": (["under 5m", "5m-10m", "\u00a310m+"], [5e6, 1e7], [[0, 0], [1, 1], [2, 2]]),
    "a closed end": (["1-10", "11-20", ">20", "20"], [11, 21], [[0, 0], [1, 1], [2, 2], [1, 1]]),
    "a closed end of no steps": (
        ["0-5 km", "more than 5 km", "5 km"],
        [np.nextafter(5, INF)],
        [[0, 0], [1, 1], [0, 0]],
    ),
    "steps that only one shows": (
        ["0-5", "5.1-10", "10.1-15", "over 15"],
        [5.1, 10.1, 15.1],
        [[0, 0], [1, 1], [2, 2], [3, 3]],
    ),
    "over, beside one below": (["0-17", "18-64", "over 65"], [18, 65], [[0, 0], [1, 1], [2, 2]]),
    "more than, beside one below": (
        ["$35,000 to $49,999", "more than $50,000"],
        [50_000],
        [[0, 0], [1, 1]],
    ),
    "under, beside one above": (["under 18", "19-64"], [19], [[0, 0], [1, 1]]),
    "below, at, above": (["<5", "5", ">5"], [5, np.nextafter(5, INF)], [[0, 0], [1, 1], [2, 2]]),
    "commas that are decimals": (["0,500-1,000", "1,000-2,000"], [1], [[0, 0], [1, 1]]),
    "dots that are thousands": (
        ["unter 1.000 \u20ac", "1.000 bis 2.500,50 \u20ac", "ab 2.500,50 \u20ac"],
        [1000, 2500.5],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "digits of other scripts": (
        ["\uff11,\uff10\uff10\uff10-\uff12,\uff10\uff10\uff10", "\u0662,\u0660\u0660\u0660+"],
        [2000],
        [[0, 0], [1, 1]],
    ),
    "words after the number": (
        ["18 max", "19-20", "21 minimum", "65 upwards"],
        [19, 21, 65],
        [[0, 0], [1, 1], [2, 3], [3, 3]],
    ),
    "German": (
        ["unter 18", "18 bis 24 Jahre", "25 bis unter 65", "ab 65", "mehr als 64", "keine Angabe"],
        [18, 25, 65],
        [[0, 0], [1, 1], [2, 2], [3, 3], [3, 3], NO_LABEL],
    ),
    "French": (
        [
            "moins de 18 ans",
            "de 18 \u00e0 24 ans",
            "25 ans et plus",
            "jusqu'\u00e0 24",
            "sans r\u00e9ponse",
        ],
        [18, 25],
        [[0, 0], [1, 1], [2, 2], [0, 1], NO_LABEL],
    ),
    "Spanish": (
        ["menos de 18 a\u00f1os", "de 18 a 24", "m\u00e1s de 24", "no contesta"],
        [18, np.nextafter(24, INF)],
        [[0, 0], [1, 1], [2, 2], NO_LABEL],
    ),
    "minutes": (["under 10 min", "10-20 min", "20 min"], [10], [[0, 0], [1, 1], [1, 1]]),
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
    "an unknown unit": (["1-2 parrots"], "row 0: .*the word 'parrots' is not known"),
    "a million or a thousand": (["10 mil+"], "row 0: .*the word 'mil' is not known"),
    "a plus between": (["20+500"], "row 0: .*'.' stands between two numbers"),
    "metres or millions": (["5-10 m"], "row 0: .*'m' may be a metre or a million"),
    "metres and km": (["5 m", "1 km"], "row 1: .*it is in km, not in metre as '5 m' is"),
    "minutes or a minimum": (["5 min"], "row 0: .*'min' may be minutes or a minimum"),
    "a number that two texts claim": (
        ["20-50k", "50k+", "over 50k", "50000"],
        "row 2: 'over 50k' does not include 50000, but '50k.' does, and '50000' is",
    ),
    "a number that two texts leave": (
        ["20-50k", "under 50k", "100k+", "50k"],
        "row 0: '20-50k' includes 50000, but 'under 50k' does not, and '50k' is",
    ),
    "two meanings of a comma": (["1,5-2", "1,000,000+"], "row 0: .*1,5 is not a number where"),
    "a German comma": (["unter 1,000"], "row 0: .*1,000 may be a decimal number or thousands"),
    "a German billion": (["ab 2 billion"], "row 0: .*a billion is not the same number in every"),
    "euros and dollars": (["20-50 euros", "$50-100"], "row 1: .*in usd, not in eur as '20-50 eu"),
    "cents and dollars": (["5-10 cents", "$1-2"], "row 1: .*in usd, not in cent"),
    "money and a length": (["$20-50", "5 km"], "row 1: .*in km, not in usd"),
    "two rates": (["1-2 times a week", "3 times a month"], "row 1: .*per month, not per week"),
    "a word that belongs before": (["30 under"], "row 0: .*'under' does not belong after a number"),
    "a bullet": (["\u2014 20 to 30"], "row 0: .*the dash '\u2014' is neither between two numbers nor"),
    "another bullet": (["- 20 to 30"], "row 0: .*the dash '-' is neither between two numbers nor"),
    "thousands left out": (["10-20,000", "20,000+"], "row 0: .*first number may lack its thousands"),
    "a magnitude of one or both": (["$1-$10k"], "row 0: .*may have the magnitude of the second"),
    "500 or 500 thousand": (["500-1 million"], "row 0: .*only one of the numbers has a magnitude"),
    "a date": (["2020-05-01"], "row 0: .*more than two numbers"),
    "a fraction": (["12/24"], "row 0: .*the sign '/' is not known"),
    "a choice that is no range": (["1 or 5"], "row 0: .*the two numbers are not next to each other"),
    "too large": (["1e400+"], "row 0: .*the number is too large or too small"),
    "truth": ([True, "1+"], "row 0: True is neither a text nor a finite number"),
    "infinity": ([np.inf, "1+"], "row 0: inf is neither a text nor a finite number"),
    "texts that disagree": (["0-17", "under 17", "18+"], "row 0: '0-17' does not fit the other"),
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


def test_numbers_are_not_read_as_text():
    cells = [1e-05, 5e-05, 123.456, 0.0, np.float64(2.5), Decimal("1.250"), 20]
    y = from_brackets(cells, edges=[2e-05, 1, 2, 20, 100])
    assert y[:, 0].tolist() == y[:, 1].tolist() == [0, 1, 5, 0, 3, 2, 4]
    assert from_brackets(["1e-05", "5E-05"], edges=[2e-05]).tolist() == [[0, 0], [1, 1]]


def test_what_was_learned_is_read_alike_alone():
    """A stream reads one text at a time: with what the column has told, it reads the same."""
    for texts, edges, y in COLUMNS.values():
        first = {text: row for row, text in enumerate(texts)}
        column = Brackets(first, ["none of your business"], "text")
        for text, wanted in zip(texts, y, strict=True):
            alone = Brackets(
                {text: 0}, ["none of your business"], "text", spelling=column.spelling, edges=edges
            )
            assert list(alone.classes(edges)[text] or NO_LABEL) == pytest.approx(
                wanted, nan_ok=True
            )


def test_an_edge_right_above_a_number_is_named_after_it():
    above = [np.nextafter(number, INF) for number in (5.0, 2.5)]
    assert bracket_names([above[0]]) == ["up to 5", "over 5"]
    assert bracket_names([2.5, above[1], 10]) == [
        "below 2.5",
        "2.5",
        "over 2.5 to 10",
        "10 or more",
    ]


# --- Every pair of neighbours, against sets of numbers --------------------------------------------


class Written(NamedTuple):
    """A bracket with its ends, and which of them it includes."""

    text: str
    low: float = -INF
    high: float = INF
    has_low: bool = False
    has_high: bool = False

    def holds(self, number):
        """Tell whether a number is in the bracket."""
        above = self.low <= number if self.has_low else self.low < number
        return above and (number <= self.high if self.has_high else number < self.high)


def written():
    """Return every bracket with ends from 1 to 5."""
    for a in range(1, 6):
        yield Written(f"under {a}", high=a)
        yield Written(f"up to {a}", high=a, has_high=True)
        yield Written(f"over {a}", low=a)
        yield Written(f"{a} or more", low=a, has_low=True)
        for b in range(a + 1, 6):
            yield Written(f"{a}-{b}", a, b, True, True)
            yield Written(f"{a} to under {b}", a, b, True, False)
            yield Written(f"over {a} to {b}", a, b, False, True)


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_number_is_in_the_class_of_each_bracket_that_includes_it(number):
    """Except for an end where the other begins, and for "over 4" beside a bracket that ends at 3."""
    for pair in combinations(written(), 2):
        held = [bracket.holds(number) for bracket in pair]
        ends = [number in (bracket.low, bracket.high) for bracket in pair]
        try:
            *classes, (rank, _) = from_brackets([*(bracket.text for bracket in pair), str(number)])
        except RowError:
            assert all(ends) or not any(held), pair  # a contradiction, or far from both
            continue
        except InputError:  # both are the same bracket
            continue
        for (low, high), bracket, other in zip(classes, pair, pair[::-1], strict=True):
            yields = bracket.high == number == other.low and other.has_low
            stretched = bracket.low == number == other.high + 1 and other.has_high
            if not yields and not (stretched and bracket.high == INF):
                assert (low <= rank <= high) == bracket.holds(number), pair


@given(st.lists(st.sampled_from(list(written())), min_size=2, max_size=6, unique=True))
def test_classes_are_those_that_a_bracket_touches(column):
    """No class is in two brackets that share no number, and none is left out of one that holds it.

    On the midpoints between ends, which nobody's rule about ends can move.
    """
    try:
        y = from_brackets([bracket.text for bracket in column])
        edges = find_edges([bracket.text for bracket in column])
    except InputError:
        return  # texts that contradict one another
    if {bracket.high + 1 for bracket in column} & {bracket.low for bracket in column}:
        return  # 1-2 and 3-4 may mean that there is no 2.5
    for number in (1.5, 2.5, 3.5, 4.5):
        rank = np.searchsorted(edges, number, side="right")
        for bracket, (low, high) in zip(column, y, strict=True):
            ends = [end for other in column for end in (other.low, other.high)]
            if min(ends) < number < max(ends):
                assert (low <= rank <= high) == bracket.holds(number)


SPELLINGS = [
    "20-50k",
    "under $1,000",
    "65+ years",
    "1e3 to 2e4",
    "10 000 \u2013 20 000 \u20ac",
    "de 18 \u00e0 24",
]


@given(
    st.sampled_from(SPELLINGS),
    st.lists(st.tuples(st.integers(0, 20), st.text("0123456789-+<>=$%.,'e kmM\u20ac", max_size=1))),
)
def test_a_slip_of_the_pen_is_read_or_refused(text, slips):
    """Each slip puts a sign in the place of another, or drops it; any digit stays in its number."""
    for at, sign in slips:
        text = text[:at] + sign + text[at + 1 :]
    try:
        column = Brackets({text: 0}, (), "text")
    except RowError as refused:
        assert refused.row == 0  # noqa: PT017 - it may also be read
        return
    for bracket in column.read.values():
        digits = "".join(sign for sign in text if sign.isdigit())
        for end in (bracket.low, bracket.high):
            if end:  # no digit of it comes from nowhere
                found = "".join(map(str, abs(end).as_tuple().digits)).strip("0")
                assert found in digits


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
