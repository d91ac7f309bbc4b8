"""The grammar of brackets: a text is read only if every character of it is accounted for."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import NamedTuple

from pril.core.bracket_words import (
    CURRENCIES,
    LENGTHS,
    LONG_SCALE,
    METRE,
    MINUTE,
    SIGNS,
    WORDS,
    Word,
)
from pril.errors import InputError, shown

DASHES = "-\u2010\u2011\u2012\u2013\u2014\u2212"
MINUS = "-\u2212"  # the other dashes are bullets, or stand between two numbers
# What the role letters of a text can be (see `bracket_words`), and which ends are included; None is
# an open side. Q is a number with what belongs to it.
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
AFTER = "+nXIc"  # roles that may stand between a number and its unit: 65+ years

_WORD = "|".join(
    re.escape(word).replace(r"\ ", " ").replace("/", "/ ?" if word[0] == "/" else "/")
    for word in sorted(WORDS, key=len, reverse=True)
)
TOKEN = re.compile(
    r" *(?:(?P<number>\d+(?:\.\d+)?e[+-]?\d{1,3}(?!\d)|\d+(?:[.,']\d+| \d{3}(?!\d))*)"
    rf"|(?P<word>(?:{_WORD})(?![^\W\d_]))"
    rf"|(?P<sign>{'|'.join(map(re.escape, sorted(SIGNS, key=len, reverse=True)))})"
    rf"|(?P<dash>[{DASHES}])|(?P<plus>\+))"
)
UNKNOWN = re.compile(r"[^\W\d_]+|\S")
MILLIONS = re.compile(r"(?<=\d)( ?)MM\b")  # in capitals it is money, else millimetres

# What comma and dot mean: each value of `Spelling.decimal`, with the separators of thousands and of
# decimals; see `decide_decimal`.
SEPARATORS = {
    "?": (",", "."),
    ".": (",", "."),
    ".3": (",", "."),
    ",": (".", ","),
    ",3": (".", ","),
    ".,": ("", ".,"),
}
NUMBERS = {
    decimal: re.compile(
        rf"(?:\d+|[1-9]\d{{0,2}}([{thousands} '])\d{{3}}(?:\1\d{{3}})*)(?:[{point}](\d+))?"
    )
    for decimal, (thousands, point) in SEPARATORS.items()
}
EITHER = re.compile(r"[1-9]\d{0,2}[.,]\d{3}")  # a decimal number, or thousands
SMALLEST, LARGEST = Decimal("1e-300"), Decimal("1e300")  # of numbers, without the sign
MILLION, MINIMUM = "million", "minimum"  # what m and min may mean, besides units


class Quantity(NamedTuple):
    """A number as it is written, with its magnitude."""

    digits: str
    sign: int
    power: int | None  # of ten; None without a magnitude
    letter: str | None  # "m" or "min": only the column tells what it means
    has_currency: bool


class Phrase(NamedTuple):
    """A text, taken apart. Numbers are not read yet: the whole column says what a comma means."""

    quantities: tuple[Quantity, ...]
    has_low: bool | None  # whether the lower end is included; None if it is open
    has_high: bool | None
    is_choice: bool  # 1 or 2
    units: frozenset[str]
    rates: frozenset[str]
    is_foreign: bool  # it has a word of another language than English
    has_billions: bool  # which are a thousand times as much in other languages

    @property
    def is_one(self) -> bool:
        """Whether it is one number, with nothing that opens a side."""
        return len(self.quantities) == 1 and bool(self.has_low and self.has_high)

    @property
    def letters(self) -> set[str]:
        """Letters that only the column explains."""
        return {quantity.letter for quantity in self.quantities if quantity.letter}

    @property
    def magnitudes(self) -> set[int]:
        """The magnitudes that are certain."""
        return {quantity.power for quantity in self.quantities if quantity.power is not None}


def plain(text: str) -> str:
    """Return a text in the form in which texts are compared and read."""
    text = unicodedata.normalize("NFC", MILLIONS.sub(r"\1million", text))
    return " ".join("".join(map(_plain_sign, text)).lower().replace("&", " and ").split())


def _plain_sign(sign: str) -> str:
    """Return a digit of any script as 0 to 9, and a fullwidth letter or sign as a usual one."""
    if sign.isdecimal():
        return str(unicodedata.decimal(sign))
    if "\uff01" <= sign <= "\uff5e":
        return unicodedata.normalize("NFKC", sign)
    return "'" if sign in "\u2018\u2019\u02bc" else sign


class _Draft:
    """A number whose magnitude and unit are still being read."""

    def __init__(self, digits: str, sign: int, units: Iterable[str]) -> None:
        self.digits, self.sign = digits, sign
        self.units, self.rates = set(units), set[str]()
        self.power: int | None = None
        self.letter: str | None = None
        self.has_billions = False

    def add(self, word: Word, text: str) -> None:
        """Note a word that belongs to the number."""
        if word.kind == "letter":
            if self.letter or self.units - set(CURRENCIES):
                raise InputError(f"{shown(text)} cannot stand there")
            if self.power is not None:
                raise InputError(f"{shown(text)} follows another magnitude")
            self.letter = word.value
        elif word.kind == "magnitude":
            is_full = "e" in self.digits or self.power is not None or self.letter
            if is_full or self.units - set(CURRENCIES):
                raise InputError(f"{shown(text)} cannot stand there")
            power, *units = word.value.split()
            self.has_billions = text in LONG_SCALE
            self.power = int(power)
            self.units.update(units)
        elif word.kind == "unit":
            if self.letter == "min":
                raise InputError("'min' may be minutes or a minimum")
            self.units.add(word.value)
        else:
            self.rates.add(word.value)

    def read_m_as_million(self) -> None:
        """Read m as a magnitude."""
        if self.letter == "m":
            self.letter, self.power = None, 6

    def finished(self) -> Quantity:
        """Return what was read; m before a unit is a million."""
        if self.units:
            self.read_m_as_million()
        money = bool(self.units & set(CURRENCIES))
        return Quantity(self.digits, self.sign, self.power, self.letter, money)


def parse(text: str) -> Phrase:
    """Take a text apart.

    Raises
    ------
    InputError
        If a part of it is not known, or the parts do not make a bracket.
    """
    drafts: list[_Draft] = []
    roles, last = "", ""  # of the parts, and the last part
    before: set[str] = set()  # currencies before a number
    sign, is_foreign, is_open = 0, False, False
    for kind, part, attached in _tokens(plain(text)):
        word = WORDS.get(part.replace("/ ", "/"), Word("", ""))
        if kind == "number":
            drafts.append(_Draft(part, sign or 1, before))
            roles, before, sign, is_open = f"{roles}Q", set(), 0, True
            continue
        last = part
        is_foreign |= word.foreign
        if sign and not (word.kind == "unit" and word.value in CURRENCIES):
            raise InputError(f"{shown(part)} follows a sign")
        if kind == "dash" and (not roles or roles[-1] != "Q") and not sign:
            if part not in MINUS or not attached:
                raise InputError(
                    f"the dash {shown(part)} is neither between two numbers nor a minus right "
                    "before one"
                )
            sign = -1
        elif kind == "plus" and attached and (not roles or roles[-1] != "Q"):
            sign = 1
        elif kind in ("dash", "plus", "sign"):
            roles += {"dash": "-", "plus": "+"}.get(kind) or SIGNS[part]
            is_open = False
        elif word.kind == "role" or (word.value == "min" and not is_open):
            roles += "I" if word.value == "min" else word.value
            is_open = False
        elif is_open or (word.kind in ("unit", "rate") and drafts and roles[-1] in AFTER):
            drafts[-1].add(word, part)
        elif word.kind == "unit" and word.value in CURRENCIES:
            before.add(word.value)
        else:
            raise InputError(f"{shown(part)} belongs to no number")
    if sign or before:
        raise InputError("a sign or a currency belongs to no number")
    return _phrase(roles, drafts, last, is_foreign=is_foreign)


def _tokens(text: str) -> Iterator[tuple[str, str, bool]]:
    """Return kind and text of each part, and whether a number or a currency is right after it."""
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise InputError(_not_known(text, at))
        at, kind = match.end(), str(match.lastgroup)
        yield kind, match[kind], bool(re.match(r"[^\W_]|[^\w\s.,]", text[at:]))


def _not_known(text: str, at: int) -> str:
    found = UNKNOWN.search(text, at)
    part = found[0] if found else text[at:]
    return f"the {'word' if part.isalpha() else 'sign'} {shown(part)} is not known"


def _phrase(roles: str, drafts: list[_Draft], last: str, *, is_foreign: bool) -> Phrase:
    ends = next((ends for form, ends in FORMS.items() if form.fullmatch(roles)), None)
    if ends is None:
        raise InputError(_not_a_form(roles, last))
    units = frozenset(unit for draft in drafts for unit in draft.units)
    rates = frozenset(rate for draft in drafts for rate in draft.rates)
    if len(units) > 1:
        first, second, *_ = sorted(units)
        raise InputError(f"it is in {second}, not in {first}; write all in one unit")
    if len(rates) > 1:
        raise InputError(f"it is per {' and per '.join(sorted(rates))}")
    if units & set(CURRENCIES) or any(draft.power is not None for draft in drafts):
        for draft in drafts:
            draft.read_m_as_million()
    quantities = tuple(draft.finished() for draft in drafts)
    billions = any(draft.has_billions for draft in drafts)
    return Phrase(quantities, *ends, "|" in roles, units, rates, is_foreign, billions)


def _not_a_form(roles: str, last: str) -> str:
    if "Q" not in roles:
        return "it has no number"
    if re.fullmatch(r"Q[^Q]", roles):
        return f"{shown(last)} does not belong after a number; write 'or more' or 'or less'"
    if re.fullmatch(r"Q\+Q", roles):
        return "'+' stands between two numbers"
    if roles.count("Q") > 2:
        return "it has more than two numbers"
    return "it is not a bracket such as 20-50k, under 18 or 65+"


# --- What comma and dot mean ---------------------------------------------------------------------


def number(digits: str, decimal: str) -> Decimal | None:
    """Return the number that is written, its exponent the step in which it is written.

    It is None if these are not digits as `decimal`, see `Spelling`, has them.
    """
    if "e" in digits:
        return Decimal(digits)
    match = NUMBERS[decimal].fullmatch(digits)
    if match is None or (EITHER.fullmatch(digits) and _is_unclear(digits, decimal)):
        return None
    whole, fraction = digits, match[2] or ""
    if fraction:
        whole = digits[: -len(fraction) - 1]
    whole = re.sub(r"\D", "", whole)
    return Decimal(f"{whole}.{fraction}" if fraction else whole)


def _is_unclear(digits: str, decimal: str) -> bool:
    """Tell whether 1.234 or 1,234 may be a decimal number or thousands."""
    return decimal in ("?", ".,") or decimal in digits


def why_no_number(digits: str, decimal: str) -> str:
    """Return why digits cannot be read."""
    if EITHER.fullmatch(digits) and _is_unclear(digits, decimal):
        mark = "dot" if "." in digits else "comma"
        return f"{digits} may be a decimal number or thousands; write it without the {mark}"
    if any(number(digits, other) is not None for other in (".3", ",3")):
        mark = "comma" if decimal.startswith(",") else "dot"
        return f"{digits} is not a number where the {mark} separates decimals, as in this column"
    return f"{digits} is not a number"


def decide_decimal(phrases: Iterable[Phrase]) -> str:
    """Return what comma and dot mean in a column: the sign that separates decimals.

    A 3 follows the sign if some number must have three decimals, as 0.125 does: without it, nobody
    knows whether 1.250 is a thousand or one. If no sign tells, the dot separates decimals and the
    comma thousands, as in English; in a column of another language that is unclear ("?"). If every
    number is clear by itself, both signs may separate decimals.
    """
    phrases = list(phrases)
    digits = {q.digits for phrase in phrases for q in phrase.quantities if "e" not in q.digits}
    fits = [mark for mark in ".," if all(number(part, f"{mark}3") is not None for part in digits)]
    if len(fits) > 1:
        return "?" if any(phrase.is_foreign for phrase in phrases) else "."
    if not fits:
        return ".," if all(number(part, ".,") is not None for part in digits) else "."
    [mark] = fits
    return f"{mark}3" if any(_decimals(part, mark) == 3 for part in digits) else mark


def _decimals(digits: str, mark: str) -> int:
    """Return how many decimals a number must have; 0 if it may have none."""
    match = NUMBERS[f"{mark}3"].fullmatch(digits)
    return 0 if match is None or EITHER.fullmatch(digits) else len(match[2] or "")


# --- What m and min mean -------------------------------------------------------------------------


def decide_letter(letter: str, phrases: Iterable[Phrase]) -> str:
    """Return what m or min means in a column: MILLION, MINIMUM, a unit, or "" if unclear."""
    phrases = list(phrases)
    units = {unit for phrase in phrases for unit in phrase.units}
    if letter == "min":
        # 10-20 min and 30 min or more cannot be a minimum
        is_time = any("min" in phrase.letters and not phrase.is_one for phrase in phrases)
        if is_time or MINUTE in units:
            return MINUTE
        return MINIMUM if units else ""
    is_length = bool(units & set(LENGTHS))
    is_money = bool(units & set(CURRENCIES)) or any(phrase.magnitudes for phrase in phrases)
    if is_length == is_money:
        return ""
    return METRE if is_length else MILLION


def with_letters(phrase: Phrase, m: str, least: str) -> Phrase:
    """Return a text with what m and min mean in its column.

    Raises
    ------
    InputError
        If that is not clear.
    """
    letters = phrase.letters
    if "min" in letters:
        least = least if phrase.is_one else MINUTE
        if not least:
            raise InputError("'min' may be minutes or a minimum; write the whole word")
        if least == MINIMUM:
            phrase = phrase._replace(has_high=None)
        else:
            phrase = phrase._replace(units=phrase.units | {MINUTE})
    if "m" in letters:
        if not m:
            raise InputError("'m' may be a metre or a million; write the whole word")
        if m == METRE:
            phrase = phrase._replace(units=phrase.units | {METRE})
        else:
            quantities = [
                quantity._replace(power=6) if quantity.letter == "m" else quantity
                for quantity in phrase.quantities
            ]
            phrase = phrase._replace(quantities=tuple(quantities))
    if len(phrase.units) > 1:
        first, second, *_ = sorted(phrase.units)
        raise InputError(f"it is in {second}, not in {first}; write all in one unit")
    return phrase
