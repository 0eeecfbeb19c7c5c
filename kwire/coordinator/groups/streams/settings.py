"""The configuration of one streams group: its own properties, and the broker's for those that it does not set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from kwire.coordinator.groups.consumer.topics import Topics

if TYPE_CHECKING:
    from kwire.coordinator.groups.group import GroupSettings

STANDBY_REPLICAS: Final = "num.standby.replicas"
"""The name under which the record of the group epoch has `streams.num.standby.replicas`."""


class StreamsSettings(NamedTuple):
    """Times in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int
    initial_rebalance_delay_ms: int
    assignment_interval_ms: int
    standby_replicas: int

    @property
    def assignment_configs(self) -> Mapping[str, str]:
        """What the assignment depends on. The group epoch is bumped when it changes."""
        return {STANDBY_REPLICAS: str(self.standby_replicas)}


def settings_of(group_id: str, topics: Topics, broker: GroupSettings) -> StreamsSettings:
    """The present configuration of a group. Values outside the broker's present limits become the nearest limit."""
    own = topics.group_config(group_id)

    def value(name: str, default: int, low: int, high: int) -> int:
        text = own.get(f"streams.{name}")
        return default if text is None else min(max(int(text), low), high)

    delay = own.get("streams.initial.rebalance.delay.ms")
    return StreamsSettings(
        value(
            "session.timeout.ms",
            broker.group_streams_session_timeout_ms,
            broker.group_streams_min_session_timeout_ms,
            broker.group_streams_max_session_timeout_ms,
        ),
        value(
            "heartbeat.interval.ms",
            broker.group_streams_heartbeat_interval_ms,
            broker.group_streams_min_heartbeat_interval_ms,
            broker.group_streams_max_heartbeat_interval_ms,
        ),
        broker.group_streams_initial_rebalance_delay_ms if delay is None else int(delay),
        value(
            "assignment.interval.ms",
            broker.group_streams_assignment_interval_ms,
            broker.group_streams_min_assignment_interval_ms,
            broker.group_streams_max_assignment_interval_ms,
        ),
        value(
            "num.standby.replicas",
            broker.group_streams_num_standby_replicas,
            0,
            broker.group_streams_max_standby_replicas,
        ),
    )
