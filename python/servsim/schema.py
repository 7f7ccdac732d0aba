"""The shape of a simulation result, ``servsim.simulate/1``: checked once, where a result is read.

What stands here is what the readers rely on: a part that is there has this shape, and only the parts without a default
must be there. Further keys are welcome. `published` gives the same as a JSON Schema; schemas/ keeps a copy.
"""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

from servsim.documents import LARGEST
from servsim.errors import UsageError
from servsim.json_text import json_text
from servsim.limits import LARGEST_COUNT

#: Faults of a document that are told; the rest are counted.
_TOLD = 3

#: Default of a part that need not be there, but has its shape when it is.
_ABSENT: Any = None

Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
#: A mean over requests, null where there was none.
Mean = Number | None


class _Part(BaseModel):
    """A part of a document: no conversion, further keys allowed."""

    model_config = ConfigDict(extra="allow", strict=True)


class Modes(_Part):
    """A count in user and in kernel mode."""

    user: Count
    kernel: Count


ByClass = dict[str, Modes]


class ProcessorTime(_Part):
    """Cycles of one processor."""

    busy_user: Count
    busy_kernel: Count
    memory_stall: Count
    bus_wait: Count
    idle: Count


class Kind(_Part):
    """Transactions of one kind."""

    kind: str
    count: Count
    mean_response_cycles: Number | None = None
    p50_response_cycles: Number | None = None
    p90_response_cycles: Number | None = None
    p95_response_cycles: Number | None = None
    p99_response_cycles: Number | None = None


class Task(_Part):
    """References of one task."""

    name: str
    fetch: Modes = _ABSENT
    load: Modes = _ABSENT
    store: Modes = _ABSENT


class Window(_Part):
    """What happened in one window of the run."""

    start: Count
    bus_busy: Count
    transactions: Count
    references: Count = _ABSENT
    instructions: Count = _ABSENT
    misses: Count = _ABSENT
    busy: Count = _ABSENT


class Schedule(_Part):
    """Which task ran where, from when to when, in columns."""

    processor: list[Count]
    task: list[Count]
    start: list[Count]
    end: list[Count]


class DiskSpans(_Part):
    """Disk requests, in columns."""

    write: list[bool]
    start: list[Count]
    end: list[Count]


class Activity(_Part):
    """Who ran where, and when disk requests were under way."""

    schedule: Schedule = _ABSENT
    disk: DiskSpans = _ABSENT
    dropped: Count = _ABSENT


class Disk(_Part):
    """One disk of the simulated server."""

    disk: Count
    bus: Count | None
    reads: Count
    writes: Count
    busy_cycles: Count
    utilization: Number
    mean_present: Number
    mean_wait_cycles: Mean
    mean_bus_wait_cycles: Mean
    mean_mechanism_cycles: Mean
    mean_response_cycles: Mean


class IoBus(_Part):
    """One I/O bus of the simulated server."""

    bus: Count
    tenures: Count
    busy_cycles: Count
    utilization: Number
    mean_waiting: Number
    mean_wait_cycles: Mean


class Accesses(_Part):
    """Disk requests of one relation."""

    name: str
    reads: Count
    writes: Count


class Storage(_Part):
    """Disks and I/O buses."""

    disks: list[Disk]
    buses: list[IoBus]
    accesses: list[Accesses] = _ABSENT


class ProcessorLevels(_Part):
    """By the number of tasks at the processors, in columns."""

    cycles: list[Count]
    departures: list[Count]
    instructions: list[Count]


class Users(_Part):
    """Where the users were."""

    count: Count
    processors_cycles: Count
    devices_cycles: Count
    behind_processors_cycles: Count
    behind_devices_cycles: Count
    asleep_cycles: Count
    gone_cycles: Count


class Work(_Part):
    """What transactions of one kind did."""

    kind: str
    transactions: Count
    instructions: Count
    loads: Count
    stores: Count
    disk_reads: Count
    disk_writes: Count


class Level(_Part):
    """What one level of caches counted."""

    name: str
    hits: Count = _ABSENT
    misses: Count = _ABSENT
    evictions: Count = _ABSENT
    write_backs: Count = _ABSENT
    back_invalidations: Count = _ABSENT
    unfilled: Count = _ABSENT


class Replication(_Part):
    """One run. Figures of time are missing, or null, in a functional one."""

    seed: Count = _ABSENT
    capture: Count = _ABSENT
    references: Count = _ABSENT
    instructions: Count = _ABSENT
    transactions: Count = _ABSENT
    cycles: Count | None = None
    cycles_per_transaction: Number | None = None
    gsp: Number | None = None
    bus_utilization: Number | None = None
    processor_utilization: list[Number] | None = None
    mean_ready_tasks: Number | None = None
    references_by_kind: ByClass = _ABSENT
    misses: ByClass = _ABSENT
    misses_by_owner: ByClass = _ABSENT
    misses_by_loss: ByClass = _ABSENT
    coherence: ByClass = _ABSENT
    coherence_by_owner: ByClass = _ABSENT
    removed: ByClass = _ABSENT
    context_switch_misses: ByClass = _ABSENT
    misses_true_by_self: Modes = _ABSENT
    bus: dict[str, Count] = _ABSENT
    bus_busy_cycles: Count | None = None
    transactions_by_kind: list[Kind] = _ABSENT
    tasks: list[Task] = _ABSENT
    processors: list[ProcessorTime] | None = None
    cycle_stacks: list[dict[str, Count]] | None = None
    levels: list[Level] | None = None
    figures: dict[str, Number] = _ABSENT
    disk: dict[str, Count] | None = None
    locks: dict[str, Count | dict[str, Count]] | None = None
    window_cycles: Count | None = None
    timeline: list[Window] | None = None
    windows: dict[str, list[Count]] | None = None
    activity: Activity | None = Field(default=None, validation_alias=AliasChoices("activity", "along"))
    storage: Storage | None = None
    processor_levels: ProcessorLevels | None = None
    users: Users | None = None
    work_by_kind: list[Work] | None = None

    @model_validator(mode="after")
    def _columns_are_of_one_length(self) -> "Replication":
        if self.windows and self.timeline is not None:
            wrong = [name for name, column in self.windows.items() if len(column) != len(self.timeline)]
            if wrong:
                raise ValueError(f"column {wrong[0]} of windows has not one value for each entry of timeline")
        groups: list[tuple[str, _Part]] = []
        if self.activity is not None and self.activity.schedule is not None:
            groups.append(("activity.schedule", self.activity.schedule))
        if self.activity is not None and self.activity.disk is not None:
            groups.append(("activity.disk", self.activity.disk))
        if self.processor_levels is not None:
            groups.append(("processor_levels", self.processor_levels))
        for name, group in groups:
            columns: list[list[Any]] = [getattr(group, column) for column in type(group).model_fields]
            if len({len(column) for column in columns}) > 1:
                raise ValueError(f"the columns of {name} differ in length")
        return self


class Warned(_Part):
    """What limits the use of the figures; results of before ranks hold plain sentences."""

    rank: Literal["invalid", "weak", "note"]
    code: str
    text: str


class Machine(_Part):
    """The machine, every setting as text."""

    name: str | None = None
    clock: Annotated[str, Field(pattern=r"^([1-9]\d*(\.\d+)?|0\.\d*[1-9]\d*) (Hz|kHz|MHz|GHz)$")] = _ABSENT


class Trace(_Part):
    """The trace that was run."""

    name: str | None = None
    hash: str = _ABSENT


class Capture(_Part):
    """One of several captures that were run."""

    name: str
    hash: str
    seed: Count | None = None


class Document(_Part):
    """A result of ``servsim simulate``."""

    # The field's name in Python; "schema" is taken by the base class.
    identifier: str = Field(alias="schema")
    engine: str = _ABSENT
    machine: str | Machine = _ABSENT
    trace: Trace = _ABSENT
    captures: list[Capture] = _ABSENT
    options: dict[str, Any] = _ABSENT
    warnings: list[str | Warned] = _ABSENT
    summary: dict[str, dict[str, Any]] = _ABSENT
    replications: list[Replication] = Field(min_length=1)

    @model_validator(mode="after")
    def _every_replication_is_of_a_capture(self) -> "Document":
        held = len(self.captures or ())
        for number, replication in enumerate(self.replications, start=1):
            if held and (replication.capture is None or replication.capture >= held):
                raise ValueError(f"replication {number} does not say which of the {held} captures it is of")
            if not held and replication.capture is not None:
                raise ValueError(f"replication {number} is of a capture, and no captures are listed")
        return self


def check_shape(document: object, source: str, remedy: str) -> None:
    """Check a result's shape; its first faults are told by their place.

    Raises
    ------
    UsageError
        When a part has another shape.
    """
    try:
        Document.model_validate(document)
    except ValidationError as error:
        faults = error.errors(include_url=False, include_context=False, include_input=False)
        told = [f"{'.'.join(map(str, fault['loc'])) or 'the whole'}: {fault['msg']}" for fault in faults[:_TOLD]]
        more = f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        raise UsageError(
            f"{source} is not of the shape of a simulation result: {'; '.join(told)}{more}; {remedy}"
        ) from None


def published() -> str:
    """Return the JSON Schema of a result, as schemas/ keeps it."""
    schema = Document.model_json_schema(by_alias=True)
    return json_text({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
