"""How values become parts of a model file, and how such parts are checked.

A field is a place for a value of one kind. It writes the value as plain JSON, with arrays as
members of the file, and it checks what a file says in that place. Checking returns plain values
and plans: nothing that was learned is built before all of the file is checked. `_schema` says which
fields there are in which type.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib import import_module
from inspect import signature
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from pril.errors import InputError, InputTypeError, shown
from pril.io.archive import from_npy, to_npy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Writer:
    """Collects what does not go into the header: arrays, and estimators of other libraries."""

    def __init__(self, types: dict[str, Type]) -> None:
        self._types = types
        self.members: dict[str, bytes] = {}
        self.foreign: list[Any] = []

    def add(self, array: Any) -> str:
        """Return the name of the member that holds an array."""
        if not isinstance(array, np.ndarray):
            kind = type_name(type(array))
            raise InputTypeError(f"it holds {kind}, and a file holds NumPy arrays: fit on those")
        name = f"{len(self.members)}.npy"
        self.members[name] = to_npy(array)
        return name

    def type_of(self, value: Any) -> Type | None:
        """Return how a file keeps an object, if it is described; subclasses are not."""
        described = self._types.get(type(value).__name__)
        if described is None:
            return None
        known = getattr(sys.modules.get(described.module), described.name, None)
        return described if known is type(value) else None


class Reader:
    """Hands out what the header names: each array once, foreign estimators in their order."""

    def __init__(self, members: dict[str, bytes], types: dict[str, Type]) -> None:
        self.types = types
        self.unused = dict(members)
        self.n_foreign = 0
        self.foreign: list[Any] = []  # filled in when all is checked


class Place(NamedTuple):
    """Where in the file a value is.

    `sizes` has the dimensions of the object around it, such as "features": the first value that
    has a dimension sets its size, and the others must agree.
    """

    file: Reader
    name: str
    sizes: dict[str, int]

    def inside(self, key: Any) -> Place:
        """Return a place in the same object."""
        return self._replace(name=f"{self.name}.{key}")

    def object(self, key: Any) -> Place:
        """Return a place for an object with dimensions of its own."""
        return Place(self.file, f"{self.name}.{key}", {})

    def wrong(self, expected: str, plain: Any) -> ValueError:
        """Return an error that names the place."""
        return InputError(f"{self.name} must be {expected}, not {shown(plain)}")

    def agreed(self, dimension: int | str | None, size: int) -> int:
        """Return the size that a dimension such as 2, "features" or "classes-1" must have."""
        if not isinstance(dimension, str):
            return size if dimension is None else dimension
        name = dimension.rstrip("+-0123456789")
        extra = int(dimension[len(name) :] or 0)
        return self.sizes.setdefault(name, size - extra) + extra

    def check_keys(self, plain: Any, keys: Iterable[str]) -> None:
        """Refuse what is not an object with these keys."""
        keys = list(keys)
        if type(plain) is not dict or set(plain) != set(keys):
            raise self.wrong(f"an object with the keys {', '.join(keys)}", plain)


class Plan(NamedTuple):
    """Something that is checked and not yet built: a function, and what to call it with."""

    make: Callable[[dict[str, Any]], Any]
    parts: dict[str, Any]


def build(item: Any) -> Any:
    """Build what was checked, from the inside out."""
    if isinstance(item, Plan):
        return item.make({name: build(part) for name, part in item.parts.items()})
    if isinstance(item, list):
        return [build(part) for part in item]
    if isinstance(item, dict):
        return {name: build(part) for name, part in item.items()}
    return item


class Field(Protocol):
    """A place for a value of one kind."""

    def write(self, value: Any, file: Writer) -> Any:
        """Return a value as plain JSON; arrays go to the file."""

    def check(self, plain: Any, at: Place) -> Any:
        """Return the value, or a plan of it, if `write` could have written it."""


# --- Numbers and names ---------------------------------------------------------------------------

WORDS = ("inf", "-inf", "nan")  # numbers that JSON does not have
SCALARS: dict[str, Any] = {"float": float} | {
    name: np.dtype(name).type
    for name in (
        *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
        *("float16", "float32", "float64"),
    )
}


def check_scalar(dtype: Any, plain: Any, at: Place) -> Any:
    """Return a number of the type named: "float" is Python's, the others are NumPy's."""
    if type(dtype) is not str or dtype not in SCALARS:
        raise at.wrong("a number of a known type", dtype)
    is_float = "float" in dtype
    if is_float and type(plain) is str and plain in WORDS:
        return SCALARS[dtype](plain)
    allowed = (bool,) if dtype == "bool" else (int, float) if is_float else (int,)
    if type(plain) not in allowed:
        raise at.wrong(f"a number of type {dtype}", plain)
    try:
        if dtype not in ("float16", "float32"):
            return SCALARS[dtype](plain)
        with np.errstate(over="raise"):  # which takes longer than all else
            return SCALARS[dtype](plain)
    except (OverflowError, FloatingPointError):
        raise at.wrong(f"within the range of {dtype}", plain) from None


def is_number(value: Any) -> bool:
    """Tell whether a value is a finite number; true and false are none."""
    return not isinstance(value, bool) and isinstance(value, Real) and math.isfinite(value)


@dataclass(frozen=True)
class Choice:
    """One of some values."""

    values: tuple[Any, ...]

    def write(self, value: Any, file: Writer) -> Any:
        return value.item() if isinstance(value, np.generic) else value

    def check(self, plain: Any, at: Place) -> Any:
        if not any(type(plain) is type(value) and plain == value for value in self.values):
            raise at.wrong(" or ".join(map(repr, self.values)), plain)
        return plain


FLAG = Choice((True, False))


@dataclass(frozen=True)
class Count:
    """A whole number, not negative; it may be the size of a dimension."""

    dimension: str | None = None
    high: int = 2**63 - 1

    def write(self, value: Any, file: Writer) -> Any:
        return int(value)

    def check(self, plain: Any, at: Place) -> Any:
        if type(plain) is not int or not 0 <= plain <= self.high:
            raise at.wrong(f"a whole number within 0..{self.high}", plain)
        if (size := at.agreed(self.dimension, plain)) != plain:
            raise at.wrong(str(size), plain)
        return plain


@dataclass(frozen=True)
class Names:
    """Different strings: a list, or an array of objects if `as_array`."""

    dimension: str | None = None
    as_array: bool = False

    def write(self, value: Any, file: Writer) -> Any:
        return [str(name) for name in value]

    def check(self, plain: Any, at: Place) -> Any:
        if type(plain) is not list or not all(type(name) is str for name in plain):
            raise at.wrong("a list of strings", plain)
        if len(set(plain)) < len(plain):
            raise at.wrong("different strings", plain)
        if (size := at.agreed(self.dimension, len(plain))) != len(plain):
            raise at.wrong(f"{size} strings", plain)
        return np.array(plain, dtype=object) if self.as_array else plain


def _range(plain: Any, at: Place) -> Any:
    """Return a range of numbers from its two ends and the name of the ends that it holds."""
    try:
        left, right, closed = plain
        ends = [
            int(end) if re.fullmatch(r"-?\d{1,19}", end) else float(end) for end in (left, right)
        ]
        from pandas import Interval

        if math.isnan(ends[0]) or math.isnan(ends[1]):
            raise InputError("NaN is no end")
        return Interval(*ends, closed=closed)
    except (TypeError, ValueError):
        raise at.wrong("a range of numbers", plain) from None


@dataclass(frozen=True)
class Labels:
    """Classes, lowest first: different numbers, strings or ranges of numbers, as an array.

    The ends of ranges are kept as text, since JSON has no infinity.
    """

    dimension: str | None = None

    def write(self, value: Any, file: Writer) -> Any:
        from pril.core import ranking

        array = value if isinstance(value, np.ndarray) else ranking.check_classes(value)
        values = [ranking.plain(label) for label in array.tolist()]
        if all(ranking.is_range(label) and isinstance(label.left, Real) for label in values):
            ranges = [[repr(ranking.plain(end)) for end in (r.left, r.right)] for r in values]
            return {
                "dtype": "interval",
                "values": [[*ends, r.closed] for ends, r in zip(ranges, values, strict=True)],
            }
        for label in values:
            if not isinstance(label, str | int | float):
                kind = type_name(type(label))
                raise InputTypeError(f"it holds {kind}, and classes are kept as numbers or strings")
        return {"dtype": "str" if array.dtype.kind == "U" else array.dtype.name, "values": values}

    def check(self, plain: Any, at: Place) -> Any:
        at.check_keys(plain, ("dtype", "values"))
        dtype, values = plain["dtype"], plain["values"]
        if type(values) is not list or not values:
            raise at.wrong("a list of labels", values)
        if dtype == "interval":
            values = [_range(label, at) for label in values]
            dtype = "object"
        elif dtype in ("str", "object"):
            allowed = (str,) if dtype == "str" else (str, bool, int, float)
            if not all(type(label) in allowed for label in values):
                raise at.wrong(f"labels of type {dtype}", values)
        else:
            values = [check_scalar(dtype, label, at) for label in values]
        array = np.array(values, dtype=dtype)
        numbers = array
        if dtype in ("str", "object"):
            numbers = np.array([x for x in values if type(x) is float])  # no others can be infinite
        if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
            raise at.wrong("finite labels", values)
        if len(set(array.tolist())) < len(values):
            raise at.wrong("different labels", values)
        if (size := at.agreed(self.dimension, len(values))) != len(values):
            raise at.wrong(f"{size} labels", values)
        return array


# --- Arrays --------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """What all numbers of an array have in common, in code and in words."""

    holds: Callable[[Array], Any]
    words: str

    def check(self, array: Array, at: Place) -> None:
        """Refuse an array that breaks the rule."""
        if not self.holds(array):
            raise InputError(f"{at.name} {self.words}")


def _is_descending(array: Array) -> Any:
    slack = 1e-9 * max(1.0, float(np.abs(array).max(initial=0.0)))  # for the rounding of means
    return (np.diff(array) <= slack).all()


FINITE = Rule(lambda array: np.isfinite(array).all(), "must be finite")
NOT_NAN = Rule(lambda array: not np.isnan(array).any(), "must not be NaN")
NOT_NEGATIVE = Rule(lambda array: (array >= 0).all(), "must not be negative")
# Thresholds are minus these numbers, so they ascend.
DESCENDING = Rule(_is_descending, "must not increase: the thresholds would not be in order")


@dataclass(frozen=True)
class Numbers:
    """An array of one of some types, of a shape in terms of dimensions; finite if not said."""

    dtypes: str
    shape: tuple[int | str, ...]
    rules: tuple[Rule, ...] = (FINITE,)
    any_order: bool = False  # keep Fortran's order too: a product may depend on it

    def write(self, value: Any, file: Writer) -> Any:
        return file.add(value)

    def check(self, plain: Any, at: Place) -> Any:
        if type(plain) is not str or plain not in at.file.unused:
            raise at.wrong("the name of an array that nothing else uses", plain)
        array = from_npy(at.file.unused.pop(plain))
        shape = f"({', '.join(map(str, self.shape))})"
        fits = array.ndim == len(self.shape) and array.dtype.name in self.dtypes.split()
        if fits:
            sizes = [at.agreed(*pair) for pair in zip(self.shape, array.shape, strict=True)]
            fits, shape = array.shape == tuple(sizes), str(tuple(sizes))
        if not fits:
            kind = " or ".join(self.dtypes.split())
            raise InputError(
                f"{at.name} must be {kind} of shape {shape}, not {array.dtype} of shape "
                f"{array.shape}"
            )
        if not (self.any_order or array.flags.c_contiguous):
            raise InputError(f"{at.name} must be in C order")
        for rule in self.rules:
            rule.check(array, at)
        return array


# --- Values made of others -----------------------------------------------------------------------


@dataclass(frozen=True)
class Optional:
    """A value or null: no such attribute, or None."""

    of: Field

    def write(self, value: Any, file: Writer) -> Any:
        return None if value is None else self.of.write(value, file)

    def check(self, plain: Any, at: Place) -> Any:
        return None if plain is None else self.of.check(plain, at)


@dataclass(frozen=True)
class Pairs:
    """Different strings with values, in order: a dict, or a list of pairs if `as_list`."""

    of: Field
    as_list: bool = False

    def write(self, value: Any, file: Writer) -> Any:
        pairs = list(value if self.as_list else value.items())
        for name, _ in pairs:
            if not isinstance(name, str):
                raise InputTypeError(f"it has the key {shown(name)}, and keys are kept as strings")
        return [[str(name), self.of.write(item, file)] for name, item in pairs]

    def check(self, plain: Any, at: Place) -> Any:
        if type(plain) is not list or not all(
            type(pair) is list and len(pair) == 2 and type(pair[0]) is str for pair in plain
        ):
            raise at.wrong("a list of pairs, a string and a value", plain)
        if len({name for name, _ in plain}) < len(plain):
            raise at.wrong("pairs of different strings", plain)
        parts = {name: self.of.check(item, at.object(name)) for name, item in plain}
        return Plan(lambda built: list(built.items()), parts) if self.as_list else parts


def check_each(fields: dict[str, Field], plain: Any, at: Place) -> dict[str, Any]:
    """Check an object with a key for each field; attributes lose their underscores in a file."""
    at.check_keys(plain, map(key_of, fields))
    return {
        name: of.check(plain[key_of(name)], at.inside(key_of(name))) for name, of in fields.items()
    }


def key_of(attribute: str) -> str:
    """Return an attribute's name in a file."""
    return attribute.strip("_")


@dataclass(frozen=True)
class Record:
    """A named tuple; what is the same in every file is among the `constants`."""

    module: str
    name: str
    fields: dict[str, Field]
    constants: dict[str, Any] = field(default_factory=dict)

    def write(self, value: Any, file: Writer) -> Any:
        for name in {*value._fields} ^ {*self.fields, *self.constants}:
            raise InputTypeError(f"no file keeps {self.name}.{name}")
        return {name: of.write(getattr(value, name), file) for name, of in self.fields.items()}

    def check(self, plain: Any, at: Place) -> Any:
        kind = import_name(self.module, self.name)
        parts = check_each(self.fields, plain, at)
        return Plan(lambda built: kind(**built, **self.constants), parts)


def import_name(module: str, name: str) -> Any:
    """Import a class of the tables: a file says its name, never its module."""
    return getattr(import_module(module), name)


def type_name(kind: type) -> str:
    """Return a type as messages name it."""
    return f"{kind.__module__}.{kind.__qualname__}"


# --- Values of any kind --------------------------------------------------------------------------


class Anything:
    """Whatever a parameter or a checkpoint may be.

    Null, true, false, numbers, strings and lists are JSON's own. Everything else is an object whose
    key "type" says what it is. Tuples become lists.
    """

    def write(self, value: Any, file: Writer) -> Any:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str):
            return str(value)
        if isinstance(value, np.generic | float):
            return self._write_number(value)
        if isinstance(value, int):
            return int(value)
        if isinstance(value, list | tuple):
            return [self.write(item, file) for item in value]
        if isinstance(value, dict):
            return {"type": "dict", "items": ITEMS.write(value, file)}
        if type(value) is np.random.RandomState:
            return self._write_random_state(value, file)
        if (described := file.type_of(value)) is not None:
            return described.write(value, file)
        if hasattr(value, "get_params") and not isinstance(value, type):
            file.foreign.append(value)
            return {"type": "foreign", "position": len(file.foreign) - 1}
        raise InputTypeError(
            f"it holds {shown(value)} of type {type_name(type(value))}, and a file holds data of "
            "known types, no code"
        )

    def _write_number(self, value: Any) -> Any:
        is_plain = not isinstance(value, np.generic)
        number, dtype = (value, "float") if is_plain else (value.item(), value.dtype.name)
        if dtype not in SCALARS:
            raise InputTypeError(f"it holds a number of type {dtype}")
        if isinstance(number, float) and not np.isfinite(number):
            number, is_plain = str(number), False
        return number if is_plain else {"type": "number", "dtype": dtype, "value": number}

    def _write_random_state(self, value: Any, file: Writer) -> Any:
        state = value.get_state(legacy=False)
        if state["bit_generator"] != "MT19937":
            raise InputTypeError(
                f"it holds a RandomState of {state['bit_generator']}, not of MT19937"
            )
        state |= state["state"]
        fields = RANDOM_STATE.items()
        return {"type": "RandomState"} | {name: of.write(state[name], file) for name, of in fields}

    def check(self, plain: Any, at: Place) -> Any:
        if type(plain) is list:
            return [self.check(item, at.object(i)) for i, item in enumerate(plain)]
        if type(plain) is not dict:
            return plain
        kind, rest = plain.get("type"), {key: plain[key] for key in plain if key != "type"}
        if type(kind) is str and kind in at.file.types:
            return at.file.types[kind].check(rest, at)
        if kind == "dict":
            at.check_keys(rest, ["items"])
            return ITEMS.check(rest["items"], at)
        if kind == "number":
            at.check_keys(rest, ("dtype", "value"))
            return check_scalar(rest["dtype"], rest["value"], at)
        if kind == "RandomState":
            parts = check_each(RANDOM_STATE, rest, at)
            return Plan(_make_random_state, parts)
        if kind == "foreign":
            at.check_keys(rest, ["position"])
            return self._check_foreign(rest["position"], at)
        raise InputError(f"{at.name} is of type {shown(kind)}, which is unknown")

    def _check_foreign(self, position: Any, at: Place) -> Plan:
        file = at.file
        if type(position) is not int or position != file.n_foreign:
            raise at.wrong(f"foreign object {file.n_foreign}", position)
        file.n_foreign += 1
        return Plan(lambda _: file.foreign[position], {})


@dataclass(frozen=True)
class Step:
    """An estimator, or what stands for none in a pipeline."""

    def write(self, value: Any, file: Writer) -> Any:
        return ANYTHING.write(value, file)

    def check(self, plain: Any, at: Place) -> Any:
        kind = plain.get("type") if type(plain) is dict else None
        if plain not in (None, "passthrough") and kind not in [*at.file.types, "foreign"]:
            raise at.wrong("an estimator", plain)
        return ANYTHING.check(plain, at)


@dataclass(frozen=True)
class Number:
    """A finite number."""

    def write(self, value: Any, file: Writer) -> Any:
        return ANYTHING.write(value, file)

    def check(self, plain: Any, at: Place) -> Any:
        number = ANYTHING.check(plain, at)
        if not is_number(number):
            raise at.wrong("a finite number", plain)
        return number


ANYTHING = Anything()
ITEMS = Pairs(ANYTHING)
RANDOM_STATE: dict[str, Field] = {
    "key": Numbers("uint32", (624,)),
    "pos": Count(high=624),
    "has_gauss": Choice((0, 1)),
    "gauss": Number(),
}


def _make_random_state(parts: dict[str, Any]) -> Any:
    random_state = np.random.RandomState()
    random_state.set_state(("MT19937", *(parts[name] for name in RANDOM_STATE)))
    return random_state


# --- Estimators ----------------------------------------------------------------------------------


def _nothing(*_: Any) -> None:
    """Do nothing: the fields of this type say all."""


@dataclass(frozen=True)
class Type:
    """An estimator: what a file keeps of it.

    In the file it is ``{"type": name, "parameters": {...}, "learned": {...}}``; before `fit`, what
    was learned is null.
    """

    name: str
    module: str  # where the class is
    learned: dict[str, Field]  # attributes; those that are optional may be missing
    parameters: dict[str, Field] = field(default_factory=dict)  # those that are not plain values
    has_constraints: bool = True  # the class itself says which parameters are valid
    dropped: tuple[str, ...] = ()  # attributes that a file does not keep
    attributes: Callable[[Any], dict[str, Any]] = vars  # where to look for the attributes
    check_more: Callable[[Any, dict[str, Any], Place], None] = _nothing  # what no field can say
    finish: Callable[[Any], None] = _nothing  # makes the attributes that follow from the others

    def write(self, estimator: Any, file: Writer) -> Any:
        """Return an estimator as plain JSON."""
        attributes, parameters = self.attributes(estimator), estimator.get_params(deep=False)
        for name in attributes:
            if name not in {*parameters, *self.learned, *self.dropped}:
                raise InputTypeError(f"no file keeps the attribute {name} of {self.name}")
        needed = [name for name, of in self.learned.items() if not isinstance(of, Optional)]
        is_fitted = all(name in attributes for name in needed)
        if not is_fitted and any(name in attributes for name in self.learned):
            raise InputTypeError(f"{self.name} has learned only a part of {', '.join(needed)}")
        return {
            "type": self.name,
            "parameters": {
                name: self.parameters.get(name, ANYTHING).write(value, file)
                for name, value in parameters.items()
            },
            "learned": {
                key_of(name): of.write(attributes.get(name), file)
                for name, of in self.learned.items()
            }
            if is_fitted
            else None,
        }

    def check(self, plain: dict[str, Any], at: Place) -> Plan:
        """Return the plan of an estimator; its parameters are tried on a blank one."""
        at.check_keys(plain, ("parameters", "learned"))
        kind = import_name(self.module, self.name)
        names = signature(kind).parameters
        fields = {name: self.parameters.get(name, ANYTHING) for name in names}
        place = at.object("parameters")
        parts = {"parameters": check_each(fields, plain["parameters"], place)}
        blank = None
        if self.has_constraints:
            blank = kind(**build(parts["parameters"]))
            blank._validate_params()
        if plain["learned"] is not None or not self.learned:
            place = at.object("learned")
            parts["learned"] = check_each(self.learned, plain["learned"], place)
            self.check_more(blank, parts["learned"], place)

        def make(built: dict[str, Any]) -> Any:
            estimator = kind(**built["parameters"])
            if "learned" in built:
                learned = built["learned"].items()
                vars(estimator).update({name: part for name, part in learned if part is not None})
                self.finish(estimator)
            return estimator

        return Plan(make, parts)
