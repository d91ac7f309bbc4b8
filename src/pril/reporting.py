"""A report on a model: one HTML file that shows how good it is on rows with labels.

Rows are added block by block. Each labelled row leaves its label, its prediction and its score,
32 bytes; only the worst rows keep their cells. `contents` returns the numbers, tables and
figures of the page; the template `report.html` has the words.
"""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import pairwise
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from pril import plotting
from pril.bases.classifier import by_class, check_ready
from pril.bases.parts import Parts, model_name
from pril.core import words
from pril.core.arrays import Array, FeaturesLike, LabelsLike
from pril.core.scikit import safe_indexing
from pril.core.words import count
from pril.errors import InputError, import_extra, shown
from pril.inference import infer
from pril.io import model_files
from pril.labels import ranking
from pril.metrics import N_BINS, Evaluation, Outcomes, bins_for, pick_scores
from pril.plotting.drawing import INSIDE, OUTSIDE, rated
from pril.plotting.predictions import confusion, grid_of
from pril.ranges import compare_ranges, holding, is_by_column, ranges_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from sklearn.base import BaseEstimator

__all__ = ["report"]

N_WORST = 10  # rows in the table of the worst
N_CELLS = 6  # columns of them that are shown
N_WEIGHTS = 10  # the largest, in the picture or table of weights
N_LISTED = 40  # classes or widths in a table
N_POINTS, N_STRETCHES = 400, 20  # of the running loss
LONGEST_CELL, LONGEST_NOTE = 60, 400  # characters
LABEL_KINDS = {"brackets": "brackets as text", "ranges": "ranges as text"}
N_RESAMPLES = 1000  # of the rows, for intervals of differences: their ends have two digits


def report(
    model: BaseEstimator,
    X: FeaturesLike,
    y: LabelsLike,
    path: str | PathLike[str],
    *,
    title: str | None = None,
) -> dict[str, Any]:
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
        Exact labels or ranges; a row without a label is ignored.
    path : str or path-like
        The file to write. It appears whole or not at all.
    title : str, default=None
        The title of the page. None names the learner.

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
    gathered = Report(model, "X and y", "Rows are counted from 0.", title=title)
    _, rank, scores, _, intervals = rated(model, X, y)
    outcomes = Outcomes(intervals, rank, pick_scores(rank, scores))
    gathered.add(outcomes, lambda rows: list(zip(map(str, rows), cells_of(X, rows), strict=True)))
    versions = dict(model_files.versions_of(model_files.LIBRARIES))
    return gathered.write(path, versions, {})


def cells_of(X: Any, rows: Array) -> list[dict[str, Any]]:
    """Return the cells of rows, by the names of their columns; as one text of sparse rows."""
    if hasattr(X, "tocsr"):
        part = X.tocsr()[rows]
        cells = [f"{j}:{value:g}" for j, value in zip(part.indices, part.data, strict=True)]
        return [{"features": " ".join(cells[start:stop])} for start, stop in pairwise(part.indptr)]
    if hasattr(X, "to_pylist"):  # of Arrow
        return X.take(rows).to_pylist()
    part = safe_indexing(X, rows)
    if not hasattr(part, "columns"):
        cells = np.asarray(part).tolist()
        return [{f"feature {j}": cell for j, cell in enumerate(row)} for row in cells]
    columns = {str(name): list(part[name]) for name in part.columns}
    return [{name: cells[t] for name, cells in columns.items()} for t in range(len(rows))]


# --- What is reported on -------------------------------------------------------------------------


class WorstRow(NamedTuple):
    """A row whose prediction is outside of its label."""

    order: tuple[float, float, int]  # minus its loss, and how far its score is outside; position
    texts: list[str]  # place, label, prediction, loss and score
    cells: dict[str, Any]


@dataclass(eq=False)
class Report:
    """The predictions of a model, gathered block by block, and the page about them.

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
    title : str, default=None
        The title of the page.
    """

    model: BaseEstimator
    source: str
    counting: str
    names: list[str] | None = None
    title: str | None = None
    n_rows: int = field(default=0, init=False)
    evaluation: Evaluation = field(default_factory=Evaluation, init=False)
    worst: list[WorstRow] = field(default_factory=list, init=False)
    blocks: list[Outcomes] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        template("report.html")  # a missing package is an error before any work is done
        import_extra("matplotlib", "a report needs matplotlib", "plot")
        if self.title is not None and not (isinstance(self.title, str) and self.title.strip()):
            raise InputError(f"title must be a text, got {shown(self.title)}")
        self.parts = Parts.of(self.model)
        self.learner = self.parts.learner
        check_ready(self.learner)
        self.classes = self.learner.order_

    def add(
        self, block: Outcomes, describe: Callable[[Array], list[tuple[str, dict[str, Any]]]]
    ) -> None:
        """Add some rows; `describe` returns the place and some cells of rows of the block."""
        self.evaluation += Evaluation.of(block.intervals, block.rank)
        loss, beyond = block.loss, self._beyond(block)
        most = np.lexsort((-beyond, -loss))[:N_WORST]
        rows = most[loss[most] > 0]
        for row, (place, cells) in zip(rows, describe(rows) if len(rows) else [], strict=True):
            ends = dict.fromkeys(map(str, self.classes[block.intervals[row]]))
            said = [" \u2013 ".join(ends), str(self.classes[block.rank[row]])]
            texts = [place, *said, f"{loss[row]}", f"{block.score[row]:.4g}"]
            order = -loss[row], -beyond[row], self.n_rows + row
            self.worst.append(WorstRow(order, texts, cells))
        self.worst = sorted(self.worst, key=lambda row: row.order)[:N_WORST]
        self.n_rows += len(loss)
        self.blocks.append(block.take(ranking.is_labelled(block.intervals)))

    def write(
        self,
        path: str | PathLike[str],
        versions: Mapping[str, str],
        notes: Mapping[str, Any],
        known: str | None = None,
    ) -> dict[str, Any]:
        """Write the page, with what is known of the model's origin; return the evaluation.

        `known` says that the model learned from these rows.
        """
        if not self.evaluation.rows:
            raise InputError(f"{self.source}: no row has a label, so there is nothing to report")
        html = template("report.html").render(contents(self, versions, notes, known))
        with model_files.replace_file(path) as file:
            file.write(html.encode(errors="backslashreplace"))
        return self.numbers

    @cached_property
    def numbers(self) -> dict[str, Any]:
        """The numbers of the verdict."""
        return self.evaluation.to_dict(self.classes)

    @cached_property
    def rows(self) -> Outcomes:
        """All rows that have a label."""
        return Outcomes(*map(np.concatenate, zip(*self.blocks, strict=True)))

    @cached_property
    def loss(self) -> Array:
        """The loss of each of these rows."""
        return self.rows.loss

    @cached_property
    def constant_losses(self) -> list[Array]:
        """The losses of two constants: that with the most hits, and that with the least loss."""
        hits, loss = self.evaluation.of_constants()
        ranks = (np.full(len(self.loss), rank) for rank in (hits.argmax(), loss.argmin()))
        return [ranking.interval_loss(self.rows.intervals, rank) for rank in ranks]

    @cached_property
    def cut(self) -> Array | None:
        """The thresholds between two infinities, None if the learner has none."""
        thresholds = getattr(self.learner, "thresholds_", None)
        return None if thresholds is None else np.concatenate([[-np.inf], thresholds, [np.inf]])

    def _beyond(self, block: Outcomes) -> Array:
        if self.cut is None:
            return np.zeros(len(block.rank))
        lo, hi = block.intervals.T  # unlabelled rows have a loss of 0, whatever this is
        beyond: Array = np.maximum(self.cut[lo] - block.score, block.score - self.cut[hi + 1])
        return np.maximum(beyond, 0.0)


# --- What the page shows -------------------------------------------------------------------------


def contents(
    report: Report, versions: Mapping[str, str], notes: Mapping[str, Any], known: str | None = None
) -> dict[str, Any]:
    """Return all that the template shows, a None for a section that does not apply."""
    return {
        "title": report.title or f"{type(report.learner).__name__} on {report.source}",
        "numbers": report.numbers,
        "evaluation": words.evaluation_lines(report.numbers),
        "known": known,
        "counting": report.counting,
        "verdict": _verdict(report),
        "scores": _scores(report),
        "weights": _weights(report),
        "inference": _inference(report),
        "widths": _widths(report),
        "by_class": _by_class(report),
        "running_loss": _running_loss(report),
        "reliability": _reliability(report),
        "coverage": _coverage(report),
        "worst": _worst_rows(report),
        "facts": _sentences(_provenance(report, versions)),
        "learning": _learning(notes),
    }


class Gain(NamedTuple):
    """How much better a model is than a constant on the same rows: mean and 95% interval."""

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


def _verdict(report: Report) -> dict[str, Any]:
    hits, nearest = report.constant_losses
    inside = Gain.of(100 * ((report.loss == 0).astype(np.int64) - (hits == 0)))  # percent
    ranks = Gain.of(nearest - report.loss)
    return {
        "inside": inside,
        "ranks": ranks,
        "is_better": max(inside.low, ranks.low) > 0,
        "is_worse": min(inside.high, ranks.high) < 0,
        "n_resamples": N_RESAMPLES,
    }


def _scores(report: Report) -> Any:
    if report.cut is None:
        return None
    ax, (intervals, rank, score) = _axes(3.6), report.rows
    plotting.ScoreAxisDisplay(score, rank, intervals, report.cut[1:-1], report.classes).plot(ax=ax)
    _legend_below(ax)
    return ax.figure


def _weights(report: Report) -> dict[str, Any] | None:
    coef, intercept = report.parts.weights
    shares: Any = getattr(report.learner, "feature_importances_", None)
    if coef is None and shares is None:
        return None
    names = report.names or report.parts.names
    if coef is None:
        largest = np.argsort(-shares, kind="stable")[:N_WEIGHTS]
        return {"shares": [[names[j], f"{shares[j]:.1%}"] for j in largest]}
    if report.cut is not None:
        ax = _axes(1.3 + 0.25 * min(N_WEIGHTS, len(coef)))
        drawn = coef, report.cut[1:-1], report.classes, names, float(intercept)
        plotting.WeightsDisplay(*drawn).plot(ax=ax, top=N_WEIGHTS)
        return {"figure": ax.figure, "n_smaller": max(0, len(coef) - N_WEIGHTS)}
    largest = np.argsort(-np.abs(coef).max(axis=0), kind="stable")[:N_WEIGHTS]
    classes = [str(name) for name in report.learner.classes_[:N_LISTED]]
    rows = [[names[j], *(f"{w:.4g}" for w in coef[:N_LISTED, j])] for j in largest]
    return {"figure": None, "classes": classes, "rows": rows}


def _inference(report: Report) -> dict[str, Any] | None:
    """Return the table of weights with their errors, or why there is none."""
    if not hasattr(report.learner, "marginal_effects"):
        return None
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = infer(report.model)
    except InputError as error:
        return {"reason": str(error)}
    head, *rows = result.cells()
    left_out = max(0, len(result.terms) - len(report.learner.thresholds_) - N_LISTED)
    rows = rows[:N_LISTED] + rows[N_LISTED + left_out :]
    notes = [*result.notes, *(str(one.message) for one in caught)]
    return {"head": head, "rows": rows, "notes": notes, "n_left_out": left_out}


def _widths(report: Report) -> list[list[str]]:
    lo, hi = report.rows.intervals.T
    inside, constant = report.loss == 0, report.constant_losses[0] == 0
    lines = []
    for size, own in _by_size(hi - lo + 1):
        name, n, share = _hits("exact" if size == 1 else count(size, "class"), own, inside)
        lines.append([name, n, f"{np.count_nonzero(inside[own]):,}", share, _share(constant[own])])
    return lines


def _hits(name: object, own: Array, hits: Array) -> list[str]:
    """Return the line of a table: a name, how many rows it has, and the share of hits."""
    return [str(name), f"{np.count_nonzero(own):,}", _share(hits[own])]


def _by_size(width: Array) -> list[tuple[int, Array]]:
    """Return each width that occurs, and which rows have it."""
    return [(int(size), width == size) for size in np.unique(width)[:N_LISTED]]


def _by_class(report: Report) -> dict[str, Any]:
    rows, inside = report.rows, report.loss == 0
    lo, hi = rows.intervals.T
    listed = list(enumerate(report.classes[:N_LISTED]))
    predicted = [_hits(name, rows.rank == k, inside) for k, name in listed]
    exact = [_hits(name, (lo == k) & (hi == k), inside) for k, name in listed]
    ax = _axes(4.0 if max(map(len, map(str, report.classes))) <= 6 else 4.8)
    counts = confusion(rows.rank, rows.intervals, len(report.classes))
    plotting.IntervalConfusionDisplay(counts, report.classes).plot(ax=ax)
    left_out = max(0, len(report.classes) - N_LISTED)
    return {"predicted": predicted, "exact": exact, "figure": ax.figure, "n_left_out": left_out}


def _running_loss(report: Report) -> Any:
    loss, n = report.loss, len(report.loss)
    at = np.unique(np.linspace(0, n - 1, N_POINTS).astype(np.int64))
    ends = np.unique(np.linspace(0, n, min(N_STRETCHES, n) + 1).astype(np.int64))
    recent = np.add.reduceat(loss, ends[:-1]) / np.diff(ends)
    running = np.cumsum(loss)[at] / (at + 1)
    thin: dict[str, Any] = {"linewidth": 1}
    ax = _axes(3.2)
    ax.stairs(recent, ends, baseline=None, color=OUTSIDE, label="rows of this stretch", **thin)
    ax.plot(at + 1, running, color=INSIDE, label="all rows so far")
    constant = report.constant_losses[1].mean()
    ax.axhline(constant, color="black", linestyle=":", label="best constant", **thin)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("rows with a label, in their order")
    ax.set_ylabel("ranks off, on average")
    _legend_below(ax)
    return ax.figure


def _reliability(report: Report) -> dict[str, Any] | None:
    has_chances = hasattr(report.learner, "predict_proba") and len(report.classes) > 1
    if report.cut is None or not has_chances:
        return None
    lo, hi = report.rows.intervals.T
    exact = np.flatnonzero(lo == hi)
    if not len(exact):
        return {"n_exact": 0}
    logs = report.learner.log_chances(report.rows.score[exact, np.newaxis], report.cut)
    proba = np.exp(by_class(report.learner.order_, logs))
    ax = _axes(0.4 + 2.1 * grid_of(len(report.classes) - 1)[0])
    y, order = report.classes[lo[exact]], report.classes
    display = plotting.ReliabilityDisplay.from_predictions(y, proba, classes=order, ax=ax)
    return {
        "n_exact": len(exact),
        "n_bins": bins_for(len(exact)),
        "is_small": bins_for(len(exact)) < N_BINS,
        "figure": ax.figure,
        "error": display.error,
    }


def _coverage(report: Report) -> dict[str, Any] | None:
    ranges = report.parts.ranges
    if ranges is None or report.cut is None or is_by_column(ranges):
        return None
    ends = ranges_of(ranges, report.rows.rank, report.rows.score[:, np.newaxis], report.cut)
    lo, hi = report.rows.intervals.T
    measured = compare_ranges(ranges, ends, report.rows.intervals)
    holds = holding(ends, report.rows.intervals, touch=ranges.guarantee == "touch")
    counts = (lo == hi) | (ranges.guarantee != "exact")
    sizes = _by_size(np.diff(ends)[:, 0] + 1)
    listed = enumerate(report.classes[:N_LISTED])
    return {
        "wanted": ranges.coverage,
        "guarantee": ranges.guarantee,
        "for_each_class": ranges.by is not None,
        "by_class": [_hits(name, counts & (lo <= k) & (k <= hi), holds) for k, name in listed],
        "share": measured[ranges.guarantee],
        "mean_width": measured["mean_width"],
        "rows": [_hits(count(size, "class"), counts & own, holds) for size, own in sizes],
    }


def _worst_rows(report: Report) -> dict[str, Any]:
    every = list(dict.fromkeys(name for row in report.worst for name in row.cells))
    names, left_out = every[:N_CELLS], every[N_CELLS:]
    rows = [
        [*row.texts, *(_short(row.cells.get(name), LONGEST_CELL) for name in names)]
        for row in report.worst
    ]
    return {"names": names, "rows": rows, "n_left_out": len(left_out)}


def _provenance(report: Report, versions: Mapping[str, str]) -> list[tuple[str, str]]:
    learner = report.learner
    given = learner.get_params(deep=False).items()
    coarsening = words.coarsening_of(learner)
    return [
        ("rows on this page", f"{count(report.n_rows, 'row')} of {report.source}"),
        ("model", model_name(report.model)),
        ("classes", " < ".join(map(str, report.classes))),
        ("parameters", ", ".join(f"{name}={_parameter(value)}" for name, value in given)),
        ("learned", words.learned_so_far(learner)),
        *([("coarsening", str(coarsening))] if coarsening else []),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]


def _learning(notes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the model's file says of how it was learned; None if it says nothing.

    `pril fit` writes all of it, a stream that began without a table only its labels.
    """
    facts, classes = [], []
    if "table" in notes:
        facts = [*words.column_facts(dict(notes)), *words.learning_facts(dict(notes))]
        classes = [
            [str(entry["class"]), *(f"{entry[end]:,}" for end in ("exact", "lower", "upper"))]
            for entry in notes["classes"][:N_LISTED]
        ]
        labels = {"edges": None, **notes["labels"], "columns": None}
        given = {**notes["options"], **labels}
        options = (_option(name, value) for name, value in given.items())
        facts.append(("options", ", ".join(filter(None, options))))
    elif "labels" in notes:
        facts = [("labels", ", ".join(notes["labels"]["columns"]))]
    if notes.get("streamed"):
        facts.append(("streamed", count(notes["streamed"], "row")))
    return {"facts": _sentences(facts), "classes": classes} if facts else None


def _axes(height: float) -> Axes:
    """Return axes of a new figure, small enough for the screen of a phone."""
    from matplotlib.figure import Figure

    return Figure(figsize=(5.6, height), layout="constrained").subplots()


def _legend_below(ax: Axes) -> None:
    figure: Any = ax.figure
    if ax.get_legend():
        ax.get_legend().remove()  # type: ignore[union-attr]
    figure.legend(loc="outside lower left", fontsize=9, frameon=False)


def _share(hits: Array) -> str:
    return f"{hits.mean():.1%}" if len(hits) else "-"


def _short(value: object, longest: int) -> str:
    """Return a value as text, shortened if it is long."""
    if ranking.is_missing(value):
        return ""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _sentences(facts: list[tuple[str, str]]) -> list[str]:
    """Return facts as the items of a list; one without a name goes on with the one before it."""
    items: list[str] = []
    for name, fact in facts:
        if name:
            items.append(f"{name.capitalize()}: {_short(fact, LONGEST_NOTE)}")
        else:
            items[-1] += f"; {_short(fact, LONGEST_NOTE)}"
    return items


def _option(name: str, value: Any) -> str:
    """Return an option of `pril fit` in words, nothing if it was not used."""
    if name == "classes" or value is None or value in ([], {}):
        return ""
    if name == "kind":
        return LABEL_KINDS.get(value, "")
    name = name.replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if name == "spelling":  # the unit, and marks that are not the usual
        unit, comma = value["unit"], value["decimal"] == ","
        parts = [f"in {unit}" if unit else "", "with a decimal comma" if comma else ""]
        return " ".join(filter(None, parts))
    if isinstance(value, dict):
        return ", ".join(f"{key} {_parameter(one)}" for key, one in value.items())
    if name == "edges":
        value = [f"{edge:.15g}" for edge in value]
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _parameter(value: object) -> str:
    """Return a parameter as text that is the same in every process."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple | range)
    return shown(value) if plain else type(value).__name__


# --- Pages and pictures --------------------------------------------------------------------------


def data_url(figure: Figure, kind: Literal["png", "svg"] = "svg") -> str:
    """Return a figure as the address of an image; equal numbers give equal bytes."""
    from matplotlib import rc_context

    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with rc_context({"svg.hashsalt": "pril", "svg.fonttype": "none"}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # a browser has more letters
        figure.savefig(buffer, format=kind, dpi=120, metadata=metadata)
    media = "svg+xml" if kind == "svg" else kind
    return f"data:image/{media};base64,{base64.b64encode(buffer.getvalue()).decode()}"


@cache
def template(name: str) -> Any:
    """Return a template; in HTML all text is escaped."""
    jinja2 = import_extra("jinja2", "a report needs jinja2", "plot")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("pril"),
        autoescape=jinja2.select_autoescape(["html"]),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters.update(repr=repr, number=lambda value, digits: f"{value:.{digits}f}")
    environment.globals.update(count=count, data_url=data_url)
    return environment.get_template(name)
