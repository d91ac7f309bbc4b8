"""Intervals of weights, thresholds and marginal effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from pril.errors import InputError
from pril.evaluate import BootstrapResult
from pril.plotting.drawing import INSIDE, own_axes, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


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
    'weight per unit'
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
    unit = "unit" if per == "unit" else "standard deviation"
    drawn = {"weight": f"weight per {unit}", "effect": f"change of the probability per {unit}"}
    ax.set_xlabel(drawn.get(term, term))
    if term == "effect":
        ax.legend(title="class", fontsize=8)
    return ax


def _colors(n: int) -> Any:
    """Return a colour for each class, from dark to light."""
    if n == 1:
        return [INSIDE]
    from matplotlib import colormaps

    return colormaps["viridis"](np.linspace(0.0, 0.85, n))
