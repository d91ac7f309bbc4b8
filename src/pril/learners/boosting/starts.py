"""Where boosters start: linear scores of the features and, if the rows are few, of landmarks.

A model is learned without each fold, so that it may score that fold, from labels whose chances are
known: at random, or as held-out scores have shown. All of these models are found together.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.preprocessing import StandardScaler

from pril.core.arrays import Array, frozen
from pril.core.coarsening import Kinds
from pril.core.rating import exp_of
from pril.core.rows import batches
from pril.core.threads import with_one_blas_thread
from pril.features import LandmarkFeatures
from pril.learners.boosting import compiled
from pril.learners.boosting.compiled import LabelledRows
from pril.learners.boosting.held_out import CompiledProblem, labels_of
from pril.likelihood.mechanisms import Cells, Random, Table
from pril.likelihood.newton import Maximum
from pril.likelihood.priors import Priors
from pril.likelihood.rows import Block, Frame, InMemory
from pril.likelihood.sums import MOST_DENSE
from pril.links import LOGIT

# The penalty of the weights of standardised features. As many pseudo-rows, of all classes together,
# keep a class without rows from vanishing.
ALPHA = 3.0
MOST_STEPS = 100  # to a maximum; more are never needed
GAIN = 1e-3  # of the log-likelihood: a last step that gains less does not change what trees add to
FOLD_STEPS = 50  # by one matrix for all models; those that take more have a matrix of their own
LANDMARK_ROWS = 5000  # from here on, trees find by themselves what landmarks show
MOST_CROSSED = 16  # folds: crossing landmark models takes one for each pair of folds
LANDMARK_CELLS = 1 << 23  # of X, for landmarks that do not take more time than the trees
GAMMA = 0.6  # of `LandmarkFeatures`, times the number of features


class View(NamedTuple):
    """Features as starts get them: standardised, and if the rows are few, as landmark features."""

    X: Array  # as they are
    Z: Array  # standardised, 0 where they are missing, or no numbers
    mean: Array
    scale: Array
    width: Array  # by which features are multiplied for landmarks
    signs: Array  # (features,), the sign that each slope must have, 0 if it may have any
    landmarks: LandmarkFeatures | None
    mapped: Array | None  # landmark features

    @classmethod
    def of(cls, X: Array, categorical: list[int], signs: Array, order: Array, n_folds: int) -> Self:
        """Look at features, of which some are no numbers; landmarks are chosen in this order."""
        scaler = StandardScaler(copy=False)
        with np.errstate(all="ignore"):
            for batch in batches(len(X), 1 << 16):
                scaler.partial_fit(X[batch])
        scaler.scale_[np.isnan(scaler.scale_)] = np.inf  # too large to be scaled: not used
        scaler.scale_[categorical] = np.inf
        mean = scaler.mean_ = np.nan_to_num(scaler.mean_, posinf=0.0, neginf=0.0)
        scale, varies = scaler.scale_, (scaler.var_ > 0.0) & np.isfinite(scaler.scale_)
        Z: Array = np.nan_to_num(scaler.transform(X.copy()), copy=False)
        width = np.where(varies, GAMMA / max(varies.sum(), 1) / scale, 0.0)
        is_small = len(X) < LANDMARK_ROWS and X.size <= LANDMARK_CELLS and n_folds <= MOST_CROSSED
        landmarks = mapped = None
        if is_small and varies.any() and not signs.any():  # near them, a score rises and falls
            landmarks = LandmarkFeatures(gamma=GAMMA / varies.sum(), random_state=0)
            landmarks.fit(Z[order])  # the order of the rows must not matter
            mapped = landmarks.transform(Z)
        return cls(X, Z, mean, scale, width, signs, landmarks, mapped)


class FoldModels(NamedTuple):
    """Linear models, one for each fold, which has not seen it."""

    slopes: Array  # (folds, features)
    centres: Array  # (folds,), the means of their thresholds
    scores: Array  # (folds, n), centred


@dataclass(frozen=True, eq=False)
class Assumed(Random):
    """What is assumed of labels while starts are learned."""

    varies: Array  # whether chances differ among the classes, of the first kinds; of no others
    M: Array

    @cached_property
    def cells(self) -> Cells:
        """The cells of which chances are known."""
        n_more = len(self.kinds.ends) - len(self.varies)
        return Cells(self.kinds, np.pad(self.varies, (0, n_more)))

    def table(self, phi: Array) -> Table:
        """Return their chances."""
        return Table(self.M, np.empty((len(self.M), 0)), lambda _: np.empty((0, 0)))


@dataclass(frozen=True, eq=False)
class Models:
    """Linear models of some features, one for each set of folds that is left out.

    Rows in no fold, one of each class at the mean of the features, are the prior of the classes.
    """

    Z: Array  # (n + K, d), about the mean
    mean: Array
    rows: LabelledRows
    mechanism: Assumed
    near: Array | None = None  # where the search begins

    @classmethod
    def of(cls, features: Array, rows: LabelledRows, cells: Cells, M: Array) -> Self:
        """Take features of rows whose labels have these chances."""
        ends, K, mean = cells.kinds.ends, cells.kinds.n_classes, features.mean(axis=0)
        ranks = np.arange(K)
        with_prior = LabelledRows(
            np.append(rows.kind, len(ends) + ranks),
            np.append(rows.weight, np.full(K, ALPHA / K, dtype=np.float32)),
            np.append(rows.fold, np.full(K, -1, dtype=rows.fold.dtype)),
        )
        Z = np.vstack([features - mean, np.zeros((K, len(mean)))])
        every = Kinds(np.vstack([ends, np.column_stack([ranks, ranks])]), K)
        return cls(Z, mean, with_prior, Assumed(every, cells.varies, M))

    def again(self, varies: Array, M: Array) -> Self:
        """Return models of labels with other chances; thresholds and length change the most."""
        d, last = len(self.mean), self.whole.x
        models = replace(self, mechanism=replace(self.mechanism, varies=varies, M=M))
        along = replace(models, Z=self.Z @ last[:d, np.newaxis], near=np.append(1.0, last[d:]))
        length, *theta = along.whole.x
        return replace(models, near=np.append(length * last[:d], theta))

    @cached_property
    def whole(self) -> Maximum:
        """The model without which nothing is left out."""
        return self.fit(self.rows.weight, self.near)

    @with_one_blas_thread
    def fit(self, weight: Array, start: Array | None) -> Maximum:
        """Return the model for which rows weigh so much."""
        d = self.Z.shape[1]
        rows = InMemory(Block(self.Z, self.rows.kind, weight), self.mechanism.kinds)
        priors, frame = Priors(np.full(d, ALPHA), None), Frame(np.zeros(d), np.ones(d))
        problem = CompiledProblem(rows, self.mechanism, priors, LOGIT, frame)
        start = problem.starts()[0] if start is None else start
        return problem.fit(Maximum(start), MOST_STEPS, tolerance=GAIN)

    @with_one_blas_thread
    def without(self, left_out: list[tuple[int, ...]]) -> tuple[Array, Array]:
        """Return the slopes and the centre of each model without some folds, as many for each.

        They are near the model of all rows: its information, less the share of the rows that are
        left out, serves for all steps of all models. Those that do not settle have Newton steps of
        their own.
        """
        is_out = np.zeros((len(left_out), 1 + max(map(max, left_out))), dtype=bool)
        np.put_along_axis(is_out, np.array(left_out), True, axis=1)
        numbers, alone = np.tile(self.whole.x, (len(left_out), 1)), np.arange(len(left_out))
        d, k = self.Z.shape[1], self.mechanism.kinds.n_classes - 1
        # Else, a matrix takes long, or there was no maximum in time.
        if self.whole.converged and max(d, k) <= MOST_DENSE:
            alone = self._step_together(numbers, is_out, self.whole.sums.information.dense())
        for j in alone.tolist():
            outside = (self.rows.fold >= 0) & is_out[j][self.rows.fold]
            numbers[j] = self.fit(np.where(outside, 0.0, self.rows.weight), numbers[j]).x
        slopes, cuts = np.ascontiguousarray(numbers[:, :d]), numbers[:, d:]
        return slopes, cuts.sum(axis=1) / max(cuts.shape[1], 1) + slopes @ self.mean

    def _step_together(self, numbers: Array, is_out: Array, matrix: Array) -> Array:
        """Take steps in place, halved where the value would fall; return who has not settled."""
        left, own = is_out[0].mean(), np.arange(len(self.mean))
        matrix *= 1.0 - left
        matrix[own, own] += left * ALPHA
        factor = cho_factor(matrix, lower=True, check_finite=False)
        going, step = np.arange(len(numbers)), np.zeros_like(numbers)
        last, size = np.full(len(numbers), -np.inf), np.ones((len(numbers), 1))
        for _ in range(FOLD_STEPS):
            x = numbers[going] + size[going] * step[going]
            value, gradient = self._look_at(x, is_out[going])
            rises, is_done = value >= last[going], np.zeros(len(going), dtype=bool)
            up, slope = going[rises], gradient[rises]
            numbers[up], last[up], size[up] = x[rises], value[rises], 1.0
            size[going[~rises]] /= 2.0
            step[up] = cho_solve(factor, slope.T, check_finite=False).T
            is_done[rises] = (slope * step[up]).sum(axis=1) < GAIN
            going = going[~is_done]
            if len(going) == 0:
                break
        return going

    def _look_at(self, x: Array, is_out: Array) -> tuple[Array, Array]:
        """Return the value of each model, NaN if thresholds are mixed up, and its gradient."""
        w, theta = np.split(x, [len(self.mean)], axis=1)
        labels = labels_of(self.mechanism.cells, theta, self.mechanism.M)
        e, value = np.ascontiguousarray(exp_of(w @ self.Z.T)), np.zeros(len(x))
        slope, by_cut = np.zeros(e.shape), np.zeros(labels.odds.shape)
        compiled.write_slopes(e, self.rows, labels, is_out, value, slope, by_cut)
        value[(np.diff(theta) <= 0.0).any(axis=1)] = np.nan
        value -= 0.5 * ALPHA * (w**2).sum(axis=1)
        return value, np.hstack([slope @ self.Z - ALPHA * w, by_cut[:, 1:-1]])


def learn_starts(
    view: View, rows: LabelledRows, n_folds: int, cells: Cells, M: Array, begun: list[Models]
) -> tuple[list[FoldModels], list[Models]]:
    """Learn a model for each fold, without it, of features and, if there are some, of landmarks.

    Labels have the chances M. If `begun` has models that were learned with others, these are where
    searches begin. Folds may have no row.
    """

    def learn(Z: Array, signs: Array) -> Models:
        models = Models.of(Z, rows, cells, M)
        is_wrong = signs * models.whole.x[: len(signs)] < 0.0
        # These slopes are 0 if their features are.
        return learn(np.where(is_wrong, 0.0, Z), signs) if is_wrong.any() else models

    def scored(X: Array, mean: Array, slopes: Array, centres: Array) -> FoldModels:
        scores = np.empty((n_folds, len(X)), dtype=np.float32)
        compiled.write_linear_scores(frozen(X), mean, slopes, centres, scores)
        return FoldModels(slopes, centres, scores)

    if begun:
        learned = [models.again(cells.varies, M) for models in begun]
    else:
        learned = [learn(view.Z, view.signs)]
        if view.mapped is not None:
            learned.append(learn(view.mapped, np.zeros(view.mapped.shape[1])))
    single: list[tuple[int, ...]] = [(j,) for j in range(n_folds)]
    slopes, centres = learned[0].without(single)
    slopes = np.where(slopes * view.signs < 0.0, 0.0, slopes)
    starts = [scored(view.X, view.mean, slopes / view.scale, centres)]
    if view.mapped is not None:
        zero = np.zeros(view.mapped.shape[1])
        starts.append(scored(view.mapped, zero, *learned[1].without(single)))
    return starts, learned


def cross(mapped: Array, fold: Array, start: FoldModels, learned: Models) -> None:
    """Score each row of another fold by a model that has not seen this fold either, in place.

    Landmark models fit the rows that they have seen so well that trees could not learn from what is
    left.
    """
    pairs = list(combinations(range(len(start.scores)), 2))
    for pair, slope, centre in zip(pairs, *learned.without([*pairs]), strict=True):
        for one, other in (pair, pair[::-1]):
            there = np.flatnonzero(fold == other)
            start.scores[one, there] = mapped[there] @ slope - centre
