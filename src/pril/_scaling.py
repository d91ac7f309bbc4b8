"""Learning from a table on a Dask cluster: the passes of `_training`, each piece read by a worker.

A piece is a file, or some row groups of one; workers read it where it lies, so they must see the
same files. What comes back to the client are encoders, counts and models, never rows.
"""

from __future__ import annotations

from pril import dask as cluster_learning  # before Dask itself: it says what to install

# isort: split
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from distributed import Client, LocalCluster
from distributed.utils import silence_logging_cmgr
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from pril import labels
from pril._tables import FORMATS, Parquet, Table, TableError
from pril._training import (
    Checkpoint,
    LabelCounts,
    Run,
    Task,
    Verdict,
    is_for_learning,
    judge,
    kept,
    located,
    rows_of,
    survey_block,
)
from pril.columns import ColumnEncoder, one_batch, read_labels

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    Array = NDArray[Any]


class Piece(NamedTuple):
    """Rows of a table that one task reads."""

    file: str
    format: str
    first: int
    rows: int | None
    seed: int  # chooses the rows held out: the same in every pass
    schema: pa.Schema | None  # of the whole table, where a file does not say its own

    def open(self) -> Table:
        """Return the file as a table."""
        return FORMATS[self.format]([Path(self.file)], self.file, self.schema)

    def blocks(
        self, table: Table, task: Task, columns: list[str]
    ) -> Iterator[tuple[int, pa.RecordBatch, Array]]:
        """Yield first row, cells, and which rows are for learning, of each block."""
        end = float("inf") if self.rows is None else self.first + self.rows
        own = Task(**{**vars(task), "seed": self.seed})
        for row, block in table.blocks(columns, self.first):
            if row >= end:
                break
            block = block.slice(0, int(min(block.num_rows, end - row)))
            yield row, block, is_for_learning(own, row, block.num_rows)


def survey_piece(
    piece: Piece, task: Task, encoder: ColumnEncoder, columns: list[str]
) -> tuple[ColumnEncoder, LabelCounts, int]:
    """Return what the columns and labels of a piece are like, and its number of rows."""
    table, encoder, counts, n_rows = piece.open(), clone(encoder), LabelCounts(task.labels), 0
    for row, block, learning in piece.blocks(table, task, [*columns, *task.labels]):
        survey_block(table, task, encoder, counts, row, block, learning)
        n_rows += block.num_rows
    return encoder, counts, n_rows


def read_piece(
    piece: Piece, task: Task, encoder: ColumnEncoder, text: bool
) -> tuple[Any, labels.Labels]:
    """Return features and labels of the rows for learning."""
    import pyarrow as pa

    table, names = piece.open(), [*encoder.feature_names_in_, *task.labels]
    parts = [pa.schema([table.schema.field(name) for name in names]).empty_table()]
    places: list[Any] = []
    for row, block, learning in piece.blocks(table, task, names):
        parts.append(pa.Table.from_batches([kept(block, learning)]))
        places.extend(rows_of(row, learning))
    whole = one_batch(pa.concat_tables(parts[1:] or parts))
    with located(table, np.array(places), task.labels):
        return encoder.transform(whole), read_labels(whole, task.labels, text=text)


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
        self.files = [file for file, _, _ in table.pieces()]  # as the user calls them
        self.pieces = [
            Piece(str(file.resolve()), names[type(table)], first, rows, task.seed + k, schema)
            for k, (file, first, rows) in enumerate(table.pieces())
        ]

    def __call__(self, checkpoint: Checkpoint | None = None) -> Pipeline:
        """Survey all pieces, then mix their models."""
        from dask import delayed

        blank = delayed(self.encoder, traverse=False)
        surveys = self._compute(
            [delayed(survey_piece)(p, self.task, blank, self.columns.used) for p in self.pieces],
            "reading the table",
        )
        found = zip(self.files, self.pieces, surveys, strict=True)
        for file, piece, (encoder, counts, rows) in found:
            if rows and self.n_rows == 0:
                self.encoder = encoder
            elif rows:
                self.encoder.merge(encoder)
            self.table.begin_file(file, self.n_rows - piece.first)
            self.counts.merge(counts, self.n_rows - piece.first)
            self.n_rows += rows
        if self.n_rows == 0:
            raise TableError(f"{self.table.name} has no rows")
        self._begin_learning()
        encoder = delayed(self.encoder, traverse=False)
        self.model = cluster_learning.fit_blocks(
            self.model,
            [delayed(read_piece)(piece, self.task, encoder, self.text) for piece in self.pieces],
            client=self.client,
            progress=self.bar,
        )
        self.epoch = self.model.n_iter_
        return Pipeline([("columns", self.encoder), ("model", self.model)])

    def judge(self) -> Verdict:
        """Return how good the model is on the rows that were held out."""
        from dask import delayed

        encoder, model = (delayed(part, traverse=False) for part in (self.encoder, self.model))
        verdicts = self._compute(
            [delayed(judge_piece)(p, self.task, encoder, self.text, model) for p in self.pieces],
            "judging the model",
        )
        return sum(verdicts, Verdict())

    def _compute(self, tasks: list[Any], doing: str) -> Any:
        from dask import delayed

        return cluster_learning.Cluster(self.client, self.bar).compute(delayed(list)(tasks), doing)


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
            _wait_for_workers(client, address, timeout)
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


def _wait_for_workers(client: Any, address: str, timeout: str) -> None:
    try:
        client.wait_for_workers(1, timeout=timeout)
    except TimeoutError:
        raise OSError(
            f"--cluster {address}: the scheduler has no workers; start some with: "
            f"dask worker {address}"
        ) from None


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
    """Say in one line that the cluster, or its workers, went away."""
    try:
        yield
    except RuntimeError as error:  # its sentence is about the cluster
        raise OSError(str(error)) from None
    except Exception as error:
        if type(error).__module__ != "distributed.scheduler":
            raise
        raise OSError(f"the Dask cluster has lost its workers: {error}") from None
