from __future__ import annotations

import os

import pytest

from kwire.base.processes import HelperProcess, may_idle


async def test_a_helper_yields_for_a_while_and_then_works_as_others_do() -> None:
    if not may_idle():
        pytest.skip("the policy SCHED_IDLE is not there, or this user may not give it up")
    helper: HelperProcess[int, list[int]] = HelperProcess("tests.base.yielding_worker")
    try:
        assert await helper.call(2) == [os.SCHED_IDLE, os.SCHED_OTHER]
        assert await helper.call(1) == [os.SCHED_IDLE]
    finally:
        helper.kill()
        helper.close()
