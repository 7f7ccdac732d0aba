"""Steps of a slow job: each is announced, timed, and has a log that a failure names."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from servsim.capture.process import child
from servsim.errors import EnvironmentProblem
from servsim.text import reason

#: Takes one line of progress that stays, or with the fraction done one that the next takes the place of.
Report = Callable[..., None]


def silent(_line: str, _fraction: float | None = None) -> None:
    """Report nothing."""


class Steps:
    """Announces and times the steps of a job.

    Parameters
    ----------
    report
        Takes each line of progress.
    log
        File that collects the output of the job's programs; begun anew.
    """

    def __init__(self, report: Report, log: Path) -> None:
        self.report = report
        self.log = log
        log.write_bytes(b"")

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """Announce a step, and its duration when it succeeded."""
        self.report(f"{what} …")
        start = time.monotonic()
        yield
        self.report(f"{what}: {time.monotonic() - start:.1f} s")

    def run(self, what: str, command: Sequence[str | Path], *, env: dict[str, str] | None = None) -> None:
        """Run a program as a step of its own.

        Raises
        ------
        EnvironmentProblem
            When it cannot be started or fails: one sentence with what it called an error first, or else said last,
            and the log.
        """
        with self.step(what), self.log.open("ab") as output:
            output.write(f"== {what}: {' '.join(map(str, command))}\n".encode())
            output.flush()
            try:
                with child(command, output, env=env) as process:
                    code = process.wait()
            except FileNotFoundError as error:
                raise EnvironmentProblem(
                    f"{what} needs the program {error.filename}; install it with scripts/install-deps.sh"
                ) from error
        if code != 0:
            _, _, output_of_it = self.log.read_text(errors="replace").rpartition(f"== {what}: ")
            # What was refused first, such as a package that does not exist, is why everything after it failed.
            why = reason(output_of_it.partition("\n")[2])
            raise EnvironmentProblem(f"{what} failed with code {code}: {why}; all that it said is in {self.log}")
