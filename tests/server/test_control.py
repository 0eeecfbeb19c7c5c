"""Faults on demand: the control socket of a broker with kwire.test.control=true, and the answers that it makes."""

from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.raw_client import ConnectionClosed, RawClient
from harness.waiting import PATIENCE_S, until
from kwire.base.errors import ErrorCode
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.fetch_request import FetchPartition, FetchRequest, FetchTopic
from kwire.codec.messages.heartbeat_request import HeartbeatRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.produce_request import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.codec.protocol import ApiKey, decode, encode, request_class, response_class
from kwire.codec.records import Record, build_batch
from kwire.handlers.api import Api, CloseConnection
from kwire.handlers.faults import _carries, failed
from kwire.handlers.registry import Registry
from kwire.server.broker import Broker
from kwire.server.errors import StartError
from tests.server.conftest import Brokers

WRONG = ErrorCode.NOT_LEADER_OR_FOLLOWER


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with AsyncExitStack() as stack:
        yield Brokers(tmp_path, stack)


@pytest.fixture
async def broker(brokers: Brokers) -> Broker:
    return await brokers.start(kwire_test_control=True)


@pytest.fixture
async def client(brokers: Brokers, broker: Broker) -> RawClient:
    client = await brokers.connect(broker)
    topic = CreatableTopic(name="t", num_partitions=2, replication_factor=1)
    assert not (await client.call(CreateTopicsRequest(topics=[topic]), 5)).topics[0].error_code
    return client


class Far:
    """The far end of the control socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def line(self, text: str) -> Any:
        self.writer.write(text.encode() + b"\n")
        return json.loads(await self.reader.readline())

    async def do(self, command: str, **fields: Any) -> Any:
        return await self.line(json.dumps({"do": command, **fields}))


@pytest.fixture
async def control(broker: Broker) -> AsyncIterator[Far]:
    assert broker.control is not None
    far = Far(*await asyncio.open_unix_connection(broker.control.path))
    yield far
    far.writer.close()


def produce(partition: int = 0, acks: int = 1) -> ProduceRequest:
    data = PartitionProduceData(index=partition, records=build_batch([Record(0, 1, None, b"v")]))
    return ProduceRequest(acks=acks, timeout_ms=5000, topic_data=[TopicProduceData(name="t", partition_data=[data])])


def fetch(offset: int = 0, session: tuple[int, int] = (0, -1), max_wait_ms: int = 0) -> FetchRequest:
    partitions = [FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1000)]
    topics = [FetchTopic(topic="t", partitions=partitions)] if session[1] <= 0 else []
    return FetchRequest(
        max_wait_ms=max_wait_ms, min_bytes=1, session_id=session[0], session_epoch=session[1], topics=topics
    )


# -- the socket --------------------------------------------------------------------------------------------------------


async def test_without_the_property_there_is_no_socket(brokers: Brokers, tmp_path: Path) -> None:
    broker = await brokers.start()
    assert broker.control is None
    assert not (tmp_path / "control.sock").exists()


async def test_the_socket_is_the_owners_and_goes_with_the_broker(broker: Broker, tmp_path: Path) -> None:
    path = tmp_path / "control.sock"
    assert stat.S_ISSOCK(path.stat().st_mode)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    await broker.stop()
    assert not path.exists()


async def test_the_socket_of_a_broker_that_was_killed_is_replaced(brokers: Brokers, tmp_path: Path) -> None:
    (tmp_path / "control.sock").touch()
    await brokers.start(kwire_test_control=True)
    assert stat.S_ISSOCK((tmp_path / "control.sock").stat().st_mode)


async def test_a_path_too_long_for_a_socket_is_told(tmp_path: Path) -> None:
    directory = tmp_path / ("d" * 100)
    with pytest.raises(StartError, match="longer than 103 bytes: use a data directory with a shorter path"):
        async with Broker(log_dir=directory, listeners="PLAINTEXT://127.0.0.1:0", kwire_test_control=True):
            pass


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("no json", "Expecting value"),
        ("[]", "a command is a JSON object"),
        ('{"do": "dance"}', "no command 'dance': fail, pause"),
        ('{"do": "fail", "api": "Prodcue", "error": "NONE"}', "no API 'Prodcue': Produce, Fetch"),
        ('{"do": "fail", "api": "Produce", "error": "NONE"}', "no error 'NONE': NOT_LEADER"),
        ('{"do": "fail", "api": "Produce", "error": "NOT_COORDINATOR", "times": -1}', "times=-1: must be"),
        ('{"do": "pause", "apis": "Produce"}', "apis must be a list"),
        ('{"do": "tether"}', "not a process of its own"),
    ],
)
async def test_what_is_no_command_is_refused_in_words(control: Far, line: str, words: str) -> None:
    assert words in (await control.line(line))["error"]
    assert (await control.do("status"))["failures"] == {}


async def test_a_line_without_end_ends_the_connection_only(control: Far, broker: Broker) -> None:
    assert broker.control is not None
    reader, writer = await asyncio.open_unix_connection(broker.control.path)
    writer.write(b"x" * 200_000)
    async with asyncio.timeout(PATIENCE_S):
        try:
            assert await reader.read() == b""
        except ConnectionError:
            pass  # it had not read everything
    writer.close()
    assert (await control.do("status"))["ok"]


# -- failures ----------------------------------------------------------------------------------------------------------


async def test_the_next_requests_of_an_api_fail_and_no_others(control: Far, client: RawClient) -> None:
    answer = await control.do("fail", api="produce", error="not_leader_or_follower", times=2)
    assert answer["failures"] == {"PRODUCE": ["NOT_LEADER_OR_FOLLOWER", 2]}
    for version in (3, 9):
        (failed_partition,) = (await client.call(produce(), version)).responses[0].partition_responses
        assert (failed_partition.error_code, failed_partition.base_offset) == (WRONG, -1)
    assert (await control.do("status"))["failures"] == {}
    (partition,) = (await client.call(produce(), 9)).responses[0].partition_responses
    assert (partition.error_code, partition.base_offset) == (0, 0), "the failed ones were not appended"


async def test_a_failure_can_be_taken_back(control: Far, client: RawClient) -> None:
    await control.do("fail", api=0, error=6, times=5)
    await control.do("fail", api="Produce", error=6, times=0)
    assert not (await client.call(produce(), 9)).responses[0].partition_responses[0].error_code


async def test_fetch_fails_in_its_partitions_and_the_session_goes_on(control: Far, client: RawClient) -> None:
    await client.call(produce(), 9)
    first = await client.call(fetch(session=(0, 0)), 12)
    assert first.session_id
    await control.do("fail", api="Fetch", error="NOT_LEADER_OR_FOLLOWER")
    second = await client.call(fetch(session=(first.session_id, 1)), 12)
    assert (second.error_code, second.responses[0].partitions[0].error_code) == (0, WRONG)
    third = await client.call(fetch(session=(first.session_id, 2)), 12)
    assert (third.error_code, third.responses[0].partitions[0].error_code) == (0, 0)
    await control.do("fail", api="Fetch", error="FETCH_SESSION_ID_NOT_FOUND")
    assert (await client.call(fetch(session=(first.session_id, 3)), 12)).error_code == 70


async def test_metadata_fails_in_its_topics_and_still_names_the_brokers(control: Far, client: RawClient) -> None:
    request = MetadataRequest(topics=[MetadataRequestTopic(name="t")])
    for version in (1, 12):
        await control.do("fail", api="Metadata", error="LEADER_NOT_AVAILABLE")
        answer = await client.call(request, version)
        assert [topic.error_code for topic in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]
        assert len(answer.brokers) == 1
        assert [topic.error_code for topic in (await client.call(request, version)).topics] == [0]


async def test_metadata_that_would_create_a_topic_fails_too(control: Far, client: RawClient) -> None:
    await control.do("fail", api="Metadata", error="LEADER_NOT_AVAILABLE")
    answer = await client.call(MetadataRequest(topics=[MetadataRequestTopic(name="new")]), 12)
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.LEADER_NOT_AVAILABLE]


async def test_a_network_exception_is_a_connection_that_ends(control: Far, client: RawClient) -> None:
    await control.do("fail", api="ApiVersions", error="NETWORK_EXCEPTION")
    with pytest.raises(ConnectionClosed):
        await client.call(ApiVersionsRequest(), 0)


async def test_a_produce_without_answer_fails_by_closing(control: Far, client: RawClient) -> None:
    await control.do("fail", api="Produce", error="NOT_LEADER_OR_FOLLOWER")
    client.send_only(produce(acks=0), 9)
    with pytest.raises(ConnectionClosed):
        await client.call(ApiVersionsRequest(), 0)


async def test_a_version_without_a_place_for_the_error_is_closed(control: Far, client: RawClient) -> None:
    await control.do("fail", api="Metadata", error="LEADER_NOT_AVAILABLE")
    with pytest.raises(ConnectionClosed):
        await client.call(MetadataRequest(topics=[]), 9)


OTHERS = [api for api in Registry() if api.key not in (ApiKey.FETCH, ApiKey.METADATA)]


@pytest.mark.parametrize("api", OTHERS, ids=lambda api: api.key.name.lower())
def test_every_api_fails_well_formed_in_every_version(api: Api) -> None:
    """Here with requests that ask for nothing in particular; what is asked for in lists is repeated by the APIs' own
    error responses. An answer has the error in it, or there is no answer but the end of the connection."""
    told = 0
    for version in range(api.served[0], api.served[1] + 1):
        request, _ = decode(request_class(api.key), version, encode(request_class(api.key)(), version))
        try:
            answer = failed(api, request, SimpleNamespace(api_version=version), WRONG)  # type: ignore[arg-type]
        except CloseConnection:
            continue
        read, _ = decode(response_class(api.key), version, encode(answer, version))
        assert _carries(read, WRONG)
        told += 1
    assert told or "error_code" not in response_class(api.key).__slots__


# -- pauses ------------------------------------------------------------------------------------------------------------


async def test_a_pause_holds_every_answer_back_until_it_ends(control: Far, client: RawClient) -> None:
    await control.do("pause")
    answer = client.post(produce(), 9)
    done, _ = await asyncio.wait([answer], timeout=0.05)
    assert not done
    await control.do("resume")
    assert not (await answer).responses[0].partition_responses[0].error_code


async def test_what_was_under_way_is_held_back_as_well(
    control: Far, client: RawClient, brokers: Brokers, broker: Broker
) -> None:
    waiting = client.post(fetch(max_wait_ms=600_000), 12)
    await until(lambda: broker.dispatcher.pending)
    await control.do("pause", apis=["Fetch"])
    other = await brokers.connect(broker)
    assert not (await other.call(produce(), 9)).responses[0].partition_responses[0].error_code  # what it waits for
    done, _ = await asyncio.wait([waiting], timeout=0.25)
    assert not done
    await control.do("resume")
    assert (await waiting).responses[0].partitions[0].records


async def test_some_apis_pause_while_others_are_answered(control: Far, client: RawClient, brokers: Brokers) -> None:
    assert (await control.do("pause", apis=["Heartbeat"]))["paused"] == ["HEARTBEAT"]
    assert not (await client.call(produce(), 9)).responses[0].partition_responses[0].error_code
    beat = client.post(HeartbeatRequest(group_id="g", member_id="m"), 0)
    done, _ = await asyncio.wait([beat], timeout=0.05)
    assert not done
    assert (await control.do("reset"))["paused"] == []
    assert (await beat).error_code


async def test_a_broker_that_is_paused_stops_in_time(control: Far, client: RawClient, broker: Broker) -> None:
    await control.do("pause")
    answer = client.post(produce(), 9)
    await asyncio.wait([answer], timeout=0.05)
    async with asyncio.timeout(PATIENCE_S):  # a paused response would never be sent
        await broker.stop()
    assert not (await answer).responses[0].partition_responses[0].error_code, "it was answered first"


async def test_the_end_of_a_tether_stops_the_broker(control: Far, broker: Broker) -> None:
    assert broker.control is not None
    abandoned = asyncio.Event()
    broker.control.on_abandoned = abandoned.set
    assert (await control.do("tether"))["ok"]
    control.writer.close()
    await asyncio.wait_for(abandoned.wait(), PATIENCE_S)
