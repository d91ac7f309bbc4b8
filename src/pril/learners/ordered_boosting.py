"""Gradient boosting learned from ranges, in memory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags, check_random_state

from pril.bases.classifier import (
    OrdinalLearner,
    ProbabilityMixin,
    ThresholdMixin,
    check_ready,
    naming_rows,
    rows_to_rate,
)
from pril.bases.weights import class_weights, label_weights, read_weights
from pril.core.arrays import Array, frozen
from pril.core.coarsening import Coarsening
from pril.core.scikit import Interval, StrOptions, fit_context
from pril.core.threads import n_threads, private_state, unchanged_on_failure
from pril.errors import InputError
from pril.labels import ranking
from pril.labels.resampling import read_groups
from pril.learners.boosting import cross_fitting
from pril.learners.boosting.cross_fitting import Watch
from pril.learners.boosting.features import find_categories
from pril.learners.boosting.folds import FoldRunner, MatrixSource, Source, Threads
from pril.learners.boosting.forest_engine import (
    BoostedTrees,
    ForestEngine,
    contributions,
    importances,
)
from pril.online.one_row import RowStream


class OrderedBoosting(ProbabilityMixin, ThresholdMixin, OrdinalLearner):
    """Gradient boosting that learns from ranges: the lowest error on most tables.

    The model is that of `OrderedLogit`, but its score f is the sum of a linear model and boosted
    trees:

        ``P(y <= i) = 1 / (1 + exp(f(x) - theta_i))``

    It learns from all rows at once, with exact labels and ranges. It also learns the coarsening
    mechanism: how a class becomes a range. The rows are split into folds, and one booster is
    trained for each fold, on the rows of all other folds. The held-out scores then determine the
    thresholds, the number of rounds, and how likely each class is to be given each label: a Newton
    step after each round, which never lowers their posterior. Predictions use the mean of the
    boosters' scores.

    With fewer than 5,000 rows and up to 16 folds, the trees start from the sum of two linear
    models, one of the features and one of :class:`LandmarkFeatures`, weighted by how well they
    predict held-out labels; else from one of the features alone.

    With `monotonic_cst`, they start from a linear model of the features whose slopes have the right
    signs.

    From a sample of at most 200,000 rows, `fit` learns the linear models, and where to cut each
    feature into at most 126 bins. The trees learn from the bins of all rows.

    Features need no scaling; numbers beyond 1e150 are refused. Missing values and categories are
    used as they are.

    Parameters
    ----------
    classes : array-like of shape (n_classes,), default=None
        The ordered labels, lowest first. None takes them from y.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, which multiplies the weights of its rows. A dict may leave out
        classes of weight 1; "balanced" gives all classes the same total weight. The weight of a
        range is the mean of its classes' weights, and it counts in equal parts for each of them.
    max_iter : int, default=300
        Largest number of rounds. Each round adds a tree to every booster. If the last one is the
        best, a :class:`~sklearn.exceptions.ConvergenceWarning` says so.
    learning_rate : float, default=0.1
        Factor by which each tree's contribution to the score is multiplied.
    max_leaf_nodes : int, default=31
        Largest number of leaves of a tree.
    min_samples_leaf : int, default=5
        Smallest number of rows in a leaf, as LightGBM estimates it.
    l2_regularization : float, default=1.0
        L2 penalty that shrinks the values of the leaves towards zero.
    n_folds : int or "auto", default="auto"
        Number of folds and of boosters. "auto": 8 below 10,000 rows, 4 from there on. If there are
        fewer rows or groups than folds, it is lowered.
    n_iter_no_change : int, default=20
        Stop when the held-out loss has not improved for this many rounds. The best round is kept.
    trust : float, default=30.0
        Strength of the priors on the mechanism, in exact labels. With this many, the assumption
        that raters go up as often as down counts a quarter. With this many of a class, what they
        show about its ranges counts as much as what `coarsening` says.
    coarsening : {"auto", "random", "offsets"}, default="auto"
        What is assumed about ranges beyond what exact labels show. "random": each class of a
        range is given that range equally often. "offsets": raters add classes below and above the
        true one in the same way at every class, as in "3 or 4"; the shares are learned, so that no
        label needs to be exact. "auto": what is likelier given the labels and held-out
        scores; beforehand, "offsets" is ten times as likely.
    categorical_features : "from_dtype", array-like or None, default="from_dtype"
        Which features are categorical: columns of a DataFrame that have strings or a categorical
        dtype ("from_dtype"), or a mask, indices or names of features; None: no feature. Categories
        are strings or numbers; make strings of others, such as dates and the intervals of
        :func:`pandas.cut`. A category that `fit` has not seen counts as missing; a number where
        all categories are strings, or the reverse, is refused.
    monotonic_cst : array-like of shape (n_features,), dict or None, default=None
        Features in which the score may only rise (1) or only fall (-1), by position or, in a dict,
        by name; 0 and features that a dict leaves out are not constrained. It holds for all
        numbers of the feature, not for missing values. Categorical features cannot be constrained.
    decision : {"median", "mode"}, default="median"
        Which class to predict: the median class, which has the lowest expected absolute error, or
        the most probable class.
    n_jobs : int, default=None
        Number of threads, in which boosters are trained and many rows are rated. None means all
        processors, or what a :class:`joblib.parallel_config`, a worker of joblib or
        OMP_NUM_THREADS leaves of them. The model and its answers are the same, bit for bit.
    random_state : int, RandomState instance or None, default=None
        Seed for the choice of the folds.
    verbose : int, default=0
        Whether to print progress every few seconds: rounds, held-out loss, and how long it takes
        if no further round is better, and if all are.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted. Columns of probabilities and margins are in this order.
    order_ : ndarray of shape (n_classes,)
        The classes, lowest first.
    thresholds_ : ndarray of shape (n_classes - 1,)
        Thresholds between neighbouring classes, ascending.
    n_iter_ : int
        Rounds that were kept.
    coarsening_ : Coarsening
        How classes became labels: `mechanism`, "random", "offsets" or "free"; `shares` of the
        offsets; `evidence` for them; and `table`, the share of the rows of each class that were
        given each label; they add up to 1. Printed, it is a sentence.
    validation_loss_ : ndarray of shape (n_rounds,)
        Held-out loss after each round, including rounds that were not kept: the mean of ``-log
        P(label)``.
    feature_importances_ : ndarray of shape (n_features,)
        Share of each feature in what moves the score: the mean size of its `contributions` over
        `background_`. They add up to 1, unless nothing moves the score. They are computed when they
        are first read.
    background_ : ndarray of shape (n_background, n_features)
        Up to 100 rows of the training set to which `contributions` compares others; a category is
        its position among all. Files keep them too.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, where X has them.

    See Also
    --------
    OrderedLogit : Linear, online: for streams, and for weights that can be read.

    Notes
    -----
    `fit` needs LightGBM: ``pip install 'pril[boosting]'``. A fitted model does not.

    The learning rate grows with each round, and regularisation shrinks: in round t, the rate is
    1 + t / 50 times `learning_rate`, and `l2_regularization` is divided by the same number. From
    100,000 rows on, both begin with 1.5 times that.

    Where no label is exact, and `coarsening_` is at random, the classes at both ends cannot be told
    from their neighbours.

    To see how the held-out loss falls, use :class:`pril.plotting.ValidationLossDisplay`; to see
    what moves the score of a row, :class:`pril.plotting.ContributionsDisplay`.

    Examples
    --------
    >>> import numpy as np
    >>> from pril import OrderedBoosting
    >>> from pril.labels import make_intervals
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(400, 2))
    >>> y = np.digitize(np.abs(X[:, 0]), [0.5, 1.0]) + 1
    >>> ranges = make_intervals(y, 1, 0.75, random_state=0)
    >>> model = OrderedBoosting(classes=[1, 2, 3], random_state=0).fit(X, ranges)
    >>> model.predict([[-2.0, 0.0], [0.0, 0.0], [0.8, 0.0]])
    array([3, 1, 2])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "classes": ["array-like", None],
        "class_weight": [dict, StrOptions({"balanced"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "learning_rate": [Interval(Real, 0, None, closed="neither")],
        "max_leaf_nodes": [Interval(Integral, 2, 1 << 16, closed="both")],
        "min_samples_leaf": [Interval(Integral, 1, None, closed="left")],
        "l2_regularization": [Interval(Real, 0, None, closed="left")],
        "n_folds": [Interval(Integral, 2, 127, closed="both"), StrOptions({"auto"})],
        "n_iter_no_change": [Interval(Integral, 1, None, closed="left")],
        "trust": [Interval(Real, 0, None, closed="left")],
        "coarsening": [StrOptions({"auto", "random", "offsets"})],
        "categorical_features": ["array-like", StrOptions({"from_dtype"}), None],
        "monotonic_cst": ["array-like", dict, None],
        "decision": [StrOptions({"median", "mode"})],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    memory_: BoostedTrees
    categories_: dict[str, list[Any]]

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        max_iter: int = 300,
        learning_rate: float = 0.1,
        max_leaf_nodes: int = 31,
        min_samples_leaf: int = 5,
        l2_regularization: float = 1.0,
        n_folds: int | Literal["auto"] = "auto",
        n_iter_no_change: int = 20,
        trust: float = 30.0,
        coarsening: Literal["auto", "random", "offsets"] = "auto",
        categorical_features: ArrayLike | Literal["from_dtype"] | None = "from_dtype",
        monotonic_cst: ArrayLike | dict[str, int] | None = None,
        decision: Literal["median", "mode"] = "median",
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.learning_rate = learning_rate
        self.max_leaf_nodes = max_leaf_nodes
        self.min_samples_leaf = min_samples_leaf
        self.l2_regularization = l2_regularization
        self.n_folds = n_folds
        self.n_iter_no_change = n_iter_no_change
        self.trust = trust
        self.coarsening = coarsening
        self.categorical_features = categorical_features
        self.monotonic_cst = monotonic_cst
        self.decision = decision
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    @property
    def engine(self) -> ForestEngine:
        """How it rates, by its parameters."""
        is_mode = self.decision == "mode"
        return ForestEngine("OrderedBoosting", self.categories_, is_mode, self.n_jobs)

    # --- Learning ---

    @fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: object,
        y: object,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Learn from scratch.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features. Missing values are NaN; categories come in columns of a DataFrame, or are
            named by `categorical_features`.
        y : array-like of shape (n_samples,) or (n_samples, 2)
            Exact labels, or the lower and the upper end of each label. A missing end is open; a
            row without a label is left out.
        sample_weight : array-like of shape (n_samples,), default=None
            How much each row counts, relative to the mean of all. A row of weight 0 is left out.
            None: all weights are 1.
        groups : array-like of shape (n_samples,), default=None
            The group of each row, such as a patient; rows of one group are always in one fold, so
            that held-out rows are of groups that a booster has not seen. None: each row is one.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        watch = cross_fitting.print_rounds() if self.verbose else None
        return fit_watched(self, X, y, sample_weight, watch, groups)

    @property
    def coarsening_(self) -> Coarsening:
        """How classes became ranges."""
        check_ready(self)
        return self.memory_.choice.coarsening(len(self.order_))

    def stream(
        self, *, unknown: Literal["error", "ignore"] = "error", strict: bool = False
    ) -> RowStream:
        """Predict one row at a time, in 10 to 20 microseconds with 600 trees.

        Answers are those of `predict`, `predict_proba` and `latent`, bit for bit. A feature that a
        dict lacks, or that is None or NaN, is missing; a category that `fit` has not seen counts as
        missing, too. Threads may share a stream: they take turns. If the model is fitted again, the
        stream goes on with what it has learned.

        Parameters
        ----------
        unknown : {"error", "ignore"}, default="error"
            What to do with features of a dict that the model does not know.
        strict : bool, default=False
            Refuse a dict that lacks a feature or has another one, so that a service notices one
            that was renamed. None is still a missing value.

        Returns
        -------
        stream : object
            With the methods ``predict_one(x)``, ``predict_proba_one(x)`` and ``latent_one(x)``. A
            row `x` is a dict of features by name, or a sequence or 1-D array in their order. Its
            ``learn_one`` is refused: boosting learns all rows at once.

        Examples
        --------
        >>> import pandas as pd
        >>> from pril import OrderedBoosting
        >>> flats = pd.DataFrame({"size": range(40), "town": ["Oslo", "Rome"] * 20})
        >>> model = OrderedBoosting(random_state=0).fit(flats, [1] * 20 + [2] * 20)
        >>> stream = model.stream()
        >>> stream.predict_one({"size": 35, "town": "Oslo"})
        2
        >>> stream.predict_one({"size": 3})
        1
        """
        check_ready(self)
        return RowStream(self, unknown, strict=strict)

    @property
    def background_(self) -> Array:
        """Rows of the training set to which `contributions` compares others."""
        check_ready(self)
        return frozen(self.memory_.background)

    @property
    def feature_importances_(self) -> Array:
        """Share of each feature in what moves the score."""
        check_ready(self)
        beside, memory = private_state(self), self.memory_
        if beside.importances[0] is not memory:
            shares = importances(memory.forest, memory.background)
            beside.importances = memory, frozen(shares)
        return beside.importances[1]

    def contributions(self, X: object) -> Array:
        """Return how much each feature adds to the score of each row.

        They are Shapley values of the whole score: linear model, landmarks and trees, with their
        categories and missing values. A row is compared to those of `background_`: a set of
        features is worth the mean score of rows that have these features of the row, and all
        others of a row of the background. What a set of features is worth more than its parts is
        shared between them. In shap's terms, these are exact interventional values.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Features.

        Returns
        -------
        contributions : ndarray of shape (n_samples, n_features + 1)
            What each feature adds and, in the last column, the base value: the mean score of
            `background_`. Each row adds up to its score, ``latent(X)``.

        See Also
        --------
        pril.plotting.ContributionsDisplay : Draws them.

        Examples
        --------
        >>> import numpy as np
        >>> from pril import OrderedBoosting
        >>> X = np.random.default_rng(0).normal(size=(200, 3))
        >>> y = np.digitize(2.0 * X[:, 0] - X[:, 1], [-1.0, 1.0])
        >>> model = OrderedBoosting(random_state=0).fit(X, y)
        >>> added = model.contributions(X)
        >>> np.allclose(added.sum(axis=1), model.latent(X))
        True
        >>> added[:, 0].std() > added[:, 1].std() > added[:, 2].std()
        np.True_
        """
        rows = rows_to_rate(self, X)
        return contributions(rows.X, self.memory_.forest, self.memory_.background)

    def _label_chances(self, intervals: Array) -> Array:
        return self.memory_.choice.relative_chances(intervals, len(self.order_))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        return tags


# --- Learning ------------------------------------------------------------------------------------


def fit_watched(
    model: OrderedBoosting,
    X: object,
    y: object,
    sample_weight: ArrayLike | None,
    watch: Watch | None,
    groups: ArrayLike | None = None,
) -> OrderedBoosting:
    """Learn from scratch, as `OrderedBoosting.fit` does, and call a function after each round."""
    with unchanged_on_failure(model):
        model.categories_ = find_categories(model.categorical_features, X)
        features = model.engine.read(model, X, reset=True, min_rows=1).X
        n, labels = len(features), ranking.read(y)
        ranking.check_length(labels.values, range(n))
        weight = np.ones(n) if sample_weight is None else read_weights(sample_weight, n)
        intervals = encode_labels(model, labels, weight, model.classes, naming_rows)

        def source(counts: Array) -> MatrixSource:
            return MatrixSource(features if counts.all() else features[counts])

        code = None if groups is None else read_groups(groups, n).code
        learn(model, source, intervals, weight, watch, groups=code)
    return model


def encode_labels(
    model: OrderedBoosting,
    labels: ranking.Labels,
    weight: Array,
    classes: ArrayLike | None,
    naming: Callable[[Array], AbstractContextManager[None]],
) -> Array:
    """Let a model know its classes; return the intervals of ranks, of rows that count.

    `naming` lets errors about some rows, given by their numbers, name them.
    """
    used = np.flatnonzero(weight)
    if len(used) == 0:
        raise InputError("sample_weight is zero for every row: nothing to learn from")
    intervals = np.full((len(weight), 2), ranking.NO_LABEL)
    with naming(used):
        model.order_, intervals[used] = ranking.encode(labels.take(used), classes)
    return intervals


def learn(
    model: OrderedBoosting,
    source: Callable[[Array], Source],
    intervals: Array,
    weight: Array,
    watch: Watch | None,
    *,
    groups: Array | None = None,
    runner: FoldRunner | None = None,
) -> None:
    """Learn from rows of known intervals and weights; `source` has those that a mask chooses.

    The folds live in threads of this process, if there is no other runner for them. The model must
    know its classes, its categories and the number of its features.
    """
    by_class = class_weights(model.class_weight, model.order_, intervals)
    if by_class is not None:
        weight = weight * label_weights(by_class, intervals)
        if not weight.any():
            raise InputError("class_weight is zero for every row: nothing to learn from")
    counts = ranking.is_labelled(intervals) & (weight > 0.0)
    n = int(counts.sum())
    if n < 2:
        raise InputError(f"OrderedBoosting needs at least 2 rows with a label, got n_samples = {n}")
    features, intervals, weight = source(counts), intervals[counts], weight[counts]
    groups = None if groups is None else groups[counts]
    weight = weight / weight.mean()
    rng = check_random_state(model.random_state)
    with Threads(n_threads(model.n_jobs)) as threads:
        plan, start = cross_fitting.make_plan(model, features, intervals, weight, groups, rng)
        del intervals, weight, counts, groups  # frees memory
        cross_fitting.warn_of_ends(start.labelling)
        runner = runner or threads
        runner.begin(plan, features)
        del plan
        most, patience = model.max_iter, model.n_iter_no_change
        trees = cross_fitting.grow(start, runner, most, patience, watch)
    cross_fitting.warn_of_rounds(trees.rounds)
    model.n_iter_, model.validation_loss_ = trees.rounds.best, np.array(trees.rounds.losses)
    model.memory_ = cross_fitting.to_forest(start, trees, model.categories_)
    model.__dict__.pop("file_notes_", None)
