"""Standard errors, tests and intervals of an ordered logit that `fit` has found."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from scipy.linalg import block_diag
from scipy.sparse import csr_array, eye_array, issparse
from scipy.special import chdtrc, expit, logit, ndtr, ndtri, xlogy
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from pril.bases.classifier import dense_rows, rows_to_rate
from pril.bases.intervals import Intervals
from pril.bases.parts import Parts, reference_of_words, scale_of_features, units_of_features
from pril.bases.weights import read_weights
from pril.core.arrays import Array, FeaturesLike, LabelsLike
from pril.core.coarsening import Kinds
from pril.core.rows import batches
from pril.core.words import aligned
from pril.errors import InputError, InputTypeError, shown
from pril.labels.resampling import check_level, read_groups
from pril.labels.scale import read_numbers
from pril.likelihood import fitting
from pril.likelihood.errors import (
    MOVED,
    Errors,
    free_numbers,
    in_free_numbers,
    separated,
    squares_at,
    vanished,
    without_rows,
)
from pril.likelihood.fitting import REDUNDANT, SeenClasses
from pril.likelihood.mechanisms import Free, Mechanism
from pril.likelihood.newton import Maximum
from pril.likelihood.rows import Frame, InMemory
from pril.links import Sides, between_cuts
from pril.online import learning

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike, NDArray
    from sklearn.base import BaseEstimator

    from pril.learners.ordered_logit import OrderedLogit


__all__ = ["Inference", "Intervals", "ProportionalOdds", "Test", "infer", "likelihood_ratio"]


MAX_ERRORS_AWAY = 0.01  # standard errors from a model to the maximum of its rows
TINY = 1e-300  # divides in place of zero; its inverse is finite
MIN_SHOWN_P = 1e-4  # smaller p-values are printed as "< 0.0001"
MAX_STEPS = 100  # to the maximum of a model that is compared
MAX_ROWS = 1 << 12  # whose features are compared at once: it bounds memory only
MAX_GENERAL = 1000  # weights and thresholds without proportional odds: their matrix is dense
SINGULAR = 1e-9  # of information that is scaled to 1: what the rows do not determine
DETERMINED = 1e-6  # of a sum of numbers, relative: a smaller one is zero, but for rounding
LATEX = str.maketrans(
    {c: f"\\{c}" for c in "&%$#_{}"}
    | {"<": "$<$", ">": "$>$", "\\": "$\\backslash$", "~": "$\\sim$", "^": "\\^{}"}
)


# --- Results -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Test:
    """A test of a hypothesis.

    Attributes
    ----------
    statistic : float
        It has a chi-squared distribution if the hypothesis is true.
    df : int
        Degrees of freedom of that distribution.
    p : float
        How likely a statistic at least as large is then; NaN if there is nothing to test.
    """

    __test__ = False  # for pytest, which collects classes of this name

    statistic: float
    df: int
    p: float

    def __str__(self) -> str:
        if self.df == 0:
            return "cannot be tested: the rows do not determine what would be free"
        sign = "" if self.p < MIN_SHOWN_P else "= "
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
        cells = [
            [name, f"{t.statistic:.4g}", f"{t.df}", _p(t.p)]
            if t.df > 0
            else [name, "", "0", "cannot be tested"]
            for name, t in tests.items()
        ]
        return aligned([["proportional odds", "chi2", "df", "p"], *cells])


@dataclass(frozen=True)
class _Fitted:
    """Rows, and the maximum that was found for them."""

    fit: fitting.Fit
    rows: InMemory
    groups: Array | None  # of the rows; None: each is one
    is_sampled: bool  # whether weights are those of a sample

    @property
    def is_robust(self) -> bool:
        """Whether errors are a sandwich."""
        return self.is_sampled or self.groups is not None

    @property
    def n_groups(self) -> int:
        """How many groups there are; rows, if they are in none."""
        used = self.rows.whole.weight > 0.0
        return int(used.sum()) if self.groups is None else len(np.unique(self.groups[used]))

    def squares(self, problem: fitting.Problem, x: Array) -> Array | None:
        """Return the sum of squares of what groups add to the gradient; None if not robust."""
        return squares_at(problem, x, self.rows, self.groups) if self.is_robust else None

    def at_maximum_of(self, mechanism: Mechanism) -> fitting.Fit:
        """Return the fit with another mechanism of the same kind."""
        if not isinstance(mechanism, Free):
            return self.fit
        problem = replace(self.fit.problem, mechanism=mechanism)
        w, _, theta = problem.split(self.fit.maximum.x)
        start = np.concatenate([w, *mechanism.starts(self.rows.weights), theta])
        return replace(self.fit, problem=problem, maximum=problem.fit(Maximum(start), MAX_STEPS))

    @property
    def loglik_null(self) -> float:
        """The log-likelihood of a model without features, with the same mechanism."""
        problem, d = self.fit.problem, self.fit.problem.d
        frame = problem.frame._replace(scale=np.zeros(d))
        null = replace(problem, frame=frame, priors=replace(problem.priors, ridge=np.ones(d)))
        return replace(self.fit, problem=null, maximum=null.fit_all(MAX_STEPS)[0]).loglik


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Inference(Intervals):
    """Weights and thresholds with their standard errors, and how likely the labels are.

    Printed, it is a table; `to_frame` has all digits, and `to_latex` is for a paper.

    Attributes
    ----------
    terms : list of tuple
        The kind of each number ("weight" or "threshold"), its feature and its class; None where it
        has none. A threshold belongs to the class below it.
    estimate, std_error, lower, upper : ndarray of shape (n_terms,)
        Weights and thresholds, their standard errors, and the ends of their intervals; NaN where
        the rows do not determine them.
    covariance : ndarray of shape (n_terms, n_terms)
        Their covariance; zero for an offset and for the word that others are relative to, NaN for
        what the rows do not determine.
    level : float
        Confidence level of intervals.
    unit : str
        What a weight of a number is per: a "unit" of its column, or a "standard deviation".
    reference : str or None
        The words that the weights of words are relative to; None if there are no words, or no
        reference.
    errors : str
        What the standard errors are from.
    loglik : float
        Log-likelihood of the labels, without the penalty. With sampling weights, they are divided
        by their mean for it.
    loglik_null : float or None
        The same of a model without features; None if the rows were not given.
    n : float
        Number of rows; with weights that count rows, their sum.
    n_parameters : int
        Weights, thresholds and numbers of a coarsening mechanism that the rows determine.
    remarks : list of str
        What the rows do not determine, a sentence each.
    """

    NUMBERS: ClassVar[tuple[str, ...]] = ("estimate", "std_error", "z", "p", "lower", "upper")

    covariance: NDArray[np.float64]
    errors: str
    loglik: float
    loglik_null: float | None
    n: float
    n_parameters: int
    remarks: list[str]
    is_robust: bool
    parts: Parts
    shown: NDArray[np.float64]  # makes these weights of the learner's own
    inner: NDArray[np.float64]  # the covariance at the means of the features
    rows_counted: str
    fitted: _Fitted | None = None

    @property
    def z(self) -> NDArray[np.float64]:
        """Estimates over their standard errors; NaN where these are 0 or NaN."""
        out = np.full(len(self.estimate), np.nan)
        return np.divide(self.estimate, self.std_error, out=out, where=self.std_error > 0.0)

    @property
    def p(self) -> NDArray[np.float64]:
        """How likely it is that z is at least as far from zero if the true number is zero."""
        return 2.0 * ndtr(-np.abs(self.z))

    @property
    def aic(self) -> float | None:
        """Akaike's information criterion; None if errors are robust, as rows are not draws then."""
        return None if self.is_robust else 2.0 * self.n_parameters - 2.0 * self.loglik

    @property
    def bic(self) -> float | None:
        """The Bayesian information criterion; None if errors are robust."""
        size = float(np.log(self.n)) * self.n_parameters
        return None if self.is_robust else size - 2.0 * self.loglik

    @property
    def mcfadden(self) -> float | None:
        """McFadden's R², what features explain of the log-likelihood; None if it is unknown."""
        return 1.0 - self.loglik / self.loglik_null if self.loglik_null else None

    def to_dict(self) -> dict[str, Any]:
        """Return all numbers as plain data, as JSON has it.

        Returns
        -------
        numbers : dict
            `terms`, a list with a dict for each weight and threshold, and what holds for the model.
        """
        names = [*self.columns, *self.NUMBERS]
        numbers = np.stack([getattr(self, name) for name in self.NUMBERS], axis=1).tolist()
        terms = [
            dict(zip(names, [*term, *line], strict=True))
            for term, line in zip(self.terms, numbers, strict=True)
        ]
        about = ("level", "errors", "n", "n_parameters", "loglik", "loglik_null", "aic", "bic")
        return {"terms": terms} | {
            name: getattr(self, name)
            for name in (*about, "mcfadden", "unit", "reference", "remarks")
        }

    def cells(self) -> list[list[str]]:
        """Return the table as it is printed.

        Returns
        -------
        lines : list of list of str
            A heading, the weights, a heading, the thresholds.
        """
        head = ["estimate", "std. error", "z", "p", "lower", "upper"]
        numbers = np.stack([self.estimate, self.std_error, self.z, self.lower, self.upper], axis=1)
        lines = [["weight", *head]]
        for t, (kind, feature, label) in enumerate(self.terms):
            if kind == "threshold" and label == self._classes[0]:
                lines.append(["threshold", *[""] * len(head)])
            name = str(feature) if kind == "weight" else f"above {label}"
            if self.std_error[t] > 0.0:
                cells = [f"{value:.4g}" for value in numbers[t]]
                lines.append([name, *cells[:3], _p(self.p[t]), *cells[3:]])
            else:  # an offset, a word that others are relative to, or not determined
                lines.append([name, f"{self.estimate[t]:.4g}", *[""] * (len(head) - 1)])
        return lines

    def to_latex(self) -> str:
        """Return the table as it is printed, as LaTeX.

        Returns
        -------
        table : str
            A tabular environment.
        """
        cells = [[cell.translate(LATEX) for cell in line] for line in self.cells()]
        signed = [[name, *(cell.replace("-", "$-$") for cell in line)] for name, *line in cells]
        lines = [" & ".join(line) + " \\\\" for line in signed]
        head, rule = lines[0], "\\hline"
        body = ["\\begin{tabular}{lrrrrrr}", rule, head, rule, *lines[1:], rule, "\\end{tabular}"]
        return "\n".join(body) + "\n"

    @property
    def notes(self) -> list[str]:
        """What is to be said of the table, a sentence each."""
        name = "log pseudo-likelihood" if self.is_robust else "log-likelihood"
        facts = [self.rows_counted, f"{name} {self.loglik:.6g}", f"{self.n_parameters} parameters"]
        if self.aic is not None and self.bic is not None:
            facts += [f"AIC {self.aic:.6g}", f"BIC {self.bic:.6g}"]
        if self.mcfadden is not None:
            facts.append(f"McFadden's R2 {self.mcfadden:.4f}")
        learner = self.parts.learner
        notes = [", ".join(facts), f"{self.level:.3g} intervals; errors from {self.errors}"]
        notes.append(f"weights are per {self.unit}, on the scale of {learner.link_function.scale}")
        if self.reference:
            notes.append(f"words are relative to {self.reference}")
        if scale_of_features(self.parts).is_centred:
            words = " and these words" if self.reference else ""
            notes.append(f"thresholds are those of a row with the mean of each number{words}")
        notes += self.remarks
        if learner.alpha > 0.0:
            notes.append(
                f"with a penalty, alpha={learner.alpha:g}: fit with alpha=0 to report numbers"
            )
        if (learner.maximum_["ends"] @ [-1, 1] > 0).any():
            notes.append(f"ranges are {_about_ranges(learner)}")
            if learner.coarsening == "auto":
                notes.append(
                    "how ranges arose was chosen, and errors do not include that: say "
                    f"coarsening={learner.maximum_['mechanism']!r} if you know it"
                )
        if self.fitted is None:
            lacking = "" if self.mcfadden is not None else "McFadden's R2, "
            notes.append(
                f"not kept with the model: {lacking}proportional odds, errors by groups; "
                "pril.inference.infer(model, X, y) finds them"
            )
        return notes

    # --- What follows from them ---

    def probabilities(self, X: FeaturesLike) -> Intervals:
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
        features = self._features("probabilities", X)
        n, classes = len(features), self._classes
        numbers = self._expected(features, np.eye(len(classes)), eye_array(n, format="csr"))
        return self._intervals("probability", ("row", "class"), range(n), classes, *numbers)

    def numbers(
        self,
        X: FeaturesLike,
        values: dict[str, ArrayLike],
        *,
        by: LabelsLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Intervals:
        """Return means of numbers that belong to the classes, with their intervals.

        Parameters
        ----------
        X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features)
            Features, as the model takes them.
        values : dict of array-like of shape (n_classes,)
            Numbers of the classes, lowest first, each under its name. With a `Scale` of K brackets,
            these are ``scale.mean(np.eye(K))`` for the mean, and ``scale.exceedance(np.eye(K), 5)``
            for the probability of 5 or more.
        by : array-like of shape (n_samples,), default=None
            Group of each row, such as a region. The result has the mean of the rows of each group.
            None: each row is by itself.
        sample_weight : array-like of shape (n_samples,), default=None
            Weight of each row in the mean of its group.

        Returns
        -------
        numbers : Intervals
            A row for each row of X, or for each group. The rows themselves are taken as given.
            Numbers between 0 and 1 are chances: their intervals are made for the log odds.
        """
        if not isinstance(values, dict) or not values:
            raise InputTypeError(f"values must be a dict of numbers of the classes, got {values!r}")
        given = {
            called: read_numbers(each, f"values[{called!r}]") for called, each in values.items()
        }
        for called, number in given.items():
            if number.shape != (len(self._classes),) or not np.isfinite(number).all():
                raise InputError(
                    f"values[{called!r}] must be {len(self._classes)} finite numbers, one for each "
                    "class"
                )
        features = self._features("numbers", X)
        n, name = len(features), "row"
        groups, place = list(range(n)), np.arange(n)
        if by is not None:
            named, place = read_groups(by, n, name="by")
            groups, name = named.tolist(), "group"
        weight = np.ones(n) if sample_weight is None else read_weights(sample_weight, n)
        whole = np.bincount(place, weight, len(groups))
        if not whole.all():
            empty = groups[int(np.argmin(whole))]
            raise InputError(f"sample_weight is zero for every row of the {name} {empty!r}")
        mean = csr_array((weight / whole[place], (place, np.arange(n))), shape=(len(groups), n))
        numbers = self._expected(features, np.array([*given.values()]), mean)
        return self._intervals("number", (name, "number"), groups, given, *numbers)

    def _expected(self, features: Array, values: Array, mean: csr_array) -> Iterator[Array]:
        """Yield means of numbers of the classes, their errors, and the ends of intervals."""
        below, above, density, _ = self._sides(features)
        p = between_cuts(below.T, above.T).T
        d, columns = features.shape[1], []
        for number in values:
            steps = np.diff(number)
            cuts = np.flatnonzero(steps)
            by_cut = -density[:, 1 + cuts] * steps[cuts]
            slopes = mean @ np.hstack([-by_cut.sum(axis=1)[:, np.newaxis] * features, by_cut])
            used = np.concatenate([np.arange(d), d + cuts])
            variance = ((slopes @ self.inner[np.ix_(used, used)]) * slopes).sum(axis=1)
            estimate, error = mean @ (p @ number), np.sqrt(np.maximum(variance, 0.0))
            is_chance = number.min() >= 0.0 and number.max() <= 1.0
            columns.append([estimate, error, *self._ends(estimate, error, is_chance=is_chance)])
        yield from np.stack(columns, axis=2)

    def _ends(
        self, estimate: Array, error: Array, *, is_chance: bool = False
    ) -> tuple[Array, Array]:
        """Return the ends of intervals, which are made for the log odds of chances."""
        half = _quantile(self.level) * error
        if not is_chance:
            return estimate - half, estimate + half
        inside = np.clip(estimate, TINY, 1.0 - np.finfo(float).eps)
        half /= np.maximum(inside * (1.0 - inside), TINY)
        return expit(logit(inside) - half), expit(logit(inside) + half)

    def marginal_effects(
        self, X: FeaturesLike | None = None, sample_weight: ArrayLike | None = None
    ) -> Intervals:
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
        rows = self._needed("marginal_effects()").rows if X is None else None
        features = self._features("marginal effects", X, rows)
        weight = np.ones(len(features)) if rows is None else rows.whole.weight
        if rows is None and sample_weight is not None:
            weight = read_weights(sample_weight, len(features))
        if not weight.any():
            raise InputError("sample_weight is zero for every row: nothing to average")
        weight = weight / weight.sum()
        _, _, density, tilt = self._sides(features)
        change = density * tilt * weight[:, np.newaxis]
        d, w, units = features.shape[1], self.parts.learner.coef_, self.shown
        # How the slopes of the chance to be below each cut change, with weights and thresholds.
        by = np.zeros((len(self.inner), density.shape[1]))
        by[:d] = -features.T @ change
        inner = np.arange(density.shape[1] - 2)
        by[d + inner, inner + 1] = change.sum(axis=0)[1:-1]
        per_score, by = -np.diff(weight @ density), -np.diff(by)
        # An effect is a weight times a slope.
        own, moved = units @ w, self.inner @ by
        variance = np.outer(own**2, np.einsum("ij,ij->j", by, moved))
        variance += 2.0 * np.outer(own, per_score) * (units @ moved[:d])
        variance += np.outer(((units @ self.inner[:d, :d]) * units).sum(axis=1), per_score**2)
        effects, error = np.outer(own, per_score), np.sqrt(np.maximum(variance, 0.0))
        error[~self._is_known[:d]] = np.nan
        numbers = effects, error, *self._ends(effects, error)
        names = ("feature", "class")
        return self._intervals("effect", names, self.feature_names, self._classes, *numbers)

    def proportional_odds(self) -> ProportionalOdds:
        """Test whether the weights are the same at each threshold, as the model assumes.

        It is a score test. It compares the derivatives of the likelihood by the weights of each
        threshold with their information or, if errors are robust, with their spread over groups or
        rows. Labels must be exact, or ranges at random. A model that has learned how classes become
        ranges is refused, because the mechanism can hide or feign a weight that changes.

        Returns
        -------
        tests : ProportionalOdds
            A test of all features, and one of each. A small p speaks against the assumption.
        """
        fitted = self._needed("proportional_odds()")
        problem = fitted.fit.problem
        theta = problem.split(fitted.fit.maximum.x)[2]
        # Thresholds of a class that has vanished are one.
        place = np.cumsum(np.append(0, ~vanished(theta, fitted.rows.n_rows)))
        n_cuts = int(place[-1]) + 1
        if problem.mechanism.name != "random" or isinstance(problem.mechanism, Free):
            raise InputError(
                "proportional odds cannot be tested where the mechanism of ranges is learned: take "
                "the rows with exact labels"
            )
        if n_cuts < 2:
            raise InputError("proportional odds are about two or more thresholds, and there is one")
        d = problem.d
        is_bounded = ~self.parts.learner.maximum_["unbounded"][:, :d].any(axis=0)
        # Not the scale of the fit: all words of a column, which determine each other, are tested.
        varies = (fitted.rows.moments.spread > 0.0) & self._is_known[:d]
        varies[[] if problem.offset is None else [problem.offset]] = False
        free = np.flatnonzero(varies & is_bounded)
        width = len(free) + 1
        if n_cuts * width > MAX_GENERAL:
            raise InputError(
                f"{n_cuts * width:,} weights and thresholds are too many for a test of "
                f"proportional odds: the limit is {MAX_GENERAL:,}; take fewer features"
            )
        general = _general(fitted, len(theta), free)
        names = self.feature_names
        cells = np.zeros((n_cuts, width, len(theta), width))
        cells[place, :, np.arange(len(theta))] = np.eye(width)
        own = cells.reshape(n_cuts, width, -1)
        # What the model has: a threshold each, and weights that all share.
        shared = np.vstack([own[:, 0], own[:, 1:].sum(axis=0)]).T
        tests = {names[j]: _test_of(0.0, 0) for j in np.flatnonzero(varies | ~is_bounded)}
        for k, j in enumerate(free):
            apart = np.vstack([shared.T, own[1:, k + 1]]).T
            tests[names[j]] = _score_test(*general, shared, apart)
        every = cells.reshape(n_cuts * width, -1).T
        return ProportionalOdds(_score_test(*general, shared, every), tests)

    def _intervals(
        self,
        kind: str,
        columns: tuple[str, str],
        rows: Sequence[object],
        parts: Iterable[object],
        *numbers: Array,
    ) -> Intervals:
        """Return numbers of rows, or of what there is a row for, and of parts of these."""
        of_numbers: dict[str, Any] = dict(zip(Intervals.NUMBERS, numbers, strict=True))
        terms, level, unit = [*product(rows, parts)], self.level, self.unit
        return Intervals(
            kind=kind, columns=columns, terms=terms, level=level, unit=unit, **of_numbers
        )

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, in the order of the weights."""
        return [feature for kind, feature, _ in self.terms if kind == "weight"]

    @property
    def _classes(self) -> Array:
        return self.parts.learner.order_

    @property
    def _is_known(self) -> Array:
        """Which terms the rows determine."""
        return ~np.isnan(np.diagonal(self.covariance))

    def _features(self, what: str, X: FeaturesLike | None, rows: InMemory | None = None) -> Array:
        """Return features less the means of those that have a weight; refuse what has no errors."""
        if len(self.parts.learner.maximum_["growing"]):
            raise InputError(f"{what} have no errors here: {self.remarks[0]}")
        learner = self.parts.learner
        if rows is None:
            return dense_rows(learner, self.parts.transform(X)) - _means(learner)
        features = rows.whole.X
        dense = features.toarray() if issparse(features) else features
        return np.asarray(dense, dtype=np.float64) - _means(learner)

    def _sides(self, features: Array) -> Sides:
        """Return P(y < k) of each row and cut, and what belongs to it."""
        learner, means = self.parts.learner, _means(self.parts.learner)
        cut = np.concatenate([[-np.inf], learner.thresholds_ - means @ learner.coef_, [np.inf]])
        return learner.link_function.sides(cut - (features @ learner.coef_)[:, np.newaxis])

    def _needed(self, what: str) -> _Fitted:
        if self.fitted is None:
            raise InputError(
                f"{what} needs the rows that the model learned from: infer(model, X, y)"
            )
        return self.fitted


def _means(learner: OrderedLogit) -> Array:
    """Return the means of the features that have a weight, and zeros for the others."""
    means: Array = learner.feature_means_.copy()
    means[learner.maximum_["unused"]] = 0.0
    return means


def _about_ranges(learner: OrderedLogit) -> str:
    """Say how ranges arose, and what the log-likelihood is of."""
    if len(learner.maximum_["target"]):
        return (
            "given with chances that were learned for each class: the log-likelihood has the "
            "chances of labels in it, also of exact ones, unlike that of other programs"
        )
    if learner.maximum_["mechanism"] == "random":
        return "at random: the log-likelihood is that of interval-censored classes, as elsewhere"
    return (
        "shared offsets: the log-likelihood has the chances of ranges in it, given which labels "
        "are exact or wide, unlike that of other programs"
    )


def _general(fitted: _Fitted, n_cuts: int, free: Array) -> tuple[Array, Array, Array | None]:
    """Return the derivatives of a model with weights of its own at each threshold.

    They are the gradient, the expected information, and the squares of what groups add; None if not
    robust. The information that is observed would be far off where a class has few rows.
    """
    rows, width, problem = fitted.rows, len(free) + 1, fitted.fit.problem
    point, frame = problem.point(fitted.fit.maximum.x), Frame.of(rows.moments, [])
    ends, chances = problem.mechanism.kinds.ends, problem.mechanism.frequencies(rows.weights)[0]
    chances = np.where(rows.weights > 0.0, np.exp(chances), 0.0)  # of labels, given their classes
    cuts = np.concatenate([[-np.inf], point.theta, [np.inf]])
    information = np.zeros((n_cuts + 2, width, n_cuts + 2, width))
    code = np.arange(rows.whole.n_rows) if fitted.groups is None else fitted.groups
    n_groups = int(code.max()) + 1
    added, start = np.zeros((n_groups if fitted.is_robust else 1, n_cuts + 2, width)), 0
    for block in rows.blocks:
        _, scores = point.scores(block)
        Z = frame.view(block.X).dense()[:, free]
        cells = np.hstack([np.ones((block.n_rows, 1)), -Z])
        place = code[start : start + block.n_rows] * fitted.is_robust
        start += block.n_rows
        for terms in point.terms(scores, block.kind):
            own, weight = cells[terms.rows], block.weight[terms.rows]
            for cut, by in zip(terms.places[: len(terms.by_cut)], terms.by_cut, strict=True):
                np.add.at(added, (place[terms.rows], cut), own * (weight * by)[:, np.newaxis])
        below, above, density, _ = problem.link.sides(cuts[:, np.newaxis] - scores)
        for (low, high), chance in zip(ends + [0, 1], chances, strict=True):
            P = between_cuts(below[[low, high]], above[[low, high]])[0]
            each = chance * block.weight / np.maximum(P, TINY)
            slopes = [(low, -density[low]), (high, density[high])]
            for (one, by), (other, more) in product(slopes, slopes):
                curve = (each * by * more)[:, np.newaxis]
                information[one, :, other] += (cells * curve).T @ cells
    n = n_cuts * width
    by_group: Array = added[:, 1:-1].reshape(len(added), n)
    squares = None
    if fitted.is_robust:
        used = len(np.unique(code[rows.whole.weight > 0.0]))
        squares = by_group.T @ by_group * (used / (used - 1.0))
    return by_group.sum(axis=0), information[1:-1, :, 1:-1].reshape(n, n), squares


def _test_of(statistic: float, df: int) -> Test:
    """Return the test with such a statistic."""
    return Test(float(statistic), df, float(chdtrc(df, statistic)) if df > 0 else np.nan)


def _score_test(
    gradient: Array, information: Array, squares: Array | None, small: Array, large: Array
) -> Test:
    """Test whether what a large model has beyond a small one is zero (Rao, 1948; Boos, 1992).

    The derivatives are those at the maximum of the small one. The columns of `small` and `large`
    are the directions that each has. With `squares` of what groups add, it is robust.
    """
    curve = large.T @ information @ large
    large = large / np.sqrt(np.maximum(np.abs(np.diagonal(curve)), TINY))
    inside = information @ small
    # What is left of derivatives when the numbers of the small model follow.
    follow = large - small @ (_inverse(small.T @ inside)[0] @ (inside.T @ large))
    values, vectors = np.linalg.eigh(follow.T @ information @ follow)
    follow = follow @ vectors[:, values > SINGULAR]
    slope = follow.T @ gradient
    inverse, rank = _inverse(follow.T @ (information if squares is None else squares) @ follow)
    # Fewer groups than numbers say nothing.
    return _test_of(float(slope @ inverse @ slope), len(slope) if rank == len(slope) else 0)


def _inverse(matrix: Array) -> tuple[Array, int]:
    """Return the inverse of a matrix of squares, of as much as is not zero, and its rank."""
    size = np.sqrt(np.maximum(np.diagonal(matrix), TINY))
    values, vectors = np.linalg.eigh(matrix / np.outer(size, size))
    used = values > SINGULAR
    root = vectors[:, used] / np.sqrt(values[used]) / size[:, np.newaxis]
    return root @ root.T, int(used.sum())


# --- Functions -----------------------------------------------------------------------------------


def infer(
    model: BaseEstimator,
    X: FeaturesLike | None = None,
    y: LabelsLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    weights: Literal["counts", "sampling"] | None = None,
    groups: LabelsLike | None = None,
    level: float = 0.95,
    per: Literal["unit", "sd"] = "unit",
) -> Inference:
    """Return standard errors, tests and intervals of a model that `fit` has found.

    Parameters
    ----------
    model : estimator
        A fitted `OrderedLogit`, or a Pipeline that ends in one.
    X : {array-like, sparse matrix, DataFrame} of shape (n_samples, n_features), default=None
        The rows that the model learned from, as it takes them. None: what the model kept of them,
        which is enough for the table, without groups and tests.
    y : array-like of shape (n_samples,) or (n_samples, 2), default=None
        Their labels.
    sample_weight : array-like of shape (n_samples,), default=None
        Their weights, if the model learned with weights.
    weights : {"counts", "sampling"}, default=None
        What weights are. "counts": how often each row occurred. "sampling": how many people each
        row of a survey stands for; errors are then robust (a sandwich over rows, or over `groups`),
        as those of ``pweight`` in Stata and `svyolr` in R's survey, and do not change if all
        weights are multiplied. None: counts if all are whole numbers, else of a sample; weights of
        classes and of time count too.
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
    Fit with ``alpha=0`` to report numbers. From exact labels, or ranges with
    ``coarsening="random"``, they are then those of maximum likelihood, and errors are from the
    curvature of the log-likelihood at its maximum. With a penalty, its curvature is added, and
    intervals are those of a Bayesian with the penalty as the prior. It draws weights towards zero
    and, if labels are ranges, thresholds towards an even division of them.

    Where raters shade by shared offsets, the model has also learned how classes become ranges. The
    curvature is then that of all numbers together, so that errors include it. They do not include
    that ``coarsening="auto"`` has chosen the mechanism. With a few hundred rows the choice may be
    wrong, and thresholds are then off. Say "offsets" or "random" if you know how the labels were
    made. The log-likelihood is then that of ranges given the class, which other programs do not
    have; at random it is the one that they print.

    What rows do not determine has no error, and is named: a feature that is constant, or that those
    before it determine, has the weight 0. A feature that separates labels has no maximum.

    Weights are per unit of a column of X. After a `ColumnEncoder`, those of words are relative to
    the most frequent word of their column, and thresholds are those of a row with these words and
    the mean of each number.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.paper.datasets import make_synthetic
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
        raise parts.wrong("model must be an OrderedLogit")
    check_is_fitted(learner)
    level = check_level(level)
    if per not in ("unit", "sd"):
        raise InputError(f"per must be 'unit' or 'sd', got {per!r}")
    if weights not in ("counts", "sampling", None):
        raise InputError(f"weights must be 'counts', 'sampling' or None, got {weights!r}")
    if per == "sd" and scale_of_features(parts).unit != "standard deviation":
        raise InputError(
            "per='sd' needs a model that standardises numbers: put a ColumnEncoder or a "
            "StandardScaler before the learner"
        )
    if (X is None) != (y is None):
        raise InputError("pass both X and y, the rows that the model learned from, or neither")
    if X is None or y is None:
        if sample_weight is not None or groups is not None:
            raise InputError("sample_weight and groups need the rows: pass X and y too")
        try:
            _ = learner.covariance_  # says why there is none
        except AttributeError as error:
            raise InputError(f"{error}: pass X and y, the rows to learn from") from None
        kept = "sampling" if learner.maximum_["sampled"] else "counts"
        if weights not in (kept, None):
            raise InputError(
                f"the model keeps errors for weights={kept!r}: for others, pass X and y"
            )
        return _inference(parts, learner.maximum_["covariance"], level, per)
    fitted, again = _fit_again(learner, parts.transform(X), y, sample_weight, weights, groups)
    errors = Errors(fitted.fit)
    if not errors.is_dense:
        raise InputError(f"{fitted.fit.problem.d:,} features are too many for a covariance")
    inner = errors.covariance(fitted.squares(fitted.fit.problem, fitted.fit.maximum.x))
    _check_same(learner, again, errors, inner)
    return _inference(parts._replace(learner=again), inner, level, per, fitted)


def likelihood_ratio(small: Inference, large: Inference) -> Test:
    """Test whether a larger model is better than a smaller one that it includes.

    Parameters
    ----------
    small, large : Inference
        What `infer` returned for models of the same rows and labels, fitted with ``alpha=0``. The
        features of the smaller one are among those of the larger one, or sums of these.

    Returns
    -------
    test : Test
        A small p says that the larger model is better.

    Notes
    -----
    Where errors are robust, as with groups or sampling weights, a ratio of likelihoods has another
    distribution. The test is then a robust score test at the maximum of the smaller model (Boos,
    1992). Where a mechanism of ranges was learned, each model has learned its own.

    Examples
    --------
    >>> from pril import OrderedLogit
    >>> from pril.paper.datasets import make_synthetic
    >>> from pril.inference import infer, likelihood_ratio
    >>> X, y = make_synthetic(300, random_state=0)
    >>> model = OrderedLogit(alpha=0.0)
    >>> large = infer(model.fit(X, y), X, y)
    >>> small = infer(model.fit(X[:, :1], y), X[:, :1], y)
    >>> likelihood_ratio(small, large).df
    1
    """
    less, more = (_compared(name, result) for name, result in (("small", small), ("large", large)))
    if not (
        np.array_equal(less.rows.kinds.ends, more.rows.kinds.ends)
        and _agree(less.rows.whole, more.rows.whole, "kind", "weight", "offset")
    ):
        raise InputError(
            "small and large must be of the same rows, with the same labels, weights and offset, "
            "in order"
        )
    one, other = less.fit.problem, more.fit.problem
    if one.link is not other.link:
        raise InputError("small and large must have the same link")
    if (one.mechanism.name, type(one.mechanism)) != (other.mechanism.name, type(other.mechanism)):
        raise InputError(
            "small and large must have the same coarsening mechanism: say coarsening='random' or "
            "'offsets'"
        )
    if not _agree(less, more, "is_sampled", "groups"):
        raise InputError("small and large must have the same groups, and weights= of infer")
    within = _within(less, more, small)
    df = large.n_parameters - small.n_parameters
    if df < 1:
        raise InputError(f"large must include small, but it has {df} parameters more")
    if less.is_robust:
        return _robust_ratio(less, more, within)
    gain = more.fit.loglik - less.at_maximum_of(other.mechanism).loglik
    return _test_of(max(2.0 * gain, 0.0), df)


def _agree(one: object, other: object, *names: str) -> bool:
    """Tell whether attributes are equal; they may be None."""
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in names)


def _compared(name: str, result: object) -> _Fitted:
    """Return the fit of a model that is compared."""
    if not isinstance(result, Inference) or result.fitted is None:
        raise InputTypeError(f"{name} must be what infer(model, X, y) returned")
    alpha = result.parts.learner.alpha
    if alpha > 0.0:
        raise InputError(
            f"{name} has a penalty, alpha={alpha:g}: fit with alpha=0 to compare models"
        )
    return result.fitted


def _within(less: _Fitted, more: _Fitted, small: Inference) -> Array:
    """Return what the features of a model are by those of a larger one, each in its frame."""
    frames = more.fit.problem.frame, less.fit.problem.frame
    d = more.fit.problem.d
    products = np.zeros((d + less.fit.problem.d,) * 2)
    for some in batches(less.rows.whole.n_rows, MAX_ROWS):
        blocks = more.rows.whole.take(some), less.rows.whole.take(some)
        views = (frame.view(block.X) for frame, block in zip(frames, blocks, strict=True))
        Z = np.hstack([view.dense() for view in views])
        products += (Z * blocks[0].weight[:, np.newaxis]).T @ Z
    by = np.linalg.lstsq(products[:d, :d], products[:d, d:], rcond=REDUNDANT**2)[0]
    apart = np.vstack([-by, np.eye(len(by.T))])
    left, size = np.diagonal(apart.T @ products @ apart), np.diagonal(products)[d:]
    if (left > REDUNDANT * size).any():
        name = small.feature_names[int(np.argmax(left / np.maximum(size, TINY)))]
        raise InputError(
            f"large must include small, but the feature {shown(name)} of small is not a sum of "
            "features of large"
        )
    return by


def _robust_ratio(less: _Fitted, more: _Fitted, within: Array) -> Test:
    """Test what the larger model has beyond the smaller one, at the maximum of that."""
    problem = replace(more.fit.problem, mechanism=less.fit.problem.mechanism)
    x, d = less.fit.maximum.x, less.fit.problem.d
    both = block_diag(within, np.eye(len(x) - d))
    place = both @ x
    here, free = problem.look_at(place), free_numbers(problem, place)
    if here is None:
        raise InputError("the likelihood of large has no value at the maximum of small")
    small = in_free_numbers(free, both @ free_numbers(less.fit.problem, x))
    squares = more.squares(problem, place)
    return _score_test(
        free.T @ here.gradient,
        free.T @ here.information.dense() @ free,
        None if squares is None else free.T @ squares @ free,
        small,
        np.eye(free.shape[1]),
    )


def _fit_again(
    learner: OrderedLogit,
    features: FeaturesLike,
    y: LabelsLike,
    sample_weight: ArrayLike | None,
    weights: str | None,
    groups: LabelsLike | None,
) -> tuple[_Fitted, OrderedLogit]:
    """Return the maximum for rows, which a model does not keep, and a model that has it."""
    rows_to_rate(learner, features)  # refuses other features
    again = clone(learner).set_params(classes=learner.order_)
    batch = learning.prepare(again, features, y, sample_weight=sample_weight, reset=True)
    if hasattr(learner, "feature_names_in_"):
        again.feature_names_in_ = learner.feature_names_in_
    learning.keep_parameters(again)
    rows = again.labelled_rows(batch)
    found = fitting.fit(rows, again.settings())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # of which `fit` has warned
        again.learn_maximum(found, rows)
    code = None
    if groups is not None:
        labelled = batch.labelled()
        code = read_groups(groups, len(labelled)).code[labelled]
    is_sampled = weights == "sampling" or (weights is None and rows.moments.uneven > 0.0)
    fitted = _Fitted(found, rows, code, is_sampled)
    if fitted.is_robust and fitted.n_groups < 2:
        what = "groups must name" if groups is not None else "robust errors need"
        raise InputError(f"{what} at least 2 groups of rows, got {fitted.n_groups}")
    return fitted, again


def _check_same(
    learner: OrderedLogit, again: OrderedLogit, errors: Errors, covariance: Array
) -> None:
    """Refuse a model that is not at the maximum of these rows, where another is."""
    if errors.separation.features.size:
        return  # there is no maximum
    here, there = (np.concatenate([each.coef_, each.thresholds_]) for each in (learner, again))
    apart, means = here - there, _means(again)
    apart[len(means) :] -= means @ apart[: len(means)]  # the errors are those at the means
    error = np.sqrt(np.diagonal(covariance))
    far = np.abs(apart) > MAX_ERRORS_AWAY * error + 1e-9 * (1.0 + np.abs(here))
    if far.any():
        j = int(np.argmax(far))
        raise InputError(
            f"the model was not fitted to these rows: a weight or threshold is {here[j]:.6g}, and "
            f"{there[j]:.6g} for these; pass the rows, labels and weights of its last fit"
        )


def _inference(
    parts: Parts, inner: Array, level: float, per: str, fitted: _Fitted | None = None
) -> Inference:
    """Return the result, given the covariance of the learner's own numbers."""
    learner, maximum = parts.learner, parts.learner.maximum_
    is_sampled = maximum["sampled"] if fitted is None else fitted.is_sampled
    is_robust = is_sampled if fitted is None else fitted.is_robust
    kinds = Kinds(maximum["ends"], len(learner.order_))
    is_drawn = learner.alpha > 0.0 or (maximum["has_prior"] and maximum["mechanism"] != "random")
    if not is_drawn and SeenClasses.of(kinds, maximum["by_kind"]).kinds.n_classes == 1:
        raise InputError(
            "the labels do not tell any two classes apart, so there is nothing to infer"
        )
    d, labels = len(learner.coef_), learner.order_.tolist()
    terms: list[tuple[str, Any, Any]] = [("weight", name, None) for name in parts.names]
    terms += [("threshold", None, label) for label in labels[:-1]]
    relative, shared = parts.centre_words(np.eye(d), at="reference")
    own: Array = relative.T
    if per == "unit":
        own = own / units_of_features(parts.steps, d)[:, np.newaxis]
    whole = np.eye(len(inner))
    whole[:d, :d], whole[d:, :d] = own, -shared
    estimate = whole @ np.concatenate([learner.coef_, learner.thresholds_])
    whole[d:, :d] += _means(learner)  # thresholds are at the means from here on
    every = csr_array(whole)
    covariance = every @ inner @ every.T
    has_none, unknown = _not_identified(learner, whole, inner)
    estimate[has_none] = 0.0
    covariance[unknown] = covariance[:, unknown] = np.nan
    weight = maximum["weight"] / maximum["rows"] if is_sampled else 1.0
    null = _loglik_of_classes(learner) if fitted is None else fitted.loglik_null
    std_error = np.sqrt(np.diagonal(covariance))
    half = _quantile(level) * std_error
    return Inference(
        terms=terms,
        estimate=estimate,
        std_error=std_error,
        lower=estimate - half,
        upper=estimate + half,
        covariance=covariance,
        level=level,
        errors=_source(learner, is_sampled, fitted),
        loglik=maximum["loglik"] / weight,
        loglik_null=None if null is None else null / weight,
        n=maximum["rows"] if is_sampled else maximum["weight"],
        n_parameters=maximum["parameters"],
        unit="standard deviation" if per == "sd" else "unit",
        reference=reference_of_words(parts),
        remarks=_remarks(parts, has_none, unknown),
        is_robust=is_robust,
        parts=parts,
        shown=own,
        inner=inner,
        rows_counted=_counted(learner, is_sampled),
        fitted=fitted,
    )


def _not_identified(learner: OrderedLogit, whole: Array, inner: Array) -> tuple[Array, Array]:
    """Return which terms have no weight, and which have no error, as rows do not determine them.

    `whole` has what each term is made of. Where features determine each other, the last ones have
    no weight, so that terms with only the others are determined.
    """
    d, offset, maximum = len(learner.coef_), learner.settings().offset, learner.maximum_
    has_none = np.zeros(len(whole), dtype=bool)
    for j, alias in zip(maximum["unused"], maximum["aliases"], strict=True):
        if j == offset:
            continue
        free = -alias  # what can be added to the weights
        free[j] = 1.0
        along = np.abs(whole[:d, :d] @ free) > DETERMINED * (np.abs(whole[:d, :d]) @ np.abs(free))
        has_none[:d] |= (whole[:d, j] != 0.0) & along
        has_none[j] |= not alias.any() and not whole[j].any()  # the only word of a column
    unbounded = maximum["unbounded"].T
    moved = np.abs(whole @ unbounded)
    moves = moved > DETERMINED * (np.abs(whole) @ np.abs(unbounded))
    moves[d:] &= moved[d:] > MOVED
    unknown = has_none | moves.any(axis=1)
    unknown[d:] |= np.diagonal(inner)[d:] == 0.0
    return has_none, unknown


def _remarks(parts: Parts, has_none: Array, unknown: Array) -> list[str]:
    """Return what rows do not determine."""
    learner, maximum, remarks = parts.learner, parts.learner.maximum_, []
    growing = maximum["growing"]
    if not unknown[growing].all():  # words that are relative to another do not grow, but this does
        growing = np.flatnonzero((unknown & ~has_none)[: len(learner.coef_)])
    if not (maximum["converged"] or len(growing)):
        remarks.append(
            f"not the maximum: fit ended after max_iter={learner.max_iter} steps, so that errors "
            "and tests are not valid"
        )
    if len(growing):
        remarks.append(
            "no maximum: " + separated(parts.names, growing, learner.order_, maximum["separated"])
        )
    if has_none.any():
        names = [parts.names[j] for j in np.flatnonzero(has_none)]
        remarks.append(
            f"not identified: {', '.join(names)} (constant, or determined by others): weight 0, no "
            "error"
        )
    kinds, theta = Kinds(maximum["ends"], len(learner.order_)), learner.thresholds_
    is_empty = without_rows(kinds, maximum["by_kind"])
    place = SeenClasses.of(kinds, maximum["by_kind"]).place
    has_no_room = np.concatenate([[False], vanished(theta, maximum["rows"]), [False]])
    if maximum["mechanism"] == "random":
        has_no_room |= (place[1:] == place[:-1]) & (place[1:] >= 0)
    for said, some in (
        ("classes without rows", is_empty),
        ("classes that no row is likely to have", has_no_room & ~is_empty),
    ):
        if some.any():
            remarks.append(f"{said}: {', '.join(map(str, learner.order_[some]))}")
    apart = place[1:-1] < 0
    if apart.any() and maximum["mechanism"] == "random":
        classes = ", ".join(map(str, learner.order_[:-1][apart]))
        who = "only a prior says" if maximum["has_prior"] else "labels do not say"
        remarks.append(f"{who} where the thresholds are above {classes}")
    return remarks


def _source(learner: OrderedLogit, is_sampled: bool, fitted: _Fitted | None) -> str:
    """Say where errors are from."""
    maximum = learner.maximum_
    if is_sampled or (fitted is not None and fitted.is_robust):
        groups = fitted is not None and fitted.groups is not None
        n = maximum["rows"] if fitted is None else fitted.n_groups
        source = f"{n:,} {'groups of rows' if groups else 'rows'} (sandwich)"
        return source + (", weights are those of a sample" if is_sampled else "")
    if not maximum["has_prior"]:
        return "the curvature of the likelihood"
    if learner.coarsening == "random" or not any(low < high for low, high in maximum["ends"]):
        return "the curvature of the likelihood and the penalty"
    learned = ", the mechanism of ranges included" if len(maximum["phi"]) else ""
    return f"the curvature of the likelihood and its priors{learned}"


def _counted(learner: OrderedLogit, is_sampled: bool) -> str:
    """Say how many rows there are."""
    rows, weight = learner.maximum_["rows"], learner.maximum_["weight"]
    if is_sampled:
        return f"{rows:,} rows with sampling weights"
    counted = f", counted by the weights of {rows:,}" if weight != rows else ""
    return f"{weight:,.{0 if weight == round(weight) else 2}f} rows{counted}"


def _loglik_of_classes(learner: OrderedLogit) -> float | None:
    """Return the log-likelihood without features; None with ranges or an offset."""
    low, high = learner.maximum_["ends"].T
    rows = learner.maximum_["by_kind"]
    if (low < high)[rows > 0.0].any() or learner.offset is not None:
        return None
    return float(xlogy(rows, rows / rows.sum()).sum())


def _quantile(level: float) -> float:
    return float(ndtri((1.0 + level) / 2.0))


def _p(p: float) -> str:
    return f"< {MIN_SHOWN_P:.4f}" if p < MIN_SHOWN_P else f"{p:.4f}"
