"""Mechanisms: how a class becomes a label. M[u, y] is the chance that class y is given the label u.

Ranks are 0..K-1, and the *cut* k is the threshold below class k; those at both ends are infinite. A
*cell* is a kind of label together with one of its classes. Only cells are listed whose chances
differ among the classes of their kind: all others factor out of the likelihood.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from scipy.special import betaln, expit, softmax

from pril.core.arrays import Array
from pril.core.coarsening import MOST_STEPS, OFFSETS, Kinds
from pril.core.loop_types import WIDTH_SPREAD

# Logits of the shares of the offsets, by phi: pairs to triples, to both sides, up to down in each.
LOGITS = np.array([[1, 0, 1, 0], [1, 0, -1, 0], [0, 0, 0, 1], [0, 1, 0, 0], [0, 0, 0, -1]])
LOGITS = LOGITS * [1.0, 1.0, 0.5, 0.5]
SKEW = 1.5  # of the directions in starts: two thirds up, or down
BOTH = 3.0  # of triples in starts: nine of ten to both sides
LEAST_CELL = 1e-9  # a chance in a free table that is not learned, for it is as good as 0
# Turnbull's shares end when no class changes by more; each step costs as much as all kinds.
TURNBULL_CHANGE, MOST_TURNBULL = 1e-6, 2000
LEAST_MASS = 1e-4  # the share of a class that ranges at random leave without rows, with rounding


class Shape(NamedTuple):
    """Kinds of labels whose likelihood depends on m cuts, and on q numbers with their chances."""

    kinds: Array  # their numbers
    cuts: Array  # (kinds, m), ascending
    cells: Array  # (kinds, q - m)
    places: Array  # (kinds, q), of cuts and cells among all: cells are after the cuts
    first: slice  # where these numbers are, in one array of all kinds
    pairs: slice  # and their q (q + 1) / 2 pairs


@dataclass(frozen=True, eq=False)
class Cells:
    """Which cuts and which chances the likelihood of each kind of label depends on."""

    kinds: Kinds
    varies: Array  # (kinds,), whether chances differ among the classes of a kind

    @cached_property
    def n_cells(self) -> Array:
        """The number of cells of each kind."""
        return np.where(self.varies, self.kinds.steps + 1, 0)

    @cached_property
    def first(self) -> Array:
        """The number of the first cell of each kind, of those that vary."""
        return np.cumsum(self.n_cells) - self.n_cells

    @cached_property
    def kind(self) -> Array:
        """The kind of each cell."""
        return np.repeat(np.arange(len(self.varies)), self.n_cells)

    @cached_property
    def rank(self) -> Array:
        """The class of each cell."""
        return self.kinds.ends[self.kind, 0] + np.arange(len(self.kind)) - self.first[self.kind]

    @property
    def n_places(self) -> int:
        """The number of all cuts and cells."""
        return self.kinds.n_classes + 1 + len(self.kind)

    @cached_property
    def shapes(self) -> list[Shape]:
        """The kinds, those with as many cells together."""
        shapes, first, pairs = [], 0, 0
        for n in np.unique(self.n_cells).tolist():
            kinds = np.flatnonzero(self.n_cells == n)
            low, high = self.kinds.ends[kinds].T[:, :, np.newaxis]
            cuts = low + np.arange(n + 1) if n else np.hstack([low, high + 1])
            cells = self.first[kinds, np.newaxis] + np.arange(n)
            places = np.hstack([cuts, self.kinds.n_classes + 1 + cells])
            q = places.shape[1]
            to, to_pairs = first + places.size, pairs + len(kinds) * q * (q + 1) // 2
            own = slice(first, to), slice(pairs, to_pairs)
            shapes.append(Shape(kinds, cuts, cells, places, *own))
            first, pairs = to, to_pairs
        return shapes

    @cached_property
    def number(self) -> Array:
        """The number of each kind in its shape."""
        number = np.empty(len(self.varies), dtype=int)
        for shape in self.shapes:
            number[shape.kinds] = np.arange(len(shape.kinds))
        return number

    @cached_property
    def starts(self) -> Array:
        """(kinds, 2), where the numbers of each kind begin in `places`, and in `pairs`."""
        starts = np.empty((len(self.varies), 2), dtype=int)
        for shape in self.shapes:
            q, number = shape.places.shape[1], np.arange(len(shape.kinds))
            starts[shape.kinds, 0] = shape.first.start + q * number
            starts[shape.kinds, 1] = shape.pairs.start + q * (q + 1) // 2 * number
        return starts

    @cached_property
    def places(self) -> Array:
        """The place of each number of each kind, shape after shape."""
        return np.concatenate([shape.places.ravel() for shape in self.shapes])

    @cached_property
    def pairs(self) -> tuple[Array, Array]:
        """The places of each pair of numbers of a kind, shape after shape; the lower one first."""
        upper = [(shape.places, *np.triu_indices(shape.places.shape[1])) for shape in self.shapes]
        one = np.concatenate([places[:, a].ravel() for places, a, _ in upper])
        other = np.concatenate([places[:, b].ravel() for places, _, b in upper])
        return one, other


class Table(NamedTuple):
    """M of the cells, up to a factor of each kind, and how it changes with phi."""

    M: Array  # (cells,)
    J: Array  # (cells, phi), first derivatives
    second: Callable[[Array], Array]  # of G (cells,): sum of G times the second derivatives


class Prior(NamedTuple):
    """A log density of phi, its gradient, and minus its second derivatives, a diagonal."""

    value: float
    gradient: Array
    curve: Array


class Mechanism(Protocol):
    """How classes become labels."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def kinds(self) -> Kinds:
        """The kinds of labels."""

    @property
    def cells(self) -> Cells:
        """The cells whose chances vary."""

    def starts(self, weights: Array) -> list[Array]:
        """Return where the search for phi begins; weights are those of the kinds."""

    def prior(self, phi: Array) -> Prior:
        """Return the prior of phi."""

    def table(self, phi: Array) -> Table:
        """Return the chances of the cells."""

    def among(self, kinds: Kinds) -> Mechanism:
        """Return what it says of such labels; it may know others, and not all of these."""

    def frequencies(self, weights: Array) -> tuple[Array, int]:
        """Return the log of what factors out of the chances of each kind, and how many are free."""


def relative_chances(mechanism: Mechanism, phi: Array, kinds: Kinds) -> Array:
    """Return P(label | class) for each kind and class, up to a factor of each kind.

    Where the mechanism says nothing of a label, all of its classes are given it equally often.
    """
    own, chances = mechanism.among(kinds), kinds.inside.copy()
    codes = np.array([kinds.n_classes, 1])
    asked, known = kinds.ends @ codes, own.kinds.ends @ codes
    cells = np.isin(known, asked)[own.cells.kind]
    kind = np.searchsorted(asked, known)[own.cells.kind[cells]]
    chances[kind, own.cells.rank[cells]] = own.table(phi).M[cells]
    return chances


def label_chances(mechanism: Mechanism, phi: Array, weights: Array) -> Array:
    """Return P(label | class) for each kind and each of its classes, one after the other.

    They add up to 1 for each class that has a label.
    """
    kinds, cells, M = mechanism.kinds, mechanism.cells, mechanism.table(phi).M
    every = Cells(kinds, np.ones(len(kinds.ends), dtype=bool))
    chance = np.ones(len(every.kind))
    chance[cells.varies[every.kind]] = M
    chance *= np.exp(mechanism.frequencies(weights)[0])[every.kind]
    whole = np.bincount(every.rank, chance, kinds.n_classes)
    return chance / whole[every.rank]


def label_table(kinds: Kinds, chances: Array) -> dict[tuple[int, int], tuple[float, ...]]:
    """Return the chances of `label_chances` by label."""
    ends = np.cumsum(kinds.steps + 1)[:-1]
    cells = [tuple(each.tolist()) for each in np.split(chances, ends)]
    return dict(zip(map(tuple, kinds.ends.tolist()), cells, strict=True))


@dataclass(frozen=True, eq=False)
class Random:
    """Each class of a range is given it equally often: nothing to learn but what factors out."""

    kinds: Kinds
    name = "random"

    @cached_property
    def cells(self) -> Cells:
        """None."""
        return Cells(self.kinds, np.zeros(len(self.kinds.ends), dtype=bool))

    def starts(self, weights: Array) -> list[Array]:
        """Return the empty phi."""
        return [np.empty(0)]

    def among(self, kinds: Kinds) -> Random:
        """Return the same of other labels."""
        return Random(kinds)

    def prior(self, phi: Array) -> Prior:
        """Return nothing."""
        return Prior(0.0, np.empty(0), np.empty(0))

    def table(self, phi: Array) -> Table:
        """Return no chances."""
        return Table(np.empty(0), np.empty((0, 0)), lambda _: np.empty((0, 0)))

    def frequencies(self, weights: Array) -> tuple[Array, int]:
        """Return log c[u], the most likely ones with sum_{u with y} c[u] <= 1; how many are free.

        They are the dual of the shares of the classes by Turnbull (1976).
        """
        kinds, rows = self.kinds, weights + 1.0 / len(weights)
        rows = rows / rows.sum()
        mass = kinds.evenly(rows)
        for _ in range(MOST_TURNBULL):
            last, mass = mass, mass * kinds.over_classes(rows / kinds.over_kinds(mass))
            if np.abs(mass - last).max() < TURNBULL_CHANGE:
                break
        chance = rows / kinds.over_kinds(mass)
        chance /= max(kinds.over_classes(chance).max(), 1.0)
        return np.log(chance), len(rows) - self._rank(mass > LEAST_MASS)

    def _rank(self, occurs: Array) -> int:
        """Return the rank of the kinds as sets of the classes that occur.

        A kind is a path between two cuts, so that this is the rank of a graph, in which the cuts of
        a class that does not occur are one.
        """
        n, empty, (low, high) = self.kinds.n_classes + 1, np.flatnonzero(~occurs), self.kinds.ends.T
        edges = np.concatenate([low, empty]), np.concatenate([high, empty]) + 1
        graph = csr_array((np.ones(len(edges[0])), edges), shape=(n, n))
        return n - connected_components(graph, directed=False)[0] - len(empty)


@dataclass(frozen=True, eq=False)
class Offsets:
    """A rater adds classes below and above in the same way at every class.

    A label is exact with one chance, wide (more than three classes) with another. Else it is
    [y - a, y + b], cut off at the ends of the scale, with the share of the offset (a, b) over the
    sum of the shares of those that leave a range at y. phi are logits of the shares.
    """

    kinds: Kinds
    direction_rows: float  # pseudo-rows up, and as many down
    name = "offsets"

    @cached_property
    def narrow(self) -> Array:
        """Whether each kind is a range that offsets make."""
        return (self.kinds.steps > 0) & (self.kinds.steps <= MOST_STEPS)

    @cached_property
    def cells(self) -> Cells:
        """Those of narrow ranges."""
        return Cells(self.kinds, self.narrow)

    @cached_property
    def fits(self) -> tuple[Array, Array]:
        """Whether an offset makes a cell (cells, 5), and leaves a range of a class (K, 5)."""
        ranks = np.arange(self.kinds.n_classes)[:, np.newaxis]
        down, up = np.array(OFFSETS).T
        low, high = np.maximum(ranks - down, 0), np.minimum(ranks + up, ranks[-1])
        kind, rank = self.cells.kind, self.cells.rank
        ends = self.kinds.ends[kind][:, :, np.newaxis]
        made = (ends[:, 0] == low[rank]) & (ends[:, 1] == high[rank])
        return made.astype(float), (high > low).astype(float)

    def starts(self, weights: Array) -> list[Array]:
        """Return widths as they occur, with offsets of one direction or another.

        Maxima are mirrored, and triples to both sides may be taken for those up and down.
        """
        pairs, triples = (weights[self.kinds.steps == n].sum() + 1.0 for n in (1, 2))
        ratio = np.log(1.5 * pairs / triples)  # three offsets make triples, and two make pairs
        ways = [*([(BOTH, 0.0)] if triples > 1.0 else []), (0.0, 0.0), (0.0, SKEW), (0.0, -SKEW)]
        return [np.array([ratio, both, up, up]) for both, up in ways]

    def among(self, kinds: Kinds) -> Offsets:
        """Return the same of other labels."""
        return replace(self, kinds=kinds)

    def prior(self, phi: Array) -> Prior:
        """Return the prior: normal for the widths, beta for the directions."""
        widths, rows = phi[:2] / WIDTH_SPREAD, self.direction_rows
        up, down = expit(phi[2:]), expit(-phi[2:])  # a share near 1 is not rounded
        value = -0.5 * float(widths @ widths) - 2.0 * np.log(np.sqrt(2.0 * np.pi) * WIDTH_SPREAD)
        value += float((rows * np.log(up * down) - betaln(rows, rows)).sum())
        gradient = np.concatenate([-widths / WIDTH_SPREAD, rows * (down - up)])
        curve = np.concatenate([[WIDTH_SPREAD**-2.0] * 2, 2.0 * rows * up * down])
        return Prior(float(value), gradient, curve)

    def table(self, phi: Array) -> Table:
        """Return the chances of narrow ranges among themselves."""
        made, left = self.fits
        b = softmax(np.where(left > 0.0, LOGITS @ phi, -np.inf), axis=1)
        here, rank = b[self.cells.rank], self.cells.rank
        a = made * here
        M = a.sum(axis=1)
        by_logit = a - M[:, np.newaxis] * here

        def second(G: Array) -> Array:
            by_class = np.zeros_like(b)
            np.add.at(by_class, rank, G[:, np.newaxis] * by_logit)
            mixed = by_class.T @ b
            return LOGITS.T @ (np.diag(by_class.sum(axis=0)) - mixed - mixed.T) @ LOGITS

        return Table(M, by_logit @ LOGITS, second)

    def frequencies(self, weights: Array) -> tuple[Array, int]:
        """Return the log chances of exact, narrow and wide labels, and of each wide kind."""
        log, free = np.zeros(len(weights)), -1
        wide = self.kinds.steps > MOST_STEPS
        for some in (self.kinds.exact, self.narrow, wide):
            if some.any():
                log[some] = np.log((weights[some].sum() + 0.5) / (weights.sum() + 1.0))
                free += 1
        if wide.any():
            others = Random(Kinds(self.kinds.ends[wide], self.kinds.n_classes))
            part, more = others.frequencies(weights[wide])
            log[wide], free = log[wide] + part, free + more
        return log, free


def shares_of(phi: Array) -> Array:
    """Return the shares of `OFFSETS`."""
    return softmax(LOGITS @ phi)


@dataclass(frozen=True, eq=False)
class Free:
    """M[u, y] is what another mechanism says times exp(phi), over the sum of the class.

    If it `learns` nothing, it is what the other one says.
    """

    kinds: Kinds
    target: Array  # of each kind and class, as `label_chances` has them
    name: str  # of the other mechanism
    trust: float = 0.0  # pseudo-rows of each class that the other mechanism has
    learns: bool = True

    @cached_property
    def cells(self) -> Cells:
        """All of them."""
        return Cells(self.kinds, np.ones(len(self.kinds.ends), dtype=bool))

    @cached_property
    def learned(self) -> Array:
        """The cells that phi is about."""
        return np.flatnonzero((self.target > LEAST_CELL) & self.learns)

    def starts(self, weights: Array) -> list[Array]:
        """Return the other mechanism."""
        return [np.zeros(len(self.learned))]

    def among(self, kinds: Kinds) -> Free:
        """Return the same table, of the labels that it knows."""
        return self

    def prior(self, phi: Array) -> Prior:
        """Return a normal prior, about that of `trust` pseudo-rows of each class."""
        rows = np.maximum(self.trust, 1e-3) * self.target[self.learned]
        value = 0.5 * float(np.log(rows / (2.0 * np.pi)).sum() - rows @ phi**2)
        return Prior(value, -rows * phi, rows)

    def table(self, phi: Array) -> Table:
        """Return the chances of all labels."""
        learned, n_classes = self.learned, self.kinds.n_classes
        M = self.target.copy()
        M[learned] *= np.exp(phi)
        M /= np.bincount(self.cells.rank, M, n_classes)[self.cells.rank]
        m, y = M[learned], self.cells.rank[learned]
        same = (y[:, np.newaxis] == y).astype(float)
        log_slopes = np.eye(len(phi)) - same * m
        J = np.zeros((len(M), len(phi)))
        J[learned] = m[:, np.newaxis] * log_slopes

        def second(G: Array) -> Array:
            rows = (G * M)[learned]
            classes = m * np.bincount(self.cells.rank, G * M, n_classes)[y]
            squares = (log_slopes * rows[:, np.newaxis]).T @ log_slopes
            return squares - np.diag(classes) + same * np.outer(classes, m)

        return Table(M, J, second)

    def frequencies(self, weights: Array) -> tuple[Array, int]:
        """Return nothing: the table has all."""
        return np.zeros(len(weights)), 0
