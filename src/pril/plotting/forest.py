"""Estimates with their confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from pril.errors import InputError, InputTypeError
from pril.evaluate import BootstrapResult
from pril.inference import Inference, Intervals
from pril.plotting.drawing import INSIDE, Display, short_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


NAMES = {
    "weight": "weight per {} (log odds of a higher class)",
    "effect": "change of the probability per {}",
    "threshold": "threshold (score)",
}


@dataclass(eq=False, repr=False)
class ForestDisplay(Display):
    """Estimates with their confidence intervals, a line for each feature: a forest plot.

    The line at zero is no effect: an interval that crosses it does not tell which way a feature
    goes. If there is one estimate a line, it stands at the right with its interval.

    Parameters
    ----------
    table : DataFrame
        Columns `term` ("weight", "threshold" or "effect", the same in each row), `feature`,
        `class`, `estimate`, `lower` and `upper`, as results have them.
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
    >>> from pril.datasets import make_synthetic
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
    def from_result(cls, result: Any, *, ax: Axes | None = None) -> Self:
        """Draw the weights of a model, or its marginal effects.

        Parameters
        ----------
        result : Inference or Intervals
            What `pril.inference.infer` returned, or its `marginal_effects()`.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ForestDisplay
            What was drawn.
        """
        if not isinstance(result, Inference | Intervals):
            raise InputTypeError(
                "result must be what infer() or its marginal_effects() returned, got "
                f"{type(result).__name__}"
            )
        table = result.to_frame()
        if isinstance(result, Inference):
            table = table[table["term"] == "weight"]
        else:
            table = table.rename(columns={result.name: "feature"}).assign(term="effect")
        return cls(table, result.level, result.unit).plot(ax=ax)

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
        groups = rows["class" if term == "threshold" else "feature"].map(short_text)
        names = list(dict.fromkeys(groups))
        classes = list(dict.fromkeys(rows["class"])) if term == "effect" else [None]
        ax = self._begin(ax, lines=max(len(names), len(rows) // 2))
        colors = _colors(len(classes))
        for k, label in enumerate(classes):
            part = rows if label is None else rows[rows["class"] == label]
            place = np.array([names.index(name) for name in groups[part.index]], dtype=float)
            place += (k - (len(classes) - 1) / 2) * 0.8 / len(classes)
            errors = [part["estimate"] - part["lower"], part["upper"] - part["estimate"]]
            ax.errorbar(
                part["estimate"],
                place,
                xerr=np.maximum(errors, 0.0),
                fmt="o",
                markersize=5,
                color=colors[k],
                capsize=3,
                label=None if label is None else short_text(label),
            )
        ax.set_yticks(range(len(names)), names)
        ax.set_ylim(len(names) - 0.5, -0.5)
        if term != "threshold":
            ax.axvline(0.0, color="black", linewidth=0.8, zorder=1)
        ax.grid(axis="x", color="0.9", zorder=0)
        ax.set_axisbelow(True)
        ax.set_xlabel(NAMES[term].format(self.unit))
        share = "" if self.level is None else f"{100.0 * self.level:.3g} % "
        title = "Marginal effects" if term == "effect" else f"{term.capitalize()}s"
        ax.set_title(f"{title} with {share}intervals")
        if term == "effect":
            ax.legend(title="class", fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
        else:
            self._write_numbers(rows)
        return self

    def _write_numbers(self, rows: pd.DataFrame) -> None:
        """Write each estimate with its interval at the right; of one that is known, its name."""
        texts = [
            f"{row.estimate:.2f} [{row.lower:.2f}, {row.upper:.2f}]"
            if row.lower < row.upper
            else f"{row.estimate:.2g} ({'fixed' if row.estimate else 'reference'})"
            for row in rows.itertuples()
        ]
        for place, text in enumerate(texts):
            self.ax_.annotate(
                text,
                (1.0, place),
                xycoords=self.ax_.get_yaxis_transform(),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                fontsize=9,
            )


def _colors(n: int) -> Any:
    """Return a colour for each class, from dark to light."""
    if n == 1:
        return [INSIDE]
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.0, 0.85, n))


def plot_forest(result: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the weights of a model, or its marginal effects, with their confidence intervals.

    Parameters
    ----------
    result : Inference or Intervals
        What `pril.inference.infer` returned, or its `marginal_effects()`.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    See Also
    --------
    ForestDisplay : What is drawn.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.datasets import make_synthetic
    >>> from pril.inference import infer
    >>> from pril.plotting import plot_forest
    >>> X, y = make_synthetic(100, random_state=0)
    >>> ax = plot_forest(infer(OrderedLogit(alpha=0.0).fit(X, y), X, y))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['0', '1']
    """
    return ForestDisplay.from_result(result, ax=ax).ax_


def plot_bootstrap(
    result: Any,
    *,
    term: Literal["weight", "threshold", "effect"] = "weight",
    per: Literal["unit", "sd"] = "unit",
    ax: Axes | None = None,
) -> Axes:
    """Plot bootstrap estimates with their confidence intervals.

    Parameters
    ----------
    result : BootstrapResult or DataFrame
        What `pril.evaluate.bootstrap` returned, or some rows of its ``to_frame()``, to draw only
        those.
    term : {"weight", "threshold", "effect"}, default="weight"
        What to draw. Effects are grouped by feature, with one colour for each class.
    per : {"unit", "sd"}, default="unit"
        Whether weights and effects are per unit of their feature, or per standard deviation, so
        that those of different features can be compared.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.datasets import make_synthetic
    >>> from pril.evaluate import bootstrap
    >>> from pril.plotting import plot_bootstrap
    >>> X, y = make_synthetic(100, random_state=0)
    >>> result = bootstrap(OrderedLogit(random_state=0), X, y, n_resamples=10, random_state=0)
    >>> plot_bootstrap(result).get_xlabel()
    'weight per unit (log odds of a higher class)'
    """
    if per not in ("unit", "sd"):
        raise InputError(f"per must be 'unit' or 'sd', got {per!r}")
    table = result.to_frame() if isinstance(result, BootstrapResult) else result
    rows = table[table["term"] == term]
    if rows.empty:
        raise InputError(f"result has no rows with the term {term!r}")
    if per == "sd" and term != "threshold":
        numbers = ["estimate", "lower", "upper"]
        rows = rows.assign(**{name: rows[name] * rows["sd"] for name in numbers})
    level = result.level if isinstance(result, BootstrapResult) else None
    unit = "unit" if per == "unit" else "standard deviation"
    return ForestDisplay(rows, level, unit).plot(ax=ax).ax_
