"""A stream of intervals, and the constraints that they put on a model.

Its length is an exact number, and a float that is made of one is never below it: a bound must not
be rounded down.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from numbers import Rational
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.rows import check_cells
from pril.errors import InputError

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


class Constraints(NamedTuple):
    """Rows and their constraints: signs[t, i] is z_i of row t, 0 where there is no constraint."""

    X: Array
    signs: Array
    classes: Array
    intervals: Array

    @property
    def squared_radius(self) -> Fraction:
        """The squared length of the longest row, exactly."""
        scaled = self.X / np.longdouble(np.abs(self.X).max() or 1.0)
        squares = (scaled * scaled).sum(axis=1)
        error = 2 * np.finfo(squares.dtype).eps * (self.X.shape[1] + 2)  # of each sum, relatively
        return max(_squared_length(row) for row in self.X[squares >= (1 - error) * squares.max()])

    @property
    def radius(self) -> float:
        """The length of the longest row, rounded up."""
        return root_rounded_up(self.squared_radius)

    @property
    def min_width(self) -> int:
        """The least number of thresholds inside an interval."""
        return int((self.intervals[:, 1] - self.intervals[:, 0]).min())

    @property
    def y(self) -> Array:
        """The labels, as lower and upper ends."""
        return self.classes[self.intervals]

    def margins(self, w: Array, theta: Array) -> Array:
        """Return z_i (w . x_t - theta_i), infinite where there is no constraint."""
        signed = self.signs * ((self.X @ w)[:, np.newaxis] - theta)
        return np.where(self.signs == 0, np.inf, signed)


def _squared_length(row: Array) -> Fraction:
    """Return the sum of squares of a row of floats, whose denominators are powers of two."""
    ratios = [value.as_integer_ratio() for value in row.tolist()]
    common = max(denominator for _, denominator in ratios)
    squares = ((n * (common // denominator)) ** 2 for n, denominator in ratios)
    return Fraction(sum(squares), common**2)


def read_constraints(X: Any, y: Any, classes: Any) -> Constraints:
    """Return the constraints of the rows that have a label."""
    check_cells(X)
    X = check_array(X, dtype=np.float64)
    order, intervals = ranking.encode(ranking.read(y), classes)
    ranking.check_length(intervals, X)
    labelled = ranking.is_labelled(intervals)  # the others are not learned from
    if not labelled.any():
        raise InputError("y has no label in any row: there is nothing to analyse")
    X, intervals = X[labelled], intervals[labelled]
    i = np.arange(len(order) - 1)
    signs = (i < intervals[:, :1]).astype(np.int64) - (i >= intervals[:, 1:])
    return Constraints(X, signs, order, intervals)
