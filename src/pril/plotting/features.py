"""What features add to scores: the weights of a model, and contributions to rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy.sparse import issparse

from pril.bases.parts import Parts
from pril.core.arrays import Array, FeaturesLike, Ranks
from pril.errors import InputError, InputTypeError
from pril.evaluate import contributions
from pril.labels.ranking import is_missing
from pril.plotting.drawing import INSIDE, OUTSIDE, Display, draw_bands, height_of, short_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from numpy.typing import ArrayLike
    from sklearn.base import BaseEstimator

__all__ = ["ContributionsDisplay", "WeightsDisplay"]

MOST_POINTS = 1000  # of a feature
BINS = 60  # points in one of them are drawn above each other
NO_VALUE = "#999999"
MOST_CHANCES = 5  # in a title
Names = Sequence[str] | None
NAMED = ""  # the value of a feature whose name has it, such as town=Rome


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

    coef: Array
    thresholds: Array
    classes: Array
    names: Sequence[str]
    intercept: float = 0.0

    @classmethod
    def from_estimator(
        cls, estimator: BaseEstimator, *, names: Names = None, top: int = 10, ax: Axes | None = None
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
            name = type(learner).__name__
            raise InputTypeError(f"{name} has no weights on one score axis to draw")
        coef, intercept = parts.weights
        shown = _names_shown(parts, names)
        display = cls(coef, learner.thresholds_, learner.order_, shown, float(intercept))
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
        coef, start = self.coef, self.intercept
        largest = np.argsort(-np.abs(coef), kind="stable")[:top]
        ax = self._begin(ax, height_of(len(largest)))
        draw_bands(ax, self.thresholds, self.classes, [*(start + coef[largest]), start])
        _draw_bars(ax, coef[largest], start, [short_text(self.names[j]) for j in largest])
        ax.axvline(start, color="black", linewidth=0.8)
        ax.invert_yaxis()
        ax.set_xlabel("score")
        return self


def _draw_bars(
    ax: Axes, sizes: Sequence[float] | Array, starts: ArrayLike, names: list[str]
) -> Any:
    """Draw a bar for each name, in two colours: what raises a score, and what lowers it."""
    place, colors = np.arange(len(sizes)), np.where(np.array(sizes) < 0.0, OUTSIDE, INSIDE)
    bars = ax.barh(place, sizes, left=starts, color=colors, height=0.6)
    ax.set_yticks(place, names)
    return bars


@dataclass(eq=False, repr=False)
class ContributionsDisplay(Display):
    """What features add to the score of one row, or to those of many rows.

    For one row, bars lead from the base value at the top, the mean score of the background, to the
    row's score at the bottom. The shaded bands are the score ranges of the classes; the title has
    the predicted class and the probabilities of the most likely ones.

    For many rows, there is a point for each row and feature, at what the feature adds to the row's
    score. Colours go from low to high values of the feature; what is no number, or missing, is
    grey.

    Features are in the order of the mean size of what they add, without those that add nothing.

    Parameters
    ----------
    contributions : ndarray of shape (n_samples, n_features + 1)
        What each feature adds to the score of each row and, in the last column, the base value.
    values : array-like of shape (n_samples, n_features)
        The values of the features.
    thresholds : ndarray of shape (n_classes - 1,)
        Thresholds between the classes, ascending.
    classes : ndarray of shape (n_classes,)
        The classes, lowest first.
    names : sequence of str
        Names of the features.
    predicted : ndarray of shape (n_samples,)
        The predicted classes.
    proba : ndarray of shape (n_samples, n_classes), default=None
        Probabilities of the classes, lowest first; None: they are unknown.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes drawn on.
    figure_ : matplotlib Figure
        Its figure.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedBoosting
    >>> from pril.plotting import ContributionsDisplay
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = np.digitize(X[:, 1], [-1.0, 1.0])
    >>> model = OrderedBoosting(max_iter=5, random_state=0).fit(X, y)
    >>> ContributionsDisplay.from_estimator(model, X).ax_.get_xlabel()
    'what the feature adds to the score'
    """

    contributions: Array
    values: Array
    thresholds: Array
    classes: Array
    names: Sequence[str]
    predicted: Array
    proba: Array | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: BaseEstimator,
        X: FeaturesLike,
        *,
        names: Names = None,
        top: int = 10,
        ax: Axes | None = None,
    ) -> Self:
        """Draw what features add to the scores of rows.

        Parameters
        ----------
        estimator : estimator
            A fitted linear learner with thresholds, or `OrderedBoosting`, alone or at the end of a
            Pipeline.
        X : array-like of shape (n_samples, n_features)
            One row, or many.
        names : sequence of str, default=None
            Names of the features. None takes those that the learner or the steps before it know, or
            else numbers.
        top : int, default=10
            How many features to draw.
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.

        Returns
        -------
        display : ContributionsDisplay
            What was drawn.
        """
        parts = Parts.of(estimator)
        learner, features = parts.learner, parts.transform(X)
        added, shown = contributions(estimator, X), _names_shown(parts, names)
        values, proba = _values_of(parts.names, X, features), None
        if hasattr(learner, "predict_proba"):
            place = np.searchsorted(learner.classes_, learner.order_)
            proba = learner.predict_proba(features)[:, place]
        predicted = learner.predict(features)
        display = cls(added, values, learner.thresholds_, learner.order_, shown, predicted, proba)
        return display.plot(ax=ax, top=top)

    def plot(self, *, ax: Axes | None = None, top: int = 10) -> Self:
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Where to draw. None makes a new figure.
        top : int, default=10
            How many features to draw.

        Returns
        -------
        display : ContributionsDisplay
            This display.
        """
        added = self.contributions[:, :-1]
        size = np.abs(added).mean(axis=0)
        largest = np.argsort(-size, kind="stable")[: max(1, min(top, np.count_nonzero(size)))]
        self._begin(ax, height_of(len(largest) + 1))
        if len(added) == 1:
            self._draw_row(largest)
        else:
            self._draw_rows(largest)
        return self

    def _draw_row(self, largest: Ranks) -> None:
        """Draw bars from the base value, at the top, to the score; the largest first."""
        from matplotlib.patches import Patch

        *added, base = self.contributions[0].tolist()
        score, n_others = sum(added) + base, np.count_nonzero(added) - len(largest)
        names = [
            short_text(self.names[k])
            + ("" if self.values[0][k] == NAMED else f" = {_shown(self.values[0][k])}")
            for k in largest
        ]
        sizes = [added[k] for k in largest]
        if n_others > 0:
            names.append(f"{n_others} other feature{'s' if n_others > 1 else ''}")
            sizes.append(score - base - sum(sizes))
        ends = base + np.cumsum([0.0, *sizes])  # of the bars, from the top
        draw_bands(self.ax_, self.thresholds, self.classes, ends)
        bars = _draw_bars(self.ax_, sizes, ends[:-1], names)
        self.ax_.bar_label(bars, [f"{size:+.2f}" for size in sizes], padding=3, fontsize=8)
        for k in range(len(sizes) - 1):  # where a bar ends, the one below it begins
            line = [ends[k + 1]] * 2
            self.ax_.plot(line, [k + 0.3, k + 0.7], color="black", linewidth=0.6)
        # The base value meets the highest bar, the score the lowest one.
        for at, line in ((base, [-1.0, -0.3]), (score, [len(sizes) - 0.7, len(sizes)])):
            self.ax_.plot([at, at], line, color="black", linewidth=0.8, linestyle=":")
        self.ax_.set_ylim(len(sizes), -1.0)
        self.ax_.set_xlabel(f"score, from {base:.2f} on average to {score:.2f} of this row")
        meanings = {"raises the score": INSIDE, "lowers it": OUTSIDE}
        key = [Patch(color=color, label=what) for what, color in meanings.items()]
        self.ax_.legend(handles=key, fontsize=8)
        self.ax_.set_title(self._title(), pad=36)

    def _title(self) -> str:
        """Return the predicted class of the row, with the probabilities of the most likely ones."""
        title = f"predicted: {short_text(self.predicted[0])}"
        if self.proba is None:
            return title
        chances = self.proba[0]
        likely = np.sort(np.argsort(-chances, kind="stable")[:MOST_CHANCES])
        listed = [f"{short_text(self.classes[j])} {chances[j]:.0%}" for j in likely]
        return f"{title} ({', '.join(listed)})"

    def _draw_rows(self, largest: Ranks) -> None:
        """Draw a point for each row and feature."""
        added, n = self.contributions[:, :-1], len(self.contributions)
        some = np.arange(n)
        if n > MOST_POINTS:
            some = np.sort(np.random.default_rng(0).choice(n, MOST_POINTS, replace=False))
        points: Any = None
        for place, k in enumerate(largest):
            x, shade = added[some, k], _ranks([self.values[i][k] for i in some])
            y, has_value = place + _layers(x), ~np.isnan(shade)
            self.ax_.scatter(x[~has_value], y[~has_value], s=8, color=NO_VALUE, linewidths=0)
            points = self.ax_.scatter(
                x[has_value], y[has_value], s=8, c=shade[has_value], cmap="viridis",
                vmin=0.0, vmax=1.0, linewidths=0,
            )  # fmt: skip
        self.ax_.axvline(0.0, color="black", linewidth=0.8, zorder=0)
        self.ax_.set_yticks(range(len(largest)), [short_text(self.names[k]) for k in largest])
        self.ax_.set_ylim(len(largest) - 0.5, -0.5)
        self.ax_.set_xlabel("what the feature adds to the score")
        bar = self.figure_.colorbar(points, ax=self.ax_, ticks=[0.0, 1.0], aspect=40, pad=0.02)
        bar.ax.set_yticklabels(["low", "high"])
        bar.set_label("value of the feature", labelpad=-10)


def _names_shown(parts: Parts, names: Names) -> Sequence[str]:
    """Return a name for each feature: those given, or those that the model knows."""
    own = parts.names
    if names is not None and len(names) != len(own):
        raise InputError(f"names has {len(names)} names, but there are {len(own)} features")
    return own if names is None else names


def _values_of(names: list[str], X: Any, features: Any) -> Array:
    """Return the value of each feature, as it was before it became a number if X has its name."""
    cells = np.array(features.toarray() if issparse(features) else features, dtype=object)
    columns = [str(name) for name in getattr(X, "columns", [])]
    for k, name in enumerate(names):
        column, _, word = name.partition("=")
        if len(cells) == 1 and word and column in columns and name not in columns:
            cells[0, k] = NAMED
        if name in columns:
            cells[:, k] = np.asarray(X[X.columns[columns.index(name)]], dtype=object)
    return cells


def _shown(value: Any) -> str:
    """Return a value as it is written beside its feature."""
    if is_missing(value):
        return "missing"
    is_number = isinstance(value, Real) and not isinstance(value, bool)
    return f"{float(value):.3g}" if is_number else short_text(value)


def _ranks(values: list[object]) -> Array:
    """Return for each value its place between the lowest, 0, and the highest, 1; NaN without."""
    from scipy.stats import rankdata  # slow to import

    numbers = [float(value) if isinstance(value, Real) else np.nan for value in values]
    places = rankdata(numbers, "dense", nan_policy="omit") - 1.0
    return places / np.fmax.reduce(places, initial=1.0)


def _layers(x: Array) -> Array:
    """Return how far from the middle points are drawn so that they do not hide each other."""
    width = (x.max() - x.min()) / BINS or 1.0
    bins = np.round((x - x.min()) / width).astype(int)
    layer = np.zeros(len(x))
    for one in np.unique(bins):
        same = np.flatnonzero(bins == one)
        number = np.arange(len(same))
        layer[same] = (number + 1) // 2 * np.where(number % 2, 1.0, -1.0)
    return 0.4 * layer / max(np.abs(layer).max(), 8.0)
