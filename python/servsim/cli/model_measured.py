"""``servsim model measure``, ``verify``, and ``fit`` of simulation results: models from simulation."""

from pathlib import Path
from typing import Annotated, Any

import typer

from servsim.cli import options as shared
from servsim.cli.model_text import interval, milliseconds, spread, table
from servsim.cli.options import AsJson, Settings
from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.errors import CheckFailed, UsageError
from servsim.limits import MANY
from servsim.trace.files import captured_facts

Trace = Annotated[Path, typer.Argument(help="Captured trace.")]
MachineName = Annotated[str, typer.Option("--machine", "-m", help="Description with single disks: file or name.")]
Transactions = Annotated[int | None, typer.Option(min=1, help="Transactions to measure.")]
Warmup = Annotated[int | None, typer.Option("--warm-up", min=0, help=shared.WARM_UP)]
FunctionalWarmup = Annotated[
    int | None,
    typer.Option("--functional-warm-up", min=1, help="Transactions before those that only warm caches, untimed."),
]
Replications = Annotated[int, typer.Option(min=1, help="Runs of each configuration, successive seeds.")]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the first run.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Host threads; all cores without it.")]

#: A kind of transaction followed fewer times in a replication says little.
_FEW = 5
#: Processors of Figure 5 (Du et al. 2001).
_FIGURE_5 = (1, 2, 3, 4)


def register(group: typer.Typer) -> None:
    """Add the commands to the group of models."""
    group.command()(measure)
    group.command()(verify)


def _plain(value: Any) -> dict[str, Any] | None:
    """Return an estimate as JSON."""
    if value is None:
        return None
    return {"mean": value.mean, "low": value.low, "high": value.high, "n": value.n}


def fit_results(file: Path, as_json: bool) -> None:
    """Print visits and demands measured in a simulation result, schema ``servsim.model.demands/1``."""
    from servsim.model import measured

    result = read_result(file)
    found = measured.demands(result)
    if as_json:
        demands = [
            {
                "station": d.station,
                "class": d.kind,
                "visits": _plain(d.visits),
                "demand_s": _plain(d.demand_s),
                "note": d.note,
            }
            for d in found
        ]
        throughput = _plain(measured.throughput(result))
        print_json({"schema": "servsim.model.demands/1", "throughput": throughput, "demands": demands})
        return
    rows = [
        [f"{d.station} / {d.kind}", interval(d.visits), "-" if d.demand_s is None else milliseconds(d.demand_s), d.note]
        for d in found
    ]
    table(["station / class", "visits", "demand, ms", ""], rows)
    typer.echo(f"throughput {interval(measured.throughput(result))} transactions/s of simulated time", err=True)


def is_result(file: Path) -> bool:
    """Say whether a file is JSON rather than TOML measurements."""
    try:
        with file.open("rb") as opened:
            return opened.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def read_result(file: Path) -> dict[str, Any]:
    """Read a result of `servsim simulate --json`.

    Raises
    ------
    UsageError
        When it is something else.
    """
    from servsim.result import load

    return dict(load(file).document)


def measure(
    trace: Trace,
    machine: MachineName = "du-2001",
    settings: Settings = None,
    transactions: Transactions = None,
    warmup: Warmup = None,
    functional_warmup: FunctionalWarmup = None,
    replications: Replications = 3,
    seed: Seed = 1,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Measure what a model needs: service rates of 1 to 4 processors, and our Tables 5 and 6 (Du et al. 2001)."""
    from servsim.model import measured
    from servsim.model.parameters import TABLES
    from servsim.progress import expected_references, of_runs
    from servsim.simulation import simulate

    measured.refuse_nodes(machine, settings or [])
    options: dict[str, Any] = {"transactions": transactions, "warmup": warmup, "replications": replications}
    options["functional_warmup"] = functional_warmup
    results = {}
    expected = expected_references(trace, transactions=transactions, warmup=warmup, replications=replications)
    with Progress() as progress:
        begin = of_runs(progress, len(_FIGURE_5), expected)
        for processors in _FIGURE_5:
            told = begin(f"simulating {processors} processors, one I/O bus, one disk")
            chosen = [f"processors={processors}", "io.buses=1", "disk.count=1", *(settings or [])]
            results[processors] = simulate(
                trace, machine, overrides=chosen, seed=seed, threads=threads, progress=told, **options
            )
    rates = {k: measured.service_rates(result) for k, result in results.items()}
    tables = measured.accesses_by_table(results[1], TABLES)
    work = measured.work_by_kind(results[1])
    if as_json:
        print_json(_measured_document(rates, tables, work))
        return
    _show_measured(rates, tables, work, replications)


def _show_measured(
    rates: dict[int, Any], tables: dict[str, Any], work: list[dict[str, Any]], replications: int
) -> None:
    from servsim.model.parameters import TABLES

    typer.echo("Effective service rates mu_k(j), transactions/s of simulated time (Figure 5)")
    seen = sorted({rate.tasks for found in rates.values() for rate in found})
    by_tasks = {k: {rate.tasks: rate for rate in found} for k, found in rates.items()}
    cells = [
        [str(j), *(spread(by_tasks[k][j].transactions_per_s) if j in by_tasks[k] else "-" for k in rates)] for j in seen
    ]
    table(["tasks j", *(f"mu_{k}" for k in rates)], cells)
    typer.echo("\nDisk accesses per table, indexes included, % of those to tables (our Table 5)")
    if any(name in TABLES for name in tables):
        rows = [[name, spread(share, 100.0)] for name, share in tables.items()]
        known = sum(name in TABLES for name in tables)
        table(["table", "%"], [*rows[:known], *([["beside them:", ""]] if rows[known:] else []), *rows[known:]])
    else:
        typer.echo("not known: the trace does not tell where its tables lie, or none was read; capture it again")
    typer.echo("\nVisits per transaction of one server process (our Table 6)")
    units = {"instructions": 1e-3, "loads": 1e-3, "stores": 1e-3, "disk_reads": 1.0, "disk_writes": 1.0}
    header = ["transaction", "followed", *(f"10^3 {c}" if u < 1 else c.replace("_", " ") for c, u in units.items())]
    table(header, [[row["kind"], str(row["followed"]), *(spread(row[c], u) for c, u in units.items())] for row in work])
    typer.echo(
        f"\n±: 95 % intervals over {replications} replications of this one trace (n: fewer saw it); "
        "another capture may differ by more"
        if replications > 1
        else "\none replication: no intervals; give --replications"
    )
    thin = [row["kind"] for row in work if row["followed"] < replications * _FEW]
    if thin:
        typer.echo(f"followed fewer than {_FEW} times a replication, so hardly known: {', '.join(thin)}")


def _measured_document(rates: dict[int, Any], tables: dict[str, Any], work: list[dict[str, Any]]) -> dict[str, Any]:
    def rate(found: Any) -> dict[str, Any]:
        return {
            "tasks": found.tasks,
            "share": found.share,
            "departures": found.departures,
            "departures_per_cycle": _plain(found.departures_per_cycle),
            "transactions_per_s": _plain(found.transactions_per_s),
        }

    return {
        "schema": "servsim.model.measure/1",
        "service_rates": {str(k): [rate(found) for found in column] for k, column in rates.items()},
        "accesses_by_table": {name: _plain(share) for name, share in tables.items()},
        "work_by_kind": [
            {name: value if name in ("kind", "followed") else _plain(value) for name, value in row.items()}
            for row in work
        ],
    }


def verify(
    trace: Trace,
    machine: MachineName = "du-2001",
    settings: Settings = None,
    configuration: Annotated[
        list[str] | None, typer.Option("--configuration", "-c", help="One of C1 to C9; repeatable. All without it.")
    ] = None,
    customers: Annotated[
        int | None, typer.Option(min=1, max=MANY, help="Users of the workload; default: as captured.")
    ] = None,
    transactions: Transactions = None,
    warmup: Warmup = None,
    functional_warmup: FunctionalWarmup = None,
    replications: Replications = 3,
    seed: Seed = 1,
    threads: Threads = None,
    as_json: AsJson = False,
) -> None:
    """Predict the nine configurations of Du et al. 2001 from C1 and the service rates, and simulate them."""
    from servsim.model import verify as module

    users, relations = _workload(trace)
    population = customers or users
    if population is None:
        raise UsageError("the trace does not tell its number of users; give --customers")
    with Progress() as progress:
        found = module.verify(
            trace,
            machine,
            customers=population,
            relations=relations,
            overrides=settings or [],
            configurations=configuration or list(module.CONFIGURATIONS),
            say=lambda line: progress.note(f"servsim: {line}"),
            show=progress,
            transactions=transactions,
            warmup=warmup,
            functional_warmup=functional_warmup,
            replications=replications,
            seed=seed,
            threads=threads,
        )
    if as_json:
        print_json(found.as_document())
    else:
        _verified(found)
    if not found.holds:
        missed = [f"{row.name} ({row.blamed})" for row in found.rows if row.verdict == "missed"]
        raise CheckFailed(f"beyond {module.TOLERANCE:.1%}: {', '.join(missed)}")


def _workload(trace: Path) -> tuple[int | None, list[str]]:
    """Return the users of a captured trace and the relations it can place."""
    try:
        info = captured_facts(trace)
    except UsageError:
        return None, []
    users = info["meta"]["provenance"].get("users") if isinstance(info["meta"]["provenance"], dict) else None
    return users, info["relations"]


def _verified(found: Any) -> None:
    rows = [
        [
            row.name,
            f"{row.processors}/{row.buses}/{row.disks}",
            interval(row.simulated),
            f"{row.predicted:.4g}",
            f"{100 * row.error:+.1f} %",
            f"{100 * (row.own / row.simulated.mean - 1):+.1f} %",
            row.verdict + (f": {row.blamed}" if row.blamed else ""),
        ]
        for row in found.rows
    ]
    header = ["", "processors/buses/disks", "simulated, tx/s", "model, tx/s", "difference", "own demands", ""]
    table(header, rows)
    typer.echo(
        "calibrated: the configuration's own measurements are in the model; own demands: the difference with "
        "all of them from there. A miss names the station whose own demand takes most off the difference, or, "
        "where own demands miss as well, a disk with more requests than a product form can have"
    )
