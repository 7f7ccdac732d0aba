"""Programs of the monitor for the next, finer look: what counted most, as far as filters and counters reach."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

#: What the card of Brock et al. (2001, section 5) has.
MOST_FILTERS, MOST_COUNTERS = 32, 512 * 1024


class Region(NamedTuple):
    """Consecutive addresses."""

    start: int
    size: int


def regions(
    counts: Mapping[int, int], granule: int, finer: int, filters: int = MOST_FILTERS, counters: int = MOST_COUNTERS
) -> list[Region]:
    """Choose the regions to count next: the hottest granules that filters and counters can hold.

    A filter takes one region, so that cold granules between hot ones are taken along where filters are short; the
    shortest gaps are, which is the fewest counters.

    Parameters
    ----------
    counts : mapping of int to int
        Counts by the address of each granule.
    granule, finer : int
        Bytes of a counter before and next.
    filters, counters : int
        How many there are.
    """
    hottest = sorted(counts, key=lambda address: (-counts[address], address))
    each = granule // finer
    # More granules never need fewer counters, so the most that fit are found by halving.
    fits, fails = 0, len(hottest) + 1
    while fails - fits > 1:
        middle = (fits + fails) // 2
        needed = sum(region.size for region in _covering(hottest[:middle], granule, filters)) // granule * each
        fits, fails = (middle, fails) if needed <= counters else (fits, middle)
    return _covering(hottest[:fits], granule, filters)


def _covering(granules: Sequence[int], granule: int, most: int) -> list[Region]:
    """Return at most so many regions over the granules, the longest gaps left out."""
    ordered = sorted(granules)
    if not ordered:
        return []
    gaps = [(after - before - granule, after) for before, after in pairwise(ordered)]
    apart = sorted((gap for gap in gaps if gap[0] > 0), reverse=True)[: most - 1]
    starts = sorted([ordered[0], *(after for _, after in apart)])
    ends = [*(start - gap for gap, start in sorted(apart, key=lambda gap: gap[1])), ordered[-1] + granule]
    return [Region(start, end - start) for start, end in zip(starts, ends, strict=True)]


def program(chosen: Sequence[Region], granule: int, mode: str, keys: Sequence[str] = ("",)) -> str:
    """Write a program that counts the regions; once for each of ``keys``, further lines of a filter."""
    lines = [f'mode = "{mode}"']
    for region in chosen:
        for more in keys:
            filter = f'start = "{region.start:#x}"\nsize = "{region.size} B"\ngranularity = "{granule} B"'
            lines += ["", "[[filter]]", filter, *([more] if more else [])]
    return "\n".join(lines) + "\n"


def size(granularity: int) -> str:
    """Return bytes as people write them."""
    for bytes_, unit in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if granularity >= bytes_:
            return f"{granularity // bytes_} {unit}"
    return f"{granularity} B"
