"""The audit: which printed cells contradict which others, by laws that need no model.

Each rule looks only at printed figures and at identities every closed system obeys, and returns
findings; none knows in advance which table is wrong.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from servsim.reproduce.du_2001 import data
from servsim.reproduce.du_2001.machine import MEAN_THINK_S, Machine
from servsim.reproduce.report import Finding

#: Relative change that rounding to one decimal cannot explain.
ROUNDING = 0.01
#: Percentage points beyond which a printed percentage is not a rounding of the computed one.
PERCENT_ROUNDING = 0.35


def _rate(tpmc: float) -> float:
    """Transactions per second."""
    return tpmc / data.TPMC


def utilisation_law_11() -> list[Finding]:
    """U = X D with the bus demand untouched: U / X must stay constant over Table 11."""
    ratios = {latency: use / tpmc for latency, (tpmc, _, use) in data.TABLE_11.items()}
    first = ratios[100]
    cells = tuple(("11", str(s), "U_IOBus") for s, r in ratios.items() if abs(r / first - 1.0) > ROUNDING)
    if not cells:
        return []
    last_x, _, last_u = data.TABLE_11[50]
    start_x, _, start_u = data.TABLE_11[100]
    return [
        Finding(
            "utilisation-law",
            ("11",),
            f"Table 11: the I/O bus's demand does not depend on memory latency, yet its utilisation grows by "
            f"x{last_u / start_u:.2f} while throughput grows by x{last_x / start_x:.2f}; U = X D is "
            "broken in "
            f"{len(cells)} of 6 columns.",
            cells,
        )
    ]


def _implied_demand(use: tuple[float | None, ...], tpmc: float) -> float:
    """Disk seconds per transaction: sum of disk utilisations over throughput."""
    return sum(u for u in use if u is not None) / 100.0 / _rate(tpmc)


def utilisation_law_disks() -> list[Finding]:
    """Compare the disks' total demand per transaction, the same wherever the tables lie."""
    base_row = data.SWEEPS["14"][1][1_000_000]
    base = {name: cell[0] for name, cell in zip(data.COLUMNS, base_row, strict=True)}
    in_12 = {name: _implied_demand(row[0], base[name]) for name, row in data.TABLE_12.items()}
    in_18 = {name: _implied_demand(row[2:], data.TABLE_17[name][0]) for name, row in data.TABLE_18.items()}
    reference = in_12["C2"]
    findings = []
    off = {name: d for name, d in in_12.items() if abs(d / reference - 1.0) > 5 * ROUNDING}
    if off:
        text = ", ".join(f"{name} {d:.3f} s" for name, d in off.items())
        cells = tuple(("12", name, f"disk {i + 1}") for name in off for i in range(4))
        findings.append(
            Finding(
                "utilisation-law",
                ("12",),
                f"Table 12: disk utilisations over throughput imply {reference:.3f} s of disk per "
                "transaction in "
                f"C2 but {text}.",
                cells,
            )
        )
    off = {name: d for name, d in in_18.items() if abs(d / reference - 1.0) > 5 * ROUNDING}
    if off:
        low, high = min(off.values()), max(off.values())
        cells = tuple(("18", name, f"disk {i + 1}") for name in off for i in range(4))
        cells += tuple(("17", name, "tpmC") for name in off)
        findings.append(
            Finding(
                "utilisation-law",
                ("17", "18"),
                f"Tables 17 and 18 together imply {low:.2f}-{high:.2f} s of disk per transaction, Table 12 "
                f"{reference:.2f} s, though only the placement of tables differs.",
                cells,
            )
        )
    return findings


def shares_18() -> list[Finding]:
    """Disks of one allocation are used in proportion to their tables' accesses (Table 5)."""
    cells, worst = [], (0.0, "")
    for name, row in data.TABLE_18.items():
        uses = row[2:]
        shares = [s for bus in Machine(2, data.ALLOCATIONS[name]).shares() for s in bus]
        for i, (use, share) in enumerate(zip(uses, shares, strict=True)):
            printed = use / sum(uses)
            if abs(printed - share) > 0.1:
                cells.append(("18", name, f"disk {i + 1}"))
                worst = max(
                    worst,
                    (
                        abs(printed - share),
                        f"{name}, disk {i + 1}: {share:.1%} of the accesses of "
                        f"Table 5 but {printed:.1%} of the printed disk use",
                    ),
                )
    if not cells:
        return []
    return [Finding("access-share", ("18",), f"Table 18 does not follow Table 5; worst {worst[1]}.", tuple(cells))]


def shares_12() -> list[Finding]:
    """Compare Table 12 with the shares of accesses, and buses with their disks."""
    findings = []
    for name, (disks, buses, _) in data.TABLE_12.items():
        shares = Machine(*data.CONFIGURATIONS[name]).shares()
        flat = [s for bus in shares for s in bus]
        printed = [(i, d) for i, d in enumerate(disks) if d is not None]
        total = sum(d for _, d in printed)
        for share, (i, use) in zip(flat, printed, strict=True):
            if abs(share - use / total) > 0.1:
                findings.append(
                    Finding(
                        "access-share",
                        ("12",),
                        f"Table 12, {name}: disk {i + 1} holds {share:.1%} of the accesses but "
                        f"shows {use:.1f} % of a "
                        f"total of {total:.1f} %.",
                        (("12", name, f"disk {i + 1}"),),
                    )
                )
        used = [b for b in buses if b is not None]
        by_bus = [sum(bus) for bus in shares]
        if len(used) == 2 and (by_bus[0] - by_bus[1]) * (used[0] - used[1]) < 0:
            findings.append(
                Finding(
                    "access-share",
                    ("12",),
                    f"Table 12, {name}: bus 1 carries {by_bus[0]:.1%} of the accesses, bus 2 "
                    f"{by_bus[1]:.1%}, yet the "
                    f"printed utilisations are {used[0]} and {used[1]} %.",
                    (("12", name, "bus 1"), ("12", name, "bus 2")),
                )
            )
    return findings


def duplicates_12() -> list[Finding]:
    """Rows that repeat although throughput, hence utilisation, differs."""
    base_row = data.SWEEPS["14"][1][1_000_000]
    base = {name: cell[0] for name, cell in zip(data.COLUMNS, base_row, strict=True)}
    findings = []
    names = list(data.TABLE_12)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            uses = [tuple(u for u in data.TABLE_12[n][0] if u is not None) for n in (a, b)]
            if uses[0] == uses[1] and abs(base[b] / base[a] - 1.0) > ROUNDING:
                findings.append(
                    Finding(
                        "duplicate",
                        ("12",),
                        f"Table 12: the disk utilisations of {b} copy those of {a}, though {b} completes "
                        f"{base[b] / base[a] - 1.0:.0%} more transactions.",
                        tuple(("12", n, f"disk {k + 1}") for n in (a, b) for k in range(4)),
                    )
                )
    return findings


def _throughputs() -> list[tuple[tuple[str, str, str], float, int]]:
    """Every printed throughput with its place and number of processors."""
    cells = [(("10", f"mu{k}", "tpmC"), v[0], k) for k, v in data.TABLE_10.items()]
    cells += [(("11", str(s), "tpmC"), v[0], 2) for s, v in data.TABLE_11.items()]
    for table, (_, rows) in data.SWEEPS.items():
        for value, row in rows.items():
            pairs = zip(data.COLUMNS, row, strict=True)
            cells += [((table, str(value), name), cell[0], 2) for name, cell in pairs]
    cells += [(("17", name, "tpmC"), v[0], 2) for name, v in data.TABLE_17.items()]
    return cells


def population_bound() -> list[Finding]:
    """X <= N / Z: each terminal thinks for Z between transactions."""
    bound = data.TPMC * data.TERMINALS / MEAN_THINK_S
    over = [(place, x) for place, x, _ in _throughputs() if x > bound]
    if not over:
        return []
    tables = tuple(dict.fromkeys(place[0] for place, _ in over))
    values = ", ".join(f"{x:.1f}" for _, x in over)
    message = (
        f"Table {', '.join(tables)}: {data.TERMINALS} terminals that think for {MEAN_THINK_S:.2f} s "
        "on average cannot "
        f"exceed N/Z = {bound:.2f} tpmC; printed are {values}."
    )
    return [Finding("population-bound", tables, message, tuple(place for place, _ in over))]


def _series() -> list[tuple[str, str, str, list[tuple[float, float]]]]:
    """Throughput against one service time: table, column, parameter, points with falling time."""
    series = [("11", "tpmC", "memory", [(float(s), v[0]) for s, v in data.TABLE_11.items()])]
    for table, (parameter, rows) in data.SWEEPS.items():
        for i, name in enumerate(data.COLUMNS):
            points = sorted(((float(v), row[i][0]) for v, row in rows.items()), reverse=True)
            series.append((table, name, parameter, points))
    return series


def scaling_bound() -> list[Finding]:
    """Scaling one service time by s < 1 cannot raise throughput by more than 1 / s."""
    findings = []
    for table, column, parameter, points in _series():
        for (before, x), (after, y) in pairwise(points):
            most = (x + 0.05) * before / after
            if y - 0.05 > most:
                place = (table, str(int(after)), column)
                findings.append(
                    Finding(
                        "scaling-bound",
                        (table,),
                        f"Table {table}, {column}: {parameter} from {before:.0f} to {after:.0f} "
                        f"cycles can raise {x:.1f} "
                        f"tpmC to at most {most:.1f}; printed is {y:.1f}.",
                        (place,),
                    )
                )
    return findings


def elasticity_sum() -> list[Finding]:
    """First-step elasticities of C2: over all demands and think time they would sum to 1."""
    steps = {}
    for _table, column, parameter, points in _series():
        if column in ("C2", "tpmC"):
            (before, x), (after, y) = points[0], points[1]
            steps[parameter] = math.log(y / x) / math.log(before / after)
    total = sum(steps.values())
    if total <= 1.0 + ROUNDING:
        return []
    text = ", ".join(f"{name} {value:.2f}" for name, value in steps.items())
    tables = ("11", "13", "14", "15", "16")
    return [
        Finding(
            "elasticity-sum",
            tables,
            f"Tables 11 and 13-16, C2: throughput gains per relative reduction are {text}; they sum "
            f"to {total:.2f}, but "
            "with processors and think time included the sum must be 1.",
        )
    ]


def processor_bound() -> list[Finding]:
    """C1 is bound by its processor (C2 shows that all else sustains more): two cap at twice C1."""
    most = 2.0 * (data.TABLE_10[1][0] + 0.05)
    pairs = [(place, x) for place, x, processors in _throughputs() if processors == 2 and place[0] != "10"]
    over = [place for place, x in pairs if x > most]
    tables = tuple(dict.fromkeys(place[0] for place in over))
    message = (
        f"Tables {', '.join(tables)}: C1 to C2 nearly doubles throughput with the same memory and "
        "disks, so C1 is bound by "
        f"its processor and two identical processors cap at about {most:.1f} tpmC; {len(over)} of "
        f"{len(pairs)} "
        "two-processor cells exceed that."
    )
    return [Finding("processor-bound", tables, message, tuple(over))] if over else []


def same_point() -> list[Finding]:
    """Tables 13-16 meet at the base parameters and must agree there."""
    base = {t: rows[max(rows)] for t, (_, rows) in data.SWEEPS.items()}
    findings = []
    for i, name in enumerate(data.COLUMNS):
        values = {t: row[i][0] for t, row in base.items()}
        if len(set(values.values())) > 1:
            text = ", ".join(f"Table {t} {v:.1f}" for t, v in values.items())
            cells = tuple((t, str(max(data.SWEEPS[t][1])), name) for t in values)
            message = f"{name} with the base parameters: {text}."
            findings.append(Finding("same-point", tuple(values), message, cells))
    return findings


def table_5() -> list[Finding]:
    """Table 5 should be Table 1 weighted by the mix."""
    wrong = []
    for i, (printed, row) in enumerate(zip(data.ACCESS, data.TABLE_1, strict=True)):
        computed = sum(p * q for p, q in zip(data.MIX, row, strict=True))
        if abs(computed - printed) > 0.001:
            wrong.append(f"{i + 1} ({computed:.4f}, printed {printed})")
    text = f"Table 5 is Table 1 weighted by the mix except for tables {', '.join(wrong)}."
    return [Finding("table-5", ("5",), text)] if wrong else []


def percentages() -> list[Finding]:
    """Compare printed improvements over C1 with the printed throughputs."""
    base = data.TABLE_10[1][0]
    printed = [(("10", f"mu{k}", "tpmC"), v) for k, v in data.TABLE_10.items()]
    printed += [(("11", str(s), "tpmC"), (v[0], v[1])) for s, v in data.TABLE_11.items()]
    for table, (_, rows) in data.SWEEPS.items():
        for value, row in rows.items():
            for name, cell in zip(data.COLUMNS, row, strict=True):
                printed.append(((table, str(value), name), cell))
    printed += [(("17", name, "tpmC"), v) for name, v in data.TABLE_17.items()]
    wrong = [(p, v, 100.0 * (v[0] / base - 1.0)) for p, v in printed]
    wrong = [(p, v, c) for p, v, c in wrong if abs(c - v[1]) > PERCENT_ROUNDING]
    if not wrong:
        return []
    text = "; ".join(f"Table {p[0]} {p[1]}: {v[1]} % printed, {c:.1f} % computed" for p, v, c in wrong)
    message = f"{len(wrong)} of {len(printed)} printed improvements do not follow from their throughputs: {text}."
    return [Finding("percentage", tuple({p[0] for p, _, _ in wrong}), message)]


RULES: tuple[Callable[[], list[Finding]], ...] = (
    utilisation_law_11,
    utilisation_law_disks,
    shares_12,
    shares_18,
    duplicates_12,
    population_bound,
    scaling_bound,
    elasticity_sum,
    processor_bound,
    same_point,
    table_5,
    percentages,
)

#: Rules whose cells cannot be right as printed; the others tell that some of several are wrong.
DECISIVE = ("utilisation-law", "access-share", "duplicate", "population-bound", "scaling-bound")


def all_findings() -> list[Finding]:
    """Apply every rule."""
    return [finding for rule in RULES for finding in rule()]
