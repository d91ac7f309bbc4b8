"""PRIL and the ordered logit at home in River; needs the extra ``river``."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from pril.errors import InputError, MissingExtraError

try:
    from river import base, metrics
except ImportError as error:
    raise MissingExtraError("pril.river needs River", "river") from error

import pril
from pril.core import ranking

__all__ = ["IntervalAccuracy", "IntervalMAE", "OrderedLogitClassifier", "PRILClassifier"]


class Reader:
    """Reads labels as River passes them on, from a file too: there, all of them are strings."""

    def __init__(self, classes: Sequence[Any]) -> None:
        self.spellings = {str(label): label for label in classes}
        self.spellings.setdefault("", None)

    def __call__(self, y: Any) -> Any:
        """Return a label, or the pair of its ends."""
        if isinstance(y, str):
            return self.spellings.get(y, y)
        if isinstance(y, Mapping) and y.keys() == {"low", "high"}:
            return self(y["low"]), self(y["high"])
        return y


class Classifier(base.Classifier):
    """What the classifiers share: a learner of `pril` behind River's methods."""

    classes: Sequence[Any]

    def __init__(self, model: Any) -> None:
        self.model = model
        self._stream = model.stream()
        self._read = Reader(self.classes)

    def __copy__(self) -> Classifier:
        return copy.deepcopy(self)  # two streams cannot share a model

    def learn_one(self, x: dict[str, Any], y: Any, w: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x : dict
            Features, all of them numbers. A feature that is missing counts as zero.
        y : label, pair, dict or None
            The class, its lower and upper end, or ``{"low": lower, "high": upper}``; None or an
            empty string is a missing end or label.
        w : float, default=1.0
            Weight of the row.
        """
        if x or self._has_learned():  # nothing can be learned from no features
            self._stream.learn_one(x, self._read(y), w)

    def predict_one(self, x: dict[str, Any], **kwargs: Any) -> Any:
        """Predict the label of one row.

        Parameters
        ----------
        x : dict
            Features.
        **kwargs : dict
            River's own; not used.

        Returns
        -------
        label : object
            One of the classes; None before the first row was learned.
        """
        return self._stream.predict_one(x) if self._has_learned() else None

    def _has_learned(self) -> bool:
        return hasattr(self.model, "order_")

    @property
    def _multiclass(self) -> bool:
        return len(self.classes) > 2

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        # Of the data that River checks with, these are the labels in order. With two classes, it
        # leaves out the data whose labels are the names of things in pictures.
        yield {"classes": [False, True]}


class PRILClassifier(Classifier):
    """PRIL, the perceptron that learns from ranges, as a classifier of River.

    Parameters
    ----------
    classes : list
        The ordered labels, lowest first.
    average : bool, default=True
        Predict with the mean of all iterates instead of the last one.
    half_life : float, default=None
        Rounds after which a round counts half as much in the mean. None: all count the same.

    Attributes
    ----------
    model : PRIL
        The learner, current at all times: `pril.save` writes it to a file.

    See Also
    --------
    pril.PRIL : The learner, with all of its attributes.

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

    def __init__(
        self, classes: list[Any], average: bool = True, half_life: float | None = None
    ) -> None:
        self.classes = classes
        self.average = average
        self.half_life = half_life
        super().__init__(pril.PRIL(classes=classes, average=average, half_life=half_life))


class OrderedLogitClassifier(Classifier):
    """The ordered logit learned from ranges, with probabilities, as a classifier of River.

    Parameters
    ----------
    classes : list
        The ordered labels, lowest first.
    average : bool, default=True
        Predict with a mean of all iterates instead of the last one.
    half_life : float, default=None
        Rounds after which a round counts half as much. None: it counts in full for ever.
    rate : float, default=10.0
        Step size of the weights.
    cut_rate : float, default=2.0
        Step size of the thresholds.
    trust : float, default=30.0
        Number of rows with an exact label of a class after which what they show about ranges counts
        half.
    noise : float, default=0.0
        Relative chance of a label that does not hold the true class.
    decision : {"median", "mode"}, default="median"
        Which class to predict: the median of the probabilities or the likeliest one.

    Attributes
    ----------
    model : OrderedLogit
        The learner, current at all times: `pril.save` writes it to a file.

    See Also
    --------
    pril.OrderedLogit : The learner, with all of its attributes.

    Examples
    --------
    >>> from pril.river import OrderedLogitClassifier
    >>> model = OrderedLogitClassifier(classes=["low", "high"])
    >>> model.learn_one({"size": 1.0}, "high")
    >>> model.predict_proba_one({"size": 1.0})["high"] > 0.5
    True
    """

    def __init__(
        self,
        classes: list[Any],
        average: bool = True,
        half_life: float | None = None,
        rate: float = 10.0,
        cut_rate: float = 2.0,
        trust: float = 30.0,
        noise: float = 0.0,
        decision: Literal["median", "mode"] = "median",
    ) -> None:
        self.classes = classes
        self.average = average
        self.half_life = half_life
        self.rate = rate
        self.cut_rate = cut_rate
        self.trust = trust
        self.noise = noise
        self.decision = decision
        super().__init__(pril.OrderedLogit(**self._get_params()))

    def predict_proba_one(self, x: dict[str, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        x : dict
            Features.
        **kwargs : dict
            River's own; not used.

        Returns
        -------
        probabilities : dict
            Of each class, lowest first; all equal before the first row was learned.
        """
        if self._has_learned():
            return self._stream.predict_proba_one(x)  # type: ignore[no-any-return]
        return dict.fromkeys(self.classes, 1.0 / len(self.classes))


class IntervalMetric(metrics.base.MeanMetric, metrics.base.ClassificationMetric):
    """A mean over rows whose labels are ranges; rows without a label are left out."""

    def __init__(self, classes: list[Any]) -> None:
        super().__init__()
        self.classes = classes
        self._order = ranking.check_classes(classes)
        self._rank = {label: rank for rank, label in enumerate(self._order.tolist())}
        self._read = Reader(classes)

    def _loss(self, y_true: Any, y_pred: Any) -> int | None:
        """Return by how many ranks a prediction misses its range; None without a label."""
        table = ranking.read([self._read(y_true)])
        intervals = ranking.to_intervals(table, self._order, name="y_true")
        if not ranking.is_labelled(intervals)[0]:
            return None
        if y_pred not in self._rank:
            raise InputError(f"y_pred: {y_pred!r} is not one of the classes {self.classes!r}")
        return int(ranking.interval_loss(intervals, np.array([self._rank[y_pred]]))[0])

    def update(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Take note of a prediction.

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

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Take an `update` back.

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

    def _eval(self, y_true: Any, y_pred: Any) -> Any:
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

    def _eval(self, y_true: Any, y_pred: Any) -> Any:
        return self._loss(y_true, y_pred) == 0
