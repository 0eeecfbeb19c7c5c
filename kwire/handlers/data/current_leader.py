"""The current leader of a partition, for Produce and Fetch requests that came to the wrong broker (KIP-951).

The response has the new leader, its epoch and its address, so the client need not fetch metadata first.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from kwire.base.errors import ErrorCode
from kwire.handlers.context import RequestContext
from kwire.handlers.topic_metadata import reachable_brokers

Leader = TypeVar("Leader")

LEADER_CHANGED: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def current_leader(
    context: RequestContext, topic: str | bytes, index: int, error: ErrorCode, struct: type[Leader]
) -> Leader:
    """The leader (-1 for none) and the leader epoch of a partition, as the message's own ``LeaderIdAndEpoch``. Empty if
    this broker has no newer information than the client: the topic was deleted, or by its own metadata this broker is
    the leader (it is fenced).
    """
    image = context.services.image
    found = image.topic_by_id(topic) if isinstance(topic, bytes) else image.topic(topic)
    if found is None or not 0 <= index < len(found.partitions):
        return struct()
    state = found.partitions[index]
    if state.leader == context.services.broker_id and error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return struct()
    return struct(leader_id=state.leader, leader_epoch=state.leader_epoch)  # type: ignore[call-arg]


def endpoints(context: RequestContext, leaders: dict[int, None], struct: type[Any]) -> list[Any]:
    """The addresses of the leaders on the client's listener, as ``NodeEndpoint``."""
    return [
        struct(node_id=broker.id, host=host, port=port, rack=broker.rack)
        for broker, host, port in reachable_brokers(context.services.image, context)
        if broker.id in leaders
    ]
