"""How certain a maximum is: the covariance of weights and thresholds.

At the maximum, the gradient of the penalised log-likelihood is zero. How far weights and thresholds
move if labels were drawn again depends on how fast the gradient changes around it. If the chances
of ranges are fixed, that is the information, and its inverse is the covariance.

If a mechanism is learned, the chances follow weights and thresholds, and the gradient g follows the
chances. With u for the counts and shares that chances are made of, and u = T(w, theta, u) for an
EM step, the derivative of the gradient is

    ``g_wt + g_u (1 - T_u)^-1 T_wt``

A row adds its gradient and, by what it adds to the counts, ``g_u (1 - T_u)^-1`` times that. The
covariance is then a sandwich: the squares of what rows add, between two inverses of the derivative.
So it is if rows are in groups, where the parts of a group's rows are added up before. Derivatives
that involve u are differences of sums over rows, from two passes for each number.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import block_diag

from pril.core.arrays import Array
from pril.core.fitting import Problem
from pril.core.likelihood import Block, Chances, InMemory, Maximum

MOST_SAMPLED = 5000  # rows that show how chances follow
MOST_FOLLOWED = 400  # numbers whose derivatives are differences
STEP = 1e-4  # of differences, relative
REDUNDANT = 1e-9  # what is left of the information in a feature that others determine, relative


class Following(NamedTuple):
    """How the gradient changes if the chances of ranges follow."""

    slope: Array  # (p, p), the derivatives by weights and thresholds
    by_counts: Array  # (kinds, K, p), by what is added to the counts


def _root(matrix: Array) -> Array:
    """Return a matrix whose product with its transpose is this symmetric one, but for rounding."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@dataclass(frozen=True, eq=False)
class Uncertainty:
    """The uncertainty of a maximum; inside, weights and thresholds are in the frame."""

    problem: Problem
    maximum: Maximum

    def covariance(self, rows: InMemory | None = None, groups: Array | None = None) -> Array:
        """Return the covariance of weights and thresholds, outside of the frame.

        `groups` has the number of the group of each of the rows. It is a LinAlgError if the labels
        do not determine the mechanism, or a class has vanished by it.
        """
        information = self.problem.penalty.applied(self.maximum.point, self.maximum.sums)
        slope = information.information
        if self.maximum.mechanism is not None:
            slope = -self.following.slope
        size = np.sqrt(np.maximum(np.abs(np.diagonal(slope)), 1e-300))
        inverse = np.linalg.inv(slope / np.outer(size, size)) / np.outer(size, size)
        if rows is not None and groups is not None:
            root = inverse @ _root(self._squares_of_groups(rows, groups))
        elif self.maximum.mechanism is not None:
            root = inverse @ _root(self._squares_of_rows(self.sample))
        else:
            root = _root(inverse)
        root[list(self.problem.fixed)] = 0.0
        # Features that determine each other, such as all words of a column, have huge errors; as a
        # square, no variance is below zero by rounding.
        root = self._out_of_frame @ root
        return root @ root.T

    @property
    def _out_of_frame(self) -> Array:
        """The matrix that takes weights and thresholds out of the frame."""
        point = self.maximum.point
        matrix: Array = block_diag(np.diag(point.frame.scale), np.eye(len(point.theta)))
        matrix[len(point.w) :, : len(point.w)] = point.frame.centre * point.frame.scale
        return matrix

    @property
    def is_dense(self) -> bool:
        """Whether the information is written down: not of many features."""
        return len(self.maximum.sums.information) == self.n_numbers

    @property
    def n_parameters(self) -> int:
        """How many numbers the rows determine: weights of features that others do not, thresholds.

        Shares and chances of a mechanism are not among them.
        """
        information = self.maximum.sums.information
        p = self.n_numbers
        if not self.is_dense:
            return p - len(self.problem.fixed)
        kept = np.delete(np.arange(p), list(self.problem.fixed))
        size = np.sqrt(np.maximum(np.abs(np.diagonal(information)), 1e-300))
        scaled = (information / np.outer(size, size))[np.ix_(kept, kept)]
        return int(np.linalg.matrix_rank(scaled, REDUNDANT * len(kept), hermitian=True))

    # --- Rows ---

    @cached_property
    def sample(self) -> InMemory:
        """Some of the rows, which weigh as much as all."""
        rows = self.problem.rows
        some = rows.sample(MOST_SAMPLED)
        factor = rows.weights.sum() / some.weights.sum()
        return replace(some, weight=some.weight * factor)

    def _added_by(self, block: Block) -> Array:
        """Return what each row of a block adds to the gradient, before it is weighed."""
        point = self.maximum.point
        added = point.gradients(block)
        if self.maximum.mechanism is not None:
            for ranks, part in point.posterior(block, point.terms(block)):
                added += part[:, np.newaxis] * self.following.by_counts[block.kind, ranks]
        return added

    def _squares_of_rows(self, rows: InMemory) -> Array:
        """Return the sum of the squares of what rows add; a row of weight 2 is two rows."""
        total = np.zeros(())
        for block in rows.blocks:
            added = self._added_by(block)
            total = total + (added * block.weight[:, np.newaxis]).T @ added
        return total

    def _squares_of_groups(self, rows: InMemory, groups: Array) -> Array:
        """Return the sum of the squares of what groups add, times G / (G - 1) for G groups."""
        used, codes = np.unique(groups[rows.weight > 0.0], return_inverse=True)
        added, start = np.zeros((len(used), self.n_numbers)), 0
        for block in rows.blocks:
            own = block.weight > 0.0
            some = slice(start, start := start + int(own.sum()))
            weighed = self._added_by(block) * block.weight[:, np.newaxis]
            np.add.at(added, codes[some], weighed[own])
        return added.T @ added * (len(used) / (len(used) - 1.0))

    # --- A mechanism that is learned ---

    @cached_property
    def following(self) -> Following:
        """How the gradient changes if the chances of ranges follow."""
        maximum, point, p = self.maximum, self.maximum.point, self.n_numbers
        if np.diff(point.theta).min(initial=np.inf) < 4.0 * STEP:
            raise np.linalg.LinAlgError("a class has vanished")
        counts, shares = maximum.sums.counts[self._cells], maximum.mechanism.shares
        learned = [] if maximum.mechanism.name == "random" else [shares]
        place = np.concatenate([point.w, point.theta, counts, *learned])
        gradient, there = [], []
        for j, size in enumerate(STEP * np.maximum(np.abs(place), 1.0)):
            step = np.zeros(len(place))
            step[j] = size
            (above, after), (below, before) = self._around(place + step), self._around(place - step)
            gradient.append((above - below) / (2.0 * size))
            there.append((after - before) / (2.0 * size))
        g, t = np.array(gradient).T, np.array(there).T
        for j in self.problem.fixed:
            g[j], g[j, j] = 0.0, -1.0
        rest = np.eye(len(place) - p) - t[:, p:]
        by_place = np.linalg.solve(rest.T, g[:, p:].T)
        by_counts = np.zeros((*self._cells.shape, p))
        by_counts[self._cells] = by_place[: len(counts)]
        return Following(g[:, :p] + by_place.T @ t[:, :p], by_counts)

    @property
    def n_numbers(self) -> int:
        """How many weights and thresholds there are."""
        return len(self.maximum.point.w) + len(self.maximum.point.theta)

    @property
    def _cells(self) -> Array:
        """Which kinds and classes have counts."""
        return self.problem.rows.kinds.inside > 0.0

    @property
    def n_followed(self) -> int:
        """How many numbers need two passes over the rows each: none if no mechanism is learned."""
        return 0 if self.maximum.mechanism is None else self.n_numbers + int(self._cells.sum())

    def _around(self, place: Array) -> tuple[Array, Array]:
        """Return the gradient, and where an EM step leads from counts and shares, in one row."""
        maximum, doubt, cells = self.maximum, self.problem.doubt, self._cells
        d, k = len(maximum.point.w), len(maximum.point.theta)
        w, theta, some, shares = np.split(place, np.cumsum([d, k, int(cells.sum())]))
        counts = maximum.sums.counts.copy()
        counts[cells] = some
        mechanism = maximum.mechanism
        if len(shares):
            mechanism = replace(mechanism, shares=shares).learn(counts)
        chances = Chances(self.problem.rows.kinds, mechanism.chance(counts, doubt))
        point = replace(maximum.point, w=w, theta=theta, chances=chances)
        sums = self.sample.sums(point)
        there = [sums.counts[cells], *([mechanism.shares] if len(shares) else [])]
        return self.problem.penalty.applied(point, sums).gradient, np.concatenate(there)
