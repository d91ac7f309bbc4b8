"""Files that are written whole or not at all."""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from os import PathLike
from pathlib import Path
from typing import BinaryIO

if os.name == "posix":
    import fcntl


@contextmanager
def replace_file(path: str | PathLike[str]) -> Iterator[BinaryIO]:
    """Yield a temporary file, not to be closed, that becomes `path` if all goes well.

    A failure removes it and leaves the old file as it was.
    """
    target = Path(path).resolve()  # a link stays a link
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if target.exists() and not target.is_file():
        raise OSError(errno.EINVAL, "Not a regular file", str(path))
    remove_leftovers(target)
    temporary = None
    try:
        temporary, file = create_temporary(target)
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
            if os.name != "posix":  # elsewhere an open file cannot be renamed
                file.close()
            if target.exists():
                temporary.chmod(target.stat().st_mode)
            temporary.replace(target)
    except BaseException as error:
        if temporary:
            temporary.unlink(missing_ok=True)
        ours = temporary is None or getattr(error, "filename", None) in (None, str(temporary))
        if isinstance(error, OSError) and error.errno is not None and ours:
            raise OSError(error.errno, error.strerror, str(path)) from error
        raise
    if os.name == "posix":  # elsewhere a folder cannot be opened
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def remove_leftovers(path: str | PathLike[str]) -> None:
    """Remove the temporary files that killed processes left beside a file."""
    target = Path(path).resolve()
    for leftover in target.parent.glob(f"{_temporary_prefix(target)}*.tmp"):
        with suppress(OSError), ExitStack() as stack:  # another process writes it
            if os.name == "posix":  # elsewhere an open file cannot be removed
                file = stack.enter_context(leftover.open("rb"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            leftover.unlink()


def create_temporary(target: Path) -> tuple[Path, BinaryIO]:
    """Return a new file beside the target, locked as long as it is open."""
    while True:
        name = f"{_temporary_prefix(target)}{secrets.token_hex(8)}.tmp"
        temporary = target.parent / name
        file = temporary.open("xb")
        if os.name == "posix":
            with suppress(OSError):  # a file system without locks
                fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:  # else it was removed before it was locked
            return temporary, file
        file.close()


def _temporary_prefix(target: Path) -> str:
    return f".pril-{sha256(os.fsencode(target.name)).hexdigest()[:16]}-"
