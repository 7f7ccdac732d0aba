"""What a capture needs of libbpf (`libbpf.so.1`, <https://libbpf.readthedocs.io>), through ctypes.

libbpf fits a compiled program to the running kernel, loads it, and attaches it. All it makes dies with its file
descriptors: whatever ends this process, nothing stays in the kernel.
"""

import ctypes
import errno
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from servsim.errors import EnvironmentProblem

#: The library by the name that all of its versions 1.x have.
LIBRARY = "libbpf.so.1"
#: Kind of a type of whole numbers with names, in the kernel's description of its types (Linux, uapi/linux/btf.h).
_ENUM = 6

_POINTER, _TEXT, _WHOLE, _SIZE = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t
_FUNCTIONS: dict[str, tuple[type | None, tuple[type, ...]]] = {
    "libbpf_set_print": (_POINTER, (_POINTER,)),
    "bpf_object__open_mem": (_POINTER, (_TEXT, _SIZE, _POINTER)),
    "bpf_object__load": (_WHOLE, (_POINTER,)),
    "bpf_object__close": (None, (_POINTER,)),
    "bpf_object__find_map_by_name": (_POINTER, (_POINTER, _TEXT)),
    "bpf_object__find_program_by_name": (_POINTER, (_POINTER, _TEXT)),
    "bpf_map__set_max_entries": (_WHOLE, (_POINTER, ctypes.c_uint32)),
    "bpf_map__set_initial_value": (_WHOLE, (_POINTER, _TEXT, _SIZE)),
    "bpf_map__fd": (_WHOLE, (_POINTER,)),
    "bpf_program__fd": (_WHOLE, (_POINTER,)),
    "bpf_program__attach": (_POINTER, (_POINTER,)),
    "bpf_link__destroy": (_WHOLE, (_POINTER,)),
    "btf__load_vmlinux_btf": (_POINTER, ()),
    "btf__find_by_name_kind": (ctypes.c_int32, (_POINTER, _TEXT, ctypes.c_uint32)),
    "btf__type_by_id": (_POINTER, (_POINTER, ctypes.c_uint32)),
    "btf__name_by_offset": (_TEXT, (_POINTER, ctypes.c_uint32)),
    "btf__free": (None, (_POINTER,)),
}


@cache
def library() -> ctypes.CDLL:
    """Return the library.

    Raises
    ------
    servsim.errors.EnvironmentProblem
        When it is not installed.
    """
    try:
        found = ctypes.CDLL(LIBRARY, use_errno=True)
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(found, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError):
        raise EnvironmentProblem(f"{LIBRARY} is not installed (`apt-get install libbpf1`)") from None
    # It says nothing by itself: what goes wrong is told by what it returns.
    found.libbpf_set_print(None)
    return found


def _problem(what: str, code: int = 0) -> EnvironmentProblem:
    code = abs(code) or ctypes.get_errno()
    remedy = " (capture as root)" if code in (errno.EPERM, errno.EACCES) and os.geteuid() != 0 else ""
    return EnvironmentProblem(f"{what}: {os.strerror(code)}{remedy}")


@contextmanager
def _kernel_types() -> Iterator[int]:
    types = library().btf__load_vmlinux_btf()
    if not types:
        raise _problem("this kernel does not describe its types (CONFIG_DEBUG_INFO_BTF)")
    try:
        yield types
    finally:
        library().btf__free(types)


def enumerators(*names: str) -> dict[str, int]:
    """Return the names and values of the first of the kernel's enumerations that exists.

    Raises
    ------
    servsim.errors.EnvironmentProblem
        When the kernel does not describe its types, or has no such enumeration.
    """
    with _kernel_types() as types:
        lib = library()
        for name in names:
            number = lib.btf__find_by_name_kind(types, name.encode(), _ENUM)
            if number < 0:
                continue
            at = lib.btf__type_by_id(types, number)
            _, info, _ = struct.unpack("=3I", ctypes.string_at(at, 12))
            entries = struct.iter_unpack("=Ii", ctypes.string_at(at + 12, 8 * (info & 0xFFFF)))
            return {lib.btf__name_by_offset(types, text).decode(): value for text, value in entries}
    raise EnvironmentProblem(f"this kernel has no enumeration {' or '.join(names)}")


class Program:
    """A compiled program in the kernel, from loading to closing.

    Parameters
    ----------
    code
        The object file that clang makes.
    entries
        Places of maps, by name of the map.
    constants
        What the program's constants are, as they lie in memory.

    Raises
    ------
    servsim.errors.EnvironmentProblem
        When the kernel or libbpf refuses it.
    """

    def __init__(self, code: bytes, entries: dict[str, int], constants: bytes) -> None:
        self._links: list[int] = []
        self._lib = library()
        self._object = self._lib.bpf_object__open_mem(code, len(code), None)
        if not self._object:
            raise _problem("libbpf cannot read the capture program")
        try:
            for name, count in entries.items():
                self._check(self._lib.bpf_map__set_max_entries(self._map(name), count))
            self._check(self._lib.bpf_map__set_initial_value(self._map(".rodata"), constants, len(constants)))
            self._check(self._lib.bpf_object__load(self._object))
        except BaseException:
            self.close()
            raise

    def _check(self, code: int) -> None:
        if code < 0:
            raise _problem("this kernel refuses the capture program", code)

    def _map(self, name: str) -> int:
        found: int | None = self._lib.bpf_object__find_map_by_name(self._object, name.encode())
        if not found:
            raise _problem(f"the capture program has no map {name}")
        return found

    def _program(self, name: str) -> int:
        found: int | None = self._lib.bpf_object__find_program_by_name(self._object, name.encode())
        if not found:
            raise _problem(f"the capture program has no part {name}")
        return found

    def map_descriptor(self, name: str) -> int:
        """Return the file descriptor of a map; it stays the program's."""
        return int(self._lib.bpf_map__fd(self._map(name)))

    def attach(self, *names: str) -> None:
        """Let these parts run from now on."""
        for name in names:
            link = self._lib.bpf_program__attach(self._program(name))
            if not link:
                raise _problem(f"this kernel does not attach the capture program's {name}")
            self._links.append(link)

    def detach(self) -> None:
        """Let no part run from now on."""
        while self._links:
            self._lib.bpf_link__destroy(self._links.pop(0))

    def missed(self, *names: str) -> int:
        """Return how often parts were not run because they were running on the same processor already."""
        missed = 0
        for name in names:
            descriptor = self._lib.bpf_program__fd(self._program(name))
            told = Path(f"/proc/self/fdinfo/{descriptor}").read_text(encoding="ascii").splitlines()
            missed += sum(int(line.split()[1]) for line in told if line.startswith("recursion_misses:"))
        return missed

    def close(self) -> None:
        """Take all of it out of the kernel."""
        self.detach()
        if self._object:
            self._lib.bpf_object__close(self._object)
            self._object = None
