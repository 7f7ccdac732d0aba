"""Documents that are not ours, or were damaged: one sentence and exit code 2, whichever command reads them.

Results and study files are mutated at random (fixed seeds): keys taken out, values of other types, huge numbers, NaN,
halves of characters, deep nesting. A command may succeed or refuse; it never ends as a bug.
"""

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from layout_result import layout_result
from printed_examples import root
from servsim import _core, cli, documents, schema
from servsim.environment import shipped_trace
from servsim.errors import UsageError
from servsim.result import check, load
from servsim.simulation import simulate
from servsim.sweep.study import parse
from servsim.timeline.windows import parquet
from servsim.validation.host import Host
from servsim.validation.native import NativeRun
from servsim.validation.record import Record
from servsim.validation.record import read as read_record

ROOT = Path(__file__).resolve().parents[2]

#: Values that take the place of a part.
STRANGE: list[Any] = [
    None,
    True,
    -1,
    0,
    10**30,
    1e300,
    float("nan"),
    "",
    "x",
    "\ud800",
    "\x1b[2J",
    [],
    [[]],
    {},
    {"a": 1},
    [None],
    "9" * 50,
]  # fmt: skip


def _places(tree: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the path of every part of a document; of long lists the first two entries."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree[:2]) if isinstance(tree, list) else ()
    found = [path] if path else []
    for key, part in entries:
        found += _places(part, (*path, key))
    return found


def mutate(document: Any, chance: random.Random) -> Any:
    """Return a copy with one to three faults."""
    made = json.loads(json.dumps(document))
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(_places(made))
        parent = made
        for key in path[:-1]:
            parent = parent[key]
        what = chance.randrange(4)
        if what == 0:
            del parent[path[-1]]
        elif what == 1 and isinstance(parent, list):
            parent.append(parent[path[-1]])
        elif what == 2:
            deep: Any = 1
            for _ in range(chance.choice([3, 50])):
                deep = {"a": [deep]}
            parent[path[-1]] = deep
        else:
            parent[path[-1]] = chance.choice(STRANGE)
    return made


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A real result of a machine with disks of its own, so that every part is there; long lists are cut."""
    trace = tmp_path_factory.mktemp("result") / "short.svt"
    shipped = shipped_trace()
    assert shipped is not None
    _core.trace_cut(shipped, trace, (4, 6), None, None)
    return simulate(trace, "du-2001", replications=2)


def _ends(words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["servsim", *words])
    monkeypatch.setattr(cli, "build", root)  # once for all
    code = cli.run()
    captured = capsys.readouterr()
    return code, captured.err


def readers(file: Path, other: Path, folder: Path) -> list[list[str]]:
    """Return the command lines that read a result."""
    return [
        ["report", str(file), str(other), "-o", str(folder / "r.html")],
        ["compare", str(file), str(other)],
        ["timeline", str(file), "--parquet", str(folder / "w.parquet"), "--perfetto", str(folder / "p.json")],
        ["timeline", str(file)],
        ["model", "fit", str(file)],
    ]


def test_a_real_result_is_of_the_published_shape(result: dict[str, Any]) -> None:
    schema.check_shape(result, "result", "remedy")
    schema.check_shape(layout_result(), "layout", "remedy")


@pytest.mark.parametrize("override", ["disk.count=1", "disk.count=2"])
def test_disks_without_requests_and_buses_are_of_the_published_shape(override: str, tmp_path: Path) -> None:
    trace = tmp_path / "quiet.txt"
    trace.write_text("0 L 1000\n0 X done\n" * 4)
    for machine in ("du-2001", "foglia-2004-4p"):
        document = simulate(trace, machine, overrides=[override])
        assert document["replications"][0]["storage"]["disks"][0]["mean_response_cycles"] is None
        schema.check_shape(document, machine, "remedy")


@pytest.mark.parametrize("seed", range(6))
def test_a_mutated_result_never_ends_as_a_bug(
    result: dict[str, Any],
    seed: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    chance = random.Random(seed)
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_text(json.dumps(result))
    for _ in range(10):
        text = json.dumps(mutate(result, chance))
        bad.write_text(text)
        words = chance.choice(readers(bad, good, tmp_path))
        code, messages = _ends(words, monkeypatch, capsys)
        assert code in (0, 1, 2), f"{words[0]}: {messages}\n{text[:300]}"
        if code == 2:
            assert messages.strip().splitlines()[-1].startswith("servsim: "), messages


@pytest.mark.parametrize(
    ("damage", "place"),
    [
        (lambda d: d.update(replications={}), "replications"),
        (lambda d: d["replications"][0].update(misses=[1]), "replications.0.misses"),
        (lambda d: d["replications"][0]["windows"].update({"bus.read": [1]}), "bus.read of windows"),
        (lambda d: d["replications"][0]["storage"]["disks"][0].pop("busy_cycles"), "disks.0.busy_cycles"),
        (lambda d: d.update(warnings=["\ud800"]), "half a character"),
        (lambda d: d["replications"][0].update(cycles=float("nan")), "NaN"),
        (lambda d: d["replications"][0].update(references=10**40), "beyond any counter"),
    ],
)
def test_a_fault_of_a_result_is_told_by_its_place(
    result: dict[str, Any], damage: Callable[[Any], None], place: str, tmp_path: Path
) -> None:
    made = json.loads(json.dumps(result))
    damage(made)
    path = tmp_path / "r.json"
    path.write_text(json.dumps(made))
    with pytest.raises(UsageError) as refusal:
        load(path)
    assert place in str(refusal.value) and "servsim simulate" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_replications_that_record_different_windows_are_refused_with_what_differs(
    result: dict[str, Any], tmp_path: Path
) -> None:
    first = result["replications"][0]
    other = {**first, "windows": {name: told for name, told in first["windows"].items() if name != "bus.write"}}
    with pytest.raises(UsageError, match=r"do not record bus\.write alike"):
        parquet([first, other], tmp_path / "w.parquet")
    assert parquet([first, first], tmp_path / "w.parquet") == 2 * len(first["timeline"])


def test_nesting_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    with pytest.raises(UsageError, match=r"nested too deeply|not JSON"):
        load(path)


#: A record of native runs, as small as can be.
RECORD = Record(
    host=Host((0, 1), "processor", 32768, 1 << 20, 0, 64, 0.001, 0.001, "15.1"),
    runs=[NativeRun("base", 0, 500.0, 10.0, 12.0, [250, 250])],
    long=[],
)


def test_a_record_of_native_runs_comes_back_as_it_was(tmp_path: Path) -> None:
    RECORD.write(tmp_path / "record.json")
    assert read_record(tmp_path / "record.json") == RECORD


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"schema":' * 100_000, "nested too deeply"),
        ("[]", "the whole"),
        ('{"schema": "servsim.simulate/1"}', "holds servsim.simulate/1"),
        (json.dumps({**asdict(RECORD), "host": {}}), "host.processors"),
        (json.dumps({**asdict(RECORD), "runs": [3]}), "runs.0"),
        (
            json.dumps({**asdict(RECORD), "runs": [{**asdict(RECORD.runs[0]), "throughput": "fast"}]}),
            "runs.0.throughput",
        ),
    ],
    ids=lambda text: text[:40],
)
@pytest.mark.parametrize("words", [["model", "native"], ["validate", "--measure-only", "--native"]], ids=" ".join)
def test_what_is_no_record_of_native_runs_is_refused(
    words: list[str],
    text: str,
    told: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "record.json"
    path.write_text(text)
    code, messages = _ends([*words, str(path)], monkeypatch, capsys)
    assert (code, told in messages, messages.count("\n")) == (2, True, 1), messages


def test_what_is_no_mapping_is_no_result() -> None:
    for document in ([], 1, "x", None, {"schema": ["servsim.simulate/1"]}):
        with pytest.raises(UsageError, match="is not a simulation result"):
            check(document, "it")


def test_the_published_schema_is_fresh() -> None:
    kept = (ROOT / "schemas" / "servsim.simulate-1.schema.json").read_text(encoding="utf-8")
    assert kept == schema.published(), "run `make maps`"


STUDY = """
name = "study"
trace = "oltp.svt"
machine = "foglia-2004-4p"
transactions = 5
seeds = { first = 1, count = 3 }
[settings]
"cache.size" = "1 MiB"
[factors]
processors = [2, 4]
"""


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("engine = 3", "`engine`"),
        ('engine = "both"', "`engine`"),
        ("format = []", "`format`"),
        ('name = "../elsewhere"', "`name`"),
        ('name = "a\\u0000b"', "`name`"),
        ("name = 7", "`name`"),
        ("trace = 7", "`trace`"),
        ("machine = { a = 1 }", "`machine`"),
        ("transactions = 99999999999999999999", "transactions: a number is beyond any counter"),
        ("transactions = true", "`transactions`"),
        ("warmup = 1e9", "`warmup`"),
        ("functional_warmup = []", "`functional_warmup`"),
        ("checkpoint = 1", "`checkpoint`"),
        ("seeds = { first = 99999999999999999999, count = 3 }", "seeds.first: a number is beyond any counter"),
        ("seeds = { first = 1, count = 1000000000 }", "`seeds`"),
        ("seeds = [true]", "`seeds`"),
        ("factors = 3", "`factors`"),
        ("settings = []", "`settings`"),
        ('settings = { "cache.size" = [1] }', "`cache.size`"),
        ("exclude = [3]", "exclude"),
        (f"seeds = [0x{'f' * 6000}]", "seeds.0: a number is beyond any counter"),
        (f"seeds = [{'9' * 6000}]", "a number is beyond any counter"),
        (f"exclude = [{{ {'.'.join(['a'] * 2000)} = 1 }}]", "nested too deeply"),
        (f"trace = {'[' * 100_000}", "nested too deeply"),
    ],
    ids=lambda text: text[:40],
)
def test_a_fault_of_a_study_is_told_by_its_key(line: str, told: str, tmp_path: Path) -> None:
    key = line.partition(" ")[0]
    kept = [text for text in STUDY.splitlines() if not text.startswith(f"{key} =")]
    text = "\n".join([line, *kept])
    if key in ("factors", "settings"):
        text = text.replace(f"[{key}]\n", "").replace('"cache.size" = "1 MiB"\n', "").replace("processors = [2, 4]", "")
    with pytest.raises(UsageError) as refusal:
        parse(text, "s.toml", tmp_path, "s")
    assert told in str(refusal.value)


def test_a_backslash_in_a_value_is_told_as_what_it_is(tmp_path: Path) -> None:
    text = STUDY.replace("oltp.svt", "a\\\\b.svt")
    assert parse(text, "s.toml", tmp_path, "s").fixed["trace"] == "a\\b.svt"


@pytest.mark.parametrize("seed", range(3))
def test_a_mutated_study_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    values = [
        "3",
        "-1",
        "true",
        "1e400",
        "nan",
        '"x"',
        '"../x"',
        "[]",
        "[[1]]",
        "{}",
        "[{ a = 1 }]",
        "9" * 30,
        '"\\\\"',
        "1979-05-27",
    ]
    for _ in range(60):
        lines = STUDY.strip().splitlines()
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(lines))
            if " = " in lines[at]:
                lines[at] = f"{lines[at].partition(' = ')[0]} = {chance.choice(values)}"
        try:
            parse("\n".join(lines), "s.toml", tmp_path, "s")
        except UsageError as refusal:
            assert str(refusal)


def test_a_result_of_before_is_read_under_the_names_of_today() -> None:
    present = layout_result()
    replication = present["replications"][0]
    replication["windows"] = {"bus.write_back": [1 for _ in replication["timeline"]]}
    replication["figures"] = {"bus.write_back": 7}
    replication["activity"] = {"schedule": {"processor": [0], "task": [1], "start": [2], "end": [3]}}
    present["summary"] = {"bus.write_back": {"mean": 7.0}}
    old = {"bus.write_back": "bus.update", "write_back": "update", "activity": "along"}
    text = json.dumps(present)
    for name, before in old.items():
        text = text.replace(f'"{name}"', f'"{before}"')
    before = json.loads(text)
    assert before != present
    assert check(before, "old.json").document == present
    assert check(before, "old.json").digest != check(present, "new.json").digest
    assert check(present, "new.json").document is present
    before["replications"][0]["along"]["schedule"]["end"] = []
    with pytest.raises(UsageError, match=r"the columns of activity\.schedule differ in length"):
        check(before, "old.json")


def test_a_text_is_read_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "machine.toml"
    file.write_bytes(b"cache.size = '\xff'")
    with pytest.raises(UsageError, match="byte 14 is not UTF-8"):
        documents.text_of(file)
    assert documents.text_of(file, errors="replace") == "cache.size = '\ufffd'"
    monkeypatch.setattr(documents, "LARGEST_TEXT", 4)
    with pytest.raises(UsageError, match="larger than"):
        documents.text_of(file)
    with pytest.raises(UsageError, match=r"cannot read .* directory"):
        documents.text_of(tmp_path)
    with pytest.raises(UsageError, match="no study"):
        documents.text_of(tmp_path / "none", missing="there is no study")
