"""The commands that use a model: predict, evaluate, report, show, export, stream."""

from __future__ import annotations

import sys
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from pril.cli import options as opt
from pril.cli.printing import Printer
from pril.errors import InputError, naming_file
from pril.reporting.words import count, evaluation_lines

if TYPE_CHECKING:
    from pril.tables.answers import StreamOptions
    from pril.tables.checkpoints import Checkpoint
    from pril.tables.model import LoadedModel


def _load(model: Path) -> LoadedModel:
    from pril.tables.model import LoadedModel

    return LoadedModel(model)


def predict(
    model: opt.ModelArgument,
    table: opt.TableArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="A table; else stdout.")
    ] = None,
    format: opt.FormatOption = None,  # noqa: A002
    max_features: opt.MaxFeaturesOption = None,
    overwrite: opt.OverwriteOption = False,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Add columns prediction and score to a table; lower and upper, if the model has ranges.

    Example: pril predict flats.pril new.csv -o rated.csv
    """
    from pril.tables.model import output_format
    from pril.tables.writing import open_output

    # Without a file the table goes to stdout, and JSON about it to stderr.
    printer = Printer(
        quiet=quiet or not (output or json), json=json, stream=None if output else sys.stderr
    )
    loaded, opened = _load(model), opt.open_table(table, format, max_features)
    written = output_format(output, opened)
    with ExitStack() as stack:
        stream = sys.stdout.buffer
        if output:
            opt.check_output(
                output, [*opened.files, model], opt.table_kind(output, written), overwrite
            )
            stream = stack.enter_context(open_output(output))
        progress = stack.enter_context(printer.progress())
        with naming_file(output or "standard output"):  # errors of reading name the table
            rows, unseen = loaded.predict(opened, stream, written, progress)
            stream.flush()
    for message in unseen.values():
        warnings.warn(message, stacklevel=1)
    lines = [f"rated {count(rows, 'row')}", *([f"table {output}"] if output else [])]
    result = {"rows": rows, "table": output and str(output), "unseen": list(unseen)}
    printer.result(result, lines)


def evaluate(
    model: opt.ModelArgument,
    table: opt.TableArgument,
    lower: opt.LowerOption = None,
    upper: opt.UpperOption = None,
    label: opt.LabelOption = None,
    format: opt.FormatOption = None,  # noqa: A002
    max_features: opt.MaxFeaturesOption = None,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Evaluate a model on a table with labels, by default in the columns that it learned from.

    Example: pril evaluate flats.pril more.csv
    """
    printer = Printer(quiet=quiet, json=json)
    loaded, opened = _load(model), opt.open_table(table, format, max_features)
    labels = opt.labels_for(loaded, label, lower, upper)
    with printer.progress() as progress:
        evaluation = loaded.evaluate(opened, labels, progress)
    result = evaluation.to_dict(loaded.learner.order_)
    printer.result(result, evaluation_lines(result))


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
    printer = Printer(quiet=quiet, json=json)
    loaded, opened = _load(model), opt.open_table(table, format, max_features)
    labels = opt.labels_for(loaded, label, lower, upper)
    opt.check_output(output, [*opened.files, model], "an HTML page", overwrite)
    with printer.progress() as progress:
        result = loaded.report(opened, labels, output, progress)
    lines = [*evaluation_lines(result), f"report {output}"]
    printer.result({**result, "report": str(output)}, lines)


def show(
    model: opt.ModelArgument,
    plot: Annotated[Path | None, typer.Option(help="Draw the model to this file.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many weights to print.")] = 10,
    overwrite: opt.OverwriteOption = False,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Show what a model has learned, and from what.

    Example: pril show flats.pril --plot flats.png
    """
    loaded = _load(model)
    learner, about = loaded.learner, loaded.about
    thresholds = getattr(learner, "thresholds_", None)
    weights = loaded.weights(None if json else top)
    result = {
        "model": about.model,
        "classes": learner.order_.tolist(),
        "thresholds": None if thresholds is None else thresholds.tolist(),
        "weights": {name: weight.tolist() for name, weight in weights},
        "rounds": learner.t_,
        "mistakes": learner.n_mistakes_,
        "versions": about.versions,
        "notes": about.notes,
    }
    lines = _model_lines(loaded, weights[:top])
    if plot:
        opt.check_output(plot, [model], "a picture", overwrite)
        _draw(loaded, plot, top)
        result["plot"] = str(plot)
        lines.append(f"picture     {plot}")
    Printer(quiet=quiet, json=json).result(result, lines)


def _model_lines(loaded: LoadedModel, weights: list[tuple[str, Any]]) -> list[str]:
    """Return what a model has learned, with its largest weights, for people."""
    learner, about = loaded.learner, loaded.about
    classes = " < ".join(map(str, learner.order_))
    lines = [f"model       {about.model}", f"classes     {classes}"]
    if hasattr(learner, "thresholds_"):
        lines.append(f"thresholds  {'  '.join(f'{cut:.4g}' for cut in learner.thresholds_)}")
    width = max((len(name) for name, _ in weights), default=0)
    for k, (name, weight) in enumerate(weights):
        numbers = " ".join(f"{part:>11.4g}" for part in weight.ravel())
        lines.append(f"{'' if k else 'weights':<12}{name:<{width}}{numbers}")
    if weights and learner.n_features_in_ > len(weights):
        lines.append(f"{'':<12}and {learner.n_features_in_ - len(weights)} smaller")
    if not weights:
        lines.append(f"support     {count(len(learner.dual_coef_), 'row')}")
    lines.append(
        f"learned     {count(learner.t_, 'round')}, {count(learner.n_mistakes_, 'mistake')}"
    )
    if "table" in about.notes:
        source = f"{count(about.notes['rows'], 'row')} of {about.notes['table']}"
        lines.append(f"from        {source}, labels {', '.join(about.notes['labels'])}")
    written = ", ".join(f"{name} {number}" for name, number in about.versions.items())
    return [*lines, f"written by  {written}"]


def _draw(loaded: LoadedModel, plot: Path, top: int) -> None:
    from pril.io.model_files import replace_file
    from pril.plotting import plot_model

    figure: Any = plot_model(loaded.learner, loaded.feature_names, top=top).figure
    known = sorted(figure.canvas.get_supported_filetypes())
    suffix = plot.suffix.lower().removeprefix(".")
    if suffix not in known:
        raise InputError(f"{plot}: the suffix must be one of .{', .'.join(known)}")
    with replace_file(plot) as file:
        figure.savefig(file, dpi=150, format=suffix)


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


def stream(
    model: opt.ModelArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Keep what was learned here; may be MODEL itself."),
    ] = None,
    lower: opt.LowerOption = None,
    upper: opt.UpperOption = None,
    label: opt.LabelOption = None,
    checkpoint: opt.CheckpointOption = None,
    every: opt.EveryOption = 100_000,
    half_life: Annotated[
        float | None,
        typer.Option("--half-life", help="Rows after which what was learned counts half."),
    ] = None,
    key: Annotated[str | None, typer.Option("--id", help="Column to copy to the answer.")] = None,
    proba: Annotated[
        bool, typer.Option("--proba", help="Answer with probabilities, if the model has them.")
    ] = False,
    on_error: Annotated[
        Literal["stop", "skip"],
        typer.Option("--on-error", help="At a bad line: stop, or answer with the error."),
    ] = "stop",
    again: Annotated[
        bool,
        typer.Option("--again", help="Learn rows even if MODEL's last checkpointed run did."),
    ] = False,
    format: Annotated[  # noqa: A002
        opt.StreamFormat | None, typer.Option("--format", help="Override the detected format.")
    ] = None,
    overwrite: opt.OverwriteOption = False,
    quiet: opt.QuietOption = False,
    json: opt.JsonOption = False,
) -> None:
    """Answer rows from stdin, one line each, and learn from those that have a label.

    Example: tail -f ratings.jsonl | pril stream flats.pril -o flats.pril
    """
    from pril.tables.answers import StreamOptions
    from pril.tables.checkpoints import hold, lock_of

    printer = Printer(quiet=quiet, json=json, stream=sys.stderr)
    if output:
        opt.check_output(output, [], opt.MODEL, overwrite)
    saved = opt.open_checkpoint(checkpoint, every, {}, output)
    with ExitStack() as stack:
        if saved:
            stack.enter_context(saved.held())
        if output:  # two streams that replace one model would lose what one of them learned
            stack.enter_context(hold(lock_of(output), str(output)))
        loaded = _load(model)
        named = lower or upper or label
        labels = opt.label_columns(label, lower, upper) if named else loaded.labels
        if half_life is not None:
            loaded.set_half_life(half_life)
        options = StreamOptions(key, chances=proba, skip=on_error == "skip")
        result = _stream(loaded, labels, output, saved, half_life, options, again, format, printer)
    if saved:  # last: before this, the same command would go on from the checkpoint
        saved.remove()
    printer.result(result, evaluation_lines(result))


def _stream(
    loaded: LoadedModel,
    labels: tuple[str, ...],
    output: Path | None,
    saved: Checkpoint | None,
    half_life: float | None,
    options: StreamOptions,
    again: bool,
    format: opt.StreamFormat | None,  # noqa: A002
    printer: Printer,
) -> dict[str, Any]:
    """Answer all rows, and write what was learned; return how good the answers were."""
    from dataclasses import asdict
    from hashlib import sha256

    from pril.io import model_files
    from pril.tables.stream import Finished, Stopped, Stream

    if loaded.ranges and labels:
        raise InputError(
            f"{loaded.path} holds calibrated ranges: what it learned now would void them"
        )
    if loaded.is_frozen and labels:
        raise InputError(f"{loaded.path} holds a FrozenEstimator, which does not learn")
    if labels and not output:
        printer.note("what is learned is not kept: pass -o FILE")
    notes = {"labels": list(labels), **loaded.about.notes}
    last = Finished.of(notes.pop("finished", None), loaded.path)
    begun = {
        "checksum": sha256(loaded.path.read_bytes()).hexdigest(),
        "streamed": notes.get("streamed", 0),
    }
    origin: dict[str, Any] = {"model": begun, "labels": list(labels), "half-life": half_life}
    if options.skip:  # blank lines count as rows
        origin["on-error"] = "skip"
    rows = Stream(loaded, labels, sys.stdout.buffer, _LossTable(printer), saved, options)
    in_place = bool(saved and output and output.resolve() == loaded.path.resolve())
    if saved:
        saved.origin = origin
        if in_place and last:
            if saved.is_of(last.origin):  # killed after it had replaced the model
                saved.remove()
            if not again and last.origin | {"model": begun} == origin and not saved.path.exists():
                rows.last = last

    def keep() -> None:
        if not output:
            return
        notes["streamed"] = begun["streamed"] + rows.evaluation.rows
        if in_place:
            notes["finished"] = asdict(Finished(origin, rows.position, rows.evaluation))
        model_files.write(loaded.model, output, kind="model", notes=notes)

    try:
        rows.run(sys.stdin.fileno(), format)
    except (ValueError, OSError, Stopped) as error:
        if saved is None:  # the model has learned all rows before this one
            keep()
        if isinstance(error, Stopped):
            printer.note("stopped; run the same command to go on" if saved else "stopped")
            raise typer.Exit(1) from None
        raise
    if last and rows.is_repeated:
        said = f"{loaded.path} has learned the first {count(last.position.rows, 'row')} already"
        warnings.warn(f"{said}; to learn them once more pass --again", stacklevel=1)
        if rows.position.rows == last.position.rows:  # the model stays as it is
            return last.evaluation.to_dict(loaded.learner.order_)
    keep()
    return rows.evaluation.to_dict(loaded.learner.order_)


class _LossTable:
    """Print the mean loss of a stream, a line whenever the number of rows has doubled."""

    def __init__(self, printer: Printer) -> None:
        self.printer = printer
        self.rows, self.loss = 0, 0

    def __call__(self, rows: int, loss: int) -> None:
        mean, recent = loss / rows, (loss - self.loss) / (rows - self.rows)
        if self.rows == 0:
            self.printer.note(f"{'mean loss':>10}{'since last':>12}{'rows':>12}")
        self.printer.note(
            f"{mean:>10.4f}{recent:>12.4f}{rows:>12,}",
            {"rows": rows, "mean_loss": mean, "since_last": recent},
        )
        self.rows, self.loss = rows, loss
