"""Predicted ranges with a guaranteed coverage."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import get_tags, indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pril.bases import classifier
from pril.bases.parts import Parts, learns
from pril.core.arrays import Array, FeaturesLike, LabelsLike, Ranks, Seed
from pril.core.scikit import HasMethods, Interval, StrOptions, fit_context, safe_indexing
from pril.errors import InputError, RowError, shown
from pril.labels import ranking
from pril.labels.resampling import Groups, read_groups

__all__ = ["PredictionRanges"]


GUARANTEES = ("exact", "contain", "touch")
# Exact labels count as easier than ranges if there are this many rows of both, if the p-value is
# smaller, and if the score is farther from all thresholds in a larger share of the pairs.
MIN_ROWS_TO_COMPARE, MAX_P_EASIER, MIN_SHARE_EASIER = 20, 0.001, 0.55
CLASS = "class"  # the value of `by` that names no column


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
          used for calibration, and whether a label is exact must not depend on the row. Ranges of
          votes are exact where a row is easy: `fit` warns of that, if it shows;
        - "contain": it contains the whole label, and so the true class if the label does;
        - "touch": it shares at least one class with the label.
    by : "class", str or int, default=None
        Where the guarantee holds. None: for all rows together, so that it may fail for some of
        them, such as a rare class. "class": for the rows of each class. Otherwise a column of X,
        by name or, if X is an array, by position: for the rows with each value of the column. Each
        class or value is calibrated by its rows, and `fit` refuses those with too few.
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
    margin_ : float, or ndarray of shape (n_groups,)
        How far the range of a row extends beyond its score; infinite if there were too few
        calibration rows. With `by`, one for each of `groups_`.
    n_calibration_ : int, or ndarray of shape (n_groups,)
        Number of calibration rows. With `by`, of each of `groups_`.
    groups_ : ndarray of shape (n_groups,)
        The classes, lowest first, or the values of the column; only with `by`.
    n_features_in_ : int
        Number of features, if the estimator knows it.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if the estimator knows them.

    Notes
    -----
    The guarantee is marginal: it holds on average over draws of the calibration rows and of new
    rows, not for each row; nor for each class or group of rows, unless `by` says so. It no longer
    holds once the estimator learns further rows.

    With ``by="class"`` and the guarantee "exact", for each class, at least a share `coverage` of
    its rows have a range that contains it. Whether a label is exact may then depend on the class,
    but not on anything else. With the guarantee "contain", for each class, at least that share of
    the rows whose label includes it have a range that contains their whole label; and so has that
    share of all rows. If the labels of r rows include a class for each row of that class, then at
    most r times ``1 - coverage`` of the rows of that class have a range without it.

    Every range contains the prediction, and the class in which the row's score lies.

    References
    ----------
    V. Vovk, A. Gammerman and G. Shafer, "Algorithmic learning in a random world", 2005 (chapter 4
    has the guarantees for classes and groups).

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
        "by": [str, Interval(Integral, 0, None, closed="left"), None],
        "calibration_size": [Interval(Real, 0, 1, closed="neither")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: BaseEstimator,
        *,
        coverage: float = 0.9,
        guarantee: Literal["exact", "contain", "touch"] = "exact",
        by: str | int | None = None,
        calibration_size: float = 0.2,
        random_state: Seed = None,
    ) -> None:
        self.estimator = estimator
        self.coverage = coverage
        self.guarantee = guarantee
        self.by = by
        self.calibration_size = calibration_size
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: FeaturesLike, y: LabelsLike) -> Self:
        """Learn from some of the rows, and calibrate on the others.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features, as the estimator takes them.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges. Rows without a label are not used for calibration.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        from sklearn.model_selection import train_test_split  # takes half a second to import

        learner = learner_of(self.estimator)
        check_promise(self)
        X, y = indexable(X, y)
        table = ranking.read(y)
        groups = _groups_in(X, self.by)
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
            with classifier.naming_rows(rows):
                estimator.fit(safe_indexing(X, rows), safe_indexing(y, rows))
            X, table = safe_indexing(X, apart), table.take(apart)
        with classifier.naming_rows(apart):
            intervals = ranking.to_intervals(table, learner_of(estimator).order_)
            fitted, rows_apart = learner_and_rows(estimator, X)
            _, scores, cut = classifier.rate_rows(fitted, rows_apart)
        names, code = (None, None) if groups is None else (groups.names, groups.code[apart])
        calibration = Calibration.of(self, scores, cut, intervals, code)
        return calibrated(self, estimator, calibration, names)

    def predict_range(self, X: FeaturesLike) -> Array:
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
        return self.order_[self._rank_range(X)]

    def _rank_range(self, X: FeaturesLike) -> Array:
        code = self._group_of_rows(X)
        learner, rows = learner_and_rows(self.estimator_, X)
        return classifier.rate_in_batches(
            learner,
            rows,
            lambda rated, batch: ranges_of(self, *rated, None if code is None else code[batch]),
        )

    def _group_of_rows(self, X: FeaturesLike) -> Array | None:
        """Return the position of each row's group, None if ranges are not by a column."""
        groups = _groups_in(X, self.by)
        if groups is None:
            return None
        place = {name: k for k, name in enumerate(self.groups_.tolist())}
        positions = np.array([place.get(name, -1) for name in groups.names.tolist()])
        code: Array = positions[groups.code]
        if (code < 0).any():
            t = int(np.argmax(code < 0))
            value = shown(ranking.plain(groups.names[groups.code[t]]))
            reason = f"column {self.by!r} is {value}, and no such row has calibrated the ranges"
            raise RowError("X", t, f"{reason}, only {ranking.named(self.groups_)}")
        return code

    def predict(self, X: FeaturesLike) -> Array:
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
        return self.estimator_.predict(X)

    @available_if(
        lambda self: hasattr(getattr(self, "estimator_", self.estimator), "predict_proba")
    )
    def predict_proba(self, X: FeaturesLike) -> Array:
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
        return self.estimator_.predict_proba(X)

    def score(
        self, X: FeaturesLike, y: LabelsLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of predictions inside their label, as the estimator does.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
        check_is_fitted(self)
        return self.estimator_.score(X, y, sample_weight=sample_weight)

    def coverage_report(
        self, X: FeaturesLike, y: LabelsLike, *, by: str | int | None = None
    ) -> dict[str, Any]:
        """Measure the coverage on further rows, and how wide the ranges are.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges; a row without a label is ignored.
        by : "class", str or int, default=None
            Measure it also for each class, or for each value of a column of X. None takes the
            parameter `by`.

        Returns
        -------
        report : dict
            `guarantee` and `coverage`, as they were asked for; `rows` and `exact_rows`, how many
            have a label, and an exact one; the shares of rows whose range contains their label
            (`contain`), has a class in common with it (`touch`), or contains their exact label
            (`exact`, of the rows that have one); `mean_width`, in classes. None stands for the
            mean of no rows. With `by`, `groups` has the numbers of each class or value; those of a
            class are of the rows whose label includes it.
        """
        check_is_fitted(self)
        ranges = self._rank_range(X)
        intervals = ranking.to_intervals(ranking.read(y), self.order_)
        ranking.check_length(intervals, ranges)
        report = compare_ranges(self, ranges, intervals)
        if (by := self.by if by is None else by) is None:
            return report
        groups = _groups_in(X, by)
        if groups is None:
            lo, hi = intervals.T
            named = [(name, (lo <= k) & (k <= hi)) for k, name in enumerate(self.order_)]
        else:
            named = [(name, groups.code == k) for k, name in enumerate(groups.names)]
        report["groups"] = {
            ranking.plain(name): measure_ranges(ranges[own], intervals[own]) for name, own in named
        }
        return report

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


def check_promise(ranges: PredictionRanges) -> None:
    """Refuse parameters that do not go together."""
    if ranges.by == CLASS and ranges.guarantee == "touch":
        raise InputError(
            "by='class' guarantees that ranges contain classes, and guarantee='touch' does not: "
            "choose 'exact' or 'contain'"
        )


def is_by_column(ranges: PredictionRanges) -> bool:
    """Tell whether the range of a row depends on a column of the table, besides its score."""
    return ranges.by is not None and ranges.by != CLASS


class Calibration(NamedTuple):
    """Rows that calibrate ranges."""

    distance: Array  # of the score from the label
    first: Array  # the first and the last of the groups that the row is in
    last: Array
    depth: Array  # of the score from the nearest threshold
    others: Array  # the same of rows that cannot calibrate, because their label is a range

    @classmethod
    def of(
        cls,
        ranges: PredictionRanges,
        scores: Array,
        cut: Array,
        intervals: Array,
        code: Ranks | None = None,
    ) -> Calibration:
        """Use the rows that the guarantee is about; `code` is the group of each by a column."""
        used = calibrates(intervals, ranges.guarantee)
        distance = calibration_scores(scores, cut, intervals, ranges.guarantee)
        own = np.searchsorted(cut[1:-1], scores[:, 0], side="right")
        depth = np.minimum(scores[:, 0] - cut[own], cut[own + 1] - scores[:, 0])
        depths = depth[used], depth[ranking.is_labelled(intervals) & ~used]
        if ranges.by == CLASS:
            lo, hi = intervals[used].T
            return cls(distance, lo, hi, *depths)
        group = np.zeros(len(distance), dtype=np.int64) if code is None else code[used]
        return cls(distance, group, group, *depths)

    @classmethod
    def none(cls) -> Calibration:
        """Return no rows."""
        group = np.empty(0, dtype=np.int64)
        return cls(np.empty(0), group, group, np.empty(0), np.empty(0))

    def merge(self, other: Calibration) -> Calibration:
        """Return the rows of both."""
        return Calibration(*map(np.concatenate, zip(self, other, strict=True)))


def calibrated(
    ranges: PredictionRanges,
    estimator: BaseEstimator,
    rows: Calibration,
    names: Array | None = None,
) -> PredictionRanges:
    """Calibrate by rows that a fitted estimator has not learned from.

    `names` are the values of the column that ranges are by.
    """
    groups = learner_of(estimator).order_ if ranges.by == CLASS else names
    if groups is None:
        margin: Any = _margin(ranges, rows.distance)
        size: Any = len(rows.distance)
        ranges.__dict__.pop("groups_", None)  # of an earlier fit
    else:
        own = [rows.distance[(rows.first <= k) & (k <= rows.last)] for k in range(len(groups))]
        size = np.array([len(part) for part in own], dtype=np.int64)
        _check_sizes(ranges, groups, size)
        margin = np.array([_margin(ranges, part) for part in own])
        if ranges.by == CLASS and ranges.guarantee == "contain":
            # A label counts for each of its classes: what holds for each may not hold for all.
            margin = np.maximum(margin, _margin(ranges, rows.distance))
        ranges.groups_ = groups
    ranges.margin_, ranges.n_calibration_ = margin, size
    ranges.estimator_ = estimator
    if ranges.by != CLASS:  # by class, exact labels may be more frequent in easy classes
        _warn_if_easier(rows)
    return ranges


def _warn_if_easier(rows: Calibration) -> None:
    """Warn if rows with exact labels are easier than rows whose labels are ranges.

    If whether a label is exact does not depend on the row, the scores of both have the same
    distribution, and the test of Mann and Whitney fails once in a thousand times.
    """
    n_pairs = len(rows.depth) * len(rows.others)
    if min(len(rows.depth), len(rows.others)) < MIN_ROWS_TO_COMPARE:
        return
    from scipy.stats import mannwhitneyu

    test = mannwhitneyu(rows.depth, rows.others, alternative="greater", method="asymptotic")
    share = test.statistic / n_pairs
    if test.pvalue < MAX_P_EASIER and share > MIN_SHARE_EASIER:
        warnings.warn(
            "rows with an exact label are easier than those whose label is a range: the score is "
            f"farther from all thresholds in {share:.0%} of the pairs. guarantee='exact' then "
            "holds for rows like those with an exact label, and for fewer of the others. If the "
            "labels are ranges of votes, calibrate with the median or one vote of each row; or use "
            "guarantee='contain'",
            stacklevel=5,
        )


def _margin(ranges: PredictionRanges, distance: Array) -> float:
    return conformal_margin(distance, ranges.coverage, ranges.guarantee)


def _check_sizes(ranges: PredictionRanges, groups: Array, sizes: Array) -> None:
    """Refuse groups that have too few rows to calibrate with."""
    needed = rows_needed(ranges.coverage)
    few = np.flatnonzero(sizes < needed)
    if len(few):
        listed = ", ".join(f"{shown(ranking.plain(groups[k]))} has {sizes[k]}" for k in few)
        group = "class" if ranges.by == CLASS else f"value of {ranges.by!r}"
        raise InputError(
            f"by={ranges.by!r} with coverage={float(ranges.coverage)} needs at least {needed} "
            f"{_kind_of_rows(ranges.guarantee)} for each {group} to calibrate with: {listed}; join "
            "those with few rows, lower the coverage, or calibrate with more rows"
        )


def compare_ranges(model: PredictionRanges, ranges: Array, intervals: Array) -> dict[str, Any]:
    """Compare predicted ranges with labels, both as ranks: see `coverage_report`."""
    asked = {"guarantee": model.guarantee, "coverage": float(model.coverage)}
    return asked | measure_ranges(ranges, intervals)


def measure_ranges(ranges: Array, intervals: Array) -> dict[str, Any]:
    """Return the shares of rows whose label is in their range, and how wide ranges are."""
    labelled = ranking.is_labelled(intervals)
    ranges, intervals = ranges[labelled], intervals[labelled]
    contain, exact = holding(ranges, intervals), intervals[:, 0] == intervals[:, 1]
    return {
        "rows": len(ranges),
        "exact_rows": int(exact.sum()),
        "exact": _mean(contain[exact]),
        "contain": _mean(contain),
        "touch": _mean(holding(ranges, intervals, touch=True)),
        "mean_width": _mean(np.diff(ranges) + 1),
    }


def holding(ranges: Array, intervals: Array, *, touch: bool = False) -> Array:
    """Return which ranges contain their label, or have a class in common with it."""
    (low, high), (lo, hi) = ranges.T, intervals.T
    return (low <= hi) & (lo <= high) if touch else (low <= lo) & (hi <= high)


def _groups_in(X: Any, by: str | int | None) -> Groups | None:
    """Return the groups of rows by a column of X, None if they are not by a column."""
    columns = getattr(X, "columns", ())
    if by == CLASS and CLASS in columns:
        raise InputError(
            'by="class" is the class to predict, and X has a column of that name: rename it'
        )
    if by is None or by == CLASS:
        return None
    try:
        # SciPy before 1.15 takes no single column of a sparse array.
        column = X[:, [by]].toarray().ravel() if issparse(X) else safe_indexing(X, by, axis=1)
    except (IndexError, KeyError, ValueError, TypeError):
        raise InputError(f"by={by!r} is not a column of X") from None
    return read_groups(column, len(column), name=f"X, column {by!r}")


def learner_and_rows(estimator: BaseEstimator, X: FeaturesLike) -> tuple[Any, Any]:
    """Return the learner that an estimator ends in, and the rows that it is to rate."""
    parts = Parts.of(estimator)
    return parts.learner, classifier.rows_to_rate(parts.learner, parts.transform(X))


# A score lies max(cut[y] - score, score - cut[y + 1]) outside of class y; below 0 it is inside. The
# first term grows with y and the second falls, so one or two classes give the extremes of a range.


def calibrates(intervals: Array, guarantee: str) -> Array:
    """Return which rows can show what is guaranteed."""
    lo, hi = intervals.T
    return lo == hi if guarantee == "exact" else lo <= hi


def calibration_scores(scores: Array, cut: Array, intervals: Array, guarantee: str) -> Array:
    """Return the calibration scores of the rows that have one.

    It is the distance of the score from the nearest class of the label ("touch") or from the
    farthest.
    """
    used = calibrates(intervals, guarantee)
    score, (lo, hi) = scores[used, 0], intervals[used].T
    if guarantee == "touch":
        own = np.searchsorted(cut[1:-1], score, side="right")
        lo = hi = np.clip(own, lo, hi)
    return np.maximum(cut[hi] - score, score - cut[lo + 1])


def conformal_margin(scores: Array, coverage: float, guarantee: str) -> float:
    """Return the margin: the k-th smallest of n scores, k being (n + 1) coverage, rounded up.

    If k is larger than n, the margin is infinite. It is never negative, so that every range has
    a class.
    """
    n = len(scores)
    others = 'guarantee="contain" and guarantee="touch" can use labels that are ranges'
    if guarantee == "exact" and n == 0:
        raise InputError(f'guarantee="exact" needs rows with exact labels, there is none; {others}')
    if n == 0:
        raise InputError("no row with a label is left to calibrate with")
    k = math.ceil((n + 1) * _exactly(coverage))
    if k <= n:
        return max(0.0, float(np.partition(scores, k - 1)[k - 1]))
    warnings.warn(
        f"every range is the full scale: coverage={float(coverage)} needs at least "
        f"{rows_needed(coverage)} {_kind_of_rows(guarantee)} to calibrate with, there are {n}"
        + (f"; {others}" if guarantee == "exact" else ""),
        stacklevel=6,
    )
    return math.inf


def rows_needed(coverage: float) -> int:
    """Return the smallest n of which (n + 1) coverage, rounded up, is at most n."""
    share = _exactly(coverage)
    return math.ceil(share / (1 - share))


def _exactly(coverage: float) -> Fraction:
    """Return nine tenths for 0.9."""
    return Fraction(str(float(coverage)))


def _kind_of_rows(guarantee: str) -> str:
    return "rows with an exact label" if guarantee == "exact" else "rows with a label"


def ranges_of(
    model: PredictionRanges, rank: Array, scores: Array, cut: Array, code: Array | None = None
) -> Array:
    """Return the ranges of rated rows as ranks; `code` is the group of each row by a column."""
    margin: Any = model.margin_
    if model.by != CLASS:
        return rank_ranges(rank, scores, cut, margin if code is None else margin[code])
    low, high, widest = rank.copy(), rank.copy(), np.zeros(len(rank))
    for k, own in enumerate(margin):
        inside = np.maximum(cut[k] - scores[:, 0], scores[:, 0] - cut[k + 1]) <= own
        low, high = np.where(inside & (k < low), k, low), np.where(inside & (k > high), k, high)
        widest = np.where(inside, np.maximum(widest, own), widest)
    if model.guarantee == "exact":
        return np.column_stack([low, high])
    # If a label is within the margin of any of its classes, the range must contain all of it.
    return rank_ranges(rank, scores, cut, widest)


def rank_ranges(rank: Array, scores: Array, cut: Array, margin: Array | float) -> Array:
    """Return the lowest and the highest rank of the classes within the margin of a score.

    The margin is one number, or one for each row.

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


def learner_of(estimator: BaseEstimator) -> Any:
    """Return the learner that an estimator is or ends in."""
    parts = Parts.of(estimator)
    if not isinstance(parts.learner, classifier.ThresholdMixin):
        raise parts.wrong("estimator must be a learner with thresholds")
    return parts.learner
