"""The command line: one file per subcommand, registered below.

Data goes to stdout, messages and progress to stderr. Exit codes: 0 success, 1 a check failed,
2 wrong usage or input, 3 environment problem, 70 internal bug, 130 interrupted. A reader that closes
the pipe early is not an error.
"""

import errno
import io
import os
import sys
import traceback
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command
from typer.models import CommandInfo, TyperInfo

from servsim.cli.options import present
from servsim.errors import InternalBug, ServsimError
from servsim.text import printable, require_utf8

#: Subcommands; each module ``servsim.cli.NAME`` has ``register(app)``.
COMMANDS: tuple[str, ...] = (
    "capture",
    "classify",
    "compare",
    "critical_point",
    "disk",
    "doctor",
    "explain",
    "guest",
    "machine",
    "model",
    "monitor",
    "partitions",
    "place",
    "quickstart",
    "report",
    "reproduce",
    "rset",
    "serve",
    "simulate",
    "sweep",
    "timeline",
    "trace",
    "validate",
    "variability",
    "workload",
)

#: Those of them whose ``register`` also takes the next word, and leaves out what was not asked for.
GROUPS = ("model",)

#: Groups of ``--help`` and the order within them; a command that no group lists comes last.
PANELS: dict[str, tuple[str, ...]] = {
    "Start here": ("quickstart", "doctor", "explain"),
    "Capture": ("workload", "guest", "capture", "trace"),
    "Simulate": (
        "machine",
        "simulate",
        "compare",
        "classify",
        "monitor",
        "place",
        "partitions",
        "sweep",
        "critical-point",
        "variability",
        "reproduce",
        "validate",
    ),
    "Model": ("disk", "model"),
    "Report": ("report", "serve", "timeline"),
    "Apply": ("rset",),
}

#: Commands in the order of the groups.
ORDER = [name for names in PANELS.values() for name in names]


def _place(name: str) -> int:
    """Return a command's place in the order; one that no group lists comes last."""
    return ORDER.index(name) if name in ORDER else len(ORDER)


class _Ordered(TyperGroup):
    """Lists commands, and so their groups, in the order of work."""

    def list_commands(self, ctx: object) -> list[str]:
        return sorted(self.commands, key=_place)


app = typer.Typer(
    name="servsim",
    cls=_Ordered,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "token_normalize_func": present},
)


def _version(value: bool) -> None:
    if value:
        from servsim import __version__

        typer.echo(f"servsim {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True, help="Print the version."),
) -> None:
    """Run a real commercial workload on a server that exists only as a description."""


def _literal(command: Any) -> None:
    """Let help show square brackets as they are written: the library that prints it takes ``[x]`` for a style."""
    for part in (command, *command.params):
        for name in ("help", "short_help", "epilog"):
            if text := getattr(part, name, None):
                setattr(part, name, text.replace("[", r"\["))
    for child in getattr(command, "commands", {}).values():
        _literal(child)


def build(*words: str) -> Any:
    """Register subcommands on the application, in the groups of ``--help``, and return the command to call.

    Parameters
    ----------
    *words : str
        What was asked: a subcommand, perhaps followed by one of its own. Others are left out, to start quickly.
        All are there where the words begin with none.
    """
    module, then = ("".join(words[:1]).replace("-", "_"), words[1:2])
    for name in (module,) if module in COMMANDS else COMMANDS:
        register = import_module(f"servsim.cli.{name}").register
        register(app, *then) if name in GROUPS else register(app)
    entries: list[CommandInfo | TyperInfo] = [*app.registered_commands, *app.registered_groups]
    for entry in entries:
        known = entry.name if isinstance(entry.name, str) else getattr(entry.callback, "__name__", "")
        for panel, names in PANELS.items():
            if known in names:
                entry.rich_help_panel = panel
    command = get_command(app)
    _literal(command)
    return command


def _fail(message: str, code: int) -> int:
    """Print a one-line error to stderr and return its exit code."""
    print(f"servsim: {printable(message)}", file=sys.stderr)
    return code


def _reader_left() -> int:
    """Send what is still buffered nowhere: whoever read our output has seen enough."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _cause(error: BaseException, kind: type[BaseException]) -> bool:
    """Return whether an exception was raised while one of the given kind was handled."""
    context = error.__context__
    return context is not None and (isinstance(context, kind) or _cause(context, kind))


#: What may be wrong with a file or folder that the user named.
_OF_A_FILE = (
    errno.ENOENT,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
)


def _code(error: BaseException) -> int:  # noqa: PLR0911 - one for each way to end
    """Tell the user of whatever ended the command, and return its exit code."""
    if isinstance(error, SystemExit) and not error.code:
        return 0
    # Libraries turn a closed pipe and an interrupt into stops with codes of their own.
    if isinstance(error, BrokenPipeError) or _stopped_by(error, BrokenPipeError):
        return _reader_left()
    if isinstance(error, KeyboardInterrupt) or _stopped_by(error, KeyboardInterrupt):
        from servsim import _core

        _core.discard_unfinished_files()  # of work that goes on until the process ends
        return _fail("interrupted", 130)
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 2
    if isinstance(error, ServsimError):
        return _fail(str(error), error.exit_code)
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return _fail(f"no room left to write {error.filename or 'the output'}: free some and repeat", 3)
    if isinstance(error, OSError) and error.errno in _OF_A_FILE and error.filename is not None:
        code = 3 if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) else 2
        return _fail(f"{os.fsdecode(error.filename)} cannot be used: {error.strerror}; name another", code)
    if isinstance(error, OSError) and error.errno == errno.EIO:
        what = os.fsdecode(error.filename) if error.filename is not None else "a file"
        return _fail(f"{what} cannot be read or written: {error.strerror}; is its disk sound? copy it elsewhere", 3)
    if _is_of_an_older_build(error):
        return _fail("the native module is older than the Python package around it: run `make build`", 3)
    traceback.print_exception(error)
    return _fail("this is a bug in servsim; please report the lines above", InternalBug.exit_code)


def _is_of_an_older_build(error: BaseException) -> bool:
    """Say whether something was asked of the native module that this build of it does not have."""
    if isinstance(error, ImportError):
        return error.name == "servsim._core"
    from servsim import _core

    if isinstance(error, AttributeError):
        return error.obj is _core
    called, found, _ = str(error).partition("() got an unexpected keyword argument")
    return isinstance(error, TypeError) and bool(found) and hasattr(_core, called)


def _stopped_by(error: BaseException, kind: type[BaseException]) -> bool:
    return isinstance(error, SystemExit) and _cause(error, kind)


def run() -> int:
    """Run the command line and return its exit code; user faults never show a stack trace."""
    for stream in (sys.stdout, sys.stderr):
        # Names of files that are not UTF-8 are printed with their bytes written out.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            require_utf8(*sys.argv[1:])
            build(*sys.argv[1:])(standalone_mode=True)
        finally:
            sys.stdout.flush()
    except BaseException as error:  # a panic of the native module is no Exception
        return _code(error)
    return 0


def main() -> None:
    """Entry point of the ``servsim`` program."""
    sys.exit(run())
