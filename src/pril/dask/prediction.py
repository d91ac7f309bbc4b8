"""Predictions and scores, block by block."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import dask.array as da
import numpy as np
from dask import delayed
from dask.utils import is_dataframe_like

from pril.core import ranking
from pril.core.parts import Parts
from pril.dask.blocks import blocks_of, errors_name_block, not_lazy_error, row_blocks
from pril.dask.client import tree_sum
from pril.dask.steps import apply_steps
from pril.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


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

    dtype = pd.Series(estimator.classes_).dtype if method == "predict" else dtype
    meta = pd.Series(dtype=dtype, name=method, index=X._meta.index)
    return X.map_partitions(predict_partition, model, method, dtype, meta=meta)


def predict_block(X: Any, model: Any, method: str, dtype: Any, block_id: Any = None) -> Array:
    """Return a method's result for each row of a block, which may be empty."""
    if X.shape[0] == 0:
        return np.empty(0, dtype=dtype)
    with errors_name_block(None if block_id is None else block_id[0]):
        if not hasattr(model, method):  # a Pipeline has no `latent`
            parts = Parts.of(model)
            model, X = parts.learner, apply_steps([step for _, step in parts.steps], X)
        predicted: Array = getattr(model, method)(X)
    return predicted


def predict_partition(
    X: Any, model: Any, method: str, dtype: Any, partition_info: Any = None
) -> Any:
    """Return a method's result for each row of a partition, with its index."""
    import pandas as pd

    block = None if partition_info is None else (partition_info["number"],)
    predicted = predict_block(X, model, method, None, block)
    return pd.Series(predicted, index=X.index, name=method, dtype=dtype)


def score_lazily(estimator: Any, X: Any, y: Any) -> Any:
    """Return the share of predictions inside their interval, as a Delayed."""
    model = delayed(estimator, traverse=False)
    hits = [delayed(count_hits)(model, block, b) for b, block in enumerate(blocks_of(X, y))]
    return delayed(share_of_hits)(tree_sum(hits, add_hits))


def count_hits(model: Any, block: Any, b: int) -> tuple[int, int]:
    """Return the number of predictions inside their interval, and of rows with a label."""
    X, y = block
    with errors_name_block(b):
        labels = ranking.read(y)
        ranking.check_length(labels.values, range(X.shape[0]))
        rows = int(labels.labelled().sum())
        return (round(model.score(X, labels) * rows), rows) if rows else (0, 0)


def add_hits(parts: list[tuple[int, int]]) -> tuple[int, int]:
    """Add up hits and rows."""
    hits, rows = zip(*parts, strict=True)
    return sum(hits), sum(rows)


def share_of_hits(counts: tuple[int, int]) -> float:
    """Return hits over rows."""
    hits, rows = counts
    if rows == 0:
        raise InputError("X has no rows in any block, and at least one is needed for a score")
    return hits / rows
