"""A thread that asks for short slices of processor time has them, and nothing that it starts."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest

from harness.processes.brokers import wait_until
from harness.waiting import PATIENCE_S
from kwire.base.processes.wakeups import SLICE_NS, ask_soon, run_at_once, slice_ns
from kwire.testing import KwireProcess

IN_THREAD = "import os; from kwire.base.processes.wakeups import slice_ns; print(slice_ns(os.getpid()))"


def in_thread() -> tuple[int | None, int, str]:
    """The slice of a thread that asked for short ones, its niceness, and the slice of a process that it started."""
    found: list[tuple[int | None, int, str]] = []

    def ask() -> None:
        thread = threading.get_native_id()
        os.setpriority(os.PRIO_PROCESS, thread, 3)
        run_at_once(thread)
        child = subprocess.run([sys.executable, "-c", IN_THREAD], stdout=subprocess.PIPE, text=True, check=True)
        found.append((slice_ns(thread), os.getpriority(os.PRIO_PROCESS, thread), child.stdout.strip()))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return found[0]


@pytest.fixture
def ordinary() -> int:
    """The slice of threads that have not asked."""
    own = slice_ns(threading.get_native_id())
    if own is None:
        pytest.skip("Linux before 6.12 has no slices of threads")
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        pytest.skip("the tests run with another policy, which a broker leaves as it is")
    return own


def test_a_thread_keeps_its_niceness_and_starts_ordinary_processes(ordinary: int) -> None:
    assert ordinary > SLICE_NS
    assert in_thread() == (SLICE_NS, 3, str(ordinary))


def test_a_broker_asks_once_it_is_ready(ordinary: int) -> None:
    with KwireProcess() as broker:
        wait_until(lambda: slice_ns(broker.pid) == SLICE_NS, PATIENCE_S, "the broker's slices")


def test_nothing_happens_to_a_thread_whose_policy_was_chosen(ordinary: int) -> None:
    found: list[int] = []

    def chosen() -> None:
        thread = threading.get_native_id()
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
        ask_soon(thread)
        for each in threading.enumerate():
            if each.name == "kwire-wakeups":
                each.join()
        found.append(os.sched_getscheduler(0))

    thread = threading.Thread(target=chosen)
    thread.start()
    thread.join()
    assert found == [os.SCHED_BATCH]
