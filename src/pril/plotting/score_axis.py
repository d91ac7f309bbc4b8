"""Scores of rows along the thresholds."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril.core import ranking
from pril.core.parts import Parts
from pril.errors import InputTypeError
from pril.plotting.drawing import (
    BELOW,
    INSIDE,
    OUTSIDE,
    Display,
    name_bands,
    rated,
    short_text,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ScoreAxisDisplay(Display):
    """A histogram of the scores, with the thresholds, coloured by whether predictions are inside.

    The area of a bar is its number of rows. No bar crosses a threshold, so the colours above a
    class show which share of its predictions are inside the row's range. Rows without a label are
    ignored.

    Parameters
    ----------
    scores : ndarray of shape (n_samples,)
        The score of each row.
    rank : ndarray of shape (n_samples,)
        The predicted rank of each row.
    intervals : ndarray of shape (n_samples, 2)
        Lowest and highest rank of each label.
    thresholds : ndarray of shape (n_classes - 1,)
        Thresholds between the classes, ascending.
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
    >>> from pril import PRIL
    >>> from pril.plotting import ScoreAxisDisplay
    >>> X, y = [[0.0], [1.0], [2.0]], [(1, 1), (1, 2), (2, 2)]
    >>> model = PRIL(random_state=0, max_iter=50).fit(X, y)
    >>> ScoreAxisDisplay.from_estimator(model, X, y).ax_.get_xlabel()
    'score'
    """

    scores: Any
    rank: Any
    intervals: Any
    thresholds: Any
    classes: Any

    @classmethod
    def from_estimator(cls, estimator: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Self:
        """Draw the rows by the scores of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted learner with thresholds, alone or at the end of a Pipeline.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ScoreAxisDisplay
            What was drawn.
        """
        learner = Parts.of(estimator).learner
        if not hasattr(learner, "latent"):
            raise InputTypeError(f"{type(learner).__name__} has no score axis to draw")
        learner, rank, scores, thresholds, intervals = rated(estimator, X, y)
        return cls(scores[:, 0], rank, intervals, thresholds, learner.order_).plot(ax=ax)

    @classmethod
    def from_predictions(
        cls, scores: Any, y: Any, *, thresholds: Any, classes: Any, ax: Axes | None = None
    ) -> Self:
        """Draw the rows by scores that were computed before.

        Parameters
        ----------
        scores : array-like of shape (n_samples,)
            The score of each row, such as `latent` returns.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        thresholds : array-like of shape (n_classes - 1,)
            Thresholds between the classes, ascending.
        classes : array-like of shape (n_classes,)
            The classes, lowest first.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ScoreAxisDisplay
            What was drawn.
        """
        order = ranking.check_classes(classes)
        scores, thresholds = np.asarray(scores), np.asarray(thresholds)
        intervals = ranking.to_intervals(ranking.read(y), order)
        ranking.check_length(intervals, scores, other="scores")
        rank = np.searchsorted(thresholds, scores, side="right")
        return cls(scores, rank, intervals, thresholds, order).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None, bins: int = 40) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.
        bins : int, default=40
            About how many bars to draw.

        Returns
        -------
        display : ScoreAxisDisplay
            This display.
        """
        ax = self._begin(ax)
        labelled = ranking.is_labelled(self.intervals)
        scores, rank = self.scores[labelled], self.rank[labelled]
        lo, hi = self.intervals[labelled].T
        ends = np.concatenate([scores, self.thresholds])
        left, right = (ends.min(), ends.max()) if ends.size else (0.0, 1.0)
        margin = 0.04 * (right - left) or 1.0
        edges = self._edges(left - margin, right + margin, bins)
        widths = np.diff(edges)
        height = np.zeros(len(widths))
        for rows, color, said in (
            ((lo <= rank) & (rank <= hi), INSIDE, "inside the range"),
            (rank < lo, BELOW, "below it"),
            (rank > hi, OUTSIDE, "above it"),
        ):
            density = np.histogram(scores[rows], edges)[0] / widths
            share = np.count_nonzero(rows) / max(len(rows), 1)
            ax.bar(
                edges[:-1],
                density,
                widths,
                bottom=height,
                align="edge",
                color=color,
                edgecolor="white",
                linewidth=0.4,
                label=f"predicted {said} ({share:.0%})",
            )
            height += density
        inside = (lo <= rank) & (rank <= hi)
        self._name_classes(rank, inside, edges[0], edges[-1])
        ax.set_xlim(edges[0], edges[-1])
        ax.set_ylim(0.0, 1.35 * height.max(initial=0.0) or 1.0)  # room for the legend
        ax.set_xlabel("score")
        ax.set_ylabel("rows per unit of score")
        ax.legend(loc="upper left", fontsize=8, framealpha=0.9)
        return self

    def _edges(self, left: float, right: float, bins: int) -> Any:
        """Return the edges of bars of about equal width; every threshold is one."""
        inner = np.unique(self.thresholds)
        ends = [left, *inner[(inner > left) & (inner < right)], right]
        width = (right - left) / bins
        parts = [
            np.linspace(a, b, max(1, round((b - a) / width)), endpoint=False)
            for a, b in pairwise(ends)
        ]
        return np.concatenate([*parts, [right]])

    def _name_classes(self, rank: Any, inside: Any, left: float, right: float) -> None:
        """Draw the thresholds, and above each class its name and the share of it that is right."""
        ends = np.concatenate([[left], self.thresholds, [right]])
        for threshold in self.thresholds:
            self.ax_.axvline(threshold, color="black", linestyle=":", linewidth=0.8)
        names = [short_text(name) for name in self.classes]
        if len(names) <= 8:  # of more classes, the names alone fill the space
            for k in np.unique(rank):
                names[k] += f"\n{inside[rank == k].mean():.0%}"
        name_bands(self.ax_, names, ends)


def plot_scores(estimator: Any, X: Any, y: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the rows by score, coloured by whether they are predicted inside their range.

    Parameters
    ----------
    estimator : estimator
        A fitted learner with thresholds, alone or at the end of a Pipeline.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or ranges.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    See Also
    --------
    ScoreAxisDisplay : What is drawn.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import plot_scores
    >>> X, y = [[0.0], [1.0], [2.0]], [(1, 1), (1, 2), (2, 2)]
    >>> ax = plot_scores(PRIL(random_state=0, max_iter=50).fit(X, y), X, y)
    >>> ax.get_xlabel()
    'score'
    """
    return ScoreAxisDisplay.from_estimator(estimator, X, y, ax=ax).ax_
