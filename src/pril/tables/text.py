"""Files of text in blocks of whole rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from pathlib import PurePath
from typing import IO, Any

import pyarrow as pa

from pril.errors import RowError

READ_BYTES = 1 << 20  # read from a file at once
LONGEST_ROW = 1 << 24  # bytes of a row of text, as it is written
TOO_LONG = f"longer than {LONGEST_ROW:,} bytes, the most that a row may have"
BOM = b"\xef\xbb\xbf"
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # of compressed files, by their suffix


def codec_of(file: Any) -> str | None:
    """Return how a file is compressed, by its suffix; None if it is not."""
    return CODECS.get(PurePath(str(file)).suffix.lower())


def open_text(file: Any) -> Any:
    """Open a file, decompressed if its suffix says so."""
    stream, codec = file.open("rb"), codec_of(file)
    return pa.CompressedInputStream(stream, codec) if codec else stream


def without_marks(data: bytes) -> bytes:
    """Return bytes without the byte-order marks at their beginning."""
    while data.startswith(BOM):
        data = data[len(BOM) :]
    return data


def whole_lines(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Return pieces of text in blocks of whole lines, each as soon as its last line has ended.

    A line that is too long comes alone, as its first LONGEST_ROW + 1 bytes; the rest is dropped.
    """
    parts: list[bytes] = []  # of a line that has not ended
    held = 0  # bytes of it
    for data in pieces:
        if held + len(data) > LONGEST_ROW:
            line, newline, following = data.partition(b"\n")
            if held + len(line) > LONGEST_ROW:
                if held <= LONGEST_ROW:
                    yield b"".join([*parts, line])[: LONGEST_ROW + 1] + b"\n"
                data, parts, held = following, [], 0 if newline else LONGEST_ROW + 1
        end = data.rfind(b"\n") + 1
        if end:
            yield b"".join([*parts, data[:end]])
            parts, held = [], 0
        if end < len(data):
            parts.append(data[end:])
            held += len(data) - end
    if parts:
        yield b"".join(parts) + b"\n"


def line_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Return the bytes of a stream in blocks of whole lines.

    A line that is too long is a RowError about the first row after those that were returned.
    """
    pieces = iter(lambda: stream.read(READ_BYTES), b"")
    first = without_marks(next(pieces, b""))
    for block in whole_lines(chain([first], pieces)):
        if block.find(b"\n", 0, LONGEST_ROW + 1) < 0:
            raise RowError("X", 0, TOO_LONG)
        yield block


@cache
def _csv_patterns(delimiter: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes], re.Pattern[bytes]]:
    """Return patterns of whole cells, of one whole row, and of a quoted cell with text after it."""
    mark = re.escape(delimiter.encode())
    quoted, ends = rb'"[^"]*+(?:""[^"]*+)*+"', rb"%s\r\n" % mark
    cell = rb'(?:%s|[^"%s][^%s]*+)?+' % (quoted, ends, ends)
    return (
        re.compile(rb"(?:%s(?:%s|([\r\n])))*+" % (cell, mark)),  # the group is the end of a row
        re.compile(rb"(?:%s%s)*+%s[\r\n]" % (cell, mark, cell)),
        re.compile(rb'%s[^"%s]' % (quoted, ends)),
    )


def _read_bytes(stream: IO[bytes], size: int, is_header: bool) -> bytes:
    """Read some bytes; if they cannot be decoded, say whether that is in the header."""
    try:
        return stream.read(size)
    except RowError as error:
        reason = f"in the header, {error.reason}" if is_header else error.reason
        raise RowError("X", 0, reason, hint=error.hint) from None


def csv_blocks(stream: IO[bytes], delimiter: str) -> Iterator[bytes]:
    """Return the header of a CSV file, then its rows in blocks of whole rows.

    pyarrow drops the rows after a quote that nothing closes, and reads "a"b as ab: both are refused
    here. A quote opens a cell only as its first byte; elsewhere it is a character like any other.
    """
    cells, one_row, text_after = _csv_patterns(delimiter)
    rest, size, is_header, data = b"", READ_BYTES, True, b"\n"
    while data:
        data = _read_bytes(stream, size, is_header)
        rest = without_marks(rest + data) if is_header else rest + data
        end, bad = 1 + max(rest.rfind(b"\n"), rest.rfind(b"\r")), None
        if b'"' in rest and (match := cells.match(rest)):
            end, bad = max(0, match.end(1)), text_after.match(rest, match.end())
        if len(rest) > LONGEST_ROW or (is_header and end):
            first = one_row.match(rest)
            length = first.end() if first else len(rest)
            if length > LONGEST_ROW + 1:
                raise RowError("X", 0, f"the {'header' if is_header else 'row'} is {TOO_LONG}")
            if is_header and first:
                yield rest[:length]
                # Each block costs some time for each column: those of wide tables are larger.
                is_header, size = False, min(max(READ_BYTES, 64 * length), 4 * LONGEST_ROW)
                rest, end = rest[length:], end - length
        if end:
            yield rest[:end]
            rest = rest[end:]
        if bad:
            raise RowError("X", 0, "text follows the closing quote of a cell")
    if rest:
        if not one_row.match(rest + b"\n"):
            raise RowError("X", 0, "a quote opens a cell in this row, and nothing closes it")
        yield rest + b"\n"
