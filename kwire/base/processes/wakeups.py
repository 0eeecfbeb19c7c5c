"""How soon a thread runs once it wakes up, where other processes compete for the processors.

Linux (from 6.12 on, with its scheduler EEVDF) lets whoever runs go on until its time slice is over, which it notices at
a timer tick: so a request could wait for up to four milliseconds while somebody's browser, say, draws a page. A thread
that asks for shorter slices runs at once when it wakes up, as long as it takes no more than its share. Anybody may ask.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from struct import Struct
from typing import Final

SLICE_NS: Final = 100_000
"""The shortest that Linux gives."""

_ATTRIBUTES: Final = Struct("=IIQiIQQQ")
"""`struct sched_attr`: size, policy, flags, niceness, priority, slice, deadline, period."""
_RESET_ON_FORK: Final = 1
"""What the thread starts has ordinary slices."""
_NUMBERS: Final = {"x86_64": (314, 315), "aarch64": (274, 275), "riscv64": (274, 275)}
"""The system calls sched_setattr and sched_getattr."""


def run_at_once(thread: int) -> None:
    """Have a thread (its native id) of this process run at once when it wakes up. Does nothing where that is not to be
    had, or somebody has chosen another policy than the ordinary one."""
    if sys.platform != "linux" or os.sched_getscheduler(thread) != os.SCHED_OTHER:
        return
    niceness = os.getpriority(os.PRIO_PROCESS, thread)
    with suppress(OSError):
        _call(0, thread, [_ATTRIBUTES.size, os.SCHED_OTHER, _RESET_ON_FORK, niceness, 0, SLICE_NS, 0, 0])


def ask_soon(thread: int) -> None:
    """`run_at_once`, elsewhere: what it needs takes some milliseconds to load."""
    threading.Thread(target=run_at_once, args=(thread,), name="kwire-wakeups", daemon=True).start()


def slice_ns(thread: int) -> int | None:
    """The slice of a thread of any process; None where there is no such thing."""
    if sys.platform != "linux":
        return None
    try:
        return _call(1, thread, [0] * 8)[5] or None
    except OSError:
        return None


def _call(which: int, thread: int, values: list[int]) -> tuple[int, ...]:
    """Make one of the two system calls. OSError."""
    import ctypes

    numbers = _NUMBERS.get(os.uname().machine)
    if numbers is None or sys.maxsize < 2**32:
        raise OSError
    attributes = ctypes.create_string_buffer(_ATTRIBUTES.pack(*values), _ATTRIBUTES.size)
    size = [ctypes.c_uint(_ATTRIBUTES.size)] if which else []
    library = ctypes.CDLL(None, use_errno=True)
    if library.syscall(ctypes.c_long(numbers[which]), ctypes.c_int(thread), attributes, *size, ctypes.c_uint(0)):
        raise OSError(ctypes.get_errno(), "sched_setattr")
    return _ATTRIBUTES.unpack(attributes.raw)
