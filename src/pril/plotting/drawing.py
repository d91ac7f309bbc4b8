"""What all displays share: axes, colours, names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril.bases.classifier import rate
from pril.bases.parts import Parts
from pril.core.arrays import Array, FeaturesLike, LabelsLike, Ranks
from pril.errors import import_extra
from pril.labels import ranking

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import XAxis, YAxis
    from matplotlib.figure import Figure, SubFigure
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

    from pril.bases.classifier import OrdinalLearner


# Safe for colour-blind readers.
INSIDE, OUTSIDE, BELOW = "#0072b2", "#d55e00", "#e69f00"
MOST_NAMES = 40  # with more classes, only some are named on an axis
LONGEST = 30  # characters of a name
MOST_NUMBERS = 12  # with more columns, cells have no numbers
DARK = 0.715  # on cells with a larger share, white is easier to read than black


class Display:
    """What every display has."""

    ax_: Axes
    figure_: Figure | SubFigure

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : object
            This display.
        """
        self._draw(self._begin(ax))
        return self

    def _begin(self, ax: Axes | None, height: float = 4.5) -> Axes:
        """Return the axes given, or those of a new figure, so many inches high."""
        plt = import_extra("matplotlib.pyplot", "pril.plotting needs matplotlib", "plot")
        if ax is None:
            ax = plt.subplots(figsize=(8, height), layout="constrained")[1]
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _draw(self, ax: Axes) -> None:
        raise NotImplementedError


def height_of(lines: int) -> float:
    """Return the height of a figure with some lines of text beside it, in inches."""
    return max(4.5, 1.2 + 0.28 * lines)


def short_text(name: object) -> str:
    """Return a name as matplotlib draws it: one short line, with $ escaped."""
    line = "".join(c if c.isprintable() else " " for c in str(name))
    if len(line) > LONGEST:
        line = f"{line[: LONGEST // 2]}…{line[-LONGEST // 2 + 1 :]}"
    return line.replace("$", r"\$")


def name_classes(axis: XAxis | YAxis, classes: Array) -> None:
    """Name the classes on an axis, or some at equal distances if there are many."""
    places = range(0, len(classes), -(-len(classes) // MOST_NAMES))
    names = [short_text(classes[k]) for k in places]
    slanted: dict[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    is_long = axis.axis_name == "x" and max(map(len, names)) > 6
    axis.set_ticks(list(places), names, **(slanted if is_long else {}))


def draw_cells(ax: Axes, shares: Array, texts: Sequence[Sequence[object]] | Array) -> None:
    """Draw shares as cells from white to blue, with a text in each unless there are many."""
    ax.imshow(shares, cmap="Blues", vmin=0.0, vmax=1.0)
    if len(shares[0]) <= MOST_NUMBERS:
        for (i, j), share in np.ndenumerate(shares):
            color = "white" if share > DARK else "black"
            ax.text(j, i, str(texts[i][j]), ha="center", va="center", color=color)


def draw_bands(ax: Axes, thresholds: Array, classes: Array, points: ArrayLike) -> None:
    """Shade the score ranges of the classes, and name them; all points are inside the axes."""
    ends = np.concatenate([thresholds, points])
    margin = 0.15 * (ends.max() - ends.min() or 1.0)
    edges = np.concatenate([[ends.min() - margin], thresholds, [ends.max() + margin]])
    for k in range(len(classes)):
        shade = 0.04 + 0.08 * (k % 2)
        ax.axvspan(edges[k], edges[k + 1], color="black", alpha=shade, linewidth=0)
    name_bands(ax, [short_text(name) for name in classes], edges)
    ax.set_xlim(edges[0], edges[-1])


def name_bands(ax: Axes, names: list[str], ends: Array) -> None:
    """Write the names of bands above an axis, in up to three lines; leave out what does not fit."""
    lines = 1 + max(name.count("\n") for name in names)
    style: dict[str, Any] = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
    above = ax.get_xaxis_transform()
    width = 72 * ax.get_window_extent().width / ax.figure.dpi  # points, before the final layout
    unit = 0.7 * width / (ends[-1] - ends[0])  # the rest is for a legend and names of ticks
    free = [-np.inf] * (3 if lines == 1 else 2)  # where the last name of each line ends
    for k, name in enumerate(names):
        middle = (ends[k] + ends[k + 1]) / 2
        half = 2.5 * max(map(len, name.split("\n"))) + 2.0  # points, about
        at = unit * (middle - ends[0])
        level = next((j for j, end in enumerate(free) if at - half >= end), None)
        if level is None:
            continue
        free[level] = at + half
        place = 0, 4 + 10 * lines * level
        ax.annotate(name, (middle, 1.0), xycoords=above, xytext=place, **style)


def rated(
    estimator: BaseEstimator, X: FeaturesLike, y: LabelsLike
) -> tuple[OrdinalLearner, Ranks, Array, Array, Ranks]:
    """Return the learner, its ranks and scores of rows, its thresholds, and the intervals of y."""
    parts = Parts.of(estimator)
    learner = parts.learner
    rank, scores, cut = rate(learner, parts.transform(X))
    intervals = ranking.to_intervals(ranking.read(y), learner.order_)
    ranking.check_length(intervals, rank)
    return learner, rank, scores, cut[1:-1], intervals
