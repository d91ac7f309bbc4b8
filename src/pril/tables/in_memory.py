"""Learn from a table all rows at once, in memory: for learners that do not learn row by row."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core import ranking
from pril.learners.boosting.cross_fitting import Rounds
from pril.learners.ordered_boosting import fit_watched
from pril.tables.files import TableError
from pril.tables.survey import row_numbers, select_rows
from pril.tables.training import Check, Run

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

# Memory that learning takes at its peak: bytes for each byte of the features, and for each row.
# Measured for 1.2 million rows of 20 features and 0.3 million of 100: 4.8 and 160.
PEAK, ROW_BYTES = 5, 200


class InMemoryRun(Run):
    """One run over a table: survey, one fit to all rows, a check on rows kept apart."""

    def _begin_model(self, width: int, classes: Array, weights: dict[Any, float] | None) -> None:
        words = list(range(width - len(self.survey.encoder.words_), width))
        self.model = self.task.blank_model(classes, weights, categorical_features=words)
        rows = int(self.task.uses(0, self.survey.rows).learning.sum())
        needed, there = rows * (8 * width * PEAK + ROW_BYTES), available_memory()
        if needed > there:
            raise TableError(
                f"{self.table.name}: {self.task.model} learns all rows at once: {rows:,} rows of "
                f"{width:,} features take about {needed:,} bytes of memory, and {there:,} are "
                "available; learn from fewer rows, or choose a model that learns row by row",
                hint="model",
            )
        self.features: Array = np.empty((rows, width))

    def _learn(self) -> None:
        labels, weights, places, n = [], [], [], 0
        recipe, X = self.recipe, self.features
        for first, cells in self._tracked("reading", self._read_cells(recipe.columns)):
            learning = self.task.uses(first, cells.num_rows).learning
            places.append(row_numbers(first, learning))
            part, y, own = recipe.read(self.table, places[-1], select_rows(cells, learning))
            X[n : n + len(part)] = part
            n += len(part)
            labels.append(y)
            weights.append(np.ones(len(part)) if own is None else own)
        with self.table.naming_rows(np.concatenate(places), self.task.labels):
            y, weight = ranking.stack(labels), np.concatenate(weights)
            fit_watched(self.model, X, y, weight, self._watch)
        self.phase = "done"
        del self.features

    def _watch(self, rounds: Rounds) -> None:
        self.progress("rounds", len(rounds), rounds.most, str(rounds))

    def _check(self) -> Check:
        self.row, check, recipe = 0, Check(), self.recipe
        for first, cells in self._tracked("evaluating", self.table.blocks(recipe.columns)):
            uses = self.task.uses(first, cells.num_rows)
            if apart := recipe.read_apart(self.table, self.model, first, cells, uses):
                check = check.merge(apart.check(self.task, self.model))
        return check

    def describe(self) -> dict[str, Any]:
        """Return what was read and learned; rounds of boosting in place of passes."""
        return super().describe() | {"passes": None, "rounds": self.model.n_iter_}


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
