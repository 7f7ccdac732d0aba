"""``servsim rset``: processors and memory of this host as sets; programs and processes put into them."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli import partition
from servsim.cli.options import AsJson
from servsim.cli.printing import print_json
from servsim.cli.terminal import say
from servsim.errors import UsageError

app = typer.Typer(no_args_is_help=True, help="Put programs and processes of this host where they belong.")
app.add_typer(partition.app, name="partition")

Processors = Annotated[
    str | None, typer.Option("--physcpubind", "-C", metavar="LIST", help="Processors, such as 0-3,8.")
]
ProcessorsOf = Annotated[
    str | None, typer.Option("--cpunodebind", "-N", metavar="LIST", help="All processors of these nodes.")
]
Memory = Annotated[str | None, typer.Option("--membind", "-m", metavar="LIST", help="Memory of these nodes.")]
Process = Annotated[int, typer.Argument(metavar="PID", min=1, help="Number of the process.")]


def register(application: typer.Typer) -> None:
    """Add the group to the application."""
    application.add_typer(app, name="rset")


def _set(processors: str | None, processors_of: str | None, memory: str | None) -> Any:
    """Return the set that options ask for: what none of them names stays as inherited."""
    from servsim.rset import ResourceSet, machine, numbers

    here = machine()
    wanted = here.inherited
    if processors is not None and processors_of is not None:
        raise UsageError("--physcpubind and --cpunodebind both name the processors: give one of them")
    if processors is not None:
        wanted = ResourceSet(numbers(processors), wanted.nodes)
    if processors_of is not None:
        held = ResourceSet()
        for node in numbers(processors_of, nodes=True):
            held |= here.node(node)
        wanted = ResourceSet(held.processors, wanted.nodes)
    if memory is not None:
        wanted = ResourceSet(wanted.processors, numbers(memory, nodes=True))
    wanted.validate()
    return wanted


@app.command()
def show(as_json: AsJson = False) -> None:
    """Print the nodes of this host, what this process may use of it, and where it was put."""
    from servsim.rset import listed, machine
    from servsim.text import columns

    here = machine()
    if as_json:
        sets = {
            name: {"processors": sorted(held.processors), "nodes": sorted(held.nodes)}
            for name, held in (("everything", here.everything), ("inherited", here.inherited))
        }
        nodes = [{**asdict(node), "processors": sorted(node.processors)} for node in here.nodes]
        print_json({"schema": "servsim.rset.machine/1", "nodes": nodes, **sets})
        return
    numbers = [node.node for node in here.nodes]
    rows = [["node", "processors", "memory", *(f"to {number}" for number in numbers)]]
    for node in here.nodes:
        far = [str(node.distances.get(number, "")) for number in numbers]
        rows.append([str(node.node), listed(node.processors) or "none", f"{node.memory_bytes / 2**20:,.0f} MiB", *far])
    print("\n".join(columns(rows, left=2)))
    for title, held in (("may be used", here.everything), ("inherited", here.inherited)):
        print(f"{title}: processors {listed(held.processors)}, memory of nodes {listed(held.nodes)}")
    if sum(node.memory_bytes > 0 for node in here.nodes) == 1:
        print("this machine has memory in one node: every policy but `remote`, which is refused, places it there")


@app.command()
def bind(
    process: Process,
    processors: Processors = None,
    processors_of: ProcessorsOf = None,
    as_json: AsJson = False,
) -> None:
    """Bind all threads of a running process to processors; its memory stays where it is (see migrate).

    Example: servsim rset bind 4711 --cpunodebind 1
    """
    from servsim import rset

    if processors is None and processors_of is None:
        raise UsageError("bind needs --physcpubind or --cpunodebind: the processors to bind to")
    wanted = _set(processors, processors_of, None)
    threads = rset.bind(process, wanted)
    where = rset.listed(wanted.processors)
    if as_json:
        print_json(
            {
                "schema": "servsim.rset.bind/1",
                "process": process,
                "threads": threads,
                "processors": sorted(wanted.processors),
            }
        )
    else:
        print(f"process {process}: {threads} threads bound to processors {where}")


@app.command()
def migrate(
    process: Process,
    memory: Memory = None,
    origin: Annotated[
        str | None, typer.Option("--from", metavar="LIST", help="Nodes to empty; all others without it.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Move the memory of a running process into nodes.

    Example: servsim rset migrate 4711 --membind 1
    """
    from servsim import rset

    if memory is None:
        raise UsageError("migrate needs --membind: the nodes to move to")
    wanted = _set(None, None, memory)
    left = rset.migrate(process, wanted, None if origin is None else rset.numbers(origin, nodes=True))
    if as_json:
        print_json(
            {"schema": "servsim.rset.migrate/1", "process": process, "nodes": sorted(wanted.nodes), "pages_left": left}
        )
    else:
        rest = f"; {left} pages could not be moved" if left else ""
        print(f"process {process}: its memory is in nodes {rset.listed(wanted.nodes)}{rest}")


@app.command(context_settings={"allow_extra_args": False, "ignore_unknown_options": False})
def run(
    command: Annotated[list[str], typer.Argument(metavar="-- PROGRAM [ARGUMENT]...", help="What to run.")],
    processors: Processors = None,
    processors_of: ProcessorsOf = None,
    memory: Memory = None,
    interleave: Annotated[
        str | None, typer.Option("--interleave", "-i", metavar="LIST", help="Page by page from these nodes in turn.")
    ] = None,
    localalloc: Annotated[
        bool, typer.Option("--localalloc", "-l", help="From the node of the thread that touches a page first.")
    ] = False,
    policy: Annotated[
        str | None,
        typer.Option(
            metavar="POLICY",
            help="Where malloc takes memory from: local (the allocating thread's node), touch, remote, striped(PAGES), "
            "node(NUMBER) or float.",
        ),
    ] = None,
    placement: Annotated[
        Path | None,
        typer.Option(
            help="A placement file, as place writes it: what a program as it is can follow of it. Its processor 0 is "
            "the first of those given here."
        ),
    ] = None,
    report: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write pages per node, wished and found, at the end (- for standard error)."),
    ] = None,
    sample: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Sample who touches which page of named mappings and large allocations."),
    ] = None,
) -> None:
    """Run a program, unchanged, on processors and in memory of this host.

    Without a policy the kernel places memory within the nodes; with one, the program's malloc family is redirected.

    Example: servsim rset run --cpunodebind 0 --policy local -- python3 -c "print(42)"
    """
    from servsim import rset

    given = [
        name
        for name, value in (("--interleave", interleave), ("--localalloc", localalloc), ("--policy", policy))
        if value
    ]
    if len(given) > 1:
        raise UsageError(f"{' and '.join(given)} both say where memory is taken from: give one of them")
    if interleave is not None:
        if memory is not None:
            raise UsageError("--interleave and --membind both name the nodes of memory: give one of them")
        memory, policy = interleave, "striped(1)"
    if localalloc:
        policy = "touch"
    wanted = _set(processors, processors_of, memory)
    rules: Sequence[rset.Rule] = ()
    threads = None
    if placement is not None:
        from servsim.placement.host import on_host

        if policy is not None or memory is not None:
            raise UsageError("--placement says where memory is taken from: leave out the other options of memory")
        found = on_host(placement, command[0], rset.machine(), wanted.processors)
        wanted, policy, rules, threads = found.resources, found.policy, found.rules, found.threads
        for why, many in found.left_out.items():
            say(f"{placement}: {many:,} {'rule is' if many == 1 else 'rules are'} left out: {why}")
    if report is not None and policy is None and not rules:
        raise UsageError("--report tells of memory that a policy placed: give --policy as well")
    rset.run(command, wanted, policy, report, rules, threads, sample)


@app.command()
def owners(
    file: Annotated[
        Path, typer.Argument(help="What `run --sample` wrote, or text of `perf script`, `perf mem report -D`.")
    ],
    node: Annotated[
        list[str] | None,
        typer.Option(
            "--node", metavar="PROCESSORS", help="Processors of a node that perf ran on, first node first; repeated."
        ),
    ] = None,
    granularity: Annotated[
        int, typer.Option(min=32, max=2 << 20, help="Bytes to count together, of perf's samples.")
    ] = 4096,
    cached: Annotated[
        bool, typer.Option("--cached", help="Count what caches served as well, of perf's samples.")
    ] = False,
    least: Annotated[int, typer.Option(min=1, help="Fewest samples of a page that is told.")] = 1,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Write a placement file: every page to its owner's node.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say who uses which page, from samples of a run on real hardware.

    Example: servsim rset run --sample s.json -- ./program && servsim rset owners s.json -o placement.toml
    """
    from servsim import rset
    from servsim.files import atomic_write
    from servsim.monitor.owners import owners as of
    from servsim.monitor.owners import placement, read
    from servsim.text import columns

    found = read(file, [rset.numbers(one) for one in node or []], granularity, cached)
    told = of(found, least)
    if output is not None:
        atomic_write(output, placement(told, found["capabilities"]["granularity_bytes"]))
        say(f"wrote {output}")
    if as_json:
        kept = {key: found[key] for key in ("program", "capabilities", "samples", "lost")}
        print_json({"schema": "servsim.rset.owners/1", **kept, "owners": [asdict(one) for one in told]})
        return
    able = found["capabilities"]
    print(f"{found['samples']:,} samples of {found['program']}, {able['granularity_bytes']:,} B each: {able['counts']}")
    rows = [["data", "owner", "pages", "samples", "of its owner"]]
    groups: dict[tuple[str, str], list[Any]] = {}
    for one in told:
        who = f"thread {one.thread}" if one.node is None else f"node {one.node}"
        groups.setdefault((one.data, who), []).append(one)
    for (data, who), group in sorted(groups.items()):
        samples = sum(one.samples for one in group)
        share = sum(one.samples * one.share for one in group) / samples
        rows.append([data, who, f"{len(group):,}", f"{samples:,}", f"{100 * share:.0f} %"])
    print("\n".join(columns(rows, left=2)))
