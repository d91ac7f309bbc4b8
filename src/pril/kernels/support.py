"""Support rows of the kernel learner, and arrays on any device."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_array, issparse, vstack

from pril.core.arrays import Array
from pril.core.memory import Layout, Memory
from pril.core.scikit import convert_to_numpy, get_namespace


class Support(NamedTuple):
    """What the kernel learner learned: support rows with their coefficients, and thresholds."""

    rows: Any  # the support rows, or their positions if the kernel is precomputed
    coef: Any  # (m,), on the device of the rows
    sums: Any  # (m,), for the average: each move of a coefficient, times the rounds before it
    source: Array  # (m,), the row of `fit`, or of the stream, that each row came from
    origin: int  # the source of the first row of this call or, between calls, of the next one
    place: Array | None  # in `fit`: position of each row among the support rows, -1 if it has none
    base: Memory  # thresholds and counters, for no features

    @classmethod
    def of(cls, layout: Layout, plain: dict[str, Any]) -> Support:
        """Return the support that `to_plain` gave."""
        base = Memory.of(layout, plain["base"])
        return cls(**{**plain, "base": base}, place=None)

    def to_plain(self) -> dict[str, Any]:
        """Return what was learned as plain data, for files and copies."""
        learned = self._asdict() | {"base": self.base.to_plain()}
        del learned["place"]  # of the rows of one call
        return learned

    def copy(self) -> Support:
        """Return a copy to learn on; the arrays of support rows are never changed."""
        place = None if self.place is None else self.place.copy()
        return self._replace(base=self.base.copy(), place=place)

    @property
    def counts(self) -> Array:
        """Rounds, mistakes and updates, as those of `Memory`."""
        return self.base.counts

    @property
    def averages(self) -> bool:
        """Whether there are sums of a mean."""
        return self.base.averages

    def predicting_coef(self) -> Any:
        """Return the coefficients that predict: those of the mean, if there is one."""
        weight = float(self.base.state.clock[0])
        if not self.averages or weight == 0.0:
            return self.coef
        return self.coef - self.sums / weight

    def places(self, chosen: Array) -> Array:
        """Return the position of rows of this call among the support rows, -1 if they have none."""
        return np.full(len(chosen), -1) if self.place is None else self.place[chosen]

    def with_room(self, n: int, rows: Any) -> Support:
        """Return a support that shares no array, with room to `add` n rows like these."""
        if not issparse(self.rows):
            xp = namespace(self.rows)
            rows = xp.astype(self.rows, xp.result_type(self.rows.dtype, rows.dtype))
        return self._replace(
            rows=self.rows if issparse(self.rows) else roomy(rows, n),
            coef=roomy(self.coef, n),
            sums=roomy(self.sums, n),
        )

    def without_room(self) -> Support:
        """Return the support with arrays of just its rows."""
        n = len(self.source)
        if n == self.coef.shape[0]:
            return self
        rows = self.rows if issparse(self.rows) else roomy(self.rows[:n, ...], 0)
        return self._replace(rows=rows, coef=roomy(self.coef[:n], 0), sums=roomy(self.sums[:n], 0))

    def add(self, rows: Any, coef: Array, sums: Array, source: Array) -> Support:
        """Return the support with more rows, written into its room."""
        start, stop = len(self.source), len(self.source) + len(source)
        if self.place is not None:
            self.place[source] = np.arange(start, stop)
        if issparse(self.rows) or issparse(rows):
            rows = joined(self.rows[:start, ...], rows)
        else:
            self.rows[start:stop, ...] = rows
            rows = self.rows
        self.coef[start:stop] = like(coef, self.coef)
        self.sums[start:stop] = like(sums, self.sums)
        return self._replace(rows=rows, source=np.concatenate([self.source, source]))

    def move(self, places: Array, coef: Array, sums: Array) -> Support:
        """Return the support with these numbers added to the coefficients at some places."""
        if len(places) == 0:
            return self
        return self._replace(
            coef=self.coef + scattered(coef, places, self.coef),
            sums=self.sums + scattered(sums, places, self.sums),
        )

    def keep(self, chosen: Array) -> Support:
        """Return the support with the chosen rows only."""
        rows, coef, sums, source = (taken(part, chosen) for part in self[:4])
        if self.place is not None:
            self.place[self.source] = -1
            self.place[source] = np.arange(len(source))
        return self._replace(rows=rows, coef=coef, sums=sums, source=source)

    def compact(self) -> Support:
        """Return the support without the rows whose coefficients are zero."""
        used = to_numpy(self.coef) != 0.0
        if self.base.averages:
            used |= to_numpy(self.sums) != 0.0
        return self.keep(np.flatnonzero(used))

    def after(self, n: int) -> Support:
        """Return the support at the end of a call with n rows, labelled or not."""
        return self._replace(origin=self.origin + n, place=None)


# --- Arrays on any device ------------------------------------------------------------------------


def on_host(array: Any) -> bool:
    """Tell whether an array is NumPy's, or a sparse matrix."""
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
    return array if on_host(array) else convert_to_numpy(array, namespace(array))


def like(values: Array, array: Any) -> Any:
    """Return NumPy values in the namespace and on the device of an array."""
    return namespace(array).asarray(values, device=array.device)


def taken(array: Any, rows: Array) -> Any:
    """Return the rows of an array at some positions."""
    if on_host(array):
        return array[rows]
    return namespace(array).take(array, like(rows, array), axis=0)


def joined(one: Any, other: Any) -> Any:
    """Return the rows of both, one after the other."""
    if issparse(one) or issparse(other):
        return vstack([csr_array(one), csr_array(other)], format="csr")
    return namespace(one).concat([one, other])


def roomy(array: Any, n: int) -> Any:
    """Return a copy with n more rows, zero."""
    shape = (array.shape[0] + n, *array.shape[1:])
    copy = namespace(array).zeros(shape, dtype=array.dtype, device=array.device)
    copy[: array.shape[0], ...] = array
    return copy


def scattered(values: Array, places: Array, array: Any) -> Any:
    """Return zeros like a vector, with values in some places."""
    spread = np.zeros(array.shape[0])
    spread[places] = values
    return like(spread, array)
