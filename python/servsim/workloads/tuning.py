"""The tuning ladder of a workload: an ordered experiment, each step one named difference of its configuration.

The ladder is a file of the workload's folder (``tuning.toml``): a base, and steps that each change some settings of
all before them. Natively every rung runs once in each round, so that a drift of the host hits all alike; a step's
ratio to the one before it is paired by rounds. In simulation every rung is a capture of its own, run with the same
seeds on one machine: that tells what the steps are worth on a machine that nobody has. No ratio is assumed: those
that a paper printed stand beside ours.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servsim import cache
from servsim.capture.folder import Folder
from servsim.capture.folder_settings import FolderSettings
from servsim.documents import is_plain, read_toml, text_of
from servsim.errors import CheckFailed, UsageError
from servsim.files import atomic_write
from servsim.json_text import json_text
from servsim.result import hertz
from servsim.result_warnings import recorded
from servsim.simulation import simulate
from servsim.statistics.intervals import estimate
from servsim.text import columns
from servsim.trace.files import captured_facts, trace_file
from servsim.validation.ratios import Ratio, ratio
from servsim.workloads.native import FolderWorkload

#: The file of the ladder in a workload's folder, and the document of a run.
LADDER, SCHEMA = "tuning.toml", "servsim.workload.tune/1"
#: Rounds and transactions of a run unless it is said how many.
ROUNDS, TRANSACTIONS = 5, 2000
_STEP = {"name", "what", "settings", "published"}


@dataclass(frozen=True)
class Rung:
    """One configuration of the ladder.

    Attributes
    ----------
    name, what
        A short name, and what is changed, in words.
    settings
        The workload with all settings up to here.
    published
        Ratio to the rung before it that a paper printed; none where there is none.
    """

    name: str
    what: str
    settings: FolderSettings
    published: float | None = None


def read(folder: Folder, path: Path | None = None) -> list[Rung]:
    """Return the rungs of a ladder, the base first.

    Raises
    ------
    UsageError
        Naming what is missing or wrong in the file.
    """
    path = path or folder.path / LADDER
    text = text_of(path, missing=f"{folder.path.name} has no ladder: {path} is missing; name one with --ladder")
    try:
        document = read_toml(text)
    except ValueError as error:
        raise UsageError(f"{path}: {error}") from error
    steps = document.pop("step", None)
    if document:
        raise UsageError(f"{path}: {', '.join(document)} is not known; a ladder has tables [[step]] and nothing else")
    if not isinstance(steps, list) or len(steps) < 2 or not all(isinstance(step, dict) for step in steps):
        raise UsageError(f"{path}: a ladder is a list of at least two tables [[step]], the base first")
    given: dict[str, str] = {}
    rungs = []
    for step in steps:
        changed = step.get("settings")
        if not {"name", "what", "settings"} <= step.keys() <= _STEP or not isinstance(changed, dict) or not changed:
            raise UsageError(f"{path}: a step has name, what and settings, and may have published: {step!r}")
        if not all(map(is_plain, [step["name"], step["what"], *changed.values()])):
            raise UsageError(f"{path}: name, what and each of the settings must be text or a number: {step!r}")
        given |= {name: str(value) for name, value in changed.items()}
        published = step.get("published")
        if published is not None and not (is_plain(published) and not isinstance(published, str) and published > 0):
            raise UsageError(f"{path}: published of {step['name']!r} must be a ratio above 0")
        rungs.append(Rung(str(step["name"]), str(step["what"]), FolderSettings(folder, dict(given)), published))
    names = [rung.name for rung in rungs]
    if len(set(names)) < len(names):
        raise UsageError(f"{path}: two steps have one name")
    return rungs


def run(
    folder: Folder,
    rungs: Sequence[Rung],
    rounds: int = ROUNDS,
    transactions: int = TRANSACTIONS,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Run every rung once per round and return the document ``servsim.workload.tune/1``, also kept in the cache.

    Raises
    ------
    CheckFailed, EnvironmentProblem
        When a run is not valid: nothing is kept then.
    """
    workload = FolderWorkload(folder)
    rates: dict[str, list[float]] = {rung.name: [] for rung in rungs}
    for number in range(rounds):
        for rung in rungs:
            report = workload.measure(rung.settings, transactions, number + 1)
            if not isinstance(report.get("transactions_per_second"), int | float):
                raise UsageError(f"the client of {folder.path.name} reports no transactions_per_second: no ratios")
            rates[rung.name].append(float(report["transactions_per_second"]))
            say(f"round {number + 1} of {rounds}, {rung.name}: {rates[rung.name][-1]:,.0f} transactions/s")
    document = _document(rungs, rates, "natively on this host", rounds, transactions)
    atomic_write(kept(folder.path.name), json_text(document))
    return document


def run_simulated(
    rungs: Sequence[Rung],
    traces: Sequence[Path],
    machine: str,
    rounds: int = ROUNDS,
    transactions: int | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> dict[str, Any]:
    """Simulate a capture of every rung on a machine, and return the document ``servsim.workload.tune/1``, also kept.

    The i-th runs of all rungs have one seed. Intervals hold what seeds change; another capture of a rung may differ
    by more.

    Raises
    ------
    UsageError
        When a rung has no trace, or the trace was captured with other settings than the rung's.
    CheckFailed
        When the figures of a run are invalid: nothing is kept then.
    """
    name = rungs[0].settings.folder.path.name
    if len(traces) != len(rungs):
        commands = "; ".join(f"`{command}`" for command in _captures(rungs))
        raise UsageError(f"the ladder has {len(rungs)} steps, each with a capture of its own in this order: {commands}")
    for rung, trace in zip(rungs, traces, strict=True):
        _refuse_another(rung, rungs, trace)
    rates: dict[str, list[float]] = {}
    for rung, trace in zip(rungs, traces, strict=True):
        result = simulate(trace, machine, transactions=transactions, replications=rounds)
        invalid = [warning.text for warning in recorded(result) if warning.rank == "invalid"]
        if invalid:
            raise CheckFailed(f"the step {rung.name!r}: the figures of {trace} on {machine} are invalid: {invalid[0]}")
        clock = hertz(result["machine"]["clock"])
        rates[rung.name] = [clock / run["cycles_per_transaction"] for run in result["replications"]]
        say(f"{rung.name}: {rates[rung.name][-1]:,.0f} transactions/s")
    document = _document(rungs, rates, f"simulated on {machine}", rounds, transactions)
    atomic_write(kept(name, simulated=True), json_text(document))
    return document


def _captures(rungs: Sequence[Rung]) -> list[str]:
    """Return the commands that capture every rung."""
    return [
        " ".join(
            [
                f"servsim capture {rung.settings.folder.path.name}",
                *(f"--set {name}={value}" for name, value in rung.settings.given.items()),
                f"-o {rung.name}.svt",
            ]
        )
        for rung in rungs
    ]


def _refuse_another(rung: Rung, rungs: Sequence[Rung], trace: Path) -> None:
    """Refuse a trace that was not captured with what the ladder sets for this rung."""
    found = captured_facts(trace_file(trace))["meta"].get("provenance", {}).get("settings", {})
    everywhere = [other.settings.described() for other in rungs]
    names = dict.fromkeys(name for described in everywhere for name in described)
    changed = [name for name in names if len({described.get(name) for described in everywhere}) > 1]
    wanted = rung.settings.described()
    for name in ("workload", *changed):
        if str(found.get(name)) != str(wanted.get(name)):
            command = _captures([rung])[0]
            raise UsageError(
                f"{trace} was captured with {name}={found.get(name)}, and the step {rung.name!r} has "
                f"{wanted.get(name)}: capture it with `{command}`"
            )


def _document(
    rungs: Sequence[Rung], rates: Mapping[str, list[float]], where: str, rounds: int, transactions: int | None
) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "workload": rungs[0].settings.folder.path.name,
        "where": where,
        "rounds": rounds,
        "transactions": transactions,
        "steps": [_step(rungs, index, rates) for index in range(len(rungs))],
    }


def kept(name: str, *, simulated: bool = False) -> Path:
    """Return where the last run of a workload's ladder is kept: the native one, or the simulated one."""
    return cache.folder("workloads", name) / ("tuning-simulated.json" if simulated else "tuning.json")


def _step(rungs: Sequence[Rung], index: int, rates: Mapping[str, list[float]]) -> dict[str, Any]:
    rung, ours = rungs[index], rates[rungs[index].name]
    known = estimate(ours)
    before = ratio(ours, rates[rungs[index - 1].name], paired=True) if index else None
    first = ratio(ours, rates[rungs[0].name], paired=True) if index else None
    return {
        "name": rung.name,
        "what": rung.what,
        "settings": rung.settings.described(),
        "transactions_per_second": {"mean": known.mean, "half_width": known.half_width, "runs": ours},
        "ratio": _interval(before),
        "ratio_to_first": _interval(first),
        "published_ratio": rung.published,
    }


def _interval(found: Ratio | None) -> dict[str, Any] | None:
    return None if found is None else {"mean": found.mean, "low": found.low, "high": found.high, "n": found.n}


def table(document: dict[str, Any]) -> str:
    """Return a line for each rung: its rate, its ratios with intervals, and the printed ratio."""
    rows = [["step", "transactions/s", "to the one before", "to the first", "printed", ""]]
    for step in document["steps"]:
        rate = step["transactions_per_second"]
        half = "" if rate["half_width"] is None else f" ± {rate['half_width']:,.0f}"
        printed = "" if step["published_ratio"] is None else f"{step['published_ratio']:g}"
        ratios = [told(step["ratio"]), told(step["ratio_to_first"])]
        rows.append([step["name"], f"{rate['mean']:,.0f}{half}", *ratios, printed, step["what"]])
    length = "the middle half" if document["transactions"] is None else f"{document['transactions']:,} transactions"
    note = f"{document['where']}, n = {document['rounds']} rounds of {length}; ± and [ ]: 95 % intervals"
    return "\n".join([*columns(rows, left=6), note])


def told(interval: dict[str, Any] | None) -> str:
    """Write a ratio with its interval.

    Examples
    --------
    >>> told({"mean": 1.5, "low": 1.25, "high": 1.75, "n": 3}), told(None)
    ('1.50 [1.25, 1.75]', '')
    """
    if interval is None:
        return ""
    if interval["low"] is None or interval["n"] < 3:
        return f"{interval['mean']:.2f}"
    return f"{interval['mean']:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]"
