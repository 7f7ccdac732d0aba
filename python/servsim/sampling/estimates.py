"""What timed windows and coarse runs say of the whole: cycles for an instruction and for a transaction.

Windows tell how many cycles each group of tasks takes for an instruction while it works. Coarse runs, which are the
whole trace at these paces without caches, tell what follows of that for the machine: who waits for whom, how long
processors are idle, which transactions end first, and by how much single runs differ in it. So an estimate is that of
the coarse runs, and its error that of the paces, weighed by how far the coarse runs follow each of them
(linearisation), and the spread of the coarse runs themselves.

Computed from the document of a sampled run alone (`servsim.sampling.runs`), so that other windows, or fewer, can be
tried on it afterwards.
"""

from dataclasses import dataclass, replace
from math import ceil, hypot, log, sqrt
from statistics import fmean, variance

from servsim import registry
from servsim.errors import UsageError
from servsim.result_warnings import ResultWarning
from servsim.sampling.coarse import Known, coarse_of, groups_of, of_one_run, order_of
from servsim.statistics import sampling

#: What is known of every window: counts of the functional pass.
KNOWN = ("misses", "memory_reads")
#: Times that processors spend on misses.
STALLS = ("memory_stall", "bus_wait")
#: A second half of windows that differs from the first by more than this, beyond chance, began too early.
UNSETTLED = 0.02
#: Half of the 95 % interval of what neither windows nor coarse runs know, as a share, by full runs of captured traces
#: whose windows were all timed (docs/sampling.md): at least so much, and a share of the time that windows spent on
#: misses, since they may have others than the range.
LEAST_MODEL = 0.003
MODEL_OF_MISSES = 0.125
#: Shares of the users' time without work that a full run remarks, and calls invalid (settled.rs of servsim-machine).
SOME_WITHOUT_WORK, MOST_WITHOUT_WORK = 0.005, 0.05


def level_of(known: Known) -> tuple[float, list[float]]:
    """Return cycles for an instruction by the coarse runs, and by what share each window speaks for more or less.

    The coarse runs were made at the paces of the windows timed by then; where further windows changed them, what
    follows is taken as far as the coarse runs followed each pace.
    """
    coarse, groups = coarse_of(known), groups_of(known)
    count = len(known["windows"])
    change, left = 0.0, [0.0] * count
    for name, follows in coarse.follows.items():
        group = groups.get(name)
        if group is None or not sum(group.instructions):
            continue
        whole = group.known + coarse.paces[name]
        change += follows * (group.pace - coarse.paces[name]) / whole
        each = whole * fmean(group.instructions)
        for place in range(count):
            left[place] += follows * (group.beyond[place] - group.pace * group.instructions[place]) / each
    return coarse.cycles * (1 + change), left


def share_of(known: Known) -> float:
    """Return the share of the range that the windows measured."""
    return float(sum(window["instructions"] for window in known["windows"]) / known["range"]["instructions"])


def counted(known: Known, what: str) -> tuple[list[float], float]:
    """Return how far what the functional pass counted in each window, and in the whole range, is above all windows.

    Counts are weighed as cycles are in `level_of`, by how far the machine follows the tasks that made them: one more
    counts as what one cycle of theirs changes. What a client has that is waited for by nobody says nothing, and would
    hide what a server has.
    """
    coarse, groups = coarse_of(known), groups_of(known)
    points = [known["points"][window["point"]]["groups"] for window in known["windows"]]
    above, of_range = [0.0] * len(points), 0.0

    def of(name: str, tasks: Known) -> tuple[int, int]:
        mine = [counts for task, counts in tasks.items() if (task if task in groups else "") == name]
        return sum(counts[what] for counts in mine), sum(counts["instructions"] for counts in mine)

    for name, follows in coarse.follows.items():
        group = groups.get(name)
        rows = [of(name, tasks) for tasks in points]
        total, instructions = (sum(column) for column in zip(*rows, strict=True))
        # Tasks that the pass ran there and windows did not have no pace; the other way round they have no counts.
        if group is None or not instructions or not sum(group.instructions):
            continue
        each, weight = total / instructions, follows / (group.known + coarse.paces[name])
        there, made = of(name, known["range"]["groups"])
        of_range += weight * (there / max(1, made) - each)
        for place, (count, of_window) in enumerate(rows):
            above[place] += weight * (count - each * of_window) / (instructions / len(rows))
    return above, of_range


def price_of_read(known: Known) -> float | None:
    """Return the cycles that a read of memory costs a processor, by the windows; None where they do not tell.

    What it takes, of which processors wait for the share that they wait for of all transactions. The regression would
    have to tell it from windows in which reads differ by chance alone, while what the windows lack are the reads of
    a few bursts.
    """
    taken, reads, of_reads, stalled = (
        sum(int(window[name]) for window in known["windows"])
        for name in ("transactions_take", "memory_reads", "memory_reads_take", "memory_stall")
    )
    if not reads or not taken:
        return None
    return of_reads / reads * min(1.0, stalled / taken)


@dataclass(frozen=True)
class Priced:
    """What is known beside the price of reads.

    Attributes
    ----------
    level, left
        As `level_of` returns them, with reads at their price.
    spread : float
        Variance of the windows without it.
    table, of_range
        What the regression is given of each window, and of the range.
    """

    level: float
    left: list[float]
    spread: float
    table: list[list[float]]
    of_range: list[float]


def priced(known: Known) -> Priced:
    """Return level and windows with reads of memory at their price, and what else is known.

    Where a read of memory has a known price, the level is that of as many reads as the range has, and windows are
    without theirs; where not, they are left to the regression.
    """
    level, left = level_of(known)
    spread = variance(left)
    of = {name: counted(known, name) for name in KNOWN}
    if price := price_of_read(known):
        above, of_range = of.pop("memory_reads")
        level *= 1 + price * of_range
        left = [one - price * reads for one, reads in zip(left, above, strict=True)]
    columns = [above for above, _ in of.values()]
    table = [list(row) for row in zip(*columns, strict=True)]
    return Priced(level, left, spread, table, [of_range for _, of_range in of.values()])


def estimate(known: Known) -> sampling.Sampled:
    """Estimate cycles for an instruction from the windows timed so far."""
    of = priced(known)
    found = sampling.estimate(of.left, of.table, of.of_range, min(1.0, share_of(known)))
    mean = of.level * (1 + found.mean)
    # The price of reads explains windows as the regression does.
    explained = 1 - min(1.0, found.sd**2 / of.spread) if of.spread else 1.0
    return replace(found, mean=mean, sd=found.sd * mean, half_width=found.half_width * mean, explained=explained)


def _on_misses(known: Known) -> float:
    """Return the share of their processors' time that windows spent on misses."""
    windows = known["windows"]
    stalls = sum(int(window[part]) for window in windows for part in STALLS)
    return stalls / max(1, sum(_time_of(window) for window in windows))


def model_of(known: Known) -> float:
    """Return half of the 95 % interval of what neither windows nor coarse runs know, as a share."""
    return max(LEAST_MODEL, MODEL_OF_MISSES * _on_misses(known))


@dataclass(frozen=True)
class Unknown:
    """What windows may be wrong by however many there are, as shares of cycles for an instruction.

    Attributes
    ----------
    misses : float
        Share of the time that windows spent on misses, as far as they had others than the first pass had over the same
        instructions: then the order in which tasks touch what they share decides how many there are.
    """

    misses: float

    @property
    def half_width(self) -> float:
        """All of it, which may go the same way."""
        return self.misses


def unknown_of(known: Known) -> Unknown:
    """Return what the windows timed so far may be wrong by together."""
    windows = known["windows"]
    # Of what the pass counted, as many as the windows would have had at its rate.
    points = [known["points"][window["point"]] for window in windows]
    expected = sum(
        point["counts"]["misses"] / max(1, point["instructions"]) * window["instructions"]
        for point, window in zip(points, windows, strict=True)
    )
    had = sum(window["misses"] for window in windows)
    gap = abs(had - expected) / max(1.0, min(had, expected))
    return Unknown(min(1.0, gap) * _on_misses(known))


def _time_of(window: Known) -> int:
    """Return the cycles of all processors in a window."""
    return sum(int(window[part]) for part in registry.processor_times())


def refuse_unsuitable(known: Known, precision: float) -> None:
    """Refuse runs of which windows do not tell enough for the precision, however many there are.

    Raises
    ------
    UsageError
        With what is not known of them, and the remedy.
    """
    unknown, order, model = unknown_of(known).half_width, order_of(known), model_of(known)
    # The windows need a part of the promise as well: half of the square of what is left.
    least = unknown + sqrt(2) * hypot(order, model)
    if least <= precision:
        return
    there = known["range"]["transactions"]
    at_best = f"ask for {_percent(least)} at best, or " if least < LARGEST else ""
    remedy = at_best
    if model >= max(order, unknown):
        why = (
            f"{100 * _on_misses(known):.1f} % of the time goes to misses, of which windows may have others than the "
            f"run, so estimates of such runs are told to ±{100 * model:.1f} % however many windows there are"
        )
    elif order >= unknown:
        # The spread of runs shrinks as the root of their length.
        room = sqrt(max(0.0, max(0.0, precision - unknown) ** 2 / 2 - model**2))
        why = (
            f"single full runs of the {there} transactions to measure differ by ±{100 * order:.1f} % in which of them "
            "end first and who waits; "
        )
        if room > 0:
            missing = ceil(there * ((order / room) ** 2 - 1))
            why += f"{are_missing(missing)} (twice as many in a trace, of which the middle half is measured)"
            remedy = "capture a longer trace, " + (at_best or "or ")
        else:
            why += f"a trace of any length would leave ±{100 * (unknown + sqrt(2) * model):.1f} % open"
    else:
        why = (
            "windows have other misses than the run without time that they begin from, since tasks share what they "
            f"write at once, which leaves {100 * unknown:.1f} % of the time open"
        )
    raise UsageError(
        f"this run cannot be sampled to ±{100 * precision:g} %: {why}; {remedy}simulate it in one piece, without "
        "--precision"
    )


#: Precisions above this are not worth asking for.
LARGEST = 0.49


def _percent(share: float) -> str:
    """Return a share rounded up to a tenth of a percent."""
    return f"{ceil(1000 * share + 0.1) / 10:g}%"


def are_missing(count: int) -> str:
    """Say how many transactions are missing."""
    return f"{count} more {'is' if count == 1 else 'are'} missing"


def suspicions(windows: list[Known]) -> list[ResultWarning]:
    """Return what makes the windows doubtful."""
    gaps = []
    for window in windows:
        first = window["first_half"]
        rest = (window["cycles"] - first["cycles"]) / max(1, window["instructions"] - first["instructions"])
        gaps.append(log(max(1e-9, rest) / max(1e-9, first["cycles"] / max(1, first["instructions"]))))
    gap = sampling.estimate(gaps, [[] for _ in gaps], [], 0.0)
    found = []
    if abs(gap.mean) - gap.half_width > UNSETTLED:
        text = (
            f"the second half of windows takes {100 * gap.mean:+.1f} % (± {100 * gap.half_width:.1f}) of the first: "
            "they had not settled when their measurement began, so the interval may miss the full run"
        )
        found.append(ResultWarning("weak", "unsettled-windows", text))
    if cut := sum(window["cut_short"] for window in windows):
        found.append(ResultWarning("weak", "short-windows", f"the trace ended in {cut} of {len(windows)} windows"))
    return found


def out_of_work(known: Known) -> list[ResultWarning]:
    """Return what a full run would say of users who have no more work in the trace, by the coarse runs."""
    share = coarse_of(known).without_work
    if share <= SOME_WITHOUT_WORK:
        return []
    text = (
        f"users who have no more work in the trace make {100 * share:.1f} % of the users' time in coarse runs of the "
        "transactions to measure, and will in a full run, so the machine serves fewer than it seems: measure fewer "
        "transactions (--transactions), or capture more"
    )
    return [ResultWarning("invalid" if share > MOST_WITHOUT_WORK else "weak", "out-of-work", text)]


def half_of(known: Known) -> float:
    """Return half of the interval of cycles for a transaction, as a share of the mean."""
    found = estimate(known)
    return hypot(found.half_width / found.mean, order_of(known), model_of(known)) + unknown_of(known).half_width


def summary(document: Known) -> Known:
    """Return the estimates with their 95 % intervals, in the form of a result's summary."""
    found, coarse = estimate(document), coarse_of(document)
    of_windows, unknown = found.half_width / found.mean, unknown_of(document).half_width
    both = half_of(document)
    one_run = of_one_run(coarse.spread_per_instruction, coarse.n)
    per_instruction = hypot(of_windows, one_run, model_of(document)) + unknown

    def entry(mean: float, half: float, unit: str) -> Known:
        return {"mean": mean, "interval_95": [mean * (1 - half), mean * (1 + half)], "n": found.n, "unit": unit}

    cycles = found.mean * coarse.work
    rate = 1e6 / cycles
    through = {
        "mean": rate,
        "interval_95": [rate / (1 + both), rate / max(1e-9, 1 - both)],
        "n": found.n,
        "unit": "transactions",
    }
    return {
        "cycles_per_transaction": entry(cycles, both, "cycles"),
        "transactions_per_million_cycles": through,
        "cycles_per_instruction": entry(found.mean, per_instruction, "cycles"),
        "instructions_per_transaction": entry(coarse.work, of_one_run(coarse.spread_of_work, coarse.n), "instructions"),
    }


def reached(document: Known) -> Known:
    """Return how precise cycles per transaction are, and what the error is made of, as shares of the mean."""
    found, coarse, unknown = estimate(document), coarse_of(document), unknown_of(document)
    return {
        "half_width": half_of(document),
        "of_windows": found.half_width / found.mean,
        "of_order": order_of(document),
        "of_misses": unknown.misses,
        "of_model": model_of(document),
        "explained_by_misses": found.explained,
        "sampled_share": found.share,
        "idle_share": coarse.idle,
    }


def cost(document: Known) -> Known:
    """Return what was timed, beside what the whole run would have timed, in references."""
    timed = sum(window["timed_references"] for window in document["windows"])
    options, all_of_it = document["options"], document["range"]
    part = (options["warmup"] + options["transactions"]) / options["transactions"]
    whole = round(all_of_it["counts"]["references"] * part)
    return {
        "timed_references": timed,
        "full_run_references": whole,
        "share_of_full_run": timed / whole,
        "functional_references": document["live_points"]["references"],
        "windows": len(document["windows"]),
        "live_points": len(document["points"]),
    }
