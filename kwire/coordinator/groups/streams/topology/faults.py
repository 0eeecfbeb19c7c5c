"""The errors of topologies that can never work."""

from __future__ import annotations

from kwire.base.errors import ErrorCode, KafkaError


def invalid_topology(message: str) -> KafkaError:
    """A topology that Kafka recognises as invalid."""
    return KafkaError(ErrorCode.STREAMS_INVALID_TOPOLOGY, message)


def impossible(message: str) -> KafkaError:
    """A topology with which Kafka fails unexpectedly."""
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, message)
