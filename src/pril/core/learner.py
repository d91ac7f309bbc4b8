"""What all online learners share: a memory, and passes over rows."""

from __future__ import annotations

from abc import abstractmethod
from functools import update_wrapper
from numbers import Integral, Real
from operator import attrgetter, is_
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from pril.core import loop, ranking
from pril.core.classifier import (
    OrdinalClassifier,
    Ratings,
    aside,
    class_weights,
    label_weights,
    naming_rows,
    read_weights,
)
from pril.core.docs import filled
from pril.core.memory import Layout, Memory, few_columns
from pril.core.passes import Batch as Batch
from pril.core.passes import Patience as Patience
from pril.core.rows import (
    frozen,
    n_rows,
    not_finite_error,
    read_rows,
)
from pril.core.scikit import Interval, StrOptions, fit_context
from pril.errors import InputError

if TYPE_CHECKING:
    from typing import Self

    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]

NO_WEIGHTS = np.empty(0)
NO_RECORD = loop.Record(
    np.empty(0, dtype=np.int64), np.empty((0, 1)), np.empty(0), np.empty((0, 1))
)
SHORTEST_HALF_LIFE = 0.01  # in rounds; with a shorter one the weights of two rounds overflow


class OnlineClassifier(OrdinalClassifier):
    """What all online learners share: a memory, a pass over the rows, passes of `fit`.

    A learner supplies `_rule` and, if it is not additive, `_geometry`. Parameters that it does not
    have are off.

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

    _parameter_constraints: ClassVar[dict[str, Any]] = {
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

    # Parameters that determine what the sums mean: they cannot change once learning has begun.
    _fixed: ClassVar[tuple[str, ...]] = ("average",)
    _memory_type: ClassVar[Any] = Memory
    _may_lose_mean: ClassVar[bool] = False
    # Whether the thresholds start at zero and move by whole numbers, which keeps them in order.
    _whole_steps: ClassVar[bool] = True
    # Whether a pass without a mistake is the last, because nothing would change any more.
    _stops_without_mistakes: ClassVar[bool] = True

    class_weight: Any
    max_iter: int
    shuffle: bool
    random_state: Any
    tol: float | None
    n_iter_no_change: int
    n_iter_: int
    _memory: Any
    _learned_with: dict[str, Any]
    _get_parameters: ClassVar[Any]  # a function of an estimator

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 10,
        shuffle: bool = True,
        random_state: Any = None,
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
        if "__init__" not in vars(cls):  # so that errors about arguments name this class
            inherited: Any = cls.__init__
            own = FunctionType(inherited.__code__, inherited.__globals__)
            update_wrapper(own, inherited)
            own.__kwdefaults__ = inherited.__kwdefaults__
            own.__qualname__ = f"{cls.__qualname__}.__init__"
            cls.__init__ = own  # type: ignore[method-assign]
        cls.__doc__ = filled(cls.__doc__, OnlineClassifier.__doc__)
        cls._get_parameters = attrgetter(*cls._get_param_names())

    # --- What a learner is made of ---

    @abstractmethod
    def _rule(self) -> Any:
        """Return the rule, with its hyper-parameters as floats and booleans."""

    def _geometry(self) -> Any:
        return loop.Additive()

    def _inspect_rows(self, rows: Any) -> None:
        """Warn of features that this learner's guarantee does not cover."""

    def _inspect_labels(self, table: ranking.Labels, intervals: Array) -> None:
        """Refuse labels that this learner cannot take."""

    # --- Learning ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
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
        with self._unchanged_on_failure():
            batch = self._prepare(X, y, sample_weight=sample_weight, reset=True)
            self._memory = self._make_passes(batch)
        return self

    def partial_fit(
        self,
        X: Any,
        y: Any,
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
        self._partial_fit(X, y, classes, sample_weight)
        return self

    partial_fit.__doc__ = filled(partial_fit.__doc__, fit.__doc__)

    def _partial_fit(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None,
        sample_weight: ArrayLike | None = None,
        *,
        recording: bool = False,
    ) -> tuple[Batch, loop.Record | None]:
        """Prepare and learn; return the batch and, if asked, what was predicted before."""
        self._check_parameters()
        with self._unchanged_on_failure() as before:
            batch = self._prepare(X, y, classes, sample_weight)
            if len(batch) == 0 and not self._has_learned():
                self.__dict__ = before
                return batch, None
            record = self._blank_record(len(batch)) if recording else None
            self._go_on(batch, record)
        return batch, record

    # `_prepare` does all checking, `_learn` all learning.

    def _prepare(
        self,
        X: Any,
        y: Any,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        reset: bool = False,
    ) -> Batch:
        """Check rows, labels and weights, and return them as `_learn` takes them.

        Names and number of the features, and the classes, are set on the estimator: from scratch
        if `reset`, else they must agree with those it has.
        """
        fitted = self._has_learned() and not reset
        if fitted:
            self._check_fixed()
        rows = self._read_rows(X, reset=not fitted, min_rows=1 if reset else 0)
        n = n_rows(rows)
        table = ranking.read(y)
        ranking.check_length(table.values, range(n))
        weights = None if sample_weight is None else read_weights(sample_weight, n)
        if not fitted and n == 0:
            if classes is not None:
                ranking.check_classes(classes)
            return Batch(rows, np.empty((0, 2), dtype=np.int64))
        if weights is None or weights.all():
            intervals = self._read_intervals(table, classes, reset)
        else:
            intervals = np.full((n, 2), ranking.NO_LABEL)
            used = np.flatnonzero(weights)
            if reset and len(used) == 0:
                raise InputError("sample_weight is zero for every row: nothing to learn from")
            with naming_rows(used):
                intervals[used] = self._read_intervals(table.take(used), classes, reset)
        intervals, weights = self._weigh(intervals, weights, reset=reset)
        self._inspect_rows(rows)
        self._inspect_labels(table, intervals)
        return Batch(rows, intervals, weights)

    def _weigh(
        self, intervals: Array, weights: Array | None = None, *, reset: bool = False
    ) -> tuple[Array, Array | None]:
        """Return labels and weights of rows, with the weights of the classes in them.

        A row of weight zero has no label.
        """
        own = self._class_weights(self.order_, intervals if reset else None)
        if own is not None:
            own = label_weights(own, intervals)
            weights = own if weights is None else weights * own
            intervals = np.where(weights[:, np.newaxis] > 0.0, intervals, ranking.NO_LABEL)
            if reset and not ranking.is_labelled(intervals).any():
                raise InputError("class_weight is zero for every row: nothing to learn from")
        if weights is not None and (weights == 1.0).all():
            weights = None
        return intervals, weights

    def _class_weights(self, order: Array, intervals: Array | None) -> Array | None:
        """Return the weights of the classes, None if they have none; intervals are of all rows."""
        if isinstance(self.class_weight, str) and intervals is None:
            raise InputError(
                "class_weight='balanced' needs all rows at once: use fit, or pass the weights of "
                "the classes as a dict"
            )
        return class_weights(self.class_weight, order, intervals)

    def _read_intervals(self, table: ranking.Labels, classes: Any, reset: bool) -> Array:
        """Set the classes, and return the labels as intervals of them."""
        if not reset:
            self.order_ = self._agreed_classes(table, classes)
            return ranking.to_intervals(table, self.order_)
        self.order_, intervals = ranking.encode(table, self.classes)
        if not ranking.is_labelled(intervals).any():
            raise InputError("y has no label in any row: there is nothing to learn from")
        return intervals

    def _learn(
        self,
        memory: Any,
        batch: Batch,
        order: Array | None,
        record: loop.Record | None,
        columns: Array | None = None,
    ) -> Any:
        """Run the loop and return the memory; if it fails, the one given must be dropped.

        `columns` are the features that the rows touch, None: any.
        """
        if batch.weights is not None:
            memory.integers[loop.LATTICE] = 0
        bad = self._run_loop(batch.rows, batch.intervals, order, memory, batch.weights, record)
        if bad >= 0:
            row = int(bad if order is None else order[bad])
            raise not_finite_error(batch.rows, self, row, batch.weights)
        if not memory.is_finite(columns):
            raise not_finite_error(batch.rows, self, None, batch.weights)
        return memory

    def _run_loop(
        self,
        rows: Any,
        intervals: Array,
        order: Array | None,
        memory: Memory,
        weights: Array | None,
        record: loop.Record | None,
    ) -> int:
        """Learn in place; return -1, or the first position whose scores are not finite."""
        if order is not None and len(order) == 0:  # the loop takes an empty order for all rows
            return -1
        growth, extras = self._growth(), None
        if weights is not None or record is not None or growth is not None:
            extras = loop.Extras(
                NO_WEIGHTS if weights is None else weights,
                1.0 if growth is None else growth,
                NO_RECORD if record is None else record,
            )
        geometry = self._geometry()
        bad: int = loop.run(
            rows,
            frozen(intervals),
            loop.NO_ORDER if order is None else order,
            self._rule(),
            geometry,
            extras,
            memory.numbers,
            memory.integers,
            np.empty(loop.desk_size(geometry, *memory.layout.sizes())),
        )
        return bad

    def _go_on(
        self, batch: Batch, record: loop.Record | None = None, order: Array | None = None
    ) -> None:
        """Go on from what was learned before; a failure leaves that as it was."""
        learned = self._has_learned()
        columns = few_columns(batch.rows, self.n_features_in_ + 1)
        # A half-life may rescale every number.
        if columns is None or not learned or self._growth() is not None:
            memory = self._memory.copy() if learned else self._blank_memory(batch.rows)
            self._memory = self._learn(memory, batch, order, record)
        else:
            with self._memory.unchanged_on_failure(columns):
                self._learn(self._memory, batch, order, record, columns)

    def _make_passes(self, batch: Batch) -> Any:
        """Learn in up to `max_iter` passes over a batch; return the memory."""
        memory = self._blank_memory(batch.rows)
        rng = check_random_state(self.random_state)
        patience, verbose = Patience(self), getattr(self, "verbose", 0)
        labelled = batch.labelled()
        others, n_rounds = np.flatnonzero(~labelled), np.count_nonzero(labelled)
        for n_iter in range(1, self.max_iter + 1):
            self.n_iter_ = n_iter
            order = batch.shuffled(rng) if self.shuffle else None
            if n_iter == 1 and order is not None and len(others):
                # Rows without a label must be finite, too: visit them once.
                order = frozen(np.concatenate([others, order], dtype=order.dtype))
            record = None
            if self.tol is not None or verbose:
                record = self._blank_record(len(batch) if order is None else len(order))
            mistakes = memory.integers[1]
            memory = self._learn(memory, batch, order, record)
            mistakes = memory.integers[1] - mistakes
            loss = batch.interval_loss(order, record) / n_rounds
            if verbose:
                wrong = f"{mistakes:,} mistakes in {n_rounds:,} rows"
                print(f"pass {n_iter}: {wrong}, mean interval loss {loss:.4f}")
            if patience.ends(mistakes, loss):
                break
        return memory

    def _begin(self, X: Any, classes: Any) -> None:
        """Begin to learn with these features and classes, before there is any row."""
        rows = self._read_rows(X, reset=True, min_rows=0)
        self.order_ = ranking.check_classes(classes)
        self._memory = self._blank_memory(rows)

    def _has_learned(self) -> bool:
        return hasattr(self, "_memory")

    def _growth(self) -> float | None:
        """Return how much more a round weighs than the one before it; None: not at all."""
        half_life = getattr(self, "half_life", None)
        return None if half_life is None else float(2.0 ** (1.0 / half_life))

    def __getstate__(self) -> Any:
        """Return the attributes for copies and files, as plain data."""
        state = dict(super().__getstate__())
        if "_memory" in state:
            state["_memory"] = state["_memory"].to_plain()
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "_memory" in state:
            # A copy: a stream learns in place.
            self._memory = self._memory_type.of(self._layout(), state["_memory"])

    def _check_ready(self) -> None:
        """Refuse to predict before learning, or under other parameters."""
        if not self._has_learned():
            check_is_fitted(self)  # slow
        self._check_parameters()
        self._check_fixed()

    def _check_parameters(self) -> None:
        """Validate the parameters, unless they are those that were validated last."""
        now = [*self._get_parameters(self)]
        known = aside(self)
        if known.valid is None or not all(map(is_, now, known.valid)):
            self._validate_params()
            known.valid = now

    def _check_fixed(self) -> None:
        for name, value in self._learned_with.items():
            now = getattr(self, name)
            if not _same(now, value):
                raise InputError(
                    f"{name} was {value!r} when learning began and is {now!r} now: what was "
                    "learned has no meaning under it; set it back, or fit anew"
                )

    def _read_rows(self, X: Any, *, reset: bool, min_rows: int) -> Any:
        constant = float(getattr(self, "fit_intercept", False))
        return read_rows(self, X, constant=constant, reset=reset, min_rows=min_rows)

    def _agreed_classes(self, table: ranking.Labels, classes: ArrayLike | None) -> Array:
        """Return the classes, if those known before, those named and those of y agree."""
        own: Any = self.classes
        values = None if own is None else list(own)  # they may have changed in place
        before, values_before = getattr(self, "_agreed", (None, None))
        skip = own if own is before and values == values_before else None
        named = [given for given in (own, classes) if given is not None]
        known: Array | None = getattr(self, "order_", None)
        known = ranking.agreed_classes(table, known, named, skip=skip)
        self._agreed = own, values
        return known

    def _fix_parameters(self) -> None:
        """Remember the parameters that cannot change once there is a model."""
        self._learned_with = {name: _kept(getattr(self, name)) for name in self._fixed}

    def _layout(self) -> Layout:
        """Return the layout of the memory."""
        return Layout(
            self._n_scores(),
            self.n_features_in_,
            len(self.order_),
            average=bool(getattr(self, "average", False)),
            own=loop.OWN_PARTS.get(type(self._rule()), ()),
        )

    def _blank_memory(self, rows: Any) -> Any:
        self._fix_parameters()
        return Memory.blank(self._layout(), lattice=self._whole_steps)

    def _blank_record(self, n: int, *, with_cuts: bool = False) -> loop.Record:
        rank = np.empty(n, dtype=np.int64)
        cuts = np.empty((n if with_cuts else 0, len(self.order_) + 1))
        return loop.Record(rank, np.empty((n, self._n_scores())), np.empty(n), cuts)

    # --- Predicting ---

    def _readable(self, X: Any) -> Any:
        """Return the rows of X, to be predicted."""
        self._check_ready()
        return self._read_rows(X, reset=False, min_rows=1)

    def _rate_rows(self, rows: Any) -> Ratings:
        """Do the work of `_rate` for rows that have been checked."""
        w, cut, unit = self._parameters()
        ranks = np.empty(n_rows(rows), dtype=np.int64)
        scores = np.empty((n_rows(rows), len(w)))
        bad = loop.rate(rows, self._rule(), w, cut, ranks, scores)
        if bad >= 0:
            raise not_finite_error(rows, self, int(bad))
        return Ratings(ranks, scores / unit, cut / unit)

    def _parameters(self) -> tuple[Array, Array, float]:
        """Return weights, thresholds between sentinels, and the number that divides them."""
        self._check_ready()
        found: tuple[Array, Array, float] = self._memory.predicting(self._geometry())
        return found

    @property
    def coef_(self) -> Array:
        """Weights of the features, one row a score."""
        w, _, unit = self._parameters()
        return w[:, :-1] / unit

    @property
    def t_(self) -> int:
        """Rounds learned from, over all passes and calls."""
        check_is_fitted(self)
        return int(self._memory.integers[0])

    @property
    def n_mistakes_(self) -> int:
        """Rounds that changed the model."""
        check_is_fitted(self)
        return int(self._memory.integers[1])

    @property
    def n_updates_(self) -> int:
        """Violated constraints, over all rounds."""
        check_is_fitted(self)
        return int(self._memory.integers[2])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # scikit-learn's accuracy check has classes without an order.
        tags.classifier_tags.poor_score = True
        return tags


def _kept(value: Any) -> Any:
    """Return a parameter as it is now: a dict, list or array may be changed in place later."""
    if isinstance(value, dict):
        return {name: _kept(one) for name, one in value.items()}
    return value.copy() if isinstance(value, list | np.ndarray) else value


def _same(now: Any, before: Any) -> bool:
    """Tell whether a parameter is as it was."""
    if now is before:
        return True
    if isinstance(now, dict) and isinstance(before, dict):
        return now.keys() == before.keys() and all(_same(now[name], before[name]) for name in now)
    if isinstance(now, np.ndarray) or isinstance(before, np.ndarray):
        return np.array_equal(now, before)
    return bool(now == before)
