"""The functions of :mod:`servsim.disk`; the work is done in ``servsim._core``."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from servsim import _core
from servsim.errors import UsageError
from servsim.limits import whole
from servsim.text import require_utf8

#: Share of a trace to train on: what the 1997 paper used of its longer trace (7 of 29 days).
PAPER_SHARE = 0.24


@dataclass(frozen=True)
class Source:
    """Where a trace is and how to read it.

    Parameters
    ----------
    path
        The file.
    format
        Name of the format (see :func:`catalogue`); recognised by its beginning if ``None``.
    columns
        CSV only: names with units, such as ``"arrival_us,op,lba,sectors,completion_us"``.
    tracer
        Process whose requests are the tracer's own: they are flagged and counted.
    exclude_tracer
        Leave the tracer's requests out.
    device
        Keep one device, by the name it has in the trace.
    """

    path: str
    format: str | None = None
    columns: str | None = None
    tracer: str | None = None
    exclude_tracer: bool = False
    device: str | None = None

    def text(self) -> str:
        """Return the source as the JSON text the native module reads."""
        return json.dumps(asdict(self))


def source_text(source: Source | str) -> str:
    """Return a source, or the name of a file, as the native module reads it."""
    known = source if isinstance(source, Source) else Source(str(source))
    require_utf8(known.path)
    return known.text()


def factor(load: float) -> float:
    """Return a load factor; JSON, in which options travel, has no word for what is no number."""
    if not (math.isfinite(load) and load > 0):
        raise UsageError(f"load {load} is not a positive factor; 1.2 means 20 % more")
    return load


def _fit_request(kind: str, train: float, seed: int, **more: str | int | bool | None) -> dict[str, Any]:
    if not 0 < train <= 1:
        raise UsageError(f"train share {train} is not above 0 and at most 1; 0.24 is the paper's")
    whole("seed", seed, 0)
    whole("slots", more.get("slots"), 1, 2**16)
    return {"kind": kind, "train": train, "seed": seed, **more}


def parsed(text: str) -> dict[str, Any]:
    """Return a document of the native module."""
    value: dict[str, Any] = json.loads(text)
    return value


def catalogue() -> dict[str, Any]:
    """Return the trace formats, the kinds of models and the drives that ship.

    Returns
    -------
    dict
        ``formats`` and ``models`` (lists of ``name`` and ``about``) and ``drives`` (names).
    """
    return parsed(_core.disk_catalogue())


def import_trace(source: Source | str, output: str | None = None) -> dict[str, Any]:
    """Read a trace, count what could not be kept, and write it in the project's binary form.

    Parameters
    ----------
    source
        The trace.
    output
        File to write; nothing is written if ``None``.

    Returns
    -------
    dict
        The import report: ``requests``, ``devices``, every count of losses, ``warnings``, ``notes``.

    Raises
    ------
    servsim.errors.UsageError
        When the file cannot be read or a line has not the form of its format.
    """
    return parsed(_core.disk_import(source_text(source), output))


def load(source: Source | str) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Read a trace into numpy arrays.

    Returns
    -------
    columns : dict of numpy.ndarray
        In arrival order: ``arrival_ns``, ``start_ns`` (2**64 - 1 if not recorded), ``completion_ns``
        (uint64, from the first arrival), ``lba`` (uint64, 512-byte sectors), ``sectors`` (uint32),
        ``device`` (uint16, index into the report's ``devices``), ``is_write`` (bool).
    report : dict
        As from :func:`import_trace`.
    """
    columns, report = _core.disk_columns(source_text(source))
    arrays = {name: np.frombuffer(data, dtype=np.dtype(dtype)) for name, (dtype, data) in columns.items()}
    return arrays, parsed(report)


def fit(
    source: Source | str,
    output: str | None = None,
    *,
    kind: str = "forest",
    train: float = 1.0,
    seed: int = 0,
    scheduler: str | None = None,
    slots: int | None = None,
    drive: str | None = None,
    write_cache: str | None = None,
    read_ahead: bool | None = None,
) -> dict[str, Any]:
    """Fit a model to every device of a trace, or take a drive that ships.

    Parameters
    ----------
    source
        The trace (not read for the kinds ``mechanical`` and ``ssd``).
    output
        Model file to write.
    kind
        ``forest`` (default), ``parallel``, ``paper``, ``unconditional``, ``mechanical`` or ``ssd``.
    train
        Share of each device's requests to train on, from the first; 0 < train <= 1.
    seed
        Seed of the fit; the same seed and trace give the same file, byte for byte.
    scheduler, slots
        Impose ``fcfs``, ``sstf`` or ``c-scan``, and the number of requests served at a time, instead
        of inferring them.
    drive
        For ``mechanical`` and ``ssd``: the drive's name.
    write_cache, read_ahead
        For ``mechanical``: ``write-back`` or ``write-through``, and whether the drive reads ahead, instead
        of what the drive does by itself.

    Returns
    -------
    dict
        ``bytes`` (size of the model), ``import`` (report) and ``devices`` (descriptions).
    """
    more = {
        "scheduler": scheduler,
        "slots": slots,
        "drive": drive,
        "write_cache": write_cache,
        "read_ahead": read_ahead,
    }
    request = json.dumps(_fit_request(kind, train, seed, **more))
    return parsed(_core.disk_fit(source_text(source), request, output))


def info(path: str) -> dict[str, Any]:
    """Describe a model file: server, training part, trees, features by importance, tail."""
    require_utf8(path)
    return parsed(_core.disk_info(path))


def evaluate(
    source: Source | str,
    *,
    kind: str = "forest",
    model: str | None = None,
    train: float = PAPER_SHARE,
    seed: int = 0,
    loads: Sequence[float] = (),
    truths: Sequence[tuple[float, Source | str]] = (),
    scheduler: str | None = None,
    slots: int | None = None,
    drive: str | None = None,
    write_cache: str | None = None,
    read_ahead: bool | None = None,
    allow_other_device: bool = False,
) -> dict[str, Any]:
    """Judge a model on the requests after the training part.

    Parameters
    ----------
    source
        The trace.
    kind, train, seed, scheduler, slots, drive, write_cache, read_ahead
        As for :func:`fit`; unused but for ``train`` and ``seed`` when ``model`` is given.
    model
        A model file, instead of fitting one to the first ``train`` of the trace.
    loads
        Load factors to simulate without a truth.
    truths
        Load factors with traces of the same requests as they really went at that load.
    allow_other_device
        Take a model of another device.

    Returns
    -------
    dict
        ``devices``, each with ``free_running`` and ``one_step`` (D, D99, floors, slices in percent), ``skill``
        (of free running, over a histogram and over the mean) and ``one_step_skill``,
        ``outside_support``, ``closed_loop``, ``by_operation`` (percentiles, real and run freely), ``quantiles`` and
        ``verdict``; and ``skipped`` devices.
    """
    more = {
        "scheduler": scheduler,
        "slots": slots,
        "drive": drive,
        "write_cache": write_cache,
        "read_ahead": read_ahead,
    }
    request = {
        "fit": _fit_request(kind, train, seed, **more),
        "model": model,
        "loads": [factor(load) for load in loads],
        "truths": [(factor(load), json.loads(source_text(truth))) for load, truth in truths],
        "allow_other_device": allow_other_device,
    }
    return parsed(_core.disk_evaluate(source_text(source), json.dumps(request)))


def reorganize(
    source: Source | str,
    *,
    policies: Sequence[str] = ("hot-block", "organ-pipe"),
    blocks: int = 1000,
    kind: str = "forest",
    model: str | None = None,
    train: float = 1.0,
    load: float = 1.0,
    seed: int = 0,
    allow_other_device: bool = False,
) -> tuple[dict[str, Any], list[tuple[str, str, str]]]:
    """Plan moves of the hottest blocks and predict what each would bring.

    Parameters
    ----------
    source
        The trace.
    policies
        ``hot-block`` (the paper's) and/or ``organ-pipe``.
    blocks
        Number of blocks (8 sectors each) to move on every device.
    kind, model, train, seed, allow_other_device
        The model to predict with, as for :func:`evaluate`.
    load
        Load factor of the prediction.

    Returns
    -------
    result : dict
        ``results``, one for each device and policy, with the predicted change and its interval: ``held_out`` for
        requests that the map is not drawn from (each of ``parts`` parts of the trace is moved by the map of the
        others), ``prediction`` for the very requests that it is drawn from.
    maps : list of (device, policy, text)
        The block maps.
    """
    whole("blocks", blocks, 1)
    request = {
        "fit": _fit_request(kind, train, seed),
        "model": model,
        "policies": list(policies),
        "blocks": blocks,
        "load": factor(load),
        "allow_other_device": allow_other_device,
    }
    result, maps = _core.disk_reorganize(source_text(source), json.dumps(request))
    return parsed(result), maps
