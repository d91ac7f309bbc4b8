"""Linear learners as classifiers of River, and metrics; needs the extra ``river``."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

from sklearn.base import BaseEstimator, clone

from pril.errors import InputError, MissingExtraError

try:
    from river import base, metrics
except ImportError as error:
    raise MissingExtraError("pril.river needs River", "river") from error

import pril
from pril.labels import ranking
from pril.online.one_row import LabelIntervals

__all__ = [
    "IntervalAccuracy",
    "IntervalMAE",
    "OrderedLogitClassifier",
    "OrdinalClassifier",
    "PRILClassifier",
]


class Reader:
    """Reads labels as River passes them; labels from a file are all strings."""

    def __init__(self, classes: Iterable[Any]) -> None:
        self.spellings = {str(label): label for label in classes}
        self.spellings.setdefault("", None)

    def __call__(self, y: object) -> object:
        """Return a label, or the pair of its ends."""
        if isinstance(y, str):
            return self.spellings.get(y, y)
        if isinstance(y, Mapping) and y.keys() == {"low", "high"}:
            return self(y["low"]), self(y["high"])
        return y


class OrdinalClassifier(base.Classifier):
    """A linear learner of this package as a classifier of River.

    Parameters
    ----------
    learner : estimator
        A linear learner with its `classes`, lowest first. A clone of it learns.

    Attributes
    ----------
    model : estimator
        The clone, current at all times: `pril.save` writes it to a file.

    Examples
    --------
    >>> from pril import WidrowHoff
    >>> from pril.river import OrdinalClassifier
    >>> model = OrdinalClassifier(WidrowHoff(classes=["low", "high"]))
    >>> model.learn_one({"size": -1.0}, "low")
    >>> model.predict_one({"size": -1.0})
    'low'
    """

    def __init__(self, learner: BaseEstimator) -> None:
        self.learner = learner
        self.model = clone(learner)
        self._stream = self.model.stream()
        self._read = Reader(learner.classes)

    def __copy__(self) -> OrdinalClassifier:
        return copy.deepcopy(self)  # two streams cannot share a model

    def learn_one(self, x: dict[str, Any], y: object, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x : dict
            Features, all of them numbers. A missing feature counts as zero.
        y : label, pair, dict or None
            The class, its lower and upper end, or ``{"low": lower, "high": upper}``; None or an
            empty string is a missing end or label.
        w : float, default=1.0
            Weight of the row.
        """
        if x or self._has_learned():  # nothing can be learned from no features
            self._stream.learn_one(x, self._read(y), w)

    def predict_one(self, x: dict[str, Any], **kwargs: object) -> Any:
        """Predict the label of one row.

        Parameters
        ----------
        x : dict
            Features.
        **kwargs : dict
            Ignored; River may pass them.

        Returns
        -------
        label : object
            One of the classes; None before the first row was learned.
        """
        return self._stream.predict_one(x) if self._has_learned() else None

    def predict_proba_one(self, x: dict[str, Any], **kwargs: object) -> dict[Any, float]:
        """Return the probabilities of the classes, if the learner has them.

        Parameters
        ----------
        x : dict
            Features.
        **kwargs : dict
            Ignored; River may pass them.

        Returns
        -------
        probabilities : dict
            Of each class, lowest first; all equal before the first row was learned.
        """
        if not hasattr(self._stream, "predict_proba_one"):
            return super().predict_proba_one(x, **kwargs)  # raises
        if self._has_learned():
            return self._stream.predict_proba_one(x)
        return dict.fromkeys(self.model.classes, 1.0 / len(self.model.classes))

    def _has_learned(self) -> bool:
        return hasattr(self.model, "order_")

    @property
    def _multiclass(self) -> bool:
        return len(self.model.classes) > 2

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        # With two classes River leaves out the data whose labels are names of objects in images.
        yield {"learner": pril.MulticlassPerceptron(classes=[False, True])}


class _NamedClassifier(OrdinalClassifier):
    """A classifier that takes the parameters of its learner."""

    _learner: ClassVar[str]

    def __init__(self, classes: list[Any], **parameters: object) -> None:
        self.classes = classes
        self.parameters = parameters
        super().__init__(getattr(pril, self._learner)(classes=classes, **parameters))

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {"classes": [False, True]}


class PRILClassifier(_NamedClassifier):
    """PRIL, the perceptron that learns from ranges, as a classifier of River.

    Parameters
    ----------
    classes : list
        The ordered labels, lowest first.
    **parameters : dict
        Other parameters of `pril.PRIL`, such as `average` and `half_life`.

    Attributes
    ----------
    model : PRIL
        The learner, current at all times: `pril.save` writes it to a file.

    See Also
    --------
    pril.PRIL : The learner, with all of its parameters and attributes.

    Examples
    --------
    >>> from river import preprocessing
    >>> from pril.river import PRILClassifier
    >>> model = preprocessing.StandardScaler() | PRILClassifier(classes=[1, 2, 3])
    >>> for size in [1, 9, 5, 2, 8, 4]:
    ...     model.learn_one({"size": size}, {"low": 1 + size // 5, "high": 2 + size // 8})
    >>> model.predict_one({"size": 9})
    3
    """

    _learner = "PRIL"


class OrderedLogitClassifier(_NamedClassifier):
    """The ordered logit learned from ranges, with probabilities, as a classifier of River.

    Parameters
    ----------
    classes : list
        The ordered labels, lowest first.
    **parameters : dict
        Other parameters of `pril.OrderedLogit`, such as `half_life`, `rate` and `decision`.

    Attributes
    ----------
    model : OrderedLogit
        The learner, current at all times: `pril.save` writes it to a file.

    See Also
    --------
    pril.OrderedLogit : The learner, with all of its parameters and attributes.

    Examples
    --------
    >>> from pril.river import OrderedLogitClassifier
    >>> model = OrderedLogitClassifier(classes=["low", "high"])
    >>> model.learn_one({"size": 1.0}, "high")
    >>> model.predict_proba_one({"size": 1.0})["high"] > 0.5
    True
    """

    _learner = "OrderedLogit"


class IntervalMetric(metrics.base.MeanMetric, metrics.base.ClassificationMetric):
    """A mean over rows whose labels are ranges; rows without a label are ignored."""

    def __init__(self, classes: list[Any]) -> None:
        super().__init__()
        self.classes = classes
        self._order = ranking.check_classes(classes)
        self._rank = {label: rank for rank, label in enumerate(self._order.tolist())}
        self._read = Reader(classes)
        self._intervals = LabelIntervals(self._order, name="y_true")

    def _loss(self, y_true: object, y_pred: object) -> int | None:
        """Return by how many ranks a prediction misses its range; None without a label."""
        lo, hi, _ = self._intervals.of(self._read(y_true))
        if hi < lo:
            return None
        if y_pred not in self._rank:
            raise InputError(f"y_pred: {y_pred!r} is not one of the classes {self.classes!r}")
        rank = self._rank[y_pred]
        return max(lo - rank, rank - hi, 0)

    def update(self, y_true: object, y_pred: object, w: float = 1.0) -> None:
        """Add a prediction.

        Parameters
        ----------
        y_true : label, pair, dict or None
            As in `learn_one`.
        y_pred : label
            The prediction.
        w : float, default=1.0
            Weight of the row.
        """
        if self._loss(y_true, y_pred) is not None:
            super().update(y_true, y_pred, w)

    def revert(self, y_true: object, y_pred: object, w: float = 1.0) -> None:
        """Undo an `update`.

        Parameters
        ----------
        y_true : label, pair, dict or None
            As in `update`.
        y_pred : label
            The prediction.
        w : float, default=1.0
            Weight of the row.
        """
        if self._loss(y_true, y_pred) is not None:
            super().revert(y_true, y_pred, w)


class IntervalMAE(IntervalMetric):
    """Mean number of ranks by which a prediction misses its range.

    Parameters
    ----------
    classes : list
        The ordered labels, lowest first.

    See Also
    --------
    pril.metrics.interval_absolute_error : The same for arrays.

    Examples
    --------
    >>> from pril.river import IntervalMAE
    >>> metric = IntervalMAE(classes=[1, 2, 3, 4])
    >>> metric.update((1, 2), 4)
    >>> metric.update({"low": 3, "high": None}, 4)
    >>> metric
    IntervalMAE: 1.
    """

    _fmt: ClassVar[str] = ",.6f"

    @property
    def bigger_is_better(self) -> bool:
        """A small error is better."""
        return False

    def _eval(self, y_true: object, y_pred: object) -> int | bool | None:
        return self._loss(y_true, y_pred)


class IntervalAccuracy(IntervalMetric):
    """Share of the predictions that lie in their range.

    Parameters
    ----------
    classes : list
        The ordered labels, lowest first.

    See Also
    --------
    pril.metrics.interval_accuracy : The same for arrays.

    Examples
    --------
    >>> from pril.river import IntervalAccuracy
    >>> metric = IntervalAccuracy(classes=[1, 2, 3, 4])
    >>> metric.update((1, 2), 4)
    >>> metric.update((3, None), 4)
    >>> metric
    IntervalAccuracy: 50.00%
    """

    def _eval(self, y_true: object, y_pred: object) -> int | bool | None:
        return self._loss(y_true, y_pred) == 0
