"""A model that begins with a stream: columns and words widen it as they appear."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pril.core import learning
from pril.core.registry import BY_COMMAND
from pril.errors import InputError, RowError
from pril.io.model_files import About
from pril.learners.linear import LinearMixin
from pril.tables.arrow import NUMBER, TEXT, read_numbers, read_words
from pril.tables.encoder import (
    ColumnEncoder,
    Moments,
    add_words,
    count_words,
    have_gaps,
    no_moments,
)
from pril.tables.json_lines import NAME, to_column, to_matrix
from pril.tables.label_columns import LabelKind, guessed_classes, to_note
from pril.tables.model import LoadedModel
from pril.tables.pipeline import Pipeline
from pril.tables.survey import Task, hardly_alike, looks_like_row_id, warn_of_columns

if TYPE_CHECKING:
    from pril.tables.json_lines import Cells, Codec


def blank_model(
    path: Path,
    classes: tuple[str, ...],
    labels: LabelKind,
    name: str,
    parameters: dict[str, Any],
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
    return LoadedModel(path, (model, About({}, notes)))


def grows(model: LoadedModel) -> bool:
    """Tell whether streams widen a model: a note says so, and it is as `blank_model` made it."""
    encoder = model.encoder
    is_plain = encoder is not None and not encoder.ranks_
    is_linear = len(model.steps or ()) == 1 and isinstance(model.learner, LinearMixin)
    return model.notes.grows and is_plain and is_linear


@contextmanager
def undoing(model: LoadedModel) -> Iterator[None]:
    """Undo what a row that is refused has added to a model."""
    parts = (model.encoder, model.learner)
    before = [dict(vars(part)) for part in parts]
    try:
        yield
    except BaseException:
        for part, state in zip(parts, before, strict=True):
            part.__dict__ = state
        raise


def grow(model: LoadedModel, codec: Codec, line: bytes, beside: Collection[str | None]) -> None:
    """Widen a model by the columns and words of a line; columns `beside` it are no features."""
    encoder: Any = model.encoder
    before = _features(encoder)
    known = {*encoder.numbers_, *encoder.words_, *encoder.left_out_, *beside}
    _add_columns(encoder, codec.new_columns(line, known))
    _follow_columns(codec, model)
    _add_cells(encoder, codec.read([line]))
    _follow_columns(codec, model)  # one may have too many words now
    features = _features(encoder)
    if features != before:
        learning.set_features(model.learner, before, features)


def warn_of_features(model: LoadedModel, codec: Codec, lines: list[bytes]) -> None:
    """Warn of features that say nothing about new rows, as far as these lines tell."""
    encoder: Any = model.encoder
    n, cells, row_ids, unlike = len(encoder.numbers_), codec.read(lines), [], {}
    for j, name in enumerate([*encoder.numbers_, *encoder.words_]):
        own = [row[j] for row in cells]
        with suppress(RowError):  # a cell from before the column became a feature
            column = to_column(own, name, NUMBER if j < n else TEXT)
            if j < n and looks_like_row_id(read_numbers(column, name), name):
                row_ids.append(name)
            if j >= n and (share := hardly_alike(read_words(column, name))):
                unlike[name] = share
    warn_of_columns(NAME, row_ids, unlike, encoder.left_out_, hint="key")


def _follow_columns(codec: Codec, model: LoadedModel) -> None:
    if codec.features != model.columns:
        codec.use_columns(model.columns)


def _features(encoder: Any) -> list[tuple[str, str | None]]:
    """Return column and word of each feature, None for numbers."""
    words = [(name, word) for name, own in encoder.words_.items() for word in own]
    return [*((name, None) for name in encoder.numbers_), *words]


def _add_columns(encoder: Any, kinds: dict[str, str]) -> None:
    """Let an encoder have new columns; `kinds` tells numbers from words."""
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    words = [name for name, kind in kinds.items() if kind == "text"]
    encoder.numbers_ = [*encoder.numbers_, *numbers]
    encoder.words_ = {**encoder.words_, **{name: [] for name in words}}
    encoder.counts_ = {**encoder.counts_, **{name: [] for name in words}}
    pairs = zip(encoder.moments_, no_moments(len(numbers)), strict=True)
    encoder.moments_ = Moments(*map(np.concatenate, pairs))


def _add_cells(encoder: Any, cells: Cells) -> None:
    """Let an encoder know the numbers and words of some rows."""
    n = len(encoder.numbers_)
    numbers = to_matrix([row[:n] for row in cells], encoder.numbers_).T
    have_gaps(encoder, numbers)
    encoder.moments_ = encoder.moments_.joined(Moments.of(numbers))
    encoder.left_out_ = list(encoder.left_out_)
    for j, name in enumerate(list(encoder.words_), n):
        column = to_column([row[j] for row in cells], name, TEXT)
        add_words(encoder, name, count_words(read_words(column, name)))
