"""Two ways to learn from lazy blocks: chain and mix.

A task is a pure function of a model and a block: it learns on a copy, so Dask may run it twice or
give its inputs to several tasks. Sums over blocks are added in the order of the blocks, so the
result does not depend on which worker computed what, or on what was lost and computed again.

Order of thresholds. Lemma 1 of the paper holds for thresholds that are integers, and a mean is not
an integer. Where the state says that its thresholds are integers (`lattice`), mixing therefore
makes them ordered integers again: isotonic regression, then rounding. The lemma then holds in the
next pass of every block, and `decode` and `step` rely on it. The remainder of the rounding is
carried to the next round: with many or short blocks the mean change is often below a half, and
rounding alone would drop it in every round. Thresholds that are not integers are not rounded:
isotonic regression keeps them in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Literal, NamedTuple

import numpy as np
from dask import delayed
from dask.delayed import Delayed
from sklearn.isotonic import isotonic_regression
from sklearn.utils import check_random_state

from pril.core import rating
from pril.core.arrays import Array
from pril.dask.blocks import (
    NO_ROWS,
    BlockParts,
    Blocks,
    LazyTable,
    errors_name_block,
    find_classes,
    model_of_features,
)
from pril.dask.client import Cluster, CollectedWarnings, collect_warnings, tree_sum
from pril.errors import InputError
from pril.online import learning
from pril.online.learning import OnlineClassifier, Patience
from pril.online.memory import Memory

Mode = Literal["chain", "mix"]

# How far a round goes along the mean change of its blocks, chosen by benchmarks/dask_quality.py.
# One pass over a block reaches the block's optimum along steep directions, and goes only a part of
# the way along flat ones. A stride of 1 is slow along the flat directions; from 2 on, the model
# oscillates along the steep ones. The last round has a stride of 1: the plain mean has least noise.
STRIDE = 1.5

WINDOW = 8  # blocks of a chain in memory at once: one is learned while the others are read


def learn_online(
    model: OnlineClassifier, table: LazyTable, mode: Mode, epochs: int | None, cluster: Cluster
) -> OnlineClassifier:
    """Return the model fitted to the blocks."""
    if mode not in ("mix", "chain"):
        raise InputError(f"mode must be 'mix' or 'chain', got {mode!r}")
    is_integer = isinstance(epochs, (int, np.integer)) and not isinstance(epochs, bool)
    if epochs is not None and not (is_integer and epochs >= 1):
        raise InputError(f"epochs must be a positive integer or None, got {epochs!r}")
    if mode == "mix" and not model.engine.mixes:
        raise InputError(
            f"mode='mix' cannot learn {type(model).__name__}: the mean of its models would hold "
            "the support rows of all of them; use mode='chain', or PRIL on a feature map"
        )
    if mode == "mix" and getattr(model, "half_life", None) is not None:
        raise InputError(
            "mode='mix' cannot learn with a half_life: its blocks have no common order of rows; "
            "use mode='chain'"
        )
    classes = find_classes(model, table, cluster)
    epochs = model.max_iter if epochs is None else epochs
    if mode == "chain":
        return _chain(model, table.blocks, classes, epochs, cluster)
    model = model_of_features(model, table, cluster)
    return _mix(model, table.blocks, classes, epochs, cluster)


# --- Chain: the model goes from block to block ---------------------------------------------------


class PassSoFar(NamedTuple):
    """The model after some blocks of a pass, their loss and their warnings."""

    model: OnlineClassifier
    loss: int
    collected: CollectedWarnings


def learn_next_block(before: PassSoFar, block: BlockParts, b: int, classes: Array) -> PassSoFar:
    """Return the pass after the b-th block."""
    model = copy(before.model)  # Dask may give the same model to another task
    with errors_name_block(b), collect_warnings() as collected:
        X, y, *weights = block
        recording = model.tol is not None
        batch, record = learning.learn_batch(model, X, y, classes, *weights, recording=recording)
    loss = before.loss + batch.interval_loss(None, record)
    return PassSoFar(model, loss, collected | before.collected)


def _chain(
    model: OnlineClassifier, blocks: Blocks, classes: Array, epochs: int, cluster: Cluster
) -> OnlineClassifier:
    patience = Patience(model, model.engine)
    rows = mistakes = 0
    for n_iter in range(1, epochs + 1):
        loss = 0
        for start in range(0, len(blocks), WINDOW):
            task: Delayed = delayed(PassSoFar(model, loss, {}), traverse=False)
            for b, block in enumerate(blocks[start : start + WINDOW], start):
                task = delayed(learn_next_block)(task, block, b, classes)
            model, loss, collected = cluster.compute(task, f"learning pass {n_iter} of {epochs}")
            cluster.show_warnings(collected)
        if not learning.has_learned(model):
            raise InputError(NO_ROWS)
        model.n_iter_ = n_iter
        new_rows, new_mistakes = model.t_ - rows, model.n_mistakes_ - mistakes
        rows, mistakes = model.t_, model.n_mistakes_
        if patience.ends(new_mistakes, loss / max(new_rows, 1)):
            break
    return model


# --- Mix: all blocks learn at once, and the common model moves by their mean change --------------


class BlockSums(NamedTuple):
    """Sums over the rows of some blocks in one round; sums of several blocks add up."""

    rows: int  # with a label
    numbers: Array  # change of the memory, see `_change`
    counts: Array
    off_lattice: int  # blocks whose thresholds are not integers
    loss: int
    collected: CollectedWarnings


def learn_block(
    model: OnlineClassifier, block: BlockParts, b: int, seed: tuple[int, ...] | None
) -> BlockSums:
    """Learn one pass over the b-th block from the common model, which is not changed."""
    with errors_name_block(b), collect_warnings() as collected:
        X, y, *weights = block
        batch = learning.prepare(model, X, y, None, *weights)
        order = None if seed is None else batch.shuffled(np.random.default_rng(seed))
        n = len(batch) if order is None else len(order)
        engine = model.engine
        record = None if model.tol is None else engine.blank_record(n, len(model.order_))
        memory = engine.learn(model.memory_, batch, order, record)
    counts = memory.state.counts - model.memory_.state.counts
    return BlockSums(
        rows=int(counts[0]),
        numbers=_change(model.memory_, memory, int(counts[0])),
        counts=counts,
        off_lattice=int(not memory.state.lattice[0]),
        loss=batch.interval_loss(order, record),
        collected=collected,
    )


def _change(before: Memory, after: Memory, rows: int) -> Array:
    """Return how a block changed the memory: part by part, what adds up over blocks.

    Weights and thresholds count once for each row. For the mean of the iterates it is their sum,
    each times its weight, and the weights are in the clock.
    """
    change = Memory(after.layout, after.numbers - before.numbers, after.integers)
    parts, now = change.parts(), after.parts()
    if after.averages:
        for mean, part in MEANS.items():
            parts[mean][:] = now["clock"][0] * now[part] - now[mean]
    for name in MEANS.values():
        parts[name] *= rows
    return change.numbers


MEANS = {"mean_u": "u", "mean_n": "n"}  # parts, and the part that each is the mean of


def add_block_sums(parts: Sequence[BlockSums]) -> BlockSums:
    """Return the sums of all blocks of several parts."""
    *sums, collected = zip(*parts, strict=True)
    first = {source: text for part in reversed(collected) for source, text in part.items()}
    return BlockSums._make([*(sum(values[1:], values[0]) for values in sums), first])


def _mix(
    model: OnlineClassifier, blocks: Blocks, classes: Array, epochs: int, cluster: Cluster
) -> OnlineClassifier:
    model.order_ = classes
    learning.begin(model)
    rng = check_random_state(model.random_state)
    # A dtype, because another one draws other numbers, and Windows has another default.
    seed = int(rng.randint(2**31, dtype=np.int64)) if model.shuffle else None
    patience = Patience(model, model.engine)
    weight = 0.0
    # Sums of the second half of the rounds, or of the last round if learning ends before.
    averaged: list[BlockSums] = []
    carry = np.zeros(len(classes) - 1)
    for n_iter in range(1, epochs + 1):
        common = delayed(model, traverse=False)
        tasks = [
            delayed(learn_block)(common, block, b, None if seed is None else (seed, n_iter, b))
            for b, block in enumerate(blocks)
        ]
        task = tree_sum(tasks, add_block_sums)
        sums = cluster.compute(task, f"learning round {n_iter} of {epochs}")
        if sums.rows == 0:
            raise InputError(NO_ROWS)
        cluster.show_warnings(sums.collected)
        weight += _parts(model, sums)["clock"][0]
        averaged = averaged if n_iter > epochs // 2 + 1 else []
        averaged = [add_block_sums([*averaged, sums])]
        model = copy(model)  # a task may still read the old one
        model.n_iter_ = n_iter
        if patience.ends(sums.counts[1], sums.loss / sums.rows) or n_iter == epochs:
            break
        model.memory_, carry = move_common_model(model, sums, STRIDE, carry)
    memory, _ = move_common_model(model, sums, 1.0, carry)
    _set_mean(memory, _parts(model, averaged[0]), weight)
    model.memory_ = memory
    return model


def _parts(model: OnlineClassifier, sums: BlockSums) -> dict[str, Array]:
    """Return the parts of the change of a memory."""
    return Memory(model.memory_.layout, sums.numbers, model.memory_.integers).parts()


def move_common_model(
    model: OnlineClassifier, sums: BlockSums, stride: float, carry: Array
) -> tuple[Memory, Array]:
    """Return the common model, moved along the mean change of the blocks, and the new remainder.

    Its mean is empty. `carry` is what rounding took from `State.n` in the rounds before, and is
    added first.
    """
    memory, change = model.memory_.copy(), _parts(model, sums)
    engine: Any = model.engine  # a linear one: no other mixes
    state, rows = memory.state, sums.rows
    exact = state.n + carry + stride * change["n"] / rows
    if len(exact):  # one class has no thresholds
        exact = isotonic_regression(exact, increasing=False)
    state.lattice[0] = sums.off_lattice == 0
    state.n[:] = np.round(exact) if state.lattice[0] else exact
    state.u[:] += stride * change["u"] / rows
    state.counts[:] += sums.counts
    state.clock[:] = 0.0, 1.0
    state.shift[:] = 0.0
    state.shift[0] = rating.common_shift(engine.geometry, state)
    if not memory.is_finite():
        raise InputError(f"{type(model).__name__} overflowed in mixing: scale the features")
    return memory, exact - state.n


def _set_mean(memory: Memory, averaged: dict[str, Array], weight: float) -> None:
    """Let a memory predict with the mean of some rounds, of which the sums are given."""
    parts = memory.parts()
    parts["clock"][0] = weight
    if memory.averages:
        for mean, part in MEANS.items():
            total = weight * (averaged[mean] / averaged["clock"][0])
            if part == "n" and memory.lattice:
                total = np.round(total)  # sums of integers, as after learning: means stay in order
            parts[mean][:] = weight * parts[part] - total
