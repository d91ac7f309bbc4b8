"""The numbers, tables and figures of a report; the template `report.html` has the words."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from pril.core import ranking
from pril.core.arrays import Array
from pril.core.classifier import by_class
from pril.core.parts import model_name
from pril.core.rating import log_probabilities
from pril.errors import InputError, shown
from pril.inference import infer
from pril.metrics import N_BINS, bins_for
from pril.plotting import (
    IntervalConfusionDisplay,
    ReliabilityDisplay,
    ScoreAxisDisplay,
    WeightsDisplay,
)
from pril.plotting.confusion import confusion
from pril.plotting.drawing import INSIDE, OUTSIDE
from pril.plotting.reliability import grid_of
from pril.ranges import compare_ranges, is_by_column, ranges_of
from pril.reporting.words import (
    coarsening_of,
    column_facts,
    count,
    evaluation_lines,
    learned_so_far,
    learning_facts,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pril.reporting.model_report import Report

N_WEIGHTS = 10
N_LISTED = 40  # classes or widths in a table
N_POINTS, N_STRETCHES = 400, 20  # of the running loss
LONGEST_CELL, LONGEST_NOTE = 60, 400  # characters
LABEL_KINDS = {"brackets": "brackets as text", "ranges": "ranges as text"}
N_RESAMPLES = 1000  # of the rows, for intervals of differences


def contents(
    report: Report, versions: Mapping[str, str], notes: Mapping[str, Any], known: str | None = None
) -> dict[str, Any]:
    """Return all that the template shows, a None for a section that does not apply."""
    return {
        "title": report.title or f"{type(report.learner).__name__} on {report.source}",
        "numbers": report.numbers,
        "evaluation": evaluation_lines(report.numbers),
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

    def times(self, factor: float) -> Gain:
        """Return it in another unit."""
        return Gain(*(factor * part for part in self))


def _verdict(report: Report) -> dict[str, Any]:
    hits, nearest = report.constant_losses
    inside = Gain.of((report.loss == 0).astype(np.int64) - (hits == 0)).times(100)
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
    ax, rows = _axes(3.6), report.rows
    display = ScoreAxisDisplay(
        rows.score, rows.rank, rows.intervals, report.cut[1:-1], report.classes
    )
    display.plot(ax=ax)
    _legend_below(ax)
    return ax.figure


def _weights(report: Report) -> dict[str, Any] | None:
    coef, intercept = report.parts.weights
    shares: Any = getattr(report.learner, "feature_importances_", None)
    if coef is None and shares is None:
        return None
    n_features = len(shares) if coef is None else coef.shape[-1]
    names = report.names or report.parts.feature_names or [str(j) for j in range(n_features)]
    if coef is None:
        largest = np.argsort(-shares, kind="stable")[:N_WEIGHTS]
        return {"shares": [[names[j], f"{shares[j]:.1%}"] for j in largest]}
    if report.cut is not None:
        ax = _axes(1.3 + 0.25 * min(N_WEIGHTS, len(coef)))
        display = WeightsDisplay(coef, report.cut[1:-1], report.classes, names, float(intercept))
        display.plot(ax=ax, top=N_WEIGHTS)
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
            found = infer(report.model)
    except InputError as error:
        return {"reason": str(error)}
    head, *rows = found.cells()
    left_out = max(0, len(found.terms) - len(found.parts.learner.thresholds_) - N_LISTED)
    rows = rows[:N_LISTED] + rows[N_LISTED + left_out :]
    notes = [*found.notes, *(str(one.message) for one in caught)]
    return {"head": head, "rows": rows, "notes": notes, "n_left_out": left_out}


def _widths(report: Report) -> list[list[str]]:
    lo, hi = report.rows.intervals.T
    inside, constant = report.loss == 0, report.constant_losses[0] == 0
    return [
        [
            "exact" if size == 1 else count(size, "class"),
            f"{np.count_nonzero(own):,}",
            f"{np.count_nonzero(inside[own]):,}",
            _share(inside[own]),
            _share(constant[own]),
        ]
        for size, own in _by_size(hi - lo + 1)
    ]


def _by_size(width: Array) -> list[tuple[int, Array]]:
    """Return each width that occurs, and which rows have it."""
    return [(int(size), width == size) for size in np.unique(width)[:N_LISTED]]


def _by_class(report: Report) -> dict[str, Any]:
    rows, inside = report.rows, report.loss == 0
    lo, hi = rows.intervals.T
    predicted: list[list[str]] = []
    exact: list[list[str]] = []
    for k, name in enumerate(report.classes[:N_LISTED]):
        for lines, own in ((predicted, rows.rank == k), (exact, (lo == k) & (hi == k))):
            lines.append([str(name), f"{np.count_nonzero(own):,}", _share(inside[own])])
    ax = _axes(4.0 if max(map(len, map(str, report.classes))) <= 6 else 4.8)
    counts = confusion(rows.rank, rows.intervals, len(report.classes))
    IntervalConfusionDisplay(counts, report.classes).plot(ax=ax)
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
    if (
        not hasattr(report.learner, "predict_proba")
        or report.cut is None
        or len(report.classes) < 2
    ):
        return None
    lo, hi = report.rows.intervals.T
    exact = np.flatnonzero(lo == hi)
    if not len(exact):
        return {"n_exact": 0}
    logs = log_probabilities(report.rows.score[exact, np.newaxis], report.cut)
    proba = np.exp(by_class(report.learner.order_, logs))
    ax = _axes(0.4 + 2.1 * grid_of(len(report.classes) - 1)[0])
    display = ReliabilityDisplay.from_predictions(
        report.classes[lo[exact]], proba, classes=report.classes, ax=ax
    )
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
    (low, high), (lo, hi) = ends.T, report.rows.intervals.T
    measured = compare_ranges(ranges, ends, report.rows.intervals)
    touch, contain = (low <= hi) & (lo <= high), (low <= lo) & (hi <= high)
    holds = touch if ranges.guarantee == "touch" else contain
    counts = (lo == hi) | (ranges.guarantee != "exact")
    rows = [
        [count(size, "class"), f"{np.count_nonzero(counts & own):,}", _share(holds[counts & own])]
        for size, own in _by_size(high - low + 1)
    ]
    by_class = []
    for k, name in enumerate(report.classes[:N_LISTED]):
        own = counts & (lo <= k) & (k <= hi)
        by_class.append([str(name), f"{np.count_nonzero(own):,}", _share(holds[own])])
    return {
        "wanted": ranges.coverage,
        "guarantee": ranges.guarantee,
        "for_each_class": ranges.by is not None,
        "by_class": by_class,
        "share": measured[ranges.guarantee],
        "mean_width": measured["mean_width"],
        "rows": rows,
    }


def _worst_rows(report: Report) -> dict[str, Any]:
    names = list(dict.fromkeys(name for row in report.worst for name in row.cells))
    rows = [
        [
            *(row.place, row.label, row.prediction, f"{row.loss}", f"{row.score:.4g}"),
            *(_short(row.cells.get(name), LONGEST_CELL) for name in names),
        ]
        for row in report.worst
    ]
    return {"names": names, "rows": rows}


def _provenance(report: Report, versions: Mapping[str, str]) -> list[tuple[str, str]]:
    learner = report.learner
    given = learner.get_params(deep=False).items()
    found = coarsening_of(learner)
    return [
        ("rows on this page", f"{count(report.n_rows, 'row')} of {report.source}"),
        ("model", model_name(report.model)),
        ("classes", " < ".join(map(str, report.classes))),
        ("parameters", ", ".join(f"{name}={_parameter(value)}" for name, value in given)),
        ("learned", learned_so_far(learner)),
        *([("coarsening", str(found))] if found else []),
        ("versions", ", ".join(f"{name} {number}" for name, number in versions.items())),
    ]


def _learning(notes: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what the model's file says of how it was learned; None if it says nothing.

    `pril fit` writes all of it, a stream that began without a table only its labels.
    """
    facts, classes = [], []
    if "table" in notes:
        facts = [*column_facts(dict(notes)), *learning_facts(dict(notes))]
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


def _short(value: Any, longest: int) -> str:
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
    if name == "spelling":
        return _spelling(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {_parameter(one)}" for key, one in value.items())
    if name == "edges":
        value = [f"{edge:.15g}" for edge in value]
    return f"{name} {' '.join(map(str, value)) if isinstance(value, list) else value}"


def _spelling(note: dict[str, Any]) -> str:
    """Return how brackets were written, in words: the unit, and marks that are not the usual."""
    words = [f"in {note['unit']}" if note["unit"] else ""]
    words.append("with a decimal comma" if note["decimal"] == "," else "")
    return " ".join(filter(None, words))


def _parameter(value: Any) -> str:
    """Return a parameter as text that is the same in every process."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    plain = value is None or isinstance(value, bool | int | float | str | list | tuple | range)
    return shown(value) if plain else type(value).__name__
