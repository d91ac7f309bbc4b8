"""The ordered logit: ``P(y <= i) = sigma(theta_i - f)`` for a score f and thresholds theta."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_expit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


def log_probabilities(scores: Array, cut: Array) -> Array:
    """Return log P(y) for a column of scores and thresholds with sentinels, or a row for each.

    ``sigma(b) - sigma(a)`` is ``sigma(b) sigma(-a) (1 - exp(a - b))``: exact in the tails too.
    """
    below, above = cut[..., :-1], cut[..., 1:]
    low, high = below - scores, above - scores
    with np.errstate(divide="ignore"):  # two equal thresholds leave a class without probability
        width = np.log(-np.expm1(below - above))
    logs: Array = log_expit(high) + log_expit(-low) + width
    return logs
