"""The options of the commands, and how their values are read."""

from __future__ import annotations

import csv
import errno
import json
import math
import re
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass, replace
from inspect import Parameter, Signature, signature
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_type_hints

from typer import Argument, Option
from typer.models import OptionInfo

from pril.core.registry import BY_COMMAND, RECOMMENDED
from pril.errors import InputError

if TYPE_CHECKING:
    from pril.core.arrays import Array
    from pril.tables.checkpoints import Checkpoint
    from pril.tables.files import Table, TableFile
    from pril.tables.label_columns import LabelKind
    from pril.tables.model import LoadedModel, NumberColumns
    from pril.tables.survey import Task
    from pril.tables.text import CsvStyle


Format = Literal["csv", "tsv", "parquet", "jsonl"]
NO_LABELS = (
    "where are the labels? Pass --label COLUMN, --lower COLUMN --upper COLUMN, or --votes COLUMNS"
)
if TYPE_CHECKING:
    Learner = str
else:
    Learner = Literal[tuple(BY_COMMAND)]

OUTPUT = "Output"
LEARNER = Option("--model", metavar="LEARNER", help=f"Which learner: {', '.join(RECOMMENDED)}.")
# The options, by the box of the help that lists them: their help, or all that typer is to know. An
# argument of a command that is annotated has an option of its own.
OPTIONS: dict[str, dict[str, Any]] = {
    "Labels": {
        "label": "Column of exact labels.",
        "lower": "Column of lower ends.",
        "upper": "Column of upper ends.",
        "classes": "All classes, lowest first: low,mid,high.",
        "votes": "Columns of votes, one for each rater: ann,bob,eve.",
        "trim": Option(
            min=0.0,
            max=0.5,
            help="With --votes: share of the votes to leave out at each end; 0.5 is the median.",
        ),
        "ranges": Option(
            "--range-texts", help="Labels are classes or ranges as text: 4 or 5, at least 3."
        ),
        "edges": "Learn the brackets of a number between these edges: 2,5,20.",
        "brackets": "Labels are brackets as text: 20-50k, <18, 65+.",
        "missing": Option(metavar="TEXT", help="With --brackets: a text that means no label."),
        "bracket_decimal": "Decimal mark of brackets, if not that of the file: ','.",
        "bracket_thousands": "Separates groups of digits in brackets, if not as in the file: '.'.",
    },
    "Columns": {
        "features": "Columns to use, a,b,c; else all but the labels.",
        "drop": "Columns to ignore, a,b,c.",
        "text": "Columns of numbers to read as words.",
        "weight": "Column of row weights.",
        "groups": "Column of groups, such as households: no group is held out in part.",
        "scale": "Standardise numbers.",
        "impute": "Fill missing numbers with the mean.",
        "one_hot": "Use columns of words, a feature per word.",
    },
    "Learning": {
        "model": LEARNER,
        "learner": LEARNER,
        "parameters": Option(
            "--set", metavar="NAME=VALUE", help="A parameter of a new model: average=false."
        ),
        "epochs": Option(min=1, help="Most passes of a model that learns row by row; else 10."),
        "shuffle": "Shuffle rows, block by block.",
        "class_weight": "How much rows of a class count: balanced, or poor=3,great=0.5.",
        "half_life": "Number of rows after which what was learned counts half.",
        "holdout": Option(min=0.0, max=0.99, help="Share of rows held out to evaluate the model."),
        "coverage": "Also predict ranges that cover this share of the rows: 0.9.",
        "guarantee": "What the guarantee covers: the true class, the whole label, or any part of "
        "it.",
        "by": "Let the guarantee hold for each class, not only for all rows together.",
        "seed": Option(min=0, max=2**32 - 1, help="Random seed."),
        "workers": Option(min=1, help="Learn in this many local processes (Dask)."),
        "cluster": "Learn on this Dask cluster: tcp://host:8786.",
        "runs": Option(min=1, help="Number of repetitions."),
        "quick": "Only ten repetitions.",
        "jobs": Option(min=1, help="Number of processes."),
        "again": "Learn rows even if the last run already learned them.",
    },
    "File": {
        "format": "Format of the table, if its suffix does not say.",
        "delimiter": "What separates the cells of CSV, if not a comma: ';'.",
        "decimal": "Decimal mark of numbers, if not a point: ','.",
        "thousands": "Separates groups of digits: '.' in 1.234,5.",
        "encoding": "Encoding of CSV, if not UTF-8: cp1252.",
    },
    OUTPUT: {
        "checkpoint": "Folder for checkpoints. After a crash, run the same command.",
        "checkpoint_every": Option(
            min=1, help="Rows between checkpoints; else 1,000,000, in a stream 100,000."
        ),
        "overwrite": "Replace a file even if it is of another kind.",
        "title": "Title of the page.",
        "plot": "Picture of the model to write.",
        "top": Option(min=1, help="Number of weights to show."),
        "per": "Weights of numbers per standard deviation, the default, or per unit of their "
        "column, the default of --table.",
        "every": Option(min=1, help="Labelled rows between lines on how good the answers were."),
        "metrics": "With --every: also append these lines to a file, as JSON.",
        "key": Option("--id", help="Column to copy to the output."),
        "note": "Column, such as an offset, whose last value is kept with the model and with each "
        "checkpoint.",
        "strict": "Refuse a row that lacks a feature or has a column that the model does not know.",
        "on_error": "At a bad line: stop, or print the error in its place and go on.",
        "out": "Folder to write to.",
        "quiet": Option("--quiet", "-q", help="Print only warnings and errors."),
        "json": "Print results as JSON.",
    },
}
PANEL_OF = {name: panel for panel, options in OPTIONS.items() for name in options}
IN_CSV = ("delimiter", "decimal", "thousands", "encoding")
ModelArgument = Annotated[Path, Argument(metavar="MODEL", help="Model file, from pril fit.")]


# --- Options that belong together: a command takes them as one argument --------------------------


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer: a dataclass among its arguments becomes one option per field.

    The help lists the options in boxes.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {name: kind for name, kind in hints.items() if is_dataclass(kind)}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        kind = groups.get(parameter.name)
        options = signature(kind).parameters.values() if kind else [parameter]
        known_hints = get_type_hints(kind, include_extras=True) if kind else hints
        parameters += [_with_option(option, known_hints[option.name]) for option in options]

    def run(**given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{field.name: given.pop(field.name) for field in fields(kind)})
        command(**given)

    run.__name__, run.__doc__ = command.__name__, command.__doc__
    parameters.sort(key=_place_in_help)
    run.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def _with_option(parameter: Parameter, hint: Any) -> Parameter:
    """Return a parameter with its option; only one that is true by default has a --no-NAME."""
    name = parameter.name
    panel = PANEL_OF.get(name, OUTPUT)
    if name in OPTIONS[panel] and not hasattr(hint, "__metadata__"):
        option = OPTIONS[panel][name]
        if isinstance(option, str):
            flags = [f"--{name.replace('_', '-')}"] if parameter.default is False else []
            option = Option(*flags, help=option)
        hint = Annotated[hint, option]
    if isinstance(option := _option_of(hint), OptionInfo):
        option.rich_help_panel = panel
    return parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=hint)


def _option_of(hint: Any) -> Any:
    return getattr(hint, "__metadata__", (None,))[0]


def _place_in_help(parameter: Parameter) -> int:
    """Return where the help lists an option: arguments first, those about the output last."""
    if not isinstance(_option_of(parameter.annotation), OptionInfo):
        return 0
    panel = PANEL_OF.get(parameter.name, OUTPUT)
    return len(PANEL_OF) if panel == OUTPUT else [*PANEL_OF].index(parameter.name) + 1


@dataclass
class TableOptions:
    """Where a table is, and how it is read; a model keeps how CSV is written."""

    table: Annotated[
        str,
        Argument(
            metavar="TABLE",
            help="A file, a folder, a glob in quotes, a URL (s3, gs, abfs, https), or - for stdin.",
        ),
    ]
    format: Format | None = None
    delimiter: str | None = None
    decimal: str | None = None
    thousands: str | None = None
    encoding: str | None = None

    @property
    def name(self) -> str:
        """What messages call the table."""
        return "<stdin>" if self.table == "-" else self.table

    @property
    def csv(self) -> dict[str, str]:
        """The options that were passed on how CSV is written."""
        options = vars(self).items()
        return {name: value for name, value in options if name in IN_CSV and value is not None}

    def style(self, loaded: LoadedModel | None = None) -> CsvStyle:
        """Return how CSV is written: as the options say, or else as a model knows it."""
        from msgspec import structs

        from pril.tables.text import USUAL_CSV

        style = USUAL_CSV if loaded is None else loaded.notes.csv or USUAL_CSV
        with naming("--"):
            return structs.replace(style, **self.csv)

    def open(self, loaded: LoadedModel | None = None, *, brackets: bool = False) -> Table:
        """Open the table; CSV is written as a model knows it, unless options say otherwise."""
        from pril.tables.opening import open_table

        style = self.style(loaded)
        return open_table(self.table, self.format, style, tuple(self.csv), brackets=brackets)


@dataclass
class LabelOptions:
    """The columns of the labels, and what kind of labels they hold."""

    lower: str | None = None
    upper: str | None = None
    label: str | None = None
    ranges: bool = False
    votes: str | None = None
    trim: float | None = None
    bracket_decimal: str | None = None
    bracket_thousands: str | None = None

    def with_marks(self, labels: LabelKind, csv: dict[str, str]) -> LabelKind:
        """Return labels with the marks of numbers in brackets: as the options say, or as is known.

        Without options for brackets, those of CSV hold, of which these were passed.
        """
        from msgspec import structs

        from pril.tables.label_columns import BracketTexts

        marks = {"decimal": self.bracket_decimal, "thousands": self.bracket_thousands}
        given: dict[str, Any] = {name: mark for name, mark in marks.items() if mark is not None}
        option = "bracket-"
        if not isinstance(labels, BracketTexts):
            for name in given:
                raise InputError(f"--bracket-{name} is for brackets as text: pass --brackets too")
            return labels
        if not given:
            given = {name: mark for name, mark in csv.items() if name in marks}
            option = ""
        with naming(f"--{option}"):
            return structs.replace(labels, spelling=replace(labels.spelling, **given))

    def kind(self, loaded: LoadedModel | None = None) -> LabelKind:
        """Return what the labels are; without options, as a model knows it.

        A model knows nothing if it was not learned from a table.
        """
        from msgspec import structs

        from pril.tables.label_columns import BracketTexts, Edges, LabelEnds, RangeTexts, Votes

        learned = LabelEnds() if loaded is None else loaded.notes.labels
        columns = self._columns()
        if self.votes is not None:
            trim = getattr(learned, "trim", 0.0) if self.trim is None else self.trim
            return Votes(columns, trim)
        if not columns:
            return learned
        if isinstance(learned, Edges | BracketTexts) and not self.ranges:
            return structs.replace(learned, columns=columns)
        # What is not a range is a class, so a model that knows ranges finds them in any column.
        is_text = self.ranges or (self.label and isinstance(learned, RangeTexts))
        return RangeTexts(columns) if is_text else LabelEnds(columns)

    def _columns(self) -> tuple[str, ...]:
        """Return the columns that were named; refuse options that contradict each other."""
        names = tuple(name for name in (self.label, self.lower, self.upper) if name)
        if self.trim is not None and math.isnan(self.trim):  # older versions of click take it
            raise InputError("--trim nan: it must be between 0 and 0.5")
        if self.votes is not None:
            return self._raters(self.votes, names)
        if self.trim is not None:
            raise InputError("--trim is for votes: pass --votes too")
        if self.ranges and not self.label:
            raise InputError("--range-texts reads one column of texts: pass it by --label")
        if self.label and len(names) > 1:
            raise InputError(
                "--label is for exact labels, --lower and --upper for ranges: choose one"
            )
        if len(set(names)) == 1 and not self.label:
            raise InputError(
                "--lower and --upper name the two ends of a range: pass both, each with a column "
                "of its own; for exact labels pass --label"
            )
        return names

    def _raters(self, votes: str, others: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of votes; refuse other columns beside them."""
        if others or self.ranges:
            other = "--range-texts" if self.ranges else "--label, or --lower and --upper"
            raise InputError(f"--votes names one column for each rater: leave out {other}")
        raters = split_names("--votes", votes)
        for name in raters:
            if raters.count(name) > 1:
                raise InputError(f"--votes {votes}: {name!r} is named twice")
        return raters

    def kind_for(self, loaded: LoadedModel, csv: dict[str, str]) -> LabelKind:
        """Return what the labels are; refuse a model that does not know it."""
        labels = self.kind(loaded)
        if not labels.columns:
            raise InputError(
                f"{loaded.path} does not say which columns its labels were in: pass --label, "
                "--lower and --upper, or --votes"
            )
        return self.with_marks(labels, csv)


@dataclass
class TaskOptions(LabelOptions):
    """What to learn; the names are those of `Task`."""

    classes: str | None = None
    edges: str | None = None
    brackets: bool = False
    missing: list[str] | None = None
    model: Learner = "ordered-logit"
    parameters: list[str] | None = None
    features: str | None = None
    drop: str | None = None
    text: str | None = None
    scale: bool = True
    impute: bool = True
    one_hot: bool = True

    def task(self, csv: dict[str, str]) -> Task:
        """Return the task that the options ask for; `csv` is as in `with_marks`."""
        from pril.tables.survey import Task

        labels = self._labels(csv)
        given = {name: value for name, value in vars(self).items() if value is not None}
        for name in given.keys() & {"classes", "features", "drop", "text"}:
            given[name] = split_names(f"--{name}", given[name])
        given |= {"labels": labels, "parameters": split_assignments(self.parameters)}
        given["class_weight"] = _split_weights(given.get("class_weight"))
        if "half_life" in given:
            given["parameters"]["half_life"] = given["half_life"]
        return Task(**{name: given[name] for name in Task.__dataclass_fields__ if name in given})

    def _labels(self, csv: dict[str, str]) -> LabelKind:
        """Return what the labels are; refuse options that contradict each other."""
        from pril.tables.label_columns import BracketTexts, Edges

        labels, edges = self.kind(), _split_edges(self.edges)
        if not labels.columns:
            raise InputError(NO_LABELS)
        if self.missing and not self.brackets:
            raise InputError("--missing is for brackets as text: pass --brackets too")
        if self.brackets and not self.label:
            raise InputError("--brackets reads one column of texts: pass it by --label")
        if self.brackets and self.ranges:
            raise InputError(
                "--brackets is for texts with numbers, such as 20-50k, --range-texts for texts "
                "with classes, such as 4 or 5: choose one"
            )
        if self.edges and (self.ranges or self.votes):
            option = "--votes" if self.votes else "--range-texts"
            raise InputError(f"--edges is for labels that are numbers: leave out {option}")
        if self.brackets:
            silent = tuple(self.missing or ())
            return self.with_marks(BracketTexts(labels.columns, edges, silent), csv)
        self.with_marks(labels, csv)  # refuses marks of brackets
        return labels if edges is None else Edges(labels.columns, edges)


@dataclass
class FitOptions(TaskOptions):
    """What to learn, and how."""

    weight: str | None = None
    groups: str | None = None
    class_weight: str | None = None
    epochs: int | None = None
    half_life: float | None = None
    shuffle: bool = True
    holdout: float = 0.2
    coverage: float | None = None
    guarantee: Literal["exact", "contain", "touch"] = "exact"
    by: Literal["class"] | None = None
    seed: int = 0


# What the hints of errors and warnings mean here, by the option that they are about.
ADVICE = {
    "brackets": (
        "correct the text, say how its numbers are written by --bracket-decimal and "
        "--bracket-thousands, name it by --missing if it is no answer, or put the ends into two "
        "columns of numbers: --lower, --upper, --edges"
    ),
    "edges": "pass --edges, the cut points between the classes",
    "ends": "pass --ends LOW,HIGH, such as --ends 0,250000",
    "again": "to learn them once more pass --again",
    "delimiter": "pass the separator by --delimiter",
    "decimal": "if these are numbers, {}",
    "drop": "leave it out with --drop",
    "per": "pass --per unit",
    "encoding": "pass its encoding, such as --encoding cp1252 or --encoding utf-16",
    "classes": "pass --classes, lowest first",
    "format": f"pass --format {'|'.join(get_args(Format))}",
    "holdout": "make --holdout smaller",
    "key": "begin the model anew: pass an id by --id, an offset by --note, or leave it out",
    "label": "for exact labels pass --label",
    "model": "for example --model pril",
    "ranges": (
        "for brackets of a number pass --brackets, for ranges of classes --range-texts and "
        "--classes; if it is the name of a class pass --classes, lowest first"
    ),
    "text": "if the column holds words, pass --text",
    "votes": "to cover the median vote pass --trim 0.5, to cover all votes --guarantee contain",
}

# What to do instead of options that do not exist.
INSTEAD = {"--every": "; rows between checkpoints are --checkpoint-every"}


# --- Reading values ------------------------------------------------------------------------------


@contextmanager
def naming(option: str) -> Iterator[None]:
    """Put an option in front of errors."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{option}{error}", hint=error.hint) from None


def split_names(option: str, text: str) -> tuple[str, ...]:
    """Return the names in a list with commas; quotes protect commas and spaces, as in CSV."""
    names = tuple(next(csv.reader([text], skipinitialspace=True), []))
    if not all(names) or not names:
        raise InputError(f"{option} {text!r}: expected names separated by commas")
    return names


def _split_edges(text: str | None) -> tuple[float, ...] | None:
    """Return ascending numbers in a list with commas."""
    if text is None:
        return None
    try:
        edges = tuple(map(float, text.split(",")))
    except ValueError:
        edges = (math.nan,)
    if not all(map(math.isfinite, edges)) or any(a >= b for a, b in pairwise(edges)):
        raise InputError(f"--edges {text}: expected ascending numbers separated by commas")
    return edges


def numbers_of_brackets(loaded: LoadedModel, numbers: str, ends: str | None) -> NumberColumns:
    """Return the columns of numbers to add to what a model of brackets predicts."""
    import numpy as np

    with naming(f"--ends {ends}: " if ends is not None else ""):
        scale = loaded.scale(*_split_ends(ends))
    plain = {"median": scale.median, "mean": scale.mean}
    of_value = {
        "quantile": ("quantile", scale.quantile),
        "above": ("probability above", scale.exceedance),
    }
    columns: NumberColumns = {}
    for name in split_names("--numbers", numbers):
        column, equals, value = (part.strip() for part in name.partition("="))
        method: Callable[..., Array]
        arguments: tuple[float, ...] = ()
        try:
            if equals:
                title, method = of_value[column]
                column, arguments = f"{title} {float(value):.15g}", (float(value),)
            else:
                method = plain[column]
        except (KeyError, ValueError):
            expected = "expected median, mean, quantile=NUMBER or above=NUMBER"
            raise InputError(f"--numbers {numbers}: {name!r}: {expected}") from None
        if column in columns:
            raise InputError(f"--numbers {numbers}: {column!r} is named twice")
        with naming(f"--numbers {numbers}: "):  # refuses what no row can have
            method(np.eye(len(loaded.learner.order_)), *arguments)
        columns[column] = method, arguments
    return columns


def _split_ends(text: str | None) -> tuple[float | None, float | None]:
    """Return two numbers with a comma between them; None for one that is left out."""
    low, comma, high = ("," if text is None else text).partition(",")
    try:
        ends = tuple(float(end) if end.strip() else None for end in (low, high))
    except ValueError:
        comma = ""
    if not comma:
        raise InputError("expected LOW,HIGH, of which one may be left out")
    return ends[0], ends[1]


def _split_weights(text: str | None) -> Any:
    """Return the weights of classes in a list with commas, or the word balanced."""
    if text is None or text == "balanced":
        return text
    weights = {}
    for pair in split_names("--class-weight", text):
        name, _, weight = pair.rpartition("=")
        try:
            weights[name.strip()] = float(weight)
        except ValueError:
            name = ""
        if not name:
            raise InputError(f"--class-weight {text}: expected balanced, or CLASS=NUMBER,...")
    return weights


def split_assignments(assignments: list[str] | None) -> dict[str, Any]:
    """Return name=value pairs; a value is JSON, or else a string."""
    parameters = {}
    for assignment in assignments or ():
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            raise InputError(f"--set {assignment}: expected NAME=VALUE")
        try:
            parameters[name] = json.loads("Infinity" if value == "inf" else value)
        except ValueError:
            parameters[name] = value
    return parameters


# --- Files ---------------------------------------------------------------------------------------


def model_file(table: str) -> Path:
    """Return the name of a table's model: without folder, suffixes, and wildcards."""
    from pril.tables.opening import SUFFIXES
    from pril.tables.text import codec_of

    file = Path(Path(table).name)
    file = file.with_suffix("") if codec_of(file) else file
    file = file.with_suffix("") if file.suffix.lower() in SUFFIXES else file
    stem = re.sub(r"[*?\[\]]", "", file.name).strip("-._ ") or "model"
    return Path(f"{stem}.pril")


MODEL, PAGE, GRAPH = "a model file", "an HTML page", "an ONNX graph"
SUFFIXES = {MODEL: (".pril",), PAGE: (".html", ".htm"), GRAPH: (".onnx",)}


def check_output(
    output: Path, inputs: Sequence[TableFile], kind: str | None = None, overwrite: bool = False
) -> None:
    """Refuse, before any work, an output that cannot be written or that would destroy a file.

    Such a file is an input or, without --overwrite, one whose suffix is not of this kind. The
    suffix of a table or a picture says how to write it: for these there is no kind.
    """
    if re.match(r"\w\w+:/", str(output)):  # a Path keeps one slash of a URL
        raise InputError(f"{output} is a URL: only local files are written")
    if output.is_dir():
        raise InputError(f"{output} is a folder, not a file to write")
    if output.exists() and not output.is_file():
        raise InputError(f"{output} is a device or a pipe, not a file to replace")
    folder = resolved(output).parent
    if not folder.is_dir():
        raise InputError(f"{output}: there is no folder {folder}")
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        reason = f"{output}: the folder {folder} is not writable: {error.strerror}"
        raise InputError(reason) from None
    local = [path for path in inputs if isinstance(path, Path)]
    if output.exists() and any(output.samefile(path) for path in local):
        raise InputError(f"{output} is the input: writing there would destroy it")
    is_other = kind is not None and output.suffix.lower() not in SUFFIXES[kind]
    if is_other and not overwrite and output.exists() and output.stat().st_size:
        raise InputError(
            f"{output} exists and is not {kind}: choose another name, or replace it with "
            "--overwrite"
        )


def resolved(path: Path) -> Path:
    """Return a path without links; refuse links that lead to themselves."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return path.resolve()


@dataclass
class CheckpointOptions:
    """Where a run keeps what it has learned so far."""

    checkpoint: Path | None = None
    checkpoint_every: int | None = None

    @contextmanager
    def held(self, output: Path | None, *, usual: int) -> Iterator[Checkpoint | None]:
        """Yield the checkpoint, None without a folder; remove it when the work is done.

        Without `checkpoint_every`, it is written every usual number of rows.
        """
        from pril.io.model_files import CHECKPOINT
        from pril.tables.checkpoints import Checkpoint

        folder, every = self.checkpoint, self.checkpoint_every
        if folder is None:
            if every is not None:
                raise InputError(
                    "--checkpoint-every is about checkpoints: pass --checkpoint FOLDER too"
                )
            yield None
            return
        if folder.exists() and not folder.is_dir():
            raise InputError(f"--checkpoint {folder} is a file: pass a folder")
        checkpoint = Checkpoint(folder / CHECKPOINT, usual if every is None else every)
        if output and resolved(output) == resolved(checkpoint.path):
            raise InputError(f"{output} is the checkpoint itself: write the model to another file")
        with checkpoint.held():
            yield checkpoint
