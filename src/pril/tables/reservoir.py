"""A random sample of the rows of a table, taken while it is read."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pril.tables.cells import NUMBER, TEXT, one_batch, read_numbers, read_words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pril.tables.encoder import ColumnEncoder

    Array = NDArray[Any]


class Reservoir:
    """A random sample of rows.

    Every row has a random key, which depends on the seed and on its number in the table, and the
    rows with the smallest keys are kept. So the sample does not depend on how the table comes in
    blocks or files.
    """

    def __init__(self, size: int, seed: int) -> None:
        self.size = size
        self.seed = seed
        self.keys: Array = np.empty(0)
        self.cells: pa.Table | None = None

    def add(self, encoder: ColumnEncoder, first: int, block: pa.RecordBatch, used: Array) -> None:
        """Offer the rows of a block that are used; an encoder tells numbers from words."""
        bits = np.random.PCG64([self.seed, 1]).advance(first)  # row k gets the k-th number
        keys = np.random.Generator(bits).random(block.num_rows)
        largest = self.keys[-1] if len(self.keys) == self.size else np.inf
        new = np.flatnonzero(used & (keys < largest))
        new = new[np.argsort(keys[new])][: self.size]
        if len(new):
            self._keep(keys[new], _plain_cells(encoder, block.take(pa.array(new))))

    def merge(self, other: Reservoir) -> None:
        """Offer the rows of another sample."""
        if other.cells is not None:
            self._keep(other.keys, other.cells)

    def _keep(self, keys: Array, cells: pa.Table) -> None:
        if self.cells is not None:
            keys = np.concatenate([self.keys, keys])
            cells = pa.concat_tables([self.cells, cells])
        order = np.argsort(keys)[: self.size]
        self.keys, self.cells = keys[order], cells.take(pa.array(order)).combine_chunks()

    def rows(self) -> pa.RecordBatch:
        """Return the sample, in random order."""
        return one_batch(self.cells)

    # --- Checkpoints ---

    def to_json(self) -> str:
        """Return the sample as text."""
        cells = {} if self.cells is None else self.cells.to_pydict()
        return json.dumps([self.keys.tolist(), cells])

    def restore(self, text: str, encoder: ColumnEncoder, schema: pa.Schema) -> None:
        """Read the sample of a table from what `to_json` returned."""
        keys, columns = json.loads(text)
        self.keys = np.array(keys, dtype=np.float64)
        kinds = {name: _kind(encoder, schema.field(name)) for name in columns}
        if keys:
            self.cells = pa.table(
                {
                    name: pa.array(_pairs(cells) if pa.types.is_map(kinds[name]) else cells, kind)
                    for (name, cells), kind in zip(columns.items(), kinds.values(), strict=True)
                }
            )


def _kind(encoder: ColumnEncoder, field: pa.Field) -> pa.DataType:
    if field.name in encoder.numbers_:
        return NUMBER
    return field.type if field.name in encoder.widths_ else TEXT


def _plain_cells(encoder: ColumnEncoder, block: pa.RecordBatch) -> pa.Table:
    """Return rows with numbers as floats and words as strings, as the encoder reads them."""
    columns = {}
    for field, cells in zip(block.schema, block.columns, strict=True):
        kind = _kind(encoder, field)
        if kind == NUMBER:
            columns[field.name] = pa.array(read_numbers(cells, field.name))
        else:
            columns[field.name] = read_words(cells, field.name) if kind == TEXT else cells
    return pa.table(columns)


def _pairs(cells: list[Any]) -> list[Any]:
    """Return cells of a sparse column, which JSON has as lists of lists."""
    return [cell and [tuple(pair) for pair in cell] for cell in cells]
