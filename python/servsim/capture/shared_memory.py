"""What lies where in memory that a server's processes or a program's threads share, as a trace describes it."""

from typing import Any


def text(document: dict[str, Any]) -> str:
    r"""Return the trace's ``shared_data``, of what a client's result says.

    Parameters
    ----------
    document
        ``program``, a name, if all processes of that name map the memory at the same addresses, or ``process``, a
        number; and ``ranges`` as ``[name, address, bytes]`` in any order.

    Examples
    --------
    >>> text({"process": 77, "ranges": [["fft.b", 8192, 4096], ["fft.a", 4096, 256]]})
    'process 77\n1000 100 fft.a\n2000 1000 fft.b\n'
    """
    owner = next(f"{kind} {document[kind]}" for kind in ("program", "process") if kind in document)
    ranges = sorted((start, size, name) for name, start, size in document["ranges"] if size)
    return f"{owner}\n" + "".join(f"{start:x} {size:x} {name}\n" for start, size, name in ranges)
