"""``servsim guest``: build the emulated guest, boot it to its checkpoint, see and clear what is cached."""

import json
import sys
import time
from collections.abc import Callable
from typing import Annotated

import typer

from servsim.capture.settings import GuestSettings
from servsim.text import columns

_DEFAULTS = GuestSettings()

Warehouses = Annotated[int, typer.Option(min=1, help="Warehouses of the database.")]
Districts = Annotated[int, typer.Option(min=1, max=10, help="Districts per warehouse.")]
Customers = Annotated[int, typer.Option(min=3, help="Customers per district, a multiple of 3.")]
Items = Annotated[int, typer.Option(min=15, help="Items of the catalogue.")]
Users = Annotated[int, typer.Option(min=1, max=100, help="Database users, one server process each.")]
WarmUp = Annotated[
    int | None,
    typer.Option(min=0, help="Transactions before the checkpoint, over all users; otherwise until it settles."),
]
Seed = Annotated[int, typer.Option(min=0, help="Seed of the load and the warm-up.")]
Memory = Annotated[int, typer.Option(min=256, max=2048, help="Guest memory in MiB.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def _reporter() -> Callable[..., None]:
    """Return what prints progress to stderr, each line with the time since the start."""
    start = time.monotonic()

    def report(line: str) -> None:
        print(f"[{time.monotonic() - start:6.1f} s] {line}", file=sys.stderr, flush=True)

    return report


def build(
    warehouses: Warehouses = _DEFAULTS.warehouses,
    districts: Districts = _DEFAULTS.districts,
    customers: Customers = _DEFAULTS.customers,
    items: Items = _DEFAULTS.items,
    seed: Seed = _DEFAULTS.seed,
    as_json: AsJson = False,
) -> None:
    """Build the guest's disk image, with the database loaded in it, unless the cache has it."""
    from servsim.capture.image import ensure_image

    settings = GuestSettings(warehouses, districts, customers, items, seed=seed)
    image = ensure_image(settings, _reporter())
    if as_json:
        print(json.dumps({"schema": "servsim.guest.image/1", "path": str(image.directory)}))
    else:
        print(image.directory)


def boot(
    warehouses: Warehouses = _DEFAULTS.warehouses,
    districts: Districts = _DEFAULTS.districts,
    customers: Customers = _DEFAULTS.customers,
    items: Items = _DEFAULTS.items,
    users: Users = _DEFAULTS.users,
    warm_up: WarmUp = None,
    seed: Seed = _DEFAULTS.seed,
    memory: Memory = _DEFAULTS.memory_mib,
    timeout: Annotated[float, typer.Option(min=1, help="Seconds allowed for boot and warm-up.")] = 3600.0,
    as_json: AsJson = False,
) -> None:
    """Boot the guest, warm its database up and save a checkpoint, unless the cache has it."""
    from servsim.capture.checkpoint import ensure_checkpoint

    settings = GuestSettings(warehouses, districts, customers, items, users, warm_up, seed, memory)
    checkpoint = ensure_checkpoint(settings, _reporter(), timeout)
    if as_json:
        print(json.dumps({"schema": "servsim.guest.checkpoint/1", "path": str(checkpoint.directory)}))
    else:
        print(checkpoint.directory)


def status(as_json: AsJson = False) -> None:
    """List what of the guest is in the cache, and the emulator that would run it."""
    from servsim.capture.inventory import status as inventory

    found = inventory()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    emulator = found["emulator"]
    print(f"emulator: {emulator.get('problem') or emulator['path'] + ' ' + emulator['version']}")
    print(f"cache: {found['cache']}")
    rows = []
    for entry in found["entries"]:
        settings = entry["settings"] or {}
        scale = "x".join(str(settings[key]) for key in ("warehouses", "districts", "customers", "items") if settings)
        rows.append([f"{entry['bytes'] / 2**20:.0f} MiB", entry["kind"], entry["id"], scale])
    print("\n".join(columns(rows, right=1)))


def clean(
    everything: Annotated[bool, typer.Option("--all", help="Downloaded packages and logs too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove cached images, checkpoints and what ended runs left."""
    from servsim.capture.inventory import clean as remove

    removed = remove(everything=everything)
    if as_json:
        print(json.dumps({"schema": "servsim.guest.clean/1", "removed": removed}))
    else:
        print("\n".join(f"removed {path}" for path in removed) or "nothing to remove")


def register(app: typer.Typer) -> None:
    """Add the command group to the application."""
    group = typer.Typer(
        help="Build the emulated guest and boot it to the checkpoint captures start from.",
        no_args_is_help=True,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for command in (build, boot, status, clean):
        group.command()(command)
    app.add_typer(group, name="guest")
