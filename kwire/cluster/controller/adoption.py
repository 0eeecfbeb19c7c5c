"""`adopt_logs`: registers the topics of data directories that another broker (Apache Kafka) wrote.

This is for a new cluster only, because then all logs in the data directories come from elsewhere. Topics are registered
under the ids in their `partition.metadata` files; a log without one gets a new id. Missing partitions below the highest
index are created empty. Logs do not contain topic properties, so the topics start with the broker's defaults.

What lives elsewhere: what happens to unknown logs later (`replica_manager`).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kwire.base.logging import get_logger
from kwire.base.uuids import ZERO_UUID
from kwire.cluster.controller.topics import name_problem

if TYPE_CHECKING:
    from kwire.cluster.controller.controller import Controller
    from kwire.log.partition.partition_log import PartitionLog

_logger = get_logger("kwire.cluster.adoption")


async def adopt_logs(controller: Controller, logs: Iterable[PartitionLog]) -> list[str]:
    """Register the topics of these logs; returns their names. Call it before the replica manager starts."""
    found: dict[str, dict[int, PartitionLog]] = {}
    for log in logs:
        if name_problem(log.topic) is None:
            found.setdefault(log.topic, {})[log.partition] = log
    topics: dict[str, tuple[bytes, int]] = {}
    for name in sorted(found):
        ids = sorted({log.topic_id for log in found[name].values()} - {ZERO_UUID})
        if len(ids) > 1:
            _logger.warning("topic not adopted: its logs have several topic ids", topic=name)
            continue
        topics[name] = (ids[0] if ids else ZERO_UUID, max(found[name]) + 1)
    return await controller.register_topics(topics)
