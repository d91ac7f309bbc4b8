"""Learn from a table on a Dask cluster: `pril.dask.fit_blocks` of the pipeline, over its pieces.

A piece is a file, or some row groups of one. Workers read it themselves, so they need access to
the same files. They return surveys, sums and models to the client, never rows.
"""

from __future__ import annotations

from pril.dask import Cluster, fit_blocks  # before Dask, to say what to install if it is missing

# isort: split
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from typing import Any, NamedTuple

import pyarrow as pa
from dask import delayed
from dask.delayed import Delayed
from distributed import Client
from sklearn.base import clone

from pril.bases.classifier import OrdinalLearner
from pril.core.registry import BY_COMMAND
from pril.dask.blocks import merge_on
from pril.errors import InputError, PrilError, RowError
from pril.learners.boosting.features import find_categories
from pril.online.learning import OnlineClassifier
from pril.tables.encoder import is_dense, n_features_of
from pril.tables.files import Blocks, Table
from pril.tables.label_columns import LabelColumns
from pril.tables.survey import Columns, Part, Survey, Task
from pril.tables.training import HoldoutResult, RowReader, Run, parts_apart, rows_to_learn

log = logging.getLogger(__name__)


class Piece(NamedTuple):
    """Rows of a table that one task reads."""

    table: Table  # of one file
    first: int
    rows: int | None
    task: Task  # its seed chooses the rows, or the groups, held out, the same in every pass

    def open(self) -> Piece:
        """Return the piece, to be read on this machine."""
        return self._replace(table=self.table.stamped())

    def blocks(self, columns: list[str]) -> Blocks:
        """Yield the first row and the cells of each block."""
        end = float("inf") if self.rows is None else self.first + self.rows
        for row, block in self.table.blocks(columns, self.first):
            if row >= end:
                break
            yield row, block.slice(0, int(min(block.num_rows, end - row)))

    def to_learn(self, columns: list[str]) -> Part:
        """Return the rows for learning; their places are those in the file."""
        fields = [self.table.schema.field(name) for name in dict.fromkeys(columns)]
        none = pa.RecordBatch.from_pylist([], pa.schema(fields))
        return rows_to_learn(self.task, list(self.blocks(columns)) or [(0, none)])


# --- Tasks: their names are what Dask's dashboard shows ------------------------------------------


def returning_errors(task: Callable[..., Any]) -> Callable[..., Any]:
    """Let a task return its error, so that the client can report the first one in the table."""

    @wraps(task)
    def attempt(piece: Piece, *arguments: object) -> Any:
        try:
            return task(piece, *arguments)
        except FileNotFoundError:
            reason = "a worker cannot find this file; all workers need the table"
            return piece.table.error(reason)
        except (ValueError, OSError) as error:
            if isinstance(error, PrilError) or getattr(error, "errno", 0) is not None:
                return error
            # Of an object store, where a worker may lack what the client has in its environment.
            return piece.table.error(f"a worker cannot read this file: {error}")

    return attempt


@returning_errors
def survey_piece(piece: Piece, columns: Columns, labels: LabelColumns) -> Survey:
    """Learn the columns of a piece and count its labels and rows."""
    piece, survey = piece.open(), Survey(piece.task, columns, labels, piece.first)
    for row, block in piece.blocks([*columns.used, *piece.task.columns]):
        survey.add(piece.table, piece.task, row, block)
        if survey.counts.are_too_many():  # the client refuses them
            break
    return survey


def read_piece(piece: Piece, reader: RowReader) -> Any:
    """Return cells, labels and weights of the rows for learning."""
    cells = piece.open().to_learn(reader.columns).cells
    return cells, reader.labels.read(cells), reader.task.read_weights(cells)


@returning_errors
def try_piece(piece: Piece, reader: RowReader, model: Any) -> HoldoutResult:
    """Learn a piece as one process does, so that an error names its file and row."""
    piece = piece.open()
    part = piece.to_learn(reader.columns)
    X, y, weights = reader.read(piece.table, part)
    with piece.table.naming_rows(part.places, piece.task.labels.columns):
        try:
            learner = clone(model)
            if isinstance(learner, OnlineClassifier):
                learner.partial_fit(X, y, sample_weight=weights)
            else:
                learner.categories_ = find_categories(learner.categorical_features, X)
                learner.engine.read(learner, X, reset=True, min_rows=0)
        except RowError:
            raise
        except InputError as error:  # an overflow without a row number
            raise piece.table.error(str(error)) from None
    return HoldoutResult()


@returning_errors
def check_piece(piece: Piece, reader: RowReader, model: OrdinalLearner) -> HoldoutResult:
    """Rate the rows that are kept apart."""
    piece, result = piece.open(), HoldoutResult()
    for row, block in piece.blocks(reader.columns):
        apart = parts_apart(piece.task, row, block)
        result = result.merge(reader.check(piece.table, model, *apart))
    return result


# --- The run -------------------------------------------------------------------------------------


@contextmanager
def checking_files(table: Table) -> Iterator[None]:
    """Refuse a table that has changed meanwhile, whatever else is wrong with it."""
    try:
        yield
    finally:
        for file in table.files:
            with suppress(FileNotFoundError):  # a worker says so
                table.check_unchanged(file)


class ClusterRun(Run):
    """A run over a table on a cluster: the workers survey, learn, and check what is kept apart."""

    def __init__(self, table: Table, task: Task, client: Client, shows_progress: bool) -> None:
        if task.groups and not BY_COMMAND[task.model].online:
            raise InputError(
                f"on a cluster, {task.model} cannot keep the groups in {task.groups!r} together: "
                "learn in this process, or choose another model"
            )
        super().__init__(table, task, lambda *_: None)
        self.client, self.shows_progress = client, shows_progress
        self.pieces = [
            Piece(part, first, rows, replace(task, seed=task.seed + (0 if task.groups else k)))
            for k, (part, first, rows) in enumerate(table.pieces())
        ]

    def survey_table(self) -> None:
        """Learn how to encode the columns, and which labels there are."""
        log.info("cluster: the table is read in %d parts", len(self.pieces))
        labels = self.survey.counts.columns
        self.survey = self._merged("reading the table", survey_piece, self.columns, labels)
        for piece, offset in zip(self.pieces, self.survey.offsets, strict=True):
            self.table.begin_file(piece.table.name, offset)
        self.survey.counts.check_number(self.table)

    def learn(self) -> None:
        """Fit the pipeline to all pieces."""
        blocks = self._tasks(read_piece, self.reader)
        encoder, ends = self.survey.encoder, [*self.survey.offsets[1:], self.survey.rows]
        largest = max(end - start for start, end in zip(self.survey.offsets, ends, strict=True))
        n_cells = len(encoder.numbers_) + len(encoder.words_)  # of a sparse row, with their places
        width = n_features_of(encoder) if is_dense(encoder) else 1.5 * n_cells
        Cluster(self.client, progress=False).check_memory(largest, width)
        try:
            with checking_files(self.table):
                fitted = fit_blocks(
                    self.pipeline(), blocks, client=self.client, progress=self.shows_progress
                )
        except InputError as error:  # report the first piece that cannot be learned
            self._merged("looking for the bad row", try_piece, self.reader, self.model)
            if not BY_COMMAND[self.task.model].mixes:
                raise self.table.error(str(error)) from None
            reason = "each part can be learned alone, but not mixed with the others"
            raise self.table.error(f"{reason}: {error}") from None
        self.model = fitted[-1]
        self.epoch = self.model.n_iter_

    def check_table(self) -> HoldoutResult:
        """Evaluate the model, and calibrate its ranges, on the rows kept apart."""
        return self._merged("evaluating", check_piece, self.reader, self.model)

    def _tasks(self, task: Callable[..., Any], *shared: object) -> list[Delayed]:
        """Return a lazy call for each piece; the shared arguments are sent once."""
        common = [delayed(part, traverse=False) for part in shared]
        return [delayed(task)(piece, *common) for piece in self.pieces]

    def _merged(self, doing: str, task: Callable[..., Any], *shared: object) -> Any:
        """Return the results of a task, merged, or raise the first error in the table."""
        cluster = Cluster(self.client, self.shows_progress)
        with checking_files(self.table):
            return merge_on(cluster, self._tasks(task, *shared), doing)
