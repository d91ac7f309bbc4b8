"""A model that begins with a stream: columns and words widen it as they appear."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pril.core import learning, ranking
from pril.core.parts import model_name
from pril.core.registry import BY_COMMAND
from pril.errors import InputError
from pril.io.model_files import FORMAT, About
from pril.tables.cells import TEXT, read_words
from pril.tables.encoder import ColumnEncoder, count_words, no_moments
from pril.tables.label_columns import typed_classes
from pril.tables.model import LoadedModel
from pril.tables.moments import Moments
from pril.tables.pipeline import Pipeline
from pril.tables.task import Task

if TYPE_CHECKING:
    from pril.tables.answers import Cells, CsvRows, JsonRows

GROWS = "grows"  # the note of a model file that later streams widen the model, too


def blank_model(
    path: Path, classes: tuple[str, ...], labels: tuple[str, ...], name: str
) -> LoadedModel:
    """Return a model that has learned nothing and knows no column yet."""
    if not BY_COMMAND[name].linear:
        raise InputError(f"{path}: a model {name} cannot begin with a stream: it needs a table")
    try:
        order: Any = typed_classes(classes, text=False)
    except InputError:
        order = typed_classes(classes, text=True)
    learner = Task(labels, model=name, epochs=1, shuffle=False).blank_model(order)
    learner.n_features_in_, learner.order_ = 0, ranking.check_classes(order)
    learning.begin(learner)
    encoder = ColumnEncoder(bounded=BY_COMMAND[name].bounded)
    encoder.partial_fit(pa.RecordBatch.from_arrays([], names=[]))
    model = Pipeline([("columns", encoder), ("model", learner)])
    notes = {"labels": list(labels), GROWS: True}
    about = About("model", FORMAT, {}, model_name(model), order, [], notes)
    return LoadedModel(path, (model, about))


def grows(model: LoadedModel) -> bool:
    """Tell whether streams widen a model: a note says so, and it is as `blank_model` made it."""
    encoder = model.encoder
    is_plain = encoder is not None and not encoder.ranks_
    is_linear = len(model.steps or ()) == 1 and hasattr(model.learner, "stream")
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


def add_columns(model: LoadedModel, kinds: dict[str, str]) -> None:
    """Let a model have new columns; `kinds` tells numbers from words."""
    encoder: Any = model.encoder
    numbers = [name for name, kind in kinds.items() if kind == "number"]
    words = [name for name, kind in kinds.items() if kind == "text"]
    known = _features(encoder)
    encoder.numbers_ = [*encoder.numbers_, *numbers]
    encoder.words_ = {**encoder.words_, **{name: [] for name in words}}
    encoder.counts_ = {**encoder.counts_, **{name: [] for name in words}}
    blank = no_moments(len(numbers))
    pairs = zip(encoder.moments_, blank, strict=True)
    encoder.moments_ = Moments(*map(np.concatenate, pairs))
    _widen(model.learner, known, _features(encoder))


def add_cells(model: LoadedModel, format: JsonRows | CsvRows, cells: Cells) -> None:  # noqa: A002
    """Let a model know the numbers and words of some rows."""
    encoder: Any = model.encoder
    n, known = len(encoder.numbers_), _features(encoder)
    numbers = format.numbers([row[:n] for row in cells], encoder.numbers_).T
    encoder.have_gaps(numbers)
    encoder.add_moments(Moments.of(numbers))
    encoder.words_, encoder.counts_ = dict(encoder.words_), dict(encoder.counts_)
    encoder.left_out_ = list(encoder.left_out_)
    for j, name in enumerate(list(encoder.words_), n):
        column = format.column([row[j] for row in cells], name, TEXT)
        encoder.add_words(name, count_words(read_words(column, name)))
    _widen(model.learner, known, _features(encoder))


def _features(encoder: Any) -> list[tuple[str, str | None]]:
    """Return column and word of each feature, None for numbers."""
    words = [(name, word) for name, own in encoder.words_.items() for word in own]
    return [*((name, None) for name in encoder.numbers_), *words]


def _widen(learner: Any, known: list[Any], features: list[Any]) -> None:
    """Give a learner other features: those that it knows keep their weights."""
    if features != known:
        places = {feature: k for k, feature in enumerate(known)}
        learner.memory_ = learner.memory_.rearranged([places.get(one, -1) for one in features])
        learner.n_features_in_ = len(features)
