"""Metrics of predictions where labels may be ranges; distances are counted in ranks."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from pril.bases.weights import mean_over_rows, read_weights
from pril.core.arrays import Array, FeaturesLike, LabelsLike, Ranks
from pril.core.docs import filled
from pril.core.rating import read_probabilities
from pril.errors import ClassOrderWarning, InputError, RowError
from pril.labels import ranking
from pril.labels.scale import read_numbers

__all__ = [
    "IntervalScorer",
    "calibration_error",
    "interval_absolute_error",
    "interval_accuracy",
    "interval_accuracy_scorer",
    "interval_hinge_loss",
    "interval_log_loss",
    "neg_interval_absolute_error_scorer",
    "neg_interval_log_loss_scorer",
    "ranked_probability_score",
]


def interval_absolute_error(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    classes: LabelsLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean number of ranks by which a prediction misses its interval.

    This is the paper's interval-insensitive loss L_I^MAE. For exact labels it is the mean absolute
    error.

    Parameters
    ----------
    %(y_true)
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes all that occur in either argument, as `fit`
        would. A class that does not occur is then not counted as a rank.
    %(sample_weight)

    Returns
    -------
    loss : float
        0 is best.

    Examples
    --------
    >>> from pril.metrics import interval_absolute_error
    >>> interval_absolute_error([(1, 2), (2, 3), (1, 1)], [2, 1, 3], classes=[1, 2, 3])
    1.0
    """
    _, intervals, rank = rank_both(y_true, y_pred, classes)
    loss = ranking.interval_loss(intervals, rank)
    return mean_over_rows(loss, ranking.is_labelled(intervals), sample_weight)


def interval_accuracy(
    y_true: LabelsLike,
    y_pred: LabelsLike,
    *,
    classes: LabelsLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the share of predictions inside their interval; for exact labels, the accuracy.

    Parameters
    ----------
    %(y_true)
    y_pred : array-like of shape (n_samples,)
        Predicted labels.
    classes : array-like, default=None
        The ordered classes, lowest first. None takes all that occur in either argument.
    %(sample_weight)

    Returns
    -------
    share : float
        1 is best.

    Examples
    --------
    >>> from pril.metrics import interval_accuracy
    >>> interval_accuracy([(1, 2), (2, None), (1, 1), (3, 3)], [2, 3, 1, 1], classes=[1, 2, 3])
    0.75
    """
    _, intervals, rank = rank_both(y_true, y_pred, classes)
    hits = ranking.interval_loss(intervals, rank) == 0
    return mean_over_rows(hits, ranking.is_labelled(intervals), sample_weight)


def interval_hinge_loss(
    y_true: LabelsLike,
    scores: ArrayLike,
    thresholds: ArrayLike,
    *,
    classes: LabelsLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean of the convex surrogate loss that PRIL minimises, the paper's L_I^IMC.

    The loss of a row is the sum of the distances by which its score is on the wrong side of
    thresholds.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends. A missing end is open; a row without a label is
        ignored.
    scores : array-like of shape (n_samples,)
        Scores, as `latent` gives them.
    thresholds : array-like of shape (n_classes - 1,)
        Thresholds, ascending, as `thresholds_` holds them.
    classes : array-like of shape (n_classes,), default=None
        The ordered classes, lowest first. None takes them from `y_true`, where all must occur.
    sample_weight : array-like of shape (n_samples,), default=None
        Weight of each row.

    Returns
    -------
    loss : float
        0 is best.

    Examples
    --------
    >>> from pril.metrics import interval_hinge_loss
    >>> interval_hinge_loss([(1, 1), (2, 3)], [0.5, -1.0], [0.0, 1.0], classes=[1, 2, 3])
    0.75
    """
    order, intervals = ranking.encode(ranking.read(y_true, name="y_true"), classes, name="y_true")
    cut, score = read_numbers(thresholds, "thresholds"), read_numbers(scores, "scores")
    if cut.shape != (len(order) - 1,):
        raise InputError(
            f"thresholds must have shape ({len(order) - 1},), got {cut.shape}, for the classes "
            f"{ranking.named(order)}; pass classes= if some do not occur in y_true"
        )
    if not (np.diff(cut) >= 0).all() or not np.isfinite(cut).all():
        raise InputError(f"thresholds must be finite and ascend, got {ranking.named(cut)}")
    if not np.isfinite(score).all():
        raise RowError("scores", int(np.argmin(np.isfinite(score))), "the score is not finite")
    ranking.check_length(score, intervals, name="scores", other="y_true")
    sides = ranking.constraints(intervals, len(order))
    beyond = np.where(sides == 0, 0.0, -sides * (score[:, np.newaxis] - cut))
    loss = np.maximum(beyond, 0.0).sum(axis=1)
    return mean_over_rows(loss, ranking.is_labelled(intervals), sample_weight)


def interval_log_loss(
    y_true: LabelsLike,
    y_proba: ArrayLike,
    *,
    classes: LabelsLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean negative log-probability of the rows' ranges.

    For exact labels it is the log-loss. Wide ranges tell less: for a range over the full scale,
    the loss is 0 whatever the prediction.

    Parameters
    ----------
    %(y_true)
    y_proba : array-like of shape (n_samples, n_classes)
        Probabilities of the classes, as `predict_proba` gives them: columns follow the sorted
        classes. A range of probability 0 counts as machine epsilon.
    %(classes sample_weight)

    Returns
    -------
    loss : float
        0 is best.

    Examples
    --------
    >>> from pril.metrics import interval_log_loss
    >>> y_proba = [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]
    >>> round(interval_log_loss([(1, 1), (2, None)], y_proba, classes=[1, 2, 3]), 3)
    0.49
    """
    intervals, proba = _read_probabilities(y_true, y_proba, classes)
    rank = np.arange(proba.shape[1])
    inside = (rank >= intervals[:, :1]) & (rank <= intervals[:, 1:])
    chance = np.where(inside, proba, 0.0).sum(axis=1)
    loss = -np.log(np.clip(chance, np.finfo(proba.dtype).eps, 1.0))
    return mean_over_rows(loss, ranking.is_labelled(intervals), sample_weight)


def ranked_probability_score(
    y_true: LabelsLike,
    y_proba: ArrayLike,
    *,
    classes: LabelsLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return the mean squared error of the cumulative probabilities, summed over the classes.

    For a row of class y, it is the sum over all classes i except the last of ``(P(y <= i) - [y <=
    i]) ** 2``. A range lo..hi determines the terms below lo and from hi on, but not those between.
    So only rows with exact labels are scored: a mean over ranges would favour models that are
    wrong where ranges are wide.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends. Rows whose label is a range, or missing, are
        ignored.
    y_proba : array-like of shape (n_samples, n_classes)
        Probabilities of the classes, as `predict_proba` gives them: columns follow the sorted
        classes.
    %(classes sample_weight)

    Returns
    -------
    score : float
        0 is best.

    Examples
    --------
    >>> from pril.metrics import ranked_probability_score
    >>> y_proba = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    >>> ranked_probability_score([1, 3], y_proba, classes=[1, 2, 3])
    0.125
    """
    intervals, proba = _read_probabilities(y_true, y_proba, classes)
    expected, observed = _cumulated(intervals, proba)
    score = np.square(expected - observed).sum(axis=1)
    return mean_over_rows(score, _is_exact(intervals), sample_weight, kind="an exact label")


def calibration_error(
    y_true: LabelsLike,
    y_proba: ArrayLike,
    *,
    classes: LabelsLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    """Return how far predicted probabilities are from observed shares.

    For each class i except the last, rows are put into ten bins by their P(y <= i). In each bin,
    the mean probability is compared with the share of rows with y <= i. The result is the mean
    absolute difference over all rows and all i.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or lower and upper ends. Rows whose label is a range, or missing, are
        ignored: a range does not say on which side of a class inside it the row is.
    y_proba : array-like of shape (n_samples, n_classes)
        Probabilities of the classes, as `predict_proba` gives them: columns follow the sorted
        classes.
    %(classes sample_weight)

    Returns
    -------
    error : float
        0 is best; 1 is worst.

    Examples
    --------
    >>> from pril.metrics import calibration_error
    >>> calibration_error([1, 2, 2, 2], [[0.25, 0.75]] * 4)
    0.0
    """
    return mean_difference(reliability_curves(y_true, y_proba, classes, sample_weight))


for _metric in (
    interval_absolute_error,
    interval_accuracy,
    interval_log_loss,
    ranked_probability_score,
    calibration_error,
):
    _metric.__doc__ = filled(_metric.__doc__, interval_hinge_loss.__doc__)

N_BINS = 10  # of the probabilities
ROWS_OF_BIN = 25  # on average, in a picture: fewer say little


class Reliability(NamedTuple):
    """P(y <= i) as predicted and as observed, for each bin that is not empty."""

    mean: Array  # probability
    seen: Array  # share of the rows for which y <= i is true
    share: Array  # of all rows
    lower: Array  # 95 % interval of what is seen, by Wilson's formula
    upper: Array


def bins_for(n_rows: int) -> int:
    """Return the number of bins in which n rows are drawn."""
    return min(N_BINS, max(2, n_rows // ROWS_OF_BIN))


def reliability_curves(
    y_true: LabelsLike,
    y_proba: ArrayLike,
    classes: LabelsLike | None,
    sample_weight: ArrayLike | None,
    *,
    fewer_bins: bool = False,
) -> list[Reliability]:
    """Return the curve of each class i but the last, over rows with exact labels.

    There are ten bins or, if `fewer_bins` and there are few rows, as many as have 25 rows on
    average, but at least two.
    """
    intervals, proba = _read_probabilities(y_true, y_proba, classes)
    exact = _is_exact(intervals)
    mean_over_rows(np.ones(len(proba)), exact, sample_weight, kind="an exact label")  # checks them
    n = len(proba)
    weights = (np.ones(n) if sample_weight is None else read_weights(sample_weight, n))[exact]
    n_bins = bins_for(int(np.count_nonzero(weights))) if fewer_bins else N_BINS
    curves = []
    columns = map(np.transpose, _cumulated(intervals[exact], proba[exact]))
    for expected, observed in zip(*columns, strict=True):
        bins = np.minimum((expected * n_bins).astype(np.int64), n_bins - 1)
        size, mean, seen = (
            np.bincount(bins, weights * values, n_bins) for values in (1.0, expected, observed)
        )
        used = size > 0.0
        size, mean, seen = size[used], mean[used], seen[used]
        n_rows = size**2 / np.bincount(bins, weights**2, n_bins)[used]  # the effective number
        lower, upper = _wilson(seen / size, n_rows)
        curves.append(Reliability(mean / size, seen / size, size / size.sum(), lower, upper))
    return curves


def _wilson(share: Array, n_rows: Array) -> tuple[Array, Array]:
    """Return the 95 % interval of a share that was seen in some rows."""
    z = 1.96
    middle = share + z**2 / (2.0 * n_rows)
    half = z * np.sqrt(share * (1.0 - share) / n_rows + (z / (2.0 * n_rows)) ** 2)
    return (middle - half) / (1.0 + z**2 / n_rows), (middle + half) / (1.0 + z**2 / n_rows)


def mean_difference(curves: list[Reliability]) -> float:
    """Return the calibration error."""
    errors = [(curve.share * np.abs(curve.mean - curve.seen)).sum() for curve in curves]
    return float(np.mean(errors)) if errors else 0.0


class IntervalScorer(BaseEstimator):
    """A scorer for model selection that takes the order of the classes from the estimator.

    The order is the `order_` of a learner of this package, alone or inside a Pipeline, a search or
    another meta-estimator. For other classifiers, it is the order of their `classes_`.

    Parameters
    ----------
    metric : callable
        A function of this module, called as ``metric(y, predicted, classes=, sample_weight=)``.
    sign : int, default=1
        -1 if a smaller value of the metric is better.
    response : str, default="predict"
        The method of the estimator whose result is passed to the metric.

    Notes
    -----
    Call it like any scorer, ``scorer(estimator, X, y, sample_weight=None)``. With scikit-learn's
    metadata routing, ``clone(scorer).set_score_request(sample_weight=True)`` requests sample
    weights. A label that the estimator does not know is an error, so pass all classes to the
    estimator. If labels have open ends, pass a splitter such as ``cv=KFold(5)``.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import GridSearchCV
    >>> from pril import PRIL
    >>> from pril.metrics import neg_interval_absolute_error_scorer
    >>> X, y = np.arange(12.0).reshape(-1, 1), np.repeat([[1, 1], [1, 2], [2, 2]], 4, axis=0)
    >>> search = GridSearchCV(
    ...     PRIL(classes=[1, 2], random_state=0),
    ...     {"average": [True, False]},
    ...     scoring=neg_interval_absolute_error_scorer,
    ...     cv=2,
    ... ).fit(X, y)
    >>> sorted(search.best_params_)
    ['average']
    """

    def __init__(
        self, metric: Callable[..., float], sign: int = 1, response: str = "predict"
    ) -> None:
        self.metric = metric
        self.sign = sign
        self.response = response

    def __call__(
        self,
        estimator: BaseEstimator,
        X: FeaturesLike,
        y: LabelsLike,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Score a fitted classifier.

        Parameters
        ----------
        estimator : object
            A fitted classifier, or another estimator that has one inside.
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges; a row without a label is ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Higher is better.
        """
        options = {"classes": order_of(estimator), "sample_weight": sample_weight}
        predicted = getattr(estimator, self.response)(X)
        return self.sign * float(self.metric(y, predicted, **options))

    score = __call__  # the name that metadata routing uses


interval_accuracy_scorer = IntervalScorer(interval_accuracy)
neg_interval_absolute_error_scorer = IntervalScorer(interval_absolute_error, sign=-1)
neg_interval_log_loss_scorer = IntervalScorer(interval_log_loss, sign=-1, response="predict_proba")


# Attributes in which meta-estimators of scikit-learn keep a fitted one.
INSIDE = (
    "steps",
    "best_estimator_",
    "estimators_",
    "estimator_",
    "calibrated_classifiers_",
    "estimator",
)


def order_of(estimator: BaseEstimator) -> Array:
    """Return the classes of a fitted classifier, lowest first."""
    inside = estimator
    while inside is not None and not hasattr(inside, "order_"):
        parts = (getattr(inside, name, None) for name in INSIDE)
        inside = next((part for part in parts if part is not None), None)
        while isinstance(inside, list | tuple):
            inside = inside[-1]
    classes = estimator.classes_
    if inside is not None and np.array_equal(np.sort(inside.order_), classes):
        return inside.order_
    has_order = classes.dtype.kind in "biuf" or ranking.are_numbered(classes)
    if len(classes) > 2 and not has_order:
        message = (
            f"{type(estimator).__name__} does not know the order of its classes, which were sorted "
            f"as strings, {ranking.named(classes)}: let it learn pril.labels.ordered(y, classes)"
        )
        warnings.warn(ClassOrderWarning(message), stacklevel=3)
    return np.asarray(classes)


def rank_both(
    y_true: LabelsLike, y_pred: LabelsLike, classes: LabelsLike | None, name: str = "y_true"
) -> tuple[Array, Ranks, Ranks]:
    """Return the classes, the intervals of the truth, and the ranks of the predictions."""
    truth = ranking.read(y_true, name=name)
    guess = ranking.read(y_pred, name="y_pred", columns=(1,))
    if classes is None:
        order = ranking.order_classes(truth, guess, name=name)
    else:
        order = ranking.check_classes(classes)
    intervals = ranking.to_intervals(truth, order, name=name)
    ranks = ranking.to_intervals(guess, order, name="y_pred")
    if (missing := guess.missing()).any():
        raise RowError("y_pred", int(np.argmax(missing)), "the label is missing")
    ranking.check_length(ranks, intervals, name="y_pred", other=name)
    return order, intervals, ranks[:, 0]


def _read_probabilities(
    y_true: LabelsLike, y_proba: ArrayLike, classes: LabelsLike | None
) -> tuple[Ranks, Array]:
    """Return the intervals of the truth, and the probabilities of the ranks as floats."""
    order, intervals = ranking.encode(ranking.read(y_true, name="y_true"), classes, name="y_true")
    hint = f": {ranking.named(order)}; pass classes= if some do not occur in y_true"
    proba = read_probabilities(y_proba, "y_proba", len(order), hint)
    ranking.check_length(proba, intervals, name="y_proba", other="y_true")
    return intervals, proba[:, np.searchsorted(np.sort(order), order)]


def _is_exact(intervals: Ranks) -> Array:
    return intervals[:, 0] == intervals[:, 1]


def _cumulated(intervals: Ranks, proba: Array) -> tuple[Array, Array]:
    """Return P(y <= i) and whether y <= i, for each class i but the last."""
    expected = np.clip(np.cumsum(proba, axis=1, dtype=np.float64)[:, :-1], 0.0, 1.0)
    return expected, intervals[:, :1] <= np.arange(proba.shape[1] - 1)


# --- Predictions compared with labels, row by row and added up ---


class Outcomes(NamedTuple):
    """Labels of rows, and the predictions of a model for them."""

    intervals: Array  # (n, 2), lowest and highest rank of each label
    rank: Array  # (n,), predicted
    score: Array  # (n,), of the predicted class, if each class has a score

    def take(self, rows: Array) -> Outcomes:
        """Return some of the rows."""
        return Outcomes(*(part[rows] for part in self))

    @property
    def loss(self) -> Array:
        """How many ranks each prediction is outside of its interval."""
        return ranking.interval_loss(self.intervals, self.rank)


def pick_scores(rank: Array, scores: Array) -> Array:
    """Return one score for each row: the only one, or that of the predicted class."""
    return scores[:, 0] if scores.shape[1] == 1 else scores[np.arange(len(rank)), rank]


@dataclass(frozen=True)
class Evaluation:
    """How good predictions are: sums over rows that have a label."""

    rows: int = 0
    hits: int = 0
    loss: int = 0
    exact_rows: int = 0
    exact_loss: int = 0
    unlabelled: int = 0
    lowest: tuple[int, ...] = ()  # for each rank, in how many rows the interval begins there
    highest: tuple[int, ...] = ()  # and in how many it ends there

    @classmethod
    def of(cls, intervals: Array, rank: Array) -> Evaluation:
        """Compare predicted ranks with intervals; rows without a label are only counted."""
        labelled = ranking.is_labelled(intervals)
        intervals, rank = intervals[labelled], rank[labelled]
        loss = ranking.interval_loss(intervals, rank)
        exact = intervals[:, 0] == intervals[:, 1]
        return cls(
            rows=len(rank),
            hits=int((loss == 0).sum()),
            loss=int(loss.sum()),
            exact_rows=int(exact.sum()),
            exact_loss=int(loss[exact].sum()),
            unlabelled=int((~labelled).sum()),
            lowest=tuple(np.bincount(intervals[:, 0]).tolist()),
            highest=tuple(np.bincount(intervals[:, 1]).tolist()),
        )

    def __add__(self, other: Evaluation) -> Evaluation:
        sums: dict[str, Any] = {
            name: _added(value, getattr(other, name)) for name, value in vars(self).items()
        }
        return Evaluation(**sums)

    def of_constants(self) -> tuple[Array, Array]:
        """Return for each rank, if it is predicted for every row, the hits and the loss."""
        size = len(self.highest)
        ends = np.array(self.highest)
        begun = np.cumsum([*self.lowest, *[0] * (size - len(self.lowest))])  # at or below a rank
        ended = np.cumsum(ends) - ends  # below a rank
        above = np.cumsum((self.rows - begun)[::-1])[::-1]  # the labels above a rank, how far
        return begun - ended, np.cumsum(ended) + above

    def to_dict(self, classes: Sequence[object] | Array = ()) -> dict[str, Any]:
        """Return the means, None where there is nothing to average.

        With the classes, the result names the class that is most often inside the range, and the
        class that is off by the fewest ranks: a model that is no better than these constants has
        learned nothing.
        """
        constant = accuracy = nearest = error = None
        if self.rows and len(classes):
            hits, loss = self.of_constants()
            best = int(hits.argmax()), int(loss.argmin())
            constant, nearest = (ranking.plain(classes[k]) for k in best)
            accuracy, error = hits.max().item() / self.rows, loss.min().item() / self.rows
        return {
            "constant": constant,
            "constant_accuracy": accuracy,
            "nearest_constant": nearest,
            "nearest_constant_error": error,
            "rows": self.rows,
            "unlabelled_rows": self.unlabelled,
            "interval_accuracy": self.hits / self.rows if self.rows else None,
            "interval_absolute_error": self.loss / self.rows if self.rows else None,
            "exact_rows": self.exact_rows,
            "exact_absolute_error": self.exact_loss / self.exact_rows if self.exact_rows else None,
        }


def _added(one: Any, other: Any) -> Any:
    if isinstance(one, tuple):
        return tuple(a + b for a, b in zip_longest(one, other, fillvalue=0))
    return one + other
