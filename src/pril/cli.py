"""The command `pril`: a client of the library. Heavy imports wait until a command runs."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

try:
    import typer
except ImportError as error:  # pragma: no cover - the extra is missing
    raise SystemExit("the command pril needs its extra: pip install 'pril[cli]'") from error

app = typer.Typer(
    name="pril",
    help="Learn to rate from ranges.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


@app.callback()
def _pril() -> None:
    """Learn to rate from ranges."""


class Figure(StrEnum):
    """What to rerun."""

    figure1 = "figure1"
    figure2 = "figure2"
    figure3 = "figure3"
    all = "all"


@app.command()
def reproduce(
    which: Annotated[Figure, typer.Argument(help="A figure, or all.")] = Figure.all,
    runs: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 100,
    quick: Annotated[bool, typer.Option("--quick", help="Ten repetitions.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("output/reproduction"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all randomness.")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print nothing.")] = False,
) -> None:
    """Rerun the paper's experiments and judge its claims.

    Example: pril reproduce --quick --out output
    """
    from rich.console import Console
    from rich.progress import Progress

    from pril.experiments import Settings
    from pril.experiments import reproduce as rerun

    console = Console(quiet=quiet)
    with Progress(console=console, transient=True) as bar:

        def start(total: int):  # type: ignore[no-untyped-def]
            task = bar.add_task("running", total=total)
            return lambda: bar.advance(task)

        settings = Settings(runs=10 if quick else runs, seed=seed, jobs=jobs)
        verdicts = rerun(out, which.value, settings, progress=start)
    for verdict in verdicts:
        console.print(f"[bold]{verdict.claim}[/] {verdict.text}\n   {verdict.verdict}")
    console.print(f"Report: {out / 'report.html'}")


def main() -> None:
    """Run the command; a mistake of the user's is one line and exit code 2."""
    try:
        app()
    except (ValueError, TypeError, OSError, ImportError) as error:
        print(f"pril: {error}", file=sys.stderr)
        sys.exit(2)
