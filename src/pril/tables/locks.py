"""Let one process at a time work on a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from pril.errors import InputError


@contextmanager
def hold(lock: Path, subject: str) -> Iterator[None]:
    """Hold a lock file; refuse at once if another process does. A killed process holds nothing."""
    own = FileLock(lock, timeout=0)
    try:
        own.acquire()
    except Timeout:
        raise InputError(f"{subject} is in use by another pril: wait until it has ended") from None
    try:
        yield
    finally:
        # Before the release: who waits for it sees that it is gone. Windows keeps a file that is
        # open; there the release removes it.
        with suppress(PermissionError):
            lock.unlink(missing_ok=True)
        own.release()


def lock_of(file: Path) -> Path:
    """Return the lock file of a file to be written."""
    target = file.resolve()
    return target.with_name(f".{target.name[:200]}.lock")
