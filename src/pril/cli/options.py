"""The options of the commands, and how their values are read."""

from __future__ import annotations

import csv
import errno
import json
import math
import re
import tempfile
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

import typer

from pril.core.registry import BY_COMMAND
from pril.errors import InputError

if TYPE_CHECKING:
    from pril.tables.checkpoints import Checkpoint
    from pril.tables.files import Table
    from pril.tables.model import LoadedModel
    from pril.tables.task import Task


Format = Literal["csv", "tsv", "parquet", "jsonl", "svmlight"]
StreamFormat = Literal["jsonl", "csv"]
if TYPE_CHECKING:
    Learner = str
else:
    Learner = Literal[tuple(BY_COMMAND)]

TableArgument = Annotated[
    str, typer.Argument(metavar="TABLE", help="A file, a folder, a glob in quotes, or - for stdin.")
]
ModelArgument = Annotated[Path, typer.Argument(metavar="MODEL", help="A file of pril fit.")]
FormatOption = Annotated[
    Format | None, typer.Option("--format", help="If the table's suffix does not say it.")
]
MaxFeaturesOption = Annotated[
    int | None, typer.Option("--max-features", min=1, help="Of an svmlight file, at most.")
]
LabelOption = Annotated[str | None, typer.Option("--label", help="Column of exact labels.")]
WeightOption = Annotated[str | None, typer.Option("--weight", help="Column of the rows' weights.")]
LowerOption = Annotated[str | None, typer.Option("--lower", help="Column of lower ends.")]
UpperOption = Annotated[str | None, typer.Option("--upper", help="Column of upper ends.")]
ClassesOption = Annotated[
    str | None, typer.Option("--classes", help="All classes, lowest first: low,mid,high.")
]
EdgesOption = Annotated[
    str | None,
    typer.Option("--edges", help="Labels are numbers: learn the brackets between these, 2,5,20."),
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
GuaranteeOption = Annotated[
    Literal["exact", "contain", "touch"],
    typer.Option(
        "--guarantee",
        help="What the guarantee covers: the true class, the whole label, or any part of it.",
    ),
]
CheckpointOption = Annotated[
    Path | None, typer.Option("--checkpoint", help="Folder to go on from after a crash.")
]
EveryOption = Annotated[int, typer.Option("--every", min=1, help="Rows between two checkpoints.")]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", help="Learn on this Dask cluster: tcp://host:8786.")
]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", min=1, help="Number of local worker processes (Dask).")
]
OverwriteOption = Annotated[
    bool, typer.Option("--overwrite", help="Replace a file of another kind, too.")
]
SeedOption = Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Seed of all randomness.")]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print results as JSON for machines.")]

# What the hints of errors and warnings mean here, by the option that they are about.
ADVICE = {
    "again": "to learn all of them pass --again",
    "drop": "leave it out with --drop",
    "classes": "pass --classes, lowest first",
    "format": f"pass --format {'|'.join(get_args(Format))}",
    "holdout": "make --holdout smaller",
    "label": "for exact labels pass --label",
    "max_features": "to allow more pass --max-features",
    "text": "if the column holds words, pass --text",
}


# --- Reading values ------------------------------------------------------------------------------


def split_names(text: str | None) -> tuple[str, ...] | None:
    """Return the names in a list with commas; quotes protect commas and spaces, as in CSV."""
    if text is None:
        return None
    names = tuple(next(csv.reader([text], skipinitialspace=True), []))
    if not all(names) or not names:
        raise InputError(f"{text!r}: names, separated by commas, are expected")
    return names


def label_columns(label: str | None, lower: str | None, upper: str | None) -> tuple[str, ...]:
    """Return the columns of the labels: one, or the lower and the upper end."""
    if label and not (lower or upper):
        return (label,)
    if lower and upper and not label:
        if lower == upper:
            raise InputError(f"--lower and --upper are both {lower}; for exact labels pass --label")
        return (lower, upper)
    if label:
        raise InputError("--label is for exact labels, --lower and --upper for ranges: choose one")
    raise InputError("where are the labels? Pass --label COLUMN, or --lower COLUMN --upper COLUMN")


def labels_for(
    loaded: LoadedModel, label: str | None, lower: str | None, upper: str | None
) -> tuple[str, ...]:
    """Return the columns of the labels; without options, those that a model learned from."""
    if label or lower or upper:
        return label_columns(label, lower, upper)
    if not loaded.labels:
        raise InputError(
            f"{loaded.path} does not know its labels' columns: pass --label, or both ends"
        )
    return loaded.labels


def make_task(context: typer.Context, **more: Any) -> Task:
    """Return the task that the options of a command ask for."""
    from pril.tables.task import Task

    given = context.params
    options = {name: given[name] for name in Task.__dataclass_fields__ if name in given}
    options["labels"] = label_columns(*(given[name] for name in ("label", "lower", "upper")))
    for name in ("classes", "features", "drop", "text"):
        options[name] = split_names(options[name])
    options["drop"], options["text"] = options["drop"] or (), options["text"] or ()
    options["edges"] = _split_edges(options["edges"])
    options["parameters"] = _split_assignments(options["parameters"] or [])
    return Task(**options, **more)


def _split_edges(text: str | None) -> tuple[float, ...] | None:
    """Return ascending numbers in a list with commas."""
    names = split_names(text)
    if names is None:
        return None
    try:
        edges = tuple(map(float, names))
    except ValueError as error:
        raise InputError(f"--edges {text}: {error}") from None
    if not all(map(math.isfinite, edges)) or any(a >= b for a, b in pairwise(edges)):
        raise InputError(f"--edges {text}: ascending numbers, separated by commas, are expected")
    return edges


def _split_assignments(assignments: list[str]) -> dict[str, Any]:
    """Return name=value pairs; a value is JSON, or else a string."""
    parameters = {}
    for assignment in assignments:
        name, equals, value = assignment.partition("=")
        if not (name and equals):
            raise InputError(f"--set {assignment}: NAME=VALUE is expected")
        try:
            parameters[name] = json.loads(value)
        except ValueError:
            parameters[name] = value
    return parameters


# --- Files ---------------------------------------------------------------------------------------


def open_table(table: str, format: Format | None, max_features: int | None) -> Table:  # noqa: A002
    """Open a table."""
    from pril.tables import opening

    return opening.open_table(table, format, max_features)


def model_file(table: str) -> Path:
    """Return the name of a table's model: without folder, suffix, and the signs of a glob."""
    from pril.tables.opening import SUFFIXES

    name = re.sub(r"\.gz$", "", Path(table).name, flags=re.IGNORECASE)
    if Path(name).suffix.lower() in SUFFIXES:
        name = Path(name).stem
    stem = re.sub(r"[*?\[\]]", "", name).strip("-._ ") or "model"
    return Path(f"{stem}.pril")


MODEL = "a model file"
TEXT_TABLE = "a table of text"
# What an output is, by the bytes that such a file begins with.
KINDS = {
    MODEL: (b"PK\3\4",),
    "an HTML page": (b"<!doctype html", b"<!DOCTYPE html"),
    "an ONNX graph": (b"\x08",),
    "a compressed table": (b"\x1f\x8b",),
    "a Parquet table": (b"PAR1",),
    "a picture": (
        *(b"\x89PNG", b"<?xml", b"<svg", b"%PDF", b"%!PS", b"\xff\xd8\xff", b"II*", b"MM\0*"),
        *(b"RIFF", b"GIF8", b"%% Creator: Matplotlib, PGF"),
    ),
}


def check_output(output: Path, inputs: list[Path], kind: str, overwrite: bool) -> None:
    """Refuse, before any work, an output that cannot be written, or that would destroy a file.

    That is an input, or a file of another kind unless it may be overwritten.
    """
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
    if output.exists() and any(output.samefile(path) for path in inputs):
        raise InputError(f"{output} is the input: writing there would destroy it")
    if output.exists() and not overwrite and not _is_kind(output, kind):
        raise InputError(
            f"{output} exists and is not {kind}: choose another name, or replace it with "
            "--overwrite"
        )


def _is_kind(file: Path, kind: str) -> bool:
    """Tell whether a file is of a kind, by its first bytes; an empty one is of any."""
    with file.open("rb") as stream:
        start = stream.read(4096)
    if kind != TEXT_TABLE:
        is_kind = start.startswith(KINDS[kind])
        return not start or (is_kind and (kind != MODEL or b"pril.json" in start[:64]))
    is_other = any(start.startswith(begin) for begin in KINDS.values())
    return b"\0" not in start and not is_other


def table_kind(output: Path, format: str) -> str:  # noqa: A002
    """Return what kind of file a table of a format is."""
    if format == "parquet":
        return "a Parquet table"
    return "a compressed table" if output.suffix == ".gz" else TEXT_TABLE


def resolved(path: Path) -> Path:
    """Return a path without links; refuse links that lead to themselves."""
    try:
        path.stat()
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise
    return path.resolve()


def open_checkpoint(
    folder: Path | None, every: int, origin: dict[str, Any], output: Path | None
) -> Checkpoint | None:
    """Return the checkpoint in a folder, None without a folder."""
    from pril.tables.checkpoints import Checkpoint

    if folder is None:
        return None
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--checkpoint {folder}: this is a file, a folder is expected")
    checkpoint = Checkpoint(folder / "checkpoint.pril", every, origin)
    if output and resolved(output) == resolved(checkpoint.path):
        raise InputError(f"{output} is the checkpoint itself: write the model to another file")
    return checkpoint
