"""One pass over rows: the log-likelihood, its gradient, and its second derivatives.

The likelihood of a row is z = sum_y M[u, y] P(y | f). It depends on the score f, on the cuts of its
kind of label, and on the chances between them. Rows of one kind share these, so that sums by kind
are small. From them follow the derivatives by all numbers: weights w, phi of a mechanism,
thresholds theta, in this order.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse
from scipy.special import logsumexp

from pril.core.arrays import Array
from pril.core.links import Link
from pril.core.threads import with_one_blas_thread
from pril.likelihood.mechanisms import Cells, Table
from pril.likelihood.rows import Block, Frame, Framed

MOST_DENSE = 1000  # features; with more, second derivatives are never written down as a matrix
MOST_COLUMNS = 64  # cuts and cells of which each row has a column; with more, it has a sparse row
# Thresholds whose information is a matrix. More are sparse, unless one pair of 20 share a label.
MOST_CUTS, DENSE_SHARE = 200, 0.05
LEAST_CHANCE = 1e-290  # of a label; for a smaller one, logarithms are added up


class Terms(NamedTuple):
    """What some rows add, given their scores: derivatives of log z by what is local to each."""

    rows: Any  # which rows
    log_z: Array  # (n,)
    cuts: Array  # (m, n), numbers of cuts
    cells: Array | None  # (m - 1, n), numbers of cells; None if chances do not vary
    by_cut: Array  # (m, n)
    by_cell: Array  # (m - 1, n)
    second: Array  # (m, n), second derivatives of z by a cut, over z
    mixed: Array  # (m, n), densities at the cuts, over z


class KindSums(NamedTuple):
    """Sums over rows; those of different rows add up. There are m cuts, q cuts and cells a kind."""

    value: float
    by_w: Array  # (d,)
    by_ww: Array  # (d, d), minus second derivatives; empty if features are many
    by_w_local: Array  # (d, cuts and cells), the same by w and by what is local; or empty
    first: Array  # (kinds, q)
    outer: Array  # (kinds, q, q), products of the first derivatives of rows, the upper half
    second: Array  # (kinds, m)
    mixed: Array  # (kinds, m)
    squares: Array  # (2,), of the gradients of rows by score, and by cuts

    def plus(self, other: KindSums) -> KindSums:
        """Return the sums of the rows of both."""
        pairs: Any = zip(self, other, strict=True)
        return KindSums(*(one + more for one, more in pairs))


class Information(NamedTuple):
    """Minus second derivatives: by (w, phi), by these and thresholds, and by thresholds."""

    rest: Array  # (r, r)
    cross: Array  # (r, k)
    cuts: Any  # (k, k), an array, or sparse

    def plus(self, other: Information) -> Information:
        """Return the sum."""
        pairs: Any = zip(self, other, strict=True)
        return Information(*(one + more for one, more in pairs))

    def dense(self) -> Array:
        """Return it as one matrix."""
        cuts = self.cuts.toarray() if issparse(self.cuts) else self.cuts
        return np.block([[self.rest, self.cross], [self.cross.T, cuts]])


class Sums(NamedTuple):
    """A log-likelihood or a log prior at a point, with its derivatives by (w, phi, theta)."""

    value: float
    gradient: Array
    information: Information
    squares: Array = np.zeros(2)

    def plus(self, other: Sums) -> Sums:
        """Return the sum."""
        return Sums(
            self.value + other.value,
            self.gradient + other.gradient,
            self.information.plus(other.information),
            self.squares + other.squares,
        )


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
        """Return the terms of rows, of those together that have as many cuts."""
        cells, shape = self.cells, 2 * self.cells.n_cuts + self.cells.varies
        shapes = np.unique(shape)
        of_row = None if len(shapes) == 1 else shape[kind]
        cut = np.concatenate([[-np.inf], self.theta, [np.inf]])
        for code in shapes.tolist():
            rows = slice(None) if of_row is None else np.flatnonzero(of_row == code)
            kinds, m, varies = kind[rows], code // 2, bool(code % 2)
            cuts = cells.cuts.T[:m].take(kinds, axis=1)
            own, chance = None, np.ones((1, 1))
            if varies:
                own = cells.first[kinds] + np.arange(m - 1)[:, np.newaxis]
                chance = self.M[own]
            yield Terms(rows, *_local(self.link, cut[cuts] - scores[rows], chance, cuts, own))

    def logs(self, block: Block) -> Array:
        """Return the log-likelihood of each row, but for what factors out."""
        _, scores = self.scores(block)
        logs = np.empty(block.n_rows)
        for terms in self.terms(scores, block.kind):
            logs[terms.rows] = terms.log_z
        return logs

    @with_one_blas_thread
    def sums(self, block: Block) -> KindSums:
        """Return the sums of a block."""
        Z, scores = self.scores(block)
        weight, d = block.weight, len(self.w)
        n_kinds, m = self.cells.cuts.shape
        q = 2 * m - 1 if len(self.M) else m
        value, squares = 0.0, np.zeros(2)
        first, outer = np.zeros((n_kinds, q)), np.zeros((n_kinds, q, q))
        second, mixed = np.zeros((n_kinds, m)), np.zeros((n_kinds, m))
        slope, curve = np.empty(block.n_rows), np.empty(block.n_rows)
        local = []
        for terms in self.terms(scores, block.kind):
            rows, by_cut = terms.rows, terms.by_cut
            kind, own = block.kind[rows], weight[rows]
            whole = by_cut.sum(axis=0)
            slope[rows] = -own * whole
            curve[rows] = own * (whole * whole - terms.second.sum(axis=0))
            value += float(own @ terms.log_z)
            weighed = own * by_cut
            squares[1] += float(np.vdot(weighed, weighed))
            parts, places = [*by_cut], [*range(len(by_cut))]
            if terms.cells is not None:
                parts += [*terms.by_cell]
                places += range(m, m + len(terms.by_cell))
            for a, one in zip(places, parts, strict=True):
                one = own * one
                first[:, a] += np.bincount(kind, one, n_kinds)
                for b, other in zip(places, parts, strict=True):
                    if b >= a:
                        outer[:, a, b] += np.bincount(kind, one * other, n_kinds)
            for c in range(len(by_cut)):
                second[:, c] += np.bincount(kind, own * terms.second[c], n_kinds)
                if terms.cells is not None:
                    mixed[:, c] += np.bincount(kind, own * terms.mixed[c], n_kinds)
            local.append((rows, *self._crossed(terms, own, whole)))
        squares[0] = float(slope @ slope)
        by_ww, by_w_local = np.empty((0, 0)), np.empty((0, 0))
        if d <= MOST_DENSE:
            by_ww = Z.squares(curve)
            by_w_local = Z.sums(self.spread(local, block.n_rows))
        by_w = Z.sums(slope)
        return KindSums(value, by_w, by_ww, by_w_local, first, outer, second, mixed, squares)

    def _crossed(self, terms: Terms, weight: Array, whole: Array) -> tuple[Array, Array]:
        """Return columns, and in them minus the derivatives by the score and by what is local."""
        values = terms.second - whole * terms.by_cut
        if terms.cells is None:
            return terms.cuts, weight * values
        by_cell = np.diff(terms.mixed, axis=0) - whole * terms.by_cell
        columns = np.concatenate([terms.cuts, terms.cells + len(self.theta) + 2])
        return columns, weight * np.concatenate([values, by_cell])

    def spread(self, local: list[tuple[Any, Array, Array]], n: int) -> Any:
        """Return a matrix of n rows, and a column for each cut and cell, with values of rows."""
        width = len(self.theta) + 2 + len(self.M)
        if width <= MOST_COLUMNS:
            dense = np.zeros((n, width))
            for rows, columns, values in local:
                at = np.arange(n)[rows]
                for column, value in zip(columns, values, strict=True):
                    dense[at, column] += value
            return dense
        at = [np.broadcast_to(np.arange(n)[rows], columns.shape) for rows, columns, _ in local]
        columns = np.concatenate([columns.ravel() for _, columns, _ in local])
        values = np.concatenate([values.ravel() for *_, values in local])
        rows = np.concatenate([own.ravel() for own in at])
        return csr_array((values, (rows, columns)), shape=(n, width))

    def curvature(self, block: Block) -> tuple[Array, Any]:
        """Return minus the second derivatives of rows by the score, and by that and `spread`."""
        _, scores = self.scores(block)
        curve, local = np.empty(block.n_rows), []
        for terms in self.terms(scores, block.kind):
            own, whole = block.weight[terms.rows], terms.by_cut.sum(axis=0)
            curve[terms.rows] = own * (whole * whole - terms.second.sum(axis=0))
            local.append((terms.rows, *self._crossed(terms, own, whole)))
        return curve, self.spread(local, block.n_rows)

    def gradients(self, block: Block, J: Array) -> Array:
        """Return the derivatives of log z of each row by (w, phi, theta); J is a table's."""
        Z, scores = self.scores(block)
        local, k = [], len(self.theta)
        for terms in self.terms(scores, block.kind):
            columns, values = terms.cuts, terms.by_cut
            if terms.cells is not None:
                columns = np.concatenate([columns, terms.cells + k + 2])
                values = np.concatenate([values, terms.by_cell])
            local.append((terms.rows, columns, values))
        spread = self.spread(local, block.n_rows)
        spread = spread.toarray() if issparse(spread) else spread
        by_theta, by_phi = spread[:, 1 : k + 1], spread[:, k + 2 :] @ J
        slope = -by_theta.sum(axis=1, keepdims=True)
        return np.hstack([Z.dense() * slope, by_phi, by_theta])


def _local(link: Link, distance: Array, chance: Array, cuts: Array, cells: Any) -> tuple[Any, ...]:
    """Return the fields of `Terms` but the first, given distances of cuts and chances between."""
    below, above, density, tilt = link.sides(distance)
    # Differences of what is near 1 are those of what is near 0.
    P = np.where(below[:-1] > 0.5, above[:-1] - above[1:], below[1:] - below[:-1])
    z = (P * chance).sum(axis=0)
    is_tiny = z < LEAST_CHANCE
    if is_tiny.any():
        z[is_tiny] = 1.0
    by_cell, mixed, log_z = P / z, density / z, np.log(z)
    if is_tiny.any():
        some = chance if chance.shape[1] == 1 else chance[:, is_tiny]
        by_cell[:, is_tiny], mixed[:, is_tiny], log_z[is_tiny] = _in_logs(
            link, distance[:, is_tiny], some
        )
    jumps = np.diff(-chance, axis=0, prepend=0.0, append=0.0)
    by_cut = jumps * mixed
    return log_z, cuts, cells, by_cut, by_cell, by_cut * tilt, mixed


def _in_logs(link: Link, distance: Array, chance: Array) -> tuple[Array, Array, Array]:
    """Return P over z, densities over z, and log z, where these are too small for a number."""
    log_p = link.log_between(distance[:-1], distance[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        log_z = logsumexp(np.log(chance) + log_p, axis=0)
        return np.exp(log_p - log_z), np.exp(link.logs(distance).density - log_z), log_z


def assembled(sums: KindSums, cells: Cells, table: Table, n_features: int) -> Sums:
    """Return the derivatives by (w, phi, theta), given sums by kind."""
    n_cuts, m, p = cells.kinds.n_classes + 1, cells.cuts.shape[1], table.J.shape[1]
    wide = len(sums.by_ww) < n_features  # then these are for conjugate gradients
    d = 0 if wide else n_features
    r = d + p
    by_cut = np.bincount(cells.cuts.ravel(), sums.first[:, :m].ravel(), n_cuts)
    # By two cuts.
    blocks = sums.outer[:, :m, :m]
    blocks = blocks + np.triu(np.ones((m, m)), 1).T * blocks.transpose(0, 2, 1)
    diagonal = np.arange(m)
    blocks[:, diagonal, diagonal] -= sums.second
    by_cuts = between_cuts(cells, blocks)
    rest, cross = np.zeros((r, r)), np.zeros((r, n_cuts - 2))
    if d:
        rest[:d, :d], cross[:d] = sums.by_ww, sums.by_w_local[:, 1 : n_cuts - 1]
    gradient_phi = np.empty(0)
    if len(table.M):
        G = _of_cells(cells, sums.first[:, m:])
        gradient_phi = G @ table.J
        if d:
            rest[:d, d:] = sums.by_w_local[:, n_cuts:] @ table.J
            rest[d:, :d] = rest[:d, d:].T
        by_phi, by_both = _by_phi(sums, cells, table)
        rest[d:, d:] = by_phi - table.second(G)
        cross[d:] = by_both[1:-1].T
    gradient = np.concatenate([sums.by_w, gradient_phi, by_cut[1:-1]])
    return Sums(sums.value, gradient, Information(rest, cross, by_cuts), sums.squares)


def between_cuts(cells: Cells, blocks: Array) -> Any:
    """Return the sum of matrices by the cuts of each kind, as a matrix by all thresholds."""
    n_cuts, (n_kinds, m) = cells.kinds.n_classes + 1, cells.cuts.shape
    one = np.repeat(cells.cuts, m, axis=1).ravel()
    other = np.tile(cells.cuts, (1, m)).ravel()
    most = DENSE_SHARE * n_cuts**2
    if n_cuts <= MOST_CUTS or n_kinds * m * m > most:
        whole = np.bincount(one * n_cuts + other, blocks.ravel(), n_cuts**2)
        return whole.reshape(n_cuts, n_cuts)[1:-1, 1:-1]
    return csr_array((blocks.ravel(), (one, other)), shape=(n_cuts, n_cuts))[1:-1, 1:-1]


def _of_cells(cells: Cells, local: Array) -> Array:
    """Return the values of cells, given a row for each kind."""
    return local[cells.kind, np.arange(len(cells.kind)) - cells.first[cells.kind]]


def _by_phi(sums: KindSums, cells: Cells, table: Table) -> tuple[Array, Array]:
    """Return minus the second derivatives by phi, but those of M; and by cuts and phi."""
    m, n_cells = cells.cuts.shape[1], len(table.M)
    place = np.arange(n_cells) - cells.first[cells.kind]  # of a cell in its kind
    by_phi = np.zeros((table.J.shape[1],) * 2)
    by_both = np.zeros((cells.kinds.n_classes + 1, table.J.shape[1]))
    for step in range(m - 1):  # pairs of cells of a kind, `step` apart
        one = np.flatnonzero(place + step < cells.n_cuts[cells.kind] - 1)
        values = sums.outer[cells.kind[one], m + place[one], m + place[one] + step]
        part = table.J[one].T @ (values[:, np.newaxis] * table.J[one + step])
        by_phi += part if step == 0 else part + part.T
    for c in range(m):  # cuts with cells; a cut has a cell above it and one below
        of_kind = c < cells.n_cuts[cells.kind]
        values = sums.outer[cells.kind, c, m + place]
        values = values - (place == c - 1) * sums.mixed[cells.kind, c]
        values = values + (place == c) * sums.mixed[cells.kind, c]
        some = values[of_kind, np.newaxis] * table.J[of_kind]
        np.add.at(by_both, cells.cuts[cells.kind[of_kind], c], some)
    return by_phi, by_both
