"""Describing and altering configuration on a real broker in this process."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from kwire.base import logging
from kwire.base.errors import ErrorCode, KafkaError
from kwire.base.futures import resolved
from kwire.cluster.store.keys import ConfigResource
from kwire.codec.messages.alter_configs_request import AlterableConfig as Text
from kwire.codec.messages.alter_configs_request import AlterConfigsRequest
from kwire.codec.messages.alter_configs_request import AlterConfigsResource as Replaced
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.describe_configs_request import DescribeConfigsRequest, DescribeConfigsResource
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.list_config_resources_request import ListConfigResourcesRequest
from kwire.codec.protocol import decode, encode
from kwire.handlers.configs import alter_configs, describe_configs, incremental_alter_configs, list_config_resources
from kwire.handlers.context import Authorizer, RequestContext
from kwire.handlers.topics import create_topics
from kwire.security.acls.operations import AclOperation, Operation, ResourceType
from kwire.server.broker import Broker

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = 0, 1, 2, 3


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    async with Broker(listeners="PLAINTEXT://127.0.0.1:0", log_dirs=str(tmp_path)) as broker:
        request = CreateTopicsRequest(
            topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)], timeout_ms=5000
        )
        assert (await call(create_topics, request, broker, 7)).topics[0].error_code == 0
        yield broker


async def call(module: Any, request: Any, broker: Broker, version: int) -> Any:
    """The response as the client decodes it."""
    context = RequestContext(broker.services, api_key=int(module.API.key), api_version=version)
    response = await resolved(module.API.handle(request, context))
    return decode(type(response), version, encode(response, version))[0]


async def change(broker: Broker, kind: int, name: str, *changes: Any, validate_only: bool = False) -> str:
    configs = [AlterableConfig(name=key, config_operation=how, value=value) for key, how, value in changes]
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    return ErrorCode((await call(incremental_alter_configs, request, broker, 1)).responses[0].error_code).name


async def describe(broker: Broker, kind: int, name: str, **options: Any) -> dict[str, Any]:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True, **options)
    (result,) = (await call(describe_configs, request, broker, 4)).results
    assert result.error_code == 0, result
    return {entry.name: entry for entry in result.configs}


async def test_a_topics_value_is_stored_described_and_applied(broker: Broker) -> None:
    assert await change(broker, TOPIC, "t", ("retention.ms", SET, "1000"), ("flush.ms", SET, "7")) == "NONE"
    entry = (await describe(broker, TOPIC, "t"))["retention.ms"]
    assert (entry.value, entry.config_source) == ("1000", 1)
    assert broker.replicas.partition("t", 0).log.config.retention_ms == 1000
    assert await change(broker, TOPIC, "t", ("retention.ms", DELETE, None)) == "NONE"
    assert dict(broker.services.image.topic_config("t")) == {"flush.ms": "7"}
    assert broker.replicas.partition("t", 0).log.config.retention_ms == 604_800_000


async def test_concurrent_appends_do_not_undo_each_other(broker: Broker) -> None:
    name = "leader.replication.throttled.replicas"
    changes = [change(broker, TOPIC, "t", (name, APPEND, f"{number}:1")) for number in range(8)]
    assert await asyncio.gather(*changes) == ["NONE"] * 8
    assert set(broker.services.image.topic_config("t")[name].split(",")) == {f"{number}:1" for number in range(8)}


async def test_appending_to_an_unset_property_starts_from_the_default(broker: Broker) -> None:
    assert await change(broker, TOPIC, "t", ("cleanup.policy", APPEND, "compact")) == "NONE"
    assert broker.services.image.topic_config("t")["cleanup.policy"] == "delete,compact"
    assert await change(broker, TOPIC, "t", ("cleanup.policy", SUBTRACT, "delete")) == "NONE"
    assert broker.services.image.topic_config("t")["cleanup.policy"] == "compact"


async def test_times_of_logins_may_be_set_for_a_broker(broker: Broker) -> None:
    assert await change(broker, BROKER, "1", ("sasl.kerberos.min.time.before.relogin", SET, "58000")) == "NONE"


@pytest.mark.parametrize(
    ("kind", "name", "changes", "error"),
    [
        (TOPIC, "t", [("no.such", SET, "1")], "INVALID_CONFIG"),
        (TOPIC, "t", [("flush.ms", SET, None)], "INVALID_REQUEST"),
        (TOPIC, "t", [("flush.ms", SET, "1"), ("flush.ms", DELETE, None)], "INVALID_REQUEST"),
        (TOPIC, "t", [("flush.ms", APPEND, "1")], "INVALID_CONFIG"),
        (TOPIC, "t", [("flush.ms", 9, "1")], "INVALID_REQUEST"),
        (TOPIC, "nope", [("flush.ms", SET, "1")], "UNKNOWN_TOPIC_OR_PARTITION"),
        (TOPIC, "", [("flush.ms", SET, "1")], "INVALID_REQUEST"),
        (BROKER, "1", [("node.id", SET, "2")], "INVALID_REQUEST"),
        (BROKER, "2", [("max.connections", SET, "2")], "INVALID_REQUEST"),
        (BROKER, "9" * 400, [("max.connections", SET, "2")], "INVALID_REQUEST"),
        (BROKER, "1", [("listener.name.plaintext.sasl.jaas.config", SET, "secret")], "INVALID_REQUEST"),
        (BROKER, "", [("sasl.kerberos.min.time.before.relogin", SET, "58000")], "INVALID_REQUEST"),
        (BROKER, "1", [("ssl.truststore.location", SET, "/x")], "INVALID_REQUEST"),
        (BROKER, "1", [("sasl.login.class", SET, "x")], "INVALID_REQUEST"),
        (BROKER, "", [("min.insync.replicas", DELETE, None)], "INVALID_CONFIG"),
        (CLIENT_METRICS, "m", [("match", SET, "client_id=" + "(" * 900)], "INVALID_CONFIG"),
        (GROUP, "g", [("consumer.session.timeout.ms", SET, "1")], "INVALID_CONFIG"),
        (LOGGER, "1", [("root", DELETE, None)], "INVALID_REQUEST"),
        (3, "x", [], "INVALID_REQUEST"),
    ],
)
async def test_what_is_refused_changes_nothing(
    broker: Broker, kind: int, name: str, changes: list[Any], error: str
) -> None:
    before = broker.services.image.configs
    assert await change(broker, kind, name, *changes) == error
    assert broker.services.image.configs == before


async def test_a_brokers_value_changes_what_it_runs_with(broker: Broker) -> None:
    assert await change(broker, BROKER, "", ("log.retention.ms", SET, "1000")) == "NONE"
    assert broker.config.log_retention_ms == 1000
    assert broker.replicas.partition("t", 0).log.config.retention_ms == 1000
    assert await change(broker, BROKER, "1", ("log.retention.ms", SET, "2000")) == "NONE"
    entry = (await describe(broker, BROKER, "1"))["log.retention.ms"]
    assert [(each.value, each.source) for each in entry.synonyms] == [("2000", 2), ("1000", 3), ("168", 5)]
    assert await change(broker, BROKER, "1", ("log.retention.ms", SET, "0"), validate_only=True) == "INVALID_REQUEST"


async def test_an_unknown_property_is_stored_and_its_value_never_shown(broker: Broker) -> None:
    assert await change(broker, BROKER, "1", ("my.plugin.password", SET, "secret")) == "NONE"
    entry = (await describe(broker, BROKER, "1"))["my.plugin.password"]
    assert (entry.value, entry.is_sensitive, entry.synonyms[0].value) == (None, True, None)


async def test_levels_of_loggers_are_switched_and_validated_together(broker: Broker) -> None:
    logger = logging.get_logger("kwire.handlers.test")
    try:
        assert await change(broker, LOGGER, "1", (logger.name, SET, "DEBUG"), ("root", SET, "LOUD")) == "INVALID_CONFIG"
        assert await change(broker, LOGGER, "1", (logger.name, SET, "DEBUG"), validate_only=True) == "NONE"
        assert logger.level == logging.LEVELS["INFO"]
        assert await change(broker, LOGGER, "1", (logger.name, SET, "DEBUG")) == "NONE"
        assert (await describe(broker, LOGGER, "1"))[logger.name].value == "DEBUG"
        assert await change(broker, LOGGER, "1", (logger.name, DELETE, None)) == "NONE"
        assert logger.level == logging.LEVELS["INFO"]
    finally:
        logging.unset_level(logger.name)


async def test_every_topic_property_has_documentation(broker: Broker) -> None:
    described = await describe(broker, TOPIC, "t", include_documentation=True)
    assert all(entry.documentation for entry in described.values())


async def test_replacing_unsets_what_is_not_named(broker: Broker) -> None:
    assert await change(broker, TOPIC, "t", ("flush.ms", SET, "1")) == "NONE"
    resource = Replaced(resource_type=TOPIC, resource_name="t", configs=[Text(name="segment.ms", value="60000")])
    response = await call(alter_configs, AlterConfigsRequest(resources=[resource]), broker, 2)
    assert response.responses[0].error_code == 0
    assert dict(broker.services.image.topic_config("t")) == {"segment.ms": "60000"}


async def test_replacing_cannot_change_key_stores(broker: Broker) -> None:
    name = "listener.name.ssl.ssl.keystore.location"
    resource = Replaced(resource_type=BROKER, resource_name="1", configs=[Text(name=name, value="/tmp/any.pem")])
    response = await call(alter_configs, AlterConfigsRequest(resources=[resource]), broker, 2)
    assert response.responses[0].error_code == ErrorCode.INVALID_REQUEST
    assert not broker.services.image.config(ConfigResource.BROKER, "1")


async def test_a_controller_that_is_away_fails_only_what_needs_it(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(*_: object, **__: object) -> None:
        raise KafkaError(ErrorCode.NOT_CONTROLLER)

    monkeypatch.setattr(broker.services.controller, "alter_configs", away)
    configs = [AlterableConfig(name="flush.ms", config_operation=SET, value="1")]
    names = ["t", "no/such"]
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=configs) for name in names]
    request = IncrementalAlterConfigsRequest(resources=resources)
    response = await call(incremental_alter_configs, request, broker, 1)
    assert [each.error_code for each in response.responses] == [
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ]


class OnlyCluster(Authorizer):
    """Allows everything on the cluster and nothing else."""

    allows_all = False

    def authorize(self, context: RequestContext, operation: Operation, purpose: object = None) -> bool:
        assert operation.operation in (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS)
        return operation.resource_type is ResourceType.CLUSTER


async def test_each_resource_type_requires_its_own_operation(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Broker, "services", dataclasses.replace(broker.services, authorizer=OnlyCluster()))
    assert await change(broker, TOPIC, "t", ("flush.ms", SET, "1")) == "TOPIC_AUTHORIZATION_FAILED"
    assert await change(broker, GROUP, "g") == "GROUP_AUTHORIZATION_FAILED"
    assert await change(broker, BROKER, "1") == "NONE"
    kinds = [(TOPIC, "t"), (GROUP, "g"), (CLIENT_METRICS, "m")]
    resources = [DescribeConfigsResource(resource_type=kind, resource_name=name) for kind, name in kinds]
    response = await call(describe_configs, DescribeConfigsRequest(resources=resources), broker, 4)
    assert [ErrorCode(each.error_code).name for each in response.results] == [
        "TOPIC_AUTHORIZATION_FAILED",
        "GROUP_AUTHORIZATION_FAILED",
        "NONE",
    ]


async def test_a_failed_request_has_the_error_for_every_resource(broker: Broker) -> None:
    resources = [AlterConfigsResource(resource_type=TOPIC, resource_name="t"), AlterConfigsResource(resource_type=3)]
    request = IncrementalAlterConfigsRequest(resources=resources)
    refused = incremental_alter_configs.API.error_response(request, 1, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
    assert [(each.error_code, each.error_message) for each in refused.responses] == [(31, "no")] * 2
    described = DescribeConfigsRequest(resources=[DescribeConfigsResource(resource_type=TOPIC, resource_name="t")])
    assert (
        describe_configs.API.error_response(described, 4, ErrorCode.UNKNOWN_SERVER_ERROR, None).results[0].error_code
        == -1
    )


async def test_listing_names_only_those_groups_for_which_something_is_set(broker: Broker) -> None:
    assert await change(broker, GROUP, "g", ("consumer.session.timeout.ms", SET, "46000")) == "NONE"
    assert broker.services.image.config(ConfigResource.GROUP, "g")
    response = await call(list_config_resources, ListConfigResourcesRequest(resource_types=[GROUP, TOPIC]), broker, 1)
    listed = [(each.resource_type, each.resource_name) for each in response.config_resources]
    assert [each for each in listed if not each[1].startswith("__")] == [(TOPIC, "t"), (GROUP, "g")]
    response = await call(list_config_resources, ListConfigResourcesRequest(resource_types=[99]), broker, 1)
    assert response.error_code == ErrorCode.UNSUPPORTED_VERSION
