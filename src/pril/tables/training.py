"""Learn from tables that need not fit in memory, in passes that can go on after a crash.

The first pass surveys the table: it learns how to encode the columns and which labels there are.
Each further pass learns from the blocks in order, the rows of a block shuffled. A checkpoint holds
one dict: all that a run has learned, and the row where it stands.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state

from pril import __version__
from pril.core import ranking
from pril.core.evaluation import Evaluation
from pril.core.learner import Batch
from pril.core.registry import BY_COMMAND
from pril.errors import InputError, RowError, refusing
from pril.io import model_files
from pril.ranges import PredictionRanges, calibration_scores
from pril.tables.cells import one_batch, read_numbers
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import Table, TableError
from pril.tables.label_columns import LabelColumns
from pril.tables.locks import hold
from pril.tables.model import Progress, evaluate_batch, read_batch
from pril.tables.reservoir import Reservoir
from pril.tables.survey import (
    LabelCounts,
    choose_columns,
    row_numbers,
    survey_block,
    warn_of_row_numbers,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.features import LandmarkFeatures

    Array = NDArray[Any]

log = logging.getLogger(__name__)

CACHE_BYTES = 1 << 29  # of cells, features and labels; a larger table is read in every pass


@dataclass(frozen=True)
class Task:
    """What to learn and how. The model depends on this and on the table alone."""

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
    weight: str | None = None  # a column
    coverage: float | None = None  # of predicted ranges
    guarantee: Literal["exact", "contain", "touch"] = "exact"
    nonlinear: int | None = None  # number of landmarks
    edges: tuple[float, ...] | None = None  # labels are numbers, classes their brackets

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read and are not features."""
        return (*self.labels, *(() if self.weight is None else (self.weight,)))

    def read_weights(self, block: pa.RecordBatch) -> Array | None:
        """Return the rows' weights, None if there are none."""
        if self.weight is None:
            return None
        weights: Array = read_numbers(block.column(self.weight), self.weight)
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


# --- Parts of a run ------------------------------------------------------------------------------


class Block(NamedTuple):
    """Rows of a table as the learner takes them, by what they are for."""

    num_rows: int  # the name is Arrow's
    places: Array  # of the rows to learn from, in the table
    learning: Batch
    held_out: Batch
    calibration: Batch | None  # None if there are to be no ranges

    @property
    def nbytes(self) -> int:
        """How much memory they take."""
        calibration = self.calibration.nbytes if self.calibration else 0
        return self.learning.nbytes + self.held_out.nbytes + calibration


@dataclass
class Checkpoint:
    """A file with all that a run has learned, written anew every so many rows."""

    path: Path
    every: int
    origin: dict[str, Any]  # identifies the run: its table and its task

    def restore(self) -> dict[str, Any] | None:
        """Return what the file holds, if there is one."""
        if not self.path.exists():
            return None
        state, about = model_files.read(self.path, kind="checkpoint")
        for name, value in self.origin.items():
            if about.notes.get(name) != value:
                raise InputError(
                    f"{self.path} belongs to another run: the {name} differs; run the same "
                    "command as before, or remove the folder"
                )
        return dict(state)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no other process use the folder meanwhile."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with hold(self.path.with_suffix(".lock"), f"the checkpoint {self.path.parent}"):
            yield

    def is_of(self, origin: dict[str, Any]) -> bool:
        """Tell whether there is a file, and it belongs to this run."""
        return (
            self.path.exists() and model_files.read(self.path, kind="checkpoint")[1].notes == origin
        )

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        model_files.write(state, self.path, kind="checkpoint", notes=self.origin)

    def remove(self) -> None:
        """Remove the file, and what killed processes have left of it."""
        model_files.remove_leftovers(self.path)
        self.path.unlink(missing_ok=True)

    def is_due(self, before: int, after: int) -> bool:
        """Tell whether a multiple of `every` lies between two rows."""
        return after // self.every > before // self.every


CALIBRATION_SIZE = 0.2  # share of the rows that are not held out, if ranges are asked for
SAMPLE_PER_LANDMARK = 10  # rows from which landmarks are chosen, and which scale their features


class Uses(NamedTuple):
    """What each row is for: an array of booleans for each use."""

    learning: Array
    calibration: Array
    held_out: Array


def uses_of(task: Task, first: int, n: int) -> Uses:
    """Return what each of the n rows from `first` on is for."""
    if task.holdout == 0.0 and task.coverage is None:
        none = np.broadcast_to(False, n)
        return Uses(np.broadcast_to(True, n), none, none)
    bits = np.random.PCG64(task.seed).advance(first)  # row k gets the k-th number
    number = np.random.Generator(bits).random(n)
    share = 0.0 if task.coverage is None else CALIBRATION_SIZE
    held_out, learning = number < task.holdout, number >= task.holdout + share * (1 - task.holdout)
    return Uses(learning, ~(held_out | learning), held_out)


def sample_for(task: Task, seed: int) -> Reservoir | None:
    """Return where to collect the rows that may be landmarks, None if there are to be none."""
    if task.nonlinear is None:
        return None
    return Reservoir(SAMPLE_PER_LANDMARK * task.nonlinear, seed)


class Calibration(NamedTuple):
    """Scores of rows that calibrate, and how many rows with a label were kept apart for it."""

    scores: Array
    rows: int

    @classmethod
    def of(cls, task: Task, learner: Any, batch: Batch | None) -> Calibration:
        """Score some rows, which the learner has not learned from."""
        if not batch:
            return cls(np.empty(0), 0)
        _, scores, cut = learner._rate_rows(batch.rows)
        scores = calibration_scores(scores, cut, batch.intervals, task.guarantee)
        return cls(scores, int(batch.labelled().sum()))

    @classmethod
    def join(cls, parts: Iterable[Calibration]) -> Calibration:
        """Return the scores of all parts."""
        scores, rows = zip(*parts, strict=True)
        return cls(np.concatenate(scores), sum(rows))


def blank_model(task: Task, classes: Array) -> Any:
    """Return the model of a task before it has learned anything."""
    kind = BY_COMMAND[task.model].load()
    passes = {"max_iter": task.epochs, "shuffle": task.shuffle, "random_state": task.seed}
    reserved = {"classes", *passes, "tol", "n_iter_no_change"}
    free = sorted(set(kind().get_params()) - reserved)
    for name in task.parameters:
        if name not in free:
            raise InputError(
                f"the parameter {name!r} cannot be set for {kind.__name__}: choose one of "
                f"{', '.join(free)}"
            )
    model = kind(classes=classes, **passes, **task.parameters)
    with refusing():
        model._validate_params()
    return model


# --- The run -------------------------------------------------------------------------------------


class Run:
    """One run over a table: survey, passes, evaluation."""

    def __init__(self, table: Table, task: Task, progress: Progress) -> None:
        self.table = table
        self.task = task
        self.progress = progress
        table.read_as_words(task.text)
        self.columns = choose_columns(table, task)
        self.labels = LabelColumns.in_table(table, task)
        self.encoder = ColumnEncoder(
            scale=task.scale,
            bounded=BY_COMMAND[task.model].bounded,
            impute=task.impute,
            numbers=self.columns.numbers,
            words=[n for n in self.columns.words if n in (*(task.features or ()), *task.text)],
        )
        self.counts = LabelCounts(self.labels)
        self._encoded: tuple[Array, Array, Array] | None = None
        self.rng = check_random_state(task.seed)
        self.model: Any = blank_model(task, np.array([0, 1]))  # refuses wrong parameters at once
        if task.coverage is not None:
            if not BY_COMMAND[task.model].has_thresholds:
                raise InputError(f"the model {task.model} has no thresholds: it predicts no ranges")
            with refusing():
                self._ranges(self.model)._validate_params()
        self.reservoir = sample_for(task, task.seed)
        self.landmarks: LandmarkFeatures | None = None
        self.calibration: Calibration | None = None
        self.phase, self.epoch = "survey", 0
        self.row = 0  # where the pass stands
        self.done = 0  # rows read in all passes
        self.n_rows = 0  # of the table, once it is known
        self.mistakes = 0
        self.checkpoint: Checkpoint | None = None
        self._cells: deque[tuple[int, pa.RecordBatch]] = deque()  # as surveyed: all, or none
        self._cache: list[tuple[int, Block]] = []  # all blocks, or none

    def __call__(self, checkpoint: Checkpoint | None = None) -> Pipeline | PredictionRanges:
        """Go on from where the checkpoint is, or from the start; return the model."""
        self.checkpoint = checkpoint
        state = checkpoint.restore() if checkpoint else None
        if state:
            self._restore(state)
            log.info("checkpoint: %s, goes on at row %d", self.phase, self.row + 1)
        if self.phase == "survey":
            self._survey()
        while self.phase == "learn":
            self._learn()
        steps = [("columns", self.encoder), ("landmarks", self.landmarks), ("model", self.model)]
        fitted = Pipeline([(name, step) for name, step in steps if step is not None])
        if self.task.coverage is None:
            return fitted
        self.calibration = self._calibrate()
        frozen = FrozenEstimator(fitted)
        return self._ranges(frozen)._calibrate(frozen, self.calibration.scores)

    def _ranges(self, estimator: Any) -> PredictionRanges:
        return PredictionRanges(
            estimator,
            coverage=self.task.coverage or 0.0,
            guarantee=self.task.guarantee,
            calibration_size=CALIBRATION_SIZE,
            random_state=self.task.seed,
        )

    @property
    def front(self) -> ColumnEncoder | Pipeline:
        """What turns cells into features."""
        if self.landmarks is None:
            return self.encoder
        return Pipeline([("columns", self.encoder), ("landmarks", self.landmarks)])

    # --- Passes ---

    def _tracked(self, name: str, blocks: Iterator[tuple[int, Any]]) -> Iterator[tuple[int, Any]]:
        """Return the blocks of a pass; after each, report progress and save a checkpoint if due."""
        total = self.n_rows or self.table.n_rows
        for first, block in blocks:
            yield first, block
            self.row += block.num_rows
            self.done += block.num_rows
            self.progress(name, self.row, total)
            if self.checkpoint and self.checkpoint.is_due(self.done - block.num_rows, self.done):
                self.checkpoint.save(self._state())

    def _blocks(self) -> Iterator[tuple[int, Block]]:
        """Return the first row of each block, and the block, from where the pass stands.

        A small table is read and checked once, and kept in memory for the further passes.
        """
        if self._cache:
            yield from self._cache
            return
        kept = self.task.holdout or self.task.coverage
        again = self.phase == "learn" and (self.epoch + 1 < self.task.epochs or kept)
        keep, size, blocks = bool(again) and self.row == 0, 0, []
        for first, cells in self._cell_blocks():
            block = self._prepare(first, cells)
            size += block.nbytes
            # Estimate the size of the whole table from the rows so far.
            keep &= size * self.n_rows <= CACHE_BYTES * (first + block.num_rows)
            if keep:
                blocks.append((first, block))
            else:
                blocks.clear()
            yield first, block
        self._cache = blocks
        if again:
            limit = f"{CACHE_BYTES >> 20} MB at most"
            log.info("memory: %s (%s)", "rows are kept" if blocks else "rows are read again", limit)

    def _cell_blocks(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Return the blocks as the survey has kept them, for the last time, or read them again."""
        if not self._cells:
            names = [*self.encoder.feature_names_in_, *self.task.columns]
            yield from self.table.blocks(names, self.row)
        while self._cells:
            yield self._cells.popleft()

    def _prepare(self, first: int, cells: pa.RecordBatch) -> Block:
        """Return a block of the table as the learner takes it."""
        with self.table.naming_rows(first):
            features = self.front.transform(cells)
            labels = self.labels.read(cells)
            weights, counting = self.task.read_weights(cells), self.task.counting(cells)
        learning, calibrating, apart = uses_of(self.task, first, cells.num_rows)
        places = row_numbers(first, learning)
        apart, calibrating = apart & counting, calibrating & counting
        held_out = read_batch(self.model, features[apart], labels.take(apart))
        calibration = None
        if self.task.coverage is not None:
            calibration = read_batch(self.model, features[calibrating], labels.take(calibrating))
        if not learning.all():
            features, labels = features[learning], labels.take(learning)
            weights = None if weights is None else weights[learning]
        with self.table.naming_rows(places, self.task.labels):
            batch = self.model._prepare(features, labels, None, weights)
        return Block(cells.num_rows, places, batch, held_out, calibration)

    def _survey(self) -> None:
        blocks = self.table.blocks([*self.columns.used, *self.task.columns], self.row)
        keep, size = self.row == 0, 0
        for first, block in self._tracked("reading", blocks):
            learning = uses_of(self.task, first, block.num_rows).learning
            cells = survey_block(
                self.table, self.task, self.encoder, self.counts, first, block, learning
            )
            self.counts.check_number(self.table)
            size, rows = size + cells.nbytes, first + block.num_rows
            keep &= size * max(self.table.n_rows or 0, rows) <= CACHE_BYTES * rows
            if keep:
                self._cells.append((first, cells))
            else:
                self._cells.clear()
            if first == 0:
                warn_of_row_numbers(self.table, self.columns.numbers, cells)
            if self.reservoir:
                self.reservoir.add(self.encoder, first, block.select(self.columns.used), learning)
        if self.row == 0:
            raise TableError(f"{self.table.name} has no rows")
        self.n_rows = self.row
        self._begin_learning()

    def _begin_learning(self) -> None:
        width = self.encoder._n_features_out
        if not width:
            many = [f"{name!r} has too many words" for name in self.encoder.left_out_]
            none = [f"{name!r} has no words" for name in self.encoder.words_]
            reasons = "; ".join([*many, *none])
            raise TableError(f"{self.table.name}: no column is left to learn from: {reasons}")
        classes = self.encode_labels()[0]
        if self.reservoir and self.task.nonlinear:
            if self.reservoir.cells is None:
                raise all_held_out(self.table)
            from pril.features import LandmarkFeatures  # which imports scipy.stats

            landmarks = LandmarkFeatures(self.task.nonlinear, random_state=self.task.seed)
            self.landmarks = landmarks.fit(self.encoder.transform(self.reservoir.rows()))
            self.reservoir, width = None, len(self.landmarks.get_feature_names_out())
        self.model = blank_model(self.task, classes)
        self.model._begin(np.empty((0, width)), classes)
        self.phase, self.row = "learn", 0
        self._tell_decisions(classes, width)

    def _tell_decisions(self, classes: Array, width: int) -> None:
        """Log what the survey has decided, and why."""
        task, encoder = self.task, self.encoder
        log.info("rows: %d in blocks of %d", self.n_rows, self.table.block_rows)
        log.info("labels: %s", ", ".join(task.labels))
        log.info("classes: %s, %s", ranking.named(classes), self.labels.order)
        for name, words in encoder.words_.items():
            log.info("one-hot: %s, %d words", name, len(words))
        for name in encoder.left_out_:
            log.info("left out: %s, over %d words", name, encoder.most_words)
        if encoder.numbers_:
            way = f"at most 1, as {task.model} needs" if encoder.bounded else "standardised"
            log.info("scaling: %s", f"numbers are {way}" if encoder.scale else "none, as asked for")
            log.info("missing numbers: %s", "the mean" if encoder.impute else "refused")
        shape = "sparse" if not encoder._is_dense() and self.landmarks is None else "dense"
        log.info("features: %d, %s%s", width, shape, " (landmarks)" if self.landmarks else "")
        kept = "" if task.coverage is None else f"; of the rest, {CALIBRATION_SIZE:.0%} calibrate"
        log.info("holdout: %.0f%% of the rows, by seed %d%s", task.holdout * 100, task.seed, kept)

    def encode_labels(self) -> tuple[Array, Array, Array]:
        """Return the classes, and the different labels as ranks, with their counts."""
        if self._encoded is None:
            self._encoded = self.counts.encode(self.table)
        return self._encoded

    def _learn(self) -> None:
        name = f"pass {self.epoch + 1}/{self.task.epochs}"
        for _, block in self._tracked(name, self._blocks()):
            order = block.learning.shuffled(self.rng) if self.task.shuffle else None
            with self.table.naming_rows(block.places):
                self.model._go_on(block.learning, order=order)
        if self.model.t_ == 0:
            raise all_held_out(self.table)
        self.epoch += 1
        mistakes = self.model.n_mistakes_
        perfect = mistakes == self.mistakes and self.model._stops_without_mistakes
        done = self.epoch == self.task.epochs or perfect
        self.row, self.mistakes = 0, mistakes
        self.phase = "done" if done else "learn"
        if done:
            reason = "no mistake in the last one" if perfect else "as many as asked for"
            log.info("passes: %d, %s", self.epoch, reason)

    def _calibrate(self) -> Calibration:
        self.row, self.checkpoint = 0, None
        blocks = self._tracked("calibrating", self._blocks())
        return Calibration.join(
            Calibration.of(self.task, self.model, block.calibration) for _, block in blocks
        )

    def evaluate(self) -> Evaluation:
        """Return how good the model is on the rows that were held out."""
        evaluation = Evaluation()
        self.row, self.checkpoint = 0, None
        for _, block in self._tracked("evaluating", self._blocks()):
            evaluation += evaluate_batch(self.model, block.held_out)
        return evaluation

    def describe(self, evaluation: Evaluation | None) -> dict[str, Any]:
        """Return what was read and learned, and the evaluation of held-out rows, if there are any.

        It holds only what JSON has: the command prints it, and the model file keeps it.
        """
        order, ranks, counts = self.encode_labels()
        n_unlabelled = self.counts.n_unlabelled()
        ends = [{"exact": 0, "lower": 0, "upper": 0} for _ in order]
        widths: dict[int, int] = {}
        for (lo, hi), count in zip(ranks.tolist(), counts.tolist(), strict=True):
            widths[hi - lo + 1] = widths.get(hi - lo + 1, 0) + count
            if lo == hi:
                ends[lo]["exact"] += count
            else:
                ends[lo]["lower"] += count
                ends[hi]["upper"] += count
        left_out = dict.fromkeys(self.encoder.left_out_, "too many words")
        return {
            "table": self.table.name,
            "labels": list(self.task.labels),
            "rows": self.n_rows,
            "columns": {
                "numbers": self.encoder.numbers_,
                "words": {name: len(words) for name, words in self.encoder.words_.items()},
                "sparse": dict(self.encoder.widths_),
                "ignored": self.columns.ignored | left_out,
            },
            "classes": [{"class": ranking.plain(name), **ends[k]} for k, name in enumerate(order)],
            "widths": {str(width): widths[width] for width in sorted(widths)},
            "unlabelled_rows": n_unlabelled,
            "zero_weight_rows": self.counts.n_weightless,
            "passes": self.epoch,
            "learned_rows": self.n_rows
            - n_unlabelled
            - self.counts.n_weightless
            - (evaluation.rows if evaluation else 0)
            - (self.calibration.rows if self.calibration else 0),
            "mistakes": self.model.n_mistakes_,
            "holdout": evaluation and evaluation.to_dict(order),
            "ranges": self.calibration
            and {
                "coverage": self.task.coverage,
                "guarantee": self.task.guarantee,
                "calibration_rows": len(self.calibration.scores),
            },
            "options": {k: v for k, v in asdict(self.task).items() if k != "labels"},
        }

    def gather(self) -> tuple[Any, ranking.Labels]:
        """Survey the table and return all of it, features and labels, in memory."""
        self._survey()
        blocks = [block for _, block in self._cell_blocks()]
        whole = one_batch(pa.Table.from_batches(blocks))
        return self.encoder.transform(whole), self.labels.read(whole)

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
            "landmarks": self.landmarks,
            "reservoir": self.reservoir and self.reservoir.to_json(),
            "counts": self.counts.to_json(),
            "model": self.model,
            "rng": self.rng,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        self.counts.restore(state.pop("counts"))
        sample = state.pop("reservoir")
        vars(self).update(state)
        if sample is None:
            self.reservoir = None
        elif self.reservoir:
            self.reservoir.restore(sample, self.encoder, self.table.schema)

    def origin(self) -> dict[str, Any]:
        """Return what identifies this run, for its checkpoint."""
        return {
            "table": self.table.fingerprint(),
            "task": {name: _as_json(value) for name, value in asdict(self.task).items()},
            "version": __version__,
        }


def all_held_out(table: Table) -> TableError:
    """Return the error of a run that has no row to learn from."""
    return TableError(f"{table.name}: every row was held out", hint="holdout")


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
