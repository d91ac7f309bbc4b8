"""What a linear learner has learned: two flat arrays, and the names of their parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import accumulate
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from pril.core import loop_types as types
from pril.core import rating
from pril.core.arrays import Array
from pril.errors import InputError, shown

MIN_ALIGNED = 128  # shorter arrays are not aligned


class Layout(NamedTuple):
    """Where the parts of a memory are, given the sizes and the rule of a learner."""

    n_scores: int
    n_features: int
    n_classes: int
    average: bool
    own: tuple[types.Part, ...]  # of the rule

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each part, in their order in the memory: see `types.State`."""
        weights, n_cuts = (self.n_scores, self.n_features + 1), self.n_classes - 1
        return {
            "u": weights,
            "mean_u": weights if self.average else (0, weights[1]),
            "n": (n_cuts,),
            "mean_n": (n_cuts if self.average else 0,),
            "shift": (2,),
            "clock": (2,),
            **{part.name: (self._size(part),) for part in self.own},
        }

    def _size(self, part: types.Part) -> int:
        return part.size if isinstance(part.size, int) else part.size(self.n_classes)

    def places(self) -> list[int]:
        """Return where each part begins, and where the last one ends."""
        return list(accumulate(map(prod, self.shapes().values()), initial=0))

    def sizes(self) -> tuple[int, int, int]:
        """Return the numbers of scores, of weights for each, and of classes."""
        return self.n_scores, self.n_features + 1, self.n_classes

    def integers(self) -> Array:
        """Return the integers of an empty memory."""
        places, times = self.places(), [part.time for part in self.own]
        fading = types.N_COMMON + times.count("fades")
        growing = fading + times.count("grows")
        return np.array([0, 0, 0, 0, self.n_scores, places[fading], places[growing], *places])


class Memory:
    """What a linear learner has learned.

    Parameters
    ----------
    layout : Layout
        The parts.
    numbers : ndarray of float64
        The parts, one after the other.
    integers : ndarray of int64
        Counts and places, see `types.Arrays`.
    """

    def __init__(self, layout: Layout, numbers: Array, integers: Array) -> None:
        self.layout = layout
        self.numbers = numbers
        self.integers = integers
        self._version = object()  # another one after each undo
        self._predicting: tuple[tuple[object, int], tuple[Array, Array, float]] | None = None

    @classmethod
    def blank(cls, layout: Layout, *, lattice: bool) -> Memory:
        """Return the zero start."""
        memory = cls(layout, _aligned_zeros(layout.places()[-1]), layout.integers())
        memory.parts()["clock"][1] = 1.0
        memory.lattice = lattice
        return memory

    @classmethod
    def of(cls, layout: Layout, plain: dict[str, Any]) -> Memory:
        """Return the memory that `to_plain` gave, if it is right: the compiled loop trusts it."""
        if not isinstance(plain, dict) or not isinstance(plain.get("mean_u"), np.ndarray):
            raise InputError(f"the memory must be a dict of arrays, not {shown(plain)}")
        layout = layout._replace(average=len(plain["mean_u"]) > 0)
        shapes = {**layout.shapes(), "counts": (3,)}
        if list(plain) != [*shapes, "lattice"] or not isinstance(plain["lattice"], bool):
            raise InputError(f"the memory must hold {', '.join(shapes)} and lattice")
        for name, shape in shapes.items():
            _check_part(name, plain[name], np.int64 if name == "counts" else np.float64, shape)
        for name in ("clock", "counts", *(part.name for part in layout.own if not part.signed)):
            if (plain[name] < 0).any():
                raise InputError(f"memory.{name} must not be negative")
        n, mean_n, rounds = plain["n"], plain["mean_n"], plain["clock"][0]
        _check_order("n", n)
        if layout.average and rounds > 0.0:
            # Rounding may break the order in the last bits; `fill_cuts` mends that.
            _check_order("mean_n", np.round(n - mean_n / rounds, 6))
        memory = cls.blank(layout, lattice=plain["lattice"])
        for name, part in memory.parts().items():
            part[...] = plain[name]
        memory.counts[:] = plain["counts"]
        return memory

    def to_plain(self) -> dict[str, Any]:
        """Return all parts by their names, as plain data for files and copies."""
        return {**self.parts(), "counts": self.counts, "lattice": self.lattice}

    def parts(self) -> dict[str, Array]:
        """Return views of all parts by their names."""
        parts, shapes = np.split(self.numbers, self.layout.places()[1:-1]), self.layout.shapes()
        return {name: part.reshape(shapes[name]) for name, part in zip(shapes, parts, strict=True)}

    @property
    def state(self) -> types.State:
        """What all learners have, as the loop sees it."""
        return types.lay_out(self.arrays)

    @property
    def arrays(self) -> types.Arrays:
        """The memory as compiled code takes it."""
        return types.Arrays(self._wide(), self.numbers, self.integers)

    @property
    def counts(self) -> Array:
        """Rounds, rounds with a violated constraint, violated constraints."""
        return self.integers[: types.LATTICE]

    @property
    def lattice(self) -> bool:
        """Whether the thresholds are integers, which keeps them in order."""
        return bool(self.integers[types.LATTICE])

    @lattice.setter
    def lattice(self, value: bool) -> None:
        self.integers[types.LATTICE] = value

    @property
    def averages(self) -> bool:
        """Whether there are sums of a mean."""
        return self.layout.average

    def copy(self) -> Memory:
        """Return a copy to learn on, so that a failure leaves this one as it is."""
        return Memory(self.layout, _aligned_copy(self.numbers), self.integers.copy())

    def with_features(self, places: ArrayLike) -> Memory:
        """Return a copy for other features: the place of each here, -1 for one that is new.

        A new feature was zero so far.
        """
        places = np.asarray(places, dtype=np.int64)
        return self._rearranged(self.layout._replace(n_features=len(places)), places)

    def without_mean(self) -> Memory:
        """Return a copy that predicts with the last iterate."""
        places = np.arange(self.layout.n_features)
        return self._rearranged(self.layout._replace(average=False), places)

    def _rearranged(self, layout: Layout, places: Array) -> Memory:
        memory = Memory.blank(layout, lattice=False)
        memory.counts[:], memory.lattice = self.counts, self.lattice
        mine, kept = self.parts(), np.flatnonzero(places >= 0)
        for name, part in memory.parts().items():
            old = mine[name][: len(part)]
            if name in ("u", "mean_u"):
                part[:, kept] = old[:, places[kept]]
                part[:, -1] = old[:, -1]
            else:
                part[:] = old
        return memory

    def _wide(self) -> Array:
        """Return the weights of the features and the sums of their mean, one below the other."""
        n_matrices, width = 1 + self.layout.average, self.layout.n_features + 1
        n_rows = n_matrices * self.layout.n_scores
        return self.numbers[: n_rows * width].reshape(n_rows, width)

    def tail(self) -> Array:
        """Return the numbers after the weights and the sums of their mean."""
        return self.numbers[self._wide().size :]

    def is_finite(self, columns: Array | None = None) -> bool:
        """Tell whether no number has overflowed, among those of these features; None: all."""
        if columns is None:
            return _is_bounded(self.numbers)
        return _is_bounded(self._wide()[:, columns]) and _is_bounded(self.tail())

    @contextmanager
    def undone_on_failure(self, columns: Array) -> Iterator[None]:
        """Undo the changes of a failure, which may be in these features and outside of all."""
        wide, tail = self._wide(), self.tail()
        before = wide[:, columns], tail.copy(), self.integers.copy()
        try:
            yield
        except BaseException:
            wide[:, columns], tail[:], self.integers[:] = before
            self._version = object()
            raise

    def predicting(self, geometry: types.Geometry) -> tuple[Array, Array, float]:
        """Return the weights and thresholds that predict, and the number that divides them.

        They are computed when they are asked for, and kept until a round is learned or undone.
        """
        now, kept = (self._version, int(self.counts[0])), self._predicting
        if kept is None or kept[0] != now:
            # All numbers at once: another thread may learn a row meanwhile, in place.
            numbers = np.frombuffer(self.numbers.tobytes())
            state = Memory(self.layout, numbers, self.integers).state
            self._predicting = kept = now, rating.predicting(geometry, state)
        return kept[1]


def _is_bounded(values: Array) -> bool:
    """Tell whether every number is finite and no larger than `LARGEST_NUMBER`."""
    return bool(values.min() >= -types.LARGEST_NUMBER and values.max() <= types.LARGEST_NUMBER)


def _check_part(name: str, part: Any, dtype: type, shape: tuple[int, ...]) -> None:
    given = (part.dtype, part.shape) if isinstance(part, np.ndarray) else (type(part), None)
    if given != (dtype, shape):
        raise InputError(f"memory.{name} must be {dtype.__name__} of shape {shape}, not {given}")
    if not np.isfinite(part).all():
        raise InputError(f"memory.{name} must be finite")


def _check_order(name: str, n: Array) -> None:
    slack = 1e-9 * max(1.0, float(np.abs(n).max(initial=0.0)))  # for the rounding of means
    if (np.diff(n) > slack).any():
        raise InputError(f"memory.{name} must not increase: the thresholds would not be in order")


def _aligned_zeros(size: int) -> Array:
    """Return zeros that begin on a cache line, which makes wide updates a third faster."""
    spare = np.zeros(size + 8)
    start = -(spare.__array_interface__["data"][0] // 8) % 8
    return spare[start : start + size]


def _aligned_copy(array: Array) -> Array:
    if array.size < MIN_ALIGNED:
        return array.copy()
    copy = _aligned_zeros(array.size)
    copy[:] = array
    return copy
