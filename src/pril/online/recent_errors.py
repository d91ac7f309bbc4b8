"""Errors of a stream's last rows, and an alarm if they rise."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from pril.errors import InputError

# How much of a rise the alarm ignores in every row, and how much may add up, in standard deviations
# of the errors. `benchmarks/drift_alarm.py` measures how often there are false alarms.
IGNORED_RISE, ALARM_LIMIT = 0.1, 60.0
MIN_DEVIATION = 0.1  # ranks: a model that hardly ever errs may err a few times
WARM_UP = 100  # rows before the alarm begins to watch
MAX_ALARMS = 100  # that are remembered


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
        deviation = max(math.sqrt(self.squares / self.rows), MIN_DEVIATION)
        self.rise = max(0.0, self.rise + (error - self.mean) / deviation - IGNORED_RISE)
        if self.rise <= ALARM_LIMIT:
            return False
        self.rows, self.mean, self.squares, self.rise = 0, 0.0, 0.0, 0.0
        return True


class Alarm(NamedTuple):
    """The mean error has risen."""

    row: int  # with a label, at which that was noticed
    watched: int  # rows since the watch began


@dataclass
class ErrorWindow:
    """How far the predictions of some rows of a stream were off, and alarms if the error rises."""

    rows: int = 0  # with a label, so far
    size: int = 0  # of these, in the window
    loss: int = 0  # ranks off, in the window
    hits: int = 0  # predictions inside of their label, in the window
    alarms: list[int] = field(default_factory=list)  # rows at which one was noticed
    alarm: ErrorAlarm | None = field(default_factory=ErrorAlarm)  # None: there are none

    def add(self, losses: list[int]) -> list[Alarm]:
        """Take how many ranks the predictions of more rows were off; return the alarms."""
        raised = []
        self.size += len(losses)
        self.loss += sum(losses)
        self.hits += losses.count(0)
        for row, loss in enumerate(losses if self.alarm else (), self.rows + 1):
            watched = self.alarm.rows + 1 if self.alarm else 0
            if self.alarm and self.alarm.add(loss):
                self.alarms = [*self.alarms, row][-MAX_ALARMS:]
                raised.append(Alarm(row, watched))
        self.rows += len(losses)
        return raised

    def drop(self, loss: int) -> None:
        """Let the window begin one row later; the loss is that of its first row."""
        self.size -= 1
        self.loss -= loss
        self.hits -= loss == 0

    def begin(self) -> None:
        """Begin the next window."""
        self.size, self.loss, self.hits, self.alarms = 0, 0, 0, []

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics, None where there is nothing to average."""
        return {
            "rows": self.rows,
            "window": self.size,
            "mean_error": self.loss / self.size if self.size else None,
            "share_inside": self.hits / self.size if self.size else None,
            "alarms": list(self.alarms),
        }


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
        self._losses: deque[int] = deque()
        self._sums = ErrorWindow()

    @classmethod
    def over(cls, window: int | None) -> Self | None:
        """Return the errors over this number of rows, None if there is none."""
        return None if window is None else cls(window)

    def add(self, loss: int) -> None:
        """Take how many ranks the prediction of one more row was off."""
        self._sums.add([loss])
        self._losses.append(loss)
        if len(self._losses) > self.window:
            self._sums.drop(self._losses.popleft())

    def to_dict(self) -> dict[str, Any]:
        """Return the metrics, None where there is nothing to average."""
        return self._sums.to_dict()


@dataclass
class ErrorReports:
    """When a stream tells its errors: every `every` rows or, without a number, as they double.

    A report is about the rows since the last one. It comes where the number of rows is a multiple
    of `every`, so that the first one after a change of `every` is about fewer rows, or more.
    """

    every: int | None = None
    loss: int = 0  # of all rows
    recent: ErrorWindow = field(default_factory=lambda: ErrorWindow(alarm=None))

    @property
    def next_row(self) -> int:
        """The row after which there is a report."""
        rows, every = self.recent.rows, self.every
        return 1 << rows.bit_length() if every is None else (rows // every + 1) * every

    def __post_init__(self) -> None:
        if self.every is not None and self.recent.alarm is None:
            self.recent.alarm = ErrorAlarm()

    def add(
        self,
        losses: list[int],
        tell: Callable[[ErrorReports], None],
        warn: Callable[[Alarm], None] = lambda _: None,
    ) -> None:
        """Take how many ranks the predictions of more rows were off.

        Tell when a report is due, and warn of alarms.
        """
        recent = self.recent
        while losses:
            n = self.next_row - recent.rows
            some, losses = losses[:n], losses[n:]
            for alarm in recent.add(some):
                warn(alarm)
            self.loss += sum(some)
            if len(some) == n:
                tell(self)
                recent.begin()
