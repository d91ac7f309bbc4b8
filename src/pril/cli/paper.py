"""The commands about the paper: audit, reproduce."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer

from pril.cli import options as opt
from pril.cli.printing import Printer


def audit(
    context: typer.Context,
    table: opt.TableArgument,
    lower: opt.LowerOption = None,
    upper: opt.UpperOption = None,
    label: opt.LabelOption = None,
    classes: opt.ClassesOption = None,
    edges: opt.EdgesOption = None,
    model: Annotated[
        Literal["pril", "mpril"], typer.Option("--model", help="What to learn.")
    ] = "pril",
    parameters: opt.SetOption = None,
    features: opt.FeaturesOption = None,
    drop: opt.DropOption = None,
    text: opt.TextOption = None,
    scale: opt.ScaleOption = True,
    impute: opt.ImputeOption = True,
    one_hot: opt.OneHotOption = True,
    format: opt.FormatOption = None,  # noqa: A002
    max_features: opt.MaxFeaturesOption = None,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Run the paper's algorithm once over a table, in memory, and compare with every bound.

    Example: pril audit flats.csv --lower low --upper high --classes poor,fair,good,great
    """
    from pril import theory
    from pril.tables.training import Run

    printer = Printer(quiet=quiet, json=json)
    task = opt.make_task(context, holdout=0.0)
    with printer.progress() as progress:
        run = Run(opt.open_table(table, format, max_features), task, progress)
        X, y = run.gather()
        audited = theory.audit(X, y, run.model)
    bounds = [{**bound._asdict(), "room": bound.room} for bound in audited.bounds]
    printer.result({"facts": audited.facts, "bounds": bounds}, str(audited).splitlines())


def reproduce(
    which: Annotated[
        Literal["figure1", "figure2", "figure3", "all"], typer.Argument(help="A figure, or all.")
    ] = "all",
    runs: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 100,
    quick: Annotated[bool, typer.Option("--quick", help="Ten repetitions.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("output/reproduction"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    seed: opt.SeedOption = 0,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Rerun the paper's experiments and check its claims.

    Example: pril reproduce --quick --out output
    """
    from pril import experiments

    printer = Printer(quiet=quiet, json=json)
    with printer.progress() as progress:

        def start(total: int) -> Callable[[], None]:
            done = iter(range(1, total + 1))
            return lambda: progress("running", next(done), total)

        settings = experiments.Settings(runs=10 if quick else runs, seed=seed, jobs=jobs)
        verdicts = experiments.reproduce(out, which, settings, progress=start)
    lines = [f"{verdict.claim} {verdict.text}\n   {verdict.verdict}" for verdict in verdicts]
    report = out / "report.html"
    claims = {
        verdict.claim: {"text": verdict.text, "verdict": verdict.verdict} for verdict in verdicts
    }
    printer.result({"claims": claims, "report": str(report)}, [*lines, f"Report: {report}"])
