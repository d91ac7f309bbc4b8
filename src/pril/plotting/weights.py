"""Weights of the features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril.core.parts import Parts
from pril.errors import InputTypeError
from pril.plotting.drawing import INSIDE, OUTSIDE, Display, draw_bands, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class WeightsDisplay(Display):
    """The largest weights of a model on its score axis, with its thresholds.

    A bar shows how much one unit of a feature, such as one standard deviation, adds to the score.
    The shaded bands are the score ranges of the classes, so you can see by how many classes a
    feature can move a row. Behind a `ColumnEncoder`, the words of a column are relative to their
    mean over the rows learned from, because only differences between words have a meaning; bars
    then begin at the score of a row with the mean of all features.

    Parameters
    ----------
    coef : ndarray of shape (n_features,)
        Weights of the features.
    thresholds : ndarray of shape (n_classes - 1,)
        Thresholds between the classes, ascending.
    classes : ndarray of shape (n_classes,)
        The classes, lowest first.
    names : sequence of str
        Names of the features.
    intercept : float, default=0.0
        The score at which the bars begin.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import WeightsDisplay
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [(1, 1), (1, 2), (2, 2)]
    >>> display = WeightsDisplay.from_estimator(PRIL(random_state=0).fit(X, y))
    >>> [label.get_text() for label in display.ax_.get_yticklabels()]
    ['0', '1']
    """

    coef: Any
    thresholds: Any
    classes: Any
    names: Sequence[str]
    intercept: float = 0.0

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        names: Sequence[str] | None = None,
        top: int = 10,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the weights of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted linear learner with thresholds, alone or at the end of a Pipeline.
        names : sequence of str, default=None
            Names of the features. None takes those that the learner or the steps before it know, or
            else numbers.
        top : int, default=10
            How many weights to draw.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : WeightsDisplay
            What was drawn.
        """
        parts = Parts.of(estimator)
        learner = parts.learner
        if not (hasattr(learner, "coef_") and hasattr(learner, "thresholds_")):
            raise InputTypeError(
                f"{type(learner).__name__} has no weights on one score axis to draw"
            )
        coef, intercept = parts.weights
        if names is None:
            names = parts.feature_names or [str(j) for j in range(len(coef))]
        display = cls(coef, learner.thresholds_, learner.order_, names, float(intercept))
        return display.plot(ax=ax, top=top)

    def plot(self, *, ax: Axes | None = None, top: int = 10) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.
        top : int, default=10
            How many weights to draw.

        Returns
        -------
        display : WeightsDisplay
            This display.
        """
        ax = self._begin(ax, lines=min(top, len(self.coef)))
        coef, start = self.coef, self.intercept
        largest = np.argsort(-np.abs(coef), kind="stable")[:top]
        draw_bands(ax, self.thresholds, self.classes, [*(start + coef[largest]), start])
        place = np.arange(len(largest))
        colors = np.where(coef[largest] < 0, OUTSIDE, INSIDE)
        ax.barh(place, coef[largest], left=start, color=colors, height=0.6)
        ax.axvline(start, color="black", linewidth=0.8)
        ax.set_yticks(place, [short_text(self.names[j]) for j in largest])
        ax.invert_yaxis()
        ax.set_xlabel("score")
        return self


def plot_model(
    estimator: Any,
    names: Sequence[str] | None = None,
    *,
    top: int = 10,
    ax: Axes | None = None,
) -> Axes:
    """Plot the largest weights of a model on its score axis, with its thresholds.

    Parameters
    ----------
    estimator : estimator
        A fitted linear learner with thresholds, alone or at the end of a Pipeline.
    names : sequence of str, default=None
        Names of the features. None takes those that the model knows, or else numbers.
    top : int, default=10
        How many weights to draw.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    See Also
    --------
    WeightsDisplay : What is drawn.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.plotting import plot_model
    >>> X, y = [[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]], [(1, 1), (1, 2), (2, 2)]
    >>> ax = plot_model(PRIL(random_state=0).fit(X, y), ["height", "width"])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['height', 'width']
    """
    return WeightsDisplay.from_estimator(estimator, names=names, top=top, ax=ax).ax_
