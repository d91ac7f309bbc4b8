"""Lines of a stream: each becomes a row, is answered, and is learned if it has a label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pril.core import learning, ranking
from pril.core.arrays import Array
from pril.core.classifier import rate_rows, rows_to_rate
from pril.core.evaluation import pick_scores
from pril.core.linear import LinearMixin
from pril.core.logistic import log_probabilities
from pril.core.nouns import Dense
from pril.core.passes import Batch
from pril.core.rows import frozen
from pril.errors import InputError, RowError, shown
from pril.tables.arrow import TEXT
from pril.tables.encoder import RowEncoder
from pril.tables.files import TableError, quote_columns
from pril.tables.growing import grow, grows, undoing, warn_of_features
from pril.tables.json_lines import (
    NAME,
    USUAL,
    Answers,
    Cells,
    Codec,
    StreamOptions,
    split_lines,
    to_column,
    to_matrix,
)
from pril.tables.label_columns import LabelColumns, LabelKind
from pril.tables.model import LoadedModel
from pril.tables.survey import MANY_ROWS
from pril.tables.text import LONGEST_ROW, TOO_LONG, without_marks

MOST_SPELLINGS = 10_000  # of labels that are remembered


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
        self._has_begun = False  # whether a line has come that is not blank
        self.is_ahead = False  # whether the model has learned rows that are not yet written
        self._check_columns()
        self.use(model.model)
        self._grows = bool(self.names) and grows(model)
        # Lines that tell which features of a growing model say nothing of new rows; then None.
        self._first: list[bytes] | None = [] if self._grows else None
        if options.chances:
            model.check_probabilities()
        if self.names:
            model.check_learns()

    def _check_columns(self) -> None:
        key, columns = self.options.key, self.model.columns
        if both := set(self.names) & set(columns):
            raise InputError(f"the column {min(both)!r} cannot be a label: it is a feature")
        for name, use in ((key, "the id"), (self.options.note, "noted")):
            if name in (*self.names, *columns):
                raise InputError(f"the column {name!r} cannot be {use}: it is a feature or a label")
        if key in ("prediction", "score", "probabilities", "error", "line"):
            raise InputError(f"the column {key!r} cannot be the id: the answer has that key")

    def use(self, model: Any) -> None:
        """Go on with a model that has learned more."""
        self.model.use(model)
        self._encoder = RowEncoder(model)
        order = self.model.learner.order_
        self._labels = LabelColumns.of_model(self.labels, order, self.model.path)
        self._interval = lru_cache(MOST_SPELLINGS, typed=True)(self._read_label)
        self._codec = Codec(order, self.model.columns, self.names, self.options)

    def rows(self, lines: bytes) -> list[bytes]:
        """Return the lines that are rows."""
        if not self._has_begun:
            lines = without_marks(lines)
            self._has_begun = bool(lines.strip())
            self._refuse_csv(lines)
        return lines.split(b"\n")[:-1] if self.options.skip else split_lines(lines)

    def _refuse_csv(self, lines: bytes) -> None:
        """Refuse lines that do not begin as JSON does, unless bad lines are answered one by one."""
        first = lines.lstrip().partition(b"\n")[0]
        if first and not first.startswith((b"{", b"[")) and not self.options.skip:
            raise TableError(
                f"{NAME}, row 1: not a JSON object: {shown(first.decode(errors='replace'))}; a "
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
                    answers = self._learn(batch, keys)
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
                text = self._codec.answer(answers)
                yield Answered(part, text, batch.intervals, answers.rank, note)
            at += done

    @contextmanager
    def _grown(self, lines: list[bytes]) -> Iterator[None]:
        """Widen a model that grows by the columns and words of a line, unless it is refused."""
        if not self._grows:
            yield
            return
        with undoing(self.model):
            self._check_lines(lines)
            grow(
                self.model,
                self._codec,
                lines[0],
                {*self.names, self.options.key, self.options.note},
            )
            yield
        if self._first is not None:
            self._first += lines
            if len(self._first) >= MANY_ROWS:
                self.warn_of_features()

    def warn_of_features(self) -> None:
        """Warn once of features of a growing model that say nothing of new rows."""
        first, self._first = self._first, None
        if first:
            warn_of_features(self.model, self._codec, first)

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
        features, intervals = self._features(cells), self._intervals(cells)
        rows, weights = self._rows(features), None
        if self.names:
            intervals, weights = learning.weigh(self.model.learner, intervals)
        return Batch(rows, intervals, weights), keys

    def _rows(self, features: Any) -> Any:
        """Return features as the learner's engine takes them."""
        learner: Any = self.model.learner
        if isinstance(learner, LinearMixin) and isinstance(features, np.ndarray):
            # The cells were checked: scikit-learn's checks would take longer than all the rest.
            rows = Dense(frozen(np.ascontiguousarray(features)), learner.engine.constant)
            learner.engine.inspect_rows(rows)
            return rows
        if not self.names:
            return rows_to_rate(learner, features)
        order = learner.order_
        unlabelled = ranking.Labels(np.full((features.shape[0], 1), -1), order.dtype, order)
        return learning.prepare(learner, features, unlabelled).rows

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
        words = model.words
        numbers = [j for j, name in enumerate(model.columns) if name not in words]
        names = [model.columns[j] for j in numbers]
        matrix = to_matrix([tuple([row[j] for j in numbers]) for row in cells], names)
        if model.steps is None and isinstance(model.learner, LinearMixin):
            return matrix
        columns = dict(zip(names, map(pa.array, matrix.T), strict=True))
        for j, name in enumerate(model.columns):
            if name in words:
                columns[name] = to_column([row[j] for row in cells], name, TEXT)
        batch = pa.RecordBatch.from_pydict(columns)
        return model.features(batch, batch.schema)

    def _intervals(self, cells: Cells) -> Array:
        """Return the labels of some rows."""
        start = len(self._codec.features)
        stop, found = start + len(self.names), []
        try:
            for row in cells:
                found.append(self._interval_of(row[start:stop]))
        except RowError as error:
            raise RowError(error.argument, len(found), error.reason, hint=error.hint) from None
        return np.frombuffer(b"".join(found), np.int64).reshape(-1, 2)

    def _interval_of(self, spelling: tuple[Any, ...]) -> bytes:
        """Return the interval of a label, from memory if it was read before."""
        try:
            return self._interval(*spelling)
        except TypeError:  # a list or an object cannot be remembered: refuse it by name
            self._read_label(*spelling)
            raise

    def _read_label(self, *spelling: Any) -> bytes:
        """Return the interval of a label."""
        if not spelling:
            return np.array(ranking.NO_LABEL).tobytes()
        kind = self._labels.cell_type
        pairs = zip(self.names, spelling, strict=True)
        cells = [to_column([cell], name, kind) for name, cell in pairs]
        labels = self._labels.read(pa.RecordBatch.from_arrays(cells, self.names))
        intervals = ranking.to_intervals(labels, self.model.learner.order_)
        self.model.learner.engine.inspect_labels(labels, intervals)
        return intervals.tobytes()

    def _learn(self, batch: Batch, keys: list[str]) -> Answers:
        """Return what the model says of each row before it learns it."""
        learner = self.model.learner
        if not self.names:
            rank, scores, cuts = rate_rows(learner, batch.rows)
        else:
            with_cuts = self.options.chances
            record = learning.blank_record(learner, len(batch), with_cuts=with_cuts)
            learning.go_on(learner, batch, record)
            self.is_ahead = True
            rank, scores, cuts = record.rank, record.scores, record.cuts
        chances = None
        if self.options.chances:
            chances = np.exp(log_probabilities(scores, cuts))
        return Answers(keys, rank, pick_scores(rank, scores), chances)
