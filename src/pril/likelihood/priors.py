"""What is added to the log-likelihood: log densities of weights, of class shares, and of phi."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.likelihood.mechanisms import Cells, Mechanism
from pril.likelihood.rows import Block
from pril.likelihood.sums import MOST_DENSE, MOST_PLACES, Information, Point, Sums, by_thresholds
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

    def at(self, point: Point) -> Sums:
        """Return the log density by weights and thresholds."""
        Z, scores = point.scores(self.sample)
        weight = self.sample.weight / self.sample.weight.sum()
        below, above, density, tilt = point.link.sides(point.theta - scores[:, np.newaxis])
        density *= weight[:, np.newaxis]
        below = np.concatenate([[0.0], weight @ below, [1.0]])
        above = np.concatenate([[1.0], weight @ above, [0.0]])
        shares = np.maximum(between_cuts(below, above), LEAST_SHARE)
        each = self.pseudo_rows / shares
        curve, more = each / shares, each[:-1] - each[1:]
        # How the share below each threshold changes with it, and with the weights.
        cut, by_w = density.sum(axis=0), Z.sums(density)
        bend = density * tilt * more
        beside = curve[1:-1] * cut[:-1] * cut[1:]
        level = (curve[:-1] + curve[1:]) * cut**2 - bend.sum(axis=0)
        level[1:] -= beside
        level[:-1] -= beside
        cuts = by_thresholds(level, beside, len(cut) > MOST_PLACES)
        of_shares = np.diff(-by_w, prepend=0.0, append=0.0)
        curved = of_shares * curve
        cross = (curved[:, :-1] - curved[:, 1:]) * cut + Z.sums(bend)
        rest = np.empty((0, 0))
        if len(point.w) <= MOST_DENSE:
            rest = curved @ of_shares.T - Z.squares(bend.sum(axis=1))
        gradient = np.concatenate([of_shares @ each, more * cut])
        value = float(self.pseudo_rows @ np.log(shares))
        return Sums(value, gradient, Information(rest, cross[: len(rest)], cuts))


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
            more = self.classes.at(point)
            value += more.value
            gradient[:d] += more.gradient[:d]
            gradient[d + len(phi) :] += more.gradient[d:]
            rest[:dense, :dense] += more.information.rest
            cross[:dense], cuts = more.information.cross, more.information.cuts
        return Sums(value, gradient, Information(rest, cross, cuts))


def evenly_shared(kinds: Kinds, weights: Array) -> Array:
    """Return the shares of the classes if ranges are divided evenly."""
    rows = kinds.evenly(weights) + HALF_A_ROW
    return rows / rows.sum()


def shared(cells: Cells, M: Array, shares: Array, weights: Array) -> Array:
    """Return the shares of the classes if ranges are divided by chances M and such shares."""
    each = M * shares[cells.rank]
    whole = np.bincount(cells.kind, each, len(weights))
    rows = cells.kinds.evenly(np.where(cells.varies, 0.0, weights)) + HALF_A_ROW
    divided = weights / np.where(whole > 0.0, whole, 1.0)
    rows += np.bincount(cells.rank, each * divided[cells.kind], len(rows))
    return rows / rows.sum()
