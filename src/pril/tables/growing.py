"""A model that begins with a stream: columns and words widen it as they appear."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pril.core import learning
from pril.core.linear import LinearMixin
from pril.core.parts import model_name
from pril.core.registry import BY_COMMAND
from pril.errors import InputError
from pril.io.model_files import FORMAT, About
from pril.tables.cells import TEXT, read_words
from pril.tables.encoder import (
    ColumnEncoder,
    add_moments,
    add_words,
    count_words,
    have_gaps,
    no_moments,
)
from pril.tables.label_columns import Labelling, guessed_classes
from pril.tables.model import LoadedModel
from pril.tables.moments import Moments
from pril.tables.pipeline import Pipeline
from pril.tables.task import Task

if TYPE_CHECKING:
    from pril.tables.codecs import Codec
    from pril.tables.row_encoder import Cells

GROWS = "grows"  # the note of a model file that later streams widen the model, too


def blank_model(path: Path, classes: tuple[str, ...], labels: Labelling, name: str) -> LoadedModel:
    """Return a model that has learned nothing and knows no column yet."""
    if not BY_COMMAND[name].linear:
        raise InputError(f"{path}: a model {name} cannot begin with a stream: it needs a table")
    order: Any = guessed_classes(classes)
    learner = Task(labels.names, model=name, epochs=1, shuffle=False).blank_model(order)
    learning.begin_empty(learner, order)
    encoder = ColumnEncoder(bounded=BY_COMMAND[name].bounded)
    encoder.partial_fit(pa.RecordBatch.from_arrays([], names=[]))
    model = Pipeline([("columns", encoder), ("model", learner)])
    notes = {**labels.to_notes(), GROWS: True}
    about = About("model", FORMAT, {}, model_name(model), order, [], notes)
    return LoadedModel(path, (model, about))


def grows(model: LoadedModel) -> bool:
    """Tell whether streams widen a model: a note says so, and it is as `blank_model` made it."""
    encoder = model.encoder
    is_plain = encoder is not None and not encoder.ranks_
    is_linear = len(model.steps or ()) == 1 and isinstance(model.learner, LinearMixin)
    return model.about.notes.get(GROWS) is True and is_plain and is_linear


@contextmanager
def unchanged_on_failure(model: LoadedModel) -> Iterator[None]:
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
    _add_cells(encoder, codec, codec.read([line]))
    _follow_columns(codec, model)  # one may have too many words now
    features = _features(encoder)
    if features != before:
        learning.set_features(model.learner, before, features)


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


def _add_cells(encoder: Any, codec: Codec, cells: Cells) -> None:
    """Let an encoder know the numbers and words of some rows."""
    n = len(encoder.numbers_)
    numbers = codec.numbers([row[:n] for row in cells], encoder.numbers_).T
    have_gaps(encoder, numbers)
    add_moments(encoder, Moments.of(numbers))
    encoder.left_out_ = list(encoder.left_out_)
    for j, name in enumerate(list(encoder.words_), n):
        column = codec.column([row[j] for row in cells], name, TEXT)
        add_words(encoder, name, count_words(read_words(column, name)))
