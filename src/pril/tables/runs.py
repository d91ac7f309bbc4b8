"""Which run learns which model from a table."""

from __future__ import annotations

from pril.core.registry import BY_COMMAND
from pril.tables.files import Table
from pril.tables.in_memory import InMemoryRun
from pril.tables.maximum_run import MaximumRun
from pril.tables.model import Progress
from pril.tables.task import Task
from pril.tables.training import Run


def run_of(table: Table, task: Task, progress: Progress) -> Run:
    """Return a run in this process."""
    learner = BY_COMMAND[task.model]
    if learner.maximises:
        return MaximumRun(table, task, progress)
    return (Run if learner.online else InMemoryRun)(table, task, progress)
