"""The header of a file, ``pril.json``: its keys, and how it says what JSON cannot say.

Null, true, false, numbers, strings and lists are JSON's own. Everything else is an object with a
key "type": one of the structs here. A struct says which keys there are and what they may hold. If
no other value is inside it, it also says how it is made (`of`) and checked and read (`open`);
`content` does that for the others.
"""

from __future__ import annotations

import json
import math
import re
from numbers import Real
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from pril.errors import InputError, InputTypeError, shown
from pril.io.archive import from_npy, to_npy

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
LABEL_TYPES = (str, bool, int, float)  # types of labels


class Header(Struct, forbid_unknown_fields=True):
    """What `pril.json` holds."""

    format: Size
    kind: Kind
    versions: dict[str, str]
    notes: dict[str, Any]
    content: Any


def to_json(header: Header) -> bytes:
    """Return the text of a header."""
    return json.dumps(to_plain(header), allow_nan=False).encode()


def to_plain(value: Any) -> Any:
    """Return a value of a header as JSON."""
    return msgspec.to_builtins(value, enc_hook=_plain_number)


def _plain_number(value: Any) -> Any:
    """Return a number of NumPy, in notes, as one of Python."""
    if isinstance(value, np.generic):
        return value.item()
    raise InputTypeError(f"a note holds {shown(value)} of type {type_name(type(value))}")


def from_json(text: bytes) -> Header:
    """Return the header of a text that is spelled as `to_json` spells it.

    So no key can be there twice, and no number can be infinite.
    """
    plain = json.loads(text)
    if json.dumps(plain, allow_nan=False).encode() != text:
        raise InputError("its header was not written by pril")
    header: Header = convert(plain, Header, "header")
    return header


def convert(plain: Any, kind: Any, at: str) -> Any:
    """Return a value as a type that msgspec checks; `at` names the place in errors."""
    try:
        return msgspec.convert(plain, kind)
    except msgspec.ValidationError as error:
        reason, _, inside = str(error).partition(" - at ")
        raise InputError(f"{at}{inside.strip('`$')}: {reason.replace('`', '')}") from None


def wrong(at: str, expected: str, value: Any) -> InputError:
    """Return an error that names the place of a value."""
    return InputError(f"{at} must be {expected}, not {shown(value)}")


def type_name(kind: type) -> str:
    """Return a type as messages name it."""
    return f"{kind.__module__}.{kind.__qualname__}"


def is_csr(value: Any) -> bool:
    """Tell whether rows are sparse."""
    return getattr(value, "format", None) == "csr"


class Arrays(dict[str, bytes]):
    """The arrays beside a header: each is a member of the file, and is used once."""

    def put(self, array: Array) -> str:
        """Add an array and return the name of its member."""
        name = f"{len(self)}.npy"
        self[name] = to_npy(array)
        return name

    def take(self, member: str, at: str) -> Array:
        """Remove and return an array; `at` is the place in the header that names its member."""
        if member not in self:
            raise wrong(at, "the name of an array that nothing else uses", member)
        try:
            return from_npy(self.pop(member))
        except ValueError as error:
            raise InputError(f"{at}: {error}") from None


# --- Values with no other value inside -----------------------------------------------------------


class _Object(Struct, tag_field="type", forbid_unknown_fields=True):
    """A value that JSON does not have."""


class ArrayNode(_Object, tag="array"):
    """An array of numbers, in a member of its own."""

    member: Member

    def open(self, arrays: Arrays, at: str) -> Array:
        return arrays.take(self.member, at)


class CsrNode(_Object, tag="csr"):
    """A sparse matrix."""

    data: Member
    indices: Member
    indptr: Member
    columns: Size

    @classmethod
    def of(cls, matrix: Any, arrays: Arrays) -> CsrNode:
        parts = (matrix.data, matrix.indices, matrix.indptr)
        return cls(*map(arrays.put, parts), columns=matrix.shape[1])  # type: ignore[misc, arg-type]

    def open(self, arrays: Arrays, at: str) -> Any:
        from scipy.sparse import csr_array

        parts = []
        for name, types in {"data": "floats", "indices": "integers", "indptr": "integers"}.items():
            part = arrays.take(getattr(self, name), f"{at}.{name}")
            if part.ndim != 1 or part.dtype.kind != types[0]:
                raise InputError(f"{at}.{name} must be a list of {types}, not of {part.dtype}")
            parts.append(part)
        data, indices, indptr = parts
        if indptr[:1].tolist() != [0] or (np.diff(indptr) < 0).any():
            raise InputError(f"{at}.indptr must ascend from 0")
        if not indptr[-1] == len(data) == len(indices):
            raise InputError(f"{at} must have as many indices as numbers")
        if ((indices < 0) | (indices >= self.columns)).any():
            raise InputError(f"{at}.indices must be within the {self.columns} columns")
        return csr_array((data, indices, indptr), shape=(len(indptr) - 1, self.columns))


class RandomStateNode(_Object, tag="RandomState"):
    """The state of a Mersenne Twister."""

    key: Member
    pos: Annotated[int, Meta(ge=0, le=624)]
    has_gauss: Annotated[int, Meta(ge=0, le=1)]
    gauss: float

    @classmethod
    def of(cls, random_state: Any, arrays: Arrays) -> RandomStateNode:
        kind, key, *rest = random_state.get_state()
        if kind != "MT19937":
            raise InputTypeError(f"it holds a RandomState of {kind}, not of MT19937")
        return cls(arrays.put(key), *rest)

    def open(self, arrays: Arrays, at: str) -> Any:
        key = arrays.take(self.key, f"{at}.key")
        if key.dtype != np.uint32 or key.shape != (624,):
            raise InputError(f"{at}.key must be uint32 of shape (624,)")
        random_state = np.random.RandomState()
        random_state.set_state(("MT19937", key, self.pos, self.has_gauss, self.gauss))
        return random_state


class NumberNode(_Object, tag="number"):
    """A number of NumPy ("float" is Python's), or one that JSON does not have."""

    dtype: ScalarName
    value: bool | int | float | str

    @classmethod
    def of(cls, value: Any) -> NumberNode | float:
        is_numpy = isinstance(value, np.generic)
        number, dtype = (value.item(), value.dtype.name) if is_numpy else (value, "float")
        if dtype not in ("float", *NUMPY_SCALARS):
            raise InputTypeError(f"it holds a number of type {dtype}")
        if isinstance(number, float) and not math.isfinite(number):
            return cls(dtype, str(number))
        return cls(dtype, number) if is_numpy else number

    def open(self, arrays: Arrays, at: str) -> Any:
        if "float" in self.dtype and self.value in NOT_IN_JSON:
            kind = float if self.dtype == "float" else np.dtype(self.dtype).type
            return kind(self.value)
        return _numbers(self.dtype, [self.value], at)[0]


class LabelsNode(_Object, tag="labels"):
    """A short array of numbers, strings or ranges of numbers, in the header itself."""

    dtype: LabelName
    values: list[Any]

    @classmethod
    def of(cls, labels: Any) -> LabelsNode:
        from pril.core.ranking import check_classes, is_range, plain

        array = labels if isinstance(labels, np.ndarray) else check_classes(labels)
        values = [plain(label) for label in array.tolist()]
        if values and all(is_range(one) and isinstance(one.left, Real) for one in values):
            ends = [[repr(plain(one.left)), repr(plain(one.right)), one.closed] for one in values]
            return cls("interval", ends)
        for label in values:
            if not isinstance(label, str | int | float):
                kind = type_name(type(label))
                raise InputTypeError(f"it holds {kind}, and classes are kept as numbers or strings")
        return cls("str" if array.dtype.kind == "U" else array.dtype.name, values)

    def open(self, arrays: Arrays, at: str) -> Array:
        dtype, values = self.dtype, self.values
        if dtype not in ("str", "object", "interval"):
            return _numbers(dtype, values, at)
        if dtype == "interval":
            values = [_range(label, at) for label in values]
        elif any(type(x) not in LABEL_TYPES[: 1 if dtype == "str" else None] for x in values):
            raise wrong(at, f"labels of type {dtype}", values)
        elif len({type(x) is str for x in values}) > 1:
            raise wrong(at, "all strings or all numbers", values)
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array.astype(str) if dtype == "str" else array


def _numbers(dtype: str, values: list[Any], at: str) -> Array:
    """Return an array of the type named, if all numbers are of that type."""
    kind = {"b": bool, "f": float}.get(np.dtype(dtype).kind, int)
    if dtype == "float" or not all(type(value) is kind for value in values):
        raise wrong(at, f"of type {dtype}", values)
    try:
        with np.errstate(over="ignore"):
            array = np.array(values, dtype=dtype)
    except OverflowError:
        array = np.empty(0)
    if array.tolist() != values:
        raise wrong(at, f"within the range of {dtype}", values)
    return array


def _range(plain: Any, at: str) -> Any:
    """Return a range of numbers from its two ends and the name of the ends that it holds."""
    from pandas import Interval

    try:
        left, right, closed = plain
        low, high = (
            int(end) if re.fullmatch(r"-?\d{1,19}", end) else float(end) for end in (left, right)
        )
        if math.isnan(low) or math.isnan(high):
            raise InputError("an end of a range must not be NaN")
        return Interval(low, high, closed=closed)
    except (TypeError, ValueError):
        raise wrong(at, "a range of numbers", plain) from None


# --- Values with others inside, and those from elsewhere -----------------------------------------


class TupleNode(_Object, tag="tuple"):
    """A tuple."""

    items: list[Any]


class DictNode(_Object, tag="dict"):
    """A dict with strings as keys."""

    items: dict[str, Any]


class PairsNode(_Object, tag="pairs"):
    """A dict whose keys are not all strings."""

    items: list[tuple[str | bool | int | float, Any]]


class EstimatorNode(_Object, tag="estimator"):
    """An estimator; `learned` is null before `fit`."""

    name: str
    parameters: dict[str, Any]
    learned: dict[str, Any] | None


class ForeignNode(_Object, tag="foreign"):
    """An estimator of another library, by its position in `foreign.skops`."""

    position: Size


Leaf = ArrayNode | CsrNode | RandomStateNode | NumberNode | LabelsNode
Node = Leaf | TupleNode | DictNode | PairsNode | EstimatorNode | ForeignNode
