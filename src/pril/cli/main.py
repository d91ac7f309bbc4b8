"""The command `pril`: a client of the library. Heavy imports wait until a command runs."""

from __future__ import annotations

import gzip
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

try:
    import typer
except ImportError as error:  # pragma: no cover - the extra is missing
    raise SystemExit("the command pril needs its extra: pip install 'pril[cli,io]'") from error

from pril.cli.printing import Printer

if TYPE_CHECKING:
    from pril.tables.files import Table
    from pril.tables.model import LoadedModel
    from pril.tables.training import Run, Task

_UsageError: Any = typer.BadParameter.__base__  # typer shows only this one of its errors

app = typer.Typer(
    name="pril",
    help="Learn to rate from ranges.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)


class Format(StrEnum):
    """How a table is written."""

    csv = "csv"
    tsv = "tsv"
    parquet = "parquet"
    jsonl = "jsonl"
    svmlight = "svmlight"


class Learner(StrEnum):
    """Which model to learn."""

    pril = "pril"
    mpril = "mpril"
    kernel = "kernel"
    prank = "prank"
    widrow_hoff = "widrow-hoff"
    perceptron = "perceptron"


class StreamFormat(StrEnum):
    """How rows come in a stream."""

    jsonl = "jsonl"
    csv = "csv"


class AuditedLearner(StrEnum):
    """Whose bounds there are."""

    pril = "pril"
    mpril = "mpril"


class Figure(StrEnum):
    """What to rerun."""

    figure1 = "figure1"
    figure2 = "figure2"
    figure3 = "figure3"
    all = "all"


TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A file, a folder, a glob in quotes, or - for stdin.")
]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A file of pril fit.")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="If the table's suffix does not say it.")
]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column of exact labels.")]
LowerOption = Annotated[str | None, typer.Option("--lower", help="Column of lower ends.")]
UpperOption = Annotated[str | None, typer.Option("--upper", help="Column of upper ends.")]
ClassesOption = Annotated[
    str | None, typer.Option("--classes", help="All classes, lowest first: low,mid,high.")
]
ModelOption = Annotated[Learner, typer.Option("--model", help="What to learn.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the model: average=false."),
]
FeaturesOption = Annotated[
    str | None, typer.Option("--features", help="Columns to use, a,b,c; else all but the labels.")
]
DropOption = Annotated[str | None, typer.Option("--drop", help="Columns to leave out.")]
TextOption = Annotated[
    str | None, typer.Option("--text", help="Columns of numbers to read as words.")
]
ScaleOption = Annotated[bool, typer.Option("--scale/--no-scale", help="Standardise numbers.")]
ImputeOption = Annotated[
    bool, typer.Option("--impute/--no-impute", help="Fill missing numbers with the mean.")
]
OneHotOption = Annotated[
    bool, typer.Option("--one-hot/--no-one-hot", help="Use columns of words, one feature a word.")
]
CheckpointOption = Annotated[
    Path | None, typer.Option("--checkpoint", help="Folder to go on from after a crash.")
]
EveryOption = Annotated[int, typer.Option("--every", min=1, help="Rows between two checkpoints.")]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="Learn on this Dask cluster: tcp://host:8786.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Learn in so many local processes (Dask).")
]
SeedOption = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all randomness.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print results as JSON for machines.")]


def _print_version(asked: bool) -> None:
    if asked:
        from pril import __version__

        print(f"pril {__version__}")
        raise typer.Exit


@app.callback()
def _pril(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Learn to rate from ranges."""


# --- Learning ------------------------------------------------------------------------------------


@app.command()
def fit(
    table: TableArgument,
    lower: LowerOption = None,
    upper: UpperOption = None,
    label: LabelOption = None,
    classes: ClassesOption = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Model file; else TABLE's name, .pril.")
    ] = None,
    model: ModelOption = Learner.pril,
    parameters: SetOption = None,
    features: FeaturesOption = None,
    drop: DropOption = None,
    text: TextOption = None,
    scale: ScaleOption = True,
    impute: ImputeOption = True,
    one_hot: OneHotOption = True,
    epochs: Annotated[int, typer.Option(min=1, help="Passes over the rows, at most.")] = 10,
    shuffle: Annotated[
        bool, typer.Option("--shuffle/--no-shuffle", help="Shuffle rows, block by block.")
    ] = True,
    holdout: Annotated[
        float, typer.Option(min=0.0, max=0.99, help="Share of rows to judge the model on.")
    ] = 0.2,
    seed: SeedOption = 0,
    checkpoint: CheckpointOption = None,
    every: EveryOption = 1_000_000,
    cluster: ClusterOption = None,
    workers: WorkersOption = None,
    format: FormatOption = None,  # noqa: A002
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Learn a model from a table of any size.

    Example: pril fit flats.csv --lower low --upper high --classes poor,fair,good,great
    """
    from pril import io
    from pril.tables.files import TableError
    from pril.tables.training import Run

    say = Printer(quiet=quiet, json=json)
    task = _task(
        (label, lower, upper, classes),
        (features, drop, text),
        model=model.value,
        parameters=_parameters(parameters),
        scale=scale,
        impute=impute,
        one_hot=one_hot,
        shuffle=shuffle,
        epochs=epochs,
        holdout=holdout,
        seed=seed,
    )
    opened = _open(table, format)
    output = output or Path(f"{_stem(table)}.pril")
    _check_output(output, opened.files)
    with ExitStack() as stack:
        if cluster is not None or workers is not None:
            run = _cluster_run(opened, task, cluster, workers, checkpoint, say, stack)
            keeper = None
        else:
            run = Run(opened, task, stack.enter_context(say.progress()))
            keeper = _checkpoint(checkpoint, every, run.origin())
        try:
            fitted = run(keeper)
        except TableError:  # mended, it is another table: this checkpoint is of no use
            if keeper:
                keeper.path.unlink(missing_ok=True)
            raise
        verdict = run.judge().to_dict() if holdout else None
    report = _described(run, verdict, table)
    io.write(fitted, output, kind="model", notes=report)
    if keeper:
        keeper.path.unlink(missing_ok=True)
    say.result({**report, "model": str(output)}, _fit_lines(report, output))


def _cluster_run(
    table: Table,
    task: Task,
    cluster: str | None,
    workers: int | None,
    checkpoint: Path | None,
    say: Printer,
    stack: ExitStack,
) -> Run:
    from pril.tables.cluster import ClusterRun, connected

    if cluster is not None and workers is not None:
        raise ValueError("--cluster and --workers: choose one")
    if cluster == "":  # a variable that is not set
        raise ValueError("--cluster is empty: pass the address of a scheduler, tcp://host:8786")
    if checkpoint:
        raise ValueError(
            "--checkpoint is for one process: on a cluster Dask computes again what is lost"
        )
    if task.model == "kernel":
        option = "--workers" if cluster is None else "--cluster"
        raise ValueError(
            f"--model kernel is for one process: leave out {option}, or choose another model"
        )
    client = stack.enter_context(connected(cluster, workers))
    return ClusterRun(table, task, client, progress=say.is_watched and sys.stdout.isatty())


def _described(run: Run, verdict: dict[str, Any] | None, table: str) -> dict[str, Any]:
    """Return what was read and learned: the result for machines, and the model's provenance."""
    from dataclasses import asdict

    from pril._ranks import plain

    order, ranks, counts = run.encode_labels()
    n_silent = run.counts.n_silent()
    n_silent_held = verdict["unlabelled_rows"] if verdict else 0
    ends = {name: {"exact": 0, "lower": 0, "upper": 0} for name in range(len(order))}
    widths: dict[int, int] = {}
    for (lo, hi), count in zip(ranks.tolist(), counts.tolist(), strict=True):
        widths[hi - lo + 1] = widths.get(hi - lo + 1, 0) + count
        if lo == hi:
            ends[lo]["exact"] += count
        else:
            ends[lo]["lower"] += count
            ends[hi]["upper"] += count
    if n_silent:  # no label allows everything, but is no range
        widths[len(order)] -= n_silent
        ends[0]["lower"] -= n_silent
        ends[len(order) - 1]["upper"] -= n_silent
    ignored = run.columns.ignored | dict.fromkeys(run.encoder.left_out_, "too many words")
    return {
        "table": table,
        "labels": list(run.task.labels),
        "rows": run.n_rows,
        "columns": {
            "numbers": run.encoder.numbers_,
            "words": {name: len(words) for name, words in run.encoder.words_.items()},
            "sparse": dict(run.encoder.widths_),
            "ignored": ignored,
        },
        "classes": [{"class": plain(name), **ends[k]} for k, name in enumerate(order)],
        "widths": {str(width): widths[width] for width in sorted(widths) if widths[width]},
        "unlabelled_rows": n_silent,
        "passes": run.epoch,
        "learned_rows": run.model.t_ // run.epoch - (n_silent - n_silent_held),
        "mistakes": run.model.n_mistakes_,
        "holdout": verdict,
        "options": {k: v for k, v in asdict(run.task).items() if k != "labels"},
    }


def _fit_lines(report: dict[str, Any], output: Path) -> list[str]:
    columns = report["columns"]
    words = [f"{name} ({_count(n, 'word')})" for name, n in columns["words"].items()]
    sparse = [f"{name} ({_count(n, 'feature')})" for name, n in columns["sparse"].items()]
    ignored = [f"{name} ({reason})" for name, reason in columns["ignored"].items()]
    names = {"labels": report["labels"], "numbers": columns["numbers"], "words": words}
    lines = [f"read      {_count(report['rows'], 'row')} of {report['table']}"]
    for name, found in (names | {"sparse": sparse, "ignored": ignored}).items():
        if found:
            lines.append(f"{name:<10}{_listed(found)}")
    width = max(8, *(len(str(entry["class"])) for entry in report["classes"]))
    lines.append(f"{'classes':<{width + 2}}{'exact':>10}{'as lower end':>14}{'as upper end':>14}")
    for entry in report["classes"]:
        counts = f"{entry['exact']:>10,}{entry['lower']:>14,}{entry['upper']:>14,}"
        lines.append(f"  {entry['class']!s:<{width}}{counts}")
    spelled = [
        f"{'exact' if width == '1' else f'{width} classes'} {count:,}"
        for width, count in report["widths"].items()
    ]
    if report["unlabelled_rows"]:
        spelled.append(f"no label {report['unlabelled_rows']:,}")
    lines.append(f"ranges    {', '.join(spelled)}")
    lines.append(
        f"learned   from {_count(report['learned_rows'], 'row')} in "
        f"{_count(report['passes'], 'pass')}, {_count(report['mistakes'], 'mistake')}"
    )
    if report["holdout"]:
        lines += [f"held out  {line}" for line in _verdict_lines(report["holdout"])[:1]]
        lines += [f"          {line}" for line in _verdict_lines(report["holdout"])[1:]]
    return [*lines, f"model     {output}"]


def _verdict_lines(verdict: dict[str, Any]) -> list[str]:
    if not verdict["rows"]:
        return ["no rows with a label"]
    lines = [
        f"{_count(verdict['rows'], 'row')}: {verdict['interval_accuracy']:.1%} inside their range, "
        f"off by {verdict['interval_absolute_error']:.4f} ranks on average"
    ]
    if verdict["exact_rows"]:
        lines.append(
            f"{_count(verdict['exact_rows'], 'row')} with an exact label: off by "
            f"{verdict['exact_absolute_error']:.4f} ranks"
        )
    if verdict["unlabelled_rows"]:
        lines.append(f"{_count(verdict['unlabelled_rows'], 'row')} without a label left out")
    return lines


# --- Using a model -------------------------------------------------------------------------------


@app.command()
def predict(
    model: ModelArgument,
    table: TableArgument,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table to write; else stdout.")
    ] = None,
    format: FormatOption = None,  # noqa: A002
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Add columns prediction and score to a table.

    Example: pril predict flats.pril new.csv -o rated.csv
    """
    import pyarrow as pa

    from pril.tables.files import TableError
    from pril.tables.formats import format_of
    from pril.tables.survey import located
    from pril.tables.writing import TableWriter

    # Without a file the table goes to stdout, and what is said of it to stderr.
    unsaid = quiet or not (output or json)
    say = Printer(quiet=unsaid, json=json, stream=None if output else sys.stderr)
    loaded, opened = _opened_for(model, table, format)
    kind = format_of(output) if output else _text_format(opened)
    gzipped = output is not None and output.suffix == ".gz"
    if kind not in ("csv", "tsv", "jsonl", "parquet") or (gzipped and kind == "parquet"):
        raise ValueError(f"{output}: the suffix must be one of .csv, .tsv, .jsonl, .parquet")
    for name in ("prediction", "score"):
        if name in opened.schema.names:
            raise TableError(f"{table}: there is a column {name!r} already; rename it first")
    strangers: dict[str, str] = {}
    rows = 0
    with ExitStack() as stack:
        stream = sys.stdout.buffer
        if output:
            from pril.io import replace_file

            _check_output(output, [*opened.files, model])
            stream = stack.enter_context(replace_file(output))
        if gzipped:
            stream = stack.enter_context(gzip.GzipFile("", "wb", fileobj=stream, mtime=0))
        progress = stack.enter_context(say.progress())
        writer = TableWriter(stream, str(kind))
        stack.callback(writer.close)
        for first, used, block in opened.carried(loaded.columns, str(kind)):
            with located(opened, first):
                features = loaded.features(used, opened.schema)
                rank, score = loaded.rate(features)
                _note_strangers(strangers, loaded, opened, first, used)
                _check_text(block)
            answer = {"prediction": loaded.class_column(rank), "score": pa.array(score)}
            writer.write(block, answer)
            rows += len(rank)
            progress("predicting", rows, opened.n_rows)
        if rows == 0:
            raise TableError(f"{table} has no rows")
    for message in strangers.values():
        warnings.warn(message, stacklevel=1)
    lines = [f"rated {_count(rows, 'row')}", *([f"table {output}"] if output else [])]
    result = {"rows": rows, "table": output and str(output), "unseen": list(strangers)}
    say.result(result, lines)


def _check_text(block: Any) -> None:
    """Refuse text that is not UTF-8, in any column."""
    import pyarrow as pa

    from pril.tables.cells import kind_of, read_words

    if isinstance(block, list):  # lines, which are text already
        return
    try:
        block.validate(full=True)
    except pa.ArrowInvalid:
        for name in block.schema.names:
            if kind_of(block.schema.field(name).type) == "text":
                read_words(block.column(name), name)
        raise


def _text_format(table: Table) -> str:
    from pril.tables.formats import JsonLines, Tsv

    return "jsonl" if isinstance(table, JsonLines) else "tsv" if isinstance(table, Tsv) else "csv"


def _note_strangers(
    found: dict[str, str], loaded: LoadedModel, table: Table, first: int, block: Any
) -> None:
    from pril.errors import shown

    for name, (row, word) in (loaded.encoder.strangers(block) if loaded.encoder else {}).items():
        found.setdefault(
            name,
            f"{table.where(first + row)}: column {name!r} is {shown(word)}, which the model has "
            "never seen; it counts as no word",
        )


@app.command()
def evaluate(
    model: ModelArgument,
    table: TableArgument,
    lower: LowerOption = None,
    upper: UpperOption = None,
    label: LabelOption = None,
    format: FormatOption = None,  # noqa: A002
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Judge a model on a table with labels; their columns are those it learned from, unless named.

    Example: pril evaluate flats.pril more.csv
    """
    from pril.tables.cells import read_labels
    from pril.tables.files import TableError
    from pril.tables.survey import located
    from pril.tables.training import Verdict, judge

    say = Printer(quiet=quiet, json=json)
    loaded, opened = _opened_for(model, table, format)
    names = loaded.labels if not (lower or upper or label) else _labels(label, lower, upper)
    if not names:
        raise ValueError(f"{model} does not know its labels' columns: pass --label, or both ends")
    verdict, rows = Verdict(), 0
    with say.progress() as progress:
        for first, block in opened.blocks([*loaded.columns, *names]):
            with located(opened, first, names):
                found = read_labels(block, names, text=loaded.has_text_labels)
                judge(loaded.learner, loaded.features(block, opened.schema), found, verdict)
            rows += block.num_rows
            progress("judging", rows, opened.n_rows)
    if rows == 0:
        raise TableError(f"{table} has no rows")
    say.result(verdict.to_dict(), _verdict_lines(verdict.to_dict()))


@app.command()
def show(
    model: ModelArgument,
    plot: Annotated[Path | None, typer.Option(help="Draw the model to this file.")] = None,
    top: Annotated[int, typer.Option(min=1, help="How many weights to print.")] = 10,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Show what a model has learned, and from what.

    Example: pril show flats.pril --plot flats.png
    """
    say = Printer(quiet=quiet, json=json)
    loaded = _load(model)
    learner, about = loaded.learner, loaded.about
    thresholds = getattr(learner, "thresholds_", None)
    classes = [_plain(name) for name in learner.classes_]
    weights = [(name, _plain(weight)) for name, weight in loaded.weights()]
    result = {
        "model": about.model,
        "classes": classes,
        "thresholds": None if thresholds is None else thresholds.tolist(),
        "weights": dict(weights),
        "rounds": learner.t_,
        "mistakes": learner.n_mistakes_,
        "versions": about.versions,
        "notes": about.notes,
    }
    lines = [f"model       {about.model}", f"classes     {' < '.join(map(str, classes))}"]
    if thresholds is not None:
        lines.append(f"thresholds  {'  '.join(f'{cut:.4g}' for cut in thresholds)}")
    width = max((len(name) for name, _ in weights[:top]), default=0)
    for k, (name, weight) in enumerate(weights[:top]):
        shown = [f"{part:>11.4g}" for part in (weight if isinstance(weight, list) else [weight])]
        lines.append(f"{'weights' if k == 0 else '':<12}{name:<{width}}{' '.join(shown)}")
    if len(weights) > top:
        lines.append(f"{'':<12}and {len(weights) - top} smaller")
    if not weights:
        lines.append(f"support     {_count(len(learner.dual_coef_), 'row')}")
    lines.append(
        f"learned     {_count(learner.t_, 'round')}, {_count(learner.n_mistakes_, 'mistake')}"
    )
    if "table" in about.notes:
        source = f"{_count(about.notes['rows'], 'row')} of {about.notes['table']}"
        lines.append(f"from        {source}, labels {', '.join(about.notes['labels'])}")
    written = ", ".join(f"{name} {number}" for name, number in about.versions.items())
    lines.append(f"written by  {written}")
    if plot:
        from pril.io import replace_file
        from pril.plotting import plot_model

        _check_output(plot, [model])
        figure: Any = plot_model(learner, loaded.feature_names, top=top).figure
        known = sorted(figure.canvas.get_supported_filetypes())
        suffix = plot.suffix.lower().removeprefix(".")
        if suffix not in known:
            raise ValueError(f"{plot}: the suffix must be one of .{', .'.join(known)}")
        with replace_file(plot) as file:
            figure.savefig(file, dpi=150, format=suffix)
        result["plot"] = str(plot)
        lines.append(f"picture     {plot}")
    say.result(result, lines)


@app.command()
def stream(
    model: ModelArgument,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Keep what was learned here; may be MODEL itself."),
    ] = None,
    lower: LowerOption = None,
    upper: UpperOption = None,
    label: LabelOption = None,
    checkpoint: CheckpointOption = None,
    every: EveryOption = 100_000,
    format: Annotated[  # noqa: A002
        StreamFormat | None, typer.Option("--format", help="If the first byte misleads.")
    ] = None,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Answer rows from stdin, one line each, and learn from those that carry a label.

    Example: tail -f ratings.jsonl | pril stream flats.pril -o flats.pril
    """
    from hashlib import sha256

    from pril import io
    from pril.tables.stream import Stopped, Stream

    say = Printer(quiet=quiet, json=json, stream=sys.stderr)
    loaded = _load(model)
    names = _labels(label, lower, upper) if lower or upper or label else loaded.labels
    if loaded.is_frozen and names:
        raise ValueError(f"{model} holds a FrozenEstimator, which does not learn")
    if output:
        _check_output(output, [])
    elif not quiet and names:
        say.note("what is learned is not kept: pass -o FILE")
    origin = {"model": sha256(model.read_bytes()).hexdigest(), "labels": list(names)}
    keeper = _checkpoint(checkpoint, every, origin)
    flow = Stream(loaded, names, sys.stdout.buffer, _Losses(say), keeper)

    def keep() -> None:
        notes = {"labels": list(names), **loaded.about.notes}
        notes["streamed"] = notes.get("streamed", 0) + flow.verdict.rows
        if output:
            io.write(loaded.model, output, kind="model", notes=notes)

    try:
        flow.run(sys.stdin.fileno(), format and format.value)
    except (ValueError, OSError, Stopped) as error:
        if keeper is None:  # what was learned before is whole
            keep()
        if isinstance(error, Stopped):
            say.note("stopped; run the same command to go on" if keeper else "stopped")
            raise typer.Exit(1) from None
        raise
    keep()
    if keeper:
        keeper.path.unlink(missing_ok=True)
    say.result(flow.verdict.to_dict(), _verdict_lines(flow.verdict.to_dict()))


class _Losses:
    """The running loss of a stream, a line whenever the number of rows has doubled."""

    def __init__(self, say: Printer) -> None:
        self.say = say
        self.rows, self.loss = 0, 0

    def __call__(self, rows: int, loss: int) -> None:
        mean, recent = loss / rows, (loss - self.loss) / (rows - self.rows)
        if self.rows == 0:
            self.say.note(f"{'mean loss':>10}{'since last':>12}{'rows':>12}")
        self.say.note(
            f"{mean:>10.4f}{recent:>12.4f}{rows:>12,}",
            {"rows": rows, "mean_loss": mean, "since_last": recent},
        )
        self.rows, self.loss = rows, loss


# --- The paper -----------------------------------------------------------------------------------


@app.command()
def audit(
    table: TableArgument,
    lower: LowerOption = None,
    upper: UpperOption = None,
    label: LabelOption = None,
    classes: ClassesOption = None,
    model: Annotated[
        AuditedLearner, typer.Option("--model", help="What to learn.")
    ] = AuditedLearner.pril,
    parameters: SetOption = None,
    features: FeaturesOption = None,
    drop: DropOption = None,
    text: TextOption = None,
    scale: ScaleOption = True,
    impute: ImputeOption = True,
    one_hot: OneHotOption = True,
    format: FormatOption = None,  # noqa: A002
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Run the paper's algorithm once over a table, held in memory, against every bound.

    Example: pril audit flats.csv --lower low --upper high --classes poor,fair,good,great
    """
    from pril.tables.training import Run
    from pril.theory import audit as check

    say = Printer(quiet=quiet, json=json)
    task = _task(
        (label, lower, upper, classes),
        (features, drop, text),
        model=model.value,
        parameters=_parameters(parameters),
        scale=scale,
        impute=impute,
        one_hot=one_hot,
        holdout=0.0,
    )
    with say.progress() as progress:
        run = Run(_open(table, format), task, progress)
        X, y = run.gather()
        found = check(X, y, run.model)
    bounds = [{**bound._asdict(), "room": bound.room} for bound in found.bounds]
    say.result({"facts": found.facts, "bounds": bounds}, str(found).splitlines())


@app.command()
def reproduce(
    which: Annotated[Figure, typer.Argument(help="A figure, or all.")] = Figure.all,
    runs: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 100,
    quick: Annotated[bool, typer.Option("--quick", help="Ten repetitions.")] = False,
    out: Annotated[Path, typer.Option(help="Folder to write to.")] = Path("output/reproduction"),
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = os.cpu_count() or 1,
    seed: SeedOption = 0,
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Rerun the paper's experiments and judge its claims.

    Example: pril reproduce --quick --out output
    """
    from pril.experiments import Settings
    from pril.experiments import reproduce as rerun

    say = Printer(quiet=quiet, json=json)
    with say.progress() as progress:

        def start(total: int) -> Callable[[], None]:
            done = iter(range(1, total + 1))
            return lambda: progress("running", next(done), total)

        settings = Settings(runs=10 if quick else runs, seed=seed, jobs=jobs)
        verdicts = rerun(out, which.value, settings, progress=start)
    lines = [f"{verdict.claim} {verdict.text}\n   {verdict.verdict}" for verdict in verdicts]
    report = out / "report.html"
    claims = {
        verdict.claim: {"text": verdict.text, "verdict": verdict.verdict} for verdict in verdicts
    }
    say.result({"claims": claims, "report": str(report)}, [*lines, f"Report: {report}"])


@app.command()
def demo(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder to write to.")] = Path(
        "output"
    ),
    quiet: QuietOption = False,
    json: JsonOption = False,
) -> None:
    """Make a small table of flats that raters disagree on, and run the commands on it.

    Example: pril demo
    """
    from pril.tables.demo import write_flats

    say = Printer(quiet=quiet, json=json)
    table, new, rated, picture = write_flats(folder)
    ends = ("--lower", "low", "--upper", "high")
    fitted = str(folder / "flats.pril")
    steps: list[list[str]] = [
        ["fit", table, *ends, "--classes", "poor,fair,good,great", "-o", fitted],
        ["show", fitted, "--plot", picture],
        ["predict", fitted, new, "-o", rated],
        ["evaluate", fitted, new, "--label", "grade"],
    ]
    for step in steps:
        say.note(f"\n$ pril {' '.join(step)}")
        app(
            args=[*step, *(["--quiet"] if quiet else ["--json"] if json else [])],
            standalone_mode=False,
        )


# --- Arguments -----------------------------------------------------------------------------------


def _names(listed: str | None) -> tuple[str, ...] | None:
    """Return the names in a list with commas; quotes protect commas and spaces, as in CSV."""
    import csv

    if listed is None:
        return None
    names = tuple(next(csv.reader([listed], skipinitialspace=True), []))
    if not all(names) or not names:
        raise ValueError(f"{listed!r}: names, separated by commas, are expected")
    return names


def _labels(label: str | None, lower: str | None, upper: str | None) -> tuple[str, ...]:
    if label and not (lower or upper):
        return (label,)
    if lower and upper and not label:
        if lower == upper:
            raise ValueError(f"--lower and --upper are both {lower}; for exact labels pass --label")
        return (lower, upper)
    if label:
        raise ValueError("--label is for exact labels, --lower and --upper for ranges: choose one")
    raise ValueError("where are the labels? Pass --label COLUMN, or --lower COLUMN --upper COLUMN")


def _task(labels: tuple[str | None, ...], columns: tuple[str | None, ...], **options: Any) -> Task:
    """Return what the options of labels and columns, and the others, ask for."""
    from pril.tables.training import Task

    *named, classes = labels
    features, drop, text = (_names(listed) for listed in columns)
    return Task(
        labels=_labels(*named),
        classes=_names(classes),
        features=features,
        drop=drop or (),
        text=text or (),
        **options,
    )


def _parameters(assignments: list[str] | None) -> dict[str, Any]:
    """Return name=value pairs; a value is JSON, or else a string."""
    import json

    parameters = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            raise ValueError(f"--set {assignment}: NAME=VALUE is expected")
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            parameters[name] = value
    return parameters


def _stem(table: str) -> str:
    """Return a table's name without folder, suffix and the signs of a glob."""
    import re

    from pril.tables.formats import SUFFIXES

    name = Path(table).name.removesuffix(".gz")
    if Path(name).suffix.lower() in SUFFIXES:
        name = Path(name).stem
    return re.sub(r"[*?\[\]]", "", name).strip("-._ ") or "model"


def _open(table: str, format: Format | None) -> Table:  # noqa: A002
    from pril.tables.formats import open_table

    return open_table(table, format and format.value)


def _load(model: Path) -> LoadedModel:
    from pril.tables.model import LoadedModel

    return LoadedModel(model)


def _opened_for(
    model: Path,
    table: str,
    format: Format | None,  # noqa: A002
) -> tuple[LoadedModel, Table]:
    """Return a model, and a table read as the model needs it."""
    loaded, opened = _load(model), _open(table, format)
    opened.read_as_words(loaded.encoder.words_ if loaded.encoder else ())
    return loaded, opened


def _check_output(output: Path, inputs: list[Path]) -> None:
    """Refuse, before any work, to write where an input is or where nothing can be written."""
    if output.is_dir():
        raise IsADirectoryError(f"{output} is a folder, not a file to write")
    if output.exists() and not output.is_file():
        raise OSError(f"{output} is a device or a pipe, not a file to replace")
    folder = output.resolve().parent
    if not folder.is_dir():
        raise FileNotFoundError(f"{output}: there is no folder {folder}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = f"{output}: the folder {folder} is not writable: {error.strerror}"
        raise PermissionError(reason) from None
    if output.exists() and any(output.samefile(path) for path in inputs):
        raise ValueError(f"{output} is the input: writing there would destroy it")


def _checkpoint(folder: Path | None, every: int, origin: dict[str, Any]) -> Any:
    from pril.tables.training import Checkpoint

    if folder is None:
        return None
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"--checkpoint {folder}: this is a file, a folder is expected")
    return Checkpoint(folder / "checkpoint.pril", every, origin)


# --- Printing ------------------------------------------------------------------------------------


def _count(n: int, thing: str) -> str:
    plural = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{n:,} {thing if n == 1 else plural}"


def _listed(names: list[str], most: int = 12) -> str:
    shown = [*names[:most], *([f"and {len(names) - most} more"] if len(names) > most else [])]
    return ", ".join(shown)


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


# --- Running -------------------------------------------------------------------------------------


def _print_warning(message: Any, *_: Any) -> None:
    text = str(message).replace("pass classes=", "pass --classes")
    print(f"pril: warning: {text}", file=sys.stderr)


@contextmanager
def _stopping_cleanly() -> Iterator[None]:
    """Let signals end the command as errors do, with its temporary files removed."""

    def stop(*_: Any) -> None:
        print("pril: stopped", file=sys.stderr)
        sys.exit(1)

    handlers = {name: signal.signal(name, stop) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, handler in handlers.items():
            signal.signal(name, handler)


@contextmanager
def _standard_streams() -> Iterator[None]:
    """Put nothing in the place of streams that were closed by whoever started this."""
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    with ExitStack() as stack:
        for name in closed:
            nothing = open(os.devnull, "r" if name == "stdin" else "w")  # noqa: SIM115
            setattr(sys, name, stack.enter_context(nothing))
            stack.callback(setattr, sys, name, None)
        yield


def main(arguments: list[str] | None = None) -> None:
    """Run the command; a mistake of the user's is one line and exit code 2."""
    with _standard_streams(), _stopping_cleanly(), warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.showwarning = _print_warning  # type: ignore[assignment]
        try:
            given = sys.argv[1:] if arguments is None else arguments
            code = app(args=given, standalone_mode=False) or 0
            sys.exit(code if given else 2)  # only the help was printed; versions of click differ
        except _UsageError as error:
            if error.format_message():  # without arguments the help has been printed
                print(f"pril: {_one_line(error.format_message())}", file=sys.stderr)
            sys.exit(2)
        except BrokenPipeError:  # whoever read the output has seen enough
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except (ValueError, TypeError, OSError, ImportError) as error:
            print(f"pril: {_one_line(error)}", file=sys.stderr)
            sys.exit(2)


def _one_line(error: Exception | str) -> str:
    said = str(error)
    if isinstance(error, OSError) and error.filename:
        said = f"{error.filename}: {error.strerror}"
    return " ".join(said.split())
