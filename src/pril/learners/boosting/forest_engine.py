"""How boosted trees rate rows: a small value that knows nothing of estimators."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core.linear_engine import Ratings
from pril.core.logistic import log_probabilities
from pril.core.loop import Csr, Dense
from pril.core.rows import check_cells, frozen, read_rows
from pril.core.scikit import validate_data
from pril.errors import InputTypeError, RowError
from pril.learners.boosting import compiled
from pril.learners.boosting.categories import encoded
from pril.learners.boosting.contributions import contributions
from pril.learners.boosting.scaling import LARGEST

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class BoostedTrees(NamedTuple):
    """What boosting has learned: a score, thresholds that cut it into classes, and coarsening."""

    thresholds: Array
    ends: Array  # (kinds, 2), the lowest and the highest rank of each kind of range
    chances: Array  # (kinds, K), P(range | class); 1 for exact labels
    coarsening: dict[str, Any]  # what `Coarsening.of` takes but for the table
    forest: compiled.Forest
    background: Array  # (rows, features), rows of the training set, to which others are compared

    @classmethod
    def of(cls, plain: dict[str, Any]) -> BoostedTrees:
        """Return what `to_plain` gave."""
        return cls(**{**plain, "forest": compiled.Forest(**plain["forest"])})

    def to_plain(self) -> dict[str, Any]:
        """Return what was learned as plain data, for files and copies."""
        return {**self._asdict(), "forest": self.forest._asdict()}


class ForestEngine(NamedTuple):
    """How boosted trees rate rows. What was learned is `BoostedTrees`."""

    name: str  # of the learner, for errors
    categories: dict[str, list[Any]]  # of each feature that has some, by its number as text
    mode: bool  # predict the most probable class, not the median

    def read(self, owner: Any, X: Any, *, reset: bool, min_rows: int) -> Dense:
        """Return the rows of X, the categories as their codes, missing values as NaN.

        The owner knows the features, or learns of them if `reset`.
        """
        if isinstance(X, np.ma.MaskedArray):
            X = np.ma.filled(X.astype(np.float64), np.nan)
        if self.categories:
            check_cells(X)
            validate_data(owner, X, reset=reset, skip_check_array=True)
            features = encoded(X, self.categories)
        else:
            rows = read_rows(owner, X, constant=0.0, reset=reset, min_rows=min_rows)
            if isinstance(rows, Csr):
                raise InputTypeError(
                    f"Sparse data was passed for X, but {self.name} takes dense data: use "
                    "X.toarray(), or OrderedLogit"
                )
            features = rows.X
        highest = np.fmax.reduce(features, axis=None, initial=0.0)  # which ignores NaN
        lowest = np.fmin.reduce(features, axis=None, initial=0.0)
        if max(float(highest), -float(lowest)) > LARGEST:
            raise _too_large(features, getattr(owner, "feature_names_in_", None))
        return Dense(frozen(features), 0.0)

    def n_scores(self, n_classes: int) -> int:
        """Return the number of scores of a row."""
        return 1

    def parameters(self, memory: BoostedTrees) -> tuple[None, Array, float]:
        """Return no weights, the thresholds between sentinels, and 1."""
        return None, np.concatenate([[-np.inf], memory.thresholds, [np.inf]]), 1.0

    def rate(self, memory: BoostedTrees, rows: Dense) -> Ratings:
        """Return ranks and scores of rows."""
        _, cut, _ = self.parameters(memory)
        scores = np.empty((len(rows.X), 1))
        compiled.scores_of(rows.X, memory.forest, scores[:, 0])
        if self.mode:
            rank = log_probabilities(scores, cut).argmax(axis=1)
        else:
            rank = np.searchsorted(cut[1:-1], scores[:, 0], side="right")
        return Ratings(rank, scores, cut)

    def contributions(self, memory: BoostedTrees, rows: Dense) -> Array:
        """Return what each feature adds to the score of each row, and the base, last."""
        return contributions(rows.X, memory.forest, memory.background)


def _too_large(features: Array, names: Array | None) -> RowError:
    """Return the error for the first number that is too large."""
    row, k = np.argwhere(np.abs(features.astype(np.float64)) > LARGEST)[0]
    name, value = k if names is None else repr(names[k]), features[row, k]
    reason = "Input X contains infinity" if np.isinf(value) else f"the limit is {LARGEST:.0e}"
    advice = "replace it, or use NaN for a missing value"
    return RowError("X", int(row), f"feature {name} is {value}; {reason}: {advice}")
