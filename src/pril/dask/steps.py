"""The steps of a Pipeline before the learner: fitted on the cluster, or taken as they are."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import numpy as np
from dask import delayed
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from pril.core.parts import Parts
from pril.dask.blocks import Blocks, errors_name_block
from pril.dask.client import Cluster, tree_sum


def fitted_steps(estimator: Any, blocks: Blocks, cluster: Cluster) -> list[tuple[str, Any]]:
    """Return the steps before the learner; an encoder of columns is fitted to all blocks."""
    steps = list(Parts.of(estimator).steps)
    if steps and hasattr(steps[0][1], "merge"):
        name, encoder = steps[0]
        parts = [
            delayed(fit_encoder)(clone(encoder), block[0], b) for b, block in enumerate(blocks)
        ]
        encoder = cluster.compute(tree_sum(parts, merge_encoders), "reading the columns")
        steps[0] = (name, encoder)
    for name, step in steps:
        try:
            check_is_fitted(step)
        except NotFittedError:
            raise NotFittedError(
                f"step {name!r} of the pipeline, {type(step).__name__}, is not fitted: fit it to "
                "some rows first, such as X.head(10_000), or use a ColumnEncoder, which is fitted "
                "on the cluster"
            ) from None
    return steps


def fit_encoder(encoder: Any, X: Any, b: int) -> Any:
    """Return an encoder fitted to the b-th block."""
    with errors_name_block(b):
        return clone(encoder).fit(X)


def merge_encoders(parts: list[Any]) -> Any:
    """Return an encoder that knows the rows of all; the parts stay as they are."""
    whole = deepcopy(parts[0])
    for part in parts[1:]:
        whole.merge(part)
    return whole


def transformed(steps: list[tuple[str, Any]], blocks: Blocks) -> Blocks:
    """Return the blocks with their features after the steps."""
    shared = delayed(Pipeline(steps), traverse=False)  # sent once
    return [delayed(transform_block)(shared, block, b) for b, block in enumerate(blocks)]


def transform_block(steps: Pipeline, block: Any, b: int) -> tuple[Any, Any]:
    """Return the features of a block after the steps, and its labels."""
    X, y = block
    if X.shape[0] == 0:  # most transformers refuse a block without rows
        return np.empty((0, len(steps[-1].get_feature_names_out()))), y
    with errors_name_block(b):
        return steps.transform(X), y
