"""The fast path of Produce: the same bytes as the general path, and no request that it cannot handle."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.cluster.metadata.acls import acl_key
from kwire.cluster.metadata.image import ClusterImage
from kwire.cluster.store.keys import PartitionState
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.messages.produce_response import ProduceResponse
from kwire.codec.protocol import decode, encode
from kwire.codec.records import Record, build_batch
from kwire.codec.records.header import seal
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.handlers.context import Decisions, RequestContext
from kwire.handlers.data.produce import fast_path
from kwire.handlers.data.produce import handler as produce
from kwire.handlers.topics import create_topics
from kwire.security.acls.bindings import AclBinding, PatternType, PermissionType
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.server.broker import Broker

UNRELATED = AclBinding(
    ResourceType.GROUP, "g", PatternType.LITERAL, "User:bob", "*", AclOperation.READ, PermissionType.ALLOW
)
NOW_MS = 1_790_000_000_000
Spoil = Callable[[bytearray], None]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in ("short", "plain")],
            timeout_ms=5000,
        )
        await create_topics.handle(request, RequestContext(broker.services, api_version=7))
        yield broker


def batch(size: int = 10, spoil: Spoil | None = None, **options: Any) -> bytes:
    data = bytearray(build_batch([Record(timestamp=NOW_MS, value=b"x" * size)], **options))
    if spoil is not None:
        spoil(data)
    return bytes(data)


def request(broker: Broker, topic: str, records: bytes | None, *, acks: int = -1, index: int = 0) -> ProduceRequest:
    image = broker.metadata.image.topics.get(topic)
    data = PartitionProduceData(index=index, records=records)
    named = TopicProduceData(name=topic, topic_id=image.id if image else bytes(range(16)), partition_data=[data])
    return ProduceRequest(acks=acks, timeout_ms=1000, topic_data=[named])


def by_fast_path(broker: Broker, requested: ProduceRequest, version: int) -> Any:
    """What the fast path returns for a request's body."""
    frame = memoryview(bytearray(b"head" + encode(requested, version)))
    result = fast_path.of_version(version)(frame, 4, version, 77, broker.services, Decisions())
    return result(RequestContext(broker.services, api_key=0, api_version=version)) if callable(result) else result


def by_handler(broker: Broker, requested: ProduceRequest, version: int) -> Any:
    """What the handler returns."""
    again, _ = decode(ProduceRequest, version, memoryview(bytearray(encode(requested, version))))
    return produce.API.handle(again, RequestContext(broker.services, api_key=0, api_version=version))


def body(answer: Any, version: int) -> bytes:
    """A response without its header, with the same topic name and id everywhere."""
    response = answer
    if isinstance(answer, bytes):
        assert int.from_bytes(answer[:4], "big") == len(answer) - 4
        assert answer[4:8] == (77).to_bytes(4, "big")
        response, end = decode(ProduceResponse, version, answer, 9 if version >= 9 else 8)
        assert end == len(answer)
    response.responses[0].name = ""
    response.responses[0].topic_id = bytes(16)
    return bytes(encode(response, version))


def spoil_crc(data: bytearray) -> None:
    data[-1] ^= 1


def sealed(position: int, value: bytes) -> Spoil:
    def spoil(data: bytearray) -> None:
        data[position : position + len(value)] = value
        seal(data, 0, len(data))

    return spoil


BATCHES = {
    "small": batch(),
    "of two varint bytes": batch(200),
    "of three varint bytes": batch(70_000),
    "lz4": batch(500, compression=3),
    "zstd": batch(500, compression=4),
    "idempotent": batch(producer_id=7, producer_epoch=0, base_sequence=0),
    "wrong checksum": batch(spoil=spoil_crc),
    "magic 1": batch(spoil=lambda data: data.__setitem__(16, 1)),
    "base offset": batch(spoil=lambda data: data.__setitem__(7, 1)),
    "control": batch(spoil=sealed(21, b"\0\x20")),
    "log append time": batch(spoil=sealed(21, b"\0\x08")),
    "unknown compression": batch(spoil=sealed(21, b"\0\x05")),
    "count": batch(spoil=sealed(57, b"\0\0\0\x02")),
    "far future": batch(spoil=sealed(35, b"\x7f" + bytes(7))),
    "producer without a sequence": batch(producer_id=7, producer_epoch=0, base_sequence=-1),
    "too large": batch(1_200_000),
    "cut off": batch()[:-3],
    "two batches": batch() * 2,
    "empty": b"",
    "null": None,
}


@pytest.mark.parametrize("version", range(3, 14))
async def test_both_paths_respond_and_write_the_same_bytes(broker: Broker, version: int) -> None:
    for name, records in BATCHES.items():
        for acks in (-1, 1):
            ours = by_fast_path(broker, request(broker, "short", records, acks=acks), version)
            if ours is None:  # left to the handler
                ours = by_handler(broker, request(broker, "short", records, acks=acks), version)
            theirs = by_handler(broker, request(broker, "plain", records, acks=acks), version)
            bodies = [body(answer, version).replace(b"plain-0", b"short-0") for answer in (ours, theirs)]
            assert bodies[0] == bodies[1], name
    logs = [broker.replicas.partition(topic, 0).log for topic in ("short", "plain")]
    assert logs[0].log_end_offset == logs[1].log_end_offset
    contents = [broker.doors.files.read(log.active.file.path) for log in logs]
    assert contents[0] == contents[1]


@pytest.mark.parametrize("version", [3, 5, 8, 9, 13])
async def test_the_ordinary_request_takes_the_fast_path(broker: Broker, version: int) -> None:
    for name in ("small", "of two varint bytes", "of three varint bytes", "lz4", "idempotent"):
        assert isinstance(by_fast_path(broker, request(broker, "short", BATCHES[name]), version), bytes), name


@pytest.mark.parametrize("version", [3, 5, 8, 9, 13])
async def test_it_is_taken_when_it_is_known_that_the_client_may_write(broker: Broker, version: int) -> None:
    authorizer = AclAuthorizer(super_users={"User:ANONYMOUS"})
    services = dataclasses.replace(broker.services, authorizer=authorizer)
    context = RequestContext(services, api_key=0, api_version=version)

    def respond(decisions: Decisions) -> object:
        frame = memoryview(bytearray(encode(request(broker, "short", batch()), version)))
        return fast_path.of_version(version)(frame, 0, version, 1, services, decisions)

    assert respond(context.decisions) is None
    authorizer.authorize(context, Operation(AclOperation.READ, ResourceType.TOPIC, "short"))
    assert respond(context.decisions) is None
    authorizer.authorize(context, Operation(AclOperation.WRITE, ResourceType.TOPIC, "short"))
    assert isinstance(respond(context.decisions), bytes)
    assert respond(Decisions()) is None
    authorizer.follow(ClusterImage(acls={acl_key(UNRELATED): UNRELATED}))
    assert respond(context.decisions) is None


async def test_other_requests_are_left_to_the_handler(broker: Broker) -> None:
    two = request(broker, "short", batch())
    two.topic_data[0].partition_data *= 2
    transactional = request(
        broker, "short", batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    named = request(broker, "short", batch())
    named.transactional_id = "t"
    others = {
        "two partitions": two,
        "a transactional batch": transactional,
        "a transactional id": named,
        "acks=0": request(broker, "short", batch(), acks=0),
        "acks=2": request(broker, "short", batch(), acks=2),
        "an unknown topic": request(broker, "other", batch()),
        "an unknown partition": request(broker, "short", batch(), index=5),
    }
    for what, requested in others.items():
        for version in (3, 8, 9, 12, 13):
            assert by_fast_path(broker, requested, version) is None, what
    assert broker.replicas.partition("short", 0).log_end_offset == 0


@pytest.mark.parametrize("version", [3, 5, 8, 9, 13])
async def test_a_truncated_or_longer_frame_is_left_to_the_handler(broker: Broker, version: int) -> None:
    whole = bytes(encode(request(broker, "short", batch(300)), version))
    for size in range(len(whole)):
        frame = memoryview(bytearray(whole[:size]))
        assert fast_path.of_version(version)(frame, 0, version, 1, broker.services, Decisions()) is None, size
    longer = memoryview(bytearray(whole + b"\0"))
    assert fast_path.of_version(version)(longer, 0, version, 1, broker.services, Decisions()) is None
    assert broker.replicas.partition("short", 0).log_end_offset == 0


@pytest.mark.parametrize("version", [3, 6])
async def test_zstd_of_a_client_that_must_not_send_it_is_left_to_the_handler(broker: Broker, version: int) -> None:
    assert by_fast_path(broker, request(broker, "short", BATCHES["zstd"]), version) is None
    (topic,) = by_handler(broker, request(broker, "short", BATCHES["zstd"]), version).responses
    assert topic.partition_responses[0].error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE


async def test_acks_all_waits_for_followers(broker: Broker) -> None:
    partition = broker.replicas.partition("short", 0)
    led = (partition.leader, partition.leader_epoch, partition.partition_epoch + 1)
    partition.update(PartitionState((partition.leader, 2), (partition.leader, 2), *led))
    pending = by_fast_path(broker, request(broker, "short", batch()), 13)
    assert asyncio.iscoroutine(pending)
    waiting = asyncio.ensure_future(pending)
    await asyncio.sleep(0)
    partition.follower_at(2, 1)
    response = await asyncio.wait_for(waiting, 20)
    assert response.responses[0].partition_responses[0].error_code == 0
    assert response.responses[0].topic_id == partition.topic_id


async def test_internal_topics_are_left_to_the_handler_which_refuses_them(broker: Broker) -> None:
    created = CreateTopicsRequest(
        topics=[CreatableTopic(name="__transaction_state", num_partitions=1, replication_factor=1)], timeout_ms=5000
    )
    await create_topics.handle(created, RequestContext(broker.services, api_version=7))
    requested = request(broker, "__transaction_state", batch())
    assert by_fast_path(broker, requested, 13) is None
    (topic,) = by_handler(broker, requested, 13).responses
    assert topic.partition_responses[0].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    again, _ = decode(ProduceRequest, 13, memoryview(bytearray(encode(requested, 13))))
    administrator = RequestContext(broker.services, api_key=0, api_version=13, client_id="__admin_client")
    response: Any = produce.API.handle(again, administrator)
    (topic,) = response.responses
    assert topic.partition_responses[0].error_code == ErrorCode.NONE
