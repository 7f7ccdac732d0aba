"""The warnings of results: what limits the use of their figures, the worst first.

A warning has a rank: *invalid* (the figures are not what they are named, and are not ranked), *weak* (they may
be off) or *note* (good to know). Results of before ranks hold plain sentences, which are read as notes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

#: All ranks, the worst first.
RANKS = ("invalid", "weak", "note")

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
    """Return the warnings of results that are runs of one whole, where the number of each one's runs says nothing."""
    return by_rank(w for document in documents for w in recorded(document) if w.code != FEW_REPLICATIONS)


def put(document: dict[str, Any], warnings: Sequence[ResultWarning]) -> None:
    """Give a result these warnings instead of its own."""
    document["warnings"] = [warning.to_dict() for warning in by_rank(warnings)]


def _read(item: object) -> ResultWarning:
    if not isinstance(item, Mapping):
        text = str(item)
        return ResultWarning("note", FEW_REPLICATIONS if "too few for an interval" in text else "", text)
    rank = str(item.get("rank"))
    return ResultWarning(rank if rank in RANKS else "note", str(item.get("code", "")), str(item.get("text", "")))
