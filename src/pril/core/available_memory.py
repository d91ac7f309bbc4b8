"""How much memory a process may still take."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath


def available_memory(root: Path = Path("/")) -> int:
    """Return how many bytes of memory are free, or can be made free; else all there are.

    A container may have less than the machine: the least of what its control groups leave counts.
    """
    machine = 1 << 62
    with suppress(AttributeError, OSError, ValueError):  # not on Windows
        machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, StopIteration, ValueError):
        lines = (root / "proc/meminfo").read_text().splitlines()
        line = next(line for line in lines if line.startswith("MemAvailable:"))
        machine = int(line.split()[1]) * 1024
    return max(0, min([machine, *_left_by_groups(root)]))


# Names of a control group's limit, of its use, and, in memory.stat, of files that can be dropped.
GROUPS_V2 = ("memory.max", "memory.current", "inactive_file")
GROUPS_V1 = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")


def _left_by_groups(root: Path) -> Iterator[int]:
    """Return what each control group of Linux leaves to this process, where it has a limit."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if "memory" not in controllers.split(",") and controllers:
            continue
        names, start = (GROUPS_V1, "memory") if controllers else (GROUPS_V2, "")
        top = root / "sys/fs/cgroup" / start
        own = PurePosixPath(path.lstrip("/"))
        for group in (own, *own.parents):
            with suppress(OSError, ValueError):  # no limit, or none that this process can see
                yield _left_by(top / group, *names)


def _left_by(group: Path, limit: str, use: str, files: str) -> int:
    """Return what one control group leaves; it is a ValueError if it has no limit."""
    left = int((group / limit).read_text()) - int((group / use).read_text())
    pairs = (line.split() for line in (group / "memory.stat").read_text().splitlines())
    return left + next((int(number) for name, number in pairs if name == files), 0)
