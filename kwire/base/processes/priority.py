"""The share of the processors that processes beside a broker take: it and its clients go first.

Niceness alone does not help much: a process that has just begun to run goes on for a few milliseconds, and whoever
wakes up meanwhile, as brokers do all the time, waits. Linux lets anybody run at once in place of a thread with the
policy SCHED_IDLE, and sends threads that wake up to processors on which there is nothing else.

Where all processors are busy such threads get next to nothing once they have run for a moment. So a thread looks how
long the others had to wait for a processor: while it is long, they have the ordinary policy. That must be permitted;
without permission, and on other systems, there is niceness alone.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

NICENESS: Final = 5
"""The lowest of a process that has stepped back."""

LOOK_S: Final = 0.25
WAITED_S: Final = 0.15
"""Threads that waited for processors for so long between two looks are starved."""
PAUSE_S: Final = 5.0
"""So long threads are ordinary after that; twice as long each time that it happens again, up to `PAUSE_MAX_S`."""
PAUSE_MAX_S: Final = 320.0
CALM_S: Final = 60.0
"""When nothing has happened for so long, the next pause is a short one."""

_THREADS: Final = Path("/proc/self/task")


def step_back() -> None:
    """Lower the priority of this process, at its start."""
    os.nice(max(NICENESS - os.nice(0), 0))
    if os.getsid(0) == os.getpid():  # as the console of `kwire start --console`
        # Linux may share processors between sessions first (autogroup); niceness then counts within a session only.
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(NICENESS))


def may_idle() -> bool:
    """Whether a thread may take the policy SCHED_IDLE and give it up again (root, CAP_SYS_NICE, RLIMIT_NICE), and
    nobody has chosen another policy for this process."""
    if not hasattr(os, "SCHED_IDLE") or os.sched_getscheduler(0) != os.SCHED_OTHER:
        return False
    permitted: list[bool] = []

    def try_it() -> None:  # in a thread of its own, which would have to keep the policy
        try:
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        except OSError:
            permitted.append(False)
        else:
            permitted.append(True)

    thread = threading.Thread(target=try_it)
    thread.start()
    thread.join()
    return permitted[0]


class Pauses:
    """How long threads are ordinary each time that they were starved. ``clock``: seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_s = -CALM_S
        self._pause_s = PAUSE_S

    def next_s(self) -> float:
        """The next one, which begins now."""
        now_s = self._clock()
        self._pause_s = PAUSE_S if now_s - self._last_s >= CALM_S else min(self._pause_s * 2, PAUSE_MAX_S)
        self._last_s = now_s + self._pause_s
        return self._pause_s


def yield_to_others() -> None:
    """Give the threads of this process the policy SCHED_IDLE while they are not starved, if that is permitted. From now
    on a thread sees to it."""
    if may_idle() and Path("/proc/self/schedstat").exists():
        threading.Thread(target=_watch, name="kwire-priority", daemon=True).start()


def _watch() -> None:
    own, pauses = threading.get_native_id(), Pauses()
    _set_policy(os.SCHED_IDLE, besides=own)
    before_s = _waited_s()
    while True:
        time.sleep(LOOK_S)
        now_s = _waited_s()
        if now_s - before_s > WAITED_S:
            _set_policy(os.SCHED_OTHER, besides=own)
            time.sleep(pauses.next_s())
            _set_policy(os.SCHED_IDLE, besides=own)
            now_s = _waited_s()
        before_s = now_s


def _waited_s() -> float:
    """How long all threads that there are were ready to run, and did not."""
    waited_ns = 0
    for each in _THREADS.iterdir():
        with suppress(OSError):  # it has ended
            waited_ns += int((each / "schedstat").read_text().split()[1])
    return waited_ns / 1e9


def _set_policy(policy: int, besides: int) -> None:
    """Of all threads but one. Those that they start have it, too."""
    for each in _THREADS.iterdir():
        if int(each.name) != besides:
            with suppress(OSError):  # it has ended
                os.sched_setscheduler(int(each.name), policy, os.sched_param(0))
