"""The settings of a share group."""

from __future__ import annotations

from kwire.base.config import KafkaConfig
from kwire.handlers.share.settings import settings_of


def test_properties_outside_limits_that_have_changed_become_the_nearest_limit() -> None:
    broker = KafkaConfig(
        {
            "group.share.min.record.lock.duration.ms": "20000",
            "group.share.max.delivery.count.limit": "6",
            "group.share.max.partition.max.record.locks": "3000",
        }
    )
    own = {
        "share.record.lock.duration.ms": "15000",
        "share.delivery.count.limit": "10",
        "share.partition.max.record.locks": "4000",
    }
    limits = settings_of(own, broker).limits
    assert (limits.lock_duration_ms, limits.delivery_count_limit, limits.max_record_locks) == (20000, 6, 3000)
    assert settings_of({}, broker).limits.lock_duration_ms == 30000
