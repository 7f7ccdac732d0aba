"""The client that runs inside the guest: a program of this repository, or one that its folder builds.

The guest is Debian 12, whatever the host is; a program linked statically does not care which C
library either has.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

from servsim.cache import checkout
from servsim.capture import store
from servsim.capture.elf import wants_loader
from servsim.capture.folder import Folder
from servsim.capture.steps import Steps
from servsim.errors import EnvironmentProblem

#: Copies of a client that are made while other builds replace it.
_COPIES = 5


def client_of(folder: Folder, steps: Steps) -> Path:
    """Return the workload's client, built when its sources changed.

    A variable of the client's name in capitals (``SERVSIM_OLTP``) names one that is already built.

    Raises
    ------
    EnvironmentProblem
        When there are no sources, no compiler, or the build fails.
    """
    path = _named(folder)
    if path is not None:
        if not os.access(path, os.X_OK) or path.is_dir():
            raise EnvironmentProblem(f"{_variable(folder)} names {path}, which is not a program")
        return path
    return _built_by_folder(folder, steps) if folder.build else _of_this_repository(folder.client, steps)


def copy_of_client(folder: Folder, steps: Steps, place: Path) -> Path:
    """Return a copy of the workload's client in a folder of one's own, built when its sources changed.

    Any build of the repository may replace its programs at any moment, by such as do not run in a guest: what is hashed
    for an image and what lies in it is this copy.

    Raises
    ------
    EnvironmentProblem
        As `client_of`; or when other builds go on replacing the program.
    """
    program = client_of(folder, steps)
    for _ in range(_COPIES):
        copy = place / program.name
        try:
            shutil.copyfile(program, copy)
            whole = store.file_digest(copy) == store.file_digest(program)
        except FileNotFoundError:  # it is being replaced
            whole = False
        if whole and (folder.build or _named(folder) or not wants_loader(copy.read_bytes())):
            return copy
        program = client_of(folder, steps)
    raise EnvironmentProblem(f"another build replaces {program} while it is copied: wait for its end, and repeat")


def _named(folder: Folder) -> Path | None:
    """Return the client that the environment names."""
    given = os.environ.get(_variable(folder))
    return Path(given).absolute() if given else None


def _variable(folder: Folder) -> str:
    return folder.client.upper().replace("-", "_")


def _built_by_folder(folder: Folder, steps: Steps) -> Path:
    """Return the client that the folder's own command makes, from the cache if its files are the same."""
    repository = checkout("building a client")
    header, built = repository / "capture" / "client" / "servsim.h", repository / "target" / "release"
    words = [word.replace("{built}", str(built)) for word in folder.build]
    ours = [Path(word) for word, before in zip(words, folder.build, strict=True) if word != before]
    missing = [path for path in ours if not path.is_file()]
    if missing:
        raise EnvironmentProblem(f"building the client of {folder.path} needs {missing[0]}: run `make build`")
    inputs = {
        "files": folder.digests(),
        "build": list(folder.build),
        "header": store.file_digest(header),
        "kinds": _kinds(folder),
        "ours": [store.file_digest(path) for path in ours],
    }
    directory = store.guest_dir() / "client" / store.digest(inputs)

    def build(partial: Path) -> None:
        include = partial / "include"
        include.mkdir()
        shutil.copyfile(header, include / header.name)
        (include / "servsim_kinds.h").write_text(_kinds(folder))
        places = {"{client}": str(partial / folder.client), "{include}": str(include)}
        command = [places.get(word, word) for word in words]
        if shutil.which(command[0]) is None:
            raise EnvironmentProblem(f"building the client of {folder.path} needs {command[0]}, which is not installed")
        steps.run("building the client", ["env", "-C", folder.path, *command])
        if not (partial / folder.client).is_file():
            raise EnvironmentProblem(f"the command `build` of {folder.path / 'workload.toml'} made no {{client}}")
        store.remove(include)

    store.build_once(directory, build, lambda: None)
    return directory / folder.client


def _kinds(folder: Folder) -> str:
    """Return what ``servsim.h`` includes: how many kinds there are, and a sentence, a format, for any other.

    The sentence travels in JSON, hence without characters that are written differently there.
    """
    sentence = re.sub(r'[^ -~]|["\\]', "_", folder.undeclared("<>")).replace("%", "%%").replace("<>", "%d", 1)
    return f'#define SERVSIM_KINDS {len(folder.transactions)}\n#define SERVSIM_UNDECLARED "{sentence}"\n'


def _of_this_repository(name: str, steps: Steps) -> Path:
    """Return a program of this repository, whichever crate it is of, linked statically."""
    command, program = static_build(checkout("capturing a workload"), name)
    steps.run("building the client", command)
    return program


def static_build(repository: Path, name: str) -> tuple[list[str], Path]:
    """Return how a program or an example is linked statically, so that it runs in any guest: command, and the program.

    Natively it runs as well, and its libraries are those of everything else here.

    Raises
    ------
    EnvironmentProblem
        When there is no compiler, or no such program.
    """
    cargo = shutil.which("cargo")
    if cargo is None:
        raise EnvironmentProblem("building the driver needs cargo; install it with scripts/install-deps.sh")
    for kind, source, built in (("bin", f"src/bin/{name}.rs", ""), ("example", f"examples/{name}/main.rs", "examples")):
        for found in repository.glob(f"crates/*/{source}"):
            manifest = str(found).removesuffix(source) + "Cargo.toml"
            command = [cargo, "rustc", "--release", "--locked", "--quiet", f"--{kind}", name]
            command += ["--manifest-path", manifest, "--target-dir", str(repository / "target")]
            program = repository / "target" / "release" / built / name
            return [*command, "--", "-C", "target-feature=+crt-static"], program
    raise EnvironmentProblem(
        f"no program here is called {name!r}: say with `build` in workload.toml how the client is made"
    )


def build_programs() -> None:
    """Build every program of this repository that runs beside a server or in a guest."""
    repository = checkout("building its programs")
    for source in sorted(repository.glob("crates/*/src/bin/*.rs")):
        command, _ = static_build(repository, source.stem)
        subprocess.run(command, check=True)
