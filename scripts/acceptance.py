"""Run the full-scale checks listed in tests/acceptance/*.toml, one shard of them, resumably.

Every check that passes leaves a stamp under .cache/acceptance/, keyed by the hash of the whole
source tree and the check's name; a run that was killed continues where it stopped, and any change
of the sources makes every check due again. Checks are dealt to shards by their expected minutes,
longest first, always in the same way; those that use what another leaves come behind it in its shard.
"""

import argparse
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import children
from servsim.cli.progress import Progress

ROOT = Path(__file__).resolve().parent.parent
SHARD_LIMIT_MINUTES = 90


@dataclass(frozen=True)
class Check:
    """One full-scale check: a shell command that exits with 0 when the check holds.

    With ``after`` it uses what the check of that name left: it runs behind it in the same shard, and not at all when
    that one has failed.
    """

    name: str
    why: str
    command: str
    minutes: float
    needs: tuple[str, ...] = ()
    after: str | None = None

    def obstacle(self) -> str | None:
        """Return why the check cannot run here, or None: a program, ``root``, or ``$VARIABLE``."""
        for need in self.needs:
            if need == "root":
                met = os.geteuid() == 0
            elif need.startswith("$"):
                met = bool(os.environ.get(need[1:]))
            else:
                met = shutil.which(need) is not None
            if not met:
                return f"needs {need}"
        return None


def load(folder: Path) -> list[Check]:
    """Read every list in ``folder``; names are unique over all of them."""
    checks = []
    for path in sorted(folder.glob("*.toml")):
        for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("check", []):
            checks.append(Check(**{**entry, "needs": tuple(entry.get("needs", ()))}))
    names = [check.name for check in checks]
    double = sorted({name for name in names if names.count(name) > 1})
    if double:
        raise SystemExit(f"acceptance: named twice: {', '.join(double)}")
    unknown = [check.name for check in checks if check.after not in (None, *names)]
    if unknown:
        raise SystemExit(f"acceptance: behind a check that there is not: {', '.join(unknown)}")
    return checks


def chains(checks: list[Check]) -> list[list[Check]]:
    """Part the checks into those that have to run in one shard, in an order in which they can."""
    behind: dict[str | None, list[Check]] = {}
    for check in checks:
        behind.setdefault(check.after, []).append(check)

    def chain(check: Check) -> list[Check]:
        return [check, *(later for one in behind.get(check.name, []) for later in chain(one))]

    return [chain(check) for check in behind.get(None, [])]


def minutes_of(checks: list[Check]) -> float:
    """Return about how long the checks take together."""
    return sum(check.minutes for check in checks)


def deal(checks: list[Check], count: int) -> list[list[Check]]:
    """Deal the checks to ``count`` shards, the longest first to the shard with the least so far."""
    shards: list[list[Check]] = [[] for _ in range(count)]
    for chain in sorted(chains(checks), key=lambda chain: (-minutes_of(chain), chain[0].name)):
        min(shards, key=minutes_of).extend(chain)
    return shards


def tree_hash(root: Path) -> str:
    """Hash the name and content of every tracked or new file that git does not ignore."""
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=root, capture_output=True, check=True).stdout.split(b"\0")
    digest = hashlib.sha256()
    for name in sorted(set(filter(None, names))):
        path = root / os.fsdecode(name)
        if path.is_file():
            digest.update(name + b"\0" + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


def run(check: Check, log: Path, root: Path, tell: Callable[[float], None]) -> tuple[int, float]:
    """Run one check with its output in ``log``; ``tell`` hears how many minutes it has taken so far."""
    start = time.monotonic()
    with log.open("w", encoding="utf-8") as sink:
        code = children.run(check.command, root, sink, subprocess.STDOUT, meanwhile=tell)
    return code, time.monotonic() - start


def perform(shard: list[Check], stamps: Path, root: Path) -> dict[str, int]:
    """Run what is due in the shard, leaving a stamp for each success; return counts by outcome."""
    counts = {"passed": 0, "failed": 0, "already passed": 0, "skipped": 0}
    stamp_of = {check.name: stamps / f"{check.name}.json" for check in shard}
    # What passed earlier or is skipped takes no time, and says nothing of the pace.
    due = [check for check in shard if not stamp_of[check.name].exists() and not check.obstacle()]
    planned, passed = minutes_of(due), 0.0

    def obstacle(check: Check) -> str | None:
        lacks = check.after is not None and not stamp_of[check.after].exists()
        return check.obstacle() or (f"{check.after} has not passed" if lacks else None)

    with Progress() as progress:
        for check in shard:
            earlier, lacking = stamp_of[check.name].exists(), obstacle(check)
            if earlier or lacking:
                counts["already passed" if earlier else "skipped"] += 1
                reason = "passed earlier on these sources" if earlier else f"skipped, {lacking}"
                progress.note(f"{check.name}: {reason}")
                passed += check.minutes if check in due else 0.0
                continue

            def tell(minutes: float, check: Check = check, before: float = passed) -> None:
                progress(check.name, (before + min(minutes, check.minutes)) / planned)

            log = stamps / f"{check.name}.log"
            progress.note(f"{check.name}: {check.why} (about {check.minutes:g} min)")
            code, seconds = run(check, log, root, tell)
            passed += check.minutes
            outcome = "passed" if code == 0 else "failed"
            counts[outcome] += 1
            if code == 0:
                fresh = stamp_of[check.name].with_suffix(".new")
                fresh.write_text(json.dumps({"seconds": round(seconds, 1), "command": check.command}))
                fresh.replace(stamp_of[check.name])
            progress.note(f"{check.name}: {outcome} in {seconds:.0f} s, log {log}")
    return counts


def main() -> int:
    """Run one shard; exit with 1 when a check failed, with 130 when interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shard", default="1/1", help="part i of n, for example 2/4")
    parser.add_argument("--list", type=Path, default=ROOT / "tests" / "acceptance", help="folder of check lists")
    parser.add_argument("--cache", type=Path, default=ROOT / ".cache" / "acceptance", help="folder of stamps")
    parser.add_argument("--root", type=Path, default=ROOT, help="the source tree")
    options = parser.parse_args()
    index, _, count = options.shard.partition("/")
    if not (index.isdigit() and count.isdigit() and 1 <= int(index) <= int(count)):
        parser.error(f"SHARD is written i/n with 1 <= i <= n, for example 2/4; got {options.shard!r}")
    shard = deal(load(options.list), int(count))[int(index) - 1]
    planned = minutes_of(shard)
    if planned > SHARD_LIMIT_MINUTES:
        print(f"acceptance: about {planned:g} minutes planned; use more shards than {count}", file=sys.stderr)
    stamps = options.cache / tree_hash(options.root)
    stamps.mkdir(parents=True, exist_ok=True)
    try:
        counts = perform(shard, stamps, options.root)
    except KeyboardInterrupt:
        print("acceptance: interrupted; the same command continues from here", file=sys.stderr)
        return 130
    print(f"acceptance shard {options.shard}: " + ", ".join(f"{n} {what}" for what, n in counts.items()))
    return 1 if counts["failed"] else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
