"""Failures that nobody waits for make no noise; those that somebody waits for arrive."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from kwire.base.futures import fail


async def test_a_failure_that_nobody_waits_for_is_not_complained_of() -> None:
    loop = asyncio.get_running_loop()
    complaints: list[Any] = []
    loop.set_exception_handler(lambda _, context: complaints.append(context))
    future: asyncio.Future[None] = loop.create_future()
    fail(future, ValueError("gone"))
    del future
    gc.collect()
    assert complaints == []


async def test_a_failure_reaches_who_waits_for_it() -> None:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    fail(future, ValueError("gone"))
    fail(future, ValueError("again"))
    with pytest.raises(ValueError, match="gone"):
        await future
