"""What a linear learner has learned: two flat arrays, and the names of their parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core import loop
from pril.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

LONG = 128  # shorter arrays are not aligned
WIDE = 1 << 16  # with fewer features, copying all is as fast as choosing some


class Layout(NamedTuple):
    """The parts of a memory, given the sizes and the rule of a learner."""

    n_scores: int
    n_features: int
    n_classes: int
    average: bool
    own: tuple[loop.Part, ...]  # of the rule

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of each part, in their order in the memory."""
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

    def _size(self, part: loop.Part) -> int:
        if isinstance(part.shape, int):
            return part.shape
        return self.n_classes if part.shape == "classes" else loop.table_size(self.n_classes)

    def size(self) -> int:
        """Return how many numbers a memory has."""
        return sum(prod(shape) for shape in self.shapes().values())

    def sizes(self) -> tuple[int, int, int]:
        """Return the numbers of scores, of weights for each, and of classes."""
        return self.n_scores, self.n_features + 1, self.n_classes

    def integers(self) -> Array:
        """Return the integers of an empty memory."""
        return np.array(
            [
                *(0, 0, 0),  # counts
                0,
                self.n_scores,
                self.n_features + 1,
                self.n_classes - 1,
                self.average,
                sum(self._size(part) for part in self.own if part.fades),
                sum(self._size(part) for part in self.own if part.shape == "ranges"),
            ]
        )


class Memory:
    """What a linear learner has learned.

    Parameters
    ----------
    layout : Layout
        The parts.
    numbers : ndarray of float64
        The parts, one after the other.
    integers : ndarray of int64
        Counts and sizes, see `loop`.
    """

    def __init__(self, layout: Layout, numbers: Array, integers: Array) -> None:
        self.layout = layout
        self.numbers = numbers
        self.integers = integers
        self._predicting: Any = None

    @classmethod
    def blank(cls, layout: Layout, *, lattice: bool) -> Memory:
        """Return the zero start."""
        memory = cls(layout, _aligned_zeros(layout.size()), layout.integers())
        memory.state.clock[1] = 1.0
        memory.integers[loop.LATTICE] = lattice
        return memory

    def parts(self) -> dict[str, Array]:
        """Return views of all parts by their names."""
        views, start = {}, 0
        for name, shape in self.layout.shapes().items():
            stop = start + prod(shape)
            views[name] = self.numbers[start:stop].reshape(shape)
            start = stop
        return views

    @property
    def state(self) -> loop.State:
        """What all learners have, as the loop sees it."""
        parts = self.parts()
        n_own = sum(parts[part.name].size for part in self.layout.own)
        return loop.State(
            u=parts["u"],
            mean_u=parts["mean_u"],
            n=parts["n"],
            mean_n=parts["mean_n"],
            shift=parts["shift"],
            clock=parts["clock"],
            own=self.numbers[self.numbers.size - n_own :],
            counts=self.integers[: loop.LATTICE],
            lattice=self.integers[loop.LATTICE : loop.LATTICE + 1],
            fading=int(self.integers[loop.FADING]),
        )

    @property
    def averages(self) -> bool:
        """Whether there are sums of a mean."""
        return bool(self.integers[loop.AVERAGES])

    def copy(self) -> Memory:
        """Return a copy to learn on, so that a failure leaves this one as it is."""
        return Memory(self.layout, _aligned_copy(self.numbers), self.integers.copy())

    def __getstate__(self) -> dict[str, Any]:
        return {"layout": self.layout, "numbers": self.numbers, "integers": self.integers}

    def __setstate__(self, state: dict[str, Any]) -> None:
        layout, numbers, integers = state["layout"], state["numbers"], state["integers"]
        expected, fixed = layout.integers(), slice(loop.N_SCORES, None)
        fits = numbers.dtype == np.float64 and numbers.shape == (layout.size(),)
        fits = fits and integers.dtype == np.int64 and integers.shape == expected.shape
        if not (fits and np.array_equal(integers[fixed], expected[fixed])):
            raise InputError("a memory is damaged: its arrays do not fit its layout")
        self.__init__(layout, numbers, integers)  # type: ignore[misc]

    def with_layout(self, layout: Layout) -> Memory:
        """Return a copy for other features or without a mean; new features were zero so far."""
        memory = Memory.blank(layout, lattice=False)
        memory.integers[: loop.LATTICE + 1] = self.integers[: loop.LATTICE + 1]
        mine, others = self.parts(), memory.parts()
        for name, part in others.items():
            if name in ("u", "mean_u"):
                width = min(part.shape[1], mine[name].shape[1]) - 1
                part[:, :width] = mine[name][: len(part), :width]
                part[:, -1] = mine[name][: len(part), -1]
            else:
                part[:] = mine[name][: len(part)]
        return memory

    def without_mean(self) -> Memory:
        """Return a copy that predicts with the last iterate."""
        return self.with_layout(self.layout._replace(average=False))

    def tail(self) -> Array:
        """Return the numbers after the weights and the sums of their mean."""
        n_scores, width = self.integers[loop.N_SCORES], self.integers[loop.WIDTH]
        return self.numbers[n_scores * width * (1 + self.integers[loop.AVERAGES]) :]

    def is_finite(self, columns: Array | None = None) -> bool:
        """Tell whether no number has overflowed, among those of these features; None: all."""
        if columns is None:
            return bool(loop.all_bounded(self.numbers))
        state = self.state
        wide = (part[:, columns].ravel() for part in (state.u, state.mean_u))
        return all(map(loop.all_bounded, (*wide, self.tail())))

    @contextmanager
    def unchanged_on_failure(self, columns: Array) -> Iterator[None]:
        """Undo the changes of a failure, which may be in these features and outside of all."""
        state, tail = self.state, self.tail()
        wide = [(part, part[:, columns]) for part in (state.u, state.mean_u)]
        kept, integers = tail.copy(), self.integers.copy()
        try:
            yield
        except BaseException:
            for part, before in wide:
                part[:, columns] = before
            tail[:], self.integers[:] = kept, integers
            raise

    def predicting(self, geometry: Any) -> tuple[Array, Array, float]:
        """Return the weights and thresholds that predict, and the number that divides them.

        They are computed once after each round.
        """
        rounds = int(self.integers[0])
        if self._predicting is None or self._predicting[0] != rounds:
            w = np.empty((self.layout.n_scores, self.layout.n_features + 1))
            cut = np.empty(self.layout.n_classes + 1)
            unit = loop.predicting(geometry, self.numbers, self.integers, w, cut)
            self._predicting = rounds, (w, cut, unit)
        found: tuple[Array, Array, float] = self._predicting[1]
        return found


def few_columns(rows: Any, width: int) -> Array | None:
    """Return the features that sparse rows touch, and the last one; None unless few of many."""
    if width < WIDE or not isinstance(rows, loop.Csr) or 16 * len(rows.data) > width:
        return None
    return np.append(np.unique(rows.indices), width - 1)


def _aligned_zeros(size: int) -> Array:
    """Return zeros that begin on a cache line, which makes wide updates a third faster."""
    spare = np.zeros(size + 8)
    start = -(spare.__array_interface__["data"][0] // 8) % 8
    return spare[start : start + size]


def _aligned_copy(array: Array) -> Array:
    if array.size < LONG:
        return array.copy()
    copy = _aligned_zeros(array.size)
    copy[:] = array
    return copy
