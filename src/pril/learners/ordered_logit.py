"""An ordered logit learned online from ranges."""

from __future__ import annotations

from itertools import combinations
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from sklearn.utils.validation import check_is_fitted

from pril.core import loop
from pril.core.classifier import ProbabilityMixin, ThresholdMixin, by_class, read_weights
from pril.core.coarsening import MOST_STEPS, OFFSETS, Coarsening, Table
from pril.core.learner import SHARED_CONSTRAINTS, OnlineClassifier
from pril.core.linear import LinearMixin
from pril.core.logistic import at_most
from pril.core.scikit import Interval, StrOptions
from pril.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    Array = NDArray[Any]


MOST_CLASSES = 64  # the counts of ranges grow with their cube
COARSENING = {"auto": loop.AUTO, "random": loop.RANDOM, "offsets": loop.OFFSETS}


def equal_probabilities(n_classes: int) -> Array:
    """Return the start of the thresholds: equal probabilities for a score of 0."""
    if n_classes > MOST_CLASSES:
        raise InputError(
            f"OrderedLogit takes at most {MOST_CLASSES} classes, got {n_classes}: put them into "
            "bins, for example with pril.labels.from_bounds, or use PRIL",
            hint="model",
        )
    below = np.arange(1, n_classes)
    return np.log(n_classes - below) - np.log(below)


class OrderedLogit(LinearMixin, ProbabilityMixin, ThresholdMixin, OnlineClassifier):
    """Ordered logit that learns online from ranges and predicts probabilities.

    The proportional-odds model of a row with score ``f = w . x`` and thresholds theta is

        ``P(y <= i) = 1 / (1 + exp(f - theta_i))``

    Each round takes a gradient step on the negative log-likelihood of the row's label. The learner
    also learns the coarsening mechanism: how often each class is given as which range. It weights
    the classes in the likelihood of a range accordingly.

    Parameters
    ----------
    %(classes class_weight max_iter shuffle random_state)
    average : bool, default=True
        Predict with a mean of all iterates instead of the last one; iterate t has the weight t.
        Learning continues from the last one.
    half_life : float, default=None
        Number of rounds after which a round counts half as much, in the mean and in the counts
        that the learner keeps, so that the model adapts to a stream that changes. None: all rounds
        count the same.
    rate : float, default=10.0
        Step size of the weights. It does not depend on the scale of the features.
    cut_rate : float, default=2.0
        Step size of the thresholds.
    trust : float, default=30.0
        How many exact labels of a class it takes until what they show about ranges counts half.
        The other half is what `coarsening` says.
    noise : float, default=0.0
        Relative probability of a label that does not contain the true class, between 0 and 1.
    coarsening : {"auto", "random", "offsets"}, default="auto"
        What is assumed about ranges beyond what exact labels show. "random": each class of a range
        is given it equally often. "offsets": raters shade alike at every class, so that a range of
        up to three classes begins and ends so many classes below and above the true one with
        probabilities that all classes share; wider ranges are at random. "auto": offsets, unless
        the labels so far are more likely at random; and only if ranges overlap, and at least half
        of them have up to three classes.
    decision : {"median", "mode"}, default="median"
        Which class to predict: the median class, which has the lowest expected absolute error, or
        the most probable class.
    tol : float, default=None
        Stop `fit` when the mean interval loss of a pass, with each row predicted before it is
        learned, has not improved by `tol` for `n_iter_no_change` passes. None: make all `max_iter`
        passes.
    %(n_iter_no_change)

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted; at most 64. Columns of probabilities and margins are in this order.
    %(order_ coef_ thresholds_ intercept_ n_features_in_ feature_names_in_ n_iter_ t_)
    coarsening_ : Coarsening
        How classes become ranges, as the labels so far show it: `mechanism` ("random" or
        "offsets"), `shares` of the offsets, `evidence`, by how much offsets predicted the labels
        better than "random" did, as a difference of log-likelihoods, and `table`, the share of the
        rows of each class that were given each range. Printed, it is a sentence.
    n_mistakes_ : int
        Rounds in which the score was on the wrong side of a threshold.
    %(n_updates_)

    See Also
    --------
    PRIL : The paper's perceptron: faster, without probabilities.

    Notes
    -----
    Standardise the features, for example with :class:`~sklearn.preprocessing.StandardScaler`, and
    centre them: there is no intercept, the thresholds have that role. A handful of rows whose
    features are far from zero can be learned in reverse order.

    Where no label is exact, only the assumption of shared offsets tells the classes at both ends of
    the scale from their neighbours. Where ranges are at random or a partition of the scale, and no
    label is exact, `PRIL` is as good. Shares that are not symmetric are found slowly: moving all
    thresholds explains the labels nearly as well.

    References
    ----------
    P. McCullagh, "Regression models for ordinal data", 1980 (the model).

    D. F. Heitjan and D. B. Rubin, "Ignorability and coarse data", 1991 (coarsening mechanisms).

    B. W. Turnbull, "The empirical distribution function with arbitrarily grouped, censored and
    truncated data", 1976 (the classes behind ranges at random).

    J. Duchi, E. Hazan and Y. Singer, "Adaptive subgradient methods", 2011 (the steps).

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> X = [[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5]]
    >>> y = [(1, 1), (1, 2), (2, 2), (2, 2), (2, 3), (3, None)]
    >>> model = OrderedLogit(classes=[1, 2, 3], random_state=0).fit(X, y)
    >>> model.predict([[-3.0], [0.0], [3.0]])
    array([1, 2, 3])
    >>> model.predict_proba([[0.0]]).argmax(axis=1)
    array([1])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **SHARED_CONSTRAINTS,
        "rate": [Interval(Real, 0, None, closed="neither")],
        "cut_rate": [Interval(Real, 0, None, closed="neither")],
        "trust": [Interval(Real, 0, None, closed="left")],
        "noise": [Interval(Real, 0, 1, closed="both")],
        "coarsening": [StrOptions(set(COARSENING))],
        "decision": [StrOptions({"median", "mode"})],
    }
    # After a pass without a mistake, the probabilities still get better.
    _traits: ClassVar[dict[str, Any]] = {
        "whole_steps": False,
        "settles": False,
        "start": equal_probabilities,
    }

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
        rate: float = 10.0,
        cut_rate: float = 2.0,
        trust: float = 30.0,
        noise: float = 0.0,
        coarsening: Literal["auto", "random", "offsets"] = "auto",
        decision: Literal["median", "mode"] = "median",
        tol: float | None = None,
        n_iter_no_change: int = 3,
    ) -> None:
        super().__init__(
            classes=classes,
            class_weight=class_weight,
            max_iter=max_iter,
            shuffle=shuffle,
            random_state=random_state,
            average=average,
            half_life=half_life,
            tol=tol,
            n_iter_no_change=n_iter_no_change,
        )
        self.rate = rate
        self.cut_rate = cut_rate
        self.trust = trust
        self.noise = noise
        self.coarsening = coarsening
        self.decision = decision

    def _rule(self) -> loop.Likelihood:
        return loop.Likelihood(
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
        shares = np.empty(len(OFFSETS))
        by_offsets, evidence = loop.coarsening(self._rule(), self.memory_.arrays, shares)
        compared = self.coarsening != "random"
        return Coarsening.of(
            "offsets" if by_offsets else "random",
            shares,
            evidence if compared else None,
            self._range_table(),
        )

    def _range_table(self) -> Table:
        """Return P(range | class), of the ranges seen and their classes, from the counts."""
        parts, start = self.memory_.parts(), 0
        ranges, rows = parts["ranges"], parts["total"]
        table: Table = {}
        for low, high in combinations(range(len(self.order_)), 2):  # the order of `ranges`
            counts, of_classes = ranges[start : start + high - low + 1], rows[low : high + 1]
            start += high - low + 1
            if counts.any():
                counts = np.minimum(counts, of_classes)  # but for rounding, they are less
                shares = np.divide(counts, of_classes, out=0.0 * counts, where=of_classes > 0.0)
                table[low, high] = tuple(shares.tolist())
        return table

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
        >>> model = OrderedLogit(random_state=0).fit(X, [1, 1, 2, 2, 3, 3])
        >>> model.marginal_effects(X).round(2)
        array([[-0.12, -0.02,  0.14]])
        """
        below = at_most(self.latent(X)[:, np.newaxis], self.thresholds_)
        weights = None if sample_weight is None else read_weights(sample_weight, len(below))
        if weights is not None and not weights.any():
            raise InputError("sample_weight is zero for every row: there is nothing to average")
        # The slope of the chance to be above each threshold.
        slopes = np.average(below * (1.0 - below), axis=0, weights=weights)
        per_score = -np.diff(slopes, prepend=0.0, append=0.0)
        return by_class(self.order_, np.outer(self.coef_, per_score))

    def _label_chances(self, intervals: Array) -> Array:
        chances = np.empty((len(intervals), len(self.order_)))
        space = np.empty(len(OFFSETS)), np.empty(MOST_STEPS + 1)
        loop.label_chances(self._rule(), self.memory_.arrays, intervals, chances, *space)
        return chances
