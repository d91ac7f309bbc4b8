"""The held-out loss of each round of boosting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from pril.core.parts import Parts
from pril.errors import InputTypeError
from pril.plotting.drawing import INSIDE, OUTSIDE, Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(eq=False, repr=False)
class ValidationLossDisplay(Display):
    """The held-out loss after each round of boosting, and the round that was kept.

    If the kept round is one of the last, more rounds (`max_iter`) may lower the loss further.

    Parameters
    ----------
    losses : ndarray of shape (n_rounds,)
        The held-out loss after each round.
    n_kept : int
        How many rounds were kept.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pril.plotting import ValidationLossDisplay
    >>> display = ValidationLossDisplay(np.array([0.9, 0.7, 0.8]), 2).plot()
    >>> display.ax_.get_xlabel()
    'round'
    """

    losses: Any
    n_kept: int

    @classmethod
    def from_estimator(cls, estimator: Any, *, ax: Axes | None = None) -> Self:
        """Draw the held-out loss of a model.

        Parameters
        ----------
        estimator : estimator
            A fitted `OrderedBoosting`, alone or at the end of a Pipeline.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ValidationLossDisplay
            What was drawn.
        """
        learner = Parts.of(estimator).learner
        if not hasattr(learner, "validation_loss_"):
            raise InputTypeError(f"{type(learner).__name__} has no held-out loss to draw")
        return cls(learner.validation_loss_, learner.n_iter_).plot(ax=ax)

    def plot(self, *, ax: Axes | None = None) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ValidationLossDisplay
            This display.
        """
        ax = self._begin(ax)
        n, kept = len(self.losses), self.n_kept
        ax.plot(np.arange(1, n + 1), self.losses, color=INSIDE, label="held-out loss")
        if kept:
            said = f"round {kept} of {n} was kept: {self.losses[kept - 1]:.4f}"
            ax.plot([kept], [self.losses[kept - 1]], "o", color=OUTSIDE, label=said)
            ax.axvline(kept, color="black", linestyle=":", linewidth=0.8)
        ax.locator_params(axis="x", integer=True)
        ax.set_xlabel("round")
        ax.set_ylabel("mean of -log P(label), held-out rows")
        ax.legend(fontsize=8)
        return self


def plot_validation_loss(estimator: Any, *, ax: Axes | None = None) -> Axes:
    """Plot the held-out loss after each round of boosting.

    Parameters
    ----------
    estimator : estimator
        A fitted `OrderedBoosting`, alone or at the end of a Pipeline.
    ax : matplotlib Axes, default=None
        Where to draw. None makes a new figure.

    Returns
    -------
    ax : matplotlib Axes
        The axes drawn on.

    See Also
    --------
    ValidationLossDisplay : What is drawn.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedBoosting
    >>> from pril.plotting import plot_validation_loss
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.digitize(X[:, 1], [-1.0, 1.0])
    >>> model = OrderedBoosting(max_iter=5, random_state=0).fit(X, y)
    >>> plot_validation_loss(model).get_xlabel()
    'round'
    """
    return ValidationLossDisplay.from_estimator(estimator, ax=ax).ax_
