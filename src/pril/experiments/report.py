"""Run the experiments and write figures, tables and verdicts into a folder."""

from __future__ import annotations

import base64
import csv
import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

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
    sections = _sections(settings, drawn, second, third, others, verdicts)
    (folder / "report.md").write_text(_markdown(sections), encoding="utf-8")
    (folder / "report.html").write_text(_html(sections), encoding="utf-8")
    return verdicts


def _write_csv(path: Path, curves: list[Curve]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["data", "curve", "round", "mean", "standard_error"])
        for curve in curves:
            for values in zip(curve.rounds, curve.mean, curve.error, strict=True):
                writer.writerow([curve.data, curve.name, *(value.item() for value in values)])


# --- One content, two formats: headings, paragraphs, tables, lists, pictures ---------------------

Block = tuple[str, Any]


def _sections(
    settings: Settings,
    drawn: dict[str, Figure],
    second: list[Curve] | None,
    third: list[Curve] | None,
    others: list[Curve],
    verdicts: list[Verdict],
) -> list[Block]:
    blocks: list[Block] = [
        ("h1", "The experiments of the PRIL paper, rerun"),
        (
            "p",
            f"{settings.runs} repetitions, seed {settings.seed}: a fresh sequence of 10 000 rows "
            "(Synthetic) or a fresh order of the rows (Parkinsons, Abalone) each. Losses are "
            "running means over rounds, each row predicted before it is learned; ± is the "
            "standard error.",
        ),
    ]
    if verdicts:
        blocks.append(("h2", "Verdicts"))
        rows = [[v.claim, v.text, v.verdict] for v in verdicts]
        blocks.append(("table", (["", "the paper says", "verdict"], rows)))
    for name, figure in drawn.items():
        blocks += [("h2", f"Figure {name[-1]}"), ("figure", (name, figure))]
    if second:
        blocks.append(("h2", "Average interval loss at the end (Figure 2)"))
        blocks.append(("table", _final_table(second, [c.name for c in second])))
    if third:
        shown = [*FIGURE3_STYLES, *(c.name for c in third if c.name not in FIGURE3_STYLES)]
        blocks.append(("h2", "Average absolute error at the end, exact labels (Figure 3)"))
        blocks.append(
            (
                "p",
                "The best step is the best in hindsight, normalised or not; the default is the "
                "normalised 0.1. A step that is too large overflows.",
            )
        )
        blocks.append(("table", _final_table(third, shown)))
    if others:
        blocks.append(("h2", "Other ways to prepare the data"))
        blocks.append(
            (
                "p",
                "motor_UPDRS is a feature of Parkinsons that leaks the target (correlation 0.947). "
                "The variant without it keeps the patient's number as a feature.",
            )
        )
        blocks.append(("table", _final_table(others, [c.name for c in others])))
    if verdicts:
        blocks.append(("h2", "The numbers behind the verdicts"))
        for verdict in verdicts:
            blocks += [("h3", f"{verdict.claim}: {verdict.verdict.split(':')[0]}")]
            blocks.append(("list", verdict.evidence))
    return blocks


def _final_table(curves: list[Curve], names: list[str]) -> tuple[list[str], list[list[str]]]:
    sets = list(dict.fromkeys(curve.data for curve in curves))
    by_name = {(curve.data, curve.name): curve for curve in curves}
    rows = [
        [name, *(_final(by_name[data, name]) for data in sets)] for name in dict.fromkeys(names)
    ]
    return ["", *sets], rows


def _final(curve: Curve) -> str:
    if not np.isfinite(curve.mean[-1]):
        return "overflows"
    return f"{curve.mean[-1]:.4f} ± {curve.error[-1]:.4f}"


def _markdown(blocks: list[Block]) -> str:
    parts = []
    for kind, content in blocks:
        if kind in ("h1", "h2", "h3"):
            parts.append(f"{'#' * int(kind[1])} {content}")
        elif kind == "table":
            header, rows = content
            lines = [header, ["---"] * len(header), *rows]
            parts.append("\n".join(f"| {' | '.join(line)} |" for line in lines))
        elif kind == "list":
            parts.append("\n".join(f"- {item}" for item in content))
        elif kind == "figure":
            parts.append(f"![{content[0]}]({content[0]}.png)")
        else:
            parts.append(content)
    return "\n\n".join(parts) + "\n"


STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } th, td { border-bottom: 1px solid #ccc; padding: .3rem .6rem;
text-align: left; vertical-align: top; } img { max-width: 100%; }
"""


def _html(blocks: list[Block]) -> str:
    parts = []
    for kind, content in blocks:
        if kind == "table":
            header, rows = content
            cells = "".join(f"<th>{html.escape(cell)}</th>" for cell in header)
            lines = [f"<tr>{cells}</tr>"]
            for row in rows:
                cells = "".join(f"<td>{html.escape(cell)}</td>" for cell in row)
                lines.append(f"<tr>{cells}</tr>")
            parts.append(f"<table>{''.join(lines)}</table>")
        elif kind == "list":
            items = "".join(f"<li>{html.escape(item)}</li>" for item in content)
            parts.append(f"<ul>{items}</ul>")
        elif kind == "figure":
            name, figure = content
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=120)
            data = base64.b64encode(buffer.getvalue()).decode()
            parts.append(f'<img alt="{name}" src="data:image/png;base64,{data}">')
        else:
            parts.append(f"<{kind}>{html.escape(content)}</{kind}>")
    body = "\n".join(parts)
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>PRIL, rerun</title>'
        f"<style>{STYLE}</style></head><body>{body}</body></html>\n"
    )
