"""What a run has learned, in a file, and locks that let one process at a time use a file.

The file of a stream also says how far it was read.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from pril.errors import InputError
from pril.io import model_files
from pril.metrics import Evaluation


@contextmanager
def hold(lock: Path, subject: str) -> Iterator[None]:
    """Hold a lock file; refuse at once if another process does. A killed process holds nothing."""
    held_file = FileLock(lock, timeout=0)
    try:
        held_file.acquire()
    except Timeout:
        raise InputError(f"{subject} is in use by another process: wait until it ends") from None
    try:
        yield
    finally:
        # Unlink before the release, so that a waiting process sees that the file is gone. Windows
        # keeps a file that is open; there the release removes it.
        with suppress(PermissionError):
            lock.unlink(missing_ok=True)
        held_file.release()


def lock_of(file: Path) -> Path:
    """Return the lock file of a file to be written."""
    target = file.resolve()
    return target.with_name(f".{target.name[:200]}.lock")


@dataclass
class Checkpoint:
    """A file with one dict, all that a run has learned; replaced every million rows or as told."""

    path: Path
    every: int
    origin: dict[str, Any] = field(default_factory=dict)  # what identifies the run, which sets it
    notes: dict[str, Any] = field(default_factory=dict)  # of the user, to be kept with it
    verified: set[Any] = field(default_factory=set)  # phases of which one was read back
    is_resumed: bool = False  # whether the run goes on from the file

    def restore(self) -> dict[str, Any] | None:
        """Return what the file holds, if there is one."""
        if not self.path.exists():
            return None
        state, about = model_files.read(self.path, kind="checkpoint")
        for name, value in self.origin.items():
            if about.notes.get(name) != value:
                raise InputError(
                    f"{self.path} belongs to another run: the {name} differs; run the same "
                    "command as before, or remove the folder"
                )
        self.notes = model_files.user_notes(about.notes, self.path)
        self.is_resumed = True
        return dict(state)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Let no other process use the folder meanwhile; remove the file when the work is done."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with hold(self.path.with_suffix(".lock"), f"the checkpoint {self.path.parent}"):
            yield
            self.remove()

    def is_of(self, origin: dict[str, Any]) -> bool:
        """Tell whether there is a file, and it belongs to this run."""
        if not self.path.exists():
            return False
        notes = model_files.read(self.path, kind="checkpoint")[1].notes
        return {name: note for name, note in notes.items() if name != model_files.USER} == origin

    def save(self, state: dict[str, Any]) -> None:
        """Replace the file; the first one of each phase of a run is read back before."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        notes = self.origin | ({model_files.USER: self.notes} if self.notes else {})
        phase = state.get("phase")
        verify = phase not in self.verified
        model_files.write(state, self.path, kind="checkpoint", notes=notes, verify=verify)
        self.verified.add(phase)

    def remove(self) -> None:
        """Remove the file, and what killed processes have left of it."""
        model_files.remove_leftovers(self.path)
        self.path.unlink(missing_ok=True)

    def is_due(self, before: int, after: int) -> bool:
        """Tell whether a multiple of `every` lies between two rows."""
        return after // self.every > before // self.every


# --- Streams -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Position:
    """How far a stream has been read: rows, and a checksum of their bytes."""

    rows: int = 0
    checksum: int = 0
    first: int = 0  # the checksum of the first row

    def after(self, lines: list[bytes]) -> Position:
        """Return the position some lines further."""
        if not lines:
            return self
        first = self.first if self.rows else zlib.crc32(lines[0])
        checksum = zlib.crc32(b"\n".join([*lines, b""]), self.checksum)
        return Position(self.rows + len(lines), checksum, first)


@dataclass
class Finished:
    """What a finished stream has learned, as a note in the model file that it replaced.

    Model and note are written in one step, so that a crash cannot separate them.
    """

    origin: dict[str, Any]  # of the run, as in its checkpoint
    position: Position
    evaluation: Evaluation
