"""The first process of a guest: `servsim rset` as a user types it, and a program in Python that knows nothing of it.

`tests/python/test_rset_python.py` boots it and reads the lines `servsim-guest: NAME ok` or `servsim-guest: NAME failed:
REASON`.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from waiting import wait_for

PACKAGES = "/servsim/python"
sys.path.append(PACKAGES)
from servsim import cli  # noqa: E402

LIBC = ctypes.CDLL(None, use_errno=True)
COMMAND = [sys.executable, "-c", "from servsim.cli import main; main()", "rset"]
ENVIRONMENT = {"PYTHONPATH": PACKAGES, "PATH": "/usr/bin", "HOME": "/tmp"}
PAGE = 4096
NODES = 4
#: What a program holds: blocks that malloc serves, none of which are Python's own arenas.
HOLDER = """
import sys
held = [bytearray(b"x") * 65536 for _ in range(128)]
pages = [0] * 4
for line in open("/proc/self/numa_maps"):
    words = line.split()
    if any(word.startswith("anon=") for word in words) and not any(word.startswith("file=") for word in words):
        for word in words:
            if word[0] == "N" and word[1].isdigit():
                node, _, count = word[1:].partition("=")
                pages[int(node)] += int(count)
print(*pages)
"""
#: Four threads that keep four processors busy: digests are made without the interpreter's lock.
BUSY = """
import hashlib, threading
data = bytes(1 << 22)
def work():
    while True:
        hashlib.sha256(data)
for _ in range(4):
    threading.Thread(target=work).start()
"""


def servsim(*words):
    """Return what `servsim rset` prints, run by a copy of this process: emulated, a start of Python takes seconds."""
    end, out = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(out, 1)
        os.environ.update(ENVIRONMENT)
        code, sys.argv = 1, ["servsim", "rset", *words]
        try:
            code = cli.run()
        finally:
            sys.stdout.flush()
            os._exit(code)
    os.close(out)
    with os.fdopen(end) as said:
        printed = said.read()
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == 0, f"{words}: {code} {printed[-400:]}"
    return printed


def shares(policy, processors="4"):
    """Return the share of a program's pages in each node, as the kernel counts."""
    words = ["run", "--physcpubind", processors, "--policy", policy, "--report", "/tmp/report"]
    pages = list(map(int, servsim(*words, "--", sys.executable, "-c", HOLDER).split()))
    report = [json.loads(line) for line in Path("/tmp/report").read_text().splitlines()]
    Path("/tmp/report").unlink()
    assert sum(pages) > 128 * 16, pages
    assert report[-1]["pages_elsewhere"] == 0, report
    return [count / sum(pages) for count in pages]


def policies_hold_for_python():
    told = []
    for policy, node in (("local", 1), ("touch", 1), ("remote", 2), ("node(3)", 3)):
        found = shares(policy)
        # Of 2,700 pages 2,048 are of the blocks; what Python maps by itself lies where it runs.
        assert found[node] > 0.7, (policy, found)
        told.append(f"{policy} {found[node]:.2f}")
    found = shares("striped(1)")
    # A third is what Python maps by itself, which is not redirected: it lies where it is touched.
    assert all(0.12 < share < 0.55 for share in found), found
    return ", ".join(told) + ", striped " + " ".join(f"{share:.2f}" for share in found)


#: A database in memory: 20,000 rows of 400 bytes.
SQL = """
create table held(number, filling);
with recursive counted(number) as (select 1 union all select number + 1 from counted where number < 20000)
insert into held select number, zeroblob(400) from counted;
select count(*), sum(length(filling)) from held;
"""


def a_database_is_redirected():
    told = []
    for policy, node in (("node(3)", "3"), ("striped(4)", None)):
        options = ["--physcpubind", "4", "--policy", policy, "--report", "/tmp/report"]
        said = servsim("run", *options, "--", "/usr/bin/sqlite3", ":memory:", SQL)
        assert said.strip() == "20000|8000000", said
        report = json.loads(Path("/tmp/report").read_text())
        Path("/tmp/report").unlink()
        pages = report["pages_per_node"]
        assert report["pages_elsewhere"] == report["pages_unknown"] == report["ranges_refused"] == 0, report
        assert sum(pages.values()) > 2000, report
        # What it allocates before the library knows its policy lies where the kernel put it.
        wished = [pages[str(one)] > 450 for one in range(NODES)] if node is None else [pages[node] > 2700]
        assert all(wished), report
        told.append(f"{policy} {pages}")
    return ", ".join(told)


SERVER = "/usr/lib/postgresql/15/bin/postgres"
#: Who runs it: it refuses to be root.
NOBODY = 65534
#: A backend sorts 20,000 rows of 400 bytes in its own memory.
SORTED = "select count(*), sum(length(x)) from (select repeat('x', 394) || lpad(n::text, 6, '0') x from "
SORTED += "generate_series(1, 20000) n order by x desc offset 0) held"


def a_database_server_is_redirected():
    """PostgreSQL: a server that forks for each of its users, all of whose heaps follow the policy."""
    for name in json.loads(Path("/cluster.json").read_text()):
        Path(name).mkdir(parents=True, exist_ok=True)
    for one in (Path("/cluster"), *Path("/cluster").rglob("*")):
        os.chown(one, NOBODY, NOBODY)
    for place, mode in (("/cluster", 0o700), ("/tmp", 0o777), ("/dev/null", 0o666)):
        Path(place).chmod(mode)
    settings = ["listen_addresses=", "unix_socket_directories=/tmp", "dynamic_shared_memory_type=mmap", "timezone=GMT"]
    settings += ["log_timezone=GMT", "work_mem=64MB", "shared_buffers=16MB", "max_connections=10", "fsync=off"]
    words = [word for setting in settings for word in ("-c", setting)]
    options = ["--physcpubind", "4", "--policy", "node(3)", "--report", "/tmp/report"]
    command = [*COMMAND, "run", *options, "--", SERVER, "-D", "/cluster", *words]
    with Path("/tmp/server").open("w") as log:
        server = subprocess.Popen(command, env=ENVIRONMENT, user=NOBODY, group=NOBODY, stdout=log, stderr=log)
    try:
        ready = "database system is ready to accept connections"
        try:
            wait_for(lambda: ready in Path("/tmp/server").read_text(), during=server, seconds=120)
        except AssertionError as error:
            raise AssertionError(f"{error}: {Path('/tmp/server').read_text()[-600:]}") from error
        asked = ["/usr/bin/psql", "-h", "/tmp", "-U", "postgres", "-At", "-c", SORTED]
        said = subprocess.run(asked, env=ENVIRONMENT, capture_output=True, text=True, check=False)
        assert said.stdout.strip() == "20000|8000000", said
    finally:
        server.send_signal(signal.SIGINT)
        code = server.wait()
    assert code == 0, Path("/tmp/server").read_text()[-600:]
    told = [json.loads(line) for line in Path("/tmp/report").read_text().splitlines()]
    Path("/tmp/report").unlink()
    # The server, the backend, and those that work in the background.
    assert len(told) > 4, told
    wrong = [one for one in told if one["pages_elsewhere"] or one["pages_unknown"] or one["ranges_refused"]]
    assert not wrong, wrong
    # At the end: what the sort took is given back. What is elsewhere was there before the library knew its policy.
    held = {one["program"]: one["pages_per_node"].get("3", 0) for one in told}
    assert all(pages > 100 for pages in held.values()) and max(held.values()) > 300, held
    return f"{len(told)} processes, up to {max(held.values())} pages in node 3"


def nodes_are_shown():
    told = json.loads(servsim("show", "--json"))
    assert [node["processors"] for node in told["nodes"]] == [list(range(4 * at, 4 * at + 4)) for at in range(4)]
    return f"{len(told['nodes'])} nodes"


def partitions_by_hand():
    planned = servsim("partition", "create", "web=2-3", "--dry-run")
    assert "servsim.web" in planned and "no partitions" in servsim("partition", "show")
    servsim("partition", "create", "web=2-3")
    with subprocess.Popen([sys.executable, "-c", "import time; held = bytearray(1 << 23); time.sleep(600)"]) as held:
        servsim("partition", "adopt", str(held.pid), "--into", "web")
        moved = servsim("partition", "move", "3", "--from", "web", "--to", "rest")
        shown = json.loads(servsim("partition", "show", "--json"))["partitions"]
        assert shown["web"]["nodes"] == [2] and shown["web"]["processes"] == [held.pid], shown
        taken_back = servsim("partition", "undo")
        held.kill()
    assert "no partitions" in servsim("partition", "show")
    return f"{len(moved.splitlines())} steps to move, {len(taken_back.splitlines())} to take back"


GOALS = """
every_s = 2
patience = 2
pause_s = 4
[partition.web]
nodes = [1]
busy_at_most = 0.5
[partition.database]
nodes = [2, 3]
busy_at_most = 0.5
"""


def a_manager_follows_the_load():
    goals, log = Path("/tmp/goals.toml"), Path("/tmp/log")
    goals.write_text(GOALS)
    words = [*COMMAND, "partition", "manage", str(goals), "--log", str(log)]
    manager = subprocess.Popen(words, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said = [manager.stdout.readline()]
        assert "made the partitions" in said[0], said[0] + manager.stdout.read()
        with subprocess.Popen([sys.executable, "-c", BUSY]) as busy:
            try:
                servsim("partition", "adopt", str(busy.pid), "--into", "web")
                wait_for(lambda: any(line["move"] for line in looks(log)), during=manager, seconds=120)
            finally:
                busy.kill()
        wait_for(lambda: looks(log)[-1]["reason"] == "all goals are met", during=manager, seconds=120)
    finally:
        manager.send_signal(signal.SIGTERM)
        said += manager.communicate()[0].splitlines()
    assert manager.returncode == 130, (manager.returncode, said)
    lines = looks(log)
    moves = [line for line in lines if line["move"]]
    assert len(moves) == 1, moves
    assert moves[0]["move"] == {"node": 3, "origin": "database", "to": "web"}, moves
    assert lines[-1]["nodes"] == {"web": [1, 3], "database": [2]}, lines[-1]
    assert lines[-1]["busy"]["web"] < 0.5
    assert "no partitions" in servsim("partition", "show")
    return f"{len(lines)} looks; {moves[0]['reason']}; {moves[0]['took_s']:.1f} s"


def looks(log):
    """Return the log's lines that are whole."""
    return [json.loads(line) for line in log.read_text().rpartition("\n")[0].splitlines()]


CHECKS = (
    nodes_are_shown,
    policies_hold_for_python,
    a_database_is_redirected,
    a_database_server_is_redirected,
    partitions_by_hand,
    a_manager_follows_the_load,
)


def main(checks=CHECKS):
    for kind, place in (("devtmpfs", "/dev"), ("proc", "/proc"), ("sysfs", "/sys"), ("cgroup2", "/sys/fs/cgroup")):
        assert LIBC.mount(kind.encode(), place.encode(), kind.encode(), 0, None) == 0, place
    for check in checks:
        begin = time.monotonic()
        try:
            outcome = f"ok {check()} ({time.monotonic() - begin:.1f} s)"
        except Exception as error:
            outcome = f"failed: {type(error).__name__} {error}".replace("\n", " ")
        print(f"servsim-guest: {check.__name__} {outcome}", flush=True)
    print("servsim-guest: done", flush=True)
    os.sync()
    LIBC.reboot(0x4321FEDC)


if __name__ == "__main__":
    main()
