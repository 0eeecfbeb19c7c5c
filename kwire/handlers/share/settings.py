"""The present configuration of a share group: its own properties, and the broker's where it has none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kwire.base.config import KafkaConfig
from kwire.share.values import Limits

LATEST: Final = "latest"
EARLIEST: Final = "earliest"


class ShareSettings(NamedTuple):
    """``limits`` of the share partitions, whether only committed records are delivered, and where a new group begins:
    ``offset_reset`` is ``earliest``, ``latest`` or ``by_duration:`` and an ISO 8601 duration."""

    limits: Limits
    committed_only: bool
    offset_reset: str


def settings_of(own: Mapping[str, str], broker: KafkaConfig) -> ShareSettings:
    """The settings of a group. ``own`` are the properties that are set for it; values outside the broker's present
    limits become the nearest limit, as in Kafka."""

    def value(name: str, default: int, low: int, high: int) -> int:
        text = own.get(name)
        return default if text is None else min(max(int(text), low), high)

    limits = Limits(
        max_record_locks=value(
            "share.partition.max.record.locks",
            broker.group_share_partition_max_record_locks,
            broker.group_share_min_partition_max_record_locks,
            broker.group_share_max_partition_max_record_locks,
        ),
        delivery_count_limit=value(
            "share.delivery.count.limit",
            broker.group_share_delivery_count_limit,
            broker.group_share_min_delivery_count_limit,
            broker.group_share_max_delivery_count_limit,
        ),
        lock_duration_ms=value(
            "share.record.lock.duration.ms",
            broker.group_share_record_lock_duration_ms,
            broker.group_share_min_record_lock_duration_ms,
            broker.group_share_max_record_lock_duration_ms,
        ),
        renew_enabled=own.get("share.renew.acknowledge.enable", "true").lower() == "true",
    )
    return ShareSettings(
        limits,
        own.get("share.isolation.level", "").lower() == "read_committed",
        own.get("share.auto.offset.reset", LATEST),
    )
