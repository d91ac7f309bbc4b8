"""Groups of rows, such as the visits of a patient, and samples drawn with replacement."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri
from sklearn.utils import check_random_state

from pril.core.arrays import Array, LabelsLike, Seed
from pril.errors import InputError, RowError
from pril.labels import ranking

# Standard errors between an estimate and the median of its samples. A larger distance is due to few
# samples, not to bias.
MOST_BIAS = 0.5


class Groups(NamedTuple):
    """Which group each row belongs to."""

    names: Array  # (n_groups,), sorted
    code: Array  # (n,), the position of each row's group


def read_groups(groups: LabelsLike, n: int, *, name: str = "groups") -> Groups:
    """Read one group for each of n rows; refuse rows without one."""
    table = ranking.read(groups, name=name, columns=(1,))
    values = table.values[:, 0]
    if len(values) != n:
        raise InputError(f"{name} has {len(values)} values, expected one for each of {n} rows")
    missing = table.missing()[:, 0]
    if missing.any():
        raise RowError(name, int(np.argmax(missing)), "the group is missing")
    names, code = np.unique(values, return_inverse=True)
    if table.vocabulary is None:
        return Groups(names.astype(table.dtype), code)
    order = np.argsort(table.vocabulary[names])  # words are kept as they were met
    return Groups(table.vocabulary[names[order]], np.argsort(order)[code])


def check_level(level: object) -> float:
    """Return a confidence level, which must be between 0 and 1."""
    if not isinstance(level, Real) or not 0.0 < float(level) < 1.0:
        raise InputError(f"level must be above 0 and below 1, got {level!r}")
    return float(level)


class Bootstrap:
    """Draws samples of rows, or of whole groups of rows, and finds confidence intervals.

    Parameters
    ----------
    used : ndarray of bool of shape (n_rows,)
        The rows to draw from.
    groups : array-like of shape (n_rows,) or None
        The group of each row. None: each row is a group.
    n_resamples : int
        Number of samples.
    level : float
        Confidence level.
    random_state : int, RandomState instance or None
        Seed.
    """

    def __init__(
        self,
        used: Array,
        groups: LabelsLike | None,
        n_resamples: object,
        level: object,
        random_state: Seed,
    ) -> None:
        if not isinstance(n_resamples, Integral) or n_resamples < 2:
            raise InputError(f"n_resamples must be an integer of at least 2, got {n_resamples!r}")
        self.level = check_level(level)
        self.n_resamples = int(n_resamples)
        self.rows: Array = np.flatnonzero(used)
        if len(self.rows) == 0:
            raise InputError("there is no row with a label to draw from")
        self.members: list[Array] | None = None
        if groups is not None:
            code = read_groups(groups, len(used)).code[self.rows]
            order = np.argsort(code, kind="stable")
            starts = np.flatnonzero(np.diff(code[order])) + 1
            self.members = np.split(self.rows[order], starts)
            if len(self.members) < 2:
                raise InputError(
                    f"groups must name at least 2 groups of rows to draw from, got "
                    f"{len(self.members)}"
                )
        self._rng = check_random_state(random_state)

    @property
    def n_groups(self) -> int | None:
        """How many groups there are, None if rows are drawn one by one."""
        return None if self.members is None else len(self.members)

    def samples(self) -> Iterator[Array]:
        """Return the rows of each sample."""
        for _ in range(self.n_resamples):
            if self.members is None:
                yield self._rng.choice(self.rows, size=len(self.rows))
            else:
                drawn = self._rng.choice(len(self.members), size=len(self.members))
                yield np.concatenate([self.members[k] for k in drawn])

    def interval(self, values: Array, estimate: ArrayLike) -> Array:
        """Return the lower and the upper end of the interval of each column, given its estimate.

        They are percentiles, corrected for bias (Efron, 1981): if the median of the samples is
        above the estimate, as it is for weights that few rows give, both ends move down. NaN are
        left out; a column of NaN has no interval.
        """
        tail = float(ndtri((1.0 + self.level) / 2.0))
        columns, estimates = values.reshape(len(values), -1).T, np.ravel(estimate)
        ends = np.full((2, len(columns)), np.nan)
        for j, (column, middle) in enumerate(zip(columns, estimates, strict=True)):
            if len(drawn := column[~np.isnan(column)]):
                below = np.mean(drawn < middle) + 0.5 * np.mean(drawn == middle)
                shift = 2.0 * np.clip(ndtri(below), -MOST_BIAS, MOST_BIAS)
                # The n + 1 gaps around n samples are equally likely: few are not too narrow.
                shares = ndtr(shift + np.array([-tail, tail]))
                ends[:, j] = np.quantile(drawn, shares, method="weibull")
        return ends.reshape(2, *values.shape[1:])
