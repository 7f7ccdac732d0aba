"""The warnings of results: what limits the use of their figures, the worst first.

A warning has a rank: *invalid* (the figures are not what they are named, and are not ranked), *weak* (they may
be off) or *note* (good to know). Results of before ranks hold plain sentences, which are read as notes.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

#: All ranks, the worst first.
RANKS = ("invalid", "weak", "note")

#: A figure within a sentence.
_FIGURE = re.compile(r"[+\u2212-]?\d[\d.,]*")

#: Code of the remark on too few replications for an interval, which holds for one result alone.
FEW_REPLICATIONS = "few-replications"


@dataclass(frozen=True)
class ResultWarning:
    """One warning.

    Attributes
    ----------
    rank : str
        One of `RANKS`.
    code : str
        What it is about, for programs; empty where a result of before ranks does not say.
    text : str
        One sentence, with the remedy.
    """

    rank: str
    code: str
    text: str

    def to_dict(self) -> dict[str, str]:
        """Return it as in results."""
        return asdict(self)

    def of_design(self, name: str) -> "ResultWarning":
        """Return it with the name of whom it concerns."""
        return ResultWarning(self.rank, self.code, f"{name}: {self.text}")

    def __str__(self) -> str:
        """Return it for a terminal: the sentence, with a rank that must not be overlooked."""
        return f"INVALID: {self.text}" if self.rank == RANKS[0] else self.text


def recorded(document: Mapping[str, Any]) -> list[ResultWarning]:
    """Return the warnings of a result, the worst first.

    Examples
    --------
    >>> recorded({"warnings": ["old", {"rank": "weak", "code": "pause", "text": "new"}]})[0].text
    'new'
    """
    return by_rank(map(_read, document.get("warnings") or []))


def by_rank(warnings: Iterable[ResultWarning]) -> list[ResultWarning]:
    """Return each warning once, the worst first; those of one rank stay in order."""
    return sorted(dict.fromkeys(warnings), key=lambda warning: RANKS.index(warning.rank))


def gathered(documents: Iterable[Mapping[str, Any]]) -> list[ResultWarning]:
    """Return the warnings of results that are runs of one whole, where the number of each one's runs says nothing.

    Of warnings that differ in their figures alone, as runs with other seeds do, the first stands for all.

    Examples
    --------
    >>> runs = [{"warnings": [f"idle for {share} % of the time"]} for share in (20.5, 21, 22)]
    >>> [warning.text for warning in gathered(runs)]
    ['idle for 20.5 % of the time (so or similar in 3 runs)']
    """
    several = (one for document in documents for one in recorded(document) if one.code != FEW_REPLICATIONS)
    return by_rank(map(_of_all, alike(several)))


def alike(warnings: Iterable[ResultWarning]) -> list[list[ResultWarning]]:
    """Group warnings that differ in the figures of their sentences alone, in the order in which they first appear."""
    groups: dict[tuple[str, str, str], list[ResultWarning]] = {}
    for one in warnings:
        groups.setdefault((one.rank, one.code, _FIGURE.sub("", one.text)), []).append(one)
    return list(groups.values())


def _of_all(group: Sequence[ResultWarning]) -> ResultWarning:
    """Return one warning for some that differ in their figures at most."""
    first = group[0]
    if len(set(group)) == 1:
        return first
    return ResultWarning(first.rank, first.code, f"{first.text} (so or similar in {len(group)} runs)")


def put(document: dict[str, Any], warnings: Sequence[ResultWarning]) -> None:
    """Give a result these warnings instead of its own."""
    document["warnings"] = [warning.to_dict() for warning in by_rank(warnings)]


def _read(item: object) -> ResultWarning:
    if not isinstance(item, Mapping):
        text = str(item)
        return ResultWarning("note", FEW_REPLICATIONS if "too few for an interval" in text else "", text)
    rank = str(item.get("rank"))
    return ResultWarning(rank if rank in RANKS else "note", str(item.get("code", "")), str(item.get("text", "")))
