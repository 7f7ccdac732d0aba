"""board: pages and database that agree, on the real servers; and faults, made on purpose, that are named."""

import itertools
import json
import os
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import perl_tier
import pytest
from perl_tier import Servers, copy_with_fault, missing

FOLDER = perl_tier.WORKLOADS / "board"
#: Settings of a board that is made in seconds.
SMALL = {"stories": "20", "comments": "380", "members": "50"}
SETTINGS = {"users": "4", "set_seed": "42", "writes": "40", "warm_up": "40", "think_scale": "0"}
#: What such a board begins with.
SIZES = {"size_sections": 8, "size_stories": 20, "size_comments": 380, "size_members": 50}

#: Seconds each: what finds these out is tried on pages made by hand and on a changed database in `make test`.
FULL = pytest.mark.acceptance

pytestmark = pytest.mark.skipif(missing() is not None, reason=f"{missing()} is not installed: make deps FOR=workload")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


def workload(cache: Path, step: str, *words: str) -> subprocess.CompletedProcess[str]:
    return perl_tier.workload(cache, step, "board", SMALL, *words)


def run(cache: Path, *words: str) -> dict[str, Any]:
    settings = ["--users", "4", "--warm-up", "40", "--writes", "40"]
    done = workload(cache, "run", *settings, "--transactions", "400", "--json", *words)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.fixture(scope="module")
def data(cache: Path) -> Path:
    """The data of the small board, made once."""
    assert workload(cache, "load").returncode == 0
    return next(path.parent for path in cache.glob("workloads/board/*/pg"))


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the servers' account may enter."""
    with perl_tier.place_of("board") as place:
        yield place


def board(folder: Path, data: Path, place: Path) -> Servers:
    return Servers(folder, data, place, {**SMALL, **SETTINGS})


@pytest.fixture(scope="module")
def there(data: Path) -> Iterator[Servers]:
    """Servers on which some requests were made."""
    with perl_tier.place_of("board") as place, board(FOLDER, data, place) as servers_of_all:
        done = servers_of_all.asked("client", servsim_transactions="300")
        assert done.returncode == 0, done.stderr
        yield servers_of_all


def test_a_run_asks_for_every_page_and_leaves_a_consistent_board(cache: Path) -> None:
    report = run(cache)
    assert report["valid"] and report["problems"] == [] and report["transactions"] == 400
    assert report["reconciliation"]["server_requests"] == report["reconciliation"]["replies"] >= 440
    assert report["marks"]["transaction"] == report["reconciliation"]["replies"]
    assert len(report["conditions"]) == 16 and all(condition["holds"] for condition in report["conditions"])
    assert all(kind["count"] > 0 for kind in report["kinds"].values()), report["kinds"]
    assert report["posted"]["comments"] >= report["kinds"]["Post-Comment"]["count"] > 50
    assert 0 < report["posted"]["moderations"] < 100 and report["posted"]["stories"] > 5
    assert report["client_cpu"]["server_seconds"] > report["client_cpu"]["client_seconds"] > 0


#: The thread of a story by SQL alone: number, parent, depth, replies and score of each comment, as the page has them.
THREAD = """
WITH RECURSIVE thread (id, parent, depth, place) AS (
    SELECT co_id, co_parent, 0, ARRAY[co_id] FROM comments WHERE co_st_id = :story AND co_parent = 0
    UNION ALL SELECT co_id, co_parent, depth + 1, place || co_id FROM comments JOIN thread ON co_parent = id)
SELECT id, parent, depth, (SELECT count(*) FROM comments WHERE co_parent = id), (
    SELECT 1 + coalesce(sum(mo_change), 0) FROM moderations WHERE mo_co_id = id)
FROM thread ORDER BY place LIMIT 50;
"""


def test_threads_are_those_of_the_database(there: Servers) -> None:
    shown = 0
    for story in (20, 19, 12, 1):
        with urllib.request.urlopen(f"http://127.0.0.1:{there.port}/board/story?id={story}") as answer:
            page = answer.read().decode()
        marks = "".join(f' data-{name}="(-?\\d+)"' for name in ("item", "parent", "depth", "children", "score"))
        found = [list(comment) for comment in re.findall(marks, page)]
        assert found == there.sql("board", THREAD, {"story": story}), story
        shown += len(found)
    assert shown > 100


def test_what_lies_where_in_memory_is_there(there: Servers) -> None:
    # Read before, so that it is in a buffer at either time.
    ((text,),) = there.sql("board", "SELECT co_subject FROM comments WHERE co_id = 7;", {})
    assert there.asked("memory", "before", database="board").returncode == 0
    told = there.asked("memory", database="board")
    first, *lines = told.stdout.splitlines()
    ranges = sorted((int(at), int(size), name) for at, size, name in (line.split("\t") for line in lines))
    assert first == "postgres" and all(at + size <= after for (at, size, _), (after, *_) in itertools.pairwise(ranges))
    names = {name for _, _, name in ranges}
    assert {"stories", "comments", "comments_pkey", "XLOG Ctl", "Proc Header", "(unused buffers)"} <= names
    process = (there.place / "pg" / "postmaster.pid").read_text().split()[0]
    if not os.access(f"/proc/{process}/mem", os.R_OK):
        pytest.skip("the memory of the servers' processes cannot be read by this account")
    holders = set()
    with Path("/proc", process, "mem").open("rb", buffering=0) as memory:
        for at, size, name in ranges:
            memory.seek(at)
            if text.encode() in memory.read(size):
                holders.add(name)
    # A row that was written is in the buffers of the log too; never in another relation's.
    assert "comments" in holders and holders <= {"comments", "XLOG Ctl"}, holders


#: For each condition, what breaks it and no other condition.
BROKEN = {
    "sections": "INSERT INTO sections VALUES (9, 'Section 9', 0)",
    "stories": "INSERT INTO stories SELECT 9999, 1, 1, st_title, st_lead, st_text, st_time, 0 FROM stories "
    "WHERE st_id = 1; UPDATE sections SET se_stories = se_stories + 1 WHERE se_id = 1",
    "comments": "INSERT INTO comments SELECT 99999, 1, 0, 1, co_subject, co_text, co_time, 1, 0 FROM comments "
    "WHERE co_id = 1; UPDATE stories SET st_comments = st_comments + 1 WHERE st_id = 1; "
    "UPDATE members SET me_comments = me_comments + 1 WHERE me_id = 1",
    "members": "INSERT INTO members VALUES (9999, 'somebody', '', 0, 0, now())",
    "moderations": "INSERT INTO moderations SELECT (co_me_id % 50) + 1, co_id, 1, now() FROM comments WHERE co_id = 7; "
    "UPDATE comments SET co_score = co_score + 1 WHERE co_id = 7; "
    "UPDATE members SET me_karma = me_karma + 1 WHERE me_id = (SELECT co_me_id FROM comments WHERE co_id = 7)",
    "children": "UPDATE comments SET co_children = co_children + 1 WHERE co_id = 7",
    "discussed": "UPDATE stories SET st_comments = NULL WHERE st_id = 7",
    "written": "UPDATE members SET me_comments = me_comments + 1 WHERE me_id = 7",
    "filed": "UPDATE sections SET se_stories = se_stories - 1 WHERE se_id = 7",
    "threads": "UPDATE comments SET co_parent = -1, co_children = co_children WHERE co_id = (SELECT max(co_id) FROM "
    "comments WHERE co_parent = 0)",
    "places": "UPDATE stories SET st_se_id = NULL WHERE st_id = 7; UPDATE sections SET se_stories = se_stories - 1 "
    "WHERE se_id = 7",
    "authors": "UPDATE stories SET st_me_id = 0 WHERE st_id = 7",
    "scores": "UPDATE comments SET co_score = co_score + 1 WHERE co_id = 7",
    "karma": "UPDATE members SET me_karma = me_karma + 1 WHERE me_id = 7",
    "fair": "INSERT INTO moderations SELECT co_me_id, co_id, 1, now() FROM comments WHERE co_id = 7; "
    "UPDATE comments SET co_score = co_score + 1 WHERE co_id = 7; "
    "UPDATE members SET me_karma = me_karma + 1 WHERE me_id = (SELECT co_me_id FROM comments WHERE co_id = 7)",
    "texts": "UPDATE comments SET co_text = NULL WHERE co_id = 7",
}


def test_every_condition_of_the_database_fails_on_data_that_break_it_alone(there: Servers) -> None:
    tables = ("stories", "comments", "members", "moderations")
    rows = [there.sql("board", f"SELECT count(*) FROM {table};", {})[0][0] for table in tables]
    done = {
        f"done_{table}": int(count) - SIZES.get(f"size_{table}", 0) for table, count in zip(tables, rows, strict=True)
    }
    counts = {**SIZES, **done}
    whole = there.broken_by("SELECT", "board", counts)
    assert set(whole) == set(BROKEN) and not any(whole.values()), whole
    for condition, change in BROKEN.items():
        one_more = {"done_moderations": counts["done_moderations"] + (condition == "fair")}
        found = {name for name, rows in there.broken_by(change, "board", {**counts, **one_more}).items() if rows}
        assert found == {condition}, (condition, found)


@pytest.mark.parametrize(
    ("file", "text", "fault", "told"),
    [
        ("Pages.pm", "s/</&lt;/g", "s/<(?!&)/&lt;/g", "whose checksum differs"),
        pytest.param("Board/Read.pm", "$next->[1] + 1", "$next->[1] + 2", "at another place than behind", marks=FULL),
        pytest.param(
            "Board/Read.pm",
            "st_id DESC LIMIT $LISTED OFFSET ?",
            "st_id LIMIT $LISTED OFFSET ?",
            "newest first",
            marks=FULL,
        ),
        pytest.param(
            "Board/Write.pm", "co_children + 1 WHERE", "co_children + 2 WHERE", "replies to comment", marks=FULL
        ),
        pytest.param(
            "Board/Write.pm", "me_comments + 1", "me_comments + 0", "the condition written does not hold", marks=FULL
        ),
        ("Board/Write.pm", "$points, $author )", "$points, $member )", "the condition karma does not hold"),
    ],
)
def test_a_board_that_errs_is_found_out(data: Path, place: Path, file: str, text: str, fault: str, told: str) -> None:
    copy_with_fault(FOLDER, place.parent / "board", f"perl/Servsim/{file}", text, fault)
    with board(place.parent / "board", data, place) as there:
        done = there.asked("client", servsim_transactions="400")
    assert done.returncode == 1 and told in done.stderr, done.stderr


def test_a_share_that_cannot_be_is_one_sentence(cache: Path) -> None:
    done = workload(cache, "run", "--writes", "101")
    assert done.returncode == 2 and "--writes must be from 0 to 100, not 101" in done.stderr
