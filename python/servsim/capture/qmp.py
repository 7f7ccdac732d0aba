"""A small client of QMP, the emulator's control protocol: JSON objects, one to a line.

Follows the QEMU manual, "QMP Protocol Specification": a greeting, ``qmp_capabilities``, then
commands with replies, and events at any time. Only what a capture needs: synchronous commands,
waiting for one of several events, a deadline on everything.
"""

import json
import select
import socket
import time
from typing import Any

from servsim.errors import EnvironmentProblem, ServsimError


class QmpClosed(ServsimError):
    """The emulator closed the connection: it ended, or was ended."""

    exit_code = 3


class QmpTimeout(ServsimError):
    """The emulator did not answer in time."""

    exit_code = 3


class Qmp:
    """One control connection to an emulator.

    Parameters
    ----------
    connection
        A connected stream socket whose peer speaks QMP.
    timeout_s
        Seconds allowed for the greeting.
    """

    def __init__(self, connection: socket.socket, timeout_s: float = 60.0) -> None:
        self._socket = connection
        self._pending = b""
        self._events: list[dict[str, Any]] = []
        self._socket.setblocking(False)
        deadline = time.monotonic() + timeout_s
        greeting = self._message(deadline)
        if greeting is None:
            raise QmpTimeout(f"the emulator sent no greeting within {timeout_s:.0f} s")
        if "QMP" not in greeting:
            raise EnvironmentProblem(
                "the emulator's control socket does not speak QMP; use qemu-system-x86_64 10 or newer"
            )
        self.command("qmp_capabilities")

    def command(self, name: str, timeout_s: float = 60.0, **arguments: Any) -> Any:
        """Execute a command and return its ``return`` value.

        Raises
        ------
        EnvironmentProblem
            When the emulator answers with an error.
        QmpTimeout, QmpClosed
            When there is no answer.
        """
        request: dict[str, Any] = {"execute": name}
        if arguments:
            request["arguments"] = {key.replace("_", "-"): value for key, value in arguments.items()}
        try:
            self._socket.setblocking(True)
            self._socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError as error:
            raise QmpClosed("the emulator closed its control connection") from error
        finally:
            self._socket.setblocking(False)
        deadline = time.monotonic() + timeout_s
        while True:
            message = self._message(deadline)
            if message is None:
                raise QmpTimeout(f"the emulator did not answer {name!r} within {timeout_s:.0f} s")
            if "return" in message:
                return message["return"]
            if "error" in message:
                raise EnvironmentProblem(
                    f"the emulator refused {name!r}: {message['error'].get('desc', message['error'])}"
                )
            self._events.append(message)

    def wait_event(self, names: tuple[str, ...], timeout_s: float) -> dict[str, Any] | None:
        """Return the first event with one of the names, or None when none arrives in time.

        Other events seen on the way are dropped.

        Raises
        ------
        QmpClosed
            When the emulator ends first.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            while self._events:
                event = self._events.pop(0)
                if event.get("event") in names:
                    return event
            message = self._message(deadline)
            if message is None:
                return None
            self._events.append(message)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _message(self, deadline: float) -> dict[str, Any] | None:
        """Read one message; None when the deadline passes."""
        while b"\n" not in self._pending:
            left = deadline - time.monotonic()
            if left < 0:
                return None
            if not select.select([self._socket], [], [], left)[0]:
                return None
            try:
                data = self._socket.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                raise QmpClosed("the emulator closed its control connection")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise EnvironmentProblem(
                "the emulator's control socket does not speak QMP; use qemu-system-x86_64 10 or newer"
            )
        return message
