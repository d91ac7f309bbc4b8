"""Learning in place: what a few sparse rows may change in a wide model, and how to undo it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pril import _loop as loop

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

WIDE = 1 << 16  # features: of fewer, all can be copied in the time that it takes to choose some


class Journal:
    """What some rows may change in a memory, to put it back if they cannot be learned.

    Parameters
    ----------
    memory : Memory
        It is learned on in place.
    columns : ndarray of int
        The features that are not zero in all of the rows, and the constant one.
    """

    def __init__(self, memory: Any, columns: Array) -> None:
        state, mean = memory
        self.columns = columns
        self._wide = [state.u] if mean is None else [state.u, mean.u]
        self._short = [state.n, state.shift, state.counts, state.clock, *(state.evidence or ())]
        self._short += [] if mean is None else [mean.n]
        self._kept = (
            [part[:, columns] for part in self._wide],
            [part.copy() for part in self._short],
        )

    def undo(self) -> None:
        """Put back what has changed."""
        wide, short = self._kept
        for part, kept in zip(self._wide, wide, strict=True):
            part[:, self.columns] = kept
        for part, kept in zip(self._short, short, strict=True):
            part[:] = kept


def few_columns(rows: Any, width: int) -> Array | None:
    """Return which of many features sparse rows touch, and the last one; None if not few."""
    if width < WIDE or not isinstance(rows, loop.Csr) or 16 * len(rows.data) > width:
        return None
    return np.append(np.unique(rows.indices), width - 1)
