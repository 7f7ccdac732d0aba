"""Runs made up by formulas in which the papers are right, for tests of the studies that are rerun by simulation."""

from typing import Any

from servsim.reproduce.runs import Configuration

PROTOCOL_GAIN = {"mesi": 0.0, "amsd": 0.3, "pscr": 0.8}
COHERENCE = {"mesi": 5_000, "amsd": 4_000, "pscr": 9_000}


def made_up(c: Configuration, seed: int) -> dict[str, Any]:
    """Return a run in which protocols differ as the paper says."""
    wobble = 1 + 0.001 * (seed % 5)
    shared = 0 if c.protocol == "pscr" else 1_000 * c.processors
    both = lambda value: {"user": round(value * 0.4 * wobble), "kernel": round(value * 0.6 * wobble)}  # noqa: E731
    misses = {"cold": both(9_000), "capacity": both(9_000 + 64_000 / c.line), "conflict": both(2_000)}
    misses |= {k: both(shared) for k in ("true_sharing", "false_sharing", "passive_sharing")}
    misses["total"] = {m: sum(part[m] for part in misses.values()) for m in ("user", "kernel")}
    coherence = {k: both(COHERENCE[c.protocol]) for k in ("needless", "true_sharing", "false_sharing")}
    coherence["passive_sharing"] = both(COHERENCE[c.protocol] * (2 if c.protocol == "mesi" else 1))
    power = (c.processors * 0.7) * (1 + PROTOCOL_GAIN[c.protocol] * c.processors / 16) * wobble
    return {
        "seed": seed,
        "references": 10_000_000,
        "references_by_kind": {"store": {"user": 500_000, "kernel": 200_000}},
        "gsp": power,
        "cycles_per_transaction": (1000 - 2 * c.ways) * (1 + 0.004 * ((seed * 7) % 5)),
        "bus_utilization": (0.5 - 0.2 * PROTOCOL_GAIN[c.protocol]) * wobble,
        "processor_utilization": [power / c.processors] * c.processors,
        "misses": misses,
        "coherence": coherence,
        "bus": {"read": 20_000, "write_back": 1_000},
        "processors": [{"busy_user": 5, "busy_kernel": 2, "memory_stall": 2, "bus_wait": 1, "idle": 3}],
        "mean_ready_tasks": 4.0,
        "migrations": 12,
        "timeline": [{"instructions": 100 + (i * 7919 + seed * 104729) * 31 % 101} for i in range(64)],
    }
