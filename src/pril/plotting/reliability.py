"""Reliability curves of probabilities."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril.core import ranking
from pril.errors import InputTypeError
from pril.metrics import (
    Reliability,
    calibration_error,
    mean_difference,
    order_of,
    reliability_curves,
)
from pril.plotting.drawing import INSIDE, Display, own_axes, short_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike

MOST_PANELS = 12


@dataclass(eq=False, repr=False)
class ReliabilityDisplay(Display):
    """Observed shares against predicted probabilities, one panel for each class except the last.

    For each class, rows are put into bins by their probability of being in that class or a lower
    one: ten bins or, with fewer than 250 rows, as many as have 25 rows on average. Each
    point is a bin: its mean probability, and the share of its rows that are in that class or a
    lower one. The vertical line is the 95 % interval of that share (Wilson's): the fewer rows a bin
    has, the longer it is. If it crosses the diagonal, the rows do not contradict the probability.
    The error of a panel is the mean distance of its points from the diagonal, weighted by rows. Of
    more than twelve such classes, twelve at equal distances are drawn.

    Parameters
    ----------
    curves : list of Reliability
        For each class but the last, the points: `mean`, `seen`, the `share` of rows, and the
        interval from `lower` to `upper`.
    classes : array-like
        The classes, lowest first.
    error : float
        The calibration error, see :func:`pril.metrics.calibration_error`.

    Attributes
    ----------
    axes_ : list of matplotlib Axes
        The panels.
    ax_ : matplotlib Axes
        The axes that hold the panels.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedLogit
    >>> from pril.plotting import ReliabilityDisplay
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1))
    >>> y = np.digitize(X[:, 0] + rng.logistic(size=500), [-1, 1])
    >>> model = OrderedLogit(random_state=0).fit(X, y)
    >>> display = ReliabilityDisplay.from_estimator(model, X, y)
    >>> [panel.get_xlabel() for panel in display.axes_]
    ['probability', 'probability']
    """

    curves: list[Reliability]
    _: KW_ONLY
    classes: Any
    error: float

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the probabilities of a fitted classifier.

        Parameters
        ----------
        estimator : estimator
            A fitted classifier with `predict_proba`, such as `OrderedLogit`, or a pipeline that
            ends in one.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges; rows whose label is a range, or missing, are ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw the panels. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        if not hasattr(estimator, "predict_proba"):
            raise InputTypeError(
                f"{type(estimator).__name__} has no predict_proba, so there is nothing to draw"
            )
        return cls.from_predictions(
            y,
            estimator.predict_proba(X),
            classes=order_of(estimator),
            sample_weight=sample_weight,
            ax=ax,
        )

    @classmethod
    def from_predictions(
        cls,
        y: Any,
        y_proba: ArrayLike,
        *,
        classes: Any = None,
        sample_weight: ArrayLike | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw probabilities that were computed before.

        Parameters
        ----------
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges; rows whose label is a range, or missing, are ignored.
        y_proba : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, as `predict_proba` gives them: columns follow the sorted
            classes.
        classes : array-like of shape (n_classes,), default=None
            The classes, lowest first. None takes them from y, where all must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw the panels. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The display, drawn.
        """
        curves = reliability_curves(y, y_proba, classes, sample_weight, fewer_bins=True)
        error = calibration_error(y, y_proba, classes=classes, sample_weight=sample_weight)
        if classes is None:
            classes = ranking.order_classes(ranking.read(y))
        return cls(curves, classes=classes, error=error).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw the panels. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The same object, with the axes.
        """
        n = len(self.curves)
        self.axes_ = []
        if ax is None:
            ax = own_axes(None)
            ax.figure.set_size_inches(8, 1 + 2.5 * grid_of(n)[0])  # type: ignore[union-attr]
        self.ax_, self.figure_ = ax, ax.figure
        ax.set_axis_off()  # it holds the panels
        rows, columns = grid_of(n)
        drawn = np.unique(np.linspace(0, n - 1, min(n, MOST_PANELS)).astype(np.int64))
        for place, (k, panel) in enumerate(zip(drawn, _panels(ax, rows, columns), strict=False)):
            curve = self.curves[k]
            panel.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=0.8)
            panel.plot(curve.mean, curve.seen, color=INSIDE, linewidth=1)
            panel.vlines(curve.mean, curve.lower, curve.upper, color=INSIDE, linewidth=0.8)
            panel.scatter(curve.mean, curve.seen, s=200 * curve.share, color=INSIDE)
            panel.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), aspect="equal")
            panel.set(xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
            panel.set_xlabel("probability" if place + columns >= len(drawn) else "")
            panel.set_ylabel("observed share" if place % columns == 0 else "")
            name = f"\u201c{short_text(self.classes[k])}\u201d or lower"
            panel.set_title(f"{name}\nerror {mean_difference([curve]):.3f}", fontsize=9)
            self.axes_.append(panel)
        return self


def grid_of(n: int) -> tuple[int, int]:
    """Return the rows and columns of n panels, of which not all may be drawn."""
    n = max(1, min(n, MOST_PANELS))
    columns = 2 if n == 4 else min(n, 3)
    return -(-n // columns), columns


def _panels(ax: Axes, rows: int, columns: int) -> Iterator[Axes]:
    """Yield axes on a grid in the place of those given."""
    figure, place = ax.figure, ax.get_subplotspec()
    if place is None:  # made by add_axes
        box = ax.get_position()
        ends = {"left": box.x0, "right": box.x1, "bottom": box.y0, "top": box.y1}
        inside: Any = figure.add_gridspec(rows, columns, **ends)
    else:
        inside = place.subgridspec(rows, columns)
    cells = (inside[i, j] for i in range(rows) for j in range(columns))
    return (figure.add_subplot(cell) for cell in cells)
