"""Calls of the Python interface with odd values, drawn at random from calls that work."""

import math
import random
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import servsim
from servsim import disk, model
from servsim.classification import classify
from servsim.critical_point import critical_point
from servsim.errors import InternalBug, ServsimError
from servsim.machine_partitions import cut, shapes
from servsim.model import Closed, Network, Open, Pool, Station
from servsim.monitor import watch
from servsim.sampling import sample
from servsim.simulation import simulate_each
from servsim.variability import variability

Call = tuple[Callable[..., object], dict[str, Any]]

#: Seconds that a call may take; few should need a tenth of it.
SECONDS = 60
NUMBERS = (-1, 0, 1, 2, 3, 0.5, -0.5, math.nan, math.inf, -math.inf, 1e308, 1e-308, 2**31, 2**63, 2**64, 2**70, True)
#: Among them names of files that are not there, that no file can have, and of folders.
TEXTS = ("", "x", "\u00fc", "\0", "a" * 5000, "line", "cycles", "-1", "nan", "auto", "none", "nothing.svt", ".")


def calls(trace: Path, requests: Path, disk_model: Path) -> list[Call]:
    """Return what is called, each with arguments that work or nearly so; few of them do much."""
    run = servsim.simulate(trace, "foglia-2004-4p")
    closed = Network([Closed("users", 5, think=1.0)], [Station("cpu", 0.01, servers=2), Station("disk", 0.02)])
    opened = Network([Open("jobs", 20.0)], [Station("cpu", 0.01)])
    measured = {"transactions": 1, "warmup": 1, "seed": 1}
    fitted = {"kind": "unconditional", "train": 0.5, "seed": 1}
    return [
        (servsim.simulate, {"trace": trace, "machine": "foglia-2004-4p", "users": 1, "threads": 1, **measured}),
        (simulate_each, {"trace": trace, "machine": "foglia-2004-4p", "each": {"processors": ["1", "2"]}, "seed": 1}),
        (sample, {"trace": trace, "machine": "foglia-2004-4p", "precision": 0.5, "users": 1, "threads": 1, **measured}),
        (variability, {"traces": [trace], "machine": "foglia-2004-4p", "parts": 1, "replications": 2, **measured}),
        (
            classify,
            {"trace": trace, "machine": "foglia-2004-4p", "by": "line", "sort": "total", "top": 3, "symbols": None},
        ),
        (watch, {"trace": trace, "machine": "brock-2001-2x4", "mode": "card", **measured}),
        (servsim.compare, {"results": [run, run], "by": "cycles_per_transaction"}),
        (servsim.load, {"path": requests}),
        (servsim.Trace, {"path": trace}),
        (servsim.Machine, {"name": "foglia-2004-4p", "settings": {"cache.size": "1 MiB"}}),
        (run.estimate, {"path": "cycles_per_transaction"}),
        (cut, {"machine": "brock-2001-4x4", "partitions": {"a": [0], "b": [1]}}),
        (shapes, {"nodes": 4}),
        (critical_point, {"curves": {1: [0.9, 1.0], 2: [1.8, 1.9], 4: [3.0, 3.1]}, "least_gain": 0.5}),
        (disk.Source, {"path": str(requests), "format": None, "device": None}),
        (disk.load, {"source": str(requests)}),
        (disk.info, {"path": str(disk_model)}),
        (disk.fit, {"source": str(requests), "slots": None, **fitted}),
        (disk.evaluate, {"source": str(requests), "loads": [1.0], **fitted}),
        (disk.simulate, {"source": str(requests), "model": str(disk_model), "mode": "closed", "load": 1.0, "seed": 1}),
        (disk.sweep, {"source": str(requests), "model": str(disk_model), "loads": [0.5, 1.0], "runs": 2, "seed": 0}),
        (disk.reorganize, {"source": str(requests), "blocks": 10, "load": 1.0, **fitted}),
        (Station, {"name": "x", "demand": 0.1, "servers": 1, "discipline": "ps", "visits": 1.0, "cv": 1.0}),
        (Closed, {"name": "u", "population": 3, "think": 1.0, "priority": 0}),
        (Open, {"name": "u", "rate": 3.0, "priority": 0}),
        (Pool, {"name": "p", "size": 2, "stations": ["cpu"]}),
        (model.solve, {"network": closed, "solver": "auto", "tolerance": None, "requests": 1000, "replications": 2}),
        (model.solve, {"network": opened, "solver": "auto", "percentiles": [0.9]}),
        (model.curve, {"network": closed, "populations": [1, 5], "solver": "auto"}),
        (model.sweep, {"demands": [[0.1, 0.2], [0.3]], "think": [1.0, 2.0], "population": [3, 4]}),
        (model.what_if, {"network": closed, "solver": "auto"}),
        (model.fit, {"text": "[1]", "method": "nnls", "drift": 0.02, "measurement": 0.05, "is_json": True}),
        (Network.from_toml, {"text": "x"}),
    ]


def drawn(rng: random.Random, known: list[Call]) -> Call:
    """Return a call with one to three of its arguments replaced by others of their kind."""
    function, arguments = rng.choice(known)
    given = dict(arguments)
    for name in rng.sample(list(given), min(len(given), rng.choice((1, 1, 1, 2, 3)))):
        given[name] = _odd(rng, given[name])
    return function, given


def _odd(rng: random.Random, value: Any) -> Any:
    """Return another value of a kind; one of any where there was none."""
    if value is None:
        return rng.choice((*NUMBERS, *TEXTS))
    if isinstance(value, int | float):
        return rng.choice(NUMBERS)
    if isinstance(value, str | Path):
        return rng.choice(TEXTS)
    if isinstance(value, dict):
        return rng.choice(({}, {key: _odd(rng, one) for key, one in value.items()}))
    if isinstance(value, list):
        return rng.choice(([], value + value, [_odd(rng, one) for one in value], [*value[:-1], _odd(rng, value[-1])]))
    return value


class _Late(Exception):
    pass


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def outcome(function: Callable[..., object], arguments: dict[str, Any]) -> str:
    """Call; return ``answered`` or ``refused``, or else what is wrong with how it ended."""
    try:
        with _at_most(SECONDS), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            function(**arguments)
    except _Late:
        return f"no end within {SECONDS} s"
    except InternalBug as bug:
        return f"a bug: {bug}"
    except ServsimError as refused:
        return "refused" if str(refused).strip() else "refused without a word"
    except TypeError:
        # A number that is not whole where one must be, and the like: the language says so.
        return "refused"
    except Exception as other:
        return f"{type(other).__name__}: {other}"
    return "answered"
