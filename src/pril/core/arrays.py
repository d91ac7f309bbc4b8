"""The type of arrays, and what all that read labels share."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ranks = NDArray[np.int64]  # positions of classes among all, lowest first
NO_LABEL = (0, -1)  # the interval of ranks of a row without a label


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value, which prints without its type."""
    return value.item() if isinstance(value, np.generic) else value


def named(values: Iterable[Any] | None, most: int = 12) -> str:
    """Return values as a list to print, cut short in the middle."""
    listed = [repr(plain(value)) for value in (() if values is None else values)]
    if len(listed) > most:
        listed[most - 1 : -1] = ["..."]
    return f"[{', '.join(listed)}]"
