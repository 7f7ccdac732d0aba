"""Samples of real hardware as histograms: what perf prints, and who owns which page."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from servsim.errors import UsageError
from servsim.monitor.owners import owners, placement, read

SERVSIM = Path(sys.executable).with_name("servsim")
#: As `perf script` prints what `perf mem record` samples: three lines beyond caches, one of a cache, one of cycles.
SCRIPT = """\
# ========
  program 4711 [000]  3678.072400:          1 cpu/mem-loads,ldlat=30/P:     7f1b6c3d5a40        68100142 \
|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A      7     55d0a1 work (/opt/program)
  program 4711 [000]  3678.072500:          1 cpu/mem-loads,ldlat=30/P:     7f1b6c3d5a80      1a08100242 \
|OP LOAD|LVL Local RAM or RAM hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A     57     55d0a1 work (/opt/program)
  a worker  4710/4712  [005]  3678.072600:        cpu/mem-stores/P:     7f1b6c3d5fff      1a08100242 \
|OP STORE|LVL L1 miss|SNP N/A|TLB N/A|LCK N/A|BLK  N/A  55d0a1 work (/opt/program)
  a worker  4710/4712  [005]  3678.072700:        cpu/mem-loads,ldlat=30/P:     7f1b6c3d5008      1a08100242 \
|OP LOAD|LVL Remote Cache (1 hop) hit|SNP HitM|TLB L2 miss|LCK No|BLK  N/A  55d0a1 work (/opt/program)
  program 4711 [000]  3678.072800:      10000 cycles:  55d0a1 work (/opt/program)
"""
#: As `perf mem report -D` prints: L1 hit, local memory (bits of include/uapi/linux/perf_event.h), no address.
RAW = """\
# PID, TID, IP, ADDR, PHYS ADDR, LOCAL WEIGHT, DSRC, SYMBOL
 4710  4711 0x00000000000055d0a1 0x00007f1b6c3d5a40 0x000000044e96a308     7 0x068100142 /opt/program:work
 4710  4712 0x00000000000055d0a1 0x00007f1b6c3d6a40 0x000000044e96b308   157 0x068101042 /opt/program:a thing(int)
 4710  4712 0x00000000000055d0a1 0x0000000000000000 0x0000000000000000     0 0x005080144 /opt/program:work
"""

#: As `perf c2c report --stdio -N --coalesce pid,iaddr` of perf 6.1 prints: two lines of memory, three places.
C2C = """\
=================================================
           Shared Data Cache Line Table
=================================================
# Index             Address  Node  PA cnt     Hitm    Total  LclHitm  RmtHitm
      0            0x602180     0    1734   99.00%      300      100      200
=================================================
      Shared Cache Line Distribution Pareto
=================================================
#
#        ----- HITM -----  ------- Store Refs ------  ------ Data address ------
#   Num  RmtHitm  LclHitm   L1 Hit  L1 Miss      N/A     Off  Node  PA cnt      Pid        Code address  rmt hitm
# .....  .......  .......  .......  .......  .......  ......  ....  ......  .......  ..................  ........
#
  -------------------------------------------------------------------------------
      0      200      100     1000        0        0            0x602180
  -------------------------------------------------------------------------------
          75.00%   50.00%   60.00%    0.00%    0.00%     0x0     0    1734    14604            0x400b4f     27161  \
[.] work  a thing.exe  work.c:144   0{ 2   80.0%   90.0%}  1{ 1   20.0%   10.0%}
          25.00%   50.00%   40.00%    0.00%    0.00%    0x20     0    1734    14604            0x400b56     18088  \
[.] work  a thing.exe  work.c:145                        1{ 2  100.0%  100.0%}
  -------------------------------------------------------------------------------
      1        0       40        0        0        0            0x7fd2a300
  -------------------------------------------------------------------------------
           0.00%  100.00%    0.00%    0.00%    0.00%     0x8     0       1    14605            0x400c00         0  \
[.] rest  a thing.exe  work.c:200   0{ 1   25.0%    n/a}  3{ 1   75.0%    n/a}
"""


def _columns(found: dict[str, object], *names: str) -> list[tuple[object, ...]]:
    histogram = found["histogram"]
    assert isinstance(histogram, dict)
    return list(zip(*(histogram[name] for name in names), strict=True))


def test_lines_of_perf_script_count_by_page_processor_and_thread(tmp_path: Path) -> None:
    file = tmp_path / "script"
    file.write_text(SCRIPT)
    found = read(file, [range(4), range(4, 8)])
    assert _columns(found, "address", "node", "processor", "thread", "count") == [
        ("0x7f1b6c3d5000", 1, 0, 4711, 1),
        ("0x7f1b6c3d5000", 2, 5, 4712, 2),
    ]
    assert (found["samples"], found["in_caches"], found["without_address"]) == (3, 1, 1)
    every = read(file, granularity=64, cached=True)
    assert _columns(every, "address", "node", "thread", "count") == [
        ("0x7f1b6c3d5000", None, 4712, 1),
        ("0x7f1b6c3d5a40", None, 4711, 1),
        ("0x7f1b6c3d5a80", None, 4711, 1),
        ("0x7f1b6c3d5fc0", None, 4712, 1),
    ]
    (owner,) = owners(found)
    assert (owner.node, owner.thread, owner.samples, round(owner.share, 2)) == (2, 4712, 3, 0.67)


def test_the_table_of_perf_mem_counts_by_thread(tmp_path: Path) -> None:
    file = tmp_path / "raw"
    file.write_text(RAW)
    found = read(file)
    assert _columns(found, "address", "processor", "thread", "count") == [("0x7f1b6c3d6000", None, 4712, 1)]
    assert (found["in_caches"], found["without_address"]) == (1, 1)
    assert found["capabilities"] | {"who": ["thread"]} == found["capabilities"]


def test_lines_that_caches_hand_over_count_by_place_and_node(tmp_path: Path) -> None:
    file = tmp_path / "c2c"
    file.write_text(C2C)
    found = read(file, granularity=32)
    assert _columns(found, "address", "node", "thread", "count") == [
        # Of 150 + 50 lines found 80 %, and of 600 writes 90 %.
        ("0x602180", 1, 14604, 700),
        ("0x602180", 2, 14604, 100),
        ("0x6021a0", 2, 14604, 500),
        ("0x7fd2a300", 1, 14605, 10),
        ("0x7fd2a300", 4, 14605, 30),
    ]
    assert found["samples"] == 1340 and found["capabilities"]["who"] == ["node", "thread"]
    # A line of 64 bytes that two nodes write at different places: what to pad.
    whole = owners(read(file, granularity=64))
    assert [(one.address, one.node, one.samples) for one in whole] == [(0x602180, 1, 1300), (0x7FD2A300, 4, 40)]
    # perf 6.1 with --display peer has one more column, and without --coalesce pid nobody is named.
    lines = C2C.replace("LclHitm   L1 Hit", "LclHitm     Peer   L1 Hit").replace("      Pid   ", "   ")
    lines = lines.replace("      0      200      100 ", "      0      200      100       50 ")
    lines = lines.replace("75.00%   50.00% ", "75.00%   50.00%  100.00% ").replace(
        "25.00%   50.00% ", "25.00%   50.00%    0.00% "
    )
    file.write_text(lines.partition("      1        0       40")[0].replace("   14604", ""))
    assert _columns(read(file, granularity=32), "node", "thread", "count") == [(1, 0, 740), (2, 0, 110), (2, 0, 500)]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (C2C.replace("{ 2   80.0%   90.0%}", "{0-1}"), "line 17: 2 nodes without their shares"),
        (C2C.replace("0{ 2   80.0%   90.0%}  1{ 1   20.0%   10.0%}", ""), "no node at the end"),
        (C2C.replace("  1000        0        0 ", "  1000        0 "), "5 shares of 4 counts"),
        (C2C.replace("RmtHitm  LclHitm   L1 Hit", ""), "before the head of the table"),
        (C2C.partition("#   Num")[0], "the table of shared lines is empty"),
        ("hello\n", "line 1: no line of `perf script`"),
        (SCRIPT.splitlines()[-1] + "\n", "record with `perf mem record`"),
        (RAW + "1 2 3\n", "line 5: not the columns"),
        ("", "no sample with a data address"),
        ("{", "Expecting property name"),
        ('{"schema": "other/1"}', "its schema is 'other/1'"),
    ],
)
def test_text_that_is_none_of_perf_is_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "text"
    file.write_text(text)
    with pytest.raises(UsageError, match=said.replace("(", r"\(")):
        read(file)
    done = subprocess.run([SERVSIM, "rset", "owners", str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_pages_of_an_owner_become_rules_that_a_run_follows(tmp_path: Path) -> None:
    file, placed = tmp_path / "sample.json", tmp_path / "p.toml"
    rows = [("grid", 0, 1, 7, 5), ("grid", 0x1000, 1, 7, 5), ("grid", 0x3000, 2, 8, 4), ("grid", 0x3000, 1, 7, 3)]
    rows += [("a.out+0x12", 0, 2, 8, 1), ("grid", 0x4000, 2, 8, 1)]
    names = ("data", "offset", "node", "thread", "count")
    columns = {name: [row[at] for row in rows] for at, name in enumerate(names)}
    columns["offset"] = [f"{offset:#x}" for offset in columns["offset"]]
    columns["address"] = [f"{0x7000_0000 + 4096 * at:#x}" for at in range(len(rows))]
    sample = {"schema": "servsim.rset.sample/1", "program": "a.out", "samples": 19, "lost": 0, "histogram": columns}
    sample["capabilities"] = {"granularity_bytes": 4096, "counts": "moments"}
    file.write_text(json.dumps(sample))
    words = [SERVSIM, "rset", "owners", str(file), "-o", str(placed)]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert "19 samples of a.out, 4,096 B each: moments" in said
    assert [line.split() for line in said.splitlines()[2:]] == [
        ["a.out+0x12", "node", "2", "1", "1", "100", "%"],
        ["grid", "node", "1", "2", "10", "100", "%"],
        ["grid", "node", "2", "2", "8", "62", "%"],
    ]
    told = placed.read_text()
    assert told == placement(owners(sample), 4096)
    assert told.split("\n\n")[1:] == [
        '[[page]]\nsite = "a.out+0x12"\noffset = "0x0..0x1000"\nnode = 2',
        '[[page]]\nstructure = "grid"\noffset = "0x0..0x3000"\nnode = 1',
        '[[page]]\nstructure = "grid"\noffset = "0x3000..0x5000"\nnode = 2\n',
    ]
