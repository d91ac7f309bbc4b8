"""What `fit` found: the loss of each round, how classes become ranges, estimates with intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, isfinite, log10
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from pril.bases.intervals import Intervals
from pril.bases.parts import Parts
from pril.core.arrays import Array
from pril.core.coarsening import Coarsening, offset_name
from pril.errors import InputError, InputTypeError
from pril.plotting import drawing

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from sklearn.base import BaseEstimator

__all__ = ["CoarseningDisplay", "ForestDisplay", "ValidationLossDisplay"]

MOST_RANGES = 40  # that are drawn: the most common ones
MOST_DIGITS = 6  # after the point; smaller numbers are written as 1.23e-07
COLUMNS = {"feature", "class", "estimate", "lower", "upper"}  # of a table that can be drawn
NAMES = {  # of a kind of numbers, and of its axis
    "weight": ("Weights", "weight per {} (above 0: higher classes)"),
    "effect": ("Marginal effects", "change of the probability per {}"),
    "threshold": ("Thresholds", "threshold (score)"),
    "probability": ("Probabilities", "probability"),
    "number": ("Numbers", "number"),
}


@dataclass(eq=False, repr=False)
class ValidationLossDisplay(drawing.Display):
    """The held-out loss after each round of boosting, and the round that was kept.

    If the kept round is one of the last, more rounds (`max_iter`) may lower the loss further.

    Parameters
    ----------
    losses : ndarray of shape (n_rounds,)
        The held-out loss after each round.
    n_kept : int
        How many rounds were kept.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pril.plotting import ValidationLossDisplay
    >>> display = ValidationLossDisplay(np.array([0.9, 0.7, 0.8]), 2).plot()
    >>> display.ax_.get_xlabel()
    'round'
    """

    losses: Array
    n_kept: int

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, *, ax: Axes | None = None) -> Self:
        """Draw the held-out loss of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted `OrderedBoosting`, alone or at the end of a Pipeline.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ValidationLossDisplay
            What was drawn.
        """
        learner = Parts.of(estimator).learner
        if not hasattr(learner, "validation_loss_"):
            raise InputTypeError(f"{type(learner).__name__} has no held-out loss to draw")
        return cls(learner.validation_loss_, learner.n_iter_).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        n, kept = len(self.losses), self.n_kept
        ax.plot(np.arange(1, n + 1), self.losses, color=drawing.INSIDE, label="held-out loss")
        if kept:
            said = f"round {kept} of {n} was kept: {self.losses[kept - 1]:.4f}"
            ax.plot([kept], [self.losses[kept - 1]], "o", color=drawing.OUTSIDE, label=said)
            ax.axvline(kept, color="black", linestyle=":", linewidth=0.8)
        ax.locator_params(axis="x", integer=True)
        ax.set(xlabel="round", ylabel="mean of -log P(label), held-out rows")
        ax.legend(fontsize=8)


@dataclass(eq=False, repr=False)
class CoarseningDisplay(drawing.Display):
    """How classes become ranges, as a model found it.

    Where raters shade alike at every class, the bars are the shares of the offsets: how many
    classes below and above the true one a range has. At random, the cells are P(range | class):
    the estimated share of the rows of each class, across, that were given each range, down.

    Parameters
    ----------
    coarsening : Coarsening
        What a model found, its `coarsening_`.
    classes : ndarray of shape (n_classes,)
        The classes, lowest first.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedLogit
    >>> from pril.labels import make_intervals
    >>> from pril.plotting import CoarseningDisplay
    >>> X = np.random.default_rng(0).normal(size=(500, 1))
    >>> y = make_intervals(np.digitize(X[:, 0], [-1, 0, 1]), 2, random_state=0)
    >>> model = OrderedLogit(classes=range(4), random_state=0).fit(X, y)
    >>> display = CoarseningDisplay.from_estimator(model)
    >>> display.ax_.get_xlabel()
    'share of the ranges'
    """

    coarsening: Coarsening
    classes: Array

    @classmethod
    def from_estimator(cls, estimator: BaseEstimator, *, ax: Axes | None = None) -> Self:
        """Draw what a model found.

        Parameters
        ----------
        estimator : estimator
            A fitted `OrderedLogit` or `OrderedBoosting`, alone or at the end of a Pipeline.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : CoarseningDisplay
            What was drawn.
        """
        learner = Parts.of(estimator).learner
        if not hasattr(type(learner), "coarsening_"):
            raise InputTypeError(
                f"{type(learner).__name__} does not learn how classes become ranges, so there is "
                "nothing to draw"
            )
        if not learner.coarsening_.ranges:
            raise InputError(
                f"this {type(learner).__name__} learned from exact labels only, so there is no "
                "range to draw"
            )
        return cls(learner.coarsening_, learner.order_).plot(ax=ax)

    def _draw(self, ax: Axes) -> None:
        sentence = str(self.coarsening).partition(" (")[0]
        ax.set_title(sentence.replace(": ", "\n"), fontsize=10)
        if self.coarsening.shares:
            self._draw_shares(ax)
        else:
            self._draw_table(ax)

    def _draw_shares(self, ax: Axes) -> None:
        """Draw a bar for each offset, from those that go down to those that go up."""
        offsets = sorted(self.coarsening.shares, key=lambda way: (way[1] - way[0], sum(way)))
        shares = [self.coarsening.shares[way] for way in offsets]
        bars = ax.barh(range(len(offsets)), shares, color=drawing.INSIDE, height=0.6)
        ax.bar_label(bars, [f"{share:.0%}" for share in shares], padding=3)
        ax.set_yticks(range(len(offsets)), [offset_name(*way) for way in offsets])
        ax.set_xlim(0.0, 1.2 * max(shares))
        ax.set(xlabel="share of the ranges", ylabel="classes beside the true one")

    def _draw_table(self, ax: Axes) -> None:
        """Draw a line for each range, the lowest first."""
        table = self.coarsening.ranges
        common = sorted(table, key=lambda ends: -sum(table[ends]))[:MOST_RANGES]
        ranges = sorted(common)
        cells = np.zeros((len(ranges), len(self.classes)))
        for line, (low, high) in zip(cells, ranges, strict=True):
            line[low : high + 1] = table[low, high]
        shown = [[f"{cell:.0%}" if cell else "" for cell in line] for line in cells]
        drawing.draw_cells(ax, cells, shown)
        ax.set_aspect("auto")
        drawing.name_classes(ax.xaxis, self.classes)
        texts = [drawing.short_text(name) for name in self.classes]
        names = [f"{texts[low]} to {texts[high]}" for low, high in ranges]
        ax.set_yticks(range(len(ranges)), names)
        ax.set(xlabel="true class", ylabel="range given")


@dataclass(eq=False, repr=False)
class ForestDisplay(drawing.Display):
    """Estimates with their confidence intervals, a line for each feature: a forest plot.

    The line at zero is no effect: an interval that crosses it does not tell which way a feature
    goes. If there is one estimate a line, it stands at the right with its interval.

    Parameters
    ----------
    table : DataFrame
        Columns `term` ("weight", "threshold", "effect" or another, the same in each row),
        `feature`, `class`, `estimate`, `lower` and `upper`, as results have them.
    level : float or None
        Confidence level of the intervals, for the title; None: unknown.
    unit : str, default="unit"
        What weights and effects are per.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.paper.datasets import make_synthetic
    >>> from pril.inference import infer
    >>> from pril.plotting import ForestDisplay
    >>> X, y = make_synthetic(100, random_state=0)
    >>> result = infer(OrderedLogit(alpha=0.0).fit(X, y), X, y)
    >>> ForestDisplay.from_result(result).ax_.get_title()
    'Weights with 95 % intervals'
    """

    table: pd.DataFrame
    level: float | None
    unit: str = "unit"

    @classmethod
    def from_result(
        cls,
        result: Intervals | pd.DataFrame,
        *,
        term: str | None = None,
        per: Literal["unit", "sd"] = "unit",
        ax: Axes | None = None,
    ) -> Self:
        """Draw weights, thresholds, marginal effects or probabilities.

        Parameters
        ----------
        result : Intervals or DataFrame
            What `pril.inference.infer`, its `marginal_effects()`, or `pril.evaluate.bootstrap`
            returned; or some rows of ``to_frame()``, to draw only those.
        term : {"weight", "threshold", "effect"}, default=None
            What to draw, if the result has several. None: weights. Effects are grouped by feature,
            with one colour for each class.
        per : {"unit", "sd"}, default="unit"
            Whether weights and effects of `bootstrap` are per unit of their feature, or per
            standard deviation, so that those of different features can be compared.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ForestDisplay
            What was drawn.
        """
        if per not in ("unit", "sd"):
            raise InputError(f"per must be 'unit' or 'sd', got {per!r}")
        level, unit = None, "unit"
        if isinstance(result, Intervals):
            level, unit, table = result.level, result.unit, result.to_frame()
            if "term" not in result.columns:
                names = dict(zip(result.columns, ("feature", "class"), strict=True))
                table = table.rename(columns=names).assign(term=result.kind)
        elif {*getattr(result, "columns", ())} >= COLUMNS:
            table = result if "term" in result else result.assign(term="effect")
        else:
            raise InputTypeError(
                "result must be what infer(), its marginal_effects() or bootstrap() returned, got "
                f"{type(result).__name__}"
            )
        kinds = [*table["term"]]
        kind = term or ("weight" if "weight" in kinds or not kinds else kinds[0])
        rows = table[table["term"] == kind]
        if rows.empty:
            raise InputError(f"result has no rows with the term {kind!r}")
        if per == "sd":
            if "sd" not in rows:
                raise InputError("per='sd' is for results of bootstrap(): pass it to infer()")
            unit, numbers = "standard deviation", ["estimate", "lower", "upper"]
            if kind != "threshold":
                rows = rows.assign(**{name: rows[name] * rows["sd"] for name in numbers})
        return cls(rows, level, unit).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ForestDisplay
            This display.
        """
        rows, term = self.table, self.table["term"].iloc[0]
        groups = rows["class" if term == "threshold" else "feature"].map(drawing.short_text)
        names = list(dict.fromkeys(groups))
        is_alone = term in ("weight", "threshold")
        classes = [None] if is_alone else list(dict.fromkeys(rows["class"]))
        ax = self._begin(ax, drawing.height_of(max(len(names), len(rows) // 2)))
        colors = _colors(len(classes))
        style: dict[str, Any] = {"fmt": "o", "markersize": 5, "capsize": 3}
        for k, label in enumerate(classes):
            part = rows if label is None else rows[rows["class"] == label]
            place = np.array([names.index(name) for name in groups[part.index]], dtype=float)
            place += (k - (len(classes) - 1) / 2) * 0.8 / len(classes)
            middle, name = part["estimate"], None if label is None else drawing.short_text(label)
            errors = np.maximum([middle - part["lower"], part["upper"] - middle], 0.0)
            ax.errorbar(middle, place, xerr=errors, color=colors[k], label=name, **style)
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        if term in ("weight", "effect"):
            ax.axvline(0.0, color="black", linewidth=0.8, zorder=1)
        ax.grid(axis="x", color="0.9", zorder=0)
        ax.set_axisbelow(True)
        title, axis = NAMES[term]
        ax.set_xlabel(axis.format(self.unit))
        share = "" if self.level is None else f"{100.0 * self.level:.3g} % "
        ax.set_title(f"{title} with {share}intervals")
        if is_alone:
            self._write_numbers(rows)
        else:
            ax.legend(title="class", fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        return self

    def _write_numbers(self, rows: pd.DataFrame) -> None:
        """Write each estimate with its interval at the right, or say why it has none."""
        texts = [
            _with_interval(row.estimate, row.lower, row.upper)
            if row.lower < row.upper
            else "not identified"
            if np.isnan(row.lower)
            else f"{row.estimate:.2g} ({'fixed' if row.estimate else 'reference'})"
            for row in rows.itertuples()
        ]
        beside = self.ax_.get_yaxis_transform()
        style: dict[str, Any] = {"textcoords": "offset points", "va": "center", "fontsize": 9}
        for place, text in enumerate(texts):
            self.ax_.annotate(text, (1.0, place), xycoords=beside, xytext=(6, 0), **style)


def _colors(n: int) -> Any:
    """Return a colour for each class, from dark to light."""
    if n == 1:
        return [drawing.INSIDE]
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.0, 0.85, n))


def _with_interval(estimate: float, lower: float, upper: float) -> str:
    """Return an estimate and its interval as text, with two digits of the interval's width."""
    width = upper - lower
    digits = max(2, 1 - floor(log10(width))) if isfinite(width) else 2
    form = f".{digits}f" if digits <= MOST_DIGITS else ".3g"
    return f"{estimate:{form}} [{lower:{form}}, {upper:{form}}]"
