"""Servsim from Python: traces, machines, runs and comparisons as objects.

The command line runs the same functions. Every error is one of `servsim.errors`.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from servsim import simulation
from servsim.captures import simulate_captures
from servsim.errors import EnvironmentProblem, UsageError
from servsim.hashes import file_hash
from servsim.machines import machine_path, machine_text, resolve
from servsim.result import Result, check
from servsim.run_options import RunOptions
from servsim.trace.files import trace_file

if TYPE_CHECKING:
    from servsim.comparison import Comparison


__all__ = ["Machine", "Result", "Trace", "compare", "load", "simulate"]


class Trace:
    """What software did, independent of any machine: a captured trace, or any importable file.

    Parameters
    ----------
    path
        The file, or a directory for formats that are one.
    format
        Format when the extension does not say; `servsim trace formats` lists them.

    Raises
    ------
    UsageError
        When there is no such file, or its name is not UTF-8.

    Examples
    --------
    >>> trace = Trace.example()
    >>> trace.transactions, trace.workload
    (10, 'oltp (TPC-C-derived, not TPC-C; not comparable)')
    """

    def __init__(self, path: str | Path, format: str | None = None) -> None:
        self.path = trace_file(path)
        self.format = format

    @classmethod
    def example(cls) -> "Trace":
        """Return the small, really captured trace that ships with servsim.

        Raises
        ------
        EnvironmentProblem
            When it is missing from the installation.
        """
        from servsim.environment import shipped_trace

        path = shipped_trace()
        if path is None:
            raise EnvironmentProblem("the trace that ships with servsim is missing: install servsim again")
        return cls(path)

    @cached_property
    def info(self) -> Mapping[str, Any] | None:
        """What a captured trace says of itself (``servsim.trace.info/1``); None for other formats."""
        return simulation.trace_info(self.path)

    @property
    def workload(self) -> str | None:
        """Name of the captured workload; None for other formats."""
        return None if self.info is None else str(self.info["meta"]["workload"])

    @property
    def transactions(self) -> int | None:
        """How many transactions end in a whole captured trace; None when that is not known."""
        totals = None if self.info is None else self.info["totals"]
        return None if totals is None else int(totals["transactions"])

    @cached_property
    def hash(self) -> str:
        """SHA-256 of the trace, as results record it."""
        return file_hash(self.path)

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r})"


class Machine:
    """A machine that exists only as a description.

    Parameters
    ----------
    name
        Name of a shipped description, or path of a TOML file.
    settings
        Settings that replace those of the description, by key.

    Raises
    ------
    UsageError
        When there is no such description, or a setting is wrong: all faults at once.

    Examples
    --------
    >>> machine = Machine("foglia-2004-4p", {"cache.size": "4 MiB"})
    >>> machine["cache.size"], machine["protocol.name"]
    ('4 MiB', 'mesi')
    >>> machine.but({"protocol.name": "pscr"})
    Machine('foglia-2004-4p', {'cache.size': '4 MiB', 'protocol.name': 'pscr'})
    """

    def __init__(self, name: str | Path, settings: Mapping[str, object] | None = None) -> None:
        self.name = str(name)
        self.overrides = {key: str(value) for key, value in (settings or {}).items()}
        self.path = machine_path(self.name)
        self.settings: Mapping[str, Any] = resolve(machine_text(self.name), self.name, self.replaced)
        """Every setting of the machine, in groups, as results record them."""

    @property
    def replaced(self) -> list[str]:
        """The replaced settings, each as ``KEY=VALUE``."""
        return [f"{key}={value}" for key, value in self.overrides.items()]

    def but(self, settings: Mapping[str, object]) -> "Machine":
        """Return the machine with further settings replaced."""
        return Machine(self.name, {**self.overrides, **settings})

    def __getitem__(self, key: str) -> str:
        part: Any = self.settings
        for name in key.split("."):
            if not isinstance(part, Mapping) or name not in part:
                raise UsageError(f"{self.name} has no setting {key!r}; `servsim explain` lists them all")
            part = part[name]
        return str(part)

    def __repr__(self) -> str:
        return f"Machine({self.name!r}, {self.overrides!r})" if self.overrides else f"Machine({self.name!r})"


def simulate(
    trace: Trace | str | Path | Sequence[Trace | str | Path],
    machine: Machine | str | Path,
    **options: Unpack[RunOptions],
) -> Result:
    """Run a trace on a machine.

    Parameters
    ----------
    trace, machine
        Objects, or what they are made from; several captures of one workload are one design, whose intervals are over
        captures.
    **options
        See `servsim.run_options.RunOptions`.

    Returns
    -------
    Result
        The raw replications, with what is needed to repeat them.

    Raises
    ------
    UsageError
        For a wrong description, trace or option.

    Examples
    --------
    >>> result = simulate(Trace.example(), "foglia-2004-4p", warmup=2, transactions=2, replications=3)
    >>> known = result.estimate("cycles_per_transaction")
    >>> known.n, known.low < known.mean < known.high
    (3, True)
    >>> result.to_arrow().column_names
    ['replication', 'seed', 'path', 'value', 'unit']
    """
    given = [trace] if isinstance(trace, Trace | str | Path) else trace
    held = [one if isinstance(one, Trace) else Trace(one) for one in given]
    if not held:
        raise UsageError("there is no trace to simulate: give one, or several captures of one workload")
    chosen = machine if isinstance(machine, Machine) else Machine(machine)
    document = simulate_captures(
        [one.path for one in held],
        chosen.name,
        format=held[0].format,
        overrides=chosen.replaced,
        **options,
    )
    names = ", ".join(one.path.name for one in held)
    return check(document, f"{names} on {chosen.name}", needs=())


def load(path: str | Path) -> Result:
    """Read a result that `Result.save` or ``servsim simulate`` wrote.

    Raises
    ------
    UsageError
        When it is no result.
    """
    from servsim import result

    return result.load(Path(path), needs=())


def compare(results: Sequence[Result] | Mapping[str, Result], by: str = "cycles_per_transaction") -> "Comparison":
    """Compare designs: means with intervals, and a ranking only where it is proven.

    Parameters
    ----------
    results
        Two or more, each of two replications or more; by the name of the design, if given so.
        Results that differ in their seeds alone are replications of one design.
    by
        The figure to compare by, such as ``gsp``.

    Returns
    -------
    Comparison
        Verdicts of all pairs, with warnings; ``print`` shows what ``servsim compare`` prints.

    Raises
    ------
    UsageError
        For fewer than two designs, too few replications, or a figure that a result lacks.

    Examples
    --------
    >>> trace, machine = Trace.example(), Machine("foglia-2004-4p")
    >>> designs = {
    ...     name: simulate(trace, machine.but({"cache.size": size}), warmup=2, transactions=2, replications=3)
    ...     for name, size in (("small", "16 KiB"), ("large", "4 MiB"))
    ... }
    >>> comparison = compare(designs)
    >>> [pair.better for pair in comparison.pairs]
    ['large']
    """
    from servsim.comparison import Design, judge
    from servsim.comparison.grouping import designs
    from servsim.comparison.metrics import metric

    if isinstance(results, Mapping):
        found = [Design(name, result) for name, result in results.items()]
    else:
        found = [Design(result.machine, result) for result in designs(results)]
    return judge(found, metric(by))
