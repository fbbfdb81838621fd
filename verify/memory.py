"""The C library's allocator, told to keep what it has."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3)


def quick_memory() -> None:
    """Ask glibc to keep freed memory for this process.

    By default every large tensor is mapped and unmapped, and its pages fault in anew: up to half
    the time of a training step. With another C library nothing happens.
    """
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(_MMAP_THRESHOLD, 2**31 - 1)
        libc.mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        libc.mallopt(_TOP_PAD, 1 << 28)
    except (OSError, AttributeError, TypeError):
        pass
