"""Learning from a table on a Dask cluster: the passes of `_training`, each piece read by a worker.

A piece is a file, or some row groups of one; workers read it where it lies, so they must see the
same files. What comes back to the client are encoders, counts and models, never rows.
"""

from __future__ import annotations

from pril import dask as cluster_learning  # before Dask itself: it says what to install

# isort: split
import logging
import os
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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

from pril import _ranks
from pril.errors import RowError
from pril.tables.cells import one_batch, read_labels
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import Table, TableError
from pril.tables.formats import FORMATS, Parquet
from pril.tables.survey import LabelCounts, kept, located, rows_of, survey_block
from pril.tables.training import Run, Task, Verdict, is_for_learning, judge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Piece(NamedTuple):
    """Rows of a table that one task reads."""

    file: str
    name: str  # what the user calls the file
    format: str
    first: int
    rows: int | None
    seed: int  # chooses the rows held out: the same in every pass
    schema: pa.Schema | None  # of the whole table, where a file does not say its own

    def open(self) -> Table:
        """Return the file as a table."""
        return FORMATS[self.format]([Path(self.file)], self.name, self.schema)

    def blocks(
        self, table: Table, task: Task, columns: list[str]
    ) -> Iterator[tuple[int, pa.RecordBatch, Array]]:
        """Yield first row, cells, and which rows are for learning, of each block."""
        end = float("inf") if self.rows is None else self.first + self.rows
        own = replace(task, seed=self.seed)
        for row, block in table.blocks(columns, self.first):
            if row >= end:
                break
            block = block.slice(0, int(min(block.num_rows, end - row)))
            yield row, block, is_for_learning(own, row, block.num_rows)


# --- Tasks: their names are what Dask's dashboard shows ------------------------------------------


def returning_errors(task: Callable[..., Any]) -> Callable[..., Any]:
    """Let a task return its error: who has all of them can name the first in the table."""

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
    """What the rows of a piece are like."""

    encoder: ColumnEncoder
    counts: LabelCounts
    rows: int
    learned: int  # rows that are not held out


@returning_errors
def survey_piece(piece: Piece, task: Task, encoder: ColumnEncoder, columns: list[str]) -> Survey:
    """Return what the columns and labels of a piece are like, and its number of rows."""
    table, encoder, counts = piece.open(), clone(encoder), LabelCounts(task.labels)
    n_rows = n_learned = 0
    for row, block, learning in piece.blocks(table, task, [*columns, *task.labels]):
        survey_block(table, task, encoder, counts, row, block, learning)
        n_rows += block.num_rows
        n_learned += int(learning.sum())
        if counts.are_too_many():  # the client refuses them
            break
    return Survey(encoder, counts, n_rows, n_learned)


def read_piece(
    piece: Piece, task: Task, encoder: ColumnEncoder, text: bool
) -> tuple[Any, _ranks.Labels]:
    """Return features and labels of the rows for learning."""
    table = piece.open()
    whole, places = _learned_rows(piece, table, task, encoder)
    with located(table, places, task.labels):
        return encoder.transform(whole), read_labels(whole, task.labels, text=text)


@returning_errors
def try_piece(piece: Piece, task: Task, encoder: ColumnEncoder, text: bool, model: Any) -> None:
    """Learn a piece as one process does, so that an error names its file and row."""
    table = piece.open()
    whole, places = _learned_rows(piece, table, task, encoder)
    with located(table, places, task.labels):
        found = read_labels(whole, task.labels, text=text)
        try:
            clone(model)._learn_once(encoder.transform(whole), found, None, recording=False)
        except RowError:
            raise
        except ValueError as error:  # an overflow, which has no row
            raise TableError(f"{piece.name}: {error}") from None


def _learned_rows(
    piece: Piece, table: Table, task: Task, encoder: ColumnEncoder
) -> tuple[pa.RecordBatch, Array]:
    """Return the rows for learning, and where in the file they are."""
    names = [*encoder.feature_names_in_, *task.labels]
    parts = [pa.schema([table.schema.field(name) for name in names]).empty_table()]
    places = [np.empty(0, dtype=np.int64)]
    for row, block, learning in piece.blocks(table, task, names):
        parts.append(pa.Table.from_batches([kept(block, learning)]))
        places.append(rows_of(row, learning))
    return one_batch(pa.concat_tables(parts[1:] or parts)), np.concatenate(places)


@returning_errors
def judge_piece(
    piece: Piece, task: Task, encoder: ColumnEncoder, text: bool, model: Any
) -> Verdict:
    """Return how good the model is on the rows held out."""
    table, verdict, names = piece.open(), Verdict(), [*encoder.feature_names_in_, *task.labels]
    for _, block, learning in piece.blocks(table, task, names):
        held = kept(block, ~learning)
        found = read_labels(held, task.labels, text=text)
        judge(model, encoder.transform(held), found, verdict)
    return verdict


# --- The run -------------------------------------------------------------------------------------


class ClusterRun(Run):
    """One run over a table, on a cluster: survey, rounds of mixing, verdict."""

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
                name=table.called(file),
                format=names[type(table)],
                first=first,
                rows=rows,
                seed=task.seed + k,
                schema=schema,
            )
            for k, (file, first, rows) in enumerate(pieces)
        ]

    def _survey(self) -> None:
        learned = 0
        surveys = self._compute("reading the table", survey_piece, self.encoder, self.columns.used)
        for file, piece, survey in zip(self.files, self.pieces, surveys, strict=True):
            if survey.rows and self.n_rows == 0:
                self.encoder = survey.encoder
            elif survey.rows:
                self.encoder.merge(survey.encoder)
            self.table.begin_file(file, self.n_rows - piece.first)
            self.counts.merge(survey.counts, self.n_rows - piece.first)
            self.counts.check_number(self.table)
            self.n_rows += survey.rows
            learned += survey.learned
        if self.n_rows == 0:
            raise TableError(f"{self.table.name} has no rows")
        self._begin_learning()
        if learned == 0:
            raise TableError(f"{self.table.name}: every row was held out; make --holdout smaller")

    def _learn(self) -> None:
        blocks = self._tasks(read_piece, self.encoder, self.text)
        try:
            self.model = cluster_learning.fit_blocks(
                self.model, blocks, client=self.client, progress=self.bar
            )
        except ValueError as error:  # of some piece: let the first that has one say it
            doing = "looking for the mistake"
            list(self._compute(doing, try_piece, self.encoder, self.text, self.model))
            # No piece fails by itself: mixed, the model overflowed.
            raise ValueError(re.sub(r"^block \d+: ", "", str(error))) from None
        self.epoch = self.model.n_iter_
        self.phase = "done"

    def judge(self) -> Verdict:
        """Return how good the model is on the rows that were held out."""
        verdicts = self._compute(
            "judging the model", judge_piece, self.encoder, self.text, self.model
        )
        return sum(verdicts, Verdict())

    def _tasks(self, task: Callable[..., Any], *shared: Any) -> list[Any]:
        """Return a lazy call for each piece; what they share is sent once."""
        lent = [delayed(part, traverse=False) for part in shared]
        return [delayed(task)(piece, self.task, *lent) for piece in self.pieces]

    def _compute(self, doing: str, task: Callable[..., Any], *shared: Any) -> Iterator[Any]:
        """Yield the results of a task in the order of the pieces, up to the first error."""
        cluster = cluster_learning.Cluster(self.client, self.bar)
        for result in cluster.compute(delayed(list)(self._tasks(task, *shared)), doing):
            if isinstance(result, Exception):
                raise result
            yield result


# --- The cluster ---------------------------------------------------------------------------------


@contextmanager
def connected(address: str | None, workers: int | None, timeout: str = "10s") -> Iterator[Any]:
    """Yield a client of a running cluster, or of one of local processes that ends with it."""
    if address is not None:
        with (
            silence_logging_cmgr(logging.CRITICAL),
            _client(address, timeout) as client,
            _lost_cluster(),
        ):
            _greet_workers(client, address, timeout)
            yield client
    else:
        options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0"}
        with _without_ctrl_c():
            cluster = LocalCluster(workers, silence_logs=logging.CRITICAL, **options)
        with cluster, Client(cluster) as client, _lost_cluster():
            yield client


def _client(address: str, timeout: str) -> Any:
    try:
        return Client(address, timeout=timeout)
    except OSError as error:
        raise OSError(f"--cluster {address}: no Dask scheduler answers there: {error}") from None
    except (TypeError, ValueError) as error:
        raise ValueError(f"--cluster {address}: {error}") from None


def _greet_workers(client: Any, address: str, timeout: str) -> None:
    """Say that nobody is there to work yet; an adaptive cluster starts workers when due."""
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        warnings.warn(
            f"--cluster {address}: the scheduler has no workers yet; start some with: "
            f"dask worker {address}",
            stacklevel=2,
        )


@contextmanager
def _without_ctrl_c() -> Iterator[None]:
    """Let the workers that are started meanwhile never see Ctrl-C: this process ends them.

    They inherit a mask of signals; so does Dask's thread, which starts them again if they die.
    """
    if os.name != "posix":  # elsewhere there are no masks
        yield
        return
    resource_tracker.ensure_running()  # or Dask's thread starts it, which unblocks the signal there
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def _lost_cluster() -> Iterator[None]:
    """Say in one line that the cluster went away, or cannot work."""
    try:
        yield
    except RuntimeError as error:  # ClusterLost, or Dask's own where workers have other versions
        raise OSError(str(error)) from None
