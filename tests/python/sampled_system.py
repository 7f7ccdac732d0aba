"""A system of users and stations, simulated event by event and read as a monitor reads one: the oracle of estimates.

Slow and obvious: stations share their server among those present (processor sharing), requests visit them in order, and
other work arrives at some of them that no request asks for.
"""

import heapq
import random
from dataclasses import dataclass, field

#: Mean service of a piece of other work, seconds.
OTHER = 0.02


@dataclass
class _Shared:
    """A server shared by those present: how much each of them has had since the beginning, and how long it was busy."""

    given: float = 0.0
    at: float = 0.0
    busy: float = 0.0
    #: When each will have had its own, on the scale of ``given``; a number against ties; class, or None for other work.
    present: list[tuple[float, int, int | None]] = field(default_factory=list)

    def advance(self, now: float) -> None:
        if self.present:
            self.given += (now - self.at) / len(self.present)
            self.busy += now - self.at
        self.at = now

    def next_end(self) -> float:
        return self.at + (self.present[0][0] - self.given) * len(self.present) if self.present else float("inf")


@dataclass(frozen=True)
class System:
    """Mean service times in seconds by station and class, mean think time in seconds, and share of each station busy
    with other work.
    """

    demands: list[list[float]]
    think: float
    beside: list[float]

    def watched(self, draw: random.Random, users: list[int], seconds: float) -> tuple[list[float], list[float]]:
        """Return the throughput of each class and the utilisation of each station over ``seconds``, once warm."""
        run = _Run(self, draw, users)
        run.until(10.0 * self.think)
        done, busy = run.done.copy(), [shared.busy for shared in run.stations]
        run.until(10.0 * self.think + seconds)
        used = [(shared.busy - before) / seconds for shared, before in zip(run.stations, busy, strict=True)]
        served = [(after - before) / seconds for after, before in zip(run.done, done, strict=True)]
        return served, [min(1.0, share) for share in used]


class _Run:
    """Events of one system from the moment at which all users think."""

    def __init__(self, system: System, draw: random.Random, users: list[int]) -> None:
        self.system, self.draw, self.number = system, draw, 0
        self.stations = [_Shared() for _ in system.beside]
        self.done = [0] * len(users)
        #: When somebody comes, a number against ties, and who: a class, or -1 - station for other work.
        self.coming: list[tuple[float, int, int]] = []
        for name, count in enumerate(users):
            for _ in range(count):
                self.schedule(0.0, name)
        for station, share in enumerate(system.beside):
            if share > 0.0:
                self.schedule(0.0, -1 - station)

    def schedule(self, now: float, who: int) -> None:
        self.number += 1
        rate = 1.0 / self.system.think if who >= 0 else self.system.beside[-1 - who] / OTHER
        heapq.heappush(self.coming, (now + self.draw.expovariate(rate), self.number, who))

    def arrive(self, now: float, station: int, mean: float, who: int | None) -> None:
        self.number += 1
        shared = self.stations[station]
        shared.advance(now)
        heapq.heappush(shared.present, (shared.given + self.draw.expovariate(1.0 / mean), self.number, who))

    def until(self, end: float) -> None:
        """Let everything happen that does before ``end``."""
        while True:
            first = min(range(len(self.stations)), key=lambda k: self.stations[k].next_end())
            leaves, comes = self.stations[first].next_end(), self.coming[0][0] if self.coming else float("inf")
            if min(leaves, comes) >= end:
                break
            if comes < leaves:
                self._come(comes)
            else:
                self._leave(leaves, first)
        for shared in self.stations:
            shared.advance(end)

    def _come(self, now: float) -> None:
        who = heapq.heappop(self.coming)[2]
        if who >= 0:
            self.arrive(now, 0, self.system.demands[0][who], who)
        else:
            self.arrive(now, -1 - who, OTHER, None)
            self.schedule(now, who)

    def _leave(self, now: float, station: int) -> None:
        self.stations[station].advance(now)
        who = heapq.heappop(self.stations[station].present)[2]
        if who is None:
            return
        if station + 1 < len(self.stations):
            self.arrive(now, station + 1, self.system.demands[station + 1][who], who)
        else:
            self.done[who] += 1
            self.schedule(now, who)
