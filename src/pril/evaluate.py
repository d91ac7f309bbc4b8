"""How good a model is on new rows, and how certain its weights are."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_random_state, indexable

from pril.core import learning, ranking
from pril.core.classifier import OrdinalLearner, by_class, naming_rows
from pril.core.learner import OnlineClassifier
from pril.core.parts import Parts
from pril.core.scikit import safe_indexing
from pril.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Progress", "bootstrap", "cross_val_proba", "progressive"]


def __dir__() -> list[str]:
    return __all__


@dataclass(frozen=True)
class Progress:
    """The predictions of a learner for each row, made before it learned the row.

    Attributes
    ----------
    predictions : ndarray of shape (n_samples,)
        Predicted labels.
    scores : ndarray of shape (n_samples,) or (n_samples, n_classes)
        The scores behind the predictions. Scores of classes are in the order of the estimator's
        `classes_`.
    losses : ndarray of shape (n_samples,)
        Ranks by which each prediction missed its interval; 0 for a row without a label.
    hinge_losses : ndarray of shape (n_samples,)
        The convex surrogate L_I^IMC of each row (for the multiclass perceptron: by how much the
        winner outscored the best class inside the interval); 0 for a row without a label.
    labelled : ndarray of shape (n_samples,)
        Which rows have a label. Only these were learned from, and only these count in the means.
    """

    predictions: NDArray[Any]
    scores: NDArray[np.float64]
    losses: NDArray[np.int64]
    hinge_losses: NDArray[np.float64]
    labelled: NDArray[np.bool_]

    @property
    def running_loss(self) -> NDArray[np.float64]:
        """Mean of the losses up to and including each row, NaN before the first label."""
        return self._running_mean(self.losses)

    @property
    def running_hinge_loss(self) -> NDArray[np.float64]:
        """Mean of the hinge losses up to and including each row, NaN before the first label."""
        return self._running_mean(self.hinge_losses)

    def _running_mean(self, values: NDArray[Any]) -> NDArray[np.float64]:
        rounds = np.cumsum(self.labelled)
        means = np.full(len(values), np.nan)
        np.divide(np.cumsum(values), rounds, out=means, where=rounds > 0)
        return means


def progressive(
    estimator: OnlineClassifier, X: Any, y: Any, classes: ArrayLike | None = None
) -> Progress:
    """Predict each row, score the prediction, then learn from the row.

    The estimator learns exactly as with ``partial_fit(X, y, classes)``; if it is already fitted,
    it continues from there. Each prediction is what `predict` would return before the row is
    learned: from the mean of the iterates if the estimator averages, and from a model of zeros
    before the very first row.

    Parameters
    ----------
    estimator : estimator
        One of the learners of this package.
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Features.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels, or the lower and the upper end of each label. A row without a label is
        predicted, but not learned from.
    classes : array-like of shape (n_classes,), default=None
        As in `partial_fit`.

    Returns
    -------
    progress : Progress
        Predictions and losses of every row.

    Examples
    --------
    >>> from pril import PRIL
    >>> from pril.evaluate import progressive
    >>> stream = [[1.0], [-1.0], [1.0], [-1.0]], [(2, 2), (1, 1), (1, 2), (1, 1)]
    >>> progress = progressive(PRIL(average=False), *stream, classes=[1, 2])
    >>> progress.predictions
    array([2, 2, 2, 1])
    >>> progress.running_loss
    array([0.        , 0.5       , 0.33333333, 0.25      ])
    """
    if isinstance(estimator, OrdinalLearner) and not isinstance(estimator, OnlineClassifier):
        raise InputTypeError(
            f"{type(estimator).__name__} learns all rows at once, and cannot predict each before "
            "it is learned: use OrderedLogit"
        )
    if not isinstance(estimator, OnlineClassifier):
        raise InputTypeError(
            f"progressive runs the learners of this package, got {type(estimator).__name__}; put a "
            "pipeline's other steps before it"
        )
    batch, record = learning.learn_batch(estimator, X, y, classes, recording=True)
    if record is None:
        raise InputError("X has no rows and the estimator no classes yet: nothing to predict")
    scores = record.scores
    return Progress(
        predictions=estimator.order_[record.rank],
        scores=scores[:, 0] if scores.shape[1] == 1 else by_class(estimator.order_, scores),
        losses=ranking.interval_loss(batch.intervals, record.rank),
        hinge_losses=record.hinge,
        labelled=batch.labelled(),
    )


def cross_val_proba(estimator: Any, X: Any, y: Any, *, cv: Any = None, groups: Any = None) -> Any:
    """Return out-of-fold probabilities: each row is predicted by a model not trained on it.

    Use it instead of scikit-learn's ``cross_val_predict(method="predict_proba")``, which numbers
    the labels and so accepts neither ranges nor strings whose order is not alphabetical.

    Parameters
    ----------
    estimator : estimator
        A learner of this package with `predict_proba`, or a Pipeline that ends in one.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        Features, as the estimator takes them.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or intervals. A row without a label is predicted, but not learned from.
    cv : int, splitter or iterable, default=None
        As in scikit-learn; None means five folds. If you pass a number and all labels are exact,
        folds are stratified. Every row must be in exactly one test fold.
    groups : array-like of shape (n_samples,), default=None
        Groups for the splitter.

    Returns
    -------
    probabilities : ndarray of shape (n_samples, n_classes)
        Columns follow the sorted classes, as those of `predict_proba`.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedLogit
    >>> from pril.evaluate import cross_val_proba
    >>> X = np.linspace(-2.0, 2.0, 40).reshape(-1, 1)
    >>> y = [(1, 1), (1, 2)] * 10 + [(2, 3), (3, 3)] * 10
    >>> model = OrderedLogit(classes=[1, 2, 3], random_state=0)
    >>> cross_val_proba(model, X, y, cv=4).shape
    (40, 3)
    """
    from sklearn.model_selection import check_cv  # takes half a second to import

    parts = Parts.of(estimator)
    learner = parts.learner
    if parts.is_frozen or not hasattr(learner, "predict_proba"):
        raise InputTypeError(
            "estimator must be a learner of pril with predict_proba, such as OrderedLogit, or a "
            f"Pipeline that ends in one, got {type(learner).__name__}"
        )
    X, y = indexable(X, y)
    classes, intervals = ranking.encode(ranking.read(y), learner.classes)
    rank = intervals[:, 0]
    strata = rank if (rank == intervals[:, 1]).all() else None
    splits = list(check_cv(cv, strata, classifier=True).split(X, strata, groups))
    tested = np.concatenate([test for _, test in splits])
    if not np.array_equal(np.sort(tested), np.arange(len(rank))):
        raise InputError("cv must put every row into one test fold, and no row into two")
    proba = np.empty((len(rank), len(classes)))
    for train, test in splits:
        model = _fit_rows(estimator, X, y, train, classes)
        proba[test] = model.predict_proba(safe_indexing(X, test))
    return proba


def _fit_rows(estimator: Any, X: Any, y: Any, rows: NDArray[np.int64], classes: Any) -> Any:
    """Return a new model that learned from some rows, in which not every class may occur."""
    model = clone(estimator)
    Parts.of(model).learner.set_params(classes=classes)
    with naming_rows(rows):
        return model.fit(safe_indexing(X, rows), safe_indexing(y, rows))


def bootstrap(
    estimator: Any, X: Any, y: Any, *, n: Any = 200, level: Any = 0.95, random_state: Any = None
) -> pd.DataFrame:
    """Return bootstrap confidence intervals of weights, thresholds and marginal effects.

    The model is fitted to `n` samples of the rows, drawn with replacement. The marginal effect of
    a feature on a class is the change of the class's probability per unit of the feature, averaged
    over all rows.

    Parameters
    ----------
    estimator : estimator
        An `OrderedLogit`, or a Pipeline that ends in one.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
        Features, as the estimator takes them.
    y : array-like of shape (n_samples,) or (n_samples, 2)
        Exact labels or intervals.
    n : int, default=200
        Number of samples.
    level : float, default=0.95
        Confidence level: the share of the samples inside each interval.
    random_state : int, RandomState instance or None, default=None
        Seed for drawing the samples.

    Returns
    -------
    table : DataFrame
        A row for each weight, threshold and marginal effect. `term` is "weight", "threshold" or
        "effect"; `feature` and `class` say whose it is (a threshold belongs to the class below
        it); `estimate` comes from a model of all rows, `std_error` is the standard deviation over
        the samples, and `lower` and `upper` are the ends of the interval.

    Notes
    -----
    Weights and effects are per unit of a feature as the learner sees it: after a `StandardScaler`,
    per standard deviation. ``StandardScaler(with_std=False)`` keeps the units of the table.

    See Also
    --------
    pril.plotting.plot_bootstrap : A picture of the table.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.datasets import make_synthetic
    >>> from pril.evaluate import bootstrap
    >>> X, y = make_synthetic(200, random_state=0)
    >>> table = bootstrap(OrderedLogit(random_state=0), X, y, n=20, random_state=0)
    >>> table.query("term == 'weight'")[["feature", "estimate", "lower", "upper"]].shape
    (2, 4)
    """
    import pandas as pd

    if not isinstance(n, Integral) or n < 2:
        raise InputError(f"n must be an integer of at least 2, got {n!r}")
    if not isinstance(level, Real) or not 0.0 < float(level) < 1.0:
        raise InputError(f"level must be above 0 and below 1, got {level!r}")
    parts = Parts.of(estimator)
    if parts.is_frozen or not hasattr(parts.learner, "marginal_effects"):
        raise InputTypeError(
            "estimator must be an OrderedLogit, or a Pipeline that ends in one, got "
            f"{type(parts.learner).__name__}"
        )
    X, y = indexable(X, y)
    classes, intervals = ranking.encode(ranking.read(y), parts.learner.classes)
    rng = check_random_state(random_state)
    rows = np.flatnonzero(ranking.is_labelled(intervals))
    whole = _fit_rows(estimator, X, y, rows, classes)
    draws = [rng.choice(rows, size=len(rows)) for _ in range(n)]
    samples = np.array([_terms(_fit_rows(estimator, X, y, draw, classes), X) for draw in draws])
    estimate = _terms(whole, X)
    parts = Parts.of(whole)
    names = parts.feature_names or [str(j) for j in range(len(parts.learner.coef_))]
    labels = parts.learner.order_.tolist()
    terms: list[tuple[str, Any, Any]] = [("weight", name, None) for name in names]
    terms += [("threshold", None, label) for label in labels[:-1]]
    terms += [("effect", name, label) for name in names for label in labels]
    tail = (1.0 - float(level)) / 2.0
    lower, upper = np.quantile(samples, [tail, 1.0 - tail], axis=0)
    table = pd.DataFrame(terms, columns=["term", "feature", "class"], dtype=object)
    spread = samples.std(axis=0, ddof=1)
    return table.assign(estimate=estimate, std_error=spread, lower=lower, upper=upper)


def _terms(model: Any, X: Any) -> NDArray[np.float64]:
    """Return weights, thresholds and marginal effects of a model, one after the other."""
    parts = Parts.of(model)
    learner = parts.learner
    effects = learner.marginal_effects(parts.transform(X))
    effects = effects[:, np.searchsorted(learner.classes_, learner.order_)]  # lowest class first
    return np.concatenate([learner.coef_, learner.thresholds_, effects.ravel()])
