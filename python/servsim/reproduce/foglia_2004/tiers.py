"""Which of the paper's three workloads a trace is: by the tiers whose tasks are measured, not counted to the load."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from pathlib import Path
from typing import Any

from servsim.trace.files import captured_facts

Task = Mapping[str, Any]


class Workload(Enum):
    """The workloads of Table 3, by their names there."""

    BOTH = "EC-server"
    DATABASE = "DB"
    WEB = "Web-server"


#: Whose tasks make a tier.
WEB_SERVER, DATABASE_SERVER = "apache2", "postgres"


def tasks_of(trace: Path) -> list[Task]:
    """Return the tasks of a trace, in the order of their numbers."""
    tasks: list[Task] = captured_facts(trace)["tasks"]
    return tasks


def workload_of(tasks: Sequence[Task]) -> Workload | None:
    """Return which workload the measured tasks are; None without a web server's tasks at all."""
    names = {task["name"] for task in tasks}
    measured = {task["name"] for task in tasks if not task["client"]}
    if not {WEB_SERVER, DATABASE_SERVER} <= names:
        return None
    if WEB_SERVER not in measured:
        return Workload.DATABASE
    return Workload.BOTH if DATABASE_SERVER in measured else Workload.WEB
