"""A client in C, by `servsim.h` alone: what it reports natively, and what ends its run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SERVSIM = Path(sys.executable).with_name("servsim")
#: Ends transactions of the kind that it is told, each by a user of its own that sleeps a millisecond, on four threads.
CLIENT = """
#include <servsim.h>
static int kind;
static void *user(void *nothing)
{
    while (servsim_goes_on()) {
        usleep(1000);
        servsim_ended(kind, getpid());
    }
    return nothing;
}
int main(int count, char **words)
{
    pthread_t threads[4];
    kind = atoi(words[count - 1]);
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
    (folder / "client").write_text('#!/bin/sh\nexec sleeps-client "$servsim_kind"\n')
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
    assert json.loads(done.stdout)["valid"] is True
    # Another description makes another client.
    described = sleeps / "workload.toml"
    described.write_text(described.read_text().replace('"nap", ', ""))
    assert servsim(sleeps, "workload", "run", str(sleeps), "--kind", "2").returncode == 2
