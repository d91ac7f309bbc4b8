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

    Examples
    --------
    >>> from pril.errors import RowError
    >>> RowError("y", 3, "lower end 5 is above upper end 2").row
    3
    """

    def __init__(self, argument: str, row: int, reason: str) -> None:
        super().__init__(f"{argument}, row {row}: {reason}")
        self.row = row
        self.reason = reason
