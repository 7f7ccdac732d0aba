"""The report on the loopback, for browsers of this host alone."""

import errno
import json
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import ClassVar
from urllib.parse import unquote

from servsim.errors import EnvironmentProblem
from servsim.report.live.shelf import Shelf

ADDRESS = "127.0.0.1"
#: Seconds after which a browser that says nothing is left.
_PATIENCE = 30
#: What the frame around the report may do: ask here what there is, show the report, nothing else.
_POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'self'; connect-src 'self'; frame-src 'self'; "
    "img-src data:"
)


def _file(name: str) -> str:
    return resources.files("servsim.report.live").joinpath(name).read_text(encoding="utf-8")


class _Handler(BaseHTTPRequestHandler):
    """Answers from a shelf, which `Server` sets; what stands behind the ``?`` of a path is the name of a page."""

    shelf: ClassVar[Shelf]
    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE

    def do_GET(self) -> None:
        """Answer what a browser asks for."""
        port = self.connection.getsockname()[1]
        path, _, name = self.path.partition("?")
        # A page from elsewhere whose name was made to point here must not read results.
        if self.headers.get("Host") not in (f"{ADDRESS}:{port}", f"localhost:{port}"):
            self.send_error(HTTPStatus.FORBIDDEN)
        elif path == "/":
            self._answer(_file("frame.html"), "text/html", policy=_POLICY)
        elif path == "/frame.js":
            self._answer(_file("frame.js"), "text/javascript")
        elif path in ("/state", "/report"):
            pages = self.shelf.pages()
            chosen = unquote(name) if unquote(name) in pages else next(iter(pages))
            state = pages[chosen].look()
            if path == "/report":
                self._answer(state.page, "text/html")
            else:
                told = {"version": state.version, "said": state.said, "shown": chosen, "pages": list(pages)}
                self._answer(json.dumps(told), "application/json")
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _answer(self, text: str, kind: str, policy: str | None = None) -> None:
        content = text.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        if policy is not None:
            self.send_header("Content-Security-Policy", policy)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing of what is asked: every open page asks all the time."""


class Server(ThreadingHTTPServer):
    """The server of a report; ``serve_forever`` answers until ``shutdown``.

    Parameters
    ----------
    shelf : Shelf
        What is shown.
    port : int
        Where, on the loopback; any free port for 0.

    Raises
    ------
    EnvironmentProblem
        When the port is in use, or not for us.
    """

    daemon_threads = True

    def __init__(self, shelf: Shelf, port: int) -> None:
        try:
            super().__init__((ADDRESS, port), type("_Answers", (_Handler,), {"shelf": shelf}))
        except OSError as error:
            if error.errno not in (errno.EADDRINUSE, errno.EACCES):
                raise
            why = "is in use" if error.errno == errno.EADDRINUSE else "may not be used"
            raise EnvironmentProblem(f"port {port} of the loopback {why}: give another with --port") from None

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of browsers that go away in the middle of an answer."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]

    @property
    def address(self) -> str:
        """Where a browser finds it."""
        return f"http://{ADDRESS}:{self.server_address[1]}/"
