"""Runs that do not learn row by row, and which run learns which model.

The maximum of a likelihood takes a pass over the table for each step. The rows that have a label
are cut into the blocks that they would have in memory, so that the model has the same bits. A
checkpoint holds where the search was after its last step: a run that is taken up again repeats the
passes of one step. Boosting learns all rows at once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from pril.bases.classifier import naming_rows
from pril.bases.weights import class_weights, label_weights
from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.registry import BY_COMMAND
from pril.core.threads import available_memory, unchanged_on_failure
from pril.core.words import StepsSoFar
from pril.errors import InputError, InputTypeError, shown
from pril.labels import ranking
from pril.learners.boosting.cross_fitting import MOST_SAMPLED, Rounds, folds_for
from pril.learners.boosting.folds import MOST_KEPT
from pril.learners.ordered_boosting import fit_watched, learn
from pril.likelihood import fitting
from pril.likelihood.newton import TOLERANCE
from pril.likelihood.rows import Block, Moments, Rows, block_rows, recut
from pril.likelihood.sums import MOST_DENSE
from pril.online import learning
from pril.tables.encoder import n_features_of
from pril.tables.files import Table, Watcher
from pril.tables.label_columns import LabelEnds
from pril.tables.opening import open_table
from pril.tables.pipeline import Pipeline
from pril.tables.survey import LEARN, Task
from pril.tables.training import Run

log = logging.getLogger(__name__)

# Memory that learning takes at its peak, with some to spare: bytes for each byte of the features of
# the sample; for each row; and, for each row, for each fold and each booster that is kept. A row
# outside the sample also takes a byte for each feature. With 20 features, and a fifth of the rows
# held out, 98 bytes a row were measured for 3 million rows, and 232 for 1 million.
PEAK, ROW_BYTES, FOLD_BYTES, BOOSTER_BYTES = 5, 100, 8, 40


def run_of(table: Table, task: Task, progress: Watcher) -> Run:
    """Return the run, in this process, that learns a model from a table."""
    learner = BY_COMMAND[task.model]
    kind = MaximumRun if learner.maximises else Run if learner.online else BoostingRun
    return kind(table, task, progress)


def fit_table(
    table: str | os.PathLike[str],
    *,
    label: str | None = None,
    lower: str | None = None,
    upper: str | None = None,
    classes: Sequence[Any] | None = None,
    model: str = "ordered-logit",
    parameters: Mapping[str, Any] | None = None,
    features: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    weight: str | None = None,
    groups: str | None = None,
    random_state: int = 0,
) -> Pipeline:
    """Learn from all rows of a table on disk, of any size, as ``pril fit`` does without a holdout.

    The table is read in blocks. Boosting keeps a byte for each cell of more than 200,000 rows.

    Parameters
    ----------
    table : str or path
        A file, a folder, a glob or a URL: CSV, Parquet or JSON Lines.
    label : str, default=None
        The column of exact labels.
    lower, upper : str, default=None
        The columns of the ends of ranges, instead of `label`.
    classes : sequence, default=None
        All classes, lowest first. None: those in the table, in their order.
    model : str, default="ordered-logit"
        The learner, as the command calls it: ``"boosting"``, ``"pril"``, ``"kernel"``.
    parameters : dict, default=None
        Parameters of the learner, such as ``{"max_iter": 500}``.
    features : sequence of str, default=None
        The columns to use. None: all but those that are named for something else.
    drop : sequence of str, default=()
        Columns to ignore.
    weight : str, default=None
        The column of row weights.
    groups : str, default=None
        The column of groups that a fold of boosting holds as a whole.
    random_state : int, default=0
        The seed.

    Returns
    -------
    pipeline : Pipeline
        A `ColumnEncoder` and the learner. It predicts from tables with the same columns.

    Examples
    --------
    >>> import pandas as pd, pril, tempfile
    >>> from pathlib import Path
    >>> path = Path(tempfile.mkdtemp()) / "flats.parquet"
    >>> flats = pd.DataFrame({"size": [20.5, 45.5, 80.5] * 30, "town": ["Oslo", "Rome"] * 45})
    >>> flats.assign(grade=["poor", "fair", "good"] * 30).to_parquet(path)
    >>> model = pril.fit_table(path, label="grade", classes=["poor", "fair", "good"])
    >>> model.predict(flats[:3]).tolist()
    ['poor', 'fair', 'good']
    """
    columns = tuple(name for name in (label, lower, upper) if name is not None)
    if len(columns) != (2 if label is None else 1):
        raise InputError("where are the labels? Pass label=COLUMN, or lower=COLUMN, upper=COLUMN")
    for name, names in {"classes": classes, "features": features, "drop": drop}.items():
        if isinstance(names, str):
            raise InputTypeError(f"{name} must be a list of names, got {shown(names)}")
    if model not in BY_COMMAND:
        raise InputError(f"model must be one of {', '.join(BY_COMMAND)}, not {shown(model)}")
    task = Task(
        LabelEnds(columns),
        classes=None if classes is None else tuple(map(str, classes)),
        model=model,
        parameters=dict(parameters or {}),
        features=None if features is None else tuple(features),
        drop=tuple(drop),
        weight=weight,
        groups=groups,
        holdout=0.0,
        seed=random_state,
    )
    fitted: Any = run_of(open_table(os.fspath(table)), task, lambda *_: None)()
    return fitted


# --- The maximum of a likelihood -----------------------------------------------------------------


class MaximumRun(Run):
    """A run that takes steps to the maximum of the likelihood."""

    def learn(self) -> None:
        """Take the steps."""
        rows = LabelledRows(self)
        if self.partly:
            rows.moments = Moments(*self.partly["moments"])
        _check_moments(self, rows.moments)
        self.partly["moments"] = tuple(rows.moments)
        settings = self.model.settings()
        fit = fitting.fit(rows, settings, self.partly.get("search"), rows.watch)
        self.model.learn_maximum(fit, rows, self.survey.encoder.get_feature_names_out())


def _learned_labels(run: Run) -> tuple[Kinds, int]:
    """Return the kinds of labels in the rows to learn from, and how many rows have one."""
    _, order, ranks, _, learned = run.encoded_labels
    learning.refuse_online(run.model)
    weights = class_weights(run.model.class_weight, order, None)
    if weights is not None:
        learned = learned * (label_weights(weights, ranks) > 0.0)
    if not learned.any():
        reason = "the weights of the classes are zero for every row to learn from"
        raise run.table.error(reason, hint="holdout")
    return Kinds.of(ranks[learned > 0], len(order))[0], int(learned.sum())


def _check_moments(run: Run, moments: Moments) -> None:
    """Refuse features whose sums overflow, with the row of the largest."""
    if moments.are_finite:
        return
    for _, block in run.blocks(again=True):
        with run.table.naming_rows(block.places):
            if block.learning.labelled().any():
                run.model.labelled_rows(block.learning)
    raise run.table.error("the features are too large: scale them")


class LabelledRows(Rows):
    """The rows of a table that have a label, read again in each pass on the way to the maximum.

    With many features, a step takes hundreds of passes: then all rows are kept in memory. A
    checkpoint is kept after a step.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.n_features = run, run.model.n_features_in_
        self.kinds, self.n = _learned_labels(run)
        self.n_passes = 0  # since the last step
        self.kept_at = 0  # how many rows had been read when a checkpoint was last looked at
        self.steps = StepsSoFar(run.model.max_iter, TOLERANCE)
        self._kept: list[Block] | None = None

    @property
    def blocks(self) -> Iterable[Block]:
        """The rows, block by block."""
        if self._kept is not None:
            return self._kept
        blocks = recut(self._parts(), block_rows(self.n_features))
        if self.n_features <= MOST_DENSE:
            return blocks
        self._kept = list(self._if_they_fit(blocks))
        return self._kept

    def _parts(self) -> Iterator[Block]:
        """Make a pass: return the rows that have a label, in parts of any size."""
        run, first = self.run, 0
        run.row = 0
        self.n_passes += 1
        for _, block in run.tracked(self._pass_name(), run.blocks(again=True), keeping=False):
            with run.table.naming_rows(block.places):
                part = run.model.labelled_block(block.learning, self.kinds, first, self.n)
            first += part.n_rows
            yield part

    def _pass_name(self) -> str:
        name = f"step {self.run.epoch + 1}" if "search" in self.run.partly else "preparing"
        return name if self.n_passes == 1 else f"{name}, pass {self.n_passes}"

    def watch(self, search: fitting.Fit) -> None:
        """Note where the search is, after a step or before the first one."""
        run = self.run
        run.partly["search"] = search.to_plain()
        if search.maximum.sums is None:  # what came before were no steps on the table
            self.steps = StepsSoFar(self.steps.most, TOLERANCE)
        else:
            run.epoch += 1
            said = self.steps.add(search.maximum.value)
            log.info("step %d: %s", run.epoch, said)
            run.progress("step", run.epoch, self.steps.most, said)
        run.row = self.n_passes = 0
        run.keep(self.kept_at)
        self.kept_at = run.done

    def _if_they_fit(self, blocks: Iterator[Block]) -> Iterator[Block]:
        there, n_bytes, n_rows = available_memory(), 0, 0
        why = f"with more than {MOST_DENSE:,} features, all rows are kept in memory"
        for block in blocks:
            n_bytes, n_rows = n_bytes + block.nbytes, n_rows + block.n_rows
            check_memory(self.run, why, self.n, n_bytes * self.n // n_rows, there)
            yield block


def check_memory(run: Run, why: str, n_rows: int, needed: int, there: int) -> None:
    """Refuse rows that take more memory than there is."""
    if needed > there:
        width = n_features_of(run.survey.encoder)
        raise run.table.error(
            f"{why}: {n_rows:,} rows of {width:,} features take about {needed:,} bytes of memory, "
            f"and {there:,} are available; learn from fewer rows or words, or choose a model that "
            "learns row by row",
            hint="model",
        )


# --- All rows at once ----------------------------------------------------------------------------


class BoostingRun(Run):
    """A run that fits boosted trees to all rows.

    The features of a small table are all in memory. A larger one gives a sample, and is read again
    for the bins of all rows, a byte for each feature.
    """

    most_kept = MOST_SAMPLED

    def learn(self) -> None:
        """Fit the trees."""
        model, n_rows, width = self.model, self.survey.not_apart, n_features_of(self.survey.encoder)
        in_sample, there = min(n_rows, MOST_SAMPLED), available_memory()
        n_folds = folds_for(model.n_folds, n_rows)
        of_row = ROW_BYTES + n_folds * FOLD_BYTES
        of_row += BOOSTER_BYTES * (n_folds if n_rows <= MOST_KEPT else 1)
        needed = in_sample * 8 * width * PEAK + n_rows * of_row + (n_rows - in_sample) * width
        check_memory(self, f"{self.task.model} learns all rows at once", n_rows, needed, there)
        if n_rows <= MOST_SAMPLED:
            part, X, y, weights = self.gather()
            groups = self.task.read_groups(part.cells)
            with self.table.naming_rows(part.places, self.task.labels.columns):
                fit_watched(model, X, y, weights, self._watch, groups)
        else:
            with unchanged_on_failure(model):
                self._grow_from_bins(n_rows, width)

    def _watch(self, rounds: Rounds) -> None:
        self.progress("round", len(rounds), rounds.most, str(rounds))

    def _grow_from_bins(self, n_rows: int, width: int) -> None:
        """Learn from bins; the table is read for labels, for a sample, and for all bins."""
        model, words = self.model, self.survey.encoder.words_
        categories = zip(model.categorical_features, words.values(), strict=True)
        model.categories_ = {
            str(k): [*map(float, range(len(choices)))] for k, choices in categories
        }
        model.engine.read(model, np.empty((0, width)), reset=True, min_rows=0)
        model.order_ = self.encoded_labels.order
        intervals, weight, groups = _labels_and_weights(self, n_rows)
        learn(model, partial(TableRows, self), intervals, weight, self._watch, groups=groups)


def _labels_and_weights(run: Run, n_rows: int) -> tuple[Array, Array, Array | None]:
    """Return intervals of ranks, weights and groups of the rows to learn from."""
    task, intervals = run.task, np.zeros((n_rows, 2), dtype=np.int16)
    weight, n = np.ones(n_rows), 0
    groups: list[Any] = []
    for first, cells in _read_again(run, "reading labels", list(task.columns)):
        part = task.part(LEARN, first, cells)
        size = part.cells.num_rows
        with run.table.naming_rows(part.places, task.labels.columns):
            given = task.read_weights(part.cells)
            groups.append(task.read_groups(part.cells))
            if given is not None:
                weight[n : n + size] = given
            counts, labels = weight[n : n + size] > 0.0, run.labels.read(part.cells)
            with naming_rows(np.flatnonzero(counts)):
                ranks = ranking.encode(labels.take(counts), run.model.order_)[1]
            intervals[n : n + size][counts] = ranks
        n += size
    return intervals, weight, np.concatenate(groups) if task.groups else None


def _read_again(run: Run, name: str, columns: list[str]) -> Iterator[tuple[int, Any]]:
    run.row = 0
    yield from run.tracked(name, run.table.blocks(columns))
    pa.default_memory_pool().release_unused()  # frees memory


class TableRows:
    """Features of rows to learn from, read again each time: a `Source` of boosting."""

    def __init__(self, run: Run, chosen: Array) -> None:
        self.run, self.chosen = run, chosen
        self.n_rows, self.is_scarce = int(chosen.sum()), True

    def take(self, rows: Array) -> Array:
        """Return some rows, given by their numbers, ascending."""
        some, first = np.empty((len(rows), self.run.model.n_features_in_)), 0
        for part in self.parts():
            begin, end = np.searchsorted(rows, [first, first + len(part)])
            some[begin:end] = part[rows[begin:end] - first]
            first += len(part)
        return some

    def parts(self) -> Iterator[Array]:
        """Return all rows, in parts of any size."""
        run, reader, model, n_read = self.run, self.run.reader, self.run.model, 0
        for first, cells in _read_again(run, "reading features", reader.columns):
            rows = run.task.part(LEARN, first, cells)
            with run.table.naming_rows(rows.places):
                X = reader.encoder.transform(rows.cells)
                X = model.engine.read(model, X, reset=False, min_rows=0).X
            yield X[self.chosen[n_read : n_read + len(X)]]
            n_read += len(X)
