"""The fast path of Produce: the same bytes as the general path, and no request that it cannot handle."""

from __future__ import annotations

import asyncio
import dataclasses
import errno
import gc
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
    append = fast_path.of_version(version)(frame, 4, version, 77, broker.services, Decisions())
    result = None if append is None else append.run()
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
    assert isinstance(respond(context.decisions), fast_path.Append)
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


# -- together ----------------------------------------------------------------------------------------------------------


def appends(broker: Broker, *batches: bytes, topic: str = "short", acks: int = -1) -> list[fast_path.Append]:
    found = []
    for number, records in enumerate(batches):
        frame = memoryview(bytearray(encode(request(broker, topic, records, acks=acks), 13)))
        append: Any = fast_path.of_version(13)(frame, 0, 13, number, broker.services, Decisions())
        assert isinstance(append, fast_path.Append)
        found.append(append)
    return found


def offsets(results: list[Any], context: RequestContext) -> list[Any]:
    """The base offset of each response, or the name of its error."""
    found = []
    for result in results:
        response = decode(ProduceResponse, 13, result, 9)[0] if isinstance(result, bytes) else result(context)
        (part,) = response.responses[0].partition_responses
        found.append(ErrorCode(part.error_code).name if part.error_code else part.base_offset)
    return found


def spied_writes(broker: Broker, monkeypatch: pytest.MonkeyPatch, *, fails: OSError | None = None) -> list[int]:
    """The sizes of what is written to the topics' logs from now on."""
    written: list[int] = []
    pwrite = broker.doors.files.pwrite

    def spy(fd: int, data: Any, position: int) -> int:
        written.append(len(data))
        if fails is not None:
            raise fails
        return pwrite(fd, data, position)

    monkeypatch.setattr(broker.doors.files, "pwrite", spy)
    return written


async def test_appends_to_one_partition_are_written_together(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    context = RequestContext(broker.services, api_key=0, api_version=13)
    batches = [batch(10), batch(20), batch(spoil=spoil_crc), batch(30)]
    alone = [each.run() for each in appends(broker, *batches, topic="plain")]
    written = spied_writes(broker, monkeypatch)
    found = fast_path.together(appends(broker, *batches))
    assert offsets(found, context) == offsets(alone, context) == [0, 1, "CORRUPT_MESSAGE", 2]
    assert written == [sum(len(batches[at]) for at in (0, 1, 3))]
    logs = [broker.replicas.partition(topic, 0).log for topic in ("short", "plain")]
    contents = [broker.doors.files.read(log.active.file.path) for log in logs]
    assert contents[0] == contents[1]
    facts = [(log.log_end_offset, log.high_watermark, log.active.size, log.active._tail) for log in logs]
    assert facts[0] == facts[1]
    metrics = [broker.replicas.partition(topic, 0).metrics for topic in ("short", "plain")]
    assert [(each.bytes_in, each.messages_in, each.total_produce_requests) for each in metrics] == [
        (written[0], 3, 4)
    ] * 2


async def test_refused_batches_leave_nothing_to_the_garbage_collector(broker: Broker) -> None:
    """Nor what they were decompressed to: by the time that it runs, memory would be full of it."""
    context = RequestContext(broker.services, api_key=0, api_version=13)
    batches = [batch(spoil=spoil_crc), batch()]
    offsets(fast_path.together(appends(broker, *batches)), context)  # what the first time loads
    gc.collect()
    gc.disable()
    try:
        assert offsets(fast_path.together(appends(broker, *batches)), context)[0] == "CORRUPT_MESSAGE"
        assert gc.collect() == 0
    finally:
        gc.enable()


async def test_a_failed_write_fails_all_that_were_in_it(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    context = RequestContext(broker.services, api_key=0, api_version=13)
    log = broker.replicas.partition("short", 0).log
    assert offsets(fast_path.together(appends(broker, batch(), batch())), context) == [0, 1]
    size = log.active.size
    with monkeypatch.context() as patch:
        spied_writes(broker, patch, fails=OSError(errno.ENOSPC, "full"))
        assert (
            offsets(fast_path.together(appends(broker, batch(), batch(), batch())), context)
            == ["KAFKA_STORAGE_ERROR"] * 3
        )
    assert (log.log_end_offset, log.high_watermark, log.active.size) == (2, 2, size)
    assert offsets(fast_path.together(appends(broker, batch(), batch())), context) == [2, 3]  # there is room again


async def test_batches_of_one_producer_are_checked_against_each_other(broker: Broker) -> None:
    context = RequestContext(broker.services, api_key=0, api_version=13)

    def numbered(sequence: int, producer: int = 7) -> bytes:
        return batch(producer_id=producer, producer_epoch=0, base_sequence=sequence)

    batches = [numbered(0), numbered(1), numbered(0, 8), numbered(1), numbered(5), numbered(2)]
    assert offsets(fast_path.together(appends(broker, *batches)), context) == [
        0,
        1,
        2,
        1,  # a duplicate
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        3,
    ]
    assert broker.replicas.partition("short", 0).log_end_offset == 4


async def test_a_log_that_rolls_takes_them_one_by_one(broker: Broker) -> None:
    context = RequestContext(broker.services, api_key=0, api_version=13)
    log = broker.replicas.partition("short", 0).log
    log.update_config(dataclasses.replace(log.config, segment_bytes=250, max_message_bytes=200))
    assert offsets(fast_path.together(appends(broker, *[batch(30)] * 5)), context) == [0, 1, 2, 3, 4]
    assert len(log.segments) == 3
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]


async def test_each_partition_has_its_own_outcome(broker: Broker) -> None:
    context = RequestContext(broker.services, api_key=0, api_version=13)
    mixed = [*appends(broker, batch()), *appends(broker, batch(), topic="plain"), *appends(broker, batch())]
    broker.replicas.partition("plain", 0).fail()
    assert offsets(fast_path.together(mixed), context) == [0, "KAFKA_STORAGE_ERROR", 1]


async def test_acks_all_waits_for_followers_also_together(broker: Broker) -> None:
    partition = broker.replicas.partition("short", 0)
    led = (partition.leader, partition.leader_epoch, partition.partition_epoch + 1)
    partition.update(PartitionState((partition.leader, 2), (partition.leader, 2), *led))
    context = RequestContext(broker.services, api_key=0, api_version=13)
    results = fast_path.together(appends(broker, batch(), batch()))
    waiting = [asyncio.ensure_future(each(context)) for each in results if callable(each)]  # type: ignore[arg-type]
    assert len(waiting) == 2
    partition.follower_at(2, 1)
    await asyncio.wait_for(waiting[0], 20)
    assert not waiting[1].done()
    partition.follower_at(2, 2)
    await asyncio.wait_for(waiting[1], 20)
