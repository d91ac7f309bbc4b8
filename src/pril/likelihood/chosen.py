"""How classes become labels, as a fit chose it: what models keep of it, and what they say of it."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import MOST_STEPS, Coarsening, Kinds, Name
from pril.likelihood.mechanisms import (
    Free,
    Mechanism,
    Offsets,
    Random,
    label_chances,
    label_table,
    relative_chances,
    shares_of,
)


class Choice(NamedTuple):
    """A mechanism and the labels that it was chosen for, as arrays for files."""

    mechanism: Name
    phi: Array
    target: Array  # of a free table, else empty
    evidence: float | None  # for offsets
    ends: Array  # of the kinds of labels
    by_kind: Array  # their weights

    @classmethod
    def of(
        cls,
        mechanism: Mechanism,
        phi: Array,
        evidence: float | None,
        kinds: Kinds,
        weights: Array,
    ) -> Self:
        """Return what is kept of a mechanism; `kinds` are of all classes, also without rows."""
        target = mechanism.target if isinstance(mechanism, Free) else np.empty(0)
        name: Name = "random" if mechanism.name == "random" else "offsets"
        return cls(name, phi, target, evidence, kinds.ends, weights)

    def restored(self, n_classes: int) -> Mechanism:
        """Return the mechanism."""
        kinds = Kinds(self.ends, n_classes)
        if len(self.target):
            return Free(kinds, self.target, self.mechanism)
        return Random(kinds) if self.mechanism == "random" else Offsets(kinds, 1.0)

    def fits(self, n_classes: int) -> bool:
        """Tell whether the numbers are those of a mechanism."""
        mechanism = self.restored(n_classes)
        n_cells = int((mechanism.kinds.steps + 1).sum())
        if isinstance(mechanism, Free):
            return len(self.target) == n_cells and len(self.phi) in (0, len(mechanism.learned))
        return len(self.phi) == (4 if isinstance(mechanism, Offsets) else 0)

    def relative_chances(self, intervals: Array, n_classes: int) -> Array:
        """Return P(label | class) of each label and class, up to a factor of each label."""
        kinds, kind = Kinds.of(intervals, n_classes)
        return relative_chances(self.restored(n_classes), self.phi, kinds)[kind]

    def coarsening(self, n_classes: int) -> Coarsening:
        """Return what a model says of it, of all labels that it may make."""
        mechanism, weights = self.restored(n_classes), self.by_kind
        kinds = mechanism.kinds
        if isinstance(mechanism, Offsets):
            low = np.arange(n_classes)
            steps = range(0 if kinds.exact.any() else 1, MOST_STEPS + 1)
            made = [np.column_stack([low, low + n])[: n_classes - n] for n in steps]
            kinds, number = Kinds.of(np.vstack([self.ends, *made]), n_classes)
            weights = np.bincount(number[: len(self.ends)], self.by_kind, len(kinds.ends))
        chances = label_chances(mechanism.among(kinds), self.phi, weights)
        shares = shares_of(self.phi) if isinstance(mechanism, Offsets) else np.empty(0)
        name: Name = "free" if isinstance(mechanism, Free) else self.mechanism
        return Coarsening.of(name, shares, self.evidence, label_table(kinds, chances))
