"""What kafka-python's fixtures import and its source package leaves out: how they hold a broker.

`ExternalService` is a broker that runs already, whose address is in KAFKA_URI; that is how the suite is run here.
Brokers that the fixtures start from a distribution's scripts (for TLS) cannot be: there are no scripts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class ExternalService:
    """A broker that others start and stop."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        """Nothing to open."""

    def close(self) -> None:
        """Nothing to close."""

    def stop(self) -> None:
        """Others stop it."""

    def dump_logs(self) -> None:
        """Others have its log."""


class SpawnedService:
    """A broker of the fixtures' own; not available."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        raise RuntimeError("needs a Kafka distribution with its scripts; only KAFKA_URI is supported")
