"""Links: distribution functions F, with P(y <= i) = F(theta_i - f) for a score f."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Self

import numpy as np
from scipy.special import log_expit, log_ndtr, logit, ndtr, ndtri

from pril.core.arrays import Array

SQRT_TAU = np.sqrt(2.0 * np.pi)
LARGEST_LOG = 700.0  # whose exponential is finite


class Sides(NamedTuple):
    """F and what belongs to it at some places; each is right in both tails."""

    below: Array  # F
    above: Array  # 1 - F
    density: Array
    tilt: Array  # the derivative of the log of the density; 0 where there is no density


def between_cuts(below: Array, above: Array) -> Array:
    """Return the probabilities between neighbouring cuts along the first axis, given their sides.

    Differences of what is near 1 are those of what is near 0.
    """
    return np.where(below[:-1] > 0.5, above[:-1] - above[1:], below[1:] - below[:-1])


class Logs(NamedTuple):
    """Logarithms of the sides, also where these are too small for a number."""

    below: Array
    above: Array
    density: Array


class Link(ABC):
    """A distribution function. One of your own has `sides`, `logs` and `quantile`.

    Pass it to `OrderedLogit` as its `link`.

    Examples
    --------
    >>> from pril.links import LINKS
    >>> float(LINKS["cloglog"].quantile(0.5).round(3))
    -0.367
    """

    scale: ClassVar[str] = "quantiles of its link"  # that weights are on

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __deepcopy__(self, memo: object) -> Self:
        return self  # it is a value

    @abstractmethod
    def sides(self, t: Array) -> Sides:
        """Return F and its density at some places.

        Parameters
        ----------
        t : ndarray
            Where; it may be infinite.

        Returns
        -------
        sides : Sides
            Each part has the shape of t.
        """

    @abstractmethod
    def logs(self, t: Array) -> Logs:
        """Return the logarithms of F, 1 - F and the density.

        Parameters
        ----------
        t : ndarray
            Where; it may be infinite.

        Returns
        -------
        logs : Logs
            Each part has the shape of t.
        """

    @abstractmethod
    def quantile(self, p: Array) -> Array:
        """Return the inverse of F.

        Parameters
        ----------
        p : ndarray
            Probabilities.

        Returns
        -------
        t : ndarray
            Where F has these values.
        """

    def log_between(self, low: Array, high: Array) -> Array:
        """Return log(F(high) - F(low)), without a loss of digits in either tail.

        Parameters
        ----------
        low, high : ndarray
            Where an interval begins and ends.

        Returns
        -------
        logs : ndarray
            Log-probabilities.
        """
        below, above = self.logs(low), self.logs(high)
        is_left = high < -low
        near, far = (
            np.where(is_left, above.below, below.above),
            np.where(is_left, below.below, above.above),
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            between = near + np.log(-np.expm1(far - near))
        return np.where(np.isnan(between), -np.inf, between)

    def likeliest(self, scores: Array, cut: Array) -> Array:
        """Return the most probable class for each score.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, 1)
            Scores.
        cut : ndarray of shape (n_classes + 1,)
            Thresholds, between minus infinity and infinity.

        Returns
        -------
        ranks : ndarray of shape (n_samples,)
            From 0 for the lowest class.
        """
        away = self.quantile(np.array(0.5)) - scores  # its median is where the score is
        return self.log_between(cut[:-1] + away, cut[1:] + away).argmax(axis=1)


class Logit(Link):
    """The logistic distribution: proportional odds."""

    scale = "the log odds"

    def sides(self, t: Array) -> Sides:
        """Return F and its density."""
        is_positive = t > 0.0
        small = np.exp(-np.abs(t))
        large = 1.0 / (1.0 + small)
        small *= large
        below, above = np.where(is_positive, large, small), np.where(is_positive, small, large)
        return Sides(below, above, small * large, above - below)

    def logs(self, t: Array) -> Logs:
        """Return the logarithms."""
        below, above = log_expit(t), log_expit(-t)
        return Logs(below, above, below + above)

    def quantile(self, p: Array) -> Array:
        """Return the inverse of F."""
        return logit(p)

    def log_between(self, low: Array, high: Array) -> Array:
        """Return the log of a product: F(high) (1 - F(low)) (1 - exp(low - high))."""
        with np.errstate(divide="ignore"):
            width = np.log(-np.expm1(low - high))
        return log_expit(high) + log_expit(-low) + width

    def likeliest(self, scores: Array, cut: Array) -> Array:
        """Return the most probable class, as streams find it."""
        return np.column_stack([*_chances(scores[:, 0], cut)]).argmax(axis=1)


def _chances(scores: Array, cut: Array) -> Iterator[Array]:
    """Yield the probability of each class, as `loop.between` has it."""
    above, below = np.ones(len(scores)), np.zeros(len(scores))
    for threshold in cut[1:]:
        distance = threshold - scores
        small = np.exp(-np.abs(distance))
        large = 1.0 / (1.0 + small)
        small *= large
        is_below = distance > 0.0
        next_above, next_below = np.where(is_below, small, large), np.where(is_below, large, small)
        yield np.where(above <= 0.5, above - next_above, next_below - below)
        above, below = next_above, next_below


class Probit(Link):
    """The normal distribution."""

    scale = "normal quantiles"

    def sides(self, t: Array) -> Sides:
        """Return F and its density."""
        density = np.exp(-0.5 * t * t) / SQRT_TAU
        return Sides(ndtr(t), ndtr(-t), density, np.where(density > 0.0, -t, 0.0))

    def logs(self, t: Array) -> Logs:
        """Return the logarithms."""
        return Logs(log_ndtr(t), log_ndtr(-t), -0.5 * t * t - np.log(SQRT_TAU))

    def quantile(self, p: Array) -> Array:
        """Return the inverse of F."""
        return ndtri(p)


class Cloglog(Link):
    """F(t) = 1 - exp(-exp(t)): proportional hazards."""

    scale = "the log of the cumulative hazard, with its sign changed"

    def sides(self, t: Array) -> Sides:
        """Return F and its density."""
        bounded = np.minimum(t, LARGEST_LOG)
        hazard = np.exp(bounded)
        density = np.exp(bounded - hazard)
        tilt = np.where(density > 0.0, 1.0 - hazard, 0.0)
        return Sides(-np.expm1(-hazard), np.exp(-hazard), density, tilt)

    def logs(self, t: Array) -> Logs:
        """Return the logarithms."""
        hazard = np.exp(np.minimum(t, LARGEST_LOG))
        with np.errstate(divide="ignore"):  # 1 - exp(-h) is h where h is small
            below = np.where(t < -30.0, t, np.log(-np.expm1(-hazard)))
        return Logs(below, -hazard, np.minimum(t, LARGEST_LOG) - hazard)

    def quantile(self, p: Array) -> Array:
        """Return the inverse of F."""
        with np.errstate(divide="ignore"):
            return np.log(-np.log1p(-np.asarray(p)))


class Loglog(Link):
    """F(t) = exp(-exp(-t)): the complementary log-log of the reversed scale."""

    scale = "log(-log(P)) of the classes below"

    def sides(self, t: Array) -> Sides:
        """Return F and its density."""
        below, above, density, tilt = CLOGLOG.sides(-t)
        return Sides(above, below, density, -tilt)

    def logs(self, t: Array) -> Logs:
        """Return the logarithms."""
        below, above, density = CLOGLOG.logs(-t)
        return Logs(above, below, density)

    def quantile(self, p: Array) -> Array:
        """Return the inverse of F."""
        with np.errstate(divide="ignore"):
            return -np.log(-np.log(p))


class Cauchit(Link):
    """The Cauchy distribution: its tails are heavy, so that outliers matter little."""

    scale = "Cauchy quantiles"

    def sides(self, t: Array) -> Sides:
        """Return F and its density."""
        density = 1.0 / (np.pi * (1.0 + t * t))
        tilt = -2.0 * np.pi * density * np.where(np.isfinite(t), t, 0.0)
        return Sides(np.arctan2(1.0, -t) / np.pi, np.arctan2(1.0, t) / np.pi, density, tilt)

    def logs(self, t: Array) -> Logs:
        """Return the logarithms."""
        with np.errstate(divide="ignore"):
            below, above, density = map(np.log, self.sides(t)[:3])
        return Logs(below, above, density)

    def quantile(self, p: Array) -> Array:
        """Return the inverse of F."""
        return np.tan(np.pi * (np.asarray(p) - 0.5))


LOGIT, CLOGLOG = Logit(), Cloglog()
LINKS: dict[str, Link] = {
    "logit": LOGIT,
    "probit": Probit(),
    "cloglog": CLOGLOG,
    "loglog": Loglog(),
    "cauchit": Cauchit(),
}
