"""The printed figures of Brock et al. (2001): Tables 1 to 3, and what they say about one another."""

from __future__ import annotations

from dataclasses import dataclass

from servsim.reproduce.report import Finding


@dataclass(frozen=True)
class Version:
    """A row of Tables 2 and 3.

    Attributes
    ----------
    references, transactions : float
        Accesses of the processors, and of all outer caches to memory, in millions.
    requests, responses : float
        Packets of 16 and of 48 bytes, in millions.
    bandwidth : float
        Network traffic in MB/s.
    per_transaction : float
        Packets per memory transaction, as Table 3 prints it.
    mflops : float
        Millions of floating-point operations a second.
    """

    references: float
    transactions: float
    requests: float
    responses: float
    bandwidth: float
    per_transaction: float
    mflops: float

    @property
    def packets(self) -> float:
        """Packets of both sizes, in millions."""
        return self.requests + self.responses

    @property
    def seconds(self) -> float:
        """Seconds that the run took, by its traffic."""
        return (16 * self.requests + 48 * self.responses) / self.bandwidth


@dataclass(frozen=True)
class Application:
    """An application.

    Attributes
    ----------
    kernel : str
        The kernel of ours that stands in its place.
    size : int
        Elements on a side, or particles (Table 1).
    sequential : float
        Seconds on one processor (Table 1).
    orig, reorg : Version
        With pages striped, and with data placed as the monitor advised.
    """

    kernel: str
    size: int
    sequential: float
    orig: Version
    reorg: Version

    def speedup(self, version: Version) -> float:
        """Return the speed-up over one processor that the tables amount to."""
        return self.sequential / version.seconds


#: Tables 1 to 3. The third version of Barnes-Hut, whose source was changed, is left out.
APPLICATIONS = {
    "3DFFT": Application(
        "fft",
        128,
        170.58,
        Version(41967, 408.46, 497.89, 308.42, 494.11, 1.97, 9.01),
        Version(31867, 374.33, 76.38, 59.2, 216.95, 0.36, 20.65),
    ),
    "Ocean": Application(
        "ocean",
        514,
        17.44,
        Version(6339, 31.73, 36.98, 23.64, 435.03, 1.91, 4.49),
        Version(6016, 28.11, 3.58, 1.33, 67.85, 0.17, 7.01),
    ),
    "Water-spatial": Application(
        "water-spatial",
        32768,
        178.96,
        Version(34952, 29.96, 28.16, 20.60, 112.11, 1.63, 52.27),
        Version(35024, 17.56, 3.83, 2.27, 14.61, 0.35, 57.64),
    ),
    "FMM": Application(
        "fmm",
        65536,
        52.06,
        Version(19916, 18.96, 19.83, 13.86, 237.07, 1.78, 42.72),
        Version(19044, 18.50, 12.27, 8.24, 152.59, 1.11, 46.12),
    ),
    "Water-nsquared": Application(
        "water-nsquared",
        9261,
        1269.9,
        Version(219836, 31.88, 26.79, 19.50, 14.36, 1.45, 55.74),
        Version(219816, 31.95, 17.56, 13.54, 9.83, 0.97, 55.86),
    ),
    "Barnes-Hut": Application(
        "barnes",
        131072,
        160.82,
        Version(29534, 24.75, 26.62, 18.19, 109.32, 1.81, 19.96),
        Version(29488, 24.92, 21.25, 14.70, 86.90, 1.44, 20.17),
    ),
}


def findings() -> list[Finding]:
    """Return where the printed tables contradict one another."""
    found = []
    for name, application in APPLICATIONS.items():
        for which, version in (("orig", application.orig), ("reorg", application.reorg)):
            computed = version.packets / version.transactions
            if abs(computed - version.per_transaction) > 0.0151:
                message = f"{name} {which}: packets over memory transactions are {computed:.3f}"
                message += f", Table 3 prints {version.per_transaction:g}"
                found.append(Finding("packets-per-transaction", ("2", "3"), message))
        by_traffic = application.orig.seconds / application.reorg.seconds
        by_flops = application.reorg.mflops / application.orig.mflops
        if max(by_traffic, by_flops) / min(by_traffic, by_flops) > 1.1:
            message = (
                f"{name}: the gain of reorganisation is {by_traffic:.2f} by the traffic of Table 2, {by_flops:.2f} by "
                "the operations of Table 3"
            )
            found.append(Finding("gain-by-two-tables", ("2", "3"), message))
    return found
