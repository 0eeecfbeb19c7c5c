"""Scripts of raw group requests, whose answers and visible traces are the same on both brokers.

A `Script` sends requests over plain connections and keeps what it saw as plain data, with what differs from run to run
(member ids, topic ids, times) replaced by names in order of appearance. What the brokers wrote to
``__consumer_offsets`` is part of what is seen. The tests hand it all to `observe`.
"""

from __future__ import annotations

import re
import select
import struct
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from harness.processes.brokers import Broker, wait_until
from harness.wire_client import WireClient
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
_SORTED = {"groups", "members", "topics", "partitions", "results"}  # but LeaveGroup answers in the order asked
_TIMES = {"current_state_timestamp", "commit_timestamp", "throttle_time_ms"}
_IN_OTHER_WORDS = {"error_message"}  # the wording is each broker's own

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

    # --- connections -----------------------------------------------------------------------------------------------

    def client(self, name: str = "main") -> WireClient:
        """A connection of its own for each name, which is its client id."""
        if name not in self._clients:
            self._clients[name] = WireClient(self.broker.bootstrap, client_id=name, timeout_s=30)
        return self._clients[name]

    def drop(self, name: str) -> None:
        """Cut a connection."""
        self._clients.pop(name).close()

    def close(self) -> None:
        for client in self._clients.values():
            client.close()
        self._clients.clear()

    def __enter__(self) -> Script:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- what was seen -----------------------------------------------------------------------------------------------

    def see(self, what: str, value: Any) -> Any:
        """Keep an answer under a few words; returns it."""
        self.seen.append([what, self.plain(value)])
        return value

    def plain(self, value: Any, field: str = "") -> Any:
        """Plain data that is the same in every run."""
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
        """What an item is sorted by: not by ids, which differ from run to run."""
        text = _UUID.sub("", repr(item))
        for name, topic_id in self._topic_ids.items():
            text = text.replace(repr(topic_id), name)
        return text

    def _name(self, text: str, kind: str) -> str:
        return self._names.setdefault(text, f"{kind}{len(self._names)}")

    # --- requests --------------------------------------------------------------------------------------------------

    def call(self, what: str, request: Any, version: int, client: str = "main") -> Any:
        """Send, wait, see."""
        return self.see(f"{what} v{version}", self.client(client).call(request, version))

    def send(self, request: Any, version: int, client: str) -> tuple[str, int, int, int]:
        """Send without waiting; `answer` takes what this returns."""
        return client, request.API_KEY, version, self.client(client).send(request, version)

    def answer(self, what: str, sent: tuple[str, int, int, int]) -> Any:
        """Wait for the answer of what was sent, and see it."""
        client, key, version, correlation_id = sent
        return self.see(what, self.client(client).receive(key, version, correlation_id))

    def is_parked(self, sent: tuple[str, int, int, int], for_s: float = 0.4) -> bool:
        """Whether there is no answer within a while."""
        return not select.select([self.client(sent[0]).socket], [], [], for_s)[0]

    # --- preparations ----------------------------------------------------------------------------------------------

    def ready(self, group: str) -> None:
        """The coordinator of the group serves it."""
        request = FindCoordinatorRequest(key=group)
        wait_until(lambda: self.client().call(request, 2).error_code == 0, 20, "a coordinator")
        describe = DescribeGroupsRequest(groups=[group])
        wait_until(lambda: self.client().call(describe, 5).groups[0].error_code == 0, 20, "the coordinator's answer")

    def topic(self, name: str = "tt", partitions: int = 2) -> bytes:
        """A topic that is there; returns its id."""
        new = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        self.client().call(CreateTopicsRequest(topics=[new], timeout_ms=20_000), 5)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=name)])

        def there() -> bool:
            found = self.client().call(asked, 12).topics[0]
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
        """Wait for a state of the group."""
        wait_until(lambda: self.state(group) == state, timeout_s, f"{group} {state}")

    def describe(self, what: str, group: str, version: int = 6) -> Any:
        """See a group."""
        return self.watch(what, DescribeGroupsRequest(groups=[group]), version)

    def watch(self, what: str, request: Any, version: int) -> Any:
        """Ask from outside, and see the answer.

        Apache Kafka describes what it has written, which is a moment behind what it has answered (it gathers records
        for `group.coordinator.append.linger.ms`): there, wait until it says the same twice.
        """
        last = "" if self.broker.kind == "kafka" else None
        while last is not None and (told := repr(self.client("watch").call(request, version))) != last:
            last = told
            time.sleep(SETTLED_S)
        return self.call(what, request, version, "watch")

    def written(self, group: str) -> None:
        """See the group's records in ``__consumer_offsets``."""
        records = sorted(_group_records(self.broker.data_dir, group), key=lambda found: found[0])
        self.seen.append(["records", [[self.plain(key), self.plain(value)] for _, key, value in records]])


def _group_records(data_dir: Path, group: str) -> Iterable[tuple[int, Any, Any]]:
    for path in sorted(data_dir.glob("__consumer_offsets-*/*.log")):
        data = path.read_bytes()
        for position, header in iter_headers(data):
            if header.is_control:  # the end of a transaction of some other test
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


# --- requests in few words -----------------------------------------------------------------------------------------


def join(group: str, member_id: str = "", *, instance: str | None = None, **fields: Any) -> JoinGroupRequest:
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
    return HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id, group_instance_id=instance)


def leave(group: str, *members: tuple[str, str | None]) -> LeaveGroupRequest:
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
    if version < 8:
        old = None if topics is None else [
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes) for name, indexes in topics.items()
        ]  # fmt: skip
        return OffsetFetchRequest(group_id=group, topics=old)
    new = None if topics is None else [
        OffsetFetchRequestTopics(name=name, topic_id=(ids or {}).get(name, bytes(16)), partition_indexes=indexes)
        for name, indexes in topics.items()
    ]  # fmt: skip
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=new)])


def settle(seconds: float) -> None:
    """Let the brokers' own timers pass; there is nothing to be awaited."""
    time.sleep(seconds)
