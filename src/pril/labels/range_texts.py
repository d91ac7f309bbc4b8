"""Ranges of classes as people write them: "3-4", "at least good", "B or better"."""

from __future__ import annotations

import re
from collections.abc import Iterable

import numpy as np

from pril.core.arrays import NO_LABEL, Array, Ranks, named, plain
from pril.errors import RowError, shown
from pril.labels.brackets import is_range

# A finite number in text, the same wherever text is read: no marks but a point, no other base.
NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
# Words and signs between the two classes of a range, and beside the one class of an open range.
BETWEEN = re.compile(r"-|\u2013|\u2014|\.\.+|\bto\b|\bor\b", re.IGNORECASE)
OPENING = {
    "at least": re.compile(
        r"(?:>=|\u2265|at least )(.+)|(.+?)(?:\+| or (?:more|higher|better))", re.I
    ),
    "at most": re.compile(r"(?:<=|\u2264|at most |up to )(.+)|(.+) or (?:less|lower|worse)", re.I),
    "above": re.compile(r"(?:>|above |over |more than |better than )(.+)", re.I),
    "below": re.compile(r"(?:<|below |under |less than |worse than )(.+)", re.I),
}


class ClassTexts:
    """The classes, looked up by how people write them."""

    def __init__(self, classes: Array) -> None:
        self.classes = classes
        self.are_numbers = classes.dtype.kind in "biuf"
        names = [plain(name) for name in classes]
        self.fold = len({str(name).casefold() for name in names}) == len(names)
        self.ranks = {self.key(name): r for r, name in enumerate(names)}

    def key(self, name: str | float) -> str | float | None:
        """Return a text in the form in which spellings are compared."""
        if self.are_numbers:
            is_number = not isinstance(name, str) or re.fullmatch(NUMBER, name.strip())
            return float(name) if is_number else None
        name = " ".join(str(name).split())
        return name.casefold() if self.fold else name

    def rank(self, text: str) -> int | None:
        """Return the rank of the class that a text names, None if it names none."""
        return self.ranks.get(self.key(text))

    def intervals(self, texts: Iterable[str]) -> Ranks:
        """Return the lowest and the highest rank that each text means; refuse other texts.

        Empty text means no label.
        """
        read: dict[str, tuple[int, int]] = {"": NO_LABEL}
        intervals = []
        for t, text in enumerate(texts):
            text = " ".join(text.split())
            if text not in read:
                interval = self.interval(text)
                if interval is None:
                    reason = f"{shown(text)} is neither one of the classes {named(self.classes)}"
                    raise RowError("y", t, f"{reason} nor a range of them")
                read[text] = interval
            intervals.append(read[text])
        return np.array(intervals, dtype=np.int64).reshape(-1, 2)

    def interval(self, text: str) -> tuple[int, int] | None:
        """Return the lowest and the highest rank that a text means; None if it means nothing."""
        rank, top = self.rank(text), len(self.ranks) - 1
        if rank is not None:
            return rank, rank
        kind, ranks = self.taken_apart(text)
        if not ranks:
            return None
        if len(ranks) == 2:
            low, high = sorted(ranks) if kind == "or" else ranks
        else:
            low = {"at least": ranks[0], "above": ranks[0] + 1}.get(kind, 0)
            high = {"at most": ranks[0], "below": ranks[0] - 1}.get(kind, top)
        return (low, high) if low <= high else None

    def taken_apart(self, text: str) -> tuple[str, list[int]]:
        """Return how a text makes a range, and the ranks of its classes; none if it is no range.

        How is one of the kinds of `OPENING`, or what stands between two classes.
        """
        for kind, form in OPENING.items():
            match = form.fullmatch(text)
            rank = self.rank(match[match.lastindex or 0]) if match else None
            if rank is not None:
                return kind, [rank]
        for between in BETWEEN.finditer(text):  # a class may have a hyphen, too
            first, last = self.rank(text[: between.start()]), self.rank(text[between.end() :])
            if first is not None and last is not None:
                return between[0].lower(), [first, last]
        return "", []


# --- Classes that read as ranges -----------------------------------------------------------------

BOUND = re.compile(r"at (?:least|most) .+", re.IGNORECASE)  # of a class, even if no label is it


def ranges_among(names: Iterable[str]) -> set[str]:
    """Return the names of classes, found in labels, that read as ranges or bounds.

    These are ranges of numbers as `parse` reads them, such as 3-4 or 65+, and ranges of the
    other names as `ClassTexts` reads them, such as "fair to good".
    """
    texts = {name: " ".join(name.split()) for name in names}
    classes = ClassTexts(np.array(sorted(set(texts.values()) - {""}), dtype=object))
    return {name for name, text in texts.items() if _is_range(text, classes)}


def _is_range(text: str, classes: ClassTexts) -> bool:
    if BOUND.fullmatch(text) or (any(map(str.isdecimal, text)) and is_range(text)):
        return True
    kind, ranks = classes.taken_apart(text)
    # "Above average" leaves out "average", so both may be classes, and so may A+ and A.
    is_name = kind in ("above", "below") or text.endswith("+")
    return bool(ranks) and len(set(ranks)) == len(ranks) and not is_name
