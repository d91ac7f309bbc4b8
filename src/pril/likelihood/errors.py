"""How certain a maximum is: the covariance of weights and thresholds, the mechanism included.

It is the inverse of the information at the maximum. If rows are in groups, or their weights are
those of a sample, it is a sandwich: the squares of what groups or rows add to the gradient, between
two inverses (Huber, 1967).

Some numbers are not determined by the rows: weights of features that are constant or that others
determine, thresholds of classes that have vanished, and weights that grow without bound because
they separate labels (Albert and Anderson, 1984). They have no errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import LinAlgError, eigh, solve_triangular
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, hstack, vstack

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.rows import batches
from pril.core.threads import with_one_blas_thread
from pril.core.words import some_of
from pril.errors import shown
from pril.likelihood.fitting import Fit, Problem, SeenClasses
from pril.likelihood.mechanisms import Random
from pril.likelihood.rows import Block, Frame, InMemory, Rows
from pril.likelihood.sums import MOST_DENSE, Point

VANISHED = 1e-3  # rows that a class has at the maximum, at most, if it has vanished
# A search ends when a step gains 1e-8: rows whose scores still move have a curvature of as little.
# Where a maximum exists, it is of the size of probabilities: for each row, and for all of them.
SEPARATED, ALL_SEPARATED = 1e-6, 1e-4
MOVED = 1e-3  # of the root of the mean square of scores: what moves less does not move
SINGULAR = 1e-12  # of information that is scaled to 1: a rounding error
TINY = 1e-300  # divides in place of zero
LEAST_SIZE = 1e-75  # of the root of information: variances have squares
MOST_SMALL = 0.01  # of the largest weight that grows: a smaller one is not what separates
MOST_LISTED = 5  # features, or labels, in a sentence
TOUCHES, FARTHEST = 1e-6, 1e3  # of scores: a row that is so near to its range; most of thresholds
MOST_PASSES = 100  # to find the rows that stand in the way of weights that grow
SEPARATES = "looking at what is separated"
MOST_CELLS = 1 << 20  # of the gradients of rows that are in memory at once


class Separation(NamedTuple):
    """Along which directions the likelihood grows without bound, and whose labels it separates."""

    directions: Array  # (directions, numbers), by (w, phi, theta) in the frame
    features: Array  # whose weights grow
    kinds: Array  # (kinds,), whether rows with such labels are separated from others


def separated(names: list[Any], growing: Array, order: Array, ends: Array) -> str:
    """Say which features separate which labels, given the numbers of both."""
    features = [shown(names[j]) for j in growing]
    labels = [
        f"{order[low]}" if low == high else f"{order[low]} to {order[high]}" for low, high in ends
    ]
    one = len(features) == 1
    verb, own = ("separates", "its weight grows") if one else ("separate", "their weights grow")
    return (
        f"feature{'s' * (not one)} {some_of(features, MOST_LISTED)} {verb} rows of label "
        f"{some_of(labels, MOST_LISTED)} from others, so that {own} without bound"
    )


def without_rows(kinds: Kinds, weights: Array) -> Array:
    """Return which classes no label contains."""
    rows = kinds.evenly(weights)
    return rows <= SINGULAR * rows.sum()


def vanished(theta: Array, n_rows: int) -> Array:
    """Return which of the distances between thresholds have no rows."""
    return np.diff(theta) * n_rows < VANISHED


def free_numbers(problem: Problem, x: Array) -> Any:
    """Return the sparse matrix that takes the numbers which rows determine to all (w, phi, theta).

    Features without a scale have no weight. Thresholds of a vanished class are one number.
    """
    phi, theta = problem.split(x)[1:]
    used = np.flatnonzero(problem.frame.scale > 0.0)
    rest = np.ones(len(phi) + len(theta), dtype=bool)  # begins a number of its own
    rest[len(phi) + 1 :] = ~vanished(theta, problem.rows.n_rows)
    rows = np.concatenate([used, problem.d + np.arange(len(rest))])
    columns = np.concatenate([np.arange(len(used)), len(used) + np.cumsum(rest) - 1])
    shape = (len(x), len(used) + int(rest.sum()))
    return csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def in_free_numbers(free: csr_array, numbers: Array) -> Array:
    """Return numbers, in columns, as those that rows determine."""
    return (free.T @ numbers) / free.sum(axis=0)[:, np.newaxis]


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of a fit: of its weights, and of all thresholds at the means of the features."""

    fit: Fit

    @property
    def is_dense(self) -> bool:
        """Whether the information is written down: not of many features."""
        return self.fit.problem.d <= MOST_DENSE

    @property
    def n_parameters(self) -> int:
        """How many numbers the rows determine: of features, of a mechanism, and thresholds."""
        problem, x = self.fit.problem, self.fit.maximum.x
        kinds, weights = problem.rows.kinds, problem.rows.weights
        phi, theta = problem.split(x)[1:]
        if isinstance(problem.mechanism, Random):
            n_thresholds = SeenClasses.of(kinds, weights).kinds.n_classes - 1
        else:
            n_thresholds = kinds.n_classes - 1 - int(without_rows(kinds, weights).sum())
        n_thresholds -= int(vanished(theta, problem.rows.n_rows).sum())
        n_chances = np.linalg.matrix_rank(problem.mechanism.table(phi).J) if len(phi) else 0
        return int((problem.frame.scale > 0.0).sum()) + int(n_chances) + n_thresholds

    @cached_property
    def free(self) -> Any:
        """The sparse matrix that takes what rows determine to all numbers."""
        return free_numbers(self.fit.problem, self.fit.maximum.x)

    @cached_property
    def information(self) -> Array:
        """The information of what rows determine."""
        return self.free.T @ self.fit.maximum.sums.information.dense() @ self.free

    @cached_property
    def aliases(self) -> Array:
        """Each feature without a scale, as a sum of those that have one: (unused, d).

        Only without a penalty; zeros for the offset, and for features that are constant.
        """
        problem, products = self.fit.problem, self.fit.products
        unused = np.flatnonzero(problem.frame.scale == 0.0)
        found = np.zeros((len(unused), problem.d))
        if products is not None and self.is_dense:
            used = np.flatnonzero(problem.frame.scale > 0.0)
            scale = Frame.of(problem.rows.moments, []).scale
            own = products[np.ix_(used, used)]
            by = np.linalg.lstsq(own, products[np.ix_(used, unused)], rcond=None)[0].T
            with np.errstate(divide="ignore", invalid="ignore"):
                by = by * scale[used] / scale[unused, np.newaxis]
            found[:, used] = np.where(np.isfinite(by), by, 0.0)
        found[unused == (-1 if problem.offset is None else problem.offset)] = 0.0
        return found

    @cached_property
    @with_one_blas_thread
    def separation(self) -> Separation:
        """Where the likelihood has no maximum, and rises for ever.

        Along such a direction, the curvature is nothing beside the squares of the scores. So it may
        be at a maximum where some scores are far from all others; but then, whichever way weights
        grow, some row leaves its range.
        """
        problem, x = self.fit.problem, self.fit.maximum.x
        used = np.flatnonzero(problem.frame.scale > 0.0)
        no_kinds = np.zeros(len(problem.rows.kinds.ends), dtype=bool)
        nothing = Separation(np.empty((0, len(x))), used[:0], no_kinds)
        if len(used) == 0 or len(self._point.theta) == 0 or problem.priors.ridge[used].any():
            return nothing
        if self.fit.products is not None:
            d, whole = len(used), self.information
            root = _inverse_root(whole[d:, d:])
            follow = -root @ (root.T @ whole[d:, :d])  # how all others follow the weights
            products = self.fit.products[np.ix_(used, used)]
            values, vectors = eigh(whole[:d, :d] + whole[:d, d:] @ follow, products)
            least = max(SEPARATED, ALL_SEPARATED / problem.rows.n_rows)
            vectors = np.abs(vectors[:, values < least])
            is_flat = (vectors > MOVED * vectors.max(axis=0, initial=0.0)).any(axis=1)
            if not is_flat.any():
                return nothing
            way, kinds = self._way_out(used[is_flat])
            direction = self.free @ np.concatenate([way[used], follow @ way[used]])
        else:  # of many features, all may grow alike; no other direction is looked at
            (way, kinds), direction = self._way_out(used[:0]), x
        if not kinds.any():
            return nothing
        size = (np.abs(x) + TINY)[used] * (problem.rows.moments.spread * problem.frame.scale)[used]
        size[way[used] == 0.0] = 0.0
        return Separation(direction[np.newaxis], used[size > MOST_SMALL * size.max()], kinds)

    def _way_out(self, features: Array) -> tuple[Array, Array]:
        """Return how weights can grow while no row leaves its range, and whose rows this moves.

        Linear programs move as many rows as can be moved. Their limits are those rows that leave
        their ranges on other ways.
        """
        problem, n = self.fit.problem, len(features)
        rows, d, frame = problem.rows, problem.d, problem.frame
        kinds = SeenClasses.of(rows.kinds, rows.weights).kinds
        ends, k = kinds.ends, kinds.n_classes - 1
        if k == 0:
            return np.zeros(d), np.zeros(len(ends), dtype=bool)
        spread = rows.moments.spread[features] * frame.scale[features]
        unit = np.maximum(np.abs(self.fit.maximum.x[features]), 1.0 / spread)
        cuts = eye_array(k + 2, format="csr")[:, 1:-1]
        by_cut = cuts[ends[:, 0]], -cuts[ends[:, 1] + 1]
        limits = hstack([csr_array((k - 1, n)), cuts[1:-2] - cuts[2:-1]], format="csr")
        box = [(-1.0, 1.0)] * n + [(-FARTHEST, FARTHEST)] * k
        either = 1e-3 * np.random.default_rng(0).normal(size=n + k)  # no weight stays at zero
        way, left = np.zeros(d + k), self._unmoved(ends, np.zeros(d + k))
        point, step = self._point, way
        if len(point.theta) == k:
            step = np.concatenate([point.w, point.theta])
        for n_passes in range(MOST_PASSES):
            least = self._least_moves(ends, step, features)
            leaves = least[:, :, 0] < -TOUCHES
            for side, some, by, sign in zip(least, leaves, by_cut, (-1.0, 1.0), strict=True):
                more = hstack([csr_array(sign * unit * side[some, 1:]), by[some]])
                limits = vstack([limits, more], format="csr")
            if not leaves.any():
                way, before = 0.5 * way + step, left  # no weights cancel
                left = self._unmoved(ends, way)
                if not left[d:].any() or (n_passes > 0 and np.array_equal(left, before)):
                    break
            if n == 0:
                break
            low, high = left[d:].reshape(2, -1)
            gains = np.concatenate([left[features] * unit, -(low @ by_cut[0] + high @ by_cut[1])])
            found = linprog(-gains - either, limits, np.zeros(limits.shape[0]), bounds=box).x
            if found is None:  # a failure of the solver
                break
            step = np.zeros(d + k)
            step[features], step[d:] = found[:n] * unit, found[n:]
        return way[:d], self._are_moved(ends, left)

    def _least_moves(self, ends: Array, way: Array, features: Any = ()) -> Array:
        """Return how far rows of each kind move into their ranges, at least, and these rows.

        The shape is (2, kinds, 1 + features): at the lowest classes, and at the highest.
        """
        problem, some = self.fit.problem, np.array(features, dtype=int)
        of = partial(_least_moves, problem.frame, ends, way, some)
        least: Array = problem.rows.add_up(of, _lesser, SEPARATES)
        return least

    def _unmoved(self, ends: Array, way: Array) -> Array:
        """Return the sums of the rows that a way does not move, and how many these are by kind.

        Those at their lowest classes count, and those at their highest with the other sign.
        """
        of = partial(_unmoved, self.fit.problem.frame, ends, way)
        sums: Array = self.fit.problem.rows.add_up(of, np.add, SEPARATES)
        return sums

    def _are_moved(self, ends: Array, unmoved: Array) -> Array:
        """Return the kinds that have rows which were moved."""
        bounded = np.array([ends[:, 0] > 0, ends[:, 1] < ends.max()])
        every = self.fit.problem.rows.moments.rows * bounded
        moved: Array = (unmoved[self.fit.problem.d :].reshape(2, -1) < every).any(axis=0)
        return moved

    @property
    def _point(self) -> Point:
        return self.fit.problem.point(self.fit.maximum.x)

    @cached_property
    def shown(self) -> Any:
        """The sparse matrix that takes (w, phi, theta) to weights, and thresholds at the means."""
        problem, scale = self.fit.problem, self.fit.scale
        d, k, n = problem.d, scale.kinds.n_classes - 1, len(self.fit.maximum.x)
        known = np.flatnonzero(scale.is_determined)
        rows = np.concatenate([np.arange(d), d + known])
        columns = np.concatenate([np.arange(d), n - k + scale.place[1:-1][known] - 1])
        values = np.concatenate([problem.frame.scale, np.ones(len(known))])
        return csr_array((values, (rows, columns)), shape=(d + len(scale.place) - 2, n))

    @cached_property
    def _root(self) -> Array:
        """A root of the inverse of the information, by all numbers; bounded ones only."""
        basis, information = self.free, self.information
        if len(self._point.theta) == 0:  # the labels say nothing
            return np.zeros((len(self.fit.maximum.x), 0))
        if len(directions := self.separation.directions):
            own = in_free_numbers(self.free, directions.T)
            size = np.sqrt(np.maximum(np.diagonal(information), TINY))
            rest = np.linalg.qr(size[:, np.newaxis] * own, mode="complete")[0][:, own.shape[1] :]
            rest /= size[:, np.newaxis]
            basis, information = basis @ rest, rest.T @ information @ rest
        return basis @ _inverse_root(information)

    @with_one_blas_thread
    def covariance(self, squares: Array | None = None) -> Array:
        """Return the inverse of the information, or a sandwich; zero for what is not determined."""
        root: Array = self.shown @ self._root
        if squares is not None:
            root = root @ _root_of(self._root.T @ squares @ self._root)
        return root @ root.T


def squares_at(problem: Problem, x: Array, rows: Rows, groups: Array | None = None) -> Array:
    """Return the sum of squares of what rows add to the gradient, or groups of rows.

    It is multiplied by G / (G - 1), for G groups. `groups` has the number of each row's group, of
    rows in memory.
    """
    point, J = problem.point(x), problem.mechanism.table(problem.split(x)[1]).J
    if groups is None or not isinstance(rows, InMemory):
        found: Array = rows.add_up(partial(_squares_of, point, J), np.add, "looking at errors")
        n_groups = rows.n_rows
    else:
        added = np.zeros((int(groups.max()) + 1, len(x)))
        for some in batches(len(groups), max(MOST_CELLS // len(x), 1)):
            np.add.at(added, groups[some], _added(point, J, rows.whole.take(some)))
        found = added.T @ added
        n_groups = len(np.unique(groups[rows.whole.weight > 0.0]))
    return found * (n_groups / max(n_groups - 1.0, 1.0))


def _added(point: Point, J: Array, block: Block) -> Array:
    """Return what each row adds to the gradient."""
    return point.gradients(block, J) * block.weight[:, np.newaxis]


@with_one_blas_thread
def _squares_of(point: Point, J: Array, block: Block) -> Array:
    """Return the sum of squares of what the rows of a block add to the gradient."""
    p = len(point.w) + J.shape[1] + len(point.theta)
    squares = np.zeros((p, p))
    for some in batches(block.n_rows, max(MOST_CELLS // p, 1)):
        added = _added(point, J, block.take(some))
        squares += added.T @ added
    return squares


def _moves(frame: Frame, ends: Array, way: Array, block: Block) -> Array:
    """Return how far a way moves rows into their ranges, at their lowest classes and highest."""
    w, theta = np.split(way, [len(frame.scale)])
    scores, cut = frame.view(block.X).dot(w), np.concatenate([[-np.inf], theta, [np.inf]])
    low, high = ends[block.kind].T
    return np.array([scores - cut[low], cut[high + 1] - scores])


def _least_moves(frame: Frame, ends: Array, way: Array, features: Array, block: Block) -> Array:
    """Return what `Errors._least_moves` does, of the rows of a block."""
    block = block.counting()
    found = np.full((2, len(ends), 1 + len(features)), np.inf)
    for side, moves in zip(found, _moves(frame, ends, way, block), strict=True):
        order = np.lexsort([moves, block.kind])
        some = order[np.flatnonzero(np.diff(block.kind[order], prepend=-1))]
        Z = frame.view(block.X[some]).dense()[:, features]
        side[block.kind[some]] = np.column_stack([moves[some], Z])
    return found


def _lesser(one: Array, other: Array) -> Array:
    """Return the rows that move less."""
    return np.where(one[:, :, :1] <= other[:, :, :1], one, other)


def _unmoved(frame: Frame, ends: Array, way: Array, block: Block) -> Array:
    """Return what `Errors._unmoved` does, of the rows of a block."""
    stays = (_moves(frame, ends, way, block) <= MOVED) & (block.weight > 0.0)
    sums = frame.view(block.X).sums(stays[0] * 1.0 - stays[1])
    return np.concatenate([sums, *(np.bincount(block.kind, some, len(ends)) for some in stays)])


def _inverse_root(matrix: Array) -> Array:
    """Return a root of the inverse of information.

    Where it is not positive, variances are huge; as those of a square, none is below zero. What has
    no information, but for a number that is too small to be squared, has none.
    """
    size = np.sqrt(np.maximum(np.abs(np.diagonal(matrix)), TINY))
    has_none = size < LEAST_SIZE
    scaled = matrix / np.outer(size, size)
    try:
        lower = np.linalg.cholesky(scaled)
        root: Array = solve_triangular(lower, np.eye(len(size)), lower=True).T
    except LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        root = vectors / np.sqrt(np.maximum(values, SINGULAR))
    root /= size[:, np.newaxis]
    root[has_none] = 0.0
    return root


def _root_of(matrix: Array) -> Array:
    """Return a matrix whose product with its transpose is this symmetric one, but for rounding."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return vectors * np.sqrt(np.maximum(values, 0.0))
