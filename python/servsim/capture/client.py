"""The client that runs inside the guest: a program of this repository, or one that its folder builds.

The guest is Debian 12, whatever the host is; a program linked statically does not care which C
library either has.
"""

import os
import shutil
from pathlib import Path

from servsim.cache import checkout
from servsim.capture import store
from servsim.capture.folder import Folder
from servsim.capture.steps import Steps
from servsim.errors import EnvironmentProblem

_TARGET = "x86_64-unknown-linux-gnu"


def client_of(folder: Folder, steps: Steps) -> Path:
    """Return the workload's client, built when its sources changed.

    A variable of the client's name in capitals (``SERVSIM_OLTP``) names one that is already built.

    Raises
    ------
    EnvironmentProblem
        When there are no sources, no compiler, or the build fails.
    """
    variable = folder.client.upper().replace("-", "_")
    given = os.environ.get(variable)
    if given:
        path = Path(given).absolute()
        if not os.access(path, os.X_OK) or path.is_dir():
            raise EnvironmentProblem(f"{variable} names {path}, which is not a program")
        return path
    return _built_by_folder(folder, steps) if folder.build else _of_this_repository(folder.client, steps)


def _built_by_folder(folder: Folder, steps: Steps) -> Path:
    """Return the client that the folder's own command makes, from the cache if its files are the same."""
    repository = checkout("building a client")
    include, built = repository / "capture" / "client", repository / "target" / "release"
    words = [word.replace("{built}", str(built)) for word in folder.build]
    ours = [Path(word) for word, before in zip(words, folder.build, strict=True) if word != before]
    missing = [path for path in ours if not path.is_file()]
    if missing:
        raise EnvironmentProblem(f"building the client of {folder.path} needs {missing[0]}: run `make build`")
    inputs = {
        "files": folder.digests(),
        "build": list(folder.build),
        "header": store.file_digest(include / "servsim.h"),
        "ours": [store.file_digest(path) for path in ours],
    }
    directory = store.guest_dir() / "client" / store.digest(inputs)

    def build(partial: Path) -> None:
        places = {"{client}": str(partial / folder.client), "{include}": str(include)}
        command = [places.get(word, word) for word in words]
        if shutil.which(command[0]) is None:
            raise EnvironmentProblem(f"building the client of {folder.path} needs {command[0]}, which is not installed")
        steps.run("client", ["env", "-C", folder.path, *command])
        if not (partial / folder.client).is_file():
            raise EnvironmentProblem(f"the command `build` of {folder.path / 'workload.toml'} made no {{client}}")

    store.build_once(directory, build, lambda: None)
    return directory / folder.client


def _of_this_repository(name: str, steps: Steps) -> Path:
    """Return a program of this repository, whichever crate it is of, linked statically."""
    command, environment, program = static_build(checkout("capturing a workload"), None, "bin", name)
    steps.run("client", command, env=environment)
    return program


def static_build(repository: Path, package: str | None, kind: str, name: str) -> tuple[list[str], dict[str, str], Path]:
    """Return how a program is linked statically, so that it runs in any guest: command, environment, and the program.

    Parameters
    ----------
    package
        Its crate; any with a program of that name without it.
    kind
        ``bin`` or ``example``.

    Raises
    ------
    EnvironmentProblem
        When there is no compiler.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise EnvironmentProblem("building the driver needs cargo; install it with scripts/install-deps.sh")
    # A target directory of its own: other flags would otherwise evict what `make build` compiled.
    target = repository / "target" / "guest-driver"
    of_package = [] if package is None else ["--package", package]
    command = [cargo, "build", "--release", "--locked", *of_package, f"--{kind}", name]
    command += ["--manifest-path", str(repository / "Cargo.toml"), "--target", _TARGET, "--target-dir", str(target)]
    environment = {
        **os.environ,
        "RUSTFLAGS": "-C target-feature=+crt-static",
        "CARGO_PROFILE_RELEASE_STRIP": "debuginfo",
    }
    folder = target / _TARGET / "release"
    return command, environment, (folder / "examples" if kind == "example" else folder) / name
