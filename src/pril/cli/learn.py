"""The commands that learn: fit, compile and demo, and for the paper audit and reproduce."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer import Argument, Option

from pril.cli import options as opt
from pril.cli.printing import Printer
from pril.core.registry import BY_COMMAND
from pril.core.words import column_facts, learning_facts
from pril.errors import InputError, shown

if TYPE_CHECKING:
    from pril.tables.files import Table
    from pril.tables.survey import Task
    from pril.tables.training import Run


def fit(
    table: opt.TableOptions,
    options: opt.FitOptions,
    *,
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Model file to write; else TABLE's name with .pril."),
    ] = None,
    saving: opt.CheckpointOptions,
    cluster: str | None = None,
    workers: int | None = None,
    overwrite: bool = False,
    printer: Printer,
) -> None:
    """Learn a model from a table of any size.

    Example: pril fit flats.csv --lower low --upper high --classes poor,fair,good
    """
    with ExitStack() as stack:
        stack.enter_context(printer.saying(f"reading {table.name}"))
        from pril.io import model_files
        from pril.tables.files import TableError
        from pril.tables.runs import run_of

        task = options.task(table.csv)
        opened = table.open(brackets=options.brackets)
        output = output or opt.model_file(table.table)
        opt.check_output(output, opened.files, opt.MODEL, overwrite)
        _check_meaning(options, saving.checkpoint)
        if cluster is None and workers is None:
            run: Run = run_of(opened, task, stack.enter_context(printer.progress()))
        elif saving.checkpoint:
            raise InputError(
                "--checkpoint cannot be used on a cluster: Dask computes again what is lost"
            )
        else:
            run = _cluster_run(opened, task, cluster, workers, printer, stack)
        saved = stack.enter_context(saving.held(output, usual=1_000_000))
        try:
            fitted = run(saved)
        except TableError:  # the corrected table is another one: the checkpoint is useless
            if saved:
                saved.remove()
            raise
        report = run.describe()
        model_files.write(fitted, output, kind="model", notes=report)
    if saved and saved.is_resumed:
        printer.note(f"resumed   from the checkpoint in {saving.checkpoint}")
    printer.result({**report, "model": str(output)}, _lines(report, output))


def _check_meaning(options: opt.FitOptions, checkpoint: Path | None) -> None:
    """Refuse options that mean nothing to a learner that makes no passes row by row."""
    learner = BY_COMMAND[options.model]
    if learner.maximises:
        way = "takes steps to the maximum of the likelihood; --set max_iter=50 bounds them"
    elif not learner.online:
        way = "learns all rows at once, in rounds; --set max_iter=500 bounds them"
    else:
        return
    given = {
        "--checkpoint": checkpoint is not None and not learner.online,
        "--epochs": options.epochs is not None,
        "--no-shuffle": not options.shuffle,
    }
    for option, is_given in given.items():
        if is_given:
            raise InputError(
                f"{option} has no meaning for --model {options.model}, which {way}: leave {option} "
                "out, or choose another model"
            )


def _cluster_run(
    table: Table,
    task: Task,
    cluster: str | None,
    workers: int | None,
    printer: Printer,
    stack: ExitStack,
) -> Run:
    from pril.dask.client import connected
    from pril.tables.cluster import ClusterRun

    if cluster is not None and workers is not None:
        raise InputError("--cluster and --workers: choose one")
    if cluster == "":  # probably a shell variable that is not set
        raise InputError("--cluster is empty: pass the address of a scheduler, tcp://host:8786")
    learner = BY_COMMAND[task.model]
    if learner.online and not (learner.mixes or learner.maximises):
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
    if folders := report["folders"]:
        before[-1] += f"; to learn without pass --drop {','.join(folders)}"
    after = [f"{kind:<10}{fact}" for kind, fact in learning_facts(report)]
    return [*before, *classes, *after, f"model     {output}"]


def compile(  # noqa: A001 -- the name of the command
    learners: Annotated[
        list[str] | None,
        Argument(metavar="[LEARNER]...", help=f"Some of {', '.join(BY_COMMAND)}; else all."),
    ] = None,
    *,
    printer: Printer,
) -> None:
    """Put compiled code on disk, so that no first call waits for it.

    Do it once in an image, in CI, or in a folder that nodes share: NUMBA_CACHE_DIR names it.

    Example: pril compile ordered-logit boosting
    """
    names, seconds = list(dict.fromkeys(learners or BY_COMMAND)), dict[str, float]()
    for name in names:
        if name not in BY_COMMAND:
            raise InputError(f"LEARNER must be one of {', '.join(BY_COMMAND)}, not {shown(name)}")
    for name in names:
        start = time.monotonic()
        _use_everywhere(name)
        seconds[name] = round(time.monotonic() - start, 1)
        printer.note(f"{name}: {seconds[name]} s")
    printer.result({"seconds": seconds}, ["Compiled code is on disk."])


def _use_everywhere(name: str) -> None:
    """Make a learner do all that compiles: dense and sparse rows, weights and streams."""
    import numpy as np
    from scipy.sparse import csr_array

    learner = BY_COMMAND[name]
    X, y = np.linspace(-1.0, 1.0, 60).reshape(30, 2), np.arange(30) // 10
    model = learner.load()(classes=[0, 1, 2]).fit(X, y)
    model.predict(X)
    if learner.online:
        for rows in (X.astype(np.float32), *([csr_array(X)] if learner.linear else [])):
            for weights in (None, np.ones(len(y))):
                learner.load()(classes=[0, 1, 2]).partial_fit(rows, y, sample_weight=weights)
    if hasattr(model, "stream"):
        stream = model.stream()
        stream.predict_one(X[0])
        if learner.online:
            stream.learn_one(X[0], 0)


def demo(
    context: typer.Context,
    folder: Annotated[Path, Option("--output", "-o", help="Folder to write to.")] = Path("output"),
    *,
    printer: Printer,
) -> None:
    """Make a small table of flats whose raters disagree, and run the commands on it.

    Example: pril demo
    """
    from pril.tables.writing import write_flats

    write_flats(folder)
    names = ("flats.csv", "new.csv", "rated.csv", "flats.png", "flats.pril")
    table, new, rated, picture, fitted = (str(folder / name) for name in names)
    ends = ("--lower", "low", "--upper", "high")
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


# --- The paper -----------------------------------------------------------------------------------


@dataclass
class AuditOptions(opt.TaskOptions):
    """What to learn: an algorithm that has bounds."""

    model: Annotated[Literal["pril", "mpril"], Option(help="Which algorithm.")] = "pril"


def audit(table: opt.TableOptions, options: AuditOptions, printer: Printer) -> None:
    """Run the paper's algorithm once over a table, in memory, and compare it with every bound.

    Example: pril audit flats.csv --lower low --upper high --classes poor,fair,good
    """
    from pril.paper import theory
    from pril.tables.training import Run

    task = replace(options.task(table.csv), holdout=0.0)
    with printer.progress() as progress:
        run = Run(table.open(brackets=options.brackets), task, progress)
        run.survey_table()
        run.begin_learning()
        _, X, y, *_ = run.gather()
        audited = theory.audit(X, y, run.model)
    bounds = [{**bound._asdict(), "room": bound.room} for bound in audited.bounds]
    printer.result({"facts": audited.facts, "bounds": bounds}, str(audited).splitlines())


def reproduce(
    which: Annotated[
        Literal["figure1", "figure2", "figure3", "all"], Argument(help="A figure, or all.")
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
    from pril.paper import experiments

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
