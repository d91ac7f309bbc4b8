"""How classes become labels, as a fit chose it: what models keep of it, and what they say of it."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import OFFSETS, Coarsening, Kinds, Name
from pril.likelihood.mechanisms import (
    Free,
    Mechanism,
    Offsets,
    Random,
    label_chances,
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
    def of(cls, mechanism: Mechanism, phi: Array, evidence: float | None, weights: Array) -> Self:
        """Return what is kept of a mechanism."""
        target = mechanism.target if isinstance(mechanism, Free) else np.empty(0)
        name: Name = "random" if mechanism.name == "random" else "offsets"
        return cls(name, phi, target, evidence, mechanism.kinds.ends, weights)

    def restored(self, n_classes: int) -> Mechanism:
        """Return the mechanism."""
        kinds = Kinds(self.ends, n_classes)
        if len(self.target):
            return Free(kinds, self.target, self.mechanism)
        return Random(kinds) if self.mechanism == "random" else Offsets(kinds, 1.0)

    @property
    def _stops(self) -> Array:
        """Where the classes of each kind of label end, one kind after the other."""
        return np.cumsum(self.ends[:, 1] - self.ends[:, 0] + 1)

    def fits(self, n_classes: int) -> bool:
        """Tell whether the numbers are those of a mechanism."""
        mechanism, n_cells = self.restored(n_classes), int(self._stops[-1])
        if isinstance(mechanism, Free):
            return len(self.target) == n_cells and len(self.phi) in (0, len(mechanism.learned))
        return len(self.phi) == (4 if isinstance(mechanism, Offsets) else 0)

    def relative_chances(self, intervals: Array, n_classes: int) -> Array:
        """Return P(label | class) of each label and class, up to a factor of each label."""
        kinds, kind = Kinds.of(np.maximum(intervals, 0), n_classes)
        return relative_chances(self.restored(n_classes), self.phi, kinds)[kind]

    def coarsening(self, n_classes: int) -> Coarsening:
        """Return what a model says of it."""
        mechanism = self.restored(n_classes)
        chances = label_chances(mechanism, self.phi, self.by_kind)
        cells = [own.tolist() for own in np.split(chances, self._stops[:-1])]
        table = zip(map(tuple, self.ends.tolist()), map(tuple, cells), strict=True)
        is_shared = isinstance(mechanism, Offsets)
        shares = shares_of(self.phi) if is_shared else np.full(len(OFFSETS), 1.0 / len(OFFSETS))
        return Coarsening.of(self.mechanism, shares, self.evidence, dict(table))
