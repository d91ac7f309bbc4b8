"""What to learn from a table, and which rows are for what."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.registry import BY_COMMAND
from pril.core.scikit import validate_params
from pril.core.weights import class_weights, label_weights
from pril.errors import InputError, RowError, refusing
from pril.ranges import PredictionRanges, check_promise
from pril.tables import arrow
from pril.tables.label_columns import LabelKind, to_note, typed_classes

CALIBRATION_SIZE = 0.2  # share of the rows that are not held out, if ranges are asked for


class Uses(NamedTuple):
    """What each row is for; one that is neither learned nor held out calibrates ranges."""

    learning: Array  # booleans
    held_out: Array


@dataclass(frozen=True)
class Task:
    """What to learn and how. The model depends on this and on the table alone."""

    labels: LabelKind
    classes: tuple[str, ...] | None = None
    model: str = "ordered-logit"
    parameters: dict[str, Any] = field(default_factory=dict)
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    scale: bool = True
    impute: bool = True
    one_hot: bool = True
    shuffle: bool = True
    epochs: int = 10
    holdout: float = 0.2
    seed: int = 0
    weight: str | None = None  # a column
    groups: str | None = None  # a column: rows of one group are for the same
    class_weight: dict[str, float] | Literal["balanced"] | None = None
    coverage: float | None = None  # of predicted ranges
    guarantee: Literal["exact", "contain", "touch"] = "exact"
    by: Literal["class"] | None = None  # where the guarantee holds; None: for all rows together

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read and are not features."""
        return (*self.labels.columns, *filter(None, (self.weight, self.groups)))

    @property
    def keeps_rows_apart(self) -> bool:
        """Whether some rows evaluate or calibrate the model."""
        return self.holdout > 0.0 or self.coverage is not None

    def read_weights(self, block: pa.RecordBatch) -> Array | None:
        """Return the rows' weights, None if there are none."""
        if self.weight is None:
            return None
        try:
            weights: Array = arrow.read_numbers(block.column(self.weight), self.weight)
        except RowError as error:
            hint = None if error.hint == "text" else error.hint  # words have no weight
            raise RowError(error.argument, error.row, error.reason, hint=hint) from None
        good = np.isfinite(weights) & (weights >= 0.0)
        if not good.all():
            row = int(np.argmin(good))
            reason = f"column {self.weight!r} is {weights[row]}, which is not a weight"
            raise RowError("sample_weight", row, reason)
        return weights

    def counting(self, block: pa.RecordBatch) -> Array:
        """Return which rows count: those whose weight is not zero."""
        weights = self.read_weights(block)
        return np.broadcast_to(True, block.num_rows) if weights is None else weights > 0.0

    def read_groups(self, block: pa.RecordBatch) -> Array | None:
        """Return a number of 53 random bits for each row's group, None if there are no groups."""
        if self.groups is None:
            return None
        words = arrow.read_words(block.column(self.groups), self.groups).dictionary_encode()
        if words.null_count:
            row = int(np.argmax(words.is_null().to_numpy(zero_copy_only=False)))
            raise RowError("groups", row, f"column {self.groups!r}, the group, is missing")
        key = self.seed.to_bytes(8)
        known = [blake2b(name.encode(), key=key) for name in words.dictionary.to_pylist()]
        bits = [int.from_bytes(group.digest()[:8]) >> 11 for group in known]
        numbers: Array = np.array(bits, dtype=np.int64)[words.indices.to_numpy()]
        return numbers

    def uses(self, first: int, block: pa.RecordBatch) -> Uses:
        """Return what each row of a block is for, of which the first one has this position."""
        n = block.num_rows
        if not self.keeps_rows_apart:
            return Uses(np.broadcast_to(True, n), np.broadcast_to(False, n))
        if (groups := self.read_groups(block)) is not None:
            number = groups * 2.0**-53
        else:
            bits = np.random.PCG64(self.seed).advance(first)  # row k gets the k-th number
            number = np.random.Generator(bits).random(n)
        share = 0.0 if self.coverage is None else CALIBRATION_SIZE
        learning = number >= self.holdout + share * (1 - self.holdout)
        return Uses(learning, number < self.holdout)

    def weights_of_classes(
        self, classes: Array, intervals: Array, counts: Array
    ) -> dict[Any, float] | None:
        """Return the weight of each class, for labels that occur so often; None without weights."""
        given: Any = self.class_weight
        if given is None:
            return None
        if isinstance(given, dict):
            names = typed_classes(tuple(given), text=classes.dtype.kind not in "biuf")
            given = dict(zip(names or (), given.values(), strict=True))
        weights = class_weights(given, classes, intervals, counts)
        if weights is None or not label_weights(weights, intervals).any():
            raise InputError("the weights of the classes are zero for every row")
        return dict(zip(map(ranking.plain, classes), weights.tolist(), strict=True))

    def blank_model(
        self, classes: Array, class_weight: dict[Any, float] | None = None, **more: Any
    ) -> Any:
        """Return the model before it has learned anything; refuse parameters that it lacks."""
        known = BY_COMMAND[self.model]
        kind, passes = known.load(), {"random_state": self.seed, **more}
        reserved = {"classes", "class_weight", "categorical_features", "offset", *passes}
        if known.online and not known.maximises:
            passes |= {"max_iter": self.epochs, "shuffle": self.shuffle}
            reserved |= {*passes, "tol", "n_iter_no_change"}
        free = sorted(set(kind().get_params()) - reserved)
        for name in self.parameters:
            if name not in free:
                raise InputError(
                    f"the parameter {name!r} cannot be set for {kind.__name__}: choose one of "
                    f"{', '.join(free)}"
                )
        model = kind(classes=classes, class_weight=class_weight, **passes, **self.parameters)
        with refusing():
            validate_params(model)
        return model

    def ranges(self, estimator: Any) -> PredictionRanges:
        """Return ranges around an estimator, not yet calibrated."""
        if not BY_COMMAND[self.model].has_thresholds:
            raise InputError(f"the model {self.model} has no thresholds: it predicts no ranges")
        ranges = PredictionRanges(
            estimator,
            coverage=self.coverage or 0.0,
            guarantee=self.guarantee,
            by=self.by,
            calibration_size=CALIBRATION_SIZE,
            random_state=self.seed,
        )
        with refusing():
            validate_params(ranges)
        check_promise(ranges)
        return ranges

    def to_dict(self) -> dict[str, Any]:
        """Return the task as JSON has it."""
        return dict(to_note(self))
