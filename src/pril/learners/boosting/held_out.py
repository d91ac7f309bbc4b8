"""What held-out scores show: how much starts count, how classes become labels, and thresholds."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import NamedTuple, Self

import numpy as np

from pril.core.arrays import Array, frozen
from pril.core.coarsening import Kinds
from pril.core.rating import exp_of
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import LabelledRows, Labels
from pril.likelihood.fitting import Fit, FitSettings, Fitting, Problem
from pril.likelihood.mechanisms import Cells, Mechanism, Offsets, Table
from pril.likelihood.newton import DAMPING, LEAST_DAMPING, ROUNDING, Maximum, newton_step, ordered
from pril.likelihood.priors import CLASS_ROWS, ClassShares, Priors, evenly_shared
from pril.likelihood.rows import Block, Frame, Framed, InMemory, Rows
from pril.likelihood.sums import MOST_DENSE, KindSums, Point, Sums, assembled
from pril.links import LOGIT

MOST_SAMPLED = 250  # rows that show the shares of the classes in a round
# In a round, thresholds and logits of shares move by no more: trees will change the scores again.
LONGEST_STEP = 1.0
GAIN = 1e-4  # of the log posterior: a last step that gains less changes nothing that is seen
TINY = 1e-12  # in the spread of scores


def labels_of(cells: Cells, theta: Array, M: Array) -> Labels:
    """Return what labels say with such thresholds, of one model or of several, and chances M."""
    ends, n_cuts = cells.kinds.ends, np.maximum(cells.n_cells + 1, 2)
    cuts = np.repeat(ends[:, 1:] + 1, n_cuts.max(), axis=1)  # the last one is repeated
    for shape in cells.shapes:
        cuts[shape.kinds, : shape.cuts.shape[1]] = shape.cuts
    chance = np.ones((len(cuts), cuts.shape[1] - 1))
    chance[cells.kind, np.arange(len(M)) - cells.first[cells.kind]] = M
    edges = [*theta.shape[:-1], 1]
    cut = np.concatenate([np.full(edges, -np.inf), theta, np.full(edges, np.inf)], axis=-1)
    with np.errstate(over="ignore", invalid="ignore"):  # cuts that are repeated are not used
        gap = -np.expm1(cut[..., cuts[:, :-1]] - cut[..., cuts[:, 1:]])
        parts = cuts, n_cuts, np.exp(-cut), gap, chance, cells.first, cells.n_cells, cells.starts
    # Rows after rows: else, passes are compiled again for another order.
    return Labels.of(*map(np.ascontiguousarray, parts))


class Labelling(NamedTuple):
    """How classes become labels, and where thresholds are."""

    mechanism: Mechanism
    phi: Array  # empty if ranges are at random
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

    def without_direction(self) -> Self:
        """Return as often up as down, if no label is exact: starts would find a direction again."""
        kinds = self.mechanism.kinds
        if not isinstance(self.mechanism, Offsets) or kinds.exact.any():
            return self
        return self._replace(phi=self.phi * [1.0, 1.0, 0.0, 0.0])


def kind_sums(Z: Array, e: Array, kind: Array, weight: Array, labels: Labels) -> KindSums:
    """Return the sums of rows with features Z; e is exp(score) of each."""
    d, q = Z.shape[1], labels.n_cuts + labels.n_cells
    places, by_score = len(labels.odds) + int(labels.n_cells.sum()), np.empty((2, len(e)))
    shapes = (places, d), int(q.sum()), int((q * (q + 1) // 2).sum())
    by_local_w, first, pairs = (np.zeros(shape) for shape in shapes)
    sums = *by_score, by_local_w, first, pairs
    value = compiled.add_kind_sums(frozen(np.ascontiguousarray(Z)), e, kind, weight, labels, *sums)
    by_w, by_ww = by_score[0] @ Z, Framed(Z).squares(by_score[1])
    return KindSums(value, by_w, by_ww, by_local_w.T, first, pairs, np.zeros(2))


class CompiledProblem(Problem):
    """A problem whose sums compiled code finds."""

    rows: InMemory

    def loglik(self, point: Point, table: Table) -> Sums:
        """Return the log-likelihood, but for what factors out, and its derivatives."""
        if self.d > MOST_DENSE:
            return super().loglik(point, table)
        rows, cells = self.rows.whole, point.cells
        Z, scores = point.scores(rows)
        kind, weight = rows.kind.astype(np.int32), rows.weight.astype(np.float32)  # as folds have
        labels = labels_of(cells, point.theta, table.M)
        return assembled(kind_sums(Z.dense(), exp_of(scores), kind, weight, labels), cells, table)


class MixFitting(Fitting):
    """How much starts count."""

    rows: InMemory

    def problem(self, rows: Rows, mechanism: Mechanism) -> Problem:
        """Return the problem of some rows."""
        return CompiledProblem(rows, mechanism, self.priors, self.settings.link, self.frame)


def mix(
    scores: Array,
    rows: LabelledRows,
    kinds: Kinds,
    asked: FitSettings,
    last: tuple[Array, Labelling] | None = None,
) -> tuple[Array, Labelling]:
    """Return how much each start counts, none of them below 0, and what held-out scores show.

    scores[j, i] is what start j says of row i. The weights of the starts are drawn to the same. The
    mechanism is that of the last time, for other scores, or is chosen.
    """
    is_used = np.ones(len(scores), dtype=bool)
    while True:
        used = scores[is_used].T.astype(np.float64)
        n = used.shape[1]  # 0 if all starts are worse than the shares of the classes
        even = 1.0 / max(n, 1)
        size, offset = even * float(used.std(axis=0).sum()) + TINY, even * used.sum(axis=1)
        weight = rows.weight.astype(np.float64)
        block = Block(used / size, rows.kind, weight, offset)
        fitting = MixFitting(InMemory(block, kinds), asked)
        if last is None:
            begun = fitting.begin()
            problem, starts, evidence = begun.problem, [begun.maximum], begun.gained
        else:  # which may be near a wrong maximum
            counts, labelling = last
            problem = fitting.problem(fitting.rows, labelling.mechanism)
            evidence, w = labelling.evidence, (counts[is_used] - even) * size
            x = np.concatenate([w, labelling.phi, labelling.theta])
            starts = [Maximum(x), Maximum(problem.starts()[0])]
        maxima = [problem.fit(start, asked.max_iter, tolerance=GAIN) for start in starts]
        fitted = Fit(problem, max(maxima, key=lambda maximum: maximum.value), fitting.scale)
        labelling = Labelling(problem.mechanism, fitted.phi, fitted.theta, evidence)
        counts = np.zeros(len(scores))
        counts[is_used] = np.maximum(even + fitted.w / size, 0.0)
        if np.count_nonzero(counts) == n:
            return counts, labelling
        is_used, last = counts > 0.0, (counts, labelling)


# --- Rounds --------------------------------------------------------------------------------------


class Shown(NamedTuple):
    """What the held-out rows of a fold show after a round."""

    sums: KindSums
    scores: Array  # of a sample of them
    weight: Array


def improved(
    labelling: Labelling,
    weights: Array,
    shown: list[Shown],
    look: Callable[[Labels], list[float]],
) -> tuple[float, Labelling]:
    """Take a Newton step given what all folds show; return the log-likelihood, and the labelling.

    If the posterior would fall, nothing changes, and the step of the next round is damped. Weights
    are those of the kinds, and `look` returns the log-likelihood of the rows of each fold.
    """
    mechanism, cells, n = labelling.mechanism, labelling.mechanism.cells, len(labelling.phi)
    scores, weight = (np.concatenate([fold[j] for fold in shown]) for j in (1, 2))
    sample = Block(np.empty((len(scores), 0)), np.zeros(len(scores), dtype=int), weight, scores)
    shares = CLASS_ROWS * evenly_shared(mechanism.kinds, weights)
    priors = Priors(np.empty(0), ClassShares(sample, shares))

    def prior(at: Labelling) -> Sums:
        frame = Frame(np.empty(0), np.empty(0))  # of no features
        point = Point(LOGIT, frame, np.empty(0), at.theta, cells, at.chances)
        return priors.at(point, at.phi, mechanism)

    sums = reduce(KindSums.plus, [fold.sums for fold in shown])
    here = assembled(sums, cells, mechanism.table(labelling.phi)).plus(prior(labelling))
    x, damping = np.concatenate([labelling.phi, labelling.theta]), labelling.damping
    step, _ = newton_step(here, x, damping)
    step *= LONGEST_STEP / np.abs(step).max(initial=LONGEST_STEP)
    there = x + ordered(x, step, len(labelling.theta))
    tried = labelling._replace(phi=there[:n], theta=there[n:])
    loglik = sum(look(tried.labels))
    if loglik + prior(tried).value < here.value - ROUNDING * abs(here.value):
        return sums.value, labelling._replace(damping=max(DAMPING * damping, LEAST_DAMPING))
    damping = damping / DAMPING if damping > LEAST_DAMPING else 0.0
    return loglik, tried._replace(damping=damping)
