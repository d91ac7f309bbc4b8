"""Tables that are not on this machine: read from object stores, or copied from web servers.

Credentials come from where pyarrow looks for them: the environment, and the files of the stores'
own tools. A URL that holds any is refused, so that none gets into a message or a model file.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from http.client import HTTPException
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any
from urllib.parse import SplitResult, quote, urlsplit, urlunsplit
from urllib.request import urlopen

import pyarrow as pa
from pyarrow import fs

from pril.errors import InputError, MissingFileError, shown
from pril.tables.files import TableError
from pril.tables.text import READ_BYTES

STORES, WEB = ("s3", "gs", "abfs", "abfss"), ("http", "https")
SECONDS = 60.0  # without an answer of a web server
STORE_SECONDS = 30  # in which Google's client tries again; by default a quarter of an hour


@dataclass(frozen=True)
class RemoteFile:
    """A file of an object store, which can be used where a Path is read."""

    url: str
    path: str
    system: Any = field(compare=False, repr=False)  # a FileSystem of pyarrow

    def resolve(self) -> RemoteFile:
        """Return the file itself: there are no links."""
        return self

    def open(self, mode: str = "rb") -> Any:
        """Open the file for reading at any place."""
        return self.system.open_input_file(self.path)

    def stat(self) -> Any:
        """Return size and time of change."""
        info = self.system.get_file_info(self.path)
        return SimpleNamespace(st_ino=0, st_size=info.size, st_mtime_ns=info.mtime_ns)

    def __str__(self) -> str:
        return self.url


def is_url(place: str) -> bool:
    """Tell whether a place is not on this machine."""
    return "://" in place


def open_url(url: str) -> tuple[list[Any], PurePath | None]:
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
        limit = f"?retry_limit_seconds={STORE_SECONDS}" if parts.scheme == "gs" else ""
        system, path = fs.FileSystem.from_uri(f"{url}{limit}")
        if system.get_file_info(path).type == fs.FileType.File:
            return [RemoteFile(url, path, system)], None
        inside = system.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    if not inside:
        raise MissingFileError(f"{url}: no such file or folder (a URL has no wildcards)")
    names = sorted(one.path for one in inside if one.type == fs.FileType.File)
    start = url.rstrip("/")
    files = [RemoteFile(f"{start}{name[len(path) :]}", name, system) for name in names]
    return files, PurePath(start)


def _check(parts: SplitResult) -> None:
    """Refuse a URL that cannot be read, or that may hold a credential, without repeating it."""
    place = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
    if parts.scheme not in (*STORES, *WEB):
        known = ", ".join(f"{name}://" for name in (*STORES, *WEB))
        raise TableError(f"{place}: tables are read from local files, and from {known}")
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
    folder = Path(tempfile.mkdtemp(prefix="pril-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = folder / "".join(["table", *suffixes[-2:]])
    with urlopen(address, timeout=SECONDS) as answer, file.open("wb") as copy:  # noqa: S310
        if answer.status != HTTPStatus.OK:
            said = f"{answer.status} {answer.reason}".strip()
            raise TableError(f"{url}: the server answered {said}, which is not the whole table")
        if (way := answer.headers.get("Content-Encoding", "identity")) != "identity":
            raise TableError(f"{url}: the server sent it as {shown(way)}, which was not asked for")
        shutil.copyfileobj(answer, copy, READ_BYTES)
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
