"""The client of the emulator's control protocol, against a server that plays the emulator."""

import json
import socket
import threading
from collections.abc import Callable, Iterator

import pytest
from servsim.capture.qmp import Qmp, QmpClosed, QmpTimeout
from servsim.errors import EnvironmentProblem

Answer = Callable[[dict[str, object]], list[dict[str, object]]]
GREETING = {"QMP": {"version": {}, "capabilities": []}}


def serve(theirs: socket.socket, answer: Answer) -> None:
    """Greet, acknowledge the capabilities, then send what `answer` gives for each command."""
    with theirs, theirs.makefile("rw") as stream:

        def say(message: dict[str, object]) -> None:
            stream.write(json.dumps(message) + "\n")
            stream.flush()

        say(GREETING)
        for line in stream:
            command = json.loads(line)
            if command["execute"] == "qmp_capabilities":
                say({"return": {}})
                continue
            messages = answer(command)
            if not messages:
                return
            for message in messages:
                say(message)


@pytest.fixture
def connect() -> Iterator[Callable[[Answer], Qmp]]:
    threads = []
    ours, theirs = socket.socketpair()

    def start(answer: Answer) -> Qmp:
        threads.append(threading.Thread(target=serve, args=(theirs, answer), daemon=True))
        threads[-1].start()
        return Qmp(ours, timeout_s=5)

    yield start
    ours.close()
    for thread in threads:
        thread.join(5)


def test_a_command_returns_its_value_and_python_names_become_dashed(connect: Callable[[Answer], Qmp]) -> None:
    seen: list[dict[str, object]] = []

    def answer(command: dict[str, object]) -> list[dict[str, object]]:
        seen.append(command)
        return [{"return": {"status": "running"}}]

    assert connect(answer).command("migrate-set-parameters", max_bandwidth=7) == {"status": "running"}
    assert seen == [{"execute": "migrate-set-parameters", "arguments": {"max-bandwidth": 7}}]


def test_an_event_that_arrives_before_the_reply_is_not_lost(connect: Callable[[Answer], Qmp]) -> None:
    qmp = connect(lambda _: [{"event": "STOP"}, {"event": "GUEST_PANICKED"}, {"return": {}}])
    qmp.command("query-status")
    event = qmp.wait_event(("GUEST_PANICKED", "SHUTDOWN"), 5)
    assert event is not None
    assert event["event"] == "GUEST_PANICKED"


def test_a_refused_command_quotes_the_emulator(connect: Callable[[Answer], Qmp]) -> None:
    qmp = connect(lambda _: [{"error": {"class": "GenericError", "desc": "No space left on device"}}])
    with pytest.raises(EnvironmentProblem, match="refused 'migrate': No space left on device"):
        qmp.command("migrate")


def test_no_event_in_time_is_none(connect: Callable[[Answer], Qmp]) -> None:
    assert connect(lambda _: [{"return": {}}]).wait_event(("SHUTDOWN",), 0.05) is None


def test_the_end_of_the_emulator_is_told_apart_from_silence(connect: Callable[[Answer], Qmp]) -> None:
    qmp = connect(lambda _: [])
    with pytest.raises(QmpClosed):
        qmp.command("quit")
    with pytest.raises(QmpClosed):
        qmp.wait_event(("SHUTDOWN",), 5)


def test_a_silent_emulator_is_given_up() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(QmpTimeout, match="no greeting"):
        Qmp(ours, timeout_s=0.05)


def test_a_peer_that_speaks_something_else_is_refused() -> None:
    for words in (b"HTTP/1.0 400 Bad Request\n", b"[1]\n", b'{"hello": 1}\n'):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(words)
            with pytest.raises(EnvironmentProblem, match="does not speak QMP"):
                Qmp(ours, timeout_s=5)
