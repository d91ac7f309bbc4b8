"""The command that shows the others: demo."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pril.cli import options as opt
from pril.cli.printing import Printer


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
