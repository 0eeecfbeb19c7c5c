"""Large requests are decoded and answered in slices: with the same responses, and with turns for other clients."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from harness.raw_client import RawClient
from kwire.codec import protocol
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.list_offsets_request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kwire.codec.messages.list_offsets_response import ListOffsetsResponse
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.protocol import ApiKey
from kwire.handlers import large_requests, slices
from kwire.handlers.api import Api
from kwire.handlers.context import Authorizer, RequestContext
from kwire.handlers.data import list_offsets
from kwire.handlers.topics import create_topics, delete_topics, metadata
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.server.broker import Broker
from tests.server.conftest import Brokers, closed, serve

NAMES = [f"t{number}" for number in range(7)]
OFFSETS = ListOffsetsRequest(
    replica_id=-1,
    topics=[
        ListOffsetsTopic(name=name, partitions=[ListOffsetsPartition(partition_index=at, timestamp=-1) for at in each])
        for name, each in (("t0", (0, 1, 1)), ("absent", (0,)), ("t1", (1, 0)))
    ],
)


def in_small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_requests, "LARGE_BYTES", 1)
    monkeypatch.setattr(large_requests, "SLICE_ELEMENTS", 2)
    monkeypatch.setattr(slices, "SLICE_ELEMENTS", 2)
    for module, name in (
        (list_offsets, "SLICE_PARTITIONS"),
        (create_topics, "SLICE_TOPICS"),
        (create_topics, "SLICE_NEW_TOPICS"),
        (delete_topics, "SLICE_TOPICS"),
        (metadata, "SLICE_PARTITIONS"),
        (metadata, "SLICE_TOPICS"),
    ):
        monkeypatch.setattr(module, name, 2)


def all_topics(version: int) -> MetadataRequest:
    if version == 0:
        return MetadataRequest(topics=[])
    operations = 8 <= version <= 10
    return MetadataRequest(
        topics=None, include_topic_authorized_operations=version >= 8, include_cluster_authorized_operations=operations
    )


def named_topics(version: int) -> MetadataRequest:
    return MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in ("t1", "absent", "t0")],
        allow_auto_topic_creation=version < 4,
        include_topic_authorized_operations=version >= 8,
    )


def creation(*names: str) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=2, replication_factor=1) for name in names]
    return CreateTopicsRequest(topics=topics, timeout_ms=60_000)


def deletion(*names: str) -> DeleteTopicsRequest:
    return DeleteTopicsRequest(topics=[DeleteTopicState(name=name) for name in names], timeout_ms=60_000)


def without_ids(response: Any) -> Any:
    for topic in response.topics if hasattr(response, "topics") else response.responses:
        topic.topic_id = bytes(16)
    return response


async def life(client: RawClient) -> list[Any]:
    """The responses to requests about topics, from their creation to their deletion."""
    return [
        without_ids(await client.call(creation(*NAMES, "twice", "twice", "not/legal"), 7)),
        await client.call(OFFSETS, 1),
        await client.call(OFFSETS, 9),
        *[without_ids(await client.call(all_topics(version), version)) for version in (0, 4, 8, 10, 12, 8)],
        *[without_ids(await client.call(named_topics(version), version)) for version in (4, 8, 12)],
        without_ids(await client.call(deletion("absent", *NAMES, "t1"), 6)),
    ]


async def test_the_responses_are_those_to_small_requests(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = await brokers.start()
    client = await brokers.connect(broker)
    at_once = await life(client)
    await client.call(deletion("t1"), 6)
    in_small_slices(monkeypatch)
    assert await life(client) == at_once
    assert {each.error_code for each in at_once[0].topics} == {0, 17, 42}
    assert len(at_once[3].topics) == 7


def handled(broker: Broker, steps: list[str]) -> None:
    """Serve ListOffsets with a handler that only notes when it is called."""

    def handle(request: ListOffsetsRequest, context: RequestContext) -> ListOffsetsResponse:
        assert context.request is request
        steps.append(f"handled {len(request.topics)}")
        return ListOffsetsResponse()

    def operations(request: ListOffsetsRequest, context: RequestContext) -> list[Operation]:
        return [Operation(AclOperation.DESCRIBE, ResourceType.CLUSTER, "kafka-cluster")]

    api = Api(ApiKey.LIST_OFFSETS, served=(1, 9), handle=handle, operations=operations, error_response=refused)
    serve(broker, large_requests.sliced(api))


def refused(request: ListOffsetsRequest, version: int, code: int, message: str | None) -> ListOffsetsResponse:
    return ListOffsetsResponse(throttle_time_ms=int(code))


async def test_only_large_requests_are_decoded_in_slices(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[str] = []
    broker = await brokers.start()
    handled(broker, steps)
    decode = protocol.decode_in_slices

    def noted(*arguments: Any) -> Any:
        generator = decode(*arguments)
        while True:
            try:
                next(generator)
            except StopIteration as end:
                steps.append("decoded")
                return end.value
            steps.append("slice")
            yield

    monkeypatch.setattr(large_requests, "decode_in_slices", noted)
    monkeypatch.setattr(large_requests, "SLICE_ELEMENTS", 4)
    client = await brokers.connect(broker)
    await client.call(OFFSETS, 9)
    assert steps == ["handled 3"]
    monkeypatch.setattr(large_requests, "LARGE_BYTES", 1)
    await client.call(OFFSETS, 9)
    assert steps[1:] == ["slice", "slice", "decoded", "handled 3"]  # nine elements


async def test_a_large_request_is_authorised_once_it_is_decoded(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nobody(Authorizer):
        allows_all = False

        def authorize(self, context: RequestContext, operation: Operation, purpose: object = None) -> bool:
            return False

    steps: list[str] = []
    broker = await brokers.start(authorizer=Nobody())
    handled(broker, steps)
    in_small_slices(monkeypatch)
    client = await brokers.connect(broker)
    response = await client.call(OFFSETS, 9)
    assert (response.throttle_time_ms, steps) == (31, [])


async def test_a_large_request_that_is_malformed_closes_the_connection(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_small_slices(monkeypatch)
    broker = await brokers.start()
    client = await brokers.connect(broker)
    body = struct.pack(">hhihi", ApiKey.LIST_OFFSETS, 1, 1, -1, -1) + struct.pack(">ihii", 1, 0, 9, 0)
    client.send_bytes(struct.pack(">i", len(body)) + body)
    assert await closed(client)


async def test_the_next_request_of_the_connection_waits(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    in_small_slices(monkeypatch)
    broker = await brokers.start()
    client = await brokers.connect(broker)
    await client.call(creation("a"), 7)
    pending = [client.post(request, version) for request, version in ((deletion("a"), 6), (creation("a"), 7))]
    responses = [await each for each in pending]
    assert responses[0].responses[0].error_code == 0
    assert responses[1].topics[0].error_code == 0
