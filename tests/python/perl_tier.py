"""The servers of capture/tiers/perl for tests: an application's folder, perhaps with a fault, and its own scripts."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from waiting import wait_for

ROOT = Path(__file__).resolve().parents[2]
WORKLOADS = ROOT / "capture" / "workloads"
SERVSIM = Path(sys.executable).with_name("servsim")
PLACES = f"{ROOT / 'target' / 'release'}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def missing() -> str | None:
    """Return what of the servers is not there."""
    if shutil.which("apache2", path=PLACES) is None or not Path("/usr/lib/apache2/modules/mod_perl.so").exists():
        return "Apache with mod_perl"
    if not list(Path("/usr/lib/postgresql").glob("*/bin/postgres")):
        return "PostgreSQL"
    perl = subprocess.run(["perl", "-MDBD::Pg", "-e", "1"], capture_output=True, check=False)
    return "DBD::Pg" if perl.returncode else None


def connections(port: int) -> int:
    """Return how many connections to a port of the loopback are established."""
    lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(remote.endswith(f":{port:04X}") and state == "01" for _, _, remote, state, *_ in lines)


def free_port() -> int:
    """Return a port of the loopback that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def servers() -> list[str]:
    """Return processes of servers that a test has started."""
    found = subprocess.run(["pgrep", "-af", "serve|postgres|apache2"], capture_output=True, text=True, check=False)
    ours = ("./serve", "/servsim-", f"-f {WORKLOADS}")
    return [line for line in found.stdout.splitlines() if any(word in line for word in ours) and "pgrep" not in line]


def workload(
    cache: Path, step: str, name: str, sizes: Mapping[str, str], *words: str, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a step of `servsim workload` with settings of a small size."""
    settings = [word for name, value in {**sizes, "port": str(free_port())}.items() for word in (f"--{name}", value)]
    command = [SERVSIM, "workload", step, name, *settings, *words]
    environment = {**os.environ, "SERVSIM_CACHE": str(cache), **more}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@contextmanager
def place_of(name: str) -> Iterator[Path]:
    """Give a place that does not exist yet, in a folder that the servers' account may enter and that is removed."""
    with tempfile.TemporaryDirectory(prefix=f"servsim-{name}-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder) / "place"


def copy_with_fault(folder: Path, target: Path, file: str, text: str, fault: str) -> None:
    """Copy an application's folder, with a fault in one of its files, to where its servers' account may read it."""
    shutil.copytree(folder, target)
    code = target / file
    assert code.read_text().count(text) == 1
    code.write_text(code.read_text().replace(text, fault))


class Servers:
    """The servers of a folder in a place, with settings; ended when a ``with`` block is left."""

    def __init__(self, folder: Path, data: Path, place: Path, settings: Mapping[str, str]) -> None:
        self.folder, self.place, self.port = folder, place, free_port()
        #: Whether a test has ended them itself.
        self.ended_by_test = False
        words = {f"servsim_{name}": value for name, value in settings.items()}
        places = {"servsim_data": str(data), "servsim_run": str(place), "server_file": str(place / "server")}
        log = {"servsim_log": str(place / "log"), "servsim_native": "1", "servsim_json": "1"}
        self.environment = {**os.environ, **words, **places, **log, "PATH": PLACES, "servsim_port": str(self.port)}

    def __enter__(self) -> "Servers":
        self.place.mkdir(mode=0o755)
        with (self.place / "log").open("wb") as log:
            # Apache ends with its whole process group.
            done = subprocess.run(
                [self.folder / "start"],
                cwd=self.folder,
                env=self.environment,
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=False,
            )
        assert done.returncode == 0, (self.place / "log").read_text()
        return self

    def __exit__(self, *_: object) -> None:
        server = int((self.place / "server").read_text())
        if not self.ended_by_test:
            assert Path("/proc", str(server)).exists(), (self.place / "log").read_text()
            os.kill(server, signal.SIGTERM)
        wait_for(lambda: not Path("/proc", str(server)).exists())
        shutil.rmtree(self.place)

    def asked(self, script: str, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run one of the folder's scripts."""
        environment = {**self.environment, **more}
        return subprocess.run(
            [self.folder / script, *words],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def sql(self, database: str, script: str, counts: Mapping[str, int]) -> list[list[str]]:
        """Run a script of psql, with numbers for its variables; return the rows that it prints."""
        values = [word for name, value in counts.items() for word in ("-v", f"{name}={value}")]
        psql = ["psql", "-XqAt", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-h", str(self.place), "-U", "postgres", *values]
        done = subprocess.run([*psql, "-d", database], input=script, capture_output=True, text=True, check=True)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def broken_by(self, change: str, database: str, counts: Mapping[str, int]) -> dict[str, int]:
        """Change the database, look at every condition, and take the change back."""
        script = f"BEGIN;\n{change};\n\\i {self.folder / 'consistency.sql'}\nROLLBACK;\n"
        return {row[0]: int(row[1]) for row in self.sql(database, script, counts) if len(row) == 3}
