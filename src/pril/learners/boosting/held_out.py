"""What held-out scores show: how much starts count, how classes become labels, and thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import NamedTuple, Self

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.links import LOGIT
from pril.core.rows import frozen
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import Labels
from pril.likelihood.fitting import Fit, Fitting, Settings
from pril.likelihood.mechanisms import Cells, Mechanism, Offsets, Random
from pril.likelihood.newton import DAMPING, LEAST_DAMPING, ROUNDING, Maximum, newton_step, ordered
from pril.likelihood.priors import CLASS_ROWS, ClassShares, Priors, evenly_shared
from pril.likelihood.rows import Block, Frame, InMemory
from pril.likelihood.sums import KindSums, Point, Sums, assembled

MOST_SAMPLED = 250  # rows that show the shares of the classes in a round
# In a round, thresholds and logits of shares move by no more: trees will change the scores again.
LONGEST_STEP = 1.0
TINY = 1e-12  # in the spread of scores


def labels_of(cells: Cells, theta: Array, M: Array) -> Labels:
    """Return what labels say with such thresholds, of one model or of several, and chances M."""
    cuts = cells.cuts
    chance = np.ones((len(cuts), cuts.shape[1] - 1))
    chance[cells.kind, np.arange(len(M)) - cells.first[cells.kind]] = M
    edges = [*theta.shape[:-1], 1]
    cut = np.concatenate([np.full(edges, -np.inf), theta, np.full(edges, np.inf)], axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):  # cuts that are repeated are not used
        gap = -np.expm1(cut[..., cuts[:, :-1]] - cut[..., cuts[:, 1:]])
        return Labels(*map(frozen, (cuts, cells.n_cuts, np.exp(-cut), gap, chance)))


class Known(NamedTuple):
    """How classes become labels, and where thresholds are."""

    mechanism: Mechanism
    phi: Array
    theta: Array
    evidence: float | None = None  # for offsets
    damping: float = 0.0  # of the last step

    @property
    def chances(self) -> Array:
        """The chances of labels: M of a mechanism."""
        return self.mechanism.table(self.phi).M

    @property
    def labels(self) -> Labels:
        """What labels say."""
        return labels_of(self.mechanism.cells, self.theta, self.chances)

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


def kind_sums(e: Array, kind: Array, weight: Array, labels: Labels) -> KindSums:
    """Return the sums of rows that have scores, and no features; e is exp(score) of each."""
    kinds, m = labels.cuts.shape
    q = 2 * m - 1 if m > 2 else m  # else, no chances vary
    sums = np.zeros((kinds, q)), np.zeros((kinds, q, q)), np.zeros((kinds, m)), np.zeros((kinds, m))
    value = compiled.add_kind_sums(e, kind, weight, labels, *sums)
    nothing = np.zeros((0, 0))
    return KindSums(value, nothing[0:0].ravel(), nothing, nothing, *sums, np.zeros(2))


def mix(
    scores: Array, kind: Array, weight: Array, kinds: Kinds, asked: Settings, known: Known | None
) -> tuple[Array, Known]:
    """Return how much each start counts, none of them below 0, and what held-out scores show.

    The weights of the starts are drawn to the same. The mechanism is chosen, unless it is known.
    """
    counts = np.ones(scores.shape[1])
    while True:
        used = scores[:, counts > 0.0]
        n, size = used.shape[1], float(used.std(axis=0).mean()) + TINY
        fitting = Fitting(InMemory(used / size, kind, weight, kinds, used.mean(axis=1)), asked)
        if known is None:
            found = fitting.begin()
            evidence = found.gained
        else:
            begin = Maximum(np.concatenate([np.zeros(n), known.phi, known.theta]))
            problem = fitting.problem(fitting.rows, known.mechanism)
            found, evidence = Fit(problem, begin, fitting.scale), known.evidence
        if not found.maximum.converged:
            found = replace(found, maximum=found.problem.fit(found.maximum, asked.max_iter))
        known = Known(found.problem.mechanism, found.phi, found.theta, evidence)
        counts[counts > 0.0] = np.maximum(1.0 / n + found.w / size, 0.0)
        if np.count_nonzero(counts) in (0, n):
            return counts, known


# --- Rounds --------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What the held-out rows of a fold show after a round."""

    sums: KindSums
    scores: Array  # of a sample of them
    weight: Array


def improved(
    known: Known, weights: Array, shown: list[Shown], look: Callable[[Labels], list[KindSums]]
) -> tuple[float, Known]:
    """Take a Newton step given what all folds show; return the log-likelihood, and what is known.

    If the posterior would fall, nothing changes, and the step of the next round is damped. Weights
    are those of the kinds, and `look` returns what the rows of each fold say.
    """
    mechanism, cells, n = known.mechanism, known.mechanism.cells, len(known.phi)
    scores, weight = (np.concatenate([fold[j] for fold in shown]) for j in (1, 2))
    sample = Block(np.empty((len(scores), 0)), np.zeros(len(scores), dtype=int), weight, scores)
    shares = CLASS_ROWS * evenly_shared(mechanism.kinds, weights)
    priors = Priors(np.empty(0), ClassShares(sample, shares))

    def prior(at: Known) -> Sums:
        frame = Frame.of_scores()
        point = Point(LOGIT, frame, np.empty(0), at.theta, cells, at.chances)
        return priors.at(point, at.phi, mechanism)

    no_features = np.zeros((0, cells.kinds.n_classes + 1 + len(known.chances)))
    sums = reduce(KindSums.plus, [fold.sums for fold in shown])._replace(by_w_local=no_features)
    here = assembled(sums, cells, mechanism.table(known.phi)).plus(prior(known))
    x, damping = np.concatenate([known.phi, known.theta]), known.damping
    step, _ = newton_step(here, x, damping)
    step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max(initial=0.0)), TINY))
    there = x + ordered(x, step, len(known.theta))
    tried = known._replace(phi=there[:n], theta=there[n:])
    loglik = sum(fold.value for fold in look(tried.labels))
    if loglik + prior(tried).value < here.value - ROUNDING * abs(here.value):
        return sums.value, known._replace(damping=max(DAMPING * damping, LEAST_DAMPING))
    damping = damping / DAMPING if damping > LEAST_DAMPING else 0.0
    return loglik, tried._replace(damping=damping)
