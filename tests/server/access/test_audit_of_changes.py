"""The lines of `kwire.audit`: who has changed what. One line per change, wherever the controller is, and no secrets."""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Generator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, cast

import pytest

from harness.services import services_with
from kwire.base import logging
from kwire.base.futures import is_later
from kwire.codec.messages.alter_client_quotas_request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kwire.codec.messages.alter_client_quotas_response import AlterClientQuotasResponse
from kwire.codec.messages.alter_client_quotas_response import EntityData as ResultEntity
from kwire.codec.messages.alter_client_quotas_response import EntryData as ResultData
from kwire.codec.messages.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.codec.messages.create_acls_request import AclCreation, CreateAclsRequest
from kwire.codec.messages.create_delegation_token_request import CreateDelegationTokenRequest
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from kwire.codec.messages.create_topics_response import CreatableTopicResult, CreateTopicsResponse
from kwire.codec.messages.delete_acls_request import DeleteAclsFilter, DeleteAclsRequest
from kwire.codec.messages.delete_groups_request import DeleteGroupsRequest
from kwire.codec.messages.delete_records_request import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.incremental_alter_configs_request import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.codec.messages.metadata_request import MetadataRequest, MetadataRequestTopic
from kwire.codec.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from kwire.codec.protocol import ApiKey
from kwire.handlers.api import Api
from kwire.handlers.audit import changes
from kwire.handlers.audit.changes import CHANGES, LOGGER_NAME
from kwire.handlers.context import RequestContext
from kwire.handlers.registry import Registry
from tests.server.access.guarded_cluster import GuardedCluster

CONTROLLER, OTHER = 1, 2


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[GuardedCluster]:
    async with AsyncExitStack() as stack:
        cluster = GuardedCluster(tmp_path, stack)
        await cluster.start(CONTROLLER, delegation_token_secret_key="the secret of tokens")
        await cluster.start(OTHER, delegation_token_secret_key="the secret of tokens")
        yield cluster


class Written:
    """What is logged from now on."""

    def __init__(self) -> None:
        self._stream = io.StringIO()
        logging.configure(stream=self._stream, as_json=True)

    def text(self) -> str:
        """All lines since the last call."""
        text = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return text

    def changes(self) -> list[dict[str, Any]]:
        """The lines about changes since the last call, without what all lines have."""
        lines = [json.loads(line) for line in self.text().splitlines()]
        common = ("timestamp", "level", "logger", "principal", "host", "client_id", "listener")
        return [
            {name: value for name, value in line.items() if name not in common}
            for line in lines
            if line["logger"] == LOGGER_NAME
        ]


@pytest.fixture
def written() -> Any:
    yield Written()
    logging.configure()


def topic(name: str, **options: Any) -> CreateTopicsRequest:
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
    return CreateTopicsRequest(topics=topics, timeout_ms=5000, **options)


@pytest.mark.parametrize("broker", [CONTROLLER, OTHER])
async def test_a_change_is_one_line_that_names_the_client(
    cluster: GuardedCluster, written: Written, broker: int
) -> None:
    client = await cluster.log_in(broker, "root")
    assert (await client.call(topic("orders"), 7)).topics[0].error_code == 0
    lines = [json.loads(line) for line in written.text().splitlines()]
    (line,) = [each for each in lines if each["logger"] == LOGGER_NAME]
    del line["timestamp"]
    assert line == {
        "level": "INFO",
        "logger": "kwire.audit",
        "event": "topic created",
        "topic": "orders",
        "principal": "User:root",
        "host": "127.0.0.1",
        "client_id": "test",
        "listener": "CLIENTS",
    }


async def test_lines_of_many_changes_are_written_in_slices(written: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "SLICE_LINES", 2)
    monkeypatch.setattr(changes, "LINES_MAX", 5)
    response = CreateTopicsResponse(topics=[CreatableTopicResult(name=f"t{number}") for number in range(7)])
    api = changes.audited(Api(ApiKey.CREATE_TOPICS, served=(2, 7), handle=lambda _request, _context: response))
    result = api.handle(CreateTopicsRequest(), RequestContext(services_with()))
    assert is_later(result)
    steps = cast("Generator[None, None, Any]", result.__await__())
    lines = [len(written.changes())]
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert end.value is response
            break
        lines.append(len(written.changes()))
    assert [*lines, len(written.changes())] == [2, 0, 2, 2]  # one for each of five, and one that counts the others


async def test_what_was_refused_or_only_validated_is_no_change(cluster: GuardedCluster, written: Written) -> None:
    alice, root = await cluster.log_in(OTHER, "alice"), await cluster.log_in(OTHER, "root")
    assert (await alice.call(topic("orders"), 7)).topics[0].error_code != 0
    assert (await root.call(topic("orders", validate_only=True), 7)).topics[0].error_code == 0
    assert (await root.call(DeleteGroupsRequest(groups_names=["none"]), 2)).results[0].error_code != 0
    assert written.changes() == []


async def test_topics_configurations_and_acls(cluster: GuardedCluster, written: Written) -> None:
    client = await cluster.log_in(OTHER, "root")
    automatic = MetadataRequest(topics=[MetadataRequestTopic(name="auto")], allow_auto_topic_creation=True)
    await client.call(automatic, 12)
    assert written.changes() == [{"event": "topic created", "topic": "auto", "automatically": True}]
    added = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="auto", count=3, assignments=None)])
    added.timeout_ms = 5000
    await client.call(added, 3)
    assert written.changes() == [{"event": "partitions added", "topic": "auto", "partitions": 3}]
    changed = {"retention.ms": 0, "segment.bytes": 1, "cleanup.policy": 2}
    configs = [
        AlterableConfig(name=name, config_operation=what, value=None if what == 1 else ("7654321", "", "compact")[what])
        for name, what in changed.items()
    ]
    resource = AlterConfigsResource(resource_type=2, resource_name="auto", configs=configs)
    answer = await client.call(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    assert answer.responses[0].error_code == 0, answer
    text = written.text()
    properties = {"set": ["retention.ms"], "deleted": ["segment.bytes"], "appended": ["cleanup.policy"]}
    assert f'"resource": "topic", "name": "auto", "properties": {json.dumps(properties)}' in text
    assert "7654321" not in text, "values may be secret"
    deleted = DeleteTopicsRequest(topics=[DeleteTopicState(name="auto")], timeout_ms=5000)
    await client.call(deleted, 6)
    assert written.changes() == [{"event": "topic deleted", "topic": "auto"}]
    entry = AclCreation(
        resource_type=2, resource_name="orders", principal="User:a", host="*", operation=3, permission_type=3
    )
    await client.call(CreateAclsRequest(creations=[entry]), 3)
    acl = {
        "acl_principal": "User:a",
        "acl_host": "*",
        "permission": "ALLOW",
        "operation": "READ",
        "resource": "TOPIC:LITERAL:orders",
    }
    assert written.changes() == [{"event": "ACL added", **acl}]
    names: dict[str, Any] = dict.fromkeys(("resource_name_filter", "principal_filter", "host_filter"))
    every = DeleteAclsFilter(resource_type_filter=1, pattern_type_filter=1, operation=1, permission_type=1, **names)
    await client.call(DeleteAclsRequest(filters=[every, every]), 3)
    assert written.changes() == [{"event": "ACL deleted", **acl}]


async def test_credentials_and_tokens_without_their_secrets(cluster: GuardedCluster, written: Written) -> None:
    client = await cluster.log_in(OTHER, "root")
    new = ScramCredentialUpsertion(
        name="carol", mechanism=1, iterations=4096, salt=b"planted-salt", salted_password=b"planted-password".ljust(32)
    )
    request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[new])
    assert (await client.call(request, 0)).results[0].error_code == 0
    token = await client.call(CreateDelegationTokenRequest(owner_principal_type=None, owner_principal_name=None), 3)
    assert token.error_code == 0
    assert (await client.call(RenewDelegationTokenRequest(hmac=token.hmac, renew_period_ms=-1), 2)).error_code == 0
    gone = AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name="carol", mechanism=1)])
    gone.upsertions = []
    assert (await client.call(gone, 0)).results[0].error_code == 0
    text = written.text()
    events = [json.loads(line)["event"] for line in text.splitlines() if f'"{LOGGER_NAME}"' in line]
    assert events == [
        "credential set",
        "delegation token created",
        "delegation token renewed",
        "credential deleted",
    ]
    assert token.token_id in text
    for secret in ("planted", token.hmac.hex(), str(bytes(token.hmac))):
        assert secret not in text


async def test_quotas_and_records(cluster: GuardedCluster, written: Written) -> None:
    client = await cluster.log_in(CONTROLLER, "root")
    entity = [EntityData(entity_type="user", entity_name="alice")]
    entry = EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=1000.0, remove=False)])
    await client.call(AlterClientQuotasRequest(entries=[entry], validate_only=False), 1)
    (line,) = written.changes()
    assert line == {
        "event": "quotas changed",
        "entity": {"user": "alice"},
        "quotas": {"producer_byte_rate": 1000.0},
    }
    await client.call(topic("orders"), 7)
    leader = cluster.brokers[CONTROLLER].metadata.image.topics["orders"].partitions[0].leader
    holder = await cluster.log_in(leader, "root")
    written.text()
    partition = DeleteRecordsPartition(partition_index=0, offset=-1)
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=[partition])], timeout_ms=5000)
    await holder.call(request, 2)
    assert written.changes() == [{"event": "records deleted", "topic": "orders", "first_offsets": {"0": 0}}]


def test_each_line_has_the_quotas_that_were_asked_for_its_entity() -> None:
    """Whatever the order in the response, whose entities may also have their names in another order."""

    def entry(rate: float, **names: str) -> EntryData:
        entity = [EntityData(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in names.items()]
        return EntryData(entity=entity, ops=[OpData(key="producer_byte_rate", value=rate, remove=not rate)])

    def result(code: int, **names: str) -> ResultData:
        entity = [ResultEntity(entity_type=kind.replace("_", "-"), entity_name=name) for kind, name in names.items()]
        return ResultData(error_code=code, error_message=None, entity=entity)

    request = AlterClientQuotasRequest(
        entries=[entry(1, user="a"), entry(2, user="b", client_id="c"), entry(3, user="d"), entry(0, user="e")],
        validate_only=False,
    )
    results = [result(42, user="d"), result(0, user="e"), result(0, user="a"), result(0, client_id="c", user="b")]
    response = AlterClientQuotasResponse(entries=results)
    lines = [what for _, what in CHANGES[ApiKey.ALTER_CLIENT_QUOTAS](request, response)]
    assert lines == [
        {"entity": {"user": "e"}, "quotas": {"producer_byte_rate": None}},
        {"entity": {"user": "a"}, "quotas": {"producer_byte_rate": 1}},
        {"entity": {"user": "b", "client-id": "c"}, "quotas": {"producer_byte_rate": 2}},
    ]


def test_every_api_that_administers_is_audited() -> None:
    """The APIs that change nothing, or only what belongs to the client itself."""
    served = {ApiKey(key) for key, _, _ in Registry().advertised()}
    others = {key for key in served if key not in CHANGES and key != ApiKey.DELETE_SHARE_GROUP_STATE}  # of brokers
    words = ("CREATE", "DELETE", "ALTER", "UPDATE", "ELECT", "RENEW", "EXPIRE", "UNREGISTER")
    assert not [key.name for key in others if key.name.startswith(words)]
    assert set(CHANGES) <= served
