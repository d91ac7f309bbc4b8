"""Notes of a user, kept with a model: a small JSON object."""

from __future__ import annotations

import json
import math
from typing import Any

from pril.errors import InputError, InputTypeError, shown

USER = "user"  # the key of a user's notes among the notes of a file
LARGEST = 1 << 16  # bytes of JSON
DEEPEST = 20  # lists and objects inside each other


def check_notes(notes: Any) -> dict[str, Any]:
    """Return notes, if JSON has all that is in them and they are small; refuse others by place."""
    if type(notes) is not dict:
        raise InputTypeError(f"notes must be a dict, got {shown(notes)}")
    _check(notes, "notes", 0)
    size = len(json.dumps(notes))
    if size > LARGEST:
        raise InputError(f"notes take {size:,} bytes as JSON, and a file keeps at most {LARGEST:,}")
    return notes


def _check(value: Any, place: str, depth: int) -> None:
    kind = type(value)  # a subclass, such as a number of NumPy, would come back as another type
    if depth > DEEPEST:
        raise InputError(f"{place[:100]}...: more than {DEEPEST} lists or dicts inside each other")
    if kind is dict:
        for key, entry in value.items():
            if type(key) is not str:
                raise InputTypeError(f"{place}: a key must be a string, got {shown(key)}")
            _check_text(key, f"{place}: the key")
            _check(entry, f"{place}[{shown(key)}]", depth + 1)
    elif kind is list:
        for k, entry in enumerate(value):
            _check(entry, f"{place}[{k}]", depth + 1)
    elif kind is str:
        _check_text(value, place)
    elif kind is int and not -(2**63) <= value < 2**63:
        raise InputError(f"{place}: {shown(value)} does not fit into 64 bits")
    elif kind is float and not math.isfinite(value):
        raise InputError(f"{place}: JSON has no {value}")
    elif kind not in (bool, int, float, type(None)):
        name = f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins.")
        raise InputTypeError(f"{place}: JSON has no {name}, got {shown(value)}")


def _check_text(text: str, place: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InputError(f"{place} {shown(text)} is not valid Unicode") from None
