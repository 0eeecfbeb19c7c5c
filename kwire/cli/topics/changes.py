"""``kwire topic create``, ``alter`` and ``delete``."""

from __future__ import annotations

import argparse
from typing import Any

from kwire.base.errors import ErrorCode
from kwire.cli import fail
from kwire.cli.configs.requests import DELETE, SET, Change, alter_resource
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import CommandError, check, describe_error
from kwire.cli.output import show
from kwire.cli.topics.rows import AlteredTopic, DeletedTopic, TopicRow, counted
from kwire.codec.messages.create_partitions_request import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.codec.messages.create_topics_request import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kwire.codec.messages.delete_topics_request import DeleteTopicsRequest, DeleteTopicState


async def create_topics(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Create topics; each that fails is named in a line."""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in arguments.config]
    topics = [
        CreatableTopic(
            name=name,
            num_partitions=arguments.partitions,
            replication_factor=arguments.replication_factor,
            configs=configs,
        )
        for name in dict.fromkeys(arguments.names)
    ]
    timeout_ms = int(arguments.timeout * 1000)
    request = CreateTopicsRequest(topics=topics, timeout_ms=timeout_ms, validate_only=arguments.dry_run)
    response = await cluster.until_done(lambda: _created(cluster, request))
    rows, status = [], 0
    for topic in response.topics:
        if topic.error_code == ErrorCode.TOPIC_ALREADY_EXISTS and arguments.if_not_exists:
            continue
        if topic.error_code:
            status = fail(f"topic {topic.name}: {describe_error(topic.error_code, topic.error_message)}")
        else:
            rows.append(TopicRow(topic.name, topic.num_partitions, topic.replication_factor))
    if arguments.output != "table":
        show(rows, arguments.output)
        return status
    for row in rows:
        done = "would be created" if arguments.dry_run else "created"
        print(
            f"{row.name}: {done}, {counted(row.partitions, 'partition')}, replication factor {row.replication_factor}"
        )
    return status


async def _created(cluster: Cluster, request: CreateTopicsRequest) -> Any:
    response = await cluster.call(request)
    for topic in response.topics:
        if topic.error_code == ErrorCode.NOT_CONTROLLER:
            check(topic.error_code, "cluster")
    return response


async def alter_topics(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Add partitions and change configurations; each topic that fails is named in a line."""
    changes = [Change(name, SET, value) for name, value in arguments.config]
    changes += [Change(name, DELETE, None) for name in arguments.delete_config]
    if arguments.partitions is None and not changes:
        raise CommandError("name what to alter: --partitions, --config or --delete-config")
    rows, status = [], 0
    for name in dict.fromkeys(arguments.names):
        try:
            if changes:
                await alter_resource(cluster, "topic", name, changes, dry_run=arguments.dry_run)
            if arguments.partitions is not None:
                await _add_partitions(cluster, name, arguments)
        except CommandError as error:
            if not error.code:
                raise
            status = fail(error)
        else:
            rows.append(AlteredTopic(name, arguments.partitions, {each.name: each.value for each in changes}))
    if arguments.output != "table":
        show(rows, arguments.output)
    else:
        for row in rows:
            print(f"{row.name}: {'would be altered' if arguments.dry_run else 'altered'}")
    return status


async def _add_partitions(cluster: Cluster, name: str, arguments: argparse.Namespace) -> None:
    topic = CreatePartitionsTopic(name=name, count=arguments.partitions, assignments=None)
    timeout_ms = int(arguments.timeout * 1000)
    response = await cluster.call(
        CreatePartitionsRequest(topics=[topic], timeout_ms=timeout_ms, validate_only=arguments.dry_run)
    )
    [result] = response.results
    check(result.error_code, f"topic {name}", result.error_message)


async def delete_topics(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Delete topics; each that fails is named in a line."""
    names = list(dict.fromkeys(arguments.names))
    topics = [DeleteTopicState(name=name) for name in names]
    request = DeleteTopicsRequest(topics=topics, topic_names=names, timeout_ms=int(arguments.timeout * 1000))
    response = await cluster.call(request)
    deleted, status = [], 0
    for topic in response.responses:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and arguments.if_exists:
            continue
        if topic.error_code:
            status = fail(f"topic {topic.name}: {describe_error(topic.error_code)}")
        else:
            deleted.append(DeletedTopic(topic.name))
    if arguments.output != "table":
        show(deleted, arguments.output)
    else:
        for each in deleted:
            print(f"{each.name}: deleted")
    return status
