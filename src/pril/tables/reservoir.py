"""A random sample of the rows of a table, taken while it is read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa

from pril.tables.cells import NUMBER, TEXT, read_numbers, read_words


class Reservoir:
    """A random sample of rows, with the columns of a schema.

    Every row has a random key, which depends on the seed and on its number in the table, and the
    rows with the smallest keys are kept. So the sample does not depend on how the table comes in
    blocks or files.
    """

    def __init__(self, size: int, seed: int, schema: pa.Schema) -> None:
        self.size = size
        self.seed = seed
        self.schema = schema  # numbers, text and sparse columns
        self.kept: list[tuple[float, list[Any]]] = []  # key and cells of each row, by key

    def add(self, first: int, block: pa.RecordBatch, used: Any) -> None:
        """Offer the rows of a block that are used."""
        bits = np.random.PCG64([self.seed, 1]).advance(first)  # row k gets the k-th number
        keys = np.random.Generator(bits).random(block.num_rows)
        largest = self.kept[-1][0] if len(self.kept) == self.size else np.inf
        new = np.flatnonzero(used & (keys < largest))
        new = new[np.argsort(keys[new])][: self.size]
        rows = block.take(pa.array(new))
        columns = [self._cells(rows.column(field.name), field).to_pylist() for field in self.schema]
        self._keep(
            list(zip(keys[new].tolist(), map(list, zip(*columns, strict=True)), strict=True))
        )

    def _cells(self, cells: pa.Array, field: pa.Field) -> pa.Array:
        if field.type == NUMBER:
            return pa.array(read_numbers(cells, field.name))
        return read_words(cells, field.name) if field.type == TEXT else cells

    def merge(self, other: Reservoir) -> None:
        """Offer the rows of another sample."""
        self._keep(other.kept)

    def _keep(self, rows: list[tuple[float, list[Any]]]) -> None:
        self.kept = sorted([*self.kept, *rows], key=lambda row: row[0])[: self.size]

    def rows(self) -> pa.RecordBatch:
        """Return the sample, in random order."""
        columns = zip(*(cells for _, cells in self.kept), strict=True)
        arrays = [
            pa.array([_pairs(cell) for cell in cells] if pa.types.is_map(kind) else cells, kind)
            for cells, kind in zip(columns, self.schema.types, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def to_json(self) -> str:
        """Return the sample as text, for a checkpoint."""
        return json.dumps(self.kept)

    def restore(self, text: str) -> None:
        """Read the sample from what `to_json` returned."""
        self.kept = [(key, cells) for key, cells in json.loads(text)]


def _pairs(cell: Any) -> Any:
    """Return a cell of a sparse column, which JSON has as a list of lists."""
    return cell and [tuple(pair) for pair in cell]
