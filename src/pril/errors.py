"""Errors that know their row, so that whoever knows the file can say where it is."""

from __future__ import annotations

__all__ = ["RowError"]


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
