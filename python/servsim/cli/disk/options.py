"""Options that several disk commands share, each group a dataclass that a command takes whole.

:func:`expand` turns a parameter of such a class into one option for each of its fields.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, asdict, dataclass, fields
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Seed.")]
OtherDevice = Annotated[bool, typer.Option("--allow-other-device", help="Take a model of another device.")]
ModelFile = Annotated[str | None, typer.Option("--model-file", "-m", help="A fitted model, instead of fitting one.")]


@dataclass(frozen=True)
class Trace:
    """A trace and how to read it."""

    trace: Annotated[str, typer.Argument(help="Trace file; of a guest's .svt its disk requests.")]
    form: Annotated[str | None, typer.Option("--format", help="Trace format; recognised if left out.")] = None
    columns: Annotated[str | None, typer.Option(help="CSV: column names with units, in order.")] = None
    device: Annotated[str | None, typer.Option(help="Use one device of the trace only.")] = None
    tracer: Annotated[str | None, typer.Option(help="Process whose requests are the tracer's own.")] = None
    exclude_tracer: Annotated[bool, typer.Option("--exclude-tracer", help="Leave the tracer's requests out.")] = False

    def source(self, path: str | None = None) -> Any:
        """Return the source, or another file read in the same way."""
        from servsim.disk import Source

        name = self.trace if path is None else path
        return Source(name or "", self.form, self.columns, self.tracer, self.exclude_tracer, self.device)


@dataclass(frozen=True)
class OptionalTrace(Trace):
    """A trace that is not always needed."""

    trace: Annotated[str | None, typer.Argument(help="Trace file (not for mechanical and ssd).")] = None  # type: ignore[assignment]


@dataclass(frozen=True)
class Using:
    """The model to run, and on what."""

    model: Annotated[str, typer.Option("--model-file", "-m", help="Model file.")]
    seed: Seed = 0
    block_map: Annotated[str | None, typer.Option("--map", help="Block map to apply first.")] = None
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="SET",
            help="A set of such drives: raid0, raid1 or raid5:5,unit=64KiB; of one device: sda=raid1:2.",
        ),
    ] = None
    allow_other_device: OtherDevice = False
    allow_unskilled: Annotated[
        bool,
        typer.Option("--allow-unskilled", help="Take a model that failed its trial, or whose trace does not tell."),
    ] = False

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the functions of :mod:`servsim.disk`, but for the model."""
        return {
            "seed": self.seed,
            "map_path": self.block_map,
            "sets": self.sets or [],
            "allow_other_device": self.allow_other_device,
            "allow_unskilled": self.allow_unskilled,
        }


@dataclass(frozen=True)
class Kind:
    """What to fit, and to how much of the trace."""

    kind: Annotated[str, typer.Option("--model", help="forest, parallel, paper, unconditional, mechanical or ssd.")] = (
        "forest"
    )
    train: Annotated[float, typer.Option(help="Share of each device's requests to train on.")] = 1.0
    seed: Seed = 0

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the functions of :mod:`servsim.disk`."""
        return asdict(self)


@dataclass(frozen=True)
class Fitting(Kind):
    """What to fit, and what to impose on it."""

    scheduler: Annotated[str | None, typer.Option(help="fcfs, sstf or c-scan instead of the inferred one.")] = None
    slots: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Requests served at a time instead of the inferred number.")
    ] = None
    drive: Annotated[str | None, typer.Option(help="mechanical: hp97560 or hp335h; ssd: agrawal2008.")] = None
    write_cache: Annotated[str | None, typer.Option(help="mechanical: write-back or write-through.")] = None
    read_ahead: Annotated[
        bool | None, typer.Option("--read-ahead/--no-read-ahead", help="mechanical: whether it reads ahead.")
    ] = None


@dataclass(frozen=True)
class HeldOut(Fitting):
    """The same, with the paper's share to train on."""

    train: Annotated[float, typer.Option(help="Share of each device's requests that trains.")] = 0.24


GROUPS: tuple[type, ...] = (Trace, OptionalTrace, Using, Kind, Fitting, HeldOut)


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Return ``command`` with each parameter that is a group of options replaced by its options."""
    signature, hints = inspect.signature(command), get_type_hints(command, include_extras=True)
    groups = {name: hints[name] for name in signature.parameters if hints[name] in GROUPS}
    options: dict[str, inspect.Parameter] = {}
    for name, parameter in signature.parameters.items():
        if name not in groups:
            options[name] = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name])
            continue
        types = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            options[field.name] = inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=types[field.name]
            )

    @wraps(command)
    def expanded(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**made, **given)

    expanded.__signature__ = signature.replace(parameters=list(options.values()))  # type: ignore[attr-defined]
    expanded.__annotations__ = {name: option.annotation for name, option in options.items()}
    return expanded
