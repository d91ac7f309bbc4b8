"""Tables written: CSV, JSON Lines and Parquet, batch by batch."""

from __future__ import annotations

import csv
import io
import json
import warnings
from typing import IO

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from pril._tables import TableError


class TableWriter:
    """Write batches to a binary stream in a format.

    Parameters
    ----------
    stream : binary file
        Where to write; it is not closed.
    format : str
        One of csv, tsv, jsonl, parquet.
    """

    def __init__(self, stream: IO[bytes], format: str) -> None:  # noqa: A002
        self._stream = stream
        self._format = format
        self._parquet: pa.parquet.ParquetWriter | None = None
        self._schema: pa.Schema | None = None

    def write(self, batch: pa.RecordBatch) -> None:
        """Write one batch.

        Parameters
        ----------
        batch : RecordBatch
            The rows.
        """
        first = self._schema is None
        self._schema = batch.schema if self._schema is None else self._schema
        if self._format == "jsonl":
            rows = [{k: None if v != v else v for k, v in row.items()} for row in batch.to_pylist()]
            lines = [json.dumps(row, ensure_ascii=False, default=str) for row in rows]
            self._stream.write("".join(f"{line}\n" for line in lines).encode())
        elif self._format == "parquet":
            if self._parquet is None:
                self._parquet = pa.parquet.ParquetWriter(self._stream, self._schema)
            try:
                self._parquet.write_batch(batch.cast(self._schema))
            except (pa.ArrowException, ValueError) as error:
                raise TableError(
                    f"a column changes its type, write .jsonl or .csv: {error}"
                ) from None
        else:
            delimiter = "\t" if self._format == "tsv" else ","
            flat = [
                n for n in batch.schema.names if not pa.types.is_nested(batch.schema.field(n).type)
            ]
            if first and len(flat) < batch.num_columns:
                nested = ", ".join(sorted(set(batch.schema.names) - set(flat)))
                warnings.warn(f"CSV cannot hold the columns {nested}: left out", stacklevel=2)
            self._stream.write(_csv_bytes(batch.select(flat), delimiter, header=first))

    def close(self) -> None:
        """Write what the format has at its end."""
        if self._parquet is not None:
            self._parquet.close()


def _csv_bytes(batch: pa.RecordBatch, delimiter: str, *, header: bool) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter, lineterminator="\n")
    if header:
        writer.writerow(batch.schema.names)
    plain = io.BytesIO()
    try:
        options = pa.csv.WriteOptions(
            include_header=False, delimiter=delimiter, quoting_style="none"
        )
        pa.csv.write_csv(batch, plain, options)
    except pa.ArrowInvalid:  # a cell needs quotes; pyarrow would then put them around every cell
        # Numbers as pyarrow spells them, so that blocks do not differ.
        columns = (column.cast(pa.string()).to_pylist() for column in batch.columns)
        writer.writerows(zip(*columns, strict=True))
        plain = io.BytesIO()
    return text.getvalue().encode() + plain.getvalue()
