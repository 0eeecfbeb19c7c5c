"""``kwire topic list`` and ``kwire topic describe``."""

from __future__ import annotations

import argparse
from typing import Any

from kwire.base.uuids import uuid_to_text
from kwire.cli import fail
from kwire.cli.configs.requests import describe_resources, set_configs
from kwire.cli.connection.cluster import Cluster
from kwire.cli.connection.errors import describe_error
from kwire.cli.output import show
from kwire.cli.topics.rows import DescribedTopic, PartitionRow, TopicRow, counted


async def list_topics(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Topics in alphabetical order."""
    metadata = await cluster.metadata()
    rows = [
        TopicRow(topic.name, len(topic.partitions), max((len(p.replica_nodes) for p in topic.partitions), default=0))
        for topic in metadata.topics
        if not topic.error_code and (arguments.internal or not topic.is_internal)
    ]
    show(sorted(rows), arguments.output)
    return 0


async def describe_topics(cluster: Cluster, arguments: argparse.Namespace) -> int:
    """Partitions and configurations; in tables one after the other."""
    metadata = await cluster.metadata(arguments.names or None)
    found, status = [], 0
    for topic in sorted(metadata.topics, key=lambda each: str(each.name)):
        if topic.error_code:
            status = fail(f"topic {topic.name}: {describe_error(topic.error_code)}")
        elif arguments.names or not topic.is_internal:
            found.append(topic)
    if arguments.under_replicated or arguments.offline:
        found = [topic for topic in found if _in_trouble(topic, arguments)]
    described = await describe_resources(cluster, "topic", [topic.name for topic in found])
    rows = [
        DescribedTopic(
            topic.name,
            uuid_to_text(topic.topic_id),
            topic.is_internal,
            _partitions(topic),
            set_configs("topic", described[topic.name]),
        )
        for topic in found
    ]
    if arguments.output != "table":
        show(rows, arguments.output)
        return status
    for number, row in enumerate(rows):
        if number:
            print()
        _print_topic(row)
    return status


def _in_trouble(topic: Any, arguments: argparse.Namespace) -> bool:
    """Whether any partition is in the trouble that is looked for; others are left out of the topic."""
    topic.partitions = [
        each
        for each in topic.partitions
        if (arguments.offline and each.leader_id < 0)
        or (arguments.under_replicated and len(each.isr_nodes) < len(each.replica_nodes))
    ]
    return bool(topic.partitions)


def _print_topic(topic: DescribedTopic) -> None:
    print(f"{topic.name}  {counted(len(topic.partitions), 'partition')}  id {topic.id}")
    for name, value in topic.configs.items():
        print(f"  {name}={value}")
    offline = any(each.offline_replicas for each in topic.partitions)
    columns = ["partition", "leader", "replicas", "isr", *(["offline_replicas"] if offline else [])]
    show(topic.partitions, "table", columns)


def _partitions(topic: Any) -> list[PartitionRow]:
    rows = [
        PartitionRow(
            each.partition_index,
            each.leader_id if each.leader_id >= 0 else None,
            each.leader_epoch,
            list(each.replica_nodes),
            list(each.isr_nodes),
            list(each.offline_replicas),
        )
        for each in topic.partitions
    ]
    return sorted(rows)
