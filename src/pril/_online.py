"""What all learners share: memory, passes over rows, predictions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pril import _loop as loop
from pril import _ranks
from pril._rows import n_rows, not_finite_error, read_rows
from pril._sklearn import Interval, fit_context
from pril.metrics import mean_over_rows

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]


class Memory(NamedTuple):
    """What a learner has learned: the additive state, and the sums of its average if it has one."""

    state: loop.State
    mean: loop.Mean | None

    @classmethod
    def blank(cls, n_scores: int, n_weights: int, n_thresholds: int, average: bool) -> Memory:
        """Return the zero start."""
        u, n = _aligned_zeros(n_scores, n_weights), np.zeros(n_thresholds)
        state = loop.State(u, n, shift=np.zeros(2), counts=np.zeros(3, dtype=np.int64))
        return cls(state, loop.Mean(_aligned_copy(u), n.copy()) if average else None)

    def copy(self) -> Memory:
        """Return a copy to learn on, so that a failure leaves this one as it is."""
        state = loop.State(*(_aligned_copy(part) for part in self.state))
        mean = self.mean and loop.Mean(*(_aligned_copy(part) for part in self.mean))
        return Memory(state, mean)

    def is_finite(self) -> bool:
        """Tell whether no sum has overflowed."""
        parts = [self.state.u, self.mean.u] if self.mean else [self.state.u]
        return all(np.isfinite(part).all() for part in parts)


def _aligned_zeros(*shape: int) -> Array:
    """Return zeros that begin on a cache line, which makes wide updates a third faster."""
    size = int(np.prod(shape))
    spare = np.zeros(size + 8)
    start = -(spare.ctypes.data // 8) % 8
    return spare[start : start + size].reshape(shape)


def _aligned_copy(array: Array) -> Array:
    if array.ndim < 2:  # thresholds and counters: too short to matter
        return array.copy()
    copy = _aligned_zeros(*array.shape)
    copy[:] = array
    return copy


class Patience:
    """When passes end early: after one without a mistake, or after some without progress."""

    def __init__(self, tol: float | None, n_iter_no_change: int) -> None:
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change
        self.best, self.stale = np.inf, 0

    def ends(self, mistakes: int, loss: float) -> bool:
        """Take note of a pass and its mean interval loss; tell whether it is the last."""
        if self.tol is not None:
            self.stale = self.stale + 1 if loss > self.best - self.tol else 0
            self.best = min(self.best, loss)
        return mistakes == 0 or self.stale >= self.n_iter_no_change


def total_loss(intervals: Array, order: Array | None, record: loop.Record | None) -> int:
    """Return the interval loss of what was predicted in a pass, 0 if it was not recorded."""
    if record is None:
        return 0
    ranked = intervals if order is None else intervals[order]
    return int(_ranks.interval_loss(ranked, record.rank).sum())


class OnlineClassifier(ClassifierMixin, BaseEstimator, ABC):
    """What all learners share: a pass over the rows, passes of `fit`, predictions.

    A learner supplies `_rule` and `_geometry`; a parameter it does not have is off.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "classes": ["array-like", None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "random_state": ["random_state"],
        "average": ["boolean"],
        "tol": [Interval(Real, 0, None, closed="left"), None],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
    }

    # Parameters that say what the sums mean, so that they cannot change once there are some.
    _fixed: ClassVar[tuple[str, ...]] = ("average",)
    _may_lose_mean: ClassVar[bool] = False

    classes: ArrayLike | None
    max_iter: int
    shuffle: bool
    random_state: Any
    tol: float | None
    n_iter_no_change: int
    classes_: Array
    n_features_in_: int
    n_iter_: int
    _memory: Any
    _learned_with: dict[str, Any]

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Any = None,
        average: bool = True,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        self.classes = classes
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.average = average
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change

    # --- What a learner is made of ---

    @abstractmethod
    def _rule(self) -> Any:
        """Return the rule, with its hyper-parameters as floats and booleans."""

    def _geometry(self) -> Any:
        return loop.Additive()

    def _n_scores(self) -> int:
        return 1

    def _inspect(self, rows: Any, table: _ranks.Labels, intervals: Array) -> None:
        """Refuse, or warn of, what this learner cannot take."""

    # --- Learning ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from scratch, in `max_iter` passes over the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. float32 and float64 are used as they are.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels, or the lower and the upper end of each label. A missing end is open.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with self._unchanged_on_failure():
            rows = self._read_rows(X, reset=True, min_rows=1)
            table = _ranks.read(y)
            self.classes_, intervals = _ranks.encode(table, self.classes)
            self._match(rows, table, intervals)
            memory = self._blank_memory(rows)
            rng = check_random_state(self.random_state)
            patience = Patience(self.tol, self.n_iter_no_change)
            for n_iter in range(1, self.max_iter + 1):
                self.n_iter_ = n_iter
                order = rng.permutation(len(intervals)) if self.shuffle else None
                record = None if self.tol is None else self._blank_record(len(intervals))
                mistakes = memory.state.counts[1]
                memory = self._learn(memory, rows, intervals, order, record)
                mistakes = memory.state.counts[1] - mistakes
                if patience.ends(mistakes, total_loss(intervals, order, record) / len(intervals)):
                    break
            self._memory = memory
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: Any, y: Any, classes: ArrayLike | None = None) -> Self:
        """Learn from each row once, in the order given: the paper's algorithm.

        Any chunking of a stream gives the same model, bit for bit. A call that fails leaves the
        model as it was; a call without rows does nothing.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. float32 and float64 are used as they are.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels, or the lower and the upper end of each label. A missing end is open.
        classes : array-like of shape (n_classes,), default=None
            The ordered labels, lowest first. Needed on the first call, unless the estimator's
            `classes` are set or y is an ordered Categorical.

        Returns
        -------
        self : object
            The estimator.
        """
        self._learn_once(X, y, classes, recording=False)
        return self

    def _learn_once(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        *,
        recording: bool,
        order: Array | None = None,
    ) -> tuple[Array, loop.Record | None]:
        """Do the work of `partial_fit`; return the intervals and, if asked, what was predicted."""
        with self._unchanged_on_failure() as before:
            fitted = hasattr(self, "_memory")
            if fitted:
                self._check_fixed()
            rows = self._read_rows(X, reset=not fitted, min_rows=0)
            table = _ranks.read(y)
            _ranks.check_length(table.values, range(n_rows(rows)))
            if not fitted and n_rows(rows) == 0:
                self.__dict__ = before
                if classes is not None:
                    _ranks.check_classes(classes)
                return np.empty((0, 2), dtype=np.int64), None
            self.classes_ = self._agreed_classes(table, classes)
            intervals = self._to_intervals(table, rows)
            memory = self._memory.copy() if fitted else self._blank_memory(rows)
            record = self._blank_record(len(intervals)) if recording else None
            self._memory = self._learn(memory, rows, intervals, order, record)
        return intervals, record

    @contextmanager
    def _unchanged_on_failure(self) -> Iterator[dict[str, Any]]:
        before = vars(self).copy()
        try:
            yield before
        except BaseException:
            self.__dict__ = before
            raise

    def _check_fixed(self) -> None:
        for name, value in self._learned_with.items():
            now = getattr(self, name)
            if now is not value and now != value:
                raise ValueError(
                    f"{name} was {value!r} when learning began and is {now!r} now: what was "
                    "learned has no meaning under it; set it back, or fit anew"
                )

    def _read_rows(self, X: Any, *, reset: bool, min_rows: int) -> Any:
        constant = float(getattr(self, "fit_intercept", False))
        return read_rows(self, X, constant=constant, reset=reset, min_rows=min_rows)

    def _agreed_classes(self, table: _ranks.Labels, classes: ArrayLike | None) -> Array:
        known: Array | None = getattr(self, "classes_", None)
        agreed = getattr(self, "_agreed", None)  # the very object: checked before
        for named in (self.classes, classes):
            if named is None or named is agreed:
                continue
            given = _ranks.check_classes(named)
            if known is not None and not np.array_equal(given, known):
                raise ValueError(
                    f"classes must stay the same: {_ranks.named(known)} were set before, "
                    f"now they are {_ranks.named(given)}"
                )
            known = given
        self._agreed = self.classes
        if table.ordered and self.classes is None and classes is None:
            if known is None:
                known = table.vocabulary
            elif not _ranks.same_order(table, known):
                raise ValueError(
                    f"y is a Categorical ordered {_ranks.named(table.vocabulary)}, against the "
                    f"classes {_ranks.named(known)} set before"
                )
        if known is None:
            raise ValueError(
                "classes must be passed on the first call to partial_fit, lowest first (or set "
                "classes on the estimator, or pass y as an ordered Categorical)"
            )
        return known

    def _to_intervals(self, table: _ranks.Labels, rows: Any) -> Array:
        """Return the intervals of known classes, if they fit the rows and the learner."""
        intervals = _ranks.to_intervals(table, self.classes_)
        self._match(rows, table, intervals)
        return intervals

    def _match(self, rows: Any, table: _ranks.Labels, intervals: Array) -> None:
        _ranks.check_length(intervals, range(n_rows(rows)))
        self._inspect(rows, table, intervals)

    def _blank_memory(self, rows: Any) -> Any:
        self._learned_with = {name: getattr(self, name) for name in self._fixed}
        average = getattr(self, "average", False)
        return Memory.blank(
            self._n_scores(), self.n_features_in_ + 1, len(self.classes_) - 1, average
        )

    def _blank_record(self, n: int) -> loop.Record:
        rank = np.empty(n, dtype=np.int64)
        return loop.Record(rank, np.empty((n, self._n_scores())), np.empty(n))

    def _learn(
        self,
        memory: Any,
        rows: Any,
        intervals: Array,
        order: Array | None,
        record: loop.Record | None,
    ) -> Any:
        """Run the loop and return the memory; if it fails, the one given must be dropped."""
        rule, geometry = self._rule(), self._geometry()
        state, mean = memory
        bad = loop.run(rows, intervals, order, rule, geometry, state, mean, record)
        if bad >= 0:
            raise not_finite_error(rows, self, int(bad if order is None else order[bad]))
        if not memory.is_finite():
            raise not_finite_error(rows, self, None)
        return memory

    # --- Predicting ---

    def predict(self, X: Any) -> Array:
        """Predict a label for each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The predicted classes.
        """
        rank = self._rate(X)[0]
        return self.classes_[rank]

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of predictions inside their interval: accuracy, for exact labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals. A label that the model does not know counts as a miss.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
        rank = self._rate(X)[0]
        table = _ranks.read(y)
        intervals = _ranks.to_intervals(table, self.classes_, allow_unknown=True)
        _ranks.check_length(intervals, rank)
        known = (intervals != _ranks.UNKNOWN).all(axis=1)
        hits = known & (_ranks.interval_loss(intervals, rank) == 0)
        return mean_over_rows(hits, sample_weight)

    def _rate(self, X: Any) -> tuple[Array, Array, Array]:
        """Return the rank and the scores of each row, and the thresholds, as they are reported."""
        check_is_fitted(self)
        self._check_fixed()
        rows = self._read_rows(X, reset=False, min_rows=1)
        w, cut, unit = self._parameters()
        ranks = np.empty(n_rows(rows), dtype=np.int64)
        scores = np.empty((n_rows(rows), len(w)))
        bad = loop.rate(rows, self._rule(), w, cut, ranks, scores)
        if bad >= 0:
            raise not_finite_error(rows, self, int(bad))
        return ranks, scores / unit, cut / unit

    def _parameters(self) -> tuple[Array, Array, float]:
        """Return weights, thresholds between sentinels, and the number that divides them."""
        check_is_fitted(self)
        self._check_fixed()
        state, mean = self._memory.state, self._memory.mean
        rounds = state.counts[0]
        if mean is not None and rounds > 0:
            state = state._replace(u=state.u - mean.u / rounds, n=state.n - mean.n / rounds)
        return loop.parameters(self._geometry(), state)  # type: ignore[no-any-return]

    @property
    def coef_(self) -> Array:
        """Weights of the features, one row a score."""
        w, _, unit = self._parameters()
        return w[:, :-1] / unit

    @property
    def t_(self) -> int:
        """Rounds learned from, over all passes and calls."""
        check_is_fitted(self)
        return int(self._memory.state.counts[0])

    @property
    def n_mistakes_(self) -> int:
        """Rounds that changed the model."""
        check_is_fitted(self)
        return int(self._memory.state.counts[1])

    @property
    def n_updates_(self) -> int:
        """Violated constraints, over all rounds."""
        check_is_fitted(self)
        return int(self._memory.state.counts[2])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # scikit-learn's accuracy check has nominal blobs, in no order along any line.
        tags.classifier_tags.poor_score = True
        return tags


class ThresholdClassifier(OnlineClassifier):
    """A learner with one score and thresholds that cut it into classes."""

    @property
    def coef_(self) -> Array:
        """Weights of the features."""
        coef: Array = super().coef_[0]
        return coef

    def latent(self, X: Any) -> Array:
        """Return the score f(x) that the thresholds cut into classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples,)
            Comparable to `thresholds_`.
        """
        return self._rate(X)[1][:, 0]

    def decision_function(self, X: Any) -> Array:
        """Return how far each score lies inside each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For two classes ``f(x) - threshold``. Otherwise the distance to the nearer threshold
            of each class, negative outside; the largest is the predicted class, except where the
            score equals a threshold.
        """
        _, scores, cut = self._rate(X)
        margins: Array = np.minimum(scores - cut[:-1], cut[1:] - scores)
        return scores[:, 0] - cut[1] if len(cut) == 3 else margins

    @property
    def thresholds_(self) -> Array:
        """Thresholds between neighbouring classes, ascending."""
        _, cut, unit = self._parameters()
        return cut[1:-1] / unit
