"""How CSV is written: what separates cells, how numbers look, and the encoding of the text."""

from __future__ import annotations

import codecs
from contextlib import suppress
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from pril.core.arrays import Array
from pril.core.brackets import GROUPS, check_marks
from pril.errors import InputError, RowError, shown
from pril.tables.cells import FIRST_GROUP, GROUP, POINT_NUMBER, read_numbers

# isort: split
import pyarrow as pa  # after `cells`, which says what to install if pyarrow is missing
import pyarrow.compute as pc

UTF8 = "utf-8"


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

    def decoded(self, stream: Any) -> Any:
        """Return a stream with the same text as UTF-8."""
        return stream if self.is_utf8 else Transcoded(stream, self.encoding)

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
        groups, number = _patterns(self.decimal, self.thousands)
        is_number = pc.fill_null(pc.match_substring_regex(trimmed, number), False)
        others = pc.and_not(pc.match_substring_regex(trimmed, POINT_NUMBER), is_number)
        row = pc.index(others, True).as_py()
        if row >= 0:
            marks = f"the decimal mark {self.decimal!r}"
            marks += f" and {self.thousands!r} between thousands" if self.thousands else ""
            reason = f"column {name!r} is {shown(cells[row].as_py())}, not a number with {marks}"
            raise RowError("X", row, reason, hint="decimal")
        numbers = trimmed.filter(is_number)
        if groups:
            numbers = pc.replace_substring_regex(numbers, groups, "")
        numbers = pc.replace_substring(numbers, self.decimal, ".")
        return pc.replace_with_mask(cells, is_number, numbers)

    def read_numbers(self, cells: pa.Array, name: str) -> Array:
        """Return text as floats, NaN for what is missing."""
        return read_numbers(self.with_points(cells, name), name)

    def write_numbers(self, cells: pa.Array) -> pa.Array:
        """Return numbers as text."""
        return pc.replace_substring(pc.cast(cells, pa.large_string()), ".", self.decimal)


USUAL_CSV = CsvStyle()


@cache
def _patterns(decimal: str, thousands: str) -> tuple[str, str]:
    """Return patterns of what separates groups, if anything does, and of a number.

    A number with groups has no exponent.
    """
    mark = f"[{decimal}]"
    number = f"([0-9]+({mark}[0-9]*)?|{mark}[0-9]+)([eE][+-]?[0-9]+)?"
    groups = f"[{GROUPS[thousands]}]" if thousands else ""
    if groups:
        number += f"|{FIRST_GROUP}({groups}{GROUP})+({mark}[0-9]*)?"
    return groups, f"^[+-]?({number})$"


class Transcoded:
    """The bytes of a stream of another encoding, as UTF-8.

    What cannot be decoded is a RowError about the row after those that were returned.
    """

    def __init__(self, stream: Any, encoding: str) -> None:
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
                self._error = undecodable(error, self._encoding)
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


def undecodable(error: UnicodeError, encoding: str) -> str:
    """Return what to say of bytes that cannot be decoded."""
    if isinstance(error, UnicodeDecodeError):
        return f"it has the bytes {shown(error.object[error.start : error.end])}, not {encoding}"
    return f"it is not {encoding}: {error}"
