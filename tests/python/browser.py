"""A headless Chromium driven over its DevTools pipe: size, script, console, requests, screenshot.

Uses no library: messages are JSON texts ended by a NUL byte on two inherited pipes. Every browser has
a profile of its own in a temporary folder, and ends with its context.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
]


class Browser:
    """One page of a headless browser; use as a context manager."""

    def __init__(self) -> None:
        assert CHROMIUM, "no Chromium on this machine"
        self._profile = tempfile.mkdtemp(prefix="servsim-browser-")
        to_read, self._to = os.pipe()
        self._from, from_write = os.pipe()
        # The browser reads commands on descriptor 3 and writes answers on 4, set up by the shell.
        script = 'exec "$0" "$@" 3<&"$IN" 4>&"$OUT"'
        self._child = subprocess.Popen(
            ["/bin/bash", "-c", script, CHROMIUM, *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            env={**os.environ, "IN": str(to_read), "OUT": str(from_write)},
            pass_fds=(to_read, from_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(from_write)
        self._buffer, self._next, self._session = b"", 0, None
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        targets = self.call("Target.getTargets")["targetInfos"]
        page = next(target for target in targets if target["type"] == "page")
        attached = self.call("Target.attachToTarget", targetId=page["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._child.terminate()
        try:
            self._child.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait()
        os.close(self._to)
        os.close(self._from)
        shutil.rmtree(self._profile, ignore_errors=True)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and return its result; events met on the way are kept."""
        self._next += 1
        message: dict[str, Any] = {"id": self._next, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._next:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _receive(self, seconds: float = 60) -> dict[str, Any]:
        until = time.monotonic() + seconds
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._from], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser does not answer"
            received = os.read(self._from, 1 << 20)
            assert received, "the browser has ended"
            self._buffer += received
        text, _, self._buffer = self._buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def open(self, page: Path | str, width: int, height: int = 900, scheme: str = "light", media: str = "") -> None:
        """Open a file or an address at a size, in a colour scheme, optionally as for print, and wait for its load."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self.events.clear()
        self.call("Page.navigate", url=page if isinstance(page, str) else page.resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())

    def evaluate(self, script: str) -> Any:
        """Evaluate an expression in the page and return its value."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """Return console errors, exceptions and log entries since the page was opened."""
        wanted = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}
        return [json.dumps(event["params"]) for event in self.events if event.get("method") in wanted]

    def requests(self) -> list[str]:
        """Return the addresses asked for since the page was opened, the page itself included."""
        sent = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in sent]

    def screenshot(self, output: Path) -> None:
        """Write the whole page as PNG."""
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=True)
        output.write_bytes(base64.b64decode(shot["data"]))
