"""The advisor: learn from one part of a trace, place pages and threads, predict the gain, and measure it on another.

Learnt are transactions (or, of a trace with few, a seed) that the measurement does not see. Advice is given only where
the predicted gain is above `LEAST_GAIN`; a gain that was only predicted is never called measured.
"""

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from servsim.placement.greedy import Homes
from servsim.placement.learn import Learnt, learn
from servsim.placement.predict import Plan, plan, room
from servsim.placement.rules import rules, toml
from servsim.simulation import simulate, trace_info
from servsim.statistics.intervals import reported

#: Predicted gains up to this are not worth a placement file.
LEAST_GAIN = 0.05
#: Share of a node's memory from which on named pages leave no room for others.
FULL = 0.95
#: Parts of what is learnt from that are held out in turn, so that what is predicted was not seen.
PARTS = 4
#: Transactions from which on a trace is long enough to be learnt from and measured in different parts.
ENOUGH = 8

#: Told what begins, how many runs that is and which transactions they simulate (``warmup`` and ``transactions``; none
#: where it is the whole trace); returns what is told how many references are simulated.
Stage = Callable[[str, int, Mapping[str, int]], Callable[[int], None]]


def advise(
    trace: str | Path,
    machine: str | Path,
    *,
    format: str | None = None,
    overrides: list[str] | None = None,
    seed: int = 1,
    replications: int = 3,
    learnt: Mapping[str, int] | None = None,
    stage: Stage | None = None,
) -> dict[str, Any]:
    """Advise where pages should lie and threads run.

    Parameters
    ----------
    trace, machine, format, overrides
        As for `servsim.simulation.simulate`; what the machine says of ``node.placement`` and ``node.threads`` is the
        placement that the advice is compared with.
    seed : int, default 1
        Seed of the runs that are learnt from; the next ones are measured.
    replications : int, default 3
        Seeds that are measured, the same with and without the advice; 0 leaves the measurement out.
    learnt : mapping, optional
        ``warmup`` and ``transactions`` of the runs that are learnt from, in place of a part that is chosen here.
    stage : callable, optional
        Told what begins, how many runs that is and their ``warmup`` and ``transactions``, if not the whole trace; what
        it returns is told how many references are simulated.

    Returns
    -------
    dict
        Schema ``servsim.place/1``. ``predicted`` and ``measured`` hold ``gain`` (cycles per transaction before over
        after, less 1) and ``remote_share`` before and after; ``placement`` the file, or None without advice, when
        ``measured`` is None too.

    Raises
    ------
    UsageError
        As for `servsim.simulation.simulate`, such as for a machine with one memory.
    """
    info = trace_info(Path(trace)) if Path(trace).exists() else None
    held = int(((info or {}).get("totals") or {}).get("transactions") or 0)
    parts = held >= ENOUGH
    first: dict[str, int] = {"warmup": held // 4, "transactions": held // 4} if parts else {}
    if learnt is not None:
        first = {**learnt}
    # Not to the end: users have no more work there, and processors are idle.
    second: dict[str, int] = {"warmup": held // 2, "transactions": held // 4} if parts else {}
    common: dict[str, Any] = {"format": format, "overrides": overrides}
    # Where the same references are learnt from and measured, having seen them is no mistake.
    held_out = min(PARTS, first["transactions"]) if first else 1

    def began(what: str, window: Mapping[str, int], runs: int = 1) -> dict[str, Any]:
        return {**window} if stage is None else {**window, "progress": stage(what, runs, window)}

    described = learn(trace, machine, **common, parts=held_out, seed=seed, **began("learning, as described", first))
    node = described.result["machine"]["node"]
    dealt = tasks_dealt(info)
    candidates = [(node["threads"], plan(described, swaps=node["threads"] == "pinned" and _alone(described, dealt)))]
    if node["threads"] == "free":
        order = "pinned" if _alone(described, dealt) else "fill"
        with _file(_rest(node) + f'\n[threads]\norder = "{order}"\n') as file:
            told = began("learning, tasks bound", first)
            bound = learn(trace, machine, **common, parts=held_out, seed=seed, placement=file, **told)
        candidates.append((order, plan(bound, swaps=order == "pinned" and bool(dealt))))
    order, best = min(candidates, key=lambda one: one[1].time)
    gain = described.time / best.time - 1
    left = _left(node, best.homes)
    found = rules(best.learnt.pages, best.homes, best.costs, others=left[0] if len(left) == 1 else None)
    document: dict[str, Any] = {
        "schema": "servsim.place/1",
        "trace": described.result["trace"],
        "machine": described.result["machine"],
        "learnt": {"seed": seed, "window": described.result["options"]["window"], "parts": held_out},
        "predicted": {
            "gain": gain,
            "remote_share": {"before": _share(described), "after": best.remote_share},
            "cycles_per_transaction": {"before": described.time, "after": best.time},
        },
        "advised": gain > LEAST_GAIN,
        "placement": None,
        "measured": None,
    }
    if gain <= LEAST_GAIN:
        return document
    head = ["Advice of servsim place; docs/placement.md says what the lines mean."]
    text = toml(found, _rest(node, left), _threads(order, best, dealt), best.learnt.per_cpu, head)
    document |= {"placement": text, "rules": len(found), "data": _data(best), "threads": order}
    document["numactl"] = _numactl(described, best)
    if replications == 0:
        return document
    with _file(text) as file:
        seeds: dict[str, Any] = {"seed": seed + 1, "replications": replications}
        before = simulate(trace, machine, **common, **seeds, **began("measuring, as described", second, replications))
        told = began("measuring the advice", second, replications)
        after = simulate(trace, machine, **common, **seeds, placement=file, **told)
    document["measured"] = _measured(before, after)
    return document


class _file:
    """A text as a file for as long as it is needed."""

    def __init__(self, text: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._path = Path(self._folder.name) / "placement.toml"
        self._path.write_text(text, encoding="utf-8")

    def __enter__(self) -> Path:
        return self._path

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def tasks_dealt(info: dict[str, Any] | None) -> list[str]:
    """Return the tasks that are dealt to processors, in their order; none known of a trace that was not captured."""
    tasks = (info or {}).get("tasks") or []
    return [f"{task['name']} {task['pid']}" for task in tasks if task["kind"] == "user" and not task["client"]]


def _alone(learnt: Learnt, dealt: Sequence[str]) -> bool:
    """Whether every task can have a processor of its own."""
    return 0 < len(dealt) <= len(learnt.nodes)


def _left(node: dict[str, Any], homes: Homes) -> list[int]:
    """Return the nodes, from 0, that pages without a rule keep to; none if they may lie anywhere.

    Where pages with a rule fill a node, others stay out of it: they would come first and take their room.
    """
    held, space = np.bincount(homes, minlength=int(node["count"])), room(node, len(homes))
    left = [at for at, pages in enumerate(space) if held[at] < FULL * pages]
    return left if any(held[at] >= FULL * pages > 0 for at, pages in enumerate(space)) else []


def _rest(node: dict[str, Any], left: Sequence[int] = ()) -> str:
    """Return the rule of pages that the advice does not name."""
    lines = [f'policy = "{node["placement"]}"']
    if node["placement"] == "striped":
        lines.append(f"stride = {node['stride']}")
    if left:
        lines.append(f'nodes = "{" ".join(str(at + 1) for at in left)}"')
    return "\n".join(lines) + "\n"


def _threads(order: str, best: Plan, dealt: Sequence[str]) -> list[str]:
    """Return the lines that place threads.

    By name where some were exchanged, or where the trace tells of them in another order than they began in, in which a
    program that follows the file on a host has them; else by the order they are dealt in.
    """
    if order == "free":
        return []
    began = sorted(dealt, key=lambda task: int(task.rpartition(" ")[2])) == list(dealt)
    named = order == "pinned" and 0 < len(dealt) <= len(best.taken) and not began
    if best.taken == list(range(len(best.taken))) and not named:
        return ["", "[threads]", f'order = "{order}"']
    lines = []
    for processor, slot in enumerate(best.taken):
        if slot < len(dealt):
            lines += ["", "[[thread]]", f'task = "{dealt[slot]}"', f"processor = {processor}"]
    return lines


def _share(learnt: Learnt) -> float:
    both = learnt.reads("memory") + learnt.reads("cache")
    return float(1 - both.trace() / both.sum()) if both.sum() else 0.0


def _data(best: Plan) -> list[dict[str, Any]]:
    """Return which data go to which nodes: pages by name and node, most fetched first."""
    names: dict[str, dict[str, Any]] = {}
    fetches = best.learnt.fetched.sum(axis=0)
    for name, home, count in zip(best.learnt.names, best.homes, fetches, strict=True):
        row = names.setdefault(name, {"data": name, "fetches": 0, "pages": {}})
        row["fetches"] += int(count)
        row["pages"][str(home + 1)] = row["pages"].get(str(home + 1), 0) + 1
    return sorted(names.values(), key=lambda row: (-row["fetches"], row["data"]))


def _numactl(described: Learnt, best: Plan) -> dict[str, Any]:
    """Return what of the advice ``numactl`` can do for a whole process, and what it loses."""
    policy = min(best.whole, key=lambda name: best.whole[name])
    gain = described.time / best.whole[policy] - 1
    own = described.time / best.time - 1
    return {"command": f"numactl {policy} PROGRAM", "predicted_gain": gain, "loss": own - gain}


def _measured(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Compare runs of the same seeds."""

    def values(result: dict[str, Any], path: str) -> list[float]:
        return [float(one["figures"][path]) for one in result["replications"]]

    def time(result: dict[str, Any]) -> list[float]:
        return [float(one["cycles_per_transaction"] or one["cycles"]) for one in result["replications"]]

    pairs = zip(time(before), time(after), strict=True)
    return {
        "seeds": [one["seed"] for one in before["replications"]],
        "window": before["options"]["window"],
        "gain": reported([was / now - 1 for was, now in pairs]).document(),
        "remote_share": {
            "before": reported(values(before, "nodes.remote_share")).document(),
            "after": reported(values(after, "nodes.remote_share")).document(),
        },
        "cycles_per_transaction": {
            "before": reported(time(before)).document(),
            "after": reported(time(after)).document(),
        },
    }
