"""Results in words, the same in the command and in reports."""

from __future__ import annotations

from typing import Any


def printable(text: str) -> str:
    """Return text with control and invisible characters escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def count(n: int, thing: str) -> str:
    """Return a number of things in words: 1 row, 2 rows, 3 passes."""
    plural = f"{thing}es" if thing.endswith("s") else f"{thing}s"
    return f"{n:,} {thing if n == 1 else plural}"


def evaluation_lines(evaluation: dict[str, Any]) -> list[str]:
    """Return how good a model is, for people."""
    if not evaluation["rows"]:
        return ["no rows with a label"]
    constant = f"always {evaluation['constant']!r} {evaluation['constant_accuracy']:.1%}"
    nearest = (
        f"always {evaluation['nearest_constant']!r} {evaluation['nearest_constant_error']:.4f}"
    )
    lines = [
        f"{count(evaluation['rows'], 'row')}: {evaluation['interval_accuracy']:.1%} inside their "
        f"range ({constant}), off by {evaluation['interval_absolute_error']:.4f} ranks on average "
        f"({nearest})"
    ]
    if evaluation["exact_rows"]:
        lines.append(
            f"{count(evaluation['exact_rows'], 'row')} with an exact label: off by "
            f"{evaluation['exact_absolute_error']:.4f} ranks"
        )
    if evaluation["unlabelled_rows"]:
        lines.append(f"{count(evaluation['unlabelled_rows'], 'row')} without a label left out")
    return lines
