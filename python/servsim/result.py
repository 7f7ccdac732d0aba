"""Simulation results as everything reads them: validated where it matters, tolerant elsewhere.

A result is one ``servsim.simulate/1`` document. Its replications must carry cycles and transactions;
every other part is optional, so that a report of an older or partial result still says "not recorded"
where something is missing.
"""

import difflib
import hashlib
import importlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from servsim.documents import read_json
from servsim.errors import EnvironmentProblem, UsageError
from servsim.json_text import json_text
from servsim.schema import check_shape
from servsim.units import HERTZ

if TYPE_CHECKING:
    import pyarrow

    from servsim.statistics.intervals import Estimate

SCHEMA = "servsim.simulate/1"
#: What every replication of a run with time has, greater than zero.
TIMED = ("cycles", "transactions")
REMEDY = "make one with `servsim simulate TRACE --machine MACHINE --json > FILE`"

#: Figures that older results call otherwise, by group and name.
RENAMED = {("bus", "update"): "write_back"}

#: Parts of a replication that older results call otherwise.
RENAMED_PARTS = {"along": "activity"}


@dataclass(frozen=True, repr=False)
class Result:
    """One simulation result.

    Attributes
    ----------
    source : str
        Where it was read from, for messages and provenance.
    document : mapping
        The whole document.
    digest : str
        SHA-256 of the document, in canonical form, as hexadecimal text.
    parts : tuple of Result
        The results that this one was joined from, when its replications came in several.
    """

    source: str
    document: Mapping[str, Any]
    digest: str
    parts: "tuple[Result, ...]" = ()

    @property
    def replications(self) -> Sequence[Mapping[str, Any]]:
        """The raw replications, at least one."""
        found: Sequence[Mapping[str, Any]] = self.document["replications"]
        return found

    @property
    def machine(self) -> str:
        """The machine's name, as its description or the command line gives it."""
        machine = self.document.get("machine")
        name = machine.get("name") if isinstance(machine, Mapping) else machine
        return str(name) if name else "unnamed machine"

    @property
    def is_functional(self) -> bool:
        """Whether the functional engine made it, which counts references and knows no time."""
        return self.document.get("engine") == "functional"

    @property
    def clock_hertz(self) -> float | None:
        """The processor clock in hertz, or None when the result does not state it."""
        machine = self.document.get("machine")
        places = [self.document.get("clock_hertz"), self.document.get("clock")]
        if isinstance(machine, Mapping):
            places += [machine.get("clock_hertz"), machine.get("clock")]
        return next((value for value in map(_hertz, places) if value), None)

    def figures(self) -> list[str]:
        """Return the paths of all figures, such as ``misses.cold.user``."""
        from servsim.replication import described, figures

        first = self.replications[0]
        return list(dict.fromkeys([*figures(first), *described(first)]))

    def estimate(self, path: str) -> "Estimate":
        """Return the mean of a figure over the replications, with its 95 % interval, which is over captures if several.

        Parameters
        ----------
        path : str
            One of `figures`.

        Raises
        ------
        UsageError
            When a replication does not record it.
        """
        from servsim.replication import described, figures

        found = [{**figures(replication), **described(replication)}.get(path) for replication in self.replications]
        known = [value for value in found if value is not None]
        if len(known) < len(found):
            near = difflib.get_close_matches(path, self.figures(), 1)
            hint = f" (did you mean {near[0]!r}?)" if near else "; `figures()` lists what there is"
            raise UsageError(f"{self.source} does not record {path!r} in every replication{hint}")
        return self.known(known)

    def to_arrow(self) -> "pyarrow.Table":
        """Return every figure of every replication, one row each.

        Returns
        -------
        pyarrow.Table
            Columns ``replication``, ``seed``, ``path``, ``value`` and ``unit``.
        """
        from servsim.replication import arrow

        return arrow(self.replications)

    def to_pandas(self) -> Any:
        """Return what `to_arrow` does as a ``pandas.DataFrame``.

        Raises
        ------
        EnvironmentProblem
            When pandas is not installed.
        """
        _library("pandas")
        return self.to_arrow().to_pandas()

    def to_polars(self) -> Any:
        """Return what `to_arrow` does as a ``polars.DataFrame``.

        Raises
        ------
        EnvironmentProblem
            When polars is not installed.
        """
        return _library("polars").from_arrow(self.to_arrow())

    def save(self, path: str | Path) -> Path:
        """Write the result as JSON, whole or not at all; `servsim.load` and the command line read it.

        Raises
        ------
        UsageError, EnvironmentProblem
            When it cannot be written.
        """
        from servsim.files import atomic_write

        output = Path(path)
        atomic_write(output, json_text(self.document))
        return output

    def __repr__(self) -> str:
        """Return machine, trace and number of replications, in short."""
        return f"Result({self.source!r}, {len(self.replications)} replications)"

    def _repr_html_(self) -> str:
        """Return the answer and two charts of the report, for a notebook."""
        from servsim.report.notebook import frame

        return frame(self)

    @property
    def captures(self) -> list[str]:
        """Hashes of the captures it was run on, where there are several; empty of one trace."""
        return [str(capture.get("hash")) for capture in self.document.get("captures") or ()]

    def independent(self, values: "Sequence[float | None]") -> list[float]:
        """Return one value for each independent unit: each replication, or each of several captures.

        Parameters
        ----------
        values : sequence of float or None
            One value per replication, None where there is none.
        """
        from servsim.replication import units
        from servsim.statistics.nested import unit_means

        return unit_means(values, units(self.replications))

    def known(self, values: "Sequence[float | None]") -> "Estimate":
        """Return the mean of a figure with its interval, given its value in each replication."""
        from servsim.statistics.intervals import reported

        return reported(self.independent(values))

    def values(self, *path: str) -> list[float] | None:
        """Return one number per replication at ``path``, or None when any of them lacks it."""
        found = [number_at(replication, *path) for replication in self.replications]
        complete = [value for value in found if value is not None]
        return complete if len(complete) == len(found) else None


def _library(name: str) -> Any:
    """Load an optional library."""
    try:
        return importlib.import_module(name)
    except ImportError:
        raise EnvironmentProblem(f"{name} is not installed: run `pip install {name}`, or use to_arrow()") from None


def number_at(tree: object, *path: str) -> float | None:
    """Return the finite number at ``path`` of nested mappings, or None."""
    for key in path:
        if not isinstance(tree, Mapping):
            return None
        tree = tree.get(key)
    if isinstance(tree, bool) or not isinstance(tree, int | float) or not isfinite(tree):
        return None
    return float(tree)


def _hertz(value: object) -> float | None:
    if isinstance(value, Mapping):
        value = value.get("hertz")
    if isinstance(value, int | float) and value > 0:
        return float(value)
    if isinstance(value, str):
        try:
            return hertz(value)
        except (ValueError, KeyError):
            return None
    return None


def hertz(clock: str) -> float:
    """Return a clock written as text, such as ``1 GHz``, in hertz."""
    number, _, unit = clock.partition(" ")
    return float(number) * HERTZ[unit.strip()]


def check(document: object, source: str, needs: Sequence[str] = TIMED) -> Result:
    """Validate a document and wrap it.

    Parameters
    ----------
    document : object
        What was read from JSON.
    source : str
        Its name in messages.
    needs : sequence of str
        Figures that every replication must have, and greater than zero.

    Returns
    -------
    Result
        The validated result.

    Raises
    ------
    UsageError
        If it is not a ``servsim.simulate/1`` document, or a replication lacks what is needed; all such
        faults are collected into one message.
    """
    if not isinstance(document, Mapping) or document.get("schema") != SCHEMA:
        found = document.get("schema") if isinstance(document, Mapping) else None
        what = f"its schema is `{found}`" if found else "it states no schema"
        raise UsageError(f"{source} is not a simulation result (`{SCHEMA}`): {what}; {REMEDY}")
    check_shape(document, source, REMEDY)
    replications = document.get("replications")
    if not isinstance(replications, Sequence) or isinstance(replications, str) or not replications:
        raise UsageError(f"{source} holds no replications, so there is nothing to report; {REMEDY}")
    if document.get("engine") == "functional" and "cycles" in needs:
        raise UsageError(
            f"{source} was made by the functional engine, which counts references and knows no time: "
            "repeat it with `servsim simulate TRACE --machine MACHINE --engine timing`"
        )
    faults = [
        f"replication {number} has no positive `{key}`"
        for number, replication in enumerate(replications, start=1)
        for key in needs
        if (number_at(replication, key) or 0) <= 0
    ]
    if faults and (document.get("options") or {}).get("references"):
        raise UsageError(
            f"{source} measured references, and in them not every run ended a transaction, of which figures are wanted "
            "here: repeat it with more --references, or with --transactions, or compare by another figure, such as "
            "--by misses_per_reference"
        )
    without = without_transactions(replications)
    if faults and without:
        raise UsageError(
            f"{source}: no transaction ended in {without} of {len(replications)} runs, and what one costs is "
            "wanted here: measure more of a trace that marks them, or compare by another figure, such as --by cycles"
        )
    if faults:
        raise UsageError(f"{source} is incomplete: {'; '.join(faults)}; {REMEDY}")
    return Result(source, _present_names(document), digest_of(document))


def without_transactions(replications: object) -> int:
    """Return in how many of a document's replications no transaction ended."""
    runs = replications if isinstance(replications, Sequence) else []
    return sum(isinstance(run, Mapping) and run.get("transactions") == 0 for run in runs)


def digest_of(document: Mapping[str, Any]) -> str:
    """Return the SHA-256 of a result's content, however it was laid out in its file."""
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    return hashlib.sha256(canonical).hexdigest()


def _present_names(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a result under the names of today, its figures unchanged; one of today is returned as it is."""
    dotted = {f"{group}.{old}": f"{group}.{new}" for (group, old), new in RENAMED.items()}

    def named(part: Mapping[str, Any], key: str, names: Mapping[str, str]) -> Mapping[str, Any]:
        if not names.keys() & (part.get(key) or {}).keys():
            return part
        return {**part, key: {names.get(name, name): value for name, value in part[key].items()}}

    def renamed(replication: Mapping[str, Any]) -> Mapping[str, Any]:
        if RENAMED_PARTS.keys() & replication.keys():
            replication = {RENAMED_PARTS.get(name, name): part for name, part in replication.items()}
        for (group, old), new in RENAMED.items():
            replication = named(replication, group, {old: new})
        for group in ("windows", "figures"):
            replication = named(replication, group, dotted)
        return replication

    replications = [renamed(replication) for replication in document["replications"]]
    if any(new is not old for new, old in zip(replications, document["replications"], strict=True)):
        document = {**document, "replications": replications}
    return named(document, "summary", dotted)


def load(path: Path, needs: Sequence[str] = TIMED) -> Result:
    """Read and validate a result file; see `check` for what it raises."""
    return check(document_of(path), str(path), needs)


def document_of(path: Path) -> Any:
    """Return what a result file holds, whatever it is.

    Raises
    ------
    UsageError
        When it cannot be read, or is not JSON.
    """
    try:
        return read_json(path.read_bytes())
    except FileNotFoundError:
        raise UsageError(f"{path} does not exist; {REMEDY}") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise UsageError(f"{path} is not JSON ({error}); {REMEDY}") from None


def flat(tree: object, prefix: str = "") -> list[tuple[str, str]]:
    """Flatten nested settings into dotted names and texts, in their own order."""
    if isinstance(tree, Mapping):
        return [item for key, value in tree.items() for item in flat(value, f"{prefix}.{key}" if prefix else str(key))]
    if isinstance(tree, Sequence) and not isinstance(tree, str):
        if all(not isinstance(value, Mapping | list) for value in tree):
            return [(prefix, ", ".join(map(_scalar, tree)) or "none")]
        return [item for index, value in enumerate(tree) for item in flat(value, f"{prefix}[{index}]")]
    return [(prefix, _scalar(tree))]


def _scalar(value: object) -> str:
    if value is None:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)
