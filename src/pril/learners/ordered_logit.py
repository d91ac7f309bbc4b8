"""An ordered logit from ranges: the maximum of their likelihood in `fit`, online in streams."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import csr_array
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from pril.bases.classifier import ProbabilityMixin, ThresholdMixin, by_class
from pril.bases.weights import read_weights
from pril.core import loop_types as types
from pril.core.arrays import Array
from pril.core.coarsening import Coarsening, Kinds
from pril.core.docs import filled
from pril.core.rows import batches
from pril.core.scikit import Interval, StrOptions, fit_context
from pril.core.threads import unchanged_on_failure
from pril.errors import InputError, shown
from pril.learners.linear import LinearMixin
from pril.likelihood import fitting
from pril.likelihood.by_row import ByRow
from pril.likelihood.chosen import Choice
from pril.likelihood.errors import Errors, separated, squares_at
from pril.likelihood.rows import Block, InMemory, Rows
from pril.links import LINKS, Link
from pril.online import learning
from pril.online.learning import SHARED_CONSTRAINTS, OnlineClassifier
from pril.online.linear_engine import Batch, LinearEngine
from pril.online.memory import Memory

SHARED = ("classes", "class_weight", "max_iter", "random_state", "average", "half_life")
MOST_PARAMETERS = 200  # whose covariance is kept
COARSENING = {"auto": types.AUTO, "random": types.RANDOM, "offsets": types.ALWAYS}
MOST_AGES = 1 << 20  # of rows, in memory at once


def ages(n: int, half_life: float | None, rows: slice = slice(None)) -> Array:
    """Return what some of n rows count, of which the last one counts 1."""
    first, stop, _ = rows.indices(n)
    if half_life is None:
        return np.ones(stop - first)
    return np.exp2((np.arange(first, stop) - (n - 1.0)) / half_life)


def equal_probabilities(n_classes: int) -> Array:
    """Return the start of the thresholds: equal probabilities for a score of 0."""
    below = np.arange(1, n_classes)
    return np.log(n_classes - below) - np.log(below)


class OrderedLogit(LinearMixin, ProbabilityMixin, ThresholdMixin, OnlineClassifier):
    """Ordered logit that learns from ranges and predicts probabilities.

    The proportional-odds model of a row with score ``f = w . x`` and thresholds theta is

        ``P(y <= i) = 1 / (1 + exp(f - theta_i))``

    `fit` finds the maximum of the likelihood of all labels, less a penalty, by Newton steps. It is
    the same for any order of the rows, but for rounding, and needs no compiled code. `partial_fit`
    and `stream` learn online: each row is one gradient step. After `fit`, they go on from the
    maximum.

    The learner also learns the coarsening mechanism: how often each class is given as which label.
    `fit` maximises one likelihood of weights, thresholds and the mechanism.

    Parameters
    ----------
    %(classes class_weight)
    alpha : float, default=0.3
        Strength of the penalty in `fit`: ``alpha / 2`` times the squares of the weights, and alpha
        rows, divided among the classes, at the mean of the features, so that no class vanishes.
        With 0 and ``coarsening="random"`` there is no prior: `fit` is maximum likelihood. With
        another `coarsening`, ranges bring a prior on the shares of the classes, whatever alpha is:
        30 pseudo-rows at the shares that evenly divided ranges give.
    max_iter : int, default=100
        Largest number of Newton steps of each search in `fit`. There are several searches where it
        chooses how classes became ranges.
    random_state : int, RandomState instance or None, default=None
        Not used: `fit` is deterministic.
    average : bool, default=True
        In streams, predict with a mean of all iterates instead of the last one; iterate t has the
        weight t. Learning continues from the last one.
    half_life : float, default=None
        Number of rows after which a row counts half as much, so that the model adapts to rows that
        change as time goes by: the last row counts most. None: all rows count the same.
    rate : float, default=10.0
        Step size of the weights in streams. It does not depend on the scale of the features.
    cut_rate : float, default=2.0
        Step size of the thresholds in streams.
    trust : float, default=30.0
        Strength of the priors on the mechanism, in exact labels. With this many, the assumption
        that raters go up as often as down counts a quarter. In `fit`, with this many of a class,
        what they show about its ranges counts as much as what `coarsening` says.
    noise : float, default=0.0
        In streams, relative probability of a label that does not contain the true class, between 0
        and 1.
    coarsening : {"auto", "random", "offsets"}, default="auto"
        What is assumed about ranges beyond what exact labels show. "random": each class of a range
        is given it equally often. "offsets": raters shade alike at every class, so that a range of
        up to three classes begins and ends that many classes below and above the true one with
        probabilities that all classes share; wider ranges are at random. "auto": what is
        likelier given the labels; beforehand, "offsets" is ten times as likely. Where there are as
        many exact labels as cells of the table P(label | class), the table is freed, if that makes
        labels more likely. A stream judges by each row before it is learned; after `fit`, it goes
        on with what `fit` chose.
    decision : {"median", "mode"}, default="median"
        Which class to predict: the median class, which has the lowest expected absolute error, or
        the most probable class.
    link : {"logit", "probit", "cloglog", "loglog", "cauchit"} or Link, default="logit"
        The distribution function F in ``P(y <= i) = F(theta_i - f)``: logistic, normal,
        ``1 - exp(-exp(t))`` (proportional hazards), ``exp(-exp(-t))``, Cauchy, or one of your own
        (:class:`pril.links.Link`). `partial_fit` and streams take "logit" only.
    offset : str or int, default=None
        Name or number of a feature that is added to the score as it is: its weight is 1, and is not
        learned. Do not scale it. Only `fit` takes an offset, not `partial_fit` and streams.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted. Columns of probabilities and margins are in this order.
    %(order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_)
    n_iter_ : int
        Steps that `fit` took, those to choose a mechanism included; not set by `partial_fit`.
    converged_ : bool
        Whether `fit` found the maximum in `max_iter` steps; False where there is none, because
        features separate labels. Not set by `partial_fit`.
    loglik_ : float
        Log-likelihood of the labels at the maximum, without the penalty; not set by `partial_fit`.
    covariance_ : ndarray of shape (n_features + n_classes - 1, n_features + n_classes - 1)
        Covariance of the weights and thresholds that `fit` found, zero for those that rows do not
        determine. It is robust if weights of rows are not whole numbers, see
        :func:`pril.inference.infer`. It is not there after `partial_fit`, or for more than 200
        weights and thresholds.
    feature_means_ : ndarray of shape (n_features,)
        Mean of each feature over the rows of `fit`; zeros before it.
    %(t_)
    coarsening_ : Coarsening
        How classes become labels, as `fit` chose it, or a stream so far: `mechanism` ("random",
        "offsets" or "free"), `shares` of the offsets, `evidence` for offsets over "random", and
        `table`, the share of the rows of each class that are given each label; exact labels
        included, they add up to 1. Printed, it is a sentence.
    n_mistakes_ : int
        Rounds of streams in which the score was on the wrong side of a threshold.
    %(n_updates_)

    See Also
    --------
    PRIL : The paper's perceptron: faster, without probabilities.

    Notes
    -----
    Standardise the features, for example with :class:`~sklearn.preprocessing.StandardScaler`, and
    centre them for streams: there is no intercept, the thresholds have that role. From a handful of
    rows whose features are far from zero, a stream may learn the classes in reverse order.

    Where no label is exact, only the assumption of shared offsets tells the classes at both ends of
    the scale from their neighbours. Where ranges are at random or a partition of the scale, and no
    label is exact, `PRIL` is as good. Shares that are not symmetric are found slowly: moving all
    thresholds explains the labels nearly as well.

    References
    ----------
    P. McCullagh, "Regression models for ordinal data", 1980 (the model).

    D. F. Heitjan and D. B. Rubin, "Ignorability and coarse data", 1991 (coarsening mechanisms).

    B. W. Turnbull, "The empirical distribution function with arbitrarily grouped, censored and
    truncated data", 1976 (how often ranges at random occur).

    J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods", 2011 (the steps of streams).

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> X = [[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, None)]
    >>> model = OrderedLogit(classes=[1, 2, 3]).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    >>> model.predict_proba([[0.0]]).argmax(axis=1)
    array([1])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: SHARED_CONSTRAINTS[name] for name in SHARED},
        "alpha": [Interval(Real, 0, None, closed="left")],
        "rate": [Interval(Real, 0, None, closed="neither")],
        "cut_rate": [Interval(Real, 0, None, closed="neither")],
        "trust": [Interval(Real, 0, None, closed="left")],
        "noise": [Interval(Real, 0, 1, closed="both")],
        "coarsening": [StrOptions(set(COARSENING))],
        "decision": [StrOptions({"median", "mode"})],
        "link": [StrOptions(set(LINKS)), Link],
        "offset": [str, Integral, None],
    }
    # After a pass without a mistake, the probabilities still get better.
    _traits: ClassVar[dict[str, Any]] = {
        "whole_steps": False,
        "settles": False,
        "centres": True,
        "start": equal_probabilities,
    }

    def __init__(
        self,
        *,
        classes: ArrayLike | None = None,
        class_weight: dict[Any, float] | Literal["balanced"] | None = None,
        alpha: float = 0.3,
        max_iter: int = 100,
        random_state: Any = None,
        average: bool = True,
        half_life: float | None = None,
        rate: float = 10.0,
        cut_rate: float = 2.0,
        trust: float = 30.0,
        noise: float = 0.0,
        coarsening: Literal["auto", "random", "offsets"] = "auto",
        decision: Literal["median", "mode"] = "median",
        link: Literal["logit", "probit", "cloglog", "loglog", "cauchit"] | Link = "logit",
        offset: str | int | None = None,
    ) -> None:
        self.classes = classes
        self.class_weight = class_weight
        self.alpha = alpha
        self.max_iter = max_iter
        self.random_state = random_state
        self.average = average
        self.half_life = half_life
        self.rate = rate
        self.cut_rate = cut_rate
        self.trust = trust
        self.noise = noise
        self.coarsening = coarsening
        self.decision = decision
        self.link = link
        self.offset = offset

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: Any, sample_weight: ArrayLike | None = None) -> Self:
        """Find the maximum of the likelihood, less the penalty.

        Parameters
        ----------
        %(X y)
        sample_weight : array-like of shape (n_samples,), default=None
            How many rows each row counts as. A row of weight 0 is ignored. None: all weights are 1.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        with unchanged_on_failure(self):
            batch = learning.prepare(self, X, y, sample_weight=sample_weight, reset=True)
            learning.keep_parameters(self)
            rows = self.labelled_rows(batch)
            self.learn_maximum(fitting.fit(rows, self.settings()), rows)
        return self

    fit.__doc__ = filled(fit.__doc__, OnlineClassifier.fit.__doc__)

    # --- The maximum ---

    def settings(self) -> fitting.FitSettings:
        """Return what `fit` is asked for, once the features are known.

        Returns
        -------
        settings : FitSettings
            As `pril.likelihood.fitting.fit` takes them.
        """
        return fitting.FitSettings(
            alpha=float(self.alpha),
            trust=float(self.trust),
            coarsening=self.coarsening,
            max_iter=int(self.max_iter),
            link=self.link_function,
            offset=self._offset_column(),
        )

    @property
    def link_function(self) -> Link:
        """The link that `link` names, or is."""
        return self.link if isinstance(self.link, Link) else LINKS[self.link]

    def _offset_column(self) -> int | None:
        """Return which feature is the offset."""
        if self.offset is None:
            return None
        names = [*getattr(self, "feature_names_in_", ())]
        is_name = isinstance(self.offset, str)
        if self.offset not in (names if is_name else range(self.n_features_in_)):
            known = ", ".join(map(repr, names)) if names else "none have names"
            features = known if is_name else f"they are numbered 0 to {self.n_features_in_ - 1}"
            raise InputError(f"offset={shown(self.offset)} is not one of the features: {features}")
        return names.index(self.offset) if is_name else int(self.offset)

    def labelled_rows(self, batch: Batch) -> InMemory:
        """Return the rows of a batch that have a label, as the likelihood takes them.

        Parameters
        ----------
        batch : Batch
            Rows that were checked.

        Returns
        -------
        rows : InMemory
            Those that have a label.
        """
        kinds, _ = Kinds.of(batch.intervals[batch.labelled()], len(self.order_))
        rows = InMemory(self.labelled_block(batch, kinds), kinds)
        if not rows.moments.are_finite:
            raise self.engine.not_finite(batch.rows, None, batch.weights)
        self._refuse_far(rows)
        return rows

    def _refuse_far(self, rows: Rows) -> None:
        """Refuse features whose distance from zero leaves no digits for how they vary."""
        if len(far := rows.moments.far()):
            j, moments = int(far[0]), rows.moments
            name = [*getattr(self, "feature_names_in_", range(self.n_features_in_))][j]
            raise InputError(
                f"X: feature {shown(name)} varies by {moments.spread[j]:.3g} about "
                f"{moments.mean[j]:.6g}, so that scores would be rounding errors: subtract its mean"
            )

    def labelled_block(
        self, batch: Batch, kinds: Kinds, first: int = 0, n: int | None = None
    ) -> Block:
        """Return the rows of a batch that have a label, which may be some of many.

        Parameters
        ----------
        batch : Batch
            Rows that were checked.
        kinds : Kinds
            The kinds of the labels of all rows.
        first : int, default=0
            The number of rows with a label before them.
        n : int, default=None
            The number of all rows with a label; None: there are no others.

        Returns
        -------
        block : Block
            Those that have a label.
        """
        rows, labelled = batch.rows, batch.labelled()
        dense, shape = isinstance(rows, types.Dense), (len(batch), self.n_features_in_)
        X = rows.X if dense else csr_array((rows.data, rows.indices, rows.indptr), shape=shape)
        if not np.isfinite(X if dense else X.data).all():
            raise self.engine.not_finite(rows, None)
        weight = np.ones(len(batch)) if batch.weights is None else batch.weights
        intervals = batch.intervals
        if not labelled.all():
            X, weight, intervals = X[labelled], weight[labelled], intervals[labelled]
        stop = first + len(weight)
        if self.half_life is not None:
            weight = weight * ages(stop if n is None else n, self.half_life, slice(first, stop))
        column, offset = self._offset_column(), None
        if column is not None:
            offset = np.asarray(X[:, column] if dense else X[:, [column]].toarray()[:, 0], float)
        return Block(X, kinds.number(intervals), weight, offset)

    def learn_maximum(
        self, found: fitting.Fit, rows: Rows, names: Iterable[Any] | None = None
    ) -> None:
        """Keep the maximum that was found for such rows, so that streams can go on from it.

        Parameters
        ----------
        found : Fit
            The maximum.
        rows : Rows
            What it was found for.
        names : iterable of str, default=None
            What warnings call the features; None: their names in `fit`, or their numbers.
        """
        maximum, mechanism, errors = found.maximum, found.problem.mechanism, Errors(found)
        n_numbers, is_sampled = errors.shown.shape[0], rows.moments.uneven > 0.0
        separation = errors.separation
        is_separated = len(separation.directions) > 0
        reason = (
            f"no maximum was found in max_iter={self.max_iter} steps: raise it, or scale the "
            "features, for example with StandardScaler"
        )
        if is_separated:
            own = getattr(self, "feature_names_in_", range(self.n_features_in_))
            reason = "no maximum exists: " + separated(
                [*(own if names is None else names)],
                separation.features,
                self.order_,
                rows.kinds.ends[separation.kinds],
            )
            reason += "; set alpha above 0, or leave out or join what separates them"
        if is_separated or not maximum.converged:
            warnings.warn(reason, ConvergenceWarning, stacklevel=3)
        covariance = np.empty((0, 0))
        if errors.is_dense and n_numbers <= MOST_PARAMETERS:
            squares = squares_at(found.problem, maximum.x, rows) if is_sampled else None
            covariance = errors.covariance(squares)
        self.n_iter_ = maximum.n_iter + found.n_steps
        self.maximum_ = {
            "converged": maximum.converged and not is_separated,
            "loglik": found.loglik,
            "rows": rows.n_rows,
            "weight": float(rows.weights.sum()),
            "parameters": errors.n_parameters,
            "means": rows.moments.mean,
            "covariance": covariance,
            "unused": np.flatnonzero(found.problem.frame.scale == 0.0),
            **Choice.of(mechanism, found.phi, found.gained, rows.kinds, rows.weights)._asdict(),
            "sampled": is_sampled,
            "has_prior": found.problem.priors.classes is not None,
            "aliases": errors.aliases,
            "unbounded": (errors.shown @ separation.directions.T).T,
            "growing": separation.features,
            "separated": rows.kinds.ends[separation.kinds],
        }
        self.memory_ = self._memory_at(found, rows)

    def _found(self, name: str) -> Any:
        """Return something of the maximum, if no row was learned since."""
        if not self._is_at_maximum:
            raise AttributeError(
                f"{name}_ is known right after fit only, and this model has learned rows by "
                "partial_fit or a stream"
            )
        return self.maximum_[name]

    @property
    def converged_(self) -> bool:
        """Whether `fit` found the maximum in `max_iter` steps; not where there is none."""
        return bool(self._found("converged"))

    @property
    def loglik_(self) -> float:
        """Log-likelihood of the labels at the maximum, without the penalty."""
        return float(self._found("loglik"))

    @property
    def feature_means_(self) -> Array:
        """Mean of each feature over the rows of `fit`; zeros before it."""
        known = vars(self).get("maximum_", {"means": np.zeros(self.n_features_in_)})
        return known["means"]

    @property
    def covariance_(self) -> Array:
        """Covariance of the weights and thresholds that `fit` found."""
        covariance: Array = self._found("covariance")
        if len(covariance) == 0:
            n = self.n_features_in_ + len(self.order_) - 1
            raise AttributeError(
                f"covariance_ is kept for at most {MOST_PARAMETERS} weights and thresholds, and "
                f"there are {n:,}"
            )
        move = np.eye(len(covariance))
        known = np.diagonal(covariance)[self.n_features_in_ :] > 0.0
        move[self.n_features_in_ :, : self.n_features_in_] = np.outer(known, self.feature_means_)
        return move @ covariance @ move.T

    def _memory_at(self, found: fitting.Fit, rows: Rows) -> Memory:
        """Return the memory of a stream that has seen these rows and is at the maximum."""
        memory = self.engine.blank(self.n_features_in_, len(self.order_))
        parts, moments = memory.parts(), rows.moments
        n = rows.n_rows
        seen = clock = 0.0
        for some in batches(n, MOST_AGES):
            age = ages(n, self.half_life, some)
            seen += float(age.sum())
            clock += float(age @ np.arange(some.start + 1.0, some.stop + 1.0))
        parts["u"][0, :-1], parts["n"][:] = found.w, self.median - found.theta
        parts["clock"][0], memory.counts[0] = clock, n
        parts["size"][:] = (
            (moments.squares + moments.weight * moments.mean**2).sum(),
            moments.weight,
        )
        parts["slopes"][:] = found.maximum.sums.squares / [1.0, max(len(self.order_) - 1, 1)]
        parts["seen"][:] = seen
        self._counted(memory).hand_over(found, rows, clock / seen)
        return memory

    # --- Online ---

    @property
    def engine(self) -> LinearEngine:
        """How it learns and rates, by its parameters."""
        return super().engine._replace(link=self.link_function)

    def _rule(self) -> types.Likelihood:
        return types.Likelihood(
            rate=float(self.rate),
            cut_rate=float(self.cut_rate),
            trust=float(self.trust),
            noise=float(self.noise),
            mode=self.decision == "mode",
            coarsening=COARSENING[self.coarsening],
        )

    @property
    def coarsening_(self) -> Coarsening:
        """How classes become ranges, as the labels so far show it."""
        check_is_fitted(self)
        if not self._is_at_maximum:
            return self._counted(self.memory_).coarsening(vars(self).get("maximum_", {}))
        return self.choice.coarsening(len(self.order_))

    @property
    def _is_at_maximum(self) -> bool:
        """Whether `fit` found the model, and no row was learned since."""
        return "maximum_" in vars(self) and bool(self.maximum_["rows"] == self.t_)

    @property
    def choice(self) -> Choice:
        """How classes become ranges, as `fit` chose it."""
        known: dict[str, Any] = self.maximum_
        return Choice(*(known[name] for name in Choice._fields))

    def _counted(self, memory: Memory) -> ByRow:
        return ByRow(COARSENING[self.coarsening], len(self.order_), memory.parts())

    def marginal_effects(self, X: Any, sample_weight: ArrayLike | None = None) -> Array:
        """Return the change of each class's probability per unit of each feature, mean over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Features.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the mean.

        Returns
        -------
        effects : ndarray of shape (n_features, n_classes)
            Columns in the order of `classes_`; each row adds up to 0.

        See Also
        --------
        pril.evaluate.bootstrap : The same with intervals.

        Examples
        --------
        >>> from pril import OrderedLogit
        >>> X = [[-2.0], [-1.0], [0.0], [1.0], [2.0], [3.0]]
        >>> model = OrderedLogit().fit(X, [1, 1, 2, 2, 3, 3])
        >>> model.marginal_effects(X).round(2)
        array([[-0.16, -0.  ,  0.16]])
        """
        density = self.link_function.sides(self.thresholds_ - self.latent(X)[:, np.newaxis]).density
        weights = None if sample_weight is None else read_weights(sample_weight, len(density))
        if weights is not None and not weights.any():
            raise InputError("sample_weight is zero for every row: there is nothing to average")
        # The slope of the chance to be above each threshold.
        slopes = np.average(density, axis=0, weights=weights)
        per_score = -np.diff(slopes, prepend=0.0, append=0.0)
        return by_class(self.order_, np.outer(self.coef_, per_score))

    def _label_chances(self, intervals: Array) -> Array:
        if self._is_at_maximum:
            return self.choice.relative_chances(intervals, len(self.order_))
        kinds, kind = Kinds.of(intervals, len(self.order_))
        return self._counted(self.memory_).label_chances(kinds)[kind]
