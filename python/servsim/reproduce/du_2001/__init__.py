"""Du, Zhang, Dong and Zhang (2001): TPC-C on an SMP as a queueing network, Tables 10-18.

The tables cannot all come from one model, so the study prints both readings beside every cell, says
which printed cells contradict which others, and fails only when a hard row is missed.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from servsim.errors import UsageError
from servsim.progress import Show
from servsim.reproduce.du_2001 import blocked, data, literal
from servsim.reproduce.du_2001.audit import DECISIVE, all_findings
from servsim.reproduce.du_2001.machine import Machine, Outcome, configuration
from servsim.reproduce.report import Cell, Check, Finding, Report

TITLE = "Du, Zhang, Dong and Zhang 2001: architectural effects of SMPs on TPC-C (Tables 10-18)"
READINGS = {
    "literal": "equations 3.1-3.10 as printed (V_CPU restored in 3.4); saturates at 3.5 tpmC",
    "blocked": "recommended interpretation, exact MVA; processors calibrated on Table 10",
}
#: A throughput within this of the paper counts as reproduced.
THROUGHPUT_TOLERANCE = 0.05
#: A utilisation within this many points counts as reproduced.
POINTS_TOLERANCE = 6.0
#: Tables that the audit must flag.
MUST_FLAG = ("11", "12", "15", "17", "18")


class _Collector:
    """Solves machines once and turns printed figures into cells."""

    def __init__(self, findings: list[Finding]) -> None:
        self.cells: list[Cell] = []
        self.known: dict[str, dict[str, Outcome]] = {}
        self.broken: dict[tuple[str, str, str], list[str]] = {}
        for finding in findings:
            for place in finding.cells:
                rules = self.broken.setdefault(place, [])
                if finding.rule not in rules:
                    rules.append(finding.rule)

    def solve(self, machine: Machine) -> dict[str, Outcome]:
        key = repr(machine)
        if key not in self.known:
            solved = {"literal": literal.solve(machine), "blocked": blocked.solve_machine(machine)}
            self.known[key] = solved
        return self.known[key]

    def add(
        self, place: tuple[str, str, str], paper: float, ours: dict[str, float], unit: str, calibrated: bool
    ) -> None:
        rules = tuple(self.broken.get(place, ()))
        close = (
            abs(ours["blocked"] - paper) <= POINTS_TOLERANCE
            if unit == "%"
            else abs(ours["blocked"] / paper - 1.0) <= THROUGHPUT_TOLERANCE
        )
        if calibrated:
            verdict = "calibrated"
        elif any(rule in DECISIVE for rule in rules):
            verdict = "contradicted"
        elif close:
            verdict = "reproduced"
        else:
            verdict = "conflicting" if rules else "missed"
        self.cells.append(Cell(*place, unit, paper, ours, verdict, rules))

    def throughput(self, place: tuple[str, str, str], paper: float, machine: Machine) -> None:
        ours = {name: o.tpmc for name, o in self.solve(machine).items()}
        is_base = machine.service == data.SERVICE and machine.layout == (data.F1,)
        self.add(place, paper, ours, "tpmC", calibrated=is_base)


def _table_10(to: _Collector) -> None:
    for processors, (tpmc, _) in data.TABLE_10.items():
        to.throughput(("10", f"mu{processors}", "tpmC"), tpmc, Machine(processors, (data.F1,)))


def _table_11(to: _Collector) -> None:
    for latency, (tpmc, _, use) in data.TABLE_11.items():
        machine = configuration("C2").with_service(memory=latency, memory_bus_reply=latency / 10)
        to.throughput(("11", str(latency), "tpmC"), tpmc, machine)
        ours = {name: 100.0 * o.buses[0] for name, o in to.solve(machine).items()}
        to.add(("11", str(latency), "U_IOBus"), use, ours, "%", calibrated=False)


def _table_12(to: _Collector) -> None:
    for name, (disks, buses, memory) in data.TABLE_12.items():
        solved = to.solve(configuration(name))
        printed = [(f"disk {i + 1}", u) for i, u in enumerate(disks) if u is not None]
        for index, (column, use) in enumerate(printed):
            ours = {r: 100.0 * o.disks[index] for r, o in solved.items()}
            to.add(("12", name, column), use, ours, "%", calibrated=name == "C2")
        for index, bus_use in enumerate(u for u in buses if u is not None):
            ours = {r: 100.0 * o.buses[index] for r, o in solved.items()}
            to.add(("12", name, f"bus {index + 1}"), bus_use, ours, "%", calibrated=False)
        ours = {r: 100.0 * o.memory_bus for r, o in solved.items()}
        to.add(("12", name, "memory bus"), memory, ours, "%", calibrated=name == "C2")


def _sweeps(to: _Collector) -> None:
    for table, (parameter, rows) in data.SWEEPS.items():
        for value, row in rows.items():
            for name, (tpmc, _) in zip(data.COLUMNS, row, strict=True):
                machine = configuration(name).with_service(**{parameter: float(value)})
                to.throughput((table, str(value), name), tpmc, machine)


def _allocations(to: _Collector) -> None:
    columns = ("bus 1", "bus 2", "disk 1", "disk 2", "disk 3", "disk 4")
    for name, (tpmc, _) in data.TABLE_17.items():
        to.throughput(("17", name, "tpmC"), tpmc, Machine(2, data.ALLOCATIONS[name]))
    for name, row in data.TABLE_18.items():
        solved = to.solve(Machine(2, data.ALLOCATIONS[name]))
        for index, (column, use) in enumerate(zip(columns, row, strict=True)):
            ours = {r: 100.0 * [*o.buses, *o.disks][index] for r, o in solved.items()}
            to.add(("18", name, column), use, ours, "%", calibrated=False)


def _checks(to: _Collector, findings: list[Finding]) -> list[Check]:
    checks = []
    for cell in to.cells:
        if cell.table == "10":
            off = cell.ours["blocked"] - cell.paper
            detail = f"{cell.ours['blocked']:.2f} for {cell.paper} tpmC, calibrated"
            checks.append(Check(f"Table 10 {cell.row} within 0.1", abs(off) <= 0.1, detail))
        if cell.table == "12" and cell.row == "C2":
            off = cell.ours["blocked"] - cell.paper
            detail = f"{cell.ours['blocked']:.1f} % for {cell.paper} %"
            checks.append(Check(f"Table 12 C2 {cell.column} within 6 points", abs(off) <= POINTS_TOLERANCE, detail))
    base = configuration("C2")
    tpmc = {
        name: to.solve(base.with_service(**{name: 0.6 * data.SERVICE[name]}))["blocked"].tpmc
        for name in ("rotation", "seek", "transfer")
    }
    ordered = tpmc["rotation"] > tpmc["seek"] > tpmc["transfer"]
    detail = ", ".join(f"{name} {value:.3f}" for name, value in tpmc.items())
    checks.append(Check("40 % less rotation gains more than seek, seek more than transfer (C2)", ordered, detail))
    steps = [to.solve(Machine(k, (data.F1,)))["blocked"].tpmc for k in (1, 2, 3, 4)]
    gains = [b - a for a, b in pairwise(steps)]
    diminishing = gains[0] > gains[1] > gains[2] > 0.0
    detail = ", ".join(f"+{gain:.1f}" for gain in gains) + " tpmC"
    checks.append(Check("returns diminish beyond two processors", diminishing, detail))
    flagged = {table for finding in findings for table in finding.tables}
    missing = [table for table in MUST_FLAG if table not in flagged]
    detail = "flagged " + ", ".join(sorted(flagged, key=int))
    checks.append(Check("the audit flags Tables 11, 12, 15, 17 and 18", not missing, detail))
    total = sum(blocked.elasticities(base).values())
    checks.append(Check("elasticities of C2, think time included, sum to -1", abs(total + 1.0) < 1e-9, f"{total:.12f}"))
    return checks


def _notes(to: _Collector) -> list[str]:
    values = [c.ours["blocked"] for c in to.cells if c.table == "17"]
    rates = ", ".join(f"{rate:.4f}" for rate in blocked.processor_rates(4))
    verdicts = ("calibrated", "reproduced", "missed", "conflicting", "contradicted")
    counts = {v: sum(c.verdict == v for c in to.cells) for v in verdicts}
    text = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
    return [
        f"{len(to.cells)} cells: {text}. Contradicted cells break a law by themselves; conflicting "
        "ones cannot hold "
        "together with other printed cells (the rule is named).",
        "`blocked` is bound by the processors at two of them: it flattens Table 17 to "
        f"{min(values):.1f}-{max(values):.1f} "
        "tpmC and erases the paper's headline that the number of I/O buses matters most. That "
        "headline follows from "
        "neither reading: Equation 3.9 adds the buses up, so `literal` gives C3 and C4 the same throughput.",
        f"Processor rates calibrated on Table 10: {rates} transactions per second; Figure 5 is not in the paper.",
        "Fitted to Table 12, C2: 20 sectors per positioning (disk) and misses holding memory and bus (memory bus).",
        "Think time 17.504 s puts r = 0.5 into Equation 3.1, as the authors seem to have done; its mean is 20.99 s.",
        "Section 5.2 says that the bus is released during a seek; Equation 3.7 says that writes hold it.",
    ]


def run(quick: bool = False, trace: Path | None = None, say: Show | None = None) -> Report:
    """Rerun the study; ``quick`` changes nothing, since it takes seconds, and no trace is used."""
    del quick, say
    if trace is not None:
        raise UsageError("du-2001 solves models and runs no trace: leave --trace out")
    findings = all_findings()
    to = _Collector(findings)
    for part in (_table_10, _table_11, _table_12, _sweeps, _allocations):
        part(to)
    return Report("du-2001", TITLE, READINGS, to.cells, findings, _checks(to, findings), _notes(to))
