"""What Kafka's ``raft-metrics`` show of the metadata quorum, in the sense of DescribeQuorum: kwire has no metadata log.

The controller is the leader, the controller epoch the leader epoch, and the revision of the metadata store that this
broker has seen is both high watermark and log end offset (`kwire.handlers.cluster.describe_quorum`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kwire.base.metrics import Number
    from kwire.cluster.metadata.image import MetadataCache


def quorum(metadata: MetadataCache) -> Iterator[tuple[str, dict[str, Number]]]:
    """The attributes of Kafka's MBean that have a meaning here."""
    image = metadata.image
    yield (
        "kafka.server:type=raft-metrics",
        {
            "current-leader": image.controller_id,
            "current-epoch": image.controller_epoch,
            "high-watermark": image.revision,
            "log-end-offset": image.revision,
        },
    )
