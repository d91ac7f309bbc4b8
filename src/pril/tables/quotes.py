"""Check the quotes of CSV: pyarrow drops the rows after an unclosed one, and reads "a"b as ab."""

from __future__ import annotations

import re
from typing import IO

from pril.errors import InputError
from pril.tables.files import LONGEST_ROW, READ_BYTES, TOO_LONG

INSIDE = re.compile(rb'[^"]*+(?:""[^"]*+)*+')  # a quoted cell, up to its closing quote


class QuoteError(InputError):
    """A quote is not closed, text follows a closing quote, or a row is too long."""


class CheckedCsv:
    """A binary stream of CSV whose quotes, and the length of rows, are checked while it is read.

    A quote opens a cell only as its first byte; elsewhere in a cell without quotes it is a
    character like any other. All that is read at once ends a row, as pyarrow needs it.
    """

    def __init__(self, stream: IO[bytes], delimiter: str, size: int = READ_BYTES) -> None:
        self._stream = stream
        self._size = size  # of a part that is read at once
        self._ends = f"{delimiter}\r\n".encode()
        end = re.escape(self._ends)
        quoted, plain = rb'"%s"' % INSIDE.pattern, rb'[^"%s][^%s]*+' % (end, end)
        # The group is the end of a row.
        cell_end = rb"(?:%s|([\r\n]))" % re.escape(delimiter.encode())
        self._cells = re.compile(rb"(?:(?:%s|%s)?+%s)*+" % (quoted, plain, cell_end))
        self._is_inside = False  # a quoted cell
        self._rest = b""  # where it decides what comes next: the last byte
        self._lines = 0  # that have ended
        self._opened = 0  # the line of the last opening quote
        self._row_bytes = 0  # of the row that has not ended
        self._row_line = 1  # where it begins
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; at the end of the file every quote must be closed."""
        parts = []
        while data := self._stream.read(self._size):
            parts.append(data)
            if self._check(data):
                break
        if not data and self._is_inside and self._rest != b'"':
            raise QuoteError(
                f"line {self._opened}: a quote opens a cell here, and nothing closes it"
            )
        return b"".join(parts)

    def close(self) -> None:
        """Close the stream."""
        self.closed = True
        self._stream.close()

    def _check(self, data: bytes) -> bool:
        """Check some bytes; tell whether a row ends among them."""
        # The row goes on at least to the first line end, which may be inside quotes.
        found = [data.find(b"\n"), data.find(b"\r")]
        first = min([at for at in found if at >= 0], default=len(data))
        if self._row_bytes + first > LONGEST_ROW:
            raise QuoteError(f"line {self._row_line}: the row is {TOO_LONG}")
        if b'"' in data or self._is_inside:
            after = self._check_cells(self._rest + data)
        else:
            self._rest = b"" if data[-1] in self._ends else b"."
            after = len(data) - max(data.rfind(b"\n"), data.rfind(b"\r")) - 1
        ends = after < len(data)
        if ends:
            self._row_bytes = 0
            self._row_line = self._lines + data.count(b"\n", 0, len(data) - after) + 1
        self._row_bytes += after if ends else len(data)
        self._lines += data.count(b"\n")
        return ends

    def _check_cells(self, data: bytes) -> int:
        """Return how many bytes follow the last end of a row; all, if none ends."""
        at = row = 0
        while True:
            if self._is_inside:
                at = self._matched(INSIDE, data, at)
                if at + 1 >= len(data):  # the next bytes tell whether this quote is the last
                    break
                if data[at + 1] not in self._ends:
                    line = self._lines + data.count(b"\n", 0, at) + 1
                    raise QuoteError(f"line {line}: text follows the closing quote of a cell")
                self._is_inside, at = False, at + 2
                row = at if data[at - 1] in b"\r\n" else row
            match = self._cells.match(data, at)
            row, at = (max(row, match.end(1)), match.end()) if match else (row, at)
            if data[at : at + 1] != b'"':
                break
            self._opened = self._lines + data.count(b"\n", 0, at) + 1
            self._is_inside, at = True, at + 1
        self._rest = data[at : at + 1]
        return len(data) - row

    @staticmethod
    def _matched(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
        """Return where a pattern, which matches any text, stops to match."""
        match = pattern.match(data, at)
        return match.end() if match else at
