"""The symbols of data that a trace carries."""

from servsim.capture.facts_for_plugin import data_symbols

KALLSYMS = """\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff82a00000 D init_task
ffffffff82b00040 b tick_lock
ffffffffc0000000 d floppy_lock\t[floppy]
"""


def test_data_stay_and_code_and_modules_go() -> None:
    assert data_symbols(KALLSYMS).splitlines() == [
        "0000000000000000 A fixed_percpu_data",
        "ffffffff82a00000 D init_task",
        "ffffffff82b00040 b tick_lock",
    ]
