"""The type of arrays."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
Ranks = NDArray[np.int64]  # positions of classes among all, lowest first
