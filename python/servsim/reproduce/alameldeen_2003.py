"""Alameldeen et al. (2003): variability of short simulations, as far as commercial workloads on a bus show it.

The paper shows OLTP; other workloads may stand beside it, each with rows of its own. Two-way against four-way caches
on 16 processors (Figure 3), variation against the length of the interval (Figure 2). Of the tuning steps (Figure 1)
the printed product is checked; the steps of the OLTP workload's own ladder stand beside them as last measured on this
host, and as last simulated.
The comparison of snooping, directory and BASH (Figure 4) is in ``broadcasts.py``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import pairwise
from math import prod
from pathlib import Path

from servsim.errors import ServsimError, UsageError
from servsim.progress import Show
from servsim.reproduce import broadcasts
from servsim.reproduce.report import Check, Report
from servsim.reproduce.rows import Part, Row, made_until_interrupted, ordered, shown
from servsim.reproduce.runs import Configuration, Replication, Runs, mean, runs
from servsim.statistics.comparison import WrongConclusion, wrong_conclusion
from servsim.statistics.intervals import estimate
from servsim.trace.files import captured_facts
from servsim.workloads.tuning import kept, told

TITLE = "Alameldeen et al. 2003: simulating a $2M commercial server on a $2K PC"

#: Traces of several workloads may be given.
SEVERAL_TRACES = True
#: Runs and their length may be given.
SIZED = True

#: Runs per configuration (Figure 3).
RUNS = 20
#: Processors (Figure 3).
PROCESSORS = 16
#: Share of wrong conclusions from single runs (text to Figure 3), and what is accepted, in percent.
WRONG, ACCEPTED = 31.0, (10.0, 45.0)
#: Improvements of the tuning steps in percent, and their product (text to Figure 1).
STEPS, TUNED = (144, 81, 111, 29), 12
#: Transactions that a run measures at least: row A6 compares it with one of a single transaction.
SHORT = 2
#: Lengths of the interval within a run, in windows, for the variation against its length.
LENGTHS = (1, 4, 16)

TWO, FOUR = Configuration(PROCESSORS, ways=2), Configuration(PROCESSORS, ways=4)


def _cost(run: Replication) -> float:
    return float(run["cycles_per_transaction"])


def workload_of(trace: Path) -> str:
    """Return what the trace's workload is called; the trace's own name where it does not say."""
    meta = captured_facts(trace)["meta"]
    # The rest of the line, behind a colon or in parentheses, says more of it.
    return re.split(r"[:(]", str(meta.get("workload", "")))[0].strip() or trace.stem


def _is_barnes(trace: Path) -> bool:
    settings = captured_facts(trace)["meta"].get("settings") or {}
    return settings.get("kernel") == "barnes"


def _a5(made: Runs) -> tuple[Row, list[str]]:
    two, four = ([_cost(run) for run in made(c)] for c in (TWO, FOUR))
    wrong = wrong_conclusion(four, two, a_is_better=True)
    low, high = ACCEPTED
    share = 100 * wrong.probability
    parts = (
        ordered(f"mean cycles per transaction, {made.count} runs each", four, two, ("4-way", "2-way")),
        Part(
            "a random pair of single runs is wrong",
            f"{WRONG:g} %",
            f"{share:.0f} % (95 % interval {100 * wrong.low:.0f} to {100 * wrong.high:.0f} %)",
            low <= share <= high,
        ),
    )
    missed = not all(part.holds for part in parts)
    row = Row(
        "A5",
        f"{workload_of(made.trace)}, 16 processors: 4-way caches beat 2-way on average, yet single runs often say the "
        "opposite",
        f"{low:.0f}-{high:.0f} % wrong",
        False,
        parts,
        _apart(two, four) if missed else "",
    )
    notes = [
        f"Figure 3, cycles per transaction: 2-way {shown(estimate(two))}; 4-way {shown(estimate(four))}; standard "
        f"deviation {_spread(two):.2f} % and {_spread(four):.2f} % of the mean.",
        _prediction(two, four),
    ]
    return row, notes


def _apart(two: list[float], four: list[float]) -> str:
    """Say how far the designs are apart beside what single runs scatter, which decides how often those are wrong."""
    a, b = estimate(two), estimate(four)
    scatter = ((a.sd or 0.0) ** 2 + (b.sd or 0.0) ** 2) ** 0.5
    return (
        f"The means are {100 * (a.mean / b.mean - 1):.1f} % apart, and the difference of two single runs scatters by "
        f"{100 * scatter / b.mean:.1f} %: on this workload the ways matter "
        f"{'more' if abs(a.mean - b.mean) > scatter else 'less'} than the scatter."
    )


def _spread(values: list[float]) -> float:
    known = estimate(values)
    return 100 * (known.sd or 0.0) / known.mean


def _prediction(two: list[float], four: list[float]) -> str:
    """Say how well the first half of the runs predicts the errors among the other half."""
    half = len(two) // 2
    first, unseen, distance = predicted(two, four, half)
    return (
        f"The first {half} runs of each predict {100 * first.probability:.0f} % wrong conclusions (95 % interval "
        f"{100 * first.low:.0f} to {100 * first.high:.0f} %); among the {len(two) - half} unseen ones there are "
        f"{100 * unseen.probability:.0f} %, {abs(distance):.1f} standard errors away."
    )


def predicted(a: list[float], b: list[float], half: int) -> tuple[WrongConclusion, WrongConclusion, float]:
    """Compare the estimate from the first runs with the error frequency among the unseen ones.

    Wrong is, for both halves, what the mean of the first half contradicts.

    Returns
    -------
    tuple
        Estimate from the first half, frequency among the rest, distance in standard errors of both.
    """
    a_is_better = sum(a[:half]) <= sum(b[:half])
    first = wrong_conclusion(a[:half], b[:half], a_is_better=a_is_better)
    unseen = wrong_conclusion(a[half:], b[half:], a_is_better=a_is_better)
    rest = (len(a) - half, len(b) - half)
    return first, unseen, first.consistent_with(unseen, (half, half), rest)


def window_variation(run: Replication, length: int) -> float | None:
    """Return the coefficient of variation, in percent, of the work done in intervals of ``length`` windows.

    Work is instructions executed; None when the run has fewer than two such intervals.
    """
    work = [float(window["instructions"]) for window in run.get("timeline") or []]
    joined = [sum(work[i : i + length]) for i in range(0, len(work) - length + 1, length)]
    return _spread(joined) if len(joined) > 1 and sum(joined) > 0 else None


def _a6(made: Runs) -> Row:
    found = made(TWO)
    by_length = {length: [window_variation(run, length) for run in found] for length in LENGTHS}
    parts = []
    for shorter, longer in pairwise(LENGTHS):
        less, more = by_length[longer], by_length[shorter]
        known = [(a, b) for a, b in zip(less, more, strict=True) if a is not None and b is not None]
        if not known:
            continue
        names = (f"at {longer} windows", f"at {shorter}")
        parts.append(ordered("variation of work within a run, %", [a for a, _ in known], [b for _, b in known], names))
    short = replace(made, transactions=1, known={})
    one, many = [_spread([_cost(run) for run in group]) for group in (short(TWO), found)]
    what = f"variation between runs, standard deviation over {made.count} runs in % of the mean"
    ours = f"{one:.2f} % for 1 transaction, {many:.2f} % for {made.transactions}"
    parts.append(Part(what, "shrinks with the length", ours, many < one))
    missed = not all(part.holds for part in parts)
    claim = f"{workload_of(made.trace)}: variation shrinks with the length of the interval"
    reason = _window(made, found) if missed else ""
    return Row("A6", claim, "shape", False, tuple(parts), reason)


def _window(made: Runs, found: Sequence[Replication]) -> str:
    """Say what was measured and how busy the processors were."""
    ready = mean([float(run["mean_ready_tasks"]) for run in found])
    idle = mean(
        [100 * sum(p["idle"] for p in run["processors"]) / sum(map(_cycles, run["processors"])) for run in found]
    )
    return (
        f"{made.transactions} transactions behind {made.warmup} of warm-up, while {ready:.1f} tasks are ready for "
        f"{PROCESSORS} processors, which idle {idle:.0f} % of the time."
    )


def _cycles(processor: Mapping[str, float]) -> float:
    return sum(processor.values())


def _a7() -> Row:
    product = prod(1 + step / 100 for step in STEPS)
    part = Part("product of the steps", f"{TUNED}", f"{product:.2f}", round(product) == TUNED)
    claim = "tuning steps of +144, +81, +111 and +29 % make 12 times the throughput"
    steps = _measured_steps()
    why = (
        "multiplies printed figures; `servsim workload tune oltp` measures steps of ours, natively or with "
        "--machine in simulation, on another database and machine: they are shown and not judged"
    )
    return Row("A7", claim, "exact", True, (part, *steps), why, measured=False)


def _measured_steps() -> list[Part]:
    """Return the steps of the ladder as last measured natively and as last simulated; none where it was not run."""
    return [*_steps_of(simulated=False), *_steps_of(simulated=True)]


def _steps_of(*, simulated: bool) -> list[Part]:
    try:
        document = json.loads(kept("oltp", simulated=simulated).read_text())
        return [
            Part(
                f"ours, {document['where']}: {step['name']}",
                "-" if step["published_ratio"] is None else f"{step['published_ratio']:g} (another step elsewhere)",
                told(step["ratio"]),
                True,
            )
            for step in document["steps"][1:]
        ]
    except (OSError, ValueError, KeyError, TypeError, ServsimError):
        return []


def run(
    quick: bool = False,
    traces: Sequence[Path] = (),
    say: Show = lambda *_: None,
    count: int | None = None,
    references: int | None = None,
) -> Report:
    """Rerun the study; ``quick`` halves the bandwidths of Figure 4, not the 20 runs that the paper makes.

    ``count`` runs are made instead of these where it is given, and each measures about as many ``references``.

    Rows A5 and A6 are made for the workload of each trace, and so are A1 and A2; a trace of Barnes-Hut serves A3 alone.
    """
    barnes = next((path for path in traces if _is_barnes(path)), None)
    commercial = [path for path in traces if not _is_barnes(path)]
    made, *others = (runs(path, count or RUNS, say, references=references) for path in commercial or (None,))
    for one in (made, *others):
        if one.transactions < SHORT:
            why = f"{one.trace.name} measures 1 transaction, and row A6 compares it with a longer run"
            raise UsageError(f"{why}: give more --references, or a longer trace")
    notes = [made.note()]

    def a5(made: Runs = made) -> list[Row]:
        row, remarks = _a5(made)
        notes.extend(remarks)
        return [row]

    def other(made: Runs) -> list[Row]:
        notes.append(made.note())
        return [replace(row, name=f"{row.name}, {workload_of(made.trace)}") for row in (*a5(made), _a6(made))]

    def a1_to_a4() -> list[Row]:
        captured = [broadcasts.Sweep(f"captured {workload_of(one.trace)}", one.trace) for one in (made, *others)]
        science = None if barnes is None else broadcasts.Sweep("Barnes-Hut", barnes)
        return broadcasts.rows(captured, science, quick, lambda what: say(what, 0.0))

    parts: list[Callable[[], Iterable[Row]]] = [
        a5,
        lambda: [_a6(made)],
        *(partial(other, made) for made in others),
        a1_to_a4,
    ]
    simulated, interrupted = made_until_interrupted(parts)
    rows = [*sorted(simulated, key=lambda row: row.name), _a7()]
    checks = [
        Check(f"{row.name}: {row.claim}", row.passed, row.parts[0].ours) for row in rows if row.hard and row.parts
    ]
    return Report("alameldeen-2003", TITLE, {}, [], [], checks, notes, rows, interrupted)
