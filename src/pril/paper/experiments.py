"""The paper's experiments: its figures as arrays, and a verdict on each of its claims."""

from __future__ import annotations

import csv
import math
import tempfile
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from pril.core.arrays import Array
from pril.errors import MissingFileError, OverflowedError, UnavailableError
from pril.evaluate import progressive
from pril.features import PolynomialMap
from pril.labels import make_intervals
from pril.learners.linear import PRIL, MulticlassPerceptron, PassiveAggressive, PRank, WidrowHoff
from pril.online.learning import OnlineClassifier
from pril.paper.datasets import load_abalone, load_parkinsons, make_synthetic
from pril.reporting import template

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["Curve", "Settings", "draw", "figure1", "figure2", "figure3", "judge", "reproduce"]

SYNTHETIC, PARKINSONS, ABALONE = "Synthetic", "Parkinsons", "Abalone"
DATA_SETS = (SYNTHETIC, PARKINSONS, ABALONE)
N_CLASSES = {SYNTHETIC: 5, PARKINSONS: 10, ABALONE: 4}
FRACTIONS = (0.0, 0.6, 0.7, 0.8, 0.9, 1.0)
TYPES: tuple[Literal[1, 2], ...] = (1, 2)
STEPS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)  # of Widrow-Hoff
Variant = tuple[tuple[str, Any], ...]  # what is said to the loader of a data set
VARIANTS: tuple[tuple[str, Variant, str], ...] = (  # other ways to prepare the data
    (PARKINSONS, (("drop", "motor"),), "Parkinsons without motor_UPDRS, with the patient's number"),
    (PARKINSONS, (("parts", "deciles"),), "Parkinsons in deciles"),
    (ABALONE, (("sex", "one-hot"),), "Abalone with one-hot Sex"),
)
POINTS = 120  # rounds at which a curve is recorded
# Okabe and Ito's palette, safe for colour-blind readers.
BLUE, ORANGE, GREEN, RED = "#0072b2", "#e69f00", "#009e73", "#d55e00"
SKY, BLACK = "#56b4e9", "#000000"
FIGURE3_STYLES = {
    "PRIL, Type 1": (BLUE, "-"),
    "PRIL, Type 2": (SKY, "-"),
    "averaged PRIL, Type 1": (BLUE, "--"),
    "averaged PRIL, Type 2": (SKY, "--"),
    "PA-I, Type 1": (GREEN, "-"),
    "PA-I, Type 2": (GREEN, "--"),
    "PRank": (BLACK, "-"),
    "MCP": (ORANGE, "-"),
    "MCP with intercept": (ORANGE, "--"),
    "Widrow-Hoff, best step": (RED, "-"),
    "Widrow-Hoff with intercept, best step": (RED, "--"),
}
CLEAR = 2.0  # standard errors that make a difference clear
DEFAULT_STEP = "normalised step 0.1"  # of our WidrowHoff
CLAIMS = {
    "C1": "The average loss falls with the number of rounds, on all sets and both label types.",
    "C2": "The average interval loss falls as the share of interval labels grows.",
    "C3": "PRIL on intervals, judged on exact labels, beats Widrow-Hoff.",
    "C4": "It beats the multiclass perceptron on Synthetic and Parkinsons.",
    "C5": "It is about as good as PRank, which has exact labels, on Abalone and Parkinsons.",
    "C6": "Training with no interval labels gives the largest loss, each on labels of its share.",
}
ALIKE = 0.10  # relative difference up to which two learners are "about as good"
Advance = Callable[[], None] | None  # what a repetition ends with
Which = Literal["figure1", "figure2", "figure3", "all"]
PAGES = (  # a template, the file made of it, and the macros that it uses
    ("paper.html", "report.html", "parts.html"),
    ("paper.jinja", "report.md", "parts.md"),
)
CORE = ("PRIL, Type 1", "PRIL, Type 2", "PRank", "MCP", "MCP with intercept")


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
def _table(data: str, variant: Variant = ()) -> tuple[Array, Array]:
    """Return a real data set, mapped to the feature space of its kernel."""
    if data == PARKINSONS:
        return load_parkinsons(**dict(variant))
    X, y = load_abalone(**dict(variant))
    return PolynomialMap(3, gamma=1.0, coef0=1.0).fit_transform(X), y


def available_data() -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the data sets that can be used, and why others cannot be fetched."""
    reasons = {}
    for data in (PARKINSONS, ABALONE):
        try:
            _table(data)
        except MissingFileError:  # of a folder that the user has named
            raise
        except UnavailableError as error:
            reasons[data] = str(error)
    return tuple(data for data in DATA_SETS if data not in reasons), reasons


def _generator(seed: list[int]) -> np.random.RandomState:
    """Return a generator that is independent of those of all other keys."""
    return np.random.RandomState(np.random.MT19937(np.random.SeedSequence(seed)))


def stream(data: str, seed: list[int], variant: Variant = ()) -> tuple[Array, Array]:
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
    learner: OnlineClassifier
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
    try:
        progress = progressive(clone(trial.learner), X, target, classes)
    except OverflowedError:  # the step is too large: its loss counts as infinite
        return np.full(len(y), np.inf)
    return np.abs(progress.predictions - y) if trial.judged_on_exact else progress.losses


def _run(data: str, trials: list[Trial], variant: Variant, key: list[int], rounds: Array) -> Array:
    """Return the running means of all trials in one repetition."""
    X, y = stream(data, key, variant)
    classes = range(1, N_CLASSES[data] + 1)
    losses = [_losses(trial, X, y, classes, key) for trial in trials]
    return np.cumsum(losses, axis=1)[:, rounds - 1] / rounds


def curves(
    data: str,
    trials: list[Trial],
    settings: Settings,
    variant: Variant = (),
    *,
    advance: Advance = None,
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
    >>> from pril.paper.experiments import Settings, figure1
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
    successor = PassiveAggressive(average=False, C=0.1)
    trials += [Trial(f"PA-I, Type {kind}", successor, kind, 1.0) for kind in TYPES]
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
    settings: Settings, data_sets: tuple[str, ...] = DATA_SETS, *, advance: Advance = None
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
    >>> from pril.paper.experiments import Settings, figure2
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
    settings: Settings, data_sets: tuple[str, ...] = DATA_SETS, *, advance: Advance = None
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
    >>> from pril.paper.experiments import Settings, figure3
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


def data_sets(curves: list[Curve]) -> list[str]:
    """Return the data sets of curves, in their order."""
    return list(dict.fromkeys(curve.data for curve in curves))


# --- Figures -------------------------------------------------------------------------------------


def draw(
    points: tuple[Array, Array] | None = None,
    figure2: list[Curve] | None = None,
    figure3: list[Curve] | None = None,
) -> dict[str, Figure]:
    """Draw the figures whose data is given.

    Parameters
    ----------
    points : tuple of ndarray, default=None
        Figure 1's points and ranks.
    figure2 : list of Curve, default=None
        Figure 2's curves.
    figure3 : list of Curve, default=None
        Figure 3's curves.

    Returns
    -------
    figures : dict
        Matplotlib figures by name.

    Examples
    --------
    >>> from pril.paper.experiments import Settings, draw, figure1
    >>> list(draw(points=figure1(Settings())))
    ['figure1']
    """
    drawn = {}
    if points is not None:
        drawn["figure1"] = _scatter(*points)
    if figure2 is not None:
        drawn["figure2"] = _fractions(figure2)
    if figure3 is not None:
        drawn["figure3"] = _comparison(figure3)
    return drawn


def _scatter(X: Array, y: Array) -> Figure:
    figure = _figure("Figure 1: the synthetic set (up to 500 points a rank)", 5.2, 5)
    ax = figure.add_subplot()
    marks = zip((BLUE, SKY, GREEN, ORANGE, RED), "ov^sD", strict=True)
    for rank, (color, marker) in enumerate(marks, start=1):
        chosen = X[y == rank][:500]
        ax.plot(*chosen.T, marker, color=color, markersize=2.5, linestyle="", label=f"rank {rank}")
    ax.set(xlabel="$x_1$", ylabel="$x_2$", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    _add_legend(ax, ncols=5, markerscale=2)
    return figure


def _fractions(curves: list[Curve]) -> Figure:
    from matplotlib import colormaps

    sets = data_sets(curves)
    title = "Figure 2: PRIL, judged on the labels it learns from"
    figure = _figure(title, 3.6 * len(sets), 6)
    axes = figure.subplots(len(TYPES), len(sets), sharex="col", squeeze=False)
    by_name = {(curve.data, curve.name): curve for curve in curves}
    shades = colormaps["cividis"](np.linspace(0, 0.9, len(FRACTIONS)))
    for row, kind in enumerate(TYPES):
        for column, data in enumerate(sets):
            ax = axes[row, column]
            for share, color in zip(FRACTIONS, shades, strict=True):
                curve = by_name[data, f"Type {kind}, {share:.0%}"]
                _band(ax, curve, color, "-", f"{share:.0%}")
            ax.set_title(f"{data}, Type {kind}", fontsize=10)
            ax.set_xlabel("rounds" if row == len(TYPES) - 1 else "")
            ax.set_ylabel("average interval loss" if column == 0 else "")
    _add_legend(axes[0, 0], ncols=6, title="share of interval labels")
    return figure


def _comparison(curves: list[Curve]) -> Figure:
    sets = data_sets(curves)
    title = "Figure 3: PRIL learns from intervals alone, the others from exact labels"
    figure = _figure(title, 4 * len(sets), 4.6)
    axes = figure.subplots(1, len(sets), squeeze=False)[0]
    for ax, data in zip(axes, sets, strict=True):
        for curve in curves:
            if curve.data == data and curve.name in FIGURE3_STYLES:
                _band(ax, curve, *FIGURE3_STYLES[curve.name], curve.name)
        ax.set_title(data, fontsize=10)
        ax.set_xlabel("rounds")
    axes[0].set_ylabel("average absolute error, exact labels")
    _add_legend(axes[0], ncols=3)
    return figure


def _figure(title: str, width: float, height: float) -> Figure:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    figure.suptitle(title, fontsize=11)
    return figure


def _add_legend(ax: Axes, **options: Any) -> None:
    """Explain below the figure what the axes show."""
    handles, labels = ax.get_legend_handles_labels()
    place: Literal["outside lower center"] = "outside lower center"
    ax.figure.legend(handles, labels, loc=place, fontsize=9, frameon=False, **options)


def _band(ax: Axes, curve: Curve, color: str | Array, style: str, label: str) -> None:
    """Draw a curve with a band of two standard errors."""
    ax.plot(curve.rounds, curve.mean, style, color=color, linewidth=1.4, label=label)
    low, high = curve.mean - 2 * curve.error, curve.mean + 2 * curve.error
    ax.fill_between(curve.rounds, low, high, color=color, alpha=0.2, linewidth=0)
    ax.set_xscale("log")
    ax.spines[["top", "right"]].set_visible(False)


# --- Claims --------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """A claim of the paper, whether it holds, and the numbers that decide it."""

    claim: str
    text: str
    verdict: str
    evidence: list[str]


class _Case(NamedTuple):
    """One comparison that a claim depends on."""

    condition: str
    holds: bool
    numbers: str


def judge(figure2: list[Curve], figure3: list[Curve]) -> list[Verdict]:
    """Judge the paper's claims C1 to C6 on the curves of its two figures.

    Parameters
    ----------
    figure2 : list of Curve
        As `figure2` returns them.
    figure3 : list of Curve
        As `figure3` returns them.

    Returns
    -------
    verdicts : list of Verdict
        One for each claim: holds, holds in some of the cases, or fails.

    Examples
    --------
    >>> from pril.paper.experiments import Settings, figure2, figure3, judge
    >>> settings = Settings(runs=2)
    >>> sets = ("Synthetic",)
    >>> verdicts = judge(figure2(settings, sets), figure3(settings, sets))
    >>> verdicts[0].claim, verdicts[0].verdict
    ('C1', 'holds')
    """
    by_name = {(curve.data, curve.name): curve for curve in [*figure2, *figure3]}
    shares = {
        f"{data}, Type {kind}": [by_name[data, f"Type {kind}, {share:.0%}"] for share in FRACTIONS]
        for data in data_sets(figure2)
        for kind in TYPES
    }

    def judged(*some: str) -> list[tuple[str, int]]:
        return [(data, kind) for data in data_sets(figure3) if data in some for kind in TYPES]

    ways = ("", " with intercept")
    steps = [f"Widrow-Hoff{way}, {step}" for way in ways for step in ("best step", DEFAULT_STEP)]
    perceptrons = [f"MCP{way}" for way in ways]
    cases = {
        "C1": [_falls(curve) for group in shares.values() for curve in group],
        "C2": [_descends(*group) for group in shares.items()],
        "C3": [_beats(by_name, *on, rival) for on in judged(*DATA_SETS) for rival in steps],
        "C4": [
            _beats(by_name, *on, rival)
            for on in judged(SYNTHETIC, PARKINSONS)
            for rival in perceptrons
        ],
        "C5": [_is_alike(by_name, *on) for on in judged(ABALONE, PARKINSONS)],
        "C6": [_is_largest(*group) for group in shares.items()],
    }
    return [_verdict(claim, text, cases[claim]) for claim, text in CLAIMS.items() if cases[claim]]


def _verdict(claim: str, text: str, cases: list[_Case]) -> Verdict:
    good = [case for case in cases if case.holds]
    where = "; ".join(case.condition for case in good)
    some = f"holds in {len(good)} of {len(cases)} cases: {where}"
    verdict = {len(cases): "holds", 0: "fails"}.get(len(good), some)
    evidence = [
        f"{'yes' if case.holds else 'no'}: {case.condition}: {case.numbers}" for case in cases
    ]
    return Verdict(claim, text, verdict, evidence)


def _last(curve: Curve) -> str:
    if not np.isfinite(curve.mean[-1]):
        return "overflows"
    return f"{curve.mean[-1]:.4f} ± {curve.error[-1]:.4f}"


def _clearly_less(one: Curve, other: Curve, at: int = -1) -> bool:
    """Tell whether a curve ends clearly below a point of another one, its last by default."""
    clear = CLEAR * math.hypot(one.error[-1], other.error[at])
    return bool(one.mean[-1] < other.mean[at] - clear)


def _falls(curve: Curve) -> _Case:
    early = int(np.searchsorted(curve.rounds, curve.rounds[-1] / 10))
    before = f"{curve.mean[early]:.4f} after {curve.rounds[early]} rounds"
    holds = _clearly_less(curve, curve, early)
    numbers = f"{before}, {_last(curve)} at the end"
    return _Case(f"{curve.data}, {curve.name}", holds, numbers)


def _descends(condition: str, group: list[Curve]) -> _Case:
    holds = all(_clearly_less(later, earlier) for earlier, later in pairwise(group))
    return _Case(condition, holds, " > ".join(f"{curve.mean[-1]:.4f}" for curve in group))


def _is_largest(condition: str, group: list[Curve]) -> _Case:
    holds = all(_clearly_less(other, group[0]) for other in group[1:])
    largest = max(curve.mean[-1] for curve in group[1:])
    return _Case(condition, holds, f"{_last(group[0])} without, at most {largest:.4f} with")


def _beats(by_name: dict[tuple[str, str], Curve], data: str, kind: int, rival: str) -> _Case:
    ours, theirs = by_name[data, f"PRIL, Type {kind}"], by_name[data, rival]
    condition = f"{data}, Type {kind}, against {rival}"
    return _Case(condition, _clearly_less(ours, theirs), f"{_last(ours)} against {_last(theirs)}")


def _is_alike(by_name: dict[tuple[str, str], Curve], data: str, kind: int) -> _Case:
    ours, theirs = by_name[data, f"PRIL, Type {kind}"], by_name[data, "PRank"]
    ratio = ours.mean[-1] / theirs.mean[-1]
    numbers = f"{_last(ours)} against {_last(theirs)}, {ratio - 1:+.1%}"
    return _Case(f"{data}, Type {kind}", bool(ratio <= 1 + ALIKE), numbers)


# --- All results ---------------------------------------------------------------------------------


def reproduce(
    out: str | Path,
    which: Which = "all",
    settings: Settings | None = None,
    *,
    progress: Callable[[int], Callable[[], None]] | None = None,
) -> list[Verdict]:
    """Rerun the paper's experiments and write all results into a folder.

    A data set that cannot be downloaded is left out, with a warning; the synthetic one needs no
    download.

    Parameters
    ----------
    out : str or Path
        Folder for figures (PNG and SVG), curves (CSV), `report.md` and `report.html`.
    which : {"all", "figure1", "figure2", "figure3"}, default="all"
        What to run. Verdicts need "all".
    settings : Settings, default=None
        Repetitions, seed and jobs. None is 100 repetitions in one process.
    progress : callable, default=None
        Called once with the number of steps; returns a function that is called after each step.

    Returns
    -------
    verdicts : list of Verdict
        On the paper's claims; empty unless `which` is "all".

    Examples
    --------
    >>> from pril.paper.experiments import Settings, reproduce
    >>> reproduce("output", "figure1", Settings(runs=1))  # doctest: +SKIP
    []
    """
    from matplotlib import rc_context

    template("paper.html")  # a missing package is an error before anything is run
    settings = settings or Settings()
    wanted = ("figure1", "figure2", "figure3") if which == "all" else (which,)
    n_figures = sum(name in wanted for name in ("figure2", "figure3"))
    # A wrong file is an error before anything is run or written.
    sets, reasons = available_data() if n_figures else (DATA_SETS, {})
    if left_out := "; ".join(f"{data} was left out: {why}" for data, why in reasons.items()):
        warnings.warn(left_out, stacklevel=2)
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    tempfile.TemporaryFile(dir=folder).close()  # a folder that cannot be written to is an error now
    variants = [one for one in VARIANTS if one[0] in sets and which == "all"]
    runs = len(sets) * n_figures + len(variants)
    advance = progress(runs * settings.runs) if progress else None

    points = figure1(settings) if "figure1" in wanted else None
    second = figure2(settings, sets, advance=advance) if "figure2" in wanted else None
    third = figure3(settings, sets, advance=advance) if "figure3" in wanted else None
    others: list[Curve] = []
    trials = [trial for trial in comparison_trials() if trial.name in CORE]
    for data, variant, meaning in variants:
        ran = curves(data, trials, settings, variant, advance=advance)
        others += [curve._replace(data=meaning) for curve in ran]
    verdicts = judge(second, third) if second and third else []

    drawn = draw(points, second, third)
    for name, figure in drawn.items():
        figure.savefig(folder / f"{name}.png", dpi=200)
        with rc_context({"svg.hashsalt": "pril"}):  # the same numbers give the same bytes
            figure.savefig(folder / f"{name}.svg", metadata={"Date": None})
    for name, written in (("figure2", second), ("figure3", third), ("variants", others)):
        if written:
            _write_csv(folder / f"{name}.csv", written)
    shown = {
        "title": "PRIL, rerun",
        "settings": settings,
        "left_out": left_out,
        "verdicts": verdicts,
        "claims": [[v.claim, v.text, v.verdict] for v in verdicts],
        "figures": drawn,
        "second": second and _last_losses(second),
        "third": third and _last_losses(third, FIGURE3_STYLES),
        "others": others and _last_losses(others),
    }
    for page, name, parts in PAGES:
        text = template(page).render(shown, parts=parts)
        (folder / name).write_text(f"{text.strip()}\n", encoding="utf-8")
    return verdicts


def _write_csv(path: Path, curves: list[Curve]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "curve", "round", "mean", "standard_error"])
        for curve in curves:
            for values in zip(curve.rounds, curve.mean, curve.error, strict=True):
                writer.writerow([curve.data, curve.name, *(value.item() for value in values)])


def _last_losses(curves: list[Curve], names: Iterable[str] = ()) -> dict[str, Any]:
    """Return a table of losses at the end: a column for each data set, some names first."""
    sets = data_sets(curves)
    by_name = {(curve.data, curve.name): curve for curve in curves}
    ordered = dict.fromkeys([*names, *(curve.name for curve in curves)])
    rows = [[name, *(_last(by_name[data, name]) for data in sets)] for name in ordered]
    return {"sets": sets, "rows": rows}
