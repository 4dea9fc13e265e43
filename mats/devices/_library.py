"""The native module, opened through ctypes so that a launch lets other Python threads run."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping

from mats.device import Buffer, DeviceError, HostBuffer
from mats.kernel import bind, kernels

MISSING = (
    "the kernels are not built for this machine's processor: install a C++ compiler "
    "(Debian, Ubuntu: apt-get install g++ python3-dev), then reinstall mats"
)


@functools.cache
def library() -> ctypes.CDLL:
    """The C interface of ``mats.devices._native``. Raises DeviceError where it was not built."""
    try:
        from mats.devices import _native  # type: ignore[attr-defined]
    except ImportError as error:
        raise DeviceError(MISSING) from error
    opened = ctypes.CDLL(_native.__file__)
    pointer, word, size = ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_size_t
    signatures: dict[str, tuple[object, list[object]]] = {
        "mats_host_launch": (ctypes.c_double, [ctypes.c_char_p, pointer, ctypes.c_uint]),
        "mats_host_instructions": (ctypes.c_char_p, []),
        "mats_host_allocate": (pointer, [size, ctypes.POINTER(ctypes.c_int)]),
        "mats_host_free": (None, [pointer, size]),
        "mats_sim_create": (pointer, [pointer, pointer, ctypes.c_uint, word]),
        "mats_sim_destroy": (None, [pointer]),
        "mats_sim_map": (None, [pointer, pointer, size, pointer]),
        "mats_sim_unmap": (None, [pointer, pointer]),
        "mats_sim_time": (None, [pointer, ctypes.c_double]),
        "mats_sim_away": (None, [pointer, ctypes.c_double]),
        "mats_sim_call": (ctypes.c_longlong, [pointer, ctypes.c_char_p, pointer, ctypes.c_uint]),
        "mats_sim_walked": (ctypes.c_double, [pointer]),
        "mats_sim_fetch": (None, [pointer, pointer, pointer, size]),
        "mats_sim_place": (None, [pointer, word, pointer]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(opened, name)
        function.restype, function.argtypes = result, arguments
    return opened


def pack(
    kernel: str, tiles: int, arguments: Mapping[str, Buffer | int]
) -> tuple[ctypes.Array[ctypes.c_void_p], object]:
    """Pointers to 8-byte slots that hold the arguments in order, and what must be kept alive beside them."""
    if kernel not in kernels():
        raise TypeError(f"no kernel named {kernel!r}")
    bound = bind(kernels()[kernel], tiles, arguments)
    slots = (ctypes.c_ulonglong * len(bound))(*(value for _, value in bound))
    base = ctypes.addressof(slots)
    return (ctypes.c_void_p * len(bound))(*(base + 8 * i for i in range(len(bound)))), slots


def allocate(size: int) -> tuple[int, bool]:
    """Address of ``size`` bytes (rounded up to 2 MiB) of host memory, and whether it is locked; 0 when refused."""
    locked = ctypes.c_int(0)
    address = library().mats_host_allocate(rounded(size), ctypes.byref(locked))
    return address or 0, bool(locked.value)


def release(address: int, size: int) -> None:
    library().mats_host_free(address, rounded(size))


def rounded(size: int) -> int:
    """``size`` in bytes rounded up to whole 2 MiB pages."""
    return -(-size // (2 << 20)) * (2 << 20)


def plan_copy(
    destination: Buffer | HostBuffer, source: Buffer | HostBuffer | bytes, offset: int, repeats: int
) -> tuple[int | bytes, int]:
    """Where a copy of all of ``source`` starts, and its bytes. Raises DeviceError where it would not fit."""
    start, size = (source, len(source)) if isinstance(source, bytes) else (source.address, source.size)
    if offset < 0 or offset + size > destination.size:
        raise DeviceError(f"a copy of {size} bytes to offset {offset} does not fit {destination.size} bytes")
    if repeats < 1:
        raise DeviceError(f"a copy cannot be made {repeats} times")
    return start, size
