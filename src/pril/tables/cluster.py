"""Learn from a table on a Dask cluster: the passes of `training`, each piece read by a worker.

A piece is a file, or some row groups of one. Workers read it themselves, so they must see the same
files. They return encoders, counts and models to the client, never rows.
"""

from __future__ import annotations

from pril import dask as cluster_learning  # before Dask, to say what to install if it is missing

# isort: split
import logging
import os
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import wraps
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
from dask import delayed
from distributed import Client, LocalCluster
from distributed.utils import silence_logging_cmgr
from sklearn.base import clone

from pril.core import ranking
from pril.core.evaluation import Evaluation
from pril.core.learner import Batch
from pril.errors import InputError, RowError, UnavailableError
from pril.tables.cells import one_batch
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import Table, TableError
from pril.tables.formats import Parquet
from pril.tables.label_columns import LabelColumns
from pril.tables.model import evaluate_batch, read_batch
from pril.tables.opening import FORMATS
from pril.tables.reservoir import Reservoir
from pril.tables.survey import LabelCounts, row_numbers, select_rows, survey_block
from pril.tables.training import (
    Calibration,
    Run,
    Task,
    Uses,
    all_held_out,
    sample_for,
    uses_of,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


log = logging.getLogger(__name__)


class Piece(NamedTuple):
    """Rows of a table that one task reads."""

    file: str
    name: str  # what the user calls the file
    format: str
    first: int
    rows: int | None
    seed: int  # chooses the rows held out, the same in every pass
    schema: pa.Schema | None  # of the whole table; None if every file has it

    def open(self) -> Table:
        """Return the file as a table."""
        return FORMATS[self.format]([Path(self.file)], self.name, self.schema)

    def blocks(
        self, table: Table, task: Task, columns: list[str]
    ) -> Iterator[tuple[int, pa.RecordBatch, Uses]]:
        """Yield first row, cells, and what the rows are for, of each block."""
        end = float("inf") if self.rows is None else self.first + self.rows
        own = replace(task, seed=self.seed)
        for row, block in table.blocks(columns, self.first):
            if row >= end:
                break
            block = block.slice(0, int(min(block.num_rows, end - row)))
            yield row, block, uses_of(own, row, block.num_rows)


# --- Tasks: their names are what Dask's dashboard shows ------------------------------------------


def returning_errors(task: Callable[..., Any]) -> Callable[..., Any]:
    """Let a task return its error, so that the client can report the first one in the table."""

    @wraps(task)
    def attempt(piece: Piece, *arguments: Any) -> Any:
        try:
            return task(piece, *arguments)
        except FileNotFoundError:
            return TableError(
                f"{piece.name}: a worker does not find this file; all workers must see the table"
            )
        except (ValueError, OSError) as error:
            return error

    return attempt


class Survey(NamedTuple):
    """What a worker has read in a piece."""

    encoder: ColumnEncoder
    counts: LabelCounts
    rows: int
    learned: int  # rows that are not kept apart
    reservoir: Reservoir | None


@returning_errors
def survey_piece(
    piece: Piece, task: Task, encoder: ColumnEncoder, columns: LabelColumns, features: list[str]
) -> Survey:
    """Learn the columns of a piece and count its labels and rows."""
    table, encoder, counts = piece.open(), clone(encoder), LabelCounts(columns)
    reservoir = sample_for(task, piece.seed)
    n_rows = n_learned = 0
    for row, block, uses in piece.blocks(table, task, [*features, *task.columns]):
        survey_block(table, task, encoder, counts, row, block, uses.learning)
        if reservoir:
            reservoir.add(encoder, row, block.select(features), uses.learning)
        n_rows += block.num_rows
        n_learned += int(uses.learning.sum())
        if counts.are_too_many():  # the client refuses them
            break
    return Survey(encoder, counts, n_rows, n_learned, reservoir)


def read_piece(
    piece: Piece, task: Task, front: Any, columns: LabelColumns
) -> tuple[Any, ranking.Labels, Array | None]:
    """Return features, labels and weights of the rows for learning."""
    table = piece.open()
    batch, rows = _rows_for_learning(piece, table, task, front)
    with table.naming_rows(rows, task.labels):
        labels = columns.read(batch)
        return front.transform(batch), labels, task.read_weights(batch)


@returning_errors
def try_piece(piece: Piece, task: Task, front: Any, columns: LabelColumns, model: Any) -> None:
    """Learn a piece as one process does, so that an error names its file and row."""
    table = piece.open()
    batch, rows = _rows_for_learning(piece, table, task, front)
    with table.naming_rows(rows, task.labels):
        labels = columns.read(batch)
        try:
            weights = task.read_weights(batch)
            clone(model)._partial_fit(front.transform(batch), labels, None, weights)
        except RowError:
            raise
        except InputError as error:  # an overflow without a row number
            raise TableError(f"{piece.name}: {error}") from None


def _rows_for_learning(
    piece: Piece, table: Table, task: Task, front: Any
) -> tuple[pa.RecordBatch, Array]:
    """Return the rows for learning, and their positions in the file."""
    names = [*front.feature_names_in_, *task.columns]
    parts = [pa.schema([table.schema.field(name) for name in names]).empty_table()]
    rows = [np.empty(0, dtype=np.int64)]
    for row, block, uses in piece.blocks(table, task, names):
        parts.append(pa.Table.from_batches([select_rows(block, uses.learning)]))
        rows.append(row_numbers(row, uses.learning))
    return one_batch(pa.concat_tables(parts[1:] or parts)), np.concatenate(rows)


@returning_errors
def evaluate_piece(
    piece: Piece, task: Task, front: Any, columns: LabelColumns, model: Any
) -> Evaluation:
    """Return how good the model is on the rows held out."""
    batches = _batches(piece, task, front, columns, model, "held_out")
    return sum((evaluate_batch(model, batch) for batch in batches), Evaluation())


@returning_errors
def calibrate_piece(
    piece: Piece, task: Task, front: Any, columns: LabelColumns, model: Any
) -> Calibration:
    """Return the scores of the rows that calibrate."""
    batches = _batches(piece, task, front, columns, model, "calibration")
    parts = [Calibration.of(task, model, batch) for batch in batches]
    return Calibration.join([Calibration(np.empty(0), 0), *parts])


def _batches(
    piece: Piece, task: Task, front: Any, columns: LabelColumns, model: Any, use: str
) -> Iterator[Batch]:
    """Yield the rows of one use, as the model takes them, without those of weight zero."""
    names = [*front.feature_names_in_, *task.columns]
    for _, block, uses in piece.blocks(piece.open(), task, names):
        rows = select_rows(block, getattr(uses, use) & task.counting(block))
        if rows.num_rows:
            labels = columns.read(rows)
            yield read_batch(model, front.transform(rows), labels)


# --- The run -------------------------------------------------------------------------------------


class ClusterRun(Run):
    """One run over a table, on a cluster: survey, rounds of mixing, evaluation."""

    def __init__(self, table: Table, task: Task, client: Any, progress: bool) -> None:
        super().__init__(table, task, lambda *_: None)
        if self.columns.sparse:
            raise TableError(f"{table.name}: sparse tables are not learned on a cluster")
        self.client = client
        self.bar = progress
        names = {kind: name for name, kind in FORMATS.items()}
        schema = None if isinstance(table, Parquet) else table.schema
        pieces = table.pieces()
        self.files = [file for file, _, _ in pieces]
        self.pieces = [
            Piece(
                file=str(file.resolve()),
                name=table.name_of(file),
                format=names[type(table)],
                first=first,
                rows=rows,
                seed=task.seed + k,
                schema=schema,
            )
            for k, (file, first, rows) in enumerate(pieces)
        ]

    def _survey(self) -> None:
        log.info("cluster: the table is read in %d parts", len(self.pieces))
        learned = 0
        shared = (self.encoder, self.labels, self.columns.used)
        surveys = self._compute("reading the table", survey_piece, *shared)
        for file, piece, survey in zip(self.files, self.pieces, surveys, strict=True):
            if survey.rows and self.n_rows == 0:
                self.encoder = survey.encoder
            elif survey.rows:
                self.encoder.merge(survey.encoder)
            self.table.begin_file(file, self.n_rows - piece.first)
            self.counts.merge(survey.counts, self.n_rows - piece.first)
            self.counts.check_number(self.table)
            if self.reservoir:
                self.reservoir.merge(survey.reservoir)
            self.n_rows += survey.rows
            learned += survey.learned
        self._check_unchanged()
        if self.n_rows == 0:
            raise TableError(f"{self.table.name} has no rows")
        self._begin_learning()
        if learned == 0:
            raise all_held_out(self.table)

    def _learn(self) -> None:
        blocks = self._tasks(read_piece, self.front, self.labels)
        try:
            self.model = cluster_learning.fit_blocks(
                self.model, blocks, client=self.client, progress=self.bar
            )
        except InputError as error:  # some piece is wrong: report the first that is
            doing = "looking for the mistake"
            list(self._compute(doing, try_piece, self.front, self.labels, self.model))
            reason = "each part can be learned alone, but not mixed with the others"
            raise TableError(f"{self.table.name}: {reason}: {error}") from None
        self._check_unchanged()
        self.epoch = self.model.n_iter_
        self.phase = "done"

    def evaluate(self) -> Evaluation:
        """Return how good the model is on the rows that were held out."""
        shared = (self.front, self.labels, self.model)
        evaluation = sum(self._compute("evaluating", evaluate_piece, *shared), Evaluation())
        self._check_unchanged()
        return evaluation

    def _check_unchanged(self) -> None:
        for file in self.table.files:
            self.table.check_unchanged(file)

    def _calibrate(self) -> Calibration:
        shared = (self.front, self.labels, self.model)
        calibration = Calibration.join(self._compute("calibrating", calibrate_piece, *shared))
        self._check_unchanged()
        return calibration

    def _tasks(self, task: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return a lazy call for each piece; the shared arguments are sent once."""
        common = [delayed(part, traverse=False) for part in shared]
        return [delayed(task)(piece, self.task, *common) for piece in self.pieces]

    def _compute(self, doing: str, task: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the results of a task in the order of the pieces, up to the first error."""
        cluster = cluster_learning.Cluster(self.client, self.bar)
        for result in cluster.compute(delayed(list)(self._tasks(task, *shared)), doing):
            if isinstance(result, Exception):
                with suppress(FileNotFoundError):  # a worker has said so
                    self._check_unchanged()
                raise result
            yield result


# --- The cluster ---------------------------------------------------------------------------------


@contextmanager
def connected(address: str | None, workers: int | None, timeout: str = "10s") -> Iterator[Any]:
    """Yield a client of a running cluster, or of new local processes, which end with it."""
    if address is not None:
        with (
            silence_logging_cmgr(logging.CRITICAL),
            _client(address, timeout) as client,
            _one_error_if_lost(),
        ):
            _check_workers(client, address, timeout)
            yield client
    else:
        options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0"}
        with _without_ctrl_c():
            cluster = LocalCluster(workers, silence_logs=logging.CRITICAL, **options)
        with cluster, Client(cluster) as client, _one_error_if_lost():
            yield client


def _client(address: str, timeout: str) -> Any:
    try:
        return Client(address, timeout=timeout)
    except OSError as error:
        raise UnavailableError(f"no Dask scheduler answers at {address}: {error}") from None
    except (TypeError, ValueError) as error:
        raise InputError(f"the address of the Dask scheduler, {address}: {error}") from None


def _check_workers(client: Any, address: str, timeout: str) -> None:
    """Warn if there is no worker yet; an adaptive cluster starts workers later."""
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        warnings.warn(
            f"the Dask scheduler at {address} has no workers yet; start some with: "
            f"dask worker {address}",
            stacklevel=2,
        )


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Start workers that ignore Ctrl-C: this process ends them.

    They inherit the blocked signal; so does Dask's thread, which restarts workers that die.
    """
    if os.name != "posix":  # other systems cannot block signals
        yield
        return
    resource_tracker.ensure_running()  # else Dask's thread starts it, which unblocks the signal
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _one_error_if_lost() -> Iterator[None]:
    """Turn errors of a cluster that went away, or cannot work, into one kind of error."""
    try:
        yield
    except RuntimeError as error:  # ClusterLost, or Dask's own if workers have other versions
        raise UnavailableError(str(error)) from None
