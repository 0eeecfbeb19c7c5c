"""The configuration of one share group: the broker's properties, and those of the group itself (IncrementalAlterConfigs
for GROUP)."""

from __future__ import annotations

from typing import NamedTuple

from kwire.coordinator.groups.consumer.topics import Topics
from kwire.coordinator.groups.group import GroupSettings


class ShareSettings(NamedTuple):
    """See the module."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    assignment_interval_ms: int


def settings_of(group_id: str, topics: Topics, broker: GroupSettings) -> ShareSettings:
    """The present configuration of a group. Values outside the broker's present limits become the nearest limit."""
    own = topics.group_config(group_id)

    def value(name: str, default: int, low: int, high: int) -> int:
        text = own.get(f"share.{name}")
        return default if text is None else min(max(int(text), low), high)

    return ShareSettings(
        value(
            "session.timeout.ms",
            broker.group_share_session_timeout_ms,
            broker.group_share_min_session_timeout_ms,
            broker.group_share_max_session_timeout_ms,
        ),
        value(
            "heartbeat.interval.ms",
            broker.group_share_heartbeat_interval_ms,
            broker.group_share_min_heartbeat_interval_ms,
            broker.group_share_max_heartbeat_interval_ms,
        ),
        value(
            "assignment.interval.ms",
            broker.group_share_assignment_interval_ms,
            broker.group_share_min_assignment_interval_ms,
            broker.group_share_max_assignment_interval_ms,
        ),
    )
