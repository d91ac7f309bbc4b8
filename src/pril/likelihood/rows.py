"""Rows that have a label, in blocks: in memory, in a table on disk, on a cluster.

The size of a block depends on the number of features only, the sums of blocks are added up in the
order of a tree, and BLAS has one thread. So the same rows give the same bits wherever they are.

Inside, features are centred at their means and scaled by powers of two, see `Frame`. Thresholds are
then those of a row whose features have their means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain, islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.sparse import csr_array, issparse, vstack
from sklearn.utils.sparsefuncs import mean_variance_axis

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.rows import batches
from pril.core.threads import with_one_blas_thread

T = TypeVar("T")

BLOCK_ROWS, BLOCK_CELLS = 1 << 14, 1 << 19  # the most of a block, which stays in the cache
FAN_IN = 16  # of the tree in which sums are added up
LARGEST_EXPONENT = 400  # of two, that features are scaled by: squares of a scale stay finite
# Rounding errors of scores: a feature so many spreads from zero costs a score 9 digits.
FARTHEST = 2.0**32
DIGEST_STEPS = 2.0**20  # in a spread of a feature: rows that are nearer have the same digest
ROUNDING = 4.0 * np.finfo(float).eps  # relative, of a mean: a column that varies less is constant


def block_rows(n_features: int) -> int:
    """Return the number of rows of a block: a power of two."""
    fitting = max(BLOCK_CELLS // max(n_features, 1), 256)
    return min(BLOCK_ROWS, 1 << (fitting.bit_length() - 1))


class Block(NamedTuple):
    """Some rows that have a label."""

    X: Any  # (n, d), dense or CSR
    kind: Array  # (n,), of their labels
    weight: Array  # (n,)
    offset: Array | None = None  # (n,), what is added to the scores

    @property
    def n_rows(self) -> int:
        """How many there are."""
        return len(self.kind)

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        X = (self.X.data, self.X.indices, self.X.indptr) if issparse(self.X) else (self.X,)
        return sum(part.nbytes for part in (*X, *self[1:]) if part is not None)

    def take(self, some: slice | Array) -> Block:
        """Return some of the rows: some that follow each other, or those with such numbers."""
        offset = None if self.offset is None else self.offset[some]
        return Block(self.X[some], self.kind[some], self.weight[some], offset)

    @staticmethod
    def joined(parts: list[Block]) -> Block:
        """Return the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        X = [part.X for part in parts]
        offsets = [part.offset for part in parts if part.offset is not None]
        return Block(
            vstack(X, format="csr") if issparse(X[0]) else np.concatenate(X),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate(offsets) if offsets else None,
        )

    def counting(self) -> Block:
        """Return the rows that have a weight."""
        counts = self.weight > 0.0
        return self if counts.all() else self.take(np.flatnonzero(counts))

    @with_one_blas_thread
    def digests(self, moments: Moments) -> Array:
        """Return a number for each row that depends on its standardised features alone.

        They are rounded, so that it is the same in another unit.
        """
        d, rng, spread = len(moments.mean), np.random.default_rng(0), moments.spread
        scale = np.divide(1.0, spread, out=np.zeros(d), where=spread > 0.0)
        Z, digests = Frame(moments.mean, scale).view(self.X), np.zeros(self.n_rows, dtype=np.uint64)
        factors = 2 * rng.integers(0, 1 << 63, 2, dtype=np.uint64) + np.uint64(1)
        directions = rng.normal(size=(d + 1, 2)).T  # of the offset, then of each feature
        for factor, direction in zip(factors, directions, strict=True):
            scores = Z.dot(direction[1:])
            if self.offset is not None:
                scores = scores + self.offset * direction[0]
            whole = np.rint(np.clip(scores * DIGEST_STEPS, -(2.0**62), 2.0**62)).astype(np.int64)
            digests = (digests ^ (digests >> np.uint64(29)) ^ whole.view(np.uint64)) * factor
        return digests


class Lowest(NamedTuple):
    """The different rows whose features have the lowest digests, with the weight of all equal ones.

    They are the same whatever the order of the rows, and however often each is written.
    """

    rows: Block
    digests: Array  # (n,), ascending

    @classmethod
    def of(cls, block: Block, digests: Array, most: int) -> Lowest:
        """Return the rows of a block that have `most` different features."""
        order = np.lexsort([block.kind, digests])
        digests, kind = digests[order], block.kind[order]
        is_new, is_first = np.ones((2, len(order)), dtype=bool)
        is_new[1:] = digests[1:] != digests[:-1]
        is_first[1:] = is_new[1:] | (kind[1:] != kind[:-1])
        again = np.flatnonzero(~is_first)  # rows with equal digests may be near only
        is_first[again] = (block.X[order[again]] != block.X[order[again - 1]]).sum(axis=1) > 0
        starts = np.flatnonzero(is_first)
        weight = np.add.reduceat(block.weight[order], starts)
        n = np.searchsorted(np.cumsum(is_new[starts]), most, "right")
        rows = block.take(order[starts[:n]])._replace(weight=weight[:n])
        return cls(rows, digests[starts[:n]])

    def plus(self, other: Lowest, most: int) -> Lowest:
        """Return those of the rows of both."""
        both = np.concatenate([self.digests, other.digests])
        return Lowest.of(Block.joined([self.rows, other.rows]), both, most)


def recut(parts: Iterable[Block], size: int) -> Iterator[Block]:
    """Return the rows of parts in blocks of this size; the last may be smaller."""
    waiting: list[Block] = []
    missing = size
    for part in parts:
        start = 0
        while start < part.n_rows:
            stop = min(start + missing, part.n_rows)
            waiting.append(part.take(slice(start, stop)))
            missing, start = missing - (stop - start), stop
            if missing == 0:
                yield Block.joined(waiting)
                waiting, missing = [], size
    if waiting:
        yield Block.joined(waiting)


def total(parts: Iterable[T], add: Callable[[T, T], T]) -> T:
    """Add up parts in a tree: neighbours first, then their sums, and so on."""

    def grouped(parts: Iterator[T]) -> Iterator[T]:
        for first in parts:
            yield reduce(add, islice(parts, FAN_IN - 1), first)

    sums = grouped(iter(parts))
    first = next(sums)
    while (second := next(sums, None)) is not None:
        sums = grouped(chain([first, second], sums))
        first = next(sums)
    return first


class Moments(NamedTuple):
    """Weight, means and squares of features, and weights of kinds; those of rows join."""

    weight: float
    mean: Array  # (d,)
    squares: Array  # (d,), weighted sums of the squares about the mean
    by_kind: Array  # (kinds,), the weight of the rows of each kind
    rows: Array  # (kinds,), and their number, without those of weight zero
    uneven: float  # the weight of the rows whose weight is not a whole number

    @classmethod
    @with_one_blas_thread
    def of(cls, block: Block, n_kinds: int) -> Moments:
        """Return those of a block, in two passes: features may be far from zero."""
        weight, X = block.weight, block.X
        by_kind = np.bincount(block.kind, weight, n_kinds)
        rows = np.bincount(block.kind, weight > 0.0, n_kinds)
        whole = float(weight.sum())
        share = weight / (whole if whole > 0.0 else 1.0)
        with np.errstate(over="ignore", invalid="ignore"):
            if issparse(X):
                mean, variance = mean_variance_axis(X.astype(np.float64), 0, weights=share)
                squares = whole * np.maximum(variance, 0.0)  # which rounding may leave below zero
            else:
                X = X.astype(np.float64, copy=False)
                mean = share @ X
                mean += share @ (X - mean)
                squares = weight @ np.square(X - mean)
        uneven = float(weight @ (weight != np.rint(weight)))
        return cls(whole, mean, squares, by_kind, rows, uneven)

    def plus(self, other: Moments) -> Moments:
        """Return those of the rows of both (Chan, Golub and LeVeque, 1979)."""
        weight = self.weight + other.weight
        share = other.weight / weight if weight > 0.0 else 0.0
        apart = other.mean - self.mean
        return Moments(
            weight,
            self.mean + share * apart,
            self.squares + other.squares + self.weight * share * apart**2,
            self.by_kind + other.by_kind,
            self.rows + other.rows,
            self.uneven + other.uneven,
        )

    @property
    def are_finite(self) -> bool:
        """Whether none of them has overflowed."""
        return bool(np.isfinite(np.concatenate([self.mean, self.squares])).all())

    @property
    def spread(self) -> Array:
        """The standard deviations; 0 for a column that varies by rounding errors alone."""
        spread = np.sqrt(self.squares / self.weight)
        return np.where(spread > ROUNDING * np.abs(self.mean), spread, 0.0)

    def far(self) -> Array:
        """Return the features that are so far from zero that scores would be rounding errors."""
        return np.flatnonzero((self.spread > 0.0) & (np.abs(self.mean) > FARTHEST * self.spread))


class Frame(NamedTuple):
    """Where the features are centred, and the powers of two that they are multiplied by.

    A feature that is multiplied by 0 has no weight.
    """

    centre: Array
    scale: Array

    @classmethod
    def of(cls, moments: Moments, unused: list[int]) -> Frame:
        """Return the frame of features with such moments: centred, and of a size about 1."""
        spread = moments.spread
        exponent = -np.frexp(np.where(spread > 0.0, spread, 1.0))[1]
        exponent = np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT)
        scale = np.where(spread > 0.0, np.ldexp(1.0, exponent), 0.0)
        scale[unused] = 0.0
        return cls(moments.mean, scale)

    def view(self, X: Any) -> Framed:
        """Return rows in this frame."""
        if issparse(X):
            # A column without zeros may be far from zero: the centre is taken from its values.
            is_full = np.bincount(X.indices, minlength=X.shape[1]) == X.shape[0]
            data = (X.data - np.where(is_full, self.centre, 0.0)[X.indices]) * self.scale[X.indices]
            scaled = csr_array((data, X.indices, X.indptr), shape=X.shape)
            return Framed(scaled, np.where(is_full, 0.0, self.centre) * self.scale)
        Z = np.subtract(X, self.centre, dtype=np.float64)
        Z *= self.scale
        return Framed(Z)


class Framed(NamedTuple):
    """Rows in a frame. From each of sparse rows, the centre is still to be taken."""

    Z: Any
    centre: Array | None = None

    def dense(self) -> Array:
        """Return the rows as a matrix."""
        return self.Z if self.centre is None else self.Z.toarray() - self.centre

    def dot(self, v: Array) -> Array:
        """Return the product with a vector."""
        product = self.Z @ v
        return product if self.centre is None else product - self.centre @ v

    def sums(self, factors: Array) -> Array:
        """Return the sums of the rows, each times its factor, or its row of factors."""
        sums = (factors.T @ self.Z).T
        if issparse(sums):
            sums = sums.toarray()
        if self.centre is None:
            return sums
        return sums - np.multiply.outer(self.centre, factors.sum(axis=0))

    def squares(self, factors: Array) -> Array:
        """Return the sum of the outer squares of the rows, each times its factor."""
        if self.centre is None:
            return (self.Z * factors[:, np.newaxis]).T @ self.Z
        weighted = self.Z.multiply(factors[:, np.newaxis]).tocsr()
        mixed = np.multiply.outer(self.Z.T @ factors, self.centre)
        centres = factors.sum() * np.multiply.outer(self.centre, self.centre)
        return (weighted.T @ self.Z).toarray() - mixed - mixed.T + centres

    def diagonal(self, factors: Array) -> Array:
        """Return about the diagonal of `squares`: sparse rows are not centred."""
        return (self.Z * self.Z).T @ factors


class Rows(ABC):
    """Rows that have a label, wherever they are: they can be read in blocks, often."""

    kinds: Kinds  # of their labels

    @property
    @abstractmethod
    def blocks(self) -> Iterable[Block]:
        """The rows, block by block."""

    def add_up(self, of: Callable[[Block], T], add: Callable[[T, T], T], what: str) -> T:
        """Return the sum of what each block gives; `what` says what it is for."""
        return total(map(of, self.blocks), add)

    @cached_property
    def moments(self) -> Moments:
        """The moments of their features and labels."""
        n_kinds = len(self.kinds.ends)
        return self.add_up(lambda b: Moments.of(b, n_kinds), Moments.plus, "reading the features")

    @property
    def n_rows(self) -> int:
        """How many there are, without those of weight zero."""
        return int(self.moments.rows.sum())

    @property
    def weights(self) -> Array:
        """The weight of the rows of each kind."""
        return self.moments.by_kind

    def sample(self, most: int) -> InMemory:
        """Return the rows that count, or about `most` different ones: see `Lowest`."""
        moments = self.moments
        if self.n_rows <= most:
            found = self.add_up(
                Block.counting, lambda one, other: Block.joined([one, other]), "reading the rows"
            )
            return InMemory(found, self.kinds)
        lowest = self.add_up(
            lambda block: Lowest.of(counted := block.counting(), counted.digests(moments), most),
            lambda one, other: one.plus(other, most),
            "reading a sample",
        )
        return InMemory(lowest.rows, self.kinds)


@dataclass(frozen=True, eq=False)
class InMemory(Rows):
    """Rows that have a label, in memory."""

    whole: Block
    kinds: Kinds

    @cached_property
    def blocks(self) -> list[Block]:
        """The rows, block by block."""
        cuts = batches(self.whole.n_rows, block_rows(self.whole.X.shape[1]))
        return [self.whole.take(some) for some in cuts]
