"""The header of a file, ``pril.json``, and the content of the file: from values to JSON, and back.

Null, true, false, numbers, strings and lists are JSON's own. Everything else is an object with a
key "type": one of the structs here. A struct says which keys there are and what they may hold. If
no other value is inside it, it also says how it is made (`of`) and checked and read (`open`).

`ContentWriter.value` and `ContentReader.value` walk over all, from a value to those inside it. At
an estimator of ours, both follow its description in `schema`. Arrays and estimators of other
libraries are kept beside the header.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import signature
from numbers import Real
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from msgspec import Meta, Struct

from pril.core.arrays import Array
from pril.errors import InputError, InputTypeError, shown
from pril.io.archive import DTYPES, from_npy, to_npy
from pril.io.schema import TYPES, LabelArray, Size, Type, build, check_kind, convert, is_csr, wrong

Kind = Literal["model", "checkpoint"]
Member = Annotated[str, Meta(pattern=r"^[0-9]{1,9}\.npy$")]
NUMBERS = "bool|u?int(8|16|32|64)|float(16|32|64)"  # types of NumPy
LabelDtype = Annotated[str, Meta(pattern=f"^(str|object|interval|{NUMBERS})$")]
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
    return json.dumps(msgspec.to_builtins(header), allow_nan=False).encode()


def from_json(text: bytes) -> Header:
    """Return the header of a text that is spelled as `to_json` spells it.

    So no key can be there twice, and no number can be infinite.
    """
    plain = json.loads(text)
    if json.dumps(plain, allow_nan=False).encode() != text:
        raise InputError("its header was not written by pril")
    return convert(plain, Header, "header")


def type_name(kind: type) -> str:
    """Return a type as messages name it."""
    return f"{kind.__module__}.{kind.__qualname__}"


class Members(dict[str, bytes]):
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
        with _naming(at):
            return from_npy(self.pop(member))


# --- Values with no other value inside -----------------------------------------------------------


class _Object(Struct, tag_field="type", forbid_unknown_fields=True):
    """A value that JSON does not have."""


class ArrayNode(_Object, tag="array"):
    """An array of numbers, in a separate member."""

    member: Member

    def open(self, arrays: Members, at: str) -> Array:
        return arrays.take(self.member, at)


class CsrNode(_Object, tag="csr"):
    """A sparse matrix."""

    data: Member
    indices: Member
    indptr: Member
    columns: Size

    @classmethod
    def of(cls, matrix: Any, arrays: Members) -> CsrNode:
        parts = (matrix.data, matrix.indices, matrix.indptr)
        return cls(*map(arrays.put, parts), columns=matrix.shape[1])  # type: ignore[misc, arg-type]

    def open(self, arrays: Members, at: str) -> Any:
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


class NumberNode(_Object, tag="number"):
    """A number that JSON does not have."""

    value: Annotated[str, Meta(pattern="^(-?inf|nan)$")]

    def open(self, arrays: Members, at: str) -> float:
        return float(self.value)


class LabelsNode(_Object, tag="labels"):
    """A short array of numbers, strings or ranges of numbers, in the header itself."""

    dtype: LabelDtype
    values: list[Any]

    @classmethod
    def of(cls, labels: Any) -> LabelsNode:
        from pril.labels.ranking import check_classes, is_range, plain

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

    def open(self, arrays: Members, at: str) -> Array:
        array = np.empty(len(self.values), dtype=object)
        try:
            if self.dtype == "interval":
                array[:] = [_range(*ends) for ends in self.values]
                return array
            array[:] = self.values
            with np.errstate(over="ignore"):
                array = array.astype(self.dtype)
            is_same = json.dumps(array.tolist()) == json.dumps(self.values)
        except (TypeError, ValueError, OverflowError):
            is_same = False
        if not is_same or any(type(label) not in LABEL_TYPES for label in self.values):
            raise wrong(at, f"labels of type {self.dtype}", self.values)
        if len({type(label) is str for label in self.values}) > 1:
            raise wrong(at, "all strings or all numbers", self.values)
        return array


def _range(left: str, right: str, closed: str) -> Any:
    """Return a range of numbers from its two ends and the name of the ends that it holds."""
    from pandas import Interval

    ends = (int(end) if re.fullmatch(r"-?\d{1,19}", end) else float(end) for end in (left, right))
    return Interval(*ends, closed=closed)


# --- Values with others inside, and those from elsewhere -----------------------------------------


class TupleNode(_Object, tag="tuple"):
    """A tuple."""

    items: list[Any]


class DictNode(_Object, tag="dict"):
    """A dict: pairs if its keys are not all strings."""

    items: dict[str, Any] | list[tuple[str | bool | int | float, Any]]


class EstimatorNode(_Object, tag="estimator"):
    """An estimator; `learned` is null before `fit`."""

    name: str
    parameters: dict[str, Any]
    learned: dict[str, Any] | None


class ForeignNode(_Object, tag="foreign"):
    """An estimator of another library, by its position in `foreign.skops`."""

    position: Size


Leaf = ArrayNode | CsrNode | NumberNode | LabelsNode
Node = Leaf | TupleNode | DictNode | EstimatorNode | ForeignNode


# --- From values to a header, and back -----------------------------------------------------------


class ContentWriter:
    """Turns values of Python into values of a header; keeps what belongs beside it."""

    def __init__(self) -> None:
        self.arrays = Members()
        self.foreign: list[Any] = []  # estimators of other libraries

    def value(self, value: Any) -> Any:
        """Return a value as JSON or a struct; a number of NumPy as one of Python."""
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, float):
            return float(value) if math.isfinite(value) else NumberNode(str(value))
        if isinstance(value, int):
            return int(value)
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            return items if isinstance(value, list) else TupleNode(items)
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, np.ndarray):
            is_long = value.dtype.newbyteorder("<").str in DTYPES
            return ArrayNode(self.arrays.put(value)) if is_long else LabelsNode.of(value)
        if is_csr(value):
            return CsrNode.of(value, self.arrays)
        return self._estimator(value)

    def _dict(self, value: dict[Any, Any]) -> DictNode:
        keys = [key.item() if isinstance(key, np.generic) else key for key in value]
        for key in keys:
            if type(key) not in LABEL_TYPES:
                kinds = "strings or numbers"
                raise InputTypeError(f"it has the key {shown(key)}, and keys must be {kinds}")
        items = list(zip(keys, map(self.value, value.values()), strict=True))
        return DictNode(dict(items) if all(type(key) is str for key in keys) else items)

    def _estimator(self, value: object) -> EstimatorNode | ForeignNode:
        described = TYPES.get(type(value).__name__)
        if described is not None and issubclass(described.load(), type(value)):
            return self._described(value, described)
        if hasattr(value, "get_params") and not isinstance(value, type):
            self.foreign.append(value)
            return ForeignNode(len(self.foreign) - 1)
        allowed = "data of known types, no code"
        if hasattr(value, "__array_namespace__"):
            allowed = "NumPy arrays: fit on those"
        elif isinstance(value, np.random.RandomState):
            allowed = "numbers: set the parameter, such as random_state, to an integer"
        raise InputTypeError(
            f"it holds {shown(value)} of type {type_name(type(value))}, and a file holds {allowed}"
        )

    def _described(self, estimator: Any, described: Type) -> EstimatorNode:
        state, parameters = estimator.__getstate__(), estimator.get_params(deep=False)
        kept = {*parameters, *described.learned, *described.dropped, "_sklearn_version"}
        for name in state:
            if name not in kept:
                raise InputTypeError(f"no file keeps the attribute {name} of {described.name}")
        packed, learned = self._fields(parameters, described.parameters), None
        if not described.learned or any(name in state for name in described.learned):
            state = {name: state.get(name) for name in described.learned}
            learned = self._fields(state, described.learned)
        return EstimatorNode(described.name, packed, learned)

    def _fields(self, values: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
        return {
            name.strip("_"): LabelsNode.of(value)
            if value is not None and isinstance(kinds.get(name), LabelArray)
            else self.value(value)
            for name, value in values.items()
        }


def read_content(plain: object, members: dict[str, bytes], foreign: list[Any]) -> Any:
    """Return the content of a file, which must use all arrays and foreign steps in the file."""
    reader = ContentReader(Members(members), dict(enumerate(foreign)))
    content = reader.value(plain, "content")
    if unused := [*reader.arrays, *(f"foreign step {k}" for k in reader.foreign)]:
        raise InputError(f"nothing uses {unused[0]}")
    return content


@dataclass
class ContentReader:
    """Checks values of a header and turns them into values of Python; `at` is the place of one."""

    arrays: Members
    foreign: dict[int, Any]  # estimators of other libraries

    def value(self, plain: object, at: str) -> Any:
        """Return the value that a header holds at a place."""
        if isinstance(plain, list):
            return [self.value(item, f"{at}.{i}") for i, item in enumerate(plain)]
        if not isinstance(plain, dict):
            return plain
        match convert(plain, Node, at):
            case TupleNode(items):
                return tuple(self.value(items, at))
            case DictNode(items):
                pairs = items.items() if isinstance(items, dict) else items
                values = {key: self.value(item, f"{at}.{key}") for key, item in pairs}
                if len(values) < len(items):
                    raise wrong(at, "a dict with different keys", items)
                return values
            case EstimatorNode() as node:
                return self._estimator(node, at)
            case ForeignNode(position):
                if position not in self.foreign:
                    raise wrong(at, "the number of a foreign step that nothing else uses", position)
                return self.foreign.pop(position)
            case leaf:
                return leaf.open(self.arrays, at)

    def _estimator(self, node: EstimatorNode, at: str) -> Any:
        if node.name not in TYPES:
            raise InputError(f"{at} is a {shown(node.name)}, which is unknown")
        described = TYPES[node.name]
        kind = described.load()
        kinds = {name: described.parameters.get(name, Any) for name in signature(kind).parameters}
        parameters = self._fields(node.parameters, kinds, f"{at}.parameters")
        with _naming(at):
            estimator = build(kind, parameters)
        if node.learned is None and described.learned:
            return estimator
        learned = self._fields(node.learned, described.learned, f"{at}.learned")
        present = {name: part for name, part in learned.items() if part is not None}
        with _naming(at):
            if present:
                estimator.__setstate__({**vars(estimator), **present})
            described.check(estimator, f"{at}.learned")
        return estimator

    def _fields(self, plain: Any, kinds: dict[str, Any], at: str) -> dict[str, Any]:
        keys = {name: name.strip("_") for name in kinds}
        if plain is None or set(plain) != set(keys.values()):
            raise wrong(at, f"an object with the keys {', '.join(keys.values())}", plain)
        values: dict[str, Any] = {}
        sizes: dict[str, int] = {}
        for name, key in keys.items():
            values[name] = self.value(plain[key], f"{at}.{key}")
            check_kind(kinds[name], values[name], f"{at}.{key}", sizes)
        return values


@contextmanager
def _naming(at: str) -> Iterator[None]:
    """Let errors name the place."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{at}: {error}") from None
