"""The commands about the paper: audit, reproduce."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from pril.cli import options as opt
from pril.cli.printing import Printer


@dataclass
class AuditOptions(opt.TaskOptions):
    """What to learn: an algorithm that has bounds."""

    model: Annotated[Literal["pril", "mpril"], typer.Option(help="Which algorithm.")] = "pril"


def audit(
    table: opt.TableOptions, csv: opt.CsvOptions, options: AuditOptions, printer: Printer
) -> None:
    """Run the paper's algorithm once over a table, in memory, and compare it with every bound.

    Example: pril audit flats.csv --lower low --upper high --classes poor,fair,good
    """
    from pril import theory
    from pril.tables.training import Run

    task = replace(options.task(csv), holdout=0.0)
    with printer.progress() as progress:
        run = Run(table.open(csv, brackets=options.brackets), task, progress)
        X, y = run.gather()
        audited = theory.audit(X, y, run.model)
    bounds = [{**bound._asdict(), "room": bound.room} for bound in audited.bounds]
    printer.result({"facts": audited.facts, "bounds": bounds}, str(audited).splitlines())


def reproduce(
    which: Annotated[
        Literal["figure1", "figure2", "figure3", "all"], typer.Argument(help="A figure, or all.")
    ] = "all",
    runs: int = 100,
    quick: bool = False,
    out: Path = Path("output/reproduction"),
    jobs: int = os.cpu_count() or 1,
    seed: int = 0,
    *,
    printer: Printer,
) -> None:
    """Rerun the paper's experiments and check its claims.

    Example: pril reproduce --quick --out output
    """
    from pril import experiments

    with printer.progress("repetition") as progress:

        def start(total: int) -> Callable[[], None]:
            done = iter(range(1, total + 1))
            return lambda: progress("running", next(done), total)

        settings = experiments.Settings(runs=10 if quick else runs, seed=seed, jobs=jobs)
        verdicts = experiments.reproduce(out, which, settings, progress=start)
    lines = [
        line
        for verdict in verdicts
        for line in (f"{verdict.claim} {verdict.text}", f"   {verdict.verdict}")
    ]
    report = out / "report.html"
    claims = {
        verdict.claim: {"text": verdict.text, "verdict": verdict.verdict} for verdict in verdicts
    }
    printer.result({"claims": claims, "report": str(report)}, [*lines, f"Report: {report}"])
