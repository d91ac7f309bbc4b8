"""Bootstrap intervals of weights, thresholds and marginal effects."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pril.errors import InputError
from pril.evaluate import BootstrapResult
from pril.plotting.forest import ForestDisplay

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
