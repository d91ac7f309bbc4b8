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
from pril.reporting.words import count, evaluation_lines

if TYPE_CHECKING:
    from pril.tables.files import Table
    from pril.tables.task import Task
    from pril.tables.training import Run


def fit(
    context: typer.Context,
    table: opt.TableArgument,
    lower: opt.LowerOption = None,
    upper: opt.UpperOption = None,
    label: opt.LabelOption = None,
    classes: opt.ClassesOption = None,
    edges: opt.EdgesOption = None,
    weight: opt.WeightOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Model file; else TABLE's name, .pril.")
    ] = None,
    model: opt.ModelOption = "pril",
    parameters: opt.SetOption = None,
    features: opt.FeaturesOption = None,
    drop: opt.DropOption = None,
    text: opt.TextOption = None,
    scale: opt.ScaleOption = True,
    impute: opt.ImputeOption = True,
    one_hot: opt.OneHotOption = True,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the rows, at most.")] = 10,
    shuffle: Annotated[
        bool, typer.Option("--shuffle/--no-shuffle", help="Shuffle rows, block by block.")
    ] = True,
    holdout: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of rows to evaluate the model on.")
    ] = 0.2,
    coverage: Annotated[
        float | None,
        typer.Option(help="Calibrate ranges that hold for this share of the rows: 0.9."),
    ] = None,
    guarantee: opt.GuaranteeOption = "exact",
    nonlinear: Annotated[
        int | None, typer.Option(min=1, help="Add this many landmark features: 300.")
    ] = None,
    seed: opt.SeedOption = 0,
    checkpoint: opt.CheckpointOption = None,
    every: opt.EveryOption = 1_000_000,
    cluster: opt.ClusterOption = None,
    workers: opt.WorkersOption = None,
    format: opt.FormatOption = None,  # noqa: A002
    max_features: opt.MaxFeaturesOption = None,
    overwrite: opt.OverwriteOption = False,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Learn a model from a table of any size.

    Example: pril fit flats.csv --lower low --upper high --classes poor,fair,good,great
    """
    from pril.io import model_files
    from pril.tables.files import TableError
    from pril.tables.training import Run

    printer = Printer(quiet=quiet, json=json)
    task = opt.make_task(context)
    opened = opt.open_table(table, format, max_features)
    output = output or opt.model_file(table)
    opt.check_output(output, opened.files, opt.MODEL, overwrite)
    with ExitStack() as stack:
        if cluster is not None or workers is not None:
            if checkpoint:
                raise InputError(
                    "--checkpoint is for one process: on a cluster Dask computes again what is lost"
                )
            run = _cluster_run(opened, task, cluster, workers, printer, stack)
            saved = None
        else:
            run = Run(opened, task, stack.enter_context(printer.progress()))
            origin = run.origin() if checkpoint else {}  # it takes samples of every file
            saved = opt.open_checkpoint(checkpoint, every, origin, output)
            if saved:
                stack.enter_context(saved.held())
        try:
            fitted = run(saved)
        except TableError:  # once corrected, it is another table: the checkpoint is useless
            if saved:
                saved.remove()
            raise
        report = run.describe()
        model_files.write(fitted, output, kind="model", notes=report)
    if saved:  # last: before this, the same command would go on from the checkpoint
        saved.remove()
    printer.result({**report, "model": str(output)}, _lines(report, output))


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
    if not BY_COMMAND[task.model].mixes:
        option = "--workers" if cluster is None else "--cluster"
        raise InputError(
            f"--model {task.model} is for one process: leave out {option}, or choose another model"
        )
    client = stack.enter_context(connected(cluster, workers))
    return ClusterRun(table, task, client, printer.shows_progress and sys.stdout.isatty())


def _lines(report: dict[str, Any], output: Path) -> list[str]:
    """Return what was learned, for people."""
    from pril.tables.files import some_of

    columns = report["columns"]
    names = {
        "labels": report["labels"],
        "numbers": columns["numbers"],
        "words": [f"{name} ({count(n, 'word')})" for name, n in columns["words"].items()],
        "sparse": [f"{name} ({count(n, 'feature')})" for name, n in columns["sparse"].items()],
        "ignored": [f"{name} ({reason})" for name, reason in columns["ignored"].items()],
    }
    lines = [f"read      {count(report['rows'], 'row')} of {report['table']}"]
    lines += [f"{kind:<10}{some_of(some)}" for kind, some in names.items() if some]
    width = max(8, *(len(str(entry["class"])) for entry in report["classes"]))
    lines.append(f"{'classes':<{width + 2}}{'exact':>10}{'as lower end':>14}{'as upper end':>14}")
    for entry in report["classes"]:
        numbers = f"{entry['exact']:>10,}{entry['lower']:>14,}{entry['upper']:>14,}"
        lines.append(f"  {entry['class']!s:<{width}}{numbers}")
    ranges = [
        f"{'exact' if size == '1' else f'{size} classes'} {n:,}"
        for size, n in report["widths"].items()
    ]
    if report["unlabelled_rows"]:
        ranges.append(f"no label {report['unlabelled_rows']:,}")
    if report["zero_weight_rows"]:
        ranges.append(f"weight zero {report['zero_weight_rows']:,}")
    lines.append(f"ranges    {', '.join(ranges)}")
    lines.append(
        f"learned   from {count(report['learned_rows'], 'row')} in "
        f"{count(report['passes'], 'pass')}, {count(report['mistakes'], 'mistake')}"
    )
    if report["ranges"]:
        ranges = report["ranges"]
        lines.append(
            f"{'ranges':<10}coverage {ranges['coverage']:g} ({ranges['guarantee']}), calibrated on "
            f"{count(ranges['calibration_rows'], 'row')}"
        )
    if report["holdout"]:
        for k, line in enumerate(evaluation_lines(report["holdout"])):
            lines.append(f"{'' if k else 'held out':<10}{line}")
    return [*lines, f"model     {output}"]


def demo(
    context: typer.Context,
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path(
        "output"
    ),
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Make a small table of flats that raters disagree on, and run the commands on it.

    Example: pril demo
    """
    from pril.tables.demo_data import write_flats

    printer = Printer(quiet=quiet, json=json)
    table, new, rated, picture = write_flats(folder)
    ends = ("--lower", "low", "--upper", "high")
    fitted = str(folder / "flats.pril")
    steps: list[list[str]] = [
        ["fit", table, *ends, "--classes", "poor,fair,good,great", "-o", fitted],
        ["show", fitted, "--plot", picture],
        ["predict", fitted, new, "-o", rated],
        ["evaluate", fitted, new, "--label", "grade"],
    ]
    same = ["--quiet"] if quiet else ["--json"] if json else []
    pril = context.find_root().command
    for step in steps:
        printer.note("")
        printer.note(f"$ pril {' '.join(step)}")
        pril.main(args=[*step, *same], prog_name="pril", standalone_mode=False)
