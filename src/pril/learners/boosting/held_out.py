"""What held-out scores show: how much starts count, how classes become labels, and thresholds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.links import LOGIT
from pril.learners.boosting import compiled
from pril.likelihood.fitting import Fitting, Settings
from pril.likelihood.mechanisms import Mechanism, Offsets, Random
from pril.likelihood.newton import DAMPING, LEAST_DAMPING, ROUNDING, Maximum, newton_step, ordered
from pril.likelihood.priors import CLASS_ROWS, ClassShares, Priors, evenly_shared
from pril.likelihood.rows import Block, Frame, InMemory, total
from pril.likelihood.sums import KindSums, Point, Sums, assembled

MIX_ALPHA = 0.03  # the penalty of weights of starts, which are drawn to the same
MOST_STEPS = 100  # to a maximum; more are hardly ever needed
MOST_SAMPLED = 250  # rows that show the shares of the classes in a round
# In a round, thresholds and logits of shares move by no more: trees will change the scores again.
LONGEST_STEP, MOST_TRIED = 1.0, 8
TINY = 1e-12  # in the spread of scores


class Chosen(NamedTuple):
    """How classes become labels, and where thresholds are."""

    mechanism: Mechanism
    phi: Array
    theta: Array
    evidence: float | None = None  # for offsets
    damping: float = 0.0  # of the last step

    @property
    def M(self) -> Array:
        """The chances of labels, see `compiled`."""
        return self.mechanism.table(self.phi).M

    @property
    def first(self) -> Array:
        """Where the chances of each kind begin; -1 if they are alike."""
        cells = self.mechanism.cells
        return np.where(cells.varies, cells.first, -1)

    @property
    def is_random(self) -> bool:
        """Whether nothing is known of labels but the classes in them."""
        return isinstance(self.mechanism, Random)

    def without_direction(self) -> Self:
        """Return as often up as down, if no label is exact: starts would find a direction again."""
        kinds = self.mechanism.kinds
        if not isinstance(self.mechanism, Offsets) or kinds.exact.any():
            return self
        return self._replace(phi=self.phi * [1.0, 1.0, 0.0, 0.0])


class HeldOut(Fitting):
    """Held-out scores, and what a fit of them is asked for."""

    @cached_property
    def priors(self) -> Priors:
        """Those of a fit that learns a mechanism."""
        shares = evenly_shared(self.kinds, self.rows.weights)
        sample = self.compared.sample(MOST_SAMPLED).whole
        ridge = self.settings.alpha * self.frame.scale**2
        return Priors(np.where(ridge > 0.0, ridge, 1.0), ClassShares(sample, CLASS_ROWS * shares))


def mix(
    scores: Array,
    group: Array,
    weight: Array,
    kinds: Kinds,
    asked: Settings,
    known: Chosen | None = None,
) -> tuple[Array, Chosen]:
    """Return how much each start counts, none of them below 0, and what held-out scores show.

    The mechanism is chosen, unless it is known.
    """
    counts = np.ones(scores.shape[1])
    while True:
        used = scores[:, counts > 0.0]
        n, size = used.shape[1], float(used.std(axis=0).mean()) + TINY
        rows = InMemory(used / size, group, weight, kinds, used.mean(axis=1))
        held_out = HeldOut(rows, asked)
        if known is None:
            begun = held_out.begin()
            problem, start, evidence = begun.problem, begun.maximum, begun.gained
        else:
            problem, evidence = held_out.problem(rows, known.mechanism), known.evidence
            start = Maximum(np.concatenate([np.zeros(n), known.phi, known.theta]))
        best = problem.fit(start, MOST_STEPS)
        w, phi, theta = problem.split(best.x)
        w, centre = w * problem.frame.scale, problem.frame.centre
        known = Chosen(problem.mechanism, phi, theta + centre @ w, evidence)
        counts[counts > 0.0] = np.maximum(1.0 / n + w / size, 0.0)
        if np.count_nonzero(counts) in (0, n):
            return counts, known


# --- Rounds --------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What the held-out rows of a fold show after a round."""

    sums: KindSums
    scores: Array  # of a sample of them
    weight: Array


def sums_of(scores: Array, rows: compiled.Rows, some: Array, theta: Array, M: Array) -> KindSums:
    """Return the sums of some rows that have such scores."""
    widest = int((rows.ends[:, 1] - rows.ends[:, 0])[rows.first >= 0].max(initial=0))
    kinds, m = len(rows.ends), widest + 2
    q = 2 * m - 1 if len(M) else m
    first, outer = np.zeros((kinds, q)), np.zeros((kinds, q, q))
    second, mixed = np.zeros((2, kinds, m))
    cut = np.concatenate([[-np.inf], theta, [np.inf]])
    value = compiled.add_kind_sums(
        scores, rows.group[some], rows.weight[some], rows.ends, rows.first, cut, M,
        first, outer, second, mixed,
    )  # fmt: skip
    none = np.empty((0, 0))
    return KindSums(value, np.empty(0), none, none, first, outer, second, mixed, np.zeros(2))


def improved(
    known: Chosen, weights: Array, shown: list[Shown], look: Callable[[Array, Array], KindSums]
) -> tuple[float, Chosen]:
    """Take a Newton step given what all folds show; return the mean loss, and what is known there.

    The step is damped until the posterior does not fall. Weights are those of the kinds, and `look`
    returns the sums of all held-out rows with other thresholds and chances.
    """
    mechanism, kinds = known.mechanism, known.mechanism.kinds
    scores, weight = (np.concatenate([fold[j] for fold in shown]) for j in (1, 2))
    sample = Block(np.empty((len(scores), 0)), np.zeros(len(scores), dtype=int), weight, scores)
    shares = ClassShares(sample, CLASS_ROWS * evenly_shared(kinds, weights))
    priors, n = Priors(np.empty(0), shares), len(known.phi)

    def posterior(x: Array, sums: KindSums) -> tuple[float, Sums]:
        """Return the log-likelihood, and the log posterior with its derivatives."""
        phi, theta = x[:n], x[n:]
        table = mechanism.table(phi)
        point = Point(LOGIT, Frame.of_scores(), np.empty(0), theta, mechanism.cells, table.M)
        own = assembled(sums, mechanism.cells, table, 0)
        return own.value, own.plus(priors.at(point, phi, mechanism))

    x, damping = np.concatenate([known.phi, known.theta]), known.damping
    loglik, here = posterior(x, total([fold.sums for fold in shown], KindSums.plus))
    for _ in range(MOST_TRIED):
        step, _ = newton_step(here, x, damping)
        step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max(initial=0.0)), TINY))
        step = ordered(x, step, len(known.theta))
        further, there = posterior((x + step), look(*_numbers(mechanism, x + step, n)))
        if there.value >= here.value - ROUNDING * abs(here.value):
            loglik, x = further, x + step
            damping = damping / DAMPING if damping > LEAST_DAMPING else 0.0
            break
        damping = max(DAMPING * damping, LEAST_DAMPING)
    log, _ = mechanism.frequencies(weights)
    loss = -(loglik + float(log @ weights)) / float(weights.sum())
    return loss, known._replace(phi=x[:n], theta=x[n:], damping=damping)


def _numbers(mechanism: Mechanism, x: Array, n: int) -> tuple[Array, Array]:
    """Return thresholds and chances."""
    return x[n:], mechanism.table(x[:n]).M
