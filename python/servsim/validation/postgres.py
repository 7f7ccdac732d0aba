"""A private PostgreSQL 15 cluster: made, started and stopped by us, reachable by Unix socket only.

The server refuses to run as root, so root hands it to the account ``postgres`` (made by the
Debian package). The socket lies in a short temporary folder, because its path may not exceed
107 bytes. Started with the parent's death as its signal to stop, so no server outlives us.
"""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from servsim.errors import EnvironmentProblem

__all__ = ["DEFAULTS", "create", "remove", "serve"]

#: Where Debian and its relatives keep the server's programs; SERVSIM_POSTGRES_BIN overrides.
PROGRAMS = Path("/usr/lib/postgresql/15/bin")

#: Settings of the cluster: durable commits, room for the paper's buffers, no replication.
DEFAULTS: Mapping[str, str] = {
    "listen_addresses": "",
    "max_connections": "210",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "checkpoint_timeout": "30min",
    "wal_level": "minimal",
    "max_wal_senders": "0",
}

#: Seconds a start may take, crash recovery of a large log included.
START_SECONDS = 120.0


def program(name: str) -> Path:
    """Return the path of one of the server's programs, or say what to install."""
    path = Path(os.environ.get("SERVSIM_POSTGRES_BIN", PROGRAMS)) / name
    if not path.is_file():
        raise EnvironmentProblem(f"PostgreSQL 15 is not installed ({path} is missing): apt-get install postgresql-15")
    return path


def _account() -> pwd.struct_passwd | None:
    """Return the account that must run the server: ``postgres`` if we are root, else nobody but us."""
    if os.geteuid() != 0:
        return None
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        raise EnvironmentProblem(
            "PostgreSQL refuses to run as root and the account postgres is missing: apt-get install postgresql-15"
        ) from None


def _command(name: str, account: pwd.struct_passwd | None) -> list[str]:
    """Return the words that run a server program: without root, and told to end when we do."""
    path = str(program(name))
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise EnvironmentProblem("the program setpriv is missing: apt-get install util-linux")
    words = [setpriv, "--pdeathsig", "INT"]  # PostgreSQL's fast shutdown
    if account is not None:
        words += [f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups"]
    return [*words, path]


def _own(path: Path, account: pwd.struct_passwd | None) -> None:
    if account is not None:
        os.chown(path, account.pw_uid, account.pw_gid)


def _reachable(path: Path, account: pwd.struct_passwd | None) -> None:
    """Refuse a folder that the server's account cannot enter."""
    if account is None:
        return
    groups = os.getgrouplist(account.pw_name, account.pw_gid)
    for parent in path.parents:
        status = parent.stat()
        owned = 0o100 if status.st_uid == account.pw_uid else 0o010 if status.st_gid in groups else 0o001
        if not status.st_mode & owned:
            raise EnvironmentProblem(
                f"the account {account.pw_name}, which must run PostgreSQL for root, may not enter {parent}: "
                "set SERVSIM_CACHE to a folder it can reach"
            )


def remove(data: Path) -> None:
    """Delete a cluster; refuse while a server uses it."""
    try:
        process = int((data / "postmaster.pid").read_text().split("\n")[0])
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except (FileNotFoundError, ValueError):
        command = b""
    if str(data).encode() in command:
        raise EnvironmentProblem(f"a server (process {process}) still uses {data}: wait for it, or stop it")
    shutil.rmtree(data, ignore_errors=True)


def create(data: Path) -> None:
    """Make an empty cluster in the folder ``data``; a half-made one never stays under that name."""
    account = _account()
    initdb = _command("initdb", account)
    _reachable(data, account)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=data.parent) as work:
        _own(Path(work), account)
        made = Path(work) / "data"
        arguments = ["-U", "postgres", "--auth=trust", "-E", "UTF8", "--no-locale", "-D"]
        done = subprocess.run([*initdb, *arguments, made], cwd="/", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EnvironmentProblem(f"initdb failed: {(done.stderr or done.stdout).strip()[-500:]}")
        made.rename(data)


@contextmanager
def serve(data: Path, settings: Mapping[str, str] | None = None) -> Iterator[Path]:
    """Run the server of a cluster; yields the folder of its socket, and stops the server on any exit.

    Parameters
    ----------
    data
        The cluster's folder, made by :func:`create`.
    settings
        Server settings that replace or extend :data:`DEFAULTS`.
    """
    account = _account()
    postgres = _command("postgres", account)
    socket = Path(tempfile.mkdtemp(prefix="servsim-pg-", dir="/tmp"))
    _own(socket, account)
    log = data.parent / "server.log"
    chosen = {**DEFAULTS, **(settings or {}), "unix_socket_directories": str(socket)}
    options = [part for key, value in chosen.items() for part in ("-c", f"{key}={value}")]
    try:
        with log.open("ab") as sink:
            server = subprocess.Popen(
                [*postgres, "-D", data, *options],
                start_new_session=True,  # Ctrl-C is ours: we stop the server, the terminal does not
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
            )
        try:
            _wait_until_ready(server, data, log)
            yield socket
        finally:
            _stop(server)
    finally:
        shutil.rmtree(socket, ignore_errors=True)


def _wait_until_ready(server: subprocess.Popen[bytes], data: Path, log: Path) -> None:
    """Wait for the last line of postmaster.pid to say ready; it is how pg_ctl waits too."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if server.poll() is not None:
            lines = log.read_text(errors="replace").strip().splitlines()
            fatal = [line.partition("FATAL:")[2].strip() for line in lines if "FATAL:" in line]
            hint = (fatal or lines or ["no message"])[-1]
            raise EnvironmentProblem(f"PostgreSQL did not start: {hint} (log: {log})")
        try:
            status = (data / "postmaster.pid").read_text().split("\n")
        except FileNotFoundError:
            status = []
        if len(status) > 7 and status[0] == str(server.pid) and status[7].strip() == "ready":
            return
        time.sleep(0.05)
    raise EnvironmentProblem(f"PostgreSQL was not ready after {START_SECONDS:.0f} s (log: {log})")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """Shut down fast; a second Ctrl-C or a hanging server gets the immediate form."""
    for sign, seconds in ((signal.SIGINT, 120.0), (signal.SIGQUIT, 20.0), (signal.SIGKILL, 5.0)):
        if server.poll() is not None:
            return
        server.send_signal(sign)
        try:
            server.wait(seconds)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            continue
