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
from scipy.sparse import csr_array

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
        be at a maximum where some scores are far from all others; but a step either way would
        then move rows out of their ranges, as some are already.
        """
        problem, products = self.fit.problem, self.fit.products
        n_kinds, n = len(problem.rows.kinds.ends), len(self.fit.maximum.x)
        used = np.flatnonzero(problem.frame.scale > 0.0)
        nothing = Separation(np.empty((0, n)), used[:0], np.zeros(n_kinds, dtype=bool))
        if not self.is_dense:
            return self._complete_separation or nothing
        if products is None or len(used) == 0 or len(self._point.theta) == 0:
            return nothing
        d, whole = len(used), self.information
        root = _inverse_root(whole[d:, d:])
        follow = -root @ (root.T @ whole[d:, :d])  # how all others follow the weights
        products = products[np.ix_(used, used)]
        values, vectors = eigh(whole[:d, :d] + whole[:d, d:] @ follow, products)
        least = max(SEPARATED, ALL_SEPARATED / problem.rows.n_rows)
        vectors = vectors[:, values < least] * np.sqrt(problem.rows.moments.weight)
        gone = vectors @ (vectors.T @ (products @ self.fit.maximum.x[used]))
        gone /= max(np.sqrt(gone @ products @ gone / problem.rows.moments.weight), TINY)
        vectors[np.abs(vectors) < MOVED * np.abs(vectors).max(axis=0, initial=0.0)] = 0.0
        if vectors.shape[1] == 0:
            return nothing
        vectors = np.column_stack([vectors, gone])
        directions = (self.free @ np.vstack([vectors, follow @ vectors])).T
        moved = partial(_moved, self._point, directions, n_kinds)
        kinds, *lost = problem.rows.add_up(moved, np.add, "looking at what is separated")
        if np.any(lost, axis=1).all():
            return nothing
        directions = directions[:-1]
        along = np.abs(directions[:, used])
        along = (along > MOST_SMALL * along.max(axis=1, keepdims=True)).any(axis=0)
        size = np.abs(self.fit.maximum.x[used]) * along * np.sqrt(np.diagonal(products))
        return Separation(directions, used[size > MOST_SMALL * size.max()], kinds > 0.0)

    @property
    def _complete_separation(self) -> Separation | None:
        """The direction in which all numbers grow alike, if each row is inside its range then.

        If there are many features, this is the only direction that is looked at.
        """
        problem, x = self.fit.problem, self.fit.maximum.x
        used = np.flatnonzero(problem.frame.scale > 0.0)
        if problem.priors.ridge[used].any() or not isinstance(problem.mechanism, Random):
            return None
        moved = partial(_moved, self._point, x[np.newaxis], len(problem.rows.kinds.ends))
        kinds, *_, outside = problem.rows.add_up(moved, np.add, "looking at what is separated")
        if outside.any() or not (kinds > 0.0).any():
            return None
        size = np.abs(x[used]) * np.sqrt(problem.rows.moments.squares[used])
        return Separation(x[np.newaxis], used[size > MOST_SMALL * size.max()], kinds > 0.0)

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


def _moved(point: Point, directions: Array, n_kinds: int, block: Block) -> Array:
    """Return the weight of the rows of each kind that directions move, and that are moved wrongly.

    The latter are those that each direction moves out of their ranges, those that it moves out of
    them if turned round, and those that are out.
    """
    Z, (low, high) = point.frame.view(block.X), point.cells.kinds.ends[block.kind].T
    d, k = len(point.w), len(point.theta)

    def outside(w: Array, theta: Array) -> Array:
        scores, cut = Z.dot(w), np.concatenate([[-np.inf], theta, [np.inf]])
        return np.array([cut[low] - scores, scores - cut[high + 1]])

    moves = np.array([outside(each[:d], each[len(each) - k :]) for each in directions])
    moves[np.isinf(moves)] = 0.0
    moved = (np.abs(moves) > MOVED).any(axis=(0, 1))
    lost = [*(moves > MOVED), *(moves < -MOVED), outside(point.w, point.theta) > 0.0]
    rows = [moved, *(some.any(axis=0) for some in lost)]
    return np.array([np.bincount(block.kind, block.weight * some, n_kinds) for some in rows])


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
