"""Boosting on a cluster: every worker holds the bins of all rows, and grows some of the folds.

Blocks are read, checked and binned by tasks; labels, weights and a sample of the rows go to the
client, which learns from them what the folds begin with. Then a worker has two tasks in each round,
which answer with a few hundred numbers. A worker's folds are the result of a task, which the
cluster forgets with its last future: nothing is left behind, whoever dies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple, NoReturn

import numpy as np
from dask import delayed
from distributed import get_worker

from pril.bases.weights import read_weights
from pril.core.arrays import Array
from pril.dask.blocks import LazyTable, errors_name_block, model_of_features
from pril.dask.client import Cluster
from pril.errors import InputTypeError, RowError
from pril.labels import ranking
from pril.learners.boosting.cross_fitting import print_rounds
from pril.learners.boosting.features import find_categories
from pril.learners.boosting.folds import Encoded, Fold, Plan, Source, T
from pril.learners.ordered_boosting import OrderedBoosting, encode_labels, learn

MISSING = 255  # the code of a missing value on its way, in a byte


def learn_blocks(model: OrderedBoosting, table: LazyTable, cluster: Cluster) -> OrderedBoosting:
    """Return the model, fitted to all blocks as `fit` does in memory, bit for bit."""
    blocks = table.blocks
    watch = print_rounds() if model.verbose or cluster.progress else None
    tasks = [delayed(describe)(model, block, b) for b, block in enumerate(blocks)]
    described = cluster.compute(delayed(list)(tasks), "reading labels and categories")
    categories: dict[str, set[Any]] = {}
    for block in described:
        for k, values in block.categories.items():
            categories.setdefault(k, set()).update(values)
    model.categories_ = {
        k: sorted(values, key=lambda value: (isinstance(value, str), value))
        for k, values in sorted(categories.items(), key=lambda item: int(item[0]))
    }
    model = model_of_features(model, table, cluster)
    weight = np.concatenate([block.weight for block in described])
    labels = ranking.stack([block.labels for block in described])
    order = model.classes if table.classes is None else table.classes
    sizes = [len(block.weight) for block in described]
    naming = partial(errors_name_place, sizes=sizes)
    intervals = encode_labels(model, labels, weight, order, naming)

    def source(counts: Array) -> BlockRows:
        masks = np.split(counts, np.cumsum(sizes)[:-1])
        shared = delayed(model, traverse=False)
        parts = [
            delayed(read_block)(shared, block, mask, b)
            for b, (block, mask) in enumerate(zip(blocks, masks, strict=True))
        ]
        return BlockRows(parts, [int(mask.sum()) for mask in masks], cluster)

    if cluster.client is None:
        learn(model, source, intervals, weight, watch)
        return model
    with Workers(cluster) as workers:
        learn(model, source, intervals, weight, watch, runner=workers)
    return model


@contextmanager
def errors_name_place(rows: Array, sizes: list[int]) -> Iterator[None]:
    """Let errors about some rows of all blocks name the block, and the row in it."""
    try:
        yield
    except RowError as error:
        row, ends = rows[error.row], np.cumsum(sizes)
        block = int(np.searchsorted(ends, row, side="right"))
        inside = int(row - ends[block] + sizes[block])
        place = f"block {block}, row {inside}"
        raise RowError(error.argument, inside, error.reason, place, error.hint) from None


# --- Tasks ---------------------------------------------------------------------------------------


class Described(NamedTuple):
    """What a block tells before its features are read."""

    labels: ranking.Labels
    weight: Array
    categories: dict[str, list[Any]]


def describe(model: OrderedBoosting, block: tuple[Any, ...], b: int) -> Described:
    """Return labels, weights and categories of the b-th block."""
    X, y, *weights = block
    with errors_name_block(b):
        labels, n = ranking.read(y), X.shape[0]
        ranking.check_length(labels.values, range(n))
        weight = read_weights(weights[0], n) if weights and weights[0] is not None else np.ones(n)
        labels = labels._replace(block=b)
        return Described(labels, weight, find_categories(model.categorical_features, X))


def read_block(model: OrderedBoosting, block: tuple[Any, ...], mask: Array, b: int) -> Array:
    """Return the features of the rows that count in the b-th block."""
    if not mask.any():
        return np.empty((0, model.n_features_in_))
    with errors_name_block(b):
        X: Array = model.engine.read(model, block[0], reset=False, min_rows=0).X
    return X if mask.all() else X[mask]


def encode_block(plan: Plan, X: Array) -> Encoded:
    """Return a block as folds get it, the codes in bytes if they fit."""
    codes, scores = plan.encode(X)
    if len(codes) and np.nanmax(codes, initial=0.0) >= MISSING:
        return Encoded(codes, scores)
    return Encoded(np.where(np.isnan(codes), MISSING, codes).astype(np.uint8), scores)


def decoded(part: Encoded) -> Encoded:
    """Return what `encode_block` was given by the plan."""
    if part.codes.dtype != np.uint8:
        return part
    codes = part.codes.astype(np.float32)
    codes[part.codes == MISSING] = np.nan
    return part._replace(codes=codes)


class HeldFolds:
    """Folds that a worker holds; they stay in its memory, and are never copied."""

    def __init__(self, folds: list[Fold], n_threads: int) -> None:
        self.folds, self.n_threads = folds, n_threads

    def __reduce__(self) -> NoReturn:
        raise InputTypeError("folds of boosting stay where they are")


def begin(plan: Plan, numbers: list[int], parts: list[Encoded]) -> HeldFolds:
    """Make some folds on a worker."""
    return HeldFolds(plan.folds(numbers, map(decoded, parts)), get_worker().state.nthreads)


def call(held: HeldFolds, verb: Callable[..., T], arguments: tuple[Any, ...]) -> dict[int, T]:
    """Call a method of each fold of a worker; return the results by the numbers of the folds."""
    with ThreadPoolExecutor(held.n_threads) as pool:
        results = pool.map(lambda fold: verb(fold, *arguments), held.folds)
        return dict(zip((fold.number for fold in held.folds), results, strict=True))


# --- Where rows and folds are --------------------------------------------------------------------


class BlockRows:
    """Features of lazy blocks: a `Source` of boosting."""

    def __init__(self, blocks: list[Any], sizes: list[int], cluster: Cluster) -> None:
        self.blocks, self.sizes, self.cluster = blocks, sizes, cluster
        self.n_rows, self.is_scarce = sum(sizes), False

    def take(self, rows: Array) -> Array:
        """Return some rows, given by their numbers, ascending."""
        ends = np.cumsum(self.sizes)
        parts = np.split(rows, np.searchsorted(rows, ends[:-1]))
        starts = ends - self.sizes
        some = [
            block[part - start]
            for block, part, start in zip(self.blocks, parts, starts, strict=True)
            if len(part)
        ]
        return np.concatenate(self.cluster.compute(delayed(list)(some), "reading a sample"))

    def parts(self) -> Iterator[Array]:
        """Return all rows, in parts of any size."""
        return (self.cluster.compute(block, "reading the features") for block in self.blocks)


class Workers:
    """Folds on the workers of a cluster: a `FoldRunner`. Use it in a `with` statement."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.held: dict[str, Any] = {}  # a future for each address

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *error: object) -> None:
        self.cluster.forget(self.held)

    def begin(self, plan: Plan, source: Source) -> None:
        """Bin all blocks where they are, and make the folds."""
        n_folds, addresses = len(plan.centres), self.cluster.addresses()
        n_workers = min(n_folds, len(addresses))
        shared = delayed(plan, traverse=False)
        parts = []
        if plan.scores is None and isinstance(source, BlockRows):
            parts = [delayed(encode_block)(shared, block) for block in source.blocks]
        tasks = {
            address: delayed(begin)(shared, [*range(k, n_folds, n_workers)], parts)
            for k, address in enumerate(addresses[:n_workers])
        }
        self.held = self.cluster.hold(tasks)
        self.cluster.ask(self.held, "making the folds", call, Fold.trees, (0,))  # waits for them

    def each(self, verb: Callable[..., T], *arguments: object) -> list[T]:
        """Call a method of `Fold` for each; return the results in the order of the folds."""
        answers = self.cluster.ask(self.held, "growing trees", call, verb, arguments)
        by_number = {j: answer for by_fold in answers.values() for j, answer in by_fold.items()}
        return [by_number[j] for j in sorted(by_number)]
