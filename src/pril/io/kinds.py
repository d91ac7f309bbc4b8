"""What an attribute or a parameter of an estimator may be.

A kind is a type that msgspec checks, such as ``list[str]``, or one of the classes here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from msgspec import Meta

from pril.errors import InputError
from pril.io.values import Place, Plan, Size, convert

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Share = Annotated[float, Meta(gt=0, lt=1)]
Number = Annotated[float, Meta(ge=-1e308, le=1e308)]


def check(kind: Any, value: Any, at: Place) -> None:
    """Refuse a value that is not of a kind."""
    if hasattr(kind, "check"):
        kind.check(value, at)
    elif kind is not Any:
        convert(value.item() if isinstance(value, np.generic) else value, kind, at.name)


class Maybe(NamedTuple):
    """A value of a kind, or None: no such attribute."""

    of: Any

    def check(self, value: Any, at: Place) -> None:
        if value is not None:
            check(self.of, value, at)


class Count(NamedTuple):
    """The size of a dimension."""

    dimension: str

    def check(self, value: Any, at: Place) -> None:
        check(Size, value, at)
        if (size := at.agreed(self.dimension, int(value))) != value:
            raise at.wrong(str(size), value)


class Labels(NamedTuple):
    """Different numbers, strings or ranges of numbers, as an array; strings only if `are_names`."""

    dimension: str | None = None
    are_names: bool = False

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, np.ndarray) or value.ndim != 1 or value.size == 0:
            raise at.wrong("labels", value)
        labels = value.tolist()
        if any(isinstance(label, float) and not math.isfinite(label) for label in labels):
            raise at.wrong("finite labels", labels)
        if self.are_names and not (value.dtype == object and all(type(x) is str for x in labels)):
            raise at.wrong("strings", labels)
        if len(set(labels)) < len(labels):
            raise at.wrong("different labels", labels)
        if (size := at.agreed(self.dimension, len(labels))) != len(labels):
            raise at.wrong(f"{size} labels", labels)


class Numbers(NamedTuple):
    """An array of one of some types, of a shape in terms of dimensions."""

    dtypes: str
    shape: tuple[int | str | None, ...]
    low: float = -math.inf  # the least number
    finite: bool = True  # False: infinite numbers are right, too
    any_order: bool = False  # False: C's order; a product of matrices may depend on it

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, np.ndarray):
            raise at.wrong("an array", value)
        shape: tuple[Any, ...] = self.shape
        if fits := value.ndim == len(shape) and value.dtype.name in self.dtypes.split():
            shape = tuple(map(at.agreed, shape, value.shape))
        if not fits or value.shape != shape:
            raise InputError(
                f"{at.name} must be {self.dtypes} of shape {shape}, not {value.dtype} of shape "
                f"{value.shape}"
            )
        if not (self.any_order or value.flags.c_contiguous):
            raise InputError(f"{at.name} must be in C order")
        if np.isnan(value).any() or (self.finite and not np.isfinite(value).all()):
            raise InputError(f"{at.name} must be finite")
        if (value < self.low).any():
            raise InputError(f"{at.name} must be at least {self.low}")


class Rows(NamedTuple):
    """Rows: dense, sparse or, if `may_be_positions`, their positions among the rows of `fit`."""

    may_be_positions: bool = False

    def check(self, value: Any, at: Place) -> None:
        floats, shape = "float64 float32", ("rows", "features")
        if is_csr(value):
            Numbers(floats, (None,)).check(value.data, at.inside("data"))
            if value.shape != (agreed := tuple(map(at.agreed, shape, value.shape))):
                raise InputError(f"{at.name} must be of shape {agreed}, not {value.shape}")
        elif self.may_be_positions and isinstance(value, np.ndarray) and value.ndim == 1:
            Numbers("int64", ("rows",), low=0).check(value, at)
            if (value >= at.sizes["features"]).any():
                raise InputError(f"{at.name} must be below {at.sizes['features']}")
        else:
            Numbers(floats, shape, any_order=True).check(value, at)


def is_csr(rows: Any) -> bool:
    """Tell whether rows are sparse."""
    return getattr(rows, "format", None) == "csr"


class Fields(NamedTuple):
    """A dict with these keys, in this order."""

    fields: dict[str, Any]

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, dict) or list(value) != list(self.fields):
            raise at.wrong(f"a dict of {', '.join(self.fields)}", value)
        for name, kind in self.fields.items():
            check(kind, value[name], at.inside(name))


class Each(NamedTuple):
    """A dict whose values are of a kind; each has dimensions of its own."""

    of: Any

    def check(self, value: Any, at: Place) -> None:
        if not isinstance(value, dict):
            raise at.wrong("a dict", value)
        for key, item in value.items():
            check(self.of, item, Place(f"{at.name}.{key}", {}))


class Step(NamedTuple):
    """An estimator, or what stands for none in a pipeline."""

    def check(self, value: Any, at: Place) -> None:
        is_estimator = isinstance(value, Plan) or hasattr(value, "get_params")
        if not is_estimator and value not in (None, "passthrough"):
            raise at.wrong("an estimator", value)


class Steps(NamedTuple):
    """A list of pairs: a name, and an estimator."""

    def check(self, value: Any, at: Place) -> None:
        convert(value, list[tuple[str, Any]], at.name)
        for i, (_, step) in enumerate(value):
            Step().check(step, at.inside(i))
