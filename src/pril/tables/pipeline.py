"""A scikit-learn Pipeline that also serves one row at a time."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn import pipeline
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pril.core.parts import Parts
from pril.errors import InputError, InputTypeError, RowError, refusing, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.tables.stream_rows import CellEncoder

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

    def stream(self) -> PipelineStream:
        """Predict and learn one row at a time, without the cost of a table of one row.

        The steps before the learner must be fitted, and stay as they are. The learner goes on
        learning in place. Threads may share a stream: they take turns.

        Returns
        -------
        stream : object
            With the methods ``predict_one(x)``, ``learn_one(x, y, sample_weight=1.0)``,
            ``latent_one(x)`` where there are thresholds, and ``predict_proba_one(x)`` where there
            are probabilities. A row `x` is a dict of columns, or a sequence if the columns have no
            names. With a `ColumnEncoder` a column that is None or not there is missing, and other
            keys are ignored, as in a table.
        """
        return PipelineStream(self)


class PipelineStream:
    """A pipeline that learns and predicts one row at a time; its `stream` returns it.

    Parameters
    ----------
    model : Pipeline
        A fitted pipeline.

    Attributes
    ----------
    model : Pipeline
        The pipeline.
    """

    def __init__(self, model: Pipeline) -> None:
        parts = Parts.of(model)
        if not hasattr(type(parts.learner), "stream"):
            name = type(parts.learner).__name__
            raise InputTypeError(f"{name} cannot learn or predict one row at a time")
        check_is_fitted(parts.learner)
        self.model = model
        self._parts = parts
        self._learner = parts.learner.stream()
        self._begin()

    def _begin(self) -> None:
        """Work with the steps as they are now."""
        from pril.tables.encoder import ColumnEncoder
        from pril.tables.stream_rows import CellEncoder

        steps, encode = self._parts.steps, None
        if steps and isinstance(steps[0][1], ColumnEncoder):
            encode, steps = CellEncoder(steps[0][1]), steps[1:]
        self._further = pipeline.Pipeline(steps) if steps else None
        self._names = getattr(self.model, "feature_names_in_", None)
        self._encode: CellEncoder | None = encode  # last: another thread may be predicting

    def __copy__(self) -> PipelineStream:
        return copy.deepcopy(self)  # a copy learns alone

    def __reduce__(self) -> Any:
        return PipelineStream, (self.model,)

    def __repr__(self) -> str:
        return f"PipelineStream({self.model!r})"

    # --- Learning and predicting ---

    def learn_one(self, x: Any, y: Any, sample_weight: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x : dict or sequence
            Columns of a row.
        y : label, pair, dict or None
            As in the stream of a learner: the class, or its lower and upper end.
        sample_weight : float, default=1.0
            How far the row moves the model, relative to a row of weight 1.
        """
        if self._parts.is_frozen:
            raise InputError("the model holds a FrozenEstimator, which does not learn")
        self._learner.learn_one(self._features(x), y, sample_weight)

    def predict_one(self, x: Any) -> Any:
        """Predict the label of one row.

        Parameters
        ----------
        x : dict or sequence
            Columns of a row.

        Returns
        -------
        label : object
            One of the classes.
        """
        return self._learner.predict_one(self._features(x))

    @available_if(lambda self: hasattr(self._learner, "latent_one"))
    def latent_one(self, x: Any) -> float:
        """Return the score f(x) that the thresholds cut into classes.

        Parameters
        ----------
        x : dict or sequence
            Columns of a row.

        Returns
        -------
        score : float
            Comparable to the learner's `thresholds_`.
        """
        score: float = self._learner.latent_one(self._features(x))
        return score

    @available_if(lambda self: hasattr(self._learner, "predict_proba_one"))
    def predict_proba_one(self, x: Any) -> dict[Any, float]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        x : dict or sequence
            Columns of a row.

        Returns
        -------
        probabilities : dict
            Of each class, lowest first; they add up to 1.
        """
        chances: dict[Any, float] = self._learner.predict_proba_one(self._features(x))
        return chances

    # --- Features ---

    def _features(self, x: Any) -> Any:
        """Return a row as the learner takes it."""
        encode = self._encode
        if encode is not None:
            if not encode.is_current:
                self._begin()
                return self._features(x)
            features = _encoded(encode, x)
        elif self._further is None:
            return x
        else:
            features = self._as_table(x)
        if self._further is not None:
            with refusing():
                features = self._further.transform(features)
        dense = features.toarray() if hasattr(features, "toarray") else features
        row: NDArray[Any] = np.asarray(dense, dtype=np.float64)[0]
        return row

    def _as_table(self, x: Any) -> Any:
        """Return a table of one row, for steps of other libraries."""
        if self._names is None:
            if isinstance(x, Mapping):
                raise InputError("x is a dict, but the model learned from columns without names")
            return np.asarray(x)[np.newaxis]
        import pandas as pd

        if not isinstance(x, Mapping):
            raise InputTypeError(f"x must be a dict of columns, got {shown(x)}")
        return pd.DataFrame([x], columns=self._names)


def _encoded(encode: CellEncoder, x: Any) -> Any:
    """Return the features that an encoder makes of a row."""
    from pril.tables.json_lines import to_matrix

    if not isinstance(x, Mapping):
        raise InputTypeError(f"x must be a dict of columns, got {shown(x)}")
    try:
        return encode([tuple(map(x.get, encode.columns))], to_matrix)
    except RowError as error:
        raise InputError(f"x: {error.reason}") from None
