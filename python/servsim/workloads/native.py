"""A workload's folder, run natively: its own scripts, on this host instead of in the guest (docs/workloads.md).

The scripts are those of a capture. What differs is told to them: where data and sockets may lie, what is
ordered, and that this is no guest. A shell holds the server and everything started with it; it ends them when
its standard input closes, which happens however this process ends.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from servsim import cache
from servsim.capture import store
from servsim.capture.client import client_of
from servsim.capture.folder import Folder
from servsim.capture.folder_settings import FolderSettings
from servsim.capture.steps import Steps, silent
from servsim.errors import CheckFailed, EnvironmentProblem, UsageError
from servsim.json_text import json_text
from servsim.text import reason
from servsim.workloads import driver
from servsim.workloads.base import Request

__all__ = ["FolderWorkload"]

#: Seconds a server may take until it answers.
START_SECONDS = 120.0
#: Seconds that a server which closed its connections may take to end, before a failure counts as the client's own.
GONE_SECONDS = 0.5
#: Runs `start`, tells its exit code, waits for the end of standard input, and ends what was started: politely, then
#: by force together with this shell's whole process group. An interrupt ends a database although clients are left;
#: a program that a shell put into the background and that knows nothing of interrupts ignores it (bit 1 of SigIgn).
#: The run's folder, which may hold a copy of a database, goes with them also where this process was killed.
_HOLDER = """
./start >>"$servsim_log" 2>&1; echo $?
cat >/dev/null
server=$(cat "$server_file" 2>/dev/null)
runs() { case $(cat "/proc/$server/stat" 2>/dev/null) in "" | *") Z "*) return 1 ;; esac; }
ignored=$(sed -n 's/^SigIgn:[[:space:]]*//p' "/proc/$server/status" 2>/dev/null)
[ $((0x${ignored:-0} >> 1 & 1)) = 1 ] && signs=TERM || signs="INT TERM"
for sign in $signs; do
    tries=0
    while [ -n "$server" ] && runs && [ "$tries" -lt 100 ]; do
        [ "$tries" -eq 0 ] && kill -"$sign" "$server"
        tries=$((tries + 1)); sleep 0.1
    done
done
rm -rf "$servsim_run"
kill -KILL 0
"""


class FolderWorkload:
    """A workload of which nothing is known but its folder."""

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.name, self.summary = folder.path.name, folder.summary

    def load(self, request: Request) -> None:
        """Make the data anew, or refuse where there are none."""
        if not self.folder.has("load"):
            raise UsageError(f"{self.name} has no data to load: go on with 'servsim workload run {self.name}'")
        settings = self._settings(request)
        data = self._data(settings)
        with _claimed(data, fcntl.LOCK_EX):
            shutil.rmtree(data, ignore_errors=True)
        self._loaded(settings)
        if request.json:
            print(json_text({"schema": "servsim.workload.load/1", "workload": self.name, "data": str(data)}), end="")

    def run(self, request: Request) -> None:
        """Run the client against the server and report."""
        settings = self._settings(request)
        given = {"servsim_transactions": request.transactions, "servsim_seed": request.seed}
        orders = {name: str(value) for name, value in given.items() if value is not None}
        self._use("client", settings, orders, as_json=request.json, show=_shown(request))

    def measure(self, settings: FolderSettings, transactions: int, seed: int) -> dict[str, Any]:
        """Run the client against the server once and return its report."""
        reports: list[str] = []
        orders = {"servsim_transactions": str(transactions), "servsim_seed": str(seed)}
        self._use("client", settings, orders, as_json=True, show=reports.append)
        try:
            report = json.loads(reports[-1])
        except ValueError:
            report = None
        if not isinstance(report, dict):
            raise UsageError(f"the client of {self.name} does not report JSON, though servsim_json is set")
        return report

    def check(self, request: Request) -> None:
        """Run the folder's ``check``, or refuse where there is none."""
        if not self.folder.has("check"):
            raise UsageError(f"{self.name} checks its results at the end of every run: nothing is left to check")
        self._use("check", self._settings(request), {}, as_json=request.json, show=_shown(request))

    def _settings(self, request: Request) -> FolderSettings:
        given = {**self.folder.scale(request.scale), **request.settings, **named(request.options)}
        return FolderSettings(self.folder, given)

    def _data(self, settings: FolderSettings) -> Path:
        """Return where the data of these settings lie, or would; those of another folder or client lie elsewhere."""
        made_of = json.dumps([self.folder.digests(), self._made_by(), sorted(settings.load_arguments())])
        name = hashlib.sha256(made_of.encode()).hexdigest()[:16]
        return cache.folder("workloads", self.name) / name

    def _made_by(self) -> str:
        """Return the hash of the program that makes the data, which is the client; nothing where there are none."""
        if not self.folder.has("load"):
            return ""
        return store.file_digest(_programs(self.folder) / self.folder.client)

    def _environment(self, settings: FolderSettings, data: Path, more: Mapping[str, str]) -> dict[str, str]:
        words = dict(word.split("=", 1) for word in settings.kernel_words())
        programs = _programs(self.folder)
        path = f"{programs}:{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
        known = {"PATH": path, "servsim_native": "1", "servsim_data": str(data)}
        return {**os.environ, **words, **known, **more}

    def _loaded(self, settings: FolderSettings) -> Path:
        """Return the folder of the data, made if it is not there; it gets its name when it is whole."""
        data = self._data(settings)
        if not self.folder.has("load") or data.is_dir():
            return data
        with store.scratch(data.parent, f".{data.name}-") as scratch:
            # A server that runs as another account has to reach its data.
            scratch.chmod(0o711)
            made = scratch / "data"
            made.mkdir()
            driver.run(
                self.folder.path / "load",
                settings.load_arguments(),
                name=self.folder.client,
                environment=self._environment(settings, made, {}),
                folder=self.folder.path,
            )
            made.rename(data)
        return data

    def _use(
        self,
        script: str,
        settings: FolderSettings,
        orders: Mapping[str, str],
        *,
        as_json: bool,
        show: Callable[[str], None],
    ) -> None:
        """Run a script of the folder while the server answers."""
        data = self._loaded(settings)
        with _claimed(data, fcntl.LOCK_SH), tempfile.TemporaryDirectory(prefix="servsim-", dir="/tmp") as run:
            log = cache.folder("workloads", self.name) / "server.log"
            places = {"servsim_run": run, "server_file": f"{run}/server", "servsim_log": str(log)}
            form = {"servsim_json": "1"} if as_json else {}
            environment = self._environment(settings, data, {**places, **orders, **form})
            with _serving(self.folder, environment, log):
                _asked(self.folder, script, environment, log, show)


@contextlib.contextmanager
def _claimed(data: Path, kind: int) -> Iterator[None]:
    """Hold data that are there: together with other runs that use them, or alone to make them anew."""
    if not data.is_dir():
        yield
        return
    descriptor = os.open(data, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise EnvironmentProblem(f"another command uses {data}: wait for it, or end it") from None
    finally:
        os.close(descriptor)


def named(words: Sequence[str]) -> dict[str, str]:
    """Take options apart into settings: ``--warm-up 3`` and ``--warm-up=3`` are the setting ``warm_up``.

    Examples
    --------
    >>> named(["--kernel", "fft", "--warm-up=3"])
    {'kernel': 'fft', 'warm_up': '3'}
    """
    settings, rest = {}, list(words)
    while rest:
        name, separator, value = rest.pop(0).partition("=")
        if not name.startswith("--"):
            raise UsageError(f"{name!r} is no option: give settings as --NAME VALUE or --set NAME=VALUE")
        if not separator:
            if not rest:
                raise UsageError(f"{name} has no value: give settings as --NAME VALUE")
            value = rest.pop(0)
        settings[name.removeprefix("--").replace("-", "_")] = value
    return settings


def _programs(folder: Folder) -> Path:
    """Return the folder of the client: what its own command builds, or what ``make build`` left."""
    if folder.build:
        return client_of(folder, Steps(silent, store.new_log("client"))).parent
    return driver.path(folder.client).parent


@contextlib.contextmanager
def _serving(folder: Folder, environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run the folder's server, if it has one, for the duration of a ``with`` block."""
    if not folder.has("start"):
        yield
        return
    log.write_bytes(b"")
    holder = subprocess.Popen(
        ["/bin/sh", "-c", _HOLDER],
        cwd=folder.path,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert holder.stdin is not None and holder.stdout is not None
    try:
        code = _first_line(holder)
        if code != "0":
            ended = f"ended with exit code {code}" if code else f"did not return within {START_SECONDS:.0f} s"
            told = f"the server did not start, {folder.path / 'start'} {ended}: {_why(log)}{_lacking(folder)}"
            raise EnvironmentProblem(f"{told}; all that it said is in {log}")
        yield
    except BaseException:
        if not _alive(environment):
            # Nothing polite is left to be done, and its other processes must not wait for it.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(holder.pid, signal.SIGKILL)
        raise
    finally:
        holder.stdin.close()
        _ended(holder)
        holder.stdout.close()


def _lacking(folder: Folder) -> str:
    """Return which packages of the server this host lacks, as the rest of a sentence."""
    if not folder.packages:
        return ""
    if shutil.which("dpkg-query") is None:
        return f"; it needs what Debian's packages {', '.join(folder.packages)} hold"
    ask = ["dpkg-query", "--show", "--showformat=${db:Status-Abbrev}${Package}\n", *folder.packages]
    known = subprocess.run(ask, capture_output=True, text=True, check=False).stdout.splitlines()
    there = {line[3:] for line in known if line.startswith("ii ")}
    lacking = [package for package in folder.packages if package not in there]
    return f"; it needs the packages {', '.join(lacking)}" if lacking else ""


def _ended(holder: subprocess.Popen[str]) -> None:
    """Wait for the shell that holds the server, by force when it takes too long or the user insists."""
    try:
        holder.wait(40)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(holder.pid, signal.SIGKILL)
        holder.wait()


def _first_line(holder: subprocess.Popen[str]) -> str:
    """Return the exit code of ``start``, or nothing when it took too long."""
    import select

    assert holder.stdout is not None
    ready, _, _ = select.select([holder.stdout], [], [], START_SECONDS)
    return holder.stdout.readline().strip() if ready else ""


def _alive(environment: Mapping[str, str]) -> bool:
    """Return whether the server's process is still there, and more than an entry in the table of processes."""
    try:
        status = Path("/proc", Path(environment["server_file"]).read_text().strip(), "stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"


def _gone(environment: Mapping[str, str]) -> bool:
    """Return whether the server has ended: a process that ends closes its connections some time before it is gone."""
    late = time.monotonic() + GONE_SECONDS
    while _alive(environment):
        if time.monotonic() > late:
            return False
        time.sleep(0.01)
    return True


def _why(log: Path) -> str:
    """Return why the server ended, from its log."""
    return reason(log.read_text(errors="replace"), last=True)


def _asked(folder: Folder, script: str, environment: dict[str, str], log: Path, show: Callable[[str], None]) -> None:
    """Run the client, or the check, and show its report, also that of a run which is not valid."""
    try:
        with tempfile.TemporaryFile("w+") as out:
            program = folder.path / script
            try:
                driver.run(program, [], name=folder.client, environment=environment, folder=folder.path, out=out)
            finally:
                out.seek(0)
                report = out.read()
                show(report)
    except (CheckFailed, UsageError, EnvironmentProblem) as error:
        problems = _problems(report)
        told = f"{error} ({problems})" if problems and problems not in str(error) else str(error)
        if not folder.has("start") and folder.packages:
            raise type(error)(f"{told}; {folder.path} has no 'start', so that no server ran for it") from error
        if folder.has("start") and _gone(environment):
            ended = f"the server ended in the middle of the run ({_why(log)}; log: {log}): {told}"
            raise CheckFailed(ended) from error
        raise type(error)(told) from error
    _valid(folder, report)


def _shown(request: Request) -> Callable[[str], None]:
    """Return what prints a report in the form that was asked for."""
    return _as_it_is if request.json else _for_reader


def _as_it_is(report: str) -> None:
    if report:
        print(report.rstrip("\n"))


def _for_reader(report: str) -> None:
    """Print a report that is JSON as names and values."""
    if report.lstrip().startswith("{"):
        print("\n".join(_lines(json.loads(report))))
    else:
        _as_it_is(report)


def _problems(report: str) -> str | None:
    """Return what a report says is wrong, which may be nothing; ``None`` where it does not call its run invalid."""
    try:
        document = json.loads(report)
    except ValueError:
        return None
    if not isinstance(document, dict) or document.get("valid") is not False:
        return None
    return "; ".join(map(str, document.get("problems", [])))


def _valid(folder: Folder, report: str) -> None:
    """Refuse the report of a client that says itself that the run is not valid."""
    problems = _problems(report)
    if problems is not None:
        raise CheckFailed(f"the run of {folder.path.name} is not valid: {problems or 'the client names no reason'}")


def _lines(document: Mapping[str, Any], left: int = 0) -> Iterator[str]:
    """Write a report for a reader: names and values, what is inside another indented."""
    for name, value in document.items():
        told = name.replace("_", " ")
        if isinstance(value, dict):
            yield f"{' ' * left}{told}:"
            yield from _lines(value, left + 2)
        elif not isinstance(value, list):
            yield f"{' ' * left}{told}: {value:,}" if type(value) is int else f"{' ' * left}{told}: {value}"
        elif all(isinstance(item, str | int | float) for item in value):
            yield f"{' ' * left}{told}: {', '.join(map(str, value))}"
