"""Learning from tables that need not fit in memory, in passes that can be taken up again.

The first pass surveys the table: it learns how to encode the columns and which labels there are.
Each further pass learns from the blocks in order, the rows of a block shuffled. All that a run has
learned and where it stands is one dict, which is what a checkpoint holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import sparse
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from pril import __version__, _ranks, io
from pril._registry import BY_COMMAND
from pril.tables.cells import one_batch, read_labels
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import Table, TableError
from pril.tables.survey import (
    LabelCounts,
    choose_columns,
    has_text_labels,
    located,
    rows_of,
    survey_block,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

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
        loss = _ranks.interval_loss(intervals, rank)
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


def judge(model: Any, features: Any, found: _ranks.Labels, verdict: Verdict) -> None:
    """Add to a verdict what a learner says of some rows."""
    intervals = _ranks.to_intervals(found, model.classes_)
    if len(intervals):
        verdict.add(intervals, model._rate(features)[0], found.labelled())


# --- The run -------------------------------------------------------------------------------------


class Rows(NamedTuple):
    """Rows as a learner takes them."""

    features: Any
    found: _ranks.Labels

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


def is_for_learning(task: Task, first: int, n: int) -> Array:
    """Return which of the n rows from `first` on are for learning, not for judging."""
    if task.holdout == 0.0:
        return np.broadcast_to(True, n)
    draws = np.random.PCG64(task.seed).advance(first)  # one draw a row, wherever we begin
    return np.random.Generator(draws).random(n) >= task.holdout


def blank_model(task: Task, classes: Array) -> Any:
    """Return the model that a task asks for, before it has learned anything."""
    kind = BY_COMMAND[task.model].load()
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
            bounded=BY_COMMAND[task.model].bounded,
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

    def gather(self) -> tuple[Any, _ranks.Labels]:
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


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
