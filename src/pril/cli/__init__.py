"""The command `pril`: arguments and printing. The work is done by the modules below.

Modules here import nothing heavy before a command runs, so that the help is printed at once.
"""

try:
    import typer as typer
except ImportError as error:  # pragma: no cover - the extra is missing
    from pril.errors import MissingExtraError

    raise SystemExit(str(MissingExtraError("the command pril needs typer", "cli,io"))) from error
