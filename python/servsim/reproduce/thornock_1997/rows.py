"""The rows: sums that the paper prints, and its claims on traces of ours."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from servsim import disk
from servsim.progress import Show
from servsim.reproduce.rows import Part, Row, shown
from servsim.reproduce.thornock_1997.traces import CSL_29, PEL_ZD, Measured
from servsim.statistics.intervals import estimate

#: Share that trains: 7 of 29 days (section 3.2.1).
TRAIN = 0.24
#: Probabilities at which two distributions are compared.
POINTS = (np.arange(10_000) + 0.5) / 10_000
#: Resamples that tell what chance alone gives.
RESAMPLES = 10
#: An error within so many times what chance gives is no error of the model.
CHANCE = 1.5
#: Hot blocks moved, and what that brought (section 4.2): service, seek distance, requests without a seek.
BLOCKS, SERVICE, DISTANCE, UNMOVED = 1000, -7.84, -31.0, 14.0
#: Section 2.2: run times in seconds without and with the collection, and what is said of it.
PLAIN_SECONDS, TRACED_SECONDS, OVERHEAD_PERCENT = 3385, 3386, 0.03
#: Section 3.1: disks, lengths of writes and of reads, queue lengths, and surfaces.
DISKS, WRITE_LENGTHS, READ_LENGTHS, QUEUES, SURFACES = 5, 8, 8, 15, 1200
#: Sectors of every read (section 2.4).
READ_SECTORS = 8

Times = npt.NDArray[np.float64]


def cross_checks() -> tuple[list[Row], list[str]]:
    """Return the rows that follow from the printed figures alone, and what they say of one another."""
    sums = []
    for trace in (PEL_ZD, CSL_29):
        total = trace.reads + trace.writes
        sums.append(Part(f"{trace.name}: reads + writes", f"{trace.requests:,}", f"{total:,}", total == trace.requests))
        read = trace.reads * READ_SECTORS
        sums.append(
            Part(
                f"{trace.name}: sectors of 8-sector reads",
                f"{trace.sectors_read:,}",
                f"{read:,}",
                read == trace.sectors_read,
            )
        )
        each = trace.sectors_written / trace.writes
        sums.append(Part(f"{trace.name}: sectors of a write", "1 to 8", f"{each:.2f}", 1 <= each <= READ_SECTORS))
    surfaces = DISKS * (WRITE_LENGTHS + READ_LENGTHS) * QUEUES
    overhead = 100 * (TRACED_SECONDS / PLAIN_SECONDS - 1)
    share = 7 / 29
    rows = [
        Row("T1", "Table 1 adds up (printed figures only)", "exact", True, tuple(sums), measured=False),
        Row(
            "T2",
            "printed sums of sections 2.2 and 3 (printed figures only)",
            "exact",
            True,
            (
                Part("surfaces of the CSL model", f"{SURFACES}", f"{surfaces}", surfaces == SURFACES),
                Part("7 of 29 days", f"{TRAIN:.2f} of the trace", f"{share:.2f}", round(share, 2) == TRAIN),
                Part(
                    "one second in 3385",
                    f"{OVERHEAD_PERCENT} %",
                    f"{overhead:.2f} %",
                    round(overhead, 2) == OVERHEAD_PERCENT,
                ),
            ),
            measured=False,
        ),
    ]
    implied = ", ".join(f"{t.name} {100 * t.error_ms / t.error_percent:.1f} ms" for t in (PEL_ZD, CSL_29))
    notes = [f"Absolute over percentage error gives the paper's mean service time, waiting included: {implied}."]
    return rows, notes


def demerit_ms(ours: Times, real: Times) -> float:
    """Return the root mean square of the horizontal distance between two distributions, ms."""
    gap = _quantiles(ours) - _quantiles(real)
    return float(np.sqrt((gap**2).mean()))


def _quantiles(times: Times) -> Times:
    """Return the quantiles at all POINTS, from one sort: NumPy's own looks up so many points ten times slower."""
    return np.interp(POINTS * (len(times) - 1), np.arange(len(times)), np.sort(times))


def chance_ms(real: Times) -> float:
    """Return the distance that a resample of the trace has from the trace, on average, ms."""
    rng = np.random.default_rng(1997)
    return float(np.mean([demerit_ms(rng.choice(real, len(real)), real) for _ in range(RESAMPLES)]))


class _Model:
    """A model of a trace, in a file that lasts as long as its folder."""

    def __init__(self, trace: Measured, kind: str, train: float, folder: str) -> None:
        self.trace = trace
        self.path = str(Path(folder) / f"{kind}-{train:g}.model")
        disk.fit(trace.source, self.path, kind=kind, train=train)

    def draw(self, seed: int) -> Times:
        """Return one simulated response time a request, ms, with the queue of the trace as in the paper."""
        # Each row compares with what really happened, so that a model which is not worth using shows as such.
        run = disk.simulate(
            self.trace.source, self.path, mode="open", seed=seed, allow_other_device=True, allow_unskilled=True
        )
        times: Times = run.response_ns / 1e6
        return times


def claims(measured: list[Measured], seeds: int, say: Show) -> tuple[list[Row], list[str]]:
    """Return the rows that our traces decide, and remarks."""
    rows, notes = [], []
    for number, trace in enumerate(measured):
        printed = trace.paper
        say(f"{trace.what}: {trace.requests} requests, {seeds} draws")
        notes.append(
            f"Table 1, {printed.name}: {printed.requests:,} requests, {printed.reads:,} reads, {printed.writes:,} "
            f"writes, {printed.sectors_read:,} sectors read, {printed.sectors_written:,} written, {printed.hours} "
            f"hours; ours, {trace.what}: {trace.table_1()}."
        )
        with tempfile.TemporaryDirectory() as folder:
            rows += [_whole(number, trace, seeds, folder), _first_part(number, trace, seeds, folder)]
            notes += _beyond(trace, seeds, folder)
        rows.append(_moved(number, trace, notes))
    return rows, notes


def _errors(model: _Model, seeds: int) -> list[float]:
    real = model.trace.response_ms
    return [demerit_ms(model.draw(seed), real) for seed in range(1, seeds + 1)]


def _whole(number: int, trace: Measured, seeds: int, folder: str) -> Row:
    """Check that tables of a whole trace return that trace: the technique itself, without extrapolation."""
    errors = _errors(_Model(trace, "paper", 1.0, folder), seeds)
    chance = chance_ms(trace.response_ms)
    part = Part(
        "error of tables made from all requests, ms",
        f"at most chance ({CHANCE:g} x {chance:.4f})",
        shown(estimate(errors), "ms"),
        estimate(errors).mean <= CHANCE * chance,
    )
    return Row(
        f"T{3 + 3 * number}",
        f"{trace.what}: the tables hold the distribution they were made from",
        "chance",
        True,
        (part,),
    )


def _first_part(number: int, trace: Measured, seeds: int, folder: str) -> Row:
    """Rerun the paper's experiment: train on the first part, compare over the whole trace."""
    printed, mean = trace.paper, float(trace.response_ms.mean())
    errors = _errors(_Model(trace, "paper", TRAIN, folder), seeds)
    chance = 100 * chance_ms(trace.response_ms) / mean
    percent = [100 * error / mean for error in errors]
    limit = max(printed.error_percent, CHANCE * chance)
    parts = (
        Part(
            f"absolute error, {printed.name}",
            f"{printed.error_ms:.3f} ms",
            shown(estimate(errors), "ms"),
            estimate(percent).mean <= limit,
        ),
        Part(
            f"percentage error, {printed.name}",
            f"{printed.error_percent} %",
            shown(estimate(percent), "%"),
            estimate(percent).mean <= limit,
        ),
    )
    missed = not all(part.holds for part in parts)
    return Row(
        f"T{4 + 3 * number}",
        f"{trace.what}: tables of the first 24 % of the requests, judged on all of them",
        f"as printed, or {CHANCE:g} times chance ({chance:.2f} %)",
        False,
        parts,
        _why(trace, mean) if missed else "",
    )


def _why(trace: Measured, mean_ms: float) -> str:
    """Explain a miss: requests without a column of their own, and how the first part differs."""
    judged = disk.evaluate(trace.source, kind="paper", train=TRAIN)["devices"]
    rest = [entry["requests"] - entry["trained_on"] for entry in judged]
    unseen = sum(n * entry["outside_support"] for n, entry in zip(rest, judged, strict=True)) / sum(rest)
    trained = np.concatenate([np.arange(n) < int(n * TRAIN) for n in np.bincount(trace.columns["device"]) if n])
    first = float(trace.response_ms[trained].mean())
    return (
        f"{100 * unseen:.0f} % of the later requests find no column of their length, queue and exact seek in the "
        f"first part, and take a wider distribution; the first part has a mean of {first:.3f} ms, the whole "
        f"{mean_ms:.3f} ms. The paper trained on {TRAIN * trace.paper.requests:,.0f} requests of at most eight lengths."
    )


def _beyond(trace: Measured, seeds: int, folder: str) -> list[str]:
    """Put the other models beside the paper's, on the same requests and by the same measure."""
    mean = float(trace.response_ms.mean())
    told = []
    for kind in ("unconditional", "forest"):
        errors = [100 * error / mean for error in _errors(_Model(trace, kind, TRAIN, folder), seeds)]
        told.append(f"{kind} {shown(estimate(errors), '%')}")
    return [f"{trace.what}, the same measure on other models trained on the same part: {'; '.join(told)}."]


def _moved(number: int, trace: Measured, notes: list[str]) -> Row:
    """Move the 1000 hottest blocks to the outer edge (section 4)."""
    found: dict[str, dict[str, Any]] = {}
    busiest = trace.devices[int(np.bincount(trace.columns["device"]).argmax())]
    for kind in ("paper", "forest"):
        result, _ = disk.reorganize(trace.source, policies=["hot-block"], blocks=BLOCKS, kind=kind, train=1.0)
        found[kind] = next(r["prediction"] for r in result["results"] if r["device"] == busiest)
    ours, better = found["paper"], found["forest"]
    zero = 100 * (ours["zero_seek_after"] - ours["zero_seek_before"])
    parts = (
        Part(
            "total seek distance",
            f"{DISTANCE:g} %",
            f"{ours['seek_distance_change_percent']:+.1f} %",
            ours["seek_distance_change_percent"] < 0,
        ),
        Part("requests without a seek", f"{UNMOVED:+g} %", f"{zero:+.1f} points", zero >= 0),
        Part(
            "service time, by the tables",
            f"{SERVICE:g} %",
            f"{ours['change_percent']:+.2f} %",
            ours["change_percent"] < 0,
        ),
    )
    notes.append(
        f"{trace.what}, hot blocks moved: a server around physical service times (the default model) says "
        f"{better['change_percent']:+.2f} %, the paper's tables {ours['change_percent']:+.2f} %; the 1000 hottest "
        f"blocks hold {100 * ours['covered']:.0f} % of the requests of the busiest device."
    )
    missed = not all(part.holds for part in parts)
    why = (
        "the sign of the tables' answer depends on which cells the moved requests fall into, since a table of response "
        "times has no queue of its own; on a device without an arm, or with its hot blocks together already, a move "
        "to the edge shortens nothing"
    )
    return Row(
        f"T{5 + 3 * number}",
        f"{trace.what}: moving 1000 hot blocks shortens seeks and, a little, the service",
        "sign",
        False,
        parts,
        why if missed else "",
    )
