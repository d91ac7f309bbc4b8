"""Errors of a stream's last rows, and an alarm if they rise."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from pril.errors import InputError

# Of the alarm, in standard deviations of the errors: how much of a rise is ignored in every row,
# and how much may add up. `benchmarks/drift_alarm.py` measures how often there are false alarms.
IGNORED, MOST = 0.1, 60.0
LEAST_DEVIATION = 0.1  # ranks: a model that hardly ever errs may err a few times
WARM_UP = 100  # rows before the alarm begins to watch
MOST_ALARMS = 100  # that are remembered


@dataclass
class ErrorAlarm:
    """Tells when the mean error of a stream has risen: the test of Page and Hinkley.

    Errors above their mean so far, in standard deviations and less a tolerance, add up; the sum
    never falls below zero. If it gets too large, that is an alarm, and the watch begins anew.

    E. S. Page, "Continuous inspection schemes", Biometrika 41, 1954.
    """

    rows: int = 0
    mean: float = 0.0
    squares: float = 0.0  # of distances from the mean, added up
    rise: float = 0.0

    def add(self, error: float) -> bool:
        """Take the error of one more row; tell whether there is an alarm."""
        self.rows += 1
        distance = error - self.mean
        self.mean += distance / self.rows
        self.squares += distance * (error - self.mean)
        if self.rows <= WARM_UP:
            return False
        deviation = max(math.sqrt(self.squares / self.rows), LEAST_DEVIATION)
        self.rise = max(0.0, self.rise + (error - self.mean) / deviation - IGNORED)
        if self.rise <= MOST:
            return False
        self.rows, self.mean, self.squares, self.rise = 0, 0.0, 0.0, 0.0
        return True


class RecentErrors:
    """Mean error and share inside of the last rows of a stream.

    Parameters
    ----------
    window : int
        How many rows with a label are the last ones.
    """

    def __init__(self, window: int) -> None:
        if isinstance(window, bool) or not isinstance(window, int) or window < 1:
            raise InputError(f"metrics must be a number of rows, at least 1, got {window!r}")
        self.window = window
        self.rows = 0
        self.alarms: deque[int] = deque(maxlen=MOST_ALARMS)
        self._losses: deque[int] = deque()
        self._total = self._hits = 0  # of the last rows
        self._alarm = ErrorAlarm()

    def add(self, loss: int) -> None:
        """Take how many ranks the prediction of one more row was off."""
        self.rows += 1
        self._losses.append(loss)
        self._total += loss
        self._hits += loss == 0
        if len(self._losses) > self.window:
            oldest = self._losses.popleft()
            self._total -= oldest
            self._hits -= oldest == 0
        if self._alarm.add(loss):
            self.alarms.append(self.rows)

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics, None where there is nothing to average."""
        n = len(self._losses)
        return {
            "rows": self.rows,
            "window": n,
            "mean_error": self._total / n if n else None,
            "share_inside": self._hits / n if n else None,
            "alarms": list(self.alarms),
        }


class Window(NamedTuple):
    """How good the predictions of some rows were, one after the other."""

    rows: int  # with a label, so far
    size: int  # of these, the last ones that the means are over
    mean_error: float  # ranks off
    share_inside: float
    alarms: list[int]  # rows of the window at which it was noticed that the error had risen

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it."""
        return {"window" if name == "size" else name: own for name, own in self._asdict().items()}


@dataclass
class ErrorWindows:
    """Errors of a stream in windows of so many rows each, and an alarm if they rise."""

    every: int
    rows: int = 0
    loss: int = 0  # of the window that is not full yet
    hits: int = 0
    alarms: list[int] = field(default_factory=list)
    alarm: ErrorAlarm = field(default_factory=ErrorAlarm)

    @property
    def next_row(self) -> int:
        """The row that fills the window."""
        return (self.rows // self.every + 1) * self.every

    def add(self, losses: Iterable[int]) -> Iterator[Window]:
        """Take how many ranks the predictions of more rows were off; return the full windows."""
        for loss in losses:
            self.rows += 1
            self.loss += loss
            self.hits += loss == 0
            if self.alarm.add(loss):
                self.alarms.append(self.rows)
            if self.rows % self.every == 0:
                n, alarms = self.every, self.alarms
                yield Window(self.rows, n, self.loss / n, self.hits / n, alarms)
                self.loss, self.hits, self.alarms = 0, 0, []

    def go_on(self, before: ErrorWindows) -> None:
        """Go on from an earlier state; a window of another size begins anew."""
        every = self.every
        vars(self).update(vars(before))
        if before.every != every:
            self.every, self.loss, self.hits, self.alarms = every, 0, 0, []
