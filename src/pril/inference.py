"""Standard errors, tests and intervals of an ordered logit that `fit` has found."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from scipy.sparse import issparse
from scipy.special import chdtrc, expit, logit, ndtr, ndtri, xlogy
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from pril.core import fitting, learning
from pril.core.arrays import Array
from pril.core.classifier import dense_rows
from pril.core.likelihood import InMemory, Maximum
from pril.core.parts import Parts, reference_of_words, scale_of_features, units_of_features
from pril.core.resampling import check_level, read_groups
from pril.core.uncertainty import MOST_FOLLOWED, Uncertainty
from pril.core.weights import read_weights
from pril.core.words import aligned
from pril.errors import InputError, InputTypeError

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray

__all__ = ["Inference", "Intervals", "ProportionalOdds", "Test", "infer", "likelihood_ratio"]


NEAR = 0.01  # standard errors that a model may be away from the maximum of its rows
TINY = 1e-300
LEAST_P = 1e-4  # that is shown
CURVATURE = "the curvature of the likelihood"
MOST_GENERAL = 1000  # weights and thresholds of a model without proportional odds


# --- Results -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Test:
    """A test of a hypothesis.

    Attributes
    ----------
    statistic : float
        What has a chi-squared distribution if the hypothesis is true.
    df : int
        Its degrees of freedom.
    p : float
        How often it is at least as large then.
    """

    __test__ = False  # for pytest, which collects classes of this name

    statistic: float
    df: int
    p: float

    @classmethod
    def of(cls, statistic: float, df: int) -> Test:
        """Return the test with such a statistic."""
        return cls(float(statistic), int(df), float(chdtrc(df, statistic)))

    def __str__(self) -> str:
        sign = "" if self.p < LEAST_P else "= "
        return f"chi2({self.df}) = {self.statistic:.4g}, p {sign}{_p(self.p)}"


@dataclass(frozen=True, eq=False)
class ProportionalOdds:
    """A test whether the weights are the same at each threshold.

    Attributes
    ----------
    overall : Test
        Of all features together.
    features : dict of Test
        Of each feature, if the weights of the others are the same at each threshold.
    """

    overall: Test
    features: dict[str, Test]

    def to_frame(self) -> pd.DataFrame:
        """Return the tests as a table.

        Returns
        -------
        table : DataFrame
            Columns `feature`, "all" for all together, `statistic`, `df` and `p`.
        """
        import pandas as pd

        tests = {"all": self.overall, **self.features}
        return pd.DataFrame([{"feature": name, **vars(test)} for name, test in tests.items()])

    def __str__(self) -> str:
        tests = {"all": self.overall, **self.features}
        cells = [[name, f"{t.statistic:.4g}", f"{t.df}", _p(t.p)] for name, t in tests.items()]
        return aligned([["proportional odds", "chi2", "df", "p"], *cells])


@dataclass(frozen=True, eq=False)
class Intervals:
    """Numbers with their confidence intervals, a row for each feature or row, a column for a class.

    Attributes
    ----------
    name : str
        What a row stands for: "feature", or "row".
    rows : list
        Names of the features, or numbers of the rows.
    classes : ndarray of shape (n_classes,)
        The classes, lowest first.
    level : float
        Confidence level.
    unit : str
        What effects are per: "unit" of a column, or "standard deviation".
    estimate, std_error, lower, upper : ndarray of shape (n, n_classes)
        The numbers, their standard errors, and the ends of their intervals.
    """

    name: str
    rows: list[Any]
    classes: NDArray[Any]
    level: float
    unit: str
    estimate: NDArray[np.float64]
    std_error: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    def to_frame(self) -> pd.DataFrame:
        """Return all numbers as a table.

        Returns
        -------
        table : DataFrame
            Columns `feature` or `row`, `class`, `estimate`, `std_error`, `lower` and `upper`.
        """
        import pandas as pd

        columns = {
            self.name: np.repeat(np.array(self.rows, dtype=object), len(self.classes)),
            "class": np.tile(self.classes.astype(object), len(self.rows)),
        }
        numbers = ("estimate", "std_error", "lower", "upper")
        columns |= {name: getattr(self, name).ravel() for name in numbers}
        return pd.DataFrame(columns)


@dataclass(frozen=True)
class _Fitted:
    """Rows, and the maximum that was found for them."""

    problem: fitting.Problem
    rows: InMemory
    maximum: Maximum
    labelled: Array  # which of the rows that were passed have a label, and are in `rows`

    def loglik_without(self, rows: InMemory, settings: fitting.Settings) -> float:
        """Return the log-likelihood of another model of these rows, with the same chances."""
        other = fitting.Problem(rows, settings)
        start = replace(other.blank, chances=self.maximum.point.chances)
        return float(other.fit(start, em_gain=1e-13).sums.loglik)


@dataclass(frozen=True, eq=False, repr=False)
class Inference:
    """Weights and thresholds with their standard errors, and how likely the labels are.

    Printed, it is a table; `to_frame` has all digits, and ``to_frame().to_latex()`` is LaTeX.

    Attributes
    ----------
    terms : list of tuple
        The kind of each number ("weight" or "threshold"), its feature and its class; None where it
        has none. A threshold belongs to the class below it.
    estimate : ndarray of shape (n_terms,)
        Weights and thresholds.
    covariance : ndarray of shape (n_terms, n_terms)
        Their covariance; zero for an offset.
    level : float
        Confidence level of intervals.
    errors : str
        What the standard errors are from.
    loglik : float
        Log-likelihood of the labels, without the penalty.
    loglik_null : float or None
        The same of a model without features; None if the rows were not given.
    n : float
        Sum of the weights of the rows: their number, if none have weights.
    n_parameters : int
        Weights and thresholds that the rows determine.
    unit : str
        What the weights of numbers are per: "unit" of their column, or "standard deviation".
    reference : str or None
        The words that the weights of words are relative to; None if there are no words, or no
        reference.
    """

    terms: list[tuple[str, Any, Any]]
    estimate: NDArray[np.float64]
    covariance: NDArray[np.float64]
    level: float
    errors: str
    loglik: float
    loglik_null: float | None
    n: float
    n_parameters: int
    unit: str
    reference: str | None
    parts: Parts = field(repr=False)
    shown: NDArray[np.float64] = field(repr=False)  # makes these weights of the learner's own
    inner: NDArray[np.float64] = field(repr=False)  # the covariance of the learner's own numbers
    fitted: _Fitted | None = field(repr=False, default=None)

    @property
    def std_error(self) -> NDArray[np.float64]:
        """Standard errors."""
        return np.sqrt(np.maximum(np.diagonal(self.covariance), 0.0))

    @property
    def z(self) -> NDArray[np.float64]:
        """Estimates over their standard errors; NaN for an offset."""
        known = self.std_error > 0.0
        out = np.full(len(self.estimate), np.nan)
        return np.divide(self.estimate, self.std_error, out=out, where=known)

    @property
    def p(self) -> NDArray[np.float64]:
        """How often z is at least as far from zero if the true number is zero."""
        return 2.0 * ndtr(-np.abs(self.z))

    @property
    def interval(self) -> NDArray[np.float64]:
        """Lower and upper ends, of shape (2, n_terms)."""
        half = _quantile(self.level) * self.std_error
        return np.stack([self.estimate - half, self.estimate + half])

    @property
    def aic(self) -> float:
        """Akaike's information criterion."""
        return 2.0 * self.n_parameters - 2.0 * self.loglik

    @property
    def bic(self) -> float:
        """The Bayesian information criterion."""
        return float(np.log(self.n)) * self.n_parameters - 2.0 * self.loglik

    @property
    def mcfadden(self) -> float | None:
        """McFadden's R²: how much of the log-likelihood the features explain."""
        return None if self.loglik_null is None else 1.0 - self.loglik / self.loglik_null

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain data, as JSON has it.

        Returns
        -------
        numbers : dict
            `terms`, a list with a dict for each weight and threshold, and what holds for the model.
        """
        numbers = np.stack([self.estimate, self.std_error, self.z, self.p, *self.interval])
        names = ["term", "feature", "class", "estimate", "std_error", "z", "p", "lower", "upper"]
        terms = [
            dict(zip(names, [*term, *column], strict=True))
            for term, column in zip(self.terms, numbers.T.tolist(), strict=True)
        ]
        about = ("level", "errors", "n", "n_parameters", "loglik", "loglik_null", "aic", "bic")
        return {"terms": terms} | {
            name: getattr(self, name) for name in (*about, "mcfadden", "unit", "reference")
        }

    def to_frame(self) -> pd.DataFrame:
        """Return all numbers as a table.

        Returns
        -------
        table : DataFrame
            Columns `term`, `feature`, `class`, `estimate`, `std_error`, `z`, `p`, `lower`, `upper`.
        """
        import pandas as pd

        table = pd.DataFrame(self.to_dict()["terms"], dtype=object)
        return table.astype(dict.fromkeys(table.columns[3:], np.float64))

    def cells(self) -> list[list[str]]:
        """Return the table as it is printed.

        Returns
        -------
        lines : list of list of str
            A heading, the weights, a heading, the thresholds.
        """
        numbers = np.stack([self.estimate, self.std_error, self.z]).T
        lower, upper = self.interval
        head = ["estimate", "std. error", "z", "p", "lower", "upper"]
        lines = [["weight", *head]]
        for t, (kind, feature, label) in enumerate(self.terms):
            if kind == "threshold" and label == self._classes[0]:
                lines.append(["threshold", *[""] * len(head)])
            name = str(feature) if kind == "weight" else f"above {label}"
            if self.std_error[t] > 0.0:
                cells = [f"{value:.4g}" for value in numbers[t]]
                lines.append([name, *cells, _p(self.p[t]), f"{lower[t]:.4g}", f"{upper[t]:.4g}"])
            else:  # it is known: an offset, or a word that others are relative to
                lines.append([name, f"{self.estimate[t]:.4g}", *[""] * (len(head) - 1)])
        return lines

    @property
    def notes(self) -> list[str]:
        """What is to be said of the table, a sentence each."""
        found = [
            f"{self.n:,.6g} rows",
            f"log-likelihood {self.loglik:.6g}",
            f"{self.n_parameters} parameters",
            f"AIC {self.aic:.6g}",
            f"BIC {self.bic:.6g}",
        ]
        if self.mcfadden is not None:
            found.append(f"McFadden's R2 {self.mcfadden:.4f}")
        learner = self.parts.learner
        notes = [", ".join(found), f"{self.level:.3g} intervals; errors from {self.errors}"]
        notes.append(f"weights are per {self.unit}, on the scale of the log odds")
        if self.reference:
            notes.append(f"words are relative to {self.reference}")
        if scale_of_features(self.parts).is_centred:
            words = " and these words" if self.reference else ""
            notes.append(f"thresholds are those of a row with the mean of each number{words}")
        if learner.alpha > 0.0:
            notes.append(
                f"with a penalty, alpha={learner.alpha:g}: fit with alpha=0 to report numbers"
            )
        if learner.coarsening_.table:
            name = {"random": "at random", "offsets": "shared offsets"}
            notes.append(f"ranges are {name[learner.coarsening_.mechanism]}")
            if learner.coarsening == "auto":
                notes[-1] += " (chosen, which errors do not include)"
        if self.fitted is None:
            lacking = "" if self.mcfadden is not None else "McFadden's R2, "
            notes.append(
                f"not kept with the model: {lacking}proportional odds, errors by groups; "
                "pril.inference.infer(model, X, y) finds them"
            )
        return notes

    def __str__(self) -> str:
        return "\n".join([aligned(self.cells()), *self.notes])

    __repr__ = __str__

    # --- What follows from them ---

    def probabilities(self, X: Any) -> Intervals:
        """Return the probabilities of the classes for some rows, with their intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Features, as the model takes them.

        Returns
        -------
        probabilities : Intervals
            A row for each row of X. Intervals are made for the log odds, so that they are between
            0 and 1.
        """
        features = dense_rows(self.parts.learner, self.parts.transform(X))
        below, density, _ = self._logistic(features)
        n, n_classes = len(features), len(self._classes)
        p, variance = np.diff(below, axis=1), np.empty((n, n_classes))
        for k in range(n_classes):
            by = np.zeros((n, len(self.inner)))
            by[:, : features.shape[1]] = (density[:, k] - density[:, k + 1])[:, np.newaxis]
            by[:, : features.shape[1]] *= features
            if k > 0:
                by[:, features.shape[1] + k - 1] = -density[:, k]
            if k < n_classes - 1:
                by[:, features.shape[1] + k] = density[:, k + 1]
            variance[:, k] = np.einsum("ij,jk,ik->i", by, self.inner, by)
        error = np.sqrt(np.maximum(variance, 0.0))
        inside = np.clip(p, TINY, 1.0 - np.finfo(float).eps)
        half = _quantile(self.level) * error / np.maximum(inside * (1.0 - inside), TINY)
        ends = (expit(logit(inside) + side * half) for side in (-1.0, 1.0))
        return self._intervals("row", list(range(n)), p, error, *ends)

    def marginal_effects(self, X: Any = None, sample_weight: ArrayLike | None = None) -> Intervals:
        """Return the change of each class's probability per unit of each feature, mean over rows.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features), default=None
            Features, as the model takes them. None: the rows that `infer` was given.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the mean. Without X, the weights of `infer` are used.

        Returns
        -------
        effects : Intervals
            A row for each feature, in units of its column as the weights are. The rows themselves
            are taken as given: intervals say how certain the effects are for these.
        """
        if X is None:
            fitted = self._needed("marginal_effects()")
            features, weight = _as_array(fitted.rows.X), fitted.rows.weight
        else:
            features = dense_rows(self.parts.learner, self.parts.transform(X))
            weight = np.ones(len(features))
            if sample_weight is not None:
                weight = read_weights(sample_weight, len(features))
            if not weight.any():
                raise InputError("sample_weight is zero for every row: nothing to average")
        weight = weight / weight.sum()
        _, density, change = self._logistic(features)
        d, w = features.shape[1], self.parts.learner.coef_
        slopes = weight @ density  # of the chance to be below each cut, by the cut
        by = np.zeros((len(slopes), len(self.inner)))
        by[:, :d] = -(change * weight[:, np.newaxis]).T @ features
        inner = np.arange(len(slopes) - 2)
        by[inner + 1, d + inner] = (weight @ change)[1:-1]
        per_score, by_score = -np.diff(slopes), -np.diff(by, axis=0)
        shown = self.shown
        effects, error = shown @ np.outer(w, per_score), np.empty((d, len(per_score)))
        for k, slope in enumerate(per_score):
            jacobian = np.outer(w, by_score[k])
            jacobian[:, :d] += slope * np.eye(d)
            jacobian = shown @ jacobian
            error[:, k] = np.einsum("ij,jk,ik->i", jacobian, self.inner, jacobian)
        error = np.sqrt(np.maximum(error, 0.0))
        half = _quantile(self.level) * error
        names = [feature for kind, feature, _ in self.terms if kind == "weight"]
        ends = effects - half, effects + half
        return self._intervals("feature", names, effects, error, *ends)

    def proportional_odds(self) -> ProportionalOdds:
        """Test whether the weights are the same at each threshold, as the model assumes.

        It is a score test: how far the derivatives of the likelihood by weights of each threshold
        are from zero. Labels are exact, or ranges at random. A model that has learned how classes
        become ranges is refused: this can hide or feign a weight that changes.

        Returns
        -------
        tests : ProportionalOdds
            A test of all features, and one of each. A small p speaks against the assumption.
        """
        fitted = self._needed("proportional_odds()")
        point, n_cuts = fitted.maximum.point, len(self._classes) - 1
        if fitted.maximum.mechanism is not None:
            raise InputError(
                "proportional odds cannot be tested where the mechanism of ranges is learned: take "
                "the rows with exact labels"
            )
        if n_cuts < 2:
            raise InputError("proportional odds are about two or more thresholds, and there is one")
        free = np.delete(np.arange(len(point.w)), list(fitted.problem.fixed))
        width = len(free) + 1
        if n_cuts * width > MOST_GENERAL:
            raise InputError(
                f"{n_cuts * width:,} weights and thresholds are too many for a test of "
                f"proportional odds: the limit is {MOST_GENERAL:,}; take fewer features"
            )
        gradient = np.zeros((n_cuts, width))
        information = np.zeros((n_cuts, width, n_cuts, width))
        for block in fitted.rows.blocks:
            first, second = point.by_theta(block)
            Z = -point.frame.view(block.X).dense()[:, free]
            Z = np.hstack([np.ones((len(Z), 1)), Z])
            gradient += (first * block.weight[:, np.newaxis]).T @ Z
            for j in range(n_cuts):
                for k in range(n_cuts):
                    curve = first[:, j] * first[:, k] - (second[:, j] if j == k else 0.0)
                    information[j, :, k] += (Z * (block.weight * curve)[:, np.newaxis]).T @ Z
        tests = [_score_test(gradient, information, [k + 1]) for k in range(len(free))]
        names = [feature for kind, feature, _ in self.terms if kind == "weight"]
        overall = _score_test(gradient, information, [*range(1, width)])
        return ProportionalOdds(overall, dict(zip([names[j] for j in free], tests, strict=True)))

    def _intervals(self, name: str, rows: list[Any], *numbers: Array) -> Intervals:
        return Intervals(name, rows, self._classes, self.level, self.unit, *numbers)

    @property
    def _classes(self) -> Array:
        return self.parts.learner.order_

    def _logistic(self, features: Array) -> tuple[Array, Array, Array]:
        """Return P(y < k) of each row and cut, with its first and second derivatives by the cut."""
        learner = self.parts.learner
        cut = np.concatenate([[-np.inf], learner.thresholds_, [np.inf]])
        below = expit(cut - (features @ learner.coef_)[:, np.newaxis])
        density = below * (1.0 - below)
        return below, density, density * (1.0 - 2.0 * below)

    def _needed(self, what: str) -> _Fitted:
        if self.fitted is None:
            raise InputError(
                f"{what} needs the rows that the model learned from: infer(model, X, y)"
            )
        return self.fitted


def _score_test(gradient: Array, information: Array, features: list[int]) -> Test:
    """Test whether weights are the same at each threshold, by the derivatives where they are."""
    n = gradient.size
    own = np.eye(n).reshape(n, *gradient.shape)
    # What the model has: a threshold each, and weights that all share.
    shared = np.hstack([own[:, :, 0], own[:, :, 1:].sum(axis=1)])
    apart = np.hstack([shared, own[:, 1:, features].reshape(n, -1)])
    less, n_less = _gain(gradient.ravel(), information.reshape(n, n), shared)
    more, n_more = _gain(gradient.ravel(), information.reshape(n, n), apart)
    return Test.of(max(more - less, 0.0), n_more - n_less)


def _gain(gradient: Array, information: Array, directions: Array) -> tuple[float, int]:
    """Return twice what a Newton step in some directions gains, and how many there are."""
    slope = directions.T @ gradient
    curve = directions.T @ information @ directions
    size = np.sqrt(np.maximum(np.abs(np.diagonal(curve)), TINY))
    values, vectors = np.linalg.eigh(curve / np.outer(size, size))
    known = values > 1e-9
    along = vectors[:, known].T @ (slope / size)
    return float((along**2 / values[known]).sum()), int(known.sum())


# --- Functions -----------------------------------------------------------------------------------


def infer(
    model: Any,
    X: Any = None,
    y: Any = None,
    *,
    sample_weight: ArrayLike | None = None,
    groups: Any = None,
    level: Any = 0.95,
    per: Literal["unit", "sd"] = "unit",
) -> Inference:
    """Return standard errors, tests and intervals of a model that `fit` has found.

    Parameters
    ----------
    model : estimator
        A fitted `OrderedLogit`, or a Pipeline that ends in one.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features), default=None
        The rows that the model learned from, as it takes them. None: what the model kept of them,
        which is enough for the table, without McFadden's R², groups and tests.
    y : array-like of shape (n_samples,) or (n_samples, 2), default=None
        Their labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Their weights, if the model learned with weights.
    groups : array-like of shape (n_samples,), default=None
        Group of each row, such as the patient or the household. Errors then allow for rows of a
        group that are alike: the sandwich formula, times G / (G - 1) for G groups (CR1). With fewer
        than about 30 groups they are too small.
    level : float, default=0.95
        Confidence level of intervals.
    per : {"unit", "sd"}, default="unit"
        Whether weights and effects of numbers are per unit of their column, or per standard
        deviation, so that they can be compared. The latter needs a model that standardises numbers:
        its first step is a `ColumnEncoder`, or its last one a `StandardScaler`.

    Returns
    -------
    result : Inference
        Print it for a table. It has methods for probabilities, marginal effects and a test of
        proportional odds.

    See Also
    --------
    pril.evaluate.bootstrap : Intervals that assume less, and take longer.

    Notes
    -----
    Fit with ``alpha=0`` to report numbers: they are then those of maximum likelihood, and errors
    are from the curvature of the log-likelihood at its maximum. With a penalty, its curvature is
    added: intervals are those of a Bayesian with the penalty as the prior. It draws weights towards
    zero and, of ranges, thresholds towards those of ranges that are divided evenly.

    Where ranges and exact labels occur together, or raters shade by shared offsets, the model has
    also learned how classes become ranges. The errors include that it has: they are those of the
    sandwich formula, with derivatives that let the mechanism follow. They do not include that
    ``coarsening="auto"`` has chosen the mechanism: of a few hundred rows it may choose wrongly, and
    thresholds are then off. Say "offsets" or "random" if you know how the labels were made.

    Weights are per unit of a column of X. After a `ColumnEncoder`, those of words are relative to
    the most frequent word of their column, and thresholds are those of a row with these words and
    the mean of each number.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.datasets import make_synthetic
    >>> from pril.inference import infer
    >>> X, y = make_synthetic(300, random_state=0)
    >>> result = infer(OrderedLogit(alpha=0.0).fit(X, y), X, y)
    >>> result.std_error.shape
    (6,)
    >>> result.to_frame().columns.tolist()
    ['term', 'feature', 'class', 'estimate', 'std_error', 'z', 'p', 'lower', 'upper']
    """
    parts = Parts.of(model)
    learner = parts.learner
    if not hasattr(learner, "marginal_effects"):
        raise InputTypeError(
            "model must be an OrderedLogit, or a Pipeline that ends in one, got "
            f"{type(learner).__name__}"
        )
    check_is_fitted(learner)
    level = check_level(level)
    if per not in ("unit", "sd"):
        raise InputError(f"per must be 'unit' or 'sd', got {per!r}")
    if per == "sd" and scale_of_features(parts).unit != "standard deviation":
        raise InputError(
            "per='sd' needs a model that standardises numbers: put a ColumnEncoder or a "
            "StandardScaler before the learner"
        )
    if (X is None) != (y is None):
        raise InputError("pass both X and y, the rows that the model learned from, or neither")
    if X is None:
        if sample_weight is not None or groups is not None:
            raise InputError("sample_weight and groups need the rows: pass X and y too")
        try:
            inner, found = learner.covariance_, learner.maximum_
        except AttributeError as error:
            raise InputError(f"{error}: pass X and y, the rows to learn from") from None
        about = {
            "loglik": found["loglik"],
            "loglik_null": _loglik_of_classes(learner, found["weight"]),
            "n": found["weight"],
            "n_parameters": found["parameters"],
        }
        return _inference(parts, inner, level, per, errors=CURVATURE, **about)
    features = parts.transform(X)
    fitted = _fit_again(learner, features, y, sample_weight)
    uncertainty = Uncertainty(fitted.problem, fitted.maximum)
    code, source = None, CURVATURE
    if groups is not None:
        code = read_groups(groups, len(fitted.labelled)).code[fitted.labelled]
        n_groups = len(np.unique(code[fitted.rows.weight > 0.0]))
        if n_groups < 2:
            raise InputError(f"groups must name at least 2 groups of rows, got {n_groups}")
        source = f"{n_groups:,} groups of rows (CR1)"
    inner = _covariance(uncertainty, fitted.rows, code)
    _check_same(learner, fitted, inner)
    settings, fixed = fitted.problem.settings, list(fitted.problem.fixed)
    bare = replace(fitted.rows, X=_as_array(fitted.rows.X[:, fixed]))
    null = fitted.loglik_without(bare, settings._replace(offset=0 if fixed else None))
    about = {
        "loglik": float(fitted.maximum.sums.loglik),
        "loglik_null": null,
        "n": float(fitted.rows.weight.sum()),
        "n_parameters": uncertainty.n_parameters,
    }
    return _inference(parts, inner, level, per, errors=source, fitted=fitted, **about)


def likelihood_ratio(small: Inference, large: Inference) -> Test:
    """Test whether a larger model is better than a smaller one that it includes.

    Parameters
    ----------
    small, large : Inference
        What `infer` returned for models of the same rows and labels. The features of the larger one
        include those of the smaller one.

    Returns
    -------
    test : Test
        A small p says that the larger model is better.

    Notes
    -----
    Fit both with ``alpha=0``. Where a mechanism of ranges was learned, both likelihoods are those
    with the chances that the larger model has found.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.datasets import make_synthetic
    >>> from pril.inference import infer, likelihood_ratio
    >>> X, y = make_synthetic(300, random_state=0)
    >>> model = OrderedLogit(alpha=0.0)
    >>> large = infer(model.fit(X, y), X, y)
    >>> small = infer(model.fit(X[:, :1], y), X[:, :1], y)
    >>> likelihood_ratio(small, large).df
    1
    """
    fits = []
    for name, result in (("small", small), ("large", large)):
        if not isinstance(result, Inference) or result.fitted is None:
            raise InputTypeError(f"{name} must be what infer(model, X, y) returned")
        fits.append(result.fitted)
    less, more = fits
    same = ((less.rows, more.rows, part) for part in ("kind", "weight"))
    if not np.array_equal(less.rows.kinds.ends, more.rows.kinds.ends) or not all(
        np.array_equal(getattr(a, part), getattr(b, part)) for a, b, part in same
    ):
        raise InputError("small and large must be of the same rows, with the same labels, in order")
    df = large.n_parameters - small.n_parameters
    loglik = small.loglik
    if more.maximum.mechanism is not None:
        loglik = more.loglik_without(less.rows, less.problem.settings)
    gain = large.loglik - loglik
    if df < 1 or gain < -1e-6 * (1.0 + abs(loglik)):
        raise InputError(
            f"large must include small, but it has {df} parameters more and a log-likelihood that "
            f"is higher by {gain:.4g}"
        )
    return Test.of(max(2.0 * gain, 0.0), df)


def _loglik_of_classes(learner: Any, weight: float) -> float | None:
    """Return the log-likelihood without features; None of ranges, and with an offset."""
    if learner.coarsening_.table or learner.offset is not None:
        return None
    rows = learner.memory_.parts()["total"]
    share = rows / rows.sum()
    return float(weight * xlogy(share, share).sum())


def _fit_again(learner: Any, features: Any, y: Any, sample_weight: Any) -> _Fitted:
    """Return the maximum for rows, which the model does not keep."""
    again = clone(learner).set_params(classes=learner.order_)
    batch = learning.prepare(again, features, y, sample_weight=sample_weight, reset=True)
    rows = again.labelled_rows(batch)
    found = fitting.fit(rows, again.settings())
    problem = fitting.Problem(rows, again.settings())
    return _Fitted(problem, rows, found.maximum, batch.labelled())


def _covariance(uncertainty: Uncertainty, rows: InMemory, groups: Array | None) -> Array:
    """Return the covariance of the learner's weights and thresholds."""
    if not uncertainty.is_dense:
        d = len(uncertainty.maximum.point.w)
        raise InputError(f"{d:,} features are too many for their covariance: take fewer")
    if uncertainty.n_followed > MOST_FOLLOWED:
        raise InputError(
            f"{uncertainty.n_followed} weights, thresholds and classes of ranges are too many to "
            "say how certain they are where the mechanism of ranges is learned: the limit is "
            f"{MOST_FOLLOWED}; use pril.evaluate.bootstrap"
        )
    try:
        return uncertainty.covariance(rows, groups)
    except np.linalg.LinAlgError:
        raise InputError(
            "the labels do not determine how classes become ranges, or leave a class without rows, "
            "so that errors are unknown: raise alpha, or use pril.evaluate.bootstrap"
        ) from None


def _check_same(learner: Any, fitted: _Fitted, covariance: Array) -> None:
    """Refuse a model that is not at the maximum of these rows."""
    here = np.concatenate([learner.coef_, learner.thresholds_])
    there = np.concatenate([fitted.maximum.point.weights, fitted.maximum.point.thresholds])
    error = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
    far = np.abs(here - there) > NEAR * error + 1e-9 * (1.0 + np.abs(here))
    if far.any():
        j = int(np.argmax(far))
        raise InputError(
            f"the model was not fitted to these rows: a weight or threshold is {here[j]:.6g}, and "
            f"{there[j]:.6g} for these; pass the rows, labels and weights of its last fit"
        )


def _inference(parts: Parts, inner: Array, level: float, per: str, **about: Any) -> Inference:
    """Return the result, given the covariance of the learner's own numbers and other fields."""
    learner = parts.learner
    d, labels = len(learner.coef_), learner.order_.tolist()
    terms: list[tuple[str, Any, Any]] = [("weight", name, None) for name in parts.names]
    terms += [("threshold", None, label) for label in labels[:-1]]
    relative, shared = parts.centre_words(np.eye(d), at="reference")
    shown: Array = relative.T
    if per == "unit":
        shown = shown / units_of_features(parts.steps, d)[:, np.newaxis]
    whole = np.eye(len(inner))
    whole[:d, :d], whole[d:, :d] = shown, -shared
    estimate = whole @ np.concatenate([learner.coef_, learner.thresholds_])
    covariance = whole @ inner @ whole.T
    for own in (covariance, covariance.T):  # of what is known, but for rounding
        own[:d][~shown.any(axis=1)] = 0.0
    return Inference(
        terms,
        estimate,
        covariance,
        level,
        unit="standard deviation" if per == "sd" else "unit",
        reference=reference_of_words(parts, "reference"),
        parts=parts,
        shown=shown,
        inner=inner,
        **about,
    )


def _as_array(X: Any) -> Array:
    return np.asarray(X.toarray() if issparse(X) else X, dtype=np.float64)


def _quantile(level: float) -> float:
    return float(ndtri((1.0 + level) / 2.0))


def _p(p: float) -> str:
    return f"< {LEAST_P:.4f}" if p < LEAST_P else f"{p:.4f}"
