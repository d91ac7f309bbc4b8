"""Run the experiments and write figures, tables and verdicts into a folder."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from pril.experiments.claims import Verdict, judge
from pril.experiments.figures import FIGURE3_STYLES, draw
from pril.experiments.protocol import (
    DATA_SETS,
    Curve,
    Settings,
    check_data,
    comparison_trials,
    curves,
    figure1,
    figure2,
    figure3,
    n_tasks,
    variants,
)
from pril.reporting.page import Block, Bullets, Grid, Heading, Page, Paragraph, Picture, template

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["reproduce"]

Which = Literal["figure1", "figure2", "figure3", "all"]
CORE = ("PRIL, Type 1", "PRIL, Type 2", "PRank", "MCP", "MCP with intercept")


def reproduce(
    out: str | Path,
    which: Which = "all",
    settings: Settings | None = None,
    *,
    progress: Callable[[int], Callable[[], None]] | None = None,
) -> list[Verdict]:
    """Rerun the paper's experiments and write all results into a folder.

    Parameters
    ----------
    out : str or Path
        Folder for figures (PNG and SVG), curves (CSV), `report.md` and `report.html`.
    which : {"all", "figure1", "figure2", "figure3"}, default="all"
        What to run. Verdicts need "all".
    settings : Settings, default=None
        Repetitions, seed and jobs. None is 100 repetitions in one process.
    progress : callable, default=None
        Called once with the number of tasks; returns a function that is called after each task.

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

    template("blocks.html")  # a missing package is an error before anything is run
    settings = settings or Settings()
    wanted = ("figure1", "figure2", "figure3") if which == "all" else (which,)
    runs = len(DATA_SETS) * sum(name in wanted for name in ("figure2", "figure3"))
    runs += len(list(variants())) if which == "all" else 0
    if runs:
        check_data()  # a missing file is an error before anything is run or written
    advance = progress(runs * n_tasks(settings)) if progress else None

    points = figure1(settings) if "figure1" in wanted else None
    second = figure2(settings, advance=advance) if "figure2" in wanted else None
    third = figure3(settings, advance=advance) if "figure3" in wanted else None
    others: list[Curve] = []
    if which == "all":
        trials = [trial for trial in comparison_trials() if trial.name in CORE]
        for data, variant, meaning in variants():
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
    page = _page(settings, drawn, second, third, others, verdicts)
    (folder / "report.md").write_text(page.markdown(), encoding="utf-8")
    (folder / "report.html").write_text(page.html(), encoding="utf-8")
    return verdicts


def _write_csv(path: Path, curves: list[Curve]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "curve", "round", "mean", "standard_error"])
        for curve in curves:
            for values in zip(curve.rounds, curve.mean, curve.error, strict=True):
                writer.writerow([curve.data, curve.name, *(value.item() for value in values)])


def _page(
    settings: Settings,
    drawn: dict[str, Figure],
    second: list[Curve] | None,
    third: list[Curve] | None,
    others: list[Curve],
    verdicts: list[Verdict],
) -> Page:
    blocks: list[Block] = [
        Heading(1, "The experiments of the PRIL paper, rerun"),
        Paragraph(
            f"{settings.runs} repetitions, seed {settings.seed}: a fresh sequence of 10 000 rows "
            "(Synthetic) or a fresh order of the rows (Parkinsons, Abalone) each. Losses are "
            "running means over rounds, each row predicted before it is learned; ± is the "
            "standard error.",
        ),
    ]
    if verdicts:
        rows = [[v.claim, v.text, v.verdict] for v in verdicts]
        blocks += [Heading(2, "Verdicts"), Grid(["", "the paper says", "verdict"], rows, n_words=3)]
    for name, figure in drawn.items():
        blocks += [Heading(2, f"Figure {name[-1]}"), Picture(name, figure, format="png")]
    if second:
        blocks.append(Heading(2, "Average interval loss at the end (Figure 2)"))
        blocks.append(_final_table(second, [c.name for c in second]))
    if third:
        shown = [*FIGURE3_STYLES, *(c.name for c in third if c.name not in FIGURE3_STYLES)]
        blocks += [
            Heading(2, "Average absolute error at the end, exact labels (Figure 3)"),
            Paragraph(
                "The best step is the best in hindsight, normalised or not; the default is the "
                "normalised 0.1. A step that is too large overflows.",
            ),
            _final_table(third, shown),
        ]
    if others:
        blocks += [
            Heading(2, "Other ways to prepare the data"),
            Paragraph(
                "motor_UPDRS is a feature of Parkinsons that leaks the target (correlation 0.947). "
                "The variant without it keeps the patient's number as a feature.",
            ),
            _final_table(others, [c.name for c in others]),
        ]
    if verdicts:
        blocks.append(Heading(2, "The numbers behind the verdicts"))
        for verdict in verdicts:
            blocks.append(Heading(3, f"{verdict.claim}: {verdict.verdict.split(':')[0]}"))
            blocks.append(Bullets(verdict.evidence))
    return Page("PRIL, rerun", blocks)


def _final_table(curves: list[Curve], names: list[str]) -> Grid:
    sets = list(dict.fromkeys(curve.data for curve in curves))
    by_name = {(curve.data, curve.name): curve for curve in curves}
    rows = [
        [name, *(_final(by_name[data, name]) for data in sets)] for name in dict.fromkeys(names)
    ]
    return Grid(["", *sets], rows)


def _final(curve: Curve) -> str:
    if not np.isfinite(curve.mean[-1]):
        return "overflows"
    return f"{curve.mean[-1]:.4f} ± {curve.error[-1]:.4f}"
