"""Coarsening: how a class becomes a range.

A learner of ranges needs P(range u | class y), the *coarsening mechanism* (Heitjan and Rubin,
1991). It is a table of chances, with a row for each kind of range u and a column for each class y,
learned from counts C[u, y]: the expected weight of the rows with range u and class y. Exact labels
show how their classes become ranges. As far as they do not, a *target* takes their place:

- at random: every class of a range is given that range equally often;
- offsets: a rater adds classes below and above in the same way, whatever the class is. With the
  share of the offset (a, b), a row of class y is given the range from y - a to y + b, cut off at
  the ends of the scale. If that leaves the class alone, another offset is drawn. The shares may be
  symmetric, or free.

Ranks are 0..K-1. `Mechanism` is for learners that see all rows at once, `coarsening_by_row` for
those that see one at a time; `ByRow` reads what these have counted. `Coarsening` is what a fitted
model says about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Literal, Self

import numpy as np

from pril.core.arrays import Array
from pril.core.nouns import BENEFIT, MOST_MISSING_BY_ROW, PULL

Name = Literal["random", "symmetric", "offsets", "free"]
Table = dict[tuple[int, int], tuple[float, ...]]  # of a range, the chance of each of its classes
NAMES: tuple[Name, ...] = ("random", "symmetric", "offsets")

# How many classes below and above the true one a range has.
OFFSETS = ((0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
MATES = [OFFSETS.index((up, down)) for down, up in OFFSETS]  # their mirror images
MOST_STEPS = max(down + up for down, up in OFFSETS)  # of a narrow range, from end to end
LEAST_REST = 0.01  # the least share of offsets that leave a range at an end of the scale
LEAST_OVERLAP = 0.1  # of kinds of ranges, for offsets to make sense: see `Kinds.overlap`
LEAST_SEEN = 0.1  # of the rows that offsets would give a kind of range; with less it is missing
MOST_MISSING = 0.15  # of missing kinds in what offsets would make, for them to make sense
LEAST_SKEW = 5.0  # the evidence it takes to give up symmetry: see `choose`
LEAST_NARROW = 1e-6  # the least share of narrow ranges in a class
FIRST_UPDATES = 5  # of the shares
MOST_TURNBULL = 2000  # steps
TINY = 1e-12


# --- What a fitted model says --------------------------------------------------------------------


@dataclass(frozen=True)
class Coarsening:
    """How classes became ranges, as a model found it.

    Attributes
    ----------
    mechanism : {"random", "offsets", "free"}
        "random": every class of a range is given that range equally often. "offsets": raters add
        classes below and above in the same way at every class. "free": exact labels show that
        raters do so differently at each class, see `table`.
    shares : dict
        The share of each offset: of ``(a, b)``, a classes below and b above the true class. Empty
        at random.
    evidence : float or None
        By how much the offsets explain the labels better than at random: the difference of the logs
        of their marginal likelihoods. In streams, of the likelihoods of rows not yet learned. None
        if nothing was compared.
    table : dict
        P(label | class): for each label that occurred, a pair of ranks, the estimated share of the
        rows of each of its classes that were given this label. Over all labels, exact ones
        included, the shares of a class add up to 1.

    Examples
    --------
    >>> from pril.core.coarsening import Coarsening
    >>> print(Coarsening("offsets", {(0, 1): 0.66, (1, 0): 0.33, (1, 1): 0.01}, 12.5))
    shared offsets: raters go up more often than down (1 up 66 %, 1 down 33 %)
    """

    mechanism: Name
    shares: dict[tuple[int, int], float] = field(default_factory=dict)
    evidence: float | None = None
    table: Table = field(default_factory=dict)

    @classmethod
    def of(
        cls, mechanism: Name, shares: Array, evidence: float | None, table: Table | None = None
    ) -> Self:
        """Make a value of the shares of `OFFSETS`, in this order."""
        has_shares = mechanism in ("symmetric", "offsets")
        named = dict(zip(OFFSETS, map(float, shares), strict=True)) if has_shares else {}
        return cls(mechanism, named, evidence, table or {})

    @property
    def ranges(self) -> Table:
        """The table without exact labels."""
        return {ends: chances for ends, chances in self.table.items() if ends[0] < ends[1]}

    def __str__(self) -> str:
        if self.mechanism == "random":
            return "at random: every class of a range is given that range equally often"
        if self.mechanism == "free":
            return "by class: exact labels show that raters treat classes differently"
        common = [(share, way) for way, share in self.shares.items() if share >= 0.015]
        common.sort(key=lambda item: -item[0])
        listed = ", ".join(f"{offset_name(*way)} {100 * share:.0f} %" for share, way in common)
        return f"shared offsets: {self._direction()} ({listed})"

    def __repr__(self) -> str:
        return f"<Coarsening {self.mechanism!r}: {self}>"

    def _direction(self) -> str:
        """Say whether raters go up or down."""
        up = sum(share for (down, up), share in self.shares.items() if up > down)
        down = sum(share for (down, up), share in self.shares.items() if down > up)
        if up + down < 0.5:
            return "raters add the classes on both sides"
        more, less = ("up", "down") if up >= down else ("down", "up")
        ratio = max(up, down) / max(min(up, down), TINY)
        if ratio > 10:
            return f"raters go {more}, hardly ever {less}"
        if ratio < 1.15:
            return "raters go up as often as down"
        return f"raters go {more} more often than {less}"


def offset_name(down: int, up: int) -> str:
    """Return an offset in words."""
    ends = [f"{n} {name}" for n, name in ((down, "down"), (up, "up")) if n]
    return " and ".join(ends)


# --- Learning from all rows at once --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kinds:
    """The kinds of labels that occur."""

    ends: Array  # (kinds, 2), the lowest and the highest rank of each
    n_classes: int

    @classmethod
    def of(cls, intervals: Array, n_classes: int) -> tuple[Self, Array]:
        """Return the kinds of labels, and the kind of each row."""
        codes, group = np.unique(intervals @ [n_classes, 1], return_inverse=True)
        return cls(np.column_stack(np.divmod(codes, n_classes)), n_classes), group

    def number(self, intervals: Array) -> Array:
        """Return the kind of each label, all of which are of these kinds."""
        codes = [self.n_classes, 1]
        return np.searchsorted(self.ends @ codes, intervals @ codes)

    @cached_property
    def inside(self) -> Array:
        """1 for the classes of a kind, 0 for the others; of shape (kinds, K)."""
        ranks = np.arange(self.n_classes)
        within = (self.ends[:, :1] <= ranks) & (ranks <= self.ends[:, 1:])
        return within.astype(np.float64)

    @cached_property
    def exact(self) -> Array:
        """Whether each kind is one class."""
        return self.ends[:, 0] == self.ends[:, 1]

    @cached_property
    def wide(self) -> Array:
        """Whether each kind has more classes than any offset makes."""
        return self.ends[:, 1] - self.ends[:, 0] > MOST_STEPS

    @cached_property
    def narrow(self) -> Array:
        """The numbers of the other kinds."""
        return np.flatnonzero(~self.exact & ~self.wide)

    @cached_property
    def fits(self) -> Array:
        """Whether an offset makes a narrow kind of a class; of shape (offsets, narrow kinds, K)."""
        last, ranks = self.n_classes - 1, np.arange(self.n_classes)
        low, high = self.ends[self.narrow].T[:, :, np.newaxis]
        return np.array(
            [
                (low == np.maximum(ranks - down, 0)) & (high == np.minimum(ranks + up, last))
                for down, up in OFFSETS
            ],
            dtype=np.float64,
        )

    @cached_property
    def collapses(self) -> Array:
        """Whether an offset leaves no more than the class itself; of shape (offsets, K)."""
        last, ranks = self.n_classes - 1, np.arange(self.n_classes)
        reach = [np.minimum(down, ranks) + np.minimum(up, last - ranks) for down, up in OFFSETS]
        return np.array(reach) == 0

    def spread(self, weights: Array) -> Array:
        """Return counts of kinds of such weights: each evenly among its classes."""
        return self.inside * (weights / self.inside.sum(axis=1))[:, np.newaxis]

    def allow_offsets(self, weights: Array) -> bool:
        """Tell whether offsets can have made kinds of such weights.

        At least half of the ranges must be narrow. Kinds must overlap: the brackets of a
        questionnaire do not, and there offsets are wrong, whatever the evidence says. And few may
        be missing: the brackets of several questionnaires overlap, but do not move with the class.
        """
        ranges = np.where(self.exact, 0.0, weights)
        narrow = ranges[self.narrow].sum()
        return (
            bool(2.0 * narrow >= ranges.sum() and narrow > 0.0)
            and self.overlap(ranges) >= LEAST_OVERLAP
            and self.missing(weights) <= MOST_MISSING
        )

    def overlap(self, weights: Array) -> float:
        """Return how often two labels that share a class are of different kinds."""
        low, high = self.ends.T
        meet = (low[:, np.newaxis] <= high) & (low <= high[:, np.newaxis])
        together = weights @ meet @ weights
        return float(1.0 - weights @ weights / together) if together > 0.0 else 0.0

    def missing(self, weights: Array) -> float:
        """Return the share of ranges that hardly occur in those that offsets would make.

        Offsets do the same at every class. `turnbull` has the classes, if kinds are at random.
        """
        found = dict(zip(map(tuple, self.ends.tolist()), weights, strict=True))
        pairs = [u for u in combinations(range(self.n_classes), 2) if u[1] - u[0] <= MOST_STEPS]
        every = Kinds(np.array(pairs), self.n_classes)
        seen = np.array([found.get(u, 0.0) for u in pairs])
        offsets = Mechanism.start("symmetric", every, 0.0, every.spread(seen))
        expected = offsets.given_class() @ every.turnbull(seen)
        rare = seen < LEAST_SEEN * expected
        return float((expected - seen)[rare].sum() / seen.sum())

    def turnbull(self, weights: Array) -> Array:
        """Return the most likely weights of the classes, if kinds are at random."""
        inside = self.inside
        mass: Array = weights @ (inside / inside.sum(axis=1, keepdims=True)) + TINY
        for _ in range(MOST_TURNBULL):
            expected = inside @ mass
            ratio = np.divide(weights, expected, out=np.zeros_like(expected), where=weights > 0.0)
            last, mass = mass, mass * (ratio @ inside)
            if np.abs(mass - last).max() < 1e-6 * weights.sum():
                break
        return mass


def _fits_by_place() -> Array:
    """Return `Kinds.fits` for a narrow range by its place, the same for any number of classes.

    Of shape (places, classes of it, offsets). The place says in three bits whether the range is of
    three classes, has the lowest class, has the highest.
    """
    fits = np.zeros((2, 2, 2, MOST_STEPS + 1, len(OFFSETS)), dtype=bool)
    for longer, lowest, highest in np.ndindex(2, 2, 2):
        low = 1 - lowest
        high = low + 1 + longer
        kinds = Kinds(np.array([[low, high]]), high + 2 - highest)
        fits[longer, lowest, highest, : longer + 2] = kinds.fits[:, 0, low : high + 1].T
    return fits.reshape(8, *fits.shape[3:])


FITS_BY_PLACE = _fits_by_place()
COLLAPSES_AT_END = Kinds(np.empty((0, 2)), 2).collapses.T  # of the lowest class, of the highest


@dataclass(frozen=True, eq=False)
class Mechanism:
    """What is assumed of ranges where exact labels do not show it, with the shares so far."""

    name: Name
    kinds: Kinds
    trust: float  # of how many rows of a class the share of exact labels counts half
    shares: Array

    @classmethod
    def start(cls, name: Name, kinds: Kinds, trust: float, counts: Array) -> Self:
        """Begin with shares learned from `Kinds.spread`.

        Learned from the weights of the kinds alone, they may end in a wrong optimum.
        """
        even = np.full(len(OFFSETS), 1.0 / len(OFFSETS))
        return cls(name, kinds, trust, even).learn(counts, FIRST_UPDATES)

    def learn(self, counts: Array, n_updates: int = 2) -> Self:
        """Improve the shares by EM: how often each offset was drawn, counting those drawn again."""
        if self.name == "random":
            return self
        kinds, shares = self.kinds, self.shares
        counts = counts[kinds.narrow]
        for _ in range(n_updates):
            chance = np.tensordot(shares, kinds.fits, 1)
            per_chance = np.divide(counts, chance, out=np.zeros_like(counts), where=chance > 0.0)
            kept = (kinds.fits * per_chance).sum(axis=(1, 2))
            again = kinds.collapses @ (counts.sum(axis=0) / self._rest(shares))
            drawn = shares * (kept + again) + 1.0 / len(OFFSETS)
            if self.name == "symmetric":
                drawn = (drawn + drawn[MATES]) / 2.0
            shares = drawn / drawn.sum()
        return replace(self, shares=shares)

    def step(self, counts: Array, doubt: Array) -> tuple[Self, Array]:
        """Take an EM step: return better shares, and the chances that follow."""
        better = self.learn(counts)
        return better, better.chance(counts, doubt)

    def _rest(self, shares: Array) -> Array:
        """Return the share of offsets that leave a range, for each class."""
        return np.maximum(1.0 - shares @ self.kinds.collapses, LEAST_REST)

    def chance(self, counts: Array, doubt: Array) -> Array:
        """Return P(range | class): what the rows show, and the target as far as that is in doubt.

        `doubt` has a number for each class, 1 if its rows show nothing. Exact labels keep 1.
        """
        inside, exact = self.kinds.inside, self.kinds.exact
        shown = counts / (counts.sum(axis=0) + TINY)
        chance: Array = ((1.0 - doubt) * shown + doubt * self.target(counts)) * inside
        chance[exact] = inside[exact]
        return chance

    def target(self, counts: Array) -> Array:
        """Return P(range | class) as it is assumed; 0 for exact labels, and outside a range."""
        kinds, total = self.kinds, counts.sum(axis=0) + TINY
        target: Array = kinds.inside * (counts.sum(axis=1) / (kinds.inside @ total))[:, np.newaxis]
        target[kinds.exact] = 0.0
        if self.name == "random":
            return target
        narrow = 1.0 - self._share_of(kinds.exact, counts) - self._share_of(kinds.wide, counts)
        target[kinds.narrow] = self.given_class() * np.maximum(narrow, LEAST_NARROW)
        return target

    def given_class(self) -> Array:
        """Return P(narrow kind | class) by offsets, if a row is given a narrow kind."""
        return np.tensordot(self.shares, self.kinds.fits, 1) / self._rest(self.shares)

    def _share_of(self, some: Array, counts: Array) -> Array:
        """Return the share of some kinds in the rows of each class, drawn towards that of all."""
        own, total, trust = counts[some].sum(axis=0), counts.sum(axis=0), max(self.trust, TINY)
        return (own + trust * own.sum() / total.sum()) / (total + trust)

    def label_chances(self, counts: Array) -> Array:
        """Return P(label | class) as it is assumed, exact labels included, to weigh the evidence.

        No class has chances that add up to more than 1.
        """
        kinds = self.kinds
        if self.name == "random":  # the most likely ones, from the weights of the kinds alone
            weights = counts.sum(axis=1)
            chance = weights / (kinds.inside @ kinds.turnbull(weights))
            return kinds.inside * (chance / max((chance @ kinds.inside).max(), 1.0))[:, np.newaxis]
        chances, exact = self.target(counts), self._share_of(kinds.exact, counts)
        chances[kinds.exact] = kinds.inside[kinds.exact] * exact
        return chances

    def n_parameters(self, counts: Array) -> int:
        """Return how many numbers the labels determine, other than at random."""
        used = self.shares * counts[self.kinds.narrow].sum() > 0.5  # others are the prior's
        if self.name == "symmetric":
            used &= np.arange(len(OFFSETS)) <= MATES
        return int(used.sum() + self.kinds.wide.sum())


# --- Learned row by row --------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class ByRow:
    """What `OrderedLogit` has counted of labels: `loop` does the same for one row."""

    asked: str  # "auto", "random" or "offsets"
    trust: float
    n_classes: int
    parts: dict[str, Array]  # see `nouns.OWN_PARTS`

    @property
    def unit(self) -> float:
        """The mean weight of a row: what a row of a prior weighs."""
        weight, rows = float(self.parts["labels"][0]), float(self.parts["seen"][0])
        unit = weight / rows if rows > 0.0 else 1.0
        return unit if unit > 0.0 else 1.0  # files may hold any numbers

    @property
    def shares(self) -> Array:
        """The share of each offset: its rows, a prior of one row, and a pull towards symmetry."""
        rows = self.parts["offsets"]
        prior, whole = np.full(len(OFFSETS), 1.0 / len(OFFSETS)), rows.sum()
        with np.errstate(over="ignore", invalid="ignore"):
            if whole > 0.0:
                prior += PULL * (0.5 * (rows + rows[MATES]) / whole)
            drawn = rows + self.unit * prior
            shares: Array = drawn / drawn.sum()
        return shares

    @property
    def evidence(self) -> float:
        """The log-likelihood of offsets less that of "at random", in rows of mean weight."""
        return float(self.parts["advantage"][0]) / self.unit

    @property
    def uses_offsets(self) -> bool:
        """Whether narrow ranges are taken to be made by offsets."""
        _, narrow, wide, overlapping, missing = self.parts["labels"]
        likely = narrow >= wide and self.evidence > -BENEFIT
        overlap = narrow > 0.0 and overlapping >= LEAST_OVERLAP * narrow
        overlap = overlap and missing < MOST_MISSING_BY_ROW * narrow
        return self.asked == "offsets" or bool(self.asked == "auto" and likely and overlap)

    def ranges(self) -> dict[tuple[int, int], Array]:
        """Return the weight of the rows of each range, one number for each of its classes."""
        found, start = {}, 0
        for low, high in combinations(range(self.n_classes), 2):  # the order of the part
            found[low, high] = self.parts["ranges"][start : start + high - low + 1]
            start += high - low + 1
        return found

    def table(self) -> Table:
        """Return P(range | class), of the ranges seen and their classes."""
        table: Table = {}
        for (low, high), counts in self.ranges().items():
            if counts.any():
                rows = self.parts["total"][low : high + 1]
                counts = np.minimum(counts, rows)  # but for rounding, they are less
                shares = np.divide(counts, rows, out=0.0 * counts, where=rows > 0.0)
                table[low, high] = tuple(shares.tolist())
        return table

    def label_chances(self, kinds: Kinds) -> Array:
        """Return the chance that a row of each class has a label, the largest being 1.

        A mean of two estimates: how often rows of the class were given this range, weighted by the
        number of its exact rows, and what the mechanism says, weighted by `trust`.
        """
        total, exact, labels = (self.parts[name] for name in ("total", "exact", "labels"))
        counts, ranges = np.zeros_like(kinds.inside), self.ranges()
        for u in np.flatnonzero(~kinds.exact):
            low, high = kinds.ends[u].tolist()
            counts[u, low : high + 1] = ranges[low, high]
        known = counts.sum(axis=1, keepdims=True)
        rows = kinds.inside @ total[:, np.newaxis]
        chances = kinds.inside * np.divide(known, rows, out=np.ones_like(rows), where=known > 0.0)
        if self.uses_offsets:
            shares = self.shares
            rest = np.maximum(1.0 - shares @ kinds.collapses, LEAST_REST)
            narrow = (labels[1] + 0.5 * self.unit) / (labels[0] + 0.5 * self.unit)
            chances[kinds.narrow] = narrow * np.tensordot(shares, kinds.fits, 1) / rest
        own = np.divide(counts, total, out=np.zeros_like(counts), where=total > 0.0)
        mixed = (exact * own + self.trust * chances) / np.maximum(exact + self.trust, TINY)
        chances = np.where((known > 0.0) & (exact > 0.0), mixed, chances) * kinds.inside
        chances[kinds.exact] = kinds.inside[kinds.exact]
        return chances / chances.max(axis=1, keepdims=True)


def doubt_of(exact: Array, trust: float) -> Array:
    """Return how far exact rows, so many of each class, leave open how it becomes a range."""
    trusted = exact + trust
    return np.divide(trust, trusted, out=np.ones(len(trusted)), where=trusted > 0.0)


# --- Which mechanism? ----------------------------------------------------------------------------


def candidates(asked: str, kinds: Kinds, weights: Array) -> tuple[Name, ...]:
    """Return the mechanisms to compare: `asked` is "auto", "random" or "offsets"."""
    if asked == "random" or kinds.exact.all():
        return ("random",)
    if asked == "auto" and not kinds.allow_offsets(weights):
        return ("random",)
    return NAMES


def choose(
    asked: str, costs: dict[Name, float], least: float = 0.0, skew: float = LEAST_SKEW
) -> tuple[Name, float]:
    """Return the mechanism of the lowest cost, and by how much offsets cost less than at random.

    A cost is the negative log likelihood of held-out labels by `Mechanism.label_chances`. Free
    shares must cost clearly less than symmetric ones: where scores say little, they drift to one
    direction, and all classes move by one.
    """
    is_skewed = costs["symmetric"] > costs["offsets"] + skew
    best: Name = "offsets" if is_skewed else "symmetric"
    evidence = costs["random"] - costs[best]
    return ("random" if asked == "auto" and evidence <= least else best), evidence
