"""Votes of several raters as intervals of ranks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pril.core import ranking
from pril.core.arrays import Array
from pril.errors import RowError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Ranks = NDArray[np.int64]

MOST_TRIMMED = 0.5  # share of the votes that may be left out at each end


def rank_votes(
    votes: ranking.Labels, classes: Array, *, name: str = "votes", raters: Sequence[str] = ()
) -> Ranks:
    """Return the rank of each vote: the number of classes where there is none.

    A vote that is not one of the classes is refused; `raters` are the names of the columns.
    """
    ranks: Ranks = np.empty(votes.values.shape, dtype=np.int64)
    for rater in range(ranks.shape[1]):
        column = votes._replace(values=votes.values[:, [rater]])
        found = ranking.to_intervals(column, classes, name=name, allow_unknown=True)
        ranks[:, rater] = found[:, 0]
    unknown = ranks == ranking.UNKNOWN
    if unknown.any():
        t, rater = divmod(int(np.argmax(unknown)), ranks.shape[1])
        place = f"column {raters[rater]!r}: " if raters else ""
        said = f"{shown(votes.cell(t, rater))} is not one of the classes {ranking.named(classes)}"
        raise RowError(name, t, f"{place}{said}", votes.place(t))
    return np.where(votes.missing(), len(classes), ranks)


def between_votes(ranks: Ranks, n_classes: int, trim: float) -> Ranks:
    """Return the interval of each row, from the lowest to the highest vote that is not left out."""
    # Votes that were cast come first, in order; this many are left out at each end.
    ranks = np.sort(ranks, axis=1)
    n_votes = np.sum(ranks < n_classes, axis=1)
    skipped = np.floor(trim * np.maximum(n_votes - 1, 0)).astype(np.int64)
    rows = np.arange(len(ranks))
    lower = ranks[rows, skipped]
    upper = ranks[rows, np.maximum(n_votes - 1 - skipped, 0)]
    intervals = np.column_stack([lower, upper])
    intervals[n_votes == 0] = ranking.NO_LABEL
    return intervals
