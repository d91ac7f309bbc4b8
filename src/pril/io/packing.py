"""How Python values become values of a header."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.errors import InputTypeError, shown
from pril.io.archive import DTYPES, to_npy
from pril.io.values import (
    NUMPY_SCALARS,
    ArrayNode,
    CsrNode,
    DictNode,
    ForeignNode,
    LabelsNode,
    NumberNode,
    RandomStateNode,
    TupleNode,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NO_CODE = "data of known types, no code"


class Writer:
    """Packs values; arrays and estimators of other libraries go beside the header."""

    def __init__(self, type_of: Callable[[Any], Any]) -> None:
        self.type_of = type_of  # returns what describes the type of an estimator, None: nothing
        self.members: dict[str, bytes] = {}
        self.foreign: list[Any] = []

    def pack(self, value: Any) -> Any:
        """Return a value as JSON or a struct."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, np.generic | float):
            return self._pack_number(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, list | tuple):
            items = [self.pack(item) for item in value]
            return items if isinstance(value, list) else TupleNode(items)
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str):
                    raise InputTypeError(
                        f"it has the key {shown(key)}, and keys are kept as strings"
                    )
            return DictNode({str(key): self.pack(item) for key, item in value.items()})
        if isinstance(value, np.ndarray):
            is_long = value.dtype.newbyteorder("<").str in DTYPES
            return ArrayNode(self._member(value)) if is_long else pack_labels(value)
        if getattr(value, "format", None) == "csr":
            data, *where = map(self._member, (value.data, value.indices, value.indptr))
            return CsrNode(data, *where, columns=value.shape[1])  # type: ignore[misc, arg-type]
        if type(value) is np.random.RandomState:
            state: Any = value.get_state()
            kind, key, *rest = state
            if kind != "MT19937":
                raise InputTypeError(f"it holds a RandomState of {kind}, not of MT19937")
            return RandomStateNode(self._member(key), *rest)
        if (described := self.type_of(value)) is not None:
            return described.pack(value, self)
        if hasattr(value, "get_params") and not isinstance(value, type):
            self.foreign.append(value)
            return ForeignNode(len(self.foreign) - 1)
        what = f"it holds {shown(value)} of type {type_name(type(value))}, and a file holds "
        is_array = hasattr(value, "__array_namespace__")
        raise InputTypeError(what + ("NumPy arrays: fit on those" if is_array else NO_CODE))

    def _member(self, array: Array) -> str:
        """Return the name of the member that holds an array."""
        name = f"{len(self.members)}.npy"
        self.members[name] = to_npy(array)
        return name

    def _pack_number(self, value: Any) -> Any:
        is_numpy = isinstance(value, np.generic)
        number, dtype = (value.item(), value.dtype.name) if is_numpy else (value, "float")
        if dtype not in ("float", *NUMPY_SCALARS):
            raise InputTypeError(f"it holds a number of type {dtype}")
        if isinstance(number, float) and not math.isfinite(number):
            return NumberNode(dtype, str(number))
        return NumberNode(dtype, number) if is_numpy else number


def pack_labels(labels: Any) -> LabelsNode:
    """Return numbers, strings or ranges of numbers in the header itself, not in a member."""
    from pril.core import ranking

    array = labels if isinstance(labels, np.ndarray) else ranking.check_classes(labels)
    values = [ranking.plain(label) for label in array.tolist()]
    if values and all(ranking.is_range(one) and isinstance(one.left, Real) for one in values):
        ends = [[repr(ranking.plain(end)) for end in (one.left, one.right)] for one in values]
        pairs = zip(ends, values, strict=True)
        return LabelsNode("interval", [[*texts, one.closed] for texts, one in pairs])
    for label in values:
        if not isinstance(label, str | int | float):
            kind = type_name(type(label))
            raise InputTypeError(f"it holds {kind}, and classes are kept as numbers or strings")
    return LabelsNode("str" if array.dtype.kind == "U" else array.dtype.name, values)


def type_name(kind: type) -> str:
    """Return a type as messages name it."""
    return f"{kind.__module__}.{kind.__qualname__}"
