"""ApiVersions beside Apache Kafka's, field by field."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from kwire.base.errors import ErrorCode
from kwire.cluster.metadata.features import KRAFT_VERSION
from kwire.codec.messages.api_versions_request import ApiVersionsRequest
from kwire.codec.messages.api_versions_response import ApiVersionsResponse
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.protocol import API_FACTS, ApiKey, decode
from tests.server.conftest import Brokers
from tests.server.kafka_api_versions import V3, V4

KAFKA = {3: decode(ApiVersionsResponse, 3, V3, 4)[0], 4: decode(ApiVersionsResponse, 4, V4, 4)[0]}
SOFTWARE: dict[str, Any] = {"client_software_name": "test", "client_software_version": "1.0"}


@pytest.mark.parametrize("version", [3, 4])
async def test_what_is_advertised_is_advertised_as_by_kafka(brokers: Brokers, version: int) -> None:
    broker = await brokers.start()
    client = await brokers.connect(broker)
    answer = await client.call(ApiVersionsRequest(**SOFTWARE), version)
    kafka = KAFKA[version]
    kafkas = {api.api_key: api for api in kafka.api_keys}
    assert [api.api_key for api in answer.api_keys] == sorted(api.api_key for api in answer.api_keys)
    for api in answer.api_keys:
        assert api == kafkas[api.api_key]
    assert (answer.error_code, answer.throttle_time_ms) == (kafka.error_code, kafka.throttle_time_ms)
    assert answer.zk_migration_ready == kafka.zk_migration_ready
    supported = {feature.name: feature for feature in kafka.supported_features}
    finalized = {feature.name: feature for feature in kafka.finalized_features}
    del finalized[KRAFT_VERSION]  # the recorded node is a voter that can be replaced
    assert {feature.name: feature for feature in answer.supported_features} == supported
    assert {feature.name: feature for feature in answer.finalized_features} == finalized
    assert answer.finalized_features_epoch >= 0


@pytest.mark.parametrize("version", [0, 1, 2])
async def test_older_versions_list_the_same(brokers: Brokers, version: int) -> None:
    client = await brokers.connect(await brokers.start())
    answer = await client.call(ApiVersionsRequest(), version)
    newest = await client.call(ApiVersionsRequest(**SOFTWARE), 4)
    assert answer.api_keys == newest.api_keys
    assert not answer.supported_features


@pytest.mark.parametrize("version", [5, 99, -1])
async def test_an_unknown_version_is_answered_in_version_0_with_the_known_ones(brokers: Brokers, version: int) -> None:
    client = await brokers.connect(await brokers.start())
    future = client.post(ApiVersionsRequest(), 0)
    header = struct.pack(">hhih", ApiKey.API_VERSIONS, version, 2, 4) + b"test" + b"\0whatever this is"
    unknown = client.post_frame(header, ApiKey.API_VERSIONS, 0)
    await future
    answer = await unknown
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(api.api_key, api.min_version, api.max_version) for api in answer.api_keys] == [(18, 0, 4)]


@pytest.mark.parametrize(
    ("name", "version", "allowed"),
    [
        ("", "1", False),
        ("a b", "1", False),
        ("-a", "1", False),
        ("a-", "1", False),
        ("a_b", "1", False),
        ("a", "", False),
        ("a", "1 2", False),
        ("a", "1-", False),
        ("a\n", "1", False),
        ("a.b-c", "1.2-x", True),
        ("a", "1", True),
    ],
)
async def test_clients_must_name_themselves_in_kafkas_form(
    brokers: Brokers, name: str, version: str, allowed: bool
) -> None:
    client = await brokers.connect(await brokers.start())
    request = ApiVersionsRequest(client_software_name=name, client_software_version=version)
    answer = await client.call(request, 3)
    assert answer.error_code == (ErrorCode.NONE if allowed else ErrorCode.INVALID_REQUEST)
    assert bool(answer.api_keys) == allowed


async def test_every_api_of_kafkas_brokers_is_answered(brokers: Brokers) -> None:
    broker = await brokers.start()
    for key, facts in API_FACTS.items():
        served = "broker" in facts.listeners or key == ApiKey.ENVELOPE
        assert (broker.registry.get(key) is not None) == served
    for api in broker.registry:
        facts = API_FACTS[api.key]
        assert facts.first_version <= api.served[0] <= api.served[1] <= facts.last_version


async def test_the_list_follows_the_cluster(brokers: Brokers) -> None:
    client = await brokers.connect(await brokers.start())
    first, again = [await client.call(ApiVersionsRequest(**SOFTWARE), 4) for _ in range(2)]
    assert first == again
    await client.call(CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)]), 7)
    later = await client.call(ApiVersionsRequest(**SOFTWARE), 4)
    assert later.finalized_features_epoch > first.finalized_features_epoch
    assert later.api_keys == first.api_keys
