"""Replica selection: which replica a consumer should fetch from (KIP-392). Pure functions.

The rules are those of Kafka's `RackAwareReplicaSelector`, the only supported value of `replica.selector.class`. What
lives elsewhere: the state of followers (`followers`), serving consumers from a follower
(`kwire.handlers.data.fetch.handler`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.cluster.metadata.image import ClusterImage
    from kwire.cluster.replication.partition import Partition


def closest(partition: Partition, offset: int, rack: str | None, listener: str, image: ClusterImage) -> int | None:
    """The follower in the consumer's rack that it should fetch from instead of this leader; None: this leader.

    A follower must be in sync, have ``offset``, and be reachable through the ``listener`` that the consumer uses. A
    leader in the consumer's rack is always preferred; of several followers, the one with the highest log end offset is
    taken, then the one that caught up last, then the one with the highest id.
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
