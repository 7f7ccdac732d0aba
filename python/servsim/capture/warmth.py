"""How warm a captured server was: what the driver saw while it warmed up, in one sentence.

The driver (`settling` of its crate) works in rounds until two before the last agree with
the last, in the server's processor time per transaction of each kind and in disk reads. In the guest,
whose clock advances by one nanosecond per instruction, processor time is a number of instructions.
"""

from typing import Any

#: Instructions in a microsecond of the guest's clock.
_PER_MICROSECOND = 1000


def sentence(report: dict[str, Any] | None, warmup: int | None) -> str:
    """Say how warm the server was when the checkpoint was taken.

    Parameters
    ----------
    report
        The driver's report of a warm-up until the server settled; None of any other.
    warmup
        Transactions of a warm-up whose length was given.

    Examples
    --------
    >>> last = {"transactions": 240, "server_microseconds_per_transaction": 1790.4, "disk_reads_per_transaction": 0.01}
    >>> sentence({"settled": True, "transactions": 1560, "rounds": [last]}, None)
    'settled after 1,560 transactions: 1.79 M instructions of the server and 0.01 disk reads each'
    """
    if report is None:
        return f"{warmup or 0:,} transactions, as given; whether the server had settled is not known"
    last = report["rounds"][-1]
    instructions = last["server_microseconds_per_transaction"] * _PER_MICROSECOND / 1e6
    state = "settled after" if report["settled"] else "NOT settled after"
    return (
        f"{state} {report['transactions']:,} transactions: {instructions:.2f} M instructions of the server "
        f"and {last['disk_reads_per_transaction']:.2f} disk reads each"
    )
