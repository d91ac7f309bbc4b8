"""Write tables batch by batch: CSV, JSON Lines and Parquet; and a small one to try commands on."""

from __future__ import annotations

import codecs
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet
from msgspec.structs import replace

from pril.errors import InputError, shown
from pril.io.model_files import replace_file
from pril.labels import from_votes
from pril.tables import arrow
from pril.tables.text import USUAL_CSV, CsvStyle, codec_of


@contextmanager
def open_output(file: Path) -> Iterator[IO[bytes]]:
    """Open a file to write a table to; the old file stays until all is written."""
    with replace_file(file) as stream:
        if codec := codec_of(file):
            unzipped = os.fdopen(os.dup(stream.fileno()), "wb")  # it is closed at the end
            with pa.CompressedOutputStream(unzipped, codec) as zipped:
                yield zipped
        else:
            yield stream


class TableWriter:
    """Write batches to a binary stream, as csv, tsv, jsonl or parquet."""

    def __init__(self, stream: IO[bytes], kind: str, style: CsvStyle = USUAL_CSV) -> None:
        self._stream = stream
        self.kind = kind
        self._style = replace(style, delimiter="\t") if kind == "tsv" else style
        self._encoder = codecs.getincrementalencoder(self._style.encoding)()
        self._parquet: pa.parquet.ParquetWriter | None = None
        self._is_first = True

    def write(self, block: pa.RecordBatch | list[str], added: dict[str, pa.Array]) -> None:
        """Write some rows, given as a batch or as lines of JSON, with further columns."""
        if isinstance(block, list):
            self._write_lines(block, _objects(pa.RecordBatch.from_pydict(added)))
            return
        for name, cells in added.items():
            block = block.append_column(name, cells)
        if self.kind == "jsonl":
            self._write_lines(["{}"] * block.num_rows, _objects(block))
        elif self.kind == "parquet":
            self._write_parquet(block)
        else:
            self._write_csv(block)

    def _write_lines(self, texts: list[str], objects: list[str]) -> None:
        """Write JSON objects; to each, add the keys of another one at the end."""
        lines = []
        for text, more in zip(texts, objects, strict=True):
            inside = text[1:-1].rstrip()
            lines.append(f"{{{inside}, {more[1:]}\n" if inside else f"{more}\n")
        self._stream.write("".join(lines).encode())

    def _write_parquet(self, batch: pa.RecordBatch) -> None:
        if self._parquet is None:
            self._parquet = pa.parquet.ParquetWriter(self._stream, batch.schema)
        self._parquet.write_batch(batch)

    def _write_csv(self, batch: pa.RecordBatch) -> None:
        flat = [f.name for f in batch.schema if not pa.types.is_nested(f.type)]
        if self._is_first and len(flat) < batch.num_columns:
            nested = ", ".join(sorted(set(batch.schema.names) - set(flat)))
            warnings.warn(f"CSV cannot hold the columns {nested}: left out", stacklevel=2)
        data = _csv_bytes(batch.select(flat), self._style, header=self._is_first)
        self._stream.write(data if self._style.is_utf8 else self._encoded(data))
        self._is_first = False

    def _encoded(self, data: bytes) -> bytes:
        """Return text of UTF-8 in the encoding of the table."""
        try:
            return self._encoder.encode(data.decode())
        except UnicodeEncodeError as error:
            bad = shown(error.object[error.start : error.end])
            raise InputError(
                f"{bad} cannot be written in {self._style.encoding}, the encoding of the CSV that "
                "the model reads; write .jsonl or .parquet"
            ) from None

    def close(self) -> None:
        """Write the end of the file, where the format has one."""
        if self._parquet is not None:
            self._parquet.close()


def _objects(batch: pa.RecordBatch) -> list[str]:
    """Return the rows as JSON; a number that is not finite is null."""
    names, encode = batch.schema.names, msgspec.json.Encoder(enc_hook=_in_text).encode
    columns = zip(*(cells.to_pylist() for cells in batch.columns), strict=True)
    rows = [encode(dict(zip(names, row, strict=True))) for row in columns]
    return [msgspec.json.format(row, indent=0).decode() for row in rows]


def _in_text(value: Any) -> str:
    """Return a value that JSON does not have; times of pandas as msgspec writes those of Python."""
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _csv_bytes(batch: pa.RecordBatch, style: CsvStyle, *, header: bool) -> bytes:
    """Return rows as CSV. pyarrow's own writer puts quotes around every cell, or around none."""
    text, delimiter = pa.large_string(), style.delimiter
    cells = []
    for column in batch.columns:
        column_text = column.cast(text)
        if arrow.kind_of(column.type) == "number":
            column_text = pc.replace_substring(column_text, ".", style.decimal)
        cells.append(_quoted_cells(column_text, delimiter))
    lines = pc.binary_join_element_wise(*cells, pa.scalar(delimiter, text))
    if header:
        names = _quoted_cells(pa.array(batch.schema.names, text), delimiter).to_pylist()
        lines = pa.concat_arrays([pa.array([delimiter.join(names)], text), lines])
    whole = pa.LargeListArray.from_arrays([0, len(lines)], lines)
    data: bytes = pc.binary_join(whole, pa.scalar("\n", text))[0].as_buffer().to_pybytes()
    return data + b"\n"


def _quoted_cells(cells: pa.Array, delimiter: str) -> pa.Array:
    """Return text with quotes where CSV needs them, and empty text for what is missing."""
    cells = cells.fill_null("")
    marked = pc.match_substring_regex(cells, f'[{re.escape(delimiter)}"\\n\\r]')
    some = pc.replace_substring(cells.filter(marked), '"', '""')
    quote = pa.scalar('"', pa.large_string())
    quoted = pc.binary_join_element_wise(quote, some, quote, pa.scalar("", pa.large_string()))
    return pc.replace_with_mask(cells, marked, quoted)


# --- A small table: flats, each rated by three people who disagree -------------------------------

GRADES = np.array(["poor", "fair", "good", "great"], dtype=object)


def write_flats(folder: Path, n: int = 400) -> None:
    """Write a table with ranges, flats.csv, and one with exact grades, new.csv."""
    rng = np.random.default_rng(7)
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("flats.csv", "new.csv"):
        built = rng.integers(1890, 2024, n)
        refit = np.maximum(built, rng.integers(1970, 2024, n))
        damp = rng.poisson(1.0, n)
        light = rng.uniform(0, 10, n)
        heating = rng.choice(["gas", "coal", "heat pump"], n, p=[0.6, 0.15, 0.25])
        quality = (built - 1950) / 60 + (refit - 1995) / 12 - 0.9 * damp + light / 3
        quality += np.where(heating == "coal", -1.5, np.where(heating == "gas", 0.0, 0.8))
        rank = np.digitize(quality + rng.normal(0, 0.3, n), [0.0, 2.0, 4.0])
        seen = rank[:, np.newaxis] + rng.choice([-1, 0, 1], (n, 3), p=[0.2, 0.6, 0.2])
        votes = GRADES[np.clip(seen, 0, 3)]
        votes[rng.random((n, 3)) < 0.2] = None
        low, high = from_votes(votes, classes=GRADES).T
        labels = {"low": low, "high": high} if name == "flats.csv" else {"grade": GRADES[rank]}
        flats = {
            "built": built,
            "refit": pa.array(refit, mask=rng.random(n) <= 0.05),
            "damp_spots": damp,
            "light": light.round(1),
            "heating": heating,
            **labels,
        }
        with (folder / name).open("wb") as file:
            TableWriter(file, "csv").write(pa.RecordBatch.from_pydict(flats), {})
