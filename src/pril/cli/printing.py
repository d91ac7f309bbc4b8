"""Print results: lines for people, JSON for machines, or nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Timer
from typing import Any

from pril.core.words import count, printable
from pril.errors import UnavailableError
from pril.online.compile_time import compile_time

FIRST_SECONDS = 1.0  # of silence at the start
PROGRESS_SECONDS = 10.0  # between two lines where there is no terminal
NOTES = 5  # in this time, at most: steps and rounds with what they have reached


@dataclass
class Printer:
    """Print what the options --quiet and --json ask for."""

    quiet: bool = False
    json: bool = False

    def __post_init__(self) -> None:
        self.stream = sys.stdout

    def result(self, result: dict[str, Any], lines: list[str]) -> None:
        """Print the result of a command."""
        import json

        if self.json:
            written = json.dumps(result, default=str)
            # NaN and infinity, which JSON does not have, become null.
            self._print(json.dumps(json.loads(written, parse_constant=lambda _: None)))
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
    def saying(self, line: str) -> Iterator[None]:
        """Print a line to stderr once the work has taken a second."""
        timer = Timer(FIRST_SECONDS, lambda: print(printable(line), file=sys.stderr))
        timer.daemon = True
        if not (self.quiet or self.json):
            timer.start()
        try:
            yield
        finally:
            timer.cancel()

    @contextmanager
    def progress(self, unit: str = "row") -> Iterator[Callable[..., None]]:
        """Yield a function that shows how much of some work is done, in what it calls a unit.

        On a terminal that is a bar; elsewhere, for example in a log, a line after a second and then
        every ten.
        """
        if not sys.stderr.isatty():
            yield (lambda *_: None) if self.quiet or self.json else _progress_lines(unit)
            return
        from rich.console import Console
        from rich.progress import MofNCompleteColumn, Progress, TextColumn

        note = TextColumn("{task.fields[note]}", markup=False)
        columns = (*Progress.get_default_columns(), MofNCompleteColumn(), note)
        console, hidden = Console(stderr=True), not self.shows_progress
        with Progress(*columns, console=console, transient=True, disable=hidden) as bar:
            task = bar.add_task("", total=None, visible=False, note="")

            def update(name: str, done: int, total: int | None, note: str = "") -> None:
                if bar.tasks[task].description != name:
                    bar.reset(task, description=name, visible=True)
                bar.update(task, completed=done, total=total, note=note)

            yield update


def _clock() -> float:
    """Return a time in seconds that stands still while something compiles."""
    return time.monotonic() - compile_time.seconds


def _progress_lines(unit: str) -> Callable[..., None]:
    """Return a function that prints a line after a second, and then every ten.

    A line has the number of units, their share and units a second; or a number and a note. Notes
    are printed more often, whatever was printed between them.
    """
    printed, noted, last_name, before = _clock(), _clock(), "", 0
    pause = min(FIRST_SECONDS, PROGRESS_SECONDS)

    def update(name: str, done: int, total: int | None, note: str = "") -> None:
        nonlocal printed, noted, last_name, before, pause
        now = _clock()
        if note:
            if now - noted >= PROGRESS_SECONDS / NOTES:
                print(f"{name} {done:,} of at most {total:,}: {note}", file=sys.stderr)
                printed = noted = _clock()
            return
        before, last_name = before if name == last_name else 0, name
        if now - printed < pause:
            return
        share = f" ({done / total:.0%})" if total else ""
        speed = (done - before) / max(now - printed, 1e-9)
        pace = f"{speed:,.0f}" if speed >= 10 else f"{speed:.1f}"
        print(f"{name}: {count(done, unit)}{share}, {pace} {unit}s/s", file=sys.stderr)
        printed, before, pause = _clock(), done, PROGRESS_SECONDS

    return update
