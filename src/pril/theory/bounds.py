"""Streams of intervals, the constraints they put on a model, and bounds on mistakes and regret.

Lengths and bounds are computed as fractions; the float that is returned is never below the exact
number, because a bound must not be rounded down.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from numbers import Integral, Rational
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from sklearn.utils import check_array

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.rows import check_cells
from pril.errors import InputError

__all__ = [
    "general_mistake_bound",
    "mistake_bound",
    "multiplicative_mistake_bound",
    "multiplicative_step",
    "regret_bound",
]

BITS = 128  # of a square root before it is rounded to a float, which has 53
DIGITS = 6  # of a bound in print


# --- Rounding ------------------------------------------------------------------------------------


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


# --- Streams -------------------------------------------------------------------------------------


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
    return Constraints(X, ranking.constraints(intervals, len(order)), order, intervals)


# --- Bounds --------------------------------------------------------------------------------------


def n_constraints(n_classes: Any, min_width: Any) -> int:
    """Return C = K - c - 1, the most constraints that a round can violate."""
    K = checked_count("n_classes", n_classes, 1)
    if not isinstance(min_width, Integral) or not 0 <= int(min_width) <= K - 1:
        raise InputError(f"min_width must be between 0 and n_classes - 1, got {min_width!r}")
    return K - int(min_width) - 1


def checked_positive(name: str, value: float, *, zero: bool = False) -> float:
    """Return a number that must be positive."""
    if not (value > 0 or (zero and value == 0)):
        raise InputError(f"{name} must be {'at least 0' if zero else 'positive'}, got {value!r}")
    return value


def checked_count(name: str, value: Any, least: int) -> int:
    """Return an integer that must not be smaller than another."""
    if not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def mistake_bound(radius: float, gamma: float, n_classes: int, min_width: int = 0) -> float:
    """Return Theorem 1's bound on the violated constraints of PRIL on a separable stream.

    ``(R^2 + 1) C / gamma^2``, correct as printed.

    Parameters
    ----------
    radius : float
        Largest length of a row.
    gamma : float
        Margin of a comparator of unit l2 norm.
    n_classes : int
        Number of classes, K.
    min_width : int, default=0
        Least width of a label, c.

    Returns
    -------
    bound : float
        On the number of violated constraints over all rounds, and so on the interval loss.

    Examples
    --------
    >>> from pril.theory import mistake_bound
    >>> mistake_bound(radius=1.0, gamma=0.5, n_classes=3)
    16.0
    """
    C = n_constraints(n_classes, min_width)
    radius, gamma = checked_positive("radius", radius, zero=True), checked_positive("gamma", gamma)
    if C == 0 or math.isinf(radius):
        return math.inf if C else 0.0
    return _over_squared_margin(C * (exactly(radius) ** 2 + 1), gamma)


def _over_squared_margin(value: Fraction, gamma: float) -> float:
    """Return value / gamma^2, rounded up; 0 for an infinite margin."""
    return 0.0 if math.isinf(gamma) else rounded_up(value / exactly(gamma) ** 2)


def general_mistake_bound(
    X: Any,
    y: Any,
    w: ArrayLike,
    theta: ArrayLike,
    gamma: float | None = None,
    *,
    classes: Any = None,
) -> float:
    """Return Theorem 2's bound on the violated constraints of PRIL, for any comparator.

    ``(D + sqrt(R^2 + 1))^2 C / gamma^2``, where D^2 is the sum of squares of how far each
    constraint falls short of the margin gamma. Correct as printed, for a single pass.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends.
    w : array-like of shape (n_features,)
        Weights of the comparator; (w, theta) is scaled to unit length.
    theta : array-like of shape (n_classes - 1,)
        Its thresholds.
    gamma : float, default=None
        The margin. None takes the one with the smallest bound.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y.

    Returns
    -------
    bound : float
        On the number of violated constraints over all rounds.

    Examples
    --------
    >>> from pril.theory import general_mistake_bound
    >>> round(general_mistake_bound([[-1.0], [1.0]], [1, 2], w=[1.0], theta=[0.0]), 6)
    2.0
    """
    stream = read_constraints(X, y, classes)
    weights, cuts = (np.asarray(part, dtype=np.float64) for part in (w, theta))
    wanted = (stream.X.shape[1],), (stream.signs.shape[1],)
    if (weights.shape, cuts.shape) != wanted or not np.isfinite([*weights, *cuts]).all():
        raise InputError(
            f"w and theta must hold {wanted[0][0]} and {wanted[1][0]} finite numbers, got shapes "
            f"{weights.shape} and {cuts.shape}"
        )
    v = np.concatenate([weights, cuts])
    largest = np.abs(v).max(initial=0.0)
    C = n_constraints(len(stream.classes), stream.min_width)
    if C == 0:
        return 0.0
    if largest == 0:
        raise InputError("w and theta are all zero: such a comparator cannot be scaled")
    v /= largest  # so that no square is too large or too small
    v /= np.linalg.norm(v)
    margins = stream.margins(v[: stream.X.shape[1]], v[stream.X.shape[1] :])[stream.signs != 0]
    reach = root_rounded_up(stream.squared_radius + 1)
    # The most that rounding takes from the margins and from the sum of squares.
    lost = np.finfo(np.float64).eps * (2 * len(v) + 16) * reach * math.sqrt(len(margins))
    grown = 1.0 + np.finfo(np.float64).eps * (len(margins) + 16)

    def root(slope: float) -> float:
        """(D + sqrt(R^2 + 1)) / gamma at gamma = 1 / slope: convex, and finite at 0."""
        shortfalls = np.maximum(0.0, 1.0 - slope * margins)
        return float(grown * (np.linalg.norm(shortfalls) + (reach + lost) * slope))

    if gamma is not None:
        slope = 1.0 / float(checked_positive("gamma", gamma))
        return root(slope) * root(slope) * C if math.isfinite(slope) else math.inf
    smallest = minimize_scalar(
        root, bounds=(0.0, math.sqrt(len(margins)) / reach), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
    return min(root(0.0), float(smallest.fun)) ** 2 * C


def regret_bound(
    rounds: int,
    radius: float,
    n_classes: int,
    min_width: int = 0,
    *,
    norm: float,
    as_printed: bool = False,
) -> float:
    """Return Theorem 3's bound on the regret of PRIL.

    ``(norm^2 + T (C^2 R^2 + C)) / 2``. The paper prints ``C (R^2 + 1)`` for the last factor, which
    is wrong when a round violates two constraints.

    Parameters
    ----------
    rounds : int
        Number of rows, T.
    radius : float
        Largest length of a row.
    n_classes : int
        Number of classes, K.
    min_width : int, default=0
        Least width of a label, c.
    norm : float
        Largest l2 norm of the models PRIL is compared with, Lambda.
    as_printed : bool, default=False
        Whether to return the bound that the paper prints, which is wrong.

    Returns
    -------
    bound : float
        On the summed surrogate loss, minus that of the best fixed model.

    Examples
    --------
    >>> from pril.theory import regret_bound
    >>> regret_bound(1000, 1.0, 5, norm=4.0)
    10008.0
    >>> regret_bound(1000, 1.0, 5, norm=4.0, as_printed=True)
    4008.0
    """
    C = n_constraints(n_classes, min_width)
    radius = checked_positive("radius", radius, zero=True)
    norm = checked_positive("norm", norm, zero=True)
    rounds = checked_count("rounds", rounds, 0)
    if math.isinf(norm) or (math.isinf(radius) and rounds * C > 0):
        return math.inf
    squared_radius = exactly(radius) ** 2 if rounds * C else Fraction(0)
    square = C * (squared_radius + 1) if as_printed else squared_gradient(squared_radius, C)
    return rounded_up((exactly(norm) ** 2 + rounds * square) / 2)


def squared_gradient(squared_radius: Fraction, C: int) -> Fraction:
    """Return G^2, where G is the largest length of a subgradient: C^2 R^2 + C."""
    return C**2 * squared_radius + C


def multiplicative_mistake_bound(
    n_features: int,
    n_classes: int,
    gamma: float,
    min_width: int = 0,
    signed: bool = True,
    *,
    as_printed: bool = False,
) -> float:
    """Return Theorem 4's bound on the violated constraints of M-PRIL on a separable stream.

    ``2 C^2 log(N) / gamma^2`` with ``N = K + d - 1``, twice that for the signed form, for features
    within [-1, 1] and the step of `multiplicative_step`. The paper omits the factor 2.

    Parameters
    ----------
    n_features : int
        Number of features, d.
    n_classes : int
        Number of classes, K.
    gamma : float
        Margin of a comparator of unit l1 norm, non-negative unless signed.
    min_width : int, default=0
        Least width of a label, c.
    signed : bool, default=True
        Whether weights and thresholds may be negative.
    as_printed : bool, default=False
        Whether to return the bound that the paper prints. It has no signed form.

    Returns
    -------
    bound : float
        On the number of violated constraints over all rounds.

    Examples
    --------
    >>> from pril.theory import multiplicative_mistake_bound
    >>> round(multiplicative_mistake_bound(10, 3, gamma=0.5), 2)
    101.7
    """
    C = n_constraints(n_classes, min_width)
    gamma = checked_positive("gamma", gamma)
    experts = int(n_classes) + checked_count("n_features", n_features, 1) - 1
    if as_printed:
        return _over_squared_margin(C**2 * log_rounded_up(experts), gamma)
    logarithm = log_rounded_up(2 * experts if signed else experts)
    return _over_squared_margin(2 * C**2 * logarithm, gamma)


def multiplicative_step(gamma: float, n_classes: int, min_width: int = 0) -> float:
    """Return the rate of M-PRIL for which Theorem 4 gives the smallest bound.

    ``log((C + gamma) / (C - gamma)) / (2 C)``, which is infinite for gamma = C and for C = 0.

    Parameters
    ----------
    gamma : float
        Margin of a comparator of unit l1 norm.
    n_classes : int
        Number of classes, K.
    min_width : int, default=0
        Least width of a label, c.

    Returns
    -------
    rate : float
        For the parameter `rate` of `MPRIL`.

    Examples
    --------
    >>> from pril.theory import multiplicative_step
    >>> round(multiplicative_step(gamma=0.5, n_classes=3), 4)
    0.1277
    """
    C = n_constraints(n_classes, min_width)
    gamma = checked_positive("gamma", gamma)
    if C == 0:
        return math.inf
    if gamma > C:
        raise InputError(f"gamma is at most {C} here (features within [-1, 1]), got {gamma!r}")
    return math.inf if gamma == C else math.log((C + gamma) / (C - gamma)) / (2 * C)
