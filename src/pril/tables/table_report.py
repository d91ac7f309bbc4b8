"""Write a report on a model and a table."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from pril.reporting.model_report import Report, cells_of
from pril.tables.files import Table
from pril.tables.model import LoadedModel, Progress

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from numpy.typing import NDArray

    Array = NDArray[Any]


def write_report(
    loaded: LoadedModel, table: Table, labels: tuple[str, ...], path: Path, progress: Progress
) -> dict[str, Any]:
    """Write how good a model is on the rows of a table; return the numbers of the verdict."""
    counting = "Rows are counted from 1, without a header."
    report = Report(loaded.model, table.name, counting, loaded.feature_names)
    for first, block, outcomes in loaded.outcomes(table, labels, progress):
        report.add(outcomes, partial(_describe, table, first, block.select(loaded.columns)))
    notes = {name: note for name, note in loaded.about.notes.items() if name != "finished"}
    return report.write(path, loaded.about.versions, notes)


def _describe(
    table: Table, first: int, block: pa.RecordBatch, rows: Array
) -> list[tuple[str, dict[str, Any]]]:
    """Return the places and some cells of rows of a block."""
    places = [table.place(first + int(row)) for row in rows]
    return list(zip(places, cells_of(block, rows), strict=True))
