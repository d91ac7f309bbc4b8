"""What held-out scores teach: thresholds, and how likely each class is given each range."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import NDArray

    from pril.core.coarsening import Mechanism

    Array = NDArray[Any]

LARGEST_STEP = 0.5  # of a threshold in an EM step
RIDGE = 1e-3  # of the information of the thresholds


class Sums(NamedTuple):
    """What an EM step needs to know of some rows; sums of different rows add up."""

    counts: Array  # (kinds, K), the weight of the rows of each kind that are of each class
    slope: Array  # (K - 1,), the gradient of the thresholds
    information: Array  # (K - 1, K - 1), the upper half of their expected information

    @classmethod
    def blank(cls, n_kinds: int, n_classes: int) -> Self:
        """Return the sums of no rows."""
        inner = n_classes - 1
        return cls(np.zeros((n_kinds, n_classes)), np.zeros(inner), np.zeros((inner, inner)))

    @classmethod
    def total(cls, parts: Iterable[Self]) -> Self:
        """Add up parts, in their order."""
        return cls(*(sum(arrays[1:], arrays[0]) for arrays in zip(*parts, strict=True)))


class Knowledge(NamedTuple):
    """What was learned from held-out scores so far."""

    theta: Array  # (K - 1,)
    chance: Array  # (kinds, K), how often a row of a class is given a range
    mechanism: Mechanism

    def improved(self, sums: Sums, doubt: Array) -> Knowledge:
        """Take one EM step; `doubt` is as in `Mechanism.chance`."""
        counts, slope, upper = sums
        mechanism = self.mechanism.learn(counts)
        information = upper + np.triu(upper, 1).T + RIDGE * np.eye(len(slope))
        step = np.clip(np.linalg.solve(information, slope), -LARGEST_STEP, LARGEST_STEP)
        theta = np.maximum.accumulate(self.theta + step)
        return Knowledge(theta, mechanism.chance(counts, doubt), mechanism)


def relative(chance: Array) -> Array:
    """Return chances, divided by the largest of each range."""
    q: Array = chance / chance.max(axis=1, keepdims=True)
    return q
