"""Use a model from a file on tables: predict and evaluate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Literal

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from sklearn.base import BaseEstimator

from pril.bases.classifier import OrdinalLearner, rate, rate_rows
from pril.bases.parts import Parts, model_name, scale_of_features, units_of_features
from pril.core.arrays import Array
from pril.core.rating import Ratings
from pril.core.scikit import validate_params
from pril.core.words import rows_known, some_of
from pril.errors import InputError, refusing, shown
from pril.io import model_files
from pril.labels import ranking
from pril.labels.scale import Scale
from pril.metrics import Evaluation, Outcomes, pick_scores
from pril.ranges import is_by_column, ranges_of
from pril.tables.arrow import NUMBER, column, kind_of, read_numbers, read_words
from pril.tables.checkpoints import Finished
from pril.tables.encoder import ColumnEncoder
from pril.tables.files import Table, Watcher
from pril.tables.label_columns import BracketTexts, Edges, LabelColumns, LabelEnds, LabelKind
from pril.tables.opening import format_of
from pril.tables.text import CsvStyle, codec_of
from pril.tables.writing import TableWriter

log = logging.getLogger(__name__)

ADDED = ("prediction", "score")  # columns that `predict` adds
ENDS = ("lower", "upper")  # columns that it adds if the model has ranges
# Columns of numbers that it adds, each by a method of a `Scale` and its arguments.
NumberColumns = dict[str, tuple[Callable[..., Array], tuple[float, ...]]]


def rate_labelled(
    learner: OrdinalLearner, features: Any, labels: ranking.Labels
) -> tuple[Array, Ratings]:
    """Return labels as intervals, and what a learner says of their rows.

    Unlike rows to learn, these may have labels of any kind.
    """
    rows = learner.engine.read(learner, features, reset=False, min_rows=0)
    return ranking.to_intervals(labels, learner.order_), rate_rows(learner, rows)


class Contents(Struct, frozen=True):
    """What identifies the contents of a table, as `Table.contents` returns it."""

    bytes: int
    sha256: str


class HeldOut(Struct, frozen=True):
    """How good a model was on the rows held out when it learned."""

    rows: int
    interval_accuracy: float | None
    interval_absolute_error: float | None


class FitNotes(Struct, frozen=True):
    """What a model file says of the data that a model learned from; `Run.describe` says more."""

    table: str | None = None
    contents: Contents | None = None
    csv: CsvStyle | None = None  # how it was written, if not as usual
    rows: int = 0
    folders: tuple[str, ...] = ()  # the features that were no columns of its files
    learned_rows: int = 0
    holdout: HeldOut | None = None
    labels: LabelKind = LabelEnds()  # no columns: they are not known
    grows: bool = False  # whether later streams widen the model, too
    finished: Finished | None = None  # the stream that it learned last, and replaced it


class LoadedModel:
    """A model, what its file says of it, and how it reads a table."""

    def __init__(self, path: Path, content: tuple[Any, model_files.About] | None = None) -> None:
        self.path = path
        self.model, self.about = content or model_files.read(path, kind="model")
        try:
            self.notes = msgspec.convert(self.about.notes, FitNotes)
        except msgspec.ValidationError as error:
            raise InputError(f"{path} is damaged: its notes: {error}") from None
        self.use(self.model)

    def use(self, model: BaseEstimator) -> None:
        """Replace the model, for example by one that has learned more."""
        self.model, self.parts = model, Parts.of(model)
        self.steps, self.learner = self.parts.pipeline, self.parts.learner
        self.ranges = self.parts.ranges
        first = self.steps[0] if self.steps else None
        self.encoder = first if isinstance(first, ColumnEncoder) else None

    @property
    def name(self) -> str:
        """What the model is, in short."""
        return model_name(self.model)

    def check_probabilities(self) -> None:
        """Refuse a model without probabilities."""
        if not hasattr(self.learner, "predict_proba"):
            raise InputError(
                f"{self.path} holds {type(self.learner).__name__}, which has no probabilities; "
                "ordered-logit and boosting have them"
            )

    def set_half_life(self, half_life: float) -> None:
        """Let what was learned count half after this number of rows."""
        if "half_life" not in self.learner.get_params():
            name = type(self.learner).__name__
            raise InputError(f"{self.path} holds {name}, which has no half-life")
        self.learner.set_params(half_life=half_life)
        with refusing():
            validate_params(self.learner)

    @property
    def has_brackets(self) -> bool:
        """Whether it learned from brackets as text."""
        return isinstance(self.notes.labels, BracketTexts)

    def scale(self, low: float | None = None, high: float | None = None) -> Scale:
        """Return the scale of the brackets that it learned; the ends are those given or known."""
        labels = self.notes.labels
        if not isinstance(labels, BracketTexts | Edges) or labels.edges is None:
            raise InputError(
                f"{self.path} has not learned brackets of a number, so its classes have no numbers"
            )
        ends = (labels.low, labels.high) if isinstance(labels, BracketTexts) else (None, None)
        return Scale(
            labels.edges, ends[0] if low is None else low, ends[1] if high is None else high
        )

    @property
    def user_notes(self) -> dict[str, Any]:
        """Return the notes that a user has saved with it."""
        return model_files.user_notes(self.about.notes, self.path)

    @property
    def own_notes(self) -> dict[str, Any]:
        """Return what this package has noted on how it was learned."""
        return {name: note for name, note in self.about.notes.items() if name != model_files.USER}

    def learned_from(self, table: Table) -> FitNotes | None:
        """Return what is known of a table if the model learned from it, else None."""
        learned = self.notes.contents
        if learned is None or learned.bytes != table.n_bytes:
            return None
        return self.notes if learned == Contents(**table.contents()) else None

    @property
    def columns(self) -> list[str]:
        """Return the columns it needs."""
        names = getattr(self.model, "feature_names_in_", None)
        if names is None:
            raise InputError(
                f"{self.path}: the model does not know its columns by name; fit it on a DataFrame"
            )
        return [str(name) for name in names]

    @property
    def words(self) -> list[str]:
        """Return the columns that it reads as words."""
        if self.encoder is not None:
            return [*self.encoder.words_, *self.encoder.ranks_]
        categories = {} if self.steps else getattr(self.learner, "categories_", {})
        texts = [
            k for k, choices in categories.items() if any(isinstance(one, str) for one in choices)
        ]
        return [self.columns[int(k)] for k in texts]

    def features(self, batch: pa.RecordBatch, schema: pa.Schema) -> Any:
        """Return the features of some rows; the schema tells numbers from words."""
        if self.encoder is not None:
            features = self.encoder.transform(batch)
            with refusing():
                return self.steps[1:].transform(features) if len(self.steps) > 1 else features
        try:
            import pandas as pd
        except ImportError as error:
            reason = f"{self.path} takes a DataFrame, which needs pandas: pip install pandas"
            raise InputError(reason) from error
        columns = {}
        for name in self.columns:
            cells, is_number = column(batch, name), kind_of(schema.field(name).type) == "number"
            columns[name] = (
                read_numbers(cells, name) if is_number else read_words(cells, name).to_pandas()
            )
        frame = pd.DataFrame(columns)
        with refusing():  # steps of other libraries
            return self.steps.transform(frame) if self.steps else frame

    # --- Whole tables ---

    def predict(
        self, table: Table, writer: TableWriter, progress: Watcher, proba: bool, more: NumberColumns
    ) -> tuple[int, dict[str, str]]:
        """Write a table, with the columns prediction and score added.

        A model with ranges adds the columns lower and upper. `proba` adds the probability of each
        class, lowest first; `more` are columns that are made of these. Return the number of rows,
        and a message for each column with words never seen in training.
        """
        if self.ranges and is_by_column(self.ranges):
            raise InputError(
                f"the ranges of {self.path} depend on the column {self.ranges.by!r}: predict them "
                "in Python"
            )
        if proba or more:
            self.check_probabilities()
        chances = [f"probability of {name}" for name in self.learner.order_] if proba else []
        for name in (*ADDED, *(ENDS if self.ranges else ()), *chances, *more):
            if name in table.schema.names:
                raise table.error(f"there is a column {name!r} already; rename it first")
        self._read_words_of(table)
        unseen: dict[str, str] = {}
        rows = 0
        for first, used, block in table.blocks_to_copy(self.columns, writer.kind):
            with table.naming_rows(first):
                features = self.features(used, table.schema)
                rank, scores, cut = rate(self.learner, features)
                for name, message in self._unseen_words(table, first, used):
                    unseen.setdefault(name, message)
                _check_text(block)
            added = {"prediction": self._labels(rank)}
            added["score"] = pa.array(pick_scores(rank, scores))
            if self.ranges:
                ends = ranges_of(self.ranges, rank, scores, cut)
                added |= dict(zip(ENDS, map(self._labels, ends.T), strict=True))
            if proba or more:
                P = np.exp(self.learner.log_chances(scores, cut))
                added |= dict(zip(chances, map(pa.array, P.T), strict=False))
            for name, (method, arguments) in more.items():
                added[name] = pa.array(method(P, *arguments))
            writer.write(block, added)
            rows += len(rank)
            progress("predicting", rows, table.n_rows)
        return rows, unseen

    def _labels(self, rank: Array) -> pa.Array:
        return pa.array(self.learner.order_[rank].tolist())

    def _read_words_of(self, table: Table) -> None:
        """Let a table read as words what the model has learned as words."""
        for name in self.notes.folders:
            if name in self.columns and name not in table.schema.names:
                raise table.error(
                    f"there is no column {name!r}: {self.path} learned it from the names of "
                    f"folders, {name}=..., which a file alone does not have: pass the folder that "
                    "holds them, or fit a model with this column left out"
                )
        words = self.words
        table.read_as(words)
        log.info("model: %s, columns %s", self.name, some_of(self.columns))
        if words:
            log.info("words: %s, as in the model", some_of(words))

    def _unseen_words(
        self, table: Table, first: int, block: pa.RecordBatch
    ) -> Iterator[tuple[str, str]]:
        """Return each column with a word never seen in training, and a message about the first."""
        for name, words in self.encoder.words_.items() if self.encoder else ():
            cells = read_words(column(block, name), name)
            is_seen = pc.or_(pc.is_in(cells, pa.array(words, cells.type)), pc.is_null(cells))
            row = pc.index(is_seen, False).as_py()
            if row >= 0:
                word = f"column {name!r} is {shown(cells[row].as_py())}"
                said = f"{word}, which the model has never seen; it is ignored"
                yield name, f"{table.where(first + row)}: {said}"

    def evaluate(self, table: Table, labels: LabelKind, progress: Watcher) -> Evaluation:
        """Return how good the model is on the rows of a table."""
        evaluation = Evaluation()
        for _, _, outcomes in self.outcomes(table, labels, progress):
            evaluation += Evaluation.of(outcomes.intervals, outcomes.rank)
        return evaluation

    def outcomes(
        self, table: Table, labels: LabelKind, progress: Watcher
    ) -> Iterator[tuple[int, pa.RecordBatch, Outcomes]]:
        """Return the first row of each block, its cells, and what the model says of its rows."""
        self._read_words_of(table)
        columns = LabelColumns.of_model(labels, self.learner.order_, self.path)
        if columns.cell_type != NUMBER:
            table.read_as(labels.columns, columns.cell_type)
        if columns.edges:
            log.info("edges: %s, from the model", ", ".join(map(str, columns.edges)))
        rows = 0
        for first, block in table.blocks([*self.columns, *labels.columns]):
            with table.naming_rows(first, labels.columns):
                y = columns.read(block, partial(table.other_place, first=first))
                features = self.features(block, table.schema)
                intervals, (rank, scores, _) = rate_labelled(self.learner, features, y)
            yield first, block, Outcomes(intervals, rank, pick_scores(rank, scores))
            rows += block.num_rows
            progress("evaluating", rows, table.n_rows)

    def report(
        self,
        table: Table,
        labels: LabelKind,
        path: Path,
        progress: Watcher,
        known: FitNotes | None = None,
        title: str | None = None,
    ) -> dict[str, Any]:
        """Write a page on how good the model is on a table; return the numbers of the verdict.

        `known` is what `learned_from` says of the table.
        """
        from pril.reporting import Report, cells_of  # which imports Matplotlib

        counting = "Rows are counted from 1, without a header."
        report = Report(self.model, table.name, counting, self.feature_names, title)

        def describe(
            first: int, used: pa.RecordBatch, rows: Array
        ) -> list[tuple[str, dict[str, Any]]]:
            """Return the places and some cells of rows of a block."""
            places = [table.place(first + int(row)) for row in rows]
            return list(zip(places, cells_of(used, rows), strict=True))

        for first, block, outcomes in self.outcomes(table, labels, progress):
            report.add(outcomes, partial(describe, first, block.select(self.columns)))
        notes = {name: note for name, note in self.own_notes.items() if name != "finished"}
        said = None if known is None else rows_known(known)
        return report.write(path, self.about.versions, notes, said)

    # --- The model itself ---

    @property
    def feature_names(self) -> list[str]:
        """Return the names of the learner's features."""
        names = self.parts.feature_names
        if names is None:
            return [f"feature {j}" for j in range(self.learner.n_features_in_)]
        if len(names) != self.learner.n_features_in_:
            raise InputError(
                f"{self.path}: its steps make {len(names)} features, but the learner takes "
                f"{self.learner.n_features_in_}"
            )
        return names

    @property
    def word_columns(self) -> dict[str, tuple[str, str]]:
        """Return the column and the word of each feature that stands for a word."""
        words = self.encoder.words_ if self.encoder else {}
        return {f"{name}={word}": (name, word) for name, many in words.items() for word in many}

    @property
    def intercept(self) -> Any:
        """Return what the weights are added to, lowest class first; None without weights."""
        _, intercept = self.parts.weights
        if intercept is None or intercept.ndim == 0:
            return intercept
        return intercept[np.searchsorted(self.learner.classes_, self.learner.order_)]

    def unit_of_weights(self, per: Literal["sd", "unit"] | None = None) -> str | None:
        """Return what the weights of numbers are per, None if there are none."""
        if self.parts.weights[0] is None:
            return None
        unit = scale_of_features(self.parts).unit
        if per == "sd" and unit != "standard deviation":
            raise InputError(f"{self.path}: the model does not standardise numbers", hint="per")
        return "unit" if per == "unit" else unit

    def weights(self, top: int | None = None, *, per_unit: bool = False) -> list[tuple[str, Any]]:
        """Return features with their weights, the largest first; none for a kernel.

        The words of a column are relative to their mean; numbers are as the learner takes them, or
        per unit of their column. For trees, the importances of the features.
        """
        coef, units = self.parts.weights[0], np.ones(self.learner.n_features_in_)
        if per_unit and coef is not None:
            units = units_of_features(self.parts.steps, len(units))
        if coef is None:
            coef = getattr(self.learner, "feature_importances_", None)
        if coef is None:
            return []
        if coef.ndim == 2:  # a row for each class: lowest first
            coef = coef[np.searchsorted(self.learner.classes_, self.learner.order_)]
        size = np.abs(np.atleast_2d(coef)).max(axis=0)
        names = self.feature_names
        order = np.argsort(-size, kind="stable")[:top]
        return [(names[j], coef[..., j] / units[j]) for j in order]


def output_format(file: Path | None, table: Table) -> str:
    """Return the format to write: by the suffix of a file, else the text format of the table."""
    if file is None:
        return "csv" if table.format == "parquet" else table.format
    name = format_of(file)
    if name is None or (name == "parquet" and codec_of(file)):
        raise InputError(f"{file}: the suffix must be one of .csv, .tsv, .jsonl, .parquet")
    return name


def _check_text(block: pa.RecordBatch | list[str]) -> None:
    """Refuse text that is not UTF-8, in any column."""
    if isinstance(block, list):  # lines of JSON, which were decoded already
        return
    try:
        block.validate(full=True)
    except pa.ArrowInvalid:
        for name in block.schema.names:
            if kind_of(block.schema.field(name).type) == "text":
                read_words(block.column(name), name)
        raise
