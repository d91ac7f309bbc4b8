"""What engines have in common: the doors between the rooms, as mypy checks them."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from sklearn.base import BaseEstimator

from pril.core.arrays import Array, FeaturesLike
from pril.core.rating import Ratings


class Learned(Protocol):
    """What an engine has learned, a *memory*."""

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, for files and copies."""


MemoryType = TypeVar("MemoryType", bound=Learned)
RowsType = TypeVar("RowsType", bound=tuple[Any, ...])


class Engine(Protocol[MemoryType, RowsType]):
    """How a learner rates rows, by its parameters and by what it has learned."""

    def read(
        self, owner: BaseEstimator, X: FeaturesLike, *, reset: bool, min_rows: int
    ) -> RowsType:
        """Return the rows of X; the owner knows the features, or learns of them if `reset`."""

    def n_scores(self, n_classes: int) -> int:
        """Return the number of scores of a row."""

    def restore(self, n_features: int, n_classes: int, plain: dict[str, Any]) -> MemoryType:
        """Return the memory that `to_plain` gave, if it is right."""

    def parameters(self, memory: MemoryType) -> tuple[Array | None, Array, float]:
        """Return weights, thresholds between sentinels, and the number that divides them."""

    def rate(self, memory: MemoryType, rows: RowsType) -> Ratings:
        """Return ranks and scores of rows."""
