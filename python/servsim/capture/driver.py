"""The driver that runs inside the guest: ``servsim-oltp``, linked statically.

The guest is Debian 12, whatever the host is; a program linked statically does not care which C
library either has.
"""

import os
import shutil
from pathlib import Path

from servsim.cache import checkout
from servsim.capture.steps import Steps
from servsim.errors import EnvironmentProblem

_TARGET = "x86_64-unknown-linux-gnu"


def guest_driver(steps: Steps) -> Path:
    """Return the driver, built from this checkout when its sources changed.

    ``SERVSIM_OLTP`` names one that is already built.

    Raises
    ------
    EnvironmentProblem
        When there are no sources, no compiler, or the build fails.
    """
    given = os.environ.get("SERVSIM_OLTP")
    if given:
        path = Path(given).absolute()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise EnvironmentProblem(f"SERVSIM_OLTP names {path}, which is not a program")
        return path
    repository = checkout("capturing a workload")
    cargo = shutil.which("cargo")
    if cargo is None:
        raise EnvironmentProblem("building the driver needs cargo; install it with scripts/install-deps.sh")
    # A target directory of its own: other flags would otherwise evict what `make build` compiled.
    target = repository / "target" / "guest-driver"
    command = [
        cargo,
        "build",
        "--release",
        "--locked",
        "--package",
        "servsim-workload",
        "--bin",
        "servsim-oltp",
    ]
    command += [
        "--manifest-path",
        str(repository / "Cargo.toml"),
        "--target",
        _TARGET,
        "--target-dir",
        str(target),
    ]
    environment = {
        **os.environ,
        "RUSTFLAGS": "-C target-feature=+crt-static",
        "CARGO_PROFILE_RELEASE_STRIP": "debuginfo",
    }
    steps.run("driver", command, env=environment)
    return target / _TARGET / "release" / "servsim-oltp"
