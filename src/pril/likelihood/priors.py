"""What is added to the log-likelihood: log densities of weights, of class shares, and of phi."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.likelihood.mechanisms import Cells, Mechanism, Random
from pril.likelihood.rows import Block
from pril.likelihood.sums import MOST_DENSE, Information, Point, Sums, information_of
from pril.links import between_cuts

# Pseudo-rows of the shares of the classes, at what ranges divided evenly give: where a mechanism is
# learned, a class may else vanish because its neighbours explain its ranges.
CLASS_ROWS = 30.0
LEAST_SHARE = 1e-150  # of a class: its inverse has a square
HALF_A_ROW = 0.5  # is added to each class: none is taken to be impossible


class ClassShares(NamedTuple):
    """A Dirichlet prior of the mean probability of each class over some rows."""

    sample: Block
    pseudo_rows: Array  # (K,), of each class

    def at(self, point: Point, cells: Cells) -> Sums:
        """Return the log density by weights and thresholds; `cells` are those of exact labels."""
        Z, scores = point.scores(self.sample)
        share = self.sample.weight / self.sample.weight.sum()
        edges = np.concatenate([[-np.inf], point.theta, [np.inf]])
        below, above, density, tilt = point.link.sides(edges - scores[:, np.newaxis])
        density *= share[:, np.newaxis]
        shares = np.maximum(between_cuts(share @ below, share @ above), LEAST_SHARE)
        each = self.pseudo_rows / shares
        curve, more = each / shares, each[:-1] - each[1:]
        # How the shares change: with the two cuts of each, and with the weights.
        by_cut, by_w = density.sum(axis=0), Z.sums(density)
        by_w = by_w[:, :-1] - by_w[:, 1:]
        bend = density[:, 1:-1] * tilt[:, 1:-1] * more
        cut, own = by_cut[1:-1], bend.sum(axis=0)
        below, above = by_cut[:-1], by_cut[1:]
        pairs = np.column_stack([curve * below**2, -curve * below * above, curve * above**2])
        pairs[1:, 0] -= own
        by_w_curve = by_w * curve
        cross = (by_w_curve[:, :-1] - by_w_curve[:, 1:]) * cut + Z.sums(bend)
        rest = np.empty((0, 0))
        if len(point.w) <= MOST_DENSE:
            rest = by_w_curve @ by_w.T - Z.squares(bend.sum(axis=1))
        cuts = information_of(cells, pairs.ravel())[1:-1, 1:-1]
        information = Information(rest, cross[: len(rest)], cuts)
        gradient = np.concatenate([by_w @ each, more * cut])
        return Sums(float(self.pseudo_rows @ np.log(shares)), gradient, information)


@dataclass(frozen=True, eq=False)
class Priors:
    """The priors of a fit: weights are normal, and no class vanishes."""

    ridge: Array  # (d,), the precision of the weights, in the frame
    classes: ClassShares | None

    def at(self, point: Point, phi: Array, mechanism: Mechanism) -> Sums:
        """Return the sum of all log densities."""
        d, k, own = len(point.w), len(point.theta), mechanism.prior(phi)
        ridge = self.ridge if d <= MOST_DENSE else self.ridge[:0]
        dense, r = len(ridge), len(ridge) + len(phi)
        value = own.value - 0.5 * float(self.ridge @ point.w**2)
        gradient = np.concatenate([-self.ridge * point.w, own.gradient, np.zeros(k)])
        rest, cross = np.diag(np.concatenate([ridge, own.curve])), np.zeros((r, k))
        cuts = 0.0
        if self.classes is not None:
            more = self.classes.at(point, self._exact)
            value += more.value
            gradient[:d] += more.gradient[:d]
            gradient[d + len(phi) :] += more.gradient[d:]
            rest[:dense, :dense] += more.information.rest
            cross[:dense], cuts = more.information.cross, more.information.cuts
        return Sums(value, gradient, Information(rest, cross, cuts))

    @cached_property
    def _exact(self) -> Cells:
        """The cells of exact labels."""
        ranks = np.arange(len(self.classes.pseudo_rows) if self.classes else 0)
        return Random(Kinds(np.column_stack([ranks, ranks]), len(ranks))).cells


def evenly_shared(kinds: Kinds, weights: Array) -> Array:
    """Return the shares of the classes if ranges are divided evenly."""
    rows = kinds.evenly(weights) + HALF_A_ROW
    return rows / rows.sum()
