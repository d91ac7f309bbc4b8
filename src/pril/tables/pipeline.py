"""A scikit-learn Pipeline that also serves one row at a time."""

from __future__ import annotations

from inspect import signature
from typing import Any, Self

from sklearn import pipeline
from sklearn.utils.validation import check_is_fitted

from pril.bases.parts import Parts
from pril.errors import InputError, InputTypeError
from pril.online.one_row import RowStream
from pril.online.recent_errors import RecentErrors

__all__ = ["Pipeline"]


class Pipeline(pipeline.Pipeline):
    """A scikit-learn :class:`~sklearn.pipeline.Pipeline` that also serves one row at a time.

    `pril.load` and the command return their pipelines as this class. It adds the method `stream`;
    all else is scikit-learn's.

    Parameters
    ----------
    steps : list of (str, estimator)
        Names and steps; the last is a learner of this package.
    transform_input : list of str, default=None
        As in scikit-learn.
    memory : str or joblib.Memory, default=None
        As in scikit-learn.
    verbose : bool, default=False
        As in scikit-learn.

    Examples
    --------
    A fitted pipeline of scikit-learn streams too: ``pril.Pipeline(fitted.steps).stream()``.

    >>> import pandas as pd, pril
    >>> flats = pd.DataFrame({"size": [20, 40, 60, 80], "town": ["Oslo", "Rome", "Oslo", "Rome"]})
    >>> learner = pril.OrderedLogit(classes=["poor", "fair", "good"], random_state=0)
    >>> model = pril.Pipeline([("columns", pril.ColumnEncoder()), ("learner", learner)])
    >>> stream = model.fit(flats, ["poor", "fair", "good", "good"]).stream()
    >>> stream.predict_one({"size": 90, "town": "Rome"})
    'good'
    >>> stream.learn_one({"size": 30}, ("poor", "fair"))
    """

    def fit(self, X: Any, y: Any = None, **params: Any) -> Self:
        """Learn, as in scikit-learn.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features, as the first step takes them.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels or ranges.
        **params : dict
            Arguments of the steps' own `fit`, such as ``learner__groups=``.

        Returns
        -------
        self : Pipeline
            The fitted pipeline.
        """
        try:
            return super().fit(X, y, **params)
        except ValueError as error:
            if "Pipeline.fit does not accept the" not in str(error):
                raise
        parts, name = Parts.of(self), next(name for name in params if "__" not in name)
        if name not in signature(parts.learner.fit).parameters:
            raise InputError(f"fit of {type(parts.learner).__name__} takes no {name}=")
        step = parts.fit_parameter(name)
        raise InputError(f"fit of a Pipeline takes no {name}=: pass {step}=, with the step's name")

    def stream(self, *, metrics: int | None = None, strict: bool = False) -> RowStream:
        """Predict and learn one row at a time, without the cost of a table of one row.

        The steps before the learner must be fitted, and stay as they are. The learner goes on
        learning in place; `OrderedBoosting` only predicts. Threads may share a stream: they take
        turns.

        Parameters
        ----------
        metrics : int, default=None
            Predict each row before it is learned, and keep how far the last rows with a label, so
            many of them, were off: ``stream.metrics()`` returns it.
        strict : bool, default=False
            Refuse a dict that lacks a column or has another one, so that a service notices one
            that was renamed. None is still a missing value.

        Returns
        -------
        stream : object
            With the methods ``predict_one(x)``, ``learn_one(x, y, sample_weight=1.0)``,
            ``latent_one(x)`` where there are thresholds, and ``predict_proba_one(x)`` where there
            are probabilities. A row `x` is a dict of columns, or a sequence if the columns have no
            names. With a `ColumnEncoder` a column that is None or not there is missing, and other
            keys are ignored, as in a table.
        """
        from pril.tables.encoder import RowEncoder

        learner = Parts.of(self).learner
        if not hasattr(type(learner), "stream"):
            name = type(learner).__name__
            raise InputTypeError(f"{name} cannot learn or predict one row at a time")
        check_is_fitted(learner)
        encode = RowEncoder(self, strict=strict)
        return RowStream(self, encode=encode, errors=RecentErrors.over(metrics), strict=strict)
