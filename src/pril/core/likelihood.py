"""The likelihood of labels that are ranges, under the ordered logit, and its maximum.

A row with the score ``f = w . x`` is of class y with probability P(y | f), see `rating`. Its
label is of a kind u, and a row of class y is given it with a chance q[u, y]: 1 inside the range and
0 outside of it if ranges are at random, else what a `Mechanism` says. The row has the likelihood

    ``z = sum_y q[u, y] P(y | f) = sum_k c[u, k] sigma(cut[k] - f)``,  c[u, k] = q[u, k-1] - q[u, k]

so that only the cuts matter where q jumps: two, if a label is exact or at random. From the log of
the likelihood of all rows, a penalty is taken: ``alpha / 2`` times

    ``|w|^2 - sum_y log P(y | f of a row at the mean of x)``

which keeps weights small, and classes without rows from vanishing. If a mechanism is learned, and
exact labels say little of it, a class may also vanish because its neighbours explain its ranges.
So the shares of classes are drawn towards those that they have if ranges are divided evenly.

One pass over blocks of rows gives `Sums`: log-likelihood, gradient, information, expected counts of
kinds by class. The size of a block depends on the number of features only, the sums of blocks are
added up in the order of a tree, and BLAS has one thread. So rows in memory, in a table on disk or
on a cluster give the same bits. `maximise` takes Newton steps; in between, EM steps improve the
mechanism from the counts.

Inside, features are centred at their means and scaled by powers of two, see `Frame`. Thresholds are
then those of a row whose features have their means.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import numpy as np
from scipy.linalg import LinAlgError, block_diag, cho_factor, cho_solve
from scipy.sparse import csr_array, issparse, vstack
from scipy.sparse.linalg import LinearOperator, cg
from scipy.special import expit, softmax

from pril.core.arrays import Array
from pril.core.coarsening import Kinds, Mechanism
from pril.core.rows import batches
from pril.core.threads import with_one_blas_thread

T = TypeVar("T")

BLOCK_ROWS, BLOCK_CELLS = 1 << 14, 1 << 19  # the most of a block
MOST_DENSE = 1000  # features; with more, the information is never written down as a matrix
LEAST_ALPHA = 1e-7  # of what keeps classes from vanishing
LEAST_CHANCE = 1e-300  # of a label, for its logarithm
LEAST_SHARE = 1e-12  # of a label, in the density of the scores at its cuts
LEAST_CLASS = 1e-9  # rows that are expected of a class
# The last step gains less, relative to the log-likelihood. Newton steps double the number of right
# digits; an EM step adds some.
NEWTON_GAIN, EM_GAIN = 1e-14, 1e-7
EM_ROWS = 1000.0  # of fewer rows, no label tells a smaller difference
ROUNDING, EM_LOSS = 1e-12, 1e-6  # by which the log-likelihood may fall in a step, relative
MOST_HALVINGS = 40
EXTRAPOLATED = (1.0, 0.5, 0.25)  # shares of the way that steps lead to
EXTRAPOLATED_LOSS = 1.0  # of the log-likelihood: what steps lead to need not be its maximum
MOST_EXTRAPOLATED = 40  # steps of EM: where it has not helped by then, it may go in circles
CAUTIOUS = 0.5  # of a step after these: whole steps may go to and fro, as the chances follow them
MOST_MIXED = 6  # of these steps, which show where the next one leads
MIXED_LOSS = 1e-3  # of the log-likelihood there, relative
STILL = 3e-4  # standard errors: if such a step moves the model by less, it is the last
LARGEST_EXPONENT = 400  # of two, that features are scaled by
MOST_PRODUCTS = 250  # of a matrix and a vector, for a step in many features
FAN_IN, MOST_LEVELS = 16, 16  # of the tree in which sums are added up


def block_rows(n_features: int) -> int:
    """Return the number of rows of a block: a power of two."""
    fitting = max(BLOCK_CELLS // max(n_features, 1), 256)
    return min(BLOCK_ROWS, 1 << (fitting.bit_length() - 1))


# --- Rows ----------------------------------------------------------------------------------------


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

    def take(self, some: Any) -> Block:
        """Return some of the rows: a slice, or their numbers."""
        offset = None if self.offset is None else self.offset[some]
        return Block(self.X[some], self.kind[some], self.weight[some], offset)

    @staticmethod
    def joined(parts: list[Block]) -> Block:
        """Return the rows of all parts."""
        if len(parts) == 1:
            return parts[0]
        columns: Any = zip(*parts, strict=True)
        X, *others = columns
        whole = vstack(X, format="csr") if issparse(X[0]) else np.concatenate(X)
        joined: Any = (None if one[0] is None else np.concatenate(one) for one in others)
        return Block(whole, *joined)


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

    sums = iter(parts)
    for _ in range(MOST_LEVELS):
        sums = grouped(sums)
    return next(sums)


def _added(a: Iterable[Any], b: Iterable[Any]) -> Iterator[Any]:
    return (None if own is None else own + more for own, more in zip(a, b, strict=True))


class Moments(NamedTuple):
    """Sums of the features and labels of rows; those of different rows add up."""

    weight: float
    first: Array  # (d,)
    second: Array  # (d,)
    by_kind: Array  # (kinds,), the weight of the rows of each kind
    rows: Array  # (kinds,), and their number, without those of weight zero

    @classmethod
    @with_one_blas_thread
    def of(cls, block: Block, n_kinds: int) -> Moments:
        """Return the sums of a block."""
        weight = block.weight
        by_kind = np.bincount(block.kind, weight, n_kinds)
        rows = np.bincount(block.kind, weight > 0.0, n_kinds)
        with np.errstate(over="ignore", invalid="ignore"):
            if issparse(block.X):
                squares = block.X.copy()
                squares.data = np.square(squares.data, dtype=np.float64)
                X = block.X
            else:
                X = block.X.astype(np.float64, copy=False)
                squares = X * X
            return cls(float(weight.sum()), weight @ X, weight @ squares, by_kind, rows)

    def plus(self, other: Moments) -> Moments:
        """Return the sums of the rows of both."""
        return Moments(*_added(self, other))

    @property
    def are_finite(self) -> bool:
        """Whether none of them has overflowed."""
        return bool(np.isfinite(np.concatenate([self.first, self.second])).all())


class Frame(NamedTuple):
    """Where the features are centred, and the powers of two that they are multiplied by."""

    centre: Array
    scale: Array

    @classmethod
    def of(cls, moments: Moments) -> Frame:
        """Return the frame of features with such moments: centred, and of a size about 1."""
        centre = moments.first / moments.weight
        spread = np.maximum(moments.second / moments.weight - centre**2, 0.0)
        # Of a column that hardly varies for its size, the spread is a rounding error.
        spread = np.maximum(np.sqrt(spread), 1e-8 * np.abs(centre))
        exponent = -np.frexp(np.where(spread > 0.0, spread, 1.0))[1]
        exponent = np.clip(exponent, -LARGEST_EXPONENT, LARGEST_EXPONENT)
        return cls(centre, np.ldexp(1.0, exponent))

    def view(self, X: Any) -> Framed:
        """Return rows in this frame."""
        if issparse(X):
            data = X.data * self.scale[X.indices]
            scaled = csr_array((data, X.indices, X.indptr), shape=X.shape)
            return Framed(scaled, self.centre * self.scale)
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
        sums = self.Z.T @ factors
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
        """Return the diagonal of `squares`."""
        if self.centre is None:
            return factors @ (self.Z * self.Z)
        squared = self.Z.multiply(self.Z).T @ factors
        mixed = 2.0 * self.centre * (self.Z.T @ factors)
        return squared - mixed + factors.sum() * self.centre**2


# --- One pass ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Chances:
    """The chance q[u, y] that a row of class y has a label of kind u, up to a factor of each kind.

    None: 1 inside of the range.
    """

    kinds: Kinds
    q: Any = None

    @cached_property
    def cuts(self) -> Array:
        """The cuts at which the chances of each kind jump, ascending; of shape (most, kinds)."""
        low, high = self.kinds.ends.T
        if self.q is None:
            return np.stack([low, high + 1])
        most = int((high - low).max(initial=0)) + 2
        return np.minimum(low + np.arange(most)[:, np.newaxis], high + 1)

    @cached_property
    def jumps(self) -> Array:
        """How far they jump there; 0 for a cut that is listed again."""
        if self.q is None:
            return np.stack([-np.ones(len(self.kinds.ends)), np.ones(len(self.kinds.ends))])
        padded = np.pad(self.q, [(0, 0), (1, 1)])
        jumps = np.take_along_axis(padded[:, :-1] - padded[:, 1:], self.cuts.T, axis=1).T
        jumps[1:][self.cuts[1:] == self.cuts[:-1]] = 0.0
        return jumps

    @cached_property
    def q_between(self) -> Array:
        """The chance of the class above each of the cuts but the last; 0 where there is none."""
        inside = self.cuts[1:] > self.cuts[:-1]
        ranks = np.minimum(self.cuts[:-1], self.kinds.n_classes - 1)
        return np.where(inside, self.q[np.arange(len(self.q)), ranks], 0.0)


class Terms(NamedTuple):
    """What rows add to the sums, given their scores; z is the likelihood of each."""

    log_z: Array  # (n,)
    cuts: Array  # (m, n), where q jumps
    first: Array  # (m, n), the derivatives of log z by these cuts
    second: Array  # (m, n), second derivatives of z by them, over z
    between: Array  # (m, n), P(y < k) for these cuts, or P(y < k) - 1

    @property
    def slope(self) -> Array:
        """The derivative of log z by the score."""
        return -self.first.sum(axis=0)


def terms_of(scores: Array, kind: Array, theta: Array, chances: Chances) -> Terms:
    """Return the terms of rows with such scores and kinds of labels."""
    cut = np.concatenate([[-np.inf], theta, [np.inf]])
    cuts, jumps = (np.take(part, kind, axis=1) for part in (chances.cuts, chances.jumps))
    distance = cut[cuts] - scores
    is_positive = distance > 0.0
    small = np.exp(-np.abs(distance))
    large = 1.0 / (1.0 + small)
    small *= large
    density = small * large
    below = np.where(is_positive, large, small)
    # P(y < k), less 1 where they are all near 1: jumps add up to 0, and the small side is exact.
    between = np.where(below[0] > 0.5, np.where(is_positive, -small, -large), below)
    # Between two cuts that are nearly equal, a derivative has no bound.
    z = (jumps * between).sum(axis=0)
    z = np.maximum(z, np.maximum(LEAST_SHARE * density.max(axis=0), LEAST_CHANCE))
    first = jumps
    first *= density
    first /= z
    second = np.where(is_positive, small - large, large - small)
    second *= first
    return Terms(np.log(z), cuts, first, second, between)


class Sums(NamedTuple):
    """What one pass over rows gives; sums of different rows add up."""

    loglik: float
    gradient: Array  # by the weights and the thresholds
    information: Array  # minus the second derivatives; by thresholds only if features are many
    squares: Array  # (2,), of the gradients of rows by score, and by thresholds
    # If not all labels are exact; the last two, if there are features:
    counts: Any = None  # (kinds, K), expected weight of the rows of each kind and class
    classes: Any = None  # (K,), expected weight of each class before labels are known
    class_slopes: Any = None  # (weights and thresholds, K), its derivatives

    def plus(self, other: Sums) -> Sums:
        """Return the sums of the rows of both."""
        return Sums(*_added(self, other))


@dataclass(frozen=True, eq=False)
class Point:
    """Where the likelihood is looked at: weights and thresholds in a frame, and chances."""

    frame: Frame
    w: Array
    theta: Array
    chances: Chances

    @property
    def weights(self) -> Array:
        """The weights, outside of the frame."""
        return self.w * self.frame.scale

    @property
    def thresholds(self) -> Array:
        """The thresholds, outside of the frame."""
        return self.theta + self.frame.centre @ self.weights

    def seen_in(self, frame: Frame) -> Point:
        """Return the same point in another frame."""
        w, theta = self.weights, self.thresholds
        return replace(self, frame=frame, w=w / frame.scale, theta=theta - frame.centre @ w)

    def view(self, block: Block) -> tuple[Framed, Array]:
        """Return the rows of a block in the frame, and their scores."""
        Z = self.frame.view(block.X)
        scores = Z.dot(self.w)
        return Z, scores if block.offset is None else scores + block.offset

    def terms(self, block: Block) -> Terms:
        """Return the terms of a block."""
        _, scores = self.view(block)
        return terms_of(scores, block.kind, self.theta, self.chances)

    def slope(self, block: Block) -> tuple[float, Array]:
        """Return the log-likelihood of a block, and its gradient by the weights and thresholds."""
        Z, scores = self.view(block)
        terms = terms_of(scores, block.kind, self.theta, self.chances)
        by_theta = _added_up(terms.cuts, block.weight * terms.first, len(self.theta))
        gradient = np.concatenate([Z.sums(block.weight * terms.slope), by_theta])
        return float(block.weight @ terms.log_z), gradient

    def gradients(self, block: Block) -> Array:
        """Return the derivatives of log z of each row by the weights and the thresholds."""
        by_theta, _ = self.by_theta(block)
        slope = -by_theta.sum(axis=1, keepdims=True)
        return np.hstack([self.frame.view(block.X).dense() * slope, by_theta])

    def by_theta(self, block: Block) -> tuple[Array, Array]:
        """Return the derivatives of log z of each row by each threshold, and what is second in z.

        Minus the second derivative of log z by thresholds j and k is the product of the first ones,
        less the second one if j is k.
        """
        terms, inner = self.terms(block), len(self.theta)
        return _spread(terms.cuts, terms.first, inner), _spread(terms.cuts, terms.second, inner)

    def expected_information(self, block: Block) -> Array:
        """Return the information in the thresholds that exact labels would have on average.

        Steps by it are short, but a class never vanishes by them.
        """
        below = expit(self.theta[:, np.newaxis] - self.view(block)[1])
        p = np.maximum(np.diff(below, axis=0, prepend=0.0, append=1.0), LEAST_CLASS)
        density = below * (1.0 - below)
        own = (density**2 * (1.0 / p[:-1] + 1.0 / p[1:])) @ block.weight
        beside = -(density[:-1] * density[1:] / p[1:-1]) @ block.weight
        return np.diag(own) + np.diag(beside, 1) + np.diag(beside, -1)

    @with_one_blas_thread
    def sums(self, block: Block) -> Sums:
        """Return the sums of a block."""
        Z, scores = self.view(block)
        terms = terms_of(scores, block.kind, self.theta, self.chances)
        weight, d, inner = block.weight, len(self.w), len(self.theta)
        loglik = float(weight @ terms.log_z)
        by_theta = _spread(terms.cuts, terms.first, inner)
        gradient = np.concatenate([Z.sums(weight * terms.slope), weight @ by_theta])
        curve, mixed = _curvature(terms)
        own = _added_up(terms.cuts, weight * terms.second, inner)
        information = (by_theta * weight[:, np.newaxis]).T @ by_theta - np.diag(own)
        if d <= MOST_DENSE:
            corner = Z.sums(_spread(terms.cuts, mixed * weight, inner))
            information = np.block([[Z.squares(weight * curve), corner], [corner.T, information]])
        slopes = weight * terms.slope, weight * terms.first
        squares = np.array([np.sum(part * part) for part in slopes])
        sums = Sums(loglik, gradient, information, squares)
        if self.chances.q is None:
            return sums
        sums = sums._replace(counts=self._counts(block, terms))
        if d == 0:
            return sums
        classes, class_slopes = self._classes(Z, scores, weight)
        return sums._replace(classes=classes, class_slopes=class_slopes)

    def _classes(self, Z: Framed, scores: Array, weight: Array) -> tuple[Array, Array]:
        """Return the expected weight of each class, and its derivatives."""
        cut = np.concatenate([[-np.inf], self.theta, [np.inf]])
        below = expit(cut[:, np.newaxis] - scores)
        density = below * (1.0 - below) * weight
        by_theta = density[1:-1].sum(axis=1)
        inner = np.arange(len(by_theta))
        slopes = np.zeros((len(self.w) + len(inner), len(inner) + 1))
        slopes[: len(self.w)] = Z.sums(-np.diff(density, axis=0).T)
        slopes[len(self.w) + inner, inner] = by_theta
        slopes[len(self.w) + inner, inner + 1] = -by_theta
        return np.diff(below, axis=0) @ weight, slopes

    def _counts(self, block: Block, terms: Terms) -> Array:
        """Return the weight of the rows of each kind, divided among classes by their chances."""
        n_kinds, n_classes = len(self.chances.kinds.ends), self.chances.kinds.n_classes
        counts = np.zeros(n_kinds * n_classes)
        for ranks, part in self.posterior(block, terms):
            at = block.kind * n_classes + ranks
            counts += np.bincount(at, block.weight * part, len(counts))
        return counts.reshape(-1, n_classes)

    def posterior(self, block: Block, terms: Terms) -> Iterator[tuple[Array, Array]]:
        """Return a class of each row's label and its probability, given the label; then others."""
        p = np.diff(terms.between, axis=0)
        p = np.maximum(p * np.take(self.chances.q_between, block.kind, axis=1), 0.0)
        p /= np.maximum(p.sum(axis=0), LEAST_CHANCE)
        yield from zip(np.minimum(terms.cuts[:-1], len(self.theta)), p, strict=True)


def _spread(cuts: Array, values: Array, n_thresholds: int) -> Array:
    """Return a column for each threshold, with the values of rows at their cuts."""
    spread = np.zeros((cuts.shape[1], n_thresholds + 2))
    rows = np.arange(len(spread))
    for column, value in zip(cuts, values, strict=True):
        spread[rows, column] += value  # 0 for a cut that is listed again
    return spread[:, 1:-1]


def _added_up(cuts: Array, values: Array, n_thresholds: int) -> Array:
    """Return the sums of the columns of `_spread`."""
    sums = np.zeros(n_thresholds + 2)
    for column, value in zip(cuts, values, strict=True):
        sums += np.bincount(column, value, len(sums))
    return sums[1:-1]


def _curvature(terms: Terms) -> tuple[Array, Array]:
    """Return minus the second derivatives of log z by the score, and by the score and cuts."""
    whole = terms.first.sum(axis=0)
    curve = whole * whole - terms.second.sum(axis=0)
    return curve, terms.second - whole * terms.first


# --- The maximum ---------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Penalty:
    """What is taken from the log-likelihood: see the top of this page."""

    alpha: float
    frame: Frame
    rows: Array  # (K,), how many rows of each class are believed in, where labels are not exact
    fixed: tuple[int, ...] = ()  # features whose weights stay as they are

    @cached_property
    def ridge(self) -> Array:
        """The penalty of each weight, in the frame; it makes weights of constants 0."""
        return self.alpha * self.frame.scale**2 + LEAST_ALPHA

    def applied(self, point: Point, sums: Sums) -> Sums:
        """Return the sums of all rows with the penalty, whose second derivatives are bounded."""
        d, (loglik, slope, information, _) = len(point.w), self._at_mean(point.theta)[:4]
        loglik -= 0.5 * float(self.ridge @ point.w**2)
        gradient = np.concatenate([-self.ridge * point.w, slope])
        if d <= MOST_DENSE:
            information = block_diag(np.diag(self.ridge), information)
        if sums.classes is not None:
            classes = np.maximum(sums.classes, LEAST_CLASS)
            loglik += float(self.rows @ np.log(classes / classes.sum()))
            gradient += sums.class_slopes @ (self.rows / classes)
            if d <= MOST_DENSE:
                root = self.root(sums)
                information += root @ root.T
        gradient, information = sums.gradient + gradient, sums.information + information
        for j in self.fixed:
            gradient[j] = 0.0
            if d <= MOST_DENSE:
                information[j], information[:, j] = 0.0, 0.0
                information[j, j] = 1.0
        return sums._replace(
            loglik=sums.loglik + loglik, gradient=gradient, information=information
        )

    def slope(self, point: Point, blocks: Iterable[Block]) -> tuple[float, Array]:
        """Return the value of blocks and its gradient, where no rows of classes are believed in."""
        loglik, at_mean, *_ = self._at_mean(point.theta)
        value = loglik - 0.5 * float(self.ridge @ point.w**2)
        gradient = np.concatenate([-self.ridge * point.w, at_mean])
        for block in blocks:
            more, slope = point.slope(block)
            value, gradient = value + more, gradient + slope
        return value, gradient

    def root(self, sums: Sums) -> Array:
        """Return a matrix whose square is the information in the shares of the classes, bounded."""
        classes = np.maximum(sums.classes, LEAST_CLASS)
        return sums.class_slopes * (np.sqrt(self.rows) / classes)

    def _at_mean(self, theta: Array) -> Sums:
        """Return the sums of half of alpha rows of each class, all of them at the mean."""
        rows, at = self._each_class
        return replace(at, theta=theta).sums(rows)

    @cached_property
    def _each_class(self) -> tuple[Block, Point]:
        ranks, none = np.arange(len(self.rows)), np.empty(0)
        each = Kinds(np.column_stack([ranks, ranks]), len(ranks))
        weight = np.full(len(ranks), max(self.alpha, LEAST_ALPHA) / 2.0)
        rows = Block(np.empty((len(ranks), 0)), ranks, weight)
        return rows, Point(Frame(none, none), none, none, Chances(each))


class Maximum(NamedTuple):
    """Where the penalised log-likelihood is largest, or where the search for it is."""

    point: Point
    sums: Any = None  # `Sums` there, without the penalty; None before the first pass
    mechanism: Any = None  # a `Mechanism`, or None
    n_iter: int = 0
    converged: bool = False
    gained: float = np.inf  # by the last step
    path: tuple[Array, ...] = ()  # the points after the last EM steps


@with_one_blas_thread
def maximise(
    rows: Rows,
    start: Maximum,
    penalty: Penalty,
    *,
    doubt: Any = None,
    max_iter: int = 100,
    em_gain: float = EM_GAIN,
    watch: Callable[[Maximum], None] = lambda _: None,
) -> Maximum:
    """Find the maximum by Newton steps, halved as often as the likelihood would fall.

    With a mechanism, each step is also an EM step: the chances of ranges follow from the counts, as
    far as `doubt`, for each class, allows. `watch` is told where the search is after each step: one
    that starts there gives the same bits.
    """

    def look_at(point: Point) -> tuple[Sums, Sums]:
        own = rows.sums(point)
        return own, penalty.applied(point, own)

    point, own, mechanism, first, _, gained, path = start
    if own is None:
        own = rows.sums(point)
    sums = penalty.applied(point, own)
    is_newton = point.chances.q is None
    least, size = (NEWTON_GAIN, 1.0) if is_newton else (em_gain, EM_ROWS)
    for n_iter in range(first, max_iter + 1):
        step = _newton_step(rows, point, sums, penalty)
        before, expected = sums.loglik, 0.5 * float(step @ sums.gradient)
        # The chances that counts show are not those by which these labels are most likely.
        loss = ROUNDING if mechanism is None else EM_LOSS
        lowest = before - loss * (1.0 + abs(before))
        if (expected if is_newton else max(expected, gained)) <= least * (size + abs(before)):
            if is_newton and expected > 0.0:  # the last digits
                point, own, _ = _climb(point, step, lowest, look_at)
            return Maximum(point, own, mechanism, n_iter, True)
        if n_iter == max_iter:
            break
        if mechanism is not None:
            mechanism, q = mechanism.step(own.counts, doubt)
            point = replace(point, chances=Chances(rows.kinds, q))
            step *= 1.0 if n_iter < MOST_EXTRAPOLATED else CAUTIOUS
        point, own, sums = _climb(point, step, lowest, look_at)
        gained = abs(sums.loglik - before)
        if mechanism is not None:
            found, path = (point, mechanism, own, sums), (*path, _numbers(point, mechanism, own))
            is_slow = n_iter >= MOST_EXTRAPOLATED
            if is_slow and _moved(path, sums, len(mechanism.shares)) < STILL:
                return Maximum(point, own, mechanism, n_iter + 1, True)
            speed_up = _mix if is_slow else _extrapolate
            (point, mechanism, own, sums), path = speed_up(path, found, doubt, look_at)
        watch(Maximum(point, own, mechanism, n_iter + 1, False, gained, path))
    return Maximum(point, own, mechanism, max_iter, False)


def _newton_step(rows: Rows, point: Point, sums: Sums, penalty: Penalty) -> Array:
    """Return the step to the maximum of a parabola, given the sums with the penalty."""
    if len(point.w) > MOST_DENSE:
        return Curvature(point, rows.blocks).solve(sums, penalty)
    return solver(sums.information)(sums.gradient)


def _climb(
    here: Point, step: Array, least: float, look_at: Callable[[Point], tuple[Sums, Sums]]
) -> tuple[Point, Sums, Sums]:
    """Take a step, or such a part of it that the log-likelihood is not below `least` there."""
    d, size = len(here.w), 1.0
    for _ in range(MOST_HALVINGS):
        theta = here.theta + size * step[d:]
        if (np.diff(theta) > 0.0).all():
            there = replace(here, w=here.w + size * step[:d], theta=theta)
            own, sums = look_at(there)
            if sums.loglik < least and size == 1.0:
                # Perhaps not the step is to blame, but the chances.
                least = min(least, look_at(here)[1].loglik)
            if sums.loglik >= least:
                return there, own, sums
        size /= 2.0
    return here, *look_at(here)


# Where EM is: the point, the mechanism, and the sums there, without and with the penalty.
State = tuple[Point, Mechanism, Sums, Sums]
LookAt = Callable[[Point], tuple[Sums, Sums]]


def _numbers(point: Point, mechanism: Mechanism, own: Sums) -> Array:
    """Return all that an EM step changes."""
    counts = own.counts.ravel() / own.counts.sum()
    return np.concatenate([np.log(mechanism.shares), point.w, point.theta, counts])


def _state_at(numbers: Array, here: State, doubt: Array, look_at: LookAt) -> State:
    """Return where EM is with such numbers."""
    point, mechanism, own, _ = here
    ends = np.cumsum([len(mechanism.shares), len(point.w), len(point.theta)])
    shares, w, theta, counts = np.split(numbers, ends)
    likely = replace(mechanism, shares=softmax(shares))
    counts = own.counts.sum() * np.maximum(counts, 0.0).reshape(own.counts.shape)
    chances = Chances(point.chances.kinds, likely.chance(counts, doubt))
    there = replace(point, w=w, theta=np.sort(theta), chances=chances)
    return there, likely, *look_at(there)


def _extrapolate(
    path: tuple[Array, ...], here: State, doubt: Array, look_at: LookAt
) -> tuple[State, tuple[Array, ...]]:
    """After three steps, go where they lead if they shrink steadily, or a part of the way; or stay.

    SQUAREM, by Varadhan and Roland, 2008. The path begins anew.
    """
    if len(path) < 3:
        return here, path
    one, two, three = path
    step, change = two - one, three - 2.0 * two + one
    ratio = float(np.linalg.norm(step)) / max(float(np.linalg.norm(change)), 1e-300)
    for share in EXTRAPOLATED:
        length = -max(1.0, share * ratio)
        further = one - 2.0 * length * step + length**2 * change
        there = _state_at(further, here, doubt, look_at)
        if there[-1].loglik >= here[-1].loglik - EXTRAPOLATED_LOSS:
            return there, ()
    return here, ()


def _mix(
    path: tuple[Array, ...], here: State, doubt: Array, look_at: LookAt
) -> tuple[State, tuple[Array, ...]]:
    """Go where the last steps lead, by the mixture of them that would move the least; or stay.

    Anderson, 1965. The path has where each step began, and where it ended.
    """
    if len(path) < 4:
        return here, (*path, path[-1])
    begins, ends = np.array(path[::2]), np.array(path[1::2])
    moves, n = ends - begins, len(here[1].shares)  # a log of a small share says little
    mixture = np.linalg.lstsq(np.diff(moves, axis=0)[:, n:].T, moves[-1, n:], rcond=1e-8)[0]
    further = ends[-1] - mixture @ np.diff(ends, axis=0)
    there = _state_at(further, here, doubt, look_at)
    if there[-1].loglik >= here[-1].loglik - MIXED_LOSS * (1.0 + abs(here[-1].loglik)):
        return there, (*path[-2 * MOST_MIXED :], further)
    return here, path[-1:]


def _moved(path: tuple[Array, ...], sums: Sums, n_shares: int) -> float:
    """Return by how many standard errors the last step has moved the model."""
    last = n_shares + len(sums.gradient)
    some = slice(last - len(sums.information), last)  # the thresholds alone, if features are many
    step = (path[-1] - path[-2])[some]
    return float(np.sqrt(max(step @ sums.information @ step, 0.0)))


def solver(information: Array) -> Callable[[Array], Array]:
    """Return what gives the step to the maximum of a parabola with such information, by gradient.

    Where that is no maximum, which may be with chances that are not flat, the information is
    increased until it is.
    """
    size = np.sqrt(np.maximum(np.abs(np.diagonal(information)), 1e-300))
    scaled = information / np.multiply.outer(size, size)
    more = 0.0
    while True:
        try:
            factor = cho_factor(scaled + more * np.eye(len(size)), lower=True)
            break
        except LinAlgError:
            more = max(10.0 * more, 1e-8)
    return lambda gradient: cho_solve(factor, gradient / size) / size


@dataclass(frozen=True, eq=False)
class Curvature:
    """The information of many features at a point: its products with vectors, never the matrix."""

    point: Point
    blocks: Iterable[Block]  # the same ones each time

    @cached_property
    def rows(self) -> list[tuple[Array, Array]]:
        """Of each block, minus the second derivatives by scores, and by scores and thresholds."""
        found = []
        for block in self.blocks:
            terms = self.point.terms(block)
            curve, mixed = _curvature(terms)
            crossed = _spread(terms.cuts, mixed * block.weight, len(self.point.theta))
            found.append((curve * block.weight, crossed))
        return found

    def views(self) -> Iterator[tuple[Framed, Array, Array]]:
        """Return the blocks in the frame, with their part of `rows`."""
        for block, (curve, crossed) in zip(self.blocks, self.rows, strict=True):
            yield self.point.frame.view(block.X), curve, crossed

    def solve(self, sums: Sums, penalty: Penalty) -> Array:
        """Return the Newton step by conjugate gradients, given the sums with the penalty."""
        d, gradient = len(self.point.w), sums.gradient
        diagonal = np.concatenate([penalty.ridge, np.diagonal(sums.information)])
        for Z, curve, _ in self.views():
            diagonal[:d] += Z.diagonal(np.maximum(curve, 0.0))
        diagonal = np.maximum(diagonal, LEAST_ALPHA)

        root = np.empty((len(gradient), 0)) if sums.classes is None else penalty.root(sums)

        fixed = list(penalty.fixed)

        def product(v: Array) -> Array:
            own, v = v[fixed], v.copy()
            v[fixed] = 0.0
            result = np.concatenate([penalty.ridge * v[:d], sums.information @ v[d:]])
            result += root @ (root.T @ v)
            for Z, curve, crossed in self.views():
                scores = Z.dot(v[:d])
                result[:d] += Z.sums(curve * scores + crossed @ v[d:])
                result[d:] += scores @ crossed
            result[fixed] = own
            return result

        shape = (len(gradient), len(gradient))
        size = float(np.sqrt((gradient**2 / diagonal).sum()))
        step: Array
        step, _ = cg(
            LinearOperator(shape, matvec=product),
            gradient,
            rtol=min(0.1, size / (1.0 + abs(sums.loglik)) ** 0.5),
            maxiter=MOST_PRODUCTS,
            M=LinearOperator(shape, matvec=lambda v: v / diagonal),
        )
        return step if step @ gradient > 0.0 else gradient / diagonal


# --- Rows in blocks ------------------------------------------------------------------------------


class Rows(ABC):
    """Rows that have a label, wherever they are: they can be read in blocks, often."""

    kinds: Kinds  # of their labels

    @property
    @abstractmethod
    def blocks(self) -> Iterable[Block]:
        """The rows, block by block."""

    @cached_property
    def moments(self) -> Moments:
        """The sums of their features and labels."""
        n_kinds = len(self.kinds.ends)
        return total((Moments.of(block, n_kinds) for block in self.blocks), Moments.plus)

    def know(self, moments: Moments) -> None:
        """Take the moments from another who has read the same rows."""
        vars(self)["moments"] = moments

    @property
    def n_rows(self) -> int:
        """How many there are, without those of weight zero."""
        return int(self.moments.rows.sum())

    @property
    def weights(self) -> Array:
        """The weight of the rows of each kind."""
        return self.moments.by_kind

    @property
    def exact(self) -> Array:
        """The number of rows with an exact label, of each class."""
        kinds, rows = self.kinds, self.moments.rows
        return np.bincount(kinds.ends[kinds.exact, 0], rows[kinds.exact], kinds.n_classes)

    def sums(self, point: Point) -> Sums:
        """Return the sums of all blocks, added up in their order."""
        return total(map(point.sums, self.blocks), Sums.plus)

    @abstractmethod
    def sample(self, most: int) -> InMemory:
        """Return at most `most` of the rows, evenly spaced."""


@dataclass(frozen=True, eq=False)
class InMemory(Rows):
    """Rows that have a label, in memory."""

    X: Any  # dense or CSR
    kind: Array
    weight: Array
    kinds: Kinds
    offset: Array | None = None

    @classmethod
    def of(cls, rows: Block, kinds: Kinds) -> InMemory:
        """Return the rows of a block."""
        return cls(*rows[:3], kinds, rows.offset)

    @property
    def _whole(self) -> Block:
        return Block(self.X, self.kind, self.weight, self.offset)

    @cached_property
    def blocks(self) -> list[Block]:
        """The rows, block by block."""
        cuts = batches(len(self.kind), block_rows(self.X.shape[1]))
        return [self._whole.take(some) for some in cuts]

    def take(self, some: Array) -> InMemory:
        """Return some of the rows, given by their numbers."""
        return InMemory.of(self._whole.take(some), self.kinds)

    def sample(self, most: int) -> InMemory:
        """Return at most `most` of the rows, evenly spaced."""
        n = len(self.kind)
        return self if n <= most else self.take(evenly_spaced(n, most))


def evenly_spaced(n: int, most: int) -> Array:
    """Return the numbers of at most `most` of n rows."""
    return np.arange(n) if n <= most else np.arange(most) * n // most
