"""What a command prints: lines for people, JSON for machines, or nothing."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def _finite(value: Any) -> Any:
    """Return a result as JSON can say it: no number is infinite there."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class Printer:
    """What the user sees: lines for people, one JSON object for machines, or nothing."""

    def __init__(self, *, quiet: bool, json: bool, stream: Any = None) -> None:
        self.quiet = quiet
        self.json = json
        self.stream = stream or sys.stdout

    def result(self, result: dict[str, Any], lines: list[str]) -> None:
        """Print what came out."""
        import json

        if self.json:
            self._print(json.dumps(_finite(result), default=str))
        elif not self.quiet:
            self._print("\n".join(lines))

    def _print(self, text: str) -> None:
        try:
            print(text, file=self.stream, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(f"all is done, but standard output: {error.strerror}") from None

    def note(self, line: str, entry: dict[str, Any] | None = None) -> None:
        """Print a line on the way; machines get the entry, if there is one."""
        if self.json and entry:
            self.result(entry, [])
        elif not (self.quiet or self.json):
            self._print(line)

    @property
    def is_watched(self) -> bool:
        """Tell whether someone looks at a terminal."""
        return sys.stderr.isatty() and not (self.quiet or self.json)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int, int | None], None]]:
        """Yield a function that shows how far a piece of work is, on a terminal."""
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
            *columns, console=console, transient=True, disable=not self.is_watched
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
