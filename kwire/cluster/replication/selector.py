"""Which replica a consumer should read from (KIP-392), by the rules of Kafka's `RackAwareReplicaSelector`, the only
value of `replica.selector.class` that is taken. Pure functions.

What lives elsewhere: how far followers are (`followers`), serving consumers from a follower
(`kwire.handlers.data.fetch.handler`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.replication.partition import Partition


def closest(partition: Partition, offset: int, rack: str | None, listener: str, image: ClusterImage) -> int | None:
    """The follower in the consumer's rack that it should ask instead of this leader; None: stay.

    Only replicas count that are in sync, have ``offset``, and can be reached through the ``listener`` that the consumer
    uses. A leader in the same rack is left to no follower; of several followers it is the one with the most, then the
    one that was at the leader's end last, then the highest number.
    """
    if not rack:
        return None
    leader = image.brokers.get(partition.leader)
    if leader is not None and leader.rack == rack and listener in leader.endpoints:
        return None
    near = []
    for replica, follower in partition.in_sync_followers():
        broker = image.brokers.get(replica)
        if broker is None or broker.rack != rack or listener not in broker.endpoints:
            continue
        if follower.start_offset <= offset <= follower.end_offset:
            near.append((follower.end_offset, follower.last_caught_up_ms, replica))
    return max(near)[2] if near else None
