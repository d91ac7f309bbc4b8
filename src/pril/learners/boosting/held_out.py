"""What held-out scores show: how much starts count, how classes become labels, and thresholds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.links import LOGIT
from pril.core.rating import exp_of
from pril.learners.boosting import compiled
from pril.likelihood.fitting import FitSettings, Fitting, Problem
from pril.likelihood.mechanisms import Cells, Mechanism, Offsets, Random
from pril.likelihood.newton import DAMPING, LEAST_DAMPING, ROUNDING, Maximum, newton_step, ordered
from pril.likelihood.priors import CLASS_ROWS, ClassShares, Priors, evenly_shared
from pril.likelihood.rows import Block, Frame, InMemory, Rows, total
from pril.likelihood.sums import KindSums, Point, Sums, assembled

MIX_ALPHA = 0.03  # the penalty of weights of starts, which are drawn to the same
MOST_STEPS = 100  # to a maximum; more are hardly ever needed
GAIN = 1e-4  # of the log posterior: a last step that gains less changes nothing that is seen
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
    def chances(self) -> Array:
        """The chances M of labels, see `compiled`."""
        return self.mechanism.table(self.phi).M

    @property
    def first(self) -> Array:
        """Where the chances of each kind begin; -1 if they are alike."""
        return first_of(self.mechanism.cells)

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


def sums_of(Z: Array, e: Array, rows: compiled.Rows, theta: Array, M: Array) -> KindSums:
    """Return the sums of rows with such features; e is exp(score) of each."""
    ends, first, group, weight, _ = rows
    d, widest = Z.shape[1], int((ends[:, 1] - ends[:, 0])[first >= 0].max(initial=0))
    kinds, m = len(ends), widest + 2
    q = 2 * m - 1 if len(M) else m
    sums = (
        np.zeros(d), np.zeros((d, d)), np.zeros((d, len(theta) + 2 + len(M))),
        np.zeros((kinds, q)), np.zeros((kinds, q, q)), np.zeros((kinds, m)), np.zeros((kinds, m)),
    )  # fmt: skip
    z, cuts = np.empty(len(e)), compiled.cuts_of(theta, M, ends)
    compiled.add_kind_sums(Z, e, group, weight, ends, first, cuts, z, sums)
    return KindSums(float(weight @ np.log(z)), *sums, np.zeros(2))


def loglik_of(e: Array, rows: compiled.Rows, theta: Array, M: Array) -> float:
    """Return the log-likelihood of rows; e is exp(score) of each."""
    ends, first, group, weight, _ = rows
    z = np.empty(len(e))
    compiled.write_likelihoods(e, group, ends, first, compiled.cuts_of(theta, M, ends), z)
    return float(weight @ np.log(np.maximum(z, compiled.LEAST_LIKELIHOOD)))


@dataclass(frozen=True, eq=False)
class HeldOutProblem(Problem):
    """A problem of few features, whose sums compiled code finds."""

    rows: InMemory

    @cached_property
    def _known(self) -> tuple[Array, compiled.Rows]:
        """The rows in the frame, and what is known of them, as folds have it: compiled once."""
        cells, rows = self.mechanism.cells, self.rows
        kind, weight = rows.kind.astype(np.int32), rows.weight.astype(np.float32)
        known = compiled.Rows(cells.kinds.ends, first_of(cells), kind, weight, kind)
        return np.ascontiguousarray(self.frame.view(rows.X).dense()), known

    def loglik(self, x: Array) -> Sums:
        """Return the log-likelihood, but for what factors out, and its derivatives."""
        (w, phi, theta), (Z, rows) = self.split(x), self._known
        table = self.mechanism.table(phi)
        sums = sums_of(Z, exp_of(Z @ w + self.rows.offset), rows, theta, table.M)
        return assembled(sums, self.mechanism.cells, table)


def first_of(cells: Cells) -> Array:
    """Return where the chances of each kind begin; -1 if they are alike."""
    return np.where(cells.varies, cells.first, -1)


class HeldOut(Fitting):
    """Held-out scores, and what a fit of them is asked for."""

    rows: InMemory

    def problem(self, rows: Rows, mechanism: Mechanism) -> HeldOutProblem:
        """Return the problem of some rows."""
        some = rows.sample(rows.n_rows)  # all of them, in memory
        return HeldOutProblem(some, mechanism, self.priors, self.settings.link, self.frame)

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
    asked: FitSettings,
    known: Chosen | None = None,
) -> tuple[Array, Chosen]:
    """Return how much each start counts, none of them below 0, and what held-out scores show.

    The mechanism is chosen, unless it is known.
    """
    counts, settled = np.ones(scores.shape[1]), None
    while True:
        used = scores[:, counts > 0.0]
        n, size = used.shape[1], float(used.std(axis=0).mean()) + TINY
        rows = InMemory(used / size, group, weight, kinds, used.mean(axis=1))
        held_out = HeldOut(rows, asked)
        if known is None:
            begun = held_out.begin()
            problem, starts, evidence = begun.problem, [begun.maximum], begun.gained
        else:
            problem, evidence = held_out.problem(rows, known.mechanism), known.evidence
            starts = [Maximum(np.concatenate([np.zeros(n), known.phi, known.theta]))]
            if settled is None:  # scores are others: from there, a maximum may be a wrong one
                starts.append(Maximum(problem.starts()[0]))
        found = [problem.fit(start, MOST_STEPS, tolerance=GAIN) for start in starts]
        best = max(found, key=lambda one: one.value)
        w, phi, theta = problem.split(best.x)
        w, centre = w * problem.frame.scale, problem.frame.centre
        known = settled = Chosen(problem.mechanism, phi, theta + centre @ w, evidence)
        counts[counts > 0.0] = np.maximum(1.0 / n + w / size, 0.0)
        if np.count_nonzero(counts) in (0, n):
            return counts, known


# --- Rounds --------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What the held-out rows of a fold show after a round."""

    sums: KindSums
    scores: Array  # of a sample of them
    weight: Array


def improved(
    known: Chosen, weights: Array, shown: list[Shown], look: Callable[[Array, Array], float]
) -> tuple[float, Chosen]:
    """Take a Newton step given what all folds show; return the log-likelihood, and what is known.

    The step is damped until the posterior does not fall. Weights are those of the kinds, and `look`
    returns the log-likelihood of all held-out rows with other thresholds and chances.
    """
    mechanism, kinds = known.mechanism, known.mechanism.kinds
    scores, weight = (np.concatenate([fold[j] for fold in shown]) for j in (1, 2))
    sample = Block(np.empty((len(scores), 0)), np.zeros(len(scores), dtype=int), weight, scores)
    shares = ClassShares(sample, CLASS_ROWS * evenly_shared(kinds, weights))
    priors, n = Priors(np.empty(0), shares), len(known.phi)

    def prior(x: Array) -> Sums:
        M = mechanism.table(x[:n]).M
        point = Point(LOGIT, Frame.of_scores(), np.empty(0), x[n:], mechanism.cells, M)
        return priors.at(point, x[:n], mechanism)

    x, damping = np.concatenate([known.phi, known.theta]), known.damping
    sums = total([fold.sums for fold in shown], KindSums.plus)
    loglik, before = sums.value, prior(x)
    here = assembled(sums, mechanism.cells, mechanism.table(known.phi)).plus(before)
    for _ in range(MOST_TRIED):
        step, _ = newton_step(here, x, damping)
        step *= min(1.0, LONGEST_STEP / max(float(np.abs(step).max(initial=0.0)), TINY))
        there = x + ordered(x, step, len(known.theta))
        tried = known._replace(phi=there[:n], theta=there[n:])
        further = look(tried.theta, tried.chances)
        if further + prior(there).value >= here.value - ROUNDING * abs(here.value):
            damping = damping / DAMPING if damping > LEAST_DAMPING else 0.0
            return further, tried._replace(damping=damping)
        damping = max(DAMPING * damping, LEAST_DAMPING)
    return loglik, known._replace(damping=damping)
