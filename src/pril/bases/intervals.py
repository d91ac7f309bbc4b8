"""Estimates with their confidence intervals: of weights, effects, probabilities and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pril.core.words import aligned, html_table

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray


MOST_SHOWN = 20  # lines of a table that is printed


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Intervals:
    """Numbers with their confidence intervals.

    Attributes
    ----------
    kind : str
        What the numbers are: "effect", "probability", "number"; "term" if `terms` say it of each.
    columns : tuple of str
        What the parts of a term are.
    terms : list of tuple
        What each number belongs to, such as a feature and a class, in the order of the numbers.
    level : float
        Confidence level.
    unit : str
        What weights and effects of numbers are per: a "unit" of their column, or a "standard
        deviation".
    reference : str or None
        The words that the weights of words are relative to; None if there are no words, or no
        reference.
    estimate, std_error, lower, upper : ndarray
        The numbers, their standard errors, and the ends of their intervals. Those of features and
        classes, or of rows and classes, are tables with a column for each class.
    """

    NUMBERS: ClassVar[tuple[str, ...]] = ("estimate", "std_error", "lower", "upper")

    kind: str = "term"
    columns: tuple[str, ...] = ("term", "feature", "class")
    terms: list[tuple[Any, ...]]
    level: float
    unit: str = "unit"
    reference: str | None = None
    estimate: NDArray[np.float64]
    std_error: NDArray[np.float64]
    lower: NDArray[np.float64]
    upper: NDArray[np.float64]

    @property
    def interval(self) -> NDArray[np.float64]:
        """Lower and upper ends, one above the other."""
        return np.stack([self.lower, self.upper])

    def to_frame(self) -> pd.DataFrame:
        """Return all numbers as a table.

        Returns
        -------
        table : DataFrame
            The columns that `columns` names, and one for each number.
        """
        import pandas as pd

        table = pd.DataFrame(self.terms, columns=list(self.columns), dtype=object)
        return table.assign(**{name: getattr(self, name).ravel() for name in self.NUMBERS})

    def cells(self) -> list[list[str]]:
        """Return the table as it is printed, which may have its first lines only.

        Returns
        -------
        lines : list of list of str
            A heading, and a line for each number.
        """
        numbers = np.stack([getattr(self, name).ravel() for name in self.NUMBERS], axis=1)
        lines = [
            [
                *("" if part is None else str(part) for part in term),
                *(f"{value:.4g}" for value in line),
            ]
            for term, line in zip(self.terms[:MOST_SHOWN], numbers[:MOST_SHOWN], strict=True)
        ]
        return [[*self.columns, *self.NUMBERS], *lines]

    @property
    def notes(self) -> list[str]:
        """What is printed below the table."""
        more = len(self.terms) - MOST_SHOWN
        return [f"and {more:,} more, see to_frame()"] if more > 0 else []

    def __str__(self) -> str:
        return "\n".join([aligned(self.cells()), *self.notes])

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return html_table(self.cells(), self.notes)
