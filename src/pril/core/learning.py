"""Learning, between scikit-learn and engines: from X and y to a batch, from a batch to a memory."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.classifier import (
    aside,
    class_weights,
    label_weights,
    naming_rows,
    read_weights,
    unchanged_on_failure,
)
from pril.core.nouns import Record
from pril.core.passes import Batch, Patience
from pril.core.rows import frozen, n_rows
from pril.errors import InputError

if TYPE_CHECKING:
    from pril.core.learner import OnlineClassifier


def has_learned(model: OnlineClassifier) -> bool:
    """Tell whether a learner has begun to learn."""
    return "memory_" in vars(model)


def learn_batch(
    model: OnlineClassifier,
    X: Any,
    y: Any,
    classes: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    *,
    recording: bool = False,
) -> tuple[Batch, Record | None]:
    """Do the work of `partial_fit`; return the batch and, if asked, what was predicted before."""
    with unchanged_on_failure(model) as before:
        batch = prepare(model, X, y, classes, sample_weight)
        if len(batch) == 0 and not has_learned(model):
            model.__dict__ = before
            return batch, None
        record = blank_record(model, len(batch)) if recording else None
        go_on(model, batch, record)
    return batch, record


def prepare(
    model: OnlineClassifier,
    X: Any,
    y: Any,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    reset: bool = False,
) -> Batch:
    """Check rows, labels and weights, and return them as an engine takes them.

    Names and number of the features, and the classes, are set on the learner: from scratch if
    `reset`, else they must agree with those it has.
    """
    if not reset:
        model.check_parameters()
    engine = model.engine
    fitted = has_learned(model) and not reset
    if not reset:
        engine.check_online()
    rows = engine.read(model, X, reset=not fitted, min_rows=1 if reset else 0)
    n = n_rows(rows)
    table = ranking.read(y)
    ranking.check_length(table.values, range(n))
    weights = None if sample_weight is None else read_weights(sample_weight, n)
    if not fitted and n == 0:
        if classes is not None:
            ranking.check_classes(classes)
        return Batch(rows, np.empty((0, 2), dtype=np.int64))
    if weights is None or weights.all():
        intervals = _read_intervals(model, table, classes, reset)
    else:
        intervals = np.full((n, 2), ranking.NO_LABEL)
        used = np.flatnonzero(weights)
        if reset and len(used) == 0:
            raise InputError("sample_weight is zero for every row: nothing to learn from")
        with naming_rows(used):
            intervals[used] = _read_intervals(model, table.take(used), classes, reset)
    intervals, weights = weigh(model, intervals, weights, reset=reset)
    engine.inspect_rows(rows)
    if reset:
        engine.inspect_means(model, rows)
    engine.inspect_labels(table, intervals)
    return Batch(rows, intervals, weights)


def weigh(
    model: OnlineClassifier,
    intervals: Array,
    weights: Array | None = None,
    *,
    reset: bool = False,
) -> tuple[Array, Array | None]:
    """Return labels and weights of rows, with the weights of the classes in them.

    A row of weight zero has no label.
    """
    own = weights_of_classes(model, model.order_, intervals if reset else None)
    if own is not None:
        own = label_weights(own, intervals)
        weights = own if weights is None else weights * own
        intervals = np.where(weights[:, np.newaxis] > 0.0, intervals, ranking.NO_LABEL)
        if reset and not ranking.is_labelled(intervals).any():
            raise InputError("class_weight is zero for every row: nothing to learn from")
    if weights is not None and (weights == 1.0).all():
        weights = None
    return intervals, weights


def weights_of_classes(
    model: OnlineClassifier, order: Array, intervals: Array | None
) -> Array | None:
    """Return the weights of the classes, None if they have none; intervals are of all rows."""
    if intervals is None:
        refuse_online(model)
    return class_weights(model.class_weight, order, intervals)


def refuse_online(model: OnlineClassifier) -> None:
    """Refuse to learn some rows with what depends on all rows, and with an offset."""
    offset = getattr(model, "offset", None)
    if offset is not None:
        raise InputError(
            f"offset={offset!r} needs all rows in memory: use fit, not partial_fit, a "
            "stream, the command or Dask"
        )
    if isinstance(model.class_weight, str):
        raise InputError(
            "class_weight='balanced' needs all rows at once: use fit, or pass the weights of the "
            "classes as a dict"
        )


def _read_intervals(
    model: OnlineClassifier, table: ranking.Labels, classes: Any, reset: bool
) -> Array:
    """Set the classes, and return the labels as intervals of them."""
    if not reset:
        model.order_ = agreed_classes(model, table, classes)
        return ranking.to_intervals(table, model.order_)
    model.order_, intervals = ranking.encode(table, model.classes)
    if not ranking.is_labelled(intervals).any():
        raise InputError("y has no label in any row: there is nothing to learn from")
    return intervals


def agreed_classes(
    model: OnlineClassifier, table: ranking.Labels, classes: ArrayLike | None
) -> Array:
    """Return the classes, if those known before, those named and those of y agree."""
    own: Any = model.classes
    values = None if own is None else list(own)  # they may have changed in place
    known: Array | None = getattr(model, "order_", None)
    beside = aside(model)
    before, values_before, known_before = beside.agreed
    skip = own if own is before and values == values_before and known is known_before else None
    named = [given for given in (own, classes) if given is not None]
    known = ranking.agreed_classes(table, known, named, skip=skip)
    beside.agreed = own, values, known
    return known


def begin(model: OnlineClassifier, rows: Any = None) -> None:
    """Let a learner that knows its features and classes begin, with rows like these."""
    model.__dict__.pop("file_notes_", None)
    model.learned_with_ = {name: _kept(getattr(model, name)) for name in model.fixed_parameters}
    model.memory_ = model.engine.blank(model.n_features_in_, len(model.order_), rows)


def _kept(value: Any) -> Any:
    """Return a parameter as it is now: a dict, list or array may be changed in place later."""
    if isinstance(value, dict):
        return {name: _kept(one) for name, one in value.items()}
    return value.copy() if isinstance(value, list | np.ndarray) else value


def begin_with(model: OnlineClassifier, X: Any, classes: Any) -> None:
    """Let a learner begin with these features and classes, before there is any row."""
    rows = model.engine.read(model, X, reset=True, min_rows=0)
    model.order_ = ranking.check_classes(classes)
    begin(model, rows)


def begin_empty(model: OnlineClassifier, classes: Any) -> None:
    """Let a learner begin with these classes and no features; `set_features` adds some."""
    model.order_, model.n_features_in_ = ranking.check_classes(classes), 0
    begin(model)


def set_features(
    model: OnlineClassifier, known: Collection[Any], features: Collection[Any]
) -> None:
    """Give a learner other features, by name: those known keep their weights, others were zero."""
    places = {name: k for k, name in enumerate(known)}
    model.memory_ = model.memory_.with_features([places.get(name, -1) for name in features])
    model.n_features_in_ = len(features)


def go_on(
    model: OnlineClassifier,
    batch: Batch,
    record: Record | None = None,
    order: Array | None = None,
) -> None:
    """Go on from what was learned before; a failure leaves that as it was."""
    if not has_learned(model):
        begin(model, batch.rows)
    model.memory_ = model.engine.go_on(model.memory_, batch, order, record)


def blank_record(model: OnlineClassifier, n: int, *, with_cuts: bool = False) -> Record:
    """Return room for what a learner predicts before it learns n rows."""
    record: Record = model.engine.blank_record(n, len(model.order_), with_cuts=with_cuts)
    return record


def make_passes(model: OnlineClassifier, batch: Batch) -> tuple[Any, int]:
    """Return what is learned in up to `max_iter` passes over a batch, and how many were made."""
    engine, memory = model.engine, model.memory_
    rng = check_random_state(model.random_state)
    patience, verbose = Patience.of(model), getattr(model, "verbose", 0)
    labelled = batch.labelled()
    others, n_rounds = np.flatnonzero(~labelled), np.count_nonzero(labelled)
    for n_iter in range(1, model.max_iter + 1):
        order = batch.shuffled(rng) if model.shuffle else None
        if n_iter == 1 and order is not None and len(others):
            # Rows without a label must be finite, too: visit them once.
            order = frozen(np.concatenate([others, order], dtype=order.dtype))
        record = None
        if model.tol is not None or verbose:
            record = blank_record(model, len(batch) if order is None else len(order))
        mistakes = memory.counts[1]
        memory = engine.learn(memory, batch, order, record)
        mistakes = memory.counts[1] - mistakes
        loss = batch.interval_loss(order, record) / n_rounds
        if verbose:
            wrong = f"{mistakes:,} mistakes in {n_rounds:,} rows"
            print(f"pass {n_iter}: {wrong}, mean interval loss {loss:.4f}")
        if patience.ends(mistakes, loss):
            break
    return engine.finish(memory, batch), n_iter
