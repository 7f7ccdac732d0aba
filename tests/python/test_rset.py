"""``servsim rset`` on the host that runs the tests, whatever its nodes: sets, processes, memory placed."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from servsim import rset
from servsim.cache import repository
from servsim.errors import UsageError
from servsim.rset import ResourceSet, listed, numbers

SERVSIM = Path(sys.executable).with_name("servsim")
ROOT = Path(__file__).resolve().parents[2]


def _run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [str(SERVSIM), "rset", *words]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment}, check=False)


def _compiled(folder: Path, name: str) -> Path:
    target = folder / name
    source = ROOT / "tests" / "python" / "rset" / f"{name}.c"
    # Without built-in functions: the compiler would leave out allocations that nobody needs.
    command = ["cc", "-O1", "-Wall", "-Wextra", "-Werror", "-fno-builtin", "-pthread", str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return target


def test_lists_are_read_and_written_as_the_kernel_does() -> None:
    for text in ("", "3", "0-3,8,10-11"):
        assert listed(numbers(text)) == text
    with pytest.raises(UsageError, match="no list of processors"):
        numbers("3-1")
    with pytest.raises(UsageError, match="no list of nodes"):
        numbers("x", nodes=True)


def test_the_host_holds_what_this_process_was_given() -> None:
    here = rset.machine()
    assert here.inherited.processors == frozenset(os.sched_getaffinity(0))
    assert here.inherited <= here.everything
    assert here.everything.processors <= {processor for node in here.nodes for processor in node.processors}
    assert sum(node.memory_bytes for node in here.nodes) > 1 << 28
    shown = json.loads(_run("show", "--json").stdout)
    assert shown["everything"]["processors"] == sorted(here.everything.processors)
    told = _run("show").stdout
    assert "may be used: processors" in told
    assert ("this machine has memory in one node" in told) == (sum(node.memory_bytes > 0 for node in here.nodes) == 1)


def test_a_set_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(UsageError, match="memory of nodes 999"):
        (rset.machine().everything | ResourceSet(nodes=frozenset({999}))).validate()
    with pytest.raises(UsageError, match="no node 999"):
        rset.machine().node(999)


def test_threads_are_dealt_over_processors() -> None:
    everything = rset.machine().everything
    dealt = everything.deal(len(everything.processors) + 1)
    assert set(dealt) == everything.processors
    assert dealt[-1] == dealt[0]
    with pytest.raises(UsageError, match="no processor"):
        ResourceSet().deal(1)
    with pytest.raises(UsageError, match="order of threads"):
        everything.deal(1, "nearest")


def test_a_process_is_bound_and_migrated() -> None:
    last = max(rset.machine().everything.processors)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as waiting:
        done = _run("bind", str(waiting.pid), "--physcpubind", str(last), "--json")
        bound = {"process": waiting.pid, "threads": 1, "processors": [last]}
        assert json.loads(done.stdout) == {"schema": "servsim.rset.bind/1", **bound}
        assert os.sched_getaffinity(waiting.pid) == {last}
        nodes = listed(rset.machine().everything.nodes)
        assert json.loads(_run("migrate", str(waiting.pid), "-m", nodes, "--json").stdout)["pages_left"] == 0
        assert waiting.stdin is not None
        waiting.stdin.close()
    gone = _run("bind", str(waiting.pid), "-N", "0")
    assert (gone.returncode, gone.stderr) == (2, f"servsim: there is no process or thread {waiting.pid}\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bind", "1"), "--physcpubind or --cpunodebind"),
        (("bind", "1", "-C", "0", "-N", "0"), "give one of them"),
        (("migrate", "1"), "--membind"),
        (("run", "-l", "--policy", "local", "--", "true"), "give one of them"),
        (("run", "-i", "0", "-m", "0", "--", "true"), "give one of them"),
        (("run", "--report", "x", "--", "true"), "--policy"),
        (("run", "--policy", "near", "--", "true"), "no policy of memory"),
        (("run", "--policy", "striped(0)", "--", "true"), "no policy of memory"),
        (("run", "-m", "999", "--", "true"), "memory of nodes 999"),
        (("run", "-C", "9999", "--", "true"), "processors 9999"),
        (("run", "--", "no-such-program"), "no-such-program"),
    ],
)
def test_what_cannot_be_is_one_sentence(words: tuple[str, ...], said: str) -> None:
    done = _run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_runs_where_it_was_put_and_its_exit_code_is_kept() -> None:
    last = max(rset.machine().everything.processors)
    script = "import os, sys; print(sorted(os.sched_getaffinity(0))); sys.exit(7)"
    done = _run("run", "-C", str(last), "--", sys.executable, "-c", script)
    assert (done.returncode, done.stdout) == (7, f"[{last}]\n")


@pytest.mark.parametrize("policy", ["local", "touch", "striped(1)", "striped(4)", "float"])
def test_every_allocation_holds_under_every_policy(tmp_path: Path, policy: str) -> None:
    report = tmp_path / "report.json"
    program = _compiled(tmp_path, "allocations")
    done = _run("run", "--policy", policy, "--report", str(report), "--", str(program))
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(report.read_text())
    assert told["program"] == str(program)
    assert sum(told["pages_per_node"].values()) > 500
    assert told["pages_elsewhere"] == told["ranges_refused"] == 0


def test_a_program_that_cannot_be_helped_says_so_once_and_runs(tmp_path: Path) -> None:
    library = str(rset.preload_library())
    program = _compiled(tmp_path, "elsewhere")
    environment = {**os.environ, "LD_PRELOAD": library, "SERVSIM_RSET_POLICY": "nearby"}
    done = subprocess.run([program, "0", "0"], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1
    assert "memory is placed as the kernel does by default" in done.stderr


#: Numbers of system calls of x86-64 that filters of containers forbid.
MBIND, SET_MEMPOLICY, MOVE_PAGES, SET_AFFINITY = 237, 238, 279, 203


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of system calls are those of x86-64")
def test_a_filter_that_forbids_a_call_is_told_once_and_the_program_runs(tmp_path: Path) -> None:
    report, forbidden, program = (
        tmp_path / "report",
        _compiled(tmp_path, "forbidden"),
        _compiled(tmp_path, "elsewhere"),
    )

    def filtered(call: int) -> subprocess.CompletedProcess[str]:
        run = [SERVSIM, "rset", "run", "--policy", "striped(1)", "--report", str(report), "--", str(program), "0", "0"]
        return subprocess.run([forbidden, str(call), *run], capture_output=True, text=True, check=False)

    done = filtered(MBIND)
    assert done.returncode == 0
    assert done.stderr.count("\n") == 1 and "the kernel refuses the policy of memory" in done.stderr
    assert json.loads(report.read_text())["ranges_refused"] > 0
    report.unlink()
    done = filtered(MOVE_PAGES)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(report.read_text())
    assert told["pages_unknown"] > 1900 and told["pages_per_node"] == {}
    for call, name in ((SET_MEMPOLICY, "set_mempolicy"), (SET_AFFINITY, "sched_setaffinity")):
        done = filtered(call)
        assert done.returncode == 3
        assert f"the kernel refuses {name}" in done.stderr and "filter or a missing privilege" in done.stderr
        assert done.stderr.count("\n") == 1


def test_remote_memory_of_a_machine_of_one_node_is_refused() -> None:
    if len(rset.machine().nodes) > 1:
        pytest.skip("this machine has several nodes")
    done = _run("run", "--policy", "remote", "--", "true")
    assert done.returncode == 2
    assert done.stderr == (
        "servsim: remote memory needs a node of the set other than node 0, where this thread runs; the set has none\n"
    )


def test_without_the_library_the_remedy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert repository() is not None
    monkeypatch.setattr(rset, "repository", lambda: tmp_path)
    with pytest.raises(rset.EnvironmentProblem, match="make build"):
        rset.preload_library()


def test_a_program_follows_what_it_can_of_a_placement_file(tmp_path: Path) -> None:
    file, report = tmp_path / "p.toml", tmp_path / "report"
    for text, policy in [
        ('policy = "striped"\nstride = 4\n', "striped(4)"),
        (
            'policy = "first-touch"\n[[page]]\narea = "heap and static data"\npolicy = "striped"\nstride = 2\n',
            "striped(2)",
        ),
        ('node = 1\n[[thread]]\ntask = "printenv"\nnode = 1\n', "node(0)"),
    ]:
        file.write_text(text)
        done = _run("run", "--placement", str(file), "--", "printenv", "SERVSIM_RSET_POLICY")
        assert (done.returncode, done.stdout) == (0, policy + "\n"), done.stderr
    processor = min(os.sched_getaffinity(0))
    file.write_text(f'policy = "striped"\n[[thread]]\ntask = "allocations"\nprocessor = {processor}\n')
    program = _compiled(tmp_path, "allocations")
    done = _run("run", "--placement", str(file), "--report", str(report), "--", str(program))
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(report.read_text())["pages_elsewhere"] == 0
    file.write_text(file.read_text().replace("allocations", "nproc"))
    assert _run("run", "--placement", str(file), "--", "nproc").stdout == "1\n"


def _sites(report: Path) -> dict[int, str]:
    """Return the sites of a report by how often they allocated."""
    return {site["allocations"]: site["site"] for site in json.loads(report.read_text())["sites"]}


def test_rules_name_sites_as_the_report_does_and_mappings_as_the_program_does(tmp_path: Path) -> None:
    file, report = tmp_path / "p.toml", tmp_path / "report"
    program = _compiled(tmp_path, "ruled")
    done = _run("run", "--policy", "touch", "--report", str(report), "--", str(program))
    assert (done.returncode, done.stderr) == (0, "")
    named = [(rule["rule"], sum(rule["pages_per_node"].values())) for rule in json.loads(report.read_text())["rules"]]
    assert named == [("other named mappings", 512)]
    sites = _sites(report)
    small, large = sites[3000], sites[2]
    assert small.startswith("ruled+0x") and large.startswith("ruled+0x") and small != large
    report.unlink()
    file.write_text(
        f'policy = "first-touch"\n[[page]]\nsite = "{small}"\nnode = 1\n'
        f'[[page]]\nsite = "{large}"\noffset = "0x40000..0x80000"\nnode = 1\n'
        '[[page]]\nstructure = "test.grid"\noffset = "0x0..0x100000"\nnode = 1\n'
        '[[page]]\nstructure = "absent"\nnode = 1\n'
    )
    done = _run("run", "--placement", str(file), "--report", str(report), "--", str(program))
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(report.read_text())
    assert told["pages_elsewhere"] == told["ranges_refused"] == 0
    pages = {rule["rule"]: sum(rule["pages_per_node"].values()) for rule in told["rules"]}
    assert all(rule["pages_elsewhere"] == rule["ranges_refused"] == 0 for rule in told["rules"])
    assert pages.pop(f"site {small}") >= 3000 * 1024 / 4096
    assert pages == {
        f"site {large} 0x40000..0x80000": 2 * 64,
        "structure test.grid 0x0..0x100000": 256,
        # The named mapping's second half, and what the large allocations' rules do not name.
        "other named mappings": 256 + 2 * 192,
        "structure absent": 0,
    }


def test_threads_run_where_a_placement_file_deals_them(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    program = _compiled(tmp_path, "ruled")
    here = sorted(os.sched_getaffinity(0))
    second = here[1] if len(here) > 1 else here[0]
    everything = " ".join(map(str, here))
    for text, first, other in (
        ('[threads]\norder = "pinned"\n', here[0], second),
        ('node = 1\n[threads]\norder = "pinned"\n', here[0], second),
        (
            '[[thread]]\ntask = "helper 12"\nprocessor = 0\n'
            f'[[thread]]\ntask = "ruled 11"\nprocessor = {len(here) - 1}\n',
            here[-1],
            here[0],
        ),
        ('node = 1\n[threads]\norder = "free"\n', everything, everything),
    ):
        file.write_text(text)
        done = _run("run", "--placement", str(file), "--", str(program))
        assert (done.stdout, done.stderr) == (f"first: {first}\nsecond: {other}\n", ""), text
    done = _run("run", "--placement", str(file), "-C", str(second), "--", str(program))
    assert done.stdout == f"first: {second}\nsecond: {second}\n"


def test_the_sampler_tells_whose_page_it_is(tmp_path: Path) -> None:
    pages, found = 1024, tmp_path / "sample.json"
    program = _compiled(tmp_path, "owners")
    words = ("run", "--sample", str(found), "--", str(program), str(pages), "25")
    # Half of the processor time, so that a short run tells.
    done = _run(*words, SERVSIM_RSET_SAMPLE_SHARE="0.5")
    assert (done.returncode, done.stderr) == (0, "")
    *threads, _, _ = map(int, done.stdout.split())
    told = json.loads(found.read_text())
    assert told["schema"] == "servsim.rset.sample/1" and not told["capabilities"]["exact"]
    columns = told["histogram"]
    assert len({len(column) for column in columns.values()}) == 1
    assert told["samples"] == sum(columns["count"]) <= told["pages_protected"]
    by_page: dict[tuple[bool, int], Counter[int]] = defaultdict(Counter)
    for data, offset, thread, node, count in zip(
        *(columns[name] for name in ("data", "offset", "thread", "node", "count")), strict=True
    ):
        assert data == "owners.grid" or data.startswith("owners+0x")
        assert node in range(1, len(rset.machine().nodes) + 1)
        # The first thread touches all before the others begin.
        if thread in threads:
            by_page[data == "owners.grid", int(offset, 16) // 4096][threads.index(thread)] += count
    often = {page: who for page, who in by_page.items() if who.total() >= 3}
    right = sum(who.most_common(1)[0][0] == page[1] // (pages // 4) for page, who in often.items())
    assert len(often) > pages // 4
    assert right > 0.95 * len(often), (right, len(often))


def test_a_sampled_program_keeps_its_own_faults_and_protections(tmp_path: Path) -> None:
    program, found = _compiled(tmp_path, "faults"), tmp_path / "sample.json"
    done = _run("run", "--sample", str(found), "--", str(program), SERVSIM_RSET_SAMPLE_SHARE="0.5")
    assert (done.returncode, done.stdout, done.stderr) == (0, "protected 100 of 100, blocked well\n", "")
    assert json.loads(found.read_text())["moments"] > 0


@pytest.mark.parametrize("words", [("--policy", "striped(1)"), ("--policy", "touch"), ("--sample",)])
def test_a_program_with_as_many_mappings_as_there_may_be_goes_on(tmp_path: Path, words: tuple[str, ...]) -> None:
    if int(Path("/proc/sys/vm/max_map_count").read_text()) > 1 << 18:
        pytest.skip("this host lets a process have more mappings than can be made in a moment")
    program, told = _compiled(tmp_path, "crowded"), tmp_path / "told.json"
    target = (str(told),) if words == ("--sample",) else ("--report", str(told))
    done = _run("run", *words, *target, "--", str(program))
    assert done.returncode == 0, done
    mappings, got = map(int, done.stdout.split())
    assert mappings > 10_000 and got == 3 * 400
    # The sampler may have met the limit too, which is said once as well.
    said = [line for line in done.stderr.splitlines() if "cannot protect pages to sample" not in line]
    assert done.stderr.count("\n") - len(said) <= (words == ("--sample",))
    assert len(said) == 1 and "(vm.max_map_count); memory is placed as the kernel" in said[0]
    assert json.loads(told.read_text())["process"] > 0


def test_rules_that_no_program_can_follow_are_left_out_by_name(tmp_path: Path) -> None:
    file = tmp_path / "p.toml"
    of_the_trace = (
        '[[page]]\nrelation = "stock"\nnode = 1\n[[page]]\nprocess = "12"\naddresses = "0x1000..0x2000"\nnode = 1\n'
        '[[page]]\nprocess = "13"\naddresses = "0x1000..0x2000"\nnode = 1\n'
        '[[page]]\narea = "kernel per-CPU data"\npolicy = "first-touch"\n'
    )
    file.write_text('policy = "striped"\n' + of_the_trace)
    done = _run("run", "--placement", str(file), "--", "printenv", "SERVSIM_RSET_POLICY")
    assert (done.returncode, done.stdout) == (0, "striped(1)\n")
    told = done.stderr.splitlines()
    assert len(told) == 3
    assert "1 rule is left out: `relation`: where a relation lies is known of a captured database only" in told[0]
    assert "2 rules are left out: `process`: the number of a process is that of the trace" in told[1]
    assert "1 rule is left out: `area` of 'kernel per-CPU data': only heap" in told[2]
    file.write_text(of_the_trace)
    nothing = _run("run", "--placement", str(file), "--", "true")
    assert nothing.returncode == 2
    assert "p.toml: a program as it is can follow nothing of it: `area` of" in nothing.stderr


def test_a_program_that_no_library_can_be_loaded_into_runs_and_says_so(tmp_path: Path) -> None:
    source, program = tmp_path / "nothing.c", tmp_path / "nothing"
    source.write_text("int main(void) { return 7; }\n")
    subprocess.run(["cc", "-static", source, "-o", program], check=True)
    done = _run("run", "--policy", "touch", "--", str(program))
    assert (done.returncode, done.stderr.count("\n")) == (7, 1)
    assert "is linked statically" in done.stderr and "placed as the kernel does by default" in done.stderr
    subprocess.run(["cc", source, "-o", program], check=True)
    done = _run("run", "--policy", "touch", "--", str(program))
    assert (done.returncode, done.stderr) == (7, "")
