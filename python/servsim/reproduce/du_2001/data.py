"""Printed data of Du, Zhang, Dong and Zhang, J. Parallel Distrib. Comput. 61 (2001) 609-640.

Every constant names its table. Times are in processor cycles at 200 MHz.
"""

from __future__ import annotations

#: Processor speed, Hz (Tables 7 and 8).
CLOCK_HZ = 200e6
#: Terminals (section 4.3).
TERMINALS = 48
#: New-order, payment, order-status, delivery, stock-level (Table 2; new-order takes the rest).
MIX = (0.45, 0.43, 0.04, 0.04, 0.04)
#: Visits per transaction type: processor, memory read, memory write, disk read, disk write (Table 6).
VISITS = (
    (22_847_137, 4_405_731, 3_177_453, 150, 570),
    (13_849_985, 2_691_023, 1_885_840, 116, 38),
    (8_407_681, 1_639_657, 1_141_375, 105, 0),
    (42_757_246, 8_469_415, 5_874_990, 183, 692),
    (7_698_052, 1_487_017, 1_051_811, 99, 0),
)
#: Share of accesses per database table 1-9 (Table 5).
ACCESS = (0.0907, 0.1129, 0.2157, 0.1108, 0.2937, 0.0246, 0.0202, 0.1278, 0.0036)
#: Probability that a transaction type (column) accesses a database table (row) (Table 1).
TABLE_1 = (
    (0.02, 0.19, 0, 0, 0),
    (0.04, 0.19, 0, 0, 0.33),
    (0.45, 0, 0, 0, 0.33),
    (0.21, 0, 0, 0, 0),
    (0.02, 0.53, 0.78, 0.16, 0),
    (0.02, 0, 0.11, 0.28, 0),
    (0.02, 0, 0, 0.28, 0),
    (0.21, 0, 0.11, 0.28, 0.33),
    (0.09, 0, 0, 0, 0),
)
#: Share of memory accesses that hit the caches (section 4.3).
HIT_RATE = 0.9
#: Cache line and disk sector, bytes (Table 8): lines per sector = 8.
LINE_BYTES, SECTOR_BYTES = 32, 256
#: Keying time, s, and factor of -ln(r) in the think time, s (Equation 3.1).
KEYING_S, THINK_FACTOR_S = 9.63, 11.36
#: Service times, cycles (Table 7).
SERVICE = {
    "memory": 100.0,
    "memory_bus_request": 2.0,
    "memory_bus_reply": 10.0,
    "io_bus": 5120.0,
    "io_bus_request": 120.0,
    "io_bus_reply": 4850.0,
    "disk_cache": 150.0,
    "seek": 1_000_000.0,
    "rotation": 1_500_000.0,
    "transfer": 42_000.0,
}

#: Mappings f1, f2, f4 (Equations 5.11-5.13): tables on each disk.
F1 = ((1, 2, 3, 4, 5, 6, 7, 8, 9),)
F2 = ((1, 3, 5, 7, 9), (2, 4, 6, 8))
F4 = ((1, 3), (2, 4), (5, 7, 8), (6, 9))
#: Configurations (Table 9): processors, and the tables of each disk of each bus.
CONFIGURATIONS: dict[str, tuple[int, tuple[tuple[tuple[int, ...], ...], ...]]] = {
    "C1": (1, (F1,)),
    "C2": (2, (F1,)),
    "C3": (2, (F2,)),
    "C4": (2, (F2[:1], F2[1:])),
    "C5": (2, (F4,)),
    "C6": (2, (F4[:2], F4[2:])),
    "C7": (4, (F2,)),
    "C8": (4, (F4,)),
    "C9": (4, (F4[:2], F4[2:])),
}
#: Allocations A-E (Table 17): disks 1, 2 on bus 1 and 3, 4 on bus 2.
ALLOCATIONS = {
    "A": (((1, 2, 3), (4, 5)), ((6, 7), (8, 9))),
    "B": (((8,), (1, 2, 4, 7)), ((3,), (5, 6, 9))),
    "C": (((1, 2, 3, 4, 5), ()), ((6, 7, 8, 9), ())),
    "D": (((1, 2, 4, 7, 8), ()), ((3, 5, 6, 9), ())),
    "E": (((8, 4), (9,)), ((6,), (1, 2, 3, 5, 7))),
}

#: Throughput in tpmC with the printed improvement over C1 in per cent.
Printed = tuple[float, float]
#: Table 10: by processors.
TABLE_10: dict[int, Printed] = {1: (24.6, 0.0), 2: (47.2, 91.9), 3: (51.9, 110.0), 4: (53.5, 117.5)}
#: Table 11: memory latency to tpmC, improvement and I/O-bus utilisation (per cent).
TABLE_11 = {
    100: (47.2, 91.9, 40.3),
    90: (52.9, 115.0, 45.6),
    80: (56.7, 130.5, 53.4),
    70: (58.3, 137.0, 60.8),
    60: (59.1, 140.2, 67.7),
    50: (59.6, 142.2, 67.9),
}
#: Table 12: utilisation of disks (1-4), I/O buses (1-2) and memory bus, per cent.
TABLE_12: dict[str, tuple[tuple[float | None, ...], tuple[float | None, ...], float]] = {
    "C2": ((63.4, None, None, None), (40.3, None), 58.7),
    "C3": ((41.2, 25.7, None, None), (31.5, None), 62.6),
    "C5": ((20.7, 10.2, 19.6, 15.9), (33.5, None), 68.6),
    "C4": ((41.2, None, 25.7, None), (12.3, 17.5), 68.2),
    "C6": ((20.7, 10.2, 19.6, 15.9), (14.0, 18.3), 70.5),
}
#: Columns of Tables 13-16.
COLUMNS = ("C2", "C3", "C5", "C4", "C6")
#: Tables 13-16: the parameter varied, and per value tpmC with improvement for each column.
SWEEPS: dict[str, tuple[str, dict[int, tuple[Printed, ...]]]] = {
    "13": (
        "io_bus",
        {
            3072: ((56.8, 130.9), (57.4, 133.3), (57.6, 134.2), (58.9, 139.4), (59.3, 141.1)),
            3584: ((55.3, 124.8), (55.9, 127.2), (56.7, 130.5), (57.0, 131.7), (57.1, 132.1)),
            4096: ((53.6, 117.9), (54.1, 119.9), (55.0, 123.6), (56.4, 129.3), (56.4, 129.3)),
            4608: ((50.1, 103.7), (51.7, 110.2), (52.4, 113.0), (55.2, 124.4), (55.9, 127.2)),
            5120: ((47.2, 91.9), (48.3, 96.3), (49.6, 101.6), (52.3, 112.6), (54.7, 122.4)),
        },
    ),
    "14": (
        "seek",
        {
            600_000: ((52.3, 112.6), (52.6, 113.8), (53.1, 115.9), (60.4, 145.5), (60.9, 147.6)),
            700_000: ((51.4, 108.9), (52.0, 111.4), (52.7, 114.2), (59.4, 141.5), (60.1, 144.3)),
            800_000: ((49.6, 101.6), (51.4, 108.9), (52.1, 111.8), (58.2, 136.6), (59.3, 141.1)),
            900_000: ((48.3, 96.3), (50.9, 106.9), (51.3, 108.5), (57.9, 135.4), (58.9, 139.4)),
            1_000_000: ((47.2, 91.9), (48.7, 98.0), (50.1, 103.7), (56.3, 128.9), (57.1, 132.1)),
        },
    ),
    "15": (
        "rotation",
        {
            900_000: ((55.1, 124.0), (55.2, 124.4), (55.4, 125.2), (62.5, 154.1), (63.3, 157.3)),
            1_050_000: ((54.6, 122.0), (54.9, 123.2), (55.0, 123.6), (61.3, 149.2), (62.5, 154.1)),
            1_200_000: ((51.3, 108.5), (51.7, 110.2), (52.9, 115.0), (60.1, 144.3), (61.4, 149.6)),
            1_350_000: ((48.7, 98.0), (49.5, 101.2), (51.8, 110.6), (58.2, 136.6), (58.7, 138.6)),
            1_500_000: ((47.2, 91.9), (48.7, 98.0), (50.1, 103.7), (56.3, 128.9), (57.1, 132.1)),
        },
    ),
    "16": (
        "transfer",
        {
            25_200: ((50.3, 104.5), (51.1, 107.7), (51.5, 109.3), (58.6, 138.2), (58.7, 138.6)),
            29_400: ((50.1, 103.7), (50.6, 105.7), (51.2, 108.1), (58.4, 137.4), (58.5, 137.8)),
            33_600: ((49.2, 100.0), (49.5, 101.2), (51.0, 107.3), (58.0, 135.8), (58.1, 136.2)),
            37_800: ((48.7, 98.0), (48.9, 98.8), (50.6, 105.7), (57.6, 134.1), (57.7, 134.6)),
            42_000: ((47.2, 91.9), (48.7, 98.0), (50.1, 103.7), (56.3, 128.9), (57.1, 132.1)),
        },
    ),
}
#: Table 17: tpmC of allocations A-E.
TABLE_17: dict[str, Printed] = {
    "A": (49.3, 100.4),
    "B": (55.4, 125.2),
    "C": (48.2, 95.9),
    "D": (53.6, 117.9),
    "E": (58.7, 138.6),
}
#: Table 18: utilisation of I/O buses 1, 2 and disks 1-4, per cent.
TABLE_18 = {
    "A": (72.7, 31.4, 58.3, 45.4, 10.6, 8.7),
    "B": (67.8, 41.1, 57.3, 48.9, 25.3, 27.4),
    "C": (58.7, 20.3, 69.8, 0.0, 43.3, 0.0),
    "D": (51.4, 30.8, 76.8, 0.0, 64.2, 0.0),
    "E": (45.7, 38.5, 54.2, 47.3, 38.6, 46.1),
}


def average(column: int) -> float:
    """Visits per average transaction: a column of Table 6 weighted by the mix."""
    return sum(p * row[column] for p, row in zip(MIX, VISITS, strict=True))


CPU_VISITS = average(0)
MEMORY_VISITS = average(1) + average(2)
DISK_READS = average(3)
DISK_WRITES = average(4)
DISK_VISITS = DISK_READS + DISK_WRITES
#: tpmC per transaction per second (Equation 3.10): new-orders per minute.
TPMC = 60.0 * MIX[0]
