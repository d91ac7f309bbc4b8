"""The regret of a run."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from sklearn.base import clone

from pril.errors import InputTypeError
from pril.evaluate import Progress, progressive
from pril.learners.mpril import MPRIL
from pril.learners.pril import PRIL
from pril.theory.bounds import checked_positive, n_constraints, regret_bound, squared_gradient
from pril.theory.constraints import Constraints, read_constraints
from pril.theory.exact import exactly, root_rounded_up


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
