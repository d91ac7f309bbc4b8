"""Reliability curves of probabilities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pril.core import ranking
from pril.errors import InputTypeError
from pril.metrics import Reliability, calibration_error, order_of, reliability_curves
from pril.plotting.drawing import own_axes, short_text

if TYPE_CHECKING:
    from typing import Self

    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike


class ReliabilityDisplay:
    """Observed shares against predicted probabilities, one curve for each class except the last.

    For each class, rows are put into bins by their probability of being in that class or a lower
    one: ten bins or, with fewer than 250 rows, so many that a bin has 25 rows on average. Each
    point is a bin: its mean probability, and the share of its rows that are in that class or a
    lower one. The vertical line is the 95 % interval of that share (Wilson's): the fewer rows a bin
    has, the longer it is. If it crosses the diagonal, the rows do not contradict the probability.

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
    ax_ : matplotlib Axes
        The axes drawn on.
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
    >>> display.ax_.get_ylabel()
    'observed share'
    """

    ax_: Axes
    figure_: Any

    def __init__(self, curves: list[Reliability], *, classes: Any, error: float) -> None:
        self.curves = curves
        self.classes = classes
        self.error = error

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
            Exact labels or intervals; rows whose label is a range, or missing, are ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

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
            Exact labels or intervals; rows whose label is a range, or missing, are ignored.
        y_proba : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, as `predict_proba` gives them: columns follow the sorted
            classes.
        classes : array-like of shape (n_classes,), default=None
            The classes, lowest first. None takes them from y, where all must occur.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

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
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ReliabilityDisplay
            The same object, with the axes.
        """
        self.ax_ = ax = own_axes(ax)
        self.figure_ = ax.figure
        ax.plot([0, 1], [0, 1], color="black", linestyle=":", linewidth=0.8)
        for name, curve in zip(self.classes, self.curves, strict=False):
            label = f"\u201c{short_text(name)}\u201d or lower"
            line = ax.plot(curve.mean, curve.seen, label=label, linewidth=1)[0]
            ax.vlines(curve.mean, curve.lower, curve.upper, color=line.get_color(), linewidth=0.8)
            ax.scatter(curve.mean, curve.seen, s=300 * curve.share, color=line.get_color())
        ax.set_xlim(-0.02, 1.02)
        ax.set_ylim(-0.02, 1.02)
        ax.set_xlabel("probability")
        ax.set_ylabel("observed share")
        ax.set_title(f"calibration error {self.error:.3f}", fontsize=10)
        if self.curves:
            ax.legend(loc="upper left", fontsize=8, framealpha=0.9)
        return self
