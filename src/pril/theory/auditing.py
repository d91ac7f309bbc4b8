"""A run of a learner, compared with the bounds of the theorems."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from sklearn.base import clone

from pril.learners.mpril import MPRIL
from pril.learners.pril import PRIL
from pril.theory.bounds import (
    general_mistake_bound,
    mistake_bound,
    multiplicative_step,
    n_constraints,
)
from pril.theory.constraints import Constraints
from pril.theory.exact import exactly, log_rounded_up, printed, rounded_up
from pril.theory.margins import Margin, margin
from pril.theory.regrets import regret, run


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
