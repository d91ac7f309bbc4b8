"""One run of a stream: from a pipe to answers, with checkpoints, and no row learned twice."""

from __future__ import annotations

import os
import signal
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.recent_errors import Alarm, ErrorReports
from pril.core.words import count
from pril.errors import InputError, naming_file
from pril.io import model_files
from pril.metrics import Evaluation
from pril.tables.checkpoints import Checkpoint
from pril.tables.files import TableWarning
from pril.tables.json_lines import NAME
from pril.tables.label_columns import to_note
from pril.tables.stream import LineStream
from pril.tables.text import whole_lines

# Rows that are read together are answered together: this limits how long one waits, to some 10 ms.
CHUNK_BYTES = 1 << 19
TOGETHER = 4096  # rows that are evaluated together, unless the result is needed before
MOST_HELD = 1024  # rows that wait until it is known whether the last run has learned them
# Signals that ask a process to end; the last two come when the terminal is closed.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
STOPPING = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


class Stopped(Exception):  # noqa: N818 - it is not an error
    """The process was asked to stop."""


def chunks(descriptor: int) -> Iterator[bytes]:
    """Return whole lines from a pipe as soon as they arrive."""
    with naming_file(NAME):
        yield from whole_lines(iter(lambda: os.read(descriptor, CHUNK_BYTES), b""))


@dataclass(frozen=True)
class Position:
    """How far a stream has been read: rows, and a checksum of their bytes."""

    rows: int = 0
    checksum: int = 0
    early: tuple[int, ...] = ()  # checksums after 1, 2, 4, ... MOST_HELD rows

    def after(self, lines: list[bytes]) -> Position:
        """Return the position some lines further."""
        rows, checksum, early = self.rows, self.checksum, self.early
        while lines:
            power = 1 << len(early)
            n = power - rows if power <= MOST_HELD else len(lines)
            some, lines = lines[:n], lines[n:]
            rows += len(some)
            checksum = zlib.crc32(b"\n".join([*some, b""]), checksum)
            if rows == power <= MOST_HELD:
                early = (*early, checksum)
        return Position(rows, checksum, early)


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


class StreamRun:
    """Read lines from a pipe, write their answers, and keep what was learned."""

    def __init__(
        self,
        stream: LineStream,
        output: IO[bytes],
        report: Callable[[ErrorReports], None],
        checkpoint: Checkpoint | None,
        errors: ErrorReports | None = None,
        warn: Callable[[dict[str, Any]], None] = lambda _: None,
    ) -> None:
        self.stream = stream
        self.model = stream.model
        self.output = output
        self.report = report
        self.warn = warn  # of a rise of the error
        self.errors = errors or ErrorReports()
        self.checkpoint = checkpoint
        self.evaluation = Evaluation()  # of the answers to labelled rows
        self.position = Position()
        self.known = Position()  # up to where the model has learned rows that are to be passed over
        self.last: Finished | None = None  # work that is not to be done twice, until it is compared
        self.is_repeated = False  # whether the input begins with that work
        self.notes = dict(self.model.user_notes)  # of the user, with the last value of a column
        self._held: list[bytes] = []  # rows that wait for the comparison
        # What is to be evaluated: lines, their intervals and ranks.
        self._waiting: list[tuple[list[bytes], Array, Array]] = []
        self._n_waiting = 0

    def run_into(
        self, output: Path | None, descriptor: int, settings: dict[str, Any], again: bool
    ) -> Evaluation:
        """Answer all rows, and write what was learned; return how good the answers were.

        The run is known by its settings, too.

        A run with a checkpoint that replaces its model is never learned twice: if it is
        repeated after its end, it answers nothing, unless `again` is true.
        """
        path, saved = self.model.path, self.checkpoint
        notes = {"labels": to_note(self.stream.labels)} | self.model.about.notes
        last = Finished.of(notes.pop("finished", None), path)
        origin = self._origin(notes) | settings
        in_place = bool(saved and output and output.resolve() == path.resolve())
        if saved:
            saved.origin = origin
            if in_place and last:
                self._look_for(last, saved, again)
        try:
            self.run(descriptor)
        except BaseException:
            if saved is None:  # the model has learned all rows before this one, whatever ended it
                self._keep(output, notes)
            raise
        if last and self.is_repeated:
            said = f"{path} has already learned the first {count(last.position.rows, 'row')}"
            warnings.warn(TableWarning(said, hint="again"), stacklevel=2)
            if self.position.rows == last.position.rows:  # the model stays as it is
                return last.evaluation
        if in_place:
            notes["finished"] = asdict(Finished(origin, self.position, self.evaluation))
        self._keep(output, notes)
        return self.evaluation

    def _origin(self, notes: dict[str, Any]) -> dict[str, Any]:
        """Return what identifies the run."""
        path = self.model.path
        # A model that begins with this stream has no file yet.
        content = path.read_bytes() if path.exists() else b""
        begun = {"checksum": sha256(content).hexdigest(), "streamed": notes.get("streamed", 0)}
        origin: dict[str, Any] = {"model": begun, "labels": to_note(self.stream.labels)}
        if self.stream.options.skip:  # blank lines count as rows
            origin["on-error"] = "skip"
        return origin

    def _look_for(self, last: Finished, saved: Checkpoint, again: bool) -> None:
        """Let rows be compared with those of the last run, if this may be the same one again."""
        if saved.is_of(last.origin):  # killed after it had replaced the model
            saved.remove()
        is_same = last.origin | {"model": saved.origin["model"]} == saved.origin
        if is_same and not saved.path.exists() and not again:
            self.last = last

    def _keep(self, output: Path | None, notes: dict[str, Any]) -> None:
        """Write the model with its notes."""
        if output is None:
            return
        notes["streamed"] = notes.get("streamed", 0) + self.evaluation.rows
        if self.notes:
            notes[model_files.USER] = self.notes
        model_files.write(self.model.model, output, kind="model", notes=notes)

    def run(self, descriptor: int) -> None:
        """Answer every row until the input ends."""
        self._restore()
        has_begun = False
        try:
            for lines in self._interruptible(chunks(descriptor)):
                rows = self.stream.rows(lines)
                if rows and not has_begun:
                    self._go_on(rows[0])
                    has_begun = True
                self._answer(self._new_lines(self._compare(rows)))
            if not has_begun:
                self._go_on(None)
            self.last = None
            self._answer(self._held)  # fewer rows than the last run has learned
            self.stream.warn_of_features()
        except BaseException:  # whatever it is, keep the rows that were learned before
            # Before `known` the model knows rows that this run has not read yet: do not save. Nor
            # before it is known whether the last run has learned the rows, nor while the model
            # knows rows that are not answered: the same command answers them.
            counted = self.position.rows >= self.known.rows and not self.stream.is_ahead
            if self.checkpoint and counted and self.last is None:
                self._save(self.checkpoint)
            raise
        finally:
            self._settle()
        if self.position.rows < self.known.rows:
            raise self._another_stream(f"{NAME} has {self.position.rows} rows")

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

    def _restore(self) -> None:
        state = self.checkpoint.restore() if self.checkpoint else None
        if self.checkpoint is None or state is None:
            return
        self.stream.use(state["model"])
        self.evaluation = msgspec.convert(state["evaluation"], Evaluation)
        before = msgspec.convert(state["errors"], ErrorReports)
        self.errors = ErrorReports(self.errors.every, before.loss, before.recent)
        self.known = msgspec.convert(state["position"], Position)
        self.notes = self.checkpoint.notes

    def _go_on(self, first: bytes | None) -> None:
        """Take up a checkpoint where its note says, if that is where the input begins.

        An input that begins with the same row as before is read from its start. There is no first
        row if nothing has come since.
        """
        known = self.known
        if self.stream.options.note is None or not known.early:
            return
        if first is None or Position().after([first]).early != known.early[:1]:
            self.position = known

    def _compare(self, lines: list[bytes]) -> list[bytes]:
        """Hold rows until it is known whether the last run has learned them; then return them."""
        if self.last is None:
            return lines
        self._held += lines
        known = self.last.position
        n = min(known.rows, MOST_HELD)
        seen = Position().after(self._held[:n])
        is_same = seen.early == known.early[: len(seen.early)]
        if is_same and len(self._held) < n:
            return []
        if is_same and (n < known.rows or seen.checksum == known.checksum):
            self.is_repeated = True
            self.known = known
        self.last, held, self._held = None, self._held, []
        return held

    def _another_stream(self, found: str) -> ValueError:
        rows = self.known.rows
        if self.is_repeated:
            return InputError(
                f"{found}: it begins like the {rows} rows that {self.model.path} learned last "
                "and then differs",
                hint="again",
            )
        return InputError(
            f"{found}, but the checkpoint has seen {rows} different ones: it belongs to another "
            "stream"
        )

    def _save(self, checkpoint: Checkpoint) -> None:
        self._settle()
        checkpoint.notes = self.notes
        kept = {"evaluation": self.evaluation, "errors": self.errors, "position": self.position}
        plain = {name: msgspec.to_builtins(own) for name, own in kept.items()}
        checkpoint.save({"model": self.model.model, **plain})

    def _new_lines(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that the checkpoint has not seen; check that the others are the same."""
        known = self.known
        old = max(0, known.rows - self.position.rows)
        self.position = self.position.after(lines[:old])
        if self.position.rows == known.rows and self.position.checksum != known.checksum:
            raise self._another_stream(f"{NAME} has other rows")
        return lines[old:]

    def _answer(self, lines: list[bytes]) -> None:
        """Write the answers to some lines."""
        for answered in self.stream.answers(lines, self.position.rows):
            before = self.position.rows
            self._evaluate(answered.lines, answered.intervals, answered.rank)
            self._write(answered.text)
            self.position = self.position.after(answered.lines)
            self.stream.is_ahead = False
            if answered.note is not None and self.stream.options.note is not None:
                self.notes[self.stream.options.note] = answered.note
            if self.checkpoint and self.checkpoint.is_due(before, self.position.rows):
                self._save(self.checkpoint)

    def _evaluate(self, lines: list[bytes], intervals: Array, rank: Array) -> None:
        """Keep answers to be evaluated together, which is faster for rows that come alone.

        They are evaluated at once if a report may be due.
        """
        self._waiting.append((lines, intervals, rank))
        self._n_waiting += len(rank)
        is_due = self.evaluation.rows + self._n_waiting >= self.errors.next_row
        if self._n_waiting >= TOGETHER or is_due:
            self._settle()

    def _settle(self) -> None:
        """Evaluate the answers that wait for it, and report."""
        if not self._waiting:
            return
        lines, *answers = zip(*self._waiting, strict=True)
        intervals, rank = map(np.concatenate, answers)
        self._waiting, self._n_waiting = [], 0
        self.evaluation += Evaluation.of(intervals, rank)
        labelled = np.flatnonzero(ranking.is_labelled(intervals))
        loss = ranking.interval_loss(intervals, rank)[labelled]
        first = self.errors.recent.rows + 1

        def warn(alarm: Alarm) -> None:
            line = list(chain(*lines))[labelled[alarm.row - first]]
            self.warn(self._event(alarm, line))

        self.errors.add(loss.tolist(), self.report, warn)

    def _event(self, alarm: Alarm, line: bytes) -> dict[str, Any]:
        """Return an alarm at a line, with a half-life that lets the model follow a change."""
        options, row = self.stream.options, msgspec.json.decode(line)
        marks = {"id": options.key, "note": options.note}
        now = getattr(self.model.learner, "half_life", None)
        return {
            "event": "alarm",
            "row": alarm.row,
            **{mark: row.get(name) for mark, name in marks.items() if name},
            "half_life": alarm.watched if now is None else min(alarm.watched, int(now) // 2),
        }

    def _write(self, data: bytes) -> None:
        with naming_file("standard output"):
            self.output.write(data)
            self.output.flush()
