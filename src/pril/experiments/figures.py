"""Draw the paper's figures from their arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pril.experiments.protocol import FRACTIONS, TYPES, Curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

__all__ = ["draw"]

# Okabe and Ito's palette, safe for colour-blind readers.
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
SKY, BLACK = "#56b4e9", "#000000"
FIGURE3_STYLES = {
    "PRIL, Type 1": (BLUE, "-"),
    "PRIL, Type 2": (SKY, "-"),
    "averaged PRIL, Type 1": (BLUE, "--"),
    "averaged PRIL, Type 2": (SKY, "--"),
    "PRank": (BLACK, "-"),
    "MCP": (ORANGE, "-"),
    "MCP with intercept": (ORANGE, "--"),
    "Widrow-Hoff, best step": (RED, "-"),
    "Widrow-Hoff with intercept, best step": (RED, "--"),
}


def draw(
    points: tuple[NDArray[Any], NDArray[Any]] | None = None,
    figure2: list[Curve] | None = None,
    figure3: list[Curve] | None = None,
) -> dict[str, Figure]:
    """Draw the figures whose data is given.

    Parameters
    ----------
    points : tuple of ndarray, default=None
        Figure 1's points and ranks.
    figure2 : list of Curve, default=None
        Figure 2's curves.
    figure3 : list of Curve, default=None
        Figure 3's curves.

    Returns
    -------
    figures : dict
        Matplotlib figures by name.

    Examples
    --------
    >>> from pril.experiments import Settings, draw, figure1
    >>> list(draw(points=figure1(Settings())))
    ['figure1']
    """
    drawn = {}
    if points is not None:
        drawn["figure1"] = _scatter(*points)
    if figure2 is not None:
        drawn["figure2"] = _fractions(figure2)
    if figure3 is not None:
        drawn["figure3"] = _comparison(figure3)
    return drawn


def _scatter(X: NDArray[Any], y: NDArray[Any]) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.2, 5), layout="constrained")
    ax = figure.add_subplot()
    marks = zip((BLUE, SKY, GREEN, ORANGE, RED), "ov^sD", strict=True)
    for rank, (color, marker) in enumerate(marks, start=1):
        chosen = X[y == rank][:500]
        ax.plot(*chosen.T, marker, color=color, markersize=2.5, linestyle="", label=f"rank {rank}")
    ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    figure.legend(loc="outside lower center", ncols=5, markerscale=2, fontsize=9, frameon=False)
    figure.suptitle("Figure 1: the synthetic set (up to 500 points a rank)", fontsize=11)
    return figure


def _fractions(curves: list[Curve]) -> Figure:
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(curve.data for curve in curves))
    figure = Figure(figsize=(3.6 * len(sets), 6), layout="constrained")
    axes = figure.subplots(len(TYPES), len(sets), sharex="col", squeeze=False)
    by_name = {(curve.data, curve.name): curve for curve in curves}
    shades = colormaps["cividis"](np.linspace(0, 0.9, len(FRACTIONS)))
    for row, kind in enumerate(TYPES):
        for column, data in enumerate(sets):
            ax = axes[row, column]
            for share, color in zip(FRACTIONS, shades, strict=True):
                curve = by_name[data, f"Type {kind}, {share:.0%}"]
                _band(ax, curve, color, "-", f"{share:.0%}")
            ax.set_title(f"{data}, Type {kind}", fontsize=10)
            ax.set_xlabel("rounds" if row == len(TYPES) - 1 else "")
            ax.set_ylabel("average interval loss" if column == 0 else "")
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(
        lines, names, loc="outside lower center", ncols=6, frameon=False, fontsize=9,
        title="share of interval labels",
    )  # fmt: skip
    figure.suptitle("Figure 2: PRIL, judged on the labels it learns from", fontsize=11)
    return figure


def _comparison(curves: list[Curve]) -> Figure:
    from matplotlib.figure import Figure

    sets = list(dict.fromkeys(curve.data for curve in curves))
    figure = Figure(figsize=(4 * len(sets), 4.6), layout="constrained")
    axes = figure.subplots(1, len(sets), squeeze=False)[0]
    for ax, data in zip(axes, sets, strict=True):
        for curve in curves:
            if curve.data == data and curve.name in FIGURE3_STYLES:
                _band(ax, curve, *FIGURE3_STYLES[curve.name], curve.name)
        ax.set_title(data, fontsize=10)
        ax.set_xlabel("rounds")
    axes[0].set_ylabel("average absolute error, exact labels")
    lines, names = axes[0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle(
        "Figure 3: PRIL learns from intervals alone, the others from exact labels", fontsize=11
    )
    return figure


def _band(ax: Any, curve: Curve, color: Any, style: str, label: str) -> None:
    """Draw a curve with a band of two standard errors."""
    ax.plot(curve.rounds, curve.mean, style, color=color, linewidth=1.4, label=label)
    low, high = curve.mean - 2 * curve.error, curve.mean + 2 * curve.error
    ax.fill_between(curve.rounds, low, high, color=color, alpha=0.2, linewidth=0)
    ax.set_xscale("log")
    ax.spines[["top", "right"]].set_visible(False)
