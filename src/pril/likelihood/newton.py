"""The maximum by Newton steps, damped as Levenberg and Marquardt do: the value never falls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve, eigh
from scipy.optimize import isotonic_regression
from scipy.sparse import csc_array, diags_array, issparse, triu
from scipy.sparse.linalg import splu

from pril.core.arrays import Array
from pril.core.threads import with_one_blas_thread
from pril.likelihood.sums import Information, Sums, by_thresholds

TOLERANCE = 1e-8  # of the log posterior: the last step moves by 1e-4 standard errors
ROUNDING = 1e-11  # of the log posterior, relative: a sum over many rows may fall by as much
SMALLEST = 1e-15  # of the log posterior, relative: no step can be seen to gain less
# Damping, of information scaled to 1: how fast it grows and shrinks, its least and its most. With
# the most, steps do not change a number of 1 any more.
DAMPING, LEAST_DAMPING, MOST_DAMPING = 10.0, 1e-3, 1e16
LEAST_LEFT = 0.1  # of the distance between two thresholds, after a step
MOST_SHORTER = 2  # times that a step after which the value falls is shortened, before it is damped
NO_DISTANCE = 1e-12  # of two thresholds: less makes no difference, and is soon a rounding error
MOST_VECTORS = 256  # numbers whose saddles are left along eigenvectors, which are slow to find
NEAR = 1.0  # squared standard errors between where a step ends and a maximum that it leads to
FLAT = 1e-9  # curvature of scaled information: a rounding error


class Maximum(NamedTuple):
    """Where the log posterior is largest, or where the search for it is."""

    x: Array  # w, phi, theta
    sums: Any = None  # `Sums` there; None before the first pass
    n_iter: int = 0
    damping: float = 0.0
    converged: bool = False

    @property
    def value(self) -> float:
        """The log posterior."""
        return float(self.sums.value)


Step = Callable[[Sums, Array, float], tuple[Array, bool]]


@with_one_blas_thread
def climb(
    look_at: Callable[[Array], Sums | None],
    start: Maximum,
    max_iter: int,
    *,
    unit: float = 1.0,
    tolerance: float = TOLERANCE,
    step_to: Step | None = None,
    known: Sequence[Maximum] = (),
    watch: Callable[[Maximum], None] = lambda _: None,
) -> Maximum:
    """Find a maximum. `look_at` returns None where there is no value.

    `unit` is the weight of a row, where rows weigh little. The last step would gain less than
    `tolerance`. A search that leads to a `known` maximum ends there. `watch` is told where the
    search is after each step: one that starts there gives the same bits.
    """
    x, here, n_before, damping, _ = start
    here = look_at(x) if here is None else here
    if here is None:
        raise FloatingPointError("the log-likelihood has no value where the search begins")
    for n_iter in range(n_before + 1, max_iter + 1):
        step, is_peak = (step_to or newton_step)(here, x, damping)
        gain = float(here.gradient @ step)
        step = ordered(x, step, here.information.cross.shape[1])
        for other in known if is_peak and damping == 0.0 else ():
            if other.sums.information.along(x + step - other.x) < NEAR:
                return other._replace(n_iter=n_iter)
        least = max(tolerance * min(unit, 1.0), SMALLEST * abs(here.value))
        is_short = gain < least or float(np.abs(step).max()) < NO_DISTANCE
        is_last = is_peak and damping == 0.0 and is_short
        there = look_at(x + step)
        for _ in range(0 if is_last else MOST_SHORTER):
            if there is None or not falls(here, there):
                break
            step = shorter(here, there, step)
            there = look_at(x + step)
        if there is None or falls(here, there):
            if is_last or damping > MOST_DAMPING:  # no step can be seen to gain
                return Maximum(x, here, n_iter, damping, is_last)
            damping = max(DAMPING * damping, LEAST_DAMPING)
            continue
        x, here = x + step, there
        damping = damping / DAMPING if damping > LEAST_DAMPING else 0.0
        if is_last:
            return Maximum(x, here, n_iter, damping, True)
        watch(Maximum(x, here, n_iter, damping))
    return Maximum(x, here, max_iter, damping, False)


def falls(here: Sums, there: Sums) -> bool:
    """Tell whether the value falls, by more than rounding."""
    return there.value < here.value - ROUNDING * abs(here.value)


def shorter(here: Sums, there: Sums, step: Array) -> Array:
    """Return the step to the top of a parabola through both values; at least a tenth, or a half."""
    slope = max(float(here.gradient @ step), 0.0)
    return step * min(max(0.5 * slope / (slope + here.value - there.value), 0.1), 0.5)


def newton_step(here: Sums, x: Array, damping: float) -> tuple[Array, bool]:
    """Return the step to the maximum of a parabola, or away from its saddle; whether it has one.

    A class that would gain rows by itself, and that a step of all numbers would close, is held.
    """
    first = len(x) - here.information.cuts.shape[0]
    above = here.gradient[first + 1 :]
    pull = np.cumsum(above[::-1])[::-1]  # by each distance, all thresholds above it moved
    distance, held = np.diff(x[first:]), pull < 0.0
    while True:
        information = with_room(here.information, distance, np.where(held, np.abs(pull), 0.0))
        find = _sparse_step if issparse(information.cuts) else _dense_step
        step, is_peak = find(information, here.gradient, damping)
        closed = ~held & (np.diff(step[first:]) < (LEAST_LEFT - 1.0) * distance)
        if not closed.any():
            return step, is_peak
        held |= closed


def with_room(information: Information, distance: Array, pull: Array) -> Information:
    """Return the information, increased where a class would vanish.

    A class whose share falls to 0 at the maximum has thresholds that meet. By the logarithm of the
    distance between them, the value is as curved as this adds.
    """
    if not pull.any():
        return information
    level = np.zeros(len(distance) + 1)
    more = by_thresholds(level, pull / distance, issparse(information.cuts))
    return information._replace(cuts=information.cuts + more)


def _dense_step(information: Information, gradient: Array, damping: float) -> tuple[Array, bool]:
    """Return the step by Cholesky's factor of the whole matrix, or by its eigenvectors."""
    scaled = information.dense()
    size = _size(np.diagonal(scaled))
    scaled /= size
    scaled /= size[:, np.newaxis]
    slope, more = gradient / size, damping
    while True:
        damped = scaled.copy()
        if more > 0.0:
            damped += more * brakes(information).dense() / size / size[:, np.newaxis]
        try:
            factor = cho_factor(damped, lower=True, overwrite_a=True, check_finite=False)
            return cho_solve(factor, slope, check_finite=False) / size, more == damping
        except LinAlgError:
            if len(size) <= MOST_VECTORS:
                break
            more = max(DAMPING * more, LEAST_DAMPING)
    values, vectors = eigh(scaled, check_finite=False)
    along = vectors.T @ slope
    steps = along / (np.maximum(np.abs(values), LEAST_DAMPING) + damping)
    is_flat = values[0] > -FLAT
    if not is_flat and along @ steps < TOLERANCE:
        steps[0] += 1.0 / (1.0 + damping)  # a saddle: either way leads up
    return vectors @ steps / size, is_flat


def brakes(information: Information) -> Information:
    """Return what damping multiplies: the curvature by each number, and by each distance.

    If thresholds were held back one by one, those that are close could not move together. A
    distance moves all thresholds above it or all below, whatever is easier; the level is that of
    the threshold that rows determine best.
    """
    rest, cross, cuts = information
    upper, diagonal = triu(cuts) if issparse(cuts) else np.triu(cuts), cuts.diagonal()
    above = (2.0 * upper.sum(axis=1) - diagonal)[::-1].cumsum()[::-1]
    below = (2.0 * upper.sum(axis=0) - diagonal).cumsum()
    curve = np.minimum(np.abs(above[1:]), np.abs(below[:-1]))
    level = np.zeros(len(diagonal))
    if len(level):
        level[np.argmax(diagonal)] = _size(above[:1])[0] ** 2
    own = np.diag(_size(np.diagonal(rest)) ** 2)
    slower = by_thresholds(level, _size(curve) ** 2, issparse(cuts))
    return Information(own, np.zeros_like(cross), slower)


def ordered(x: Array, step: Array, k: int) -> Array:
    """Return the step, or the nearest one that leaves a tenth of the distance of thresholds."""
    distance = np.diff(x[len(x) - k :], prepend=0.0)
    least = np.maximum(LEAST_LEFT * distance, np.minimum(distance, NO_DISTANCE))
    theta = x[len(x) - k :] + step[len(x) - k :]
    if k < 2 or (np.diff(theta) >= least[1:]).all():
        return step
    least[0] = 0.0
    room = np.cumsum(least)
    step = step.copy()
    step[-k:] = isotonic_regression(theta - room).x + room - x[-k:]
    return step


def _size(diagonal: Array) -> Array:
    return np.sqrt(np.where(diagonal == 0.0, 1.0, np.maximum(np.abs(diagonal), 1e-300)))


def _sparse_step(information: Information, gradient: Array, damping: float) -> tuple[Array, bool]:
    """Return the step by the Schur complement of the thresholds; damped until it is one up."""
    (rest, cross, cuts), brake = information, brakes(information)
    r = len(rest)
    size = _size(np.concatenate([np.diagonal(rest), cuts.diagonal()]))
    inner, outer = diags_array(1.0 / size[r:]), np.outer(size[:r], size[:r])
    cuts, slower = csc_array(inner @ cuts @ inner), csc_array(inner @ brake.cuts @ inner)
    cross, rest, slope = cross / np.outer(size[:r], size[r:]), rest / outer, gradient / size
    more = damping
    while True:
        solve = factored(cuts + more * slower)
        if solve is not None:
            part = solve(cross.T)
            try:
                factor = cho_factor(rest + more * brake.rest / outer - cross @ part, lower=True)
                break
            except LinAlgError:
                pass
        more = max(DAMPING * more, LEAST_DAMPING)
    first = cho_solve(factor, slope[:r] - part.T @ slope[r:])
    return np.concatenate([first, solve(slope[r:]) - part @ first]) / size, more == damping


def factored(matrix: csc_array) -> Callable[[Array], Array] | None:
    """Return what solves with a symmetric sparse matrix; None if it is not positive definite."""
    options = {"SymmetricMode": True}
    try:
        lu = splu(matrix, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
    except RuntimeError:
        return None
    solve: Callable[[Array], Array] = lu.solve
    return solve if (lu.U.diagonal() > 0.0).all() else None


def log_determinant(information: Information) -> float:
    """Return the log of the determinant of the information over 2 pi, as Laplace needs it."""
    rest, cross, cuts = information
    if not issparse(cuts):
        return float(np.linalg.slogdet(information.dense() / (2.0 * np.pi))[1])
    lu = splu(csc_array(cuts))
    whole = float(np.log(np.abs(lu.U.diagonal())).sum())
    schur = np.linalg.slogdet(rest - cross @ lu.solve(cross.T))[1]
    return whole + float(schur) - (len(rest) + cuts.shape[0]) * float(np.log(2.0 * np.pi))
