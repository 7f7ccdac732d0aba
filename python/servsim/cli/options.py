"""Options that several commands share: their help, so that it is the same everywhere."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from servsim.errors import UsageError
from servsim.limits import LARGEST_COUNT, LARGEST_SEED

if TYPE_CHECKING:
    from servsim.capture.folder_settings import FolderSettings

#: Context of a command that takes settings of a workload as options of their names.
SETTINGS_AS_OPTIONS = {"allow_extra_args": True, "ignore_unknown_options": True}

#: ``--set``.
Settings = Annotated[list[str] | None, typer.Option("--set", help="Replace a setting: KEY=VALUE. Repeatable.")]

#: ``--json``, where nothing more is to be said of what it prints.
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def given(context: typer.Context, *names: str) -> list[str]:
    """Return those options, by their parameters' names, that stand on the command line, as help writes them."""
    sources = {parameter: context.get_parameter_source(parameter.name or "") for parameter in context.command.params}
    return [
        parameter.opts[0]
        for parameter, source in sources.items()
        if parameter.name in names and source is not None and source.name == "COMMANDLINE"
    ]


def refuse_useless(context: typer.Context, why: str, *names: str) -> None:
    """Refuse options, by their parameters' names, that would change nothing.

    Raises
    ------
    UsageError
        When one of them stands on the command line; ``why`` says when they have no use.
    """
    if useless := given(context, *names):
        raise UsageError(f"{', '.join(useless)} would change nothing here: {why}; leave it out")


def _at_most(value: int | None, most: int) -> int | None:
    if value is not None and value > most:
        raise typer.BadParameter(f"{value} is larger than {most}.")
    return value


def count(value: int | None) -> int | None:
    """Check an option that no counter could hold; help gives its least value only, for nobody wants the largest."""
    return _at_most(value, LARGEST_COUNT)


def seed(value: int | None) -> int | None:
    """Check an option that is a seed; as `count`."""
    return _at_most(value, LARGEST_SEED)


#: ``--transactions``.
TRANSACTIONS = "Transactions to measure, or all; the middle half of the trace's without it."
#: ``--transactions`` and ``--warm-up`` of classify.
CLASSIFIED = "Transactions to classify, or all; the middle half of the trace's without it."
BEFORE_CLASSIFIED = "Transactions before those, which warm the caches; without it a quarter of the trace's."
#: ``--references``.
REFERENCES = "Measure so many references instead, wherever they end; --warm-up counts references then."
#: ``--warm-up``.
WARM_UP = "Transactions timed before the measurement; without it a quarter of the trace's."
#: ``--functional-warm-up``.
FUNCTIONAL_WARM_UP = "Warm the caches without timing first: 200 (transactions), '5000000 references' or 'whole trace'."
#: ``--from-checkpoint``.
FROM_CHECKPOINT = "Begin where a saved functional warm-up ended (simulate --save-checkpoint)."
#: ``--users``.
USERS = "Run only so many of the trace's users, without the tasks of the others."
#: ``--precision`` of simulate.
PRECISION = "Time only as much of the trace as this needs: half of the 95 % interval of the mean, such as 2%."
#: ``--sampled`` of compare.
SAMPLED = (
    "Time common windows of the trace instead of runs, until ratios of designs are known to this share, such as 1%."
)
#: ``--live-points``.
LIVE_POINTS = "Keep the live-points of --precision in this file, or use those in it; in the cache without it."

#: What ``servsim explain`` says of options that decide what is measured, in the form of a setting's text.
EXPLAINED = {
    "--transactions": """--transactions
  meaning: Transactions that are measured. The result tells which of the trace's these were.
  accepted: a whole number from 1, or all, which goes on to the end of the trace
  default: the middle half of the trace's transactions; all of a trace that marks none
  source: Alameldeen et al. 2003: cycles of a fixed number of transactions""",
    "--references": """--references
  meaning: References that are measured instead of transactions, cut wherever so many have been made. Rates per \
reference and shares of time hold, figures per transaction do not; --warm-up then counts references, and is as many \
without it.
  accepted: a whole number from 1
  default: none: transactions are measured
  source: Foglia et al. 2004: 130 million references""",
    "--warm-up": """--warm-up
  meaning: Transactions that are timed before the measurement begins, in every run; references before --references.
  accepted: a whole number from 0
  default: a quarter of the trace's transactions, at least one for each user
  source: Alameldeen et al. 2003: a warm-up before a fixed number of transactions""",
    "--functional-warm-up": """--functional-warm-up
  meaning: How much of the trace goes through the caches alone, without time, before the timing begins at that point \
of every task; made once for all replications.
  accepted: a number of transactions (200), or of references ('5000000 references')
  default: none
  source: Alameldeen et al. 2003 begin from a warm system state""",
    "--save-checkpoint": """--save-checkpoint
  meaning: File for the state at the end of the functional warm-up. It depends on the trace and the shape of the \
machine, not on latencies, bus, interconnect, clock, cores, disks or seeds.
  accepted: a file name
  default: none
  source: Alameldeen et al. 2003: checkpoints of a warm system""",
    "--from-checkpoint": """--from-checkpoint
  meaning: Begin where a saved functional warm-up ended; refused, with both values, when a setting that warm caches \
depend on differs.
  accepted: a file that --save-checkpoint wrote
  default: none
  source: Alameldeen et al. 2003: checkpoints of a warm system""",
    "--sampled": """--sampled
  meaning: Half of the 95 % interval of the ratio of every two designs of compare, as a share of it. As many windows \
are timed on all of them, at the same places of the trace, as that needs (docs/sampling.md).
  accepted: a share from 0.5% to 50%
  default: none: designs are compared by runs
  source: Wenisch et al. 2006: matched pairs of live-points""",
    "--precision": """--precision
  meaning: Half of the 95 % interval of cycles per transaction, as a share of the mean. simulate times as many windows \
of the trace as that needs, from live-points (docs/sampling.md); compare makes as many replications of each machine.
  accepted: simulate: a share from 0.5% to 50%; compare: any share below 100%, such as 1% or 0.01
  default: none: all of the transactions to measure are timed, once
  source: Wenisch et al. 2006: live-points; Stein 1945: two stages""",
    "--live-points": """--live-points
  meaning: File of the states that --precision begins its windows with. It depends on the trace and the shape of the \
machine, not on latencies, bus, interconnect, clock, cores, disks or seeds; it is made if there is none.
  accepted: a file name
  default: a file in the cache
  source: Wenisch et al. 2006: live-points""",
    "--users": """--users
  meaning: Run only the first K users that transactions end for, and the tasks that belong to no other; refused when a \
task that stays waits for one that goes.
  accepted: a whole number from 1 to the users of the trace
  default: all
  source: free choice""",
}


def transactions(text: str | None) -> int | str | None:
    """Return how many transactions ``--transactions`` asks for.

    Raises
    ------
    UsageError
        When it is neither a whole number from 1 nor ``all``.
    """
    if text is None or text == "all":
        return text
    if not text.isascii() or not text.isdecimal() or int(text) < 1:
        raise UsageError(f"--transactions {text}: give a whole number from 1, or all")
    return int(text)


def load_range(text: str) -> list[float]:
    """Return the loads of ``--load`` FIRST:LAST or FIRST:LAST:POINTS; ten points if their number is left out.

    Raises
    ------
    UsageError
        When it is neither.
    """
    parts = text.split(":")
    try:
        first, last = float(parts[0]), float(parts[1])
        points = int(parts[2]) if len(parts) > 2 else 10
    except (ValueError, IndexError):
        raise UsageError(f"--load {text!r} is not FIRST:LAST or FIRST:LAST:POINTS; write for example 10:200") from None
    if not (len(parts) <= 3 and 0.0 < first < last < 1e9 and 2 <= points <= 200):
        raise UsageError(f"--load {text!r}: give two loads above zero, the larger last, and 2 to 200 points")
    return [first + (last - first) * i / (points - 1) for i in range(points)]


#: Names that options had before, each with the one that it has now; help does not show them.
FORMER = {"warmup": "warm-up"}


def pairs(words: Sequence[str], asked: str = "--set needs KEY=VALUE") -> list[tuple[str, str]]:
    """Take words such as the KEY=VALUE of ``--set`` apart; ``asked`` is what a message says of them.

    Raises
    ------
    UsageError
        Naming the words that are none.
    """
    parts = [word.partition("=") for word in words]
    wrong = [key for key, separator, _ in parts if not separator or not key]
    if wrong:
        raise UsageError(f"{asked}, not {', '.join(repr(word) for word in wrong)}")
    return [(key, value) for key, _, value in parts]


def present(name: str) -> str:
    """Return the name that an option has now."""
    return FORMER.get(name, name)


def workload_settings(
    workload: str, scale: str | None, words: Sequence[str], options: Sequence[str]
) -> "FolderSettings":
    """Return a workload of a name or folder with its settings: of a scale, as ``NAME=VALUE``, as ``--NAME VALUE``."""
    from servsim.capture.folder import find
    from servsim.capture.folder_settings import FolderSettings
    from servsim.workloads.native import named

    folder = find(workload)
    return FolderSettings(folder, {**folder.scale(scale), **dict(pairs(words)), **named(options)})
