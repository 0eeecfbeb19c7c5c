"""A broker with a topic to look at."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest_asyncio

from harness.console.asgi_client import AsgiClient
from harness.console.in_process import broker, console, write
from kwire.cli.records.writing.encoding import Rows

GZIP = 1


@pytest_asyncio.fixture
async def client_of_t(tmp_path: Path) -> AsyncGenerator[AsgiClient]:
    """A console of a broker with the topic ``t``: 3,000 messages like each other in partition 0, among them a few that
    are not, and one in partition 1."""
    values: list[bytes | None] = [b"plain"] * 3000
    keys: list[bytes | None] = [None] * 3000
    headers: list[list[tuple[str, bytes | None]]] = [[]] * 3000
    values[1500] = b"a needle"
    keys[1506], keys[1507] = b"k6", b"k7"
    headers[1508] = [("h", b"yes")]
    values[1509] = b'{"user": {"id": 7}}'
    batches = [
        Rows(values[:1500]),
        Rows(values[1500:1510], keys[1500:1510], headers[1500:1510]),
        Rows(values[1510:]),
    ]
    async with broker(tmp_path) as bootstrap, console(bootstrap) as client:
        await write(bootstrap, "t", 0, *batches, partitions=2, compression=GZIP)
        await write(bootstrap, "t", 1, Rows([b"a" * 5000 + b"!" + b"a" * 5000]))
        yield client
