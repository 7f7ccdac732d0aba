"""Calls of the Python interface with odd values end with an answer or an error of ours, in time.

`make test` draws some; acceptance draws for SERVSIM_MINUTES, with a seed of its own (SERVSIM_SEED repeats one).
"""

import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import islice, takewhile
from pathlib import Path

import drawn_calls as drawn
import pytest
from example_files import requests as write_requests
from servsim import _core, disk
from servsim.environment import shipped_trace


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[drawn.Call]]:
    """Yield the calls that others are drawn from, in a folder of their own."""
    folder = tmp_path_factory.mktemp("calls")
    trace, requests, fitted = folder / "t.svt", folder / "d.csv", folder / "d.model"
    shipped = shipped_trace()
    assert shipped is not None
    _core.trace_cut(shipped, trace, (2, 5), None, None)
    write_requests(requests, 600)
    disk.fit(str(requests), str(fitted), kind="unconditional")
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield drawn.calls(trace, requests, fitted)
    finally:
        os.chdir(before)


def tried(calls: Iterator[drawn.Call]) -> tuple[Counter[str], list[str]]:
    """Make calls; count how they ended, and return those that ended otherwise than promised."""
    ends: Counter[str] = Counter()
    broken = []
    for function, arguments in calls:
        end = drawn.outcome(function, arguments)
        ends[end if end in ("answered", "refused") else "broken"] += 1
        if end not in ("answered", "refused"):
            broken.append(
                f"{function.__qualname__} { ({name: repr(one)[:80] for name, one in arguments.items()}) }: {end}"
            )
    return ends, broken


def endless(seed: int, known: list[drawn.Call]) -> Iterator[drawn.Call]:
    rng = random.Random(seed)
    while True:
        yield drawn.drawn(rng, known)


def test_calls_drawn_at_random_end_as_promised(known: list[drawn.Call]) -> None:
    ends, broken = tried(islice(endless(1, known), 150))
    assert broken == [], "\n".join(broken)
    assert min(ends["answered"], ends["refused"]) > 20, f"too few of one kind to be worth drawing: {ends}"


@pytest.mark.acceptance
@pytest.mark.timeout(7200)
@pytest.mark.skipif("SERVSIM_MINUTES" not in os.environ, reason="SERVSIM_MINUTES says for how long")
def test_calls_drawn_for_minutes_end_as_promised(known: list[drawn.Call]) -> None:
    seed = int(os.environ.get("SERVSIM_SEED", time.time()))
    end = time.monotonic() + 60 * float(os.environ["SERVSIM_MINUTES"])
    ends, broken = tried(takewhile(lambda _: time.monotonic() < end, endless(seed, known)))
    print(f"seed {seed}: {dict(ends)}")
    assert broken == [], f"seed {seed}:\n" + "\n".join(broken)


def _fails(how: BaseException) -> Callable[[], object]:
    def call() -> object:
        raise how

    return call


@pytest.mark.parametrize("how", [KeyError("x"), ValueError("x"), RuntimeWarning("Mean of empty slice")])
def test_an_error_of_the_language_is_none_of_ours(how: BaseException) -> None:
    assert drawn.outcome(_fails(how), {}).startswith(type(how).__name__)
