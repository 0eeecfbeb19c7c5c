"""Processes beside a broker take time that nothing else wants, and an ordinary share where that would be none."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from harness.processes.brokers import wait_until
from harness.waiting import PATIENCE_S
from kwire.base.processes.priority import CALM_S, PAUSE_MAX_S, PAUSE_S, Pauses, may_idle

WORKING = """
import time
from kwire.base.processes.priority import yield_to_others

yield_to_others()
while True:
    end_s = time.monotonic() + 0.02
    while time.monotonic() < end_s:
        pass
    time.sleep(0.05)
"""


@pytest.fixture
def process() -> Iterator[int]:
    """A process that works now and then."""
    if not may_idle():
        pytest.skip("the policy SCHED_IDLE is not there, or this user may not give it up")
    with subprocess.Popen([sys.executable, "-c", WORKING]) as started:
        try:
            yield started.pid
        finally:
            started.kill()


def wait_for(process: int, policy: int) -> None:
    wait_until(lambda: os.sched_getscheduler(process) == policy, PATIENCE_S, f"policy {policy}")


def test_a_process_that_is_starved_becomes_ordinary(process: int) -> None:
    wait_for(process, os.SCHED_IDLE)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in os.sched_getaffinity(0)]
    try:
        wait_for(process, os.SCHED_OTHER)
    finally:
        for each in busy:
            each.kill()
            each.wait()


def test_a_policy_that_somebody_chose_stays() -> None:
    found: list[bool] = []

    def chosen() -> None:
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        found.append(may_idle())

    thread = threading.Thread(target=chosen)
    thread.start()
    thread.join()
    assert found == [False]


def test_pauses_become_longer_until_there_was_calm() -> None:
    now_s = 0.0
    pauses = Pauses(lambda: now_s)
    found = []
    for _ in range(9):
        found.append(pauses.next_s())
        now_s += found[-1] + 1
    assert found[:3] == [PAUSE_S, 2 * PAUSE_S, 4 * PAUSE_S]
    assert found[-1] == PAUSE_MAX_S
    now_s += CALM_S
    assert pauses.next_s() == PAUSE_S
