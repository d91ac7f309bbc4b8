"""Ranges of classes as people write them: "3-4", "at least good", "B or better"."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from pril.core import ranking
from pril.errors import RowError, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[Any]
    Ranks = NDArray[np.int64]

# Words and signs between the two classes of a range, and beside the one class of an open range.
BETWEEN = re.compile(r"-|\u2013|\u2014|\.\.+|\bto\b|\bor\b", re.IGNORECASE)
OPEN = {
    "at least": re.compile(
        r"(?:>=|\u2265|at least )(.+)|(.+?)(?:\+| or (?:more|higher|better))", re.I
    ),
    "at most": re.compile(r"(?:<=|\u2264|at most |up to )(.+)|(.+) or (?:less|lower|worse)", re.I),
    "above": re.compile(r"(?:>|above |over |more than |better than )(.+)", re.I),
    "below": re.compile(r"(?:<|below |under |less than |worse than )(.+)", re.I),
}


class Scale:
    """The classes, looked up by how people write them."""

    def __init__(self, classes: Array) -> None:
        self.classes = classes
        self.are_numbers = classes.dtype.kind in "biuf"
        names = [ranking.plain(name) for name in classes]
        self.fold = len({str(name).casefold() for name in names}) == len(names)
        self.ranks = {self.key(name): r for r, name in enumerate(names)}

    def key(self, name: Any) -> Any:
        """Return a text in the form in which spellings are compared."""
        if self.are_numbers:
            try:
                return float(name)
            except ValueError:
                return None
        name = " ".join(str(name).split())
        return name.casefold() if self.fold else name

    def rank(self, text: str) -> int | None:
        """Return the rank of the class that a text names, None if it names none."""
        return self.ranks.get(self.key(text))

    def intervals(self, texts: Iterable[str]) -> Ranks:
        """Return the lowest and the highest rank that each text means; refuse other texts.

        Empty text means no label.
        """
        read: dict[str, tuple[int, int]] = {"": ranking.NO_LABEL}
        found = []
        for t, text in enumerate(texts):
            text = " ".join(text.split())
            if text not in read:
                interval = self.interval(text)
                if interval is None:
                    known = ranking.named(self.classes)
                    reason = f"{shown(text)} is neither one of the classes {known}"
                    raise RowError("y", t, f"{reason} nor a range of them")
                read[text] = interval
            found.append(read[text])
        return np.array(found, dtype=np.int64).reshape(-1, 2)

    def interval(self, text: str) -> tuple[int, int] | None:
        """Return the lowest and the highest rank that a text means; None if it means nothing."""
        rank, top = self.rank(text), len(self.ranks) - 1
        if rank is not None:
            return rank, rank
        for kind, form in OPEN.items():
            match = form.fullmatch(text)
            rank = self.rank(match[match.lastindex or 0]) if match else None
            if rank is not None:
                low = {"at least": rank, "above": rank + 1}.get(kind, 0)
                high = {"at most": rank, "below": rank - 1}.get(kind, top)
                return (low, high) if low <= high else None
        for between in BETWEEN.finditer(text):  # a class may have a hyphen, too
            first, last = self.rank(text[: between.start()]), self.rank(text[between.end() :])
            if first is not None and last is not None:
                if between[0].lower() == "or":
                    first, last = sorted((first, last))
                return (first, last) if first <= last else None
        return None
