"""Open a table: find its files, and the format they have.

Files of object stores are read there, those of web servers are copied. Credentials come from where
pyarrow looks for them: the environment, and the files of the stores' own tools. A URL that holds
any is refused, so that none gets into a message or a model file.
"""

from __future__ import annotations

import atexit
import glob
import itertools
import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path, PurePath
from typing import IO
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit
from urllib.request import urlopen

import pyarrow as pa
from msgspec.structs import asdict
from pyarrow import fs

from pril.errors import InputError, MissingFileError, naming_file, shown
from pril.tables.files import STDIN_SUFFIX, RemoteFile, Table, TableError, TableFile, is_pipe
from pril.tables.text import READ_BYTES, USUAL_CSV, CsvStyle, codec_of, without_marks

log = logging.getLogger(__name__)

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
TYPED = "the first value of a column tells numbers from words"
ABOUT = {
    "csv": f"CSV with commas, {TYPED}",
    "tsv": f"CSV with tabs, {TYPED}",
    "parquet": "Parquet, columns have the types in the file",
    "jsonl": f"JSON Lines, {TYPED}",
}
SVMLIGHT = (".svm", ".svmlight", ".libsvm")  # not tables: their columns have no names


STORES, WEB = ("s3", "gs", "abfs", "abfss"), ("http", "https")
SECONDS = 60.0  # without an answer of a web server
# For which Google's client tries again, a few times over; by default a quarter of an hour. The
# second is for finding a table: without a network, the error comes within 15 seconds.
STORE_SECONDS, LOOK_SECONDS = 30, 1


def format_of(file: TableFile) -> str | None:
    """Return the format by a file's suffix or, for standard input, by its first bytes."""
    return _guess_format(file) if is_pipe(file) else SUFFIXES.get(_suffix(file))


def _suffix(file: TableFile) -> str:
    """Return the suffix of a file, without that of its compression."""
    path = PurePath(str(file))
    return (path.with_suffix("") if codec_of(path) else path).suffix.lower()


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
    the suffix decides or, for standard input, the first bytes. `style` is how CSV is written. Its
    aspects that the user `asked` for are refused for another format; but numbers in `brackets` have
    decimals and thousands in every format.
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
    log.info("table: %s, files: %d; read, %s, as %s", name, len(files), source, ABOUT[format])
    for aspect in asked:
        if brackets and aspect in ("decimal", "thousands"):
            continue
        if format not in ("csv", "tsv") or (format == "tsv" and aspect == "delimiter"):
            raise TableError(f"{name}: the {aspect} is for CSV, and this is {format}")
    if format not in ("csv", "tsv"):
        style = USUAL_CSV
    for aspect, value in asdict(style).items():
        if value != getattr(USUAL_CSV, aspect):
            way = "as asked for" if aspect in asked else "as in the model"
            log.info("%s: %r, %s", aspect, value, way)
    return Table(files, name, format, style).stamped().find_columns(root)


def _find(place: str) -> tuple[Sequence[TableFile], PurePath]:
    """Return the files of a table, and the folder that they are named relative to."""
    path, root = Path(place), None
    files: Sequence[TableFile]
    if place == "-":
        files = [_copy_of(sys.stdin.buffer, STDIN_SUFFIX, "<stdin>")]
    elif "://" in place:
        files, root = open_url(place)
    elif path.is_fifo():
        with path.open("rb") as pipe:
            files = [_copy_of(pipe, STDIN_SUFFIX, "<stdin>")]
    elif path.is_dir():
        files, root = sorted(filter(Path.is_file, path.rglob("*"))), path
    elif path.exists():
        files = [path]
    else:
        return _matching(place)
    if root is None:
        return files, PurePath(str(files[0])).parent
    tables = [file for file in files if format_of(file)]
    tables = [t for t in tables if not _is_hidden(PurePath(str(t)).relative_to(root).parts)]
    if not tables:
        raise TableError(f"{place}: no file in this folder is a table, by its suffix")
    return tables, root


def _matching(place: str) -> tuple[Sequence[TableFile], PurePath]:
    """Return the files that a glob matches, and the folder that it begins with."""
    parts = Path(place).parts
    files = [file for file in map(Path, glob.glob(place, recursive=True)) if file.is_file()]
    # Skip hidden files that a star matches: they may be a writer's temporary files.
    files = sorted(file for file in files if not _is_hidden(set(file.parts) - set(parts)))
    if not files:
        raise MissingFileError(f"{place}: no such file")
    return files, PurePath(*itertools.takewhile(lambda part: not glob.has_magic(part), parts))


def _common_format(name: str, files: Sequence[TableFile]) -> str:
    """Return the one format that all files have."""
    if any(_suffix(file) in SVMLIGHT for file in files):
        raise TableError(
            f"{name}: svmlight is not read as a table: in Python, load it with "
            "sklearn.datasets.load_svmlight_file, fit a learner, and pril.save the model"
        )
    for file in files:
        if read := IN_PYTHON.get(_suffix(file)):
            place = str(name if len(files) == 1 else file)
            target = PurePath(str(file)).with_suffix(".parquet").name
            raise TableError(
                f"{name}: the command does not read this format, but Python does; run: "
                f"{read.format(place)}.to_parquet({target!r})"
            )
    formats = {format_of(file) for file in files}
    if len(formats) > 1 or None in formats:
        raise TableError(
            f"{name}: unknown format: all files must have the same suffix, one of "
            f"{', '.join(SUFFIXES)}",
            hint="format",
        )
    return str(formats.pop())


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith((".", "_")) for part in parts)


def _copy_of(stream: IO[bytes], suffix: str, name: str) -> Path:
    """Copy a stream to a temporary file, which is removed when the process ends."""
    with tempfile.NamedTemporaryFile(prefix="pril-", suffix=suffix, delete=False) as file:
        atexit.register(Path(file.name).unlink, missing_ok=True)
        with naming_file(name):
            shutil.copyfileobj(stream, file, READ_BYTES)
    return Path(file.name)


def _guess_format(file: TableFile) -> str:
    with file.open("rb") as stream:
        start = without_marks(stream.read(READ_BYTES)).lstrip()
    if start.startswith(b"PAR1"):
        return "parquet"
    return "jsonl" if start.startswith(b"{") else "csv"


# --- Files that are not on this machine ----------------------------------------------------------


def open_url(url: str) -> tuple[Sequence[TableFile], PurePath | None]:
    """Return a file, or all files of a folder in a store and that folder.

    A file on a web server is copied: few servers can send a part of a file.
    """
    try:
        parts = urlsplit(url)
        if not parts.netloc or parts.port == 0:  # the port is read only now
            raise InputError("it names no server")
    except ValueError as error:
        start = url.rpartition("@")[2]  # without what may be a credential
        raise TableError(f"{start.partition('?')[0]} is not a URL: {error}") from None
    _check(parts)
    with _explained(url):
        if parts.scheme in WEB:
            return [_copy(_in_ascii(parts), url, PurePath(parts.path).suffixes)], None
        system, path = _store(url, LOOK_SECONDS)
        kind = system.get_file_info(path).type
        system, path = _store(url, STORE_SECONDS)
        if kind == fs.FileType.File:
            return [RemoteFile(url, path, system)], None
        inside = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    if not inside:
        raise MissingFileError(f"{url}: no such file or folder (a URL has no wildcards)")
    names = sorted(one.path for one in inside if one.type == fs.FileType.File)
    start = url.rstrip("/")
    files = [RemoteFile(f"{start}{name[len(path) :]}", name, system) for name in names]
    return files, PurePath(start)


def _store(url: str, seconds: int) -> tuple[fs.FileSystem, str]:
    """Return the object store of a URL, and the path there."""
    limit = f"?retry_limit_seconds={seconds}" if url.startswith("gs:") else ""
    system, path = fs.FileSystem.from_uri(f"{url}{limit}")
    return system, path


def _check(parts: SplitResult) -> None:
    """Refuse a URL that cannot be read, or that may hold a credential, without repeating it."""
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.scheme not in (*STORES, *WEB):
        schemes = ", ".join(f"{name}://" for name in (*STORES, *WEB))
        raise TableError(f"{place}: tables are read from local files, and from {schemes}")
    has_user = parts.username is not None and parts.scheme not in ("abfs", "abfss")
    if has_user or parts.password is not None or parts.query:
        raise TableError(
            f"{place}: the URL has a user, a password or a query, which may be secret: set "
            "credentials in the environment, or copy the table to this machine first"
        )


def _in_ascii(parts: SplitResult) -> str:
    """Return a URL as a web server takes it, whatever characters it is written with."""
    host = parts.netloc if parts.netloc.isascii() else parts.netloc.encode("idna").decode()
    path = quote(parts.path, safe="/%:;=@!$&'()*+,~")  # % is there for characters quoted before
    return urlunsplit((parts.scheme, host, path, "", ""))


def _copy(address: str, url: str, suffixes: list[str]) -> Path:
    """Copy a file from a web server; it is removed when the process ends.

    The copy gets the time of change that the server tells, by which a checkpoint knows the table.
    """
    with urlopen(address, timeout=SECONDS) as answer:  # noqa: S310
        if answer.status != HTTPStatus.OK:
            said = f"{answer.status} {answer.reason}".strip()
            raise TableError(f"{url}: the server answered {said}, which is not the whole table")
        if (way := answer.headers.get("Content-Encoding", "identity")) != "identity":
            raise TableError(f"{url}: the server sent it as {shown(way)}, which was not asked for")
        file = _copy_of(answer, "".join(suffixes[-2:]), url)
        changed = answer.headers.get("Last-Modified")
        size = answer.headers.get("Content-Length")
    if size is not None and size.isdecimal() and file.stat().st_size != int(size):
        raise TableError(f"{url}: the answer ended after {file.stat().st_size} of {size} bytes")
    os.utime(file, (0.0, 0.0))
    with suppress(ValueError, OverflowError, OSError):  # no date, or one that no file can have
        seconds = parsedate_to_datetime(changed or "").timestamp()
        os.utime(file, (seconds, seconds))
    return file


@contextmanager
def _explained(url: str) -> Iterator[None]:
    try:
        yield
    except TableError:
        raise
    except (pa.ArrowException, OSError, ValueError, HTTPException) as error:
        raise TableError(f"{url} cannot be read: {error}") from None
