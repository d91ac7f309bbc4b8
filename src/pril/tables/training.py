"""Learn from tables that need not fit in memory, in passes that can go on after a crash.

The first pass surveys the table: it learns how to encode the columns and which labels there are.
Each further pass learns from the blocks in order, the rows of a block shuffled; or it is a step to
the maximum of a likelihood, see `runs`. Rows that were kept apart then evaluate the model
and calibrate its ranges. A checkpoint holds one dict: all that a run has learned, and the row where
it stands.
"""

from __future__ import annotations

import logging
import math
import warnings
from collections import deque
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from sklearn.frozen import FrozenEstimator
from sklearn.utils import check_random_state

from pril import __version__
from pril.bases.classifier import OrdinalLearner
from pril.core.arrays import Array
from pril.core.rating import Ratings
from pril.core.registry import BY_COMMAND
from pril.errors import InputError, shown
from pril.labels import ranking
from pril.learners.boosting.features import LEAST_VALUE
from pril.metrics import Evaluation
from pril.online import learning
from pril.online.linear_engine import Batch
from pril.ranges import Calibration, PredictionRanges, calibrated
from pril.tables.arrow import NUMBER, one_batch
from pril.tables.checkpoints import Checkpoint
from pril.tables.encoder import ColumnEncoder, is_dense, n_features_of
from pril.tables.files import Blocks, Table, TableError, TableWarning, Watcher, no_column
from pril.tables.label_columns import CELLS, BracketTexts, LabelColumns, Votes, to_note
from pril.tables.model import rate_labelled
from pril.tables.pipeline import Pipeline
from pril.tables.survey import (
    CALIBRATE,
    CALIBRATION_SIZE,
    EVALUATE,
    LEARN,
    EncodedLabels,
    Part,
    Survey,
    Task,
    choose_columns,
    warn_of_columns,
)

log = logging.getLogger(__name__)

MEDIAN = 0.5  # share of the votes to leave out at each end
CACHE_BYTES = 1 << 29  # of cells, features and labels; a larger table is read in every pass


# --- Rows as the learner takes them --------------------------------------------------------------


class RowReader(NamedTuple):
    """How rows of a table become features, labels and weights; known after the survey."""

    task: Task
    labels: LabelColumns
    encoder: ColumnEncoder  # what turns cells into features

    @property
    def columns(self) -> list[str]:
        """The columns to read."""
        return [*self.encoder.feature_names_in_, *self.task.columns]

    def read(self, table: Table, part: Part) -> tuple[Any, ranking.Labels, Array | None]:
        """Return features, labels and weights of some rows."""
        with table.naming_rows(part.places, self.task.labels.columns):
            labels = self.labels.read(part.cells)
            return self.encoder.transform(part.cells), labels, self.task.read_weights(part.cells)

    def check(
        self, table: Table, model: OrdinalLearner, held_out: Part, calibrating: Part
    ) -> HoldoutResult:
        """Rate rows that were kept apart."""
        result = HoldoutResult()
        if held_out.cells.num_rows:
            intervals, (rank, *_) = self._rate(table, model, held_out)
            result = result._replace(evaluation=Evaluation.of(intervals, rank))
        if calibrating.cells.num_rows:
            intervals, (_, scores, cut) = self._rate(table, model, calibrating)
            ranges = self.task.ranges(model)
            result = result._replace(calibration=Calibration.of(ranges, scores, cut, intervals))
        return result

    def _rate(self, table: Table, model: OrdinalLearner, part: Part) -> tuple[Array, Ratings]:
        """Return the labels of some rows, and what the model says of them."""
        features, labels, _ = self.read(table, part)
        return rate_labelled(model, features, labels)


class HoldoutResult(NamedTuple):
    """How good a model is on rows kept apart, and what calibrates its ranges; it adds up."""

    evaluation: Evaluation = Evaluation()
    calibration: Calibration = Calibration.none()

    def merge(self, other: HoldoutResult) -> HoldoutResult:
        """Return what holds for the rows of both."""
        calibration = self.calibration.merge(other.calibration)
        return HoldoutResult(self.evaluation + other.evaluation, calibration)


class ReadBlock(NamedTuple):
    """A block of a table as the learner takes it, and its rows that are kept apart."""

    num_rows: int  # the name is Arrow's
    places: Array  # of the rows to learn from, in the table
    learning: Batch
    apart: tuple[Part, Part]  # to evaluate, to calibrate

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return self.learning.nbytes + sum(int(part.cells.nbytes) for part in self.apart)


class BlockCache:
    """Blocks kept in memory: all of them, or none if they need too much."""

    def __init__(self) -> None:
        self.blocks: deque[tuple[int, Any]] = deque()
        self._size, self._rows, self._fits = 0, 0, True

    def add(self, first: int, block: pa.RecordBatch | ReadBlock, n_rows: int | None) -> None:
        """Keep a block, unless the whole table, judged by its rows so far, would take too much."""
        self._size, self._fits = self._size + block.nbytes, self._fits and first == self._rows
        self._rows = first + block.num_rows
        self._fits &= self._size * max(n_rows or 0, self._rows) <= CACHE_BYTES * self._rows
        if self._fits:
            self.blocks.append((first, block))
        else:
            self.blocks.clear()


def parts_apart(task: Task, first: int, block: pa.RecordBatch) -> tuple[Part, Part]:
    """Return the rows of a block that evaluate the model, and those that calibrate it."""
    return task.part(EVALUATE, first, block), task.part(CALIBRATE, first, block)


def rows_to_learn(task: Task, blocks: Iterable[tuple[int, pa.RecordBatch]]) -> Part:
    """Return the rows of all blocks that are to be learned."""
    places, cells = zip(*(task.part(LEARN, first, block) for first, block in blocks), strict=True)
    return Part(np.concatenate(places), one_batch(pa.Table.from_batches(cells)))


# --- The run -------------------------------------------------------------------------------------


class Run:
    """One run over a table: a survey, passes row by row, a check on rows kept apart.

    Other runs survey, learn or check in another way.
    """

    most_kept = math.inf  # rows to learn from; the survey of a larger table keeps no cells

    def __init__(self, table: Table, task: Task, progress: Watcher) -> None:
        self.table, self.task, self.progress = table, task, progress
        table.read_as([*task.text, *filter(None, [task.groups])])
        if (cells := CELLS.get(type(task.labels), NUMBER)) != NUMBER:
            table.read_as(task.labels.columns, cells)
        self.columns = choose_columns(table, task)
        labels = LabelColumns.in_table(table, task.labels, task.classes, task.text)
        self.model: Any = task.blank_model(np.array([0, 1]))  # refuses wrong parameters at once
        if task.coverage is not None:
            task.ranges(self.model)
        elif task.by is not None:
            raise InputError("by is for predicted ranges: pass coverage too")
        self.survey = Survey(task, self.columns, labels)
        self.rng = check_random_state(task.seed)
        self.phase, self.epoch = "survey", 0
        self.row = 0  # where the pass stands
        self.done = 0  # rows read in all passes
        self.mistakes = 0  # before this pass
        self.partly: dict[str, Any] = {}  # what was learned so far, beside the model
        self.held_out = HoldoutResult()
        self.checkpoint: Checkpoint | None = None
        self.cells, self._read = BlockCache(), BlockCache()

    def __call__(self, checkpoint: Checkpoint | None = None) -> Pipeline | PredictionRanges:
        """Start, or go on from the checkpoint; return the model."""
        self.checkpoint = checkpoint
        if checkpoint:
            checkpoint.origin = self.origin()
            self._restore(checkpoint.restore())
        if self.phase == "survey":
            self.survey_table()
            self.begin_learning()
        if self.phase == "learn":
            self.learn()
            self.phase = "done"
        self.checkpoint = None
        if self.task.keeps_rows_apart:
            self.held_out = self.check_table()
        fitted = self.pipeline()
        if self.task.coverage is None:
            return fitted
        frozen = FrozenEstimator(fitted)
        return calibrated(self.task.ranges(frozen), frozen, self._calibration())

    def _calibration(self) -> Calibration:
        """Return what calibrates the ranges; warn if only rows do whose raters agree."""
        rows = self.held_out.calibration
        n, n_others = len(rows.distance), len(rows.others)
        labels = self.task.labels
        if n_others == 0 or not isinstance(labels, Votes) or labels.trim >= MEDIAN:
            return rows
        reason = f"the ranges are calibrated on {n:,} of {n + n_others:,} rows, those whose votes"
        reason += " agree, which are easier than others: fewer of the others are covered"
        warnings.warn(TableWarning(f"{self.table.name}: {reason}", hint="votes"), stacklevel=2)
        return rows._replace(others=rows.others[:0])  # they need not be compared any more

    # --- Survey ---

    def survey_table(self) -> None:
        """Learn how to encode the columns, and which labels there are."""
        for first, block in self.tracked(
            "reading", self.table.blocks([*self.columns.used, *self.task.columns], self.row)
        ):
            cells = self.survey.add(self.table, self.task, first, block)
            self.survey.counts.check_number(self.table)
            if self.survey.not_apart <= self.most_kept:
                self.cells.add(first, cells, self.table.n_rows)
            else:
                self.cells = BlockCache()

    def begin_learning(self) -> None:
        """Choose classes and features, and begin with a blank model."""
        task, encoder = self.task, self.survey.encoder
        if self.survey.rows == 0:
            raise TableError(f"{self.table.name} has no rows")
        width = n_features_of(encoder)
        if not width:
            many = [f"{name!r} has too many words" for name in encoder.left_out_]
            none = [f"{name!r} has no words" for name in encoder.words_]
            reasons = "; ".join([*many, *none])
            raise TableError(f"{self.table.name}: no column is left to learn from: {reasons}")
        _, classes, ranks, counts, _ = self.encoded_labels
        if self.survey.rows_to_learn == 0:
            raise TableError(f"{self.table.name}: every row was held out", hint="holdout")
        survey = self.survey
        warn_of_columns(
            self.table.name, survey.row_ids, survey.unlike, encoder.left_out_, hint="drop"
        )
        weights = task.weights_of_classes(classes, ranks, counts)
        self.model = self._blank_model(width, classes, weights)
        self.phase, self.row = "learn", 0
        self._log_decisions(classes, width)

    def _blank_model(self, width: int, classes: Array, weights: dict[Any, float] | None) -> Any:
        """Return a model of `width` features that has learned nothing."""
        if BY_COMMAND[self.task.model].online:
            model = self.task.blank_model(classes, weights)
            learning.begin_with(model, np.empty((0, width)), classes)
            return model
        # It learns all rows at once, and words are categories.
        encoder = self.survey.encoder
        largest = np.maximum(-encoder.moments_.low, encoder.moments_.high)
        for name, size in zip(encoder.numbers_, largest, strict=True):
            if 0.0 < size < LEAST_VALUE:
                reason = f"no number in the column {name!r} is larger than {size}"
                raise TableError(
                    f"{self.table.name}: {reason}, too small to learn from: multiply them"
                )
        words = list(range(width - len(encoder.words_), width))
        model = self.task.blank_model(classes, weights, categorical_features=words)
        return model.set_params(monotonic_cst=self._constraints(model.monotonic_cst))

    def _constraints(self, asked: object) -> list[int] | None:
        """Return the constraints of the features, given by the names of columns."""
        if asked is None:
            return None
        if not isinstance(asked, dict):
            form = '{"COLUMN": 1, "COLUMN": -1}'
            raise InputError(f"monotonic_cst: expected {form}, got {shown(asked)}")
        encoder, place = self.survey.encoder, f"{self.table.name}: monotonic_cst"
        signs = dict.fromkeys([*encoder.numbers_, *encoder.words_], 0)
        for name, sign in asked.items():
            if name not in signs:
                raise TableError(f"{place}: {no_column(name, list(signs))}")
            if name in encoder.words_:
                raise TableError(f"{place}: the column {name!r} holds words, which have no order")
            if sign not in (-1, 0, 1):
                raise TableError(
                    f"{place}: the column {name!r} must have -1, 0 or 1, got {shown(sign)}"
                )
        return list((signs | asked).values())

    @property
    def labels(self) -> LabelColumns:
        """How labels are read; known after the survey."""
        return self.encoded_labels.columns

    @cached_property
    def encoded_labels(self) -> EncodedLabels:
        """The classes, and the different labels as ranks, with their counts."""
        return self.survey.counts.to_ranks(self.table)

    def _log_decisions(self, classes: Array, width: int) -> None:
        """Log what the survey has decided, and why."""
        task, encoder = self.task, self.survey.encoder
        log.info("rows: %d in blocks of %d", self.survey.rows, self.table.block_rows)
        log.info("labels: %s", ", ".join(task.labels.columns))
        log.info("classes: %s, %s", ranking.named(classes), self.labels.order)
        if isinstance(task.labels, BracketTexts) and self.labels.edges:
            where = "from the texts" if task.labels.edges is None else "as given"
            log.info("edges: %s, %s", ", ".join(map(str, self.labels.edges)), where)
        if self.model.class_weight:
            named = [f"{name} {weight:.4g}" for name, weight in self.model.class_weight.items()]
            log.info("weights of classes: %s", ", ".join(named))
        for name, words in encoder.words_.items():
            kind = "categories" if encoder.codes else "one-hot"
            log.info("%s: %s, %d words", kind, name, len(words))
        for name in encoder.left_out_:
            log.info("left out: %s, over %d words", name, encoder.most_words)
        if encoder.numbers_:
            way = f"at most 1, as {task.model} needs" if encoder.bounded else "standardised"
            why = f"{task.model} needs none" if encoder.codes else "as asked for"
            scales = encoder.scale and not encoder.codes
            log.info("scaling: %s", f"numbers are {way}" if scales else f"none, {why}")
            filled = "used as they are" if encoder.codes else "the mean"
            log.info("missing numbers: %s", filled if encoder.impute else "refused")
        log.info("features: %d, %s", width, "dense" if is_dense(encoder) else "sparse")
        kept = "" if task.coverage is None else f"; of the rest, {CALIBRATION_SIZE:.0%} calibrate"
        log.info("holdout: %.0f%% of the rows, by seed %d%s", task.holdout * 100, task.seed, kept)

    # --- Passes ---

    def learn(self) -> None:
        """Make passes, row by row."""
        epochs, perfect, model, engine = self.task.epochs, False, self.model, self.model.engine
        while self.epoch < epochs and not perfect:
            blocks = self.blocks(again=self.epoch + 1 < epochs or self.task.keeps_rows_apart)
            for _, block in self.tracked(f"pass {self.epoch + 1}/{epochs}", blocks):
                order = block.learning.shuffled(self.rng) if self.task.shuffle else None
                with self.table.naming_rows(block.places):
                    model.memory_ = engine.go_on(model.memory_, block.learning, order, None)
            self.epoch += 1
            mistakes = model.n_mistakes_
            perfect = mistakes == self.mistakes and engine.settles
            self.row, self.mistakes = 0, mistakes
        reason = "no mistake in the last one" if perfect else "as many as asked for"
        log.info("passes: %d, %s", self.epoch, reason)

    def check_table(self) -> HoldoutResult:
        """Evaluate the model, and calibrate its ranges, on the rows kept apart."""
        self.row, result, reader = 0, HoldoutResult(), self.reader
        kept = self._read.blocks
        blocks: Iterable[tuple[int, Any]] = kept or self.read_cells(reader.columns)
        for first, block in self.tracked("evaluating", blocks):
            apart = block.apart if kept else parts_apart(self.task, first, block)
            result = result.merge(reader.check(self.table, self.model, *apart))
        return result

    def pipeline(self) -> Pipeline:
        """Return the encoder and the model."""
        return Pipeline([("columns", self.survey.encoder), ("model", self.model)])

    @property
    def reader(self) -> RowReader:
        """How rows become features, labels and weights."""
        return RowReader(self.task, self.labels, self.survey.encoder)

    def blocks(self, *, again: bool) -> Iterator[tuple[int, ReadBlock]]:
        """Return the first row of each block, and the block, from where the pass stands.

        A small table is read and checked once, and kept in memory if it is needed `again`.
        """
        if self._read.blocks:
            yield from self._read.blocks
            return
        kept, reader = BlockCache(), self.reader
        for first, cells in self.read_cells(reader.columns):
            part = self.task.part(LEARN, first, cells)
            X, y, weights = reader.read(self.table, part)
            with self.table.naming_rows(part.places, self.task.labels.columns):
                batch = learning.prepare(self.model, X, y, None, weights)
            apart = parts_apart(self.task, first, cells)
            block = ReadBlock(cells.num_rows, part.places, batch, apart)
            if again:
                kept.add(first, block, self.survey.rows)
            yield first, block
        self._read = kept
        if again:
            said = "rows are kept" if kept.blocks else "rows are read again"
            log.info("memory: %s (%d MB at most)", said, CACHE_BYTES >> 20)

    def gather(self) -> tuple[Part, Any, ranking.Labels, Array | None]:
        """Return all rows to learn from, in memory, with their features, labels and weights."""
        reader = self.reader
        part = rows_to_learn(self.task, self.tracked("reading", self.read_cells(reader.columns)))
        return part, *reader.read(self.table, part)

    def read_cells(self, columns: list[str]) -> Blocks:
        """Return the blocks that the survey has kept, and drop them; or read them again."""
        if not self.cells.blocks:
            yield from self.table.blocks(columns, self.row)
        while self.cells.blocks:
            yield self.cells.blocks.popleft()

    def tracked(
        self, name: str, blocks: Iterable[tuple[int, Any]], *, keeping: bool = True
    ) -> Iterator[tuple[int, Any]]:
        """Return the blocks of a pass; after each, report progress.

        If `keeping`, also save a checkpoint if one is due.
        """
        total = self.table.n_rows if self.phase == "survey" else self.survey.rows
        for first, block in blocks:
            yield first, block
            self.row += block.num_rows
            self.done += block.num_rows
            self.progress(name, self.row, total)
            if keeping:
                self.keep(self.done - block.num_rows)

    # --- Stopping and going on ---

    def keep(self, before: int) -> None:
        """Save a checkpoint if one is due, given how many rows had been read before."""
        if self.checkpoint and self.checkpoint.is_due(before, self.done):
            self.checkpoint.save(self._state())

    def _state(self) -> dict[str, Any]:
        """Return all that was learned, and where the run stands."""
        names = ("phase", "row", "done", "epoch", "mistakes", "model", "partly")
        state = {name: getattr(self, name) for name in names}
        return state | {"survey": self.survey.to_dict(), "random": self.rng.get_state()}

    def _restore(self, state: dict[str, Any] | None) -> None:
        if state:
            self.survey.restore(state.pop("survey"))
            _, keys, position, *_ = random = state.pop("random")
            if not 0 <= position <= len(keys):  # NumPy would read beyond their end
                raise InputError(f"the checkpoint is damaged: random position {position}")
            self.rng.set_state(random)
            vars(self).update(state)
            log.info("checkpoint: %s, continued at row %d", self.phase, self.row + 1)

    def origin(self) -> dict[str, Any]:
        """Return what identifies this run, for its checkpoint."""
        table, csv = self.table.fingerprint(), self.table.style.to_note()
        return {"table": table, "task": to_note(self.task), "version": __version__, "csv": csv}

    # --- Results ---

    def describe(self) -> dict[str, Any]:
        """Return what was read and learned, and how good the model is on rows held out.

        It holds only what JSON has: the command prints it, and the model file keeps it.
        """
        task, encoder, result = self.task, self.survey.encoder, self.held_out
        _, order, ranks, counts, _ = self.encoded_labels
        left_out = dict.fromkeys(encoder.left_out_, "too many words")
        options = {name: value for name, value in to_note(task).items() if name != "labels"}
        return {
            "table": self.table.name,
            "contents": self.table.contents(),
            "csv": self.table.style.to_note(),
            "labels": to_note(self.labels.kind),  # with what the texts told
            "rows": self.survey.rows,
            "folders": [name for name in self.columns.used if name in self.table.partitions],
            "columns": {
                "numbers": encoder.numbers_,
                "words": {name: len(words) for name, words in encoder.words_.items()},
                "ignored": self.columns.ignored | left_out,
            },
            **self.survey.counts.describe(ranks, counts, order),
            **self._work(),
            "learned_rows": self.survey.rows_to_learn,
            "holdout": result.evaluation.to_dict(order) if task.holdout else None,
            "ranges": None
            if task.coverage is None
            else {
                "coverage": task.coverage,
                "guarantee": task.guarantee,
                "by": task.by,
                "calibration_rows": len(result.calibration.distance),
                "other_rows": len(result.calibration.others),  # whose label is a range
            },
            "options": options,
        }

    def _work(self) -> dict[str, Any]:
        """Return how long the model learned: in passes, in steps or in rounds of boosting."""
        learner, model = BY_COMMAND[self.task.model], self.model
        if learner.maximises:
            work = {"steps": model.n_iter_, "log_likelihood": model.loglik_}
        elif not learner.online:
            work = {"rounds": model.n_iter_}
        else:
            return {"passes": self.epoch, "mistakes": model.n_mistakes_}
        return {"passes": None, "mistakes": None, **work}
