"""Open a table: find its files, and the format they have."""

from __future__ import annotations

import atexit
import glob
import itertools
import logging
import shutil
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from pril.errors import MissingFileError, naming_file
from pril.tables.csv_style import USUAL_CSV, CsvStyle
from pril.tables.files import STDIN_SUFFIX, Table, TableError
from pril.tables.formats import Csv, JsonLines, Parquet, Tsv
from pril.tables.remote import is_url, open_url
from pril.tables.text import READ_BYTES, is_zipped, without_marks

log = logging.getLogger(__name__)

FORMATS: dict[str, type[Table]] = {
    "csv": Csv,
    "tsv": Tsv,
    "parquet": Parquet,
    "jsonl": JsonLines,
}
SUFFIXES = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
}
# Files of other programs, and the Python that reads them. Value labels keep their order; what
# pandas.read_spss returns has none, and cannot be written as Parquet.
SPSS_LABELS = "apply_value_formats=True, formats_as_ordered_category=True"
IN_PYTHON = {
    ".xlsx": "import pandas; pandas.read_excel({!r})",
    ".xls": "import pandas; pandas.read_excel({!r})",
    ".dta": "import pandas; pandas.read_stata({!r})",
    ".sav": f"import pyreadstat; pyreadstat.read_sav({{!r}}, {SPSS_LABELS})[0]",
}
SVMLIGHT = (".svm", ".svmlight", ".libsvm")  # not tables: their columns have no names


def format_of(file: Path) -> str | None:
    """Return the format by a file's suffix or, for standard input, by its first bytes."""
    if file.suffix == STDIN_SUFFIX:
        return _guess_format(file)
    return SUFFIXES.get(_suffix(file))


def _suffix(file: Path) -> str:
    """Return the suffix of a file, without that of its compression."""
    return (file.with_suffix("") if is_zipped(file) else file).suffix.lower()


def open_table(
    place: str,
    format: str | None = None,  # noqa: A002
    style: CsvStyle = USUAL_CSV,
    asked: tuple[str, ...] = (),
    *,
    brackets: bool = False,
) -> Table:
    """Open a table: a file, a folder, a glob, a URL, or - for standard input; read its columns.

    Standard input is copied to a temporary file, since it is read more than once. Without a format,
    the suffix decides or, for standard input, the first bytes. `style` is that of CSV. What of it
    was `asked` for, by its names, is refused for a table that has none; but numbers in `brackets`
    have decimals and thousands in every format.
    """
    name = "<stdin>" if place == "-" else place
    files, root = _find(place)
    for file in files:
        if file.stat().st_size == 0:
            raise TableError(f"{name if len(files) == 1 else file} is empty")
    source = "as asked for"
    if format is None:
        source = "by its suffix" if name == place else "by its first bytes"
        format = _common_format(name, files)  # noqa: A001
    log.info(
        "table: %s, files: %d; read, %s, as %s", name, len(files), source, FORMATS[format].about
    )
    for aspect in asked:
        if brackets and aspect in ("decimal", "thousands"):
            continue
        if format not in ("csv", "tsv") or (format == "tsv" and aspect == "delimiter"):
            raise TableError(f"{name}: the {aspect} is for CSV, and this is {format}")
    if format not in ("csv", "tsv"):
        return FORMATS[format](files, name, root=root)
    for aspect, value in style._asdict().items():
        if value != getattr(USUAL_CSV, aspect):
            way = "as asked for" if aspect in asked else "as in the model"
            log.info("%s: %r, %s", aspect, value, way)
    kind: Any = FORMATS[format]
    return kind(files, name, root=root, style=style)  # type: ignore[no-any-return]


def _find(place: str) -> tuple[list[Any], Any]:
    """Return the files of a table, and the folder that they are named relative to."""
    root: Any = None
    if place == "-":
        files: list[Any] = [_copy_of(sys.stdin.buffer)]
    elif is_url(place):
        files, root = open_url(place)
        files = files if root is None else _tables_in(place, files, root)
    elif Path(place).is_fifo():
        with open(place, "rb") as pipe:
            files = [_copy_of(pipe)]
    else:
        files = _files(place)
        root = _root(Path(place), files)
    return files, files[0].parent if root is None else root


def _common_format(name: str, files: list[Any]) -> str:
    """Return the one format that all files have."""
    if any(_suffix(file) in SVMLIGHT for file in files):
        raise TableError(
            f"{name}: svmlight is not read as a table: in Python, load it with "
            "sklearn.datasets.load_svmlight_file, fit a learner, and pril.save the model"
        )
    for file in files:
        if read := IN_PYTHON.get(_suffix(file)):
            place = str(name if len(files) == 1 else file)
            raise TableError(
                f"{name}: the command does not read this format, but Python does; run: "
                f"{read.format(place)}.to_parquet({file.with_suffix('.parquet').name!r})"
            )
    formats = {format_of(file) for file in files}
    if len(formats) > 1 or None in formats:
        raise TableError(
            f"{name}: unknown format: all files must have the same suffix, one of "
            f"{', '.join(SUFFIXES)}",
            hint="format",
        )
    return str(formats.pop())


def _root(path: Path, files: list[Any]) -> Any:
    """Return the folder that a user named: a folder, what a glob begins with, or a file's own."""
    if path.is_dir():
        return path
    if not glob.has_magic(str(path)) or path in files:  # a file
        return files[0].parent
    return Path(*itertools.takewhile(lambda part: not glob.has_magic(part), path.parts))


def _files(place: str) -> list[Path]:
    path = Path(place)
    if path.is_dir():
        return _tables_in(place, sorted(filter(Path.is_file, path.rglob("*"))), path)
    if path.exists():
        return [path]
    files = sorted(map(Path, glob.glob(place, recursive=True)))
    # Skip hidden files that a star matches: they may be a writer's temporary files.
    files = [file for file in files if not _is_hidden(set(file.parts) - set(path.parts))]
    files = [file for file in files if file.is_file()]
    if not files:
        raise MissingFileError(f"{place}: no such file")
    return files


def _tables_in(place: str, files: list[Any], root: Any) -> list[Any]:
    """Return those files of a folder that are tables and not hidden."""
    tables = [file for file in files if format_of(file)]
    tables = [file for file in tables if not _is_hidden(file.relative_to(root).parts)]
    if not tables:
        raise TableError(f"{place}: no file in this folder is a table, by its suffix")
    return tables


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith((".", "_")) for part in parts)


def _copy_of(pipe: IO[bytes]) -> Path:
    """Copy a pipe to a temporary file, which is removed when the process ends."""
    with tempfile.NamedTemporaryFile(prefix="pril-", suffix=STDIN_SUFFIX, delete=False) as file:
        atexit.register(Path(file.name).unlink, missing_ok=True)
        with naming_file("<stdin>"):
            shutil.copyfileobj(pipe, file, READ_BYTES)
    return Path(file.name)


def _guess_format(file: Path) -> str:
    with file.open("rb") as stream:
        start = without_marks(stream.read(READ_BYTES)).lstrip()
    if start.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if start.startswith(b"{") else "csv"
