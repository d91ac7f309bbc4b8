"""What the memory of a stream says of ranges: `online.coarsening_by_row` learns it, row by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import MOST_STEPS, Coarsening, Kinds, Name
from pril.core.loop_types import (
    AT_RANDOM,
    BY_OFFSETS,
    BY_TABLE,
    MIN_PROBABILITY,
    RANDOM,
    mechanism_of,
    place_of,
)
from pril.likelihood.fitting import Fit
from pril.likelihood.mechanisms import (
    Cells,
    Free,
    Mechanism,
    Offsets,
    Random,
    label_chances,
    label_table,
    shares_of,
)
from pril.likelihood.rows import Rows

# Files may hold any numbers; rows of a kind and logits reach no further than these.
MOST_ROWS, FARTHEST = 1e9, 50.0


@dataclass(frozen=True, eq=False)
class ByRow:
    """The parts of a memory that `loop_types.OWN_PARTS` lists, as NumPy reads and writes them."""

    asked: int  # AUTO, RANDOM or ALWAYS
    n_classes: int
    parts: dict[str, Array]

    @property
    def unit(self) -> float:
        """The mean weight of a row."""
        weight, rows = float(self.parts["labels"][0]), float(self.parts["seen"][0])
        unit = weight / rows if rows > 0.0 else 1.0
        return unit if unit > 0.0 else 1.0  # files may hold any numbers

    @property
    def evidence(self) -> float:
        """The log-likelihood of offsets less that of "at random", in rows of mean weight."""
        return float(self.parts["advantage"][0]) / self.unit

    @property
    def phi(self) -> Array:
        """Logits of the shares of offsets."""
        return np.clip(self.parts["phi"], -FARTHEST, FARTHEST)

    @property
    def mechanism(self) -> int:
        """What explains ranges, as `chosen` writes it."""
        chosen, labels = float(self.parts["chosen"][0]), self.parts["labels"]
        return mechanism_of(self.asked, chosen, labels, self.evidence)

    def label_chances(self, kinds: Kinds) -> Array:
        """Return the chance that a row of each class has a label, but for a factor of each."""
        chances, narrow = kinds.inside.copy(), Offsets(kinds, 1.0)
        if self.mechanism == AT_RANDOM:
            return chances
        is_table = self.mechanism == BY_TABLE
        M = self._table(narrow.cells) if is_table else narrow.table(self.phi).M
        chances[narrow.cells.kind, narrow.cells.rank] = M
        return chances

    def _table(self, cells: Cells) -> Array:
        """Return what `fit` found of cells of up to three classes."""
        return np.maximum(self.parts["table"][self._cell_places(cells)], MIN_PROBABILITY)

    def _places(self, kinds: Kinds) -> Array:
        """Return where labels of up to three classes are in `kinds`."""
        low, high = kinds.ends.T
        return place_of(low, high, self.n_classes)

    def _cell_places(self, cells: Cells) -> Array:
        """Return where cells of these labels are in the table: three for each label."""
        kinds = cells.kinds
        return (3 * self._places(kinds) - kinds.ends[:, 0])[cells.kind] + cells.rank

    def coarsening(self, found: dict[str, Any]) -> Coarsening:
        """Return what to say about it, given what `fit` found, if anything.

        The table has labels of up to three classes. What lacks to 1 is the share of wider ranges.
        """
        K, mechanism = self.n_classes, self.mechanism
        with np.errstate(over="ignore"):
            weights = np.minimum(self.parts["kinds"] / self.unit, MOST_ROWS)
        occurs = weights > weights.max() / MOST_ROWS
        short = [(low, low + steps) for steps in range(MOST_STEPS + 1) for low in range(K - steps)]
        kinds, weights = Kinds(np.array(short)[occurs], K), weights[occurs]
        name: Name = "random"
        phi, model = np.empty(0), cast(Mechanism, Random(kinds))
        if mechanism == BY_OFFSETS:
            name, model, phi = "offsets", Offsets(kinds, 1.0), self.phi
        elif mechanism == BY_TABLE:
            every = Cells(kinds, np.ones(len(weights), dtype=bool))
            name, model = "free", Free(kinds, self._table(every), name, learns=False)
        table = {}
        if len(weights):
            whole, _, wide, *_ = self.parts["labels"]
            chances = label_chances(model, phi, weights)
            chances *= 1.0 - wide / max(whole, wide, MIN_PROBABILITY)
            table = label_table(kinds, chances)
        evidence = None if self.asked == RANDOM else self.evidence
        return Coarsening.of(name, shares_of(self.phi), found.get("evidence", evidence), table)

    def hand_over(self, found: Fit, rows: Rows, each: float) -> None:
        """Write what `fit` found; `each` is what a row weighs in the mean.

        The mechanism is not chosen again. A table that was learned stays as it is.
        """
        kinds, weights, mechanism = rows.kinds, rows.weights, found.problem.mechanism
        wide, narrow = kinds.steps > MOST_STEPS, Offsets(kinds, 1.0).narrow
        sums = [weights.sum(), weights[narrow].sum(), weights[wide].sum()]
        self.parts["labels"][:3] = each * np.array(sums)
        self.parts["kinds"][self._places(kinds)[~wide]] = each * weights[~wide]
        self.parts["chosen"][0] = BY_OFFSETS if mechanism.name == "offsets" else AT_RANDOM
        if isinstance(mechanism, Offsets):
            self.parts["phi"][:] = found.phi
            # What the gradients of rows add up to, squared, is near the information.
            information = np.diagonal(found.maximum.sums.information.rest)[-len(found.phi) :]
            mean = float(weights.sum()) / rows.n_rows
            self.parts["turns"][:] = mean * np.maximum(information, 0.0)
        elif isinstance(mechanism, Free):
            self.parts["chosen"][0] = BY_TABLE
            cells = Cells(kinds, np.ones(len(weights), dtype=bool))
            chances = label_chances(mechanism, found.phi, weights)
            short = ~wide[cells.kind]
            self.parts["table"][self._cell_places(cells)[short]] = chances[short]
