"""The commands that use a model: predict, evaluate, report, show, export, stream."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer
from typer import Option

from pril.cli import options as opt
from pril.cli.printing import Printer
from pril.core import words
from pril.errors import InputError, naming_file, shown

if TYPE_CHECKING:
    from pril.bases.classifier import OrdinalLearner
    from pril.online.recent_errors import ErrorReports
    from pril.tables.files import Table
    from pril.tables.label_columns import LabelKind
    from pril.tables.model import FitNotes, LoadedModel


def _load(model: Path) -> LoadedModel:
    from pril.tables.model import LoadedModel

    return LoadedModel(model)


def predict(
    model: opt.ModelArgument,
    table: opt.TableOptions,
    output: Annotated[Path | None, Option("--output", "-o", help="A table; else stdout.")] = None,
    proba: Annotated[
        bool, Option("--proba", help="Add the probability of each class, a column each.")
    ] = False,
    numbers: Annotated[
        str | None,
        Option(
            help="Add columns of numbers, if the model learned brackets: "
            "median,mean,quantile=0.9,above=50000."
        ),
    ] = None,
    ends: Annotated[
        str | None,
        Option(metavar="LOW,HIGH", help="With --numbers: where the open brackets end: 0,250000."),
    ] = None,
    *,
    printer: Printer,
) -> None:
    """Add the columns prediction and score to a table, and lower and upper if there are ranges.

    Example: pril predict flats.pril new.csv -o rated.csv
    """
    from pril.tables.model import output_format
    from pril.tables.writing import TableWriter, open_output

    if not output:  # the table goes to stdout, and JSON about it to stderr
        printer = replace(printer, quiet=printer.quiet or not printer.json)
        printer.stream = sys.stderr
    loaded = _load(model)
    if ends is not None and numbers is None:
        raise InputError("--ends is for numbers of brackets: pass --numbers too")
    columns = {} if numbers is None else opt.numbers_of_brackets(loaded, numbers, ends)
    opened = table.open(loaded)
    written = output_format(output, opened)
    with ExitStack() as stack:
        stream = sys.stdout.buffer
        if output:
            opt.check_output(output, [*opened.files, model])
            stream = stack.enter_context(open_output(output))
        progress = stack.enter_context(printer.progress())
        with naming_file(output or "standard output"):  # errors of reading name the table
            with closing(TableWriter(stream, written, table.style(loaded))) as writer:
                rows, unseen = loaded.predict(opened, writer, progress, proba, columns)
            stream.flush()
    for message in unseen.values():
        warnings.warn(message, stacklevel=1)
    lines = [f"rated {words.count(rows, 'row')}", *([f"table {output}"] if output else [])]
    result = {"rows": rows, "table": output and str(output), "unseen": list(unseen)}
    printer.result(result, lines)


def evaluate(
    model: opt.ModelArgument,
    table: opt.TableOptions,
    labels: opt.LabelOptions,
    *,
    printer: Printer,
) -> None:
    """Evaluate a model on a table with labels; without options, in the columns it learned from.

    Example: pril evaluate flats.pril more.csv
    """
    loaded = _load(model)
    opened, kind = _open_labelled(loaded, table, labels)
    with printer.progress() as progress:
        evaluation = loaded.evaluate(opened, kind, progress)
    result = evaluation.to_dict(loaded.learner.order_)
    more, caution = _caution(loaded.learned_from(opened))
    printer.result(result | more, [*words.evaluation_lines(result), *caution])


def report(
    model: opt.ModelArgument,
    table: opt.TableOptions,
    output: Annotated[Path, Option("--output", "-o", help="HTML file to write.")],
    labels: opt.LabelOptions,
    title: str | None = None,
    overwrite: bool = False,
    *,
    printer: Printer,
) -> None:
    """Write an HTML page on how good a model is on a table with labels.

    Example: pril report flats.pril more.csv -o report.html
    """
    loaded = _load(model)
    opened, kind = _open_labelled(loaded, table, labels)
    opt.check_output(output, [*opened.files, model], opt.PAGE, overwrite)
    notes = loaded.learned_from(opened)
    with printer.progress() as progress:
        result = loaded.report(opened, kind, output, progress, notes, title)
    more, caution = _caution(notes)
    lines = [*words.evaluation_lines(result), *caution, f"report {output}"]
    printer.result({**result, **more, "report": str(output)}, lines)


def _open_labelled(
    loaded: LoadedModel, table: opt.TableOptions, labels: opt.LabelOptions
) -> tuple[Table, LabelKind]:
    """Open a table with labels, as a model or the options know them."""
    opened = table.open(loaded, brackets=loaded.has_brackets)
    return opened, labels.kind_for(loaded, table.csv)


def _caution(known: FitNotes | None) -> tuple[dict[str, Any], list[str]]:
    """Return what to say of a table that a model learned from, as data and as lines."""
    if known is None:
        return {}, []
    return {"learned_rows": known.learned_rows}, [f"note: {words.rows_known(known)}"]


def show(
    model: opt.ModelArgument,
    plot: Path | None = None,
    top: int = 10,
    table: Annotated[
        bool, Option("--table", help="Errors, tests and intervals of an ordered logit.")
    ] = False,
    per: Literal["sd", "unit"] | None = None,
    *,
    printer: Printer,
) -> None:
    """Show what a model has learned, and from what.

    Example: pril show flats.pril --plot flats.png
    """
    loaded = _load(model)
    if table:
        from pril.inference import infer

        inference = infer(loaded.model, per=per or "unit")
        printer.result(inference.to_dict(), str(inference).splitlines())
        return
    learner = loaded.learner
    thresholds, intercept = getattr(learner, "thresholds_", None), loaded.intercept
    weights = loaded.weights(None if printer.json else top, per_unit=per == "unit")
    unit = loaded.unit_of_weights(per)
    result = {
        "model": loaded.name,
        "classes": learner.order_.tolist(),
        "thresholds": None if thresholds is None else thresholds.tolist(),
        "intercept": None if intercept is None else intercept.tolist(),
        _weights_are(learner): {name: weight.tolist() for name, weight in weights},
        "unit": unit,
        "rounds": learner.t_ if hasattr(learner, "t_") else learner.n_iter_,
        "mistakes": words.mistakes_of(learner),
        "coarsening": _coarsening(learner),
        "versions": loaded.about.versions,
        "notes": loaded.own_notes,
        "user_notes": loaded.user_notes,
    }
    lines = _model_lines(loaded, weights[:top], unit)
    if plot:
        opt.check_output(plot, [model])
        _draw(loaded, plot, top)
        result["plot"] = str(plot)
        lines.append(f"picture     {plot}")
    printer.result(result, lines)


def _coarsening(learner: OrdinalLearner) -> dict[str, Any] | None:
    """Return how classes become ranges, as a learner found it, as plain data."""
    from pril.core.coarsening import offset_name

    coarsening = words.coarsening_of(learner)
    return coarsening and {
        "mechanism": coarsening.mechanism,
        "shares": {offset_name(*way): share for way, share in coarsening.shares.items()},
        "evidence": coarsening.evidence,
    }


def _weights_are(learner: OrdinalLearner) -> str:
    """Return what the weights of a learner's features are called."""
    return "importances" if hasattr(learner, "feature_importances_") else "weights"


def _model_lines(
    loaded: LoadedModel, weights: list[tuple[str, Any]], unit: str | None
) -> list[str]:
    """Return what a model has learned, with its largest weights, for people."""
    learner = loaded.learner
    classes = " < ".join(map(str, learner.order_))
    lines = [f"model       {loaded.name}", f"classes     {classes}"]
    if hasattr(learner, "thresholds_"):
        lines.append(f"thresholds  {'  '.join(f'{cut:.4g}' for cut in learner.thresholds_)}")
    if loaded.intercept is not None and loaded.intercept.any():
        lines.append(f"intercept   {'  '.join(f'{part:.4g}' for part in loaded.intercept.ravel())}")
    named = _grouped(weights, loaded.word_columns)
    width = max((len(name) for name, _ in named), default=0)
    for k, (name, weight) in enumerate(named):
        numbers = "" if weight is None else " ".join(f"{part:>11.4g}" for part in weight.ravel())
        line = f"{'' if k else _weights_are(learner):<12}{name:<{width}}{numbers}"
        lines.append(line.rstrip())
    if weights and learner.n_features_in_ > len(weights):
        lines.append(f"{'':<12}and {learner.n_features_in_ - len(weights)} smaller")
    if unit is not None:
        others = "; words relative to the mean of their column" if loaded.word_columns else ""
        lines.append(f"{'':<12}per {unit} of a number{others}")
    if hasattr(learner, "dual_coef_"):
        lines.append(f"support     {words.count(len(learner.dual_coef_), 'row')}")
    lines.append(f"learned     {words.learned_so_far(learner)}")
    if coarsening := words.coarsening_of(learner):
        lines.append(f"coarsening  {coarsening}")
    if (source := loaded.notes).table is not None:
        where = f"{words.count(source.rows, 'row')} of {source.table}"
        lines.append(f"from        {where}, labels {', '.join(source.labels.columns)}")
    notes = [f"{name}: {json.dumps(value)}" for name, value in loaded.user_notes.items()]
    lines += [f"{'' if k else 'notes':<12}{note}" for k, note in enumerate(notes)]
    written = ", ".join(f"{name} {number}" for name, number in loaded.about.versions.items())
    return [*lines, f"written by  {written}"]


def _grouped(
    weights: list[tuple[str, Any]], words: dict[str, tuple[str, str]]
) -> list[tuple[str, Any]]:
    """Return weights, with those of words below the name of their column, which has none."""
    groups: dict[tuple[bool, str], list[tuple[str, Any]]] = {}
    for name, weight in weights:
        column, word = words.get(name, (name, ""))
        groups.setdefault((name in words, column), []).append((word, weight))
    named: list[tuple[str, Any]] = []
    for (is_worded, column), members in groups.items():
        if is_worded:
            named += [(column, None), *((f"  {word}", weight) for word, weight in members)]
        else:
            named += [(column, weight) for _, weight in members]
    return named


def _draw(loaded: LoadedModel, plot: Path, top: int) -> None:
    from pril.io.model_files import replace_file
    from pril.plotting import WeightsDisplay

    names = loaded.feature_names
    figure: Any = WeightsDisplay.from_estimator(loaded.model, names=names, top=top).figure_
    formats = sorted(figure.canvas.get_supported_filetypes())
    suffix = plot.suffix.lower().removeprefix(".")
    if suffix not in formats:
        raise InputError(f"{plot}: the suffix must be one of .{', .'.join(formats)}")
    with replace_file(plot) as file:
        figure.savefig(file, dpi=150, format=suffix)


def export(
    model: opt.ModelArgument,
    output: Annotated[Path, Option("--output", "-o", help="ONNX file to write.")],
    overwrite: bool = False,
    *,
    printer: Printer,
) -> None:
    """Write a model as ONNX, to predict without Python.

    Example: pril export flats.pril -o flats.onnx
    """
    from pril.io.model_files import load, replace_file
    from pril.onnx import to_onnx

    opt.check_output(output, [model], opt.GRAPH, overwrite)
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
    printer.result(result, lines)


@dataclass
class NewModel:
    """What a stream begins with if there is no model yet."""

    classes: Annotated[
        str | None, Option(help="Begin a new MODEL with these classes, lowest first: low,mid,high.")
    ] = None
    learner: opt.Learner = "ordered-logit"
    parameters: list[str] | None = None
    half_life: float | None = None

    @property
    def order(self) -> tuple[str, ...] | None:
        """The classes, lowest first."""
        return None if self.classes is None else opt.split_names("--classes", self.classes)

    def load_or_begin(self, model: Path, labels: opt.LabelOptions) -> LoadedModel:
        """Return a model from a file or, if there is none and classes are given, a new one."""
        from pril.tables.stream import blank_model

        given = opt.split_assignments(self.parameters)
        if model.exists():
            if given:
                raise InputError(f"--set is for a new model, and {model} exists: leave out --set")
            loaded = _load(model)
            order = tuple(map(str, loaded.learner.order_))
            if self.order not in (None, order):
                raise InputError(
                    f"{model} exists, and has the classes {', '.join(order)}: leave out --classes, "
                    "or choose another name for a new model"
                )
        elif self.order is None:
            raise InputError(
                f"{model}: No such file or directory; to begin a new model pass --classes, lowest "
                "first"
            )
        elif not (kind := labels.kind()).columns:
            raise InputError(opt.NO_LABELS)
        else:
            loaded = blank_model(model, self.order, kind, self.learner, given)
        if self.half_life is not None:
            loaded.set_half_life(self.half_life)
        return loaded


@dataclass
class StreamAnswers:
    """What a stream answers, and what it says of its answers."""

    every: int | None = None
    metrics: Path | None = None
    key: str | None = None
    note: str | None = None
    proba: Annotated[
        bool, Option("--proba", help="Print probabilities too, if the model has them.")
    ] = False
    on_error: Literal["stop", "skip"] = "stop"
    strict: bool = False


def stream(
    model: opt.ModelArgument,
    labels: opt.LabelOptions,
    begun: NewModel,
    *,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="Model file to write; may be MODEL itself, and is with --classes.",
        ),
    ] = None,
    saving: opt.CheckpointOptions,
    answers: StreamAnswers,
    again: bool = False,
    overwrite: bool = False,
    printer: Printer,
) -> None:
    """Predict rows from stdin, JSON Lines, and learn from those that have a label.

    Example: tail -f ratings.jsonl | pril stream flats.pril -o flats.pril
    """
    from pril.online.recent_errors import ErrorReports
    from pril.tables.checkpoints import hold, lock_of
    from pril.tables.json_lines import StreamOptions
    from pril.tables.stream import LineStream, Stopped, StreamRun

    printer.stream = sys.stderr
    output = model if output is None and begun.classes is not None else output
    if answers.note is not None and not (output or saving.checkpoint):
        raise InputError("--note keeps a value with the model: pass -o FILE or --checkpoint too")
    if output:
        in_place = opt.resolved(output) == opt.resolved(model)
        opt.check_output(output, [], opt.MODEL, overwrite or in_place)
    with ExitStack() as stack:
        saved = stack.enter_context(saving.held(output, usual=100_000))
        log = stack.enter_context(_metrics_file(answers, model, output))
        if output:  # two streams that replace one model would lose what one of them learned
            stack.enter_context(hold(lock_of(output), str(output)))
        loaded = begun.load_or_begin(model, labels)
        # A model that cannot learn answers all rows; labels are refused if they are asked for.
        kind = labels.kind(loaded if hasattr(loaded.learner, "partial_fit") else None)
        kind = labels.with_marks(kind, {})
        skips, strict, every = answers.on_error == "skip", answers.strict, answers.every
        options = StreamOptions(answers.key, answers.proba, skips, answers.note, strict)
        lines = LineStream(loaded, kind, options)
        if kind.columns and not output:
            printer.note("what is learned is not saved: pass -o FILE")
        tell, warn = _error_table(printer, log, every), partial(_warn_of_errors, printer, log)
        run = StreamRun(lines, sys.stdout.buffer, tell, saved, ErrorReports(every), warn)
        # What changes what a run learns.
        more = {"set": opt.split_assignments(begun.parameters), "strict": strict}
        given = {name: value for name, value in more.items() if value}
        settings = {"half-life": begun.half_life, **given}
        try:
            done = run.run_into(output, sys.stdin.fileno(), settings, again)
        except Stopped:
            printer.note("stopped; run the same command to go on" if saved else "stopped")
            raise typer.Exit(1) from None
    if saved and saved.is_resumed:
        printer.note(f"resumed from the checkpoint in {saving.checkpoint}")
    result = done.to_dict(loaded.learner.order_)
    printer.result(result, words.evaluation_lines(result))


@contextmanager
def _metrics_file(
    answers: StreamAnswers, model: Path, output: Path | None
) -> Iterator[TextIO | None]:
    """Yield a file to append lines of JSON to; refuse one that holds something else."""
    path = answers.metrics
    if path is None:
        yield None
        return
    if answers.every is None:
        raise InputError("--metrics has a line for every N labelled rows: pass --every N too")
    if opt.resolved(path) in (opt.resolved(model), output and opt.resolved(output)):
        raise InputError(f"--metrics {path} is the model: choose another name")
    opt.check_output(path, [])
    with path.open("a+", encoding="utf-8", errors="replace") as file:
        file.seek(0)
        if file.read(1) not in ("", "{"):
            raise InputError(f"{path} exists and does not hold lines of JSON: choose another name")
        yield file


def _error_table(
    printer: Printer, file: TextIO | None, every: int | None
) -> Callable[[ErrorReports], None]:
    """Return what prints how good the answers to the last rows were, below a header."""
    names = ("mean loss", "since last") if every is None else ("mean error", "inside")
    header = [f"{names[0]:>10}{names[1]:>{12 if every is None else 9}}{'rows':>12}"]

    def tell(errors: ErrorReports) -> None:
        recent, rows = errors.recent, errors.recent.rows
        if every is None:
            mean, since = errors.loss / rows, recent.loss / recent.size
            entry: dict[str, Any] = {"rows": rows, "mean_loss": mean, "since_last": since}
            line = f"{mean:>10.4f}{since:>12.4f}{rows:>12,}"
        else:
            entry = _logged(file, recent.to_dict())
            line = f"{entry['mean_error']:>10.4f}{entry['share_inside']:>9.1%}{rows:>12,}"
        if header:
            printer.note(header.pop())
        printer.note(line, entry)

    return tell


def _logged(file: TextIO | None, event: dict[str, Any]) -> dict[str, Any]:
    """Return an event with its time; write it to a file, if there is one."""
    event = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **event}
    if file:
        with naming_file(file.name):
            file.write(f"{json.dumps(event)}\n")
            file.flush()
    return event


def _warn_of_errors(printer: Printer, file: TextIO | None, alarm: dict[str, Any]) -> None:
    """Print that the error has risen."""
    event = _logged(file, alarm)
    marks = "".join(f", {name} {shown(event[name])}" for name in ("id", "note") if name in event)
    advice = f"if the rows have changed, try --half-life {event['half_life']}"
    printer.note(f"the error has risen: noticed at row {event['row']:,}{marks}; {advice}", event)
