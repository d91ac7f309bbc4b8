"""The commands that learn: fit, and demo, which shows the others."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pril.cli import options as opt
from pril.cli.printing import Printer
from pril.core.registry import BY_COMMAND
from pril.errors import InputError
from pril.reporting.words import column_facts, learning_facts

if TYPE_CHECKING:
    from pril.tables.files import Table
    from pril.tables.task import Task
    from pril.tables.training import Run


def fit(
    table: opt.TableOptions,
    csv: opt.CsvOptions,
    options: opt.FitOptions,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Model file to write; else TABLE's name with .pril."),
    ] = None,
    checkpoint: opt.CheckpointOption = None,
    every: opt.EveryOption = 1_000_000,
    cluster: Annotated[
        str | None, typer.Option(help="Learn on this Dask cluster: tcp://host:8786.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Learn in this many local processes (Dask).")
    ] = None,
    overwrite: opt.OverwriteOption = False,
    *,
    printer: Printer,
) -> None:
    """Learn a model from a table of any size.

    Example: pril fit flats.csv --lower low --upper high --classes poor,fair,good,great
    """
    from pril.io import model_files
    from pril.tables.files import TableError
    from pril.tables.in_memory import InMemoryRun
    from pril.tables.training import Run

    task, opened = options.task(), table.open(csv)
    output = output or opt.model_file(table.table)
    opt.check_output(output, opened.files, opt.MODEL, overwrite)
    with ExitStack() as stack:
        is_online = BY_COMMAND[task.model].online
        on_cluster = cluster is not None or workers is not None
        if not is_online:
            _check_all_rows(options, checkpoint)
        if not (is_online or on_cluster):
            run: Run = InMemoryRun(opened, task, stack.enter_context(printer.progress()))
        elif not on_cluster:
            run = Run(opened, task, stack.enter_context(printer.progress()))
        elif checkpoint:
            raise InputError(
                "--checkpoint cannot be used on a cluster: Dask computes again what is lost"
            )
        else:
            run = _cluster_run(opened, task, cluster, workers, printer, stack)
        saved = stack.enter_context(opt.checkpoint_in(checkpoint, every, output))
        try:
            fitted = run(saved)
        except TableError:  # the corrected table is another one: the checkpoint is useless
            if saved:
                saved.remove()
            raise
        report = run.describe()
        model_files.write(fitted, output, kind="model", notes=report)
    printer.result({**report, "model": str(output)}, _lines(report, output))


def _check_all_rows(options: opt.FitOptions, checkpoint: Path | None) -> None:
    """Refuse options that mean nothing to a learner that learns all rows at once."""
    given = {
        "--checkpoint": checkpoint is not None,
        "--epochs": options.epochs is not None,
        "--no-shuffle": not options.shuffle,
    }
    for option, is_given in given.items():
        if is_given:
            raise InputError(
                f"{option} has no meaning for --model {options.model}, which learns all rows at "
                "once: leave it out, or choose another model, such as ordered-logit"
            )


def _cluster_run(
    table: Table,
    task: Task,
    cluster: str | None,
    workers: int | None,
    printer: Printer,
    stack: ExitStack,
) -> Run:
    from pril.dask.connection import connected
    from pril.tables.cluster import ClusterRun

    if cluster is not None and workers is not None:
        raise InputError("--cluster and --workers: choose one")
    if cluster == "":  # probably a shell variable that is not set
        raise InputError("--cluster is empty: pass the address of a scheduler, tcp://host:8786")
    learner = BY_COMMAND[task.model]
    if learner.online and not learner.mixes:
        option = "--workers" if cluster is None else "--cluster"
        raise InputError(
            f"--model {task.model} cannot learn on a cluster: leave out {option}, or choose "
            "another model"
        )
    client = stack.enter_context(connected(cluster, workers))
    return ClusterRun(table, task, client, printer.shows_progress and sys.stdout.isatty())


def _lines(report: dict[str, Any], output: Path) -> list[str]:
    """Return what was learned, for people."""
    width = max(8, *(len(str(entry["class"])) for entry in report["classes"]))
    classes = [f"{'classes':<{width + 2}}{'exact':>10}{'as lower end':>14}{'as upper end':>14}"]
    for entry in report["classes"]:
        numbers = f"{entry['exact']:>10,}{entry['lower']:>14,}{entry['upper']:>14,}"
        classes.append(f"  {entry['class']!s:<{width}}{numbers}")
    before = [f"{kind:<10}{fact}" for kind, fact in column_facts(report)]
    after = [f"{kind:<10}{fact}" for kind, fact in learning_facts(report)]
    return [*before, *classes, *after, f"model     {output}"]


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path(
        "output"
    ),
    *,
    printer: Printer,
) -> None:
    """Make a small table of flats whose raters disagree, and run the commands on it.

    Example: pril demo
    """
    from pril.tables.demo_data import write_flats

    table, new, rated, picture = write_flats(folder)
    ends = ("--lower", "low", "--upper", "high")
    fitted = str(folder / "flats.pril")
    steps: list[list[str]] = [
        ["fit", table, *ends, "--classes", "poor,fair,good,great", "-o", fitted],
        ["show", fitted, "--plot", picture],
        ["predict", fitted, new, "-o", rated],
        ["evaluate", fitted, new, "--label", "grade"],
    ]
    same = ["--quiet"] if printer.quiet else ["--json"] if printer.json else []
    pril = context.find_root().command
    for step in steps:
        printer.note("")
        printer.note(f"$ pril {' '.join(step)}")
        pril.main(args=[*step, *same], prog_name="pril", standalone_mode=False)
