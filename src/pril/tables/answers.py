"""The two formats of a stream: how rows are read, and how answers are written."""

from __future__ import annotations

import csv
import io as streams
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv

from pril.core import ranking
from pril.core.classifier import naming_rows
from pril.errors import RowError
from pril.tables.cells import NUMBER, TEXT, check_written_numbers, one_batch
from pril.tables.files import LONGEST_ROW, TOO_LONG, TableError, no_column
from pril.tables.json_lines import FEW_LINES, check_keys, json_rows, parse_json_lines, split_lines
from pril.tables.plain_rows import KEY, NOT_PLAIN, row_decoder

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]

NAME = "<stdin>"


class StreamOptions(NamedTuple):
    """What is in an answer beside the prediction and its score."""

    key: str | None = None  # a column to be copied
    chances: bool = False  # of all classes
    skip: bool = False  # a line that is wrong is answered with the error, and does not end it all


USUAL = StreamOptions()


class Answers(NamedTuple):
    """What the model says of some rows."""

    keys: list[str]  # as they are written in the answer; empty if there is no such column
    rank: Array
    score: Array
    chances: Array | None


class JsonRows:
    """One JSON object in each line, in and out."""

    def __init__(self, classes: Array, needed: list[str], options: StreamOptions = USUAL) -> None:
        self._classes = [json.dumps(ranking.plain(name), ensure_ascii=False) for name in classes]
        self._chances = [f"{json.dumps(str(name), ensure_ascii=False)}: " for name in classes]
        self._options = options
        if options.key is not None:
            self._key = json.dumps(options.key, ensure_ascii=False)
            self._decode: Any = json.loads  # which has no `key`
            with suppress(ValueError):
                self._decode = row_decoder([KEY], [options.key])

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        return b"", lines

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows of whole lines."""
        check_keys(split_lines(lines))
        return one_batch(parse_json_lines(lines, schema))

    def keys(self, lines: list[bytes]) -> list[str]:
        """Return the column to be copied, as it is written."""
        if self._options.key is None:
            return []
        return [self._read_key(line, t) for t, line in enumerate(lines)]

    def _read_key(self, line: bytes, t: int) -> str:
        try:
            return bytes(self._decode(line).key).decode()
        except (*NOT_PLAIN, AttributeError):
            with naming_rows(np.array([t])):
                return json.dumps(json_rows(line)[0].get(str(self._options.key)))

    def answer(self, answers: Answers) -> bytes:
        """Return the lines that answer some rows."""
        classes = self._classes
        pairs = zip(answers.rank.tolist(), answers.score.tolist(), strict=True)
        lines = [f'"prediction": {classes[r]}, "score": {s!r}' for r, s in pairs]
        if answers.keys:
            known = zip(answers.keys, lines, strict=True)
            lines = [f"{self._key}: {key}, {line}" for key, line in known]
        if answers.chances is not None:
            for t, row in enumerate(answers.chances.tolist()):
                said = [f"{name}{p!r}" for name, p in zip(self._chances, row, strict=True)]
                lines[t] = f'{lines[t]}, "probabilities": {{{", ".join(said)}}}'
        return ("{" + "}\n{".join(lines) + "}\n").encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers one that is wrong."""
        known = ""
        if self._options.key is not None:
            key = "null"
            with suppress(ValueError, LookupError):
                key = self._read_key(line, 0)
            known = f"{self._key}: {key}, "
        return f'{{{known}"error": {json.dumps(reason)}, "line": {number}}}\n'.encode()


class CsvRows:
    """CSV with a header, in and out; a row is one line."""

    def __init__(self, classes: Array, needed: list[str], options: StreamOptions = USUAL) -> None:
        key = options.key
        self._needed = needed if key is None else [*needed, key]
        self._classes = [_csv_line([ranking.plain(name)]) for name in classes]
        self._names: list[str] = []
        self._options = options
        chances = [f"probability of {name}" for name in classes] if options.chances else []
        self._n_chances = len(chances)
        first = [] if key is None else [key]
        last = ["error", "line"] if options.skip else []
        self._header = _csv_line([*first, "prediction", "score", *chances, *last])
        self._end = ",,\n" if options.skip else "\n"

    def header(self, lines: bytes) -> tuple[bytes, bytes]:
        """Return what to write before the answers, and the lines without their header."""
        if self._names:
            return b"", lines
        first, _, rest = lines.lstrip().partition(b"\n")
        if len(first) > LONGEST_ROW:
            raise TableError(f"{NAME}: the header is {TOO_LONG}")
        try:
            self._names = next(csv.reader([first.decode("utf-8-sig")]))
        except UnicodeDecodeError:
            raise TableError(f"{NAME}: the header is not UTF-8: {first[:60]!r}") from None
        except csv.Error as error:
            raise TableError(f"{NAME}: the header is not CSV: {error}") from None
        if len(set(self._names)) < len(self._names):
            raise TableError(f"{NAME}: the header names a column twice: {', '.join(self._names)}")
        for name in self._needed:
            if name not in self._names:
                raise TableError(f"{NAME}: {no_column(name, self._names)}")
        return f"{self._header}\n".encode(), rest

    def parse(self, lines: bytes, schema: pa.Schema) -> pa.RecordBatch:
        """Return the rows of whole lines, as text."""
        types = {name: pa.string() for name in schema.names}
        if not lines.strip():
            return one_batch(pa.schema(types).empty_table())
        few = self._parse_few(split_lines(lines), schema)
        if few is not None:
            return few
        try:
            table = pa.csv.read_csv(
                streams.BytesIO(lines),
                pa.csv.ReadOptions(use_threads=False, column_names=self._names),
                convert_options=pa.csv.ConvertOptions(
                    column_types=types,
                    include_columns=schema.names,
                    include_missing_columns=True,
                    check_utf8=False,
                ),
            )
        except pa.ArrowInvalid as error:
            self._refuse(lines)
            raise TableError(f"{NAME}: {error}") from None
        if table.num_rows != len(split_lines(lines)):  # a quoted cell goes on in the next line
            self._refuse(lines)
        return one_batch(table)

    def _parse_few(self, lines: list[bytes], schema: pa.Schema) -> pa.RecordBatch | None:
        """Return the rows of a few lines without quotes, or None: pyarrow takes long to begin."""
        if len(lines) > FEW_LINES or any(b'"' in line or b"\r" in line[:-1] for line in lines):
            return None
        try:
            rows = [line.decode().removesuffix("\r").split(",") for line in lines]
        except UnicodeDecodeError:
            return None
        if any(len(row) != len(self._names) for row in rows):
            self._refuse(b"\n".join(lines))
        known = dict(zip(self._names, zip(*rows, strict=True), strict=True))
        cells = {name: known.get(name, [None] * len(rows)) for name in schema.names}
        batch = pa.record_batch({name: pa.array(own, TEXT) for name, own in cells.items()})
        for field in schema:  # name a bad number here: the encoder takes longer
            if field.type == NUMBER:
                check_written_numbers(cells[field.name], field.name)
        return batch

    def _refuse(self, lines: bytes) -> None:
        """Raise an error for the first line that is not a whole row."""
        for row, line in enumerate(split_lines(lines)):
            shown = repr(line[:60].decode(errors="replace"))
            try:
                cells = next(csv.reader([line.decode(errors="replace")], strict=True))
            except csv.Error as error:
                raise RowError("X", row, f"not a row of CSV ({error}): {shown}") from None
            if len(cells) != len(self._names):
                reason = f"{len(cells)} cells where the header has {len(self._names)}"
                raise RowError("X", row, f"{reason}: {shown}")

    def keys(self, lines: list[bytes]) -> list[str]:
        """Return the column to be copied."""
        return [self._read_key(line) for line in lines] if self._options.key is not None else []

    def _read_key(self, line: bytes) -> str:
        cells = next(csv.reader([line.decode()]))
        return _csv_line([cells[self._names.index(str(self._options.key))]])

    def answer(self, answers: Answers) -> bytes:
        """Return the lines that answer some rows."""
        pairs = zip(answers.rank.tolist(), answers.score.tolist(), strict=True)
        lines = [f"{self._classes[r]},{s!r}" for r, s in pairs]
        if answers.keys:
            lines = [f"{key},{line}" for key, line in zip(answers.keys, lines, strict=True)]
        if answers.chances is not None:
            for t, row in enumerate(answers.chances.tolist()):
                lines[t] = ",".join([lines[t], *map(repr, row)])
        return "".join([f"{line}{self._end}" for line in lines]).encode()

    def refusal(self, line: bytes, number: int, reason: str) -> bytes:
        """Return the line that answers one that is wrong."""
        first = ""
        if self._options.key is not None:
            with suppress(ValueError, LookupError, csv.Error, StopIteration):
                first = self._read_key(line)
            first += ","
        empty = "," * (2 + self._n_chances)
        return f"{first}{empty}{_csv_line([reason, number])}\n".encode()


def _csv_line(cells: list[Any]) -> str:
    """Return cells as a line of CSV, without its end."""
    text = streams.StringIO()
    csv.writer(text, lineterminator="").writerow(cells)
    return text.getvalue()
