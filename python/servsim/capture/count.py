"""Checking a capture: an independent plug-in counts the same run, and the figures are compared.

The counting plug-in (``capture/count/count.c``) shares no code with the one that writes the trace.
It knows only which task is current, so the comparison is with what the trace holds while a server
task was current, interrupts included. Both draw the lines between tasks between the same blocks of
instructions, so they agree to the unit; where they do not, one of them has a fault.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servsim.capture.emulator import Plugin
from servsim.capture.facts import parse_kallsyms
from servsim.capture.facts_for_plugin import member_offsets
from servsim.capture.record import built_library

if TYPE_CHECKING:
    from servsim.capture.checkpoint import Checkpoint


def counting_plugin(checkpoint: "Checkpoint", output: Path, client: str) -> Plugin:
    """Return the counting plug-in, told where the kernel switches tasks.

    Parameters
    ----------
    checkpoint
        The checkpoint that will be resumed.
    output
        Where it writes its counts (JSON) at the stop mark.
    client
        Name (Linux ``comm``) of the load generator's task.
    """
    offsets = member_offsets(checkpoint, ("task_struct.pid", "task_struct.comm"))
    switch = parse_kallsyms(checkpoint.kallsyms.read_text())["__switch_to_asm"]
    arguments = {
        "out": output.absolute(),
        "switch": hex(switch),
        "pid": offsets["task_struct.pid"],
        "comm": offsets["task_struct.comm"],
        "client": client,
    }
    library = built_library("SERVSIM_COUNT_PLUGIN", "libservsim_count.so")
    return Plugin(library, tuple((name, str(value)) for name, value in arguments.items()))


def compare(trace: Path, counts: Path) -> dict[str, Any]:
    """Compare a trace with what the counting plug-in counted.

    Returns
    -------
    dict
        Document ``servsim.capture.verify/1``: per figure the trace's count, the independent count
        and their relative difference; ``agree``: whether all are equal, and the transactions.
    """
    from servsim import _core

    statistics = json.loads(_core.trace_stats(trace))["statistics"]
    counted = json.loads(counts.read_text())
    figures = {}
    for name, independent in counted["measured"].items():
        captured = statistics["while_server_current"][name]
        difference = abs(captured - independent) / max(independent, 1)
        figures[name] = {"trace": captured, "independent": independent, "relative_difference": difference}
    transactions = {"trace": sum(statistics["transactions"].values()), "independent": counted["transactions"]}
    agree = all(figure["trace"] == figure["independent"] for figure in figures.values())
    return {
        "schema": "servsim.capture.verify/1",
        "agree": agree and transactions["trace"] == transactions["independent"],
        "transactions": transactions,
        "figures": figures,
    }
