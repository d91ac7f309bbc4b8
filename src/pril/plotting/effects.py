"""Intervals of weights, thresholds and marginal effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pril.errors import InputError
from pril.plotting.drawing import INSIDE, own_axes, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_bootstrap(
    table: Any, *, term: Literal["weight", "threshold", "effect"] = "weight", ax: Axes | None = None
) -> Axes:
    """Plot bootstrap estimates with their confidence intervals.

    Parameters
    ----------
    table : DataFrame
        What `pril.evaluate.bootstrap` returned. Select some of its rows to draw only those.
    term : {"weight", "threshold", "effect"}, default="weight"
        What to draw. Effects are grouped by feature, with one colour for each class.
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
    >>> table = bootstrap(OrderedLogit(random_state=0), X, y, n=10, random_state=0)
    >>> plot_bootstrap(table).get_xlabel()
    'weight'
    """
    rows = table[table["term"] == term]
    if rows.empty:
        raise InputError(f"table has no rows with the term {term!r}")
    ax = own_axes(ax)
    groups = rows["class" if term == "threshold" else "feature"].map(short_text)
    names = list(dict.fromkeys(groups))
    series = list(dict.fromkeys(rows["class"])) if term == "effect" else [None]
    colors = _colors(len(series))
    for k, label in enumerate(series):
        part = rows if label is None else rows[rows["class"] == label]
        place = np.array([names.index(name) for name in groups[part.index]], dtype=float)
        place += (k - (len(series) - 1) / 2) * 0.8 / len(series)
        errors = [part["estimate"] - part["lower"], part["upper"] - part["estimate"]]
        ax.errorbar(
            part["estimate"],
            place,
            xerr=np.maximum(errors, 0.0),
            fmt="o",
            color=colors[k],
            capsize=3,
            label=None if label is None else short_text(label),
        )
    ax.set_yticks(range(len(names)), names)
    ax.invert_yaxis()
    if term != "threshold":
        ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set_xlabel("change of the probability per unit" if term == "effect" else term)
    if term == "effect":
        ax.legend(title="class", fontsize=8)
    return ax


def _colors(n: int) -> Any:
    """Return a colour for each class, from dark to light."""
    if n == 1:
        return [INSIDE]
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.0, 0.85, n))
