"""How Linux schedules what a measurement starts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def without_groups() -> Iterator[None]:
    """Processes that start meanwhile are scheduled one by one. By sessions (autogroup), one that takes only time that
    others leave (SCHED_IDLE) would do so in its own session, and keep brokers in theirs waiting for up to a timer tick.
    Only root may switch that off: nothing is done, if it is not allowed."""
    setting = Path("/proc/sys/kernel/sched_autogroup_enabled")
    try:
        before = setting.read_text()
        setting.write_text("0")
    except OSError:
        yield
        return
    try:
        yield
    finally:
        setting.write_text(before)
