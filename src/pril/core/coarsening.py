"""Coarsening: how a class becomes a range.

A learner of ranges needs P(range u | class y), the *coarsening mechanism* (Heitjan and Rubin,
1991). It is learned by `pril.likelihood`, and row by row by `coarsening_by_row`. `Coarsening` is
what a fitted model says about it. Ranks are 0..K-1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import Literal, Self

import numpy as np

from pril.core.arrays import Array
from pril.core.words import html_table

Name = Literal["random", "offsets", "free"]
Table = dict[tuple[int, int], tuple[float, ...]]  # of a range, the chance of each of its classes

# How many classes below and above the true one a range has.
OFFSETS = ((0, 1), (1, 0), (0, 2), (1, 1), (2, 0))
MOST_STEPS = max(down + up for down, up in OFFSETS)  # of a narrow range, from end to end
LEAST_SEEN = 0.1  # of the rows that offsets would give a kind of range; with less it is missing
TINY = 1e-12  # a share that counts as zero where it divides


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
        The share of each offset ``(a, b)``: a classes below and b above the true class. Empty at
        random.
    evidence : float or None
        The log odds of offsets to ranges at random, given the labels; in streams, the difference of
        the log-likelihoods of rows not yet learned. None if nothing was compared.
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
        is_shared = mechanism == "offsets"
        named = dict(zip(OFFSETS, map(float, shares), strict=True)) if is_shared else {}
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

    def _repr_html_(self) -> str:
        n_classes = 1 + max((high for _, high in self.table), default=-1)
        lines = [["rank of the label", *(f"class {rank}" for rank in range(n_classes))]]
        for (low, high), chances in sorted(self.table.items()):
            name = f"{low}" if low == high else f"{low} to {high}"
            shares = [f"{chance:.0%}" for chance in chances]
            lines.append([name, *[""] * low, *shares, *[""] * (n_classes - 1 - high)])
        return f"<p>{escape(str(self))}</p>{html_table(lines) if self.table else ''}"

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
    return " and ".join(f"{n} {name}" for n, name in ((down, "down"), (up, "up")) if n)


# --- Kinds of labels --------------------------------------------------------------


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
    def steps(self) -> Array:
        """How many classes each kind has beside the lowest one."""
        return self.ends[:, 1] - self.ends[:, 0]

    @property
    def exact(self) -> Array:
        """Whether each kind is one class."""
        return self.steps == 0

    def over_classes(self, values: Array) -> Array:
        """Return the sum over the kinds that contain each class."""
        begun, ended = (np.bincount(ends, values, self.n_classes) for ends in self.ends.T)
        begun[1:] -= ended[:-1]
        return np.maximum(np.cumsum(begun), 0.0)

    def over_kinds(self, values: Array) -> Array:
        """Return the sum over the classes of each kind."""
        below = np.concatenate([[0.0], np.cumsum(values)])
        return below[self.ends[:, 1] + 1] - below[self.ends[:, 0]]

    def evenly(self, weights: Array) -> Array:
        """Return the weights of the classes if each range is divided evenly."""
        return self.over_classes(weights / (self.steps + 1.0))
