"""Scripts of raw requests to streams groups: `compat_tests.comparisons.groups.script` and the requests of KIP-1071."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Mapping
from typing import Any

from compat_tests.comparisons.access.acls import LASTING_SESSIONS
from compat_tests.comparisons.groups.script import Script
from harness.processes.brokers import wait_until
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.list_groups_request import ListGroupsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.streams_group_describe_request import StreamsGroupDescribeRequest
from kwire.codec.messages.streams_group_heartbeat_request import (
    CopartitionGroup,
    Endpoint,
    KeyValue,
    StreamsGroupHeartbeatRequest,
    Subtopology,
    TaskIds,
    TopicInfo,
    Topology,
)
from kwire.codec.records import iter_headers, iter_records
from kwire.coordinator.groups.streams import records as streams_records

GROUP_RESOURCE = 32
LONG_MS = 600_000
SEEN_S = 1.0
"""Apache Kafka's coordinator sees a change in the metadata later than Metadata shows it, and no response tells when."""

SETTINGS = {
    **LASTING_SESSIONS,
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.min.session.timeout.ms": "500",
    "group.streams.min.heartbeat.interval.ms": "100",
    "num.partitions": "3",
}
"""Target assignments follow at once and sessions last, so that no test depends on the clock."""

Tasks = Mapping[str, Iterable[int]]


def topic_info(name: str, partitions: int = 0, **configs: str) -> TopicInfo:
    """An internal topic of a topology."""
    entries = [KeyValue(key=key.replace("_", "."), value=value) for key, value in configs.items()]
    return TopicInfo(name=name, partitions=partitions, topic_configs=entries)


def subtopology(
    one: str,
    sources: Iterable[str] = (),
    *,
    repartition: Iterable[TopicInfo] = (),
    sinks: Iterable[str] = (),
    changelogs: Iterable[TopicInfo] = (),
    together: CopartitionGroup | None = None,
) -> Subtopology:
    """A part of a topology. ``together``: the topics that must have equally many partitions."""
    return Subtopology(
        subtopology_id=one,
        source_topics=list(sources),
        repartition_source_topics=list(repartition),
        repartition_sink_topics=list(sinks),
        state_changelog_topics=list(changelogs),
        copartition_groups=[] if together is None else [together],
    )


def topology(*parts: Subtopology, epoch: int = 0) -> Topology:
    """A topology of these parts."""
    return Topology(epoch=epoch, subtopologies=list(parts))


def simple(topic: str, epoch: int = 0) -> Topology:
    """A topology that reads one topic and has no state."""
    return topology(subtopology("0", [topic]), epoch=epoch)


class StreamsScript(Script):
    """A conversation about streams groups of KIP-1071."""

    def topic(self, name: str = "tt", partitions: int = 2) -> bytes:
        """Create a topic and wait for it, also at the group coordinator; returns its id."""
        topic_id = super().topic(name, partitions)
        self.settle()
        return topic_id

    def settle(self) -> None:
        """Wait until the group coordinator knows the topics of the metadata."""
        if self.broker.kind == "kafka":
            time.sleep(SEEN_S)

    def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        self.client().call(DeleteTopicsRequest(topic_names=[name], timeout_ms=20_000), 5)
        self.settle()

    def wait_for_topic(self, name: str) -> None:
        """Wait until a topic exists that the broker creates, and record its number of partitions."""
        requested = MetadataRequest(topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=False)

        def there() -> bool:
            return bool(self.client().call(requested, 12).topics[0].error_code == 0)

        wait_until(there, 20, f"the topic {name}")
        self.see(f"partitions of {name}", len(self.client().call(requested, 12).topics[0].partitions))

    def plain(self, value: Any, field: str = "") -> Any:
        """As in `Script`, with the members of a group, their endpoints and the partitions behind them sorted: Apache
        Kafka's order depends on who was a member before, and on chance."""
        plain = super().plain(value, field)
        if field in ("partitions_by_user_endpoint", "active_partitions", "standby_partitions") and plain:
            return sorted(plain, key=repr)
        if isinstance(plain, dict) and "topology" in plain and "members" in plain:
            plain["members"].sort(key=lambda member: member["member_id"])
        if isinstance(plain, dict) and "status_code" in plain:
            return [plain["status_code"], plain["status_detail"]]
        if isinstance(plain, dict) and "error_message" in plain:
            plain["error_message"] = value.error_message
        return plain

    def beat(self, what: str, group: str, member: str, epoch: int, **fields: Any) -> Any:
        """Send a StreamsGroupHeartbeat. ``active``, ``standby``: subtopology id -> partitions (both or none);
        ``endpoint``: host and port."""
        active: Tasks | None = fields.pop("active", None)
        standby: Tasks | None = fields.pop("standby", None)
        if active is not None or standby is not None:
            fields["active_tasks"], fields["standby_tasks"] = _task_ids(active or {}), _task_ids(standby or {})
            fields.setdefault("warmup_tasks", [])
        if (endpoint := fields.pop("endpoint", None)) is not None:
            fields["user_endpoint"] = Endpoint(host=endpoint[0], port=endpoint[1])
        request = StreamsGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
        return self.call(what, request, 0)

    def enter(self, what: str, group: str, member: str, shape: Topology, **fields: Any) -> Any:
        """Join the group with member epoch 0. Each member is a process unless ``process_id`` is given."""
        fields.setdefault("rebalance_timeout_ms", LONG_MS)
        fields.setdefault("process_id", f"process-{member}")
        fields.setdefault("active", {})
        return self.beat(what, group, member, 0, topology=shape, **fields)

    def leave_out_tasks(self) -> None:
        """Leave the tasks out of the last observation. kwire repeats them if a response was lost; Apache Kafka does
        not, and the member never gets them."""
        for kind in ("active_tasks", "standby_tasks", "warmup_tasks"):
            self.seen[-1][1][kind] = None

    def configure(self, group: str, configs: Mapping[str, str]) -> None:
        """Set properties of the group."""
        resource = AlterConfigsResource(
            resource_type=GROUP_RESOURCE,
            resource_name=group,
            configs=[AlterableConfig(name=name, value=value) for name, value in configs.items()],
        )
        self.call("configure", IncrementalAlterConfigsRequest(resources=[resource]), 1)

    def look(self, group: str) -> Any:
        """Record the group as StreamsGroupDescribe and ListGroups return it."""
        response = self.watch("looks", StreamsGroupDescribeRequest(group_ids=[group]), 0)
        listed = self.client("watch").call(ListGroupsRequest(), 5).groups
        self.see("is listed", [one for one in listed if one.group_id == group])
        return response.groups[0]

    def written(self, group: str) -> None:
        """Record the group's records of KIP-1071 in ``__consumer_offsets``, without hashes and times."""
        found = []
        for path in sorted(self.broker.data_dir.glob("__consumer_offsets-*/*.log")):
            data = path.read_bytes()
            for position, header in iter_headers(data):
                if header.is_control:
                    continue
                for record in iter_records(memoryview(data)[position : position + header.size], max_bytes=1 << 24):
                    key = streams_records.parse_key(record.key or b"")
                    if key is not None and key.group_id == group:
                        found.append((record.offset, key, _value(key, record.value)))
        found.sort(key=lambda one: one[0])
        self.seen.append(
            ["records", [[type(key).__name__, self.plain(key), self.plain(value)] for _, key, value in found]]
        )


def _value(key: Any, value: bytes | None) -> Any:
    if value is None:
        return None
    parsed = streams_records.parse_value(key, value)
    for name in ("metadata_hash", "assignment_timestamp"):
        if hasattr(parsed, name):
            setattr(parsed, name, 0)
    return [struct.unpack_from(">h", value)[0], parsed]


def _task_ids(tasks: Tasks) -> list[TaskIds]:
    return [TaskIds(subtopology_id=one, partitions=list(partitions)) for one, partitions in tasks.items()]


def tasks_of(response: Any) -> tuple[dict[str, list[int]], dict[str, list[int]]]:
    """The active and standby tasks in a heartbeat's response."""
    active = {one.subtopology_id: list(one.partitions) for one in response.active_tasks or ()}
    return active, {one.subtopology_id: list(one.partitions) for one in response.standby_tasks or ()}
