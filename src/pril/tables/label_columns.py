"""What the labels in the columns of a table are, and how they are read. Needs pyarrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, NamedTuple, Self

import numpy as np
from msgspec import Meta, Struct, json
from msgspec.structs import replace

from pril.core.arrays import Array
from pril.errors import InputError, RowError
from pril.labels import brackets, ranking
from pril.labels.range_texts import ClassTexts
from pril.labels.scale import cut_points
from pril.tables import arrow
from pril.tables.files import Table

# isort: split
import pyarrow as pa  # after `arrow`, which says what to install if pyarrow is missing
import pyarrow.compute as pc

LARGEST_LABEL = 2**53  # from here on, floats are not exact


# --- What labels are: the options of a command make one of these, and a model file keeps it -------


class InColumns(Struct, frozen=True, tag_field="kind"):
    """Columns that hold labels."""

    columns: tuple[str, ...]


class LabelEnds(InColumns, frozen=True, tag="ends"):
    """Exact labels, in one column, or the lower and the upper end, in two."""

    columns: tuple[str, ...] = ()


class Votes(InColumns, frozen=True, tag="votes"):
    """Votes, a column for each rater."""

    # The share that is left out at each end.
    trim: Annotated[float, Meta(ge=0.0, le=ranking.MOST_TRIMMED)] = 0.0


class RangeTexts(InColumns, frozen=True, tag="ranges"):
    """Ranges of classes, as people write them."""


class Edges(InColumns, frozen=True, tag="edges"):
    """Numbers, exact or two ends; the classes are the brackets between the edges."""

    edges: tuple[float, ...]


class BracketTexts(InColumns, frozen=True, tag="brackets"):
    """Brackets of a number, as people write them."""

    edges: tuple[float, ...] | None = None  # None: the texts tell
    missing: tuple[str, ...] = ()  # texts that mean no label, besides the usual ones
    spelling: brackets.Spelling = brackets.Spelling()
    low: float | None = None  # where the lowest bracket begins, and the highest ends; None: open
    high: float | None = None


LabelKind = LabelEnds | Votes | RangeTexts | Edges | BracketTexts
# What cells hold; for other labels, the table tells.
CELLS = {BracketTexts: arrow.BRACKET, RangeTexts: arrow.TEXT, Edges: arrow.NUMBER}


def to_note(value: Any) -> Any:
    """Return a value as JSON has it: what a model file keeps."""
    return json.decode(json.encode(value))


# --- How they are read ---------------------------------------------------------------------------


class LabelColumns(NamedTuple):
    """What labels are, and the classes that their cells become."""

    kind: LabelKind
    text: bool  # whether the labels are words, as the names of brackets are
    classes: Sequence[Any] | None = None  # lowest first; None if they are not known yet

    @classmethod
    def in_table(
        cls, table: Table, kind: LabelKind, classes: tuple[str, ...] | None, words: tuple[str, ...]
    ) -> Self:
        """Return how to read labels; refuse columns that cannot be labels.

        `words` are columns that are read as words, whatever they hold.
        """
        types = {name: arrow.kind_of(table.schema.field(name).type) for name in kind.columns}
        for name, held in types.items():
            if held not in ("number", "text", "empty"):
                raise table.error(f"the column {name!r} cannot be a label: it holds {held}")
        as_words = [name for name in kind.columns if name in words]
        match kind:
            case RangeTexts():
                if classes is None:
                    raise InputError("ranges of classes as text need the classes", hint="classes")
                order = guessed_classes(classes)
                return cls(kind, any(isinstance(name, str) for name in order), order)
            case Edges() if as_words:
                reason = "cannot be read as words: edges are for numbers"
                raise table.error(f"the column {as_words[0]!r} {reason}")
            case Edges() | BracketTexts():
                return cls(kind, True, typed_classes(classes, text=True)).in_brackets()
        types.update({name: "text" for name in as_words if types[name] == "number"})
        if "text" in types.values() and "number" in types.values():
            both, names = "both" if len(types) == 2 else "all", " and ".join(map(repr, types))
            raise table.error(f"the columns {names} must {both} hold numbers or {both} hold words")
        text = "text" in types.values()
        if classes is not None and set(types.values()) == {"empty"}:  # no row has a label
            return cls(kind, text, guessed_classes(classes))
        return cls(kind, text, typed_classes(classes, text=text))

    @classmethod
    def of_model(cls, kind: LabelKind, order: Array, path: object) -> Self:
        """Return how to read labels for a model from a file, whose classes are in order."""
        columns = cls(kind, order.dtype.kind not in "biuf", order.tolist())
        if isinstance(kind, LabelEnds):
            return columns._replace(classes=None)
        if isinstance(kind, BracketTexts):
            if len(kind.columns) > 1:
                raise InputError(f"{path} has learned brackets as text, which are in one column")
            if kind.edges is None or kind.spelling.unit is None:
                raise InputError(f"{path} is damaged: it does not say how its texts are written")
        try:
            return columns.in_brackets()
        except (TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged: its edges: {error}") from None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns."""
        return self.kind.columns

    @property
    def edges(self) -> tuple[float, ...] | None:
        """The edges of the brackets that labels are; None if they are none, or not yet known."""
        return self.kind.edges if isinstance(self.kind, Edges | BracketTexts) else None

    def in_brackets(self) -> Self:
        """Return the same with a name for each bracket between the edges, if there are edges."""
        if (edges := self.edges) is None:
            return self
        cut_points(edges)  # refuses edges that do not ascend
        classes = brackets.names(edges) if self.classes is None else self.classes
        if len(classes) != len(edges) + 1:
            raise InputError(
                f"{len(edges)} edges make {len(edges) + 1} brackets, but there are {len(classes)} "
                f"classes: {ranking.named(classes)}"
            )
        return self._replace(classes=classes)

    @property
    def as_written(self) -> Self:
        """How to read labels in the first pass: brackets in text stay as people wrote them."""
        if not isinstance(self.kind, BracketTexts):
            return self
        return self._replace(kind=replace(self.kind, edges=None))

    def settled(self, texts: dict[str, int], place: Callable[[int], str]) -> Self:
        """Return how to read brackets once all texts are known, each with its first row.

        The edges are found, if they are not given; texts that cannot be read are refused.
        """
        kind: Any = self.kind
        texts_read = brackets.Brackets(
            texts, (), "y", kind.spelling, kind.edges or (), place, "bracket_"
        )
        low, edges, high = (None, kind.edges, None) if kind.edges else texts_read.ends.span()
        if not edges:
            reason = "there is only one bracket, so there is nothing to learn"
            raise RowError("y", min(texts.values()), reason, hint="edges")
        kind = replace(kind, edges=tuple(edges), low=low, high=high, spelling=texts_read.spelling)
        return self._replace(kind=kind).in_brackets()

    @property
    def order(self) -> str:
        """Where the order of the classes comes from, in words."""
        if self.edges is not None:
            return "brackets between the edges"
        if self.classes is not None:
            return "in the order given"
        return "words, in alphabetical order" if self.text else "numbers, in ascending order"

    @property
    def ends(self) -> tuple[str, ...]:
        """What the columns of `read` hold: exact labels, or the lower and the upper end."""
        return ("lower", "upper") if isinstance(self.kind, Votes | RangeTexts) else self.names

    @property
    def cell_type(self) -> pa.DataType:
        """What the cells hold: numbers or words."""
        return CELLS.get(type(self.kind), arrow.TEXT if self.text else arrow.NUMBER)

    def read(
        self, batch: pa.RecordBatch, place: Callable[[int], str] = "row {}".format
    ) -> ranking.Labels:
        """Return the labels of some rows; `place` is what to call a row in errors."""
        match self.kind:
            case BracketTexts():
                return self._read_texts(self.kind, batch, place)
            case Votes():
                return self._read_votes(self.kind.trim, batch)
            case RangeTexts():
                return self._read_ranges(batch)
            case Edges():
                return self._read_bounds(self.kind.edges, batch)
        return read_labels(batch, self.names, text=self.text)

    def _read_bounds(self, edges: tuple[float, ...], batch: pa.RecordBatch) -> ranking.Labels:
        """Return numbers as labels: the brackets that they lie in."""
        try:
            ends = [arrow.read_numbers(arrow.column(batch, name), name) for name in self.names]
        except RowError as error:  # no hint: words have no brackets
            raise RowError(error.argument, error.row, error.reason) from None
        bins = ranking.rank_bounds(ends[0], ends[-1], cut_points(edges), name="y")
        labels = ranking.labels_of(bins, np.array(self.classes, dtype=object))
        return labels._replace(values=labels.values[:, : len(ends)])

    def _read_votes(self, trim: float, batch: pa.RecordBatch) -> ranking.Labels:
        """Return votes as labels, from the lowest to the highest that is not left out."""
        votes = read_labels(batch, self.names, text=self.text)
        if not votes.labelled().any():
            return votes._replace(values=votes.values[:, [0, 0]])
        # Numbers and words have an order of their own, so that a block alone tells it.
        order = votes.seen().astype(votes.dtype)
        order = order if self.classes is None else ranking.check_classes(self.classes)
        ranks = ranking.rank_votes(votes, order, name="X", raters=self.names)
        return ranking.labels_of(ranking.between_votes(ranks, len(order), trim), order)

    def votes_cast(self, batch: pa.RecordBatch) -> dict[Any, int]:
        """Return the votes that name classes, each with its first row; none for other labels."""
        if not isinstance(self.kind, Votes) or self.classes is not None:
            return {}
        votes = read_labels(batch, self.names, text=self.text)
        _, first = np.unique(votes.values, return_index=True)
        cells = [divmod(at, len(self.names)) for at in first.tolist()]
        first_rows = {votes.cell(row, rater): row for row, rater in cells}
        return {vote: row for vote, row in first_rows.items() if vote is not None}

    def _read_ranges(self, batch: pa.RecordBatch) -> ranking.Labels:
        """Return ranges of classes, as people write them, as labels."""
        [name] = self.names
        texts, codes = _distinct(arrow.read_words(arrow.column(batch, name), name))
        order = ranking.check_classes(self.classes)
        try:
            intervals = ClassTexts(order).intervals([*texts, ""])
        except RowError as error:
            row = int(np.argmax(codes == error.row))
            raise RowError("y", row, error.reason) from None
        return ranking.labels_of(intervals[codes], order)

    def _read_texts(
        self, kind: BracketTexts, batch: pa.RecordBatch, place: Callable[[int], str]
    ) -> ranking.Labels:
        """Return texts as labels: the brackets they touch or, without edges, the texts."""
        [name] = self.names
        words = _bracket_texts(arrow.column(batch, name), name)
        (texts, codes), missing = _distinct(words), kind.missing
        if kind.edges is None:
            silent = pa.array(sorted(brackets.without_answer(texts, missing)), arrow.TEXT)
            return ranking.read(arrow.with_nulls(words, pc.is_in(words, silent)))
        rows = np.unique(codes, return_index=True)[1][-len(texts) :]  # the first of each text
        first = dict(zip(texts, rows.tolist(), strict=False))
        texts_read = brackets.Brackets(
            first, missing, "y", kind.spelling, kind.edges, place, "bracket_"
        )
        classes = np.array([*texts_read.classes(kind.edges).values(), ranking.NO_LABEL])
        return ranking.labels_of(classes[codes], np.array(self.classes, dtype=object))

    def to_ranks(self, cells: list[tuple[Any, ...]]) -> tuple[Array, Array]:
        """Return the classes, and labels of `read`, given as their cells, as intervals of ranks."""
        if isinstance(self.kind, BracketTexts):
            texts = [row[0] for row in cells]
            labels = self.read(pa.RecordBatch.from_pydict({self.names[0]: texts}))
        else:
            labels = ranking.read(cells, columns=())
        try:
            return ranking.encode(labels, self.classes)
        except RowError as error:
            if self.classes or not self.text or error.hint:
                raise
            reason = f"{error.reason}; the classes were taken in alphabetical order"
            raise RowError("y", error.row, reason, hint="classes") from None


# --- Cells as labels ------------------------------------------------------------------------------


def read_labels(batch: pa.RecordBatch, names: Sequence[str], *, text: bool) -> ranking.Labels:
    """Return columns as labels: exact, the lower and the upper end, or votes."""
    if text:
        words = [arrow.read_words(arrow.column(batch, name), name) for name in names]
        return ranking.join([ranking.read(cells) for cells in words], "y")
    values = np.column_stack([_numbers(arrow.column(batch, name), name) for name in names])
    present = values[~np.isnan(values)]
    dtype = np.dtype(np.int64 if (present == np.floor(present)).all() else np.float64)
    return ranking.Labels(values.astype(dtype) if present.size == values.size else values, dtype)


def _bracket_texts(cells: pa.Array, name: str) -> pa.Array:
    """Return a column as texts, null for what is missing; a number stays the number it is."""
    if arrow.kind_of(cells.type) != "number" or pa.types.is_boolean(cells.type):
        return arrow.read_words(cells, name)
    numbers = arrow.read_numbers(cells, name).tolist()
    return pa.array(
        [None if np.isnan(cell) else brackets.spelled(cell) for cell in numbers], arrow.TEXT
    )


def _numbers(cells: pa.Array, name: str) -> Array:
    """Return labels as floats, NaN for what is missing; refuse those that may be rounded."""
    numbers = arrow.read_numbers(cells, name)
    large = np.abs(numbers) >= LARGEST_LABEL
    if large.any():
        row = int(np.argmax(large))
        said = f"about {numbers[row]:.0f}" if np.isfinite(numbers[row]) else numbers[row]
        raise RowError("X", row, f"column {name!r} is {said}, which is too large for a label")
    return numbers


def _distinct(words: pa.Array) -> tuple[list[str], Array]:
    """Return the different words, and the position of each row's among them, -1 if missing."""
    coded = words.dictionary_encode()
    codes = pc.fill_null(coded.indices, -1).to_numpy(zero_copy_only=False)
    return coded.dictionary.to_pylist(), codes.astype(np.int64)


def guessed_classes(classes: tuple[str, ...]) -> list[Any]:
    """Return classes, given as text, as numbers if all of them are numbers."""
    try:
        order = typed_classes(classes, text=False)
    except InputError:
        order = typed_classes(classes, text=True)
    return order or []


def typed_classes(classes: tuple[str, ...] | None, *, text: bool) -> list[Any] | None:
    """Return classes, given as text, as numbers if the labels of the table are numbers."""
    if classes is None:
        return None
    given = f"the classes {','.join(classes)}"
    if text:
        missing = set(classes) & set(arrow.MISSING.to_pylist())
        if missing:
            reason = f"{min(missing)} in a table is a missing value, not a class"
            raise InputError(f"{given}: {reason}; choose another word for it")
        return list(classes)
    try:
        numbers = arrow.read_numbers(pa.array(classes, arrow.TEXT), "").tolist()
    except RowError:
        numbers = [np.nan]
    if np.isnan(numbers).any():
        raise InputError(f"{given}: the labels are numbers, the classes are not")
    if not (np.abs(numbers) < LARGEST_LABEL).all():
        raise InputError(f"{given}: a class must be finite and smaller than 2^53")
    return [int(number) if number == int(number) else number for number in numbers]
