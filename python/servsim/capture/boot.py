"""An emulator under way: started, watched through its console, ended with the ``with`` block.

Used by the boot that makes a checkpoint and by every run that resumes from one. The guest tells
how far it is by console lines that begin with ``servsim-guest:`` (see ``capture/guest/init``).
"""

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from servsim.capture import room, store
from servsim.capture.emulator import Emulator, Machine, Plugin, command_line
from servsim.capture.process import child
from servsim.capture.qmp import Qmp, QmpClosed, QmpTimeout
from servsim.capture.steps import Report
from servsim.errors import EnvironmentProblem

#: Seconds between two looks at the console.
_LOOK_S = 0.25
#: The emulator stops the guest when its disk's files cannot be written, and says so by this event.
_DISK_ERROR = "BLOCK_IO_ERROR"
_WORDS = re.compile(rb"servsim-guest: ([^\r\n]+)\r?\n")
#: A line of the kernel's, with its time.
_OF_THE_KERNEL = re.compile(r"\[ *\d+\.\d+\]")


class Running:
    """A running emulator: its control connection, its process and its console.

    Its attribute ``look`` is called at each look at the console; what it raises ends the wait.
    """

    def __init__(self, qmp: Qmp, process: subprocess.Popen[bytes], console: Path, report: Report) -> None:
        self.look: Callable[[], None] = lambda: None
        self.qmp = qmp
        self.process = process
        self.console = console
        self._report = report
        self._told = 0
        self.words: list[str] = []
        self._start = time.monotonic()

    def wait_event(self, names: tuple[str, ...], timeout_s: float) -> str | None:
        """Wait for an event, passing on what the guest says; None when time runs out.

        The end of the emulator counts as the event ``CLOSED``.

        Raises
        ------
        EnvironmentProblem
            When the guest's disk fails, which stops the guest: as a rule the host's disk is full.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            left = deadline - time.monotonic()
            try:
                event = self.qmp.wait_event((*names, _DISK_ERROR), max(0.0, min(_LOOK_S, left)))
            except QmpClosed:
                self.listen()
                return "CLOSED"
            self.listen()
            self.look()
            if event is not None and event["event"] == _DISK_ERROR:
                raise EnvironmentProblem(_of_the_disk(event.get("data", {}), self.console))
            if event is not None:
                return str(event["event"])
            if left <= 0:
                return None

    def listen(self) -> None:
        """Pass on what the guest said on its console since the last look."""
        try:
            said = _WORDS.findall(self.console.read_bytes())
        except FileNotFoundError:
            return
        for word in said[self._told :]:
            text = word.decode(errors="replace")
            self.words.append(text)
            self._report(f"guest: {text} ({time.monotonic() - self._start:.1f} s)")
        self._told = len(said)

    def said_before(self, word: str) -> str:
        """Return what programs printed on the console between the word that the guest said before this one, and it."""
        parts = _WORDS.split(self.console.read_bytes())
        words = [part.decode(errors="replace") for part in parts[1::2]]
        output = parts[2 * words.index(word)].decode(errors="replace")
        return "\n".join(line for line in output.splitlines() if not _OF_THE_KERNEL.match(line))

    def last_words(self) -> str:
        """Return the last thing the guest said, for an error sentence."""
        return f"its last words were “{self.words[-1]}”" if self.words else "it said nothing"


@contextlib.contextmanager
def emulator_running(
    emulator: Emulator,
    machine: Machine,
    log: Path,
    report: Report,
    *,
    incoming: Path | None = None,
    plugins: Sequence[Plugin] = (),
    env: dict[str, str] | None = None,
) -> Iterator[Running]:
    """Run an emulator for the duration of a ``with`` block.

    Parameters
    ----------
    emulator, machine, incoming, plugins
        See :func:`servsim.capture.emulator.command_line`.
    log
        File that takes what the emulator itself prints.
    report
        Takes each line of progress.
    env
        Environment of the emulator; the own one by default.

    Raises
    ------
    EnvironmentProblem
        When the emulator does not start, or this host has too little memory.
    """
    room.demand_memory(machine.memory_mib * room.MIB)
    machine.console.write_bytes(b"")
    # A pair of connected sockets: no name in any folder, and nothing left when either side dies.
    ours, theirs = socket.socketpair()
    with ours, theirs, log.open("wb") as output:
        command = command_line(emulator, machine, theirs.fileno(), incoming=incoming, plugins=plugins)
        with child(command, output, pass_fds=[theirs.fileno()], env=env) as process:
            theirs.close()
            try:
                qmp = Qmp(ours)
            except (QmpClosed, QmpTimeout) as error:
                raise EnvironmentProblem(
                    f"the emulator did not start: {_reason(log)}; all it said is in {log}"
                ) from error
            yield Running(qmp, process, machine.console, report)


def _of_the_disk(error: dict[str, Any], console: Path) -> str:
    """Say what is wrong with the guest's disk (QMP, event ``BLOCK_IO_ERROR``)."""
    folder = store.guest_dir()
    if error.get("nospace"):
        return (
            f"the disk of the cache {folder} is full, and the guest cannot write; free some room, or set SERVSIM_CACHE"
        )
    return (
        f"the guest's disk failed to {error.get('operation', 'work')} ({error.get('reason', 'no reason given')}): "
        f"the files in {folder} cannot be read or written; the guest's console is in {console}"
    )


def _reason(log: Path) -> str:
    """Return the last line an emulator printed."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it gave no reason"
