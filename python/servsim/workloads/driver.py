"""Finds and runs the compiled drivers; turns their exit codes into servsim's exceptions."""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from servsim import cache
from servsim.capture.process import die_with_parent
from servsim.errors import CheckFailed, EnvironmentProblem, InternalBug, ServsimError, UsageError

__all__ = ["answer", "path", "run"]

#: What each exit code of a driver means.
MEANING: dict[int, type[ServsimError]] = {1: CheckFailed, 2: UsageError, 3: EnvironmentProblem}


#: So many messages of a driver are shown; of more the first.
SHOWN = 3


def path(name: str) -> Path:
    """Return the program ``name``: beside the package, from a build of the working copy, or on the PATH."""
    repository = cache.repository()
    candidates = [Path(__file__).resolve().parents[1] / "bin" / name]
    if repository is not None:
        target = Path(os.environ.get("CARGO_TARGET_DIR", repository / "target"))
        candidates.append(target / "release" / name)
    found = next((str(candidate) for candidate in candidates if candidate.is_file()), None) or shutil.which(name)
    if found is None:
        cache.checkout("running a workload")
        raise EnvironmentProblem(
            f"the driver {name} is not built: run 'make build' (or 'cargo build --release --bins')"
        )
    return Path(found)


def run(
    program: Path,
    arguments: Sequence[str | Path],
    *,
    name: str | None = None,
    environment: dict[str, str] | None = None,
    folder: Path | None = None,
    out: IO[str] | None = None,
) -> None:
    """Run a driver to its end: its data go to our standard output, its progress to standard error.

    Parameters
    ----------
    program, arguments
        The command.
    name
        What the driver calls itself in its messages; the program's name unless given.
    environment, folder
        Its environment and its working folder; ours unless given.
    out
        The file that takes its data instead.

    Raises
    ------
    CheckFailed, UsageError, EnvironmentProblem
        With the driver's own last sentence, by its exit code.
    """
    sys.stdout.flush()
    process = subprocess.Popen(
        [program, *arguments],
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        cwd=folder,
        preexec_fn=die_with_parent,  # noqa: PLW1509 - it calls nothing but prctl
    )
    name = name or program.name
    prefix = f"{name}: "
    messages: list[str] = []
    try:
        assert process.stderr is not None
        for line in process.stderr:
            # Libraries that read a command line say `error:`, whatever the program is called.
            known = next((start for start in (prefix, "error: ") if line.startswith(start)), None)
            if known is not None:
                messages.append(line.removeprefix(known).strip())
            else:
                print(line, end="", file=sys.stderr, flush=True)
        code = process.wait()
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
    if code != 0:
        # Somebody else's script may end with any code; our own programs have a bug then.
        unknown = InternalBug if name == program.name else CheckFailed
        who = name if program.name == "client" else program.name
        raise MEANING.get(code, unknown)(_told(messages) or f"{who} ended with exit code {code}")
    for line in messages:
        print(f"{prefix}{line}", file=sys.stderr, flush=True)


def _told(messages: Sequence[str]) -> str:
    """Return a driver's messages as one sentence: where all users fail at once, what happened to the first says why."""
    if len(messages) <= SHOWN:
        return "; ".join(messages)
    return f"{messages[0]}; and {len(messages) - 1} problems more, which the report names"


def answer(program: Path, arguments: Sequence[str | Path]) -> str:
    """Run a driver to its end and return what it printed.

    Raises
    ------
    CheckFailed, UsageError, EnvironmentProblem
        With the driver's own last sentence, by its exit code.
    """
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        prefix = f"{program.name}: "
        told = [line.removeprefix(prefix) for line in done.stderr.splitlines() if line.startswith(prefix)]
        message = _told(told) or f"{program.name} ended with exit code {done.returncode}"
        raise MEANING.get(done.returncode, InternalBug)(message)
    return done.stdout
