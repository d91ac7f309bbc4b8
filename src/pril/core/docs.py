"""Docstrings that take descriptions from other docstrings, so that each is written once."""

from __future__ import annotations

import re
from inspect import cleandoc
from textwrap import indent

PLACE = re.compile(r"^( *)%\((.*)\)$", re.MULTILINE)
ENTRY = re.compile(r"^(\w+) : .*(?:\n .*)*", re.MULTILINE)


def filled(doc: str | None, source: str | None) -> str | None:
    """Return a docstring with descriptions from another: ``%(X y)`` becomes those of X and y."""
    if doc is None or source is None:  # python -OO
        return doc
    entries = {entry[1]: entry[0] for entry in ENTRY.finditer(cleandoc(source))}

    def describe(place: re.Match[str]) -> str:
        return indent("\n".join(entries[name] for name in place[2].split()), place[1])

    return PLACE.sub(describe, doc)
