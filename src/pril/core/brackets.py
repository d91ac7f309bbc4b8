"""Brackets of a number as people write them: "20-50k", "under 18", "65 or older"."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from pril.errors import InputError, RowError, shown

NO_ANSWER = (
    "",
    "-",
    "don't know",
    "dont know",
    "n/a",
    "na",
    "no answer",
    "not sure",
    "prefer not to answer",
    "prefer not to say",
    "refused",
    "unknown",
)
SCALES = {
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "mn": 1e6,
    "mio": 1e6,
    "million": 1e6,
    "bn": 1e9,
    "billion": 1e9,
}
SAME: dict[str, str] = {
    **dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2212", "-"),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"),
    "\u2264": "<=",
    "\u2265": ">=",
    "&": "and",
}
SAME_CODES = {ord(sign): plain for sign, plain in SAME.items()}
CURRENCIES = {"$": "usd", "us$": "usd", "\u20ac": "eur", "\u00a3": "gbp", "\u00a5": "jpy"}
CODES = {*CURRENCIES.values(), "aud", "cad", "chf", "cny", "dkk", "inr", "nok", "nzd", "sek"}

_SCALE = "|".join(sorted(SCALES, key=len, reverse=True))
_MONEY = r"[$\u20a0-\u20cf\u00a3\u00a5]"
_UNIT = (
    r"(?!(?:or|and|to|plus)\b)(?:(?:per|an?|/) ?)?[a-z%\u00b0\u00b2\u00b3]+"
    r"(?: old| per [a-z]+| an? [a-z]+| ?/ ?[a-z]+)?"
)
_NUMBER = (
    r"(?P<minus@>-)? ?"
    rf"(?P<before@>[a-z]{{0,2}}{_MONEY}|{'|'.join(sorted(CODES))})? ?"
    r"(?P<digits@>\d(?:[\d.,' ]*\d)?) ?"
    rf"(?:(?P<scale@>{_SCALE})(?![a-z]))? ?"
    rf"(?P<after@>{_MONEY}|(?:{'|'.join(sorted(CODES))})\b)? ?"
    rf"(?P<unit@>{_UNIT})?"
)
_FIRST, _SECOND = _NUMBER.replace("@", "1"), _NUMBER.replace("@", "2")
_MORE = "more|over|above|higher|older|up|later|greater"
_LESS = "less|fewer|under|below|lower|younger|earlier"
FORMS = {  # each with whether its lower end is included, and whether its upper end is
    re.compile(rf"(?:from )?{_FIRST} ?(?:-|\.\.+|to|until) ?{_SECOND}"): (True, True),
    re.compile(rf"{_FIRST} to (?:under|below|less than) {_SECOND}"): (True, False),
    re.compile(rf"between {_FIRST} and {_SECOND}"): (True, True),
    re.compile(rf"(?:>=|at least|from|min(?:imum)?) ?{_FIRST}"): (True, None),
    re.compile(rf"{_FIRST} ?(?:\+|plus|(?:or|and) (?:{_MORE}))"): (True, None),
    re.compile(rf"(?:>|over|above|more than|greater than|older than) ?{_FIRST}"): (False, None),
    re.compile(rf"(?:<=|up to|at most|(?:no|not) more than|max(?:imum)?) ?{_FIRST}"): (None, True),
    re.compile(rf"{_FIRST} ?(?:or|and) (?:{_LESS})"): (None, True),
    re.compile(rf"(?:<|under|below|less than|fewer than|younger than) ?{_FIRST}"): (None, False),
    re.compile(_FIRST): (True, True),
}
GROUPED = re.compile(r"[1-9]\d{0,2}(?:([ ',])\d{3})(?:\1\d{3})*(?:\.(\d+))?")
POINTS = re.compile(r"[1-9]\d{0,2}(?:(?:\.\d{3}){2,}|(?:\.\d{3})+(?=,))(?:,(\d+))?")
PLAIN = re.compile(r"\d+(?:[.,](\d+))?")
UNCLEAR = re.compile(r"[1-9]\d{0,2}\.\d{3}")

MOST_LISTED = 20  # texts that an error names


class Bracket(NamedTuple):
    """What a text means: a range of numbers, and how finely its ends are written."""

    low: float
    high: float
    has_low: bool  # whether the lower end is in the bracket
    has_high: bool
    step: float  # 17 is written in steps of 1, 2.5k in steps of 100
    units: dict[str, str]  # its currency, and what else is counted

    @property
    def is_number(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high


def _number(digits: str) -> tuple[float, float]:
    """Return a number and the step in which it is written."""
    if UNCLEAR.fullmatch(digits):
        raise InputError(f"{digits} may be a decimal number or thousands; write it without the dot")
    for form, drop in ((GROUPED, " ',"), (POINTS, "."), (PLAIN, "")):
        match = form.fullmatch(digits)
        if match:
            kept = "".join(sign for sign in digits if sign not in drop).replace(",", ".")
            return float(kept), 10.0 ** -len(match[match.re.groups] or "")
    raise InputError(f"{digits} is not a number")


def _plain(text: str) -> str:
    """Return a text in the form in which texts are compared and read."""
    return " ".join(text.casefold().translate(SAME_CODES).split())


def read(text: str) -> Bracket:
    """Return what a text means.

    Raises
    ------
    InputError
        If it is not a bracket.
    """
    plain = re.sub(r"\+ ?([^+]+)$", r" \1+", _plain(text))  # 65+ years is 65 years+
    for form, (has_low, has_high) in FORMS.items():
        match = form.fullmatch(plain)
        if match:
            return _bracket(match.groupdict(), has_low, has_high)
    raise InputError("it is not a bracket such as 20-50k, under 18 or 65+")


def _bracket(found: dict[str, str | None], has_low: bool | None, has_high: bool | None) -> Bracket:
    ends: list[tuple[float, float | None]] = []
    steps: list[float] = []
    units: dict[str, str] = {}
    for end in "12" if found.get("digits2") else "1":
        number, step = _number(found[f"digits{end}"] or "")
        scale = SCALES.get(found[f"scale{end}"] or "")
        ends.append((-number if found[f"minus{end}"] else number, scale))
        steps.append(step * (scale or 1.0))
        for part in ("before", "after", "unit"):
            name = found[f"{part}{end}"]
            if name:
                _add_unit(units, "unit" if part == "unit" else "currency", name)
    (first, scale), (last, last_scale) = ends[0], ends[-1]
    if scale is None and last_scale is not None and first < last:
        scale = last_scale  # 20-50k is 20k to 50k; 500-1k is not 500k to 1k
        steps[0] *= scale
    low, high = first * (scale or 1.0), last * (last_scale or 1.0)
    if low > high:
        raise InputError("it ends below its start")
    return Bracket(
        low if has_low is not None else -math.inf,
        high if has_high is not None else math.inf,
        bool(has_low),
        bool(has_high),
        min(steps),
        units,
    )


def _add_unit(units: dict[str, str], kind: str, name: str) -> None:
    """Note a unit; refuse a second one: 18 months are not more than 2 years."""
    name = name.removesuffix(" old").strip()
    name = CURRENCIES.get(name, name)
    name = name.removesuffix("s") if len(name) > 2 else name
    if units.setdefault(kind, name) != name:
        raise InputError(f"it is in {name}, not in {units[kind]}; write all in one unit")


def without_answer(texts: Iterable[str], missing: Iterable[str]) -> set[str]:
    """Return the texts that mean no answer: the usual ones, and those that are called missing."""
    silent = {_plain(text) for text in (*NO_ANSWER, *missing)}
    return {text for text in texts if _plain(text) in silent}


class Brackets:
    """The brackets of a column: the distinct texts, each with the row that has it first.

    Parameters
    ----------
    texts : dict of str to int
        Each distinct text, and its first row.
    missing : sequence of str
        Texts that mean no answer, besides the usual ones.
    name : str
        What to call the column in errors.
    place : callable
        Returns what to call a row in errors.
    """

    def __init__(
        self,
        texts: dict[str, int],
        missing: Iterable[str],
        name: str,
        place: Callable[[int], str] = "row {}".format,
    ) -> None:
        silent = without_answer(texts, missing)
        self.rows, self.name = texts, name
        self.read: dict[str, Bracket] = {}
        units: dict[str, str] = {}
        refused = []
        for text, row in texts.items():
            if text in silent:
                continue
            try:
                self.read[text] = bracket = read(text)
                for kind, unit in bracket.units.items():
                    _add_unit(units, kind, unit)
            except InputError as error:
                refused.append((row, text, error))
        if refused:
            (row, text, reason), *others = refused
            listed = [f"{place(other)}: {shown(said)}" for other, said, _ in others[:MOST_LISTED]]
            if len(others) > MOST_LISTED:
                listed.append(f"and {len(others) - MOST_LISTED} other texts")
            also = f"; nor can these be read: {', '.join(listed)}" if listed else ""
            raise RowError(name, row, f"{shown(text)} cannot be read: {reason}{also}")

    def edges(self) -> list[float]:
        """Return the numbers at which one bracket ends and another begins."""
        wide = {text: bracket for text, bracket in self.read.items() if not bracket.is_number}
        lows = {bracket.low for bracket in wide.values() if bracket.has_low}
        lows |= self._alone(wide.values())
        lows.discard(-math.inf)
        ends = [_snapped(bracket, sorted(lows)) for bracket in wide.values()]
        found = lows | {low for low, _ in ends} | {high for _, high in ends}
        if found and min(found) > -math.inf:  # nothing is below the lowest bracket
            found.discard(min(found))
        if found and max(found) < math.inf and max(found) not in lows:
            found.discard(max(found))
        return sorted(edge for edge in found if math.isfinite(edge))

    def _alone(self, wide: Iterable[Bracket]) -> set[float]:
        """Return the numbers that are brackets of their own: 0 beside "1-2" and "3+"."""
        numbers = {
            text: bracket
            for text, bracket in self.read.items()
            if bracket.is_number
            and not any(
                other.low <= bracket.low < other.high
                or (other.has_high and bracket.low == other.high)
                for other in wide
            )
        }
        ends = {end for other in (*wide, *numbers.values()) for end in (other.low, other.high)}
        alone = set()
        for text, bracket in numbers.items():
            if {bracket.low - bracket.step, bracket.low + bracket.step} & ends or any(
                bracket.low == other.high for other in wide
            ):
                alone.add(bracket.low)
            elif not min(ends) < bracket.low < max(ends) or len(numbers) == len(self.read):
                reason = f"{shown(text)} is outside the brackets, and next to none; pass the edges"
                raise RowError(self.name, self.rows[text], reason)
        return alone

    def bounds(self, edges: Sequence[float]) -> dict[str, tuple[float, float]]:
        """Return the lower and the upper end of each text, NaN where it is no answer."""
        known = {text: _snapped(bracket, edges) for text, bracket in self.read.items()}
        return {text: known.get(text, (math.nan, math.nan)) for text in self.rows}


def _snapped(bracket: Bracket, starts: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a bracket; 0-17 ends where 18-64 starts."""
    if bracket.is_number:
        return bracket.low, bracket.high

    def next_start(end: float) -> float:
        near = [start for start in starts if math.isclose(start, end + bracket.step)]
        return near[0] if near and end not in starts else end

    low, high = bracket.low, bracket.high
    return (low if bracket.has_low else next_start(low)), (
        next_start(high) if bracket.has_high else high
    )


def names(edges: Sequence[float]) -> tuple[str, ...]:
    """Return names for the brackets between some edges: below 2, 2 to 5, 5 or more."""
    if not len(edges):
        raise InputError("there are no edges: at least one number is needed")
    cuts = [str(int(edge) if float(edge).is_integer() else edge) for edge in edges]
    inner = [f"{low} to {high}" for low, high in pairwise(cuts)]
    return (f"below {cuts[0]}", *inner, f"{cuts[-1]} or more")
