"""How certain a maximum is: the covariance of weights and thresholds, the mechanism included.

It is the inverse of the information at the maximum. If rows are in groups, or their weights are
those of a sample, it is a sandwich: the squares of what groups or rows add to the gradient, between
two inverses (Huber, 1967).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pril.core.arrays import Array
from pril.likelihood.fitting import Fit
from pril.likelihood.rows import Block, InMemory
from pril.likelihood.sums import MOST_DENSE

# Variances, in squares of the spread of a feature and for one row of mean weight: those of numbers
# that grow without bound.
DIVERGED = 1e6


@dataclass(frozen=True, eq=False)
class Errors:
    """The errors of a fit; weights and thresholds are as outside of the frame."""

    fit: Fit

    @property
    def is_dense(self) -> bool:
        """Whether the information is written down: not of many features."""
        return self.fit.problem.d <= MOST_DENSE

    @cached_property
    def _root(self) -> Array:
        """A root of the inverse of the information, by (w, phi, theta) in the frame.

        Numbers that are not determined have huge variances; as a square, none is below zero.
        """
        whole = self.fit.maximum.sums.information.dense()
        size = np.sqrt(np.maximum(np.abs(np.diagonal(whole)), 1e-300))
        values, vectors = np.linalg.eigh(whole / np.outer(size, size))
        least = np.finfo(float).eps * len(size)
        return vectors / np.sqrt(np.maximum(values, least)) / size[:, np.newaxis]

    @cached_property
    def _outside(self) -> Array:
        """The matrix that takes (w, phi, theta) in the frame to all weights and thresholds."""
        problem, scale = self.fit.problem, self.fit.scale
        d, k, n = problem.d, scale.kinds.n_classes - 1, len(self.fit.maximum.x)
        frame, every = problem.frame, len(scale.place) - 2
        matrix = np.zeros((d + every, n))
        matrix[np.arange(d), np.arange(d)] = frame.scale
        known = np.flatnonzero(scale.is_determined)
        matrix[d + known[:, np.newaxis], np.arange(d)] = frame.centre * frame.scale
        matrix[d + known, n - k + scale.place[1:-1][known] - 1] = 1.0
        return matrix

    def covariance(self) -> Array:
        """Return the inverse of the information; zero for what rows do not determine."""
        root = self._outside @ self._root
        return root @ root.T

    def sandwich(self, rows: InMemory, groups: Array | None = None) -> Array:
        """Return the sandwich over groups, which number the rows, or over the rows themselves."""
        bread = self._root @ self._root.T
        root = self._outside @ bread @ _root_of(self._squares(rows, groups))
        return root @ root.T

    def _squares(self, rows: InMemory, groups: Array | None) -> Array:
        """Return the sum of squares of what groups add to the gradient, times G / (G - 1)."""
        used = rows.weight > 0.0
        codes = np.arange(int(used.sum()))
        if groups is not None:
            _, codes = np.unique(groups[used], return_inverse=True)
        n_groups, p = int(codes.max()) + 1, len(self.fit.maximum.x)
        if groups is None:
            squares = np.zeros((p, p))
            for block in rows.blocks:
                added = self._added(block)
                squares += added.T @ added
        else:
            added, start = np.zeros((n_groups, p)), 0
            for block in rows.blocks:
                own = block.weight > 0.0
                some = slice(start, start := start + int(own.sum()))
                np.add.at(added, codes[some], self._added(block)[own])
            squares = added.T @ added
        return squares * (n_groups / (n_groups - 1.0))

    def _added(self, block: Block) -> Array:
        """Return what each row adds to the gradient."""
        problem, x = self.fit.problem, self.fit.maximum.x
        table = problem.mechanism.table(problem.split(x)[1])
        return problem.point(x).gradients(block, table) * block.weight[:, np.newaxis]


def _root_of(matrix: Array) -> Array:
    """Return a matrix whose product with its transpose is this symmetric one, but for rounding."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return vectors * np.sqrt(np.maximum(values, 0.0))
