"""What all online learners share: a memory, and passes over rows."""

from __future__ import annotations

from numbers import Integral, Real
from operator import attrgetter, is_
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from pril.core import learning
from pril.core.classifier import OrdinalLearner, aside, unchanged_on_failure
from pril.core.docs import filled
from pril.core.scikit import Interval, StrOptions, fit_context
from pril.errors import InputError

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

    class_weight: Any
    max_iter: int
    shuffle: bool
    random_state: Any
    tol: float | None
    n_iter_no_change: int
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
        if cls.__module__.startswith("pril."):  # a user's docstring is not ours to change
            cls.__doc__ = filled(cls.__doc__, OnlineClassifier.__doc__)
        cls._get_parameters = attrgetter(*cls._get_param_names())

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
        with unchanged_on_failure(self):
            batch = learning.prepare(self, X, y, sample_weight=sample_weight, reset=True)
            learning.begin(self, batch.rows)
            self.memory_, self.n_iter_ = learning.make_passes(self, batch)
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
        learning.learn_batch(self, X, y, classes, sample_weight)
        return self

    partial_fit.__doc__ = filled(partial_fit.__doc__, fit.__doc__)

    # --- Parameters and copies ---

    def check_parameters(self) -> None:
        """Refuse parameters that cannot be used, or that do not fit what was learned."""
        now = [*self._get_parameters(self)]
        known = aside(self)
        if known.valid is None or not all(map(is_, now, known.valid)):
            self._validate_params()
            known.valid = now
        for name, value in getattr(self, "learned_with_", {}).items():
            current = getattr(self, name)
            if not _same(current, value):
                raise InputError(
                    f"{name} was {value!r} when learning began and is {current!r} now: what was "
                    "learned has no meaning under it; set it back, or fit anew"
                )

    def __getstate__(self) -> Any:
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

    @property
    def t_(self) -> int:
        """Rounds learned from, over all passes and calls."""
        check_is_fitted(self)
        return int(self.memory_.counts[0])

    @property
    def n_mistakes_(self) -> int:
        """Rounds with a violated constraint."""
        check_is_fitted(self)
        return int(self.memory_.counts[1])

    @property
    def n_updates_(self) -> int:
        """Violated constraints, over all rounds."""
        check_is_fitted(self)
        return int(self.memory_.counts[2])

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
