"""A broker's life: configured by keywords, started in order, stopped clean, failing in one line."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import kwire
from harness.raw_client import RawClient
from kwire.base.addresses import parse_address
from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.config.listeners import LOCAL_ONLY
from kwire.base.doors import Doors, Sockets
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.metadata_request import MetadataRequest
from kwire.server.broker import OPEN_TO_ALL, Broker
from kwire.server.dump import dump
from kwire.server.errors import StartError
from tests.server.conftest import Brokers

ANY_PORT = "PLAINTEXT://127.0.0.1:0"


async def connect(broker: Broker) -> RawClient:
    return await RawClient.connect(Doors(), *parse_address(broker.bootstrap_servers))


async def test_a_broker_in_one_process_is_found_under_its_bootstrap_servers(tmp_path: Path) -> None:
    async with kwire.Broker(log_dir=tmp_path, listeners=ANY_PORT, num_partitions=2) as broker:
        assert broker.config.num_partitions == 2
        async with await connect(broker) as client:
            metadata = await client.call(MetadataRequest(topics=[]), 12)
            assert metadata.cluster_id == broker.cluster_id
            assert f"{metadata.brokers[0].host}:{metadata.brokers[0].port}" == broker.bootstrap_servers
            assert metadata.controller_id == broker.config.node_id


class AnyPortSockets(Sockets):
    """The system's sockets, with a free port for 9092, which another broker may have."""

    def listen(self, host: str, port: int, backlog: int, receive_buffer_bytes: int) -> Any:
        return super().listen(host, 0 if port == 9092 else port, backlog, receive_buffer_bytes)


@pytest.mark.parametrize(
    ("listeners", "unprotected"),
    [
        (None, []),
        ("PLAINTEXT://127.0.0.1:0", []),
        ("PLAINTEXT://[::1]:0", []),
        ("PLAINTEXT://:9092", ["PLAINTEXT://:9092"]),
        ("PLAINTEXT://0.0.0.0:0", ["PLAINTEXT://0.0.0.0:0"]),
    ],
)
async def test_listeners_that_other_hosts_reach_without_authentication_are_warned_of_once_per_start(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], listeners: str | None, unprotected: list[str]
) -> None:
    properties = {} if listeners is None else {"listeners": listeners}
    config = KafkaConfig({"log.dirs": str(tmp_path), **properties})
    async with Broker(config, doors=Doors(sockets=AnyPortSockets())) as broker:
        bound = [each.address[0] for each in broker.parts.network.sockets]
    if listeners is None:
        assert bound == ["127.0.0.1", "::1"]
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["listeners"] for each in lines if each["event"] == OPEN_TO_ALL] == unprotected
    assert [each["event"] for each in lines].count(LOCAL_ONLY) == (listeners is None)


async def test_the_dump_of_a_broker_that_is_still_starting_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump(Broker(log_dir=tmp_path, listeners=ANY_PORT))
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "the broker is still starting"


async def test_topics_and_identity_survive_a_restart(tmp_path: Path) -> None:
    cluster_ids = []
    for number in range(2):
        async with Broker(log_dir=tmp_path, listeners=ANY_PORT) as broker, await connect(broker) as client:
            cluster_ids.append(broker.cluster_id)
            if number == 0:
                topic = CreatableTopic(name="kept", num_partitions=3, replication_factor=1)
                await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=5000), 7)
            metadata = await client.call(MetadataRequest(topics=None), 12)
            assert [(each.name, len(each.partitions)) for each in metadata.topics] == [("kept", 3)]
        assert (tmp_path / ".kafka_cleanshutdown").exists()
    assert cluster_ids[0] == cluster_ids[1]


async def test_a_failed_start_leaves_nothing_behind(tmp_path: Path) -> None:
    async with Broker(log_dir=tmp_path / "first", listeners=ANY_PORT) as first:
        taken = f"PLAINTEXT://{first.bootstrap_servers}"
        with pytest.raises(StartError, match="cannot listen"):
            await Broker(log_dir=tmp_path / "second", listeners=taken).start()
        with pytest.raises(StartError, match="first"):
            await Broker(log_dir=tmp_path / "first", listeners=ANY_PORT).start()
        async with Broker(log_dir=tmp_path / "second", listeners=ANY_PORT) as second:
            assert second.bootstrap_servers != first.bootstrap_servers


async def test_a_directory_of_another_cluster_stops_the_start(tmp_path: Path) -> None:
    async with Broker(log_dir=tmp_path / "one", listeners=ANY_PORT):
        pass
    async with Broker(log_dir=tmp_path / "two", listeners=ANY_PORT):
        pass
    with pytest.raises(StartError, match="belongs to cluster"):
        await Broker(log_dirs=f"{tmp_path}/one,{tmp_path}/two", listeners=ANY_PORT).start()


async def test_a_directory_that_cannot_be_made_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StartError, match=r"log\.dirs"):
        await Broker(log_dir=tmp_path / "file" / "data", listeners=ANY_PORT).start()


def test_wrong_properties_are_refused_by_the_constructor(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"num\.partitions"):
        Broker(num_partitions="many")
    with pytest.raises(TypeError):
        Broker(KafkaConfig({}), num_partitions=1)


async def test_stopping_twice_or_before_the_start_is_harmless(tmp_path: Path) -> None:
    broker = Broker(log_dir=tmp_path, listeners=ANY_PORT)
    await broker.stop()
    await broker.start()
    await broker.stop()
    await broker.stop()


async def test_a_stopped_broker_has_no_tasks_left(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with Broker(log_dir=tmp_path, listeners=ANY_PORT) as broker, await connect(broker) as client:
        await client.call(MetadataRequest(topics=[]), 12)
    assert asyncio.all_tasks() == before


async def test_dynamic_properties_take_effect_at_once(brokers: Brokers) -> None:
    broker = await brokers.start()
    client = await brokers.connect(broker)
    resource = AlterConfigsResource(
        resource_type=4,
        resource_name=str(broker.config.node_id),
        configs=[AlterableConfig(name="max.connections.per.ip", config_operation=0, value="1")],
    )
    answer = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer
    assert broker.config.max_connections_per_ip == 1
    assert broker.net._settings.max_connections_per_ip == 1
