"""What to learn from a table, which rows are for what, and what the first pass finds out."""

from __future__ import annotations

import json
import logging
import re
import warnings
from collections import Counter
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sklearn.base import BaseEstimator

from pril.bases.weights import class_weights, label_weights, read_weights
from pril.core.arrays import Array
from pril.core.registry import BY_COMMAND
from pril.core.scikit import validate_params
from pril.core.words import some_of
from pril.errors import ClassOrderWarning, InputError, RowError, refusing, shown
from pril.labels import ranking
from pril.ranges import PredictionRanges, check_promise
from pril.tables import arrow
from pril.tables.encoder import ColumnEncoder, learn_rows
from pril.tables.files import Table, TableWarning, quote_columns
from pril.tables.label_columns import (
    BracketTexts,
    LabelColumns,
    LabelKind,
    Votes,
    typed_classes,
)

log = logging.getLogger(__name__)

CALIBRATION_SIZE = 0.2  # share of the rows that are not held out, if ranges are asked for
# Why columns of some kinds are ignored.
REASONS = {"text": "text", "empty": "no values", "dates": "dates"}
FEWEST_ROWS = 10  # in fewer rows, any column may look like a row id
MANY_ROWS = 100  # in fewer rows, numbers may differ by chance
ROW_ID = re.compile(
    r"(.*[ _.-])?(id|index|row|row_?(id|names?|num(ber)?)|unnamed: 0|)", re.IGNORECASE
)
UNLIKE = 0.8  # share of different words from which a column holds names or remarks
MOST_LABELS = 10_000  # different labels; a column with more is not a rating
# What a checkpoint holds of a survey.
KEPT = ("encoder", "rows", "not_apart", "rows_to_learn", "row_ids", "unlike")


# What a row is for: the model learns from it, or it evaluates the model or calibrates its ranges.
LEARN, EVALUATE, CALIBRATE = range(3)


class Part(NamedTuple):
    """Some rows of a block."""

    places: Array  # in the table
    cells: pa.RecordBatch


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
            numbers = arrow.read_numbers(block.column(self.weight), self.weight)
        except RowError as error:
            hint = None if error.hint == "text" else error.hint  # words have no weight
            raise RowError(error.argument, error.row, error.reason, hint=hint) from None
        try:
            return read_weights(numbers, len(numbers))
        except RowError as error:
            reason = f"column {self.weight!r}: {error.reason}"
            raise RowError(error.argument, error.row, reason) from None

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
        digests = [blake2b(name.encode(), key=key) for name in words.dictionary.to_pylist()]
        bits = [int.from_bytes(group.digest()[:8]) >> 11 for group in digests]
        return np.array(bits, dtype=np.int64)[words.indices.to_numpy()]

    def uses(self, first: int, block: pa.RecordBatch) -> Array:
        """Return what each row of a block is for, of which the first one has this position."""
        if not self.keeps_rows_apart:
            return np.broadcast_to(LEARN, block.num_rows)
        if (groups := self.read_groups(block)) is not None:
            number = groups * 2.0**-53
        else:
            bits = np.random.PCG64(self.seed).advance(first)  # row k gets the k-th number
            number = np.random.Generator(bits).random(block.num_rows)
        share = 0.0 if self.coverage is None else CALIBRATION_SIZE
        learning = number >= self.holdout + share * (1 - self.holdout)
        return np.where(learning, LEARN, np.where(number < self.holdout, EVALUATE, CALIBRATE))

    def part(self, use: int, first: int, block: pa.RecordBatch) -> Part:
        """Return the rows for one use; rows that are not learned need a weight."""
        chosen = self.uses(first, block) == use
        if use != LEARN:
            chosen &= self.counting(block)
        return Part(first + np.flatnonzero(chosen), select_rows(block, chosen))

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
        self, classes: Array, class_weight: dict[Any, float] | None = None, **more: object
    ) -> Any:
        """Return the model before it has learned anything; refuse parameters that it lacks."""
        learner = BY_COMMAND[self.model]
        kind, passes = learner.load(), {"random_state": self.seed, **more}
        reserved = {"classes", "class_weight", "categorical_features", "offset", *passes}
        if learner.online and not learner.maximises:
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

    def ranges(self, estimator: BaseEstimator) -> PredictionRanges:
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


# --- Which columns are features -------------------------------------------------------------------


class Columns(NamedTuple):
    """Which columns are features, and which are not, with the reason."""

    numbers: list[str]
    words: list[str]
    ignored: dict[str, str]

    @property
    def used(self) -> list[str]:
        """Return the names of the features."""
        return [*self.numbers, *self.words]


def choose_columns(table: Table, task: Task) -> Columns:
    """Sort the columns of a table by what they hold and by what the task asks for."""
    _check_names(table, task)
    chosen = Columns([], [], {})
    for column in table.schema:
        name, kind = column.name, arrow.kind_of(column.type)
        if name in task.text and kind in ("number", "empty", "dates", "text"):
            kind = "text"
            log.info("%s: read as words, as asked for", name)
        if name in task.columns:
            continue
        if reason := _why_ignored(table, task, name, kind):
            chosen.ignored[name] = reason
        else:
            (chosen.numbers if kind == "number" else chosen.words).append(name)
    if not chosen.used:
        raise table.error("no column is left to learn from")
    ignored = [f"{name} ({reason})" for name, reason in chosen.ignored.items()]
    for held, names in {**chosen._asdict(), "ignored": ignored}.items():
        if names:
            log.info("%s: %s", held, some_of(names))
    return chosen


def _check_names(table: Table, task: Task) -> None:
    """Refuse names that are no columns, and columns that are named for two things."""
    labels, features = task.labels.columns, task.features or ()
    for name in (*task.columns, *features, *task.drop, *task.text):
        table.check_column(name)
    for column, use in ((task.weight, "weight"), (task.groups, "group")):
        if column in (*labels, *features):
            raise table.error(f"the column {column!r} is the {use}, not a label or feature")
    for name in labels:
        if name in features:
            raise table.error(f"the column {name!r} is the label, not a feature")
        if labels.count(name) > 1:  # the command refuses it for votes
            reason = f"{name!r} cannot be both the lower and the upper end"
            raise table.error(reason, hint="label")


def _why_ignored(table: Table, task: Task, name: str, kind: str) -> str | None:
    """Return why a column is no feature, None if it is one; refuse one that was asked for."""
    is_named = name in (task.features or ())
    if name in task.drop or (task.features is not None and not is_named):
        return "not asked for"
    if name in arrow.pandas_index(table.schema) and not is_named:
        return "the index of a DataFrame"
    if kind == "number" or (kind == "text" and task.one_hot):
        return None
    reason = REASONS.get(kind, f"holds {kind}")
    if is_named or (name in task.text and kind != "text"):
        raise table.error(f"the column {name!r} cannot be a feature: {reason}")
    return reason


def _refuse_numbers(table: Table, name: str, words: pa.Array) -> None:
    """Refuse a column of words if nearly all of them are numbers, but for how they are written."""
    row = arrow.misread_number(words, typed=not table.is_csv)
    if row < 0:
        return
    word = words[row].as_py()
    signs = re.findall(f"[%{arrow.CURRENCIES}]", word)
    numbers = f"numbers: write them without {signs[0]}" if signs else "numbers"
    reason = (
        f"column {name!r} is {shown(word)}, and would be learned as words, but nearly all of its "
        f"cells look like {numbers}; if they are words, read the column as text"
    )
    with table.naming_rows(0):
        raise RowError("X", row, reason, hint="text" if signs else arrow.hint_of_marks(words))


def looks_like_row_id(cells: Array, name: str) -> bool:
    """Tell whether the numbers of a first block look like row ids: whole, and none occurs twice.

    In a small table their name must say so too, or they must be consecutive, in any order.
    """
    whole = np.isfinite(cells).all() and (cells == np.floor(cells)).all()
    if len(cells) < FEWEST_ROWS or not whole or len(np.unique(cells)) < len(cells):
        return False
    consecutive = cells.max() - cells.min() == len(cells) - 1
    return bool(len(cells) >= MANY_ROWS or consecutive or ROW_ID.fullmatch(name))


def hardly_alike(words: pa.Array) -> str | None:
    """Return how many words of a first block differ, if they are likely names or remarks."""
    n, n_different = len(words) - words.null_count, pc.count_distinct(words).as_py()
    if n >= FEWEST_ROWS and n_different >= UNLIKE * n:
        return f"{n_different:,} different words in {n:,} rows"
    return None


def warn_of_columns(
    source: str, row_ids: list[str], unlike: dict[str, str], left_out: list[str], hint: str
) -> None:
    """Warn of columns that say nothing about new rows: row ids, names, remarks."""
    id_like = "looks like a row id: no whole number in it occurs twice; a row id says nothing about"
    reasons = dict.fromkeys(row_ids, f"{id_like} new rows")
    for name, share in unlike.items():
        end = "; it is left out" if name in left_out else ""
        reasons[name] = f"has {share}, which say little about new rows{end}"
    for name, reason in reasons.items():
        message = f"{source}: the column {name!r} {reason}"
        warnings.warn(TableWarning(message, hint=hint), stacklevel=2)


# --- Which labels there are ----------------------------------------------------------------------


class EncodedLabels(NamedTuple):
    """The classes of a table, and its different labels."""

    columns: LabelColumns  # how labels are read, now that all of them are known
    order: Array  # the classes, lowest first
    ranks: Array  # (labels, 2)
    counts: Array  # how often each label occurs
    learned: Array  # and in rows to learn


class LabelCounts:
    """The different labels of a table, how often each occurs, and where it occurs first."""

    def __init__(self, columns: LabelColumns) -> None:
        self.columns = columns
        # For each label: how many rows have it, how many to learn from have it, the first row.
        self.seen: dict[tuple[Any, ...], list[int]] = {}
        self.n_weightless = 0  # rows of weight zero: their labels do not count
        self._unlabelled = (None,) * len(columns.ends)

    def add(
        self, block: pa.RecordBatch, first: int, table: Table, used: Array, learning: Array
    ) -> Array:
        """Count the labels of the rows that are used; return which rows have a label."""
        with table.naming_rows(first, self.columns.names):
            labels = self.columns.as_written.read(block)
        names = [str(k) for k in range(len(self.columns.ends))]
        rows = [np.arange(len(used)), learning.astype(np.int64)]
        cells = pa.table([*map(pa.array, [*labels.values.T, *rows])], [*names, "row", "learned"])
        counted = cells.filter(pa.array(used)).group_by(names, use_threads=False)
        sums = [("row", "count"), ("learned", "sum"), ("row", "min")]
        for group in counted.aggregate(sums).to_pylist():
            row = group["row_min"]
            self._count(labels.cells(row), group["row_count"], group["learned_sum"], first + row)
        counting = np.flatnonzero(used)
        for vote, row in self.columns.votes_cast(select_rows(block, used)).items():
            # A class may occur only among the votes that are left out: count its label zero times.
            self._count((vote, vote), 0, 0, first + int(counting[row]))
        self.n_weightless += int(np.count_nonzero(~used))
        return used & labels.labelled()

    def _count(self, label: tuple[Any, ...], n: int, n_learned: int, row: int) -> None:
        entry = self.seen.setdefault(label, [0, 0, row])
        entry[0] += n
        entry[1] += n_learned

    def are_too_many(self) -> bool:
        """Tell whether there are more different labels than a rating has."""
        return len(self.seen) > MOST_LABELS

    def check_number(self, table: Table) -> None:
        """Refuse too many different labels."""
        if self.are_too_many():
            raise table.error(
                f"{quote_columns(self.columns.names)}: over {MOST_LABELS} different labels; group "
                "them into classes first (see pril.labels.from_bounds)"
            )

    def merge(self, other: LabelCounts, offset: int) -> None:
        """Add the labels of other rows, whose row numbers are `offset` higher in this table."""
        if self.are_too_many():  # they will be refused
            return
        self.n_weightless += other.n_weightless
        for label, (n, n_learned, row) in other.seen.items():
            self._count(label, n, n_learned, row + offset)

    def to_ranks(self, table: Table) -> EncodedLabels:
        """Return the classes, and the different labels as ranks."""
        names = self.columns.names
        place = quote_columns(names)
        labelled = (entry for entry in self.seen.items() if entry[0] != self._unlabelled)
        seen = sorted(labelled, key=lambda entry: entry[1][-1])  # by the first row
        if not self.seen and self.n_weightless:
            raise table.error("every row has weight 0, so none can be learned")
        if not seen:
            some = " of a weight above 0" if self.n_weightless else ""
            raise table.error(f"{place}: no row{some} has a label")
        counts, learned, rows = np.array([entry for _, entry in seen]).T
        columns = self.columns
        if isinstance(columns.kind, BracketTexts):
            texts = {cells[0]: row for cells, (_, _, row) in seen}
            with table.naming_rows(0, names):
                columns = columns.settled(texts, table.other_place)
        with table.naming_rows(rows, names), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", ClassOrderWarning)
            order, ranks = columns.to_ranks([label for label, _ in seen])
        for entry in caught:
            if isinstance(entry.message, ClassOrderWarning):  # it names y: name the columns instead
                table.warn(f"{place}: {entry.message.reason}", entry.message.hint)
            else:
                warnings.warn(entry.message, stacklevel=2)
        if len(order) == 2 and self.columns.text and self.columns.classes is None:
            # The learners sort two words without a warning, as scikit-learn does.
            reason = f"the classes are {ranking.named(order)}, lowest first, in alphabetical order"
            table.warn(f"{place}: {reason}", ClassOrderWarning.hint)
        zero = ranking.zero_among_votes(order) if isinstance(columns.kind, Votes) else None
        if zero and columns.classes is None:
            table.warn(f"{place}: {zero}", ClassOrderWarning.hint)
        common = ranks[:, 0].max()
        if counts.sum() > 1 and common <= ranks[:, 1].min():
            name = ranking.plain(order[common])
            reason = f"every label includes {name!r}: nothing can be learned"
            table.warn(f"{place}: {reason}")
        return EncodedLabels(columns, order, ranks, counts, learned)

    def describe(self, ranks: Array, counts: Array, order: Array) -> dict[str, Any]:
        """Return what labels there are, for people and machines: see `to_ranks`."""
        ends = [{"exact": 0, "lower": 0, "upper": 0} for _ in order]
        widths: Counter[int] = Counter()
        for (lo, hi), count in zip(ranks.tolist(), counts.tolist(), strict=True):
            widths[hi - lo + 1] += count
            for rank, end in ((lo, "exact"),) if lo == hi else ((lo, "lower"), (hi, "upper")):
                ends[rank][end] += count
        return {
            "classes": [{"class": ranking.plain(name), **ends[k]} for k, name in enumerate(order)],
            "widths": {str(width): widths[width] for width in sorted(widths) if widths[width]},
            "unlabelled_rows": self.seen.get(self._unlabelled, [0])[0],
            "zero_weight_rows": self.n_weightless,
        }

    def to_json(self) -> str:
        """Return the counts as text, for a checkpoint."""
        seen = [[list(cells), *entry] for cells, entry in self.seen.items()]
        return json.dumps([self.n_weightless, seen])

    def restore(self, text: str) -> None:
        """Read the counts from what `to_json` returned."""
        self.n_weightless, seen = json.loads(text)
        self.seen = {tuple(cells): entry for cells, *entry in seen}


# --- The first pass ------------------------------------------------------------------------------


class Survey:
    """What the first pass learns: how to encode columns, and the labels."""

    def __init__(self, task: Task, columns: Columns, labels: LabelColumns, start: int = 0) -> None:
        self.columns = columns
        self.start = start  # number of its first row
        self.offsets = [0]  # from row numbers in each of the parts it was merged of to those here
        self.encoder = ColumnEncoder(
            scale=task.scale,
            bounded=BY_COMMAND[task.model].bounded,
            impute=task.impute,
            codes=not BY_COMMAND[task.model].online,
            numbers=columns.numbers,
            words=[name for name in columns.words if name in (*(task.features or ()), *task.text)],
        )
        self.counts = LabelCounts(labels)
        self.row_ids: list[str] = []  # columns that look like row ids
        self.unlike: dict[str, str] = {}  # columns of words, few of which are alike, and how few
        self.rows = 0
        self.not_apart = 0  # rows for learning
        self.rows_to_learn = 0  # those with a label

    def add(self, table: Table, task: Task, first: int, block: pa.RecordBatch) -> pa.RecordBatch:
        """Learn from a block; return it, its numbers as floats.

        Rows that are kept apart teach nothing, but their cells are checked.
        """
        with table.naming_rows(first):
            learning = task.uses(first, block) == LEARN
            used = task.counting(block)
        labelled = self.counts.add(block, first, table, used, learning)
        with table.naming_rows(first):
            block = arrow.with_numbers(block, list(self.encoder.numbers))
            features = block.drop_columns(list(dict.fromkeys(task.columns)))
            self.encoder.partial_fit(features[:0])  # it gets to know its columns
            learn_rows(self.encoder, features, learning)
        if first == 0:
            cells = {
                name: arrow.read_numbers(block.column(name), name) for name in self.columns.numbers
            }
            self.row_ids = [name for name in cells if looks_like_row_id(cells[name], name)]
            self._look_at_words(table, task, block)
        self.rows += block.num_rows
        self.not_apart += int(learning.sum())
        self.rows_to_learn += int((learning & labelled).sum())
        return block

    def _look_at_words(self, table: Table, task: Task, block: pa.RecordBatch) -> None:
        """Refuse words that are probably numbers; find columns whose words are hardly ever alike.

        Columns that were asked for by name are taken as they are.
        """
        named = (*task.text, *(task.features or ()))
        labels = self.counts.columns
        is_guessed = labels.cell_type == arrow.TEXT and labels.classes is None
        for name in (*(labels.names if is_guessed else ()), *self.columns.words):
            words = arrow.read_words(block.column(name), name)
            if name not in task.text:
                _refuse_numbers(table, name, words)
            if name not in (*named, *labels.names) and (share := hardly_alike(words)):
                self.unlike[name] = share

    def merge(self, other: Survey) -> Survey:
        """Add what was learned from the rows that follow."""
        offset = self.start + self.rows - other.start
        self.offsets += [offset + start for start in other.offsets]
        if self.rows == 0:
            self.encoder, self.row_ids, self.unlike = other.encoder, other.row_ids, other.unlike
        elif other.rows:
            self.encoder.merge(other.encoder)
        self.counts.merge(other.counts, offset)
        self.rows += other.rows
        self.not_apart += other.not_apart
        self.rows_to_learn += other.rows_to_learn
        return self

    def to_dict(self) -> dict[str, Any]:
        """Return all of it, for a checkpoint."""
        return {name: getattr(self, name) for name in KEPT} | {"counts": self.counts.to_json()}

    def restore(self, state: dict[str, Any]) -> None:
        """Read what `to_dict` returned."""
        vars(self).update({name: state[name] for name in KEPT})
        self.counts.restore(state["counts"])


def select_rows(block: pa.RecordBatch, chosen: Array) -> pa.RecordBatch:
    """Return the rows of a block for which a mask is true."""
    return block if chosen.all() else block.filter(pa.array(chosen))
