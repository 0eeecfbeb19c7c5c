"""Scripts of raw group requests, whose responses and visible effects must be the same on both brokers.

A `Script` sends requests over plain connections and records its observations as plain data. Values that differ between
runs (member ids, topic ids, times) are replaced by names in order of appearance. The records in ``__consumer_offsets``
are part of the observations, which the tests pass to `observe`.
"""

from __future__ import annotations

import re
import select
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from harness.processes.brokers import Broker, wait_until
from harness.wire_client import WireClient
from kwire.base.errors import ErrorCode
from kwire.codec.message import Struct
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.describe_groups_request import DescribeGroupsRequest
from kwire.codec.messages.find_coordinator_request import FindCoordinatorRequest
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.join_group_request import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.codec.messages.leave_group_request import LeaveGroupRequest, MemberIdentity
from kwire.codec.messages.leave_group_response import MemberResponse
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.offset_commit_request import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.codec.messages.offset_fetch_request import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from kwire.codec.messages.sync_group_request import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.codec.records import iter_headers, iter_records
from kwire.coordinator.groups import records as group_records

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_SORTED = {"groups", "members", "topics", "partitions", "results"}  # LeaveGroup's response keeps its order
_TIMES = {"current_state_timestamp", "commit_timestamp", "throttle_time_ms"}
_IN_OTHER_WORDS = {"error_message"}  # the texts differ between the brokers

SUBSCRIPTION = b"\0\0\0\0\0\1\0\2tt\xff\xff\xff\xff"
LONG_MS = 600_000
SETTLED_S = 0.05


class Script:
    """One test's conversation with a broker."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.seen: list[Any] = []
        self._names: dict[str, str] = {}
        self._clients: dict[str, WireClient] = {}
        self._topic_ids: dict[str, bytes] = {}

    # -- connections ---------------------------------------------------------------------------------------------------

    def client(self, name: str = "main") -> WireClient:
        """The connection with this name, which is its client id; opened on first use."""
        if name not in self._clients:
            self._clients[name] = WireClient(self.broker.bootstrap, client_id=name, timeout_s=30)
        return self._clients[name]

    def drop(self, name: str) -> None:
        """Close a connection."""
        self._clients.pop(name).close()

    def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- what was seen -------------------------------------------------------------------------------------------------

    def see(self, what: str, value: Any) -> Any:
        """Record a response under a few words; returns it."""
        self.seen.append([what, self.plain(value)])
        return value

    def plain(self, value: Any, field: str = "") -> Any:
        """The value as plain data that is the same in every run."""
        if isinstance(value, Struct):
            names = [name for name in value.__slots__ if name not in _TIMES]
            return {name: self.plain(getattr(value, name), name) for name in names}
        if isinstance(value, list | tuple):
            if field in _SORTED and not any(isinstance(item, MemberResponse) for item in value):
                return [self.plain(item) for item in sorted(value, key=self._order)]
            return [self.plain(item) for item in value]
        if field in _IN_OTHER_WORDS:
            return None if value is None else bool(value)
        if isinstance(value, str):
            return _UUID.sub(lambda match: self._name(match[0], "id"), value)
        if isinstance(value, bytes | memoryview):
            raw = bytes(value)
            return self._name(raw.hex(), "topic") if field == "topic_id" and any(raw) else "bytes:" + raw.hex()
        return int(value) if isinstance(value, int) and not isinstance(value, bool) else value

    def _order(self, item: Any) -> str:
        """The sort key of an item, without ids, which differ between runs."""
        text = _UUID.sub("", repr(item))
        for name, topic_id in self._topic_ids.items():
            text = text.replace(repr(topic_id), name)
        return text

    def _name(self, text: str, kind: str) -> str:
        return self._names.setdefault(text, f"{kind}{len(self._names)}")

    # -- requests ------------------------------------------------------------------------------------------------------

    def call(self, what: str, request: Any, version: int, client: str = "main") -> Any:
        """Send a request, wait for the response and record it."""
        return self.see(f"{what} v{version}", self.client(client).call(request, version))

    def send(self, request: Any, version: int, client: str) -> tuple[str, int, int, int]:
        """Send without waiting; the result is for `receive`."""
        return client, request.API_KEY, version, self.client(client).send(request, version)

    def receive(self, what: str, sent: tuple[str, int, int, int]) -> Any:
        """Wait for the response to an earlier request, and record it."""
        client, key, version, correlation_id = sent
        return self.see(what, self.client(client).receive(key, version, correlation_id))

    def is_parked(self, sent: tuple[str, int, int, int], for_s: float = 0.4) -> bool:
        """Whether no response arrives within ``for_s`` seconds."""
        return not select.select([self.client(sent[0]).socket], [], [], for_s)[0]

    # -- preparations --------------------------------------------------------------------------------------------------

    def ready(self, group: str) -> None:
        """Wait until the group's coordinator serves it."""
        request = FindCoordinatorRequest(key=group)
        wait_until(lambda: self.client().call(request, 2).error_code == 0, 20, "a coordinator")
        describe = DescribeGroupsRequest(groups=[group])
        wait_until(lambda: self.client().call(describe, 5).groups[0].error_code == 0, 20, "the coordinator's response")

    def topic(self, name: str = "tt", partitions: int = 2) -> bytes:
        """Create a topic and wait for it; returns its id."""
        new = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        self.client().call(CreateTopicsRequest(topics=[new], timeout_ms=20_000), 5)
        requested = MetadataRequest(topics=[MetadataRequestTopic(name=name)])

        def there() -> bool:
            found = self.client().call(requested, 12).topics[0]
            self._topic_ids[name] = found.topic_id
            return found.error_code == 0 and all(p.leader_id >= 0 for p in found.partitions)

        wait_until(there, 20, "the topic")
        self._name(self._topic_ids[name].hex(), "topic")
        return self._topic_ids[name]

    def state(self, group: str) -> str:
        """The group's state."""
        state: str = self.client("watch").call(DescribeGroupsRequest(groups=[group]), 5).groups[0].group_state
        return state

    def until(self, group: str, state: str, timeout_s: float = 20) -> None:
        """Wait until the group has a state."""
        wait_until(lambda: self.state(group) == state, timeout_s, f"{group} {state}")

    def describe(self, what: str, group: str, version: int = 6) -> Any:
        """Record the group in DescribeGroups."""
        return self.watch(what, DescribeGroupsRequest(groups=[group]), version)

    def describe_absent(self, what: str, group: str) -> None:
        """Record the description of a group that a refused request did not create.

        Apache Kafka keeps such a group in memory, and describes it as Empty once any other write to the partition of
        the offsets topic is committed. What it describes otherwise is recorded then.
        """
        self.describe(what, group)
        described = self.seen[-1][1]["groups"][0]
        if self.broker.kind == "kafka" and described["group_state"] == "Empty":
            described.update(error_code=int(ErrorCode.GROUP_ID_NOT_FOUND), error_message=True, group_state="Dead")

    def watch(self, what: str, request: Any, version: int) -> Any:
        """Send a request on a connection of no member, and record the response.

        Apache Kafka describes the state that it has written, which is a moment older than its responses (it batches
        records for `group.coordinator.append.linger.ms`): there, wait for two equal responses in a row.
        """
        last = "" if self.broker.kind == "kafka" else None
        while last is not None and (current := repr(self.client("watch").call(request, version))) != last:
            last = current
            time.sleep(SETTLED_S)
        return self.call(what, request, version, "watch")

    def written(self, group: str) -> None:
        """Record the group's records in ``__consumer_offsets``."""
        records = sorted(_group_records(self.broker.data_dir, group), key=lambda found: found[0])
        self.seen.append(["records", [[self.plain(key), self.plain(value)] for _, key, value in records]])


def _group_records(data_dir: Path, group: str) -> Iterable[tuple[int, Any, Any]]:
    for path in sorted(data_dir.glob("__consumer_offsets-*/*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            if header.is_control:  # the end of another test's transaction
                continue
            for record in iter_records(memoryview(data)[position : position + header.size], max_bytes=1 << 24):
                key = group_records.parse_key(record.key or b"")
                if key is not None and key.group == group:
                    yield record.offset, key, _value(record.key or b"", record.value)


def _value(key: bytes, value: bytes | None) -> Any:
    from kwire.codec.messages.group_metadata_value import GroupMetadataValue
    from kwire.codec.messages.offset_commit_value import OffsetCommitValue

    if value is None:
        return None
    kind = GroupMetadataValue if struct.unpack_from(">h", key)[0] == 2 else OffsetCommitValue
    version = struct.unpack_from(">h", value)[0]
    parsed = group_records.parse_value(kind, value)
    if isinstance(parsed, OffsetCommitValue) and parsed.expire_timestamp != -1:
        parsed.expire_timestamp -= parsed.commit_timestamp
    return [version, parsed]


# -- requests in few words ---------------------------------------------------------------------------------------------


def join(group: str, member_id: str = "", *, instance: str | None = None, **fields: Any) -> JoinGroupRequest:
    """A JoinGroupRequest; ``protocols``: name -> metadata."""
    protocols = fields.pop("protocols", {"range": SUBSCRIPTION})
    return JoinGroupRequest(
        **{
            "group_id": group,
            "session_timeout_ms": LONG_MS,
            "rebalance_timeout_ms": LONG_MS,
            "member_id": member_id,
            "group_instance_id": instance,
            "protocol_type": "consumer",
            "protocols": [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
            **fields,
        }
    )


def sync(group: str, joined: Any, assignments: dict[str, bytes] | None = None, **fields: Any) -> SyncGroupRequest:
    """A SyncGroupRequest of a member that has joined."""
    given = [
        SyncGroupRequestAssignment(member_id=member_id, assignment=data)
        for member_id, data in (assignments or {}).items()
    ]
    return SyncGroupRequest(
        **{
            "group_id": group,
            "generation_id": joined.generation_id,
            "member_id": joined.member_id,
            "protocol_type": joined.protocol_type,
            "protocol_name": joined.protocol_name,
            "assignments": given,
            **fields,
        }
    )


def heartbeat(group: str, member_id: str, generation: int, instance: str | None = None) -> HeartbeatRequest:
    """A HeartbeatRequest."""
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
    """A LeaveGroupRequest for members as (member id, group instance id)."""
    identities = [MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members]
    return LeaveGroupRequest(group_id=group, members=identities)


def commit(
    group: str,
    partitions: dict[tuple[str, int], int],
    *,
    ids: dict[str, bytes] | None = None,
    metadata: str | None = "m",
    leader_epoch: int = -1,
    **fields: Any,
) -> OffsetCommitRequest:
    """An OffsetCommitRequest for (topic, partition) -> offset; ``ids``: topic ids by name."""
    topics: dict[str, OffsetCommitRequestTopic] = {}
    for (name, index), offset in partitions.items():
        topic = topics.setdefault(
            name, OffsetCommitRequestTopic(name=name, topic_id=(ids or {}).get(name, bytes(16)), partitions=[])
        )
        topic.partitions.append(
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=leader_epoch,
                committed_metadata=metadata,
            )
        )
    return OffsetCommitRequest(group_id=group, topics=list(topics.values()), **fields)


def fetch(
    version: int, group: str, topics: dict[str, list[int]] | None, ids: dict[str, bytes] | None = None
) -> OffsetFetchRequest:
    """An OffsetFetchRequest in the form of a version; ``topics``: None for all."""
    if version < 8:
        old = (
            None
            if topics is None
            else [OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()]
        )
        return OffsetFetchRequest(group_id=group, topics=old)
    new = (
        None
        if topics is None
        else [
            OffsetFetchRequestTopics(name=name, topic_id=(ids or {}).get(name, bytes(16)), partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    )
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=new)])


def settle(seconds: float) -> None:
    """Sleep while the brokers' timers run; there is no condition to wait for."""
    time.sleep(seconds)
