"""Large requests that one broker forwards to the controller are encoded and decoded in slices, and so are the
responses, which are also freed in slices."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from harness.raw_client import RawClient
from harness.waiting import until
from kwire.codec import protocol
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.handlers import envelopes, forwarding, large_requests, slices
from kwire.handlers.topics import create_topics, delete_topics
from kwire.server import dispatch
from kwire.server.requests import routes
from tests.server.access.guarded_cluster import GuardedCluster
from tests.server.slices.counted_turns import CountedTurns

NAMES = ["a", "b", "not/legal", "c", "d", "d"]


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[RawClient]:
    """A client of a broker that is not the controller."""
    async with AsyncExitStack() as stack:
        cluster = GuardedCluster(tmp_path, stack)
        await cluster.start(1)
        await cluster.start(2)
        yield await cluster.log_in(2, "root")


async def life(client: RawClient) -> list[Any]:
    """The responses to requests about topics, from their creation to their deletion."""
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in NAMES]
    created = await client.call(CreateTopicsRequest(topics=topics, timeout_ms=60_000), 7)
    for topic in created.topics:
        topic.topic_id = bytes(16)
    states = [DeleteTopicState(name=name) for name in ("absent", *"abc")]
    deleted = await client.call(DeleteTopicsRequest(topics=states, timeout_ms=60_000), 6)
    for topic in deleted.responses:
        topic.topic_id = bytes(16)
    return [created, deleted]


def noting(
    steps: list[str], name_of: Callable[..., str], work: Callable[..., Any]
) -> Callable[..., Generator[None, None, Any]]:
    """Note every step of a generator, by the name that its arguments have."""

    def noted(*arguments: Any) -> Generator[None, None, Any]:
        generator, name = work(*arguments), name_of(*arguments)
        while True:
            try:
                next(generator)
            except StopIteration as end:
                return end.value
            steps.append(name)
            yield

    return noted


def decoding(cls: type, _version: int, data: object, *_: int) -> str:
    """What is decoded: what was in an Envelope has bytes of its own, a client's request is a view of what came."""
    place = "in an Envelope" if isinstance(data, bytes) else "of a client"
    return f"{'request' if cls.__name__.endswith('Request') else 'response'} {place}"


def encoding(*_: object) -> str:
    return "forwarding encodes"


async def test_the_responses_are_those_to_small_requests(client: RawClient, monkeypatch: pytest.MonkeyPatch) -> None:
    at_once = await life(client)
    steps: list[str] = []
    encoded: list[type] = []

    def noted_parts(message: Any, version: int, prefix: bytes = b"") -> list[Any]:
        encoded.append(type(message))
        return protocol.encode_parts(message, version, prefix)

    for module in (envelopes, large_requests):
        monkeypatch.setattr(module, "LARGE_BYTES", 1)
    monkeypatch.setattr(large_requests, "decode_in_slices", noting(steps, decoding, protocol.decode_in_slices))
    for each in (large_requests, forwarding, slices):
        monkeypatch.setattr(each, "SLICE_ELEMENTS", 2)
    monkeypatch.setattr(forwarding, "encode_in_slices", noting(steps, encoding, protocol.encode_in_slices))
    monkeypatch.setattr(create_topics, "SLICE_TOPICS", 2)
    monkeypatch.setattr(delete_topics, "SLICE_TOPICS", 2)
    monkeypatch.setattr(routes, "encode_parts", noted_parts)
    assert await life(client) == at_once
    assert [each.error_code for each in at_once[0].topics] == [0, 0, 17, 0, 42]
    for name in ("forwarding encodes", "request in an Envelope", "response in an Envelope"):
        assert steps.count(name) >= 4, steps
    assert CreateTopicsResponse not in encoded  # the controller's bytes are passed on


async def test_a_long_request_and_its_response_are_freed_in_slices(
    client: RawClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (envelopes, large_requests, dispatch):
        monkeypatch.setattr(module, "LARGE_BYTES", 1)
    monkeypatch.setattr(slices, "FREED_ELEMENTS", 2)
    topics = [CreatableTopic(name=f"t{number}", num_partitions=1, replication_factor=1) for number in range(20)]
    turns = CountedTurns()
    freed: dict[type, Counter[int]] = {CreatableTopic: Counter(), CreatableTopicResult: Counter()}
    with monkeypatch.context() as patch:
        for kind, counts in freed.items():
            patch.setattr(kind, "__del__", lambda _, counts=counts: counts.update([turns.count]), raising=False)
        response = await client.call(CreateTopicsRequest(topics=topics, validate_only=True, timeout_ms=60_000), 7)
        await until(
            lambda: all(each.total() == 40 for each in freed.values())
        )  # both brokers'; the client keeps its own
    turns.stop()
    assert len(response.topics) == 20
    for counts in freed.values():
        assert max(counts.values()) <= 4, freed  # of both brokers in one turn
