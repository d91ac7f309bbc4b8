"""Rows from a pipe: predict each, then learn from it if it has a label."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from pril.core import learning, ranking
from pril.core.classifier import rate_rows
from pril.core.evaluation import Evaluation, pick_scores
from pril.core.logistic import log_probabilities
from pril.core.passes import Batch
from pril.errors import InputError, RowError, naming_file
from pril.tables.answers import NAME, USUAL, Answers, CsvRows, JsonRows, StreamOptions
from pril.tables.checkpoints import Checkpoint
from pril.tables.files import TableError, quote_columns
from pril.tables.growing import add_cells, add_columns, grows, unchanged_on_failure
from pril.tables.json_lines import split_lines
from pril.tables.model import LoadedModel
from pril.tables.stream_rows import StreamRows
from pril.tables.text import LONGEST_ROW, TOO_LONG, whole_lines, without_marks

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Array = NDArray[Any]

# Rows that are read together are answered together: this limits how long one waits, to some 10 ms.
CHUNK_BYTES = 1 << 19
TOGETHER = 4096  # rows that are evaluated together, unless the result is needed before
MOST_HELD = 1024  # rows that wait until it is known whether the last run has learned them


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
    with naming_file(NAME):
        yield from whole_lines(iter(lambda: os.read(descriptor, CHUNK_BYTES), b""))


@dataclass
class Position:
    """How far a stream has been read: rows, and a checksum of their bytes."""

    rows: int = 0
    checksum: int = 0
    early: list[int] = field(default_factory=list)  # checksums after 1, 2, 4, ... MOST_HELD rows

    def advance(self, lines: list[bytes]) -> None:
        """Count some lines."""
        while lines:
            power = 1 << len(self.early)
            n = power - self.rows if power <= MOST_HELD else len(lines)
            some, lines = lines[:n], lines[n:]
            self.rows += len(some)
            self.checksum = zlib.crc32(b"\n".join([*some, b""]), self.checksum)
            if self.rows == power <= MOST_HELD:
                self.early.append(self.checksum)


@dataclass
class Finished:
    """What a finished stream has learned, as a note in the model file that it replaced.

    Model and note are written in one step, so that a crash cannot separate them.
    """

    origin: dict[str, Any]  # of the run, as in its checkpoint
    position: Position
    evaluation: Evaluation

    @classmethod
    def of(cls, note: Any, path: Path) -> Finished | None:
        """Return what the note of a model file says, None if there is none."""
        try:
            return msgspec.convert(note, cls | None)
        except msgspec.ValidationError as error:
            raise InputError(f"{path} is damaged: its note on a finished stream: {error}") from None


class Stream:
    """Answer rows from a pipe, and learn from those with labels."""

    def __init__(
        self,
        model: LoadedModel,
        names: tuple[str, ...],
        output: IO[bytes],
        report: Any,
        checkpoint: Checkpoint | None,
        options: StreamOptions = USUAL,
    ) -> None:
        self.model = model
        self.names = names
        self.output = output
        self.report = report
        self.checkpoint = checkpoint
        self.options = options
        self.last: Finished | None = None  # work that is not to be done twice, until it is compared
        self.is_repeated = False  # whether the input begins with that work
        self._held: list[bytes] = []  # rows that wait for the comparison
        self.position = Position()
        self.style_note: dict[str, str] | None = None  # of CSV, once some has come
        self._is_ahead = False  # whether the model has learned rows after the position
        self._before = 0  # lines before the first row
        self._evaluation = Evaluation()
        self._waiting: list[tuple[Array, Array]] = []  # intervals and ranks to be evaluated
        self._n_waiting = 0
        self._check_columns()
        self._use(model.model)
        self._grows = bool(names) and grows(model)
        if options.chances:
            model.check_probabilities()
        if names:
            model.check_learns()

    def _check_columns(self) -> None:
        both = set(self.names) & set(self.model.columns)
        if both:
            raise InputError(f"the column {min(both)!r} cannot be a label: it is a feature")
        key = self.options.key
        if key in {*self.names, *self.model.columns}:
            raise InputError(f"the column {key!r} cannot be the id: it is a feature or a label")
        if key in ("prediction", "score", "probabilities", "error", "line"):
            raise InputError(f"the column {key!r} cannot be the id: the answer has its own")

    def _use(self, model: Any) -> None:
        """Go on with a model that has learned more."""
        self.model.use(model)
        self._rows = StreamRows(self.model, self.model.label_columns(self.names))

    def run(self, descriptor: int, format: str | None) -> None:  # noqa: A002
        """Answer every row until the input ends."""
        rows: JsonRows | CsvRows | None = None
        skip = self._restore()
        try:
            for lines in self._interruptible(chunks(descriptor)):
                if rows is None:
                    lines = without_marks(lines)
                    first = lines.lstrip()
                    if not first and not self.options.skip:  # it does not show the format
                        continue
                    # A blank first line that must be answered is taken to be JSON.
                    json_lines = first.startswith((b"{", b"[")) or not first
                    is_json = json_lines if format is None else format == "jsonl"
                    kind = JsonRows if is_json else CsvRows
                    if not is_json:
                        self.style_note = self.options.style.to_note()
                    elif self.options.asked:
                        raise TableError(
                            f"{NAME}: the {self.options.asked[0]} is for CSV, and this is jsonl"
                        )
                    classes, columns = self.model.learner.order_, self._rows.columns
                    rows = kind(classes, columns, len(self.model.columns), self.options)
                heading, rest = rows.header(lines)
                if heading:
                    self._before = lines.count(b"\n") - rest.count(b"\n")
                    if skip.rows == 0:
                        self._write(heading)
                all_lines = rest.split(b"\n")[:-1] if self.options.skip else split_lines(rest)
                self._answer(rows, self._new_lines(self._compare(all_lines, skip), skip))
            self.last = None
            if rows is not None:  # fewer rows than the last run has learned
                self._answer(rows, self._held)
        except BaseException:  # whatever it is, keep the rows that were learned before
            # Before `skip.rows` the model knows rows that this run has not read yet: do not save.
            # Nor before it is known whether the last run has learned the rows, nor while the model
            # knows rows that are not answered: the same command answers them.
            counted = self.position.rows >= skip.rows and not self._is_ahead
            if self.checkpoint and counted and self.last is None:
                self.checkpoint.save(self._state())
            raise
        if self.position.rows < skip.rows:
            raise self._another_stream(f"{NAME} has {self.position.rows} rows", skip)

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
        self._use(state["model"])
        sums = state["evaluation"]
        self._evaluation = msgspec.convert(sums, Evaluation)
        return Position(state["rows"], state["checksum"])

    def _compare(self, lines: list[bytes], skip: Position) -> list[bytes]:
        """Hold rows until it is known whether the last run has learned them; then return them."""
        if self.last is None:
            return lines
        self._held += lines
        known = self.last.position
        n = min(known.rows, MOST_HELD)
        seen = Position()
        seen.advance(self._held[:n])
        is_same = seen.early == known.early[: len(seen.early)]
        if is_same and len(self._held) < n:
            return []
        if is_same and (n < known.rows or seen.checksum == known.checksum):
            self.is_repeated = True
            skip.rows, skip.checksum = known.rows, known.checksum
        self.last, held, self._held = None, self._held, []
        return held

    def _another_stream(self, found: str, skip: Position) -> ValueError:
        if self.is_repeated:
            return InputError(
                f"{found}: it begins like the {skip.rows} rows that {self.model.path} learned last "
                "and then differs",
                hint="again",
            )
        return InputError(
            f"{found}, but the checkpoint has seen {skip.rows} different ones: it belongs to "
            "another stream"
        )

    def _state(self) -> dict[str, Any]:
        return {
            "model": self.model.model,
            "evaluation": msgspec.to_builtins(self.evaluation),
            "rows": self.position.rows,
            "checksum": self.position.checksum,
        }

    def _new_lines(self, lines: list[bytes], skip: Position) -> list[bytes]:
        """Return the lines that the checkpoint has not seen; check that the others are the same."""
        old = max(0, skip.rows - self.position.rows)
        self.position.advance(lines[:old])
        if self.position.rows == skip.rows and self.position.checksum != skip.checksum:
            raise self._another_stream(f"{NAME} has other rows", skip)
        return lines[old:]

    def _answer(self, rows: JsonRows | CsvRows, lines: list[bytes]) -> None:
        """Answer some lines; one that is wrong is refused, after those before it."""
        at, size = 0, len(lines)  # of a part that is read at once: bad lines often come together
        while at < len(lines):
            size = 1 if self._grows else size
            part = lines[at : at + size]
            done, size = len(part), 2 * size
            try:
                with self._grown(rows, part):
                    batch, keys = self._read(rows, part)
                    answers = self._learn(batch, keys)
            except RowError as error:
                if error.row:
                    self._answer(rows, part[: error.row])
                columns = f"{quote_columns(self.names)}: " if error.argument == "y" else ""
                self._refuse(rows, part[error.row], f"{columns}{error.reason}", error.hint)
                done, size = error.row + 1, 1
            except InputError as error:  # it has no row number: retry row by row to find it
                if isinstance(error, TableError) and not self.options.skip:
                    raise
                if len(part) == 1:
                    self._refuse(rows, part[0], str(error))
                done, size = int(len(part) == 1), 1
            else:
                before = self.position.rows
                self._evaluate(batch.intervals, answers.rank)
                self._write(rows.answer(answers))
                self._advance(before, part)
            at += done

    @contextmanager
    def _grown(self, rows: JsonRows | CsvRows, lines: list[bytes]) -> Iterator[None]:
        """Widen a model that grows by the columns and words of a line, unless it is refused."""
        if not self._grows:
            yield
            return
        with unchanged_on_failure(self.model):
            self._check_lines(lines)
            encoder: Any = self.model.encoder
            known = {*encoder.numbers_, *encoder.words_, *encoder.left_out_, *self.names}
            if self.options.key is not None:
                known.add(self.options.key)
            if new := rows.new_columns(lines[0], known):
                add_columns(self.model, new)
            self._follow_columns(rows)
            add_cells(self.model, rows, rows.read(lines))
            self._follow_columns(rows)  # one may have too many words now
            yield

    def _follow_columns(self, rows: JsonRows | CsvRows) -> None:
        """Read the columns that the model has now."""
        if self._rows.columns != [*self.model.columns, *self.names]:
            self._use(self.model.model)
            rows.use_columns(self._rows.columns, len(self.model.columns))

    def _advance(self, before: int, lines: list[bytes]) -> None:
        self.position.advance(lines)
        self._is_ahead = False
        if self.checkpoint and self.checkpoint.is_due(before, self.position.rows):
            self.checkpoint.save(self._state())

    def _refuse(
        self, rows: JsonRows | CsvRows, line: bytes, reason: str, hint: str | None = None
    ) -> None:
        """End the stream at a line, or answer it with what is wrong with it."""
        before = self.position.rows
        if not self.options.skip:
            raise TableError(f"{NAME}, row {before + 1}: {reason}", hint) from None
        self._write(rows.refusal(line, self._before + before + 1, reason))
        self._advance(before, [line])

    # --- Reading, learning, evaluating ---

    def _read(self, rows: JsonRows | CsvRows, lines: list[bytes]) -> tuple[Batch, list[str]]:
        """Return the rows of some lines, and their keys."""
        self._check_lines(lines)
        cells = rows.read(lines)
        keys = []
        if self.options.key is not None:
            at = len(self._rows.columns)
            keys = [rows.key(row[at], t) for t, row in enumerate(cells)]
        return self._rows.read(rows, cells), keys

    def _check_lines(self, lines: list[bytes]) -> None:
        if len(lines[0]) > LONGEST_ROW:
            raise RowError("X", 0, TOO_LONG)
        if self.options.skip:
            for t, line in enumerate(lines):
                if not line.strip():
                    raise RowError("X", t, "the line is blank")

    def _learn(self, batch: Batch, keys: list[str]) -> Answers:
        """Return what the model says of each row before it learns it."""
        learner = self.model.learner
        if not self.names:
            rank, scores, cuts = rate_rows(learner, batch.rows)
        else:
            with_cuts = self.options.chances
            record = learning.blank_record(learner, len(batch), with_cuts=with_cuts)
            learning.go_on(learner, batch, record)
            self._is_ahead = True
            rank, scores, cuts = record.rank, record.scores, record.cuts
        chances = None
        if self.options.chances:
            chances = np.exp(log_probabilities(scores, cuts))
        return Answers(keys, rank, pick_scores(rank, scores), chances)

    @property
    def evaluation(self) -> Evaluation:
        """How good the answers to labelled rows were.

        It is reported whenever the number of labelled rows has doubled.
        """
        if self._waiting:
            intervals, rank = map(np.concatenate, zip(*self._waiting, strict=True))
            self._waiting.clear()
            before = self._evaluation
            self._evaluation += Evaluation.of(intervals, rank)
            loss = ranking.interval_loss(intervals, rank)[ranking.is_labelled(intervals)]
            total = before.loss + np.cumsum(loss)
            power = 1 << before.rows.bit_length()
            while power <= self._evaluation.rows:
                self.report(power, int(total[power - before.rows - 1]))
                power <<= 1
        return self._evaluation

    def _evaluate(self, intervals: Array, rank: Array) -> None:
        """Keep answers to be evaluated together, which is faster for rows that come alone.

        They are evaluated at once if a report may be due.
        """
        self._n_waiting = len(rank) + (self._n_waiting if self._waiting else 0)
        self._waiting.append((intervals, rank))
        rows = self._evaluation.rows
        if self._n_waiting >= TOGETHER or rows + self._n_waiting >= 1 << rows.bit_length():
            _ = self.evaluation

    def _write(self, data: bytes) -> None:
        with naming_file("standard output"):
            self.output.write(data)
            self.output.flush()
