"""What online learners have, and how they learn: from X and y to a batch, and on to a memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection
from functools import update_wrapper
from numbers import Integral, Real
from operator import attrgetter, is_
from types import FunctionType
from typing import Any, ClassVar, Literal, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pril.bases.classifier import OrdinalLearner, naming_rows
from pril.bases.engine import Engine, MemoryType, RowsType
from pril.bases.weights import class_weights, label_weights, read_weights
from pril.core.arrays import Array, FeaturesLike, LabelsLike, Seed, frozen
from pril.core.docs import filled
from pril.core.loop_types import Record
from pril.core.rows import n_rows
from pril.core.scikit import Interval, StrOptions, fit_context
from pril.core.threads import private_state, unchanged_on_failure
from pril.errors import InputError
from pril.labels import ranking
from pril.online.linear_engine import Batch

SHORTEST_HALF_LIFE = 0.01  # in rounds; with a shorter one the weights of two rounds overflow

SHARED_CONSTRAINTS: dict[str, Any] = {
    "classes": ["array-like", None],
    "class_weight": [dict, StrOptions({"balanced"}), None],
    "max_iter": [Interval(Integral, 1, None, closed="left")],
    "shuffle": ["boolean"],
    "random_state": ["random_state"],
    "average": ["boolean"],
    "half_life": [Interval(Real, SHORTEST_HALF_LIFE, None, closed="left"), None],
    "tol": [Interval(Real, 0, None, closed="left"), None],
    "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
}


def _count(which: int, doc: str) -> property:
    """Return a property: one of the counts that a memory keeps."""

    def count(model: OnlineClassifier) -> int:
        check_is_fitted(model)
        return int(model.memory_.counts[which])

    return property(count, doc=doc)


class OnlineClassifier(OrdinalLearner):
    """What all online learners share: `fit` in passes over the rows, and `partial_fit`.

    Its docstring describes what learners share: they name it, as in ``%(classes max_iter)``.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        The ordered labels, lowest first. None takes them from y.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, which multiplies the weights of its rows. A dict may leave out classes
        of weight 1. "balanced" gives all classes the same total weight, and needs `fit`. The
        weight of a range is the mean of its classes' weights, and it counts in equal parts for
        each of them.
    max_iter : int, default=10
        Largest number of passes of `fit` over the rows.
    shuffle : bool, default=True
        Whether to shuffle the rows before each pass of `fit`.
    random_state : int, RandomState instance or None, default=None
        Seed for shuffling the rows.
    average : bool, default=True
        Predict with the mean of all iterates instead of the last one. Learning continues from the
        last one.
    half_life : float, default=None
        Number of rounds after which a round counts half as much in the mean, so that the model
        adapts to a stream that changes. None: all rounds count the same. It has no effect without
        `average`.
    tol : float, default=None
        Stop `fit` when the mean interval loss of a pass, with each row predicted before it is
        learned, has not improved by `tol` for `n_iter_no_change` passes. None: stop only after a
        pass without a mistake.
    n_iter_no_change : int, default=3
        See `tol`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted. Columns of margins are in this order.
    order_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    coef_ : ndarray of shape (n_features,)
        Weights of the features.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    intercept_ : float
        Weight of the constant feature, 0.0 if there is none.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X has them.
    n_iter_ : int
        Passes that `fit` made; not set by `partial_fit`.
    t_ : int
        Rounds learned from.
    n_mistakes_ : int
        Rounds that changed the model.
    n_updates_ : int
        Violated constraints, over all rounds.
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = SHARED_CONSTRAINTS

    # Parameters that determine what the sums mean: they cannot change once learning has begun.
    fixed_parameters: ClassVar[tuple[str, ...]] = ("average",)

    n_iter_: int
    learned_with_: dict[str, Any]
    _get_parameters: ClassVar[Any]  # a function of an estimator

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Seed = None,
        average: bool = True,
        half_life: float | None = None,
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.shuffle = shuffle
        self.random_state = random_state
        self.average = average
        self.half_life = half_life
        self.tol = tol
        self.n_iter_no_change = n_iter_no_change

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__module__.startswith("pril."):  # a user's docstring is not ours to change
            cls.__doc__ = filled(cls.__doc__, OnlineClassifier.__doc__)
        if "__init__" not in vars(cls):  # an unknown argument is told by the name of the class
            inherited: Any = cls.__init__
            code, closure = inherited.__code__, inherited.__closure__
            init: Any = FunctionType(code, inherited.__globals__, closure=closure)
            update_wrapper(init, inherited)
            init.__kwdefaults__ = inherited.__kwdefaults__
            init.__qualname__ = f"{cls.__name__}.__init__"
            cls.__init__ = init  # type: ignore[method-assign]
        cls._get_parameters = attrgetter(*cls._get_param_names())

    @property
    @abstractmethod
    def engine(self) -> OnlineEngine[Any, Any]:
        """How it learns and rates, by its parameters."""

    # --- Learning ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: FeaturesLike, y: LabelsLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn from scratch, in `max_iter` passes over the rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features. float32 and float64 are used without a copy.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels, or the lower and the upper end of each label. A missing end is open; a row
            without a label is ignored.
        sample_weight : array-like of shape (n_samples,), default=None
            How far each row moves the model, relative to a row of weight 1. A row of weight 0 is
            ignored. None: all weights are 1.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_failure(self):
            batch = prepare(self, X, y, sample_weight=sample_weight, reset=True)
            engine = begin(self, batch.rows)
            self.memory_, self.n_iter_ = make_passes(self, engine, batch)
        return self

    def partial_fit(
        self,
        X: FeaturesLike,
        y: LabelsLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Learn from each row once, in the order given: the paper's algorithm.

        Any chunking of a stream gives the same model, bit for bit. A call that fails leaves the
        model as it was; a call without rows does nothing.

        Parameters
        ----------
        %(X y)
        classes : array-like of shape (n_classes,), default=None
            The ordered labels, lowest first. Needed on the first call, unless the estimator's
            `classes` are set or y is an ordered Categorical.
        %(sample_weight)

        Returns
        -------
        self : object
            The estimator.
        """
        learn_batch(self, X, y, classes, sample_weight)
        return self

    partial_fit.__doc__ = filled(partial_fit.__doc__, fit.__doc__)

    # --- Parameters ---

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be used, or that do not fit what was learned."""
        now = [*self._get_parameters(self)]
        state = private_state(self)
        if state.valid is None or not all(map(is_, now, state.valid)):
            self._validate_params()
            state.valid = now
        for name, value in getattr(self, "learned_with_", {}).items():
            current = getattr(self, name)
            if not _same(current, value):
                raise InputError(
                    f"{name} was {value!r} when learning began and is {current!r} now: what was "
                    "learned has no meaning under it; set it back, or fit anew"
                )

    t_ = _count(0, "Rounds learned from, over all passes and calls.")
    n_mistakes_ = _count(1, "Rounds with a violated constraint.")
    n_updates_ = _count(2, "Violated constraints, over all rounds.")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # scikit-learn's accuracy check has classes without an order.
        tags.classifier_tags.poor_score = True
        return tags


def _same(now: Any, before: Any) -> bool:
    """Tell whether a parameter is as it was."""
    if now is before:
        return True
    if isinstance(now, dict) and isinstance(before, dict):
        return now.keys() == before.keys() and all(_same(now[name], before[name]) for name in now)
    if isinstance(now, np.ndarray) or isinstance(before, np.ndarray):
        return np.array_equal(now, before)
    return bool(now == before)


def has_learned(model: OnlineClassifier) -> bool:
    """Tell whether a learner has begun to learn."""
    return "memory_" in vars(model)


def learn_batch(
    model: OnlineClassifier,
    X: FeaturesLike,
    y: LabelsLike,
    classes: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    *,
    recording: bool = False,
) -> tuple[Batch, Record | None]:
    """Do the work of `partial_fit`; return the batch and, if asked, what was predicted before."""
    with unchanged_on_failure(model) as before:
        engine = _online_engine(model)
        batch = prepare(model, X, y, classes, sample_weight, engine=engine)
        if not has_learned(model):
            if len(batch) == 0:
                model.__dict__ = before
                return batch, None
            engine = begin(model, batch.rows)
        record = engine.blank_record(len(batch), len(model.order_)) if recording else None
        model.memory_ = engine.go_on(model.memory_, batch, None, record)
    return batch, record


def prepare(
    model: OnlineClassifier,
    X: FeaturesLike,
    y: LabelsLike,
    classes: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
    *,
    reset: bool = False,
    engine: OnlineEngine[Any, Any] | None = None,
) -> Batch:
    """Check rows, labels and weights, and return them as an engine takes them.

    Names and number of the features, and the classes, are set on the learner: from scratch if
    `reset`, else they must agree with those it has. `engine` is the learner's own, if one was made.
    """
    if engine is None:
        engine = model.engine if reset else _online_engine(model)
    fitted = has_learned(model) and not reset
    rows = engine.read(model, X, reset=not fitted, min_rows=1 if reset else 0)
    n = n_rows(rows)
    table = ranking.read(y)
    ranking.check_length(table.values, range(n))
    weights = None if sample_weight is None else read_weights(sample_weight, n)
    if not fitted and n == 0:
        if classes is not None:
            ranking.check_classes(classes)
        return Batch(rows, np.empty((0, 2), dtype=np.int64))
    if weights is None or weights.all():
        intervals = _read_intervals(model, table, classes, reset)
    else:
        intervals = np.full((n, 2), ranking.NO_LABEL)
        used = np.flatnonzero(weights)
        if reset and len(used) == 0:
            raise InputError("sample_weight is zero for every row: nothing to learn from")
        with naming_rows(used):
            intervals[used] = _read_intervals(model, table.take(used), classes, reset)
    intervals, weights = weigh(model, intervals, weights, reset=reset)
    engine.inspect_rows(rows)
    if reset:
        engine.inspect_means(model, rows)
    engine.inspect_labels(table, intervals)
    return Batch(rows, intervals, weights)


def _online_engine(model: OnlineClassifier) -> OnlineEngine[Any, Any]:
    """Return the engine of a learner whose parameters let it learn row by row."""
    model.check_parameters()
    refuse_online(model)
    return model.engine


def weigh(
    model: OnlineClassifier, intervals: Array, weights: Array | None = None, *, reset: bool = False
) -> tuple[Array, Array | None]:
    """Return labels and weights of rows, with the weights of the classes in them.

    A row of weight zero has no label.
    """
    given = model.class_weight
    by_class = None if given is None else class_weights(given, model.order_, intervals)
    if by_class is not None:
        of_labels = label_weights(by_class, intervals)
        weights = of_labels if weights is None else weights * of_labels
        intervals = np.where(weights[:, np.newaxis] > 0.0, intervals, ranking.NO_LABEL)
        if reset and not ranking.is_labelled(intervals).any():
            raise InputError("class_weight is zero for every row: nothing to learn from")
    if weights is not None and (weights == 1.0).all():
        weights = None
    return intervals, weights


def refuse_online(model: OnlineClassifier) -> None:
    """Refuse to learn some rows with what depends on all rows, and with an offset."""
    offset = getattr(model, "offset", None)
    if offset is not None:
        raise InputError(
            f"offset={offset!r} needs all rows in memory: use fit, not partial_fit, a "
            "stream, the command or Dask"
        )
    if (link := getattr(model, "link", "logit")) != "logit":
        raise InputError(f'link={link!r} is for fit only: what learns row by row takes "logit"')
    if getattr(model, "kernel", None) == "precomputed":
        raise InputError(
            "kernel='precomputed' cannot be learned from a stream, because the kernel values of "
            "later rows are not known: use fit, or a kernel that is a name or a function"
        )
    if isinstance(model.class_weight, str):
        raise InputError(
            "class_weight='balanced' needs all rows at once: use fit, or pass the weights of the "
            "classes as a dict"
        )


def _read_intervals(
    model: OnlineClassifier, table: ranking.Labels, classes: ArrayLike | None, reset: bool
) -> Array:
    """Set the classes, and return the labels as intervals of them."""
    if not reset:
        model.order_ = agreed_classes(model, table, classes)
        return ranking.to_intervals(table, model.order_)
    model.order_, intervals = ranking.encode(table, model.classes)
    if not ranking.is_labelled(intervals).any():
        raise InputError("y has no label in any row: there is nothing to learn from")
    return intervals


def agreed_classes(
    model: OnlineClassifier, table: ranking.Labels, classes: ArrayLike | None
) -> Array:
    """Return the classes, lowest first, if those known before, those named and those of y agree."""
    parameter: Any = model.classes
    values = None if parameter is None else list(parameter)  # they may have changed in place
    order: Any = getattr(model, "order_", None)
    state = private_state(model)
    before, values_before, known_before = state.agreed
    was_compared = parameter is before and values == values_before and order is known_before
    given = [one for one in (parameter, classes) if one is not None]
    for one in (one for one in given if not (was_compared and one is parameter)):
        order_given = ranking.check_classes(one)
        if order is not None and not np.array_equal(order_given, order):
            raise InputError(
                f"classes must stay the same: {ranking.named(order)} were set before, now they "
                f"are {ranking.named(order_given)}"
            )
        order = order_given
    if order is not None and given:
        ranking.warn_of_order(table, order)
    elif order is None and table.ordered:
        order = table.vocabulary
    elif table.ordered and not ranking.same_order(table, order):
        raise InputError(
            f"y is a Categorical ordered {ranking.named(table.vocabulary)}, against the classes "
            f"{ranking.named(order)} set before"
        )
    if order is None:
        raise InputError(
            "classes must be passed on the first call to partial_fit, lowest first (or set "
            "classes on the estimator, or pass y as an ordered Categorical)"
        )
    state.agreed = parameter, values, order
    return order


def begin(model: OnlineClassifier, rows: tuple[Any, ...] | None = None) -> OnlineEngine[Any, Any]:
    """Let a learner that knows its features and classes begin, with rows like these.

    Return the engine, which knows the features now.
    """
    keep_parameters(model)
    engine = model.engine
    model.memory_ = engine.blank(model.n_features_in_, len(model.order_), rows)
    return engine


def keep_parameters(model: OnlineClassifier) -> None:
    """Keep the parameters that learning begins with, and forget the file of the model."""
    model.__dict__.pop("file_notes_", None)
    model.learned_with_ = {name: _kept(getattr(model, name)) for name in model.fixed_parameters}


def _kept(value: object) -> object:
    """Return a parameter as it is now: a dict, list or array may be changed in place later."""
    if isinstance(value, dict):
        return {name: _kept(one) for name, one in value.items()}
    return value.copy() if isinstance(value, list | np.ndarray) else value


def begin_with(model: OnlineClassifier, X: FeaturesLike, classes: ArrayLike) -> None:
    """Let a learner begin with these features and classes, before there is any row."""
    rows = model.engine.read(model, X, reset=True, min_rows=0)
    model.order_ = ranking.check_classes(classes)
    begin(model, rows)


def begin_empty(model: OnlineClassifier, classes: ArrayLike) -> None:
    """Let a learner begin with these classes and no features; `set_features` adds some."""
    model.order_, model.n_features_in_ = ranking.check_classes(classes), 0
    begin(model)


def set_features(model: OnlineClassifier, before: Collection[Any], after: Collection[Any]) -> None:
    """Give a learner other features, by name: those before keep their weights, others were zero."""
    places = {name: k for k, name in enumerate(before)}
    model.memory_ = model.memory_.with_features([places.get(name, -1) for name in after])
    model.n_features_in_ = len(after)


class OnlineEngine(Engine[MemoryType, RowsType], Protocol):
    """An engine that learns row by row."""

    @property
    def settles(self) -> bool:
        """Whether nothing would change any more after a pass without a mistake."""

    @property
    def mixes(self) -> bool:
        """Whether blocks may learn side by side: the mean of their memories is one."""

    @property
    def may_lose_mean(self) -> bool:
        """Whether a learner that averages may have to go on without a mean."""

    def inspect_rows(self, rows: RowsType) -> None:
        """Warn of features that this learner's guarantee does not cover."""

    def inspect_means(self, owner: BaseEstimator, rows: RowsType) -> None:
        """Warn of features of all rows that this learner wants centred; the owner names them."""

    def inspect_labels(self, table: ranking.Labels, intervals: Array) -> None:
        """Refuse labels that this learner cannot take."""

    def blank(self, n_features: int, n_classes: int, rows: RowsType) -> MemoryType:
        """Return what is known before the first of these rows."""

    def blank_record(self, n: int, n_classes: int, *, with_cuts: bool = False) -> Record:
        """Return room for what is predicted before n rows are learned."""

    def learn(
        self, memory: MemoryType, batch: Batch, order: Array | None, record: Record | None
    ) -> MemoryType:
        """Return the memory after a pass over a batch; the one given does not change."""

    def go_on(
        self, memory: MemoryType, batch: Batch, order: Array | None, record: Record | None
    ) -> MemoryType:
        """Return the memory after a pass over a batch; the one given may change."""

    def finish(self, memory: MemoryType, batch: Batch) -> MemoryType:
        """Return the memory after the last pass of `fit`."""


class Patience:
    """When passes end early: after one without a mistake, or after some without progress."""

    def __init__(self, model: OnlineClassifier, engine: OnlineEngine[Any, Any]) -> None:
        self.tol, self.n_iter_no_change = model.tol, model.n_iter_no_change
        self.settles = engine.settles
        self.best, self.stale = np.inf, 0

    def ends(self, mistakes: int, loss: float) -> bool:
        """Add a pass and its mean interval loss; tell whether it is the last."""
        if self.tol is not None:
            self.stale = self.stale + 1 if loss > self.best - self.tol else 0
            self.best = min(self.best, loss)
        if self.settles and mistakes == 0:
            return True
        return self.stale >= self.n_iter_no_change


def make_passes(
    model: OnlineClassifier, engine: OnlineEngine[Any, Any], batch: Batch
) -> tuple[Any, int]:
    """Return what is learned in up to `max_iter` passes over a batch, and how many were made."""
    memory, rng = model.memory_, check_random_state(model.random_state)
    patience, verbose = Patience(model, engine), getattr(model, "verbose", 0)
    labelled = batch.labelled()
    others, n_rounds = np.flatnonzero(~labelled), np.count_nonzero(labelled)
    for n_iter in range(1, model.max_iter + 1):
        order = batch.shuffled(rng) if model.shuffle else None
        if n_iter == 1 and order is not None and len(others):
            # Rows without a label must be finite, too: visit them once.
            order = frozen(np.concatenate([others, order], dtype=order.dtype))
        record = None
        if model.tol is not None or verbose:
            n_visits = len(batch) if order is None else len(order)
            record = engine.blank_record(n_visits, len(model.order_))
        mistakes = memory.counts[1]
        memory = engine.learn(memory, batch, order, record)
        mistakes = memory.counts[1] - mistakes
        loss = batch.interval_loss(order, record) / n_rounds
        if verbose:
            wrong = f"{mistakes:,} mistakes in {n_rounds:,} rows"
            print(f"pass {n_iter}: {wrong}, mean interval loss {loss:.4f}")
        if patience.ends(mistakes, loss):
            break
    return engine.finish(memory, batch), n_iter
