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
from scipy.sparse import csr_array, issparse
from scipy.special import logsumexp

from pril.core.arrays import Array
from pril.core.links import Link
from pril.core.threads import with_one_blas_thread
from pril.likelihood.mechanisms import Cells, Table
from pril.likelihood.rows import Block, Frame, Framed, Selection

MOST_DENSE = 1000  # features; with more, second derivatives are never written down as a matrix
MOST_COLUMNS = 64  # cuts and cells of which each row has a column; with more, it has a sparse row
# Cuts and cells whose information is a matrix; of more only if one pair of 10 shares a label.
MOST_PLACES, DENSE_SHARE = 256, 0.1
LEAST_CHANCE = 1e-290  # of a label; for a smaller one, logarithms are added up


class Terms(NamedTuple):
    """What some rows add, given their scores: derivatives of log z by what is local to each."""

    rows: Selection
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
        return KindSums(*map(add, self, other))


class Information(NamedTuple):
    """Minus second derivatives: by (w, phi), by these and thresholds, and by thresholds."""

    rest: Array  # (r, r)
    cross: Array  # (r, k)
    cuts: Any  # (k, k), an array, or sparse

    def plus(self, other: Information) -> Information:
        """Return the sum."""
        return Information(*map(add, self, other))

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

    @property
    def n_places(self) -> int:
        """The number of all cuts and cells."""
        return len(self.theta) + 2 + len(self.M)

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
            slope[rows] = -own * by_cut.sum(axis=0)
            curve[rows], columns, values = self._by_score(terms, own)
            local.append((rows, columns, values))
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
        squares[0] = float(slope @ slope)
        by_ww, by_w_local = np.empty((0, 0)), np.empty((0, self.n_places))
        if d <= MOST_DENSE:
            by_ww = Z.squares(curve)
            by_w_local = Z.sums(self.spread(local, block.n_rows))
        by_w = Z.sums(slope)
        return KindSums(value, by_w, by_ww, by_w_local, first, outer, second, mixed, squares)

    def _by_score(self, terms: Terms, weight: Array) -> tuple[Array, Array, Array]:
        """Return minus the derivatives by the score twice, and by it and what is local: columns."""
        whole = terms.by_cut.sum(axis=0)
        curve = weight * (whole * whole - terms.second.sum(axis=0))
        columns, values = terms.cuts, terms.second - whole * terms.by_cut
        if terms.cells is not None:
            by_cell = np.diff(terms.mixed, axis=0) - whole * terms.by_cell
            columns = np.concatenate([columns, terms.cells + len(self.theta) + 2])
            values = np.concatenate([values, by_cell])
        return curve, columns, weight * values

    def spread(self, local: list[tuple[Selection, Array, Array]], n: int) -> Any:
        """Return a matrix of n rows, and a column for each cut and cell, with values of rows."""
        width = self.n_places
        if width <= MOST_COLUMNS:
            dense = np.zeros((n, width))
            for rows, columns, values in local:
                at = np.arange(n)[rows]
                for column, value in zip(columns, values, strict=True):
                    dense[at, column] += value
            return dense
        parts = [np.broadcast_arrays(np.arange(n)[rows], *at) for rows, *at in local]
        rows, columns, values = (
            np.concatenate([*map(np.ravel, x)]) for x in zip(*parts, strict=True)
        )
        return csr_array((values, (rows, columns)), shape=(n, width))

    def curvature(self, block: Block) -> tuple[Array, Any]:
        """Return minus the second derivatives of rows by the score, and by that and `spread`."""
        _, scores = self.scores(block)
        curve, local = np.empty(block.n_rows), []
        for terms in self.terms(scores, block.kind):
            weight = block.weight[terms.rows]
            curve[terms.rows], columns, values = self._by_score(terms, weight)
            local.append((terms.rows, columns, values))
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


def _local(link: Link, distance: Array, chance: Array, cuts: Array, cells: Array | None) -> Any:
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


def assembled(sums: KindSums, cells: Cells, table: Table) -> Sums:
    """Return the derivatives by (w, phi, theta), given sums by kind."""
    n_cuts, m = cells.kinds.n_classes + 1, cells.cuts.shape[1]
    cuts, chances, below = slice(1, n_cuts - 1), slice(n_cuts, None), np.arange(m - 1)
    local = sums.outer + np.triu(np.ones(sums.outer.shape[1:]), 1).T * sums.outer.swapaxes(1, 2)
    local[:, range(m), range(m)] -= sums.second
    places = cells.cuts
    if len(table.M):  # a cell has a cut below it and one above
        places = np.hstack([places, n_cuts + cells.first[:, np.newaxis] + below])
        places = np.minimum(places, n_cuts + len(table.M) - 1)  # there are zeros beyond
        is_cell = below < cells.n_cuts[:, np.newaxis] - 1
        for cut, sign in ((below, 1.0), (below + 1, -1.0)):
            mixed = np.where(is_cell, sign * sums.mixed[:, cut], 0.0)
            local[:, cut, m + below] += mixed
            local[:, m + below, cut] += mixed
    n = n_cuts + len(table.M)
    first = np.bincount(places.ravel(), sums.first.ravel(), n)
    whole = joined(places, local, n)
    to_phi = table.J.T @ whole[chances]
    by_phi = to_phi[:, chances] @ table.J - table.second(first[chances])
    by_both = sums.by_w_local[:, chances] @ table.J
    return Sums(
        sums.value,
        np.concatenate([sums.by_w, first[chances] @ table.J, first[cuts]]),
        Information(
            np.block([[sums.by_ww, by_both], [by_both.T, by_phi]]),
            np.vstack([sums.by_w_local[:, cuts], to_phi[:, cuts]]),
            whole[cuts, cuts],
        ),
        sums.squares,
    )


def joined(places: Array, local: Array, n: int) -> Any:
    """Return the sum of matrices, whose rows and columns are at these places of n in all."""
    m = places.shape[1]
    one, other = np.repeat(places, m, axis=1).ravel(), np.tile(places, (1, m)).ravel()
    if n <= MOST_PLACES:
        return np.bincount(one * n + other, local.ravel(), n**2).reshape(n, n)
    some = np.flatnonzero(local)
    whole = csr_array((local.ravel()[some], (one[some], other[some])), shape=(n, n))
    return whole if whole.nnz < DENSE_SHARE * n**2 else whole.toarray()
