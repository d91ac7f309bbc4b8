"""Predictions compared with labels, row by row and added up."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.weights import read_weights
from pril.errors import InputError


class Outcomes(NamedTuple):
    """Labels of rows, and the predictions of a model for them."""

    intervals: Array  # (n, 2), lowest and highest rank of each label
    rank: Array  # (n,), predicted
    score: Array  # (n,), of the predicted class, if each class has a score

    def take(self, rows: Array) -> Outcomes:
        """Return some of the rows."""
        return Outcomes(*(part[rows] for part in self))

    @property
    def is_labelled(self) -> Array:
        """Which rows have a label."""
        return ranking.is_labelled(self.intervals)

    @property
    def loss(self) -> Array:
        """How many ranks each prediction is outside of its interval."""
        return ranking.interval_loss(self.intervals, self.rank)


def pick_scores(rank: Array, scores: Array) -> Array:
    """Return one score for each row: the only one, or that of the predicted class."""
    return scores[:, 0] if scores.shape[1] == 1 else scores[np.arange(len(rank)), rank]


class Constant(NamedTuple):
    """How good it is to predict one rank for every row."""

    rank: int
    accuracy: float
    error: float  # mean ranks off


@dataclass(frozen=True)
class Evaluation:
    """How good predictions are: sums over rows that have a label."""

    rows: int = 0
    hits: int = 0
    loss: int = 0
    exact_rows: int = 0
    exact_loss: int = 0
    unlabelled: int = 0
    lowest: tuple[int, ...] = ()  # for each rank, in how many rows the interval begins there
    highest: tuple[int, ...] = ()  # and in how many it ends there

    @classmethod
    def of(cls, intervals: Array, rank: Array) -> Evaluation:
        """Compare predicted ranks with intervals; rows without a label are only counted."""
        labelled = ranking.is_labelled(intervals)
        intervals, rank = intervals[labelled], rank[labelled]
        loss = ranking.interval_loss(intervals, rank)
        exact = intervals[:, 0] == intervals[:, 1]
        return cls(
            rows=len(rank),
            hits=int((loss == 0).sum()),
            loss=int(loss.sum()),
            exact_rows=int(exact.sum()),
            exact_loss=int(loss[exact].sum()),
            unlabelled=int((~labelled).sum()),
            lowest=tuple(np.bincount(intervals[:, 0]).tolist()),
            highest=tuple(np.bincount(intervals[:, 1]).tolist()),
        )

    def __add__(self, other: Evaluation) -> Evaluation:
        sums: dict[str, Any] = {
            name: _added(value, getattr(other, name)) for name, value in vars(self).items()
        }
        return Evaluation(**sums)

    def best_constants(self) -> tuple[Constant, Constant]:
        """Return the rank that is inside most often, and the one with the least loss."""
        size = len(self.highest)
        ends = np.array(self.highest)
        begun = np.cumsum([*self.lowest, *[0] * (size - len(self.lowest))])  # at or below a rank
        ended = np.cumsum(ends) - ends  # below a rank
        hits = begun - ended
        above = np.cumsum((self.rows - begun)[::-1])[::-1]  # the labels above a rank, how far
        loss = np.cumsum(ended) + above
        shares = [(column / self.rows).tolist() for column in (hits, loss)]
        best = int(np.argmax(hits)), int(np.argmin(loss))
        first, second = (Constant(rank, *(share[rank] for share in shares)) for rank in best)
        return first, second

    def to_dict(self, classes: Any = ()) -> dict[str, Any]:
        """Return the means, None where there is nothing to average.

        With the classes, the result names the class that is most often inside the range, and the
        class that is off by the fewest ranks: a model that is no better than these constants has
        learned nothing.
        """
        best = self.best_constants() if self.rows and len(classes) else None
        return {
            "constant": best and ranking.plain(classes[best[0].rank]),
            "constant_accuracy": best and best[0].accuracy,
            "nearest_constant": best and ranking.plain(classes[best[1].rank]),
            "nearest_constant_error": best and best[1].error,
            "rows": self.rows,
            "unlabelled_rows": self.unlabelled,
            "interval_accuracy": self.hits / self.rows if self.rows else None,
            "interval_absolute_error": self.loss / self.rows if self.rows else None,
            "exact_rows": self.exact_rows,
            "exact_absolute_error": self.exact_loss / self.exact_rows if self.exact_rows else None,
        }


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))
    return one + other


def mean_over_rows(
    values: NDArray[Any],
    labelled: NDArray[np.bool_],
    sample_weight: ArrayLike | None,
    *,
    name: str = "y_true",
    kind: str = "a label",
) -> float:
    """Return the weighted mean of one value a row, over the rows that have a label."""
    if not labelled.any():
        raise InputError(f"{name} has no row with {kind}, and a mean needs at least one")
    if sample_weight is None:
        return float(values[labelled].mean())
    weights = read_weights(sample_weight, len(values))
    if not weights[labelled].any():
        raise InputError(f"sample_weight is zero for every row of {name} with {kind}")
    return float(np.average(values[labelled].astype(np.float64), weights=weights[labelled]))
