"""Fit labels that are ranges: which mechanism made them, then the maximum with it.

The mechanism that is likeliest given the labels is chosen: by their marginal likelihood (Laplace,
1774), from the same second derivatives that give the covariance, and by the odds beforehand. With
many rows, the choice looks at some of them, and the maximum at all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from pril.core.arrays import Array
from pril.core.coarsening import Kinds
from pril.core.loop_types import DIRECTION_ROWS
from pril.likelihood.mechanisms import Free, Mechanism, Offsets, Random, Table, label_chances
from pril.likelihood.newton import Maximum, climb, log_determinant
from pril.likelihood.priors import CLASS_ROWS, ClassShares, Priors, evenly_shared, shared
from pril.likelihood.rows import Block, Frame, InMemory, Rows
from pril.likelihood.sums import MOST_DENSE, KindSums, Point, Sums, assembled
from pril.links import LOGIT, Link

MOST_COMPARED = 5000  # different rows that show which mechanism fits
NEARER = 8  # times as many rows show where the maximum of all rows is, before these are read
MOST_SAMPLED = 250  # different rows that show the shares of the classes
ROUGH = 0.1  # of the log posterior: what starts may leave, until it is clear which one is best
# Odds before labels are seen: of a mechanism to ranges at random; of raters who differ by class.
ODDS = {"random": 1.0, "offsets": 10.0, "free": 0.05}
REDUNDANT = 1e-10  # what is left of the variance of a feature that others determine, relative
ROUNDING = 16.0 * np.finfo(float).eps  # of a sum of squares, relative
MOST_PRODUCTS = 250  # of a matrix and a vector, for a step in many features
NEVER = 1e-13  # chance, at most, that a row has a class at an end of the scale that no label has


class FitSettings(NamedTuple):
    """What a fit is asked for."""

    alpha: float
    trust: float = 30.0  # pseudo-rows of a mechanism against what exact labels show
    coarsening: str = "auto"  # or "random", "offsets"
    max_iter: int = 100
    link: Link = LOGIT
    offset: int | None = None  # the feature whose weight is 1


# --- What rows determine -------------------------------------------------------------------------


class SeenClasses(NamedTuple):
    """The classes that ranges at random tell apart; others have no rows, or are never told apart.

    A class between two neighbouring cuts has rows only if some label begins at the lower cut, and
    one ends at the upper one. Else, the same labels are as likely, or more so, without it.
    """

    kinds: Kinds  # of the classes that are left
    place: Array  # (K + 1,), which cut that is left each cut is; -1 where labels do not say

    @classmethod
    def of(cls, kinds: Kinds, weights: Array) -> SeenClasses:
        """Return the classes of labels with such weights."""
        ends = kinds.ends[weights > 0.0]
        begins, stops = np.zeros((2, kinds.n_classes + 1), dtype=bool)
        begins[ends[:, 0]] = stops[ends[:, 1] + 1] = True
        cuts = np.flatnonzero(begins | stops)
        has_rows = begins[cuts[:-1]] & stops[cuts[1:]]
        place = np.full(kinds.n_classes + 1, -1)
        place[cuts] = np.concatenate([[0], np.cumsum(has_rows)])
        place[: cuts[0]], place[cuts[-1] + 1 :] = 0, place[cuts[-1]]
        left = np.column_stack([place[kinds.ends[:, 0]], place[kinds.ends[:, 1] + 1] - 1])
        # Kinds without weight may be of no class: they have a likelihood, which counts nothing.
        left[:, 1] = np.maximum(left, 0).max(axis=1)
        return cls(Kinds(np.maximum(left, 0), int(place.max())), place)

    @classmethod
    def whole(cls, kinds: Kinds) -> SeenClasses:
        """Return all classes."""
        return cls(kinds, np.arange(kinds.n_classes + 1))

    @property
    def is_determined(self) -> Array:
        """(K - 1,), whether labels say where a threshold is."""
        place = self.place[1:-1]
        return (place > 0) & (place < self.kinds.n_classes)

    def all_thresholds(self, theta: Array, link: Link, score: float, scores: Array) -> Array:
        """Return all thresholds, given those that are left.

        A class that no label has has no room, also at the lowest and the highest of `scores`.
        Classes that no label tells apart are equally likely at this score.
        """
        if len(theta) == 0:
            return score + link.quantile(np.arange(1, len(self.place) - 1) / (len(self.place) - 1))
        far = link.quantile(np.array([NEVER, 1.0 - NEVER]))
        far += min(theta[0], scores.min()), max(theta[-1], scores.max())
        every = np.array([far[0], *theta, far[1]])[np.maximum(self.place, 0)]
        every[[0, -1]] = -np.inf, np.inf
        known, unknown = np.flatnonzero(self.place >= 0), np.flatnonzero(self.place < 0)
        if len(unknown):
            shares = np.interp(unknown, known, link.sides(every[known] - score).below)
            least, after = np.finfo(float).eps, np.searchsorted(known, unknown)
            found = score + link.quantile(np.clip(shares, least, 1.0 - least))
            every[unknown] = np.clip(found, every[known[after - 1]], every[known[after]])
        return every[1:-1]


def redundant_features(products: Array) -> Array:
    """Return the features that are constant, or that those before them determine.

    A feature that others nearly determine leaves rounding errors in those after it.
    """
    left, size, found = products.copy(), np.diagonal(products).copy(), []
    noise = ROUNDING * size
    for j in range(len(left)):
        if left[j, j] <= REDUNDANT * size[j] + noise[j]:
            found.append(j)
        else:
            by = left[:, j] / left[j, j]
            noise += by**2 * noise[j]
            left -= np.outer(by, left[j])
    return np.array(found, dtype=int)


# --- A problem -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Problem:
    """Rows, a mechanism, and priors: a log posterior of (w, phi, theta)."""

    rows: Rows
    mechanism: Mechanism
    priors: Priors
    link: Link
    frame: Frame
    offset: int | None = None  # the feature whose weight is 1

    @property
    def score(self) -> float:
        """The score of a row at the mean of the features and of the offset, without weights."""
        return 0.0 if self.offset is None else float(self.rows.moments.mean[self.offset])

    @property
    def d(self) -> int:
        """The number of features."""
        return len(self.frame.scale)

    def split(self, x: Array) -> tuple[Array, Array, Array]:
        """Return w, phi, theta."""
        k = self.mechanism.kinds.n_classes - 1
        return x[: self.d], x[self.d : len(x) - k], x[len(x) - k :]

    def point(self, x: Array) -> Point:
        """Return where the likelihood is looked at."""
        w, phi, theta = self.split(x)
        M = self.mechanism.table(phi).M
        return Point(self.link, self.frame, w, theta, self.mechanism.cells, M)

    def loglik(self, point: Point, table: Table) -> Sums:
        """Return the log-likelihood, but for what factors out, and its derivatives."""
        sums = self.rows.add_up(point.sums, KindSums.plus, "taking a step")
        return assembled(sums, point.cells, table)

    def outmost_scores(self, x: Array) -> Array:
        """Return the lowest score of a row that counts, and the highest."""
        point = self.point(x)

        def outmost(block: Block) -> Array:
            scores = point.scores(block)[1][block.weight > 0.0]
            return np.array([scores.min(initial=np.inf), -scores.max(initial=-np.inf)])

        return self.rows.add_up(outmost, np.minimum, "looking at the scores") * [1.0, -1.0]

    def look_at(self, x: Array) -> Sums | None:
        """Return the log posterior; None if thresholds are out of order."""
        w, phi, theta = self.split(x)
        if not (theta[1:] > theta[:-1]).all():
            return None
        table = self.mechanism.table(phi)
        point = Point(self.link, self.frame, w, theta, self.mechanism.cells, table.M)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            prior = self.priors.at(point, phi, self.mechanism)
            found = self.loglik(point, table).plus(prior)
        return found if np.isfinite(found.value + found.gradient.sum()) else None

    def starts(self) -> list[Array]:
        """Return where searches begin.

        Weights are 0, and thresholds those of classes as labels then divide among them.
        """
        mechanism, weights, found = self.mechanism, self.rows.weights, []
        evenly = evenly_shared(mechanism.kinds, weights)
        for phi in mechanism.starts(weights):
            shares = shared(mechanism.cells, mechanism.table(phi).M, evenly, weights)
            theta = self.score + self.link.quantile(np.cumsum(shares)[:-1])
            found.append(np.concatenate([np.zeros(self.d), phi, theta]))
        return found

    def start_near(self, x: Array, some: Problem) -> Array:
        """Return where a search begins, given where it ended for some of the rows.

        More rows say more of what hardly occurs: numbers that labels themselves show move as they
        do in `starts`.
        """
        here, there = (each.mechanism.starts(each.rows.weights)[0] for each in (self, some))
        w, phi, theta = self.split(x)
        return np.concatenate([w, phi + here - there, theta])

    def fit(self, start: Maximum, max_iter: int, **more: Any) -> Maximum:
        """Find the maximum from a start."""
        unit = self.rows.moments.weight / max(self.rows.n_rows, 1)
        step_to = None if self.d <= MOST_DENSE else self._wide_step
        return climb(self.look_at, start, max_iter, unit=unit, step_to=step_to, **more)

    def fit_all(self, max_iter: int) -> tuple[Maximum, int]:
        """Find the highest maximum from all starts; return how many steps that took, too."""
        found: list[Maximum] = []
        for x in self.starts():
            known = [each for each in found if each.converged]
            found.append(self.fit(Maximum(x), max_iter, tolerance=ROUGH, known=known))
        highest = max(found, key=lambda each: each.value)
        best = self.fit(highest._replace(converged=False), max_iter)
        return best, sum(each.n_iter for each in found) + best.n_iter - highest.n_iter

    def evidence(self, found: Maximum) -> float:
        """Return the log of the marginal likelihood of the labels; frequencies by Schwarz."""
        weights = self.rows.weights
        log, free = self.mechanism.frequencies(weights)
        volume = log_determinant(found.sums.information)
        return float(found.value + log @ weights - 0.5 * (volume + free * np.log(weights.sum())))

    def label_chances(self, x: Array) -> Array:
        """Return P(label | class) of all cells."""
        return label_chances(self.mechanism, self.split(x)[1], self.rows.weights)

    def _wide_step(self, here: Sums, x: Array, damping: float) -> tuple[Array, bool]:
        """Return the Newton step of many features, by conjugate gradients."""
        if (here.gradient == 0.0).all():
            return np.zeros_like(x), True
        point, d, (rest, cross, cuts) = self.point(x), self.d, here.information
        J = self.mechanism.table(self.split(x)[1]).J
        n_cuts = len(point.theta) + 2
        blocks = [(self.frame.view(b.X), *point.curvature(b)) for b in self.rows.blocks]
        diagonal = np.concatenate([self.priors.ridge, np.diagonal(rest), cuts.diagonal()])
        for Z, curve, _ in blocks:
            diagonal[:d] += Z.diagonal(np.maximum(curve, 0.0))
        diagonal = np.where(diagonal > 0.0, diagonal, 1.0)

        def product(v: Array) -> Array:
            w, phi, theta = self.split(v)
            result = damping * diagonal * v
            result[:d] += self.priors.ridge * w
            result[d:] += np.concatenate([rest @ phi + cross @ theta, cross.T @ phi + cuts @ theta])
            local = np.concatenate([[0.0], theta, [0.0], J @ phi])
            for Z, curve, crossed in blocks:
                scores = Z.dot(w)
                result[:d] += Z.sums(curve * scores + crossed @ local)
                both = crossed.T @ scores
                result[d:] += np.concatenate([both[n_cuts:] @ J, both[1 : n_cuts - 1]])
            return result

        shape, size = (len(x), len(x)), float(np.sqrt((here.gradient**2 / diagonal).sum()))
        step: Array
        step, _ = cg(
            LinearOperator(shape, matvec=product),
            here.gradient,
            rtol=min(0.1, size / (1.0 + abs(here.value)) ** 0.5),
            maxiter=MOST_PRODUCTS,
            M=LinearOperator(shape, matvec=lambda v: v / diagonal),
        )
        is_up = bool(step @ here.gradient > 0.0)
        return (step if is_up else here.gradient / diagonal / (1.0 + damping)), is_up


# --- A fit ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Fit:
    """What was found, or how far a fit has come."""

    problem: Problem
    maximum: Maximum
    scale: SeenClasses
    evidence: dict[str, float] = field(default_factory=dict)  # of the mechanisms that were compared
    n_steps: int = 0  # before this search
    products: Array | None = None  # of the features, see `Fitting.products`

    @property
    def w(self) -> Array:
        """The weights of features, outside of the frame."""
        w = self.problem.split(self.maximum.x)[0] * self.problem.frame.scale
        if self.problem.offset is not None:
            w[self.problem.offset] = 1.0
        return w

    @property
    def phi(self) -> Array:
        """The numbers of the mechanism."""
        return self.problem.split(self.maximum.x)[1]

    @property
    def theta(self) -> Array:
        """All thresholds, outside of the frame."""
        problem, is_known = self.problem, self.scale.is_determined.all()
        w, _, theta = problem.split(self.maximum.x)
        scores = theta if is_known else problem.outmost_scores(self.maximum.x)
        every = self.scale.all_thresholds(theta, problem.link, problem.score, scores)
        return every + problem.frame.centre @ (w * problem.frame.scale)

    @property
    def loglik(self) -> float:
        """The log-likelihood of the labels, without priors and what factors out."""
        problem, x = self.problem, self.maximum.x
        return (
            self.maximum.value
            - problem.priors.at(problem.point(x), self.phi, problem.mechanism).value
        )

    @property
    def gained(self) -> float | None:
        """The log odds of offsets to ranges at random; None if not compared."""
        if not {"random", "offsets"} <= set(self.evidence):
            return None
        return self.evidence["offsets"] - self.evidence["random"]

    def to_plain(self) -> dict[str, Any]:
        """Return it as plain data, for a checkpoint."""
        mechanism, maximum = self.problem.mechanism, self.maximum
        return {
            "x": maximum.x,
            "n_iter": maximum.n_iter,
            "damping": maximum.damping,
            "converged": maximum.converged,
            "value": None if maximum.sums is None else maximum.value,
            "mechanism": mechanism.name,
            "target": mechanism.target if isinstance(mechanism, Free) else None,
            "evidence": self.evidence,
            "n_steps": self.n_steps,
        }


@dataclass(frozen=True, eq=False)
class Fitting:
    """Rows and what a fit is asked for."""

    rows: Rows
    settings: FitSettings

    @cached_property
    def asked(self) -> tuple[str, ...]:
        """The mechanisms that are compared; one is that at random where nothing can be learned.

        That is so without narrow ranges, and of two classes: a range has both.
        """
        kinds = self.rows.kinds
        can_learn = Offsets(kinds, 1.0).narrow.any() and kinds.n_classes > 2
        if self.settings.coarsening == "random" or not can_learn:
            return ("random",)
        return ("random", "offsets") if self.settings.coarsening == "auto" else ("offsets",)

    @property
    def learns(self) -> bool:
        """Whether a mechanism may be learned."""
        return self.asked != ("random",)

    @property
    def draws_classes(self) -> bool:
        """Whether class shares are drawn to an even division: if ranges need not be at random."""
        kinds = self.rows.kinds
        is_range = (kinds.steps > 0) & (kinds.steps < kinds.n_classes - 1)
        return self.learns or (self.settings.coarsening != "random" and bool(is_range.any()))

    @cached_property
    def frame(self) -> Frame:
        """Where features are, and how large; those without a weight have no size."""
        offset = [] if self.settings.offset is None else [self.settings.offset]
        redundant = [] if self.products is None else redundant_features(self.products).tolist()
        return Frame.of(self.rows.moments, [*offset, *redundant])

    @cached_property
    def products(self) -> Array | None:
        """The sums of the products of features about their means; None with a penalty, or of many.

        Rows whose label is any class do not count, if ranges are at random.
        """
        moments, offset, ends = self.rows.moments, self.settings.offset, self.scale.kinds.ends
        if self.settings.alpha > 0.0 or len(moments.mean) > MOST_DENSE:
            return None
        frame = Frame.of(moments, [] if offset is None else [offset])
        says = (ends[:, 0] > 0) | (ends[:, 1] < self.scale.kinds.n_classes - 1)
        if self.learns or not (whole := self.rows.weights[says].sum()) > 0.0:
            says[:], whole = True, self.rows.weights.sum()

        def squares(block: Block) -> Array:
            view, weight = frame.view(block.X), block.weight * says[block.kind]
            return np.vstack([view.squares(weight), view.sums(weight)])

        *found, sums = self.rows.add_up(squares, np.add, "looking at the features")
        left = found - np.outer(sums, sums / whole)
        varies = np.diagonal(left) > REDUNDANT * np.diagonal(found)
        return np.where(np.outer(varies, varies), left, 0.0)

    @cached_property
    def scale(self) -> SeenClasses:
        """The classes: those that labels tell apart, if there is no prior to tell them apart."""
        if self.draws_classes or self.settings.alpha > 0.0:
            return SeenClasses.whole(self.rows.kinds)
        return SeenClasses.of(self.rows.kinds, self.rows.weights)

    @cached_property
    def priors(self) -> Priors:
        """The priors, which are the same for all mechanisms."""
        scale, alpha = self.frame.scale, self.settings.alpha
        ridge = np.where(scale > 0.0, alpha * scale**2, 1.0)
        n, classes = self.scale.kinds.n_classes, None
        if self.draws_classes:
            shares = evenly_shared(self.rows.kinds, self.rows.weights)
            sample = self.compared.sample(MOST_SAMPLED).whole
            classes = ClassShares(sample, CLASS_ROWS * shares)
        elif alpha > 0.0:
            mean, offset = self.rows.moments.mean, self.settings.offset
            score = None if offset is None else mean[[offset]]
            at_mean = Block(mean[np.newaxis], np.zeros(1, dtype=int), np.ones(1), score)
            classes = ClassShares(at_mean, np.full(n, alpha / n))
        return Priors(ridge, classes)

    @cached_property
    def nearer(self) -> InMemory:
        """More rows than those that are compared, all of them if they are few."""
        return self.rows.sample(NEARER * MOST_COMPARED)

    @cached_property
    def compared(self) -> InMemory:
        """The rows that the choice looks at: all, if they are few."""
        return self.nearer.sample(MOST_COMPARED)

    def mechanism(self, name: str, target: Any = None) -> Mechanism:
        """Return a mechanism by its name; with a target, it is free."""
        kinds, weights, trust = self.scale.kinds, self.rows.weights, self.settings.trust
        if target is not None:
            return Free(kinds, target, name, trust)
        if name == "random":
            return Random(kinds)
        doubt = trust / (trust + weights[kinds.exact].sum()) if trust > 0.0 else 0.0
        return Offsets(kinds, max(DIRECTION_ROWS * doubt**2, 1.0))

    def as_all(self, some: InMemory) -> InMemory:
        """Return some rows with the weight of all: priors then say as little beside them."""
        factors = self.rows.weights / np.where(some.weights > 0.0, some.weights, 1.0)
        weight = some.whole.weight * factors[some.whole.kind]
        return replace(some, whole=some.whole._replace(weight=weight))

    def problem(self, rows: Rows, mechanism: Mechanism) -> Problem:
        """Return the problem of some rows."""
        settings, frame = self.settings, self.frame
        return Problem(rows, mechanism, self.priors, settings.link, frame, settings.offset)

    def choose(self) -> tuple[Mechanism, Maximum, dict[str, float], int]:
        """Return the mechanism of the largest evidence, its maximum, all evidence, and steps."""
        problems = {name: self.problem(self.compared, self.mechanism(name)) for name in self.asked}
        found = {name: each.fit_all(self.settings.max_iter) for name, each in problems.items()}
        n_steps = sum(steps for _, steps in found.values())
        evidence = {
            name: each.evidence(found[name][0]) + float(np.log(ODDS[name]))
            for name, each in problems.items()
        }
        name = max(evidence, key=lambda each: evidence[each])
        problem, best = problems[name], found[name][0]
        mechanism, best, more = self._freed(problem, best, evidence)
        return mechanism, best, evidence, n_steps + more

    def _freed(
        self, problem: Problem, best: Maximum, evidence: dict[str, float]
    ) -> tuple[Mechanism, Maximum, int]:
        """Free the table of a mechanism, if exact labels show each cell, and evidence is for it.

        Return the mechanism, its maximum, and the steps that this took.
        """
        kinds, weights = problem.mechanism.kinds, problem.rows.weights
        exact = weights[kinds.exact].sum()
        if exact < (kinds.steps + 1).sum():
            return problem.mechanism, best, 0
        target = problem.label_chances(best.x)
        if not np.isfinite(target).all():
            return problem.mechanism, best, 0
        w, _, theta = problem.split(best.x)
        name, n_steps, values = problem.mechanism.name, 0, []
        for learns in (False, True):
            mechanism = Free(kinds, target, name, self.settings.trust, learns)
            freed = replace(problem, mechanism=mechanism)
            start = np.concatenate([w, *mechanism.starts(weights), theta])
            maximum = freed.fit(Maximum(start), self.settings.max_iter)
            values.append(freed.evidence(maximum))
            n_steps += maximum.n_iter
        evidence["free"] = evidence[name] + values[1] - values[0] + float(np.log(ODDS["free"]))
        if evidence["free"] > evidence[name]:
            return mechanism, maximum, n_steps
        return problem.mechanism, best, n_steps

    def begin(self) -> Fit:
        """Choose a mechanism, and return where the search over all rows begins."""
        if not self.learns:
            problem = self.problem(self.rows, self.mechanism("random"))
            return Fit(problem, Maximum(problem.starts()[0]), self.scale)
        mechanism, maximum, evidence, n_steps = self.choose()
        whole = self.problem(self.rows, mechanism)
        if self.rows.n_rows <= MOST_COMPARED:
            return Fit(whole, maximum, self.scale, evidence, n_steps - maximum.n_iter)
        x, some = maximum.x, self.problem(self.compared, mechanism)
        if self.rows.n_rows > NEARER * MOST_COMPARED:
            # Beside some rows, priors count too much. If these weigh as all do, noise counts too
            # much, where a prior keeps the direction.
            is_kept = isinstance(mechanism, Offsets) and mechanism.direction_rows > 1.0
            near = self.problem(self.nearer if is_kept else self.as_all(self.nearer), mechanism)
            start = Maximum(near.start_near(x, some))
            maximum = near.fit(start, self.settings.max_iter, tolerance=ROUGH)
            n_steps, x, some = n_steps + maximum.n_iter, maximum.x, near
        return Fit(whole, Maximum(whole.start_near(x, some)), self.scale, evidence, n_steps)

    def resume(self, plain: dict[str, Any]) -> Fit:
        """Return what `Fit.to_plain` gave."""
        problem = self.problem(self.rows, self.mechanism(plain["mechanism"], plain["target"]))
        converged = plain["converged"]
        sums = problem.look_at(plain["x"]) if converged else None
        maximum = Maximum(plain["x"], sums, plain["n_iter"], plain["damping"], converged)
        return Fit(problem, maximum, self.scale, plain["evidence"], plain["n_steps"])


def fit(
    rows: Rows,
    settings: FitSettings,
    begun: dict[str, Any] | None = None,
    watch: Callable[[Fit], None] = lambda _: None,
) -> Fit:
    """Fit rows.

    `watch` is told how far it has come after each step. With `begun`, which `Fit.to_plain` gave, it
    goes on from there, and gives the same bits.
    """
    fitting = Fitting(rows, settings)
    if begun is None:
        found = fitting.begin()
        watch(found)
    else:
        found = fitting.resume(begun)
    found = replace(found, products=fitting.products)
    if found.maximum.converged:
        return found
    maximum = found.problem.fit(
        found.maximum,
        settings.max_iter,
        watch=lambda there: watch(replace(found, maximum=there)),
    )
    return replace(found, maximum=maximum)
