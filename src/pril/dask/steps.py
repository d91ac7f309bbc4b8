"""A Pipeline on blocks: its steps fitted, or taken as they are; its predictions and scores."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
from typing import Any

import dask.array as da
import numpy as np
from dask import delayed
from dask.utils import is_dataframe_like
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pril.core import ranking
from pril.core.parts import Parts
from pril.dask.blocks import Blocks, blocks_of, errors_name_block, not_lazy_error, row_blocks
from pril.dask.client import Cluster, tree_sum
from pril.errors import InputError, InputTypeError


def fitted_steps(estimator: Any, blocks: Blocks, cluster: Cluster) -> list[tuple[str, Any]]:
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


def fit_step(step: Any, X: Any, b: int) -> Any:
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


def transform_block(steps: Pipeline, block: Any, b: int) -> tuple[Any, ...]:
    """Return the features of a block after the steps, its labels and, if given, its weights."""
    X, *labels = block
    if X.shape[0] == 0:  # most transformers refuse a block without rows
        return np.empty((0, len(steps[-1].get_feature_names_out()))), *labels
    with errors_name_block(b):
        return steps.transform(X), *labels


def predict_lazily(estimator: Any, X: Any, method: str, dtype: Any) -> Any:
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
    """Return a method's result for each row of a block; of a DataFrame, with its index."""
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


def score_lazily(estimator: Any, X: Any, y: Any) -> Any:
    """Return the share of predictions inside their interval, as a Delayed."""
    model = delayed(estimator, traverse=False)
    hits = [delayed(count_hits)(model, block, b) for b, block in enumerate(blocks_of(X, y))]
    return delayed(share_of_hits)(tree_sum(hits, sum))


def count_hits(model: Any, block: Any, b: int) -> Any:
    """Return the number of predictions inside their interval, and of rows with a label."""
    X, y = block
    with errors_name_block(b):
        labels = ranking.read(y)
        ranking.check_length(labels.values, range(X.shape[0]))
        rows = int(labels.labelled().sum())
        return np.array([round(model.score(X, labels) * rows) if rows else 0, rows])


def share_of_hits(counts: Any) -> float:
    """Return hits over rows."""
    hits, rows = counts.tolist()
    if rows == 0:
        raise InputError("X has no rows in any block, and at least one is needed for a score")
    return float(hits / rows)
