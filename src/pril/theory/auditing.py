"""A run of a learner, its regret, and how it compares with the bounds of the theorems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from pril.errors import InputTypeError
from pril.evaluate import Progress, progressive
from pril.learners.linear import MPRIL, PRIL
from pril.theory.bounds import (
    Constraints,
    checked_positive,
    exactly,
    general_mistake_bound,
    log_rounded_up,
    mistake_bound,
    multiplicative_step,
    n_constraints,
    printed,
    read_constraints,
    regret_bound,
    root_rounded_up,
    rounded_up,
    squared_gradient,
)
from pril.theory.margins import Margin, margin

__all__ = ["Audit", "Bound", "Regret", "audit", "regret"]


def run(estimator: Any, X: Any, y: Any, classes: Any) -> tuple[Any, Constraints, Progress]:
    """Run a clone of a learner once over a stream; the theorems are about PRIL and M-PRIL only."""
    if not isinstance(estimator, (PRIL, MPRIL)):
        raise InputTypeError(
            f"there are bounds for PRIL and MPRIL only, got {type(estimator).__name__}"
        )
    learner: Any = clone(estimator)
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


def regret(estimator: PRIL | MPRIL, X: Any, y: Any, norm: float, *, classes: Any = None) -> Regret:
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
    >>> from pril.theory import regret
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

    def __str__(self) -> str:
        lines = [f"{name:<34}{_fact(name, value):>14}" for name, value in self.facts.items()]
        lines += ["-" * 70, f"{'':<34}{'observed':>14}{'bound':>14}{'room':>8}"]
        lines += [
            f"{b.name:<34}{b.observed:>14.6g}{printed(b.bound):>14}{b.room:>8.1%}"
            for b in self.bounds
        ]
        return "\n".join(lines)


def _fact(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name.startswith("margin") and value == 0:
        return "not separable"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def audit(X: Any, y: Any, estimator: PRIL | MPRIL | None = None, *, classes: Any = None) -> Audit:
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
    >>> from pril.theory import audit
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
