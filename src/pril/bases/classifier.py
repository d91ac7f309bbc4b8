"""What every learner has, however it learns: predictions, scores, thresholds, probabilities.

A learner holds parameters, an engine, which is a function of them, and `memory_`, what the engine
has learned. The functions here and in `learning` translate between scikit-learn and engines.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NoReturn

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from pril.bases.engine import Engine
from pril.bases.weights import mean_over_rows
from pril.core.arrays import Array, FeaturesLike, LabelsLike
from pril.core.rating import Ratings
from pril.core.rows import batches, n_rows, rows_within
from pril.errors import RowError
from pril.labels import ranking
from pril.links import LOGIT, Link

# Rows are rated in batches of this many, or fewer if an answer has many numbers a row.
BATCH_ROWS, BATCH_CELLS = 1 << 16, 1 << 22


def _batch_size(width: int) -> int:
    """Return how many rows are rated at once: a power of two, so that kernels cut them alike."""
    return min(BATCH_ROWS, max(1, 1 << (BATCH_CELLS // width).bit_length() >> 1))


@contextmanager
def naming_rows(rows: Array | Sequence[int]) -> Iterator[None]:
    """Let errors about some of the rows name them by their position among all."""
    try:
        yield
    except RowError as error:
        row = int(rows[error.row])
        raise type(error)(error.argument, row, error.reason, hint=error.hint) from None


# --- Rating rows ---------------------------------------------------------------------------------


def rows_to_rate(model: OrdinalLearner, X: FeaturesLike) -> Any:
    """Return the rows of X, checked, for a learner that can rate them."""
    check_ready(model)
    return model.engine.read(model, X, reset=False, min_rows=1)


def dense_rows(model: OrdinalLearner, X: FeaturesLike) -> Array:
    """Return the rows of X, checked, as a matrix of float64."""
    rows = rows_to_rate(model, X)
    if hasattr(rows, "indptr"):
        shape = len(rows.indptr) - 1, model.n_features_in_
        dense = csr_array((rows.data, rows.indices, rows.indptr), shape=shape).toarray()
    else:
        dense = rows.X
    return np.asarray(dense, dtype=np.float64)


def check_ready(model: OrdinalLearner) -> None:
    """Refuse a learner that has not learned, or whose parameters do not fit what it learned."""
    if not hasattr(model, "memory_"):
        check_is_fitted(model)  # slow
    model.check_parameters()


def rate(model: OrdinalLearner, X: FeaturesLike) -> Ratings:
    """Return ranks and scores of the rows of X, and the thresholds, as they are reported."""
    return rate_rows(model, rows_to_rate(model, X))


def rate_rows(model: OrdinalLearner, rows: tuple[Any, ...]) -> Ratings:
    """Return ranks and scores of rows that have been checked."""
    return model.engine.rate(model.memory_, rows)


def rate_in_batches(
    model: OrdinalLearner,
    rows: tuple[Any, ...],
    answer: Callable[[Ratings, slice], Array],
    width: int = 1,
) -> Array:
    """Return an answer for each row, made batch by batch so that little memory is needed.

    `answer` is given the ratings of a batch, and which rows they are of; it works with `width`
    numbers a row.
    """
    n, answers, engine = n_rows(rows), np.empty(0), model.engine
    width = max(width, engine.n_scores(len(model.order_)))
    for batch in batches(n, _batch_size(width)):
        with naming_rows(range(batch.start, batch.stop)):
            part = answer(engine.rate(model.memory_, rows_within(rows, batch)), batch)
        if len(part) == n:
            return part
        if batch.start == 0:
            answers = np.empty((n, *part.shape[1:]), dtype=part.dtype)
        answers[batch] = part
    return answers


def by_class(order: Array, columns: Array) -> Array:
    """Return columns that are in the order of the ranks in the order of `classes_`."""
    ranks = np.argsort(order)
    is_sorted = (ranks[1:] > ranks[:-1]).all()
    return columns if is_sorted else columns[..., ranks]


class _NoProbabilities:
    """An attribute that a learner does not have; the error names learners that do."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, learner: object, kind: type) -> NoReturn:
        raise AttributeError(
            f"{kind.__name__} has no {self.name}: use OrderedLogit or OrderedBoosting, which have "
            "probabilities"
        )


class OrdinalLearner(ClassifierMixin, BaseEstimator, ABC):
    """What every learner has: an engine, what the engine has learned, and predictions."""

    classes: ArrayLike | None
    order_: Array
    memory_: Any
    n_features_in_: int
    file_notes_: dict[str, Any]  # of the file that it comes from, until it learns from scratch
    predict_proba: Any = _NoProbabilities()
    predict_log_proba: Any = _NoProbabilities()
    predict_cumulative: Any = _NoProbabilities()

    @property
    @abstractmethod
    def engine(self) -> Engine[Any, Any]:
        """How it learns and rates, by its parameters."""

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be used."""

    def predict(self, X: FeaturesLike) -> Array:
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
        rows = rows_to_rate(self, X)
        return rate_in_batches(self, rows, lambda rated, _: self.order_[rated.rank])

    def score(
        self, X: FeaturesLike, y: LabelsLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the share of predictions inside their interval: accuracy, for exact labels.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges. A label that the model does not know counts as a miss; a row
            without a label is ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row.

        Returns
        -------
        score : float
            Between 0 and 1.
        """
        rows, table = rows_to_rate(self, X), ranking.read(y)
        ranking.check_length(table.values, range(n_rows(rows)))

        def find_hits(rated: Ratings, batch: slice) -> Array:
            labels = table.take(batch)
            intervals = ranking.to_intervals(labels, self.order_, allow_unknown=True)
            in_order = (intervals != ranking.UNKNOWN).all(axis=1)
            hits = in_order & (ranking.interval_loss(intervals, rated.rank) == 0)
            return np.column_stack([hits, labels.labelled()])

        hits, labelled = rate_in_batches(self, rows, find_hits).T
        return mean_over_rows(hits, labelled, sample_weight, name="y")

    @property
    def classes_(self) -> Array:
        """The classes, sorted as `numpy.unique` sorts them."""
        check_is_fitted(self)
        return by_class(self.order_, self.order_)

    # --- Copies and files ---

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes for copies and files, as plain data."""
        state = dict(super().__getstate__())
        if "memory_" in state:
            state["memory_"] = state["memory_"].to_plain()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "memory_" in state:
            # A copy: a stream learns in place.
            sizes = self.n_features_in_, len(self.order_)
            self.memory_ = self.engine.restore(*sizes, state["memory_"])


class ThresholdMixin:
    """A learner with one score and thresholds that cut it into classes."""

    order_: Array

    @property
    def median(self) -> float:
        """By how much thresholds are above the scores that they are compared with."""
        return 0.0

    @property
    def thresholds_(self: Any) -> Array:
        """Thresholds between neighbouring classes, ascending."""
        check_ready(self)
        _, cut, unit = self.engine.parameters(self.memory_)
        return cut[1:-1] / unit + self.median

    def latent(self: Any, X: FeaturesLike) -> Array:
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
        return rate_in_batches(self, rows_to_rate(self, X), lambda rated, _: rated.scores[:, 0])

    def decision_function(self: Any, X: FeaturesLike) -> Array:
        """Return how far each score lies inside each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            The distance of the score to the nearer threshold of each class, negative outside, in
            the order of `classes_`; the largest is the predicted class, except where the score
            equals a threshold. For two classes, that of ``classes_[1]`` alone.
        """

        def find_margins(rated: Ratings, _: slice) -> Array:
            scores, cut = rated.scores, rated.cut
            margins = by_class(self.order_, np.minimum(scores - cut[:-1], cut[1:] - scores))
            return margins[:, 1] if len(cut) == 3 else margins

        return rate_in_batches(self, rows_to_rate(self, X), find_margins, width=len(self.order_))


class ProbabilityMixin:
    """A learner with the probabilities ``P(y <= i) = F(theta_i - f)``, F being its link.

    It comes before `ThresholdMixin`. A learner supplies `_label_chances`: how likely rows of each
    class are to be given a label.
    """

    decision: Literal["median", "mode"]
    order_: Array

    @property
    def link_function(self) -> Link:
        """The link: logistic, unless a learner has another."""
        return LOGIT

    @property
    def median(self) -> float:
        """The median of the link. A score is compared with thresholds less this."""
        return float(self.link_function.quantile(np.array(0.5)))

    def log_chances(self, scores: Array, cut: Array) -> Array:
        """Return log P(y) for a column of scores and thresholds with sentinels, or a row for each.

        Parameters
        ----------
        scores : ndarray of shape (n_samples, 1)
            Scores.
        cut : ndarray of shape (n_classes + 1,) or (n_samples, n_classes + 1)
            Thresholds, between minus infinity and infinity.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            Lowest class first.
        """
        away = self.median - scores
        return self.link_function.log_between(cut[..., :-1] + away, cut[..., 1:] + away)

    @abstractmethod
    def _label_chances(self, intervals: Array) -> Array:
        """Return for each label the relative chance that a row of each class is given it."""

    def predict_log_proba(self, X: FeaturesLike) -> Array:
        """Return the logarithms of the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`.
        """
        return self._from_scores(
            X, lambda scores, cut: by_class(self.order_, self.log_chances(scores, cut))
        )

    def predict_proba(self, X: FeaturesLike) -> Array:
        """Return the probabilities of the classes.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; each row adds up to 1.
        """
        logs = self.predict_log_proba(X)
        return np.exp(logs, out=logs)

    def predict_cumulative(self, X: FeaturesLike) -> Array:
        """Return the probabilities to be at or below each class.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `order_`, from lowest to highest; the last column is 1.

        Examples
        --------
        >>> from pril import OrderedLogit
        >>> X = [[-2.0], [-1.0], [0.0], [1.0], [2.0], [3.0]]
        >>> y = ["low", "low", "mid", "mid", "high", "high"]
        >>> model = OrderedLogit(classes=["low", "mid", "high"], random_state=0).fit(X, y)
        >>> model.predict_cumulative([[-2.0], [3.0]]).round(1)
        array([[1., 1., 1.],
               [0., 0., 1.]])
        """

        def cumulate(scores: Array, cut: Array) -> Array:
            return self.link_function.sides(cut[1:] - scores + self.median).below

        return self._from_scores(X, cumulate)

    def posterior(self, X: FeaturesLike, y: LabelsLike) -> Array:
        """Return the probabilities of the classes, given the features and the label of each row.

        A range weighs its classes by how often rows of each class are given that range, if the
        learner has learned that. With the probabilities as weights, any classifier can learn from
        ranges: see `docs/guide/choosing.md`.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges. For a row without a label, the probabilities are those of
            `predict_proba`.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            In the order of `classes_`; each row adds up to 1, and is 0 outside its label.

        Examples
        --------
        >>> from pril import OrderedLogit
        >>> X = [[-2.0], [-1.0], [0.0], [1.0], [2.0], [3.0]]
        >>> model = OrderedLogit(random_state=0).fit(X, [1, 1, 2, 2, 3, 3])
        >>> model.posterior([[0.0], [0.0]], [(3, 3), (1, 2)]).round(1)
        array([[0. , 0. , 1. ],
               [0.3, 0.7, 0. ]])
        """
        logs = self._from_scores(X, self.log_chances)
        intervals = ranking.to_intervals(ranking.read(y), self.order_)
        ranking.check_length(intervals, logs)
        chances = self._label_chances(np.maximum(intervals, 0))
        chances[~ranking.is_labelled(intervals)] = 1.0
        with np.errstate(divide="ignore"):
            joint = logs + np.log(chances)
            # Between equal thresholds, no class of a label may have a probability: use the label.
            certain = np.isneginf(joint.max(axis=1))
            joint[certain] = np.log(chances[certain])
        return by_class(self.order_, softmax(joint, axis=1))

    def decision_function(self, X: FeaturesLike) -> Array:
        """Return how strongly each class is preferred, by the rule that `decision` names.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.

        Returns
        -------
        margins : ndarray of shape (n_samples,) or (n_samples, n_classes)
            For the median, the distance of the score to the nearer threshold of each class,
            negative outside; for the mode, the logarithms of the probabilities. In the order of
            `classes_`; for two classes, the distance for ``classes_[1]`` alone.
        """
        check_is_fitted(self)
        if self.decision == "mode" and len(self.order_) > 2:
            return self.predict_log_proba(X)
        return super().decision_function(X)  # type: ignore[misc]

    def _from_scores(self: Any, X: FeaturesLike, answer: Callable[[Array, Array], Array]) -> Array:
        """Return an answer for each row and class, made of a column of scores and thresholds."""
        return rate_in_batches(
            self,
            rows_to_rate(self, X),
            lambda rated, _: answer(rated.scores, rated.cut),
            width=len(self.order_),
        )
