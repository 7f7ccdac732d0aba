"""``servsim guest``: build the emulated guest, boot it to its checkpoint, see and clear what is cached."""

import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from servsim.cli.options import SETTINGS_AS_OPTIONS, AsJson, workload_settings
from servsim.cli.printing import print_json
from servsim.text import columns

Workload = Annotated[str, typer.Argument(help="A name of `servsim workload list`, or the folder of a workload.")]
Scale = Annotated[str | None, typer.Option(help="A named size, from `servsim workload list NAME`.")]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A setting of the workload; may be repeated."),
]


def _reporter() -> Callable[..., None]:
    """Return what prints progress to stderr, each line with the time since the start."""
    start = time.monotonic()

    def report(line: str) -> None:
        print(f"[{time.monotonic() - start:6.1f} s] {line}", file=sys.stderr, flush=True)

    return report


def build(
    context: typer.Context,
    workload: Workload = "oltp",
    scale: Scale = None,
    settings: Set = None,
    as_json: AsJson = False,
) -> None:
    """Build the disk image of a workload's guest, with its data loaded in it, unless the cache has it.

    Its settings are options too, such as --warehouses 20.
    """
    from servsim.capture.image import ensure_image

    image = ensure_image(workload_settings(workload, scale, settings or [], context.args), _reporter())
    if as_json:
        print_json({"schema": "servsim.guest.image/1", "path": str(image.directory)})
    else:
        print(image.directory)


def boot(
    context: typer.Context,
    workload: Workload = "oltp",
    scale: Scale = None,
    settings: Set = None,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds allowed for boot and warm-up.")] = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Boot a workload's guest, warm its server up and save a checkpoint, unless the cache has it.

    Its settings are options too, such as --users 8; memory_mib is the guest's memory.
    """
    from servsim.capture.checkpoint import ensure_checkpoint

    chosen = workload_settings(workload, scale, settings or [], context.args)
    checkpoint = ensure_checkpoint(chosen, _reporter(), timeout)
    if as_json:
        print_json({"schema": "servsim.guest.checkpoint/1", "path": str(checkpoint.directory)})
    else:
        print(checkpoint.directory)


def status(as_json: AsJson = False) -> None:
    """List what of the guest is in the cache, and the emulator that would run it."""
    from servsim.capture.inventory import status as inventory

    found = inventory()
    if as_json:
        print_json(found)
        return
    emulator = found["emulator"]
    print(f"emulator: {emulator.get('problem') or emulator['path'] + ' ' + emulator['version']}")
    print(f"cache: {found['cache']}")
    rows = []
    for entry in found["entries"]:
        of = (entry["settings"] or {}).get("workload", "")
        rows.append([f"{entry['bytes'] / 2**20:.0f} MiB", entry["kind"], entry["id"], of])
    print("\n".join(columns(rows, right=1)))


def clean(
    everything: Annotated[bool, typer.Option("--all", help="Downloaded packages and logs too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove cached images, checkpoints and what ended runs left."""
    from servsim.capture.inventory import clean as remove

    removed = remove(everything=everything)
    if as_json:
        print_json({"schema": "servsim.guest.clean/1", "removed": removed})
    else:
        print("\n".join(f"removed {path}" for path in removed) or "nothing to remove")


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    group = typer.Typer(
        help="Build the emulated guest and boot it to the checkpoint captures start from.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    group.command(context_settings=SETTINGS_AS_OPTIONS)(build)
    group.command(context_settings=SETTINGS_AS_OPTIONS)(boot)
    group.command()(status)
    group.command()(clean)
    app.add_typer(group, name="guest")
