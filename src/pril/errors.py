"""Errors that name the row of an argument, and our warnings."""

from __future__ import annotations

from typing import Any

__all__ = ["ClassOrderWarning", "FeatureRangeWarning", "RowError", "shown"]

LONGEST = 60  # characters of a value in a message


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

    Examples
    --------
    >>> from pril.errors import RowError
    >>> RowError("y", 3, "lower end 5 is above upper end 2").row
    3
    """

    def __init__(self, argument: str, row: int, reason: str, place: str | None = None) -> None:
        super().__init__(argument, row, reason, place)  # what a copy is made from, in any process
        self.row = row
        self.reason = reason

    def __str__(self) -> str:
        argument, row, reason, place = self.args
        return f"{argument}, {place or f'row {row}'}: {reason}"


class ClassOrderWarning(UserWarning):
    """The order of the classes, or which classes there are, was guessed from the labels."""


class FeatureRangeWarning(UserWarning):
    """Features reach outside the range that a learner's guarantee assumes."""
