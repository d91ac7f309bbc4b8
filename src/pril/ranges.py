"""Predicted ranges with a guaranteed coverage."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pril.core import ranking
from pril.core.classifier import (
    ThresholdMixin,
    naming_rows,
    rate_in_batches,
    rate_rows,
    rows_to_rate,
)
from pril.core.parts import Parts, learns
from pril.core.scikit import HasMethods, Interval, StrOptions, fit_context, safe_indexing
from pril.errors import InputError, InputTypeError

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

__all__ = ["PredictionRanges"]


def __dir__() -> list[str]:
    return __all__


GUARANTEES = ("exact", "contain", "touch")


def _known_by_estimator(name: str, doc: str) -> Any:
    """Return a property that has the value of the fitted estimator."""

    def get(self: PredictionRanges) -> Any:
        if not hasattr(self, "estimator_"):
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r} before fit")
        return getattr(learner_of(self.estimator_) if name == "order_" else self.estimator_, name)

    return property(get, doc=doc)


class PredictionRanges(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Predict a range of classes with guaranteed coverage.

    This is split conformal prediction: some rows are set aside, and show how far the class of a
    row can be from its score. It makes no assumption about the learner. New rows must be
    exchangeable with the calibration rows, for example because all were drawn in the same way.

    Parameters
    ----------
    estimator : estimator
        A learner with thresholds, or a Pipeline that ends in one. If the learner, or the whole
        Pipeline, is a :class:`~sklearn.frozen.FrozenEstimator`, it is not trained again, and all
        rows of `fit` are used for calibration.
    coverage : float, default=0.9
        Smallest share of the rows for which the guarantee holds.
    guarantee : {"exact", "contain", "touch"}, default="exact"
        What is guaranteed for that share of the rows:

        - "exact": the predicted range contains the true class. Only rows with exact labels are
          used for calibration, and whether a label is exact must not depend on the row;
        - "contain": it contains the whole label, and so the true class if the label does;
        - "touch": it shares at least one class with the label.
    calibration_size : float, default=0.2
        Share of the rows of `fit` that are set aside for calibration.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of these rows.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.
    order_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    margin_ : float
        How far the range of a row extends beyond its score; infinite if there were too few
        calibration rows.
    n_calibration_ : int
        Number of calibration rows.
    n_features_in_ : int
        Number of features, if the estimator knows it.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the estimator knows them.

    Notes
    -----
    The guarantee is marginal: it holds on average over draws of the calibration rows and of new
    rows, not for each class or each row. It no longer holds once the estimator learns further
    rows.

    Every range contains the prediction, and the class in which the row's score lies.

    References
    ----------
    V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world", 2005.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedLogit, PredictionRanges
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 2))
    >>> y = np.digitize(X[:, 0] + rng.logistic(scale=0.3, size=2000), [-1, 0, 1]) + 1
    >>> model = OrderedLogit(classes=[1, 2, 3, 4], random_state=0)
    >>> ranges = PredictionRanges(model, coverage=0.9, random_state=0).fit(X[:1000], y[:1000])
    >>> ranges.predict_range([[-2.0, 0.0], [0.1, 0.0]])
    array([[1, 1],
           [2, 3]])
    >>> ranges.coverage_report(X[1000:], y[1000:])["exact"] > 0.87
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "estimator": [HasMethods(["fit", "predict"])],
        "coverage": [Interval(Real, 0, 1, closed="neither")],
        "guarantee": [StrOptions(set(GUARANTEES))],
        "calibration_size": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        coverage: float = 0.9,
        guarantee: Literal["exact", "contain", "touch"] = "exact",
        calibration_size: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.guarantee = guarantee
        self.calibration_size = calibration_size
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: Any) -> Self:
        """Learn from some of the rows, and calibrate on the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, as the estimator takes them.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals. Rows without a label are not used for calibration.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        from sklearn.model_selection import train_test_split  # takes half a second to import

        learner = learner_of(self.estimator)
        X, y = indexable(X, y)
        table = ranking.read(y)
        estimator = clone(self.estimator)  # a frozen estimator is returned as it is
        if not learns(estimator):
            check_is_fitted(learner)
            apart = np.arange(len(table.values))
        else:
            if get_tags(estimator).input_tags.pairwise:
                raise InputError(
                    "with a precomputed kernel no rows can be set aside to calibrate: fit the "
                    "estimator first, and pass it as a FrozenEstimator"
                )
            classes = ranking.encode(table, learner.classes)[0]
            rows, apart = train_test_split(
                np.arange(len(table.values)),
                test_size=self.calibration_size,
                random_state=self.random_state,
            )
            if not Parts.of(estimator).is_frozen:
                learner_of(estimator).set_params(classes=classes)  # some may not occur here
            with naming_rows(rows):
                estimator.fit(safe_indexing(X, rows), safe_indexing(y, rows))
            X, table = safe_indexing(X, apart), table.take(apart)
        with naming_rows(apart):
            intervals = ranking.to_intervals(table, learner_of(estimator).order_)
            fitted, rows_apart = learner_and_rows(estimator, X)
            _, scores, cut = rate_rows(fitted, rows_apart)
        scores = calibration_scores(scores, cut, intervals, self.guarantee)
        return calibrated(self, estimator, scores)

    def predict_range(self, X: Any) -> Array:
        """Predict the lowest and the highest class of each row.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        ranges : ndarray of shape (n_samples, 2)
            Two of the classes for each row.
        """
        check_is_fitted(self)
        ranges: Array = self.order_[self._rank_range(X)]
        return ranges

    def _rank_range(self, X: Any) -> Array:
        learner, rows = learner_and_rows(self.estimator_, X)
        return rate_in_batches(
            learner,
            rows,
            lambda rated, _: rank_ranges(rated.rank, rated.scores, rated.cut, self.margin_),
        )

    def predict(self, X: Any) -> Array:
        """Predict one class for each row, as the estimator does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        labels : ndarray of shape (n_samples,)
            The predicted classes.
        """
        check_is_fitted(self)
        labels: Array = self.estimator_.predict(X)
        return labels

    @available_if(
        lambda self: hasattr(getattr(self, "estimator_", self.estimator), "predict_proba")
    )
    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities of the classes, as the estimator does, if it has them.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            Columns follow the sorted classes.
        """
        check_is_fitted(self)
        probabilities: Array = self.estimator_.predict_proba(X)
        return probabilities

    def score(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> float:
        """Return the share of predictions inside their label, as the estimator does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
        check_is_fitted(self)
        share: float = self.estimator_.score(X, y, sample_weight=sample_weight)
        return share

    def coverage_report(self, X: Any, y: Any) -> dict[str, Any]:
        """Measure the coverage on further rows, and how wide the ranges are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or intervals; a row without a label is ignored.

        Returns
        -------
        report : dict
            `guarantee` and `coverage`, as they were asked for; `rows` and `exact_rows`, how many
            have a label, and an exact one; the shares of rows whose range contains their label
            (`contain`), has a class in common with it (`touch`), or contains their exact label
            (`exact`, of the rows that have one); `mean_width`, in classes. None stands for the
            mean of no rows.
        """
        check_is_fitted(self)
        ranges = self._rank_range(X)
        intervals = ranking.to_intervals(ranking.read(y), self.order_)
        ranking.check_length(intervals, ranges)
        return compare_ranges(self, ranges, intervals)

    classes_ = _known_by_estimator("classes_", "The classes, sorted.")
    order_ = _known_by_estimator("order_", "The classes, lowest first.")
    n_features_in_ = _known_by_estimator("n_features_in_", "Number of features.")
    feature_names_in_ = _known_by_estimator("feature_names_in_", "Names of the features.")

    def __getstate__(self) -> dict[str, Any]:
        """Return what copies and files have: a frozen estimator is the fitted one, kept once."""
        state = dict(super().__getstate__())
        if state.get("estimator_") is self.estimator:
            del state["estimator_"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "margin_" in state and "estimator_" not in state:
            self.estimator_ = self.estimator

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = get_tags(self.estimator)
        tags.input_tags = own.input_tags
        tags.classifier_tags = own.classifier_tags
        return tags


# --- The calibration -----------------------------------------------------------------------------


def calibrated(ranges: PredictionRanges, estimator: Any, scores: Array) -> PredictionRanges:
    """Calibrate by the scores of rows that a fitted estimator has not learned from."""
    ranges.margin_ = conformal_margin(scores, ranges.coverage, ranges.guarantee)
    ranges.estimator_ = estimator
    ranges.n_calibration_ = len(scores)
    return ranges


def compare_ranges(model: PredictionRanges, ranges: Array, intervals: Array) -> dict[str, Any]:
    """Compare predicted ranges with labels, both as ranks: see `coverage_report`."""
    labelled = ranking.is_labelled(intervals)
    (low, high), (lo, hi) = ranges[labelled].T, intervals[labelled].T
    contain, exact = (low <= lo) & (hi <= high), lo == hi
    return {
        "guarantee": model.guarantee,
        "coverage": float(model.coverage),
        "rows": len(lo),
        "exact_rows": int(exact.sum()),
        "exact": _mean(contain[exact]),
        "contain": _mean(contain),
        "touch": _mean((low <= hi) & (lo <= high)),
        "mean_width": _mean(high - low + 1),
    }


def learner_and_rows(estimator: Any, X: Any) -> tuple[Any, Any]:
    """Return the learner that an estimator ends in, and the rows that it is to rate."""
    parts = Parts.of(estimator)
    return parts.learner, rows_to_rate(parts.learner, parts.transform(X))


# A score lies max(cut[y] - score, score - cut[y + 1]) outside of class y; below 0 it is inside. The
# first term grows with y and the second falls, so one or two classes give the extremes of a range.


def calibration_scores(scores: Array, cut: Array, intervals: Array, guarantee: str) -> Array:
    """Return the calibration scores of the rows that have one.

    It is the distance of the score from the nearest class of the label ("touch") or from the
    farthest.
    """
    lo, hi = intervals.T
    used = lo == hi if guarantee == "exact" else lo <= hi
    score, lo, hi = scores[used, 0], lo[used], hi[used]
    if guarantee == "touch":
        own = np.searchsorted(cut[1:-1], score, side="right")
        lo = hi = np.clip(own, lo, hi)
    distances: Array = np.maximum(cut[hi] - score, score - cut[lo + 1])
    return distances


def conformal_margin(scores: Array, coverage: float, guarantee: str) -> float:
    """Return the margin: the k-th smallest of n scores, k being (n + 1) coverage, rounded up.

    If k is larger than n, the margin is infinite. It is never negative, so that every range has
    a class.
    """
    n, share = len(scores), Fraction(str(float(coverage)))  # exactly nine tenths for 0.9
    others = 'guarantee="contain" and guarantee="touch" can use labels that are ranges'
    if guarantee == "exact" and n == 0:
        raise InputError(f'guarantee="exact" needs rows with exact labels, there is none; {others}')
    if n == 0:
        raise InputError("no row with a label is left to calibrate with")
    k = math.ceil((n + 1) * share)
    if k <= n:
        return max(0.0, float(np.partition(scores, k - 1)[k - 1]))
    kind = "rows with an exact label" if guarantee == "exact" else "rows with a label"
    warnings.warn(
        f"every range is the full scale: coverage={float(coverage)} needs at least "
        f"{math.ceil(share / (1 - share))} {kind} to calibrate with, there are {n}"
        + (f"; {others}" if guarantee == "exact" else ""),
        stacklevel=5,
    )
    return math.inf


def rank_ranges(rank: Array, scores: Array, cut: Array, margin: float) -> Array:
    """Return the lowest and the highest rank of the classes within the margin of a score.

    A range always includes the predicted rank, which may be farther away.
    """
    score = scores[:, 0]
    low, high = np.zeros_like(rank), np.full_like(rank, len(cut) - 2)
    for threshold in cut[1:-1]:  # not searchsorted: these differences are those that calibrated
        low += score - threshold > margin
        high -= threshold - score > margin
    return np.column_stack([np.minimum(low, rank), np.maximum(high, rank)])


def _mean(values: Array) -> float | None:
    return float(values.mean()) if len(values) else None


def learner_of(estimator: Any) -> Any:
    """Return the learner that an estimator is or ends in."""
    learner = Parts.of(estimator).learner
    if not isinstance(learner, ThresholdMixin):
        raise InputTypeError(
            "estimator must be a learner with thresholds, or a Pipeline that ends in one, got "
            f"{type(learner).__name__}"
        )
    return learner
