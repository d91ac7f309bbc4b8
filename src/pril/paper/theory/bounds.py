"""Bounds on mistakes and regret, as fractions rounded up, and how a run compares with them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from numbers import Integral
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from sklearn.base import clone

from pril.core.arrays import FeaturesLike, LabelsLike
from pril.core.words import html_table
from pril.errors import InputError, InputTypeError
from pril.evaluate import Progress, progressive
from pril.learners.linear import MPRIL, PRIL
from pril.paper.theory.margins import (
    Constraints,
    Margin,
    exactly,
    margin,
    read_constraints,
    root_rounded_up,
    rounded_up,
)

__all__ = [
    "Audit",
    "Bound",
    "Regret",
    "audit",
    "general_mistake_bound",
    "mistake_bound",
    "multiplicative_mistake_bound",
    "multiplicative_step",
    "regret",
    "regret_bound",
]


def log_rounded_up(n: int) -> Fraction:
    """Return a number that is not below the logarithm of an integer, by a float's last digit."""
    return Fraction(math.nextafter(math.log(n), math.inf))


def printed(bound: float) -> str:
    """Return a bound with six digits, rounded up."""
    if not math.isfinite(bound):
        return f"{bound}"
    digits = Context(prec=6, rounding=ROUND_CEILING)
    return f"{float(digits.create_decimal(Decimal(bound))):.6g}"


def n_constraints(n_classes: object, min_width: object) -> int:
    """Return C = K - c - 1, the most constraints that a round can violate."""
    K = checked_count("n_classes", n_classes, 1)
    if not isinstance(min_width, Integral) or not 0 <= int(min_width) <= K - 1:
        raise InputError(f"min_width must be between 0 and n_classes - 1, got {min_width!r}")
    return K - int(min_width) - 1


def checked_positive(name: str, value: float, *, zero: bool = False) -> float:
    """Return a number that must be positive."""
    if not (value > 0 or (zero and value == 0)):
        raise InputError(f"{name} must be {'at least 0' if zero else 'positive'}, got {value!r}")
    return value


def checked_count(name: str, value: object, least: int) -> int:
    """Return an integer that must not be smaller than another."""
    if not isinstance(value, Integral) or int(value) < least:
        raise InputError(f"{name} must be an integer of at least {least}, got {value!r}")
    return int(value)


def mistake_bound(radius: float, gamma: float, n_classes: int, min_width: int = 0) -> float:
    """Return Theorem 1's bound on the violated constraints of PRIL on a separable stream.

    ``(R^2 + 1) C / gamma^2``, correct as printed.

    Parameters
    ----------
    radius : float
        Largest length of a row.
    gamma : float
        Margin of a comparator of unit l2 norm.
    n_classes : int
        Number of classes, K.
    min_width : int, default=0
        Least width of a label, c.

    Returns
    -------
    bound : float
        On the number of violated constraints over all rounds, and so on the interval loss.

    Examples
    --------
    >>> from pril.paper.theory import mistake_bound
    >>> mistake_bound(radius=1.0, gamma=0.5, n_classes=3)
    16.0
    """
    C = n_constraints(n_classes, min_width)
    radius, gamma = checked_positive("radius", radius, zero=True), checked_positive("gamma", gamma)
    if C == 0 or math.isinf(radius):
        return math.inf if C else 0.0
    return _over_squared_margin(C * (exactly(radius) ** 2 + 1), gamma)


def _over_squared_margin(value: Fraction, gamma: float) -> float:
    """Return value / gamma^2, rounded up; 0 for an infinite margin."""
    return 0.0 if math.isinf(gamma) else rounded_up(value / exactly(gamma) ** 2)


def general_mistake_bound(
    X: FeaturesLike,
    y: LabelsLike,
    w: ArrayLike,
    theta: ArrayLike,
    gamma: float | None = None,
    *,
    classes: ArrayLike | None = None,
) -> float:
    """Return Theorem 2's bound on the violated constraints of PRIL, for any comparator.

    ``(D + sqrt(R^2 + 1))^2 C / gamma^2``, where D^2 is the sum of squares of how far each
    constraint falls short of the margin gamma. Correct as printed, for a single pass.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends.
    w : array-like of shape (n_features,)
        Weights of the comparator; (w, theta) is scaled to unit length.
    theta : array-like of shape (n_classes - 1,)
        Its thresholds.
    gamma : float, default=None
        The margin. None takes the one with the smallest bound.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y.

    Returns
    -------
    bound : float
        On the number of violated constraints over all rounds.

    Examples
    --------
    >>> from pril.paper.theory import general_mistake_bound
    >>> round(general_mistake_bound([[-1.0], [1.0]], [1, 2], w=[1.0], theta=[0.0]), 6)
    2.0
    """
    stream = read_constraints(X, y, classes)
    weights, cuts = (np.asarray(part, dtype=np.float64) for part in (w, theta))
    wanted = (stream.X.shape[1],), (stream.signs.shape[1],)
    if (weights.shape, cuts.shape) != wanted or not np.isfinite([*weights, *cuts]).all():
        raise InputError(
            f"w and theta must hold {wanted[0][0]} and {wanted[1][0]} finite numbers, got shapes "
            f"{weights.shape} and {cuts.shape}"
        )
    v = np.concatenate([weights, cuts])
    largest = np.abs(v).max(initial=0.0)
    C = n_constraints(len(stream.classes), stream.min_width)
    if C == 0:
        return 0.0
    if largest == 0:
        raise InputError("w and theta are all zero: such a comparator cannot be scaled")
    v /= largest  # so that no square is too large or too small
    v /= np.linalg.norm(v)
    margins = stream.margins(v[: stream.X.shape[1]], v[stream.X.shape[1] :])[stream.signs != 0]
    reach = root_rounded_up(stream.squared_radius + 1)
    # The most that rounding takes from the margins and from the sum of squares.
    lost = np.finfo(np.float64).eps * (2 * len(v) + 16) * reach * math.sqrt(len(margins))
    grown = 1.0 + np.finfo(np.float64).eps * (len(margins) + 16)

    def root(slope: float) -> float:
        """(D + sqrt(R^2 + 1)) / gamma at gamma = 1 / slope: convex, and finite at 0."""
        shortfalls = np.maximum(0.0, 1.0 - slope * margins)
        return float(grown * (np.linalg.norm(shortfalls) + (reach + lost) * slope))

    if gamma is not None:
        slope = 1.0 / float(checked_positive("gamma", gamma))
        return root(slope) * root(slope) * C if math.isfinite(slope) else math.inf
    ends = (0.0, math.sqrt(len(margins)) / reach)
    smallest = minimize_scalar(root, bounds=ends, method="bounded", options={"xatol": 1e-12})
    return min(root(0.0), float(smallest.fun)) ** 2 * C


def regret_bound(
    rounds: int,
    radius: float,
    n_classes: int,
    min_width: int = 0,
    *,
    norm: float,
    as_printed: bool = False,
) -> float:
    """Return Theorem 3's bound on the regret of PRIL.

    ``(norm^2 + T (C^2 R^2 + C)) / 2``. The paper prints ``C (R^2 + 1)`` for the last factor, which
    is wrong when a round violates two constraints.

    Parameters
    ----------
    rounds : int
        Number of rows, T.
    radius : float
        Largest length of a row.
    n_classes : int
        Number of classes, K.
    min_width : int, default=0
        Least width of a label, c.
    norm : float
        Largest l2 norm of the models PRIL is compared with, Lambda.
    as_printed : bool, default=False
        Whether to return the bound that the paper prints, which is wrong.

    Returns
    -------
    bound : float
        On the summed surrogate loss, minus that of the best fixed model.

    Examples
    --------
    >>> from pril.paper.theory import regret_bound
    >>> regret_bound(1000, 1.0, 5, norm=4.0)
    10008.0
    >>> regret_bound(1000, 1.0, 5, norm=4.0, as_printed=True)
    4008.0
    """
    C = n_constraints(n_classes, min_width)
    radius = checked_positive("radius", radius, zero=True)
    norm = checked_positive("norm", norm, zero=True)
    rounds = checked_count("rounds", rounds, 0)
    if math.isinf(norm) or (math.isinf(radius) and rounds * C > 0):
        return math.inf
    squared_radius = exactly(radius) ** 2 if rounds * C else Fraction(0)
    square = C * (squared_radius + 1) if as_printed else squared_gradient(squared_radius, C)
    return rounded_up((exactly(norm) ** 2 + rounds * square) / 2)


def squared_gradient(squared_radius: Fraction, C: int) -> Fraction:
    """Return G^2, where G is the largest length of a subgradient: C^2 R^2 + C."""
    return C**2 * squared_radius + C


def multiplicative_mistake_bound(
    n_features: int,
    n_classes: int,
    gamma: float,
    min_width: int = 0,
    signed: bool = True,
    *,
    as_printed: bool = False,
) -> float:
    """Return Theorem 4's bound on the violated constraints of M-PRIL on a separable stream.

    ``2 C^2 log(N) / gamma^2`` with ``N = K + d - 1``, twice that for the signed form, for features
    within [-1, 1] and the step of `multiplicative_step`. The paper omits the factor 2.

    Parameters
    ----------
    n_features : int
        Number of features, d.
    n_classes : int
        Number of classes, K.
    gamma : float
        Margin of a comparator of unit l1 norm, non-negative unless signed.
    min_width : int, default=0
        Least width of a label, c.
    signed : bool, default=True
        Whether weights and thresholds may be negative.
    as_printed : bool, default=False
        Whether to return the bound that the paper prints. It has no signed form.

    Returns
    -------
    bound : float
        On the number of violated constraints over all rounds.

    Examples
    --------
    >>> from pril.paper.theory import multiplicative_mistake_bound
    >>> round(multiplicative_mistake_bound(10, 3, gamma=0.5), 2)
    101.7
    """
    C = n_constraints(n_classes, min_width)
    gamma = checked_positive("gamma", gamma)
    experts = int(n_classes) + checked_count("n_features", n_features, 1) - 1
    if as_printed:
        return _over_squared_margin(C**2 * log_rounded_up(experts), gamma)
    logarithm = log_rounded_up(2 * experts if signed else experts)
    return _over_squared_margin(2 * C**2 * logarithm, gamma)


def multiplicative_step(gamma: float, n_classes: int, min_width: int = 0) -> float:
    """Return the rate of M-PRIL for which Theorem 4 gives the smallest bound.

    ``log((C + gamma) / (C - gamma)) / (2 C)``, which is infinite for gamma = C and for C = 0.

    Parameters
    ----------
    gamma : float
        Margin of a comparator of unit l1 norm.
    n_classes : int
        Number of classes, K.
    min_width : int, default=0
        Least width of a label, c.

    Returns
    -------
    rate : float
        For the parameter `rate` of `MPRIL`.

    Examples
    --------
    >>> from pril.paper.theory import multiplicative_step
    >>> round(multiplicative_step(gamma=0.5, n_classes=3), 4)
    0.1277
    """
    C = n_constraints(n_classes, min_width)
    gamma = checked_positive("gamma", gamma)
    if C == 0:
        return math.inf
    if gamma > C:
        raise InputError(f"gamma is at most {C} here (features within [-1, 1]), got {gamma!r}")
    return math.inf if gamma == C else math.log((C + gamma) / (C - gamma)) / (2 * C)


# --- Runs ----------------------------------------------------------------------------------------


def run(
    estimator: PRIL | MPRIL, X: FeaturesLike, y: LabelsLike, classes: ArrayLike | None
) -> tuple[PRIL | MPRIL, Constraints, Progress]:
    """Run a clone of a learner once over a stream; the theorems are about PRIL and M-PRIL only."""
    if not isinstance(estimator, (PRIL, MPRIL)):
        raise InputTypeError(
            f"there are bounds for PRIL and MPRIL only, got {type(estimator).__name__}"
        )
    learner: PRIL | MPRIL = clone(estimator)
    stream = read_constraints(X, y, learner.classes if classes is None else classes)
    return learner, stream, progressive(learner, stream.X, stream.y, classes=stream.classes)


class Regret(NamedTuple):
    """The loss of a learner minus that of the best fixed model, and the bound of Theorem 3.

    A run with step s is s times the run with step 1, and so are its losses.
    """

    regret: float  # summed surrogate loss, minus that of the best fixed model, which is 0
    bound: float  # Theorem 3, corrected
    step: float  # norm / (G sqrt(T)), for which the regret grows as sqrt(T)
    scaled_regret: float  # of the run with that step
    scaled_bound: float  # norm G sqrt(T)


def regret(
    estimator: PRIL | MPRIL,
    X: FeaturesLike,
    y: LabelsLike,
    norm: float,
    *,
    classes: ArrayLike | None = None,
) -> Regret:
    """Run a linear learner once over a stream and compare it with the best fixed model.

    The surrogate loss L_I^IMC is zero at w = 0, theta = 0 and never negative. So the best model in
    any ball around zero has loss 0, and the regret is the loss of the learner.

    Parameters
    ----------
    estimator : PRIL or MPRIL
        The learner; a clone of it is run. The bound holds for PRIL's iterates, not for their mean,
        so use ``average=False``.
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends.
    norm : float
        Largest l2 norm of the models it is compared with.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y.

    Returns
    -------
    regret : Regret
        The regret, its bound, and the same for the step that gives the sqrt(T) rate.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import PRIL
    >>> from pril.paper.theory import regret
    >>> X, y = np.ones((1000, 1)), np.tile([5, 1], 500)
    >>> found = regret(PRIL(average=False), X, y, norm=4.0, classes=range(1, 6))
    >>> found.regret, found.bound
    (10000.0, 10008.0)
    """
    norm = checked_positive("norm", norm)
    _, stream, progress = run(estimator, X, y, classes)
    loss = float(progress.hinge_losses.sum())
    T, K, c = len(stream.X), len(stream.classes), stream.min_width
    C, squared_radius = n_constraints(K, c), stream.squared_radius
    squares = T * squared_gradient(squared_radius, C)
    step = norm / root_rounded_up(squares) if squares > 0 else math.inf
    return Regret(
        regret=loss,
        bound=regret_bound(T, stream.radius, K, c, norm=norm),
        step=step,
        scaled_regret=step * loss if loss > 0 else 0.0,
        scaled_bound=root_rounded_up(exactly(norm) ** 2 * squares),
    )


class Bound(NamedTuple):
    """One bound and the number that it bounds, as observed."""

    name: str
    observed: float
    bound: float

    @property
    def room(self) -> float:
        """Share of the bound above the observed number."""
        if self.bound == 0:
            return 1.0 if self.observed == 0 else -math.inf
        return 1.0 - self.observed / self.bound


@dataclass(frozen=True)
class Audit:
    """Facts about a run over a stream, and every bound that applies to it.

    Attributes
    ----------
    facts : dict
        Rounds, mistakes, violated constraints, R, c, K, and the margin.
    bounds : list of Bound
        The bounds and the observed numbers.
    """

    facts: dict[str, Any]
    bounds: list[Bound]

    def to_frame(self) -> Any:
        """Return the bounds as a pandas DataFrame.

        Returns
        -------
        frame : DataFrame
            One row a bound.
        """
        import pandas as pd

        rows = [(*bound, bound.room) for bound in self.bounds]
        return pd.DataFrame(rows, columns=["name", "observed", "bound", "room"])

    def _cells(self) -> list[list[str]]:
        rows = (
            [b.name, f"{b.observed:.6g}", printed(b.bound), f"{b.room:.1%}"] for b in self.bounds
        )
        return [["", "observed", "bound", "room"], *rows]

    def __str__(self) -> str:
        lines = [f"{name:<34}{_fact(name, value):>14}" for name, value in self.facts.items()]
        bounds = ["{:<34}{:>14}{:>14}{:>8}".format(*cells) for cells in self._cells()]
        return "\n".join([*lines, "-" * 70, *bounds])

    def _repr_html_(self) -> str:
        facts = [f"{name}: {_fact(name, value)}" for name, value in self.facts.items()]
        return html_table(self._cells(), facts)


def _fact(name: str, value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.startswith("margin") and value == 0:
        return "not separable"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def audit(
    X: FeaturesLike,
    y: LabelsLike,
    estimator: PRIL | MPRIL | None = None,
    *,
    classes: ArrayLike | None = None,
) -> Audit:
    """Run a learner once over a stream and compare it with every bound that applies.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends.
    estimator : PRIL or MPRIL, default=None
        The learner; a clone of it is run, without averaging. None is `PRIL`.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y.

    Returns
    -------
    audit : Audit
        Facts and bounds; print it, or take `to_frame()`.

    Examples
    --------
    >>> from pril.paper.theory import audit
    >>> print(audit([[-1.1], [1.2], [-2.3]], [1, 2, 1]))  # doctest: +NORMALIZE_WHITESPACE
    rounds                                         3
    mistakes                                       1
    violated constraints                           1
    interval loss                                  1
    longest row, R                               2.3
    narrowest label, c                             0
    classes, K                                     2
    margin, l2                               1.14857
    ----------------------------------------------------------------------
                                            observed         bound    room
    Theorem 1, separable                           1       4.76804   79.0%
    Theorem 2, any comparator                      1       2.93495   65.9%
    Theorem 3, regret                              0         10.54  100.0%
    Theorem 3, step for sqrt(T)                    0       6.45777  100.0%
    """
    estimator = PRIL() if estimator is None else estimator
    if isinstance(estimator, PRIL):
        estimator = clone(estimator).set_params(average=False)
    learner, stream, progress = run(estimator, X, y, classes)
    multiplicative = isinstance(learner, MPRIL)
    norm: Literal["l1", "l2"] = "l1" if multiplicative else "l2"
    nonnegative = multiplicative and not learner.signed
    largest = margin(stream.X, stream.y, norm, nonnegative, classes=stream.classes)
    facts: dict[str, Any] = {
        "rounds": learner.t_,
        "mistakes": learner.n_mistakes_,
        "violated constraints": learner.n_updates_,
        "interval loss": int(progress.losses.sum()),
        "longest row, R": stream.radius,
        "narrowest label, c": stream.min_width,
        "classes, K": len(stream.classes),
        f"margin, {norm}": largest.gamma,
    }
    if multiplicative:
        more_facts, bounds = _multiplicative_audit(learner, stream, largest.gamma)
        return Audit(facts | more_facts, bounds)
    return Audit(facts, _additive_bounds(learner, stream, largest))


def _additive_bounds(learner: PRIL, stream: Constraints, largest: Margin) -> list[Bound]:
    """Return Theorems 1 to 3 for a run of PRIL."""
    X, y, classes, violated = stream.X, stream.y, stream.classes, learner.n_updates_
    bounds = []
    if largest.separable:
        bound = mistake_bound(stream.radius, largest.gamma, len(classes), stream.min_width)
        bounds.append(Bound("Theorem 1, separable", violated, bound))
    w, theta = largest.w, largest.theta
    if w is None or theta is None:
        model = PRIL(classes=classes, random_state=0).fit(X, y)
        w, theta = model.coef_, model.thresholds_
    if stream.signs.any() and (w.any() or theta.any()):
        bound = general_mistake_bound(X, y, w, theta, classes=classes)
        bounds.append(Bound("Theorem 2, any comparator", violated, bound))
    size = float(np.linalg.norm(np.concatenate([learner.coef_, learner.thresholds_])))
    found = regret(learner, X, y, max(size, 1.0), classes=classes)
    bounds.append(Bound("Theorem 3, regret", found.regret, found.bound))
    bounds.append(Bound("Theorem 3, step for sqrt(T)", found.scaled_regret, found.scaled_bound))
    return bounds


def _multiplicative_audit(
    learner: MPRIL, stream: Constraints, gamma: float
) -> tuple[dict[str, Any], list[Bound]]:
    """Return more facts about a run of M-PRIL, and Theorem 4 for its rate, whatever it is.

    The bound is ``log(N) / (rate gamma - log cosh(rate C))``.
    """
    bounded = bool(np.abs(stream.X).max() <= 1.0)
    facts: dict[str, Any] = {"features within [-1, 1]": bounded}
    if not bounded or gamma == 0:
        return facts, []
    K, c, rate = len(stream.classes), stream.min_width, learner.rate
    C = n_constraints(K, c)
    facts["rate"] = rate
    facts["the theorem's rate"] = multiplicative_step(gamma, K, c) if gamma <= C else math.inf
    experts = (K + stream.X.shape[1] - 1) * (2 if learner.signed else 1)
    gain = rate * gamma - (np.logaddexp(rate * C, -rate * C) - math.log(2))
    gain -= 8 * np.finfo(np.float64).eps * (rate * (C + gamma) + 1)  # the most that rounding adds
    bound = rounded_up(log_rounded_up(experts) / exactly(gain)) if gain > 0 else math.inf
    return facts, [Bound("Theorem 4, at this step", learner.n_updates_, bound if C else 0.0)]
