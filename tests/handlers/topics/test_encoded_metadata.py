"""Metadata responses made of bytes that are kept: the same bytes as without, for every version and client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base.futures import resolved
from kwire.cluster.controller.topics import NewTopic
from kwire.cluster.metadata.image import ClusterImage, TopicImage
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.metadata_response import MetadataResponse
from kwire.codec.protocol import encode
from kwire.handlers.topics import encoded_metadata, metadata
from kwire.security.acls.operations import AclOperation
from tests.handlers.admin_broker import AdminBroker, Denying, admin_broker

VERSIONS = range(1, 14)


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path)
    await made.node.controller.create_topics([NewTopic("a", 3), NewTopic("secret", 1), NewTopic("c", 130)])
    yield made
    await made.close()


async def bytes_of(broker: AdminBroker, request: MetadataRequest, version: int, **fields: Any) -> tuple[bytes, bytes]:
    """The body that is sent, and what encoding the response would give."""
    context = broker.context(version, **fields)
    result = metadata.API.handle(request, context)
    response: MetadataResponse = await result if asyncio.iscoroutine(result) else result  # type: ignore[assignment]
    assert context.charged is not None
    return b"".join(context.charged), encode(response, version)


def request_for(*names: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)


async def test_the_bytes_are_those_of_the_response(broker: AdminBroker) -> None:
    for version in VERSIONS:
        broker.image.notes.clear()
        for _ in range(2):  # made, and kept
            for request in (MetadataRequest(topics=None), request_for("a"), request_for("c", "missing", "secret")):
                ours, theirs = await bytes_of(broker, request, version)
                assert ours == theirs, (version, request.topics)


async def test_each_listener_and_endpoint_has_its_addresses(broker: AdminBroker) -> None:
    for endpoint in (("one", 1), ("two", 2), ("one", 1)):
        ours, theirs = await bytes_of(broker, MetadataRequest(topics=None), 13, endpoint=endpoint)
        assert ours == theirs and endpoint[0].encode() in ours


async def test_a_client_gets_only_the_topics_that_it_may_describe(broker: AdminBroker) -> None:
    everything, _ = await bytes_of(broker, MetadataRequest(topics=None), 12)
    broker.replace_services(authorizer=Denying(AclOperation.DESCRIBE))
    ours, theirs = await bytes_of(broker, MetadataRequest(topics=None), 12)
    assert ours == theirs and len(ours) < len(everything)


async def test_cluster_operations_are_the_clients_own(broker: AdminBroker) -> None:
    plain, _ = await bytes_of(broker, MetadataRequest(topics=None), 9)
    request = MetadataRequest(topics=None, include_cluster_authorized_operations=True)
    ours, theirs = await bytes_of(broker, request, 9)
    assert ours == theirs != plain
    assert (await bytes_of(broker, MetadataRequest(topics=None), 9))[0] == plain


async def test_a_change_of_the_cluster_is_in_the_next_response(broker: AdminBroker) -> None:
    await bytes_of(broker, MetadataRequest(topics=None), 12)
    await broker.node.controller.create_topics([NewTopic("d", 2)])
    ours, theirs = await bytes_of(broker, MetadataRequest(topics=None), 12)
    assert ours == theirs and b"\x02d" in ours


async def test_many_partitions_are_described_in_slices(broker: AdminBroker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "SLICE_PARTITIONS", 2)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    beside = asyncio.ensure_future(others())
    first = await bytes_of(broker, MetadataRequest(topics=None), 12)
    assert turns >= 2
    assert first[0] == first[1]
    context = broker.context(12)
    again = metadata.API.handle(MetadataRequest(topics=None), context)
    assert isinstance(again, MetadataResponse)  # at once, from what is known
    beside.cancel()


@pytest.mark.parametrize("version", [0, 9, 12])
async def test_partitions_of_one_topic_are_described_in_slices(
    broker: AdminBroker, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    await broker.node.controller.create_topics([NewTopic("large", 7)])
    slices: list[int] = []
    describe = metadata._describe_partitions

    def spied(image: ClusterImage, topic: TopicImage, indexes: range) -> Any:
        slices.append(len(indexes))
        return describe(image, topic, indexes)

    monkeypatch.setattr(metadata, "SLICE_PARTITIONS", 3)
    monkeypatch.setattr(metadata, "_describe_partitions", spied)
    request = MetadataRequest(topics=[MetadataRequestTopic(name="large")], allow_auto_topic_creation=False)
    request.include_topic_authorized_operations = version == 9  # nothing is encoded beforehand
    response = await resolved(metadata.API.handle(request, broker.context(version)))
    assert slices == [3, 3, 1]
    assert [each.partition_index for each in response.topics[0].partitions] == list(range(7))


async def test_what_is_kept_is_bounded(broker: AdminBroker) -> None:
    for version in VERSIONS:
        context = broker.context(version)
        metadata.API.handle(MetadataRequest(topics=None), context)
    for number in range(2 * encoded_metadata.WHOLE_MAX):
        await bytes_of(broker, MetadataRequest(topics=None), 1, endpoint=("host", number))
    assert len(broker.image.notes[encoded_metadata.EncodedTopics]) == encoded_metadata.VERSIONS_MAX
    assert len(encoded_metadata.whole(broker.image)) == encoded_metadata.WHOLE_MAX


async def test_a_kept_response_about_named_topics_is_for_those_who_may_describe_them(broker: AdminBroker) -> None:
    request = request_for("a", "secret")
    shown, _ = await bytes_of(broker, request, 12)
    kept = metadata.API.handle(request, broker.context(12))
    assert kept is metadata.API.handle(request, broker.context(12))
    assert (await bytes_of(broker, request, 12, endpoint=("other", 1)))[0] != shown
    broker.replace_services(authorizer=Denying(AclOperation.DESCRIBE))
    ours, theirs = await bytes_of(broker, request, 12)
    assert ours == theirs != shown
    assert metadata.API.handle(request, broker.context(12)) is not kept


async def test_a_kept_response_about_named_topics_ends_with_the_image(broker: AdminBroker) -> None:
    request = request_for("a", "d")
    for _ in range(2):
        ours, _ = await bytes_of(broker, request, 12)
    await broker.node.controller.create_topics([NewTopic("d", 2)])
    made, theirs = await bytes_of(broker, request, 12)
    assert made == theirs != ours


async def test_kept_responses_about_named_topics_are_bounded(broker: AdminBroker) -> None:
    for number in range(2 * metadata.KEPT_MAX):
        await bytes_of(broker, request_for("a"), 12, endpoint=("host", number))
    assert len(broker.image.notes[metadata._kept]) == metadata.KEPT_MAX
    broker.image.notes.clear()
    await broker.node.controller.create_topics([NewTopic("large", 1000)])
    await bytes_of(broker, request_for("large"), 12)
    assert not broker.image.notes.get(metadata._kept)


async def test_version_0_and_topic_operations_are_encoded_each_time(broker: AdminBroker) -> None:
    for request, version in (
        (MetadataRequest(topics=[]), 0),
        (MetadataRequest(topics=None, include_topic_authorized_operations=True), 12),
    ):
        context = broker.context(version)
        assert isinstance(metadata.API.handle(request, context), MetadataResponse)
        assert context.charged is None
