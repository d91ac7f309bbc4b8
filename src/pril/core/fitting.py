"""Fit an ordered logit to labels that are ranges: which mechanism made them, then the maximum.

How classes become ranges is chosen on rows held out. Each candidate is fitted to a sample of the
rows, from several starts, because EM steps may end in a wrong optimum. From there, it is fitted
without each fold in turn, which takes a few steps, and the fold shows how likely its labels are.
Folds depend on what the rows contain, not on their order, nor on a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from pril.core import likelihood
from pril.core.arrays import Array
from pril.core.coarsening import Kinds, Mechanism, Name, candidates, choose, doubt_of
from pril.core.likelihood import Chances, Frame, InMemory, Maximum, Point, Rows, Sums, total
from pril.core.nouns import BENEFIT

MOST_SAMPLED = 5000  # rows that show which mechanism fits
N_FOLDS = 5
LARGEST_STEP, RIDGE = 0.5, 1e-3  # of thresholds, and of their information, in a step of EM
BELIEVED_ROWS = 30.0  # so strongly are the shares of classes drawn to those of ranges cut evenly
# Shares that are free may explain ranges that do not occur at an end of the scale by a class that
# does not: they must leave each class this share of the weight that it has if ranges are divided
# evenly.
LEAST_KEPT = 0.1
LINEAR_SKEW = 10.0  # the evidence it takes to give up symmetry where scores are linear
MOST_STEPS, CHOICE_STEPS, LEAST_GAIN = 25, 5, 1e-6  # enough to compare
FOLD_STEPS, FOLD_GAIN = 10, 1e-4  # of maxima without a fold: a step that gains less is the last


class Settings(NamedTuple):
    """What a fit is asked for."""

    alpha: float
    trust: float  # how many exact rows of a class it takes until they count half
    coarsening: str  # "auto", "random", "offsets"
    max_iter: int
    offset: int | None = None  # the feature whose weight is 1
    is_held_out: bool = False  # whether features are scores by models that have not seen the row


class Knowledge(NamedTuple):
    """What scores of rows show that were given by others: thresholds, and chances of ranges."""

    theta: Array  # (K - 1,)
    chance: Array  # (kinds, K), how often a row of a class is given a range
    mechanism: Mechanism

    def improved(self, sums: Sums, doubt: Array) -> Knowledge:
        """Take one EM step; `doubt` is as in `Mechanism.chance`."""
        mechanism, chance = self.mechanism, self.chance
        if sums.counts is not None:  # else, all labels are exact
            mechanism, chance = mechanism.step(sums.counts, doubt)
        information = sums.information + RIDGE * np.eye(len(self.theta))
        step = np.clip(likelihood.solver(information)(sums.gradient), -LARGEST_STEP, LARGEST_STEP)
        return Knowledge(np.maximum.accumulate(self.theta + step), chance, mechanism)


def point_of(kinds: Kinds, theta: Array, chance: Array) -> Point:
    """Return where the likelihood of rows is looked at that have scores, and no features."""
    chances = Chances(kinds, None if kinds.exact.all() else chance)
    return Point(Frame(np.empty(0), np.empty(0)), np.empty(0), theta, chances)


class Fit(NamedTuple):
    """What was found, or how far a fit has come."""

    maximum: Maximum  # or where the search over all rows is
    evidence: float | None  # for offsets; None if nothing was compared
    is_last: bool = True  # else, another search begins where this one ends

    @property
    def w(self) -> Array:
        """Weights of the features."""
        return self.maximum.point.weights

    @property
    def theta(self) -> Array:
        """Thresholds."""
        return self.maximum.point.thresholds

    def knowledge(self, rows: Rows, trust: float) -> Knowledge:
        """Return what it shows of such rows beside the weights of features."""
        kinds, (point, _, mechanism) = rows.kinds, self.maximum[:3]
        if mechanism is None:
            mechanism = Mechanism.start("random", kinds, trust, kinds.spread(rows.weights))
        chance = kinds.inside if point.chances.q is None else point.chances.q
        return Knowledge(self.theta, chance, mechanism)

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, for a checkpoint."""
        point, sums, mechanism = self.maximum[:3]
        return {
            **self.maximum._asdict(),
            "point": (point.w, point.theta, point.chances.q),
            "sums": None if sums is None else tuple(sums),
            "mechanism": None if mechanism is None else (mechanism.name, mechanism.shares),
            "evidence": self.evidence,
            "is_last": self.is_last,
        }

    @classmethod
    def of(cls, plain: dict[str, Any], problem: Problem) -> Fit:
        """Return what `to_plain` gave."""
        kinds, trust = problem.rows.kinds, problem.settings.trust
        parts = {name: plain[name] for name in Maximum._fields}
        w, theta, q = plain["point"]
        parts["point"] = Point(problem.frame, w, theta, Chances(kinds, q))
        parts["sums"] = None if plain["sums"] is None else Sums(*plain["sums"])
        if plain["mechanism"] is not None:
            name, shares = plain["mechanism"]
            parts["mechanism"] = Mechanism(name, kinds, trust, shares)
        return cls(Maximum(**parts), plain["evidence"], plain["is_last"])


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, and what is fixed while they are fitted."""

    rows: Rows
    settings: Settings
    believed: float = BELIEVED_ROWS

    @cached_property
    def frame(self) -> Frame:
        """Where the features are, and how large."""
        return Frame.of(self.rows.moments)

    @cached_property
    def doubt(self) -> Array:
        """How far the exact rows of each class leave open how it becomes a range."""
        return doubt_of(self.rows.exact, self.settings.trust)

    @cached_property
    def spread(self) -> Array:
        """Counts of kinds by class, if ranges are divided evenly."""
        return self.rows.kinds.spread(self.rows.weights)

    @cached_property
    def penalty(self) -> likelihood.Penalty:
        """The penalty; as far as there is doubt, the shares of the classes are kept near these."""
        alpha, shares = self.settings.alpha, self.spread.sum(axis=0) / self.spread.sum()
        rows = self.believed if alpha > 0.0 else 0.0
        return likelihood.Penalty(alpha, self.frame, rows * self.doubt * shares, self.fixed)

    @property
    def fixed(self) -> tuple[int, ...]:
        """The features whose weights are not learned."""
        offset = self.settings.offset
        return () if offset is None else (offset,)

    @property
    def blank(self) -> Point:
        """Weights of zero, but for an offset, and thresholds that go with them."""
        shares = self.spread.sum(axis=0)
        shares += max(self.settings.alpha / 2.0, 1e-3 * shares.sum() / len(shares))
        below = np.cumsum(shares)[:-1] / shares.sum()
        theta = np.log(below) - np.log1p(-below)
        kinds, w = self.rows.kinds, np.zeros(len(self.frame.centre))
        w[list(self.fixed)] = 1.0 / self.frame.scale[list(self.fixed)]
        q = None if kinds.exact.all() else kinds.inside
        return Point(self.frame, w, theta, Chances(kinds, q))

    def start(self, name: Name, point: Point) -> tuple[Point, Any]:
        """Return where to begin with a mechanism and the scores of a point."""
        mechanism = Mechanism.start(name, self.rows.kinds, self.settings.trust, self.spread)
        chance = mechanism.chance(self.spread, np.ones_like(self.doubt))
        return replace(point, chances=Chances(self.rows.kinds, chance)), mechanism

    def fit(self, point: Point, mechanism: Mechanism | None = None, **more: Any) -> Maximum:
        """Find the maximum, from a point that may be in another frame."""
        return self.go_on(Maximum(point.seen_in(self.frame), mechanism=mechanism), **more)

    def go_on(self, start: Maximum, **more: Any) -> Maximum:
        """Find the maximum, from where a search has come so far."""
        given = {"doubt": self.doubt, "max_iter": self.settings.max_iter, **more}
        return likelihood.maximise(self.rows, start, self.penalty, **given)

    def label_chances(self, maximum: Maximum) -> Array:
        """Return P(label | class) as a mechanism has it, for labels that were not learned.

        A kind that these rows lack must have a chance: it is taken to have occurred once in all.
        """
        counts, mechanism = maximum.sums.counts, maximum.mechanism
        if mechanism is None:
            counts = self.spread
            mechanism = Mechanism.start("random", self.rows.kinds, self.settings.trust, counts)
        inside = self.rows.kinds.inside
        return mechanism.label_chances(counts + inside / inside.sum())


def fit(
    rows: Rows,
    settings: Settings,
    begun: dict[str, Any] | None = None,
    watch: Callable[[Fit], None] = lambda _: None,
) -> Fit:
    """Fit an ordered logit to rows.

    `watch` is told how far it has come after each step. With `begun`, which `Fit.to_plain`
    gave, it goes on from there, and gives the same bits.
    """
    problem = Problem(rows, settings)
    if begun is not None:
        found = Fit.of(begun, problem)
    else:
        found = _first_search(problem)
        watch(found)
    while True:
        maximum = problem.go_on(
            found.maximum, watch=lambda there, found=found: watch(found._replace(maximum=there))
        )
        if found.is_last:
            return found._replace(maximum=maximum)
        point, mechanism = problem.start("random", maximum.point)
        found = Fit(Maximum(point, mechanism=mechanism), found.evidence)
        watch(found)


def _first_search(problem: Problem) -> Fit:
    """Choose a mechanism, and begin."""
    rows, settings = problem.rows, problem.settings
    kinds, evidence = rows.kinds, None
    names = candidates(settings.coarsening, kinds, rows.weights)
    if len(names) > 1:
        found, evidence = choose_mechanism(rows.sample(MOST_SAMPLED), settings, names)
        if found.mechanism is not None:
            point = found.point.seen_in(problem.frame)
            return Fit(Maximum(point, mechanism=found.mechanism), evidence)
    shows_ranges = rows.exact.any() and not kinds.exact.all()  # how classes become ranges
    return Fit(Maximum(problem.blank), evidence, is_last=not shows_ranges)


def without_folds(
    rows: InMemory,
    problem: Problem,
    maximum: Maximum,
    fold: Array,
    left_out: Sequence[tuple[int, ...]],
    each: Callable[..., list[Point]],
) -> list[Point]:
    """Return the maxima of a problem without some folds in turn, with the chances of `maximum`.

    They are near the maximum of all rows. So its information, less that of the folds left out,
    serves for all steps, and a step takes no more than the gradient. Where the value would fall, or
    steps do not settle, Newton steps find the maximum, from that of all rows. `each` is like `map`.
    """
    here, penalty = maximum.point, problem.penalty
    is_wide = len(here.w) > likelihood.MOST_DENSE
    parts: dict[int, Sums] = {}
    if not is_wide:
        numbers = np.unique(fold).tolist()
        parts = {j: rows.take(np.flatnonzero(fold == j)).sums(here) for j in numbers}
        whole = penalty.applied(here, total(parts.values(), Sums.plus)).information

    def leave_out(some: tuple[int, ...]) -> Point:
        inside = replace(rows, weight=np.where(np.isin(fold, some), 0.0, rows.weight))
        if not is_wide:
            own = whole - sum(parts[j].information for j in some if j in parts)
            point = _settled(inside, here, penalty, likelihood.solver(own))
            if point is not None:
                return point
        start, most = Maximum(here), problem.settings.max_iter
        return likelihood.maximise(inside, start, penalty, max_iter=most).point

    return each(leave_out, left_out)


def _settled(
    rows: InMemory, point: Point, penalty: likelihood.Penalty, step_to: Callable[[Array], Array]
) -> Point | None:
    """Return where steps settle; None if they do not, or the value would fall."""
    lowest, d = -np.inf, len(point.w)
    for _ in range(FOLD_STEPS):
        value, gradient = penalty.slope(point, rows.blocks)
        if not value >= lowest:
            return None
        step = step_to(gradient)
        if step @ gradient < FOLD_GAIN:
            return point
        lowest, theta = value, point.theta + step[d:]
        if not (np.diff(theta) > 0.0).all():
            return None
        point = replace(point, w=point.w + step[:d], theta=theta)
    return None


def choose_mechanism(
    rows: InMemory, settings: Settings, names: tuple[Name, ...]
) -> tuple[Maximum, float]:
    """Return the fit by the mechanism that held-out rows prefer, and the evidence for offsets."""
    # At random, the believed rows do not help to find what made the ranges, and cost likelihood.
    believed = {name: 0.0 if name == "random" else BELIEVED_ROWS for name in names}
    plain, problem = (Problem(rows, settings, believed[name]) for name in names[:2])
    found: dict[Name, Maximum] = {"random": plain.fit(plain.blank)}
    for name in names[1:]:
        starts = [problem.start(name, point) for point in (problem.blank, found["random"].point)]
        if "symmetric" in found:
            point, _, mechanism = found["symmetric"][:3]
            starts[1] = point, replace(mechanism, name=name)
        enough: Any = {"max_iter": MOST_STEPS, "em_gain": LEAST_GAIN}
        fits = [problem.fit(*start, **enough) for start in starts]
        likely = [_loglik(one.point, rows, problem.label_chances(one)) for one in fits]
        found[name] = fits[int(np.argmax(likely))]
    costs = dict.fromkeys(names, 0.0)
    if settings.is_held_out:
        costs = {name: _cost(found[name], problem, rows) for name in names}
    for inside, outside in () if settings.is_held_out else folds(rows):
        taken, apart = rows.take(inside), rows.take(outside)
        for name in names:
            rest, before = Problem(taken, settings, believed[name]), found[name]
            enough = {"max_iter": CHOICE_STEPS, "em_gain": LEAST_GAIN}
            known = rest.fit(before.point, before.mechanism, **enough)
            costs[name] -= _loglik(known.point, apart, rest.label_chances(known))
    classes, evenly = found["offsets"].sums.counts.sum(axis=0), problem.spread.sum(axis=0)
    if (classes < LEAST_KEPT * evenly).any():
        costs["offsets"] = costs["symmetric"]
    if settings.is_held_out:
        name, evidence = choose(settings.coarsening, costs)
    else:
        # Without an exact label, ranges at random say little of the classes: offsets may cost more.
        # And free shares make up for features that are not linear.
        name, evidence = choose(settings.coarsening, costs, -BENEFIT, LINEAR_SKEW)
    return found[name], evidence


def _cost(maximum: Maximum, problem: Problem, rows: InMemory) -> float:
    """Return minus the log-likelihood of labels, and the number of parameters they determine."""
    kinds, mechanism = rows.kinds, maximum.mechanism
    n = (~kinds.exact).sum() if mechanism is None else mechanism.n_parameters(maximum.sums.counts)
    return float(n) - _loglik(maximum.point, rows, problem.label_chances(maximum))


def _loglik(point: Point, rows: InMemory, chances: Array) -> float:
    """Return the log-likelihood of rows, labels included, by these chances of labels."""
    there = replace(point, chances=Chances(rows.kinds, chances))
    return sum(float(block.weight @ there.terms(block).log_z) for block in rows.blocks)


def folds(rows: InMemory) -> list[tuple[Array, Array]]:
    """Return the rows outside and inside of each fold; equal rows are spread evenly.

    Rows that weigh nothing are in none, and of a single row there are no folds.
    """
    some = np.flatnonzero(rows.weight > 0.0)
    order = some[np.argsort(_digests(rows)[some], kind="stable")]
    fold = np.full(len(rows.kind), -1)
    fold[order] = np.arange(len(order)) % N_FOLDS
    return [
        (np.flatnonzero((fold >= 0) & (fold != j)), np.flatnonzero(fold == j))
        for j in range(min(N_FOLDS, len(order)) if len(order) > 1 else 0)
    ]


def _digests(rows: InMemory) -> Array:
    """Return a number for each row that depends on its features and its label.

    Of the features, in single precision: rounding errors hardly ever change it.
    """
    d = rows.X.shape[1]
    factors = _mixed(np.arange(1, d + 3, dtype=np.uint64)) | np.uint64(1)
    digests = np.zeros(len(rows.kind), dtype=np.uint64)
    with np.errstate(over="ignore"):
        if issparse(rows.X):
            cells = _bits(rows.X.data)
            row = np.repeat(np.arange(len(digests)), np.diff(rows.X.indptr))
            np.add.at(digests, row, cells * factors[rows.X.indices])
        else:
            for j in range(d):
                digests += _bits(rows.X[:, j]) * factors[j]
        ends = rows.kinds.ends[rows.kind].astype(np.uint64)
        return _mixed(digests + ends @ factors[-2:])


def _bits(numbers: Array) -> Array:
    """Return numbers in single precision, as integers; zeros have no sign."""
    return (numbers.astype(np.float32) + np.float32(0.0)).view(np.uint32).astype(np.uint64)


def _mixed(numbers: Array) -> Array:
    """Return numbers in which each bit depends on all bits given (splitmix64)."""
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
