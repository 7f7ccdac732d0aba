"""Which capture ``auto`` keeps, with recorders whose losses are known."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from servsim.disk import capture, lines, tracefs
from servsim.disk.chosen import Chosen, number_of
from servsim.errors import EnvironmentProblem, UsageError


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


def _lines() -> list[bytes]:
    """Two processes on two disks; the second request of `db` is issued by a thread of the kernel."""
    return [
        lines.line(f"block_rq_{kind}".encode(), 0, time, pid, device, b"R", told, b"", sector, 8, last)
        for kind, time, pid, device, told, sector, last in (
            ("issue", 10, 7, 8 << 20, 4096, 800, b"my db"),
            ("insert", 20, 7, 8 << 20, 4096, 1600, b"my db"),
            ("issue", 30, 9, 8 << 20, 4096, 2400, b"other"),
            ("issue", 40, 1, 8 << 20, 4096, 1600, b"kworker/0:1H"),
            ("complete", 50, 0, 8 << 20, None, 2400, b"0"),
            ("complete", 60, 0, 8 << 20, None, 800, b"0"),
            ("issue", 65, 7, 8 << 20 | 16, 4096, 800, b"my db"),
            ("complete", 70, 0, 8 << 20, None, 1600, b"0"),
            ("complete", 80, 0, 8 << 20 | 16, None, 800, b"0"),
        )
    ]


@pytest.mark.parametrize(
    ("devices", "processes", "kept"),
    [
        ((), (), range(9)),
        ((b"8,16",), (), (6, 8)),
        ((b"8,0",), ("my db",), (0, 1, 3, 5, 7)),
        ((), ("other",), (2, 4)),
        ((), ("kworker/0:1H",), (3, 7)),
        ((b"9,9",), (), ()),
    ],
)
def test_a_capture_keeps_the_disks_and_processes_asked_for_with_their_completions(
    devices: tuple[bytes, ...], processes: tuple[str, ...], kept: Sequence[int]
) -> None:
    sink = io.BytesIO()
    chosen = Chosen(sink, devices, processes)
    written = sum(chosen.write(line) for line in _lines())
    assert sink.getvalue() == b"".join(_lines()[at] for at in kept)
    assert written == len(sink.getvalue())


def test_a_disk_is_named_by_name_path_or_numbers_and_a_part_of_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sda" / "sda1" / "partition").mkdir(parents=True)
    (tmp_path / "8:1").symlink_to(tmp_path / "sda" / "sda1")
    assert number_of("8,0", tmp_path, tmp_path) == b"8,0"
    with pytest.raises(UsageError, match="part of sda, and requests are told of whole disks: name sda"):
        number_of("8,1", tmp_path, tmp_path)
    for name in ("nothing", str(tmp_path)):
        with pytest.raises(UsageError, match="no block device is called so; `lsblk` lists them"):
            number_of(name, tmp_path, tmp_path)


def test_a_capture_without_requests_tells_no_time_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from servsim.cli.disk import commands

    facts = {"method": "bpf", "method_reason": None, "tracer": 1, "seconds": 1.0, "lost_events": 0}
    (tmp_path / "trace").touch()
    monkeypatch.setattr(capture, "capture", lambda *_, **__: {**facts, "reader_cpu_seconds": 0.003})
    commands.capture(tmp_path / "trace", seconds=1.0)
    said = capsys.readouterr().out
    assert "0 requests in 1.0 s" in said and "0.003 s of processor time\n" in said
    assert "a request" not in said
