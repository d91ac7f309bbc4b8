"""Files of text in blocks of whole rows, and how CSV is written: cells, numbers, encoding."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from itertools import chain
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct
from msgspec.structs import asdict

from pril.core.arrays import Array
from pril.errors import InputError, RowError, shown
from pril.labels.brackets import check_marks
from pril.tables import arrow

# isort: split
import pyarrow as pa  # after `arrow`, which says what to install if pyarrow is missing
import pyarrow.compute as pc

if TYPE_CHECKING:
    from pril.tables.files import TableFile

UTF8 = "utf-8"
READ_BYTES = 1 << 20  # read from a file at once
LONGEST_ROW = 1 << 24  # bytes of a row of text, as it is written
TOO_LONG = f"longer than {LONGEST_ROW:,} bytes, the most that a row may have"
BOM = b"\xef\xbb\xbf"
CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # of compressed files, by their suffix


class ByteStream(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return about that many bytes, none at the end."""

    def close(self) -> None:
        """Close it."""


def codec_of(file: TableFile | PurePath) -> str | None:
    """Return how a file is compressed, by its suffix; None if it is not."""
    return CODECS.get(PurePath(str(file)).suffix.lower())


def open_text(file: TableFile, style: CsvStyle) -> ByteStream:
    """Open a file, decompressed if its suffix says so, as UTF-8."""
    stream, codec = file.open("rb"), codec_of(file)
    stream = pa.CompressedInputStream(stream, codec) if codec else stream
    return stream if style.is_utf8 else Transcoded(stream, style.encoding)


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


def line_blocks(stream: ByteStream) -> Iterator[bytes]:
    """Return the bytes of a stream in blocks of whole lines.

    A line that is too long raises a RowError about the first row after those that were returned.
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


def _read_bytes(stream: ByteStream, size: int, is_header: bool) -> bytes:
    """Read some bytes; if they cannot be decoded, say whether that is in the header."""
    try:
        return stream.read(size)
    except RowError as error:
        reason = f"in the header, {error.reason}" if is_header else error.reason
        raise RowError("X", 0, reason, hint=error.hint) from None


def csv_blocks(stream: ByteStream, delimiter: str) -> Iterator[bytes]:
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


# --- How CSV is written --------------------------------------------------------------------------


class CsvStyle(Struct, frozen=True):
    """How cells, numbers and text are written; the defaults are those of most programs."""

    delimiter: str = ","
    decimal: str = "."
    thousands: str = ""  # none
    encoding: str = UTF8

    def __post_init__(self) -> None:
        mark = self.delimiter
        if len(mark) != 1 or not mark.isascii() or mark in '"\r\n\0':
            raise InputError(f"delimiter {mark!r}: expected one ASCII character, such as ';'")
        check_marks(self.decimal, self.thousands)
        try:
            "".encode(self.encoding)
            codecs.getincrementaldecoder(self.encoding)()
        except (LookupError, TypeError, ValueError):
            name = shown(self.encoding)
            raise InputError(
                f"encoding {name}: it is unknown; expected one such as 'cp1252' or 'utf-16'"
            ) from None

    def to_note(self) -> dict[str, str] | None:
        """Return the style as a model file keeps it; None for the usual one."""
        return None if self == USUAL_CSV else asdict(self)

    @property
    def is_utf8(self) -> bool:
        """Whether text is read as it is."""
        return codecs.lookup(self.encoding).name == UTF8

    @property
    def has_points(self) -> bool:
        """Whether numbers are written as everywhere else: with a point, and without groups."""
        return self.decimal == "." and not self.thousands

    # --- Numbers ---

    def with_points(self, cells: pa.Array, name: str) -> pa.Array:
        """Return text with its numbers written with a point, and without groups of digits.

        What is not a number stays. A number of another style is refused, since it would be misread.
        """
        if self.has_points:
            return cells
        trimmed = pc.ascii_trim_whitespace(cells)
        groups, number = arrow.number_patterns(self.decimal, self.thousands)
        is_number = pc.fill_null(pc.match_substring_regex(trimmed, number), False)
        others = pc.and_not(pc.match_substring_regex(trimmed, arrow.POINT_NUMBER), is_number)
        row = pc.index(others, True).as_py()
        if row >= 0:
            marks = f"the decimal mark {self.decimal!r}"
            marks += f" and {self.thousands!r} between thousands" if self.thousands else ""
            reason = f"column {name!r} is {shown(cells[row].as_py())}, not a number with {marks}"
            raise RowError("X", row, reason, hint=arrow.hint_of_marks(trimmed))
        numbers = trimmed.filter(is_number)
        if groups:
            numbers = pc.replace_substring_regex(numbers, groups, "")
        numbers = pc.replace_substring(numbers, self.decimal, ".")
        return pc.replace_with_mask(cells, is_number, numbers)

    def read_numbers(self, cells: pa.Array, name: str) -> Array:
        """Return text as floats, NaN for what is missing."""
        return arrow.read_numbers(self.with_points(cells, name), name)


USUAL_CSV = CsvStyle()


class Transcoded:
    """The bytes of a stream of another encoding, as UTF-8.

    What cannot be decoded raises a RowError about the row after those that were returned.
    """

    def __init__(self, stream: ByteStream, encoding: str) -> None:
        self._stream, self._encoding = stream, encoding
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._error: str | None = None

    def read(self, size: int) -> bytes:
        """Return about that many bytes, or what comes before bytes that cannot be decoded."""
        while self._error is None:
            data = self._stream.read(size)
            before = self._decoder.getstate()
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeError as error:
                self._error = f"it is not {self._encoding}: {error}"
                if isinstance(error, UnicodeDecodeError):
                    bad = shown(error.object[error.start : error.end])
                    self._error = f"it has the bytes {bad}, not {self._encoding}"
                self._decoder.setstate(before)
                text = self._start_of(data)
            if text or (not data and self._error is None):
                return text.encode(errors="surrogatepass")
        raise RowError("X", 0, self._error, hint="encoding")

    def _start_of(self, data: bytes) -> str:
        """Return what can be decoded, up to the bytes that cannot."""
        parts = []
        with suppress(UnicodeError):
            for byte in data:
                parts.append(self._decoder.decode(bytes([byte])))
        return "".join(parts)

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()
