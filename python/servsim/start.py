"""Where the ``servsim`` program begins: it loads the command line, and Ctrl-C ends it quietly meanwhile."""

import os
import signal
from types import FrameType


def _interrupted(_number: int, _frame: FrameType | None) -> None:
    """End at once: nothing was opened yet, and a stack trace of half-loaded modules tells the user nothing."""
    os.write(2, b"servsim: interrupted\n")
    os._exit(130)


def main() -> None:
    """Entry point of the ``servsim`` program."""
    asked = signal.getsignal(signal.SIGINT)
    # A program in the background may have been told to ignore it.
    if asked is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupted)
    from servsim import cli

    signal.signal(signal.SIGINT, asked)
    cli.main()
