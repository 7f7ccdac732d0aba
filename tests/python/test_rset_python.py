"""`servsim rset` as a user types it, and Python as an unmodified program, in a guest of four nodes."""

import json
import re
import shutil
import tempfile
from pathlib import Path

import numa_guest
import pytest
from servsim.errors import EnvironmentProblem
from servsim.rset import preload_library
from servsim.validation import postgres

# Two to three minutes, most of them of an emulated kernel that moves processors.
pytestmark = [pytest.mark.guest, pytest.mark.acceptance]

PROGRAM = numa_guest.ROOT / "tests/python/rset/in_guest.py"


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the guest says of each check, by the check's name."""
    folder: Path = tmp_path_factory.mktemp("guest")
    files = numa_guest.with_python(folder) | {"check.py": PROGRAM.read_bytes(), "tmp/empty": b""}
    files["waiting.py"] = (numa_guest.ROOT / "tests/python/waiting.py").read_bytes()
    database = shutil.which("sqlite3")
    if database is None:
        pytest.skip("needs sqlite3, the database that a policy places")
    files |= numa_guest.with_libraries({"usr/bin/sqlite3": Path(database)})
    files |= _server()
    library = preload_library()
    files |= {"servsim/Cargo.toml": b"", str("servsim" / library.relative_to(numa_guest.ROOT)): library.read_bytes()}
    lines = numa_guest.boot(folder, files, "/usr/bin/python3", "/check.py", mebibytes=512)
    told = [line.removeprefix("servsim-guest: ").strip() for line in lines if line.startswith("servsim-guest: ")]
    assert told and told[-1] == "done", lines
    return {re.split(r" ok | failed: ", line)[0]: line for line in told[:-1]}


def _server() -> dict[str, bytes]:
    """Return PostgreSQL with an empty cluster, as the guest has them; skips where it is not installed."""
    try:
        server = postgres.program("postgres")
        # The account that must run the server has to reach it.
        with tempfile.TemporaryDirectory(dir="/tmp") as made:
            Path(made).chmod(0o755)
            cluster = Path(made) / "cluster"
            postgres.create(cluster)
            places = [str(Path("/cluster") / one.relative_to(cluster)) for one in cluster.rglob("*") if one.is_dir()]
            files = {
                str("cluster" / one.relative_to(cluster)): one.read_bytes()
                for one in cluster.rglob("*")
                if one.is_file()
            }
    except EnvironmentProblem as error:
        pytest.skip(str(error))
    # What initdb says of this host's time zone and languages is not in the guest.
    files["cluster/postgresql.conf"] = b""
    shared = Path("/usr/share/postgresql/15/timezonesets")
    files |= {str(one).lstrip("/"): one.read_bytes() for one in shared.iterdir()}
    library = Path("/usr/lib/postgresql/15/lib/plpgsql.so")
    files[str(library).lstrip("/")] = library.read_bytes()
    files["cluster.json"] = json.dumps(places).encode()
    programs = {str(server).lstrip("/"): server, "usr/bin/psql": postgres.program("psql")}
    return files | numa_guest.with_libraries(programs)


_NAMES = re.findall(r"^    ([a-z_]+),$", PROGRAM.read_text(encoding="utf-8").partition("\nCHECKS = (")[2], re.M)


def test_every_check_ran(said: dict[str, str]) -> None:
    assert len(_NAMES) > 3 and list(said) == _NAMES


@pytest.mark.parametrize("name", _NAMES)
def test_in_a_guest_of_four_nodes(said: dict[str, str], name: str) -> None:
    assert said[name].startswith(f"{name} ok "), said[name]
