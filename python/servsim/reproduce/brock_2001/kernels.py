"""The six kernels with pages striped, and with data placed as advised (Figure 10, Tables 2 and 3).

Problems are smaller than the paper's, and outer caches smaller by the same factor, so that data exceed the sum of all
caches as there. Measured is the last iteration of a trace, behind caches that the others warmed; advice is learnt from
those, with another seed. Speed-ups refer to a trace of the kernel on one thread, or else to all threads in turn.
"""

from __future__ import annotations

import json
import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from servsim.errors import UsageError
from servsim.hashes import file_hash
from servsim.machines import machine_text
from servsim.placement.advise import advise, tasks_dealt
from servsim.progress import Show, of_references
from servsim.reproduce.brock_2001.printed import APPLICATIONS, Application, Version
from servsim.reproduce.brock_2001.probes import SWITCH, packets
from servsim.reproduce.report import Cell
from servsim.reproduce.rows import Part, Row, shown, within
from servsim.reproduce.runs import Replication, kept
from servsim.simulation import simulate, trace_info
from servsim.statistics.intervals import estimate

#: Threads of each kernel.
THREADS = 16
#: KiB of the machine's outer and inner caches.
OUTER_KIB, INNER_KIB = 1024, 16
#: Seed that is learnt from, and the first that is measured.
LEARNT, MEASURED = 1, 2
#: Columns of the printed tables.
READINGS = {"ours": "captured kernels of the project, smaller, on smaller caches"}
#: Dimensions of the problem, for how data grow with its size.
DIMENSIONS = {"fft": 3, "ocean": 2}
#: How much more the paper's program keeps of each element: at 514, SPLASH's ocean has 15,131 pages in use, 29 grids;
#: ours has five on the finest level, and those of the coarser ones are one more.
MORE_DATA = {"ocean": 29 / 6}


@dataclass
class Kernel:
    """A kernel's trace and its runs, each made once and kept.

    Attributes
    ----------
    name : str
        The paper's application.
    trace : Path
        What was captured of ours on `THREADS` threads.
    single : Path or None
        The same on one thread, which is what speed-ups refer to.
    size : int
        Its elements on a side, or particles.
    count : int
        Runs of each version.
    """

    name: str
    trace: Path
    size: int
    count: int
    folder: Path | None
    say: Show
    single: Path | None = None
    known: dict[str, Any] = field(default_factory=dict)

    @property
    def printed(self) -> Application:
        """What the paper prints of it."""
        return APPLICATIONS[self.name]

    @property
    def factor(self) -> int:
        """How many times smaller data and caches are: a power of two."""
        kernel = self.printed.kernel
        ratio = (self.printed.size / self.size) ** DIMENSIONS.get(kernel, 1) * MORE_DATA.get(kernel, 1)
        return int(2 ** max(0, round(math.log2(ratio))))

    @property
    def overrides(self) -> list[str]:
        """The machine's settings for it; the outer cache has to hold both inner ones."""
        outer = OUTER_KIB // self.factor
        inner = min(INNER_KIB, outer // 4)
        return ["node.placement=striped", "node.threads=pinned", f"l2.size={outer} KiB", f"cache.size={inner} KiB"]

    def advice(self) -> dict[str, Any]:
        """Return what the advisor says after one run, without measuring it.

        It is learnt from all iterations but the measured one; where there is one, from that with another seed.
        """
        held = iterations(self.trace)
        learnt = {"warmup": 0, "transactions": max(1, held - 1)}

        def stage(what: str, runs: int, window: Mapping[str, int]) -> Callable[[int], None]:
            expected = runs * window["transactions"] * references_each(self.trace)
            return of_references(self.say, f"{self.name}: {what}", expected)

        make = partial(advise, self.trace, SWITCH, overrides=self.overrides, seed=LEARNT, replications=0)
        found: dict[str, Any] = self._once(("advice", learnt), "advice", partial(make, learnt=learnt, stage=stage))
        return found

    def _once(self, made: tuple[Any, ...], what: str, make: Callable[[], Any]) -> Any:
        """Return what was made before, in this study or an earlier one; rows ask for the same runs many times."""
        key = json.dumps(made)
        if key not in self.known:
            self.say(f"{self.name}: {what}", 0.0)
            self.known[key] = kept(self.folder, self._inputs(*made), make)
        return self.known[key]

    def _inputs(self, *what: Any) -> dict[str, Any]:
        return {
            "trace": file_hash(self.trace),
            "machine": machine_text(SWITCH),
            "overrides": self.overrides,
            "made": what,
        }

    def _runs(self, what: str, trace: Path, placement: str, count: int) -> list[Replication]:
        """Run the last iteration of a trace, behind caches that its others warmed without timing.

        The first run is kept by itself, so that a quick study is a part of the whole one.
        """
        first = self._seeds(what, trace, placement, MEASURED, 1)
        others = count - 1
        return first + (self._seeds(f"{what}, other seeds", trace, placement, MEASURED + 1, others) if others else [])

    def _seeds(self, what: str, trace: Path, placement: str, seed: int, count: int) -> list[Replication]:
        """Make so many runs, with seeds from the one given."""
        warm = iterations(trace) - 1
        window: dict[str, Any] = {"functional_warmup": warm or None, "warmup": 0, "transactions": 1}
        # The warm-up is simulated once for all of them.
        expected = (warm + count) * references_each(trace)

        def make() -> list[Replication]:
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "placement.toml"
                file.write_text(placement, encoding="utf-8")
                result = simulate(
                    trace,
                    SWITCH,
                    overrides=self.overrides,
                    **window,
                    placement=file if placement else None,
                    replications=count,
                    seed=seed,
                    progress=of_references(self.say, f"{self.name}: {what}", expected),
                )
            made: list[Replication] = result["replications"]
            return made

        decides = (file_hash(trace), window, placement, count, seed)
        found: list[Replication] = self._once(decides, what, make)
        return found

    def orig(self) -> list[Replication]:
        """Return runs with pages striped."""
        return self._runs("pages striped", self.trace, "", self.count)

    def reorg(self) -> list[Replication]:
        """Return runs with data placed as advised; as they were, where there is no advice."""
        placement = self.advice()["placement"]
        return self.orig() if placement is None else self._runs("as advised", self.trace, placement, self.count)

    def alone(self) -> Replication:
        """Return a run on one processor, with its own node's memory: of one thread, or of all of them in turn.

        One, because seeds change it by less than a percent: on one processor there is nothing to come in another order.
        """
        trace = self.single or self.trace
        threads = [f'[[thread]]\ntask = "{task}"\nprocessor = 0\n' for task in tasks_dealt(trace_info(trace))]
        return self._runs("one processor", trace, 'policy = "first-touch"\n' + "".join(threads), 1)[0]

    def speedups(self, runs: Sequence[Replication]) -> list[float]:
        """Return how many times faster than one processor each run is."""
        return [float(self.alone()["cycles"]) / float(run["cycles"]) for run in runs]


def iterations(trace: Path) -> int:
    """Return how many iterations, each a transaction, a trace holds."""
    return int((trace_info(trace) or {})["totals"]["transactions"])


def references_each(trace: Path) -> float:
    """Return the references of an iteration."""
    totals = (trace_info(trace) or {})["totals"]
    return float(totals["instructions"] + totals["data_references"]) / max(1, iterations(trace))


def kernels(traces: Sequence[Path], quick: bool, folder: Path | None, say: Show) -> list[Kernel]:
    """Tell the kernels of traces.

    Raises
    ------
    UsageError
        When a trace is none of a kernel of the paper on sixteen threads or one, or is one of one thread without its
        companion of the same size.
    """
    by_kernel = {application.kernel: name for name, application in APPLICATIONS.items()}
    found: dict[str, Kernel] = {}
    singles: dict[str, tuple[int, Path]] = {}
    for trace in traces:
        settings = ((trace_info(trace) or {}).get("meta") or {}).get("provenance", {}).get("settings", {})
        name, threads = by_kernel.get(str(settings.get("kernel"))), settings.get("threads")
        if name is None or threads not in (str(THREADS), "1") or iterations(trace) < 1:
            raise UsageError(
                f"{trace} is no capture of one of the kernels {', '.join(by_kernel)} with {THREADS} threads or one, "
                "nor of a web server: make one with `servsim capture kernels --set kernel=fft --set size=64 --set "
                "threads=16 --transactions 2`, or with `servsim capture staticweb --set users=48 --transactions 800`"
            )
        if name in (singles if threads == "1" else found):
            raise UsageError(f"{trace} is a second trace of {name} with {threads} threads: give one of them")
        if threads == "1":
            singles[name] = int(settings["size"]), trace
        else:
            found[name] = Kernel(name, trace, int(settings["size"]), 1 if quick else 3, folder, say)
    for name, (size, trace) in singles.items():
        if name not in found or found[name].size != size:
            raise UsageError(
                f"{trace} runs on one thread, which only a trace on {THREADS} of the same kernel and size is compared "
                f"with: give --trace of {name} with size={size} and threads={THREADS} too"
            )
        found[name].single = trace
    return list(found.values())


def transactions(run: Replication) -> float:
    """Return how many transactions all outer caches made with memory."""
    kinds = ("read", "read_exclusive", "invalidate", "write", "write_back")
    return float(sum(run["bus"][kind] for kind in kinds))


def by_size(run: Replication) -> tuple[float, float]:
    """Return packets of 16 and of 48 bytes; a run counts each on every link that it takes."""
    nodes = run["nodes"]
    small, large = float(nodes["request_packets"]), float(nodes["data_packets"])
    share = packets(run) / max(1.0, small + large)
    return small * share, large * share


def per_transaction(run: Replication) -> float:
    """Return packets per memory transaction."""
    return packets(run) / transactions(run)


def _b4(kernel: Kernel) -> list[Part]:
    parts = []
    for which, runs, version in _versions(kernel):
        values = [per_transaction(run) for run in runs]
        what = f"{kernel.name} {which}, packets per memory transaction"
        parts.append(within(what, version.per_transaction, values, absolute=0.3))
    return parts


def _versions(kernel: Kernel) -> list[tuple[str, list[Replication], Version]]:
    return [("striped", kernel.orig(), kernel.printed.orig), ("as advised", kernel.reorg(), kernel.printed.reorg)]


def _b5(kernel: Kernel) -> list[Part]:
    small, large = zip(*(by_size(run) for run in kernel.orig()), strict=True)
    per = [data / transactions(run) for data, run in zip(large, kernel.orig(), strict=True)]
    ratio = [one / other for one, other in zip(small, large, strict=True)]
    printed = kernel.printed.orig
    theirs = round(printed.responses / printed.transactions, 2), round(printed.requests / printed.responses, 2)
    return [
        within(f"{kernel.name} striped, responses per transaction", theirs[0], per, absolute=0.1),
        within(f"{kernel.name} striped, requests to responses", theirs[1], ratio, absolute=0.2),
    ]


def _b6(kernel: Kernel) -> list[Part]:
    parts = []
    for which, runs, version in _versions(kernel):
        what = f"{kernel.name} {which}, speed-up over one processor"
        parts.append(within(what, round(kernel.printed.speedup(version), 1), kernel.speedups(runs), share=0.2))
    return parts


def gains(kernel: Kernel) -> list[float]:
    """Return how many times faster each seed's run is with the advice."""
    pairs = zip(kernel.orig(), kernel.reorg(), strict=True)
    return [float(was["cycles"]) / float(now["cycles"]) for was, now in pairs]


def _order(several: Sequence[Kernel]) -> Part:
    """Compare the order of the gains."""

    def printed(kernel: Kernel) -> float:
        return kernel.printed.orig.seconds / kernel.printed.reorg.seconds

    theirs = sorted(several, key=printed, reverse=True)
    ours = sorted(several, key=lambda kernel: estimate(gains(kernel)).mean, reverse=True)
    # Gains that the paper calls negligible have no order among one another.
    ranks = [kernel for kernel in theirs if printed(kernel) > 1.05]
    holds = ours[: len(ranks)] == ranks
    return Part(
        "order of gains",
        ", ".join(f"{kernel.name} {printed(kernel):.2f}" for kernel in theirs),
        ", ".join(f"{kernel.name} {shown(estimate(gains(kernel)))}" for kernel in ours),
        holds,
    )


def _b7(kernel: Kernel) -> list[Part]:
    parts = []
    for which, runs, _ in _versions(kernel):
        use = [100 * float(run["figures"]["nodes.link_utilization"]) for run in runs]
        known = estimate(use)
        parts.append(
            Part(f"{kernel.name} {which}, mean use of a link", "up to 18 %", shown(known, "%"), known.mean <= 18)
        )
    return parts


#: Row, claim, tolerance, whether it is hard, parts of a kernel.
_CLAIMS: tuple[tuple[str, str, str, bool, Callable[[Kernel], list[Part]]], ...] = (
    ("B4", "packets per memory transaction, striped and as advised", "0.3", False, _b4),
    (
        "B5",
        "two thirds of striped transactions bring a response, with 1.4 to 1.6 requests each",
        "0.1 and 0.2",
        False,
        _b5,
    ),
    ("B6", "Figure 10: speed-ups of sixteen processors before and after placement", "20 %, order", False, _b6),
    ("B7", "links are not the limit", "hard", True, _b7),
)


def rows(several: Sequence[Kernel]) -> list[Row]:
    """Judge B4 to B7 on the kernels that there are."""
    lacking = [name for name in APPLICATIONS if name not in {kernel.name for kernel in several}]
    made = []
    for name, claim, tolerance, hard, parts_of in _CLAIMS:
        parts = [part for kernel in several for part in parts_of(kernel)]
        if name == "B6" and len(several) > 1:
            parts.append(_order(several))
        why = [_why(kernel) for kernel in several] if any(not part.holds for part in parts) else []
        if lacking:
            why.append(f"Waits for traces of {', '.join(lacking)}: give each with --trace.")
        made.append(Row(name, claim, tolerance, hard, tuple(parts), " ".join(why)))
    return made


def _why(kernel: Kernel) -> str:
    """Say from counters what a kernel does with memory and links."""
    run, printed = kernel.orig()[0], kernel.printed.orig
    advice, bus, all_of_them = kernel.advice(), run["bus"], transactions(run)
    fetches = max(1, bus["read"] + bus["read_exclusive"])
    said = f"gain predicted {100 * advice['predicted']['gain']:.1f} %" + ("" if advice["advised"] else ", no advice")
    learnt = "the iterations before" if iterations(kernel.trace) > 1 else "the same iteration"
    one = "one thread" if kernel.single else "all threads in turn"
    idle, remote = (100 * float(run["figures"][name]) for name in ("idle_share", "nodes.remote_share"))
    data = float(sum(sum(run["references_by_kind"][kind].values()) for kind in ("load", "store")))
    return (
        f"{kernel.name}: {kernel.size} in place of {kernel.printed.size}, caches 1/{kernel.factor}; "
        f"{1000 * all_of_them / data:.1f} transactions per 1000 data references (the paper "
        f"{1000 * printed.transactions / printed.references:.1f}), {100 * bus['invalidate'] / all_of_them:.0f} % "
        f"invalidations, {100 * bus['write_back'] / all_of_them:.0f} % write-backs; other nodes serve {remote:.0f} % "
        f"of the fetches, other caches {100 * bus['cache_to_cache'] / fetches:.0f} %; processors idle {idle:.0f} %; "
        f"learnt from {learnt}, {said}; the one processor runs {one}."
    )


#: Columns of Tables 2 and 3 that do not depend on the problem's size: table, name, the paper's, ours.
_COLUMNS: tuple[tuple[str, str, Callable[[Version], float], Callable[[Replication], float]], ...] = (
    (
        "2",
        "Req per L2-Mem",
        lambda row: row.requests / row.transactions,
        lambda run: by_size(run)[0] / transactions(run),
    ),
    (
        "2",
        "Resp per L2-Mem",
        lambda row: row.responses / row.transactions,
        lambda run: by_size(run)[1] / transactions(run),
    ),
    ("3", "packets per L2-Mem", lambda row: row.per_transaction, per_transaction),
)
#: How far from the paper's they may be.
_ACCEPTED = 0.3


def cells(several: Sequence[Kernel]) -> list[Cell]:
    """Put the figures of Tables 2 and 3 beside ours."""
    found = []
    for kernel in several:
        for (_, runs, version), which in zip(_versions(kernel), ("orig", "reorg"), strict=True):
            for table, column, paper, figure in _COLUMNS:
                ours = estimate([figure(run) for run in runs]).mean
                verdict = "reproduced" if abs(ours - paper(version)) <= _ACCEPTED else "missed"
                found.append(Cell(table, f"{kernel.name} {which}", column, "", paper(version), {"ours": ours}, verdict))
    return found
