"""What the guest is told on its kernel's command line, and what a trace says of scale and warmth."""

from pathlib import Path

import pytest
from servsim.capture.folder_settings import chosen
from servsim.capture.replication import each, names
from servsim.capture.warmth import sentence
from servsim.errors import UsageError


def test_settings_travel_unless_they_have_no_value() -> None:
    assert not any(word.startswith("servsim_warm_up") for word in chosen("oltp").kernel_words())
    words = chosen("oltp", warm_up=60, round_trip="statement", connection="tcp").kernel_words()
    assert {"servsim_warm_up=60", "servsim_round_trip=statement", "servsim_connection=tcp"} <= set(words)


def test_settings_of_the_server_travel_as_one_word_and_the_guests_memory_does_not() -> None:
    settings = chosen("oltp", work_mem="4MB", fsync="off", memory_mib=2048)
    assert settings.memory_mib == 2048 and settings.described()["memory_mib"] == "2048"
    assert [word for word in settings.kernel_words() if "fsync" in word or "memory" in word] == [
        "servsim_server=fsync=off,work_mem=4MB"
    ]
    with pytest.raises(UsageError, match="has no setting 'work_mem'"):
        chosen("staticweb", work_mem="4MB")
    for memory in ("much", "255", "2049"):
        with pytest.raises(UsageError, match="memory in MiB is a number from 256 to 2048"):
            chosen("oltp", memory_mib=memory)


@pytest.mark.parametrize(("setting", "word"), [("round_trip", "query"), ("connection", "tcp listen_addresses=*")])
def test_what_the_guest_does_not_know_is_refused(setting: str, word: str) -> None:
    with pytest.raises(UsageError, match=r"is none of: |a value is letters"):
        chosen("oltp", **{setting: word})


def test_a_trace_says_that_its_server_had_not_settled() -> None:
    last = {"server_microseconds_per_transaction": 2500.0, "disk_reads_per_transaction": 1.5}
    report = {"settled": False, "transactions": 9600, "rounds": [{}, last]}
    assert sentence(report, None) == (
        "NOT settled after 9,600 transactions: 2.50 M instructions of the server and 1.50 disk reads each"
    )
    assert sentence(None, 400) == "400 transactions, as given; whether the server had settled is not known"


def test_the_scale_is_told_beside_the_specifications() -> None:
    told = chosen("oltp", warehouses=4000).data()
    assert told.startswith("4,000 warehouses of 3 districts of 30 customers, 100 items (TPC-C: 10 districts of 3,000")


def test_several_captures_have_files_and_seeds_of_their_own() -> None:
    output = Path("folder") / "x.svt"
    assert names(output, 1) == [output]
    made = list(each(lambda path, seed, moment: (str(path), seed, moment), output, 3, 7))
    assert made == [("folder/x.1.svt", 7, 0), ("folder/x.2.svt", 8, 1), ("folder/x.3.svt", 9, 2)]
