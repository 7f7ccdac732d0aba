"""How our workload differs from the paper's where that decides a row, told from the counters of runs."""

from __future__ import annotations

from servsim.reproduce.runs import Configuration, Runs, bus_of, mean, miss_percent, total

#: The paper's workload: ready processes (section 4), stores and references (Tables 1-3).
PAPER_READY, PAPER_STORES, PAPER_REFERENCES = 26, 7.39, 130
#: Below this share of the paper's ready processes, or above this share of cold misses, in percent, ours differs.
FEW_READY, MUCH_COLD, MANY_STORES = 50, 30, 1.25 * PAPER_STORES


def why(made: Runs, configuration: Configuration) -> str:
    """Explain from counters how our workload differs from the paper's where it decides the outcome."""
    found = made(configuration)
    times = {k: sum(p[k] for r in found for p in r["processors"]) for k in ("idle", "bus_wait")}
    whole = max(1, sum(sum(p.values()) for r in found for p in r["processors"]))
    idle, queued = 100 * times["idle"] / whole, 100 * times["bus_wait"] / max(1, whole - times["idle"])
    cold = 100 * mean([total(r, "misses", "cold") / max(1.0, total(r, "misses", "total")) for r in found])
    ready = mean([float(r["mean_ready_tasks"]) for r in found])
    stores = mean([100 * total(r, "references_by_kind", "store") / r["references"] for r in found])
    references, moved = mean([r["references"] / 1e6 for r in found]), mean([float(r["migrations"]) for r in found])
    reasons = []
    if ready < PAPER_READY * FEW_READY / 100:
        reasons.append(
            f"only {ready:.1f} tasks are ready on average (the paper: {PAPER_READY}), so processors idle {idle:.0f} % "
            f"of the time, tasks migrate {moved:.0f} times in all, and the bus is busy {mean(bus_of(found)):.0f} % and "
            f"waited for in {queued:.1f} % of the working time: contention and migration stay below the paper's"
        )
    if cold > MUCH_COLD:
        reasons.append(
            f"{cold:.0f} % of the misses in {references:.0f} M references behind the warm-up are cold (the paper runs "
            f"{PAPER_REFERENCES} M in all): longer blocks and larger caches act on first touches, and sharing is a "
            "small part"
        )
    if stores > MANY_STORES:
        reasons.append(
            f"stores are {stores:.1f} % of the references (the paper: {PAPER_STORES}), so more blocks leave the caches "
            "dirty and more words must be told to others"
        )
    if not reasons:
        reasons.append(
            f"misses per 100 references {mean([miss_percent(r) for r in found]):.2f}, bus {mean(bus_of(found)):.0f} %"
        )
    return f"On {configuration}: {'; '.join(reasons)}."
