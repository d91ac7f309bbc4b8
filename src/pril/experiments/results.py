"""Run the experiments and write figures, tables and verdicts into a folder."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pril.experiments.claims import Verdict, judge
from pril.experiments.figures import FIGURE3_STYLES, draw
from pril.experiments.protocol import (
    DATA_SETS,
    VARIANTS,
    Curve,
    Settings,
    available_data,
    comparison_trials,
    curves,
    figure1,
    figure2,
    figure3,
)
from pril.reporting.model_report import template

__all__ = ["reproduce"]

Which = Literal["figure1", "figure2", "figure3", "all"]
PAGES = (  # a template, the file made of it, and the macros that it uses
    ("paper.html", "report.html", "parts.html"),
    ("paper.jinja", "report.md", "parts.md"),
)
CORE = ("PRIL, Type 1", "PRIL, Type 2", "PRank", "MCP", "MCP with intercept")


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
    >>> from pril.experiments import Settings, reproduce
    >>> reproduce("output", "figure1", Settings(runs=1))  # doctest: +SKIP
    []
    """
    from matplotlib import rc_context

    template("paper.html")  # a missing package is an error before anything is run
    settings = settings or Settings()
    wanted = ("figure1", "figure2", "figure3") if which == "all" else (which,)
    sets: tuple[str, ...] = DATA_SETS
    left_out = ""
    n_figures = sum(name in wanted for name in ("figure2", "figure3"))
    if n_figures:  # a wrong file is an error before anything is run or written
        sets, reasons = available_data()
        left_out = "; ".join(f"{data} was left out: {why}" for data, why in reasons.items())
    if left_out:
        warnings.warn(left_out, stacklevel=2)
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

    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
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
        "second": second and _losses(second),
        "third": third and _losses(third, FIGURE3_STYLES),
        "others": others and _losses(others),
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


def _losses(curves: list[Curve], names: Iterable[str] = ()) -> dict[str, Any]:
    """Return a table of losses at the end: a column for each data set, some names first."""
    sets = list(dict.fromkeys(curve.data for curve in curves))
    by_name = {(curve.data, curve.name): curve for curve in curves}
    ordered = dict.fromkeys([*names, *(curve.name for curve in curves)])
    rows = [[name, *(_final(by_name[data, name]) for data in sets)] for name in ordered]
    return {"sets": sets, "rows": rows}


def _final(curve: Curve) -> str:
    if not np.isfinite(curve.mean[-1]):
        return "overflows"
    return f"{curve.mean[-1]:.4f} ± {curve.error[-1]:.4f}"
