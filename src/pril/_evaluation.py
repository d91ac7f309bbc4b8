"""Predictions compared with labels, row by row and added up."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril import _ranks

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Outcomes(NamedTuple):
    """What the labels of rows say, and what a model says of these rows."""

    intervals: Array  # (n, 2), lowest and highest rank of each label
    rank: Array  # (n,), predicted
    score: Array  # (n,), of the predicted class, if each class has a score

    def take(self, rows: Array) -> Outcomes:
        """Return some of the rows."""
        return Outcomes(*(part[rows] for part in self))

    @property
    def is_labelled(self) -> Array:
        """Which rows have a label."""
        return _ranks.is_labelled(self.intervals)

    @property
    def loss(self) -> Array:
        """How many ranks each prediction is outside of its interval."""
        return _ranks.interval_loss(self.intervals, self.rank)


def pick_scores(rank: Array, scores: Array) -> Array:
    """Return one score for each row: the only one, or that of the predicted class."""
    return scores[:, 0] if scores.shape[1] == 1 else scores[np.arange(len(rank)), rank]


@dataclass(frozen=True)
class Evaluation:
    """How good predictions are: sums over rows that have a label."""

    rows: int = 0
    hits: int = 0
    loss: int = 0
    exact_rows: int = 0
    exact_loss: int = 0
    unlabelled: int = 0
    inside: tuple[int, ...] = ()  # for each rank, in how many rows it would be a hit

    @classmethod
    def of(cls, intervals: Array, rank: Array) -> Evaluation:
        """Compare predicted ranks with intervals; rows without a label are only counted."""
        labelled = _ranks.is_labelled(intervals)
        intervals, rank = intervals[labelled], rank[labelled]
        loss = _ranks.interval_loss(intervals, rank)
        exact = intervals[:, 0] == intervals[:, 1]
        return cls(
            rows=len(rank),
            hits=int((loss == 0).sum()),
            loss=int(loss.sum()),
            exact_rows=int(exact.sum()),
            exact_loss=int(loss[exact].sum()),
            unlabelled=int((~labelled).sum()),
            inside=_hits_of_constants(intervals),
        )

    def __add__(self, other: Evaluation) -> Evaluation:
        sums = {name: value + getattr(other, name) for name, value in vars(self).items()}
        inside = zip_longest(self.inside, other.inside, fillvalue=0)
        return Evaluation(**sums | {"inside": tuple(a + b for a, b in inside)})

    def to_dict(self, classes: Any = ()) -> dict[str, Any]:
        """Return the means, None where there is nothing to average.

        With the classes, the result names the class that is most often inside the range: a model
        that is no better than always to predict it has learned nothing.
        """
        best = int(np.argmax(self.inside)) if self.rows and len(classes) else None
        return {
            "constant": None if best is None else _ranks.plain(classes[best]),
            "constant_accuracy": None if best is None else self.inside[best] / self.rows,
            "rows": self.rows,
            "unlabelled_rows": self.unlabelled,
            "interval_accuracy": self.hits / self.rows if self.rows else None,
            "interval_absolute_error": self.loss / self.rows if self.rows else None,
            "exact_rows": self.exact_rows,
            "exact_absolute_error": self.exact_loss / self.exact_rows if self.exact_rows else None,
        }


def _hits_of_constants(intervals: Array) -> tuple[int, ...]:
    """Return for each rank how many intervals it lies in."""
    if len(intervals) == 0:
        return ()
    size = int(intervals.max()) + 2
    begun = np.bincount(intervals[:, 0], minlength=size)
    ended = np.bincount(intervals[:, 1] + 1, minlength=size)
    return tuple(np.cumsum(begun - ended)[:-1].tolist())
