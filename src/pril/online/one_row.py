"""Learning and predicting one row at a time, without the cost of a table of one row."""

from __future__ import annotations

import copy
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import isnan, nan
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from pril.bases.engine import Learned
from pril.bases.parts import Parts
from pril.bases.weights import class_weights, label_weights, read_weights
from pril.core.arrays import Array
from pril.core.rows import TIMES
from pril.core.threads import private_state, unchanged_on_failure
from pril.errors import InputError, InputTypeError, shown
from pril.labels import ranking
from pril.labels.ranking import is_missing
from pril.online import learning
from pril.online.recent_errors import RecentErrors

MAX_LABELS = 10_000  # distinct labels that are remembered
NUMBER = struct.Struct("d")
NOT_FAST = (KeyError, TypeError, ValueError, OverflowError, AttributeError, struct.error)

ndarray = np.ndarray
FLOAT64 = np.dtype(np.float64)


RowLike: TypeAlias = Mapping[Any, Any] | Sequence[Any] | Array  # one row of features


class LabelIntervals(dict[Any, tuple[int, int, float]]):
    """Intervals of labels, with the weights that their classes give a row; read once each.

    Parameters
    ----------
    order : ndarray of shape (n_classes,)
        The classes, lowest first.
    weights : ndarray of shape (n_classes,), default=None
        Their weights; None: all are 1.
    inspect : callable, default=None
        Refuses labels that a learner cannot take, given a table and intervals.
    name : str
        What errors call the label.
    """

    def __init__(
        self,
        order: Array,
        weights: Array | None = None,
        inspect: Callable[[ranking.Labels, Array], None] | None = None,
        name: str = "y",
    ) -> None:
        super().__init__()
        self._order, self._weights, self._inspect, self._name = order, weights, inspect, name

    def of(self, y: object) -> tuple[int, int, float]:
        """Return the interval of a label, a pair or a dict, and the weight of its classes."""
        if isinstance(y, Mapping):
            if not {"low", "high"} >= set(y):
                raise InputError(
                    f"{self._name} must have the keys 'low' and 'high' if it is a dict, got "
                    f"{shown(dict(y))}"
                )
            y = (y.get("low"), y.get("high"))
        elif isinstance(y, list | ndarray):
            y = y[()] if isinstance(y, ndarray) and y.ndim == 0 else tuple(y)
        try:
            return self[y]
        except TypeError:  # a list, a set or an array inside, which cannot be remembered
            raise InputTypeError(
                f"{self._name} must be a label, a pair of labels or None, got {shown(y)}"
            ) from None

    def __missing__(self, y: object) -> tuple[int, int, float]:
        """Return the same for a label that was not read before. A label of weight zero is none."""
        table = ranking.read([y])
        intervals = ranking.to_intervals(table, self._order, name=self._name)
        if self._inspect is not None:
            self._inspect(table, intervals)
        lo, hi = intervals[0].tolist()
        weight = 1.0
        if self._weights is not None:
            weight = label_weights(self._weights, intervals).item()
            lo, hi, weight = (lo, hi, weight) if weight > 0.0 else (*ranking.NO_LABEL, 1.0)
        if len(self) < MAX_LABELS:
            self[y] = lo, hi, weight
        return lo, hi, weight


def values_getter(names: list[str]) -> Callable[[dict[str, Any]], Any]:
    """Return a function that takes the values of these names from a dict; it may raise KeyError."""
    if len(names) > 1:
        return itemgetter(*names)
    return lambda x: [x[name] for name in names]


class RowStream:
    """A model that learns and predicts one row at a time; its `stream` returns it.

    A row is a dict, a sequence or a 1-D array of features. The model is up to date after every row,
    and equal to what `partial_fit` would have learned, bit for bit; predictions are equal to those
    of a table. A call that is refused leaves the model as it was.

    Parameters
    ----------
    model : estimator
        A linear learner, fitted or not, a fitted `OrderedBoosting`, which predicts only, or a
        fitted pipeline that ends in one of them.
    unknown : {"error", "ignore"}, default="error"
        What to do with features that a fitted model does not know.
    encode : callable, default=None
        Turns a row into the features that the learner of a pipeline takes; a row is then whatever
        this function takes.
    errors : RecentErrors, default=None
        Predict each row before it is learned, and keep here how far the prediction was off.
    strict : bool, default=False
        Refuse a dict that lacks a feature or has another one.
    grows : bool, default=None
        Whether a dict may bring new features. None: if the model has not learned yet.

    Attributes
    ----------
    model : estimator
        The learner or the pipeline.
    """

    # Each method has a fast path: the model is unchanged, the row has the same features as the last
    # one, the label was read before. In any other case it starts over and checks everything.
    #
    # The engine's `one_row` works on one row, which is written into its `cells`. It says what
    # stands for a feature that is not there, and which codes stand for categories.

    def __init__(
        self,
        model: BaseEstimator,
        unknown: Literal["error", "ignore"] = "error",
        encode: Callable[[Any], Any] | None = None,
        errors: RecentErrors | None = None,
        strict: bool = False,
        grows: bool | None = None,
    ) -> None:
        if unknown not in ("error", "ignore"):
            raise InputError(f"unknown must be 'error' or 'ignore', got {unknown!r}")
        if strict and unknown == "ignore":
            raise InputError("strict=True refuses unknown features: leave out unknown='ignore'")
        self.model = model
        self.unknown = unknown
        self.strict = strict
        self._encode = encode
        self._errors: Any = errors
        self._is_plain = encode is None and errors is None
        self._parts = Parts.of(model)
        self._learner: Any = self._parts.learner
        # Its lock is held by the thread that uses the learner.
        self._shared = private_state(self._learner)
        self.grows = not learning.has_learned(self._learner) if grows is None else grows
        self._begin()

    def _begin(self) -> None:
        """Work on the learner as it is now."""
        model = self._learner
        model.check_parameters()
        self._memory: Learned | None = None
        self._engine: Any = model.engine
        self._names: dict[str, None] | None = {}  # in their order; None: they have none
        self._width = -1  # features of a row on the fast path; -1: none yet
        self._fast: Any = None  # what it learns with, once there is a memory
        self._absent = 0.0  # what stands for a feature that is not there
        self._codes: dict[int, dict[Any, float]] = {}  # of the categories of some features
        has_learned = learning.has_learned(model)
        if has_learned:
            self._classes = model.order_
        elif model.classes is not None:
            self._classes = ranking.check_classes(model.classes)
        else:
            raise InputError(
                "stream() needs the classes of a model that has not learned yet: set them on the "
                f"estimator, lowest first, as in {type(model).__name__}(classes=[1, 2, 3])"
            )
        self._answers = self._classes.tolist()
        self._labels = LabelIntervals(self._classes)
        self._learns = False
        if isinstance(model, learning.OnlineClassifier):
            learning.agreed_classes(model, ranking.read([]), None)
            # A fitted model with balanced weights predicts; only `learn_one` refuses them.
            if not (has_learned and isinstance(model.class_weight, str)):
                learning.refuse_online(model)
                weights = class_weights(model.class_weight, self._classes, None)
                self._labels = LabelIntervals(self._classes, weights, self._engine.inspect_labels)
                self._learns = not self._parts.is_frozen
        if has_learned:
            self._use(model.memory_)

    def _use(self, memory: Learned) -> None:
        """Work in place, in this memory of the model."""
        names = getattr(self._learner, "feature_names_in_", None)
        self._names = None if names is None else dict.fromkeys(names.tolist())
        self._values = values_getter([] if names is None else names.tolist())
        self._engine = self._engine._replace(feature_names=names)
        self._memory, one = memory, self._engine.one_row(memory)
        self._one, self._row, self._rate = one, one.cells, one.rate
        self._absent, self._codes = one.absent, one.codes
        self._width = len(one.cells)
        self._shape = None if one.codes else one.cells.shape  # of an array on the fast path
        write = struct.Struct(f"{self._width}d").pack_into
        self._pack: Callable[..., None] = partial(write, one.cells.data.cast("B"), 0)
        if one.codes:
            self._pack = partial(self._pack_coded, self._pack)
        if self._learns:
            # What learns a row on the fast path, in one place: to look up each takes as long again.
            learns = self._pack, self._labels, one.learn, self._learner
            self._fast = (memory, self._width, self._values, *learns)

    def _pack_coded(self, pack: Callable[..., None], *values: object) -> None:
        """Write a row, the categories as their codes."""
        cells = list(values)
        for k, codes in self._codes.items():
            cells[k] = codes[cells[k]]
        pack(*cells)

    def __copy__(self) -> RowStream:
        return copy.deepcopy(self)  # a copy learns alone

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        given = self.model, self.unknown, self._encode, self._errors, self.strict
        return RowStream, (*given, self.grows)

    def __repr__(self) -> str:
        return f"RowStream({self.model!r}, unknown={self.unknown!r})"

    # --- Learning ---

    def learn_one(self, x: RowLike, y: object, sample_weight: float = 1.0) -> None:
        """Learn from one row.

        Parameters
        ----------
        x : dict, sequence or ndarray of shape (n_features,)
            Features. A feature that a dict lacks counts as zero. A model that had not learned when
            the stream began takes new features of a dict at any time.
        y : label, pair, dict or None
            The class, its lower and upper end (a missing end is open), the same as
            ``{"low": lower, "high": upper}``, or None: a row without a label is ignored.
        sample_weight : float, default=1.0
            How far the row moves the model, relative to a row of weight 1. A row of weight 0 is
            ignored.
        """
        lock = self._shared.lock
        lock.acquire()  # `with` takes 70 ns longer
        try:
            rank = None
            if not self._is_plain:
                rank, x = self._before_learning(x)
            try:
                memory, width, values, pack, labels, learn, learner = self._fast
                lo, hi, weight = labels[y]
                if type(x) is dict and len(x) == width:
                    pack(*values(x))
                elif (type(x) is list or type(x) is tuple) and len(x) == width:
                    pack(*x)
                elif type(x) is ndarray and x.shape == self._shape and x.dtype is FLOAT64:
                    self._row[:] = x
                else:
                    raise KeyError
                if sample_weight != 1.0 or learner.memory_ is not memory:
                    raise KeyError
            except NOT_FAST:
                lo, hi = self._learn_any(x, y, sample_weight)
            else:
                bad = learn(lo, hi) if weight == 1.0 else self._one.learn_weighted(lo, hi, weight)
                if bad >= 0:
                    raise self._one.refusal(weight)
            if rank is not None and lo <= hi:
                self._errors.add(max(lo - rank, rank - hi, 0))
        finally:
            lock.release()

    def _before_learning(self, x: RowLike) -> tuple[int | None, RowLike]:
        """Return the rank of a row, if errors are kept and there is a model, and its features."""
        measures = self._errors is not None and learning.has_learned(self._learner)
        rank = self._rank(x) if measures else None
        if self._encode is not None:
            if not self._learns:
                self._check_learns()
            x = self._encode(x)
        return rank, x

    def _check_learns(self) -> None:
        self._parts.check_learns()
        learning.refuse_online(self._learner)

    def _learn_any(self, x: RowLike, y: object, sample_weight: float) -> tuple[int, int]:
        """Learn from any row: check everything; return the interval of its label."""
        self._check_learns()
        self._follow_model()
        weight = float(read_weights(sample_weight, 1)[0])
        row, names = self._read_row(x, learning=True)
        lo, hi, by_class = self._labels.of(None if weight == 0.0 else y)
        weight *= by_class
        lo, hi = (lo, hi) if weight > 0.0 else ranking.NO_LABEL
        with unchanged_on_failure(self._learner):
            if self._memory is None or len(row) > self._width:
                self._make_room(len(row), names)
            self._row[:] = row
            if self._one.learn_weighted(lo, hi, weight) >= 0:
                raise self._one.refusal(weight)
        return lo, hi

    def _make_room(self, n_features: int, names: list[str] | None) -> None:
        """Make the learner this wide."""
        model = self._learner
        if self._memory is None:
            model.check_parameters()
            learning.begin_empty(model, self._classes)
        learning.set_features(model, self._names or (), names or range(n_features))
        if names is not None:
            model.feature_names_in_ = np.array(names, dtype=object)
        self._use(model.memory_)

    # --- Predicting ---

    def predict_one(self, x: RowLike) -> Any:
        """Predict the label of one row.

        Parameters
        ----------
        x : dict, sequence or ndarray of shape (n_features,)
            Features, as in `learn_one`.

        Returns
        -------
        label : object
            One of the classes.
        """
        lock = self._shared.lock
        lock.acquire()  # as in `learn_one`
        try:
            return self._answers[self._rank(x)]
        finally:
            lock.release()

    def _rank(self, x: RowLike) -> int:
        """Score a row, and return its rank; the lock is held."""
        if self._encode is not None:
            x = self._encode(x)
        try:
            if type(x) is dict and len(x) == self._width:
                self._pack(*self._values(x))
            elif (type(x) is list or type(x) is tuple) and len(x) == self._width:
                self._pack(*x)
            elif type(x) is ndarray and x.shape == self._shape and x.dtype is FLOAT64:
                self._row[:] = x
            else:
                raise KeyError
            if self._learner.memory_ is not self._memory:
                raise KeyError
        except NOT_FAST:
            self._follow_model()
            if self._memory is None:
                check_is_fitted(self._learner)
            self._row[:] = self._read_row(x, learning=False)[0]
        rank: int = self._rate()
        if rank < 0:
            raise self._one.refusal()
        return rank

    # --- What both need ---

    def _follow_model(self) -> None:
        """Start over if the learner has learned by other means."""
        if getattr(self._learner, "memory_", None) is not self._memory:
            self._begin()

    def _read_row(self, x: RowLike, *, learning: bool) -> tuple[Array, list[str] | None]:
        """Return the features of a row, and their names if a dict has given them."""
        if isinstance(x, Mapping):
            names = self._known_names(x, learning)
            return self._numbers([x.get(name, self._absent) for name in names], names), names
        if isinstance(x, str) or not hasattr(x, "__len__"):
            raise InputTypeError(f"x must be a dict, a sequence or a 1d array, got {shown(x)}")
        values = list(x)
        if isinstance(x, ndarray) and x.dtype.kind not in "mM":  # dates stay dates
            values = x.tolist()
        width = len(values) if self._memory is None else self._width
        if len(values) != width or width == 0:
            raise InputError(f"x has {len(values)} features, expected {width or 'at least one'}")
        return self._numbers(values, None), None

    def _known_names(self, x: Mapping[Any, Any], learning: bool) -> list[str]:
        """Return the names of the features; if a row is to be learned, with its new ones."""
        if self._names is None:
            raise InputError(
                "x is a dict, but the model learned from rows whose features have no names: pass a "
                "sequence or a 1d array"
            )
        new = [name for name in x if name not in self._names]
        if self.strict and (lacking := [name for name in self._names if name not in x]):
            raise InputError(f"x lacks the feature {shown(lacking[0])}, which strict=True refuses")
        may_grow = self.grows and not (self.strict and self._names)
        if new and not may_grow and self.unknown == "error":
            raise InputError(
                f"x has a feature {shown(new[0])} that the model does not know; "
                "stream(unknown='ignore') leaves such features out"
            )
        new = new if learning and may_grow else []
        for name in new:
            if not isinstance(name, str):
                raise InputTypeError(f"names of features must be strings, got {shown(name)} in x")
        names = [*self._names, *new]
        if not names:
            raise InputError("x has no features, expected at least one")
        return names

    def _numbers(self, values: list[Any], names: list[str] | None) -> Array:
        row = np.empty(len(values))
        for i, value in enumerate(values):
            try:
                if type(value) in TIMES:  # some of these types convert to float
                    raise TypeError
                NUMBER.pack_into(row.data, 8 * i, self._number(i, value))
            except (struct.error, TypeError, ValueError, OverflowError):
                name = i if names is None else repr(names[i])
                kind = "category" if i in self._codes else "number"
                raise InputError(f"x, feature {name}: {shown(value)} is not a {kind}") from None
        return row

    def _number(self, i: int, value: object) -> object:
        """Return a value of feature i, a category as its code."""
        if i in self._codes:
            return self._codes[i][value]
        return nan if isnan(self._absent) and is_missing(value) else value

    def metrics(self) -> dict[str, Any]:
        """Return how good the predictions of the last rows were, each made before it was learned.

        Returns
        -------
        metrics : dict
            ``rows``, how many rows with a label were predicted so far; ``window``, how many of them
            the means are over; ``mean_error``, how many ranks a prediction was off, and
            ``share_inside``, how often it was inside the label; ``alarms``, at which rows it was
            noticed that the error had risen.

        Examples
        --------
        >>> from pril import PRIL
        >>> stream = PRIL(classes=[1, 2, 3]).stream(metrics=1000)
        >>> for size in range(-3, 4):
        ...     stream.learn_one({"size": size}, (1, 2) if size < 0 else (2, 3))
        >>> stream.metrics()
        {'rows': 6, 'window': 6, 'mean_error': 0.0, 'share_inside': 1.0, 'alarms': []}
        """
        if self._errors is None:
            raise InputError("this stream keeps no metrics: begin it with stream(metrics=1000)")
        with self._shared.lock:
            return self._errors.to_dict()

    # --- What some learners have ---

    @available_if(lambda self: hasattr(self._learner, "latent"))
    def latent_one(self, x: RowLike) -> float:
        """Return the score f(x) that the thresholds cut into classes.

        Parameters
        ----------
        x : dict, sequence or ndarray of shape (n_features,)
            Features, as in `learn_one`.

        Returns
        -------
        score : float
            Comparable to the model's `thresholds_`.
        """
        with self._shared.lock:
            self._rank(x)
            return self._one.score()

    @available_if(lambda self: hasattr(self._learner, "predict_proba"))
    def predict_proba_one(self, x: RowLike) -> dict[Any, float]:
        """Return the probabilities of the classes.

        Parameters
        ----------
        x : dict, sequence or ndarray of shape (n_features,)
            Features, as in `learn_one`.

        Returns
        -------
        probabilities : dict
            Of each class, lowest first; they add up to 1.
        """
        with self._shared.lock:
            self._rank(x)
            return dict(zip(self._answers, self._one.chances().tolist(), strict=True))
