"""The command that writes a page about a model: report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pril.cli import options as opt
from pril.cli.printing import Printer
from pril.reporting.words import evaluation_lines


def report(
    model: opt.ModelArgument,
    table: opt.TableArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")],
    lower: opt.LowerOption = None,
    upper: opt.UpperOption = None,
    label: opt.LabelOption = None,
    format: opt.FormatOption = None,  # noqa: A002
    max_features: opt.MaxFeaturesOption = None,
    overwrite: opt.OverwriteOption = False,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Write a page with pictures on how good a model is on a table with labels.

    Example: pril report flats.pril more.csv -o report.html
    """
    from pril.tables.model import LoadedModel
    from pril.tables.table_report import write_report

    printer = Printer(quiet=quiet, json=json)
    loaded, opened = LoadedModel(model), opt.open_table(table, format, max_features)
    labels = opt.labels_for(loaded, label, lower, upper)
    opt.check_output(output, [*opened.files, model], "an HTML page", overwrite)
    with printer.progress() as progress:
        result = write_report(loaded, opened, labels, output, progress)
    lines = [*evaluation_lines(result), f"report {output}"]
    printer.result({**result, "report": str(output)}, lines)
