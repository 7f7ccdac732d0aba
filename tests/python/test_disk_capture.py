"""Which capture ``auto`` keeps, with recorders whose losses are known."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from servsim.disk import capture, tracefs
from servsim.errors import EnvironmentProblem


class Counting:
    """A recorder that lost so many events, and writes its name."""

    period_s = 0.01

    def __init__(self, name: str, lost: int) -> None:
        self.name, self.lost = name, lost

    def record(self, on: bool) -> None: ...

    def copy(self, rest: bool = False) -> None: ...

    def lost_events(self) -> int:
        return self.lost

    def write(self, sink: IO[bytes]) -> int:
        return sink.write(f"# {self.name}\n".encode())


@pytest.fixture
def losses(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """What each method loses; those used are noted in the order of use."""
    losses: dict[str, int] = {}

    @contextmanager
    def recorder(method: str, folder: Path, mounted: Path) -> Iterator[Counting]:
        yield Counting(method, losses[method])

    def choose(method: str, mounted: Path) -> tuple[str, None]:
        return ("bpf" if method == "auto" else method), None

    monkeypatch.setattr(capture, "recorder", recorder)
    monkeypatch.setattr(capture, "choose", choose)
    monkeypatch.setattr(tracefs, "check", lambda mounted: None)
    return losses


@pytest.mark.parametrize(
    ("bpf", "other", "method", "kept"),
    [(0, 0, "auto", "bpf"), (211, 0, "auto", "tracefs"), (3, 9, "auto", "bpf"), (211, 0, "bpf", "bpf")],
)
def test_auto_keeps_the_capture_that_lost_fewer_events(
    losses: dict[str, int], tmp_path: Path, bpf: int, other: int, method: str, kept: str
) -> None:
    losses.update(bpf=bpf, tracefs=other)
    facts: dict[str, Any] = capture.capture(tmp_path / "trace", 0.02, method)
    lost = losses[kept]
    assert (facts["method"], facts["lost_events"]) == (kept, lost)
    text = (tmp_path / "trace").read_text()
    assert text == f"# {kept}\n" + (f"CPU:0 [LOST {lost} EVENTS]\n" if lost else "")
    assert (facts["method_reason"] is not None) == (kept == "tracefs")


def test_auto_keeps_what_it_has_where_nothing_else_works(
    losses: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(mounted: Path) -> None:
        raise EnvironmentProblem("not mounted")

    losses.update(bpf=7)
    monkeypatch.setattr(tracefs, "check", refuse)
    assert capture.capture(tmp_path / "trace", 0.02)["lost_events"] == 7
