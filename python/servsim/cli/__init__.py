"""The command line: one file per subcommand, registered below.

Data goes to stdout, messages and progress to stderr. Exit codes: 0 success, 1 a check failed,
2 wrong usage or input, 3 environment problem, 70 internal bug, 130 interrupted.
"""

import os
import sys
import traceback
from importlib import import_module

import typer

from servsim.errors import ServsimError

#: Subcommands in the order of ``--help``; each module ``servsim.cli.NAME`` has ``register(app)``.
COMMANDS: tuple[str, ...] = ("disk",)

app = typer.Typer(
    name="servsim",
    help=__doc__.splitlines()[0] if __doc__ else None,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        from servsim import __version__

        typer.echo(f"servsim {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Run a real commercial workload on a server that exists only as a description."""


def build() -> typer.Typer:
    """Register every subcommand on the application and return it."""
    for name in COMMANDS:
        import_module(f"servsim.cli.{name}").register(app)
    return app


def _fail(message: str, code: int) -> int:
    """Print a one-line error to stderr and return its exit code."""
    print(f"servsim: {message}", file=sys.stderr)
    return code


def run() -> int:
    """Run the command line and return its exit code; user faults never show a stack trace."""
    try:
        build()(standalone_mode=True)
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else 2
    except ServsimError as error:
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except BaseException:
        traceback.print_exc()
        return _fail("this is a bug in servsim; please report the lines above", 70)
    return 0


def main() -> None:
    """Entry point of the ``servsim`` program."""
    sys.exit(run())
