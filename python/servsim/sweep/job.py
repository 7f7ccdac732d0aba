"""One run of a sweep: what it is made of, its hash, and running it anywhere."""

import hashlib
import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from servsim import __version__, _core
from servsim.errors import EnvironmentProblem, InternalBug


@cache
def build() -> str:
    """Return a hash of the simulator's code, which tells builds of one version apart."""
    file = _core.__file__
    if file is None:
        raise InternalBug("the native module has no file")
    with Path(file).open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


@dataclass(frozen=True)
class Job:
    """A run: ``inputs`` decide its figures and its hash; the rest says how to make it.

    Attributes
    ----------
    inputs : dict
        Hash of the trace, resolved machine, options with the seed, version and build.
    trace : str
        Path of the trace, absolute, readable wherever the job runs.
    machine : str
        Text of the machine description; ``overrides`` are applied to it.
    """

    inputs: dict[str, Any]
    trace: str
    machine: str
    machine_name: str
    overrides: tuple[str, ...]
    checkpoint: str | None = None

    @property
    def hash(self) -> str:
        """Name of the run's directory."""
        canonical = json.dumps(self.inputs, sort_keys=True, separators=(",", ":")).encode()
        return hashlib.sha256(canonical).hexdigest()[:20]


def execute(job: Job) -> str:
    """Run a job and return its result, a ``servsim.simulate/1`` document as JSON text.

    Raises
    ------
    EnvironmentProblem
        When another build of servsim, or another trace, is found where the job runs.
    """
    from servsim.simulation import simulate_text

    if build() != job.inputs["build"]:
        raise EnvironmentProblem(
            f"the worker runs another build of servsim ({build()}) than the one that planned the sweep "
            f"({job.inputs['build']}): install the same one everywhere"
        )
    options = job.inputs["options"]
    result = simulate_text(
        job.trace,
        job.machine,
        job.machine_name,
        format=options["format"],
        overrides=list(job.overrides),
        engine=options["engine"],
        transactions=options["transactions"],
        warmup=options["warmup"],
        seed=options["seed"],
        threads=1,
        functional_warmup=options.get("functional_warmup"),
        from_checkpoint=job.checkpoint,
    )
    if result["trace"]["hash"] != job.inputs["trace"]:
        raise EnvironmentProblem(f"{job.trace} changed since the sweep was planned: plan it again in a new folder")
    return json.dumps(result)


def versions() -> dict[str, str]:
    """Return what a sweep directory must agree with."""
    return {"servsim": __version__, "build": build()}
