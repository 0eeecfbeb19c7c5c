"""Connections by listener, under Kafka's name. The event loop counts as its one network thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.net.server import NetServer

_COUNT = "kafka.server:type=socket-server-metrics,listener={},networkProcessor=0,name=connection-count"


def connection_counts(net: NetServer) -> Iterator[tuple[str, int]]:
    """The number of connections of each listener."""
    counts = Counter(connection.listener for connection in net.connections)
    for name in dict.fromkeys(listener.name for listener in net.listeners):
        yield _COUNT.format(name), counts[name]
