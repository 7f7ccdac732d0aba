"""Models run on the arrivals of a trace, once or at several loads; the work is done in ``servsim._core``."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servsim import _core
from servsim.disk.api import Source, factor, parsed, source_text
from servsim.errors import UsageError
from servsim.limits import whole

#: Runs at each load: far more than any interval needs, and what they say still fits the memory.
_MOST_RUNS = 10_000


@dataclass(frozen=True)
class Simulation:
    """Outcome of :func:`simulate`.

    ``arrival_ns`` and ``response_ns`` (uint64) have one entry a request, device by device in order of
    arrival; ``summary`` is what ``servsim disk simulate --json`` prints.
    """

    summary: dict[str, Any]
    arrival_ns: npt.NDArray[np.uint64]
    response_ns: npt.NDArray[np.uint64]


def _using(
    model: str,
    seed: int,
    map_path: str | None,
    sets: Sequence[str],
    allow_other_device: bool,
    allow_unskilled: bool,
) -> dict[str, Any]:
    """Return what the native module is told of a model to run."""
    return {
        "model": model,
        "seed": seed,
        "map": map_path,
        "sets": list(sets),
        "allow_other_device": allow_other_device,
        "allow_unskilled": allow_unskilled,
    }


def simulate(
    source: Source | str,
    model: str,
    *,
    mode: str = "closed",
    load: float = 1.0,
    seed: int = 0,
    map_path: str | None = None,
    sets: Sequence[str] = (),
    allow_other_device: bool = False,
    allow_unskilled: bool = False,
    times: bool = True,
    output: str | None = None,
) -> Simulation:
    """Run a model file on the requests of a trace.

    Parameters
    ----------
    source
        The trace whose requests arrive.
    model
        Model file.
    mode
        ``closed``: arrivals only, the server makes the queue. ``open``: queue from the trace.
    load
        Factor on the density of arrivals (closed loop only).
    seed
        Seed of the draws.
    map_path
        Block map written by :func:`reorganize`, applied first.
    sets
        Sets of drives, each drive like the model, in place of single drives: ``LEVEL:DRIVES`` with
        ``raid0``, ``raid1`` or ``raid5``, then ``,unit=SIZE``; for one device of the trace
        ``DEVICE=LEVEL:DRIVES``.
    allow_other_device
        Take a model of another device.
    allow_unskilled
        Take a model that failed its trial when it was fitted.
    times
        Return the times of all requests; without them the arrays are empty, and memory does not hold them.
    output
        File for the times as CSV: ``arrival_ns,response_ns``, and of several devices ``device``, a line for each
        request, device by device in order of arrival.
    """
    using = _using(model, seed, map_path, sets, allow_other_device, allow_unskilled)
    request = {"using": using, "mode": mode, "load": factor(load), "times": times, "output": output}
    summary, arrivals, responses = _core.disk_simulate(source_text(source), json.dumps(request))
    return Simulation(
        parsed(summary), np.frombuffer(arrivals, dtype=np.uint64), np.frombuffer(responses, dtype=np.uint64)
    )


def sweep(
    source: Source | str,
    model: str,
    loads: Sequence[float] | None = None,
    *,
    runs: int = 4,
    seed: int = 0,
    map_path: str | None = None,
    sets: Sequence[str] = (),
    allow_other_device: bool = False,
    allow_unskilled: bool = False,
) -> dict[str, Any]:
    """Run a model file on the arrivals of a trace at several loads, and find the knee.

    Parameters
    ----------
    source, model, map_path, sets, allow_other_device, allow_unskilled
        As for :func:`simulate`.
    loads
        Factors on the density of arrivals, ascending; up to where the busiest device saturates if ``None``.
    runs
        Runs at each load; they differ in their draws, and are the same at all loads.
    seed
        Seed of the first run.

    Returns
    -------
    dict
        ``devices``, each with ``sweep``: ``points`` (a load, with ``figures`` of responses, throughput and use, or why
        it was ``refused``), the ``knee`` (where throughput over mean response is highest) and ``saturated_from``.

    Raises
    ------
    servsim.errors.UsageError
        When a load is no positive number, loads do not ascend, or there are none.
    """
    whole("runs", runs, 1, _MOST_RUNS)
    if loads is not None and not loads:
        raise UsageError("a sweep needs at least one load")
    using = _using(model, seed, map_path, sets, allow_other_device, allow_unskilled)

    def run(loads: Sequence[float], runs: int) -> dict[str, Any]:
        request = {"using": using, "loads": [factor(load) for load in loads], "runs": runs}
        return parsed(_core.disk_sweep(source_text(source), json.dumps(request)))

    if loads is None:
        points = [point for device in run([1.0], 1)["devices"] for point in device["sweep"]["points"]]
        used = [point["figures"]["utilization"] for point in points if point["figures"]]
        loads = _up_to_saturation(max(used, default=1.0))
    return run(loads, runs)


def _up_to_saturation(utilization: float) -> list[float]:
    """Return round loads from a tenth of what saturates a device to a tenth beyond, given its use at load 1."""
    most = 1.0 / max(utilization, 1e-3)
    return sorted({1.0, *(float(f"{most * tenths / 10:.2g}") for tenths in range(1, 12))})
