"""What the guest is told on its kernel's command line, and what a trace says of scale and warmth."""

from pathlib import Path

import pytest
from servsim.capture.oltp import scale
from servsim.capture.replication import each, names
from servsim.capture.settings import GuestSettings
from servsim.capture.warmth import sentence
from servsim.errors import UsageError


def test_the_guest_warms_up_until_settled_unless_told_for_how_long() -> None:
    assert "servsim_warmup=settle" in GuestSettings().kernel_words()
    assert "servsim_warmup=60" in GuestSettings(warmup=60).kernel_words()


def test_round_trips_and_connections_travel_when_they_are_not_the_default() -> None:
    plain = " ".join(GuestSettings().kernel_words())
    assert "round_trip" not in plain and "connection" not in plain
    chosen = GuestSettings(round_trip="statement", connection="tcp").kernel_words()
    assert {"servsim_round_trip=statement", "servsim_connection=tcp"} <= set(chosen)


@pytest.mark.parametrize(("setting", "word"), [("round_trip", "query"), ("connection", "tcp listen_addresses=*")])
def test_what_the_guest_does_not_know_is_refused(setting: str, word: str) -> None:
    with pytest.raises(UsageError, match="is none of: "):
        GuestSettings(**{setting: word})  # type: ignore[arg-type]


def test_a_trace_says_that_its_server_had_not_settled() -> None:
    last = {"server_microseconds_per_transaction": 2500.0, "disk_reads_per_transaction": 1.5}
    report = {"settled": False, "transactions": 9600, "rounds": [{}, last]}
    assert sentence(report, None) == (
        "NOT settled after 9,600 transactions: 2.50 M instructions of the server and 1.50 disk reads each"
    )
    assert sentence(None, 400) == "400 transactions, as given; whether the server had settled is not known"


def test_the_scale_is_told_beside_the_specifications() -> None:
    told = scale(GuestSettings(warehouses=4000))
    assert told.startswith("4,000 warehouses of 3 districts of 30 customers, 100 items (TPC-C: 10 districts of 3,000")


def test_several_captures_have_files_and_seeds_of_their_own() -> None:
    output = Path("folder") / "x.svt"
    assert names(output, 1) == [output]
    made = list(each(lambda path, seed, moment: (str(path), seed, moment), output, 3, 7))
    assert made == [("folder/x.1.svt", 7, 0), ("folder/x.2.svt", 8, 1), ("folder/x.3.svt", 9, 2)]
