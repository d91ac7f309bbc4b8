"""Check the quotes of CSV: pyarrow drops the rows after an unclosed one, and reads "a"b as ab."""

from __future__ import annotations

import re
from typing import IO

from pril.errors import InputError
from pril.tables.files import BOM

INSIDE = re.compile(rb'[^"]*+(?:""[^"]*+)*+')  # a quoted cell, up to its closing quote


class QuoteError(InputError):
    """A quote is not closed, or text follows a closing quote."""


class CheckedCsv:
    """A binary stream of CSV whose quotes are checked while it is read.

    A quote opens a cell only as its first byte; elsewhere in a cell without quotes it is a
    character like any other.
    """

    def __init__(self, stream: IO[bytes], delimiter: str) -> None:
        self._stream = stream
        self._ends = f"{delimiter}\r\n".encode()
        end = re.escape(self._ends)
        quoted, plain = rb'"%s"' % INSIDE.pattern, rb'[^"%s][^%s]*+' % (end, end)
        self._cells = re.compile(rb"(?:(?:%s|%s)?+[%s])*+" % (quoted, plain, end))
        self._is_inside = False  # a quoted cell
        self._rest = b""  # where it decides what comes next: the last byte
        self._lines = 0  # that have ended
        self._opened = 0  # the line of the last opening quote
        self._at_start = True
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes; at the end of the file every quote must be closed."""
        data = self._stream.read(size)
        if data:
            self._check(data)
        elif self._is_inside and self._rest != b'"':
            raise QuoteError(
                f"line {self._opened}: a quote opens a cell here, and nothing closes it"
            )
        return data

    def close(self) -> None:
        """Close the stream."""
        self.closed = True
        self._stream.close()

    def _check(self, data: bytes) -> None:
        new = data.removeprefix(BOM) if self._at_start else data
        self._at_start = False
        if b'"' in new or self._is_inside:
            self._check_cells(self._rest + new)
        else:
            self._rest = b"" if not new or new[-1] in self._ends else b"."
        self._lines += data.count(b"\n")

    def _check_cells(self, data: bytes) -> None:
        at = 0
        while True:
            if self._is_inside:
                at = self._matched(INSIDE, data, at)
                if at + 1 >= len(data):  # the next bytes tell whether this quote is the last
                    break
                if data[at + 1] not in self._ends:
                    line = self._lines + data.count(b"\n", 0, at) + 1
                    raise QuoteError(f"line {line}: text follows the closing quote of a cell")
                self._is_inside, at = False, at + 2
            at = self._matched(self._cells, data, at)
            if data[at : at + 1] != b'"':
                break
            self._opened = self._lines + data.count(b"\n", 0, at) + 1
            self._is_inside, at = True, at + 1
        self._rest = data[at : at + 1]

    @staticmethod
    def _matched(pattern: re.Pattern[bytes], data: bytes, at: int) -> int:
        """Return where a pattern, which matches any text, stops to match."""
        match = pattern.match(data, at)
        return match.end() if match else at
