"""The authorizer of the configuration, and a broker with one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.raw_client import RawClient
from kwire.base.config import ConfigError, KafkaConfig
from kwire.base.doors import Doors
from kwire.base.errors import ErrorCode
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.handlers.acl_authorizer import AclAuthorizer
from kwire.server.access.authorizers import configured_authorizer
from kwire.server.broker import Broker
from tests.server.conftest import Brokers

STANDARD = {"authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer"}


def test_without_a_class_everything_is_allowed() -> None:
    assert configured_authorizer(KafkaConfig()).allows_all
    assert isinstance(configured_authorizer(KafkaConfig(STANDARD)), AclAuthorizer)


@pytest.mark.parametrize(
    ("properties", "named"),
    [
        ({"super.users": "alice"}, "super.users=alice: .*'alice' is not a principal such as User:alice"),
        ({"allow.everyone.if.no.acl.found": "perhaps"}, "allow.everyone.if.no.acl.found=perhaps: must be true or fal"),
    ],
)
def test_wrong_settings_are_one_line(properties: dict[str, str], named: str) -> None:
    config = KafkaConfig({**STANDARD, **properties, "listeners": "PLAINTEXT://localhost:0"})
    with pytest.raises(ConfigError, match=named) as caught:
        configured_authorizer(config)
    assert "\n" not in str(caught.value)


def test_settings_of_the_authorizer_are_supported() -> None:
    config = KafkaConfig({**STANDARD, "super.users": "User:a", "allow.everyone.if.no.acl.found": "TRUE"})
    assert not config.warnings
    assert not config.notes
    configured_authorizer(config)


def acl(name: str, operation: int, principal: str = "User:ANONYMOUS") -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=name,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=3,
    )


async def start(brokers: Brokers, **properties: Any) -> Broker:
    return await brokers.start(**{name.replace(".", "_"): value for name, value in STANDARD.items()}, **properties)


async def test_nothing_is_allowed_to_a_client_without_an_entry(brokers: Brokers) -> None:
    broker = await start(brokers)
    client = await brokers.connect(broker)
    topics = [CreatableTopic(name="orders", num_partitions=1, replication_factor=1)]
    created = await client.call(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)
    assert created.topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    response = await client.call(CreateAclsRequest(creations=[acl("orders", 4)]), 3)
    assert response.results[0].error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def test_entries_are_kept_and_decide_after_a_restart(tmp_path: Path) -> None:
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=False)
    for super_users, code in (("", 29), ("User:ANONYMOUS", 3), ("", 3)):
        given = {"log.dir": str(tmp_path), "listeners": "PLAINTEXT://127.0.0.1:0", "super.users": super_users}
        async with Broker(KafkaConfig({**STANDARD, **given})) as broker:
            client = await _client(broker)
            assert (await client.call(asked, 12)).topics[0].error_code == code
            if super_users:
                await client.call(CreateAclsRequest(creations=[acl("orders", 8)]), 3)
            client.close()


async def _client(broker: Broker) -> RawClient:
    return await RawClient.connect(Doors(), "127.0.0.1", broker.net.listeners[0].address[1], "test")
