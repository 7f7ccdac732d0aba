"""Makes documents with the shape of a simulation result, filled with random but plausible numbers.

LAYOUT ONLY: nothing here was simulated. The documents test how a page looks and behaves, never what
a machine does.
"""

import random
import re
from typing import Any

KINDS = {"new_order": 0.45, "payment": 0.43, "order_status": 0.04, "delivery": 0.04, "stock_level": 0.04}
MISSES = {
    "cold": (700, 500),
    "capacity": (2600, 1900),
    "conflict": (800, 700),
    "true_sharing": (900, 800),
    "false_sharing": (240, 300),
    "passive_sharing": (60, 150),
}


def _replication(chance: random.Random, seed: int, processors: int, transactions: int, pace: float) -> dict[str, Any]:
    def near(value: float, spread: float = 0.03) -> int:
        return round(value * chance.gauss(1, spread))

    cycles = near(transactions * pace / processors)
    misses: dict[str, dict[str, int]] = {
        kind: {"user": near(user * transactions), "kernel": near(kernel * transactions)}
        for kind, (user, kernel) in MISSES.items()
    }
    misses["total"] = {mode: sum(part[mode] for part in misses.values()) for mode in ("user", "kernel")}
    windows = 40 + chance.randrange(3)
    window = cycles // windows
    processor_times = [
        {
            "busy_user": near(0.42 * cycles),
            "busy_kernel": near(0.21 * cycles),
            "memory_stall": near(0.22 * cycles),
            "bus_wait": near(0.06 * cycles),
            "idle": near(0.09 * cycles, 0.2),
        }
        for _ in range(processors)
    ]
    kinds = [
        {
            "kind": kind,
            "count": round(transactions * share),
            "mean_response_cycles": chance.gauss(1, 0.05) * 9e6 * (1 + share),
            "p95_response_cycles": chance.gauss(1, 0.05) * 21e6 * (1 + share),
        }
        for kind, share in KINDS.items()
    ]
    timeline = [
        {
            "start": index * window,
            "transactions": max(0, round(chance.gauss(transactions / windows, 1.6))),
            "bus_busy": round(window * min(1, max(0, chance.gauss(0.31, 0.05)))),
        }
        for index in range(windows)
    ]
    return {
        "seed": seed,
        "references": near(transactions * 1_900_000, 0.001),
        "instructions": near(transactions * 4_100_000, 0.001),
        "transactions": transactions,
        "cycles": cycles,
        "cycles_per_transaction": cycles / transactions,
        "gsp": processors * 0.8,
        "processor_utilization": [chance.uniform(0.86, 0.94) for _ in range(processors)],
        "bus_utilization": chance.gauss(0.31, 0.01),
        "misses": misses,
        "coherence": {"total": {"user": 0, "kernel": 0}},
        "bus": {
            "read": near(6200 * transactions),
            "read_exclusive": near(2100 * transactions),
            "invalidate": near(1500 * transactions),
            "write": near(2900 * transactions),
            "write_back": 0,
            "cache_to_cache": near(2400 * transactions),
        },
        "processors": processor_times,
        "transactions_by_kind": kinds,
        "window_cycles": window,
        "timeline": timeline,
    }


def layout_result(
    name: str = "layout only, not simulated",
    processors: int = 4,
    replications: int = 10,
    pace: float = 6_000_000,
    seed: int = 1,
) -> dict[str, Any]:
    """Return a document of the schema ``servsim.simulate/1``, made of random numbers."""
    chance = random.Random(f"{name} {processors} {seed}")
    runs = [_replication(chance, seed + i, processors, 200, pace) for i in range(replications)]
    return {
        "schema": "servsim.simulate/1",
        "engine": "timing",
        "machine": {
            "name": name,
            "clock": "1 GHz",
            "processors": processors,
            "cache": {"size": "2 MiB", "associativity": 2, "line": "128 B", "replacement": "lru"},
            "protocol": {"name": "mesi", "supplier": "dirty-only"},
            "bus": {"memory_read": "64 cycles", "bytes_per_cycle": "8 B", "arbitration": "round-robin"},
            "scheduler": {"policy": "random", "time_slice": "200000 references"},
            "disk": {"read_time": "5.8 ms", "write_time": "500 us"},
            "perturbation": {"memory_delay": "4 cycles"},
        },
        "workload": {"name": "oltp", "users": 8, "warehouses": 40},
        "trace": {
            "name": "oltp.svt",
            "hash": "5d41402abc4b2a76b9719d911017c592ae1f6e9d2b9d4c1d0b4a7e2f9a3c8e11",
            "transactions": 250,
        },
        "options": {
            "transactions": 200,
            "warmup": 50,
            "replications": replications,
            "seed": seed,
        },
        "replications": runs,
        "warnings": [],
    }


def text_of(markup: str) -> str:
    """Return what a page says: its markup without elements, with plain spaces and hyphens."""
    bare = re.sub(r"<style>.*?</style>|<[^>]+>", " ", markup, flags=re.S)
    return re.sub(r"[\s\u00a0\u202f]+", " ", bare).replace("\N{MINUS SIGN}", "-")
