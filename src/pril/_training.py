"""Learning from tables that need not fit in memory, in passes that can be taken up again.

The first pass surveys the table: it learns how to encode the columns and which labels there are.
Each further pass learns from the blocks in order, the rows of a block shuffled. All that a run has
learned and where it stands is one dict, which is what a checkpoint holds.
"""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from pril import __version__, io, labels
from pril._tables import Table, TableError
from pril.columns import (
    MISSING,
    ColumnEncoder,
    blanked,
    kind_of,
    one_batch,
    read_labels,
    read_words,
)
from pril.errors import RowError
from pril.estimators import MPRIL, PRIL, MulticlassPerceptron, PRank, WidrowHoff
from pril.kernel import KernelPRIL

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

MODELS = {
    "pril": PRIL,
    "mpril": MPRIL,
    "kernel": KernelPRIL,
    "prank": PRank,
    "widrow-hoff": WidrowHoff,
    "perceptron": MulticlassPerceptron,
}
TEXT_HINT = {"not a number": "; if the column holds words, pass --text"}
ALPHABETICAL_HINT = "; the classes were taken in alphabetical order: pass --classes, lowest first"
MOST_LABELS = 10_000  # different labels; a column with more is not a rating
KEPT_BYTES = 1 << 29  # of features and labels; a larger table is read again in every pass


@dataclass(frozen=True)
class Task:
    """What to learn and how: all that decides the model, beside the table."""

    labels: tuple[str, ...]  # one column, or the lower and the upper end
    classes: tuple[str, ...] | None = None
    model: str = "pril"
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


class Columns(NamedTuple):
    """Which columns are features, and which are not, with the reason."""

    numbers: list[str]
    words: list[str]
    sparse: list[str]
    ignored: dict[str, str]

    @property
    def used(self) -> list[str]:
        """Return the names of the features."""
        return [*self.numbers, *self.words, *self.sparse]


def choose_columns(table: Table, task: Task) -> Columns:
    """Sort the columns of a table by what they hold and what was asked for."""
    for name in (*task.labels, *(task.features or ()), *task.drop, *task.text):
        table.check_column(name)
    if len(set(task.labels)) < len(task.labels):
        raise TableError(
            f"{table.name}: {task.labels[0]!r} cannot be both ends; for exact labels pass --label"
        )
    for name in task.features or ():
        if name in task.labels:
            raise TableError(f"{table.name}: the column {name!r} is the label, not a feature")
    chosen = Columns([], [], [], {})
    for column in table.schema:
        name, kind = column.name, kind_of(column.type)
        if name in task.text and kind in ("number", "empty"):
            kind = "text"
        asked = name in (task.features or ())
        if name in task.labels:
            continue
        if name in task.drop or (task.features is not None and not asked):
            chosen.ignored[name] = "not asked for"
        elif kind == "number":
            chosen.numbers.append(name)
        elif kind == "text" and task.one_hot:
            chosen.words.append(name)
        elif kind == "sparse":
            chosen.sparse.append(name)
        else:
            reason = {"text": "text", "empty": "no values"}.get(kind, f"holds {kind}")
            if asked:
                raise TableError(f"{table.name}: the column {name!r} cannot be a feature: {reason}")
            chosen.ignored[name] = reason
    if not chosen.used:
        raise TableError(f"{table.name}: no column is left to learn from")
    return chosen


def has_text_labels(table: Table, task: Task) -> bool:
    """Tell whether the labels are words; refuse what cannot be a label."""
    names = task.labels
    kinds = {name: kind_of(table.schema.field(name).type) for name in names}
    kinds.update({name: "text" for name in names if name in task.text and kinds[name] == "number"})
    for name, kind in kinds.items():
        if kind not in ("number", "text", "empty"):
            raise TableError(
                f"{table.name}: the column {name!r} cannot be a label: it holds {kind}"
            )
    if "text" in kinds.values() and "number" in kinds.values():
        raise TableError(
            f"{table.name}: the columns {' and '.join(map(repr, names))} must both hold numbers or "
            "both hold words"
        )
    return "text" in kinds.values()


@contextmanager
def located(
    table: Table,
    first: int | Array,
    names: tuple[str, ...] = (),
    hints: dict[str, str] | None = None,
) -> Iterator[None]:
    """Say in which row of the table a block, or a list of rows, has its mistake, and what helps."""
    try:
        yield
    except RowError as error:
        row = first + error.row if isinstance(first, int) else int(first[error.row])
        said = f"{said_columns(names)}: " if names and error.args[0] == "y" else ""
        reason = error.reason.replace("pass classes=", "pass --classes")
        hint = next((hint for mark, hint in (hints or {}).items() if mark in reason), "")
        raise TableError(f"{table.where(row)}: {said}{reason}{hint}") from None


def said_columns(names: tuple[str, ...]) -> str:
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


# --- Which labels there are ----------------------------------------------------------------------


class LabelCounts:
    """The different labels of a table, how often each occurs, and where it occurs first."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.seen: dict[tuple[Any, ...], list[int]] = {}  # label: count, first row

    def add(self, block: pa.RecordBatch, first: int, table: Table) -> None:
        """Count the labels of one more block."""
        code, words = np.zeros(block.num_rows, dtype=np.int64), []
        for name in self.names:
            with located(table, first):
                cells = _comparable(block.column(name), name)
            coded = cells.dictionary_encode(null_encoding="encode")
            words.append(coded.dictionary.to_pylist())
            code = code * len(words[-1]) + coded.indices.to_numpy()
        size = int(np.prod([len(word) for word in words]))
        if size <= MOST_LABELS:
            count = np.bincount(code, minlength=size)
            found = np.flatnonzero(count)
            count = count[found]
        else:
            found, count = np.unique(code, return_counts=True)
        places = np.unravel_index(found, [len(word) for word in words])
        for k, place in enumerate(zip(*places, strict=True)):
            label = tuple(word[at] for word, at in zip(words, place, strict=True))
            if label not in self.seen:
                self.seen[label] = [0, first + int(np.argmax(code == found[k]))]
            self.seen[label][0] += int(count[k])

    def are_too_many(self) -> bool:
        """Tell whether there are more different labels than a rating has."""
        return len(self.seen) > MOST_LABELS

    def check_number(self, table: Table) -> None:
        """Refuse too many different labels."""
        if self.are_too_many():
            raise TableError(
                f"{table.name}: {said_columns(self.names)}: over {MOST_LABELS} different "
                "labels; rank them in bins first (pril.labels.from_bounds does)"
            )

    def merge(self, other: LabelCounts, offset: int) -> None:
        """Take in the labels of other rows, which lie that much further on in the table."""
        for label, (count, row) in other.seen.items():
            self.seen.setdefault(label, [0, row + offset])[0] += count

    def encode(
        self, classes: tuple[str, ...] | None, *, text: bool, table: Table
    ) -> tuple[Array, Array, Array]:
        """Return the classes, the different labels as ranks, and how often each occurs."""
        seen = sorted(self.seen.items(), key=lambda entry: entry[1][1])  # by first row
        columns = [pa.array(cells) for cells in zip(*(cells for cells, _ in seen), strict=True)]
        counts, rows = np.array([entry for _, entry in seen]).T
        place = f"{table.name}: {said_columns(self.names)}"
        alphabetical = "" if classes or not text else ALPHABETICAL_HINT
        if self.n_silent() == counts.sum():
            raise TableError(f"{place}: no row has a label")
        with (
            located(table, rows, self.names, {**TEXT_HINT, "above upper end": alphabetical}),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            batch = pa.RecordBatch.from_arrays(columns, names=list(self.names))
            found = read_labels(batch, self.names, text=text)
            order, ranks = labels.encode(found, typed_classes(classes, text=text))
        for entry in caught:  # it speaks of y, and of a row among the different labels
            said = re.sub(r"^y, row \d+: ", "", str(entry.message))
            said = said.replace("the classes of y", "the classes")
            warnings.warn(f"{place}: {said}", entry.category, stacklevel=2)
        return order, ranks, counts

    def n_silent(self) -> int:
        """Return how many rows say nothing."""
        return self.seen.get((None,) * len(self.names), [0])[0]

    def to_json(self) -> str:
        """Return all of it as text, for a checkpoint."""
        return json.dumps([[list(cells), *entry] for cells, entry in self.seen.items()])

    def restore(self, text: str) -> None:
        """Take back what `to_json` returned."""
        self.seen = {tuple(cells): entry for cells, *entry in json.loads(text)}


def _comparable(cells: pa.Array, name: str) -> pa.Array:
    """Return labels as they can be told apart: not coded, not decimal, gaps as nulls."""
    if kind_of(cells.type) == "text":
        return read_words(cells, name)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.float64())
    if pa.types.is_floating(cells.type):
        cells = blanked(cells, pc.is_nan(cells))
    return cells


def typed_classes(classes: tuple[str, ...] | None, *, text: bool) -> list[Any] | None:
    """Return classes from the command line as the kind of label that the table has."""
    if classes is None:
        return None
    if text:
        missing = set(classes) & set(MISSING.to_pylist())
        if missing:
            raise ValueError(
                f"--classes {','.join(classes)}: {min(missing)} in a table is a missing value, "
                "not a class; spell it otherwise there"
            )
        return list(classes)
    try:
        numbers = [float(name) for name in classes]
    except ValueError:
        raise ValueError(
            f"--classes {','.join(classes)}: the labels are numbers, the classes are not"
        ) from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"--classes {','.join(classes)}: a class must be finite")
    return [int(number) if number.is_integer() else number for number in numbers]


# --- Judging -------------------------------------------------------------------------------------


@dataclass
class Verdict:
    """How good predictions are: sums over rows that carry a label."""

    rows: int = 0
    hits: int = 0
    loss: int = 0
    exact_rows: int = 0
    exact_loss: int = 0
    unlabelled: int = 0

    def add(self, intervals: Array, rank: Array, labelled: Array) -> None:
        """Judge some predictions."""
        self.unlabelled += int((~labelled).sum())
        intervals, rank = intervals[labelled], rank[labelled]
        loss = labels.interval_loss(intervals, rank)
        exact = intervals[:, 0] == intervals[:, 1]
        self.rows += len(rank)
        self.hits += int((loss == 0).sum())
        self.loss += int(loss.sum())
        self.exact_rows += int(exact.sum())
        self.exact_loss += int(loss[exact].sum())

    def __add__(self, other: Verdict) -> Verdict:
        return Verdict(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))

    def to_dict(self) -> dict[str, Any]:
        """Return the means, None where there is nothing to average."""
        return {
            "rows": self.rows,
            "unlabelled_rows": self.unlabelled,
            "interval_accuracy": self.hits / self.rows if self.rows else None,
            "interval_absolute_error": self.loss / self.rows if self.rows else None,
            "exact_rows": self.exact_rows,
            "exact_absolute_error": self.exact_loss / self.exact_rows if self.exact_rows else None,
        }


def judge(model: Any, features: Any, found: labels.Labels, verdict: Verdict) -> None:
    """Add to a verdict what a learner says of some rows."""
    ranks = labels.to_ranks(found, model.classes_)
    intervals = labels.check_ranks(ranks, found, model.classes_)
    if len(intervals):
        verdict.add(intervals, model._rate(features)[0], found.labelled())


# --- The run -------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Rows as a learner takes them."""

    features: Any
    found: labels.Labels

    @property
    def num_rows(self) -> int:
        """Number of rows, by the name that Arrow has for it."""
        return len(self.found.values)

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        matrix = self.features
        parts = (
            [matrix.data, matrix.indices, matrix.indptr] if sparse.issparse(matrix) else [matrix]
        )
        return sum(part.nbytes for part in [self.found.values, *parts])

    def take(self, chosen: Array) -> Rows:
        """Return some of the rows, chosen by a mask."""
        if chosen.all():
            return self
        found = self.found._replace(values=self.found.values[chosen])
        return Rows(self.features[chosen], found)


@dataclass
class Checkpoint:
    """A file with all that a run has learned, replaced as a whole every so many rows."""

    path: Path
    every: int
    origin: dict[str, Any]  # the table and the task that it belongs to

    def restore(self) -> dict[str, Any] | None:
        """Return what the file holds, if there is one; remove what a killed process left behind."""
        for rest in self.path.parent.glob(".pril-*.tmp"):
            rest.unlink()
        if not self.path.exists():
            return None
        state, about = io.read(self.path, kind="checkpoint")
        for what, value in self.origin.items():
            if about.notes.get(what) != value:
                raise ValueError(
                    f"{self.path} belongs to another run: the {what} differs; run the same "
                    "command as before, or remove the folder"
                )
        return dict(state)

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        io.write(state, self.path, kind="checkpoint", notes=self.origin)

    def is_due(self, before: int, after: int) -> bool:
        """Tell whether a multiple of `every` lies between two rows."""
        return after // self.every > before // self.every


def survey_block(
    table: Table,
    task: Task,
    encoder: ColumnEncoder,
    counts: LabelCounts,
    first: int,
    block: pa.RecordBatch,
    learning: Array,
) -> None:
    """Count the labels of a block; learn its columns from its rows for learning, check the rest."""
    counts.add(block, first, table)
    features = block.drop_columns(list(dict.fromkeys(task.labels)))
    try:
        with located(table, rows_of(first, learning), hints=TEXT_HINT):
            encoder.partial_fit(kept(features, learning))
    except TableError:
        with located(table, first, hints=TEXT_HINT):  # a row held out may be wrong before it
            encoder.check(features)
        raise
    if task.holdout:
        with located(table, rows_of(first, ~learning), hints=TEXT_HINT):
            encoder.check(kept(features, ~learning))


def is_for_learning(task: Task, first: int, n: int) -> Array:
    """Return which of the n rows from `first` on are for learning, not for judging."""
    if task.holdout == 0.0:
        return np.broadcast_to(True, n)
    draws = np.random.PCG64(task.seed).advance(first)  # one draw a row, wherever we begin
    return np.random.Generator(draws).random(n) >= task.holdout


def blank_model(task: Task, classes: Array) -> Any:
    """Return the model that a task asks for, before it has learned anything."""
    kind = MODELS[task.model]
    passes = {"max_iter": task.epochs, "shuffle": task.shuffle, "random_state": task.seed}
    taken = {"classes": classes, **passes, "tol": None, "n_iter_no_change": 3}
    free = sorted(set(kind().get_params()) - set(taken))
    for name in task.parameters:
        if name not in free:
            raise ValueError(f"--set {name}: choose one of {', '.join(free)}")
    model = kind(classes=classes, **passes, **task.parameters)
    model._validate_params()
    return model


class Run:
    """One run over a table: survey, passes, verdict."""

    def __init__(
        self, table: Table, task: Task, progress: Callable[[str, int, int | None], None]
    ) -> None:
        self.table = table
        self.task = task
        self.progress = progress
        table.read_as_words(task.text)
        self.columns = choose_columns(table, task)
        self.text = has_text_labels(table, task)
        self.encoder = ColumnEncoder(
            scale=task.scale,
            bounded=task.model == "mpril",
            impute=task.impute,
            numbers=self.columns.numbers,
            words=[n for n in self.columns.words if n in (*(task.features or ()), *task.text)],
        )
        self.counts = LabelCounts(task.labels)
        self._encoded: tuple[Array, Array, Array] | None = None
        self.rng = check_random_state(task.seed)
        self.model: Any = blank_model(task, np.array([0, 1]))  # refuses parameters at once
        self.phase, self.epoch = "survey", 0
        self.row = 0  # where the pass stands
        self.done = 0  # rows read in all passes
        self.n_rows = 0  # of the table, once it is known
        self.mistakes = 0
        self.checkpoint: Checkpoint | None = None
        self._kept: list[tuple[int, Rows]] = []  # the whole table, or nothing

    def __call__(self, checkpoint: Checkpoint | None = None) -> Pipeline:
        """Go on from where the checkpoint is, or from the start; return the model."""
        self.checkpoint = checkpoint
        state = checkpoint.restore() if checkpoint else None
        if state:
            self._restore(state)
        if self.phase == "survey":
            self._survey()
        while self.phase == "learn":
            self._learn()
        return Pipeline([("columns", self.encoder), ("model", self.model)])

    # --- Passes ---

    def _counted(self, name: str, blocks: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Return the blocks of a pass; tell the bar and the checkpoint how far it has come."""
        total = self.n_rows or self.table.n_rows
        for first, block in blocks:
            yield first, block
            self.row += block.num_rows
            self.done += block.num_rows
            self.progress(name, self.row, total)
            if self.checkpoint and self.checkpoint.is_due(self.done - block.num_rows, self.done):
                self.checkpoint.save(self._state())

    def _rows(self) -> Iterator[tuple[int, Rows]]:
        """Return first row, features and labels of each block, from the row where the pass stands.

        What was read once is kept, if all of it fits: most passes over most tables read no file.
        """
        if self._kept:
            yield from self._kept
            return
        more = self.phase == "learn" and (self.epoch + 1 < self.task.epochs or self.task.holdout)
        keeping, size, read = bool(more) and self.row == 0, 0, []
        names = [*self.encoder.feature_names_in_, *self.task.labels]
        for first, block in self.table.blocks(names, self.row):
            with located(self.table, first):
                rows = Rows(
                    self.encoder.transform(block),
                    read_labels(block, self.task.labels, text=self.text),
                )
            size += rows.nbytes
            # The rows so far tell early what all of them will take.
            keeping &= size * self.n_rows <= KEPT_BYTES * (first + rows.num_rows)
            if keeping:
                read.append((first, rows))
            else:
                read.clear()
            yield first, rows
        self._kept = read

    def _survey(self) -> None:
        used = self.columns.used
        blocks = self.table.blocks([*used, *self.task.labels], self.row)
        for first, block in self._counted("reading", blocks):
            learning = is_for_learning(self.task, first, block.num_rows)
            survey_block(self.table, self.task, self.encoder, self.counts, first, block, learning)
            self.counts.check_number(self.table)
        if self.row == 0:
            raise TableError(f"{self.table.name} has no rows")
        self.n_rows = self.row
        self._begin_learning()

    def _begin_learning(self) -> None:
        if not len(self.encoder.get_feature_names_out()):
            many = [f"{name!r} has too many words" for name in self.encoder.left_out_]
            none = [f"{name!r} has none" for name in self.encoder.words_]
            reasons = "; ".join([*many, *none])
            raise TableError(f"{self.table.name}: no column is left to learn from: {reasons}")
        self.model = blank_model(self.task, self.encode_labels()[0])
        self.phase, self.row = "learn", 0

    def encode_labels(self) -> tuple[Array, Array, Array]:
        """Return the classes, and the different labels as ranks, with their counts."""
        if self._encoded is None:
            names = self.task.classes
            self._encoded = self.counts.encode(names, text=self.text, table=self.table)
        return self._encoded

    def _learn(self) -> None:
        name = f"pass {self.epoch + 1}/{self.task.epochs}"
        for first, rows in self._counted(name, self._rows()):
            learning = is_for_learning(self.task, first, rows.num_rows)
            features, found = rows.take(learning)
            order = self.rng.permutation(len(found.values)) if self.task.shuffle else None
            with located(self.table, rows_of(first, learning), self.task.labels):
                self.model._learn_once(features, found, None, recording=False, order=order)
        if not hasattr(self.model, "classes_"):
            raise TableError(f"{self.table.name}: every row was held out; make --holdout smaller")
        self.epoch += 1
        learned = self.model.n_mistakes_
        done = self.epoch == self.task.epochs or learned == self.mistakes
        self.row, self.mistakes = 0, learned
        self.phase = "done" if done else "learn"

    def judge(self) -> Verdict:
        """Return how good the model is on the rows that were held out."""
        verdict = Verdict()
        self.row, self.checkpoint = 0, None
        for first, rows in self._counted("judging", self._rows()):
            held = ~is_for_learning(self.task, first, rows.num_rows)
            features, found = rows.take(held)
            judge(self.model, features, found, verdict)
        return verdict

    def gather(self) -> tuple[Any, labels.Labels]:
        """Survey the table and return all of it, features and labels, in memory."""
        self._survey()
        names = self.task.labels
        blocks = [block for _, block in self.table.blocks([*self.columns.used, *names])]
        whole = one_batch(pa.Table.from_batches(blocks))
        return self.encoder.transform(whole), read_labels(whole, names, text=self.text)

    # --- Stopping and going on ---

    def _state(self) -> dict[str, Any]:
        return {
            "phase": self.phase,
            "row": self.row,
            "done": self.done,
            "epoch": self.epoch,
            "n_rows": self.n_rows,
            "mistakes": self.mistakes,
            "encoder": self.encoder,
            "counts": self.counts.to_json(),
            "model": self.model,
            "rng": self.rng,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.counts.restore(state.pop("counts"))
        vars(self).update(state)

    def origin(self) -> dict[str, Any]:
        """Return what a checkpoint of this run belongs to."""
        return {
            "table": self.table.fingerprint(),
            "task": {name: _plain(value) for name, value in asdict(self.task).items()},
            "version": __version__,
        }


def kept(block: pa.RecordBatch, chosen: Array) -> pa.RecordBatch:
    return block if chosen.all() else block.filter(pa.array(chosen))


def rows_of(first: int, learning: Array) -> Array:
    return first + np.flatnonzero(learning)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
