"""Native runs: the same server, settings, data and client as in the guest, on this host's processors.

Every run starts from a fresh copy of one loaded, vacuumed and checkpointed database, as every capture
does, so no run inherits what another left behind. Server and clients share the same processors, as
they do in the guest: children inherit the affinity that we take for the duration of a run.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim import cache
from servsim.capture.folder import shipped
from servsim.errors import EnvironmentProblem
from servsim.validation import postgres
from servsim.validation.plan import Configuration
from servsim.workloads import driver

#: A setting of the recipe that says where the guest's server tells its progress: ours tells it elsewhere.
_PLACES = ("listen_addresses", "logging_collector")
_SETTING = re.compile(r"^(\w+)\s*=\s*'?([^'#\n]*?)'?\s*(?:#.*)?$", re.M)


@dataclass(frozen=True)
class NativeRun:
    """One native run.

    Attributes
    ----------
    configuration
        Name of the configuration.
    round
        From 0; runs of one round follow one another.
    throughput
        Transactions per second.
    processor_seconds
        Processor time of server and clients during the measurement.
    elapsed_seconds
        Length of the measurement.
    windows
        Transactions in each window, where they were asked for.
    """

    configuration: str
    round: int
    throughput: float
    processor_seconds: float
    elapsed_seconds: float
    windows: list[int]


def settings_of_recipe(text: str) -> dict[str, str]:
    r"""Return the settings of the guest's ``postgresql.conf``, without those of places.

    Examples
    --------
    >>> settings_of_recipe("fsync = on   # why\njit = off\nlisten_addresses = ''")
    {'fsync': 'on', 'jit': 'off'}
    """
    return {name: value.strip() for name, value in _SETTING.findall(text) if name not in _PLACES}


@contextmanager
def pinned(processors: Sequence[int]) -> Iterator[None]:
    """Restrict this process, and what it starts, to some processors."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, processors)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def template(configuration: Configuration, say: Callable[[str], None]) -> Path:
    """Return the folder of the loaded database, made now if the cache has none.

    Loaded, vacuumed, frozen, analysed and checkpointed, like the guest's.
    """
    guest = configuration.guest()
    data = cache.folder("validation", configuration.scale) / "data"
    if data.is_dir():
        return data
    say(f"native: loading {configuration.scale}")
    scratch = data.with_name("data.loading")
    postgres.remove(scratch)
    try:
        postgres.create(scratch)
        with postgres.serve(scratch, {"fsync": "off", "autovacuum": "off"}) as socket:
            driver.answer(driver.path("servsim-oltp"), ["load", "--host", socket, *_loading(guest.load_arguments())])
            everywhere = [f"--host={socket}", "--username=postgres"]
            _tool("vacuumdb", *everywhere, "--all", "--freeze", "--analyze", "--quiet")
            _tool("psql", *everywhere, "--dbname=postgres", "--quiet", "--command=CHECKPOINT")
        scratch.rename(data)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return data


def _loading(settings: Sequence[str]) -> Iterator[str]:
    """Return the settings of the folder's ``load`` as words for the driver."""
    for setting in settings:
        name, value = setting.split("=", 1)
        yield from ("--" + name.removeprefix("data_"), value)


def _tool(name: str, *arguments: str) -> None:
    done = subprocess.run([postgres.program(name), *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentProblem(f"{name} failed: {done.stderr.strip()[-300:]}")


def measure(
    configuration: Configuration,
    processors: Sequence[int],
    seconds: float,
    *,
    round: int,
    window: float | None = None,
    say: Callable[[str], None],
) -> NativeRun:
    """Run one configuration once.

    Parameters
    ----------
    configuration
        What to run.
    processors
        Processors of this host; the first ``configuration.processors`` of them are used.
    seconds
        Length of the measurement; the warm-up comes before it.
    round
        Number of the round, which is also the seed of the requests, less one.
    window
        Width of windows in seconds.
    say
        Takes lines of progress.
    """
    whole = template(configuration, say)
    recipe = settings_of_recipe((shipped("oltp") / "postgresql.conf").read_text())
    buffers = configuration.guest().values()["shared_buffers"]
    settings = {**recipe, "shared_buffers": buffers, **dict(configuration.server)}
    copy = whole.with_name("running")
    postgres.remove(copy)
    done = subprocess.run(["cp", "-a", whole, copy], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EnvironmentProblem(f"the database could not be copied: {done.stderr.strip()[-300:]}")
    # What loading and copying left to write must not reach the disk during the measurement.
    os.sync()
    options = [
        f"--users={configuration.users}",
        f"--warm-up={configuration.warm_up}",
        f"--seconds={seconds}",
        f"--seed={round + 1}",
    ]
    options += [f"--window-seconds={window}"] if window else []
    try:
        with pinned(processors[: configuration.processors]), postgres.serve(copy, settings) as socket:
            words: list[str | Path] = ["run", "--host", socket, "--json", *options]
            return _as_run(configuration.name, round, json.loads(driver.answer(driver.path("servsim-oltp"), words)))
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _as_run(name: str, round: int, report: dict[str, Any]) -> NativeRun:
    used = report["client_cpu"]
    windows = (report["windows"] or {}).get("transactions", [])
    busy = used["client_seconds"] + (used["server_seconds"] or 0.0)
    return NativeRun(name, round, report["transactions_per_second"], busy, report["elapsed_seconds"], windows)


def interleaved(
    configurations: Sequence[Configuration],
    processors: Sequence[int],
    rounds: int,
    seconds: float,
    say: Callable[[str], None],
) -> list[NativeRun]:
    """Run every configuration once per round, so that a drift of the host hits all alike."""
    runs = []
    for number in range(rounds):
        for configuration in configurations:
            found = measure(configuration, processors, seconds, round=number, say=say)
            say(f"native: round {number + 1}, {configuration.name}: {found.throughput:,.0f} transactions/s")
            runs.append(found)
    return runs
