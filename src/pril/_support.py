"""Support rows of the kernel learner, and arrays on any device."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from pril import _loop as loop
from pril._sklearn import convert_to_numpy, get_namespace, safe_indexing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Support(NamedTuple):
    """What the learner keeps: rows, where they live, with their coefficients; thresholds."""

    rows: Any  # the support rows, or their positions where the kernel is precomputed
    coef: Any  # (m,), on the rows' device
    sums: Any  # (m,), each coefficient's moves times the rounds before them
    source: Array  # (m,), the round, or the row of `fit`, that each came from
    origin: int  # what the sources of the next rows count from
    place: Array | None  # in `fit`: each row's position in `source`, -1 if it has none
    state: loop.State  # thresholds and counters; its u belongs to a block
    mean: loop.Mean | None

    def copy(self) -> Support:
        """Return a copy for rows not seen before; arrays of rows are replaced, never changed."""
        *arrays, lattice = self.state
        state = loop.State._make([*(part.copy() for part in arrays), lattice])
        mean = self.mean and loop.Mean(*(part.copy() for part in self.mean))
        return self._replace(state=state, mean=mean, origin=int(state.counts[0]), place=None)

    def compact(self) -> Support:
        """Return the support without the rows that have lost their coefficient."""
        used = to_numpy(self.coef) != 0.0
        if self.mean is not None:
            used |= to_numpy(self.sums) != 0.0
        return self.keep(np.flatnonzero(used))._replace(place=None)

    def extend(self, rows: Any, coef: Array, sums: Array, source: Array) -> Support:
        """Return the support with more rows."""
        return self._replace(
            rows=joined(self.rows, rows),
            coef=joined(self.coef, like(coef, self.coef)),
            sums=joined(self.sums, like(sums, self.coef)),
            source=np.concatenate([self.source, source]),
        )

    def keep(self, chosen: Array) -> Support:
        """Return the support with the chosen rows only."""
        parts = (safe_indexing(part, chosen) for part in self[:4])
        return self._replace(**dict(zip(self._fields[:4], parts, strict=True)))


def on_host(array: Any) -> bool:
    return isinstance(array, np.ndarray) or issparse(array)


_NAMESPACES: dict[type, Any] = {}


def namespace(array: Any) -> Any:
    """Return an array's namespace; scikit-learn's look-up takes as long as a small product."""
    if on_host(array):
        return np
    if type(array) not in _NAMESPACES:
        _NAMESPACES[type(array)] = get_namespace(array)[0]
    return _NAMESPACES[type(array)]


def to_numpy(array: Any) -> Array:
    """Return an array of any namespace and device as NumPy."""
    host: Array = array if on_host(array) else convert_to_numpy(array, namespace(array))
    return host


def batches(n: int, size: int) -> Iterator[slice]:
    """Cut n rows into batches; scikit-learn's own function wants at least one row."""
    return (slice(start, min(start + size, n)) for start in range(0, n, size))


def joined(one: Any, other: Any) -> Any:
    """Return the rows of both, one after the other."""
    if issparse(one) or issparse(other):
        return vstack([csr_array(one), csr_array(other)], format="csr")
    return namespace(one).concat([one, other])


def scattered(values: Array, places: Array, array: Any) -> Any:
    """Return zeros like an array, with values in some places."""
    spread = np.zeros(array.shape[0])
    spread[places] = values
    return like(spread, array)


def like(values: Array, array: Any) -> Any:
    """Return NumPy values in the namespace and on the device of an array."""
    return namespace(array).asarray(values, device=array.device)
