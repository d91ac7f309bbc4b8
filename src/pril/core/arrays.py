"""The types of arrays and of what users pass, and what all that read labels share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from scipy.sparse import sparray, spmatrix

Array = NDArray[Any]
FeaturesLike: TypeAlias = "ArrayLike | sparray | spmatrix"  # X, which may be a DataFrame
LabelsLike: TypeAlias = "ArrayLike | Sequence[object]"  # y: labels, or pairs with missing ends
Seed: TypeAlias = int | np.random.RandomState | None
Ranks = NDArray[np.int64]  # positions of classes among all, lowest first
NO_LABEL = (0, -1)  # the interval of ranks of a row without a label
MOST_NAMED = 12  # classes, or other values, in a message


def plain(value: object) -> Any:
    """Return a NumPy scalar as the Python value, which prints without its type."""
    return value.item() if isinstance(value, np.generic) else value


def named(values: Iterable[object] | None) -> str:
    """Return values as a list to print, cut short in the middle."""
    listed = [repr(plain(value)) for value in (() if values is None else values)]
    if len(listed) > MOST_NAMED:
        listed[MOST_NAMED - 1 : -1] = ["..."]
    return f"[{', '.join(listed)}]"


def frozen(array: Array) -> Array:
    """Return a read-only view, the only kind of array that compiled functions are given."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view
