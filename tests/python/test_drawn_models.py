"""Models drawn at random are answered in time, with figures that keep the laws, or refused in a sentence.

`make test` draws a few; acceptance draws for SERVSIM_MINUTES, with a seed of its own (SERVSIM_SEED repeats one).
"""

import multiprocessing
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from multiprocessing.connection import Connection

import drawn_models as drawn
import pytest
from servsim.model import Network

#: How long an answer may take. Few should need a tenth of it.
SECONDS = 60.0
#: Searches, each step of which is an answer, and which tell how far they are: they are stopped then, and that is all.
SEARCHES = ("plan",)


def _answer(pipe: Connection) -> None:
    """Answer questions until the other end is gone."""
    while True:
        try:
            question, about = pipe.recv()
        except EOFError:
            return
        pipe.send(drawn.ask(question, about))


class Asked:
    """A process that answers, in whose place another is started when it takes too long: what is compiled cannot be
    interrupted from within.
    """

    def __init__(self) -> None:
        self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_answer, args=(other,), daemon=True)
        self._process.start()
        other.close()

    def __call__(self, question: str, about: Network) -> tuple[bool, list[str]]:
        """Return whether it was answered, and what is wrong with the answer."""
        self._pipe.send((question, about))
        fault = [] if question in SEARCHES else [f"no answer within {SECONDS:g} s"]
        try:
            if self._pipe.poll(SECONDS):
                found: tuple[bool, list[str]] = self._pipe.recv()
                return found
        except EOFError:
            fault = ["the process that was asked ended"]
        self.close()
        self._start()
        return False, fault

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()
        self._pipe.close()


@pytest.fixture
def asked() -> Iterator[Asked]:
    process = Asked()
    yield process
    process.close()


def _tried(asked: Asked, seed: int, models: int, end: float) -> tuple[Counter[str], list[str]]:
    """Ask all questions about models until there are as many or the time is over; count answers by question."""
    rng = random.Random(seed)
    counted: Counter[str] = Counter()
    broken = []
    while counted["models"] < models and time.monotonic() < end:
        about = drawn.network(rng)
        counted["models"] += 1
        for question in drawn.QUESTIONS:
            began = time.monotonic()
            answered, faults = asked(question, about)
            counted[question] += answered
            counted["slow"] += time.monotonic() - began > SECONDS / 10
            broken += [f"{question}: {fault}\n    {about.description()}" for fault in faults]
    return counted, broken


def test_models_drawn_at_random_are_answered_or_refused(asked: Asked) -> None:
    counted, broken = _tried(asked, 1, 12, time.monotonic() + 600)
    assert broken == [], "\n".join(broken)
    assert all(counted[question] > 0 for question in drawn.QUESTIONS), f"too few answers to be worth drawing: {counted}"


@pytest.mark.acceptance
@pytest.mark.timeout(7200)
@pytest.mark.skipif("SERVSIM_MINUTES" not in os.environ, reason="SERVSIM_MINUTES says for how long")
def test_models_drawn_for_minutes_are_answered_or_refused(asked: Asked) -> None:
    seed = int(os.environ.get("SERVSIM_SEED", time.time()))
    counted, broken = _tried(asked, seed, 10**9, time.monotonic() + 60 * float(os.environ["SERVSIM_MINUTES"]))
    print(f"seed {seed}: {dict(counted)}")
    assert broken == [], f"seed {seed}:\n" + "\n".join(broken)
