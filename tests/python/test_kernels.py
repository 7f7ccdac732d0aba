"""``servsim workload run kernels``: the kernels through the command that runs all workloads."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SERVSIM = Path(sys.executable).with_name("servsim")


def servsim(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([SERVSIM, "workload", *words], capture_output=True, text=True, check=False)


def test_a_kernel_runs_with_its_own_options_and_reports() -> None:
    done = servsim("run", "kernels", "--kernel", "fft", "--size", "16", "--threads", "3", "--seed", "4", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["kernel"], report["size"], report["threads"], report["seed"]) == ("fft", "16", 3, 4)
    assert report["valid"] and report["schema"] == "servsim.kernel.run/1"
    done = servsim("run", "kernels", "--kernel=membench", "--test", "copy", "--size", "64KiB")
    assert done.returncode == 0 and done.stdout.startswith("membench of size 64KiB"), done.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run", "kernels"), "give --set kernel=, one of: fft, "),
        (("run", "kernels", "--kernel", "sorting"), "kernel='sorting' is none of: fft, "),
        (("run", "kernels", "--kernel", "fft", "--users", "3"), "has no setting 'users'; there is: kernel, threads"),
        (("run", "kernels", "--kernel", "fft", "--size", "17"), "give 16 or 32"),
        (("run", "kernels", "--kernel", "fft", "--threads", "x"), "invalid value 'x' for '--threads"),
        (("load", "kernels"), "kernels has no data to load"),
        (("check", "kernels"), "nothing is left to check"),
    ],
)
def test_what_makes_no_sense_is_refused_with_a_remedy(words: tuple[str, ...], told: str) -> None:
    done = servsim(*words)
    assert done.returncode == 2 and told in done.stderr, done.stderr
    assert "Traceback" not in done.stderr
