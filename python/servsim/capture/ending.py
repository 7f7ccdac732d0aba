"""Why a guest ended before its time: which script of the workload failed, and what it said.

The guest's first program (`capture/guest/init`) tells the host when the server did not start and with which code the
client ended; what they printed lies on the console between its words, and a client that could still do so has left its
problems on the control disk.
"""

import re
from pathlib import Path

from servsim.capture import control
from servsim.capture.boot import Running
from servsim.capture.folder import Folder
from servsim.errors import CheckFailed, EnvironmentProblem, ServsimError
from servsim.text import reason
from servsim.workloads.driver import MEANING

_NOT_STARTED = "failed: the server did not start"
_CODE = re.compile(r"driver ended with code (\d+)")


def code(running: Running) -> int | None:
    """Return the exit code of the client; none while it has not ended."""
    codes = [int(match[1]) for word in running.words if (match := _CODE.fullmatch(word))]
    return codes[-1] if codes else None


def why(running: Running, disk: Path, code: int) -> str:
    """Return why the client ended with this code: the problems of its result, or else what it printed."""
    try:
        problems = control.read_result(disk).get("problems") or ()
    except EnvironmentProblem:
        problems = ()
    return "; ".join(map(str, problems)) or reason(running.said_before(f"driver ended with code {code}"))


def before_checkpoint(running: Running, disk: Path, folder: Folder) -> ServsimError:
    """Return the error of a guest that powered off before its checkpoint."""
    console = f"the guest's console is in {running.console}"
    ended = code(running)
    if _NOT_STARTED in running.words:
        said = reason(running.said_before(_NOT_STARTED))
        return EnvironmentProblem(f"the server did not start, {folder.path / 'start'} failed: {said}; {console}")
    if ended is None:
        return EnvironmentProblem(
            f"the guest ended before its checkpoint and {running.last_words()}; its console is in {running.console}"
        )
    client = f"{folder.path / 'client'} ended with exit code {ended} before the checkpoint"
    if ended == 0:
        return CheckFailed(f"{client}: it must go on until as many transactions have ended as ordered; {console}")
    return MEANING.get(ended, CheckFailed)(f"{client}: {why(running, disk, ended)}; {console}")
