"""Errors that name the row of an argument, and our warnings."""

from __future__ import annotations

from typing import Any

__all__ = ["ClassOrderWarning", "FeatureRangeWarning", "RowError"]

LONGEST = 60  # characters of a value in a message
ADVICE = {  # what a message adds for a hint
    "classes": ": pass classes=, lowest first",
    "bounds": (
        "; turn ranges of numbers into labels with pril.labels.from_bounds(ranges, edges=...)"
    ),
    "ranks": (
        "; a meta-estimator such as BaggingClassifier numbers the labels in alphabetical order: "
        "give it pril.labels.to_ranks(y, classes), and the learner classes=range(n_classes)"
    ),
}


def shown(value: Any) -> str:
    """Return a value as a message quotes it, the end of a long one left out.

    Parameters
    ----------
    value : object
        What the user wrote.

    Returns
    -------
    shown : str
        At most some 60 characters.

    Examples
    --------
    >>> from pril.errors import shown
    >>> shown("Rome")
    "'Rome'"
    """
    text = repr(value[: LONGEST + 1] if isinstance(value, str | bytes) else value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 3]}..."


class RowError(ValueError):
    """One row of an argument cannot be used.

    Parameters
    ----------
    argument : str
        Name of the argument.
    row : int
        The row, from 0.
    reason : str
        What is wrong with it.
    place : str, default=None
        What to call the row; None is "row" and its number.
    hint : str, default=None
        One word that tells a program what would help: "classes" (name the classes), "text" (the
        column may hold words), "ranks" (a meta-estimator numbered the labels), "bounds" (the labels
        are ranges of numbers). The command adds its own option to the message.

    Examples
    --------
    >>> from pril.errors import RowError
    >>> RowError("y", 3, "lower end 5 is above upper end 2").row
    3
    >>> print(RowError("y", 3, "0.5 is not a whole number", hint="classes"))
    y, row 3: 0.5 is not a whole number: pass classes=, lowest first
    """

    def __init__(
        self,
        argument: str,
        row: int,
        reason: str,
        place: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(argument, row, reason, place, hint)  # pickle makes a copy from these
        self.argument = argument
        self.row = row
        self.reason = reason
        self.place = place or f"row {row}"
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.argument}, {self.place}: {self.reason}{ADVICE.get(self.hint or '', '')}"


class ClassOrderWarning(UserWarning):
    """The order of the classes, or which classes there are, was guessed from the labels.

    Attributes
    ----------
    reason : str
        What was guessed, without the name of the argument and without advice.
    hint : str
        "classes", as in `RowError`.
    """

    hint = "classes"

    def __init__(self, message: str, reason: str | None = None) -> None:
        super().__init__(message)
        self.reason = reason or message


class FeatureRangeWarning(UserWarning):
    """Features reach outside the range that a learner's guarantee assumes."""
