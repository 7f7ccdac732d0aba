"""Simulated runs of the same configurations: captures, the one calibration, and the predictions."""

import json
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from servsim import _core, cache
from servsim.capture import store
from servsim.files import atomic_write
from servsim.hashes import file_hash
from servsim.simulation import simulate_text
from servsim.statistics.intervals import estimate
from servsim.validation.host import Host, describe
from servsim.validation.plan import BASE, Configuration, software
from servsim.variability import Interval, over_time

#: Transactions of a capture. All of them are simulated and measured: captures of one seed hold the same
#: requests, so a change is compared over the same work. A part of a trace would be another mix each time.
CAPTURED = 120
#: What warms the simulated caches: all of the capture, which then begins again. Natively the server has
#: served tens of thousands of transactions before it is measured; a capture is too short to warm them with
#: a part of it, and a part would be another share of its data in every configuration.
WARM_UP = "whole trace"
#: Clock at which the calibration starts, in hertz, when none is given.
FIRST_CLOCK_HZ = 4e9
#: The clock is found when the base is within this of its native throughput: less than native runs differ by.
#: Every further step is another run of all the base's captures. What is left over is printed.
TOLERANCE, MOST_STEPS = 0.05, 3


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
    from servsim.capture.workload import capture

    found = {}
    for seed in seeds:
        for configuration in configurations:
            name = software(configuration)
            path = folder / f"{name}-{seed}.svt"
            if not path.is_file():
                say(f"capturing {name}, seed {seed}")
                capture(CAPTURED, path, configuration.guest(), say, seed)
            found[name, seed] = path
    return found


class Simulator:
    """Runs captures on this host's description at one clock."""

    def __init__(
        self, host: Host, captures: dict[tuple[str, int], Path], say: Callable[[str], None], jobs: int | None = None
    ) -> None:
        self.host = host
        self.captures = captures
        self.say = say
        self.jobs = jobs or len(os.sched_getaffinity(0))

    def calibrate(self, throughput: float, start_hz: float = FIRST_CLOCK_HZ) -> float:
        """Return the clock in hertz at which the base has the native throughput, in transactions/s.

        The base waits for no disk, so its throughput is nearly proportional to the clock.
        """
        clock = start_hz
        for _ in range(MOST_STEPS):
            found = estimate([run.throughput for run in self.run([BASE], clock)]).mean
            if abs(found / throughput - 1) <= TOLERANCE:
                break
            clock = round(clock * throughput / found / 1e6) * 1e6  # as the description writes it
        return clock

    def run(self, configurations: Sequence[Configuration], clock_hz: float) -> list[SimulatedRun]:
        """Run configurations on each of their captures, ``jobs`` at once."""
        wanted = [(c, seed) for c in configurations for of, seed in self.captures if of == software(c)]
        with ThreadPoolExecutor(self.jobs) as pool:
            return list(pool.map(lambda pair: self._one(pair[0], pair[1], clock_hz), wanted))

    def _one(self, configuration: Configuration, seed: int, clock_hz: float) -> SimulatedRun:
        """Run one capture, or return what an earlier run of the same inputs found."""
        path = self.captures[software(configuration), seed]
        description, overrides = describe(self.host, clock_hz), [f"processors={configuration.processors}"]
        inputs = [file_hash(path), description, overrides, CAPTURED, seed, WARM_UP]
        inputs.append(file_hash(Path(str(_core.__file__))))
        kept = cache.folder("validation", "runs") / f"{store.digest(inputs)}.json"
        if kept.is_file():
            document = json.loads(kept.read_text())
            rows = [Interval(**row) for row in document.pop("over_time")]
            return replace(SimulatedRun(**document, over_time=rows), configuration=configuration.name)
        self.say(f"simulating {configuration.name}, capture {seed}, {clock_hz / 1e9:.2f} GHz")
        found = simulate_text(
            path,
            description,
            "this host",
            overrides=overrides,
            transactions=CAPTURED,
            seed=seed,
            threads=1,
            functional_warmup=WARM_UP,
        )
        run = _as_run(configuration.name, seed, found["replications"][0], clock_hz)
        atomic_write(kept, json.dumps(asdict(run)))
        return run


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
