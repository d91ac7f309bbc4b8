"""A stream of lines: each is answered, and learned if it has a label; none is learned twice."""

from __future__ import annotations

import os
import signal
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
import pyarrow as pa
from sklearn.base import BaseEstimator

from pril.bases.classifier import rows_to_rate
from pril.core.arrays import Array, frozen
from pril.core.loop_types import Dense
from pril.core.registry import BY_COMMAND
from pril.core.threads import unchanged_on_failure
from pril.core.words import count
from pril.errors import InputError, RowError, naming_file, shown
from pril.io import model_files
from pril.labels import ranking
from pril.learners.linear import LinearMixin
from pril.metrics import Evaluation, pick_scores
from pril.online import learning
from pril.online.linear_engine import Batch
from pril.online.recent_errors import Alarm, ErrorReports
from pril.tables import json_lines
from pril.tables.arrow import NUMBER, TEXT, read_words
from pril.tables.checkpoints import Checkpoint, Finished, Position
from pril.tables.encoder import (
    ColumnEncoder,
    ColumnMoments,
    RowEncoder,
    have_gaps,
    learn_cells,
    no_moments,
)
from pril.tables.files import TableError, TableWarning, quote_columns
from pril.tables.json_lines import NAME, USUAL, Cells, Codec, StreamOptions
from pril.tables.label_columns import LabelColumns, LabelKind, guessed_classes, to_note
from pril.tables.model import LoadedModel
from pril.tables.pipeline import Pipeline
from pril.tables.survey import MANY_ROWS, Task, hardly_alike, looks_like_row_id, warn_of_columns
from pril.tables.text import LONGEST_ROW, TOO_LONG, whole_lines, without_marks

MOST_SPELLINGS = 10_000  # of labels that are remembered
# Rows that are read together are answered together: this limits how long one waits, to some 10 ms.
CHUNK_BYTES = 1 << 19
TOGETHER = 4096  # rows that are evaluated together, unless the result is needed before
# Signals that ask a process to end; the last two come when the terminal is closed.
NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
STOPPING = [getattr(signal, name) for name in NAMES if hasattr(signal, name)]


# --- Lines and their answers ---------------------------------------------------------------------


class Answered(NamedTuple):
    """Lines and their answers."""

    lines: list[bytes]
    text: bytes  # what to write
    intervals: Array  # labels; none of a line that was refused
    rank: Array  # what the model said of each
    note: str | float | None = None  # the last value of the column that is noted


class LineStream:
    """A model that answers lines and learns from those with labels.

    Lines that come together are read together, and learned by one call of the learner's engine: the
    answers and the model are the same as if each line had come alone.
    """

    def __init__(
        self, model: LoadedModel, labels: LabelKind, options: StreamOptions = USUAL
    ) -> None:
        self.model = model
        self.labels, self.names = labels, labels.columns
        self.options = options
        self.is_ahead = False  # whether the model has learned rows that are not yet written
        if self.names:
            model.parts.check_learns(model.path)
            learning.refuse_online(model.learner)
        self._check_columns()
        self.use(model.model)
        self._grows = bool(self.names) and _grows(model)
        # Lines that tell which features of a growing model say nothing of new rows; then None.
        self._first: list[bytes] | None = [] if self._grows else None
        if options.chances:
            model.check_probabilities()

    def _check_columns(self) -> None:
        key, columns = self.options.key, self.model.columns
        if both := set(self.names) & set(columns):
            raise InputError(f"the column {min(both)!r} cannot be a label: it is a feature")
        for name, use in ((key, "the id"), (self.options.note, "noted")):
            if name in (*self.names, *columns):
                raise InputError(f"the column {name!r} cannot be {use}: it is a feature or a label")
        if key in ("prediction", "score", "probabilities", "error", "line"):
            raise InputError(f"the column {key!r} cannot be the id: the answer has that key")

    def use(self, model: BaseEstimator) -> None:
        """Go on with a model that has learned more."""
        self.model.use(model)
        self._encoder, learner = RowEncoder(model), self.model.learner
        self._engine, order = learner.engine, learner.order_
        self._labels = LabelColumns.of_model(self.labels, order, self.model.path)
        self._interval = lru_cache(MOST_SPELLINGS, typed=True)(self._read_label)
        self._codec = Codec(order, self.names, self.options)
        self._follow_columns()

    def rows(self, lines: bytes) -> list[bytes]:
        """Return the lines that are rows."""
        return lines.split(b"\n")[:-1] if self.options.skip else json_lines.split_lines(lines)

    def check_first(self, line: bytes) -> None:
        """Refuse a line that does not begin as JSON does, unless bad lines are answered."""
        if not line.lstrip().startswith((b"{", b"[")) and not self.options.skip:
            raise TableError(
                f"{NAME}, row 1: not a JSON object: {shown(line.decode(errors='replace'))}; a "
                "stream has one in each line, and the guide tells how to turn CSV into them"
            )

    # --- From lines to answers ---

    def answers(self, lines: list[bytes], first: int) -> Iterator[Answered]:
        """Answer lines, of which `first` came before; a wrong one is refused after those before it.

        A model has learned the lines when their answers are returned.
        """
        at, size = 0, len(lines)  # of a part that is read at once: bad lines often come together
        while at < len(lines):
            size = 1 if self._grows else size
            part, row = lines[at : at + size], first + at
            done, size = len(part), 2 * size
            try:
                with self._grown(part):
                    batch, keys = self._read(part)
                    note = self._last_note(part)
                    rank, numbers = self._learn(batch)
            except RowError as error:
                if error.row:
                    yield from self.answers(part[: error.row], row)
                columns = f"{quote_columns(self.names)}: " if error.argument == "y" else ""
                reason = f"{columns}{error.reason}"
                yield self._refused(part[error.row], row + error.row, reason, error.hint)
                done, size = error.row + 1, 1
            except InputError as error:  # it has no row number: retry row by row to find it
                if isinstance(error, TableError) and not self.options.skip:
                    raise
                if len(part) == 1:
                    yield self._refused(part[0], row, str(error))
                done, size = int(len(part) == 1), 1
            else:
                text = self._codec.answer(keys, rank, numbers)
                yield Answered(part, text, batch.intervals, rank, note)
            at += done

    @contextmanager
    def _grown(self, lines: list[bytes]) -> Iterator[None]:
        """Widen a model that grows by the columns and words of a line, unless it is refused."""
        if not self._grows:
            yield
            return
        with unchanged_on_failure(self.model.encoder), unchanged_on_failure(self.model.learner):
            self._check_lines(lines)
            self._grow(lines[0])
            yield
        if self._first is not None:
            self._first += lines
            if len(self._first) >= MANY_ROWS:
                self.warn_of_features()

    def _grow(self, line: bytes) -> None:
        """Add the columns and words of a line; the encoder's lists are replaced, not changed."""
        encoder: Any = self.model.encoder
        before, beside = _features_of(encoder), (*self.names, self.options.key, self.options.note)
        names = {*encoder.numbers_, *encoder.words_, *encoder.left_out_, *beside}
        may_widen = not (self.options.strict and (encoder.numbers_ or encoder.words_))
        kinds = self._codec.new_columns(line, names) if may_widen else {}
        numbers = [name for name, kind in kinds.items() if kind == "number"]
        words: dict[str, list[Any]] = {name: [] for name in kinds if kinds[name] == "text"}
        encoder.numbers_ = [*encoder.numbers_, *numbers]
        encoder.words_, encoder.counts_ = encoder.words_ | words, encoder.counts_ | words
        encoder.left_out_ = list(encoder.left_out_)
        pairs = zip(encoder.moments_, no_moments(len(numbers)), strict=True)
        encoder.moments_ = ColumnMoments(*map(np.concatenate, pairs))
        self._follow_columns()
        [row], n = self._codec.read([line]), len(encoder.numbers_)
        cells = json_lines.to_matrix([row[:n]], encoder.numbers_).T
        have_gaps(encoder, cells)
        texts = {name: _words([row[j]], name) for j, name in enumerate(encoder.words_, n)}
        learn_cells(encoder, cells, texts)
        self._follow_columns()  # one may have too many words now
        if (features := _features_of(encoder)) != before:
            learning.set_features(self.model.learner, before, features)

    def _follow_columns(self) -> None:
        columns, left_out = self.model.columns, getattr(self.model.encoder, "left_out_", ())
        if self._codec.features != columns:
            self._codec.use_columns(columns, left_out)

    def warn_of_features(self) -> None:
        """Warn once of features of a growing model that say nothing of new rows."""
        first, self._first = self._first, None
        if not first:
            return
        encoder: Any = self.model.encoder
        row_ids, unlike, cells = [], {}, self._codec.read(first)
        for j, name in enumerate(self._codec.features):
            with suppress(RowError):  # a cell from before the column became a feature
                column = [row[j] for row in cells]
                if name not in encoder.words_:
                    numbers = np.frombuffer(json_lines.to_numbers(column, [name], 0))
                    if looks_like_row_id(numbers, name):
                        row_ids.append(name)
                elif share := hardly_alike(_words(column, name)):
                    unlike[name] = share
        warn_of_columns(NAME, row_ids, unlike, encoder.left_out_, hint="key")

    def _refused(self, line: bytes, row: int, reason: str, hint: str | None = None) -> Answered:
        """End the stream at a line, or answer it with what is wrong with it."""
        if not self.options.skip:
            raise TableError(f"{NAME}, row {row + 1}: {reason}", hint) from None
        text = self._codec.refusal(line, row + 1, reason)
        note = None
        with suppress(ValueError, LookupError):
            note = self._last_note([line])
        return Answered([line], text, np.empty((0, 2), np.int64), np.empty(0, np.int64), note)

    def _last_note(self, lines: list[bytes]) -> str | float | None:
        """Return the last value of the column that is noted; it must be in every line."""
        name = self.options.note
        if name is None:
            return None
        notes: list[str | float] = [self._codec.note(line, name, t) for t, line in enumerate(lines)]
        return notes[-1]

    def _read(self, lines: list[bytes]) -> tuple[Batch, list[str]]:
        """Return the rows of some lines, and their keys."""
        self._check_lines(lines)
        cells = self._codec.read(lines)
        keys = self._codec.keys(cells)
        rows, intervals, weights = self._rows(self._features(cells)), self._intervals(cells), None
        if self.names:
            intervals, weights = learning.weigh(self.model.learner, intervals)
        return Batch(rows, intervals, weights), keys

    def _rows(self, features: Any) -> Any:
        """Return features as the learner's engine takes them."""
        learner = self.model.learner
        if isinstance(learner, LinearMixin) and isinstance(features, np.ndarray):
            # The cells were checked: scikit-learn's checks would take longer than all the rest.
            rows = Dense(frozen(np.ascontiguousarray(features)), self._engine.constant)
        else:
            rows = rows_to_rate(learner, features)
        if isinstance(learner, LinearMixin):
            self._engine.inspect_rows(rows)
        return rows

    def _check_lines(self, lines: list[bytes]) -> None:
        if len(lines[0]) > LONGEST_ROW:
            raise RowError("X", 0, TOO_LONG)
        if self.options.skip:
            for t, line in enumerate(lines):
                if not line.strip():
                    raise RowError("X", t, "the line is blank")

    def _features(self, cells: Cells) -> Any:
        """Return the features of some rows."""
        model = self.model
        if model.encoder is not None:
            return self._encoder.features(cells)
        if model.steps is None and isinstance(model.learner, LinearMixin):
            n = len(model.columns)
            return json_lines.to_matrix([row[:n] for row in cells], model.columns)
        words, columns = model.words, {}
        for j, name in enumerate(model.columns):
            kind = TEXT if name in words else NUMBER
            columns[name] = json_lines.to_column([row[j] for row in cells], name, kind)
        batch = pa.RecordBatch.from_pydict(columns)
        return model.features(batch, batch.schema)

    def _intervals(self, cells: Cells) -> Array:
        """Return the labels of some rows."""
        start = len(self._codec.features)
        stop, intervals = start + len(self.names), []
        try:
            for row in cells:
                intervals.append(self._interval_of(row[start:stop]))
        except RowError as error:
            raise RowError(error.argument, len(intervals), error.reason, hint=error.hint) from None
        return np.frombuffer(b"".join(intervals), np.int64).reshape(-1, 2)

    def _interval_of(self, spelling: tuple[Any, ...]) -> bytes:
        """Return the interval of a label, from memory if it was read before."""
        try:
            return self._interval(*spelling)
        except TypeError:  # a list or an object cannot be remembered: refuse it by name
            self._read_label(*spelling)
            raise

    def _read_label(self, *spelling: object) -> bytes:
        """Return the interval of a label."""
        if not spelling:
            return np.array(ranking.NO_LABEL).tobytes()
        kind = self._labels.cell_type
        pairs = zip(self.names, spelling, strict=True)
        cells = [json_lines.to_column([cell], name, kind) for name, cell in pairs]
        labels = self._labels.read(pa.RecordBatch.from_arrays(cells, self.names))
        intervals = ranking.to_intervals(labels, self.model.learner.order_)
        self._engine.inspect_labels(labels, intervals)
        return intervals.tobytes()

    def _learn(self, batch: Batch) -> tuple[Array, list[Array]]:
        """Return what the model says of each row before it learns it: a rank, and numbers."""
        learner, engine = self.model.learner, self._engine
        if not self.names:
            rank, scores, cuts = engine.rate(learner.memory_, batch.rows)
        else:
            n_rows, with_cuts = len(batch.intervals), self.options.chances
            record = engine.blank_record(n_rows, len(learner.order_), with_cuts=with_cuts)
            learner.memory_ = engine.go_on(learner.memory_, batch, None, record)
            self.is_ahead = True
            rank, scores, cuts = record.rank, record.scores, record.cuts
        chances = np.exp(learner.log_chances(scores, cuts)).T if self.options.chances else ()
        return rank, [pick_scores(rank, scores), *chances]


# --- A model that begins with a stream: columns and words widen it as they appear ----------------


def blank_model(
    path: Path, classes: tuple[str, ...], labels: LabelKind, name: str, parameters: dict[str, Any]
) -> LoadedModel:
    """Return a model that has learned nothing and knows no column yet."""
    if not BY_COMMAND[name].linear:
        raise InputError(f"{path}: a model {name} cannot begin with a stream: it needs a table")
    order: Any = guessed_classes(classes)
    task = Task(labels, model=name, parameters=parameters, epochs=1, shuffle=False)
    learner = task.blank_model(order)
    learning.begin_empty(learner, order)
    encoder = ColumnEncoder(bounded=BY_COMMAND[name].bounded)
    encoder.partial_fit(pa.RecordBatch.from_arrays([], names=[]))
    model = Pipeline([("columns", encoder), ("model", learner)])
    notes = {"labels": to_note(labels), "grows": True}
    return LoadedModel(path, (model, model_files.About({}, notes)))


def _grows(model: LoadedModel) -> bool:
    """Tell whether streams widen a model: a note says so, and it is as `blank_model` made it."""
    encoder = model.encoder
    is_plain = encoder is not None and not encoder.ranks_
    is_linear = len(model.steps or ()) == 1 and isinstance(model.learner, LinearMixin)
    return model.notes.grows and is_plain and is_linear


def _words(cells: list[Any], name: str) -> pa.Array:
    """Return cells of a column of words, null for what is missing."""
    return read_words(json_lines.to_column(cells, name, TEXT), name)


def _features_of(encoder: ColumnEncoder) -> list[tuple[str, str | None]]:
    """Return column and word of each feature, None for numbers."""
    words = [(name, word) for name, choices in encoder.words_.items() for word in choices]
    return [*((name, None) for name in encoder.numbers_), *words]


# --- One run: from a pipe to answers, with checkpoints -------------------------------------------


class Stopped(Exception):  # noqa: N818 - it is not an error
    """The process was asked to stop."""


def chunks(descriptor: int) -> Iterator[bytes]:
    """Return whole lines from a pipe as soon as they arrive, without a byte-order mark."""
    with naming_file(NAME):
        lines = whole_lines(iter(lambda: os.read(descriptor, CHUNK_BYTES), b""))
        yield without_marks(next(lines, b""))
        yield from lines


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
        self.stream, self.model, self.output = stream, stream.model, output
        self.report = report
        self.warn = warn  # of a rise of the error
        self.errors = errors or ErrorReports()
        self.checkpoint = checkpoint
        self.evaluation = Evaluation()  # of the answers to labelled rows
        self.position = Position()
        self.known = Position()  # up to where rows are passed over: the model has learned them
        self.finished: Finished | None = None  # the last run, if `known` is what it has learned
        self.notes = dict(self.model.user_notes)  # of the user, with the last value of a column
        self._waiting: list[Answered] = []  # to be evaluated
        self._n_waiting = 0
        self._most_waiting = 0

    def run_into(
        self, output: Path | None, descriptor: int, settings: dict[str, Any], again: bool
    ) -> Evaluation:
        """Answer all rows, and write what was learned; return how good the answers were.

        The run is known by its settings, too. One with a checkpoint that replaces its model is
        never learned twice: repeated after its end, it answers nothing, unless `again` is true.
        """
        path, saved = self.model.path, self.checkpoint
        notes = {"labels": to_note(self.stream.labels)} | self.model.about.notes
        notes.pop("finished", None)
        last = self.model.notes.finished
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
        if self.finished:
            n_rows = self.finished.position.rows
            said = f"{path} has already learned the first {count(n_rows, 'row')}"
            warnings.warn(TableWarning(said, hint="again"), stacklevel=2)
            if self.position.rows == n_rows:  # the model stays as it is
                return self.finished.evaluation
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
        """Pass over the rows of the last run, if this may be the same one again."""
        if saved.is_of(last.origin):  # killed after it had replaced the model
            saved.remove()
        is_same = last.origin | {"model": saved.origin["model"]} == saved.origin
        if is_same and not saved.path.exists() and not again:
            self.finished, self.known = last, last.position

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
            with naming_file("standard output"):  # errors of other files name them
                for lines in self._interruptible(chunks(descriptor)):
                    rows = self.stream.rows(lines)
                    if rows and not has_begun:
                        self.stream.check_first(rows[0])
                        self._begin(rows[0])
                        has_begun = True
                    self._answer(self._new_lines(rows))
            if not has_begun:
                self._begin(None)
            self.stream.warn_of_features()
        except BaseException:  # whatever it is, keep the rows that were learned before
            # Before `known` the model knows rows that this run has not read yet: do not save. Nor
            # while it knows rows that are not answered: the same command answers them.
            counted = self.position.rows >= self.known.rows and not self.stream.is_ahead
            if self.checkpoint and counted:
                self._save(self.checkpoint)
            raise
        finally:
            self._settle()
        if self.position.rows < self.known.rows:
            raise self._another_stream(f"{NAME} has {self.position.rows} rows")

    def _interruptible(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Return chunks until a signal comes: it stops waiting at once, and work after a chunk."""
        waiting = stopping = False

        def stop(*_: object) -> None:
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

    def _begin(self, first: bytes | None) -> None:
        """Find out, at the first row, whether the input begins with the rows that are known.

        If not, it goes on after a checkpoint whose note says where, or holds other rows than the
        last run. There is no first row if nothing has come.
        """
        if first is not None and zlib.crc32(first) == self.known.first:
            return
        if self.finished:
            self.finished, self.known = None, Position()
        elif self.stream.options.note is not None:
            self.position = self.known

    def _another_stream(self, found: str) -> ValueError:
        rows = self.known.rows
        if self.finished:
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
        plain = {name: msgspec.to_builtins(part) for name, part in kept.items()}
        checkpoint.save({"model": self.model.model, **plain})

    def _new_lines(self, lines: list[bytes]) -> list[bytes]:
        """Return the lines that the checkpoint has not seen; check that the others are the same."""
        known, old = self.known, max(0, self.known.rows - self.position.rows)
        position = self.position.after(lines[:old])
        if position.rows == known.rows and position.checksum != known.checksum:
            raise self._another_stream(f"{NAME} has other rows")
        self.position = position
        return lines[old:]

    def _answer(self, lines: list[bytes]) -> None:
        """Write the answers to some lines."""
        for answered in self.stream.answers(lines, self.position.rows):
            before = self.position.rows
            # Rows that come alone are evaluated together, which is faster, if no report is due.
            self._waiting.append(answered)
            self._n_waiting += len(answered.rank)
            if self._n_waiting >= self._most_waiting:
                self._settle()
            self.output.write(answered.text)
            self.output.flush()
            self.position = self.position.after(answered.lines)
            self.stream.is_ahead = False
            if answered.note is not None and self.stream.options.note is not None:
                self.notes[self.stream.options.note] = answered.note
            if self.checkpoint and self.checkpoint.is_due(before, self.position.rows):
                self._save(self.checkpoint)

    def _settle(self) -> None:
        """Evaluate the answers that wait for it, and report."""
        if not self._waiting:
            return
        waiting, self._waiting, self._n_waiting = self._waiting, [], 0
        intervals = np.concatenate([answered.intervals for answered in waiting])
        rank = np.concatenate([answered.rank for answered in waiting])
        self.evaluation += Evaluation.of(intervals, rank)
        labelled = np.flatnonzero(ranking.is_labelled(intervals))
        loss = ranking.interval_loss(intervals, rank)[labelled]
        first = self.errors.recent.rows + 1

        def warn(alarm: Alarm) -> None:
            lines = [line for some in waiting if len(some.rank) for line in some.lines]
            self.warn(self._event(alarm, lines[labelled[alarm.row - first]]))

        self.errors.add(loss.tolist(), self.report, warn)
        self._most_waiting = min(TOGETHER, self.errors.next_row - self.evaluation.rows)

    def _event(self, alarm: Alarm, line: bytes) -> dict[str, Any]:
        """Return an alarm at a line, with a half-life that lets the model follow a change."""
        options, [row] = self.stream.options, json_lines.read_objects([line])
        marks = {"id": options.key, "note": options.note}
        now = getattr(self.model.learner, "half_life", None)
        return {
            "event": "alarm",
            "row": alarm.row,
            **{mark: row.get(name) for mark, name in marks.items() if name},
            "half_life": alarm.watched if now is None else min(alarm.watched, int(now) // 2),
        }
