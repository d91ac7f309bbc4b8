"""A report on a model: one HTML file that shows how good it is on rows with labels.

Rows are added block by block. Of each labelled row, its label, its prediction and its score are
kept, 32 bytes; cells are kept only of the worst rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core import ranking
from pril.core.evaluation import Evaluation, Outcomes, pick_scores
from pril.core.parts import Parts, model_name
from pril.core.scikit import safe_indexing
from pril.errors import InputError, MissingExtraError, shown
from pril.io import model_files
from pril.plotting import (
    IntervalConfusionDisplay,
    ReliabilityDisplay,
    ScoreAxisDisplay,
    WeightsDisplay,
)
from pril.plotting.drawing import INSIDE, OUTSIDE
from pril.ranges import rank_ranges
from pril.reporting.page import Block, Grid, Heading, Page, Paragraph, Picture, template
from pril.reporting.words import count, evaluation_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    Array = NDArray[Any]

__all__ = ["report"]

N_WORST = 10  # rows in the table of the worst
N_CELLS = 6  # cells of each
N_WEIGHTS = 10
N_LISTED = 40  # classes or widths in a table
N_POINTS, N_STRETCHES = 400, 20  # of the running loss
LONGEST_CELL, LONGEST_NOTE = 60, 400  # characters
NONE = "-"
N_RESAMPLES = 1000  # of the rows, for intervals of differences


def report(model: Any, X: Any, y: Any, path: str | PathLike[str]) -> dict[str, Any]:
    """Write a report on a model as one HTML file that needs no other.

    It shows how good the model is beside the best constant, where the scores of the rows lie, the
    largest weights, hits by the width of the label and by class, the loss along the rows, the worst
    rows, and what the model is made of; for a model with probabilities how far they can be trusted,
    and for one with ranges how many hold. Needs the extra ``plot``.

    Parameters
    ----------
    model : estimator
        A fitted learner of this package, alone, at the end of a Pipeline, or in a
        `PredictionRanges`.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features, as the model takes them. Take rows that the model has not learned from.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or intervals; a row without a label is left out.
    path : str or path-like
        The file to write. It appears whole or not at all.

    Returns
    -------
    evaluation : dict
        The numbers of the verdict, as the command ``pril evaluate`` prints them.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import pril
    >>> X = np.arange(10.0).reshape(-1, 1)
    >>> y = [(1, 2), (1, 1), (1, 1), (1, 2), (1, 2), (2, 2), (2, 3), (3, 3), (3, 3), (3, 3)]
    >>> model = pril.PRIL(random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     evaluation = pril.report(model, X, y, f"{folder}/report.html")
    >>> evaluation["rows"], evaluation["constant"]
    (10, 1)
    """
    parts = Parts.of(model)
    gathered = Report(model, "X and y", "Rows are counted from 0.")
    rank, scores, _ = parts.learner._rate(parts.transform(X))
    intervals = ranking.to_intervals(ranking.read(y), parts.learner.order_)
    ranking.check_length(intervals, rank)
    outcomes = Outcomes(intervals, rank, pick_scores(rank, scores))
    gathered.add(outcomes, lambda rows: list(zip(map(str, rows), cells_of(X, rows), strict=True)))
    versions = dict(model_files.versions_of(model_files.LIBRARIES))
    return gathered.write(path, versions, {})


def cells_of(X: Any, rows: Array) -> list[dict[str, Any]]:
    """Return some cells of rows, by the names of their columns."""
    if hasattr(X, "tocsr"):
        part = X.tocsr()[rows]
        ends = zip(part.indptr[:-1], part.indptr[1:], strict=True)
        features = [zip(part.indices[a:b], part.data[a:b], strict=True) for a, b in ends]
        return [
            {"features": " ".join(f"{j}:{value:g}" for j, value in list(row)[:N_CELLS])}
            for row in features
        ]
    if hasattr(X, "to_pylist"):  # of Arrow
        cells: list[dict[str, Any]] = X.select(X.schema.names[:N_CELLS]).take(rows).to_pylist()
        return cells
    part = safe_indexing(X, rows)
    if not hasattr(part, "columns"):
        table = np.asarray(part)[:, :N_CELLS]
        return [{f"feature {j}": cell for j, cell in enumerate(row)} for row in table.tolist()]
    columns = {str(name): list(part[name]) for name in part.columns[:N_CELLS]}
    return [{name: cells[t] for name, cells in columns.items()} for t in range(len(rows))]


# --- What is reported on -------------------------------------------------------------------------


class WorstRow(NamedTuple):
    """A row whose prediction is outside of its label."""

    loss: int  # ranks
    beyond: float  # how far the score is outside of the label's classes
    position: int
    place: str
    label: str
    prediction: str
    score: float
    cells: dict[str, Any]

    def order(self) -> tuple[float, float, int]:
        """Return what the worst rows are sorted by."""
        return -self.loss, -self.beyond, self.position


class Gain(NamedTuple):
    """By how much a model is better than a constant on the same rows: mean and 95% interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, gains: Array) -> Gain:
        """Return the mean of integers, one a row, with its bootstrap interval.

        Rows with the same gain are alike, so a resample is one draw of how many of each there are.
        """
        values, counts = np.unique(gains, return_counts=True)
        n = len(gains)
        drawn = np.random.default_rng(0).multinomial(n, counts / n, N_RESAMPLES)
        low, high = np.quantile(drawn @ values / n, [0.025, 0.975])
        return cls(float(gains.mean()), float(low), float(high))

    def times(self, factor: float) -> Gain:
        """Return it in another unit."""
        return Gain(*(factor * part for part in self))

    def said(self, unit: str, constant: Any, digits: int) -> str:
        """Return it in words."""
        word = "worse" if self.mean < 0 else "better"
        mean, low, high = (f"{part:.{digits}f}" for part in (abs(self.mean), self.low, self.high))
        return (
            f"{mean} {unit} {word} than the best constant, which always says {constant!r} "
            f"(95% interval of the gain: {low} to {high})"
        )


class Report:
    """What a model says of rows, gathered block by block, and the page about it.

    Parameters
    ----------
    model : estimator
        The model.
    source : str
        What to call the rows.
    counting : str
        A sentence on how rows are counted.
    names : list of str, default=None
        Names of the learner's features; None takes those that the model knows.
    """

    def __init__(
        self, model: Any, source: str, counting: str, names: list[str] | None = None
    ) -> None:
        _check_packages()
        self.model = model
        self.parts = Parts.of(model)
        self.learner = self.parts.learner
        self.classes = self.learner.order_
        self.source = source
        self.counting = counting
        self.names = names
        self.n_rows = 0
        self.evaluation = Evaluation()
        self.worst: list[WorstRow] = []
        self._blocks: list[Outcomes] = []

    def add(
        self, block: Outcomes, describe: Callable[[Array], list[tuple[str, dict[str, Any]]]]
    ) -> None:
        """Add some rows; `describe` returns the place and some cells of rows of the block."""
        self.evaluation += Evaluation.of(block.intervals, block.rank)
        loss, beyond = block.loss, self._beyond(block)
        order = np.lexsort((-beyond, -loss))[:N_WORST]
        rows = order[loss[order] > 0]
        for row, (place, cells) in zip(rows, describe(rows) if len(rows) else [], strict=True):
            self.worst.append(
                WorstRow(
                    int(loss[row]),
                    float(beyond[row]),
                    self.n_rows + int(row),
                    place,
                    self._label(*block.intervals[row]),
                    str(self.classes[block.rank[row]]),
                    float(block.score[row]),
                    cells,
                )
            )
        self.worst = sorted(self.worst, key=WorstRow.order)[:N_WORST]
        self.n_rows += len(loss)
        self._blocks.append(block.take(ranking.is_labelled(block.intervals)))

    def write(
        self, path: str | PathLike[str], versions: Mapping[str, str], notes: Mapping[str, Any]
    ) -> dict[str, Any]:
        """Write the page, with what is known of the model's origin; return the evaluation."""
        if not self.evaluation.rows:
            raise InputError(f"{self.source}: no row has a label, so there is nothing to report")
        title = f"{type(self.learner).__name__} on {self.source}"
        blocks = [Heading(1, title), *self._sections(), *self._provenance(versions, notes)]
        html = Page(title, blocks).html().encode(errors="backslashreplace")
        with model_files.replace_file(path) as file:
            file.write(html)
        return self.numbers

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the verdict."""
        return self.evaluation.to_dict(self.classes)

    @cached_property
    def rows(self) -> Outcomes:
        """All rows that have a label."""
        return Outcomes(*map(np.concatenate, zip(*self._blocks, strict=True)))

    @cached_property
    def loss(self) -> Array:
        """The loss of each of these rows."""
        return self.rows.loss

    @cached_property
    def constant_losses(self) -> list[Array]:
        """The losses of two constants: that with the most hits, and that with the least loss."""
        n = len(self.loss)
        return [
            ranking.interval_loss(self.rows.intervals, np.full(n, constant.rank))
            for constant in self.evaluation.best_constants()
        ]

    @cached_property
    def cut(self) -> Array | None:
        """The thresholds between two infinities, None if the learner has none."""
        thresholds = getattr(self.learner, "thresholds_", None)
        return None if thresholds is None else np.concatenate([[-np.inf], thresholds, [np.inf]])

    def _beyond(self, block: Outcomes) -> Array:
        if self.cut is None:
            return np.zeros(len(block.rank))
        lo, hi = block.intervals.T
        labelled = lo <= hi
        lo, hi = np.where(labelled, lo, 0), np.where(labelled, hi, len(self.classes) - 1)
        beyond: Array = np.maximum(self.cut[lo] - block.score, block.score - self.cut[hi + 1])
        return np.maximum(beyond, 0.0)

    def _label(self, lo: int, hi: int) -> str:
        ends = [str(self.classes[lo]), str(self.classes[hi])]
        return ends[0] if lo == hi else " to ".join(ends)

    # --- The page ---

    def _sections(self) -> list[Block]:
        sections = [self._verdict(), self._scores(), self._weights(), self._widths()]
        sections += [self._classes(), self._running_loss(), self._reliability(), self._coverage()]
        return [block for section in [*sections, self._worst_rows()] for block in section]

    def _verdict(self) -> list[Block]:
        numbers = self.numbers
        first, *others = evaluation_lines(numbers)
        hits, nearest = self.constant_losses
        inside = Gain.of((self.loss == 0).astype(np.int64) - (hits == 0)).times(100)
        ranks = Gain.of(nearest - self.loss)
        is_better = max(inside.low, ranks.low) > 0
        is_worse = min(inside.high, ranks.high) < 0
        if is_better and is_worse:
            said = "By one measure the model is better than a constant, by the other worse."
        elif is_better:
            said = "The features help: the model is better than any constant."
        elif is_worse:
            said = "The model is worse than a constant."
        else:
            said = "On these rows no difference from a constant can be shown."
        return [
            Paragraph(f"{first}.", large=True),
            Paragraph(said, large=True),
            Paragraph(
                f"The share inside is {inside.said('points', numbers['constant'], 1)}. The mean "
                f"of ranks off is {ranks.said('ranks', numbers['nearest_constant'], 4)}. The "
                f"intervals come from {N_RESAMPLES:,} resamples of the rows."
            ),
            *(Paragraph(f"{line}.") for line in others),
            Paragraph(
                "These numbers are honest only if the model has not learned from these rows."
            ),
        ]

    def _scores(self) -> list[Block]:
        if self.cut is None:
            return []
        ax = _axes(3.6)
        rows = self.rows
        display = ScoreAxisDisplay(
            rows.score, rows.rank, rows.intervals, self.cut[1:-1], self.classes
        )
        display.plot(ax=ax)
        _legend_below(ax)
        return [
            Heading(2, "Where the rows lie"),
            Picture(
                "The scores of the rows between the thresholds",
                ax.figure,  # type: ignore[arg-type]
                "The model gives each row a score. Dotted lines are the thresholds between the "
                "classes; a class is named above its part of the axis, with the share of the rows "
                "there that are predicted inside their range. The area of a colour is its number "
                "of rows. Orange or yellow far from a dotted line: rows that are clearly wrong.",
            ),
        ]

    def _weights(self) -> list[Block]:
        coef = getattr(self.learner, "coef_", None)
        if coef is None:
            return []
        heading = Heading(2, "What moves the score")
        names = self.names or self.parts.feature_names or [str(j) for j in range(coef.shape[-1])]
        if self.cut is not None:
            ax = _axes(1.3 + 0.25 * min(N_WEIGHTS, len(coef)))
            WeightsDisplay(coef, self.cut[1:-1], self.classes, names).plot(ax=ax, top=N_WEIGHTS)
            smaller = max(0, len(coef) - N_WEIGHTS)
            rest = f" {count(smaller, 'smaller weight')} left out." if smaller else ""
            caption = (
                "A bar is what one unit of a feature adds to the score; for a standardised number "
                "one unit is one standard deviation. The grey bands are the classes: a bar as long "
                f"as a band can move a row by one class.{rest}"
            )
            figure: Any = ax.figure
            return [heading, Picture("The largest weights of the model", figure, caption)]
        size = np.abs(coef).max(axis=0)
        largest = np.argsort(-size, kind="stable")[:N_WEIGHTS]
        listed = range(min(len(self.classes), N_LISTED))
        rows = [[names[j], *(f"{coef[k, j]:.4g}" for k in listed)] for j in largest]
        return [
            heading,
            Grid(["feature", *(str(self.classes[k]) for k in listed)], rows),
            Paragraph("Each class has a score of its own; the class with the highest score wins."),
        ]

    def _widths(self) -> list[Block]:
        lo, hi = self.rows.intervals.T
        inside, constant = self.loss == 0, self.constant_losses[0] == 0
        width = hi - lo + 1
        rows = []
        for size in np.unique(width)[:N_LISTED]:
            own = width == size
            rows.append(
                [
                    "exact" if size == 1 else count(int(size), "class"),
                    f"{np.count_nonzero(own):,}",
                    f"{np.count_nonzero(inside & own):,}",
                    _share(inside[own]),
                    _share(constant[own]),
                ]
            )
        header = ["label", "rows", "inside", "share", f"always {self.numbers['constant']!r}"]
        return [
            Heading(2, "Hits by the width of the label"),
            Grid(header, rows),
            Paragraph("A wide label is easily hit: compare each share with that of the constant."),
        ]

    def _classes(self) -> list[Block]:
        rows, inside = self.rows, self.loss == 0
        lo, hi = rows.intervals.T
        lines = []
        for k, name in list(enumerate(self.classes))[:N_LISTED]:
            said, exact = rows.rank == k, (lo == k) & (hi == k)
            lines.append(
                [
                    str(name),
                    f"{np.count_nonzero(said):,}",
                    _share(inside[said]),
                    f"{np.count_nonzero(exact):,}",
                    _share(inside[exact]),
                ]
            )
        header = ["class", "predicted", "of these inside", "exact labels", "of these predicted so"]
        ax = _axes(4.0 if max(map(len, map(str, self.classes))) <= 6 else 4.8)
        IntervalConfusionDisplay._counted(rows.rank, rows.intervals, self.classes, ax)
        figure: Any = ax.figure
        left_out = max(0, len(self.classes) - N_LISTED)
        rest = f" {count(left_out, 'further class')} left out." if left_out else ""
        return [
            Heading(2, "Hits by class"),
            Grid(header, lines),
            Paragraph(
                "A class that is rarely predicted, or rarely right when it is, needs more rows or "
                f"better features.{rest}"
            ),
            Picture(
                "Predicted classes against labels",
                figure,
                "Each row of the table is counted under its predicted class (across) and the class "
                "of its label that is nearest to it (down). The diagonal holds the hits; a count "
                "next to it is off by one rank. A cell is dark if it holds most of its line.",
            ),
        ]

    def _running_loss(self) -> list[Block]:
        loss, n = self.loss, len(self.loss)
        at = np.unique(np.linspace(0, n - 1, N_POINTS).astype(np.int64))
        ends = np.unique(np.linspace(0, n, min(N_STRETCHES, n) + 1).astype(np.int64))
        recent = np.add.reduceat(loss, ends[:-1]) / np.diff(ends)
        ax = _axes(3.2)
        ax.stairs(
            recent, ends, baseline=None, color=OUTSIDE, label="rows of this stretch", linewidth=1
        )
        running = np.cumsum(loss)[at] / (at + 1)
        ax.plot(at + 1, running, color=INSIDE, label="all rows so far")
        ax.axhline(
            self.constant_losses[1].mean(),
            color="black",
            linestyle=":",
            linewidth=1,
            label="best constant",
        )
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel("rows with a label, in their order")
        ax.set_ylabel("ranks off, on average")
        _legend_below(ax)
        figure: Any = ax.figure
        return [
            Heading(2, "The loss along the rows"),
            Picture(
                "The mean loss along the rows",
                figure,
                "How many ranks predictions are off, in the order of the rows. A level line means "
                "that all parts are alike. A line that climbs means that later rows differ from "
                "those that were learned. The dotted line is the best constant on all rows.",
            ),
        ]

    def _reliability(self) -> list[Block]:
        lo, hi = self.rows.intervals.T
        exact = np.flatnonzero(lo == hi)
        if not hasattr(self.learner, "predict_proba") or self.cut is None or len(self.classes) < 2:
            return []
        heading = Heading(2, "Can the probabilities be trusted?")
        if not len(exact):
            return [heading, Paragraph("No row has an exact label, so this cannot be measured.")]
        scores = self.rows.score[exact, np.newaxis]
        logs = self.learner._log_probabilities(scores, self.cut)
        proba = np.exp(self.learner._by_class(logs))
        ax = _axes(4.2)
        display = ReliabilityDisplay.from_predictions(
            self.classes[lo[exact]], proba, classes=self.classes, ax=ax
        )
        if len(self.classes) > N_WEIGHTS:
            ax.get_legend().remove()  # type: ignore[union-attr]
        figure: Any = ax.figure
        return [
            heading,
            Picture(
                "Probabilities against observed shares",
                figure,
                f"From {count(len(exact), 'row')} with an exact label. Rows are put into ten bins "
                "by their probability to be at or below a class; a dot is a bin, large if it has "
                "many rows. On the dotted line a probability of 70% comes true in 70% of the rows; "
                f"the mean distance from it is {display.error:.3f}.",
            ),
        ]

    def _coverage(self) -> list[Block]:
        ranges = self.parts.ranges
        if ranges is None or self.cut is None:
            return []
        ends = rank_ranges(self.rows.rank, self.rows.score[:, np.newaxis], self.cut, ranges.margin_)
        (low, high), (lo, hi) = ends.T, self.rows.intervals.T
        measured = ranges._coverage(ends, self.rows.intervals)
        holds = {
            "exact": (low <= lo) & (hi <= high),
            "contain": (low <= lo) & (hi <= high),
            "touch": (low <= hi) & (lo <= high),
        }[ranges.guarantee]
        counts = lo == hi if ranges.guarantee == "exact" else np.full(len(lo), True)
        width = high - low + 1
        lines = [
            [
                count(int(size), "class"),
                f"{np.count_nonzero(width == size):,}",
                _share(holds[counts & (width == size)]),
            ]
            for size in np.unique(width)[:N_LISTED]
        ]
        meaning = {
            "exact": "contains the class of a row with an exact label",
            "contain": "contains the whole label",
            "touch": "has a class in common with the label",
        }[ranges.guarantee]
        share = measured[ranges.guarantee]
        said = "no row here can show it" if share is None else f"here it is so for {share:.1%}"
        return [
            Heading(2, "Do the predicted ranges hold?"),
            Paragraph(
                f"The model predicts ranges such that for at least {ranges.coverage:.0%} of the "
                f"rows the range {meaning}: {said}. A range has {measured['mean_width']:.2f} "
                "classes on average."
            ),
            Grid(["predicted range", "rows", "it holds"], lines),
            Paragraph(
                "The guarantee is for all rows together. Narrow ranges are useful only if they "
                "hold about as often as wide ones."
            ),
        ]

    def _worst_rows(self) -> list[Block]:
        heading = Heading(2, "The worst rows")
        if not self.worst:
            return [heading, Paragraph("Every prediction is inside its label.")]
        names = list(dict.fromkeys(name for row in self.worst for name in row.cells))
        lines = [
            [
                row.place,
                row.label,
                row.prediction,
                f"{row.loss}",
                f"{row.score:.4g}",
                *(_short(row.cells.get(name), LONGEST_CELL) for name in names),
            ]
            for row in self.worst
        ]
        header = ["row", "label", "prediction", "ranks off", "score", *names]
        return [
            heading,
            Grid(header, lines, n_words=len(header)),
            Paragraph(
                f"The predictions that are farthest from their label. {self.counting} Look here "
                "for labels that were typed wrong, and for what the features do not tell."
            ),
        ]

    def _provenance(self, versions: Mapping[str, str], notes: Mapping[str, Any]) -> list[Block]:
        learner = self.learner
        given = learner.get_params(deep=False).items()
        facts = {
            "model": model_name(self.model),
            "parameters": ", ".join(f"{name}={_parameter(value)}" for name, value in given),
            "classes": " < ".join(map(str, self.classes)),
            "learned": f"{count(learner.t_, 'round')}, {count(learner.n_mistakes_, 'mistake')}",
            "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
            "rows here": f"{count(self.n_rows, 'row')} of {self.source}",
        }
        blocks: list[Block] = [Heading(2, "Where this comes from"), _facts(facts)]
        if notes:
            said = {name.replace("_", " "): _note(note) for name, note in notes.items()}
            blocks += [Paragraph("What the model's file says of how it was learned:"), _facts(said)]
        return blocks


def _check_packages() -> None:
    """Refuse before any work what a missing package would refuse at its end."""
    template()
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise MissingExtraError("a report needs matplotlib", "plot") from error


def _axes(height: float) -> Axes:
    """Return axes of a new figure, small enough for the screen of a telephone."""
    from matplotlib.figure import Figure

    return Figure(figsize=(5.6, height), layout="constrained").subplots()


def _legend_below(ax: Axes) -> None:
    figure: Any = ax.figure
    if ax.get_legend():
        ax.get_legend().remove()  # type: ignore[union-attr]
    figure.legend(loc="outside lower left", fontsize=9, frameon=False)


def _share(hits: Array) -> str:
    return f"{hits.mean():.1%}" if len(hits) else NONE


def _short(value: Any, longest: int) -> str:
    """Return a value as text, the end of a long one left out."""
    if ranking.is_missing(value):
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _facts(facts: Mapping[str, str]) -> Grid:
    return Grid((), [[name, _short(fact, LONGEST_NOTE)] for name, fact in facts.items()], 2)


def _note(note: Any) -> str:
    """Return a note of a model file, which is anything that JSON has, as text."""
    if isinstance(note, dict):
        return "; ".join(f"{name}: {_note(value)}" for name, value in note.items()) or "none"
    if isinstance(note, list):
        return ", ".join(map(_note, note)) or "none"
    if isinstance(note, float):
        return f"{note:.4g}"
    if note is None or isinstance(note, bool):
        return {None: "none", True: "yes", False: "no"}[note]
    return str(note)


def _parameter(value: Any) -> str:
    """Return a parameter as text that is the same in every process."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple | range)
    return shown(value) if plain else type(value).__name__
