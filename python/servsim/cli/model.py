"""``servsim model``: solve, bound, fit, allocate and question queueing models."""

from importlib import import_module
from pathlib import Path

import typer

from servsim.cli.model_solution import show, show_effects
from servsim.cli.model_text import table, time_text
from servsim.cli.options import AsJson, refuse_useless
from servsim.cli.printing import print_json
from servsim.cli.progress import Progress
from servsim.errors import UsageError
from servsim.limits import MANY

File = typer.Argument(help="TOML description, or a model of JMT (.jmva, .jsimg) or layered queues (.lqn, .lqnx).")
Problem = typer.Argument(help="TOML problem: [[table]], disks_per_bus, disk_demand, [[station]].")
Percentiles = typer.Option([50, 90, 95, 99], help="Response-time percentile, per cent; may be given again.")
Plot = typer.Option(None, help="Write throughput, response and utilisation: .svg or .png.")


#: Commands of the group that have files of their own.
_ELSEWHERE = {
    "model_fit": ("fit",),
    "model_import": ("import",),
    "model_measured": ("measure", "verify"),
    "model_plan": ("predict", "size", "forecast"),
    "model_native": ("native",),
}


def register(app: typer.Typer, asked: str = "") -> None:
    """Add the group of commands: only the one that was asked for, if it is one."""
    group = typer.Typer(no_args_is_help=True, help="Queueing models: solve, bound, fit, allocate, question.")
    here = {command.__name__: command for command in (solve, bounds, allocate, sensitivity, solvers)}
    known = asked in here or any(asked in names for names in _ELSEWHERE.values())
    for name, command in here.items():
        if not known or name == asked:
            group.command()(command)
    for module, names in _ELSEWHERE.items():
        if not known or asked in names:
            import_module(f"servsim.cli.{module}").register(group)
    app.add_typer(group, name="model")


def solve(
    context: typer.Context,
    file: Path = File,
    *,
    solver: str = typer.Option("auto", help="Solver; `servsim model solvers` lists them."),
    percentile: list[float] = Percentiles,
    tolerance: float | None = typer.Option(None, help="Residual at which iterations stop."),
    max_iterations: int | None = typer.Option(None, help="Iterations after which non-convergence is an error."),
    replications: int | None = typer.Option(None, help="Simulation: independent replications."),
    requests: float | None = typer.Option(None, help="Simulation: requests per replication."),
    seed: int | None = typer.Option(None, help="Simulation: seed."),
    half_width: float | None = typer.Option(None, help="Simulation: wanted relative half-width of intervals."),
    plot: Path | None = Plot,
    up_to: int | None = typer.Option(
        None, max=MANY, help="Largest load of the plot; twice the users, or saturation, without it."
    ),
    as_json: AsJson = False,
) -> None:
    """Solve a model: throughput, response times with percentiles, utilisations."""
    from servsim.cli.model_import import network as read
    from servsim.model import solve as run

    if plot is None:
        refuse_useless(context, "nothing is plotted without --plot", "up_to")
    if up_to is not None and up_to < 1:
        raise UsageError(f"--up-to {up_to} leaves nothing to plot; give at least 1")
    network = read(file)
    with Progress() as progress:
        solution = run(
            network,
            solver,
            percentiles=percentile,
            tolerance=tolerance,
            max_iterations=max_iterations,
            replications=replications,
            requests=requests,
            seed=seed,
            half_width=half_width,
            progress=lambda count, done: progress(f"simulating {count:,.0f} requests in each run", done),
        )
    if plot is not None:
        from servsim.model.plots import save

        with Progress() as progress:
            save(plot, network, solution, up_to, solver, progress)
        typer.echo(f"wrote {plot}", err=True)
    if as_json:
        print_json({"schema": "servsim.model.solve/1", **solution.data})
        return
    show(solution.data, solution.accuracy, percentile)


def bounds(file: Path = File, as_json: AsJson = False) -> None:
    """Bound throughput and response without solving; name the bottleneck."""
    from servsim.cli.model_import import network as read
    from servsim.model import bounds as run

    found = run(read(file))
    if as_json:
        print_json({"schema": "servsim.model.bounds/1", "classes": found})
        return
    rows = []
    for b in found:
        balanced = b["balanced"]
        rows.append(
            [
                b["name"],
                f"{b['throughput']['low']:.5g}-{b['throughput']['high']:.5g}",
                f"{balanced['low']:.5g}-{balanced['high']:.5g}" if balanced else "-",
                _between(b["response"]["low"], b["response"]["high"]),
                b["bottleneck"],
                f"{b['knee']:.1f}" if b["knee"] is not None else "-",
            ]
        )
    table(["class", "throughput /s", "balanced jobs /s", "response", "bottleneck", "knee"], rows)


def _between(low: float | None, high: float | None) -> str:
    """Write the bounds of a time; the upper one is None where there is none, both are of a class without anybody."""
    if high is None:
        return "-" if low is None else f"{time_text(low)} or more"
    return f"{time_text(low)}-{time_text(high)}"


def allocate(
    file: Path = Problem,
    as_json: AsJson = False,
) -> None:
    """Find the best allocation of tables to disks, and of disks to buses."""
    from servsim.documents import naming, text_of
    from servsim.model import allocate as run

    text = text_of(file)
    with naming(file):
        found = run(text)
    if as_json:
        print_json({"schema": "servsim.model.allocate/1", **found.data})
        return
    best = found.data["best"]
    columns = found.columns()
    disks: dict[tuple[int, int], list[str]] = {}
    for name, bus, disk in zip(columns["table"], columns["bus"], columns["disk"], strict=True):
        disks.setdefault((bus, disk), []).append(name)
    table(["bus", "disk", "tables"], [[str(b), str(d), " ".join(t)] for (b, d), t in sorted(disks.items())])
    how = "exact" if best["exhaustive"] else f"at most {100 * best['gap']:.3g} % below the best"
    typer.echo(f"throughput {best['throughput']:.6g} /s, {how}, {best['evaluated']} allocations evaluated")
    for c in found.data["compared"]:
        typer.echo(f"{c['name']}: {c['throughput']:.6g} /s, {100 * c['below_best']:.3g} % below")


def sensitivity(
    context: typer.Context,
    file: Path = File,
    what_if: bool = typer.Option(False, "--what-if", help="Solve the model's [[what_if]] entries instead."),
    solver: str = typer.Option("auto", help="Solver of the what-ifs."),
    as_json: AsJson = False,
) -> None:
    """Show what throughput depends on: exact elasticities, or what-ifs ranked by gain and cost."""
    from servsim.cli.model_import import network as read
    from servsim.model import sensitivity as run
    from servsim.model import what_if as ask

    if not what_if:
        refuse_useless(context, "elasticities are exact, and only what-ifs are solved", "solver")
    network = read(file)
    if what_if:
        effects = ask(network, solver)
        if as_json:
            print_json({"schema": "servsim.model.what_if/1", "effects": effects})
            return
        show_effects(effects)
        return
    found = run(network)
    if as_json:
        print_json({"schema": "servsim.model.sensitivity/1", **found.data})
        return
    rows = [
        [
            f"{e['of']} to {e['station']} of {e['class']}",
            time_text(e["value"]),
            f"{e['throughput']:+.5f}",
            "-" if e["response"] is None else f"{e['response']:+.5f}",
        ]
        for e in found.data["elasticities"]
    ]
    table(["elasticity", "value", "throughput", "response"], rows)
    typer.echo(f"sums of throughput elasticities: {', '.join(f'{s:.12f}' for s in found.sums)}")


def solvers(as_json: AsJson = False) -> None:
    """List the solvers."""
    from servsim.model import solvers as run

    found = run()
    if as_json:
        print_json({"schema": "servsim.model.solvers/1", "solvers": found})
        return
    for s in found:
        typer.echo(f"{s['name']:<12} {s['nature']:<12} {s['summary']}")
