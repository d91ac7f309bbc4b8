"""One pass over rows: the log-likelihood, its gradient, and its second derivatives.

The likelihood of a row is z = sum_y M[u, y] P(y | f). It depends on the score f, on the cuts of its
kind of label, and on the chances between them. Rows of one kind share these, so that sums by kind
are small. From them follow the derivatives by all numbers: weights w, phi of a mechanism,
thresholds theta, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import add
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, diags_array, issparse
from scipy.special import logsumexp

from pril.core.arrays import Array
from pril.core.threads import with_one_blas_thread
from pril.likelihood.mechanisms import Cells, Shape, Table
from pril.likelihood.rows import Block, Frame, Framed
from pril.links import Link, between_cuts

MOST_DENSE = 1000  # features; with more, second derivatives are never written down as a matrix
MOST_COLUMNS = 64  # cuts and cells of which each row has a column; with more, it has a sparse row
# Cuts and cells whose information is a matrix; of more only if one pair of 10 shares a label.
MOST_PLACES, DENSE_SHARE = 256, 0.1
LEAST_CHANCE = 1e-290  # of a label; for a smaller one, logarithms are added up


class Terms(NamedTuple):
    """What rows of one shape add, given their scores: derivatives of log z by its q numbers.

    These are the m cuts of a row's label and, if chances vary, those between. Rows are sorted by
    kind.
    """

    shape: Shape
    rows: Array  # (n,), their numbers
    number: Array  # (n,), of the kind of each, in the shape
    log_z: Array  # (n,)
    first: Array  # (q, n)
    second: Array  # (m, n), second derivatives of z by a cut, over z
    mixed: Array  # (m, n), densities at the cuts, over z: second derivatives by cuts and cells

    @property
    def by_cut(self) -> Array:
        """The derivatives by the cuts."""
        return self.first[: len(self.second)]

    @property
    def places(self) -> Array:
        """(q, n), the places of the numbers of each row."""
        return self.shape.places.T.take(self.number, axis=1)

    def by_score(self, weight: Array) -> tuple[Array, Array]:
        """Return minus the derivatives by the score twice, and by it and each number."""
        m, whole = len(self.second), self.by_cut.sum(axis=0)
        by_both = -whole * self.first
        by_both[:m] += self.second
        if len(self.first) > m:
            by_both[m:] += self.mixed[1:] - self.mixed[:-1]
        return weight * (whole * whole - self.second.sum(axis=0)), weight * by_both

    def add_by_kind(self, weight: Array, first: Array, pairs: Array) -> None:
        """Add the sums over the rows of each kind: of derivatives, and minus second ones of pairs.

        Both are those of this shape only.
        """
        starts = np.flatnonzero(np.append(True, self.number[1:] != self.number[:-1]))
        kinds = self.number[starts]
        (q, n), m = self.first.shape, len(self.second)
        weighed, second, mixed = weight * self.first, weight * self.second, weight * self.mixed
        products, place = np.empty((q * (q + 1) // 2, n)), 0
        for a in range(q):
            own = products[place : place + q - a]
            np.multiply(weighed[a], self.first[a:], out=own)
            if a < m:
                own[0] -= second[a]
                own[m : m + 1] += mixed[a]  # of the cell above the cut, if it has one
                if a > 0:
                    own[m - 1 : m] -= mixed[a]  # and of the one below
            place += q - a
        first.reshape(-1, q)[kinds] = np.add.reduceat(weighed, starts, axis=1).T
        pairs.reshape(-1, place)[kinds] = np.add.reduceat(products, starts, axis=1).T


class KindSums(NamedTuple):
    """Sums over rows; those of different rows add up. Kinds are in the order of `Cells.places`."""

    value: float
    by_w: Array  # (d,)
    by_ww: Array  # (d, d), minus second derivatives; empty if features are many
    by_w_local: Array  # (d, cuts and cells), the same by w and by what is local; or empty
    first: Array  # by each cut and cell of each kind
    pairs: Array  # minus the second derivatives by each pair of these
    squares: Array  # (2,), of the gradients of rows by score, and by cuts

    def plus(self, other: KindSums) -> KindSums:
        """Return the sums of the rows of both."""
        return KindSums(*map(add, self, other))


class Information(NamedTuple):
    """Minus second derivatives: by (w, phi), by these and thresholds, and by thresholds."""

    rest: Array  # (r, r)
    cross: Array  # (r, k)
    cuts: Any  # (k, k), an array, or sparse

    def plus(self, other: Information) -> Information:
        """Return the sum."""
        return Information(*map(add, self, other))

    def along(self, v: Array) -> float:
        """Return the curvature along a direction; its first numbers may be left out of both."""
        r, k = self.cross.shape
        rest, cuts = v[len(v) - k - r : len(v) - k], v[len(v) - k :]
        own = rest @ self.rest @ rest + cuts @ (self.cuts @ cuts)
        return float(own + 2.0 * rest @ self.cross @ cuts)

    def dense(self) -> Array:
        """Return it as one matrix."""
        r, n = len(self.rest), len(self.rest) + self.cuts.shape[0]
        whole = np.empty((n, n))
        whole[:r, :r], whole[:r, r:], whole[r:, :r] = self.rest, self.cross, self.cross.T
        whole[r:, r:] = self.cuts.toarray() if issparse(self.cuts) else self.cuts
        return whole


class Sums(NamedTuple):
    """A log-likelihood or a log prior at a point, with its derivatives by (w, phi, theta)."""

    value: float
    gradient: Array
    information: Information
    squares: Array = np.zeros(2)

    def plus(self, other: Sums) -> Sums:
        """Return the sum."""
        information = self.information.plus(other.information)
        squares = self.squares + other.squares
        return Sums(self.value + other.value, self.gradient + other.gradient, information, squares)


@dataclass(frozen=True, eq=False)
class Point:
    """Where the likelihood is looked at: weights and thresholds in a frame, and chances."""

    link: Link
    frame: Frame
    w: Array
    theta: Array
    cells: Cells
    M: Array  # of the cells

    def scores(self, block: Block) -> tuple[Framed, Array]:
        """Return the rows of a block in the frame, and their scores."""
        Z = self.frame.view(block.X)
        scores = Z.dot(self.w)
        return Z, scores if block.offset is None else scores + block.offset

    def terms(self, scores: Array, kind: Array) -> Iterator[Terms]:
        """Return the terms of rows, of those of one shape together."""
        cells = self.cells
        short = kind.astype(np.min_scalar_type(len(cells.varies)))  # is sorted by its digits
        order = np.argsort(short, kind="stable")
        cut = np.concatenate([[-np.inf], self.theta, [np.inf]])
        n_cells = cells.n_cells[kind[order]] if len(cells.shapes) > 1 else None
        for shape in cells.shapes:
            n = shape.cells.shape[1]
            rows = order if n_cells is None else order[n_cells == n]
            if len(rows):
                number = cells.number[kind[rows]]
                chance = self.M[shape.cells] if n else np.ones((len(shape.kinds), 1))
                around = np.zeros((len(chance), len(chance.T) + 2))
                around[:, 1:-1] = chance
                by_kind = cut[shape.cuts], chance, around[:, :-1] - around[:, 1:]
                distance, chance, jump = (x.T.take(number, axis=1) for x in by_kind)
                distance -= scores[rows]
                log_z, P, density, tilt = _looked_at(self.link, distance, chance)
                by_cut = jump * density
                first = np.concatenate([by_cut, P]) if n else by_cut
                yield Terms(shape, rows, number, log_z, first, by_cut * tilt, density)

    @with_one_blas_thread
    def sums(self, block: Block) -> KindSums:
        """Return the sums of a block."""
        Z, scores = self.scores(block)
        value, squares, cells = 0.0, np.zeros(2), self.cells
        first, pairs = np.zeros(len(cells.places)), np.zeros(len(cells.pairs[0]))
        slope, curve = np.empty(block.n_rows), np.empty(block.n_rows)
        local = []
        for terms in self.terms(scores, block.kind):
            rows, weight = terms.rows, block.weight[terms.rows]
            by_cut = weight * terms.by_cut
            slope[rows] = -by_cut.sum(axis=0)
            squares[1] += float(np.vdot(by_cut, by_cut))
            curve[rows], values = terms.by_score(weight)
            local.append((rows, terms.places, values))
            value += float(weight @ terms.log_z)
            terms.add_by_kind(weight, first[terms.shape.first], pairs[terms.shape.pairs])
        squares[0] = float(slope @ slope)
        by_ww, by_w_local = np.empty((0, 0)), np.empty((0, cells.n_places))
        if len(self.w) <= MOST_DENSE:
            by_ww = Z.squares(curve)
            by_w_local = Z.sums(self.spread(local, block.n_rows))
        return KindSums(value, Z.sums(slope), by_ww, by_w_local, first, pairs, squares)

    def spread(self, local: list[tuple[Array, Array, Array]], n: int) -> Any:
        """Return a matrix of n rows, and a column for each cut and cell, with values of rows."""
        width = self.cells.n_places
        if width <= MOST_COLUMNS:
            dense = np.zeros((n, width))
            for rows, places, values in local:
                dense[rows, places] = values
            return dense
        rows, places, values = (
            np.concatenate([np.ravel(x) for x in parts])
            for parts in zip(*(np.broadcast_arrays(*each) for each in local), strict=True)
        )
        return csr_array((values, (rows, places)), shape=(n, width))

    def curvature(self, block: Block) -> tuple[Array, Any]:
        """Return minus the second derivatives of rows by the score, and by that and `spread`."""
        _, scores = self.scores(block)
        curve, local = np.empty(block.n_rows), []
        for terms in self.terms(scores, block.kind):
            curve[terms.rows], values = terms.by_score(block.weight[terms.rows])
            local.append((terms.rows, terms.places, values))
        return curve, self.spread(local, block.n_rows)

    def gradients(self, block: Block, J: Array) -> Array:
        """Return the derivatives of log z of each row by (w, phi, theta); J is a table's."""
        Z, scores = self.scores(block)
        k = len(self.theta)
        every = self.terms(scores, block.kind)
        local = [(terms.rows, terms.places, terms.first) for terms in every]
        spread = self.spread(local, block.n_rows)
        spread = spread.toarray() if issparse(spread) else spread
        by_theta, by_phi = spread[:, 1 : k + 1], spread[:, k + 2 :] @ J
        slope = -by_theta.sum(axis=1, keepdims=True)
        return np.hstack([Z.dense() * slope, by_phi, by_theta])


def _looked_at(link: Link, distance: Array, chance: Array) -> tuple[Array, Array, Array, Array]:
    """Return log z, P and densities over z, and tilts, given distances of cuts and chances."""
    below, above, density, tilt = link.sides(distance)
    P = between_cuts(below, above)
    z = (P * chance).sum(axis=0)
    is_tiny = z < LEAST_CHANCE
    if not is_tiny.any():
        return np.log(z), P / z, density / z, tilt
    z[is_tiny] = 1.0
    P, density, log_z = P / z, density / z, np.log(z)
    some = _in_logs(link, distance[:, is_tiny], chance[:, is_tiny])
    P[:, is_tiny], density[:, is_tiny], log_z[is_tiny] = some
    return log_z, P, density, tilt


def _in_logs(link: Link, distance: Array, chance: Array) -> tuple[Array, Array, Array]:
    """Return P over z, densities over z, and log z, where these are too small for a number."""
    log_p = link.log_between(distance[:-1], distance[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        log_z = logsumexp(np.log(chance) + log_p, axis=0)
        return np.exp(log_p - log_z), np.exp(link.logs(distance).density - log_z), log_z


def assembled(sums: KindSums, cells: Cells, table: Table) -> Sums:
    """Return the derivatives by (w, phi, theta), given sums by kind."""
    n_cuts, d = cells.kinds.n_classes + 1, len(sums.by_ww)
    cuts, chances = slice(1, n_cuts - 1), slice(n_cuts, None)
    first = np.bincount(cells.places, sums.first, cells.n_places)
    whole = information_of(cells, sums.pairs)
    by_w, to_phi = sums.by_w_local, table.J.T @ whole[chances]
    rest = np.empty((d + len(to_phi), d + len(to_phi)))
    rest[:d, :d], rest[d:, d:] = sums.by_ww, to_phi[:, chances] @ table.J
    rest[d:, d:] -= table.second(first[chances])
    rest[:d, d:] = by_w[:, chances] @ table.J
    rest[d:, :d] = rest[:d, d:].T
    gradient = np.concatenate([sums.by_w, first[chances] @ table.J, first[cuts]])
    cross = np.concatenate([by_w[:, cuts], to_phi[:, cuts]])
    return Sums(sums.value, gradient, Information(rest, cross, whole[cuts, cuts]), sums.squares)


def by_thresholds(level: Array, curve: Array, is_sparse: bool) -> Any:
    """Return as information of thresholds the curvature by some, and by each distance."""
    diagonal = level + np.append(curve, 0.0) + np.append(0.0, curve)
    if is_sparse:
        return csr_array(diags_array([-curve, diagonal, -curve], offsets=[-1, 0, 1]))
    k = len(level)
    matrix = np.zeros(k * k)
    matrix[:: k + 1] = diagonal
    matrix[1 :: k + 1] = matrix[k :: k + 1] = -curve
    return matrix.reshape(k, k)


def information_of(cells: Cells, pairs: Array) -> Any:
    """Return the information of all cuts and cells, given that of the pairs of each kind."""
    n, (one, other) = cells.n_places, cells.pairs
    if n <= MOST_PLACES:
        upper = np.bincount(one * n + other, pairs, n * n).reshape(n, n)
        return upper + upper.T - np.diag(upper.diagonal())
    some = np.flatnonzero(pairs)
    upper = csr_array((pairs[some], (one[some], other[some])), shape=(n, n))
    whole = csr_array(upper + upper.T - diags_array(upper.diagonal()))
    return whole if whole.nnz < DENSE_SHARE * n**2 else whole.toarray()
