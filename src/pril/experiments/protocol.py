"""How the experiments are run: streams, label types, learners, running means of losses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed

from pril.core.arrays import Array
from pril.datasets import load_abalone, load_parkinsons, make_synthetic
from pril.errors import MissingFileError, OverflowedError, UnavailableError
from pril.evaluate import progressive
from pril.features import PolynomialMap
from pril.labels import make_intervals
from pril.learners.linear import PRIL, MulticlassPerceptron, PRank, WidrowHoff

SYNTHETIC, PARKINSONS, ABALONE = "Synthetic", "Parkinsons", "Abalone"
DATA_SETS = (SYNTHETIC, PARKINSONS, ABALONE)
N_CLASSES = {SYNTHETIC: 5, PARKINSONS: 10, ABALONE: 4}
FRACTIONS = (0.0, 0.6, 0.7, 0.8, 0.9, 1.0)
TYPES: tuple[Literal[1, 2], ...] = (1, 2)
STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # of Widrow-Hoff
VARIANTS = (  # other ways to prepare the data: data set, variant, description
    (PARKINSONS, "motor", "Parkinsons without motor_UPDRS, with the patient's number"),
    (PARKINSONS, "deciles", "Parkinsons in deciles"),
    (ABALONE, "one-hot", "Abalone with one-hot Sex"),
)
POINTS = 120  # rounds at which a curve is recorded


@dataclass(frozen=True)
class Settings:
    """Number of repetitions, seed and number of processes.

    Attributes
    ----------
    runs : int
        Number of repetitions, each with a new order or a new sequence of rows.
    seed : int
        Seed of all random numbers.
    jobs : int
        Number of processes. The result does not depend on it.
    """

    runs: int = 100
    seed: int = 0
    jobs: int = 1


class Curve(NamedTuple):
    """A running mean of losses over rounds, averaged over repetitions."""

    data: str
    name: str
    rounds: Array
    mean: Array
    error: Array  # standard error of the mean over repetitions


# --- Streams -------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _table(data: str, variant: str) -> tuple[Array, Array]:
    """Return a real data set, mapped to the feature space of its kernel."""
    if data == ABALONE:
        X, y = load_abalone(sex="one-hot" if variant == "one-hot" else "code")
        return PolynomialMap(3, gamma=1.0, coef0=1.0).fit_transform(X), y
    return load_parkinsons(
        drop="motor" if variant == "motor" else "subject",
        parts="deciles" if variant == "deciles" else "width",
    )


def available_data() -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the data sets that can be used, and why others cannot be fetched."""
    reasons = {}
    for data in (PARKINSONS, ABALONE):
        try:
            _table(data, "")
        except MissingFileError:  # of a folder that the user has named
            raise
        except UnavailableError as error:
            reasons[data] = str(error)
    return tuple(data for data in DATA_SETS if data not in reasons), reasons


def _generator(seed: list[int]) -> np.random.RandomState:
    """Return a generator that is independent of those of all other keys."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


def stream(data: str, seed: list[int], variant: str = "") -> tuple[Array, Array]:
    """Return one repetition's rows, in order, and their exact ranks."""
    rng = _generator(seed)
    if data == SYNTHETIC:
        X, y = make_synthetic(random_state=rng)
        return PolynomialMap(2, gamma=1.0, coef0=1.0).fit_transform(X), y
    X, y = _table(data, variant)
    order = rng.permutation(len(y))
    return X[order], y[order]


# --- Runs ----------------------------------------------------------------------------------------


class Trial(NamedTuple):
    """One curve to compute: a learner, its labels, and what it is judged on."""

    name: str
    learner: Any
    kind: Literal[0, 1, 2] = 0  # label type; 0: exact
    fraction: float = 0.0
    judged_on_exact: bool = True


def _losses(trial: Trial, X: Array, y: Array, classes: range, seed: list[int]) -> Array:
    target = y
    if trial.kind:
        chosen = [*seed, trial.kind, round(100 * trial.fraction)]
        target = make_intervals(
            y, trial.kind, trial.fraction, classes=classes, random_state=_generator(chosen)
        )
    learner = type(trial.learner)(**trial.learner.get_params())
    try:
        progress = progressive(learner, X, target, classes)
    except OverflowedError:  # the step is too large: its loss counts as infinite
        return np.full(len(y), np.inf)
    return np.abs(progress.predictions - y) if trial.judged_on_exact else progress.losses


def _run(data: str, trials: list[Trial], variant: str, key: list[int], rounds: Array) -> Array:
    """Return the running means of all trials in one repetition."""
    X, y = stream(data, key, variant)
    classes = range(1, N_CLASSES[data] + 1)
    losses = [_losses(trial, X, y, classes, key) for trial in trials]
    return np.cumsum(losses, axis=1)[:, rounds - 1] / rounds


def curves(
    data: str, trials: list[Trial], settings: Settings, variant: str = "", *, advance: Any = None
) -> list[Curve]:
    """Run trials on a data set and return their curves."""
    n_rounds = 10_000 if data == SYNTHETIC else len(_table(data, variant)[1])
    rounds = np.unique(np.geomspace(10, n_rounds, POINTS).astype(int))
    keys = [[settings.seed, DATA_SETS.index(data), run] for run in range(settings.runs)]
    jobs = Parallel(n_jobs=settings.jobs, return_as="generator")(
        delayed(_run)(data, trials, variant, key, rounds) for key in keys
    )
    runs = []
    for means in jobs:
        runs.append(means)
        if advance is not None:
            advance()
    with np.errstate(invalid="ignore"):  # of losses that are infinite
        errors = np.std(runs, axis=0) / np.sqrt(max(settings.runs - 1, 1))
    return [
        Curve(data, trial.name, rounds, mean, error)
        for trial, mean, error in zip(trials, np.mean(runs, axis=0), errors, strict=True)
    ]


# --- The figures' trials -------------------------------------------------------------------------


def figure1(settings: Settings) -> tuple[Array, Array]:
    """Return the synthetic set of the first repetition: points and ranks.

    Parameters
    ----------
    settings : Settings
        Only the seed is used.

    Returns
    -------
    X : ndarray of shape (10000, 2)
        Points.
    y : ndarray of shape (10000,)
        Ranks.

    Examples
    --------
    >>> from pril.experiments import Settings, figure1
    >>> X, y = figure1(Settings(seed=0))
    >>> X.shape
    (10000, 2)
    """
    return make_synthetic(random_state=_generator([settings.seed, 0, 0]))


def fraction_trials() -> list[Trial]:
    """Return Figure 2's trials: PRIL, judged on the labels it learns from."""
    return [
        Trial(f"Type {kind}, {fraction:.0%}", PRIL(average=False), kind, fraction, False)
        for kind in TYPES
        for fraction in FRACTIONS
    ]


def comparison_trials() -> list[Trial]:
    """Return Figure 3's trials: all are judged on exact labels; the baselines learn from them."""
    trials = [Trial(f"PRIL, Type {kind}", PRIL(average=False), kind, 1.0) for kind in TYPES]
    trials.append(Trial("PRank", PRank(average=False)))
    trials += [Trial(f"averaged PRIL, Type {kind}", PRIL(), kind, 1.0) for kind in TYPES]
    for intercept, suffix in ((False, ""), (True, " with intercept")):
        perceptron = MulticlassPerceptron(average=False, fit_intercept=intercept)
        trials.append(Trial(f"MCP{suffix}", perceptron))
        for normalize in (False, True):
            for rate in STEPS:
                name = f"Widrow-Hoff{suffix}, {'normalised ' if normalize else ''}step {rate}"
                learner = WidrowHoff(
                    average=False, rate=rate, normalize=normalize, fit_intercept=intercept
                )
                trials.append(Trial(name, learner))
    return trials


def figure2(
    settings: Settings, data_sets: tuple[str, ...] = DATA_SETS, *, advance: Any = None
) -> list[Curve]:
    """Run Figure 2: average interval loss against rounds, for each share of interval labels.

    Parameters
    ----------
    settings : Settings
        Repetitions, seed and jobs.
    data_sets : tuple of str, default=("Synthetic", "Parkinsons", "Abalone")
        Which to run.
    advance : callable, default=None
        Called after each repetition.

    Returns
    -------
    curves : list of Curve
        One for each data set, label type and share.

    Examples
    --------
    >>> from pril.experiments import Settings, figure2
    >>> curves = figure2(Settings(runs=1), ("Synthetic",))
    >>> len(curves), curves[0].name
    (12, 'Type 1, 0%')
    """
    return [
        curve
        for data in data_sets
        for curve in curves(data, fraction_trials(), settings, advance=advance)
    ]


def figure3(
    settings: Settings, data_sets: tuple[str, ...] = DATA_SETS, *, advance: Any = None
) -> list[Curve]:
    """Run Figure 3: average absolute error on exact labels, PRIL against the baselines.

    Parameters
    ----------
    settings : Settings
        Repetitions, seed and jobs.
    data_sets : tuple of str, default=("Synthetic", "Parkinsons", "Abalone")
        Which to run.
    advance : callable, default=None
        Called after each repetition.

    Returns
    -------
    curves : list of Curve
        One for each data set and learner. Widrow-Hoff has one for each step, and one for the best
        step in hindsight.

    Examples
    --------
    >>> from pril.experiments import Settings, figure3
    >>> curves = figure3(Settings(runs=1), ("Synthetic",))
    >>> curves[0].name
    'PRIL, Type 1'
    """
    result = []
    for data in data_sets:
        ran = curves(data, comparison_trials(), settings, advance=advance)
        result += [curve for curve in ran if "Widrow-Hoff" not in curve.name]
        for suffix in ("", " with intercept"):
            steps = [curve for curve in ran if curve.name.startswith(f"Widrow-Hoff{suffix}, ")]
            best = min(steps, key=lambda curve: curve.mean[-1])
            result.append(best._replace(name=f"Widrow-Hoff{suffix}, best step"))
            result += steps
    return result
