"""The largest margin of a stream."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from scipy.optimize import linprog, nnls

from pril.core.arrays import Array
from pril.errors import InputError
from pril.theory.bounds import Constraints, read_constraints

__all__ = ["Margin", "margin"]

NEGLIGIBLE = 1e-9  # a margin below this share of the longest row counts as zero
MOST_ADDED = 200  # constraints added to the solver's working set at a time
MOST_ORDERS = 10  # column orders to try when the solver returns a wrong answer


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
    X: Any,
    y: Any,
    norm: Literal["l2", "l1"] = "l2",
    nonnegative: bool = False,
    *,
    classes: Any = None,
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
    >>> from pril.theory import margin
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
    v = np.concatenate([w, comparator.theta + w @ centre])
    v /= np.linalg.norm(v, 2 if norm == "l2" else 1)
    w, theta = v[: len(w)], v[len(w) :]
    gamma = float(stream.margins(w, theta).min())
    return Margin(gamma, w, theta) if gamma > 0 else largest


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
        v /= np.linalg.norm(v, 2 if norm == "l2" else 1)
        w, theta = v[:n_features], v[n_features:]
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
        bounds=[(0, None)] * n + [(0, None)],
        method="highs",
    )
    if solution.x is None or solution.x[-1] <= NEGLIGIBLE:
        return None
    parts = solution.x[:-1]
    return parts if nonnegative else parts[: n // 2] - parts[n // 2 :]
