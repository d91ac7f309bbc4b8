"""One run of a stream: from a pipe to answers, with checkpoints, and no row learned twice."""

from __future__ import annotations

import os
import signal
import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from typing import IO, TYPE_CHECKING, Any

import msgspec
import numpy as np

from pril.core import ranking
from pril.core.evaluation import Evaluation
from pril.core.recent_errors import ErrorWindows, Window
from pril.errors import InputError, naming_file
from pril.io import model_files
from pril.io.notes import USER
from pril.reporting.words import count
from pril.tables.checkpoints import Checkpoint
from pril.tables.codecs import NAME
from pril.tables.files import TableWarning
from pril.tables.stream import LineStream
from pril.tables.text import whole_lines

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


class StreamRun:
    """Read lines from a pipe, write their answers, and keep what was learned."""

    def __init__(
        self,
        stream: LineStream,
        output: IO[bytes],
        report: Callable[[int, int], None] | Callable[[Window], None],
        checkpoint: Checkpoint | None,
        windows: ErrorWindows | None = None,
    ) -> None:
        self.stream = stream
        self.model = stream.model
        self.output = output
        self.report: Callable[..., None] = report  # of windows, if there are any
        self.windows = windows
        self.checkpoint = checkpoint
        self.last: Finished | None = None  # work that is not to be done twice, until it is compared
        self.is_repeated = False  # whether the input begins with that work
        self._held: list[bytes] = []  # rows that wait for the comparison
        self.position = Position()
        self.notes = dict(self.model.user_notes)  # of the user, with the last value of a column
        self._begun = Position()  # of the run that a checkpoint goes on with
        self._evaluation = Evaluation()
        self._waiting: list[tuple[Array, Array]] = []  # intervals and ranks to be evaluated
        self._n_waiting = 0

    def run_into(
        self,
        output: Path | None,
        descriptor: int,
        format: str | None,  # noqa: A002
        half_life: float | None,
        again: bool,
    ) -> Evaluation:
        """Answer all rows, and write what was learned; return how good the answers were.

        A run with a checkpoint that replaces its own model is never learned twice: if it is
        repeated after its end, it answers nothing, unless `again` is true.
        """
        loaded, saved, labels = self.model, self.checkpoint, self.stream.labels
        options = self.stream.options
        notes = labels.to_notes() | loaded.about.notes
        last = Finished.of(notes.pop("finished", None), loaded.path)
        # A model that begins with this stream has no file yet.
        content = loaded.path.read_bytes() if loaded.path.exists() else b""
        begun = {"checksum": sha256(content).hexdigest(), "streamed": notes.get("streamed", 0)}
        origin: dict[str, Any] = {"model": begun, "half-life": half_life}
        origin |= {"labels": list(labels.names), "trim": labels.trim}
        if labels.range_texts:
            origin["ranges"] = True
        if options.asked:
            origin["csv"] = options.style.to_note()
        if options.skip:  # blank lines count as rows
            origin["on-error"] = "skip"
        in_place = bool(saved and output and output.resolve() == loaded.path.resolve())
        if saved:
            saved.origin = origin
            if in_place and last:
                if saved.is_of(last.origin):  # killed after it had replaced the model
                    saved.remove()
                is_again = last.origin | {"model": begun} == origin and not saved.path.exists()
                self.last = last if is_again and not again else None

        def keep() -> None:
            if not output:
                return
            if self.stream.style_note and not notes.get("csv"):
                notes["csv"] = self.stream.style_note
            notes["streamed"] = begun["streamed"] + self.evaluation.rows
            if self.notes:
                notes[USER] = self.notes
            if in_place:
                notes["finished"] = asdict(Finished(origin, self.position, self.evaluation))
            model_files.write(loaded.model, output, kind="model", notes=notes)

        try:
            self.run(descriptor, format)
        except BaseException:
            if saved is None:  # the model has learned all rows before this one, whatever ended it
                keep()
            raise
        if last and self.is_repeated:
            rows = count(last.position.rows, "row")
            said = f"{loaded.path} has already learned the first {rows}"
            warnings.warn(TableWarning(said, hint="again"), stacklevel=2)
            if self.position.rows == last.position.rows:  # the model stays as it is
                return last.evaluation
        keep()
        return self.evaluation

    def run(self, descriptor: int, format: str | None) -> None:  # noqa: A002
        """Answer every row until the input ends."""
        skip = self._restore()
        try:
            for lines in self._interruptible(chunks(descriptor)):
                found = self.stream.rows(lines, format)
                if found is None:
                    continue
                heading, rows = found
                if heading and skip.rows == 0:
                    self._write(heading)
                if rows:
                    self._go_on(rows[0])
                self._answer(self._new_lines(self._compare(rows, skip), skip))
            self._go_on(None)
            self.last = None
            self._answer(self._held)  # fewer rows than the last run has learned
        except BaseException:  # whatever it is, keep the rows that were learned before
            # Before `skip.rows` the model knows rows that this run has not read yet: do not save.
            # Nor before it is known whether the last run has learned the rows, nor while the model
            # knows rows that are not answered: the same command answers them.
            counted = self.position.rows >= skip.rows and not self.stream.is_ahead
            if self.checkpoint and counted and self.last is None:
                self._save(self.checkpoint)
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
        self.stream.use(state["model"])
        sums = state["evaluation"]
        self._evaluation = msgspec.convert(sums, Evaluation)
        if self.windows and (before := state.get("windows")):
            self.windows.go_on(msgspec.convert(before, ErrorWindows))
        if self.checkpoint:
            self.notes = self.checkpoint.notes
        self._begun = Position(state["rows"], state["checksum"], state.get("early", []))
        return Position(state["rows"], state["checksum"])

    def _go_on(self, first: bytes | None) -> None:
        """Take up a checkpoint where its note says, if that is where the input begins.

        An input that begins with the same row as before is read from its start. There is no first
        row if nothing has come since.
        """
        begun, self._begun = self._begun, Position()
        if self.stream.options.note is None or not begun.early:
            return
        if first is None or zlib.crc32(first + b"\n") != begun.early[0]:
            self.position = begun

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

    def _save(self, checkpoint: Checkpoint) -> None:
        checkpoint.notes = self.notes
        checkpoint.save(self._state())

    def _state(self) -> dict[str, Any]:
        state = {
            "model": self.model.model,
            "evaluation": msgspec.to_builtins(self.evaluation),
            "rows": self.position.rows,
            "checksum": self.position.checksum,
            "early": self.position.early,
        }
        return state | ({"windows": msgspec.to_builtins(self.windows)} if self.windows else {})

    def _new_lines(self, lines: list[bytes], skip: Position) -> list[bytes]:
        """Return the lines that the checkpoint has not seen; check that the others are the same."""
        old = max(0, skip.rows - self.position.rows)
        self.position.advance(lines[:old])
        if self.position.rows == skip.rows and self.position.checksum != skip.checksum:
            raise self._another_stream(f"{NAME} has other rows", skip)
        return lines[old:]

    def _answer(self, lines: list[bytes]) -> None:
        """Write the answers to some lines."""
        for answered in self.stream.answers(lines, self.position.rows):
            before = self.position.rows
            self._evaluate(answered.intervals, answered.rank)
            self._write(answered.text)
            self.position.advance(answered.lines)
            self.stream.is_ahead = False
            if answered.note is not None and self.stream.options.note is not None:
                self.notes[self.stream.options.note] = answered.note
            if self.checkpoint and self.checkpoint.is_due(before, self.position.rows):
                self._save(self.checkpoint)

    @property
    def evaluation(self) -> Evaluation:
        """How good the answers to labelled rows were.

        It is reported whenever the number of labelled rows has doubled, or a window is full.
        """
        if self._waiting:
            intervals, rank = map(np.concatenate, zip(*self._waiting, strict=True))
            self._waiting.clear()
            before = self._evaluation
            self._evaluation += Evaluation.of(intervals, rank)
            loss = ranking.interval_loss(intervals, rank)[ranking.is_labelled(intervals)]
            if self.windows:
                for window in self.windows.add(loss.tolist()):
                    self.report(window)
                return self._evaluation
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
        next_report = self.windows.next_row if self.windows else 1 << rows.bit_length()
        if self._n_waiting >= TOGETHER or rows + self._n_waiting >= next_report:
            _ = self.evaluation

    def _write(self, data: bytes) -> None:
        with naming_file("standard output"):
            self.output.write(data)
            self.output.flush()
