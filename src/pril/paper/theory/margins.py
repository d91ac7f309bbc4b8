"""Streams of intervals, the constraints they put on a model, and their largest margin.

Lengths are computed as fractions; the float that is returned is never below the exact number,
because a bound must not be rounded down.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from numbers import Rational
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linprog, nnls
from sklearn.utils import check_array

from pril.core.arrays import Array, FeaturesLike, LabelsLike
from pril.core.rows import check_cells
from pril.errors import InputError, refusing
from pril.labels import ranking

__all__ = ["Margin", "margin"]

BITS = 128  # of a square root before it is rounded to a float, which has 53
NEGLIGIBLE = 1e-9  # a margin below this share of the longest row counts as zero
MOST_ADDED = 200  # constraints added to the solver's working set at a time
MOST_ORDERS = 10  # column orders to try when the solver returns a wrong answer


# --- Rounding ------------------------------------------------------------------------------------


def exactly(value: float | Rational) -> Fraction:
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


def read_constraints(X: FeaturesLike, y: LabelsLike, classes: ArrayLike | None) -> Constraints:
    """Return the constraints of the rows that have a label."""
    check_cells(X)
    with refusing():
        X = check_array(X, dtype=np.float64)
    order, intervals = ranking.encode(ranking.read(y), classes)
    ranking.check_length(intervals, X)
    labelled = ranking.is_labelled(intervals)  # the others are not learned from
    if not labelled.any():
        raise InputError("y has no label in any row: there is nothing to analyse")
    X, intervals = X[labelled], intervals[labelled]
    return Constraints(X, ranking.constraints(intervals, len(order)), order, intervals)


# --- The largest margin --------------------------------------------------------------------------


@dataclass(frozen=True)
class Margin:
    """The largest margin of a stream and the comparator that has it.

    Attributes
    ----------
    gamma : float
        The margin: 0 if no comparator satisfies every constraint, infinite if there are no
        constraints.
    w : ndarray of shape (n_features,) or None
        Weights of the comparator, None if the margin is 0.
    theta : ndarray of shape (n_classes - 1,) or None
        Its thresholds.
    """

    gamma: float
    w: Array | None
    theta: Array | None

    @property
    def separable(self) -> bool:
        """Whether some comparator satisfies every constraint with a positive margin."""
        return self.gamma > 0

    def __str__(self) -> str:
        if not self.separable:
            return "not separable: no weights and thresholds were found that satisfy every interval"
        return f"separable with margin {self.gamma:.6g}"


def margin(
    X: FeaturesLike,
    y: LabelsLike,
    norm: Literal["l2", "l1"] = "l2",
    nonnegative: bool = False,
    *,
    classes: ArrayLike | None = None,
) -> Margin:
    """Find the largest margin that a comparator of unit norm can have on a stream.

    The l2 problem is a least-distance problem, solved by SciPy's non-negative least squares; the
    l1 problem is a linear program, solved by HiGHS. Both start with the most violated constraints
    and add more until none is missing. The margin is then computed from all rows, so it is never
    overstated. Where the largest margin is less than 1e-9 of the longest row, the result may be a
    smaller one.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends.
    norm : {"l2", "l1"}, default="l2"
        The norm in which (w, theta) has length one: l2 for PRIL, l1 for M-PRIL.
    nonnegative : bool, default=False
        Whether weights and thresholds must not be negative, as plain M-PRIL's are.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y.

    Returns
    -------
    margin : Margin
        The margin and its comparator.

    Examples
    --------
    >>> from pril.paper.theory import margin
    >>> found = margin([[-1.0], [1.0]], [1, 2])
    >>> round(found.gamma, 6)
    1.0
    >>> print(margin([[1.0], [1.0]], [1, 2]))
    not separable: no weights and thresholds were found that satisfy every interval
    """
    if norm not in ("l2", "l1"):
        raise InputError(f"norm must be 'l2' or 'l1', got {norm!r}")
    stream = read_constraints(X, y, classes)
    if not stream.signs.any():
        w = np.zeros(stream.X.shape[1])
        w[0] = 1.0
        return Margin(math.inf, w, np.zeros(stream.signs.shape[1]))
    largest = largest_margin(stream, norm, nonnegative)
    if largest.separable or nonnegative:
        return largest
    # For rows far from the origin the margin is too small for the solvers. Thresholds absorb a
    # shift of the rows, so solve the problem for centred rows and shift the comparator back.
    centre, spread = stream.X.mean(axis=0), np.ptp(stream.X, axis=0).max() or 1.0
    centred = stream._replace(X=(stream.X - centre) / spread)
    comparator = largest_margin(centred, norm, nonnegative)
    if comparator.w is None or comparator.theta is None:
        return largest
    w = comparator.w / spread
    w, theta = _scaled(np.concatenate([w, comparator.theta + w @ centre]), len(w), norm)
    gamma = float(stream.margins(w, theta).min())
    return Margin(gamma, w, theta) if gamma > 0 else largest


def _scaled(v: Array, n_features: int, norm: str) -> tuple[Array, Array]:
    """Return the weights and thresholds of a comparator, scaled to norm one."""
    v = v / np.linalg.norm(v, 2 if norm == "l2" else 1)
    return v[:n_features], v[n_features:]


def largest_margin(stream: Constraints, norm: str, nonnegative: bool) -> Margin:
    """Return the largest margin, 0 where the solvers cannot tell it from 0."""
    n_features, n_cuts = stream.X.shape[1], stream.signs.shape[1]
    scale = max(1.0, stream.radius)  # the solvers get rows of length 1 at most
    solve = _least_distance if norm == "l2" else _linear_program
    chosen = np.zeros(stream.signs.shape, dtype=bool)
    margins = stream.margins(np.zeros(n_features), np.zeros(n_cuts))
    chosen[_most_violated(margins, 0.0, chosen)] = True
    best = Margin(0.0, None, None)
    while True:
        t, i = np.nonzero(chosen)
        rows = np.zeros((len(t), n_features + n_cuts))
        rows[:, :n_features] = stream.X[t]
        rows[np.arange(len(t)), n_features + i] = -1.0
        rows *= stream.signs[t, i, np.newaxis] / scale
        v = solve(rows, nonnegative)
        if v is None:
            return best
        w, theta = _scaled(v, n_features, norm)
        margins = stream.margins(w, theta)
        if margins.min() > max(best.gamma, NEGLIGIBLE * scale):
            best = Margin(float(margins.min()), w, theta)
        # With these constraints alone, no larger margin is possible.
        possible = margins[chosen].min()
        more = _most_violated(margins, possible - NEGLIGIBLE * scale, chosen)
        if not more[0].size:
            return best
        chosen[more] = True


def _most_violated(margins: Array, limit: float, chosen: Array) -> tuple[Array, ...]:
    """Return the smallest margins up to a limit, of constraints that are not chosen yet."""
    waiting = np.where(chosen, np.inf, margins)
    below = np.flatnonzero(waiting <= limit)
    least = below[np.argsort(waiting.ravel()[below], kind="stable")[:MOST_ADDED]]
    return np.unravel_index(least, margins.shape)


def _least_distance(rows: Array, nonnegative: bool) -> Array | None:
    """Return the shortest v with rows @ v >= 1, or None (Lawson and Hanson, chapter 23)."""
    goal = np.ones(len(rows))
    if nonnegative:
        rows = np.vstack([rows, np.eye(rows.shape[1])])
        goal = np.concatenate([goal, np.zeros(rows.shape[1])])
    system = np.vstack([rows.T, goal])
    target = np.zeros(len(system))
    target[-1] = 1.0
    residual = _checked_nnls(system, target)
    if np.linalg.norm(residual) < NEGLIGIBLE:
        return None
    v: Array = -residual[:-1] / residual[-1]
    return np.maximum(v, 0.0) if nonnegative else v


def _checked_nnls(system: Array, target: Array) -> Array:
    """Return the smallest residual that a non-negative combination of the columns leaves.

    SciPy's nnls, from 1.15 on, does not find the minimum of one problem in some thousand (SciPy
    issue 25389). So check the conditions for a minimum; if they fail, reorder the columns.
    """
    rng, order = np.random.default_rng(0), np.arange(system.shape[1])
    least = -target
    for _ in range(MOST_ORDERS):
        columns = system[:, order]
        u, _ = nnls(columns, target, maxiter=30 * len(order))
        residual = columns @ u - target
        if np.linalg.norm(residual) < np.linalg.norm(least):
            least = residual
        slope = columns.T @ residual
        if slope.min() >= -NEGLIGIBLE and np.abs(slope[u > 0]).max(initial=0.0) <= NEGLIGIBLE:
            break
        rng.shuffle(order)
    return least


def _linear_program(rows: Array, nonnegative: bool) -> Array | None:
    """Return the v of l1 norm one whose smallest entry of rows @ v is largest, if positive."""
    signed = rows if nonnegative else np.hstack([rows, -rows])
    n = signed.shape[1]
    solution = linprog(
        c=np.append(np.zeros(n), -1.0),
        A_ub=np.vstack([np.hstack([-signed, np.ones((len(rows), 1))]), np.append(np.ones(n), 0.0)]),
        b_ub=np.append(np.zeros(len(rows)), 1.0),
    )
    if solution.x is None or solution.x[-1] <= NEGLIGIBLE:
        return None
    parts = solution.x[:-1]
    return parts if nonnegative else parts[: n // 2] - parts[n // 2 :]
