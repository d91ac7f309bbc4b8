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
from pril.learners.boosting import compiled
from pril.likelihood.fitting import Fitting, Problem, Settings
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


def sums_of(Z: Array, scores: Array, rows: compiled.Rows, theta: Array, M: Array) -> KindSums:
    """Return the sums of rows with such features and scores."""
    d, widest = Z.shape[1], int((rows.ends[:, 1] - rows.ends[:, 0])[rows.first >= 0].max(initial=0))
    kinds, m, cut = len(rows.ends), widest + 2, np.concatenate([[-np.inf], theta, [np.inf]])
    q = 2 * m - 1 if len(M) else m
    sums = (
        np.zeros(d), np.zeros((d, d)), np.zeros((d, len(cut) + len(M))),
        np.zeros((kinds, q)), np.zeros((kinds, q, q)), np.zeros((kinds, m)), np.zeros((kinds, m)),
    )  # fmt: skip
    ends, first, group, weight, _ = rows
    value = compiled.add_kind_sums(Z, scores, group, weight, ends, first, cut, M, sums)
    return KindSums(value, *sums, np.zeros(2))


@dataclass(frozen=True, eq=False)
class HeldOutProblem(Problem):
    """A problem of few features, whose sums compiled code finds."""

    rows: InMemory

    def loglik(self, x: Array) -> Sums:
        """Return the log-likelihood, but for what factors out, and its derivatives."""
        point, rows = self.point(x), self.rows
        framed, scores = point.scores(rows.whole)
        cells = self.mechanism.cells
        known = compiled.Rows(cells.kinds.ends, first_of(cells), rows.kind, rows.weight, rows.kind)
        sums = sums_of(framed.dense(), scores, known, point.theta, point.M)
        return assembled(sums, cells, self.mechanism.table(self.split(x)[1]), self.d)


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
    asked: Settings,
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
    known: Chosen, weights: Array, shown: list[Shown], look: Callable[[Array, Array], KindSums]
) -> tuple[float, Chosen]:
    """Take a Newton step given what all folds show; return the log-likelihood, and what is known.

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
        tried = known._replace(phi=(x + step)[:n], theta=(x + step)[n:])
        further, there = posterior(x + step, look(tried.theta, tried.chances))
        if there.value >= here.value - ROUNDING * abs(here.value):
            loglik, x = further, x + step
            damping = damping / DAMPING if damping > LEAST_DAMPING else 0.0
            break
        damping = max(DAMPING * damping, LEAST_DAMPING)
    return loglik, known._replace(phi=x[:n], theta=x[n:], damping=damping)
