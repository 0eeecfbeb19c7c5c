"""The fast path of Fetch: the same bytes as the general path, and no request that it cannot handle."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.base.file_range import FileRange
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic, ForgottenTopic, ReplicaState
from kwire.codec.messages.fetch_response import FetchResponse
from kwire.codec.protocol import decode, encode, encode_parts
from kwire.codec.records import Record, build_batch
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.handlers.context import Decisions, RequestContext
from kwire.handlers.data.fetch import fast_path, handler
from kwire.handlers.topics import create_topics, delete_topics
from kwire.log.common.append_info import AbortedTransaction
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.security.principals import Principal
from kwire.server.broker import Broker

NOW_MS = 1_790_000_000_000
VERSIONS = range(4, 19)
FORMS = [4, 6, 7, 9, 11, 12, 13, 18]
BATCHES, SIZE = 6, 5000
VersionTest = Callable[[Broker, int], Awaitable[None]]


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        new = CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=2, replication_factor=1)], timeout_ms=5000
        )
        await create_topics.handle(new, RequestContext(broker.services, api_version=7))
        for _ in range(BATCHES):
            append(broker)
        yield broker


def for_each(versions: Iterable[int]) -> Callable[[VersionTest], Callable[[Broker], Awaitable[None]]]:
    """Run a test for each version on the same broker."""

    def decorate(test: VersionTest) -> Callable[[Broker], Awaitable[None]]:
        async def run(broker: Broker) -> None:
            for version in versions:
                await test(broker, version)

        run.__name__ = test.__name__
        return run

    return decorate


def end(broker: Broker) -> int:
    return broker.replicas.partition("t", 0).log_end_offset


def append(broker: Broker) -> None:
    records = build_batch([Record(timestamp=NOW_MS, value=os.urandom(SIZE)), Record(timestamp=NOW_MS, value=b"")])
    broker.replicas.partition("t", 0).append(memoryview(bytearray(records)), required_acks=-1)


def request(broker: Broker, offset: int | None = 0, **options: Any) -> FetchRequest:
    """A request for partition 0 from ``offset`` on; None: it names no partition."""
    part = {name[5:]: options.pop(name) for name in list(options) if name.startswith("part_")}
    fields: dict[str, Any] = {"max_wait_ms": 0, "min_bytes": 1, "max_bytes": 1 << 20, "session_epoch": -1, **options}
    topics = []
    if offset is not None:
        asked = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1 << 20, **part}
        topics = [FetchTopic(topic="t", topic_id=broker.metadata.image.topics["t"].id)]
        topics[0].partitions = [FetchPartition(**asked)]
    return FetchRequest(**{"topics": topics, **fields})


def body_of(parts: list[Any]) -> bytes:
    """The bytes of a response's parts, whose ranges are released."""
    out = b""
    for part in parts:
        if isinstance(part, FileRange):
            out += os.pread(part.fd, part.size, part.position)
            part.release()
        else:
            out += bytes(part)
    return out


def by_fast_path(broker: Broker, requested: FetchRequest, version: int) -> bytes | None:
    """The body that the fast path gives, or None."""
    frame = memoryview(bytearray(b"head" + encode(requested, version)))
    found = fast_path.respond(frame, 4, version, 77, broker.services, Decisions())
    return None if found is None else body(found, version)


def body(found: Any, version: int) -> bytes:
    """The body of a response of the fast path."""
    raw = body_of(found[0])
    assert len(raw) == found[1] == int.from_bytes(raw[:4], "big") + 4
    head = (77).to_bytes(4, "big") + (b"\0" if version >= 12 else b"")
    assert raw[4:].startswith(head)
    return raw[4 + len(head) :]


def respond(broker: Broker, requested: FetchRequest, version: int) -> FetchResponse:
    again, _ = decode(FetchRequest, version, memoryview(bytearray(encode(requested, version))))
    response = handler.API.handle(again, RequestContext(broker.services, api_key=1, api_version=version))
    assert isinstance(response, FetchResponse)
    return response


def by_handler(broker: Broker, requested: FetchRequest, version: int) -> bytes:
    return body_of(encode_parts(respond(broker, requested, version), version))


@for_each(VERSIONS)
async def test_both_paths_respond_with_the_same_bytes(broker: Broker, version: int) -> None:
    cases: list[dict[str, Any]] = [
        {},
        {"offset": 5},
        {"offset": 2 * BATCHES - 1},
        {"isolation_level": 1},
        {"part_partition_max_bytes": 0},
        {"part_partition_max_bytes": 2 * SIZE},
        {"max_bytes": SIZE + 300},
        {"min_bytes": 3 * SIZE, "max_wait_ms": 500},
        {"min_bytes": 1 << 20},
    ]
    if version >= 9:
        cases.append({"part_current_leader_epoch": 0})
    if version >= 11:
        cases.append({"rack_id": "r"})
    for case in cases:
        requested = request(broker, **case)
        ours = by_fast_path(broker, requested, version)
        assert ours is not None, case
        assert ours == by_handler(broker, requested, version), case


@for_each([each for each in VERSIONS if each >= 7])
async def test_both_paths_continue_a_session_in_the_same_way(broker: Broker, version: int) -> None:
    ours, theirs = (respond(broker, request(broker, session_epoch=0), version).session_id for _ in "ab")
    sessions = [broker.services.fetch_sessions._sessions[each] for each in (ours, theirs)]
    offsets = [None, 4, None, 0, 2]
    for epoch, offset in enumerate(offsets, 1):
        options = {"session_epoch": epoch, "isolation_level": epoch % 2}
        fast = by_fast_path(broker, request(broker, offset, session_id=ours, **options), version)
        slow = by_handler(broker, request(broker, offset, session_id=theirs, **options), version)
        assert fast is not None
        assert fast.replace(ours.to_bytes(4, "big"), theirs.to_bytes(4, "big"), 1) == slow
        for attribute in ("topic", "index", "sent_high_watermark", "log_start_offset", "requested"):
            values = [getattr(next(iter(each.partitions.values())), attribute) for each in sessions]
            assert repr(values[0]) == repr(values[1]), attribute
        assert sessions[0].epoch == sessions[1].epoch == epoch + 1
    assert list(broker.services.fetch_sessions._sessions)[-2:] == [ours, theirs]


@for_each(FORMS)
async def test_other_requests_are_left_to_the_handler(broker: Broker, version: int) -> None:
    others: dict[str, FetchRequest] = {
        "nothing there": request(broker, end(broker)),
        "nothing there, and nothing wanted": request(broker, end(broker), min_bytes=0, max_wait_ms=100),
        "an unknown partition": request(broker, part_partition=7),
        "no topic": request(broker, None),
        "two partitions": request(broker),
        "two topics": request(broker),
    }
    others["two partitions"].topics[0].partitions.append(FetchPartition(partition=1, partition_max_bytes=1))
    others["two topics"].topics *= 2
    if version < 15:
        others["a follower"] = request(broker, replica_id=1)
    else:
        others["a follower"] = request(broker, replica_state=ReplicaState(replica_id=1, replica_epoch=1))
    if version >= 7:
        topic = ForgottenTopic(topic="t", topic_id=broker.metadata.image.topics["t"].id, partitions=[0])
        others["a forgotten topic"] = request(broker, forgotten_topics_data=[topic])
        session_id = respond(broker, request(broker, end(broker), session_epoch=0), version).session_id
        others["beyond the end, in a session"] = request(broker, 1000, session_id=session_id, session_epoch=1)
        others["a new session"] = request(broker, session_epoch=0)
        others["an unknown session"] = request(broker, session_epoch=3, session_id=99)
        others["the end of a session"] = request(broker, session_epoch=-1, session_id=99)
    if version >= 9:
        others["another leader epoch"] = request(broker, part_current_leader_epoch=5)
    if version >= 11:
        others["a rack of other letters"] = request(broker, rack_id="\u00e4")
    if version >= 12:
        others["an epoch of the last record"] = request(broker, part_last_fetched_epoch=0)
    if version >= 18:
        others["a high watermark"] = request(broker, part_high_watermark=1)
    for what, requested in others.items():
        assert by_fast_path(broker, requested, version) is None, what
    metrics = broker.replicas.partition("t", 0).metrics
    assert metrics.bytes_out == 0


@for_each(VERSIONS)
async def test_an_offset_outside_the_log_is_refused_with_the_same_bytes(broker: Broker, version: int) -> None:
    metrics = broker.replicas.partition("t", 0).metrics
    failed, total = metrics.failed_fetch_requests, metrics.total_fetch_requests
    for offset in (-1, end(broker) + 1, 1 << 40):
        requested = request(broker, offset, max_wait_ms=500)
        frame = memoryview(bytearray(encode(requested, version)))
        for _ in "ab":  # the second time, it is known
            context = RequestContext(broker.services, api_key=1, api_version=version)
            found: Any = fast_path.respond(frame, 0, version, 77, broker.services, Decisions())
            response = found(context)
            assert response.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
            assert context.charged is not None
            assert b"".join(context.charged) == by_handler(broker, requested, version)
    assert metrics.failed_fetch_requests - failed == metrics.total_fetch_requests - total == 12


@for_each([7, 11, 12, 18])
async def test_a_session_that_would_change_is_left_to_the_handler(broker: Broker, version: int) -> None:
    session_id = respond(broker, request(broker, session_epoch=0), version).session_id
    assert by_fast_path(broker, request(broker, session_id=session_id, session_epoch=2), version) is None
    other = request(broker, session_id=session_id, session_epoch=1, part_partition=1)
    assert by_fast_path(broker, other, version) is None
    respond(broker, other, version)
    assert by_fast_path(broker, request(broker, session_id=session_id, session_epoch=2), version) is None  # it has two
    assert broker.services.fetch_sessions._sessions[session_id].epoch == 2


@pytest.mark.parametrize("version", [12, 13])
async def test_names_and_ids_do_not_mix_in_a_session(broker: Broker, version: int) -> None:
    other = 25 - version
    session_id = respond(broker, request(broker, session_epoch=0), version).session_id
    assert by_fast_path(broker, request(broker, session_id=session_id, session_epoch=1), other) is None
    assert by_fast_path(broker, request(broker, session_id=session_id, session_epoch=1), version) is not None


@for_each(FORMS)
async def test_a_truncated_or_longer_frame_is_left_to_the_handler(broker: Broker, version: int) -> None:
    whole = bytes(encode(request(broker), version))
    respond = fast_path.respond
    for size in range(len(whole)):
        frame = memoryview(bytearray(whole[:size]))
        assert respond(frame, 0, version, 1, broker.services, Decisions()) is None, size
    assert respond(memoryview(bytearray(whole + b"\0")), 0, version, 1, broker.services, Decisions()) is None


async def test_aborted_transactions_are_left_to_the_handler(broker: Broker) -> None:
    log = broker.replicas.partition("t", 0).log
    log.active.note_aborted(AbortedTransaction(7, 2, 4, 5))
    users = log.active.file.users
    assert by_fast_path(broker, request(broker, isolation_level=1), 18) is None
    assert by_fast_path(broker, request(broker, isolation_level=0), 18) is not None
    assert log.active.file.users == users  # what was read is released


async def test_it_is_taken_when_it_is_known_that_the_client_may_read(broker: Broker) -> None:
    authorizer = AclAuthorizer(super_users={"User:ANONYMOUS"})
    services = dataclasses.replace(broker.services, authorizer=authorizer)
    context = RequestContext(services, api_key=1, api_version=18)

    def respond() -> Any:
        frame = memoryview(bytearray(encode(request(broker), 18)))
        return fast_path.respond(frame, 0, 18, 77, services, context.decisions)

    assert respond() is None
    authorizer.authorize(context, Operation(AclOperation.WRITE, ResourceType.TOPIC, "t"))
    assert respond() is None
    authorizer.authorize(context, Operation(AclOperation.READ, ResourceType.TOPIC, "t"))
    assert body(respond(), 18)


async def test_what_is_read_is_counted(broker: Broker) -> None:
    assert by_fast_path(broker, request(broker), 18) is not None
    metrics = broker.replicas.partition("t", 0).metrics
    assert metrics.total_fetch_requests == 1
    assert metrics.bytes_out == broker.replicas.partition("t", 0).log.active.size


# -- waiting -----------------------------------------------------------------------------------------------------------


def waiting(broker: Broker, requested: FetchRequest, version: int, context: RequestContext | None = None) -> Any:
    """The future of a request that has to wait."""
    if context is None:
        context = RequestContext(broker.services, api_key=1, api_version=version, correlation_id=77)
    frame = memoryview(bytearray(encode(requested, version)))
    found: Any = fast_path.respond(frame, 0, version, 77, context.services, context.decisions)
    assert callable(found)
    future = found(context)
    assert isinstance(future, asyncio.Future) and not future.done()
    return future


async def settled() -> None:
    for _ in range(4):
        await asyncio.sleep(0)


@for_each(FORMS)
async def test_a_waiting_fetch_is_completed_by_an_append(broker: Broker, version: int) -> None:
    requested = request(broker, end(broker), max_wait_ms=60_000)
    future = waiting(broker, requested, version)
    append(broker)
    assert not future.done()
    await settled()
    assert body(future.result(), version) == by_handler(broker, requested, version)
    assert not broker.replicas.partition("t", 0)._listeners


@for_each([7, 11, 12, 13, 18])
async def test_a_waiting_fetch_continues_its_session(broker: Broker, version: int) -> None:
    ours, theirs = (respond(broker, request(broker, session_epoch=0), version).session_id for _ in "ab")
    requested = [
        request(broker, end(broker), max_wait_ms=60_000, session_id=each, session_epoch=1) for each in (ours, theirs)
    ]
    future = waiting(broker, requested[0], version)
    sessions = [broker.services.fetch_sessions._sessions[each] for each in (ours, theirs)]
    assert sessions[0].epoch == 2
    append(broker)
    await settled()
    slow = by_handler(broker, requested[1], version)
    assert body(future.result(), version).replace(ours.to_bytes(4, "big"), theirs.to_bytes(4, "big"), 1) == slow
    facts = [next(iter(each.partitions.values())) for each in sessions]
    assert repr(facts[0].requested) == repr(facts[1].requested)
    assert facts[0].sent_high_watermark == facts[1].sent_high_watermark == end(broker)


@for_each(FORMS)
async def test_a_waiting_fetch_ends_after_its_time_with_what_there_is(broker: Broker, version: int) -> None:
    for options in ({"offset": end(broker)}, {"offset": 0, "min_bytes": 1 << 20}):
        requested = request(broker, **options, max_wait_ms=1)
        response = await asyncio.wait_for(waiting(broker, requested, version), 60)
        requested.max_wait_ms = 0
        assert body_of(encode_parts(response, version)) == by_handler(broker, requested, version)


async def test_a_session_without_news_gets_an_empty_response_after_its_time(broker: Broker) -> None:
    session_id = respond(broker, request(broker, session_epoch=0), 18).session_id
    for epoch in (1, 2):
        requested = request(broker, end(broker), session_id=session_id, session_epoch=epoch, max_wait_ms=1)
        response = await asyncio.wait_for(waiting(broker, requested, 18), 60)
        assert response.responses == []
    assert response.session_id == session_id


async def test_it_waits_until_there_is_enough(broker: Broker) -> None:
    log = broker.replicas.partition("t", 0).log
    size = log.active.size // BATCHES
    future = waiting(broker, request(broker, end(broker), min_bytes=2 * size, max_wait_ms=60_000), 18)
    append(broker)
    await settled()
    assert not future.done()
    assert log.active.file.users <= 1  # the fetch holds no range
    append(broker)
    await settled()
    assert len(body(future.result(), 18)) > 2 * size


async def test_a_waiting_fetch_fails_when_its_topic_is_deleted(broker: Broker) -> None:
    future = waiting(broker, request(broker, end(broker), max_wait_ms=60_000), 12)
    deleted = DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000)
    await delete_topics.handle(deleted, RequestContext(broker.services, api_version=5))
    response = await asyncio.wait_for(future, 60)
    assert response.responses[0].partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_waiting_fetch_gets_nothing_that_the_client_may_not_read_any_more(broker: Broker) -> None:
    authorizer = AclAuthorizer(super_users={"User:ANONYMOUS"})
    services = dataclasses.replace(broker.services, authorizer=authorizer)
    context = RequestContext(services, api_key=1, api_version=18, correlation_id=77)
    authorizer.authorize(context, Operation(AclOperation.READ, ResourceType.TOPIC, "t"))
    future = waiting(broker, request(broker, end(broker), max_wait_ms=60_000), 18, context)
    context.principal = Principal("User", "somebody")
    context.decisions = Decisions()
    append(broker)
    await settled()
    (part,) = future.result().responses[0].partitions
    assert part.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED and not part.records


async def test_a_cancelled_fetch_watches_nothing(broker: Broker) -> None:
    future = waiting(broker, request(broker, end(broker), max_wait_ms=60_000), 18)
    assert broker.replicas.partition("t", 0)._listeners
    future.cancel()
    await settled()
    assert not broker.replicas.partition("t", 0)._listeners
