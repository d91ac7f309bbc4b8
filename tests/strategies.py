"""Hypothesis strategies: streams of rows with interval labels."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst


class Stream(NamedTuple):
    """Rows, labels 1..K as (n, 2) intervals, and K."""

    X: np.ndarray
    y: np.ndarray
    K: int

    @property
    def classes(self):
        return np.arange(1, self.K + 1)


@st.composite
def intervals(draw, n, K):
    ends = draw(npst.arrays(np.int64, (n, 2), elements=st.integers(1, K)))
    return np.sort(ends, axis=1)


@st.composite
def exact_streams(draw, max_rows=25, exact_labels=False, max_classes=6):
    """Features are multiples of 1/64: every sum is exact, whatever its order."""
    n, d = draw(st.integers(1, max_rows)), draw(st.integers(1, 5))
    K = draw(st.integers(2, max_classes))
    grid = draw(npst.arrays(np.int64, (n, d), elements=st.integers(-128, 128)))
    y = draw(intervals(n, K))
    return Stream(grid / 64.0, y[:, [0, 0]] if exact_labels else y, K)


@st.composite
def smooth_streams(draw, max_rows=25, bound=1.0, exact_labels=False):
    """Features without pattern, so that no tie arises but from a zero start."""
    n, d, K = draw(st.integers(1, max_rows)), draw(st.integers(1, 5)), draw(st.integers(2, 6))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    y = draw(intervals(n, K))
    return Stream(rng.uniform(-bound, bound, (n, d)), y[:, [0, 0]] if exact_labels else y, K)


@st.composite
def cuts(draw, n):
    """Ways to cut n rows into consecutive chunks, some of them empty."""
    points = sorted(draw(st.lists(st.integers(0, n), max_size=4)))
    return list(zip([0, *points], [*points, n], strict=True))
