"""The errors of this package, each a `PrilError`, and its warnings."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from traceback import walk_tb
from typing import Any

__all__ = [
    "ClassOrderWarning",
    "FeatureRangeWarning",
    "InputError",
    "InputTypeError",
    "MissingExtraError",
    "MissingFileError",
    "OverflowedError",
    "PrilError",
    "RowError",
    "UnavailableError",
]


LONGEST = 60  # characters of a value in a message
ADVICE = {  # what a message adds for a hint
    "classes": ": pass classes=, lowest first",
    "brackets": (
        "; correct the text, name it in missing= if it is no answer, or give the ends as numbers "
        "to pril.labels.from_bounds(lower, upper, edges=...)"
    ),
    "edges": ": pass edges=, the cut points between the classes",
    "bounds": (
        "; turn ranges of numbers into labels with pril.labels.from_bounds(ranges, edges=...)"
    ),
    "ranges": (
        ": pril.labels.from_strings(y, classes) reads ranges of classes, such as '3-4' or 'at "
        "least good', and pril.labels.from_brackets(y) brackets of a number, such as '65+'; if it "
        "is the name of a class, pass classes=, lowest first"
    ),
    "ranks": (
        "; a meta-estimator such as BaggingClassifier numbers the labels in alphabetical order: "
        "give it pril.labels.ordered(y, classes), and the learner no classes="
    ),
}


def shown(value: Any) -> str:
    """Return a value as it appears in a message, shortened if it is long.

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


class PrilError(Exception):
    """The base of all errors that this package raises on purpose: what was given cannot be used.

    Each is also an error of Python, such as a `ValueError`. The command shows it as one line and
    ends with exit code 2. Any other exception is a bug.

    Examples
    --------
    >>> import pril
    >>> try:
    ...     pril.PRIL().fit([[0.0], [1.0]], [1])
    ... except pril.errors.PrilError as error:
    ...     isinstance(error, ValueError)
    True
    """


class InputError(PrilError, ValueError):
    """An argument, an option, a table or a file has a value that cannot be used.

    Parameters
    ----------
    message : str
        What is wrong.
    hint : str, default=None
        As in `RowError`.
    """

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.hint = hint


class InputTypeError(PrilError, TypeError):
    """An argument has a type that cannot be used."""


class UnavailableError(PrilError, OSError):
    """A file, a download or a cluster cannot be used."""


class MissingFileError(UnavailableError, FileNotFoundError):
    """A file or a folder does not exist."""


class MissingExtraError(PrilError, ImportError):
    """A package of an extra is not installed.

    Parameters
    ----------
    message : str
        What needs which package.
    extra : str
        The extras that bring it.

    Examples
    --------
    >>> from pril.errors import MissingExtraError
    >>> print(MissingExtraError("pril.onnx needs skl2onnx", "onnx"))
    pril.onnx needs skl2onnx: in a clone of pril run pip install '.[onnx]'
    """

    def __init__(self, message: str, extra: str) -> None:
        super().__init__(message, extra)

    def __str__(self) -> str:
        message, extra = self.args
        return f"{message}: in a clone of pril run pip install '.[{extra}]'"


def import_extra(name: str, message: str, extra: str) -> Any:
    """Import a module that needs an extra; `message` says what needs which package."""
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(message, extra) from error


def is_bug(error: BaseException) -> bool:
    """Tell whether an error was raised in the code of this package, but not on purpose.

    Parameters
    ----------
    error : BaseException
        An error that was caught.

    Returns
    -------
    is_bug : bool
        False for an error of this package, and for one that another library raised.

    Examples
    --------
    >>> from pril.errors import InputError, is_bug
    >>> is_bug(InputError("y is empty"))
    False
    """
    if isinstance(error, PrilError) or error.__traceback__ is None:
        return False
    *_, (frame, _) = walk_tb(error.__traceback__)
    module: str = frame.f_globals.get("__name__", "")
    return module.partition(".")[0] == __name__.partition(".")[0]


@contextmanager
def refusing() -> Iterator[None]:
    """Turn the errors of a library that checks a user's input into ours; our bugs stay bugs."""
    try:
        yield
    except (ValueError, TypeError) as error:
        if isinstance(error, PrilError) or is_bug(error):
            raise
        kind = InputError if isinstance(error, ValueError) else InputTypeError
        raise kind(str(error)) from error


@contextmanager
def naming_file(name: object) -> Iterator[None]:
    """Let errors of the operating system name the file, if they do not name one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(name)) from error


class RowError(InputError):
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
        are ranges of numbers), "brackets" (they are brackets as text), "ranges" (they are ranges
        of classes as text), "edges" (name the cut points). The command adds an option to the
        message.

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
        ValueError.__init__(self, argument, row, reason, place, hint)  # pickle needs all of them
        self.argument = argument
        self.row = row
        self.reason = reason
        self.place = place or f"row {row}"
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.argument}, {self.place}: {self.reason}{ADVICE.get(self.hint or '', '')}"


class OverflowedError(RowError, OverflowError):
    """A learner's sums left the range of floats in some row, though all features are finite.

    Parameters
    ----------
    argument : str
        Name of the argument that has the row.
    row : int
        The row, from 0.
    reason : str
        What to do about it.
    place : str, default=None
        As in `RowError`.
    hint : str, default=None
        As in `RowError`.

    Examples
    --------
    >>> import pril
    >>> try:
    ...     pril.PRIL().fit([[1e200], [2e200]], [1, 2])
    ... except pril.errors.OverflowedError as error:
    ...     error.argument
    'X'
    """


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
    """Features reach outside the range that a learner expects."""
