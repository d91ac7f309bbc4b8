"""The command itself: its list of commands, and how it ends."""

from __future__ import annotations

import json
import logging
import os
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import LazyLoader
from io import TextIOWrapper
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from pril.cli.learn import audit, demo, fit, reproduce
from pril.cli.learn import compile as compile_
from pril.cli.options import ADVICE, INSTEAD, OUTPUT, with_groups
from pril.cli.use import evaluate, export, predict, report, show, stream
from pril.core.words import printable
from pril.errors import PrilError

TRACEBACK, VERBOSE = "--traceback", "--verbose"
BUG = 70  # EX_SOFTWARE of sysexits.h
MARK = re.compile(r"\b(bracket_)?(decimal|thousands)=('.?')")  # an argument, with its value
_UsageError: Any = typer.BadParameter.__base__  # of click, wherever typer takes it from


class _Command(TyperCommand):
    """A command that lists --help with its last options, not in a box of its own."""

    def get_help_option(self, ctx: Any) -> Any:
        option: Any = super().get_help_option(ctx)
        option.rich_help_panel = OUTPUT
        return option


app = typer.Typer(
    name="pril",
    help="Learn to rate from ranges.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for _command in (
    fit, predict, evaluate, report, show, export, stream, audit, reproduce, compile_, demo
):  # fmt: skip
    app.command(cls=_Command)(with_groups(_command))


def _print_version(requested: bool) -> None:
    if requested:
        from pril import __version__

        print(f"pril {__version__}")
        raise typer.Exit


@app.callback()
def _pril(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
    traceback: Annotated[
        bool, typer.Option(TRACEBACK, help="Print the traceback of an error. May stand anywhere.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option(VERBOSE, help="Print decisions and reasons. May stand anywhere.")
    ] = False,
) -> None:
    """Learn to rate from ranges."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command; a mistake of the user is one line and exit code 2, a bug of ours is 70."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    wants_traceback, is_verbose = TRACEBACK in given, VERBOSE in given
    print_error = partial(_print_line, as_json="--json" in given)
    given = [word for word in given if word not in (TRACEBACK, VERBOSE)]
    with (
        _starting_fast(),
        _standard_streams(),
        _stopping_cleanly(),
        _printing_warnings(given),
        _printing_log("pril") if is_verbose else _saying_that_it_compiles(given),
    ):
        try:
            code = app(args=given, standalone_mode=False) or 0
            sys.exit(code if given else 2)  # without arguments the help was printed
        except _UsageError as error:
            # Empty if the help was printed; "Value error, " is how typer's checks begin.
            if said := error.format_message().replace(": Value error, ", ": "):
                print_error(said + INSTEAD.get(getattr(error, "option_name", ""), ""))
            sys.exit(2)
        except BrokenPipeError:  # the reader of the output has ended
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        except Exception as error:
            if wants_traceback:
                traceback.print_exc()
            reason = _reason(error)
            if reason is not None:
                print_error(reason + _advice(error, given))
                sys.exit(2)
            what = f"{type(error).__name__}: {error}"
            hint = "" if wants_traceback else f"; {TRACEBACK} shows where"
            print_error(f"this is a bug in pril, please report it ({what}){hint}")
            sys.exit(BUG)


def _print_line(text: str, *, as_json: bool = False) -> None:
    """Print an error, a warning or a decision as one line; an error with --json as an object."""
    text = printable(" ".join(text.split()))
    print(json.dumps({"error": text}) if as_json else f"pril: {text}", file=sys.stderr)


def _reason(error: Exception) -> str | None:
    """Return what a user can correct; None if the error is a bug of ours."""
    if isinstance(error, OSError) and error.filename is not None:  # a file that cannot be used
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return "there is not enough memory"
    if not isinstance(error, PrilError):
        return None
    return MARK.sub(lambda mark: f"--{'bracket-' * bool(mark[1])}{mark[2]} {mark[3]}", str(error))


def _advice(problem: object, arguments: list[str]) -> str:
    """Return what to do about an error or a warning, if an option of the command can help."""
    hint, *pairs = (getattr(problem, "hint", None) or "").split("|")  # of decimal and thousands
    if hint not in ADVICE:
        return ""
    ways = [f"--decimal {pair[0]!r} --thousands {pair[1:]!r}" for pair in pairs]
    way = f"say how they are written: {' or '.join(ways)}" if ways else "write all in one way"
    advice = ADVICE[hint].format(way)
    if pairs and "--brackets" in arguments:
        advice += "; --bracket-decimal and --bracket-thousands say how brackets are written"
    group: Any = get_command(app)
    command = group.commands[next(word for word in arguments if not word.startswith("-"))]
    return f"; {advice}" if hint in [option.name for option in command.params] else ""


@contextmanager
def _printing_warnings(arguments: list[str]) -> Iterator[None]:
    """Print each warning as one line."""

    def show_warning(message: object, *_: object) -> None:
        _print_line(f"warning: {message}{_advice(message, arguments)}")

    with warnings.catch_warnings():
        warnings.simplefilter("default")
        for category in (DeprecationWarning, ResourceWarning):  # for developers; not for users
            warnings.filterwarnings("ignore", category=category)
        warnings.showwarning = show_warning  # type: ignore[assignment]
        yield


class _LineHandler(logging.Handler):
    """Print what is logged, each message as one line."""

    def emit(self, record: logging.LogRecord) -> None:
        _print_line(record.getMessage())


@contextmanager
def _printing_log(name: str, level: int = logging.INFO) -> Iterator[None]:
    """Print what modules log: what they decide and why, or that something is being compiled."""
    logger, handler = logging.getLogger(name), _LineHandler()
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


def _saying_that_it_compiles(arguments: list[str]) -> AbstractContextManager[None]:
    """Print that something is being compiled."""
    is_quiet = {"--quiet", "-q"} & {*arguments}
    return _printing_log("pril.online.compile_time", logging.ERROR if is_quiet else logging.INFO)


@contextmanager
def _stopping_cleanly() -> Iterator[None]:
    """Let signals end the command as errors do, so that its temporary files are removed."""

    def stop(*_: object) -> None:
        print("pril: stopped", file=sys.stderr)
        sys.exit(1)

    # The last two come when a terminal is closed, each on other systems.
    names = ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK")
    numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
    handlers = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _LoadedOnUse:
    """Lets scipy.stats load when it is used: scikit-learn imports it, and few commands use it.

    Without this, each command takes 0.3 s longer, a quarter of the time of `predict`.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _: object = None) -> ModuleSpec | None:
        """Return how to load the module, None for any other."""
        spec = PathFinder.find_spec(name, path) if name == "scipy.stats" else None
        if spec is not None and spec.loader is not None:
            spec.loader = LazyLoader(spec.loader)
        return spec


@contextmanager
def _starting_fast() -> Iterator[None]:
    """Import less at the start: see `benchmarks/limits.py`."""
    sys.meta_path.insert(0, _LoadedOnUse)
    try:
        yield
    finally:
        sys.meta_path.remove(_LoadedOnUse)


@contextmanager
def _standard_streams() -> Iterator[None]:
    """Open the null device for each standard stream that is closed; escape what cannot be encoded.

    On Windows, for example, the encoding of the output may lack characters of a table.
    """
    closed = [name for name in ("stdin", "stdout", "stderr") if getattr(sys, name) is None]
    with ExitStack() as stack:
        for name in closed:
            nothing = open(os.devnull, "r" if name == "stdin" else "w")  # noqa: SIM115
            setattr(sys, name, stack.enter_context(nothing))
            stack.callback(setattr, sys, name, None)
        if isinstance(sys.stdout, TextIOWrapper):
            stack.callback(sys.stdout.reconfigure, errors=sys.stdout.errors)
            sys.stdout.reconfigure(errors="backslashreplace")  # as stderr does
        yield
