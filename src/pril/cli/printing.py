"""Print results: lines for people, JSON for machines, or nothing."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
            self._print("\n".join(lines))

    def _print(self, text: str) -> None:
        try:
            print(text, file=self.stream, flush=True)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OSError(f"all is done, but standard output: {error.strerror}") from None

    def note(self, line: str, entry: dict[str, Any] | None = None) -> None:
        """Print a line before the result; as JSON, print the entry, if there is one."""
        if self.json and entry:
            self.result(entry, [])
        elif not (self.quiet or self.json):
            self._print(line)

    @property
    def shows_progress(self) -> bool:
        """Whether to show progress: on a terminal, for people."""
        return sys.stderr.isatty() and not (self.quiet or self.json)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int, int | None], None]]:
        """Yield a function that shows, on a terminal, how much of some work is done."""
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


def count(n: int, thing: str) -> str:
    """Return a number of things in words: 1 row, 2 rows, 3 passes."""
    plural = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{n:,} {thing if n == 1 else plural}"


def evaluation_lines(evaluation: dict[str, Any]) -> list[str]:
    """Return how good a model is, for people."""
    if not evaluation["rows"]:
        return ["no rows with a label"]
    constant = f"always {evaluation['constant']!r} {evaluation['constant_accuracy']:.1%}"
    lines = [
        f"{count(evaluation['rows'], 'row')}: {evaluation['interval_accuracy']:.1%} inside their "
        f"range ({constant}), off by {evaluation['interval_absolute_error']:.4f} ranks on average"
    ]
    if evaluation["exact_rows"]:
        lines.append(
            f"{count(evaluation['exact_rows'], 'row')} with an exact label: off by "
            f"{evaluation['exact_absolute_error']:.4f} ranks"
        )
    if evaluation["unlabelled_rows"]:
        lines.append(f"{count(evaluation['unlabelled_rows'], 'row')} without a label left out")
    return lines
