from __future__ import annotations

import os

import pytest

from kwire.base.processes.helpers import HelperProcess
from kwire.base.processes.priority import may_idle


async def test_a_helper_yields() -> None:
    if not may_idle():
        pytest.skip("the policy SCHED_IDLE is not there, or this user may not give it up")
    helper: HelperProcess[int, int] = HelperProcess("tests.base.processes.yielding_worker")
    try:
        assert await helper.call(os.SCHED_IDLE) == os.SCHED_IDLE
    finally:
        helper.kill()
        helper.close()
