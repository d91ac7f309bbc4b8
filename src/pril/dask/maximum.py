"""The maximum of a likelihood on a cluster: tasks return the sums of blocks of rows.

First, tasks count the labels of each block. From that the client knows the number of each row among
those that have a label. So the rows can be cut as they would be in memory, whatever blocks they
come in, and the sums are added up in the same tree: the model has the same bits.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property, partial, reduce
from operator import call
from typing import Any, NamedTuple, TypeVar

import numpy as np
from dask import delayed

from pril.bases.weights import class_weights, label_weights
from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.threads import available_memory
from pril.core.words import StepsSoFar
from pril.dask.blocks import (
    NO_ROWS,
    Blocks,
    LazyTable,
    errors_name_block,
    find_classes,
    model_of_features,
)
from pril.dask.client import Cluster, CollectedWarnings, collect_warnings, tree_sum
from pril.errors import InputError
from pril.labels import ranking
from pril.learners.ordered_logit import OrderedLogit
from pril.likelihood import fitting
from pril.likelihood.newton import TOLERANCE
from pril.likelihood.rows import Block, Rows, block_rows
from pril.likelihood.sums import MOST_DENSE
from pril.online import learning
from pril.online.linear_engine import Batch

T = TypeVar("T")


def learn_maximum(model: OrderedLogit, table: LazyTable, cluster: Cluster) -> OrderedLogit:
    """Return the model, fitted to all blocks as `fit` does in memory, bit for bit."""
    classes = find_classes(model, table, cluster)
    model = model_of_features(model, table, cluster)
    model.order_ = classes
    learning.keep_parameters(model)
    rows = labelled_rows(model, table.blocks, cluster)
    steps = StepsSoFar(model.max_iter, TOLERANCE)

    def watch(search: fitting.Fit) -> None:
        nonlocal steps
        if search.maximum.sums is None:  # what came before were no steps on the cluster
            steps = StepsSoFar(model.max_iter, TOLERANCE)
        elif cluster.progress:
            said = steps.add(search.maximum.value)
            print(f"step {len(steps.values)}: {said}", flush=True)

    model.learn_maximum(fitting.fit(rows, model.settings(), watch=watch), rows)
    return model


def labelled_rows(model: OrderedLogit, blocks: Blocks, cluster: Cluster) -> ClusterRows:
    """Return the rows of blocks that have a label, cut as they would be in memory."""
    reader = copy(model)  # as workers need it: it knows the weights of the classes
    reader.class_weight = None
    shared = delayed(reader, traverse=False)
    tasks = [delayed(count_labels)(shared, block, b) for b, block in enumerate(blocks)]
    counted = cluster.compute(delayed(list)(tasks), "counting the labels")
    for one in counted:
        cluster.show_warnings(one.collected)
    if not any(one.rows for one in counted):
        raise InputError(NO_ROWS)
    if not any(one.is_sparse for one in counted):
        cluster.check_memory(max(one.rows for one in counted), model.n_features_in_)
    codes = np.unique(np.concatenate([one.codes for one in counted]))
    counts = np.zeros((len(counted), len(codes)), dtype=np.int64)
    for of_block, one in zip(counts, counted, strict=True):
        of_block[np.searchsorted(codes, one.codes)] = one.counts
    if len(codes) == 0:
        raise InputError("y has no label in any row that counts: there is nothing to learn from")
    order = model.order_
    ends = np.column_stack(np.divmod(codes, len(order)))
    weights = class_weights(model.class_weight, order, ends, counts.sum(axis=0))
    if weights is not None:
        names = map(ranking.plain, order)
        reader.class_weight = dict(zip(names, weights.tolist(), strict=True))
        weigh = label_weights(weights, ends) > 0.0
        ends, counts = ends[weigh], counts[:, weigh]
        if len(ends) == 0:
            raise InputError("class_weight is zero for every row: nothing to learn from")
    kinds, sizes = Kinds(ends, len(order)), counts.sum(axis=1)
    shared, starts, n = delayed(reader, traverse=False), np.cumsum(sizes) - sizes, int(sizes.sum())
    parts = [
        delayed(read_part)(shared, block, b, kinds, int(start), n)
        for b, (block, start) in enumerate(zip(blocks, starts, strict=True))
    ]
    cut = cut_rows(parts, starts, n, block_rows(model.n_features_in_))
    rows = ClusterRows(cut, kinds, n, model.n_features_in_, cluster)
    if not rows.moments.are_finite:
        refused = [delayed(refuse_overflow)(shared, block, b) for b, block in enumerate(blocks)]
        cluster.compute(delayed(list)(refused), "looking for the row that is too large")
        raise InputError("X or sample_weight is too large for sums of all rows: scale it")
    return rows


def cut_rows(parts: list[Any], starts: Array, n: int, size: int) -> list[Any]:
    """Return lazy blocks of n rows, each of this size, from parts that begin at these rows."""
    cut = []
    for start in range(0, n, size):
        stop = min(start + size, n)
        first = int(np.searchsorted(starts, start, side="right")) - 1
        last = int(np.searchsorted(starts, stop, side="left"))
        some = zip(parts[first:last], starts[first:last].tolist(), strict=True)
        pieces = [
            delayed(Block.take)(part, slice(max(start - at, 0), stop - at)) for part, at in some
        ]
        cut.append(delayed(Block.joined)(pieces))
    return cut


# --- Tasks ---------------------------------------------------------------------------------------


class LabelsOfBlock(NamedTuple):
    """How many rows of a block have which label."""

    rows: int
    codes: Array  # the different codes of labels
    counts: Array  # of each
    is_sparse: bool
    collected: CollectedWarnings


def batch_of(model: OrderedLogit, block: Any) -> Batch:
    """Return the rows of a block."""
    X, y, *weights = block
    return learning.prepare(model, X, y, None, *weights)


def count_labels(model: OrderedLogit, block: Any, b: int) -> LabelsOfBlock:
    """Count the labels of the b-th block."""
    with errors_name_block(b), collect_warnings() as collected:
        batch, n_classes = batch_of(model, block), len(model.order_)
    codes = batch.intervals[batch.labelled()] @ [n_classes, 1]
    counted = np.unique(codes, return_counts=True)
    return LabelsOfBlock(len(batch), *counted, not hasattr(batch.rows, "X"), collected)


def read_part(model: OrderedLogit, block: Any, b: int, kinds: Kinds, first: int, n: int) -> Block:
    """Return the rows of the b-th block that have a label; the first of n in all is given."""
    with errors_name_block(b), collect_warnings():  # dropped: counting warns
        return model.labelled_block(batch_of(model, block), kinds, first, n)


def refuse_overflow(model: OrderedLogit, block: Any, b: int) -> None:
    """Refuse the b-th block if its sums overflow."""
    with errors_name_block(b), collect_warnings():
        batch = batch_of(model, block)
        if batch.labelled().any():
            model.labelled_rows(batch)


# --- Rows on a cluster ---------------------------------------------------------------------------


class ClusterRows(Rows):
    """Rows that have a label, in lazy blocks."""

    def __init__(
        self, lazy: list[Any], kinds: Kinds, n: int, n_features: int, cluster: Cluster
    ) -> None:
        self.lazy, self.kinds, self.n, self.cluster = lazy, kinds, n, cluster
        self.n_features = n_features

    def add_up(self, of: Callable[[Block], T], add: Callable[[T, T], T], what: str) -> T:
        """Return the sum of what each block gives, added up by the workers."""
        function = delayed(of, traverse=False)
        tasks = [delayed(call)(function, block) for block in self.lazy]
        return self.cluster.compute(tree_sum(tasks, partial(reduce, add)), what)

    @cached_property
    def blocks(self) -> list[Block]:
        """The rows, in the memory of the client: a step in many features needs them often."""
        sizes = delayed(sum)([block.nbytes for block in self.lazy])
        needed, there = self.cluster.compute(sizes, "looking at the rows"), available_memory()
        if needed > there:
            raise InputError(
                f"with more than {MOST_DENSE:,} features, the client needs all rows in its memory: "
                f"{self.n:,} rows of {self.n_features:,} features take {needed:,} bytes, and "
                f"{there:,} are available; use fewer features, or PRIL"
            )
        return self.cluster.compute(delayed(list)(self.lazy), "reading the rows")
