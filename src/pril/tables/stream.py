"""Rows from a pipe: predict each, then learn from it if it has a label."""

from __future__ import annotations

import csv
import io as streams
import json
import os
import signal
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

from pril import _ranks
from pril.errors import RowError
from pril.tables.cells import one_batch, read_labels
from pril.tables.files import BOM, TableError, no_column, quote_columns
from pril.tables.json_lines import parse_json_lines, split_lines
from pril.tables.model import Evaluation, LoadedModel, pick_scores
from pril.tables.training import Checkpoint

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Rows that are read together are answered together: this limits how long one waits, to some 10 ms.
CHUNK_BYTES = 1 << 19
NAME = "<stdin>"


# Signals that ask a process to end; the last two come when the terminal is closed.
STOPPING = [
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    if hasattr(signal, name)
]


class Stopped(Exception):  # noqa: N818 - it is not an error
    """The process was asked to stop."""


def chunks(descriptor: int) -> Iterator[bytes]:
    """Return whole lines from a pipe as soon as they arrive."""
    with suppress(ImportError, AttributeError, OSError):  # not Linux, or not a pipe
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, CHUNK_BYTES)  # the default is 64 KiB
    rest = b""
    while data := os.read(descriptor, CHUNK_BYTES):
        whole, newline, rest_after = data.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
            rest = rest_after
        else:
            rest += data
    if rest:
        yield rest + b"\n"


# --- Formats -------------------------------------------------------------------------------------


class JsonRows:
    """One JSON object in each line, in and out."""

    def __init__(self, classes: Array, needed: list[str]) -> None:
        self._classes = [json.dumps(_ranks.plain(name), ensure_ascii=False) for name in classes]

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        return b"", lines

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows of whole lines."""
        return one_batch(parse_json_lines(lines, schema))

    def answer(self, rank: Array, score: Array) -> bytes:
        """Return the lines that answer some rows."""
        pairs = zip(rank.tolist(), score.tolist(), strict=True)
        lines = [f'{{"prediction": {self._classes[r]}, "score": {s!r}}}\n' for r, s in pairs]
        return "".join(lines).encode()


class CsvRows:
    """CSV with a header, in and out; a row is one line."""

    def __init__(self, classes: Array, needed: list[str]) -> None:
        self._needed = needed
        self._classes = [_csv_line([_ranks.plain(name)]).rstrip("\n") for name in classes]
        self._names: list[str] = []

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        if self._names:
            return b"", lines
        first, _, rest = lines.lstrip().partition(b"\n")
        try:
            self._names = next(csv.reader([first.decode("utf-8-sig")]))
        except UnicodeDecodeError:
            raise TableError(f"{NAME}: the header is not UTF-8: {first[:60]!r}") from None
        except csv.Error as error:
            raise TableError(f"{NAME}: the header is not CSV: {error}") from None
        if len(set(self._names)) < len(self._names):
            raise TableError(f"{NAME}: the header names a column twice: {', '.join(self._names)}")
        for name in self._needed:
            if name not in self._names:
                raise TableError(f"{NAME}: {no_column(name, self._names)}")
        return b"prediction,score\n", rest

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows of whole lines, as text."""
        types = {name: pa.string() for name in schema.names}
        if not lines.strip():
            return one_batch(pa.schema(types).empty_table())
        try:
            table = pa.csv.read_csv(
                streams.BytesIO(lines),
                pa.csv.ReadOptions(use_threads=False, column_names=self._names),
                convert_options=pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=schema.names,
                    include_missing_columns=True,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid as error:
            self._refuse(lines)
            raise TableError(f"{NAME}: {error}") from None
        if table.num_rows != len(split_lines(lines)):  # a quoted cell goes on in the next line
            self._refuse(lines)
        return one_batch(table)

    def _refuse(self, lines: bytes) -> None:
        """Raise an error for the first line that is not a whole row."""
        for row, line in enumerate(split_lines(lines)):
            shown = repr(line[:60].decode(errors="replace"))
            try:
                cells = next(csv.reader([line.decode(errors="replace")], strict=True))
            except csv.Error as error:
                raise RowError("X", row, f"not a row of CSV ({error}): {shown}") from None
            if len(cells) != len(self._names):
                reason = f"{len(cells)} cells where the header has {len(self._names)}"
                raise RowError("X", row, f"{reason}: {shown}")

    def answer(self, rank: Array, score: Array) -> bytes:
        """Return the lines that answer some rows."""
        pairs = zip(rank.tolist(), score.tolist(), strict=True)
        return "".join([f"{self._classes[r]},{s!r}\n" for r, s in pairs]).encode()


def _csv_line(cells: list[Any]) -> str:
    text = streams.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


# --- The stream ----------------------------------------------------------------------------------


@dataclass
class Position:
    """How far a stream has been read: rows, and a checksum of their bytes."""

    rows: int = 0
    checksum: int = 0

    def advance(self, lines: list[bytes]) -> None:
        """Count some lines."""
        self.rows += len(lines)
        self.checksum = zlib.crc32(b"\n".join([*lines, b""]), self.checksum)


class Stream:
    """Answer rows from a pipe, and learn from those with labels."""

    def __init__(
        self,
        model: LoadedModel,
        names: tuple[str, ...],
        output: IO[bytes],
        report: Any,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.model = model
        self.names = names
        self.output = output
        self.report = report
        self.checkpoint = checkpoint
        self.position = Position()
        self.evaluation = Evaluation()
        self._schema = self._needed_columns()

    def _needed_columns(self) -> pa.Schema:
        both = set(self.names) & set(self.model.columns)
        if both:
            raise ValueError(f"the column {min(both)!r} cannot be a label: it is a feature")
        encoder = self.model.encoder
        words = set(encoder.words_) if encoder is not None else set()
        kind = pa.string() if self.model.has_text_labels else pa.float64()
        return pa.schema(
            [(n, pa.string() if n in words else pa.float64()) for n in self.model.columns]
            + [(n, kind) for n in self.names]
        )

    def run(self, descriptor: int, format: str | None) -> None:  # noqa: A002
        """Answer every row until the input ends."""
        rows: JsonRows | CsvRows | None = None
        skip = self._restore()
        try:
            for lines in self._interruptible(chunks(descriptor)):
                if rows is None:
                    lines = lines.removeprefix(BOM).lstrip()
                    if not lines:  # blank lines do not show the format
                        continue
                    json_lines = lines.startswith((b"{", b"["))
                    is_json = json_lines if format is None else format == "jsonl"
                    kind = JsonRows if is_json else CsvRows
                    rows = kind(self.model.learner.classes_, self.model.columns)
                heading, lines = rows.header(lines)
                if skip.rows == 0:
                    self._write(heading)
                new = self._new_lines(split_lines(lines), skip)
                if new:
                    self._answer(rows, new)
        except (TableError, Stopped):  # the model has learned whole rows: save it
            # Before `skip.rows` the model knows rows that this run has not read yet: do not save.
            if self.checkpoint and self.position.rows >= skip.rows:
                self.checkpoint.save(self._state())
            raise
        if self.position.rows < skip.rows:
            raise ValueError(
                f"{NAME} has {self.position.rows} rows, but the checkpoint has seen {skip.rows}: "
                "it belongs to another stream"
            )

    def _interruptible(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Return chunks until a signal comes: it stops waiting at once, and work after a chunk."""
        waiting = stopping = False

        def stop(*_: Any) -> None:
            nonlocal stopping
            stopping = True
            if waiting:
                raise Stopped

        handlers = {name: signal.signal(name, stop) for name in STOPPING}
        try:
            while not stopping:
                waiting = True
                chunk = next(chunks, None)
                waiting = False
                if chunk is None:
                    return
                yield chunk
            raise Stopped
        finally:
            for name, handler in handlers.items():
                signal.signal(name, handler)

    def _restore(self) -> Position:
        state = self.checkpoint.restore() if self.checkpoint else None
        if state is None:
            return Position()
        self.model.use(state["model"])
        sums = state["evaluation"]
        self.evaluation = Evaluation(**sums | {"inside": tuple(sums["inside"])})
        return Position(state["rows"], state["checksum"])

    def save_end(self, written: str | None) -> None:
        """Save that all rows are learned, before a model with this checksum replaces MODEL."""
        if self.checkpoint:
            self.checkpoint.save(self._state(), written)

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model.model,
            "evaluation": vars(self.evaluation) | {"inside": list(self.evaluation.inside)},
            "rows": self.position.rows,
            "checksum": self.position.checksum,
        }

    def _new_lines(self, lines: list[bytes], skip: Position) -> list[bytes]:
        """Return the lines that the checkpoint has not seen; check that the others are the same."""
        old = max(0, skip.rows - self.position.rows)
        if old == 0:
            return lines
        self.position.advance(lines[:old])
        if self.position.rows == skip.rows and self.position.checksum != skip.checksum:
            raise ValueError(
                f"{NAME}: the first {skip.rows} rows are not those that the checkpoint has seen: "
                "it belongs to another stream"
            )
        return lines[old:]

    def _answer(self, rows: JsonRows | CsvRows, lines: list[bytes]) -> None:
        """Answer some lines; if one is wrong, answer those before it and raise an error."""
        try:
            with self.model.learner._unchanged_on_failure():
                batch = rows.parse(b"\n".join([*lines, b""]), self._schema)
                intervals, rank, score = self._learn(batch)
        except RowError as error:
            if error.row:
                self._answer(rows, lines[: error.row])
            columns = f"{quote_columns(self.names)}: " if error.argument == "y" else ""
            raise TableError(f"{self._place()}: {columns}{error.reason}", error.hint) from None
        except TableError:
            raise
        except ValueError as error:  # it has no row number: retry row by row to find it
            if len(lines) == 1:
                raise TableError(f"{self._place()}: {error}") from None
            for line in lines:
                self._answer(rows, [line])
            return
        before = self.position.rows
        self._evaluate(intervals, rank)
        self._write(rows.answer(rank, score))
        self.position.advance(lines)
        if self.checkpoint and self.checkpoint.is_due(before, self.position.rows):
            self.checkpoint.save(self._state())

    def _place(self) -> str:
        return f"{NAME}, row {self.position.rows + 1}"

    def _learn(self, cells: pa.RecordBatch) -> tuple[Array, Array, Array]:
        """Return interval, rank and score of each row; it is predicted, and then learned."""
        learner = self.model.learner
        features = self.model.features(cells, self._schema)
        if not self.names:
            rank, score = self.model.rate(features)
            return np.full((len(rank), 2), _ranks.NO_LABEL), rank, score
        labels = read_labels(cells, self.names, text=self.model.has_text_labels)
        batch = learner._prepare(features, labels)
        record = learner._blank_record(len(batch))
        learner._learn_batch(batch, record=record)
        return batch.intervals, record.rank, pick_scores(record.rank, record.scores)

    def _evaluate(self, intervals: Array, rank: Array) -> None:
        """Add up the losses; report them whenever the number of labelled rows has doubled."""
        loss = _ranks.interval_loss(intervals, rank)[_ranks.is_labelled(intervals)]
        before, after = self.evaluation.rows, self.evaluation.rows + len(loss)
        total = self.evaluation.loss + np.cumsum(loss)
        power = 1 << before.bit_length()
        while power <= after:
            self.report(power, int(total[power - before - 1]))
            power <<= 1
        self.evaluation += Evaluation.of(intervals, rank)

    def _write(self, data: bytes) -> None:
        self.output.write(data)
        self.output.flush()
