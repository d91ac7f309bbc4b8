"""The values of a header, and how they become Python values.

Null, true, false, numbers, strings and lists are JSON's own. Everything else is an object with a
key "type": one of the structs here. A struct says which keys there are and what they may hold, and
`open` checks the rest.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct

from pril.errors import InputError, shown
from pril.io.archive import from_npy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

Kind = Literal["model", "checkpoint"]
Size = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Member = Annotated[str, Meta(pattern=r"^[0-9]{1,9}\.npy$")]
NOT_IN_JSON = ("inf", "-inf", "nan")  # numbers
NUMPY_SCALARS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
ScalarName = Literal["float", *NUMPY_SCALARS]  # type: ignore[valid-type]
LabelName = Literal["str", "object", "interval", *NUMPY_SCALARS]  # type: ignore[valid-type]
OBJECTS = [("object", kind) for kind in (bool, int, float)]  # labels that are objects


class Header(Struct, forbid_unknown_fields=True):
    """What `pril.json` holds."""

    format: Size
    kind: Kind
    versions: dict[str, str]
    notes: dict[str, Any]
    content: Any


class Place(NamedTuple):
    """Where in the file a value is.

    `sizes` has the dimensions of the estimator around it, such as "features": the first value that
    has a dimension sets its size, and the others must agree.
    """

    name: str
    sizes: dict[str, int]

    def inside(self, key: Any) -> Place:
        """Return a place in the same estimator."""
        return self._replace(name=f"{self.name}.{key}")

    def wrong(self, expected: str, value: Any) -> ValueError:
        """Return an error that names the place."""
        return InputError(f"{self.name} must be {expected}, not {shown(value)}")

    def agreed(self, dimension: int | str | None, size: int) -> int:
        """Return the size that a dimension such as 2 or "features" must have."""
        if not isinstance(dimension, str):
            return size if dimension is None else dimension
        return self.sizes.setdefault(dimension, size)


def convert(plain: Any, kind: Any, at: str) -> Any:
    """Return JSON as one of the structs, if it is one; `at` names the place in errors."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        reason, _, inside = str(error).partition(" - at ")
        raise InputError(f"{at}{inside.strip('`$')}: {reason.replace('`', '')}") from None


def to_json(header: Header) -> bytes:
    """Return the text of a header."""
    return json.dumps(to_plain(header), allow_nan=False).encode()


def to_plain(value: Any) -> Any:
    """Return a value of a header as JSON."""
    return msgspec.to_builtins(value, enc_hook=lambda number: number.item())  # notes of NumPy


def from_json(text: bytes) -> Header:
    """Return the header of a text that is spelled as `to_json` spells it.

    So no key can be there twice, and no number can be infinite.
    """
    plain = json.loads(text)
    if json.dumps(plain, allow_nan=False).encode() != text:
        raise InputError("its header is not spelled as pril spells it")
    header: Header = convert(plain, Header, "header")
    return header


class Reader:
    """Opens values: every array is used once, foreign estimators in their order."""

    def __init__(self, members: dict[str, bytes], types: dict[str, Any]) -> None:
        self.types = types
        self.unused = dict(members)
        self.n_foreign = 0
        self.foreign: list[Any] = []  # filled in when all is checked

    def open(self, plain: Any, at: Place) -> Any:
        """Return the value, or the plan of it, that a header holds at a place."""
        if isinstance(plain, list):
            return [self.open(item, at.inside(i)) for i, item in enumerate(plain)]
        if not isinstance(plain, dict):
            return plain
        return convert(plain, Node, at.name).open(self, at)

    def array(self, member: str, at: Place) -> Array:
        """Return an array, which nothing else may use."""
        if member not in self.unused:
            raise at.wrong("the name of an array that nothing else uses", member)
        try:
            return from_npy(self.unused.pop(member))
        except ValueError as error:
            raise InputError(f"{at.name}: {error}") from None


class Plan(NamedTuple):
    """Something that cannot be built before all of the file is checked."""

    make: Callable[..., Any]
    parts: dict[str, Any]  # what to call it with, once that is built


def build(item: Any) -> Any:
    """Build what was checked, from the inside out."""
    if isinstance(item, Plan):
        return item.make(**build(item.parts))
    if isinstance(item, list | tuple):
        return type(item)(build(part) for part in item)
    if isinstance(item, dict):
        return {name: build(part) for name, part in item.items()}
    return item


# --- Objects -------------------------------------------------------------------------------------


class _Object(Struct, tag_field="type", forbid_unknown_fields=True):
    def open(self, file: Reader, at: Place) -> Any:
        """Return the value, or the plan of it."""
        raise NotImplementedError


class ArrayNode(_Object, tag="array"):
    """An array of numbers, in a member of its own."""

    member: Member

    def open(self, file: Reader, at: Place) -> Any:
        return file.array(self.member, at)


class CsrNode(_Object, tag="csr"):
    """A sparse matrix."""

    data: Member
    indices: Member
    indptr: Member
    columns: Size

    def open(self, file: Reader, at: Place) -> Any:
        from scipy.sparse import csr_array

        parts: list[Array] = []
        for name, kind in {"data": "f", "indices": "i", "indptr": "i"}.items():
            part = file.array(getattr(self, name), at.inside(name))
            if part.ndim != 1 or part.dtype.kind != kind:
                raise InputError(f"{at.name}.{name} must be a list of numbers of another type")
            parts.append(part)
        data, indices, indptr = parts
        if len(indptr) == 0 or indptr[0] != 0 or (np.diff(indptr) < 0).any():
            raise InputError(f"{at.name}.indptr must ascend from 0")
        if not indptr[-1] == len(data) == len(indices):
            raise InputError(f"{at.name} must have as many indices as numbers")
        if ((indices < 0) | (indices >= self.columns)).any():
            raise InputError(f"{at.name}.indices must be within the {self.columns} columns")
        return csr_array((data, indices, indptr), shape=(len(indptr) - 1, self.columns))


class LabelsNode(_Object, tag="labels"):
    """A short array of numbers, strings or ranges of numbers."""

    dtype: LabelName
    values: list[Any]

    def open(self, file: Reader, at: Place) -> Any:
        dtype, values = self.dtype, self.values
        if dtype not in ("str", "object", "interval"):
            return _numbers(dtype, values, at)
        if dtype == "interval":
            values = [_range(label, at) for label in values]
        elif not all(type(x) is str or (dtype, type(x)) in OBJECTS for x in values):
            raise at.wrong(f"labels of type {dtype}", values)
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.astype(str) if dtype == "str" else array


class NumberNode(_Object, tag="number"):
    """A number of NumPy ("float" is Python's), or one that JSON does not have."""

    dtype: ScalarName
    value: bool | int | float | str

    def open(self, file: Reader, at: Place) -> Any:
        if "float" in self.dtype and self.value in NOT_IN_JSON:
            kind = float if self.dtype == "float" else np.dtype(self.dtype).type
            return kind(self.value)
        return _numbers(self.dtype, [self.value], at)[0]


class TupleNode(_Object, tag="tuple"):
    """A tuple."""

    items: list[Any]

    def open(self, file: Reader, at: Place) -> Any:
        return tuple(file.open(self.items, at))


class DictNode(_Object, tag="dict"):
    """A dict with strings as keys."""

    items: dict[str, Any]

    def open(self, file: Reader, at: Place) -> Any:
        return {key: file.open(item, at.inside(key)) for key, item in self.items.items()}


class RandomStateNode(_Object, tag="RandomState"):
    """The state of a Mersenne Twister."""

    key: Member
    pos: Annotated[int, Meta(ge=0, le=624)]
    has_gauss: Annotated[int, Meta(ge=0, le=1)]
    gauss: float

    def open(self, file: Reader, at: Place) -> Any:
        key = file.array(self.key, at.inside("key"))
        if key.dtype != np.uint32 or key.shape != (624,):
            raise InputError(f"{at.name}.key must be uint32 of shape (624,)")
        random_state = np.random.RandomState()
        random_state.set_state(("MT19937", key, self.pos, self.has_gauss, self.gauss))
        return random_state


class EstimatorNode(_Object, tag="estimator"):
    """An estimator; `learned` is null before `fit`."""

    name: str
    parameters: dict[str, Any]
    learned: dict[str, Any] | None

    def open(self, file: Reader, at: Place) -> Any:
        if self.name not in file.types:
            raise InputError(f"{at.name} is a {shown(self.name)}, which is unknown")
        return file.types[self.name].open(self, file, Place(at.name, {}))


class ForeignNode(_Object, tag="foreign"):
    """An estimator of another library, by its position in `foreign.skops`."""

    position: Size

    def open(self, file: Reader, at: Place) -> Any:
        if self.position != file.n_foreign:
            raise at.wrong(f"foreign object {file.n_foreign}", self.position)
        file.n_foreign += 1
        return Plan(lambda: file.foreign[self.position], {})


Node = (
    ArrayNode
    | CsrNode
    | LabelsNode
    | NumberNode
    | TupleNode
    | DictNode
    | RandomStateNode
    | EstimatorNode
    | ForeignNode
)


def _numbers(dtype: str, values: list[Any], at: Place) -> Array:
    """Return an array of the type named, if all numbers are of that type."""
    kind = {"b": bool, "f": float}.get(np.dtype(dtype).kind, int)
    if dtype == "float" or not all(type(value) is kind for value in values):
        raise at.wrong(f"of type {dtype}", values)
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=dtype)
    except OverflowError:
        array = np.empty(0)
    if array.tolist() != values:
        raise at.wrong(f"within the range of {dtype}", values)
    return array


def _range(plain: Any, at: Place) -> Any:
    """Return a range of numbers from its two ends and the name of the ends that it holds."""
    from pandas import Interval

    try:
        left, right, closed = plain
        low, high = (
            int(end) if re.fullmatch(r"-?\d{1,19}", end) else float(end) for end in (left, right)
        )
        if math.isnan(low) or math.isnan(high):
            raise InputError("NaN is no end")
        return Interval(low, high, closed=closed)
    except (TypeError, ValueError):
        raise at.wrong("a range of numbers", plain) from None
