"""How classes become ranges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril.core.coarsening import Coarsening, offset_name
from pril.core.parts import Parts
from pril.errors import InputTypeError
from pril.plotting.drawing import INSIDE, Display, draw_cells, name_classes, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_RANGES = 40  # of more, the most common are drawn


@dataclass(eq=False, repr=False)
class CoarseningDisplay(Display):
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
    classes: Any

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
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
        return cls(learner.coarsening_, learner.order_).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : CoarseningDisplay
            This display.
        """
        ax = self._begin(ax)
        sentence = str(self.coarsening).partition(" (")[0]
        ax.set_title(sentence.replace(": ", "\n"), fontsize=10)
        if self.coarsening.shares:
            self._draw_shares()
        else:
            self._draw_table()
        return self

    def _draw_shares(self) -> None:
        """Draw a bar for each offset, from those that go down to those that go up."""
        offsets = sorted(self.coarsening.shares, key=lambda way: (way[1] - way[0], sum(way)))
        shares = [self.coarsening.shares[way] for way in offsets]
        bars = self.ax_.barh(range(len(offsets)), shares, color=INSIDE, height=0.6)
        self.ax_.bar_label(bars, [f"{share:.0%}" for share in shares], padding=3)
        self.ax_.set_yticks(range(len(offsets)), [offset_name(*way) for way in offsets])
        self.ax_.set_xlim(0.0, 1.2 * max(shares))
        self.ax_.set_xlabel("share of the ranges")
        self.ax_.set_ylabel("classes beside the true one")

    def _draw_table(self) -> None:
        """Draw a line for each range, the lowest first."""
        table = self.coarsening.table
        common = sorted(table, key=lambda ends: -sum(table[ends]))[:MOST_RANGES]
        ranges = sorted(common)
        cells = np.zeros((len(ranges), len(self.classes)))
        for line, (low, high) in zip(cells, ranges, strict=True):
            line[low : high + 1] = table[low, high]
        shown = [[f"{cell:.0%}" if cell else "" for cell in line] for line in cells]
        draw_cells(self.ax_, cells, shown)
        self.ax_.set_aspect("auto")
        name_classes(self.ax_.xaxis, self.classes)
        names = [" to ".join(short_text(self.classes[end]) for end in ends) for ends in ranges]
        self.ax_.set_yticks(range(len(ranges)), names)
        self.ax_.set_xlabel("true class")
        self.ax_.set_ylabel("range given")


def plot_coarsening(estimator: Any, *, ax: Axes | None = None) -> Axes:
    """Plot how classes become ranges, as a model found it.

    Parameters
    ----------
    estimator : estimator
        A fitted `OrderedLogit` or `OrderedBoosting`, alone or at the end of a Pipeline.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    See Also
    --------
    CoarseningDisplay : What is drawn.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.plotting import plot_coarsening
    >>> X, y = [[0.0], [1.0], [2.0]], [(1, 1), (1, 2), (2, 2)]
    >>> plot_coarsening(OrderedLogit(random_state=0).fit(X, y)).get_xlabel()
    'true class'
    """
    return CoarseningDisplay.from_estimator(estimator, ax=ax).ax_
