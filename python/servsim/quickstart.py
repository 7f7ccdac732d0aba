"""The main job, end to end: capture a real workload, simulate it on a server, report.

Where the guest cannot run, for want of privilege or of an emulator, a small trace that was really
captured and ships with servsim takes the place of the capture, and the answer says so. Nothing else
changes: the same simulation, the same report.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from servsim.environment import capture_obstacle, shipped_trace
from servsim.errors import EnvironmentProblem, UsageError
from servsim.files import atomic_write, make_folder
from servsim.json_text import json_text

#: The machine that quickstart asks about: four processors on one bus.
MACHINE = "foglia-2004-4p"

#: Transactions to capture and users that issue them: 24 for each of 12 users, three users per processor.
#: The middle half is measured, twelve transactions of each user: with fewer those whom one write of the log served in
#: the capture stay in step through the whole window, and a few long ones make a pause that is told as a weakness.
TRANSACTIONS = 288
USERS = 12

#: Replications, each with its own seed: two for each of two host processors, so that people need not wait long.
REPLICATIONS = 4

Progress = Callable[..., None]


class Capture(Protocol):
    """Captures transactions of the running workload into a trace file."""

    def __call__(self, transactions: int, output: Path, users: int, progress: Progress) -> object:
        """Capture and return a summary."""


class Simulate(Protocol):
    """Simulates a trace on a machine and returns a ``servsim.simulate/1`` document."""

    def __call__(
        self,
        trace: Path,
        machine: str,
        *,
        replications: int,
        seed: int,
        progress: Callable[[int], None],
    ) -> dict[str, Any]:
        """Measure the middle of the trace and return the result; progress receives references simulated."""


@dataclass(frozen=True)
class Steps:
    """What the job is made of; tests put stand-ins here."""

    obstacle: Callable[[], str | None]
    shipped: Callable[[], Path | None]
    capture: Capture
    count: Callable[[Path], int]
    scale: Callable[[Path], str | None]
    simulate: Simulate


def steps() -> Steps:
    """Return the real steps, loading the parts they need."""
    simulate: Simulate = import_module("servsim.simulation").simulate
    return Steps(capture_obstacle, shipped_trace, capture_oltp, transactions_in, scale_of, simulate)


def capture_oltp(transactions: int, output: Path, users: int, progress: Progress) -> object:
    """Capture the OLTP workload under so many users."""
    from servsim.capture.folder_settings import chosen
    from servsim.capture.workload import capture

    return capture(transactions, output, chosen("oltp", users=users), progress)


def transactions_in(trace: Path) -> int:
    """Return how many transactions end in a trace.

    Raises
    ------
    UsageError
        If the trace is truncated, so that its totals are missing, or ends no transaction.
    """
    from servsim.trace.files import captured_facts

    totals = captured_facts(trace)["totals"]
    if not totals or not totals["transactions"]:
        raise UsageError(f"{trace} holds no complete transactions: capture it again")
    return int(totals["transactions"])


def scale_of(trace: Path) -> str | None:
    """Return how large the captured database was, or None of a trace that does not say."""
    from servsim.trace.files import captured_facts

    provenance = captured_facts(trace)["meta"]["provenance"]
    return provenance.get("scale") if isinstance(provenance, dict) else None


@dataclass(frozen=True)
class Plan:
    """What to do.

    Attributes
    ----------
    output : Path
        The report; result and trace are put beside it under the same name.
    transactions, users : int
        How many transactions to capture, from how many concurrent users.
    replications, seed : int
        How many replications to simulate, and the first one's seed.
    machine : str
        Name or file of the machine.
    capture : bool
        Whether to try a capture at all.
    """

    output: Path
    transactions: int = TRANSACTIONS
    users: int = USERS
    replications: int = REPLICATIONS
    seed: int = 1
    machine: str = MACHINE
    capture: bool = True


@dataclass(frozen=True)
class Outcome:
    """What came of it: the trace, the scale of its database, why it was not captured here (or None), result, report."""

    trace: Path
    scale: str | None
    obstacle: str | None
    result: dict[str, Any]
    report: Path

    def as_document(self) -> dict[str, Any]:
        """Return the outcome as the document ``servsim.quickstart/1``."""
        return {
            "schema": "servsim.quickstart/1",
            "captured": self.obstacle is None,
            "obstacle": self.obstacle,
            "trace": str(self.trace),
            "scale": self.scale,
            "report": str(self.report),
            "result": self.result,
        }


def run(plan: Plan, job: Steps, say: Callable[[str], None], progress: Progress) -> Outcome:
    """Do the main job.

    Parameters
    ----------
    plan : Plan
        What to do.
    job : Steps
        How to do it; `steps` returns the real ones.
    say : callable
        Receives one sentence at each step.
    progress : callable
        Receives what is being done and, when known, the fraction done.

    Returns
    -------
    Outcome
        Trace, result and report.

    Raises
    ------
    EnvironmentProblem
        If nothing can be captured and the shipped trace is missing.
    """
    from servsim import report
    from servsim.progress import expected_references, of_references

    trace, obstacle = _trace(plan, job, say, progress)
    held = job.count(trace)
    say(f"Simulating the middle of {held} transactions on {plan.machine}, {plan.replications} replications.")
    expected = expected_references(trace, replications=plan.replications)
    result = job.simulate(
        trace=trace,
        machine=plan.machine,
        replications=plan.replications,
        seed=plan.seed,
        progress=of_references(progress, f"simulating {plan.replications} runs", expected),
    )
    document = plan.output.with_suffix(".json")
    make_folder(document.parent)
    atomic_write(document, json_text(result))
    return Outcome(trace, job.scale(trace), obstacle, result, report.write([report.load(document)], plan.output))


def _trace(plan: Plan, job: Steps, say: Callable[[str], None], progress: Progress) -> tuple[Path, str | None]:
    """Capture a trace, or say in one sentence why the shipped one is used."""
    obstacle = job.obstacle() if plan.capture else "none was wanted"
    if obstacle is None:
        captured = plan.output.with_suffix(".svt")
        captured.parent.mkdir(parents=True, exist_ok=True)

        def told(line: str, fraction: float | None = None) -> None:
            """Let steps stay on the terminal, and how far one is change in place."""
            say(line) if fraction is None else progress(line, fraction)

        say(f"Capturing {plan.transactions} transactions of {plan.users} users, with their kernel.")
        try:
            job.capture(transactions=plan.transactions, output=captured, users=plan.users, progress=told)
        except EnvironmentProblem as problem:
            obstacle = str(problem)
        else:
            return captured, None
    shipped = job.shipped()
    if shipped is None:
        raise EnvironmentProblem(
            f"nothing can be captured here: {obstacle}; and the trace that ships with servsim is missing: reinstall it"
        )
    say(f"No capture was made: {obstacle}; using the really captured trace that ships with servsim.")
    return shipped, obstacle


def answer(outcome: Outcome) -> Sequence[str]:
    """Return the answer in ten lines, the last one naming the report."""
    from servsim.report import check
    from servsim.report.summary import summary

    where = "captured here" if outcome.obstacle is None else "shipped with servsim"
    lines = summary(check(outcome.result, "this run"))
    scale = f"; {outcome.scale}" if outcome.scale else ""
    return [*lines[:1], f"Trace: {outcome.trace}, {where}{scale}", *lines[1:], f"Report: {outcome.report}"]
