"""Servers that a fixture starts and ends."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Protocol


class Server(Protocol):
    """A broker, a cluster or a ZooKeeper server."""

    def start(self) -> None:
        """Return when it serves."""


@contextlib.contextmanager
def running(server: Server, end: Callable[[], object]) -> Iterator[None]:
    """Start a server, and end it afterwards, also when its start fails."""
    try:
        server.start()
        yield
    finally:
        end()
