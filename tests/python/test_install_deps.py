"""The installation of packages: by purpose, a screen and no more, the end of the log when it fails.

The script runs with a package manager of the test's own; nothing is installed.
"""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

APT_GET = """#!/bin/sh
echo "$@" >> "$CALLS"
for n in $(seq 600); do echo "Unpacking line $n"; done
echo "pmstatus:gcc:50.0000:Unpacking"
case "$*" in *install*) [ -z "$BROKEN" ] || { echo "E: dpkg was interrupted"; exit 100; } ;; esac
"""
STUBS = {
    "apt-get": APT_GET,
    "apt-cache": "#!/bin/sh\necho '  Candidate: 1:99.0'\n",
    "dpkg-query": "#!/bin/sh\nexit 1\n",
    "sudo": '#!/bin/sh\nexec "$@"\n',
}


class Host:
    """A host whose packages are all missing and can all be had."""

    def __init__(self, folder: Path) -> None:
        self.cache, self.calls = folder / "cache", folder / "calls"
        self.calls.touch()
        programs = folder / "bin"
        programs.mkdir()
        for name, text in STUBS.items():
            (programs / name).write_text(text)
            (programs / name).chmod(0o755)
        self.path = f"{programs}:/usr/bin:/bin"

    def install(self, *purposes: str, broken: str = "") -> subprocess.CompletedProcess[str]:
        environment = {
            "HOME": os.environ.get("HOME", "/"),
            "PATH": self.path,
            "SERVSIM_CACHE": str(self.cache),
            "CALLS": str(self.calls),
            "BROKEN": broken,
        }
        command = [ROOT / "scripts" / "install-deps.sh", *purposes]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def installed(self) -> set[str]:
        lines = [line.split() for line in self.calls.read_text().splitlines() if " install " in line]
        return {word for words in lines for word in words[words.index("install") :] if not word.startswith("-")}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


WORKLOAD = {"apache2-bin", "libapache2-mod-perl2", "libdbd-pg-perl", "postgresql-15", "openjdk-17-jdk-headless"}
FOR_TESTS = {"chromium", "chromium-driver", "valgrind", "nghttp2-client", "clang", "libbpf-dev", "libbpf1", *WORKLOAD}


def test_quickstart_installs_nothing_that_only_tests_or_one_feature_need(host: Host) -> None:
    done = host.install()
    assert done.returncode == 0, done.stderr
    assert {"gcc", "mmdebstrap", "e2fsprogs"} <= host.installed()
    assert host.installed() & FOR_TESTS == set()


def test_the_tests_install_all_that_they_need(host: Host) -> None:
    done = host.install("test")
    assert done.returncode == 0, done.stderr
    assert {"gcc", "mmdebstrap", "e2fsprogs"} | FOR_TESTS <= host.installed()


@pytest.mark.parametrize(
    ("purpose", "wanted"), [("workload", WORKLOAD), ("disk-capture", {"clang", "libbpf-dev", "libbpf1"})]
)
def test_a_feature_installs_its_own_packages(host: Host, purpose: str, wanted: set[str]) -> None:
    assert host.install(purpose).returncode == 0
    assert host.installed() & (FOR_TESTS | {"mmdebstrap"}) == wanted


def test_the_emulator_of_arm_is_for_acceptance_alone(host: Host) -> None:
    assert host.install("test").returncode == 0
    assert "qemu-system-arm" not in host.installed()
    assert host.install("acceptance").returncode == 0
    assert {"qemu-system-arm", *FOR_TESTS} <= host.installed()


def test_what_the_package_manager_says_is_in_the_log_and_not_on_the_screen(host: Host) -> None:
    done = host.install("test")
    assert len(done.stderr.splitlines()) < 25
    assert "install-deps: install gcc: links Rust programs" in done.stderr
    assert "Unpacking line 600" in (host.cache / "install-deps.log").read_text()


def test_a_failure_shows_the_end_of_the_log_and_where_it_is(host: Host) -> None:
    done = host.install(broken="yes")
    assert done.returncode == 3
    assert "E: dpkg was interrupted" in done.stderr and str(host.cache / "install-deps.log") in done.stderr
    assert len(done.stderr.splitlines()) < 40


def test_an_unknown_purpose_is_wrong_usage(host: Host) -> None:
    done = host.install("nonsense")
    assert done.returncode == 2 and "quickstart, workload, disk-capture, test" in done.stderr
    assert host.calls.read_text() == ""


def test_continuous_integration_installs_for_the_tests() -> None:
    plan = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "scripts/install-deps.sh test" in plan
    plan = subprocess.run(["make", "-n", "quickstart"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "scripts/install-deps.sh quickstart" in plan
