"""A console of the broker under test, in the tests' own process."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest_asyncio

from harness.console.asgi_client import AsgiClient
from harness.console.in_process import console as console_of
from harness.processes.brokers import Broker


@pytest_asyncio.fixture
async def console(broker: Broker) -> AsyncGenerator[AsgiClient]:
    """A console that may change the cluster."""
    async with console_of(broker.bootstrap, allow_changes=True) as client:
        yield client
