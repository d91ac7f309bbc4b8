"""Results in words, the same in the command and in reports."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from html import escape
from itertools import pairwise, zip_longest
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


class StepsSoFar:
    """The steps of a search: what they have reached, and how long the others may take."""

    def __init__(self, most: int, tolerance: float) -> None:
        self.most, self.tolerance = most, tolerance  # the last step gains less than this
        self.values: list[float] = []
        self.began = time.monotonic()

    def add(self, value: float) -> str:
        """Return what is to be said after a step.

        Near the maximum, steps gain less and less: at least as fast as the last two.
        """
        self.values.append(value)
        each = (time.monotonic() - self.began) / len(self.values)
        left = f"at least {each:.0f} s left"
        if len(self.values) > 2:
            first, last = (b - a for a, b in pairwise(self.values[-3:]))
            if self.tolerance < last < first:
                steps = math.log(self.tolerance / last) / math.log(last / first)
                most = min(self.most - len(self.values), round(steps))
                left = f"{each:.0f} to {each * max(most, 1):.0f} s left"
        return f"penalised log-likelihood {value:,.1f}, {left}"


def some_of(names: list[str], most: int = 12) -> str:
    """Return names separated by commas; a long list is shortened."""
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def html_table(lines: list[list[str]], notes: Iterable[str] = ()) -> str:
    """Return a table of texts, the first line its head, with sentences below, for notebooks."""
    head, *body = (
        "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in line)
        for tag, line in zip(["th", *["td"] * len(lines)], lines, strict=False)
    )
    rows = "".join(f"<tr>{row}</tr>" for row in body)
    below = "".join(f"<p>{escape(note)}</p>" for note in notes)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{below}"


def aligned(lines: list[list[str]], *, alike: bool = False) -> str:
    """Return a table of texts: the first column to the left, the others to the right.

    A line may end early. Columns are as wide as they must be, or all `alike`.
    """
    first, *widths = [max(map(len, column)) for column in zip_longest(*lines, fillvalue="")]
    widths = [max(widths)] * len(widths) if alike else widths
    rows = []
    for name, *cells in lines:
        row = (cell.rjust(width + 2) for cell, width in zip(cells, widths, strict=False))
        rows.append((name.ljust(first) + "".join(row)).rstrip())
    return "\n".join(rows)


def coarsening_of(learner: object) -> Any:
    """Return how classes become ranges, as a learner found it; None if it saw no range.

    Printed, it is a sentence.
    """
    coarsening = getattr(learner, "coarsening_", None)
    return coarsening if coarsening and coarsening.ranges else None


def mistakes_of(learner: Any) -> int | None:
    """Return the mistakes of a learner that learns by them; None of others."""
    makes_them = getattr(getattr(learner, "engine", None), "settles", False)
    return learner.n_mistakes_ if makes_them else None


def learned_so_far(learner: Any) -> str:
    """Return how much a learner has learned."""
    if not hasattr(learner, "t_"):
        return count(learner.n_iter_, "round")
    rounds = count(learner.t_, "round")
    if not hasattr(learner, "loglik_"):
        mistakes = mistakes_of(learner)
        return rounds if mistakes is None else f"{rounds}, {count(mistakes, 'mistake')}"
    return f"{rounds}; fit took {count(learner.n_iter_, 'step')}, {_likelihood(learner.loglik_)}"


def _likelihood(loglik: float) -> str:
    return f"log-likelihood {loglik:,.1f}"


def column_facts(learned: dict[str, Any]) -> list[tuple[str, str]]:
    """Return which table and columns a model was learned from, as `Run.describe` has it."""
    columns = learned["columns"]
    labels, trim = learned["labels"]["columns"], learned["labels"].get("trim")
    if trim is not None:
        left_out = f", {trim:g} of them left out at each end" if trim else ""
        labels = [f"votes of {some_of(labels)}{left_out}"]
    edges = []
    if mark := learned["labels"].get("spelling", {}).get("thousands"):
        edges = [f"{edge:.15g}" for edge in learned["labels"]["edges"]]
        edges[-1] += f" (read with {mark!r} between thousands)"
    names = {
        "labels": labels,
        "edges": edges,
        "groups": [*filter(None, [learned.get("options", {}).get("groups")])],
        "numbers": columns["numbers"],
        "words": [f"{name} ({count(n, 'word')})" for name, n in columns["words"].items()],
        "ignored": [f"{name} ({reason})" for name, reason in columns["ignored"].items()],
        "folders": [f"{name} (a column named by folders)" for name in learned.get("folders", ())],
    }
    facts = [("read", f"{count(learned['rows'], 'row')} of {learned['table']}")]
    return [*facts, *((kind, some_of(some)) for kind, some in names.items() if some)]


def learning_facts(learned: dict[str, Any]) -> list[tuple[str, str]]:
    """Return what the labels were, how long the model learned, and how good it was then."""
    widths = [
        f"{'exact' if size == '1' else f'{size} classes'} {n:,}"
        for size, n in learned["widths"].items()
    ]
    if learned["unlabelled_rows"]:
        widths.append(f"no label {learned['unlabelled_rows']:,}")
    if learned["zero_weight_rows"]:
        widths.append(f"weight zero {learned['zero_weight_rows']:,}")
    if "steps" in learned:
        work = f"{count(learned['steps'], 'step')}, {_likelihood(learned['log_likelihood'])}"
    elif learned["passes"] is None:
        work = f"{count(learned['rounds'], 'round')} of boosting"
    else:
        work = f"{count(learned['passes'], 'pass')}, {count(learned['mistakes'], 'mistake')}"
    facts = [
        ("ranges", ", ".join(widths)),
        ("learned", f"from {count(learned['learned_rows'], 'row')} in {work}"),
    ]
    if ranges := learned["ranges"]:
        n, n_others = ranges["calibration_rows"], ranges.get("other_rows", 0)
        rows = f"{n:,} of {n + n_others:,} rows" if n_others else count(n, "row")
        promise = ranges["guarantee"] + (" for each class" if ranges.get("by") else "")
        facts.append(("coverage", f"{ranges['coverage']:g} ({promise}), calibrated on {rows}"))
    if learned["holdout"]:
        lines = evaluation_lines(learned["holdout"])
        facts += [("" if k else "held out", line) for k, line in enumerate(lines)]
    return facts


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


def rows_known(source: Any) -> str:
    """Return what the numbers are worth on the table that a model learned from (`FitNotes`)."""
    if source.learned_rows < source.rows:
        learned = f"the model learned {source.learned_rows:,} of the {count(source.rows, 'row')}"
        said = f"{learned} of this table"
    else:
        said = "the model learned from this table"
    said += ", so the numbers are better than on new rows"
    if (out := source.holdout) is None or not out.rows:
        return f"{said}; take rows that it has not seen"
    inside, off = f"{out.interval_accuracy:.1%}", f"{out.interval_absolute_error:.4f} ranks"
    held_out = f"on the {count(out.rows, 'row')} that were held out"
    return f"{said}; {held_out} it was inside the range for {inside}, and off by {off} on average"
