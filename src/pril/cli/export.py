"""The command that writes a model for other languages: export."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pril.cli import options as opt
from pril.cli.printing import Printer


def export(
    model: opt.ModelArgument,
    output: Annotated[Path, typer.Option("--output", "-o", help="ONNX file to write.")],
    overwrite: opt.OverwriteOption = False,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Write a model as ONNX, to predict without Python.

    Example: pril export flats.pril -o flats.onnx
    """
    from pril.io.model_files import load, replace_file
    from pril.onnx import to_onnx

    opt.check_output(output, [model], "an ONNX graph", overwrite)
    graph = to_onnx(load(model))
    with replace_file(output) as file:
        file.write(graph.SerializeToString())
    inputs = [variable.name for variable in graph.graph.input]
    outputs = [variable.name for variable in graph.graph.output]
    lines = [
        f"graph    {output}",
        f"inputs   {', '.join(inputs)}",
        f"outputs  {', '.join(outputs)}",
    ]
    result = {"graph": str(output), "inputs": inputs, "outputs": outputs}
    Printer(quiet=quiet, json=json).result(result, lines)
