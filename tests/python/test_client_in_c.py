"""A client in C, by `servsim.h` alone: what it reports natively, and what ends its run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SERVSIM = Path(sys.executable).with_name("servsim")
#: Ends transactions of the kind that it is told, by four users that sleep as long as they are told.
CLIENT = """
#include <servsim.h>
static int kind, nap;
static void *user(void *nothing)
{
    while (servsim_goes_on()) {
        usleep(nap);
        servsim_ended(kind, getpid());
    }
    return nothing;
}
int main(int count, char **words)
{
    pthread_t threads[4];
    kind = atoi(words[count - 2]);
    nap = atoi(words[count - 1]);
    servsim_begin(10, 4);
    for (int number = 0; number < 4; number++)
        pthread_create(&threads[number], NULL, user, NULL);
    for (int number = 0; number < 4; number++)
        pthread_join(threads[number], NULL);
    return servsim_finish(NULL);
}
"""
DESCRIPTION = """
summary = "sleeps: users that sleep"
client = "sleeps-client"
build = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-pthread", "-I", "{include}", "-o", "{client}", "client.c"]
transactions = ["nap", "a %n \\"{}\\" <>"]
[settings.kind]
default = 1
meaning = "Kind of the transactions."
[settings.nap]
default = 1000
unit = "microseconds"
meaning = "How long each lasts."
[settings.users]
default = 4
meaning = "Users."
"""


@pytest.fixture
def sleeps(tmp_path: Path) -> Path:
    """The folder of a workload without a server whose client is in C."""
    if shutil.which("cc") is None:
        pytest.skip("cc is missing; run scripts/install-deps.sh")
    folder = tmp_path / "sleeps"
    folder.mkdir()
    (folder / "workload.toml").write_text(DESCRIPTION)
    (folder / "client.c").write_text(CLIENT)
    (folder / "client").write_text('#!/bin/sh\nexec sleeps-client "$servsim_kind" "$servsim_nap"\n')
    (folder / "client").chmod(0o755)
    return folder


def servsim(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "SERVSIM_CACHE": str(folder.parent / "cache")}
    return subprocess.run(
        [SERVSIM, *words], env=environment, capture_output=True, text=True, check=False, cwd=folder.parent
    )


@pytest.mark.parametrize("kind", ["3", "0", "-1"])
def test_a_kind_that_the_folder_does_not_declare_ends_the_run_and_is_told(sleeps: Path, kind: str) -> None:
    done = servsim(sleeps, "workload", "run", str(sleeps), "--kind", kind)
    assert done.returncode == 2, done.stderr
    told = (
        f"of kind {kind}, and its workload.toml declares 1 (nap), 2 (a %n _{{}}_ <>): add that kind to `transactions`"
    )
    assert told in done.stderr.splitlines()[-1]


def test_kinds_that_are_declared_run(sleeps: Path) -> None:
    done = servsim(sleeps, "workload", "run", str(sleeps), "--kind", "2", "--json", "--transactions", "40")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["valid"] is True
    # The window holds the 40 that were ordered, and not the transactions before it.
    assert report["transactions_per_second"] == pytest.approx(40 / report["seconds"], rel=1e-3)
    # Four users that sleep a millisecond each time cannot be faster.
    assert 0 < report["transactions_per_second"] <= 4 * 40 / 36 / 0.001
    # Another description makes another client.
    described = sleeps / "workload.toml"
    described.write_text(described.read_text().replace('"nap", ', ""))
    assert servsim(sleeps, "workload", "run", str(sleeps), "--kind", "2").returncode == 2


def test_a_ladder_of_a_client_in_c_has_ratios(sleeps: Path) -> None:
    steps = (f'[[step]]\nname = "{nap}"\nwhat = "naps"\nsettings = {{ nap = {nap} }}\n' for nap in (40000, 1000))
    (sleeps / "tuning.toml").write_text("".join(steps))
    done = servsim(sleeps, "workload", "tune", str(sleeps), "--rounds", "3", "--transactions", "8", "--json")
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)["steps"]
    assert max(first["transactions_per_second"]["runs"]) <= 4 * 8 / 4 / 0.04
    assert second["ratio"]["n"] == 3 and second["ratio"]["mean"] > 0
