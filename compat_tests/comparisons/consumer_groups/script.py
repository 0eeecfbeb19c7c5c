"""Scripts of raw requests to consumer groups: `compat_tests.comparisons.groups.script` and the requests of KIP-848."""

from __future__ import annotations

import re
import time
from typing import Any

from compat_tests.comparisons.groups.script import Script
from harness.processes.brokers import wait_for
from kwire.codec.messages.consumer_group_describe_request import ConsumerGroupDescribeRequest
from kwire.codec.messages.consumer_group_heartbeat_request import ConsumerGroupHeartbeatRequest, TopicPartitions
from kwire.codec.messages.list_groups_request import ListGroupsRequest

LONG_MS = 600_000
SEEN_S = 1.0
"""Apache Kafka's coordinator sees a change in the metadata later than Metadata shows it, and no response tells when."""
_OWN_ID = re.compile(r"[A-Za-z0-9_-]{22}")

Owned = dict[bytes, list[int]]


class ConsumerScript(Script):
    """A conversation about consumer groups of KIP-848."""

    def topic(self, name: str = "tt", partitions: int = 2) -> bytes:
        """Create a topic and wait for it, also at the group coordinator; returns its id."""
        topic_id = super().topic(name, partitions)
        if self.broker.kind == "kafka":
            time.sleep(SEEN_S)
        return topic_id

    def plain(self, value: Any, field: str = "") -> Any:
        """As in `Script`, with the fields of consumer groups sorted or named."""
        if field == "member_id" and isinstance(value, str) and _OWN_ID.fullmatch(value):
            return self._name(value, "member")
        plain = super().plain(value, field)
        if isinstance(plain, dict) and "group_epoch" in plain:
            plain["members"].sort(key=lambda member: member["member_id"])
        if field in ("topic_partitions", "subscribed_topic_names"):
            plain = sorted(plain, key=repr)
        return plain

    def beat(self, what: str, group: str, member: str, epoch: int, version: int = 1, **fields: Any) -> Any:
        """Send a ConsumerGroupHeartbeat. ``owned``: topic id -> partitions."""
        owned: Owned | None = fields.pop("owned", None)
        if owned is not None:
            fields["topic_partitions"] = [
                TopicPartitions(topic_id=topic_id, partitions=partitions) for topic_id, partitions in owned.items()
            ]
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch, **fields)
        return self.call(what, request, version)

    def beat_until_assigned(self, what: str, group: str, member: str, epoch: int) -> Any:
        """Send heartbeats until one is answered with an assignment, as the coordinator has seen a change of topics;
        record that response."""
        request = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=epoch)
        client = self.client()
        response = wait_for(lambda: client.call(request, 1), lambda one: one.assignment is not None, 20, what)
        return self.see(what, response)

    def enter(self, what: str, group: str, member: str, version: int = 1, **fields: Any) -> Any:
        """Join the group with member epoch 0."""
        fields.setdefault("rebalance_timeout_ms", LONG_MS)
        fields.setdefault("owned", {})
        if "subscribed_topic_regex" not in fields:
            fields.setdefault("subscribed_topic_names", ["tt"])
        return self.beat(what, group, member, 0, version, **fields)

    def look(self, group: str, version: int = 1) -> Any:
        """Record the group as ConsumerGroupDescribe and ListGroups return it."""
        response = self.watch("looks", ConsumerGroupDescribeRequest(group_ids=[group]), version)
        listed = self.client("watch").call(ListGroupsRequest(), 5).groups
        self.see("is listed", [one for one in listed if one.group_id == group])
        return response.groups[0]


def owned_of(response: Any) -> Owned | None:
    """The assignment in a heartbeat's response."""
    if response.assignment is None:
        return None
    return {topic.topic_id: sorted(topic.partitions) for topic in response.assignment.topic_partitions}
