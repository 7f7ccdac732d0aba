"""``servsim serve``: the report as results come, in a browser of this host."""

from pathlib import Path
from typing import Annotated

import typer

from servsim.cli.terminal import say

#: Where it is found without --port.
PORT = 8100


def serve(
    results: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Results of `servsim simulate` and folders of sweeps, for one page, also if they are still to come; "
            "without them a page for each result and sweep of this folder.",
            metavar="RESULT...",
        ),
    ] = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the loopback; any free one for 0.")] = PORT,
) -> None:
    """Show the report of results in a browser, made anew as they come; Ctrl-C ends it.

    Example: servsim serve caches.sweep
    """
    from servsim.report.live.server import Server
    from servsim.report.live.shelf import Shelf

    with Server(Shelf(results or []), port) as server:
        print(server.address, flush=True)
        say("open it in a browser of this host; Ctrl-C ends it")
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            say("ended")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command()(serve)
