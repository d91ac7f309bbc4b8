"""Order of classes, and labels as intervals of ranks.

Everything behind this module sees a label as two ranks, ``lo <= hi`` in ``0..K-1``: an exact label
has ``lo == hi``, "at least" has ``hi == K - 1``. So nothing else in the package asks whether a
label is exact. A row without a label has `NO_LABEL`.

A table of labels is read once (`read`), the order of the classes is the user's or taken from the
table (`order_classes`), and `to_intervals` looks the values up. `encode` is all three.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pril.core.arrays import Array, Ranks
from pril.core.label_values import NO_LABEL as NO_LABEL
from pril.core.label_values import Labels as Labels
from pril.core.label_values import distinct as distinct
from pril.core.label_values import is_missing as is_missing
from pril.core.label_values import is_range as is_range
from pril.core.label_values import join as join
from pril.core.label_values import named as named
from pril.core.label_values import plain as plain
from pril.core.label_values import read as read
from pril.core.label_values import stack as stack
from pril.errors import ClassOrderWarning, InputError, InputTypeError, RowError, shown

UNKNOWN = -2  # the rank of a value that is not among the classes
MOST_TRIMMED = 0.5  # share of the votes that may be left out at each end


# --- Order and ranks -----------------------------------------------------------------------------


def check_classes(classes: Any, *, name: str = "classes") -> Array:
    """Return the classes a user gave, lowest first, as an array."""
    given = read(classes, name=name, columns=(1,))
    values = given.values[:, 0]
    if len(values) == 0:
        raise InputError(f"{name} is empty: name at least one class, lowest first")
    if given.missing().any():
        t = int(np.flatnonzero(given.missing())[0])
        raise InputError(f"{name}, entry {t}: a class cannot be missing")
    _, first, count = np.unique(values, return_index=True, return_counts=True)
    if (count > 1).any():
        t = int(first[count > 1].min())
        raise InputError(f"{name} names {given.row(t)!r} more than once: {named(classes)}")
    if given.vocabulary is not None:
        return given.vocabulary[values]
    return values.astype(given.dtype)


def order_classes(*tables: Labels, name: str = "y") -> Array:
    """Return the classes of label tables, lowest first: declared order, else ascending."""
    labels = tables[0]
    if labels.vocabulary is not None and labels.declared:
        if labels.ordered:
            return labels.vocabulary
        if len(labels.vocabulary) > 2:
            raise InputError(
                f"{name} is an unordered Categorical with {len(labels.vocabulary)} categories "
                f"{named(labels.vocabulary)}: make it ordered, or pass classes=, lowest first"
            )
    found = [(table, table.seen()) for table in tables]
    spoken = [table for table, seen in found if seen.size]
    if not spoken:
        raise InputError(f"every label in {name} is missing: pass classes=, lowest first")
    if len({table.vocabulary is None for table in spoken}) > 1:
        raise InputTypeError(f"{name} and y_pred must both be numbers or both be strings")
    classes = np.unique(np.concatenate([seen for _, seen in found if seen.size]))
    if spoken[0].vocabulary is None:
        _refuse_fractions(tables, name)
        return classes.astype(np.result_type(*(table.dtype for table in spoken)))
    if is_range(classes[0]):
        _check_apart(spoken[0], classes, name)
    elif isinstance(classes[0], str):
        _refuse_texts(tables, ranges_among(classes.tolist()), name)
    if isinstance(classes[0], str) and len(classes) > 2 and not are_numbered(classes):
        sorting = f"were sorted as strings, {named(classes)}"
        advice = "pass classes= to say which order they have, lowest first"
        message = f"the classes of {name} {sorting}: {advice}"
        warnings.warn(ClassOrderWarning(message, f"the classes {sorting}"), stacklevel=2)
    return classes


def _refuse_fractions(tables: tuple[Labels, ...], name: str) -> None:
    """Refuse the first label that is not a whole number."""
    for table, argument in zip(tables, (name, "y_pred"), strict=False):
        is_fraction = (table.values % 1 > 0).any(axis=1)
        if is_fraction.any():
            t = int(np.argmax(is_fraction))
            reason = f"Unknown label type: continuous. {table.row(t)!r} is not a whole number"
            raise RowError(argument, t, reason, table.place(t), hint="classes")


def _refuse_texts(tables: tuple[Labels, ...], ranges: set[str], name: str) -> None:
    """Refuse the first label that is one of the given texts, which read as ranges of classes."""
    for table, argument in zip(tables, (name, "y_pred"), strict=False):
        words = [] if table.vocabulary is None else table.vocabulary.tolist()
        found = np.array([*(word in ranges for word in words), False])[table.values].any(axis=1)
        if found.any():
            t = int(np.argmax(found))
            text = next(cell for cell in table.cells(t) if cell in ranges)
            reason = f"{shown(text)} reads as a range, not as a class"
            raise RowError(argument, t, reason, table.place(t), hint="ranges")


def numbered(classes: Array) -> list[str]:
    """Return the name of each class with its rank before it: sorted as strings, they are in order.

    Meta-estimators sort labels; these names keep their order.
    """
    width = len(str(len(classes) - 1))
    return [f"{rank:0{width}}: {plain(label)}" for rank, label in enumerate(classes)]


def are_numbered(classes: Array) -> bool:
    """Tell whether classes are names that `numbered` made."""
    found = [re.match("[0-9]+: ", str(name)) for name in classes]
    ranks = {rank.group() for rank in found if rank}
    return len(ranks) == len(classes) and len(set(map(len, ranks))) == 1


def _check_apart(labels: Labels, ranges: Array, name: str) -> None:
    """Refuse ranges of numbers, ascending, that overlap: they are not the classes."""
    for lower, upper in pairwise(ranges):
        if lower.overlaps(upper):
            t = next(t for t in range(len(labels.values)) if upper in labels.cells(t))
            reason = f"{shown(upper)} overlaps {shown(lower)}"
            raise RowError(name, t, reason, labels.place(t), hint="bounds")


def same_order(labels: Labels, classes: Array) -> bool:
    """Tell whether an ordered vocabulary has the classes it shares in their order."""
    vocabulary = np.empty(0) if labels.vocabulary is None else labels.vocabulary
    rank = {plain(value): r for r, value in enumerate(classes)}
    shared = [rank[plain(word)] for word in vocabulary if plain(word) in rank]
    return shared == sorted(shared)


def to_intervals(
    labels: Labels, classes: Array, *, name: str = "y", allow_unknown: bool = False
) -> Ranks:
    """Return each row's lowest and highest rank.

    A row without a label has the interval `NO_LABEL`. A label that ends before it begins is
    refused, and so is a value that is not among the classes, unless `allow_unknown`: its rank is
    then `UNKNOWN`.
    """
    ranks = _rank(labels, classes)
    if labels.may_be_missing():
        missing = labels.missing()
        if missing.any():
            ranks = np.where(missing, (0, len(classes) - 1), ranks)
    ranks = np.ascontiguousarray(ranks if ranks.shape[1] == 2 else np.repeat(ranks, 2, axis=1))
    _check_ranks(ranks, labels, classes, name=name, allow_unknown=allow_unknown)
    if labels.may_be_missing():
        ranks[~labels.labelled()] = NO_LABEL
    return ranks


def is_labelled(intervals: Ranks) -> NDArray[np.bool_]:
    """Return which intervals are those of a label."""
    return intervals[:, 0] <= intervals[:, 1]


def _rank(labels: Labels, classes: Array) -> Ranks:
    """Return the rank of each value, `UNKNOWN` where it is missing or not among the classes."""
    n_classes = len(classes)
    values = labels.values
    if labels.vocabulary is not None or classes.dtype.kind not in "biuf":
        ranks = _look_up(labels, classes)
    elif _is_contiguous(classes):
        first = int(classes[0])
        if values.dtype.kind == "f":
            rank = values - first
            inside = (rank >= 0) & (rank < n_classes) & (values == np.floor(values))
            ranks = np.where(inside, rank, UNKNOWN).astype(np.int64)
        else:
            ranks = np.ascontiguousarray(values - first if first else values)
            # As unsigned, negative ranks are huge: one comparison finds all unknown labels.
            if ranks.size and ranks.view(np.uint64).max() >= n_classes:
                ranks = np.where((ranks >= 0) & (ranks < n_classes), ranks, UNKNOWN)
    else:
        order = np.argsort(classes)
        at = np.minimum(np.searchsorted(classes, values, sorter=order), n_classes - 1)
        ranks = np.where(classes[order[at]] == values, order[at], UNKNOWN)
    return ranks


def _look_up(labels: Labels, classes: Array) -> Ranks:
    if labels.vocabulary is None:  # numbers, while the classes are strings
        return np.full(labels.values.shape, UNKNOWN, dtype=np.int64)
    vocabulary = labels.vocabulary.tolist()
    wanted = set(vocabulary)  # far fewer than the classes may be
    rank = {value: r for r, value in enumerate(classes.tolist()) if value in wanted}
    words = [rank.get(word, UNKNOWN) for word in vocabulary]
    return np.array([*words, UNKNOWN], dtype=np.int64)[labels.values]


def _is_contiguous(classes: Array) -> bool:
    """Tell whether the classes are whole numbers, each one more than the last."""
    first, last, n = classes[0].item(), classes[-1].item(), len(classes)
    if not float(first).is_integer() or last - first != n - 1:
        return False
    if n <= 100:  # faster than NumPy
        return bool(classes.tolist() == [*range(int(first), int(first) + n)])
    return bool((classes == np.arange(int(first), int(first) + n)).all())


def _check_ranks(
    ranks: Ranks, labels: Labels, classes: Array, *, name: str, allow_unknown: bool
) -> None:
    unknown = (ranks == UNKNOWN).any(axis=1) if len(ranks) and ranks.min() == UNKNOWN else None
    backwards = ranks[:, 0] > ranks[:, 1]
    if unknown is not None:
        backwards &= ~unknown
    wrong = backwards if unknown is None or allow_unknown else backwards | unknown
    if not wrong.any():
        return
    t = int(np.argmax(wrong))
    if backwards[t]:
        lower, upper = labels.row(t)
        reason = f"lower end {shown(lower)} is above upper end {shown(upper)}"
        raise RowError(name, t, reason, labels.place(t))
    column = int(np.argmax(ranks[t] == UNKNOWN))
    value = labels.cell(t, min(column, labels.values.shape[1] - 1))
    reason = f"{shown(value)} is not one of the classes {named(classes)}"
    hint = "ranks" if _are_ranks(labels, classes) else "bounds" if is_range(value) else None
    raise RowError(name, t, reason, labels.place(t), hint)


def _are_ranks(labels: Labels, classes: Array) -> bool:
    """Tell whether labels look as if a meta-estimator had numbered them.

    These are whole numbers in place of words, or in 0..K-1 in place of other numbers.
    """
    values = labels.values
    if labels.vocabulary is not None or values.dtype.kind == "f":
        return False
    is_worded = classes.dtype.kind not in "biuf"
    return is_worded or bool((values >= 0).all() and (values < len(classes)).all())


def check_length(labels: Any, rows: Any, *, name: str = "y", other: str = "X") -> None:
    """Refuse labels that are more or fewer than the rows."""
    if len(labels) != len(rows):
        raise InputError(
            f"{other} and {name} have inconsistent numbers of samples: {other} has {len(rows)} "
            f"rows, {name} has {len(labels)} labels"
        )


def require_labels(labels: Labels, *, name: str = "y") -> None:
    """Refuse a table of exact labels with a gap."""
    missing = labels.missing()
    if missing.any():
        raise RowError(name, int(np.argmax(missing)), "the label is missing")


def find_classes(labels: Labels, classes: Any = None, *, name: str = "y") -> Array:
    """Return the classes that were given or, without any, those of the labels, lowest first."""
    if classes is None:
        return order_classes(labels, name=name)
    given = check_classes(classes)
    warn_of_order(labels, given, name=name)
    return given


def agreed_classes(table: Labels, known: Array | None, given: list[Any], skip: Any) -> Array:
    """Return the classes of a model that goes on learning, lowest first.

    Those known before, those named now and the order of a Categorical must be the same; `skip` is
    an object that was compared before.
    """
    for classes in (check_classes(one) for one in given if one is not skip):
        if known is not None and not np.array_equal(classes, known):
            raise InputError(
                f"classes must stay the same: {named(known)} were set before, now they are "
                f"{named(classes)}"
            )
        known = classes
    if known is not None and given:
        warn_of_order(table, known)
    elif table.ordered:
        if known is None:
            known = table.vocabulary
        elif not same_order(table, known):
            raise InputError(
                f"y is a Categorical ordered {named(table.vocabulary)}, against the classes "
                f"{named(known)} set before"
            )
    if known is None:
        raise InputError(
            "classes must be passed on the first call to partial_fit, lowest first (or set "
            "classes on the estimator, or pass y as an ordered Categorical)"
        )
    return known


def warn_of_order(labels: Labels, classes: Array, *, name: str = "y") -> None:
    """Warn if labels have an order of their own that contradicts the classes given."""
    if labels.ordered and not same_order(labels, classes):
        reason = f"{name} is a Categorical ordered {named(labels.vocabulary)}"
        message = f"{reason}, against classes={named(classes)}, which is used"
        warnings.warn(ClassOrderWarning(message), stacklevel=3)


def encode(labels: Labels, classes: Any = None, *, name: str = "y") -> tuple[Array, Ranks]:
    """Return the classes, lowest first, and each row's interval of ranks."""
    order = find_classes(labels, classes, name=name)
    intervals = to_intervals(labels, order, name=name)
    if classes is None and not labels.declared:
        _warn_of_gaps(labels, intervals, order, name)
    return order, intervals


def constraints(intervals: Ranks, n_classes: int) -> Ranks:
    """Return the side of each threshold that each label asks for: 1 above, -1 below, 0 either."""
    threshold = np.arange(n_classes - 1)
    return (threshold < intervals[:, :1]).astype(np.int64) - (threshold >= intervals[:, 1:])


def interval_loss(intervals: Ranks, rank: Ranks) -> Ranks:
    """Return by how many ranks each prediction misses its interval (the paper's L_I^MAE).

    The loss of a row without a label is 0.
    """
    loss: Ranks = np.maximum(np.maximum(intervals[:, 0] - rank, rank - intervals[:, 1]), 0)
    loss[~is_labelled(intervals)] = 0
    return loss


def _warn_of_gaps(labels: Labels, ranks: Ranks, classes: Array, name: str) -> None:
    """Warn if labels that the classes were taken from speak of more classes than were seen."""
    if labels.values.shape[1] == 1:
        return
    doubtful = np.zeros(len(ranks), dtype=bool)
    if labels.may_be_missing():
        doubtful = labels.missing().sum(axis=1) == 1
    if labels.vocabulary is None:
        spans = labels.values[:, 1] - labels.values[:, 0]  # NaN where an end is missing
        doubtful |= spans > ranks[:, 1] - ranks[:, 0]
    if doubtful.any():
        t = int(np.argmax(doubtful))
        reason = (
            f"{labels.row(t)!r} may include classes that never occur as an end; the classes were "
            f"taken to be {named(classes)}"
        )
        message = f"{name}, {labels.place(t)}: {reason}: pass classes= to name them all"
        warnings.warn(ClassOrderWarning(message, reason), stacklevel=3)


def labels_of(intervals: Ranks, classes: Array) -> Labels:
    """Return intervals of ranks as labels, both ends missing where there is no label."""
    silent = ~is_labelled(intervals)[:, np.newaxis]
    if classes.dtype.kind not in "biuf":
        return Labels(np.where(silent, -1, intervals), classes.dtype, classes)
    values = classes[np.where(silent, 0, intervals)]
    return Labels(np.where(silent, np.nan, values) if silent.any() else values, classes.dtype)


# --- Votes and bounds ----------------------------------------------------------------------------


def rank_votes(
    votes: Labels, classes: Array, *, name: str = "votes", raters: Sequence[str] = ()
) -> Ranks:
    """Return the rank of each vote: the number of classes where there is none.

    A vote that is not one of the classes is refused; `raters` are the names of the columns.
    """
    ranks, missing = _rank(votes, classes), votes.missing()
    unknown = (ranks == UNKNOWN) & ~missing
    if unknown.any():
        t, rater = divmod(int(np.argmax(unknown)), ranks.shape[1])
        place = f"column {raters[rater]!r}: " if raters else ""
        said = f"{shown(votes.cell(t, rater))} is not one of the classes {named(classes)}"
        raise RowError(name, t, f"{place}{said}", votes.place(t))
    return np.where(missing, len(classes), ranks)


def between_votes(ranks: Ranks, n_classes: int, trim: float) -> Ranks:
    """Return the interval of each row, from the lowest to the highest vote that is not left out."""
    # Votes that were cast come first, in order; this many are left out at each end.
    ranks = np.sort(ranks, axis=1)
    n_votes = np.sum(ranks < n_classes, axis=1)
    skipped = np.floor(trim * np.maximum(n_votes - 1, 0)).astype(np.int64)
    rows = np.arange(len(ranks))
    lower = ranks[rows, skipped]
    upper = ranks[rows, np.maximum(n_votes - 1 - skipped, 0)]
    intervals = np.column_stack([lower, upper])
    intervals[n_votes == 0] = NO_LABEL
    return intervals


def rank_bounds(
    low: Array, high: Array, cuts: Array, holds_upper: Any = False, *, name: str = "lower"
) -> Ranks:
    """Return the lowest and the highest bin between the cuts that each range of numbers overlaps.

    A missing end is open. A range holds its lower end, and its upper end if `holds_upper` says so.
    """
    silent = np.isnan(low) & np.isnan(high)
    low = np.where(np.isnan(low), -np.inf, low)
    high = np.where(np.isnan(high), np.inf, high)
    backwards = low > high
    if backwards.any():
        t = int(np.argmax(backwards))
        raise RowError(name, t, f"{plain(low[t])!r} is above upper, {plain(high[t])!r}")
    first = np.searchsorted(cuts, low, side="right")
    last = np.searchsorted(cuts, high, side="left")
    last = np.where(holds_upper, np.searchsorted(cuts, high, side="right"), last)
    bins = np.column_stack([first, np.maximum(first, last)])
    bins[silent] = NO_LABEL
    return bins


# --- Ranges of classes as people write them: "3-4", "at least good", "B or better" -------------

# A finite number in text, the same wherever text is read: no marks but a point, no other base.
NUMBER = r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?"
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
        names = [plain(name) for name in classes]
        self.fold = len({str(name).casefold() for name in names}) == len(names)
        self.ranks = {self.key(name): r for r, name in enumerate(names)}

    def key(self, name: Any) -> Any:
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
        found = []
        for t, text in enumerate(texts):
            text = " ".join(text.split())
            if text not in read:
                interval = self.interval(text)
                if interval is None:
                    known = named(self.classes)
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

        How is one of the kinds of `OPEN`, or what stands between two classes.
        """
        for kind, form in OPEN.items():
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

    These are ranges of numbers as `brackets` reads them, such as 3-4 or 65+, and ranges of the
    other names as `Scale` reads them, such as "fair to good".
    """
    texts = {name: " ".join(name.split()) for name in names}
    scale = Scale(np.array(sorted(set(texts.values()) - {""}), dtype=object))
    return {name for name, text in texts.items() if _is_range(text, scale)}


def _is_range(text: str, scale: Scale) -> bool:
    if any(map(str.isdecimal, text)):
        from pril.core import brackets  # takes a tenth of a second to import

        if brackets.is_range(text):
            return True
    if BOUND.fullmatch(text):
        return True
    kind, ranks = scale.taken_apart(text)
    # "Above average" leaves out "average", so both may be classes, and so may A+ and A.
    is_name = kind in ("above", "below") or text.endswith("+")
    return bool(ranks) and len(set(ranks)) == len(ranks) and not is_name
