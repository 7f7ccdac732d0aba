"""Command lines drawn at random end as promised: a result that is one, or a sentence and nothing lost.

`make test` draws a few; acceptance draws for SERVSIM_MINUTES, with a seed of its own (SERVSIM_SEED repeats one).
"""

import hashlib
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import drawn_command_lines as drawn
import pytest
from example_files import furnish
from printed_examples import ROOT
from servsim import _core
from servsim.environment import shipped_trace
from servsim.machines import shipped_machines

#: Results and models that later commands read, made before any line is drawn.
MADE = (
    "simulate oltp.svt -m foglia-2004-4p -o 4.json",
    "simulate oltp.svt -m foglia-2004-8p --replications 3 -o 8.json",
    "simulate oltp.svt -m foglia-2004-4p --engine functional -o one.json",
    "simulate oltp.svt -m foglia-2004-4p --functional-warm-up 1 --save-checkpoint warm.checkpoint",
    "disk fit requests.csv -o disk.model",
    "place oltp.svt -m brock-2001-4x4 -o placement.toml",
)
#: What a sweep leaves whose runs were refused: the folder in which it goes on when its study has been mended.
JOURNAL = {".lock", "journal.jsonl", "sweep.json"}
#: How long a line may take. None should need a tenth of it.
SECONDS = 120


def _run(words: list[str], folder: Path) -> subprocess.CompletedProcess[bytes]:
    command = [str(Path(sys.executable).with_name("servsim")), *words]
    home = {**os.environ, "XDG_CACHE_HOME": str(folder.parent / "cache")}
    return subprocess.run(command, cwd=folder, env=home, capture_output=True, check=False, timeout=SECONDS)


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a file of every kind that a command reads."""
    folder = tmp_path_factory.mktemp("drawn") / "furnished"
    folder.mkdir()
    trace = folder / "short.svt"
    shipped = shipped_trace()
    assert shipped is not None
    _core.trace_cut(shipped, trace, (4, 6), None, None)
    furnish(folder, trace)
    (folder / "examples").unlink()  # what a line writes stays within its own folder
    shutil.copytree(ROOT / "examples", folder / "examples")
    shutil.copy(shipped_machines()["foglia-2004-4p"], folder / "machine.toml")
    (folder / "empty").touch()
    (folder / "words.json").write_text('{"schema": "servsim.simulate/1"}')
    for line in MADE:
        done = _run(shlex.split(line), folder)
        assert done.returncode == 0, (line, done.stderr)
    return folder


def _contents(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _not_a_number(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def faults(words: list[str], furnished: Path) -> Iterator[str | int]:
    """Run one line in a fresh copy of the folder; give every promise that it broke, and its exit code."""
    folder = furnished.with_name("line")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(furnished, folder)  # links as files, for a line may write through them
    before = _contents(folder)
    try:
        done = _run(words, folder)
    except subprocess.TimeoutExpired:
        yield f"did not end in {SECONDS} s"
        return
    out, err = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    yield done.returncode
    if done.returncode not in range(4):
        yield f"exit code {done.returncode}"
    if any(word in out + err for word in ("Traceback", "panicked", "PanicException", "RuntimeWarning")):
        yield f"a stack trace: {err[-600:]}"
    if done.returncode == 2 and not (out + err).strip():
        yield "refused without a word"
    changed = {name for name, _ in before.items() ^ _contents(folder).items() if Path(name).name not in JOURNAL}
    if done.returncode == 2 and changed:
        yield f"refused, and changed {sorted(changed)}"
    if done.returncode == 0 and drawn.asks_for_json(words):
        try:
            document = json.loads(out, parse_constant=_not_a_number)
        except ValueError as error:
            yield f"printed no JSON: {error}: {out[:200]}"
        else:
            if not str(document.get("schema", "")).startswith("servsim."):
                yield f"printed a document without its schema: {out[:200]}"


def _tried(lines: Iterable[list[str]], furnished: Path) -> tuple[Counter[str | int], list[str]]:
    """Run lines; count their exit codes, and return the promises that they broke."""
    codes: Counter[str | int] = Counter()
    broken = []
    for words in lines:
        found = list(faults(words, furnished))
        codes[found[0]] += 1
        broken += [f"servsim {shlex.join(words)}\n    {fault}" for fault in found if isinstance(fault, str)]
    return codes, broken


def test_command_lines_drawn_at_random_end_as_promised(furnished: Path) -> None:
    codes, broken = _tried(itertools.islice(drawn.lines(1, furnished), 80), furnished)
    assert broken == [], "\n".join(broken)
    assert codes[0] > 10 and codes[2] > 10, f"too few of one kind to be worth drawing: {codes}"


@pytest.mark.acceptance
@pytest.mark.timeout(7200)
@pytest.mark.skipif("SERVSIM_MINUTES" not in os.environ, reason="SERVSIM_MINUTES says for how long")
def test_command_lines_drawn_for_minutes_end_as_promised(furnished: Path) -> None:
    seed = int(os.environ.get("SERVSIM_SEED", time.time()))
    end = time.monotonic() + 60 * float(os.environ["SERVSIM_MINUTES"])
    lines = itertools.takewhile(lambda _: time.monotonic() < end, drawn.lines(seed, furnished))
    codes, broken = _tried(lines, furnished)
    print(f"seed {seed}: {sum(codes.values())} lines, exit codes {dict(codes)}")
    assert broken == [], f"seed {seed}:\n" + "\n".join(broken)


def test_every_command_is_drawn_or_left_out_for_a_reason(furnished: Path) -> None:
    seen = {words[0] for words in itertools.islice(drawn.lines(1, furnished), 2000) if words}
    assert {path[0] for path in drawn.known().commands} <= seen
