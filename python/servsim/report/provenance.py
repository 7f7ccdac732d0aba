"""Where a result comes from, so that anybody can repeat it: hashes, versions, seeds, the command."""

import hashlib
import json
import shlex
from collections.abc import Mapping

from markupsafe import Markup

from servsim.report.charts.svg import tag
from servsim.report.tables import details, pairs, table
from servsim.result import Result, flat, number_at


def provenance(result: Result) -> Markup:
    """Return where a result comes from: hashes, versions, and the command that repeats it."""
    from servsim import __version__

    document = result.document
    machine = json.dumps(document.get("machine"), sort_keys=True, separators=(",", ":")).encode()
    parts = result.parts or (result,)
    entries = [("result" if not result.parts else f"results ({len(parts)})", result.source)]
    if not result.parts:
        entries.append(("SHA-256 of the result", result.digest))
    entries.append(("SHA-256 of the resolved machine", hashlib.sha256(machine).hexdigest()))
    for key in ("trace", "versions", "version", "host"):
        if document.get(key) is not None:
            entries += [(name.replace("_", " "), value) for name, value in flat(document[key], key)]
    entries.append(("report made by", f"servsim {__version__}"))
    commands = list(dict.fromkeys(_commands(result)))
    listed = [[part.source, part.digest] for part in result.parts]
    files = [details("every result", table(["result", "SHA-256"], listed, "settings"))] if listed else []
    said = "command that repeats it" if len(commands) == 1 else "commands that repeat it"
    block = tag("pre", "\n".join(commands), class_="command")
    return tag("div", pairs(entries), *files, tag("p", f"The {said}, with the machine as above:"), block)


def _commands(result: Result) -> list[str]:
    """Return one command for replications of successive seeds, and one for each part otherwise."""
    if not result.parts:
        return [_command(result)]
    seeds = [number_at(replication, "seed") for replication in result.replications]
    if all(seed == (seeds[0] or 0) + index for index, seed in enumerate(seeds)):
        return [_command(result)]
    return [_command(part) for part in result.parts]


def _command(result: Result) -> str:
    """Return the command that the result records, or else the one its options describe."""
    recorded = result.document.get("command")
    if recorded:
        return " ".join(map(str, recorded)) if isinstance(recorded, list) else str(recorded)
    trace, options = result.document.get("trace"), result.document.get("options")
    if not isinstance(trace, Mapping) or not isinstance(options, Mapping):
        return "not recorded"
    words = ["servsim", "simulate", str(trace.get("name") or "TRACE"), "--machine", result.machine]
    if options.get("precision") is not None:
        words += ["--precision", f"{100 * options['precision']:g}%"]
    if result.is_functional:
        words += ["--engine", "functional"]
    names = {"warmup": "warm-up", "functional_warmup": "functional-warm-up"}
    for key in ("transactions", "references", "functional_warmup", "warmup", "users", "replications", "seed"):
        if options.get(key) is not None:
            words += [f"--{names.get(key, key)}", str(options[key])]
    if (options.get("window") or {}).get("to_the_end"):
        words += ["--transactions", "all"]
    return shlex.join(words)
