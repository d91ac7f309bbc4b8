"""Exact numbers, and floats that are never below them: a bound must not be rounded down."""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any

BITS = 128  # of a square root before it is rounded to a float, which has 53
DIGITS = 6  # of a bound in print


def exactly(value: Any) -> Fraction:
    """Return a finite number as a fraction."""
    return Fraction(value) if isinstance(value, Rational) else Fraction(float(value))


def rounded_up(value: Fraction) -> float:
    """Return the smallest float that is not below a number."""
    try:
        nearest = float(value)
    except OverflowError:
        return math.inf
    return nearest if nearest >= value else math.nextafter(nearest, math.inf)


def root_rounded_up(value: Fraction) -> float:
    """Return the smallest float that is not below the square root of a number, or the next one."""
    if value == 0:
        return 0.0
    bits = value.numerator.bit_length() - value.denominator.bit_length()
    shift = max(0, BITS - bits // 2)
    square = math.ceil(value * 4**shift)
    return rounded_up(Fraction(math.isqrt(square - 1) + 1, 2**shift))


def log_rounded_up(n: int) -> Fraction:
    """Return a number that is not below the logarithm of an integer, by a float's last digit."""
    return Fraction(math.nextafter(math.log(n), math.inf))


def printed(bound: float) -> str:
    """Return a bound with six digits, rounded up."""
    if not math.isfinite(bound):
        return f"{bound}"
    digits = Context(prec=DIGITS, rounding=ROUND_CEILING)
    return f"{float(digits.create_decimal(Decimal(bound))):.{DIGITS}g}"
