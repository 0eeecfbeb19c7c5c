"""A helper process whose response is the scheduling policy that its request ran with in the end."""

from __future__ import annotations

import os
import time
from collections.abc import Generator

from harness.waiting import PATIENCE_S
from kwire.base.processes.helpers import serve


def work(policy: int) -> Generator[int, None, int]:
    """Work until it is this one."""
    end_s = time.monotonic() + PATIENCE_S
    while os.sched_getscheduler(0) != policy and time.monotonic() < end_s:
        pass
    yield 0
    return os.sched_getscheduler(0)


if __name__ == "__main__":
    serve(work, yields=True)
