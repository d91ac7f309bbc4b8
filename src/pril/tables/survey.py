"""What a table holds: its columns, its labels, and the row in which it has a mistake."""

from __future__ import annotations

import json
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pril import _ranks
from pril.errors import RowError
from pril.tables.cells import MISSING, blanked, kind_of, read_labels, read_words
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import Table, TableError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.tables.training import Task

    Array = NDArray[Any]

TEXT_HINT = {"not a number": "; if the column holds words, pass --text"}
ALPHABETICAL_HINT = "; the classes were taken in alphabetical order: pass --classes, lowest first"
MOST_LABELS = 10_000  # different labels; a column with more is not a rating


class Columns(NamedTuple):
    """Which columns are features, and which are not, with the reason."""

    numbers: list[str]
    words: list[str]
    sparse: list[str]
    ignored: dict[str, str]

    @property
    def used(self) -> list[str]:
        """Return the names of the features."""
        return [*self.numbers, *self.words, *self.sparse]


def choose_columns(table: Table, task: Task) -> Columns:
    """Sort the columns of a table by what they hold and what was asked for."""
    for name in (*task.labels, *(task.features or ()), *task.drop, *task.text):
        table.check_column(name)
    if len(set(task.labels)) < len(task.labels):
        raise TableError(
            f"{table.name}: {task.labels[0]!r} cannot be both ends; for exact labels pass --label"
        )
    for name in task.features or ():
        if name in task.labels:
            raise TableError(f"{table.name}: the column {name!r} is the label, not a feature")
    chosen = Columns([], [], [], {})
    for column in table.schema:
        name, kind = column.name, kind_of(column.type)
        if name in task.text and kind in ("number", "empty"):
            kind = "text"
        asked = name in (task.features or ())
        if name in task.labels:
            continue
        if name in task.drop or (task.features is not None and not asked):
            chosen.ignored[name] = "not asked for"
        elif kind == "number":
            chosen.numbers.append(name)
        elif kind == "text" and task.one_hot:
            chosen.words.append(name)
        elif kind == "sparse":
            chosen.sparse.append(name)
        else:
            reason = {"text": "text", "empty": "no values"}.get(kind, f"holds {kind}")
            if asked:
                raise TableError(f"{table.name}: the column {name!r} cannot be a feature: {reason}")
            chosen.ignored[name] = reason
    if not chosen.used:
        raise TableError(f"{table.name}: no column is left to learn from")
    return chosen


def has_text_labels(table: Table, task: Task) -> bool:
    """Tell whether the labels are words; refuse what cannot be a label."""
    names = task.labels
    kinds = {name: kind_of(table.schema.field(name).type) for name in names}
    kinds.update({name: "text" for name in names if name in task.text and kinds[name] == "number"})
    for name, kind in kinds.items():
        if kind not in ("number", "text", "empty"):
            raise TableError(
                f"{table.name}: the column {name!r} cannot be a label: it holds {kind}"
            )
    if "text" in kinds.values() and "number" in kinds.values():
        raise TableError(
            f"{table.name}: the columns {' and '.join(map(repr, names))} must both hold numbers or "
            "both hold words"
        )
    return "text" in kinds.values()


@contextmanager
def located(
    table: Table,
    first: int | Array,
    names: tuple[str, ...] = (),
    hints: dict[str, str] | None = None,
) -> Iterator[None]:
    """Say in which row of the table a block, or a list of rows, has its mistake, and what helps."""
    try:
        yield
    except RowError as error:
        row = first + error.row if isinstance(first, int) else int(first[error.row])
        said = f"{said_columns(names)}: " if names and error.args[0] == "y" else ""
        reason = error.reason.replace("pass classes=", "pass --classes")
        hint = next((hint for mark, hint in (hints or {}).items() if mark in reason), "")
        raise TableError(f"{table.where(row)}: {said}{reason}{hint}") from None


def said_columns(names: tuple[str, ...]) -> str:
    """Return columns as a message names them."""
    return f"column{'s' if len(names) > 1 else ''} {', '.join(map(repr, names))}"


# --- Which labels there are ----------------------------------------------------------------------


class LabelCounts:
    """The different labels of a table, how often each occurs, and where it occurs first."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.seen: dict[tuple[Any, ...], list[int]] = {}  # label: count, first row

    def add(self, block: pa.RecordBatch, first: int, table: Table) -> None:
        """Count the labels of one more block."""
        code, words = np.zeros(block.num_rows, dtype=np.int64), []
        for name in self.names:
            with located(table, first):
                cells = _comparable(block.column(name), name)
            coded = cells.dictionary_encode(null_encoding="encode")
            words.append(coded.dictionary.to_pylist())
            code = code * len(words[-1]) + coded.indices.to_numpy()
        size = int(np.prod([len(word) for word in words]))
        if size <= MOST_LABELS:
            count = np.bincount(code, minlength=size)
            found = np.flatnonzero(count)
            count = count[found]
        else:
            found, count = np.unique(code, return_counts=True)
        places = np.unravel_index(found, [len(word) for word in words])
        for k, place in enumerate(zip(*places, strict=True)):
            label = tuple(word[at] for word, at in zip(words, place, strict=True))
            if label not in self.seen:
                self.seen[label] = [0, first + int(np.argmax(code == found[k]))]
            self.seen[label][0] += int(count[k])

    def are_too_many(self) -> bool:
        """Tell whether there are more different labels than a rating has."""
        return len(self.seen) > MOST_LABELS

    def check_number(self, table: Table) -> None:
        """Refuse too many different labels."""
        if self.are_too_many():
            raise TableError(
                f"{table.name}: {said_columns(self.names)}: over {MOST_LABELS} different "
                "labels; rank them in bins first (pril.labels.from_bounds does)"
            )

    def merge(self, other: LabelCounts, offset: int) -> None:
        """Take in the labels of other rows, which lie that much further on in the table."""
        for label, (count, row) in other.seen.items():
            self.seen.setdefault(label, [0, row + offset])[0] += count

    def encode(
        self, classes: tuple[str, ...] | None, *, text: bool, table: Table
    ) -> tuple[Array, Array, Array]:
        """Return the classes, the different labels as ranks, and how often each occurs."""
        seen = sorted(self.seen.items(), key=lambda entry: entry[1][1])  # by first row
        columns = [pa.array(cells) for cells in zip(*(cells for cells, _ in seen), strict=True)]
        counts, rows = np.array([entry for _, entry in seen]).T
        place = f"{table.name}: {said_columns(self.names)}"
        alphabetical = "" if classes or not text else ALPHABETICAL_HINT
        if self.n_silent() == counts.sum():
            raise TableError(f"{place}: no row has a label")
        with (
            located(table, rows, self.names, {**TEXT_HINT, "above upper end": alphabetical}),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            batch = pa.RecordBatch.from_arrays(columns, names=list(self.names))
            found = read_labels(batch, self.names, text=text)
            order, ranks = _ranks.encode(found, typed_classes(classes, text=text))
        for entry in caught:  # it speaks of y, and of a row among the different labels
            said = re.sub(r"^y, row \d+: ", "", str(entry.message))
            said = said.replace("the classes of y", "the classes")
            warnings.warn(f"{place}: {said}", entry.category, stacklevel=2)
        return order, ranks, counts

    def n_silent(self) -> int:
        """Return how many rows say nothing."""
        return self.seen.get((None,) * len(self.names), [0])[0]

    def to_json(self) -> str:
        """Return all of it as text, for a checkpoint."""
        return json.dumps([[list(cells), *entry] for cells, entry in self.seen.items()])

    def restore(self, text: str) -> None:
        """Take back what `to_json` returned."""
        self.seen = {tuple(cells): entry for cells, *entry in json.loads(text)}


def _comparable(cells: pa.Array, name: str) -> pa.Array:
    """Return labels as they can be told apart: not coded, not decimal, gaps as nulls."""
    if kind_of(cells.type) == "text":
        return read_words(cells, name)
    if pa.types.is_dictionary(cells.type):
        cells = cells.dictionary_decode()
    if pa.types.is_decimal(cells.type):
        cells = cells.cast(pa.float64())
    if pa.types.is_floating(cells.type):
        cells = blanked(cells, pc.is_nan(cells))
    return cells


def typed_classes(classes: tuple[str, ...] | None, *, text: bool) -> list[Any] | None:
    """Return classes from the command line as the kind of label that the table has."""
    if classes is None:
        return None
    if text:
        missing = set(classes) & set(MISSING.to_pylist())
        if missing:
            raise ValueError(
                f"--classes {','.join(classes)}: {min(missing)} in a table is a missing value, "
                "not a class; spell it otherwise there"
            )
        return list(classes)
    try:
        numbers = [float(name) for name in classes]
    except ValueError:
        raise ValueError(
            f"--classes {','.join(classes)}: the labels are numbers, the classes are not"
        ) from None
    if not np.isfinite(numbers).all():
        raise ValueError(f"--classes {','.join(classes)}: a class must be finite")
    return [int(number) if number.is_integer() else number for number in numbers]


# --- Block by block -------------------------------------------------------------------------------


def survey_block(
    table: Table,
    task: Task,
    encoder: ColumnEncoder,
    counts: LabelCounts,
    first: int,
    block: pa.RecordBatch,
    learning: Array,
) -> None:
    """Count the labels of a block; learn its columns from its rows for learning, check the rest."""
    counts.add(block, first, table)
    features = block.drop_columns(list(dict.fromkeys(task.labels)))
    try:
        with located(table, rows_of(first, learning), hints=TEXT_HINT):
            encoder.partial_fit(kept(features, learning))
    except TableError:
        with located(table, first, hints=TEXT_HINT):  # a row held out may be wrong before it
            encoder.check(features)
        raise
    if task.holdout:
        with located(table, rows_of(first, ~learning), hints=TEXT_HINT):
            encoder.check(kept(features, ~learning))


def kept(block: pa.RecordBatch, chosen: Array) -> pa.RecordBatch:
    """Return the chosen rows of a block."""
    return block if chosen.all() else block.filter(pa.array(chosen))


def rows_of(first: int, learning: Array) -> Array:
    """Return the positions in the table of the rows for learning."""
    return first + np.flatnonzero(learning)
