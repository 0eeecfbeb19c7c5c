"""A helper process whose response says which scheduling policies its request ran with, one after the other."""

from __future__ import annotations

import os
import time
from collections.abc import Generator

from harness.waiting import PATIENCE_S
from kwire.base.processes import serve

YIELDS_S = 0.1


def work(policies: int) -> Generator[int, None, list[int]]:
    """Work until there were so many."""
    found, end_s = [os.sched_getscheduler(0)], time.monotonic() + PATIENCE_S
    while len(found) < policies and time.monotonic() < end_s:
        if (policy := os.sched_getscheduler(0)) != found[-1]:
            found.append(policy)
    yield 0
    return found


if __name__ == "__main__":
    serve(work, yields_s=YIELDS_S)
