"""Lazy blocks of X and y: how tables are cut into them, and the classes and features they have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from dask.delayed import Delayed
from dask.optimization import cull
from dask.utils import ensure_dict, is_dataframe_like, is_series_like

from pril.core import ranking
from pril.core.arrays import Array
from pril.dask.client import Cluster, collect_warnings, tree_sum
from pril.errors import InputError, InputTypeError

Blocks = Sequence[Any]  # X and y of each block: a lazy pair, or a pair of lazy parts


@contextmanager
def errors_name_block(block: int | None) -> Iterator[None]:
    """Put the number of the block, if it is known, before errors about its rows."""
    try:
        yield
    except (InputTypeError, InputError) as error:
        if block is None:
            raise
        kind = InputTypeError if isinstance(error, TypeError) else InputError
        raise kind(f"block {block}: {error}") from error


# --- Cutting tables into blocks ------------------------------------------------------------------


def blocks_of(X: Any, y: Any) -> Blocks:
    """Return the lazy blocks of X and y; a block holds the same rows of both."""
    names = label_columns(X, y)
    if names:
        return [delayed(split_columns)(part, names) for part in _with_own_tasks(X.to_delayed())]
    if isinstance(X, da.Array) and isinstance(y, da.Array):
        known = not np.isnan([*X.shape, *y.shape]).any()
        if known and X.shape[0] != y.shape[0]:
            raise InputError(f"X has {X.shape[0]} rows, y has {y.shape[0]} labels")
        if known and X.chunks[0] != y.chunks[0]:
            y = y.rechunk({0: X.chunks[0]})
    parts, targets = row_blocks(X, "X"), row_blocks(y, "y")
    if len(parts) != len(targets):
        raise InputError(
            f"X has {len(parts)} blocks and y has {len(targets)}: they must hold the same rows. "
            "Pass one DataFrame as X and the names of its label columns as y, or use rechunk or "
            "repartition"
        )
    known = all(getattr(part, "known_divisions", False) for part in (X, y))
    if known and X.divisions != y.divisions:
        raise InputError(
            f"X has the divisions {ranking.named(X.divisions)} and y has "
            f"{ranking.named(y.divisions)}: they must hold the same rows, for example as columns "
            "of one DataFrame, or after y.repartition(divisions=X.divisions)"
        )
    return list(zip(parts, targets, strict=True))


def row_blocks(array: Any, name: str) -> list[Any]:
    """Return the lazy blocks of X or y, each of them whole rows."""
    if not isinstance(array, da.Array):
        lazy = hasattr(array, "to_delayed") and hasattr(array, "npartitions")
        if not lazy or not (is_dataframe_like(array) or (name == "y" and is_series_like(array))):
            raise not_lazy_error(name, array)
        return _with_own_tasks(array.to_delayed())
    if array.ndim not in ((2,) if name == "X" else (1, 2)):
        raise InputError(f"{name} must be a table of rows, got an array of shape {array.shape}")
    if array.ndim == 2 and array.numblocks[1] > 1:
        if name == "X":
            raise InputError(
                f"X is cut into {array.numblocks[1]} blocks of columns, and a learner needs whole "
                "rows: use X.rechunk({1: -1})"
            )
        array = array.rechunk({1: -1})
    parts = array.to_delayed().ravel()
    if len(parts) and not ensure_dict(parts[0].__dask_graph__()):
        # Some versions of Dask lose the futures of an array that was persisted.
        parts = array.to_delayed(optimize_graph=False).ravel()
    return _with_own_tasks(parts)


def _with_own_tasks(parts: Sequence[Any]) -> list[Any]:
    """Return lazy parts of a table, each with the tasks it needs and no others.

    Dask gives each part the tasks of the whole table, and would go through all of them for each.
    """
    graph = ensure_dict(parts[0].__dask_graph__()) if len(parts) else {}
    return [Delayed(part.key, cull(graph, [part.key])[0]) for part in parts]


def not_lazy_error(name: str, value: Any) -> TypeError:
    """Return the error for X or y that are not Dask's."""
    return InputTypeError(
        f"{name} must be a Dask array or DataFrame, got {type(value).__name__}; for data in memory "
        "use the estimator's own methods"
    )


def label_columns(X: Any, y: Any) -> list[Any]:
    """Return the columns of X that are its labels; none if y does not name columns."""
    is_frame = is_dataframe_like(X) and hasattr(X, "to_delayed")
    kinds = (str, int, np.integer) if is_frame else str  # without columns, numbers are labels
    names = [y] if isinstance(y, kinds) else y
    if not isinstance(names, list | tuple) or not all(isinstance(name, kinds) for name in names):
        return []
    if not is_frame:
        raise InputTypeError(f"y names columns, but X is not a Dask DataFrame: {type(X).__name__}")
    if len(names) not in (1, 2):
        raise InputError(
            f"y must name one column, or a lower and an upper end, got {ranking.named(names)}"
        )
    missing = [name for name in names if name not in X.columns]
    if missing:
        raise InputError(f"X has no column {missing[0]!r}, only {ranking.named(X.columns)}")
    return list(names)


def split_columns(part: Any, names: list[Any]) -> tuple[Any, Any]:
    """Return features and labels of a partition that holds both."""
    return part.drop(columns=names), part[names[0] if len(names) == 1 else names]


# --- Features and classes ------------------------------------------------------------------------


def empty_features(X: Any, y: Any) -> Any:
    """Return the features without rows, or None if Dask does not know how many there are."""
    if not isinstance(X, da.Array):
        from dask.dataframe.utils import make_meta

        return make_meta(X).drop(columns=label_columns(X, y))
    return None if np.isnan(X.shape[1]) else np.empty((0, X.shape[1]))


def find_features(model: Any, X: Any) -> Any:
    """Return a copy of the model that knows the features of the first block."""
    model = copy(model)
    with errors_name_block(0):
        model.engine.read(model, X, reset=True, min_rows=0)
    return model


def model_of_features(model: Any, features: Any, blocks: Blocks, cluster: Cluster) -> Any:
    """Return the model, which knows its features: X without rows, or None to read a block."""
    if features is None:
        task = delayed(find_features)(delayed(model, traverse=False), blocks[0][0])
        return cluster.compute(task, "reading the features of the first block")
    model.engine.read(model, features, reset=True, min_rows=0)
    return model


def declared_classes(X: Any, y: Any) -> Array | None:
    """Return the classes of an ordered Categorical, or None if Dask does not know them yet."""
    names = label_columns(X, y)
    columns = X[names] if names else y
    if isinstance(columns, da.Array):
        return None
    from dask.dataframe.utils import UNKNOWN_CATEGORIES, make_meta

    meta = make_meta(columns)
    dtypes = [meta.dtype] if meta.ndim == 1 else list(meta.dtypes)
    if any(UNKNOWN_CATEGORIES in getattr(dtype, "categories", ()) for dtype in dtypes):
        return None
    table = ranking.read(meta.iloc[:, 0] if len(names) == 1 else meta)
    return table.vocabulary if table.ordered else None


def find_classes(blocks: Blocks, cluster: Cluster) -> Array:
    """Read all labels and return the classes, lowest first."""
    tables = [delayed(find_labels)(block[1], b) for b, block in enumerate(blocks)]
    table = cluster.compute(tree_sum(tables, join_labels), "looking for the classes")
    return ranking.encode(table)[0]


def find_labels(y: Any, b: int) -> ranking.Labels:
    """Return the distinct labels of the b-th block, with their rows."""
    with errors_name_block(b), collect_warnings():  # dropped: learning warns again
        labels = ranking.distinct(ranking.read(y)._replace(block=b))
    if labels.vocabulary is None:
        fractions = np.flatnonzero((labels.values % 1 > 0).any(axis=1))
        if fractions.size:  # The client refuses a fraction: send it one, there may be many.
            keep = fractions[:1]
            labels = labels._replace(values=labels.values[keep], places=(labels.places[keep[0]],))
    return labels


def join_labels(tables: list[ranking.Labels]) -> ranking.Labels:
    """Return the distinct labels of several blocks."""
    return ranking.distinct(ranking.stack(tables))
