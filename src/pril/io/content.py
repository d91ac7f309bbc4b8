"""The content of a file: models, as values of a header, arrays and estimators of other libraries.

`ContentWriter.value` and `ContentReader.value` walk over it, from a value to those inside it. At an
estimator of ours, both follow its description in `schema`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import numpy as np

from pril.errors import InputError, InputTypeError, shown
from pril.io import header
from pril.io.archive import DTYPES
from pril.io.header import Arrays, LabelsNode, Node, convert, is_csr, type_name, wrong
from pril.io.schema import TYPES, LabelArray, Type, build, check_kind


class ContentWriter:
    """Turns values of Python into values of a header; keeps what belongs beside it."""

    def __init__(self) -> None:
        self.arrays = Arrays()
        self.foreign: list[Any] = []  # estimators of other libraries

    def value(self, value: Any) -> Any:
        """Return a value as JSON or a struct."""
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, np.generic | float):
            return header.NumberNode.of(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, list | tuple):
            items = [self.value(item) for item in value]
            return items if isinstance(value, list) else header.TupleNode(items)
        if isinstance(value, dict):
            return self._dict(value)
        if isinstance(value, np.ndarray):
            is_long = value.dtype.newbyteorder("<").str in DTYPES
            return header.ArrayNode(self.arrays.put(value)) if is_long else LabelsNode.of(value)
        if is_csr(value):
            return header.CsrNode.of(value, self.arrays)
        if type(value) is np.random.RandomState:
            return header.RandomStateNode.of(value, self.arrays)
        return self._estimator(value)

    def _dict(self, value: dict[Any, Any]) -> header.DictNode | header.PairsNode:
        keys = [key.item() if isinstance(key, np.generic) else key for key in value]
        items = list(zip(keys, map(self.value, value.values()), strict=True))
        for key in keys:
            if type(key) not in header.LABEL_TYPES:
                kinds = "strings or numbers"
                raise InputTypeError(f"it has the key {shown(key)}, and keys must be {kinds}")
        are_text = all(type(key) is str for key in keys)
        return header.DictNode(dict(items)) if are_text else header.PairsNode(items)

    def _estimator(self, value: Any) -> header.EstimatorNode | header.ForeignNode:
        described = TYPES.get(type(value).__name__)
        if described is not None and issubclass(described.load(), type(value)):
            return self._described(value, described)
        if hasattr(value, "get_params") and not isinstance(value, type):
            self.foreign.append(value)
            return header.ForeignNode(len(self.foreign) - 1)
        is_array = hasattr(value, "__array_namespace__")
        allowed = "NumPy arrays: fit on those" if is_array else "data of known types, no code"
        raise InputTypeError(
            f"it holds {shown(value)} of type {type_name(type(value))}, and a file holds {allowed}"
        )

    def _described(self, estimator: Any, described: Type) -> header.EstimatorNode:
        state, parameters = estimator.__getstate__(), estimator.get_params(deep=False)
        known = {*parameters, *described.learned, *described.dropped, "_sklearn_version"}
        for name in state:
            if name not in known:
                raise InputTypeError(f"no file keeps the attribute {name} of {described.name}")
        packed, learned = self._fields(parameters, described.parameters), None
        if not described.learned or any(name in state for name in described.learned):
            state = {name: state.get(name) for name in described.learned}
            learned = self._fields(state, described.learned)
        return header.EstimatorNode(described.name, packed, learned)

    def _fields(self, values: dict[str, Any], kinds: dict[str, Any]) -> dict[str, Any]:
        return {
            name.strip("_"): LabelsNode.of(value)
            if value is not None and isinstance(kinds.get(name), LabelArray)
            else self.value(value)
            for name, value in values.items()
        }


class StandIn:
    """Stands for an estimator of another library until all of the file is checked."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {}

    fit = transform = predict = get_params


class ContentReader:
    """Checks values of a header and turns them into values of Python; `at` is the place of one."""

    def __init__(self, members: dict[str, bytes], foreign: list[Any] | None = None) -> None:
        self.arrays = Arrays(members)
        self.foreign = foreign  # estimators of other libraries; None: a `StandIn` for each
        self.n_foreign = 0  # read so far

    def content(self, plain: Any) -> Any:
        """Return the content of a file, which must use all that is in the file."""
        content = self.value(plain, "content")
        if self.arrays:
            raise InputError(f"the file has an unused array, {min(self.arrays)!r}")
        return content

    def value(self, plain: Any, at: str) -> Any:
        """Return the value that a header holds at a place."""
        if isinstance(plain, list):
            return [self.value(item, f"{at}.{i}") for i, item in enumerate(plain)]
        if not isinstance(plain, dict):
            return plain
        match convert(plain, Node, at):
            case header.TupleNode(items):
                return tuple(self.value(items, at))
            case header.DictNode(items) | header.PairsNode(items):
                pairs = items.items() if isinstance(items, dict) else items
                found = {key: self.value(item, f"{at}.{key}") for key, item in pairs}
                if len(found) < len(items):
                    raise wrong(at, "a dict with different keys", items)
                return found
            case header.EstimatorNode() as node:
                return self._estimator(node, at)
            case header.ForeignNode(position):
                return self._foreign(position, at)
            case leaf:
                return leaf.open(self.arrays, at)

    def _estimator(self, node: header.EstimatorNode, at: str) -> Any:
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
        known = {name: part for name, part in learned.items() if part is not None}
        with _naming(at):
            if known:
                estimator.__setstate__({**vars(estimator), **known})
            described.check(estimator, f"{at}.learned")
        return estimator

    def _fields(self, plain: Any, kinds: dict[str, Any], at: str) -> dict[str, Any]:
        keys = {name: name.strip("_") for name in kinds}
        if plain is None or set(plain) != set(keys.values()):
            raise wrong(at, f"an object with the keys {', '.join(keys.values())}", plain)
        found: dict[str, Any] = {}
        sizes: dict[str, int] = {}
        for name, key in keys.items():
            found[name] = self.value(plain[key], f"{at}.{key}")
            check_kind(kinds[name], found[name], f"{at}.{key}", sizes)
        return found

    def _foreign(self, position: int, at: str) -> Any:
        if position != self.n_foreign:
            raise wrong(at, f"foreign object {self.n_foreign}", position)
        self.n_foreign += 1
        return StandIn() if self.foreign is None else self.foreign[position]


@contextmanager
def _naming(at: str) -> Iterator[None]:
    """Let errors name the place."""
    try:
        yield
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{at}: {error}") from None
