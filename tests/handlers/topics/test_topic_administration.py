"""CreateTopics, DeleteTopics, CreatePartitions, ElectLeaders and the log directory APIs, by their handlers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kwire.base.config.describe import ConfigEntry, describe_topic
from kwire.base.errors import ErrorCode
from kwire.codec.messages.alter_replica_log_dirs_request import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.create_topics_response import CreatableTopicResult
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState
from kwire.codec.messages.delete_topics_response import DeletableTopicResult
from kwire.codec.messages.describe_log_dirs_request import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.codec.messages.elect_leaders_request import ElectLeadersRequest, TopicPartitions
from kwire.codec.protocol import encode
from kwire.handlers.cluster import alter_replica_log_dirs, describe_log_dirs
from kwire.handlers.topics import create_partitions, create_topics, delete_topics, elect_leaders
from kwire.security.acls.operations import AclOperation
from tests.handlers.admin_broker import AdminBroker, Denying, admin_broker


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[AdminBroker]:
    made = await admin_broker(tmp_path, directories=2)
    yield made
    await made.close()


def topic(name: str, partitions: int = 1, **configs: str) -> CreatableTopic:
    properties = [CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()]
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=properties)


async def create(
    broker: AdminBroker, *topics: CreatableTopic, version: int = 7, **fields: Any
) -> dict[str, CreatableTopicResult]:
    fields.setdefault("timeout_ms", 5000)
    response = await broker.call(create_topics, CreateTopicsRequest(topics=list(topics), **fields), version)
    encode(response, version)
    return {result.name: result for result in response.topics}


def codes(results: Iterable[Any]) -> list[tuple[str | None, str]]:
    return [(each.name, ErrorCode(each.error_code).name) for each in results]


async def test_the_response_has_a_created_topics_numbers_and_properties(broker: AdminBroker) -> None:
    result = (await create(broker, topic("a", 3, retention_ms="7")))["a"]
    assert (result.num_partitions, result.replication_factor, result.error_message) == (3, 1, None)
    assert result.topic_id == broker.image.topics["a"].id
    configs = {config.name: (config.value, config.config_source) for config in result.configs or ()}
    assert configs["retention.ms"] == ("7", 1)
    assert configs["cleanup.policy"] == ("delete", 5)


async def test_properties_that_new_topics_have_in_common_are_described_once(
    broker: AdminBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    described: list[dict[str, str]] = []

    def noted(config: Any, overrides: Mapping[str, str]) -> Iterator[ConfigEntry]:
        described.append(dict(overrides))
        return describe_topic(config, overrides)

    monkeypatch.setattr("kwire.base.config.describe.describe_topic", noted)
    new = [
        topic("a"),
        topic("b", retention_ms="7"),
        topic("c"),
        topic("d", retention_ms="8"),
        topic("e", retention_ms="7"),
    ]
    results = await create(broker, *new)
    assert described == [{}, {"retention.ms": "7"}, {"retention.ms": "8"}]
    values = {
        name: next((each.value, each.config_source) for each in result.configs or () if each.name == "retention.ms")
        for name, result in results.items()
    }
    week = ("604800000", 5)
    assert values == {"a": week, "b": ("7", 1), "c": week, "d": ("8", 1), "e": ("7", 1)}


async def test_properties_are_hidden_from_unauthorised_clients(broker: AdminBroker) -> None:
    broker.replace_services(authorizer=Denying(AclOperation.DESCRIBE_CONFIGS))
    results = await create(broker, topic("secret"), topic("open"))
    assert results["secret"].topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert (results["secret"].num_partitions, results["secret"].configs) == (-1, [])
    assert results["open"].configs


async def test_topics_that_may_not_be_created_are_refused_and_the_others_created(broker: AdminBroker) -> None:
    broker.replace_services(authorizer=Denying(AclOperation.CREATE))
    results = await create(broker, topic("secret"), topic("open"))
    assert codes(results.values()) == [("secret", "TOPIC_AUTHORIZATION_FAILED"), ("open", "NONE")]
    assert list(broker.image.topics) == ["open"]


@pytest.mark.parametrize("version", range(2, 8))
async def test_every_version_of_create_topics_has_success_and_failure(broker: AdminBroker, version: int) -> None:
    results = await create(broker, topic("a"), topic("a/b"), version=version)
    assert codes(results.values()) == [("a", "NONE"), ("a/b", "INVALID_TOPIC_EXCEPTION")]


async def test_the_same_failure_for_all_is_well_formed_in_every_version(broker: AdminBroker) -> None:
    for module, request in (
        (create_topics, CreateTopicsRequest(topics=[topic("a"), topic("a")])),
        (create_partitions, CreatePartitionsRequest(topics=[CreatePartitionsTopic(name="a")])),
        (delete_topics, DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])),
        (elect_leaders, ElectLeadersRequest(topic_partitions=[TopicPartitions(topic="a", partitions=[1])])),
        (alter_replica_log_dirs, moving("/x", "a", [0, 1])),
    ):
        low, high = module.API.served
        for version in range(low, high + 1):
            if module is delete_topics and version < 6:
                request = DeleteTopicsRequest(topic_names=["a"])
            response = module.API.error_response(request, version, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "no")
            assert b"\x00\x1f" in encode(response, version)
            if module is delete_topics:
                request = DeleteTopicsRequest(topics=[DeleteTopicState(name="a")])


async def delete(
    broker: AdminBroker, *topics: DeleteTopicState | str, version: int = 6, **fields: Any
) -> list[DeletableTopicResult]:
    states = [DeleteTopicState(name=topic) if isinstance(topic, str) else topic for topic in topics]
    fields.setdefault("timeout_ms", 5000)
    request = DeleteTopicsRequest(topics=states, **fields)
    if version < 6:
        request = DeleteTopicsRequest(topic_names=[state.name or "" for state in states], **fields)
    response = await broker.call(delete_topics, request, version)
    encode(response, version)
    results: list[DeletableTopicResult] = response.responses
    return results


def by_id(topic_id: bytes) -> DeleteTopicState:
    return DeleteTopicState(name=None, topic_id=topic_id)


async def test_topics_are_deleted_by_name_and_by_id(broker: AdminBroker) -> None:
    made = await create(broker, topic("a"), topic("b"), topic("c"))
    results = await delete(broker, "a", by_id(made["b"].topic_id), "none", by_id(b"x" * 16))
    assert sorted(codes(results), key=str) == [
        ("a", "NONE"),
        ("b", "NONE"),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION"),
        (None, "UNKNOWN_TOPIC_ID"),
    ]
    assert list(broker.image.topics) == ["c"]


@pytest.mark.parametrize(
    "states",
    [
        lambda topic_id: [DeleteTopicState(name=None)],
        lambda topic_id: [DeleteTopicState(name="a", topic_id=topic_id)],
        lambda topic_id: ["a", "a"],
        lambda topic_id: [by_id(topic_id), by_id(topic_id)],
        lambda topic_id: ["a", by_id(topic_id)],
        lambda topic_id: [by_id(topic_id), "a"],
    ],
)
async def test_a_contradictory_request_deletes_nothing(
    broker: AdminBroker, states: Callable[[bytes], list[DeleteTopicState | str]]
) -> None:
    topic_id = (await create(broker, topic("a")))["a"].topic_id
    results = await delete(broker, *states(topic_id))
    assert [ErrorCode(each.error_code).name for each in results] == ["INVALID_REQUEST"]
    assert "a" in broker.image.topics


async def test_deletion_is_refused_to_unauthorised_clients_and_topics_they_may_not_describe_stay_hidden(
    broker: AdminBroker,
) -> None:
    topic_id = (await create(broker, topic("secret")))["secret"].topic_id
    broker.replace_services(authorizer=Denying(AclOperation.DELETE))
    assert codes(await delete(broker, "secret", "secret-missing")) == [
        ("secret", "TOPIC_AUTHORIZATION_FAILED"),
        ("secret-missing", "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert codes(await delete(broker, by_id(topic_id))) == [("secret", "TOPIC_AUTHORIZATION_FAILED")]
    broker.replace_services(authorizer=Denying(AclOperation.DELETE, AclOperation.DESCRIBE))
    assert codes(await delete(broker, by_id(topic_id))) == [(None, "TOPIC_AUTHORIZATION_FAILED")]
    assert "secret" in broker.image.topics


@pytest.mark.parametrize(
    ("version", "code"), [(1, "INVALID_REQUEST"), (2, "INVALID_REQUEST"), (3, "TOPIC_DELETION_DISABLED")]
)
async def test_deletion_can_be_disabled(tmp_path: Path, version: int, code: str) -> None:
    broker = await admin_broker(tmp_path, delete_topic_enable="false")
    await create(broker, topic("a"))
    assert codes(await delete(broker, "a", "b", version=version)) == [("a", code), ("b", code)]
    assert "a" in broker.image.topics
    await broker.close()


@pytest.mark.parametrize("size", [1, 250])
async def test_partitions_are_added_topic_by_topic(
    broker: AdminBroker, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    monkeypatch.setattr(create_partitions, "SLICE_TOPICS", size)
    await create(broker, topic("a"), topic("b"), topic("secret"))
    broker.replace_services(authorizer=Denying(AclOperation.ALTER))
    wanted = [("a", 3), ("b", 2), ("b", 4), ("none", 2), ("secret", 2)]
    topics = [CreatePartitionsTopic(name=name, count=count, assignments=None) for name, count in wanted]
    context = broker.context(3)
    response = await create_partitions.handle(CreatePartitionsRequest(topics=topics, timeout_ms=5000), context)
    assert context.charged == ([bytes(encode(response, 3))] if size == 1 else None)
    assert codes(response.results) == [
        ("a", "NONE"),
        ("b", "INVALID_REQUEST"),
        ("none", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("secret", "TOPIC_AUTHORIZATION_FAILED"),
    ]
    assert [len(broker.image.topics[name].partitions) for name in ("a", "b", "secret")] == [3, 1, 1]
    assert broker.replicas.partition("a", 2).leading


async def test_topics_without_a_needed_election_have_an_empty_list(broker: AdminBroker) -> None:
    await create(broker, topic("a", 2))
    response = await broker.call(elect_leaders, ElectLeadersRequest(topic_partitions=None, timeout_ms=5000))
    assert [(each.topic, each.partition_result) for each in response.replica_election_results] == [("a", [])]
    response = await broker.call(elect_leaders, ElectLeadersRequest(topic_partitions=None, timeout_ms=0))
    assert response.error_code == ErrorCode.REQUEST_TIMED_OUT


def moving(path: str, name: str, partitions: list[int]) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name=name, partitions=partitions)]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=topics)])


async def places(broker: AdminBroker, name: str = "a") -> set[tuple[str, int, bool]]:
    response = await broker.call(describe_log_dirs, DescribeLogDirsRequest(topics=None))
    return {
        (result.log_dir[-2:], each.partition_index, each.is_future_key)
        for result in response.results
        for topic in result.topics
        if topic.name == name
        for each in topic.partitions
    }


async def test_log_directories_list_their_partitions(broker: AdminBroker) -> None:
    await create(broker, topic("a", 2), topic("b"))
    assert {place[1:] for place in await places(broker)} == {(0, False), (1, False)}
    request = DescribeLogDirsRequest(topics=[DescribableLogDirTopic(topic="b", partitions=[0, 5])])
    results = (await broker.call(describe_log_dirs, request)).results
    assert [(topic.name, len(topic.partitions)) for result in results for topic in result.topics] == [("b", 1)]
    assert all(result.total_bytes >= result.usable_bytes > 0 for result in results)


async def test_a_failed_directory_has_an_error_and_gets_no_replicas(broker: AdminBroker) -> None:
    await create(broker, topic("a"))
    failed = broker.logs.directories[1]
    failed.failed = OSError("disk on fire")
    results = (await broker.call(describe_log_dirs, DescribeLogDirsRequest(topics=None))).results
    assert [ErrorCode(result.error_code).name for result in results] == ["NONE", "KAFKA_STORAGE_ERROR"]
    response = await broker.call(alter_replica_log_dirs, moving(failed.path, "a", [0]))
    assert response.results[0].partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    failed.failed = None


async def test_a_replica_moves_and_goes_on_serving(broker: AdminBroker) -> None:
    await create(broker, topic("a"))
    partition = broker.replicas.partition("a", 0)
    here = broker.logs.directory_of("a", 0)
    there = next(each for each in broker.logs.directories if each is not here)
    response = await broker.call(alter_replica_log_dirs, moving(there.path + "/", "a", [0, 3]))
    assert [(each.partition_index, each.error_code) for each in response.results[0].partitions] == [(0, 0), (3, 3)]
    assert (there.path[-2:], 0, True) in await places(broker)
    await asyncio.gather(*(move.task for move in broker.replicas.mover.moves.values()))
    assert await places(broker) == {(there.path[-2:], 0, False)}
    assert broker.replicas.partition("a", 0) is partition
    assert partition.log.directory.startswith(there.path)


async def test_paths_outside_log_dirs_are_refused_first(broker: AdminBroker) -> None:
    for path in ("/nowhere", "d0", ""):
        response = await broker.call(alter_replica_log_dirs, moving(path, "none", [0]))
        assert response.results[0].partitions[0].error_code == ErrorCode.LOG_DIR_NOT_FOUND


def test_handlers_name_the_cluster_operation_they_need() -> None:
    context = SimpleNamespace()
    for module, operation in (
        (elect_leaders, AclOperation.ALTER),
        (alter_replica_log_dirs, AclOperation.ALTER),
        (describe_log_dirs, AclOperation.DESCRIBE),
    ):
        assert [each.operation for each in module.API.operations(None, context)] == [operation]
