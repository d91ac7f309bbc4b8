"""Brackets of a number as people write them: "20-50k", "under 18", "65 or older".

`bracket_words` lists all words that are known, `bracket_grammar` takes one text apart, and here
the texts of a column are read together: what a comma means, which unit they share, and where one
bracket ends and the next begins.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple, Self

import numpy as np

from pril.core.bracket_grammar import (
    DASHES,
    LARGEST,
    SEPARATORS,
    SMALLEST,
    Phrase,
    decide_decimal,
    decide_letter,
    number,
    parse,
    plain,
    why_no_number,
    with_letters,
)
from pril.core.bracket_words import NO_ANSWER
from pril.errors import InputError, RowError, shown

MOST_LISTED = 20  # texts that an error names
LARGEST_WHOLE = 1e15  # a float below it is written with all its digits
HINT = "brackets"
THOUSAND = 3  # the power of ten
CUT_SHORT = "its first number may lack its thousands; write both in full"
SHARED = "its first number may have the magnitude of the second, or none; write it for both"
Cell = str | float  # a text, or a number that was never text


class Spelling(NamedTuple):
    """How a column is written: what is decided once for all of its texts."""

    decimal: str = "."  # what separates decimals: see `decide_decimal`
    unit: str | None = None  # what is counted, a currency or another unit
    rate: str | None = None  # per week, per year
    m: str = ""  # MILLION, METRE, or unclear
    min: str = ""  # MINIMUM, MINUTE, or unclear
    shares: bool = False  # whether 1-5k is 1k to 5k
    step: float = 0.0  # 1 if 0-17 is followed by 18-64; 0 if there are no steps
    foreign: bool = False  # German, French or Spanish

    @classmethod
    def of(cls, phrases: Iterable[Phrase]) -> Self:
        """Return how texts are written; what m and min mean is known already."""
        phrases = list(phrases)
        units = [unit for phrase in phrases for unit in phrase.units]
        rates = [rate for phrase in phrases for rate in phrase.rates]
        return cls(
            decide_decimal(phrases),
            next(iter(units), None),
            next(iter(rates), None),
            foreign=any(phrase.is_foreign for phrase in phrases),
        )

    @classmethod
    def from_note(cls, note: Any) -> Self:
        """Return what `_asdict` has written into a file; refuse anything else."""
        usual = cls()._asdict()
        good = isinstance(note, Mapping) and note.keys() == usual.keys()
        if good:
            for name, value in note.items():
                kinds = (str, type(None)) if usual[name] is None else (type(usual[name]),)
                good &= isinstance(value, kinds)
            good = good and note["decimal"] in SEPARATORS and math.isfinite(note["step"])
        if not good:
            raise InputError(f"expected {', '.join(usual)}, got {shown(note)}")
        return cls(**note)


class Bracket(NamedTuple):
    """What a text means: a range of numbers, and how finely its ends are written."""

    low: Decimal | None  # None is open
    high: Decimal | None
    has_low: bool  # whether the lower end is in the bracket
    has_high: bool
    step: Decimal  # 17 is written in steps of 1, 2.5k in steps of 100
    unscaled: Decimal | None = None  # of 20-50k, what the lower end is if only 50 is in thousands

    @property
    def is_number(self) -> bool:
        """Whether it is one number."""
        return self.low is not None and self.low == self.high


def exact(value: float) -> Bracket:
    """Return the bracket of a number that is not text."""
    at = Decimal(repr(value))
    step = Decimal(1) if value.is_integer() else _step(at)
    return Bracket(at, at, True, True, step)


def spelled(value: float) -> str:
    """Return a number as text that nobody can take for another number: 1.234 as 1.234e0."""
    if value.is_integer() and abs(value) < LARGEST_WHOLE:
        return str(int(value))
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _step(value: Decimal) -> Decimal:
    return Decimal(1).scaleb(int(value.as_tuple().exponent))


# --- One text ------------------------------------------------------------------------------------


def read(phrase: Phrase, spelling: Spelling) -> Bracket:
    """Return what a text means in a column that is written in a certain way.

    Raises
    ------
    InputError
        If that is not clear.
    """
    _check_units(phrase, spelling)
    if phrase.has_billions and spelling.foreign:
        raise InputError("a billion is not the same number in every language")
    ends, steps, powers = [], [], []
    for quantity in phrase.quantities:
        value = number(quantity.digits, spelling.decimal)
        if value is None:
            raise InputError(why_no_number(quantity.digits, spelling.decimal))
        steps.append(_step(value).scaleb(quantity.power or 0))
        ends.append(quantity.sign * value.scaleb(quantity.power or 0))
        powers.append(quantity.power)
    if not all(end == 0 or SMALLEST <= abs(end) <= LARGEST for end in ends):
        raise InputError("the number is too large or too small")
    unscaled = None
    if len(ends) == 2 and powers[0] is None and powers[1] is not None:
        unscaled = ends[0]
        ends[0], steps[0] = _shared(ends[0], ends[1], steps[0], powers[1])
    has_low, has_high = phrase.has_low, phrase.has_high
    if len(ends) == 2:
        _check_order(ends, has_low=bool(has_low), has_high=bool(has_high))
        if phrase.is_choice and ends[1] - ends[0] != min(steps):
            raise InputError("the two numbers are not next to each other")
    low = ends[0] if has_low is not None else None
    high = ends[-1] if has_high is not None else None
    found = Bracket(low, high, bool(has_low), bool(has_high), min(steps), unscaled)
    if not spelling.shares and _is_doubtful(phrase, found):
        raise InputError(SHARED)
    return found


def _is_doubtful(phrase: Phrase, bracket: Bracket) -> bool:
    """Tell whether a magnitude may be that of the upper end only: $1-$10k."""
    if bracket.unscaled in (None, bracket.low):
        return False
    return bracket.unscaled == 1 or all(quantity.has_currency for quantity in phrase.quantities)


def _check_units(phrase: Phrase, spelling: Spelling) -> None:
    """Refuse another unit than that of the column: 18 months are not more than 2 years."""
    for unit in phrase.units:
        if spelling.unit is not None and unit != spelling.unit:
            raise InputError(f"it is in {unit}, not in {spelling.unit}; write all in one unit")
    for rate in phrase.rates:
        if spelling.rate is not None and rate != spelling.rate:
            raise InputError(f"it is per {rate}, not per {spelling.rate}; write all in one unit")


def _shared(first: Decimal, last: Decimal, step: Decimal, power: int) -> tuple[Decimal, Decimal]:
    """Return the lower end, and its step, where only the upper end has a magnitude.

    20-50k is 20k to 50k; 500-1k is 500 to 1k, because 500k to 1k would go down. 500-1 million may
    begin with 500 or with 500 thousand, and 20-5k may be a slip.
    """
    scaled = first.scaleb(power)
    if first == 0 or scaled < last:
        return scaled, step.scaleb(power)
    least = 100 if power == THOUSAND else 1000
    if least <= first < last < scaled:
        return first, step
    raise InputError("only one of the numbers has a magnitude; write it for both")


def _check_order(ends: list[Decimal], *, has_low: bool, has_high: bool) -> None:
    first, last = ends
    if first > last:
        raise InputError("it ends below its start")
    if first == last and not (has_low and has_high):
        raise InputError("no number is in it")


def is_cut_short(bracket: Bracket) -> bool:
    """Tell whether a lower end may lack its thousands: 10-20,000 may be 10,000 to 20,000."""
    low, high = bracket.low, bracket.high
    return (
        low is not None
        and high is not None
        and bracket.unscaled is None
        and 1 < low < 1000
        and float(high) % 1000 == 0
        and low * 1000 < high
    )


# --- A column ------------------------------------------------------------------------------------


def without_answer(texts: Iterable[Cell], missing: Iterable[str]) -> set[Cell]:
    """Return the texts that mean no answer: the usual ones, and those that are called missing."""
    silent = {_silent(text) for text in (*NO_ANSWER, *missing)}
    return {text for text in texts if isinstance(text, str) and _silent(text) in silent}


def _silent(text: str) -> str:
    return "".join("-" if sign in DASHES else sign for sign in plain(text))


class Brackets:
    """The brackets of a column: the distinct texts, each with the row that has it first.

    Parameters
    ----------
    texts : dict of (str or float) to int
        Each distinct text or number, and its first row.
    missing : sequence of str
        Texts that mean no answer, besides the usual ones.
    name : str
        What to call the column in errors.
    place : callable
        Returns what to call a row in errors.
    spelling : Spelling, default=None
        How the column is written. None finds it out from the texts.
    edges : sequence of float, default=()
        The cut points between the classes, as far as they are known.

    Attributes
    ----------
    read : dict of (str or float) to Bracket
        What each text means.
    spelling : Spelling
        How the column is written.
    """

    def __init__(
        self,
        texts: Mapping[Any, int],
        missing: Iterable[str],
        name: str,
        place: Callable[[int], str] = "row {}".format,
        spelling: Spelling | None = None,
        edges: Sequence[float] = (),
    ) -> None:
        self.rows, self.name, self._place = texts, name, place
        self._refused: dict[Cell, str] = {}
        silent = without_answer(texts, missing)
        answers = [text for text in texts if text not in silent]
        numbers = {text: exact(text) for text in answers if not isinstance(text, str)}
        phrases = self._each([text for text in answers if isinstance(text, str)], parse)
        is_known = spelling is not None
        if spelling is None:
            m, least = (decide_letter(letter, phrases.values()) for letter in ("m", "min"))
        else:
            m, least = spelling.m, spelling.min
        phrases = self._each(phrases, lambda text: with_letters(phrases[text], m, least))
        if spelling is None:
            self._refuse_other_units(phrases)
            # What a magnitude belongs to is known when all numbers are.
            spelling = Spelling.of(phrases.values())._replace(m=m, min=least, shares=True)
        self.read: dict[Cell, Bracket] = numbers | self._each(
            phrases, partial(_read_one, phrases, spelling)
        )
        cuts = {_decimal(edge) for edge in edges}
        if not is_known:
            spelling = spelling._replace(shares=self._magnitudes_are_shared(phrases))
        self._refuse_cut_short(cuts, alone=is_known)
        self._stop_if_refused()
        self._ends = Ends(self.read, self._conflict)
        if not is_known:
            spelling = spelling._replace(step=self._ends.step(cuts))
        self.spelling = spelling

    def _each(self, texts: Iterable[Any], function: Callable[[Any], Any]) -> dict[Any, Any]:
        """Apply a function to texts; note what it refuses."""
        found = {}
        for text in texts:
            try:
                found[text] = function(text)
            except InputError as error:
                self._refused.setdefault(text, str(error))
        return found

    def _refuse_other_units(self, phrases: dict[str, Phrase]) -> None:
        """Refuse texts in another unit than that of the first text that has one."""
        for kind, word in (("units", "in"), ("rates", "per")):
            known: tuple[str, str] | None = None
            for text, phrase in phrases.items():
                for unit in getattr(phrase, kind):
                    known = known or (unit, text)
                    if unit != known[0]:
                        self._refused[text] = (
                            f"it is {word} {unit}, not {word} {known[0]} as {shown(known[1])} is; "
                            "write all in one unit"
                        )

    def _magnitudes_are_shared(self, phrases: dict[str, Phrase]) -> bool:
        """Tell whether 1-5k is 1k to 5k, because another text begins or ends at 1k."""
        sharing = {
            text: bracket
            for text, bracket in self.read.items()
            if bracket.unscaled is not None and bracket.unscaled != bracket.low
        }
        doubtful = {
            text for text, bracket in sharing.items() if _is_doubtful(phrases[str(text)], bracket)
        }
        shares = False
        for text, bracket in sharing.items():
            others = [(other, found) for other, found in self.read.items() if other != text]
            lows = {found.low for other, found in others if other not in doubtful}
            ends = {end for _, found in others for end in _after(found)}
            if bracket.low in lows | ends:
                shares = True
            elif bracket.unscaled in ends and bracket.unscaled != 0:
                self._refused.setdefault(text, SHARED)
        if not shares:
            for text in doubtful:
                self._refused.setdefault(text, SHARED)
        return shares

    def _refuse_cut_short(self, cuts: set[Decimal], *, alone: bool) -> None:
        """Refuse 10-20,000, unless another text, or an edge, is at 10."""
        for text, bracket in self.read.items():
            if not is_cut_short(bracket) or bracket.low in cuts:
                continue
            others = [found for other, found in self.read.items() if other != text]
            ends = {end for found in others for end in _after(found)}
            if alone or bracket.low not in ends or bracket.low * 1000 in ends:
                self._refused.setdefault(text, CUT_SHORT)

    def _stop_if_refused(self) -> None:
        if not self._refused:
            return
        text, *others = sorted(self._refused, key=lambda refused: self.rows[refused])
        listed = [f"{self._place(self.rows[other])}: {shown(other)}" for other in others]
        if len(listed) > MOST_LISTED:
            listed[MOST_LISTED:] = [f"and {len(listed) - MOST_LISTED} other texts"]
        also = f"; nor can these be read: {', '.join(listed)}" if listed else ""
        reason = f"{shown(text)} cannot be read: {self._refused[text]}{also}"
        raise RowError(self.name, self.rows[text], reason, hint=HINT)

    def _conflict(self, text: Cell, reason: str) -> RowError:
        return RowError(self.name, self.rows[text], f"{shown(text)} {reason}", hint="edges")

    def edges(self) -> list[float]:
        """Return the numbers at which one bracket ends and another begins."""
        return self._ends.edges()

    def classes(self, edges: Sequence[float]) -> dict[Any, tuple[int, int] | None]:
        """Return the lowest and the highest class of each text, None where it is no answer."""
        known = {text: covered(found, edges, self.spelling) for text, found in self.read.items()}
        return {text: known.get(text) for text in self.rows}


def _read_one(phrases: dict[str, Phrase], spelling: Spelling, text: str) -> Bracket:
    return read(phrases[text], spelling)


def _decimal(value: float) -> Decimal:
    return Decimal(repr(float(value)))


def _after(bracket: Bracket) -> set[Decimal]:
    """Return where the next bracket may begin."""
    if bracket.high is None:
        return set()
    return {bracket.high, bracket.high + bracket.step} if bracket.has_high else {bracket.high}


# --- Where brackets end --------------------------------------------------------------------------


def covered(bracket: Bracket, edges: Sequence[float], spelling: Spelling) -> tuple[int, int]:
    """Return the lowest and the highest class that a bracket touches.

    A class includes the edge at which it begins. So a bracket does not touch the class that begins
    where it ends: 20-50k and 50-100k share only an end, and 50k is in the second.
    """

    def is_edge(value: float) -> bool:
        k = bisect.bisect_left(edges, value)
        return k < len(edges) and edges[k] == value

    if bracket.low is None:
        first = 0
    elif bracket.has_low:
        first = bisect.bisect_right(edges, float(bracket.low))
    else:
        after = _above(bracket.low)
        if spelling.step and not is_edge(after):
            nexts = (float(bracket.low + step) for step in (bracket.step, _decimal(spelling.step)))
            after = next(filter(is_edge, nexts), after)
        first = bisect.bisect_right(edges, after)
    if bracket.high is None:
        return first, len(edges)
    is_in = bracket.is_number or (bracket.has_high and is_edge(_above(bracket.high)))
    bisected = bisect.bisect_right if is_in else bisect.bisect_left
    return first, max(first, bisected(edges, float(bracket.high)))


def _above(value: Decimal) -> float:
    """Return the float after a number: an edge there leaves the number in the class below."""
    return math.nextafter(float(value), math.inf)


class Ends:
    """Where the brackets of a column begin and end.

    The rule: an end that a text includes belongs to its bracket. Where one text ends and another
    begins at the same number, the number belongs to the second: 20-50k, 50-100k. Where the next
    begins one step after, there is nothing between them: 0-17, 18-64. "Over 65" beside 18-64 is 65
    and more, and "under 18" beside 19-64 is 18 and less.

    Parameters
    ----------
    read : dict of (str or float) to Bracket
        What the texts mean.
    conflict : callable
        Returns the error about a text, given what is wrong with it.
    """

    def __init__(
        self, read: Mapping[Cell, Bracket], conflict: Callable[[Cell, str], RowError]
    ) -> None:
        self._conflict = conflict
        wide = {text: found for text, found in read.items() if not found.is_number}
        self._wide = _with_finer_steps(wide)
        self._finest = min((found.step for found in wide.values()), default=Decimal(1))
        self._numbers: dict[Decimal, tuple[Cell, Decimal]] = {}  # text and step
        for text, found in read.items():
            if found.low is not None and found.is_number:
                self._numbers.setdefault(found.low, (text, found.step))
        # Ends with their texts: those that are in the bracket, and those that are not.
        self._alone: set[Decimal] = set()  # numbers that are brackets of their own
        self._low_in = self._texts_at("low", included=True)
        self._low_out = self._texts_at("low", included=False)
        self._high_in = self._texts_at("high", included=True)
        self._high_out = self._texts_at("high", included=False)

    def _texts_at(self, side: str, *, included: bool) -> dict[Decimal, Cell]:
        found: dict[Decimal, Cell] = {}
        for text, bracket in self._wide.items():
            at: Decimal | None = getattr(bracket, side)
            if at is not None and getattr(bracket, f"has_{side}") == included:
                found.setdefault(at, text)
        return found

    def step(self, edges: Iterable[Decimal] = ()) -> float:
        """Return the step of a column in which 18-64 follows 0-17; 0 if none follows so."""
        self._alone = set(self._split_numbers()[0])
        over = [low for low, text in self._low_out.items() if self._includes_its_start(text)]
        begins = {*self._low_in, *over, *edges}
        ends = {end: text for end, text in self._high_in.items() if end not in self._low_in}
        if not any(end + self._wide[text].step in begins for end, text in ends.items()):
            return 0.0
        is_between = any(
            low < at < low + self._wide[text].step
            for low, text in self._low_out.items()
            for at in self._numbers
        )
        return 0.0 if is_between else float(self._finest)

    def _split_numbers(self) -> tuple[list[Decimal], Decimal | None]:
        """Return the numbers that are brackets of their own, and one that is far from all brackets.

        0, 1, 2 beside "3+" are brackets of their own: each is one step from the next. Numbers in
        a gap between brackets share the class of the gap.
        """
        wide = self._wide.values()
        outside = [at for at in sorted(self._numbers) if not any(_holds(w, at) for w in wide)]
        chains: list[list[Decimal]] = []
        for at in outside:
            step = self._numbers[at][1]
            if chains and at - chains[-1][-1] == min(step, self._numbers[chains[-1][-1]][1]):
                chains[-1].append(at)
            else:
                chains.append([at])
        alone, far = [], None
        for chain in chains:
            first, last = chain[0], chain[-1]
            any_below = any(found.low is None or found.low < first for found in wide)
            any_above = any(found.high is None or found.high > last for found in wide)
            below = any(_follows(found, first, self._numbers[first][1]) for found in wide)
            above = any(_precedes(found, last, self._numbers[last][1]) for found in wide)
            only = not wide and len(chains) == 1
            if (below or not any_below) and (above or not any_above) and (below or above or only):
                alone += chain
            elif far is None and not (any_below and any_above):
                far = first
        return alone, far

    def edges(self) -> list[float]:
        """Return the cut points between the brackets, ascending."""
        alone, far = self._split_numbers()
        if far is not None:
            text = self._numbers[far][0]
            raise self._conflict(text, "is outside the brackets, and next to none")
        self._is_stepwise = self.step() > 0
        lows = {text: self._begin(text) for text in self._wide}
        starts = {float(at) for at in alone} | set(lows.values())
        highs = {text: self._end(text, starts) for text in self._wide}
        cuts = starts | set(highs.values())
        if cuts and min(cuts) > -math.inf:  # nothing is below the lowest bracket
            cuts.discard(min(cuts))
        if cuts and max(cuts) < math.inf and max(cuts) not in starts:
            cuts.discard(max(cuts))
        edges = sorted(cut for cut in cuts if math.isfinite(cut))
        self._check(edges, highs)
        return edges

    def _check(self, edges: list[float], highs: Mapping[Cell, float]) -> None:
        """Refuse texts that these edges would misread, because they contradict one another."""
        spelling = Spelling(step=float(self._finest) if self._is_stepwise else 0.0)
        written = {*self._low_in, *self._low_out, *self._high_in, *self._high_out}
        points = set(self._numbers)
        if self._is_stepwise:
            points |= {at for at in written if any(_holds(w, at) for w in self._wide.values())}
        for one, other in pairwise(sorted(written)):
            if other - one > (self._finest if self._is_stepwise else 0):
                points.add((one + other) / 2)
        at = np.array([float(point) for point in sorted(points)])
        ranks = np.searchsorted(edges, at, side="right")
        for text, found in self._wide.items():
            low = -math.inf if found.low is None else float(found.low)
            high = math.inf if found.high is None else float(found.high)
            is_in = (at >= low if found.has_low else at > low) & (
                at <= high if found.has_high else at < high
            )
            first, last = covered(found, edges, spelling)
            wrong = is_in != ((ranks >= first) & (ranks <= last))
            if found.high in self._low_in:
                wrong &= at != high  # it belongs to the next
            wrong &= ~((at > high) & (at < float(found.high or 0) + float(found.step)))
            if found.low is not None and not found.has_low and self._includes_its_start(text):
                wrong &= at != low
            if found.high is not None and not found.has_high and highs[text] > high:
                wrong &= at != high
            if wrong.any():
                number = float(at[np.argmax(wrong)])
                raise self._conflict(text, f"does not fit the other brackets at {number:g}")

    def _includes_its_start(self, text: Cell) -> bool:
        """Tell whether "over 65" means 65 and more, as it does beside 18-64."""
        low, step = self._wide[text].low, self._wide[text].step
        ends = {*self._high_in, *self._alone}
        begins = {*self._low_in, *self._alone}
        return (
            low is not None
            and self._wide[text].high is None
            and low - step in ends
            and low not in ends
            and low - step not in self._low_out
            and low + step not in begins
            and low + step not in self._high_out
        )

    def _begin(self, text: Cell) -> float:
        """Return the cut at the lower end of a text."""
        low, step = self._wide[text].low, self._wide[text].step
        if low is None:
            return -math.inf
        if self._wide[text].has_low:
            return float(low)
        if self._includes_its_start(text):
            return float(low)
        begins = {*self._low_in, *self._alone}
        is_cut = low in self._low_in or low in self._high_out
        if self._is_stepwise and low + step in begins:
            return float(low + step)
        if self._is_stepwise and not is_cut and low + self._finest not in self._high_in:
            return float(low + self._finest)
        if not is_cut or (low in self._numbers and low not in self._low_in):
            return _above(low)
        if low in self._numbers:
            other, number = self._low_in[low], self._numbers[low][0]
            reason = f"does not include {low:f}, but {shown(other)} does, and {shown(number)}"
            raise self._conflict(text, f"{reason} is in the column, too")
        return float(low)

    def _end(self, text: Cell, starts: set[float]) -> float:
        """Return the cut at the upper end of a text, given where texts begin."""
        high, step = self._wide[text].high, self._wide[text].step
        if high is None:
            return math.inf
        after = float(high + step)
        if not self._wide[text].has_high:
            others = {*self._numbers, *self._low_in, *self._high_in}
            is_open = self._wide[text].low is None
            is_free = is_open and high not in others and high + step not in self._high_out
            return after if is_free and after in starts else float(high)  # under 18, 19-64
        if after in starts and high not in self._low_in:
            return after
        if float(high) in starts:
            return float(high)
        if _above(high) in starts:
            return _above(high)
        if self._is_stepwise:
            return float(high + self._finest)
        if high not in self._numbers:
            return float(high)
        if high in self._high_out:
            other, number = self._high_out[high], self._numbers[high][0]
            reason = f"includes {high:f}, but {shown(other)} does not, and {shown(number)}"
            raise self._conflict(text, f"{reason} is in the column, too")
        return _above(high)


def _with_finer_steps(wide: Mapping[Cell, Bracket]) -> dict[Cell, Bracket]:
    """Return brackets with the step to their neighbour, if that is finer: 0-5 beside 5.1-10."""
    begins = {found.low: found.step for found in wide.values() if found.has_low}
    ends = {found.high: found.step for found in wide.values() if found.has_high}
    steps = sorted({found.step for found in wide.values()})
    finer = {}
    for text, found in wide.items():
        for step in steps:
            follows = found.high is not None and begins.get(found.high + step) == step
            precedes = found.low is not None and ends.get(found.low - step) == step
            if step < found.step and (follows or (precedes and not found.has_low)):
                finer[text] = found._replace(step=step)
                break
    return {**wide, **finer}


def _holds(bracket: Bracket, at: Decimal) -> bool:
    """Tell whether a number is in a bracket."""
    low, high = bracket.low, bracket.high
    return (low is None or low < at or (bracket.has_low and low == at)) and (
        high is None or at < high or (bracket.has_high and high == at)
    )


def _follows(bracket: Bracket, at: Decimal, step: Decimal) -> bool:
    """Tell whether a number is the next after a bracket."""
    end = bracket.high
    if end is None:
        return False
    return at - end == min(step, bracket.step) or (not bracket.has_high and at == end)


def _precedes(bracket: Bracket, at: Decimal, step: Decimal) -> bool:
    """Tell whether a number is the last before a bracket."""
    start = bracket.low
    if start is None:
        return False
    return start - at == min(step, bracket.step) or (not bracket.has_low and at == start)


# --- Names ---------------------------------------------------------------------------------------


def names(edges: Sequence[float]) -> tuple[str, ...]:
    """Return names for the brackets between some edges: below 2, 2 to 5, 5 or more.

    An edge right above a number leaves the number below: up to 2, over 2.
    """
    if not len(edges):
        raise InputError("there are no edges: at least one number is needed")
    cuts = [_named(float(edge)) for edge in edges]
    inner = [
        low if low == high else f"{'over ' if is_above else ''}{low} to {high}"
        for (low, is_above), (high, _) in pairwise(cuts)
    ]
    (first, includes), (last, excludes) = cuts[0], cuts[-1]
    lowest = f"up to {first}" if includes else f"below {first}"
    return (lowest, *inner, f"over {last}" if excludes else f"{last} or more")


def _named(edge: float) -> tuple[str, bool]:
    """Return a number as text, and whether the edge is right above it."""
    before = math.nextafter(edge, -math.inf)
    is_above = len(repr(edge)) > len("0.") + 14 and len(repr(before)) < len(repr(edge)) - 4
    number = before if is_above else edge
    return str(int(number) if number.is_integer() else number), is_above
