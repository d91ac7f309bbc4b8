"""Brackets of a number as people write them: "20-50k", "under 18", "65 or older".

The grammar is closed, and a text is read only if all of it is accounted for:

- A text is one or two quantities, joined or opened by the words and signs of `ROLES`, in one of
  the `FORMS`.
- A quantity is a number, perhaps with a magnitude right after it (`MAGNITUDES`), and what is left
  before and after it: the unit. A unit is never looked up. It must be the same text throughout a
  column, "times a week" as well as "EUR"; a plural s makes no difference. Before a number, only a
  currency may stand (`CURRENCY`).
- The caller says what separates decimals and thousands. If nobody says, decimals have a
  point; and groups of three digits after one of the marks , and . are thousands if that reads all
  numbers of the column, and a number such as 1,000,000 or 1,000.5 or a given edge shows it, or the
  classes are the same as with decimals. An edge may also show that they are decimals.
- Words of roles and magnitudes cannot be part of a unit, nor can words that may be magnitudes
  (`UNCLEAR`) or that qualify a number (`QUALIFIERS`).

The texts of a column are then read together: `Ends` finds where one bracket ends and the next
begins, and refuses those that contradict one another.
"""

from __future__ import annotations

import bisect
import math
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

from pril.core.arrays import NO_LABEL
from pril.core.words import some_of
from pril.errors import InputError, RowError, shown

MOST_LISTED = 20  # texts that an error names
CUT_SHORT = "its first number may lack its thousands; write both in full"
SHARED = "its first number may have the magnitude of the second, or none; write it for both"
LARGEST_WHOLE = 1e15  # a float below it is written with all its digits
OPEN = Decimal("Infinity")  # an open end
SMALLEST, LARGEST = Decimal("1e-300"), Decimal("1e300")  # of numbers, without the sign
Cell = str | float  # a text, or a number that was never text
Conflict = Callable[[Cell, str], RowError]  # makes the error about a text, given what is wrong

# --- Words and signs -----------------------------------------------------------------------------

# Each word, phrase or sign by its role, which is one letter: in English, German, French, Spanish.
# Underscores stand for spaces.
ROLES = {
    "-": "- \u2010 \u2011 \u2012 \u2013 \u2014 \u2212",
    "t": "to until till thru through à a .. ... …",
    "f": "from desde",
    "d": "von de",
    "w": "between zwischen entre",
    "&": "and but und et y",
    "|": "or oder ou o",
    "<": "<",
    "b": """under below less_than fewer_than lower_than smaller_than younger_than shorter_than
        unter weniger_als jünger_als juenger_als kleiner_als moins_de inférieur_à menos_de
        menor_de menores_de""",
    "k": "but_under but_below but_less_than and_less_than and_fewer_than",
    "c": "and_under and_below",
    ">": """> over above more_than greater_than higher_than larger_than older_than longer_than
        über ueber mehr_als älter_als aelter_als größer_als plus_de supérieur_à más_de mas_de
        mayor_de mayores_de""",
    "g": """>= => ≥ at_least no_less_than not_less_than no_fewer_than not_under ab mindestens
        au_moins à_partir_de al_menos a_partir_de como_mínimo como_minimo""",
    "m": """<= =< ≤ and_up_to at_most no_more_than not_more_than up_to_and_including not_over
        höchstens hoechstens maximal au_plus como_máximo como_maximo""",
    "u": "up_to bis bis_zu jusqu'à jusqu'a hasta",
    "X": "max maximum",
    "I": "minimum",
    "+": """+ plus upwards upward or_more or_over or_above or_higher or_older or_up or_later
        or_greater or_longer or_larger and_more and_over and_above and_higher and_older and_up
        and_upwards and_upward and_later and_greater and_longer or_upwards und_mehr und_älter
        und_aelter und_darüber und_höher oder_mehr oder_älter oder_aelter et_plus ou_plus
        et_davantage o_más o_mas y_más y_mas""",
    "n": """or_less or_fewer or_under or_below or_lower or_younger or_earlier or_smaller
        or_shorter and_less and_fewer and_lower and_younger and_earlier and_smaller and_shorter
        und_weniger und_jünger und_juenger oder_weniger oder_jünger oder_juenger et_moins ou_moins
        o_menos y_menos""",
    "a": "age ages aged",
}
# What the letters of a text can be, and which ends are included; None is an open side. Q is a
# quantity.
FORMS = {
    re.compile(form): ends
    for form, ends in {
        r"a?[fdw]?Q[-tu]Q|wQ&Q|Q\|Q": (True, True),
        r"a?[fdg]?Q(?:[tu&][b<]|-<|k|c)Q": (True, False),
        r">Q(?:[-tu]|&?[muX])Q": (False, True),
        r">Q(?:[tu&]?[b<]|-<|k|c)Q": (False, False),
        r"gQ(?:[-t]|&?[muX])Q": (True, True),
        r"a?(?:[gfI]Q|Q&?[+I])": (True, None),
        r"a?>Q": (False, None),
        r"a?(?:[muX]Q|Q[nXc])": (None, True),
        r"a?[b<]Q": (None, False),
        r"a?Q": (True, True),
    }.items()
}
AFTER = re.compile(r".*Q[+nXIc]?")  # where a unit may follow: 65 years, 65+ years
MAGNITUDES = {
    2: "hundred hundreds",
    3: "k thousand thousands tsd tausend mille",
    5: "lakh lakhs lac lacs",
    6: "million millions mn mln mio millionen millón millones",
    7: "crore crores",
    9: "b bn mrd milliarde milliarden milliard milliards",
}
POWERS = {word: power for power, words in MAGNITUDES.items() for word in words.split()}
UNCLEAR = {
    "m": "a metre or a million",
    "mm": "a millimetre or a million",
    "min": "a minute or a minimum",
    "mil": "a thousand or a million",
    "t": "a ton or a thousand",
    **dict.fromkeys(("tn", "trn", "trillion", "trillions"), "another number in other languages"),
    **dict.fromkeys(("billion", "billions"), "bn, or a thousand of them in other languages"),
}
NO_ANSWER = """-|don't know|dont know|do not know|i don't know|dk|n/a|na|nan|no answer|no response|
not applicable|not available|not sure|not stated|prefer not to answer|prefer not to say|refused|
unknown|unsure|keine angabe|k.a.|k. a.|weiß nicht|weiss nicht|sans réponse|ne sait pas|
ne se prononce pas|no contesta|no sabe|no sabe / no contesta|ns/nc|prefiero no contestar|
prefiero no decirlo""".replace("\n", "").split("|")

_ROLE_OF = {word.replace("_", " "): role for role, words in ROLES.items() for word in words.split()}
_PHRASES = [phrase for phrase in _ROLE_OF if " " in phrase]
QUALIFIERS = """minus about approx approximately around roughly almost nearly exactly except
inclusive exclusive incl excl beyond onward onwards down downward downwards circa etwa ungefähr
rund genau aufwärts abwärts ohne environ presque sauf casi aproximadamente excepto"""
RESERVED = {*" ".join(_PHRASES).split(), *(phrase.replace(" ", "") for phrase in _PHRASES)}
RESERVED = {*RESERVED, *POWERS, *QUALIFIERS.split()} - {"a", "al", "au"}  # a week, al mes, AU$
LETTER = r"[^\W\d_]"
SIGNS = "$\u00a2-\u00a5\u0e3f\u20a0-\u20c0"  # of money
CODES = (
    "aed|ars|aud|brl|cad|chf|clp|cny|cop|czk|dkk|egp|eur|gbp|hkd|huf|idr|ils|inr|jpy|kes|krw|mxn|myr"
    "|ngn|nok|nzd|php|pkr|pln|ron|rub|sar|sek|sgd|thb|try|twd|uah|usd|vnd|zar"
)
MONEY = re.compile(rf"[{SIGNS}]|\b(?:{CODES})\b", re.IGNORECASE)
CURRENCY = re.compile(rf"[a-z]{{0,3}}[{SIGNS}]|{CODES}|rs\.?|kr\.?", re.IGNORECASE)
JOINED = re.compile(rf"(?:k|m|mn|mio|bn|mrd|tsd)(?:{CODES})", re.IGNORECASE)  # kEUR
EXPONENT = re.compile(rf"(?<={LETTER})[23\u00b2\u00b3]$")  # of m2
HANGING = re.compile(r"(?:^| )a[lu]?$|/$")  # the start of a rate
PLURAL = re.compile(rf"(?<={LETTER}{{2}})(?<!s)s(?!{LETTER})")


def _role_pattern() -> str:
    """Return a pattern of all roles, longest first.

    The Spanish "a" is none in "a week", and "age" is none in "years of age".
    """
    patterns, number = [], rf" ?(?:{CURRENCY.pattern})?\W*\d"
    for word in sorted(_ROLE_OF, key=len, reverse=True):
        first = "^" if _ROLE_OF[word] == "a" else ""
        ahead = rf"(?={number}| menos de\b)" if word == "a" else rf"(?!{LETTER})"
        patterns.append(first + re.escape(word) + (ahead if word[-1].isalpha() else ""))
    return "|".join(patterns)


TOKEN = re.compile(
    r" *(?:(?P<number>\d+(?:\.\d+)?e[+-]?\d{1,3}(?!\w)|\d+(?:[.,' _]\d+)*)"
    rf"|(?P<role>{_role_pattern()})"
    rf"|(?P<unit>(?:[kcdm]?m[23]|ft[23]|m/s)(?!\w)|{LETTER}+(?:'{LETTER}+)*\.?|\S))",
    re.IGNORECASE,
)

# --- Numbers -------------------------------------------------------------------------------------

# What may separate groups of three digits, and the characters that are written for it.
GROUPS = {"": "", ".": ".", ",": ",", " ": " \u00a0\u202f", "'": "'\u2019", "_": "_"}


DOUBTFUL = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")  # 1.250 may be 1250


def check_marks(decimal: str | None, thousands: str | None) -> None:
    """Refuse what cannot separate decimals or thousands; None if nobody has told."""
    if decimal not in (".", ",", None):
        raise InputError(f"decimal {decimal!r}: expected '.' or ','")
    if thousands is not None and thousands not in GROUPS:
        raise InputError(f"thousands {thousands!r}: expected one of {', '.join(map(repr, GROUPS))}")
    if thousands is not None and thousands == decimal:
        raise InputError(
            f"thousands {thousands!r}: it is the decimal mark too, and they must differ"
        )


@dataclass(frozen=True)
class Spelling:
    """How a column is written: what holds for all of its texts."""

    decimal: str | None = None  # what separates decimals; None if nobody has told
    thousands: str | None = None  # what separates groups of digits
    unit: str | None = None  # what is left of each text; None if it is not known yet
    shares: bool = False  # whether 1-5k is 1k to 5k
    step: float = 0.0  # 1 if 0-17 is followed by 18-64; 0 if there are no steps

    def __post_init__(self) -> None:
        check_marks(self.decimal, self.thousands)
        if not (math.isfinite(self.step) and self.step >= 0.0):
            raise InputError(f"step {self.step}: expected a number that is not negative")

    @property
    def point(self) -> str:
        """What separates decimals, whether it was told or not."""
        return self.decimal or ("," if self.thousands == "." else ".")

    def spells(self, digits: str) -> bool:
        """Tell whether this is how a number is written."""
        group = re.escape(self.thousands or "")
        grouped = rf"[1-9]\d{{0,2}}(?:{group}\d{{3}})+" if group else r"\d+"
        plain = rf"(?:\d+|{grouped})(?:{re.escape(self.point)}\d+)?"
        return "e" in digits.lower() or re.fullmatch(plain, digits) is not None

    def number(self, digits: str) -> Decimal:
        """Return the number that is written, its exponent the step in which it is written."""
        if self.thousands is None and DOUBTFUL.fullmatch(digits):
            raise InputError(f"{digits} may have decimals or thousands")
        if not self.spells(digits):
            between = f" and {self.thousands!r} between thousands" if self.thousands else ""
            marks = f"the decimal mark {self.point!r}{between}"
            raise InputError(f"{digits} is not a number with {marks}")
        if "e" in digits.lower():  # as in JSON, with a point
            return Decimal(digits)
        return Decimal(digits.replace(self.thousands or " ", "").replace(self.point, "."))


def spelled(value: float) -> str:
    """Return a number as text that nobody can take for another number: 1.234 as 1.234e0."""
    if value.is_integer() and abs(value) < LARGEST_WHOLE:
        return str(int(value))
    text = repr(value)
    return text if "e" in text else f"{text}e0"


# --- One text ------------------------------------------------------------------------------------


class Bracket(NamedTuple):
    """What a text means: a range of numbers, and how finely its ends are written."""

    low: Decimal  # infinite if it is open
    high: Decimal
    has_low: bool  # whether the lower end is in the bracket
    has_high: bool
    step: Decimal  # 17 is written in steps of 1, 2.5k in steps of 100
    unit: str = ""
    unscaled: Decimal | None = None  # of 20-50k, what the lower end is if only 50 is in thousands
    is_doubtful: bool = False  # whether a magnitude may be that of the upper end only: $1-$10k

    @property
    def is_number(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high

    @property
    def is_cut_short(self) -> bool:
        """Whether a lower end may lack its thousands: 10-20,000 may be 10,000 to 20,000."""
        is_short = self.unscaled is None and 1 < self.low < 1000
        return is_short and self.low * 1000 < self.high < OPEN and float(self.high) % 1000 == 0

    def holds(self, at: Decimal) -> bool:
        """Tell whether a number is in the bracket."""
        is_end = (self.has_low and at == self.low) or (self.has_high and at == self.high)
        return is_end or self.low < at < self.high


def exact(value: float) -> Bracket:
    """Return the bracket of a number that is not text."""
    at = Decimal(repr(value))
    return Bracket(at, at, True, True, Decimal(1) if value.is_integer() else _step(at))


def _step(value: Decimal) -> Decimal:
    return Decimal(1).scaleb(int(value.as_tuple().exponent))


def _plain(text: str) -> str:
    """Return a text with one kind of apostrophe, and with single spaces."""
    text = re.sub("[\u2018\u2019\u02bc]", "'", unicodedata.normalize("NFC", text))
    return " ".join(text.replace("&", " and ").split())


def parse(text: str, spelling: Spelling) -> Bracket:
    """Return what a text means by itself.

    Raises
    ------
    InputError
        If a part of it is not known, or the parts do not make a bracket.
    """
    text = _plain(text)
    roles, sign = "", ""  # letters of `FORMS`, r for a unit; the sign of the next number
    values, powers, units = list[Decimal](), list[int | None](), list[str]()
    for match in TOKEN.finditer(text):  # all of it: any other sign is taken for a unit
        part, last = match[0].strip(), roles.rstrip("r")[-1:]
        word = part.lower().rstrip(".")
        if match["number"]:
            values.append(spelling.number(part).copy_sign(Decimal(f"{sign}1")))
            powers.append(0 if "e" in word else None)
            roles, sign = f"{roles}Q", ""
        elif match["unit"] and (word != "min" or last == "Q"):
            power = 6 if word == "m" and MONEY.search(text) else POWERS.get(word)
            if power is not None and roles[-1:] == "Q" and powers[-1] is None:
                powers[-1] = power
                continue
            _check_unit(part)
            if roles[-1:] != "r":
                roles, units = f"{roles}r", [*units, ""]
            units[-1] += match[0]
        elif sign:
            raise InputError(f"{shown(part)} follows a sign")
        elif _ROLE_OF.get(part) in ("-", "+") and last != "Q":
            if part not in "+-\u2212" or text[match.end() :][:1] in ("", " "):
                raise InputError(f"{shown(part)} is neither between two numbers nor a sign of one")
            sign = "+" if part == "+" else "-"
        else:
            roles += "I" if match["unit"] else _ROLE_OF.get(part.lower(), "?")
    if sign:
        raise InputError("a sign belongs to no number")
    return _bracket(roles, values, powers, units)


def numbers_in(text: Cell) -> list[str]:
    """Return the numbers of a text as they are written."""
    matches = TOKEN.finditer(_plain(text)) if isinstance(text, str) else ()
    return [match["number"] for match in matches if match["number"]]


def _check_unit(part: str) -> None:
    """Refuse what cannot be in a unit: it has a role, is or may be a magnitude, or a number."""
    word = part.rstrip(".")
    if not re.match(rf"{LETTER}|[%\u2030\u00b0/{SIGNS}]", word):
        raise InputError(f"the sign {shown(part)} is not known")
    if word.lower() in UNCLEAR:
        raise InputError(f"{shown(word)} may be {UNCLEAR[word.lower()]}; write another word")
    is_number = any(map(str.isnumeric, EXPONENT.sub("", word)))
    if is_number or word.lower() in RESERVED or JOINED.fullmatch(word):
        raise InputError(f"{shown(word)} cannot stand there")


def _bracket(
    roles: str, values: list[Decimal], powers: list[int | None], units: list[str]
) -> Bracket:
    """Return the bracket of the parts of a text."""
    form = roles.replace("r", "")
    included = next((ends for regex, ends in FORMS.items() if regex.fullmatch(form)), None)
    if included is None and form.count("Q") in (1, 2):
        raise InputError("it is not a bracket such as 20-50k, under 18 or 65+")
    if included is None:
        raise InputError(f"it has {'more than two numbers' if 'Q' in form else 'no number'}")
    has_low, has_high = included
    unit, is_repeated = _unit(roles, units)
    unscaled = None
    if len(values) == 2 and powers[0] is None and powers[1] and values[0]:
        unscaled, powers[0] = values[0], powers[1]
    ends = [value.scaleb(power or 0) for value, power in zip(values, powers, strict=True)]
    step = min(_step(value).scaleb(power or 0) for value, power in zip(values, powers, strict=True))
    if not all(end == 0 or SMALLEST <= abs(end) <= LARGEST for end in ends):
        raise InputError("the number is too large or too small")
    if unscaled is not None and ends[0] >= ends[1]:
        raise InputError(
            "its first number is above the second if both have the magnitude; write both in full"
        )
    if ends[0] > ends[-1]:
        raise InputError("it ends below its start")
    if len(ends) == 2 and ends[0] == ends[1] and not (has_low and has_high):
        raise InputError("no number is in it")
    if "|" in form and ends[1] - ends[0] != step:
        raise InputError("the two numbers are not next to each other")
    low = -OPEN if has_low is None else ends[0]
    high = OPEN if has_high is None else ends[-1]
    is_doubtful = unscaled is not None and (unscaled == 1 or is_repeated)
    return Bracket(low, high, bool(has_low), bool(has_high), step, unit, unscaled, is_doubtful)


def _unit(roles: str, units: list[str]) -> tuple[str, bool]:
    """Return the unit of a text, and whether both of its numbers have it."""
    before, after = list[str](), list[str]()
    for place, unit in zip(re.finditer("r", roles), units, strict=True):
        text = PLURAL.sub("", unit.strip())
        if roles.startswith("Q", place.end()) and CURRENCY.fullmatch(text):
            before.append(text)
        elif AFTER.fullmatch(roles[: place.start()]) and not HANGING.search(text):
            after.append(text)
        else:
            raise InputError(f"{shown(unit.strip())} belongs to no number")
    for first, second in (*pairwise(before), *pairwise(after)):
        if first != second:
            raise InputError(f"it is in {first!r} and in {second!r}; write all in one unit")
    return " ".join([*before[:1], *after[:1]]), len(before) > 1 or len(after) > 1


def is_range(text: str) -> bool:
    """Tell whether a text is a range or a bound of numbers by itself: 3-4, 65+, under 18."""
    for decimal, thousands in ((".", ","), (",", ".")):
        with suppress(InputError):
            return not parse(text, Spelling(decimal, thousands)).is_number
    return False


# --- A column ------------------------------------------------------------------------------------


def without_answer(texts: Iterable[Cell], missing: Iterable[str]) -> set[Cell]:
    """Return the texts that mean no answer: the usual ones, and those that are called missing."""
    silent = {_silent(text) for text in ("", *NO_ANSWER, *missing)}
    return {text for text in texts if isinstance(text, str) and _silent(text) in silent}


def _silent(text: str) -> str:
    return "".join("-" if _ROLE_OF.get(sign) == "-" else sign for sign in _plain(text).lower())


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
    spelling : Spelling
        How the column is written. Without a unit, unit and steps are found in the texts.
    edges : sequence of float, default=()
        Cut points between the classes that are known.
    place : callable
        Returns what to call a row in errors.
    prefix : str, default=""
        What the names of the arguments `decimal` and `thousands` begin with.

    Attributes
    ----------
    read : dict of (str or float) to Bracket
        What each text means.
    spelling : Spelling
        How the column is written.
    ends : Ends
        Where one bracket ends and another begins.
    """

    def __init__(
        self,
        texts: Mapping[Any, int],
        missing: Iterable[str],
        name: str,
        spelling: Spelling,
        edges: Sequence[float] = (),
        place: Callable[[int], str] = "row {}".format,
        prefix: str = "",
    ) -> None:
        self.rows, self.name, self._place, self._prefix = texts, name, place, prefix
        self.read: dict[Cell, Bracket] = {}
        self._refused: dict[Cell, str] = {}
        silent = without_answer(texts, missing)
        said = {text: row for text, row in texts.items() if text not in silent}
        self._numbers = [digits for text in said for digits in numbers_in(text)]
        if spelling.thousands is None and spelling.unit is None:
            spelling = self._with_thousands(said, spelling, edges)
        for text in said:
            try:
                self.read[text] = parse(text, spelling) if isinstance(text, str) else exact(text)
            except InputError as error:
                self._refused[text] = str(error)
        cuts = {Decimal(repr(float(edge))) for edge in edges}
        is_known = spelling.unit is not None
        if not is_known:
            unit = next((one.unit for one in self.read.values()), "")
            spelling = replace(spelling, unit=unit, shares=self._magnitudes_are_shared())
        self._refuse(cuts, spelling, is_alone=is_known)
        self.ends = Ends(self.read, cuts, self._conflict)
        self.spelling = spelling if is_known else replace(spelling, step=self.ends.step)

    def _with_thousands(
        self, said: Mapping[Any, int], spelling: Spelling, edges: Sequence[float]
    ) -> Spelling:
        """Return how thousands are written, if something shows it or no class depends on it."""
        plain = [digits for digits in self._numbers if "e" not in digits.lower()]
        pairs = [(".", ","), (",", ".")]
        pairs = [pair for pair in pairs if any(pair[1] in digits for digits in plain)]
        pairs = [pair for pair in pairs if all(map(Spelling(*pair).spells, plain))]
        if len(pairs) != 1 or spelling.decimal not in (None, pairs[0][0]):
            return spelling
        [(decimal, mark)] = pairs
        ways = [replace(spelling, decimal=decimal, thousands=mark)]
        ways += [replace(spelling, decimal=mark, thousands="")]
        marked = [digits for digits in plain if mark in digits]
        if spelling.decimal or not all(map(ways[1].spells, marked)):  # 1,000,000 or 1,000.5
            return ways[0]
        may_be = [any(float(way.number(n)) in edges for n in marked) for way in ways]
        if may_be[0] != may_be[1]:
            return ways[0] if may_be[0] else ways[1]
        with suppress(InputError):
            first, second = (self._classes_of(said, way, edges) for way in ways)
            if first == second:
                return ways[0]
        return spelling

    def _classes_of(
        self, said: Mapping[Any, int], spelling: Spelling, edges: Sequence[float]
    ) -> tuple[int, dict[Any, tuple[int, int]]]:
        """Return the number of edges, and the classes of all texts."""
        column = Brackets(said, (), self.name, spelling, edges)
        cuts = edges or column.ends.span()[1]
        return len(cuts), column.classes(cuts)

    def _ways_to_read(self, text: Cell, spelling: Spelling) -> str:
        """Return how the marks could be told so that all numbers are read; empty if in no way."""
        for digits in numbers_in(text):
            with suppress(InputError):
                spelling.number(digits)
                continue
            told: dict[Decimal, str] = {}
            for way in (Spelling(d, t) for d in ".," for t in GROUPS if t != d):
                if all(map(way.spells, self._numbers)):
                    marks = "{0}decimal={1!r} and {0}thousands={2!r}"
                    marks = marks.format(self._prefix, way.decimal, way.thousands)
                    told.setdefault(way.number(digits).normalize(), marks)
            ways = [f"{number:f} with {marks}" for number, marks in sorted(told.items())[::-1]]
            return f"; {digits} is {', or '.join(ways)}" if ways else ""
        return ""

    def _magnitudes_are_shared(self) -> bool:
        """Tell whether 1-5k is 1k to 5k, because another text begins or ends at 1k.

        Refuse 20-50k if, instead, another text ends at 20.
        """
        brackets = self.read.values()
        ends = self._after() | {one.low for one in brackets if one.unscaled is None}
        for text, bracket in self.read.items():
            if bracket.unscaled in ends and bracket.low not in ends:
                self._refused.setdefault(text, SHARED)
        return any(one.unscaled is not None and one.low in ends for one in brackets)

    def _after(self) -> set[Decimal]:
        """Return where texts end, and where the next may begin."""
        brackets = self.read.values()
        ends = {one.high for one in brackets if not one.is_number}
        return ends | {one.high + one.step for one in brackets if one.has_high}

    def _refuse(self, cuts: set[Decimal], spelling: Spelling, *, is_alone: bool) -> None:
        """Refuse texts in another unit, and $1-$10k and 10-20,000 if nothing shows what is meant.

        Another text, or an edge, can show it.
        """
        after = set[Decimal]() if is_alone else self._after()
        for text, bracket in self.read.items():
            is_next = bracket.low in after and bracket.low * 1000 not in after
            is_next |= any(bracket.low <= cut <= bracket.low + bracket.step for cut in cuts)
            if bracket.unit != spelling.unit:
                units = f"{bracket.unit or None!r}, that of the column {spelling.unit or None!r}"
                self._refused[text] = f"its unit is {units}; write all in one unit"
            elif bracket.is_doubtful and not spelling.shares:
                self._refused.setdefault(text, SHARED)
            elif bracket.is_cut_short and not is_next:
                self._refused.setdefault(text, CUT_SHORT)
        if not self._refused:
            return
        text, *others = sorted(self._refused, key=lambda refused: self.rows[refused])
        listed = [f"{self._place(self.rows[other])}: {shown(other)}" for other in others]
        also = f"; nor can these be read: {some_of(listed, MOST_LISTED)}" if listed else ""
        ways = self._ways_to_read(text, spelling)
        reason = f"{shown(text)} cannot be read: {self._refused[text]}{ways}{also}"
        raise RowError(self.name, self.rows[text], reason, hint="brackets")

    def _conflict(self, text: Cell, reason: str) -> RowError:
        return RowError(self.name, self.rows[text], f"{shown(text)} {reason}", hint="edges")

    def classes(self, edges: Sequence[float]) -> dict[Any, tuple[int, int]]:
        """Return the lowest and the highest class of each text; NO_LABEL if it is no answer."""
        step = self.spelling.step
        touched = {text: covered(one, edges, step) for text, one in self.read.items()}
        return {text: touched.get(text, NO_LABEL) for text in self.rows}


# --- Where brackets end --------------------------------------------------------------------------


def covered(bracket: Bracket, edges: Sequence[float], step: float) -> tuple[int, int]:
    """Return the lowest and the highest class that a bracket touches.

    A class includes the edge at which it begins. So a bracket does not touch the class that begins
    where it ends: 20-50k and 50-100k share only an end, and 50k is in the second.
    """

    def is_edge(value: float) -> bool:
        k = bisect.bisect_left(edges, value)
        return k < len(edges) and edges[k] == value

    start = float(bracket.low)
    if not bracket.has_low and math.isfinite(start):
        steps = (bracket.step, Decimal(repr(step))) if step else ()
        nexts = [_above(bracket.low), *(float(bracket.low + one) for one in steps)]
        start = next(filter(is_edge, nexts), nexts[0])
    first = bisect.bisect_right(edges, start)
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
    edges : set of Decimal
        Cut points between the classes that are known.
    conflict : callable
        Returns the error about a text, given what is wrong with it.

    Attributes
    ----------
    step : float
        1 if 0-17 is followed by 18-64; 0 if there are no steps.
    """

    def __init__(self, read: dict[Cell, Bracket], edges: set[Decimal], conflict: Conflict) -> None:
        self._conflict = conflict
        self._wide = {text: one for text, one in read.items() if not one.is_number}
        self._numbers = {one.low: (text, one.step) for text, one in read.items() if one.is_number}
        wide = self._wide.values()
        self._steps = sorted({one.step for one in wide}) or [Decimal(1)]
        self._low_in = {one.low for one in wide if one.has_low}
        self._low_out = {one.low for one in wide if not one.has_low}
        self._high_in = {one.high for one in wide if one.has_high}
        self._high_out = {one.high for one in wide if not one.has_high}
        self._alone, self._far = self._split_numbers()
        # Where texts begin, with the finest step that is written there; None for edges.
        self._begins: dict[Decimal, Decimal | None] = dict.fromkeys(edges)
        self._begins |= {at: self._numbers[at][1] for at in self._alone}
        by_step = sorted(wide, key=lambda one: one.step, reverse=True)
        self._begins |= {one.low: one.step for one in by_step if one.has_low}
        self._stretched = {one.low for one in wide if self._includes_its_start(one)}
        self._begins |= dict.fromkeys(self._stretched)
        is_between = any(
            one.low < at < one.low + one.step and not one.has_low
            for one in wide
            for at in self._numbers
        )
        ends = [one for one in wide if one.has_high and one.high not in self._low_in]
        follows = any(self._next(one) is not None for one in ends)
        self.step = float(self._steps[0]) if follows and not is_between else 0.0

    def _split_numbers(self) -> tuple[list[Decimal], Decimal | None]:
        """Return the numbers that are brackets of their own, and one that is far from all brackets.

        0, 1, 2 beside "3+" are brackets of their own: each is one step from the next. Numbers in
        a gap between brackets share the class of the gap.
        """
        wide, steps = self._wide.values(), {at: step for at, (_, step) in self._numbers.items()}
        chains: list[list[Decimal]] = []
        for at in sorted(steps):
            if any(one.holds(at) for one in wide):
                continue
            if chains and at - chains[-1][-1] == min(steps[at], steps[chains[-1][-1]]):
                chains[-1].append(at)
            else:
                chains.append([at])
        lows, highs = {one.low for one in wide}, {one.high for one in wide}
        low, high = min(lows, default=OPEN), max(highs, default=-OPEN)
        alone, far = list[Decimal](), None
        for chain in chains:
            first, last = chain[0], chain[-1]
            below = first in self._high_out or first - min(steps[first], self._steps[0]) in highs
            above = last in self._low_out or last + min(steps[last], self._steps[0]) in lows
            only = not wide and len(chains) == 1
            if (below or low >= first) and (above or high <= last) and (below or above or only):
                alone += chain
            elif far is None and not low < first <= last < high:
                far = first
        return alone, far

    def _next(self, bracket: Bracket) -> Decimal | None:
        """Return where the text after an included end begins, None if none follows."""
        if bracket.high in self._low_in:
            return bracket.high
        for step in (step for step in self._steps if step <= bracket.step):
            begins = self._begins.get(bracket.high + step, OPEN)
            if begins == step or (step == bracket.step and begins != OPEN):
                return bracket.high + step
        return None

    def _includes_its_start(self, bracket: Bracket) -> bool:
        """Tell whether "over 65" means 65 and more, as it does beside 18-64."""
        low, steps = bracket.low, (bracket.step, self._steps[0])
        is_over = not bracket.has_low and bracket.high == OPEN
        is_after = any(low - step in {*self._high_in, *self._alone} for step in steps)
        is_before = any(low + step in self._begins for step in steps)
        return is_over and is_after and not is_before and not self._is_held(low)

    def _is_held(self, number: Decimal) -> bool:
        """Tell whether a text includes a number."""
        return number in self._numbers or any(one.holds(number) for one in self._wide.values())

    def span(self) -> tuple[float | None, list[float], float | None]:
        """Return where the lowest bracket begins, the cut points, and where the highest ends.

        The ends are None where a bracket is open.
        """
        if self._far is not None:
            text, _ = self._numbers[self._far]
            raise self._conflict(text, "is outside the brackets, and next to none")
        lows = {text: self._start(text, bracket) for text, bracket in self._wide.items()}
        starts = {float(at) for at in self._alone} | set(lows.values())
        highs = {text: self._end(text, bracket, starts) for text, bracket in self._wide.items()}
        cuts = starts | set(highs.values())
        low = high = None
        if cuts and min(cuts) > -math.inf:  # nothing is below the lowest bracket
            cuts.discard(low := min(cuts))
        if cuts and max(cuts) < math.inf and max(cuts) not in starts:
            cuts.discard(high := max(cuts))
        edges = sorted(cut for cut in cuts if math.isfinite(cut))
        for text, bracket in self._wide.items():
            first = bisect.bisect_right(edges, lows[text])
            last = bisect.bisect_left(edges, highs[text])
            is_empty = lows[text] >= highs[text]  # of whole numbers: over 1 but under 2
            if is_empty or covered(bracket, edges, self.step) != (first, last):
                raise self._conflict(text, "does not fit the other brackets")
        return low, edges, high

    def _start(self, text: Cell, bracket: Bracket) -> float:
        """Return the cut at the lower end of a text."""
        low = bracket.low
        if bracket.has_low or low == -OPEN or low in self._stretched:
            return float(low)
        if self.step:
            is_own = low + bracket.step in self._begins
            return float(low + (bracket.step if is_own else self._steps[0]))
        if low in self._numbers and low in self._low_in:
            raise self._conflict(text, f"does not include {low:f}, but another text does")
        is_cut = low in self._low_in or low in self._high_out
        return float(low) if is_cut and low not in self._numbers else _above(low)

    def _end(self, text: Cell, bracket: Bracket, starts: set[float]) -> float:
        """Return the cut at the upper end of a text, given where texts begin."""
        high, after = bracket.high, bracket.high + bracket.step
        if not bracket.has_high:
            is_under = bracket.low == -OPEN
            is_stretched = is_under and after in self._begins and not self._is_held(high)
            return float(after if is_stretched else high)
        follower = self._next(bracket)
        if follower is not None:
            return float(follower)
        if self.step:
            return float(high + self._steps[0])
        if float(high) in starts or (_above(high) not in starts and high not in self._numbers):
            return float(high)
        if high in self._numbers and high in self._high_out:
            raise self._conflict(text, f"includes {high:f}, but another text does not")
        return _above(high)


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
