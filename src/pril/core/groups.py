"""Groups of rows, such as the visits of a patient or the members of a household."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from pril.core import ranking
from pril.core.arrays import Array
from pril.errors import InputError, RowError


class Groups(NamedTuple):
    """Which group each row belongs to."""

    names: Array  # (n_groups,), sorted
    code: Array  # (n,), the position of each row's group


def read_groups(groups: Any, n: int, *, name: str = "groups") -> Groups:
    """Read one group for each of n rows; refuse rows without one."""
    table = ranking.read(groups, name=name, columns=(1,))
    values = table.values[:, 0]
    if len(values) != n:
        raise InputError(f"{name} has {len(values)} values, expected one for each of {n} rows")
    missing = table.missing()[:, 0]
    if missing.any():
        raise RowError(name, int(np.argmax(missing)), "the group is missing")
    known, code = np.unique(values, return_inverse=True)
    if table.vocabulary is None:
        return Groups(known.astype(table.dtype), code)
    order = np.argsort(table.vocabulary[known])  # words are kept as they were met
    return Groups(table.vocabulary[known[order]], np.argsort(order)[code])
