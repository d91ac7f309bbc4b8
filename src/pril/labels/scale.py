"""Numbers again: from probabilities of brackets to medians, means and chances."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from pril.core.arrays import Array, LabelsLike, named
from pril.core.rating import read_probabilities
from pril.errors import InputError
from pril.labels import ranking


def cut_points(edges: ArrayLike, name: str = "edges") -> Array:
    """Return edges as floats, without infinite ones; refuse edges that do not ascend."""
    cuts = read_numbers(edges, name)
    if np.isnan(cuts).any() or (cuts[1:] <= cuts[:-1]).any():
        raise InputError(f"{name} must be a 1d array of ascending numbers, got {edges!r}")
    return cuts[np.isfinite(cuts)]


def read_numbers(values: LabelsLike, name: str) -> Array:
    """Return a 1d array of floats, NaN for what is missing."""
    try:
        table = ranking.read(values, name=name, columns=(1,))
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be a 1d array of numbers: {error}") from error
    if table.vocabulary is not None:
        raise InputError(f"{name}, row 0: {table.row(0)!r} is not a number")
    return table.values[:, 0].astype(np.float64)


class Scale:
    """Turn probabilities of classes that are brackets, from any model, into numbers.

    Class 0 is below ``edges[0]``, class k is ``[edges[k - 1], edges[k])``, and the last class is
    everything from the last edge on. Inside a class, numbers are taken to be spread evenly.

    Parameters
    ----------
    edges : array-like of shape (n_classes - 1,)
        The cut points between the classes, ascending.
    low, high : float, default=None
        Where the lowest and the highest class end. None if they are open.

    See Also
    --------
    from_brackets : Returns the scale of its labels with ``return_scale=True``.

    Notes
    -----
    Each method takes `P`, an array of shape (n_samples, n_classes), with the lowest class first.
    That is what `predict_proba` returns for the classes 0, 1, 2, … of `from_brackets`.

    Examples
    --------
    >>> from pril.labels import Scale
    >>> incomes = Scale([20_000, 50_000], low=0)
    >>> P = [[0.2, 0.6, 0.2], [0.1, 0.2, 0.7]]
    >>> incomes.median(P)
    array([35000.,    inf])
    >>> incomes.exceedance(P, 40_000).round(3)
    array([0.4  , 0.767])
    >>> Scale([20_000, 50_000], low=0, high=150_000).mean(P)
    array([43000., 78000.])
    """

    def __init__(self, edges: ArrayLike, low: float | None = None, high: float | None = None):
        self.edges = cut_points(edges)
        if not len(self.edges):
            raise InputError("edges holds no finite number: at least one is needed")
        self.low, self.high = _end("low", low), _end("high", high)
        if self.low is not None and self.low >= self.edges[0]:
            raise InputError(f"low must be below the first edge {self.edges[0]}, got {low!r}")
        if self.high is not None and self.high <= self.edges[-1]:
            raise InputError(f"high must be above the last edge {self.edges[-1]}, got {high!r}")

    @staticmethod
    def of_points(points: ArrayLike) -> Scale:
        """Return the scale of classes that are exact numbers, such as ages in years.

        Means, quantiles and chances are those of `Mean`, `Quantile` and `ExProb` for `orm` in R:
        the cut between two classes moves from the lower point to the upper one as the probability
        below it grows, and quantiles are interpolated between the cuts.

        Parameters
        ----------
        points : array-like of shape (n_classes,)
            The number that each class is, ascending.

        Returns
        -------
        scale : Scale
            The scale.

        Examples
        --------
        >>> from pril.labels import Scale
        >>> Scale.of_points([1, 2, 4]).mean([[0.5, 0.25, 0.25]])
        array([2.])
        """
        return _PointScale(points)

    def __repr__(self) -> str:
        return f"Scale({named(self.edges)}, low={self.low}, high={self.high})"

    @property
    def n_classes(self) -> int:
        """The number of classes."""
        return len(self.edges) + 1

    def exceedance(self, P: ArrayLike, value: ArrayLike) -> Array:
        """Return the probability that the number is at least a value.

        It is exact at edges, and interpolated inside a class.

        Parameters
        ----------
        P : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, lowest first.
        value : float or array-like of shape (n_values,)
            A number, or several.

        Returns
        -------
        chance : ndarray of shape (n_samples,) or (n_samples, n_values)
            The probabilities.
        """
        proba, values = self._read(P), _finite("value", value)
        from_class = np.cumsum(proba[:, ::-1], axis=1)[:, ::-1]  # of this class or a higher one
        k, beyond = self._places(values)
        chance = from_class[:, k] - beyond * proba[:, k]
        return chance / from_class[:, :1].reshape(-1, *[1] * values.ndim)

    def quantile(self, P: ArrayLike, q: ArrayLike) -> Array:
        """Return the number below which the number lies with a probability.

        Parameters
        ----------
        P : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, lowest first.
        q : float or array-like of shape (n_values,)
            A probability, or several.

        Returns
        -------
        number : ndarray of shape (n_samples,) or (n_samples, n_values)
            Infinite where it lies in an open class.
        """
        proba, chances = self._read(P), _finite("q", q)
        if not ((chances >= 0.0) & (chances <= 1.0)).all():
            raise InputError(f"q must be between 0 and 1, got {q!r}")
        below = np.cumsum(proba, axis=1)
        below /= below[:, -1:]
        knots = np.broadcast_to(self._knots(below), (len(below), self.n_classes + 1))
        columns = [_inverted(below, knots, chance) for chance in chances.ravel().tolist()]
        return np.array(columns).T.reshape(len(below), *chances.shape)

    def median(self, P: ArrayLike) -> Array:
        """Return the number that is exceeded with a probability of one half.

        Parameters
        ----------
        P : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, lowest first.

        Returns
        -------
        number : ndarray of shape (n_samples,)
            Infinite where it lies in an open class.
        """
        return self.quantile(P, 0.5)

    def mean(self, P: ArrayLike) -> Array:
        """Return the expected number; both ends must be stated.

        Parameters
        ----------
        P : array-like of shape (n_samples, n_classes)
            Probabilities of the classes, lowest first.

        Returns
        -------
        number : ndarray of shape (n_samples,)
            The means.
        """
        return self._read(P) @ self._centres()

    def _read(self, P: ArrayLike) -> Array:
        """Return probabilities as floats; refuse what are none."""
        return np.maximum(read_probabilities(P, "P", self.n_classes), 0.0, dtype=np.float64)

    def _knots(self, below: Array) -> Array:
        """Return where classes begin and end, given the probabilities up to each class."""
        low = -np.inf if self.low is None else self.low
        return np.array([low, *self.edges, np.inf if self.high is None else self.high])

    def _centres(self) -> Array:
        """Return the mean of each class."""
        for name, end in (("low", self.low), ("high", self.high)):
            if end is None:
                reason = f"the mean needs {name}, the end of the {name}est class, which is open"
                raise InputError(reason, hint="ends")
        knots = self._knots(self.edges)
        return (knots[1:] + knots[:-1]) / 2.0

    def _places(self, values: Array) -> tuple[Array, Array]:
        """Return the class of each value, and the share of the class that is below the value."""
        knots, k = self._knots(self.edges), np.searchsorted(self.edges, values, side="right")
        width, above = knots[k + 1] - knots[k], values - knots[k]
        unknown = np.isinf(width) & (above != 0.0)
        if unknown.any():
            value = float(values[unknown].flat[0])
            name = "low" if value < self.edges[0] else "high"
            reason = f"value {value} is inside the {name}est class, which is open: it needs {name}"
            raise InputError(reason, hint="ends")
        return k, np.clip(above / width, 0.0, 1.0)


class _PointScale(Scale):
    """A scale of classes that are exact numbers."""

    def __init__(self, points: ArrayLike) -> None:
        self.points = cut_points(_finite("points", points), "points")
        if len(self.points) < 2:
            raise InputError("points must hold at least two numbers")
        super().__init__(self.points[1:])

    def __repr__(self) -> str:
        return f"Scale.of_points({named(self.points)})"

    def _knots(self, below: Array) -> Array:
        cuts = below[:, :-1]
        span = cuts[:, -1:] - cuts[:, :1]
        share = np.divide(cuts - cuts[:, :1], span, out=np.full_like(cuts, 0.5), where=span > 0.0)
        inner = (1.0 - share) * self.points[:-1] + share * self.points[1:]
        return np.pad(inner, ((0, 0), (1, 1)), constant_values=(self.points[0], self.points[-1]))

    def _centres(self) -> Array:
        return self.points

    def _places(self, values: Array) -> tuple[Array, Array]:
        k = np.searchsorted(self.points, values)
        return np.minimum(k, self.n_classes - 1), (k == self.n_classes).astype(np.float64)


def _inverted(below: Array, knots: Array, chance: float) -> Array:
    """Return where lines through the knots reach a probability."""
    k = np.minimum((below < chance).sum(axis=1), below.shape[1] - 1)
    rows = np.arange(len(below))
    start = np.where(k > 0, below[rows, k - 1], 0.0)
    size = below[rows, k] - start
    share = np.divide(chance - start, size, out=np.zeros_like(size), where=size > 0.0)
    left, right = knots[rows, k], knots[rows, k + 1]
    with np.errstate(invalid="ignore"):
        inner = left + share * (right - left)
    inner = np.where(np.isinf(left), left, np.where(np.isinf(right), right, inner))
    return np.where(share == 0.0, left, np.where(share == 1.0, right, inner))


def _end(name: str, end: float | None) -> float | None:
    """Return where a scale ends; None if it is open."""
    if end is None:
        return None
    if np.ndim(end):
        raise InputError(f"{name} must be a number, got {end!r}")
    return float(_finite(name, end))


def _finite(name: str, values: ArrayLike) -> Array:
    """Return a number or a 1d array as floats; refuse what is not finite."""
    numbers = read_numbers(np.atleast_1d(values), name).reshape(np.shape(values))
    if not np.isfinite(numbers).all():
        raise InputError(f"{name} must be finite, got {values!r}")
    return numbers
