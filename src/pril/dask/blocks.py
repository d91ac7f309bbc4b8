"""Lazy blocks of X and y: how tables are cut into them, their classes and features, and Pipelines.

A Pipeline is fitted to blocks, or taken as it is; it predicts their rows and is scored on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy, deepcopy
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Union

import dask.array as da
import numpy as np
from dask import delayed
from dask.delayed import Delayed
from dask.optimization import cull
from dask.utils import ensure_dict, is_dataframe_like, is_series_like
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pril.bases.classifier import OrdinalLearner
from pril.bases.parts import Parts
from pril.core.arrays import Array
from pril.dask.client import Cluster, collect_warnings, tree_sum
from pril.errors import InputError, InputTypeError
from pril.labels import ranking

if TYPE_CHECKING:
    import pandas as pd
    from dask.dataframe import DataFrame, Series

NO_ROWS = "X has no rows in any block, and at least one is needed to learn from"
Blocks = Sequence[Any]  # X and y of each block: a lazy pair, or a pair of lazy parts
BlockParts = tuple[Any, ...]  # X, y and perhaps weights, as users pass them
LazyRows = Union["da.Array", "DataFrame"]
LazyLabels = Union["da.Array", "DataFrame", "Series", str, int, Sequence[str | int]]  # or columns
Learner = TypeVar("Learner", bound=OrdinalLearner)


class LazyTable(NamedTuple):
    """Blocks of rows, and what is known of them before one is read."""

    blocks: Blocks
    features: ArrayLike | None = None  # X without rows
    classes: Array | None = None  # lowest first


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


def blocks_of(X: LazyRows, y: Any) -> Blocks:
    """Return the lazy blocks of X and y; a block holds the same rows of both."""
    names = label_columns(X, y)
    if names:
        return [delayed(split_columns)(part, names) for part in _with_own_tasks(X.to_delayed())]
    if isinstance(X, da.Array) and isinstance(y, da.Array):
        has_sizes = not np.isnan([*X.shape, *y.shape]).any()
        if has_sizes and X.shape[0] != y.shape[0]:
            raise InputError(f"X has {X.shape[0]} rows, y has {y.shape[0]} labels")
        if has_sizes and X.chunks[0] != y.chunks[0]:
            y = y.rechunk({0: X.chunks[0]})
    parts, targets = row_blocks(X, "X"), row_blocks(y, "y")
    if len(parts) != len(targets):
        raise InputError(
            f"X has {len(parts)} blocks and y has {len(targets)}: they must hold the same rows. "
            "Pass one DataFrame as X and the names of its label columns as y, or use rechunk or "
            "repartition"
        )
    has_divisions = all(getattr(part, "known_divisions", False) for part in (X, y))
    if has_divisions and X.divisions != y.divisions:
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


def not_lazy_error(name: str, value: object) -> TypeError:
    """Return the error for X or y that are not Dask's."""
    return InputTypeError(
        f"{name} must be a Dask array or DataFrame, got {type(value).__name__}; for data in memory "
        "use the estimator's own methods"
    )


def label_columns(X: LazyRows, y: LazyLabels) -> list[Any]:
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


def split_columns(part: pd.DataFrame, names: list[Any]) -> tuple[Any, Any]:
    """Return features and labels of a partition that holds both."""
    return part.drop(columns=names), part[names[0] if len(names) == 1 else names]


# --- Features and classes ------------------------------------------------------------------------


def empty_features(X: LazyRows, y: LazyLabels) -> ArrayLike | None:
    """Return the features without rows, or None if Dask does not know how many there are."""
    if not isinstance(X, da.Array):
        from dask.dataframe.utils import make_meta

        return make_meta(X).drop(columns=label_columns(X, y))
    return None if np.isnan(X.shape[1]) else np.empty((0, X.shape[1]))


def find_features(model: Learner, X: ArrayLike) -> Learner:
    """Return a copy of the model that knows the features of the first block."""
    model = copy(model)
    with errors_name_block(0):
        model.engine.read(model, X, reset=True, min_rows=0)
    return model


def model_of_features(model: Learner, table: LazyTable, cluster: Cluster) -> Learner:
    """Return the model, which knows its features: those known, or those of the first block."""
    if table.features is None:
        task = delayed(find_features)(delayed(model, traverse=False), table.blocks[0][0])
        return cluster.compute(task, "reading the features of the first block")
    model.engine.read(model, table.features, reset=True, min_rows=0)
    return model


def declared_classes(X: LazyRows, y: LazyLabels) -> Array | None:
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


def find_classes(model: OrdinalLearner, table: LazyTable, cluster: Cluster) -> Array:
    """Return the classes, lowest first: the model's, those known, or those of all labels."""
    if model.classes is not None:
        return ranking.check_classes(model.classes)
    if table.classes is not None:
        return table.classes
    tasks = [delayed(find_labels)(block[1], b) for b, block in enumerate(table.blocks)]
    labels = cluster.compute(tree_sum(tasks, join_labels), "looking for the classes")
    return ranking.encode(labels)[0]


def find_labels(y: ArrayLike, b: int) -> ranking.Labels:
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


# --- Pipelines -----------------------------------------------------------------------------------


def fitted_steps(
    estimator: BaseEstimator, blocks: Blocks, cluster: Cluster
) -> list[tuple[str, Any]]:
    """Return the steps before the learner; an encoder at their beginning is fitted if need be."""
    steps = list(Parts.of(estimator).steps)
    for k, (name, step) in enumerate(steps):
        try:
            check_is_fitted(step)
        except NotFittedError:
            if k > 0 or not hasattr(step, "merge"):
                raise NotFittedError(
                    f"step {name!r} of the pipeline, {type(step).__name__}, is not fitted: fit it "
                    "to some rows first, such as X.head(10_000), or use a ColumnEncoder, which is "
                    "fitted on the cluster"
                ) from None
            tasks = [delayed(fit_step)(step, block[0], b) for b, block in enumerate(blocks)]
            steps[k] = (name, merge_on(cluster, tasks, "reading the columns"))
    return steps


def fit_step(step: BaseEstimator, X: ArrayLike, b: int) -> BaseEstimator | Exception:
    """Return a step fitted to the b-th block, or why that fails."""
    try:
        with errors_name_block(b):
            return clone(step).fit(X)
    except (InputTypeError, InputError) as error:
        return error


def merge_on(cluster: Cluster, tasks: list[Any], doing: str) -> Any:
    """Return what tasks have learned, each from one block, as if from all blocks.

    A task that fails returns its error: that of the first block is raised.
    """
    whole = cluster.compute(tree_sum(tasks, merge), doing)
    if isinstance(whole, Exception):
        raise whole
    return whole


def merge(parts: list[Any]) -> Any:
    """Return what has learned the rows of all parts, which stay as they are; or the first error."""
    for part in parts:
        if isinstance(part, Exception):
            return part
    return reduce(lambda whole, part: whole.merge(part), parts[1:], deepcopy(parts[0]))


def transformed(steps: list[tuple[str, Any]], blocks: Blocks) -> Blocks:
    """Return the blocks with their features after the steps."""
    shared = delayed(Pipeline(steps), traverse=False)  # sent once
    return [delayed(transform_block)(shared, block, b) for b, block in enumerate(blocks)]


def transform_block(steps: Pipeline, block: BlockParts, b: int) -> tuple[Any, ...]:
    """Return the features of a block after the steps, its labels and, if given, its weights."""
    X, *labels = block
    if X.shape[0] == 0:  # most transformers refuse a block without rows
        return np.empty((0, len(steps[-1].get_feature_names_out()))), *labels
    with errors_name_block(b):
        return steps.transform(X), *labels


def predict_lazily(estimator: BaseEstimator, X: LazyRows, method: str, dtype: np.dtype) -> LazyRows:
    """Return a method's result for each row, as a Dask array or Series."""
    model = delayed(estimator, traverse=False)  # sent once, not with every block
    if isinstance(X, da.Array):
        row_blocks(X, "X")  # refuses blocks that are not whole rows
        options = {"dtype": dtype, "drop_axis": 1, "meta": np.empty(0, dtype=dtype)}
        return X.map_blocks(predict_block, model, method, dtype, **options)
    if not is_dataframe_like(X) or not hasattr(X, "map_partitions"):
        raise not_lazy_error("X", X)
    import pandas as pd
    from dask.dataframe.utils import make_meta

    dtype = pd.Series(estimator.classes_).dtype if method == "predict" else dtype
    meta = pd.Series(dtype=dtype, name=method, index=make_meta(X).index)
    return X.map_partitions(predict_block, model, method, dtype, meta=meta)


def predict_block(
    X: Any, model: Any, method: str, dtype: Any, block_id: Any = None, partition_info: Any = None
) -> Any:
    """Return a method's result for each row of a block, with the index of a DataFrame."""
    b = partition_info["number"] if partition_info else block_id and block_id[0]
    predicted = np.empty(0, dtype=None if is_dataframe_like(X) else dtype)
    if X.shape[0]:  # most steps refuse a block without rows
        with errors_name_block(b):
            if hasattr(model, method):
                predicted = getattr(model, method)(X)
            else:  # a Pipeline has no `latent`
                parts = Parts.of(model)
                predicted = getattr(parts.learner, method)(parts.transform(X))
    if not is_dataframe_like(X):
        return predicted
    import pandas as pd

    return pd.Series(predicted, index=X.index, name=method, dtype=dtype)


def score_lazily(estimator: BaseEstimator, X: LazyRows, y: LazyLabels) -> Delayed:
    """Return the share of predictions inside their interval, as a Delayed."""
    model = delayed(estimator, traverse=False)
    hits = [delayed(count_hits)(model, block, b) for b, block in enumerate(blocks_of(X, y))]
    return delayed(share_of_hits)(tree_sum(hits, sum))


def count_hits(model: OrdinalLearner, block: BlockParts, b: int) -> Array:
    """Return the number of predictions inside their interval, and of rows with a label."""
    X, y = block
    with errors_name_block(b):
        labels = ranking.read(y)
        ranking.check_length(labels.values, range(X.shape[0]))
        rows = int(labels.labelled().sum())
        # The share is a quotient of whole numbers below 2^53: rounding finds the hits again.
        return np.array([round(model.score(X, labels) * rows) if rows else 0, rows])


def share_of_hits(counts: Array) -> float:
    """Return hits over rows."""
    hits, rows = counts.tolist()
    if rows == 0:
        raise InputError("X has no rows in any block, and at least one is needed for a score")
    return float(hits / rows)
