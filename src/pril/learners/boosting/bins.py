"""Features as LightGBM gets them: small integers, the number of a value's bin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core.rows import frozen
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import SET

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    Array = NDArray[Any]

MOST_BINS = 126  # of a feature; as good as 254, and a third faster where rows are few


class Bins(NamedTuple):
    """Where the bins of the features end.

    A value is in the first bin whose end is not below it. A missing value, and a category, which is
    a small integer already, stay as they are. So a tree's split of bins is, exactly, one of values;
    values of any size can be told apart; and rows that come in blocks have the same bins.
    """

    edges: Array  # (features, 127), ascending; infinite from the last bin of a feature on
    is_number: Array  # (features,), whether a feature has bins

    @classmethod
    def of(cls, X: Array, categories: list[int]) -> Self:
        """Find bins with about equally many rows of a sample."""
        edges = np.full((X.shape[1], compiled.MOST_EDGES), np.inf)
        is_number = np.ones(X.shape[1], dtype=bool)
        is_number[categories] = False
        for k in np.flatnonzero(is_number):
            values, counts = np.unique(X[:, k], return_counts=True)
            values = values[~np.isnan(values)].astype(np.float64)
            ends = compiled.last_of_bins(counts[: len(values)], MOST_BINS)
            low, high = values[ends], values[ends + 1]
            middle = low + (high - low) / 2.0
            edges[k, : len(ends)] = np.where(middle < high, middle, low)
        return cls(edges, is_number)

    def codes(self, X: Array) -> Array:
        """Return the bins of the values of some rows."""
        codes = np.empty(X.shape, dtype=np.float32)
        compiled.write_codes(frozen(X), self.edges, self.is_number, codes)
        return codes

    def unbinned(self, forest: dict[str, Array]) -> dict[str, Array]:
        """Return a forest that splits bins as one that splits values."""
        feature, value, is_set = forest["feature"], forest["value"], forest["kind"] == SET
        last = np.clip(value, 0, self.edges.shape[1] - 1).astype(np.int64)
        ends = np.nan_to_num(self.edges[feature, np.where(is_set, 0, last)])
        return forest | {"value": np.where(is_set, value, ends)}
