"""Estimators of other libraries in a model file: one member, written and read by skops.

skops gives other bytes in every process. What it writes is repacked without compression, so that
nothing that is read is larger than the file.
"""

from __future__ import annotations

import json
import sys
from functools import cache
from typing import Any

import msgspec
import numpy as np
import skops.io
from scipy.sparse import csr_array, csr_matrix
from sklearn.metrics import get_scorer, get_scorer_names
from sklearn.model_selection import KFold

from pril.core.scikit import score_function
from pril.errors import InputError
from pril.io import archive
from pril.io.content import ContentWriter, EstimatorNode, read_content, type_name
from pril.io.schema import TYPES


def pack(estimators: list[Any]) -> bytes:
    """Return a member."""
    return _repacked(skops.io.dumps(estimators))


def unknown_types(member: bytes) -> list[str]:
    """Return the names of the types in a member that are not trusted; it is safe to parse then."""
    _check_archive(member)
    return sorted(set(skops.io.get_untrusted_types(data=member)) - set(trusted_types()))


def unpack(member: bytes) -> list[Any]:
    """Return the estimators of a member whose types are all trusted."""
    estimators = skops.io.loads(member, trusted=list(trusted_types()))
    if type(estimators) is not list:
        raise InputError("foreign.skops must hold a list of steps")
    _check_inside(estimators)
    return estimators


def _check_inside(objects: list[Any]) -> None:
    """Check objects of ours that objects of other libraries hold: the compiled loop trusts them."""
    rest, seen = list(objects), set()
    while rest:
        item = rest.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if type(item).__name__ in TYPES:
            writer = ContentWriter()
            if isinstance(node := writer.value(item), EstimatorNode):
                read_content(msgspec.to_builtins(node), writer.arrays, writer.foreign)
        if isinstance(item, dict):
            rest.extend(item.values())
        elif isinstance(item, list | tuple | set):
            rest.extend(item)
        elif isinstance(item, np.ndarray):
            rest.extend(item.flat if item.dtype == object else ())
        else:
            rest.extend(getattr(item, "__dict__", {}).values())


# What a search keeps besides estimators: how it cut the rows, and how it scored.
SEARCHES = (
    "sklearn.metrics._scorer._PassthroughScorer",
    "sklearn.metrics._scorer._Scorer",
    "pril.metrics.IntervalScorer",
    "pril.metrics.interval_absolute_error",
    "pril.metrics.interval_accuracy",
    "numpy.ma.MaskedArray",
)


@cache
def trusted_types() -> tuple[str, ...]:
    """Return the names of types that a member may hold besides those that skops trusts.

    They are our own, and what scikit-learn's transformers and searches keep. Building them runs no
    code of the file's choosing.
    """
    ours = (f"{kind.module}.{kind.name}" for kind in TYPES.values())
    metrics = {type_name(score_function(get_scorer(name))) for name in get_scorer_names()}
    module = vars(sys.modules[KFold.__module__])
    splitters = (module[name] for name in module if hasattr(module[name], "get_n_splits"))
    kept = map(type_name, (csr_array, csr_matrix, np.dtype, *splitters))
    return (*ours, *kept, *SEARCHES, *sorted(metrics))


def _repacked(data: bytes) -> bytes:
    """Return an archive uncompressed, and the archives in it too: a sparse matrix is one."""
    members = archive.unpack(data, compressed=True)
    return archive.pack(
        {name: _repacked(part) if _is_archive(part) else part for name, part in members.items()}
    )


def _is_archive(member: bytes) -> bool:
    return member.startswith(archive.MAGIC)


def _check_archive(member: bytes) -> None:
    """Refuse a member that skops could not read in time or memory that the file's size bounds."""
    members = archive.unpack(member)
    for part in filter(_is_archive, members.values()):
        archive.unpack(part)
    # Objects with one number are one object to skops. Each must be described in full wherever it
    # occurs, as skops does, or a short file could describe a tree that no computer can walk.
    described: dict[Any, Any] = {}

    def check(node: dict[str, Any]) -> dict[str, Any]:
        number, _ = node.pop("__id__", None), node.pop("file", None)  # only these may differ
        if number is not None and described.setdefault(number, node) != node:
            raise InputError("two objects share an id")
        return node

    json.loads(members["schema.json"], object_hook=check)
