"""The whole job: look at the host, measure natively, capture, calibrate, predict, compare."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from servsim import cache
from servsim.errors import EnvironmentProblem, UsageError
from servsim.statistics.intervals import estimate
from servsim.validation import host as hosts
from servsim.validation import native, record, simulated, study, text, windows
from servsim.validation.plan import BASE, Configuration

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wish:
    """What was asked for; see the options of ``servsim validate``."""

    changes: Sequence[Configuration]
    rounds: int
    seconds: float
    captures: int
    long_runs: int
    long_seconds: float
    native: Path | None
    traces: Path | None
    measure_only: bool
    jobs: int | None = None
    clock_hz: float = simulated.FIRST_CLOCK_HZ


@dataclass(frozen=True)
class Outcome:
    """The study as JSON-ready data and as text."""

    document: dict[str, Any]
    text: str


def run(wish: Wish, say: Say) -> Outcome | None:
    """Do what was wished; None if that ends with the native runs.

    Raises
    ------
    EnvironmentProblem
        When PostgreSQL, a second processor or the emulator is missing.
    CheckFailed
        When a native run or a capture is not valid.
    """
    measured = _native(wish, say)
    if wish.measure_only:
        return None
    folder = wish.traces or cache.folder("validation", "captures")
    configurations = [BASE, *wish.changes]
    captures = simulated.capture_all(configurations, range(1, wish.captures + 1), folder, say)
    simulator = simulated.Simulator(measured.host, captures, say, wish.jobs)
    base = [found.throughput for found in measured.runs if found.configuration == BASE.name]
    if not base:
        raise UsageError(f"the record of native runs has none of '{BASE.name}', on which everything is calibrated")
    clock = simulator.calibrate(estimate(base).mean, wish.clock_hz)
    runs = simulator.run(configurations, clock)
    return _outcome(wish, measured, runs, clock)


def _native(wish: Wish, say: Say) -> record.Record:
    """Return the native runs, from the record if there is one."""
    if wish.native is not None and wish.native.is_file():
        return record.read(wish.native)
    configurations = [BASE, *wish.changes]
    seconds = len(configurations) * wish.rounds * wish.seconds + wish.long_runs * wish.long_seconds
    missing = f"there is no record {wish.native} yet: " if wish.native is not None else ""
    say(f"{missing}measuring this host for more than {seconds / 60:.0f} minutes")
    found = hosts.look(cache.folder("validation"), max(c.processors for c in configurations))
    say(found.text())
    for configuration in configurations:
        native.template(configuration, say)
    runs = native.interleaved(configurations, found.processors, wish.rounds, wish.seconds, say)
    long = []
    for number in range(wish.long_runs if wish.long_seconds > 0 else 0):
        say(f"native: long run {number + 1}")
        width = windows.WIDTH_SECONDS
        long.append(native.measure(BASE, found.processors, wish.long_seconds, round=number, window=width, say=say))
    measured = record.Record(found, runs, long)
    if wish.native is not None:
        measured.write(wish.native)
    return measured


def _outcome(wish: Wish, measured: record.Record, runs: Sequence[simulated.SimulatedRun], clock_hz: float) -> Outcome:
    rows = study.rows(wish.changes, measured.runs, runs)
    real = windows.spreads([found.windows for found in measured.long], windows.WIDTH_SECONDS) if measured.long else []
    ours = windows.simulated([found.over_time for found in runs if found.configuration == BASE.name], clock_hz)
    facts = {
        "host": asdict(measured.host),
        "guest_server": _guest_server(),
        "driver": "clients share the server's processors, natively as in the guest; no think times",
        "calibration": {
            "on": BASE.name,
            "clock_hz": clock_hz,
            "flush_seconds": measured.host.flush_seconds,
            "machine": hosts.describe(measured.host, clock_hz),
        },
        "native_runs": [asdict(found) for found in measured.runs],
        "simulated_runs": [asdict(found) for found in runs],
        "variability": {
            "native": [asdict(row) for row in real],
            "native_between_runs_percent": (
                windows.between_percent([found.throughput for found in measured.long]) if measured.long else None
            ),
            "simulated": [asdict(row) for row in ours],
        },
    }
    document = study.document(rows, facts)
    parts = [measured.host.text() + f" (guest: {facts['guest_server']})", text.table(rows), text.summary(document)]
    if real:
        parts.append(text.spread_table("variability over time, native", "transactions per window", real))
    if ours:
        parts.append(text.spread_table("variability over time, simulated", "instructions per window", ours))
    return Outcome(document, "\n\n".join(parts))


def _guest_server() -> str:
    """Return the version of the guest's server, where the guest can be had here."""
    from servsim.capture.image import ensure_image

    try:
        return hosts.version_in(ensure_image(BASE.guest()).server)
    except EnvironmentProblem:
        return "unknown"
