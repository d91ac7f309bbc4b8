"""Print results: lines for people, JSON for machines, or nothing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pril.errors import UnavailableError
from pril.reporting.words import count, printable

PROGRESS_SECONDS = 10.0  # between two lines where there is no terminal


def _finite(value: Any) -> Any:
    """Return a result with None for numbers that JSON does not have: NaN and infinity."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Printer:
    """Print what the options --quiet and --json ask for."""

    def __init__(self, *, quiet: bool, json: bool, stream: Any = None) -> None:
        self.quiet = quiet
        self.json = json
        self.stream = stream or sys.stdout

    def result(self, result: dict[str, Any], lines: list[str]) -> None:
        """Print the result of a command."""
        import json

        if self.json:
            self._print(json.dumps(_finite(result), default=str))
        elif not self.quiet:
            self._print("\n".join(map(printable, lines)))

    def _print(self, text: str) -> None:
        try:
            print(text, file=self.stream, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = f"Finished, but writing to standard output failed: {error.strerror}"
            raise UnavailableError(reason) from None

    def note(self, line: str, entry: dict[str, Any] | None = None) -> None:
        """Print a line before the result; as JSON, print the entry, if there is one."""
        if self.json and entry:
            self.result(entry, [])
        elif not (self.quiet or self.json):
            self._print(printable(line))

    @property
    def shows_progress(self) -> bool:
        """Whether to show progress: on a terminal, for people."""
        return sys.stderr.isatty() and not (self.quiet or self.json)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int, int | None], None]]:
        """Yield a function that shows how much of some work is done.

        On a terminal that is a bar; elsewhere, for example in a log, a line now and then.
        """
        if not sys.stderr.isatty():
            yield _ProgressLines().update if not (self.quiet or self.json) else _show_nothing
            return
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        console = Console(stderr=True)
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        with Progress(
            *columns, console=console, transient=True, disable=not self.shows_progress
        ) as bar:
            tasks: dict[str, Any] = {}

            def update(name: str, done: int, total: int | None) -> None:
                if name not in tasks:
                    for task in tasks.values():
                        bar.remove_task(task)
                    tasks.clear()
                    tasks[name] = bar.add_task(name, total=total)
                bar.update(tasks[name], completed=done, total=total)

            yield update


class _ProgressLines:
    """Print a line to stderr every ten seconds: rows, share and rows a second."""

    def __init__(self) -> None:
        self._printed = time.monotonic()
        self._name, self._rows = "", 0

    def update(self, name: str, done: int, total: int | None) -> None:
        """Print a line if it is time."""
        if name != self._name:
            self._name, self._rows = name, 0
        now = time.monotonic()
        seconds = now - self._printed
        if seconds < PROGRESS_SECONDS:
            return
        share = f" ({done / total:.0%})" if total else ""
        speed = (done - self._rows) / max(seconds, 1e-9)
        print(f"{name}: {count(done, 'row')}{share}, {speed:,.0f} rows/s", file=sys.stderr)
        self._printed, self._rows = now, done


def _show_nothing(name: str, done: int, total: int | None) -> None:
    pass
