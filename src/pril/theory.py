"""The paper's analysis as functions: margins, mistake bounds, regret; as printed and corrected.

Notation: K classes, labels ``[l, r]`` of width ``r - l`` at least c, ``C = K - c - 1`` the most
constraints a round can violate, R the largest length of a row, v = (w, theta). A comparator has
margin gamma if ``z_i (w . x - theta_i) >= gamma`` for every constraint i of every row. The errors
of the paper, and the proofs of the corrected statements, are in ``docs/background/theory.md``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from scipy.optimize import linprog, minimize_scalar, nnls
from sklearn.base import clone
from sklearn.utils import check_array

from pril import _ranks
from pril._rows import check_cells
from pril.errors import InputError, InputTypeError
from pril.evaluate import progressive
from pril.linear import MPRIL, PRIL

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = [
    "Audit",
    "Bound",
    "Margin",
    "Regret",
    "audit",
    "general_mistake_bound",
    "margin",
    "mistake_bound",
    "multiplicative_mistake_bound",
    "multiplicative_step",
    "regret",
    "regret_bound",
]

NEGLIGIBLE = 1e-9  # a margin below this share of the longest row counts as zero
MOST_ADDED = 200  # constraints added to the solver's working set at a time
MOST_ORDERS = 10  # column orders to try when the solver returns a wrong answer


# --- A stream and its constraints ----------------------------------------------------------------


class _Stream(NamedTuple):
    """Rows and their constraints: signs[t, i] is z_i of row t, 0 where there is no constraint."""

    X: Array
    signs: Array
    classes: Array
    intervals: Array

    @property
    def radius(self) -> float:
        return float(np.sqrt((self.X * self.X).sum(axis=1).max()))

    @property
    def min_width(self) -> int:
        return int((self.intervals[:, 1] - self.intervals[:, 0]).min())

    @property
    def y(self) -> Array:
        """The labels, as lower and upper ends."""
        return self.classes[self.intervals]

    def margins(self, w: Array, theta: Array) -> Array:
        """Return z_i (w . x_t - theta_i), infinite where there is no constraint."""
        signed = self.signs * ((self.X @ w)[:, np.newaxis] - theta)
        return np.where(self.signs == 0, np.inf, signed)


def _read(X: Any, y: Any, classes: Any) -> _Stream:
    check_cells(X)
    X = check_array(X, dtype=np.float64)
    order, intervals = _ranks.encode(_ranks.read(y), classes)
    _ranks.check_length(intervals, X)
    labelled = _ranks.is_labelled(intervals)  # the others are no rounds
    if not labelled.any():
        raise InputError("y has no label in any row: there is no round to speak of")
    X, intervals = X[labelled], intervals[labelled]
    i = np.arange(len(order) - 1)
    signs = (i < intervals[:, :1]).astype(np.int64) - (i >= intervals[:, 1:])
    return _Stream(X, signs, order, intervals)


# --- Margins -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Margin:
    """The largest margin of a stream and the comparator that has it.

    Attributes
    ----------
    gamma : float
        The margin: 0 if no comparator satisfies every constraint, infinite if there are no
        constraints.
    w : ndarray of shape (n_features,) or None
        Weights of the comparator, None if the margin is 0.
    theta : ndarray of shape (n_classes - 1,) or None
        Its thresholds.
    """

    gamma: float
    w: Array | None
    theta: Array | None

    @property
    def separable(self) -> bool:
        """Whether some comparator satisfies every constraint with a positive margin."""
        return self.gamma > 0

    def __str__(self) -> str:
        if not self.separable:
            return "not separable: no weights and thresholds were found that satisfy every interval"
        return f"separable with margin {self.gamma:.6g}"


def margin(
    X: Any,
    y: Any,
    norm: Literal["l2", "l1"] = "l2",
    nonnegative: bool = False,
    *,
    classes: Any = None,
) -> Margin:
    """Find the largest margin that a comparator of unit norm can have on a stream.

    The l2 problem is a least-distance problem, solved by SciPy's non-negative least squares; the
    l1 problem is a linear program, solved by HiGHS. Both start with the most violated constraints
    and add more until none is missing. The margin is then computed from all rows, so it is never
    overstated. Where the largest margin is less than 1e-9 of the longest row, the result may be a
    smaller one.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends.
    norm : {"l2", "l1"}, default="l2"
        The norm in which (w, theta) has length one: l2 for PRIL, l1 for M-PRIL.
    nonnegative : bool, default=False
        Whether weights and thresholds must not be negative, as plain M-PRIL's are.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes them from y.

    Returns
    -------
    margin : Margin
        The margin and its comparator.

    Examples
    --------
    >>> from pril.theory import margin
    >>> found = margin([[-1.0], [1.0]], [1, 2])
    >>> round(found.gamma, 6)
    1.0
    >>> print(margin([[1.0], [1.0]], [1, 2]))
    not separable: no weights and thresholds were found that satisfy every interval
    """
    if norm not in ("l2", "l1"):
        raise InputError(f"norm must be 'l2' or 'l1', got {norm!r}")
    stream = _read(X, y, classes)
    if not stream.signs.any():
        w = np.zeros(stream.X.shape[1])
        w[0] = 1.0
        return Margin(math.inf, w, np.zeros(stream.signs.shape[1]))
    largest = _largest_margin(stream, norm, nonnegative)
    if largest.separable or nonnegative:
        return largest
    # For rows far from the origin the margin is too small for the solvers. Thresholds absorb a
    # shift of the rows, so solve the problem for centred rows and shift the comparator back.
    centre, spread = stream.X.mean(axis=0), np.ptp(stream.X, axis=0).max() or 1.0
    centred = stream._replace(X=(stream.X - centre) / spread)
    comparator = _largest_margin(centred, norm, nonnegative)
    if comparator.w is None or comparator.theta is None:
        return largest
    w = comparator.w / spread
    v = np.concatenate([w, comparator.theta + w @ centre])
    v /= np.linalg.norm(v, 2 if norm == "l2" else 1)
    w, theta = v[: len(w)], v[len(w) :]
    gamma = float(stream.margins(w, theta).min())
    return Margin(gamma, w, theta) if gamma > 0 else largest


def _largest_margin(stream: _Stream, norm: str, nonnegative: bool) -> Margin:
    """Return the largest margin, 0 where the solvers cannot tell it from 0."""
    n_features, n_cuts = stream.X.shape[1], stream.signs.shape[1]
    scale = max(1.0, stream.radius)  # the solvers get rows of length 1 at most
    solve = _least_distance if norm == "l2" else _linear_program
    chosen = np.zeros(stream.signs.shape, dtype=bool)
    margins = stream.margins(np.zeros(n_features), np.zeros(n_cuts))
    chosen[_most_violated(margins, 0.0, chosen)] = True
    best = Margin(0.0, None, None)
    while True:
        t, i = np.nonzero(chosen)
        rows = np.zeros((len(t), n_features + n_cuts))
        rows[:, :n_features] = stream.X[t]
        rows[np.arange(len(t)), n_features + i] = -1.0
        rows *= stream.signs[t, i, np.newaxis] / scale
        v = solve(rows, nonnegative)
        if v is None:
            return best
        v /= np.linalg.norm(v, 2 if norm == "l2" else 1)
        w, theta = v[:n_features], v[n_features:]
        margins = stream.margins(w, theta)
        if margins.min() > max(best.gamma, NEGLIGIBLE * scale):
            best = Margin(float(margins.min()), w, theta)
        # With these constraints alone, no larger margin is possible.
        possible = margins[chosen].min()
        more = _most_violated(margins, possible - NEGLIGIBLE * scale, chosen)
        if not more[0].size:
            return best
        chosen[more] = True


def _most_violated(margins: Array, limit: float, chosen: Array) -> tuple[Array, ...]:
    """Return the smallest margins up to a limit, of constraints that are not chosen yet."""
    waiting = np.where(chosen, np.inf, margins)
    below = np.flatnonzero(waiting <= limit)
    least = below[np.argsort(waiting.ravel()[below], kind="stable")[:MOST_ADDED]]
    return np.unravel_index(least, margins.shape)


def _least_distance(rows: Array, nonnegative: bool) -> Array | None:
    """Return the shortest v with rows @ v >= 1, or None (Lawson and Hanson, chapter 23)."""
    goal = np.ones(len(rows))
    if nonnegative:
        rows = np.vstack([rows, np.eye(rows.shape[1])])
        goal = np.concatenate([goal, np.zeros(rows.shape[1])])
    system = np.vstack([rows.T, goal])
    target = np.zeros(len(system))
    target[-1] = 1.0
    residual = _checked_nnls(system, target)
    if np.linalg.norm(residual) < NEGLIGIBLE:
        return None
    v: Array = -residual[:-1] / residual[-1]
    return np.maximum(v, 0.0) if nonnegative else v


def _checked_nnls(system: Array, target: Array) -> Array:
    """Return the smallest residual that a non-negative combination of the columns leaves.

    SciPy's nnls, from 1.15 on, does not find the minimum of one problem in some thousand (SciPy
    issue 25389). So check the conditions for a minimum; if they fail, reorder the columns.
    """
    rng, order = np.random.default_rng(0), np.arange(system.shape[1])
    least = -target
    for _ in range(MOST_ORDERS):
        columns = system[:, order]
        u, _ = nnls(columns, target, maxiter=30 * len(order))
        residual = columns @ u - target
        if np.linalg.norm(residual) < np.linalg.norm(least):
            least = residual
        slope = columns.T @ residual
        if slope.min() >= -NEGLIGIBLE and np.abs(slope[u > 0]).max(initial=0.0) <= NEGLIGIBLE:
            break
        rng.shuffle(order)
    return least


def _linear_program(rows: Array, nonnegative: bool) -> Array | None:
    """Return the v of l1 norm one whose smallest entry of rows @ v is largest, if positive."""
    signed = rows if nonnegative else np.hstack([rows, -rows])
    n = signed.shape[1]
    solution = linprog(
        c=np.append(np.zeros(n), -1.0),
        A_ub=np.vstack([np.hstack([-signed, np.ones((len(rows), 1))]), np.append(np.ones(n), 0.0)]),
        b_ub=np.append(np.zeros(len(rows)), 1.0),
        bounds=[(0, None)] * n + [(0, None)],
        method="highs",
    )
    if solution.x is None or solution.x[-1] <= NEGLIGIBLE:
        return None
    parts = solution.x[:-1]
    v: Array = parts if nonnegative else parts[: n // 2] - parts[n // 2 :]
    return v


# --- Bounds --------------------------------------------------------------------------------------


def _constraints(n_classes: Any, min_width: Any) -> int:
    """Return C = K - c - 1, the most constraints that a round can violate."""
    if not isinstance(n_classes, Integral) or n_classes < 1:
        raise InputError(f"n_classes must be at least 1, got {n_classes!r}")
    if not isinstance(min_width, Integral) or not 0 <= int(min_width) <= int(n_classes) - 1:
        raise InputError(f"min_width must be between 0 and n_classes - 1, got {min_width!r}")
    return int(n_classes) - int(min_width) - 1


def _positive(name: str, value: float, *, zero: bool = False) -> float:
    if not (value > 0 or (zero and value == 0)):
        raise InputError(f"{name} must be {'at least 0' if zero else 'positive'}, got {value!r}")
    return float(value)


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
    >>> from pril.theory import mistake_bound
    >>> mistake_bound(radius=1.0, gamma=0.5, n_classes=3)
    16.0
    """
    C = _constraints(n_classes, min_width)
    radius, gamma = _positive("radius", radius, zero=True), _positive("gamma", gamma)
    return (radius**2 + 1) * C / gamma**2


def general_mistake_bound(
    X: Any,
    y: Any,
    w: ArrayLike,
    theta: ArrayLike,
    gamma: float | None = None,
    *,
    classes: Any = None,
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
    >>> from pril.theory import general_mistake_bound
    >>> round(general_mistake_bound([[-1.0], [1.0]], [1, 2], w=[1.0], theta=[0.0]), 6)
    2.0
    """
    stream = _read(X, y, classes)
    weights, cuts = (np.asarray(part, dtype=np.float64) for part in (w, theta))
    wanted = (stream.X.shape[1],), (stream.signs.shape[1],)
    if (weights.shape, cuts.shape) != wanted or not np.isfinite([*weights, *cuts]).all():
        raise InputError(
            f"w and theta must hold {wanted[0][0]} and {wanted[1][0]} finite numbers, got shapes "
            f"{weights.shape} and {cuts.shape}"
        )
    v = np.concatenate([weights, cuts])
    length = np.linalg.norm(v)
    C = _constraints(len(stream.classes), stream.min_width)
    if C == 0:
        return 0.0
    if length == 0:
        raise InputError("w and theta are all zero: such a comparator cannot be scaled")
    v /= length
    margins = stream.margins(v[: stream.X.shape[1]], v[stream.X.shape[1] :])[stream.signs != 0]
    reach = math.sqrt(stream.radius**2 + 1)

    def root(slope: float) -> float:
        """(D + sqrt(R^2 + 1)) / gamma at gamma = 1 / slope: convex, and finite at 0."""
        shortfalls = np.maximum(0.0, 1.0 - slope * margins)
        return float(np.linalg.norm(shortfalls) + reach * slope)

    if gamma is not None:
        return root(1.0 / _positive("gamma", gamma)) ** 2 * C
    smallest = minimize_scalar(
        root, bounds=(0.0, math.sqrt(len(margins)) / reach), method="bounded",
        options={"xatol": 1e-12},
    )  # fmt: skip
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
    >>> from pril.theory import regret_bound
    >>> regret_bound(1000, 1.0, 5, norm=20**0.5)
    10010.0
    >>> regret_bound(1000, 1.0, 5, norm=20**0.5, as_printed=True)
    4010.0
    """
    C = _constraints(n_classes, min_width)
    radius, norm = _positive("radius", radius, zero=True), _positive("norm", norm, zero=True)
    rounds = int(_positive("rounds", rounds, zero=True))
    square = C * (radius**2 + 1) if as_printed else _gradient(radius, C) ** 2
    return round((norm**2 + rounds * square) / 2, 9)


def _gradient(radius: float, C: int) -> float:
    """Return G, the largest length of a subgradient: G^2 = C^2 R^2 + C."""
    return math.sqrt(C**2 * radius**2 + C)


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
    >>> from pril.theory import multiplicative_mistake_bound
    >>> round(multiplicative_mistake_bound(10, 3, gamma=0.5), 2)
    101.7
    """
    C = _constraints(n_classes, min_width)
    gamma = _positive("gamma", gamma)
    if n_features < 1:
        raise InputError(f"n_features must be at least 1, got {n_features!r}")
    experts = n_classes + n_features - 1
    if as_printed:
        return C**2 * math.log(experts) / gamma**2
    return 2 * C**2 * math.log(2 * experts if signed else experts) / gamma**2


def multiplicative_step(gamma: float, n_classes: int, min_width: int = 0) -> float:
    """Return the step of M-PRIL for which Theorem 4 gives the smallest bound.

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
    eta : float
        The step.

    Examples
    --------
    >>> from pril.theory import multiplicative_step
    >>> round(multiplicative_step(gamma=0.5, n_classes=3), 4)
    0.1277
    """
    C = _constraints(n_classes, min_width)
    gamma = _positive("gamma", gamma)
    if C == 0:
        return math.inf
    if gamma > C:
        raise InputError(f"gamma is at most {C} here (features within [-1, 1]), got {gamma!r}")
    return math.inf if gamma == C else math.log((C + gamma) / (C - gamma)) / (2 * C)


# --- Regret --------------------------------------------------------------------------------------


def _linear(estimator: Any) -> PRIL | MPRIL:
    """Return a clone of a learner; the theorems are about PRIL and M-PRIL only."""
    if not isinstance(estimator, (PRIL, MPRIL)):
        raise InputTypeError(
            f"there are bounds for PRIL and MPRIL only, got {type(estimator).__name__}"
        )
    learner: PRIL | MPRIL = clone(estimator)
    return learner


def _named_classes(learner: PRIL | MPRIL, classes: Any) -> Any:
    """Return the classes of the call or of the learner; if both have them, they must agree."""
    if classes is None or learner.classes is None:
        return learner.classes if classes is None else classes
    one, other = _ranks.check_classes(classes), _ranks.check_classes(learner.classes)
    if not np.array_equal(one, other):
        raise InputError(
            f"classes are {_ranks.named(one)} here and {_ranks.named(other)} on the estimator"
        )
    return classes


class Regret(NamedTuple):
    """The loss of a learner minus that of the best fixed model, and the bound of Theorem 3.

    A run with step eta is eta times the run with step 1, and so are its losses.
    """

    regret: float  # summed surrogate loss, minus that of the best fixed model
    best: float  # summed surrogate loss of the best fixed model: 0
    bound: float  # Theorem 3, corrected
    step: float  # eta = norm / (G sqrt(T)), which gives the sqrt(T) rate
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
    >>> found = regret(PRIL(average=False), X, y, norm=20**0.5, classes=range(1, 6))
    >>> found.regret, found.bound
    (10000.0, 10010.0)
    """
    learner = _linear(estimator)
    stream = _read(X, y, _named_classes(learner, classes))
    norm = _positive("norm", norm)
    learner.set_params(classes=None)
    progress = progressive(learner, stream.X, stream.y, classes=stream.classes)
    loss = float(progress.hinge_losses.sum())
    T, K, c = len(stream.X), len(stream.classes), stream.min_width
    gradient = _gradient(stream.radius, _constraints(K, c))
    step = norm / (gradient * math.sqrt(T)) if gradient > 0 else math.inf
    return Regret(
        regret=loss,
        best=0.0,
        bound=regret_bound(T, stream.radius, K, c, norm=norm),
        step=step,
        scaled_regret=step * loss if loss > 0 else 0.0,
        scaled_bound=norm * gradient * math.sqrt(T),
    )


# --- Audit ---------------------------------------------------------------------------------------


class Bound(NamedTuple):
    """One bound and the number that it bounds, as observed."""

    name: str
    observed: float
    bound: float

    @property
    def room(self) -> float:
        """Share of the bound that the observed number leaves free."""
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
            f"{b.name:<34}{b.observed:>14.6g}{b.bound:>14.6g}{b.room:>8.1%}" for b in self.bounds
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
    >>> print(audit([[-1.0], [1.0], [-2.0]], [1, 2, 1]))  # doctest: +NORMALIZE_WHITESPACE
    rounds                                         3
    mistakes                                       2
    violated constraints                           2
    interval loss                                  1
    longest row, R                                 2
    narrowest label, c                             0
    classes, K                                     2
    margin, l2                                     1
    ----------------------------------------------------------------------
                                            observed         bound    room
    Theorem 1, separable                           2             5   60.0%
    Theorem 2, any comparator                      2       2.98051   32.9%
    Theorem 3, regret                              0           9.5  100.0%
    Theorem 3, step for sqrt(T)                    0       7.74597  100.0%
    """
    learner = _linear(PRIL() if estimator is None else estimator)
    stream = _read(X, y, _named_classes(learner, classes))
    learner.set_params(classes=None)
    multiplicative = isinstance(learner, MPRIL)
    if not multiplicative:
        learner.set_params(average=False)
    progress = progressive(learner, stream.X, stream.y, classes=stream.classes)
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


def _additive_bounds(learner: PRIL, stream: _Stream, largest: Margin) -> list[Bound]:
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
    run = regret(learner, X, y, max(size, 1.0), classes=classes)
    bounds.append(Bound("Theorem 3, regret", run.regret, run.bound))
    bounds.append(Bound("Theorem 3, step for sqrt(T)", run.scaled_regret, run.scaled_bound))
    return bounds


def _multiplicative_audit(
    learner: MPRIL, stream: _Stream, gamma: float
) -> tuple[dict[str, Any], list[Bound]]:
    """Return more facts about a run of M-PRIL, and Theorem 4."""
    bounded = bool(np.abs(stream.X).max() <= 1.0)
    facts: dict[str, Any] = {"features within [-1, 1]": bounded}
    if not bounded or gamma == 0:
        return facts, []
    K, c = len(stream.classes), stream.min_width
    reachable = gamma <= _constraints(K, c)
    facts["step, eta"] = learner.eta
    facts["the theorem's step"] = multiplicative_step(gamma, K, c) if reachable else math.inf
    bound = _bound_at_step(learner, stream, gamma)
    return facts, [Bound("Theorem 4, at this step", learner.n_updates_, bound)]


def _bound_at_step(learner: MPRIL, stream: _Stream, gamma: float) -> float:
    """Return Theorem 4's bound for any step: log(N) / (eta gamma - log cosh(eta C))."""
    C = _constraints(len(stream.classes), stream.min_width)
    if C == 0:
        return 0.0
    experts = (len(stream.classes) + stream.X.shape[1] - 1) * (2 if learner.signed else 1)
    gain = learner.eta * gamma - _log_cosh(learner.eta * C)
    return math.log(experts) / gain if gain > 0 else math.inf


def _log_cosh(a: float) -> float:
    return abs(a) + math.log1p(math.exp(-2 * abs(a))) - math.log(2)
