"""A workload's folder run natively: no file outside it, no server left behind, every failure one sentence."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import wait_for

SERVSIM = Path(sys.executable).with_name("servsim")
#: A server that answers each line with its length, until it is told to end.
SERVER = """
import os, signal, socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            if line == b"die\\n":
                print("told to die", flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            self.wfile.write(b"%d\\n" % len(line))
class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
with Server(sys.argv[1], Handler) as server:
    server.serve_forever()
"""
CLIENT = """
import json, os, signal, socket, sys
say = os.environ
stream = socket.socket(socket.AF_UNIX)
stream.connect(say["servsim_run"] + "/socket")
reader = stream.makefile("r")
words = say["servsim_words"].split(":")
for number in range(int(say.get("servsim_transactions", "10"))):
    word = words[number % len(words)]
    if word == "wait":
        print("waiting in", say["servsim_run"], file=sys.stderr, flush=True)
        signal.pause()
    stream.sendall(word.encode() + b"\\n")
    answer = reader.readline().strip()
    if answer != str(len(word) + 1):
        print("echo-client: a word was not answered with its length", file=sys.stderr)
        sys.exit(1)
data = open(say["servsim_data"] + "/made").read().strip()
print(json.dumps({"valid": say["servsim_verdict"] == "good", "problems": ["a bad verdict"], "data": data,
                  "seed": say.get("servsim_seed"), "transactions": number + 1, "native": say["servsim_native"]}))
"""
DESCRIPTION = """
summary = "echo: lengths of words"
packages = ["echo-server"]
client = "echo-client"
build = ["cp", "client.py", "{client}"]
transactions = ["word"]
[settings.words]
default = "one:three"
meaning = "Words to send."
[settings.verdict]
default = "good"
choices = ["good", "bad"]
meaning = "What the client says of the run."
[settings.rows]
default = 3
meaning = "Rows to load."
load = true
[scales.large]
rows = 300
"""
SCRIPTS = {
    "load": 'echo "load $1" >&2; echo "$1" > "$servsim_data/made"',
    "start": f"""
{sys.executable} server.py "$servsim_run/socket" &
echo $! > "$server_file"
until [ -S "$servsim_run/socket" ]; do kill -0 $! || exit 1; sleep 0.05; done""",
    "client": f"exec {sys.executable} client.py",
}


@pytest.fixture
def echo(tmp_path: Path) -> Path:
    """The folder of a workload whose server is 12 lines of Python."""
    folder = tmp_path / "echo"
    folder.mkdir()
    (folder / "workload.toml").write_text(DESCRIPTION)
    (folder / "server.py").write_text(SERVER)
    (folder / "client.py").write_text(CLIENT)
    for name, text in SCRIPTS.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "SERVSIM_CACHE": str(folder.parent / "cache")}


def servsim(folder: Path, step: str, *words: str) -> subprocess.CompletedProcess[str]:
    command = [SERVSIM, "workload", step, folder, *words]
    return subprocess.run(command, env=environment(folder), capture_output=True, text=True, check=False)


def servers(folder: Path) -> list[str]:
    """Processes that work in the folder: server, client, and the shells that hold them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve() == folder:
                found.append((process / "cmdline").read_text())
        except OSError:  # it has just ended, or belongs to somebody else
            continue
    return found


def test_a_folder_is_loaded_once_run_and_reported(echo: Path) -> None:
    done = servsim(echo, "run", "--transactions", "7", "--seed", "5", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["transactions"], report["seed"], report["native"]) == (7, "5", "1")
    assert report["data"] == "rows=3" and "load rows=3" in done.stderr
    again = servsim(echo, "run", "--words", "one", "--set", "verdict=good")
    assert (again.returncode, "load" in again.stderr) == (0, False), "the data do not depend on the words"
    assert "transactions: 10" in again.stdout
    assert "data: rows=300" in servsim(echo, "run", "--scale", "large").stdout
    assert "load rows=3" in servsim(echo, "load").stderr, "made anew"
    assert servers(echo) == []


def test_data_are_made_anew_by_another_program(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, program = echo / "workload.toml", echo.parent / "bin" / "echo-client"
    config.write_text(config.read_text().replace('build = ["cp", "client.py", "{client}"]\n', ""))
    program.parent.mkdir()
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    for text, made in [("one", True), ("one", False), ("another", True), ("one", False)]:
        program.write_text(text)
        program.chmod(0o755)
        done = servsim(echo, "run")
        assert (done.returncode, "load rows=3" in done.stderr) == (0, made), done.stderr


def test_a_client_whose_folder_starts_no_server_is_told_so(echo: Path) -> None:
    (echo / "start").unlink()
    (echo / "client").write_text('#!/bin/sh\necho \'{"valid": false, "problems": ["nobody answers"]}\'; exit 1\n')
    done = servsim(echo, "run")
    assert done.returncode == 1, done.stderr
    told = f"echo-client ended with exit code 1 (nobody answers); {echo} has no 'start', so that no server ran for it"
    assert told in done.stderr.splitlines()[-1]
    # A workload that needs no server has nothing more to say.
    config = echo / "workload.toml"
    config.write_text(config.read_text().replace('packages = ["echo-server"]', "packages = []"))
    assert servsim(echo, "run").stderr.splitlines()[-1].endswith("echo-client ended with exit code 1 (nobody answers)")


def test_a_check_that_ends_with_a_code_of_its_own_is_named(echo: Path) -> None:
    (echo / "check").write_text("#!/bin/sh\nexit 29\n")
    (echo / "check").chmod(0o755)
    done = servsim(echo, "check")
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "servsim: check ended with exit code 29")


def test_a_workload_among_those_that_ship_needs_no_other_file(echo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SERVSIM_WORKLOADS", str(echo.parent))
    listed = subprocess.run([SERVSIM, "workload", "list"], capture_output=True, text=True, check=True).stdout
    assert "echo: lengths of words" in listed
    command = [SERVSIM, "workload", "run", "echo"]
    done = subprocess.run(command, env=environment(echo), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--verdict", "bad"), 1, "the run of echo is not valid: a bad verdict"),
        (("--words", "one:die"), 1, "the server ended in the middle of the run (told to die"),
        (("--verdict", "fair"), 2, "verdict='fair' is none of: good, bad"),
        (("--rows",), 2, "--rows has no value"),
        (("rows",), 2, "'rows' is no option"),
        (("--users", "3"), 2, "has no setting 'users'; there is: words, verdict, rows"),
        (("--scale", "small"), 2, "echo has no scale 'small'; there is: large"),
    ],
)
def test_what_goes_wrong_is_one_sentence_and_leaves_no_server(
    echo: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    done = servsim(echo, "run", *words)
    assert done.returncode == code, done.stderr
    assert told in done.stderr.splitlines()[-1], done.stderr
    assert servers(echo) == []


def test_a_server_that_does_not_start_is_told_with_what_it_needs(echo: Path) -> None:
    (echo / "start").write_text("#!/bin/sh\nno-such-server --port 1\nexit 1\n")
    done = servsim(echo, "run")
    assert done.returncode == 3, done.stderr
    assert "no-such-server: not found; it needs the packages echo-server" in done.stderr
    # Packages that are there are no remedy.
    config = echo / "workload.toml"
    config.write_text(config.read_text().replace('"echo-server"', '"dpkg"'))
    (echo / "start").write_text("#!/bin/sh\necho port 1 is in use\nexit 1\n")
    done = servsim(echo, "run")
    assert (done.returncode, "exit code 1: port 1 is in use; all that it said is in" in done.stderr) == (3, True), (
        done.stderr
    )


def test_there_is_nothing_to_check_where_the_folder_has_no_check(echo: Path) -> None:
    done = servsim(echo, "check")
    assert (done.returncode, "nothing is left to check" in done.stderr) == (2, True)
    shutil.copy(echo / "client", echo / "check")
    assert servsim(echo, "check").returncode == 0


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_run_that_is_ended_leaves_neither_server_nor_files(echo: Path, sign: signal.Signals) -> None:
    command = [SERVSIM, "workload", "run", echo, "--words", "wait"]
    process = subprocess.Popen(command, env=environment(echo), stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    run = next(Path(line.split()[-1]) for line in process.stderr if "waiting in" in line)
    assert run.is_dir(), "the client is at work"
    process.send_signal(sign)
    process.wait(60)
    wait_for(lambda: not servers(echo))
    assert not run.exists()
    process.stderr.close()
