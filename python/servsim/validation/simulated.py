"""Simulated runs of the same configurations: captures, the one calibration, and the predictions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim.simulation import simulate_text
from servsim.statistics.intervals import estimate
from servsim.validation.host import Host, describe
from servsim.validation.plan import BASE, Configuration, software
from servsim.variability import Interval, over_time

#: Transactions of a capture; the first warm the simulated caches up, the last are left out, because
#: users that have finished no longer load the server then.
CAPTURED, WARM_UP, MEASURED = 120, 20, 80
#: Clock of the run from which the calibration starts, in hertz: any does, for that run waits for no disk.
FIRST_CLOCK_HZ = 4e9


@dataclass(frozen=True)
class SimulatedRun:
    """One simulated run: a configuration on one of its captures.

    ``throughput`` is in transactions per second, ``processor_share`` the part of the processors' time
    that was not idle, ``memory_share`` the part that waited for memory, ``writes`` the disk writes and
    flushes per transaction, ``over_time`` the variation of work within the run.
    """

    configuration: str
    capture: int
    throughput: float
    processor_share: float
    memory_share: float
    writes: float
    over_time: list[Interval]


def capture_all(
    configurations: Sequence[Configuration], seeds: Sequence[int], folder: Path, say: Callable[[str], None]
) -> dict[tuple[str, int], Path]:
    """Return the captures by software configuration and seed, making those that the folder lacks."""
    from servsim.capture.oltp import capture

    found = {}
    for seed in seeds:
        for configuration in configurations:
            name = software(configuration)
            path = folder / f"{name}-{seed}.svt"
            if not path.is_file():
                say(f"capturing {name}, seed {seed}")
                capture(CAPTURED, path, progress=say, seed=seed, settings=configuration.guest())
            found[name, seed] = path
    return found


class Simulator:
    """Runs captures on this host's description at one clock."""

    def __init__(self, host: Host, captures: dict[tuple[str, int], Path], say: Callable[[str], None]) -> None:
        self.host = host
        self.captures = captures
        self.say = say

    def calibrate(self, throughput: float) -> float:
        """Return the clock in hertz at which the base has the native throughput, in transactions/s.

        The base waits for no disk, so its throughput is proportional to the clock.
        """
        runs = self.run(BASE, FIRST_CLOCK_HZ)
        return FIRST_CLOCK_HZ * throughput / estimate([run.throughput for run in runs]).mean

    def run(self, configuration: Configuration, clock_hz: float) -> list[SimulatedRun]:
        """Run a configuration on each of its captures."""
        name = software(configuration)
        runs = []
        for (of, seed), path in self.captures.items():
            if of == name:
                self.say(f"simulating {configuration.name}, capture {seed}, {clock_hz / 1e9:.2f} GHz")
                found = simulate_text(
                    path,
                    describe(self.host, clock_hz),
                    "this host",
                    overrides=[f"processors={configuration.processors}"],
                    warmup=WARM_UP,
                    transactions=MEASURED,
                    seed=seed,
                )["replications"][0]
                runs.append(_as_run(configuration.name, seed, found, clock_hz))
        return runs


def _as_run(name: str, seed: int, found: dict[str, Any], clock_hz: float) -> SimulatedRun:
    times = found["processors"]
    whole = sum(sum(t.values()) for t in times) or 1
    transactions = found["transactions"]
    return SimulatedRun(
        name,
        seed,
        transactions * clock_hz / found["cycles"],
        1 - sum(t["idle"] for t in times) / whole,
        sum(t["memory_stall"] for t in times) / whole,
        found["disk"]["writes"] / transactions,
        over_time([found]),
    )
