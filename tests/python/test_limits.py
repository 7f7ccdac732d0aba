"""Numbers that nothing can count to, or that are none, are refused with the option's name and what it takes."""

import math
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest
from servsim.errors import UsageError
from servsim.limits import LARGEST_COUNT, finite, whole

SERVSIM = Path(sys.executable).with_name("servsim")
SHIPPED = Path(str(files("servsim") / "data" / "quickstart.svt"))
SMP = Path(__file__).parents[2] / "examples" / "models" / "smp.toml"
#: More than 64 bits hold.
BEYOND = 10**20 - 1


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("trace", "cut", SHIPPED, "-o", "x.svt", "--references", BEYOND), "'--references': 9"),
        (("trace", "sample", SHIPPED, "-o", "x.svt", "--keep", BEYOND, "--of", 1), "'--keep': 9"),
        (("trace", "sample", SHIPPED, "-o", "x.svt", "--keep", 1, "--of", BEYOND), "'--of': 9"),
        (("classify", SHIPPED, "-m", "foglia-2004-4p", "--top", BEYOND), "top is 9"),
        (("disk", "fit", "d.csv", "--seed", BEYOND), "seed is 9"),
        (("disk", "fit", "d.csv", "--slots", BEYOND), "slots is 9"),
        (("disk", "reorganize", "d.csv", "--blocks", BEYOND), "blocks is 9"),
        (("simulate", SHIPPED, "-m", "foglia-2004-4p", "--seed", 2**63), "'--seed': 9"),
        (("model", "verify", SHIPPED, "--customers", BEYOND), "'--customers': 9"),
        (("model", "solve", SMP, "--up-to", BEYOND, "--plot", "p.svg"), "'--up-to': 9"),
        (("model", "solve", SMP, "--solver", "simulation", "--replications", BEYOND), "replications is 9"),
        (("model", "solve", SMP, "--max-iterations", -1), "from 1 to 1000000"),
        (("model", "solve", SMP, "--seed", BEYOND), "seed is 9"),
        (("model", "solve", SMP, "--percentile", "nan"), "a percentile is nan"),
        (("model", "solve", SMP, "--tolerance", "nan"), "tolerance is nan"),
        (("model", "solve", SMP, "--requests", "inf"), "requests is inf"),
        (("model", "forecast", SMP, "--goal", "mean <= 1 s", "--growth", "nan"), "above -100 %"),
    ],
)
def test_what_no_option_takes_is_refused_by_its_name(arguments: tuple[object, ...], words: str, tmp_path: Path) -> None:
    command = [SERVSIM, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 2 and words in done.stderr, done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_number_is_refused_that_is_not_whole_or_not_finite() -> None:
    whole("count", None, 1)
    whole("count", LARGEST_COUNT, 1)
    finite("load", None, 0.5)
    for wrong in (0, LARGEST_COUNT + 1, True, 1.0, "1"):
        with pytest.raises(UsageError, match=r"^count is .*: give a whole number from 1 to 9223372036854775808$"):
            whole("count", wrong, 1)
    with pytest.raises(UsageError, match=r"^load is inf: give a finite number$"):
        finite("load", 1.0, math.inf)
