"""Rows F1 to F13: caches, blocks and affinity (sections 5.1 and 5.2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from servsim.reproduce.foglia_2004.study import LARGE, LINES, LONG_LINES, SMALL, Study, added, at, gsp_at
from servsim.reproduce.rows import Part, Row, ordered, shown, within
from servsim.reproduce.runs import (
    OTHER,
    SHARING,
    Configuration,
    Replication,
    bus_percent,
    gsp,
    invalidation_share,
    mean,
    miss_percent,
    rate,
    utilization,
)
from servsim.statistics.intervals import estimate


def _four(study: Study) -> list[Row]:
    """F1 to F5: four processors, blocks of 32 bytes, caches of 128 KiB to 2 MiB."""
    by_size = [Configuration(4, 32, size) for size in study.sizes]
    small, large = by_size[0], by_size[-1]
    counts, steps = range(1, 17), (2, 4, 6, 8, 10, 12)
    near, far = study.critical(small, counts, steps), study.critical(large, counts, steps)
    sharing = rate("misses", *SHARING)
    write_backs = [
        Part(
            f"write-backs per 100 fetches, {c.size}",
            "< 10",
            shown(estimate(study.values(c, _write_backs))),
            max(study.values(c, _write_backs)) < 10,
        )
        for c in by_size
    ]
    shares = [within("at 128 KiB", 5, study.values(small, invalidation_share), absolute=7, unit="%")]
    shares.append(within("at 2 MiB", 20, study.values(large, invalidation_share), absolute=7, unit="%"))
    not_falling = mean(study.values(large, sharing)) >= mean(study.values(small, sharing))
    ours = f"{shown(estimate(study.values(small, sharing)))} to {shown(estimate(study.values(large, sharing)))}"
    shares.append(Part("invalidation misses per 1000 references", "not falling", ours, not_falling))
    return [
        study.row(
            "F1",
            "4 processors, MESI: GSP 2.6 to 3.3 as caches grow",
            "±10 %, rising",
            [
                within("GSP at 128 KiB", 2.6, study.values(small, gsp), share=0.1),
                within("GSP at 2 MiB", 3.3, study.values(large, gsp), share=0.1),
                *study.rising("GSP with the cache", by_size, gsp),
            ],
            small,
        ),
        study.row(
            "F2",
            "same: bus use 72 to 35 % (Table 5 prints 38)",
            "±10 points",
            [
                within("bus at 128 KiB", 72, study.values(small, bus_percent), absolute=10, unit="%"),
                within("bus at 2 MiB", 35, study.values(large, bus_percent), absolute=10, unit="%"),
            ],
            small,
        ),
        study.row(
            "F3",
            "same: critical point 4 to 9 processors",
            "±2",
            [at("at 128 KiB", 4, near, 2), at("at 2 MiB", 9, far, 2)],
            small,
        ),
        study.row("F4", "same: invalidation misses 5 to 20 % of all, and no fewer", "±7 points", shares, large),
        study.row("F5", "write-backs below 10 % of block fetches", "hard", write_backs, small, hard=True),
    ]


def _write_backs(run: Replication) -> float:
    return 100 * float(run["bus"]["write_back"]) / max(1.0, float(run["bus"]["read"]))


def _eight(study: Study) -> list[Row]:
    """F6 to F9: eight processors, and blocks of 32 to 256 bytes."""
    large, counts, steps = Configuration(8, 32, LARGE), range(1, 17), (2, 4, 6, 8, 10, 12)
    use, four = study.values(large, utilization), study.values(Configuration(4, 32, SMALL), utilization)
    found = study.critical(large, counts, steps)
    by_line = [Configuration(8, line) for line in LINES]
    rows = [
        study.row(
            "F6",
            "8 processors, 2 MiB, 32 B: GSP 5.6, bus 71 %, critical point 9; use per processor as with 4 and 128 KiB",
            "±10 %, ±10 points, ±2",
            [
                within("GSP", 5.6, study.values(large, gsp), share=0.1),
                within("bus", 71, study.values(large, bus_percent), absolute=10, unit="%"),
                at("critical point", 9, found, 2),
                Part(
                    "use per processor against 4p, 128 KiB",
                    "about equal (±10 %)",
                    f"{shown(estimate(use))} against {shown(estimate(four))}",
                    abs(mean(use) / mean(four) - 1) <= 0.1,
                ),
            ],
            large,
        ),
        _growth(study),
    ]
    rows.append(
        study.row(
            "F8",
            "8 processors, 2 MiB, 32 to 256 B: GSP 5.6 to 7, bus 71 to 43 %, misses 1.1 to 0.39 %; most by 128 B",
            "±10 %, ±10 points, ±25 %",
            [
                within("GSP at 256 B", 7.0, study.values(by_line[-1], gsp), share=0.1),
                within("bus at 256 B", 43, study.values(by_line[-1], bus_percent), absolute=10, unit="%"),
                within("misses at 32 B", 1.1, study.values(by_line[0], miss_percent), share=0.25, unit="%"),
                within("misses at 256 B", 0.39, study.values(by_line[-1], miss_percent), share=0.25, unit="%"),
                _by_128(study, by_line),
            ],
            by_line[0],
        )
    )
    rows.append(_false_sharing(study, by_line))
    return rows


def _by_128(study: Study, by_line: Sequence[Configuration]) -> Part:
    first, middle, last = (mean(study.values(by_line[i], gsp)) for i in (0, 2, 3))
    share = (middle - first) / (last - first) if last > first else 0.0
    return Part("share of the gain that is had at 128 B", "most", f"{100 * share:.0f} %", share > 0.5)


def _growth(study: Study) -> Row:
    """F7: what grows from four to eight processors."""
    parts = []
    for size in (SMALL, LARGE):
        four, eight = Configuration(4, 32, size), Configuration(8, 32, size)
        for name, kinds in (("sharing", SHARING), ("other", OTHER)):
            figure = rate("misses", *kinds)
            what = f"{name} misses per 1000 references, {size}"
            parts.append(ordered(what, study.values(four, figure), study.values(eight, figure), ("4p", "8p")))
    four, eight = Configuration(4, 32), Configuration(8, 32)
    more = {k: added(study, four, eight, rate("coherence", k)) for k in SHARING}
    ours = ", ".join(f"{kind.removesuffix('_sharing')} {value:+.3f}" for kind, value in more.items())
    passive = max(more, key=lambda kind: more[kind]) == "passive_sharing"
    parts.append(Part("added coherence transactions per 1000 references", "mostly passive", ours, passive))
    figure = rate("coherence", "passive_sharing")
    parts += study.rising("passive transactions with the cache", [Configuration(8, 32, s) for s in study.sizes], figure)
    kernel = {(k, m): added(study, four, eight, rate("misses", k, mode=m)) for k in SHARING for m in ("user", "kernel")}
    worst = max(kernel, key=lambda place: kernel[place])
    ours = f"{worst[0].replace('_', ' ')} in {worst[1]} mode ({kernel[worst]:+.3f} per 1000)"
    holds = worst == ("false_sharing", "kernel")
    parts.append(Part("most added invalidation misses", "false sharing in the kernel", ours, holds))
    return study.row("F7", "from 4 to 8 processors all misses rise; passive transactions most", "shape", parts, eight)


def _false_sharing(study: Study, by_line: Sequence[Configuration]) -> Row:
    """F9: sharing misses against the block size, on to 2048 bytes."""
    parts = [
        part
        for kind in SHARING
        for part in study.rising(f"{kind.replace('_', ' ')} misses per 1000", by_line, rate("misses", kind), up=False)
    ]
    figure = rate("misses", "false_sharing")
    lines = [*LINES, *LONG_LINES]
    found = {line: mean(study.values(Configuration(8, line), figure)) for line in lines}
    least = min(lines, key=lambda line: found[line])
    ours = ", ".join(f"{line} B {value:.3f}" for line, value in found.items())
    parts.append(Part("false sharing turns up", "near 1024 B", f"least at {least} B; {ours}", least in (512, 1024)))
    claim = "true, false and passive sharing misses all fall to 256 B; false sharing turns up near 1024 B"
    return study.row("F9", claim, "shape", parts, Configuration(8, 1024))


def _scaling(study: Study) -> list[Row]:
    """F10 to F13: longer blocks, larger caches, affinity."""
    wide = Configuration(8, 256)
    counts = range(2, 25)
    found = study.critical(wide, counts, (4, 8, 12, 16, 20, 24))
    one, two = Configuration(8, 128, "1 MiB"), Configuration(8, 128, LARGE)
    fewer = [100 * (1 - b / a) for a, b in zip(*(study.values(c, miss_percent) for c in (one, two)), strict=True)]
    affine = replace(two, scheduler="affinity")
    near = study.critical(affine, counts, (4, 8, 12, 16, 20))
    return [
        study.row(
            "F10",
            "256 B, random: critical point 18 at a GSP of about 14",
            "±3, ±12 %",
            [at("critical point", 18, found, 3), gsp_at("GSP there", 14.25, found, 0.12)],
            replace(wide, processors=16),
        ),
        study.row(
            "F11",
            "128 B, 1 to 2 MiB: 10 % fewer misses, about 35 % of them by invalidation",
            "±5, ±8 points",
            [
                within("fewer misses", 10, fewer, absolute=5, unit="%"),
                within("invalidation misses at 2 MiB", 35, study.values(two, invalidation_share), absolute=8, unit="%"),
            ],
            two,
        ),
        study.row(
            "F12",
            "8 processors, 128 B, affinity: GSP 7.4, bus 32 %, half the misses invalidation, critical point 14 at 11",
            "±10 %, ±10 points, ±3",
            [
                within("GSP", 7.4, study.values(affine, gsp), share=0.1),
                within("bus", 32, study.values(affine, bus_percent), absolute=10, unit="%"),
                within("invalidation misses", 50, study.values(affine, invalidation_share), absolute=10, unit="%"),
                at("critical point", 14, near, 3),
                gsp_at("GSP there", 11.3, near, 0.1),
            ],
            affine,
        ),
        _affinity(study, two, affine),
    ]


def _affinity(study: Study, random: Configuration, affine: Configuration) -> Row:
    """F13: what affinity changes and what not."""
    passive, other = rate("coherence", "passive_sharing"), rate("misses", *OTHER)
    parts = [
        ordered(
            "other misses per 1000", study.values(affine, other), study.values(random, other), ("affinity", "random")
        ),
        ordered(
            "passive transactions per 1000",
            study.values(affine, passive),
            study.values(random, passive),
            ("affinity", "random"),
        ),
    ]
    for what, figure in (
        ("true and false sharing transactions per 1000", rate("coherence", "true_sharing", "false_sharing")),
        ("invalidation misses per 1000", rate("misses", *SHARING)),
    ):
        a, b = (study.values(c, figure) for c in (affine, random))
        close = abs(mean(a) / mean(b) - 1) <= 0.1
        parts.append(Part(what, "unchanged (±10 %)", f"{shown(estimate(a))} against {shown(estimate(b))}", close))
    claim = "affinity cuts other misses and passive transactions, not true and false sharing"
    return study.row("F13", claim, "shape", parts, affine)


#: Rows in order.
PARTS = (_four, _eight, _scaling)
