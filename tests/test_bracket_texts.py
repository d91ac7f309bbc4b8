"""Brackets of a number as people write them."""

import random
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pril import OrderedLogit
from pril.errors import InputError, RowError
from pril.labels import bracket_names, find_edges, from_bounds, from_brackets, ranking
from pril.labels.brackets import Brackets, Spelling

INF = np.inf
NO_LABEL = [np.nan, np.nan]

ENGLISH, GERMAN, SWISS = {"thousands": ","}, {"decimal": ",", "thousands": "."}, {"thousands": "'"}
FRENCH = {"decimal": ",", "thousands": " "}

# Columns of a survey, with the edges and the classes that a person would read in them.
COLUMNS = {
    "the issue's incomes": (
        ["20-50k", "<20k", "under 50k", "100k+", "prefer not to say"],
        [20_000, 50_000, 100_000],
        [[1, 1], [0, 0], [0, 1], [3, 3], NO_LABEL],
    ),
    "euros": (
        ["under \u20ac1,000", "\u20ac1,000\u20132,500", "\u20ac 2,500 or more"],
        [1000, 2500],
        [[0, 0], [1, 1], [2, 2]],
        ENGLISH,
    ),
    "whole years": (
        ["0-17 years", "18-64 years", "65+ years", "over 64 years"],
        [18, 65],
        [[0, 0], [1, 1], [2, 2], [2, 2]],
    ),
    "years of age": (
        ["under 18 years of age", "18 to 64 years of age", "65 years of age or older"],
        [18, 65],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "one and several": (
        ["under 1 year", "1-2 years", "3 years or more"],
        [1, 3],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "a unit that nobody has heard of": (
        ["under 5 frobs a week", "5-10 frobs a week", "10+ frobs a week"],
        [5, 10],
        [[0, 0], [1, 1], [2, 2]],
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
        ENGLISH,
    ),
    "a census that nobody explains": (
        ["Less than $15,000", "$15,000 to $24,999", "$25,000 to $49,999", "$50,000 or more"],
        [15_000, 25_000, 50_000],
        [[0, 0], [1, 1], [2, 2], [3, 3]],
    ),
    "a million that shows what commas are": (
        ["Less than $500", "$500 to $999,999", "$1,000,000 or more"],
        [500, 1_000_000],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "euros that nobody explains": (
        ["unter 3.000 \u20ac", "3.000 bis unter 4.500 \u20ac", "ab 4.500 \u20ac"],
        [3000, 4500],
        [[0, 0], [1, 1], [2, 2]],
    ),
    "an upper end that is left out": (["1 to under 3", "4+"], [3, 4], [[0, 0], [2, 2]]),
    "one below the next": (
        ["20,000-49,999", "50,000-99,999", "100k or more", "35,000"],
        [50_000, 100_000],
        [[0, 0], [1, 1], [2, 2], [0, 0]],
        ENGLISH,
    ),
    "Swiss francs": (
        ["CHF 1'000 to 2'000", "CHF 2\u2019000 - 2'500'000", "CHF 2.5 mio +"],
        [2000, 2_500_000],
        [[0, 0], [1, 1], [2, 2]],
        SWISS,
    ),
    "whole thousands": (["20-49k", "50-99k", "100k+"], [50_000, 100_000], [[0, 0], [1, 1], [2, 2]]),
    "decimals": (["0.5-1.5", "1.5-2.25", "2.25+"], [1.5, 2.25], [[0, 0], [1, 1], [2, 2]]),
    "three decimals": (
        ["0.500-1.000", "1.000-2.125"],
        [1],
        [[0, 0], [1, 1]],
        {"thousands": ""},
    ),
    "negative numbers": (["-10 to -5", "-5-0", "\u2265 0"], [-5, 0], [[0, 0], [1, 1], [2, 2]]),
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
        ["unter 20 Tsd. EUR", "20-30 k EUR", "30 Tsd. - 1 Mio. EUR", "1 Mrd. EUR +"],
        [2e4, 3e4, 1e6, 1e9],
        [[0, 0], [1, 1], [2, 2], [4, 4]],
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
    "areas": (["under 50 m2", "50-100 m2", "100 m2+"], [50, 100], [[0, 0], [1, 1], [2, 2]]),
    "m beside money": (["under \u00a35m", "\u00a35m-10m"], [5e6], [[0, 0], [1, 1]]),
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
        ["$35,000 to $49,999", "more than $50k"],
        [50_000],
        [[0, 0], [1, 1]],
        ENGLISH,
    ),
    "under, beside one above": (["under 18", "19-64"], [19], [[0, 0], [1, 1]]),
    "below, at, above": (["<5", "5", ">5"], [5, np.nextafter(5, INF)], [[0, 0], [1, 1], [2, 2]]),
    "dots that are thousands": (
        ["unter 3.000 \u20ac", "3.000 bis unter 4.500 \u20ac", "ab 4.500,50 \u20ac"],
        [3000, 4500, 4500.5],
        [[0, 0], [1, 1], [3, 3]],
        GERMAN,
    ),
    "digits of other scripts": (["\uff11-\uff12", "\u0662+"], [2], [[0, 0], [1, 1]]),
    "words after the number": (
        ["18 max", "19-20", "21 minimum", "65 upwards"],
        [19, 21, 65],
        [[0, 0], [1, 1], [2, 3], [3, 3]],
    ),
    "German": (
        ["unter 18", "18 bis 24", "25 bis unter 65", "ab 65", "mehr als 64", "keine Angabe"],
        [18, 25, 65],
        [[0, 0], [1, 1], [2, 2], [3, 3], [3, 3], NO_LABEL],
    ),
    "French": (
        ["moins de 18 ans", "de 18 \u00e0 24 ans", "25 ans et plus", "jusqu\u2019\u00e0 24 ans",
         "sans r\u00e9ponse"],
        [18, 25],
        [[0, 0], [1, 1], [2, 2], [0, 1], NO_LABEL],
    ),
    "French euros": (
        ["moins de 1\u202f000,50 \u20ac", "de 1 000,50 \u00e0 moins de 2 000 \u20ac", "2 000 \u20ac et plus"],
        [1000.5, 2000],
        [[0, 0], [1, 1], [2, 2]],
        FRENCH,
    ),
    "Spanish": (
        ["menos de 18 a\u00f1os", "de 18 a 24 a\u00f1os", "m\u00e1s de 24 a\u00f1os", "no contesta"],
        [18, np.nextafter(24, INF)],
        [[0, 0], [1, 1], [2, 2], NO_LABEL],
    ),
    "Spanish euros": (
        ["menos de EUR 20", "de EUR 20 a EUR 35", "de EUR 35 a menos de EUR 50", "EUR 50 o m\u00e1s"],
        [20, 35, 50],
        [[0, 0], [1, 1], [2, 2], [3, 3]],
    ),
    "an end that another text shows": (
        ["under 1k", "1-5k", "5k+"],
        [1000, 5000],
        [[0, 0], [1, 1], [2, 2]],
    ),
}  # fmt: skip


def column(texts, edges, y, marks=None):
    """Return a column of `COLUMNS`, and how its numbers are written."""
    return texts, edges, y, marks or {}


@pytest.mark.parametrize("case", COLUMNS.values(), ids=COLUMNS)
def test_brackets_are_read_as_people_mean_them(case):
    texts, edges, y, marks = column(*case)
    missing = ["none of your business"]
    assert find_edges(texts, missing, **marks).tolist() == edges
    np.testing.assert_array_equal(from_brackets(texts, missing=missing, **marks), y)
    np.testing.assert_array_equal(from_brackets(texts, edges, "None  of your business", **marks), y)


@pytest.mark.parametrize(
    "text",
    ["20-50k", "20 - 50 K", "20k\u201450k", "20 to 50 thousand", "between 20k and 50k", "20..50k",
     "from $20,000 to $50,000", "USD 20k - 50k", "20000 until 50000 a year"],
)  # fmt: skip
def test_spellings_of_one_bracket_are_equal(text):
    assert from_brackets([text], edges=[20_000, 50_000], thousands=",").tolist() == [[1, 1]]
    assert from_brackets([text], edges=[30_000], thousands=",").tolist() == [[0, 1]]


REFUSED = {
    "words": (["1-2", "many"], "row 1: 'many' cannot be read: it has no number; cor"),
    "twenty more": ([*"abcdefghijklmnopqrstu"], "row 19: 't', row 20: 'u'; correct"),
    "too many": ([*"abcdefghijklmnopqrstuvw"], "row 20: 'u', and 2 more; correct"),
    "all of them": (["x", "1-2", "y", "x"], "row 0: 'x' .*nor can these be read: row 2: 'y'; correct"),
    "backwards": (["1-2", "5-3"], "row 1: '5-3' cannot be read: it ends below its start"),
    "an empty one": (["over 3 to under 3"], "row 0: .*no number is in it"),
    "a dot or thousands": (
        ["1.250 to 3"],
        "row 0: .*1.250 may have decimals or thousands; 1.250 is 1250 with decimal=',' and "
        "thousands='.', or 1.25 with decimal='.' and thousands=''; correct",
    ),
    "one that is no group": (["$1,50+", "$15,000+"], "row 0: .*1,50 is not a number with the decimal mark "
                             "'.'; 1,50 is 1.5 with decimal=',' and thousands=''; nor can"),
    "classes that thousands change": (
        ["under $500", "$500 to $999", "$1,000 or more"],
        "row 2: .* 1,000 is 1000 with decimal='.' and thousands=',', or 1 with",
    ),
    "a comma and a point": (["1,500-2.000", "2.5+"], "row 0: .*1,500 may .* 1500 with decimal='.' and thousands=',';"),
    "spaces nobody told": (["20 000-30 000"], "row 0: .*20 000 is not a number with .*; 20 000 is 20000 with decimal='.' and thousands=' ';"),
    "a list": (["1,2,3 - 5"], "row 0: .*1,2,3 is not a number"),
    "two units": (["18 months", "2 years+"], "row 1: '2 years.' .*its unit is 'year', that of the column 'month'"),
    "a unit and none": (["18-24 years", "25+"], "row 1: '25.' .*its unit is None, that of the column 'year'"),
    "a number without the unit": (["18-24 years", 25.0], "row 1: 25.0 .*its unit is None"),
    "two units in one": (["18 months - 2 years"], "row 0: .*it is in 'month' and in 'year'"),
    "two currencies": (["$20k-30k", "30k+ EUR"], "row 1: .*unit is 'EUR', that of the column '\\$'"),
    "two spellings of one": (["\u20ac20-30", "30 euros+"], "row 1: .*unit is 'euro', that of the"),
    "metres and milliseconds": (["5-10 cm", "10+ CM"], "row 1: .*unit is 'CM', that of the"),
    "a number far off": (["15000", "20-50k", "50-60k"], "row 0: '15000' is outside the brackets"),
    "a million or a thousand": (["10 mil+"], "row 0: .*'mil' may be a thousand or a million"),
    "metres or millions": (["5-10 m"], "row 0: .*'m' may be a metre or a million"),
    "minutes or a minimum": (["5 min"], "row 0: .*'min' may be a minute or a minimum"),
    "a billion": (["2 billion+"], "row 0: .*'billion' may be bn, or a thousand of them"),
    "a magnitude in a unit": (["5 kEUR+"], "row 0: .*'kEUR' cannot stand there"),
    "two magnitudes": (["5 hundred thousand"], "row 0: .*'thousand' cannot stand there"),
    "a role in a unit": (["5 less"], "row 0: .*'less' cannot stand there"),
    "a role without spaces": (["5 ormore"], "row 0: .*'ormore' cannot stand there"),
    "up, in German": (["18 aufw\u00e4rts"], "row 0: .*'aufw\u00e4rts' cannot stand there"),
    "a word before": (["about 5"], "row 0: .*'about' cannot stand there"),
    "another word before": (["level 5"], "row 0: .*'level' belongs to no number"),
    "an end that is missing": (["18 a"], "row 0: .*'a' belongs to no number"),
    "a half": (["2\u00bd"], "row 0: .*'\u00bd' cannot stand there"),
    "a square": (["5\u00b2"], "row 0: .*'\u00b2' cannot stand there"),
    "a letter that looks like another": (["le\u017fs than 5"], "row 0: .*it is not a bracket"),
    "a plus between": (["20+500"], "row 0: .*it is not a bracket such as 20-50k"),
    "a number that two texts claim": (
        ["20-50k", "50k+", "over 50k", "50000"],
        "row 2: 'over 50k' does not include 50000, but another text does",
    ),
    "a number that two texts leave": (
        ["20-50k", "under 50k", "100k+", "50k"],
        "row 0: '20-50k' includes 50000, but another text does not",
    ),
    "a word that belongs before": (["30 under"], "row 0: .*it is not a bracket"),
    "a bullet": (["\u2014 20 to 30"], "row 0: .*'\u2014' is neither between two numbers nor"),
    "another bullet": (["- 20 to 30"], "row 0: .*'-' is neither between two numbers nor"),
    "a sign of no number": (["5+ -$"], "row 0: .*a sign belongs to no number"),
    "thousands left out": (["10-20000", "20000+"], "row 0: .*first number may lack its thousands"),
    "a magnitude of one or both": (["$1-$10k"], "row 0: .*may have the magnitude of the second"),
    "20 or 20 thousand": (["under 20", "20-50k"], "row 1: .*may have the magnitude of the second"),
    "500 or 500 thousand": (["500-1k"], "row 0: .*its first number is above the second if both"),
    "its end before its start": (["50-10k"], "row 0: .*its first number is above the second if both"),
    "a date": (["2020-05-01"], "row 0: .*more than two numbers"),
    "a fraction": (["12/24"], "row 0: .*it is not a bracket"),
    "an aside": (["5-10 (about)"], "row 0: .*the sign '\\(' is not known"),
    "a choice that is no range": (["1 or 5"], "row 0: .*the two numbers are not next to each other"),
    "too large": (["1e400+"], "row 0: .*the number is too large or too small"),
    "truth": ([True, "1+"], "row 0: True is neither a text nor a finite number"),
    "infinity": ([np.inf, "1+"], "row 0: inf is neither a text nor a finite number"),
    "texts that disagree": (["0-17", "under 17", "18+"], "row 0: '0-17' does not fit the other"),
    "no whole number": (["0-2", "3+", "over 0 to under 1"], "row 2: .*does not fit the other"),
    "one bracket": (["1-2", "1-2"], "only one bracket"),
    "no answer at all": (["", None], "only one bracket"),
    "not a column": ([["1-2"]], "1d array of strings"),
    "one text": ("1-2", "1d array of strings"),
}  # fmt: skip


@pytest.mark.parametrize(("texts", "message"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_read_is_listed_with_its_rows(texts, message):
    with pytest.raises(InputError, match=f"^text.*{message}"):
        from_brackets(texts)


@pytest.mark.parametrize(
    ("marks", "message"),
    [
        ({"decimal": ";"}, "decimal ';': expected '.' or ','"),
        ({"thousands": "k"}, "thousands 'k': expected one of"),
        ({"decimal": ",", "thousands": ","}, "thousands ',': it is the decimal mark too"),
    ],
)
def test_marks_that_cannot_be_are_refused(marks, message):
    for function in (from_brackets, find_edges):
        with pytest.raises(InputError, match=message):
            function(["1-2", "3+"], **marks)


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
    missing = ["none of your business"]
    for case in COLUMNS.values():
        texts, edges, y, marks = column(*case)
        first = {text: row for row, text in enumerate(texts)}
        spelling = Brackets(first, missing, "text", Spelling(**marks)).spelling
        for text, wanted in zip(texts, y, strict=True):
            alone = Brackets({text: 0}, missing, "text", spelling, edges)
            ranks = alone.classes(edges)[text]
            assert ranks == (ranking.NO_LABEL if np.isnan(wanted).all() else tuple(wanted))


def test_an_edge_right_above_a_number_is_named_after_it():
    above = [np.nextafter(number, INF) for number in (5.0, 2.5)]
    assert bracket_names([above[0]]) == ["up to 5", "over 5"]
    assert bracket_names([2.5, above[1], 10]) == [
        "below 2.5",
        "2.5",
        "over 2.5 to 10",
        "10 or more",
    ]


# --- Brackets beside one another, against sets of numbers ----------------------------------------


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
    """Return every bracket with ends from 1 to 5, and these numbers."""
    for a in range(1, 6):
        yield Written(str(a), a, a, True, True)
        yield Written(f"under {a}", high=a)
        yield Written(f"up to {a}", high=a, has_high=True)
        yield Written(f"over {a}", low=a)
        yield Written(f"{a} or more", low=a, has_low=True)
        for b in range(a + 1, 6):
            yield Written(f"{a}-{b}", a, b, True, True)
            yield Written(f"{a} to under {b}", a, b, True, False)
            yield Written(f"over {a} to {b}", a, b, False, True)


@given(st.lists(st.sampled_from(list(written())), min_size=1, max_size=6, unique=True))
@settings(max_examples=300)
def test_a_class_holds_the_numbers_that_its_text_holds(brackets):
    """Numbers of the column, and those between ends; in columns of whole numbers also the ends.

    A number that no text holds is in none of their classes, or in that of the text beside it.
    """
    texts = [bracket.text for bracket in brackets]
    try:
        y, edges = from_brackets(texts), find_edges(texts)
    except InputError:
        return  # texts that contradict one another
    wide = [bracket for bracket in brackets if bracket.low < bracket.high]
    begins = {bracket.low for bracket in wide if bracket.has_low}
    numbers = {bracket.low for bracket in brackets} - {bracket.low for bracket in wide}
    numbers |= {float(text) for text in texts if text.isdigit()}
    closed = [bracket.high for bracket in wide if bracket.has_high and bracket.high not in begins]
    are_whole = any(end + 1 in begins for end in closed)
    may_be_whole = are_whole or any(
        end + 1 in {*numbers, *(bracket.low for bracket in wide)} for end in closed
    )
    ends = {end for bracket in wide for end in (bracket.low, bracket.high)}
    for number in np.arange(0, 7, 0.5):
        is_clear = (number not in ends or are_whole) if number % 1 == 0 else not may_be_whole
        if not (number in numbers or is_clear) or not any(b.holds(number) for b in brackets):
            continue
        rank = np.searchsorted(edges, number, side="right")
        for bracket, (low, high) in zip(brackets, y, strict=True):
            yields = bracket.high == number and number in begins
            if bracket.low < bracket.high and not yields:
                assert (low <= rank <= high) == bracket.holds(number), (texts, number)


# --- Surveys in four languages, against bounds ---------------------------------------------------

# How to say: below, at most, over, at least, from .. to, from .. to below.
LANGUAGES = {
    "English": (
        ["under {}", "below {}", "less than {}", "fewer than {}", "< {}"],
        ["up to {}", "at most {}", "no more than {}", "{} or less", "{} and fewer", "\u2264 {}"],
        ["over {}", "above {}", "more than {}", "> {}"],
        ["at least {}", "from {}", "{} or more", "{} and over", "{}+", "\u2265 {}"],
        ["{} to {}", "{}-{}", "{} \u2013 {}", "from {} to {}", "between {} and {}"],
        ["{} to under {}", "from {} to below {}", "{} to less than {}", "{} but less than {}"],
    ),
    "German": (
        ["unter {}", "weniger als {}"],
        ["bis {}", "bis zu {}", "h\u00f6chstens {}", "{} und weniger"],
        ["\u00fcber {}", "mehr als {}"],
        ["ab {}", "mindestens {}", "{} und mehr", "{} oder mehr"],
        ["{} bis {}", "von {} bis {}", "zwischen {} und {}"],
        ["{} bis unter {}", "von {} bis unter {}"],
    ),
    "French": (
        ["moins de {}"],
        ["jusqu'\u00e0 {}", "au plus {}", "{} et moins"],
        ["plus de {}"],
        ["\u00e0 partir de {}", "au moins {}", "{} et plus", "{} ou plus"],
        ["de {} \u00e0 {}", "entre {} et {}", "{} \u00e0 {}"],
        ["de {} \u00e0 moins de {}", "{} \u00e0 moins de {}"],
    ),
    "Spanish": (
        ["menos de {}", "menores de {}"],
        ["hasta {}", "como m\u00e1ximo {}", "{} o menos"],
        ["m\u00e1s de {}", "mayores de {}"],
        ["a partir de {}", "al menos {}", "desde {}", "{} o m\u00e1s", "{} y m\u00e1s"],
        ["de {} a {}", "entre {} y {}", "desde {} hasta {}"],
        ["de {} a menos de {}"],
    ),
}
UNITS = [
    "",
    " years",
    " ans",
    " %",
    " \u20ac",
    " EUR pro Monat",
    " times a week",
    " m2",
    " Personen",
]


def survey_column(rng):
    """Return brackets between some cut points as people write them, and their bounds."""
    forms = LANGUAGES[rng.choice(list(LANGUAGES))]
    marks = rng.choice([{}, ENGLISH, GERMAN, SWISS, FRENCH])
    unit, magnitude = rng.choice(UNITS), rng.choice(["", "", "k"])
    unit_before = rng.choice(["", "", "$", "US$", "EUR ", "Rs. "]) if not unit else ""
    scale = rng.choice([2.5, 10, 250, 1000, 12500] if not magnitude else [10, 250])
    cuts = [scale * number for number in sorted(rng.sample(range(1, 40), rng.randint(2, 6)))]

    def spelled(number):
        point, group = marks.get("decimal", "."), marks.get("thousands", "")
        text = f"{number:,.1f}" if number % 1 else f"{number:,.0f}"
        text = text.replace(",", "g").replace(".", point).replace("g", group)
        return f"{unit_before}{text}{magnitude}{unit}"

    texts, bounds = [], []
    for _ in range(rng.randint(1, 8)):
        kind = rng.randrange(6)
        low, high = sorted(rng.sample(cuts, 2))
        ends = [(-INF, high), (-INF, high), (low, INF), (low, INF), (low, high), (low, high)][kind]
        written = [end for end in ends if abs(end) < INF]
        texts.append(rng.choice(forms[kind]).format(*map(spelled, written)))
        bounds.append([end * (1000 if magnitude else 1) for end in ends])
    return texts, bounds, [cut * (1000 if magnitude else 1) for cut in cuts], marks


@pytest.mark.parametrize("seed", range(4))
def test_surveys_in_four_languages_have_the_classes_of_their_bounds(seed):
    rng = random.Random(seed)  # noqa: S311
    for _ in range(100):
        texts, bounds, cuts, marks = survey_column(rng)
        lower, upper = np.array(bounds).T
        wanted = from_bounds(lower, upper, edges=cuts)
        np.testing.assert_array_equal(from_brackets(texts, cuts, **marks), wanted, str(texts))
        for odd in ("5 parrots", "12;34", "5 or", "5 5", "1.2.34", "1,2,34"):
            with pytest.raises(RowError, match=f"row {len(texts)}: "):
                from_brackets([*texts, odd], cuts, **marks)


# --- Marks that nobody has told ------------------------------------------------------------------


def by_hand(digits, decimal, thousands):
    """Return what a number is worth with some marks, None if it is not written with them."""
    whole, point, fraction = digits.partition(decimal)
    plain = whole.replace(thousands, "") if thousands else whole
    is_grouped = plain == whole or f"{int(plain or 0):,}".replace(",", thousands) == whole
    is_number = plain.isdigit() and (fraction.isdigit() if point else True)
    return Decimal(f"{plain}.{fraction or 0}") if is_number and is_grouped else None


def ends_by_hand(column, decimal, thousands):
    """Return the ends of all brackets with some marks, None if one of them cannot be."""
    ends = [[by_hand(digits, decimal, thousands) for digits in own] for _, own in column]
    if any(None in own or own != sorted(set(own)) for own in ends):
        return None
    return ends


def pattern_of(ends):
    """Return the places of ends among all of them: as long as it is the same, the classes are."""
    places = sorted({end for own in ends for end in own})
    return [[places.index(end) for end in own] for own in ends]


def read_by_hand(column):
    """Return the ends of brackets as thousands, or with decimal points; None if it is unclear."""
    numbers = [digits for _, own in column for digits in own]
    every = lambda *marks: all(by_hand(digits, *marks) is not None for digits in numbers)  # noqa: E731
    ways = [(d, t) for d, t in (".,", ",.") if any(t in n for n in numbers) and every(d, t)]
    if len(ways) == 1:
        [(decimal, mark)] = ways
        ends = ends_by_hand(column, decimal, mark)
        if any(mark in digits and by_hand(digits, mark, "") is None for digits in numbers):
            return ends
        others = ends_by_hand(column, mark, "") if every(mark, "") else None
        if ends and others and pattern_of(ends) == pattern_of(others):
            return ends
    may_be_either = any(
        len(n) > 4 and n[-4] in ".," and n[0] != "0" for n in numbers if n[-3:].isdigit()
    )
    return ends_by_hand(column, ".", "") if every(".", "") and not may_be_either else None


def unexplained_column(rng):
    """Return brackets, as a form and its numbers, in one style, with some numbers in another."""
    forms = ["under {}", "{} or more", "{} to under {}"]
    styles = [rng.choice([".,", ",.", ". ", ", "]) for _ in range(2)]
    has_decimals, size = rng.random() < 0.2, rng.choice([9, 900, 90_000, 9_000_000])
    column = []
    for _ in range(rng.randint(2, 6)):
        form = rng.choice(forms)
        numbers = sorted(
            7 * rng.randint(1, size) * 1000 ** (rng.random() < 0.3) + 1
            for _ in range(form.count("{"))
        )
        own = []
        for number in numbers:
            decimal, thousands = styles[rng.random() < 0.05]
            text = f"{number + 0.25:,.2f}" if has_decimals and rng.random() < 0.5 else f"{number:,}"
            marks = {",": thousands.strip(), ".": decimal}
            own.append("".join(marks.get(sign, sign) for sign in text))
        column.append((form, own))
    return column


@pytest.mark.parametrize("seed", range(2))
def test_marks_that_nobody_tells_are_read_only_if_no_class_depends_on_them(seed):
    rng, n_read = random.Random(seed), 0  # noqa: S311
    for _ in range(600):
        column = unexplained_column(rng)
        texts, ends = [form.format(*own) for form, own in column], read_by_hand(column)
        try:
            found = find_edges(texts).tolist()
        except RowError as refused:
            assert ends is None or "lack its thousands" in str(refused), texts  # noqa: PT017
            continue
        assert ends is not None, texts
        inner = {end for own in ends for end in own}
        begins = {own[0] for (form, _), own in zip(column, ends, strict=True) if form[0] == "{"}
        if not any(form[0] == "u" for form, _ in column):
            inner.discard(min(inner))
        if max(inner, default=0) not in begins and not any("more" in form for form, _ in column):
            inner.discard(max(inner, default=0))
        assert found == sorted(map(float, inner)), texts
        n_read += any("," in text or "." in text for text in texts)
    assert n_read > 100


@pytest.mark.parametrize("edge", [1.44, 1440])
def test_an_edge_shows_what_marks_are(edge):
    texts = ["< 1.440 kg", "1.440 kg or more"]
    assert from_brackets(texts, [edge]).tolist() == [[0, 0], [1, 1]]
    with pytest.raises(RowError, match=r"1.440 may have decimals or thousands"):
        from_brackets(texts, [2])


# --- Slips ---------------------------------------------------------------------------------------

SPELLINGS = [
    "20-50k",
    "under $1,000",
    "65+ years",
    "1e3 to 2e4",
    "10,000 \u2013 20,000 \u20ac",
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
        read = Brackets({text: 0}, (), "text", Spelling(thousands=",")).read
    except RowError as refused:
        assert refused.row == 0  # noqa: PT017 - it may also be read
        return
    for bracket in read.values():
        digits = "".join(sign for sign in text if sign.isdigit())
        for end in (bracket.low, bracket.high):
            if end and end.is_finite():  # no digit of it comes from nowhere
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


@pytest.mark.parametrize("numbers", [[0, 1, 2], ["0", "1", "2"]])
def test_whole_numbers_one_apart_are_brackets_of_their_own(numbers):
    assert find_edges([*numbers, "3 or more"]).tolist() == [1.0, 2.0, 3.0]


def test_texts_that_mean_no_answer_must_be_texts():
    assert np.isnan(from_brackets(["1-2", "2-3", "99"], missing="99")[2]).all()
    with pytest.raises(TypeError, match=r"missing must hold texts, got \[99\]"):
        from_brackets(["1-2", "2-3", "99"], missing=[99])
