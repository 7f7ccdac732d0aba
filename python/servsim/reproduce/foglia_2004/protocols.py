"""Rows F14 to F17 and F19: coherence protocols, and processors against tasks (5.2.2 and on)."""

from __future__ import annotations

from itertools import pairwise

from servsim.critical_point import critical_point
from servsim.reproduce.foglia_2004 import distributed
from servsim.reproduce.foglia_2004.study import COUNTS, POLICIES, PROTOCOLS, Study, added, at, gsp_at
from servsim.reproduce.rows import Part, Row, ordered, shown, within
from servsim.reproduce.runs import (
    SHARING,
    Configuration,
    Replication,
    balance,
    bus_percent,
    gsp,
    mean,
    miss_percent,
    rate,
    total,
)
from servsim.statistics.intervals import estimate


def _protocols(study: Study) -> list[Row]:
    """F14 to F17: MESI, AMSD and PSCR on 8, 12 and 16 processors under both policies."""
    grid = {(p, s, n): Configuration(n, scheduler=s, protocol=p) for p in PROTOCOLS for s in POLICIES for n in COUNTS}
    power = {key: study.values(configuration, gsp) for key, configuration in grid.items()}
    order = [
        ordered(f"GSP, {n}p, {s}", power[a, s, n], power[b, s, n], (a.upper(), b.upper()))
        for s in POLICIES
        for n in COUNTS
        for a, b in pairwise(PROTOCOLS)
    ]
    for s in POLICIES:
        gaps = [mean(power["pscr", s, n]) - mean(power["mesi", s, n]) for n in COUNTS]
        ours = ", ".join(f"{n}p {gap:+.2f}" for n, gap in zip(COUNTS, gaps, strict=True))
        parts = Part(
            f"PSCR minus MESI, {s}", "grows with processors", ours, gaps == sorted(gaps) and gaps[0] < gaps[-1]
        )
        order.append(parts)
    witness = grid["mesi", "random", 16]
    paid = balance(study.made, grid["pscr", "random", 16], witness)
    return [
        study.row(
            "F14",
            "PSCR beats AMSD beats MESI in GSP, the more the more processors",
            "hard",
            order,
            witness,
            hard=True,
            more=paid,
        ),
        _saturation(study, power, witness),
        _best(study, power, grid),
        _why_pscr(study, grid),
    ]


def _saturation(study: Study, power: dict[tuple[str, str, int], list[float]], witness: Configuration) -> Row:
    """F15: saturation, where four more processors add less than two to GSP."""
    parts = []
    for protocol, policy, low, high in (
        ("mesi", "random", 10.0, 14.0),
        ("amsd", "random", 10.0, 18.0),
        ("amsd", "affinity", 10.0, 18.0),
        ("pscr", "random", None, None),
        ("pscr", "affinity", None, None),
    ):
        found = critical_point({n: power[protocol, policy, n] for n in COUNTS})
        paper = "none to 16" if low is None else "about 12" if protocol == "mesi" else "12 to 16"
        ours = "none to 16" if found.point is None else f"{found.point:.1f}"
        holds = (
            found.point is None
            if low is None or high is None
            else found.point is not None and low <= found.point <= high
        )
        parts.append(Part(f"{protocol.upper()}, {policy}", paper, ours, holds))
    return study.row("F15", "saturation: MESI near 12 processors, AMSD 12 to 16, PSCR none to 16", "±2", parts, witness)


def _best(
    study: Study, power: dict[tuple[str, str, int], list[float]], grid: dict[tuple[str, str, int], Configuration]
) -> Row:
    """F16: PSCR on 16 processors with affinity."""
    best = grid["pscr", "affinity", 16]
    found = study.critical(best, range(8, 25), (8, 12, 16, 20, 24))
    twice = mean(power["pscr", "affinity", 16]) / mean(power["mesi", "affinity", 8])
    parts = [
        within("GSP", 14, power["pscr", "affinity", 16], share=0.1),
        within("bus", 55, study.values(best, bus_percent), absolute=10, unit="%"),
        at("critical point", 20, found, 3),
        gsp_at("GSP there", 16, found, 0.1),
        Part("GSP against MESI on 8", "twice (±10 %)", f"{twice:.2f} times", abs(twice / 2 - 1) <= 0.1),
    ]
    return study.row(
        "F16", "PSCR, 16 processors, affinity: GSP 14, bus 55 %, critical point 20", "±10 %, ±3", parts, best
    )


def _why_pscr(study: Study, grid: dict[tuple[str, str, int], Configuration]) -> Row:
    """F17: many cheap transactions and no invalidation misses."""
    coherence = rate("coherence", "needless", *SHARING)
    parts = []
    for policy in POLICIES:
        at = {p: grid[p, policy, 16] for p in PROTOCOLS}
        for what, figure, low, high in (
            ("coherence transactions", coherence, "mesi", "pscr"),
            ("coherence transactions", coherence, "amsd", "mesi"),
            ("misses per 100", miss_percent, "pscr", "amsd"),
            ("misses per 100", miss_percent, "pscr", "mesi"),
            ("bus, %", bus_percent, "pscr", "amsd"),
            ("bus, %", bus_percent, "pscr", "mesi"),
        ):
            a, b = study.values(at[low], figure), study.values(at[high], figure)
            parts.append(ordered(f"{what}, 16p, {policy}", a, b, (low.upper(), high.upper())))
        none = study.values(at["pscr"], lambda run: total(run, "misses", *SHARING))
        parts.append(Part(f"PSCR invalidation misses, {policy}", "0", f"{mean(none):.0f}", max(none) == 0))
        saved = {k: -added(study, at["mesi"], at["amsd"], rate("coherence", k)) for k in SHARING}
        ours = ", ".join(f"{kind.removesuffix('_sharing')} {value:+.3f}" for kind, value in saved.items())
        most = max(saved, key=lambda kind: saved[kind]) == "passive_sharing"
        parts.append(Part(f"transactions saved by AMSD per 1000, {policy}", "mainly passive", ours, most))
    claim = "PSCR: most coherence transactions, no invalidation misses, least misses and bus; AMSD: fewest transactions"
    paid = balance(study.made, grid["pscr", "random", 16], grid["mesi", "random", 16])
    return study.row("F17", claim, "hard", parts, grid["pscr", "random", 16], hard=True, more=paid)


def _many(study: Study) -> list[Row]:
    """F19: affinity when processors are as many as tasks."""
    gains = []
    counts = (8, 16, 24, 28)
    for n in counts:
        a, b = (study.values(Configuration(n, scheduler=s), gsp) for s in ("affinity", "random"))
        gains.append(estimate([100 * (x / y - 1) for x, y in zip(a, b, strict=True)]))
    ours = ", ".join(f"{n}p {shown(gain, '%')}" for n, gain in zip(counts, gains, strict=True))
    vanishes = gains[0].mean > 0 and abs(gains[-1].mean) < 0.25 * gains[0].mean
    part = Part("gain of GSP by affinity", "vanishes towards 26", ours, vanishes)
    claim = "the gain by affinity vanishes as processors near the tasks"
    used = study.values(Configuration(counts[-1], scheduler="affinity"), _used)
    more = (
        f"With affinity {mean(used):.0f} of {counts[-1]} processors ever run a task; GSP counts those alone, and "
        "random scheduling uses all."
    )
    return [study.row("F19", claim, "shape", [part], Configuration(counts[-1]), more=more)]


def _used(run: Replication) -> float:
    """Return how many processors ever worked."""
    return float(sum(any(cycles for part, cycles in p.items() if part != "idle") for p in run["processors"]))


#: Rows in order.
PARTS = (_protocols, distributed.row, _many)
