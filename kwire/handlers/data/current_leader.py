"""Who leads instead: what a Produce or Fetch that came to the wrong broker is told at once (KIP-951).

The client need not ask for metadata then: it has the leader, its epoch, and under which address it is reached.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from kwire.base.errors import ErrorCode
from kwire.handlers.context import RequestContext
from kwire.handlers.topic_metadata import reachable_brokers

Leader = TypeVar("Leader")

OVERTAKEN: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


def current_leader(
    context: RequestContext, topic: str | bytes, index: int, error: ErrorCode, struct: type[Leader]
) -> Leader:
    """Leader (-1: none at the moment) and epoch of a partition, as the message's own ``LeaderIdAndEpoch``. Empty where
    this broker does not know better than its client: the topic is gone, or it believes to lead itself (it is fenced).
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
    """The brokers among ``leaders`` under the addresses by which this client reaches them, as ``NodeEndpoint``."""
    return [
        struct(node_id=broker.id, host=host, port=port, rack=broker.rack)
        for broker, host, port in reachable_brokers(context.services.image, context)
        if broker.id in leaders
    ]
