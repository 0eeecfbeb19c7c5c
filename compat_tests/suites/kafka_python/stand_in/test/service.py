"""The module `test.service`, which kafka-python's fixtures import and its source package leaves out.

`ExternalService` is a running broker, whose address is in KAFKA_URI; the suite runs with it. `SpawnedService` would
start a broker from a distribution's scripts (for TLS), which are not here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ExternalService:
    """A running broker, started and stopped elsewhere."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def stop(self) -> None:
        """The broker is stopped elsewhere."""

    def dump_logs(self) -> None:
        """The broker's log is elsewhere."""


class SpawnedService:
    """A broker that the fixtures start; not available."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        raise RuntimeError("needs a Kafka distribution with its scripts; only KAFKA_URI is supported")
