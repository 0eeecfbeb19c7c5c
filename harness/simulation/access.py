"""Access control in a simulated cluster: a client is forbidden a topic and allowed it again, and asks all the time.

The settings `SETTINGS` let every client do everything, except on the topic `SUBJECT`, which has entries. An `Alterer`
denies the host of an `Asker` everything there, and takes that back; every denial is another entry, because a request
without a response is sent again and may arrive late. What the asker sends after the denial was acknowledged, and gets
an answer to before the next change was sent, must have been refused; `leaks` finds what was not. All clients have
quotas, so that some of their connections are muted now and then.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from harness.simulation.network import address_of
from harness.simulation.workload import PAUSE_S, PRODUCE_MS, Client, create_topic
from kwire.base.errors import ErrorCode
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.records import Record, build_batch
from kwire.security.acls.bindings import PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, ResourceType

if TYPE_CHECKING:
    from harness.simulation.cluster import SimulatedCluster
    from kwire.codec.message import Message

SUBJECT: Final = "subject"
"""The topic with entries."""

ASKER: Final = "asker"
ALTERER: Final = "alterer"
"""The hosts of both clients."""

SETTINGS: Final = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "quota.window.num": "2",
}

QUOTAS: Final = {"producer_byte_rate": 250.0, "consumer_byte_rate": 60_000.0, "request_percentage": 100.0}
"""The quotas of each client id: clients exceed them now and then."""

LATE_S: Final = 30.0
"""How long after the last fault the asker may be refused what it is allowed."""

_REFUSED: Final = ErrorCode.TOPIC_AUTHORIZATION_FAILED


@dataclass
class AccessHistory:
    """``forbidden``: from when to when the asker was forbidden the topic (the acknowledgement, the next change);
    ``served``: what it got nevertheless (sent, answered, by which broker, what). All times are in seconds."""

    forbidden: list[tuple[float, float]] = field(default_factory=list)
    served: list[tuple[float, float, str, str]] = field(default_factory=list)
    refused: int = 0
    throttled: int = 0
    trouble: list[str] = field(default_factory=list)

    def leaks(self) -> list[str]:
        """What was served although it was forbidden before it was sent."""
        return self.trouble + [
            f"{host} served {what} sent at {sent_s:.6f}, forbidden since {begin_s:.6f}"
            for sent_s, answered_s, host, what in self.served
            for begin_s, end_s in self.forbidden
            if begin_s < sent_s and answered_s < end_s
        ]


class Alterer:
    """Denies and allows, in turn."""

    def __init__(self, client: Client, history: AccessHistory) -> None:
        self._client = client
        self._history = history
        self.changes = 0

    async def prepare(self, cluster: SimulatedCluster) -> None:
        """Create the topic, with an entry that allows everybody everything, and give every client id quotas."""
        await create_topic(cluster, self._client.partitions, {}, SUBJECT)
        limits = [OpData(key=name, value=limit) for name, limit in QUOTAS.items()]
        entity = [EntityData(entity_type="client-id", entity_name=None)]
        await self._until_done(AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=limits)]), 1)
        allowed = _entry("*", PermissionType.ALLOW, SUBJECT, "User:*")
        await self._until_done(CreateAclsRequest(creations=[allowed]))

    async def run(self, until_s: float) -> None:
        """Go on until the time is over, or all denials are used."""
        loop, random = asyncio.get_running_loop(), self._client.random
        for denial in _DENIALS:
            if loop.time() >= until_s:
                return
            await self._until_done(CreateAclsRequest(creations=[denial]))
            begin_s = loop.time()
            await asyncio.sleep(random.uniform(0.0, 1.0))
            self._history.forbidden.append((begin_s, loop.time()))
            await self._until_done(DeleteAclsRequest(filters=[_filter(denial)]))
            await asyncio.sleep(random.uniform(0.0, 0.4))

    async def end(self) -> None:
        """Delete all denials."""
        await self._until_done(DeleteAclsRequest(filters=[_filter(_DENIALS[0], every=True)]))

    async def _until_done(self, request: Message, version: int = 3) -> None:
        while True:
            response = await self._client.call(await self._client.any_broker(), request, version)
            results = [] if response is None else _results(response)
            if results and not any(each.error_code for each in results):
                self.changes += 1
                return
            await asyncio.sleep(PAUSE_S)


class Asker:
    """Asks random brokers for the topic."""

    def __init__(self, client: Client, history: AccessHistory) -> None:
        self._client = client
        self._history = history

    async def run(self, until_s: float) -> None:
        """Ask until the time is over."""
        loop, random = asyncio.get_running_loop(), self._client.random
        while loop.time() < until_s:
            await self._ask()
            await asyncio.sleep(random.uniform(0.0, 0.05))

    async def end(self) -> None:
        """Ask until it is served: it is allowed everything again."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + LATE_S
        while not await self._ask():
            if loop.time() > deadline:
                self._history.trouble.append(f"the asker is still not served {LATE_S:.0f} s after the last fault")
                return
            await asyncio.sleep(PAUSE_S)

    async def _ask(self) -> bool:
        """Whether one request was served."""
        loop = asyncio.get_running_loop()
        host, port = await self._client.any_broker()
        request, version, code_of = self._client.random.choice(_QUESTIONS)(self._client)
        sent_s = loop.time()
        response = await self._client.call((host, port), request, version)
        if response is None:
            return False
        self._history.throttled += response.throttle_time_ms > 0
        code = code_of(response)
        if code is None:  # a throttled Fetch has no partitions
            return False
        if code == _REFUSED:
            self._history.refused += 1
            return False
        self._history.served.append((sent_s, loop.time(), host, type(request).__name__))
        return True


def _results(response: Any) -> list[Any]:
    """The results in a response, each with an error code."""
    for name in ("results", "filter_results", "entries"):
        if hasattr(response, name):
            found: list[Any] = getattr(response, name)
            return found
    raise TypeError(type(response).__name__)


def _entry(host: str, permission: PermissionType, name: str, principal: str) -> AclCreation:
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name=name,
        resource_pattern_type=PatternType.LITERAL if name == SUBJECT else PatternType.PREFIXED,
        principal=principal,
        host=host,
        operation=AclOperation.ALL,
        permission_type=permission,
    )


_DENIALS: Final = [
    _entry(address_of(ASKER), PermissionType.DENY, SUBJECT[:length], principal)
    for length in range(len(SUBJECT), 1, -1)
    for principal in ("User:*", "User:ANONYMOUS")
]


def _filter(entry: AclCreation, *, every: bool = False) -> DeleteAclsFilter:
    """A filter for an entry, or for every entry of its host."""
    return DeleteAclsFilter(
        resource_type_filter=entry.resource_type,
        resource_name_filter=None if every else entry.resource_name,
        pattern_type_filter=PatternType.ANY if every else entry.resource_pattern_type,
        principal_filter=None if every else entry.principal,
        host_filter=entry.host,
        operation=entry.operation,
        permission_type=entry.permission_type,
    )


def _produce(client: Client) -> tuple[Message, int, Any]:
    now_ms = client.machine.doors.clock.time_ms()
    batch = build_batch([Record(offset=0, timestamp=now_ms, key=None, value=b"0")])
    data = PartitionProduceData(index=0, records=memoryview(bytearray(batch)))
    topic = TopicProduceData(name=SUBJECT, partition_data=[data])
    request = ProduceRequest(acks=1, timeout_ms=PRODUCE_MS, topic_data=[topic])
    return request, 11, lambda response: response.responses[0].partition_responses[0].error_code


def _fetch(client: Client) -> tuple[Message, int, Any]:
    topic = FetchTopic(topic=SUBJECT, partitions=[FetchPartition(partition=0, partition_max_bytes=1000)])
    request = FetchRequest(max_wait_ms=0, max_bytes=1000, topics=[topic])
    return request, 12, lambda response: response.responses[0].partitions[0].error_code if response.responses else None


def _metadata(client: Client) -> tuple[Message, int, Any]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=SUBJECT)], allow_auto_topic_creation=False)
    return request, 12, lambda response: response.topics[0].error_code


def _list_offsets(client: Client) -> tuple[Message, int, Any]:
    topic = ListOffsetsTopic(name=SUBJECT, partitions=[ListOffsetsPartition(partition_index=0, timestamp=-1)])
    request = ListOffsetsRequest(topics=[topic])
    return request, 6, lambda response: response.topics[0].partitions[0].error_code


_QUESTIONS: Final = (_produce, _fetch, _metadata, _list_offsets)
