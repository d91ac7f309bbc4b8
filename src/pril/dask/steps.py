"""The steps of a Pipeline before the learner: fitted on the cluster, or taken as they are."""

from __future__ import annotations

from copy import deepcopy
from functools import reduce
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
